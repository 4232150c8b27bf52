//! The mosaic VRT: a multidimensional VRT as `gdal mdim mosaic` writes it, as plain data.
//!
//! [`parse`] refuses, by name, what can't be a plan: a step, a transposition, a view, a derived array, a VRT of bands,
//! and any element of an array or a source that it does not know, since that could change the values. It opens no
//! source: what the VRT hides (units of coordinates, calendars, scales of each file, overlap) is for the plan to check.
//!
//! See <https://gdal.org/en/stable/drivers/raster/vrt_multidimensional.html>.

mod content;
mod group;
mod path;
mod value;
mod xml;

pub use group::{is_mosaic_vrt, parse};

use crate::model::Attributes;

/// No VRT larger than this is parsed (bytes). A source takes about 350 of them.
pub const MAX_SIZE: usize = 1 << 30;

/// A mosaic VRT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mosaic {
    /// Distinct sources, in order of first appearance, as GDAL would open them: a relative one is joined to the folder
    /// of the VRT where the VRT says so; nothing else is changed.
    pub sources: Vec<String>,
    /// Dimensions of all groups.
    pub dimensions: Vec<VrtDimension>,
    /// Arrays of all groups.
    pub arrays: Vec<VrtArray>,
    /// Attributes of the root group.
    pub attributes: Attributes,
    /// The other groups: full name without the leading `/`, attributes.
    pub groups: Vec<(String, Attributes)>,
}

/// A dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VrtDimension {
    /// Full name without the leading `/`.
    pub name: String,
    /// GDAL's type (`HORIZONTAL_X`, …), or empty.
    pub kind: String,
    /// GDAL's direction (`EAST`, …), or empty.
    pub direction: String,
    /// Length in elements, at least 1.
    pub size: u64,
    /// Full name, without the leading `/`, of the indexing variable. The VRT may lack that array.
    pub variable: Option<String>,
}

/// Coordinate reference system of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VrtSrs {
    /// WKT, or whatever else GDAL takes for a CRS.
    pub wkt: String,
    /// Axis of the array (from 1) of each axis of the SRS; empty if not given.
    pub mapping: Vec<i32>,
}

/// An array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VrtArray {
    /// Full name without the leading `/`.
    pub name: String,
    /// Its dimensions, as indices into [`Mosaic::dimensions`].
    pub dims: Vec<usize>,
    /// GDAL's name of the data type (`Int16`, `Float64`, `String`); empty if there is no VRT.
    pub dtype: String,
    /// Block size in elements, one for each dimension, each at least 1. None where sources differ or it is not known.
    pub block_size: Option<Vec<u64>>,
    /// Unit.
    pub unit: Option<String>,
    /// No-data value, as written. GDAL writes it as a float64: an integer beyond 2^53 is rounded.
    pub nodata: Option<String>,
    /// Offset: value = stored · scale + offset.
    pub offset: Option<f64>,
    /// Scale: value = stored · scale + offset.
    pub scale: Option<f64>,
    /// SRS.
    pub srs: Option<VrtSrs>,
    /// Attributes, without those that GDAL shows as unit, no-data, scale and offset.
    pub attributes: Attributes,
    /// Values.
    pub content: Content,
}

/// Where the values of an array come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    /// Nothing is said: the array reads as no-data.
    #[default]
    Empty,
    /// Slabs of sources.
    Sources(Vec<VrtSource>),
    /// The text of every element, as written, in C order.
    Inline(Vec<String>),
    /// start + i · increment; the array has one dimension.
    Regular {
        /// First value.
        start: f64,
        /// Difference of two neighbours.
        increment: f64,
    },
    /// One value everywhere, as written.
    Constant(String),
}

/// A slab of a source. The three lists have one entry for each dimension of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrtSource {
    /// Index into [`Mosaic::sources`].
    pub source: u32,
    /// Full name of the array in the source, without the leading `/`.
    pub source_array: String,
    /// First element in the source, along each dimension.
    pub src_offset: Vec<u64>,
    /// Elements along each dimension, at least 1.
    pub count: Vec<u64>,
    /// First element in the whole, along each dimension; dest + count is within the array.
    pub dest: Vec<u64>,
}

impl VrtArray {
    /// The no-data value as a float; None also where the text is not a number.
    pub fn nodata_value(&self) -> Option<f64> {
        value::parse_f64(self.nodata.as_deref()?)
    }
}

#[cfg(test)]
mod tests;
