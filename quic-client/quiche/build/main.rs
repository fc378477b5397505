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
    for path in ["build", PATCHES, "Cargo.toml", "../Cargo.lock"] {
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

// Where cargo keeps the source of the release that Cargo.lock pins; cargo fetches it if needed.
fn source() -> Result<PathBuf, String> {
    let manifest = Path::new(&var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let out = Command::new(var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &var("TARGET")?])
        .arg("--manifest-path")
        .arg(&manifest)
        // Makes the dependency that names the source count, which it never does in a build; and, with the platform
        // given, nothing that this machine needs not.
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1fweir_quiche_source")
        .output()
        .map_err(|e| format!("can't run cargo metadata: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("cargo metadata can't tell where the source of quiche {VERSION} is: {}", said.trim()));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let found = packages.iter().find(|p| p["name"] == "quiche").ok_or("cargo metadata lists no package quiche")?;
    if found["version"] != VERSION {
        return Err(format!(
            "quiche {} is pinned, but the patches are made for {VERSION}: see quic-client/quiche/README.md, Upgrading",
            found["version"].as_str().unwrap_or("of no version")
        ));
    }
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
