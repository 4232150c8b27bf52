//! Bytes by offset. The core reads sources through [`Opener`] and [`ByteReader`] alone.

mod block_cache;
mod local;

pub use block_cache::BlockCache;
pub use local::LocalOpener;

use crate::Result;
use std::sync::Arc;

/// An open file or object, read at offsets, from any thread.
pub trait ByteReader: Send + Sync {
    /// Total size in bytes.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if it can't be had.
    fn size(&self) -> Result<u64>;

    /// Fills `buf` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::Io`] naming the path, also when the file ends before `buf` is full.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// What is known of the file, where that takes no more than opening it did.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if it can't be reached.
    fn stat(&self) -> Result<Option<Stat>> {
        Ok(None)
    }

    /// Bytes that cost little more than one.
    fn worth_reading(&self) -> u64 {
        0
    }

    /// The path as opened, for messages.
    fn path(&self) -> &str;
}

/// What is known of a file without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of the last change, seconds since 1970.
    pub mtime: Option<i64>,
    /// Entity tag of a remote object.
    pub etag: Option<String>,
}

/// A file somewhere in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path within the folder, its parts joined by `/`.
    pub name: String,
    /// What the listing says of it.
    pub stat: Stat,
}

/// A folder with more files than this is refused.
pub const MAX_LISTED: usize = 50_000_000;

/// Opens paths.
pub trait Opener: Send + Sync {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// [`crate::Error::Io`] naming the path.
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>>;

    /// What is known of `path`.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if it does not exist or can't be reached.
    fn stat(&self, path: &str) -> Result<Stat>;

    /// Whether `path` is on this machine, so that a stat is cheap.
    fn is_local(&self, path: &str) -> bool;

    /// Whether `path` is a folder.
    fn is_folder(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// All files in a folder and the folders in it, with their sizes: by listing, not by a look at each where that can be.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if it can't be listed.
    fn list(&self, path: &str) -> Result<Vec<Listed>> {
        Err(crate::Error::Io { path: path.to_owned(), what: "its files can't be listed".into() })
    }
}
