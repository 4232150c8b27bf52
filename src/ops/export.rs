//! `export`: the references in other forms.

use super::output::OutputFile;
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::export::{Export, kerchunk_json};
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
            ArgKind::Choice(&["kerchunk-json"]),
            "kerchunk-json",
            "Form: kerchunk's references (version 1) in one JSON file, for fsspec, zarr, xarray and GDAL's Zarr driver",
        )
        .must(),
        ArgSpec::option("target", ArgKind::Text, "T", "Rewrite paths by the rules of this target (see remap)"),
        ArgSpec::option("array", ArgKind::TextList, "NAME", "Take only this array; may be repeated (default: all)"),
        ArgSpec::flag(
            "leave-out-absent",
            "Leave absent chunks out, to be read as fill_value, also where readers then take them for missing values",
        ),
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
    let file = OutputFile::create(output, args.flag("overwrite"), is_references)?;
    let failed = |e: std::io::Error| Error::Io { path: output.to_owned(), what: e.to_string() };
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(file.partial()).map_err(failed)?);
    let mut count = 0;
    kerchunk_json::write(&export, output, &mut out, &mut |n| {
        count = n;
        ctx.report(0.5, "")
    })?;
    out.flush().map_err(failed)?;
    file.commit()?;
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
}
