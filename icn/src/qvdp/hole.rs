// SPDX-License-Identifier: Apache-2.0
//! A lost segment that is asked for again (reliable): when, and for how long.

use super::LONGEST;
use std::time::{Duration, Instant};

/// Others wait no longer than this for a segment that is known to be lost, but so many times it is asked for.
const HELD_TIME: Duration = Duration::from_secs(1);
const TRIES: u32 = 5;
/// It is asked for again no sooner: switches take a lifetime below 1 ms for 1 ms (icn.md, PIT).
const LEAST_WAIT: Duration = Duration::from_millis(2);
/// A segment that a switch rejected is asked for again after this part of the wait for an answer.
const REFUSED_SHARE: u32 = 4;

#[derive(Debug)]
pub(super) struct Hole {
    since: Instant,
    pub(super) ask_at: Instant,
    /// Wait for the answer to the last asking, or to the first.
    wait: Duration,
    tries: u32,
    /// When it was asked for first, of those askings that no switch refused.
    asked_at: Option<Instant>,
    refused: bool,
}

impl Hole {
    /// It is known since `now` to be lost. If it was asked for again at `again_at`, the answer to that is waited for.
    pub(super) fn new(now: Instant, again_at: Option<Instant>, round_trip: Duration) -> Hole {
        let wait = round_trip.clamp(LEAST_WAIT, LONGEST);
        Hole {
            since: now,
            ask_at: again_at.map_or(now, |at| at + wait),
            wait,
            tries: 0,
            asked_at: None,
            refused: false,
        }
    }

    /// It is asked for now. Gives how long ago it was asked for before, as far as switches may remember.
    pub(super) fn asked(&mut self, now: Instant) -> Duration {
        // The first time it was asked for long ago. A rejected segment is in no switch, and this is how long its place
        // is taken.
        let before = self.wait;
        if self.tries > 0 && !self.refused {
            // The round trip may have become longer than what is known of it.
            self.wait = (2 * self.wait).min(LONGEST);
        }
        self.refused = false;
        self.tries += 1;
        self.asked_at.get_or_insert(now);
        self.ask_at = now + self.wait;
        before
    }

    /// A switch's set was full. Places become free all the time, and what is older gives way.
    pub(super) fn refused(&mut self, now: Instant) {
        if self.tries > 0 && !self.refused {
            self.refused = true;
            self.asked_at = None;
            self.ask_at = now + (self.wait / REFUSED_SHARE).max(LEAST_WAIT);
        }
    }

    /// Whether it is waited for no longer: not while the last answer may be on its way.
    pub(super) fn is_hopeless(&self, now: Instant) -> bool {
        self.tries >= TRIES && self.since + HELD_TIME <= now && self.ask_at <= now
    }

    /// Whether it was asked for since it was known to be lost.
    pub(super) fn was_asked(&self) -> bool {
        self.tries > 0
    }

    /// From asking to now. The answer may be to any of several askings (Karn): the first is taken. Else a queue that
    /// has grown would never be noticed, and each hole would be asked for many times.
    pub(super) fn response(&self, now: Instant) -> Option<Duration> {
        self.asked_at.map(|at| now.saturating_duration_since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    #[test]
    fn waits_double_and_it_becomes_hopeless() {
        let start = Instant::now();
        let mut hole = Hole::new(start, None, ROUND_TRIP);
        let (mut now, mut asked) = (start, Vec::new());
        while !hole.is_hopeless(now) {
            asked.push(((now - start).as_millis(), hole.asked(now).as_millis()));
            assert!(!hole.is_hopeless(hole.ask_at - LEAST_WAIT), "the last answer is waited for");
            now = hole.ask_at;
        }
        // After 20, 40, 80 ms and so on; each with the time since it was asked before.
        assert_eq!(asked, [(0, 20), (20, 20), (60, 40), (140, 80), (300, 160), (620, 320)]);
        assert_eq!(hole.response(now), Some(now - start));
    }

    #[test]
    fn what_was_refused_is_asked_again_soon_and_not_for_ever() {
        let start = Instant::now();
        let mut hole = Hole::new(start, None, ROUND_TRIP);
        let (mut now, mut asked) = (start, 0);
        while !hole.is_hopeless(now) {
            hole.asked(now);
            assert_eq!(hole.response(now), Some(Duration::ZERO));
            hole.refused(now);
            // Of one asking of many segments several switches may refuse some.
            hole.refused(now);
            asked += 1;
            now = hole.ask_at;
        }
        assert_eq!((asked, now - start), (200, Duration::from_secs(1)));
        let _ = hole.asked(now);
        assert_eq!(hole.ask_at, now + ROUND_TRIP, "it waits for an answer as at first");
    }

    #[test]
    fn what_comes_before_it_was_asked_for_says_nothing_of_the_way() {
        let start = Instant::now();
        let mut hole = Hole::new(start, Some(start), ROUND_TRIP);
        hole.refused(start);
        assert_eq!((hole.was_asked(), hole.response(start)), (false, None));
        assert_eq!(hole.ask_at, start + ROUND_TRIP);
    }
}
