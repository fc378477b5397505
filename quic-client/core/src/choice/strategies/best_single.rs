// SPDX-License-Identifier: Apache-2.0
//! Best single path: each path once, then the one that was fastest, for good. A baseline.

use crate::choice::config::ChoiceConfig;
use crate::choice::history::{History, lowest, unmeasured};
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy, TaskSample};

/// Each path once, then the one that was fastest, for good.
#[derive(Debug)]
pub struct BestSingle {
    history: History,
    /// Where it stays.
    settled: Option<PathId>,
}

impl BestSingle {
    /// One that has tried no path yet.
    pub fn new(config: &ChoiceConfig) -> Self {
        BestSingle { history: History::new(config), settled: None }
    }
}

impl Strategy for BestSingle {
    fn add(&mut self, _path: PathId) {}

    fn remove(&mut self, path: PathId) {
        self.history.remove(path);
        self.settled.take_if(|settled| *settled == path);
    }

    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, current, .. } = *question;
        if let Some(untried) = unmeasured(&self.history, usable, current, |p| self.history.was_tried(p)) {
            return untried;
        }
        let path = match self.settled {
            Some(path) if usable.contains(&path) => path,
            _ => lowest(usable, |p| self.index(p)),
        };
        self.settled = Some(path);
        (path, "settled")
    }

    fn finished(&mut self, sample: &TaskSample) {
        self.history.finished(sample);
    }

    fn estimate(&self, path: PathId) -> Option<Estimate> {
        self.history.estimate(path)
    }

    fn index(&self, path: PathId) -> Option<f64> {
        self.history.mean_ms(path)
    }
}
