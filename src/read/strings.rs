//! Windows of arrays of strings.

use super::computed;
use super::reader::Reader;
use super::window::{Hit, Window, slabs};
use crate::codec::{Pipeline, Scratch, vlen};
use crate::model::{Kind, Storage};
use crate::store::ChunkRef;
use crate::{Error, Result};
use std::collections::HashMap;

/// Most bytes of a decoded chunk of strings of any length.
const MAX_CHUNK: usize = 1 << 28;

impl Reader {
    /// Strings of a window, in C order: of arrays of fixed-length strings (trailing NULs cut) and of strings of any
    /// length. `step` as for [`Reader::read_strided`]. Bytes that are not UTF-8 are taken as Latin-1.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`Error::Invalid`] if the array is of numbers.
    pub fn read_strings(&self, array: usize, start: &[u64], count: &[u64], step: &[i64]) -> Result<Vec<String>> {
        let desc = self.desc(array)?;
        let Some(window) = self.window(array, start, count, Some(step))? else { return Ok(Vec::new()) };
        match desc.dtype.kind {
            Kind::VlenUtf8 => self.vlen_strings(array, &window),
            Kind::Bytes => {
                let size = desc.dtype.size;
                let mut buffer = Vec::new();
                let bytes = count.iter().try_fold(size, |n, c| n.checked_mul(usize::try_from(*c).ok()?));
                bytes.and_then(|n| buffer.try_reserve_exact(n).ok()).ok_or_else(|| {
                    Error::Invalid(format!("array \"{}\": no memory for {count:?} strings", desc.name))
                })?;
                buffer.resize(bytes.unwrap_or(0), 0);
                self.read_into(array, &window, &mut buffer)?;
                Ok(buffer.chunks_exact(size).map(text).collect())
            }
            _ => Err(Error::Invalid(format!("array \"{}\" is of {}, not of strings", desc.name, desc.dtype))),
        }
    }

    fn vlen_strings(&self, array: usize, window: &Window) -> Result<Vec<String>> {
        let desc = self.desc(array)?;
        let counts: Vec<usize> = window.axes.iter().map(|a| a.count as usize).collect();
        let fill = desc.fill.0.as_str().unwrap_or_default().to_owned();
        let mut strings = Vec::new();
        counts
            .iter()
            .try_fold(1usize, |n, c| n.checked_mul(*c))
            .and_then(|n| strings.try_reserve_exact(n).ok().map(|()| strings.resize(n, fill)))
            .ok_or_else(|| Error::Invalid(format!("array \"{}\": no memory for {counts:?} strings", desc.name)))?;
        if desc.storage == Storage::Inline {
            let shape = desc.shape.clone().unwrap_or_default();
            let values = vlen::split(desc.values.as_deref().unwrap_or(&[0; 4]))?;
            if Some(values.len() as u64) != shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s)) {
                let what = format!("array \"{}\": {} strings for shape {shape:?}", desc.name, values.len());
                return Err(Error::Invalid(what));
            }
            let hits = window.hits(&shape)?;
            let hits: Vec<&Hit> = hits.iter().filter_map(|h| h.first()).collect();
            place(&hits, &shape, window, &counts, &values, &mut strings);
            return Ok(strings);
        }
        let grid = desc.grid()?;
        let elements = grid.chunk_elements().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= MAX_CHUNK / 4);
        let elements = elements.ok_or_else(|| self.unsupported(array, "its chunks have too many strings"))?;
        let pipeline = Pipeline::new(&desc.codec, &desc.dtype, elements, self.codec_options())
            .map_err(|e| self.unsupported(array, e))?;
        let mut scratch = Scratch::default();
        let hits = window.hits(&grid.chunks)?;
        for slab in slabs(&hits) {
            let lists: Vec<&[Hit]> = hits.iter().zip(&slab).map(|(h, r)| &h[r.clone()]).collect();
            let ends = |list: &&[Hit]| list.first().zip(list.last()).map(|(a, b)| (a.chunk, b.chunk + 1));
            let (lo, hi): (Vec<u64>, Vec<u64>) = lists.iter().filter_map(ends).unzip();
            let refs: HashMap<_, _> = self.store().refs(array, &lo, &hi)?.into_iter().collect();
            for number in 0..lists.iter().map(|l| l.len()).product() {
                let mut rest: usize = number;
                let mut at: Vec<&Hit> = Vec::with_capacity(lists.len());
                for list in lists.iter().rev() {
                    at.push(&list[rest % list.len()]);
                    rest /= list.len();
                }
                at.reverse();
                let key: Vec<u64> = at.iter().map(|h| h.chunk).collect();
                let encoded = match refs.get(&key) {
                    None | Some(ChunkRef::Absent) => continue,
                    Some(reference) => self.fetch(array, &key, reference)?,
                };
                let Some(encoded) = encoded else { continue };
                let decoded = pipeline.decode_vlen(&encoded, MAX_CHUNK, &mut scratch);
                let decoded = decoded.map_err(|e| self.chunk_error(array, &key, &refs[&key], e))?;
                place(&at, &grid.chunks, window, &counts, &vlen::split(&decoded)?, &mut strings);
            }
        }
        Ok(strings)
    }

    /// All values of a one-dimensional array of numbers (or of a single number) as floats.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`Error::Invalid`] if it has more dimensions, is not of numbers, or has more than 16 million.
    pub fn values_f64(&self, array: usize) -> Result<Vec<f64>> {
        const MOST: u64 = 1 << 24;
        let desc = self.desc(array)?;
        let shape = self.shape(array)?;
        let count = match *shape {
            [] => 1,
            [n] if n <= MOST => n,
            _ => {
                let what = format!("array \"{}\" of shape {shape:?} is not a list of at most {MOST} values", desc.name);
                return Err(Error::Invalid(what));
            }
        };
        let size = self.item_size(array)?;
        let mut bytes = vec![0; count as usize * size];
        self.read(array, &vec![0; shape.len()], shape, &mut bytes)?;
        bytes.chunks_exact(size).map(|b| computed::number(desc, b)).collect()
    }
}

/// Puts what a window takes from one chunk in its place.
fn place(at: &[&Hit], chunks: &[u64], window: &Window, counts: &[usize], values: &[&[u8]], out: &mut [String]) {
    let total: u64 = at.iter().map(|h| h.count).product();
    for number in 0..total {
        let (mut rest, mut from, mut to, mut from_stride, mut to_stride) = (number, 0, 0, 1, 1);
        for axis in (0..at.len()).rev() {
            let i = rest % at[axis].count;
            rest /= at[axis].count;
            from += (at[axis].offset + i * at[axis].step) as usize * from_stride;
            from_stride *= chunks[axis] as usize;
            let place = (at[axis].first + i) as usize;
            to += if window.flipped[axis] { counts[axis] - 1 - place } else { place } * to_stride;
            to_stride *= counts[axis];
        }
        if let (Some(value), Some(slot)) = (values.get(from), out.get_mut(to)) {
            *slot = text(value);
        }
    }
}

/// A string without the NULs at its end. What is not UTF-8 is Latin-1, as old files have it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes[..end].iter().map(|b| char::from(*b)).collect(),
    }
}
