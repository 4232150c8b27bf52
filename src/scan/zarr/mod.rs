//! Zarr, version 2 and 3: a folder of files, each of which holds a chunk, or a shard of chunks.
//!
//! The folder is listed once; the listing says which chunks there are and how large they are. Metadata is read for each
//! array, or at once where it is consolidated. Of a shard, its table of chunks is read.

pub mod metadata;

use super::{Location, Part, Refused, SourceArray, SourceChunk, SourceIndex, assemble};
use crate::io::{ByteReader, Listed, Opener};
use crate::model::{Attributes, Dim, Kind};
use crate::{Error, Result};
use metadata::{Meta, Sharding};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Metadata of more bytes than this is refused.
const MAX_METADATA: u64 = 256 << 20;
/// A table of a shard with more chunks than this is refused.
const MAX_TABLE: u64 = 16 << 20;

/// The chunk index of one Zarr.
pub struct ZarrIndex {
    opener: Arc<dyn Opener>,
    path: String,
    files: Vec<Listed>,
    arrays: Vec<SourceArray>,
    stored: Vec<Stored>,
    refused: Vec<Refused>,
    groups: Vec<(String, Attributes)>,
}

struct Stored {
    meta: Meta,
    /// Numbers of its files in the listing, each with the indices of its chunk or shard.
    files: Vec<(usize, Vec<u64>)>,
}

/// What was found in the folder of a node.
#[derive(Default)]
struct Node {
    array: Option<Value>,
    attrs: Option<Value>,
    v3: Option<Value>,
}

/// Opens a folder that is a Zarr.
///
/// # Errors
/// [`Error::Format`] if it is none; [`Error::Io`].
pub fn open(opener: Arc<dyn Opener>, path: &str) -> Result<Box<dyn SourceIndex>> {
    let path = path.trim_end_matches('/').to_owned();
    let files = opener.list(&path)?;
    let nodes = nodes(opener.as_ref(), &path, &files)?;
    if nodes.is_empty() {
        return Err(Error::Format {
            path,
            offset: 0,
            what: "it is a folder, but no Zarr: there is no .zarray, .zgroup or zarr.json in it".into(),
        });
    }
    let mut index = ZarrIndex {
        opener,
        path,
        files,
        arrays: Vec::new(),
        stored: Vec::new(),
        refused: Vec::new(),
        groups: Vec::new(),
    };
    let mut found: BTreeMap<String, Meta> = BTreeMap::new();
    let empty = Value::Null;
    for (folder, node) in nodes {
        let meta = match (&node.v3, &node.array) {
            (Some(v3), _) if v3["node_type"] == "array" => metadata::v3(v3),
            (_, Some(array)) => metadata::v2(array, node.attrs.as_ref().unwrap_or(&empty)),
            (v3, None) => {
                let attrs = v3.as_ref().map_or(node.attrs.as_ref().unwrap_or(&empty), |v| &v["attributes"]);
                index.groups.push((folder, metadata::group_attributes(attrs)));
                continue;
            }
        };
        match meta {
            Ok(meta) => {
                found.insert(folder, meta);
            }
            Err(what) => {
                let name = index.array_name(&folder);
                let why = Error::Unsupported { path: index.path.clone(), array: name.clone(), what };
                index.refused.push(Refused { name, why });
            }
        }
    }
    index.fill(found);
    Ok(Box::new(index))
}

///
/// # Errors
/// [`Error::Format`] if it is none; [`Error::Io`].
pub fn read(opener: &dyn Opener, path: &str) -> Result<Value> {
    let bad = |what: String| Error::Format { path: path.to_owned(), offset: 0, what };
    let reader = opener.open(path)?;
    let size = reader.size()?;
    if size > MAX_METADATA {
        return Err(bad(format!("{size} bytes of metadata are too many")));
    }
    let mut bytes = vec![0; size as usize];
    reader.read_at(0, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8 text".into()))?;
    parse_json(&text).map_err(bad)
}

/// Reads JSON as Python writes it, with bare `NaN` and `Infinity`, which become strings.
///
/// # Errors
/// What is wrong.
pub fn parse_json(text: &str) -> Result<Value, String> {
    let parsed = serde_json::from_str(text).or_else(|e| serde_json::from_str(&without_nan(text)).map_err(|_| e));
    parsed.map_err(|e| format!("it is no JSON: {e}"))
}

/// Bare `NaN`, `Infinity` and `-Infinity` become strings.
fn without_nan(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|w| !in_string && rest.starts_with(w));
        if let Some(word) = word {
            out.push_str(&format!("\"{word}\""));
            rest = &rest[word.len()..];
            continue;
        }
        let mut length = c.len_utf8();
        if c == '\\' && in_string {
            length += rest[1..].chars().next().map_or(0, char::len_utf8);
        } else if c == '"' {
            in_string = !in_string;
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Metadata of all nodes by folder; from one document where it is consolidated.
fn nodes(opener: &dyn Opener, path: &str, files: &[Listed]) -> Result<BTreeMap<String, Node>> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    let put = |nodes: &mut BTreeMap<String, Node>, name: &str, value: &dyn Fn() -> Result<Value>| {
        let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
        if !matches!(own, ".zarray" | ".zattrs" | ".zgroup" | "zarr.json") {
            return Ok(());
        }
        let node = nodes.entry(folder.to_owned()).or_default();
        match own {
            ".zarray" => node.array = Some(value()?),
            ".zattrs" => node.attrs = Some(value()?),
            "zarr.json" => node.v3 = Some(value()?),
            _ => {}
        }
        Ok::<(), Error>(())
    };
    if files.iter().any(|f| f.name == ".zmetadata") {
        let all = read(opener, &format!("{path}/.zmetadata"))?;
        for (name, value) in all["metadata"].as_object().into_iter().flatten() {
            put(&mut nodes, name, &|| Ok(value.clone()))?;
        }
    }
    if nodes.is_empty() && files.iter().any(|f| f.name == "zarr.json") {
        let root = read(opener, &format!("{path}/zarr.json"))?;
        let all = root["consolidated_metadata"]["metadata"].as_object().cloned().unwrap_or_default();
        for (name, value) in &all {
            put(&mut nodes, &format!("{name}/zarr.json"), &|| Ok(value.clone()))?;
        }
        if !all.is_empty() {
            put(&mut nodes, "zarr.json", &|| Ok(root.clone()))?;
        }
    }
    if nodes.is_empty() {
        for file in files {
            put(&mut nodes, &file.name, &|| read(opener, &format!("{path}/{}", file.name)))?;
        }
    }
    // Attributes alone are no node of version 2.
    Ok(nodes)
}

/// The indices that the name of a chunk's file says, within the folder of its array.
pub fn indices(name: &str, meta: &Meta) -> Option<Vec<u64>> {
    let rank = meta.shape.len();
    let name = match name.strip_prefix(meta.prefix.as_str())? {
        rest if meta.prefix.is_empty() => rest,
        "" => "",
        rest => rest.strip_prefix(meta.separator)?,
    };
    if rank == 0 {
        return (name.is_empty() || name == "0").then(Vec::new);
    }
    let number = |text: &str| -> Option<u64> {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        text.parse().ok().filter(|_| plain)
    };
    let list: Vec<u64> = name.split(meta.separator).map(number).collect::<Option<_>>()?;
    let inside = |(i, (shape, chunk)): (&u64, (&u64, &u64))| *i < shape.div_ceil(*chunk);
    (list.len() == rank && list.iter().zip(meta.shape.iter().zip(&meta.file_chunks)).all(inside)).then_some(list)
}

impl ZarrIndex {
    /// An array's full name; that of an array which is the whole Zarr is the folder's.
    fn array_name(&self, folder: &str) -> String {
        if !folder.is_empty() {
            return folder.to_owned();
        }
        let own = self.path.rsplit('/').next().unwrap_or(&self.path);
        own.strip_suffix(".zarr").filter(|n| !n.is_empty()).unwrap_or(own).to_owned()
    }

    fn fill(&mut self, found: BTreeMap<String, Meta>) {
        let mut of: HashMap<&str, Vec<(usize, Vec<u64>)>> = HashMap::new();
        for (number, file) in self.files.iter().enumerate() {
            // The array's folder is the nearest above.
            let mut end = file.name.len();
            while let Some(at) = file.name[..end].rfind('/').or(if end > 0 { Some(0) } else { None }) {
                let folder = &file.name[..at];
                if let Some((name, meta)) = found.get_key_value(folder) {
                    let own = file.name[at..].trim_start_matches('/');
                    if let Some(indices) = indices(own, meta) {
                        of.entry(name).or_default().push((number, indices));
                    }
                    break;
                }
                end = at;
            }
        }
        let (mut arrays, mut stored) = (Vec::new(), Vec::new());
        for ((folder, meta), dims) in found.iter().zip(dimensions(&found)) {
            arrays.push(SourceArray {
                name: self.array_name(folder),
                dims,
                chunks: meta.chunks.clone(),
                dtype: meta.dtype,
                fill: meta.fill.clone(),
                codec: meta.codec.clone(),
                info: metadata::info(meta),
                attrs: meta.attrs.clone(),
                contiguous: false,
            });
            let files = of.remove(folder.as_str()).unwrap_or_default();
            stored.push(Stored { meta: meta.clone(), files });
        }
        (self.arrays, self.stored) = (arrays, stored);
    }

    fn file_path(&self, file: &Listed) -> String {
        format!("{}/{}", self.path, file.name)
    }

    /// Byte ranges of the chunks of a shard, in the order of its own grid.
    fn table(&self, path: &str, size: u64, count: u64, sharding: &Sharding) -> Result<Vec<Option<(u64, u64)>>> {
        let bad = |what: String| Error::Format { path: path.to_owned(), offset: 0, what };
        let length = count.saturating_mul(16);
        let whole = length.saturating_add(if sharding.checksum { 4 } else { 0 });
        if count > MAX_TABLE || whole > size {
            return Err(bad(format!("a shard of {size} bytes has no table of {count} chunks: it is damaged")));
        }
        let mut bytes = vec![0; whole as usize];
        let at = if sharding.at_end { size - whole } else { 0 };
        self.opener.open(path)?.read_at(at, &mut bytes)?;
        let stored = bytes.split_off(length as usize);
        if sharding.checksum && crc32c(&bytes).to_le_bytes() != stored[..] {
            return Err(bad("the table of its chunks is damaged: its CRC-32C is wrong".into()));
        }
        let number = |b: &[u8]| b.iter().rev().fold(0, |n: u64, b| n << 8 | u64::from(*b));
        let entry = |b: &[u8]| {
            let (offset, length) = (number(&b[..8]), number(&b[8..]));
            if offset == u64::MAX && length == u64::MAX {
                return Ok(None);
            }
            if length == 0 || offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(bad(format!("{length} bytes at {offset} are not in the shard of {size} bytes")));
            }
            Ok(Some((offset, length)))
        };
        bytes.chunks_exact(16).map(entry).collect()
    }
}

/// The dimensions of each array, in the order of `found`; those without a name are told apart by their length.
pub fn dimensions(found: &BTreeMap<String, Meta>) -> Vec<Vec<Dim>> {
    let mut phony: Vec<u64> = Vec::new();
    let mut all = Vec::new();
    for (folder, meta) in found {
        let group = folder.rsplit_once('/').map_or("", |(g, _)| g);
        let mut used = Vec::new();
        let dims = meta.shape.iter().zip(&meta.dims).map(|(size, name)| {
            let name = match name.as_deref().filter(|n| !n.is_empty()) {
                Some(name) => dimension(group, name, *size, found),
                None => {
                    let free = (0..phony.len()).find(|n| phony[*n] == *size && !used.contains(n));
                    let number = free.unwrap_or_else(|| {
                        phony.push(*size);
                        phony.len() - 1
                    });
                    used.push(number);
                    format!("phony_dim_{number}")
                }
            };
            Dim { name, size: *size }
        });
        all.push(dims.collect());
    }
    all
}

/// The full name of a dimension: that of a coordinate in the array's group or one above, else the array's group's.
fn dimension(group: &str, name: &str, size: u64, found: &BTreeMap<String, Meta>) -> String {
    let mut at = group;
    loop {
        let full = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        if found.get(&full).is_some_and(|m| m.shape == [size]) {
            return full;
        }
        if at.is_empty() {
            return if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        }
        at = at.rsplit_once('/').map_or("", |(g, _)| g);
    }
}

/// CRC-32C (Castagnoli).
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

impl SourceIndex for ZarrIndex {
    fn arrays(&self) -> &[SourceArray] {
        &self.arrays
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn groups(&self) -> &[(String, Attributes)] {
        &self.groups
    }

    fn in_parts(&self, _array: usize) -> bool {
        true
    }

    fn chunks(&self, number: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()> {
        let Stored { meta, files } = &self.stored[number];
        let rank = meta.shape.len();
        // Chunks of a file along each dimension.
        let inside: Vec<u64> = meta.file_chunks.iter().zip(&meta.chunks).map(|(f, c)| f / c).collect();
        for (file, indices) in files {
            let file = &self.files[*file];
            let path = self.file_path(file);
            let size = match file.stat.size {
                Some(size) => size,
                None => self.opener.stat(&path)?.size.unwrap_or(0),
            };
            if size == 0 {
                return Err(Error::Format { path, offset: 0, what: "a chunk has no bytes: it is damaged".into() });
            }
            let first: Vec<u64> = indices.iter().zip(&meta.file_chunks).map(|(i, c)| i * c).collect();
            let count = (0..rank).map(|a| meta.file_chunks[a].min(meta.shape[a] - first[a])).collect();
            let part = Arc::new(Part { path, stat: file.stat.clone(), first, count, renamed: false });
            let Some(sharding) = &meta.sharding else {
                let location = Location::Part { part, offset: 0, size };
                sink(SourceChunk { key: indices, location, filter_mask: 0 })?;
                continue;
            };
            let chunks = inside.iter().fold(1u64, |n, c| n.saturating_mul(*c));
            let mut own = vec![0; rank];
            for range in self.table(&part.path, size, chunks, sharding)? {
                let key: Vec<u64> = (0..rank).map(|a| indices[a] * inside[a] + own[a]).collect();
                let is_inside = (0..rank).all(|a| key[a] * meta.chunks[a] < meta.shape[a]);
                if let Some((offset, size)) = range.filter(|_| is_inside) {
                    let location = Location::Part { part: Arc::clone(&part), offset, size };
                    sink(SourceChunk { key: &key, location, filter_mask: 0 })?;
                }
                for axis in (0..rank).rev() {
                    own[axis] += 1;
                    if own[axis] < inside[axis] {
                        break;
                    }
                    own[axis] = 0;
                }
            }
        }
        Ok(())
    }

    fn values(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        let array = &self.arrays[number];
        if array.dtype.kind == Kind::VlenUtf8 {
            let what = "strings of any length can't be read whole here".into();
            return Err(Error::Unsupported { path: self.path.clone(), array: array.name.clone(), what });
        }
        let read = |location: &Location| match location {
            Location::Part { part, offset, size } if *size <= assemble::MAX_CHUNK => {
                let mut bytes = vec![0; *size as usize];
                self.opener.open(&part.path)?.read_at(*offset, &mut bytes)?;
                Ok(bytes)
            }
            _ => Err(Error::Format {
                path: self.path.clone(),
                offset: 0,
                what: format!("array \"{}\": a chunk is too large to be read here", array.name),
            }),
        };
        assemble::values(&self.path, self, number, limit, &read)
    }
}

/// A folder, in the place of a file: it has no bytes of its own.
pub struct Folder(pub String);

impl ByteReader for Folder {
    fn size(&self) -> Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> Result<()> {
        Err(Error::Io { path: self.0.clone(), what: "is a folder".into() })
    }

    fn path(&self) -> &str {
        &self.0
    }
}
