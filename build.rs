//! Builds the shim between GDAL's C++ classes and Rust, if the feature `plugin` is on.

fn main() {}
