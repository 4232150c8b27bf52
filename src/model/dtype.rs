//! Data types, written as numpy type strings (`<i2`, `>f8`, `|u1`, `|S12`, `|O`).

use crate::{Error, Result};

/// Order of the bytes of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Boolean, one byte.
    Bool,
    /// Signed integer, 1, 2, 4 or 8 bytes.
    Int,
    /// Unsigned integer, 1, 2, 4 or 8 bytes.
    UInt,
    /// IEEE 754 float, 2, 4 or 8 bytes.
    Float,
    /// Two floats, 8 or 16 bytes.
    Complex,
    /// A string of a fixed number of bytes (UTF-8, zero padded).
    Bytes,
    /// Strings of any length (numpy `|O`, encoded by the codec `vlen-utf8`).
    VlenUtf8,
}

/// A data type: kind, size in bytes of an element, byte order.
///
/// `size` of [`Kind::VlenUtf8`] is 0. Types of one byte have the order [`ByteOrder::NATIVE`], so that equality works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DType {
    /// What an element is.
    pub kind: Kind,
    /// Size in bytes of an element; 0 for variable-length strings.
    pub size: usize,
    /// Byte order; the machine's own where it does not matter.
    pub order: ByteOrder,
}

/// No fixed-length string longer than this is accepted (bytes).
pub const MAX_STRING: usize = 1 << 24;

impl DType {
    /// A type of `kind` with `size` bytes in `order`; the order is dropped where it has no meaning.
    pub fn new(kind: Kind, size: usize, order: ByteOrder) -> DType {
        let has_order = size > 1 && !matches!(kind, Kind::Bytes | Kind::VlenUtf8 | Kind::Bool);
        DType { kind, size, order: if has_order { order } else { ByteOrder::NATIVE } }
    }

    /// Parses a numpy type string.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not one of the types of [`Kind`].
    pub fn parse(text: &str) -> Result<DType> {
        let bad = || Error::Invalid(format!("unknown data type \"{text}\""));
        let mut chars = text.chars();
        let (order, code) = match chars.next().ok_or_else(bad)? {
            '<' => (ByteOrder::Little, chars.next()),
            '>' => (ByteOrder::Big, chars.next()),
            '|' | '=' => (ByteOrder::NATIVE, chars.next()),
            c => (ByteOrder::NATIVE, Some(c)),
        };
        let code = code.ok_or_else(bad)?;
        let digits = chars.as_str();
        if code == 'O' && digits.is_empty() {
            return Ok(DType::new(Kind::VlenUtf8, 0, order));
        }
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let size: usize = digits.parse().map_err(|_| bad())?;
        let (kind, ok) = match code {
            'b' => (Kind::Bool, size == 1),
            'i' => (Kind::Int, matches!(size, 1 | 2 | 4 | 8)),
            'u' => (Kind::UInt, matches!(size, 1 | 2 | 4 | 8)),
            'f' => (Kind::Float, matches!(size, 2 | 4 | 8)),
            'c' => (Kind::Complex, matches!(size, 8 | 16)),
            'S' => (Kind::Bytes, (1..=MAX_STRING).contains(&size)),
            _ => return Err(bad()),
        };
        if ok { Ok(DType::new(kind, size, order)) } else { Err(bad()) }
    }

    /// Size in bytes of what is swapped as one: a half of a complex number, else the element. 1 where order has no meaning.
    pub fn swap_size(&self) -> usize {
        match self.kind {
            Kind::Complex => self.size / 2,
            Kind::Int | Kind::UInt | Kind::Float => self.size,
            Kind::Bool | Kind::Bytes | Kind::VlenUtf8 => 1,
        }
    }

    /// Whether bytes must be swapped to be used on this machine.
    pub fn is_swapped(&self) -> bool {
        self.swap_size() > 1 && self.order != ByteOrder::NATIVE
    }

    /// The same type in `order`.
    pub fn with_order(&self, order: ByteOrder) -> DType {
        DType::new(self.kind, self.size, order)
    }

    /// Whether elements are numbers (not strings).
    pub fn is_numeric(&self) -> bool {
        !matches!(self.kind, Kind::Bytes | Kind::VlenUtf8)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let order = match (self.swap_size() > 1, self.order) {
            (false, _) => '|',
            (true, ByteOrder::Little) => '<',
            (true, ByteOrder::Big) => '>',
        };
        match self.kind {
            Kind::Bool => write!(f, "|b1"),
            Kind::Int => write!(f, "{order}i{}", self.size),
            Kind::UInt => write!(f, "{order}u{}", self.size),
            Kind::Float => write!(f, "{order}f{}", self.size),
            Kind::Complex => write!(f, "{order}c{}", self.size),
            Kind::Bytes => write!(f, "|S{}", self.size),
            Kind::VlenUtf8 => write!(f, "|O"),
        }
    }
}

/// Reverses the bytes of every `swap_size` bytes of `data`; bytes after the last whole one stay.
pub fn swap_in_place(data: &mut [u8], swap_size: usize) {
    match swap_size {
        0 | 1 => {}
        2 => swap_all::<2>(data),
        4 => swap_all::<4>(data),
        8 => swap_all::<8>(data),
        _ => data.chunks_exact_mut(swap_size).for_each(<[u8]>::reverse),
    }
}

/// With the size known, compilers make vector instructions of it.
fn swap_all<const N: usize>(data: &mut [u8]) {
    data.as_chunks_mut::<N>().0.iter_mut().for_each(|element| element.reverse());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_type_strings_round_trip() {
        for text in
            ["|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">u8", "<f2", "<f4", ">f8", "<c8", ">c16", "|S1", "|S12", "|O"]
        {
            assert_eq!(DType::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "<", "<i3", "<f16", "S0", "|S99999999999", "<U4", "i", "<i+2", "é4"] {
            assert!(DType::parse(text).is_err(), "{text}");
        }
        assert_eq!(DType::parse("<i1").unwrap(), DType::parse(">i1").unwrap());
    }

    #[test]
    fn swapping() {
        let mut data = [1, 2, 3, 4];
        swap_in_place(&mut data, 2);
        assert_eq!(data, [2, 1, 4, 3]);
        assert_eq!(DType::parse(">c8").unwrap().swap_size(), 4);
    }
}
