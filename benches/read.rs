//! Reading all of an array, against the limit of the machine: bare `pread`, libdeflate and unshuffle on the same bytes
//! with the same number of threads, into the same buffer.
//!
//! usage: cargo bench --bench read [-- STORE ARRAY]
//!
//! Without a store, one is made in a temporary folder: 100 files with one chunk each, like daily fields of 720 × 1440
//! 16-bit numbers. The array's codec must be zlib, with or without shuffle. The two are run in turn; medians are printed.

use mdimrefs::codec::{CodecOptions, Pipeline};
use mdimrefs::io::{LocalOpener, Stat};
use mdimrefs::model::*;
use mdimrefs::read::{ReadOptions, Reader};
use mdimrefs::store::{ChunkRef, OpenOptions, Placement, RowData, Store, Writer};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DAYS: u64 = 100;
const SHAPE: [u64; 2] = [720, 1440];
const ROUNDS: usize = 9;

fn make(folder: &std::path::Path) -> Result<String> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("store.sqlite").to_string_lossy().into_owned();
    if std::path::Path::new(&path).exists() {
        return Ok(path);
    }
    let codec = r#"{"compressor":{"id":"zlib","level":4},"filters":[{"id":"shuffle","elementsize":2}]}"#;
    let desc = ArrayDesc {
        name: "field".into(),
        kind: ArrayKind::Data,
        storage: Storage::Referenced,
        dims: ["time", "lat", "lon"].map(String::from).to_vec(),
        shape: Some(vec![DAYS, SHAPE[0], SHAPE[1]]),
        chunks: vec![1, SHAPE[0], SHAPE[1]],
        dtype: DType::parse("<i2")?,
        fill: Fill::parse(Some("-999")),
        codec: CodecSpec::parse(codec)?,
        attrs: Attributes::default(),
        affine: None,
        values: None,
    };
    let pipeline = Pipeline::new(&desc.codec, &desc.dtype, (SHAPE[0] * SHAPE[1]) as usize, CodecOptions::default())?;
    let mut writer = Writer::create(&path, false)?;
    writer.begin()?;
    writer.put_array(&desc)?;
    let mut placements = Vec::new();
    let mut seed = 1u64;
    for day in 0..DAYS {
        let mut field = Vec::new();
        for y in 0..SHAPE[0] {
            for x in 0..SHAPE[1] {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (a, b) = (x as f64 / 90.0 + day as f64 / 9.0, y as f64 / 70.0);
                let land = (a * 0.7).sin() * (b * 1.3).cos() > 0.4;
                let value = 1500.0 * b.sin() + 300.0 * (a + b).sin() + 50.0 * (3.1 * a).cos() + (seed >> 62) as f64;
                field.extend((if land { -999 } else { value as i16 }).to_le_bytes());
            }
        }
        let encoded = pipeline.encode(&field)?;
        let source = folder.join(format!("{day:03}.bin")).to_string_lossy().into_owned();
        let head = vec![0; 1000];
        std::fs::write(&source, [head.as_slice(), &encoded].concat())?;
        let id = writer.put_source(&source, &Stat { size: Some(1000 + encoded.len() as u64), ..Stat::default() })?;
        let data = RowData::Range { offset: 1000, size: encoded.len() as u64 };
        writer.put_row("field", id, &[0, 0, 0], data, None)?;
        placements.push(Placement {
            dest: vec![day, 0, 0],
            source_id: id,
            source_array: "field".into(),
            src_offset: vec![0, 0, 0],
            count: vec![1, SHAPE[0], SHAPE[1]],
        });
    }
    writer.set_placements("field", &placements)?;
    writer.commit()?;
    writer.finish()?;
    Ok(path)
}

/// A chunk for the limit: an open file, place, size.
type Range = (Arc<File>, u64, usize);

/// Fetches, inflates and unshuffles chunks into consecutive places of `out`.
fn limit(ranges: &[Range], item: usize, chunk: usize, threads: usize, out: &mut [u8]) {
    let work = Mutex::new(ranges.iter().zip(out.chunks_exact_mut(chunk)));
    let worker = || {
        let mut inflater = libdeflater::Decompressor::new();
        let (mut input, mut planes) = (Vec::new(), vec![0; chunk]);
        loop {
            let next = work.lock().unwrap_or_else(|e| e.into_inner()).next();
            let Some(((file, offset, size), out)) = next else { return };
            input.resize(*size, 0);
            file.read_exact_at(&mut input, *offset).unwrap_or_default();
            let target = if item > 1 { &mut planes[..] } else { &mut *out };
            inflater.zlib_decompress(&input, target).unwrap_or_default();
            let n = chunk / item;
            match item {
                1 => {}
                2 => {
                    let (low, high) = planes.split_at(n);
                    for ((out, low), high) in out.chunks_exact_mut(2).zip(low).zip(high) {
                        out[0] = *low;
                        out[1] = *high;
                    }
                }
                _ => {
                    for (k, plane) in planes.chunks_exact(n).enumerate() {
                        out.iter_mut().skip(k).step_by(item).zip(plane).for_each(|(out, byte)| *out = *byte);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let (path, array) = match arguments.as_slice() {
        [] => (make(&std::env::temp_dir().join("mdimrefs-bench-read"))?, "field".to_owned()),
        [path, array] => (path.clone(), array.clone()),
        _ => return Err("usage: cargo bench --bench read [-- STORE ARRAY]".into()),
    };
    let store = Arc::new(Store::open(&path, &OpenOptions::default())?);
    let number = store.find(&array).ok_or("there is no such array")?;
    let desc = &store.arrays()[number];
    let grid = desc.grid()?;
    let chunk = grid.chunk_elements().ok_or("chunks are too large")? as usize * desc.dtype.size;
    let item = desc.codec.filters.iter().find_map(|f| f.get("elementsize")?.as_u64()).unwrap_or(1) as usize;

    let mut files: HashMap<String, Arc<File>> = HashMap::new();
    let mut refs = store.refs(number, &vec![0; grid.shape.len()], &grid.counts())?;
    refs.sort_by(|a, b| a.0.cmp(&b.0));
    let mut ranges = Vec::new();
    for (_, reference) in &refs {
        let ChunkRef::Range { source, offset, size } = reference else { continue };
        let source = store.source(*source)?.path;
        let file = match files.get(&source) {
            Some(file) => file.clone(),
            None => Arc::new(File::open(&source)?),
        };
        files.insert(source, file.clone());
        ranges.push((file, *offset, *size as usize));
    }
    let total: u64 = grid.shape.iter().product::<u64>() * desc.dtype.size as u64;
    let mut out = vec![1; (total as usize).max(ranges.len() * chunk)];
    println!("{} chunks of {chunk} bytes in {} files", ranges.len(), files.len());

    let zero = vec![0; grid.shape.len()];
    for threads in [1, 2] {
        // Without the cache, as a loop over all of the array has no use for it.
        let options = ReadOptions { threads, cache_size: 0, ..ReadOptions::default() };
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            limit(&ranges, item, chunk, threads, &mut out);
            bare.push(start.elapsed().as_secs_f64());
            // A new reader: sources are opened, and verified.
            let start = Instant::now();
            let reader = Reader::new(store.clone(), Arc::new(LocalOpener), options.clone())?;
            reader.read(number, &zero, &grid.shape, &mut out[..total as usize])?;
            ours.push(start.elapsed().as_secs_f64());
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (bare, ours) = (median(&mut bare), median(&mut ours));
        let speed = |time: f64| total as f64 / 1e6 / time;
        println!(
            "{threads} thread(s): limit {:.0} MB/s, reader {:.0} MB/s, {:.2} of the limit",
            speed(bare),
            speed(ours),
            bare / ours
        );
    }
    Ok(())
}
