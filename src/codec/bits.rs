//! Numbers of any width in bits, the highest bit first.

/// Reads them.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read so far.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// The next `width` bits, at most 64; None where the bytes end.
    pub fn read(&mut self, width: u32) -> Option<u64> {
        let mut left = width as usize;
        if self.bytes.len().checked_mul(8)? < self.at + left {
            return None;
        }
        let mut value = 0u64;
        while left > 0 {
            let (byte, used) = (self.bytes[self.at / 8], self.at % 8);
            let take = left.min(8 - used);
            let bits = (byte >> (8 - used - take)) & (0xff >> (8 - take));
            value = value << take | u64::from(bits);
            self.at += take;
            left -= take;
        }
        Some(value)
    }

    /// The next `n` bytes, if what was read ends with a byte.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at / 8..(self.at / 8).checked_add(n)?)?;
        self.at += n * 8;
        Some(bytes)
    }

    /// Zeros before the next one, which is read too; None where the bytes end.
    pub fn zeros(&mut self) -> Option<u64> {
        let mut count = 0u64;
        loop {
            let (byte, used) = (*self.bytes.get(self.at / 8)?, self.at % 8);
            let rest = byte << used;
            if rest != 0 {
                let zeros = rest.leading_zeros() as usize;
                self.at += zeros + 1;
                return Some(count + zeros as u64);
            }
            count += 8 - used as u64;
            self.at += 8 - used;
        }
    }
}
