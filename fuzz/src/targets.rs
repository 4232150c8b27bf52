//! What the fuzz targets do with their input. `tests/test_corpus.rs` does the same with the corpus.

use mdimrefs::Result;
use mdimrefs::codec::{CodecOptions, Pipeline, Scratch};
use mdimrefs::io::{ByteReader, Listed, Opener, Stat};
use mdimrefs::model::{CodecSpec, DType};
use mdimrefs::scan;
use std::sync::Arc;

/// Bytes as a file.
struct Memory(Vec<u8>);

impl ByteReader for Memory {
    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = usize::try_from(offset).ok().and_then(|from| self.0.get(from..from.checked_add(buf.len())?));
        buf.copy_from_slice(bytes.expect("a read beyond the end of the file"));
        Ok(())
    }

    fn path(&self) -> &str {
        "fuzzed"
    }
}

/// Scans a source: every array, chunk, small value.
pub fn scan_source(data: &[u8]) {
    if let Ok(index) = scan::open(Arc::new(Memory(data.to_vec()))) {
        walk(index.as_ref());
    }
}

/// A Zarr whose files all are the input.
struct Folder(Vec<u8>);

impl Opener for Folder {
    fn open(&self, _path: &str) -> Result<Arc<dyn ByteReader>> {
        Ok(Arc::new(Memory(self.0.clone())))
    }

    fn stat(&self, _path: &str) -> Result<Stat> {
        Ok(Stat { size: Some(self.0.len() as u64), ..Stat::default() })
    }

    fn is_local(&self, _path: &str) -> bool {
        true
    }

    fn list(&self, _path: &str) -> Result<Vec<Listed>> {
        let metadata = match self.0.len() % 3 {
            0 => ".zmetadata",
            1 => "a/.zarray",
            _ => "zarr.json",
        };
        let names = [metadata, "0", "0.0", "c/0", "c/0/0", "a/0", "a/0/0", "a/0.0", "a/c/0"];
        let stat = Stat { size: Some(self.0.len() as u64), ..Stat::default() };
        Ok(names.iter().map(|n| Listed { name: (*n).to_owned(), stat: stat.clone() }).collect())
    }
}

/// Reads the input as the metadata of a Zarr, and as its chunks.
pub fn scan_zarr(data: &[u8]) {
    if let Ok(index) = scan::zarr::open(Arc::new(Folder(data.to_vec())), "fuzzed") {
        walk(index.as_ref());
    }
}

fn walk(index: &dyn scan::SourceIndex) {
    for number in 0..index.arrays().len().min(50) {
        let mut left = 100_000;
        let _ = index.chunks(number, &mut |_| {
            left -= 1;
            if left == 0 { Err(mdimrefs::Error::Cancelled) } else { Ok(()) }
        });
        let _ = index.values(number, 1 << 20);
    }
}

/// Reads the input as kerchunk's references in JSON, and writes what is in them into a store in memory.
pub fn read_kerchunk(data: &[u8]) {
    use mdimrefs::import::{kerchunk_json, write};
    if let Ok(mut all) = kerchunk_json::read(&Folder(data.to_vec()), "/folder/refs.json", &mut |_| Ok(()))
        && let Ok(mut store) = mdimrefs::store::Writer::in_file(std::path::Path::new(":memory:"), "fuzzed")
    {
        let _ = write::write(&mut store, &mut all, "refs.json", &mut |_| Ok(()));
    }
}

/// Codecs of the pipeline, by the first byte of the input.
const CODECS: [&str; 27] = [
    r#"{"id":"zlib"}"#,
    r#"{"id":"zstd"}"#,
    r#"{"id":"lz4"}"#,
    r#"{"id":"blosc"}"#,
    r#"{"id":"bz2"}"#,
    r#"{"id":"lzma"}"#,
    r#"{"id":"shuffle","elementsize":3}"#,
    r#"{"id":"fletcher32"}"#,
    r#"{"id":"crc32c"}"#,
    r#"{"id":"delta","dtype":"<i4","astype":"<i2"}"#,
    r#"{"id":"fixedscaleoffset","scale":3,"offset":1,"dtype":"<i4","astype":"<f4"}"#,
    r#"{"id":"astype","encode_dtype":"<f8","decode_dtype":"<i4"}"#,
    r#"{"id":"packbits"}"#,
    r#"{"id":"imagecodecs_lzw"}"#,
    r#"{"id":"imagecodecs_delta","dtype":"<u4","shape":[10,10,10]}"#,
    r#"{"id":"imagecodecs_floatpred","dtype":"<f4","shape":[10,100]}"#,
    r#"{"id":"hdf5","filter":4,"cd_values":[32,8,16,100]}"#,
    r#"{"id":"hdf5","filter":4,"cd_values":[16,32,32,77]}"#,
    r#"{"id":"hdf5","filter":5,"cd_values":[8,0,1000,1,4,0,17,3]}"#,
    r#"{"id":"hdf5","filter":6,"cd_values":[2,0,1000,0,4,1,0,1,5]}"#,
    r#"{"id":"hdf5","filter":6,"cd_values":[0,2,1000,1,4,0,1,1,5]}"#,
    r#"{"id":"hdf5","filter":32000,"cd_values":[4,261,4000]}"#,
    r#"{"id":"hdf5","filter":32004,"cd_values":[0]}"#,
    r#"{"id":"hdf5","filter":32008,"cd_values":[0,4,4,0,2]}"#,
    r#"{"id":"hdf5","filter":32008,"cd_values":[0,4,4,8,3]}"#,
    r#"{"id":"hdf5","filter":32008,"cd_values":[0,4,3,0,0]}"#,
    r#"{"id":"gzip"}"#,
];

/// Decodes a chunk of 1000 numbers, by one codec or, with the second byte, two.
pub fn decode_chunk(data: &[u8]) {
    let [first, second, encoded @ ..] = data else { return };
    let codec = |n: &u8| CODECS.get(usize::from(*n));
    let Some(one) = codec(first) else { return };
    let filters = codec(second).map_or(String::new(), |c| (*c).to_owned());
    let spec = CodecSpec::parse(&format!(r#"{{"compressor":{one},"filters":[{filters}]}}"#)).expect("a codec");
    let dtype = DType::parse("<i4").expect("a type");
    let Ok(pipeline) = Pipeline::new(&spec, &dtype, 1000, CodecOptions { verify_checksum: false }) else { return };
    let mut out = vec![0; pipeline.decoded_size()];
    let _ = pipeline.decode_into(encoded, 0, &mut out, &mut Scratch::default());
}
