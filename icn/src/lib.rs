// SPDX-License-Identifier: Apache-2.0
//! Forwarding by name: Interests and Data, and what QUIC applications do over them. `docs/design/icn.md` is the contract.
//!
//! [`names`], [`packet`] and [`response`] are what all share. [`face`] moves packets through an interface.
//! [`qvdp`] and [`objects`] are cores without I/O; [`commands`] joins them to sockets.

pub mod commands;
pub mod face;
pub mod fuzz;
pub mod names;
pub mod objects;
pub mod packet;
pub mod qvdp;
mod refusals;
pub mod response;
