//! Copies of chunks into the caller's buffer. The only `unsafe` outside the plugin: several threads write into one buffer,
//! each its own elements.
#![allow(unsafe_code)]

/// The caller's buffer: where its first element is, and how far apart its elements are.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    base: *mut u8,
    /// Bytes between neighbours along each dimension; may be negative or 0.
    strides: &'a [isize],
    /// Bytes of an element.
    item: usize,
}

// SAFETY: a `Target` is only an address. Writes go through the methods below, whose callers promise that no two threads
// write the same element.
unsafe impl Send for Target<'_> {}
// SAFETY: as above.
unsafe impl Sync for Target<'_> {}

/// Part of a window, along one axis, that one chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First element within the chunk.
    pub from: usize,
    /// Elements from one to the next within the chunk; 0 repeats one.
    pub step: isize,
    /// Number of elements.
    pub count: usize,
    /// First element within the window.
    pub to: usize,
}

impl<'a> Target<'a> {
    /// A buffer.
    ///
    /// # Safety
    /// `base` plus every combination of i · stride, for i below the window's count along each dimension, must be the
    /// address of `item` bytes that may be written, for as long as the target lives; nobody else uses them meanwhile.
    pub unsafe fn new(base: *mut u8, strides: &'a [isize], item: usize) -> Target<'a> {
        Target { base, strides, item }
    }

    /// The address of an element of the window.
    fn address(&self, at: impl Iterator<Item = usize>) -> *mut u8 {
        let offset = at.zip(self.strides).map(|(i, s)| i as isize * s).sum::<isize>();
        self.base.wrapping_offset(offset)
    }

    /// The bytes of the runs as one slice, if they lie one after the other in C order and are the whole chunk.
    ///
    /// # Safety
    /// The runs must lie within the window, and no other thread may use their elements while the slice lives.
    pub unsafe fn whole(&self, runs: &[Run], chunk: &[usize]) -> Option<&'a mut [u8]> {
        let mut size = self.item;
        for axis in (0..runs.len()).rev() {
            let run = &runs[axis];
            let covers = run.from == 0 && run.count == chunk[axis] && (run.step == 1 || run.count == 1);
            if !covers || (run.count > 1 && self.strides[axis] != size as isize) {
                return None;
            }
            size = size.checked_mul(run.count)?;
        }
        // SAFETY: the elements are within the window by the caller's promise, and contiguous by the check above.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address(runs.iter().map(|r| r.to)), size) })
    }

    /// Copies the runs of a chunk (C order, of shape `chunk`) into the window.
    ///
    /// # Panics
    /// If `data` is smaller than the runs need.
    ///
    /// # Safety
    /// The runs must lie within the window, and no other thread may use their elements meanwhile.
    pub unsafe fn copy(&self, runs: &[Run], data: &[u8], chunk: &[usize]) {
        // Bytes from one element to the next in the chunk.
        let mut pitch = vec![self.item as isize; runs.len()];
        for axis in (0..runs.len().saturating_sub(1)).rev() {
            pitch[axis] = pitch[axis + 1] * chunk[axis + 1] as isize;
        }
        let first: isize = runs.iter().zip(&pitch).map(|(r, p)| r.from as isize * p).sum();
        let (mut low, mut high) = (first, first);
        for (run, pitch) in runs.iter().zip(&pitch) {
            let last = run.step * (run.count.max(1) - 1) as isize * pitch;
            low += last.min(0);
            high += last.max(0);
        }
        assert!(low >= 0 && high as usize + self.item <= data.len(), "a chunk is smaller than its shape");
        let steps: Vec<isize> = runs.iter().zip(&pitch).map(|(r, p)| r.step * p).collect();
        // SAFETY: every source offset is between `low` and `high`; the target is the caller's promise.
        unsafe { self.transfer(runs, data.as_ptr().wrapping_offset(first), &steps) }
    }

    /// Writes one element over all of the runs.
    ///
    /// # Panics
    /// If `element` is not one element.
    ///
    /// # Safety
    /// As [`Target::copy`].
    pub unsafe fn fill(&self, runs: &[Run], element: &[u8]) {
        assert!(element.len() == self.item, "a fill value of another size");
        let steps = vec![0; runs.len()];
        // SAFETY: all source offsets are 0, and there is one whole element; the target is the caller's promise.
        unsafe { self.transfer(runs, element.as_ptr(), &steps) }
    }

    /// Copies element by element, or row by row where rows are contiguous on both sides.
    ///
    /// # Safety
    /// `source` plus every combination of i · step, i below the run's count, is a readable element; target as above.
    unsafe fn transfer(&self, runs: &[Run], source: *const u8, steps: &[isize]) {
        if runs.iter().any(|r| r.count == 0) {
            return;
        }
        let target = self.address(runs.iter().map(|r| r.to));
        let item = self.item;
        // Dimensions that are contiguous on both sides are one.
        let mut inner = item;
        let mut outer = runs.len();
        while outer > 0 {
            let axis = outer - 1;
            let contiguous =
                runs[axis].count == 1 || (steps[axis] == inner as isize && self.strides[axis] == inner as isize);
            if !contiguous {
                break;
            }
            inner *= runs[axis].count;
            outer = axis;
        }
        let mut at = vec![0usize; outer];
        loop {
            let offset = |by: &[isize]| at.iter().zip(by).map(|(i, s)| *i as isize * s).sum::<isize>();
            let (from, to) = (source.wrapping_offset(offset(steps)), target.wrapping_offset(offset(self.strides)));
            // The last of the outer dimensions in a tight loop.
            match outer.checked_sub(1) {
                None => {
                    // SAFETY: `inner` bytes are contiguous on both sides, by the check above.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, inner) };
                    return;
                }
                Some(last) => {
                    let (count, step, stride) = (runs[last].count, steps[last], self.strides[last]);
                    // SAFETY: as above, for each element of the row.
                    unsafe {
                        match inner {
                            1 => row::<1>(from, to, count, step, stride),
                            2 => row::<2>(from, to, count, step, stride),
                            4 => row::<4>(from, to, count, step, stride),
                            8 => row::<8>(from, to, count, step, stride),
                            _ => {
                                for i in 0..count as isize {
                                    std::ptr::copy_nonoverlapping(
                                        from.wrapping_offset(i * step),
                                        to.wrapping_offset(i * stride),
                                        inner,
                                    );
                                }
                            }
                        }
                    }
                    let mut axis = last;
                    loop {
                        if axis == 0 {
                            return;
                        }
                        axis -= 1;
                        at[axis] += 1;
                        if at[axis] < runs[axis].count {
                            break;
                        }
                        at[axis] = 0;
                    }
                }
            }
        }
    }
}

/// Copies `count` elements of `N` bytes.
///
/// # Safety
/// Every element is readable at `from` and writable at `to`.
unsafe fn row<const N: usize>(from: *const u8, to: *mut u8, count: usize, step: isize, stride: isize) {
    for i in 0..count as isize {
        // SAFETY: the caller's promise; the array type has no alignment.
        unsafe {
            let element = from.wrapping_offset(i * step).cast::<[u8; N]>().read();
            to.wrapping_offset(i * stride).cast::<[u8; N]>().write(element);
        }
    }
}
