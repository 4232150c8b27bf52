//! Tables for GDAL's vector side: rows one by one, and Arrow streams.

use super::exports::{MrStore, handle, slice};
use super::ffi::MrValue;
use super::guard::{from_c, guard, to_c};
use crate::model::ArrayDesc;
use crate::store::{Column, ColumnKind, KeyRange, Store, Table};
use crate::table::{BatchOptions, Batches, Listing};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::{Map, Value, json};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Rows of a batch, one by one.
pub struct MrRows {
    batches: Batches,
    batch: Option<RecordBatch>,
    row: usize,
    columns: Vec<Column>,
}

/// The column that numbers rows in listings of ours.
const NUMBER: &str = "OGC_FID";

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "integer",
        ColumnKind::Boolean => "boolean",
        ColumnKind::Real => "real",
        ColumnKind::Text => "text",
        ColumnKind::Blob => "blob",
    }
}

fn columns_json(columns: &[Column]) -> Value {
    columns.iter().map(|c| json!({"name": c.name, "kind": kind_name(c.kind)})).collect()
}

/// Layer metadata of an array's chunks: ARRAY_NAME, DTYPE, DIM_i_NAME, _SIZE, _BLOCK, _CHUNKS, CODEC.
fn metadata(desc: &ArrayDesc) -> Map<String, Value> {
    let mut items = Map::new();
    let mut set = |key: String, value: String| items.insert(key, Value::String(value));
    set("ARRAY_NAME".into(), format!("/{}", desc.name));
    set("DTYPE".into(), desc.dtype.to_string());
    let shape = desc.shape.clone().unwrap_or_default();
    for (i, name) in desc.dims.iter().enumerate() {
        let (size, block) = (shape.get(i).copied().unwrap_or(0), desc.chunks[i]);
        set(format!("DIM_{i}_NAME"), format!("/{name}"));
        set(format!("DIM_{i}_SIZE"), size.to_string());
        set(format!("DIM_{i}_BLOCK"), block.to_string());
        set(format!("DIM_{i}_CHUNKS"), size.div_ceil(block).to_string());
    }
    for (i, codec) in desc.codec.encode_order().enumerate() {
        set(format!("CODEC_{i}"), codec.to_string());
    }
    if let Some(fill) = desc.fill.to_text() {
        set("FILL_VALUE".into(), fill);
    }
    items
}

/// A table with its columns of bounds, if they are wanted.
fn bounded(store: &MrStore, table: Table) -> Result<Table> {
    match table.array {
        Some(array) if store.coords => {
            let _call = store.enter();
            Ok(table.with_bounds(store.reader.chunk_bounds(array)?))
        }
        _ => Ok(table),
    }
}

/// The tables of a store, looked up once.
fn tables(store: &MrStore) -> Result<&[Table]> {
    if let Some(tables) = store.tables.get() {
        return Ok(tables);
    }
    let list = store.reader.store().tables()?.into_iter().map(|t| bounded(store, t)).collect::<Result<_>>()?;
    Ok(store.tables.get_or_init(|| list))
}

fn table(store: &MrStore, number: usize) -> Result<Table> {
    let table = tables(store)?.get(number).cloned();
    table.ok_or_else(|| Error::Invalid(format!("there is no table number {number}")))
}

/// A range of keys of the caller; None for all.
///
/// # Safety
/// `lo` and `hi` point to `rank` values each.
unsafe fn range(lo: *const u64, hi: *const u64, rank: usize) -> Option<KeyRange> {
    // SAFETY: the caller's promise.
    let (lo, hi) = unsafe { (slice(lo, rank), slice(hi, rank)) };
    (rank > 0).then(|| KeyRange { lo: lo.to_vec(), hi: hi.to_vec() })
}

fn open(store: &Arc<Store>, listing: Listing) -> Result<*mut MrRows> {
    let options = BatchOptions { rows: 4096, number: Some(NUMBER.into()), without: Vec::new() };
    let batches = Batches::new(store, listing, options)?;
    let kind = |t: &DataType| match t {
        DataType::Int64 => ColumnKind::Integer,
        DataType::Boolean => ColumnKind::Boolean,
        DataType::Float64 => ColumnKind::Real,
        DataType::Binary => ColumnKind::Blob,
        _ => ColumnKind::Text,
    };
    let columns = batches
        .schema()
        .fields()
        .iter()
        .skip(1)
        .map(|f| Column { name: f.name().clone(), kind: kind(f.data_type()) })
        .collect();
    Ok(Box::into_raw(Box::new(MrRows { batches, batch: None, row: 0, columns })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_tables(store: *const MrStore, error: *mut *mut c_char) -> *mut c_char {
    // SAFETY: a handle of the caller.
    unsafe {
        guard(error, std::ptr::null_mut(), || {
            let handle = handle(store)?;
            let store = handle.reader.store();
            let list: Vec<Value> = tables(handle)?
                .iter()
                .map(|t| {
                    let desc = t.array.map(|a| &store.arrays()[a]);
                    json!({
                        "name": t.name, "columns": columns_json(&t.columns), "rank": desc.map_or(0, |d| d.dims.len()),
                        "counts": desc.and_then(|d| d.grid().ok()).map(|g| g.counts()).unwrap_or_default(),
                        "metadata": desc.map(metadata).unwrap_or_default(),
                    })
                })
                .collect();
            Ok(to_c(&json!({"tables": list}).to_string()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_open(
    store: *const MrStore,
    number: usize,
    lo: *const u64,
    hi: *const u64,
    rank: usize,
    error: *mut *mut c_char,
) -> *mut MrRows {
    // SAFETY: a handle of the caller and `rank` values each.
    unsafe {
        guard(error, std::ptr::null_mut(), || {
            let store = handle(store)?;
            open(store.reader.store(), Listing::Table(table(store, number)?, range(lo, hi, rank)))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_sql(store: *const MrStore, sql: *const c_char, error: *mut *mut c_char) -> *mut MrRows {
    // SAFETY: a handle and a text of the caller.
    unsafe {
        guard(error, std::ptr::null_mut(), || {
            let handle = handle(store)?;
            let sql = from_c(sql).unwrap_or_default();
            let store = handle.reader.store();
            let bounded = if handle.coords { tables(handle)?.to_vec() } else { Vec::new() };
            open(store, Listing::Sql(sql, bounded))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_columns(rows: *const MrRows) -> *mut c_char {
    // SAFETY: a listing of the caller.
    unsafe {
        guard(std::ptr::null_mut(), std::ptr::null_mut(), || {
            let columns = rows.as_ref().map(|r| r.columns.as_slice()).unwrap_or_default();
            Ok(to_c(&json!({"columns": columns_json(columns)}).to_string()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_next(rows: *mut MrRows, number: *mut i64, error: *mut *mut c_char) -> c_int {
    // SAFETY: a listing of the caller, of this thread alone.
    unsafe {
        guard(error, -1, || {
            let Some(rows) = rows.as_mut() else { return Ok(0) };
            rows.row += 1;
            while rows.batch.as_ref().is_none_or(|b| rows.row >= b.num_rows()) {
                match rows.batches.next() {
                    None => {
                        rows.batch = None;
                        return Ok(0);
                    }
                    Some(Ok(batch)) => (rows.batch, rows.row) = (Some(batch), 0),
                    Some(Err(e)) => return Err(Error::Invalid(e.to_string())),
                }
            }
            if let (Some(batch), false) = (&rows.batch, number.is_null()) {
                *number = batch.column(0).as_primitive::<Int64Type>().value(rows.row);
            }
            Ok(1)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_value(rows: *const MrRows, column: usize, out: *mut MrValue) {
    // SAFETY: a listing and a place of the caller.
    unsafe {
        guard(std::ptr::null_mut(), (), || {
            let (Some(rows), Some(out)) = (rows.as_ref(), out.as_mut()) else { return Ok(()) };
            out.kind = 0;
            let Some(array) = rows.batch.as_ref().and_then(|b| b.columns().get(column + 1)) else { return Ok(()) };
            if array.is_null(rows.row) {
                return Ok(());
            }
            match array.data_type() {
                DataType::Int64 => (out.kind, out.integer) = (1, array.as_primitive::<Int64Type>().value(rows.row)),
                DataType::Boolean => (out.kind, out.integer) = (1, i64::from(array.as_boolean().value(rows.row))),
                DataType::Float64 => (out.kind, out.real) = (2, array.as_primitive::<Float64Type>().value(rows.row)),
                DataType::Utf8 => {
                    let text = array.as_string::<i32>().value(rows.row);
                    (out.kind, out.bytes, out.length) = (3, text.as_ptr(), text.len());
                }
                DataType::Binary => {
                    let bytes = array.as_binary::<i32>().value(rows.row);
                    (out.kind, out.bytes, out.length) = (4, bytes.as_ptr(), bytes.len());
                }
                _ => {}
            }
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_close(rows: *mut MrRows) {
    if !rows.is_null() {
        // SAFETY: made by one of the functions above, and closed once.
        let rows = unsafe { Box::from_raw(rows) };
        // SAFETY: no error is wanted.
        unsafe {
            guard(std::ptr::null_mut(), (), || {
                drop(rows);
                Ok(())
            });
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_count(
    store: *const MrStore,
    number: usize,
    lo: *const u64,
    hi: *const u64,
    rank: usize,
    error: *mut *mut c_char,
) -> i64 {
    // SAFETY: a handle of the caller and `rank` values each.
    unsafe {
        guard(error, -1, || {
            let handle = handle(store)?;
            let table = table(handle, number)?;
            let count = handle.reader.store().count_rows(&table, range(lo, hi, rank).as_ref())?;
            Ok(i64::try_from(count).unwrap_or(i64::MAX))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_rows_stream(
    store: *const MrStore,
    number: usize,
    lo: *const u64,
    hi: *const u64,
    rank: usize,
    without: *const *const c_char,
    row_number: *const c_char,
    batch: usize,
    out: *mut FFI_ArrowArrayStream,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: a handle, `rank` values each, texts and a place of the caller; the list ends with a null.
    unsafe {
        guard(error, false, || {
            let store = handle(store)?;
            let mut list = Vec::new();
            let mut at = without;
            while !at.is_null() && !(*at).is_null() {
                list.extend(from_c(*at));
                at = at.add(1);
            }
            let options = BatchOptions { rows: batch, number: from_c(row_number), without: list };
            let listing = Listing::Table(table(store, number)?, range(lo, hi, rank));
            let batches = Batches::new(store.reader.store(), listing, options)?;
            // The place holds nothing of ours yet.
            out.write(FFI_ArrowArrayStream::new(Box::new(batches)));
            Ok(true)
        })
    }
}
