// SPDX-License-Identifier: Apache-2.0
//! Forwarding by name: Interests and Data, and what QUIC applications do over them. `docs/design/icn.md` is the contract.
//!
//! [`names`], [`packet`] and [`response`] are what all share. [`face`] moves packets through an interface.

pub mod commands;
pub mod face;
pub mod names;
pub mod packet;
pub mod qvdp;
pub mod response;
