//! The caller's buffer, and the parts of it that chunks fill.
//!
//! The only place of the core with `unsafe`: threads write to disjoint parts of one buffer, with any strides. An
//! [`Output`] is the buffer; [`Output::parts`] cuts it into [`Part`]s, one for each chunk, which are disjoint because
//! their index ranges are; a [`Part`] can be sent to another thread and checks both sides of every copy.

#![allow(unsafe_code)]

use super::Reader;
use super::window::{Hit, Window};
use crate::model::ChunkGrid;
use crate::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// The buffer that a window is read into.
pub(super) struct Output<'a> {
    /// The first element, along every axis walked forwards.
    base: *mut u8,
    counts: Vec<u64>,
    /// Distance in bytes of two elements along each axis.
    strides: Vec<isize>,
    /// Bytes of an element.
    item: usize,
    buffer: PhantomData<&'a mut [u8]>,
}

impl<'a> Output<'a> {
    /// A buffer in C order, exactly as large as the window. `flipped` axes are walked backwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not.
    pub fn new(buffer: &'a mut [u8], window: &Window, item: usize) -> Result<Output<'a>> {
        let counts: Vec<u64> = window.axes.iter().map(|a| a.count).collect();
        let wanted = counts.iter().try_fold(item as u64, |n, c| n.checked_mul(*c));
        if wanted != Some(buffer.len() as u64) {
            return Err(Error::Invalid(format!(
                "a buffer of {} bytes for {counts:?} elements of {item} bytes",
                buffer.len()
            )));
        }
        let strides = c_strides(&counts, item);
        // SAFETY: the window in C order is exactly the buffer, which is borrowed for 'a; C-order strides do not overlap.
        Ok(unsafe { Output::raw(buffer.as_mut_ptr(), counts, strides, item, &window.flipped) })
    }

    /// Any buffer. `base` is the caller's first element.
    ///
    /// # Safety
    /// For 'a, every element of the window (`base` plus any sum of index · stride) can be written, nobody else uses it,
    /// and no two elements overlap.
    unsafe fn raw(
        mut base: *mut u8,
        counts: Vec<u64>,
        mut strides: Vec<isize>,
        item: usize,
        flipped: &[bool],
    ) -> Output<'a> {
        for (axis, flipped) in flipped.iter().enumerate() {
            if *flipped {
                // SAFETY: this is the last element along the axis, inside the window.
                base = unsafe { base.offset((counts[axis] - 1) as isize * strides[axis]) };
                strides[axis] = strides[axis].wrapping_neg();
            }
        }
        Output { base, counts, strides, item, buffer: PhantomData }
    }

    /// The parts for the chunks in a box of hits, in C order of the chunks, with the hits of each.
    ///
    /// # Errors
    /// [`Error::Invalid`] if memory runs out.
    pub fn parts<'b>(&'b mut self, hits: &[Vec<Hit>], ranges: &[Range<usize>]) -> Result<Vec<Part<'b>>> {
        let rank = self.counts.len();
        let lists: Vec<&[Hit]> = hits.iter().zip(ranges).filter_map(|(h, r)| h.get(r.clone())).collect();
        // What makes parts disjoint and inside: along every axis, hits follow each other and end within the window.
        let sound = lists.len() == rank
            && lists.iter().zip(&self.counts).all(|(list, count)| {
                let end = list.last().and_then(|h| h.first.checked_add(h.count));
                let ordered = list.windows(2).all(|w| w[0].first.checked_add(w[0].count) == Some(w[1].first));
                ordered && end.is_some_and(|end| end <= *count)
            });
        if !sound {
            return Err(Error::Invalid("chunks that do not tile the window".into()));
        }
        let total = lists.iter().try_fold(1usize, |n, l| n.checked_mul(l.len()));
        let mut parts = Vec::new();
        total
            .and_then(|n| parts.try_reserve_exact(n).ok())
            .ok_or_else(|| Error::Invalid("no memory for the list of chunks".into()))?;
        for number in 0..total.unwrap_or(0) {
            let mut rest = number;
            let mut spans = vec![Span::default(); rank];
            let mut start = self.base;
            for axis in (0..rank).rev() {
                let hit = &lists[axis][rest % lists[axis].len()];
                rest /= lists[axis].len();
                // SAFETY: the hit's first element is inside the window, checked above.
                start = unsafe { start.offset(hit.first as isize * self.strides[axis]) };
                spans[axis] = Span {
                    chunk: hit.chunk,
                    count: hit.count as usize,
                    offset: hit.offset as usize,
                    step: hit.step as usize,
                };
            }
            parts.push(Part { start, strides: &self.strides, item: self.item, spans });
        }
        Ok(parts)
    }
}

/// Distance in bytes of two elements along each axis of an array in C order.
fn c_strides(counts: &[u64], item: usize) -> Vec<isize> {
    let mut strides = vec![0; counts.len()];
    let mut stride = item as isize;
    for (axis, count) in counts.iter().enumerate().rev() {
        strides[axis] = stride;
        stride = stride.wrapping_mul(*count as isize);
    }
    strides
}

/// What a part takes from its chunk along one axis.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Place in the chunk grid.
    chunk: u64,
    /// Elements.
    count: usize,
    /// Place in the chunk of the first.
    offset: usize,
    /// Distance in the chunk of two.
    step: usize,
}

/// The elements of the window that come from one chunk (or from some of its rows). Nobody else has them.
pub(super) struct Part<'a> {
    start: *mut u8,
    strides: &'a [isize],
    item: usize,
    spans: Vec<Span>,
}

// SAFETY: a part is the only way to its elements, as a `&mut` to them would be.
unsafe impl Send for Part<'_> {}

/// One loop of a copy: iterations, and how far each side moves with each, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loop {
    count: usize,
    from: usize,
    to: isize,
}

impl<'a> Part<'a> {
    /// Place of the chunk in the chunk grid.
    pub fn key(&self) -> Vec<u64> {
        self.spans.iter().map(|s| s.chunk).collect()
    }

    /// Whether it is all of its chunk that lies inside an array of that chunk grid.
    pub fn is_whole(&self, grid: &ChunkGrid) -> bool {
        self.spans.iter().zip(&grid.chunks).zip(&grid.shape).all(|((span, chunk), shape)| {
            let inside = shape.saturating_sub(span.chunk.saturating_mul(*chunk)).min(*chunk);
            span.offset == 0 && span.step == 1 && span.count as u64 == inside
        })
    }

    /// Bytes of the chunk between the first and the last that are taken, ends included. `strides`: distance in bytes of
    /// two elements along each axis of the chunk. None if they are beyond all memory.
    pub fn range(&self, strides: &[usize]) -> Option<Range<usize>> {
        let (mut first, mut last) = (0usize, 0usize);
        for (span, stride) in self.spans.iter().zip(strides) {
            first = first.checked_add(span.offset.checked_mul(*stride)?)?;
            let end = span.offset.checked_add((span.count - 1).checked_mul(span.step)?)?;
            last = last.checked_add(end.checked_mul(*stride)?)?;
        }
        Some(first..last.checked_add(self.item)?)
    }

    /// Loops that visit every element once, the outermost first; as few as can be, those that walk the buffer in small
    /// steps innermost.
    fn loops(&self, strides: &[usize]) -> Vec<Loop> {
        let all = self.spans.iter().zip(strides).zip(self.strides);
        let mut loops: Vec<Loop> = all
            .filter(|((span, _), _)| span.count > 1)
            .map(|((span, stride), to)| Loop { count: span.count, from: span.step.wrapping_mul(*stride), to: *to })
            .collect();
        loops.sort_by_key(|l| std::cmp::Reverse(l.to.unsigned_abs()));
        let mut merged: Vec<Loop> = Vec::with_capacity(loops.len());
        for l in loops {
            match merged.last_mut() {
                Some(outer)
                    if outer.from == l.from.wrapping_mul(l.count)
                        && outer.to == l.to.wrapping_mul(l.count as isize) =>
                {
                    *outer = Loop { count: outer.count * l.count, ..l };
                }
                _ => merged.push(l),
            }
        }
        merged
    }

    /// The part as plain bytes, and where in the chunk they begin, if one run of the chunk's bytes is all of it.
    pub fn as_run(&mut self, strides: &[usize]) -> Option<(usize, &mut [u8])> {
        let item = self.item;
        let run = match *self.loops(strides).as_slice() {
            [] => item,
            [Loop { count, from, to }] if from == item && to == item as isize => count.checked_mul(item)?,
            _ => return None,
        };
        let begin = self.range(strides)?.start;
        // SAFETY: the part's elements are these `run` bytes one after the other, and no one else's.
        Some((begin, unsafe { std::slice::from_raw_parts_mut(self.start, run) }))
    }

    /// Copies from `bytes`, the bytes of the chunk from its byte `skip` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `bytes` does not hold all of the part.
    pub fn copy(&mut self, bytes: &[u8], strides: &[usize], skip: usize) -> Result<()> {
        let from = self
            .range(strides)
            .and_then(|r| bytes.get(r.start.checked_sub(skip)?..r.end.checked_sub(skip)?))
            .ok_or_else(|| Error::Invalid("a chunk smaller than its part of the window".into()))?;
        let loops = self.loops(strides);
        let item = self.item;
        // SAFETY: the loops stay between the first and the last byte of `from`, whose bounds were just checked, and among
        // the part's own elements. The two are of different buffers.
        unsafe {
            match loops.split_last() {
                None => std::ptr::copy_nonoverlapping(from.as_ptr(), self.start, item),
                Some((inner, outer)) if inner.from == item && inner.to == item as isize => {
                    let run = inner.count * item;
                    nest(outer, from.as_ptr(), self.start, &|from, to| std::ptr::copy_nonoverlapping(from, to, run));
                }
                Some((inner, outer)) => match item {
                    1 => nest(outer, from.as_ptr(), self.start, &|from, to| elements::<1>(inner, from, to)),
                    2 => nest(outer, from.as_ptr(), self.start, &|from, to| elements::<2>(inner, from, to)),
                    4 => nest(outer, from.as_ptr(), self.start, &|from, to| elements::<4>(inner, from, to)),
                    8 => nest(outer, from.as_ptr(), self.start, &|from, to| elements::<8>(inner, from, to)),
                    16 => nest(outer, from.as_ptr(), self.start, &|from, to| elements::<16>(inner, from, to)),
                    _ => nest(&loops, from.as_ptr(), self.start, &|from, to| {
                        std::ptr::copy_nonoverlapping(from, to, item);
                    }),
                },
            }
        }
        Ok(())
    }

    /// Fills with `element`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has not the size of an element.
    pub fn fill(&mut self, element: &[u8]) -> Result<()> {
        let item = self.item;
        if element.len() != item {
            return Err(Error::Invalid(format!("a fill of {} bytes for elements of {item} bytes", element.len())));
        }
        // A chunk of no extent: all of the part comes from one element.
        let still = vec![0; self.spans.len()];
        let mut loops = self.loops(&still);
        let inner = loops.pop_if(|l| l.to == item as isize).map_or(1, |l| l.count);
        let pattern = element.repeat(inner.min((1 << 14) / item + 1));
        // SAFETY: the loops stay among the part's own elements; the inner runs are `inner` elements one after the other.
        unsafe {
            nest(&loops, pattern.as_ptr(), self.start, &|from, to| {
                let (mut to, mut left) = (to, inner * item);
                while left > 0 {
                    let n = left.min(pattern.len());
                    std::ptr::copy_nonoverlapping(from, to, n);
                    to = to.add(n);
                    left -= n;
                }
            });
        }
        Ok(())
    }

    /// Cuts the part along its outer axes so that each piece takes at most `limit` bytes of the chunk, from the first to
    /// the last, or is a single row.
    pub fn split(self, strides: &[usize], limit: usize, pieces: &mut Vec<Part<'a>>) {
        let length = |part: &Part<'_>| part.range(strides).map_or(usize::MAX, |r| r.len());
        let mut todo = vec![self];
        while let Some(mut part) = todo.pop() {
            let axis = part.spans.iter().position(|s| s.count > 1);
            match axis {
                // The last axis alone is one row.
                Some(axis) if length(&part) > limit && axis + 1 < part.spans.len() => {
                    let span = part.spans[axis];
                    let first = span.count / 2;
                    let mut spans = part.spans.clone();
                    spans[axis] = Span { count: span.count - first, offset: span.offset + first * span.step, ..span };
                    part.spans[axis].count = first;
                    // SAFETY: `first` is less than the part's count along the axis.
                    let start = unsafe { part.start.offset(first as isize * part.strides[axis]) };
                    todo.push(Part { start, spans, ..part });
                    todo.push(part);
                }
                _ => pieces.push(part),
            }
        }
    }
}

/// Runs `inner` for every iteration of `loops`.
///
/// # Safety
/// What `inner` does with the two pointers must be sound for each iteration.
unsafe fn nest(loops: &[Loop], from: *const u8, to: *mut u8, inner: &impl Fn(*const u8, *mut u8)) {
    match loops.split_first() {
        None => inner(from, to),
        Some((l, loops)) => {
            for i in 0..l.count {
                // SAFETY: inside what the caller promised.
                unsafe { nest(loops, from.add(i * l.from), to.offset(i as isize * l.to), inner) };
            }
        }
    }
}

/// Copies one loop of elements of `N` bytes.
///
/// # Safety
/// Every iteration must be readable on one side and writable on the other.
unsafe fn elements<const N: usize>(l: &Loop, from: *const u8, to: *mut u8) {
    for i in 0..l.count {
        // SAFETY: inside what the caller promised; `[u8; N]` needs no alignment.
        unsafe {
            let element = from.add(i * l.from).cast::<[u8; N]>().read();
            to.offset(i as isize * l.to).cast::<[u8; N]>().write(element);
        }
    }
}

impl Reader {
    /// Reads a window, GDAL's general form: element `i` along an axis of the buffer is element `start + i · step` of the
    /// array. Steps may be 0 or negative. `byte_strides` are distances in bytes in the buffer, of any sign. Elements have
    /// the array's own type in native byte order.
    ///
    /// # Errors
    /// As [`Reader::read`].
    ///
    /// # Safety
    /// For every index inside `count`, `out` plus the sum of index · stride must be writable for the size of an element,
    /// and nobody else may use it until this returns.
    pub unsafe fn read_strided(
        &self,
        array: usize,
        start: &[u64],
        count: &[u64],
        step: &[i64],
        out: *mut u8,
        byte_strides: &[isize],
    ) -> Result<()> {
        let item = self.item_size(array)?;
        let Some(window) = self.window(array, start, count, Some(step))? else { return Ok(()) };
        if byte_strides.len() != count.len() {
            return Err(Error::Invalid(format!("strides {byte_strides:?} for {} dimensions", count.len())));
        }
        if are_disjoint(count, byte_strides, item) {
            // SAFETY: the caller's promise; elements do not overlap.
            let output = unsafe { Output::raw(out, count.to_vec(), byte_strides.to_vec(), item, &window.flipped) };
            return self.read_window(array, &window, output);
        }
        // Elements on top of each other: read apart, then copy, so that threads do not write to one place.
        let size = count.iter().try_fold(item, |n, c| n.checked_mul(usize::try_from(*c).ok()?));
        let mut buffer = Vec::new();
        size.and_then(|n| buffer.try_reserve_exact(n).ok())
            .ok_or_else(|| Error::Invalid(format!("no memory for {count:?} elements")))?;
        buffer.resize(size.unwrap_or(0), 0);
        self.read_window(array, &window, Output::new(&mut buffer, &window, item)?)?;
        let loops: Vec<Loop> = (count.iter().zip(c_strides(count, item)).zip(byte_strides))
            .map(|((count, from), to)| Loop { count: *count as usize, from: from as usize, to: *to })
            .collect();
        // SAFETY: the loops visit the elements of `buffer`, which is in C order, and those of the caller.
        unsafe { nest(&loops, buffer.as_ptr(), out, &|from, to| std::ptr::copy_nonoverlapping(from, to, item)) };
        Ok(())
    }
}

/// Whether elements at these strides surely do not overlap.
fn are_disjoint(count: &[u64], strides: &[isize], item: usize) -> bool {
    let mut axes: Vec<(u128, u128)> = count
        .iter()
        .zip(strides)
        .filter(|(count, _)| **count > 1)
        .map(|(count, stride)| (stride.unsigned_abs() as u128, u128::from(*count)))
        .collect();
    axes.sort_unstable();
    let mut extent = item as u128;
    axes.iter().all(|(stride, count)| {
        let apart = *stride >= extent;
        extent = extent.saturating_add(stride.saturating_mul(count - 1));
        apart
    })
}
