//! GDAL's own tags: metadata items, no-data.

use super::ifd::{Ifd, Tiff, tag};
use crate::Result;
use crate::model::{Attribute, Attributes, ByteOrder, DType, Fill, Kind, f64_to_json};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

/// An item of GDAL's metadata.
#[derive(Debug, Default, PartialEq)]
struct Item {
    name: String,
    role: String,
    sample: Option<String>,
    text: String,
}

/// Items of a `<GDALMetadata>` document, as far as it can be read.
fn items(xml: &str) -> Vec<Item> {
    let mut reader = Reader::from_str(xml);
    let mut list = Vec::new();
    let mut current: Option<Item> = None;
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) if start.name().into_inner() == "Item" => {
                let of = |name: &str| {
                    let attribute = start.try_get_attribute(name).ok()??;
                    Some(attribute.value.into_owned())
                };
                let name = of("name").unwrap_or_default();
                current = Some(Item {
                    name,
                    role: of("role").unwrap_or_default(),
                    sample: of("sample"),
                    text: String::new(),
                });
            }
            Ok(Event::Text(text)) => {
                if let Some(item) = &mut current {
                    item.text.push_str(&text);
                }
            }
            Ok(Event::GeneralRef(reference)) => {
                if let Some(item) = &mut current
                    && let Some(text) = quick_xml::escape::resolve_predefined_entity(&reference)
                {
                    item.text.push_str(text);
                }
            }
            Ok(Event::End(_)) => list.extend(current.take()),
            Ok(Event::Eof) | Err(_) => return list,
            Ok(_) => {}
        }
    }
}

/// The no-data value as an element of `dtype`; None if there is none, or it is no such value.
pub fn no_data(tiff: &Tiff, ifd: &Ifd, dtype: &DType) -> Result<Option<Fill>> {
    let text = tiff.text(ifd, tag::GDAL_NODATA)?;
    let text = text.trim();
    let value = match dtype.kind {
        Kind::Int => text.parse::<i64>().ok().map(Value::from),
        Kind::UInt => text.parse::<u64>().ok().map(Value::from),
        _ => None,
    };
    let value = value.or_else(|| text.parse::<f64>().ok().map(f64_to_json));
    // Rounded to what an element can be.
    let bytes = value.and_then(|v| Fill(v).to_bytes(dtype).ok());
    bytes.map(|b| Fill::from_bytes(dtype, &b)).transpose()
}

/// CF attributes of an image.
///
/// # Errors
/// [`crate::Error::Format`] if tags are damaged.
pub fn attributes(tiff: &Tiff, ifd: &Ifd, dtype: &DType, bands: u64) -> Result<Attributes> {
    let mut attrs = Attributes::default();
    let little = dtype.with_order(ByteOrder::Little).to_string();
    if let Some(fill) = no_data(tiff, ifd, dtype)? {
        attrs.set(Attribute { name: "_FillValue".into(), value: fill.0, dtype: Some(little) });
    }
    let items = items(&tiff.text(ifd, tag::GDAL_METADATA)?);
    // What all bands have in common is the array's.
    let common = |role: &str| {
        let list: Vec<&Item> = items.iter().filter(|i| i.role == role).collect();
        let first = list.first()?;
        (list.len() as u64 == bands && list.iter().all(|i| i.text == first.text)).then(|| first.text.trim().to_owned())
    };
    for (role, name) in [("scale", "scale_factor"), ("offset", "add_offset")] {
        if let Some(value) = common(role).and_then(|t| t.parse::<f64>().ok()).filter(|v| v.is_finite()) {
            attrs.set(Attribute { name: name.into(), value: f64_to_json(value), dtype: Some("<f8".into()) });
        }
    }
    for (role, name) in [("unittype", "units"), ("description", "long_name")] {
        if let Some(text) = common(role).filter(|t| !t.is_empty()) {
            attrs.set(Attribute { name: name.into(), value: Value::String(text), dtype: Some("|O".into()) });
        }
    }
    Ok(attrs)
}
