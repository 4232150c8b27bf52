//! Where the chunks of an array are, by its coordinates.

use super::Reader;
use crate::Result;
use crate::model::json_to_f64;
use crate::plan::time::TimeUnit;
use crate::store::{Bounds, ChunkBounds};

impl Reader {
    /// For each dimension of array number `array` that has a coordinate of numbers: least and greatest value along each
    /// chunk, unpacked (scale, offset); times that have dates are ISO 8601 text.
    ///
    /// # Errors
    /// As [`Reader::values_f64`]; a dimension without a coordinate, or with one that is not of numbers, is left out.
    pub fn chunk_bounds(&self, array: usize) -> Result<Vec<ChunkBounds>> {
        let store = self.store();
        let desc = &store.arrays()[array];
        let mut found: Vec<ChunkBounds> = Vec::new();
        for (axis, (dim, chunk)) in desc.dims.iter().zip(&desc.chunks).enumerate() {
            let own = dim.rsplit('/').next().unwrap_or(dim);
            let info = store.dimensions().iter().find(|(n, _)| n == dim);
            let name = info.and_then(|(_, d)| d.variable.as_deref()).unwrap_or(dim);
            let Some(number) = store.find(name).filter(|v| store.arrays()[*v].dims == [dim.as_str()]) else { continue };
            let coordinate = &store.arrays()[number];
            if !coordinate.dtype.is_numeric() || found.iter().any(|b| b.name == own) {
                continue;
            }
            let attrs = &coordinate.attrs;
            let of = |name: &str| attrs.get(name).and_then(|a| json_to_f64(&a.value));
            let (scale, offset) = (of("scale_factor").unwrap_or(1.0), of("add_offset").unwrap_or(0.0));
            let values: Vec<f64> = self.values_f64(number)?.into_iter().map(|v| v * scale + offset).collect();
            let ends: Vec<[f64; 2]> = values
                .chunks(usize::try_from(*chunk).unwrap_or(usize::MAX))
                .map(|c| c.iter().fold([f64::NAN; 2], |[low, high], v| [low.min(*v), high.max(*v)]))
                .collect();
            let unit = TimeUnit::parse(attrs.text("units").unwrap_or_default(), attrs.text("calendar"));
            let dates = unit.and_then(|unit| {
                let both = |[low, high]: &[f64; 2]| Some([unit.date(*low)?, unit.date(*high)?]);
                ends.iter().map(both).collect::<Option<Vec<_>>>()
            });
            let bounds = dates.map_or(Bounds::Numbers(ends), Bounds::Times);
            found.push(ChunkBounds { axis, name: own.to_owned(), bounds });
        }
        Ok(found)
    }
}
