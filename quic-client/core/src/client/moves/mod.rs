// SPDX-License-Identifier: Apache-2.0
//! Decisions about moves of a connection, without the connection itself.
//!
//! - `steering`: when a running download or upload leaves its path for another;
//! - `standstill`: a download that a move stopped;
//! - `stay`: a server that answers on one path only;
//! - `carried`: which path carried the bytes that are read;
//! - `delivered`: acknowledged bytes of an upload on the path in use.

mod delivered;
mod goodput;
mod standstill;
mod stay;
mod steering;

pub use delivered::Delivered;
pub use goodput::GoodputByPath;
pub use standstill::Standstill;
pub use stay::Stay;
pub use steering::{Move, Other, Steer, View};
