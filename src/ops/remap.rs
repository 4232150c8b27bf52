//! `remap`: rules that say where others find the sources.

use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::store::{OpenOptions, RemapRule, Store, Writer};
use crate::{Error, Result};

/// The command.
pub static COMMAND: Command = Command {
    name: "remap",
    in_mdim: false,
    help: "List, add or remove the rules by which the sources' paths are rewritten for a target.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store to list or change"),
        ArgSpec::option("target", ArgKind::Text, "T", "Target, such as \"public\""),
        ArgSpec::option("prefix", ArgKind::Text, "P", "Beginning of a path; \"\" for every path. The longest wins"),
        ArgSpec::option("replacement", ArgKind::Text, "R", "What takes its place; `./` means the store's folder"),
        ArgSpec::flag("remove", "Remove the rule of this target and prefix; without --prefix, all of the target"),
        ArgSpec::flag("list", "List the rules, of one target or all"),
    ],
    run,
};

fn list(rules: &[RemapRule], target: Option<&str>) -> String {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let lines: Vec<String> = rules
        .iter()
        .filter(|r| target.is_none_or(|t| r.target == t))
        .map(|r| format!("{}: {} -> {}\n", r.target, text(&r.prefix), text(&r.replacement)))
        .collect();
    if lines.is_empty() { "no remap rules\n".to_owned() } else { lines.concat() }
}

fn run(args: &Args, _ctx: &mut Context<'_>) -> Result<String> {
    let path = args.required("store")?;
    let (target, prefix, replacement) = (args.text("target"), args.text("prefix"), args.text("replacement"));
    let remove = args.flag("remove");
    if args.flag("list") || (target.is_none() && prefix.is_none() && replacement.is_none() && !remove) {
        if remove || prefix.is_some() || replacement.is_some() {
            return Err(Error::Invalid("--list goes with --target alone".into()));
        }
        let store = Store::open(path, &OpenOptions::default())?;
        return Ok(list(&store.remap_rules()?, target));
    }
    let target = target
        .filter(|t| !t.is_empty())
        .ok_or_else(|| Error::Invalid("--target is missing: it names for whom the rule is".into()))?;
    if remove && replacement.is_some() {
        return Err(Error::Invalid("--remove and --replacement exclude each other".into()));
    }
    let mut store = Writer::open(path)?;
    store.begin()?;
    if remove {
        if store.remove_remap(target, prefix)? == 0 {
            let what = prefix.map_or(String::new(), |p| format!(" with the prefix \"{p}\""));
            return Err(Error::Invalid(format!("{path}: target \"{target}\" has no rule{what}")));
        }
    } else {
        let (Some(prefix), Some(replacement)) = (prefix, replacement) else {
            return Err(Error::Invalid(
                "a rule is --target T --prefix P --replacement R; --remove removes one, --list lists them".into(),
            ));
        };
        store.put_remap(&RemapRule {
            target: target.to_owned(),
            prefix: prefix.to_owned(),
            replacement: replacement.to_owned(),
        })?;
    }
    let rules = store.remap_rules()?;
    store.commit()?;
    store.finish()?;
    Ok(list(&rules, Some(target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Folder, run, small_store};

    #[test]
    fn rules_are_added_listed_and_removed() {
        let folder = Folder::new("remap");
        let path = folder.file("s.sqlite");
        small_store(&path, "/data");
        let store = format!("store={path}");
        assert_eq!(run(&COMMAND, &[&store]).unwrap(), "no remap rules\n");
        let rule = [&store, "target=public", "prefix=/data/", "replacement=/vsicurl/https://e.org/"];
        let public = "public: \"/data/\" -> \"/vsicurl/https://e.org/\"\n";
        assert_eq!(run(&COMMAND, &rule).unwrap(), public);
        assert_eq!(run(&COMMAND, &rule).unwrap(), public);
        run(&COMMAND, &[&store, "target=here", "prefix=", "replacement=./"]).unwrap();
        assert_eq!(run(&COMMAND, &[&store, "list"]).unwrap(), format!("here: \"\" -> \"./\"\n{public}"));
        assert_eq!(run(&COMMAND, &[&store, "target=here", "remove"]).unwrap(), "no remap rules\n");
        assert!(run(&COMMAND, &[&store, "target=here", "remove"]).is_err());
        assert!(run(&COMMAND, &[&store, "target=here", "prefix=/x"]).is_err());
        assert!(run(&COMMAND, &[&store, "prefix=/x", "replacement=/y"]).is_err());
        assert_eq!(run(&COMMAND, &[&store]).unwrap(), public);
    }
}
