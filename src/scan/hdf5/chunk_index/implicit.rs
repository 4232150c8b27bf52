//! Chunks one after the other, allocated early and without filters: appendix C, "The Implicit Index".

use super::{Sink, Walk};
use crate::Result;

impl Walk<'_> {
    pub(super) fn implicit(&self, sink: &mut Sink<'_>) -> Result<()> {
        let mut order = self.order(None)?;
        let total = order.total().ok_or_else(|| self.damaged("an implicit chunk index"))?;
        let start = self.chunked.address;
        if total.checked_mul(self.bytes).is_none_or(|n| n > self.file.available(start)) {
            return Err(self.damaged("an implicit chunk index"));
        }
        (0..total).try_for_each(|i| order.emit(i, start + i * self.bytes, self.bytes, 0, sink))
    }
}
