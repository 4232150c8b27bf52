//! Stores of earlier formats: mdim-refs/0.1 and raad.virtualize.

use super::connection::Db;
use super::names::quote;
use super::rows::{attr_types, column_or_null, columns, read_arrays, sqlite};
use crate::model::ArrayDesc;
use crate::{Error, Result};
use rusqlite::types::ValueRef;

/// What an earlier store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierKind {
    /// mdim-refs/0.1: `sources(file_id, access, public)`, chunks by their place in the whole.
    Global,
    /// raad.virtualize: `files(file_id, source)`, chunks by their place in the file; arrays and places are in a VRT.
    Within,
}

/// A store of an earlier format, read-only.
#[derive(Debug)]
pub struct EarlierStore {
    db: Db,
    path: String,
    kind: EarlierKind,
}

/// A table of chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierTable {
    name: String,
    have: Vec<String>,
    /// Whose chunks these are; the column `array` of a table of several.
    pub array: String,
    shared: bool,
    /// Number of dimensions.
    pub rank: usize,
}

/// A file of an earlier store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierFile {
    /// Its number.
    pub id: i64,
    /// The path opened.
    pub source: String,
    /// The path for others.
    pub public: Option<String>,
}

/// A chunk of an earlier store.
#[derive(Clone, Copy, Debug)]
pub struct EarlierRow<'a> {
    /// The file.
    pub file: i64,
    /// Place, in chunks.
    pub key: &'a [u64],
    /// Byte offset and size; None for one that is nowhere, or carried.
    pub range: Option<(u64, u64)>,
    /// GDAL's block-info text.
    pub info: Option<&'a str>,
    /// Its bytes.
    pub data: Option<&'a [u8]>,
}

impl EarlierStore {
    /// Opens a file; None if it is neither of these formats.
    ///
    /// # Errors
    /// [`Error::Sqlite`] if it can't be read.
    pub fn open(path: &str) -> Result<Option<EarlierStore>> {
        let db = Db::open(path, None).map_err(sqlite(path))?;
        let has = |table: &str, wanted: &[&str]| -> Result<bool> {
            let have = columns(&db, table).map_err(sqlite(path))?;
            Ok(wanted.iter().all(|w| have.iter().any(|h| h == w)))
        };
        let kind = if has("sources", &["file_id", "access"])? && has("arrays", &["array", "dtype"])? {
            EarlierKind::Global
        } else if has("files", &["file_id", "source"])? {
            EarlierKind::Within
        } else {
            return Ok(None);
        };
        Ok(Some(EarlierStore { db, path: path.to_owned(), kind }))
    }

    /// Which format.
    pub fn kind(&self) -> EarlierKind {
        self.kind
    }

    /// A value of `meta`, if there is such a table.
    pub fn meta(&self, key: &str) -> Option<String> {
        self.db.query_row("SELECT value FROM meta WHERE key=?1", [key], |r| r.get(0)).ok()
    }

    /// All files.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn files(&self) -> Result<Vec<EarlierFile>> {
        let (table, source) = match self.kind {
            EarlierKind::Global => ("sources", "access"),
            EarlierKind::Within => ("files", "source"),
        };
        let read = || -> rusqlite::Result<Vec<EarlierFile>> {
            let public = column_or_null(&columns(&self.db, table)?, "public");
            let mut statement =
                self.db.prepare(&format!("SELECT file_id, {source}, {public} FROM {table} ORDER BY file_id"))?;
            let rows =
                statement.query_map([], |r| Ok(EarlierFile { id: r.get(0)?, source: r.get(1)?, public: r.get(2)? }))?;
            rows.collect()
        };
        read().map_err(sqlite(&self.path))
    }

    /// The rows of `arrays`; of those that can't be read, name and reason.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn arrays(&self) -> Result<Vec<Result<ArrayDesc, (String, String)>>> {
        read_arrays(&self.db, &attr_types(self.meta("attr_types").as_deref())).map_err(sqlite(&self.path))
    }

    /// All tables of chunks: those with `file_id`, `idx0`, `offset` and `size`.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn tables(&self) -> Result<Vec<EarlierTable>> {
        let read = || -> rusqlite::Result<Vec<EarlierTable>> {
            let mut names = self.db.prepare("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")?;
            let names: Vec<String> = names.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
            let mut tables = Vec::new();
            for name in names {
                let have = columns(&self.db, &name)?;
                if !["file_id", "idx0", "offset", "size"].iter().all(|w| have.iter().any(|h| h == w)) {
                    continue;
                }
                let rank =
                    (0..super::rows::MAX_RANK).take_while(|i| have.iter().any(|h| *h == format!("idx{i}"))).count();
                let of = |array: String, shared| EarlierTable {
                    name: name.clone(),
                    have: have.clone(),
                    array,
                    shared,
                    rank,
                };
                if have.iter().any(|h| h == "array") {
                    let mut arrays =
                        self.db.prepare(&format!("SELECT DISTINCT \"array\" FROM {} ORDER BY 1", quote(&name)))?;
                    let arrays = arrays.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
                    tables.extend(arrays.into_iter().map(|a| of(a, true)));
                } else {
                    let array = ["refs_", "chunks_"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(&name);
                    tables.push(of(array.to_owned(), false));
                }
            }
            Ok(tables)
        };
        read().map_err(sqlite(&self.path))
    }

    /// Lists the chunks of a table.
    ///
    /// # Errors
    /// [`Error::Store`] for rows that are wrong, [`Error::Sqlite`]; what `sink` gives.
    pub fn each_row(&self, table: &EarlierTable, sink: &mut dyn FnMut(EarlierRow<'_>) -> Result<()>) -> Result<()> {
        let failed = sqlite(&self.path);
        let list = |names: &[&str]| -> Vec<String> { names.iter().map(|c| column_or_null(&table.have, c)).collect() };
        let keys: Vec<String> = (0..table.rank).map(|i| format!("idx{i}")).collect();
        let sql = format!(
            "SELECT file_id, {}, {} FROM {}{}",
            keys.join(","),
            list(&["offset", "size", "info", "data"]).join(","),
            quote(&table.name),
            if table.shared { " WHERE \"array\"=?1" } else { "" }
        );
        let mut statement = self.db.prepare(&sql).map_err(&failed)?;
        let bound: &[&dyn rusqlite::ToSql] = if table.shared { &[&table.array] } else { &[] };
        let mut rows = statement.query(bound).map_err(&failed)?;
        let mut key = vec![0u64; table.rank];
        self.db.goes_on();
        let mut count = 0u64;
        while let Some(row) = rows.next().map_err(&failed)? {
            count += 1;
            if count.is_multiple_of(1024) {
                self.db.goes_on();
            }
            let bad = |what: &str| Error::Store {
                path: self.path.clone(),
                what: format!("table \"{}\", row {count}: {what}", table.name),
            };
            // R writes whole numbers as floats where they are beyond 2^31.
            let number = |i: usize| match row.get_ref(i).map_err(&failed)? {
                ValueRef::Null => Ok(None),
                ValueRef::Integer(n) => u64::try_from(n).map(Some).map_err(|_| bad("a number is negative")),
                ValueRef::Real(f) if f.fract() == 0.0 && (0.0..9.0e15).contains(&f) => Ok(Some(f as u64)),
                _ => Err(bad("a number is none")),
            };
            for (i, k) in key.iter_mut().enumerate() {
                *k = number(i + 1)?.ok_or_else(|| bad("its place is NULL"))?;
            }
            let file = number(0)?.and_then(|n| i64::try_from(n).ok()).ok_or_else(|| bad("file_id is no number"))?;
            let n = table.rank + 1;
            let range = match (number(n)?, number(n + 1)?) {
                (Some(offset), Some(size)) if size > 0 => Some((offset, size)),
                (None, _) => None,
                _ => return Err(bad("it has an offset, but no size")),
            };
            let info = match row.get_ref(n + 2).map_err(&failed)? {
                ValueRef::Text(t) => std::str::from_utf8(t).ok(),
                _ => None,
            };
            let data = match row.get_ref(n + 3).map_err(&failed)? {
                ValueRef::Blob(b) => Some(b),
                ValueRef::Null => None,
                // Taken for nothing, it would read as fill.
                _ => return Err(bad("data is no BLOB")),
            };
            sink(EarlierRow { file, key: &key, range, info, data })?;
        }
        Ok(())
    }
}
