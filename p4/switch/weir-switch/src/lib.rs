// SPDX-License-Identifier: Apache-2.0
//! The embedded P4 switch around [`weir_p4`]: queues, ports, and the road by which controllers reach them.
//!
//! [`device::Device`] is the pure core (time comes in as an argument, frames go out through [`device::Sink`]);
//! [`handle::Handle`] runs a closure on it from any other thread, between two packets.
#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests stop tokio's clock; programs may not (clippy.toml)

pub mod bmv2_options;
pub mod device;
pub mod files;
pub mod handle;
pub mod links;
pub mod options;
pub mod p4runtime;
pub mod packet_loop;
pub mod ports;
pub mod queues;
pub mod rotation;
pub mod statistics;
pub mod system;
pub mod thrift;
pub mod trace;
pub mod traffic_manager;
