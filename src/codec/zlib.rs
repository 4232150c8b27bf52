//! Deflate streams: `{"id": "zlib", "level": 4}`, `{"id": "gzip", "level": 4}`.
//!
//! Specification: <https://www.rfc-editor.org/rfc/rfc1950>, <https://www.rfc-editor.org/rfc/rfc1952>. Same as HDF5's filter
//! 1 and numcodecs' `zlib` and `gzip`. The two wrappers are told apart by their first bytes, whatever the id says.

use super::{codec_error, resize};
use crate::Result;
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

fn inflate(input: &[u8], out: &mut [u8], state: &mut Option<Decompressor>) -> Result<usize, DecompressionError> {
    let state = state.get_or_insert_with(Decompressor::new);
    if input.starts_with(&[0x1f, 0x8b]) { state.gzip_decompress(input, out) } else { state.zlib_decompress(input, out) }
}

/// Decodes into exactly `out`.
pub(super) fn decode(input: &[u8], out: &mut [u8], state: &mut Option<Decompressor>) -> Result<()> {
    let want = out.len();
    match inflate(input, out, state) {
        Ok(size) if size == want => Ok(()),
        Ok(size) => Err(codec_error("zlib", format!("it decodes to {size} bytes, not {want}"))),
        Err(DecompressionError::InsufficientSpace) => {
            Err(codec_error("zlib", format!("it decodes to more than {want} bytes")))
        }
        Err(DecompressionError::BadData) => Err(codec_error("zlib", "the bytes are not a deflate stream, or damaged")),
    }
}

/// Decodes what has an unknown size of at most `limit` bytes.
pub(super) fn decode_growing(
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
    state: &mut Option<Decompressor>,
) -> Result<()> {
    let mut size = input.len().saturating_mul(4).clamp(1 << 12, limit.max(1 << 12));
    loop {
        resize(out, size, "zlib")?;
        match inflate(input, out, state) {
            Ok(size) => {
                out.truncate(size);
                return Ok(());
            }
            Err(DecompressionError::InsufficientSpace) if size < limit => size = size.saturating_mul(2).min(limit),
            Err(DecompressionError::InsufficientSpace) => {
                return Err(codec_error("zlib", format!("it decodes to more than {limit} bytes")));
            }
            Err(DecompressionError::BadData) => {
                return Err(codec_error("zlib", "the bytes are not a deflate stream, or damaged"));
            }
        }
    }
}

/// Encodes. Levels beyond what there is are taken as the nearest.
pub(super) fn encode(data: &[u8], level: i32, gzip: bool) -> Result<Vec<u8>> {
    let level =
        if level < 0 { CompressionLvl::default() } else { CompressionLvl::new(level.min(12)).unwrap_or_default() };
    let mut state = Compressor::new(level);
    let bound = if gzip { state.gzip_compress_bound(data.len()) } else { state.zlib_compress_bound(data.len()) };
    let mut out = Vec::new();
    resize(&mut out, bound, "zlib")?;
    let size = if gzip { state.gzip_compress(data, &mut out) } else { state.zlib_compress(data, &mut out) };
    out.truncate(size.map_err(|e| codec_error("zlib", e.to_string()))?);
    Ok(out)
}
