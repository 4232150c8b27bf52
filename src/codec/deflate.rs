//! Deflate in a zlib or gzip wrapper.
//!
//! - Specification: RFC 1950 (zlib), RFC 1952 (gzip); HDF5 filter 1 is a zlib stream.
//! - Ids: `zlib`, `gzip`. Software mixes them up, so the wrapper is told by the first bytes of a chunk, not by the id.
//! - JSON: `{"id": "zlib", "level": 4}`; `level` -1 … 9 matters for encoding alone (default 1, as numcodecs').

use super::CodecOptions;
use super::config::{Codec, Config, codec_error, sized};
use super::pipeline::Tools;
use crate::{Error, Result};
use libdeflater::{CompressionLvl, Compressor, DecompressionError};

#[derive(Debug)]
pub(super) struct Deflate {
    gzip: bool,
    level: i32,
    verify: bool,
}

impl Deflate {
    pub fn new(config: &Config<'_>, options: CodecOptions) -> Result<Deflate> {
        let level = match config.int("level", 1)? {
            -1 => 6,
            level @ 0..=9 => level as i32,
            level => return Err(config.error(&format!("level {level} is not one of -1 … 9"))),
        };
        Ok(Deflate { gzip: config.id == "gzip", level, verify: options.verify_checksum })
    }

    fn id(&self) -> &'static str {
        if self.gzip { "gzip" } else { "zlib" }
    }

    /// Inflates into `out`, which may be larger than needed; the number of bytes written.
    fn inflate(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<usize, DecompressionError> {
        let inflater = tools.inflater();
        match *input {
            [0x1f, 0x8b, ..] => inflater.gzip_decompress(input, out),
            // Past the two bytes of header there is plain deflate, with a checksum that nobody looks at.
            [_, flags, ref rest @ ..] if !self.verify && flags & 0x20 == 0 => inflater.deflate_decompress(rest, out),
            _ => inflater.zlib_decompress(input, out),
        }
    }

    fn bad_data(&self, input: &[u8]) -> Error {
        codec_error(self.id(), format!("the {} bytes are not a whole, undamaged zlib or gzip stream", input.len()))
    }
}

impl Codec for Deflate {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
        match self.inflate(input, out, tools) {
            Ok(n) if n == out.len() => Ok(()),
            Ok(n) => Err(codec_error(self.id(), format!("inflates to {n} bytes where {} were expected", out.len()))),
            Err(DecompressionError::InsufficientSpace) => {
                Err(codec_error(self.id(), format!("inflates to more than the {} bytes expected", out.len())))
            }
            Err(DecompressionError::BadData) => Err(self.bad_data(input)),
        }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        // Deflate makes at most 1032 bytes of one: memory is bounded by the input, too.
        let limit = limit.min(input.len().saturating_mul(1032));
        let mut size = input.len().saturating_mul(4).clamp(256, 1 << 24).min(limit);
        loop {
            match self.inflate(input, sized(out, size)?, tools) {
                Ok(n) => {
                    out.truncate(n);
                    return Ok(());
                }
                Err(DecompressionError::InsufficientSpace) if size < limit => {
                    size = size.saturating_mul(4).min(limit);
                }
                Err(DecompressionError::InsufficientSpace) => {
                    return Err(codec_error(self.id(), format!("inflates to more than {limit} bytes")));
                }
                Err(DecompressionError::BadData) => return Err(self.bad_data(input)),
            }
        }
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let level = CompressionLvl::new(self.level)
            .map_err(|_| codec_error(self.id(), format!("level {} is not supported", self.level)))?;
        let mut compressor = Compressor::new(level);
        let bound = match self.gzip {
            true => compressor.gzip_compress_bound(input.len()),
            false => compressor.zlib_compress_bound(input.len()),
        };
        let mut out = vec![0; bound];
        let written = match self.gzip {
            true => compressor.gzip_compress(input, &mut out),
            false => compressor.zlib_compress(input, &mut out),
        };
        let written = written.map_err(|_| codec_error(self.id(), "can't be encoded"))?;
        out.truncate(written);
        Ok(out)
    }
}
