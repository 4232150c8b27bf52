//! The views of a store as a query sees them: with the paths of the target, and with where the chunks are.

use super::connection::Db;
use super::names::quote;
use super::read::{Store, remapped_by};
use super::rows::{columns, sqlite};
use super::tables::{Cell, Table};
use super::view_name;
use crate::Result;
use crate::model::Storage;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;

/// SQL function that applies the rules of the target to a path.
const PATH: &str = "mdimrefs_path";

impl Store {
    /// Puts a temporary view before each `refs_<array>` that `sql` may name and that is to have other paths, or columns of
    /// bounds.
    ///
    /// # Errors
    /// [`crate::Error::Sqlite`].
    pub(super) fn shadow_views(&self, db: &Db, sql: &str, bounded: &[Table]) -> Result<()> {
        let failed = sqlite(self.path());
        let remapped = !self.rules().is_empty();
        if !sql.to_ascii_lowercase().contains("refs_") || !remapped && bounded.iter().all(|t| t.bounds.is_empty()) {
            return Ok(());
        }
        db.execute_batch("PRAGMA query_only=OFF; PRAGMA temp_store=MEMORY").map_err(&failed)?;
        if remapped {
            let rules = self.rules().to_vec();
            let flags =
                FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
            db.create_scalar_function(PATH, 1, flags, move |context| {
                Ok(context.get::<Option<String>>(0)?.map(|path| remapped_by(&rules, &path)))
            })
            .map_err(&failed)?;
        }
        for (number, desc) in self.arrays().iter().enumerate() {
            if desc.storage != Storage::Referenced || desc.shape.is_none() || desc.dims.is_empty() {
                continue;
            }
            let view = view_name(&desc.name);
            let have = columns(db, &view).map_err(&failed)?;
            let mut list: Vec<String> = have
                .iter()
                .map(|c| match c.as_str() {
                    "path" if remapped => format!("{PATH}(v.path) AS path"),
                    c => format!("v.{}", quote(c)),
                })
                .collect();
            let mut joins = String::new();
            let bounds = bounded.iter().find(|t| t.array == Some(number)).map(|t| &t.bounds[..]).unwrap_or_default();
            for b in bounds {
                let (table, alias) = (quote(&format!("mdimrefs_bounds_{number}_{}", b.axis)), format!("b{}", b.axis));
                db.execute_batch(&format!("CREATE TEMP TABLE {table}(chunk INTEGER PRIMARY KEY, low, high); BEGIN"))
                    .map_err(&failed)?;
                let mut insert = db.prepare(&format!("INSERT INTO {table} VALUES(?1,?2,?3)")).map_err(&failed)?;
                for chunk in 0..b.bounds.len() {
                    let [low, high] = b.bounds.cells(chunk).map(owned);
                    insert.execute((chunk as i64, low, high)).map_err(&failed)?;
                }
                drop(insert);
                db.execute_batch("COMMIT").map_err(&failed)?;
                for (column, end) in [("low", "min"), ("high", "max")] {
                    list.push(format!("{alias}.{column} AS {}", quote(&format!("{}_{end}", b.name))));
                }
                joins.push_str(&format!(" LEFT JOIN {table} {alias} ON {alias}.chunk=v.dim_{}", b.axis));
            }
            let sql = format!(
                "CREATE TEMP VIEW {name} AS SELECT {} FROM main.{name} v{joins}",
                list.join(", "),
                name = quote(&view)
            );
            db.execute_batch(&sql).map_err(&failed)?;
        }
        db.execute_batch("PRAGMA query_only=ON").map_err(&failed)
    }
}

fn owned(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Integer(i) => Value::Integer(i),
        Cell::Real(v) => Value::Real(v),
        Cell::Text(t) => Value::Text(t.to_owned()),
        Cell::Blob(b) => Value::Blob(b.to_vec()),
        Cell::Null => Value::Null,
    }
}
