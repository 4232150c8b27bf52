//! A plan without a VRT: sources put one after the other along one dimension, in the order of their own coordinates.
//!
//! [`join`] makes a [`Mosaic`] of what the sources say, and from there all is as with a VRT: [`super::Builder`] checks
//! that the sources agree.

use super::SourceFacts;
use super::axis::{CoordValues, Rank};
use crate::model::Dim;
use crate::scan::SourceArray;
use crate::vrt::{Content, Mosaic, VrtArray, VrtDimension, VrtSource};
use crate::{Error, Result};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// A source with what it says of itself.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Its name in the store.
    pub source: String,
    /// Its arrays and coordinates.
    pub facts: SourceFacts,
}

/// What the order along the dimension is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderBy {
    /// The coordinate variable of the dimension; the order given where no source has one.
    Coordinate,
    /// The order given.
    Given,
    /// Values that each member has under this name in [`SourceFacts::coords`], though they are of another variable.
    Variable(String),
}

fn plan_error(what: String) -> Error {
    Error::Plan(what)
}

/// A new dimension: each source is one step of it.
#[derive(Debug, Default)]
pub struct NewDimension {
    /// Its name.
    pub name: String,
    /// The coordinate's one value, by source; empty if it has none.
    pub steps: HashMap<String, Arc<CoordValues>>,
}

impl NewDimension {
    /// Puts the dimension in front of those of the arrays of `source`. Arrays without dimensions stay as they are, and so
    /// do those that others name as their coordinates, cell measures, bounds or grid mapping.
    pub fn apply(&self, source: &str, facts: &mut SourceFacts) {
        facts.arrays.retain(|a| !(a.dims.is_empty() && a.name == self.name));
        let mut named: Vec<String> = Vec::new();
        let attributes = facts.arrays.iter().map(|a| &a.attrs).chain(facts.coords.iter().map(|c| &c.attrs));
        for attrs in attributes {
            for key in ["coordinates", "grid_mapping", "bounds", "ancillary_variables"] {
                let words = attrs.text(key).unwrap_or_default().split_ascii_whitespace();
                named.extend(words.map(|w| w.trim_end_matches(':').to_owned()));
            }
        }
        for array in &mut facts.arrays {
            let own = array.name.rsplit('/').next().unwrap_or_default();
            if !array.dims.is_empty() && !named.iter().any(|n| n == own) {
                array.dims.insert(0, Dim { name: self.name.clone(), size: 1 });
                array.chunks.insert(0, 1);
            }
        }
        facts.coords.retain(|c| c.name != self.name);
        facts.coords.extend(self.steps.get(source).cloned());
    }
}

/// Elements of `member` along `dim`.
fn length(member: &Member, dim: &str) -> Result<u64> {
    let mut found: Option<(u64, &str)> = None;
    let of_arrays = member.facts.arrays.iter().flat_map(|a| a.dims.iter().map(|d| (a.name.as_str(), d)));
    for (array, d) in of_arrays.filter(|(_, d)| d.name == dim) {
        match found {
            Some((n, other)) if n != d.size => {
                return Err(plan_error(format!(
                    "{}: dimension \"{dim}\" has {} elements in \"{array}\", but {n} in \"{other}\": choose arrays with --array",
                    member.source, d.size
                )));
            }
            _ => found = Some((d.size, array)),
        }
    }
    found.map(|(n, _)| n).ok_or_else(|| {
        let mut names: Vec<&str> =
            member.facts.arrays.iter().flat_map(|a| a.dims.iter().map(|d| d.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        plan_error(format!(
            "{}: no array has the dimension \"{dim}\" (there are: {}); --new-dim makes it, with each source as one step",
            member.source,
            names.join(", ")
        ))
    })
}

fn coordinate<'m>(member: &'m Member, name: &str) -> Option<&'m Arc<CoordValues>> {
    member.facts.coords.iter().find(|c| c.name == name)
}

/// Numbers of the members in order along `dim`.
fn order(dim: &str, by: &OrderBy, members: &[Member]) -> Result<Vec<usize>> {
    let name = match by {
        OrderBy::Given => return Ok((0..members.len()).collect()),
        OrderBy::Coordinate => dim,
        OrderBy::Variable(name) => name,
    };
    let with = members.iter().find(|m| coordinate(m, name).is_some());
    let without = members.iter().find(|m| coordinate(m, name).is_none());
    let (Some(with), None) = (with, without) else {
        return match (with, without, by) {
            (Some(with), Some(without), _) => Err(plan_error(format!(
                "{} has no coordinate \"{name}\", but {} has: the order can't be told (--order-by given keeps the order \
                 of the scan)",
                without.source, with.source
            ))),
            (None, _, OrderBy::Variable(_)) => {
                Err(plan_error(format!("no source has a variable \"{name}\" to order by")))
            }
            _ => Ok((0..members.len()).collect()),
        };
    };
    let mut ranks: Vec<(usize, Vec<Rank>)> = Vec::new();
    let base = coordinate(with, name);
    for (number, member) in members.iter().enumerate() {
        let (Some(coord), Some(base)) = (coordinate(member, name), base) else { continue };
        let list = coord.ranks(base).map_err(|what| {
            plan_error(format!(
                "{}: coordinate \"{name}\": {what} in {}: the order can't be told (--order-by given keeps the order of the \
                 scan)",
                member.source, with.source
            ))
        })?;
        ranks.push((number, list));
    }
    if ranks.iter().any(|(_, r)| r.iter().any(|r| r.place.is_none())) {
        // Texts have no order but the one given.
        return Ok((0..members.len()).collect());
    }
    let compare = |a: &Rank, b: &Rank| a.compare(b);
    let backwards = ranks
        .iter()
        .find_map(|(_, r)| r.windows(2).next().map(|w| compare(&w[0], &w[1]) == Ordering::Greater))
        .unwrap_or(false);
    let wanted = if backwards { Ordering::Greater } else { Ordering::Less };
    for (number, list) in &ranks {
        if let Some(w) = list.windows(2).find(|w| compare(&w[0], &w[1]) != wanted) {
            return Err(plan_error(format!(
                "{}: coordinate \"{name}\": {} is followed by {}, so that there is no order (--order-by given keeps the \
                 order of the scan)",
                members[*number].source, w[0].text, w[1].text
            )));
        }
    }
    ranks.sort_by(|(_, a), (_, b)| match (a.first(), b.first()) {
        (Some(a), Some(b)) if backwards => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
        _ => a.len().cmp(&b.len()),
    });
    for w in ranks.windows(2) {
        let ((a, before), (b, after)) = (&w[0], &w[1]);
        if let (Some(last), Some(first)) = (before.last(), after.first())
            && compare(last, first) != wanted
        {
            return Err(plan_error(format!(
                "{} and {} overlap along \"{name}\": {} of the one is not before {} of the other: leave one out, or give \
                 what orders them with --order-by",
                members[*a].source, members[*b].source, last.text, first.text
            )));
        }
    }
    Ok(ranks.into_iter().map(|(number, _)| number).collect())
}

/// The whole that `members` make when they are put one after the other along `dim`. Its sources are in order.
///
/// # Errors
/// [`Error::Plan`] naming sources and both values where the order can't be told, or arrays or dimensions differ.
pub fn join(dim: &str, by: &OrderBy, members: &[Member]) -> Result<Mosaic> {
    let mut lengths = Vec::with_capacity(members.len());
    for member in members {
        lengths.push(length(member, dim)?);
    }
    let order = order(dim, by, members)?;
    let Some(first) = order.first().map(|n| &members[*n]) else {
        return Err(plan_error("there is no source to make a plan of".into()));
    };
    let mut mosaic = Mosaic::default();
    let total: u64 = lengths.iter().fold(0, |n, l| n.saturating_add(*l));
    let whole = |d: &Dim| if d.name == dim { total } else { d.size };
    let mut numbers: HashMap<(String, u64), usize> = HashMap::new();
    for d in first.facts.arrays.iter().flat_map(|a| &a.dims) {
        let size = whole(d);
        numbers.entry((d.name.clone(), size)).or_insert_with(|| {
            let coord = coordinate(first, &d.name).filter(|c| d.name == dim || c.len() == d.size);
            let variable = coord.map(|_| d.name.clone());
            mosaic.dimensions.push(VrtDimension { name: d.name.clone(), size, variable, ..Default::default() });
            mosaic.dimensions.len() - 1
        });
    }
    for (number, d) in mosaic.dimensions.iter().enumerate() {
        if let Some(name) = &d.variable {
            mosaic.arrays.push(VrtArray {
                name: name.clone(),
                dims: vec![number],
                content: Content::Sources(Vec::new()),
                ..Default::default()
            });
        }
    }
    let mut arrays: Vec<(usize, Vec<VrtSource>)> = (0..first.facts.arrays.len()).map(|i| (i, Vec::new())).collect();
    let mut at = 0;
    for (place, number) in order.iter().enumerate() {
        let member = &members[*number];
        mosaic.sources.push(member.source.clone());
        if let Some(extra) = member.facts.arrays.iter().find(|a| !first.facts.arrays.iter().any(|f| f.name == a.name)) {
            return Err(missing(first, member, &extra.name));
        }
        for (i, sources) in &mut arrays {
            let model = &first.facts.arrays[*i];
            let array = member.facts.arrays.iter().find(|a| a.name == model.name);
            let array = array.ok_or_else(|| missing(member, first, &model.name))?;
            same_dimensions(dim, first, model, member, array)?;
            let dest = array.dims.iter().map(|d| if d.name == dim { at } else { 0 }).collect();
            sources.push(VrtSource {
                source: u32::try_from(place).map_err(|_| plan_error("more than 2^32 sources".into()))?,
                source_array: array.name.clone(),
                src_offset: vec![0; array.dims.len()],
                count: array.shape(),
                dest,
            });
        }
        at += lengths[*number];
    }
    for (i, sources) in arrays {
        let array = &first.facts.arrays[i];
        mosaic.arrays.push(VrtArray {
            name: array.name.clone(),
            dims: array.dims.iter().map(|d| numbers[&(d.name.clone(), whole(d))]).collect(),
            content: Content::Sources(sources),
            ..Default::default()
        });
    }
    Ok(mosaic)
}

fn missing(without: &Member, with: &Member, array: &str) -> Error {
    plan_error(format!(
        "{} has no array \"{array}\", but {} has: choose arrays that all have with --array",
        without.source, with.source
    ))
}

fn same_dimensions(dim: &str, first: &Member, model: &SourceArray, member: &Member, array: &SourceArray) -> Result<()> {
    let text = |a: &SourceArray| {
        let list: Vec<String> = a.dims.iter().map(|d| format!("{}: {}", d.name, d.size)).collect();
        format!("({})", list.join(", "))
    };
    let same = model.dims.len() == array.dims.len()
        && model.dims.iter().zip(&array.dims).all(|(a, b)| a.name == b.name && (a.name == dim || a.size == b.size));
    if same {
        return Ok(());
    }
    Err(plan_error(format!(
        "{}: array \"{}\" is {}, but {} in {}: only \"{dim}\" may differ in length",
        member.source,
        array.name,
        text(array),
        text(model),
        first.source
    )))
}
