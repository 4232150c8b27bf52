//! Names of dimensions, by the rules of netCDF-4 and HDF5's dimension scales.
//!
//! See <https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html>, "NetCDF-4 Format".

use super::attribute::RawAttribute;
use super::file::File;
use super::global_heap::GlobalHeap;
use crate::Result;
use std::collections::HashMap;

/// What the names of dimensions depend on, of one dataset.
#[derive(Debug)]
pub struct Node {
    /// Full name without the leading `/`.
    pub name: String,
    /// Address of its header.
    pub address: u64,
    /// Shape.
    pub shape: Vec<u64>,
    /// Whether it is a dimension scale.
    pub is_scale: bool,
    /// Whether it is a dimension alone, without values that mean anything.
    pub is_dimension_only: bool,
    /// Its number as a dimension.
    dimension_id: Option<i64>,
    /// Numbers of its dimensions.
    coordinates: Vec<i64>,
    /// Addresses of the scales of each dimension.
    scales: Vec<Vec<u64>>,
}

/// A dimension without a variable has a scale with this name.
const DIMENSION_ONLY: &str = "This is a netCDF dimension but not a netCDF variable";
/// A variable with the name of a dimension that is not its coordinate has this before its name.
const NOT_A_COORDINATE: &str = "_nc4_non_coord_";

impl Node {
    /// Takes from the attributes what matters.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if they are damaged.
    pub fn new(
        file: &File,
        heap: &mut GlobalHeap,
        name: &str,
        address: u64,
        shape: &[u64],
        attributes: &[RawAttribute],
    ) -> Result<Node> {
        let find = |name: &str| attributes.iter().find(|a| a.name == name);
        let is_scale = find("CLASS").and_then(RawAttribute::fixed_text).is_some_and(|c| c == "DIMENSION_SCALE");
        let label = find("NAME").and_then(RawAttribute::fixed_text).unwrap_or_default();
        Ok(Node {
            name: name.to_owned(),
            address,
            shape: shape.to_vec(),
            is_scale,
            is_dimension_only: is_scale && label.starts_with(DIMENSION_ONLY),
            dimension_id: find("_Netcdf4Dimid").and_then(|a| a.integers().first().copied()),
            coordinates: find("_Netcdf4Coordinates").map(RawAttribute::integers).unwrap_or_default(),
            scales: match find("DIMENSION_LIST") {
                Some(list) => list.references(file, heap)?,
                None => Vec::new(),
            },
        })
    }
}

/// The name of an array as netCDF shows it.
pub fn array_name(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((group, own)) => format!("{group}/{}", own.strip_prefix(NOT_A_COORDINATE).unwrap_or(own)),
        None => name.strip_prefix(NOT_A_COORDINATE).unwrap_or(name).to_owned(),
    }
}

/// Names of the dimensions of every dataset. A dimension without a name is `phony_dim_N`: one for each length in the
/// file, and one more where an array has two of a length.
pub fn dimension_names(nodes: &[&Node]) -> Vec<Vec<String>> {
    let mut by_address = HashMap::new();
    let mut by_id = HashMap::new();
    for node in nodes.iter().filter(|n| n.is_scale) {
        by_address.entry(node.address).or_insert(node.name.as_str());
        if let Some(id) = node.dimension_id {
            by_id.entry(id).or_insert(node.name.as_str());
        }
    }
    let mut phony: Vec<u64> = Vec::new();
    nodes
        .iter()
        .map(|node| {
            let mut used = Vec::new();
            (0..node.shape.len())
                .map(|axis| {
                    let by_number = || node.coordinates.get(axis).and_then(|id| by_id.get(id)).copied();
                    let by_scale = || node.scales.get(axis)?.iter().find_map(|a| by_address.get(a)).copied();
                    let own = || (node.is_scale && axis == 0).then_some(node.name.as_str());
                    let named = match (node.is_scale, node.shape.len()) {
                        (true, 1) => own(),
                        (true, _) => by_number().or_else(by_scale).or_else(own),
                        (false, _) => by_scale().or_else(by_number),
                    };
                    named.map(str::to_owned).unwrap_or_else(|| {
                        let size = node.shape[axis];
                        let free = (0..phony.len()).find(|n| phony[*n] == size && !used.contains(n));
                        let number = free.unwrap_or_else(|| {
                            phony.push(size);
                            phony.len() - 1
                        });
                        used.push(number);
                        format!("phony_dim_{number}")
                    })
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: u64, shape: &[u64], scales: &[u64]) -> Node {
        Node {
            name: name.into(),
            address,
            shape: shape.into(),
            is_scale: false,
            is_dimension_only: false,
            dimension_id: None,
            coordinates: Vec::new(),
            scales: scales.iter().map(|s| vec![*s]).collect(),
        }
    }

    #[test]
    fn names() {
        let time = Node { is_scale: true, dimension_id: Some(0), ..node("time", 1, &[3], &[]) };
        let labels =
            Node { is_scale: true, dimension_id: Some(1), coordinates: vec![1, 0], ..node("g/label", 2, &[4, 3], &[]) };
        let data = node("g/v", 3, &[3, 4, 7], &[1, 2]);
        let square = node("square", 4, &[5, 5], &[]);
        let other = node("other", 5, &[5, 6], &[]);
        let names = dimension_names(&[&time, &labels, &data, &square, &other]);
        assert_eq!(names[0], ["time"]);
        assert_eq!(names[1], ["g/label", "time"]);
        assert_eq!(names[2], ["time", "g/label", "phony_dim_0"]);
        assert_eq!(names[3], ["phony_dim_1", "phony_dim_2"]);
        assert_eq!(names[4], ["phony_dim_1", "phony_dim_3"]);
        assert_eq!(array_name("g/_nc4_non_coord_x"), "g/x");
    }
}
