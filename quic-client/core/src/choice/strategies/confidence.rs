// SPDX-License-Identifier: Apache-2.0
//! Common part of OPS and PPS: a path's value with an uncertainty term (Tan Eq. 18 to 21, Algorithm 1).
//!
//! Points that the paper leaves open, and our choices:
//!
//! - A path without a sample in the window has no index. Each path is used once first (Algorithm 1, L2-L11), and once
//!   more when all its samples have left the window ("forces the algorithm to use \[them\] at least once within 50
//!   rounds", Tan 5.2.3). For OPS that is its own rule, the bonus of a path with no samples being infinite. For PPS it
//!   is not: there the bonus is a malus, a path unheard of would have index +infinity, and the strategy would stay for
//!   ever on what was best once. The retries are all the exploration PPS has.
//! - C (Eq. 21) is calculated where Algorithm 1 does it (L12): once, when each path has been used, and anew when a path
//!   comes or goes.
//! - L15 resets the minimum within the loop over the paths, which would choose the last path always; it belongs before
//!   the loop. On equal indices the last path wins (L17).
//! - A single sample has variance 0.

use super::measured::{lowest, unmeasured};
use crate::choice::config::{ChoiceConfig, ExploreC};
use crate::choice::history::History;
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};

/// A path's value with a term for uncertainty: subtracted (optimism) or added (pessimism).
#[derive(Debug)]
pub struct Confidence {
    memory_tasks: u64,
    weight_a: f64,
    explore_c: ExploreC,
    /// -1 or 1.
    sign: f64,
    /// C of Eq. 21, once calculated.
    c: Option<f64>,
}

impl Confidence {
    /// `sign` is -1.0 for Eq. 19 (OPS) and 1.0 for Eq. 20 (PPS).
    pub fn new(config: &ChoiceConfig, sign: f64) -> Self {
        Confidence {
            memory_tasks: config.memory_tasks.max(1) as u64,
            weight_a: config.weight_a,
            explore_c: config.explore_c,
            sign,
            c: None,
        }
    }

    /// r_k, Tan Eq. 18, ms and ms^2 added as numbers.
    fn value(&self, e: &Estimate) -> f64 {
        self.weight_a * e.mean_ms + (1.0 - self.weight_a) * e.var_ms2
    }

    /// C: given, or the mean of r_k over the paths (Tan Eq. 21).
    fn explore_c(&self, known: &[PathId], history: &History) -> f64 {
        match self.explore_c {
            ExploreC::Fixed(c) => c,
            ExploreC::Adaptive => {
                let r: Vec<f64> = known.iter().filter_map(|p| history.estimate(*p).map(|e| self.value(&e))).collect();
                r.iter().sum::<f64>() / r.len().max(1) as f64
            }
        }
    }
}

impl Strategy for Confidence {
    fn add(&mut self, _path: PathId) {
        self.c = None;
    }

    fn remove(&mut self, _path: PathId) {
        self.c = None;
    }

    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, known, history, .. } = *question;
        if let Some(untried) = unmeasured(question, |p| history.is_remembered(p)) {
            return untried;
        }
        if self.c.is_none() {
            self.c = Some(self.explore_c(known, history));
        }
        (lowest(usable, |p| self.index(p, history)), "lowest-index")
    }

    /// Tan Eq. 19 and 20.
    fn index(&self, path: PathId, history: &History) -> Option<f64> {
        let e = history.estimate(path)?;
        let t = history.tasks().clamp(1, self.memory_tasks) as f64;
        let bonus = self.c.unwrap_or(0.0) * (2.0 * t.ln() / e.samples as f64).sqrt();
        Some(self.value(&e) + self.sign * bonus)
    }
}
