//! The references of one array, in memory: 32 bytes each.

use std::collections::HashMap;

/// A chunk: its place in the chunk grid in C order, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Place in the chunk grid, in C order.
    pub place: u64,
    /// Number of the source; [`INLINE`] or [`ABSENT`].
    pub source: u32,
    /// Byte offset; of an inline chunk the number of its bytes in [`References::inline`].
    pub offset: u64,
    /// Stored size in bytes.
    pub size: u64,
}

/// In place of a source: the bytes are in the references themselves.
pub const INLINE: u32 = u32::MAX;
/// In place of a source: never written.
pub const ABSENT: u32 = u32::MAX - 1;
/// Sources, at most.
pub const MOST_SOURCES: u32 = u32::MAX - 2;

/// The references of one array.
#[derive(Debug, Default)]
pub struct References {
    /// Chunks.
    pub list: Vec<Reference>,
    /// Bytes of inline chunks, each once.
    pub inline: Vec<Vec<u8>>,
    /// Numbers in `inline` by a hash of the bytes.
    known: HashMap<u64, Vec<u32>>,
}

impl References {
    /// Adds a chunk in a source.
    pub fn add(&mut self, place: u64, source: u32, offset: u64, size: u64) {
        self.list.push(Reference { place, source, offset, size });
    }

    /// Adds a chunk that was never written.
    pub fn add_absent(&mut self, place: u64) {
        self.list.push(Reference { place, source: ABSENT, offset: 0, size: 0 });
    }

    /// Adds a chunk with its bytes.
    pub fn add_inline(&mut self, place: u64, data: &[u8]) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        let known = self.known.entry(hasher.finish()).or_default();
        let number = known.iter().copied().find(|n| self.inline[*n as usize] == data).unwrap_or_else(|| {
            let new = self.inline.len() as u32;
            self.inline.push(data.to_vec());
            known.push(new);
            new
        });
        self.list.push(Reference { place, source: INLINE, offset: u64::from(number), size: data.len() as u64 });
    }

    /// Puts the chunks in order. Of several for one place the last stays; their number is returned.
    pub fn sort(&mut self) -> usize {
        self.known = HashMap::new();
        self.list.sort_by_key(|r| r.place);
        let before = self.list.len();
        let mut kept: usize = 0;
        for i in 0..before {
            if kept > 0 && self.list[kept - 1].place == self.list[i].place {
                self.list[kept - 1] = self.list[i];
            } else {
                self.list[kept] = self.list[i];
                kept += 1;
            }
        }
        self.list.truncate(kept);
        before - kept
    }
}
