// SPDX-License-Identifier: Apache-2.0
//! Limits of a converter's Nacks. Anyone can ask for sessions that there are not, and under any name.

use crate::packet::nack;
use crate::refusals::Refusals;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

/// Of each kind, for all who ask together.
const ALL: Refusals = Refusals::new(1024.0, 1000.0);
/// For one session: more than it asks for at first (its Interests may have overtaken its opening), and then more than
/// the rounds in which the other side comes to believe that the session has ended.
const ONE: Refusals = Refusals::new(32.0, 8.0);
/// Names that are remembered. Another one takes a place with a full bucket: then the budget of all holds.
const NAMES: usize = 1024;

/// Why an Interest is answered by a Nack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// There is no such session.
    Unknown,
    /// It asks a session for what is too far ahead.
    TooFar,
    /// It opens a session, but not as it should.
    Malformed,
    /// It opens a session beyond the limit.
    Full,
}

impl Why {
    pub(super) fn code(self) -> u8 {
        match self {
            Why::Unknown => nack::NO_SUCH_NAME,
            Why::TooFar | Why::Malformed => nack::NO_SUCH_SEGMENT,
            Why::Full => nack::BUSY,
        }
    }
}

/// Rest of the budgets. Its memory is bounded and does not grow.
#[derive(Debug)]
pub(super) struct Budget {
    sessions: Refusals,
    openings: Refusals,
    /// By the low bits of a name's hash: the name, and what is left for it.
    names: Box<[(u64, Refusals)]>,
    /// Source of unpredictable numbers, and how many it drew.
    random: RandomState,
    drawn: u64,
}

impl Budget {
    pub(super) fn new() -> Budget {
        // No name is 0.
        Budget {
            sessions: ALL,
            openings: ALL,
            names: vec![(0, ONE); NAMES].into(),
            random: RandomState::new(),
            drawn: 0,
        }
    }

    /// Whether one more Nack may leave for this name, which it does then.
    pub(super) fn one_more(&mut self, name: u64, why: Why, now: Instant) -> bool {
        if matches!(why, Why::Malformed | Why::Full) {
            let may = self.openings.has_one(now) && self.draw(self.openings.share());
            if may {
                self.openings.take();
            }
            return may;
        }
        let place = &mut self.names[name as usize % NAMES];
        if place.0 != name {
            *place = (name, ONE);
        }
        let may = place.1.has_one(now) && self.sessions.has_one(now) && self.draw(self.sessions.share());
        if may {
            self.names[name as usize % NAMES].1.take();
            self.sessions.take();
        }
        may
    }

    /// Below half of a budget each has a chance only: else who asks without a pause would take each Nack that there is, and who
    /// asks now and then would find none.
    fn draw(&mut self, share: f64) -> bool {
        if share >= 0.5 {
            return true;
        }
        self.drawn += 1;
        let number = (self.random.hash_one(self.drawn) >> 11) as f64 / (1u64 << 53) as f64;
        number < 2.0 * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_name_does_not_use_up_what_is_for_all() {
        let (mut budget, start) = (Budget::new(), Instant::now());
        let ask =
            |budget: &mut Budget, name, i| budget.one_more(name, Why::Unknown, start + i * Duration::from_micros(100));
        // Two seconds of 10,000.
        let sent = (0..20_000).filter(|i| ask(&mut budget, 7, *i)).count();
        assert!((47..=48).contains(&sent), "{sent}");
        // Names that share its place.
        assert!((1..=400).all(|i| ask(&mut budget, 7 + i * 1024, 20_000)));
    }

    #[test]
    fn what_was_not_sent_for_want_of_the_whole_budget_costs_a_name_nothing() {
        let (mut budget, now) = (Budget::new(), Instant::now());
        let sent = (1..=20_000u64).filter(|name| budget.one_more(*name, Why::Unknown, now)).count();
        assert!((1000..=1024).contains(&sent), "{sent}");
        let of_one =
            |budget: &mut Budget, now| (0..1000).filter(|_| budget.one_more(30_000, Why::Unknown, now)).count();
        let before = of_one(&mut budget, now);
        assert!(before <= 24, "{before}");
        let after = of_one(&mut budget, now + Duration::from_secs(1));
        assert_eq!(after, 32.min(40 - before));
    }

    #[test]
    fn who_asks_now_and_then_has_a_chance() {
        let (mut budget, start) = (Budget::new(), Instant::now());
        // 8,000 a second, and just behind one of them 16 for one session each second: an eighth of them is answered.
        let mut answered = 0;
        for i in 0..80_000 {
            let now = start + i * Duration::from_micros(125);
            budget.one_more(u64::from(i) + 1000, Why::Unknown, now);
            if i % 8000 == 4000 {
                answered += (0..16).filter(|_| budget.one_more(7, Why::Unknown, now)).count();
            }
        }
        assert!(answered >= 4, "{answered}");
    }
}
