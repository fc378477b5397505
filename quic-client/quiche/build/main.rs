// SPDX-License-Identifier: Apache-2.0
//! Finds the pinned source of quiche, copies it to the build folder and applies the patches.

mod patches;

use patches::{Files, PatchFile};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

const VERSION: &str = "0.30.0";
const PATCHES: &str = "patches";

fn main() {
    // The lock file of this crate's workspace is not there in a registry, and a missing file would be a change each time.
    for path in ["build", PATCHES, "Cargo.toml", "../Cargo.lock"].iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Err(message) = run() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
    // As in quiche's own build script.
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    if cfg!(feature = "boringssl-boring-crate") {
        if env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
            println!("cargo::rustc-cfg=boring_v5");
        }
        println!("cargo::rustc-link-lib=static=ssl");
        println!("cargo::rustc-link-lib=static=crypto");
    }
}

fn run() -> Result<(), String> {
    let source = source()?;
    let copy = Path::new(&var("OUT_DIR")?).join("quiche");
    let mut paths = vec![];
    list(&source.join("src"), "rs", &mut paths)?;
    let mut files = Files::new();
    for path in &paths {
        let name = path.strip_prefix(&source).expect("listed below it").to_string_lossy().replace('\\', "/");
        files.insert(name, read(path)?);
    }
    patches::apply(VERSION, &patch_files()?, &mut files)?;
    let root = files.get_mut("src/lib.rs").ok_or("quiche has no src/lib.rs")?;
    *root = patches::without_root(VERSION, root)?;
    for (name, text) in &files {
        write(&copy.join(name), text)?;
    }
    write(&copy.join("COPYING"), &read(&source.join("COPYING"))?)
}

// In the order of their numbers.
fn patch_files() -> Result<Vec<PatchFile>, String> {
    let mut paths = vec![];
    list(Path::new(PATCHES), "patch", &mut paths)?;
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| Ok(PatchFile { name: name(path), text: read(path)? })).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Folder of quiche's source, in place of those that are looked for.
const SOURCE: &str = "WEIR_QUICHE_SOURCE";

/// Folder of the pinned source. It is unpacked beside this crate if both come from one registry or one folder of `cargo
/// vendor`; else `cargo metadata` has it, which fetches the release if needed.
fn source() -> Result<PathBuf, String> {
    println!("cargo::rerun-if-env-changed={SOURCE}");
    if let Ok(folder) = env::var(SOURCE) {
        return checked(PathBuf::from(folder)).map_err(|e| format!("{SOURCE}: {e}"));
    }
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR")?);
    let beside = [format!("quiche-{VERSION}"), "quiche".to_owned()].map(|name| here.with_file_name(name));
    // A folder of that name may be this crate's own.
    if let Some(found) = beside.into_iter().filter(|folder| *folder != here).find_map(|folder| checked(folder).ok()) {
        return Ok(found);
    }
    // With a lock file: that of this crate's workspace, or of its package.
    let own = metadata(&here.join("Cargo.toml"), &["--locked"]);
    own.or_else(|first| standalone().map_err(|e| format!("{first}\n{e}"))).and_then(checked)
}

/// The folder, if it has the source of the pinned version.
fn checked(folder: PathBuf) -> Result<PathBuf, String> {
    let manifest = read(&folder.join("Cargo.toml"))?;
    let package = manifest.split("[package]").nth(1).unwrap_or_default();
    let field = |key: &str| {
        package.lines().take_while(|line| !line.starts_with('[')).find_map(|line| {
            let value = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
            Some(value.trim().trim_matches('"').to_owned())
        })
    };
    match (field("name").as_deref(), field("version").as_deref()) {
        (Some("quiche"), Some(VERSION)) => Ok(folder),
        (name, version) => Err(format!(
            "{}: expected quiche {VERSION}, which the patches are made for, and not {} {}: see README.md, Upgrading",
            folder.display(),
            name.unwrap_or("a package of no name"),
            version.unwrap_or("of no version")
        )),
    }
}

/// Folder of the release by a package that depends on it alone. A crate in another workspace's folder has no workspace of
/// its own, and may have no lock file that cargo accepts.
fn standalone() -> Result<PathBuf, String> {
    let folder = Path::new(&var("OUT_DIR")?).join("fetch");
    let manifest = folder.join("Cargo.toml");
    let dependency = format!("quiche = {{ version = \"={VERSION}\", default-features = false }}");
    let text = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n{dependency}\n"
    );
    write(&manifest, &text)?;
    write(&folder.join("src/lib.rs"), "")?;
    metadata(&manifest, &[])
}

/// Folder where cargo keeps the release, by the metadata of a manifest.
fn metadata(manifest: &Path, options: &[&str]) -> Result<PathBuf, String> {
    let out = Command::new(var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--filter-platform", &var("TARGET")?])
        .args(options)
        .arg("--manifest-path")
        .arg(manifest)
        // Makes the dependency that names the source count, which it never does in a build; and, with the platform
        // given, nothing that this machine needs not.
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1fweir_quiche_source")
        .output()
        .map_err(|e| format!("can't run cargo metadata: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!(
            "cargo metadata can't tell where the source of quiche {VERSION} is (set {SOURCE} to its folder): {}",
            said.trim()
        ));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let found = packages.iter().find(|p| p["name"] == "quiche").ok_or("cargo metadata lists no package quiche")?;
    let manifest = found["manifest_path"].as_str().ok_or("cargo metadata: quiche without manifest_path")?;
    Ok(Path::new(manifest).parent().ok_or("cargo metadata: manifest_path without folder")?.to_owned())
}

fn var(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}

fn list(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            list(&path, extension, files)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    Ok(())
}

// A file that is as it should be is left alone, so that nothing is compiled anew.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(path.parent().expect("a file's path")).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}
