//! The reader against loops over the array, element by element.

mod failures;
mod requests;
mod values;
mod windows;

use super::*;
use crate::codec::{CodecOptions, Pipeline, vlen};
use crate::io::{ByteReader, LocalOpener, Opener, Stat};
use crate::model::*;
use crate::store::{OpenOptions, Placement, RowData, Store, Writer};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mdimrefs-read-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn desc(name: &str, dtype: &str, shape: &[u64], chunks: &[u64], codec: &str, fill: &str) -> ArrayDesc {
    ArrayDesc {
        name: name.to_owned(),
        kind: ArrayKind::Data,
        storage: Storage::Referenced,
        dims: (0..shape.len()).map(|i| format!("d{i}")).collect(),
        shape: Some(shape.to_vec()),
        chunks: chunks.to_vec(),
        dtype: DType::parse(dtype).unwrap(),
        fill: Fill::parse(Some(fill)),
        codec: CodecSpec::parse(codec).unwrap(),
        attrs: Attributes::default(),
        affine: None,
        values: None,
    }
}

/// How the chunks of a test array are kept.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Stored,
    Inline,
    Absent,
}

/// What a test array holds: its elements in native byte order, in C order.
struct Array {
    desc: ArrayDesc,
    elements: Vec<Vec<u8>>,
}

fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for n in shape {
        all = all.iter().flat_map(|i| (0..*n).map(move |k| [i.as_slice(), &[k]].concat())).collect();
    }
    all
}

fn flat(index: &[u64], shape: &[u64]) -> usize {
    index.iter().zip(shape).fold(0, |at, (i, n)| at * *n as usize + *i as usize)
}

/// Writes a store with these arrays, each in one source of its own; every third chunk is elsewhere.
fn store(folder: &Folder, descs: Vec<ArrayDesc>) -> (Arc<Store>, Vec<Array>) {
    let path = folder.file("store.sqlite");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    let mut arrays = Vec::new();
    for desc in descs {
        let (shape, chunks) = (desc.shape.clone().unwrap(), desc.chunks.clone());
        let (item, native) = (desc.dtype.size, desc.dtype.with_order(ByteOrder::NATIVE));
        let fill = desc.fill.to_bytes(&native).unwrap();
        let grid = desc.grid().unwrap();
        let pipeline =
            Pipeline::new(&desc.codec, &desc.dtype, chunks.iter().product::<u64>() as usize, CodecOptions::default())
                .unwrap();
        let mut elements = vec![fill.clone(); shape.iter().product::<u64>() as usize];
        let mut file = b"some bytes first".to_vec();
        let mut rows = Vec::new();
        for (number, key) in indices(&grid.counts()).into_iter().enumerate() {
            let kept = match number % 7 {
                2 => Kept::Absent,
                4 => Kept::Inline,
                _ => Kept::Stored,
            };
            let mut decoded = Vec::new();
            for inside in indices(&chunks) {
                let index: Vec<u64> = (0..key.len()).map(|a| key[a] * chunks[a] + inside[a]).collect();
                let seed = index.iter().fold(number as u64 + 17, |s, i| s.wrapping_mul(31).wrapping_add(*i));
                let element: Vec<u8> = (0..item).map(|k| (seed >> (3 * k)) as u8).collect();
                if kept != Kept::Absent && index.iter().zip(&shape).all(|(i, n)| i < n) {
                    elements[flat(&index, &shape)] = element.clone();
                }
                let mut stored = element;
                if desc.dtype.is_swapped() {
                    swap_in_place(&mut stored, desc.dtype.swap_size());
                }
                decoded.extend(stored);
            }
            let encoded = pipeline.encode(&decoded).unwrap();
            let offset = file.len() as u64;
            if kept == Kept::Stored {
                file.extend(&encoded);
                file.extend(vec![0xee; number % 3]);
            }
            rows.push((key, kept, offset, encoded));
        }
        let source = folder.file(&format!("{}.bin", desc.name));
        std::fs::write(&source, &file).unwrap();
        let id = writer.put_source(&source, &Stat { size: Some(file.len() as u64), ..Stat::default() }).unwrap();
        writer.put_array(&desc).unwrap();
        for (key, kept, offset, encoded) in &rows {
            let data = match kept {
                Kept::Stored => RowData::Range { offset: *offset, size: encoded.len() as u64 },
                Kept::Inline => RowData::Inline(encoded),
                Kept::Absent => RowData::Absent,
            };
            writer.put_row(&desc.name, id, key, data, None).unwrap();
        }
        if !shape.contains(&0) {
            let zero = vec![0; shape.len()];
            let placement = Placement {
                dest: zero.clone(),
                source_id: id,
                source_array: desc.name.clone(),
                src_offset: zero,
                count: shape.clone(),
            };
            writer.set_placements(&desc.name, &[placement]).unwrap();
        }
        arrays.push(Array { desc, elements });
    }
    writer.commit().unwrap();
    writer.finish().unwrap();
    (Arc::new(Store::open(&path, &OpenOptions::default()).unwrap()), arrays)
}

fn reader(store: &Arc<Store>, threads: usize, cache_size: usize) -> Reader {
    let options = ReadOptions { threads, cache_size, ..ReadOptions::default() };
    Reader::new(store.clone(), Arc::new(LocalOpener), options).unwrap()
}

const ZLIB: &str = r#"{"compressor":{"id":"zlib","level":1},"filters":[{"id":"shuffle","elementsize":2}]}"#;

/// Small numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
}

#[allow(unsafe_code)]
fn strided(
    reader: &Reader,
    number: usize,
    start: &[u64],
    count: &[u64],
    step: &[i64],
    strides: &[isize],
    (buffer, base): (&mut [u8], isize),
) -> Result<()> {
    // SAFETY: the callers' strides stay inside the buffer.
    unsafe { reader.read_strided(number, start, count, step, buffer.as_mut_ptr().offset(base), strides) }
}
