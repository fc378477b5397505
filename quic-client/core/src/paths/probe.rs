// SPDX-License-Identifier: Apache-2.0
//! One validation of one path (RFC 9000 8.2), timed by us, and when to try again.
//!
//! quiche sends a challenge again when the packet with it is lost. It does not when the packet arrived and only the
//! answer was lost, for the acknowledgement comes back over the active path; so a challenge without an answer is asked
//! for again here. quiche reports a validation only once per path: for a path validated before, the answer is seen in
//! the count of packets that came in over it (a server sends nothing else there).

use std::time::{Duration, Instant};

/// RFC 9002 6.2.2: probe timeout of a path of unknown RTT, 333 ms and its four deviations.
const UNKNOWN_PTO: Duration = Duration::from_millis(999);
/// RFC 9000 8.2.4: a validation is given up after three probe timeouts.
const ROUNDS: u32 = 3;
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(16);

/// How long to wait before trying a path again that failed `failures` times in a row.
pub fn back_off(failures: u32) -> Duration {
    RETRY_MIN.saturating_mul(1 << failures.min(10)).min(RETRY_MAX)
}

/// What a validation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An answer.
    Wait,
    /// The challenge should go out again.
    Again,
    /// No answer will come.
    GiveUp,
}

/// A validation under way.
#[derive(Debug, Clone)]
pub struct Probe {
    begun: Instant,
    /// When the last challenge was made into a packet.
    sent: Option<Instant>,
    rounds: u32,
    pto: Duration,
    /// Whether quiche holds the path for validated already, and so will not report it again.
    pub silent: bool,
    /// Whether anything came in over the path since the challenge went out.
    answered: bool,
}

impl Probe {
    /// Begins. `rtt`: what is known of the path's.
    pub fn new(now: Instant, rtt: Option<Duration>, silent: bool) -> Self {
        // RFC 9002 5.3: the first estimate of the deviation is half the RTT.
        let pto = rtt.map_or(UNKNOWN_PTO, |rtt| (rtt * 3).max(Duration::from_millis(50)));
        Probe { begun: now, sent: None, rounds: 1, pto, silent, answered: false }
    }

    /// A packet left on the path. After an answer it was none of ours.
    pub fn packet_sent(&mut self, at: Instant) {
        if !self.answered {
            self.sent = Some(at);
        }
    }

    /// A packet came in over the path.
    pub fn packet_heard(&mut self) {
        self.answered |= self.sent.is_some();
    }

    /// For a silent validation: whether it is done.
    pub fn is_answered(&self) -> bool {
        self.silent && self.answered
    }

    /// The time from the challenge to its answer, `now`.
    pub fn rtt(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.sent.unwrap_or(self.begun))
    }

    /// Whether it has waited long enough for another path's validation to begin beside it.
    pub fn is_late(&self, now: Instant) -> bool {
        now >= self.late_at()
    }

    /// When [`Probe::is_late`] becomes true.
    pub fn late_at(&self) -> Instant {
        self.begun + self.pto.min(UNKNOWN_PTO / 2)
    }

    /// What to do now.
    pub fn step(&mut self, now: Instant) -> Step {
        if now < self.deadline() {
            return Step::Wait;
        }
        if self.rounds == ROUNDS {
            return Step::GiveUp;
        }
        self.rounds += 1;
        Step::Again
    }

    /// When to ask [`Probe::step`] again. A little later than quiche's own timer, so that it goes first.
    pub fn deadline(&self) -> Instant {
        self.sent.unwrap_or(self.begun).max(self.begun) + self.pto * 5 / 4 * self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn timed_from_the_last_challenge_to_the_first_answer() {
        let t0 = Instant::now();
        let mut p = Probe::new(t0, None, true);
        p.packet_heard();
        assert!(!p.is_answered(), "what came before the challenge is no answer");
        p.packet_sent(t0 + 5 * MS);
        p.packet_sent(t0 + 900 * MS);
        p.packet_heard();
        p.packet_sent(t0 + 930 * MS);
        assert!(p.is_answered());
        assert_eq!(p.rtt(t0 + 930 * MS), 30 * MS);
    }

    #[test]
    fn three_rounds_then_no_more() {
        let t0 = Instant::now();
        let mut p = Probe::new(t0, Some(100 * MS), false);
        let mut steps = Vec::new();
        for _ in 0..4 {
            assert_eq!(p.step(p.deadline() - MS), Step::Wait);
            let now = p.deadline();
            steps.push(p.step(now));
            p.packet_sent(now);
        }
        assert_eq!(steps, [Step::Again, Step::Again, Step::GiveUp, Step::GiveUp]);
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits: Vec<_> = (0..8).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]);
        assert_eq!(back_off(u32::MAX), RETRY_MAX);
    }
}
