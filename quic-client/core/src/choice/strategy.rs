// SPDX-License-Identifier: Apache-2.0
//! [`Strategy`]: the interface of a strategy of path choice.

use super::history::History;
use super::models::Estimate;
use super::path_id::PathId;
use super::task::TaskSample;
use std::fmt::Debug;
use std::time::Duration;

/// Question to a strategy: the path for a task.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Number of the task.
    pub task: u64,
    /// Its payload, if that is known.
    pub bytes: Option<u64>,
    /// Paths that can be used and are not left out after a failure, in the order of their numbers; at least one.
    pub usable: &'a [PathId],
    /// All paths there are, in the order of their numbers.
    pub known: &'a [PathId],
    /// The path in use.
    pub current: Option<PathId>,
    /// Time since the chooser was last called.
    pub idle: Duration,
    /// Completion times of earlier tasks.
    pub history: &'a History,
}

/// Decides which path a task takes.
///
/// A strategy is pure: it does no I/O and reads no clock. Randomness comes from the generator that it is given, so the
/// same seed and the same calls give the same choices. It need not heed failures: [`Chooser`](super::Chooser) leaves a
/// path out for a while after a task failed on it.
///
/// Only [`choose`](Strategy::choose) is required. [`Chooser`](super::Chooser) keeps the completion times of all tasks
/// and hands them out as `history`. The other methods are events, and reports on the paths.
pub trait Strategy: Debug {
    /// The path for a task, one of `question.usable`, and the reason for it in a word or two.
    fn choose(&mut self, question: &Question<'_>, random: &mut fastrand::Rng) -> (PathId, &'static str);

    /// Estimate for a path; `None` without data.
    fn estimate(&self, path: PathId, history: &History) -> Option<Estimate> {
        history.estimate(path)
    }

    /// The number by which paths are compared, smaller being better; `None` if nothing is known of the path. In ms, or
    /// in ms per 1000 bytes.
    fn index(&self, path: PathId, history: &History) -> Option<f64> {
        history.mean_ms(path)
    }

    /// The name that the user gave a path, before [`add`](Strategy::add). A path that returns with another address is
    /// another path of the same name.
    fn named(&mut self, path: PathId, name: &str) {
        let _ = (path, name);
    }

    /// There is a new path.
    fn add(&mut self, path: PathId) {
        let _ = path;
    }

    /// A path was removed: its statistics are dropped.
    fn remove(&mut self, path: PathId) {
        let _ = path;
    }

    /// A task was completed, all of it on one path.
    fn finished(&mut self, sample: &TaskSample) {
        let _ = sample;
    }

    /// A task is about to take `path`; the path in use before was `before`.
    fn chosen(&mut self, path: PathId, before: Option<PathId>) {
        let _ = (path, before);
    }

    /// A task failed on this path.
    fn failed(&mut self, path: PathId) {
        let _ = path;
    }

    /// A path could not be used for a while, and can be used again.
    fn returned(&mut self, path: PathId) {
        let _ = path;
    }

    /// A path that failed had only been late: its earlier state still holds.
    fn late(&mut self, path: PathId) {
        let _ = path;
    }

    /// The address of a path changed: it is now `new`.
    fn renumbered(&mut self, old: PathId, new: PathId) {
        let _ = (old, new);
    }

    /// A round-trip time measured beside the tasks.
    fn probed(&mut self, path: PathId, rtt: Duration) {
        let _ = (path, rtt);
    }

    /// The standby path, one of `usable`, to be probed next, if any should be.
    fn next_probe(&self, usable: &[PathId]) -> Option<PathId> {
        let _ = usable;
        None
    }

    /// The probe asked for was sent, or could not be. [`next_probe`](Strategy::next_probe) must not ask for the same
    /// path again and again.
    fn probing(&mut self, path: PathId) {
        let _ = path;
    }
}
