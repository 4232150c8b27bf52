//! Writing a store.

use super::names::{check_name, quote, view_name};
use super::plan_index::{PlanIndex, chunk_box};
use super::rows::{AttrTypes, attr_types, group_key, list_json, parse_list, read_arrays, sqlite, write_array};
use super::{APPLICATION_ID, FORMAT_VERSION, SourceId, dimensions, is_store, view};
use crate::io::Stat;
use crate::model::{ArrayDesc, Attributes, DimInfo, Storage};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a slab of a source lies in the whole: a row of `placements`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First element in the whole, along each dimension.
    pub dest: Vec<u64>,
    /// The source.
    pub source_id: SourceId,
    /// Name of the array in the source.
    pub source_array: String,
    /// First element in the source.
    pub src_offset: Vec<u64>,
    /// Elements along each dimension.
    pub count: Vec<u64>,
}

/// A chunk's state.
#[derive(Clone, Copy, Debug)]
pub enum RowData<'a> {
    /// In the source.
    Range {
        /// Byte offset.
        offset: u64,
        /// Stored size in bytes.
        size: u64,
    },
    /// In the store, encoded with the array's codec.
    Inline(&'a [u8]),
    /// Never written.
    Absent,
}

/// Writes one store. Nobody else can write it meanwhile.
///
/// A new store is removed if it is dropped before [`Writer::finish`]; an existing one keeps what was committed.
#[derive(Debug)]
pub struct Writer {
    /// None only while dropping.
    db: Option<Connection>,
    /// Holds the lock; closed after the connection, since closing it would drop SQLite's own locks. None if the caller
    /// holds it.
    _lock: Option<File>,
    /// The store.
    path: String,
    /// What is written: the store, or a file beside it that replaces it in the end.
    file: PathBuf,
    is_new: bool,
    finished: bool,
    in_savepoint: bool,
    /// The statement that adds a chunk: array, number of dimensions, SQL.
    insert: Option<(String, usize, String)>,
}

/// The tables of the format.
pub(super) const DDL: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE sources(source_id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, size BIGINT, mtime BIGINT, etag TEXT);
CREATE TABLE arrays(\"array\" TEXT PRIMARY KEY, kind TEXT, storage TEXT, dims TEXT, shape TEXT, chunks TEXT, dtype TEXT,
 fill TEXT, codec TEXT, attrs TEXT, affine TEXT, \"values\" BLOB);
CREATE TABLE placements(\"array\" TEXT, dest TEXT, source_id INTEGER, source_array TEXT, src_offset TEXT, \"count\" TEXT,
 PRIMARY KEY(\"array\", dest)) WITHOUT ROWID;
CREATE TABLE remap(target TEXT, prefix TEXT, replacement TEXT, PRIMARY KEY(target, prefix)) WITHOUT ROWID;
";

fn store_error(path: &str, what: impl Into<String>) -> Error {
    Error::Store { path: path.to_owned(), what: what.into() }
}

fn lock(path: &str, file: &File) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(store_error(path, "another process is writing it: wait until that ends"))
        }
        Err(std::fs::TryLockError::Error(e)) => Err(store_error(path, format!("can't be locked: {e}"))),
    }
}

fn side_files(file: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

impl Writer {
    /// Makes a new store. With `overwrite` an existing store is replaced, when the new one is finished.
    ///
    /// # Errors
    /// [`Error::Store`] if there is a file already (unless it is a store, and `overwrite`), or it can't be made.
    pub fn create(path: &str, overwrite: bool) -> Result<Writer> {
        let absolute = std::path::absolute(path).map_err(|e| store_error(path, e.to_string()))?;
        let mut file = absolute.clone();
        if let Ok(meta) = std::fs::metadata(&absolute) {
            if !overwrite {
                return Err(store_error(path, "exists already: --append adds to it, --overwrite replaces it"));
            }
            if meta.is_dir() || (meta.len() > 0 && !is_store_file(&absolute)) {
                return Err(store_error(path, "is not an mdim-refs store: it is not overwritten; remove it first"));
            }
            let mut name = absolute.into_os_string();
            name.push(".partial");
            file = PathBuf::from(name);
        }
        let lock_file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .map_err(|e| store_error(path, format!("can't be made: {e}")))?;
        lock(path, &lock_file)?;
        // What an interrupted overwrite left.
        lock_file.set_len(0).map_err(|e| store_error(path, e.to_string()))?;
        for side in &side_files(&file)[1..] {
            let _ = std::fs::remove_file(side);
        }
        let db = Connection::open(&file).map_err(sqlite(path))?;
        let mut writer = Writer {
            db: Some(db),
            _lock: Some(lock_file),
            path: path.to_owned(),
            file,
            is_new: true,
            finished: false,
            in_savepoint: false,
            insert: None,
        };
        writer.pragmas()?;
        let version = FORMAT_VERSION;
        writer
            .db()?
            .execute_batch(&format!(
                "BEGIN; PRAGMA application_id={APPLICATION_ID}; {DDL} \
                 INSERT INTO meta VALUES('format_version','{version}'),('generation','0'); COMMIT;"
            ))
            .map_err(sqlite(path))?;
        Ok(writer)
    }

    /// Makes a new store in `file`, which is empty and which the caller gives its name, or throws away. `path` is what it
    /// is called in messages.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn in_file(file: &Path, path: &str) -> Result<Writer> {
        let db = Connection::open(file).map_err(sqlite(path))?;
        db.set_prepared_statement_cache_capacity(256);
        // No journal, as when publishing.
        db.execute_batch(&format!(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; BEGIN; \
             PRAGMA application_id={APPLICATION_ID}; {DDL} \
             INSERT INTO meta VALUES('format_version','{FORMAT_VERSION}'),('generation','0'); COMMIT;"
        ))
        .map_err(sqlite(path))?;
        Ok(Writer {
            db: Some(db),
            _lock: None,
            path: path.to_owned(),
            file: std::path::absolute(path).map_err(|e| store_error(path, e.to_string()))?,
            is_new: false,
            finished: false,
            in_savepoint: false,
            insert: None,
        })
    }

    /// Opens a store to add to it.
    ///
    /// # Errors
    /// [`Error::Store`] if it is not a store with this project's tables, or someone else is writing it.
    pub fn open(path: &str) -> Result<Writer> {
        let file = std::path::absolute(path).map_err(|e| store_error(path, e.to_string()))?;
        let lock_file = File::options()
            .read(true)
            .write(true)
            .open(&file)
            .map_err(|e| store_error(path, format!("can't be opened for writing: {e}")))?;
        lock(path, &lock_file)?;
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&file, flags).map_err(sqlite(path))?;
        let mut writer = Writer {
            db: Some(db),
            _lock: Some(lock_file),
            path: path.to_owned(),
            file,
            is_new: false,
            finished: false,
            in_savepoint: false,
            insert: None,
        };
        let version = writer.meta("format_version").map_err(|_| store_error(path, "is not an mdim-refs store"))?;
        match version.as_deref() {
            Some(FORMAT_VERSION) => {}
            Some(other) => {
                return Err(store_error(path, format!("its format is {other}; only {FORMAT_VERSION} can be added to")));
            }
            None => return Err(store_error(path, "is not an mdim-refs store: it has no format_version")),
        }
        for (table, wanted) in [
            ("sources", &["source_id", "source", "size", "mtime", "etag"][..]),
            ("arrays", &["array", "shape", "chunks", "values"]),
            ("placements", &["array", "dest", "source_id", "source_array", "src_offset", "count"]),
        ] {
            let have = super::rows::columns(writer.db()?, table).map_err(sqlite(path))?;
            if let Some(missing) = wanted.iter().find(|w| !have.iter().any(|h| h == *w)) {
                return Err(store_error(
                    path,
                    format!(
                        "its table {table} has no column {missing}: other software made it; `import` it into a new store"
                    ),
                ));
            }
        }
        writer.pragmas()?;
        Ok(writer)
    }

    fn pragmas(&mut self) -> Result<()> {
        let db = self.db()?;
        db.set_prepared_statement_cache_capacity(256);
        // WAL: a killed writer leaves what was committed, and readers go on.
        db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536;")
            .map_err(sqlite(&self.path))
    }

    pub(super) fn db(&self) -> Result<&Connection> {
        self.db.as_ref().ok_or_else(|| store_error(&self.path, "is closed"))
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.db()?.execute_batch(sql).map_err(sqlite(&self.path))
    }

    /// The path as opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Begins a batch of sources.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn begin(&mut self) -> Result<()> {
        self.run("BEGIN IMMEDIATE")
    }

    /// Ends a batch: what it wrote stays, whatever happens.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn commit(&mut self) -> Result<()> {
        self.run("COMMIT")
    }

    /// Forgets the batch.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn rollback(&mut self) -> Result<()> {
        self.in_savepoint = false;
        if self.db()?.is_autocommit() { Ok(()) } else { self.run("ROLLBACK") }
    }

    /// Begins one source within a batch.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn savepoint(&mut self) -> Result<()> {
        self.run("SAVEPOINT source")?;
        self.in_savepoint = true;
        Ok(())
    }

    /// Keeps the source.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn release(&mut self) -> Result<()> {
        self.in_savepoint = false;
        self.run("RELEASE source")
    }

    /// Forgets the source.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn rollback_to(&mut self) -> Result<()> {
        self.in_savepoint = false;
        self.run("ROLLBACK TO source; RELEASE source")
    }

    /// Whether a source has begun and not ended.
    pub fn in_savepoint(&self) -> bool {
        self.in_savepoint
    }

    /// All sources.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn sources(&self) -> Result<Vec<(SourceId, String, Stat)>> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement = self
                .connection()?
                .prepare("SELECT source_id, source, size, mtime, etag FROM sources ORDER BY source_id")?;
            let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, stat_of(r, 2)?)))?;
            rows.collect()
        };
        read().map_err(sqlite(&self.path))
    }

    fn connection(&self) -> rusqlite::Result<&Connection> {
        self.db.as_ref().ok_or(rusqlite::Error::InvalidQuery)
    }

    /// A source by name.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn source(&self, source: &str) -> Result<Option<(SourceId, Stat)>> {
        let read = || {
            self.connection()?
                .prepare_cached("SELECT source_id, size, mtime, etag FROM sources WHERE source=?1")?
                .query_row([source], |r| Ok((r.get(0)?, stat_of(r, 1)?)))
                .optional()
        };
        read().map_err(sqlite(&self.path))
    }

    /// Adds a source, or updates what is known of it.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn put_source(&mut self, source: &str, stat: &Stat) -> Result<SourceId> {
        let write = || {
            self.connection()?
                .prepare_cached(
                    "INSERT INTO sources(source_id, source, size, mtime, etag) \
                     VALUES((SELECT coalesce(max(source_id),0)+1 FROM sources),?1,?2,?3,?4) \
                     ON CONFLICT(source) DO UPDATE SET size=excluded.size, mtime=excluded.mtime, etag=excluded.etag \
                     RETURNING source_id",
                )?
                .query_row(params![source, stat.size.map(|s| s as i64), stat.mtime, stat.etag], |r| r.get(0))
        };
        write().map_err(sqlite(&self.path))
    }

    fn types(&self) -> Result<AttrTypes> {
        Ok(attr_types(self.meta("attr_types")?.as_deref()))
    }

    fn put_types(&mut self, key: &str, types: Map<String, Value>) -> Result<()> {
        let text = self.meta("attr_types")?;
        let mut all: Map<String, Value> = text.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default();
        if all.get(key).and_then(Value::as_object) == Some(&types) {
            return Ok(());
        }
        all.insert(key.to_owned(), Value::Object(types));
        all.sort_keys();
        self.set_meta("attr_types", Some(&Value::Object(all).to_string()))
    }

    /// All arrays.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Store`] for one that breaks a rule.
    pub fn arrays(&self) -> Result<Vec<ArrayDesc>> {
        let types = self.types()?;
        read_arrays(self.db()?, &types)
            .map_err(sqlite(&self.path))?
            .into_iter()
            .map(|a| a.map_err(|(name, why)| store_error(&self.path, format!("array \"{name}\": {why}"))))
            .collect()
    }

    /// An array by name.
    ///
    /// # Errors
    /// As [`Writer::arrays`].
    pub fn array(&self, name: &str) -> Result<Option<ArrayDesc>> {
        Ok(self.arrays()?.into_iter().find(|a| a.name == name))
    }

    /// Adds or replaces an array; a referenced one gets its chunk table.
    ///
    /// # Errors
    /// [`Error::Store`] for a name that can't be one, or a number of dimensions that its chunk table has not.
    pub fn put_array(&mut self, desc: &ArrayDesc) -> Result<()> {
        let others = self.arrays()?;
        check_name(&self.path, &desc.name, others.iter().map(|a| a.name.as_str()))?;
        if desc.storage == Storage::Referenced {
            let rank = desc.dims.len();
            let have = super::rows::columns(self.db()?, &desc.name).map_err(sqlite(&self.path))?;
            if have.is_empty() {
                self.run(&chunk_table(&desc.name, rank))?;
            } else if have.iter().filter(|c| c.starts_with("dim_")).count() != rank {
                return Err(store_error(
                    &self.path,
                    format!("array \"{}\" has {rank} dimensions, but another number in the store", desc.name),
                ));
            }
        }
        write_array(self.db()?, desc).map_err(sqlite(&self.path))?;
        self.put_types(&desc.name, desc.attrs.types_json())
    }

    /// Removes all chunks of a source from an array.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete_rows(&mut self, array: &str, id: SourceId) -> Result<()> {
        let sql = format!("DELETE FROM {} WHERE source_id=?1", quote(array));
        let write = || self.connection()?.prepare_cached(&sql)?.execute([id]);
        write().map(drop).map_err(sqlite(&self.path))
    }

    /// Whether a source has chunks in an array.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn has_rows(&self, array: &str, id: SourceId) -> Result<bool> {
        let sql = format!("SELECT 1 FROM {} WHERE source_id=?1 LIMIT 1", quote(array));
        let read = || self.connection()?.prepare_cached(&sql)?.exists([id]);
        read().map_err(sqlite(&self.path))
    }

    /// Adds one chunk: `key` is its place in the source's chunk grid.
    ///
    /// # Errors
    /// [`Error::Sqlite`], also for a key that is there already; [`Error::Store`] for numbers beyond 2^63.
    pub fn put_row(
        &mut self,
        array: &str,
        id: SourceId,
        key: &[u64],
        data: RowData<'_>,
        info: Option<&str>,
    ) -> Result<()> {
        if self.insert.as_ref().is_none_or(|(name, rank, _)| name != array || *rank != key.len()) {
            let marks: Vec<String> = (1..=key.len() + 6).map(|i| format!("?{i}")).collect();
            let sql = format!("INSERT INTO {} VALUES({})", quote(array), marks.join(","));
            self.insert = Some((array.to_owned(), key.len(), sql));
        }
        let too_large =
            || store_error(&self.path, format!("array \"{array}\", chunk {key:?}: a number is beyond 2^63"));
        let signed = |v: u64| i64::try_from(v).map_err(|_| too_large());
        let (present, offset, size, bytes) = match data {
            RowData::Range { offset, size } => (1, Some(signed(offset)?), Some(signed(size)?), None),
            RowData::Inline(bytes) => (1, None, None, Some(bytes)),
            RowData::Absent => (0, None, None, None),
        };
        if key.iter().any(|k| *k > i64::MAX as u64) {
            return Err(too_large());
        }
        let write = || -> rusqlite::Result<()> {
            let sql = self.insert.as_ref().map_or("", |(_, _, sql)| sql);
            let mut statement = self.connection()?.prepare_cached(sql)?;
            statement.raw_bind_parameter(1, id)?;
            for (i, k) in key.iter().enumerate() {
                statement.raw_bind_parameter(i + 2, *k as i64)?;
            }
            let n = key.len() + 2;
            statement.raw_bind_parameter(n, present)?;
            statement.raw_bind_parameter(n + 1, offset)?;
            statement.raw_bind_parameter(n + 2, size)?;
            statement.raw_bind_parameter(n + 3, info)?;
            statement.raw_bind_parameter(n + 4, bytes)?;
            statement.raw_execute().map(drop)
        };
        write().map_err(sqlite(&self.path))
    }

    /// Puts a dimension in front of those of an array, in which every chunk has the place 0. The array has no plan then.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Store`] if there is no such array.
    pub fn add_dimension(&mut self, array: &str, dim: &str) -> Result<()> {
        let desc =
            self.array(array)?.ok_or_else(|| store_error(&self.path, format!("there is no array \"{array}\"")))?;
        let rank = desc.dims.len();
        let view = view_name(array);
        let kind: Option<String> = self
            .db()?
            .query_row("SELECT type FROM sqlite_master WHERE name=?1", [&view], |r| r.get(0))
            .optional()
            .map_err(sqlite(&self.path))?;
        if let Some(kind) = kind {
            self.run(&format!("DROP {} {}", if kind == "table" { "TABLE" } else { "VIEW" }, quote(&view)))?;
        }
        let columns: String = (0..rank).map(|i| format!("dim_{i}, ")).collect();
        self.insert = None;
        self.run(&format!(
            "ALTER TABLE {name} RENAME TO {old}; {table}; INSERT INTO {name} SELECT source_id, 0, {columns}present, \
             \"offset\", size, info, data FROM {old}; DROP TABLE {old}",
            name = quote(array),
            old = quote(&view),
            table = chunk_table(array, rank + 1),
        ))?;
        self.set_placements(array, &[])?;
        let (mut dims, mut chunks) = (desc.dims.clone(), desc.chunks.clone());
        dims.insert(0, dim.to_owned());
        chunks.insert(0, 1);
        write_array(self.db()?, &ArrayDesc { dims, chunks, shape: None, ..desc }).map_err(sqlite(&self.path))
    }

    /// Cuts the chunks of an array without a codec into `pieces`, which [`crate::model::Cut`] allows.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Store`] if there is no such array.
    pub fn cut_chunks(&mut self, array: &str, pieces: &[u64]) -> Result<()> {
        type Row = (SourceId, Vec<u64>, bool, Option<i64>, Option<String>, Option<Vec<u8>>);
        let desc =
            self.array(array)?.ok_or_else(|| store_error(&self.path, format!("there is no array \"{array}\"")))?;
        let rank = desc.dims.len();
        let cut = crate::model::Cut::new(&desc.chunks, pieces, desc.dtype.size as u64);
        let read = || -> rusqlite::Result<Vec<Row>> {
            let sql = format!("SELECT * FROM {}", quote(array));
            let mut statement = self.connection()?.prepare(&sql)?;
            let rows = statement.query_map([], |r| {
                let key = (1..=rank).map(|i| r.get::<_, i64>(i).map(|k| k as u64)).collect::<rusqlite::Result<_>>()?;
                Ok((r.get(0)?, key, r.get(rank + 1)?, r.get(rank + 2)?, r.get(rank + 4)?, r.get(rank + 5)?))
            })?;
            rows.collect()
        };
        let rows = read().map_err(sqlite(&self.path))?;
        self.run(&format!("DELETE FROM {}", quote(array)))?;
        for (id, key, present, offset, info, data) in rows {
            cut.each(&key, &mut |key, from, size| {
                let bytes = data.as_deref().and_then(|d| d.get(from as usize..(from + size) as usize));
                let row = match (present, offset, bytes) {
                    (true, Some(offset), _) => RowData::Range { offset: offset as u64 + from, size },
                    (true, None, Some(bytes)) => RowData::Inline(bytes),
                    _ => RowData::Absent,
                };
                self.put_row(array, id, key, row, info.as_deref())
            })?;
        }
        write_array(self.db()?, &ArrayDesc { chunks: pieces.to_vec(), ..desc }).map_err(sqlite(&self.path))
    }

    /// The placements of an array.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Store`] for one that can't be read.
    pub fn placements(&self, array: &str) -> Result<Vec<Placement>> {
        read_placements(self.db()?, &self.path, array)
    }

    /// Replaces the placements of an array.
    ///
    /// # Errors
    /// [`Error::Plan`] for one that is not aligned with the chunks, or two that overlap, naming array and sources.
    pub fn set_placements(&mut self, array: &str, list: &[Placement]) -> Result<()> {
        let desc =
            self.array(array)?.ok_or_else(|| store_error(&self.path, format!("there is no array \"{array}\"")))?;
        let name = |id: SourceId| self.source_name(id);
        let mut boxes = Vec::with_capacity(list.len());
        if let Some(shape) = &desc.shape {
            for p in list {
                boxes.push(
                    chunk_box(shape, &desc.chunks, &p.dest, &p.src_offset, &p.count, p.source_id)
                        .map_err(|e| Error::Plan(format!("{}: array \"{array}\": {e}", name(p.source_id))))?,
                );
            }
            if let Err((a, b)) = PlanIndex::new(boxes) {
                return Err(Error::Plan(format!(
                    "array \"{array}\": {} (elements {:?} from {:?}) and {} ({:?} from {:?}) overlap: leave one of them out",
                    name(list[a].source_id),
                    list[a].count,
                    list[a].dest,
                    name(list[b].source_id),
                    list[b].count,
                    list[b].dest,
                )));
            }
        } else if !list.is_empty() {
            return Err(store_error(&self.path, format!("array \"{array}\" has no shape yet")));
        }
        let mut arrays_of = std::collections::HashMap::new();
        for p in list {
            let known = arrays_of.entry(p.source_id).or_insert(&p.source_array);
            if **known != p.source_array {
                return Err(Error::Plan(format!(
                    "array \"{array}\": {} gives two arrays to it, \"{known}\" and \"{}\"",
                    name(p.source_id),
                    p.source_array
                )));
            }
        }
        let write = || -> rusqlite::Result<()> {
            let db = self.connection()?;
            db.execute("DELETE FROM placements WHERE \"array\"=?1", [array])?;
            let mut statement = db.prepare_cached(
                "INSERT INTO placements(\"array\",dest,source_id,source_array,src_offset,\"count\") VALUES(?1,?2,?3,?4,?5,?6)",
            )?;
            for p in list {
                statement.execute(params![
                    array,
                    list_json(&p.dest),
                    p.source_id,
                    p.source_array,
                    list_json(&p.src_offset),
                    list_json(&p.count)
                ])?;
            }
            Ok(())
        };
        write().map_err(sqlite(&self.path))
    }

    fn source_name(&self, id: SourceId) -> String {
        let read = || {
            self.connection()?
                .query_row("SELECT source FROM sources WHERE source_id=?1", [id], |r| r.get::<_, String>(0))
        };
        read().unwrap_or_else(|_| format!("source {id}"))
    }

    /// A value of `meta`.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        let read = || {
            let found: Option<Option<String>> =
                self.connection()?.query_row("SELECT value FROM meta WHERE key=?1", [key], |r| r.get(0)).optional()?;
            Ok(found.flatten())
        };
        read().map_err(sqlite(&self.path))
    }

    /// Sets a value of `meta`; None removes it.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn set_meta(&mut self, key: &str, value: Option<&str>) -> Result<()> {
        let write = || match value {
            Some(value) => self.connection()?.execute(
                "INSERT INTO meta(key,value) VALUES(?1,?2) ON CONFLICT(key) DO UPDATE SET value=excluded.value",
                [key, value],
            ),
            None => self.connection()?.execute("DELETE FROM meta WHERE key=?1", [key]),
        };
        write().map(drop).map_err(sqlite(&self.path))
    }

    /// Sets `meta.dimensions`.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn set_dimensions(&mut self, list: &[(String, DimInfo)]) -> Result<()> {
        let mut all = dimensions::from_json(&self.meta("dimensions")?.unwrap_or_default());
        for (name, info) in list {
            match all.iter_mut().find(|(n, _)| n == name) {
                Some((_, old)) => old.clone_from(info),
                None => all.push((name.clone(), info.clone())),
            }
        }
        self.set_meta("dimensions", Some(&dimensions::to_json(&all)))
    }

    /// Attributes of the root group and of the other groups.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn group_attributes(&self) -> Result<(Attributes, Vec<(String, Attributes)>)> {
        let types = self.types()?;
        Ok(read_groups(&types, self.meta("attrs")?.as_deref(), self.meta("groups")?.as_deref()))
    }

    /// Sets the attributes of the root group and of the other groups.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn set_group_attributes(&mut self, root: &Attributes, groups: &[(String, Attributes)]) -> Result<()> {
        self.set_meta("attrs", Some(&root.to_json().to_string()))?;
        self.put_types(&group_key(""), root.types_json())?;
        let object: Map<String, Value> =
            groups.iter().filter(|(_, a)| !a.0.is_empty()).map(|(n, a)| (n.clone(), a.to_json())).collect();
        let text = (!object.is_empty()).then(|| Value::Object(object).to_string());
        self.set_meta("groups", text.as_deref())?;
        for (name, attributes) in groups.iter().filter(|(_, a)| !a.0.is_empty()) {
            self.put_types(&group_key(name), attributes.types_json())?;
        }
        Ok(())
    }

    /// Makes the views, and leaves the store as one file that nobody has to write to read it.
    ///
    /// # Errors
    /// [`Error::Sqlite`], [`Error::Store`].
    pub fn finish(mut self) -> Result<()> {
        self.run("BEGIN IMMEDIATE")?;
        let mut wanted = BTreeSet::new();
        for desc in self.arrays()? {
            if desc.storage != Storage::Referenced || desc.dims.is_empty() {
                continue;
            }
            let name = view_name(&desc.name);
            let sql = view::create_view(&desc.name, desc.dims.len());
            let stored: Option<(String, Option<String>)> = self
                .db()?
                .query_row("SELECT type, sql FROM sqlite_master WHERE name=?1", [&name], |r| Ok((r.get(0)?, r.get(1)?)))
                .optional()
                .map_err(sqlite(&self.path))?;
            let planned = desc.shape.is_some();
            match stored {
                // A table of that name was published on purpose; it no longer goes with the plan.
                Some((kind, _)) if kind == "table" => self.run(&format!("DROP TABLE {}", quote(&name)))?,
                Some((_, old)) if !planned || old.as_deref() != Some(&sql) => {
                    self.run(&format!("DROP VIEW {}", quote(&name)))?;
                }
                Some(_) => continue,
                None => {}
            }
            if planned {
                self.run(&sql)?;
                wanted.insert(name);
            }
        }
        let generation = self.meta("generation")?.and_then(|g| g.parse::<i64>().ok()).unwrap_or(0);
        self.set_meta("generation", Some(&generation.saturating_add(1).to_string()))?;
        self.run(&format!("PRAGMA application_id={APPLICATION_ID}; COMMIT"))?;
        self.finished = true;
        self.close()?;
        if self.file != std::path::absolute(&self.path).unwrap_or_default() {
            std::fs::rename(&self.file, &self.path)
                .map_err(|e| store_error(&self.path, format!("can't be replaced: {e}")))?;
        }
        Ok(())
    }

    /// One file, no journal beside it.
    fn close(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        db.flush_prepared_statement_cache();
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE;").map_err(sqlite(&self.path))?;
        db.close().map_err(|(_, e)| Error::Sqlite { path: self.path.clone(), source: e })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let _ = self.rollback();
        if self.is_new {
            drop(self.db.take());
            for file in side_files(&self.file) {
                let _ = std::fs::remove_file(file);
            }
        } else {
            let _ = self.close();
        }
    }
}

/// `CREATE TABLE` of the chunks of an array of `rank` dimensions.
pub(super) fn chunk_table(array: &str, rank: usize) -> String {
    let declared: Vec<String> = (0..rank).map(|i| format!("dim_{i} BIGINT")).collect();
    let names: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
    format!(
        "CREATE TABLE {}(source_id INTEGER, {}, present INTEGER, \"offset\" BIGINT, size BIGINT, info TEXT, data BLOB, \
         PRIMARY KEY(source_id, {})) WITHOUT ROWID",
        quote(array),
        declared.join(", "),
        names.join(", ")
    )
}

fn stat_of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Stat> {
    let size: Option<i64> = row.get(first)?;
    Ok(Stat { size: size.and_then(|s| u64::try_from(s).ok()), mtime: row.get(first + 1)?, etag: row.get(first + 2)? })
}

/// Whether a file is a store, of this or other software.
pub fn is_store_file(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(100).read_to_end(&mut head));
    read.is_ok() && (is_store(&head) || has_store_tables(path))
}

fn has_store_tables(path: &Path) -> bool {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let check = || -> rusqlite::Result<bool> {
        let db = Connection::open_with_flags(path, flags)?;
        db.query_row("SELECT count(*)=2 FROM sqlite_master WHERE name IN ('meta','arrays')", [], |r| r.get(0))
    };
    check().unwrap_or(false)
}

/// Reads the placements of an array, in the order of the table's key.
pub(super) fn read_placements(db: &Connection, path: &str, array: &str) -> Result<Vec<Placement>> {
    let mut statement = db
        .prepare_cached(
            "SELECT dest, source_id, source_array, src_offset, \"count\" FROM placements WHERE \"array\"=?1",
        )
        .map_err(sqlite(path))?;
    let mut rows = statement.query([array]).map_err(sqlite(path))?;
    let mut list = Vec::new();
    while let Some(row) = rows.next().map_err(sqlite(path))? {
        let get = |i: usize| -> Result<Vec<u64>> {
            let text: String = row.get(i).map_err(sqlite(path))?;
            parse_list(&text).ok_or_else(|| {
                store_error(path, format!("a placement of array \"{array}\": {text} is not a list of whole numbers"))
            })
        };
        list.push(Placement {
            dest: get(0)?,
            source_id: row.get(1).map_err(sqlite(path))?,
            source_array: row.get::<_, Option<String>>(2).map_err(sqlite(path))?.unwrap_or_default(),
            src_offset: get(3)?,
            count: get(4)?,
        });
    }
    Ok(list)
}

/// Attributes of the root group and of the others, from the values of `meta`.
pub(super) fn read_groups(
    types: &AttrTypes,
    attrs: Option<&str>,
    groups: Option<&str>,
) -> (Attributes, Vec<(String, Attributes)>) {
    let parse = |text: Option<&str>| text.and_then(|t| serde_json::from_str::<Value>(t).ok());
    let root = parse(attrs).and_then(|v| Attributes::from_json(&v, types.get(&group_key(""))));
    let others = match parse(groups) {
        Some(Value::Object(object)) => object
            .into_iter()
            .filter_map(|(name, v)| {
                let name = name.strip_prefix('/').unwrap_or(&name).to_owned();
                let attributes = Attributes::from_json(&v, types.get(&group_key(&name)))?;
                Some((name, attributes))
            })
            .collect(),
        _ => Vec::new(),
    };
    (root.unwrap_or_default(), others)
}
