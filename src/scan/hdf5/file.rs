//! The superblock, and reading structures by their address.
//!
//! Specification of all of this folder: "HDF5 File Format Specification", version 3 and 4,
//! <https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html>.

use super::checksum::lookup3;
use crate::io::{BlockCache, ByteReader};
use crate::{Error, Result};
use std::sync::Arc;

/// An address that points nowhere.
pub const UNDEFINED: u64 = u64::MAX;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// An open HDF5 file: bytes, and the sizes that all structures depend on.
pub struct File {
    cache: BlockCache,
    /// Byte of the file that address 0 is.
    base: u64,
    /// Bytes of an address.
    pub offset_size: usize,
    /// Bytes of a length.
    pub length_size: usize,
    /// Address of the root group's object header.
    pub root: u64,
    /// Address of the superblock extension.
    pub extension: u64,
}

/// Reads numbers from bytes; None beyond the end.
#[derive(Clone)]
pub struct Cursor<'a> {
    data: &'a [u8],
    /// Bytes read so far.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// At the first byte.
    pub fn new(data: &'a [u8]) -> Cursor<'a> {
        Cursor { data, at: 0 }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.data.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize) -> Option<()> {
        self.take(n).map(drop)
    }

    /// A little-endian number of `n` bytes, at most 8.
    #[inline]
    pub fn uint(&mut self, n: usize) -> Option<u64> {
        if n == 8 {
            return self.take(8)?.try_into().ok().map(u64::from_le_bytes);
        }
        let mut wide = [0; 8];
        wide.get_mut(..n)?.copy_from_slice(self.take(n)?);
        Some(u64::from_le_bytes(wide))
    }

    /// An address of `n` bytes; all ones is [`UNDEFINED`].
    #[inline]
    pub fn address(&mut self, n: usize) -> Option<u64> {
        let value = self.uint(n)?;
        Some(if n < 8 && value == (1 << (8 * n)) - 1 { UNDEFINED } else { value })
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    /// A little-endian number of 2 bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.uint(2).map(|v| v as u16)
    }

    /// A little-endian number of 4 bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.uint(4).map(|v| v as u32)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Whether the next bytes are these; they are skipped if so.
    pub fn expect(&mut self, bytes: &[u8]) -> Option<()> {
        (self.take(bytes.len())? == bytes).then_some(())
    }
}

impl File {
    /// Finds and reads the superblock.
    ///
    /// # Errors
    /// [`Error::Format`] if there is none, saying what the file looks like instead, or the file is shorter than it says.
    pub fn open(reader: Arc<dyn ByteReader>) -> Result<File> {
        let cache = BlockCache::new(reader)?;
        let mut file = File { cache, base: 0, offset_size: 8, length_size: 8, root: UNDEFINED, extension: UNDEFINED };
        let size = file.cache.size();
        let mut at = 0;
        loop {
            if at + 8 > size {
                return Err(file.error(0, looks_like(&file.cache.read(0, size.min(64) as usize)?)));
            }
            if file.cache.read(at, 8)? == SIGNATURE {
                break;
            }
            at = if at == 0 { 512 } else { at * 2 };
        }
        file.superblock(at)?;
        Ok(file)
    }

    fn superblock(&mut self, at: u64) -> Result<()> {
        let available = (self.cache.size() - at).min(256) as usize;
        let bytes = self.cache.read(at, available)?;
        let broken = || self.error(at, "the superblock is damaged");
        let mut c = Cursor::new(&bytes);
        c.skip(8).ok_or_else(broken)?;
        let version = c.byte().ok_or_else(broken)?;
        let parsed = match version {
            0 | 1 => parse_old(&mut c, version),
            2 | 3 => parse_new(&mut c),
            _ => return Err(self.error(at, format!("superblock version {version} is not supported"))),
        };
        let parsed = parsed.ok_or_else(broken)?;
        if version >= 2 {
            let (checked, stored) = (&bytes[..c.at], c.u32().ok_or_else(broken)?);
            if lookup3(checked) != stored && !cfg!(fuzzing) {
                return Err(self.error(at, "the superblock is damaged: its checksum is wrong"));
            }
        }
        if ![parsed.offset_size, parsed.length_size].iter().all(|s| matches!(s, 2 | 4 | 8)) {
            return Err(broken());
        }
        // A user block put in front later does not change the stored base address: the superblock's place counts.
        let end = parsed.end.checked_sub(parsed.base).and_then(|e| e.checked_add(at)).ok_or_else(broken)?;
        if self.cache.size() < end {
            return Err(self.error(
                at,
                format!("the file has {} bytes, but its superblock says {end}: it is truncated", self.cache.size()),
            ));
        }
        self.base = at;
        self.offset_size = parsed.offset_size;
        self.length_size = parsed.length_size;
        self.root = parsed.root;
        self.extension = parsed.extension;
        Ok(())
    }

    /// The path as opened.
    pub fn path(&self) -> &str {
        self.cache.reader().path()
    }

    /// The bytes themselves.
    pub fn reader(&self) -> &Arc<dyn ByteReader> {
        self.cache.reader()
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.cache.size()
    }

    /// Bytes from `address` to the end of the file.
    pub fn available(&self, address: u64) -> u64 {
        self.position(address).map_or(0, |p| self.cache.size().saturating_sub(p))
    }

    /// The byte of the file that an address is.
    pub fn position(&self, address: u64) -> Option<u64> {
        (address != UNDEFINED).then(|| address.checked_add(self.base)).flatten()
    }

    /// `length` bytes at an address.
    ///
    /// # Errors
    /// [`Error::Format`] if they are not all in the file.
    pub fn read(&self, address: u64, length: usize) -> Result<Vec<u8>> {
        match self.position(address) {
            Some(at) => self.cache.read(at, length),
            None => Err(self.error(address, "a structure has no address: the file is damaged")),
        }
    }

    /// `length` bytes at an address, which their checksum follows: the bytes without it.
    ///
    /// # Errors
    /// [`Error::Format`] naming the `structure` if they are not all in the file, or the checksum is another.
    pub fn read_checked(&self, address: u64, length: u64, structure: &str) -> Result<Vec<u8>> {
        let whole = length.checked_add(4).filter(|n| *n <= self.available(address));
        let whole = whole.ok_or_else(|| self.damaged(address, structure))?;
        let mut bytes = self.read(address, whole as usize)?;
        let stored = bytes.split_off(length as usize);
        // Random bytes would never come further.
        if lookup3(&bytes).to_le_bytes() != stored[..] && !cfg!(fuzzing) {
            return Err(self.error(address, format!("{structure} is damaged: its checksum is wrong")));
        }
        Ok(bytes)
    }

    /// An error about a structure at an address.
    pub fn error(&self, address: u64, what: impl Into<String>) -> Error {
        Error::Format { path: self.path().to_owned(), offset: self.position(address).unwrap_or(0), what: what.into() }
    }

    /// The error of a structure that does not parse.
    pub fn damaged(&self, address: u64, structure: &str) -> Error {
        self.error(address, format!("{structure} is damaged"))
    }
}

struct Superblock {
    offset_size: usize,
    length_size: usize,
    base: u64,
    end: u64,
    root: u64,
    extension: u64,
}

fn parse_old(c: &mut Cursor<'_>, version: u8) -> Option<Superblock> {
    c.skip(4)?;
    let (offset_size, length_size) = (c.byte()? as usize, c.byte()? as usize);
    c.skip(1 + 2 + 2 + 4)?;
    if version == 1 {
        c.skip(4)?;
    }
    let base = c.address(offset_size)?;
    c.address(offset_size)?;
    let end = c.address(offset_size)?;
    c.address(offset_size)?;
    // The root group's symbol table entry: name, object header.
    c.address(offset_size)?;
    let root = c.address(offset_size)?;
    Some(Superblock { offset_size, length_size, base, end, root, extension: UNDEFINED })
}

fn parse_new(c: &mut Cursor<'_>) -> Option<Superblock> {
    let (offset_size, length_size) = (c.byte()? as usize, c.byte()? as usize);
    c.skip(1)?;
    let base = c.address(offset_size)?;
    let extension = c.address(offset_size)?;
    let end = c.address(offset_size)?;
    let root = c.address(offset_size)?;
    Some(Superblock { offset_size, length_size, base, end, root, extension })
}

/// What a file that is not HDF5 is, by its first bytes.
fn looks_like(head: &[u8]) -> String {
    let known: [(&[u8], &str); 5] = [
        (
            b"GRIB",
            "it is a GRIB file, whose messages have no codec here: convert it to netCDF first, as cdo -f nc4 or grib_to_netcdf do",
        ),
        (b"\x1f\x8b", "it is compressed by gzip: uncompress it first"),
        (b"PK\x03\x04", "it is a zip file: name what is in it with /vsizip/"),
        (
            b"\x0e\x03\x13\x01",
            "it is an HDF4 file, which is not supported: convert it to netCDF-4 first, as h4tonccf_nc4 does",
        ),
        (b"SQLite format 3\0", "it is an SQLite file, not a source"),
    ];
    if head.is_empty() {
        return "it is empty".into();
    }
    if let Some((_, what)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
        return (*what).into();
    }
    // The last character may be cut.
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default(),
        Err(_) => "",
    };
    if !text.is_empty() && text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace()) {
        let text: String = text.chars().take(24).collect();
        format!("it is text, not HDF5: it begins with {text:?}")
    } else {
        "it is no HDF5 file: there is no HDF5 signature".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_instead() {
        for (head, what) in [
            (&b""[..], "is empty"),
            (b"<!DOCTYPE html>", "it begins with \"<!DOCTYPE html>\""),
            ("<p>caf\u{e9} \u{2014}".as_bytes(), "it is text"),
            (&"<p>\u{e9}".as_bytes()[..4], "it is text"),
            (b"\0\x01\x02\x03", "no HDF5 signature"),
            (b"\xff\xfe\xfd", "no HDF5 signature"),
        ] {
            let said = looks_like(head);
            assert!(said.contains(what), "{said}");
        }
    }
}
