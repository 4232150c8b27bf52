//! Chunk grids and codecs.

use crate::{Error, Result};
use serde_json::Value;

/// A chunk's place in a chunk grid: one index for each dimension.
pub type ChunkKey = Vec<u64>;

/// A regular grid of chunks over an array. Shape and chunk shape are in elements; the last chunk along an axis may
/// reach beyond the shape (it is stored whole, the reader crops).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkGrid {
    /// Elements along each dimension.
    pub shape: Vec<u64>,
    /// Elements of a chunk along each dimension, at least 1.
    pub chunks: Vec<u64>,
}

impl ChunkGrid {
    /// A grid.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the ranks differ or a chunk extent is 0.
    pub fn new(shape: Vec<u64>, chunks: Vec<u64>) -> Result<ChunkGrid> {
        if shape.len() != chunks.len() || chunks.contains(&0) {
            return Err(Error::Invalid(format!("shape {shape:?} does not go with chunks {chunks:?}")));
        }
        Ok(ChunkGrid { shape, chunks })
    }

    /// Number of chunks along each dimension.
    pub fn counts(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.chunks).map(|(s, c)| s.div_ceil(*c)).collect()
    }

    /// Number of chunks of the grid, saturating at `u64::MAX`.
    pub fn len(&self) -> u64 {
        self.counts().iter().fold(1u64, |n, c| n.saturating_mul(*c))
    }

    /// Whether there is no chunk (a dimension has length 0).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements of one chunk, or None if it does not fit in `u64`.
    pub fn chunk_elements(&self) -> Option<u64> {
        self.chunks.iter().try_fold(1u64, |n, c| n.checked_mul(*c))
    }
}

/// How the bytes of a chunk are encoded: Zarr v2 codec objects (`{"id": …}`).
///
/// `filters` are in encode order; `compressor` comes last. Decoding goes the other way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodecSpec {
    /// Zarr v2 `compressor`.
    pub compressor: Option<Value>,
    /// Zarr v2 `filters`.
    pub filters: Vec<Value>,
}

impl CodecSpec {
    /// Reads the store's `codec` column: `{"compressor": …, "filters": […]}`, either may be null or missing.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not such an object.
    pub fn parse(text: &str) -> Result<CodecSpec> {
        let bad = || Error::Invalid(format!("codec is not {{\"compressor\":…,\"filters\":[…]}}: {text}"));
        let value: Value = serde_json::from_str(text).map_err(|_| bad())?;
        if value.is_null() {
            return Ok(CodecSpec::default());
        }
        let object = value.as_object().ok_or_else(bad)?;
        let codec = |v: &Value| v.get("id").is_some_and(Value::is_string);
        let compressor = match object.get("compressor") {
            None | Some(Value::Null) => None,
            Some(v) if codec(v) => Some(v.clone()),
            Some(_) => return Err(bad()),
        };
        let filters = match object.get("filters") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) if list.iter().all(codec) => list.clone(),
            Some(_) => return Err(bad()),
        };
        Ok(CodecSpec { compressor, filters })
    }

    /// The JSON text of the store's `codec` column.
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "compressor": self.compressor,
            "filters": if self.filters.is_empty() { Value::Null } else { Value::Array(self.filters.clone()) },
        })
        .to_string()
    }

    /// All codecs in encode order.
    pub fn encode_order(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.filters.iter().chain(self.compressor.iter())
    }

    /// Whether there is no codec.
    pub fn is_empty(&self) -> bool {
        self.compressor.is_none() && self.filters.is_empty()
    }
}
