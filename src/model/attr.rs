//! CF attributes, as JSON with the numpy type of each.

use serde_json::{Map, Value};

/// One attribute.
///
/// `value` is a string, a number, or a list of either; floats that JSON can't hold are the strings `NaN`, `Infinity`,
/// `-Infinity`. An attribute of one number is a bare number.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Value,
    /// Numpy type string of the numbers (`<f4`), `|O` for text; None where it is not known.
    pub dtype: Option<String>,
}

/// Attributes in the order of the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(pub Vec<Attribute>);

impl Attributes {
    /// The attribute of that name.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|a| a.name == name)
    }

    /// Its text, if it is text (a list of one text counts).
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::String(s) => Some(s),
            Value::Array(list) if list.len() == 1 => list[0].as_str(),
            _ => None,
        }
    }

    /// Its number (the first of a list), if it is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        let attribute = self.get(name)?;
        let first = match &attribute.value {
            Value::Array(list) => list.first()?,
            v => v,
        };
        json_to_f64(first)
    }

    /// Adds or replaces an attribute.
    pub fn set(&mut self, attribute: Attribute) {
        match self.0.iter_mut().find(|a| a.name == attribute.name) {
            Some(old) => *old = attribute,
            None => self.0.push(attribute),
        }
    }

    /// `{name: value}`, the store's `attrs` column.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.iter().map(|a| (a.name.clone(), a.value.clone())).collect())
    }

    /// `{name: numpy type}` of those that have one, for `meta.attr_types`.
    pub fn types_json(&self) -> Map<String, Value> {
        self.0.iter().filter_map(|a| Some((a.name.clone(), Value::String(a.dtype.clone()?)))).collect()
    }

    /// From `{name: value}` and, where known, `{name: numpy type}`. None if `values` is not an object.
    pub fn from_json(values: &Value, types: Option<&Map<String, Value>>) -> Option<Attributes> {
        let of = |name: &String| types.and_then(|t| t.get(name)).and_then(Value::as_str).map(str::to_owned);
        let object = values.as_object()?;
        Some(Attributes(
            object.iter().map(|(k, v)| Attribute { name: k.clone(), value: v.clone(), dtype: of(k) }).collect(),
        ))
    }
}

/// A JSON number, or one of the strings that stand for the floats JSON lacks.
pub fn json_to_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) if s.eq_ignore_ascii_case("nan") => Some(f64::NAN),
        Value::String(s) if s.eq_ignore_ascii_case("infinity") => Some(f64::INFINITY),
        Value::String(s) if s.eq_ignore_ascii_case("-infinity") => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A float as JSON: a number, or the string that stands for it.
pub fn f64_to_json(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(n) => Value::Number(n),
        None if value.is_nan() => Value::String("NaN".into()),
        None if value > 0.0 => Value::String("Infinity".into()),
        None => Value::String("-Infinity".into()),
    }
}
