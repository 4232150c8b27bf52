//! kerchunk's references as a folder of Parquet files, as fsspec's `LazyReferenceMapper` reads it: `.zmetadata`, and for
//! each array `refs.N.parq`, each of `record_size` chunks in C order.

use super::{Entry, Export, zarr2};
use crate::{Error, Result};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Chunks between two reports of progress.
const STEP: u64 = 1 << 16;

/// Most chunks of a file.
pub const MOST_RECORD: u64 = 10_000_000;

/// As fsspec has it. Offsets are never null: pandas would make floats of them.
const SCHEMA: &str = "message schema { OPTIONAL BYTE_ARRAY path (UTF8); REQUIRED INT64 offset; REQUIRED INT64 size; \
                      OPTIONAL BYTE_ARRAY raw; }";

/// No path, in [`Record::paths`].
const NONE: u32 = u32::MAX;

/// The chunks of one file, by their place in it.
struct Record {
    paths: Vec<u32>,
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    raw: HashMap<usize, ByteArray>,
    missing: usize,
}

/// Writes the files of one array.
struct Files<'a> {
    folder: PathBuf,
    schema: &'a TypePtr,
    properties: &'a WriterPropertiesPtr,
    record_size: u64,
    chunks: u64,
    urls: Vec<ByteArray>,
    numbers: HashMap<String, u32>,
    records: HashMap<u64, Record>,
}

fn failed(path: &Path, what: impl ToString) -> Error {
    Error::Io { path: path.display().to_string(), what: what.to_string() }
}

impl Files<'_> {
    fn record(&mut self, number: u64) -> Result<&mut Record> {
        let begin = number.saturating_mul(self.record_size);
        let size = usize::try_from(self.chunks.saturating_sub(begin).min(self.record_size))
            .map_err(|e| failed(&self.folder, e))?;
        Ok(self.records.entry(number).or_insert_with(|| Record {
            paths: vec![NONE; size],
            offsets: vec![0; size],
            sizes: vec![0; size],
            raw: HashMap::new(),
            missing: size,
        }))
    }

    fn add(&mut self, place: u64, entry: Entry<'_>, fill: Option<&ByteArray>) -> Result<()> {
        let number = place / self.record_size;
        let at = (place % self.record_size) as usize;
        let path = match entry {
            Entry::Inline(_) => NONE,
            Entry::Range(url, ..) => match self.numbers.get(url) {
                Some(known) => *known,
                None => {
                    let new = self.urls.len() as u32;
                    self.urls.push(ByteArray::from(url));
                    self.numbers.insert(url.to_owned(), new);
                    new
                }
            },
        };
        let record = self.record(number)?;
        match entry {
            Entry::Range(_, offset, size) => {
                (record.paths[at], record.offsets[at], record.sizes[at]) = (path, offset, size);
            }
            Entry::Inline(data) => {
                // Many chunks of fill share their bytes.
                let data = fill.filter(|f| f.data() == data).cloned().unwrap_or_else(|| ByteArray::from(data.to_vec()));
                record.raw.insert(at, data);
            }
        }
        record.missing -= 1;
        if record.missing == 0 { self.write(number) } else { Ok(()) }
    }

    fn write(&mut self, number: u64) -> Result<()> {
        let Some(record) = self.records.remove(&number) else { return Ok(()) };
        let path = self.folder.join(format!("refs.{number}.parq"));
        let write = || -> parquet::errors::Result<()> {
            let file = File::create(&path)?;
            let mut writer = SerializedFileWriter::new(file, Arc::clone(self.schema), Arc::clone(self.properties))?;
            let mut group = writer.next_row_group()?;
            let (mut texts, mut levels) = (Vec::new(), Vec::with_capacity(record.paths.len()));
            for n in &record.paths {
                levels.push(i16::from(*n != NONE));
                texts.extend(self.urls.get(*n as usize).cloned());
            }
            let (mut raw, mut raw_levels) = (Vec::new(), Vec::with_capacity(record.paths.len()));
            for at in 0..record.paths.len() {
                let data = record.raw.get(&at);
                raw_levels.push(i16::from(data.is_some()));
                raw.extend(data.cloned());
            }
            let mut column = 0;
            while let Some(mut out) = group.next_column()? {
                match column {
                    0 => out.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?,
                    1 => out.typed::<Int64Type>().write_batch(&record.offsets, None, None)?,
                    2 => out.typed::<Int64Type>().write_batch(&record.sizes, None, None)?,
                    _ => out.typed::<ByteArrayType>().write_batch(&raw, Some(&raw_levels), None)?,
                };
                out.close()?;
                column += 1;
            }
            group.close()?;
            let file = writer.into_inner()?;
            Ok(file.sync_all()?)
        };
        write().map_err(|e| failed(&path, e))
    }

    /// What is left, with null rows where there is no chunk.
    fn finish(&mut self) -> Result<()> {
        let mut left: Vec<u64> = self.records.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().try_for_each(|number| self.write(number))
    }
}

/// Writes all references into the folder `out`, which is there. `step` is called now and then with the number of references.
///
/// # Errors
/// [`Error::Plan`] with the list of what the form does not hold; [`Error::Io`]; errors of the store and of `step`.
pub fn write(export: &Export<'_>, out: &Path, record_size: u64, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let store = export.reader.store();
    let metadata = export.metadata(&|m| match m.zarray["shape"].as_array() {
        Some(shape) if shape.is_empty() => Err("fsspec reads no scalar from Parquet".into()),
        _ => Ok(()),
    })?;
    let mut all = Map::new();
    let names = export.arrays.iter().map(|n| store.arrays()[*n].name.as_str());
    for group in zarr2::groups(names) {
        let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
        let attrs = store.group_attrs(&group).map_or_else(|| json!({}), |a| a.to_json());
        all.insert(format!("{prefix}.zgroup"), json!({"zarr_format": 2}));
        all.insert(format!("{prefix}.zattrs"), attrs);
    }
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(|e| failed(out, e))?);
    let properties = Arc::new(
        WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(|e| failed(out, e))?))
            .set_statistics_enabled(EnabledStatistics::None)
            // fastparquet makes floats of whole numbers unless statistics say that none is null.
            .set_column_statistics_enabled(ColumnPath::from("offset"), EnabledStatistics::Chunk)
            .set_column_statistics_enabled(ColumnPath::from("size"), EnabledStatistics::Chunk)
            .build(),
    );
    let mut written = 0u64;
    for (number, meta) in export.arrays.iter().zip(metadata) {
        let desc = &store.arrays()[*number];
        // A folder's name, and nothing above it: a store of others may hold anything.
        if !Path::new(&desc.name).components().all(|c| matches!(c, std::path::Component::Normal(_))) {
            return Err(Error::Plan(format!("array \"{}\": its name can't be that of a folder", desc.name)));
        }
        let folder = out.join(&desc.name);
        std::fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
        let mut files = Files {
            folder,
            schema: &schema,
            properties: &properties,
            record_size,
            chunks: match desc.storage {
                crate::model::Storage::Referenced => desc.grid()?.len(),
                _ => 1,
            },
            urls: Vec::new(),
            numbers: HashMap::new(),
            records: HashMap::new(),
        };
        let fill = meta.absent.clone().map(ByteArray::from);
        export.each_entry(*number, meta.absent.as_deref(), &mut |place, _, entry| {
            files.add(place, entry, fill.as_ref())?;
            written += 1;
            if written.is_multiple_of(STEP) { step(written) } else { Ok(()) }
        })?;
        files.finish()?;
        all.insert(format!("{}/.zarray", desc.name), meta.zarray);
        all.insert(format!("{}/.zattrs", desc.name), meta.zattrs);
    }
    let text = json!({"metadata": Value::Object(all), "record_size": record_size}).to_string();
    let path = out.join(".zmetadata");
    std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
    step(written)
}
