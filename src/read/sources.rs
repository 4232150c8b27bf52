//! Open sources, a bounded number at a time, checked against what was recorded when they were scanned.

use super::{MissingSource, ReadOptions, Verify};
use crate::io::{ByteReader, Opener, Stat};
use crate::store::{Source, SourceRef, Store};
use crate::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Sources that are open at a time.
const KEPT: usize = 64;

/// An open source.
pub struct Opened {
    /// Its bytes.
    pub reader: Arc<dyn ByteReader>,
    /// Its size in bytes.
    pub size: u64,
    source: Source,
}

/// Open sources, and the order they were opened in.
type Kept = (HashMap<SourceRef, Arc<Opened>>, VecDeque<SourceRef>);

/// Open sources of one store.
pub struct Sources {
    opener: Arc<dyn Opener>,
    verify: Verify,
    missing: MissingSource,
    open: Mutex<Kept>,
}

impl Sources {
    pub fn new(opener: Arc<dyn Opener>, options: &ReadOptions) -> Sources {
        Sources { opener, verify: options.verify, missing: options.missing_source, open: Mutex::default() }
    }

    /// A source, opened if it is not. None: it can't be opened, and is to be read as fill.
    ///
    /// A source on this machine is looked at each time it is used, one elsewhere when it is opened.
    pub fn get(&self, store: &Store, reference: SourceRef) -> Result<Option<Arc<Opened>>> {
        let found = self.open.lock().unwrap_or_else(PoisonError::into_inner).0.get(&reference).cloned();
        if let Some(opened) = found {
            if self.opener.is_local(&opened.source.path) {
                self.check(&opened.source)?;
            }
            return Ok(Some(opened));
        }
        let source = store.source(reference)?;
        let opened = self.opener.open(&source.path).and_then(|reader| {
            let size = reader.size()?;
            Ok((reader, size))
        });
        let (reader, size) = match opened {
            Ok(opened) => opened,
            Err(Error::Io { .. }) if self.missing == MissingSource::Fill => return Ok(None),
            Err(e) => return Err(e),
        };
        self.check(&source)?;
        let opened = Arc::new(Opened { reader, size, source });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.0.insert(reference, Arc::clone(&opened)).is_none() {
            open.1.push_back(reference);
        }
        if open.1.len() > KEPT
            && let Some(oldest) = open.1.pop_front()
        {
            open.0.remove(&oldest);
        }
        Ok(Some(opened))
    }

    /// The path of a source, for messages.
    pub fn path(store: &Store, reference: SourceRef) -> String {
        store.source(reference).map_or_else(|_| "?".to_owned(), |s| s.path)
    }

    fn check(&self, source: &Source) -> Result<()> {
        let verify = match self.verify {
            Verify::Default if self.opener.is_local(&source.path) => Verify::Size,
            Verify::Default => Verify::No,
            other => other,
        };
        if verify == Verify::No || source.stat == Stat::default() {
            return Ok(());
        }
        let now = self.opener.stat(&source.path)?;
        let changed = |what: &str, now: String, then: String| {
            Err(Error::Io {
                path: source.path.clone(),
                what: format!(
                    "it has changed since it was scanned: its {what} is {now}, was {then}; scan it again (get-refs --append), \
                     or open the store with VERIFY=NO"
                ),
            })
        };
        if let (Some(now), Some(then)) = (now.size, source.stat.size)
            && now != then
        {
            return changed("size", now.to_string(), then.to_string());
        }
        if verify == Verify::Full {
            if let (Some(now), Some(then)) = (now.mtime, source.stat.mtime)
                && now != then
            {
                return changed("time of change", now.to_string(), then.to_string());
            }
            if let (Some(now), Some(then)) = (now.etag, source.stat.etag.clone())
                && now != then
            {
                return changed("entity tag", now, then);
            }
        }
        Ok(())
    }
}
