//! Where a source that the VRT names lies.

/// The file name that GDAL would open for `name`, a source that is relative to the VRT at `vrt`.
///
/// As GDAL, except for a signed URL: its query belongs to the VRT alone and is left out (GDAL makes `…/d?sig=…/name`).
pub(super) fn resolve(vrt: &str, name: &str) -> String {
    let folder = folder(vrt);
    if is_absolute(name) || folder.is_empty() {
        return name.to_owned();
    }
    let separator = if folder.ends_with(['/', '\\']) { "" } else { "/" };
    format!("{folder}{separator}{name}")
}

fn folder(vrt: &str) -> &str {
    let is_url = vrt.contains("http://") || vrt.contains("https://");
    let vrt = match vrt.split_once('?') {
        Some((url, _)) if is_url => url,
        _ => vrt,
    };
    match vrt.rfind(['/', '\\']) {
        None => "",
        Some(0) => &vrt[..1],
        Some(i) => &vrt[..i],
    }
}

fn is_absolute(name: &str) -> bool {
    let drive = |c: char| name.chars().nth(1) == Some(':') && name.chars().nth(2) == Some(c);
    name.starts_with(['/', '\\']) || drive('/') || drive('\\') || name.find("://").is_some_and(|i| i > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GDAL 3.13.3's `CPLProjectRelativeFilename(CPLGetPath(vrt), name)` gives, but for the last two.
    #[test]
    fn as_gdal_joins() {
        for (vrt, name, joined) in [
            ("/d/a.vrt", "x.nc", "/d/x.nc"),
            ("/d/a.vrt", "s/x.nc", "/d/s/x.nc"),
            ("/d/a.vrt", "../x.nc", "/d/../x.nc"),
            ("/d/a.vrt", "./x.nc", "/d/./x.nc"),
            ("/d/a.vrt", "/abs/x.nc", "/abs/x.nc"),
            ("/d/a.vrt", "https://q/x.nc", "https://q/x.nc"),
            ("/d/a.vrt", "C:/x.nc", "C:/x.nc"),
            ("a.vrt", "x.nc", "x.nc"),
            ("d/a.vrt", "x.nc", "d/x.nc"),
            ("./a.vrt", "x.nc", "./x.nc"),
            ("../a.vrt", "x.nc", "../x.nc"),
            ("/a.vrt", "x.nc", "/x.nc"),
            ("/d//a.vrt", "x.nc", "/d/x.nc"),
            ("d.e/a", "x.nc", "d.e/x.nc"),
            ("C:\\d\\a.vrt", "x.nc", "C:\\d/x.nc"),
            ("/vsicurl/https://h/d/a.vrt", "x.nc", "/vsicurl/https://h/d/x.nc"),
            ("/vsis3/b/k/a.vrt", "s/x.nc", "/vsis3/b/k/s/x.nc"),
            ("/vsizip/{/d/z.zip}/a.vrt", "x.nc", "/vsizip/{/d/z.zip}/x.nc"),
            ("https://h/d/a.vrt?q=1", "x.nc", "https://h/d/x.nc"),
            ("/vsicurl/https://h/d/a.vrt?sig=1/2", "x.nc", "/vsicurl/https://h/d/x.nc"),
            ("é/ü.vrt", "日.nc", "é/日.nc"),
        ] {
            assert_eq!(resolve(vrt, name), joined, "{vrt} {name}");
        }
    }
}
