//! An extensible array, for one unlimited dimension: appendix C, "The Extensible Array Index", and section VII.D.

use super::super::file::{Cursor, UNDEFINED};
use super::array::DataBlock;
use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    pub(super) fn extensible_array(&self, sink: &mut Sink<'_>) -> Result<()> {
        let file = self.file;
        let damaged = || self.damaged("an extensible array of chunks");
        let (o, l) = (file.offset_size, file.length_size);
        let unlimited = self.chunked.max.iter().position(|m| *m == UNDEFINED);
        let mut order = self.order(Some(unlimited.ok_or_else(damaged)?))?;
        let head = self.part(self.chunked.address, (12 + 6 * l + o) as u64)?;
        let mut c = Cursor::new(&head);
        let fields = (|| {
            c.expect(b"EAHD\0")?;
            c.skip(1)?;
            let mut byte = || c.byte().map(u64::from);
            let parameters = [byte()?, byte()?, byte()?, byte()?, byte()?, byte()?];
            for _ in 0..6 {
                c.uint(l)?;
            }
            Some((parameters, c.address(o)?))
        })();
        let ([size, bits, in_index, least, pointers, page_bits], index_block) = fields.ok_or_else(damaged)?;
        let sane = (1..=64).contains(&bits) && least.is_power_of_two() && pointers.is_power_of_two() && page_bits < 64;
        if !sane || size < o as u64 || u64::from(least.ilog2()) > bits {
            return Err(damaged());
        }
        if index_block == UNDEFINED {
            return Ok(());
        }
        let page = 1u64 << page_bits;
        let (size, super_blocks) = (size as usize, 1 + bits - u64::from(least.ilog2()));
        let direct_supers = 2 * u64::from(pointers.ilog2());
        let direct_blocks = 2 * (pointers - 1);
        let offset_bytes = bits.div_ceil(8);
        let total = order.total().ok_or_else(damaged)?;

        let prefix = 6 + o;
        let rest = in_index as usize * size + (direct_blocks + super_blocks.saturating_sub(direct_supers)) as usize * o;
        let bytes = self.part(index_block, (prefix + rest) as u64)?;
        let mut c = Cursor::new(&bytes);
        c.expect(b"EAIB\0").ok_or_else(damaged)?;
        c.skip(prefix - 5).ok_or_else(damaged)?;
        for i in 0..in_index {
            if let Some((address, stored, mask)) = self.element(&mut c, size).ok_or_else(damaged)?
                && i < total
            {
                order.emit(i, address, stored, mask, sink)?;
            }
        }
        let mut first = in_index;
        let block_prefix = (6 + o) as u64 + offset_bytes;
        for number in 0..super_blocks {
            let blocks = 1u64.checked_shl((number / 2) as u32).ok_or_else(damaged)?;
            let elements = least.checked_shl(number.div_ceil(2) as u32).filter(|e| *e > 0).ok_or_else(damaged)?;
            if first >= total {
                break;
            }
            // Data blocks of the first super blocks hang directly on the index block.
            let (addresses, bitmaps);
            if number < direct_supers {
                addresses = (0..blocks).map(|_| c.address(o)).collect::<Option<Vec<_>>>().ok_or_else(damaged)?;
                bitmaps = Vec::new();
            } else {
                let at = c.address(o).ok_or_else(damaged)?;
                if at == UNDEFINED {
                    first = first.saturating_add(blocks.saturating_mul(elements));
                    continue;
                }
                let bitmap_bytes = if elements > page { elements.div_ceil(page).div_ceil(8) } else { 0 };
                let length = blocks.checked_mul(bitmap_bytes + o as u64).and_then(|n| n.checked_add(block_prefix));
                let bytes = self.part(at, length.ok_or_else(damaged)?)?;
                let mut s = Cursor::new(&bytes);
                let parsed = (|| {
                    s.expect(b"EASB\0")?;
                    s.skip(block_prefix as usize - 5)?;
                    let bitmaps = s.take((blocks * bitmap_bytes) as usize)?.to_vec();
                    Some((bitmaps, (0..blocks).map(|_| s.address(o)).collect::<Option<Vec<_>>>()?))
                })();
                (bitmaps, addresses) = parsed.ok_or_else(damaged)?;
            }
            for (i, address) in addresses.into_iter().enumerate() {
                if address != UNDEFINED && first < total {
                    let block = DataBlock {
                        signature: b"EADB\0",
                        address,
                        prefix: block_prefix,
                        size,
                        first,
                        count: elements,
                        page,
                        // The bits of all data blocks of a super block are one list, without gaps.
                        written: &bitmaps,
                        first_bit: i as u64 * elements.div_ceil(page),
                    };
                    self.data_block(&mut order, &block, sink)?;
                }
                first = first.saturating_add(elements);
            }
        }
        Ok(())
    }
}
