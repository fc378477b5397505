// SPDX-License-Identifier: Apache-2.0
//! Common parts of both programs: errors with exit codes, common options, the congestion control and its files, qlog
//! files, random numbers, JSON.

mod agent;
pub mod congestion;
pub mod json;
pub mod options;
pub mod qlog;
pub mod random;
pub mod trajectories;

pub use weir_io::fault;
