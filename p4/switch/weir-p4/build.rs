// SPDX-License-Identifier: Apache-2.0
//! P4Info's messages, and their descriptors for the text format and JSON.
use prost::Message as _;
use prost_types::FileDescriptorSet;
use std::path::PathBuf;

mod descriptors;

const PACKAGE: &str = "p4.config.v1";
const ANY: &str = "google/protobuf/any.proto";

fn main() -> Result<(), String> {
    let (path, bytes) = descriptors::read()?;
    let mut set = FileDescriptorSet::decode(bytes.as_slice())
        .map_err(|e| format!("{} is no FileDescriptorSet: {e}", path.display()))?;
    set.file.retain(|f| f.package() == PACKAGE || f.name() == ANY);
    let copy = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("p4info.fds");
    std::fs::write(&copy, set.encode_to_vec()).map_err(|e| format!("{}: {e}", copy.display()))?;
    // Maps with an order: the same program has the same files.
    prost_build::Config::new()
        .btree_map(["."])
        .compile_fds(set)
        .map_err(|e| format!("no code from {}: {e}", path.display()))
}
