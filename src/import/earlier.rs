//! Stores of earlier formats: mdim-refs/0.1, and raad.virtualize with its mosaic VRT.

use super::{Collection, Imported, References};
use crate::io::Opener;
use crate::model::{
    ArrayDesc, ArrayKind, Attribute, Attributes, ByteOrder, CodecSpec, DType, DimInfo, Fill, Kind, Storage, float_to_le,
};
use crate::plan::axis;
use crate::scan::{self, SourceArray};
use crate::store::{EarlierRow, EarlierStore, RemapRule};
use crate::vrt::{Content, Mosaic, VrtArray};
use crate::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Target of the paths in column `public`.
const PUBLIC: &str = "public";

/// Takes the rows of an array: one text of block info for all, or none that can be carried.
#[derive(Default)]
struct Rows {
    references: References,
    info: Option<String>,
    mixed: Option<String>,
}

impl Rows {
    fn add(&mut self, place: u64, source: u32, row: &EarlierRow<'_>) {
        match (row.range, row.data) {
            (Some((offset, size)), _) => self.references.add(place, source, offset, size),
            (None, Some(data)) => self.references.add_inline(place, data),
            (None, None) => self.references.add_absent(place),
        }
        if let (Some(info), Some(_)) = (row.info, row.range) {
            match &self.info {
                None => self.info = Some(info.to_owned()),
                Some(first) if first != info => {
                    self.mixed
                        .get_or_insert_with(|| format!("its chunks are stored in several ways: {first} and {info}"));
                }
                Some(_) => {}
            }
        }
    }

    /// The array with its references, or why it can't be carried.
    fn end(self, all: &mut Collection, desc: ArrayDesc, info: String) {
        match self.mixed {
            Some(why) => all.lost.push(format!("array \"{}\": {why}", desc.name)),
            None => {
                let info = self.info.unwrap_or(info);
                all.arrays.push(Imported { desc, info, references: self.references });
            }
        }
    }
}

fn place_of(key: &[u64], counts: &[u64]) -> Option<u64> {
    if key.iter().zip(counts).any(|(k, n)| k >= n) || key.len() != counts.len() {
        return None;
    }
    key.iter().zip(counts).try_fold(0u64, |place, (k, n)| place.checked_mul(*n)?.checked_add(*k))
}

/// Reads an mdim-refs/0.1 store.
///
/// # Errors
/// [`Error::Store`] for rows that are wrong, [`Error::Sqlite`]; what `step` gives.
pub fn read_global(store: &EarlierStore, path: &str, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<Collection> {
    let mut all = Collection::default();
    let bad = |what: String| Error::Store { path: path.to_owned(), what };
    let files = store.files()?;
    let mut numbers = HashMap::new();
    for file in &files {
        let name = file.source.clone();
        numbers.insert(file.id, all.sources.number(&name, || Ok(name.clone())).map_err(bad)?);
    }
    let pairs = files.iter().filter_map(|f| Some((f.source.as_str(), f.public.as_deref()?)));
    all.remap = rules(pairs);
    let json = |key: &str| store.meta(key).and_then(|t| serde_json::from_str::<Value>(&t).ok());
    all.attributes = json("attrs").and_then(|v| Attributes::from_json(&v, None)).unwrap_or_default();
    let tables = store.tables()?;
    let mut count = 0u64;
    for array in store.arrays()? {
        let desc = match array {
            Ok(desc) => desc,
            Err((name, why)) => {
                all.lost.push(format!("array \"{name}\": {why}"));
                continue;
            }
        };
        if desc.storage != Storage::Referenced {
            all.arrays.push(Imported { desc, info: String::new(), references: References::default() });
            continue;
        }
        let table = tables.iter().find(|t| t.array == desc.name && t.rank == desc.dims.len());
        let (Some(table), Some(_)) = (table, &desc.shape) else {
            all.lost.push(format!("array \"{}\": it has no shape, or no table of chunks", desc.name));
            continue;
        };
        let counts = desc.grid()?.counts();
        let mut rows = Rows::default();
        let mut outside = 0u64;
        store.each_row(table, &mut |row| {
            count += 1;
            if count.is_multiple_of(1 << 16) {
                step(count)?;
            }
            let source = numbers.get(&row.file).copied().filter(|_| row.range.is_some());
            match (place_of(row.key, &counts), source) {
                (None, _) => outside += 1,
                (_, None) if row.range.is_some() => {
                    return Err(bad(format!(
                        "array \"{}\", chunk {:?}: there is no file {}",
                        desc.name, row.key, row.file
                    )));
                }
                (Some(place), source) => rows.add(place, source.unwrap_or(0), &row),
            }
            Ok(())
        })?;
        if outside > 0 {
            all.lost.push(format!("array \"{}\": {outside} chunks outside its shape", desc.name));
        }
        rows.end(&mut all, desc, String::new());
    }
    Ok(all)
}

/// Rules that make the second path of each pair of the first: few, if the paths differ at their beginnings only.
fn rules<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<RemapRule> {
    let pairs: Vec<(&str, &str)> = pairs.collect();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (access, public) in &pairs {
        // What both end with, from the beginning of a name.
        let mut same = 0;
        for ((i, a), (_, b)) in access.char_indices().rev().zip(public.char_indices().rev()) {
            if a != b {
                break;
            }
            if a == '/' {
                same = access.len() - i - 1;
            }
        }
        let prefix = &access[..access.len() - same];
        found.entry(prefix.to_owned()).or_insert_with(|| public[..public.len() - same].to_owned());
    }
    // Where the rules do not say so, a rule for the path itself.
    let lengths: BTreeSet<usize> = found.keys().map(String::len).collect();
    let by_rule = |found: &BTreeMap<String, String>, access: &str| {
        let mut longest = lengths.iter().rev().copied();
        let hit = longest.find_map(|n| found.get_key_value(access.get(..n)?));
        hit.map(|(prefix, new)| format!("{new}{}", &access[prefix.len()..]))
    };
    let own: Vec<_> =
        pairs.iter().filter(|(access, public)| by_rule(&found, access).as_deref() != Some(*public)).collect();
    found.extend(own.into_iter().map(|(access, public)| ((*access).to_owned(), (*public).to_owned())));
    found.retain(|prefix, replacement| prefix != replacement);
    let rule = |(prefix, replacement)| RemapRule { target: PUBLIC.into(), prefix, replacement };
    found.into_iter().map(rule).collect()
}

/// Reads a raad.virtualize store; `mosaic` says where its files lie. Data type, chunks and codec are those of the first
/// file that can be opened.
///
/// # Errors
/// [`Error::Plan`] where no file can be opened, or the VRT is not aligned with the chunks; [`Error::Store`],
/// [`Error::Sqlite`]; what `step` gives.
pub fn read_within(
    store: &EarlierStore,
    path: &str,
    opener: &Arc<dyn Opener>,
    mosaic: &Mosaic,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Collection> {
    let mut all =
        Collection { attributes: mosaic.attributes.clone(), groups: mosaic.groups.clone(), ..Collection::default() };
    let bad = |what: String| Error::Store { path: path.to_owned(), what };
    let files = store.files()?;
    let by_name: HashMap<&str, i64> = files.iter().map(|f| (f.source.as_str(), f.id)).collect();
    let own = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let mut by_own: HashMap<String, Option<i64>> = HashMap::new();
    for file in &files {
        by_own.entry(own(&file.source)).and_modify(|id| *id = None).or_insert(Some(file.id));
    }
    let of_vrt = |name: &str| by_name.get(name).copied().or_else(|| by_own.get(&own(name)).copied().flatten());
    let mut names = HashMap::new();
    for file in &files {
        let name = file.source.clone();
        names.insert(file.id, all.sources.number(&name, || Ok(name.clone())).map_err(bad)?);
    }
    let opened =
        first_file(opener, mosaic, &files.iter().map(|f| (f.id, f.source.as_str())).collect::<Vec<_>>(), &of_vrt)?;
    let scanned = opened.index.arrays();
    let tables = store.tables()?;
    let mut count = 0u64;
    for vrt in &mosaic.arrays {
        let dims: Vec<&crate::vrt::VrtDimension> = vrt.dims.iter().filter_map(|d| mosaic.dimensions.get(*d)).collect();
        let shape: Vec<u64> = dims.iter().map(|d| d.size).collect();
        let dim_names: Vec<String> = dims.iter().map(|d| d.name.clone()).collect();
        let Content::Sources(list) = &vrt.content else {
            match coordinate(vrt, &dim_names, &shape, scanned) {
                Ok(desc) => all.arrays.push(Imported { desc, info: String::new(), references: References::default() }),
                Err(why) => all.lost.push(format!("array \"{}\": {why}", vrt.name)),
            }
            continue;
        };
        let source_array = list.first().map_or("", |s| s.source_array.as_str());
        let table = tables.iter().find(|t| t.array == vrt.name && t.rank == shape.len());
        let array = scanned.iter().find(|a| a.name == source_array && a.chunks.len() == shape.len());
        let (Some(table), Some(array)) = (table, array) else {
            all.lost
                .push(format!("array \"{}\": there is no table of its chunks, or no such array in a file", vrt.name));
            continue;
        };
        let desc = ArrayDesc { dims: dim_names, shape: Some(shape.clone()), ..array.unplanned(&vrt.name) };
        let counts = desc.grid()?.counts();
        let mut slabs: HashMap<i64, Vec<&crate::vrt::VrtSource>> = HashMap::new();
        for slab in list {
            let name = mosaic.sources.get(slab.source as usize).map_or("", String::as_str);
            let id = of_vrt(name).ok_or_else(|| bad(format!("there is no file {name}, which the VRT has")))?;
            let aligned = |list: &[u64]| list.iter().zip(&desc.chunks).all(|(v, c)| v % c == 0);
            if !aligned(&slab.src_offset) || !aligned(&slab.dest) {
                return Err(Error::Plan(format!(
                    "array \"{}\": {name} is not placed at the edge of a chunk",
                    vrt.name
                )));
            }
            slabs.entry(id).or_default().push(slab);
        }
        let mut rows = Rows::default();
        let mut key = vec![0; counts.len()];
        store.each_row(table, &mut |row| {
            count += 1;
            if count.is_multiple_of(1 << 16) {
                step(count)?;
            }
            let source = names.get(&row.file).copied().ok_or_else(|| bad(format!("there is no file {}", row.file)))?;
            for slab in slabs.get(&row.file).into_iter().flatten() {
                let inside = (0..key.len()).all(|axis| {
                    let c = desc.chunks[axis];
                    let (first, end) =
                        (slab.src_offset[axis] / c, (slab.src_offset[axis] + slab.count[axis]).div_ceil(c));
                    key[axis] = row.key[axis].saturating_sub(first) + slab.dest[axis] / c;
                    (first..end).contains(&row.key[axis])
                });
                if let Some(place) = place_of(&key, &counts).filter(|_| inside) {
                    rows.add(place, source, &row);
                }
            }
            Ok(())
        })?;
        rows.end(&mut all, desc, array.info.clone());
    }
    all.dimensions = mosaic
        .dimensions
        .iter()
        .map(|d| {
            let (kind, direction) = (d.kind.clone(), d.direction.clone());
            (d.name.clone(), DimInfo { size: d.size, kind, direction, variable: d.variable.clone(), srs: None })
        })
        .collect();
    all.lost.push(
        "whether all files are like the first in type, chunks and codec: the store does not say (check --decode tries)"
            .into(),
    );
    Ok(all)
}

/// The first file of the VRT that can be opened.
fn first_file(
    opener: &Arc<dyn Opener>,
    mosaic: &Mosaic,
    files: &[(i64, &str)],
    of_vrt: &dyn Fn(&str) -> Option<i64>,
) -> Result<scan::Opened> {
    let mut last = Error::Plan("the VRT has no source".into());
    for name in mosaic.sources.iter().take(3) {
        let id = of_vrt(name);
        let names = files.iter().filter(|(n, _)| Some(*n) == id).map(|(_, f)| *f).chain([name.as_str()]);
        for name in names {
            match scan::open_path(opener, name) {
                Ok(opened) => return Ok(opened),
                Err(e) => last = e,
            }
        }
    }
    Err(Error::Plan(format!("one of the files must be there, to say how chunks are stored: {last}")))
}

/// A coordinate of the VRT, with the type and the attributes that it has in a file.
fn coordinate(vrt: &VrtArray, dims: &[String], shape: &[u64], scanned: &[SourceArray]) -> Result<ArrayDesc, String> {
    let count = shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= crate::plan::MAX_VALUES / 8);
    let count = count.ok_or("it has too many values")? as usize;
    let parse = |t: &String| t.parse::<f64>().map_err(|_| format!("its value {t} is no number"));
    let values: Vec<f64> = match &vrt.content {
        Content::Inline(list) => list.iter().map(parse).collect::<Result<_, _>>()?,
        Content::Regular { start, increment } => (0..count).map(|i| start + i as f64 * increment).collect(),
        Content::Constant(text) => vec![parse(text)?; count],
        _ => return Err("it has no values".into()),
    };
    let named = scanned.iter().find(|a| a.name == vrt.name);
    // The type of the file, if that holds every value; the VRT's are 64-bit floats.
    let is_f4 = named.is_some_and(|a| a.dtype.kind == Kind::Float && a.dtype.size == 4)
        && values.iter().all(|v| f64::from(*v as f32) == *v);
    let dtype = DType::new(Kind::Float, if is_f4 { 4 } else { 8 }, ByteOrder::Little);
    let bytes: Vec<u8> = values.iter().flat_map(|v| float_to_le(*v, dtype.size)).collect();
    let mut attrs = named.map(|a| a.attrs.clone()).unwrap_or_default();
    for attribute in &vrt.attributes.0 {
        if attrs.get(&attribute.name).is_none() {
            attrs.set(attribute.clone());
        }
    }
    if let Some(unit) = vrt.unit.as_ref().filter(|u| !u.is_empty())
        && attrs.get("units").is_none()
    {
        attrs.set(Attribute { name: "units".into(), value: unit.clone().into(), dtype: Some("|O".into()) });
    }
    let labels = dims.len() == 1 && dims[0] == vrt.name;
    let affine = if labels { axis::affine(&dtype, &bytes) } else { None };
    Ok(ArrayDesc {
        name: vrt.name.clone(),
        kind: if labels { ArrayKind::Coord } else { ArrayKind::Data },
        storage: if affine.is_some() { Storage::Affine } else { Storage::Inline },
        dims: dims.to_vec(),
        shape: Some(shape.to_vec()),
        chunks: shape.iter().map(|s| (*s).max(1)).collect(),
        dtype,
        fill: Fill::default(),
        codec: CodecSpec::default(),
        attrs,
        values: if affine.is_some() { None } else { Some(bytes) },
        affine,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_two_paths() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            rules(pairs.iter().copied()).into_iter().map(|r| (r.prefix, r.replacement)).collect()
        };
        let own = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            of(&[("/d/1/a.nc", "https://e.org/x/1/a.nc"), ("/d/2/b.nc", "https://e.org/x/2/b.nc")]),
            [own("/d/", "https://e.org/x/")]
        );
        assert_eq!(of(&[("/d/a.nc", "/d/a.nc")]), []);
        // One that is another file altogether.
        assert_eq!(
            of(&[("/d/a.nc", "s3://b/a.nc"), ("/d/b.nc", "s3://b/other.nc")]),
            [own("/d/", "s3://b/"), own("/d/b.nc", "s3://b/other.nc")]
        );
    }
}
