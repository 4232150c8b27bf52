//! Four bytes of checksum after the data.
//!
//! - Specification: HDF5 filter 3, `H5_checksum_fletcher32` in HDF5's `H5checksum.c`: sums of 16-bit words that are read
//!   big-endian whatever the machine, an odd last byte being the high half of a word; the sum is stored little-endian.
//!   HDF5 before 1.6.3 stored it with the bytes of each half exchanged: like HDF5, this accepts either.
//! - Id: `fletcher32` (numcodecs computes the same).
//! - JSON: `{"id": "fletcher32"}`.

use super::CodecOptions;
use super::config::{Codec, codec_error};
use super::pipeline::Tools;
use crate::Result;

const ID: &str = "fletcher32";

#[derive(Debug)]
pub(super) struct Fletcher32 {
    verify: bool,
}

impl Fletcher32 {
    pub fn new(options: CodecOptions) -> Fletcher32 {
        Fletcher32 { verify: options.verify_checksum }
    }

    /// The data in `input`, its checksum verified.
    fn data<'a>(&self, input: &'a [u8]) -> Result<&'a [u8]> {
        let Some((data, stored)) = input.split_last_chunk::<4>() else {
            return Err(codec_error(ID, format!("{} bytes, too few for a checksum", input.len())));
        };
        if self.verify {
            let stored = u32::from_le_bytes(*stored);
            let computed = checksum(data);
            let exchanged = (computed & 0x00ff_00ff) << 8 | (computed >> 8) & 0x00ff_00ff;
            if stored != computed && stored != exchanged {
                return Err(codec_error(ID, format!("checksum {computed:#010x}, but {stored:#010x} is stored")));
            }
        }
        Ok(data)
    }
}

/// HDF5's Fletcher checksum.
fn checksum(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut sum1, mut sum2) = (0u32, 0u32);
    let words = data.chunks_exact(2);
    let odd = words.remainder();
    // 360 words are the most that can be summed before sum2 overflows.
    for block in data[..data.len() - odd.len()].chunks(2 * 360) {
        for word in block.chunks_exact(2) {
            sum1 += u32::from(u16::from_be_bytes([word[0], word[1]]));
            sum2 += sum1;
        }
        sum1 = fold(sum1);
        sum2 = fold(sum2);
    }
    if let [last] = *odd {
        sum1 += u32::from(last) << 8;
        sum2 += sum1;
        sum1 = fold(sum1);
        sum2 = fold(sum2);
    }
    fold(sum2) << 16 | fold(sum1)
}

impl Codec for Fletcher32 {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        decoded.checked_add(4)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        if input.len().checked_sub(4) != Some(out.len()) {
            return Err(codec_error(ID, format!("{} bytes where {} + 4 were expected", input.len(), out.len())));
        }
        out.copy_from_slice(self.data(input)?);
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], _limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        out.clear();
        out.extend_from_slice(self.data(input)?);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        Ok([input, &checksum(input).to_le_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // From the definition, by hand: words 0x0102, 0x0304, (0x05 << 8); sum1 = 0x0906, sum2 = 0x102 + 0x406 + 0x906.
        assert_eq!(checksum(&[1, 2, 3, 4, 5]), 0x0e0e_0906);
        // H5_checksum_fletcher32 never gives 0xffff as 0 for all-ones data: 0xffff folds to itself.
        assert_eq!(checksum(&[0xff; 8]), 0xffff_ffff);
        assert_eq!(checksum(&[]), 0);
    }

    #[test]
    fn verifies_and_accepts_the_old_byte_order() {
        let verify = Fletcher32 { verify: true };
        let mut bytes = verify.encode(&[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(bytes[5..], [0x06, 0x09, 0x0e, 0x0e]);
        let mut out = [0; 5];
        verify.decode(&bytes, &mut out, &mut Tools::default()).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5]);
        bytes[5..].copy_from_slice(&[0x09, 0x06, 0x0e, 0x0e]);
        verify.decode(&bytes, &mut out, &mut Tools::default()).unwrap();
        bytes[0] = 9;
        let error = verify.decode(&bytes, &mut out, &mut Tools::default()).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
        Fletcher32 { verify: false }.decode(&bytes, &mut out, &mut Tools::default()).unwrap();
        assert_eq!(out[0], 9);
        assert!(verify.decode(&[1, 2], &mut out, &mut Tools::default()).is_err());
    }
}
