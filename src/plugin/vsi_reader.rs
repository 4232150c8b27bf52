//! Sources through GDAL's VSI: `/vsicurl/`, `/vsis3/`, `/vsizip/`, `/vsimem/` and so on. Plain paths are read directly.

use super::ffi;
use super::http::HttpFile;
use super::thread_config::ThreadConfig;
use crate::io::{ByteReader, Listed, LocalOpener, MAX_LISTED, Opener, Stat};
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Opens paths of this machine directly, and all others through VSI.
#[derive(Clone, Default)]
pub struct VsiOpener {
    /// Options of the thread that called.
    pub config: ThreadConfig,
    /// Objects opened last: what a look at one has told is not asked again.
    recent: Arc<Mutex<VecDeque<Arc<HttpFile>>>>,
}

/// Objects kept in mind.
const RECENT: usize = 64;

impl VsiOpener {
    /// An object of a web server or a bucket; None for other paths.
    fn http(&self, path: &str) -> Result<Option<Arc<HttpFile>>> {
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = recent().iter().find(|f| f.path() == path) {
            return Ok(Some(Arc::clone(file)));
        }
        let Some(file) = HttpFile::new(path, &self.config)?.map(Arc::new) else { return Ok(None) };
        let mut recent = recent();
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&file));
        Ok(Some(file))
    }
}

fn is_vsi(path: &str) -> bool {
    path.starts_with("/vsi")
}

/// A path as other software writes it, `s3://bucket/key`, as GDAL's.
fn to_vsi(path: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = path.split_once("://") else { return Cow::Borrowed(path) };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" | "ftp" => Cow::Owned(format!("/vsicurl/{path}")),
        "s3" | "s3a" | "s3n" => Cow::Owned(format!("/vsis3/{rest}")),
        "gs" | "gcs" => Cow::Owned(format!("/vsigs/{rest}")),
        "az" => Cow::Owned(format!("/vsiaz/{rest}")),
        "oss" => Cow::Owned(format!("/vsioss/{rest}")),
        "swift" => Cow::Owned(format!("/vsiswift/{rest}")),
        "hdfs" => Cow::Owned(format!("/vsihdfs/{path}")),
        // A host may stand between.
        "file" => Cow::Owned(rest.find('/').map_or("/", |at| &rest[at..]).to_owned()),
        _ => Cow::Borrowed(path),
    }
}

struct VsiFile {
    handle: *mut gdal_sys::VSILFILE,
    path: String,
    size: u64,
    has_pread: bool,
    config: ThreadConfig,
    /// Held while a file without PRead seeks and reads.
    lock: Mutex<()>,
}

// SAFETY: the handle is only used by PRead, which VSI promises to be thread-safe, or under the lock.
unsafe impl Send for VsiFile {}
// SAFETY: as above.
unsafe impl Sync for VsiFile {}

impl Drop for VsiFile {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by VSIFOpenExL and is closed once.
        unsafe { gdal_sys::VSIFCloseL(self.handle) };
    }
}

/// Keeps GDAL's own messages of one operation from the user: they go into our error.
pub(super) struct Quiet;

impl Quiet {
    pub fn new(config: &ThreadConfig) -> Quiet {
        config.give();
        // SAFETY: a handler of GDAL's own; popped by drop, on the same thread.
        unsafe {
            gdal_sys::CPLPushErrorHandler(Some(gdal_sys::CPLQuietErrorHandler));
            gdal_sys::CPLErrorReset();
            ffi::mr_vsi_error_reset();
        }
        Quiet
    }

    /// What GDAL said.
    pub fn message(&self) -> String {
        // SAFETY: both return texts of this thread, valid until its next error.
        let texts = unsafe { [ffi::mr_vsi_error(), gdal_sys::CPLGetLastErrorMsg()] };
        for text in texts {
            if !text.is_null() {
                // SAFETY: not null, and with a NUL at its end.
                let message = unsafe { CStr::from_ptr(text) }.to_string_lossy();
                if !message.is_empty() {
                    return message.into_owned();
                }
            }
        }
        String::new()
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: pops what `new` pushed, on the same thread. What GDAL noted is no error of the caller's.
        unsafe {
            gdal_sys::CPLPopErrorHandler();
            gdal_sys::CPLErrorReset();
        }
    }
}

fn failed(path: &str, what: &str, quiet: &Quiet) -> Error {
    let message = quiet.message();
    let what = if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") };
    Error::Io { path: path.to_owned(), what }
}

pub(super) fn c_path(path: &str) -> Result<CString> {
    CString::new(path).map_err(|_| Error::Io { path: path.to_owned(), what: "its name has a NUL".into() })
}

impl Opener for VsiOpener {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        let path = to_vsi(path);
        let path = path.as_ref();
        if !is_vsi(path) {
            return LocalOpener.open(path);
        }
        if let Some(file) = self.http(path)? {
            return Ok(file);
        }
        let quiet = Quiet::new(&self.config);
        let name = c_path(path)?;
        // SAFETY: both texts live through the call; the handle is checked.
        let handle = unsafe { gdal_sys::VSIFOpenExL(name.as_ptr(), c"rb".as_ptr(), 1) };
        if handle.is_null() {
            return Err(failed(path, "can't be opened", &quiet));
        }
        // SAFETY: an open handle.
        let has_pread = unsafe { ffi::mr_vsi_has_pread(handle.cast::<c_void>()) };
        let config = self.config.clone();
        let mut file = VsiFile { handle, path: path.to_owned(), size: 0, has_pread, config, lock: Mutex::new(()) };
        // SAFETY: an open handle, of this thread alone so far.
        unsafe {
            if gdal_sys::VSIFSeekL(handle, 0, 2) != 0 {
                return Err(failed(path, "its size can't be had", &quiet));
            }
            file.size = gdal_sys::VSIFTellL(handle);
        }
        Ok(Arc::new(file))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let path = to_vsi(path);
        let path = path.as_ref();
        if !is_vsi(path) {
            return LocalOpener.stat(path);
        }
        if let Some(file) = self.http(path)? {
            return file.stat().map(Option::unwrap_or_default);
        }
        let quiet = Quiet::new(&self.config);
        let name = c_path(path)?;
        let (mut size, mut mtime) = (0, 0);
        // SAFETY: the text lives through the call; both places are ours.
        if !unsafe { ffi::mr_vsi_stat(name.as_ptr(), &raw mut size, &raw mut mtime) } {
            return Err(failed(path, "it does not exist, or can't be reached", &quiet));
        }
        Ok(Stat { size: Some(size), mtime: (mtime != 0).then_some(mtime), etag: None })
    }

    fn is_local(&self, path: &str) -> bool {
        let path = to_vsi(path);
        let path = path.as_ref();
        if !is_vsi(path) || path.starts_with("/vsimem/") {
            return true;
        }
        // SAFETY: the text lives through the call.
        c_path(path).is_ok_and(|name| unsafe { gdal_sys::VSIIsLocal(name.as_ptr()) } as c_int != 0)
    }

    fn is_folder(&self, path: &str) -> bool {
        if !is_vsi(path) {
            return LocalOpener.is_folder(path);
        }
        let _quiet = Quiet::new(&self.config);
        // SAFETY: the text lives through the call.
        c_path(path).is_ok_and(|name| unsafe { ffi::mr_vsi_is_folder(name.as_ptr()) })
    }

    fn list(&self, path: &str) -> Result<Vec<Listed>> {
        if !is_vsi(path) {
            return LocalOpener.list(path);
        }
        let quiet = Quiet::new(&self.config);
        let name = c_path(path)?;
        // SAFETY: the text lives through the call; -1 is any depth; the handle is checked.
        let folder = unsafe { gdal_sys::VSIOpenDir(name.as_ptr(), -1, std::ptr::null()) };
        if folder.is_null() {
            return Err(failed(path, "its files can't be listed", &quiet));
        }
        let mut files = Vec::new();
        // SAFETY: an open folder; the entry is valid until the next call.
        while let Some(entry) = unsafe { gdal_sys::VSIGetNextDirEntry(folder).as_ref() } {
            // SAFETY: an entry has a name.
            let own = unsafe { CStr::from_ptr(entry.pszName) };
            // A name that is not UTF-8 is no file of a Zarr. S_IFDIR has this bit, S_IFREG has not.
            if let Ok(own) = own.to_str()
                && !own.ends_with('/')
                && (entry.bModeKnown == 0 || entry.nMode & 0o170_000 != 0o040_000)
            {
                let size = (entry.bSizeKnown != 0).then_some(entry.nSize);
                let mtime = (entry.bMTimeKnown != 0 && entry.nMTime != 0).then_some(entry.nMTime);
                files.push(Listed { name: own.to_owned(), stat: Stat { size, mtime, etag: None } });
            }
            if files.len() > MAX_LISTED {
                break;
            }
        }
        // SAFETY: opened above, closed once.
        unsafe { gdal_sys::VSICloseDir(folder) };
        if files.len() > MAX_LISTED {
            return Err(Error::Io { path: path.to_owned(), what: format!("it has more than {MAX_LISTED} files") });
        }
        Ok(files)
    }
}

impl ByteReader for VsiFile {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let quiet = Quiet::new(&self.config);
        let read = if self.has_pread {
            // SAFETY: an open handle with PRead, which may be called from any thread; the buffer has that many bytes.
            unsafe { ffi::mr_vsi_pread(self.handle.cast(), buf.as_mut_ptr().cast(), buf.len(), offset) }
        } else {
            let _one = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: an open handle, under the lock; the buffer has that many bytes.
            unsafe {
                if gdal_sys::VSIFSeekL(self.handle, offset, 0) == 0 {
                    gdal_sys::VSIFReadL(buf.as_mut_ptr().cast(), 1, buf.len(), self.handle) as usize
                } else {
                    0
                }
            }
        };
        if read == buf.len() {
            return Ok(());
        }
        let what = match read {
            // VSI's size_t of -1.
            read if read > buf.len() => format!("{} bytes at {offset} could not be read", buf.len()),
            read => format!("only {read} of {} bytes at {offset} could be read", buf.len()),
        };
        Err(failed(&self.path, &what, &quiet))
    }

    fn path(&self) -> &str {
        &self.path
    }
}
