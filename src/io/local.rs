//! Files of this machine.

use super::{ByteReader, Opener, Stat};
use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Opens files of this machine by their path.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalOpener;

struct LocalFile {
    file: File,
    path: String,
}

fn io_error(path: &str, error: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), what: error.to_string() }
}

impl Opener for LocalOpener {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        let file = File::open(path).map_err(|e| io_error(path, e))?;
        if file.metadata().map_err(|e| io_error(path, e))?.is_dir() {
            return Err(Error::Io { path: path.to_owned(), what: "is a directory".into() });
        }
        Ok(Arc::new(LocalFile { file, path: path.to_owned() }))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let meta = std::fs::metadata(path).map_err(|e| io_error(path, e))?;
        let mtime = meta.modified().ok().map(|t| match t.duration_since(UNIX_EPOCH) {
            Ok(d) => d.as_secs() as i64,
            Err(e) => -(e.duration().as_secs() as i64),
        });
        Ok(Stat { size: Some(meta.len()), mtime, etag: None })
    }

    fn is_local(&self, _path: &str) -> bool {
        true
    }
}

impl ByteReader for LocalFile {
    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| io_error(&self.path, e))?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|e| Error::Io {
            path: self.path.clone(),
            what: match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    format!(
                        "the file ends before byte {} (read of {} bytes at {offset})",
                        offset.saturating_add(buf.len() as u64),
                        buf.len()
                    )
                }
                _ => format!("{e} (read of {} bytes at {offset})", buf.len()),
            },
        })
    }

    fn path(&self) -> &str {
        &self.path
    }
}
