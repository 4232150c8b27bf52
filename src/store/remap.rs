//! Remap rules: published paths of sources.

use super::names::{literal, quote};
use super::rows::{columns, sqlite};
use super::{Store, Writer, view, view_name};
use crate::model::Storage;
use crate::{Error, Result};
use rusqlite::Connection;

/// A row of `remap`: for `target`, `prefix` at the beginning of a path becomes `replacement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemapRule {
    /// Whom the rule is for.
    pub target: String,
    /// Beginning of a source's path; empty: every path.
    pub prefix: String,
    /// What takes its place.
    pub replacement: String,
}

fn read_rules(db: &Connection) -> rusqlite::Result<Vec<RemapRule>> {
    if columns(db, "remap")?.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare("SELECT target, prefix, replacement FROM remap ORDER BY target, prefix")?;
    let rows =
        statement.query_map([], |r| Ok(RemapRule { target: r.get(0)?, prefix: r.get(1)?, replacement: r.get(2)? }))?;
    rows.collect()
}

/// The path of column `source` for a target, in SQL.
pub(super) fn path_sql(source: &str, target: &str) -> String {
    format!(
        "coalesce((SELECT r.replacement||substr({source},length(r.prefix)+1) FROM remap r WHERE r.target={} \
         AND substr({source},1,length(r.prefix))=r.prefix ORDER BY length(r.prefix) DESC LIMIT 1),{source})",
        literal(target)
    )
}

impl Writer {
    /// All remap rules, by target and prefix.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn remap_rules(&self) -> Result<Vec<RemapRule>> {
        read_rules(self.db()?).map_err(sqlite(self.path()))
    }

    /// Adds a rule, or gives an existing one (same target and prefix) another replacement.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn put_remap(&mut self, rule: &RemapRule) -> Result<()> {
        let write = |db: &Connection| {
            // Other software may have made the store without it.
            db.execute_batch(
                "CREATE TABLE IF NOT EXISTS remap(target TEXT, prefix TEXT, replacement TEXT, \
                 PRIMARY KEY(target, prefix)) WITHOUT ROWID",
            )?;
            db.execute(
                "INSERT INTO remap(target,prefix,replacement) VALUES(?1,?2,?3) \
                 ON CONFLICT(target,prefix) DO UPDATE SET replacement=excluded.replacement",
                [&rule.target, &rule.prefix, &rule.replacement],
            )
        };
        write(self.db()?).map(drop).map_err(sqlite(self.path()))
    }

    /// Removes the rule of a target and prefix, or all rules of the target; gives the number removed.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn remove_remap(&mut self, target: &str, prefix: Option<&str>) -> Result<usize> {
        let write = |db: &Connection| match prefix {
            Some(prefix) => db.execute("DELETE FROM remap WHERE target=?1 AND prefix=?2", [target, prefix]),
            None => db.execute("DELETE FROM remap WHERE target=?1", [target]),
        };
        write(self.db()?).map_err(sqlite(self.path()))
    }
}

impl Store {
    /// All remap rules, by target and prefix.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn remap_rules(&self) -> Result<Vec<RemapRule>> {
        self.with(|db| read_rules(db).map_err(sqlite(self.path())))
    }

    /// The query of an array's view, with paths for `target` if one is given: columns `dim_0` …, `present`, `path`,
    /// `offset`, `size`, `info`, `data`. Any SQLite ≥ 3.35 runs it on the store.
    ///
    /// # Errors
    /// [`Error::Store`] for an array without chunks or plan, or a target without rules.
    pub fn view_sql(&self, array: usize, target: Option<&str>) -> Result<String> {
        let desc = &self.arrays()[array];
        let bad = |what: String| Err(Error::Store { path: self.path().to_owned(), what });
        if desc.storage != Storage::Referenced || desc.dims.is_empty() {
            return bad(format!("array \"{}\" has no chunks: its values are in table arrays", desc.name));
        }
        desc.grid()?;
        if let Some(target) = target
            && !self.remap_rules()?.iter().any(|r| r.target == target)
        {
            return bad(format!(
                "there is no remap target \"{target}\": `gdal driver mdimrefs remap` lists and adds them"
            ));
        }
        let whole = view_name(&desc.name);
        let (planned, of_whole) = self.with(|db| {
            let failed = sqlite(self.path());
            let planned = !columns(db, "placements").map_err(&failed)?.is_empty()
                && !columns(db, &desc.name).map_err(&failed)?.is_empty();
            let is_table = db
                .prepare("SELECT 1 FROM sqlite_master WHERE name=?1 AND type='table'")
                .and_then(|mut s| s.exists([&whole]))
                .map_err(&failed)?;
            Ok((planned && !is_table, columns(db, &whole).map_err(&failed)?))
        })?;
        if planned {
            return Ok(view::select(&desc.name, desc.dims.len(), target));
        }
        if of_whole.is_empty() {
            return bad(format!("array \"{}\": there is no {}", desc.name, quote(&whole)));
        }
        let list: Vec<String> = (0..desc.dims.len())
            .map(|i| format!("dim_{i}"))
            .chain(["present", "path", "offset", "size", "info", "data"].map(str::to_owned))
            .map(|c| match (c.as_str(), target) {
                _ if !of_whole.contains(&c) => format!("NULL AS {}", quote(&c)),
                ("path", Some(target)) => format!("{} AS path", path_sql("path", target)),
                _ => quote(&c),
            })
            .collect();
        Ok(format!("SELECT {} FROM {}", list.join(", "), quote(&whole)))
    }
}
