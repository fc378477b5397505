// SPDX-License-Identifier: Apache-2.0
//! What is reported while a connection runs: [`events`], what a client decided and when, and [`samples`], the state of
//! a connection at regular times, and [`trajectory`], what a congestion control that learns saw and did. All are written
//! as lines of JSON.

pub mod events;
pub mod samples;
pub mod trajectory;
