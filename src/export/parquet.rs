//! The references as flat tables in Parquet: `refs_<array>.parquet` for each array with chunks, `arrays.json`,
//! `sources.parquet`.
//!
//! Columns are those of the store's views, rows come in the order of their keys, and row groups have statistics, so that a
//! query for a few chunks reads a part of the file. Each file says what it is of in its key-value metadata.

use super::Export;
use crate::model::{ArrayDesc, ArrayKind, Storage};
use crate::store::{Cell, FORMAT_VERSION, KeyRange, Store, Table, view_name};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group.
const GROUP: u64 = 1 << 16;

/// The file of arrays.
pub const ARRAYS: &str = "arrays.json";
/// The file of sources.
pub const SOURCES: &str = "sources.parquet";

fn failed(path: &Path, what: impl ToString) -> Error {
    Error::Io { path: path.display().to_string(), what: what.to_string() }
}

/// A row of the table `arrays`: what is JSON in the store is JSON, and values are base64.
fn array_json(desc: &ArrayDesc) -> Value {
    let codec: Value = serde_json::from_str(&desc.codec.to_json()).unwrap_or_default();
    let affine: Option<Value> = desc.affine.as_ref().and_then(|a| serde_json::from_str(&a.to_json()).ok());
    json!({
        "array": desc.name,
        "kind": if desc.kind == ArrayKind::Data { "data" } else { "coord" },
        "storage": match desc.storage {
            Storage::Referenced => "referenced",
            Storage::Inline => "inline",
            Storage::Affine => "affine",
        },
        "dims": desc.dims, "shape": desc.shape, "chunks": desc.chunks, "dtype": desc.dtype.to_string(),
        "fill": desc.fill.to_text(), "codec": codec, "attrs": desc.attrs.to_json(),
        "attr_types": desc.attrs.types_json(), "affine": affine,
        "values": desc.values.as_ref().map(|v| STANDARD.encode(v)),
    })
}

/// The name of an array's file: `/` and `%` become `%2F` and `%25`.
pub fn file_name(array: &str) -> String {
    format!("{}.parquet", view_name(array).replace('%', "%25").replace('/', "%2F"))
}

/// Values of a column of a row group.
enum Values {
    Long(Vec<i64>),
    Int(Vec<i32>),
    Bytes(Vec<ByteArray>),
}

/// A column of a row group: for one that may be null, levels too.
struct Data(Values, Option<Vec<i16>>);

impl Data {
    fn long(list: Vec<i64>) -> Data {
        Data(Values::Long(list), None)
    }

    fn long_or_null(list: impl Iterator<Item = Option<i64>>) -> Data {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        for v in list {
            levels.push(i16::from(v.is_some()));
            values.extend(v);
        }
        Data(Values::Long(values), Some(levels))
    }

    fn bytes(list: impl Iterator<Item = Option<ByteArray>>) -> Data {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        for v in list {
            levels.push(i16::from(v.is_some()));
            values.extend(v);
        }
        Data(Values::Bytes(values), Some(levels))
    }
}

/// A file being written.
struct Output {
    writer: SerializedFileWriter<File>,
}

impl Output {
    /// `keys`: the number of columns, from the first, by which rows are sorted.
    fn create(path: &Path, schema: &str, keys: usize, metadata: Vec<KeyValue>) -> parquet::errors::Result<Output> {
        let sorting: Vec<SortingColumn> =
            (0..keys).map(|i| SortingColumn { column_idx: i as i32, descending: false, nulls_first: false }).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_column_statistics_enabled(ColumnPath::from("data"), EnabledStatistics::None)
            .set_sorting_columns(Some(sorting))
            .set_key_value_metadata(Some(metadata))
            .build();
        let file = File::create(path)?;
        let writer = SerializedFileWriter::new(file, Arc::new(parse_message_type(schema)?), Arc::new(properties))?;
        Ok(Output { writer })
    }

    fn group(&mut self, columns: &[Data]) -> parquet::errors::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for Data(values, levels) in columns {
            let Some(mut out) = group.next_column()? else { break };
            let levels = levels.as_deref();
            match values {
                Values::Long(v) => out.typed::<Int64Type>().write_batch(v, levels, None)?,
                Values::Int(v) => out.typed::<Int32Type>().write_batch(v, levels, None)?,
                Values::Bytes(v) => out.typed::<ByteArrayType>().write_batch(v, levels, None)?,
            };
            out.close()?;
        }
        group.close().map(drop)
    }

    fn finish(self) -> parquet::errors::Result<()> {
        Ok(self.writer.into_inner()?.sync_all()?)
    }
}

/// A chunk.
struct Row {
    place: u64,
    present: i32,
    path: Option<ByteArray>,
    offset: Option<i64>,
    size: Option<i64>,
    info: Option<ByteArray>,
    data: Option<ByteArray>,
}

/// The last text, shared by rows that have it too.
#[derive(Default)]
struct Shared(String, ByteArray);

impl Shared {
    fn get(&mut self, text: &str, make: impl FnOnce() -> String) -> ByteArray {
        if self.0 != text || self.1.is_empty() {
            (self.0, self.1) = (text.to_owned(), ByteArray::from(make().into_bytes()));
        }
        self.1.clone()
    }
}

/// Ranges of keys in the order of the rows, of about [`GROUP`] chunks each.
fn ranges(counts: &[u64], sink: &mut dyn FnMut(&KeyRange) -> Result<()>) -> Result<()> {
    if counts.contains(&0) {
        return Ok(());
    }
    // The axis that is cut; those before it are taken one by one.
    let mut axis = counts.len() - 1;
    let mut below = 1u64;
    while axis > 0 && below.saturating_mul(counts[axis]) <= GROUP {
        below *= counts[axis];
        axis -= 1;
    }
    let length = (GROUP / below).max(1);
    let mut range = KeyRange { lo: vec![0; counts.len()], hi: counts.to_vec() };
    range.hi[..axis].fill(1);
    loop {
        let mut at = 0;
        while at < counts[axis] {
            (range.lo[axis], range.hi[axis]) = (at, (at + length).min(counts[axis]));
            sink(&range)?;
            at += length;
        }
        let Some(next) = (0..axis).rev().find(|a| range.hi[*a] < counts[*a]) else { return Ok(()) };
        for a in next..axis {
            range.lo[a] = if a == next { range.lo[a] + 1 } else { 0 };
            range.hi[a] = range.lo[a] + 1;
        }
    }
}

/// Writes all into the folder `out`, which is there. `step` is called now and then with the number of references.
///
/// # Errors
/// [`Error::Store`] for chunks that break the format or were not scanned; [`Error::Io`]; errors of the store and of `step`.
pub fn write(export: &Export<'_>, out: &Path, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let store = export.reader.store();
    let rules: Vec<Value> = store
        .remap_rules()?
        .into_iter()
        .map(|r| json!({"target": r.target, "prefix": r.prefix, "replacement": r.replacement}))
        .collect();
    let descs: Vec<&ArrayDesc> = export.arrays.iter().map(|n| &store.arrays()[*n]).collect();
    let meta: serde_json::Map<String, Value> = ["attrs", "groups", "dimensions", "dataset", "plan"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), Value::String(store.meta(key)?.to_owned()))))
        .collect();
    let metadata = |arrays: &[&ArrayDesc]| -> Vec<KeyValue> {
        let arrays: Vec<Value> = arrays.iter().map(|d| array_json(d)).collect();
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        vec![
            pair("format_version", FORMAT_VERSION.to_owned()),
            pair("arrays", Value::Array(arrays).to_string()),
            pair("remap", Value::Array(rules.clone()).to_string()),
            pair("meta", Value::Object(meta.clone()).to_string()),
        ]
    };
    let mut written = 0u64;
    let tables = store.tables()?;
    for number in &export.arrays {
        let desc = &store.arrays()[*number];
        if desc.storage != Storage::Referenced || desc.dims.is_empty() {
            continue;
        }
        let table = tables.iter().find(|t| t.array == Some(*number)).ok_or_else(|| Error::Store {
            path: store.path().to_owned(),
            what: format!("array \"{}\": there is no {}", desc.name, view_name(&desc.name)),
        })?;
        let path = out.join(file_name(&desc.name));
        chunks(store, *number, table, &path, metadata(&[desc]), &mut |n| {
            written += n;
            step(written)
        })?;
    }
    sources(store, &tables, &out.join(SOURCES), metadata(&descs))?;
    let rows: Vec<Value> = descs.iter().map(|d| array_json(d)).collect();
    let text = serde_json::to_string_pretty(&rows).map_err(|e| failed(out, e))?;
    let path = out.join(ARRAYS);
    std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
    step(written)
}

fn chunks(
    store: &Store,
    number: usize,
    table: &Table,
    path: &Path,
    metadata: Vec<KeyValue>,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let desc = &store.arrays()[number];
    let rank = desc.dims.len();
    let counts = desc.grid()?.counts();
    let unscanned = store.unscanned(number)?;
    if !unscanned.is_empty() {
        let what = format!("array \"{}\": not scanned: {}", desc.name, unscanned.join(", "));
        return Err(Error::Store { path: store.path().to_owned(), what });
    }
    let keys: String = (0..rank).map(|i| format!("REQUIRED INT64 dim_{i}; ")).collect();
    let schema = format!(
        "message schema {{ {keys}REQUIRED INT32 present; OPTIONAL BYTE_ARRAY path (UTF8); OPTIONAL INT64 offset; \
         OPTIONAL INT64 size; OPTIONAL BYTE_ARRAY info (UTF8); OPTIONAL BYTE_ARRAY data; }}"
    );
    let written = |e: parquet::errors::ParquetError| failed(path, e);
    let mut output = Output::create(path, &schema, rank, metadata).map_err(written)?;
    let (mut paths, mut infos) = (Shared::default(), Shared::default());
    ranges(&counts, &mut |range| {
        let mut rows: Vec<Row> = Vec::new();
        store.each_row(table, Some(range), &mut |place, cells| {
            let bad = |what: &str| Error::Store {
                path: store.path().to_owned(),
                what: format!("array \"{}\", chunk {:?}: {what}", desc.name, &cells[..rank]),
            };
            let place = u64::try_from(place).map_err(|_| bad("its key is negative"))?;
            let mut row = Row { place, present: 1, path: None, offset: None, size: None, info: None, data: None };
            match (&cells[rank], &cells[rank + 1], &cells[rank + 2], &cells[rank + 3], &cells[rank + 5]) {
                (Cell::Integer(0), ..) => row.present = 0,
                (_, Cell::Text(p), Cell::Integer(offset), Cell::Integer(size), _) => {
                    (row.offset, row.size) = (Some(*offset), Some(*size));
                    row.path = Some(paths.get(p, || store.opened(p)));
                }
                (_, _, Cell::Null, _, Cell::Blob(data)) => row.data = Some(ByteArray::from(data.to_vec())),
                _ => return Err(bad("it has neither a byte range nor data")),
            }
            if let Cell::Text(info) = &cells[rank + 4]
                && !info.is_empty()
            {
                row.info = Some(infos.get(info, || (*info).to_owned()));
            }
            rows.push(row);
            Ok(true)
        })?;
        rows.sort_by_key(|r| r.place);
        if let Some(pair) = rows.windows(2).find(|p| p[0].place == p[1].place) {
            let what = format!("array \"{}\": there are two rows for chunk number {}", desc.name, pair[0].place);
            return Err(Error::Store { path: store.path().to_owned(), what });
        }
        // Rarely more: where a foreign view has no order.
        for group in rows.chunks(GROUP as usize) {
            let mut columns = Vec::with_capacity(rank + 6);
            for axis in 0..rank {
                let below: u64 = counts[axis + 1..].iter().product();
                columns.push(Data::long(group.iter().map(|r| (r.place / below % counts[axis]) as i64).collect()));
            }
            columns.push(Data(Values::Int(group.iter().map(|r| r.present).collect()), None));
            columns.push(Data::bytes(group.iter().map(|r| r.path.clone())));
            columns.push(Data::long_or_null(group.iter().map(|r| r.offset)));
            columns.push(Data::long_or_null(group.iter().map(|r| r.size)));
            columns.push(Data::bytes(group.iter().map(|r| r.info.clone())));
            columns.push(Data::bytes(group.iter().map(|r| r.data.clone())));
            output.group(&columns).map_err(written)?;
        }
        step(rows.len() as u64)
    })?;
    output.finish().map_err(written)
}

/// Number, name, size, time of change, entity tag.
type SourceRow = (i64, String, Option<i64>, Option<i64>, Option<String>);

fn sources(store: &Store, tables: &[Table], path: &Path, metadata: Vec<KeyValue>) -> Result<()> {
    let written = |e: parquet::errors::ParquetError| failed(path, e);
    let schema = "message schema { REQUIRED INT64 source_id; REQUIRED BYTE_ARRAY source (UTF8); \
                  REQUIRED BYTE_ARRAY path (UTF8); OPTIONAL INT64 size; OPTIONAL INT64 mtime; \
                  OPTIONAL BYTE_ARRAY etag (UTF8); }";
    let mut output = Output::create(path, schema, 1, metadata).map_err(written)?;
    let mut rows: Vec<SourceRow> = Vec::new();
    if let Some(table) = tables.iter().find(|t| t.name == "sources") {
        let at = |name: &str| table.columns.iter().position(|c| c.name == name);
        let columns = ["source_id", "source", "size", "mtime", "etag"].map(at);
        store.each_row(table, None, &mut |_, cells| {
            let cell = |i: usize| columns[i].map_or(Cell::Null, |c| cells[c]);
            let number = |i: usize| if let Cell::Integer(n) = cell(i) { Some(n) } else { None };
            let text = |i: usize| if let Cell::Text(t) = cell(i) { Some(t.to_owned()) } else { None };
            if let (Some(id), Some(source)) = (number(0), text(1)) {
                rows.push((id, source, number(2), number(3), text(4)));
            }
            Ok(true)
        })?;
    }
    rows.sort();
    let bytes = |t: &str| ByteArray::from(t.as_bytes().to_vec());
    let required = |list: Vec<ByteArray>| Data(Values::Bytes(list), None);
    for group in rows.chunks(GROUP as usize) {
        let columns = [
            Data::long(group.iter().map(|r| r.0).collect()),
            required(group.iter().map(|r| bytes(&r.1)).collect()),
            required(group.iter().map(|r| bytes(&store.published(&r.1))).collect()),
            Data::long_or_null(group.iter().map(|r| r.2)),
            Data::long_or_null(group.iter().map(|r| r.3)),
            Data::bytes(group.iter().map(|r| r.4.as_deref().map(bytes))),
        ];
        output.group(&columns).map_err(written)?;
    }
    output.finish().map_err(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_order() {
        for counts in [vec![5], vec![3, 2], vec![2, 3, 70_000], vec![70_000, 2], vec![2, 40_000, 3], vec![0, 4]] {
            let total: u64 = counts.iter().product();
            let mut next = 0u64;
            ranges(&counts, &mut |r| {
                let place = |key: &[u64]| key.iter().zip(&counts).fold(0, |p, (k, n)| p * n + k);
                assert_eq!(place(&r.lo), next, "{counts:?} {r:?}");
                let size: u64 = r.lo.iter().zip(&r.hi).map(|(l, h)| h - l).product();
                assert!(size <= GROUP, "{r:?}");
                next += size;
                Ok(())
            })
            .unwrap();
            assert_eq!(next, total, "{counts:?}");
        }
    }

    #[test]
    fn names_of_files() {
        assert_eq!(file_name("grp/50%"), "refs_grp%2F50%25.parquet");
    }
}
