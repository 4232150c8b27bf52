//! Uniting the physical layers of stores: sources and their chunks, scanned on several machines.

use super::names::{check_name, quote};
use super::rows::{column_or_null, sqlite};
use super::write::{DDL, chunk_table};
use super::{APPLICATION_ID, FORMAT_VERSION, Store};
use crate::model::{ArrayDesc, Storage};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::path::Path;

/// Columns of a chunk after its key.
const CHUNK: [&str; 5] = ["present", "offset", "size", "info", "data"];

/// A store being made of others, in a file that is thrown away if anything fails.
#[derive(Debug)]
pub struct Merger {
    db: Connection,
    path: String,
}

fn columns(db: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1,'old')")?;
    statement.query_map([table], |r| r.get(0))?.collect()
}

impl Merger {
    /// Begins a store in `file`, which is empty. `path` names it in messages.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn new(file: &Path, path: &str) -> Result<Merger> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
            | rusqlite::OpenFlags::SQLITE_OPEN_CREATE
            | rusqlite::OpenFlags::SQLITE_OPEN_URI
            | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(file, flags).map_err(sqlite(path))?;
        db.execute_batch(&format!(
            "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; \
             PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA application_id={APPLICATION_ID}; {DDL}"
        ))
        .map_err(sqlite(path))?;
        Ok(Merger { db, path: path.to_owned() })
    }

    /// Adds an array without a plan.
    ///
    /// # Errors
    /// [`Error::Store`] for a name that can't be beside those of `others`.
    pub fn put_array(&self, desc: &ArrayDesc, others: &[ArrayDesc]) -> Result<()> {
        check_name(&self.path, &desc.name, others.iter().map(|o| o.name.as_str()))?;
        self.db.execute_batch(&chunk_table(&desc.name, desc.dims.len())).map_err(sqlite(&self.path))?;
        super::rows::write_array(&self.db, desc).map_err(sqlite(&self.path))
    }

    /// Sets a value of `meta`.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        self.db
            .execute("INSERT OR REPLACE INTO main.meta(key,value) VALUES(?1,?2)", [key, value])
            .map(drop)
            .map_err(sqlite(&self.path))
    }

    /// Adds sources, chunks and remap rules of a store. Arrays have been added before.
    ///
    /// # Errors
    /// [`Error::Plan`] naming what two stores say differently; [`Error::Sqlite`].
    pub fn add(&self, store: &Store) -> Result<()> {
        self.db.execute("ATTACH ?1 AS old", [store.uri()]).map_err(sqlite(store.path()))?;
        self.db.execute_batch("BEGIN").map_err(sqlite(&self.path))?;
        let added = self.add_attached(store);
        let ended = self.db.execute_batch("COMMIT; DETACH old").map_err(sqlite(&self.path));
        added.and(ended)
    }

    fn add_attached(&self, store: &Store) -> Result<()> {
        let failed = sqlite(store.path());
        let conflict = |what: String| Err(Error::Plan(format!("{}: {what}", store.path())));
        let have = columns(&self.db, "sources").map_err(&failed)?;
        let stat: Vec<String> = ["size", "mtime", "etag"].iter().map(|c| column_or_null(&have, c)).collect();
        let old = format!("SELECT source_id, source, {} FROM old.sources", stat.join(","));
        // Known on both sides, and not the same.
        let names = "size mtime etag".split(' ');
        let differ: Vec<String> = names.clone().map(|c| format!("m.{c}<>o.{c}")).collect();
        let texts: Vec<String> =
            names.map(|c| format!("'{c} '||coalesce(o.{c},'?')||', but '||coalesce(m.{c},'?')")).collect();
        let cases: Vec<String> = differ.iter().zip(&texts).map(|(d, t)| format!("WHEN {d} THEN {t}")).collect();
        let sql = format!(
            "WITH o(id,source,size,mtime,etag) AS ({old}) SELECT m.source, CASE {} END FROM o JOIN main.sources m \
             ON m.source=o.source WHERE {} LIMIT 1",
            cases.join(" "),
            differ.join(" OR ")
        );
        let found: Option<(String, String)> =
            self.db.query_row(&sql, [], |r| Ok((r.get(0)?, r.get(1)?))).optional().map_err(&failed)?;
        if let Some((source, what)) = found {
            return conflict(format!(
                "{source} has {what} in another store: one of them was scanned before it changed"
            ));
        }
        let sql = format!(
            "INSERT INTO main.sources(source,size,mtime,etag) SELECT source, {} FROM old.sources o \
             WHERE NOT EXISTS(SELECT 1 FROM main.sources m WHERE m.source=o.source) ORDER BY source_id",
            stat.join(",")
        );
        self.db.execute(&sql, []).map_err(&failed)?;
        for desc in store.arrays().iter().filter(|a| a.storage == Storage::Referenced && !a.dims.is_empty()) {
            self.chunks(store, desc)?;
        }
        if !columns(&self.db, "remap").map_err(&failed)?.is_empty() {
            let found: Option<(String, String)> = self
                .db
                .query_row(
                    "SELECT o.target, o.prefix FROM old.remap o JOIN main.remap m ON m.target=o.target AND \
                     m.prefix=o.prefix WHERE m.replacement<>o.replacement LIMIT 1",
                    [],
                    |r| Ok((r.get(0)?, r.get(1)?)),
                )
                .optional()
                .map_err(&failed)?;
            if let Some((target, prefix)) = found {
                return conflict(format!(
                    "target \"{target}\" replaces \"{prefix}\" by something else in another store"
                ));
            }
            self.db
                .execute("INSERT OR IGNORE INTO main.remap SELECT target, prefix, replacement FROM old.remap", [])
                .map_err(&failed)?;
        }
        Ok(())
    }

    fn chunks(&self, store: &Store, desc: &ArrayDesc) -> Result<()> {
        let failed = sqlite(store.path());
        let have = columns(&self.db, &desc.name).map_err(&failed)?;
        if have.is_empty() {
            return Err(Error::Plan(format!(
                "{}: array \"{}\" has no table of chunks by source: only such stores can be merged",
                store.path(),
                desc.name
            )));
        }
        let table = quote(&desc.name);
        let dims: Vec<String> = (0..desc.dims.len()).map(|i| format!("dim_{i}")).collect();
        let list: Vec<String> = CHUNK.iter().map(|c| column_or_null(&have, c)).collect();
        let same: Vec<String> = dims.iter().map(|d| format!("c.{d}=o.{d}")).collect();
        let differ: Vec<String> = ["present", "offset", "size", "data"]
            .iter()
            .filter(|c| have.iter().any(|h| h == *c))
            .map(|c| format!("c.\"{c}\" IS NOT o.\"{c}\""))
            .collect();
        let key = dims.iter().map(|d| format!("o.{d}")).collect::<Vec<_>>().join("||','||");
        let sql = format!(
            "SELECT m.source, {key} FROM old.{table} o JOIN old.sources s ON s.source_id=o.source_id \
             JOIN main.sources m ON m.source=s.source JOIN main.{table} c ON c.source_id=m.source_id AND {} \
             WHERE {} LIMIT 1",
            same.join(" AND "),
            differ.join(" OR ")
        );
        let found: Option<(String, rusqlite::types::Value)> =
            self.db.query_row(&sql, [], |r| Ok((r.get(0)?, r.get(1)?))).optional().map_err(&failed)?;
        if let Some((source, key)) = found {
            let key = match key {
                rusqlite::types::Value::Text(t) => t,
                rusqlite::types::Value::Integer(i) => i.to_string(),
                _ => String::new(),
            };
            return Err(Error::Plan(format!(
                "{}: {source}: array \"{}\", chunk [{key}] is elsewhere in another store: one of them was scanned \
                 before the file changed",
                store.path(),
                desc.name
            )));
        }
        let sql = format!(
            "INSERT OR IGNORE INTO main.{table} SELECT m.source_id, {}, {} FROM old.{table} o \
             JOIN old.sources s ON s.source_id=o.source_id JOIN main.sources m ON m.source=s.source \
             ORDER BY m.source_id, {}",
            dims.iter().map(|d| format!("o.{d}")).collect::<Vec<_>>().join(","),
            list.iter().map(|c| if c == "NULL" { c.clone() } else { format!("o.{c}") }).collect::<Vec<_>>().join(","),
            dims.iter().map(|d| format!("o.{d}")).collect::<Vec<_>>().join(",")
        );
        self.db.execute(&sql, []).map(drop).map_err(&failed)
    }

    /// Ends the store: what was known of attributes' types goes with it.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn finish(self, types: Map<String, Value>) -> Result<(u64, u64)> {
        self.set_meta("format_version", FORMAT_VERSION)?;
        self.set_meta("generation", "1")?;
        if !types.is_empty() {
            self.set_meta("attr_types", &Value::Object(types).to_string())?;
        }
        let count = |sql: &str| self.db.query_row(sql, params![], |r| r.get::<_, i64>(0)).map_err(sqlite(&self.path));
        let counts = (count("SELECT count(*) FROM sources")?, count("SELECT count(*) FROM arrays")?);
        self.db.close().map_err(|(_, e)| sqlite(&self.path)(e))?;
        Ok((u64::try_from(counts.0).unwrap_or(0), u64::try_from(counts.1).unwrap_or(0)))
    }
}
