//! Fill values: what an absent chunk reads as, in Zarr v2's JSON.

use super::attr::{f64_to_json, json_to_f64};
use super::{ByteOrder, DType, Kind, swap_in_place};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A fill value as Zarr v2's JSON; `Fill(Value::Null)` means none was set, and reads as zeros.
///
/// See <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#fill-value-encoding>.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fill(pub Value);

impl Fill {
    /// Parses the store's `fill` column. NULL, an empty text and `null` are "none". A bare `NaN`, `Infinity`,
    /// `-Infinity` in any case is accepted; text that is not JSON is taken as a string.
    pub fn parse(text: Option<&str>) -> Fill {
        match text.map(str::trim) {
            None | Some("") => Fill(Value::Null),
            Some(t) => Fill(serde_json::from_str(t).unwrap_or_else(|_| Value::String(t.to_owned()))),
        }
    }

    /// The store's `fill` column: None for none.
    pub fn to_text(&self) -> Option<String> {
        if self.0.is_null() { None } else { Some(self.0.to_string()) }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_null()
    }

    /// The fill value whose bytes, in `dtype`, are `bytes` (one element). Exact for every value, except that the
    /// payload of a NaN is not kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `bytes` has not the size of an element.
    pub fn from_bytes(dtype: &DType, bytes: &[u8]) -> Result<Fill> {
        if bytes.len() != dtype.size {
            return Err(Error::Invalid(format!("a fill value of {} bytes for {dtype}", bytes.len())));
        }
        let mut b = bytes.to_vec();
        if dtype.swap_size() > 1 && dtype.order == ByteOrder::Big {
            swap_in_place(&mut b, dtype.swap_size());
        }
        Ok(Fill(match dtype.kind {
            Kind::Bool => Value::Bool(b[0] != 0),
            Kind::Int => {
                let negative = b[b.len() - 1] & 0x80 != 0;
                let mut wide = if negative { [0xff; 8] } else { [0; 8] };
                wide[..b.len()].copy_from_slice(&b);
                Value::from(i64::from_le_bytes(wide))
            }
            Kind::UInt => {
                let mut wide = [0; 8];
                wide[..b.len()].copy_from_slice(&b);
                Value::from(u64::from_le_bytes(wide))
            }
            Kind::Float => f64_to_json(float_from_le(&b)),
            Kind::Complex => {
                let (re, im) = b.split_at(b.len() / 2);
                Value::Array(vec![f64_to_json(float_from_le(re)), f64_to_json(float_from_le(im))])
            }
            Kind::Bytes => {
                let end = b.iter().rposition(|c| *c != 0).map_or(0, |i| i + 1);
                Value::String(STANDARD.encode(&b[..end]))
            }
            Kind::VlenUtf8 => Value::String(String::new()),
        }))
    }

    /// One element of `dtype`, in its byte order, that reads as this fill value. None reads as zeros.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the value is not one of `dtype`, or out of its range.
    pub fn to_bytes(&self, dtype: &DType) -> Result<Vec<u8>> {
        let bad = || Error::Invalid(format!("fill value {} is not a {dtype}", self.0));
        if self.0.is_null() {
            return Ok(vec![0; dtype.size]);
        }
        let mut bytes = match dtype.kind {
            Kind::Bool => {
                vec![u8::from(self.0.as_bool().or_else(|| Some(json_to_f64(&self.0)? != 0.0)).ok_or_else(bad)?)]
            }
            Kind::Int => {
                let v = self.0.as_i64().or_else(|| whole(&self.0)).ok_or_else(bad)?;
                let bits = dtype.size * 8;
                if bits < 64 && (v < -(1i64 << (bits - 1)) || v >= 1i64 << (bits - 1)) {
                    return Err(bad());
                }
                v.to_le_bytes()[..dtype.size].to_vec()
            }
            Kind::UInt => {
                let v = self.0.as_u64().or_else(|| u64::try_from(whole(&self.0)?).ok()).ok_or_else(bad)?;
                if dtype.size < 8 && v >> (dtype.size * 8) != 0 {
                    return Err(bad());
                }
                v.to_le_bytes()[..dtype.size].to_vec()
            }
            Kind::Float => float_to_le(json_to_f64(&self.0).ok_or_else(bad)?, dtype.size),
            Kind::Complex => {
                let half = dtype.size / 2;
                let (re, im) = match self.0.as_array().map(Vec::as_slice) {
                    Some([re, im]) => (json_to_f64(re).ok_or_else(bad)?, json_to_f64(im).ok_or_else(bad)?),
                    _ => (json_to_f64(&self.0).ok_or_else(bad)?, 0.0),
                };
                [float_to_le(re, half), float_to_le(im, half)].concat()
            }
            Kind::Bytes => {
                let text = self.0.as_str().ok_or_else(bad)?;
                let mut b = STANDARD.decode(text).map_err(|_| bad())?;
                if b.len() > dtype.size {
                    return Err(bad());
                }
                b.resize(dtype.size, 0);
                b
            }
            Kind::VlenUtf8 => Vec::new(),
        };
        if dtype.swap_size() > 1 && dtype.order == ByteOrder::Big {
            swap_in_place(&mut bytes, dtype.swap_size());
        }
        Ok(bytes)
    }
}

/// A float of 2, 4 or 8 little-endian bytes.
pub fn float_from_le(b: &[u8]) -> f64 {
    match *b {
        [a, b] => half::f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

/// A float in 2, 4 or 8 little-endian bytes, rounded to nearest.
pub fn float_to_le(v: f64, size: usize) -> Vec<u8> {
    match size {
        2 => half::f16::from_f64(v).to_le_bytes().to_vec(),
        4 => (v as f32).to_le_bytes().to_vec(),
        _ => v.to_le_bytes().to_vec(),
    }
}

/// A whole number written as a float (`-999.0`), exactly representable.
fn whole(value: &Value) -> Option<i64> {
    let v = value.as_f64()?;
    (v.fract() == 0.0 && v.abs() < 9.0e15).then_some(v as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(dtype: &str, bytes: &[u8]) -> String {
        let dtype = DType::parse(dtype).unwrap();
        let fill = Fill::from_bytes(&dtype, bytes).unwrap();
        let text = fill.to_text().unwrap();
        let back = Fill::parse(Some(&text));
        assert_eq!(back, fill);
        assert_eq!(back.to_bytes(&dtype).unwrap(), bytes, "{text}");
        text
    }

    #[test]
    fn exact_round_trips() {
        assert_eq!(round_trip("<i2", &(-999i16).to_le_bytes()), "-999");
        assert_eq!(round_trip(">i4", &7i32.to_be_bytes()), "7");
        assert_eq!(round_trip("<u8", &u64::MAX.to_le_bytes()), u64::MAX.to_string());
        assert_eq!(round_trip("<i8", &i64::MIN.to_le_bytes()), i64::MIN.to_string());
        for v in [1e37f32, 1e20, -9999.9, -1e34, 9.969_21e36, f32::MIN_POSITIVE, f32::INFINITY, f32::NEG_INFINITY, -0.0]
        {
            round_trip("<f4", &v.to_le_bytes());
            round_trip(">f4", &v.to_be_bytes());
        }
        assert_eq!(round_trip("<f8", &f64::NAN.to_le_bytes()), "\"NaN\"");
        assert_eq!(round_trip("<f2", &[0, 0x3c]), "1.0");
        assert_eq!(round_trip("|b1", &[1]), "true");
        assert_eq!(round_trip("|S3", b"ab\0"), "\"YWI=\"");
        round_trip("<c8", &[0, 0, 128, 63, 0, 0, 0, 64]);
    }

    #[test]
    fn reading_is_liberal_but_not_wrong() {
        let i2 = DType::parse("<i2").unwrap();
        assert_eq!(Fill::parse(Some("-999.0")).to_bytes(&i2).unwrap(), (-999i16).to_le_bytes());
        assert_eq!(Fill::parse(None).to_bytes(&i2).unwrap(), [0, 0]);
        assert_eq!(Fill::parse(Some("nan")).to_bytes(&DType::parse("<f4").unwrap()).unwrap()[3], 0x7f);
        for text in ["40000", "1.5", "\"x\"", "[1]"] {
            assert!(Fill::parse(Some(text)).to_bytes(&i2).is_err(), "{text}");
        }
        assert!(Fill::parse(Some("-1")).to_bytes(&DType::parse("<u4").unwrap()).is_err());
    }
}
