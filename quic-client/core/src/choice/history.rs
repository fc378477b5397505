// SPDX-License-Identifier: Apache-2.0
//! Samples of completed tasks, for strategies that learn from those alone.

use super::models::{Estimate, Model, Window};
use super::path_id::PathId;
use super::task::TaskSample;
use std::collections::BTreeMap;

/// Completion times: the latest ones of all paths, and the mean of all there ever were.
#[derive(Debug)]
pub struct History {
    window: Window,
    model: Model,
    per_byte: bool,
    /// Tasks finished, T.
    tasks: u64,
    /// Count and sum (ms) of all samples ever.
    totals: BTreeMap<PathId, (u64, f64)>,
}

impl History {
    /// An empty one that remembers `memory_tasks` samples, over all paths. `per_byte`: samples are ms per 1000 bytes.
    pub fn new(memory_tasks: usize, model: Model, per_byte: bool) -> Self {
        History { window: Window::new(memory_tasks), model, per_byte, tasks: 0, totals: BTreeMap::new() }
    }

    /// Forgets a path.
    pub fn remove(&mut self, path: PathId) {
        self.window.remove(path);
        self.totals.remove(&path);
    }

    /// A task was completed.
    pub fn finished(&mut self, sample: &TaskSample) {
        let ms = sample.tct_ms() / if self.per_byte { sample.bytes.max(1) as f64 / 1e3 } else { 1.0 };
        self.tasks += 1;
        self.window.push(sample.path, ms);
        let (n, sum) = self.totals.entry(sample.path).or_default();
        *n += 1;
        *sum += ms;
    }

    /// Tasks completed, T.
    pub fn tasks(&self) -> u64 {
        self.tasks
    }

    /// Mean of all samples ever, ms.
    pub fn mean_ms(&self, path: PathId) -> Option<f64> {
        self.totals.get(&path).map(|(n, sum)| sum / *n as f64)
    }

    /// Estimate from the latest samples of the path.
    pub fn estimate(&self, path: PathId) -> Option<Estimate> {
        self.window.estimate(path, self.model)
    }

    /// Whether the path ever had a sample.
    pub fn was_tried(&self, path: PathId) -> bool {
        self.totals.contains_key(&path)
    }

    /// Whether one of the latest samples is of the path.
    pub fn is_remembered(&self, path: PathId) -> bool {
        self.window.count(path) > 0
    }
}
