//! LZ4 blocks, as numcodecs frames them and as HDF5 does.
//!
//! - Specification: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>. numcodecs puts the decoded size before
//!   the block, 4 bytes little-endian. HDF5 filter 32004
//!   (<https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md>): decoded size, 8 bytes, and
//!   block size, 4 bytes, big-endian; then for each block its encoded size, 4 bytes big-endian, and its bytes, which are
//!   plain where that size is the block's own.
//! - Ids: `lz4`; `hdf5` with filter 32004.
//! - JSON: `{"id": "lz4", "acceleration": 1}`, which matters for encoding alone.

use super::config::{Codec, codec_error, sized};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "lz4";
/// Bytes of HDF5's blocks, where nothing else is asked for: 1 GB.
const BLOCK: usize = 1 << 30;

/// The framing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lz4 {
    /// As numcodecs.
    Sized,
    /// As HDF5's filter.
    Blocks {
        /// Bytes of a block, for encoding.
        block: usize,
    },
}

impl Lz4 {
    /// HDF5's filter with its parameters.
    pub fn hdf5(parameters: &[u32]) -> Lz4 {
        let block = parameters.first().map_or(0, |b| *b as usize);
        Lz4::Blocks { block: if block == 0 { BLOCK } else { block } }
    }

    /// The decoded size that the bytes claim, and what follows.
    fn header(self, input: &[u8]) -> Result<(usize, &[u8])> {
        let short = || codec_error(ID, format!("{} bytes are too few for a header", input.len()));
        let (size, rest) = match self {
            Lz4::Sized => {
                let (size, rest) = input.split_first_chunk::<4>().ok_or_else(short)?;
                (u64::from(u32::from_le_bytes(*size)), rest)
            }
            Lz4::Blocks { .. } => {
                let (size, rest) = input.split_first_chunk::<8>().ok_or_else(short)?;
                (u64::from_be_bytes(*size), rest)
            }
        };
        Ok((usize::try_from(size).unwrap_or(usize::MAX), rest))
    }
}

/// Decodes one block to exactly `out.len()` bytes.
pub(super) fn block(input: &[u8], out: &mut [u8]) -> Result<()> {
    match lz4_flex::block::decompress_into(input, out) {
        Ok(n) if n == out.len() => Ok(()),
        Ok(n) => Err(codec_error(ID, format!("a block decodes to {n} bytes where {} were expected", out.len()))),
        Err(e) => Err(codec_error(ID, e.to_string())),
    }
}

/// Four bytes, big-endian, and what follows.
pub(super) fn number(input: &[u8]) -> Result<(usize, &[u8])> {
    let (size, rest) = input.split_first_chunk::<4>().ok_or_else(|| codec_error(ID, "its bytes end too early"))?;
    Ok((u32::from_be_bytes(*size) as usize, rest))
}

impl Codec for Lz4 {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let (size, rest) = self.header(input)?;
        if size != out.len() {
            return Err(codec_error(ID, format!("decodes to {size} bytes where {} were expected", out.len())));
        }
        if matches!(self, Lz4::Sized) {
            return block(rest, out);
        }
        let (length, mut rest) = number(rest)?;
        if length == 0 && !out.is_empty() {
            return Err(codec_error(ID, "a block of 0 bytes"));
        }
        for part in out.chunks_mut(length.max(1)) {
            let (encoded, after) = number(rest)?;
            let Some((bytes, after)) = after.split_at_checked(encoded) else {
                return Err(codec_error(ID, format!("a block of {encoded} bytes reaches beyond the chunk")));
            };
            if encoded == part.len() {
                part.copy_from_slice(bytes);
            } else {
                block(bytes, part)?;
            }
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(codec_error(ID, format!("{} bytes too many", rest.len()))) }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let (size, _) = self.header(input)?;
        if size > limit {
            return Err(codec_error(ID, format!("decodes to more than {limit} bytes")));
        }
        self.decode(input, sized(out, size)?, tools)?;
        out.truncate(size);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let large = || codec_error(ID, format!("{} bytes are too many", input.len()));
        match *self {
            Lz4::Sized => {
                let mut out = u32::try_from(input.len()).map_err(|_| large())?.to_le_bytes().to_vec();
                out.extend(lz4_flex::block::compress(input));
                Ok(out)
            }
            Lz4::Blocks { block } => {
                let mut out = (input.len() as u64).to_be_bytes().to_vec();
                let block = block.min(input.len()).max(1);
                out.extend(u32::try_from(block).map_err(|_| large())?.to_be_bytes());
                for part in input.chunks(block) {
                    let packed = lz4_flex::block::compress(part);
                    let bytes = if packed.len() < part.len() { &packed } else { part };
                    out.extend(u32::try_from(bytes.len()).map_err(|_| large())?.to_be_bytes());
                    out.extend(bytes);
                }
                Ok(out)
            }
        }
    }
}
