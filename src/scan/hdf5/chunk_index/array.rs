//! What array indexes share: the numbering of chunks, elements, data blocks in pages.

use super::super::file::{Cursor, UNDEFINED};
use super::{Sink, Walk};
use crate::Result;

/// Numbering of the chunks of an array index: row-major over the largest shape, with one axis moved to the front.
pub(super) struct Order {
    /// Axes, slowest first.
    axes: Vec<usize>,
    /// Chunks along each of `axes`.
    counts: Vec<u64>,
    /// The key last reported.
    key: Vec<u64>,
}

impl Order {
    pub(super) fn total(&self) -> Option<u64> {
        self.counts.iter().try_fold(1u64, |n, c| n.checked_mul(*c))
    }

    /// Reports chunk number `number`.
    pub(super) fn emit(&mut self, number: u64, address: u64, size: u64, mask: u32, sink: &mut Sink<'_>) -> Result<()> {
        let mut rest = number;
        for (axis, count) in self.axes.iter().zip(&self.counts).rev() {
            let slowest = *axis == self.axes[0];
            (self.key[*axis], rest) = if slowest { (rest, 0) } else { (rest % count, rest / count) };
        }
        sink(&self.key, address, size, mask)
    }
}

/// A data block of a fixed or extensible array.
pub(super) struct DataBlock<'a> {
    pub(super) signature: &'static [u8],
    pub(super) address: u64,
    /// Bytes before the elements.
    pub(super) prefix: u64,
    /// Bytes of an element.
    pub(super) size: usize,
    /// Number of its first chunk.
    pub(super) first: u64,
    /// Elements in it.
    pub(super) count: u64,
    /// Elements of a page.
    pub(super) page: u64,
    /// A bit for each page that was written, of this block from `first_bit` on.
    pub(super) written: &'a [u8],
    pub(super) first_bit: u64,
}

impl Walk<'_> {
    /// The order of chunks in an array index; `first` is the axis without a largest length, if there is one.
    pub(super) fn order(&self, first: Option<usize>) -> Result<Order> {
        let rank = self.chunked.shape.len();
        let mut axes: Vec<usize> = (0..rank).collect();
        if let Some(first) = first {
            axes.remove(first);
            axes.insert(0, first);
        }
        let mut counts = Vec::with_capacity(rank);
        for axis in &axes {
            let max = self.chunked.max.get(*axis).copied().unwrap_or(self.chunked.shape[*axis]);
            let length = match (max, Some(*axis) == first) {
                (_, true) => self.chunked.shape[*axis],
                (UNDEFINED, false) => return Err(self.damaged("a chunk index (more than one unlimited dimension)")),
                (max, false) => max,
            };
            // A largest length below the present one is damage.
            if length < self.chunked.shape[*axis] {
                return Err(self.damaged("a chunk index"));
            }
            counts.push(length.div_ceil(self.chunked.chunks[*axis]));
        }
        Ok(Order { axes, counts, key: vec![0; rank] })
    }

    /// One element of an array index: address, size, mask; None for a chunk that was never written.
    pub(super) fn element(&self, c: &mut Cursor<'_>, size: usize) -> Option<Option<(u64, u64, u32)>> {
        let address = c.address(self.file.offset_size)?;
        let (stored, mask) = if self.chunked.filtered {
            let bytes = size.checked_sub(self.file.offset_size + 4)?;
            (c.uint(bytes)?, c.u32()?)
        } else {
            c.skip(size.checked_sub(self.file.offset_size)?)?;
            (self.bytes, 0)
        };
        Some((address != UNDEFINED).then_some((address, stored, mask)))
    }

    /// Elements `first ..` that lie one after the other in `bytes`.
    pub(super) fn elements(
        &self,
        order: &mut Order,
        bytes: &[u8],
        size: usize,
        first: u64,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        for (number, element) in (first..).zip(bytes.chunks_exact(size)) {
            let element = self.element(&mut Cursor::new(element), size);
            if let Some((address, stored, mask)) = element.ok_or_else(|| self.damaged("a chunk index"))? {
                order.emit(number, address, stored, mask, sink)?;
            }
        }
        Ok(())
    }

    /// Elements of a data block, in pages if it has more than one page, of which some may never have been written.
    pub(super) fn data_block(&self, order: &mut Order, block: &DataBlock<'_>, sink: &mut Sink<'_>) -> Result<()> {
        let damaged = || self.damaged("a chunk index");
        let (size, count) = (block.size, block.count);
        let bytes_of = |n: u64| n.checked_mul(size as u64).ok_or_else(damaged);
        let paged = count > block.page;
        let length = if paged { 0 } else { bytes_of(count)? };
        let bytes = self.part(block.address, block.prefix.checked_add(length).ok_or_else(damaged)?)?;
        if !bytes.starts_with(block.signature) {
            return Err(damaged());
        }
        if !paged {
            return self.elements(order, &bytes[block.prefix as usize..], size, block.first, sink);
        }
        // The prefix has its own checksum, and so has each page.
        let start = block.address.checked_add(block.prefix + 4).ok_or_else(damaged)?;
        let page_bytes = bytes_of(block.page)?.checked_add(4).ok_or_else(damaged)?;
        for number in 0..count.div_ceil(block.page) {
            let bit = block.first_bit + number;
            let bits = block.written.get((bit / 8) as usize).ok_or_else(damaged)?;
            if bits & (0x80 >> (bit % 8)) == 0 {
                continue;
            }
            let at = number.checked_mul(page_bytes).and_then(|b| b.checked_add(start)).ok_or_else(damaged)?;
            let bytes = self.part(at, bytes_of(block.page.min(count - number * block.page))?)?;
            self.elements(order, &bytes, size, block.first + number * block.page, sink)?;
        }
        Ok(())
    }
}
