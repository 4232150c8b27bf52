//! Panics and errors at the seam: a caller in C++ gets a value and, on failure, a message.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Text for C++, freed by `mr_string_free`. NULs, which no text of ours has, are left out.
pub fn to_c(text: &str) -> *mut c_char {
    let clean: Vec<u8> = text.bytes().filter(|b| *b != 0).collect();
    CString::new(clean).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Text from C++.
///
/// # Safety
/// `text` is null or a text with a NUL at its end.
pub unsafe fn from_c(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Runs `f`. On an error, or a panic, `error` gets the message and `failed` is returned.
///
/// # Safety
/// `error` is null, or points to a pointer that may be written.
pub unsafe fn guard<T>(error: *mut *mut c_char, failed: T, f: impl FnOnce() -> crate::Result<T>) -> T {
    let message = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return value,
        Ok(Err(e)) => e.to_string(),
        Err(panic) => {
            let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            format!("internal error: {what}")
        }
    };
    if !error.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *error = to_c(&format!("MDIMREFS: {message}")) };
    }
    failed
}
