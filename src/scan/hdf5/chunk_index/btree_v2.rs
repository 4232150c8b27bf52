//! A version 2 B-tree of chunks, for more than one unlimited dimension (record types 10 and 11): section III.A.2,
//! "Version 2 B-trees", and appendix C.

use super::super::btree_v2;
use super::super::file::{Cursor, UNDEFINED};
use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    pub(super) fn btree2(&self, sink: &mut Sink<'_>) -> Result<()> {
        let (file, rank) = (self.file, self.chunked.shape.len());
        let mut key = vec![0; rank];
        btree_v2::records(file, self.chunked.address, &mut |record| {
            let mut c = Cursor::new(record);
            let fields = (|| {
                let address = c.address(file.offset_size)?;
                let size_bytes =
                    if self.chunked.filtered { record.len().checked_sub(file.offset_size + 4 + 8 * rank)? } else { 0 };
                let (size, mask) =
                    if self.chunked.filtered { (c.uint(size_bytes)?, c.u32()?) } else { (self.bytes, 0) };
                for k in &mut key {
                    *k = c.uint(8)?;
                }
                Some((address, size, mask))
            })();
            let (address, size, mask) = fields.ok_or_else(|| self.damaged("a version 2 B-tree of chunks"))?;
            if address == UNDEFINED { Ok(()) } else { sink(&key, address, size, mask) }
        })
    }
}
