//! Zarr v2 metadata as arrays of a store.

use super::{Collection, ZarrArray};
use crate::model::{ArrayDesc, ArrayKind, Storage};
use crate::scan::zarr::{dimensions, metadata};
use serde_json::Value;
use std::collections::BTreeMap;

/// Metadata by key (`group/array/.zarray`), as arrays by their folder. Attributes of groups go into `all`, and so do
/// those arrays that a store can't hold, with the reason. `own_name` is the name of an array that is the root.
pub fn arrays(all: &mut Collection, metadata: &BTreeMap<String, Value>, own_name: &str) -> BTreeMap<String, ZarrArray> {
    let mut found = BTreeMap::new();
    let empty = Value::Null;
    for (key, value) in metadata {
        let (folder, file) = key.rsplit_once('/').unwrap_or(("", key));
        let beside = |file: &str| {
            let key = if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") };
            metadata.get(&key)
        };
        match file {
            ".zarray" => match metadata::v2(value, beside(".zattrs").unwrap_or(&empty)) {
                Ok(meta) => {
                    found.insert(folder.to_owned(), meta);
                }
                Err(why) => all.lost.push(format!("array \"{folder}\": {why}")),
            },
            ".zattrs" if beside(".zarray").is_none() => {
                let attributes = metadata::group_attributes(value);
                if folder.is_empty() {
                    all.attributes = attributes;
                } else if !attributes.0.is_empty() {
                    all.groups.push((folder.to_owned(), attributes));
                }
            }
            "zarr.json" => all.lost.push(format!("\"{key}\": metadata of Zarr 3")),
            _ => {}
        }
    }
    let dims = dimensions(&found);
    let mut arrays = BTreeMap::new();
    for ((folder, meta), dims) in found.into_iter().zip(dims) {
        let name = if folder.is_empty() { own_name.to_owned() } else { folder.clone() };
        let dims: Vec<String> = dims.into_iter().map(|d| d.name).collect();
        let labels = dims.len() == 1 && dims[0] == name;
        let desc = ArrayDesc {
            name,
            kind: if labels { ArrayKind::Coord } else { ArrayKind::Data },
            storage: Storage::Referenced,
            dims,
            shape: Some(meta.shape.clone()),
            chunks: meta.chunks.clone(),
            dtype: meta.dtype,
            fill: meta.fill.clone(),
            codec: meta.codec.clone(),
            attrs: meta.attrs.clone(),
            affine: None,
            values: None,
        };
        arrays.insert(folder, ZarrArray { desc, info: metadata::info(&meta), meta });
    }
    arrays
}
