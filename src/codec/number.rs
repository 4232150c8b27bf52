//! Numbers of any type, for codecs that compute.

use super::config::{Config, codec_error};
use crate::Result;
use crate::model::{ByteOrder, DType, Kind, float_from_le, float_to_le};

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        }
    }
}

/// The type that `key` of a configuration names; `default` if there is none.
pub(super) fn dtype(config: &Config<'_>, key: &str, default: Option<&DType>) -> Result<DType> {
    let dtype = match (config.text(key)?, default) {
        (Some(text), _) => DType::parse(text).map_err(|e| config.error(&e.to_string()))?,
        (None, Some(default)) => *default,
        (None, None) => return Err(config.error(&format!("\"{key}\" is missing"))),
    };
    match dtype.kind {
        Kind::Int | Kind::UInt | Kind::Bool if matches!(dtype.size, 1 | 2 | 4 | 8) => Ok(dtype),
        Kind::Float if matches!(dtype.size, 2 | 4 | 8) => Ok(dtype),
        _ => Err(config.error(&format!("\"{key}\": {dtype} is not supported"))),
    }
}

/// Reads an element of `dtype`.
pub(super) fn read(dtype: &DType, element: &[u8]) -> Number {
    let mut wide = [0; 8];
    for (i, b) in element.iter().enumerate().take(8) {
        let at = if dtype.order == ByteOrder::Big { element.len() - 1 - i } else { i };
        wide[at] = *b;
    }
    let shift = 64 - 8 * element.len().clamp(1, 8) as u32;
    match dtype.kind {
        Kind::Float => Number::Float(float_from_le(&wide[..element.len().min(8)])),
        Kind::Int => Number::Int(i128::from((u64::from_le_bytes(wide) << shift) as i64 >> shift)),
        _ => Number::Int(i128::from(u64::from_le_bytes(wide))),
    }
}

/// Writes an element of `dtype`: integers wrap, floats are cut to integers, as numpy's `astype` does.
///
/// # Errors
/// [`crate::Error::Codec`] for a float that is no integer of the type: numpy's result is undefined.
pub(super) fn write(codec: &str, number: Number, dtype: &DType, element: &mut [u8]) -> Result<()> {
    match (number, dtype.kind) {
        (Number::Float(v), Kind::Float) => element.copy_from_slice(&float_to_le(v, dtype.size)),
        // At once, not by way of a float64, so that it is rounded once.
        (Number::Int(v), Kind::Float) if dtype.size == 4 => element.copy_from_slice(&(v as f32).to_le_bytes()),
        (Number::Int(v), Kind::Float) => element.copy_from_slice(&float_to_le(v as f64, dtype.size)),
        (Number::Int(v), Kind::Bool) => element[0] = u8::from(v != 0),
        (Number::Float(v), Kind::Bool) => element[0] = u8::from(v != 0.0),
        (Number::Int(v), _) => element.copy_from_slice(&v.to_le_bytes()[..dtype.size]),
        (Number::Float(v), _) => {
            let (whole, bits) = (v.trunc(), dtype.size as i32 * 8);
            let (low, high) = match dtype.kind {
                Kind::Int => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
                _ => (0.0, 2f64.powi(bits)),
            };
            if !(low..high).contains(&whole) {
                return Err(codec_error(codec, format!("{v} is not a {dtype}")));
            }
            element.copy_from_slice(&(whole as i128).to_le_bytes()[..dtype.size]);
        }
    }
    if dtype.order == ByteOrder::Big {
        element.reverse();
    }
    Ok(())
}
