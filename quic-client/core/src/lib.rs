// SPDX-License-Identifier: Apache-2.0
//! Sans-IO core of Weir's QUIC endpoints.
//!
//! Nothing here opens a socket, sleeps or draws random numbers. Every function that depends on time takes `now`; the
//! one exception is quiche itself, which reads the monotonic clock inside `send`, `recv` and `on_timeout`, so `now`
//! must come from the same clock ([`std::time::Instant`]).
//!
//! - [`request`]: what may be asked of a server, sizes, protocols;
//! - [`transport`]: the transport's options and how they become a `quiche::Config`;
//! - [`release`]: packets waiting for their release time;
//! - [`conn`]: one connection with its release queue, ECN counts and samples;
//! - [`paths`]: a client's paths, validated beforehand, watched while in use;
//! - [`client`]: one request of a client and how it ended; [`session`]: a client's connection and its tasks;
//! - [`steer`]: when a running download leaves its path for another; [`standstill`]: one that a move stopped;
//! - [`events`]: what a session decided, and when;
//! - [`server`]: the other side; [`admission`]: which clients it keeps state for;
//! - [`whole`]: whole packets out of a window that grows by bytes;
//! - [`window`]: rules for receive windows, and the memory budget they keep to;
//! - [`choice`]: which path the next task takes;
//! - [`sample`]: the JSON lines that both sides write;
//! - [`text`]: text of others, fit for a terminal.

pub mod admission;
mod carried;
pub mod choice;
pub mod client;
pub mod conn;
pub mod events;
#[doc(hidden)]
pub mod fuzz;
pub mod paths;
pub mod release;
pub mod request;
pub mod sample;
pub mod server;
pub mod session;
pub mod standstill;
mod stay;
pub mod steer;
pub mod text;
pub mod transport;
pub mod whole;
pub mod window;
