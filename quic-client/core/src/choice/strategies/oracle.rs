// SPDX-License-Identifier: Apache-2.0
//! Oracle: a plan made by someone who knows the paths. For measuring what a strategy could gain at most.

use crate::choice::config::ChoiceConfig;
use crate::choice::history::History;
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy, TaskSample};

/// What a plan says: from this task on, this path.
#[derive(Debug)]
pub struct Oracle {
    history: History,
    /// In the order of tasks.
    plan: Vec<(u64, PathId)>,
}

impl Oracle {
    /// One with the configuration's plan.
    pub fn new(config: &ChoiceConfig) -> Self {
        Oracle { history: History::new(config), plan: config.plan.clone() }
    }
}

impl Strategy for Oracle {
    fn add(&mut self, _path: PathId) {}

    fn remove(&mut self, path: PathId) {
        self.history.remove(path);
    }

    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { task, usable, current, .. } = *question;
        let planned = self.plan.iter().rev().find(|(from, _)| *from <= task).map(|(_, path)| *path);
        match planned.filter(|p| usable.contains(p)) {
            Some(path) => (path, "plan"),
            None => (current.filter(|p| usable.contains(p)).unwrap_or(usable[0]), "plan-unusable"),
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

    /// The plan names interfaces, so it holds for their new addresses too.
    fn renumbered(&mut self, old: PathId, new: PathId) {
        self.plan.iter_mut().filter(|(_, p)| *p == old).for_each(|(_, p)| *p = new);
    }
}
