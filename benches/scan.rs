//! Lists all chunks of all arrays of HDF5 files, references only: `cargo bench --bench scan -- FILE...`
//!
//! Prints microseconds a chunk and milliseconds a file, medians of several rounds, warm cache.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::scan;
use std::time::Instant;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        println!("usage: cargo bench --bench scan -- FILE...");
        return;
    }
    let mut times = Vec::new();
    let mut chunks = 0u64;
    for _ in 0..7 {
        chunks = 0;
        let start = Instant::now();
        for file in &files {
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
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!(
        "{} files, {chunks} chunks: {:.3} µs a chunk, {:.3} ms a file",
        files.len(),
        median / chunks.max(1) as f64 * 1e6,
        median / files.len() as f64 * 1e3
    );
}
