//! GDAL's configuration options are also kept for each thread (Python's `gdal.config_option`): a thread that reads on
//! behalf of another has to be given them.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Calls of GDAL that this thread is in. Such a thread has its own options.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread got the options of the thread that it works for.
    static GIVEN: Cell<bool> = const { Cell::new(false) };
}

/// Options of the thread that last called, for the threads that work for it. If two threads with different options read
/// one store at the same time, both have their own, and the threads that work for them those of either.
#[derive(Clone, Debug, Default)]
pub struct ThreadConfig(Arc<Mutex<Vec<CString>>>);

/// A call of GDAL, as long as this lives.
#[must_use]
pub struct Call(());

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.set(CALLS.get().saturating_sub(1));
    }
}

impl ThreadConfig {
    fn lock(&self) -> MutexGuard<'_, Vec<CString>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the options of this thread, which GDAL called.
    pub fn enter(&self) -> Call {
        CALLS.set(CALLS.get() + 1);
        let mut options = Vec::new();
        // SAFETY: a list of texts with a null at its end, ours to destroy.
        unsafe {
            let list = gdal_sys::CPLGetThreadLocalConfigOptions();
            let mut at = list;
            while !at.is_null() && !(*at).is_null() {
                options.push(CStr::from_ptr(*at).to_owned());
                at = at.add(1);
            }
            gdal_sys::CSLDestroy(list);
        }
        *self.lock() = options;
        Call(())
    }

    /// Gives this thread the options that were noted, if it works for another and has not got them yet.
    pub fn give(&self) {
        if CALLS.get() > 0 || GIVEN.replace(true) {
            return;
        }
        let options = self.lock();
        let mut list: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        list.push(std::ptr::null());
        // SAFETY: a list of texts with a null at its end, which GDAL copies.
        unsafe { gdal_sys::CPLSetThreadLocalConfigOptions(list.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(key: &CStr) -> Option<String> {
        // SAFETY: a text; what is returned is null or a text of this thread.
        unsafe {
            let value = gdal_sys::CPLGetConfigOption(key.as_ptr(), std::ptr::null());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    #[test]
    fn a_thread_that_works_for_another_has_its_options() {
        const KEY: &CStr = c"MDIMREFS_TEST_THREAD_CONFIG";
        // SAFETY: two texts.
        unsafe { gdal_sys::CPLSetThreadLocalConfigOption(KEY.as_ptr(), c"yes".as_ptr()) };
        let config = ThreadConfig::default();
        let _call = config.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(option(KEY), None);
                config.give();
                assert_eq!(option(KEY).as_deref(), Some("yes"));
            });
            // A caller keeps its own.
            scope.spawn(|| {
                let other = ThreadConfig::default();
                let _call = other.enter();
                config.give();
                assert_eq!(option(KEY), None);
            });
        });
    }
}
