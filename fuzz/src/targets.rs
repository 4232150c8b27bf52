//! What the fuzz targets do with their input. `tests/test_corpus.rs` does the same with the corpus.

use mdimrefs::Result;
use mdimrefs::io::ByteReader;
use mdimrefs::scan;
use std::sync::Arc;

/// Bytes as a file.
struct Memory(Vec<u8>);

impl ByteReader for Memory {
    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = usize::try_from(offset).ok().and_then(|from| self.0.get(from..from.checked_add(buf.len())?));
        buf.copy_from_slice(bytes.expect("a read beyond the end of the file"));
        Ok(())
    }

    fn path(&self) -> &str {
        "fuzzed"
    }
}

/// Scans a source: every array, chunk, small value.
pub fn scan_source(data: &[u8]) {
    let Ok(index) = scan::open(Arc::new(Memory(data.to_vec()))) else { return };
    for number in 0..index.arrays().len().min(50) {
        let mut left = 100_000;
        let _ = index.chunks(number, &mut |_| {
            left -= 1;
            if left == 0 { Err(mdimrefs::Error::Cancelled) } else { Ok(()) }
        });
        let _ = index.values(number, 1 << 20);
    }
}
