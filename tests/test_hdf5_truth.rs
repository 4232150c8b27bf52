//! Every dataset of every real HDF5 file against what h5py says of it: byte ranges and values.
//!
//! The files and `truth.jsonl` are in the folder MDIMREFS_TEST_DATA (default `../shared/data`); without it the test says
//! so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mdimrefs::io::{LocalOpener, Opener};
use mdimrefs::model::{ByteOrder, swap_in_place};
use mdimrefs::scan::{self, Location, SourceIndex};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Arrays that can't be carried, by what the message must say, and why that is so.
const REFUSED: &[(&str, &str)] = &[
    ("type compound", "records of several types have no place in the format"),
    ("type reference", "addresses of objects mean nothing outside their file"),
    ("type region reference", "addresses of objects mean nothing outside their file"),
    ("type opaque", "bytes without a meaning"),
    ("type array", "an array within each element is compound too"),
    ("variable-length values that are not text", "sequences of any length"),
    ("null dataspace", "there are no values"),
    ("type integer of", "bits that no other format stores"),
    ("type float", "floats that are not IEEE 754"),
    ("type time", "libhdf5 does not read it either"),
    ("external files", "the bytes are in other files"),
    ("virtual dataset", "the values are in other files"),
];

/// Files that libhdf5 itself rejects.
const REJECTED: &[&str] = &[];

fn hash(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn check(
    index: &dyn SourceIndex,
    all: &[Value],
    truth: &Value,
    counts: &mut BTreeMap<String, usize>,
) -> Result<(), String> {
    let path = truth["dataset"].as_str().unwrap().trim_start_matches('/');
    let shape: Vec<u64> = truth["shape"].as_array().into_iter().flatten().map(|v| v.as_u64().unwrap()).collect();
    let name = match path.rsplit_once('/') {
        Some((group, own)) => format!("{group}/{}", own.trim_start_matches("_nc4_non_coord_")),
        None => path.trim_start_matches("_nc4_non_coord_").to_owned(),
    };
    // A dimension without a variable is a dataset for HDF5, but no array.
    let is_dimension = |n: &str| index.arrays().iter().any(|a| a.dims.iter().any(|d| d.name == n));
    let is_empty = truth["storage_size"] == 0 || truth["n_chunks"] == 0;
    let hidden = all.iter().any(|d| d["dataset"].as_str().unwrap().ends_with(&format!("_nc4_non_coord_{name}")));
    let found = index.arrays().iter().position(|a| a.name == name).filter(|_| !hidden);
    let Some(number) = found else {
        if (is_dimension(&name) || hidden || shape.len() == 1) && is_empty {
            *counts.entry("dimensions alone".into()).or_default() += 1;
            return Ok(());
        }
        let Some(refused) = index.refused().iter().find(|r| r.name == name || r.name == path) else {
            return Err("missing".into());
        };
        let why = refused.why.to_string();
        let Some((kind, _)) = REFUSED.iter().find(|(part, _)| why.contains(part)) else {
            return Err(format!("refused: {why}"));
        };
        *counts.entry(format!("refused: {kind}")).or_default() += 1;
        return Ok(());
    };
    let array = &index.arrays()[number];
    if array.shape() != shape {
        return Err(format!("shape {:?}, not {shape:?}", array.shape()));
    }
    let mut lines = Vec::new();
    let mut ranges = Vec::new();
    index
        .chunks(number, &mut |chunk| {
            if let Location::Range { offset, size } = chunk.location {
                let mut at: Vec<String> =
                    chunk.key.iter().zip(&array.chunks).map(|(k, c)| (k * c).to_string()).collect();
                if at.len() == 1 {
                    at.push(String::new());
                }
                let line = format!("({}),{},{offset},{size}\n", at.join(","), chunk.filter_mask);
                lines.push((chunk.key.to_vec(), line));
                ranges.push((offset, size));
            }
            Ok(())
        })
        .map_err(|e| e.to_string())?;
    let is_text = array.dtype.to_string() == "|O";
    if let Some(want) = truth["sha256"].as_str().filter(|_| !is_text) {
        lines.sort();
        let text: String = lines.iter().map(|(_, line)| line.as_str()).collect();
        if hash(text.as_bytes()) != want {
            let first: Vec<_> = lines.iter().take(3).collect();
            // libhdf5 2.2 itself lists the chunks of such an array wrongly: only its values can be compared.
            if truth["index"] == "ext_array" && truth["maxshape"][0] != Value::Null {
                *counts.entry("listed wrongly by libhdf5".into()).or_default() += 1;
            } else {
                return Err(format!("chunks differ ({}): {first:?}", truth["index"]));
            }
        }
    }
    if let (Some(offset), Some(size)) = (truth["byte_offset"].as_u64(), truth["storage_size"].as_u64())
        && !is_text
        && size > 0
        && ranges != [(offset, size)]
    {
        return Err(format!("range {ranges:?}, not {offset} {size}"));
    }
    if let Some(want) = truth["values_sha256_le"].as_str().filter(|_| array.dtype.is_numeric()) {
        let mut values = index.values(number, 1 << 30).map_err(|e| e.to_string())?;
        if array.dtype.order == ByteOrder::Big {
            swap_in_place(&mut values, array.dtype.swap_size());
        }
        if hash(&values) != want {
            return Err("values differ".into());
        }
        *counts.entry("values equal".into()).or_default() += 1;
    }
    *counts.entry("arrays".into()).or_default() += 1;
    Ok(())
}

#[test]
fn every_dataset_equals_h5py() {
    let folder = std::env::var_os("MDIMREFS_TEST_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let Ok(truth) = std::fs::read_to_string(folder.join("truth.jsonl")) else {
        eprintln!("SKIPPED: no truth.jsonl in {} (set MDIMREFS_TEST_DATA)", folder.display());
        return;
    };
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in truth.lines() {
        // Python's JSON has NaN.
        let line = line.replace(": NaN", ": null").replace(": Infinity", ": null").replace(": -Infinity", ": null");
        let value: Value = serde_json::from_str(&line).unwrap();
        if value.get("h5class").is_some() {
            files.entry(value["file"].as_str().unwrap().to_owned()).or_default().push(value);
        }
    }
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, datasets) in &files {
        let path = folder.join("real").join(name);
        let reader = LocalOpener.open(path.to_str().unwrap()).unwrap();
        let index = match scan::open(reader) {
            Ok(index) => index,
            Err(_) if REJECTED.contains(&name.as_str()) => continue,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        for dataset in datasets {
            if let Err(why) = check(index.as_ref(), datasets, dataset, &mut counts) {
                wrong.push(format!("{name} {}: {why}", dataset["dataset"]));
            }
        }
    }
    eprintln!("{} files: {counts:#?}", files.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
