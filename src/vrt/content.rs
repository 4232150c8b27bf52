//! Values of an array: sources, inline values, constants.

use super::value::{parse_f64, parse_sizes, words};
use super::xml::{Element, Xml};
use super::{Content, VrtSource, path};
use crate::{Error, Result};
use std::collections::HashMap;

/// Distinct sources, in order of first appearance.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Sources {
    fn number(&mut self, name: String) -> Result<u32> {
        if let Some(number) = self.numbers.get(&name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| Error::Plan("more than 2^32 sources".into()))?;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Ok(number)
    }
}

/// An array as far as its values need it.
pub(super) struct Place<'p> {
    /// The VRT.
    pub(super) path: &'p str,
    /// `path: array "name"`, for messages.
    pub(super) text: &'p str,
    /// Shape in elements.
    pub(super) shape: &'p [u64],
    /// Names of the dimensions.
    pub(super) dims: &'p [&'p str],
}

/// A slab of an array with the texts of its values.
struct Slab {
    offset: Vec<u64>,
    count: Vec<u64>,
    texts: Vec<String>,
}

/// Gathers what an array says of its values.
#[derive(Default)]
pub(super) struct Gathered {
    sources: Vec<VrtSource>,
    inline: Vec<Slab>,
    other: Option<Content>,
}

impl Gathered {
    /// Reads `element` if it tells values; false if it is something else (and then it is not read).
    ///
    /// # Errors
    /// [`Error::Plan`] naming array, source and element that can't be part of a plan.
    pub(super) fn read(
        &mut self,
        xml: &mut Xml,
        element: &Element,
        place: &Place,
        sources: &mut Sources,
    ) -> Result<bool> {
        match element.name() {
            "Source" => self.sources.push(read_source(xml, place, sources)?),
            "InlineValues" | "InlineValuesWithValueElement" => self.inline.push(read_inline(xml, element, place)?),
            "ConstantValue" => {
                let slab = read_slab(xml, element, place)?;
                if slab.0.iter().any(|o| *o != 0) || slab.1 != place.shape {
                    return Err(place.error("a <ConstantValue> of a part of the array has no place in a plan"));
                }
                let value = xml.text()?.trim().to_owned();
                self.set_other(place, Content::Constant(value))?;
            }
            "RegularlySpacedValues" => {
                let number = |key| -> Result<f64> {
                    let text = xml.attribute(element, key)?;
                    text.as_deref().and_then(parse_f64).filter(|v| v.is_finite()).ok_or_else(|| {
                        place.error(format!("<RegularlySpacedValues {key}> is missing or not a finite number"))
                    })
                };
                let content = Content::Regular { start: number("start")?, increment: number("increment")? };
                if place.shape.len() != 1 {
                    return Err(
                        place.error(format!("<RegularlySpacedValues> in an array of {} dimensions", place.shape.len()))
                    );
                }
                self.set_other(place, content)?;
                xml.skip()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_other(&mut self, place: &Place, content: Content) -> Result<()> {
        match self.other.replace(content) {
            None => Ok(()),
            Some(_) => Err(place.error("its values are given more than once")),
        }
    }

    /// The one content of the array.
    ///
    /// # Errors
    /// [`Error::Plan`] if it has several kinds, or inline values leave out or repeat an element.
    pub(super) fn finish(self, place: &Place) -> Result<Content> {
        let kinds = [!self.sources.is_empty(), !self.inline.is_empty(), self.other.is_some()];
        if kinds.iter().filter(|k| **k).count() > 1 {
            return Err(place.error("it mixes sources with values of its own, which has no place in a plan"));
        }
        if !self.inline.is_empty() {
            return Ok(Content::Inline(whole(self.inline, place)?));
        }
        if !self.sources.is_empty() {
            return Ok(Content::Sources(self.sources));
        }
        Ok(self.other.unwrap_or_default())
    }
}

impl Place<'_> {
    pub(super) fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::Plan(format!("{}: {what}", self.text))
    }

    /// Whether `count` elements from `offset` are within the array.
    fn check_within(&self, of: &str, offset: &[u64], count: &[u64]) -> Result<()> {
        for (((&o, &c), &size), dim) in offset.iter().zip(count).zip(self.shape).zip(self.dims) {
            if o.checked_add(c).is_none_or(|end| end > size) {
                return Err(self.error(format!("{of}: {c} elements at {o} reach beyond dimension \"{dim}\" of {size}")));
            }
        }
        Ok(())
    }
}

/// Reads a list of `rank` sizes from an XML attribute, None if there is no such attribute.
fn read_list(
    xml: &Xml,
    element: &Element,
    key: &str,
    rank: usize,
    error: impl Fn(String) -> Error,
) -> Result<Option<Vec<u64>>> {
    let Some(text) = xml.attribute(element, key)? else { return Ok(None) };
    match parse_sizes(&text) {
        Some(list) if list.len() == rank => Ok(Some(list)),
        _ => Err(error(format!(
            "<{} {key}=\"{text}\">: there should be {rank} whole numbers, one for each dimension",
            element.name()
        ))),
    }
}

fn read_source(xml: &mut Xml, place: &Place, sources: &mut Sources) -> Result<VrtSource> {
    let rank = place.shape.len();
    let (mut file, mut source_array) = (None, None);
    let (mut src_offset, mut count, mut step, mut dest) = (None, None, None, None);
    let mut unknown = None;
    // The file name comes first as a rule, so that messages can name it.
    let error = |file: &Option<(String, bool)>, what: String| {
        let name = file.as_ref().map_or("without a file name", |(name, _)| name.as_str());
        place.error(format!("source {name}: {what}"))
    };
    while let Some(child) = xml.child()? {
        match child.name() {
            "SourceFilename" => {
                let relative = xml.attribute(&child, "relativeToVRT")?.is_some_and(|v| is_true(&v));
                // GDAL drops white space before a text.
                file = Some((xml.text()?.trim_start().to_owned(), relative));
            }
            "SourceArray" => source_array = Some(xml.text()?.trim().to_owned()),
            "SourceSlab" => {
                let list = |key| read_list(xml, &child, key, rank, |what| error(&file, what));
                (src_offset, count, step) = (list("offset")?, list("count")?, list("step")?);
                xml.skip()?;
            }
            "DestSlab" => {
                dest = read_list(xml, &child, "offset", rank, |what| error(&file, what))?;
                xml.skip()?;
            }
            name => {
                unknown.get_or_insert(name.to_owned());
                xml.skip()?;
            }
        }
    }
    if let Some(name) = unknown {
        return Err(error(&file, format!("<{name}> has no place in a plan")));
    }
    let Some((written, relative)) = file.as_ref().filter(|(name, _)| !name.is_empty()) else {
        return Err(error(&None, "<SourceFilename> is missing".into()));
    };
    let source_array = source_array.filter(|a| !a.is_empty());
    let source_array = source_array.ok_or_else(|| error(&file, "<SourceArray> is missing".into()))?;
    if let Some(step) = step.filter(|s| s.iter().any(|s| *s != 1)) {
        return Err(error(&file, format!("<SourceSlab step=\"{}\">: a plan has no step but 1", join(&step))));
    }
    // GDAL takes a missing count, or 0, for "up to the end of the source", which only the source knows.
    let count = match count {
        Some(count) if !count.contains(&0) => count,
        None if rank == 0 => Vec::new(),
        _ => {
            return Err(error(
                &file,
                "<SourceSlab count> is missing or 0: a plan needs the extent; make the VRT with `gdal mdim mosaic`"
                    .into(),
            ));
        }
    };
    let dest = dest.unwrap_or_else(|| vec![0; rank]);
    let src_offset = src_offset.unwrap_or_else(|| vec![0; rank]);
    place.check_within(&format!("source {written}: <DestSlab>"), &dest, &count)?;
    if src_offset.iter().zip(&count).any(|(o, c)| o.checked_add(*c).is_none()) {
        return Err(error(&file, format!("<SourceSlab offset=\"{}\"> is too large", join(&src_offset))));
    }
    let resolved = if *relative { path::resolve(place.path, written) } else { written.clone() };
    let source = sources.number(resolved)?;
    let source_array = source_array.strip_prefix('/').unwrap_or(&source_array).to_owned();
    Ok(VrtSource { source, source_array, src_offset, count, dest })
}

/// GDAL's `atoi(text) != 0`.
fn is_true(text: &str) -> bool {
    text.trim().parse::<i64>().is_ok_and(|v| v != 0)
}

fn join(list: &[u64]) -> String {
    list.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Offset and count of inline values; the whole array if not given.
fn read_slab(xml: &Xml, element: &Element, place: &Place) -> Result<(Vec<u64>, Vec<u64>)> {
    let list = |key| read_list(xml, element, key, place.shape.len(), |what| place.error(what));
    let offset = list("offset")?.unwrap_or_else(|| vec![0; place.shape.len()]);
    let count = match list("count")? {
        Some(count) => count,
        None => place.shape.iter().zip(&offset).map(|(s, o)| s.saturating_sub(*o)).collect(),
    };
    place.check_within(&format!("<{}>", element.name()), &offset, &count)?;
    Ok((offset, count))
}

fn read_inline(xml: &mut Xml, element: &Element, place: &Place) -> Result<Slab> {
    let (offset, count) = read_slab(xml, element, place)?;
    let texts = if element.name() == "InlineValues" {
        words(&xml.text()?).map(str::to_owned).collect()
    } else {
        let mut texts = Vec::new();
        while let Some(child) = xml.child()? {
            match child.name() {
                "Value" => texts.push(xml.text()?),
                _ => xml.skip()?,
            }
        }
        texts
    };
    match elements(&count) {
        Some(expected) if expected == texts.len() as u64 => Ok(Slab { offset, count, texts }),
        _ => Err(place.error(format!("<{}>: {} values for count=\"{}\"", element.name(), texts.len(), join(&count)))),
    }
}

fn elements(count: &[u64]) -> Option<u64> {
    count.iter().try_fold(1u64, |n, c| n.checked_mul(*c))
}

/// The values of the whole array, in C order, from slabs that tile it.
fn whole(mut slabs: Vec<Slab>, place: &Place) -> Result<Vec<String>> {
    let given: u64 = slabs.iter().map(|s| s.texts.len() as u64).sum();
    if elements(place.shape) != Some(given) {
        return Err(place.error(format!("{given} inline values for an array of {}", join(place.shape))));
    }
    if let [one] = slabs.as_mut_slice() {
        return Ok(std::mem::take(&mut one.texts));
    }
    // As many places as texts: a place that is filled twice leaves another one empty.
    let mut all: Vec<Option<String>> = vec![None; given as usize];
    for slab in slabs {
        for (i, text) in slab.texts.into_iter().enumerate() {
            let (mut rest, mut at, mut stride) = (i as u64, 0u64, 1u64);
            for axis in (0..place.shape.len()).rev() {
                at += (slab.offset[axis] + rest % slab.count[axis]) * stride;
                rest /= slab.count[axis];
                stride *= place.shape[axis];
            }
            match all.get_mut(at as usize) {
                Some(place) if place.is_none() => *place = Some(text),
                _ => return Err(place.error("two <InlineValues> overlap")),
            }
        }
    }
    all.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| place.error("its inline values leave out elements"))
}
