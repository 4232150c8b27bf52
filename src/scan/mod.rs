//! Native readers that list where the chunks of a source lie. One module for each format; [`open`] tells them apart.

mod assemble;
pub mod hdf5;
mod linked;
pub mod netcdf3;
pub mod tiff;
pub mod zarr;

pub use linked::ExternalLink;

use crate::io::{ByteReader, Opener, Stat};
use crate::model::{ArrayDesc, ArrayKind, Attributes, CodecSpec, DType, Dim, Fill, Storage};
use crate::{Error, Result};
use std::sync::Arc;

/// An array of a source.
#[derive(Clone, Debug)]
pub struct SourceArray {
    /// Full name without the leading `/`.
    pub name: String,
    /// Dimensions, in C order. A dimension without a name in the source is called `phony_dim_N`, as netCDF does.
    pub dims: Vec<Dim>,
    /// Chunk shape in elements; the whole shape (at least 1 along each axis) for storage without chunks.
    pub chunks: Vec<u64>,
    /// Type as stored. Enums are their base type.
    pub dtype: DType,
    /// Storage fill value (what an absent chunk reads as), not the attribute `_FillValue`.
    pub fill: Fill,
    /// Complete codec of the array, whatever its first chunk did.
    pub codec: CodecSpec,
    /// GDAL's block-info text of `codec`: `COMPRESSION=DEFLATE; FILTER=SHUFFLE; ENDIANNESS=LITTLE`.
    pub info: String,
    /// CF attributes; HDF5's own (`DIMENSION_LIST`, `REFERENCE_LIST`, `CLASS`, `NAME`, `_Netcdf4Dimid`, …) left out.
    pub attrs: Attributes,
    /// Whether storage is one contiguous uncompressed run that may be split along its slowest axes.
    pub contiguous: bool,
}

impl SourceArray {
    /// Lengths of the dimensions in elements.
    pub fn shape(&self) -> Vec<u64> {
        self.dims.iter().map(|d| d.size).collect()
    }

    /// The array as one of a store, called `name`, before it has a plan: without a shape.
    pub fn unplanned(&self, name: &str) -> ArrayDesc {
        ArrayDesc {
            name: name.to_owned(),
            kind: ArrayKind::Data,
            storage: Storage::Referenced,
            dims: self.dims.iter().map(|d| d.name.clone()).collect(),
            shape: None,
            chunks: self.chunks.clone(),
            dtype: self.dtype,
            fill: self.fill.clone(),
            codec: self.codec.clone(),
            attrs: self.attrs.clone(),
            affine: None,
            values: None,
        }
    }
}

/// Where the bytes of one chunk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the source, at a byte offset from its start (user block included).
    Range {
        /// Byte offset.
        offset: u64,
        /// Stored size in bytes, never 0.
        size: u64,
    },
    /// In a file of its own, which belongs to the source: a Zarr's chunk, or a chunk of a shard.
    Part {
        /// The file.
        part: Arc<Part>,
        /// Byte offset in it.
        offset: u64,
        /// Stored size in bytes, never 0.
        size: u64,
    },
    /// Here: encoded with the array's codec.
    Inline(Vec<u8>),
    /// Nowhere: it was never written, and reads as fill.
    Absent,
}

/// A file that holds a piece of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its path, to be opened.
    pub path: String,
    /// What is known of it.
    pub stat: Stat,
    /// First element of the array that it holds, along each dimension.
    pub first: Vec<u64>,
    /// Elements that it holds, along each dimension.
    pub count: Vec<u64>,
    /// Whether the array has another name in it: the file may hold another array of the array's name.
    pub renamed: bool,
}

/// One chunk as a scan reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceChunk<'a> {
    /// Place in the source's chunk grid.
    pub key: &'a [u64],
    /// Where its bytes are.
    pub location: Location,
    /// HDF5 filter mask: bit i set means that filter i of the pipeline was not applied. 0 for other formats.
    pub filter_mask: u32,
}

/// An array of a source that can't be carried, and why.
#[derive(Debug)]
pub struct Refused {
    /// Full name without the leading `/`.
    pub name: String,
    /// Why.
    pub why: Error,
}

/// The chunk index of one source.
pub trait SourceIndex: Send {
    /// Arrays that can be carried, in the order of the source's names.
    fn arrays(&self) -> &[SourceArray];

    /// Arrays that can't, by name.
    fn refused(&self) -> &[Refused];

    /// The name under which what `name` names is listed: links are followed. Unchanged where there are none.
    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Attributes of groups: (full name without the leading `/`, attributes); the root group is `""`.
    fn groups(&self) -> &[(String, Attributes)];

    /// Links to other files. [`open_path`] follows them.
    fn links(&self) -> &[ExternalLink] {
        &[]
    }

    /// The refused arrays of a source that has links, to be listed with those behind the links.
    fn take_refused(&mut self) -> Vec<Refused> {
        Vec::new()
    }

    /// Whether the chunks of array number `array` are in files of their own ([`Location::Part`]).
    fn in_parts(&self, array: usize) -> bool {
        let _ = array;
        false
    }

    /// Calls `sink` for every chunk of array number `array`, streamed: no more than a bounded part of the index is held
    /// in memory. Chunks that were never written may be left out (a missing chunk is absent). Keys come in no
    /// promised order, each once. Stops at the first error of `sink`.
    ///
    /// # Errors
    /// [`Error::Format`] where the index is broken; whatever `sink` returns.
    fn chunks(&self, array: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()>;

    /// All values of array number `array`, decoded: C-order bytes of its `dtype`, in its byte order (variable-length
    /// strings: encoded as `vlen-utf8`). For coordinates: an array of more than `limit` bytes is refused.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Io`], [`Error::Codec`]; [`Error::Unsupported`] above `limit`.
    fn values(&self, array: usize, limit: u64) -> Result<Vec<u8>>;
}

/// Opens a source by its first bytes.
///
/// # Errors
/// [`Error::Format`] if it is no format that is known, saying what it looks like; the errors of that format's reader.
pub fn open(reader: Arc<dyn ByteReader>) -> Result<Box<dyn SourceIndex>> {
    let mut head = vec![0; reader.size()?.min(8) as usize];
    reader.read_at(0, &mut head)?;
    match &head {
        head if netcdf3::is_netcdf3(head) => netcdf3::open(reader),
        head if tiff::is_tiff(head) => tiff::open(reader),
        // What is none of all these is named there.
        _ => hdf5::open(reader),
    }
}

/// A source that was opened by its path.
pub struct Opened {
    /// What was known of it before; nothing of a folder.
    pub stat: Stat,
    /// What its bytes are read with; a folder has none.
    pub reader: Arc<dyn ByteReader>,
    /// Its chunks.
    pub index: Box<dyn SourceIndex>,
}

/// Opens a source by its path: a folder is a Zarr, of a file the first bytes tell. Arrays behind links to other files are
/// listed too.
///
/// # Errors
/// As [`open`]; [`Error::Io`].
pub fn open_path(opener: &Arc<dyn Opener>, path: &str) -> Result<Opened> {
    let mut opened = open_one(opener, path)?;
    opened.index = linked::follow(opened.index, opener, path);
    Ok(opened)
}

/// Opens a source, without what its links lead to.
fn open_one(opener: &Arc<dyn Opener>, path: &str) -> Result<Opened> {
    let own = path.rsplit('/').next().unwrap_or_default();
    let by_name = own.is_empty() || own.ends_with(".zarr");
    // Elsewhere a look at what has the name of a file would be one more request.
    let may_be = by_name || opener.is_local(path) || !own.contains('.');
    if may_be && (opener.is_folder(path) || (by_name && !opener.is_local(path))) {
        let reader: Arc<dyn ByteReader> = Arc::new(zarr::Folder(path.to_owned()));
        let index = zarr::open(Arc::clone(opener), path)?;
        return Ok(Opened { stat: Stat::default(), reader, index });
    }
    let reader = opener.open(path)?;
    let stat = match reader.stat()? {
        Some(stat) => stat,
        None => opener.stat(path)?,
    };
    let index = open(Arc::clone(&reader))?;
    Ok(Opened { stat, reader, index })
}
