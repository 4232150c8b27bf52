//! Every array of every real netCDF classic, TIFF and Zarr source against what an independent parser of the format says of it.
//!
//! The files and `truth.jsonl` are in the folder MDIMREFS_TEST_DATA (default `../shared/data`); without it the test says
//! so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::scan::{self, Location};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Files that must be refused, and what is said of them.
const DAMAGED: &[(&str, &str)] = &[("netcdf-c/nc_test__bad_cdf5_begin.nc", "begins before byte")];

fn hash(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// The folder, and the lines of the truth by file.
fn truth() -> Option<(PathBuf, BTreeMap<String, Vec<Value>>)> {
    let folder = std::env::var_os("MDIMREFS_TEST_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let Ok(truth) = std::fs::read_to_string(folder.join("truth.jsonl")) else {
        eprintln!("SKIPPED: no truth.jsonl in {} (set MDIMREFS_TEST_DATA)", folder.display());
        return None;
    };
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in truth.lines() {
        // Python's JSON has NaN.
        let line = line.replace(": NaN", ": null").replace(": Infinity", ": null").replace(": -Infinity", ": null");
        let value: Value = serde_json::from_str(&line).unwrap();
        files.entry(value["file"].as_str().unwrap().to_owned()).or_default().push(value);
    }
    Some((folder, files))
}

fn list(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().map(|v| v.as_u64().unwrap()).collect()
}

/// A tuple as Python writes it.
fn tuple(list: &[u64]) -> String {
    let mut items: Vec<String> = list.iter().map(u64::to_string).collect();
    if items.len() == 1 {
        items.push(String::new());
    }
    format!("({})", items.join(","))
}

#[test]
fn netcdf_classic() {
    let Some((folder, files)) = truth() else { return };
    let (mut arrays, mut wrong) = (0, Vec::new());
    for (name, lines) in &files {
        if !lines.iter().any(|l| l["layout"].as_str().is_some_and(|l| l.starts_with("netcdf3"))) {
            continue;
        }
        let reader = LocalOpener.open(folder.join("real").join(name).to_str().unwrap()).unwrap();
        let index = match (scan::open(reader), DAMAGED.iter().find(|(n, _)| n == name)) {
            (Err(e), Some((_, what))) if e.to_string().contains(what) => continue,
            (Ok(index), None) => index,
            (result, _) => {
                wrong.push(format!("{name}: {:?}", result.err()));
                continue;
            }
        };
        assert_eq!(index.arrays().len(), lines.len(), "{name}");
        for line in lines {
            let array = line["dataset"].as_str().unwrap().trim_start_matches('/').trim_end_matches('\0');
            let Some(number) = index.arrays().iter().position(|a| a.name == array) else {
                wrong.push(format!("{name} {array}: missing"));
                continue;
            };
            let found = &index.arrays()[number];
            let mut rows = Vec::new();
            index
                .chunks(number, &mut |chunk| {
                    let at: Vec<u64> = chunk.key.iter().zip(&found.chunks).map(|(k, c)| k * c).collect();
                    let Location::Range { offset, size } = chunk.location else { panic!("no range") };
                    rows.push((chunk.key.to_vec(), format!("{},0,{offset},{size}\n", tuple(&at))));
                    Ok(())
                })
                .unwrap();
            rows.sort();
            let text: String = rows.iter().map(|(_, row)| row.as_str()).collect();
            let dtype = line["dtype"].as_str().unwrap().replace(">i1", "|i1").replace(">char", "|S1");
            let same = found.shape() == list(&line["shape"])
                && found.chunks == list(&line["chunks"])
                && found.dtype.to_string() == dtype
                && hash(text.as_bytes()) == line["sha256"].as_str().unwrap();
            if !same {
                wrong.push(format!("{name} {array}: {found:?} {line} {:?}", rows.first()));
            }
            arrays += 1;
        }
    }
    eprintln!("{arrays} arrays");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Offset and size of last strips with fewer rows than the others, which a store carries padded: from `tiffdump`.
const SHORT_STRIPS: &[(&str, u64, u64)] = &[
    ("stars/L7_ETMs.tif", 596_537, 1658),
    ("earthkit-data/dgm50hs_col_32_368_5616_nw_bigtiff.tiff", 273_088, 5670),
    ("vapour/sst.tif", 111_231, 2324),
];

#[test]
fn tiff() {
    let Some((folder, files)) = truth() else { return };
    let (mut images, mut wrong) = (0, Vec::new());
    for (name, lines) in &files {
        let Some(line) = lines.iter().find(|l| l["dataset"] == "ifd0") else { continue };
        let reader = LocalOpener.open(folder.join("real").join(name).to_str().unwrap()).unwrap();
        let index = scan::open(reader).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Overviews and masks are no data.
        let data: Vec<_> = index.arrays().iter().filter(|a| a.name.starts_with("data")).collect();
        assert_eq!(data.len(), 1, "{name}: {:?}", index.refused());
        let number = index.arrays().iter().position(|a| a.name == "data").unwrap();
        let counts: Vec<u64> = data[0].shape().iter().zip(&data[0].chunks).map(|(s, c)| s.div_ceil(*c)).collect();
        let mut rows = Vec::new();
        index
            .chunks(number, &mut |chunk| {
                let at = chunk.key.iter().zip(&counts).fold(0, |at, (k, n)| at * n + k);
                let (offset, size) = match chunk.location {
                    Location::Range { offset, size } => (offset, size),
                    Location::Inline(_) => {
                        assert_eq!(chunk.key[0], counts[0] - 1);
                        let (_, offset, size) = SHORT_STRIPS.iter().find(|(n, ..)| n == name).expect(name);
                        (*offset, *size)
                    }
                    Location::Absent | Location::Part { .. } => panic!("absent, or elsewhere"),
                };
                rows.push((at, format!("({at},),0,{offset},{size}\n")));
                Ok(())
            })
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        rows.sort();
        let text: String = rows.iter().map(|(_, row)| row.as_str()).collect();
        let mut shape = list(&line["shape"]);
        if shape[2] == 1 {
            shape.pop();
        }
        let same = data[0].shape() == shape
            && data[0].chunks[..2] == list(&line["chunks"])
            && hash(text.as_bytes()) == line["sha256"].as_str().unwrap();
        if !same {
            wrong.push(format!("{name}: {:?} {line} {:?}", data[0], rows.first()));
        }
        images += 1;
    }
    eprintln!("{images} images");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn zarr() {
    let Some((folder, files)) = truth() else { return };
    let opener: Arc<dyn Opener> = Arc::new(LocalOpener);
    let (mut arrays, mut wrong) = (0, Vec::new());
    for (name, lines) in &files {
        if !lines.iter().any(|l| l["layout"].as_str().is_some_and(|l| l.starts_with("zarr"))) {
            continue;
        }
        let path = folder.join("real").join(name).to_str().unwrap().to_owned();
        let index = scan::open_path(&opener, &path).unwrap_or_else(|e| panic!("{name}: {e}")).index;
        assert_eq!(index.arrays().len(), lines.len(), "{name}: {:?}", index.refused());
        for line in lines {
            let array = match line["dataset"].as_str().unwrap().trim_start_matches('/') {
                "." => "v2_array_blosc_C",
                array => array,
            };
            let number = index.arrays().iter().position(|a| a.name == array).unwrap();
            let found = &index.arrays()[number];
            // The truth has files: of a shard's chunks, the last byte is before the table.
            let mut rows = BTreeMap::new();
            index
                .chunks(number, &mut |chunk| {
                    let Location::Part { part, offset, size } = chunk.location else { panic!("no file") };
                    let whole = std::fs::metadata(&part.path).unwrap().len();
                    assert!(line["chunks"] != serde_json::json!(found.chunks) || (offset, size) == (0, whole));
                    assert!(offset + size <= whole);
                    let prefix = format!("{path}/{}/", if array == "v2_array_blosc_C" { "." } else { array });
                    let key = part.path.replace(&prefix.replace("/./", "/"), "");
                    rows.insert(key.trim_start_matches("c/").to_owned(), (key, whole));
                    Ok(())
                })
                .unwrap();
            let text: String = rows.values().map(|(key, size)| format!("{key},0,0,{size}\n")).collect();
            if found.shape() != list(&line["shape"]) || hash(text.as_bytes()) != line["sha256"].as_str().unwrap() {
                wrong.push(format!("{name} {array}: {found:?} {line} {text}"));
            }
            arrays += 1;
        }
    }
    eprintln!("{arrays} arrays");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
