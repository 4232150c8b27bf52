//! Four bytes of checksum before or after the data: CRC-32, CRC-32C, Adler-32.
//!
//! - Specification: numcodecs' `crc32`, `adler32` (before the data) and `crc32c` (after, as in Zarr v3,
//!   <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html>), little-endian.
//! - JSON: `{"id": "crc32c", "location": "end"}`.

use super::CodecOptions;
use super::config::{Codec, Config, codec_error};
use super::pipeline::Tools;
use crate::Result;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Crc32,
    Crc32c,
    Adler32,
}

#[derive(Debug)]
pub(super) struct Checksum {
    id: &'static str,
    kind: Kind,
    at_end: bool,
    verify: bool,
}

impl Checksum {
    pub fn new(config: &Config<'_>, options: CodecOptions) -> Result<Checksum> {
        let (id, kind, end) = match config.id {
            "crc32" => ("crc32", Kind::Crc32, false),
            "adler32" => ("adler32", Kind::Adler32, false),
            _ => ("crc32c", Kind::Crc32c, true),
        };
        let at_end = match config.text("location")? {
            None => end,
            Some("start") => false,
            Some("end") => true,
            Some(other) => return Err(config.error(&format!("location \"{other}\" is neither start nor end"))),
        };
        Ok(Checksum { id, kind, at_end, verify: options.verify_checksum })
    }

    fn compute(&self, data: &[u8]) -> u32 {
        match self.kind {
            Kind::Crc32 => libdeflater::crc32(data),
            Kind::Adler32 => libdeflater::adler32(data),
            Kind::Crc32c => crc32c::crc32c(data),
        }
    }

    fn data<'a>(&self, input: &'a [u8]) -> Result<&'a [u8]> {
        let split = match self.at_end {
            true => input.split_last_chunk::<4>(),
            false => input.split_first_chunk::<4>().map(|(sum, data)| (data, sum)),
        };
        let (data, stored) =
            split.ok_or_else(|| codec_error(self.id, format!("{} bytes, too few for a checksum", input.len())))?;
        let stored = u32::from_le_bytes(*stored);
        if self.verify {
            let computed = self.compute(data);
            if computed != stored {
                return Err(codec_error(self.id, format!("checksum {computed:#010x}, but {stored:#010x} is stored")));
            }
        }
        Ok(data)
    }
}

impl Codec for Checksum {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded + 4)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let data = self.data(input)?;
        if data.len() != out.len() {
            return Err(codec_error(self.id, format!("{} bytes where {} were expected", data.len(), out.len())));
        }
        out.copy_from_slice(data);
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], _limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        let data = self.data(input)?;
        out.clear();
        out.extend_from_slice(data);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let sum = self.compute(input).to_le_bytes();
        Ok(if self.at_end { [input, &sum].concat() } else { [&sum, input].concat() })
    }
}
