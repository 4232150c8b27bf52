//! The mosaic VRT of `gdal mdim mosaic`, as a plan.
