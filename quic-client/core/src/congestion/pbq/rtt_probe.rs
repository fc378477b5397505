// SPDX-License-Identifier: Apache-2.0
//! [`RttProbe`]: empties the queue now and then, so that the least round-trip time is the path's and not the queue's.
//!
//! Policies keep a few packets in the queue, so a least round-trip time that is forgotten comes back longer, and the
//! queue grows with it. BBR has the same trouble and the same remedy (ProbeRTT); as there, flows that saw the queue
//! empty at the same time look again at the same time.

use std::time::Duration;

/// How often, how long and how deep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probing {
    /// After so long without a round-trip time near the least one.
    pub after: Duration,
    /// For so many intervals.
    pub intervals: u32,
    /// The window is this share of what the path holds without a queue.
    pub share: f64,
}

/// A round-trip time is near the least if it is longer by at most this share.
const NEAR: f64 = 1.0 / 256.0;

/// Whether the window is held down.
#[derive(Debug, Clone)]
pub struct RttProbe {
    probing: Probing,
    unseen_for: Duration,
    intervals_left: u32,
}

impl RttProbe {
    /// At the start the least round-trip time is what was just measured.
    pub fn new(probing: Probing) -> RttProbe {
        RttProbe { probing, unseen_for: Duration::ZERO, intervals_left: 0 }
    }

    /// An interval of this length is over. `least_of_these` is the least round-trip time that it measured, if any, and
    /// `least` the least known, in seconds. The share of the path to use until the next one, while probing.
    pub fn share(&mut self, length: Duration, least_of_these: Option<f64>, least: f64) -> Option<f64> {
        let seen = least_of_these.is_some_and(|rtt| rtt <= least * (1.0 + NEAR));
        self.unseen_for = if seen { Duration::ZERO } else { self.unseen_for.saturating_add(length) };
        if self.intervals_left > 0 {
            self.intervals_left -= 1;
            if self.intervals_left == 0 {
                self.unseen_for = Duration::ZERO; // what was seen now is the least there is
            }
        } else if self.unseen_for >= self.probing.after {
            self.intervals_left = self.probing.intervals;
        }
        (self.intervals_left > 0).then_some(self.probing.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_after_a_while_without_the_least() {
        let probing = Probing { after: Duration::from_millis(300), intervals: 2, share: 0.8 };
        let mut probe = RttProbe::new(probing);
        let mut told = |rtt: Option<f64>| probe.share(Duration::from_millis(100), rtt, 0.050).is_some();
        assert_eq!([Some(0.06), None, Some(0.0501), Some(0.06), Some(0.06)].map(&mut told), [false; 5]);
        assert_eq!([Some(0.06), Some(0.06), Some(0.055)].map(&mut told), [true, true, false]);
        assert_eq!([Some(0.06), Some(0.06), Some(0.06)].map(&mut told), [false, false, true]);
    }
}
