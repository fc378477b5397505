// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's descriptors, for the build scripts: no protoc is needed.
use std::path::PathBuf;

const VARIABLE: &str = "WEIR_P4RUNTIME_FDS";
/// In a package for cargo, and in a clone.
const PLACES: [&str; 2] = ["p4runtime.fds", "../../../build/proto/p4runtime.fds"];

/// Reads the set of descriptors, relative to a package's folder.
pub fn read() -> Result<(PathBuf, Vec<u8>), String> {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let place = PLACES.into_iter().find(|place| std::fs::exists(place).unwrap_or(false)).unwrap_or(PLACES[1]);
    let path = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(place), PathBuf::from);
    println!("cargo:rerun-if-changed={}", path.display());
    let bytes = std::fs::read(&path).map_err(|e| {
        format!(
            "P4Runtime's descriptors are not at {} ({e}); in controller/ run \
             `../build/venv/bin/python -m weir.p4runtime.descriptors ../build/proto/p4runtime.fds`, \
             or name another file in {VARIABLE}",
            path.display()
        )
    })?;
    Ok((path, bytes))
}
