//! Bits of elements sorted by their place in the element, in blocks, maybe compressed.
//!
//! - Specification: <https://github.com/kiyo-masui/bitshuffle> (`bshuf_h5filter.c`, `bitshuffle_core.c`). A block is a
//!   multiple of 8 elements; what is left after the last whole 8 elements is plain. Compressed: decoded size, 8 bytes, and
//!   bytes of a block, 4 bytes, big-endian; then each block after its encoded size, 4 bytes big-endian.
//! - Id: `hdf5` with filter 32008. Parameters: major and minor version, bytes of an element, elements of a block (0:
//!   chosen), compression (0 none, 2 LZ4, 3 Zstandard), its level.

use super::config::{Codec, codec_error, sized};
use super::pipeline::Tools;
use super::{lz4, zstd};
use crate::Result;

const ID: &str = "bitshuffle";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    Nothing,
    Lz4,
    Zstd,
}

#[derive(Debug)]
pub(super) struct Bitshuffle {
    size: usize,
    /// Elements of a block.
    block: usize,
    inner: Inner,
    level: i32,
}

impl Bitshuffle {
    /// HDF5's filter with its parameters.
    pub fn hdf5(parameters: &[u32]) -> Result<Bitshuffle> {
        let at = |i: usize| parameters.get(i).copied().unwrap_or(0);
        let inner = match at(4) {
            0 => Inner::Nothing,
            2 => Inner::Lz4,
            3 => Inner::Zstd,
            other => return Err(codec_error(ID, format!("compression {other} is not supported"))),
        };
        let size = (at(2) as usize).max(1);
        let block = at(3) as usize;
        if !block.is_multiple_of(8) {
            return Err(codec_error(ID, format!("a block of {block} elements is not a multiple of 8")));
        }
        let block = if block == 0 { (8192 / size / 8 * 8).max(128) } else { block };
        Ok(Bitshuffle { size, block, inner, level: at(5) as i32 })
    }

    /// Bytes of the blocks that `bytes` decoded bytes are in, and of the plain ones after them.
    fn blocks(&self, bytes: usize, block: usize) -> (Vec<usize>, usize) {
        let eight = self.size * 8;
        let whole = bytes / eight * eight;
        let mut list = vec![block; whole / block.max(1)];
        let last = whole - list.len() * block;
        list.extend((last > 0).then_some(last));
        (list, bytes - whole)
    }
}

/// Bits of `input` (elements of `size` bytes, 8 of them or a multiple) back in their elements.
pub(super) fn unshuffle_bits(input: &[u8], size: usize, out: &mut [u8]) {
    let rows = input.len() / size / 8;
    for byte in 0..size {
        for row in 0..rows {
            let mut bits = [0; 8];
            for (k, b) in bits.iter_mut().enumerate() {
                *b = input[(byte * 8 + k) * rows + row];
            }
            for (i, b) in transpose(u64::from_le_bytes(bits)).to_le_bytes().into_iter().enumerate() {
                out[(row * 8 + i) * size + byte] = b;
            }
        }
    }
}

/// The reverse of [`unshuffle_bits`].
fn shuffle_bits(input: &[u8], size: usize, out: &mut [u8]) {
    let rows = input.len() / size / 8;
    for byte in 0..size {
        for row in 0..rows {
            let mut bytes = [0; 8];
            for (i, b) in bytes.iter_mut().enumerate() {
                *b = input[(row * 8 + i) * size + byte];
            }
            for (k, b) in transpose(u64::from_le_bytes(bytes)).to_le_bytes().into_iter().enumerate() {
                out[(byte * 8 + k) * rows + row] = b;
            }
        }
    }
}

/// Eight bytes as a matrix of bits, its rows and columns exchanged.
fn transpose(mut x: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let moved = (x ^ (x >> shift)) & mask;
        x ^= moved ^ (moved << shift);
    }
    x
}

impl Codec for Bitshuffle {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        (self.inner == Inner::Nothing).then_some(decoded)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
        let short = || codec_error(ID, "its bytes end too early");
        let (mut rest, mut block) = (input, self.block.saturating_mul(self.size));
        if self.inner != Inner::Nothing {
            let (size, after) = input.split_first_chunk::<8>().ok_or_else(short)?;
            let size = u64::from_be_bytes(*size);
            if size != out.len() as u64 {
                return Err(codec_error(ID, format!("decodes to {size} bytes where {} were expected", out.len())));
            }
            (block, rest) = lz4::number(after)?;
            if block == 0 || !block.is_multiple_of(self.size * 8) {
                return Err(codec_error(ID, format!("a block of {block} bytes is not of whole elements")));
            }
        } else if input.len() != out.len() {
            return Err(codec_error(ID, format!("{} bytes where {} were expected", input.len(), out.len())));
        }
        let (list, plain) = self.blocks(out.len(), block);
        let mut scratch = vec![0; if self.inner == Inner::Nothing { 0 } else { block.min(out.len()) }];
        let mut at = 0;
        for length in list {
            let place = &mut out[at..at + length];
            at += length;
            let stored = if self.inner == Inner::Nothing {
                length
            } else {
                let (stored, after) = lz4::number(rest)?;
                rest = after;
                stored
            };
            let (bytes, after) = rest.split_at_checked(stored).ok_or_else(short)?;
            rest = after;
            let bits = match self.inner {
                Inner::Nothing => bytes,
                Inner::Lz4 => {
                    lz4::block(bytes, &mut scratch[..length])?;
                    &scratch[..length]
                }
                Inner::Zstd => {
                    if zstd::decompress(bytes, &mut scratch[..length], tools)? != length {
                        return Err(codec_error(ID, "a block decodes to too few bytes"));
                    }
                    &scratch[..length]
                }
            };
            unshuffle_bits(bits, self.size, place);
        }
        if rest.len() != plain {
            return Err(codec_error(ID, format!("{} bytes at the end where {plain} were expected", rest.len())));
        }
        out[at..].copy_from_slice(rest);
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let size = match (self.inner, input.first_chunk::<8>()) {
            (Inner::Nothing, _) => input.len(),
            (_, Some(size)) => usize::try_from(u64::from_be_bytes(*size)).unwrap_or(usize::MAX),
            (_, None) => return Err(codec_error(ID, "its bytes end too early")),
        };
        if size > limit {
            return Err(codec_error(ID, format!("decodes to more than {limit} bytes")));
        }
        self.decode(input, sized(out, size)?, tools)?;
        out.truncate(size);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let large = || codec_error(ID, format!("{} bytes are too many", input.len()));
        let block = self.block.saturating_mul(self.size);
        let mut out = Vec::new();
        if self.inner != Inner::Nothing {
            out.extend((input.len() as u64).to_be_bytes());
            out.extend(u32::try_from(block).map_err(|_| large())?.to_be_bytes());
        }
        let (list, plain) = self.blocks(input.len(), block);
        let mut at = 0;
        for length in list {
            let mut bits = vec![0; length];
            shuffle_bits(&input[at..at + length], self.size, &mut bits);
            at += length;
            let packed = match self.inner {
                Inner::Nothing => {
                    out.extend(bits);
                    continue;
                }
                Inner::Lz4 => lz4_flex::block::compress(&bits),
                Inner::Zstd => ::zstd::bulk::compress(&bits, self.level).map_err(|e| codec_error(ID, e.to_string()))?,
            };
            out.extend(u32::try_from(packed.len()).map_err(|_| large())?.to_be_bytes());
            out.extend(packed);
        }
        out.extend(&input[input.len() - plain..]);
        Ok(out)
    }
}
