//! Where the chunks of a dataset are. One file for each kind of index of the format's appendix C, "Types of Indexes for
//! Dataset Chunks"; what fixed and extensible arrays share is in `array`.

mod array;
mod btree_v1;
mod btree_v2;
mod extensible_array;
mod fixed_array;
mod implicit;
mod single;

use super::file::{File, UNDEFINED};
use super::message::ChunkIndex;
use crate::Result;
use std::cell::Cell;

/// What an index depends on.
pub struct Chunked<'a> {
    /// Shape of the dataset in elements.
    pub shape: &'a [u64],
    /// Largest shape.
    pub max: &'a [u64],
    /// Shape of a chunk in elements.
    pub chunks: &'a [u64],
    /// Bytes of an element.
    pub item: u64,
    /// Whether there are filters.
    pub filtered: bool,
    /// Address of the index.
    pub address: u64,
}

/// Takes a chunk: its key, address, size in bytes, filter mask.
pub type Sink<'a> = dyn FnMut(&[u64], u64, u64, u32) -> Result<()> + 'a;

/// Calls `sink` for every chunk that has an address; some may lie outside the present shape.
///
/// # Errors
/// [`crate::Error::Format`] where the index is damaged; whatever `sink` returns.
pub fn list(file: &File, index: &ChunkIndex, chunked: &Chunked<'_>, sink: &mut Sink<'_>) -> Result<()> {
    if chunked.address == UNDEFINED || chunked.shape.contains(&0) {
        return Ok(());
    }
    // What is read twice is short.
    let walk = Walk { file, chunked, bytes: chunked.bytes(), budget: Cell::new(file.size().saturating_mul(2)) };
    match index {
        ChunkIndex::BTree1 => {
            let mut key = vec![0; chunked.shape.len()];
            walk.btree1(chunked.address, None, &mut key, sink)
        }
        ChunkIndex::Single(stored) => walk.single(*stored, sink),
        ChunkIndex::Implicit => walk.implicit(sink),
        ChunkIndex::FixedArray => walk.fixed_array(sink),
        ChunkIndex::ExtensibleArray => walk.extensible_array(sink),
        ChunkIndex::BTree2 => walk.btree2(sink),
    }
}

impl Chunked<'_> {
    /// Bytes of a chunk without filters, saturating.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().fold(self.item, |n, c| n.saturating_mul(*c))
    }
}

struct Walk<'a> {
    file: &'a File,
    chunked: &'a Chunked<'a>,
    /// Bytes of a chunk without filters.
    bytes: u64,
    /// Bytes of the index that can still be in the file: one with cycles, or with one node many times, ends.
    budget: Cell<u64>,
}

impl Walk<'_> {
    fn damaged(&self, structure: &str) -> crate::Error {
        self.file.damaged(self.chunked.address, structure)
    }

    /// Counts bytes of the index that are read.
    fn spend(&self, bytes: u64) -> Result<()> {
        let left = self.budget.get().checked_sub(bytes);
        self.budget.set(left.ok_or_else(|| self.damaged("a chunk index (a part of it is listed twice)"))?);
        Ok(())
    }

    /// A part of an array index, its checksum verified.
    fn part(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        self.spend(length)?;
        self.file.read_checked(address, length, "a part of a chunk index")
    }
}
