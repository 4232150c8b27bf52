//! `publish`: a store for others, built afresh.

use super::output::OutputFile;
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::store::{self, OpenOptions, PublishOptions, Store};
use crate::{Error, Result};

/// The command.
pub static COMMAND: Command = Command {
    name: "publish",
    in_mdim: false,
    help: "Write a store afresh for others: one file, with the paths of a target; equal content gives equal bytes.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store to publish"),
        ArgSpec::positional("output", ArgKind::Text, "OUT", "Store to write"),
        ArgSpec::option("target", ArgKind::Text, "T", "Readers rewrite paths by the rules of this target (see remap)"),
        ArgSpec::flag(
            "materialize",
            "Make refs_<array> a table with a key and final paths: plain SQL finds one chunk of many at once",
        ),
        ArgSpec::flag("overwrite", "Replace an existing store"),
    ],
    run,
};

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let (input, output) = (args.required("store")?, args.required("output")?);
    let store = Store::open(input, &OpenOptions::default())?;
    if let Some((array, why)) = store.broken().first() {
        return Err(Error::Store { path: input.to_owned(), what: format!("array \"{array}\": {why}") });
    }
    // A log of the old store would be taken for one of the new.
    for end in ["-wal", "-journal"] {
        if std::fs::metadata(format!("{output}{end}")).is_ok_and(|m| m.len() > 0) {
            return Err(Error::Invalid(format!("{output} is being written, or its writing was interrupted")));
        }
    }
    let file = OutputFile::create(output, args.flag("overwrite"), store::is_store_file)?;
    let options =
        PublishOptions { target: args.text("target").map(str::to_owned), materialize: args.flag("materialize") };
    store.publish(file.partial(), &options, &mut |share| ctx.report(share, ""))?;
    file.commit()?;
    ctx.report(1.0, "")?;
    Ok(format!("{output}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::remap;
    use crate::ops::testing::{Folder, run, small_store};
    use crate::store::ChunkRef;

    /// Chunk, path and offset of each reference; the bytes of inline ones.
    fn refs(path: &str) -> Vec<(Vec<u64>, String)> {
        let store = Store::open(path, &OpenOptions::default()).unwrap();
        let array = store.find("v").unwrap();
        let refs = store.refs(array, &[0, 0], &[4, 2]).unwrap();
        let mut list: Vec<_> = refs
            .into_iter()
            .map(|(key, r)| match r {
                ChunkRef::Absent => (key, "absent".to_owned()),
                ChunkRef::Inline(data) => (key, format!("{data:?}")),
                ChunkRef::Range { source, offset, size } => {
                    (key, format!("{} {offset} {size}", store.source(source).unwrap().path))
                }
            })
            .collect();
        list.sort();
        list
    }

    fn expected(a: &str, b: &str) -> Vec<(Vec<u64>, String)> {
        let mut list: Vec<(Vec<u64>, String)> =
            (0..4u64).map(|i| (vec![i / 2, i % 2], format!("{a} {} 4", i * 4))).collect();
        list.extend((0..2u64).map(|i| (vec![2, i], format!("{b} {} 4", i * 4))));
        list.push((vec![3, 0], "[7, 0, 8, 0]".to_owned()));
        list.push((vec![3, 1], "absent".to_owned()));
        list
    }

    #[test]
    fn published_twice_is_the_same_file() {
        let folder = Folder::new("publish");
        let path = folder.file("s.sqlite");
        small_store(&path, "/data");
        let store = format!("store={path}");
        for (target, prefix, replacement) in [("t", "/data/", "/data/data/"), ("here", "/data/", "./")] {
            let rule = [
                &store,
                &format!("target={target}"),
                &format!("prefix={prefix}"),
                &format!("replacement={replacement}"),
            ];
            run(&remap::COMMAND, &rule.map(|s| s.as_str())).unwrap();
        }
        let here = folder.0.to_str().unwrap();
        let cases = [
            (None, expected("/data/a.bin", "/data/b.bin")),
            (Some("t"), expected("/data/data/a.bin", "/data/data/b.bin")),
            (Some("here"), expected(&format!("{here}/a.bin"), &format!("{here}/b.bin"))),
        ];
        for (target, want) in cases {
            for materialize in [false, true] {
                let (one, two) = (folder.file("one.sqlite"), folder.file("two.sqlite"));
                let output = format!("output={one}");
                let target = target.map(|t| format!("target={t}"));
                let mut arguments = vec![store.as_str(), &output, "overwrite"];
                arguments.extend(target.as_deref());
                arguments.extend(materialize.then_some("materialize"));
                run(&COMMAND, &arguments).unwrap();
                run(&COMMAND, &[&format!("store={one}"), &format!("output={two}"), "overwrite"]).unwrap();
                assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap(), "{target:?} {materialize}");
                assert_eq!(refs(&one), want, "{target:?} {materialize}");
                let db = rusqlite::Connection::open(&one).unwrap();
                let (kind, mode): (String, String) = db
                    .query_row(
                        "SELECT (SELECT type FROM sqlite_master WHERE name='refs_v'), \
                         (SELECT journal_mode FROM pragma_journal_mode)",
                        [],
                        |r| Ok((r.get(0)?, r.get(1)?)),
                    )
                    .unwrap();
                assert_eq!(kind, if materialize { "table" } else { "view" });
                assert_eq!(mode, "delete");
            }
        }
        let names: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[test]
    fn refusals() {
        let folder = Folder::new("publish");
        let path = folder.file("s.sqlite");
        small_store(&path, "/data");
        let store = format!("store={path}");
        let out = folder.file("out.sqlite");
        let output = format!("output={out}");
        assert!(run(&COMMAND, &[&store, &output, "target=t"]).unwrap_err().to_string().contains("target"));
        assert!(!std::path::Path::new(&out).exists());
        std::fs::write(&out, "something else").unwrap();
        assert!(run(&COMMAND, &[&store, &output]).unwrap_err().to_string().contains("--overwrite"));
        assert!(run(&COMMAND, &[&store, &output, "overwrite"]).is_err());
        assert_eq!(std::fs::read(&out).unwrap(), b"something else");
        std::fs::remove_file(&out).unwrap();
        run(&COMMAND, &[&store, &output]).unwrap();
        assert!(run(&COMMAND, &[&store, &output]).is_err());
        let rule = [&store, "target=t", "prefix=", "replacement=./"];
        run(&remap::COMMAND, &rule).unwrap();
        run(&COMMAND, &[&store, &output, "overwrite", "target=t", "materialize"]).unwrap();
        let again = [&format!("store={out}"), &format!("output={}", folder.file("o2")), "target=u"];
        assert!(run(&COMMAND, &again.map(|s| s as &str)).unwrap_err().to_string().contains("final"));
        let options = OpenOptions { target: Some("u".into()), ..Default::default() };
        assert!(Store::open(&out, &options).is_err());
    }
}
