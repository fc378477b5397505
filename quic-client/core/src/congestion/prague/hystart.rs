// SPDX-License-Identifier: Apache-2.0
//! [`HyStart`]: the end of slow start by delay (RFC 9406), for queues that do not mark.

use std::time::Duration;

/// RFC 9406 4.3.
const SAMPLES: u32 = 8;
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);
const RISE_SHARE: u32 = 8;
const CONSERVATIVE_ROUNDS: u32 = 5;
/// Divisor of the window's growth in conservative slow start.
pub const CONSERVATIVE: f64 = 4.0;

/// Round-trip times of the slow start.
#[derive(Debug, Clone, Default)]
pub struct HyStart {
    least_before: Option<Duration>,
    least: Option<Duration>,
    samples: u32,
    /// Conservative slow start: the least time of the round that caused it, and its rounds.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    /// Round-trip times were measured, with this least one.
    pub fn sample(&mut self, count: u32, least: Duration) {
        let least = self.least.map_or(least, |before| before.min(least));
        self.least = Some(least);
        self.samples = self.samples.saturating_add(count);
        if self.samples < SAMPLES {
            return;
        }
        if let Some((baseline, _)) = self.conservative {
            if least < baseline {
                self.conservative = None;
            }
        } else if let Some(before) = self.least_before {
            let rise = (before / RISE_SHARE).clamp(LEAST_RISE, MOST_RISE);
            if least >= before + rise {
                self.conservative = Some((least, 0));
            }
        }
    }

    /// A round trip is over. Whether slow start is over.
    pub fn end_round(&mut self) -> bool {
        if let Some(least) = self.least.take() {
            self.least_before = Some(least);
        }
        self.samples = 0;
        match &mut self.conservative {
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds >= CONSERVATIVE_ROUNDS
            }
            None => false,
        }
    }

    /// Whether the window grows by a part only.
    pub fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_rising_delay_ends_slow_start_five_rounds_later() {
        let mut start = HyStart::default();
        start.sample(8, 40 * MS);
        assert!(!start.end_round());
        start.sample(8, 44 * MS);
        assert!(!start.is_conservative());
        assert!(!start.end_round());
        start.sample(7, 50 * MS);
        assert!(!start.is_conservative());
        start.sample(1, 50 * MS);
        assert!(start.is_conservative());
        let over: Vec<bool> = (0..5).map(|_| start.end_round()).collect();
        assert_eq!(over, [false, false, false, false, true]);
    }

    #[test]
    fn a_delay_that_falls_again_continues_slow_start() {
        let mut start = HyStart::default();
        start.sample(8, 40 * MS);
        start.end_round();
        start.sample(8, 60 * MS);
        assert!(start.is_conservative());
        start.end_round();
        start.sample(8, 41 * MS);
        assert!(!start.is_conservative());
    }
}
