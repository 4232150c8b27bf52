//! Chunks without a codec in smaller pieces: each piece is a run of the chunk's bytes.

use crate::Result;

/// A source's array is cut into no more pieces than this.
const MAX_PIECES: u64 = 1 << 16;

/// Takes key, first byte in the chunk and size in bytes of a piece.
pub type PieceSink<'a> = dyn FnMut(&[u64], u64, u64) -> Result<()> + 'a;

/// How chunks are cut into pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Pieces of a chunk along each dimension.
    counts: Vec<u64>,
    /// Bytes of a piece.
    size: u64,
}

/// The greatest pieces of which chunks of both shapes are made and which are runs of their bytes. None if there would be
/// too many of them.
pub fn common_pieces(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let last = (0..a.len()).rev().find(|i| a[*i] != b.get(*i).copied().unwrap_or_default())?;
    if a.len() != b.len() {
        return None;
    }
    let pieces: Vec<u64> = (0..a.len())
        .map(|i| match i.cmp(&last) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => gcd(a[i], b[i]).max(1),
            std::cmp::Ordering::Greater => a[i],
        })
        .collect();
    let count = |whole: &[u64]| whole.iter().zip(&pieces).fold(1u64, |n, (w, p)| n.saturating_mul(w / p));
    (count(a) <= MAX_PIECES && count(b) <= MAX_PIECES).then_some(pieces)
}

impl Cut {
    /// Chunks of shape `chunks`, of elements of `item` bytes, into `pieces`.
    pub fn new(chunks: &[u64], pieces: &[u64], item: u64) -> Cut {
        let counts = chunks.iter().zip(pieces).map(|(c, p)| c / (*p).max(1)).collect();
        Cut { counts, size: pieces.iter().fold(item, |n, p| n.saturating_mul(*p)) }
    }

    /// Calls `sink` with each piece of the chunk at `key`.
    ///
    /// # Errors
    /// The first of `sink`.
    pub fn each(&self, key: &[u64], sink: &mut PieceSink<'_>) -> Result<()> {
        let total: u64 = self.counts.iter().product();
        let mut piece = vec![0; key.len()];
        for number in 0..total {
            let mut rest = number;
            for axis in (0..key.len()).rev() {
                piece[axis] = key[axis].saturating_mul(self.counts[axis]).saturating_add(rest % self.counts[axis]);
                rest /= self.counts[axis];
            }
            sink(&piece, number * self.size, self.size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_of_31_and_28() {
        assert_eq!(common_pieces(&[31, 4, 5], &[28, 4, 5]), Some(vec![1, 4, 5]));
        assert_eq!(common_pieces(&[744, 4], &[672, 4]), Some(vec![24, 4]));
        assert_eq!(common_pieces(&[2, 31, 4], &[2, 28, 4]), Some(vec![1, 1, 4]));
        assert_eq!(common_pieces(&[1 << 20], &[1]), None);
        let cut = Cut::new(&[4, 2], &[2, 2], 8);
        let mut list = Vec::new();
        cut.each(&[1, 0], &mut |key, from, size| {
            list.push((key.to_vec(), from, size));
            Ok(())
        })
        .unwrap();
        assert_eq!(list, [(vec![2, 0], 0, 32), (vec![3, 0], 32, 32)]);
    }
}
