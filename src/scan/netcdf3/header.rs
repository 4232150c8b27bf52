//! The header of a netCDF classic file.
//!
//! Specification: <https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html>, "The NetCDF Classic
//! Format Specification".

use crate::io::BlockCache;
use crate::model::{Attribute, Attributes, ByteOrder, DType, Fill, Kind};
use crate::{Error, Result};
use serde_json::Value;

const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;
/// An attribute of more values than this is left out.
const MAX_ATTRIBUTE: u64 = 1 << 20;
/// A name of more bytes than this is damage.
const MAX_NAME: u64 = 1 << 16;
/// Dimensions of one variable, at most (as netCDF has it).
const MAX_RANK: u64 = 1024;

/// A type of netCDF classic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcType(u32);

impl NcType {
    /// Text.
    pub const CHAR: NcType = NcType(2);

    /// The type as stored, always big-endian. None for a number that is none.
    pub fn dtype(self) -> Option<DType> {
        let (kind, size) = match self.0 {
            1 => (Kind::Int, 1),
            2 => (Kind::Bytes, 1),
            3 => (Kind::Int, 2),
            4 => (Kind::Int, 4),
            5 => (Kind::Float, 4),
            6 => (Kind::Float, 8),
            7 => (Kind::UInt, 1),
            8 => (Kind::UInt, 2),
            9 => (Kind::UInt, 4),
            10 => (Kind::Int, 8),
            11 => (Kind::UInt, 8),
            _ => return None,
        };
        Some(DType::new(kind, size, ByteOrder::Big))
    }

    /// What netCDF writes where nothing was, big-endian.
    pub fn default_fill(self) -> Vec<u8> {
        match self.0 {
            1 => (-127i8).to_be_bytes().to_vec(),
            3 => (-32767i16).to_be_bytes().to_vec(),
            4 => (-2_147_483_647i32).to_be_bytes().to_vec(),
            5 => 9.969_21e36f32.to_be_bytes().to_vec(),
            6 => 9.969_209_968_386_869e36_f64.to_be_bytes().to_vec(),
            7 => vec![255],
            8 => 65_535u16.to_be_bytes().to_vec(),
            9 => u32::MAX.to_be_bytes().to_vec(),
            10 => (-9_223_372_036_854_775_806i64).to_be_bytes().to_vec(),
            11 => 18_446_744_073_709_551_614u64.to_be_bytes().to_vec(),
            _ => vec![0],
        }
    }
}

/// An attribute as stored.
#[derive(Debug)]
struct RawAttribute {
    name: String,
    kind: NcType,
    data: Vec<u8>,
}

/// A dimension.
#[derive(Debug)]
pub struct Dimension {
    /// Name.
    pub name: String,
    /// Length in elements; 0 for the record dimension.
    pub size: u64,
}

/// A variable.
#[derive(Debug)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Numbers of its dimensions.
    pub dims: Vec<usize>,
    /// Attributes.
    pub attrs: Attributes,
    /// Type.
    pub kind: NcType,
    /// One element that reads as what was never written, big-endian.
    pub fill: Vec<u8>,
    /// Byte offset of its first value.
    pub begin: u64,
}

/// A header.
#[derive(Debug)]
pub struct Header {
    /// Records; None where the file does not say (it was being written).
    pub records: Option<u64>,
    /// Dimensions.
    pub dims: Vec<Dimension>,
    /// Number of the record dimension.
    pub record_dim: Option<usize>,
    /// Attributes of the file.
    pub attrs: Attributes,
    /// Variables.
    pub vars: Vec<Variable>,
    /// Bytes of the header.
    pub size: u64,
}

/// Reads numbers of the header one after the other.
struct Cursor<'a> {
    file: &'a BlockCache,
    at: u64,
    version: u8,
}

impl Cursor<'_> {
    fn damaged(&self, what: impl Into<String>) -> Error {
        damaged(self.file, self.at, what)
    }

    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let fits = length <= self.file.size().saturating_sub(self.at);
        let length = usize::try_from(length).ok().filter(|_| fits).ok_or_else(|| {
            self.damaged(format!("the header says {length} bytes, which the file has not: it is damaged or cut off"))
        })?;
        let bytes = self.file.read(self.at, length)?;
        self.at += length as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        let mut wide = [0; 4];
        wide.copy_from_slice(&self.bytes(4)?);
        Ok(u32::from_be_bytes(wide))
    }

    fn u64(&mut self) -> Result<u64> {
        let mut wide = [0; 8];
        wide.copy_from_slice(&self.bytes(8)?);
        Ok(u64::from_be_bytes(wide))
    }

    /// A count or size: 8 bytes in CDF-5, else 4.
    fn count(&mut self) -> Result<u64> {
        if self.version == 5 { self.u64() } else { Ok(u64::from(self.u32()?)) }
    }

    /// An offset: 4 bytes in CDF-1, else 8.
    fn offset(&mut self) -> Result<u64> {
        if self.version == 1 { Ok(u64::from(self.u32()?)) } else { self.u64() }
    }

    fn padded(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = self.bytes(length)?;
        let padding = length.next_multiple_of(4) - length;
        // The file may end with the header.
        self.at += padding.min(self.file.size() - self.at);
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    fn name(&mut self) -> Result<String> {
        let length = self.count()?;
        if length > MAX_NAME {
            return Err(self.damaged(format!("a name of {length} bytes: the header is damaged")));
        }
        Ok(text(&self.padded(length)?))
    }

    /// The number of elements of a list with a tag; an absent list has none.
    fn list(&mut self, tag: u32, what: &str) -> Result<u64> {
        let (found, count) = (self.u32()?, self.count()?);
        match (found, count) {
            (0, 0) => Ok(0),
            (found, count) if found == tag => Ok(count),
            _ => Err(self.damaged(format!("the list of {what} is damaged (tag {found})"))),
        }
    }

    fn kind(&mut self) -> Result<(NcType, DType)> {
        let kind = NcType(self.u32()?);
        match kind.dtype() {
            Some(dtype) if self.version == 5 || kind.0 <= 6 => Ok((kind, dtype)),
            _ => Err(self.damaged(format!("unknown type {}: the header is damaged", kind.0))),
        }
    }

    fn attributes(&mut self) -> Result<Vec<RawAttribute>> {
        let count = self.list(ATTRIBUTES, "attributes")?;
        let mut list = Vec::new();
        for _ in 0..count {
            let name = self.name()?;
            let (kind, dtype) = self.kind()?;
            let size = self.count()?.checked_mul(dtype.size as u64).filter(|n| *n <= self.file.size() - self.at);
            let size = size.ok_or_else(|| self.damaged(format!("attribute \"{name}\" does not fit in the file")))?;
            if size / dtype.size as u64 > MAX_ATTRIBUTE {
                self.at = (self.at + size).next_multiple_of(4);
                continue;
            }
            let data = self.padded(size)?;
            list.push(RawAttribute { name, kind, data });
        }
        Ok(list)
    }
}

fn damaged(file: &BlockCache, offset: u64, what: impl Into<String>) -> Error {
    Error::Format { path: file.reader().path().to_owned(), offset, what: what.into() }
}

/// Text up to the first NUL; Latin-1 where it is not UTF-8.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes[..end].iter().map(|b| char::from(*b)).collect(),
    }
}

fn to_cf(raw: &[RawAttribute]) -> Result<Attributes> {
    let mut attrs = Attributes::default();
    for RawAttribute { name, kind, data } in raw {
        let Some(dtype) = kind.dtype() else { continue };
        let (value, dtype) = if *kind == NcType::CHAR {
            (Value::String(text(data)), "|O".to_owned())
        } else {
            let values = data.chunks_exact(dtype.size).map(|v| Ok(Fill::from_bytes(&dtype, v)?.0));
            let mut values: Vec<Value> = values.collect::<Result<_>>()?;
            let one = if values.len() == 1 { values.pop() } else { None };
            (one.unwrap_or(Value::Array(values)), dtype.with_order(ByteOrder::Little).to_string())
        };
        attrs.set(Attribute { name: name.clone(), value, dtype: Some(dtype) });
    }
    Ok(attrs)
}

/// Reads the header.
///
/// # Errors
/// [`Error::Format`] if it is damaged; [`Error::Io`].
pub fn read(file: &BlockCache) -> Result<Header> {
    let mut c = Cursor { file, at: 0, version: 0 };
    let magic = c.bytes(4)?;
    c.version = match magic[..] {
        [b'C', b'D', b'F', version @ (1 | 2 | 5)] => version,
        _ => return Err(c.damaged("it is no netCDF classic file")),
    };
    let streaming = if c.version == 5 { u64::MAX } else { u64::from(u32::MAX) };
    let records = Some(c.count()?).filter(|n| *n != streaming);
    let mut dims: Vec<Dimension> = Vec::new();
    let mut record_dim = None;
    for number in 0..c.list(DIMENSIONS, "dimensions")? {
        let dim = Dimension { name: c.name()?, size: c.count()? };
        if dim.size == 0 && record_dim.replace(number as usize).is_some() {
            return Err(c.damaged("there are two record dimensions: the header is damaged"));
        }
        dims.push(dim);
    }
    let attrs = to_cf(&c.attributes()?)?;
    let mut vars = Vec::new();
    for _ in 0..c.list(VARIABLES, "variables")? {
        let name = c.name()?;
        let rank = c.count()?;
        if rank > MAX_RANK {
            return Err(c.damaged(format!("variable \"{name}\" has {rank} dimensions: the header is damaged")));
        }
        let mut numbers = Vec::new();
        for axis in 0..rank {
            let number = usize::try_from(c.count()?).ok().filter(|n| *n < dims.len());
            let number = number.filter(|n| axis == 0 || Some(*n) != record_dim);
            numbers.push(number.ok_or_else(|| c.damaged(format!("variable \"{name}\" has a wrong dimension")))?);
        }
        let raw = c.attributes()?;
        let (kind, _) = c.kind()?;
        // The size is not read: it is wrong for large variables by design.
        c.count()?;
        let begin = c.offset()?;
        let fill = raw.iter().find(|a| a.name == "_FillValue" && a.kind == kind);
        let fill = fill.filter(|a| a.data.len() == kind.default_fill().len()).map(|a| a.data.clone());
        let fill = fill.unwrap_or_else(|| kind.default_fill());
        vars.push(Variable { name, dims: numbers, attrs: to_cf(&raw)?, kind, fill, begin });
    }
    Ok(Header { records, dims, record_dim, attrs, vars, size: c.at })
}
