// SPDX-License-Identifier: Apache-2.0
//! The paper's strategies and its baselines (Tan 4.2 to 5.1).
//!
//! What the paper leaves open, and what is done here:
//!
//! - A path without a sample in the window has no index. Each path is used once first (Algorithm 1, L2-L11), and once
//!   more when all its samples have left the window ("forces the algorithm to use [them] at least once within 50
//!   rounds", Tan 5.2.3). For OPS that is its own rule, the bonus of a path with no samples being infinite. For PPS it
//!   is not: there the bonus is a malus, a path unheard of would have index +infinity, and the strategy would stay for
//!   ever on what was best once. The retries are all the exploration PPS has.
//! - C (Eq. 21) is calculated where Algorithm 1 does it (L12): once, when each path has been used, and anew when a path
//!   comes or goes.
//! - L15 resets the minimum within the loop over the paths, which would choose the last path always; it belongs before
//!   the loop. On equal indices the last path wins (L17).
//! - A single sample has variance 0.
//! - Epsilon-greedy knows the mean of all samples ever, and explores the *other* paths ("exploring other paths with a
//!   fixed probability", Tan 5.1).

use std::collections::BTreeMap;

use super::models::{Estimate, Window};
use super::{ChoiceConfig, ExploreC, PathId, Strategy};

/// State of the strategies that learn from task completion times alone.
#[derive(Debug, Clone)]
pub(super) struct Bandit {
    window: Window,
    /// Tasks finished, T.
    tasks: u64,
    /// C of Eq. 21, once calculated.
    c: Option<f64>,
    /// Count and sum (ms) of all samples ever.
    totals: BTreeMap<PathId, (u64, f64)>,
    /// Where polling was last.
    polled: Option<PathId>,
    /// Where best-single stays.
    settled: Option<PathId>,
}

impl Bandit {
    pub(super) fn new(config: &ChoiceConfig) -> Self {
        Bandit {
            window: Window::new(config.memory_tasks),
            tasks: 0,
            c: None,
            totals: BTreeMap::new(),
            polled: None,
            settled: None,
        }
    }

    pub(super) fn add(&mut self, _path: PathId) {
        self.c = None;
    }

    pub(super) fn remove(&mut self, path: PathId) {
        self.window.remove(path);
        self.totals.remove(&path);
        self.c = None;
        if self.settled == Some(path) {
            self.settled = None;
        }
    }

    pub(super) fn finished(&mut self, path: PathId, ms: f64) {
        self.tasks += 1;
        self.window.push(path, ms);
        let (n, sum) = self.totals.entry(path).or_default();
        *n += 1;
        *sum += ms;
    }

    fn mean(&self, path: PathId) -> Option<f64> {
        self.totals.get(&path).map(|(n, sum)| sum / *n as f64)
    }

    pub(super) fn estimate(&self, path: PathId, config: &ChoiceConfig) -> Option<Estimate> {
        self.window.estimate(path, config.model)
    }

    /// The number by which the strategy compares paths, smaller being better; `None` before the first sample.
    pub(super) fn index(&self, path: PathId, config: &ChoiceConfig) -> Option<f64> {
        match config.strategy {
            Strategy::Ops | Strategy::Pps => {
                let e = self.estimate(path, config)?;
                let t = self.tasks.clamp(1, config.memory_tasks.max(1) as u64) as f64;
                let bonus = self.c.unwrap_or(0.0) * (2.0 * t.ln() / e.samples as f64).sqrt();
                let sign = if matches!(config.strategy, Strategy::Ops) { -1.0 } else { 1.0 };
                Some(evaluation(&e, config.weight_a) + sign * bonus) // Tan Eq. 19, 20
            }
            _ => self.mean(path),
        }
    }

    /// The choice among `usable` (in order, not empty) and why.
    pub(super) fn choose(
        &mut self,
        usable: &[PathId],
        known: &[PathId],
        current: Option<PathId>,
        config: &ChoiceConfig,
        random: &mut fastrand::Rng,
    ) -> (PathId, &'static str) {
        let measured = |p: &PathId| match config.strategy {
            Strategy::Ops | Strategy::Pps => self.window.count(*p) > 0,
            _ => self.totals.contains_key(p),
        };
        if let Strategy::Polling = config.strategy {
            let next = usable.iter().find(|p| self.polled.is_some_and(|last| **p > last)).unwrap_or(&usable[0]);
            self.polled = Some(*next);
            return (*next, "round-robin");
        }
        // Algorithm 1, L2-L11. The numbering of the paths is free: the one in use is first.
        let untried: Vec<PathId> = usable.iter().filter(|p| !measured(p)).copied().collect();
        if let Some(first) = untried.iter().find(|p| current == Some(**p)).or(untried.first()) {
            return (*first, if self.totals.contains_key(first) { "expired" } else { "untried" });
        }
        match config.strategy {
            Strategy::EpsilonGreedy { epsilon } => {
                let best = self.lowest(usable, config);
                let others: Vec<PathId> = usable.iter().filter(|p| **p != best).copied().collect();
                if !others.is_empty() && random.f64() < epsilon {
                    (others[random.usize(..others.len())], "explore")
                } else {
                    (best, "greedy")
                }
            }
            Strategy::BestSingle => {
                let path = match self.settled {
                    Some(path) if usable.contains(&path) => path,
                    _ => self.lowest(usable, config),
                };
                self.settled = Some(path);
                (path, "settled")
            }
            _ => {
                if self.c.is_none() {
                    self.c = Some(self.explore_c(known, config));
                }
                (self.lowest(usable, config), "lowest-index")
            }
        }
    }

    /// C: given, or the mean of r_k over the paths (Tan Eq. 21).
    fn explore_c(&self, known: &[PathId], config: &ChoiceConfig) -> f64 {
        match config.explore_c {
            ExploreC::Fixed(c) => c,
            ExploreC::Adaptive => {
                let r: Vec<f64> = known
                    .iter()
                    .filter_map(|p| self.estimate(*p, config).map(|e| evaluation(&e, config.weight_a)))
                    .collect();
                r.iter().sum::<f64>() / r.len().max(1) as f64
            }
        }
    }

    /// The path of the lowest index, the last of equals (Algorithm 1, L17).
    fn lowest(&self, usable: &[PathId], config: &ChoiceConfig) -> PathId {
        let mut best = (f64::INFINITY, usable[0]);
        for path in usable {
            let index = self.index(*path, config).unwrap_or(f64::INFINITY);
            if index <= best.0 {
                best = (index, *path);
            }
        }
        best.1
    }
}

/// r_k, Tan Eq. 18, ms and ms^2 added as numbers.
fn evaluation(e: &Estimate, weight_a: f64) -> f64 {
    weight_a * e.mean_ms + (1.0 - weight_a) * e.var_ms2
}
