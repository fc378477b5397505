// SPDX-License-Identifier: Apache-2.0
//! The P4Runtime 1.4 server. [`listen`] takes its address, [`Listening::serve`] starts it on a thread of its own. It
//! reaches the switch only by a [`Handle`](crate::handle::Handle), so that packets are forwarded whatever controllers do.
//! README.md has the modules and which of them may use which.
//!
//! Sections named in comments are those of the P4Runtime specification, version 1.4.
// controller_metadata, egress_port and role ids are deprecated, yet controllers send them.
#![allow(deprecated)]

mod audit;
mod controller_state;
mod lock;
mod messages;
mod pipeline;
#[rustfmt::skip]
pub mod proto;
mod read;
mod server;
mod service;
mod stream;
#[cfg(test)]
mod tests;
mod transport;
mod write;

pub use audit::Audit;
pub use pipeline::{STATE_BYTES, check_state};
pub use server::{InitialPipeline, Listening, Running, ServeConfig, listen};
pub use service::{API_VERSION, fuzz, fuzz_config, fuzz_stream};
pub use transport::access::Access;
pub use transport::body::fuzz as fuzz_body;
pub use transport::tls::{Pem, Tls};

/// Formats of a file of P4Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum P4InfoFormat {
    /// protobuf's text format.
    Text,
    /// protobuf's binary format.
    Binary,
    /// protobuf's JSON.
    Json,
}

impl P4InfoFormat {
    /// The format that a file's suffix names; text without a suffix.
    ///
    /// # Errors
    /// The suffix is unknown.
    pub fn of(path: &std::path::Path) -> Result<P4InfoFormat, String> {
        match path.extension().map(|e| e.to_string_lossy().into_owned()).as_deref() {
            None | Some("txt" | "txtpb" | "textproto" | "prototxt" | "pbtxt" | "p4info") => Ok(P4InfoFormat::Text),
            Some("bin" | "binpb" | "pb") => Ok(P4InfoFormat::Binary),
            Some("json") => Ok(P4InfoFormat::Json),
            Some(other) => Err(format!(
                "{}: suffix .{other} is unknown; use .txtpb (text), .binpb (binary) or .json",
                path.display()
            )),
        }
    }
}

/// Contents of a file with a program's P4Info.
///
/// # Errors
/// The descriptors or the JSON printer fail.
pub fn p4info_file(info: &weir_p4::p4info::P4Info, format: P4InfoFormat) -> Result<Vec<u8>, String> {
    let binary = || prost::Message::encode_to_vec(&pipeline::p4info_message(info));
    Ok(match format {
        P4InfoFormat::Text => info.text().into_bytes(),
        P4InfoFormat::Binary => binary(),
        P4InfoFormat::Json => {
            let descriptors: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/p4runtime.fds"));
            let pool = prost_reflect::DescriptorPool::decode(descriptors).map_err(|e| e.to_string())?;
            let of = pool.get_message_by_name("p4.config.v1.P4Info").ok_or("P4Info has no descriptor")?;
            let message = prost_reflect::DynamicMessage::decode(of, binary().as_slice()).map_err(|e| e.to_string())?;
            let mut json = serde_json::to_vec_pretty(&message).map_err(|e| e.to_string())?;
            json.push(b'\n');
            json
        }
    })
}
