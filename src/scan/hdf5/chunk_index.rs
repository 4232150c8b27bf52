//! Where the chunks of a dataset are: all kinds of chunk index.

use super::btree_v2;
use super::file::{Cursor, File, UNDEFINED};
use super::message::ChunkIndex;
use crate::Result;
use std::cell::Cell;

/// What an index depends on.
pub struct Chunked<'a> {
    /// Shape of the dataset in elements.
    pub shape: &'a [u64],
    /// Largest shape.
    pub max: &'a [u64],
    /// Shape of a chunk in elements.
    pub chunks: &'a [u64],
    /// Bytes of an element.
    pub item: u64,
    /// Whether there are filters.
    pub filtered: bool,
    /// Address of the index.
    pub address: u64,
}

/// Takes a chunk: its key, address, size in bytes, filter mask.
pub type Sink<'a> = dyn FnMut(&[u64], u64, u64, u32) -> Result<()> + 'a;

/// Calls `sink` for every chunk that has an address; some may lie outside the present shape.
///
/// # Errors
/// [`crate::Error::Format`] where the index is damaged; whatever `sink` returns.
pub fn list(file: &File, index: &ChunkIndex, chunked: &Chunked<'_>, sink: &mut Sink<'_>) -> Result<()> {
    if chunked.address == UNDEFINED || chunked.shape.contains(&0) {
        return Ok(());
    }
    // What is read twice is short.
    let walk = Walk { file, chunked, bytes: chunked.bytes(), budget: Cell::new(file.size().saturating_mul(2)) };
    match index {
        ChunkIndex::BTree1 => {
            let mut key = vec![0; chunked.shape.len()];
            walk.btree1(chunked.address, None, &mut key, sink)
        }
        ChunkIndex::Single(stored) => {
            let (size, mask) = stored.unwrap_or((walk.bytes, 0));
            sink(&vec![0; chunked.shape.len()], chunked.address, size, mask)
        }
        ChunkIndex::Implicit => {
            let mut order = walk.order(None)?;
            let total = order.total().ok_or_else(|| walk.damaged("an implicit chunk index"))?;
            if total.checked_mul(walk.bytes).is_none_or(|n| n > file.available(chunked.address)) {
                return Err(walk.damaged("an implicit chunk index"));
            }
            (0..total).try_for_each(|i| order.emit(i, chunked.address + i * walk.bytes, walk.bytes, 0, sink))
        }
        ChunkIndex::FixedArray => walk.fixed_array(sink),
        ChunkIndex::ExtensibleArray => walk.extensible_array(sink),
        ChunkIndex::BTree2 => walk.btree2(sink),
    }
}

impl Chunked<'_> {
    /// Bytes of a chunk without filters, saturating.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().fold(self.item, |n, c| n.saturating_mul(*c))
    }
}

/// Numbering of the chunks of an array index: row-major over the largest shape, with one axis moved to the front.
struct Order {
    /// Axes, slowest first.
    axes: Vec<usize>,
    /// Chunks along each of `axes`.
    counts: Vec<u64>,
    /// The key last reported.
    key: Vec<u64>,
}

impl Order {
    fn total(&self) -> Option<u64> {
        self.counts.iter().try_fold(1u64, |n, c| n.checked_mul(*c))
    }

    /// Reports chunk number `number`.
    fn emit(&mut self, number: u64, address: u64, size: u64, mask: u32, sink: &mut Sink<'_>) -> Result<()> {
        let mut rest = number;
        for (axis, count) in self.axes.iter().zip(&self.counts).rev() {
            let slowest = *axis == self.axes[0];
            (self.key[*axis], rest) = if slowest { (rest, 0) } else { (rest % count, rest / count) };
        }
        sink(&self.key, address, size, mask)
    }
}

/// A data block of a fixed or extensible array.
struct DataBlock<'a> {
    signature: &'static [u8],
    address: u64,
    /// Bytes before the elements.
    prefix: u64,
    /// Bytes of an element.
    size: usize,
    /// Number of its first chunk.
    first: u64,
    /// Elements in it.
    count: u64,
    /// Elements of a page.
    page: u64,
    /// A bit for each page that was written, of this block from `first_bit` on.
    written: &'a [u8],
    first_bit: u64,
}

struct Walk<'a> {
    file: &'a File,
    chunked: &'a Chunked<'a>,
    /// Bytes of a chunk without filters.
    bytes: u64,
    /// Bytes of the index that can still be in the file: one with cycles, or with one node many times, ends.
    budget: Cell<u64>,
}

impl Walk<'_> {
    fn damaged(&self, structure: &str) -> crate::Error {
        self.file.damaged(self.chunked.address, structure)
    }

    /// Counts bytes of the index that are read.
    fn spend(&self, bytes: u64) -> Result<()> {
        let left = self.budget.get().checked_sub(bytes);
        self.budget.set(left.ok_or_else(|| self.damaged("a chunk index (a part of it is listed twice)"))?);
        Ok(())
    }

    fn btree1(&self, address: u64, level: Option<u8>, key: &mut [u64], sink: &mut Sink<'_>) -> Result<()> {
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

    fn btree2(&self, sink: &mut Sink<'_>) -> Result<()> {
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

    /// The order of chunks in an array index; `first` is the axis without a largest length, if there is one.
    fn order(&self, first: Option<usize>) -> Result<Order> {
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
    fn element(&self, c: &mut Cursor<'_>, size: usize) -> Option<Option<(u64, u64, u32)>> {
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
    fn elements(&self, order: &mut Order, bytes: &[u8], size: usize, first: u64, sink: &mut Sink<'_>) -> Result<()> {
        for (number, element) in (first..).zip(bytes.chunks_exact(size)) {
            let element = self.element(&mut Cursor::new(element), size);
            if let Some((address, stored, mask)) = element.ok_or_else(|| self.damaged("a chunk index"))? {
                order.emit(number, address, stored, mask, sink)?;
            }
        }
        Ok(())
    }

    /// A part of an array index, its checksum verified.
    fn part(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        self.spend(length)?;
        self.file.read_checked(address, length, "a part of a chunk index")
    }

    /// Elements of a data block, in pages if it has more than one page, of which some may never have been written.
    fn data_block(&self, order: &mut Order, block: &DataBlock<'_>, sink: &mut Sink<'_>) -> Result<()> {
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

    fn fixed_array(&self, sink: &mut Sink<'_>) -> Result<()> {
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

    fn extensible_array(&self, sink: &mut Sink<'_>) -> Result<()> {
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
