//! Scans HDF5 files of one array each into a store, and inserts the same rows by bare SQLite:
//! `cargo bench --bench store -- FILE...`
//!
//! Prints seconds, medians of three rounds, their ratio, and the peak of memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::ops::{ArgValue, Args, Context, get_refs};
use mdimrefs::scan::{self, Location};
use rusqlite::{Connection, params_from_iter};
use std::sync::Arc;
use std::time::Instant;

/// Peak of resident memory in MB, where the system tells.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn scan_into(store: &str, file: &str) {
    let mut args = Args::default();
    args.0.insert("input".into(), ArgValue::List(vec![file.into()]));
    args.0.insert("output".into(), ArgValue::Text(store.into()));
    args.0.insert("overwrite".into(), ArgValue::Flag(true));
    args.0.insert("num-threads".into(), ArgValue::Integer(1));
    let (mut progress, mut warn) = (|_: f64, _: &str| true, |_: &str| {});
    let mut context = Context { opener: Arc::new(LocalOpener), progress: &mut progress, warn: &mut warn };
    (get_refs::COMMAND.run)(&args, &mut context).unwrap();
}

type Row = Vec<rusqlite::types::Value>;

fn rows(file: &str) -> (usize, Vec<Row>) {
    let index = scan::open(LocalOpener.open(file).unwrap()).unwrap();
    let (rank, info) = (index.arrays()[0].dims.len(), index.arrays()[0].info.clone());
    let mut rows = Vec::new();
    index
        .chunks(0, &mut |chunk| {
            let Location::Range { offset, size } = chunk.location else { return Ok(()) };
            let mut row: Row = vec![1.into()];
            row.extend(chunk.key.iter().map(|k| (*k as i64).into()));
            row.extend([1.into(), (offset as i64).into(), (size as i64).into(), info.clone().into()]);
            rows.push(row);
            Ok(())
        })
        .unwrap();
    (rank, rows)
}

fn insert(path: &str, rank: usize, rows: &[Row]) {
    let _ = std::fs::remove_file(path);
    let mut sql = Connection::open(path).unwrap();
    let dims: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
    let typed: Vec<String> = dims.iter().map(|d| format!("{d} BIGINT")).collect();
    sql.execute_batch(&format!(
        "CREATE TABLE v(source_id INTEGER, {}, present INTEGER, \"offset\" BIGINT, size BIGINT, info TEXT, data BLOB,
         PRIMARY KEY(source_id, {})) WITHOUT ROWID",
        typed.join(", "),
        dims.join(", ")
    ))
    .unwrap();
    let transaction = sql.transaction().unwrap();
    {
        let marks = vec!["?"; rank + 5].join(", ");
        let text =
            format!("INSERT INTO v(source_id, {}, present, \"offset\", size, info) VALUES ({marks})", dims.join(", "));
        let mut statement = transaction.prepare(&text).unwrap();
        for row in rows {
            statement.execute(params_from_iter(row)).unwrap();
        }
    }
    transaction.commit().unwrap();
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        println!("usage: cargo bench --bench store -- FILE...");
    }
    let folder = std::env::temp_dir();
    let path = |name: &str| folder.join(format!("mdimrefs-bench-{name}-{}", std::process::id())).display().to_string();
    let (store, bare) = (path("store.sqlite"), path("bare.sqlite"));
    for file in files {
        let time = |f: &dyn Fn()| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        };
        let first = time(&|| scan_into(&store, &file));
        let memory = peak();
        let (rank, rows) = rows(&file);
        if rows.len() > 2_000_000 {
            // Too much to be held here and inserted again.
            println!("{file}: {} chunks: get-refs {first:.3} s, peak of memory {memory} MB", rows.len());
            continue;
        }
        let (mut ours, mut theirs) = (vec![first], Vec::new());
        for round in 0..3 {
            if round > 0 {
                ours.push(time(&|| scan_into(&store, &file)));
            }
            theirs.push(time(&|| insert(&bare, rank, &rows)));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{file}: {} chunks: get-refs {ours:.3} s, bare insert {theirs:.3} s ({:.2} times), peak of memory {memory} MB",
            rows.len(),
            ours / theirs
        );
    }
    for path in [store, bare] {
        let _ = std::fs::remove_file(path);
    }
}
