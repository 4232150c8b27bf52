//! The one error type. A message says what went wrong, where, and what to do.

use crate::model::ChunkKey;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, with the array, chunk, path, offset and size that are known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes could not be read from, or written to, a path.
    #[error("{path}: {what}")]
    Io {
        /// The path as opened.
        path: String,
        /// What failed, with offset and size where they matter.
        what: String,
    },
    /// A source is not what its format says.
    #[error("{path}: {what} (at byte {offset})")]
    Format {
        /// The source as opened.
        path: String,
        /// Byte offset of the structure that is wrong.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A source, array or chunk uses something that is not supported; it is named.
    #[error("{path}: array \"{array}\": {what}")]
    Unsupported {
        /// The source or store.
        path: String,
        /// The array, by its full name without the leading `/`.
        array: String,
        /// What is not supported, and the option that helps where there is one.
        what: String,
    },
    /// A store does not follow the format, or can't be used as asked.
    #[error("{path}: {what}")]
    Store {
        /// The store.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// SQLite failed on the store.
    #[error("{path}: {source}")]
    Sqlite {
        /// The store.
        path: String,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// Encoded bytes can't be decoded, or the codec is unknown.
    #[error("codec \"{codec}\": {what}")]
    Codec {
        /// The codec's Zarr v2 id.
        codec: String,
        /// What is wrong.
        what: String,
    },
    /// A chunk can't be read.
    #[error("array \"{array}\", chunk {key:?}, {path}, offset {offset}, size {size}: {source}")]
    Chunk {
        /// The array.
        array: String,
        /// The chunk's place in the array's chunk grid.
        key: ChunkKey,
        /// The path opened (after the remap).
        path: String,
        /// Byte offset in the source; 0 for an inline chunk.
        offset: u64,
        /// Stored size in bytes.
        size: u64,
        /// Why.
        source: Box<Error>,
    },
    /// Sources disagree, or a plan breaks a rule of the format.
    #[error("{0}")]
    Plan(String),
    /// An argument is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A command did what it was asked, and the answer is no.
    #[error("{what}")]
    Failed {
        /// The answer in one line.
        what: String,
        /// What the command prints.
        report: String,
    },
    /// The user stopped the work.
    #[error("interrupted")]
    Cancelled,
}
