//! Windows of arrays into buffers.
//!
//! ```text
//! window ──► chunks that meet it ──► references (one query) ──► byte ranges, grouped by source, neighbours joined
//!        (window.rs)                                          (batch.rs)
//!   ──► fetch ──► decode ──► scatter into the caller's buffer, on some threads
//!    (sources.rs) (codec)   (scatter.rs)             (run.rs)
//! ```
//!
//! What is read is what the source holds, bit for bit, in the machine's byte order. An absent chunk reads as fill.
//! Anything that goes wrong is an error that names array, chunk, path, offset and size; never fill.
//!
//! Threads live as long as one call. Locks are held for bookkeeping only, never while something is read or decoded.

mod batch;
mod bounds;
mod cache;
mod computed;
mod element;
mod reader;
mod run;
mod scatter;
mod sources;
mod strings;
#[cfg(test)]
mod tests;
mod window;

pub use bounds::Coordinate;
pub use element::Element;
pub use reader::{RawChunk, Reader};

/// What to do about a source that can't be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingSource {
    /// Fail, naming it.
    #[default]
    Error,
    /// Read its chunks as fill. A source that opens, but is damaged or not the one that was scanned, is an error all the
    /// same.
    Fill,
}

/// How sources are checked against what was recorded when they were scanned: a source on this machine whenever it is
/// used, one elsewhere when it is opened (it stays open while it is among the sources used last).
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
    /// Threads that fetch and decode; 0: as many as the machine has.
    pub threads: usize,
    /// Budget of the decoded-chunk cache in bytes; 0: no cache.
    pub cache_size: usize,
    /// Check of sources.
    pub verify: Verify,
    /// Sources that can't be opened.
    pub missing_source: MissingSource,
    /// Verify checksums of chunks.
    pub verify_checksum: bool,
}

impl Default for ReadOptions {
    /// All threads, a cache of 64 MiB, [`Verify::Default`], [`MissingSource::Error`], checksums verified.
    fn default() -> Self {
        ReadOptions {
            threads: 0,
            cache_size: 64 << 20,
            verify: Verify::Default,
            missing_source: MissingSource::Error,
            verify_checksum: true,
        }
    }
}
