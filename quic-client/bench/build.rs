// SPDX-License-Identifier: Apache-2.0
//! Finds quiche's examples in the registry's release and leaves them where `src/bin/quiche-*.rs` include them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    // Without the filter it also wants the packages of other systems, which a build here never downloads.
    let words = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &target];
    let found = Command::new(cargo).args(words).output().expect("cargo metadata runs");
    assert!(found.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&found.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&found.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let quiche = packages.iter().find(|p| p["name"] == "quiche").expect("quiche is a dependency");
    let manifest = Path::new(quiche["manifest_path"].as_str().expect("a path"));
    let examples = manifest.parent().expect("a manifest is in a folder").join("examples");
    for name in ["client.rs", "http3-client.rs", "http3-server.rs", "server.rs"] {
        let path = examples.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        fs::write(out.join(name), text).expect("OUT_DIR takes files");
    }
}
