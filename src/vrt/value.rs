//! Types, numbers and attributes.

use super::xml::{Element, Xml};
use crate::model::{Attribute, ByteOrder, DType, Kind, f64_to_json};
use crate::{Error, Result};
use serde_json::Value;

/// A number as GDAL writes it: C's `%.17g` with `nan`, `inf` and `-inf`.
pub(super) fn parse_f64(text: &str) -> Option<f64> {
    // Rust's own parser takes the same forms, in any case.
    text.trim().parse().ok()
}

/// A list of sizes, separated by commas or spaces.
pub(super) fn parse_sizes(text: &str) -> Option<Vec<u64>> {
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse().ok()).flatten();
    words(text).map(digits).collect()
}

/// The parts of a list separated by commas or white space.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t', '\r', '\n']).filter(|t| !t.is_empty())
}

/// The data type that GDAL calls `name`; None if no numpy type equals it, as for complex integers.
pub(super) fn parse_type(name: &str) -> Option<DType> {
    let (kind, size) = match name.to_ascii_lowercase().as_str() {
        "byte" | "uint8" => (Kind::UInt, 1),
        "int8" => (Kind::Int, 1),
        "uint16" => (Kind::UInt, 2),
        "int16" => (Kind::Int, 2),
        "uint32" => (Kind::UInt, 4),
        "int32" => (Kind::Int, 4),
        "uint64" => (Kind::UInt, 8),
        "int64" => (Kind::Int, 8),
        "float16" => (Kind::Float, 2),
        "float32" => (Kind::Float, 4),
        "float64" => (Kind::Float, 8),
        "cfloat32" => (Kind::Complex, 8),
        "cfloat64" => (Kind::Complex, 16),
        "string" => (Kind::VlenUtf8, 0),
        _ => return None,
    };
    Some(DType::new(kind, size, ByteOrder::Little))
}

/// Reads `<DataType>`: GDAL's name, and the numpy type; `place` says of what.
pub(super) fn read_type(xml: &mut Xml, place: &str) -> Result<(String, DType)> {
    let text = xml.text()?;
    let name = text.trim();
    match parse_type(name) {
        Some(dtype) => Ok((name.to_owned(), dtype)),
        None => Err(Error::Plan(format!("{place}: data type \"{name}\" is not supported"))),
    }
}

/// Reads `<Attribute>`; `place` says of what.
pub(super) fn read_attribute(xml: &mut Xml, element: &Element, place: &str) -> Result<Attribute> {
    let name = xml
        .attribute(element, "name")?
        .ok_or_else(|| Error::Plan(format!("{place}: an <Attribute> has no name")))?
        .into_owned();
    let place = format!("{place}, attribute \"{name}\"");
    let mut dtype = None;
    let mut texts = Vec::new();
    while let Some(child) = xml.child()? {
        match child.name() {
            "DataType" => dtype = Some(read_type(xml, &place)?.1),
            "Value" => texts.push(xml.text()?),
            _ => xml.skip()?,
        }
    }
    let dtype = dtype.ok_or_else(|| Error::Plan(format!("{place}: <DataType> is missing")))?;
    let mut values = texts
        .into_iter()
        .map(|text| {
            attribute_value(&dtype, text).map_err(|t| Error::Plan(format!("{place}: \"{t}\" is not a {dtype}")))
        })
        .collect::<Result<Vec<Value>>>()?;
    let value = match (values.len(), dtype.kind) {
        (1, _) => values.swap_remove(0),
        (0, Kind::VlenUtf8) => Value::String(String::new()),
        _ => Value::Array(values),
    };
    Ok(Attribute { name, value, dtype: Some(dtype.to_string()) })
}

/// One value of an attribute as JSON, or the text back if it is not one of `dtype`. A float32 is the float64 that
/// equals it.
fn attribute_value(dtype: &DType, text: String) -> Result<Value, String> {
    let number = text.trim();
    let value = match dtype.kind {
        Kind::VlenUtf8 | Kind::Bytes => return Ok(Value::String(text)),
        // A complex number keeps its text (`1+2j`).
        Kind::Complex => return Ok(Value::String(text)),
        Kind::Bool | Kind::UInt => number.parse::<u64>().ok().map(Value::from),
        Kind::Int => number.parse::<i64>().ok().map(Value::from),
        Kind::Float if dtype.size == 4 => number.parse::<f32>().ok().map(|v| f64_to_json(f64::from(v))),
        Kind::Float => parse_f64(number).map(f64_to_json),
    };
    value.ok_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_gdal_is_known_or_refused() {
        for (name, dtype) in [
            ("Byte", "|u1"),
            ("UInt8", "|u1"),
            ("Int8", "|i1"),
            ("UInt16", "<u2"),
            ("Int16", "<i2"),
            ("UInt32", "<u4"),
            ("Int32", "<i4"),
            ("UInt64", "<u8"),
            ("Int64", "<i8"),
            ("Float16", "<f2"),
            ("Float32", "<f4"),
            ("Float64", "<f8"),
            ("CFloat32", "<c8"),
            ("CFloat64", "<c16"),
            ("String", "|O"),
        ] {
            assert_eq!(parse_type(name).unwrap().to_string(), dtype);
        }
        for name in ["Unknown", "CInt16", "CInt32", "CFloat16", "", "Int"] {
            assert!(parse_type(name).is_none(), "{name}");
        }
    }

    #[test]
    fn numbers_as_gdal_writes_them() {
        assert_eq!(parse_f64("0.0099999997764825821"), Some(f64::from(0.01f32)));
        assert_eq!(parse_f64("1.00000002004087734e+20"), Some(f64::from(1e20f32)));
        assert!(parse_f64("nan").unwrap().is_nan());
        assert_eq!(parse_f64("-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_f64("x"), None);
        assert_eq!(parse_sizes("1,1, 720,1440"), Some(vec![1, 1, 720, 1440]));
        assert_eq!(parse_sizes(""), Some(vec![]));
        for text in ["-1", "+1", "1.0", "1,x", "99999999999999999999"] {
            assert_eq!(parse_sizes(text), None, "{text}");
        }
    }

    #[test]
    fn attribute_values_keep_their_type() {
        let value = |dtype: &str, text: &str| attribute_value(&DType::parse(dtype).unwrap(), text.into());
        assert_eq!(value("<f4", "9.99999987e+14").unwrap(), Value::from(f64::from(1e15f32)));
        assert_eq!(value("<i8", "-9223372036854775808").unwrap(), Value::from(i64::MIN));
        assert_eq!(value("<u8", "18446744073709551615").unwrap(), Value::from(u64::MAX));
        assert_eq!(value("<f8", "nan").unwrap(), Value::from("NaN"));
        assert_eq!(value("|O", " a ").unwrap(), Value::from(" a "));
        assert!(value("<i2", "1.5").is_err());
    }
}
