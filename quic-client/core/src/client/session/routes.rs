// SPDX-License-Identifier: Apache-2.0
//! [`Routes`]: the paths of a session and how they are chosen.

use crate::choice::{ChoiceConfig, Chooser, PathId, TaskSample};
use crate::client::moves::{GoodputByPath, Stay, Steer};
use crate::client::tally::Tally;
use crate::paths::{PathSpec, Paths, Standby};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The paths of a session and how they are chosen.
pub struct Routes {
    pub(super) paths: Paths,
    pub(super) chooser: Chooser,
    pub(super) standby: Standby,
    /// Index of each path in `tallies`. A path that returns with another address has the same index.
    pub(super) places: BTreeMap<PathId, usize>,
    pub(super) tallies: Vec<(String, Tally)>,
    /// Paths to be added when the connection is made.
    pub(super) fresh: Vec<PathSpec>,
    pub(super) budget_told: bool,
    pub(super) first_rtt_told: bool,
    /// Paths whose interface is down.
    pub(super) down: BTreeSet<PathId>,
    pub(super) silent: Vec<Silent>,
    /// Paths of the bytes that were received and not read yet.
    pub(super) goodput: GoodputByPath,
    /// Whether the server answers on another path than it is asked on.
    pub(super) stay: Stay,
    /// Whether a running download or upload may move; that needs a strategy that prices moves.
    pub(super) steered: bool,
    pub(super) steer: Steer,
    /// A move that `steer` asked for.
    pub(super) by_steer: Option<PathId>,
    /// Until when the first task waits for the paths' validations.
    pub(super) start_by: Option<Instant>,
}

/// A path that went silent during a task. It is dead, or only late, and is challenged at once. If it answers before
/// that validation is given up (three probe timeouts), it was late: its failure is undone, and a task that left it
/// becomes a sample of it, with its whole completion time. So a strategy counts an RTT spike by its cost to the task,
/// whether the task waited or moved.
pub(super) struct Silent {
    pub(super) path: PathId,
    /// Tasks that began on it, moved and ended since.
    pub(super) ended: Vec<TaskSample>,
}

impl Routes {
    /// For a connection opened on `first`. `others` are validated when it is up.
    pub fn new(first: PathSpec, others: Vec<PathSpec>, standby: Standby, choice: ChoiceConfig) -> Self {
        let paths = Paths::new(first.clone(), standby);
        let steered = choice.moves_running() && standby == Standby::Validated;
        let chooser = Chooser::new(choice);
        let (places, tallies) = (BTreeMap::new(), Vec::new());
        let mut routes = Routes {
            paths,
            chooser,
            standby,
            places,
            tallies,
            fresh: others,
            budget_told: false,
            first_rtt_told: false,
            down: BTreeSet::new(),
            silent: Vec::new(),
            goodput: GoodputByPath::default(),
            stay: Stay::default(),
            steered,
            steer: Steer::default(),
            by_steer: None,
            start_by: None,
        };
        routes.name(&first);
        routes
    }

    pub(super) fn name(&mut self, spec: &PathSpec) {
        let place = self.tallies.iter().position(|(name, _)| *name == spec.name).unwrap_or_else(|| {
            self.tallies.push((spec.name.clone(), Tally::default()));
            self.tallies.len() - 1
        });
        self.places.insert(spec.id, place);
        self.chooser.named(spec.id, &spec.name);
    }

    /// The latest path of this name.
    pub(super) fn id_of(&self, name: &str) -> Option<PathId> {
        self.places.iter().filter(|&(_, &i)| self.tallies[i].0 == name).map(|(id, _)| *id).max()
    }

    pub(super) fn name_of(&self, path: PathId) -> String {
        self.places.get(&path).map_or_else(String::new, |&i| self.tallies[i].0.clone())
    }

    /// A path went silent while a task was on it.
    pub(super) fn fell_silent(&mut self, path: PathId) {
        self.silent.retain(|s| s.path != path);
        // A cold path is validated only when the strategy wants it.
        if self.standby == Standby::Validated && !self.down.contains(&path) {
            self.paths.reprobe(path);
            self.silent.push(Silent { path, ended: Vec::new() });
        }
    }

    /// A path answers. Returns whether it had been taken for lost and was only late.
    pub(super) fn answers(&mut self, path: PathId, now: Instant) -> bool {
        let Some(place) = self.silent.iter().position(|s| s.path == path) else { return false };
        let silent = self.silent.swap_remove(place);
        self.chooser.late(path, now);
        silent.ended.iter().for_each(|task| self.chooser.finished(task, now));
        true
    }

    pub(super) fn tally_of(&mut self, path: PathId) -> Option<&mut Tally> {
        self.places.get(&path).map(|&i| &mut self.tallies[i].1)
    }
}
