// SPDX-License-Identifier: Apache-2.0
//! Prague (draft-briscoe-iccrg-prague-congestion-control-04): a scalable congestion control for L4S (RFC 9331).
//!
//! - `control`: [`Prague`], the window and its two regimes;
//! - `alpha`: the moving average of the share of marked packets;
//! - `classic_queue`: detection of an AQM of RFC 3168;
//! - `hystart`: the end of slow start by delay.

mod alpha;
mod classic_queue;
mod control;
mod hystart;
#[cfg(test)]
mod simulated;

pub use control::Prague;
