//! The GDAL driver: the only module that knows GDAL.
#![allow(unsafe_code)]
