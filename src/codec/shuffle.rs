//! Bytes of elements sorted by their place in the element.
//!
//! - Specification: HDF5 filter 2 (`H5Zshuffle.c`): first the first bytes of all elements, then the second bytes …;
//!   bytes after the last whole element stay where they are.
//! - Id: `shuffle` (numcodecs).
//! - JSON: `{"id": "shuffle", "elementsize": 2}`, in bytes (default 4, as numcodecs'). 0 and 1 change nothing.

use super::config::{Codec, Config, codec_error};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "shuffle";

#[derive(Debug)]
pub(super) struct Shuffle {
    element_size: usize,
}

impl Shuffle {
    pub fn new(config: &Config<'_>) -> Result<Shuffle> {
        let size = config.int("elementsize", 4)?;
        let element_size =
            usize::try_from(size).map_err(|_| config.error(&format!("elementsize {size} is negative")))?;
        Ok(Shuffle { element_size: element_size.max(1) })
    }
}

impl Codec for Shuffle {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        if input.len() != out.len() {
            return Err(codec_error(ID, format!("{} bytes where {} were expected", input.len(), out.len())));
        }
        unshuffle(input, self.element_size, out);
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], _limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        out.resize(input.len(), 0);
        unshuffle(input, self.element_size, out);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        Ok(shuffle(input, self.element_size))
    }
}

/// Elements that are put together at a time, so that what is between stays in the first cache.
const BLOCK: usize = 1024;

/// Puts `out` (as long as `input`) back in order.
pub(super) fn unshuffle(input: &[u8], size: usize, out: &mut [u8]) {
    let count = input.len() / size.max(1);
    if size < 2 || count < 2 {
        out.copy_from_slice(input);
        return;
    }
    let whole = count * size;
    out[whole..].copy_from_slice(&input[whole..]);
    let planes: Vec<&[u8]> = input[..whole].chunks_exact(count).collect();
    let out = &mut out[..whole];
    match planes.as_slice() {
        [a, b] => interleave::<1>(a, b, out),
        [a, b, c, d] => {
            let (mut low, mut high) = ([0; 2 * BLOCK], [0; 2 * BLOCK]);
            for (i, out) in out.chunks_mut(4 * BLOCK).enumerate() {
                let (n, at) = (out.len() / 4, i * BLOCK);
                interleave::<1>(&a[at..at + n], &b[at..at + n], &mut low[..2 * n]);
                interleave::<1>(&c[at..at + n], &d[at..at + n], &mut high[..2 * n]);
                interleave::<2>(&low[..2 * n], &high[..2 * n], out);
            }
        }
        [a, b, c, d, e, f, g, h] => {
            let mut pairs = [[0; 2 * BLOCK]; 4];
            let mut fours = [[0; 4 * BLOCK]; 2];
            for (i, out) in out.chunks_mut(8 * BLOCK).enumerate() {
                let (n, at) = (out.len() / 8, i * BLOCK);
                for (pair, (x, y)) in pairs.iter_mut().zip([(a, b), (c, d), (e, f), (g, h)]) {
                    interleave::<1>(&x[at..at + n], &y[at..at + n], &mut pair[..2 * n]);
                }
                for (four, pair) in fours.iter_mut().zip(pairs.chunks_exact(2)) {
                    interleave::<2>(&pair[0][..2 * n], &pair[1][..2 * n], &mut four[..4 * n]);
                }
                interleave::<4>(&fours[0][..4 * n], &fours[1][..4 * n], out);
            }
        }
        _ => {
            for (k, plane) in planes.iter().enumerate() {
                for (element, byte) in out.chunks_exact_mut(size).zip(*plane) {
                    element[k] = *byte;
                }
            }
        }
    }
}

/// `W` bytes of `a`, `W` of `b`, and so on.
fn interleave<const W: usize>(a: &[u8], b: &[u8], out: &mut [u8]) {
    for ((out, a), b) in out.chunks_exact_mut(2 * W).zip(a.chunks_exact(W)).zip(b.chunks_exact(W)) {
        out[..W].copy_from_slice(a);
        out[W..].copy_from_slice(b);
    }
}

/// Shuffles.
pub(super) fn shuffle(data: &[u8], size: usize) -> Vec<u8> {
    let count = data.len() / size.max(1);
    if size < 2 || count < 2 {
        return data.to_vec();
    }
    let whole = count * size;
    let mut out = Vec::with_capacity(data.len());
    for k in 0..size {
        out.extend(data[..whole].iter().skip(k).step_by(size));
    }
    out.extend_from_slice(&data[whole..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_size() {
        for size in [1, 2, 3, 4, 5, 8, 12, 16] {
            for length in [0, 1, size, 2 * size + 1, 5000 * size, 5000 * size + size - 1] {
                let data: Vec<u8> = (0..length).map(|i| (i * 31 % 256) as u8).collect();
                // byte j of element i is at j * count + i
                let count = length / size;
                let mut shuffled = data.clone();
                for i in 0..count {
                    for j in 0..size {
                        shuffled[j * count + i] = data[i * size + j];
                    }
                }
                assert_eq!(shuffle(&data, size), shuffled, "{size} {length}");
                let mut out = vec![0; length];
                unshuffle(&shuffled, size, &mut out);
                assert_eq!(out, data, "{size} {length}");
            }
        }
    }
}
