//! `merge`: one store of what was scanned into several.

use super::output::OutputFile;
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::model::{ArrayDesc, Dim, Storage};
use crate::plan::agree::{Reference, keep_common};
use crate::scan::SourceArray;
use crate::store::{self, Merger, OpenOptions, Store};
use crate::{Error, Result};
use serde_json::Map;

/// The command.
pub static COMMAND: Command = Command {
    name: "merge",
    in_mdim: false,
    help: "Write one store of the sources scanned into several. Plans are left out: get-refs --append makes a new one.",
    args: &[
        ArgSpec::positional("store", ArgKind::TextList, "STORE", "Stores to merge"),
        ArgSpec::positional("output", ArgKind::Text, "OUT", "Store to write"),
        ArgSpec::flag("overwrite", "Replace an existing store"),
    ],
    run,
};

/// An array of a store, as the rules of a plan look at it.
fn as_scanned(desc: &ArrayDesc) -> SourceArray {
    SourceArray {
        name: desc.name.clone(),
        dims: desc.dims.iter().map(|d| Dim { name: d.clone(), size: 0 }).collect(),
        chunks: desc.chunks.clone(),
        dtype: desc.dtype,
        fill: desc.fill.clone(),
        codec: desc.codec.clone(),
        info: String::new(),
        attrs: desc.attrs.clone(),
        contiguous: false,
    }
}

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let (inputs, output) = (args.list("store"), args.required("output")?);
    let mut stores = Vec::new();
    for input in inputs {
        let store = Store::open(input, &OpenOptions { target: Some(String::new()), ..OpenOptions::default() })?;
        if let Some((array, why)) = store.broken().first() {
            return Err(Error::Store { path: input.clone(), what: format!("array \"{array}\": {why}") });
        }
        stores.push(store);
    }
    let mut arrays: Vec<(Reference, ArrayDesc)> = Vec::new();
    let mut attrs = stores.first().and_then(|s| s.group_attrs("")).cloned().unwrap_or_default();
    let mut planned = Vec::new();
    for store in &stores {
        keep_common(&mut attrs, store.group_attrs("").unwrap_or(&crate::model::Attributes::default()));
        for desc in store.arrays().iter().filter(|a| a.storage == Storage::Referenced && !a.dims.is_empty()) {
            if desc.shape.is_some() && planned.last() != Some(&store.path()) {
                planned.push(store.path());
            }
            if let Some((reference, kept)) = arrays.iter_mut().find(|(_, a)| a.name == desc.name) {
                reference.check(&desc.name, store.path(), &as_scanned(desc))?;
                keep_common(&mut kept.attrs, &desc.attrs);
            } else {
                let reference = Reference { source: store.path().to_owned(), array: as_scanned(desc) };
                arrays.push((reference, ArrayDesc { shape: None, ..desc.clone() }));
            }
        }
    }
    let file = OutputFile::create(output, args.flag("overwrite"), store::is_store_file)?;
    let merger = Merger::new(file.partial(), output)?;
    let descs: Vec<ArrayDesc> = arrays.into_iter().map(|(_, a)| a).collect();
    let mut types = Map::new();
    for (number, desc) in descs.iter().enumerate() {
        merger.put_array(desc, &descs[..number])?;
        types.insert(desc.name.clone(), desc.attrs.types_json().into());
    }
    if !attrs.0.is_empty() {
        merger.set_meta("attrs", &attrs.to_json().to_string())?;
        types.insert("/".into(), attrs.types_json().into());
    }
    for (number, store) in stores.iter().enumerate() {
        ctx.report(number as f64 / stores.len() as f64, "")?;
        merger.add(store)?;
    }
    let (sources, count) = merger.finish(types)?;
    file.commit()?;
    ctx.report(1.0, "")?;
    let note = match planned.as_slice() {
        [] => String::new(),
        list => format!("plans are left out: {}\n", list.join(", ")),
    };
    Ok(format!("{sources} sources, {count} arrays\n{note}{output}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Folder, run, small_store};

    /// Source; key, presence and offset; bytes.
    type Row = (String, Vec<Option<i64>>, Option<Vec<u8>>);

    #[test]
    fn two_machines() {
        let folder = Folder::new("merge");
        let (one, two, out) = (folder.file("1.sqlite"), folder.file("2.sqlite"), folder.file("m.sqlite"));
        small_store(&one, "/data");
        small_store(&two, "/more");
        let arguments = [format!("store={one}"), format!("store={two}"), format!("output={out}")];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert!(run(&COMMAND, &arguments).unwrap().starts_with("4 sources, 1 arrays\n"));
        let db = rusqlite::Connection::open(&out).unwrap();
        let rows = |db: &rusqlite::Connection| -> Vec<Row> {
            db.prepare("SELECT source, dim_0, dim_1, present, \"offset\", data FROM v JOIN sources USING(source_id) ORDER BY 1,2,3")
                .unwrap()
                .query_map([], |r| {
                    let numbers = (1..5).map(|i| r.get(i)).collect::<rusqlite::Result<_>>()?;
                    Ok((r.get(0)?, numbers, r.get(5)?))
                })
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap()
        };
        let mut expected = rows(&rusqlite::Connection::open(&one).unwrap());
        expected.extend(rows(&rusqlite::Connection::open(&two).unwrap()));
        assert_eq!(rows(&db), expected);
        assert!(Store::open(&out, &OpenOptions::default()).unwrap().check().unwrap().is_empty());
        // The same source twice is no conflict, unless it is not the same.
        let again = [format!("store={one}"), format!("store={out}"), format!("output={}", folder.file("a.sqlite"))];
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        assert!(run(&COMMAND, &again).unwrap().starts_with("4 sources"));
        drop(db);
        for (change, named) in [
            ("UPDATE v SET \"offset\"=\"offset\"+1 WHERE dim_0=1 AND \"offset\" IS NOT NULL", "chunk [1,0]"),
            ("UPDATE sources SET size=17", "size 17, but 16"),
            ("UPDATE arrays SET dtype='>i2'", "data type"),
        ] {
            rusqlite::Connection::open(&out).unwrap().execute(change, []).unwrap();
            let mut arguments = again.clone();
            arguments.push("overwrite");
            let error = run(&COMMAND, &arguments).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
