//! Names to open: `MDIMREFS:store.sqlite`, `MDIMREFS:"path":/array:29:0`; see `select.rs` for what follows the path.

use crate::{Error, Result};

const PREFIX: &str = "MDIMREFS:";

/// Path of the store, and what follows it (`/array…`, or nothing). `exists` says whether a path is a file: without
/// quotes, a colon may be of the path.
///
/// # Errors
/// [`Error::Invalid`] if a quote is not closed, or something else than an array follows.
pub fn split(name: &str, exists: &dyn Fn(&str) -> bool) -> Result<(String, String)> {
    let body = match name.get(..PREFIX.len()) {
        Some(p) if p.eq_ignore_ascii_case(PREFIX) => &name[PREFIX.len()..],
        _ => name,
    };
    if let Some(quoted) = body.strip_prefix('"') {
        let mut path = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if quoted[at + 1..].starts_with(['"', '\\']) => {
                    path.extend(chars.next().map(|(_, c)| c));
                }
                '"' => {
                    let rest = &quoted[at + 1..];
                    return match rest.strip_prefix(':') {
                        None if rest.is_empty() => Ok((path, String::new())),
                        Some(array) => Ok((path, array.to_owned())),
                        None => Err(Error::Invalid(format!("{name}: after the quoted path comes `:/array`"))),
                    };
                }
                c => path.push(c),
            }
        }
        return Err(Error::Invalid(format!("{name}: the quote of the path is not closed")));
    }
    if body.is_empty() {
        return Err(Error::Invalid(format!("{name}: the path of the store is missing")));
    }
    // `://` is of an address.
    let splits = body.match_indices(":/").map(|(at, _)| at).filter(|at| !body[at + 1..].starts_with("//"));
    let mut splits: Vec<usize> = splits.collect();
    splits.reverse();
    if splits.is_empty() || exists(body) {
        return Ok((body.to_owned(), String::new()));
    }
    match splits.into_iter().find(|at| exists(&body[..*at])) {
        Some(at) => Ok((body[..at].to_owned(), body[at + 1..].to_owned())),
        None => Ok((body.to_owned(), String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting() {
        let remote = "/vsicurl/http://h:80/s.sqlite";
        let files = ["a.sqlite", "/x y/s.sqlite", "p:with:colons.refs", "a:/b/c", remote];
        let exists = |p: &str| files.contains(&p);
        let of = |name: &str| split(name, &exists).map_err(|e| e.to_string());
        let ok = |path: &str, rest: &str| Ok((path.to_owned(), rest.to_owned()));
        assert_eq!(of("MDIMREFS:a.sqlite"), ok("a.sqlite", ""));
        assert_eq!(of("mdimrefs:a.sqlite:/sst:29:0"), ok("a.sqlite", "/sst:29:0"));
        assert_eq!(of("MDIMREFS:\"/x y/s.sqlite\":/grp/sst"), ok("/x y/s.sqlite", "/grp/sst"));
        assert_eq!(of("MDIMREFS:\"a.sqlite\""), ok("a.sqlite", ""));
        assert_eq!(of("MDIMREFS:p:with:colons.refs:/grp/var"), ok("p:with:colons.refs", "/grp/var"));
        assert_eq!(of("MDIMREFS:a:/b/c"), ok("a:/b/c", ""));
        assert_eq!(of("MDIMREFS:\"a\\\"b\":/VAR:NAME"), ok("a\"b", "/VAR:NAME"));
        assert_eq!(of("MDIMREFS:nowhere:/x"), ok("nowhere:/x", ""));
        assert_eq!(of(&format!("MDIMREFS:{remote}")), ok(remote, ""));
        assert_eq!(of(&format!("MDIMREFS:{remote}:/sst:0")), ok(remote, "/sst:0"));
        // Nothing to split: nobody is asked.
        let asked = |_: &str| panic!("asked");
        assert!(split(&format!("MDIMREFS:{remote}"), &asked).is_ok());
        assert!(of("MDIMREFS:\"a").is_err());
        assert!(of("MDIMREFS:\"a\"b").is_err());
        assert!(of("MDIMREFS:").is_err());
    }
}
