//! One module for each command, and what a command is: a name, an argument table, a function. Front ends (the plugin's
//! GDAL algorithms) are made from [`COMMANDS`] alone.

pub mod check;
pub mod export;
pub mod get_refs;
pub mod import;
pub mod inputs;
pub mod merge;
pub mod output;
mod parts;
pub mod physical;
pub mod plan;
pub mod publish;
pub mod remap;
pub mod sql;
#[cfg(test)]
mod testing;

use crate::io::Opener;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// One text.
    Text,
    /// One or more texts.
    TextList,
    /// Present or not.
    Flag,
    /// A whole number.
    Integer,
    /// One of these texts.
    Choice(&'static [&'static str]),
}

/// One argument of a command.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Long name without the dashes.
    pub name: &'static str,
    /// One-letter name.
    pub short: Option<char>,
    /// Type.
    pub kind: ArgKind,
    /// Whether it may be given by position, in the order of the table.
    pub positional: bool,
    /// Whether it must be given.
    pub required: bool,
    /// What `--help` shows in place of the value.
    pub meta: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Value if it is not given, as it would be typed.
    pub default: Option<&'static str>,
}

impl ArgSpec {
    /// An argument given by its name, not required.
    pub const fn option(name: &'static str, kind: ArgKind, meta: &'static str, help: &'static str) -> ArgSpec {
        ArgSpec { name, short: None, kind, positional: false, required: false, meta, help, default: None }
    }

    /// An argument given by position, required.
    pub const fn positional(name: &'static str, kind: ArgKind, meta: &'static str, help: &'static str) -> ArgSpec {
        ArgSpec { positional: true, required: true, ..ArgSpec::option(name, kind, meta, help) }
    }

    /// A flag.
    pub const fn flag(name: &'static str, help: &'static str) -> ArgSpec {
        ArgSpec::option(name, ArgKind::Flag, "", help)
    }

    /// The same with a default.
    pub const fn or(self, default: &'static str) -> ArgSpec {
        ArgSpec { default: Some(default), ..self }
    }

    /// The same, required.
    pub const fn must(self) -> ArgSpec {
        ArgSpec { required: true, ..self }
    }
}

/// A value given for an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgValue {
    /// Of [`ArgKind::Text`] and [`ArgKind::Choice`].
    Text(String),
    /// Of [`ArgKind::TextList`].
    List(Vec<String>),
    /// Of [`ArgKind::Flag`].
    Flag(bool),
    /// Of [`ArgKind::Integer`].
    Integer(i64),
}

/// The arguments given, by name; defaults are filled in by the front end.
#[derive(Clone, Debug, Default)]
pub struct Args(pub BTreeMap<String, ArgValue>);

impl Args {
    /// A text, if given.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(ArgValue::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming it.
    pub fn required(&self, name: &str) -> Result<&str> {
        self.text(name).ok_or_else(|| Error::Invalid(format!("argument \"{name}\" is missing")))
    }

    /// A list, empty if not given.
    pub fn list(&self, name: &str) -> &[String] {
        match self.0.get(name) {
            Some(ArgValue::List(l)) => l,
            _ => &[],
        }
    }

    /// A flag, false if not given.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(ArgValue::Flag(true)))
    }

    /// A whole number, if given.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(ArgValue::Integer(i)) => Some(*i),
            _ => None,
        }
    }
}

/// What a running command may use of its surroundings.
pub struct Context<'a> {
    /// Opens sources and VRTs.
    pub opener: Arc<dyn Opener>,
    /// Called with the share done (0 to 1) and a message; false means stop. Only on the calling thread.
    pub progress: &'a mut dyn FnMut(f64, &str) -> bool,
    /// Takes a warning. Only on the calling thread.
    pub warn: &'a mut dyn FnMut(&str),
}

impl Context<'_> {
    /// Reports progress.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the user wants to stop.
    pub fn report(&mut self, share: f64, message: &str) -> Result<()> {
        if (self.progress)(share, message) { Ok(()) } else { Err(Error::Cancelled) }
    }
}

/// A number of bytes: `64MB`, `1GB`, or a bare number.
pub fn parse_size(text: &str) -> Option<u64> {
    let upper = text.trim().to_ascii_uppercase();
    let (digits, unit) = upper.split_at(upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len()));
    let scale: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// A command.
pub struct Command {
    /// Name under `gdal driver mdimrefs`.
    pub name: &'static str,
    /// Whether it is also under `gdal mdim`.
    pub in_mdim: bool,
    /// One line of help.
    pub help: &'static str,
    /// Arguments, positional ones in order.
    pub args: &'static [ArgSpec],
    /// Runs it. The text returned is what the command prints.
    pub run: fn(&Args, &mut Context<'_>) -> Result<String>,
}

/// All commands.
pub static COMMANDS: &[&Command] = &[
    &get_refs::COMMAND,
    &check::COMMAND,
    &export::COMMAND,
    &import::COMMAND,
    &merge::COMMAND,
    &plan::COMMAND,
    &publish::COMMAND,
    &remap::COMMAND,
    &sql::COMMAND,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64MB"), Some(64 << 20));
        assert_eq!(parse_size("1 gb"), Some(1 << 30));
        assert_eq!(parse_size("100"), Some(100));
        assert_eq!(parse_size("x"), None);
    }
}
