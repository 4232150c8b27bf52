//! Other forms of references as a store, one file for each form.
//!
//! Each form's reader gives a [`Collection`]: arrays, and for each its references by their place in the whole.
//! [`write`](write::write) makes a store of it: sources, their chunks, and where each lies. What a form says that a store
//! does not hold is listed in [`Collection::lost`], never left out quietly.

pub mod earlier;
pub mod kerchunk_json;
pub mod kerchunk_parquet;
mod references;
mod template;
pub mod write;
mod zarr2;

pub use references::{Reference, References};

use crate::model::{ArrayDesc, Attributes, DimInfo};
use crate::scan::zarr::metadata::Meta;
use crate::store::RemapRule;
use std::collections::HashMap;

/// An array and its references.
#[derive(Debug)]
pub struct Imported {
    /// What it is. `shape` is known.
    pub desc: ArrayDesc,
    /// GDAL's block-info text of its chunks; empty for none.
    pub info: String,
    /// Its chunks.
    pub references: References,
}

/// What was read of a form.
#[derive(Debug, Default)]
pub struct Collection {
    /// Arrays.
    pub arrays: Vec<Imported>,
    /// Attributes of the root group.
    pub attributes: Attributes,
    /// Attributes of the other groups.
    pub groups: Vec<(String, Attributes)>,
    /// Names of the sources.
    pub sources: Sources,
    /// What is known of dimensions, by full name.
    pub dimensions: Vec<(String, DimInfo)>,
    /// Remap rules.
    pub remap: Vec<RemapRule>,
    /// What is not carried, in words.
    pub lost: Vec<String>,
}

/// Sources by number.
#[derive(Debug, Default)]
pub struct Sources {
    /// Names, as they go into the store.
    pub names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The last one asked for: neighbours are often alike.
    last: Option<(String, u32)>,
}

impl Sources {
    /// The number of a source as it is written; `name` makes the name of one that is new.
    ///
    /// # Errors
    /// What `name` gives.
    pub fn number(&mut self, written: &str, name: impl FnOnce() -> Result<String, String>) -> Result<u32, String> {
        if let Some((last, number)) = &self.last
            && last == written
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(written) {
            Some(number) => *number,
            None => {
                // Two ways to write one name are one source.
                let name = name()?;
                let number = match self.numbers.get(&name) {
                    Some(known) => *known,
                    None => {
                        let new = u32::try_from(self.names.len()).ok().filter(|n| *n < references::MOST_SOURCES);
                        let new = new.ok_or("there are too many sources")?;
                        self.numbers.insert(name.clone(), new);
                        self.names.push(name);
                        new
                    }
                };
                self.numbers.insert(written.to_owned(), number);
                number
            }
        };
        self.last = Some((written.to_owned(), number));
        Ok(number)
    }
}

/// The name of a source for a URL or path as other software writes it. A relative path is looked for in `folder`, where
/// the references are.
///
/// # Errors
/// What can't be a source.
fn source_name(written: &str, folder: &str) -> Result<String, String> {
    if written.is_empty() || written.contains('\0') {
        return Err("a path is empty".into());
    }
    if written.contains("::") && written.contains("://") {
        return Err(format!("{written}: only fsspec opens chained URLs"));
    }
    if let Some(local) = written.strip_prefix("file://").or_else(|| written.strip_prefix("local://")) {
        return Ok(format!("/{}", local.trim_start_matches('/')));
    }
    if written.starts_with('/') || written.contains("://") {
        return Ok(written.to_owned());
    }
    Ok(format!("{folder}/{}", written.strip_prefix("./").unwrap_or(written)))
}

/// An array of Zarr's metadata as a store's, with what its chunks' names need.
#[derive(Debug)]
struct ZarrArray {
    desc: ArrayDesc,
    info: String,
    meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources() {
        let of = |written: &str| source_name(written, "/refs").unwrap();
        assert_eq!(of("file:///data/a.nc"), "/data/a.nc");
        assert_eq!(of("s3://bucket/a.nc"), "s3://bucket/a.nc");
        assert_eq!(of("/data/a.nc"), "/data/a.nc");
        assert_eq!(of("./day/a.nc"), "/refs/day/a.nc");
        assert!(source_name("zip://a.nc::s3://bucket/a.zip", "/refs").is_err());
        let mut sources = Sources::default();
        let mut number = |written: &str| sources.number(written, || source_name(written, "/refs")).unwrap();
        assert_eq!([number("a"), number("b"), number("a"), number("file:///refs/b")], [0, 1, 0, 1]);
    }
}
