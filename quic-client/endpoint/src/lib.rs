// SPDX-License-Identifier: Apache-2.0
//! `weir-client` and `weir-server`: the event loops that join the sans-IO core to sockets, and their command lines.
//!
//! [`client`] and [`server`] are one program each and know nothing of each other. Both use [`shared`], which knows
//! neither.

pub mod client;
pub mod server;
pub mod shared;
