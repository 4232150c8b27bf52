//! Attributes of groups and datasets.

use super::btree_v2;
use super::file::{Cursor, File};
use super::fractal_heap::FractalHeap;
use super::global_heap::GlobalHeap;
use super::header::{Message, kind, shared};
use super::message::{Dataspace, Datatype, dataspace, datatype};
use crate::Result;
use crate::model::{Attribute, DType, Fill, Kind};
use serde_json::Value;

/// An attribute as it is stored.
#[derive(Clone, Debug)]
pub struct RawAttribute {
    /// Name.
    pub name: String,
    /// Type.
    pub datatype: Datatype,
    /// Bytes of an element.
    pub item: u64,
    /// Shape.
    pub space: Dataspace,
    /// Bytes.
    pub data: Vec<u8>,
}

/// Values of one attribute, at most; what is longer is left out.
const MAX_VALUES: u64 = 1 << 20;

/// All attributes of an object: in the order they were made, where the file keeps it; else those in the header in its
/// order, those in a heap by name.
///
/// # Errors
/// [`crate::Error::Format`] if they are damaged.
pub fn read(file: &File, messages: &[Message]) -> Result<Vec<RawAttribute>> {
    let (mut attributes, mut compact) = (Vec::new(), Vec::new());
    for message in messages {
        match message.kind {
            kind::ATTRIBUTE => compact.push((message.order, parse(file, &message.data)?)),
            kind::ATTRIBUTE_INFO => {
                let mut c = Cursor::new(&message.data);
                let place = (|| {
                    c.skip(1)?;
                    let flags = c.byte()?;
                    c.skip(if flags & 1 != 0 { 2 } else { 0 })?;
                    Some((c.address(file.offset_size)?, c.address(file.offset_size)?))
                })();
                let (heap, tree) = place.ok_or_else(|| file.damaged(file.root, "an attribute info message"))?;
                if heap == super::file::UNDEFINED || tree == super::file::UNDEFINED {
                    continue;
                }
                let heap = FractalHeap::open(file, heap)?;
                let mut dense: Vec<(u32, RawAttribute)> = Vec::new();
                btree_v2::records(file, tree, &mut |record| {
                    let mut c = Cursor::new(record);
                    let fields = (|| Some((c.take(8)?, c.byte()?, c.u32()?)))();
                    let (id, flags, order) = fields.ok_or_else(|| file.damaged(tree, "an attribute's record"))?;
                    // Flag 2: the message itself is in the heap of shared messages.
                    let data = if flags & 2 != 0 {
                        let mut reference = vec![3, 1];
                        reference.extend_from_slice(id);
                        shared(file, kind::ATTRIBUTE, &reference, 0)?
                    } else {
                        heap.object(file, id.get(..heap.id_length()).unwrap_or(id))?
                    };
                    dense.push((order, parse(file, &data)?));
                    Ok(())
                })?;
                // Without an order all have the same number, and the tree is sorted by a hash.
                dense.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.name.cmp(&y.name)));
                attributes.extend(dense.into_iter().map(|(_, a)| a));
            }
            _ => {}
        }
    }
    compact.sort_by_key(|(order, _)| *order);
    attributes.extend(compact.into_iter().map(|(_, a)| a));
    Ok(attributes)
}

fn parse(file: &File, data: &[u8]) -> Result<RawAttribute> {
    let damaged = || file.damaged(file.root, "an attribute");
    let mut c = Cursor::new(data);
    let fields = (|| {
        let version = c.byte()?;
        let flags = c.byte()?;
        let sizes = [c.u16()?, c.u16()?, c.u16()?].map(usize::from);
        if version == 3 {
            c.skip(1)?;
        }
        let mut field = |n: usize| -> Option<&[u8]> {
            let bytes = c.take(n)?;
            if version == 1 {
                c.skip(n.next_multiple_of(8) - n)?;
            }
            Some(bytes)
        };
        let (name, kind, space) = (field(sizes[0])?, field(sizes[1])?, field(sizes[2])?);
        (1..=3).contains(&version).then_some((if version == 1 { 0 } else { flags }, name, kind, space))
    })();
    let (flags, name, kind_bytes, space_bytes) = fields.ok_or_else(damaged)?;
    let resolve = |shared_bit: u8, kind: u16, bytes: &[u8]| -> Result<Vec<u8>> {
        if flags & shared_bit != 0 { shared(file, kind, bytes, 0) } else { Ok(bytes.to_vec()) }
    };
    let (datatype, item) = datatype(&resolve(1, kind::DATATYPE, kind_bytes)?).ok_or_else(damaged)?;
    let space = dataspace(&resolve(2, kind::DATASPACE, space_bytes)?, file.length_size).ok_or_else(damaged)?;
    let wanted = space.elements().saturating_mul(item);
    let values = c.rest();
    let values = values.get(..usize::try_from(wanted).unwrap_or(usize::MAX)).ok_or_else(damaged)?;
    Ok(RawAttribute { name: text(name), datatype, item, space, data: values.to_vec() })
}

/// Text up to the first NUL; Latin-1 where it is not UTF-8.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(t) => t.to_owned(),
        Err(_) => bytes[..end].iter().map(|b| char::from(*b)).collect(),
    }
}

/// Attributes that belong to HDF5 and netCDF-4 themselves.
pub fn is_internal(name: &str) -> bool {
    matches!(
        name,
        "CLASS"
            | "NAME"
            | "DIMENSION_LIST"
            | "REFERENCE_LIST"
            | "DIMENSION_LABELS"
            | "_Netcdf4Dimid"
            | "_Netcdf4Coordinates"
            | "_nc3_strict"
            | "_NCProperties"
    )
}

impl RawAttribute {
    /// As a CF attribute; None for a type that JSON does not hold.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if its strings are damaged.
    pub fn to_cf(&self, file: &File, heap: &mut GlobalHeap) -> Result<Option<Attribute>> {
        let count = self.space.elements();
        if count > MAX_VALUES {
            return Ok(None);
        }
        let (values, dtype): (Vec<Value>, String) = match &self.datatype {
            Datatype::Fixed(dtype) if dtype.kind == Kind::Bytes => {
                let values = self.data.chunks_exact(dtype.size).map(|s| Value::String(text(s))).collect();
                (values, "|O".into())
            }
            Datatype::Fixed(dtype) => {
                let values = self.data.chunks_exact(dtype.size.max(1)).map(|v| Ok(Fill::from_bytes(dtype, v)?.0));
                (values.collect::<Result<_>>()?, little(dtype).to_string())
            }
            Datatype::VlenString => {
                let values = self.strings(file, heap)?.iter().map(|s| Value::String(text(s))).collect();
                (values, "|O".into())
            }
            Datatype::StringOfSize(_) => (vec![Value::String(String::new()); count as usize], "|O".into()),
            _ => return Ok(None),
        };
        let single = self.space.shape.as_ref().is_some_and(|s| s.len() <= 1) && values.len() == 1;
        let value = match (single, values.into_iter().next(), self.space.shape.is_none()) {
            (true, Some(value), _) => value,
            (_, None, true) if dtype == "|O" => Value::String(String::new()),
            _ => self.list(file, heap)?,
        };
        Ok(Some(Attribute { name: self.name.clone(), value, dtype: Some(dtype) }))
    }

    fn list(&self, file: &File, heap: &mut GlobalHeap) -> Result<Value> {
        Ok(Value::Array(match &self.datatype {
            Datatype::Fixed(dtype) if dtype.kind == Kind::Bytes => {
                self.data.chunks_exact(dtype.size).map(|s| Value::String(text(s))).collect()
            }
            Datatype::Fixed(dtype) => self
                .data
                .chunks_exact(dtype.size.max(1))
                .map(|v| Ok(Fill::from_bytes(dtype, v)?.0))
                .collect::<Result<_>>()?,
            Datatype::VlenString => self.strings(file, heap)?.iter().map(|s| Value::String(text(s))).collect(),
            _ => vec![Value::String(String::new()); self.space.elements() as usize],
        }))
    }

    /// Values of a variable-length string attribute.
    fn strings(&self, file: &File, heap: &mut GlobalHeap) -> Result<Vec<Vec<u8>>> {
        self.data.chunks_exact(self.item.max(1) as usize).map(|r| heap.item(file, r, 1)).collect()
    }

    /// Addresses that a list of lists of object references holds.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if it is damaged.
    pub fn references(&self, file: &File, heap: &mut GlobalHeap) -> Result<Vec<Vec<u64>>> {
        let address = |b: &[u8]| Cursor::new(b).address(file.offset_size);
        match self.datatype {
            Datatype::Sequence { item, references: true } => self
                .data
                .chunks_exact(self.item.max(1) as usize)
                .map(|r| {
                    let bytes = heap.item(file, r, item.max(1))?;
                    Ok(bytes.chunks_exact(item.max(1) as usize).filter_map(address).collect())
                })
                .collect(),
            Datatype::ObjectReference => Ok(self
                .data
                .chunks_exact(self.item.max(1) as usize)
                .map(|b| address(b).into_iter().collect())
                .collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Whole numbers of an integer attribute.
    pub fn integers(&self) -> Vec<i64> {
        match &self.datatype {
            Datatype::Fixed(dtype) if matches!(dtype.kind, Kind::Int | Kind::UInt) => self
                .data
                .chunks_exact(dtype.size.max(1))
                .filter_map(|v| Fill::from_bytes(dtype, v).ok()?.0.as_i64())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The text of a fixed-length string attribute.
    pub fn fixed_text(&self) -> Option<String> {
        matches!(&self.datatype, Datatype::Fixed(d) if d.kind == Kind::Bytes).then(|| text(&self.data))
    }
}

fn little(dtype: &DType) -> DType {
    dtype.with_order(crate::model::ByteOrder::Little)
}
