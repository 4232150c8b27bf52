//! Zarr v2 metadata of a store's arrays.

use crate::codec::{CodecOptions, Pipeline};
use crate::model::{ArrayDesc, ByteOrder, CodecSpec, Kind, Storage};
use crate::{Error, Result};
use serde_json::{Map, Value, json};

/// Compressors of Zarr v2: where a codec lists all in `filters`, the last of them goes into `compressor`.
const COMPRESSORS: [&str; 8] = ["zlib", "gzip", "zstd", "blosc", "lz4", "bz2", "lzma", "lzf"];

/// Filters that numcodecs knows by these names and parameters.
const FILTERS: [&str; 8] =
    ["shuffle", "fletcher32", "delta", "fixedscaleoffset", "quantize", "bitround", "vlen-utf8", "crc32"];

/// How an array is written.
#[derive(Clone, Debug)]
pub struct ZarrArray {
    /// Text of `.zarray`.
    pub zarray: Value,
    /// Text of `.zattrs`.
    pub zattrs: Value,
    /// An absent chunk, encoded; None if it is left out, and reads as `fill_value`.
    pub absent: Option<Vec<u8>>,
}

fn id(codec: &Value) -> &str {
    codec.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// The codec as Zarr v2 readers want it: filters, then a compressor; shuffle with its element size.
///
/// # Errors
/// What Zarr v2 does not hold.
fn codec(desc: &ArrayDesc) -> Result<CodecSpec, String> {
    let mut spec = desc.codec.clone();
    if spec.compressor.is_none() && spec.filters.last().is_some_and(|f| COMPRESSORS.contains(&id(f))) {
        spec.compressor = spec.filters.pop();
    }
    for filter in &mut spec.filters {
        let name = id(filter).to_owned();
        if !FILTERS.contains(&name.as_str()) && !COMPRESSORS.contains(&name.as_str()) {
            return Err(format!("its codec {filter} is none of Zarr v2"));
        }
        if name == "shuffle"
            && let Some(object) = filter.as_object_mut()
        {
            object.entry("elementsize").or_insert_with(|| desc.dtype.size.into());
        }
    }
    match spec.compressor.as_ref().map(id) {
        Some(name) if !COMPRESSORS.contains(&name) && !FILTERS.contains(&name) => {
            Err(format!("its codec {name} is none of Zarr v2"))
        }
        _ => Ok(spec),
    }
}

/// The metadata of an array.
///
/// `fill_value` is at once what a missing chunk reads as and what readers take for missing values (`_FillValue`). Where
/// a store says different things of the two, absent chunks are written and `fill_value` is the attribute's.
///
/// # Errors
/// What Zarr v2 does not hold, in words.
pub fn array(desc: &ArrayDesc, leave_out_absent: bool) -> Result<ZarrArray, String> {
    let shape = desc.shape.clone().ok_or("it has no plan")?;
    let referenced = desc.storage == Storage::Referenced;
    let mut attrs: Map<String, Value> = desc.attrs.to_json().as_object().cloned().unwrap_or_default();
    let missing = attrs.get("_FillValue").map(|v| match v {
        Value::Array(list) if list.len() == 1 => list[0].clone(),
        v => v.clone(),
    });
    let bytes = |v: &Value| crate::model::Fill(v.clone()).to_bytes(&desc.dtype).ok();
    let fill_bytes = desc.fill.to_bytes(&desc.dtype).ok();
    let is_vlen = desc.dtype.kind == Kind::VlenUtf8;
    let same = missing.as_ref().is_some_and(|m| bytes(m).is_some() && bytes(m) == fill_bytes);
    let (fill_value, write_absent) = if is_vlen {
        (Value::String(String::new()), false)
    } else if !referenced {
        (missing.clone().filter(|m| bytes(m).is_some()).unwrap_or(Value::Null), false)
    } else if same || leave_out_absent {
        (desc.fill.0.clone(), false)
    } else {
        (missing.clone().filter(|m| bytes(m).is_some()).unwrap_or(Value::Null), true)
    };
    if !fill_value.is_null() && missing.as_ref().is_some_and(|m| bytes(m) == bytes(&fill_value)) {
        attrs.shift_remove("_FillValue");
    }
    let dims: Vec<&str> = desc.dims.iter().map(|d| d.rsplit('/').next().unwrap_or(d)).collect();
    attrs.insert("_ARRAY_DIMENSIONS".into(), json!(dims));
    let (spec, chunks, dtype) = if referenced {
        (codec(desc)?, desc.chunks.clone(), desc.dtype)
    } else {
        let filters = if is_vlen { vec![json!({"id": "vlen-utf8"})] } else { Vec::new() };
        let whole = shape.iter().map(|s| (*s).max(1)).collect();
        (CodecSpec { compressor: None, filters }, whole, desc.dtype.with_order(ByteOrder::Little))
    };
    let absent = if write_absent { Some(encoded_fill(desc).map_err(|e| e.to_string())?) } else { None };
    Ok(ZarrArray {
        zarray: json!({
            "zarr_format": 2,
            "shape": shape,
            "chunks": chunks,
            "dtype": dtype.to_string(),
            "compressor": spec.compressor,
            "filters": if spec.filters.is_empty() { Value::Null } else { Value::Array(spec.filters) },
            "fill_value": fill_value,
            "order": "C",
        }),
        zattrs: Value::Object(attrs),
        absent,
    })
}

/// Largest chunk of fill that is made (bytes).
const MOST_FILL: usize = 1 << 28;

/// A chunk of fill, encoded with the array's codec.
fn encoded_fill(desc: &ArrayDesc) -> Result<Vec<u8>> {
    let elements = desc.chunks.iter().try_fold(1usize, |n, c| n.checked_mul(usize::try_from(*c).ok()?));
    let elements = elements
        .filter(|n| n.checked_mul(desc.dtype.size).is_some_and(|b| b <= MOST_FILL))
        .ok_or_else(|| Error::Invalid(format!("chunks of {:?} are too large to write absent ones", desc.chunks)))?;
    let pipeline = Pipeline::new(&desc.codec, &desc.dtype, elements, CodecOptions::default())?;
    pipeline.encode(&desc.fill.to_bytes(&desc.dtype)?.repeat(elements))
}

/// Groups that the arrays' names imply, the root (`""`) first.
pub fn groups<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut groups = std::collections::BTreeSet::from([String::new()]);
    for name in names {
        for (at, _) in name.match_indices('/') {
            groups.insert(name[..at].to_owned());
        }
    }
    groups.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ArrayKind, Attributes, DType, Fill};

    fn desc(fill: &str, attrs: Value, codec: &str) -> ArrayDesc {
        ArrayDesc {
            name: "g/v".into(),
            kind: ArrayKind::Data,
            storage: Storage::Referenced,
            dims: vec!["g/y".into(), "x".into()],
            shape: Some(vec![3, 4]),
            chunks: vec![2, 2],
            dtype: DType::parse(">i2").unwrap(),
            fill: Fill::parse(Some(fill)),
            codec: CodecSpec::parse(codec).unwrap(),
            attrs: Attributes::from_json(&attrs, None).unwrap(),
            affine: None,
            values: None,
        }
    }

    #[test]
    fn fill_and_missing_values() {
        let none = r#"{"compressor":null,"filters":null}"#;
        let zarr = array(&desc("-9", json!({"_FillValue": -9}), none), false).unwrap();
        assert_eq!((&zarr.zarray["fill_value"], &zarr.absent), (&json!(-9), &None));
        assert_eq!(zarr.zattrs, json!({"_ARRAY_DIMENSIONS": ["y", "x"]}));
        let zarr = array(&desc("1", json!({"_FillValue": [-9]}), none), false).unwrap();
        assert_eq!(zarr.zarray["fill_value"], json!([-9][0]));
        assert_eq!(zarr.absent.unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]);
        let zarr = array(&desc("1", json!({}), none), false).unwrap();
        assert_eq!((&zarr.zarray["fill_value"], zarr.absent.is_some()), (&Value::Null, true));
        let zarr = array(&desc("1", json!({}), none), true).unwrap();
        assert_eq!((&zarr.zarray["fill_value"], zarr.absent), (&json!(1), None));
    }

    #[test]
    fn codecs() {
        let all = r#"{"compressor":null,"filters":[{"id":"shuffle"},{"id":"zlib","level":4}]}"#;
        let zarr = array(&desc("0", json!({}), all), true).unwrap().zarray;
        assert_eq!(zarr["filters"], json!([{"id": "shuffle", "elementsize": 2}]));
        assert_eq!(zarr["compressor"], json!({"id": "zlib", "level": 4}));
        let hdf5 = r#"{"compressor":null,"filters":[{"id":"hdf5","filter":307,"cd_values":[]}]}"#;
        assert!(array(&desc("0", json!({}), hdf5), true).unwrap_err().contains("307"));
    }

    #[test]
    fn implied_groups() {
        assert_eq!(groups(["a", "g/h/v"].into_iter()), ["", "g", "g/h"]);
    }
}
