//! `check`: every rule of the format; the sources; chunks that decode.

use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::io::{Opener, Stat};
use crate::model::{ChunkGrid, Kind, Storage};
use crate::read::{MissingSource, ReadOptions, Reader, Verify};
use crate::store::{CheckedSource, Finding, OpenOptions, Severity, Store};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The command.
pub static COMMAND: Command = Command {
    name: "check",
    in_mdim: false,
    help: "Check a store against every rule of its format, and its sources. Ends with an error if one is broken.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store to check"),
        ArgSpec::flag("sources", "Look at each source: is it there, unchanged, and long enough for its byte ranges"),
        ArgSpec::option("decode", ArgKind::Integer, "N", "Read and decode N chunks taken at random"),
        ArgSpec::option("target", ArgKind::Text, "T", "Look for the sources where the rules of this target say"),
        ArgSpec::option("format", ArgKind::Choice(&["text", "json"]), "text|json", "Form of the report").or("text"),
    ],
    run,
};

/// Sources looked at between two reports of progress.
const SOURCES_A_STEP: usize = 128;
/// Sources looked at at a time.
const THREADS: usize = 8;
/// Most bytes decoded of one chunk taken at random, unless the chunk has a codec.
const MOST_BYTES: u64 = 64 << 20;
/// Most findings of one kind that are listed.
const LISTED: usize = 100;

/// What was done.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    sources: Option<usize>,
    decoded: Option<u64>,
}

fn finding(rule: &'static str, array: Option<&str>, what: String) -> Finding {
    Finding { severity: Severity::Error, rule, array: array.map(str::to_owned), what }
}

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let path = args.required("store")?;
    let count = match args.integer("decode") {
        None => None,
        Some(n) => {
            Some(u64::try_from(n).map_err(|_| Error::Invalid(format!("--decode {n}: it is a number of chunks")))?)
        }
    };
    let options = OpenOptions { target: args.text("target").map(str::to_owned), ..OpenOptions::default() };
    let store = Arc::new(Store::open(path, &options)?);
    let mut report = Report { findings: store.check()?, ..Report::default() };
    if args.flag("sources") {
        check_sources(&store, &mut report, ctx)?;
    }
    if let Some(count) = count {
        decode(&store, count, &mut report, ctx)?;
    }
    ctx.report(1.0, "")?;
    let text = match args.text("format") {
        Some("json") => report.json(path),
        _ => report.text(path),
    };
    match report.count(Severity::Error) {
        0 => Ok(text),
        n => Err(Error::Failed {
            what: format!("{path}: {n} {} broken", if n == 1 { "rule is" } else { "rules are" }),
            report: text,
        }),
    }
}

/// Compares one source with what is recorded of it, and with the byte ranges in it.
fn look_at(opener: &dyn Opener, source: &CheckedSource, extents: &[(String, u64)]) -> Vec<Finding> {
    let is = match opener.stat(&source.path) {
        Ok(stat) => stat,
        Err(e) => return vec![finding("source", None, e.to_string())],
    };
    let mut findings = Vec::new();
    let mut differs = |what: &str, was: Option<String>, is: Option<String>| {
        if let (Some(was), Some(is)) = (was, is)
            && was != is
        {
            let what = format!("{}: its {what} is {is}, but was {was} when it was scanned", source.path);
            findings.push(finding("source", None, what));
        }
    };
    let Stat { size, mtime, etag } = &source.stat;
    differs("size", size.map(|s| s.to_string()), is.size.map(|s| s.to_string()));
    // A copy has times and tags of its own.
    if !source.remapped {
        differs("time of change", mtime.map(|t| t.to_string()), is.mtime.map(|t| t.to_string()));
        differs("entity tag", etag.clone(), is.etag.clone());
    }
    for (array, end) in extents {
        if is.size.is_some_and(|size| *end > size) {
            let what =
                format!("{}: it has {} bytes, but a chunk ends at byte {end}", source.path, is.size.unwrap_or(0));
            findings.push(finding("ranges", Some(array), what));
        }
    }
    findings
}

fn check_sources(store: &Store, report: &mut Report, ctx: &mut Context<'_>) -> Result<()> {
    let sources = store.checked_sources()?;
    let mut extents: HashMap<i64, Vec<(String, u64)>> = HashMap::new();
    for extent in store.extents()? {
        extents.entry(extent.source_id).or_default().push((extent.array, extent.end));
    }
    let opener = Arc::clone(&ctx.opener);
    for (step, part) in sources.chunks(SOURCES_A_STEP).enumerate() {
        ctx.report((step * SOURCES_A_STEP) as f64 / sources.len() as f64, "")?;
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut found = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = part.get(number) else { return found };
                let extents = extents.get(&source.id).map_or(&[][..], Vec::as_slice);
                found.extend(look_at(&*opener, source, extents).into_iter().map(|f| (number, f)));
            }
        };
        let mut found: Vec<(usize, Finding)> = Vec::new();
        std::thread::scope(|scope| -> Result<()> {
            let threads: Vec<_> = (0..THREADS.min(part.len())).map(|_| scope.spawn(worker)).collect();
            for thread in threads {
                found.extend(
                    thread
                        .join()
                        .map_err(|_| Error::Invalid("a thread that looks at sources has ended early".into()))?,
                );
            }
            Ok(())
        })?;
        found.sort_by_key(|(number, _)| *number);
        report.findings.extend(found.into_iter().map(|(_, f)| f));
    }
    report.sources = Some(sources.len());
    Ok(())
}

/// Numbers for choosing chunks (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

/// The first element of chunk `key` and the number of elements to read of it: all, where there is a codec.
fn part_of_chunk(grid: &ChunkGrid, key: &[u64], item: u64, whole: bool) -> (Vec<u64>, Vec<u64>) {
    let start: Vec<u64> = key.iter().zip(&grid.chunks).map(|(k, c)| k * c).collect();
    let mut count: Vec<u64> =
        (0..key.len()).map(|i| grid.chunks[i].min(grid.shape[i].saturating_sub(start[i]))).collect();
    if !whole {
        for axis in 0..count.len() {
            let bytes = count.iter().fold(item, |n, c| n.saturating_mul(*c));
            if bytes <= MOST_BYTES {
                break;
            }
            let rest = bytes / count[axis].max(1);
            count[axis] = (MOST_BYTES / rest.max(1)).clamp(1, count[axis]);
        }
    }
    (start, count)
}

fn decode(store: &Arc<Store>, count: u64, report: &mut Report, ctx: &mut Context<'_>) -> Result<()> {
    let options = ReadOptions {
        cache_size: 0,
        verify: Verify::No,
        missing_source: MissingSource::Error,
        ..ReadOptions::default()
    };
    let reader = Reader::new(Arc::clone(store), Arc::clone(&ctx.opener), options)?;
    let mut grids = Vec::new();
    let mut total = 0u64;
    for (number, desc) in store.arrays().iter().enumerate() {
        if desc.storage == Storage::Referenced && desc.shape.is_some() {
            let grid = desc.grid()?;
            total = total.saturating_add(grid.len());
            grids.push((number, grid, total));
        }
    }
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    let mut random = Random(nanos | 1);
    let count = if total == 0 { 0 } else { count };
    let mut buffer = Vec::new();
    let mut bad = 0;
    for done in 0..count {
        ctx.report(done as f64 / count as f64, "")?;
        // All of them once, if no more were asked for than there are.
        let chosen = if count >= total { done % total } else { random.below(total) };
        let at = grids.partition_point(|(_, _, end)| *end <= chosen);
        let Some((number, grid, end)) = grids.get(at) else { break };
        let mut rest = chosen - (end - grid.len());
        let counts = grid.counts();
        let mut key = vec![0; counts.len()];
        for axis in (0..counts.len()).rev() {
            key[axis] = rest % counts[axis];
            rest /= counts[axis];
        }
        let desc = &store.arrays()[*number];
        let item = desc.dtype.size.max(1) as u64;
        let (start, extent) = part_of_chunk(grid, &key, item, !desc.codec.is_empty());
        let read = if desc.dtype.kind == Kind::VlenUtf8 {
            reader.read_strings(*number, &start, &extent, &vec![1; extent.len()]).map(drop)
        } else {
            let bytes = extent.iter().try_fold(item, |n, c| n.checked_mul(*c)).and_then(|n| usize::try_from(n).ok());
            match bytes {
                Some(n) if buffer.try_reserve(n.saturating_sub(buffer.len())).is_ok() => {
                    buffer.resize(n, 0);
                    reader.read(*number, &start, &extent, &mut buffer)
                }
                _ => Err(Error::Invalid(format!("chunk {key:?} is too large for the memory"))),
            }
        };
        match read {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(e) => {
                bad += 1;
                if bad <= LISTED {
                    report.findings.push(finding("decode", Some(&desc.name), e.to_string()));
                }
            }
        }
    }
    report.decoded = Some(count - bad as u64);
    Ok(())
}

impl Report {
    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }

    fn json(&self, path: &str) -> String {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|f| json!({"severity": word(f.severity), "rule": f.rule, "array": f.array, "what": f.what}))
            .collect();
        let report = json!({
            "store": path,
            "ok": self.count(Severity::Error) == 0,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "sources_checked": self.sources,
            "chunks_decoded": self.decoded,
            "findings": findings,
        });
        format!("{report:#}\n")
    }

    fn text(&self, path: &str) -> String {
        let mut text = String::new();
        for f in self.findings.iter().take(LISTED) {
            let array = f.array.as_ref().map_or(String::new(), |a| format!("array \"{a}\": "));
            text.push_str(&format!("{}: {array}{} ({})\n", word(f.severity), f.what, f.rule));
        }
        if self.findings.len() > LISTED {
            text.push_str(&format!("and {} more (--format json lists all)\n", self.findings.len() - LISTED));
        }
        let looked = [
            self.sources.map(|n| format!(", {n} sources looked at")),
            self.decoded.map(|n| format!(", {n} chunks decoded")),
        ];
        let looked: String = looked.into_iter().flatten().collect();
        text.push_str(&format!(
            "{path}: {} errors, {} warnings{looked}\n",
            self.count(Severity::Error),
            self.count(Severity::Warning)
        ));
        text
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::publish;
    use crate::ops::testing::{Folder, run, small_store};

    /// The rules that a check of the store says are broken.
    fn broken(path: &str, options: &[&str]) -> Vec<String> {
        let store = format!("store={path}");
        let mut arguments = vec![store.as_str(), "format=json"];
        arguments.extend(options);
        let text = match run(&COMMAND, &arguments) {
            Ok(text) => text,
            Err(Error::Failed { report, .. }) => report,
            Err(e) => panic!("{e}"),
        };
        let report: Value = serde_json::from_str(&text).unwrap();
        let list = report["findings"].as_array().unwrap();
        assert_eq!(report["ok"].as_bool().unwrap(), list.iter().all(|f| f["severity"] != "error"));
        list.iter().map(|f| format!("{} {}", f["severity"].as_str().unwrap(), f["rule"].as_str().unwrap())).collect()
    }

    #[test]
    fn each_broken_rule_is_named() {
        let folder = Folder::new("check");
        let path = folder.file("s.sqlite");
        let cases: &[(&str, &[&str])] = &[
            ("SELECT 1", &[]),
            ("DELETE FROM v WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["warning scan"]),
            ("DELETE FROM v WHERE source_id=1", &["error scan"]),
            ("UPDATE v SET present=2 WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error presence"]),
            ("UPDATE v SET \"offset\"=NULL WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error presence"]),
            ("UPDATE v SET present=1 WHERE present=0", &["error presence"]),
            ("UPDATE v SET \"offset\"=0, size=4 WHERE data IS NOT NULL", &["error presence"]),
            ("UPDATE v SET size=0 WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error ranges"]),
            ("UPDATE v SET \"offset\"=-1 WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error ranges"]),
            ("UPDATE v SET \"offset\"=13 WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error ranges"]),
            ("UPDATE v SET info='COMPRESSION=DEFLATE' WHERE source_id=1 AND dim_0=0 AND dim_1=0", &["error codec"]),
            ("UPDATE v SET data=x'0700' WHERE data IS NOT NULL", &["error data"]),
            ("UPDATE placements SET dest='[1,0]' WHERE dest='[2,0]'", &["error overlap"]),
            ("UPDATE placements SET dest='[2, 0]' WHERE dest='[2,0]'", &["warning placements"]),
            ("UPDATE placements SET dest='[3,0]' WHERE dest='[2,0]'", &["error placements"]),
            ("UPDATE placements SET \"count\"='[2,3]' WHERE dest='[2,0]'", &["error placements"]),
            ("UPDATE placements SET \"count\"='[2,4.0]' WHERE dest='[2,0]'", &["error placements"]),
            ("UPDATE meta SET value='mdim-refs/0.3' WHERE key='format_version'", &["error version"]),
            ("UPDATE arrays SET fill='40000'", &["error arrays"]),
            ("DROP VIEW refs_v", &["error view"]),
            ("PRAGMA journal_mode=WAL", &["warning journal"]),
        ];
        for (sql, expected) in cases {
            let _ = std::fs::remove_file(&path);
            small_store(&path, "/data");
            let db = rusqlite::Connection::open(&path).unwrap();
            db.execute_batch(sql).unwrap();
            drop(db);
            assert_eq!(broken(&path, &[]), *expected, "{sql}");
        }
    }

    #[test]
    fn a_table_in_place_of_the_view_has_the_same_rows() {
        let folder = Folder::new("check");
        let (path, out) = (folder.file("s.sqlite"), folder.file("out.sqlite"));
        small_store(&path, "/data");
        run(&publish::COMMAND, &[&format!("store={path}"), &format!("output={out}"), "materialize"]).unwrap();
        assert!(broken(&out, &[]).is_empty());
        let db = rusqlite::Connection::open(&out).unwrap();
        db.execute_batch("UPDATE refs_v SET \"offset\"=1 WHERE dim_0=0 AND dim_1=0").unwrap();
        drop(db);
        assert_eq!(broken(&out, &[]), ["error view", "error view"]);
    }

    #[test]
    fn sources_and_chunks() {
        let folder = Folder::new("check");
        let path = folder.file("s.sqlite");
        small_store(&path, folder.0.to_str().unwrap());
        for name in ["a.bin", "b.bin"] {
            std::fs::write(folder.file(name), [1; 16]).unwrap();
        }
        assert!(broken(&path, &["sources", "decode=8"]).is_empty());
        std::fs::write(folder.file("b.bin"), [1; 7]).unwrap();
        assert_eq!(broken(&path, &["sources"]), ["error source", "error ranges"]);
        assert_eq!(broken(&path, &["decode=8"]), ["error decode"]);
        std::fs::remove_file(folder.file("a.bin")).unwrap();
        assert_eq!(broken(&path, &["sources"]), ["error source", "error source", "error ranges"]);
        assert_eq!(broken(&path, &["decode=8"]).len(), 5);
    }
}
