//! Compression and predictor of an image as Zarr v2 codecs.

use super::ifd::{Ifd, Tiff, tag};
use crate::Result;
use crate::model::{ByteOrder, CodecSpec, DType, Kind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What the chunks of an image are, beside their shape.
pub struct Layout {
    /// Rows of a chunk.
    pub rows: u64,
    /// Pixels of a row of a chunk.
    pub width: u64,
    /// Samples of a pixel that lie together.
    pub samples: u64,
}

/// The type of an image's samples; else why there is none.
pub fn dtype(tiff: &Tiff, ifd: &Ifd, samples: u64) -> Result<Result<DType, String>> {
    let of = |list: Vec<u64>, default: u64| -> Option<u64> {
        let first = list.first().copied().unwrap_or(default);
        list.iter().take(usize::try_from(samples).unwrap_or(usize::MAX)).all(|v| *v == first).then_some(first)
    };
    let Some(bits) = of(tiff.list(ifd, tag::BITS_PER_SAMPLE)?, 1) else {
        return Ok(Err("its bands have different numbers of bits".into()));
    };
    let Some(format) = of(tiff.list(ifd, tag::SAMPLE_FORMAT)?, 1) else {
        return Ok(Err("its bands have different types".into()));
    };
    let kind = match (format, bits) {
        (1 | 4, 8 | 16 | 32 | 64) => Kind::UInt,
        (2, 8 | 16 | 32 | 64) => Kind::Int,
        (3, 16 | 32 | 64) => Kind::Float,
        (6, 64 | 128) => Kind::Complex,
        _ => return Ok(Err(format!("samples of {bits} bits (sample format {format}) are not supported"))),
    };
    Ok(Ok(DType::new(kind, bits as usize / 8, tiff.order)))
}

/// Codec and GDAL's block-info text of an image; else why there is none.
pub fn codec(tiff: &Tiff, ifd: &Ifd, dtype: &DType, layout: &Layout) -> Result<Result<(CodecSpec, String), String>> {
    let compression = tiff.value(ifd, tag::COMPRESSION, 1)?;
    let (name, codec): (&str, Option<Value>) = match compression {
        1 => ("", None),
        5 => ("LZW", Some(json!({"id": "imagecodecs_lzw"}))),
        7 => ("JPEG", Some(jpeg(tiff, ifd)?)),
        8 | 32946 => ("DEFLATE", Some(json!({"id": "zlib", "level": 6}))),
        32773 => ("PACKBITS", Some(json!({"id": "imagecodecs_packbits"}))),
        34712 => ("JPEG2000", Some(json!({"id": "imagecodecs_jpeg2k"}))),
        34887 => ("LERC", Some(json!({"id": "imagecodecs_lerc"}))),
        34925 => ("LZMA", Some(json!({"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": null}))),
        50000 => ("ZSTD", Some(json!({"id": "zstd", "level": 9}))),
        50001 => ("WEBP", Some(json!({"id": "imagecodecs_webp"}))),
        50002 | 52546 => ("JXL", Some(json!({"id": "imagecodecs_jpegxl"}))),
        other => return Ok(Err(format!("TIFF compression {other} is not supported"))),
    };
    if tiff.value(ifd, tag::FILL_ORDER, 1)? != 1 {
        return Ok(Err("its bits are in reverse order (FillOrder 2)".into()));
    }
    // YCbCr without JPEG has fewer samples of colour than of light.
    if tiff.value(ifd, tag::PHOTOMETRIC, 1)? == 6 && !matches!(compression, 7 | 34712 | 50001 | 50002 | 52546) {
        return Ok(Err("its colours are YCbCr, packed".into()));
    }
    let mut filters = Vec::new();
    let mut compressor = codec;
    let mut items = Vec::new();
    if !name.is_empty() {
        items.push(format!("COMPRESSION={name}"));
    }
    if compression == 34887 {
        // LERC may be compressed once more.
        let more = match tiff.list(ifd, tag::LERC_PARAMETERS)?.get(1) {
            None | Some(0) => None,
            Some(1) => Some(json!({"id": "zlib", "level": 6})),
            Some(2) => Some(json!({"id": "zstd", "level": 9})),
            Some(other) => return Ok(Err(format!("LERC with compression {other} is not supported"))),
        };
        if more.is_some() {
            filters.extend(compressor.take());
            compressor = more;
        }
    }
    // Other compressions ignore the tag.
    if matches!(compression, 5 | 8 | 32946 | 34925 | 50000) {
        let predictor = tiff.value(ifd, tag::PREDICTOR, 1)?;
        let shape = json!([layout.rows, layout.width, layout.samples]);
        let with = |id: &str| json!({"id": id, "dtype": dtype.to_string(), "shape": shape, "axis": 1});
        match predictor {
            1 => {}
            2 if matches!(dtype.kind, Kind::Int | Kind::UInt | Kind::Float) => filters.push(with("imagecodecs_delta")),
            3 if dtype.kind == Kind::Float => filters.push(with("imagecodecs_floatpred")),
            other => return Ok(Err(format!("predictor {other} of {dtype} is not supported"))),
        }
        if predictor != 1 {
            items.push(format!("PREDICTOR={predictor}"));
        }
    }
    if dtype.swap_size() > 1 {
        items.push(format!("ENDIANNESS={}", if dtype.order == ByteOrder::Big { "BIG" } else { "LITTLE" }));
    }
    Ok(Ok((CodecSpec { compressor, filters }, items.join("; "))))
}

fn jpeg(tiff: &Tiff, ifd: &Ifd) -> Result<Value> {
    let mut codec = json!({"id": "imagecodecs_jpeg"});
    let tables = tiff.raw(ifd, tag::JPEG_TABLES)?;
    if !tables.is_empty() {
        codec["tables"] = Value::String(STANDARD.encode(tables));
    }
    if tiff.value(ifd, tag::PHOTOMETRIC, 1)? == 6 {
        // Decoded to red, green and blue, as by all readers of TIFF.
        codec["colorspace_jpeg"] = json!("YCBCR");
        codec["colorspace_data"] = json!("RGB");
    }
    Ok(codec)
}
