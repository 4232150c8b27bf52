//! Datasets: what their headers say, as arrays that can be carried.

use super::attribute;
use super::file::{File, UNDEFINED};
use super::global_heap::GlobalHeap;
use super::header::{Message, kind};
use super::message::{self, Dataspace, Datatype, Filter, Layout};
use crate::codec::hdf5;
use crate::model::{ByteOrder, CodecSpec, DType, Fill, Kind};
use crate::{Error, Result};
use serde_json::{Value, json};

/// A dataset.
#[derive(Debug)]
pub struct Dataset {
    /// Shape and largest shape.
    pub space: Dataspace,
    /// Type of the elements of the array.
    pub dtype: DType,
    /// Bytes of an element in the file; for variable-length strings those of a reference to a heap.
    pub item: u64,
    /// Where the values are.
    pub layout: Layout,
    /// Chunk shape; the whole shape without chunks.
    pub chunks: Vec<u64>,
    /// Codec of the bytes in the file.
    pub stored_codec: CodecSpec,
    /// Number of filters.
    pub filters: usize,
    /// Storage fill value.
    pub fill: Fill,
    /// Bytes of an element that was never written; for variable-length strings a reference to a heap.
    pub stored_fill: Vec<u8>,
    /// GDAL's block-info text.
    pub info: String,
}

fn find(messages: &[Message], kind: u16) -> Option<&[u8]> {
    messages.iter().find(|m| m.kind == kind).map(|m| m.data.as_slice())
}

/// Whether the messages are those of a dataset.
pub fn is_dataset(messages: &[Message]) -> bool {
    find(messages, kind::LAYOUT).is_some()
}

impl Dataset {
    /// Reads a dataset from its messages.
    ///
    /// # Errors
    /// [`Error::Format`] if it is damaged; [`Error::Unsupported`] if it can't be carried, saying why.
    pub fn read(file: &File, heap: &mut GlobalHeap, name: &str, address: u64, messages: &[Message]) -> Result<Dataset> {
        let damaged = |what: &str| file.damaged(address, &format!("array \"{name}\": its {what}"));
        let unsupported =
            |what: String| Error::Unsupported { path: file.path().to_owned(), array: name.to_owned(), what };
        let part = |kind: u16, what: &str| find(messages, kind).ok_or_else(|| damaged(what));
        let space = message::dataspace(part(kind::DATASPACE, "dataspace")?, file.length_size);
        let space = space.ok_or_else(|| damaged("dataspace"))?;
        let (datatype, item) =
            message::datatype(part(kind::DATATYPE, "datatype")?).ok_or_else(|| damaged("datatype"))?;
        let layout = message::layout(part(kind::LAYOUT, "layout")?, file.offset_size, file.length_size);
        let layout = layout.ok_or_else(|| damaged("layout"))?;
        let dtype = match datatype {
            Datatype::Fixed(dtype) => dtype,
            Datatype::VlenString if item != 8 + file.offset_size as u64 => return Err(damaged("datatype")),
            Datatype::VlenString => DType::new(Kind::VlenUtf8, 0, ByteOrder::NATIVE),
            Datatype::StringOfSize(n) => return Err(unsupported(format!("strings of {n} bytes are not supported"))),
            Datatype::Sequence { .. } => {
                return Err(unsupported("variable-length values that are not text are not supported".into()));
            }
            Datatype::ObjectReference => return Err(unsupported("values of type reference are not supported".into())),
            Datatype::Other(what) => return Err(unsupported(format!("values of type {what} are not supported"))),
        };
        let Some(shape) = &space.shape else {
            return Err(unsupported("it has a null dataspace: no values at all".into()));
        };
        if find(messages, kind::EXTERNAL_FILES).is_some() {
            return Err(unsupported("its values are in external files, which is not supported".into()));
        }
        let filters = match find(messages, kind::FILTERS) {
            Some(data) => message::filters(data).ok_or_else(|| damaged("filter pipeline"))?,
            None => Vec::new(),
        };
        let chunks = match &layout {
            Layout::Chunked { chunks, .. } => {
                if chunks.len() != shape.len() || chunks.contains(&0) {
                    return Err(damaged("chunk shape"));
                }
                chunks.clone()
            }
            Layout::Other(what) => return Err(unsupported(format!("it is a {what}, which is not supported"))),
            _ => shape.iter().map(|s| (*s).max(1)).collect(),
        };
        let chunk_bytes = chunks.iter().try_fold(item, |n, c| n.checked_mul(*c));
        if chunk_bytes.is_none_or(|n| n > i64::MAX as u64) {
            return Err(damaged("chunk shape"));
        }
        let stored_codec = codec(&filters, item);
        let stored_fill = read_fill(messages, item).ok_or_else(|| damaged("fill value"))?;
        let fill = match dtype.kind {
            Kind::VlenUtf8 => Fill(Value::String(attribute::text(&heap.item(file, &stored_fill, 1)?))),
            _ => Fill::from_bytes(&dtype, &stored_fill)?,
        };
        let info = info(&filters, &dtype);
        Ok(Dataset {
            space,
            dtype,
            item,
            layout,
            chunks,
            stored_codec,
            filters: filters.len(),
            fill,
            stored_fill,
            info,
        })
    }

    /// The shape.
    pub fn shape(&self) -> &[u64] {
        self.space.shape.as_deref().unwrap_or_default()
    }

    /// The codec of the array: strings of variable length are carried decoded.
    pub fn codec(&self) -> CodecSpec {
        if self.dtype.kind == Kind::VlenUtf8 {
            return CodecSpec { compressor: None, filters: vec![json!({"id": "vlen-utf8"})] };
        }
        match self.layout {
            Layout::Chunked { .. } => self.stored_codec.clone(),
            _ => CodecSpec::default(),
        }
    }

    /// Whether the values lie in one run without filters.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.layout, Layout::Contiguous { address, .. } if address != UNDEFINED)
            && self.item == self.dtype.size as u64
    }
}

/// Name of one of Blosc's codecs by its number.
fn blosc_codec(number: Option<u32>) -> &'static str {
    let names = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
    number.and_then(|n| names.get(n as usize)).unwrap_or(&names[0])
}

/// Filters as Zarr v2 codecs. A compressor that comes last is the compressor.
fn codec(filters: &[Filter], item: u64) -> CodecSpec {
    let mut list: Vec<Value> = Vec::with_capacity(filters.len());
    for filter in filters {
        let parameter = |i: usize| filter.parameters.get(i).copied();
        list.push(match filter.id {
            1 => json!({"id": "zlib", "level": parameter(0).unwrap_or(6).min(9)}),
            2 => json!({"id": "shuffle", "elementsize": parameter(0).map_or(item, u64::from)}),
            3 => json!({"id": "fletcher32"}),
            307 => json!({"id": "bz2", "level": parameter(0).unwrap_or(9).clamp(1, 9)}),
            // A chunk says itself how it was made; the parameters are for writers.
            32001 => json!({
                "id": "blosc", "cname": blosc_codec(parameter(6)), "clevel": parameter(4).unwrap_or(5).min(9),
                "shuffle": parameter(5).unwrap_or(1).min(2), "blocksize": 0
            }),
            32015 => json!({"id": "zstd", "level": parameter(0).unwrap_or(3).min(22)}),
            id => json!({"id": hdf5::ID, "filter": id, "cd_values": filter.parameters}),
        });
    }
    let compressor = list.pop_if(|last| ["zlib", "bz2", "blosc", "zstd"].iter().any(|id| last["id"] == *id));
    CodecSpec { compressor, filters: list }
}

/// GDAL's block-info text.
fn info(filters: &[Filter], dtype: &DType) -> String {
    let mut items = Vec::new();
    let name = |id: u16| match id {
        1 => "DEFLATE".to_owned(),
        4 => "SZIP".to_owned(),
        307 => "BZIP2".to_owned(),
        id if hdf5::filter_name(u64::from(id)) == "unknown" => format!("HDF5_{id}"),
        id => hdf5::filter_name(u64::from(id)).to_uppercase(),
    };
    let names = |compressors: bool| -> Vec<String> {
        filters.iter().map(|f| f.id).filter(|id| [2, 3, 5, 6, 32008].contains(id) != compressors).map(name).collect()
    };
    if let Some(name) = names(true).first() {
        items.push(format!("COMPRESSION={name}"));
    }
    let other = names(false);
    if !other.is_empty() {
        items.push(format!("FILTER={}", other.join(",")));
    }
    if dtype.swap_size() > 1 {
        items.push(format!("ENDIANNESS={}", if dtype.order == ByteOrder::Big { "BIG" } else { "LITTLE" }));
    }
    items.join("; ")
}

/// What an element that was never written reads as, in `item` bytes: zeros unless something else is set.
fn read_fill(messages: &[Message], item: u64) -> Option<Vec<u8>> {
    let bytes = match (find(messages, kind::FILL), find(messages, kind::OLD_FILL)) {
        (Some(data), _) => message::fill(data)?,
        (None, Some(data)) => message::old_fill(data)?,
        (None, None) => None,
    };
    match bytes {
        Some(bytes) => (bytes.len() as u64 == item).then_some(bytes),
        None => Some(vec![0; usize::try_from(item).ok()?]),
    }
}
