//! Files of this machine.

use super::{ByteReader, Listed, MAX_LISTED, Opener, Stat};
use crate::{Error, Result};
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;
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
        Ok(stat_of(&std::fs::metadata(path).map_err(|e| io_error(path, e))?))
    }

    fn is_local(&self, _path: &str) -> bool {
        true
    }

    fn is_folder(&self, path: &str) -> bool {
        std::fs::metadata(path).is_ok_and(|m| m.is_dir())
    }

    fn list(&self, path: &str) -> Result<Vec<Listed>> {
        let mut files = Vec::new();
        list_into(Path::new(path), "", 0, &mut files).map_err(|e| io_error(path, e))?;
        Ok(files)
    }
}

fn stat_of(meta: &Metadata) -> Stat {
    let mtime = meta.modified().ok().map(|t| match t.duration_since(UNIX_EPOCH) {
        Ok(d) => d.as_secs() as i64,
        Err(e) => -(e.duration().as_secs() as i64),
    });
    Stat { size: Some(meta.len()), mtime, etag: None }
}

/// Links to folders that go round in circles end at this depth.
const MAX_DEPTH: usize = 64;

fn list_into(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<Listed>) -> std::io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(std::io::Error::other("its folders are nested too deeply"));
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A name that is not UTF-8 is no file of a Zarr.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        // A link is what it leads to; one that leads nowhere is nothing.
        let Ok(meta) = std::fs::metadata(entry.path()) else { continue };
        if meta.is_dir() {
            list_into(&entry.path(), &name, depth + 1, files)?;
        } else {
            files.push(Listed { name, stat: stat_of(&meta) });
        }
        if files.len() > MAX_LISTED {
            return Err(std::io::Error::other(format!("it has more than {MAX_LISTED} files")));
        }
    }
    Ok(())
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
