//! `get-refs --of DRIVER`: the block-info layer of one array, written by a vector driver of GDAL's.

use super::vsi_reader::VsiOpener;
use crate::model::Storage;
use crate::ops::{ArgValue, Args, Context, get_refs};
use crate::store::{OpenOptions, Store};
use crate::{Error, Result};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The vector driver that `args` of get-refs asks for, if it does.
pub fn asked(args: &Args) -> Option<&str> {
    args.text("of").filter(|of| !of.eq_ignore_ascii_case("MDIMREFS"))
}

/// A store that is only passed through.
struct Passing(PathBuf);

impl Passing {
    fn new() -> Passing {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Passing(std::env::temp_dir().join(format!("mdimrefs-{}-{number}.sqlite", std::process::id())))
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm", "-journal", ".partial"] {
            let mut name = self.0.clone().into_os_string();
            name.push(end);
            // Most were never there.
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Scans into a store that is then written as a layer.
///
/// # Errors
/// Those of get-refs; [`Error::Invalid`] if there is not exactly one array, or the output can't be written.
pub fn write(of: &str, args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let output = args.required("output")?;
    for flag in ["append", "rescan"] {
        if args.flag(flag) {
            return Err(Error::Invalid(format!("--{flag} goes with a store, not with --of {of}")));
        }
    }
    let driver = Driver::find(of)?;
    let exists = VsiOpener::default();
    let exists = crate::io::Opener::stat(&exists, output).is_ok();
    if exists && !args.flag("overwrite") {
        return Err(Error::Invalid(format!("{output} exists already: --overwrite replaces it")));
    }
    let store = Passing::new();
    store.remove();
    let path = store.0.to_string_lossy().into_owned();
    let mut inner = args.clone();
    inner.0.remove("of");
    inner.0.remove("overwrite");
    inner.0.insert("output".into(), ArgValue::Text(path.clone()));
    let mut progress = |share: f64, message: &str| (ctx.progress)(share * 0.9, message);
    (get_refs::COMMAND.run)(
        &inner,
        &mut Context { opener: ctx.opener.clone(), progress: &mut progress, warn: ctx.warn },
    )?;
    let array = only_array(&path)?;
    if exists {
        driver.delete(output)?;
    }
    translate(&path, &format!("refs_{array}"), of, output)?;
    ctx.report(1.0, "")?;
    Ok(format!("refs_{array}\n{output}\n"))
}

/// The one array with chunks in a store.
fn only_array(path: &str) -> Result<String> {
    let store = Store::open(path, &OpenOptions::default())?;
    let names: Vec<&str> =
        store.arrays().iter().filter(|a| a.storage == Storage::Referenced).map(|a| a.name.as_str()).collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(Error::Invalid("there is no array with chunks in files".into())),
        _ => Err(Error::Invalid(format!(
            "a block-info layer is of one array: choose one with --array, of {}",
            names.join(", ")
        ))),
    }
}

/// GDAL's last error.
fn last_error() -> String {
    // SAFETY: GDAL's text of this thread, valid until its next call here.
    unsafe { CStr::from_ptr(gdal_sys::CPLGetLastErrorMsg()) }.to_string_lossy().into_owned()
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Invalid(format!("{text:?} has a NUL")))
}

struct Driver(gdal_sys::GDALDriverH);

impl Driver {
    fn find(name: &str) -> Result<Driver> {
        let text = c_text(name)?;
        // SAFETY: a text with a NUL at its end; the driver lives as long as the process.
        let handle = unsafe { gdal_sys::GDALGetDriverByName(text.as_ptr()) };
        if handle.is_null() {
            return Err(Error::Invalid(format!("--of {name}: GDAL has no such driver here")));
        }
        let has = |key: &CStr| {
            // SAFETY: a driver's handle; metadata items are texts or null.
            let item = unsafe { gdal_sys::GDALGetMetadataItem(handle, key.as_ptr(), ptr::null()) };
            // SAFETY: as above.
            !item.is_null() && unsafe { CStr::from_ptr(item) } == c"YES"
        };
        if !has(c"DCAP_VECTOR") || !(has(c"DCAP_CREATE") || has(c"DCAP_CREATECOPY")) {
            return Err(Error::Invalid(format!("--of {name}: it is not a driver that writes tables")));
        }
        Ok(Driver(handle))
    }

    /// Deletes a dataset of this driver.
    fn delete(&self, path: &str) -> Result<()> {
        let text = c_text(path)?;
        // SAFETY: a driver's handle; a text that lives as long as the process.
        let drivers = [unsafe { gdal_sys::GDALGetDriverShortName(self.0) }, ptr::null()];
        // SAFETY: texts and a list that end in NUL.
        let old =
            unsafe { gdal_sys::GDALOpenEx(text.as_ptr(), OPEN_FLAGS, drivers.as_ptr(), ptr::null(), ptr::null()) };
        if old.is_null() {
            return Err(Error::Invalid(format!("{path} is not what --of writes: it is not replaced; remove it first")));
        }
        // SAFETY: an open dataset.
        unsafe { gdal_sys::GDALClose(old) };
        // SAFETY: a driver's handle and a text.
        if unsafe { gdal_sys::GDALDeleteDataset(self.0, text.as_ptr()) } != gdal_sys::CPLErr::CE_None {
            return Err(Error::Invalid(format!("{path} can't be replaced: {}", last_error())));
        }
        Ok(())
    }
}

/// `GDAL_OF_VECTOR | GDAL_OF_VERBOSE_ERROR`: macros with casts, which bindgen leaves out.
const OPEN_FLAGS: u32 = 0x04 | 0x40;

fn translate(store: &str, layer: &str, of: &str, output: &str) -> Result<()> {
    let (store, output) = (c_text(&format!("MDIMREFS:\"{store}\""))?, c_text(output)?);
    let arguments = [c_text("-f")?, c_text(of)?, c_text("-nln")?, c_text(layer)?, c_text(layer)?];
    let mut pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr().cast_mut()).collect();
    pointers.push(ptr::null_mut());
    let drivers = [c"MDIMREFS".as_ptr(), ptr::null()];
    let failed = || Error::Invalid(format!("{}: {}", output.to_string_lossy(), last_error()));
    // SAFETY: texts and lists that end in NUL and live through the calls; every handle is used while it is open.
    unsafe {
        let source = gdal_sys::GDALOpenEx(store.as_ptr(), OPEN_FLAGS, drivers.as_ptr(), ptr::null(), ptr::null());
        if source.is_null() {
            return Err(failed());
        }
        let options = gdal_sys::GDALVectorTranslateOptionsNew(pointers.as_mut_ptr(), ptr::null_mut());
        if options.is_null() {
            gdal_sys::GDALClose(source);
            return Err(failed());
        }
        let (mut sources, mut usage_error) = ([source], 0);
        let written = gdal_sys::GDALVectorTranslate(
            output.as_ptr(),
            ptr::null_mut(),
            1,
            sources.as_mut_ptr(),
            options,
            &mut usage_error,
        );
        // What is written may fail as late as when it is closed.
        let is_written = !written.is_null() && gdal_sys::GDALClose(written) == gdal_sys::CPLErr::CE_None;
        let result = if is_written { Ok(()) } else { Err(failed()) };
        gdal_sys::GDALVectorTranslateOptionsFree(options);
        gdal_sys::GDALClose(source);
        result
    }
}
