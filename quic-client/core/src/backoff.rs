// SPDX-License-Identifier: Apache-2.0
//! Waits between attempts: exponential, with jitter and a cap.

use std::time::Duration;

/// A wait is at least this share of its bound; the rest is drawn. So peers that failed together don't come back together.
const LEAST_SHARE: f64 = 0.5;

/// Bounds of the waits: `first`, doubled after each failure, at most `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Bound after the first failure.
    pub first: Duration,
    /// Largest bound.
    pub cap: Duration,
}

impl Schedule {
    /// Bound of the wait after `failures` further failures.
    pub fn bound(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(20)).min(self.cap)
    }
}

/// Waits before connecting again.
///
/// A connection that is lost after a long life is replaced at once. Each one that is lost soon after it was begun makes
/// the next wait longer.
#[derive(Debug, Clone)]
pub struct Backoff {
    schedule: Schedule,
    failures: u32,
}

impl Backoff {
    /// No failure yet.
    pub fn new(schedule: Schedule) -> Backoff {
        Backoff { schedule, failures: 0 }
    }

    /// Wait before the next attempt, after one that lived for `lived`. `share`: a random number from 0 to 1.
    pub fn wait(&mut self, lived: Duration, share: f64) -> Duration {
        if lived >= self.schedule.cap {
            self.failures = 0;
        }
        let bound = match self.failures {
            0 => Duration::ZERO,
            failures => self.schedule.bound(failures - 1),
        };
        self.failures = self.failures.saturating_add(1);
        bound.mul_f64(LEAST_SHARE + (1.0 - LEAST_SHARE) * share.clamp(0.0, 1.0))
    }

    /// The attempts succeed again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule { first: Duration::from_millis(250), cap: Duration::from_secs(30) };

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::new(SCHEDULE);
        let waits: Vec<_> = (0..10).map(|_| backoff.wait(Duration::ZERO, 1.0).as_millis()).collect();
        assert_eq!(waits, [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(SCHEDULE.bound(u32::MAX), SCHEDULE.cap);
    }

    #[test]
    fn waits_are_drawn_between_half_their_bound_and_all_of_it() {
        for share in [0.0, 0.3, 1.0] {
            let mut backoff = Backoff::new(SCHEDULE);
            backoff.wait(Duration::ZERO, share);
            let wait = backoff.wait(Duration::ZERO, share);
            assert_eq!(wait, SCHEDULE.first.mul_f64(0.5 + share / 2.0));
        }
    }

    #[test]
    fn a_long_life_ends_the_waits_and_a_short_one_does_not() {
        let mut backoff = Backoff::new(SCHEDULE);
        backoff.wait(Duration::ZERO, 1.0);
        let short = SCHEDULE.cap.saturating_sub(Duration::from_millis(1));
        assert_eq!(backoff.wait(short, 1.0), SCHEDULE.first);
        assert_eq!(backoff.wait(SCHEDULE.cap, 1.0), Duration::ZERO);
        assert_eq!(backoff.wait(Duration::ZERO, 1.0), SCHEDULE.first);
        backoff.reset();
        assert_eq!(backoff.wait(Duration::ZERO, 1.0), Duration::ZERO);
    }
}
