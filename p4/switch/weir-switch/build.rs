// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's messages and service, generated from a set of descriptors: no protoc is needed.
use prost::Message as _;
use std::path::PathBuf;

const VARIABLE: &str = "WEIR_P4RUNTIME_FDS";
const DEFAULT: &str = "../../../build/proto/p4runtime.fds";

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let path = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(DEFAULT), PathBuf::from);
    println!("cargo:rerun-if-changed={}", path.display());
    let bytes = std::fs::read(&path).map_err(|e| {
        format!(
            "P4Runtime's descriptors are not at {} ({e}); in controller/ run \
             `../build/venv/bin/python -m weir.p4runtime.descriptors ../build/proto/p4runtime.fds`, \
             or name another file in {VARIABLE}",
            path.display()
        )
    })?;
    let set = tonic_prost_build::FileDescriptorSet::decode(bytes.as_slice())
        .map_err(|e| format!("{} is no FileDescriptorSet: {e}", path.display()))?;
    // P4Info as JSON is printed with the descriptors.
    let copy = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("p4runtime.fds");
    std::fs::write(&copy, &bytes).map_err(|e| format!("{}: {e}", copy.display()))?;
    // A device configuration has megabytes, packets come often: those are shared, not copied.
    tonic_prost_build::configure()
        .bytes(".p4.v1.ForwardingPipelineConfig.p4_device_config")
        .bytes(".p4.v1.PacketOut.payload")
        .include_file("p4runtime.rs")
        .compile_fds(set)
        .map_err(|e| format!("no code from {}: {e}", path.display()))
}
