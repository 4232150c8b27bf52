//! Other forms of a store's references, one file for each form.
//!
//! All take the same way: [`zarr2`] says whether an array goes into Zarr v2 metadata and how; the form's own file streams
//! the references. What a form can't hold is listed and refused, never written wrong.

pub mod kerchunk_json;
pub mod kerchunk_parquet;
pub mod parquet;
mod url;
pub mod zarr2;

use crate::model::Storage;
use crate::read::{RawChunk, Reader};
use crate::store::{Cell, view_name};
use crate::{Error, Result};
use zarr2::ZarrArray;

/// What is exported.
pub struct Export<'a> {
    /// Reads inline and computed arrays.
    pub reader: &'a Reader,
    /// Numbers of the arrays, of which all have a shape.
    pub arrays: Vec<usize>,
    /// Whether an absent chunk is left out, to be read as fill_value. Otherwise it is written as encoded fill where that
    /// makes a difference.
    pub leave_out_absent: bool,
}

/// A chunk of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry<'a> {
    /// In a file: its URL, byte offset, size in bytes.
    Range(&'a str, i64, i64),
    /// Its bytes, encoded.
    Inline(&'a [u8]),
}

/// Takes a chunk: its place in the chunk grid in C order, its key.
type EntrySink<'a> = dyn FnMut(u64, &[u64], Entry<'_>) -> Result<()> + 'a;

impl Export<'_> {
    /// Zarr v2 metadata of all arrays, in their order. `holds` says of an array why the form can't hold it.
    ///
    /// # Errors
    /// [`Error::Plan`] with the list of what can't be held.
    fn metadata(&self, holds: &dyn Fn(&ZarrArray) -> Result<(), String>) -> Result<Vec<ZarrArray>> {
        let arrays = self.reader.store().arrays();
        let (mut list, mut refused) = (Vec::new(), Vec::new());
        for number in &self.arrays {
            let made = zarr2::array(&arrays[*number], self.leave_out_absent).and_then(|m| holds(&m).map(|()| m));
            match made {
                Ok(metadata) => list.push(metadata),
                Err(why) => refused.push(format!("array \"{}\": {why}", arrays[*number].name)),
            }
        }
        if refused.is_empty() {
            return Ok(list);
        }
        Err(Error::Plan(format!(
            "kerchunk references can't hold (choose others with --array):\n  {}",
            refused.join("\n  ")
        )))
    }

    /// Each chunk of an array that there is, in no order; then, if `absent` has the bytes of fill, each other one in C order.
    ///
    /// # Errors
    /// [`Error::Store`] for chunks that break the format, that only GDAL could open, or that were not scanned; what `sink`
    /// gives.
    fn each_entry(&self, number: usize, absent: Option<&[u8]>, sink: &mut EntrySink<'_>) -> Result<()> {
        let store = self.reader.store();
        let desc = &store.arrays()[number];
        let grid = desc.grid()?;
        let counts = grid.counts();
        let rank = counts.len();
        let mut key = vec![0u64; rank];
        if desc.storage != Storage::Referenced {
            if !grid.is_empty()
                && let (RawChunk::Inline(data), _) = self.reader.raw_chunk(number, &key)?
            {
                sink(0, &key, Entry::Inline(&data))?;
            }
            return Ok(());
        }
        let unscanned = store.unscanned(number)?;
        if !unscanned.is_empty() {
            let what = format!("array \"{}\": not scanned: {}", desc.name, unscanned.join(", "));
            return Err(Error::Store { path: store.path().to_owned(), what });
        }
        let mut seen = Seen::new(&desc.name, grid.len())?;
        let tables = store.tables()?;
        let table = tables.iter().find(|t| t.array == Some(number)).ok_or_else(|| Error::Store {
            path: store.path().to_owned(),
            what: format!("array \"{}\": there is no {}", desc.name, view_name(&desc.name)),
        })?;
        // The path of the last row, as it is written.
        let mut last = (String::new(), String::new());
        store.each_row(table, None, &mut |place, cells| {
            let bad = |what: &str| Error::Store {
                path: store.path().to_owned(),
                what: format!("array \"{}\", chunk {:?}: {what}", desc.name, &cells[..rank]),
            };
            for (k, cell) in key.iter_mut().zip(cells) {
                *k = match cell {
                    Cell::Integer(i) => u64::try_from(*i).map_err(|_| bad("its key is negative"))?,
                    _ => return Err(bad("its key is not a number")),
                };
            }
            if cells[rank] == Cell::Integer(0) {
                return Ok(true);
            }
            let entry = match (&cells[rank + 1], &cells[rank + 2], &cells[rank + 3], &cells[rank + 5]) {
                (Cell::Text(path), Cell::Integer(offset), Cell::Integer(size), _) if *offset >= 0 && *size > 0 => {
                    if last.0 != **path {
                        let opened = store.opened(path);
                        let url = url::of_path(&opened).ok_or_else(|| {
                            bad(&format!("only GDAL opens {opened}: kerchunk references can't hold it"))
                        })?;
                        last = ((*path).to_owned(), url);
                    }
                    Entry::Range(&last.1, *offset, *size)
                }
                (_, Cell::Null, _, Cell::Blob(data)) => Entry::Inline(data),
                _ => return Err(bad("it has neither a byte range nor data")),
            };
            let place = u64::try_from(place).unwrap_or(u64::MAX);
            if !seen.mark(place) {
                return Err(bad("there are two rows for it"));
            }
            sink(place, &key, entry)?;
            Ok(true)
        })?;
        let Some(absent) = absent else { return Ok(()) };
        for place in (0..grid.len()).filter(|n| !seen.has(*n)) {
            let mut rest = place;
            for axis in (0..rank).rev() {
                key[axis] = rest % counts[axis];
                rest /= counts[axis];
            }
            sink(place, &key, Entry::Inline(absent))?;
        }
        Ok(())
    }
}

/// Chunks of an array at most, where each must be remembered.
const MOST_CHUNKS: u64 = 1 << 32;

/// Chunks of a grid that were seen, in C order.
struct Seen(Vec<u64>);

impl Seen {
    fn new(array: &str, chunks: u64) -> Result<Seen> {
        let words = usize::try_from(chunks.div_ceil(64)).ok().filter(|_| chunks <= MOST_CHUNKS);
        let too_many = || Error::Invalid(format!("array \"{array}\" has {chunks} chunks: too many"));
        let mut list = Vec::new();
        list.try_reserve_exact(words.ok_or_else(too_many)?).map_err(|_| too_many())?;
        list.resize(words.unwrap_or(0), 0);
        Ok(Seen(list))
    }

    /// Marks a chunk; whether it was new.
    fn mark(&mut self, number: u64) -> bool {
        let Some(word) = self.0.get_mut((number / 64) as usize) else { return false };
        let bit = 1u64 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn has(&self, number: u64) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|w| w & (1 << (number % 64)) != 0)
    }
}
