// SPDX-License-Identifier: Apache-2.0
//! Epsilon-greedy: the path of the lowest mean, and now and then another one (Tan 5.1).
//!
//! It knows the mean of all samples ever, and explores the *other* paths ("exploring other paths with a fixed
//! probability").

use super::measured::{lowest, unmeasured};
use crate::choice::config::ChoiceConfig;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};

/// The path of the lowest mean, and now and then another one.
#[derive(Debug)]
pub struct EpsilonGreedy {
    /// Probability of exploring.
    epsilon: f64,
}

impl EpsilonGreedy {
    /// One that has tried no path yet.
    pub fn new(config: &ChoiceConfig) -> Self {
        EpsilonGreedy { epsilon: config.epsilon }
    }
}

impl Strategy for EpsilonGreedy {
    fn choose(&mut self, question: &Question<'_>, random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, history, .. } = *question;
        if let Some(untried) = unmeasured(question, |p| history.was_tried(p)) {
            return untried;
        }
        let best = lowest(usable, |p| history.mean_ms(p));
        let others: Vec<PathId> = usable.iter().filter(|p| **p != best).copied().collect();
        if !others.is_empty() && random.f64() < self.epsilon {
            (others[random.usize(..others.len())], "explore")
        } else {
            (best, "greedy")
        }
    }
}
