// SPDX-License-Identifier: Apache-2.0
//! `weir-client` and `weir-server`: the event loops that join the sans-IO core to sockets, and their command lines.

pub mod args;
pub mod choice;
pub mod client;
pub mod fault;
pub mod log;
pub mod output;
pub mod report;
pub mod retry;
pub mod server;
pub mod target;
pub mod watch;
pub mod ways;
