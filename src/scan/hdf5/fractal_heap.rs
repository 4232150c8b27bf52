//! Fractal heaps: where dense links and attributes, and shared messages, are.

use super::btree_v2;
use super::file::{Cursor, File, UNDEFINED};
use crate::Result;

/// A fractal heap.
#[derive(Debug)]
pub struct FractalHeap {
    address: u64,
    id_length: usize,
    offset_bytes: usize,
    length_bytes: usize,
    width: u64,
    start_size: u64,
    max_direct: u64,
    root: u64,
    root_rows: u16,
    huge_tree: u64,
    filtered: bool,
}

/// Bytes that hold numbers up to `limit`.
pub fn bytes_for(limit: u64) -> usize {
    limit.max(1).ilog2() as usize / 8 + 1
}

/// An object larger than this (bytes) is refused.
const MAX_OBJECT: u64 = 256 << 20;

impl FractalHeap {
    /// Reads a heap's header.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if it is damaged.
    pub fn open(file: &File, address: u64) -> Result<FractalHeap> {
        let (o, l) = (file.offset_size, file.length_size);
        let length = 4 + 1 + 2 + 2 + 1 + 4 + 12 * l + 3 * o + 2 + 2 + 2 + 2;
        let head = file.read(address, 9)?;
        // Size and mask of a filtered root block, and the filters themselves.
        let filters = usize::from(u16::from_le_bytes([head[7], head[8]]));
        let length = length + if filters > 0 { l + 4 + filters } else { 0 };
        let bytes = file.read_checked(address, length as u64, "a fractal heap")?;
        let mut c = Cursor::new(&bytes);
        let parsed = (|| {
            c.expect(b"FRHP\0")?;
            let id_length = usize::from(c.u16()?);
            let filter_bytes = c.u16()?;
            c.skip(1)?;
            let max_managed = c.u32()?;
            c.uint(l)?;
            let huge_tree = c.address(o)?;
            c.uint(l)?;
            c.address(o)?;
            for _ in 0..8 {
                c.uint(l)?;
            }
            let width = u64::from(c.u16()?);
            let (start_size, max_direct) = (c.uint(l)?, c.uint(l)?);
            let max_heap_bits = c.u16()?;
            c.skip(2)?;
            let root = c.address(o)?;
            let root_rows = c.u16()?;
            let valid =
                width > 0 && start_size.is_power_of_two() && max_direct.is_power_of_two() && max_direct >= start_size;
            (valid && max_heap_bits <= 64).then(|| FractalHeap {
                address,
                id_length,
                offset_bytes: usize::from(max_heap_bits).div_ceil(8),
                length_bytes: bytes_for(max_direct).min(bytes_for(u64::from(max_managed))),
                width,
                start_size,
                max_direct,
                root,
                root_rows,
                huge_tree,
                filtered: filter_bytes > 0,
            })
        })();
        parsed.ok_or_else(|| file.damaged(address, "a fractal heap"))
    }

    /// Bytes of an ID of this heap.
    pub fn id_length(&self) -> usize {
        self.id_length
    }

    /// The object with an ID.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if there is none.
    pub fn object(&self, file: &File, id: &[u8]) -> Result<Vec<u8>> {
        let damaged = || file.damaged(self.address, "an object of a fractal heap");
        let mut c = Cursor::new(id);
        let flags = c.byte().ok_or_else(damaged)?;
        match (flags >> 4) & 3 {
            0 => {
                let place = c.uint(self.offset_bytes).zip(c.uint(self.length_bytes));
                let (offset, length) = place.ok_or_else(damaged)?;
                self.managed(file, offset, length)
            }
            1 => {
                // Address and length in the ID if they fit, else the key of a record in a B-tree.
                let direct = self.id_length > file.offset_size + file.length_size;
                let (address, length) = if direct {
                    c.address(file.offset_size).zip(c.uint(file.length_size)).ok_or_else(damaged)?
                } else {
                    let key = c.uint(file.length_size.min(self.id_length.saturating_sub(1))).ok_or_else(damaged)?;
                    self.huge(file, key)?.ok_or_else(damaged)?
                };
                if self.filtered || length > MAX_OBJECT.min(file.available(address)) {
                    return Err(damaged());
                }
                file.read(address, length as usize)
            }
            2 => {
                let length = if self.id_length > 18 {
                    usize::from(flags & 0xf) << 8 | usize::from(c.byte().ok_or_else(damaged)?)
                } else {
                    usize::from(flags & 0xf)
                };
                c.take(length + 1).map(<[u8]>::to_vec).ok_or_else(damaged)
            }
            _ => Err(damaged()),
        }
    }

    fn huge(&self, file: &File, key: u64) -> Result<Option<(u64, u64)>> {
        let mut found = None;
        btree_v2::records(file, self.huge_tree, &mut |record| {
            let mut c = Cursor::new(record);
            let fields =
                (|| Some((c.address(file.offset_size)?, c.uint(file.length_size)?, c.uint(file.length_size)?)))();
            if let Some((address, length, id)) = fields
                && id == key
            {
                found = Some((address, length));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Size of the blocks of a row of the doubling table.
    fn row_size(&self, row: u64) -> Option<u64> {
        if row < 2 { Some(self.start_size) } else { self.start_size.checked_shl(row as u32 - 1).filter(|s| *s > 0) }
    }

    fn managed(&self, file: &File, offset: u64, length: u64) -> Result<Vec<u8>> {
        let damaged = || file.damaged(self.address, "a fractal heap");
        if self.filtered {
            return Err(file.error(self.address, "its links or attributes are compressed, which is not supported"));
        }
        let (mut block, mut start, mut rows) = (self.root, 0u64, u64::from(self.root_rows));
        // Each indirect block is of a smaller row than its parent, so this ends.
        for _ in 0..64 {
            if block == UNDEFINED {
                return Err(damaged());
            }
            if rows == 0 {
                if length > self.max_direct {
                    return Err(damaged());
                }
                let inside = offset.checked_sub(start).ok_or_else(damaged)?;
                return file.read(block.checked_add(inside).ok_or_else(damaged)?, length as usize);
            }
            // Find the row and column of the block that holds `offset`.
            let direct_rows = u64::from((self.max_direct / self.start_size).ilog2()) + 2;
            let (mut row, mut row_start) = (0, start);
            let (size, column) = loop {
                if row >= rows {
                    return Err(damaged());
                }
                let size = self.row_size(row).ok_or_else(damaged)?;
                let row_end =
                    row_start.checked_add(size.checked_mul(self.width).ok_or_else(damaged)?).ok_or_else(damaged)?;
                if offset < row_end {
                    break (size, (offset - row_start) / size);
                }
                row_start = row_end;
                row += 1;
            };
            let entry = row * self.width + column;
            let at = (5 + file.offset_size + self.offset_bytes) as u64 + entry * file.offset_size as u64;
            let bytes = file.read(block.checked_add(at).ok_or_else(damaged)?, file.offset_size)?;
            block = Cursor::new(&bytes).address(file.offset_size).ok_or_else(damaged)?;
            start = row_start + column * size;
            rows = if row < direct_rows {
                0
            } else {
                // An indirect block of this size has this many rows.
                u64::from((size / (self.start_size * self.width)).max(1).ilog2()) + 1
            };
        }
        Err(damaged())
    }
}
