// SPDX-License-Identifier: Apache-2.0
//! The subscriber of one object: what to ask, when to ask again, and what to take in. Nothing is given on before it is
//! checked.

mod asks;
mod buffered;
mod fetch;
mod leader_election;
mod order;
mod repairs;
pub mod shape;
mod window;

pub use fetch::{Counts, Fetch, Outcome, Settings, Store};
pub use order::Segments;
pub use window::Window;
