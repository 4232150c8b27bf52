//! Image file directories: the tags of each image of a TIFF file.
//!
//! Specification: TIFF 6.0, section 2; BigTIFF: <https://www.awaresystems.be/imaging/tiff/bigtiff.html>.

use crate::io::BlockCache;
use crate::model::ByteOrder;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};

/// Directories of one file, at most.
const MAX_IFDS: usize = 10_000;
/// Tags of one directory, at most.
const MAX_TAGS: u64 = 65_536;
/// Values of a tag that are read at once, at most; tables of tiles are read in pieces.
const MAX_VALUES: u64 = 1 << 20;

/// Numbers of tags.
pub mod tag {
    #![allow(missing_docs, reason = "the names are the specification's own")]
    pub const NEW_SUBFILE_TYPE: u16 = 254;
    pub const SUBFILE_TYPE: u16 = 255;
    pub const IMAGE_WIDTH: u16 = 256;
    pub const IMAGE_LENGTH: u16 = 257;
    pub const BITS_PER_SAMPLE: u16 = 258;
    pub const COMPRESSION: u16 = 259;
    pub const PHOTOMETRIC: u16 = 262;
    pub const FILL_ORDER: u16 = 266;
    pub const STRIP_OFFSETS: u16 = 273;
    pub const SAMPLES_PER_PIXEL: u16 = 277;
    pub const ROWS_PER_STRIP: u16 = 278;
    pub const STRIP_BYTE_COUNTS: u16 = 279;
    pub const PLANAR_CONFIGURATION: u16 = 284;
    pub const PREDICTOR: u16 = 317;
    pub const TILE_WIDTH: u16 = 322;
    pub const TILE_LENGTH: u16 = 323;
    pub const TILE_OFFSETS: u16 = 324;
    pub const TILE_BYTE_COUNTS: u16 = 325;
    pub const SAMPLE_FORMAT: u16 = 339;
    pub const JPEG_TABLES: u16 = 347;
    pub const MODEL_PIXEL_SCALE: u16 = 33550;
    pub const MODEL_TIEPOINT: u16 = 33922;
    pub const MODEL_TRANSFORMATION: u16 = 34264;
    pub const GEO_KEY_DIRECTORY: u16 = 34735;
    pub const GEO_DOUBLES: u16 = 34736;
    pub const GDAL_METADATA: u16 = 42112;
    pub const GDAL_NODATA: u16 = 42113;
    pub const LERC_PARAMETERS: u16 = 50674;
}

/// Where the values of a tag are.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    kind: u16,
    /// Number of values.
    pub count: u64,
    /// Byte offset of the first value.
    offset: u64,
}

/// The tags of one image.
#[derive(Debug, Default)]
pub struct Ifd {
    /// Byte offset of the directory.
    pub offset: u64,
    entries: BTreeMap<u16, Entry>,
}

/// An open TIFF file.
pub struct Tiff {
    file: BlockCache,
    /// Order of bytes of all numbers.
    pub order: ByteOrder,
    big: bool,
}

impl Entry {
    /// Bytes of one value; None for a type that is none.
    fn size(&self) -> Option<u64> {
        Some(match self.kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => return None,
        })
    }
}

impl Tiff {
    /// Opens a file and lists its directories.
    ///
    /// # Errors
    /// [`Error::Format`] if it is no TIFF file, or is damaged; [`Error::Io`].
    pub fn open(file: BlockCache) -> Result<(Tiff, Vec<Ifd>)> {
        let head = file.read(0, 8)?;
        let order = if head.starts_with(b"II") { ByteOrder::Little } else { ByteOrder::Big };
        let mut tiff = Tiff { file, order, big: false };
        let version = tiff.number(&head[2..4]);
        tiff.big = version == 43;
        let mut next = if tiff.big { tiff.uint(8, 8)? } else { tiff.number(&head[4..8]) };
        if !(head.starts_with(b"II") || head.starts_with(b"MM")) || !matches!(version, 42 | 43) {
            return Err(tiff.error(0, "it is no TIFF file"));
        }
        let (mut ifds, mut seen, mut tags) = (Vec::new(), HashSet::new(), 0);
        while next != 0 {
            if !seen.insert(next) || ifds.len() >= MAX_IFDS {
                return Err(tiff.error(next, "its directories come in a circle, or are too many: it is damaged"));
            }
            let (ifd, after) = tiff.directory(next)?;
            tags += ifd.entries.len() as u64;
            if tags > tiff.file.size() / 12 {
                return Err(tiff.error(next, "its directories overlap: it is damaged"));
            }
            ifds.push(ifd);
            next = after;
        }
        Ok((tiff, ifds))
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// The path as opened.
    pub fn path(&self) -> &str {
        self.file.reader().path()
    }

    /// The bytes themselves.
    pub fn reader(&self) -> &dyn crate::io::ByteReader {
        self.file.reader().as_ref()
    }

    /// An error about a structure at an offset.
    pub fn error(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::Format { path: self.path().to_owned(), offset, what: what.into() }
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let join = |n: u64, b: &u8| n << 8 | u64::from(*b);
        match self.order {
            ByteOrder::Little => bytes.iter().rev().fold(0, join),
            ByteOrder::Big => bytes.iter().fold(0, join),
        }
    }

    fn uint(&self, offset: u64, size: usize) -> Result<u64> {
        Ok(self.number(&self.file.read(offset, size)?))
    }

    fn directory(&self, offset: u64) -> Result<(Ifd, u64)> {
        let (head, item, word) = if self.big { (8, 20, 8) } else { (2, 12, 4) };
        let count = self.uint(offset, head)?;
        if count > MAX_TAGS {
            return Err(self.error(offset, format!("a directory of {count} tags: it is damaged")));
        }
        let first = offset + head as u64;
        let bytes = self.file.read(first, count as usize * item + word)?;
        let mut ifd = Ifd { offset, ..Ifd::default() };
        for (i, entry) in bytes[..count as usize * item].chunks_exact(item).enumerate() {
            let (number, kind) = (self.number(&entry[..2]) as u16, self.number(&entry[2..4]) as u16);
            let at = first + (i * item + 4 + word) as u64;
            let mut found = Entry { kind, count: self.number(&entry[4..4 + word]), offset: at };
            let Some(size) = found.size() else { continue };
            if found.count.saturating_mul(size) > word as u64 {
                found.offset = self.number(&entry[4 + word..]);
            }
            ifd.entries.entry(number).or_insert(found);
        }
        Ok((ifd, self.number(&bytes[count as usize * item..])))
    }

    /// Values `first..first + count` of an entry, as bytes of `Entry::size` each.
    fn bytes(&self, entry: &Entry, first: u64, count: u64) -> Result<Vec<u8>> {
        let damaged = || self.error(entry.offset, format!("{} values of a tag are not in the file", entry.count));
        let size = entry.size().ok_or_else(damaged)?;
        let at = first.checked_mul(size).and_then(|n| n.checked_add(entry.offset)).ok_or_else(damaged)?;
        let length = count.checked_mul(size).filter(|n| *n <= self.file.size()).ok_or_else(damaged)?;
        self.file.read(at, length as usize)
    }

    /// Values `first..first + count` of an entry, as whole numbers ≥ 0.
    ///
    /// # Errors
    /// [`Error::Format`] if they are not in the file, or no such numbers.
    pub fn uints(&self, entry: &Entry, first: u64, count: u64) -> Result<Vec<u64>> {
        if !matches!(entry.kind, 1 | 3 | 4 | 13 | 16 | 18) {
            return Err(self.error(entry.offset, format!("a tag has type {} where a number belongs", entry.kind)));
        }
        let size = entry.size().unwrap_or(1) as usize;
        Ok(self.bytes(entry, first, count)?.chunks_exact(size).map(|b| self.number(b)).collect())
    }

    /// All values of a tag, as whole numbers ≥ 0; none if there is no such tag.
    ///
    /// # Errors
    /// [`Error::Format`] if they are too many, not in the file, or no such numbers.
    pub fn list(&self, ifd: &Ifd, number: u16) -> Result<Vec<u64>> {
        match ifd.get(number) {
            None => Ok(Vec::new()),
            Some(entry) if entry.count <= MAX_VALUES => self.uints(entry, 0, entry.count),
            Some(entry) => Err(self.error(entry.offset, format!("tag {number} has {} values", entry.count))),
        }
    }

    /// The first value of a tag, or `default`.
    ///
    /// # Errors
    /// As [`Tiff::list`].
    pub fn value(&self, ifd: &Ifd, number: u16, default: u64) -> Result<u64> {
        match ifd.get(number).filter(|e| e.count > 0) {
            None => Ok(default),
            Some(entry) => Ok(self.uints(entry, 0, 1)?.first().copied().unwrap_or(default)),
        }
    }

    /// All values of a tag of floats of 64 bits; none if there is no such tag.
    ///
    /// # Errors
    /// [`Error::Format`] if they are too many or not in the file.
    pub fn doubles(&self, ifd: &Ifd, number: u16) -> Result<Vec<f64>> {
        match ifd.get(number) {
            Some(entry) if entry.kind == 12 && entry.count <= MAX_VALUES => {
                let bytes = self.bytes(entry, 0, entry.count)?;
                Ok(bytes.chunks_exact(8).map(|b| f64::from_bits(self.number(b))).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The bytes of a tag of text or of bytes without meaning; none if there is no such tag.
    ///
    /// # Errors
    /// [`Error::Format`] if they are too many or not in the file.
    pub fn raw(&self, ifd: &Ifd, number: u16) -> Result<Vec<u8>> {
        match ifd.get(number) {
            Some(entry) if entry.size() == Some(1) && entry.count <= 16 * MAX_VALUES => {
                self.bytes(entry, 0, entry.count)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The text of a tag, up to its NUL.
    ///
    /// # Errors
    /// As [`Tiff::raw`].
    pub fn text(&self, ifd: &Ifd, number: u16) -> Result<String> {
        let bytes = self.raw(ifd, number)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

impl Ifd {
    /// Where the values of a tag are.
    pub fn get(&self, number: u16) -> Option<&Entry> {
        self.entries.get(&number)
    }
}
