//! Zstandard.
//!
//! - Specification: RFC 8878; HDF5 filter 32015 is one frame, too.
//! - Id: `zstd` (numcodecs).
//! - JSON: `{"id": "zstd", "level": 3}`; `level` matters for encoding alone (default 0, which is zstd's own).

use super::config::{Codec, Config, codec_error, sized};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "zstd";

#[derive(Debug)]
pub(super) struct Zstd {
    level: i32,
}

impl Zstd {
    pub fn new(config: &Config<'_>) -> Result<Zstd> {
        let level = config.int("level", 0)?;
        let level = i32::try_from(level).map_err(|_| config.error(&format!("level {level} is not one of zstd's")))?;
        Ok(Zstd { level })
    }
}

/// Decodes to `out`; returns the bytes written. What follows the frames is an error of zstd's.
pub(super) fn decompress(input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<usize> {
    let context = tools.zstd().map_err(|e| codec_error(ID, e.to_string()))?;
    context.decompress_to_buffer(input, out).map_err(|e| codec_error(ID, e.to_string()))
}

impl Codec for Zstd {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
        match decompress(input, out, tools)? {
            n if n == out.len() => Ok(()),
            n => Err(codec_error(ID, format!("decodes to {n} bytes where {} were expected", out.len()))),
        }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let size = match zstd::zstd_safe::get_frame_content_size(input) {
            Ok(Some(size)) => usize::try_from(size).ok().filter(|n| *n <= limit),
            Ok(None) => Some(limit),
            Err(_) => return Err(codec_error(ID, "not a zstd frame")),
        };
        let size = size.ok_or_else(|| codec_error(ID, format!("decodes to more than {limit} bytes")))?;
        let written = decompress(input, sized(out, size)?, tools)?;
        out.truncate(written);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        zstd::bulk::compress(input, self.level).map_err(|e| codec_error(ID, e.to_string()))
    }
}
