//! Open sources, checked against what was recorded when they were scanned.

use super::{MissingSource, ReadOptions, Verify};
use crate::io::{ByteReader, Opener};
use crate::store::{Source, SourceRef, Store};
use crate::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Sources kept open.
const KEPT: usize = 64;

/// An open source.
#[derive(Clone)]
pub(super) struct Handle {
    pub reader: Arc<dyn ByteReader>,
    /// Whether it is on this machine.
    pub is_local: bool,
    /// What is verified at each use.
    source: Option<Arc<Source>>,
}

/// The sources used last, open. One on this machine is looked at whenever it is used, so that a file that grows or is
/// replaced while it is open is noticed; one elsewhere when it is opened, and again when others have pushed it out.
pub(super) struct Sources {
    opener: Arc<dyn Opener>,
    verify: Verify,
    missing: MissingSource,
    open: Mutex<Open>,
}

struct Open {
    /// The last used comes last. A source without a handle is missing.
    list: Vec<(SourceRef, Option<Handle>)>,
    /// The process that opened them: a forked child opens its own.
    process: u32,
}

impl Sources {
    pub fn new(opener: Arc<dyn Opener>, options: &ReadOptions) -> Sources {
        Sources {
            opener,
            verify: options.verify,
            missing: options.missing_source,
            open: Mutex::new(Open { list: Vec::new(), process: std::process::id() }),
        }
    }

    /// A source, or None if it is missing and is to be read as fill.
    ///
    /// # Errors
    /// [`Error::Io`] if it can't be opened, or is not what was scanned; errors of the store. With the error comes the
    /// path, as far as it is known.
    pub fn get(&self, store: &Store, number: SourceRef) -> Result<Option<Handle>, (String, Error)> {
        let lock = || {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.process != std::process::id() {
                open.list.clear();
                open.process = std::process::id();
            }
            open
        };
        let mut found = None;
        {
            let list = &mut lock().list;
            if let Some(at) = list.iter().rposition(|(n, _)| *n == number) {
                let entry = list.remove(at);
                found = Some(entry.1.clone());
                list.push(entry);
            }
        }
        if let Some(handle) = found {
            if let Some(Handle { source: Some(source), .. }) = &handle {
                self.check(source, true).map_err(|e| (source.path.clone(), e))?;
            }
            return Ok(handle);
        }
        let source = store.source(number).map_err(|e| (store.path().to_owned(), e))?;
        let reader = self.open(&source).map_err(|e| (source.path, e))?;
        // What is pushed out is closed without the lock.
        let mut closed = None;
        {
            let list = &mut lock().list;
            if !list.iter().any(|(n, _)| *n == number) {
                if list.len() >= KEPT {
                    closed = Some(list.remove(0));
                }
                list.push((number, reader.clone()));
            }
        }
        drop(closed);
        Ok(reader)
    }

    fn open(&self, source: &Source) -> Result<Option<Handle>> {
        let open = || {
            let reader = self.opener.open(&source.path)?;
            if self.missing == MissingSource::Fill {
                // One that is elsewhere may be looked for only when it is read.
                reader.size()?;
            }
            Ok(reader)
        };
        let reader = match open() {
            Ok(reader) => reader,
            Err(Error::Io { .. }) if self.missing == MissingSource::Fill => return Ok(None),
            Err(e) => return Err(e),
        };
        let is_local = self.opener.is_local(&source.path);
        let verified = self.check(source, is_local)?;
        Ok(Some(Handle { reader, is_local, source: (verified && is_local).then(|| Arc::new(source.clone())) }))
    }

    /// Compares a source with what was recorded; whether there was something to compare.
    fn check(&self, source: &Source, is_local: bool) -> Result<bool> {
        let was = &source.stat;
        let full = self.verify == Verify::Full;
        let size = match self.verify {
            Verify::Default => is_local,
            Verify::No => false,
            Verify::Size | Verify::Full => true,
        };
        if !(size && was.size.is_some() || full && (was.mtime.is_some() || was.etag.is_some())) {
            return Ok(false);
        }
        let is = self.opener.stat(&source.path)?;
        changed(&source.path, "size", was.size, is.size)?;
        if full {
            changed(&source.path, "time of change", was.mtime, is.mtime)?;
            changed(&source.path, "entity tag", was.etag.as_ref(), is.etag.as_ref())?;
        }
        Ok(true)
    }
}

/// Compares what is known on both sides.
fn changed<T: PartialEq + std::fmt::Display>(path: &str, what: &str, was: Option<T>, is: Option<T>) -> Result<()> {
    match (was, is) {
        (Some(was), Some(is)) if was != is => Err(Error::Io {
            path: path.to_owned(),
            what: format!(
                "changed since it was scanned: {what} {is}, was {was}; rescan with get-refs --append --rescan, or open \
                 with VERIFY=NO"
            ),
        }),
        _ => Ok(()),
    }
}
