//! The codecs of an array, one after the other.

use super::config::{Codec, Config, codec_error, sized};
use super::{codec, vlen};
use crate::Result;
use crate::model::{CodecSpec, DType, Kind};
use std::fmt;

/// A chunk codec: what [`CodecSpec`] describes, ready to run on chunks of one decoded size. Thread-safe; scratch
/// buffers and decompressors are in [`Scratch`], one for each thread.
#[derive(Debug)]
pub struct Pipeline {
    /// In encode order.
    stages: Vec<Stage>,
    decoded_size: usize,
    elements: usize,
    is_vlen: bool,
}

#[derive(Debug)]
struct Stage {
    /// Its bit in a filter mask.
    bit: u32,
    codec: Box<dyn Codec>,
}

/// Reusable buffers and decompressor states of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What the last stage wrote.
    front: Vec<u8>,
    /// What the next stage writes.
    back: Vec<u8>,
    tools: Tools,
}

impl Scratch {
    /// Bytes that the buffers hold.
    pub(crate) fn size(&self) -> usize {
        self.front.capacity() + self.back.capacity()
    }
}

/// Decompressor states.
#[derive(Default)]
pub(super) struct Tools {
    inflater: Option<libdeflater::Decompressor>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Tools {
    pub fn inflater(&mut self) -> &mut libdeflater::Decompressor {
        self.inflater.get_or_insert_with(libdeflater::Decompressor::new)
    }

    pub fn zstd(&mut self) -> std::io::Result<&mut zstd::bulk::Decompressor<'static>> {
        if self.zstd.is_none() {
            self.zstd = Some(zstd::bulk::Decompressor::new()?);
        }
        self.zstd.as_mut().ok_or_else(|| std::io::Error::other("there is no decompressor"))
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").finish_non_exhaustive()
    }
}

/// Choices of the reader.
#[derive(Clone, Copy, Debug)]
pub struct CodecOptions {
    /// Verify checksums (fletcher32, crc32c, …).
    pub verify_checksum: bool,
}

impl Default for CodecOptions {
    fn default() -> Self {
        CodecOptions { verify_checksum: true }
    }
}

/// As many codecs as a filter mask has bits.
const MAX_CODECS: usize = 32;

/// Bound, in bytes, of what lies between two codecs where the size can't be known (deflate twice): well above what any
/// codec makes of a chunk of `decoded` bytes.
fn between_limit(decoded: usize) -> usize {
    decoded.saturating_mul(4).saturating_add(64 << 10)
}

impl Pipeline {
    /// Builds the pipeline for chunks of `elements` elements of `dtype`.
    ///
    /// # Errors
    /// [`Error::Codec`](crate::Error::Codec) naming a codec that is unknown or whose parameters are wrong.
    pub fn new(spec: &CodecSpec, dtype: &DType, elements: usize, options: CodecOptions) -> Result<Pipeline> {
        let is_vlen = dtype.kind == Kind::VlenUtf8;
        let decoded_size = elements
            .checked_mul(dtype.size)
            .ok_or_else(|| codec_error("none", format!("a chunk of {elements} elements of {dtype} is too large")))?;
        let mut stages = Vec::new();
        for (i, value) in spec.encode_order().enumerate() {
            let config = Config::new(value)?;
            if i >= MAX_CODECS {
                return Err(config.error(&format!("is one of more than {MAX_CODECS} codecs")));
            }
            if matches!(config.id, vlen::ID | "vlen-bytes") {
                if !is_vlen || i != 0 {
                    return Err(config.error(&format!("does not go with {dtype}, or is not the first filter")));
                }
                continue;
            }
            if is_vlen && i == 0 {
                return Err(config.error(&format!("is the first filter of {dtype}, not {}", vlen::ID)));
            }
            let codec = codec(&config, dtype, options)?;
            stages.push(Stage { bit: 1 << i, codec });
        }
        Ok(Pipeline { stages, decoded_size, elements, is_vlen })
    }

    /// Size in bytes of a decoded chunk; 0 for variable-length strings.
    pub fn decoded_size(&self) -> usize {
        self.decoded_size
    }

    /// Whether a chunk with this filter mask is stored as its decoded bytes.
    pub fn is_identity(&self, filter_mask: u32) -> bool {
        !self.is_vlen && self.stages.iter().all(|s| s.bit & filter_mask != 0)
    }

    /// Decodes one chunk into `out`, which has exactly [`Pipeline::decoded_size`] bytes. Byte order is left as stored.
    /// Bit i of `filter_mask` set: codec i in encode order was not applied.
    ///
    /// # Errors
    /// [`Error::Codec`](crate::Error::Codec) if the bytes do not decode to exactly that size, or a checksum is wrong.
    pub fn decode_into(&self, encoded: &[u8], filter_mask: u32, out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        if self.is_vlen || out.len() != self.decoded_size {
            return Err(codec_error(
                "none",
                format!("a buffer of {} bytes for a chunk of {} bytes", out.len(), self.decoded_size),
            ));
        }
        let Some(first) = self.stages.iter().position(|s| s.bit & filter_mask == 0) else {
            if encoded.len() != out.len() {
                let what = format!("{} bytes where {} were expected", encoded.len(), out.len());
                return Err(codec_error("none", what));
            }
            out.copy_from_slice(encoded);
            return Ok(());
        };
        let Scratch { front, back, tools } = scratch;
        let mut len = None;
        for (i, stage) in self.stages.iter().enumerate().skip(first + 1).rev() {
            if stage.bit & filter_mask != 0 {
                continue;
            }
            let input = len.map_or(encoded, |n| &front[..n]);
            let written = match self.size_before(i, filter_mask) {
                Some(size) => {
                    stage.codec.decode(input, sized(back, size)?, tools)?;
                    size
                }
                None => {
                    stage.codec.decode_bounded(input, between_limit(self.decoded_size), back, tools)?;
                    back.len()
                }
            };
            len = Some(written);
            std::mem::swap(front, back);
        }
        let input = len.map_or(encoded, |n| &front[..n]);
        self.stages[first].codec.decode(input, out, tools)
    }

    /// Size of what stage `i` was given to encode, if it does not depend on the bytes.
    fn size_before(&self, i: usize, filter_mask: u32) -> Option<usize> {
        self.stages[..i]
            .iter()
            .filter(|s| s.bit & filter_mask == 0)
            .try_fold(self.decoded_size, |size, s| s.codec.encoded_size(size))
    }

    /// Decodes one chunk of variable-length strings to `vlen-utf8` bytes; at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Pipeline::decode_into`]; also if there are not as many strings as the chunk has elements.
    pub fn decode_vlen(&self, encoded: &[u8], limit: usize, scratch: &mut Scratch) -> Result<Vec<u8>> {
        let Scratch { front, back, tools } = scratch;
        let mut len = None;
        for stage in self.stages.iter().rev() {
            let input = len.map_or(encoded, |n| &front[..n]);
            stage.codec.decode_bounded(input, limit, back, tools)?;
            len = Some(back.len());
            std::mem::swap(front, back);
        }
        let decoded = len.map_or(encoded, |n| &front[..n]);
        if decoded.len() > limit {
            return Err(codec_error(vlen::ID, format!("more than {limit} bytes in a chunk")));
        }
        let count = vlen::split(decoded)?.len();
        if count != self.elements {
            return Err(codec_error(vlen::ID, format!("{count} strings where {} were expected", self.elements)));
        }
        Ok(decoded.to_vec())
    }

    /// Encodes one chunk.
    ///
    /// # Errors
    /// [`Error::Codec`](crate::Error::Codec) naming a codec that can only be decoded.
    pub fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        if !self.is_vlen && decoded.len() != self.decoded_size {
            let what = format!("{} bytes to encode where a chunk has {}", decoded.len(), self.decoded_size);
            return Err(codec_error("none", what));
        }
        let mut stages = self.stages.iter();
        let Some(first) = stages.next() else { return Ok(decoded.to_vec()) };
        let mut bytes = first.codec.encode(decoded)?;
        for stage in stages {
            bytes = stage.codec.encode(&bytes)?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    fn pipeline(codec: &str, dtype: &str, elements: usize) -> Result<Pipeline> {
        let spec = CodecSpec::parse(codec).unwrap();
        Pipeline::new(&spec, &DType::parse(dtype).unwrap(), elements, CodecOptions::default())
    }

    fn decode(codec: &str, dtype: &str, elements: usize, encoded: &[u8]) -> Result<Vec<u8>> {
        let pipeline = pipeline(codec, dtype, elements)?;
        let mut out = vec![0xaa; pipeline.decoded_size()];
        pipeline.decode_into(encoded, 0, &mut out, &mut Scratch::default())?;
        Ok(out)
    }

    /// `(np.arange(35) * 300 - 2000).astype('<i4')`
    fn values() -> Vec<u8> {
        (0..35).flat_map(|i: i32| (i * 300 - 2000).to_le_bytes()).collect()
    }

    /// Written by h5py: `create_dataset(…, shuffle=True, compression='gzip', compression_opts=4, fletcher32=True)`.
    const H5PY: &str = "785e3388e9d8f280c72265c29e17220e39338e7c90f1285970e6874a40cd8a2b0c3a112d1bee70fcf8f9ebf79f7fff\
                        1918999859d9d83938b97878f9f80504854544c5c425a5a46564e514fe4300031e408412000e7e275ec3f7f71f";
    const HDF5: &str = r#"{"filters":[{"id":"shuffle","elementsize":4},{"id":"zlib","level":4},{"id":"fletcher32"}],"compressor":null}"#;

    #[test]
    fn hdf5_chunk() {
        let encoded = unhex(H5PY);
        assert_eq!(decode(HDF5, "<i4", 35, &encoded).unwrap(), values());
        // Byte order is the reader's.
        assert_eq!(decode(HDF5, ">i4", 35, &encoded).unwrap(), values());
        assert!(decode(HDF5, "<i4", 34, &encoded).unwrap_err().to_string().contains("zlib"));
        assert!(decode(HDF5, "<i4", 36, &encoded).unwrap_err().to_string().contains("140 bytes where 144"));
        for at in [0, 50, 91] {
            let mut bad = encoded.clone();
            bad[at] ^= 1;
            assert!(decode(HDF5, "<i4", 35, &bad).unwrap_err().to_string().contains("fletcher32"));
        }
        for len in 0..encoded.len() {
            decode(HDF5, "<i4", 35, &encoded[..len]).unwrap_err();
        }
    }

    #[test]
    fn hdf5_strings_and_odd_sizes() {
        // np.array([b'ab%d' % (i * 37 % 101) for i in range(9)], 'S5'), shuffle alone, by h5py
        let encoded = "616161616161616161626262626262626262303337313438323539003734303734303734000000000000000000";
        let expected: Vec<u8> = (0..9)
            .flat_map(|i| {
                let mut s = format!("ab{}", i * 37 % 101).into_bytes();
                s.resize(5, 0);
                s
            })
            .collect();
        let codec = r#"{"filters":[{"id":"shuffle","elementsize":5}],"compressor":null}"#;
        assert_eq!(decode(codec, "|S5", 9, &unhex(encoded)).unwrap(), expected);
        assert_eq!(pipeline(codec, "|S5", 9).unwrap().encode(&expected).unwrap(), unhex(encoded));
        // np.arange(13, dtype='u1') with fletcher32, by h5py
        let codec = r#"{"filters":[{"id":"fletcher32"}],"compressor":null}"#;
        let encoded = unhex("000102030405060708090a0b0c242a7f70");
        assert_eq!(decode(codec, "|u1", 13, &encoded).unwrap(), (0..13).collect::<Vec<u8>>());
        assert_eq!(pipeline(codec, "|u1", 13).unwrap().encode(&encoded[..13]).unwrap(), encoded);
    }

    #[test]
    fn either_wrapper_under_either_id() {
        // bytes(range(40)) * 3 by Python's gzip.compress and zlib.compress
        let gzip = "1f8b08000000000000ff6360646266616563e7e0e4e2e6e1e5e317101412161115139790949296919593575054525651555367\
                    a0b23a00e2822b5278000000";
        let zlib =
            "785e6360646266616563e7e0e4e2e6e1e5e317101412161115139790949296919593575054525651555367a0b23a00eb130925";
        let expected: Vec<u8> = (0..3).flat_map(|_| 0..40).collect();
        for id in ["zlib", "gzip"] {
            let codec = format!(r#"{{"compressor":{{"id":"{id}"}}}}"#);
            for stream in [gzip, zlib] {
                assert_eq!(decode(&codec, "|u1", 120, &unhex(stream)).unwrap(), expected);
            }
            let encoded = pipeline(&codec, "|u1", 120).unwrap().encode(&expected).unwrap();
            assert_eq!(encoded[0] == 0x1f, id == "gzip");
            assert_eq!(decode(&codec, "|u1", 120, &encoded).unwrap(), expected);
        }
    }

    #[test]
    fn filter_masks() {
        let pipeline = pipeline(HDF5, "<i4", 35).unwrap();
        let run = |encoded: &[u8], mask| {
            let mut out = vec![0; 140];
            pipeline.decode_into(encoded, mask, &mut out, &mut Scratch::default()).map(|()| out)
        };
        assert_eq!(run(&values(), 0b111).unwrap(), values());
        assert!(pipeline.is_identity(0b111) && !pipeline.is_identity(0b011));
        assert_eq!(run(&unhex(H5PY)[..88], 0b100).unwrap(), values());
        let shuffled: Vec<u8> = (0..4).flat_map(|k| (0..35).map(move |i| values()[i * 4 + k])).collect();
        assert_eq!(run(&shuffled, 0b110).unwrap(), values());
        assert!(run(&values(), 0b110).is_ok());
        assert!(run(&shuffled[1..], 0b110).is_err());
    }

    #[test]
    fn sizes_that_cannot_be_known_are_bounded() {
        // Deflate over shuffle over deflate.
        let codec = r#"{"filters":[{"id":"zlib"},{"id":"shuffle"}],"compressor":{"id":"gzip"}}"#;
        let pipeline = pipeline(codec, "<i4", 35).unwrap();
        let encoded = pipeline.encode(&values()).unwrap();
        assert_eq!(decode(codec, "<i4", 35, &encoded).unwrap(), values());
        // A bomb: 16 MiB of zeros, deflated, where at most a few hundred KiB can be.
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let zeros = vec![0; 16 << 20];
        let mut bomb = vec![0; 1 << 20];
        let n = compressor.gzip_compress(&zeros, &mut bomb).unwrap();
        let mut scratch = Scratch::default();
        let error = pipeline.decode_into(&bomb[..n], 0, &mut [0; 140], &mut scratch).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        assert!(scratch.front.len() + scratch.back.len() < 1 << 20);
    }

    #[test]
    fn strings_of_any_length() {
        // numcodecs.VLenUTF8().encode(np.array(['a', '', 'äb'], object))
        let bytes = unhex("03000000010000006100000000030000 00c3a462".replace(' ', "").as_str());
        let codec = r#"{"filters":[{"id":"vlen-utf8"}],"compressor":{"id":"zlib"}}"#;
        let pipeline = pipeline(codec, "|O", 3).unwrap();
        let encoded = pipeline.encode(&bytes).unwrap();
        let mut scratch = Scratch::default();
        assert_eq!(pipeline.decode_vlen(&encoded, 1000, &mut scratch).unwrap(), bytes);
        assert!(pipeline.decode_vlen(&encoded, 10, &mut scratch).is_err());
        for len in 0..bytes.len() {
            let encoded = pipeline.encode(&bytes[..len]).unwrap();
            pipeline.decode_vlen(&encoded, 1000, &mut scratch).unwrap_err();
        }
    }

    const SHUFFLE_ZLIB: &str = r#"{"compressor":{"id":"zlib","level":4},"filters":[{"id":"shuffle","elementsize":2}]}"#;

    #[test]
    fn a_chunk_written_by_hand() {
        // A zlib stream with one stored block (RFC 1950, 1951) of the shuffled bytes, and their Adler-32.
        let shuffled = [1u8, 3, 5, 7, 2, 4, 6, 8];
        let (mut a, mut b) = (1u32, 0u32);
        for byte in shuffled {
            a += u32::from(byte);
            b += a;
        }
        let mut stream = vec![0x78, 0x01, 0x01, 8, 0, 0xf7, 0xff];
        stream.extend(shuffled);
        stream.extend(((b << 16) | a).to_be_bytes());
        let mut out = [0; 8];
        pipeline(SHUFFLE_ZLIB, "<i2", 4).unwrap().decode_into(&stream, 0, &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn any_order_and_any_mask_round_trips() {
        let data: Vec<u8> = (0..1001u32).map(|i| (i * i % 251) as u8).collect();
        let (z, s, f) = (r#"{"id":"zlib","level":6}"#, r#"{"id":"shuffle","elementsize":4}"#, r#"{"id":"fletcher32"}"#);
        for filters in [[s, z, f], [f, s, z], [z, s, f], [z, z, s], [z, f, z], [s, f, z]] {
            let codec = format!(r#"{{"compressor":null,"filters":[{}]}}"#, filters.join(","));
            for mask in 0..8u32 {
                let whole = pipeline(&codec, "|u1", data.len()).unwrap();
                let kept: Vec<_> = (0..3).filter(|i| mask & (1 << i) == 0).map(|i| filters[i]).collect();
                let partial = pipeline(&format!(r#"{{"filters":[{}]}}"#, kept.join(",")), "|u1", data.len()).unwrap();
                let encoded = partial.encode(&data).unwrap();
                let mut out = vec![0; data.len()];
                whole.decode_into(&encoded, mask, &mut out, &mut Scratch::default()).unwrap();
                assert_eq!(out, data, "{codec} {mask}");
            }
        }
    }

    #[test]
    fn damage_is_an_error() {
        let data: Vec<u8> = (0..=255u8).cycle().take(4096).collect();
        for codec in [
            SHUFFLE_ZLIB,
            r#"{"filters":[{"id":"zlib","level":1},{"id":"fletcher32"}]}"#,
            r#"{"filters":[{"id":"fletcher32"}]}"#,
            "{}",
        ] {
            let p = pipeline(codec, "<i2", 2048).unwrap();
            let encoded = p.encode(&data).unwrap();
            let mut out = vec![0; 4096];
            let mut scratch = Scratch::default();
            p.decode_into(&encoded, 0, &mut out, &mut scratch).unwrap();
            assert_eq!(out, data);
            for cut in [0, 1, encoded.len() / 2, encoded.len() - 1] {
                assert!(p.decode_into(&encoded[..cut], 0, &mut out, &mut scratch).is_err(), "{codec} {cut}");
            }
            // one element less, one more
            for elements in [2047, 2049] {
                let other = pipeline(codec, "<i2", elements).unwrap();
                assert!(other.decode_into(&encoded, 0, &mut vec![0; elements * 2], &mut scratch).is_err());
            }
            if codec.contains("fletcher32") {
                let mut flipped = encoded.clone();
                flipped[encoded.len() / 2] ^= 1;
                assert!(p.decode_into(&flipped, 0, &mut out, &mut scratch).is_err());
            }
        }
    }

    #[test]
    fn refuses_by_name() {
        for (codec, dtype, what) in [
            (r#"{"compressor":{"id":"x-unknown"}}"#, "<i4", r#"codec "x-unknown": is not supported"#),
            (r#"{"compressor":{"id":"zlib","level":"x"}}"#, "<i4", r#"codec "zlib": "level" is "x""#),
            (r#"{"compressor":{"id":"zlib","level":99}}"#, "<i4", "level 99"),
            (r#"{"filters":[{"id":"shuffle","elementsize":-1}]}"#, "<i4", "elementsize -1"),
            (r#"{"filters":[{"id":"vlen-utf8"}]}"#, "<i4", "vlen-utf8"),
            (r#"{"compressor":{"id":"zlib"}}"#, "|O", "not vlen-utf8"),
        ] {
            let error = pipeline(codec, dtype, 1).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(pipeline("{}", "<i4", usize::MAX).is_err());
        assert!(decode("{}", "<i4", 1, &[1, 2, 3]).unwrap_err().to_string().contains("3 bytes where 4"));
        assert_eq!(decode("{}", "<i4", 1, &[1, 2, 3, 4]).unwrap(), [1, 2, 3, 4]);
    }
}
