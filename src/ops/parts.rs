//! Arrays of sources whose chunks are in files of their own (those of a Zarr, those behind an external link of HDF5):
//! each such file is a row of `sources`, and is placed where its piece of the array lies.

use crate::plan::Placed;
use crate::scan::Part;
use crate::store::{Placement, SourceId, Writer};
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The files of all such sources of a scan.
#[derive(Default)]
pub(super) struct Parts {
    /// Arrays that have such files, by source and array in it.
    containers: HashSet<(SourceId, String)>,
    /// By source and array in it.
    files: HashMap<(SourceId, String), Vec<Numbered>>,
    last: Option<Numbered>,
}

/// A file, and its number in the store.
type Numbered = (SourceId, Arc<Part>);

impl Parts {
    /// A source is being scanned.
    pub(super) fn open(&mut self, source: SourceId, in_parts: &[String]) {
        self.forget(source);
        self.containers.extend(in_parts.iter().map(|array| (source, array.clone())));
    }

    /// What was scanned of a source is not to be used.
    pub(super) fn forget(&mut self, source: SourceId) {
        self.last = None;
        self.containers.retain(|(of, _)| *of != source);
        self.files.retain(|(of, _), _| *of != source);
    }

    /// The number of a file of `source`; its rows of before are deleted when it is met first.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Plan`] if chunks of another array may be listed there under this one's name.
    pub(super) fn number(
        &mut self,
        store: &mut Writer,
        source: SourceId,
        (name, in_source): (&str, &str),
        part: &Arc<Part>,
    ) -> Result<SourceId> {
        if let Some((id, last)) = &self.last
            && Arc::ptr_eq(last, part)
        {
            return Ok(*id);
        }
        let id = store.put_source(&part.path, &part.stat)?;
        if part.renamed && store.has_rows(name, id)? {
            return Err(Error::Plan(format!(
                "{}: chunks of \"{name}\" in it are listed already, maybe of another array, as \"{in_source}\" is a link \
                 of another name: name that file as a source, or build the store anew (--overwrite)",
                part.path
            )));
        }
        store.delete_rows(name, id)?;
        self.files.entry((source, in_source.to_owned())).or_default().push((id, Arc::clone(part)));
        self.last = Some((id, Arc::clone(part)));
        Ok(id)
    }

    /// The placements of a source in an array of the whole: one, or one for each of its files that lies in it.
    ///
    /// # Errors
    /// [`Error::Plan`] if a file does not lie in it whole but for the edges of chunks.
    pub(super) fn placements(&self, source: SourceId, placed: &Placed) -> Result<Vec<Placement>> {
        let place = |source_id, src_offset: Vec<u64>, count: Vec<u64>, dest: Vec<u64>| Placement {
            dest,
            source_id,
            source_array: placed.source_array.clone(),
            src_offset,
            count,
        };
        if !self.containers.contains(&(source, placed.source_array.clone())) {
            return Ok(vec![place(source, placed.src_offset.clone(), placed.count.clone(), placed.dest.clone())]);
        }
        let files = self.files.get(&(source, placed.source_array.clone())).map(Vec::as_slice).unwrap_or_default();
        let mut list = Vec::new();
        'files: for (id, part) in files {
            if part.first.len() != placed.dest.len() {
                return Err(Error::Plan(format!("{}: its place has another number of dimensions", part.path)));
            }
            let (mut from, mut count, mut dest) = (Vec::new(), Vec::new(), Vec::new());
            for axis in 0..part.first.len() {
                let start = part.first[axis].max(placed.src_offset[axis]);
                let end = (part.first[axis] + part.count[axis]).min(placed.src_offset[axis] + placed.count[axis]);
                if end <= start {
                    continue 'files;
                }
                from.push(start);
                count.push(end - start);
                dest.push(placed.dest[axis] + start - placed.src_offset[axis]);
            }
            list.push(place(*id, from, count, dest));
        }
        Ok(list)
    }
}
