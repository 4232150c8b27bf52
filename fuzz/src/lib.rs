//! Fuzz targets of mdimrefs: `targets`, and the bound on memory that they run in.

pub mod targets;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An allocator that ends the process when more memory is in use than [`LIMIT`] at once.
pub struct Bounded;

/// Bytes in use, at most: 64 MB, and what libFuzzer and its inputs need.
pub const LIMIT: usize = (64 << 20) + (16 << 20);

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IN_USE.fetch_add(layout.size(), Relaxed) + layout.size() > LIMIT {
            // What follows needs memory too.
            IN_USE.store(0, Relaxed);
            let trace = std::backtrace::Backtrace::force_capture();
            eprintln!("{} bytes more than {LIMIT} are in use\n{trace}", layout.size());
            std::process::abort();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
