//! HDF5 filters that have no Zarr v2 codec: `{"id": "hdf5", "filter": N, "cd_values": […]}`.
//!
//! Numbers: <https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md>.

use super::bitshuffle::Bitshuffle;
use super::config::{Codec, Config};
use super::lz4::Lz4;
use super::lzf::Lzf;
use super::nbit::Nbit;
use super::scaleoffset::ScaleOffset;
use super::szip::Szip;
use crate::Result;

/// Id of these codecs.
pub const ID: &str = "hdf5";

/// Name of an HDF5 filter, where it has one that is known.
pub fn filter_name(number: u64) -> &'static str {
    match number {
        1 => "deflate",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        305 => "lzo",
        307 => "bzip2",
        32000 => "lzf",
        32001 => "blosc",
        32002 => "mafisc",
        32003 => "snappy",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32014 => "fpzip",
        32015 => "zstd",
        32017 => "sz",
        32018 => "fcidecomp",
        32019 => "jpeg",
        32022 => "granular bitround",
        32023 => "sz3",
        32026 => "blosc2",
        32028 => "sperr",
        _ => "unknown",
    }
}

pub(super) fn codec(config: &Config<'_>) -> Result<Box<dyn Codec>> {
    let number = config.int("filter", -1)?;
    let parameters: Vec<u32> = config
        .list("cd_values")?
        .into_iter()
        .map(|v| v.as_u64().and_then(|v| u32::try_from(v).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| config.error("\"cd_values\" are not numbers of 32 bits"))?;
    Ok(match number {
        4 => Box::new(Szip::hdf5(&parameters)?),
        5 => Box::new(Nbit::hdf5(&parameters)?),
        6 => Box::new(ScaleOffset::hdf5(&parameters)?),
        32000 => Box::new(Lzf),
        32004 => Box::new(Lz4::hdf5(&parameters)),
        32008 => Box::new(Bitshuffle::hdf5(&parameters)?),
        other => {
            let name = filter_name(other as u64);
            return Err(config.error(&format!("HDF5 filter {other} ({name}) is not supported")));
        }
    })
}
