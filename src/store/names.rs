//! Names in SQL.

use crate::{Error, Result};

/// A name as an SQL identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as an SQL literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Name of the view (or table) of an array's chunks in the whole.
pub fn view_name(array: &str) -> String {
    format!("refs_{array}")
}

/// Whether an array can have this name beside arrays with the names `others`.
///
/// # Errors
/// [`Error::Store`] for a reserved name, or one that differs from another only by case; it says the way out.
pub fn check_name<'a>(store: &str, name: &str, others: impl Iterator<Item = &'a str>) -> Result<()> {
    let lower = name.to_ascii_lowercase();
    let way_out = format!("give it another name with --array \"{name}=NEW\"");
    let bad = |what: String| Err(Error::Store { path: store.to_owned(), what });
    if name.is_empty() || name.contains('\0') {
        return bad(format!("an array can't be called {name:?}"));
    }
    if matches!(lower.as_str(), "meta" | "sources" | "arrays" | "placements" | "remap")
        || lower.starts_with("refs_")
        || lower.starts_with("sqlite_")
    {
        return bad(format!("the name of array \"{name}\" is reserved in a store: {way_out}"));
    }
    for other in others {
        if other != name && other.eq_ignore_ascii_case(name) {
            return bad(format!(
                "the names of arrays \"{name}\" and \"{other}\" differ only by case, which SQLite does not see: {way_out}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(quote("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
        for name in ["Meta", "REFS_x", "sqlite_y", "placements", ""] {
            assert!(check_name("s", name, [].into_iter()).is_err(), "{name}");
        }
        assert!(check_name("s", "SST", ["sst"].into_iter()).unwrap_err().to_string().contains("--array"));
        check_name("s", "É", ["é"].into_iter()).unwrap();
        check_name("s", "grp/sst", ["sst"].into_iter()).unwrap();
    }
}
