//! Groups, dimensions and arrays.

use super::content::{Gathered, Place, Sources};
use super::value::{parse_f64, parse_sizes, read_attribute, read_type, words};
use super::xml::{Element, Xml};
use super::{MAX_SIZE, Mosaic, VrtArray, VrtDimension, VrtSrs};
use crate::model::Attributes;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Whether a file that begins like this is a multidimensional VRT: a `<VRTDataset>` in which a `<Group>` comes before any
/// band. A few KB of the file are enough.
pub fn is_mosaic_vrt(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    let mut in_dataset = false;
    loop {
        let (end, skip) = if rest.starts_with("<?") {
            ("?>", true)
        } else if rest.starts_with("<!--") {
            ("-->", true)
        } else if !in_dataset && starts_element(rest, "VRTDataset") {
            in_dataset = true;
            (">", true)
        } else {
            ("", false)
        };
        if !skip {
            return in_dataset && starts_element(rest, "Group");
        }
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
}

fn starts_element(text: &str, name: &str) -> bool {
    let after = text.strip_prefix('<').and_then(|t| t.strip_prefix(name));
    after.is_some_and(|t| t.is_empty() || t.starts_with([' ', '\t', '\r', '\n', '>', '/']))
}

/// Parses a mosaic VRT; `path` is where it was opened.
///
/// # Errors
/// [`Error::Format`] if it is not XML; [`Error::Plan`] naming array, source and element that are wrong or that can't be
/// part of a plan.
pub fn parse(path: &str, xml: &str) -> Result<Mosaic> {
    let plan = |what: &str| Error::Plan(format!("{path}: {what}"));
    if xml.len() > MAX_SIZE {
        return Err(plan(&format!("a VRT of more than {MAX_SIZE} bytes is not read")));
    }
    let mut xml = Xml::new(path, xml);
    match xml.child()? {
        Some(root) if root.name() == "VRTDataset" => {}
        Some(root) => return Err(plan(&format!("it is not a VRT: it begins with <{}>", root.name()))),
        None => return Err(plan("it is not a VRT: there is no element in it")),
    }
    let mut parser = Parser::new(path);
    let mut groups = 0;
    while let Some(child) = xml.child()? {
        match child.name() {
            "Group" => {
                let name = parser.name(&xml, &child, "")?;
                if (groups == 0) != name.is_empty() {
                    return Err(plan("the first <Group> must have the name \"/\", and no other may"));
                }
                groups += 1;
                parser.group(&mut xml, name)?;
            }
            "VRTRasterBand" => return Err(plan(BANDS)),
            _ => xml.skip()?,
        }
    }
    if groups == 0 {
        return Err(plan(BANDS));
    }
    if xml.child()?.is_some() {
        return Err(plan("there is more than one element at its top"));
    }
    Ok(parser.finish())
}

const BANDS: &str = "it is a VRT of bands, not a multidimensional one: make it with `gdal mdim mosaic`";

struct Parser<'p> {
    path: &'p str,
    mosaic: Mosaic,
    sources: Sources,
    /// Full name → index into `mosaic.dimensions`.
    dimensions: HashMap<String, usize>,
    /// Full names of arrays.
    arrays: HashSet<String>,
}

impl<'p> Parser<'p> {
    fn new(path: &'p str) -> Parser<'p> {
        Parser {
            path,
            mosaic: Mosaic::default(),
            sources: Sources::default(),
            dimensions: HashMap::new(),
            arrays: HashSet::new(),
        }
    }

    fn finish(self) -> Mosaic {
        Mosaic { sources: self.sources.names, ..self.mosaic }
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::Plan(format!("{}: {what}", self.path))
    }

    /// Full name of a group, dimension or array of `group`.
    fn name(&self, xml: &Xml, element: &Element, group: &str) -> Result<String> {
        match xml.attribute(element, "name")? {
            Some(name) if !name.is_empty() => Ok(join(group, &name)),
            _ => Err(self.error(format!("a <{}> of group \"/{group}\" has no name", element.name()))),
        }
    }

    /// Reads a group; the depth of groups in groups is bounded by that of the XML.
    fn group(&mut self, xml: &mut Xml, name: String) -> Result<()> {
        let mut attributes = Attributes::default();
        let number = (!name.is_empty()).then(|| {
            self.mosaic.groups.push((name.clone(), Attributes::default()));
            self.mosaic.groups.len() - 1
        });
        while let Some(child) = xml.child()? {
            match child.name() {
                "Dimension" => {
                    self.dimension(xml, &child, &name)?;
                }
                "Attribute" => {
                    let place = format!("{}: group \"/{name}\"", self.path);
                    attributes.set(read_attribute(xml, &child, &place)?);
                }
                "Array" => self.array(xml, &child, &name)?,
                "Group" => {
                    let name = self.name(xml, &child, &name)?;
                    self.group(xml, name)?;
                }
                _ => xml.skip()?,
            }
        }
        match number.and_then(|n| self.mosaic.groups.get_mut(n)) {
            Some(group) => group.1 = attributes,
            None => self.mosaic.attributes = attributes,
        }
        Ok(())
    }

    /// Reads `<Dimension>` of a group, or of an array that has its own. Its index.
    fn dimension(&mut self, xml: &mut Xml, element: &Element, group: &str) -> Result<usize> {
        let name = self.name(xml, element, group)?;
        let own = |key| -> Result<String> { Ok(xml.attribute(element, key)?.unwrap_or_default().into_owned()) };
        let size = own("size")?;
        let dimension = VrtDimension {
            kind: own("type")?,
            direction: own("direction")?,
            size: size.trim().parse().ok().filter(|s| *s > 0).ok_or_else(|| {
                // `gdal mdim mosaic` writes 0 for an unlimited dimension without a coordinate; GDAL refuses it too.
                self.error(format!(
                    "dimension \"{name}\": size \"{size}\" is not a number of elements; correct it in the VRT"
                ))
            })?,
            variable: Some(own("indexingVariable")?).filter(|v| !v.is_empty()).map(|v| join(group, &v)),
            name: name.clone(),
        };
        xml.skip()?;
        let number = self.mosaic.dimensions.len();
        if self.dimensions.insert(name, number).is_some() {
            return Err(self.error(format!("dimension \"{}\" is there twice", dimension.name)));
        }
        self.mosaic.dimensions.push(dimension);
        Ok(number)
    }

    fn array(&mut self, xml: &mut Xml, element: &Element, group: &str) -> Result<()> {
        let name = self.name(xml, element, group)?;
        let text = format!("{}: array \"{name}\"", self.path);
        let error = |what: String| Error::Plan(format!("{text}: {what}"));
        if !self.arrays.insert(name.clone()) {
            return Err(error("it is there twice".into()));
        }
        let mut array = VrtArray { name, ..VrtArray::default() };
        let mut gathered = Gathered::default();
        // Shape and names of the dimensions, once all are known: GDAL too reads them before the values.
        let mut place: Option<(Vec<u64>, Vec<String>)> = None;
        while let Some(child) = xml.child()? {
            match child.name() {
                "DimensionRef" | "Dimension" if place.is_some() => {
                    return Err(error("a dimension comes after values".into()));
                }
                "DimensionRef" => {
                    let wanted = xml.attribute(&child, "ref")?.unwrap_or_default();
                    let found = self.dimensions.get(&join(group, &wanted));
                    array.dims.push(*found.ok_or_else(|| error(format!("there is no dimension \"{wanted}\"")))?);
                    xml.skip()?;
                }
                "Dimension" => array.dims.push(self.dimension(xml, &child, &array.name)?),
                "DataType" => array.dtype = read_type(xml, &text)?.0,
                "BlockSize" => {
                    let sizes = xml.text()?;
                    let list = parse_sizes(&sizes).ok_or_else(|| error(format!("<BlockSize>{sizes}</BlockSize>")))?;
                    // 0: GDAL does not know it.
                    array.block_size = Some(list).filter(|l| !l.contains(&0));
                }
                "Unit" => array.unit = Some(xml.text()?),
                "NoDataValue" => array.nodata = Some(xml.text()?.trim().to_owned()),
                "Offset" | "Scale" => {
                    let number = xml.text()?;
                    let value = parse_f64(&number)
                        .ok_or_else(|| error(format!("<{}>: \"{number}\" is not a number", child.name())))?;
                    *(if child.name() == "Scale" { &mut array.scale } else { &mut array.offset }) = Some(value);
                }
                "SRS" => array.srs = read_srs(xml, &child)?,
                "Attribute" => array.attributes.set(read_attribute(xml, &child, &text)?),
                // Smaller versions of the array: no part of its values.
                "Overviews" => xml.skip()?,
                unknown => {
                    let (shape, dims) = place.get_or_insert_with(|| self.place(&array.dims));
                    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
                    let here = Place { path: self.path, text: &text, shape, dims: &dims };
                    if !gathered.read(xml, &child, &here, &mut self.sources)? {
                        return Err(error(format!("<{unknown}> has no place in a plan")));
                    }
                }
            }
        }
        if array.dtype.is_empty() {
            return Err(error("<DataType> is missing".into()));
        }
        if let Some(sizes) = array.block_size.as_ref().filter(|b| b.len() != array.dims.len()) {
            return Err(error(format!("<BlockSize> has {} numbers for {} dimensions", sizes.len(), array.dims.len())));
        }
        let (shape, dims) = place.unwrap_or_else(|| self.place(&array.dims));
        let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
        array.content = gathered.finish(&Place { path: self.path, text: &text, shape: &shape, dims: &dims })?;
        self.mosaic.arrays.push(array);
        Ok(())
    }

    /// Shape and names of the dimensions of an array.
    fn place(&self, dims: &[usize]) -> (Vec<u64>, Vec<String>) {
        dims.iter().filter_map(|&d| self.mosaic.dimensions.get(d)).map(|d| (d.size, d.name.clone())).unzip()
    }
}

/// Full name of `name` in `group`; a name that begins with `/` is full already.
fn join(group: &str, name: &str) -> String {
    match name.strip_prefix('/') {
        Some(full) => full.to_owned(),
        None if group.is_empty() => name.to_owned(),
        None => format!("{group}/{name}"),
    }
}

fn read_srs(xml: &mut Xml, element: &Element) -> Result<Option<VrtSrs>> {
    let mapping = xml.attribute(element, "dataAxisToSRSAxisMapping")?.unwrap_or_default().into_owned();
    let mapping = words(&mapping).filter_map(|n| n.parse().ok()).collect();
    let wkt = xml.text()?.trim().to_owned();
    Ok(Some(VrtSrs { wkt, mapping }).filter(|s| !s.wkt.is_empty()))
}
