// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's messages and service, generated from a set of descriptors.
use prost::Message as _;

#[path = "../weir-p4/descriptors.rs"]
mod descriptors;

fn main() -> Result<(), String> {
    let (path, bytes) = descriptors::read()?;
    let set = tonic_prost_build::FileDescriptorSet::decode(bytes.as_slice())
        .map_err(|e| format!("{} is no FileDescriptorSet: {e}", path.display()))?;
    // A device configuration has megabytes, packets come often: those are shared, not copied.
    tonic_prost_build::configure()
        .bytes(".p4.v1.ForwardingPipelineConfig.p4_device_config")
        .bytes(".p4.v1.PacketOut.payload")
        .extern_path(".p4.config.v1", "::weir_p4::p4info::proto")
        .include_file("p4runtime.rs")
        .compile_fds(set)
        .map_err(|e| format!("no code from {}: {e}", path.display()))
}
