// SPDX-License-Identifier: Apache-2.0
//! Throughput advice as a limit of the connection's receive window: the peer may send what the advised rate has made up
//! to now. The sender then waits for MAX_DATA, and its mean rate is the advised one whatever the round-trip time.

use std::time::{Duration, Instant};

/// Advice is of UDP datagrams and their headers; payload is so much of it with full packets.
const PAYLOAD_SHARE: f64 = 0.95;
/// Step of the limit: so much time of the rate, two packets at least.
const STEP: Duration = Duration::from_millis(5);
const LEAST_STEP_BYTES: u64 = 2 * 1350;
/// A pause leaves no more to be sent at once than this time of the rate.
const MOST_SAVED: Duration = Duration::from_secs(1);

/// Limit of received bytes that grows with time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    rate_bit_s: u64,
    bytes_s: f64,
    start: Instant,
    start_bytes: u64,
}

impl Pace {
    /// From now on, after so many bytes.
    pub fn new(rate_bit_s: u64, start_bytes: u64, start: Instant) -> Self {
        Pace { rate_bit_s, bytes_s: rate_bit_s as f64 / 8.0 * PAYLOAD_SHARE, start, start_bytes }
    }

    /// The pace for advice of this rate; the same one if that is unchanged.
    pub fn at_rate(self, rate_bit_s: u64, now: Instant) -> Self {
        if rate_bit_s == self.rate_bit_s { self } else { Pace::new(rate_bit_s, self.limit_bytes(now), now) }
    }

    /// The advised rate.
    pub fn rate_bit_s(&self) -> u64 {
        self.rate_bit_s
    }

    /// The limit after a pause.
    pub fn after_pause(self, received_bytes: u64, now: Instant) -> Self {
        let most = received_bytes.saturating_add((self.bytes_s * MOST_SAVED.as_secs_f64()) as u64);
        if self.limit_bytes(now) > most { Pace::new(self.rate_bit_s, most, now) } else { self }
    }

    /// Bytes that may have been received until now, over all of the connection's time.
    pub fn limit_bytes(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start).as_secs_f64();
        self.start_bytes.saturating_add((self.bytes_s * elapsed) as u64)
    }

    /// Least rise of the limit.
    pub fn step_bytes(&self) -> u64 {
        ((self.bytes_s * STEP.as_secs_f64()) as u64).max(LEAST_STEP_BYTES)
    }

    /// Whether an advertised limit is a step behind.
    pub fn is_due(&self, advertised_bytes: u64, now: Instant) -> bool {
        self.limit_bytes(now) >= advertised_bytes.saturating_add(self.step_bytes())
    }

    /// When that will be so.
    pub fn due(&self, advertised_bytes: u64) -> Option<Instant> {
        let wanted = advertised_bytes.saturating_add(self.step_bytes()).saturating_sub(self.start_bytes);
        let after = Duration::try_from_secs_f64((wanted as f64 + 1.0) / self.bytes_s.max(1.0)).ok()?;
        // rounded up: a nanosecond of the highest rate is some bytes
        self.start.checked_add(after.max(Duration::from_millis(1)) + Duration::from_nanos(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rate_is_that_of_the_advice() {
        let start = Instant::now();
        let pace = Pace::new(8_000_000, 1000, start);
        assert_eq!(pace.limit_bytes(start), 1000);
        assert_eq!(pace.limit_bytes(start + Duration::from_secs(10)), 9_501_000);
        let slower = pace.at_rate(800_000, start + Duration::from_secs(10));
        assert_eq!(slower.limit_bytes(start + Duration::from_secs(20)), 9_501_000 + 950_000);
        assert_eq!(pace.at_rate(8_000_000, start + Duration::from_secs(5)), pace);
    }

    #[test]
    fn a_limit_is_due_at_its_time() {
        let start = Instant::now();
        for rate_bit_s in [100_000, 8_000_000, 199_526_231_400] {
            let pace = Pace::new(rate_bit_s, 5000, start);
            let due = pace.due(70_000).expect("a time");
            assert!(pace.is_due(70_000, due), "{rate_bit_s}");
            assert!(!pace.is_due(70_000, start));
        }
    }

    #[test]
    fn a_pause_saves_one_second() {
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        let pace = Pace::new(8_000_000, 0, start).after_pause(4000, later);
        assert_eq!(pace.limit_bytes(later), 4000 + 950_000);
    }
}
