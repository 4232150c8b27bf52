//! kerchunk's references as one JSON file, version 1.

use super::{Export, Seen, url, zarr2};
use crate::model::Storage;
use crate::read::RawChunk;
use crate::store::{Cell, view_name};
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
    let (metadata, refused): (Vec<_>, Vec<_>) = export
        .arrays
        .iter()
        .map(|n| zarr2::array(&store.arrays()[*n], export.leave_out_absent).map_err(|why| (*n, why)))
        .partition(|m| m.is_ok());
    let refused: Vec<String> = refused
        .into_iter()
        .filter_map(Result::err)
        .map(|(n, why)| format!("array \"{}\": {why}", store.arrays()[n].name))
        .collect();
    if !refused.is_empty() {
        return Err(Error::Plan(format!(
            "kerchunk references can't hold (choose others with --array):\n  {}",
            refused.join("\n  ")
        )));
    }
    let metadata: Vec<zarr2::ZarrArray> = metadata.into_iter().filter_map(Result::ok).collect();
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
        let grid = desc.grid()?;
        if desc.storage != Storage::Referenced {
            if !grid.is_empty() {
                let key = vec![0; grid.shape.len()];
                if let (RawChunk::Inline(data), _) = export.reader.raw_chunk(*number, &key)? {
                    let mut text = String::new();
                    key_text(&mut text, &key);
                    write!(out, ",\n{prefix}{text}\":{}", inline(&data)).map_err(failed)?;
                }
            }
            continue;
        }
        let unscanned = store.unscanned(*number)?;
        if !unscanned.is_empty() {
            let what = format!("array \"{}\": not scanned: {}", desc.name, unscanned.join(", "));
            return Err(Error::Store { path: store.path().to_owned(), what });
        }
        let counts = grid.counts();
        let rank = counts.len();
        let mut seen = Seen::new(&desc.name, grid.len())?;
        let whole = view_name(&desc.name);
        let tables = store.tables()?;
        let table = tables.iter().find(|t| t.array == Some(*number)).ok_or_else(|| Error::Store {
            path: store.path().to_owned(),
            what: format!("array \"{}\": there is no {whole}", desc.name),
        })?;
        // The path of the last row, as it is written.
        let mut last = (String::new(), String::new());
        let mut line = String::new();
        let mut key = vec![0u64; rank];
        store.each_row(table, None, &mut |place, cells| {
            let bad = |what: &str| Error::Store {
                path: store.path().to_owned(),
                what: format!("array \"{}\", chunk {:?}: {what}", desc.name, &cells[..rank]),
            };
            for (k, cell) in key.iter_mut().zip(cells) {
                *k = match cell {
                    Cell::Integer(i) => u64::try_from(*i).map_err(|_| bad("its key is negative"))?,
                    _ => return Err(bad("its key is not a number")),
                };
            }
            let present = cells[rank] != Cell::Integer(0);
            let value = match (&cells[rank + 1], &cells[rank + 2], &cells[rank + 3], &cells[rank + 5]) {
                _ if !present => None,
                (Cell::Text(path), Cell::Integer(offset), Cell::Integer(size), _) if *offset >= 0 && *size > 0 => {
                    if last.0 != **path {
                        let opened = store.opened(path);
                        let url = url::of_path(&opened).ok_or_else(|| {
                            bad(&format!("only GDAL opens {opened}: kerchunk references can't hold it"))
                        })?;
                        last = ((*path).to_owned(), Value::String(url).to_string());
                    }
                    Some(format!("[{},{offset},{size}]", last.1))
                }
                (_, Cell::Null, _, Cell::Blob(data)) => Some(inline(data)),
                _ => return Err(bad("it has neither a byte range nor data")),
            };
            let Some(value) = value else { return Ok(true) };
            if !seen.mark(u64::try_from(place).unwrap_or(u64::MAX)) {
                return Err(bad("there are two rows for it"));
            }
            line.clear();
            line.push_str(",\n");
            line.push_str(prefix);
            key_text(&mut line, &key);
            line.push_str("\":");
            line.push_str(&value);
            out.write_all(line.as_bytes()).map_err(failed)?;
            written += 1;
            if written.is_multiple_of(STEP) {
                step(written)?;
            }
            Ok(true)
        })?;
        if let Some(absent) = &meta.absent {
            let value = inline(absent);
            for place in (0..grid.len()).filter(|n| !seen.has(*n)) {
                let mut rest = place;
                for axis in (0..rank).rev() {
                    key[axis] = rest % counts[axis];
                    rest /= counts[axis];
                }
                line.clear();
                key_text(&mut line, &key);
                write!(out, ",\n{prefix}{line}\":{value}").map_err(failed)?;
                written += 1;
                if written.is_multiple_of(STEP) {
                    step(written)?;
                }
            }
        }
    }
    out.write_all(b"\n}}\n").map_err(failed)?;
    step(written)
}
