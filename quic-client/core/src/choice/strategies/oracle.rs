// SPDX-License-Identifier: Apache-2.0
//! Oracle: a plan made by someone who knows the paths. For measuring what a strategy could gain at most.

use crate::choice::config::ChoiceConfig;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};

/// Planned path from this task on.
#[derive(Debug)]
pub struct Oracle {
    /// In the order of tasks.
    plan: Vec<(u64, PathId)>,
}

impl Oracle {
    /// One with the configuration's plan.
    pub fn new(config: &ChoiceConfig) -> Self {
        Oracle { plan: config.plan.clone() }
    }
}

impl Strategy for Oracle {
    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { task, usable, current, .. } = *question;
        let planned = self.plan.iter().rev().find(|(from, _)| *from <= task).map(|(_, path)| *path);
        match planned.filter(|p| usable.contains(p)) {
            Some(path) => (path, "plan"),
            None => (current.filter(|p| usable.contains(p)).unwrap_or(usable[0]), "plan-unusable"),
        }
    }

    /// The plan names interfaces, so it holds for their new addresses too.
    fn renumbered(&mut self, old: PathId, new: PathId) {
        self.plan.iter_mut().filter(|(_, p)| *p == old).for_each(|(_, p)| *p = new);
    }
}
