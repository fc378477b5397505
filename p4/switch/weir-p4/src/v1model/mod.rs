// SPDX-License-Identifier: Apache-2.0
//! The v1model architecture as simple_switch runs it, around the blocks of a program.
mod packets;
mod switch;
mod trace;

pub use packets::{Arriving, DROP_PORT, EgressOut, IngressOut, InstanceType, Notes, Queued, Sent};
pub use switch::Switch;
