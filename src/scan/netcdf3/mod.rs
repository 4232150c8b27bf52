//! netCDF classic files: CDF-1, CDF-2 (64-bit offset) and CDF-5 (64-bit data), without libnetcdf.
//!
//! A variable without the record dimension is one contiguous run. Of a record variable each record is a chunk: the
//! records of all of them alternate in the file.

mod header;

use super::{Location, Refused, SourceArray, SourceChunk, SourceIndex};
use crate::io::{BlockCache, ByteReader};
use crate::model::{Attributes, ByteOrder, CodecSpec, DType, Dim, Fill};
use crate::{Error, Result};
use header::{Header, Variable};
use std::sync::Arc;

/// Where the values of a variable are.
#[derive(Debug)]
struct Placed {
    begin: u64,
    /// Bytes of one chunk: of all of it, or of one record.
    chunk: u64,
    is_record: bool,
}

/// The chunk index of one netCDF classic file.
pub struct Netcdf3Index {
    reader: Arc<dyn ByteReader>,
    size: u64,
    /// Bytes from a record to the next.
    record: u64,
    records: u64,
    arrays: Vec<SourceArray>,
    placed: Vec<Placed>,
    groups: Vec<(String, Attributes)>,
}

/// Whether a file begins like a netCDF classic file.
pub fn is_netcdf3(head: &[u8]) -> bool {
    matches!(head, [b'C', b'D', b'F', 1 | 2 | 5, ..])
}

/// Opens a netCDF classic file.
///
/// # Errors
/// [`Error::Format`] if it is none, or is damaged; [`Error::Io`].
pub fn open(reader: Arc<dyn ByteReader>) -> Result<Box<dyn SourceIndex>> {
    let cache = BlockCache::new(Arc::clone(&reader))?;
    let header = header::read(&cache)?;
    let size = cache.size();
    let damaged = |offset: u64, what: String| Error::Format { path: reader.path().to_owned(), offset, what };
    let is_record = |v: &Variable| header.record_dim.is_some_and(|d| v.dims.first() == Some(&d));
    // Bytes of a variable, or of one of its records.
    let mut chunks = Vec::with_capacity(header.vars.len());
    for var in &header.vars {
        let item = var.kind.default_fill().len() as u64;
        let fixed = var.dims.iter().skip(usize::from(is_record(var)));
        let bytes = fixed.map(|d| header.dims[*d].size).try_fold(item, u64::checked_mul);
        chunks.push(bytes.filter(|n| *n <= i64::MAX as u64).ok_or_else(|| {
            damaged(var.begin, format!("variable \"{}\" has more bytes than any file: it is damaged", var.name))
        })?);
    }
    check_order(&header, &chunks, &is_record).map_err(|(offset, what)| damaged(offset, what))?;
    let of_records: Vec<u64> =
        header.vars.iter().zip(&chunks).filter(|(v, _)| is_record(v)).map(|(_, bytes)| *bytes).collect();
    let record = match of_records[..] {
        // The records of one variable alone are not padded.
        [one] => one,
        _ => of_records.iter().fold(0, |n: u64, bytes| n.saturating_add(bytes.next_multiple_of(4))),
    };
    let first = header.vars.iter().filter(|v| is_record(v)).map(|v| v.begin).min();
    let records = match (header.records, first) {
        (Some(records), _) => records,
        (None, Some(first)) => size.saturating_sub(first) / record.max(1),
        (None, None) => 0,
    };
    let (mut arrays, mut placed) = (Vec::new(), Vec::new());
    for (var, chunk) in header.vars.iter().zip(chunks) {
        let dims: Vec<Dim> = var
            .dims
            .iter()
            .map(|number| &header.dims[*number])
            .map(|d| Dim { name: d.name.clone(), size: if d.size == 0 { records } else { d.size } })
            .collect();
        let is_record = is_record(var);
        let mut shape: Vec<u64> = dims.iter().map(|d| d.size.max(1)).collect();
        if is_record {
            shape[0] = 1;
        }
        let dtype = var.kind.dtype().unwrap_or(DType::new(crate::model::Kind::Int, 1, ByteOrder::Big));
        arrays.push(SourceArray {
            name: var.name.clone(),
            dims,
            chunks: shape,
            dtype,
            fill: Fill::from_bytes(&dtype, &var.fill)?,
            codec: CodecSpec::default(),
            info: if dtype.swap_size() > 1 { "ENDIANNESS=BIG".into() } else { String::new() },
            attrs: var.attrs.clone(),
            contiguous: !is_record,
        });
        placed.push(Placed { begin: var.begin, chunk, is_record });
    }
    let groups = vec![(String::new(), header.attrs)];
    Ok(Box::new(Netcdf3Index { reader, size, record, records, arrays, placed, groups }))
}

/// Variables lie one after the other in the order of the header, those with records last, as netCDF demands it.
fn check_order(header: &Header, chunks: &[u64], is_record: &dyn Fn(&Variable) -> bool) -> Result<(), (u64, String)> {
    let mut end = header.size;
    for records in [false, true] {
        for (var, bytes) in header.vars.iter().zip(chunks).filter(|(v, _)| is_record(v) == records) {
            if var.begin < end {
                let what = format!("variable \"{}\" begins before byte {end}, where the one before it ends", var.name);
                return Err((var.begin, format!("{what}: the file is damaged")));
            }
            end = var.begin.saturating_add(*bytes);
        }
    }
    Ok(())
}

impl Netcdf3Index {
    fn range(&self, number: usize, chunk: u64) -> Result<(u64, u64)> {
        let placed = &self.placed[number];
        let at = chunk.checked_mul(self.record).and_then(|n| n.checked_add(placed.begin));
        let end = at.and_then(|at| at.checked_add(placed.chunk));
        match (at, end) {
            (Some(at), Some(end)) if end <= self.size => Ok((at, placed.chunk)),
            _ => Err(Error::Format {
                path: self.reader.path().to_owned(),
                offset: at.unwrap_or(placed.begin),
                what: format!(
                    "array \"{}\"{}: its {} bytes are not in the file of {} bytes: it is damaged or cut off",
                    self.arrays[number].name,
                    if placed.is_record { format!(", record {chunk}") } else { String::new() },
                    placed.chunk,
                    self.size
                ),
            }),
        }
    }

    /// Number of chunks.
    fn count(&self, number: usize) -> u64 {
        let placed = &self.placed[number];
        match (placed.chunk, placed.is_record) {
            (0, _) => 0,
            (_, false) => 1,
            (_, true) => self.records,
        }
    }
}

impl SourceIndex for Netcdf3Index {
    fn arrays(&self) -> &[SourceArray] {
        &self.arrays
    }

    fn refused(&self) -> &[Refused] {
        &[]
    }

    fn groups(&self) -> &[(String, Attributes)] {
        &self.groups
    }

    fn chunks(&self, number: usize, sink: &mut dyn FnMut(SourceChunk<'_>) -> Result<()>) -> Result<()> {
        let mut key = vec![0; self.arrays[number].dims.len()];
        for chunk in 0..self.count(number) {
            if self.placed[number].is_record {
                key[0] = chunk;
            }
            let (offset, size) = self.range(number, chunk)?;
            sink(SourceChunk { key: &key, location: Location::Range { offset, size }, filter_mask: 0 })?;
        }
        Ok(())
    }

    fn values(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        let (array, count) = (&self.arrays[number], self.count(number));
        let total = count.checked_mul(self.placed[number].chunk).filter(|n| *n <= limit);
        let total = total.ok_or_else(|| Error::Unsupported {
            path: self.reader.path().to_owned(),
            array: array.name.clone(),
            what: format!("its values have more than {limit} bytes"),
        })?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // The last is in the file, so all are; nothing is allocated before that is known.
        let (last, size) = self.range(number, count - 1)?;
        let first = self.placed[number].begin;
        let span = last + size - first;
        if span <= limit.saturating_mul(4).min(64 << 20) {
            // Few bytes lie between: all at once.
            let mut bytes = vec![0; span as usize];
            self.reader.read_at(first, &mut bytes)?;
            if span == total {
                return Ok(bytes);
            }
            let records = bytes.chunks(self.record as usize).map(|r| &r[..size as usize]);
            return Ok(records.flatten().copied().collect());
        }
        let mut out = vec![0; total as usize];
        for (chunk, values) in (0..count).zip(out.chunks_mut(size as usize)) {
            let (offset, _) = self.range(number, chunk)?;
            self.reader.read_at(offset, values)?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
