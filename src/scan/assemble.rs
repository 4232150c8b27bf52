//! Whole arrays from their chunks.

use super::{Location, SourceIndex};
use crate::codec::{CodecOptions, Pipeline, Scratch};
use crate::model::Kind;
use crate::{Error, Result};

/// A chunk of more bytes than this, stored or decoded, is not decoded here.
pub const MAX_CHUNK: u64 = 256 << 20;

/// All values of array `number` of `index`; `read` gives the stored bytes of a chunk.
///
/// # Errors
/// [`Error::Unsupported`] if there are more than `limit` bytes or a chunk is too large; those of the index, of `read` and
/// of the codecs.
pub fn values(
    path: &str,
    index: &dyn SourceIndex,
    number: usize,
    limit: u64,
    read: &dyn Fn(&Location) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let array = &index.arrays()[number];
    let unsupported = |what: String| Error::Unsupported { path: path.to_owned(), array: array.name.clone(), what };
    if array.dtype.kind == Kind::VlenUtf8 {
        return Err(unsupported("strings of any length can't be read whole here".into()));
    }
    let (shape, item) = (array.shape(), array.dtype.size as u64);
    let total = shape.iter().try_fold(item, |n, s| n.checked_mul(*s)).filter(|n| *n <= limit);
    let total = total.ok_or_else(|| unsupported(format!("its values have more than {limit} bytes")))?;
    let bytes = array.chunks.iter().try_fold(item, |n, c| n.checked_mul(*c));
    // A chunk may be larger than the array, but not by any amount.
    let bytes = bytes.filter(|n| *n <= MAX_CHUNK.min(limit.max(16 << 20)));
    let bytes = bytes.ok_or_else(|| unsupported("a chunk is too large to be read here".into()))?;
    let fill = array.fill.to_bytes(&array.dtype)?;
    let mut out = fill.repeat((total / item.max(1)) as usize);
    if total == 0 {
        return Ok(out);
    }
    let elements = (bytes / item.max(1)) as usize;
    let pipeline = Pipeline::new(&array.codec, &array.dtype, elements, CodecOptions::default())?;
    let mut scratch = Scratch::default();
    let mut decoded = vec![0; bytes as usize];
    index.chunks(number, &mut |chunk| {
        if chunk.location != Location::Absent {
            pipeline.decode_into(&read(&chunk.location)?, chunk.filter_mask, &mut decoded, &mut scratch)?;
            copy_chunk(&decoded, chunk.key, &array.chunks, &shape, item as usize, &mut out);
        }
        Ok(())
    })?;
    Ok(out)
}

/// Copies what of a chunk lies inside the array.
pub fn copy_chunk(chunk: &[u8], key: &[u64], chunks: &[u64], shape: &[u64], item: usize, out: &mut [u8]) {
    let rank = shape.len();
    let Some(last) = rank.checked_sub(1) else {
        out.copy_from_slice(chunk);
        return;
    };
    let start: Vec<u64> = (0..rank).map(|a| key[a].saturating_mul(chunks[a])).collect();
    if (0..rank).any(|a| start[a] >= shape[a]) {
        return;
    }
    let count: Vec<u64> = (0..rank).map(|a| chunks[a].min(shape[a] - start[a])).collect();
    let mut at = vec![0u64; rank];
    loop {
        let (mut from, mut to) = (0u64, 0u64);
        for a in 0..rank {
            from = from * chunks[a] + at[a];
            to = to * shape[a] + start[a] + at[a];
        }
        let (from, to, length) = (from as usize * item, to as usize * item, count[last] as usize * item);
        out[to..to + length].copy_from_slice(&chunk[from..from + length]);
        // The next row.
        let mut axis = last;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < count[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
}
