//! Messages of datasets: dataspace, datatype, fill value, layout, filters.

use super::file::Cursor;
use crate::model::{ByteOrder, DType, Kind};

/// Dimensions of a dataset, at most (libhdf5's own bound).
pub const MAX_RANK: usize = 32;

/// A dataspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataspace {
    /// Length of each dimension; None: a null dataspace, without any element.
    pub shape: Option<Vec<u64>>,
    /// Largest length of each dimension, `u64::MAX` for unlimited.
    pub max: Vec<u64>,
}

impl Dataspace {
    /// Number of elements, saturating.
    pub fn elements(&self) -> u64 {
        self.shape.as_ref().map_or(0, |s| s.iter().fold(1, |n: u64, d| n.saturating_mul(*d)))
    }
}

/// Parses a dataspace message.
pub fn dataspace(data: &[u8], length_size: usize) -> Option<Dataspace> {
    let mut c = Cursor::new(data);
    let version = c.byte()?;
    let rank = usize::from(c.byte()?);
    let flags = c.byte()?;
    let kind = match version {
        1 => {
            c.skip(5)?;
            u8::from(rank > 0)
        }
        2 => c.byte()?,
        _ => return None,
    };
    if rank > MAX_RANK {
        return None;
    }
    if kind == 2 {
        return Some(Dataspace { shape: None, max: Vec::new() });
    }
    let mut list = || (0..rank).map(|_| c.address(length_size)).collect::<Option<Vec<_>>>();
    let shape = list()?;
    let max = if flags & 1 != 0 { list()? } else { shape.clone() };
    Some(Dataspace { shape: Some(shape), max })
}

/// A datatype, as far as arrays need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// Numbers, fixed strings.
    Fixed(DType),
    /// A fixed string of 0 bytes, or longer than any reader takes.
    StringOfSize(u64),
    /// Strings of any length, in a global heap.
    VlenString,
    /// Sequences of any length of a type of this many bytes; the flag says whether they are object references.
    Sequence {
        /// Bytes of an item.
        item: u64,
        /// Whether items are object references.
        references: bool,
    },
    /// An object reference: an address.
    ObjectReference,
    /// Anything else, by name.
    Other(String),
}

/// Parses a datatype message; also its size in bytes in a dataset.
pub fn datatype(data: &[u8]) -> Option<(Datatype, u64)> {
    parse_type(&mut Cursor::new(data), 0)
}

fn parse_type(c: &mut Cursor<'_>, depth: usize) -> Option<(Datatype, u64)> {
    if depth > 8 {
        return None;
    }
    let class = c.byte()? & 0xf;
    let bits = c.uint(3)?;
    let size = u64::from(c.u32()?);
    let order = if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let other = |name: &str| Some((Datatype::Other(name.to_owned()), size));
    let fixed = |kind| Some((Datatype::Fixed(DType::new(kind, size as usize, order)), size));
    match class {
        0 | 4 => {
            let (offset, precision) = (c.u16()?, c.u16()?);
            let signed = class == 0 && bits & 8 != 0;
            if !matches!(size, 1 | 2 | 4 | 8) || offset != 0 || u64::from(precision) != size * 8 {
                return other(&format!("integer of {precision} bits in {size} bytes"));
            }
            fixed(if signed { Kind::Int } else { Kind::UInt })
        }
        1 => {
            let (offset, precision) = (c.u16()?, c.u16()?);
            let (exponent_at, exponent, mantissa_at, mantissa) = (c.byte()?, c.byte()?, c.byte()?, c.byte()?);
            let bias = c.u32()?;
            let ieee = match size {
                2 => (10, 5, 0, 10, 15),
                4 => (23, 8, 0, 23, 127),
                8 => (52, 11, 0, 52, 1023),
                _ => return other(&format!("float of {size} bytes")),
            };
            let whole = offset == 0 && u64::from(precision) == size * 8 && bits & 0x40 == 0;
            if !whole || (exponent_at, exponent, mantissa_at, mantissa, bias) != ieee {
                return other("float that is not IEEE 754");
            }
            fixed(Kind::Float)
        }
        2 => other("time"),
        3 if size == 0 || size > crate::model::MAX_STRING as u64 => Some((Datatype::StringOfSize(size), size)),
        3 => fixed(Kind::Bytes),
        5 => other("opaque"),
        6 => other("compound"),
        7 if bits & 0xf == 0 => Some((Datatype::ObjectReference, size)),
        7 => other("region reference"),
        8 => {
            // An enumeration is its base type.
            let (base, base_size) = parse_type(c, depth + 1)?;
            (base_size == size).then_some((base, size))
        }
        9 => {
            let string = bits & 0xf == 1;
            let (base, item) = parse_type(c, depth + 1)?;
            if string {
                return Some((Datatype::VlenString, size));
            }
            Some((Datatype::Sequence { item, references: base == Datatype::ObjectReference }, size))
        }
        10 => other("array"),
        11 => other("complex number"),
        _ => other("unknown"),
    }
}

/// Parses a fill value message (0x05): the bytes, or None if none is defined.
pub fn fill(data: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut c = Cursor::new(data);
    let version = c.byte()?;
    let defined = match version {
        1 | 2 => {
            c.skip(2)?;
            let defined = c.byte()?;
            version == 1 || defined != 0
        }
        3 => c.byte()? & 0x20 != 0,
        _ => return None,
    };
    if !defined {
        return Some(None);
    }
    // Version 1 writes the size always; -1 or 0 for none.
    match c.u32() {
        Some(0 | u32::MAX) => Some(None),
        None => (version == 1).then_some(None),
        Some(size) => c.take(size as usize).map(|b| Some(b.to_vec())),
    }
}

/// Parses an old fill value message (0x04).
pub fn old_fill(data: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut c = Cursor::new(data);
    let size = c.u32()? as usize;
    if size == 0 { Some(None) } else { c.take(size).map(|b| Some(b.to_vec())) }
}

/// Where the values of a dataset are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the header.
    Compact(Vec<u8>),
    /// In one run; the address may be undefined.
    Contiguous {
        /// Address.
        address: u64,
        /// Size in bytes; None in old files, where it follows from the dataspace.
        size: Option<u64>,
    },
    /// In chunks.
    Chunked {
        /// Shape of a chunk in elements.
        chunks: Vec<u64>,
        /// How chunks are found.
        index: ChunkIndex,
        /// Address of the index; may be undefined.
        address: u64,
        /// Whether chunks that reach beyond the array are stored without filters.
        raw_edges: bool,
    },
    /// Elsewhere: by name.
    Other(&'static str),
}

/// How chunks are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkIndex {
    /// Version 1 B-tree.
    BTree1,
    /// One chunk; with its stored size and filter mask if filtered.
    Single(Option<(u64, u32)>),
    /// All chunks in a row.
    Implicit,
    /// A fixed array.
    FixedArray,
    /// An extensible array.
    ExtensibleArray,
    /// Version 2 B-tree.
    BTree2,
}

/// Parses a layout message.
pub fn layout(data: &[u8], offset_size: usize, length_size: usize) -> Option<Layout> {
    let mut c = Cursor::new(data);
    let version = c.byte()?;
    if version < 3 {
        return old_layout(&mut c, offset_size);
    }
    match (version, c.byte()?) {
        (3..=5, 0) => {
            let size = usize::from(c.u16()?);
            c.take(size).map(|b| Layout::Compact(b.to_vec()))
        }
        (3..=5, 1) => {
            let address = c.address(offset_size)?;
            Some(Layout::Contiguous { address, size: Some(c.uint(length_size)?) })
        }
        (3, 2) => {
            let rank = usize::from(c.byte()?).checked_sub(1).filter(|r| *r <= MAX_RANK)?;
            let address = c.address(offset_size)?;
            let chunks = (0..rank).map(|_| c.u32().map(u64::from)).collect::<Option<Vec<_>>>()?;
            Some(Layout::Chunked { chunks, index: ChunkIndex::BTree1, address, raw_edges: false })
        }
        (4 | 5, 2) => {
            let flags = c.byte()?;
            let rank = usize::from(c.byte()?).checked_sub(1).filter(|r| *r <= MAX_RANK)?;
            let bytes = usize::from(c.byte()?);
            let chunks = (0..rank).map(|_| c.uint(bytes)).collect::<Option<Vec<_>>>()?;
            c.uint(bytes)?;
            let index = match c.byte()? {
                1 if flags & 2 != 0 => ChunkIndex::Single(Some((c.uint(length_size)?, c.u32()?))),
                1 => ChunkIndex::Single(None),
                2 => ChunkIndex::Implicit,
                3 => {
                    c.skip(1)?;
                    ChunkIndex::FixedArray
                }
                4 => {
                    c.skip(5)?;
                    ChunkIndex::ExtensibleArray
                }
                5 => {
                    c.skip(6)?;
                    ChunkIndex::BTree2
                }
                _ => return None,
            };
            Some(Layout::Chunked { chunks, index, address: c.address(offset_size)?, raw_edges: flags & 1 != 0 })
        }
        (3..=5, 3) => Some(Layout::Other("virtual dataset")),
        _ => None,
    }
}

fn old_layout(c: &mut Cursor<'_>, offset_size: usize) -> Option<Layout> {
    let rank = usize::from(c.byte()?);
    let class = c.byte()?;
    c.skip(5)?;
    let address = if class == 0 { None } else { Some(c.address(offset_size)?) };
    let dims = (0..rank).map(|_| c.u32().map(u64::from)).collect::<Option<Vec<_>>>()?;
    match (class, address) {
        (0, _) => {
            let size = c.u32()? as usize;
            c.take(size).map(|b| Layout::Compact(b.to_vec()))
        }
        (1, Some(address)) => Some(Layout::Contiguous { address, size: None }),
        (2, Some(address)) => {
            // The last is the size of an element.
            let chunks = dims.get(..rank.checked_sub(1).filter(|r| *r <= MAX_RANK)?)?.to_vec();
            Some(Layout::Chunked { chunks, index: ChunkIndex::BTree1, address, raw_edges: false })
        }
        _ => None,
    }
}

/// A filter of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// HDF5's number.
    pub id: u16,
    /// Parameters.
    pub parameters: Vec<u32>,
}

/// Parses a filter pipeline message: filters in encode order.
pub fn filters(data: &[u8]) -> Option<Vec<Filter>> {
    let mut c = Cursor::new(data);
    let version = c.byte()?;
    let count = c.byte()?;
    if version == 1 {
        c.skip(6)?;
    } else if version != 2 {
        return None;
    }
    (0..count)
        .map(|_| {
            let id = c.u16()?;
            let name = if version == 1 || id >= 256 { usize::from(c.u16()?) } else { 0 };
            c.skip(2)?;
            let count = usize::from(c.u16()?);
            c.skip(if version == 1 { name.next_multiple_of(8) } else { name })?;
            let parameters = (0..count).map(|_| c.u32()).collect::<Option<Vec<_>>>()?;
            if version == 1 && count % 2 == 1 {
                c.skip(4)?;
            }
            Some(Filter { id, parameters })
        })
        .collect()
}
