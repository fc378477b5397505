// SPDX-License-Identifier: Apache-2.0
//! One validation of one path (RFC 9000 8.2), timed by us, and when to try again.
//!
//! quiche sends a challenge again when the packet that carried it is lost. If the packet arrived and only the answer
//! was lost, quiche sends none, because the acknowledgement came back over the active path. So a challenge without an
//! answer is repeated here.
//!
//! A path's RTT is the time since the challenge that was answered; quiche knows which that is. If quiche had given that
//! challenge up already, its answer is taken for one to a later challenge, or like any other packet. Then the time
//! counts from the first challenge, and the RTT known before is kept if it is longer. The result may be too long, but
//! never too short (for the reason of RFC 6298 3, Karn's algorithm): with too short an RTT a working path would seem
//! silent.
//!
//! quiche reports a validation only once per path: for a path validated before, the answer is seen in
//! the count of packets that came in over it (a server sends nothing else there).

use crate::backoff::Schedule;
use std::time::{Duration, Instant};

/// RFC 9002 6.2.2: probe timeout of a path of unknown RTT, 333 ms and its four deviations.
const UNKNOWN_PTO: Duration = Duration::from_millis(999);
/// RFC 9000 8.2.4: a validation is given up after three probe timeouts.
const ROUNDS: u32 = 3;
/// An answer to a challenge that is older is not counted with: it would be of a path of no use.
const LATEST_ANSWER: Duration = Duration::from_secs(3);
/// A dead path that comes back is found out within the cap and a round trip: one validation in 5 s costs three packets.
const RETRY: Schedule = Schedule { first: Duration::from_millis(500), cap: Duration::from_secs(5) };

/// Wait before retrying a path that failed `failures` times in a row.
pub fn back_off(failures: u32) -> Duration {
    RETRY.bound(failures)
}

/// Next step of a validation.
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
    /// A challenge was asked for and its packet not seen yet.
    asked: bool,
    /// When the last challenge was made into a packet.
    sent: Option<Instant>,
    /// When the first was; of a validation that failed a moment ago, for its answers may still come.
    first: Option<Instant>,
    rounds: u32,
    pto: Duration,
    /// quiche's count of probe timeouts of the path.
    timeouts: usize,
    /// The path was validated before, and whatever comes in over it shows that it lives; quiche does not report a
    /// second validation.
    before: bool,
    known: Option<Duration>,
    exact: Option<Duration>,
    /// Upper bound of the RTT, if the answer was not to a challenge that quiche knows.
    bound: Option<Duration>,
}

impl Probe {
    /// Begins. `rtt`: the path's, where known. `timeouts`: quiche's count of them on the path. `before`: it was
    /// validated before.
    pub fn new(now: Instant, rtt: Option<Duration>, timeouts: usize, before: bool) -> Self {
        // RFC 9002 5.3: the first estimate of the deviation is half the RTT.
        let pto = rtt.map_or(UNKNOWN_PTO, |rtt| (rtt * 3).max(Duration::from_millis(50)));
        Probe {
            begun: now,
            asked: true,
            sent: None,
            first: None,
            rounds: 1,
            pto,
            timeouts,
            before,
            known: rtt,
            exact: None,
            bound: None,
        }
    }

    /// Packets left on the path. They need not carry a challenge; they do if one was asked for, by us or, after a
    /// timeout, by quiche.
    pub fn packet_sent(&mut self, at: Instant, timeouts: usize) {
        if std::mem::replace(&mut self.asked, false) || timeouts > self.timeouts {
            self.timeouts = timeouts;
            self.sent = Some(at);
            self.first.get_or_insert(at);
        }
    }

    /// A packet came in over the path at this time; `challenge` is when the last challenge that was answered on it had
    /// been sent.
    pub fn packet_heard(&mut self, at: Instant, challenge: Option<Instant>) {
        let (Some(_), Some(first)) = (self.sent, self.first) else { return };
        let since = |sent| at.saturating_duration_since(sent);
        let exact = challenge.filter(|sent| *sent >= self.begun).map(since);
        self.exact = self.exact.or(exact);
        self.bound = self.bound.or(Some(since(first).max(self.known.unwrap_or_default())));
    }

    /// For a validation that follows one that failed.
    pub fn after(mut self, failed: Option<&Probe>) -> Self {
        let earliest = self.begun.checked_sub(LATEST_ANSWER);
        self.first = failed.and_then(|p| p.first.max(p.sent.and(earliest)));
        self
    }

    /// For a path validated before: whether it is done. If the packet that came in may have been none of those that
    /// are waited for, the right one has a round's time; none in a `hurry`.
    pub fn is_answered(&self, now: Instant, hurry: bool) -> bool {
        let waited = hurry || now >= self.begun + self.pto * 5 / 4;
        self.before && (self.exact.is_some() || self.bound.is_some() && waited)
    }

    /// The time from the challenge to its answer, which came `now` if it was not heard before.
    pub fn rtt(&self, now: Instant) -> Duration {
        let first = self.first.unwrap_or(self.begun);
        self.exact.or(self.bound).unwrap_or_else(|| now.saturating_duration_since(first))
    }

    /// When an answer would be there if the path's round-trip time were this one. Not from when it began: its packet
    /// may have waited.
    pub fn answer_by(&self, rtt: Duration) -> Instant {
        self.sent.unwrap_or(self.begun) + rtt + Duration::from_millis(1)
    }

    /// When it has waited long enough for another path's validation to begin beside it.
    pub fn late_at(&self) -> Instant {
        self.begun + self.pto.min(UNKNOWN_PTO / 2)
    }

    /// Next step now.
    pub fn step(&mut self, now: Instant) -> Step {
        if now < self.deadline() {
            return Step::Wait;
        }
        if self.rounds == ROUNDS {
            return Step::GiveUp;
        }
        self.rounds += 1;
        // quiche may have sent it again a moment ago.
        if self.sent.is_some_and(|sent| now < sent + self.pto) {
            return Step::Wait;
        }
        self.asked = true;
        Step::Again
    }

    /// When to ask [`Probe::step`] again. A little later than quiche's own timer, so that it goes first.
    pub fn deadline(&self) -> Instant {
        self.begun + self.pto * 5 / 4 * self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn timed_from_the_challenge_that_was_answered() {
        let t0 = Instant::now();
        let mut p = Probe::new(t0, None, 3, true);
        p.packet_heard(t0 + MS, None);
        assert!(!p.is_answered(t0 + MS, true), "what came before the challenge is no answer");
        p.packet_sent(t0 + 5 * MS, 3);
        p.packet_sent(t0 + 300 * MS, 3);
        p.packet_sent(t0 + 900 * MS, 4);
        assert_eq!(p.step(p.deadline()), Step::Wait, "sent again by quiche just now");
        assert_eq!(p.step(p.deadline()), Step::Again);
        let mut late = p.clone();
        p.packet_heard(t0 + 930 * MS, Some(t0 + 900 * MS));
        assert!(p.is_answered(t0 + 930 * MS, false));
        assert_eq!(p.rtt(t0 + 990 * MS), 30 * MS);
        // Not to one that quiche knows, and the last that it knows of is an earlier validation's: it may be to the
        // first, and is taken for that.
        late.packet_heard(t0 + 901 * MS, Some(t0 - MS));
        assert_eq!(late.rtt(t0 + 990 * MS), 896 * MS);
        let mut stray = Probe::new(t0, Some(70 * MS), 0, true);
        stray.packet_sent(t0, 0);
        stray.packet_heard(t0 + MS, None);
        assert_eq!(stray.rtt(t0 + 90 * MS), 70 * MS, "no answer at all, perhaps");
        assert!(stray.is_answered(t0 + MS, true) && !stray.is_answered(t0 + MS, false));
        let mut next = Probe::new(t0 + 500 * MS, Some(MS), 0, true).after(Some(&stray));
        next.packet_sent(t0 + 500 * MS, 0);
        next.packet_heard(t0 + 501 * MS, None);
        assert_eq!(next.rtt(t0 + 600 * MS), 501 * MS, "to a challenge of the validation before");
        let mut last = Probe::new(t0 + 9000 * MS, Some(MS), 0, true).after(Some(&stray));
        last.packet_sent(t0 + 9000 * MS, 0);
        last.packet_heard(t0 + 9001 * MS, None);
        assert_eq!(last.rtt(t0 + 9600 * MS), 3001 * MS);
    }

    #[test]
    fn three_rounds_then_no_more() {
        let t0 = Instant::now();
        let mut p = Probe::new(t0, Some(100 * MS), 0, false);
        p.packet_sent(t0, 0);
        let mut steps = Vec::new();
        for _ in 0..4 {
            assert_eq!(p.step(p.deadline() - MS), Step::Wait);
            let now = p.deadline();
            steps.push(p.step(now));
            p.packet_sent(now, 0);
        }
        assert_eq!(steps, [Step::Again, Step::Again, Step::GiveUp, Step::GiveUp]);
        assert_eq!(p.deadline(), t0 + 1125 * MS);
    }

    #[test]
    fn what_quiche_sent_again_is_not_sent_again() {
        let t0 = Instant::now();
        let mut p = Probe::new(t0, Some(100 * MS), 0, false);
        p.packet_sent(t0, 0);
        p.packet_sent(t0 + 300 * MS, 1);
        assert_eq!(p.step(p.deadline()), Step::Wait);
        assert_eq!(p.step(p.deadline()), Step::Again);
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits: Vec<_> = (0..8).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 5000, 5000, 5000, 5000]);
        assert_eq!(back_off(u32::MAX), RETRY.cap);
    }
}
