// SPDX-License-Identifier: Apache-2.0
//! Limit of Nacks that may leave. A flood of Interests for data that nobody has would fill the bottleneck with its
//! Nacks; without them the Interests stay unanswered, and the quota of the sender's port at its switch holds it back.

use std::time::Instant;

/// A bucket of Nacks.
#[derive(Debug, Clone, Copy)]
pub struct Refusals {
    per_second: f64,
    most: f64,
    left: f64,
    at: Option<Instant>,
}

impl Refusals {
    /// A full one: so many at once, and so many a second.
    pub const fn new(most: f64, per_second: f64) -> Refusals {
        Refusals { per_second, most, left: most, at: None }
    }

    /// Whether one more may leave.
    pub fn has_one(&mut self, now: Instant) -> bool {
        let earned = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64() * self.per_second);
        self.left = (self.left + earned).min(self.most);
        // An earlier time would let it earn the same again.
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        self.left >= 1.0
    }

    /// One leaves, of which [`Refusals::has_one`] allowed it.
    pub fn take(&mut self) {
        self.left -= 1.0;
    }

    /// Share left of the burst that may leave at once.
    pub fn share(&self) -> f64 {
        self.left / self.most
    }

    /// Whether one more may leave, which it does then.
    pub fn one_more(&mut self, now: Instant) -> bool {
        let may = self.has_one(now);
        if may {
            self.take();
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_is_answered_by_few_and_later_ones_again() {
        let (mut refusals, start) = (Refusals::new(256.0, 100.0), Instant::now());
        let flood = |refusals: &mut Refusals, from: u64| {
            (0..10_000).filter(|i| refusals.one_more(start + Duration::from_micros(from + 100 * i))).count()
        };
        // One second of 10,000.
        assert!((350..=357).contains(&flood(&mut refusals, 0)));
        assert!((95..=101).contains(&flood(&mut refusals, 1_000_000)));
        assert!((350..=357).contains(&flood(&mut refusals, 60_000_000)));
    }

    #[test]
    fn a_time_that_goes_back_earns_nothing() {
        let (mut refusals, start) = (Refusals::new(10.0, 10.0), Instant::now());
        let times = (0..1000).map(|i| start + Duration::from_secs(i % 2));
        // The one that was taken before the first second was over, too.
        assert_eq!(times.filter(|at| refusals.one_more(*at)).count(), 11);
    }
}
