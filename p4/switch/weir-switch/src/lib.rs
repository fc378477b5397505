// SPDX-License-Identifier: Apache-2.0
//! The embedded P4 switch around [`weir_p4`]: queues, ports, and the road by which controllers reach them.
//!
//! [`device::Device`] is the pure core (time comes in as an argument, frames go out through [`device::Sink`]);
//! [`handle::Handle`] runs a closure on it from any other thread, between two packets.
#![allow(missing_docs, clippy::too_many_lines, reason = "follows in the next commits")]
pub mod device;
pub mod handle;
pub mod io;
pub mod options;
pub mod p4rt;
pub mod pcap;
pub mod queues;
pub mod run;
pub mod stats;
pub mod sys;
pub mod tm;
