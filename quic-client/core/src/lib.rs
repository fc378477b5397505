// SPDX-License-Identifier: Apache-2.0
//! Core of Weir's QUIC endpoints, without any input or output of its own.
//!
//! Nothing here opens a socket, sleeps or draws random numbers from the system. Every function that depends on time
//! takes `now`; the one exception is quiche itself, which reads the monotonic clock inside `send`, `recv` and
//! `on_timeout`, so `now` must come from the same clock ([`std::time::Instant`]).
//!
//! - [`client`]: a client's connection and its tasks, each a request on a stream of its own;
//! - [`server`]: the other side, and which clients it keeps state for;
//! - [`connection`]: common parts of both sides: quiche's connection, packets that wait for their release time, counts;
//! - [`paths`]: the paths of a client's connection, validated beforehand and watched while in use;
//! - [`choice`]: which path the next task takes;
//! - [`congestion`]: how much a connection may have in flight, and how fast it sends;
//! - [`window`]: rules for receive windows, and the memory budget that they keep to;
//! - [`transport`]: the transport's options, and the `quiche::Config` made from them;
//! - [`request`]: the resources of a server, sizes, protocols;
//! - [`scone`]: throughput advice of the network, in packets before those of QUIC;
//! - [`report`]: events and samples, written as lines of JSON;
//! - [`backoff`]: waits between attempts;
//! - [`text`]: text received from others, made safe for a terminal.

pub mod backoff;
pub mod choice;
pub mod client;
pub mod congestion;
pub mod connection;
#[doc(hidden)]
pub mod fuzz;
pub mod paths;
pub mod report;
pub mod request;
pub mod scone;
pub mod server;
pub mod text;
pub mod transport;
pub mod window;
