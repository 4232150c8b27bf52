//! What TIFF adds: LZW, and the predictors.
//!
//! - Specification: TIFF 6.0, sections 13 (LZW, as tiles and strips have it: highest bit first, codes grow early) and 14
//!   (predictor 2: along a row each sample less the same sample of the pixel before); Adobe's Technical Note 3 (predictor
//!   3: the bytes of a row's floats sorted by their place, highest first, then each less the one before).
//! - Ids: `imagecodecs_lzw`, `imagecodecs_delta`, `imagecodecs_floatpred`.
//! - JSON: `{"id": "imagecodecs_lzw"}`; `{"id": "imagecodecs_delta", "dtype": "<u2", "shape": [256, 256, 3], "axis": 1}`:
//!   `axis` of `shape` is along a row (default the last), what comes after it are the samples of a pixel; the same of
//!   `imagecodecs_floatpred`.

use super::config::{Codec, Config, codec_error, sized};
use super::number;
use super::pipeline::Tools;
use crate::Result;
use crate::model::{ByteOrder, DType, Kind};
use weezl::{BitOrder, LzwStatus};

#[derive(Debug)]
pub(super) struct Lzw;

const LZW: &str = "imagecodecs_lzw";

impl Lzw {
    /// Decodes as far as `out` reaches; returns the bytes written. TIFF's last strip or tile may decode to more.
    fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize> {
        let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
        let (mut at, mut to) = (0, 0);
        loop {
            let step = decoder.decode_bytes(&input[at..], &mut out[to..]);
            at += step.consumed_in;
            to += step.consumed_out;
            match step.status {
                Ok(LzwStatus::Done) => return Ok(to),
                Ok(_) if to == out.len() => return Ok(to),
                Ok(LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
                Ok(_) => return Ok(to),
                Err(e) => return Err(codec_error(LZW, e.to_string())),
            }
        }
    }
}

impl Codec for Lzw {
    fn encoded_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        match Lzw::decompress(input, out)? {
            n if n == out.len() => Ok(()),
            n => Err(codec_error(LZW, format!("decodes to {n} bytes where {} were expected", out.len()))),
        }
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, _tools: &mut Tools) -> Result<()> {
        // A code of 9 bits or more makes at most 4096 bytes.
        let limit = limit.min(input.len().saturating_mul(4096));
        let written = Lzw::decompress(input, sized(out, limit)?)?;
        out.truncate(written);
        Ok(())
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        weezl::encode::Encoder::with_tiff_size_switch(BitOrder::Msb, 8)
            .encode(input)
            .map_err(|e| codec_error(LZW, e.to_string()))
    }
}

/// Predictor 2, and 3 for floats.
#[derive(Debug)]
pub(super) struct Predictor {
    id: &'static str,
    float: bool,
    dtype: DType,
    /// Pixels of a row.
    width: usize,
    /// Samples of a pixel.
    samples: usize,
}

impl Predictor {
    pub fn new(config: &Config<'_>, dtype: &DType) -> Result<Predictor> {
        let float = config.id == "imagecodecs_floatpred";
        let id = if float { "imagecodecs_floatpred" } else { "imagecodecs_delta" };
        let dtype = number::dtype(config, "dtype", Some(dtype))?;
        if float && (dtype.kind != Kind::Float || !matches!(dtype.size, 2 | 4 | 8)) {
            return Err(config.error(&format!("is of floats, not of {dtype}")));
        }
        let shape = config.shape("shape")?;
        let axis = config.int("axis", -1)?;
        let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let (Ok(axis), false) = (usize::try_from(axis), shape.contains(&0)) else {
            return Err(config.error("its shape and axis do not go together"));
        };
        let (Some(width), Some(samples)) =
            (shape.get(axis), shape.get(axis + 1..).and_then(|s| s.iter().try_fold(1usize, |n, s| n.checked_mul(*s))))
        else {
            return Err(config.error("its shape and axis do not go together"));
        };
        Ok(Predictor { id, float, dtype, width: *width, samples })
    }

    /// Bytes of a row.
    fn row(&self, bytes: usize) -> Result<usize> {
        let row = self.width.checked_mul(self.samples).and_then(|n| n.checked_mul(self.dtype.size));
        row.filter(|r| *r > 0 && bytes.is_multiple_of(*r))
            .ok_or_else(|| codec_error(self.id, format!("{bytes} bytes are not rows of {} pixels", self.width)))
    }

    /// Adds to each sample the one before, or takes it away.
    fn accumulate(&self, row: &mut [u8], back: bool) {
        let size = self.dtype.size;
        let step = self.samples * size;
        let big = self.dtype.order == ByteOrder::Big;
        let load = |row: &[u8], at: usize| {
            let mut wide = [0; 8];
            for i in 0..size {
                wide[i] = row[at + if big { size - 1 - i } else { i }];
            }
            u64::from_le_bytes(wide)
        };
        let places: Vec<usize> = (step..row.len()).step_by(size).collect();
        let one = |row: &mut [u8], at: usize| {
            let (value, before) = (load(row, at), load(row, at - step));
            let value = if back { value.wrapping_sub(before) } else { value.wrapping_add(before) };
            for (i, b) in value.to_le_bytes()[..size].iter().enumerate() {
                row[at + if big { size - 1 - i } else { i }] = *b;
            }
        };
        if back {
            places.into_iter().rev().for_each(|at| one(row, at))
        } else {
            places.into_iter().for_each(|at| one(row, at))
        }
    }

    /// Byte `i` of an element, the highest first, is at this place of it.
    fn place(&self, i: usize) -> usize {
        if self.dtype.order == ByteOrder::Big { i } else { self.dtype.size - 1 - i }
    }
}

impl Codec for Predictor {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        if input.len() != out.len() {
            return Err(codec_error(self.id, format!("{} bytes where {} were expected", input.len(), out.len())));
        }
        let length = self.row(out.len())?;
        if !self.float {
            out.copy_from_slice(input);
            out.chunks_exact_mut(length).for_each(|row| self.accumulate(row, false));
            return Ok(());
        }
        let (size, count) = (self.dtype.size, length / self.dtype.size);
        for (row, to) in input.chunks_exact(length).zip(out.chunks_exact_mut(length)) {
            let mut row = row.to_vec();
            for at in self.samples..length {
                row[at] = row[at].wrapping_add(row[at - self.samples]);
            }
            for i in 0..size {
                let place = self.place(i);
                for (element, byte) in to.chunks_exact_mut(size).zip(&row[i * count..]) {
                    element[place] = *byte;
                }
            }
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], _limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        out.clear();
        out.resize(input.len(), 0);
        self.decode(input, out, tools)
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let length = self.row(input.len())?;
        let mut out = input.to_vec();
        if !self.float {
            out.chunks_exact_mut(length).for_each(|row| self.accumulate(row, true));
            return Ok(out);
        }
        let (size, count) = (self.dtype.size, length / self.dtype.size);
        for (row, to) in input.chunks_exact(length).zip(out.chunks_exact_mut(length)) {
            for i in 0..size {
                let place = self.place(i);
                for (element, byte) in row.chunks_exact(size).zip(&mut to[i * count..]) {
                    *byte = element[place];
                }
            }
            for at in (self.samples..length).rev() {
                to[at] = to[at].wrapping_sub(to[at - self.samples]);
            }
        }
        Ok(out)
    }
}
