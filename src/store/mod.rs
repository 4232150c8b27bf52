//! The store: one SQLite file.

use crate::io::Stat;
use crate::model::{ArrayDesc, ChunkKey};
use crate::{Error, Result};
use std::sync::Arc;

/// Number of a source in the store (`sources.source_id`).
pub type SourceId = i64;

/// Where a chunk of the whole array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkRef {
    /// Nowhere; reads as fill.
    Absent,
    /// In the store, encoded with the array's codec.
    Inline(Arc<[u8]>),
    /// In a source.
    Range {
        /// Source, for [`Store::source`].
        source: SourceRef,
        /// Byte offset.
        offset: u64,
        /// Stored size in bytes.
        size: u64,
    },
}

/// A source of a [`ChunkRef`]: cheap to copy, compare and hash; valid for the store that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceRef(pub u32);

/// A source as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path to open, after the remap of the chosen target, and resolved against the store's folder if relative.
    pub path: String,
    /// What was known when it was scanned; empty if nothing was recorded or the path was remapped.
    pub stat: Stat,
}

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Remap target; None: `meta.target` if there is one.
    pub target: Option<String>,
}

/// An open store, read-only. All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    path: String,
    arrays: Vec<ArrayDesc>,
}

impl Store {
    /// Opens a store that this or other software made.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Sqlite`]: not a store, another major format, a broken rule that reading depends on.
    pub fn open(path: &str, options: &OpenOptions) -> Result<Store> {
        let _ = options;
        Err(Error::Store { path: path.to_owned(), what: "not implemented".into() })
    }

    /// The path as opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Arrays, in the order of the table.
    pub fn arrays(&self) -> &[ArrayDesc] {
        &self.arrays
    }

    /// Number of an array by its full name, with or without the leading `/`.
    pub fn find(&self, name: &str) -> Option<usize> {
        let name = name.strip_prefix('/').unwrap_or(name);
        self.arrays.iter().position(|a| a.name == name)
    }

    /// A value of the table `meta`.
    pub fn meta(&self, key: &str) -> Option<&str> {
        let _ = key;
        None
    }

    /// The source behind a reference.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn source(&self, source: SourceRef) -> Result<Source> {
        let _ = source;
        Err(Error::Store { path: self.path.clone(), what: "not implemented".into() })
    }

    /// References of all chunks of array number `array` whose keys are in `lo..hi` along every axis (in chunks). Chunks
    /// not reported are absent. No order is promised.
    ///
    /// # Errors
    /// [`Error::Store`] for rows that break the format, [`Error::Sqlite`].
    pub fn refs(&self, array: usize, lo: &[u64], hi: &[u64]) -> Result<Vec<(ChunkKey, ChunkRef)>> {
        let _ = (array, lo, hi);
        Err(Error::Store { path: self.path.clone(), what: "not implemented".into() })
    }

    /// GDAL's block-info text of a chunk, where the store has one.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn info(&self, array: usize, key: &[u64]) -> Result<Option<String>> {
        let _ = (array, key);
        Ok(None)
    }
}
