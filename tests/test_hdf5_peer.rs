//! Random HDF5 files, read by this crate's reader and by `hdf5-reader`, another one in Rust.
//!
//! `autotest/make_cases.py` writes them (Python with h5py; without, the test says so and passes). MDIMREFS_CASES (default
//! 100) is how many.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::scan;
use std::path::Path;
use std::process::Command;

#[test]
fn random_files() {
    let cases: usize = std::env::var("MDIMREFS_CASES").ok().and_then(|m| m.parse().ok()).unwrap_or(100);
    let folder = std::env::temp_dir().join(format!("mdimrefs-peer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("autotest/make_cases.py");
    let made = Command::new("python3").arg(script).arg(&folder).args(["0", &cases.to_string()]).output();
    if made.as_ref().is_ok_and(|m| m.status.success()) {
        let compared = (0..cases).filter(|n| compare(&folder.join(format!("{n}.h5")))).count();
        assert!(compared * 3 >= cases, "only {compared} of {cases} could be compared");
    } else {
        eprintln!("SKIPPED: there is no python3 with h5py: {made:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Whether the file could be compared.
fn compare(path: &Path) -> bool {
    let index = scan::open(LocalOpener.open(path.to_str().unwrap()).unwrap()).unwrap();
    let [array] = index.arrays() else { panic!("{}: not one array", path.display()) };
    let ours = index.values(0, 1 << 30).unwrap();
    let file = hdf5_reader::Hdf5File::open(path).unwrap();
    let dataset = file.dataset(&array.name).unwrap();
    // It lays arrays of chunks out by the shape, where the format says the largest shape.
    let larger = |max: &[u64]| max.iter().zip(dataset.shape()).any(|(max, size)| *max != u64::MAX && max > size);
    if file.superblock().version >= 2 && dataset.max_dims().is_some_and(larger) {
        return false;
    }
    let theirs = dataset.read_raw_bytes().unwrap();
    assert_eq!(dataset.shape(), array.shape(), "{}", path.display());
    assert!(ours == theirs, "{}: the values differ: {array:?}", path.display());
    true
}
