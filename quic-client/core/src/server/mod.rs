// SPDX-License-Identifier: Apache-2.0
//! The server's side: [`Session`], one connection and the requests on it, and [`admission`], which clients the server
//! keeps state for. [`send_memory`]: its limit of sent data until it is acknowledged; [`receive_memory`]: its limit of
//! received data. [`resources`]: files and tunnels, which the endpoint gives.

pub mod admission;
mod bursts;
pub mod capsules;
pub mod file_request;
mod head;
pub mod receive_memory;
pub mod resources;
pub mod send_memory;
mod session;
mod tunnel_request;
mod tunnels;

pub use head::Head;
pub use session::{CidChange, Session};
pub use tunnel_request::{TunnelKind, TunnelRequest, UDP_PATH};
pub use tunnels::TunnelCounts;
