//! Which chunks a window meets, and where.

use crate::{Error, Result};
use std::ops::Range;

/// One axis of a window: elements `start`, `start + step`, …, `count` of them. `count` is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub start: u64,
    pub count: u64,
    pub step: u64,
}

/// A window of an array: what to read, walked forwards along every axis.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub axes: Vec<Axis>,
    /// Axes that the caller walks backwards: the first element of [`Axis`] is the caller's last.
    pub flipped: Vec<bool>,
}

/// What a window takes from the chunks at one place along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Place in the chunk grid.
    pub chunk: u64,
    /// Place in the window of the first element.
    pub first: u64,
    /// Number of elements.
    pub count: u64,
    /// Place in the chunk of the first element.
    pub offset: u64,
    /// Distance in the chunk of two elements.
    pub step: u64,
}

impl Window {
    /// The window of an array of that shape, or None if it is empty. `step` None: 1 along every axis.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not inside the array.
    pub fn new(
        array: &str,
        shape: &[u64],
        start: &[u64],
        count: &[u64],
        step: Option<&[i64]>,
    ) -> Result<Option<Window>> {
        let rank = shape.len();
        if start.len() != rank || count.len() != rank || step.is_some_and(|s| s.len() != rank) {
            return Err(Error::Invalid(format!(
                "array \"{array}\" has {rank} dimensions, the window start {start:?}, count {count:?}, step {step:?}"
            )));
        }
        if count.contains(&0) {
            return Ok(None);
        }
        let mut window = Window { axes: Vec::with_capacity(rank), flipped: Vec::with_capacity(rank) };
        for axis in 0..rank {
            let (first, n) = (start[axis], count[axis]);
            // A single element has no step.
            let step = if n == 1 { 1 } else { step.map_or(1, |s| s[axis]) };
            let last = i128::from(first) + i128::from(n - 1) * i128::from(step);
            if first >= shape[axis] || last < 0 || last >= i128::from(shape[axis]) {
                return Err(Error::Invalid(format!(
                    "array \"{array}\": a window that starts at {start:?}, of {count:?} elements, step {step} along \
                     dimension {axis}, reaches beyond the shape {shape:?}"
                )));
            }
            let start = if step < 0 { last as u64 } else { first };
            window.axes.push(Axis { start, count: n, step: step.unsigned_abs() });
            window.flipped.push(step < 0);
        }
        Ok(Some(window))
    }

    /// The chunks it meets, axis by axis.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are more than memory holds.
    pub fn hits(&self, chunks: &[u64]) -> Result<Vec<Vec<Hit>>> {
        self.axes.iter().zip(chunks).map(|(axis, chunk)| axis.hits(*chunk)).collect()
    }
}

impl Axis {
    fn hits(&self, chunk: u64) -> Result<Vec<Hit>> {
        let mut hits = Vec::new();
        let mut first = 0;
        while first < self.count {
            let at = self.start + first * self.step;
            let offset = at % chunk;
            let left = self.count - first;
            let count = match self.step {
                0 => left,
                step => left.min((chunk - offset - 1) / step + 1),
            };
            hits.try_reserve(1).map_err(|_| Error::Invalid("no memory for the list of chunks".into()))?;
            hits.push(Hit { chunk: at / chunk, first, count, offset, step: self.step });
            first += count;
        }
        Ok(hits)
    }
}

/// References that are asked for at a time.
const SLAB: u64 = 1 << 18;

/// Cuts the chunks of a window into boxes, each with a bounded number of references; in C order. A box is a range of
/// hits along every axis. Where a step leaps over most chunks, boxes leave most of them out.
pub(super) fn slabs(hits: &[Vec<Hit>]) -> Vec<Vec<Range<usize>>> {
    let mut slabs = Vec::new();
    let mut todo = vec![hits.iter().map(|h| 0..h.len()).collect::<Vec<_>>()];
    while let Some(ranges) = todo.pop() {
        let volume = ranges.iter().zip(hits).fold(1u64, |n, (range, hits)| match hits.get(range.clone()) {
            Some([first, .., last]) => n.saturating_mul(last.chunk - first.chunk + 1),
            _ => n,
        });
        let axis = ranges.iter().position(|r| r.len() > 1);
        match axis {
            Some(axis) if volume > SLAB => {
                let middle = ranges[axis].start + ranges[axis].len() / 2;
                let mut upper = ranges.clone();
                upper[axis].start = middle;
                let mut lower = ranges;
                lower[axis].end = middle;
                todo.push(upper);
                todo.push(lower);
            }
            _ => slabs.push(ranges),
        }
    }
    slabs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_hit_once() {
        for shape in [1u64, 5, 12] {
            for chunk in [1, 2, 5, 7, 100] {
                for start in 0..shape {
                    for step in -4..=4i64 {
                        for count in 1..=shape {
                            let last = start as i64 + (count as i64 - 1) * step;
                            let window = Window::new("a", &[shape], &[start], &[count], Some(&[step]));
                            if count > 1 && (last < 0 || last >= shape as i64) {
                                assert!(window.is_err());
                                continue;
                            }
                            let window = window.unwrap().unwrap();
                            let mut seen = Vec::new();
                            for hit in &window.hits(&[chunk]).unwrap()[0] {
                                assert_eq!(hit.first as usize, seen.len());
                                for i in 0..hit.count {
                                    assert!(hit.offset + i * hit.step < chunk);
                                    seen.push(hit.chunk * chunk + hit.offset + i * hit.step);
                                }
                            }
                            if window.flipped[0] {
                                seen.reverse();
                            }
                            let step = if count == 1 { 1 } else { step };
                            let expected: Vec<u64> =
                                (0..count as i64).map(|i| (start as i64 + i * step) as u64).collect();
                            assert_eq!(seen, expected);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_outside_is_refused() {
        let window = |start, count, step| Window::new("a", &[10], &[start], &[count], Some(&[step]));
        assert!(window(10, 0, 1).unwrap().is_none());
        for (start, count, step) in
            [(10, 1, 1), (0, 11, 1), (5, 6, 1), (4, 2, -5), (u64::MAX, 1, 1), (0, u64::MAX, i64::MAX), (9, 2, i64::MIN)]
        {
            assert!(window(start, count, step).is_err(), "{start} {count} {step}");
        }
        assert!(Window::new("a", &[10], &[], &[], None).is_err());
        assert_eq!(Window::new("a", &[], &[], &[], None).unwrap().unwrap().axes.len(), 0);
    }

    #[test]
    fn slabs_cover_all_hits_in_order() {
        let axis = |count, step| Axis { start: 0, count, step };
        let hits = vec![axis(5, 1).hits(1).unwrap(), axis(100_000, 1).hits(1).unwrap()];
        let slabs = slabs(&hits);
        assert!(slabs.len() >= 2);
        let mut seen = Vec::new();
        for s in &slabs {
            let n = s.iter().map(|r| r.len()).product::<usize>();
            assert!(n as u64 <= SLAB);
            seen.extend(s[0].clone().flat_map(|i| s[1].clone().map(move |j| i * 100_000 + j)));
        }
        assert_eq!(seen, (0..500_000).collect::<Vec<_>>());
        // 10 chunks, a million apart
        let sparse = vec![axis(10, 1_000_000).hits(1).unwrap()];
        assert_eq!(super::slabs(&sparse).len(), 10);
        assert_eq!(super::slabs(&[]), [Vec::new()]);
    }
}
