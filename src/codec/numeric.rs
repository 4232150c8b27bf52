//! numcodecs' filters on numbers: `delta`, `fixedscaleoffset`, `quantize`, `astype`.
//!
//! - Specification: <https://numcodecs.readthedocs.io/en/stable/filter/index.html>.
//! - JSON: `{"id": "delta", "dtype": "<i4", "astype": "<i2"}`: each number less the one before;
//!   `{"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "<u1"}`: (number − offset) · scale,
//!   rounded; `{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f4"}`: decoding changes the type alone;
//!   `{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}`. `astype` is `dtype` if it is missing.

use super::config::{Codec, Config, codec_error};
use super::number::{self, Number};
use super::pipeline::Tools;
use crate::Result;
use crate::model::{DType, Kind, float_from_le, float_to_le};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Delta,
    Scale { scale: f64, offset: f64 },
    Convert,
    Quantize { digits: i32 },
}

#[derive(Debug)]
pub(super) struct Numeric {
    id: &'static str,
    operation: Operation,
    decoded: DType,
    encoded: DType,
}

impl Numeric {
    pub fn delta(config: &Config<'_>) -> Result<Numeric> {
        Numeric::new(config, "delta", Operation::Delta)
    }

    pub fn fixed_scale_offset(config: &Config<'_>) -> Result<Numeric> {
        let (scale, offset) = (config.float("scale")?, config.float("offset")?);
        if scale == 0.0 || !scale.is_finite() || !offset.is_finite() {
            return Err(config.error(&format!("scale {scale} and offset {offset} can't be used")));
        }
        Numeric::new(config, "fixedscaleoffset", Operation::Scale { scale, offset })
    }

    pub fn quantize(config: &Config<'_>) -> Result<Numeric> {
        let digits = config.int("digits", 0)? as i32;
        Numeric::new(config, "quantize", Operation::Quantize { digits })
    }

    pub fn astype(config: &Config<'_>) -> Result<Numeric> {
        let (encoded, decoded) =
            (number::dtype(config, "encode_dtype", None)?, number::dtype(config, "decode_dtype", None)?);
        Ok(Numeric { id: "astype", operation: Operation::Convert, decoded, encoded })
    }

    fn new(config: &Config<'_>, id: &'static str, operation: Operation) -> Result<Numeric> {
        let decoded = number::dtype(config, "dtype", None)?;
        let encoded = number::dtype(config, "astype", Some(&decoded))?;
        Ok(Numeric { id, operation, decoded, encoded })
    }

    fn fits(&self, input: usize, from: &DType, out: usize, to: &DType) -> Result<()> {
        if input.is_multiple_of(from.size) && out.is_multiple_of(to.size) && input / from.size == out / to.size {
            return Ok(());
        }
        Err(codec_error(self.id, format!("{input} bytes of {from} are not {out} bytes of {to}")))
    }

    /// A float of the precision of `dtype`.
    fn rounded(v: f64, dtype: &DType) -> f64 {
        float_from_le(&float_to_le(v, dtype.size))
    }
}

/// a + b as numbers of `dtype`.
fn sum(a: Number, b: Number, dtype: &DType) -> Number {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Number::Int(a.wrapping_add(b)),
        (a, b) => Number::Float(if dtype.kind == Kind::Float {
            Numeric::rounded(a.as_f64() + b.as_f64(), dtype)
        } else {
            a.as_f64() + b.as_f64()
        }),
    }
}

impl Codec for Numeric {
    fn encoded_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded / self.decoded.size * self.encoded.size)
    }

    fn decode(&self, input: &[u8], out: &mut [u8], _tools: &mut Tools) -> Result<()> {
        let (from, to) = (&self.encoded, &self.decoded);
        self.fits(input.len(), from, out.len(), to)?;
        let mut total: Option<Number> = None;
        for (stored, element) in input.chunks_exact(from.size).zip(out.chunks_exact_mut(to.size)) {
            let value = number::read(from, stored);
            let value = match self.operation {
                Operation::Convert | Operation::Quantize { .. } => value,
                Operation::Delta => {
                    let next = total.map_or(value, |t| sum(t, value, to));
                    total = Some(next);
                    next
                }
                // numpy computes in the type of a stored float, and in float64 for integers.
                Operation::Scale { scale, offset } if from.kind == Kind::Float => {
                    let part = Numeric::rounded(value.as_f64() / Numeric::rounded(scale, from), from);
                    Number::Float(Numeric::rounded(part + Numeric::rounded(offset, from), from))
                }
                Operation::Scale { scale, offset } => Number::Float(value.as_f64() / scale + offset),
            };
            number::write(self.id, value, to, element)?;
        }
        Ok(())
    }

    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()> {
        let size = (input.len() / self.encoded.size).saturating_mul(self.decoded.size);
        if size > limit {
            return Err(codec_error(self.id, format!("decodes to more than {limit} bytes")));
        }
        out.clear();
        out.resize(size, 0);
        self.decode(input, out, tools)
    }

    fn encode(&self, input: &[u8]) -> Result<Vec<u8>> {
        let (from, to) = (&self.decoded, &self.encoded);
        let mut out = vec![0; input.len() / from.size * to.size];
        self.fits(input.len(), from, out.len(), to)?;
        let mut last: Option<Number> = None;
        for (element, stored) in input.chunks_exact(from.size).zip(out.chunks_exact_mut(to.size)) {
            let value = number::read(from, element);
            let value = match self.operation {
                Operation::Convert => value,
                Operation::Delta => {
                    let difference = match (last, value) {
                        (None, v) => v,
                        (Some(Number::Int(a)), Number::Int(b)) => Number::Int(b - a),
                        (Some(a), b) => Number::Float(Numeric::rounded(b.as_f64() - a.as_f64(), from)),
                    };
                    last = Some(value);
                    difference
                }
                Operation::Scale { scale, offset } => {
                    let v = (value.as_f64() - offset) * scale;
                    Number::Float(v.round_ties_even())
                }
                Operation::Quantize { digits } => {
                    // As many binary digits as hold so many decimal ones.
                    let bits = 2f64.powf((10f64.powi(digits)).log2().ceil());
                    Number::Float((value.as_f64() * bits).round_ties_even() / bits)
                }
            };
            number::write(self.id, value, to, stored)?;
        }
        Ok(out)
    }
}
