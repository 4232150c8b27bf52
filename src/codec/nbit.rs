//! Numbers without the bits that their type does not use.
//!
//! - Specification: HDF5 filter 5 (`H5Znbit.c`): the used bits of each number, highest first.
//! - Id: `hdf5` with filter 5. Parameters: how many there are, whether all bits are used, elements, class (1: numbers),
//!   bytes, byte order (1 big-endian), bits used, the lowest of them.

use super::bits::BitReader;
use super::config::{Codec, codec_error};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "nbit";

#[derive(Debug)]
pub(super) enum Nbit {
    /// All bits are used, and nothing was packed.
    Plain,
    Packed {
        size: usize,
        big_endian: bool,
        precision: u32,
        offset: u32,
    },
}

impl Nbit {
    /// HDF5's filter with its parameters.
    pub fn hdf5(parameters: &[u32]) -> Result<Nbit> {
        if parameters.get(1) == Some(&1) {
            return Ok(Nbit::Plain);
        }
        match parameters.get(3..8) {
            Some(&[1, size @ 1..=8, order @ 0..=1, precision, offset])
                if precision > 0 && u64::from(precision) + u64::from(offset) <= u64::from(size) * 8 =>
            {
                Ok(Nbit::Packed { size: size as usize, big_endian: order == 1, precision, offset })
            }
            _ => Err(codec_error(ID, "this kind of it is not supported")),
        }
    }
}

impl Codec for Nbit {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        matches!(self, Nbit::Plain).then_some(decoded)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let damaged = || codec_error(ID, format!("{} bytes are not those of {}", input.len(), out.len()));
        match *self {
            Nbit::Plain if input.len() == out.len() => out.copy_from_slice(input),
            Nbit::Plain => return Err(damaged()),
            Nbit::Packed { size, big_endian, precision, offset } => {
                let bits = (out.len() / size).checked_mul(precision as usize).ok_or_else(damaged)?;
                // The filter writes one byte more where the last is full.
                if !out.len().is_multiple_of(size) || !(bits.div_ceil(8)..=bits / 8 + 1).contains(&input.len()) {
                    return Err(damaged());
                }
                let mut reader = BitReader::new(input);
                for element in out.chunks_exact_mut(size) {
                    let value = reader.read(precision).unwrap_or_default() << offset;
                    element.copy_from_slice(&value.to_le_bytes()[..size]);
                    if big_endian {
                        element.reverse();
                    }
                }
            }
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], _limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        match self {
            Nbit::Plain => {
                out.clear();
                out.extend_from_slice(input);
                Ok(())
            }
            Nbit::Packed { .. } => Err(codec_error(ID, "it does not come after a codec that changes sizes")),
        }
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        match self {
            Nbit::Plain => Ok(input.to_vec()),
            Nbit::Packed { .. } => Err(codec_error(ID, "it can't be encoded")),
        }
    }
}
