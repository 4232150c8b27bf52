//! Output that appears whole or not at all: written beside its place under another name, renamed when it is done.

use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file being written. Dropped before [`OutputFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct OutputFile {
    name: String,
    place: PathBuf,
    partial: PathBuf,
    lock: File,
    done: bool,
}

fn error(path: &str, what: impl Into<String>) -> Error {
    Error::Io { path: path.to_owned(), what: what.into() }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

impl OutputFile {
    /// Begins a file that will be `path`. One that is there already is replaced in the end, if `replaceable` says so.
    ///
    /// # Errors
    /// [`Error::Io`] if there is something that may not be replaced, or another process writes the same output.
    pub fn create(path: &str, overwrite: bool, replaceable: impl Fn(&Path) -> bool) -> Result<OutputFile> {
        if path.starts_with("/vsi") {
            return Err(error(path, "output is written to a local file; copy it from there"));
        }
        let place = std::path::absolute(path).map_err(|e| error(path, e.to_string()))?;
        if let Ok(meta) = std::fs::symlink_metadata(&place) {
            if !overwrite {
                return Err(error(path, "exists already: --overwrite replaces it"));
            }
            if meta.is_dir() || (std::fs::metadata(&place).is_ok_and(|m| m.len() > 0) && !replaceable(&place)) {
                return Err(error(path, "is not what this command writes: it is not overwritten; remove it first"));
            }
        }
        let partial = beside(&place, ".partial");
        let lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial)
            .map_err(|e| error(path, format!("can't be made: {e}")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(error(path, "another process is writing it")),
            Err(std::fs::TryLockError::Error(e)) => return Err(error(path, format!("can't be locked: {e}"))),
        }
        // What a killed process left.
        lock.set_len(0).map_err(|e| error(path, e.to_string()))?;
        Ok(OutputFile { name: path.to_owned(), place, partial, lock, done: false })
    }

    /// Where to write it.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn commit(mut self) -> Result<()> {
        let failed = |e: std::io::Error| error(&self.name, e.to_string());
        self.lock.sync_all().map_err(failed)?;
        std::fs::rename(&self.partial, &self.place).map_err(failed)?;
        self.done = true;
        if let Some(folder) = self.place.parent().and_then(|f| File::open(f).ok()) {
            // The name is durable once its folder is; where a folder can't be synced, it is as good as it gets.
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// A folder being written. Dropped before [`OutputFolder::commit`], it leaves nothing.
#[derive(Debug)]
pub struct OutputFolder {
    name: String,
    place: PathBuf,
    partial: PathBuf,
    _lock: File,
    done: bool,
}

impl OutputFolder {
    /// Begins a folder that will be `path`. One that is there already is replaced in the end, if `replaceable` says so.
    ///
    /// # Errors
    /// As [`OutputFile::create`].
    pub fn create(path: &str, overwrite: bool, replaceable: impl Fn(&Path) -> bool) -> Result<OutputFolder> {
        if path.starts_with("/vsi") {
            return Err(error(path, "output is written to a local folder; copy it from there"));
        }
        let failed = |e: std::io::Error| error(path, e.to_string());
        // Without a slash at the end, which names beside it would come after.
        let place: PathBuf = std::path::absolute(path).map_err(failed)?.components().collect();
        if std::fs::symlink_metadata(&place).is_ok() {
            if !overwrite {
                return Err(error(path, "exists already: --overwrite replaces it"));
            }
            if !replaceable(&place) {
                return Err(error(path, "is not what this command writes: it is not overwritten; remove it first"));
            }
        }
        let partial = beside(&place, ".partial");
        std::fs::create_dir_all(&partial).map_err(|e| error(path, format!("can't be made: {e}")))?;
        let lock = File::open(&partial).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(error(path, "another process is writing it")),
            Err(std::fs::TryLockError::Error(e)) => return Err(error(path, format!("can't be locked: {e}"))),
        }
        // What a killed process left.
        for entry in std::fs::read_dir(&partial).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                std::fs::remove_dir_all(entry.path()).map_err(failed)?;
            } else {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(OutputFolder { name: path.to_owned(), place, partial, _lock: lock, done: false })
    }

    /// Where to write it.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the folder its name. The old one is moved aside first and removed afterwards: a process killed in between
    /// leaves it beside, with `.old` at the end of its name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn commit(mut self) -> Result<()> {
        let failed = |e: std::io::Error| error(&self.name, e.to_string());
        let old = beside(&self.place, ".old");
        let replaces = std::fs::symlink_metadata(&self.place).is_ok();
        if replaces {
            std::fs::rename(&self.place, &old).map_err(failed)?;
        }
        std::fs::rename(&self.partial, &self.place).map_err(failed)?;
        self.done = true;
        if replaces {
            std::fs::remove_dir_all(&old).map_err(failed)?;
        }
        if let Some(folder) = self.place.parent().and_then(|f| File::open(f).ok()) {
            // As for a file.
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_dir_all(&self.partial);
        }
    }
}
