//! Commands for GDAL's algorithms: their tables as JSON, and running one.

use super::block_info;
use super::vsi_reader::VsiOpener;
use crate::ops::{ArgKind, ArgValue, Args, COMMANDS, Context};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::sync::Arc;

/// `{"commands": [{"name", "help", "in_mdim", "arguments": [{"name", "short", "kind", "choices", …}]}]}`.
pub fn table() -> String {
    let commands: Vec<Value> = COMMANDS
        .iter()
        .map(|command| {
            let arguments: Vec<Value> = command
                .args
                .iter()
                .map(|a| {
                    let (kind, choices) = match a.kind {
                        ArgKind::Text => ("text", &[][..]),
                        ArgKind::TextList => ("list", &[][..]),
                        ArgKind::Flag => ("flag", &[][..]),
                        ArgKind::Integer => ("integer", &[][..]),
                        ArgKind::Choice(choices) => ("text", choices),
                    };
                    json!({
                        "name": a.name, "short": a.short.map(String::from).unwrap_or_default(), "kind": kind,
                        "choices": choices, "positional": a.positional, "required": a.required, "meta": a.meta,
                        "help": a.help, "default": a.default.unwrap_or_default(),
                    })
                })
                .collect();
            json!({"name": command.name, "help": command.help, "in_mdim": command.in_mdim, "arguments": arguments})
        })
        .collect();
    json!({"commands": commands}).to_string()
}

/// Runs a command with arguments as a JSON object.
///
/// # Errors
/// [`Error::Invalid`] for an unknown command or argument; the command's own.
pub fn run(
    name: &str,
    arguments: &str,
    progress: &mut dyn FnMut(f64, &str) -> bool,
    warn: &mut dyn FnMut(&str),
) -> Result<String> {
    let command = COMMANDS.iter().find(|c| c.name == name);
    let command = command.ok_or_else(|| Error::Invalid(format!("there is no command \"{name}\"")))?;
    let bad = |key: &str| Error::Invalid(format!("argument \"{key}\" is wrong"));
    let given: Value = serde_json::from_str(arguments).map_err(|_| bad(arguments))?;
    let mut args = Args::default();
    for (key, value) in given.as_object().into_iter().flatten() {
        let spec = command.args.iter().find(|a| a.name == key).ok_or_else(|| bad(key))?;
        let value = match (spec.kind, value) {
            (ArgKind::Text | ArgKind::Choice(_), Value::String(text)) => ArgValue::Text(text.clone()),
            (ArgKind::TextList, Value::Array(list)) => ArgValue::List(
                list.iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(|| bad(key))).collect::<Result<_>>()?,
            ),
            (ArgKind::Flag, Value::Bool(flag)) => ArgValue::Flag(*flag),
            (ArgKind::Integer, Value::Number(n)) => ArgValue::Integer(n.as_i64().ok_or_else(|| bad(key))?),
            _ => return Err(bad(key)),
        };
        args.0.insert(key.clone(), value);
    }
    let opener = VsiOpener::default();
    let _call = opener.config.enter();
    let mut context = Context { opener: Arc::new(opener), progress, warn };
    if let Some(of) = block_info::asked(&args) {
        return block_info::write(of, &args, &mut context);
    }
    (command.run)(&args, &mut context)
}
