// SPDX-License-Identifier: Apache-2.0
//! Polling: one path after the other (Tan 5.1).

use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};

/// One path after the other.
#[derive(Debug, Default)]
pub struct Polling {
    last: Option<PathId>,
}

impl Strategy for Polling {
    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let usable = question.usable;
        let next = *usable.iter().find(|p| self.last.is_some_and(|last| **p > last)).unwrap_or(&usable[0]);
        self.last = Some(next);
        (next, "round-robin")
    }
}
