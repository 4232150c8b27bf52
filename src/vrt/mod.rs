//! The mosaic VRT: a multidimensional VRT as `gdal mdim mosaic` writes it, as plain data.
//!
//! See <https://gdal.org/en/stable/drivers/raster/vrt_multidimensional.html>. Only what can be a plan is accepted: whole
//! elements (step 1), no transposition, no view, no nested array.

use crate::model::{Attribute, Attributes};
use crate::{Error, Result};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use std::collections::HashMap;

/// A mosaic VRT.
#[derive(Clone, Debug, Default)]
pub struct Mosaic {
    /// Distinct sources, in order of first appearance; relative ones joined to the VRT's folder where the VRT says so.
    pub sources: Vec<String>,
    /// Dimensions of all groups.
    pub dimensions: Vec<VrtDimension>,
    /// Arrays of all groups.
    pub arrays: Vec<VrtArray>,
    /// Attributes of the root group.
    pub attributes: Attributes,
    /// Attributes of the other groups, by full name.
    pub groups: Vec<(String, Attributes)>,
}

/// A dimension.
#[derive(Clone, Debug, Default)]
pub struct VrtDimension {
    /// Full name without the leading `/`.
    pub name: String,
    /// GDAL's type (`HORIZONTAL_X`, …), or empty.
    pub kind: String,
    /// GDAL's direction (`EAST`, …), or empty.
    pub direction: String,
    /// Length in elements.
    pub size: u64,
    /// Full name of the indexing variable.
    pub variable: Option<String>,
}

/// Coordinate reference system of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VrtSrs {
    /// WKT.
    pub wkt: String,
    /// Axis of the array (from 1) of each axis of the SRS.
    pub mapping: Vec<i32>,
}

/// An array.
#[derive(Clone, Debug, Default)]
pub struct VrtArray {
    /// Full name without the leading `/`.
    pub name: String,
    /// Its dimensions, as indices into [`Mosaic::dimensions`].
    pub dims: Vec<usize>,
    /// GDAL's name of the data type (`Int16`, `Float64`, `String`); empty if there is no VRT.
    pub dtype: String,
    /// Block size in elements.
    pub block_size: Option<Vec<u64>>,
    /// Unit.
    pub unit: Option<String>,
    /// No-data value, as written.
    pub nodata: Option<String>,
    /// Offset.
    pub offset: Option<f64>,
    /// Scale.
    pub scale: Option<f64>,
    /// SRS.
    pub srs: Option<VrtSrs>,
    /// Attributes.
    pub attributes: Attributes,
    /// Values.
    pub content: Content,
}

/// Where the values of an array come from.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Nothing is said.
    #[default]
    Empty,
    /// Slabs of sources.
    Sources(Vec<VrtSource>),
    /// Values, as written.
    Inline(Vec<String>),
    /// start + i · increment.
    Regular {
        /// First value.
        start: f64,
        /// Difference of two neighbours.
        increment: f64,
    },
    /// One value everywhere, as written.
    Constant(String),
}

/// A slab of a source.
#[derive(Clone, Debug)]
pub struct VrtSource {
    /// Index into [`Mosaic::sources`].
    pub source: u32,
    /// Full name of the array in the source, without the leading `/`.
    pub source_array: String,
    /// First element in the source, along each dimension.
    pub src_offset: Vec<u64>,
    /// Elements along each dimension.
    pub count: Vec<u64>,
    /// First element in the whole, along each dimension.
    pub dest: Vec<u64>,
}

/// Nodes of a VRT, at most: about a million sources of one array.
const MAX_NODES: u32 = 64_000_000;
/// Groups within groups, at most.
const MAX_DEPTH: usize = 64;

/// Whether a file that begins like this is a multidimensional VRT: `<VRTDataset>` with a `<Group` before anything else.
pub fn is_mosaic_vrt(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    let mut in_dataset = false;
    loop {
        if let Some(after) = rest.strip_prefix("<?") {
            let Some((_, after)) = after.split_once("?>") else { return false };
            rest = after.trim_start();
        } else if let Some(after) = rest.strip_prefix("<!--") {
            let Some((_, after)) = after.split_once("-->") else { return false };
            rest = after.trim_start();
        } else if let Some(after) = rest.strip_prefix("<VRTDataset").filter(|_| !in_dataset) {
            let Some((_, after)) = after.split_once('>') else { return false };
            in_dataset = true;
            rest = after.trim_start();
        } else {
            return in_dataset && rest.starts_with("<Group");
        }
    }
}

/// Parses a mosaic VRT; `path` is where it was read from.
///
/// # Errors
/// [`Error::Plan`] naming the element that is wrong, or that can't be a plan.
pub fn parse(path: &str, xml: &str) -> Result<Mosaic> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options)
        .map_err(|e| Error::Plan(format!("{path}: not well-formed XML: {e}")))?;
    let root = document.root_element();
    let mut parser = Parser { path, mosaic: Mosaic::default(), sources: HashMap::new(), dimensions: HashMap::new() };
    if root.tag_name().name() != "VRTDataset" {
        return Err(parser.error("", "it is not a VRT"));
    }
    let group = child(root, "Group").ok_or_else(|| {
        parser.error("", "it is a VRT of bands, not a multidimensional one: make it with `gdal mdim mosaic`")
    })?;
    parser.group(group, "", 0)?;
    Ok(parser.mosaic)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|c| c.tag_name().name() == name)
}

fn elements<'a, 'i: 'a>(node: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |c| c.tag_name().name() == name)
}

fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name).map(|c| c.text().unwrap_or_default())
}

/// An attribute whatever the case of its name: GDAL writes `relativetoVRT` and `relativeToVRT`.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|a| a.name().eq_ignore_ascii_case(name)).map(|a| a.value())
}

fn join(group: &str, name: &str) -> String {
    match name.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None if group.is_empty() => name.to_owned(),
        None => format!("{group}/{name}"),
    }
}

struct Parser<'p> {
    path: &'p str,
    mosaic: Mosaic,
    sources: HashMap<String, u32>,
    dimensions: HashMap<String, usize>,
}

impl Parser<'_> {
    fn error(&self, array: &str, what: impl std::fmt::Display) -> Error {
        let array = if array.is_empty() { String::new() } else { format!("array \"{array}\": ") };
        Error::Plan(format!("{}: {array}{what}", self.path))
    }

    fn group(&mut self, node: Node<'_, '_>, name: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.error("", "groups are nested too deeply"));
        }
        for dimension in elements(node, "Dimension") {
            self.dimension(dimension, name)?;
        }
        let attributes = self.attributes(node)?;
        if name.is_empty() {
            self.mosaic.attributes = attributes;
        } else {
            self.mosaic.groups.push((name.to_owned(), attributes));
        }
        for array in elements(node, "Array") {
            self.array(array, name)?;
        }
        for group in elements(node, "Group") {
            let own = attribute(group, "name").unwrap_or_default();
            self.group(group, &join(name, own), depth + 1)?;
        }
        Ok(())
    }

    fn dimension(&mut self, node: Node<'_, '_>, group: &str) -> Result<usize> {
        let name = join(group, attribute(node, "name").unwrap_or_default());
        let size = attribute(node, "size").and_then(|s| s.parse().ok());
        let size = size.ok_or_else(|| self.error("", format!("dimension \"{name}\" has no size")))?;
        let own = |key| attribute(node, key).unwrap_or_default().to_owned();
        let dimension = VrtDimension {
            kind: own("type"),
            direction: own("direction"),
            size,
            variable: attribute(node, "indexingVariable").map(|v| join(group, v)),
            name: name.clone(),
        };
        let number = self.mosaic.dimensions.len();
        if self.dimensions.insert(name.clone(), number).is_some() {
            return Err(self.error("", format!("dimension \"{name}\" is there twice")));
        }
        self.mosaic.dimensions.push(dimension);
        Ok(number)
    }

    /// A dimension by the name that an array of `group` uses: of that group or of one that holds it.
    fn find_dimension(&self, group: &str, name: &str) -> Option<usize> {
        if let Some(full) = name.strip_prefix('/') {
            return self.dimensions.get(full).copied();
        }
        let mut group = group;
        loop {
            if let Some(number) = self.dimensions.get(&join(group, name)) {
                return Some(*number);
            }
            if group.is_empty() {
                return None;
            }
            group = group.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }

    fn attributes(&self, node: Node<'_, '_>) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        for a in elements(node, "Attribute") {
            let name = attribute(a, "name").unwrap_or_default();
            let kind = text(a, "DataType").unwrap_or("String").trim();
            let dtype = numpy_type(kind);
            let mut values = elements(a, "Value")
                .map(|v| attribute_value(kind, v.text().unwrap_or_default()))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| self.error("", format!("attribute \"{name}\" is not a {kind}")))?;
            let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
            attributes.set(Attribute { name: name.to_owned(), value, dtype: dtype.map(str::to_owned) });
        }
        Ok(attributes)
    }

    fn array(&mut self, node: Node<'_, '_>, group: &str) -> Result<()> {
        let name = join(group, attribute(node, "name").unwrap_or_default());
        let mut dims = Vec::new();
        for item in node.children().filter(Node::is_element) {
            match item.tag_name().name() {
                "DimensionRef" => {
                    let wanted = attribute(item, "ref").unwrap_or_default();
                    dims.push(
                        self.find_dimension(group, wanted)
                            .ok_or_else(|| self.error(&name, format!("there is no dimension \"{wanted}\"")))?,
                    );
                }
                "Dimension" => dims.push(self.dimension(item, &name)?),
                "DerivedArray" | "Array" => {
                    return Err(self.error(&name, "it is made of another array, which has no place in a plan"));
                }
                _ => {}
            }
        }
        let number = |key: &str| -> Result<Option<f64>> {
            match text(node, key).map(str::trim) {
                None | Some("") => Ok(None),
                Some(t) => t.parse().map(Some).map_err(|_| self.error(&name, format!("{key} \"{t}\" is not a number"))),
            }
        };
        let (offset, scale) = (number("Offset")?, number("Scale")?);
        let block_size = text(node, "BlockSize").map(|t| self.list(&name, "BlockSize", t)).transpose()?;
        let srs = child(node, "SRS").map(|s| VrtSrs {
            wkt: s.text().unwrap_or_default().to_owned(),
            mapping: attribute(s, "dataAxisToSRSAxisMapping")
                .unwrap_or_default()
                .split(',')
                .filter_map(|n| n.trim().parse().ok())
                .collect(),
        });
        let attributes = self.attributes(node)?;
        let content = self.content(node, &name, &dims)?;
        self.mosaic.arrays.push(VrtArray {
            dims,
            dtype: text(node, "DataType").unwrap_or_default().trim().to_owned(),
            block_size,
            unit: text(node, "Unit").map(str::to_owned),
            nodata: text(node, "NoDataValue").map(str::to_owned),
            offset,
            scale,
            srs: srs.filter(|s| !s.wkt.is_empty()),
            attributes,
            content,
            name,
        });
        Ok(())
    }

    fn content(&mut self, node: Node<'_, '_>, name: &str, dims: &[usize]) -> Result<Content> {
        if let Some(regular) = child(node, "RegularlySpacedValues") {
            let number = |key| attribute(regular, key).and_then(|t| t.parse::<f64>().ok()).filter(|v| v.is_finite());
            return match (number("start"), number("increment")) {
                (Some(start), Some(increment)) => Ok(Content::Regular { start, increment }),
                _ => Err(self.error(name, "RegularlySpacedValues without start and increment")),
            };
        }
        if let Some(constant) = child(node, "ConstantValue") {
            return Ok(Content::Constant(constant.text().unwrap_or_default().trim().to_owned()));
        }
        let inline = child(node, "InlineValues").or_else(|| child(node, "InlineValuesWithValueElement"));
        if let Some(inline) = inline {
            let values: Vec<String> = if inline.tag_name().name() == "InlineValues" {
                inline.text().unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
            } else {
                elements(inline, "Value").map(|v| v.text().unwrap_or_default().to_owned()).collect()
            };
            let size = dims.iter().map(|d| self.mosaic.dimensions[*d].size).fold(1, u64::saturating_mul);
            let whole = attribute(inline, "offset").is_none_or(|o| o.split(',').all(|n| n.trim() == "0"));
            if !whole || values.len() as u64 != size {
                return Err(self.error(name, format!("InlineValues are {} values for {size} places", values.len())));
            }
            return Ok(Content::Inline(values));
        }
        let mut list = Vec::new();
        for source in elements(node, "Source") {
            list.push(self.source(source, name, dims)?);
        }
        Ok(if list.is_empty() { Content::Empty } else { Content::Sources(list) })
    }

    fn source(&mut self, node: Node<'_, '_>, name: &str, dims: &[usize]) -> Result<VrtSource> {
        let file = child(node, "SourceFilename");
        let written = file.and_then(|f| f.text()).unwrap_or_default();
        if written.is_empty() {
            return Err(self.error(name, "a source has no SourceFilename"));
        }
        let relative = file.and_then(|f| attribute(f, "relativeToVRT")).is_some_and(|r| r.trim() == "1");
        let filename = match self.path.rsplit_once('/') {
            Some((folder, _)) if relative && !written.starts_with('/') => format!("{folder}/{written}"),
            _ => written.to_owned(),
        };
        for unsupported in ["SourceTranspose", "SourceView", "SourceBand"] {
            if child(node, unsupported).is_some() {
                return Err(self.error(name, format!("source {written}: {unsupported} has no place in a plan")));
            }
        }
        let source_array = text(node, "SourceArray").unwrap_or_default();
        if source_array.is_empty() {
            return Err(self.error(name, format!("source {written} has no SourceArray")));
        }
        let (slab, place) = (child(node, "SourceSlab"), child(node, "DestSlab"));
        let list = |node: Option<Node<'_, '_>>, element: &str, key: &str| -> Result<Vec<u64>> {
            let text = node.and_then(|n| attribute(n, key)).ok_or_else(|| {
                self.error(name, format!("source {written}: {element} has no {key}, which a plan needs"))
            })?;
            let list = self.list(name, element, text)?;
            if list.len() == dims.len() {
                Ok(list)
            } else {
                Err(self
                    .error(name, format!("source {written}: {element} {key}=\"{text}\" for {} dimensions", dims.len())))
            }
        };
        // A slab of an array without dimensions says nothing.
        let scalar = dims.is_empty();
        let zeros = || Ok(vec![0; dims.len()]);
        let src_offset = if scalar { zeros()? } else { list(slab, "SourceSlab", "offset")? };
        let count = if scalar { zeros()? } else { list(slab, "SourceSlab", "count")? };
        let dest = if scalar { zeros()? } else { list(place, "DestSlab", "offset")? };
        if let Some(step) = slab.and_then(|s| attribute(s, "step"))
            && !scalar
            && self.list(name, "SourceSlab", step)?.iter().any(|s| *s != 1)
        {
            return Err(
                self.error(name, format!("source {written}: step=\"{step}\": only whole slabs can be referenced"))
            );
        }
        for (axis, d) in dims.iter().enumerate() {
            let dimension = &self.mosaic.dimensions[*d];
            if dest[axis].checked_add(count[axis]).is_none_or(|end| end > dimension.size) {
                return Err(self.error(
                    name,
                    format!(
                        "source {written}: {} elements at {} reach beyond dimension \"{}\" of {}",
                        count[axis], dest[axis], dimension.name, dimension.size
                    ),
                ));
            }
        }
        let next = self.mosaic.sources.len() as u32;
        let number = *self.sources.entry(filename.clone()).or_insert(next);
        if number == next {
            self.mosaic.sources.push(filename);
        }
        Ok(VrtSource {
            source: number,
            source_array: source_array.strip_prefix('/').unwrap_or(source_array).to_owned(),
            src_offset,
            count,
            dest,
        })
    }

    fn list(&self, array: &str, element: &str, text: &str) -> Result<Vec<u64>> {
        text.split(',')
            .map(|n| n.trim().parse::<u64>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| self.error(array, format!("{element} \"{text}\" is not a list of whole numbers")))
    }
}

/// The numpy type of a GDAL data type; None for one that attributes have not.
fn numpy_type(gdal: &str) -> Option<&'static str> {
    Some(match gdal {
        "String" => "|O",
        "Byte" | "UInt8" => "|u1",
        "Int8" => "|i1",
        "UInt16" => "<u2",
        "Int16" => "<i2",
        "UInt32" => "<u4",
        "Int32" => "<i4",
        "UInt64" => "<u8",
        "Int64" => "<i8",
        "Float16" => "<f2",
        "Float32" => "<f4",
        "Float64" => "<f8",
        _ => return None,
    })
}

fn attribute_value(kind: &str, text: &str) -> Option<Value> {
    use crate::model::f64_to_json;
    match kind {
        "String" => Some(Value::String(text.to_owned())),
        _ if kind.starts_with("Float") => text.trim().parse::<f64>().ok().map(f64_to_json),
        _ => {
            let t = text.trim();
            t.parse::<i64>().map(Value::from).or_else(|_| t.parse::<u64>().map(Value::from)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As GDAL 3.13 writes it, shortened.
    const MOSAIC: &str = r#"<VRTDataset>
  <Group name="/">
    <Dimension name="lat" type="HORIZONTAL_Y" direction="NORTH" size="2" indexingVariable="lat" />
    <Dimension name="time" type="TEMPORAL" size="2" indexingVariable="time" />
    <Attribute name="title"><DataType>String</DataType><Value>a &amp; b</Value></Attribute>
    <Array name="time">
      <DataType>Float64</DataType>
      <DimensionRef ref="time" />
      <InlineValues offset="0" count="2">1339 1340.5</InlineValues>
    </Array>
    <Array name="lat">
      <DataType>Float64</DataType>
      <DimensionRef ref="lat" />
      <RegularlySpacedValues start="-89.875" increment="0.25" />
    </Array>
    <Array name="sst">
      <DataType>Int16</DataType>
      <DimensionRef ref="time" />
      <DimensionRef ref="lat" />
      <BlockSize>1,2</BlockSize>
      <Unit>Celsius</Unit>
      <NoDataValue>-999</NoDataValue>
      <Offset>0</Offset>
      <Scale>0.0099999997764825821</Scale>
      <Source>
        <SourceFilename relativetoVRT="1">d/1.nc</SourceFilename>
        <SourceArray>/sst</SourceArray>
        <SourceSlab offset="0,0" count="1,2" step="1,1" />
        <DestSlab offset="0,0" />
      </Source>
      <Source>
        <SourceFilename>/x/2.nc</SourceFilename>
        <SourceArray>/sst</SourceArray>
        <SourceSlab offset="0,0" count="1,2" step="1,1" />
        <DestSlab offset="1,0" />
      </Source>
      <Attribute name="valid_max"><DataType>Int16</DataType><Value>4500</Value></Attribute>
    </Array>
  </Group>
</VRTDataset>"#;

    #[test]
    fn a_mosaic() {
        assert!(is_mosaic_vrt(MOSAIC.as_bytes()));
        assert!(is_mosaic_vrt(
            b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- x -->\n<VRTDataset a=\"b\">\n<Group name=\"/\">"
        ));
        assert!(!is_mosaic_vrt(b"<VRTDataset rasterXSize=\"2\"><VRTRasterBand/>"));
        assert!(!is_mosaic_vrt(b"\x89HDF\r\n"));
        let m = parse("/v/m.vrt", MOSAIC).unwrap();
        assert_eq!(m.sources, ["/v/d/1.nc", "/x/2.nc"]);
        assert_eq!(m.attributes.text("title"), Some("a & b"));
        assert_eq!(m.dimensions[0].direction, "NORTH");
        let sst = m.arrays.iter().find(|a| a.name == "sst").unwrap();
        assert_eq!((sst.dims.as_slice(), sst.block_size.as_deref()), (&[1, 0][..], Some(&[1, 2][..])));
        assert_eq!((sst.unit.as_deref(), sst.nodata.as_deref()), (Some("Celsius"), Some("-999")));
        assert_eq!(sst.scale, Some(f64::from(0.01f32)));
        assert_eq!(sst.attributes.get("valid_max").unwrap().dtype.as_deref(), Some("<i2"));
        match &sst.content {
            Content::Sources(list) => {
                assert_eq!((list[1].dest.as_slice(), list[1].source), (&[1, 0][..], 1));
                assert_eq!(list[0].source_array, "sst");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(&m.arrays[0].content, Content::Inline(v) if v == &["1339", "1340.5"]));
        assert!(matches!(m.arrays[1].content, Content::Regular { start, .. } if start == -89.875));
    }

    #[test]
    fn what_can_not_be_a_plan() {
        for (from, to, part) in [
            ("step=\"1,1\"", "step=\"2,1\"", "step"),
            ("<DestSlab offset=\"1,0\" />", "<DestSlab offset=\"2,0\" />", "reach beyond"),
            ("<DestSlab offset=\"1,0\" />", "<DestSlab offset=\"1\" />", "for 2 dimensions"),
            ("count=\"1,2\"", "", "count"),
            ("<SourceArray>/sst</SourceArray>", "", "SourceArray"),
            (
                "<SourceArray>/sst</SourceArray>",
                "<SourceArray>/sst</SourceArray><SourceTranspose>1,0</SourceTranspose>",
                "Transpose",
            ),
            ("ref=\"lat\"", "ref=\"nowhere\"", "nowhere"),
            ("1339 1340.5", "1339", "InlineValues"),
            ("<Group", "<Grp", "XML"),
        ] {
            let e = parse("m.vrt", &MOSAIC.replace(from, to)).unwrap_err().to_string();
            assert!(e.contains(part) && e.contains("m.vrt"), "{e} lacks {part}");
        }
        assert!(parse("m.vrt", "<VRTDataset rasterXSize=\"2\"/>").unwrap_err().to_string().contains("bands"));
        assert!(parse("m.vrt", "<!DOCTYPE a [<!ENTITY b \"c\">]><VRTDataset/>").is_err());
    }
}
