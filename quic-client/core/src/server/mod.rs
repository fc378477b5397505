// SPDX-License-Identifier: Apache-2.0
//! The server's side: [`Session`], one connection and the requests on it, and [`admission`], which clients the server
//! keeps state for, and [`send_memory`], how much of what it sends it keeps until it is acknowledged.

pub mod admission;
mod bursts;
pub mod send_memory;
mod session;

pub use session::{CidChange, Session};
