// SPDX-License-Identifier: Apache-2.0
//! Best single path: each path once, then the one that was fastest, for good. A baseline.

use super::measured::{lowest, unmeasured};
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};

/// Each path once, then the one that was fastest, for good.
#[derive(Debug, Default)]
pub struct BestSingle {
    /// Where it stays.
    settled: Option<PathId>,
}

impl Strategy for BestSingle {
    fn remove(&mut self, path: PathId) {
        self.settled.take_if(|settled| *settled == path);
    }

    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, history, .. } = *question;
        if let Some(untried) = unmeasured(question, |p| history.was_tried(p)) {
            return untried;
        }
        let path = match self.settled {
            Some(path) if usable.contains(&path) => path,
            _ => lowest(usable, |p| history.mean_ms(p)),
        };
        self.settled = Some(path);
        (path, "settled")
    }
}
