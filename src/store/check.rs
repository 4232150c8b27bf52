//! Every rule of the format, tried on a store.

use super::names::{check_name, quote, view_name};
use super::plan_index::{ChunkBox, PlanIndex, chunk_box};
use super::read::stat;
use super::remap::path_sql;
use super::rows::{column_or_null, columns, list_json, sqlite};
use super::{FORMAT_VERSION, Store, view};
use crate::codec::{CodecOptions, Pipeline, Scratch, vlen};
use crate::io::Stat;
use crate::model::{ArrayDesc, Kind, Storage};
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It reads, but is not as it should be.
    Warning,
    /// A rule of the format is broken.
    Error,
}

/// Something that is not as the format says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Short name of the rule.
    pub rule: &'static str,
    /// Array, if it is about one.
    pub array: Option<String>,
    /// What is wrong, and where.
    pub what: String,
}

/// Examples that a finding names.
const EXAMPLES: usize = 3;

/// Largest chunk carried in the store that is decoded (bytes).
const MOST_INLINE: usize = 1 << 28;

/// Bytes of a source that an array refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the source.
    pub source_id: i64,
    /// Array.
    pub array: String,
    /// Byte after the last one.
    pub end: u64,
}

/// A source, as a check looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSource {
    /// Number.
    pub id: i64,
    /// Path to open.
    pub path: String,
    /// What was recorded when it was scanned.
    pub stat: Stat,
    /// Whether the path is not the one that was scanned.
    pub remapped: bool,
}

/// Collects findings.
struct Check<'a> {
    db: &'a Connection,
    store: &'a Store,
    findings: Vec<Finding>,
}

impl Store {
    /// Breaches of the format's rules, as far as the store alone shows them.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`] where SQLite can't go on.
    pub fn check(&self) -> Result<Vec<Finding>> {
        self.with(|db| {
            let mut check = Check { db, store: self, findings: Vec::new() };
            check.file()?;
            check.tables()?;
            check.arrays()?;
            for desc in self.arrays() {
                if desc.storage == Storage::Referenced {
                    check.chunks(desc)?;
                    check.plan(desc)?;
                    check.whole(desc)?;
                }
            }
            Ok(check.findings)
        })
    }

    /// Some sources that an array's plan places, but of which no chunk is known.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn unscanned(&self, array: usize) -> Result<Vec<String>> {
        let desc = &self.arrays()[array];
        self.with(|db| {
            let failed = sqlite(self.path());
            let has_plan = !columns(db, "placements").map_err(&failed)?.is_empty()
                && !columns(db, &desc.name).map_err(&failed)?.is_empty();
            if !has_plan {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT f.source FROM placements q JOIN sources f ON f.source_id=q.source_id WHERE q.\"array\"=?1 \
                 AND NOT EXISTS(SELECT 1 FROM {} c WHERE c.source_id=q.source_id) LIMIT {EXAMPLES}",
                quote(&desc.name)
            );
            let read = || -> rusqlite::Result<Vec<String>> {
                db.prepare(&sql)?.query_map([&desc.name], |r| r.get(0))?.collect()
            };
            read().map_err(failed)
        })
    }

    /// All sources, with the paths of the store's target.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn checked_sources(&self) -> Result<Vec<CheckedSource>> {
        let final_target = self.materialized().filter(|t| !t.is_empty());
        self.with(|db| {
            let have = columns(db, "sources").map_err(sqlite(self.path()))?;
            let path = final_target.map_or_else(|| "source".to_owned(), |t| path_sql("source", t));
            let list: Vec<String> = ["size", "mtime", "etag"].iter().map(|c| column_or_null(&have, c)).collect();
            let sql = format!("SELECT source_id, source, {path}, {} FROM sources ORDER BY 1", list.join(","));
            let read = || -> rusqlite::Result<Vec<CheckedSource>> {
                let mut statement = db.prepare(&sql)?;
                let rows = statement.query_map([], |r| {
                    let (name, path): (String, String) = (r.get(1)?, r.get(2)?);
                    let path = self.opened(&self.remapped(&path));
                    Ok(CheckedSource { id: r.get(0)?, remapped: path != name, path, stat: stat(r, 3) })
                })?;
                rows.collect()
            };
            read().map_err(sqlite(self.path()))
        })
    }

    /// How far into each source each array's byte ranges reach, and the recorded name of the source.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub fn extents(&self) -> Result<Vec<Extent>> {
        self.with(|db| {
            let mut list = Vec::new();
            for desc in self.arrays().iter().filter(|a| a.storage == Storage::Referenced) {
                if columns(db, &desc.name).map_err(sqlite(self.path()))?.is_empty() {
                    continue;
                }
                let sql = format!(
                    "SELECT source_id, max(\"offset\"+size) FROM {} WHERE \"offset\" IS NOT NULL GROUP BY 1",
                    quote(&desc.name)
                );
                let mut read = || -> rusqlite::Result<()> {
                    let mut statement = db.prepare(&sql)?;
                    let mut rows = statement.query([])?;
                    while let Some(row) = rows.next()? {
                        let (source_id, end) = (row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0));
                        list.push(Extent { source_id, array: desc.name.clone(), end: end.try_into().unwrap_or(0) });
                    }
                    Ok(())
                };
                read().map_err(sqlite(self.path()))?;
            }
            Ok(list)
        })
    }
}

impl Check<'_> {
    fn add(&mut self, severity: Severity, rule: &'static str, array: Option<&str>, what: String) {
        self.findings.push(Finding { severity, rule, array: array.map(str::to_owned), what });
    }

    fn error(&mut self, rule: &'static str, array: Option<&str>, what: String) {
        self.add(Severity::Error, rule, array, what);
    }

    /// Texts of the first column.
    fn texts(&self, sql: &str) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.db.prepare(sql)?;
            statement.query_map([], |r| r.get::<_, Option<String>>(0).map(Option::unwrap_or_default))?.collect()
        };
        read().map_err(sqlite(self.store.path()))
    }

    fn columns(&self, table: &str) -> Result<Vec<String>> {
        columns(self.db, table).map_err(sqlite(self.store.path()))
    }

    fn file(&mut self) -> Result<()> {
        for problem in self.texts("PRAGMA quick_check(20)")? {
            if problem != "ok" {
                self.error("file", None, format!("SQLite says: {problem}"));
            }
        }
        let mode = self.texts("PRAGMA journal_mode")?;
        if mode.iter().any(|m| m.eq_ignore_ascii_case("wal")) {
            let what = "it is in WAL mode: a read-only copy elsewhere may not open (publish makes one that does)";
            self.add(Severity::Warning, "journal", None, what.into());
        }
        Ok(())
    }

    fn tables(&mut self) -> Result<()> {
        let version = self.store.meta("format_version").unwrap_or_default();
        if version != FORMAT_VERSION {
            self.error("version", None, format!("meta.format_version is \"{version}\", not {FORMAT_VERSION}"));
        }
        let wanted: [(&str, &[&str]); 5] = [
            ("meta", &["key", "value"]),
            ("sources", &["source_id", "source", "size", "mtime", "etag"]),
            (
                "arrays",
                &[
                    "array", "kind", "storage", "dims", "shape", "chunks", "dtype", "fill", "codec", "attrs", "affine",
                    "values",
                ],
            ),
            ("placements", &["array", "dest", "source_id", "source_array", "src_offset", "count"]),
            ("remap", &["target", "prefix", "replacement"]),
        ];
        for (table, wanted) in wanted {
            let have = self.columns(table)?;
            let missing: Vec<&str> = wanted.iter().copied().filter(|w| !have.iter().any(|h| h == w)).collect();
            match (have.is_empty(), missing.is_empty()) {
                (true, _) => self.add(Severity::Warning, "tables", None, format!("there is no table {table}")),
                (false, false) => self.add(
                    Severity::Warning,
                    "tables",
                    None,
                    format!("table {table} has no column {}", missing.join(", ")),
                ),
                _ => {}
            }
        }
        if !self.columns("sources")?.is_empty() {
            for source in self.texts("SELECT source FROM sources GROUP BY source HAVING count(*)>1 LIMIT 3")? {
                self.error("sources", None, format!("source {source} is there more than once"));
            }
        }
        Ok(())
    }

    fn arrays(&mut self) -> Result<()> {
        for (array, why) in self.store.broken() {
            self.error("arrays", Some(array), why.clone());
        }
        let names: Vec<&str> = self.store.arrays().iter().map(|a| a.name.as_str()).collect();
        for (number, name) in names.iter().enumerate() {
            if let Err(e) = check_name("", name, names[..number].iter().copied()) {
                self.error("names", Some(name), e.to_string().trim_start_matches(": ").to_owned());
            }
        }
        let mut sizes: HashMap<&str, (u64, &str)> = HashMap::new();
        let store = self.store;
        for desc in store.arrays() {
            for (dim, size) in desc.dims.iter().zip(desc.shape.iter().flatten()) {
                let (known, of) = *sizes.entry(dim).or_insert((*size, &desc.name));
                if known != *size {
                    self.error(
                        "dimensions",
                        Some(&desc.name),
                        format!("dimension {dim} has {size} elements here, but {known} in array \"{of}\""),
                    );
                }
            }
        }
        Ok(())
    }

    /// Rows of the chunk table.
    fn chunks(&mut self, desc: &ArrayDesc) -> Result<()> {
        let name = desc.name.as_str();
        let rank = desc.dims.len();
        let have = self.columns(name)?;
        if have.is_empty() {
            let what = "there is no chunk table".to_owned();
            if self.columns(&view_name(name))?.is_empty() {
                self.error("chunks", Some(name), what);
            } else {
                self.add(Severity::Warning, "chunks", Some(name), what);
            }
            return Ok(());
        }
        let dims: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
        let columns = ["source_id", "present", "offset", "size", "info", "data"];
        let wanted = dims.iter().map(String::as_str).chain(columns);
        let missing: Vec<&str> = wanted.filter(|w| !have.iter().any(|h| h == w)).collect();
        if !missing.is_empty() {
            self.error("chunks", Some(name), format!("its chunk table has no column {}", missing.join(", ")));
            return Ok(());
        }
        let table = quote(name);
        let keys: Vec<String> = dims.iter().map(|d| format!("coalesce({d},'NULL')")).collect();
        let place = format!(
            "'source '||coalesce(source_id,'NULL')||', chunk ['||{}||']'",
            if keys.is_empty() { "''".to_owned() } else { keys.join("||','||") }
        );
        let bad_key: Vec<String> = dims.iter().map(|d| format!("typeof({d})<>'integer' OR {d}<0")).collect();
        let rules: [(&'static str, String, Severity); 9] = [
            ("keys", if bad_key.is_empty() { "0".into() } else { bad_key.join(" OR ") }, Severity::Error),
            ("presence", "present IS NULL OR present NOT IN (0,1)".into(), Severity::Error),
            ("presence", "present=1 AND \"offset\" IS NULL AND data IS NULL".into(), Severity::Error),
            ("presence", "present=0 AND (\"offset\" IS NOT NULL OR data IS NOT NULL)".into(), Severity::Error),
            ("presence", "\"offset\" IS NOT NULL AND data IS NOT NULL".into(), Severity::Error),
            (
                "ranges",
                "\"offset\" IS NOT NULL AND (typeof(\"offset\")<>'integer' OR \"offset\"<0 OR size IS NULL \
                 OR typeof(size)<>'integer' OR size<=0 OR \"offset\">9223372036854775807-size)"
                    .into(),
                Severity::Error,
            ),
            ("data", "data IS NOT NULL AND typeof(data)<>'blob'".into(), Severity::Error),
            ("sources", "source_id NOT IN (SELECT source_id FROM sources)".into(), Severity::Error),
            (
                "ranges",
                "\"offset\"+size>(SELECT s.size FROM sources s WHERE s.source_id=c.source_id)".into(),
                Severity::Error,
            ),
        ];
        let words = [
            "a key is not a whole number",
            "present is not 0 or 1",
            "present, but with neither offset nor data",
            "absent, but with offset or data",
            "offset and data at once",
            "offset and size are no byte range",
            "data is not a BLOB",
            "the source is not in table sources",
            "the byte range ends beyond the source's recorded size",
        ];
        let sized = self.columns("sources")?.iter().any(|c| c == "size");
        for ((rule, condition, severity), words) in rules.into_iter().zip(words) {
            if condition.contains("s.size") && !sized {
                continue;
            }
            let found =
                self.texts(&format!("SELECT {place} FROM {table} c WHERE {condition} LIMIT {}", EXAMPLES + 1))?;
            if !found.is_empty() {
                let more = if found.len() > EXAMPLES { " and more" } else { "" };
                let examples = found[..found.len().min(EXAMPLES)].join("; ");
                self.add(severity, rule, Some(name), format!("{words}: {examples}{more}"));
            }
        }
        self.inline(desc)?;
        let infos = self.texts(&format!(
            "SELECT DISTINCT info FROM {table} WHERE present=1 AND \"offset\" IS NOT NULL LIMIT {}",
            EXAMPLES + 1
        ))?;
        if infos.len() > 1 {
            self.error("codec", Some(name), format!("its chunks have different codecs: \"{}\"", infos.join("\", \"")));
        }
        Ok(())
    }

    /// Chunks carried in the store: they decode to the size of a chunk.
    fn inline(&mut self, desc: &ArrayDesc) -> Result<()> {
        let elements = desc.chunks.iter().try_fold(1usize, |n, c| n.checked_mul(usize::try_from(*c).ok()?));
        let pipeline = elements
            .ok_or_else(|| Error::Invalid(format!("chunks {:?} are too large", desc.chunks)))
            .and_then(|n| Pipeline::new(&desc.codec, &desc.dtype, n, CodecOptions::default()));
        let pipeline = match pipeline {
            Ok(pipeline) => pipeline,
            Err(e) => {
                self.add(Severity::Warning, "codec", Some(&desc.name), e.to_string());
                return Ok(());
            }
        };
        let failed = sqlite(self.store.path());
        let dims: String = (0..desc.dims.len()).map(|i| format!(", dim_{i}")).collect();
        let mut bad = Vec::new();
        {
            let sql = format!("SELECT data, source_id{dims} FROM {} WHERE typeof(data)='blob'", quote(&desc.name));
            let mut statement = self.db.prepare(&sql).map_err(&failed)?;
            let mut rows = statement.query([]).map_err(&failed)?;
            let (mut out, mut scratch) = (Vec::new(), Scratch::default());
            while let Some(row) = rows.next().map_err(&failed)? {
                let rusqlite::types::ValueRef::Blob(data) = row.get_ref(0).map_err(&failed)? else { continue };
                let decoded = if desc.dtype.kind == Kind::VlenUtf8 {
                    pipeline.decode_vlen(data, MOST_INLINE, &mut scratch).and_then(|b| vlen::split(&b).map(drop))
                } else if pipeline.decoded_size() > MOST_INLINE {
                    continue;
                } else {
                    out.resize(pipeline.decoded_size(), 0);
                    pipeline.decode_into(data, 0, &mut out, &mut scratch)
                };
                if let Err(e) = decoded {
                    let key: Vec<i64> = (0..desc.dims.len()).map(|i| row.get(i + 2).unwrap_or(-1)).collect();
                    bad.push(format!("source {}, chunk {key:?}: {e}", row.get::<_, i64>(1).unwrap_or(-1)));
                    if bad.len() >= EXAMPLES {
                        break;
                    }
                }
            }
        }
        for what in bad {
            self.error("data", Some(&desc.name), what);
        }
        Ok(())
    }

    /// Placements.
    fn plan(&mut self, desc: &ArrayDesc) -> Result<()> {
        let name = desc.name.as_str();
        let Some(shape) = &desc.shape else { return Ok(()) };
        let have = self.columns("placements")?;
        if have.is_empty() || self.columns(name)?.is_empty() {
            return Ok(());
        }
        let placements = match super::write::read_placements(self.db, self.store.path(), name) {
            Ok(list) => list,
            Err(e) => {
                self.error("placements", Some(name), e.to_string());
                return Ok(());
            }
        };
        if placements.is_empty() && self.columns(&view_name(name))?.is_empty() {
            self.error("placements", Some(name), "it has a shape, but no placement".into());
        }
        let source_name = |id: i64| -> Option<String> {
            self.db.query_row("SELECT source FROM sources WHERE source_id=?1", [id], |r| r.get(0)).ok()
        };
        let names: HashMap<i64, Option<String>> =
            placements.iter().map(|p| (p.source_id, source_name(p.source_id))).collect();
        let called = |id: i64| names.get(&id).cloned().flatten().unwrap_or_else(|| format!("source {id}"));
        let mut boxes = Vec::new();
        let mut arrays_of: HashMap<i64, &str> = HashMap::new();
        let mut dests = HashSet::new();
        for p in &placements {
            let source = called(p.source_id);
            if names.get(&p.source_id).is_none_or(Option::is_none) {
                self.error("sources", Some(name), format!("{source} of a placement is not in table sources"));
            }
            if !dests.insert(p.dest.clone()) {
                self.error("placements", Some(name), format!("two placements at {:?}", p.dest));
            }
            let known = *arrays_of.entry(p.source_id).or_insert(&p.source_array);
            if known != p.source_array {
                let what = format!("{source} gives two arrays to it, \"{known}\" and \"{}\"", p.source_array);
                self.error("placements", Some(name), what);
            }
            match chunk_box(shape, &desc.chunks, &p.dest, &p.src_offset, &p.count, p.source_id) {
                Ok(found) => boxes.push(found),
                Err(e) => self.error("placements", Some(name), format!("{source}: {e}")),
            }
        }
        let json: HashSet<String> = placements.iter().map(|p| list_json(&p.dest)).collect();
        let stored =
            self.texts(&format!("SELECT dest FROM placements WHERE \"array\"={}", super::names::literal(name)))?;
        if let Some(other) = stored.iter().find(|d| !json.contains(*d)) {
            let what = format!("dest {other} is not compact JSON, though it is part of a key");
            self.add(Severity::Warning, "placements", Some(name), what);
        }
        self.coverage(desc, &boxes, &called)?;
        if let Err((a, b)) = PlanIndex::new(boxes.clone()) {
            let (a, b) = (called(boxes[a].source_id), called(boxes[b].source_id));
            self.error("overlap", Some(name), format!("the placements of {a} and {b} overlap"));
        }
        Ok(())
    }

    /// Rows within each placement.
    fn coverage(&mut self, desc: &ArrayDesc, boxes: &[ChunkBox], called: &dyn Fn(i64) -> String) -> Result<()> {
        let rank = desc.dims.len();
        let table = quote(&desc.name);
        let within: String =
            (0..rank).map(|i| format!(" AND dim_{i}>=?{} AND dim_{i}<?{}", 2 * i + 2, 2 * i + 3)).collect();
        let failed = sqlite(self.store.path());
        let mut statement =
            self.db.prepare(&format!("SELECT count(*) FROM {table} WHERE source_id=?1{within}")).map_err(&failed)?;
        let mut any = self.db.prepare(&format!("SELECT 1 FROM {table} WHERE source_id=?1 LIMIT 1")).map_err(&failed)?;
        let (mut unscanned, mut lacking) = (Vec::new(), Vec::new());
        let mut missing = 0u64;
        for b in boxes {
            let mut numbers = vec![b.source_id];
            let mut wanted = 1u64;
            for axis in 0..rank {
                let n = b.hi[axis].saturating_sub(b.lo[axis]);
                wanted = wanted.saturating_mul(n);
                let from = i64::try_from(b.src[axis]).unwrap_or(i64::MAX);
                numbers.extend([from, from.saturating_add(i64::try_from(n).unwrap_or(i64::MAX))]);
            }
            let have: i64 = statement.query_row(rusqlite::params_from_iter(&numbers), |r| r.get(0)).map_err(&failed)?;
            let short = wanted.saturating_sub(have.try_into().unwrap_or(0));
            if short == 0 {
                continue;
            }
            if have == 0 && !any.exists([b.source_id]).map_err(&failed)? {
                unscanned.push(called(b.source_id));
            } else {
                missing = missing.saturating_add(short);
                lacking.push(called(b.source_id));
            }
        }
        let list = |names: &[String]| {
            let more =
                if names.len() > EXAMPLES { format!(" and {} more", names.len() - EXAMPLES) } else { String::new() };
            format!("{}{more}", names[..names.len().min(EXAMPLES)].join(", "))
        };
        drop((statement, any));
        if !unscanned.is_empty() {
            let what = format!("placed, but not scanned: {}", list(&unscanned));
            self.error("scan", Some(&desc.name), what);
        }
        if !lacking.is_empty() {
            let what = format!("{missing} chunks have no row and read as fill: {}", list(&lacking));
            self.add(Severity::Warning, "scan", Some(&desc.name), what);
        }
        Ok(())
    }

    /// The view, or the table in its place.
    fn whole(&mut self, desc: &ArrayDesc) -> Result<()> {
        let name = desc.name.as_str();
        let rank = desc.dims.len();
        if desc.shape.is_none() || rank == 0 {
            return Ok(());
        }
        let whole = view_name(name);
        let read = || -> rusqlite::Result<Option<(String, String)>> {
            use rusqlite::OptionalExtension;
            self.db
                .query_row("SELECT type, sql FROM sqlite_master WHERE name=?1", [&whole], |r| {
                    Ok((r.get(0)?, r.get(1)?))
                })
                .optional()
        };
        let Some((kind, sql)) = read().map_err(sqlite(self.store.path()))? else {
            self.error("view", Some(name), format!("there is no {}", quote(&whole)));
            return Ok(());
        };
        if kind == "view" && sql == view::create_view(name, rank) {
            return Ok(());
        }
        if self.columns(name)?.is_empty() || self.columns("placements")?.is_empty() {
            return Ok(());
        }
        let have = self.columns(&whole)?;
        let list: Vec<String> = (0..rank)
            .map(|i| format!("dim_{i}"))
            .chain(["path", "offset", "size", "data"].map(str::to_owned))
            .collect();
        if let Some(missing) = list.iter().find(|c| !have.contains(c)) {
            self.error("view", Some(name), format!("{} has no column {missing}", quote(&whole)));
            return Ok(());
        }
        // Absent rows may be there or not.
        let target = self.store.materialized().filter(|t| !t.is_empty());
        let list: Vec<String> = list.iter().map(|c| quote(c)).collect();
        let of = |from: &str| format!("SELECT {} FROM {from} WHERE coalesce(present,1)<>0", list.join(","));
        let theirs = of(&quote(&whole));
        let ours = of(&format!("({})", view::select(name, rank, target)));
        let differ = [format!("{theirs} EXCEPT {ours}"), format!("{ours} EXCEPT {theirs}")];
        for (sql, words) in differ.iter().zip(["has rows that the plan gives not", "lacks rows that the plan gives"]) {
            let found = self.texts(&format!("SELECT '['||dim_0||'…]' FROM ({sql}) LIMIT 1"))?;
            if !found.is_empty() {
                self.error("view", Some(name), format!("{} {words}", quote(&whole)));
            }
        }
        Ok(())
    }
}
