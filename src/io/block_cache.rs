//! Reads of metadata through blocks: many small reads near each other become few.

use super::ByteReader;
use crate::{Error, Result};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: u64 = 32 << 10;
/// Blocks kept.
const KEPT: usize = 256;
/// A run of blocks that are missing is read at once, up to this many.
const RUN: u64 = KEPT as u64 / 2;
/// Where blocks are read one after the other, each read is twice as long as the one before, up to this many blocks.
const AHEAD: u64 = 32;
/// A file of no more blocks than this is read whole.
const WHOLE: u64 = 8;

/// A file seen through a bounded cache of blocks; of one thread.
pub struct BlockCache {
    reader: Arc<dyn ByteReader>,
    size: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    /// The block after the last read.
    next: u64,
    /// Blocks of the last read.
    ahead: u64,
}

impl BlockCache {
    /// A cache over `reader`.
    ///
    /// # Errors
    /// [`Error::Io`] if the size can't be had.
    pub fn new(reader: Arc<dyn ByteReader>) -> Result<BlockCache> {
        let size = reader.size()?;
        Ok(BlockCache { reader, size, state: RefCell::default() })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The file itself.
    pub fn reader(&self) -> &Arc<dyn ByteReader> {
        &self.reader
    }

    /// `length` bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::Format`] if the file has not that many; [`Error::Io`].
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size).ok_or_else(|| Error::Format {
            path: self.reader.path().to_owned(),
            offset,
            what: format!("{length} bytes of metadata reach beyond the end of the file ({} bytes)", self.size),
        })?;
        let mut out = Vec::with_capacity(length);
        let state = &mut *self.state.borrow_mut();
        let mut at = offset;
        while at < end {
            let number = at / BLOCK;
            if !state.blocks.contains_key(&number) {
                self.load(state, number, (end - 1) / BLOCK)?;
            }
            let Some(block) = state.blocks.get(&number) else { break };
            let from = (at - number * BLOCK) as usize;
            let to = block.len().min((end - number * BLOCK) as usize);
            out.extend_from_slice(&block[from..to]);
            at = number * BLOCK + to as u64;
        }
        Ok(out)
    }

    /// Reads the missing blocks from `first` on, up to `last` or somewhat further, in one go.
    fn load(&self, state: &mut State, first: u64, last: u64) -> Result<()> {
        let final_block = (self.size - 1) / BLOCK;
        let ahead = match (final_block < WHOLE, first == state.next) {
            (true, _) => WHOLE,
            (false, true) => (state.ahead * 2).clamp(1, AHEAD),
            (false, false) => 1,
        };
        let ahead = ahead.max(self.reader.worth_reading() / BLOCK);
        let last = last.max(first + ahead - 1).min(final_block);
        let mut end = first + 1;
        while end <= last && end - first < RUN && !state.blocks.contains_key(&end) {
            end += 1;
        }
        (state.next, state.ahead) = (end, end - first);
        let from = first * BLOCK;
        let mut bytes = vec![0; ((end * BLOCK).min(self.size) - from) as usize];
        self.reader.read_at(from, &mut bytes)?;
        let blocks =
            if end - first == 1 { vec![bytes] } else { bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec).collect() };
        for (number, block) in (first..end).zip(blocks) {
            if state.blocks.insert(number, block).is_none() {
                state.order.push_back(number);
            }
            if state.order.len() > KEPT
                && let Some(oldest) = state.order.pop_front()
            {
                state.blocks.remove(&oldest);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Memory(Vec<u8>, Mutex<Vec<(u64, usize)>>);

    impl ByteReader for Memory {
        fn size(&self) -> Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.1.lock().unwrap().push((offset, buf.len()));
            buf.copy_from_slice(&self.0[offset as usize..offset as usize + buf.len()]);
            Ok(())
        }
        fn path(&self) -> &str {
            "memory"
        }
    }

    #[test]
    fn any_range() {
        let data: Vec<u8> = (0..20_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let cache = BlockCache::new(Arc::new(Memory(data.clone(), Mutex::default()))).unwrap();
        for (offset, length) in
            [(0, 0), (0, 10), (32_760, 20), (19_999_990, 10), (5_000_000, 12_000_000), (20_000_000, 0), (7, 100_000)]
        {
            assert!(cache.read(offset, length).unwrap() == data[offset as usize..offset as usize + length]);
        }
        for (offset, length) in [(20_000_000, 1), (u64::MAX, 2), (0, 20_000_001)] {
            assert!(cache.read(offset, length).is_err());
        }
    }

    #[test]
    fn few_reads() {
        let reads = |size: usize, at: &[u64]| {
            let memory = Arc::new(Memory(vec![0; size], Mutex::default()));
            let cache = BlockCache::new(memory.clone()).unwrap();
            at.iter().for_each(|at| assert_eq!(cache.read(*at, 8).unwrap(), [0; 8]));
            let reads = memory.1.lock().unwrap();
            reads.clone()
        };
        let block = BLOCK as usize;
        // A small file: once.
        assert_eq!(reads(200_000, &[100_000, 8, 199_992]), [(98_304, 101_696), (0, 98_304)]);
        assert_eq!(reads(200_000, &[0, 100_000, 199_992]), [(0, 200_000)]);
        // Here and there in a large one: a block each.
        assert_eq!(reads(50 << 20, &[0, 10 << 20, 5 << 20]), [(0, block), (10 << 20, block), (5 << 20, block)]);
        // One after the other: ever longer reads.
        let places: Vec<u64> = (0..50 << 20).step_by(1000).map(|at| at & !7).collect();
        assert!(reads(50 << 20, &places).len() < 60);
    }
}
