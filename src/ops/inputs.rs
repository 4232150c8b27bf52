//! What a command was given to read: one mosaic VRT, or sources by name.

use crate::io::Opener;
use crate::vrt::is_mosaic_vrt;
use crate::{Error, Result};
use std::collections::HashSet;

/// Inputs of a scan.
#[derive(Debug)]
pub enum Inputs {
    /// A mosaic VRT.
    Vrt {
        /// Its path, as opened.
        path: String,
        /// Its text.
        xml: String,
    },
    /// Sources, by the name that goes into the store.
    Files(Vec<String>),
}

/// A VRT larger than this (bytes) is refused.
const MAX_VRT: u64 = 1 << 30;

/// The name of a source in the store: the string that was opened, verbatim, but a relative local path is made absolute.
///
/// # Errors
/// [`Error::Invalid`] for an empty name, or where there is no current folder.
pub fn source_name(name: &str) -> Result<String> {
    if name.is_empty() {
        return Err(Error::Invalid("an input has an empty name".into()));
    }
    if name.starts_with('/') || name.contains("://") {
        return Ok(name.to_owned());
    }
    let absolute = std::path::absolute(name).map_err(|e| Error::Invalid(format!("{name}: {e}")))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| Error::Invalid(format!("{name}: the current folder's name is not UTF-8")))
}

/// Resolves what was given: `@list.txt` names a file with one input a line (empty lines and lines that begin with `#`
/// are skipped).
///
/// # Errors
/// [`Error::Invalid`] for a source given twice, a VRT among other inputs, no input; [`Error::Io`].
pub fn resolve(opener: &dyn Opener, given: &[String]) -> Result<Inputs> {
    let mut names = Vec::new();
    for name in given {
        match name.strip_prefix('@') {
            None => names.push(name.clone()),
            Some(list) => {
                let text = read_text(opener, &source_name(list)?)?;
                let lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty() && !l.starts_with('#'));
                names.extend(lines.map(str::to_owned));
            }
        }
    }
    let names = names.iter().map(|n| source_name(n)).collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    for name in &names {
        if !seen.insert(name) {
            return Err(Error::Invalid(format!("{name} is given twice")));
        }
    }
    let is_vrt = |name: &str| -> Result<bool> {
        let reader = opener.open(name)?;
        let mut head = vec![0; reader.size()?.min(4096) as usize];
        reader.read_at(0, &mut head)?;
        Ok(is_mosaic_vrt(&head))
    };
    let looks_like_vrt = |name: &str| name.to_ascii_lowercase().ends_with(".vrt");
    match names.as_slice() {
        [] => Err(Error::Invalid("there is no input".into())),
        // An input that can't be read at all is left to the scan, which names every bad file.
        [one] if is_vrt(one).unwrap_or(false) => {
            let xml = read_text(opener, one)?;
            Ok(Inputs::Vrt { path: one.clone(), xml })
        }
        [one] if looks_like_vrt(one) => {
            is_vrt(one)?;
            Err(Error::Invalid(format!(
                "{one} is not a multidimensional VRT as `gdal mdim mosaic` writes it: give that, or the source files"
            )))
        }
        several => match several.iter().find(|n| looks_like_vrt(n)) {
            Some(vrt) if several.len() > 1 => {
                Err(Error::Invalid(format!("{vrt}: a VRT is given alone: its sources are taken from it")))
            }
            _ => Ok(Inputs::Files(names)),
        },
    }
}

/// The text of a file.
///
/// # Errors
/// [`Error::Io`].
pub fn read_text(opener: &dyn Opener, path: &str) -> Result<String> {
    let reader = opener.open(path)?;
    let size = reader.size()?;
    if size > MAX_VRT {
        return Err(Error::Io { path: path.to_owned(), what: format!("{size} bytes of text are too many") });
    }
    let mut bytes = vec![0; size as usize];
    reader.read_at(0, &mut bytes)?;
    String::from_utf8(bytes).map_err(|_| Error::Io { path: path.to_owned(), what: "is not UTF-8 text".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::LocalOpener;

    #[test]
    fn names() {
        assert_eq!(source_name("/vsicurl/https://h/a b.nc").unwrap(), "/vsicurl/https://h/a b.nc");
        assert_eq!(source_name("s3://b/x").unwrap(), "s3://b/x");
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(source_name("./a%20 é'\".nc").unwrap(), cwd.join("a%20 é'\".nc").to_str().unwrap());
        assert!(source_name("").is_err());
    }

    #[test]
    fn lists_and_repeats() {
        let dir = std::env::temp_dir().join(format!("mdimrefs-inputs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let list = dir.join("list.txt");
        std::fs::write(&list, "# sources\n/a/1.nc\n\n/a/2 .nc\n").unwrap();
        let given = vec![format!("@{}", list.display()), "/a/3.nc".to_owned()];
        match resolve(&LocalOpener, &given).unwrap() {
            Inputs::Files(names) => assert_eq!(names, ["/a/1.nc", "/a/2 .nc", "/a/3.nc"]),
            Inputs::Vrt { .. } => panic!("not a VRT"),
        }
        let twice = resolve(&LocalOpener, &["/a/1.nc".to_owned(), "/a/1.nc".to_owned()]).unwrap_err();
        assert!(twice.to_string().contains("twice"));
        assert!(resolve(&LocalOpener, &["/a/1.nc".to_owned(), "/a/m.vrt".to_owned()]).is_err());
        let vrt = dir.join("bands.vrt");
        std::fs::write(&vrt, "<VRTDataset rasterXSize=\"1\" rasterYSize=\"1\"></VRTDataset>").unwrap();
        let e = resolve(&LocalOpener, &[vrt.to_str().unwrap().to_owned()]).unwrap_err();
        assert!(e.to_string().contains("multidimensional"), "{e}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
