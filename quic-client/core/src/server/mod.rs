// SPDX-License-Identifier: Apache-2.0
//! The server's side: [`Session`], one connection and the requests on it, and [`admission`], which clients the server
//! keeps state for. [`send_memory`]: its limit of sent data until it is acknowledged; [`receive_memory`]: its limit of
//! received data.

pub mod admission;
mod bursts;
pub mod receive_memory;
pub mod send_memory;
mod session;

pub use session::{CidChange, Session};
