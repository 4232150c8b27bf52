//! Paths of GDAL as the URLs that fsspec opens.

/// Prefixes of GDAL, and what they are elsewhere.
const PREFIXES: [(&str, &str); 6] = [
    ("/vsicurl/", ""),
    ("/vsis3/", "s3://"),
    ("/vsigs/", "gs://"),
    ("/vsiaz/", "az://"),
    ("/vsiadls/", "abfs://"),
    ("/vsihdfs/", "hdfs://"),
];

/// A path as a URL, or as it is if it is one of this machine; None if only GDAL opens it (`/vsizip/…`).
pub fn of_path(path: &str) -> Option<String> {
    for (prefix, scheme) in PREFIXES {
        if let Some(rest) = path.strip_prefix(prefix) {
            return Some(format!("{scheme}{rest}"));
        }
    }
    if path.starts_with("/vsi") { None } else { Some(path.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(of_path("/vsicurl/https://e.org/a.nc").unwrap(), "https://e.org/a.nc");
        assert_eq!(of_path("/vsis3/bucket/a.nc").unwrap(), "s3://bucket/a.nc");
        assert_eq!(of_path("/data/a.nc").unwrap(), "/data/a.nc");
        assert_eq!(of_path("/vsizip/a.zip/a.nc"), None);
    }
}
