// SPDX-License-Identifier: Apache-2.0
//! What decides about moves of a connection, without the connection itself.
//!
//! - `steering`: when a running download leaves its path for another;
//! - `standstill`: a download that a move stopped;
//! - `stay`: a server that answers on one path only;
//! - `carried`: which path carried the bytes that are read.

mod carried;
mod standstill;
mod stay;
mod steering;

pub use carried::Carried;
pub use standstill::Standstill;
pub use stay::Stay;
pub use steering::{Move, Other, Steer, View};
