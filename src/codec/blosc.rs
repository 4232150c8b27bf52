//! Blosc 1: blocks of shuffled elements, compressed by one of five codecs.
//!
//! - Specification: <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>. A header of 16 bytes (versions,
//!   flags, bytes of an element, decoded bytes, bytes of a block, encoded bytes), the place of each block, the blocks. A block
//!   is one stream or, split, one for each byte of an element; a stream is its size and its bytes, which are plain where they
//!   are as many as decoded.
//! - Ids: `blosc` (numcodecs), which is what HDF5 filter 32001 writes.
//! - JSON: `{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}`: all of it matters for encoding
//!   alone. Encoding is not compressed: a Blosc chunk may be stored as it is.

use super::bitshuffle::unshuffle_bits;
use super::config::{Codec, codec_error, sized};
use super::pipeline::Tools;
use super::shuffle::unshuffle;
use super::{lz4, lzf, zstd};
use crate::Result;

const ID: &str = "blosc";
/// Bytes of the header.
const HEADER: usize = 16;
/// Bits of the flags.
const SHUFFLED: u8 = 1;
const PLAIN: u8 = 2;
const BITSHUFFLED: u8 = 4;
const NOT_SPLIT: u8 = 0x10;
/// A block is split for elements of at most this many bytes, and into streams of at least so many.
const MOST_SPLITS: usize = 16;
const LEAST_STREAM: usize = 128;

#[derive(Debug)]
pub(super) struct Blosc;

struct Header {
    flags: u8,
    element: usize,
    decoded: usize,
    block: usize,
}

fn header(input: &[u8]) -> Result<Header> {
    let Some(head) = input.first_chunk::<HEADER>() else {
        return Err(codec_error(ID, format!("{} bytes are too few for a header", input.len())));
    };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let (decoded, block, encoded) = (number(4), number(8), number(12));
    if !(1..=2).contains(&head[0]) || encoded != input.len() || block == 0 && decoded != 0 || decoded > 1 << 31 {
        return Err(codec_error(ID, format!("the {} bytes are not one Blosc 1 chunk", input.len())));
    }
    Ok(Header { flags: head[2], element: usize::from(head[3]).max(1), decoded, block })
}

fn stream(codec: u8, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
    let wanted = out.len();
    let written = match codec {
        0 => blosclz(input, out)?,
        1 => return lz4::block(input, out),
        2 => snap::raw::Decoder::new().decompress(input, out).map_err(|e| codec_error(ID, e.to_string()))?,
        3 => tools.inflater().zlib_decompress(input, out).map_err(|e| codec_error(ID, e.to_string()))?,
        4 => zstd::decompress(input, out, tools)?,
        other => return Err(codec_error(ID, format!("its codec {other} is not supported"))),
    };
    if written == wanted {
        Ok(())
    } else {
        Err(codec_error(ID, format!("{written} bytes where {wanted} were expected")))
    }
}

/// BloscLZ, after FastLZ: bytes below 32 begin plain runs; else three bits of length, 13 of distance, or 16 more.
fn blosclz(input: &[u8], out: &mut [u8]) -> Result<usize> {
    const FAR: usize = 8191;
    let damaged = || codec_error(ID, "a BloscLZ stream is damaged");
    let mut at = 0;
    let next = |at: &mut usize| {
        let byte = input.get(*at).copied().map(usize::from).ok_or_else(damaged);
        *at += 1;
        byte
    };
    let mut to = 0;
    let mut control = next(&mut at)? & 31;
    loop {
        if control >= 32 {
            let (mut length, high) = ((control >> 5) - 1, (control & 31) << 8);
            if length == 6 {
                loop {
                    let more = next(&mut at)?;
                    length += more;
                    if more != 255 {
                        break;
                    }
                    if length > out.len() {
                        return Err(damaged());
                    }
                }
            }
            let low = next(&mut at)?;
            let mut distance = high + low + 1;
            if low == 255 && high == 31 << 8 {
                distance = (next(&mut at)? << 8) + next(&mut at)? + FAR + 1;
            }
            length += 3;
            if distance > to || to + length > out.len() {
                return Err(damaged());
            }
            lzf::repeat(out, to, distance, length);
            to += length;
        } else {
            let length = control + 1;
            let bytes = input.get(at..at + length).ok_or_else(damaged)?;
            out.get_mut(to..to + length).ok_or_else(damaged)?.copy_from_slice(bytes);
            (at, to) = (at + length, to + length);
        }
        if at >= input.len() {
            return Ok(to);
        }
        control = next(&mut at)?;
    }
}

impl Codec for Blosc {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
        let Header { flags, element, decoded, block } = header(input)?;
        if decoded != out.len() {
            return Err(codec_error(ID, format!("decodes to {decoded} bytes where {} were expected", out.len())));
        }
        if flags & PLAIN != 0 {
            let bytes = &input[HEADER..];
            if bytes.len() != out.len() {
                return Err(codec_error(ID, format!("{} plain bytes where {decoded} were expected", bytes.len())));
            }
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let damaged = || codec_error(ID, "its blocks are not where they should be");
        let shuffled = flags & SHUFFLED != 0 && element > 1;
        let bits = flags & BITSHUFFLED != 0;
        let mut scratch = vec![0; if shuffled || bits { block.min(decoded) } else { 0 }];
        for (number, place) in out.chunks_mut(block.max(1)).enumerate() {
            let start = HEADER + 4 * number;
            let start = input.get(start..start + 4).ok_or_else(damaged)?;
            let mut at = u32::from_le_bytes([start[0], start[1], start[2], start[3]]) as usize;
            let whole = place.len() == block;
            let split = flags & NOT_SPLIT == 0 && whole && element <= MOST_SPLITS && block / element >= LEAST_STREAM;
            let streams = if split { element } else { 1 };
            let to = if shuffled || bits { &mut scratch[..place.len()] } else { &mut *place };
            if to.len() % streams != 0 {
                return Err(damaged());
            }
            for part in to.chunks_mut((to.len() / streams).max(1)) {
                let size = input.get(at..at.saturating_add(4)).ok_or_else(damaged)?;
                let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
                let bytes = input.get(at + 4..(at + 4).saturating_add(size)).ok_or_else(damaged)?;
                at += 4 + size;
                if size == part.len() {
                    part.copy_from_slice(bytes);
                } else {
                    stream(flags >> 5, bytes, part, tools)?;
                }
            }
            let from = &scratch[..if shuffled || bits { place.len() } else { 0 }];
            if shuffled {
                unshuffle(from, element, place);
            } else if bits {
                let eights = place.len() / element / 8 * 8 * element;
                if place.len() / element % 8 == 0 {
                    unshuffle_bits(&from[..eights], element, &mut place[..eights]);
                    place[eights..].copy_from_slice(&from[eights..]);
                } else {
                    place.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let size = header(input)?.decoded;
        if size > limit {
            return Err(codec_error(ID, format!("decodes to more than {limit} bytes")));
        }
        self.decode(input, sized(out, size)?, tools)?;
        out.truncate(size);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let sizes = u32::try_from(input.len()).ok().zip(u32::try_from(input.len() + HEADER).ok());
        let (size, all) = sizes.ok_or_else(|| codec_error(ID, format!("{} bytes are too many", input.len())))?;
        let mut out = vec![2, 1, PLAIN, 1];
        for number in [size, size.max(1), all] {
            out.extend(number.to_le_bytes());
        }
        out.extend(input);
        Ok(out)
    }
}
