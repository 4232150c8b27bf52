//! A fixed array, for largest shapes without an unlimited dimension: appendix C, "The Fixed Array Index", and
//! section VII.C.

use super::super::file::{Cursor, UNDEFINED};
use super::array::DataBlock;
use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    pub(super) fn fixed_array(&self, sink: &mut Sink<'_>) -> Result<()> {
        let file = self.file;
        let damaged = || self.damaged("a fixed array of chunks");
        let (o, l) = (file.offset_size, file.length_size);
        let head = self.part(self.chunked.address, (4 + 4 + l + o) as u64)?;
        let mut c = Cursor::new(&head);
        let fields = (|| {
            c.expect(b"FAHD\0")?;
            c.skip(1)?;
            let (size, page_bits) = (usize::from(c.byte()?), c.byte()?);
            Some((size, page_bits, c.uint(l)?, c.address(o)?))
        })();
        let (size, page_bits, count, block) = fields.ok_or_else(damaged)?;
        let page = 1u64.checked_shl(u32::from(page_bits)).filter(|p| *p > 0).ok_or_else(damaged)?;
        let mut order = self.order(None)?;
        if size < o {
            return Err(damaged());
        }
        if block == UNDEFINED {
            return Ok(());
        }
        if count.checked_mul(size as u64).is_none_or(|n| n / 2 > file.size()) || order.total().is_none_or(|t| t > count)
        {
            return Err(damaged());
        }
        let pages = if count > page { count.div_ceil(page).div_ceil(8) } else { 0 };
        let prefix = 6 + o as u64 + pages;
        let bytes = file.read(block, prefix as usize)?;
        let block = DataBlock {
            signature: b"FADB\0",
            address: block,
            prefix,
            size,
            first: 0,
            count,
            page,
            written: &bytes[6 + o..],
            first_bit: 0,
        };
        self.data_block(&mut order, &block, sink)
    }
}
