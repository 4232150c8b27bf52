//! A collection as a store: which source has which chunk is turned into the chunks of each source and its place.
//!
//! References say where a chunk of the whole is. A store says where a source lies in the whole, and what chunks it has.
//! A source is one box of chunks if it can be; sources whose boxes overlap are placed in pieces. Chunks that lie in no
//! source are those of the references themselves, as a source of their own.

use super::references::{ABSENT, INLINE, Reference};
use super::{Collection, Imported, References};
use crate::codec::{CodecOptions, Pipeline, Scratch};
use crate::io::Stat;
use crate::model::{ArrayDesc, ArrayKind, ChunkGrid, Fill, Kind, Storage};
use crate::plan::{MAX_VALUES, axis, make_inline};
use crate::store::{ChunkBox, Placement, PlanIndex, RowData, SourceId, Writer};
use crate::{Error, Result};
use std::collections::HashMap;

/// Absent chunks of an array that get a row, at most.
const MOST_ABSENT: u64 = 1_000_000;

/// What a store was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Arrays.
    pub arrays: usize,
    /// Chunks in sources.
    pub ranges: u64,
    /// Chunks carried in the store.
    pub inline: u64,
}

/// Writes a collection into a new store. `own` names the references, as the source of chunks that lie in no other.
/// `step` is called after each array with the share done.
///
/// # Errors
/// [`Error::Plan`], [`Error::Store`], [`Error::Sqlite`]; what `step` gives.
pub fn write(
    store: &mut Writer,
    all: &mut Collection,
    own: &str,
    step: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Written> {
    let mut written = Written::default();
    store.begin()?;
    let arrays = std::mem::take(&mut all.arrays);
    let total = arrays.len();
    let mut ids = Ids { names: &all.sources.names, own, ids: HashMap::new() };
    for (number, mut array) in arrays.into_iter().enumerate() {
        step(number as f64 / total as f64)?;
        let name = array.desc.name.clone();
        let repeated = array.references.sort();
        if repeated > 0 {
            all.lost.push(format!("array \"{name}\": {repeated} chunks are there twice: the last of each is taken"));
        }
        if array.desc.storage == Storage::Referenced {
            settle(&mut array)?;
        }
        if array.desc.storage == Storage::Referenced && array.desc.dims.is_empty() {
            all.lost
                .push(format!("array \"{name}\": it has no dimensions, and its one value is not in the references"));
            continue;
        }
        store.put_array(&array.desc)?;
        written.arrays += 1;
        if array.desc.storage == Storage::Referenced {
            chunks(store, &mut ids, &array, &mut written)?;
        }
    }
    store.set_group_attributes(&all.attributes, &all.groups)?;
    if !all.dimensions.is_empty() {
        store.set_dimensions(&all.dimensions)?;
    }
    for rule in &all.remap {
        store.put_remap(rule)?;
    }
    store.commit()?;
    Ok(written)
}

/// Numbers of sources in the store; they get one when they are first used.
struct Ids<'a> {
    names: &'a [String],
    own: &'a str,
    ids: HashMap<u32, SourceId>,
}

impl Ids<'_> {
    fn of(&mut self, store: &mut Writer, source: u32) -> Result<SourceId> {
        if let Some(id) = self.ids.get(&source) {
            return Ok(*id);
        }
        let name = self.names.get(source as usize).map_or(self.own, String::as_str);
        let id = store.put_source(name, &Stat::default())?;
        self.ids.insert(source, id);
        Ok(id)
    }
}

fn elements(desc: &ArrayDesc) -> Option<usize> {
    let count = desc.chunks.iter().try_fold(1usize, |n, c| n.checked_mul(usize::try_from(*c).ok()?))?;
    let size = count.checked_mul(desc.dtype.size.max(1))?;
    (size as u64 <= MAX_VALUES).then_some(count)
}

/// Makes of an array that is all in the references one whose values are in the store, and of chunks that are all fill
/// absent ones: exporters write them where `fill_value` is another value.
fn settle(array: &mut Imported) -> Result<()> {
    let (desc, references) = (&mut array.desc, &mut array.references);
    let grid = desc.grid()?;
    if references.list.len() as u64 != grid.len() || !references.list.iter().any(|r| r.source == INLINE) {
        return Ok(());
    }
    // Codecs that are not known are found out by who reads.
    let Some(elements) = elements(desc) else { return Ok(()) };
    let Ok(pipeline) = Pipeline::new(&desc.codec, &desc.dtype, elements, CodecOptions::default()) else {
        return Ok(());
    };
    let all_inline = references.list.iter().all(|r| r.source == INLINE);
    let scratch = &mut Scratch::default();
    if desc.dtype.kind == Kind::VlenUtf8 {
        if let ([only], true) = (references.inline.as_slice(), all_inline && grid.len() == 1)
            && grid.chunks.iter().zip(&grid.shape).all(|(c, s)| c == s)
            && let Ok(values) = pipeline.decode_vlen(only, MAX_VALUES as usize, scratch)
        {
            become_inline(desc, references, values);
        }
        return Ok(());
    }
    if grid.shape.len() > 1 || !all_inline {
        absent(desc, references, &pipeline, scratch)?;
    }
    if references.list.iter().all(|r| r.source == INLINE)
        && let Some(values) = assembled(desc, &grid, references, &pipeline, scratch)?
    {
        become_inline(desc, references, values);
    }
    Ok(())
}

fn become_inline(desc: &mut ArrayDesc, references: &mut References, values: Vec<u8>) {
    desc.storage = Storage::Inline;
    desc.codec = crate::model::CodecSpec::default();
    desc.fill = Fill::default();
    desc.chunks = desc.shape.iter().flatten().map(|s| (*s).max(1)).collect();
    make_inline(desc, values);
    if desc.kind == ArrayKind::Coord
        && desc.dtype.is_numeric()
        && let Some(affine) = desc.values.as_ref().and_then(|v| axis::affine(&desc.dtype, v))
    {
        (desc.storage, desc.values, desc.affine) = (Storage::Affine, None, Some(affine));
    }
    *references = References::default();
}

/// Of inline chunks the most frequent, if it is one value over and over: then the chunks are absent, and that is the fill.
fn absent(desc: &mut ArrayDesc, references: &mut References, pipeline: &Pipeline, scratch: &mut Scratch) -> Result<()> {
    let mut counts = vec![0u64; references.inline.len()];
    for r in references.list.iter().filter(|r| r.source == INLINE) {
        counts[r.offset as usize] += 1;
    }
    let Some(most) = (0..counts.len()).max_by_key(|n| (counts[*n], std::cmp::Reverse(*n))) else { return Ok(()) };
    let mut chunk = vec![0; pipeline.decoded_size()];
    if pipeline.decode_into(&references.inline[most], 0, &mut chunk, scratch).is_err() {
        return Ok(());
    }
    let size = desc.dtype.size;
    let Some(first) = chunk.get(..size) else { return Ok(()) };
    if !chunk.chunks_exact(size).all(|e| e == first) {
        return Ok(());
    }
    let fill = Fill::from_bytes(&desc.dtype, first)?;
    // The payload of a NaN is not kept.
    if fill.to_bytes(&desc.dtype)? != first {
        return Ok(());
    }
    desc.fill = fill;
    for r in references.list.iter_mut().filter(|r| r.source == INLINE && r.offset == most as u64) {
        *r = Reference { place: r.place, source: ABSENT, offset: 0, size: 0 };
    }
    Ok(())
}

/// The values of an array whose chunks all are inline; None if they are too many, or do not decode.
fn assembled(
    desc: &ArrayDesc,
    grid: &ChunkGrid,
    references: &References,
    pipeline: &Pipeline,
    scratch: &mut Scratch,
) -> Result<Option<Vec<u8>>> {
    let size = desc.dtype.size;
    let total = grid.shape.iter().try_fold(size as u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= MAX_VALUES);
    let Some(total) = total else { return Ok(None) };
    let mut values = vec![0; total as usize];
    let mut chunk = vec![0; pipeline.decoded_size()];
    let rank = grid.shape.len();
    let counts = grid.counts();
    let mut key = vec![0; rank];
    for r in &references.list {
        if pipeline.decode_into(&references.inline[r.offset as usize], 0, &mut chunk, scratch).is_err() {
            return Ok(None);
        }
        unravel(r.place, &counts, &mut key);
        // Rows along the last axis.
        let row = grid.chunks.last().map_or(1, |c| *c as usize) * size;
        'rows: for (number, row) in chunk.chunks_exact(row).enumerate() {
            let mut rest = number as u64;
            let (mut at, mut stride, mut length) = (0, 1, 1);
            for axis in (0..rank).rev() {
                let within = if axis + 1 == rank { 0 } else { rest % grid.chunks[axis] };
                if axis + 1 < rank {
                    rest /= grid.chunks[axis];
                }
                let index = key[axis] * grid.chunks[axis] + within;
                if index >= grid.shape[axis] {
                    continue 'rows;
                }
                if axis + 1 == rank {
                    length = grid.chunks[axis].min(grid.shape[axis] - index);
                }
                at += index * stride;
                stride *= grid.shape[axis];
            }
            let (at, length) = (at as usize * size, length as usize * size);
            values[at..at + length].copy_from_slice(&row[..length]);
        }
    }
    Ok(Some(values))
}

fn unravel(place: u64, counts: &[u64], key: &mut [u64]) {
    let mut rest = place;
    for axis in (0..counts.len()).rev() {
        key[axis] = rest % counts[axis].max(1);
        rest /= counts[axis].max(1);
    }
}

fn ravel(key: &[u64], counts: &[u64]) -> u64 {
    key.iter().zip(counts).fold(0, |place, (k, n)| place * n + k)
}

/// A box of chunks, from its first to after its last along each axis.
type Corners = (Vec<u64>, Vec<u64>);

/// Writes the chunks and placements of a referenced array.
fn chunks(store: &mut Writer, ids: &mut Ids<'_>, array: &Imported, written: &mut Written) -> Result<()> {
    let desc = &array.desc;
    let grid = desc.grid()?;
    let counts = grid.counts();
    let own = ids.names.len() as u32;
    let mut key = vec![0; counts.len()];
    // By source, in C order in each.
    let mut list: Vec<(u32, Reference)> = array.references.list.iter().map(|r| (r.source, *r)).collect();
    list.sort_by_key(|(source, r)| (*source, r.place));
    let split = list.partition_point(|(source, _)| *source < ABSENT);
    let mut boxes: Vec<ChunkBox> = Vec::new();
    for run in list[..split].chunk_by(|a, b| a.0 == b.0) {
        let (mut lo, mut hi) = (vec![u64::MAX; counts.len()], vec![0; counts.len()]);
        for (_, r) in run {
            unravel(r.place, &counts, &mut key);
            for axis in 0..key.len() {
                (lo[axis], hi[axis]) = (lo[axis].min(key[axis]), hi[axis].max(key[axis] + 1));
            }
        }
        let id = ids.of(store, run[0].0)?;
        boxes.push(ChunkBox { src: vec![0; counts.len()], lo, hi, source_id: id });
    }
    let mut placements: Vec<Placement> = Vec::new();
    let place = |(lo, hi): &Corners, own_keys: bool, id: SourceId| {
        let dest: Vec<u64> = lo.iter().zip(&grid.chunks).map(|(l, c)| l * c).collect();
        let end = hi.iter().zip(grid.chunks.iter().zip(&grid.shape)).map(|(h, (c, s))| h.saturating_mul(*c).min(*s));
        Placement {
            count: end.zip(&dest).map(|(e, d)| e - d).collect(),
            src_offset: if own_keys { vec![0; dest.len()] } else { dest.clone() },
            dest,
            source_id: id,
            source_array: desc.name.clone(),
        }
    };
    let is_apart = PlanIndex::new(boxes.clone());
    if let Ok(index) = &is_apart {
        // What is carried, or was never written, is the source's in whose box it lies.
        let numbers: HashMap<SourceId, u32> = ids.ids.iter().map(|(source, id)| (*id, *source)).collect();
        for (source, r) in &mut list[split..] {
            unravel(r.place, &counts, &mut key);
            let end: Vec<u64> = key.iter().map(|k| k + 1).collect();
            *source = index.meeting(&key, &end).first().and_then(|b| numbers.get(&b.source_id)).copied().unwrap_or(own);
        }
        for b in &boxes {
            placements.push(place(&(b.lo.clone(), b.hi.clone()), true, b.source_id));
        }
    } else {
        for (source, _) in &mut list[split..] {
            *source = own;
        }
        boxes.clear();
    }
    list.sort_by_key(|(source, r)| (*source, r.place));
    let info = Some(array.info.as_str()).filter(|i| !i.is_empty());
    let boxes: HashMap<SourceId, ChunkBox> = boxes.into_iter().map(|b| (b.source_id, b)).collect();
    for run in list.chunk_by(|a, b| a.0 == b.0) {
        let id = ids.of(store, run[0].0)?;
        let origin = boxes.get(&id);
        if origin.is_none() {
            let places: Vec<u64> = run.iter().map(|(_, r)| r.place).collect();
            placements.extend(pieces(&places, &counts).iter().map(|b| place(b, false, id)));
        }
        let mut put = |key: &mut [u64], data: RowData<'_>| {
            if let Some(origin) = origin {
                key.iter_mut().zip(&origin.lo).for_each(|(k, l)| *k -= l);
            }
            store.put_row(&desc.name, id, key, data, info.filter(|_| !matches!(data, RowData::Absent)))
        };
        // Chunks of the box that are nowhere were never written.
        let holes = origin.filter(|_| grid.len() <= MOST_ABSENT);
        let mut expected = holes.map(|b| b.lo.clone());
        for (_, r) in run {
            while let (Some(next), Some(b)) = (&mut expected, holes)
                && ravel(next, &counts) < r.place
            {
                put(&mut next.clone(), RowData::Absent)?;
                if !advance(next, b) {
                    expected = None;
                }
            }
            if let (Some(next), Some(b)) = (&mut expected, holes)
                && !advance(next, b)
            {
                expected = None;
            }
            unravel(r.place, &counts, &mut key);
            let data = match r.source {
                INLINE => RowData::Inline(&array.references.inline[r.offset as usize]),
                ABSENT => RowData::Absent,
                _ => RowData::Range { offset: r.offset, size: r.size },
            };
            match data {
                RowData::Range { .. } => written.ranges += 1,
                RowData::Inline(_) => written.inline += 1,
                RowData::Absent => {}
            }
            put(&mut key, data)?;
        }
        while let (Some(next), Some(b)) = (&mut expected, holes) {
            put(&mut next.clone(), RowData::Absent)?;
            if !advance(next, b) {
                expected = None;
            }
        }
    }
    store.set_placements(&desc.name, &placements)
}

/// The next key of a box in C order; false after the last.
fn advance(key: &mut [u64], b: &ChunkBox) -> bool {
    for axis in (0..key.len()).rev() {
        key[axis] += 1;
        if key[axis] < b.hi[axis] {
            return true;
        }
        key[axis] = b.lo[axis];
    }
    false
}

/// Boxes that together are these chunks, given in C order.
fn pieces(places: &[u64], counts: &[u64]) -> Vec<Corners> {
    let mut boxes: Vec<Corners> = places
        .iter()
        .map(|place| {
            let mut lo = vec![0; counts.len()];
            unravel(*place, counts, &mut lo);
            let hi = lo.iter().map(|k| k + 1).collect();
            (lo, hi)
        })
        .collect();
    for axis in (0..counts.len()).rev() {
        // Those that are alike along all other axes come one after the other.
        let others = |b: &Corners| -> Vec<(u64, u64)> {
            (0..counts.len()).filter(|a| *a != axis).map(|a| (b.0[a], b.1[a])).collect()
        };
        boxes.sort_by_cached_key(|b| (others(b), b.0[axis]));
        let mut joined: Vec<Corners> = Vec::new();
        for b in boxes {
            match joined.last_mut() {
                Some(last) if last.1[axis] == b.0[axis] && others(last) == others(&b) => last.1[axis] = b.1[axis],
                _ => joined.push(b),
            }
        }
        boxes = joined;
    }
    boxes
}

/// The error for a collection without an array.
///
/// # Errors
/// [`Error::Plan`] with the list of what is lost, if nothing is left.
pub fn check_not_empty(path: &str, all: &Collection) -> Result<()> {
    if !all.arrays.is_empty() {
        return Ok(());
    }
    Err(Error::Plan(format!("{path}: there is no array that a store can hold:\n  {}", all.lost.join("\n  "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_of_chunks() {
        // An L: a row of four, and two below its left end.
        assert_eq!(pieces(&[0, 1, 2, 3, 4, 5], &[2, 4]).len(), 2);
        assert_eq!(pieces(&(0..8).collect::<Vec<_>>(), &[2, 4]), [(vec![0, 0], vec![2, 4])]);
        assert_eq!(pieces(&[1, 2, 5, 6], &[2, 4]), [(vec![0, 1], vec![2, 3])]);
        assert_eq!(pieces(&[0, 5], &[2, 4]).len(), 2);
    }
}
