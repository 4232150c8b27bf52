//! Decode and encode chunks.
//!
//! A [`Pipeline`] is made from a [`CodecSpec`]: the filters in encode order, then the compressor. One codec is one file
//! here; [`Step::parse`] knows them by their Zarr v2 ids.

mod fletcher32;
mod shuffle;
pub mod vlen;
mod zlib;

use crate::model::{CodecSpec, DType, Kind};
use crate::{Error, Result};
use serde_json::Value;

/// A chunk codec: what [`CodecSpec`] describes, ready to run on chunks of one decoded size. Thread-safe; scratch
/// buffers and decompressors are in [`Scratch`], one for each thread.
#[derive(Debug)]
pub struct Pipeline {
    steps: Vec<Step>,
    decoded_size: usize,
    verify_checksum: bool,
}

/// One codec, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// `zlib` or `gzip`.
    Inflate { level: i32, gzip: bool },
    /// `shuffle`.
    Shuffle { size: usize },
    /// `fletcher32`.
    Fletcher32,
}

/// Reusable buffers and decompressor states of one thread.
#[derive(Default)]
pub struct Scratch {
    buffers: [Vec<u8>; 2],
    inflate: Option<libdeflater::Decompressor>,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
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

/// An error of codec `codec`.
fn codec_error(codec: &str, what: impl Into<String>) -> Error {
    Error::Codec { codec: codec.to_owned(), what: what.into() }
}

impl Step {
    fn parse(codec: &Value, dtype: &DType) -> Result<Step> {
        let id = codec.get("id").and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| codec.get(key).and_then(Value::as_i64);
        match id {
            "zlib" | "gzip" => Ok(Step::Inflate { level: number("level").unwrap_or(1) as i32, gzip: id == "gzip" }),
            "shuffle" => {
                let size = number("elementsize").unwrap_or(dtype.size as i64);
                let size = usize::try_from(size).ok().filter(|s| *s >= 1);
                Ok(Step::Shuffle { size: size.ok_or_else(|| codec_error(id, "elementsize is not a size in bytes"))? })
            }
            "fletcher32" => Ok(Step::Fletcher32),
            "hdf5" => Err(codec_error(
                id,
                format!("HDF5 filter {} is not supported", codec.get("filter").unwrap_or(&Value::Null)),
            )),
            _ => Err(codec_error(id, "it is not supported")),
        }
    }

    fn id(&self) -> &'static str {
        match self {
            Step::Inflate { gzip: true, .. } => "gzip",
            Step::Inflate { .. } => "zlib",
            Step::Shuffle { .. } => "shuffle",
            Step::Fletcher32 => "fletcher32",
        }
    }

    /// Encoded size for `size` bytes, where that is fixed.
    fn encoded_size(&self, size: usize) -> Option<usize> {
        match self {
            Step::Inflate { .. } => None,
            Step::Shuffle { .. } => Some(size),
            Step::Fletcher32 => size.checked_add(fletcher32::SIZE),
        }
    }

    /// Decodes into exactly `out`.
    fn decode(
        &self,
        input: &[u8],
        out: &mut [u8],
        verify: bool,
        inflate: &mut Option<libdeflater::Decompressor>,
    ) -> Result<()> {
        match self {
            Step::Inflate { .. } => zlib::decode(input, out, inflate),
            Step::Shuffle { size } => {
                exactly(self.id(), input.len(), out.len())?;
                shuffle::decode(input, *size, out);
                Ok(())
            }
            Step::Fletcher32 => {
                let data = fletcher32::decode(input, verify)?;
                exactly(self.id(), data.len(), out.len())?;
                out.copy_from_slice(data);
                Ok(())
            }
        }
    }

    /// Decodes what has an unknown size of at most `limit` bytes.
    fn decode_growing(
        &self,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
        verify: bool,
        inflate: &mut Option<libdeflater::Decompressor>,
    ) -> Result<()> {
        if let Step::Inflate { .. } = self {
            return zlib::decode_growing(input, limit, out, inflate);
        }
        let size = match self {
            Step::Fletcher32 => input.len().saturating_sub(fletcher32::SIZE),
            _ => input.len(),
        };
        if size > limit {
            return Err(codec_error(self.id(), format!("it decodes to more than {limit} bytes")));
        }
        resize(out, size, self.id())?;
        self.decode(input, out, verify, inflate)
    }

    fn encode(&self, data: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Step::Inflate { level, gzip } => zlib::encode(&data, *level, *gzip),
            Step::Shuffle { size } => Ok(shuffle::encode(&data, *size)),
            Step::Fletcher32 => Ok(fletcher32::encode(data)),
        }
    }
}

fn exactly(codec: &str, have: usize, want: usize) -> Result<()> {
    if have == want { Ok(()) } else { Err(codec_error(codec, format!("it decodes to {have} bytes, not {want}"))) }
}

fn resize(buffer: &mut Vec<u8>, size: usize, codec: &str) -> Result<()> {
    if size > buffer.len() {
        buffer
            .try_reserve(size - buffer.len())
            .map_err(|_| codec_error(codec, format!("no memory for {size} bytes")))?;
    }
    buffer.resize(size, 0);
    Ok(())
}

impl Pipeline {
    /// Builds the pipeline for chunks of `elements` elements of `dtype`.
    ///
    /// # Errors
    /// [`Error::Codec`] naming a codec that is unknown or whose parameters are wrong.
    pub fn new(spec: &CodecSpec, dtype: &DType, elements: usize, options: CodecOptions) -> Result<Pipeline> {
        let is_vlen = |c: &Value| matches!(c.get("id").and_then(Value::as_str), Some("vlen-utf8" | "vlen-bytes"));
        let mut steps = Vec::new();
        for (i, codec) in spec.encode_order().enumerate() {
            if i == 0 && dtype.kind == Kind::VlenUtf8 && is_vlen(codec) {
                continue;
            }
            steps.push(Step::parse(codec, dtype)?);
        }
        let decoded_size = elements
            .checked_mul(dtype.size)
            .ok_or_else(|| codec_error("none", format!("a chunk of {elements} elements of {dtype} is too large")))?;
        Ok(Pipeline { steps, decoded_size, verify_checksum: options.verify_checksum })
    }

    /// Size in bytes of a decoded chunk; 0 for variable-length strings.
    pub fn decoded_size(&self) -> usize {
        self.decoded_size
    }

    /// Decodes one chunk into `out`, which has exactly [`Pipeline::decoded_size`] bytes. Byte order is left as stored.
    /// Bit i of `filter_mask` set: codec i in encode order was not applied.
    ///
    /// # Errors
    /// [`Error::Codec`] if the bytes do not decode to exactly that size, or a checksum is wrong.
    pub fn decode_into(&self, encoded: &[u8], filter_mask: u32, out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let applied = |i: &usize| *i >= 32 || filter_mask & (1 << i) == 0;
        let steps: Vec<&Step> = (0..self.steps.len()).filter(applied).map(|i| &self.steps[i]).collect();
        if steps.is_empty() {
            exactly("none", encoded.len(), out.len())?;
            out.copy_from_slice(encoded);
            return Ok(());
        }
        // Size of what goes into each step when encoding, as far as it is fixed.
        let mut sizes = Vec::with_capacity(steps.len());
        let mut size = Some(out.len());
        for step in &steps {
            sizes.push(size);
            size = size.and_then(|s| step.encoded_size(s));
        }
        self.run(encoded, &steps, &sizes, out, scratch)
    }

    fn run(
        &self,
        encoded: &[u8],
        steps: &[&Step],
        sizes: &[Option<usize>],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let verify = self.verify_checksum;
        // Where a size is not fixed (a stream within a stream), no honest encoder is far above the decoded size.
        let limit = out.len().saturating_mul(4).saturating_add(1 << 16);
        let [mut from, mut to] = std::mem::take(&mut scratch.buffers);
        let mut result = Ok(());
        for (i, step) in steps.iter().enumerate().rev() {
            let input = if i + 1 == steps.len() { encoded } else { &from };
            result = if i == 0 {
                step.decode(input, out, verify, &mut scratch.inflate)
            } else {
                match sizes[i] {
                    Some(size) => resize(&mut to, size, step.id())
                        .and_then(|()| step.decode(input, &mut to, verify, &mut scratch.inflate)),
                    None => step.decode_growing(input, limit, &mut to, verify, &mut scratch.inflate),
                }
            };
            if result.is_err() {
                break;
            }
            std::mem::swap(&mut from, &mut to);
        }
        scratch.buffers = [from, to];
        result
    }

    /// Decodes one chunk of variable-length strings to `vlen-utf8` bytes; at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Pipeline::decode_into`].
    pub fn decode_vlen(&self, encoded: &[u8], limit: usize, scratch: &mut Scratch) -> Result<Vec<u8>> {
        let mut data = encoded.to_vec();
        for step in self.steps.iter().rev() {
            let mut out = Vec::new();
            step.decode_growing(&data, limit, &mut out, self.verify_checksum, &mut scratch.inflate)?;
            data = out;
        }
        vlen::split(&data)?;
        Ok(data)
    }

    /// Encodes one chunk.
    ///
    /// # Errors
    /// [`Error::Codec`] naming a codec that can only be decoded.
    pub fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        self.steps.iter().try_fold(decoded.to_vec(), |data, step| step.encode(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(codec: &str, dtype: &str, elements: usize) -> Pipeline {
        let spec = CodecSpec::parse(codec).unwrap();
        Pipeline::new(&spec, &DType::parse(dtype).unwrap(), elements, CodecOptions::default()).unwrap()
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
        pipeline(SHUFFLE_ZLIB, "<i2", 4).decode_into(&stream, 0, &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn any_order_and_any_mask_round_trips() {
        let data: Vec<u8> = (0..1001u32).map(|i| (i * i % 251) as u8).collect();
        let (z, s, f) = (r#"{"id":"zlib","level":6}"#, r#"{"id":"shuffle","elementsize":4}"#, r#"{"id":"fletcher32"}"#);
        for filters in [[s, z, f], [f, s, z], [z, s, f], [z, z, s], [z, f, z], [s, f, z]] {
            let codec = format!(r#"{{"compressor":null,"filters":[{}]}}"#, filters.join(","));
            for mask in 0..8u32 {
                let whole = pipeline(&codec, "|u1", data.len());
                let kept: Vec<_> = (0..3).filter(|i| mask & (1 << i) == 0).map(|i| filters[i]).collect();
                let partial = pipeline(&format!(r#"{{"filters":[{}]}}"#, kept.join(",")), "|u1", data.len());
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
            let p = pipeline(codec, "<i2", 2048);
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
                let other = pipeline(codec, "<i2", elements);
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
    fn unknown_codecs_are_named() {
        let spec = CodecSpec::parse(r#"{"compressor":{"id":"wavpack"}}"#).unwrap();
        let e = Pipeline::new(&spec, &DType::parse("<i2").unwrap(), 1, CodecOptions::default()).unwrap_err();
        assert!(e.to_string().contains("wavpack"));
    }
}
