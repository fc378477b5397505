// SPDX-License-Identifier: Apache-2.0
//! [`Trial`]: shows whose queue it is. The window is below the path's content; a queue that stays is that of others.

use std::time::{Duration, Instant};

/// Length in RTTs: one drains the queue, one brings the acknowledgements of that.
const RTTS: f64 = 3.0;
/// A queue of which less than this share is left at the end is given as long again: others may have joined later.
const FALLEN_SHARE: f64 = 0.35;
/// The queue has ended if this share of it is left, or this share of the path's RTT.
const GONE_SHARE: f64 = 0.12;
const GONE_RTTS: f64 = 0.05;
/// Beside heavy losses. BBR's queue varies, and to be alone beside it costs more.
const GONE_SHARE_LOSSY: f64 = 0.05;
/// A longer RTT counts as this.
const MOST_RTT_S: f64 = 30.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It goes on.
    Pending,
    /// The queue has ended.
    Gone,
    /// It is that of others.
    Stays,
}

/// A trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The window until it is over.
    pub window_bytes: f64,
    /// Mean queueing delay before it.
    queue_s: f64,
    drained: Instant,
    ends: Instant,
    is_longer: bool,
}

impl Trial {
    /// From now on, on a path with this RTT and queueing delay.
    pub fn new(now: Instant, rtt_s: f64, queue_s: f64, window_bytes: f64) -> Trial {
        let rtt = Duration::from_secs_f64(rtt_s.min(MOST_RTT_S));
        let (drained, ends) = (now + rtt, now + rtt.mul_f64(RTTS));
        Trial { window_bytes, queue_s, drained, ends, is_longer: false }
    }

    /// Whether what is acknowledged now was sent in the trial.
    pub fn is_drained(&self, now: Instant) -> bool {
        now >= self.drained
    }

    /// RTTs were measured. `queue_s` is their least queueing delay, and `path_s` the path's RTT without a queue.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration, queue_s: f64, path_s: f64, is_lossy: bool) -> Outcome {
        let gone_share = if is_lossy { GONE_SHARE_LOSSY } else { GONE_SHARE };
        if queue_s <= (gone_share * self.queue_s).max(GONE_RTTS * path_s) {
            Outcome::Gone
        } else if now < self.ends {
            Outcome::Pending
        } else if !self.is_longer && !is_lossy && queue_s < FALLEN_SHARE * self.queue_s {
            (self.is_longer, self.ends) = (true, now + rtt.mul_f64(RTTS));
            Outcome::Pending
        } else {
            Outcome::Stays
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Outcome of a trial of 100 ms RTTs, half of it queue, whose queue becomes shorter by one factor per 10 ms; and its length in ms.
    fn outcome(factor: f64, is_lossy: bool) -> (Outcome, u32) {
        let begin = Instant::now();
        let mut trial = Trial::new(begin, 0.1, 0.05, 12_000.0);
        let mut queue_s = 0.05;
        for ms in (10..2000).step_by(10) {
            queue_s *= factor;
            let rtt = Duration::from_secs_f64(0.05 + queue_s);
            let outcome = trial.on_rtt(begin + MS * ms, rtt, queue_s, 0.05, is_lossy);
            if outcome != Outcome::Pending {
                return (outcome, ms);
            }
        }
        panic!("no end");
    }

    #[test]
    fn a_queue_that_stays_is_that_of_others_after_three_round_trips() {
        assert_eq!(outcome(1.0, false), (Outcome::Stays, 300));
        // 0.98^30 is 0.55 of it.
        assert_eq!(outcome(0.98, false), (Outcome::Stays, 300));
    }

    #[test]
    fn a_queue_that_falls_slowly_is_given_as_long_again() {
        // 0.25 of it are left after 300 ms, and 0.12 after 470.
        assert_eq!(outcome(0.955, false).0, Outcome::Gone);
        assert_eq!(outcome(0.955, true), (Outcome::Stays, 300));
    }

    #[test]
    fn an_eighth_of_the_queue_may_be_left_and_less_beside_heavy_losses() {
        // Half of it is left each 10 ms: a sixteenth after 40.
        assert_eq!(outcome(0.5, false), (Outcome::Gone, 40));
        assert_eq!(outcome(0.5, true), (Outcome::Gone, 50));
    }
}
