//! Compressors that know no sizes: bzip2 and xz.
//!
//! - Specification: bzip2's <https://sourceware.org/bzip2/>, HDF5 filter 307 is one such stream; xz and lzma,
//!   <https://tukaani.org/xz/xz-file-format.txt>.
//! - Ids: `bz2`, `lzma` (numcodecs).
//! - JSON: `{"id": "bz2", "level": 1}`; `{"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": null}` with
//!   `format` 1 (xz) or 2 (lzma alone); a raw stream (3) is refused.

use super::config::{Codec, Config, codec_error, sized};
use super::pipeline::Tools;
use crate::{Error, Result};
use bzip2::{Compress, Compression, Decompress};
use liblzma::stream::{Action, Stream};

/// Memory that xz may take for its dictionary, in bytes.
const MEMORY: u64 = 256 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum Streamed {
    Bz2 { level: u32 },
    Lzma { alone: bool, preset: u32 },
}

/// A decoder: takes input and a place for output.
type Decoder = Box<dyn FnMut(&[u8], &mut [u8]) -> Result<Step>>;

/// What a step of a decoder did.
struct Step {
    read: usize,
    written: usize,
    ended: bool,
}

impl Streamed {
    pub fn bz2(config: &Config<'_>) -> Result<Streamed> {
        match config.int("level", 1)? {
            level @ 1..=9 => Ok(Streamed::Bz2 { level: level as u32 }),
            level => Err(config.error(&format!("level {level} is not one of 1 … 9"))),
        }
    }

    pub fn lzma(config: &Config<'_>) -> Result<Streamed> {
        let preset = config.int("preset", 6)?;
        let preset = u32::try_from(preset).map_err(|_| config.error(&format!("preset {preset} is not one of xz's")))?;
        match config.int("format", 1)? {
            1 => Ok(Streamed::Lzma { alone: false, preset }),
            2 => Ok(Streamed::Lzma { alone: true, preset }),
            other => Err(config.error(&format!("format {other} is not supported: 1 (xz) and 2 (lzma) are"))),
        }
    }

    fn error(self, what: impl Into<String>) -> Error {
        codec_error(if matches!(self, Streamed::Bz2 { .. }) { "bz2" } else { "lzma" }, what)
    }

    /// Decodes to `out`; returns the bytes written, or None if there would be more.
    fn decompress(self, input: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        let mut step: Decoder = match self {
            Streamed::Bz2 { .. } => {
                let mut decoder = Decompress::new(false);
                Box::new(move |input, out| {
                    let (read, written) = (decoder.total_in(), decoder.total_out());
                    let status = decoder.decompress(input, out).map_err(|e| self.error(e.to_string()))?;
                    Ok(Step {
                        read: (decoder.total_in() - read) as usize,
                        written: (decoder.total_out() - written) as usize,
                        ended: status == bzip2::Status::StreamEnd,
                    })
                })
            }
            Streamed::Lzma { .. } => {
                let mut decoder = Stream::new_auto_decoder(MEMORY, 0).map_err(|e| self.error(e.to_string()))?;
                Box::new(move |input, out| {
                    let (read, written) = (decoder.total_in(), decoder.total_out());
                    let status = decoder.process(input, out, Action::Run).map_err(|e| self.error(e.to_string()))?;
                    Ok(Step {
                        read: (decoder.total_in() - read) as usize,
                        written: (decoder.total_out() - written) as usize,
                        ended: status == liblzma::stream::Status::StreamEnd,
                    })
                })
            }
        };
        let (mut at, mut to) = (0, 0);
        // One byte more than there may be shows whether there is more.
        let mut spare = [0];
        loop {
            let full = to == out.len();
            let done = step(&input[at..], if full { &mut spare } else { &mut out[to..] })?;
            at += done.read;
            if full && done.written > 0 {
                return Ok(None);
            }
            to += done.written;
            if done.ended {
                return match input.len() - at {
                    0 => Ok(Some(to)),
                    more => Err(self.error(format!("{more} bytes too many"))),
                };
            }
            if done.read == 0 && done.written == 0 {
                return Err(self.error(format!("the {} bytes are not a whole stream", input.len())));
            }
        }
    }
}

impl Codec for Streamed {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        match self.decompress(input, out)? {
            Some(n) if n == out.len() => Ok(()),
            Some(n) => Err(self.error(format!("decodes to {n} bytes where {} were expected", out.len()))),
            None => Err(self.error(format!("decodes to more than the {} bytes expected", out.len()))),
        }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        let mut size = input.len().saturating_mul(8).clamp(256, 1 << 24).min(limit);
        loop {
            if let Some(written) = self.decompress(input, sized(out, size)?)? {
                out.truncate(written);
                return Ok(());
            }
            if size == limit {
                return Err(self.error(format!("decodes to more than {limit} bytes")));
            }
            size = size.saturating_mul(8).min(limit);
        }
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        // bzip2 promises 1 % and 600 bytes; xz less.
        let mut out = Vec::with_capacity(input.len() + input.len() / 50 + 1024);
        match *self {
            Streamed::Bz2 { level } => {
                let mut encoder = Compress::new(Compression::new(level), 0);
                let mut at = 0;
                loop {
                    let before = encoder.total_in();
                    let status = encoder
                        .compress_vec(&input[at..], &mut out, bzip2::Action::Finish)
                        .map_err(|e| self.error(e.to_string()))?;
                    at += (encoder.total_in() - before) as usize;
                    if status == bzip2::Status::StreamEnd {
                        return Ok(out);
                    }
                    out.reserve(1 << 16);
                }
            }
            Streamed::Lzma { alone, preset } => {
                let failed = |e: liblzma::stream::Error| self.error(e.to_string());
                let mut encoder = if alone {
                    let options = liblzma::stream::LzmaOptions::new_preset(preset).map_err(failed)?;
                    Stream::new_lzma_encoder(&options).map_err(failed)?
                } else {
                    Stream::new_easy_encoder(preset, liblzma::stream::Check::Crc64).map_err(failed)?
                };
                let mut at = 0;
                loop {
                    let before = encoder.total_in();
                    let status = encoder.process_vec(&input[at..], &mut out, Action::Finish).map_err(failed)?;
                    at += (encoder.total_in() - before) as usize;
                    if status == liblzma::stream::Status::StreamEnd {
                        return Ok(out);
                    }
                    out.reserve(1 << 16);
                }
            }
        }
    }
}
