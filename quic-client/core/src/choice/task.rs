// SPDX-License-Identifier: Apache-2.0
//! Measurements of a completed task.

use super::path_id::PathId;
use std::time::Duration;

/// A task that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSample {
    /// The path it took.
    pub path: PathId,
    /// Its number.
    pub task: u64,
    /// From its start to its last byte (Tan Eq. 3).
    pub tct: Duration,
    /// Payload.
    pub bytes: u64,
    /// The connection moved to another path for it.
    pub switched: bool,
    /// True if the path had to be validated first.
    pub cold: bool,
}

impl TaskSample {
    /// Completion time in milliseconds.
    pub fn tct_ms(&self) -> f64 {
        self.tct.as_secs_f64() * 1e3
    }
}
