//! Decode and encode chunks, as Zarr v2 codec JSON says.
//!
//! A [`Pipeline`] runs the codecs of a [`CodecSpec`](crate::model::CodecSpec) on chunks of one decoded size. Every codec
//! is one file that implements `Codec` (see `config.rs`), and one arm of `codec` below.
//!
//! No codec trusts a size that the encoded bytes claim: every stage decodes to a size that the array dictates, or, where
//! a stage's size can't be known, to a bounded one.

mod aec;
mod bits;
mod bitshuffle;
mod blosc;
mod checksum;
mod config;
mod deflate;
mod fletcher32;
pub mod hdf5;
mod lz4;
mod lzf;
mod nbit;
mod number;
mod numeric;
mod packbits;
mod pipeline;
mod scaleoffset;
mod shuffle;
mod streams;
mod szip;
mod tiff;
pub mod vlen;
mod zstd;

pub(crate) use config::sized;
pub use pipeline::{CodecOptions, Pipeline, Scratch};

use crate::Result;
use crate::model::DType;
use config::{Codec, Config};

/// The codec that `config` describes. `dtype` is the array's.
///
/// `vlen-utf8` is not here: it is the boundary between bytes and strings, and the pipeline takes it off.
fn codec(config: &Config<'_>, dtype: &DType, options: CodecOptions) -> Result<Box<dyn Codec>> {
    Ok(match config.id {
        "zlib" | "gzip" => Box::new(deflate::Deflate::new(config, options)?),
        "shuffle" => Box::new(shuffle::Shuffle::new(config)?),
        "fletcher32" => Box::new(fletcher32::Fletcher32::new(options)),
        "zstd" => Box::new(zstd::Zstd::new(config)?),
        "lz4" => Box::new(lz4::Lz4::Sized),
        "blosc" => Box::new(blosc::Blosc),
        "bz2" => Box::new(streams::Streamed::bz2(config)?),
        "lzma" => Box::new(streams::Streamed::lzma(config)?),
        "delta" => Box::new(numeric::Numeric::delta(config)?),
        "fixedscaleoffset" => Box::new(numeric::Numeric::fixed_scale_offset(config)?),
        "quantize" => Box::new(numeric::Numeric::quantize(config)?),
        "astype" => Box::new(numeric::Numeric::astype(config)?),
        "packbits" => Box::new(packbits::Packbits),
        "crc32" | "crc32c" | "adler32" => Box::new(checksum::Checksum::new(config, options)?),
        "imagecodecs_lzw" => Box::new(tiff::Lzw),
        "imagecodecs_delta" | "imagecodecs_floatpred" => Box::new(tiff::Predictor::new(config, dtype)?),
        hdf5::ID => hdf5::codec(config)?,
        _ => return Err(config.error("is not supported")),
    })
}
