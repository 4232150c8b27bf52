//! Windows of arrays into buffers.
//!
//! ```text
//! window → the chunks that meet it → their references, in few queries → byte ranges by source, neighbours joined
//!        → fetched and decoded by several threads → copied into the caller's strided buffer
//! ```

mod cache;
mod scatter;
mod sources;
mod window;

use crate::codec::{CodecOptions, Pipeline, Scratch, vlen};
use crate::io::Opener;
use crate::model::{
    Affine, ArrayDesc, ByteOrder, ChunkKey, DType, Kind, Storage, float_from_le, float_to_le, swap_in_place,
};
use crate::store::{ChunkRef, SourceRef, Store};
use crate::{Error, Result};
use cache::ChunkCache;
use scatter::{Run, Target};
use sources::Sources;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use window::Window;

/// What to do about a source that can't be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingSource {
    /// Fail, naming it.
    #[default]
    Error,
    /// Read its chunks as fill.
    Fill,
}

/// How sources are checked against what was recorded when they were scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Size for local sources, nothing for remote ones.
    #[default]
    Default,
    /// Not at all.
    No,
    /// Size.
    Size,
    /// Size, time of change, entity tag.
    Full,
}

/// Choices of a reader.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Threads that fetch and decode.
    pub threads: usize,
    /// Budget of the decoded-chunk cache in bytes.
    pub cache_size: usize,
    /// Check of sources.
    pub verify: Verify,
    /// Sources that can't be opened.
    pub missing_source: MissingSource,
    /// Verify checksums of chunks.
    pub verify_checksum: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cache_size: 64 << 20,
            verify: Verify::Default,
            missing_source: MissingSource::Error,
            verify_checksum: true,
        }
    }
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
        /// Path to open.
        path: String,
        /// Byte offset.
        offset: u64,
        /// Stored size in bytes.
        size: u64,
    },
}

/// Reads windows of the arrays of one store. Thread-safe; no thread outlives a call.
pub struct Reader {
    store: Arc<Store>,
    options: ReadOptions,
    sources: Sources,
    cache: Mutex<ChunkCache>,
    arrays: Vec<OnceLock<Result<Decoder, String>>>,
}

/// What is needed to read the chunks of one array.
struct Decoder {
    pipeline: Pipeline,
    /// One element, native byte order.
    fill: Vec<u8>,
    /// Chunk shape.
    chunk: Vec<usize>,
}

/// Chunks whose references are held at a time.
const CHUNKS_AT_A_TIME: u64 = 1 << 16;
/// Bytes between two ranges of a source that are rather read than asked for twice.
const GAP: u64 = 32 << 10;
/// Bytes that are read at once, unless one chunk is larger.
const JOINED: u64 = 4 << 20;
/// A decoded chunk has no more bytes than this.
const MAX_CHUNK: u64 = 4 << 30;
/// Values of a coordinate that are read whole, at most.
const MAX_COORDINATE: u64 = 64 << 20;

/// One chunk to be read.
struct Job {
    key: ChunkKey,
    runs: Vec<Run>,
    from: Origin,
}

enum Origin {
    Fill,
    Cached(Arc<Vec<u8>>),
    Inline(Arc<[u8]>),
    Range { source: SourceRef, offset: u64, size: u64 },
}

/// Buffers of one thread.
#[derive(Default)]
struct Buffers {
    scratch: Scratch,
    stored: Vec<u8>,
    decoded: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resize(buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    if size > buffer.capacity() {
        buffer
            .try_reserve(size - buffer.len())
            .map_err(|_| Error::Invalid(format!("no memory for a chunk of {size} bytes")))?;
    }
    buffer.resize(size, 0);
    Ok(())
}

impl Reader {
    /// A reader of `store`, whose sources are opened by `opener`.
    ///
    /// # Errors
    /// None at present: arrays are looked at when they are read.
    pub fn new(store: Arc<Store>, opener: Arc<dyn Opener>, options: ReadOptions) -> Result<Reader> {
        Ok(Reader {
            sources: Sources::new(opener, &options),
            cache: Mutex::new(ChunkCache::new(options.cache_size)),
            arrays: store.arrays().iter().map(|_| OnceLock::new()).collect(),
            store,
            options,
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn desc(&self, array: usize) -> Result<&ArrayDesc> {
        self.store.arrays().get(array).ok_or_else(|| Error::Invalid(format!("there is no array number {array}")))
    }

    fn shape(&self, array: usize) -> Result<Vec<u64>> {
        Ok(self.desc(array)?.grid()?.shape)
    }

    fn decoder(&self, array: usize) -> Result<&Decoder> {
        let desc = self.desc(array)?;
        let made = self.arrays[array].get_or_init(|| self.make_decoder(desc).map_err(|e| e.to_string()));
        made.as_ref().map_err(|what| Error::Unsupported {
            path: self.store.path().to_owned(),
            array: desc.name.clone(),
            what: what.clone(),
        })
    }

    fn make_decoder(&self, desc: &ArrayDesc) -> Result<Decoder> {
        let elements = desc.grid()?.chunk_elements();
        let bytes = elements.and_then(|n| n.checked_mul(desc.dtype.size.max(1) as u64)).filter(|n| *n <= MAX_CHUNK);
        let (Some(elements), Some(_)) = (elements, bytes) else {
            return Err(Error::Invalid(format!(
                "chunks of {:?} elements have more than {MAX_CHUNK} bytes",
                desc.chunks
            )));
        };
        let options = CodecOptions { verify_checksum: self.options.verify_checksum };
        let mut fill = desc.fill.to_bytes(&desc.dtype)?;
        if desc.dtype.is_swapped() {
            swap_in_place(&mut fill, desc.dtype.swap_size());
        }
        Ok(Decoder {
            pipeline: Pipeline::new(&desc.codec, &desc.dtype, elements as usize, options)?,
            fill,
            chunk: desc.chunks.iter().map(|c| *c as usize).collect(),
        })
    }

    /// Reads a window in C order, in native byte order: `out` has exactly its bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a window outside the array, or a buffer of another size; [`Error::Chunk`] for a chunk that
    /// can't be read; those of [`Store::refs`].
    #[allow(unsafe_code)]
    pub fn read(&self, array: usize, start: &[u64], count: &[u64], out: &mut [u8]) -> Result<()> {
        let item = self.desc(array)?.dtype.size;
        let total = count.iter().try_fold(item as u64, |n, c| n.checked_mul(*c));
        if total != Some(out.len() as u64) || count.len() != start.len() {
            return Err(Error::Invalid(format!("a buffer of {} bytes for {count:?} elements of {item}", out.len())));
        }
        let mut strides = vec![item as isize; count.len()];
        for axis in (0..count.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * count[axis + 1] as isize;
        }
        // SAFETY: the strides are those of C order over `count`, which fills `out` exactly.
        unsafe { self.read_strided(array, start, count, &vec![1; count.len()], out.as_mut_ptr(), &strides) }
    }

    /// Reads start, start + step, … along each dimension. Steps may be 0 or negative; `strides` are bytes between
    /// neighbours in the buffer, of any sign. Elements are of the array's type in native byte order.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`Error::Invalid`] for an array of variable-length strings.
    ///
    /// # Safety
    /// `out` plus every combination of i · stride, i < count, must be the address of an element that may be written, and
    /// that nobody else uses meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn read_strided(
        &self,
        array: usize,
        start: &[u64],
        count: &[u64],
        step: &[i64],
        out: *mut u8,
        strides: &[isize],
    ) -> Result<()> {
        let desc = self.desc(array)?;
        if desc.dtype.kind == Kind::VlenUtf8 {
            return Err(Error::Invalid(format!("array \"{}\" has strings of any length", desc.name)));
        }
        let window = Window::new(&desc.name, &self.shape(array)?, start, count, step)?;
        if window.is_empty() || strides.len() != count.len() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let target = unsafe { Target::new(out, strides, desc.dtype.size) };
        match desc.storage {
            Storage::Inline => {
                let values = native_values(desc)?;
                let shape: Vec<u64> = self.shape(array)?.iter().map(|s| (*s).max(1)).collect();
                if let Some(runs) = window.runs(&vec![0; shape.len()], &shape) {
                    let shape: Vec<usize> = shape.iter().map(|s| *s as usize).collect();
                    // SAFETY: runs of the whole window; this is the only thread.
                    unsafe { target.copy(&runs, &values, &shape) };
                }
                Ok(())
            }
            Storage::Affine => {
                let affine = desc.affine.as_ref().ok_or_else(|| Error::Invalid("there is no affine".into()))?;
                for i in 0..count[0] {
                    let element = affine_element(affine, &desc.dtype, window.index(0, i))?;
                    let run = Run { from: 0, step: 0, count: 1, to: i as usize };
                    // SAFETY: an element of the window; this is the only thread.
                    unsafe { target.fill(&[run], &element) };
                }
                Ok(())
            }
            Storage::Referenced => self.each_part(array, &window, &mut |jobs| self.run(array, &jobs, Some(target))),
        }
    }

    /// Calls `sink` with the chunks of the window, a bounded number at a time.
    fn each_part(&self, array: usize, window: &Window, sink: &mut dyn FnMut(Vec<Job>) -> Result<()>) -> Result<()> {
        let desc = self.desc(array)?;
        let (lo, hi) = window.chunk_box(&desc.chunks);
        self.split(array, window, lo, hi, sink)
    }

    fn split(
        &self,
        array: usize,
        window: &Window,
        lo: Vec<u64>,
        hi: Vec<u64>,
        sink: &mut dyn FnMut(Vec<Job>) -> Result<()>,
    ) -> Result<()> {
        let total = lo.iter().zip(&hi).fold(1u64, |n, (l, h)| n.saturating_mul(h - l));
        if total > CHUNKS_AT_A_TIME
            && let Some(axis) = (0..lo.len()).find(|a| hi[*a] - lo[*a] > 1)
        {
            let middle = lo[axis] + (hi[axis] - lo[axis]) / 2;
            let (mut left, mut right) = (hi.clone(), lo.clone());
            left[axis] = middle;
            right[axis] = middle;
            self.split(array, window, lo, left, sink)?;
            return self.split(array, window, right, hi, sink);
        }
        let jobs = self.jobs(array, window, &lo, &hi)?;
        sink(jobs)
    }

    /// The chunks `lo .. hi` that hold elements of the window.
    fn jobs(&self, array: usize, window: &Window, lo: &[u64], hi: &[u64]) -> Result<Vec<Job>> {
        let desc = self.desc(array)?;
        let place = |key: &[u64]| {
            (0..key.len()).try_fold(0usize, |at, a| {
                let k = key[a].checked_sub(lo[a]).filter(|_| key[a] < hi[a])?;
                Some(at * (hi[a] - lo[a]) as usize + k as usize)
            })
        };
        let total = lo.iter().zip(hi).fold(1, |n, (l, h)| n * (h - l) as usize);
        let mut found = vec![None; total];
        for (key, reference) in self.store.refs(array, lo, hi)? {
            if let Some(at) = place(&key) {
                found[at] = Some(reference);
            }
        }
        let mut jobs = Vec::new();
        let mut key = lo.to_vec();
        let mut cache = lock(&self.cache);
        for reference in found {
            if let Some(runs) = window.runs(&key, &desc.chunks) {
                let from = match reference {
                    None | Some(ChunkRef::Absent) => Origin::Fill,
                    Some(reference) => match (cache.get(array, &key), reference) {
                        (Some(data), _) => Origin::Cached(data),
                        (None, ChunkRef::Inline(data)) => Origin::Inline(data),
                        (None, ChunkRef::Range { source, offset, size }) => Origin::Range { source, offset, size },
                        (None, ChunkRef::Absent) => Origin::Fill,
                    },
                };
                jobs.push(Job { key: key.clone(), runs, from });
            }
            for axis in (0..key.len()).rev() {
                key[axis] += 1;
                if key[axis] < hi[axis] {
                    break;
                }
                key[axis] = lo[axis];
            }
        }
        Ok(jobs)
    }

    /// Reads chunks; without a target into the cache alone.
    fn run(&self, array: usize, jobs: &[Job], target: Option<Target<'_>>) -> Result<()> {
        let decoder = self.decoder(array)?;
        let groups = groups(jobs);
        let threads = self.options.threads.min(groups.len());
        if threads <= 1 {
            let mut buffers = Buffers::default();
            return groups.iter().try_for_each(|g| self.run_group(array, decoder, jobs, g, target, &mut buffers));
        }
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut buffers = Buffers::default();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(group) = groups.get(number) else { return };
                        // Groups before the first bad one still run: which error is reported does not depend on luck.
                        if lock(&failed).as_ref().is_some_and(|(n, _)| *n < number) {
                            return;
                        }
                        if let Err(e) = self.run_group(array, decoder, jobs, group, target, &mut buffers) {
                            let mut failed = lock(&failed);
                            if failed.as_ref().is_none_or(|(n, _)| *n > number) {
                                *failed = Some((number, e));
                            }
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, e)) => Err(e),
            None => Ok(()),
        }
    }

    fn run_group(
        &self,
        array: usize,
        decoder: &Decoder,
        jobs: &[Job],
        group: &[usize],
        target: Option<Target<'_>>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let first = &jobs[group[0]];
        let Origin::Range { source, offset: start, .. } = first.from else {
            return group.iter().try_for_each(|n| self.run_stored(array, decoder, &jobs[*n], target, buffers));
        };
        let end = group
            .iter()
            .map(|n| match jobs[*n].from {
                Origin::Range { offset, size, .. } => offset + size,
                _ => start,
            })
            .max()
            .unwrap_or(start);
        let in_chunk = |job: &Job, error: Error| self.chunk_error(array, job, error);
        let opened = match self.sources.get(&self.store, source) {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                for n in group {
                    self.put_fill(decoder, &jobs[*n], target);
                }
                return Ok(());
            }
            Err(e) => return Err(in_chunk(first, e)),
        };
        // What a store claims is not allocated unless the source has it.
        if end > opened.size {
            let beyond = group.iter().map(|n| &jobs[*n]).find(|job| match job.from {
                Origin::Range { offset, size, .. } => offset + size > opened.size,
                _ => false,
            });
            let what = format!("the source has only {} bytes: it is truncated, or another file", opened.size);
            return Err(in_chunk(beyond.unwrap_or(first), Error::Invalid(what)));
        }
        let mut stored = std::mem::take(&mut buffers.stored);
        let result = resize(&mut stored, (end - start) as usize)
            .and_then(|()| opened.reader.read_at(start, &mut stored))
            .map_err(|e| in_chunk(first, e))
            .and_then(|()| {
                group.iter().try_for_each(|n| {
                    let job = &jobs[*n];
                    let Origin::Range { offset, size, .. } = job.from else { return Ok(()) };
                    let from = (offset - start) as usize;
                    self.decode(array, decoder, job, &stored[from..from + size as usize], target, buffers)
                        .map_err(|e| in_chunk(job, e))
                })
            });
        buffers.stored = stored;
        result
    }

    /// A chunk whose bytes are at hand.
    #[allow(unsafe_code)]
    fn run_stored(
        &self,
        array: usize,
        decoder: &Decoder,
        job: &Job,
        target: Option<Target<'_>>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        match &job.from {
            Origin::Fill => self.put_fill(decoder, job, target),
            Origin::Cached(data) => {
                if let Some(target) = target {
                    // SAFETY: the runs are of this window, and each chunk has its own.
                    unsafe { target.copy(&job.runs, data, &decoder.chunk) };
                }
            }
            Origin::Inline(data) => {
                self.decode(array, decoder, job, data, target, buffers).map_err(|e| self.chunk_error(array, job, e))?;
            }
            Origin::Range { .. } => {}
        }
        Ok(())
    }

    #[allow(unsafe_code)]
    fn put_fill(&self, decoder: &Decoder, job: &Job, target: Option<Target<'_>>) {
        if let Some(target) = target {
            // SAFETY: the runs are of this window, and each chunk has its own.
            unsafe { target.fill(&job.runs, &decoder.fill) };
        }
    }

    #[allow(unsafe_code)]
    fn decode(
        &self,
        array: usize,
        decoder: &Decoder,
        job: &Job,
        stored: &[u8],
        target: Option<Target<'_>>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let dtype = &self.desc(array)?.dtype;
        let native = |data: &mut [u8]| {
            if dtype.is_swapped() {
                swap_in_place(data, dtype.swap_size());
            }
        };
        if let Some(target) = target {
            // SAFETY: the runs are of this window, and each chunk has its own.
            if let Some(out) = unsafe { target.whole(&job.runs, &decoder.chunk) } {
                decoder.pipeline.decode_into(stored, 0, out, &mut buffers.scratch)?;
                native(out);
                return Ok(());
            }
        }
        resize(&mut buffers.decoded, decoder.pipeline.decoded_size())?;
        decoder.pipeline.decode_into(stored, 0, &mut buffers.decoded, &mut buffers.scratch)?;
        native(&mut buffers.decoded);
        if let Some(target) = target {
            // SAFETY: the runs are of this window, and each chunk has its own.
            unsafe { target.copy(&job.runs, &buffers.decoded, &decoder.chunk) };
        }
        // Chunks of which a part was read will be asked for again.
        let is_part = job.runs.iter().zip(&decoder.chunk).any(|(r, c)| r.count < *c);
        if target.is_none() || is_part {
            let data = Arc::new(buffers.decoded.clone());
            lock(&self.cache).put(array, &job.key, data);
        }
        Ok(())
    }

    fn chunk_error(&self, array: usize, job: &Job, error: Error) -> Error {
        let (path, offset, size) = match job.from {
            Origin::Range { source, offset, size } => (Sources::path(&self.store, source), offset, size),
            Origin::Inline(ref data) => (self.store.path().to_owned(), 0, data.len() as u64),
            _ => (self.store.path().to_owned(), 0, 0),
        };
        let name = self.desc(array).map(|d| d.name.clone()).unwrap_or_default();
        Error::Chunk { array: name, key: job.key.clone(), path, offset, size, source: Box::new(error) }
    }

    /// Reads the chunks of a window into the cache, as far as they go in.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn advise(&self, array: usize, start: &[u64], count: &[u64]) -> Result<()> {
        let desc = self.desc(array)?;
        let window = Window::new(&desc.name, &self.shape(array)?, start, count, &vec![1; start.len()])?;
        if window.is_empty() || desc.storage != Storage::Referenced || desc.dtype.kind == Kind::VlenUtf8 {
            return Ok(());
        }
        let size = self.decoder(array)?.pipeline.decoded_size().max(1);
        let mut room = lock(&self.cache).budget() / size;
        self.each_part(array, &window, &mut |mut jobs| {
            jobs.retain(|j| matches!(j.from, Origin::Range { .. } | Origin::Inline(_)));
            jobs.truncate(room);
            room -= jobs.len();
            self.run(array, &jobs, None)
        })
    }

    /// Reads strings: fixed-length ones without the zeros at their end, or those of any length.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_strings(&self, array: usize, start: &[u64], count: &[u64], step: &[i64]) -> Result<Vec<String>> {
        let desc = self.desc(array)?;
        let shape = self.shape(array)?;
        let window = Window::new(&desc.name, &shape, start, count, step)?;
        let total = count.iter().try_fold(1u64, |n, c| n.checked_mul(*c)).filter(|n| *n <= MAX_COORDINATE);
        let total =
            total.ok_or_else(|| Error::Invalid(format!("array \"{}\": too many strings at once", desc.name)))?;
        let mut out = vec![String::new(); total as usize];
        if window.is_empty() {
            return Ok(out);
        }
        let text = |bytes: &[u8]| {
            let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            match std::str::from_utf8(&bytes[..end]) {
                Ok(t) => t.to_owned(),
                Err(_) => bytes[..end].iter().map(|b| char::from(*b)).collect(),
            }
        };
        if desc.dtype.kind == Kind::Bytes {
            let size = desc.dtype.size;
            let bytes = total
                .checked_mul(size as u64)
                .filter(|n| *n <= MAX_CHUNK)
                .ok_or_else(|| Error::Invalid(format!("array \"{}\": too many strings at once", desc.name)))?;
            let mut buffer = vec![0; bytes as usize];
            let mut strides = vec![size as isize; count.len()];
            for axis in (0..count.len().saturating_sub(1)).rev() {
                strides[axis] = strides[axis + 1] * count[axis + 1] as isize;
            }
            // SAFETY: the strides are those of C order over `count`, which fills the buffer exactly.
            #[allow(unsafe_code)]
            unsafe {
                self.read_strided(array, start, count, step, buffer.as_mut_ptr(), &strides)?;
            }
            return Ok(buffer.chunks_exact(size).map(text).collect());
        }
        if desc.dtype.kind != Kind::VlenUtf8 {
            return Err(Error::Invalid(format!("array \"{}\" has no strings", desc.name)));
        }
        let mut place = |runs: &[Run], strings: &[&[u8]], chunk: &[u64]| {
            let mut at = vec![0usize; runs.len()];
            'elements: loop {
                let (mut from, mut to) = (0usize, 0usize);
                for (a, run) in runs.iter().enumerate() {
                    let inside = run.from as isize + run.step * at[a] as isize;
                    from = from * chunk[a] as usize + inside as usize;
                    to = to * count[a] as usize + run.to + at[a];
                }
                out[to] = strings.get(from).map(|s| text(s)).unwrap_or_default();
                for axis in (0..runs.len()).rev() {
                    at[axis] += 1;
                    if at[axis] < runs[axis].count {
                        continue 'elements;
                    }
                    at[axis] = 0;
                }
                return;
            }
        };
        if desc.storage == Storage::Inline {
            let values = desc.values.clone().unwrap_or_default();
            let strings = vlen::split(&values)?;
            if let Some(runs) = window.runs(&vec![0; shape.len()], &shape) {
                place(&runs, &strings, &shape);
            }
            return Ok(out);
        }
        let decoder = self.decoder(array)?;
        let mut buffers = Buffers::default();
        self.each_part(array, &window, &mut |jobs| {
            for job in &jobs {
                let failed = |e| self.chunk_error(array, job, e);
                let stored = match &job.from {
                    Origin::Inline(data) => data.to_vec(),
                    Origin::Range { source, offset, size } => {
                        let Some(opened) = self.sources.get(&self.store, *source).map_err(failed)? else { continue };
                        if offset + size > opened.size {
                            return Err(failed(Error::Invalid(format!("the source has only {} bytes", opened.size))));
                        }
                        let mut stored = vec![0; *size as usize];
                        opened.reader.read_at(*offset, &mut stored).map_err(failed)?;
                        stored
                    }
                    Origin::Fill | Origin::Cached(_) => continue,
                };
                let data =
                    decoder.pipeline.decode_vlen(&stored, MAX_CHUNK as usize, &mut buffers.scratch).map_err(failed)?;
                let strings = vlen::split(&data).map_err(failed)?;
                let want: u64 = desc.chunks.iter().product();
                if strings.len() as u64 != want {
                    let what = format!("it has {} strings, not {want}", strings.len());
                    return Err(failed(Error::Invalid(what)));
                }
                place(&job.runs, &strings, &desc.chunks);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// All values of an array of one dimension, as floats.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`Error::Invalid`] if it has not one dimension of numbers, or too many.
    pub fn values_f64(&self, array: usize) -> Result<Vec<f64>> {
        let desc = self.desc(array)?;
        let shape = self.shape(array)?;
        let &[n] = shape.as_slice() else {
            return Err(Error::Invalid(format!("array \"{}\" has not one dimension", desc.name)));
        };
        let real = matches!(desc.dtype.kind, Kind::Int | Kind::UInt | Kind::Float | Kind::Bool);
        if !real || n > MAX_COORDINATE {
            return Err(Error::Invalid(format!("array \"{}\" is no coordinate of numbers", desc.name)));
        }
        let mut bytes = vec![0; n as usize * desc.dtype.size];
        self.read(array, &[0], &[n], &mut bytes)?;
        if ByteOrder::NATIVE == ByteOrder::Big {
            swap_in_place(&mut bytes, desc.dtype.swap_size());
        }
        let value = |b: &[u8]| match desc.dtype.kind {
            Kind::Float => float_from_le(b),
            kind => {
                let negative = kind == Kind::Int && b[b.len() - 1] & 0x80 != 0;
                let mut wide = if negative { [0xff; 16] } else { [0; 16] };
                wide[..b.len()].copy_from_slice(b);
                i128::from_le_bytes(wide) as f64
            }
        };
        Ok(bytes.chunks_exact(desc.dtype.size).map(value).collect())
    }

    /// Where a chunk is, and its block-info text.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key outside the grid; those of [`Store::refs`].
    pub fn raw_chunk(&self, array: usize, key: &[u64]) -> Result<(RawChunk, Option<String>)> {
        let desc = self.desc(array)?;
        let counts = desc.grid()?.counts();
        if key.len() != counts.len() || key.iter().zip(&counts).any(|(k, n)| k >= n) {
            return Err(Error::Invalid(format!(
                "array \"{}\" has no chunk {key:?} in its grid of {counts:?}",
                desc.name
            )));
        }
        match desc.storage {
            Storage::Inline => return Ok((RawChunk::Inline(desc.values.clone().unwrap_or_default().into()), None)),
            Storage::Affine => {
                let n = self.shape(array)?.first().copied().unwrap_or(0).min(MAX_COORDINATE);
                let mut bytes = vec![0; n as usize * desc.dtype.size];
                self.read(array, &[0], &[n], &mut bytes)?;
                return Ok((RawChunk::Inline(bytes.into()), None));
            }
            Storage::Referenced => {}
        }
        let end: Vec<u64> = key.iter().map(|k| k + 1).collect();
        let found = self.store.refs(array, key, &end)?.into_iter().next().map(|(_, r)| r);
        let chunk = match found {
            None | Some(ChunkRef::Absent) => return Ok((RawChunk::Absent, None)),
            Some(ChunkRef::Inline(data)) => RawChunk::Inline(data),
            Some(ChunkRef::Range { source, offset, size }) => {
                RawChunk::Range { path: self.store.source(source)?.path, offset, size }
            }
        };
        Ok((chunk, self.store.info(array, key)?))
    }
}

/// Jobs that are run together: neighbours in one source, or each alone; as indices into `jobs`.
fn groups(jobs: &[Job]) -> Vec<Vec<usize>> {
    let mut ranges: Vec<(SourceRef, u64, u64, usize)> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        match job.from {
            Origin::Range { source, offset, size } => ranges.push((source, offset, size, number)),
            _ => groups.push(vec![number]),
        }
    }
    ranges.sort_unstable();
    let mut last: Option<(SourceRef, u64, u64)> = None;
    for (source, offset, size, number) in ranges {
        let end = offset + size;
        match (&mut last, groups.last_mut()) {
            (Some((s, start, at)), Some(group))
                if *s == source && offset <= at.saturating_add(GAP) && end.max(*at) - *start <= JOINED =>
            {
                *at = (*at).max(end);
                group.push(number);
            }
            _ => {
                last = Some((source, offset, end));
                groups.push(vec![number]);
            }
        }
    }
    groups
}

/// The values of an inline array in native byte order.
fn native_values(desc: &ArrayDesc) -> Result<Vec<u8>> {
    let mut values = desc.values.clone().unwrap_or_default();
    // Inline values are little-endian, whatever the type says.
    if ByteOrder::NATIVE == ByteOrder::Big {
        swap_in_place(&mut values, desc.dtype.swap_size());
    }
    Ok(values)
}

/// One element of an affine array, native byte order.
fn affine_element(affine: &Affine, dtype: &DType, i: u64) -> Result<Vec<u8>> {
    let bad = || Error::Invalid(format!("affine {} at {i} is not a {dtype}", affine.to_json()));
    let mut bytes = match dtype.kind {
        Kind::Float => float_to_le(affine.at(i), dtype.size),
        Kind::Int | Kind::UInt => {
            let number = |n: &serde_json::Number| {
                n.as_i64().or_else(|| n.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64))
            };
            let (start, step) = number(&affine.start).zip(number(&affine.step)).ok_or_else(bad)?;
            let value = i128::from(start) + i128::from(i) * i128::from(step);
            let bits = dtype.size * 8;
            let range =
                if dtype.kind == Kind::Int { -(1i128 << (bits - 1))..1i128 << (bits - 1) } else { 0..1i128 << bits };
            if !range.contains(&value) {
                return Err(bad());
            }
            value.to_le_bytes()[..dtype.size].to_vec()
        }
        _ => return Err(bad()),
    };
    if ByteOrder::NATIVE == ByteOrder::Big {
        swap_in_place(&mut bytes, dtype.swap_size());
    }
    Ok(bytes)
}
