//! What a store says of an array: the row of its table `arrays`.

use super::{Attributes, ChunkGrid, CodecSpec, DType, Fill, json_to_f64};
use crate::{Error, Result};
use serde_json::{Number, Value};

/// Whether an array holds data or labels a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayKind {
    /// Data.
    Data,
    /// A coordinate.
    Coord,
}

/// Where the values of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In chunks of sources.
    Referenced,
    /// In the store itself ([`ArrayDesc::values`]).
    Inline,
    /// Computed: start + i · step ([`ArrayDesc::affine`]).
    Affine,
}

/// A dimension of an array of a source: its name (full, without the leading `/`) and its length in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Name.
    pub name: String,
    /// Length in elements.
    pub size: u64,
}

/// GDAL's description of a dimension, from the plan; kept in `meta.dimensions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DimInfo {
    /// Length in elements.
    pub size: u64,
    /// GDAL's type: `HORIZONTAL_X`, `HORIZONTAL_Y`, `VERTICAL`, `TEMPORAL`, or empty.
    pub kind: String,
    /// GDAL's direction: `EAST`, `NORTH`, `UP`, `DOWN`, …, or empty.
    pub direction: String,
    /// Full name of the array that labels it.
    pub variable: Option<String>,
    /// WKT of the coordinate reference system that it is a horizontal axis of.
    pub srs: Option<String>,
}

/// Regularly spaced values: start + i · step, each rounded to the array's type once.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// First value.
    pub start: Number,
    /// Difference of two neighbours.
    pub step: Number,
}

/// An array of the store, as its row in `arrays` says.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDesc {
    /// Full name without the leading `/`.
    pub name: String,
    /// Data or coordinate.
    pub kind: ArrayKind,
    /// Where the values are.
    pub storage: Storage,
    /// Names of the dimensions, full, without the leading `/`.
    pub dims: Vec<String>,
    /// Global shape in elements; None for an array scanned but not planned yet.
    pub shape: Option<Vec<u64>>,
    /// Chunk shape in elements.
    pub chunks: Vec<u64>,
    /// Type of the elements as stored.
    pub dtype: DType,
    /// What an absent chunk reads as.
    pub fill: Fill,
    /// How chunks are encoded.
    pub codec: CodecSpec,
    /// CF attributes.
    pub attrs: Attributes,
    /// For [`Storage::Affine`].
    pub affine: Option<Affine>,
    /// For [`Storage::Inline`]: raw little-endian C-order bytes of `dtype` (strings of any length: as `vlen-utf8`).
    pub values: Option<Vec<u8>>,
}

impl ArrayDesc {
    /// The chunk grid over the global shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the array has no plan yet, or its chunks do not go with its shape.
    pub fn grid(&self) -> Result<ChunkGrid> {
        let shape = self.shape.clone().ok_or_else(|| {
            Error::Invalid(format!(
                "array \"{}\" was scanned but not planned: run `gdal driver mdimrefs plan`",
                self.name
            ))
        })?;
        ChunkGrid::new(shape, self.chunks.clone())
    }
}

impl Affine {
    /// Reads the `affine` column, `{"start": …, "step": …}`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not that.
    pub fn parse(text: &str) -> Result<Affine> {
        let bad = || Error::Invalid(format!("affine is not {{\"start\":…,\"step\":…}}: {text}"));
        let value: Value = serde_json::from_str(text).map_err(|_| bad())?;
        let number = |key: &str| match value.get(key) {
            Some(Value::Number(n)) => Ok(n.clone()),
            _ => Err(bad()),
        };
        Ok(Affine { start: number("start")?, step: number("step")? })
    }

    /// The text of the `affine` column.
    pub fn to_json(&self) -> String {
        serde_json::json!({"start": self.start, "step": self.step}).to_string()
    }

    /// The value at `i` as a float: start + i · step (not accumulated).
    pub fn at(&self, i: u64) -> f64 {
        let f = |n: &Number| json_to_f64(&Value::Number(n.clone())).unwrap_or(f64::NAN);
        f(&self.start) + i as f64 * f(&self.step)
    }
}
