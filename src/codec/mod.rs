//! Decode and encode chunks, as Zarr v2 codec JSON says.
//!
//! A [`Pipeline`] runs the codecs of a [`CodecSpec`](crate::model::CodecSpec) on chunks of one decoded size. Every codec
//! is one file that implements `Codec` (see `config.rs`), and one arm of `codec` below.
//!
//! No codec trusts a size that the encoded bytes claim: every stage decodes to a size that the array dictates, or, where
//! a stage's size can't be known, to a bounded one.

mod config;
mod deflate;
mod fletcher32;
mod pipeline;
mod shuffle;
pub mod vlen;

pub(crate) use config::sized;
pub use pipeline::{CodecOptions, Pipeline, Scratch};

use crate::Result;
use crate::model::DType;
use config::{Codec, Config};

/// The codec that `config` describes. `dtype` is the array's.
///
/// `vlen-utf8` is not here: it is the boundary between bytes and strings, and the pipeline takes it off.
fn codec(config: &Config<'_>, dtype: &DType, options: CodecOptions) -> Result<Box<dyn Codec>> {
    let _ = dtype;
    Ok(match config.id {
        "zlib" | "gzip" => Box::new(deflate::Deflate::new(config, options)?),
        "shuffle" => Box::new(shuffle::Shuffle::new(config)?),
        "fletcher32" => Box::new(fletcher32::Fletcher32::new(options)),
        _ => return Err(config.error("is not supported")),
    })
}
