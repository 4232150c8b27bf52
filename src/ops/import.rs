//! `import`: other forms of references as a store.

use super::inputs::{read_text, source_name};
use super::output::OutputFile;
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::import::{Collection, earlier, kerchunk_json, kerchunk_parquet, write};
use crate::io::Opener;
use crate::store::{self, EarlierKind, EarlierStore, Writer};
use crate::{Error, Result};
use std::sync::Arc;

/// The command.
pub static COMMAND: Command = Command {
    name: "import",
    in_mdim: false,
    help: "Make a store of references in another form: kerchunk's, or a store of an earlier format.",
    args: &[
        ArgSpec::positional(
            "input",
            ArgKind::Text,
            "INPUT",
            "References: a file of JSON, a folder of Parquet files, or a store of mdim-refs/0.1 or raad.virtualize",
        ),
        ArgSpec::positional("output", ArgKind::Text, "STORE", "Store to write"),
        ArgSpec::option(
            "array",
            ArgKind::TextList,
            "NAME[=NEW]",
            "Take only this array; may be repeated (default: all)",
        ),
        ArgSpec::option(
            "vrt",
            ArgKind::Text,
            "VRT",
            "Mosaic VRT that says where the files of a raad.virtualize store lie",
        ),
        ArgSpec::flag("overwrite", "Replace an existing store"),
    ],
    run,
};

/// Keeps the arrays of `--array`, under the names that it gives.
fn select(all: &mut Collection, path: &str, wanted: &[String]) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::new();
    for item in wanted {
        let (old, new) = item.split_once('=').unwrap_or((item, item));
        let old = old.strip_prefix('/').unwrap_or(old);
        let at = all.arrays.iter().position(|a| a.desc.name == old).ok_or_else(|| {
            let what = format!("--array {old}: there is no such array in {path}, or it is there twice");
            Error::Invalid(what)
        })?;
        let mut array = all.arrays.swap_remove(at);
        array.desc.name = new.strip_prefix('/').unwrap_or(new).to_owned();
        kept.push(array);
    }
    all.arrays = kept;
    Ok(())
}

fn is_sqlite(opener: &dyn Opener, path: &str) -> Result<bool> {
    let reader = opener.open(path)?;
    let mut head = [0; 16];
    let length = reader.size()?.min(16) as usize;
    reader.read_at(0, &mut head[..length])?;
    Ok(&head == b"SQLite format 3\0")
}

fn read_earlier(
    opener: &Arc<dyn Opener>,
    path: &str,
    vrt: Option<&str>,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Collection> {
    let bad = |what: &str| Error::Store { path: path.to_owned(), what: what.to_owned() };
    if path.starts_with("/vsi") || path.contains("://") {
        return Err(bad("a store to import is a local file; copy it first"));
    }
    let store = EarlierStore::open(path)?.ok_or_else(|| {
        bad("is neither an mdim-refs/0.1 store nor one of raad.virtualize; one of mdim-refs/0.2 needs no import")
    })?;
    match (store.kind(), vrt) {
        (EarlierKind::Global, None) => earlier::read_global(&store, path, step),
        (EarlierKind::Global, Some(_)) => {
            Err(bad("a store of mdim-refs/0.1 says where its files lie: leave --vrt out"))
        }
        (EarlierKind::Within, None) => {
            Err(bad("a raad.virtualize store does not say where its files lie: give the mosaic VRT with --vrt"))
        }
        (EarlierKind::Within, Some(vrt)) => {
            let mosaic = crate::vrt::parse(vrt, &read_text(opener.as_ref(), vrt)?)?;
            earlier::read_within(&store, path, opener, &mosaic, step)
        }
    }
}

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let input = source_name(args.required("input")?)?;
    let output = args.required("output")?;
    let opener = std::sync::Arc::clone(&ctx.opener);
    let mut step = |_: u64| ctx.report(0.1, "");
    let is_folder =
        opener.is_folder(&input) || opener.open(&format!("{}/.zmetadata", input.trim_end_matches('/'))).is_ok();
    let mut all = if !is_folder && is_sqlite(opener.as_ref(), &input)? {
        let vrt = args.text("vrt").map(source_name).transpose()?;
        read_earlier(&opener, &input, vrt.as_deref(), &mut step)?
    } else if is_folder {
        kerchunk_parquet::read(opener.as_ref(), &input, &mut step)?
    } else {
        kerchunk_json::read(opener.as_ref(), &input, &mut step)?
    };
    select(&mut all, &input, args.list("array"))?;
    write::check_not_empty(&input, &all)?;
    let file = OutputFile::create(output, args.flag("overwrite"), store::is_store_file)?;
    let mut writer = Writer::in_file(file.partial(), output)?;
    let written = write::write(&mut writer, &mut all, &input, &mut |share| ctx.report(0.5 + share / 2.0, ""))?;
    writer.finish()?;
    file.commit()?;
    ctx.report(1.0, "")?;
    for lost in &all.lost {
        (ctx.warn)(&format!("not carried: {lost}"));
    }
    let inline = match written.inline {
        0 => String::new(),
        n => format!(", {n} carried in the store"),
    };
    Ok(format!("{} arrays, {} chunks{inline}\n{output}\n", written.arrays, written.ranges))
}
