//! The reader against loops over the array, element by element.

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

#[test]
fn windows_steps_and_strides() {
    let folder = Folder::new();
    let (store, arrays) = store(
        &folder,
        vec![
            desc("a", "<i2", &[7, 10, 9], &[2, 4, 9], ZLIB, "-999"),
            desc("b", ">f4", &[13, 11], &[5, 3], "{}", "\"NaN\""),
            desc("c", "<f8", &[40], &[7], r#"{"filters":[{"id":"fletcher32"}]}"#, "1.5"),
            desc("d", "|u1", &[5, 6, 3, 4], &[2, 6, 2, 3], ZLIB, "7"),
            desc("e", ">c16", &[6, 5], &[4, 4], ZLIB, "[1.0,-1.0]"),
            desc("f", "|S5", &[6, 5], &[6, 2], ZLIB, "\"YWI=\""),
            desc("h", ">i2", &[12, 20], &[12, 20], "{}", "3"),
            desc("i", "<u8", &[3, 4], &[100, 100], ZLIB, "3"),
        ],
    );
    let readers = [reader(&store, 1, 0), reader(&store, 3, 1 << 20), reader(&store, 8, 300)];
    let mut random = Random(1);
    for (number, Array { desc, elements }) in arrays.iter().enumerate() {
        let shape = desc.shape.clone().unwrap();
        let rank = shape.len();
        let item = desc.dtype.size;
        for round in 0..150 {
            let (mut start, mut count, mut step) = (vec![0; rank], shape.clone(), vec![1i64; rank]);
            if round > 0 {
                for a in 0..rank {
                    start[a] = random.below(shape[a]);
                    step[a] = random.below(9) as i64 - 4;
                    let most = match step[a] {
                        0 => 3,
                        s if s > 0 => (shape[a] - 1 - start[a]) / s as u64 + 1,
                        s => start[a] / s.unsigned_abs() + 1,
                    };
                    count[a] = 1 + random.below(most);
                    if random.below(3) == 0 {
                        (start[a], count[a], step[a]) = (0, shape[a], 1);
                    }
                }
            }
            // Axes of the buffer in any order, some backwards, some with gaps.
            let mut axes: Vec<usize> = (0..rank).collect();
            let is_plain = random.below(2) == 0;
            for i in (1..rank).rev().filter(|_| !is_plain) {
                axes.swap(i, random.below(i as u64 + 1) as usize);
            }
            let (mut strides, mut base, mut size) = (vec![0isize; rank], 0, item as isize);
            for a in axes.iter().rev() {
                strides[*a] = size;
                size *= count[*a] as isize;
                if !is_plain {
                    size += random.below(2) as isize * 3;
                }
            }
            for a in (0..rank).filter(|_| !is_plain) {
                if random.below(2) == 0 {
                    base += (count[a] as isize - 1) * strides[a];
                    strides[a] = -strides[a];
                }
            }
            let mut expected = vec![0xabu8; size as usize];
            for index in indices(&count) {
                let source: Vec<u64> =
                    (0..rank).map(|a| (start[a] as i64 + index[a] as i64 * step[a]) as u64).collect();
                let place = base + (0..rank).map(|a| index[a] as isize * strides[a]).sum::<isize>();
                expected[place as usize..place as usize + item].copy_from_slice(&elements[flat(&source, &shape)]);
            }
            for reader in &readers {
                let mut buffer = vec![0xabu8; size as usize];
                strided(reader, number, &start, &count, &step, &strides, (&mut buffer, base)).unwrap();
                assert!(buffer == expected, "{} {start:?} {count:?} {step:?} {strides:?}", desc.name);
                if is_plain && step.iter().all(|s| *s == 1) {
                    buffer.fill(0);
                    reader.read(number, &start, &count, &mut buffer).unwrap();
                    assert!(buffer == expected, "{} {start:?} {count:?}", desc.name);
                }
            }
        }
    }
}

#[test]
fn strides_that_overlap() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[4, 40], &[1, 8], ZLIB, "-999")]);
    let mut buffer = [0u8; 80];
    strided(&reader(&store, 4, 0), 0, &[0, 0], &[4, 40], &[1, 1], &[0, 2], (&mut buffer, 0)).unwrap();
    // The last of the elements that share a place, as one loop would have it.
    assert_eq!(buffer.to_vec(), arrays[0].elements[120..].concat());
}

#[test]
fn empty_windows_and_arrays() {
    let folder = Folder::new();
    let (store, _) =
        store(&folder, vec![desc("a", "<i2", &[0, 5], &[1, 5], ZLIB, "0"), desc("b", "<i2", &[4], &[2], ZLIB, "0")]);
    let reader = reader(&store, 2, 0);
    reader.read(0, &[0, 0], &[0, 5], &mut []).unwrap();
    reader.read(1, &[4], &[0], &mut []).unwrap();
    reader.advise(0, &[0, 0], &[0, 5]).unwrap();
    for (array, start, count, size) in
        [(0, vec![0, 0], vec![1, 1], 2), (1, vec![0], vec![5], 10), (1, vec![4], vec![1], 2), (1, vec![0], vec![2], 3)]
    {
        let error = reader.read(array, &start, &count, &mut vec![0; size]).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert!(matches!(reader.read(2, &[], &[], &mut []), Err(Error::Invalid(_))));
    assert!(matches!(reader.read(1, &[0, 0], &[1, 1], &mut [0; 2]), Err(Error::Invalid(_))));
}

/// A chunk error's key, offset and text.
fn chunk_error(error: Error) -> (ChunkKey, u64, String) {
    let text = error.to_string();
    match error {
        Error::Chunk { key, offset, .. } => (key, offset, text),
        _ => panic!("{text}"),
    }
}

#[test]
fn damage_is_an_error_that_names_the_chunk() {
    let folder = Folder::new();
    let descs = || {
        vec![
            desc("z", "<i2", &[8, 8], &[2, 8], ZLIB, "0"),
            desc("n", "<i2", &[8, 8], &[2, 8], "{}", "0"),
            desc("s", "<i2", &[8, 8], &[2, 8], r#"{"filters":[{"id":"fletcher32"}]}"#, "0"),
        ]
    };
    let (store, arrays) = store(&folder, descs());
    let find = |number: usize, key: &[u64]| match reader(&store, 1, 0).raw_chunk(number, key).unwrap().0 {
        RawChunk::Range { path, offset, size } => (path, offset as usize, size as usize),
        other => panic!("{other:?}"),
    };
    let read = |number, threads, options: ReadOptions| {
        let options = ReadOptions { threads, ..options };
        let reader = Reader::new(store.clone(), Arc::new(LocalOpener), options).unwrap();
        let mut buffer = vec![0; 128];
        reader.read(number, &[0, 0], &[8, 8], &mut buffer).map(|()| buffer)
    };
    let default = ReadOptions::default();
    // One bit of chunk (1, 0); in the array without a codec nobody can tell.
    for (number, what) in [(0, "zlib"), (2, "fletcher32")] {
        let (path, offset, size) = find(number, &[1, 0]);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[offset + size / 2] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        for threads in [1, 4] {
            let (key, at, text) = chunk_error(read(number, threads, default.clone()).unwrap_err());
            assert_eq!((key, at as usize), (vec![1, 0], offset));
            assert!(text.contains(what) && text.contains(&path) && text.contains(&format!("size {size}")), "{text}");
        }
        std::fs::write(&path, &good).unwrap();
        read(number, 1, default.clone()).unwrap();
    }
    // Truncated within the last chunk, (3, 0).
    for (number, array) in arrays.iter().enumerate() {
        let (path, offset, size) = find(number, &[3, 0]);
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, &good[..offset + size - 1]).unwrap();
        let (_, _, text) = chunk_error(read(number, 1, default.clone()).unwrap_err());
        assert!(text.contains(&format!("size {}, was {}", offset + size - 1, good.len())), "{text}");
        assert!(text.contains("--rescan"), "{text}");
        for threads in [1, 4] {
            let options = ReadOptions { verify: Verify::No, missing_source: MissingSource::Fill, ..default.clone() };
            let (key, _, text) = chunk_error(read(number, threads, options).unwrap_err());
            assert_eq!(key, [3, 0]);
            assert!(text.contains("ends before byte"), "{text}");
        }
        std::fs::write(&path, &good).unwrap();
        // Gone.
        std::fs::remove_file(&path).unwrap();
        let (_, _, text) = chunk_error(read(number, 1, default.clone()).unwrap_err());
        assert!(text.contains(&path), "{text}");
        let options = ReadOptions { missing_source: MissingSource::Fill, ..default.clone() };
        assert_eq!(read(number, 2, options).unwrap(), vec![0; 128]);
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read(number, 2, default.clone()).unwrap(), array.elements.concat());
    }
}

#[test]
fn sources_are_verified_at_each_use() {
    let folder = Folder::new();
    let (store, _) = store(&folder, vec![desc("a", "<i2", &[4], &[2], "{}", "0")]);
    let path = folder.file("a.bin");
    let size = std::fs::metadata(&path).unwrap().len();
    let reader = reader(&store, 1, 0);
    reader.read(0, &[0], &[4], &mut [0; 8]).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size + 1).unwrap();
    let (_, _, text) = chunk_error(reader.read(0, &[0], &[4], &mut [0; 8]).unwrap_err());
    assert!(text.contains(&format!("size {}, was {size}", size + 1)), "{text}");
}

#[test]
fn cache_and_advice() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[40, 40], &[10, 10], ZLIB, "0")]);
    let elements = arrays[0].elements.concat();
    let reader = reader(&store, 2, 1 << 20);
    reader.advise(0, &[0, 0], &[40, 40]).unwrap();
    // What is in the cache needs no source.
    std::fs::remove_file(folder.file("a.bin")).unwrap();
    let mut buffer = vec![0; 3200];
    reader.read(0, &[0, 0], &[40, 40], &mut buffer).unwrap();
    assert_eq!(buffer, elements);
    let mut row = vec![0; 10];
    reader.read(0, &[7, 8], &[1, 5], &mut row).unwrap();
    assert_eq!(row, elements[(7 * 40 + 8) * 2..][..10]);
    let other = super::tests::reader(&store, 2, 0);
    assert!(other.read(0, &[0, 0], &[40, 40], &mut buffer).is_err());
}

#[test]
fn coordinates() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    let coordinate = |name: &str, dtype: &str, shape: &[u64]| ArrayDesc {
        kind: ArrayKind::Coord,
        ..desc(name, dtype, shape, shape, "{}", "null")
    };
    let affine = |name: &str, dtype: &str, n: u64, json: &str| ArrayDesc {
        storage: Storage::Affine,
        affine: Some(Affine::parse(json).unwrap()),
        ..coordinate(name, dtype, &[n])
    };
    let inline = |name: &str, dtype: &str, shape: &[u64], values: Vec<u8>| ArrayDesc {
        storage: Storage::Inline,
        values: Some(values),
        ..coordinate(name, dtype, shape)
    };
    let le = |values: &[i16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let list = vec![
        affine("lat", "<f4", 720, r#"{"start":-89.875,"step":0.25}"#),
        affine("big", "<i8", 3, r#"{"start":9007199254740993,"step":-1}"#),
        affine("over", "|u1", 300, r#"{"start":0,"step":1}"#),
        inline("one", ">i2", &[2, 3], le(&[1, -2, 3, 4, 5, 6])),
        inline("scalar", "<f8", &[], 2.5f64.to_le_bytes().to_vec()),
        inline("names", "|S4", &[2], b"ab\0\0caf\xe9".to_vec()),
        inline("words", "|O", &[3], vlen::join(&["x", "", "日本"]).unwrap()),
    ];
    for desc in &list {
        writer.put_array(desc).unwrap();
    }
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let find = |name: &str| store.find(name).unwrap();
    let lat: Vec<f64> = (0..720).map(|i| -89.875 + 0.25 * f64::from(i)).collect();
    assert_eq!(reader.values_f64(find("lat")).unwrap(), lat);
    let mut buffer = [0; 8];
    strided(&reader, find("lat"), &[10], &[2], &[-10], &[4], (&mut buffer, 0)).unwrap();
    assert_eq!(buffer.to_vec(), [(-87.375f32).to_ne_bytes(), (-89.875f32).to_ne_bytes()].concat());
    let mut buffer = [0; 24];
    reader.read(find("big"), &[0], &[3], &mut buffer).unwrap();
    let big: Vec<u8> =
        [9007199254740993i64, 9007199254740992, 9007199254740991].iter().flat_map(|v| v.to_ne_bytes()).collect();
    assert_eq!(buffer.to_vec(), big);
    assert!(reader.values_f64(find("over")).unwrap_err().to_string().contains("256"));
    // Stored little-endian whatever the type says.
    let mut buffer = [0; 4];
    strided(&reader, find("one"), &[1, 0], &[1, 2], &[1, 2], &[4, 2], (&mut buffer, 0)).unwrap();
    assert_eq!(buffer.to_vec(), [4i16.to_ne_bytes(), 6i16.to_ne_bytes()].concat());
    assert_eq!(reader.values_f64(find("scalar")).unwrap(), [2.5]);
    assert_eq!(reader.read_strings(find("names"), &[0], &[2], &[1]).unwrap(), ["ab", "café"]);
    assert_eq!(reader.read_strings(find("words"), &[2], &[3], &[-1]).unwrap(), ["日本", "", "x"]);
    assert!(reader.read(find("words"), &[0], &[3], &mut []).is_err());
    assert!(reader.read_strings(find("lat"), &[0], &[1], &[1]).is_err());
    assert!(reader.values_f64(find("one")).is_err());
    assert!(matches!(reader.raw_chunk(find("names"), &[0]).unwrap().0, RawChunk::Inline(b) if b.len() == 8));
    assert!(reader.raw_chunk(find("names"), &[1]).is_err());
}

#[test]
fn strings_of_any_length_in_chunks() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let codec = r#"{"filters":[{"id":"vlen-utf8"}],"compressor":{"id":"zlib"}}"#;
    let desc = desc("w", "|O", &[3, 4], &[2, 3], codec, "\"\"");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    let source = folder.file("w.bin");
    let pipeline = Pipeline::new(&desc.codec, &desc.dtype, 6, CodecOptions::default()).unwrap();
    let mut file = Vec::new();
    let mut rows = Vec::new();
    for key in indices(&[2, 2]) {
        if key == [1, 0] {
            continue;
        }
        let words: Vec<String> =
            indices(&[2, 3]).iter().map(|i| format!("{}-{}", key[0] * 2 + i[0], key[1] * 3 + i[1])).collect();
        let encoded = pipeline.encode(&vlen::join(&words).unwrap()).unwrap();
        rows.push((key, file.len() as u64, encoded.len() as u64));
        file.extend(encoded);
    }
    std::fs::write(&source, &file).unwrap();
    let id = writer.put_source(&source, &Stat::default()).unwrap();
    writer.put_array(&desc).unwrap();
    for (key, offset, size) in rows {
        writer.put_row("w", id, &key, RowData::Range { offset, size }, None).unwrap();
    }
    let placement = Placement {
        dest: vec![0, 0],
        source_id: id,
        source_array: "w".into(),
        src_offset: vec![0, 0],
        count: vec![3, 4],
    };
    writer.set_placements("w", &[placement]).unwrap();
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let all = reader.read_strings(0, &[0, 0], &[3, 4], &[1, 1]).unwrap();
    let expected: Vec<String> = indices(&[3, 4])
        .iter()
        .map(|i| if i[0] >= 2 && i[1] < 3 { String::new() } else { format!("{}-{}", i[0], i[1]) })
        .collect();
    assert_eq!(all, expected);
    assert_eq!(reader.read_strings(0, &[1, 3], &[2, 2], &[-1, -3]).unwrap(), ["1-3", "1-0", "0-3", "0-0"]);
}

#[test]
fn unknown_codecs_and_huge_chunks_are_refused_by_name() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    writer.put_array(&desc("a", "<i2", &[4], &[2], r#"{"compressor":{"id":"wavpack"}}"#, "0")).unwrap();
    writer.put_array(&desc("b", "<i2", &[4], &[1 << 40], ZLIB, "0")).unwrap();
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let error = reader.read(0, &[0], &[4], &mut [0; 8]).unwrap_err().to_string();
    assert!(error.contains("\"a\"") && error.contains("\"wavpack\""), "{error}");
    let error = reader.read(1, &[0], &[4], &mut [0; 8]).unwrap_err().to_string();
    assert!(error.contains("\"b\"") && error.contains("too large"), "{error}");
}

#[test]
fn many_threads_share_a_reader() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[60, 50], &[7, 9], ZLIB, "-999")]);
    let elements = &arrays[0].elements;
    // Room for a few chunks alone, so that they come and go.
    let reader = reader(&store, 2, 1500);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let reader = &reader;
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..100 {
                    let start = [random.below(60), random.below(50)];
                    let count = [1 + random.below(60 - start[0]), 1 + random.below(50 - start[1])];
                    if random.below(4) == 0 {
                        reader.advise(0, &start, &count).unwrap();
                    }
                    let mut buffer = vec![0; (count[0] * count[1] * 2) as usize];
                    reader.read(0, &start, &count, &mut buffer).unwrap();
                    let expected: Vec<u8> = indices(&count)
                        .iter()
                        .flat_map(|i| elements[flat(&[start[0] + i[0], start[1] + i[1]], &[60, 50])].clone())
                        .collect();
                    assert!(buffer == expected);
                }
            });
        }
    });
}

#[test]
fn damaged_bytes_never_become_a_panic_or_fill() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[4, 64], &[4, 64], ZLIB, "-999")]);
    let path = folder.file("a.bin");
    let good = std::fs::read(&path).unwrap();
    let expected = arrays[0].elements.concat();
    let reader = reader(&store, 1, 0);
    for at in 16..good.len() {
        let mut bad = good.clone();
        bad[at] = bad[at].wrapping_add(1 + at as u8 % 254);
        std::fs::write(&path, &bad).unwrap();
        let mut buffer = vec![0; expected.len()];
        // Adler-32 sees what deflate does not; a header byte may not matter.
        match reader.read(0, &[0, 0], &[4, 64], &mut buffer) {
            Ok(()) => assert_eq!(buffer, expected, "{at}"),
            Err(error) => assert!(matches!(error, Error::Chunk { .. }), "{error}"),
        }
    }
}

/// Sources elsewhere: counts what is asked for.
struct Remote {
    reads: Arc<std::sync::Mutex<Vec<(u64, usize)>>>,
    opened: Arc<AtomicUsize>,
}

struct RemoteFile(Arc<dyn ByteReader>, Arc<std::sync::Mutex<Vec<(u64, usize)>>>);

impl Opener for Remote {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(RemoteFile(LocalOpener.open(path)?, self.reads.clone())))
    }

    fn stat(&self, _path: &str) -> Result<Stat> {
        panic!("a request for nothing")
    }

    fn is_local(&self, _path: &str) -> bool {
        false
    }
}

impl ByteReader for RemoteFile {
    fn size(&self) -> Result<u64> {
        panic!("a request for nothing")
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.1.lock().unwrap().push((offset, buf.len()));
        self.0.read_at(offset, buf)
    }

    fn path(&self) -> &str {
        self.0.path()
    }
}

#[test]
fn remote_sources_cost_few_requests() {
    let folder = Folder::new();
    let (store, arrays) = store(
        &folder,
        vec![desc("a", "<i2", &[60, 50], &[7, 9], ZLIB, "-999"), desc("b", "<i2", &[60, 50], &[60, 50], "{}", "0")],
    );
    let reads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let opened = Arc::new(AtomicUsize::new(0));
    let opener = Arc::new(Remote { reads: reads.clone(), opened: opened.clone() });
    let options = ReadOptions { threads: 4, ..ReadOptions::default() };
    let reader = Reader::new(store.clone(), opener, options).unwrap();
    for (number, array) in arrays.iter().enumerate() {
        let mut buffer = vec![0; 6000];
        reader.read(number, &[0, 0], &[60, 50], &mut buffer).unwrap();
        assert_eq!(buffer, array.elements.concat());
        // Neighbours in one request; nothing is asked twice.
        assert_eq!(reads.lock().unwrap().len(), number + 1);
        assert_eq!(opened.load(Ordering::Relaxed), number + 1);
    }
    reader.read(1, &[3, 3], &[2, 2], &mut [0; 8]).unwrap();
    reader.read(0, &[3, 3], &[2, 2], &mut [0; 8]).unwrap();
    assert_eq!(reads.lock().unwrap().len(), 2, "small arrays stay in the cache");
}

#[test]
fn chunks_without_a_codec_are_read_by_rows() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[50, 600, 50], &[50, 600, 50], "{}", "0")]);
    let reads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let opener = Counting(reads.clone());
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let reader = Reader::new(store.clone(), Arc::new(opener), options).unwrap();
    let mut buffer = vec![0; 20];
    reader.read(0, &[30, 500, 10], &[1, 1, 10], &mut buffer).unwrap();
    let at = (30 * 600 + 500) * 50 + 10;
    assert_eq!(buffer, arrays[0].elements[at..at + 10].concat());
    assert_eq!(reads.lock().unwrap().drain(..).map(|r| r.1).collect::<Vec<_>>(), [20]);
    let mut buffer = vec![0; 50 * 600 * 50 * 2];
    reader.read(0, &[0, 0, 0], &[50, 600, 50], &mut buffer).unwrap();
    assert!(buffer == arrays[0].elements.concat());
    let all: Vec<_> = reads.lock().unwrap().drain(..).collect();
    assert_eq!(all.iter().map(|r| r.1).sum::<usize>(), buffer.len());
    assert!(all.iter().all(|r| r.1 <= 1 << 20) && all.len() <= 6, "{all:?}");
}

/// Local sources: counts what is asked for.
struct Counting(Arc<std::sync::Mutex<Vec<(u64, usize)>>>);

impl Opener for Counting {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        Ok(Arc::new(RemoteFile(LocalOpener.open(path)?, self.0.clone())))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        LocalOpener.stat(path)
    }

    fn is_local(&self, _path: &str) -> bool {
        true
    }
}
