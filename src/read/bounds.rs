//! What the coordinates of an array say: of each index along a dimension, and of each chunk.

use super::Reader;
use crate::Result;
use crate::model::json_to_f64;
use crate::plan::time::TimeUnit;
use crate::store::{Bounds, ChunkBounds};

/// The coordinate of a dimension.
#[derive(Clone, Debug)]
pub struct Coordinate {
    /// Number of its array.
    pub array: usize,
    /// Unpacked values (scale, offset) in the coordinate's unit.
    pub values: Vec<f64>,
    /// If it is a time.
    pub time: Option<TimeUnit>,
}

impl Reader {
    /// The coordinate of a dimension, by the dimension's full name; None if it has none, or one that is not of numbers.
    ///
    /// # Errors
    /// As [`Reader::values_f64`].
    pub fn coordinate(&self, dimension: &str) -> Result<Option<Coordinate>> {
        let store = self.store();
        let info = store.dimensions().iter().find(|(n, _)| n == dimension);
        let name = info.and_then(|(_, d)| d.variable.as_deref()).unwrap_or(dimension);
        let labels = |v: &usize| store.arrays()[*v].dims == [dimension] && store.arrays()[*v].dtype.is_numeric();
        let Some(array) = store.find(name).filter(labels) else { return Ok(None) };
        let attrs = &store.arrays()[array].attrs;
        let of = |name: &str| attrs.get(name).and_then(|a| json_to_f64(&a.value));
        let (scale, offset) = (of("scale_factor").unwrap_or(1.0), of("add_offset").unwrap_or(0.0));
        let values = self.values_f64(array)?.into_iter().map(|v| v * scale + offset).collect();
        let time = TimeUnit::parse(attrs.text("units").unwrap_or_default(), attrs.text("calendar"));
        Ok(Some(Coordinate { array, values, time }))
    }

    /// For each dimension of array number `array` that has a coordinate of numbers: least and greatest value along each
    /// chunk; times that have dates are ISO 8601 text. Of two dimensions with one name the first counts.
    ///
    /// # Errors
    /// As [`Reader::values_f64`].
    pub fn chunk_bounds(&self, array: usize) -> Result<Vec<ChunkBounds>> {
        let desc = &self.store().arrays()[array];
        let mut found: Vec<ChunkBounds> = Vec::new();
        for (axis, (dim, chunk)) in desc.dims.iter().zip(&desc.chunks).enumerate() {
            let own = dim.rsplit('/').next().unwrap_or(dim);
            if found.iter().any(|b| b.name == own) {
                continue;
            }
            let Some(Coordinate { values, time, .. }) = self.coordinate(dim)? else { continue };
            let ends: Vec<[f64; 2]> = values
                .chunks(usize::try_from(*chunk).unwrap_or(usize::MAX))
                .map(|c| c.iter().fold([f64::NAN; 2], |[low, high], v| [low.min(*v), high.max(*v)]))
                .collect();
            let dates = time.and_then(|unit| {
                let both = |[low, high]: &[f64; 2]| Some([unit.date(*low)?, unit.date(*high)?]);
                ends.iter().map(both).collect::<Option<Vec<_>>>()
            });
            let bounds = dates.map_or(Bounds::Numbers(ends), Bounds::Times);
            found.push(ChunkBounds { axis, name: own.to_owned(), bounds });
        }
        Ok(found)
    }

    /// What each index along a dimension is called: the date of a time, or the coordinate's number; empty without a
    /// coordinate.
    ///
    /// # Errors
    /// As [`Reader::values_f64`].
    pub fn labels(&self, dimension: &str) -> Result<Vec<String>> {
        let Some(Coordinate { values, time, .. }) = self.coordinate(dimension)? else { return Ok(Vec::new()) };
        Ok(values.into_iter().map(|v| time.and_then(|t| t.date(v)).unwrap_or_else(|| v.to_string())).collect())
    }
}
