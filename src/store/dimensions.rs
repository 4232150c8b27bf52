//! `meta.dimensions`: what GDAL knows of dimensions beside their names.

use crate::model::DimInfo;
use serde_json::{Map, Value};

/// `{name: {"size":…, "type":…, "direction":…, "variable":…, "srs":…}}`; empty values are left out.
pub fn to_json(dimensions: &[(String, DimInfo)]) -> String {
    let object: Map<String, Value> = dimensions
        .iter()
        .map(|(name, info)| {
            let mut object = Map::new();
            object.insert("size".into(), info.size.into());
            let texts = [
                ("type", Some(&info.kind)),
                ("direction", Some(&info.direction)),
                ("variable", info.variable.as_ref()),
                ("srs", info.srs.as_ref()),
            ];
            for (key, text) in texts {
                if let Some(text) = text.filter(|t| !t.is_empty()) {
                    object.insert(key.into(), text.as_str().into());
                }
            }
            (name.clone(), Value::Object(object))
        })
        .collect();
    Value::Object(object).to_string()
}

/// Reads `meta.dimensions`; what is not understood is ignored.
pub fn from_json(text: &str) -> Vec<(String, DimInfo)> {
    let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Vec::new() };
    object
        .into_iter()
        .map(|(name, value)| {
            let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            let info = DimInfo {
                size: value.get("size").and_then(Value::as_u64).unwrap_or(0),
                kind: text("type").unwrap_or_default(),
                direction: text("direction").unwrap_or_default(),
                variable: text("variable"),
                srs: text("srs"),
            };
            (name, info)
        })
        .collect()
}
