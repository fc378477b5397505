// SPDX-License-Identifier: Apache-2.0
//! Which path the next task takes (L. Tan et al., "Proactive Connection Migration", section 4).
//!
//! A task is one request on one stream; its completion time (TCT, Eq. 3) is what the strategies learn from. With
//! `per_byte` they learn from TCT per byte (Eq. 4) instead, for tasks of mixed sizes. [`Chooser`] is told what happens
//! and asked for the next path; it does no I/O, and the same seed and the same calls give the same choices.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use weir_core::choice::{ChoiceConfig, Chooser, PathId, TaskSample};
//!
//! let now = Instant::now();
//! let mut chooser = Chooser::new(ChoiceConfig { seed: 1, ..ChoiceConfig::default() });
//! let (wlan, lte) = (PathId(0), PathId(1));
//! chooser.add(wlan, now);
//! chooser.add(lte, now);
//! chooser.probed(wlan, Duration::from_millis(20), now);
//! chooser.probed(lte, Duration::from_millis(45), now);
//! let choice = chooser.choose(0, None, now, Some(lte)).expect("two usable paths");
//! assert_eq!(choice.path, wlan);
//! let sample =
//!     TaskSample { path: wlan, task: 0, tct: Duration::from_millis(22), bytes: 5000, switched: true, cold: false };
//! chooser.finished(&sample, now + sample.tct);
//! ```
//!
//! - [`models`]: the sliding window, Gaussian and lognormal estimates;
//! - `strategies`: OPS, PPS, polling, epsilon-greedy, best single;
//! - `weir`: ours (see [`mod@weir`]);
//! - [`presets`]: weights by application;
//! - [`regret`]: how a run is judged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

pub mod models;
pub mod presets;
pub mod regret;
mod strategies;
pub mod weir;

pub use presets::{AppPreset, PRESETS, by_name};

use strategies::Bandit;
use weir::Weir;

/// A path, numbered by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// How paths are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Strategy {
    /// One after the other.
    Polling,
    /// The path of the lowest mean, and with this probability another one.
    EpsilonGreedy {
        /// Probability of exploring, 0 to 1.
        epsilon: f64,
    },
    /// Optimistic path selection, Tan Eq. 19.
    Ops,
    /// Pessimistic path selection, Tan Eq. 20.
    Pps,
    /// Each path once, then the one that was fastest, for good.
    BestSingle,
    /// A plan made by someone who knows: from this task on, this path. In the order of tasks.
    Oracle(Vec<(u64, PathId)>),
    /// Ours, see [`mod@weir`].
    Weir,
}

/// Distribution that task completion times are taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Normal, fitted to the lowest 90 % (Tan Eq. 9, 10).
    Gaussian,
    /// Lognormal (Tan Eq. 14 to 17).
    Lognormal,
}

/// C of Tan Eq. 19 and 20.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExploreC {
    /// Tan Eq. 21.
    Adaptive,
    /// This number, in the unit of the index.
    Fixed(f64),
}

/// What a [`Chooser`] is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceConfig {
    /// How paths are chosen.
    pub strategy: Strategy,
    /// Model of the completion times; OPS and PPS use it.
    pub model: Model,
    /// S: how many of the latest tasks are remembered, over all paths. At least one.
    pub memory_tasks: usize,
    /// Weight `a` of the mean in Eq. 18, 0 to 1; the variance has `b = 1 - a`.
    pub weight_a: f64,
    /// How much OPS and PPS make of uncertainty.
    pub explore_c: ExploreC,
    /// Learn from TCT per byte (Eq. 4; in ms per 1000 bytes) instead of TCT.
    pub per_byte: bool,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Default for ChoiceConfig {
    /// `weir`; for the rest what the paper's evaluation uses: lognormal, S = 100, a = 0.8.
    fn default() -> Self {
        ChoiceConfig {
            strategy: Strategy::Weir,
            model: Model::Lognormal,
            memory_tasks: 100,
            weight_a: 0.8,
            explore_c: ExploreC::Adaptive,
            per_byte: false,
            seed: 0,
        }
    }
}

/// A choice, with what explains it.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The path to take.
    pub path: PathId,
    /// Why, in a word or two.
    pub reason: &'static str,
    /// The number by which the strategy compares paths (smaller is better), for each path that has one. OPS, PPS: the
    /// index of Eq. 19 or 20; `weir`: see [`mod@weir`]; the others: the mean TCT. In ms (`per_byte`: ms per 1000 bytes,
    /// but for `weir`).
    pub index_ms: Vec<(PathId, f64)>,
}

/// A task that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSample {
    /// The path it took.
    pub path: PathId,
    /// Its number.
    pub task: u64,
    /// From its start to its last byte (Eq. 3).
    pub tct: Duration,
    /// Payload.
    pub bytes: u64,
    /// The connection moved to another path for it.
    pub switched: bool,
    /// That path had to be validated first.
    pub cold: bool,
}

/// What is known about a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The path.
    pub path: PathId,
    /// Whether the caller says it can be used.
    pub usable: bool,
    /// Whether it is left out because a task failed on it.
    pub held: bool,
    /// Tasks in memory (`weir`: on this path, ever).
    pub tasks: u64,
    /// Expected TCT, ms; `None` when nothing is known.
    pub mean_ms: Option<f64>,
    /// Variance of the TCT, ms^2.
    pub var_ms2: Option<f64>,
    /// See [`Choice::index_ms`].
    pub index_ms: Option<f64>,
}

/// How long a path is left out after a task failed on it; doubles with each failure in a row.
const HOLD: Duration = Duration::from_secs(1);

/// The longest time a failed path is left out.
const HOLD_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
struct Health {
    usable: bool,
    /// Failures since the last success.
    failures: u32,
    failed_at: Option<Instant>,
}

impl Health {
    fn held(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| {
            let hold = HOLD.saturating_mul(1 << self.failures.saturating_sub(1).min(6)).min(HOLD_MAX);
            now.saturating_duration_since(at) < hold
        })
    }

    fn recover(&mut self) {
        self.failures = 0;
        self.failed_at = None;
    }
}

/// Chooses a path for each task.
#[derive(Debug, Clone)]
pub struct Chooser {
    config: ChoiceConfig,
    paths: BTreeMap<PathId, Health>,
    bandit: Bandit,
    weir: Weir,
    random: fastrand::Rng,
    /// Time of the latest call.
    now: Option<Instant>,
}

impl Chooser {
    /// A chooser without paths. Numbers out of their range are brought into it, NaN becoming the default.
    pub fn new(mut config: ChoiceConfig) -> Self {
        let into_range = |x: f64, default: f64| if x.is_nan() { default } else { x.clamp(0.0, 1.0) };
        config.weight_a = into_range(config.weight_a, 0.8);
        if let Strategy::EpsilonGreedy { epsilon } = &mut config.strategy {
            *epsilon = into_range(*epsilon, 0.05);
        }
        if let ExploreC::Fixed(c) = &mut config.explore_c {
            *c = if c.is_nan() { 0.0 } else { c.clamp(0.0, 1e9) };
        }
        config.memory_tasks = config.memory_tasks.max(1);
        Chooser {
            bandit: Bandit::new(&config),
            weir: Weir::new(&config),
            random: fastrand::Rng::with_seed(config.seed),
            paths: BTreeMap::new(),
            now: None,
            config,
        }
    }

    /// Adds a usable path. Nothing changes if it is there already.
    pub fn add(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Entry::Vacant(place) = self.paths.entry(path) {
            place.insert(Health { usable: true, ..Health::default() });
            self.bandit.add(path);
            self.weir.add(path);
        }
    }

    /// Forgets a path and all that was learned of it.
    pub fn remove(&mut self, path: PathId) {
        self.paths.remove(&path);
        self.bandit.remove(path);
        self.weir.remove(path);
    }

    /// Says whether a path can be used now. Becoming usable ends the time it is left out after failures.
    pub fn set_usable(&mut self, path: PathId, usable: bool, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            if usable && !health.usable {
                health.recover();
                self.weir.returned(path);
            }
            health.usable = usable;
        }
    }

    /// The path for a task of about `bytes_hint` bytes; `current` is the one in use. `None` if no path is usable. If
    /// all usable paths are left out after failures, the one whose failure is longest ago.
    pub fn choose(
        &mut self,
        task: u64,
        bytes_hint: Option<u64>,
        now: Instant,
        current: Option<PathId>,
    ) -> Option<Choice> {
        let idle = self.now.replace(now).map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        let known: Vec<PathId> = self.paths.keys().copied().collect();
        let usable: Vec<PathId> =
            self.paths.iter().filter(|(_, h)| h.usable && !h.held(now)).map(|(p, _)| *p).collect();
        let (path, reason) = if usable.is_empty() {
            let oldest = self.paths.iter().filter(|(_, h)| h.usable).min_by_key(|(_, h)| h.failed_at)?;
            (*oldest.0, "all-failed")
        } else {
            match &self.config.strategy {
                Strategy::Oracle(plan) => {
                    let planned = plan.iter().rev().find(|(from, _)| *from <= task).map(|(_, p)| *p);
                    match planned.filter(|p| usable.contains(p)) {
                        Some(path) => (path, "plan"),
                        None => (current.filter(|p| usable.contains(p)).unwrap_or(usable[0]), "plan-unusable"),
                    }
                }
                Strategy::Weir => self.weir.choose(&usable, current, bytes_hint, idle, &mut self.random),
                _ => self.bandit.choose(&usable, &known, current, &self.config, &mut self.random),
            }
        };
        self.weir.chosen(path, current);
        let index_ms = known.iter().filter_map(|p| self.index(*p).map(|i| (*p, i))).collect();
        Some(Choice { path, reason, index_ms })
    }

    /// An interface changed its address: `new` stands where `old` stood in an oracle's plan, which is by name.
    pub fn renumbered(&mut self, old: PathId, new: PathId) {
        if let Strategy::Oracle(plan) = &mut self.config.strategy {
            plan.iter_mut().filter(|(_, p)| *p == old).for_each(|(_, p)| *p = new);
        }
    }

    /// A task ended well, all of it on one path. A task that had to change its path midway says nothing of the path that
    /// took over; of the one it left, [`Chooser::failed`] says that it failed. Should that one have been late only (see
    /// [`Chooser::late`]), the task is a sample of it, with its whole completion time: that is what choosing it cost.
    pub fn finished(&mut self, sample: &TaskSample, now: Instant) {
        self.now = Some(now);
        let Some(health) = self.paths.get_mut(&sample.path) else { return };
        health.recover();
        let tct_ms = sample.tct.as_secs_f64() * 1e3;
        let per = if self.config.per_byte { sample.bytes.max(1) as f64 / 1e3 } else { 1.0 };
        if self.config.strategy == Strategy::Weir {
            self.weir.finished(sample, tct_ms);
        } else {
            self.bandit.finished(sample.path, tct_ms / per);
        }
    }

    /// A task failed on this path, or the path was lost under it. It is left out at once, for a second and longer with
    /// each failure, until it answers a probe, becomes usable again or the time is over.
    pub fn failed(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.failures = health.failures.saturating_add(1);
            health.failed_at = Some(now);
            self.weir.failed(path);
        }
    }

    /// A path that failed and was said to be unusable was late only: it answered soon after. It is as if it had never
    /// failed, and usable.
    pub fn late(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.recover();
            health.usable = true;
            self.weir.late(path);
        }
    }

    /// A round-trip time measured beside the tasks: PATH_CHALLENGE to PATH_RESPONSE, or for the path in use the
    /// handshake's or the transport's own.
    pub fn probed(&mut self, path: PathId, rtt: Duration, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.recover();
            if self.config.strategy == Strategy::Weir {
                self.weir.probed(path, rtt.as_secs_f64() * 1e3);
            }
        }
    }

    /// The standby path to be probed next and from when on; only `weir` asks for probes. Ask after each `choose`,
    /// `finished` and `probed`; call [`Chooser::probing`] when the probe is sent, or the answer stays the same.
    pub fn next_probe(&self) -> Option<(Instant, PathId)> {
        let now = self.now?;
        if self.config.strategy != Strategy::Weir {
            return None;
        }
        let usable: Vec<PathId> = self.paths.iter().filter(|(_, h)| h.usable).map(|(p, _)| *p).collect();
        self.weir.next_probe(&usable).map(|path| (now, path))
    }

    /// The probe asked for has been sent, or can't be: it counts against the budget, and the path isn't asked for again
    /// for a while.
    pub fn probing(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        self.weir.probing(path);
    }

    /// What is known about each path.
    pub fn standings(&self) -> Vec<Standing> {
        self.paths
            .iter()
            .map(|(path, health)| {
                let (tasks, mean_ms, var_ms2) = if self.config.strategy == Strategy::Weir {
                    self.weir.standing(*path)
                } else {
                    match self.bandit.estimate(*path, &self.config) {
                        Some(e) => (e.samples as u64, Some(e.mean_ms), Some(e.var_ms2)),
                        None => (0, None, None),
                    }
                };
                Standing {
                    path: *path,
                    usable: health.usable,
                    held: self.now.is_some_and(|now| health.held(now)),
                    tasks,
                    mean_ms,
                    var_ms2,
                    index_ms: self.index(*path),
                }
            })
            .collect()
    }

    fn index(&self, path: PathId) -> Option<f64> {
        if self.config.strategy == Strategy::Weir {
            self.weir.index(path)
        } else {
            self.bandit.index(path, &self.config)
        }
    }
}

#[cfg(test)]
mod tests;
