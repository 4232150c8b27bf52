//! The reader.

use super::ReadOptions;
use super::cache::ChunkCache;
use super::computed;
use super::run::{Job, Keep, Workers};
use super::scatter::Output;
use super::sources::Sources;
use super::window::{Axis, Window, slabs};
use crate::codec::{CodecOptions, Pipeline};
use crate::io::Opener;
use crate::model::{ArrayDesc, ByteOrder, ChunkGrid, Kind, Storage};
use crate::store::{ChunkRef, Store};
use crate::{Error, Result};
use std::sync::{Arc, OnceLock};

/// No decoded chunk larger than this is read (bytes). Chunks without a codec are read piece by piece and can be larger.
const MAX_CHUNK: usize = 4 << 30;
/// Most values of a computed array that are given as one chunk.
const MAX_COMPUTED: u64 = 1 << 24;

/// Reads windows of the arrays of one store. Thread-safe.
pub struct Reader {
    pub(super) store: Arc<Store>,
    options: ReadOptions,
    pub(super) threads: usize,
    /// The same for sources that are elsewhere: most of them wait.
    pub(super) remote_threads: usize,
    pub(super) sources: Sources,
    pub(super) cache: ChunkCache,
    layouts: Vec<OnceLock<Arc<Layout>>>,
    pub(super) workers: Workers,
}

/// How the chunks of an array are laid out.
pub(super) struct Layout {
    pub grid: ChunkGrid,
    pub pipeline: Pipeline,
    /// Bytes between two elements of a chunk, along each axis.
    pub strides: Vec<usize>,
    /// One element of fill, in native byte order.
    pub fill: Vec<u8>,
    /// Bytes that are swapped as one; 1 for none.
    pub swap: usize,
}

/// A chunk as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawChunk {
    /// Nowhere; reads as fill.
    Absent,
    /// In the store, encoded.
    Inline(Arc<[u8]>),
    /// In a source.
    Range {
        /// Path that is opened.
        path: String,
        /// Byte offset.
        offset: u64,
        /// Stored size in bytes.
        size: u64,
    },
}

/// Requests at a time, where nothing else is asked for.
const REMOTE_THREADS: usize = 32;

impl Reader {
    /// A reader of `store`, whose sources are opened by `opener`.
    ///
    /// # Errors
    /// None yet.
    pub fn new(store: Arc<Store>, opener: Arc<dyn Opener>, options: ReadOptions) -> Result<Reader> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let remote_threads = if options.threads == 0 { threads.max(REMOTE_THREADS) } else { threads };
        Ok(Reader {
            threads,
            remote_threads,
            sources: Sources::new(opener, &options),
            cache: ChunkCache::new(options.cache_size),
            layouts: store.arrays().iter().map(|_| OnceLock::new()).collect(),
            workers: Workers::default(),
            store,
            options,
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reads the window of `count` elements from `start` on into `out`: C order, the array's own type, native byte order.
    /// A window without elements is nothing to do.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the window is not inside the array, or `out` has not its size; [`Error::Chunk`] for a chunk
    /// that can't be read: the first in the order of sources and offsets; [`Error::Unsupported`] for a codec; errors of
    /// the store. What is in `out` is then undefined.
    pub fn read(&self, array: usize, start: &[u64], count: &[u64], out: &mut [u8]) -> Result<()> {
        self.item_size(array)?;
        match self.window(array, start, count, None)? {
            Some(window) => self.read_into(array, &window, out),
            None => Ok(()),
        }
    }

    /// Decodes the chunks of a window into the cache, as far as they fit in its budget.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn advise(&self, array: usize, start: &[u64], count: &[u64]) -> Result<()> {
        self.item_size(array)?;
        let Some(window) = self.window(array, start, count, None)? else { return Ok(()) };
        let desc = self.desc(array)?;
        if desc.storage != Storage::Referenced || self.cache.budget() == 0 {
            return Ok(());
        }
        let layout = self.layout(array)?;
        let hits = window.hits(&layout.grid.chunks)?;
        let mut room = self.cache.budget() / layout.pipeline.decoded_size().max(1);
        for slab in slabs(&hits) {
            let total: usize = slab.iter().map(|r| r.len()).product();
            let keys = (0..total.min(room)).map(|number| {
                let mut rest = number;
                let mut key = vec![0; slab.len()];
                for axis in (0..slab.len()).rev() {
                    key[axis] = hits[axis][slab[axis].start + rest % slab[axis].len()].chunk;
                    rest /= slab[axis].len();
                }
                (key, None)
            });
            let job = Job { array, desc, layout: &layout };
            self.read_chunks(&job, keys.collect(), Keep { whole: true, most: room })?;
            room -= total.min(room);
            if room == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Where a chunk's encoded bytes are, and its block-info text where the store has one. The only chunk of an inline or
    /// computed array is all of it: its values, little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk; errors of the store.
    pub fn raw_chunk(&self, array: usize, key: &[u64]) -> Result<(RawChunk, Option<String>)> {
        let desc = self.desc(array)?;
        let shape = self.shape(array)?;
        let outside = || Error::Invalid(format!("array \"{}\" has no chunk {key:?}", desc.name));
        if desc.storage != Storage::Referenced {
            if key.len() != shape.len() || key.iter().any(|k| *k != 0) || shape.contains(&0) {
                return Err(outside());
            }
            let values = match (desc.storage, shape) {
                (Storage::Inline, _) => desc.values.clone().unwrap_or_default(),
                (_, [n]) if *n <= MAX_COMPUTED => {
                    let mut values = computed::affine(desc, 0, *n, 1)?;
                    computed::swap_if_big(&mut values, &desc.dtype);
                    values
                }
                _ => return Err(Error::Invalid(format!("array \"{}\" has too many values", desc.name))),
            };
            return Ok((RawChunk::Inline(values.into()), None));
        }
        let counts = desc.grid()?.counts();
        if key.len() != counts.len() || key.iter().zip(&counts).any(|(k, n)| k >= n) {
            return Err(outside());
        }
        let next: Vec<u64> = key.iter().map(|k| k + 1).collect();
        let found = self.store.refs(array, key, &next)?.into_iter().find(|(k, _)| k == key);
        let chunk = match found.map(|(_, reference)| reference) {
            None | Some(ChunkRef::Absent) => RawChunk::Absent,
            Some(ChunkRef::Inline(data)) => RawChunk::Inline(data),
            Some(ChunkRef::Range { source, offset, size }) => {
                RawChunk::Range { path: self.store.source(source)?.path, offset, size }
            }
        };
        Ok((chunk, self.store.info(array, key)?))
    }

    /// The description of an array.
    pub(super) fn desc(&self, array: usize) -> Result<&ArrayDesc> {
        self.store.arrays().get(array).ok_or_else(|| Error::Invalid(format!("there is no array number {array}")))
    }

    pub(super) fn shape(&self, array: usize) -> Result<&[u64]> {
        let desc = self.desc(array)?;
        match &desc.shape {
            Some(shape) => Ok(shape),
            // Its message says what to do.
            None => Err(desc.grid().err().unwrap_or_else(|| Error::Invalid(format!("array \"{}\"", desc.name)))),
        }
    }

    /// Bytes of an element of an array that is not of strings of any length.
    pub(super) fn item_size(&self, array: usize) -> Result<usize> {
        let desc = self.desc(array)?;
        match desc.dtype.kind {
            Kind::VlenUtf8 => {
                Err(Error::Invalid(format!("array \"{}\" is of strings of any length: read strings", desc.name)))
            }
            _ => Ok(desc.dtype.size),
        }
    }

    pub(super) fn window(
        &self,
        array: usize,
        start: &[u64],
        count: &[u64],
        step: Option<&[i64]>,
    ) -> Result<Option<Window>> {
        Window::new(&self.desc(array)?.name, self.shape(array)?, start, count, step)
    }

    pub(super) fn codec_options(&self) -> CodecOptions {
        CodecOptions { verify_checksum: self.options.verify_checksum }
    }

    pub(super) fn unsupported(&self, array: usize, what: impl std::fmt::Display) -> Error {
        Error::Unsupported {
            path: self.store.path().to_owned(),
            array: self.desc(array).map_or_else(|_| String::new(), |d| d.name.clone()),
            what: what.to_string(),
        }
    }

    fn layout(&self, array: usize) -> Result<Arc<Layout>> {
        if let Some(layout) = self.layouts[array].get() {
            return Ok(layout.clone());
        }
        let desc = self.desc(array)?;
        let grid = desc.grid()?;
        let too_large =
            || self.unsupported(array, format!("chunks of {:?} elements of {} are too large", grid.chunks, desc.dtype));
        let elements = grid.chunk_elements().and_then(|n| usize::try_from(n).ok()).ok_or_else(too_large)?;
        let pipeline = Pipeline::new(&desc.codec, &desc.dtype, elements, self.codec_options())
            .map_err(|e| self.unsupported(array, e))?;
        if pipeline.decoded_size() > if pipeline.is_identity(0) { isize::MAX as usize } else { MAX_CHUNK } {
            return Err(too_large());
        }
        let fill = desc.fill.to_bytes(&desc.dtype.with_order(ByteOrder::NATIVE));
        let fill = fill.map_err(|e| self.unsupported(array, e))?;
        let strides = element_strides(&grid.chunks, desc.dtype.size);
        let swap = if desc.dtype.is_swapped() { desc.dtype.swap_size() } else { 1 };
        let layout = Arc::new(Layout { grid, pipeline, strides, fill, swap });
        Ok(self.layouts[array].get_or_init(|| layout).clone())
    }

    pub(super) fn read_into(&self, array: usize, window: &Window, out: &mut [u8]) -> Result<()> {
        let output = Output::new(out, window, self.item_size(array)?)?;
        self.read_window(array, window, output)
    }

    /// Reads a window into a buffer.
    pub(super) fn read_window(&self, array: usize, window: &Window, mut output: Output<'_>) -> Result<()> {
        let desc = self.desc(array)?;
        match desc.storage {
            Storage::Inline => {
                let shape = self.shape(array)?;
                let values = computed::inline(desc, shape)?;
                whole(desc, window, shape, &values, &mut output)
            }
            Storage::Affine => {
                let [axis] = *window.axes.as_slice() else {
                    return Err(Error::Invalid(format!("array \"{}\" is affine, but not one-dimensional", desc.name)));
                };
                let values = computed::affine(desc, axis.start, axis.count, axis.step)?;
                let window = Window { axes: vec![Axis { start: 0, step: 1, ..axis }], flipped: vec![false] };
                whole(desc, &window, &[axis.count], &values, &mut output)
            }
            Storage::Referenced => {
                let layout = self.layout(array)?;
                let hits = window.hits(&layout.grid.chunks)?;
                let chunks = hits.iter().fold(1usize, |n, h| n.saturating_mul(h.len()));
                // What a large window takes whole is not kept: it would push out everything, and is read once.
                let size = layout.pipeline.decoded_size().max(1);
                let budget = self.cache.budget();
                let whole = chunks.saturating_mul(size) <= budget / 4;
                let most = if budget == 0 { 0 } else { (budget / size).max(1) };
                for slab in slabs(&hits) {
                    let parts = output.parts(&hits, &slab)?;
                    let todo = parts.into_iter().map(|part| (part.key(), Some(part))).collect();
                    self.read_chunks(&Job { array, desc, layout: &layout }, todo, Keep { whole, most })?;
                }
                Ok(())
            }
        }
    }
}

/// Copies a window of an array of which all values are at hand.
fn whole(desc: &ArrayDesc, window: &Window, shape: &[u64], values: &[u8], output: &mut Output<'_>) -> Result<()> {
    let hits = window.hits(shape)?;
    let all: Vec<_> = hits.iter().map(|h| 0..h.len()).collect();
    let strides = element_strides(shape, desc.dtype.size);
    output.parts(&hits, &all)?.iter_mut().try_for_each(|part| part.copy(values, &strides, 0))
}

/// Bytes between two elements along each axis, in C order.
fn element_strides(shape: &[u64], item: usize) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = item;
    for (axis, count) in shape.iter().enumerate().rev() {
        strides[axis] = stride;
        stride = stride.saturating_mul(*count as usize);
    }
    strides
}
