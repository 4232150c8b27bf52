//! The checksum of HDF5's newer metadata: Bob Jenkins' `lookup3`, "hashlittle".
//!
//! See <https://burtleburtle.net/bob/c/lookup3.c> and the specification, "Disk Format: Level 0A: Format Signature and
//! Superblock", which names it.

/// Checksum of `bytes`.
pub fn lookup3(bytes: &[u8]) -> u32 {
    hash(bytes, 0)
}

fn hash(bytes: &[u8], seed: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(seed);
    let mut s = [start; 3];
    // The last 1 to 12 bytes are mixed otherwise than those before.
    let whole = bytes.len().saturating_sub(1) / 12 * 12;
    let (blocks, tail) = bytes.split_at(whole);
    for block in blocks.chunks_exact(12) {
        add(&mut s, block);
        mix(&mut s);
    }
    if tail.is_empty() {
        return s[2];
    }
    let mut last = [0; 12];
    last[..tail.len()].copy_from_slice(tail);
    add(&mut s, &last);
    finish(s)
}

fn add(s: &mut [u32; 3], block: &[u8]) {
    for (word, b) in s.iter_mut().zip(block.chunks_exact(4)) {
        *word = word.wrapping_add(u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    }
}

fn mix(s: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *s;
    let step = |x: &mut u32, y: &mut u32, z: u32, bits: u32| {
        *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
        *y = y.wrapping_add(z);
    };
    step(&mut a, &mut c, b, 4);
    step(&mut b, &mut a, c, 6);
    step(&mut c, &mut b, a, 8);
    step(&mut a, &mut c, b, 16);
    step(&mut b, &mut a, c, 19);
    step(&mut c, &mut b, a, 4);
    *s = [a, b, c];
}

fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    let step = |x: &mut u32, y: u32, bits: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that `lookup3.c` gives in its own test, driver5.
    #[test]
    fn values_of_the_author() {
        assert_eq!(hash(b"", 0), 0xdead_beef);
        assert_eq!(hash(b"", 0xdead_beef), 0xbd5b_7dde);
        assert_eq!(hash(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(hash(b"Four score and seven years ago", 1), 0xcd62_8161);
    }
}
