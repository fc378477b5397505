// SPDX-License-Identifier: Apache-2.0
//! Polling: one path after the other (Tan 5.1).

use crate::choice::config::ChoiceConfig;
use crate::choice::history::History;
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy, TaskSample};

/// One path after the other.
#[derive(Debug)]
pub struct Polling {
    history: History,
    last: Option<PathId>,
}

impl Polling {
    /// One that begins with the first path.
    pub fn new(config: &ChoiceConfig) -> Self {
        Polling { history: History::new(config), last: None }
    }
}

impl Strategy for Polling {
    fn add(&mut self, _path: PathId) {}

    fn remove(&mut self, path: PathId) {
        self.history.remove(path);
    }

    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let usable = question.usable;
        let next = *usable.iter().find(|p| self.last.is_some_and(|last| **p > last)).unwrap_or(&usable[0]);
        self.last = Some(next);
        (next, "round-robin")
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
