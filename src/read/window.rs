//! Windows: which chunks they meet, and which elements of each.

use super::scatter::Run;
use crate::{Error, Result};

/// start, start + step, … along each axis, checked against the array's shape.
#[derive(Clone, Debug)]
pub struct Window {
    start: Vec<u64>,
    count: Vec<u64>,
    step: Vec<i64>,
}

impl Window {
    /// A window of an array of shape `shape`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it reaches beyond the array.
    pub fn new(array: &str, shape: &[u64], start: &[u64], count: &[u64], step: &[i64]) -> Result<Window> {
        let rank = shape.len();
        if start.len() != rank || count.len() != rank || step.len() != rank {
            return Err(Error::Invalid(format!("array \"{array}\" has {rank} dimensions")));
        }
        if !count.contains(&0) {
            for axis in 0..rank {
                let last = i128::from(start[axis]) + i128::from(step[axis]) * i128::from(count[axis] - 1);
                if start[axis] >= shape[axis] || last < 0 || last >= i128::from(shape[axis]) {
                    return Err(Error::Invalid(format!(
                        "array \"{array}\": {} elements from {} by {} reach beyond dimension {axis} of {}",
                        count[axis], start[axis], step[axis], shape[axis]
                    )));
                }
            }
        }
        Ok(Window { start: start.into(), count: count.into(), step: step.into() })
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    /// First and last chunk, inclusive and exclusive, along each axis.
    pub fn chunk_box(&self, chunks: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let ends = |axis: usize| {
            let last = (self.start[axis] as i128 + self.step[axis] as i128 * (self.count[axis] as i128 - 1)) as u64;
            (self.start[axis].min(last), self.start[axis].max(last))
        };
        (0..chunks.len()).map(|a| (ends(a).0 / chunks[a], ends(a).1 / chunks[a] + 1)).unzip()
    }

    /// The elements that chunk `key` holds; None if it holds none.
    pub fn runs(&self, key: &[u64], chunks: &[u64]) -> Option<Vec<Run>> {
        (0..key.len())
            .map(|axis| {
                let low = i128::from(key[axis]) * i128::from(chunks[axis]);
                let high = low + i128::from(chunks[axis]);
                let (start, count, step) =
                    (i128::from(self.start[axis]), i128::from(self.count[axis]), i128::from(self.step[axis]));
                let (first, end) = match step {
                    0 if (low..high).contains(&start) => (0, count),
                    0 => (0, 0),
                    s if s > 0 => {
                        ((low - start + s - 1).div_euclid(s).max(0), ((high - start + s - 1).div_euclid(s)).min(count))
                    }
                    s => {
                        let s = -s;
                        (
                            (start - high + s).div_euclid(s).max(0),
                            (start - low).div_euclid(s).saturating_add(1).min(count),
                        )
                    }
                };
                (first < end).then(|| Run {
                    from: (start + step * first - low) as usize,
                    step: step as isize,
                    count: (end - first) as usize,
                    to: first as usize,
                })
            })
            .collect()
    }

    /// The index in the array of element `i` of the window along `axis`.
    pub fn index(&self, axis: usize, i: u64) -> u64 {
        (i128::from(self.start[axis]) + i128::from(self.step[axis]) * i128::from(i)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_window_once() {
        for shape in [1u64, 7, 10] {
            for chunk in 1..=shape + 1 {
                for start in 0..shape {
                    for step in -4i64..=4 {
                        for count in 1..=5u64 {
                            let Ok(w) = Window::new("a", &[shape], &[start], &[count], &[step]) else { continue };
                            let (lo, hi) = w.chunk_box(&[chunk]);
                            let mut seen = vec![None; count as usize];
                            for key in lo[0]..hi[0] {
                                let Some(runs) = w.runs(&[key], &[chunk]) else { continue };
                                let run = runs[0];
                                for i in 0..run.count {
                                    let inside = run.from as i64 + run.step as i64 * i as i64;
                                    assert!((0..chunk as i64).contains(&inside));
                                    let index = key as i64 * chunk as i64 + inside;
                                    assert!(seen[run.to + i].replace(index).is_none());
                                }
                            }
                            let want: Vec<_> = (0..count as i64).map(|i| Some(start as i64 + i * step)).collect();
                            assert_eq!(seen, want, "{shape} {chunk} {start} {step} {count}");
                        }
                    }
                }
            }
        }
        assert!(Window::new("a", &[5], &[3], &[3], &[1]).is_err());
        assert!(Window::new("a", &[5], &[1], &[3], &[-1]).is_err());
        assert!(Window::new("a", &[0], &[0], &[0], &[1]).unwrap().is_empty());
    }
}
