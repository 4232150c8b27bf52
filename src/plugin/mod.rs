//! The GDAL driver: the only module that knows GDAL. See `SAFETY.md` for the rules of the seam.
#![allow(unsafe_code)]

mod block_info;
mod commands;
mod describe;
mod exports;
mod guard;
mod http;
mod layers;
mod names;
mod select;
mod thread_config;
mod vfs;
mod vsi_reader;

/// The seam's declarations, made from `cpp/mdimrefs_ffi.h`.
#[allow(non_camel_case_types, non_snake_case, missing_docs, dead_code, unreachable_pub, clippy::all)]
mod ffi {
    include!(concat!(env!("OUT_DIR"), "/ffi.rs"));
}
