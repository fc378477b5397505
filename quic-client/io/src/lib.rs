// SPDX-License-Identifier: Apache-2.0
//! I/O shell of Weir's QUIC endpoints: datagrams in batches, one blocking wait per iteration, certificates, lines of
//! JSON.
//!
//! Made for a lab in which every system call and every wake-up costs wall time and a program that polls the clock
//! stands still: nothing here spins, sleeps in steps or starts threads.

pub mod address;
pub mod cert;
#[cfg(feature = "turn-clock")]
pub mod clock;
pub mod fault;
pub mod files;
pub mod fuzz;
pub mod interfaces;
pub mod lines;
pub mod outputs;
pub mod random;
pub mod retry_token;
pub mod tls;
pub mod udp;
pub mod user;
pub mod wait;
