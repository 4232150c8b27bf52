//! The view of the whole's chunks, as SQL.

use super::names::{literal, quote, view_name};

/// `CREATE VIEW` of an array of `rank` dimensions (at least one): its rows are the chunks of the whole.
pub fn create_view(array: &str, rank: usize) -> String {
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
    let (view, table, name) = (quote(&view_name(array)), quote(array), literal(array));
    format!(
        "CREATE VIEW {view} AS WITH\n\
         k AS MATERIALIZED (SELECT {k} FROM arrays WHERE \"array\"={name}),\n\
         p AS MATERIALIZED (SELECT q.source_id,\n  {p}\n  FROM k CROSS JOIN placements q WHERE q.\"array\"={name})\n\
         SELECT {dims}, c.present,\n  CASE WHEN c.\"offset\" IS NOT NULL THEN f.source END AS path,\n  \
         c.\"offset\", c.size, c.info, c.data\n\
         FROM p CROSS JOIN sources f ON f.source_id=p.source_id\n\
         CROSS JOIN {table} c ON c.source_id=p.source_id AND {inside}\n\
         UNION ALL\n\
         SELECT {bare}, present, info, \"offset\", size, info, data FROM {table} WHERE 0"
    )
}
