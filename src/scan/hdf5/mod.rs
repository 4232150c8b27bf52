//! HDF5 and netCDF-4 files, without libhdf5.
//!
//! ```text
//! superblock (file) → object headers (header) → links (group) → datasets (dataset, message)
//!                                             → attributes (attribute, fractal_heap, btree_v2, global_heap)
//!                                             → chunks (chunk_index)          → names of dimensions (netcdf)
//! ```

mod attribute;
mod btree_v2;
mod checksum;
mod chunk_index;
mod dataset;
mod file;
mod fractal_heap;
mod global_heap;
mod group;
mod header;
mod message;
mod netcdf;

pub use checksum::lookup3;

use super::assemble::copy_chunk;
use super::{ExternalLink, Location, Refused, SourceArray, SourceChunk, SourceIndex};
use crate::codec::{CodecOptions, Pipeline, Scratch, vlen};
use crate::io::ByteReader;
use crate::model::{Attributes, ByteOrder, DType, Dim, Kind};
use crate::{Error, Result};
use chunk_index::Chunked;
use dataset::Dataset;
use file::{File, UNDEFINED};
use global_heap::GlobalHeap;
use group::Target;
use message::Layout;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Objects of one file, at most.
const MAX_OBJECTS: usize = 1_000_000;
/// Groups within groups, at most.
const MAX_DEPTH: usize = 256;
/// Soft links that lead to soft links, at most; as many as libhdf5 follows (H5Pset_nlinks).
const MAX_LINKED: usize = 16;
/// A chunk of variable-length strings has no more bytes than this, decoded.
const MAX_STRINGS: u64 = 256 << 20;
/// A chunk of this many bytes, decoded, is read whatever the size of its array.
const SMALL_CHUNK: u64 = 16 << 20;

/// Where the bytes of a chunk are.
struct StoredChunk {
    address: u64,
    size: u64,
    mask: u32,
}

/// What decoding chunk after chunk needs.
#[derive(Default)]
struct Buffers {
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    scratch: Scratch,
}

/// The chunk index of one HDF5 file.
pub struct Hdf5Index {
    file: File,
    arrays: Vec<SourceArray>,
    datasets: Vec<Dataset>,
    refused: Vec<Refused>,
    groups: Vec<(String, Attributes)>,
    heap: RefCell<GlobalHeap>,
    /// Soft links: full name, full name of what they name.
    links: HashMap<String, String>,
    external: Vec<ExternalLink>,
}

/// Opens an HDF5 file.
///
/// # Errors
/// [`Error::Format`] if it is none, or is damaged; [`Error::Io`].
pub fn open(reader: Arc<dyn ByteReader>) -> Result<Box<dyn SourceIndex>> {
    let file = File::open(reader)?;
    let mut walk = Walk {
        file: &file,
        heap: GlobalHeap::default(),
        found: Vec::new(),
        refused: Vec::new(),
        groups: Vec::new(),
        visited: HashSet::new(),
        objects: 0,
        links: HashMap::new(),
        external: Vec::new(),
    };
    walk.group(file.root, "", 0)?;
    let Walk { heap, found, refused, groups, links, external, .. } = walk;
    let names = netcdf::dimension_names(&found.iter().map(|f| &f.node).collect::<Vec<_>>());
    let (mut arrays, mut datasets) = (Vec::new(), Vec::new());
    for (found, names) in found.into_iter().zip(names) {
        let Some(dataset) = found.dataset else { continue };
        if found.node.is_dimension_only {
            continue;
        }
        let dims = names.into_iter().zip(dataset.shape()).map(|(name, size)| Dim { name, size: *size }).collect();
        arrays.push(SourceArray {
            name: netcdf::array_name(&found.node.name),
            dims,
            chunks: dataset.chunks.clone(),
            dtype: dataset.dtype,
            fill: dataset.fill.clone(),
            codec: dataset.codec(),
            info: dataset.info.clone(),
            attrs: found.attrs,
            contiguous: dataset.is_contiguous(),
        });
        datasets.push(dataset);
    }
    Ok(Box::new(Hdf5Index { file, arrays, datasets, refused, groups, heap: RefCell::new(heap), links, external }))
}

/// The full name of what `path` names in `group`. HDF5 knows `.`, but not `..`.
fn full_path(group: &str, path: &str) -> String {
    let group = if path.starts_with('/') { "" } else { group };
    let parts = group.split('/').chain(path.split('/')).filter(|p| !p.is_empty() && *p != ".");
    parts.collect::<Vec<_>>().join("/")
}

struct Found {
    node: netcdf::Node,
    attrs: Attributes,
    /// None for one that can't be carried but may name dimensions.
    dataset: Option<Dataset>,
}

/// The walk through all groups.
struct Walk<'a> {
    file: &'a File,
    heap: GlobalHeap,
    found: Vec<Found>,
    refused: Vec<Refused>,
    groups: Vec<(String, Attributes)>,
    visited: HashSet<u64>,
    objects: usize,
    links: HashMap<String, String>,
    external: Vec<ExternalLink>,
}

impl Walk<'_> {
    fn group(&mut self, address: u64, name: &str, depth: usize) -> Result<()> {
        // A group that is reached again is listed where it was first found.
        if !self.visited.insert(address) {
            return Ok(());
        }
        let messages = header::read_header(self.file, address)?;
        self.group_of(&messages, name, depth)
    }

    fn group_of(&mut self, messages: &[header::Message], name: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.file.error(self.file.root, "groups are nested too deeply: the file is damaged"));
        }
        let raw = attribute::read(self.file, messages)?;
        let attrs = self.attributes(&raw)?;
        self.groups.push((name.to_owned(), attrs));
        for link in group::links(self.file, messages)? {
            self.objects += 1;
            if self.objects > MAX_OBJECTS {
                return Err(self.file.error(self.file.root, format!("there are more than {MAX_OBJECTS} objects")));
            }
            let full = if name.is_empty() { link.name } else { format!("{name}/{}", link.name) };
            let address = match link.target {
                Target::Hard(address) => address,
                Target::Soft(path) => {
                    self.links.insert(full, full_path(name, &path));
                    continue;
                }
                Target::External { file, object } => {
                    self.external.push(ExternalLink { name: full, file, object });
                    continue;
                }
            };
            if let Err(why) = self.object(address, &full, depth) {
                // One damaged array must not hide the others; what can't be read at all is an error.
                match why {
                    Error::Io { .. } => return Err(why),
                    why => self.refused.push(Refused { name: full, why }),
                }
            }
        }
        Ok(())
    }

    fn object(&mut self, address: u64, name: &str, depth: usize) -> Result<()> {
        if self.visited.contains(&address) {
            return Ok(());
        }
        let messages = header::read_header(self.file, address)?;
        if dataset::is_dataset(&messages) {
            return self.dataset(address, name, &messages);
        }
        if group::is_group(&messages) && self.visited.insert(address) {
            return self.group_of(&messages, name, depth + 1);
        }
        Ok(())
    }

    fn dataset(&mut self, address: u64, name: &str, messages: &[header::Message]) -> Result<()> {
        let raw = attribute::read(self.file, messages)?;
        let dataset = match Dataset::read(self.file, &mut self.heap, name, address, messages) {
            Ok(dataset) => Some(dataset),
            Err(why @ Error::Unsupported { .. }) => {
                self.refused.push(Refused { name: netcdf::array_name(name), why });
                None
            }
            Err(why) => return Err(why),
        };
        let shape = dataset.as_ref().map(|d| d.shape().to_vec()).unwrap_or_default();
        let node = netcdf::Node::new(self.file, &mut self.heap, name, address, &shape, &raw)?;
        if node.is_dimension_only {
            self.refused.retain(|r| r.name != name);
        }
        let attrs = self.attributes(&raw)?;
        self.found.push(Found { node, attrs, dataset });
        Ok(())
    }

    fn attributes(&mut self, raw: &[attribute::RawAttribute]) -> Result<Attributes> {
        let mut attrs = Attributes::default();
        for attribute in raw.iter().filter(|a| !attribute::is_internal(&a.name)) {
            if let Some(attribute) = attribute.to_cf(self.file, &mut self.heap)? {
                attrs.set(attribute);
            }
        }
        Ok(attrs)
    }
}

impl Hdf5Index {
    /// Calls `sink` with key, address, stored size, filter mask of every chunk in the file.
    fn stored_chunks(&self, number: usize, sink: &mut chunk_index::Sink<'_>) -> Result<()> {
        let (dataset, array) = (&self.datasets[number], &self.arrays[number]);
        let file = &self.file;
        let mut checked = |key: &[u64], address: u64, size: u64, mask: u32| {
            // What was cut off by a smaller shape is no chunk of the array.
            let at = key.iter().zip(&dataset.chunks).map(|(k, c)| k.checked_mul(*c));
            if at.zip(dataset.shape()).any(|(at, size)| at.is_none_or(|at| at >= *size)) {
                return Ok(());
            }
            let end = file.position(address).and_then(|p| p.checked_add(size));
            if size == 0 || end.is_none_or(|end| end > file.size()) {
                return Err(file.error(
                    address,
                    format!(
                        "array \"{}\", chunk {key:?}: its {size} bytes are not in the file of {} bytes: it is damaged",
                        array.name,
                        file.size()
                    ),
                ));
            }
            sink(key, address, size, mask)
        };
        match &dataset.layout {
            Layout::Contiguous { address, size } => {
                let want = dataset.shape().iter().fold(dataset.item, |n, s| n.saturating_mul(*s));
                if *address == UNDEFINED || want == 0 {
                    return Ok(());
                }
                if let Some(size) = size.filter(|s| *s != 0)
                    && size < want
                {
                    return Err(file.error(
                        *address,
                        format!("array \"{}\" has {size} bytes, but {want} for its shape: it is damaged", array.name),
                    ));
                }
                checked(&vec![0; dataset.shape().len()], *address, want, 0)
            }
            Layout::Chunked { index, address, raw_edges, .. } => {
                let shape = dataset.shape();
                let chunked = Chunked {
                    shape,
                    max: &dataset.space.max,
                    chunks: &dataset.chunks,
                    item: dataset.item,
                    filtered: dataset.filters > 0,
                    address: *address,
                };
                let all = if dataset.filters >= 32 { u32::MAX } else { (1 << dataset.filters) - 1 };
                let is_edge = |key: &[u64]| {
                    (0..key.len()).any(|a| (key[a] + 1).checked_mul(dataset.chunks[a]).is_none_or(|end| end > shape[a]))
                };
                chunk_index::list(file, index, &chunked, &mut |key, address, size, mask| {
                    checked(key, address, size, if *raw_edges && is_edge(key) { all } else { mask })
                })
            }
            Layout::Compact(_) | Layout::Other(_) => Ok(()),
        }
    }

    /// The bytes of one chunk as they are in the file, decoded to `buffers.decoded`; refused above `limit` bytes.
    fn decode(&self, number: usize, stored: StoredChunk, limit: u64, buffers: &mut Buffers) -> Result<()> {
        let dataset = &self.datasets[number];
        let bytes = dataset.chunks.iter().fold(dataset.item, |n, c| n.saturating_mul(*c));
        let too_large = || Error::Unsupported {
            path: self.file.path().to_owned(),
            array: self.arrays[number].name.clone(),
            what: format!("a chunk of {bytes} bytes is too large to be read here"),
        };
        if bytes > limit {
            return Err(too_large());
        }
        let position = self.file.position(stored.address).ok_or_else(too_large)?;
        let Buffers { encoded, decoded, scratch } = buffers;
        encoded.resize(stored.size as usize, 0);
        self.file.reader().read_at(position, encoded)?;
        let raw = DType::new(Kind::Bytes, dataset.item.max(1) as usize, ByteOrder::NATIVE);
        let elements = (bytes / dataset.item.max(1)) as usize;
        let pipeline = Pipeline::new(&dataset.stored_codec, &raw, elements, CodecOptions::default())?;
        decoded.resize(bytes as usize, 0);
        pipeline.decode_into(encoded, stored.mask, decoded, scratch)
    }

    /// Bytes that a chunk of references to strings may have, and the strings of one chunk: more than a file of this
    /// size holds would be damage.
    fn most_strings(&self) -> u64 {
        self.file.size().saturating_add(SMALL_CHUNK).min(MAX_STRINGS)
    }

    /// Strings behind the references of a chunk.
    fn strings(&self, number: usize, references: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut heap = self.heap.borrow_mut();
        let (mut total, most) = (0u64, self.most_strings());
        references
            .chunks_exact(self.datasets[number].item.max(1) as usize)
            .map(|reference| {
                let mut string = heap.item(&self.file, reference, 1)?;
                let end = string.iter().position(|b| *b == 0).unwrap_or(string.len());
                string.truncate(end);
                total += string.len() as u64;
                if total > most {
                    return Err(self.file.error(
                        self.file.root,
                        format!("array \"{}\": its strings have more than {most} bytes", self.arrays[number].name),
                    ));
                }
                Ok(string)
            })
            .collect()
    }
}

impl SourceIndex for Hdf5Index {
    fn arrays(&self) -> &[SourceArray] {
        &self.arrays
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn resolve(&self, name: &str) -> String {
        let mut path = name.to_owned();
        'links: for _ in 0..MAX_LINKED {
            // The first part of the path that is a link.
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for end in ends {
                if let Some(target) = self.links.get(&path[..end]) {
                    path = format!("{target}{}", &path[end..]);
                    continue 'links;
                }
            }
            return path;
        }
        name.to_owned()
    }

    fn links(&self) -> &[ExternalLink] {
        &self.external
    }

    fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn groups(&self) -> &[(String, Attributes)] {
        &self.groups
    }

    fn chunks(&self, number: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()> {
        let dataset = &self.datasets[number];
        let is_vlen = dataset.dtype.kind == Kind::VlenUtf8;
        if let Layout::Compact(bytes) = &dataset.layout {
            let want = dataset.shape().iter().fold(dataset.item, |n, s| n.saturating_mul(*s));
            if want == 0 {
                return Ok(());
            }
            let bytes = usize::try_from(want).ok().and_then(|n| bytes.get(..n)).ok_or_else(|| {
                self.file
                    .error(self.file.root, format!("array \"{}\": its bytes are too few", self.arrays[number].name))
            })?;
            let data = if is_vlen { vlen::join(&self.strings(number, bytes)?)? } else { bytes.to_vec() };
            let key = vec![0; dataset.shape().len()];
            return sink(SourceChunk { key: &key, location: Location::Inline(data), filter_mask: 0 });
        }
        let mut buffers = Buffers::default();
        self.stored_chunks(number, &mut |key, address, size, mask| {
            let location = if is_vlen {
                self.decode(number, StoredChunk { address, size, mask }, self.most_strings(), &mut buffers)?;
                Location::Inline(vlen::join(&self.strings(number, &buffers.decoded)?)?)
            } else {
                let offset = self.file.position(address).unwrap_or(UNDEFINED);
                Location::Range { offset, size }
            };
            let filter_mask = if is_vlen { 0 } else { mask };
            sink(SourceChunk { key, location, filter_mask })
        })
    }

    fn values(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        let (dataset, array) = (&self.datasets[number], &self.arrays[number]);
        let (shape, item) = (dataset.shape(), dataset.item);
        let total = shape.iter().try_fold(item, |n, s| n.checked_mul(*s)).filter(|n| *n <= limit);
        let total = total.ok_or_else(|| Error::Unsupported {
            path: self.file.path().to_owned(),
            array: array.name.clone(),
            what: format!("its values have more than {limit} bytes"),
        })?;
        let is_vlen = dataset.dtype.kind == Kind::VlenUtf8;
        let mut out = vec![0; total as usize];
        let fill = &dataset.stored_fill;
        if fill.iter().any(|b| *b != 0) {
            out.chunks_exact_mut(fill.len()).for_each(|e| e.copy_from_slice(fill));
        }
        if let Layout::Compact(bytes) = &dataset.layout {
            let bytes = bytes.get(..out.len()).ok_or_else(|| {
                self.file.error(self.file.root, format!("array \"{}\": its bytes are too few", array.name))
            })?;
            out.copy_from_slice(bytes);
        } else {
            let mut buffers = Buffers::default();
            self.stored_chunks(number, &mut |key, address, size, mask| {
                self.decode(number, StoredChunk { address, size, mask }, limit.max(SMALL_CHUNK), &mut buffers)?;
                copy_chunk(&buffers.decoded, key, &dataset.chunks, shape, item as usize, &mut out);
                Ok(())
            })?;
        }
        if is_vlen { vlen::join(&self.strings(number, &out)?) } else { Ok(out) }
    }
}
