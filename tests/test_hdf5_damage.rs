//! Damaged HDF5 files: whatever bytes are wrong, a scan ends with values or an error, soon, and without a panic.
//!
//! Checksums are put right after half of the changes, since whoever makes a file to do harm does so too.
//!
//! Small real files of MDIMREFS_TEST_DATA (default `../shared/data`) are changed at random; MDIMREFS_MUTATIONS (default
//! 150) is how often each. Without the folder the test says so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mdimrefs::Result;
use mdimrefs::io::ByteReader;
use mdimrefs::scan::{self, hdf5::lookup3};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Memory(Vec<u8>);

impl ByteReader for Memory {
    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from = usize::try_from(offset).unwrap();
        let bytes = self.0.get(from..from + buf.len()).expect("a read beyond the end of the file");
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn path(&self) -> &str {
        "damaged.h5"
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

fn small_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            small_files(&path, found);
        } else if path.metadata().unwrap().len() < 100_000 {
            found.push(path);
        }
    }
}

/// Structures that end in a checksum: (start, bytes before the checksum).
fn checked_structures(bytes: &[u8]) -> Vec<(usize, usize)> {
    const SIGNATURES: [&[u8]; 15] = [
        b"OHDR", b"OCHK", b"BTHD", b"BTLF", b"BTIN", b"FRHP", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB",
        b"SMTB", b"\x89HDF", b"FHIB",
    ];
    let mut found = Vec::new();
    for start in 0..bytes.len() {
        let rest = &bytes[start..];
        if SIGNATURES.iter().any(|s| rest.starts_with(s)) {
            let length = (8..rest.len().saturating_sub(4).min(4096))
                .find(|n| lookup3(&rest[..*n]).to_le_bytes() == rest[*n..*n + 4]);
            found.extend(length.map(|n| (start, n)));
        }
    }
    found
}

fn look_at_everything(bytes: Vec<u8>) {
    let Ok(index) = scan::open(Arc::new(Memory(bytes))) else { return };
    for number in 0..index.arrays().len().min(50) {
        let mut left = 100_000;
        let _ = index.chunks(number, &mut |_| {
            left -= 1;
            if left == 0 { Err(mdimrefs::Error::Cancelled) } else { Ok(()) }
        });
        let _ = index.values(number, 1 << 20);
    }
}

#[test]
fn damage_never_panics_or_hangs() {
    let folder = std::env::var_os("MDIMREFS_TEST_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let mutations: usize = std::env::var("MDIMREFS_MUTATIONS").ok().and_then(|m| m.parse().ok()).unwrap_or(150);
    let mut files = Vec::new();
    if folder.join("real").is_dir() {
        small_files(&folder.join("real"), &mut files);
    }
    if files.is_empty() {
        eprintln!("SKIPPED: there is no {} (set MDIMREFS_TEST_DATA)", folder.join("real").display());
        return;
    }
    files.sort();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for path in files {
        let original = std::fs::read(&path).unwrap();
        if !original.windows(4).any(|w| w == b"\x89HDF") {
            continue;
        }
        // Metadata is where structures are: near signatures and at the start.
        let places: Vec<usize> = original
            .windows(4)
            .enumerate()
            .filter(|(_, w)| w.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()))
            .map(|(i, _)| i)
            .collect();
        let structures = checked_structures(&original);
        for number in 0..mutations {
            let mut bytes = original.clone();
            for _ in 0..=random.next(4) {
                let near = places.get(random.next(places.len())).copied().unwrap_or(0) + random.next(200);
                let at = if number % 3 == 0 { random.next(bytes.len()) } else { near.min(bytes.len() - 1) };
                bytes[at] = match random.next(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[at] ^ (1 << random.next(8)),
                    _ => random.next(256) as u8,
                };
            }
            if number % 2 == 0 {
                for (start, length) in &structures {
                    let (body, rest) = bytes[*start..].split_at_mut(*length);
                    rest[..4].copy_from_slice(&lookup3(body).to_le_bytes());
                }
            }
            if random.next(20) == 0 {
                bytes.truncate(random.next(bytes.len()));
            }
            let start = Instant::now();
            look_at_everything(bytes);
            assert!(start.elapsed() < Duration::from_secs(5), "{} takes too long, number {number}", path.display());
        }
    }
}
