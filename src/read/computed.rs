//! Arrays whose values are in the store, or computed.

use crate::model::{ArrayDesc, ByteOrder, DType, Kind, float_from_le, float_to_le, swap_in_place};
use crate::{Error, Result};
use serde_json::Number;
use std::borrow::Cow;

fn error(desc: &ArrayDesc, what: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("array \"{}\": {what}", desc.name))
}

/// All values of an inline array, in C order and native byte order.
///
/// # Errors
/// [`Error::Invalid`] if there are none, or not as many as the shape says.
pub(super) fn inline<'a>(desc: &'a ArrayDesc, shape: &[u64]) -> Result<Cow<'a, [u8]>> {
    let values =
        desc.values.as_deref().ok_or_else(|| error(desc, "it is inline, but the store has no values of it"))?;
    let wanted = shape.iter().try_fold(desc.dtype.size as u64, |n, s| n.checked_mul(*s));
    if wanted != Some(values.len() as u64) {
        let what = format!("{} bytes of values, which are not {shape:?} elements of {}", values.len(), desc.dtype);
        return Err(error(desc, what));
    }
    Ok(if ByteOrder::NATIVE == ByteOrder::Little {
        Cow::Borrowed(values)
    } else {
        let mut values = values.to_vec();
        swap_if_big(&mut values, &desc.dtype);
        Cow::Owned(values)
    })
}

/// Values `start + (first + i · step) · step_of_the_array` for `i` below `count`, in native byte order.
///
/// # Errors
/// [`Error::Invalid`] if the array is not affine, or a value is not one of its type.
pub(super) fn affine(desc: &ArrayDesc, first: u64, count: u64, step: u64) -> Result<Vec<u8>> {
    let affine = desc.affine.as_ref().ok_or_else(|| error(desc, "it is affine, but has no start and step"))?;
    let dtype = &desc.dtype;
    let size = usize::try_from(count).ok().and_then(|n| n.checked_mul(dtype.size));
    let mut bytes = Vec::new();
    size.and_then(|n| bytes.try_reserve_exact(n).ok())
        .ok_or_else(|| error(desc, format!("no memory for {count} values")))?;
    let places = (0..count).map(|i| first + i * step);
    match dtype.kind {
        Kind::Int | Kind::UInt => {
            let (start, step) = (whole(desc, &affine.start)?, whole(desc, &affine.step)?);
            for i in places {
                let value = start + i128::from(i) * step;
                if !fits(value, dtype) {
                    return Err(error(desc, format!("value {value} at {i} is not a {dtype}")));
                }
                bytes.extend_from_slice(&value.to_le_bytes()[..dtype.size]);
            }
        }
        Kind::Float => places.for_each(|i| bytes.extend(float_to_le(affine.at(i), dtype.size))),
        _ => return Err(error(desc, format!("it is affine, but of type {dtype}"))),
    }
    swap_if_big(&mut bytes, dtype);
    Ok(bytes)
}

/// Turns little-endian values into native ones, or back.
pub(super) fn swap_if_big(values: &mut [u8], dtype: &DType) {
    if ByteOrder::NATIVE == ByteOrder::Big {
        swap_in_place(values, dtype.swap_size());
    }
}

/// A whole number, maybe written as `5.0`.
fn whole(desc: &ArrayDesc, number: &Number) -> Result<i128> {
    let float = || number.as_f64().filter(|v| v.fract() == 0.0 && v.abs() < 9.0e15).map(|v| v as i128);
    (number.as_i64().map(i128::from)).or_else(|| number.as_u64().map(i128::from)).or_else(float).ok_or_else(|| {
        error(desc, format!("start or step {number} is not a whole number, but the type is {}", desc.dtype))
    })
}

fn fits(value: i128, dtype: &DType) -> bool {
    let bits = dtype.size as u32 * 8;
    match dtype.kind {
        Kind::Int => value >= -(1i128 << (bits - 1)) && value < 1i128 << (bits - 1),
        _ => value >= 0 && value < 1i128 << bits,
    }
}

/// An element in native byte order as a float.
///
/// # Errors
/// [`Error::Invalid`] if it is not a number.
pub(super) fn number(desc: &ArrayDesc, element: &[u8]) -> Result<f64> {
    let mut wide = [0; 8];
    let little: Vec<u8> = match ByteOrder::NATIVE {
        ByteOrder::Little => element.to_vec(),
        ByteOrder::Big => element.iter().rev().copied().collect(),
    };
    let negative = desc.dtype.kind == Kind::Int && little.last().is_some_and(|b| b & 0x80 != 0);
    if negative {
        wide = [0xff; 8];
    }
    if little.len() <= 8 {
        wide[..little.len()].copy_from_slice(&little);
    }
    match desc.dtype.kind {
        Kind::Bool => Ok(f64::from(u8::from(wide[0] != 0))),
        Kind::Int => Ok(i64::from_le_bytes(wide) as f64),
        Kind::UInt => Ok(u64::from_le_bytes(wide) as f64),
        Kind::Float => Ok(float_from_le(&little)),
        _ => Err(error(desc, format!("{} is not a type of numbers", desc.dtype))),
    }
}
