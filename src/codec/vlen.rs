//! Variable-length strings: `{"id": "vlen-utf8"}`.
//!
//! A count, then for each string its length and its bytes; numbers are unsigned 32-bit little-endian. Same as numcodecs'
//! `vlen-utf8`: <https://numcodecs.readthedocs.io/en/stable/other/vlen.html>.

use super::config::codec_error;
use crate::Result;

/// The codec's Zarr v2 id.
pub const ID: &str = "vlen-utf8";

/// The strings of an encoded chunk.
///
/// # Errors
/// [`crate::Error::Codec`] if the lengths do not go with the bytes.
pub fn split(data: &[u8]) -> Result<Vec<&[u8]>> {
    let bad = || codec_error(ID, "the lengths of the strings do not go with the bytes");
    let number = |data: &mut &[u8]| -> Result<usize> {
        let (head, rest) = data.split_first_chunk::<4>().ok_or_else(bad)?;
        *data = rest;
        Ok(u32::from_le_bytes(*head) as usize)
    };
    let mut rest = data;
    let count = number(&mut rest)?;
    if count > rest.len() / 4 {
        return Err(bad());
    }
    let mut strings = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(&mut rest)?;
        let (string, after) = rest.split_at_checked(length).ok_or_else(bad)?;
        strings.push(string);
        rest = after;
    }
    if rest.is_empty() { Ok(strings) } else { Err(bad()) }
}

/// Encodes strings.
///
/// # Errors
/// [`crate::Error::Codec`] if there are more than 2^32, or one is longer.
pub fn join<S: AsRef<[u8]>>(strings: &[S]) -> Result<Vec<u8>> {
    let number = |n: usize| {
        u32::try_from(n).map(u32::to_le_bytes).map_err(|_| codec_error(ID, format!("{n} is beyond 32 bits")))
    };
    let mut data = number(strings.len())?.to_vec();
    for string in strings {
        data.extend(number(string.as_ref().len())?);
        data.extend_from_slice(string.as_ref());
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        // numcodecs.VLenUTF8().encode(np.array(["a", "", "é"], dtype=object))
        let data = [3, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9];
        assert_eq!(join(&["a", "", "é"]).unwrap(), data);
        assert_eq!(split(&data).unwrap(), [&b"a"[..], b"", "é".as_bytes()]);
        for cut in 0..data.len() {
            assert!(split(&data[..cut]).is_err());
        }
        assert!(split(&[255, 255, 255, 255]).is_err());
    }
}
