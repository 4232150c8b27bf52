//! A version 1 B-tree of chunks (node type 1): section III.A.1, "Version 1 B-trees".

use super::super::file::{Cursor, UNDEFINED};
use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    pub(super) fn btree1(&self, address: u64, level: Option<u8>, key: &mut [u64], sink: &mut Sink<'_>) -> Result<()> {
        let (file, rank) = (self.file, self.chunked.shape.len());
        let damaged = || file.damaged(address, "a version 1 B-tree of chunks");
        let head = file.read(address, 8)?;
        let own_level = head[5];
        // Levels go down by one: no cycle.
        if !head.starts_with(b"TREE\x01") || level.is_some_and(|l| l != own_level) {
            return Err(damaged());
        }
        let count = usize::from(u16::from_le_bytes([head[6], head[7]]));
        let start = 8 + 2 * file.offset_size;
        let entry = 8 + 8 * (rank + 1) + file.offset_size;
        self.spend((start + count * entry) as u64)?;
        let bytes = file.read(address, start + count * entry)?;
        for entry in bytes[start..].chunks_exact(entry) {
            let mut c = Cursor::new(entry);
            let fields = (|| {
                let (size, mask) = (c.u32()?, c.u32()?);
                for (axis, key) in key.iter_mut().enumerate() {
                    let (at, chunk) = (c.uint(8)?, self.chunked.chunks[axis]);
                    *key = at / chunk;
                    if own_level == 0 && at % chunk != 0 {
                        return None;
                    }
                }
                c.uint(8)?;
                Some((u64::from(size), mask, c.address(file.offset_size)?))
            })();
            let (size, mask, child) = fields.ok_or_else(damaged)?;
            if own_level > 0 {
                self.btree1(child, Some(own_level - 1), key, sink)?;
            } else if child != UNDEFINED {
                sink(key, child, size, mask)?;
            }
        }
        Ok(())
    }
}
