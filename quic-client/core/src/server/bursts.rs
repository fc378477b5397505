// SPDX-License-Identifier: Apache-2.0
//! [`Bursts`]: an application that has so many bytes more to send at regular times.

use std::time::{Duration, Instant};

/// Schedule of a request for bursts. The first burst is due at once.
pub struct Bursts {
    bytes: u64,
    every: Duration,
    begun: Option<Instant>,
    sent_bytes: u64,
}

impl Bursts {
    /// `bytes` each time, from one time to the next `every`; neither is 0.
    pub fn new(bytes: u64, every: Duration) -> Bursts {
        Bursts { bytes, every, begun: None, sent_bytes: 0 }
    }

    /// Bytes to send now: all bursts that are due, less those sent.
    pub fn due_bytes(&mut self, now: Instant) -> u64 {
        self.bytes.saturating_mul(self.passed(now) + 1).saturating_sub(self.sent_bytes)
    }

    /// So much of it was sent.
    pub fn sent(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// When there will be more.
    pub fn next(&mut self, now: Instant) -> Instant {
        let begun = *self.begun.get_or_insert(now);
        let into = now.saturating_duration_since(begun).as_nanos() % self.every.as_nanos().max(1);
        let rest = self.every.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(u64::MAX)));
        now.max(begun) + rest
    }

    // Whole times from the first burst to now.
    fn passed(&mut self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(*self.begun.get_or_insert(now));
        u64::try_from(since.as_nanos() / self.every.as_nanos().max(1)).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_grows_by_a_burst_each_time() {
        let (begin, ms) = (Instant::now(), Duration::from_millis(1));
        let mut bursts = Bursts::new(1000, 100 * ms);
        assert_eq!((bursts.due_bytes(begin), bursts.next(begin)), (1000, begin + 100 * ms));
        bursts.sent(400);
        assert_eq!(bursts.due_bytes(begin + 99 * ms), 600);
        // Unsent bytes remain due.
        assert_eq!(bursts.due_bytes(begin + 100 * ms), 1600);
        assert_eq!(bursts.next(begin + 250 * ms), begin + 300 * ms);
        bursts.sent(1600);
        assert_eq!(bursts.due_bytes(begin + 199 * ms), 0);
        assert_eq!(bursts.due_bytes(begin + 200 * ms), 1000);
    }

    #[test]
    fn the_next_time_is_always_in_the_future() {
        let (begin, ms) = (Instant::now(), Duration::from_millis(1));
        let mut bursts = Bursts::new(1, ms);
        assert_eq!(bursts.due_bytes(begin), 1);
        let most = u64::from(u32::MAX); // 49.7 days
        for times in [0, 1, most - 1, most, most + 1, 3 * most] {
            let now = begin + Duration::from_millis(times) + ms / 2;
            assert_eq!(bursts.next(now), now + ms / 2, "{times}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_takes_nothing_away() {
        let (begin, ms) = (Instant::now() + Duration::from_secs(10), Duration::from_millis(1));
        let mut bursts = Bursts::new(1, ms);
        assert_eq!(bursts.due_bytes(begin), 1);
        assert_eq!(bursts.due_bytes(begin - 5 * ms), 1);
        assert!(Bursts::new(u64::MAX, ms).due_bytes(begin) == u64::MAX);
    }
}
