//! Publishing: a store built afresh from another, so that equal content is equal bytes.

use super::names::{quote, view_name};
use super::remap::path_sql;
use super::rows::{column_or_null, sqlite};
use super::write::{DDL, chunk_table};
use super::{APPLICATION_ID, FORMAT_VERSION, Store, view};
use crate::model::Storage;
use crate::{Error, Result};
use rusqlite::Connection;
use std::path::Path;

/// Key of `meta`: the views are tables, and their paths final, for this target (empty: none).
pub(super) const MATERIALIZED: &str = "materialized";

/// What is published.
#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// Remap target for whom it is; None: the one that the store has already, if any.
    pub target: Option<String>,
    /// Makes each `refs_<array>` a table with a key and final paths, in place of a view.
    pub materialize: bool,
}

/// Columns of a chunk after its key, in the physical layer.
const CHUNK: [&str; 5] = ["present", "offset", "size", "info", "data"];

/// The new database, with the published one attached as `old`.
struct Copy<'a> {
    db: Connection,
    store: &'a Store,
    target: Option<&'a str>,
}

impl Store {
    /// The target for which the paths of `refs_<array>` are final; empty for none. None if they are not.
    pub fn materialized(&self) -> Option<&str> {
        self.meta(MATERIALIZED)
    }

    /// Writes this store afresh to `file`, which is empty or does not exist: rows in the order of their keys, no free
    /// pages, no journal. `step` takes the share done after each array.
    ///
    /// Tables that are not of the format are left out. What is a table `refs_<array>` stays one.
    ///
    /// # Errors
    /// [`Error::Store`] for a target without rules, [`Error::Sqlite`], also for two rows of one chunk; what `step` gives.
    pub fn publish(
        &self,
        file: &Path,
        options: &PublishOptions,
        step: &mut dyn FnMut(f64) -> Result<()>,
    ) -> Result<()> {
        let target = options.target.as_deref().or(self.meta("target")).filter(|t| !t.is_empty());
        if let (Some(target), Some(done)) = (target, self.materialized())
            && target != done
        {
            return Err(self.error(format!(
                "its paths are final, for target \"{done}\": publish \"{target}\" from the store that it was made from"
            )));
        }
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
            | rusqlite::OpenFlags::SQLITE_OPEN_CREATE
            | rusqlite::OpenFlags::SQLITE_OPEN_URI
            | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(file, flags).map_err(sqlite(self.path()))?;
        let copy = Copy { db, store: self, target };
        copy.begin()?;
        copy.tables()?;
        let mut materialized = self.materialized().is_some();
        for (number, desc) in self.arrays().iter().enumerate() {
            step(number as f64 / self.arrays().len() as f64)?;
            if desc.storage == Storage::Referenced && !desc.dims.is_empty() {
                let has_chunks = copy.chunks(&desc.name, desc.dims.len())?;
                if desc.shape.is_some() {
                    materialized |= copy.whole(&desc.name, desc.dims.len(), has_chunks, options.materialize)?;
                }
            }
        }
        if materialized {
            copy.set_meta(MATERIALIZED, target.unwrap_or_default())?;
        }
        copy.run("COMMIT; DETACH old;")?;
        copy.db.close().map_err(|(_, e)| sqlite(self.path())(e))
    }

    fn error(&self, what: String) -> Error {
        Error::Store { path: self.path().to_owned(), what }
    }
}

impl Copy<'_> {
    fn run(&self, sql: &str) -> Result<()> {
        self.db.execute_batch(sql).map_err(sqlite(self.store.path()))
    }

    fn begin(&self) -> Result<()> {
        // No journal: the file is thrown away if anything fails, and synced by the caller before it gets its name.
        self.run(
            "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; \
             PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;",
        )?;
        self.db.execute("ATTACH ?1 AS old", [self.store.uri()]).map_err(sqlite(self.store.path()))?;
        self.run(&format!("BEGIN; PRAGMA main.application_id={APPLICATION_ID}; {DDL}"))
    }

    /// Columns of a table of the old store; empty if there is none.
    fn columns(&self, table: &str) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.db.prepare("SELECT name FROM pragma_table_info(?1,'old')")?;
            statement.query_map([table], |r| r.get(0))?.collect()
        };
        read().map_err(sqlite(self.store.path()))
    }

    fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        self.db
            .execute(
                "INSERT INTO main.meta(key,value) VALUES(?1,?2) ON CONFLICT(key) DO UPDATE SET value=excluded.value",
                [key, value],
            )
            .map(drop)
            .map_err(sqlite(self.store.path()))
    }

    /// The tables of the format.
    fn tables(&self) -> Result<()> {
        let own_order = if self.db.prepare("SELECT rowid FROM old.arrays LIMIT 0").is_ok() { "rowid" } else { "1" };
        let tables: [(&str, &[&str], &str); 5] = [
            ("meta", &["key", "value"], "key"),
            ("sources", &["source_id", "source", "size", "mtime", "etag"], "source_id"),
            (
                "arrays",
                &[
                    "array", "kind", "storage", "dims", "shape", "chunks", "dtype", "fill", "codec", "attrs", "affine",
                    "values",
                ],
                own_order,
            ),
            ("placements", &["array", "dest", "source_id", "source_array", "src_offset", "count"], "\"array\", dest"),
            ("remap", &["target", "prefix", "replacement"], "target, prefix"),
        ];
        for (table, wanted, order) in tables {
            let have = self.columns(table)?;
            if have.is_empty() {
                continue;
            }
            let list: Vec<String> = wanted.iter().map(|c| column_or_null(&have, c)).collect();
            // What is set below comes last, so that its place does not tell how often it was.
            let not_set_here = if table == "meta" { " WHERE key NOT IN ('materialized','target')" } else { "" };
            self.run(&format!(
                "INSERT INTO main.{table} SELECT {} FROM old.{table}{not_set_here} ORDER BY {order}",
                list.join(",")
            ))?;
        }
        self.set_meta("format_version", FORMAT_VERSION)?;
        let Some(target) = self.target else { return Ok(()) };
        let known: bool = self
            .db
            .query_row("SELECT count(*)>0 FROM main.remap WHERE target=?1", [target], |r| r.get(0))
            .map_err(sqlite(self.store.path()))?;
        if !known {
            return Err(self.store.error(format!(
                "there is no remap target \"{target}\": `gdal driver mdimrefs remap` lists and adds them"
            )));
        }
        self.set_meta("target", target)
    }

    /// The chunk table of an array; whether there is one.
    fn chunks(&self, array: &str, rank: usize) -> Result<bool> {
        let have = self.columns(array)?;
        if have.is_empty() {
            return Ok(false);
        }
        let list: Vec<String> =
            (0..rank).map(|i| format!("dim_{i}")).chain(CHUNK.iter().map(|c| column_or_null(&have, c))).collect();
        let table = quote(array);
        self.run(&chunk_table(array, rank))?;
        self.run(&format!(
            "INSERT INTO main.{table} SELECT source_id, {} FROM old.{table} ORDER BY source_id, {}",
            list.join(", "),
            list[..rank].join(", ")
        ))?;
        Ok(true)
    }

    /// The view of an array, or the table in its place; whether it is a table.
    fn whole(&self, array: &str, rank: usize, has_chunks: bool, materialize: bool) -> Result<bool> {
        let name = view_name(array);
        let is_table = self
            .db
            .prepare("SELECT 1 FROM old.sqlite_master WHERE name=?1 AND type='table'")
            .and_then(|mut s| s.exists([&name]))
            .map_err(sqlite(self.store.path()))?;
        if has_chunks && !is_table && !materialize {
            self.run(&view::create_view(array, rank))?;
            return Ok(false);
        }
        let keys: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
        let (keys, table) = (keys.join(", "), quote(&name));
        self.run(&format!(
            "CREATE TABLE {table}({}, present INTEGER, path TEXT, \"offset\" BIGINT, size BIGINT, info TEXT, data BLOB, \
             PRIMARY KEY({keys})) WITHOUT ROWID",
            keys.replace(',', " BIGINT,") + " BIGINT"
        ))?;
        let rows = if has_chunks && !is_table {
            view::select(array, rank, self.target)
        } else {
            let have = self.columns(&name)?;
            let c = |name: &str| column_or_null(&have, name);
            let path = match self.target {
                Some(target) if self.store.materialized().is_none() => path_sql("path", target),
                _ => "path".to_owned(),
            };
            format!(
                "SELECT {keys}, {}, {path} AS path, {}, {}, {}, {} FROM old.{table}",
                c("present"),
                c("offset"),
                c("size"),
                c("info"),
                c("data")
            )
        };
        self.run(&format!("INSERT INTO main.{table} SELECT * FROM ({rows}) ORDER BY {keys}"))?;
        Ok(true)
    }
}
