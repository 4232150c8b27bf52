//! Fletcher-32 checksum: `{"id": "fletcher32"}`.
//!
//! Four bytes after the data, as HDF5's filter 3 writes them (little-endian; sums over big-endian 16-bit words, an odd last
//! byte counts as the high one). See <https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html>. Files of old
//! big-endian machines have the bytes of each half swapped; libhdf5 accepts them, and so does this.

use super::codec_error;
use crate::Result;

/// Bytes of the checksum.
pub(super) const SIZE: usize = 4;

fn checksum(data: &[u8]) -> u32 {
    let (mut sum1, mut sum2) = (0u32, 0u32);
    // 360 words are the most that do not overflow 32 bits.
    for block in data.chunks(720) {
        for word in block.chunks(2) {
            sum1 += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            sum2 += sum1;
        }
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    sum2 << 16 | sum1
}

/// The data without the checksum.
pub(super) fn decode(input: &[u8], verify: bool) -> Result<&[u8]> {
    let Some((data, stored)) = input.split_last_chunk::<SIZE>() else {
        return Err(codec_error("fletcher32", format!("{} bytes are too few", input.len())));
    };
    if verify {
        let (stored, sum) = (u32::from_le_bytes(*stored), checksum(data));
        let halves = |v: u32| (v & 0x00ff_00ff) << 8 | (v & 0xff00_ff00) >> 8;
        if sum != stored && halves(sum) != stored {
            return Err(codec_error(
                "fletcher32",
                format!("the checksum is {sum:#010x}, but {stored:#010x} is stored: the bytes are damaged"),
            ));
        }
    }
    Ok(data)
}

/// The data with its checksum.
pub(super) fn encode(mut data: Vec<u8>) -> Vec<u8> {
    data.extend(checksum(&data).to_le_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // "abcde" and "abcdef" as big-endian words, added up by hand modulo 65535
        let by_hand = |words: &[u32]| {
            let (mut a, mut b) = (0u32, 0u32);
            for w in words {
                a = (a + w) % 65535;
                b = (b + a) % 65535;
            }
            b << 16 | a
        };
        assert_eq!(checksum(b"abcde"), by_hand(&[0x6162, 0x6364, 0x6500]));
        assert_eq!(checksum(b"abcdef"), by_hand(&[0x6162, 0x6364, 0x6566]));
        let long: Vec<u8> = (0..9001u32).map(|i| (i % 250) as u8 + 1).collect();
        let words: Vec<u32> =
            long.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0))).collect();
        assert_eq!(checksum(&long), by_hand(&words));
    }
}
