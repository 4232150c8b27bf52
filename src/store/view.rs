//! The view of the whole's chunks, as SQL.

use super::names::{literal, quote, view_name};
use super::remap::path_sql;

/// `CREATE VIEW` of an array of `rank` dimensions (at least one): its rows are the chunks of the whole.
pub fn create_view(array: &str, rank: usize) -> String {
    format!("CREATE VIEW {} AS {}", quote(&view_name(array)), select(array, rank, None))
}

/// The view's query; with a target, paths are remapped (once for each placement).
pub fn select(array: &str, rank: usize, target: Option<&str>) -> String {
    let list = |f: &dyn Fn(usize) -> String, sep: &str| (0..rank).map(f).collect::<Vec<_>>().join(sep);
    let at = |column: &str, i: usize| format!("json_extract({column},'$[{i}]')");
    let k = list(&|i| format!("{} AS c{i}", at("chunks", i)), ", ");
    let p = list(
        &|i| {
            let (src, count, dest) = (at("q.src_offset", i), at("q.\"count\"", i), at("q.dest", i));
            format!("{src}/c{i} AS lo{i}, ({src}+{count}+c{i}-1)/c{i} AS hi{i}, {dest}/c{i}-{src}/c{i} AS s{i}")
        },
        ",\n  ",
    );
    let dims = list(&|i| format!("c.dim_{i}+p.s{i} AS dim_{i}"), ", ");
    let inside = list(&|i| format!("c.dim_{i}>=p.lo{i} AND c.dim_{i}<p.hi{i}"), " AND ");
    let bare = list(&|i| format!("dim_{i}"), ", ");
    let (table, name) = (quote(array), literal(array));
    let (path, from, join, source) = match target {
        None => (String::new(), "", " CROSS JOIN sources f ON f.source_id=p.source_id\n", "f.source"),
        Some(target) => {
            let path = format!(",\n  {} AS path", path_sql("f.source", target));
            (path, " CROSS JOIN sources f ON f.source_id=q.source_id", "\n", "p.path")
        }
    };
    format!(
        "WITH\n\
         k AS MATERIALIZED (SELECT {k} FROM arrays WHERE \"array\"={name}),\n\
         p AS MATERIALIZED (SELECT q.source_id,\n  {p}{path}\n  FROM k CROSS JOIN placements q{from} WHERE q.\"array\"={name})\n\
         SELECT {dims}, c.present,\n  CASE WHEN c.\"offset\" IS NOT NULL THEN {source} END AS path,\n  \
         c.\"offset\", c.size, c.info, c.data\n\
         FROM p{join}\
         CROSS JOIN {table} c ON c.source_id=p.source_id AND {inside}\n\
         UNION ALL\n\
         SELECT {bare}, present, info, \"offset\", size, info, data FROM {table} WHERE 0"
    )
}
