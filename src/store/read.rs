//! Reading a store.

use super::connection::{Db, escape};
use super::names::{quote, view_name};
use super::plan_index::{ChunkBox, PlanIndex, chunk_box};
use super::rows::{attr_types, column_or_null, columns, read_arrays, sqlite};
use super::write::{read_groups, read_placements};
use super::{ChunkRef, OpenOptions, Source, SourceId, SourceRef, dimensions};
use crate::io::Stat;
use crate::model::{ArrayDesc, Attributes, ChunkKey, DimInfo, Storage};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// An open store, read-only. All methods may be called from any thread, and after a fork.
#[derive(Debug)]
pub struct Store {
    path: String,
    absolute: String,
    folder: String,
    vfs: Option<&'static str>,
    db: Mutex<Session>,
    arrays: Vec<ArrayDesc>,
    lookups: Vec<OnceLock<Result<Lookup, String>>>,
    broken: Vec<(String, String)>,
    meta: HashMap<String, String>,
    dimensions: Vec<(String, DimInfo)>,
    attributes: Attributes,
    groups: Vec<(String, Attributes)>,
    /// (prefix, replacement) of the target, longest prefix first.
    remap: Vec<(String, String)>,
    sources: Mutex<Sources>,
}

/// A connection, and the process it belongs to: SQLite's can't be carried across a fork.
#[derive(Debug)]
struct Session {
    db: std::mem::ManuallyDrop<Db>,
    process: u32,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Closed here, in the process that opened it; a forked child leaves its parent's alone.
            let db = std::mem::replace(
                &mut *self.db,
                match Db::nothing() {
                    Ok(empty) => empty,
                    Err(_) => return,
                },
            );
            drop(db);
        }
    }
}

/// Sources that references were given for.
#[derive(Debug, Default)]
struct Sources {
    list: Vec<SourceKey>,
    numbers: HashMap<SourceKey, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SourceKey {
    Id(SourceId),
    Path(String),
}

/// How the chunks of an array are found.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Through the plan: chunk table by primary key.
    Plan { index: PlanIndex, sql: String, exists: String, info: String },
    /// In `refs_<array>`: a table with a key, or a view.
    Whole { sql: String, info: String },
}

fn store_error(path: &str, what: impl Into<String>) -> Error {
    Error::Store { path: path.to_owned(), what: what.into() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens a store that this or other software made.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Sqlite`]: not a store, another major format, an unknown target.
    pub fn open(path: &str, options: &OpenOptions) -> Result<Store> {
        let absolute = match options.vfs {
            Some(_) => path.to_owned(),
            None => std::path::absolute(path)
                .ok()
                .and_then(|p| p.into_os_string().into_string().ok())
                .ok_or_else(|| store_error(path, "its name can't be made absolute"))?,
        };
        if options.vfs.is_none() && !Path::new(&absolute).is_file() {
            return Err(store_error(path, "there is no such file"));
        }
        let folder = absolute.rsplit_once('/').map_or(String::new(), |(f, _)| f.to_owned());
        let db = Db::open(&absolute, options.vfs).map_err(sqlite(path))?;
        let meta = read_meta(&db).map_err(|e| match e {
            rusqlite::Error::SqliteFailure(f, _) if f.code == rusqlite::ErrorCode::NotADatabase => {
                store_error(path, "is not an SQLite file")
            }
            rusqlite::Error::SqliteFailure(..) | rusqlite::Error::SqlInputError { .. } => {
                store_error(path, format!("is not an mdim-refs store: {e}"))
            }
            e => Error::Sqlite { path: path.to_owned(), source: e },
        })?;
        match meta.get("format_version").map(String::as_str) {
            Some("mdim-refs/0.1") => {
                return Err(store_error(
                    path,
                    "its format is mdim-refs/0.1: `gdal driver mdimrefs import` makes a 0.2 store of it",
                ));
            }
            Some(v) if v.starts_with("mdim-refs/0.") => {}
            Some(v) => return Err(store_error(path, format!("its format is {v}; mdim-refs/0.2 is supported"))),
            None => return Err(store_error(path, "is not an mdim-refs store: meta has no format_version")),
        }
        let types = attr_types(meta.get("attr_types").map(String::as_str));
        let mut arrays: Vec<ArrayDesc> = Vec::new();
        let mut broken = Vec::new();
        for array in read_arrays(&db, &types).map_err(sqlite(path))? {
            match array {
                Ok(a) if arrays.iter().any(|b| b.name == a.name) => broken.push((a.name, "it is there twice".into())),
                Ok(a) => arrays.push(a),
                Err(b) => broken.push(b),
            }
        }
        let target = options.target.as_deref().or(meta.get("target").map(String::as_str)).filter(|t| !t.is_empty());
        let remap = match (meta.get(super::publish::MATERIALIZED), target) {
            // Its paths are final.
            (Some(done), Some(target)) if target != done => {
                return Err(store_error(path, format!("its paths are final, and not for target \"{target}\"")));
            }
            (Some(_), _) => Vec::new(),
            (None, target) => read_remap(&db, path, target)?,
        };
        let (attributes, groups) =
            read_groups(&types, meta.get("attrs").map(String::as_str), meta.get("groups").map(String::as_str));
        Ok(Store {
            path: path.to_owned(),
            absolute,
            folder,
            vfs: options.vfs,
            db: Mutex::new(Session { db: std::mem::ManuallyDrop::new(db), process: std::process::id() }),
            lookups: arrays.iter().map(|_| OnceLock::new()).collect(),
            arrays,
            broken,
            dimensions: dimensions::from_json(meta.get("dimensions").map_or("", String::as_str)),
            attributes,
            groups,
            meta,
            remap,
            sources: Mutex::default(),
        })
    }

    /// The store as an SQLite URI, to be attached read-only.
    pub(super) fn uri(&self) -> String {
        let vfs = self.vfs.map_or(String::new(), |v| format!("&vfs={}", escape(v)));
        format!("file:{}?mode=ro{vfs}", escape(&self.absolute))
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Db> {
        Db::open(&self.absolute, self.vfs).map_err(sqlite(&self.path))
    }

    /// Runs `f` with a connection of this process.
    pub(super) fn with<T>(&self, f: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
        let mut session = lock(&self.db);
        if session.process != std::process::id() {
            let db = self.connect()?;
            *session = Session { db: std::mem::ManuallyDrop::new(db), process: std::process::id() };
        }
        session.db.goes_on();
        f(&session.db)
    }

    /// The path as opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Arrays, in the order of the table.
    pub fn arrays(&self) -> &[ArrayDesc] {
        &self.arrays
    }

    /// Arrays whose row breaks a rule of the format, and why. They can't be read; the others can.
    pub fn broken(&self) -> &[(String, String)] {
        &self.broken
    }

    /// Number of an array by its full name, with or without the leading `/`.
    pub fn find(&self, name: &str) -> Option<usize> {
        let name = name.strip_prefix('/').unwrap_or(name);
        self.arrays.iter().position(|a| a.name == name)
    }

    /// A value of the table `meta`.
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.meta.get(key).map(String::as_str)
    }

    /// Changes whenever the store is written.
    pub fn generation(&self) -> i64 {
        self.meta("generation").and_then(|g| g.parse().ok()).unwrap_or(0)
    }

    /// What is known of dimensions beside their names, by full name.
    pub fn dimensions(&self) -> &[(String, DimInfo)] {
        &self.dimensions
    }

    /// Attributes of a group by its full name without the leading `/`; the root group is `""`.
    pub fn group_attrs(&self, group: &str) -> Option<&Attributes> {
        if group.is_empty() {
            return Some(&self.attributes);
        }
        self.groups.iter().find(|(n, _)| n == group).map(|(_, a)| a)
    }

    /// The source behind a reference.
    ///
    /// # Errors
    /// [`Error::Store`] if the table `sources` has it not; [`Error::Sqlite`].
    pub fn source(&self, source: SourceRef) -> Result<Source> {
        let key = lock(&self.sources).list.get(source.0 as usize).cloned();
        match key {
            Some(SourceKey::Id(id)) => {
                let (name, stat) = self.with(|db| self.source_row(db, id))?;
                Ok(self.resolve(&name, stat))
            }
            Some(SourceKey::Path(path)) => {
                let stat = self.with(|db| self.stat_by_name(db, &path))?;
                Ok(self.resolve(&path, stat))
            }
            None => Err(store_error(&self.path, format!("source reference {} is of another store", source.0))),
        }
    }

    fn source_row(&self, db: &Connection, id: SourceId) -> Result<(String, Stat)> {
        let have = columns(db, "sources").map_err(sqlite(&self.path))?;
        let list: Vec<String> = ["size", "mtime", "etag"].iter().map(|c| column_or_null(&have, c)).collect();
        db.prepare_cached(&format!("SELECT source, {} FROM sources WHERE source_id=?1", list.join(",")))
            .and_then(|mut s| s.query_row([id], |r| Ok((r.get::<_, String>(0)?, stat(r, 1)))).optional())
            .map_err(sqlite(&self.path))?
            .ok_or_else(|| store_error(&self.path, format!("there is no source number {id} in table sources")))
    }

    fn stat_by_name(&self, db: &Connection, name: &str) -> Result<Stat> {
        let have = columns(db, "sources").map_err(sqlite(&self.path))?;
        if !have.iter().any(|c| c == "source") {
            return Ok(Stat::default());
        }
        let list: Vec<String> = ["size", "mtime", "etag"].iter().map(|c| column_or_null(&have, c)).collect();
        let found = db
            .prepare_cached(&format!("SELECT {} FROM sources WHERE source=?1 LIMIT 1", list.join(",")))
            .and_then(|mut s| s.query_row([name], |r| Ok(stat(r, 0))).optional());
        Ok(found.map_err(sqlite(&self.path))?.unwrap_or_default())
    }

    /// The path of a source, remapped.
    pub(super) fn path_of(&self, db: &Connection, id: SourceId) -> Result<String> {
        Ok(self.remapped(&self.source_row(db, id)?.0))
    }

    /// A stored path with the rule of the target applied.
    pub(super) fn remapped(&self, name: &str) -> String {
        remapped_by(&self.remap, name)
    }

    /// (prefix, replacement) of the target, longest prefix first.
    pub(super) fn rules(&self) -> &[(String, String)] {
        &self.remap
    }

    /// A stored path as it is opened: remapped, and relative to the store's folder.
    fn resolve(&self, name: &str, stat: Stat) -> Source {
        let path = self.remapped(name);
        let stat = if path == name { stat } else { Stat::default() };
        Source { path: self.in_folder(path), stat }
    }

    fn in_folder(&self, path: String) -> String {
        if path.starts_with('/') || path.contains("://") {
            return path;
        }
        format!("{}/{}", self.folder, path.strip_prefix("./").unwrap_or(&path))
    }

    /// The path of a source, by its name, as it is opened.
    pub fn published(&self, name: &str) -> String {
        self.in_folder(self.remapped(name))
    }

    /// A path, as [`Store::each_row`] gives it, as it is opened: a relative one is in the folder of the store.
    pub fn opened(&self, name: &str) -> String {
        self.in_folder(name.to_owned())
    }

    fn intern(&self, key: SourceKey) -> SourceRef {
        let mut sources = lock(&self.sources);
        if let Some(number) = sources.numbers.get(&key) {
            return SourceRef(*number);
        }
        let number = sources.list.len() as u32;
        sources.list.push(key.clone());
        sources.numbers.insert(key, number);
        SourceRef(number)
    }

    pub(super) fn lookup(&self, db: &Connection, array: usize) -> Result<&Lookup> {
        let found = self.lookups[array].get_or_init(|| self.make_lookup(db, array).map_err(|e| e.to_string()));
        found.as_ref().map_err(|what| {
            let what = what.strip_prefix(&format!("{}: ", self.path)).unwrap_or(what);
            store_error(&self.path, what)
        })
    }

    fn make_lookup(&self, db: &Connection, array: usize) -> Result<Lookup> {
        let desc = &self.arrays[array];
        let rank = desc.dims.len();
        let whole = view_name(&desc.name);
        let kind: Option<String> = db
            .query_row("SELECT type FROM sqlite_master WHERE name=?1 AND type IN ('table','view')", [&whole], |r| {
                r.get(0)
            })
            .optional()
            .map_err(sqlite(&self.path))?;
        let dims: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
        let within = |first: usize| -> String {
            (0..rank).map(|i| format!(" AND dim_{i}>=?{} AND dim_{i}<?{}", first + 2 * i, first + 2 * i + 1)).collect()
        };
        let select = |have: &[String], table: &str| {
            let list: Vec<String> =
                ["present", "offset", "size", "data"].iter().map(|c| column_or_null(have, c)).collect();
            let path = column_or_null(have, "path");
            let presence = if have.iter().any(|c| c == "present") { "1" } else { "0" };
            format!("SELECT {}, {}, {presence}, {path} FROM {}", dims.join(","), list.join(","), quote(table))
        };
        let check = |table: &str, have: &[String], more: &[&str]| {
            let wanted = dims.iter().map(String::as_str).chain(["offset", "size"]).chain(more.iter().copied());
            match wanted.filter(|w| !have.iter().any(|h| h == w)).collect::<Vec<_>>().as_slice() {
                [] => Ok(()),
                missing => Err(store_error(
                    &self.path,
                    format!("array \"{}\": {} has no column {}", desc.name, quote(table), missing.join(", ")),
                )),
            }
        };
        if kind.as_deref() != Some("table") {
            let have = columns(db, &desc.name).map_err(sqlite(&self.path))?;
            let planned = !columns(db, "placements").map_err(sqlite(&self.path))?.is_empty();
            if planned && rank > 0 && !have.is_empty() && is_keyed(db, &desc.name, rank).map_err(sqlite(&self.path))? {
                let placements = read_placements(db, &self.path, &desc.name)?;
                if !placements.is_empty() || kind.is_none() {
                    check(&desc.name, &have, &[])?;
                    let table = quote(&desc.name);
                    let info = column_or_null(&have, "info");
                    let keys: String = (0..rank).map(|i| format!(" AND dim_{i}=?{}", i + 2)).collect();
                    return Ok(Lookup::Plan {
                        index: self.plan_index(db, desc, &placements)?,
                        sql: format!("{} WHERE source_id=?1{}", select(&have, &desc.name), within(2)),
                        exists: format!("SELECT 1 FROM {table} WHERE source_id=?1 LIMIT 1"),
                        info: format!("SELECT {info} FROM {table} WHERE source_id=?1{keys}"),
                    });
                }
            }
        }
        if kind.is_none() {
            return Err(store_error(
                &self.path,
                format!(
                    "array \"{}\": there is neither a chunk table with placements nor {}",
                    desc.name,
                    quote(&whole)
                ),
            ));
        }
        let have = columns(db, &whole).map_err(sqlite(&self.path))?;
        check(&whole, &have, &["path"])?;
        let keys: String = (0..rank).map(|i| format!(" AND dim_{i}=?{}", i + 1)).collect();
        let info = column_or_null(&have, "info");
        Ok(Lookup::Whole {
            sql: format!("{} WHERE 1{}", select(&have, &whole), within(1)),
            info: format!("SELECT {info} FROM {} WHERE 1{keys}", quote(&whole)),
        })
    }

    fn plan_index(&self, db: &Connection, desc: &ArrayDesc, placements: &[super::Placement]) -> Result<PlanIndex> {
        let name = |id: SourceId| self.source_row(db, id).map_or_else(|_| format!("source {id}"), |(n, _)| n);
        let shape = desc.grid()?.shape;
        let mut boxes = Vec::with_capacity(placements.len());
        for p in placements {
            boxes.push(chunk_box(&shape, &desc.chunks, &p.dest, &p.src_offset, &p.count, p.source_id).map_err(
                |e| {
                    store_error(
                        &self.path,
                        format!("array \"{}\": the placement of {}: {e}", desc.name, name(p.source_id)),
                    )
                },
            )?);
        }
        PlanIndex::new(boxes).map_err(|(a, b)| {
            let (a, b) = (name(placements[a].source_id), name(placements[b].source_id));
            store_error(&self.path, format!("array \"{}\": the placements of {a} and {b} overlap", desc.name))
        })
    }

    /// References of all chunks of array number `array` whose keys are in `lo..hi` along every axis (in chunks). Chunks
    /// not reported are absent. No order is promised.
    ///
    /// # Errors
    /// [`Error::Store`] for rows that break the format, [`Error::Sqlite`].
    pub fn refs(&self, array: usize, lo: &[u64], hi: &[u64]) -> Result<Vec<(ChunkKey, ChunkRef)>> {
        let desc = &self.arrays[array];
        if desc.storage != Storage::Referenced {
            return Err(store_error(&self.path, format!("array \"{}\" has no chunks", desc.name)));
        }
        self.with(|db| {
            let mut found = Vec::new();
            match self.lookup(db, array)? {
                Lookup::Plan { index, sql, exists, .. } => {
                    for found_box in index.meeting(lo, hi) {
                        self.refs_of_box(db, desc, found_box, (lo, hi), (sql, exists), &mut found)?;
                    }
                }
                Lookup::Whole { sql, .. } => {
                    let mut statement = db.prepare_cached(sql).map_err(sqlite(&self.path))?;
                    for (i, (l, h)) in lo.iter().zip(hi).enumerate() {
                        bind(&mut statement, 2 * i + 1, *l).map_err(sqlite(&self.path))?;
                        bind(&mut statement, 2 * i + 2, *h).map_err(sqlite(&self.path))?;
                    }
                    let mut seen = std::collections::HashSet::new();
                    let mut rows = statement.raw_query();
                    while let Some(row) = rows.next().map_err(sqlite(&self.path))? {
                        let (key, reference) = self.parse_row(row, desc, None)?;
                        if !seen.insert(key.clone()) {
                            return Err(store_error(
                                &self.path,
                                format!("array \"{}\", chunk {key:?}: there are two rows for it", desc.name),
                            ));
                        }
                        found.push((key, reference));
                    }
                }
            }
            Ok(found)
        })
    }

    fn refs_of_box(
        &self,
        db: &Connection,
        desc: &ArrayDesc,
        b: &ChunkBox,
        (lo, hi): (&[u64], &[u64]),
        (sql, exists): (&str, &str),
        found: &mut Vec<(ChunkKey, ChunkRef)>,
    ) -> Result<()> {
        let failed = sqlite(&self.path);
        let mut statement = db.prepare_cached(sql).map_err(&failed)?;
        statement.raw_bind_parameter(1, b.source_id).map_err(&failed)?;
        for axis in 0..lo.len() {
            let (from, to) = (lo[axis].max(b.lo[axis]), hi[axis].min(b.hi[axis]));
            bind(&mut statement, 2 * axis + 2, from - b.lo[axis] + b.src[axis]).map_err(&failed)?;
            bind(&mut statement, 2 * axis + 3, to - b.lo[axis] + b.src[axis]).map_err(&failed)?;
        }
        let before = found.len();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(&failed)? {
            let (mut key, reference) = self.parse_row(row, desc, Some(b.source_id))?;
            for (axis, k) in key.iter_mut().enumerate() {
                *k = *k - b.src[axis] + b.lo[axis];
            }
            found.push((key, reference));
        }
        drop(rows);
        drop(statement);
        // A source of which nothing is known was not scanned; that is not the same as absent chunks.
        if found.len() == before {
            let scanned = db.prepare_cached(exists).and_then(|mut s| s.exists([b.source_id])).map_err(&failed)?;
            if !scanned {
                let name = self.source_row(db, b.source_id)?.0;
                return Err(store_error(
                    &self.path,
                    format!(
                        "array \"{}\": {name} was not scanned (get-refs --append scans what is missing)",
                        desc.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// One row: dims, present, offset, size, data, whether there is a column `present`, path.
    fn parse_row(&self, row: &Row<'_>, desc: &ArrayDesc, source: Option<SourceId>) -> Result<(ChunkKey, ChunkRef)> {
        let rank = desc.dims.len();
        let failed = sqlite(&self.path);
        let mut key = Vec::with_capacity(rank);
        for i in 0..rank {
            let k: i64 = row.get(i).map_err(&failed)?;
            key.push(
                u64::try_from(k).map_err(|_| {
                    store_error(&self.path, format!("array \"{}\": a chunk has the key {k}", desc.name))
                })?,
            );
        }
        let bad = |what: &str| store_error(&self.path, format!("array \"{}\", chunk {key:?}: {what}", desc.name));
        let number = |i: usize| -> Result<Option<i64>> {
            row.get(rank + i).map_err(|_| bad("present, offset or size is not a whole number"))
        };
        let (present, offset, size) = (number(0)?, number(1)?, number(2)?);
        let has_presence: bool = row.get(rank + 4).map_err(&failed)?;
        if present == Some(0) {
            return Ok((key, ChunkRef::Absent));
        }
        let data: Option<Vec<u8>> = match row.get_ref(rank + 3).map_err(&failed)? {
            rusqlite::types::ValueRef::Null => None,
            rusqlite::types::ValueRef::Blob(b) | rusqlite::types::ValueRef::Text(b) => Some(b.to_vec()),
            _ => return Err(bad("data is not a BLOB")),
        };
        let reference = match (offset, data) {
            (Some(offset), _) => {
                let offset = u64::try_from(offset).map_err(|_| bad("its offset is negative"))?;
                let size = size.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
                let size = size.ok_or_else(|| bad("it has an offset, but no size"))?;
                if offset.checked_add(size).is_none() {
                    return Err(bad("its offset and size are beyond 2^64"));
                }
                let source = match source {
                    Some(id) => SourceKey::Id(id),
                    None => {
                        let path: Option<String> = row.get(rank + 5).map_err(|_| bad("its path is not a text"))?;
                        SourceKey::Path(
                            path.filter(|p| !p.is_empty()).ok_or_else(|| bad("it has an offset, but no path"))?,
                        )
                    }
                };
                ChunkRef::Range { source: self.intern(source), offset, size }
            }
            (None, Some(data)) => ChunkRef::Inline(Arc::from(data)),
            (None, None) if !has_presence || present.is_none() => ChunkRef::Absent,
            (None, None) => return Err(bad("it is present, but has neither offset nor data")),
        };
        Ok((key, reference))
    }

    /// GDAL's block-info text of a chunk, where the store has one.
    ///
    /// # Errors
    /// As [`Store::refs`].
    pub fn info(&self, array: usize, key: &[u64]) -> Result<Option<String>> {
        let failed = sqlite(&self.path);
        self.with(|db| {
            let (sql, source, key) = match self.lookup(db, array)? {
                Lookup::Plan { index, info, .. } => {
                    let end: Vec<u64> = key.iter().map(|k| k.saturating_add(1)).collect();
                    match index.meeting(key, &end).as_slice() {
                        [b, ..] => (info, Some(b.source_id), b.source_key(key)),
                        [] => return Ok(None),
                    }
                }
                Lookup::Whole { info, .. } => (info, None, key.to_vec()),
            };
            let mut statement = db.prepare_cached(sql).map_err(&failed)?;
            let first = match source {
                Some(id) => {
                    statement.raw_bind_parameter(1, id).map_err(&failed)?;
                    2
                }
                None => 1,
            };
            for (i, k) in key.iter().enumerate() {
                bind(&mut statement, first + i, *k).map_err(&failed)?;
            }
            let mut rows = statement.raw_query();
            match rows.next().map_err(&failed)? {
                Some(row) => row.get(0).map_err(&failed),
                None => Ok(None),
            }
        })
    }
}

/// A path with the first of the rules applied that goes with it.
pub(super) fn remapped_by(rules: &[(String, String)], name: &str) -> String {
    let mapped = rules.iter().find_map(|(prefix, replacement)| {
        name.strip_prefix(prefix.as_str()).map(|rest| format!("{replacement}{rest}"))
    });
    mapped.unwrap_or_else(|| name.to_owned())
}

fn bind(statement: &mut rusqlite::CachedStatement<'_>, index: usize, value: u64) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(index, i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn stat(row: &Row<'_>, first: usize) -> Stat {
    let number = |i: usize| row.get::<_, Option<i64>>(first + i).ok().flatten();
    Stat {
        size: number(0).and_then(|s| u64::try_from(s).ok()),
        mtime: number(1),
        etag: row.get::<_, Option<String>>(first + 2).ok().flatten(),
    }
}

fn read_meta(db: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = db.prepare("SELECT key, value FROM meta WHERE value IS NOT NULL")?;
    let rows = statement.query_map([], |r| {
        let value = match r.get_ref(1)? {
            rusqlite::types::ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
            rusqlite::types::ValueRef::Integer(i) => i.to_string(),
            _ => String::new(),
        };
        Ok((r.get(0)?, value))
    })?;
    rows.collect()
}

/// The rules of a target, longest prefix first.
fn read_remap(db: &Connection, path: &str, target: Option<&str>) -> Result<Vec<(String, String)>> {
    let Some(target) = target else { return Ok(Vec::new()) };
    let failed = sqlite(path);
    if columns(db, "remap").map_err(&failed)?.is_empty() {
        return Err(store_error(path, format!("there is no remap target \"{target}\": the store has no table remap")));
    }
    let read = || -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement =
            db.prepare("SELECT prefix, replacement FROM remap WHERE target=?1 ORDER BY length(prefix) DESC, prefix")?;
        let rows = statement.query_map([target], |r| Ok((r.get(0)?, r.get(1)?)))?;
        rows.collect()
    };
    let rules = read().map_err(&failed)?;
    if rules.is_empty() {
        let known = || -> rusqlite::Result<Vec<String>> {
            let mut statement = db.prepare("SELECT DISTINCT target FROM remap ORDER BY 1")?;
            let rows = statement.query_map([], |r| r.get(0))?;
            rows.collect()
        };
        let known = known().map_err(&failed)?;
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(store_error(path, format!("there is no remap target \"{target}\"; there are: {known}")));
    }
    Ok(rules)
}

/// Whether a chunk is one look-up in the table: a unique key that begins with `source_id` and the dimensions, in order.
fn is_keyed(db: &Connection, table: &str, rank: usize) -> rusqlite::Result<bool> {
    let mut indexes = db.prepare("SELECT name FROM pragma_index_list(?1)")?;
    let names: Vec<String> = indexes.query_map([table], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    for name in names {
        let mut info = db.prepare("SELECT name FROM pragma_index_info(?1) ORDER BY seqno")?;
        let have: Vec<Option<String>> = info.query_map([&name], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
        let wanted = std::iter::once("source_id".to_owned()).chain((0..rank).map(|i| format!("dim_{i}")));
        if have.into_iter().take(rank + 1).flatten().eq(wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}
