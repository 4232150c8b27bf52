//! One chunk as large as the array: appendix C, "The Single Chunk Index".

use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    /// `stored`: size and filter mask, where there are filters.
    pub(super) fn single(&self, stored: Option<(u64, u32)>, sink: &mut Sink<'_>) -> Result<()> {
        let (size, mask) = stored.unwrap_or((self.bytes, 0));
        sink(&vec![0; self.chunked.shape.len()], self.chunked.address, size, mask)
    }
}
