//! The plan: where each source's slab sits in the whole, and the coordinates of the whole.
//!
//! The mosaic VRT gives the placements; what the VRT hides (units, calendars, scales, fills, types of coordinates) is
//! taken from the sources themselves and checked: a source that disagrees is refused with both values named, or its
//! values are converted where that is exact.
//!
//! [`Builder::add`] takes the facts of one source after the other, in the order of the VRT, and [`Builder::finish`]
//! gives the [`Plan`]. Sources that an existing store knows already, unchanged and at their place, are not opened again:
//! [`Builder::add_known`].

pub mod agree;
pub mod along;
pub mod axis;
pub mod cf;
pub mod time;

use crate::model::{ArrayDesc, ArrayKind, Attributes, CodecSpec, DimInfo, Fill, Storage};
use crate::scan::SourceArray;
use crate::vrt::{Content, Mosaic, VrtArray, VrtSource};
use crate::{Error, Result};
use agree::{Reference, keep_common};
use axis::{Axis, AxisValues, CoordValues, affine};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What the plan needs to know of a source, beside its chunks.
#[derive(Clone, Debug, Default)]
pub struct SourceFacts {
    /// Arrays that the plan takes from it.
    pub arrays: Vec<SourceArray>,
    /// Values of the coordinate variables of their dimensions: the variable has the name of the dimension.
    pub coords: Vec<Arc<CoordValues>>,
    /// Whole values of the arrays of [`Builder::wanted_values`], by their name in the source.
    pub values: Vec<(String, Vec<u8>)>,
    /// Attributes of the root group.
    pub attributes: Attributes,
    /// Attributes of the other groups, by full name without the leading `/`.
    pub groups: Vec<(String, Attributes)>,
    /// The arrays whose chunks are in files of their own, by their name in the source: each file is placed for itself.
    pub in_parts: Vec<String>,
}

/// A placement of a source in an array of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Number of the source in [`Mosaic::sources`].
    pub source: u32,
    /// Name of the array in the source.
    pub source_array: String,
    /// First element in the source, along each dimension.
    pub src_offset: Vec<u64>,
    /// Elements along each dimension.
    pub count: Vec<u64>,
    /// First element in the whole, along each dimension.
    pub dest: Vec<u64>,
}

/// A finished plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// Arrays, coordinates first.
    pub arrays: Vec<ArrayDesc>,
    /// Placements of referenced arrays, by array.
    pub placements: BTreeMap<String, Vec<Placed>>,
    /// Dimensions by full name.
    pub dimensions: Vec<(String, DimInfo)>,
    /// Attributes of the root group: those that all sources have in common.
    pub attributes: Attributes,
    /// Attributes of the other groups.
    pub groups: Vec<(String, Attributes)>,
    /// What a user should know: repeated sources, attributes that were left out.
    pub notes: Vec<String>,
}

/// What an existing store knows of a source: where it was placed, and the arrays of the store.
pub struct KnownSource<'a> {
    /// Descriptions in the store, by array.
    pub arrays: &'a HashMap<String, ArrayDesc>,
    /// Placements in the store, by array: as now, except that `dest` may differ.
    pub placements: Vec<(&'a str, Placed)>,
    /// Attributes of the root group in the store.
    pub attributes: &'a Attributes,
    /// Attributes of the other groups in the store.
    pub groups: &'a [(String, Attributes)],
}

/// Values of one array larger than this (bytes) are not compared, nor stored in line.
pub const MAX_VALUES: u64 = 64 << 20;

struct Part {
    /// Index in `Mosaic::arrays`.
    vrt: usize,
    /// Name in the store.
    name: String,
    reference: Option<Reference>,
    placed: Vec<Placed>,
    /// Places that more than one source claims, with the values of the first.
    shared: HashMap<Vec<u64>, Option<(u32, Vec<u8>)>>,
    repeated: usize,
}

/// Makes a [`Plan`].
pub struct Builder {
    mosaic: Mosaic,
    parts: Vec<Part>,
    axes: Vec<Option<Axis>>,
    /// By source: (part, index of the `VrtSource`).
    uses: Vec<Vec<(usize, usize)>>,
    attributes: Option<(Attributes, Vec<(String, Attributes)>)>,
    attributes_dropped: BTreeSet<String>,
    /// By dimension: whether the plan has it.
    used: Vec<bool>,
}

fn sources_of(array: &VrtArray) -> &[VrtSource] {
    match &array.content {
        Content::Sources(list) => list,
        _ => &[],
    }
}

impl Builder {
    /// A plan of `mosaic` in which only the arrays of `selection` (name in the VRT → name in the store) are placed; all
    /// if it is empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a selected array does not exist; [`Error::Plan`] if the VRT can't be a plan.
    pub fn new(mosaic: Mosaic, selection: &BTreeMap<String, String>) -> Result<Builder> {
        let indexing: BTreeSet<&str> = mosaic.dimensions.iter().filter_map(|d| d.variable.as_deref()).collect();
        let is_axis = |a: &VrtArray| a.dims.len() == 1 && indexing.contains(a.name.as_str());
        for name in selection.keys() {
            if !mosaic.arrays.iter().any(|a| a.name == *name && !is_axis(a)) {
                let all: Vec<_> = mosaic.arrays.iter().filter(|a| !is_axis(a)).map(|a| a.name.as_str()).collect();
                return Err(Error::Invalid(format!(
                    "--array {name}: there is no such array; there are: {}",
                    all.join(", ")
                )));
            }
        }
        let mut parts = Vec::new();
        for (vrt, array) in mosaic.arrays.iter().enumerate() {
            let name = match selection.get(&array.name) {
                Some(new) => new.clone(),
                None if selection.is_empty() => array.name.clone(),
                None => continue,
            };
            if is_axis(array) {
                continue;
            }
            let mut shared: HashMap<Vec<u64>, Option<(u32, Vec<u8>)>> = HashMap::new();
            let mut seen: BTreeSet<&[u64]> = BTreeSet::new();
            for source in sources_of(array) {
                if array.dims.is_empty() || !seen.insert(&source.dest) {
                    shared.insert(source.dest.clone(), None);
                }
            }
            parts.push(Part { vrt, name, reference: None, placed: Vec::new(), shared, repeated: 0 });
        }
        let mut uses = vec![Vec::new(); mosaic.sources.len()];
        for (p, part) in parts.iter().enumerate() {
            for (i, source) in sources_of(&mosaic.arrays[part.vrt]).iter().enumerate() {
                uses[source.source as usize].push((p, i));
            }
        }
        let mut used = vec![false; mosaic.dimensions.len()];
        for part in &parts {
            for d in &mosaic.arrays[part.vrt].dims {
                used[*d] = true;
            }
        }
        // One file has all its coordinates, though no array may use them.
        if selection.is_empty() && mosaic.sources.len() == 1 {
            used.iter_mut().zip(&mosaic.dimensions).for_each(|(used, d)| *used |= d.variable.is_some());
        }
        let mut axes = Vec::new();
        for (d, dimension) in mosaic.dimensions.iter().enumerate() {
            let array = dimension
                .variable
                .as_deref()
                .filter(|_| used[d])
                .and_then(|v| mosaic.arrays.iter().find(|a| a.name == v && a.dims == [d]));
            axes.push(match array {
                None => None,
                Some(array) => {
                    let size = usize::try_from(dimension.size).ok().filter(|n| (*n as u64) < MAX_VALUES);
                    let size = size.ok_or_else(|| {
                        Error::Plan(format!(
                            "dimension \"{}\" has {} coordinate values: more than {MAX_VALUES} are not supported",
                            dimension.name, dimension.size
                        ))
                    })?;
                    Some(Axis::new(&array.name, size, expected(array, size)))
                }
            });
        }
        Ok(Builder { mosaic, parts, axes, uses, attributes: None, attributes_dropped: BTreeSet::new(), used })
    }

    /// Names of the sources, as [`Placed::source`] counts them.
    pub fn sources(&self) -> &[String] {
        &self.mosaic.sources
    }

    /// Arrays of source number `source` that the plan uses: (name in the source, name in the store).
    pub fn wanted(&self, source: u32) -> Vec<(String, String)> {
        let mut list: Vec<(String, String)> = Vec::new();
        for (p, i) in self.uses.get(source as usize).into_iter().flatten() {
            let part = &self.parts[*p];
            let used = &sources_of(&self.mosaic.arrays[part.vrt])[*i];
            let pair = (used.source_array.clone(), part.name.clone());
            if !list.contains(&pair) {
                list.push(pair);
            }
        }
        list
    }

    /// Whether the array `name` of the store is carried in line (it has no dimensions), not by its chunks.
    pub fn is_inline(&self, name: &str) -> bool {
        self.parts.iter().any(|p| p.name == name && self.mosaic.arrays[p.vrt].dims.is_empty())
    }

    /// Arrays of source number `source` whose values the plan needs whole, to compare or to store them in line.
    pub fn wanted_values(&self, source: u32) -> Vec<String> {
        let mut list = Vec::new();
        for (p, i) in self.uses.get(source as usize).into_iter().flatten() {
            let part = &self.parts[*p];
            let used = &sources_of(&self.mosaic.arrays[part.vrt])[*i];
            if part.shared.contains_key(&used.dest) && !list.contains(&used.source_array) {
                list.push(used.source_array.clone());
            }
        }
        list
    }

    /// Whether the plan must see values of source number `source` that no store keeps: those that are compared with
    /// another source's at the same place.
    pub fn compares_values(&self, source: u32) -> bool {
        self.uses.get(source as usize).into_iter().flatten().any(|(p, i)| {
            let part = &self.parts[*p];
            let vrt = &self.mosaic.arrays[part.vrt];
            !vrt.dims.is_empty() && part.shared.contains_key(&sources_of(vrt)[*i].dest)
        })
    }

    /// Placements of source number `source`: (array in the store, placement).
    pub fn placements(&self, source: u32) -> Vec<(&str, Placed)> {
        self.uses
            .get(source as usize)
            .into_iter()
            .flatten()
            .map(|(p, i)| {
                let part = &self.parts[*p];
                (part.name.as_str(), placed(&sources_of(&self.mosaic.arrays[part.vrt])[*i]))
            })
            .collect()
    }

    /// Array `name` of the store has other chunks now: it was cut into smaller pieces.
    pub fn set_chunks(&mut self, name: &str, chunks: &[u64]) {
        for part in self.parts.iter_mut().filter(|p| p.name == name) {
            if let Some(reference) = &mut part.reference {
                reference.array.chunks = chunks.to_vec();
            }
        }
    }

    /// Takes source number `source`, which was scanned. Nothing changes on error.
    ///
    /// # Errors
    /// [`Error::Plan`] if it disagrees with the plan or with an earlier source, naming source, array, both values.
    pub fn add(&mut self, source: u32, facts: &SourceFacts) -> Result<()> {
        let me = self.mosaic.sources[source as usize].clone();
        let uses = self.uses[source as usize].clone();
        let mut additions = Vec::new();
        for (p, i) in &uses {
            let part = &self.parts[*p];
            let vrt = &self.mosaic.arrays[part.vrt];
            let used = &sources_of(vrt)[*i];
            let array = facts.arrays.iter().find(|a| a.name == used.source_array).ok_or_else(|| {
                Error::Plan(format!("{me}: it has no array \"{}\", which the plan takes from it", used.source_array))
            })?;
            check_extent(&me, &part.name, array, used)?;
            match &part.reference {
                Some(reference) => reference.check(&part.name, &me, array)?,
                None => check_vrt(&me, vrt, array)?,
            }
            for (axis, d) in vrt.dims.iter().enumerate() {
                let Some(a) = &self.axes[*d] else { continue };
                let Some(coord) = facts.coords.iter().find(|c| c.name == array.dims[axis].name) else { continue };
                let window = (used.src_offset[axis], used.count[axis], used.dest[axis]);
                if let Some(addition) = a.check(coord, window, source, false, &self.mosaic.sources)? {
                    additions.push((*d, addition));
                }
            }
            if let Some(first) = part.shared.get(&used.dest) {
                let values = facts.values.iter().find(|(n, _)| *n == used.source_array).map(|(_, v)| v);
                let (Some(values), place) = (values, &used.dest) else {
                    return Err(Error::Plan(format!(
                        "{me}: array \"{}\": more than one source lies at {:?}, and it is too large to compare: leave one out",
                        part.name, used.dest
                    )));
                };
                if let Some((other, first)) = first
                    && first != values
                {
                    return Err(Error::Plan(format!(
                        "{me}: array \"{}\": it lies at {place:?}, where {} lies too, with other values: leave one of them \
                         out, or choose arrays with --array",
                        part.name, self.mosaic.sources[*other as usize]
                    )));
                }
            }
        }
        for (d, axis) in self.axes.iter().enumerate() {
            let Some(axis) = axis.as_ref().filter(|_| self.mosaic.sources.len() == 1) else { continue };
            if !uses.iter().any(|(p, _)| self.mosaic.arrays[self.parts[*p].vrt].dims.contains(&d))
                && let Some(coord) = facts.coords.iter().find(|c| c.name == axis.name())
                && let Some(addition) =
                    axis.check(coord, (0, self.mosaic.dimensions[d].size, 0), source, false, &self.mosaic.sources)?
            {
                additions.push((d, addition));
            }
        }
        for (d, addition) in additions {
            if let Some(axis) = &mut self.axes[d] {
                axis.apply(addition);
            }
        }
        for (p, i) in uses {
            let part = &mut self.parts[p];
            let used = &sources_of(&self.mosaic.arrays[part.vrt])[i];
            if part.reference.is_none()
                && let Some(array) = facts.arrays.iter().find(|a| a.name == used.source_array)
            {
                part.reference = Some(Reference { source: me.clone(), array: array.clone() });
            }
            let taken = match part.shared.get_mut(&used.dest) {
                Some(Some(_)) => true,
                Some(none) => {
                    *none =
                        facts.values.iter().find(|(n, _)| *n == used.source_array).map(|(_, v)| (source, v.clone()));
                    false
                }
                None => false,
            };
            if taken {
                part.repeated += 1;
            } else {
                part.placed.push(placed(used));
            }
        }
        self.add_attributes(&facts.attributes, &facts.groups);
        Ok(())
    }

    /// Takes a source that an existing store has at this place, unchanged since.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn add_known(&mut self, source: u32, known: &KnownSource<'_>) -> Result<()> {
        let me = self.mosaic.sources[source as usize].clone();
        for (p, i) in self.uses[source as usize].clone() {
            let part = &self.parts[p];
            let vrt = &self.mosaic.arrays[part.vrt];
            let used = placed(&sources_of(vrt)[i]);
            let missing = || Error::Plan(format!("{me}: array \"{}\" is not in the store", part.name));
            let desc = known.arrays.get(&part.name).ok_or_else(missing)?;
            if vrt.dims.is_empty() {
                let array = source_array(desc);
                let part = &mut self.parts[p];
                let values = desc.values.clone().unwrap_or_default();
                part.shared.entry(Vec::new()).or_default().get_or_insert((source, values));
                part.reference.get_or_insert(Reference { source: me.clone(), array });
                continue;
            }
            let old = known
                .placements
                .iter()
                .find(|(n, o)| *n == part.name && same_slab(o, &used) && (o.dest == used.dest))
                .or_else(|| known.placements.iter().find(|(n, o)| *n == part.name && same_slab(o, &used)))
                .ok_or_else(missing)?;
            let array = source_array(desc);
            if let Some(reference) = &part.reference {
                reference.check(&part.name, &me, &array)?;
            }
            let mut additions = Vec::new();
            for (axis, d) in vrt.dims.iter().enumerate() {
                let Some(a) = &self.axes[*d] else { continue };
                let Some(coord) = known.arrays.get(a.name()).and_then(coord_values) else { continue };
                let window = (old.1.dest[axis], used.count[axis], used.dest[axis]);
                if let Some(addition) = a.check(&Arc::new(coord), window, source, true, &self.mosaic.sources)? {
                    additions.push((*d, addition));
                }
            }
            for (d, addition) in additions {
                if let Some(axis) = &mut self.axes[d] {
                    axis.apply(addition);
                }
            }
            let part = &mut self.parts[p];
            if part.reference.is_none() {
                part.reference = Some(Reference { source: me.clone(), array });
            }
            part.placed.push(used);
        }
        self.add_attributes(known.attributes, known.groups);
        Ok(())
    }

    /// Keeps the place of a source that could not be scanned: reading there is an error that names it.
    pub fn add_skipped(&mut self, source: u32) {
        for (p, i) in self.uses[source as usize].clone() {
            let used = placed(&sources_of(&self.mosaic.arrays[self.parts[p].vrt])[i]);
            if !self.parts[p].shared.contains_key(&used.dest) {
                self.parts[p].placed.push(used);
            }
        }
    }

    fn add_attributes(&mut self, root: &Attributes, groups: &[(String, Attributes)]) {
        match &mut self.attributes {
            None => self.attributes = Some((root.clone(), groups.to_vec())),
            Some((kept, kept_groups)) => {
                let before: Vec<String> = kept.0.iter().map(|a| a.name.clone()).collect();
                keep_common(kept, root);
                self.attributes_dropped.extend(before.into_iter().filter(|n| kept.get(n).is_none()));
                for (name, attributes) in kept_groups {
                    match groups.iter().find(|(n, _)| n == name) {
                        Some((_, other)) => keep_common(attributes, other),
                        None => attributes.0.clear(),
                    }
                }
            }
        }
    }

    /// The plan.
    ///
    /// # Errors
    /// [`Error::Plan`] where coordinates are incomplete or out of order, or no source gave an array.
    pub fn finish(self) -> Result<Plan> {
        let Builder { mosaic, parts, axes, attributes, attributes_dropped, used, .. } = self;
        let mut plan = Plan::default();
        for (d, dimension) in mosaic.dimensions.iter().enumerate() {
            if !used[d] {
                continue;
            }
            let mut info = DimInfo {
                size: dimension.size,
                kind: dimension.kind.clone(),
                direction: dimension.direction.clone(),
                variable: None,
                srs: None,
            };
            if info.kind.starts_with("HORIZONTAL") {
                info.srs = parts
                    .iter()
                    .map(|p| &mosaic.arrays[p.vrt])
                    .filter(|a| a.dims.contains(&d))
                    .find_map(|a| a.srs.as_ref())
                    .map(|s| s.wkt.clone());
            }
            let vrt = mosaic.arrays.iter().find(|a| a.dims == [d] && Some(&a.name) == dimension.variable.as_ref());
            if let (Some(axis), Some(vrt)) = (&axes[d], vrt)
                && let Some(values) = axis.finish(&mosaic.sources)?
            {
                if info.kind.is_empty() && !axis.is_known() {
                    // nothing to tell from
                } else if info.kind.is_empty() {
                    let (kind, direction) = cf::kind_and_direction(&values.attrs);
                    (info.kind, info.direction) = (kind.into(), direction.into());
                }
                info.variable = Some(vrt.name.clone());
                let regular = matches!(vrt.content, Content::Regular { .. } | Content::Sources(_));
                plan.arrays.push(coordinate(vrt, &dimension.name, values, regular && info.kind != "TEMPORAL"));
            }
            // Of two lengths of a dimension, the one with coordinates, or the longer, is the one that is described.
            match plan.dimensions.iter_mut().find(|(name, _)| *name == dimension.name) {
                Some((_, old)) if old.variable.is_none() && (info.variable.is_some() || info.size > old.size) => {
                    *old = info
                }
                Some(_) => {}
                None => plan.dimensions.push((dimension.name.clone(), info)),
            }
        }
        for part in parts {
            let vrt = &mosaic.arrays[part.vrt];
            let dims: Vec<String> = vrt.dims.iter().map(|d| mosaic.dimensions[*d].name.clone()).collect();
            let shape: Vec<u64> = vrt.dims.iter().map(|d| mosaic.dimensions[*d].size).collect();
            let Some(Reference { array, .. }) = &part.reference else {
                plan.notes.push(format!("array \"{}\" is left out: none of its sources was scanned", part.name));
                continue;
            };
            let mut attrs = array.attrs.clone();
            for attribute in vrt_attributes(vrt).0 {
                if attrs.get(&attribute.name).is_none() {
                    attrs.set(attribute);
                }
            }
            if part.repeated > 0 {
                plan.notes.push(format!(
                    "array \"{}\": {} sources repeat the values of another at the same place; the first is used",
                    part.name, part.repeated
                ));
            }
            let inline = dims.is_empty();
            let values = part.shared.get(&[][..]).and_then(|v| v.clone()).map(|(_, v)| v).filter(|_| inline);
            let mut desc = ArrayDesc {
                name: part.name.clone(),
                kind: ArrayKind::Data,
                storage: if inline { Storage::Inline } else { Storage::Referenced },
                dims,
                shape: Some(shape),
                chunks: array.chunks.clone(),
                dtype: array.dtype,
                fill: array.fill.clone(),
                codec: if inline { CodecSpec::default() } else { array.codec.clone() },
                attrs,
                affine: None,
                values: None,
            };
            if inline {
                make_inline(&mut desc, values.unwrap_or_default());
            } else {
                plan.placements.insert(part.name, part.placed);
            }
            plan.arrays.push(desc);
        }
        let (root, groups) = attributes.unwrap_or_default();
        plan.attributes = root;
        for attribute in &mosaic.attributes.0 {
            if plan.attributes.get(&attribute.name).is_none() && !attributes_dropped.contains(&attribute.name) {
                plan.attributes.set(attribute.clone());
            }
        }
        plan.groups = groups;
        if !attributes_dropped.is_empty() {
            let list: Vec<_> = attributes_dropped.iter().map(String::as_str).collect();
            plan.notes.push(format!("attributes that differ between sources are left out: {}", list.join(", ")));
        }
        Ok(plan)
    }
}

/// Puts the values (in the byte order of `desc.dtype`) in line: little-endian.
pub(crate) fn make_inline(desc: &mut ArrayDesc, mut values: Vec<u8>) {
    use crate::model::{ByteOrder, swap_in_place};
    if desc.dtype.order == ByteOrder::Big {
        swap_in_place(&mut values, desc.dtype.swap_size());
    }
    desc.dtype = desc.dtype.with_order(ByteOrder::Little);
    desc.values = Some(values);
}

fn placed(source: &VrtSource) -> Placed {
    Placed {
        source: source.source,
        source_array: source.source_array.clone(),
        src_offset: source.src_offset.clone(),
        count: source.count.clone(),
        dest: source.dest.clone(),
    }
}

/// Whether both take the same slab of the same array.
pub fn same_slab(a: &Placed, b: &Placed) -> bool {
    a.source_array == b.source_array && a.src_offset == b.src_offset && a.count == b.count
}

/// The values of the VRT's coordinate, as far as it has numbers.
fn expected(array: &VrtArray, size: usize) -> Option<Vec<f64>> {
    match &array.content {
        Content::Inline(list) if list.len() == size => list.iter().map(|t| t.parse().ok()).collect(),
        Content::Regular { start, increment } => Some((0..size).map(|i| start + i as f64 * increment).collect()),
        Content::Constant(text) => text.parse().ok().map(|v| vec![v; size]),
        _ => None,
    }
}

/// Unit, no-data, scale and offset of a VRT's array as CF attributes, with its own attributes.
fn vrt_attributes(vrt: &VrtArray) -> Attributes {
    use crate::model::{Attribute, f64_to_json};
    let mut attrs = vrt.attributes.clone();
    let mut set = |name: &str, value: Option<serde_json::Value>, dtype: Option<&str>| {
        if let Some(value) = value {
            attrs.set(Attribute { name: name.into(), value, dtype: dtype.map(str::to_owned) });
        }
    };
    set("units", vrt.unit.clone().filter(|u| !u.is_empty()).map(Into::into), Some("|O"));
    set("scale_factor", vrt.scale.filter(|s| *s != 1.0).map(f64_to_json), Some("<f8"));
    set("add_offset", vrt.offset.filter(|o| *o != 0.0).map(f64_to_json), Some("<f8"));
    attrs
}

fn check_extent(me: &str, name: &str, array: &SourceArray, used: &VrtSource) -> Result<()> {
    let shape = array.shape();
    if shape.len() != used.count.len() {
        return Err(Error::Plan(format!(
            "{me}: array \"{name}\": it has {} dimensions, the VRT {} (text arrays of characters, for one, are folded by \
             GDAL): choose other arrays with --array",
            shape.len(),
            used.count.len()
        )));
    }
    for (axis, size) in shape.iter().enumerate() {
        let end = used.src_offset[axis].checked_add(used.count[axis]);
        if end.is_none_or(|end| end > *size) {
            return Err(Error::Plan(format!(
                "{me}: array \"{name}\": the VRT takes {} elements from {} along dimension {axis}, but it has {size}: \
                 the file has changed; make the VRT again",
                used.count[axis], used.src_offset[axis]
            )));
        }
    }
    Ok(())
}

/// The VRT's own unit, scale, offset and no-data against those of its first source.
fn check_vrt(me: &str, vrt: &VrtArray, array: &SourceArray) -> Result<()> {
    let close = |a: f64, b: f64| a == b || (a - b).abs() <= a.abs().max(b.abs()) * 1e-12 || (a.is_nan() && b.is_nan());
    let differ = |what: &str, ours: String, theirs: String| {
        Err(Error::Plan(format!(
            "{me}: array \"{}\": its {what} is {theirs}, but the VRT says {ours}: which of them is right can't be told",
            vrt.name
        )))
    };
    for (attribute, ours, neutral) in [("scale_factor", vrt.scale, 1.0), ("add_offset", vrt.offset, 0.0)] {
        if let (Some(ours), Some(theirs)) = (ours, Some(array.attrs.number(attribute).unwrap_or(neutral)))
            && !close(ours, theirs)
        {
            return differ(attribute, ours.to_string(), theirs.to_string());
        }
    }
    if let (Some(ours), Some(theirs)) = (vrt.unit.as_deref().filter(|u| !u.is_empty()), array.attrs.text("units"))
        && ours != theirs
    {
        return differ("unit", ours.into(), theirs.into());
    }
    Ok(())
}

/// A planned array of a store as an array of a source, to compare with.
pub(crate) fn source_array(desc: &ArrayDesc) -> SourceArray {
    SourceArray {
        name: desc.name.clone(),
        dims: desc.dims.iter().map(|d| crate::model::Dim { name: d.clone(), size: 0 }).collect(),
        chunks: desc.chunks.clone(),
        dtype: desc.dtype,
        fill: desc.fill.clone(),
        codec: desc.codec.clone(),
        info: String::new(),
        attrs: desc.attrs.clone(),
        contiguous: false,
    }
}

/// The values of a coordinate of a store.
fn coord_values(desc: &ArrayDesc) -> Option<CoordValues> {
    use crate::model::ByteOrder;
    let dtype = desc.dtype.with_order(ByteOrder::Little);
    let values = match desc.storage {
        Storage::Inline => desc.values.clone()?,
        Storage::Affine => axis::affine_values(desc.affine.as_ref()?, &dtype, *desc.shape.as_ref()?.first()?)?,
        Storage::Referenced => return None,
    };
    Some(CoordValues { name: desc.name.clone(), dtype, attrs: desc.attrs.clone(), values })
}

fn coordinate(vrt: &VrtArray, dim: &str, values: AxisValues, may_be_affine: bool) -> ArrayDesc {
    let AxisValues { dtype, mut attrs, values } = values;
    for attribute in vrt_attributes(vrt).0 {
        if attrs.get(&attribute.name).is_none() {
            attrs.set(attribute);
        }
    }
    let n = (values.len() / dtype.size.max(1)) as u64;
    let affine = if may_be_affine { affine(&dtype, &values) } else { None };
    ArrayDesc {
        name: vrt.name.clone(),
        kind: ArrayKind::Coord,
        storage: if affine.is_some() { Storage::Affine } else { Storage::Inline },
        dims: vec![dim.to_owned()],
        shape: Some(vec![n]),
        chunks: vec![n.max(1)],
        dtype,
        fill: Fill::default(),
        codec: CodecSpec::default(),
        attrs,
        values: if affine.is_some() { None } else { Some(values) },
        affine,
    }
}
