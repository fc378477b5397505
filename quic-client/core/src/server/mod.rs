// SPDX-License-Identifier: Apache-2.0
//! The server's side: [`Session`], one connection and the requests on it, and [`admission`], which clients the server
//! keeps state for.

pub mod admission;
mod bursts;
mod session;

pub use session::{CidChange, Session};
