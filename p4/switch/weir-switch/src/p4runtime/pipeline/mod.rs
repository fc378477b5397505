// SPDX-License-Identifier: Apache-2.0
//! A program as a controller sets it: its text or package, its P4Info, and whether its state fits. Pure and slow: for a
//! thread of its own.
mod adopt;
mod config;
mod p4info;
mod package;
mod state_size;

pub use config::Config;
pub use state_size::{STATE_BYTES, check_state};
