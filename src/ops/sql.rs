//! `sql`: the query behind an array's view, for any SQLite reader.

use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::store::{OpenOptions, Store};
use crate::{Error, Result};

/// The command.
pub static COMMAND: Command = Command {
    name: "sql",
    in_mdim: false,
    help: "Print the SQL that lists an array's chunks: place, path, offset and size of each.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store"),
        ArgSpec::option("array", ArgKind::Text, "A", "Array, by full name").must(),
        ArgSpec::option("target", ArgKind::Text, "T", "Rewrite paths by the rules of this target"),
    ],
    run,
};

fn run(args: &Args, _ctx: &mut Context<'_>) -> Result<String> {
    let store = Store::open(args.required("store")?, &OpenOptions::default())?;
    let name = args.required("array")?;
    let array = store.find(name).ok_or_else(|| {
        let names: Vec<&str> = store.arrays().iter().map(|a| a.name.as_str()).collect();
        Error::Invalid(format!("{}: there is no array \"{name}\"; there are: {}", store.path(), names.join(", ")))
    })?;
    Ok(format!("{};\n", store.view_sql(array, args.text("target"))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::remap;
    use crate::ops::testing::{Folder, run, small_store};

    /// Keys, presence, path, offset.
    type Row = (i64, i64, i64, Option<String>, Option<i64>);

    /// Rows of the query, run by plain SQLite.
    fn rows(path: &str, sql: &str) -> Vec<Row> {
        let db = rusqlite::Connection::open(path).unwrap();
        let mut statement = db.prepare(sql.trim_end_matches(";\n")).unwrap();
        let names: Vec<&str> = statement.column_names().collect();
        assert_eq!(names, ["dim_0", "dim_1", "present", "path", "offset", "size", "info", "data"]);
        let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))).unwrap();
        let mut rows: Vec<_> = rows.map(|r| r.unwrap()).collect();
        rows.sort();
        rows
    }

    #[test]
    fn the_longest_prefix_wins_and_inline_rows_have_no_path() {
        let folder = Folder::new("sql");
        let path = folder.file("s.sqlite");
        small_store(&path, "/data");
        let store = format!("store={path}");
        for (prefix, replacement) in [("/data/", "/mirror/"), ("/data/b", "/other/b"), ("", "never"), ("/DATA/b.", "x")]
        {
            let rule = [&store, "target=t", &format!("prefix={prefix}"), &format!("replacement={replacement}")];
            run(&remap::COMMAND, &rule).unwrap();
        }
        let expected = |a: &str, b: &str| -> Vec<Row> {
            let row = |t, x, p: &str, o| (t, x, 1, Some(p.to_owned()), Some(o));
            vec![
                row(0, 0, a, 0),
                row(0, 1, a, 4),
                row(1, 0, a, 8),
                row(1, 1, a, 12),
                row(2, 0, b, 0),
                row(2, 1, b, 4),
                (3, 0, 1, None, None),
                (3, 1, 0, None, None),
            ]
        };
        let sql = run(&COMMAND, &[&store, "array=v"]).unwrap();
        assert_eq!(rows(&path, &sql), expected("/data/a.bin", "/data/b.bin"));
        let sql = run(&COMMAND, &[&store, "array=/v", "target=t"]).unwrap();
        assert_eq!(rows(&path, &sql), expected("/mirror/a.bin", "/other/b.bin"));
        assert!(run(&COMMAND, &[&store, "array=v", "target=none"]).is_err());
        assert!(run(&COMMAND, &[&store, "array=w"]).unwrap_err().to_string().contains("there are: v"));
    }
}
