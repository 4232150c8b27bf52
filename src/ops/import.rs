//! `import`: other forms of references as a store.

use super::output::OutputFile;
use super::{ArgKind, ArgSpec, Args, Command, Context, inputs::source_name};
use crate::import::{Collection, kerchunk_json, kerchunk_parquet, write};
use crate::store::{self, Writer};
use crate::{Error, Result};

/// The command.
pub static COMMAND: Command = Command {
    name: "import",
    in_mdim: false,
    help: "Make a store of references in another form: kerchunk's, in JSON or Parquet.",
    args: &[
        ArgSpec::positional(
            "input",
            ArgKind::Text,
            "INPUT",
            "References: a file of JSON, or a folder of Parquet files",
        ),
        ArgSpec::positional("output", ArgKind::Text, "STORE", "Store to write"),
        ArgSpec::option(
            "array",
            ArgKind::TextList,
            "NAME[=NEW]",
            "Take only this array; may be repeated (default: all)",
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

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let input = source_name(args.required("input")?)?;
    let output = args.required("output")?;
    let opener = std::sync::Arc::clone(&ctx.opener);
    let mut step = |_: u64| ctx.report(0.1, "");
    let is_folder =
        opener.is_folder(&input) || opener.open(&format!("{}/.zmetadata", input.trim_end_matches('/'))).is_ok();
    let mut all = if is_folder {
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
