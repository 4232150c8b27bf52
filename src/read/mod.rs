//! Windows of arrays into buffers.

use crate::Result;
use crate::io::Opener;
use crate::store::Store;
use std::sync::Arc;

/// What to do about a source that can't be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingSource {
    /// Fail, naming it.
    #[default]
    Error,
    /// Read its chunks as fill.
    Fill,
}

/// How sources are checked against what was recorded when they were scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Size for local sources, nothing for remote ones.
    #[default]
    Default,
    /// Not at all.
    No,
    /// Size.
    Size,
    /// Size, time of change, entity tag.
    Full,
}

/// Choices of a reader.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Threads that fetch and decode.
    pub threads: usize,
    /// Budget of the decoded-chunk cache in bytes.
    pub cache_size: usize,
    /// Check of sources.
    pub verify: Verify,
    /// Sources that can't be opened.
    pub missing_source: MissingSource,
    /// Verify checksums of chunks.
    pub verify_checksum: bool,
}

/// Reads windows of the arrays of one store. Thread-safe.
pub struct Reader {
    store: Arc<Store>,
}

impl Reader {
    /// A reader of `store`, whose sources are opened by `opener`.
    ///
    /// # Errors
    /// None yet.
    pub fn new(store: Arc<Store>, opener: Arc<dyn Opener>, options: ReadOptions) -> Result<Reader> {
        let _ = (opener, options);
        Ok(Reader { store })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}
