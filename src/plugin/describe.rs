//! A store's metadata as JSON, in GDAL's terms: what `cpp/store.cpp` reads once.

use crate::Result;
use crate::model::{ArrayDesc, ArrayKind, Attribute, Attributes, ByteOrder, DType, DimInfo, Kind, json_to_f64};
use crate::plan::cf::Degrees;
use crate::read::Reader;
use crate::store::Store;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// GDAL's name of a data type.
fn gdal_type(dtype: &DType) -> &'static str {
    match (dtype.kind, dtype.size) {
        (Kind::Bool, _) | (Kind::UInt, 1) => "Byte",
        (Kind::UInt, 2) => "UInt16",
        (Kind::UInt, 4) => "UInt32",
        (Kind::UInt, _) => "UInt64",
        (Kind::Int, 1) => "Int8",
        (Kind::Int, 2) => "Int16",
        (Kind::Int, 4) => "Int32",
        (Kind::Int, _) => "Int64",
        (Kind::Float, 2) => "Float16",
        (Kind::Float, 4) => "Float32",
        (Kind::Float, _) => "Float64",
        (Kind::Complex, 8) => "CFloat32",
        (Kind::Complex, _) => "CFloat64",
        (Kind::Bytes | Kind::VlenUtf8, _) => "String",
    }
}

fn number_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(u8::from(*b).to_string()),
        _ => json_to_f64(value).map(|v| v.to_string()),
    }
}

fn attribute(a: &Attribute) -> Option<Value> {
    let single = !a.value.is_array();
    let list = match &a.value {
        Value::Array(list) => list.clone(),
        value => vec![value.clone()],
    };
    let declared = a.dtype.as_deref().and_then(|t| DType::parse(t).ok());
    let is_text = match &declared {
        Some(dtype) => !dtype.is_numeric(),
        None => {
            list.iter().any(|v| v.is_string() && json_to_f64(v).is_none()) || list.is_empty() || a.value.is_string()
        }
    };
    let (kind, values) = if is_text {
        let values = list.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect::<Vec<_>>();
        ("String", values)
    } else {
        let whole = list.iter().all(|v| v.is_i64() || v.is_u64());
        let guess = || {
            if !whole {
                "Float64"
            } else if list.iter().all(|v| v.as_i64().is_some_and(|i| i32::try_from(i).is_ok())) {
                "Int32"
            } else {
                "Int64"
            }
        };
        let kind = declared.as_ref().map_or_else(guess, gdal_type);
        (kind, list.iter().map(number_text).collect::<Option<Vec<_>>>()?)
    };
    let shape: Vec<usize> = if single { Vec::new() } else { vec![values.len()] };
    Some(json!({"name": a.name, "type": kind, "shape": shape, "values": values}))
}

fn attributes(list: &Attributes) -> Vec<Value> {
    list.0.iter().filter_map(attribute).collect()
}

/// Parent, own name, full name, as GDAL has them.
fn names(full: &str) -> (String, String, String) {
    match full.rsplit_once('/') {
        Some((parent, own)) => (format!("/{parent}"), own.to_owned(), format!("/{full}")),
        None => ("/".into(), full.to_owned(), format!("/{full}")),
    }
}

/// The whole description.
///
/// # Errors
/// None at present.
pub fn describe(reader: &Reader) -> Result<String> {
    let store = reader.store();
    let planned: Vec<&ArrayDesc> = store.arrays().iter().collect();
    // Groups: all that hold an array.
    let mut groups: BTreeSet<String> = BTreeSet::new();
    let broken = store.broken().iter().map(|(name, _)| name.as_str());
    for full in planned.iter().map(|desc| desc.name.as_str()).chain(broken) {
        let mut name = full;
        while let Some((parent, _)) = name.rsplit_once('/') {
            groups.insert(parent.to_owned());
            name = parent;
        }
    }
    let mut group_list = vec![json!({
        "parent": "", "name": "/", "full_name": "/",
        "attributes": attributes(store.group_attrs("").unwrap_or(&Attributes::default())),
    })];
    for group in &groups {
        let (parent, name, full) = names(group);
        let attrs = store.group_attrs(group).cloned().unwrap_or_default();
        group_list.push(json!({"parent": parent, "name": name, "full_name": full, "attributes": attributes(&attrs)}));
    }
    // Dimensions: one for each name and length, so that arrays of two sizes never share one.
    let mut dimensions: Vec<(String, u64)> = Vec::new();
    let mut arrays = Vec::new();
    for desc in &planned {
        // An array that has no plan has no shape, so no dimensions either.
        let shape = desc.shape.as_deref().unwrap_or_default();
        let numbers: Vec<usize> = desc
            .dims
            .iter()
            .zip(shape)
            .map(|(name, size)| {
                let key = (name.clone(), *size);
                dimensions.iter().position(|d| *d == key).unwrap_or_else(|| {
                    dimensions.push(key);
                    dimensions.len() - 1
                })
            })
            .collect();
        arrays.push(array(store, desc, &numbers));
    }
    for (broken, why) in store.broken() {
        let (parent, name, full) = names(broken);
        arrays.push(json!({
            "parent": parent, "name": name, "full_name": full, "type": "Byte", "dimensions": [],
            "error": format!("MDIMREFS: {}: array \"{broken}\": {why}", store.path()),
        }));
    }
    let dimension_list: Vec<Value> = dimensions.iter().map(|(name, size)| dimension(store, name, *size)).collect();
    Ok(json!({
        "context": format!("generation {}", store.generation()),
        "groups": group_list, "dimensions": dimension_list, "arrays": arrays,
    })
    .to_string())
}

/// What is known of a dimension of this name and length: the plan's word, else what its coordinate's attributes say.
/// Also the number of the array that labels it.
fn dimension_info(store: &Store, name: &str, size: u64) -> (DimInfo, Option<usize>) {
    let planned = store.dimensions().iter().find(|(n, _)| n == name).map(|(_, d)| d.clone());
    let mut info = planned.unwrap_or_default();
    let labels = |a: &ArrayDesc| a.shape.as_deref() == Some(&[size]) && a.dims == [name];
    let named = info.variable.as_deref().unwrap_or(name);
    let variable = store.arrays().iter().position(|a| a.name == named && labels(a));
    if let Some(v) = variable.filter(|_| info.kind.is_empty()) {
        let (kind, direction) = crate::plan::cf::kind_and_direction(&store.arrays()[v].attrs);
        (info.kind, info.direction) = (kind.to_owned(), direction.to_owned());
    }
    (info, variable)
}

fn dimension(store: &Store, full_name: &str, size: u64) -> Value {
    let (parent, name, full) = names(full_name);
    let (info, variable) = dimension_info(store, full_name, size);
    json!({
        "parent": parent, "name": name, "full_name": full, "size": size, "type": info.kind,
        "direction": info.direction, "variable": variable.map_or(-1, |v| v as i64),
    })
}

fn array(store: &Store, desc: &ArrayDesc, numbers: &[usize]) -> Value {
    let (parent, name, full) = names(&desc.name);
    let shape = desc.shape.as_deref().unwrap_or_default();
    let infos: Vec<DimInfo> = desc.dims.iter().zip(shape).map(|(d, n)| dimension_info(store, d, *n).0).collect();
    let axis = |kind: &str| infos.iter().rposition(|i| i.kind == kind);
    let (x, y) = (axis("HORIZONTAL_X"), axis("HORIZONTAL_Y"));
    let srs = x.and_then(|x| infos[x].srs.clone()).filter(|_| y.is_some());
    // Longitudes and latitudes without a grid mapping: on some ellipsoid, which is taken for that of GPS.
    let is_geographic = x.zip(y).is_some_and(|(x, y)| {
        let unit_of = |axis: usize| {
            let variable = dimension_info(store, &desc.dims[axis], shape[axis]).1;
            variable.and_then(|v| store.arrays()[v].attrs.text("units")).map(crate::plan::cf::degrees_of)
        };
        !desc.attrs.0.iter().any(|a| a.name == "grid_mapping")
            && (unit_of(x), unit_of(y)) == (Some(Some(Degrees::East)), Some(Some(Degrees::North)))
    });
    let srs = srs.unwrap_or_default();
    let grid_mapping = desc.attrs.text("grid_mapping").and_then(|text| {
        // Either `crs`, or `crs: x y`.
        let name = text.split_ascii_whitespace().next()?.trim_end_matches(':');
        Some(visible_from(store, &desc.name, name)? as i64)
    });
    let error = match &desc.shape {
        Some(_) => String::new(),
        None => format!(
            "MDIMREFS: {}: array \"{}\" was scanned but has no place in a whole yet: run `gdal driver mdimrefs plan`",
            store.path(),
            desc.name
        ),
    };
    let affine = desc.affine.as_ref().map(|a| json!({"start": a.start.to_string(), "step": a.step.to_string()}));
    json!({
        "parent": parent, "name": name, "full_name": full, "error": error, "is_data": desc.kind == ArrayKind::Data,
        "dimensions": numbers, "block_size": desc.chunks, "type": gdal_type(&shown_type(desc)),
        "attributes": attributes(&shown_attributes(desc)), "shown_elsewhere": shown_elsewhere(desc),
        "unit": desc.attrs.text("units").unwrap_or_default(),
        "no_data": no_data(desc).unwrap_or_default(),
        "scale": scaling(desc, "scale_factor"), "offset": scaling(desc, "add_offset"),
        "srs": srs, "is_geographic": is_geographic, "grid_mapping": grid_mapping.unwrap_or(-1), "x": x.map_or(-1, |i| i as i64), "y": y.map_or(-1, |i| i as i64),
        "affine": affine, "structural": structural(desc), "coordinates": coordinates(store, desc),
    })
}

/// Value and type of `scale_factor` or `add_offset`.
fn scaling(desc: &ArrayDesc, attribute: &str) -> Option<Value> {
    let a = desc.attrs.get(attribute)?;
    let value = number_text(match &a.value {
        Value::Array(list) => list.first()?,
        v => v,
    })?;
    let kind = a.dtype.as_deref().and_then(|t| DType::parse(t).ok()).map_or("Float64", |d| gdal_type(&d));
    Some(json!({"value": value, "type": kind}))
}

/// Whether netCDF's convention for unsigned integers says so of an array.
fn is_unsigned(desc: &ArrayDesc) -> bool {
    desc.attrs.text("_Unsigned").is_some_and(|t| t.eq_ignore_ascii_case("true"))
}

/// The type that an unsigned array shows for values of type `dtype`: as by GDAL's netCDF driver, integers of 8 and 16 bits
/// are unsigned. The bytes are the same.
fn unsigned_type(dtype: &DType) -> DType {
    let kind = if dtype.kind == Kind::Int && dtype.size <= 2 { Kind::UInt } else { dtype.kind };
    DType { kind, ..*dtype }
}

/// The type that GDAL is shown.
fn shown_type(desc: &ArrayDesc) -> DType {
    if is_unsigned(desc) { unsigned_type(&desc.dtype) } else { desc.dtype }
}

/// A value of `dtype` as one of the type `shown`, of the same bytes.
fn as_shown(value: Value, dtype: &DType, shown: &DType) -> Value {
    match value.as_i64() {
        Some(n) if n < 0 && shown != dtype => Value::from(n + (1 << (8 * dtype.size))),
        _ => value,
    }
}

/// The attributes, those of an unsigned array as [`unsigned_type`] says.
fn shown_attributes(desc: &ArrayDesc) -> Attributes {
    let mut attrs = desc.attrs.clone();
    for a in attrs.0.iter_mut().filter(|_| is_unsigned(desc)) {
        let Some(declared) = a.dtype.as_deref().and_then(|t| DType::parse(t).ok()) else { continue };
        let shown = unsigned_type(&declared);
        a.dtype = Some(shown.to_string());
        a.value = match std::mem::take(&mut a.value) {
            Value::Array(list) => list.into_iter().map(|v| as_shown(v, &declared, &shown)).collect(),
            value => as_shown(value, &declared, &shown),
        };
    }
    attrs
}

/// No-data: `_FillValue`, else `missing_value`, if it is a value of the array's type.
fn no_data(desc: &ArrayDesc) -> Option<String> {
    if !matches!(desc.dtype.kind, Kind::Int | Kind::UInt | Kind::Float) {
        return None;
    }
    let value = ["_FillValue", "missing_value"].iter().find_map(|name| match &desc.attrs.get(name)?.value {
        Value::Array(list) if list.len() == 1 => list.first().cloned(),
        Value::Array(_) => None,
        v => Some(v.clone()),
    })?;
    let shown = shown_type(desc);
    let value = as_shown(value, &desc.dtype, &shown);
    crate::model::Fill(value.clone()).to_bytes(&shown).ok()?;
    number_text(&value)
}

/// Attributes that GDAL has functions of their own for. As from the netCDF driver, they are listed only if asked for.
fn shown_elsewhere(desc: &ArrayDesc) -> Vec<&'static str> {
    let (no_data, shown) = (no_data(desc), shown_type(desc));
    let is_no_data = |name: &str| {
        let value = desc.attrs.get(name).map(|a| match &a.value {
            Value::Array(list) if list.len() == 1 => list.first().cloned().unwrap_or_default(),
            v => v.clone(),
        });
        no_data.is_some() && value.and_then(|v| number_text(&as_shown(v, &desc.dtype, &shown))) == no_data
    };
    ["_FillValue", "missing_value", "units", "scale_factor", "add_offset"]
        .into_iter()
        .filter(|name| match *name {
            "units" => desc.attrs.text(name).is_some(),
            "scale_factor" | "add_offset" => scaling(desc, name).is_some(),
            _ => is_no_data(name),
        })
        .collect()
}

/// KEY=VALUE texts of the codec.
fn structural(desc: &ArrayDesc) -> Vec<String> {
    let mut items = Vec::new();
    let ids: Vec<&str> = desc.codec.encode_order().filter_map(|c| c["id"].as_str()).collect();
    let is_filter = |id: &&&str| matches!(**id, "shuffle" | "fletcher32" | "delta" | "bitshuffle");
    if let Some(id) = ids.iter().find(|id| !is_filter(id) && !id.starts_with("vlen")) {
        items.push(format!("COMPRESSION={}", if *id == "zlib" { "DEFLATE".to_owned() } else { id.to_uppercase() }));
    }
    let filters: Vec<String> = ids.iter().filter(is_filter).map(|id| id.to_uppercase()).collect();
    if !filters.is_empty() {
        items.push(format!("FILTER={}", filters.join(",")));
    }
    if desc.dtype.swap_size() > 1 {
        items.push(format!("ENDIANNESS={}", if desc.dtype.order == ByteOrder::Big { "BIG" } else { "LITTLE" }));
    }
    items
}

/// The array that `name` means in an attribute of `array`: of its own group, or of the nearest one above.
fn visible_from(store: &Store, array: &str, name: &str) -> Option<usize> {
    let mut group = array.rsplit_once('/').map_or("", |(g, _)| g);
    loop {
        let full = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        if let Some(found) = store.find(full.trim_start_matches('/')) {
            return Some(found);
        }
        if group.is_empty() {
            return None;
        }
        group = group.rsplit_once('/').map_or("", |(g, _)| g);
    }
}

/// Arrays that the attribute `coordinates` names, by number.
fn coordinates(store: &Store, desc: &ArrayDesc) -> Vec<usize> {
    let list = desc.attrs.text("coordinates").unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|name| visible_from(store, &desc.name, name)).collect()
}
