//! Numbers less their least one, in as few bits as they need.
//!
//! - Specification: HDF5 filter 6 (`H5Zscaleoffset.c`, and "Scale-offset Filter" in the reference of `H5Pset_scaleoffset`).
//!   Bits of a number, 4 bytes; 8, one byte; the least number, 8 bytes; 8 more bytes; then the numbers, highest bit first.
//!   All ones stand for the fill value, if there is one. Floats: integers divided by a power of ten.
//! - Id: `hdf5` with filter 6. Parameters: kind (0 float by decimals, 2 integer), decimals, elements, class (0 integer,
//!   1 float), bytes of an element, sign, byte order (1 big-endian), whether there is a fill value, the fill value.

use super::bits::BitReader;
use super::config::{Codec, codec_error};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "scaleoffset";
const HEADER: usize = 21;

#[derive(Debug)]
pub(super) struct ScaleOffset {
    /// Decimals, for floats.
    decimals: Option<i32>,
    size: usize,
    big_endian: bool,
    fill: Option<u64>,
}

impl ScaleOffset {
    /// HDF5's filter with its parameters.
    pub fn hdf5(parameters: &[u32]) -> Result<ScaleOffset> {
        let bad = |what: &str| codec_error(ID, what.to_owned());
        let Some(&[kind, factor, _, class, size, _, order, has_fill]) = parameters.first_chunk::<8>() else {
            return Err(bad("it has too few parameters"));
        };
        let size = size as usize;
        let decimals = match (kind, class) {
            (0, 1) if matches!(size, 4 | 8) => Some(factor as i32),
            (2, 0) if matches!(size, 1 | 2 | 4 | 8) => None,
            _ => return Err(bad("this kind of it is not supported")),
        };
        let word = |i: usize| u64::from(parameters.get(i).copied().unwrap_or(0));
        let fill = (has_fill == 1).then(|| word(8) | word(9) << 32);
        Ok(ScaleOffset { decimals, size, big_endian: order == 1, fill })
    }

    fn value(&self, number: u64, least: u64, is_fill: bool) -> u64 {
        match (self.fill, self.decimals, self.size) {
            (Some(fill), ..) if is_fill => fill,
            (_, None, _) => number.wrapping_add(least),
            (_, Some(decimals), 4) => {
                let value = number as i32 as f32 / 10f32.powi(decimals) + f32::from_bits(least as u32);
                u64::from(value.to_bits())
            }
            (_, Some(decimals), _) => (number as i64 as f64 / 10f64.powi(decimals) + f64::from_bits(least)).to_bits(),
        }
    }
}

impl Codec for ScaleOffset {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let damaged = || codec_error(ID, format!("the {} bytes are damaged", input.len()));
        let (head, data) = input.split_at_checked(HEADER).ok_or_else(damaged)?;
        let bits = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        // Written by a machine with less than 8 bytes, they would be fewer.
        if head[4] != 8 || bits as usize > self.size * 8 || !out.len().is_multiple_of(self.size) {
            return Err(damaged());
        }
        let least = u64::from_le_bytes([head[5], head[6], head[7], head[8], head[9], head[10], head[11], head[12]]);
        let whole = bits as usize == self.size * 8;
        let ones = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let mut reader = BitReader::new(data);
        for element in out.chunks_exact_mut(self.size) {
            let value = if whole {
                // As they were, in the order of the machine that wrote them: all are little-endian today.
                let at = reader.take(self.size).ok_or_else(damaged)?;
                let mut wide = [0; 8];
                wide[..self.size].copy_from_slice(at);
                u64::from_le_bytes(wide)
            } else {
                let number = reader.read(bits).ok_or_else(damaged)?;
                self.value(number, least, bits > 0 && number == ones)
            };
            element.copy_from_slice(&value.to_le_bytes()[..self.size]);
            if self.big_endian {
                element.reverse();
            }
        }
        Ok(())
    }

    fn decode_bounded(&self, _input: &[u8], _limit: usize, _out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        Err(codec_error(ID, "it does not come after a codec that changes sizes"))
    }

    fn encode(&self, _input: &[u8]) -> Result<Vec<u8>> {
        Err(codec_error(ID, "it can't be encoded"))
    }
}
