//! Rows of the store's tables as the model's types, and back.

use super::names::quote;
use crate::model::{Affine, ArrayDesc, ArrayKind, Attributes, CodecSpec, DType, Fill, Kind, Storage};
use crate::{Error, Result};
use rusqlite::{Connection, Row};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Dimensions of an array, at most.
pub const MAX_RANK: usize = 32;

/// Columns of a table or view, as SQLite names them; empty if there is none.
pub fn columns(db: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

/// `column` if the table has it, else NULL.
pub fn column_or_null(columns: &[String], column: &str) -> String {
    if columns.iter().any(|c| c.eq_ignore_ascii_case(column)) { quote(column) } else { "NULL".into() }
}

/// A compact JSON list of whole numbers.
pub fn list_json(list: &[u64]) -> String {
    let items: Vec<String> = list.iter().map(u64::to_string).collect();
    format!("[{}]", items.join(","))
}

/// A JSON list of whole numbers ≥ 0 (`5.0` is none).
pub fn parse_list(text: &str) -> Option<Vec<u64>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let list = value.as_array()?;
    if list.len() > MAX_RANK {
        return None;
    }
    list.iter().map(|v| v.as_u64().filter(|n| *n <= i64::MAX as u64)).collect()
}

/// `meta.attr_types`: {array: {attribute: numpy type}}.
pub type AttrTypes = HashMap<String, Map<String, Value>>;

/// Reads `meta.attr_types`; what is not understood is ignored.
pub fn attr_types(text: Option<&str>) -> AttrTypes {
    let value: Option<Value> = text.and_then(|t| serde_json::from_str(t).ok());
    let Some(Value::Object(object)) = value else { return AttrTypes::new() };
    object.into_iter().filter_map(|(k, v)| Some((k, v.as_object()?.clone()))).collect()
}

/// The name of a group in `meta.attr_types`: `/` for the root, else with a slash at the end.
pub fn group_key(group: &str) -> String {
    format!("{group}/")
}

/// Reads all rows of `arrays`, in the order of the table. An array that breaks a rule comes as its name and the reason.
pub fn read_arrays(db: &Connection, types: &AttrTypes) -> rusqlite::Result<Vec<Result<ArrayDesc, (String, String)>>> {
    let have = columns(db, "arrays")?;
    let names = [
        "array",
        "kind",
        "storage",
        "dims",
        "shape",
        "chunks",
        "dtype",
        "fill",
        "codec",
        "attrs",
        "affine",
        "values",
        "chunk_edges",
    ];
    let list: Vec<String> = names.iter().map(|c| column_or_null(&have, c)).collect();
    let order = if rowid_table(db, "arrays")? { "rowid" } else { "1" };
    let mut statement = db.prepare(&format!("SELECT {} FROM arrays ORDER BY {order}", list.join(",")))?;
    let mut rows = statement.query([])?;
    let mut arrays = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        arrays.push(parse_array(row, &name, types).map_err(|why| (name, why)));
    }
    Ok(arrays)
}

fn rowid_table(db: &Connection, table: &str) -> rusqlite::Result<bool> {
    Ok(db.prepare(&format!("SELECT rowid FROM {} LIMIT 0", quote(table))).is_ok())
}

/// A fill or another value that other software may store as a number.
fn text_of(row: &Row<'_>, column: usize) -> Result<Option<String>, String> {
    use rusqlite::types::ValueRef;
    match row.get_ref(column).map_err(|e| e.to_string())? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(i) => Ok(Some(i.to_string())),
        ValueRef::Real(f) => Ok(Some(crate::model::f64_to_json(f).to_string())),
        ValueRef::Text(t) | ValueRef::Blob(t) => {
            String::from_utf8(t.to_vec()).map(Some).map_err(|_| "is not UTF-8".to_owned())
        }
    }
}

fn parse_array(row: &Row<'_>, name: &str, types: &AttrTypes) -> Result<ArrayDesc, String> {
    let named = |column: &'static str| move |why: String| format!("column {column}: {why}");
    let text = |i: usize, column: &'static str| text_of(row, i).map_err(named(column));
    let list = |i: usize, column: &'static str| -> Result<Option<Vec<u64>>, String> {
        match text(i, column)? {
            None => Ok(None),
            Some(t) => parse_list(&t)
                .map(Some)
                .ok_or_else(|| format!("column {column}: {t} is not a list of at most {MAX_RANK} whole numbers")),
        }
    };
    if text(12, "chunk_edges")?.is_some() {
        return Err("its chunk grid is irregular (chunk_edges), which is not supported".into());
    }
    let kind = match text(1, "kind")?.as_deref() {
        None | Some("data") => ArrayKind::Data,
        Some("coord") => ArrayKind::Coord,
        Some(other) => return Err(format!("column kind: \"{other}\" is not data or coord")),
    };
    let affine = text(10, "affine")?.map(|t| Affine::parse(&t)).transpose().map_err(|e| e.to_string())?;
    let values: Option<Vec<u8>> = match row.get_ref(11).map_err(|e| e.to_string())? {
        rusqlite::types::ValueRef::Null => None,
        rusqlite::types::ValueRef::Blob(b) => Some(b.to_vec()),
        _ => return Err("column values: it is not a BLOB".into()),
    };
    let storage = match text(2, "storage")?.as_deref() {
        Some("referenced") => Storage::Referenced,
        Some("inline") => Storage::Inline,
        Some("affine") => Storage::Affine,
        None if affine.is_some() => Storage::Affine,
        None if values.is_some() => Storage::Inline,
        None => Storage::Referenced,
        Some(other) => return Err(format!("column storage: \"{other}\" is not referenced, inline or affine")),
    };
    let dtype_text = text(6, "dtype")?.ok_or("column dtype: it is NULL")?;
    let dtype = DType::parse(&dtype_text).map_err(|e| format!("column dtype: {e}"))?;
    let dims: Vec<String> = match text(3, "dims")? {
        None => Vec::new(),
        Some(t) => serde_json::from_str::<Vec<String>>(&t)
            .map_err(|_| format!("column dims: {t} is not a list of names"))?
            .into_iter()
            .map(|d| d.strip_prefix('/').map(str::to_owned).unwrap_or(d))
            .collect(),
    };
    let shape = list(4, "shape")?;
    let chunks = match list(5, "chunks")? {
        Some(chunks) => chunks,
        None if storage != Storage::Referenced => shape.iter().flatten().map(|s| (*s).max(1)).collect(),
        None => return Err("column chunks: it is NULL".into()),
    };
    if shape.as_ref().is_some_and(|s| s.len() != dims.len()) || chunks.len() != dims.len() {
        return Err(format!("dims {dims:?}, shape {shape:?} and chunks {chunks:?} differ in length"));
    }
    if chunks.contains(&0) {
        return Err(format!("column chunks: {chunks:?} has a 0"));
    }
    let product = |list: &[u64]| {
        list.iter().try_fold(dtype.size.max(1) as u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= i64::MAX as u64)
    };
    if product(&chunks).is_none() || shape.as_deref().is_some_and(|s| product(s).is_none()) {
        return Err(format!("shape {shape:?} in chunks {chunks:?} of {dtype} has more bytes than 2^63"));
    }
    match (storage, &shape) {
        (Storage::Inline, Some(shape)) => {
            let have = values.as_ref().ok_or("column values: it is NULL, though storage is inline")?.len() as u64;
            let want = product(shape).unwrap_or(u64::MAX);
            if dtype.kind != Kind::VlenUtf8 && have != want {
                return Err(format!("column values: {have} bytes, but {want} for shape {shape:?} of {dtype}"));
            }
        }
        (Storage::Affine, Some(shape)) if affine.is_none() || shape.len() != 1 || !dtype.is_numeric() => {
            return Err("storage is affine, but it is not one dimension of numbers with start and step".into());
        }
        (Storage::Inline | Storage::Affine, None) => return Err("column shape: it is NULL".into()),
        _ => {}
    }
    let codec = match text(8, "codec")? {
        None => CodecSpec::default(),
        Some(t) => CodecSpec::parse(&t).map_err(|e| format!("column codec: {e}"))?,
    };
    let attrs = match text(9, "attrs")? {
        None => Attributes::default(),
        Some(t) => serde_json::from_str(&t)
            .ok()
            .and_then(|v| Attributes::from_json(&v, types.get(name)))
            .ok_or_else(|| "column attrs: it is not a JSON object".to_owned())?,
    };
    let fill = Fill::parse(text(7, "fill")?.as_deref());
    fill.to_bytes(&dtype).map_err(|e| format!("column fill: {e}"))?;
    Ok(ArrayDesc {
        name: name.strip_prefix('/').unwrap_or(name).to_owned(),
        kind,
        storage,
        dims,
        shape,
        chunks,
        dtype,
        fill,
        codec,
        attrs,
        affine,
        values,
    })
}

/// Inserts or replaces the row of an array.
pub fn write_array(db: &Connection, desc: &ArrayDesc) -> rusqlite::Result<()> {
    let kind = match desc.kind {
        ArrayKind::Data => "data",
        ArrayKind::Coord => "coord",
    };
    let storage = match desc.storage {
        Storage::Referenced => "referenced",
        Storage::Inline => "inline",
        Storage::Affine => "affine",
    };
    let codec = (!desc.codec.is_empty()).then(|| desc.codec.to_json());
    db.execute(
        "INSERT INTO arrays(\"array\",kind,storage,dims,shape,chunks,dtype,fill,codec,attrs,affine,\"values\") \
         VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12) ON CONFLICT(\"array\") DO UPDATE SET kind=excluded.kind, \
         storage=excluded.storage, dims=excluded.dims, shape=excluded.shape, chunks=excluded.chunks, \
         dtype=excluded.dtype, fill=excluded.fill, codec=excluded.codec, attrs=excluded.attrs, affine=excluded.affine, \
         \"values\"=excluded.\"values\"",
        rusqlite::params![
            desc.name,
            kind,
            storage,
            Value::from(desc.dims.clone()).to_string(),
            desc.shape.as_deref().map(list_json),
            list_json(&desc.chunks),
            desc.dtype.to_string(),
            desc.fill.to_text(),
            codec,
            desc.attrs.to_json().to_string(),
            desc.affine.as_ref().map(Affine::to_json),
            desc.values,
        ],
    )?;
    Ok(())
}

/// SQLite's error, with the store's path.
pub fn sqlite(path: &str) -> impl Fn(rusqlite::Error) -> Error + '_ {
    move |source| match source {
        rusqlite::Error::SqliteFailure(e, _) if e.code == rusqlite::ErrorCode::OperationInterrupted => Error::Store {
            path: path.to_owned(),
            what: "a query takes too long without a row: the store's views may be made so on purpose, or they need an \
                   index; `gdal driver mdimrefs publish --materialize` makes tables of them"
                .into(),
        },
        source => Error::Sqlite { path: path.to_owned(), source },
    }
}
