//! What a codec is to the pipeline, and its JSON.

use super::pipeline::Tools;
use crate::{Error, Result};
use serde_json::Value;

/// One codec, configured. Sizes are in bytes.
pub(super) trait Codec: std::fmt::Debug + Send + Sync {
    /// Size of the encoding of `decoded` bytes, if it does not depend on what they are.
    fn encoded_size(&self, decoded: usize) -> Option<usize>;

    /// Decodes `input` to exactly `out.len()` bytes.
    fn decode(&self, input: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()>;

    /// Decodes `input`, of which no more is known than that it has at most `limit` bytes decoded. Replaces what is in
    /// `out`.
    fn decode_bounded(&self, input: &[u8], limit: usize, out: &mut Vec<u8>, tools: &mut Tools) -> Result<()>;

    /// Encodes `input`.
    fn encode(&self, input: &[u8]) -> Result<Vec<u8>>;
}

/// The JSON object of a codec.
pub(super) struct Config<'a> {
    /// Zarr v2 id.
    pub id: &'a str,
    value: &'a Value,
}

impl<'a> Config<'a> {
    pub fn new(value: &'a Value) -> Result<Config<'a>> {
        match value.get("id").and_then(Value::as_str) {
            Some(id) => Ok(Config { id, value }),
            None => Err(codec_error("?", format!("a codec without an id: {value}"))),
        }
    }

    /// A whole number, or `default` if there is none or it is null.
    pub fn int(&self, key: &str, default: i64) -> Result<i64> {
        match self.value.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(v) => v.as_i64().ok_or_else(|| self.error(&format!("\"{key}\" is {v}, not a whole number"))),
        }
    }

    /// A text; None if there is none, or it is null.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        match self.value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(v) => Err(self.error(&format!("\"{key}\" is {v}, not a text"))),
        }
    }

    /// A number that must be there.
    pub fn float(&self, key: &str) -> Result<f64> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        value.as_f64().ok_or_else(|| self.error(&format!("\"{key}\" is {value}, not a number")))
    }

    /// A list; empty if there is none, or it is null.
    pub fn list(&self, key: &str) -> Result<Vec<&'a Value>> {
        match self.value.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list.iter().collect()),
            Some(v) => Err(self.error(&format!("\"{key}\" is {v}, not a list"))),
        }
    }

    /// A list of sizes.
    pub fn shape(&self, key: &str) -> Result<Vec<usize>> {
        let size = |v: &&Value| v.as_u64().and_then(|v| usize::try_from(v).ok());
        let list = self.list(key)?.iter().map(size).collect::<Option<_>>();
        list.ok_or_else(|| self.error(&format!("\"{key}\" is not a list of sizes")))
    }

    /// An error of this codec.
    pub fn error(&self, what: &str) -> Error {
        codec_error(self.id, what)
    }
}

/// An error that names a codec.
pub(super) fn codec_error(codec: &str, what: impl Into<String>) -> Error {
    Error::Codec { codec: codec.to_owned(), what: what.into() }
}

/// Makes `buffer` at least `size` bytes long (what is in it stays) and returns its first `size` bytes.
///
/// # Errors
/// [`Error::Invalid`] if memory runs out.
pub(crate) fn sized(buffer: &mut Vec<u8>, size: usize) -> Result<&mut [u8]> {
    if buffer.len() < size {
        buffer
            .try_reserve_exact(size - buffer.len())
            .map_err(|_| Error::Invalid(format!("no memory for {size} bytes")))?;
        buffer.resize(size, 0);
    }
    Ok(&mut buffer[..size])
}
