// SPDX-License-Identifier: Apache-2.0
//! The client's side of a connection.
//!
//! - `session`: [`Session`], one connection and its tasks;
//! - `request`: one request, what comes back, and how it ended;
//! - `carried`: which path carried the bytes that are read;
//! - `stay`: a server that answers on one path only;
//! - `steering`: when a running download leaves its path for another;
//! - `standstill`: a download that a move stopped.

mod carried;
mod request;
mod session;
mod standstill;
mod stay;
mod steering;

pub use request::{Action, Body, Nowhere, Outcome};
pub use session::{DEFAULT_PATH, Means, Plan, Routes, Session, Tally};
