//! Where an image lies: GeoTIFF's tags as coordinates and a CF grid mapping.
//!
//! Specification: OGC GeoTIFF 1.1, <https://docs.ogc.org/is/19-008r4/19-008r4.html>.

use super::ifd::{Ifd, Tiff, tag};
use crate::Result;
use crate::model::{Attribute, Attributes, f64_to_json};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Place and reference system of an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Georeference {
    /// GDAL's geotransform: of the corners of pixels.
    pub transform: Option<[f64; 6]>,
    /// Centres of pixels: (first, step) along x, then y; None where the image is turned.
    pub axes: Option<[(f64, f64); 2]>,
    /// Attributes of the grid mapping; empty if there is no reference system that is understood.
    pub mapping: Attributes,
    /// Whether coordinates are longitude and latitude.
    pub is_geographic: bool,
}

const POINT: u64 = 2;
const USER_DEFINED: u64 = 32767;

/// Geo keys by number: short values, floats.
struct Keys {
    shorts: HashMap<u64, u64>,
    floats: HashMap<u64, f64>,
}

impl Keys {
    fn read(tiff: &Tiff, ifd: &Ifd) -> Result<Keys> {
        let directory = tiff.list(ifd, tag::GEO_KEY_DIRECTORY)?;
        let doubles = tiff.doubles(ifd, tag::GEO_DOUBLES)?;
        let mut keys = Keys { shorts: HashMap::new(), floats: HashMap::new() };
        for key in directory.as_chunks::<4>().0.iter().skip(1) {
            let [number, location, _, value] = *key;
            if location == 0 {
                keys.shorts.insert(number, value);
            } else if location == u64::from(tag::GEO_DOUBLES)
                && let Some(value) = usize::try_from(value).ok().and_then(|i| doubles.get(i))
            {
                keys.floats.insert(number, *value);
            }
        }
        Ok(keys)
    }

    fn code(&self, number: u64) -> Option<u64> {
        self.shorts.get(&number).copied().filter(|c| (1..USER_DEFINED).contains(c))
    }

    /// The first of some keys that there is, or 0.
    fn float(&self, numbers: &[u64]) -> f64 {
        numbers.iter().find_map(|n| self.floats.get(n)).copied().unwrap_or(0.0)
    }
}

/// Reads place and reference system.
///
/// # Errors
/// [`crate::Error::Format`] if tags are damaged.
pub fn read(tiff: &Tiff, ifd: &Ifd) -> Result<Georeference> {
    let keys = Keys::read(tiff, ifd)?;
    let is_point = keys.shorts.get(&1025) == Some(&POINT);
    let (scale, tie) = (tiff.doubles(ifd, tag::MODEL_PIXEL_SCALE)?, tiff.doubles(ifd, tag::MODEL_TIEPOINT)?);
    let matrix = tiff.doubles(ifd, tag::MODEL_TRANSFORMATION)?;
    // As the file has it: of corners, or of centres where pixels are points.
    let stored = match (scale.as_slice(), tie.as_slice(), matrix.as_slice()) {
        ([dx, dy, ..], [i, j, _, x, y, _, ..], _) if *dx != 0.0 && *dy != 0.0 => {
            // GDAL takes a negative height of a pixel for one that points down too.
            let dy = -dy.abs();
            Some([x - i * dx, *dx, 0.0, y - j * dy, 0.0, dy])
        }
        (_, _, [a, b, _, c, d, e, _, f, ..]) => Some([*c, *a, *b, *f, *d, *e]),
        _ => None,
    };
    let half = |t: [f64; 6], sign: f64| {
        let mut moved = t;
        moved[0] += sign * 0.5 * (t[1] + t[2]);
        moved[3] += sign * 0.5 * (t[4] + t[5]);
        moved
    };
    let transform = stored.map(|t| if is_point { half(t, -1.0) } else { t });
    let centres = stored.map(|t| if is_point { t } else { half(t, 1.0) });
    let axes = centres.filter(|t| t[2] == 0.0 && t[4] == 0.0 && t[1] != 0.0 && t[5] != 0.0);
    let axes = axes.map(|t| [(t[0], t[1]), (t[3], t[5])]);
    let is_geographic = keys.shorts.get(&1024) == Some(&2);
    Ok(Georeference { transform, axes, mapping: mapping(&keys, transform), is_geographic })
}

fn number(name: &str, value: f64) -> Attribute {
    Attribute { name: name.into(), value: f64_to_json(value), dtype: Some("<f8".into()) }
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.into(), value: Value::String(value.into()), dtype: Some("|O".into()) }
}

/// The CF grid mapping. A system with an EPSG code has it as `spatial_ref`; one that the file describes has CF's own
/// attributes.
fn mapping(keys: &Keys, transform: Option<[f64; 6]>) -> Attributes {
    let mut attrs = Attributes::default();
    let model = keys.shorts.get(&1024).copied();
    let code = match model {
        Some(1) => keys.code(3072),
        Some(2) => keys.code(2048),
        _ => None,
    };
    if let Some(code) = code {
        attrs.set(text("spatial_ref", &format!("EPSG:{code}")));
    } else if let Some(list) = described(keys, model) {
        attrs.0.extend(list);
    }
    if let Some(t) = transform.filter(|_| !attrs.0.is_empty()) {
        let items: Vec<String> = t.iter().map(f64::to_string).collect();
        attrs.set(text("GeoTransform", &items.join(" ")));
    }
    attrs
}

fn described(keys: &Keys, model: Option<u64>) -> Option<Vec<Attribute>> {
    let mut list = Vec::new();
    let f = |numbers: &[u64]| keys.float(numbers);
    if model == Some(1) {
        // Lengths in other units than metres would have to be converted.
        if keys.shorts.get(&3076).is_some_and(|unit| *unit != 9001) {
            return None;
        }
        // EPSG's conversions 16001 … 16060 are the UTM zones of the north, 16101 … 16160 those of the south.
        let zone = keys.code(3074).filter(|c| matches!(c, 16001..=16060 | 16101..=16160));
        let method = match (keys.shorts.get(&3075), zone) {
            (None | Some(&USER_DEFINED), Some(_)) => 1,
            (Some(method), _) => *method,
            (None, None) => return None,
        };
        let method = match method {
            1 => "transverse_mercator",
            7 => "mercator",
            8 => "lambert_conformal_conic",
            10 => "lambert_azimuthal_equal_area",
            11 => "albers_conical_equal_area",
            15 => "polar_stereographic",
            24 => "sinusoidal",
            _ => return None,
        };
        list.push(text("grid_mapping_name", method));
        let longitude = f(&[3080, 3084, 3088, 3095]);
        let latitude = f(&[3081, 3085, 3089]);
        let scale = keys.floats.get(&3092).copied().unwrap_or(1.0);
        match (method, zone) {
            ("transverse_mercator", Some(zone)) => {
                list.push(number("longitude_of_central_meridian", (zone % 100) as f64 * 6.0 - 183.0));
                list.push(number("latitude_of_projection_origin", 0.0));
                list.push(number("scale_factor_at_central_meridian", 0.9996));
                list.push(number("false_easting", 500_000.0));
                list.push(number("false_northing", if zone > 16100 { 10_000_000.0 } else { 0.0 }));
            }
            ("transverse_mercator", None) => {
                list.push(number("longitude_of_central_meridian", longitude));
                list.push(number("latitude_of_projection_origin", latitude));
                list.push(number("scale_factor_at_central_meridian", scale));
            }
            ("mercator", _) => {
                list.push(number("longitude_of_projection_origin", longitude));
                match keys.floats.get(&3078) {
                    Some(parallel) => list.push(number("standard_parallel", *parallel)),
                    None => list.push(number("scale_factor_at_projection_origin", scale)),
                }
            }
            ("lambert_conformal_conic" | "albers_conical_equal_area", _) => {
                list.push(number("longitude_of_central_meridian", longitude));
                list.push(number("latitude_of_projection_origin", latitude));
                let parallels = json!([f64_to_json(f(&[3078])), f64_to_json(f(&[3079]))]);
                let dtype = Some("<f8".into());
                list.push(Attribute { name: "standard_parallel".into(), value: parallels, dtype });
            }
            ("polar_stereographic", _) => {
                list.push(number("straight_vertical_longitude_from_pole", longitude));
                list.push(number("latitude_of_projection_origin", if latitude < 0.0 { -90.0 } else { 90.0 }));
                list.push(number("standard_parallel", latitude));
            }
            ("sinusoidal", _) => list.push(number("longitude_of_central_meridian", longitude)),
            _ => {
                list.push(number("longitude_of_projection_origin", longitude));
                list.push(number("latitude_of_projection_origin", latitude));
            }
        }
        if zone.is_none() {
            list.push(number("false_easting", f(&[3082, 3086, 3090])));
            list.push(number("false_northing", f(&[3083, 3087, 3091])));
        }
    } else if model == Some(2) {
        list.push(text("grid_mapping_name", "latitude_longitude"));
    } else {
        return None;
    }
    match (keys.floats.get(&2057), keys.floats.get(&2059), keys.floats.get(&2058)) {
        (Some(major), Some(flattening), _) => {
            list.push(number("semi_major_axis", *major));
            list.push(number("inverse_flattening", *flattening));
        }
        (Some(major), None, Some(minor)) => {
            list.push(number("semi_major_axis", *major));
            list.push(number("semi_minor_axis", *minor));
        }
        // WGS 84, NAD83 and ETRS89: by their datum, ellipsoid or geographic system.
        _ => match keys.code(2048).or(keys.code(2050)).or(keys.code(2056)) {
            Some(4326 | 6326 | 7030) => {
                list.push(number("semi_major_axis", 6_378_137.0));
                list.push(number("inverse_flattening", 298.257_223_563));
            }
            Some(4269 | 6269 | 4258 | 6258 | 7019) => {
                list.push(number("semi_major_axis", 6_378_137.0));
                list.push(number("inverse_flattening", 298.257_222_101));
            }
            _ => return None,
        },
    }
    Some(list)
}
