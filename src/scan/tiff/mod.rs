//! TIFF files: classic and BigTIFF, strips and tiles, GeoTIFF and cloud-optimised GeoTIFF, without libtiff.
//!
//! ```text
//! directories (ifd) → type and codec (codec) → chunks: tiles or strips
//!                   → place (geo)            → coordinates x and y, grid mapping spatial_ref
//!                   → GDAL's items (metadata) → attributes
//! ```
//!
//! The image is the array `data`: (y, x) with one band, (y, x, band) where the samples of a pixel lie together, (band, y,
//! x) where each band lies apart. Further pages are `data_2` and so on, by the number of their directory. Overviews and
//! masks are no data. A tile that was never written is absent. A last strip of fewer rows is carried in the store, padded.

mod codec;
mod geo;
mod ifd;
mod metadata;

use super::{Location, Refused, SourceArray, SourceChunk, SourceIndex, assemble};
use crate::codec::{CodecOptions, Pipeline, Scratch};
use crate::io::{BlockCache, ByteReader};
use crate::model::{Attribute, Attributes, CodecSpec, DType, Dim, Fill};
use crate::{Error, Result};
use codec::Layout;
use geo::Georeference;
use ifd::{Ifd, Tiff, tag};
use serde_json::Value;
use std::sync::Arc;

/// Entries of a table of tiles that are read at once.
const PIECE: u64 = 1 << 16;
/// A last strip that is carried in the store has no more bytes than this, padded.
const MAX_PADDED: u64 = 32 << 20;
/// A side of more pixels than this has no coordinates.
const MAX_AXIS: u64 = 8 << 20;

/// Where the values of an array come from.
enum Content {
    Image(Image),
    /// start + i · step.
    Axis(f64, f64),
    /// One zero.
    Mapping,
}

/// Tiles or strips of one directory.
struct Image {
    ifd: Ifd,
    tiled: bool,
    layout: Layout,
    /// Tiles along y and x.
    down: u64,
    across: u64,
    height: u64,
    planes: u64,
    /// Bands apart from each other: the first axis.
    has_plane_axis: bool,
}

/// The chunk index of one TIFF file.
pub struct TiffIndex {
    tiff: Tiff,
    arrays: Vec<SourceArray>,
    contents: Vec<Content>,
    refused: Vec<Refused>,
    groups: Vec<(String, Attributes)>,
}

/// Whether a file begins like a TIFF file.
pub fn is_tiff(head: &[u8]) -> bool {
    [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|magic| head.starts_with(*magic))
}

/// Opens a TIFF file.
///
/// # Errors
/// [`Error::Format`] if it is none, or is damaged; [`Error::Io`].
pub fn open(reader: Arc<dyn ByteReader>) -> Result<Box<dyn SourceIndex>> {
    let (tiff, ifds) = Tiff::open(BlockCache::new(reader)?)?;
    let mut index = TiffIndex {
        tiff,
        arrays: Vec::new(),
        contents: Vec::new(),
        refused: Vec::new(),
        groups: vec![(String::new(), Attributes::default())],
    };
    for (number, ifd) in ifds.into_iter().enumerate() {
        let subfile = index.tiff.value(&ifd, tag::NEW_SUBFILE_TYPE, 0)?;
        let old = index.tiff.value(&ifd, tag::SUBFILE_TYPE, 0)?;
        // Bit 0 is an image of reduced size, bit 2 a mask.
        if number > 0 && (subfile & 0b101 != 0 || old == 2) {
            continue;
        }
        let suffix = if number == 0 { String::new() } else { format!("_{}", number + 1) };
        index.image(ifd, &suffix)?;
    }
    Ok(Box::new(index))
}

impl TiffIndex {
    fn image(&mut self, ifd: Ifd, suffix: &str) -> Result<()> {
        let tiff = &self.tiff;
        let name = format!("data{suffix}");
        let size = |number| tiff.value(&ifd, number, 0);
        let (width, height) = (size(tag::IMAGE_WIDTH)?, size(tag::IMAGE_LENGTH)?);
        let samples = tiff.value(&ifd, tag::SAMPLES_PER_PIXEL, 1)?;
        if [width, height, samples].iter().any(|n| !(1..=1 << 31).contains(n)) {
            return Err(tiff.error(ifd.offset, format!("an image of {width} × {height} × {samples}: it is damaged")));
        }
        let planar = tiff.value(&ifd, tag::PLANAR_CONFIGURATION, 1)? == 2 && samples > 1;
        let tiled = ifd.get(tag::TILE_WIDTH).is_some();
        let (rows, columns) = if tiled {
            (size(tag::TILE_LENGTH)?, size(tag::TILE_WIDTH)?)
        } else {
            (tiff.value(&ifd, tag::ROWS_PER_STRIP, height)?.min(height), width)
        };
        if [rows, columns].iter().any(|n| !(1..=1 << 31).contains(n)) {
            return Err(tiff.error(ifd.offset, format!("tiles of {columns} × {rows} pixels: it is damaged")));
        }
        let together = if planar { 1 } else { samples };
        let layout = Layout { rows, width: columns, samples: together };
        let mut refuse = |what: String| {
            let why = Error::Unsupported { path: tiff.path().to_owned(), array: name.clone(), what };
            self.refused.push(Refused { name: name.clone(), why });
            Ok(())
        };
        let dtype = match codec::dtype(tiff, &ifd, samples)? {
            Ok(dtype) => dtype,
            Err(what) => return refuse(what),
        };
        let (codec, info) = match codec::codec(tiff, &ifd, &dtype, &layout)? {
            Ok(codec) => codec,
            Err(what) => return refuse(what),
        };
        let samples_of_chunk = rows.checked_mul(columns).and_then(|n| n.checked_mul(together));
        let bytes_of_chunk = samples_of_chunk.and_then(|n| n.checked_mul(dtype.size as u64));
        if bytes_of_chunk.is_none_or(|n| n > i64::MAX as u64) {
            return Err(tiff.error(ifd.offset, format!("tiles of {columns} × {rows} × {together}: it is damaged")));
        }
        let image = Image {
            tiled,
            down: height.div_ceil(rows),
            across: width.div_ceil(columns),
            height,
            planes: if planar { samples } else { 1 },
            has_plane_axis: planar,
            layout,
            ifd,
        };
        let place = geo::read(tiff, &image.ifd)?;
        let mut attrs = metadata::attributes(tiff, &image.ifd, &dtype, samples)?;
        let fill = metadata::no_data(tiff, &image.ifd, &dtype)?.unwrap_or_default();
        // Pages of one size lie on one grid.
        let first = self.arrays.iter().find(|a| a.name == "data").map(|a| a.dims.clone()).unwrap_or_default();
        let shared = |name: &str, size: u64| {
            let of = |n: &str| first.iter().find(|d| d.name == n).is_none_or(|d| d.size == size);
            if of(name) { name.to_owned() } else { format!("{name}{suffix}") }
        };
        let own = shared("y", height) != "y" || shared("x", width) != "x";
        let tail = if own { suffix } else { "" };
        let mut dims =
            vec![Dim { name: format!("y{tail}"), size: height }, Dim { name: format!("x{tail}"), size: width }];
        let mut chunks = vec![rows, columns];
        if samples > 1 {
            let at = if planar { 0 } else { 2 };
            dims.insert(at, Dim { name: shared("band", samples), size: samples });
            chunks.insert(at, if planar { 1 } else { samples });
        }
        if !place.mapping.0.is_empty() {
            let mapping = format!("spatial_ref{tail}");
            attrs.set(Attribute {
                name: "grid_mapping".into(),
                value: Value::String(mapping),
                dtype: Some("|O".into()),
            });
        }
        let array = SourceArray { name, dims, chunks, dtype, fill, codec, info, attrs, contiguous: false };
        if first.is_empty() || own {
            self.coordinates(&place, tail, width, height)?;
        }
        self.arrays.push(array);
        self.contents.push(Content::Image(image));
        Ok(())
    }

    fn coordinates(&mut self, place: &Georeference, tail: &str, width: u64, height: u64) -> Result<()> {
        let text = |name: &str, value: &str| Attribute {
            name: name.into(),
            value: Value::String(value.into()),
            dtype: Some("|O".into()),
        };
        let mut add = |name: String, dims: Vec<Dim>, dtype: &str, attrs: Attributes, content: Content| {
            let chunks = dims.iter().map(|d| d.size.max(1)).collect();
            let (fill, codec, info) = (Fill::default(), CodecSpec::default(), String::new());
            let dtype = DType::parse(dtype)?;
            self.arrays.push(SourceArray { name, dims, chunks, dtype, fill, codec, info, attrs, contiguous: false });
            self.contents.push(content);
            Ok::<(), Error>(())
        };
        if let Some([x, y]) = place.axes.filter(|_| width.max(height) <= MAX_AXIS) {
            for (axis, size, (start, step)) in [("x", width, x), ("y", height, y)] {
                let (standard, units) = match (axis, place.is_geographic) {
                    ("x", true) => ("longitude", "degrees_east"),
                    (_, true) => ("latitude", "degrees_north"),
                    ("x", false) => ("projection_x_coordinate", ""),
                    (_, false) => ("projection_y_coordinate", ""),
                };
                let mut attrs = Attributes(vec![text("standard_name", standard), text("axis", &axis.to_uppercase())]);
                if !units.is_empty() {
                    attrs.set(text("units", units));
                }
                let name = format!("{axis}{tail}");
                add(name.clone(), vec![Dim { name, size }], "<f8", attrs, Content::Axis(start, step))?;
            }
        }
        if !place.mapping.0.is_empty() {
            add(format!("spatial_ref{tail}"), Vec::new(), "<i4", place.mapping.clone(), Content::Mapping)?;
        }
        Ok(())
    }

    /// Values of an array that is not in the file as such.
    fn computed(&self, number: usize) -> Option<Vec<u8>> {
        match self.contents[number] {
            Content::Image(_) => None,
            Content::Mapping => Some(vec![0; 4]),
            Content::Axis(start, step) => {
                let size = self.arrays[number].dims.first().map_or(0, |d| d.size);
                Some((0..size).flat_map(|i| (start + i as f64 * step).to_le_bytes()).collect())
            }
        }
    }

    fn image_chunks(
        &self,
        number: usize,
        image: &Image,
        sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let (tiff, array) = (&self.tiff, &self.arrays[number]);
        let plane = image.down * image.across;
        let count = plane.saturating_mul(image.planes);
        let (at, of) = match image.tiled {
            true => (tag::TILE_OFFSETS, tag::TILE_BYTE_COUNTS),
            false => (tag::STRIP_OFFSETS, tag::STRIP_BYTE_COUNTS),
        };
        let Some(offsets) = image.ifd.get(at).filter(|e| e.count >= count) else {
            return Err(tiff.error(image.ifd.offset, format!("array \"{}\" has not {count} offsets", array.name)));
        };
        let sizes = image.ifd.get(of).filter(|e| e.count >= count);
        let is_plain = array.codec.is_empty();
        if sizes.is_none() && !is_plain {
            return Err(tiff.error(image.ifd.offset, format!("array \"{}\" has not {count} byte counts", array.name)));
        }
        let row = image.layout.width * image.layout.samples * array.dtype.size as u64;
        let mut first = 0;
        while first < count {
            let n = PIECE.min(count - first);
            let offsets = tiff.uints(offsets, first, n)?;
            let sizes = sizes.map(|s| tiff.uints(s, first, n)).transpose()?;
            for (i, offset) in offsets.into_iter().enumerate() {
                let chunk = first + i as u64;
                let (y, x) = (chunk % plane / image.across, chunk % image.across);
                let key = match (image.has_plane_axis, image.layout.samples, array.dims.len()) {
                    (true, ..) => vec![chunk / plane, y, x],
                    (false, _, 3) => vec![y, x, 0],
                    _ => vec![y, x],
                };
                // A last strip has only the rows that there are.
                let rows = match image.tiled {
                    true => image.layout.rows,
                    false => image.layout.rows.min(image.height - y * image.layout.rows),
                };
                let decoded = row.saturating_mul(rows);
                let size = sizes.as_ref().map_or(decoded, |s| s[i]);
                if offset == 0 || size == 0 {
                    continue;
                }
                let size = if is_plain && size > decoded { decoded } else { size };
                if offset.checked_add(size).is_none_or(|end| end > tiff.size()) || (is_plain && size < decoded) {
                    let what = format!("array \"{}\", chunk {key:?}: its {size} bytes are not all there", array.name);
                    return Err(tiff.error(offset, format!("{what} (file of {} bytes): it is damaged", tiff.size())));
                }
                let location = match rows == image.layout.rows {
                    true => Location::Range { offset, size },
                    false => Location::Inline(self.padded(number, image, rows, offset, size)?),
                };
                sink(SourceChunk { key: &key, location, filter_mask: 0 })?;
            }
            first += n;
        }
        Ok(())
    }

    /// A strip of fewer rows as a chunk of the array.
    fn padded(&self, number: usize, image: &Image, rows: u64, offset: u64, size: u64) -> Result<Vec<u8>> {
        let (tiff, array) = (&self.tiff, &self.arrays[number]);
        let unsupported = |what: String| Error::Unsupported {
            path: tiff.path().to_owned(),
            array: array.name.clone(),
            what: format!("its last strip has {rows} rows instead of {}, {what}", image.layout.rows),
        };
        let elements = |rows: u64| rows * image.layout.width * image.layout.samples;
        let whole = elements(image.layout.rows).saturating_mul(array.dtype.size as u64);
        if whole > MAX_PADDED || size > MAX_PADDED {
            return Err(unsupported("and is too large to be carried in the store".into()));
        }
        let layout = Layout { rows, width: image.layout.width, samples: image.layout.samples };
        let short = codec::codec(tiff, &image.ifd, &array.dtype, &layout)?;
        let (short, _) = short.map_err(&unsupported)?;
        let decode = || {
            let options = CodecOptions::default();
            let pipeline = Pipeline::new(&short, &array.dtype, elements(rows) as usize, options)?;
            let mut stored = vec![0; size as usize];
            tiff.reader().read_at(offset, &mut stored)?;
            let mut values = vec![0; elements(rows) as usize * array.dtype.size];
            pipeline.decode_into(&stored, 0, &mut values, &mut Scratch::default())?;
            values.resize(whole as usize, 0);
            Pipeline::new(&array.codec, &array.dtype, elements(image.layout.rows) as usize, options)?.encode(&values)
        };
        decode().map_err(|e| match e {
            Error::Codec { .. } => unsupported(format!("and can't be padded: {e}")),
            e => e,
        })
    }
}

impl SourceIndex for TiffIndex {
    fn arrays(&self) -> &[SourceArray] {
        &self.arrays
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn groups(&self) -> &[(String, Attributes)] {
        &self.groups
    }

    fn chunks(&self, number: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()> {
        match (&self.contents[number], self.computed(number)) {
            (Content::Image(image), _) => self.image_chunks(number, image, sink),
            (_, Some(data)) => {
                let key = vec![0; self.arrays[number].dims.len()];
                sink(SourceChunk { key: &key, location: Location::Inline(data), filter_mask: 0 })
            }
            (_, None) => Ok(()),
        }
    }

    fn values(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        if let Some(values) = self.computed(number) {
            return Ok(values);
        }
        let read = |location: &Location| match location {
            Location::Range { offset, size } if *size <= assemble::MAX_CHUNK => {
                let mut bytes = vec![0; *size as usize];
                self.tiff.reader().read_at(*offset, &mut bytes)?;
                Ok(bytes)
            }
            Location::Inline(bytes) => Ok(bytes.clone()),
            _ => Err(self.tiff.error(0, "a chunk is too large to be read here")),
        };
        assemble::values(self.tiff.path(), self, number, limit, &read)
    }
}
