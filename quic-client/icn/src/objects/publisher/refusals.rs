// SPDX-License-Identifier: Apache-2.0
//! How many Nacks may leave. Who floods a publisher with what nobody has would fill the bottleneck with its Nacks; without
//! them what he asks stays unanswered, and the quota of his port at its switch holds him back.

use std::time::Instant;

/// A bucket of Nacks.
#[derive(Debug)]
pub struct Refusals {
    per_second: f64,
    most: f64,
    left: f64,
    at: Option<Instant>,
}

impl Refusals {
    /// For names and segments that there never were. Right subscribers ask for such only when a file was replaced, and
    /// need eight Nacks to believe it.
    pub fn of_files() -> Refusals {
        Refusals { per_second: 100.0, most: 256.0, left: 256.0, at: None }
    }

    /// For segments of live streams: right subscribers ask for what is gone when they fell behind.
    pub fn of_live_streams() -> Refusals {
        Refusals { per_second: 1000.0, most: 1024.0, left: 1024.0, at: None }
    }

    /// Whether one more may leave, which it does then.
    pub fn one_more(&mut self, now: Instant) -> bool {
        let earned = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64() * self.per_second);
        self.left = (self.left + earned).min(self.most);
        self.at = Some(now);
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
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
        let (mut refusals, start) = (Refusals::of_files(), Instant::now());
        let flood = |refusals: &mut Refusals, from: u64| {
            (0..10_000).filter(|i| refusals.one_more(start + Duration::from_micros(from + 100 * i))).count()
        };
        // One second of 10,000.
        assert!((350..=357).contains(&flood(&mut refusals, 0)));
        assert!((95..=101).contains(&flood(&mut refusals, 1_000_000)));
        assert!((350..=357).contains(&flood(&mut refusals, 60_000_000)));
    }
}
