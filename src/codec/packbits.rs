//! Truth values in bits.
//!
//! - Specification: numcodecs' `packbits`: a byte with the number of bits at the end that mean nothing, then eight values a
//!   byte, the first in the highest bit.
//! - JSON: `{"id": "packbits"}`.

use super::config::{Codec, codec_error};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "packbits";

#[derive(Debug)]
pub(super) struct Packbits;

impl Codec for Packbits {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        Some(1 + decoded.div_ceil(8))
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let padding = out.len().next_multiple_of(8) - out.len();
        if input.len() != 1 + out.len().div_ceil(8) || usize::from(input[0]) != padding {
            return Err(codec_error(ID, format!("{} bytes are not those of {} values", input.len(), out.len())));
        }
        for (i, value) in out.iter_mut().enumerate() {
            *value = input[1 + i / 8] >> (7 - i % 8) & 1;
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let Some((padding, rest)) = input.split_first() else { return Err(codec_error(ID, "there are no bytes")) };
        let size = (rest.len().saturating_mul(8)).checked_sub(usize::from(*padding)).filter(|n| *n <= limit);
        let size = size.ok_or_else(|| codec_error(ID, format!("decodes to more than {limit} bytes")))?;
        out.clear();
        out.resize(size, 0);
        self.decode(input, out, tools)
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let mut out = vec![0; 1 + input.len().div_ceil(8)];
        out[0] = (input.len().next_multiple_of(8) - input.len()) as u8;
        for (i, value) in input.iter().enumerate() {
            out[1 + i / 8] |= u8::from(*value != 0) << (7 - i % 8);
        }
        Ok(out)
    }
}
