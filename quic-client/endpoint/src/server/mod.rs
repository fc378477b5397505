// SPDX-License-Identifier: Apache-2.0
//! `weir-server`: all connections on one socket, one thread, one wait per iteration.
//!
//! [`accept`] judges packets that belong to no connection, [`connections`] has those that were accepted, and
//! [`event_loop`] turns them all.

mod accept;
mod connections;
mod event_loop;
mod files;
mod logs;
mod offered;
mod options;
mod quota;
mod relay;
mod shutdown;
mod stateless_reset;
mod tls;

use crate::shared::fault::Fault;
use crate::shared::options::parsed;

/// Runs the program; `version` is for `--version`. Returns its exit code.
///
/// # Errors
/// It ends early, with the exit code for that.
pub fn main(version: &'static str) -> Result<u8, Fault> {
    parsed(version)?.map_or(Ok(0), |options| event_loop::run(&options))
}
