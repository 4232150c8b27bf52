//! kerchunk's references as one JSON file, version 1.

use super::{Entry, Export, zarr2};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;

/// References between two reports of progress.
const STEP: u64 = 1 << 16;

/// Bytes as kerchunk writes them into JSON.
fn inline(data: &[u8]) -> String {
    format!("\"base64:{}\"", STANDARD.encode(data))
}

/// `2.0.1`; a scalar has the key `0`.
fn key_text(key: &mut String, numbers: &[u64]) {
    for (i, k) in numbers.iter().enumerate() {
        let _ = write!(key, "{}{k}", if i > 0 { "." } else { "" });
    }
    if numbers.is_empty() {
        key.push('0');
    }
}

/// Writes all references to `out`. `step` is called now and then with the number of references written.
///
/// # Errors
/// [`Error::Unsupported`] with the list of what Zarr v2 does not hold; [`Error::Io`]; errors of the store and of `step`.
pub fn write(
    export: &Export<'_>,
    path: &str,
    out: &mut impl Write,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let store = export.reader.store();
    let failed = |e: std::io::Error| Error::Io { path: path.to_owned(), what: e.to_string() };
    let metadata = export.metadata(&|_| Ok(()))?;
    out.write_all(b"{\"version\":1,\"refs\":{\n").map_err(failed)?;
    let text = |v: &Value| Value::String(v.to_string()).to_string();
    let mut separator = "";
    let names = export.arrays.iter().map(|n| store.arrays()[*n].name.as_str());
    for group in zarr2::groups(names) {
        let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
        let attrs = store.group_attrs(&group).map_or_else(|| json!({}), |a| a.to_json());
        for (file, value) in [(".zgroup", json!({"zarr_format": 2})), (".zattrs", attrs)] {
            write!(out, "{separator}{}:{}", Value::String(format!("{prefix}{file}")), text(&value)).map_err(failed)?;
            separator = ",\n";
        }
    }
    let mut written = 0u64;
    for (number, meta) in export.arrays.iter().zip(&metadata) {
        let desc = &store.arrays()[*number];
        for (file, value) in [(".zarray", &meta.zarray), (".zattrs", &meta.zattrs)] {
            let key = Value::String(format!("{}/{file}", desc.name));
            write!(out, "{separator}{key}:{}", text(value)).map_err(failed)?;
        }
        let prefix = Value::String(format!("{}/", desc.name)).to_string();
        let prefix = prefix.trim_end_matches('"');
        // The URL of the last chunk, and as it is written.
        let mut last = (String::new(), String::new());
        let mut line = String::new();
        export.each_entry(*number, meta.absent.as_deref(), &mut |_, key, entry| {
            line.clear();
            line.push_str(",\n");
            line.push_str(prefix);
            key_text(&mut line, key);
            line.push_str("\":");
            match entry {
                Entry::Range(url, offset, size) => {
                    if last.0 != url {
                        last = (url.to_owned(), Value::String(url.to_owned()).to_string());
                    }
                    let _ = write!(line, "[{},{offset},{size}]", last.1);
                }
                Entry::Inline(data) => line.push_str(&inline(data)),
            }
            out.write_all(line.as_bytes()).map_err(failed)?;
            written += 1;
            if written.is_multiple_of(STEP) { step(written) } else { Ok(()) }
        })?;
    }
    out.write_all(b"\n}}\n").map_err(failed)?;
    step(written)
}
