//! Arrays that a source has by links to other files (HDF5's external links): listed under the link's name, with the
//! other file as the place of their chunks.

use super::{Location, Opened, Part, Refused, SourceArray, SourceChunk, SourceIndex};
use crate::io::{Opener, Stat};
use crate::model::Attributes;
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A link to an array or a group of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalLink {
    /// Full name of the link, without the leading `/`.
    pub name: String,
    /// The file as the link names it: a full path, or one within the folder of the file that has the link.
    pub file: String,
    /// Full name of the object in that file.
    pub object: String,
}

/// Other files of one source: each stays open while the source is scanned.
const MAX_FILES: usize = 64;
/// Links of one source.
const MAX_LINKS: usize = 10_000;

/// An array of another file.
struct Far {
    /// Numbers of the file, and of the array in it.
    file: usize,
    array: usize,
    part: Arc<Part>,
}

/// A source with its links followed. Arrays of its own come first.
struct Linked {
    own: Box<dyn SourceIndex>,
    files: Vec<Box<dyn SourceIndex>>,
    arrays: Vec<SourceArray>,
    far: Vec<Far>,
    refused: Vec<Refused>,
}

/// Follows the links of the source at `path`, but not those of the files they lead to. An array behind a link that leads
/// nowhere is a refused one.
pub(super) fn follow(mut own: Box<dyn SourceIndex>, opener: &Arc<dyn Opener>, path: &str) -> Box<dyn SourceIndex> {
    if own.links().is_empty() {
        return own;
    }
    let refused = own.take_refused();
    let mut all = Linked { files: Vec::new(), arrays: own.arrays().to_vec(), far: Vec::new(), refused, own };
    let mut known: HashMap<String, std::result::Result<(usize, Stat), String>> = HashMap::new();
    for (number, link) in all.own.links().to_vec().into_iter().enumerate() {
        let failed = |what: String| Refused {
            name: link.name.clone(),
            why: Error::Unsupported {
                path: path.to_owned(),
                array: link.name.clone(),
                what: format!("it is a link to \"{}\" in the file \"{}\", {what}", link.object, link.file),
            },
        };
        let file = match resolve(opener, path, &link.file) {
            Ok(file) => file,
            Err(what) => {
                all.refused.push(failed(what));
                continue;
            }
        };
        if number >= MAX_LINKS || all.files.len() >= MAX_FILES && !known.contains_key(&file) {
            let what = format!("and more than {MAX_LINKS} links or {MAX_FILES} files are not followed");
            all.refused.push(failed(format!("{what}: name that file as a source")));
            continue;
        }
        let found = known.entry(file.clone()).or_insert_with(|| match super::open_one(opener, &file) {
            Ok(Opened { stat, index, .. }) => {
                all.files.push(index);
                Ok((all.files.len() - 1, stat))
            }
            Err(e) => Err(e.to_string()),
        });
        match found.clone() {
            Ok((far, stat)) => all.add(far, &stat, &file, &link, &failed),
            Err(why) => all.refused.push(failed(format!("which can't be read: {why}"))),
        }
    }
    Box::new(all)
}

/// The path of the file that a link in the file `of` names.
fn resolve(opener: &Arc<dyn Opener>, of: &str, file: &str) -> std::result::Result<String, String> {
    if file.is_empty() || file.starts_with("/vsi") || file.contains("://") {
        return Err("which is no file beside it: name that file as a source".into());
    }
    if file.starts_with('/') {
        // A file from elsewhere does not say what is read on this machine.
        return if opener.is_local(of) {
            Ok(file.to_owned())
        } else {
            Err("which is a path on another machine: name that file as a source".into())
        };
    }
    let folder = of.rfind('/').map_or("", |end| &of[..=end]);
    Ok(format!("{folder}{file}"))
}

impl Linked {
    /// The arrays that `link` leads to: one, or those of a group.
    fn add(&mut self, file: usize, stat: &Stat, path: &str, link: &ExternalLink, failed: &dyn Fn(String) -> Refused) {
        let index = &self.files[file];
        let object = index.resolve(link.object.trim_matches('/'));
        let below = if object.is_empty() { String::new() } else { format!("{object}/") };
        let name_of = |name: &str| match name.strip_prefix(&below) {
            _ if name == object => Some(link.name.clone()),
            Some(rest) => Some(format!("{}/{rest}", link.name)),
            None => None,
        };
        let before = (self.far.len(), self.refused.len());
        for (number, array) in index.arrays().iter().enumerate() {
            let Some(name) = name_of(&array.name) else { continue };
            let what = if index.in_parts(number) {
                "where the array is in other files again: name that file as a source"
            } else if name != array.name && index.arrays().iter().any(|a| a.name == name) {
                // One source has one array of a name.
                "which has another array of the link's name: name that file as a source"
            } else if self.arrays.iter().any(|a| a.name == name) {
                "and its name is that of another array"
            } else {
                let shape = array.shape();
                let part = Part {
                    path: path.to_owned(),
                    stat: stat.clone(),
                    first: vec![0; shape.len()],
                    count: shape,
                    renamed: name != array.name,
                };
                self.far.push(Far { file, array: number, part: Arc::new(part) });
                self.arrays.push(SourceArray { name, contiguous: false, ..array.clone() });
                continue;
            };
            self.refused.push(Refused { name, ..failed(what.into()) });
        }
        for refused in index.refused() {
            if let Some(name) = name_of(&refused.name) {
                self.refused.push(Refused { name, ..failed(format!("where it is refused: {}", refused.why)) });
            }
        }
        if before == (self.far.len(), self.refused.len()) && !index.groups().iter().any(|(name, _)| *name == object) {
            let again = index.links().iter().any(|l| l.name == object);
            self.refused.push(failed(if again {
                "where it is a link to another file again: name that file as a source".into()
            } else {
                "which has no such object".into()
            }));
        }
    }
}

impl SourceIndex for Linked {
    fn arrays(&self) -> &[SourceArray] {
        &self.arrays
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn resolve(&self, name: &str) -> String {
        self.own.resolve(name)
    }

    fn groups(&self) -> &[(String, Attributes)] {
        self.own.groups()
    }

    fn in_parts(&self, array: usize) -> bool {
        array >= self.own.arrays().len() || self.own.in_parts(array)
    }

    fn chunks(&self, array: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()> {
        let Some(far) = array.checked_sub(self.own.arrays().len()) else { return self.own.chunks(array, sink) };
        let Far { file, array: number, part } = &self.far[far];
        self.files[*file].chunks(*number, &mut |chunk| {
            let location = match chunk.location {
                Location::Range { offset, size } if chunk.filter_mask == 0 => {
                    Location::Part { part: Arc::clone(part), offset, size }
                }
                Location::Absent => Location::Absent,
                _ => {
                    return Err(Error::Unsupported {
                        path: part.path.clone(),
                        array: self.arrays[array].name.clone(),
                        what: format!(
                            "chunk {:?}, behind a link from another file, is not as it is a range of bytes: name this \
                             file as a source",
                            chunk.key
                        ),
                    });
                }
            };
            sink(SourceChunk { location, ..chunk })
        })
    }

    fn values(&self, array: usize, limit: u64) -> Result<Vec<u8>> {
        match array.checked_sub(self.own.arrays().len()) {
            None => self.own.values(array, limit),
            Some(far) => {
                let Far { file, array, .. } = &self.far[far];
                self.files[*file].values(*array, limit)
            }
        }
    }
}
