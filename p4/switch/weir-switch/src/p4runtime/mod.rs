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
mod handles;
mod lock;
mod messages;
mod nodes;
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

pub(crate) use controller_state::Group;
pub(crate) use lock::lock;
pub(crate) use nodes::{Node, Nodes};
pub(crate) use pipeline::Config as PipelineConfig;
pub(crate) use read::Reader;
pub(crate) use service::control::Missing;
pub(crate) use write::Writer;

pub use audit::Audit;
pub use pipeline::{STATE_BYTES, check_state};
pub use server::{Listening, Running, ServeConfig, listen};
pub use service::control::{Control, InitialPipeline};
pub use service::{API_VERSION, fuzz, fuzz_config, fuzz_stream};
pub use transport::access::Access;
pub use transport::body::fuzz as fuzz_body;
pub use transport::tls::{Pem, Tls};
