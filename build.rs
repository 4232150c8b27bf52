//! Builds the shim between GDAL's C++ classes and Rust, if the feature `plugin` is on.

use std::error::Error;
#[cfg(feature = "plugin")]
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-env-changed=GDAL_CONFIG");
    #[cfg(feature = "plugin")]
    shim()?;
    Ok(())
}

/// What `gdal-config` says.
#[cfg(feature = "plugin")]
fn gdal_config(option: &str) -> Result<String, Box<dyn Error>> {
    let program = std::env::var("GDAL_CONFIG").unwrap_or_else(|_| "gdal-config".into());
    let output = Command::new(&program).arg(option).output();
    let output = output
        .map_err(|e| format!("{program} {option}: {e}: GDAL >= 3.12 with headers is needed (scripts/with-gdal)"))?;
    if !output.status.success() {
        return Err(format!("{program} {option} failed").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(feature = "plugin")]
fn shim() -> Result<(), Box<dyn Error>> {
    let version = gdal_config("--version")?;
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(3), Some(12)) {
        return Err(format!("GDAL {version} is too old: 3.12 is the least").into());
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").warnings(false).flag("-Wall").flag("-Wextra").include("cpp");
    for flag in gdal_config("--cflags")?.split_whitespace() {
        match flag.strip_prefix("-I") {
            // GDAL's own headers are not ours to warn of.
            Some(folder) => build.flag("-isystem").flag(folder),
            None => build.flag(flag),
        };
    }
    for file in std::fs::read_dir("cpp")? {
        let path = file?.path();
        if path.extension().is_some_and(|e| e == "cpp") {
            build.file(path);
        }
    }
    build.compile("mdimrefs_shim");
    for flag in gdal_config("--libs")?.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
    let bindings = bindgen::Builder::default()
        .header("cpp/mdimrefs_ffi.h")
        .allowlist_function("mr_vsi_.*|mr_url.*|mr_http_.*|mr_answer_.*|mr_register")
        .allowlist_type("MrRawChunk|MrValue")
        .layout_tests(false)
        .generate()?;
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    bindings.write_to_file(out.join("ffi.rs"))?;
    Ok(())
}
