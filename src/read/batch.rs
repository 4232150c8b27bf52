//! What is fetched at a time.

use super::scatter::Part;
use crate::model::ChunkKey;
use crate::store::SourceRef;
use std::ops::Range;
use std::sync::Arc;

/// A chunk to decode, and where it goes.
pub(super) struct Piece<'a> {
    pub key: ChunkKey,
    /// None: into the cache alone.
    pub part: Option<Part<'a>>,
    /// Whether the decoded chunk goes into the cache.
    pub keep: bool,
    pub bytes: Bytes,
}

/// Where the bytes of a chunk are.
pub(super) enum Bytes {
    /// Nowhere; fill.
    Absent,
    /// In the cache, decoded.
    Cached(Arc<Vec<u8>>),
    /// In the store, encoded.
    Inline(Arc<[u8]>),
    /// In a source, encoded.
    Stored(Stored),
}

/// Bytes of a source.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub source: SourceRef,
    /// Byte offset of the chunk.
    pub offset: u64,
    /// Size of the chunk in bytes.
    pub size: u64,
    /// The bytes of the chunk that are needed.
    pub needed: Range<u64>,
}

impl Stored {
    /// The needed bytes' place in the source.
    pub fn range(&self) -> Range<u64> {
        self.offset.saturating_add(self.needed.start)..self.offset.saturating_add(self.needed.end)
    }
}

/// Pieces that one thread fetches with one read.
pub(super) struct Batch<'a> {
    /// The source and the byte range that holds all pieces; None if they are no bytes of a source.
    pub source: Option<(SourceRef, Range<u64>)>,
    pub pieces: Vec<Piece<'a>>,
}

/// How far neighbours are joined, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    /// Largest gap that is read over.
    pub gap: u64,
    /// Largest read of several pieces.
    pub size: u64,
}

impl Joining {
    /// Reads of local files are cheap: what is joined stays in the processor's cache, and threads share the work evenly.
    pub const LOCAL: Joining = Joining { gap: 4 << 10, size: 256 << 10 };

    /// A request costs as much as many bytes; still every thread has one.
    pub fn remote(total: u64, threads: usize) -> Joining {
        Joining { gap: 64 << 10, size: (total / threads.max(1) as u64).clamp(1 << 20, 16 << 20) }
    }
}

/// Pieces without bytes of a source that make one batch, by their decoded size in bytes.
const DECODED: usize = 1 << 20;

/// Groups pieces: by source, in the order of their offsets, neighbours joined.
pub(super) fn batches(pieces: Vec<Piece<'_>>, decoded_size: usize, joining: Joining) -> Vec<Batch<'_>> {
    let mut stored = Vec::new();
    let mut batches: Vec<Batch<'_>> = Vec::new();
    let together = (DECODED / decoded_size.max(1)).max(1);
    for piece in pieces {
        match &piece.bytes {
            Bytes::Stored(s) => stored.push(((s.source, s.range().start, s.range().end), piece)),
            _ => match batches.last_mut() {
                Some(batch) if batch.pieces.len() < together => batch.pieces.push(piece),
                _ => batches.push(Batch { source: None, pieces: vec![piece] }),
            },
        }
    }
    stored.sort_by_key(|(place, _)| *place);
    for ((source, start, end), piece) in stored {
        if let Some(Batch { source: Some((last, range)), pieces }) = batches.last_mut()
            && *last == source
            && start <= range.end.saturating_add(joining.gap)
            && end.max(range.end) - range.start <= joining.size
        {
            range.end = range.end.max(end);
            pieces.push(piece);
        } else {
            batches.push(Batch { source: Some((source, start..end)), pieces: vec![piece] });
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let piece = |source, offset, size| Piece {
            key: vec![offset],
            part: None,
            keep: false,
            bytes: Bytes::Stored(Stored { source: SourceRef(source), offset, size, needed: 0..size }),
        };
        let pieces =
            vec![piece(1, 500, 10), piece(0, 300, 100), piece(0, 0, 100), piece(0, 110, 100), piece(0, 0, 100)];
        let ranges = |pieces, joining| {
            let list: Vec<_> =
                batches(pieces, 8, joining).into_iter().map(|b| (b.source.unwrap(), b.pieces.len())).collect();
            list
        };
        assert_eq!(
            ranges(pieces, Joining { gap: 10, size: 1000 }),
            [((SourceRef(0), 0..210), 3), ((SourceRef(0), 300..400), 1), ((SourceRef(1), 500..510), 1)]
        );
        let pieces = vec![piece(0, 100, 100), piece(0, 0, 100), piece(0, 200, 1000)];
        assert_eq!(
            ranges(pieces, Joining { gap: 0, size: 200 }),
            [((SourceRef(0), 0..200), 2), ((SourceRef(0), 200..1200), 1)]
        );
        let absent = |k| Piece { key: vec![k], part: None, keep: false, bytes: Bytes::Absent };
        assert_eq!(batches((0..5).map(absent).collect(), 1 << 19, Joining::LOCAL).len(), 3);
    }
}
