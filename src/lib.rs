//! Read thousands of netCDF, HDF5, Zarr and TIFF files as one array, straight from where they lie.
//!
//! An **mdim-refs/0.2 store** is one SQLite file that says where every chunk of every source lies:
//!
//! ```text
//!  sources (.nc .h5 …)                 mosaic VRT
//!      │ scan                              │ plan
//!      ▼                                   ▼
//!  ┌──────────────────── store.sqlite ────────────────────┐
//!  │ physical: sources, <array>   plan: placements, arrays │   view: refs_<array>
//!  └──────────────────────────┬───────────────────────────┘
//!                             ▼ read: window → references → byte ranges → decode → buffer
//! ```
//!
//! - [`model`]: data types, chunk grids, chunk references, attributes, array descriptions. No I/O.
//! - [`io`]: bytes by offset, from local files or from whatever the caller implements (the plugin: GDAL's VSI).
//! - [`codec`]: decode and encode chunks, from Zarr v2 codec JSON.
//! - [`store`]: the SQLite file: create, write, open, look up.
//! - [`scan`]: native readers that list the chunks of a source.
//! - [`vrt`]: the mosaic VRT as a plan. [`plan`]: checks that sources agree, placements, coordinates.
//! - [`table`]: the store's tables as Arrow batches.
//! - [`read`]: a window of an array into a buffer.
//! - [`export`]: the references in other forms. [`import`]: other forms as a store.
//! - [`ops`]: one module for each command.
//! - `plugin` (feature `plugin`): the GDAL driver; the only module that knows GDAL.
//!
//! Reading a window, without GDAL (`examples/read_window.rs` is a whole program):
//!
//! ```no_run
//! use mdimrefs::{io::LocalOpener, read::{ReadOptions, Reader}, store::{OpenOptions, Store}};
//! use std::sync::Arc;
//!
//! # fn main() -> mdimrefs::Result<()> {
//! let store = Arc::new(Store::open("all.sqlite", &OpenOptions::default())?);
//! let reader = Reader::new(Arc::clone(&store), Arc::new(LocalOpener), ReadOptions::default())?;
//! let sst = store.find("sst").expect("an array");
//! let mut day = vec![0i16; 720 * 1440];
//! reader.read_typed(sst, &[29, 0, 0, 0], &[1, 1, 720, 1440], &mut day)?;
//! # Ok(())
//! # }
//! ```
//!
//! Imports go one way: `model` ← `codec`, `io` ← `store`, `scan`, `vrt`, `read` ← `plan`, `export`, `import` ← `ops` ← `plugin`.

pub mod codec;
pub mod error;
pub mod export;
pub mod import;
pub mod io;
pub mod model;
pub mod ops;
pub mod plan;
pub mod read;
pub mod scan;
pub mod store;
pub mod table;
pub mod vrt;

#[cfg(feature = "plugin")]
pub mod plugin;

pub use error::{Error, Result};
