//! kerchunk's references in Parquet: a folder with `.zmetadata`, and for each array `refs.N.parq`, each of `record_size`
//! chunks in C order, as fsspec's `LazyReferenceMapper` lays it out.

use super::kerchunk_json::whole_size;
use super::{Collection, Imported, References, ZarrArray, source_name, zarr2};
use crate::io::Opener;
use crate::scan::zarr;
use crate::{Error, Result};
use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// Chunks of a file, at most.
const MOST_RECORD: u64 = crate::export::kerchunk_parquet::MOST_RECORD;
/// Size of a file, at most (bytes).
const MAX_FILE: u64 = 1 << 31;
/// Files of an array, at most, in a folder that can't be listed.
const MOST_FILES: u64 = 1 << 20;
/// Rows that are read at once.
const BATCH: usize = 1 << 16;

/// Reads a folder. `step` is called after each file with the number of references.
///
/// # Errors
/// [`Error::Format`] for what is no such folder, [`Error::Io`]; what `step` gives.
pub fn read(opener: &dyn Opener, path: &str, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<Collection> {
    let path = path.trim_end_matches('/');
    let file = format!("{path}/.zmetadata");
    let bad = |what: &str| Error::Format { path: file.clone(), offset: 0, what: what.to_owned() };
    let head = zarr::read(opener, &file)?;
    let record_size = head["record_size"]
        .as_u64()
        .filter(|n| (1..=MOST_RECORD).contains(n))
        .ok_or_else(|| bad("\"record_size\" is no number of chunks, or too large a one"))?;
    let metadata = head["metadata"].as_object().ok_or_else(|| bad("there is no \"metadata\""))?;
    let metadata: BTreeMap<String, Value> = metadata.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut all = Collection::default();
    let arrays = zarr2::arrays(&mut all, &metadata, path.rsplit('/').next().unwrap_or(path));
    if arrays.is_empty() && all.lost.is_empty() {
        return Err(bad("there is no array in it (no .zarray)"));
    }
    // Where a folder can be listed, what is not there are chunks that were never written.
    let listed: Option<HashSet<String>> = opener.list(path).ok().map(|l| l.into_iter().map(|f| f.name).collect());
    let mut count = 0u64;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    for (name, array) in arrays {
        let ZarrArray { desc, info, .. } = array;
        let chunks = desc.grid()?.len();
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        let mut references = References::default();
        let numbers: Vec<u64> = match &listed {
            Some(files) => {
                let number =
                    |f: &String| f.strip_prefix(&prefix)?.strip_prefix("refs.")?.strip_suffix(".parq")?.parse().ok();
                let mut numbers: Vec<u64> =
                    files.iter().filter_map(number).filter(|n| *n < chunks.div_ceil(record_size)).collect();
                numbers.sort_unstable();
                numbers
            }
            None if chunks.div_ceil(record_size) > MOST_FILES => {
                return Err(bad(&format!("array \"{name}\" has {chunks} chunks: too many")));
            }
            None => (0..chunks.div_ceil(record_size)).collect(),
        };
        for number in numbers {
            let file = format!("{path}/{prefix}refs.{number}.parq");
            let first = number * record_size;
            let record = Record::read(opener, &file, record_size)?;
            let bad = |what: String| Error::Format { path: file.clone(), offset: 0, what };
            for row in 0..record.rows {
                let place = first + row as u64;
                let chunk = |what: String| bad(format!("chunk {place} of array \"{name}\": {what}"));
                if let Some(data) = record.raw.get(row).and_then(Option::as_ref) {
                    references.add_inline(place, data.data());
                } else if let Some(written) = record.paths.get(row).and_then(Option::as_ref) {
                    let text = std::str::from_utf8(written.data()).map_err(|e| chunk(e.to_string()))?;
                    if text.is_empty() {
                        continue;
                    }
                    let source = all.sources.number(text, || source_name(text, &folder)).map_err(chunk)?;
                    let (offset, size) = (record.offsets[row], record.sizes[row]);
                    match (u64::try_from(offset), u64::try_from(size)) {
                        // As fsspec has it.
                        (Ok(0), Ok(0)) => {
                            let size = whole_size(opener, &all.sources.names[source as usize]).map_err(chunk)?;
                            references.add(place, source, 0, size);
                        }
                        (Ok(offset), Ok(size)) if size > 0 => references.add(place, source, offset, size),
                        _ => return Err(chunk(format!("{size} bytes at {offset} are none"))),
                    }
                } else {
                    continue;
                }
                if place >= chunks {
                    return Err(chunk(format!("there are {chunks} chunks only")));
                }
            }
            count += record.rows as u64;
            step(count)?;
        }
        all.arrays.push(Imported { desc, info, references });
    }
    Ok(all)
}

/// The columns of a file.
struct Record {
    rows: usize,
    paths: Vec<Option<ByteArray>>,
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    raw: Vec<Option<ByteArray>>,
}

impl Record {
    fn read(opener: &dyn Opener, path: &str, record_size: u64) -> Result<Record> {
        let bad = |what: String| Error::Format { path: path.to_owned(), offset: 0, what };
        let reader = opener.open(path)?;
        let size = reader.size()?;
        if size > MAX_FILE {
            return Err(bad(format!("{size} bytes are too many")));
        }
        let mut bytes = vec![0; size as usize];
        reader.read_at(0, &mut bytes)?;
        let file = SerializedFileReader::new(Bytes::from(bytes)).map_err(|e| bad(e.to_string()))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let column = |name: &str| (0..schema.num_columns()).find(|i| schema.column(*i).path().string() == name);
        let most = record_size as usize;
        let mut record = Record { rows: 0, paths: Vec::new(), offsets: Vec::new(), sizes: Vec::new(), raw: Vec::new() };
        let needed = |name: &str| column(name).ok_or_else(|| bad(format!("there is no column \"{name}\"")));
        let nullable = |i: usize| schema.column(i).max_def_level() > 0;
        if let Some(list) = (0..schema.num_columns()).find(|i| schema.column(*i).max_rep_level() > 0) {
            return Err(bad(format!("its column \"{}\" is of lists", schema.column(list).path().string())));
        }
        let (path, offset, length) = (needed("path")?, needed("offset")?, needed("size")?);
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group).map_err(|e| bad(e.to_string()))?;
            let get = |column: usize| group.get_column_reader(column).map_err(|e| bad(e.to_string()));
            let failed = |e: String| bad(e);
            texts(get(path)?, most, nullable(path), &mut record.paths).map_err(failed)?;
            integers(get(offset)?, most, nullable(offset), &mut record.offsets).map_err(failed)?;
            integers(get(length)?, most, nullable(length), &mut record.sizes).map_err(failed)?;
            if let Some(raw) = column("raw") {
                texts(get(raw)?, most, nullable(raw), &mut record.raw).map_err(failed)?;
            }
        }
        record.rows = record.paths.len();
        if record.offsets.len() != record.rows || record.sizes.len() != record.rows {
            return Err(bad("its columns differ in length".into()));
        }
        Ok(record)
    }
}

/// Reads a column to its end: each value, None for null. More than `most` in all are an error.
fn column<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    most: usize,
    nullable: bool,
    out: &mut Vec<V>,
    make: impl Fn(Option<T::T>) -> Result<V, String>,
) -> Result<(), String> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        values.clear();
        levels.clear();
        let (records, _, _) = reader
            .read_records(BATCH, nullable.then_some(&mut levels), None, &mut values)
            .map_err(|e| e.to_string())?;
        if records == 0 {
            return Ok(());
        }
        if out.len() + records > most {
            return Err(format!("it has more rows than the {most} of \"record_size\""));
        }
        let mut next = values.drain(..);
        for row in 0..records {
            let present = !nullable || levels.get(row).is_some_and(|l| *l > 0);
            out.push(make(if present { next.next() } else { None })?);
        }
    }
}

fn texts(reader: ColumnReader, most: usize, nullable: bool, out: &mut Vec<Option<ByteArray>>) -> Result<(), String> {
    match reader {
        ColumnReader::ByteArrayColumnReader(r) => column(r, most, nullable, out, Ok),
        // All null: pandas does not know what they would be.
        ColumnReader::Int32ColumnReader(r) => column(r, most, nullable, out, nothing),
        ColumnReader::DoubleColumnReader(r) => column(r, most, nullable, out, nothing),
        _ => Err("a column of texts or bytes is something else".into()),
    }
}

fn nothing<T>(value: Option<T>) -> Result<Option<ByteArray>, String> {
    match value {
        None => Ok(None),
        Some(_) => Err("a column of texts or bytes has numbers".into()),
    }
}

fn integers(reader: ColumnReader, most: usize, nullable: bool, out: &mut Vec<i64>) -> Result<(), String> {
    match reader {
        ColumnReader::Int64ColumnReader(r) => column(r, most, nullable, out, |v| Ok(v.unwrap_or(0))),
        ColumnReader::Int32ColumnReader(r) => column(r, most, nullable, out, |v| Ok(i64::from(v.unwrap_or(0)))),
        // Where some are null, pandas makes floats of all.
        ColumnReader::DoubleColumnReader(r) => column(r, most, nullable, out, |v| {
            let v = v.filter(|v| !v.is_nan()).unwrap_or(0.0);
            if v.fract() == 0.0 && v.abs() < 9.0e15 { Ok(v as i64) } else { Err(format!("{v} is no number of bytes")) }
        }),
        _ => Err("a column of numbers is something else".into()),
    }
}
