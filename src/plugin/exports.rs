//! What C++ calls. The declarations are in `cpp/mdimrefs_ffi.h`.

use super::ffi::{self, MrRawChunk};
use super::guard::{from_c, guard, to_c};
use super::select::{self, Selection};
use super::thread_config::{Call, ThreadConfig};
use super::vsi_reader::VsiOpener;
use super::{commands, describe, names};
use crate::io::Opener;
use crate::ops::parse_size;
use crate::read::{MissingSource, RawChunk, ReadOptions, Reader, Verify};
use crate::store::{OpenOptions, Store, Table};
use crate::{Error, Result};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};

/// An open store, as C++ holds it.
pub struct MrStore {
    pub(super) reader: Reader,
    config: ThreadConfig,
    /// Whether listings of chunks say where they are.
    pub(super) coords: bool,
    /// The tables, with what the option asks for.
    pub(super) tables: OnceLock<Vec<Table>>,
}

/// Loads the driver.
#[unsafe(no_mangle)]
pub extern "C" fn GDALRegister_MDIMREFS() {
    // SAFETY: the shim's own; it catches its exceptions.
    unsafe { ffi::mr_register() }
}

/// The same under the name that GDAL tries next.
#[unsafe(no_mangle)]
pub extern "C" fn GDALRegisterMe() {
    GDALRegister_MDIMREFS();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `to_c`, and freed once.
        drop(unsafe { CString::from_raw(text) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_is_store(head: *const u8, length: usize) -> bool {
    if head.is_null() {
        return false;
    }
    // SAFETY: the caller's bytes.
    crate::store::is_store(unsafe { std::slice::from_raw_parts(head, length) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_split_name(
    name: *const c_char,
    path: *mut *mut c_char,
    rest: *mut *mut c_char,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: texts and places of the caller, as the header says.
    unsafe {
        guard(error, false, || {
            let name = from_c(name).unwrap_or_default();
            let opener = VsiOpener::default();
            let _call = opener.config.enter();
            let is_file = |path: &str| match path.starts_with("/vsi") {
                true => opener.stat(path).is_ok(),
                false => std::path::Path::new(path).is_file(),
            };
            let (p, r) = names::split(&name, &is_file)?;
            *path = to_c(&p);
            *rest = to_c(&r);
            Ok(true)
        })
    }
}

struct Options {
    open: OpenOptions,
    read: ReadOptions,
    coords: bool,
}

fn parse_options(list: &[String]) -> Result<Options> {
    let (mut open, mut read, mut coords) = (OpenOptions::default(), ReadOptions::default(), false);
    for item in list {
        let Some((key, value)) = item.split_once('=') else { continue };
        let upper = value.to_ascii_uppercase();
        let bad = |wanted: &str| Error::Invalid(format!("open option {key}={value}: it is {wanted}"));
        let truth = || match upper.as_str() {
            "YES" | "TRUE" | "ON" | "1" => Ok(true),
            "NO" | "FALSE" | "OFF" | "0" => Ok(false),
            _ => Err(bad("YES or NO")),
        };
        match key.to_ascii_uppercase().as_str() {
            "TARGET" => open.target = Some(value.to_owned()),
            "NUM_THREADS" if upper == "ALL_CPUS" => {}
            "NUM_THREADS" => {
                let n = value.parse().ok().filter(|n| (1..=1024).contains(n));
                read.threads = n.ok_or_else(|| bad("a number from 1 to 1024, or ALL_CPUS"))?;
            }
            "CACHE_SIZE" => {
                read.cache_size = parse_size(value)
                    .and_then(|n| usize::try_from(n).ok())
                    .ok_or_else(|| bad("a number of bytes, or with MB or GB"))?
            }
            "VERIFY" => {
                read.verify = match upper.as_str() {
                    "NO" => Verify::No,
                    "SIZE" => Verify::Size,
                    "FULL" => Verify::Full,
                    _ => return Err(bad("NO, SIZE or FULL")),
                }
            }
            "MISSING_SOURCE" => {
                read.missing_source = match upper.as_str() {
                    "ERROR" => MissingSource::Error,
                    "FILL" => MissingSource::Fill,
                    _ => return Err(bad("ERROR or FILL")),
                }
            }
            "VERIFY_CHECKSUM" => read.verify_checksum = truth()?,
            "COORDS" => coords = truth()?,
            _ => {}
        }
    }
    Ok(Options { open, read, coords })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_open(
    path: *const c_char,
    options: *const *const c_char,
    error: *mut *mut c_char,
) -> *mut MrStore {
    // SAFETY: texts of the caller; the list ends with a null.
    unsafe {
        guard(error, std::ptr::null_mut(), || {
            let path = from_c(path).unwrap_or_default();
            let mut list = Vec::new();
            let mut at = options;
            while !at.is_null() && !(*at).is_null() {
                list.extend(from_c(*at));
                at = at.add(1);
            }
            let Options { mut open, read, coords } = parse_options(&list)?;
            if path.starts_with("/vsi") {
                open.vfs = Some(super::vfs::register()?);
            }
            let store = Arc::new(Store::open(&path, &open)?);
            let opener = VsiOpener::default();
            let config = opener.config.clone();
            let reader = Reader::new(store, Arc::new(opener), read)?;
            Ok(Box::into_raw(Box::new(MrStore { reader, config, coords, tables: OnceLock::new() })))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_close(store: *mut MrStore) {
    if !store.is_null() {
        // SAFETY: made by `mr_open`, and closed once.
        let store = unsafe { Box::from_raw(store) };
        // SAFETY: no error is wanted.
        unsafe {
            guard(std::ptr::null_mut(), (), || {
                drop(store);
                Ok(())
            });
        }
    }
}

/// What is behind a handle.
///
/// # Safety
/// `store` was made by `mr_open` and is not closed while it is used.
pub(super) unsafe fn handle<'a>(store: *const MrStore) -> Result<&'a MrStore> {
    // SAFETY: the caller's promise.
    unsafe { store.as_ref() }.ok_or_else(|| Error::Invalid("there is no open store".into()))
}

/// The reader behind a handle.
///
/// # Safety
/// As [`handle`].
pub(super) unsafe fn reader<'a>(store: *const MrStore) -> Result<&'a Reader> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { handle(store) }?.reader)
}

impl MrStore {
    /// The caller's configuration, on this thread and those that read for it, until the guard is dropped.
    pub(super) fn enter(&self) -> Call {
        self.config.enter()
    }
}

/// The reader behind a handle, for a call that reads sources.
///
/// # Safety
/// As [`reader`].
unsafe fn reading<'a>(store: *const MrStore) -> Result<(&'a Reader, Call)> {
    // SAFETY: the caller's promise.
    let store = unsafe { store.as_ref() }.ok_or_else(|| Error::Invalid("there is no open store".into()))?;
    Ok((&store.reader, store.config.enter()))
}

/// `n` values of the caller.
///
/// # Safety
/// `data` points to `n` values, or `n` is 0.
pub(super) unsafe fn slice<'a, T>(data: *const T, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if n == 0 || data.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(data, n) } }
}

/// Counts as the core has them.
///
/// # Safety
/// As [`slice`].
unsafe fn counts(data: *const usize, n: usize) -> Vec<u64> {
    // SAFETY: the caller's promise.
    unsafe { slice(data, n) }.iter().map(|c| *c as u64).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_describe(store: *const MrStore, error: *mut *mut c_char) -> *mut c_char {
    // SAFETY: a handle of the caller.
    unsafe { guard(error, std::ptr::null_mut(), || Ok(to_c(&describe::describe(reader(store)?)?))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_select(
    store: *const MrStore,
    name: *const c_char,
    indices: *mut u64,
    count: *mut usize,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: a handle, a text and places of the caller; `indices` has room for 32.
    unsafe {
        guard(error, -1, || {
            let (reader, _call) = reading(store)?;
            let Selection { array, indices: list } = select::select(reader, &from_c(name).unwrap_or_default())?;
            if list.len() > 32 {
                return Err(Error::Invalid("an array has more than 32 dimensions".into()));
            }
            for (i, index) in list.iter().enumerate() {
                *indices.add(i) = index.unwrap_or(u64::MAX);
            }
            *count = list.len();
            c_int::try_from(array).map_err(|_| Error::Invalid("there are too many arrays".into()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_labels(
    store: *const MrStore,
    array: usize,
    axis: usize,
    error: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: a handle of the caller.
    unsafe {
        guard(error, std::ptr::null_mut(), || {
            let (reader, _call) = reading(store)?;
            let dimension = reader.store().arrays().get(array).and_then(|a| a.dims.get(axis));
            let dimension = dimension.ok_or_else(|| Error::Invalid("there is no such dimension".into()))?;
            Ok(to_c(&serde_json::json!({"labels": reader.labels(dimension)?}).to_string()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_read(
    store: *const MrStore,
    array: usize,
    start: *const u64,
    count: *const usize,
    step: *const i64,
    strides: *const isize,
    rank: usize,
    out: *mut c_void,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: lists of `rank` values; the window and strides describe the caller's buffer.
    unsafe {
        guard(error, false, || {
            let count = counts(count, rank);
            let (start, step, strides) = (slice(start, rank), slice(step, rank), slice(strides, rank));
            let (reader, _call) = reading(store)?;
            reader.read_strided(array, start, &count, step, out.cast(), strides)?;
            Ok(true)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_read_strings(
    store: *const MrStore,
    array: usize,
    start: *const u64,
    count: *const usize,
    step: *const i64,
    rank: usize,
    sink: Option<unsafe extern "C" fn(*mut c_void, usize, *const c_char)>,
    user: *mut c_void,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: lists of `rank` values; the sink takes what it is given.
    unsafe {
        guard(error, false, || {
            let (reader, _call) = reading(store)?;
            let strings = reader.read_strings(array, slice(start, rank), &counts(count, rank), slice(step, rank))?;
            for (i, string) in strings.into_iter().enumerate() {
                let clean: Vec<u8> = string.into_bytes().into_iter().filter(|b| *b != 0).collect();
                let text = CString::new(clean).unwrap_or_default();
                if let Some(sink) = sink {
                    sink(user, i, text.as_ptr());
                }
            }
            Ok(true)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_advise(
    store: *const MrStore,
    array: usize,
    start: *const u64,
    count: *const usize,
    rank: usize,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: lists of `rank` values.
    unsafe {
        guard(error, false, || {
            let (reader, _call) = reading(store)?;
            reader.advise(array, slice(start, rank), &counts(count, rank))?;
            Ok(true)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_raw_chunk(
    store: *const MrStore,
    array: usize,
    key: *const u64,
    rank: usize,
    out: *mut MrRawChunk,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: `rank` values and a place of the caller.
    unsafe {
        guard(error, false, || {
            let (chunk, info) = reader(store)?.raw_chunk(array, slice(key, rank))?;
            let out = &mut *out;
            out.info = info.map_or(std::ptr::null_mut(), |i| to_c(&i));
            match chunk {
                RawChunk::Absent => out.state = 0,
                RawChunk::Range { path, offset, size } => {
                    (out.state, out.offset, out.size) = (1, offset, size);
                    out.path = to_c(&path);
                }
                RawChunk::Inline(data) => {
                    let data: Box<[u8]> = Box::from(&*data);
                    out.state = 2;
                    out.length = data.len();
                    out.data = Box::into_raw(data).cast();
                }
            }
            Ok(true)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_raw_chunk_free(chunk: *mut MrRawChunk) {
    // SAFETY: filled in by `mr_raw_chunk`; fields are cleared, so that a second call does nothing.
    unsafe {
        let Some(chunk) = chunk.as_mut() else { return };
        mr_string_free(std::mem::replace(&mut chunk.path, std::ptr::null_mut()));
        mr_string_free(std::mem::replace(&mut chunk.info, std::ptr::null_mut()));
        if !chunk.data.is_null() {
            let data = std::mem::replace(&mut chunk.data, std::ptr::null_mut());
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, chunk.length)));
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn mr_commands() -> *mut c_char {
    // SAFETY: no error is wanted.
    unsafe { guard(std::ptr::null_mut(), std::ptr::null_mut(), || Ok(to_c(&commands::table()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mr_run(
    name: *const c_char,
    arguments: *const c_char,
    progress: Option<unsafe extern "C" fn(*mut c_void, f64, *const c_char) -> bool>,
    warn: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
    user: *mut c_void,
    output: *mut *mut c_char,
    error: *mut *mut c_char,
) -> bool {
    // SAFETY: texts, functions and places of the caller; the functions are called on this thread while it waits.
    unsafe {
        guard(error, false, || {
            let (name, arguments) = (from_c(name).unwrap_or_default(), from_c(arguments).unwrap_or_default());
            let mut on_progress = |share: f64, message: &str| {
                let text = CString::new(message).unwrap_or_default();
                progress.is_none_or(|p| p(user, share, text.as_ptr()))
            };
            let mut on_warning = |message: &str| {
                let text = CString::new(message).unwrap_or_default();
                if let Some(warn) = warn {
                    warn(user, text.as_ptr());
                }
            };
            match commands::run(&name, &arguments, &mut on_progress, &mut on_warning) {
                Ok(text) => *output = to_c(&text),
                Err(e) => {
                    if let crate::Error::Failed { report, .. } = &e {
                        *output = to_c(report);
                    }
                    return Err(e);
                }
            }
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_options() {
        let of = |text: &str| parse_options(&[text.to_owned()]);
        assert_eq!(of("VERIFY=full").unwrap().read.verify, Verify::Full);
        assert_eq!(of("TARGET=t").unwrap().open.target.as_deref(), Some("t"));
        for bad in ["VERIFY=maybe", "NUM_THREADS=0", "NUM_THREADS=x", "MISSING_SOURCE=x", "CACHE_SIZE=1TBX"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
