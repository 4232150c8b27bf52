//! Scans sources: many at a time, each by one thread, handed over in order to the one thread that writes.

use crate::codec::{CodecOptions, Pipeline, Scratch};
use crate::io::{ByteReader, Opener, Stat};
use crate::model::{ChunkGrid, Kind};
use crate::plan::axis::CoordValues;
use crate::plan::{MAX_VALUES, SourceFacts};
use crate::scan::{self, Location, SourceArray, SourceIndex};
use crate::{Error, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What to do about a chunk that skipped a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskedChunks {
    /// Refuse the source.
    Fail,
    /// Carry the chunk in the store, encoded like the others.
    Inline,
}

/// Choices of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions {
    /// Chunks that skipped a filter.
    pub masked: MaskedChunks,
    /// A contiguous array is listed in pieces of at most this many bytes; None: as one chunk.
    pub split_contiguous: Option<u64>,
}

/// Arrays to take from a source.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All but coordinate variables and arrays without dimensions; these are reported as facts.
    All,
    /// Those with one of these names, and no other; missing ones are no error.
    Some(Vec<String>),
    /// Exactly these.
    Exactly {
        /// Names of arrays.
        arrays: Vec<String>,
        /// Of these, the arrays whose chunks are not listed, but whose values are read whole.
        inline: Vec<String>,
        /// Of these, the arrays whose values are read whole too.
        values: Vec<String>,
    },
}

/// A source to scan.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name in the store.
    pub source: String,
    /// Arrays.
    pub wanted: Wanted,
    /// Whether chunks are listed; else only facts.
    pub chunks: bool,
    /// Whether coordinates are read.
    pub coords: bool,
}

/// Chunks of one array of a source.
#[derive(Debug)]
pub struct Batch {
    /// Number of the array in [`SourceFacts::arrays`].
    pub array: usize,
    /// Keys, one after the other.
    pub keys: Vec<u64>,
    /// Locations.
    pub locations: Vec<Location>,
}

/// What a scan reports of one source, in this order: [`Message::Opened`], [`Message::Rows`] any number of times, then
/// [`Message::Done`]; [`Message::Failed`] ends it at any point.
#[derive(Debug)]
pub enum Message {
    /// It is open.
    Opened {
        /// Size and time of change before it was read.
        stat: Stat,
        /// Facts.
        facts: Box<SourceFacts>,
        /// Numbers of the arrays in `facts.arrays` whose chunks follow.
        listed: Vec<usize>,
        /// Arrays that can't be carried, and why.
        refused: Vec<(String, String)>,
    },
    /// Chunks.
    Rows(Batch),
    /// All was reported.
    Done,
    /// It can't be used.
    Failed(Error),
}

/// Takes what a scan reports; on the thread that called [`scan_all`].
pub trait Consumer {
    /// Takes a message of task number `task`; tasks come in order. False: nothing more of this source is wanted.
    ///
    /// # Errors
    /// Ends the scan.
    fn message(&mut self, task: usize, message: Message) -> Result<bool>;

    /// Called every now and then while nothing comes.
    ///
    /// # Errors
    /// Ends the scan.
    fn idle(&mut self) -> Result<()>;
}

const BATCH: usize = 4096;
/// Batches of one source that wait for the writer.
const BATCHES_AHEAD: usize = 4;
/// Sources that are scanned before their turn to be written.
const SOURCES_AHEAD: usize = 128;
/// An absent chunk gets a row if the grid has no more chunks than this.
const MAX_ABSENT_ROWS: u64 = 1_000_000;
/// A chunk that is carried in line has no more bytes than this, stored or decoded.
const MAX_INLINE_CHUNK: u64 = 256 << 20;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Scans `tasks` with `threads` threads; `consumer` gets everything in the order of the tasks. What is in memory is
/// bounded, whatever the sources' sizes.
///
/// # Errors
/// Those of `consumer`. What goes wrong with a source is a [`Message::Failed`].
pub fn scan_all(
    opener: &Arc<dyn Opener>,
    tasks: &[Task],
    threads: usize,
    options: ScanOptions,
    consumer: &mut dyn Consumer,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let written = (Mutex::new(0usize), Condvar::new());
    std::thread::scope(|scope| {
        let (register, registered) = channel::<(usize, Receiver<Message>)>();
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let register = register.clone();
            let (next, stop, written) = (&next, &stop, &written);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(number) else { return };
                    let mut done = lock(&written.0);
                    while number >= *done + SOURCES_AHEAD && !stop.load(Ordering::Relaxed) {
                        done = written.1.wait(done).unwrap_or_else(PoisonError::into_inner);
                    }
                    drop(done);
                    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
                    if stop.load(Ordering::Relaxed) || register.send((number, receiver)).is_err() {
                        return;
                    }
                    let scanned = catch_unwind(AssertUnwindSafe(|| scan_one(opener, task, options, &sender)))
                        .unwrap_or_else(|_| {
                            Err(Error::Io {
                                path: task.source.clone(),
                                what: "internal error while scanning it".into(),
                            })
                        });
                    // The receiver may be gone: then nobody wants to know.
                    let _ = match scanned {
                        Ok(()) => sender.send(Message::Done),
                        Err(e) => sender.send(Message::Failed(e)),
                    };
                }
            });
        }
        drop(register);
        let mut waiting = HashMap::new();
        let result = (0..tasks.len()).try_for_each(|number| {
            let receiver = loop {
                if let Some(receiver) = waiting.remove(&number) {
                    break receiver;
                }
                match registered.recv_timeout(Duration::from_millis(200)) {
                    Ok((n, receiver)) => {
                        waiting.insert(n, receiver);
                    }
                    Err(RecvTimeoutError::Timeout) => consumer.idle()?,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::Invalid("the threads that scan have ended early".into()));
                    }
                }
            };
            loop {
                match receiver.recv_timeout(Duration::from_millis(200)) {
                    Ok(message) => {
                        let last = matches!(message, Message::Done | Message::Failed(_));
                        if !consumer.message(number, message)? || last {
                            break;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => consumer.idle()?,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            *lock(&written.0) = number + 1;
            written.1.notify_all();
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        // Under the lock, so that no thread misses it between its look at `stop` and its wait.
        let done = lock(&written.0);
        written.1.notify_all();
        drop(done);
        drop((waiting, registered));
        result
    })
}

/// The error that ends a scan whose receiver has gone; never seen by anyone.
fn unwanted<T>(_: T) -> Error {
    Error::Cancelled
}

fn scan_one(opener: &Arc<dyn Opener>, task: &Task, options: ScanOptions, sender: &SyncSender<Message>) -> Result<()> {
    let scan::Opened { stat, reader, index } = scan::open_path(opener, &task.source)?;
    let all = index.arrays();
    // A coordinate goes into the store by its values; one that is too large, or of text of any length, by its chunks.
    let is_coordinate = |a: &SourceArray| {
        let bytes = a.dims.first().map_or(0, |d| d.size.saturating_mul(a.dtype.size as u64));
        a.dims.len() == 1 && a.dims[0].name == a.name && a.dtype.kind != Kind::VlenUtf8 && bytes <= MAX_VALUES
    };
    let mut refused: Vec<(String, String)> =
        index.refused().iter().map(|r| (r.name.clone(), r.why.to_string())).collect();
    // Numbers of the arrays to take, and what they are called: what a link names has the name of the link.
    let mut picked: Vec<(usize, String)> = Vec::new();
    let (mut inline, mut values) = (Vec::new(), Vec::new());
    let find = |name: &str| {
        let listed = index.resolve(name);
        (all.iter().position(|a| a.name == listed), listed)
    };
    match &task.wanted {
        Wanted::All => {
            picked.extend(all.iter().enumerate().filter(|(_, a)| !is_coordinate(a)).map(|(i, a)| (i, a.name.clone())));
            inline.extend(picked.iter().filter(|(i, _)| all[*i].dims.is_empty()).map(|(_, n)| n.clone()));
        }
        Wanted::Some(names) => {
            let mut why_not = Vec::new();
            for name in names {
                match find(name) {
                    (Some(number), _) => picked.push((number, name.clone())),
                    (None, listed) => why_not.extend(
                        refused.iter().filter(|(n, _)| *n == listed).map(|(_, why)| (name.clone(), why.clone())),
                    ),
                }
            }
            // In the order of the file.
            picked.sort();
            refused = why_not;
            inline.extend(picked.iter().filter(|(i, _)| all[*i].dims.is_empty()).map(|(_, n)| n.clone()));
        }
        Wanted::Exactly { arrays, inline: i, values: v } => {
            for name in arrays {
                match find(name) {
                    (Some(number), _) => picked.push((number, name.clone())),
                    (None, listed) => {
                        return Err(match refused.iter().find(|(n, _)| *n == listed) {
                            Some((_, why)) => Error::Plan(why.clone()),
                            None => Error::Plan(format!(
                                "{}: it has no array \"{name}\", which the plan takes from it",
                                task.source
                            )),
                        });
                    }
                }
            }
            refused.clear();
            inline.clone_from(i);
            values.clone_from(v);
        }
    }
    let shaped = |(number, name): &(usize, String)| {
        let mut array = SourceArray { name: name.clone(), ..all[*number].clone() };
        if let Some(limit) = options.split_contiguous.filter(|_| array.contiguous) {
            array.chunks = split_shape(&array.shape(), array.dtype.size as u64, limit);
        }
        array
    };
    let mut facts = SourceFacts {
        arrays: picked.iter().map(shaped).collect(),
        attributes: index.groups().iter().find(|(n, _)| n.is_empty()).map(|(_, a)| a.clone()).unwrap_or_default(),
        groups: index.groups().iter().filter(|(n, _)| !n.is_empty()).cloned().collect(),
        in_parts: picked.iter().filter(|(i, _)| index.in_parts(*i)).map(|(_, name)| name.clone()).collect(),
        ..SourceFacts::default()
    };
    for ((number, _), array) in picked.iter().zip(&facts.arrays) {
        if inline.contains(&array.name) || values.contains(&array.name) {
            let size = array.shape().iter().try_fold(array.dtype.size.max(1) as u64, |n, s| n.checked_mul(*s));
            if size.is_some_and(|s| s <= MAX_VALUES) {
                facts.values.push((array.name.clone(), index.values(*number, MAX_VALUES)?));
            }
        }
    }
    if task.coords {
        for (number, array) in all.iter().enumerate().filter(|(_, a)| is_coordinate(a)) {
            let used = |a: &SourceArray| a.dims.iter().any(|d| d.name == array.name);
            if matches!(task.wanted, Wanted::All) || facts.arrays.iter().any(used) {
                facts.coords.push(Arc::new(CoordValues {
                    name: array.name.clone(),
                    dtype: array.dtype,
                    attrs: array.attrs.clone(),
                    values: index.values(number, MAX_VALUES)?,
                }));
            }
        }
    }
    let listed: Vec<usize> =
        (0..picked.len()).filter(|i| task.chunks && !inline.contains(&facts.arrays[*i].name)).collect();
    let arrays: Vec<SourceArray> = listed.iter().map(|i| facts.arrays[*i].clone()).collect();
    sender.send(Message::Opened { stat, facts: Box::new(facts), listed: listed.clone(), refused }).map_err(unwanted)?;
    for (position, array) in listed.into_iter().zip(&arrays) {
        list_chunks(
            index.as_ref(),
            picked[position].0,
            array,
            reader.as_ref(),
            options.masked,
            &mut |keys, locations| {
                sender.send(Message::Rows(Batch { array: position, keys, locations })).map_err(unwanted)
            },
        )?;
    }
    Ok(())
}

/// All values of an array of a source.
///
/// # Errors
/// As [`SourceIndex::values`]; [`Error::Plan`] if there is no such array.
pub fn values(opener: &Arc<dyn Opener>, source: &str, array: &str) -> Result<Vec<u8>> {
    let index = scan::open_path(opener, source)?.index;
    let number = index.arrays().iter().position(|a| a.name == array);
    let number = number.ok_or_else(|| Error::Plan(format!("{source}: it has no array \"{array}\"")))?;
    index.values(number, MAX_VALUES)
}

/// Lists the chunks of one array in batches: those with bytes, then, in a grid of up to a million chunks, the absent
/// ones.
fn list_chunks(
    index: &dyn SourceIndex,
    number: usize,
    array: &SourceArray,
    reader: &dyn ByteReader,
    masked: MaskedChunks,
    sink: &mut dyn FnMut(Vec<u64>, Vec<Location>) -> Result<()>,
) -> Result<()> {
    let rank = array.dims.len();
    let grid = ChunkGrid::new(array.shape(), array.chunks.clone())?;
    let counts = grid.counts();
    let mut seen = (grid.len() <= MAX_ABSENT_ROWS).then(|| vec![false; grid.len() as usize]);
    let mut encoder = ChunkEncoder::new(array, reader)?;
    let (mut keys, mut locations) = (Vec::with_capacity(BATCH * rank), Vec::with_capacity(BATCH));
    let mut any = false;
    let problem = |key: &[u64], what: String| Error::Unsupported {
        path: reader.path().to_owned(),
        array: array.name.clone(),
        what: format!("chunk {key:?} {what}"),
    };
    let mut add = |key: &[u64], location: Location, filter_mask: u32| {
        if key.len() != rank || key.iter().zip(&counts).any(|(k, n)| k >= n) {
            return Err(problem(key, format!("is outside the chunk grid {counts:?}: the index is damaged")));
        }
        if let Some(seen) = &mut seen {
            let at = key.iter().zip(&counts).fold(0, |at, (k, n)| at * n + k) as usize;
            if std::mem::replace(&mut seen[at], true) {
                return Err(problem(key, "is listed twice: the index is damaged".into()));
            }
        }
        let location = match location {
            Location::Range { offset, size } if filter_mask != 0 => match masked {
                MaskedChunks::Inline => Location::Inline(encoder.encode(offset, size, filter_mask)?),
                MaskedChunks::Fail => {
                    return Err(problem(
                        key,
                        format!(
                            "skipped filters that the others have (filter mask {:#x}): one array has one codec; \
                             --masked-chunks inline carries such chunks in the store",
                            filter_mask
                        ),
                    ));
                }
            },
            Location::Range { size, .. } | Location::Part { size, .. }
                if array.codec.is_empty() && size != encoder.decoded =>
            {
                return Err(problem(key, format!("has {size} bytes, but {} without a codec", encoder.decoded)));
            }
            location => location,
        };
        keys.extend_from_slice(key);
        locations.push(location);
        any = true;
        if locations.len() == BATCH {
            sink(std::mem::take(&mut keys), std::mem::take(&mut locations))?;
        }
        Ok(())
    };
    index.chunks(number, &mut |chunk| match chunk.location {
        // A run that is read in pieces: they lie one after the other in the order of the chunk grid.
        Location::Range { offset, size } if array.contiguous && grid.len() > 1 => {
            let piece = size / grid.len();
            let mut key = vec![0; rank];
            (0..grid.len()).try_for_each(|i| {
                add(&key, Location::Range { offset: offset + i * piece, size: piece }, 0)?;
                next_key(&mut key, &counts);
                Ok(())
            })
        }
        location => add(chunk.key, location, chunk.filter_mask),
    })?;
    if index.in_parts(number) {
        // What was never written has no file, hence no place, and reads as fill.
        return if locations.is_empty() { Ok(()) } else { sink(keys, locations) };
    }
    if !any && seen.is_none() {
        // What was never written still was scanned.
        keys.resize(rank, 0);
        locations.push(Location::Absent);
    }
    let mut key = vec![0; rank];
    for seen in seen.into_iter().flatten() {
        if !seen {
            keys.extend_from_slice(&key);
            locations.push(Location::Absent);
            if locations.len() == BATCH {
                sink(std::mem::take(&mut keys), std::mem::take(&mut locations))?;
            }
        }
        next_key(&mut key, &counts);
    }
    if locations.is_empty() { Ok(()) } else { sink(keys, locations) }
}

/// The next key of a grid in C order; after the last comes the first.
fn next_key(key: &mut [u64], counts: &[u64]) {
    for (k, count) in key.iter_mut().zip(counts).rev() {
        *k += 1;
        if *k < *count {
            return;
        }
        *k = 0;
    }
}

/// The largest divisor of `n` that is at most `most`.
fn divisor_up_to(n: u64, most: u64) -> u64 {
    let small = (1..).take_while(|d: &u64| d.saturating_mul(*d) <= n).filter(|d| n.is_multiple_of(*d));
    small.flat_map(|d| [d, n / d]).filter(|d| *d <= most).max().unwrap_or(1)
}

/// The chunk shape of a contiguous array in pieces of at most `limit` bytes where that can be: whole along the fastest
/// axes, a divisor of the length along one, 1 along the slowest.
fn split_shape(shape: &[u64], item: u64, limit: u64) -> Vec<u64> {
    let mut chunks: Vec<u64> = shape.iter().map(|s| (*s).max(1)).collect();
    let bytes = |chunks: &[u64]| chunks.iter().fold(item, |n, c| n.saturating_mul(*c));
    for axis in 0..chunks.len() {
        if bytes(&chunks) <= limit {
            break;
        }
        let length = chunks[axis];
        chunks[axis] = 1;
        let row = bytes(&chunks);
        let most = (limit / row.max(1)).clamp(1, length);
        chunks[axis] = divisor_up_to(length, most);
    }
    chunks
}

/// Encodes chunks that skipped filters like the others of their array.
struct ChunkEncoder<'a> {
    array: &'a SourceArray,
    reader: &'a dyn ByteReader,
    /// Bytes of a decoded chunk.
    decoded: u64,
    pipeline: Option<Pipeline>,
    scratch: Scratch,
}

impl<'a> ChunkEncoder<'a> {
    fn new(array: &'a SourceArray, reader: &'a dyn ByteReader) -> Result<ChunkEncoder<'a>> {
        let decoded = array
            .chunks
            .iter()
            .try_fold(array.dtype.size as u64, |n, c| n.checked_mul(*c))
            .filter(|_| array.dtype.kind != Kind::VlenUtf8 || array.codec.compressor.is_none())
            .ok_or_else(|| Error::Unsupported {
                path: reader.path().to_owned(),
                array: array.name.clone(),
                what: format!("chunks of {:?} elements of {} are too large", array.chunks, array.dtype),
            })?;
        Ok(ChunkEncoder { array, reader, decoded, pipeline: None, scratch: Scratch::default() })
    }

    fn encode(&mut self, offset: u64, size: u64, mask: u32) -> Result<Vec<u8>> {
        if size > MAX_INLINE_CHUNK || self.decoded > MAX_INLINE_CHUNK {
            return Err(Error::Unsupported {
                path: self.reader.path().to_owned(),
                array: self.array.name.clone(),
                what: format!(
                    "a chunk of {} bytes that skipped a filter is too large to carry in the store",
                    size.max(self.decoded)
                ),
            });
        }
        let pipeline = match &self.pipeline {
            Some(pipeline) => pipeline,
            None => {
                let elements = self.decoded as usize / self.array.dtype.size.max(1);
                let options = CodecOptions::default();
                self.pipeline.insert(Pipeline::new(&self.array.codec, &self.array.dtype, elements, options)?)
            }
        };
        let mut stored = vec![0; size as usize];
        self.reader.read_at(offset, &mut stored)?;
        let mut values = vec![0; self.decoded as usize];
        pipeline.decode_into(&stored, mask, &mut values, &mut self.scratch)?;
        pipeline.encode(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_contiguous_arrays() {
        assert_eq!(split_shape(&[100, 10, 10], 4, 1 << 20), [100, 10, 10]);
        assert_eq!(split_shape(&[100, 10, 10], 4, 4000), [10, 10, 10]);
        assert_eq!(split_shape(&[100, 10, 10], 4, 4399), [10, 10, 10]);
        assert_eq!(split_shape(&[7, 10, 10], 4, 2000), [1, 10, 10]);
        assert_eq!(split_shape(&[7, 10, 10], 4, 100), [1, 2, 10]);
        assert_eq!(split_shape(&[7, 10, 10], 4, 1), [1, 1, 1]);
        assert_eq!(split_shape(&[0, 3], 4, 1), [1, 1]);
        assert!(split_shape(&[], 4, 1).is_empty());
    }
}
