// SPDX-License-Identifier: Apache-2.0
//! BMv2's Thrift services, for `simple_switch_CLI` and other clients of simple_switch. [`listen`] takes the address,
//! [`Listening::serve`] starts a thread for the listener and one for each connection. They change and read what P4Runtime
//! does, by [`Control`](crate::p4runtime::Control). README.md has the files.
mod arguments;
mod connection;
mod description;
mod failure;
mod fuzz;
mod methods;
mod output;
mod server;
mod shared;
#[cfg(test)]
mod tests;

pub use fuzz::{Memorized, fuzz, server as memory_server};
pub use server::{Listening, Running, listen};
pub use shared::Switch;
