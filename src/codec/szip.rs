//! Szip: the extended Rice coding of CCSDS 121.0-B.
//!
//! - Specification: <https://ccsds.org/Pubs/121x0b3.pdf>; HDF5 filter 4 puts the decoded size before it, 4 bytes
//!   little-endian. Numbers of 32 and 64 bits are coded byte by byte, first the first bytes of all; a scanline is filled up
//!   to whole blocks.
//! - Id: `hdf5` with filter 4. Parameters: options (16: big-endian, 32: nearest neighbour), pixels of a block, bits of a
//!   pixel, pixels of a scanline.

use super::aec::Aec;
use super::config::{Codec, codec_error, sized};
use super::pipeline::Tools;
use super::shuffle::{shuffle, unshuffle};
use crate::Result;

const ID: &str = "szip";

#[derive(Debug)]
pub(super) struct Szip {
    options: u32,
    block: u32,
    bits: u32,
    scanline: u32,
}

impl Szip {
    /// HDF5's filter with its parameters.
    pub fn hdf5(parameters: &[u32]) -> Result<Szip> {
        match parameters {
            &[options, block, bits, scanline] if block > 0 && scanline > 0 && matches!(bits, 1..=32 | 64) => {
                Ok(Szip { options, block, bits, scanline })
            }
            _ => Err(codec_error(ID, format!("its parameters {parameters:?} are not supported"))),
        }
    }
}

/// How numbers lie in what is coded.
struct Lines {
    /// Planes of bytes; 1 if numbers are coded as they are.
    planes: usize,
    /// Bytes of a sample.
    sample: usize,
    /// Samples of a scanline.
    line: usize,
    /// The same, filled up to whole blocks.
    stored: usize,
    aec: Aec,
}

impl Szip {
    fn lines(&self) -> Lines {
        let planes = if matches!(self.bits, 32 | 64) { self.bits as usize / 8 } else { 1 };
        let bits = if planes > 1 { 8 } else { self.bits };
        let sample = match bits {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        };
        let interval = self.scanline.div_ceil(self.block) as usize;
        let block = self.block as usize;
        let aec = Aec { bits, block, interval, predicted: self.options & 32 != 0 };
        Lines { planes, sample, line: self.scanline as usize, stored: interval * block, aec }
    }

    /// Whether samples are big-endian.
    fn is_big(&self) -> bool {
        self.options & 16 != 0
    }
}

impl Codec for Szip {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let Some((size, data)) = input.split_first_chunk::<4>() else {
            return Err(codec_error(ID, format!("{} bytes are too few for a header", input.len())));
        };
        let size = u32::from_le_bytes(*size);
        if size as usize != out.len() {
            return Err(codec_error(ID, format!("decodes to {size} bytes where {} were expected", out.len())));
        }
        if out.is_empty() {
            return Ok(());
        }
        let Lines { planes, sample, line, stored, aec } = self.lines();
        if !out.len().is_multiple_of(sample) {
            return Err(codec_error(ID, format!("{} bytes are not samples of {sample}", out.len())));
        }
        let samples = out.len() / sample;
        // The last scanline may be short, and its last block is filled up.
        let total = (samples / line).checked_mul(stored).and_then(|n| n.checked_add(samples % line));
        // HDF5 makes scanlines no shorter than blocks.
        let total = total.filter(|n| n / 2 <= samples + 64);
        let total = total.ok_or_else(|| codec_error(ID, format!("scanlines of {line} pixels are too short")))?;
        let decoded = aec.decode(data, total);
        let decoded = decoded.ok_or_else(|| codec_error(ID, format!("the {} bytes are damaged", input.len())))?;
        let mut plain = Vec::with_capacity(out.len());
        for part in decoded.chunks(stored) {
            for value in &part[..part.len().min(line)] {
                if self.is_big() {
                    plain.extend_from_slice(&value.to_be_bytes()[4 - sample..]);
                } else {
                    plain.extend_from_slice(&value.to_le_bytes()[..sample]);
                }
            }
        }
        if planes > 1 {
            unshuffle(&plain, planes, out)
        } else {
            out.copy_from_slice(&plain)
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let size = input.first_chunk::<4>().map_or(0, |s| u32::from_le_bytes(*s) as usize);
        if size > limit {
            return Err(codec_error(ID, format!("decodes to more than {limit} bytes")));
        }
        self.decode(input, sized(out, size)?, tools)?;
        out.truncate(size);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let size =
            u32::try_from(input.len()).map_err(|_| codec_error(ID, format!("{} bytes are too many", input.len())))?;
        let Lines { planes, sample, line, stored, aec } = self.lines();
        let planar = if planes > 1 { shuffle(input, planes) } else { input.to_vec() };
        let number = |b: &[u8]| {
            let digits: Box<dyn Iterator<Item = &u8>> =
                if self.is_big() { Box::new(b.iter()) } else { Box::new(b.iter().rev()) };
            digits.fold(0u32, |n, b| n << 8 | u32::from(*b))
        };
        let samples: Vec<u32> = planar.chunks_exact(sample).map(number).collect();
        let mut filled = Vec::with_capacity(samples.len());
        for part in samples.chunks(line) {
            filled.extend_from_slice(part);
            if part.len() == line {
                filled.resize(filled.len() + stored - line, 0);
            }
        }
        let coded = aec.encode(&filled);
        let mut out = size.to_le_bytes().to_vec();
        out.extend(coded);
        Ok(out)
    }
}
