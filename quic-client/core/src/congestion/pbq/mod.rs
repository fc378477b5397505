// SPDX-License-Identifier: Apache-2.0
//! PBQ (Zhang et al., Entropy 2023): a policy sets the congestion window after each interval, BBR paces.
//! docs/design/pbq.md separates the paper's parts from ours.
//!
//! - `weights`: [`Weights`], a policy out of its file; `built_in`: [`built_in`], those that come with the programs;
//! - `quantities` and `monitor`: the policy's inputs, from an interval;
//! - `network` and `arithmetic`: its output, the same bits on each machine;
//! - `noise`: how it explores while it is trained;
//! - `fairness`: how flows of one policy come to like windows;
//! - `ramp` and `competing`: paths of varying rate, and flows that fill the queue;
//! - `guard`, `stall` and `heavy_loss`: when the policy does not decide;
//! - `rtt_probe`: when the queue is emptied, to see the least round-trip time;
//! - `control`: [`Pbq`], all of it on a connection.

mod arithmetic;
mod built_in;
mod competing;
mod control;
mod fairness;
mod guard;
mod heavy_loss;
mod monitor;
mod network;
mod noise;
mod quantities;
mod ramp;
mod rtt_probe;
mod stall;
mod trial;
mod weights;

pub use arithmetic::{exp2, ln, tanh};
pub use built_in::{built_in, built_in_file};
pub use control::{Pbq, Policy};
pub use fairness::Fairness;
pub use network::{Network, Output};
pub use noise::{Deviation, Drawn, Noise};
pub use quantities::{Measured, QUANTITIES, Quantity};
pub use weights::{Growth, MOST_BYTES, Pacing, Profile, Provenance, Start, Weights, WeightsError};
