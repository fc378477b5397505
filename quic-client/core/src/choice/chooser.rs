// SPDX-License-Identifier: Apache-2.0
//! [`Chooser`]: the paths, which of them can be used, and the strategy that chooses among those.

use super::config::ChoiceConfig;
use super::history::History;
use super::path_id::PathId;
use super::strategy::{Question, Strategy};
use super::task::TaskSample;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

/// A choice, with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The path to take.
    pub path: PathId,
    /// Why, in a word or two.
    pub reason: &'static str,
    /// The number by which the strategy compares paths (smaller is better), for each path that has one: see
    /// [`Strategy::index`]. OPS, PPS: the index of Tan Eq. 19 or 20; `weir`: its expected cost; the others: the mean
    /// TCT. In ms (`per_byte`: ms per 1000 bytes, except `weir`).
    pub index_ms: Vec<(PathId, f64)>,
}

/// Statistics of one path.
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

/// Hold-off of a path after a failed task; doubles with each failure in a row.
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
#[derive(Debug)]
pub struct Chooser {
    paths: BTreeMap<PathId, Health>,
    strategy: Box<dyn Strategy>,
    history: History,
    random: fastrand::Rng,
    /// Time of the latest call.
    now: Option<Instant>,
}

impl Chooser {
    /// A chooser without paths. Numbers out of their range are brought into it, NaN becoming the default.
    pub fn new(config: ChoiceConfig) -> Self {
        let config = config.in_range();
        Chooser {
            strategy: config.make(),
            history: History::new(config.memory_tasks, config.model, config.per_byte),
            random: fastrand::Rng::with_seed(config.seed),
            paths: BTreeMap::new(),
            now: None,
        }
    }

    /// Adds a usable path. Nothing changes if it is there already.
    pub fn add(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Entry::Vacant(place) = self.paths.entry(path) {
            place.insert(Health { usable: true, ..Health::default() });
            self.strategy.add(path);
        }
    }

    /// Gives the strategy the name of a path, before [`Chooser::add`].
    pub fn named(&mut self, path: PathId, name: &str) {
        self.strategy.named(path, name);
    }

    /// Forgets a path and all that was learned of it.
    pub fn remove(&mut self, path: PathId) {
        self.paths.remove(&path);
        self.history.remove(path);
        self.strategy.remove(path);
    }

    /// Says whether a path can be used now. Becoming usable ends the time it is left out after failures.
    pub fn set_usable(&mut self, path: PathId, usable: bool, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            if usable && !health.usable {
                health.recover();
                self.strategy.returned(path);
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
            let question = Question {
                task,
                bytes: bytes_hint,
                usable: &usable,
                known: &known,
                current,
                idle,
                history: &self.history,
            };
            self.strategy.choose(&question, &mut self.random)
        };
        self.strategy.chosen(path, current);
        let index_ms = known.iter().filter_map(|p| self.strategy.index(*p, &self.history).map(|i| (*p, i))).collect();
        Some(Choice { path, reason, index_ms })
    }

    /// An interface changed its address: `new` stands where `old` stood in an oracle's plan, which is by name.
    pub fn renumbered(&mut self, old: PathId, new: PathId) {
        self.strategy.renumbered(old, new);
    }

    /// A task ended well, all of it on one path. A task that had to change its path midway says nothing of the path
    /// that took over; of the one it left, [`Chooser::failed`] says that it failed. Should that one have been late only
    /// (see [`Chooser::late`]), the task is a sample of it, with its whole completion time: that is what choosing it
    /// cost.
    pub fn finished(&mut self, sample: &TaskSample, now: Instant) {
        self.now = Some(now);
        let Some(health) = self.paths.get_mut(&sample.path) else { return };
        health.recover();
        self.history.finished(sample);
        self.strategy.finished(sample);
    }

    /// A task failed on this path, or the path was lost under it. It is left out at once, for a second and longer with
    /// each failure, until it answers a probe, becomes usable again or the time is over.
    pub fn failed(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.failures = health.failures.saturating_add(1);
            health.failed_at = Some(now);
            self.strategy.failed(path);
        }
    }

    /// A path that failed and was reported as unusable was late only: it answered soon after. It is as if it had never
    /// failed, and usable.
    pub fn late(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.recover();
            health.usable = true;
            self.strategy.late(path);
        }
    }

    /// A round-trip time measured beside the tasks: PATH_CHALLENGE to PATH_RESPONSE, or for the path in use the
    /// handshake's or the transport's own.
    pub fn probed(&mut self, path: PathId, rtt: Duration, now: Instant) {
        self.now = Some(now);
        if let Some(health) = self.paths.get_mut(&path) {
            health.recover();
            self.strategy.probed(path, rtt);
        }
    }

    /// The standby path to be probed next and from when on; only `weir` asks for probes. Ask after each `choose`,
    /// `finished` and `probed`; call [`Chooser::probing`] when the probe is sent, or the answer stays the same.
    pub fn next_probe(&self) -> Option<(Instant, PathId)> {
        let now = self.now?;
        let usable: Vec<PathId> = self.paths.iter().filter(|(_, h)| h.usable).map(|(p, _)| *p).collect();
        self.strategy.next_probe(&usable).map(|path| (now, path))
    }

    /// The probe asked for has been sent, or can't be: it counts against the budget, and the path isn't asked for again
    /// for a while.
    pub fn probing(&mut self, path: PathId, now: Instant) {
        self.now = Some(now);
        self.strategy.probing(path);
    }

    /// Statistics of each path.
    pub fn standings(&self) -> Vec<Standing> {
        self.paths
            .iter()
            .map(|(path, health)| {
                let known = self.strategy.estimate(*path, &self.history);
                Standing {
                    path: *path,
                    usable: health.usable,
                    held: self.now.is_some_and(|now| health.held(now)),
                    tasks: known.map_or(0, |e| e.samples as u64),
                    mean_ms: known.map(|e| e.mean_ms),
                    var_ms2: known.map(|e| e.var_ms2),
                    index_ms: self.strategy.index(*path, &self.history),
                }
            })
            .collect()
    }
}
