// SPDX-License-Identifier: Apache-2.0
//! Epsilon-greedy: the path of the lowest mean, and now and then another one (Tan 5.1).
//!
//! It knows the mean of all samples ever, and explores the *other* paths ("exploring other paths with a fixed
//! probability").

use crate::choice::config::ChoiceConfig;
use crate::choice::history::{History, lowest, unmeasured};
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy, TaskSample};

/// The path of the lowest mean, and now and then another one.
#[derive(Debug)]
pub struct EpsilonGreedy {
    history: History,
    /// Probability of exploring.
    epsilon: f64,
}

impl EpsilonGreedy {
    /// One that has tried no path yet.
    pub fn new(config: &ChoiceConfig) -> Self {
        EpsilonGreedy { history: History::new(config), epsilon: config.epsilon }
    }
}

impl Strategy for EpsilonGreedy {
    fn add(&mut self, _path: PathId) {}

    fn remove(&mut self, path: PathId) {
        self.history.remove(path);
    }

    fn choose(&mut self, question: &Question<'_>, random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, current, .. } = *question;
        if let Some(untried) = unmeasured(&self.history, usable, current, |p| self.history.was_tried(p)) {
            return untried;
        }
        let best = lowest(usable, |p| self.index(p));
        let others: Vec<PathId> = usable.iter().filter(|p| **p != best).copied().collect();
        if !others.is_empty() && random.f64() < self.epsilon {
            (others[random.usize(..others.len())], "explore")
        } else {
            (best, "greedy")
        }
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
