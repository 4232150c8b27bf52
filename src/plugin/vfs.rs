//! A read-only VFS of SQLite on GDAL's VSI: stores in buckets, on web servers, in zip files, in memory.
//!
//! The file is taken as one that nobody changes: no locks, no journal, no file left behind. Pages are read through blocks
//! with read-ahead, so that opening a store costs a few requests.

use super::vsi_reader::VsiOpener;
use crate::io::{ByteReader, Opener};
use crate::{Error, Result};
use rusqlite::ffi;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const NAME: &CStr = c"mdimrefs-vsi";
/// Bytes of a block.
const BLOCK: u64 = 32 << 10;
/// Blocks that are kept of a file: 16 MiB.
const KEPT: usize = 512;
/// Blocks of the largest read-ahead.
const AHEAD: u64 = 8;

/// An open store file: `base` is what SQLite sees.
#[repr(C)]
struct VsiStore {
    base: ffi::sqlite3_file,
    pages: *mut Pages,
}

/// The blocks of one file.
struct Pages {
    reader: Arc<dyn ByteReader>,
    size: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    /// Block after the last run that was read, and its length: reads that go on get longer.
    next: u64,
    run: u64,
}

impl Pages {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let number = at / BLOCK;
            if !state.blocks.contains_key(&number) {
                self.load(&mut state, number)?;
            }
            let block = state.blocks.get(&number).map(Vec::as_slice).unwrap_or_default();
            let part = block.get((at % BLOCK) as usize..).unwrap_or_default();
            if part.is_empty() {
                let what = format!("the store has no byte {at}");
                return Err(Error::Io { path: self.reader.path().to_owned(), what });
            }
            let n = part.len().min(out.len() - done);
            out[done..done + n].copy_from_slice(&part[..n]);
            done += n;
        }
        Ok(())
    }

    fn load(&self, state: &mut State, first: u64) -> Result<()> {
        state.run = if first == state.next { (state.run * 2).clamp(1, AHEAD) } else { 1 };
        let mut end = first + 1;
        while end < first + state.run && end * BLOCK < self.size && !state.blocks.contains_key(&end) {
            end += 1;
        }
        state.next = end;
        let from = first * BLOCK;
        let mut bytes = vec![0; (end * BLOCK).min(self.size).saturating_sub(from) as usize];
        self.reader.read_at(from, &mut bytes)?;
        for (number, block) in (first..end).zip(bytes.chunks(BLOCK as usize)) {
            if state.blocks.insert(number, block.to_vec()).is_none() {
                state.order.push_back(number);
            }
            if state.order.len() > KEPT
                && let Some(oldest) = state.order.pop_front()
            {
                state.blocks.remove(&oldest);
            }
        }
        Ok(())
    }
}

/// Makes the VFS known to SQLite; returns its name.
///
/// # Errors
/// [`Error::Invalid`] if SQLite does not take it.
pub fn register() -> Result<&'static str> {
    static DONE: OnceLock<c_int> = OnceLock::new();
    let code = *DONE.get_or_init(|| {
        // SAFETY: looks up the default VFS, which lives as long as the process.
        let default = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        if default.is_null() {
            return ffi::SQLITE_ERROR;
        }
        // SAFETY: not null, and of SQLite's own type.
        let default = unsafe { &*default };
        let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
            iVersion: 1,
            szOsFile: size_of::<VsiStore>() as c_int,
            mxPathname: 8192,
            pNext: std::ptr::null_mut(),
            zName: NAME.as_ptr(),
            pAppData: std::ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: default.xRandomness,
            xSleep: default.xSleep,
            xCurrentTime: default.xCurrentTime,
            xGetLastError: None,
            xCurrentTimeInt64: None,
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        // SAFETY: the VFS is leaked, so it lives as long as the process; it is not made the default.
        unsafe { ffi::sqlite3_vfs_register(vfs, 0) }
    });
    if code == ffi::SQLITE_OK {
        Ok("mdimrefs-vsi")
    } else {
        Err(Error::Invalid(format!("SQLite does not take the VFS for remote stores (code {code})")))
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: None,
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Runs `f`; a panic is an error of SQLite's.
fn guarded(failed: c_int, f: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(failed)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a place of `szOsFile` bytes; without methods it is not closed.
    unsafe { (*file).pMethods = std::ptr::null() };
    guarded(ffi::SQLITE_CANTOPEN, || {
        if name.is_null() || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 || flags & ffi::SQLITE_OPEN_READONLY == 0 {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: a text with a NUL at its end.
        let path = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let opened = VsiOpener::default().open(&path).and_then(|reader| Ok((reader.size()?, reader)));
        let Ok((size, reader)) = opened else { return ffi::SQLITE_CANTOPEN };
        let pages = Box::new(Pages { reader, size, state: Mutex::default() });
        // SAFETY: the place is a `VsiStore`, as registered by its size.
        unsafe {
            let store = file.cast::<VsiStore>();
            (*store).pages = Box::into_raw(pages);
            (*store).base.pMethods = &raw const METHODS;
            if !out_flags.is_null() {
                *out_flags = flags;
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(ffi::SQLITE_IOERR_CLOSE, || {
        // SAFETY: made by `open`, and closed once.
        drop(unsafe { Box::from_raw((*file.cast::<VsiStore>()).pages) });
        ffi::SQLITE_OK
    })
}

/// The blocks of an open file.
///
/// # Safety
/// `file` was opened by `open` and is not closed while they are used.
unsafe fn pages<'a>(file: *mut ffi::sqlite3_file) -> &'a Pages {
    // SAFETY: the caller's promise.
    unsafe { &*(*file.cast::<VsiStore>()).pages }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, out: *mut c_void, n: c_int, offset: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_READ, || {
        // SAFETY: an open file; SQLite gives `n` bytes.
        let (pages, out) =
            unsafe { (pages(file), std::slice::from_raw_parts_mut(out.cast::<u8>(), n.max(0) as usize)) };
        let offset = offset.max(0) as u64;
        // Beyond the end there are zeros, and SQLite is told.
        let there = pages.size.saturating_sub(offset).min(out.len() as u64) as usize;
        let (wanted, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        match pages.read(offset, wanted) {
            Ok(()) if beyond.is_empty() => ffi::SQLITE_OK,
            Ok(()) => ffi::SQLITE_IOERR_SHORT_READ,
            Err(_) => ffi::SQLITE_IOERR_READ,
        }
    })
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: an open file and a place of SQLite's.
    unsafe { *size = pages(file).size as i64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn write(_: *mut ffi::sqlite3_file, _: *const c_void, _: c_int, _: i64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn truncate(_: *mut ffi::sqlite3_file, _: i64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn sync(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, locked: *mut c_int) -> c_int {
    // SAFETY: a place of SQLite's.
    unsafe { *locked = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_IMMUTABLE
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, found: *mut c_int) -> c_int {
    // Journals: there are none.
    // SAFETY: a place of SQLite's.
    unsafe { *found = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(_: *mut ffi::sqlite3_vfs, name: *const c_char, n: c_int, out: *mut c_char) -> c_int {
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: a text with a NUL at its end; `out` has `n` bytes.
        unsafe {
            let bytes = CStr::from_ptr(name).to_bytes_with_nul();
            if bytes.len() > n.max(0) as usize {
                return ffi::SQLITE_CANTOPEN;
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
        }
        ffi::SQLITE_OK
    })
}
