//! LZF, h5py's own filter.
//!
//! - Specification: liblzf's format, as in h5py's `lzf/README.txt` and `lzf_d.c`. A byte below 32: that many and one more
//!   plain bytes follow. Else its upper three bits are a length (7: the next byte is added) and its lower five with the next
//!   byte a distance; length + 2 bytes are repeated from distance + 1 before.
//! - Id: `hdf5` with filter 32000. Parameters: version, liblzf's version, bytes of a chunk.

use super::config::{Codec, codec_error, sized};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "lzf";

#[derive(Debug)]
pub(super) struct Lzf;

/// Decodes as far as `out` reaches; returns the bytes written, or None if there would be more.
fn decompress(input: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    let damaged = || codec_error(ID, format!("the {} bytes are damaged", input.len()));
    let (mut at, mut to) = (0, 0);
    while let Some(&control) = input.get(at) {
        at += 1;
        if control < 32 {
            let length = usize::from(control) + 1;
            let bytes = input.get(at..at + length).ok_or_else(damaged)?;
            let Some(place) = out.get_mut(to..to + length) else { return Ok(None) };
            place.copy_from_slice(bytes);
            (at, to) = (at + length, to + length);
            continue;
        }
        let mut length = usize::from(control >> 5);
        if length == 7 {
            length += usize::from(*input.get(at).ok_or_else(damaged)?);
            at += 1;
        }
        let low = usize::from(*input.get(at).ok_or_else(damaged)?);
        at += 1;
        let distance = (usize::from(control & 0x1f) << 8 | low) + 1;
        if distance > to {
            return Err(damaged());
        }
        if to + length + 2 > out.len() {
            return Ok(None);
        }
        repeat(out, to, distance, length + 2);
        to += length + 2;
    }
    Ok(Some(to))
}

/// Writes `length` bytes at `to` that repeat what is `distance` before; the caller has checked both.
pub(super) fn repeat(out: &mut [u8], to: usize, distance: usize, length: usize) {
    if distance >= length {
        out.copy_within(to - distance..to - distance + length, to);
    } else {
        for i in to..to + length {
            out[i] = out[i - distance];
        }
    }
}

impl Codec for Lzf {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        match decompress(input, out)? {
            Some(n) if n == out.len() => Ok(()),
            Some(n) => Err(codec_error(ID, format!("decodes to {n} bytes where {} were expected", out.len()))),
            None => Err(codec_error(ID, format!("decodes to more than the {} bytes expected", out.len()))),
        }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        // Three bytes make at most 264.
        let limit = limit.min(input.len().saturating_mul(88));
        match decompress(input, sized(out, limit)?)? {
            Some(n) => {
                out.truncate(n);
                Ok(())
            }
            None => Err(codec_error(ID, format!("decodes to more than {limit} bytes"))),
        }
    }

    /// Plain runs alone: right, if not small. The one use is a chunk that skipped the filter, because it did not shrink.
    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(input.len() + input.len() / 32 + 1);
        for run in input.chunks(32) {
            out.push(run.len() as u8 - 1);
            out.extend_from_slice(run);
        }
        Ok(out)
    }
}
