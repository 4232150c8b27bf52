//! What CF attributes say of a dimension's coordinate, in GDAL's terms.
//!
//! See <https://cfconventions.org/cf-conventions/cf-conventions.html#coordinate-types>.

use crate::model::Attributes;

/// Which way degrees count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Degrees {
    /// Longitude.
    East,
    /// Latitude.
    North,
}

/// What the unit of a coordinate says, in any of the spellings of CF 4.1 and 4.2.
pub fn degrees_of(units: &str) -> Option<Degrees> {
    let units = units.trim().to_ascii_lowercase();
    let rest = units.strip_prefix("degrees").or_else(|| units.strip_prefix("degree"))?;
    match rest.strip_prefix('_').unwrap_or(rest) {
        "east" | "e" => Some(Degrees::East),
        "north" | "n" => Some(Degrees::North),
        _ => None,
    }
}

/// GDAL's dimension type and direction for a coordinate with these attributes; empty where they do not tell.
pub fn kind_and_direction(attrs: &Attributes) -> (&'static str, &'static str) {
    let lower = |name: &str| attrs.text(name).unwrap_or_default().trim().to_ascii_lowercase();
    let (axis, standard_name, units, positive) =
        (lower("axis"), lower("standard_name"), lower("units"), lower("positive"));
    let vertical = || match positive.as_str() {
        "up" => ("VERTICAL", "UP"),
        "down" => ("VERTICAL", "DOWN"),
        _ => ("VERTICAL", ""),
    };
    match standard_name.as_str() {
        "longitude" | "projection_x_coordinate" | "grid_longitude" => return ("HORIZONTAL_X", "EAST"),
        "latitude" | "projection_y_coordinate" | "grid_latitude" => return ("HORIZONTAL_Y", "NORTH"),
        "time" => return ("TEMPORAL", ""),
        _ => {}
    }
    if degrees_of(&units) == Some(Degrees::East) {
        ("HORIZONTAL_X", "EAST")
    } else if degrees_of(&units) == Some(Degrees::North) {
        ("HORIZONTAL_Y", "NORTH")
    } else if crate::plan::time::TimeUnit::parse(&units, None).is_some() {
        ("TEMPORAL", "")
    } else if !positive.is_empty() {
        vertical()
    } else {
        match axis.as_str() {
            "x" => ("HORIZONTAL_X", ""),
            "y" => ("HORIZONTAL_Y", ""),
            "z" => vertical(),
            "t" => ("TEMPORAL", ""),
            _ => ("", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Attribute;

    /// Pairs from the CF conventions' chapter 4.
    #[test]
    fn coordinate_types() {
        let of = |pairs: &[(&str, &str)]| {
            kind_and_direction(&Attributes(
                pairs.iter().map(|(n, v)| Attribute { name: (*n).into(), value: (*v).into(), dtype: None }).collect(),
            ))
        };
        assert_eq!(of(&[("units", "degrees_north")]), ("HORIZONTAL_Y", "NORTH"));
        assert_eq!(of(&[("units", "degreeE")]), ("HORIZONTAL_X", "EAST"));
        assert_eq!(of(&[("standard_name", "projection_y_coordinate"), ("units", "m")]), ("HORIZONTAL_Y", "NORTH"));
        assert_eq!(of(&[("units", "days since 1978-01-01")]), ("TEMPORAL", ""));
        assert_eq!(of(&[("units", "m"), ("positive", "Down")]), ("VERTICAL", "DOWN"));
        assert_eq!(of(&[("units", "m"), ("axis", "X")]), ("HORIZONTAL_X", ""));
        assert_eq!(of(&[("units", "m")]), ("", ""));
    }
}
