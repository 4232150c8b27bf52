//! The adaptive entropy coding of CCSDS 121.0-B-3, "Lossless Data Compression", <https://ccsds.org/Pubs/121x0b3.pdf>:
//! what szip codes by. Sections in comments are that document's.

use super::bits::BitReader;

/// How numbers are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aec {
    /// Bits of a sample, 1 … 32.
    pub bits: u32,
    /// Samples of a block.
    pub block: usize,
    /// Blocks between two reference samples.
    pub interval: usize,
    /// Whether each sample is predicted by the one before (section 4).
    pub predicted: bool,
}

impl Aec {
    /// Bits that name a block's option (section 5.1.1).
    fn id_bits(&self) -> u32 {
        match self.bits {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        }
    }

    fn greatest(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The first `count` samples that `input` codes; None where it is damaged.
    pub fn decode(&self, input: &[u8], count: usize) -> Option<Vec<u32>> {
        let mut reader = BitReader::new(input);
        let mut out: Vec<u32> = Vec::with_capacity(count);
        while out.len() < count {
            let start = out.len();
            let mut used = 0;
            while used < self.interval && out.len() < count {
                used += self.block_of(&mut reader, used, &mut out, count)?;
            }
            if self.predicted {
                self.predict(out.get_mut(start..)?);
            }
        }
        out.truncate(count);
        Some(out)
    }

    /// Decodes one block, or a run of blocks of zeros; returns how many blocks of the interval that were.
    fn block_of(&self, reader: &mut BitReader<'_>, used: usize, out: &mut Vec<u32>, count: usize) -> Option<usize> {
        let reference = self.predicted && used == 0;
        let (id_bits, start) = (self.id_bits(), out.len());
        let id = reader.read(id_bits)?;
        if id == (1 << id_bits) - 1 {
            // No compression (5.1.5).
            for _ in 0..self.block {
                out.push(reader.read(self.bits)? as u32);
            }
            return Some(1);
        }
        let low_entropy = if id == 0 { Some(reader.read(1)?) } else { None };
        if reference {
            out.push(reader.read(self.bits)? as u32);
        }
        match low_entropy {
            // Zero blocks (5.1.4.2): how many; five is "to the end of the segment".
            Some(0) => {
                let blocks = match reader.zeros()? + 1 {
                    5 => (self.interval - used).min(64 - used % 64),
                    n @ 6.. => n as usize - 1,
                    n => n as usize,
                };
                if blocks > self.interval - used {
                    return None;
                }
                // What is not wanted need not be there.
                let end = start.checked_add(blocks.checked_mul(self.block)?)?;
                out.resize(end.min(count.max(out.len())), 0);
                Some(blocks)
            }
            // Second extension (5.1.4.1): two samples by one number; of the first pair only the second, after a reference.
            Some(_) => {
                let mut at = usize::from(reference);
                while at < self.block {
                    let coded = reader.zeros()?;
                    let sum = (0..).find(|s: &u64| (s + 1) * (s + 2) / 2 > coded)?;
                    let second = coded - sum * (sum + 1) / 2;
                    if at % 2 == 0 {
                        out.push((sum - second) as u32);
                        at += 1;
                    }
                    out.push(second as u32);
                    at += 1;
                }
                Some(1)
            }
            // Split samples (5.1.3): the high bits of all as runs of zeros, then the low bits of all.
            None => {
                let low = id as u32 - 1;
                let from = out.len();
                for _ in from - start..self.block {
                    let high = reader.zeros()?;
                    out.push(u32::try_from(high.checked_shl(low).filter(|v| v >> low == high)?).ok()?);
                }
                for sample in out.get_mut(from..)? {
                    *sample |= reader.read(low)? as u32;
                }
                Some(1)
            }
        }
    }

    /// Samples from what they differ from their predictions by (section 4.5).
    fn predict(&self, samples: &mut [u32]) {
        let greatest = self.greatest();
        let Some((first, rest)) = samples.split_first_mut() else { return };
        let mut last = u64::from(*first);
        for sample in rest {
            let mapped = u64::from(*sample);
            let room = last.min(greatest - last);
            last = if mapped.div_ceil(2) > room {
                // Only one direction is left.
                if last == room { mapped.min(greatest) } else { greatest.saturating_sub(mapped) }
            } else if mapped % 2 == 0 {
                last + mapped / 2
            } else {
                last - mapped.div_ceil(2)
            };
            *sample = last as u32;
        }
    }

    /// Codes samples without compression.
    pub fn encode(&self, samples: &[u32]) -> Vec<u8> {
        let greatest = self.greatest();
        let mut bits = BitWriter::default();
        for interval in samples.chunks(self.block * self.interval) {
            let mut last = None;
            for block in interval.chunks(self.block) {
                bits.write((1 << self.id_bits()) - 1, self.id_bits());
                for i in 0..self.block {
                    // A block is filled up with its last sample.
                    let sample = u64::from(block[i.min(block.len() - 1)]);
                    let coded = match last.filter(|_| self.predicted) {
                        None => sample,
                        Some(last) => map(last, sample, greatest),
                    };
                    bits.write(coded, self.bits);
                    last = Some(sample);
                }
            }
        }
        bits.bytes
    }
}

/// How `sample` differs from its prediction, as a number that is not negative (section 4.4).
fn map(predicted: u64, sample: u64, greatest: u64) -> u64 {
    let room = predicted.min(greatest - predicted);
    match (sample.abs_diff(predicted), sample >= predicted) {
        (d, _) if d > room => room + d,
        (d, true) => 2 * d,
        (d, false) => 2 * d - 1,
    }
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    used: u32,
}

impl BitWriter {
    fn write(&mut self, value: u64, width: u32) {
        for bit in (0..width).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(byte) = self.bytes.last_mut() {
                *byte |= ((value >> bit & 1) as u8) << (7 - self.used % 8);
            }
            self.used += 1;
        }
    }
}
