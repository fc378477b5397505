// SPDX-License-Identifier: Apache-2.0
//! [`RttProbe`]: empties the queue now and then, so that the least round-trip time is the path's and not the queue's.
//!
//! Policies keep a few packets in the queue, so a least round-trip time that is forgotten comes back longer, and the
//! queue grows with it. BBR has the same trouble and the same remedy (ProbeRTT); as there, flows that saw the queue
//! empty at the same time look again at the same time.
//!
//! A path that became longer resembles a queue: the policy shrinks its window, and nothing gets shorter. So a flow that
//! carries much less than before probes early, and a round trip that it can't shorten by leaving is taken for the
//! path's.

use std::time::Duration;

/// Period, length and depth of the probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probing {
    /// After so long without a round-trip time near the least one.
    pub after: Duration,
    /// For so many intervals.
    pub intervals: u32,
    /// The window is this share of the path's content without a queue.
    pub share: f64,
}

/// A round-trip time is near the least if it is longer by at most this share.
const NEAR: f64 = 1.0 / 256.0;
/// An early probe: the rate is below this share of the greatest in memory,
const SLOW: f64 = 0.5;
/// each round-trip time is longer than the least by this factor,
const LONG: f64 = 1.1;
/// in so many intervals in a row,
const SLOW_INTERVALS: u32 = 5;
/// and the last probe is so long ago.
const APART: Duration = Duration::from_secs(2);
/// A round-trip time did not get shorter if it kept all but this share. Of N flows that share a queue one that leaves half
/// of its window takes a share of 1 / (2 N).
const SHORTER: f64 = 1.0 / 64.0;
/// Effects of a held window show a round trip later, and have ended after so many round trips.
const ROUND_TRIPS: f64 = 1.25;

/// An interval that is over.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// Its length.
    pub length: Duration,
    /// The least round-trip time that it measured, if any, in seconds.
    pub least_of_these_s: Option<f64>,
    /// The least one known, in seconds.
    pub least_s: f64,
    /// Its mean round-trip time, in seconds.
    pub mean_s: f64,
    /// Its rate over the greatest in memory.
    pub rate_ratio: f64,
}

/// Phase until the next interval is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// The policy's window, by its decisions.
    Off,
    /// The window is this share of the path's content.
    Holding(f64),
    /// The window that there was before: measurements are still of the probe.
    Settling,
}

/// When the window is held down, and the result of that.
#[derive(Debug, Clone)]
pub struct RttProbe {
    probing: Probing,
    phase: Phase,
    unseen_for: Duration,
    slow_intervals: u32,
    /// Since the last probe ended.
    idle_for: Duration,
    early: bool,
    intervals_left: u32,
    settling_for: Duration,
    /// The least round-trip time of the interval before the probe, and of those since.
    before_s: f64,
    since_s: f64,
}

impl RttProbe {
    /// At the start the least round-trip time is the one just measured.
    pub fn new(probing: Probing) -> RttProbe {
        RttProbe {
            probing,
            phase: Phase::Off,
            unseen_for: Duration::ZERO,
            slow_intervals: 0,
            idle_for: Duration::ZERO,
            early: false,
            intervals_left: 0,
            settling_for: Duration::ZERO,
            before_s: 0.0,
            since_s: f64::INFINITY,
        }
    }

    /// An interval is over: the phase from now on, and in seconds a round-trip time that turned out to be the path's
    /// own, though a shorter one is known.
    pub fn on_interval(&mut self, past: &Past) -> (Phase, Option<f64>) {
        let least_s = past.least_of_these_s.unwrap_or(f64::INFINITY);
        let seen = least_s <= past.least_s * (1.0 + NEAR);
        self.unseen_for = if seen { Duration::ZERO } else { self.unseen_for.saturating_add(past.length) };
        let mut longer = None;
        match self.phase {
            Phase::Off => self.wait(past, least_s),
            Phase::Holding(_) => {
                self.since_s = self.since_s.min(least_s);
                self.intervals_left -= 1;
                if self.intervals_left == 0 {
                    (self.phase, self.settling_for) = (Phase::Settling, Duration::ZERO);
                }
            }
            Phase::Settling => {
                self.since_s = self.since_s.min(least_s);
                self.settling_for = self.settling_for.saturating_add(past.length);
                if self.settling_for.as_secs_f64() >= ROUND_TRIPS * past.mean_s {
                    longer = self.end(past.least_s);
                }
            }
        }
        (self.phase, longer)
    }

    fn wait(&mut self, past: &Past, least_s: f64) {
        self.idle_for = self.idle_for.saturating_add(past.length);
        let slow = past.rate_ratio < SLOW && least_s.is_finite() && least_s > past.least_s * LONG;
        self.slow_intervals = if slow { self.slow_intervals + 1 } else { 0 };
        let due = self.unseen_for >= self.probing.after;
        self.early = self.slow_intervals >= SLOW_INTERVALS && self.idle_for >= APART;
        if due || self.early {
            self.phase = Phase::Holding(self.probing.share);
            self.intervals_left = self.probing.intervals;
            (self.before_s, self.since_s) = (least_s, f64::INFINITY);
        }
    }

    /// A probe is over.
    fn end(&mut self, known_s: f64) -> Option<f64> {
        let stayed = self.before_s.is_finite() && self.since_s >= self.before_s * (1.0 - SHORTER);
        let longer = self.early && stayed && self.since_s.is_finite() && self.since_s > known_s * (1.0 + NEAR);
        (self.phase, self.idle_for, self.slow_intervals) = (Phase::Off, Duration::ZERO, 0);
        self.unseen_for = Duration::ZERO; // the least is the one just measured
        longer.then_some(self.since_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBING: Probing = Probing { after: Duration::from_millis(300), intervals: 2, share: 0.8 };

    fn past(least_ms: Option<f64>, rate_ratio: f64) -> Past {
        let least_of_these_s = least_ms.map(|ms| ms / 1e3);
        let mean_s = least_of_these_s.unwrap_or(0.06);
        Past { length: Duration::from_millis(100), least_of_these_s, least_s: 0.05, mean_s, rate_ratio }
    }

    #[test]
    fn it_looks_after_a_while_without_the_least() {
        let mut probe = RttProbe::new(PROBING);
        let mut told = |ms: Option<f64>| probe.on_interval(&past(ms, 1.0)).0;
        let (off, held, settling) = (Phase::Off, Phase::Holding(0.8), Phase::Settling);
        assert_eq!([Some(60.0), None, Some(50.1), Some(60.0), Some(60.0)].map(&mut told), [off; 5]);
        assert_eq!([Some(60.0), Some(60.0), Some(55.0), Some(60.0)].map(&mut told), [held, held, settling, off]);
        assert_eq!([Some(60.0), Some(60.0), Some(60.0)].map(&mut told), [off, off, held]);
    }

    /// Early probe's result for round-trip times of 80 ms, where 50 are known, that were `held_ms` while it was held.
    fn early(held_ms: f64) -> (usize, Option<f64>) {
        let mut probe = RttProbe::new(Probing { after: Duration::from_secs(8), intervals: 1, share: 0.5 });
        for n in 0..60 {
            let ms = if probe.phase == Phase::Off { 80.0 } else { held_ms };
            let was = probe.phase;
            let (now, longer) = probe.on_interval(&past(Some(ms), 0.3));
            if was == Phase::Settling && now == Phase::Off {
                return (n, longer);
            }
        }
        panic!("it never looked");
    }

    #[test]
    fn what_leaving_does_not_shorten_is_the_path() {
        assert_eq!(early(80.0), (21, Some(0.08)));
        assert_eq!(early(79.0), (21, Some(0.079)));
        assert_eq!(early(75.0), (21, None)); // a queue, others' too
        assert_eq!(early(50.0), (21, None));
    }

    #[test]
    fn a_flow_that_is_not_slow_does_not_look_early() {
        let mut probe = RttProbe::new(Probing { after: Duration::from_secs(8), ..PROBING });
        assert!((0..79).all(|_| probe.on_interval(&past(Some(80.0), 0.6)).0 == Phase::Off));
        assert_eq!(probe.on_interval(&past(Some(80.0), 0.6)).0, Phase::Holding(0.8));
        let mut probe = RttProbe::new(Probing { after: Duration::from_secs(8), ..PROBING });
        assert!((0..79).all(|_| probe.on_interval(&past(Some(54.0), 0.1)).0 == Phase::Off));
    }
}
