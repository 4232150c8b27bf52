//! The corpus of the fuzz targets, and what once failed: each input ends with values or an error, within a second.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

/// Runs `target` on every file of a folder of `fuzz/corpus`.
fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let start = Instant::now();
        target(&bytes);
        assert!(start.elapsed() < Duration::from_secs(10), "{} takes too long", path.display());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn hdf5() {
    replay("hdf5", targets::scan_source);
}

#[test]
fn codec() {
    replay("codec", targets::decode_chunk);
}

#[test]
fn netcdf3() {
    replay("netcdf3", targets::scan_source);
}

#[test]
fn tiff() {
    replay("tiff", targets::scan_source);
}

#[test]
fn zarr() {
    replay("zarr", targets::scan_zarr);
}

#[test]
fn kerchunk() {
    replay("kerchunk", targets::read_kerchunk);
}
