//! Lists all chunks of all arrays of HDF5 files, references only: `cargo bench --bench scan -- FILE...`
//!
//! Prints microseconds a chunk and milliseconds a file, medians of several rounds, warm cache. With `--peer`, those
//! of `hdf5-reader` too, for the arrays at the top of each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::scan;
use std::time::Instant;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        println!("usage: cargo bench --bench scan -- [--peer] FILE...");
        return;
    }
    let mut chunks = 0;
    let seconds = median(|| chunks = list(&files));
    report(files.len(), chunks, seconds);
    if std::env::args().any(|a| a == "--peer") {
        print!("hdf5-reader: ");
        report(files.len(), chunks, median(|| list_by_peer(&files)));
    }
}

/// Median of the seconds of seven rounds.
fn median(mut round: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn report(files: usize, chunks: u64, seconds: f64) {
    let (chunk, file) = (seconds / chunks.max(1) as f64 * 1e6, seconds / files as f64 * 1e3);
    println!("{files} files, {chunks} chunks: {chunk:.3} µs a chunk, {file:.3} ms a file");
}

/// The chunks of each array at the top, listed by hdf5-reader and not read.
fn list_by_peer(files: &[String]) {
    for file in files {
        let file = hdf5_reader::Hdf5File::open(std::path::Path::new(file)).unwrap();
        for dataset in file.root_group().unwrap().datasets().unwrap() {
            std::hint::black_box(dataset.iter_chunks().unwrap());
        }
    }
}

/// The number of chunks of all arrays.
fn list(files: &[String]) -> u64 {
    let mut chunks = 0;
    for file in files {
        let index = scan::open(LocalOpener.open(file).unwrap()).unwrap();
        for number in 0..index.arrays().len() {
            index
                .chunks(number, &mut |_| {
                    chunks += 1;
                    Ok(())
                })
                .unwrap();
        }
    }
    chunks
}
