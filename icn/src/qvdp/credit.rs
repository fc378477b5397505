// SPDX-License-Identifier: Apache-2.0
//! Number of Interests to keep outstanding: more than the other side uses in a round trip, and few at rest.

use std::time::{Duration, Instant};

/// The number at first and at rest: an initial window of QUIC (RFC 9002 7.2, 10 datagrams) leaves at once.
pub(super) const LEAST: u32 = 16;
/// The largest number.
pub(super) const MOST: u32 = 1024;
/// Data of a shorter time than this is one burst.
const LEAST_WINDOW: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// After so many round trips under load the number falls to little more than what the busiest of them used: each Interest takes a
/// place in the switches, and the fuller their sets are, the more often one gives way to another, and a datagram is lost.
const TRIM_ROUNDS: u32 = 8;

#[derive(Debug)]
pub(super) struct Credit {
    size: u32,
    grown_at: Option<Instant>,
    window_start: Instant,
    /// Data in the present window of one round trip and in the one before, and the most of any window in the present second.
    used: u32,
    used_before: u32,
    /// The number when the present window began: it grows to twice that at most.
    size_before: u32,
    most_used: u32,
    second_start: Instant,
    /// The same since the number was trimmed last.
    trimmed_at: Instant,
    busiest: u32,
    /// It grows only when a datagram waits.
    trimmed: bool,
}

impl Credit {
    pub(super) fn new(now: Instant) -> Credit {
        Credit {
            size: LEAST,
            grown_at: None,
            window_start: now,
            used: 0,
            used_before: 0,
            size_before: LEAST,
            most_used: 0,
            second_start: now,
            trimmed_at: now,
            busiest: 0,
            trimmed: false,
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Data arrived, which waited for its Interest or not. Twice what the last round trip used is kept at first, so that a sender
    /// that doubles its window each round trip (slow start) does not wait. More would only take places in the switches.
    pub(super) fn data(&mut self, waited: bool, round_trip: Duration, now: Instant) {
        self.age(now);
        let window = round_trip.max(LEAST_WINDOW);
        let passed = now.saturating_duration_since(self.window_start);
        if passed >= window {
            self.used_before = if passed < 2 * window { self.used } else { 0 };
            (self.window_start, self.used, self.size_before) = (now, 0, self.size);
        }
        self.used += 1;
        self.most_used = self.most_used.max(self.used);
        self.busiest = self.busiest.max(self.used);
        if now.saturating_duration_since(self.trimmed_at) >= TRIM_ROUNDS * window {
            // With less it is at rest, and may burst again.
            if self.busiest >= LEAST {
                self.size = self.size.min(self.busiest + self.busiest / 4 + LEAST);
                self.trimmed = true;
            }
            (self.trimmed_at, self.busiest) = (now, 0);
        }
        if waited && self.grown_at.is_none_or(|at| now.saturating_duration_since(at) >= round_trip) {
            self.size = (2 * self.size).min(MOST);
            self.trimmed = false;
            self.grown_at = Some(now);
        } else if !self.trimmed {
            // A burst may lie in two windows.
            let passed = now.saturating_duration_since(self.window_start).as_secs_f64();
            let before = f64::from(self.used_before) * (1.0 - passed / window.as_secs_f64()).max(0.0);
            self.size = self.size.max((2 * (self.used + before as u32)).min(2 * self.size_before)).min(MOST);
        }
    }

    /// A switch's set was full for this one. Sets of two ways are full by chance where there are thousands of entries.
    pub(super) fn crowded(&mut self) {
        self.size = (self.size - 1).max(LEAST);
    }

    /// A switch takes no more from this port.
    pub(super) fn refused(&mut self, round_trip: Duration, now: Instant) {
        if self.grown_at.is_none_or(|at| now.saturating_duration_since(at) >= round_trip) {
            self.size = (self.size / 2).max(LEAST);
            self.grown_at = Some(now);
            // The use so far does not show how much there may be.
            self.trimmed = true;
        }
    }

    /// Halves the number for each second in which less than a quarter was used.
    pub(super) fn age(&mut self, now: Instant) {
        while self.size > LEAST && now.saturating_duration_since(self.second_start) >= SECOND {
            if 4 * self.most_used < self.size {
                self.size = (self.size / 2).max(LEAST);
            }
            self.second_start += SECOND;
            self.most_used = 0;
        }
        if self.size == LEAST && now.saturating_duration_since(self.second_start) >= SECOND {
            (self.second_start, self.most_used) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    #[test]
    fn slow_start_finds_twice_what_it_used() {
        let mut now = Instant::now();
        let mut credit = Credit::new(now);
        for window in [10, 20, 40, 80, 160, 320] {
            assert!(credit.size() >= window, "{window} datagrams, {} Interests", credit.size());
            for _ in 0..window {
                credit.data(false, ROUND_TRIP, now);
            }
            now += ROUND_TRIP;
        }
        for _ in 0..10_000 {
            credit.data(true, Duration::ZERO, now);
        }
        assert_eq!(credit.size(), MOST);
    }

    #[test]
    fn it_doubles_once_a_round_trip_and_shrinks_at_rest() {
        let now = Instant::now();
        let mut credit = Credit::new(now);
        for _ in 0..100 {
            credit.data(true, ROUND_TRIP, now);
        }
        assert_eq!(credit.size(), 2 * LEAST);
        credit.data(true, ROUND_TRIP, now + ROUND_TRIP);
        assert_eq!(credit.size(), 4 * LEAST);
        credit.age(now + Duration::from_millis(1900));
        assert_eq!(credit.size(), 4 * LEAST, "more than a quarter was used in the first second");
        credit.age(now + Duration::from_secs(3));
        assert_eq!(credit.size(), LEAST);
        credit.age(now + Duration::from_secs(3600));
        assert_eq!(credit.size(), LEAST);
    }

    #[test]
    fn after_a_burst_it_falls_to_what_is_used() {
        let mut now = Instant::now();
        let mut credit = Credit::new(now);
        for round in 0..40 {
            let used = if round < 9 { 10 << round.min(6) } else { 100 };
            for _ in 0..used {
                credit.data(false, ROUND_TRIP, now);
            }
            now += ROUND_TRIP;
        }
        assert_eq!(credit.size(), 100 + 25 + LEAST);
    }

    #[test]
    fn a_refusal_halves_it_once_a_round_trip() {
        let now = Instant::now();
        let mut credit = Credit::new(now);
        (0..6u32).for_each(|i| credit.data(true, ROUND_TRIP, now + i * ROUND_TRIP));
        let before = credit.size();
        (0..9).for_each(|_| credit.refused(ROUND_TRIP, now + 6 * ROUND_TRIP));
        assert_eq!(credit.size(), before / 2);
        // Data that was asked for before is still on its way.
        (0..before).for_each(|_| credit.data(true, ROUND_TRIP, now + 6 * ROUND_TRIP));
        (0..before).for_each(|_| credit.data(false, ROUND_TRIP, now + 7 * ROUND_TRIP));
        assert_eq!(credit.size(), before / 2);
    }
}
