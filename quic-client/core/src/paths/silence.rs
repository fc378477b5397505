// SPDX-License-Identifier: Apache-2.0
//! Whether the active path still works, judged by how long it has been silent while an answer is due.
//!
//! The unit is the probe timeout (RFC 9002 6.2.1). After a silence of one of them a ping is sent, three times in case
//! it is lost too; a silence of [`LOST_AFTER_QUARTERS`] quarters means that the path is dead. A takeover may cost three
//! probe timeouts: the rest is left for the first packet on the new path. A server that is slow to answer still
//! acknowledges pings, and an acknowledgement ends the silence.

use std::time::{Duration, Instant};

/// Pings per silence: at one probe timeout, and again after each quarter.
const PINGS: u32 = 3;
/// Silence that means death, in quarters of a probe timeout.
const LOST_AFTER_QUARTERS: u32 = 9;

/// Reaction to the silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Patience,
    /// Something must be sent that has to be acknowledged.
    Ping,
    /// The path is dead.
    Lost,
}

/// Silence of the active path.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    since: Option<Instant>,
    pings: u32,
}

impl Watch {
    /// An answer is due from `now` on (`due`), or is not due any more.
    pub fn expect(&mut self, due: bool, now: Instant) {
        match (due, self.since) {
            (true, None) => *self = Watch { since: Some(now), pings: 0 },
            (false, _) => *self = Watch::default(),
            (true, Some(_)) => {}
        }
    }

    /// Whether an answer is due.
    pub fn expects(&self) -> bool {
        self.since.is_some()
    }

    /// A packet came in over the path, or the connection moved: the silence starts again.
    pub fn heard(&mut self, at: Instant) {
        if let Some(since) = self.since {
            *self = Watch { since: Some(since.max(at)), pings: 0 };
        }
    }

    /// Reaction now; returns `Ping` once for each ping.
    pub fn judge(&mut self, now: Instant, pto: Duration) -> Verdict {
        let Some(since) = self.since else { return Verdict::Patience };
        let silence = now.saturating_duration_since(since);
        if silence >= pto * LOST_AFTER_QUARTERS / 4 {
            return Verdict::Lost;
        }
        if self.pings < PINGS && silence >= pto * (4 + self.pings) / 4 {
            self.pings += 1;
            return Verdict::Ping;
        }
        Verdict::Patience
    }

    /// When to judge next, if nothing is heard before.
    pub fn deadline(&self, pto: Duration) -> Option<Instant> {
        let quarters = if self.pings < PINGS { 4 + self.pings } else { LOST_AFTER_QUARTERS };
        self.since.map(|since| since + pto * quarters / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_pings_then_death() {
        let t0 = Instant::now();
        let pto = Duration::from_millis(80);
        let mut w = Watch::default();
        assert_eq!((w.judge(t0, pto), w.deadline(pto)), (Verdict::Patience, None));
        w.expect(true, t0);
        let mut seen = Vec::new();
        let mut now = t0;
        while seen.last() != Some(&(180, Verdict::Lost)) && seen.len() < 9 {
            now = w.deadline(pto).unwrap();
            seen.push(((now - t0).as_millis(), w.judge(now, pto)));
        }
        use Verdict::{Lost, Ping};
        assert_eq!(seen, [(80, Ping), (100, Ping), (120, Ping), (180, Lost)]);
        w.heard(now);
        assert_eq!(w.judge(now + pto / 2, pto), Verdict::Patience);
        w.expect(false, now);
        assert_eq!(w.judge(now + 100 * pto, pto), Verdict::Patience);
    }

    proptest! {
        // Heard once per probe timeout at least: never dead. Silent: dead before three of them.
        #[test]
        fn alive_if_heard_and_dead_before_three(gaps_ms in prop::collection::vec(0u64..100, 1..50), pto_ms in 100u64..900) {
            let pto = Duration::from_millis(pto_ms);
            let mut now = Instant::now();
            let mut w = Watch::default();
            w.expect(true, now);
            for gap in gaps_ms {
                now += Duration::from_millis(gap);
                prop_assert_ne!(w.judge(now, pto), Verdict::Lost);
                w.heard(now);
            }
            let silent_since = now;
            let mut steps = 0;
            loop {
                now = w.deadline(pto).unwrap();
                prop_assert!(now < silent_since + 3 * pto);
                steps += 1;
                prop_assert!(steps < 10, "each deadline leads on");
                if w.judge(now, pto) == Verdict::Lost {
                    break;
                }
            }
        }
    }
}
