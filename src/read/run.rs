//! Chunks fetched, decoded and delivered, on some threads.

use super::batch::{Batch, Bytes, Joining, Piece, Stored, batches};
use super::reader::{Layout, Reader};
use super::scatter::Part;
use super::sources::Handle;
use crate::codec::{Scratch, sized};
use crate::model::{ArrayDesc, ChunkKey, swap_in_place};
use crate::store::ChunkRef;
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of a chunk without a codec, this many bytes are read at a time, or one row.
const ROWS: usize = 1 << 20;
/// Remote chunks without a codec that are no larger than this are read whole, and kept (bytes).
const REMOTE_WHOLE: usize = 4 << 20;
/// No chunk stored in more bytes than this is read.
const MAX_STORED: u64 = 8 << 30;
/// A stored size above this is compared with the size of the source before memory is taken for it (bytes).
const UNCHECKED: u64 = 64 << 20;
/// Buffers above this are not kept for the next call (bytes, one thread).
const KEPT_BUFFERS: usize = 64 << 20;
/// Below this many decoded bytes, local files are read by one thread.
const WORTH_THREADS: usize = 256 << 10;

/// What all chunks of one call have in common.
pub(super) struct Job<'a> {
    pub array: usize,
    pub desc: &'a ArrayDesc,
    pub layout: &'a Layout,
}

/// Which decoded chunks go into the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Also those of which all is delivered.
    pub whole: bool,
    /// At most so many.
    pub most: usize,
}

/// Buffers of threads that wait for the next call.
#[derive(Default)]
pub(super) struct Workers(Mutex<Vec<Worker>>);

/// Buffers of one thread.
#[derive(Default)]
struct Worker {
    input: Vec<u8>,
    decoded: Vec<u8>,
    scratch: Scratch,
}

impl Workers {
    fn take(&self) -> Worker {
        self.0.try_lock().ok().and_then(|mut list| list.pop()).unwrap_or_default()
    }

    fn put(&self, worker: Worker, most: usize) {
        let size = worker.input.capacity() + worker.decoded.capacity() + worker.scratch.size();
        if size <= KEPT_BUFFERS
            && let Ok(mut list) = self.0.try_lock()
            && list.len() < most
        {
            list.push(worker);
        }
    }
}

/// Batches still to do, and the first that failed.
struct Queue<'a> {
    batches: Mutex<std::iter::Enumerate<std::vec::IntoIter<Batch<'a>>>>,
    failed: AtomicUsize,
    error: Mutex<Option<(usize, Error)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Queue<'a> {
    /// The next batch, unless one before it failed.
    fn next(&self) -> Option<(usize, Batch<'a>)> {
        let next = lock(&self.batches).next()?;
        (next.0 < self.failed.load(Ordering::Relaxed)).then_some(next)
    }

    /// Batches are begun in order: whatever is before a failed one is done or being done, so that the error that stays
    /// does not depend on the threads.
    fn fail(&self, number: usize, error: Error) {
        self.failed.fetch_min(number, Ordering::Relaxed);
        let mut first = lock(&self.error);
        if first.as_ref().is_none_or(|(n, _)| number < *n) {
            *first = Some((number, error));
        }
    }
}

impl Reader {
    /// Reads chunks into their parts of the output (None: into the cache alone).
    pub(super) fn read_chunks(&self, job: &Job<'_>, todo: Vec<(ChunkKey, Option<Part<'_>>)>, keep: Keep) -> Result<()> {
        let pieces = self.locate(job, todo, keep)?;
        let first = pieces.iter().find_map(|p| match &p.bytes {
            Bytes::Stored(stored) => Some(stored.source),
            _ => None,
        });
        // An error comes back when the chunk is read.
        let is_local = first
            .and_then(|source| self.sources.get(&self.store, source).ok().flatten())
            .is_none_or(|handle| handle.is_local);
        let (pieces, total) = self.pieces(job, pieces, is_local);
        let joining = match is_local {
            true => Joining::LOCAL,
            false => Joining::remote(total, self.remote_threads),
        };
        let size = job.layout.pipeline.decoded_size();
        let decoded = pieces.len().saturating_mul(size);
        let batches = batches(pieces, size, joining);
        let threads = match is_local {
            true if decoded < WORTH_THREADS => 1,
            true => self.threads.min(batches.len()),
            false => self.remote_threads.min(batches.len()),
        };
        let queue = Queue {
            batches: Mutex::new(batches.into_iter().enumerate()),
            failed: AtomicUsize::new(usize::MAX),
            error: Mutex::new(None),
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Where there is no thread to be had, the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || self.work(job, &queue));
            }
            self.work(job, &queue);
        });
        let error = lock(&queue.error).take();
        error.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Where the chunks' bytes are: in the cache, or where the store says.
    fn locate<'p>(&self, job: &Job<'_>, todo: Vec<(ChunkKey, Option<Part<'p>>)>, keep: Keep) -> Result<Vec<Piece<'p>>> {
        let use_cache = !self.cache.is_empty();
        let mut left = keep.most;
        let mut pieces = Vec::with_capacity(todo.len());
        let (mut lo, mut hi): (ChunkKey, ChunkKey) = (Vec::new(), Vec::new());
        let mut is_missing = false;
        for (key, part) in todo {
            if use_cache && let Some(chunk) = self.cache.get(job.array, &key) {
                if part.is_some() {
                    pieces.push(Piece { key, part, keep: false, bytes: Bytes::Cached(chunk) });
                }
                continue;
            }
            let wanted = keep.whole || part.as_ref().is_none_or(|p| !p.is_whole(&job.layout.grid));
            let keep = wanted && left > 0;
            left -= usize::from(keep);
            if !is_missing {
                (lo, hi) = (key.clone(), key.clone());
                is_missing = true;
            }
            for (axis, k) in key.iter().enumerate() {
                lo[axis] = lo[axis].min(*k);
                hi[axis] = hi[axis].max(*k);
            }
            pieces.push(Piece { key, part, keep, bytes: Bytes::Absent });
        }
        if is_missing {
            hi.iter_mut().for_each(|h| *h += 1);
            let mut refs: HashMap<_, _> = self.store.refs(job.array, &lo, &hi)?.into_iter().collect();
            for piece in &mut pieces {
                if matches!(piece.bytes, Bytes::Absent) {
                    piece.bytes = match refs.remove(&piece.key) {
                        None | Some(ChunkRef::Absent) => Bytes::Absent,
                        Some(ChunkRef::Inline(data)) => Bytes::Inline(data),
                        Some(ChunkRef::Range { source, offset, size }) => {
                            Bytes::Stored(Stored { source, offset, size, needed: 0..size })
                        }
                    };
                }
            }
        }
        Ok(pieces)
    }

    /// Cuts chunks without a codec into the rows that are needed; the sum of the bytes to read.
    fn pieces<'p>(&self, job: &Job<'_>, pieces: Vec<Piece<'p>>, is_local: bool) -> (Vec<Piece<'p>>, u64) {
        let layout = job.layout;
        let size = layout.pipeline.decoded_size();
        let by_rows = layout.pipeline.is_identity(0) && (is_local || size > REMOTE_WHOLE);
        let mut all = Vec::with_capacity(pieces.len());
        let mut total = 0u64;
        for piece in pieces {
            match piece {
                // Nothing to do for the cache alone.
                Piece { part: None, bytes: Bytes::Absent, .. } => {}
                Piece { part: None, bytes: Bytes::Stored(_), .. } if by_rows => {}
                Piece { key, part: Some(part), bytes: Bytes::Stored(stored), .. }
                    if by_rows && is_plain(layout, &stored) =>
                {
                    let mut parts = Vec::new();
                    part.split(&layout.strides, ROWS, &mut parts);
                    for part in parts {
                        let needed = part.range(&layout.strides).map_or(0..0, |r| r.start as u64..r.end as u64);
                        total = total.saturating_add(needed.end - needed.start);
                        let bytes = Bytes::Stored(Stored { needed, ..stored.clone() });
                        all.push(Piece { key: key.clone(), part: Some(part), keep: false, bytes });
                    }
                }
                piece => {
                    if let Bytes::Stored(stored) = &piece.bytes {
                        total = total.saturating_add(stored.size);
                    }
                    all.push(piece);
                }
            }
        }
        (all, total)
    }

    /// Does batches until there are no more.
    fn work(&self, job: &Job<'_>, queue: &Queue<'_>) {
        let mut worker = self.workers.take();
        while let Some((number, batch)) = queue.next() {
            if let Err(error) = self.run_batch(job, batch, &mut worker) {
                queue.fail(number, error);
                break;
            }
        }
        self.workers.put(worker, self.threads);
    }

    fn run_batch(&self, job: &Job<'_>, batch: Batch<'_>, worker: &mut Worker) -> Result<()> {
        let Batch { source, mut pieces } = batch;
        let Some((source, range)) = source else {
            return pieces.iter_mut().try_for_each(|piece| self.deliver_without_source(job, piece, worker));
        };
        let handle = match self.sources.get(&self.store, source) {
            Ok(Some(handle)) => handle,
            Ok(None) => return pieces.iter_mut().try_for_each(|piece| fill(job, piece)),
            Err((path, error)) => return Err(failed(job, &pieces[0], &path, error)),
        };
        let path = handle.reader.path();
        if let [piece] = pieces.as_mut_slice() {
            let read = self.read_straight(job, piece, &handle);
            if let Some(result) = read.transpose() {
                return result.map_err(|e| failed(job, piece, path, e));
            }
        }
        let length = range.end - range.start;
        let read = check_size(&handle, range.end, length).and_then(|length| {
            let input = sized(&mut worker.input, length)?;
            handle.reader.read_at(range.start, input)
        });
        match read {
            Ok(()) => {}
            Err(error) if pieces.len() == 1 => return Err(failed(job, &pieces[0], path, error)),
            // One by one, so that the error names the chunk.
            Err(_) => {
                return pieces.into_iter().try_for_each(|piece| {
                    let range = match &piece.bytes {
                        Bytes::Stored(stored) => stored.range(),
                        _ => range.clone(),
                    };
                    self.run_batch(job, Batch { source: Some((source, range)), pieces: vec![piece] }, worker)
                });
            }
        }
        for piece in &mut pieces {
            let Bytes::Stored(stored) = &piece.bytes else { continue };
            let start = (stored.range().start - range.start) as usize;
            let Worker { input, decoded, scratch } = &mut *worker;
            let bytes = &input[start..start + (stored.needed.end - stored.needed.start) as usize];
            let rows = is_plain(job.layout, stored).then_some(stored.needed.start as usize);
            self.deliver(job, piece, bytes, rows, (decoded, scratch)).map_err(|e| failed(job, piece, path, e))?;
        }
        Ok(())
    }

    /// Reads bytes without a codec straight into the output, if they lie there as they are stored.
    fn read_straight(&self, job: &Job<'_>, piece: &mut Piece<'_>, handle: &Handle) -> Result<Option<()>> {
        let (Bytes::Stored(stored), Some(part), false) = (&piece.bytes, &mut piece.part, piece.keep) else {
            return Ok(None);
        };
        let layout = job.layout;
        if !is_plain(layout, stored) {
            return Ok(None);
        }
        let Some((begin, out)) = part.as_run(&layout.strides) else { return Ok(None) };
        handle.reader.read_at(stored.offset + begin as u64, out)?;
        swap_in_place(out, layout.swap);
        Ok(Some(()))
    }

    fn deliver_without_source(&self, job: &Job<'_>, piece: &mut Piece<'_>, worker: &mut Worker) -> Result<()> {
        match std::mem::replace(&mut piece.bytes, Bytes::Absent) {
            Bytes::Cached(chunk) => match &mut piece.part {
                Some(part) => part.copy(&chunk, &job.layout.strides, 0),
                None => Ok(()),
            },
            Bytes::Inline(data) => {
                let Worker { decoded, scratch, .. } = worker;
                let size = data.len() as u64;
                self.deliver(job, piece, &data, None, (decoded, scratch)).map_err(|source| Error::Chunk {
                    array: job.desc.name.clone(),
                    key: piece.key.clone(),
                    path: self.store.path().to_owned(),
                    offset: 0,
                    size,
                    source: Box::new(source),
                })
            }
            Bytes::Absent | Bytes::Stored(_) => fill(job, piece),
        }
    }

    /// Decodes a chunk and copies what is wanted of it. `rows`: `bytes` are rows of a chunk without a codec, which begin
    /// so many bytes into it.
    fn deliver(
        &self,
        job: &Job<'_>,
        piece: &mut Piece<'_>,
        bytes: &[u8],
        rows: Option<usize>,
        (decoded, scratch): (&mut Vec<u8>, &mut Scratch),
    ) -> Result<()> {
        let Layout { pipeline, strides, swap, .. } = job.layout;
        let size = pipeline.decoded_size();
        if piece.keep {
            let mut chunk = Vec::new();
            pipeline.decode_into(bytes, 0, sized(&mut chunk, size)?, scratch)?;
            swap_in_place(&mut chunk, *swap);
            if let Some(part) = &mut piece.part {
                part.copy(&chunk, strides, 0)?;
            }
            self.cache.insert(job.array, &piece.key, Arc::new(chunk));
            return Ok(());
        }
        let Some(part) = &mut piece.part else { return Ok(()) };
        if let Some(skip) = rows {
            if *swap == 1 {
                return part.copy(bytes, strides, skip);
            }
            let copy = sized(decoded, bytes.len())?;
            copy.copy_from_slice(bytes);
            swap_in_place(copy, *swap);
            return part.copy(copy, strides, skip);
        }
        if let Some((0, out)) = part.as_run(strides)
            && out.len() == size
        {
            pipeline.decode_into(bytes, 0, out, scratch)?;
            swap_in_place(out, *swap);
            return Ok(());
        }
        let chunk = sized(decoded, size)?;
        pipeline.decode_into(bytes, 0, chunk, scratch)?;
        swap_in_place(chunk, *swap);
        part.copy(chunk, strides, 0)
    }

    /// The encoded bytes of a chunk; None if it reads as fill.
    pub(super) fn fetch(&self, array: usize, key: &[u64], reference: &ChunkRef) -> Result<Option<Vec<u8>>> {
        match reference {
            ChunkRef::Absent => Ok(None),
            ChunkRef::Inline(data) => Ok(Some(data.to_vec())),
            ChunkRef::Range { source, offset, size } => {
                let handle = match self.sources.get(&self.store, *source) {
                    Ok(Some(handle)) => handle,
                    Ok(None) => return Ok(None),
                    Err((_, error)) => return Err(self.chunk_error(array, key, reference, error)),
                };
                let mut bytes = Vec::new();
                check_size(&handle, offset.saturating_add(*size), *size)
                    .and_then(|n| handle.reader.read_at(*offset, sized(&mut bytes, n)?))
                    .map_err(|e| self.chunk_error(array, key, reference, e))?;
                Ok(Some(bytes))
            }
        }
    }

    pub(super) fn chunk_error(&self, array: usize, key: &[u64], reference: &ChunkRef, error: Error) -> Error {
        let (path, offset, size) = match reference {
            ChunkRef::Range { source, offset, size } => {
                (self.store.source(*source).map(|s| s.path).ok(), *offset, *size)
            }
            ChunkRef::Inline(data) => (None, 0, data.len() as u64),
            ChunkRef::Absent => (None, 0, 0),
        };
        Error::Chunk {
            array: self.desc(array).map_or_else(|_| String::new(), |d| d.name.clone()),
            key: key.to_vec(),
            path: path.unwrap_or_else(|| self.store.path().to_owned()),
            offset,
            size,
            source: Box::new(error),
        }
    }
}

/// Whether the stored bytes are the decoded ones, as many as there should be.
fn is_plain(layout: &Layout, stored: &Stored) -> bool {
    layout.pipeline.is_identity(0) && stored.size == layout.pipeline.decoded_size() as u64
}

/// Fills a part with the array's fill.
fn fill(job: &Job<'_>, piece: &mut Piece<'_>) -> Result<()> {
    match &mut piece.part {
        Some(part) => part.fill(&job.layout.fill),
        None => Ok(()),
    }
}

/// `length` bytes that end at `end`, if it is sane to take memory for them.
fn check_size(handle: &Handle, end: u64, length: u64) -> Result<usize> {
    let error = |what: String| Error::Io { path: handle.reader.path().to_owned(), what };
    if length > MAX_STORED {
        return Err(error(format!("a chunk of {length} bytes is too large")));
    }
    if length > UNCHECKED {
        let size = handle.reader.size()?;
        if end > size {
            return Err(error(format!("has {size} bytes, but the chunk ends at {end}")));
        }
    }
    usize::try_from(length).map_err(|_| error(format!("a chunk of {length} bytes is too large")))
}

/// Says which chunk an error is of.
fn failed(job: &Job<'_>, piece: &Piece<'_>, path: &str, error: Error) -> Error {
    let (offset, size) = match &piece.bytes {
        Bytes::Stored(stored) => (stored.offset, stored.size),
        _ => (0, 0),
    };
    Error::Chunk {
        array: job.desc.name.clone(),
        key: piece.key.clone(),
        path: path.to_owned(),
        offset,
        size,
        source: Box::new(error),
    }
}
