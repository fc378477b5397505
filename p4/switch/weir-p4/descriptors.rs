// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's descriptors, for the build scripts: neither protoc nor Python is needed.
use std::path::PathBuf;

/// From the package that has them, and from the one beside it. A test compares the file with P4Runtime's own package.
const PLACES: [&str; 2] = ["p4runtime.fds", "../weir-p4/p4runtime.fds"];

/// Reads the set of descriptors, relative to a package's folder.
pub fn read() -> Result<(PathBuf, Vec<u8>), String> {
    let place = PLACES.into_iter().find(|place| std::fs::exists(place).unwrap_or(false)).unwrap_or(PLACES[1]);
    let path = PathBuf::from(place);
    println!("cargo:rerun-if-changed={}", path.display());
    let bytes = std::fs::read(&path).map_err(|e| format!("P4Runtime's descriptors: {}: {e}", path.display()))?;
    Ok((path, bytes))
}
