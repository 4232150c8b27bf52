//! Global heaps: where variable-length values are.

use super::file::{Cursor, File, UNDEFINED};
use crate::Result;
use std::collections::HashMap;

/// Collections of global heaps, read once each, a bounded number at a time.
#[derive(Default)]
pub struct GlobalHeap {
    collections: HashMap<u64, HashMap<u32, Vec<u8>>>,
    bytes: u64,
}

/// Bytes of collections held at a time.
const KEPT: u64 = 64 << 20;

impl GlobalHeap {
    /// The bytes behind a variable-length value: its length (in items of `item` bytes), the address of a collection, the
    /// number of an object there.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if the value points nowhere.
    pub fn item(&mut self, file: &File, reference: &[u8], item: u64) -> Result<Vec<u8>> {
        let mut c = Cursor::new(reference);
        let fields = (|| Some((u64::from(c.u32()?), c.address(file.offset_size)?, c.u32()?)))();
        let damaged = || file.damaged(file.root, "a variable-length value");
        let (count, address, index) = fields.ok_or_else(damaged)?;
        let length = count.checked_mul(item).ok_or_else(damaged)?;
        if length == 0 || address == UNDEFINED || (address == 0 && index == 0) {
            return Ok(Vec::new());
        }
        if !self.collections.contains_key(&address) {
            self.load(file, address)?;
        }
        self.collections
            .get(&address)
            .and_then(|objects| objects.get(&index))
            .and_then(|object| object.get(..usize::try_from(length).ok()?))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| file.error(address, format!("object {index} of a global heap is missing or too short")))
    }

    fn load(&mut self, file: &File, address: u64) -> Result<()> {
        let damaged = || file.damaged(address, "a global heap");
        let head = file.read(address, 8 + file.length_size)?;
        let mut c = Cursor::new(&head);
        let size = (|| {
            c.expect(b"GCOL")?;
            c.skip(4)?;
            c.uint(file.length_size)
        })();
        let size = size.filter(|s| *s <= file.available(address)).ok_or_else(damaged)?;
        if self.bytes.saturating_add(size) > KEPT {
            self.collections.clear();
            self.bytes = 0;
        }
        let bytes = file.read(address, size as usize)?;
        let mut c = Cursor::new(&bytes);
        c.skip(8 + file.length_size).ok_or_else(damaged)?;
        let mut objects = HashMap::new();
        while c.rest().len() >= 8 + file.length_size {
            let fields = (|| {
                let index = c.u16()?;
                c.skip(6)?;
                Some((index, c.uint(file.length_size)?))
            })();
            let Some((index, length)) = fields else { break };
            // Object 0 is the free space: the end.
            if index == 0 {
                break;
            }
            let padded =
                usize::try_from(length).ok().and_then(|l| l.checked_next_multiple_of(8)).ok_or_else(damaged)?;
            let rest = c.rest();
            let data = rest.get(..length as usize).ok_or_else(damaged)?.to_vec();
            objects.insert(u32::from(index), data);
            c.skip(padded.min(rest.len())).ok_or_else(damaged)?;
        }
        self.bytes += size;
        self.collections.insert(address, objects);
        Ok(())
    }
}
