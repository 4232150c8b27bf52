//! Metadata of one array, version 2 or 3, as the store describes arrays.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html> and
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.

use crate::model::{Attribute, Attributes, ByteOrder, CodecSpec, DType, Fill, Kind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Where the table of a shard's chunks is, and how it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Whether it comes last.
    pub at_end: bool,
    /// Whether a CRC-32C follows it.
    pub checksum: bool,
}

/// What the metadata says.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Shape in elements.
    pub shape: Vec<u64>,
    /// Shape of what one file holds, in elements.
    pub file_chunks: Vec<u64>,
    /// Chunk shape in elements: of the chunks of a shard where there are shards.
    pub chunks: Vec<u64>,
    /// Type.
    pub dtype: DType,
    /// What an absent chunk reads as.
    pub fill: Fill,
    /// Codec.
    pub codec: CodecSpec,
    /// Attributes.
    pub attrs: Attributes,
    /// Names of dimensions, as written.
    pub dims: Vec<Option<String>>,
    /// What comes before the indices of a chunk's name.
    pub prefix: String,
    /// What comes between them.
    pub separator: char,
    /// Shards.
    pub sharding: Option<Sharding>,
}

fn list(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(|v| v.as_u64().filter(|n| *n <= i64::MAX as u64)).collect()
}

fn compressor_last(mut all: Vec<Value>) -> CodecSpec {
    const COMPRESSORS: [&str; 7] = ["zlib", "gzip", "zstd", "lz4", "blosc", "bz2", "lzma"];
    let is_compressor = |v: &mut Value| v["id"].as_str().is_some_and(|id| COMPRESSORS.contains(&id));
    let compressor = all.pop_if(is_compressor);
    CodecSpec { compressor, filters: all }
}

/// GDAL's block-info text.
pub fn info(meta: &Meta) -> String {
    let mut items = Vec::new();
    if let Some(id) = meta.codec.compressor.as_ref().and_then(|c| c["id"].as_str()) {
        items.push(format!("COMPRESSION={}", id.to_uppercase()));
    }
    let filters: Vec<String> =
        meta.codec.filters.iter().filter_map(|f| Some(f["id"].as_str()?.to_uppercase())).collect();
    if !filters.is_empty() {
        items.push(format!("FILTER={}", filters.join(",")));
    }
    if meta.dtype.swap_size() > 1 {
        let order = if meta.dtype.order == ByteOrder::Big { "BIG" } else { "LITTLE" };
        items.push(format!("ENDIANNESS={order}"));
    }
    items.join("; ")
}

fn attributes(object: &Map<String, Value>) -> Attributes {
    let plain = |v: &Value| match v {
        Value::String(_) | Value::Number(_) => true,
        Value::Array(items) => items.iter().all(|i| i.is_string() || i.is_number()),
        _ => false,
    };
    let dtype = |v: &Value| v.is_string().then(|| "|O".to_owned());
    // What has no place in CF is kept as its JSON.
    let of = |(name, value): (&String, &Value)| {
        let value = if plain(value) { value.clone() } else { Value::String(value.to_string()) };
        Attribute { name: name.clone(), dtype: dtype(&value), value }
    };
    Attributes(object.iter().filter(|(n, _)| *n != "_ARRAY_DIMENSIONS").map(of).collect())
}

/// Attributes of a group.
pub fn group_attributes(value: &Value) -> Attributes {
    value.as_object().map(attributes).unwrap_or_default()
}

/// Version 2: `.zarray` and `.zattrs`.
///
/// # Errors
/// What is wrong, or not supported.
pub fn v2(array: &Value, attrs: &Value) -> Result<Meta, String> {
    let shape = list(&array["shape"]).ok_or("\"shape\" is no list of lengths")?;
    let chunks = list(&array["chunks"]).ok_or("\"chunks\" is no list of lengths")?;
    let text = array["dtype"].as_str().ok_or("records have no place in the format")?;
    let dtype = DType::parse(text).map_err(|_| format!("type \"{text}\" is not supported"))?;
    if array["order"] == "F" && shape.len() > 1 {
        return Err("its chunks are in Fortran order".into());
    }
    let codecs = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let compressor = Some(array["compressor"].clone()).filter(|c| !c.is_null());
    let codec = CodecSpec { compressor, filters: codecs(&array["filters"]) };
    if codec.encode_order().any(|c| !c["id"].is_string()) {
        return Err("a codec has no id".into());
    }
    let fill = match (&array["fill_value"], dtype.kind) {
        // Text of any length has no other storage fill here.
        (_, Kind::VlenUtf8) => Fill::default(),
        (value, _) => Fill(value.clone()),
    };
    let empty = Map::new();
    let object = attrs.as_object().unwrap_or(&empty);
    let names = object.get("_ARRAY_DIMENSIONS").and_then(Value::as_array);
    let dims = (0..shape.len()).map(|i| names?.get(i)?.as_str().map(str::to_owned)).collect();
    let mut attrs = attributes(object);
    // Readers take the fill value for missing values too.
    if attrs.get("_FillValue").is_none()
        && !fill.is_none()
        && matches!(dtype.kind, Kind::Int | Kind::UInt | Kind::Float)
    {
        let little = dtype.with_order(ByteOrder::Little).to_string();
        attrs.set(Attribute { name: "_FillValue".into(), value: fill.0.clone(), dtype: Some(little) });
    }
    let separator = if array["dimension_separator"] == "/" { '/' } else { '.' };
    let file_chunks = chunks.clone();
    let prefix = String::new();
    checked(Meta { shape, file_chunks, chunks, dtype, fill, codec, attrs, dims, prefix, separator, sharding: None })
}

fn checked(meta: Meta) -> Result<Meta, String> {
    let rank = meta.shape.len();
    if meta.chunks.len() != rank || meta.file_chunks.len() != rank || rank > 32 {
        return Err(format!("shape {:?} does not go with chunks {:?}", meta.shape, meta.chunks));
    }
    if meta.chunks.iter().chain(&meta.file_chunks).any(|c| *c == 0) {
        return Err("a chunk has no elements".into());
    }
    if meta.file_chunks.iter().zip(&meta.chunks).any(|(f, c)| f % c != 0) {
        return Err(format!("shards of {:?} do not go with chunks of {:?}", meta.file_chunks, meta.chunks));
    }
    meta.fill.to_bytes(&meta.dtype).map_err(|e| e.to_string())?;
    Ok(meta)
}

/// Version 3: `zarr.json`.
///
/// # Errors
/// What is wrong, or not supported.
pub fn v3(node: &Value) -> Result<Meta, String> {
    let shape = list(&node["shape"]).ok_or("\"shape\" is no list of lengths")?;
    let grid = &node["chunk_grid"];
    if grid["name"] != "regular" {
        return Err(format!("chunk grid {} is not supported", grid["name"]));
    }
    let file_chunks = list(&grid["configuration"]["chunk_shape"]).ok_or("\"chunk_shape\" is no list of lengths")?;
    let encoding = &node["chunk_key_encoding"];
    let separator = encoding["configuration"]["separator"].as_str();
    let (prefix, separator) = match encoding["name"].as_str().or(encoding.as_str()) {
        Some("v2") => ("", separator.unwrap_or(".")),
        Some("default") | None => ("c", separator.unwrap_or("/")),
        Some(other) => return Err(format!("chunk key encoding \"{other}\" is not supported")),
    };
    let separator = if separator == "." { '.' } else { '/' };
    let kind = node["data_type"].as_str().ok_or_else(|| format!("type {} is not supported", node["data_type"]))?;
    let mut dtype = match kind {
        "bool" => DType::parse("|b1"),
        "string" => DType::parse("|O"),
        "complex64" => DType::parse("<c8"),
        "complex128" => DType::parse("<c16"),
        _ => {
            let digits = kind.trim_start_matches(|c: char| !c.is_ascii_digit());
            let bits: usize = digits.parse().unwrap_or(0);
            let code = match &kind[..kind.len() - digits.len()] {
                "int" => "i",
                "uint" => "u",
                "float" => "f",
                _ => "?",
            };
            DType::parse(&format!("<{code}{}", bits / 8))
        }
    }
    .map_err(|_| format!("type \"{kind}\" is not supported"))?;
    let empty = Vec::new();
    let codecs = node["codecs"].as_array().unwrap_or(&empty);
    let (mut chunks, mut sharding, mut inner) = (file_chunks.clone(), None, codecs);
    if let [only] = codecs.as_slice()
        && only["name"] == "sharding_indexed"
    {
        let of = &only["configuration"];
        chunks = list(&of["chunk_shape"]).ok_or("the chunk shape of its shards is no list of lengths")?;
        inner = of["codecs"].as_array().unwrap_or(&empty);
        let index: Vec<&str> =
            of["index_codecs"].as_array().unwrap_or(&empty).iter().filter_map(|c| c["name"].as_str()).collect();
        let checksum = match index[..] {
            ["bytes"] => false,
            ["bytes", "crc32c"] => true,
            _ => return Err(format!("the table of its shards is encoded with {}", index.join(", "))),
        };
        if of["index_codecs"][0]["configuration"]["endian"] == "big" {
            return Err("the table of its shards is big-endian".into());
        }
        sharding = Some(Sharding { at_end: of["index_location"] != "start", checksum });
    }
    let codec = v3_codecs(inner, &mut dtype)?;
    let fill = v3_fill(&node["fill_value"], &dtype)?;
    let empty = Map::new();
    let object = node["attributes"].as_object().unwrap_or(&empty);
    let names = node["dimension_names"].as_array().or_else(|| object.get("_ARRAY_DIMENSIONS")?.as_array());
    let dims = (0..shape.len()).map(|i| names?.get(i)?.as_str().map(str::to_owned)).collect();
    let mut attrs = attributes(object);
    if let Some(missing) = attrs.0.iter_mut().find(|a| a.name == "_FillValue") {
        // xarray writes the eight bytes of a float as base64.
        let bytes = missing.value.as_str().and_then(|t| STANDARD.decode(t).ok());
        if let (Kind::Float, Some(bytes)) = (dtype.kind, bytes.and_then(|b| <[u8; 8]>::try_from(b).ok())) {
            missing.value = crate::model::f64_to_json(f64::from_le_bytes(bytes));
        }
        if dtype.is_numeric() {
            missing.dtype = Some(dtype.with_order(ByteOrder::Little).to_string());
        }
    }
    let prefix = prefix.to_owned();
    checked(Meta { shape, file_chunks, chunks, dtype, fill, codec, attrs, dims, prefix, separator, sharding })
}

fn v3_codecs(list: &[Value], dtype: &mut DType) -> Result<CodecSpec, String> {
    let mut all = Vec::new();
    for codec in list {
        let name = codec["name"].as_str().or(codec.as_str()).ok_or("a codec has no name")?;
        let of = &codec["configuration"];
        match name {
            "bytes" => {
                if of["endian"] == "big" {
                    *dtype = dtype.with_order(ByteOrder::Big);
                }
            }
            "transpose" => {
                let order = of["order"].as_array().map(Vec::as_slice).unwrap_or_default();
                if !order.iter().enumerate().all(|(i, o)| o.as_u64() == Some(i as u64)) || order.is_empty() {
                    return Err("its chunks are transposed".into());
                }
            }
            "gzip" => all.push(json!({"id": "gzip", "level": of["level"].as_i64().unwrap_or(5)})),
            "zstd" => all.push(json!({"id": "zstd", "level": of["level"].as_i64().unwrap_or(0)})),
            "crc32c" => all.push(json!({"id": "crc32c", "location": "end"})),
            "vlen-utf8" => all.push(json!({"id": "vlen-utf8"})),
            "blosc" => {
                let shuffle = match of["shuffle"].as_str() {
                    Some("noshuffle") => 0,
                    Some("bitshuffle") => 2,
                    _ => 1,
                };
                let text = of["cname"].as_str().unwrap_or("zstd");
                let (level, block) = (of["clevel"].as_i64().unwrap_or(5), of["blocksize"].as_i64().unwrap_or(0));
                all.push(
                    json!({"id": "blosc", "cname": text, "clevel": level, "shuffle": shuffle, "blocksize": block}),
                );
            }
            other => match other.strip_prefix("numcodecs.") {
                Some(id) => {
                    let mut object = of.as_object().cloned().unwrap_or_default();
                    object.insert("id".into(), Value::String(id.into()));
                    all.push(Value::Object(object));
                }
                None => return Err(format!("codec \"{other}\" is not supported")),
            },
        }
    }
    Ok(compressor_last(all))
}

fn v3_fill(value: &Value, dtype: &DType) -> Result<Fill, String> {
    let Some(hex) = value.as_str().and_then(|t| t.strip_prefix("0x")).filter(|_| dtype.kind == Kind::Float) else {
        return Ok(if dtype.kind == Kind::VlenUtf8 { Fill::default() } else { Fill(value.clone()) });
    };
    let bits = u64::from_str_radix(hex, 16).map_err(|_| format!("fill value {value} is none"))?;
    let bytes = bits.to_le_bytes();
    let little = dtype.with_order(ByteOrder::Little);
    Fill::from_bytes(&little, &bytes[..dtype.size.min(8)]).map_err(|e| e.to_string())
}
