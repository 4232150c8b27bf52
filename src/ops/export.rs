//! `export`: the references in other forms.

use super::output::{OutputFile, OutputFolder};
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::export::{Export, kerchunk_json, kerchunk_parquet, parquet};
use crate::read::{ReadOptions, Reader};
use crate::store::{OpenOptions, Store};
use crate::{Error, Result};
use std::io::Write;
use std::sync::Arc;

/// The command.
pub static COMMAND: Command = Command {
    name: "export",
    in_mdim: false,
    help: "Write the references of a store in a form that other software reads.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store to export"),
        ArgSpec::positional("output", ArgKind::Text, "OUT", "What to write"),
        ArgSpec::option(
            "format",
            ArgKind::Choice(&["kerchunk-json", "kerchunk-parquet", "parquet"]),
            "kerchunk-json|kerchunk-parquet|parquet",
            "Form: kerchunk's references (version 1) in one JSON file, or in a folder of Parquet files; flat tables",
        )
        .must(),
        ArgSpec::option("target", ArgKind::Text, "T", "Rewrite paths by the rules of this target (see remap)"),
        ArgSpec::option("array", ArgKind::TextList, "NAME", "Take only this array; may be repeated (default: all)"),
        ArgSpec::flag(
            "leave-out-absent",
            "Leave absent chunks out, to be read as fill_value, also where readers then take them for missing values",
        ),
        ArgSpec::option("record-size", ArgKind::Integer, "N", "Chunks of a file of kerchunk-parquet").or("10000"),
        ArgSpec::flag("overwrite", "Replace an existing output"),
    ],
    run,
};

/// Whether a file may be what this command wrote before.
fn is_references(path: &std::path::Path) -> bool {
    use std::io::Read;
    let mut head = [0; 20];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok() && head.starts_with(b"{")
}

/// Whether a folder may be what this command wrote before.
fn is_reference_folder(path: &std::path::Path) -> bool {
    std::fs::read_to_string(path.join(".zmetadata")).is_ok_and(|text| text.contains("\"record_size\""))
}

/// Whether a folder may be what this command wrote before.
fn is_table_folder(path: &std::path::Path) -> bool {
    path.join(parquet::ARRAYS).is_file() && path.join(parquet::SOURCES).is_file()
}

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let (input, output) = (args.required("store")?, args.required("output")?);
    let options = OpenOptions { target: args.text("target").map(str::to_owned), ..OpenOptions::default() };
    let store = Arc::new(Store::open(input, &options)?);
    if let Some((array, why)) = store.broken().first() {
        return Err(Error::Store { path: input.to_owned(), what: format!("array \"{array}\": {why}") });
    }
    let mut arrays = Vec::new();
    for name in args.list("array") {
        let number =
            store.find(name).ok_or_else(|| Error::Invalid(format!("{input}: there is no array \"{name}\"")))?;
        if !arrays.contains(&number) {
            arrays.push(number);
        }
    }
    if arrays.is_empty() {
        for (number, desc) in store.arrays().iter().enumerate() {
            if desc.shape.is_some() {
                arrays.push(number);
            } else {
                (ctx.warn)(&format!("array \"{}\" is left out: it has no plan", desc.name));
            }
        }
    }
    let reader = Reader::new(Arc::clone(&store), Arc::clone(&ctx.opener), ReadOptions::default())?;
    let export = Export { reader: &reader, arrays, leave_out_absent: args.flag("leave-out-absent") };
    let overwrite = args.flag("overwrite");
    let mut count = 0;
    let mut step = |n| {
        count = n;
        ctx.report(0.5, "")
    };
    if args.text("format") == Some("kerchunk-parquet") {
        let size = args.integer("record-size").unwrap_or(10_000);
        let size =
            u64::try_from(size).ok().filter(|n| (1..=kerchunk_parquet::MOST_RECORD).contains(n)).ok_or_else(|| {
                Error::Invalid(format!("--record-size {size}: it is from 1 to {}", kerchunk_parquet::MOST_RECORD))
            })?;
        let folder = OutputFolder::create(output, overwrite, is_reference_folder)?;
        kerchunk_parquet::write(&export, folder.partial(), size, &mut step)?;
        folder.commit()?;
    } else if args.text("format") == Some("parquet") {
        let folder = OutputFolder::create(output, overwrite, is_table_folder)?;
        parquet::write(&export, folder.partial(), &mut step)?;
        folder.commit()?;
    } else {
        let file = OutputFile::create(output, overwrite, is_references)?;
        let failed = |e: std::io::Error| Error::Io { path: output.to_owned(), what: e.to_string() };
        let new = std::fs::File::create(file.partial()).map_err(failed)?;
        let mut out = std::io::BufWriter::with_capacity(1 << 20, new);
        kerchunk_json::write(&export, output, &mut out, &mut step)?;
        out.flush().map_err(failed)?;
        file.commit()?;
    }
    ctx.report(1.0, "")?;
    Ok(format!("{count} chunks\n{output}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Folder, run, small_store};
    use serde_json::{Value, json};

    #[test]
    fn kerchunk_json() {
        let folder = Folder::new("export");
        let (path, out) = (folder.file("s.sqlite"), folder.file("refs.json"));
        small_store(&path, "/data");
        let (store, output) = (format!("store={path}"), format!("output={out}"));
        run(&COMMAND, &[&store, &output, "format=kerchunk-json"]).unwrap();
        let json: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
        assert_eq!(json["version"], 1);
        let refs = json["refs"].as_object().unwrap();
        let zarray: Value = serde_json::from_str(refs["v/.zarray"].as_str().unwrap()).unwrap();
        assert_eq!(
            zarray,
            json!({
                "zarr_format": 2, "shape": [4, 4], "chunks": [1, 2], "dtype": "<i2", "compressor": null,
                "filters": null, "fill_value": null, "order": "C"
            })
        );
        assert_eq!(refs["v/1.1"], json!(["/data/a.bin", 12, 4]));
        assert_eq!(refs["v/2.0"], json!(["/data/b.bin", 0, 4]));
        assert_eq!(refs["v/3.0"], "base64:BwAIAA==");
        // Two elements of -1.
        assert_eq!(refs["v/3.1"], "base64://///w==");
        assert_eq!(refs.len(), 2 + 2 + 8);
        let again = run(&COMMAND, &[&store, &output, "format=kerchunk-json"]);
        assert!(again.unwrap_err().to_string().contains("--overwrite"));
        run(&COMMAND, &[&store, &output, "format=kerchunk-json", "overwrite", "leave-out-absent"]).unwrap();
        let json: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
        assert!(json["refs"].get("v/3.1").is_none());
        assert!(json["refs"]["v/.zarray"].as_str().unwrap().contains("\"fill_value\":-1"));
        std::fs::write(&out, "text that is no JSON, and long enough").unwrap();
        assert!(run(&COMMAND, &[&store, &output, "format=kerchunk-json", "overwrite"]).is_err());
        assert!(run(&COMMAND, &[&store, &output, "format=kerchunk-json", "array=w", "overwrite"]).is_err());
    }

    #[test]
    fn kerchunk_parquet() {
        let folder = Folder::new("export");
        let (path, out) = (folder.file("s.sqlite"), folder.file("refs.parq"));
        small_store(&path, "/data");
        let arguments = [format!("store={path}"), format!("output={out}")];
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["format=kerchunk-parquet", "record-size=3"]);
        run(&COMMAND, &arguments).unwrap();
        let files = |name: &str| std::fs::read_dir(folder.0.join(name)).unwrap().count();
        assert_eq!((files("refs.parq"), files("refs.parq/v")), (2, 3));
        let text = std::fs::read_to_string(folder.0.join("refs.parq/.zmetadata")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["record_size"], 3);
        assert!(run(&COMMAND, &arguments).unwrap_err().to_string().contains("--overwrite"));
        arguments.push("overwrite");
        run(&COMMAND, &arguments).unwrap();
        assert_eq!(files(""), 2);
        arguments.push("record-size=0");
        assert!(run(&COMMAND, &arguments).unwrap_err().to_string().contains("record-size"));
    }
}
