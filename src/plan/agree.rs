//! Whether arrays of two sources can be parts of one array.
//!
//! One array has one data type, chunk shape, codec and storage fill, and one meaning of its numbers: scale, offset, unit,
//! no-data, calendar. A source that disagrees is refused with both values; nothing is guessed.

use crate::model::{Attribute, Attributes, CodecSpec, Fill};
use crate::scan::SourceArray;
use crate::{Error, Result};
use serde_json::Value;

/// Attributes that say what the numbers mean. Missing and present differ, except for the neutral values of
/// `scale_factor` and `add_offset`.
const MEANING: [&str; 7] =
    ["scale_factor", "add_offset", "_FillValue", "missing_value", "units", "calendar", "_Unsigned"];

/// What an array of the whole has, as its first source said.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The source that said so, for messages.
    pub source: String,
    /// The array in that source.
    pub array: SourceArray,
}

impl Reference {
    /// Whether `array` of `source` can be a part of the array `name`, which `self` describes.
    ///
    /// # Errors
    /// [`Error::Plan`] with source, array and both values of the first thing that differs.
    pub fn check(&self, name: &str, source: &str, array: &SourceArray) -> Result<()> {
        let first = &self.array;
        let differ = |what: &str, theirs: String, ours: String| {
            Err(Error::Plan(format!(
                "{source}: array \"{name}\": its {what} is {theirs}, but {ours} in {}: one array has one {what}",
                self.source
            )))
        };
        if array.dtype != first.dtype {
            return differ("data type", array.dtype.to_string(), first.dtype.to_string());
        }
        if array.dims.len() != first.dims.len() {
            return differ("number of dimensions", array.dims.len().to_string(), first.dims.len().to_string());
        }
        if array.chunks != first.chunks {
            return differ("chunk shape", format!("{:?}", array.chunks), format!("{:?}", first.chunks));
        }
        if without_level(&array.codec) != without_level(&first.codec) {
            return differ("codec", array.codec.to_json(), first.codec.to_json());
        }
        if !same_fill(&array.fill, &first.fill) {
            return differ("storage fill value", fill_text(&array.fill), fill_text(&first.fill));
        }
        for attribute in MEANING {
            let (theirs, ours) = (array.attrs.get(attribute), first.attrs.get(attribute));
            if !same_meaning(attribute, theirs, ours) {
                return differ(attribute, attribute_text(theirs), attribute_text(ours));
            }
        }
        Ok(())
    }
}

/// The codec without what only matters when encoding.
fn without_level(codec: &CodecSpec) -> Vec<Value> {
    codec
        .encode_order()
        .map(|c| {
            let mut c = c.clone();
            if matches!(c.get("id").and_then(Value::as_str), Some("zlib" | "gzip"))
                && let Some(object) = c.as_object_mut()
            {
                object.remove("level");
            }
            c
        })
        .collect()
}

/// An unset fill value reads as zero.
fn same_fill(a: &Fill, b: &Fill) -> bool {
    let zero = |f: &Fill| f.is_none() || f.0.as_f64() == Some(0.0) || f.0.as_str() == Some("");
    a == b || (zero(a) && zero(b))
}

fn fill_text(fill: &Fill) -> String {
    fill.to_text().unwrap_or_else(|| "not set".into())
}

/// The value of an attribute for messages.
pub fn attribute_text(attribute: Option<&Attribute>) -> String {
    attribute.map_or_else(|| "not set".into(), |a| a.value.to_string())
}

/// One number or text, out of a list of one.
fn scalar(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([one]) => one,
        _ => value,
    }
}

/// Numbers are equal as numbers, whatever their type; anything else as it is.
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (scalar(a), scalar(b)) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_value(x, y)),
        (x, y) => x == y,
    }
}

fn same_meaning(name: &str, a: Option<&Attribute>, b: Option<&Attribute>) -> bool {
    let neutral = match name {
        "scale_factor" => Some(1.0),
        "add_offset" => Some(0.0),
        _ => None,
    };
    match (a, b) {
        (Some(a), Some(b)) if name == "calendar" => {
            crate::plan::time::calendars_equal(a.value.as_str(), b.value.as_str())
        }
        (Some(a), Some(b)) => same_value(&a.value, &b.value),
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => {
            neutral.is_some_and(|n| scalar(&one.value).as_f64() == Some(n)) || (name == "calendar" && is_standard(one))
        }
    }
}

fn is_standard(calendar: &Attribute) -> bool {
    crate::plan::time::calendars_equal(calendar.value.as_str(), None)
}

/// Keeps of `kept` what `other` has too, with the same value and type.
pub fn keep_common(kept: &mut Attributes, other: &Attributes) {
    kept.0.retain(|a| other.get(&a.name) == Some(a));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DType, Dim};
    use serde_json::json;

    fn array() -> SourceArray {
        SourceArray {
            name: "v".into(),
            dims: vec![Dim { name: "x".into(), size: 4 }],
            chunks: vec![2],
            dtype: DType::parse("<i2").unwrap(),
            fill: Fill::parse(Some("-1")),
            codec: CodecSpec::parse(
                r#"{"compressor":{"id":"zlib","level":1},"filters":[{"id":"shuffle","elementsize":2}]}"#,
            )
            .unwrap(),
            info: String::new(),
            attrs: Attributes::default(),
            contiguous: false,
        }
    }

    fn attribute(name: &str, value: Value) -> Attribute {
        Attribute { name: name.into(), value, dtype: None }
    }

    fn check(change: impl Fn(&mut SourceArray)) -> Result<()> {
        let mut other = array();
        change(&mut other);
        Reference { source: "a.nc".into(), array: array() }.check("v", "b.nc", &other)
    }

    #[test]
    fn what_may_differ() {
        check(|_| {}).unwrap();
        check(|a| a.codec.compressor = Some(json!({"id": "zlib", "level": 9}))).unwrap();
        check(|a| a.attrs.set(attribute("scale_factor", json!(1.0)))).unwrap();
        check(|a| a.attrs.set(attribute("add_offset", json!([0])))).unwrap();
        check(|a| a.attrs.set(attribute("calendar", json!("Gregorian")))).unwrap();
        check(|a| a.attrs.set(attribute("long_name", json!("other")))).unwrap();
    }

    #[test]
    fn what_may_not_names_both_values() {
        type Change = fn(&mut SourceArray);
        let cases: [(&str, &str, &str, Change); 8] = [
            ("data type", "<i4", "<i2", |a| a.dtype = DType::parse("<i4").unwrap()),
            ("chunk shape", "[4]", "[2]", |a| a.chunks = vec![4]),
            ("codec", "\"compressor\":null", "zlib", |a| a.codec.compressor = None),
            ("storage fill value", "7", "-1", |a| a.fill = Fill::parse(Some("7"))),
            ("scale_factor", "0.5", "not set", |a| a.attrs.set(attribute("scale_factor", json!(0.5)))),
            ("units", "\"K\"", "not set", |a| a.attrs.set(attribute("units", json!("K")))),
            ("calendar", "\"noleap\"", "not set", |a| a.attrs.set(attribute("calendar", json!("noleap")))),
            ("_FillValue", "-9", "not set", |a| a.attrs.set(attribute("_FillValue", json!(-9)))),
        ];
        for (what, theirs, ours, change) in cases {
            let message = check(change).unwrap_err().to_string();
            for part in [what, theirs, ours, "a.nc", "b.nc", "\"v\""] {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(same_value(&json!([1]), &json!(1.0)));
        assert!(!same_value(&json!(u64::MAX), &json!(u64::MAX - 1)));
        assert!(!same_value(&json!("1"), &json!(1)));
        assert!(same_value(&json!([1, 2]), &json!([1.0, 2])));
    }
}
