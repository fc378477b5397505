// SPDX-License-Identifier: Apache-2.0
//! Whether to stay on a path because the server answers there, whichever path it is asked on.
//!
//! One task answered elsewhere means little: a server that validates an address before it uses it answers the first
//! task after a move on the old path. Several in a row mean that moves have no effect. The connection then moves to the
//! server's path and stays there. Another move is tried later, less and less often.

use crate::choice::PathId;
use std::time::{Duration, Instant};

/// So many tasks in a row; those that were asked on the server's path do not count.
const TASKS: u32 = 3;
const HOLD_MIN: Duration = Duration::from_secs(10);
const HOLD_MAX: Duration = Duration::from_secs(640);

/// Statistics about the paths on which a server answers.
#[derive(Debug, Clone, Default)]
pub struct Stay {
    in_a_row: u32,
    on: Option<PathId>,
    until: Option<Instant>,
    holds: u32,
    /// Tasks answered elsewhere.
    tasks: u64,
}

impl Stay {
    /// A task was answered on another path than the one in use. Returns whether to follow the server now.
    pub fn elsewhere(&mut self, on: PathId, now: Instant) -> bool {
        self.tasks += 1;
        self.in_a_row = if self.on.replace(on) == Some(on) { self.in_a_row + 1 } else { 1 };
        if self.in_a_row < TASKS {
            return false;
        }
        self.hold(now);
        true
    }

    /// A task was answered on the path in use. If that is the server's own path it means nothing; on any other path it
    /// means that the server follows moves.
    pub fn here(&mut self, path: PathId) {
        if self.on != Some(path) {
            (self.on, self.in_a_row, self.holds) = (None, 0, 0);
        }
    }

    /// The server was found to be on another path: no move for a while.
    pub fn hold(&mut self, now: Instant) {
        self.in_a_row = 0;
        self.until = Some(now + HOLD_MIN.saturating_mul(1 << self.holds.min(10)).min(HOLD_MAX));
        self.holds += 1;
    }

    /// Whether no move should be made for now.
    pub fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|t| now < t)
    }

    /// Tasks answered elsewhere so far, and whether the connection followed the server.
    pub fn told(&self) -> (u64, bool) {
        (self.tasks, self.until.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_after_three_in_a_row_and_waits_longer_each_time() {
        let mut now = Instant::now();
        let mut stay = Stay::default();
        let (here, there) = (PathId(0), PathId(1));
        assert!(!stay.elsewhere(there, now));
        stay.here(here);
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!([0, 1].map(|_| stay.elsewhere(there, now)), [false, false]);
            stay.here(there);
            assert!(stay.elsewhere(there, now), "what is asked where it is says nothing");
            let begun = now;
            while stay.holds(now) {
                now += Duration::from_secs(1);
                // It is where the server is.
                stay.here(there);
            }
            waits.push((now - begun).as_secs());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 640, 640]);
        stay.here(here);
        stay.hold(now);
        assert!(!stay.holds(now + HOLD_MIN), "it followed in between");
        assert_eq!(stay.told(), (28, true));
    }
}
