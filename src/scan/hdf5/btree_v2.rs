//! Version 2 B-trees: records of dense links and attributes, of large objects, and of chunks.

use super::file::{Cursor, File, UNDEFINED};
use super::fractal_heap::bytes_for;
use crate::Result;

/// Levels of a tree, at most.
const MAX_DEPTH: usize = 32;

struct Level {
    max_records: u64,
    /// Bytes of the total number of records below a child.
    total_bytes: usize,
}

/// Calls `sink` with every record of the tree at `address`, in order. An undefined address is an empty tree.
///
/// # Errors
/// [`crate::Error::Format`] if it is damaged; whatever `sink` returns.
pub fn records(file: &File, address: u64, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if address == UNDEFINED {
        return Ok(());
    }
    let damaged = || file.damaged(address, "a version 2 B-tree");
    let length = 4 + 1 + 1 + 4 + 2 + 2 + 2 + file.offset_size + 2 + file.length_size;
    let bytes = file.read_checked(address, length as u64, "a version 2 B-tree")?;
    let mut c = Cursor::new(&bytes);
    let parsed = (|| {
        c.expect(b"BTHD\0")?;
        c.byte()?;
        let node_size = c.u32()?;
        let record_size = c.u16()?;
        let depth = c.u16()?;
        c.skip(2)?;
        let root = c.address(file.offset_size)?;
        let count = c.u16()?;
        Some((u64::from(node_size), u64::from(record_size), usize::from(depth), root, u64::from(count)))
    })();
    let (node_size, record_size, depth, root, count) = parsed.ok_or_else(damaged)?;
    if record_size == 0 || node_size < 10 + record_size || depth > MAX_DEPTH {
        return Err(damaged());
    }
    if root == UNDEFINED || count == 0 {
        return Ok(());
    }
    let mut levels = vec![Level { max_records: (node_size - 10) / record_size, total_bytes: 0 }];
    let count_bytes = bytes_for(levels[0].max_records);
    let mut total = levels[0].max_records;
    for level in 0..depth {
        let pointer = (file.offset_size + count_bytes + levels[level].total_bytes) as u64;
        let max_records = node_size.checked_sub(10 + pointer).ok_or_else(damaged)? / (record_size + pointer);
        total = (max_records + 1).saturating_mul(total).saturating_add(max_records);
        levels.push(Level { max_records, total_bytes: bytes_for(total) });
    }
    let mut walk = Walk { file, levels, count_bytes, node_size, record_size, budget: file.size() };
    walk.node(root, count, depth, sink)
}

struct Walk<'a> {
    file: &'a File,
    levels: Vec<Level>,
    count_bytes: usize,
    node_size: u64,
    record_size: u64,
    /// Bytes of nodes that can still be in the file: a tree with cycles, or with one node many times, ends.
    budget: u64,
}

impl Walk<'_> {
    fn node(
        &mut self,
        address: u64,
        count: u64,
        depth: usize,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let file = self.file;
        let damaged = || file.damaged(address, "a node of a version 2 B-tree");
        if count > self.levels[depth].max_records {
            return Err(damaged());
        }
        let size = self.record_size as usize;
        let pointer = match depth {
            0 => 0,
            d => file.offset_size + self.count_bytes + self.levels[d - 1].total_bytes,
        };
        let length = 6 + count as usize * size + if depth > 0 { (count as usize + 1) * pointer } else { 0 };
        if length as u64 > self.node_size {
            return Err(damaged());
        }
        self.budget = self.budget.checked_sub(length as u64).ok_or_else(damaged)?;
        let bytes = file.read_checked(address, length as u64, "a node of a version 2 B-tree")?;
        let mut c = Cursor::new(&bytes);
        c.expect(if depth == 0 { b"BTLF" } else { b"BTIN" }).ok_or_else(damaged)?;
        c.skip(2).ok_or_else(damaged)?;
        let records = c.take(count as usize * size).ok_or_else(damaged)?;
        let mut records = records.chunks_exact(size);
        if depth == 0 {
            return records.try_for_each(sink);
        }
        for i in 0..=count {
            let child = (|| {
                let address = c.address(file.offset_size)?;
                let n = c.uint(self.count_bytes)?;
                c.skip(self.levels[depth - 1].total_bytes)?;
                Some((address, n))
            })();
            let (child, n) = child.ok_or_else(damaged)?;
            self.node(child, n, depth - 1, sink)?;
            if i < count {
                sink(records.next().ok_or_else(damaged)?)?;
            }
        }
        Ok(())
    }
}
