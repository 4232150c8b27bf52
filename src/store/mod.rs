//! The store: one SQLite file in the format mdim-refs/0.2.
//!
//! [`Store`] reads, [`Writer`] writes. Everything SQL is here; the tables are described in the format's document, and the
//! view in `view.rs`.

mod check;
mod connection;
mod dimensions;
mod earlier;
mod merge;
mod names;
mod plan_index;
mod publish;
mod query;
mod read;
mod remap;
mod rows;
mod tables;
mod view;
mod write;

pub use check::{CheckedSource, Extent, Finding, Severity};
pub use earlier::{EarlierKind, EarlierRow, EarlierStore, EarlierTable};
pub use merge::Merger;
pub use names::view_name;
pub use plan_index::{ChunkBox, PlanIndex};
pub use publish::PublishOptions;
pub use read::Store;
pub use remap::RemapRule;
pub use tables::{Bounds, Cell, ChunkBounds, Column, ColumnKind, KeyRange, RowSink, Table};
pub use write::{Placement, RowData, Writer, is_store_file};

use crate::io::Stat;
use std::sync::Arc;

/// Number of a source in the store (`sources.source_id`).
pub type SourceId = i64;

/// `application_id` of the SQLite files that this project writes: "MREF".
pub const APPLICATION_ID: u32 = 0x4D52_4546;

/// The format that this project writes.
pub const FORMAT_VERSION: &str = "mdim-refs/0.2";

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
    /// SQLite's VFS to open the store by, where it is not a file of this machine.
    pub vfs: Option<&'static str>,
}

/// Whether a file that begins with `head` (100 bytes) is a store that this project wrote.
pub fn is_store(head: &[u8]) -> bool {
    head.len() >= 72 && head.starts_with(b"SQLite format 3\0") && head[68..72] == APPLICATION_ID.to_be_bytes()
}
