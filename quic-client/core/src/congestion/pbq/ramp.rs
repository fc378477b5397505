// SPDX-License-Identifier: Apache-2.0
//! [`Ramp`]: follows a path whose rate changes. The window grows by factors while the path has no queue, and a path of
//! varying rate gets a longer queue.
//!
//! A rule that keeps K packets in the queue adds at most K packets a round trip when the rate has risen. Copa doubles its
//! step each round trip in the same direction (Arun and Balakrishnan 2018, 2.2); so does the step here.

use super::arithmetic::exp2;
use super::quantities::Measured;

/// There is no queue while this flow has at most so many packets in it, or while it is at most this share of the path's
/// RTT: timestamps and bursts make that much.
const NO_QUEUE_PACKETS: f64 = 1.5;
const NO_QUEUE_RTTS: f64 = 0.01;
/// A window counts as used if this share of it was in flight.
const USED: f64 = 0.8;
/// Log2 of the first step, in Eq. 4's exponent; each further interval without a queue doubles it.
const FIRST_STEP_LOG2: f64 = -4.3;
/// Weight of an interval in the mean change of the rate.
const NEWEST: f64 = 0.1;
/// The window's surplus that a path of varying rate gets: this share of the mean relative change of its rate,
const SURPLUS: f64 = 0.7;
/// at most.
const MOST_SURPLUS: f64 = 0.25;
/// Eq. 4's exponent for a surplus, as in the rule that trainings begin with: half of log2(e).
const SLOPE: f64 = 0.72;

/// State on one path.
#[derive(Debug, Clone, Default)]
pub struct Ramp {
    /// Intervals in a row without a queue.
    empty_intervals: u32,
    rate_before_bytes_s: Option<f64>,
    /// Mean relative change of the bottleneck's rate from one interval to the next.
    change: f64,
}

impl Ramp {
    /// An interval is over, in which this control decided or not.
    pub fn on_interval(&mut self, m: &Measured, decided: bool) {
        let queue_s = m.rtt_mean_s - m.rtt_least_s;
        let empty =
            m.rate_bytes_s * queue_s <= NO_QUEUE_PACKETS * m.packet_bytes || queue_s <= NO_QUEUE_RTTS * m.path_s;
        // While nothing comes back, as in an outage, the last RTTs say nothing of the queue.
        let counts = decided && m.probed_s.is_some() && m.in_flight_bytes >= USED * m.window_bytes;
        self.empty_intervals = if counts && empty { self.empty_intervals.saturating_add(1) } else { 0 };
        // Lost bytes left the bottleneck, too, or never came to it.
        let rate_bytes_s = m.rate_bytes_s / (1.0 - m.loss_share).max(0.1);
        if let Some(before) = self.rate_before_bytes_s.replace(rate_bytes_s).filter(|_| counts) {
            // Without a queue the rate is this flow's, and says nothing of the bottleneck's.
            let greater = rate_bytes_s.max(before);
            let change = if empty || greater <= 0.0 { 0.0 } else { (rate_bytes_s - before).abs() / greater };
            self.change += NEWEST * (change - self.change);
        }
    }

    /// The action (Eq. 4's exponent), at most `bound`.
    pub fn step(&self, action: f64, bound: f64) -> f64 {
        // A NaN stays one.
        let action = action + SLOPE * (SURPLUS * self.change).min(MOST_SURPLUS);
        let step = match self.empty_intervals {
            0 => action,
            intervals => exp2(FIRST_STEP_LOG2 + f64::from(intervals.min(16) - 1)),
        };
        let action = if action < step { step } else { action };
        if action > bound { bound } else { action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate_bytes_s: f64, queue_s: f64) -> Measured {
        Measured {
            packet_bytes: 1200.0,
            window_bytes: 60_000.0,
            interval_s: 0.05,
            nominal_s: 0.05,
            rate_bytes_s,
            rate_greatest_bytes_s: rate_bytes_s,
            rtt_mean_s: 0.05 + queue_s,
            rtt_last_s: 0.05 + queue_s,
            rtt_least_s: 0.05,
            path_s: 0.05,
            probed_s: Some(0.05 + queue_s),
            loss_share: 0.0,
            ce_share: 0.0,
            pacing_bytes_s: 0.0,
            in_flight_bytes: 60_000.0,
        }
    }

    #[test]
    fn steps_double_without_a_queue_and_end_with_it() {
        let mut ramp = Ramp::default();
        let mut step = |queue_s, decided| {
            ramp.on_interval(&measured(1e6, queue_s), decided);
            ramp.step(0.01, 0.5)
        };
        let steps = [0.0; 5].map(|queue_s| step(queue_s, true));
        assert!((steps[0] - 0.0508).abs() < 1e-3 && (steps[1] / steps[0] - 2.0).abs() < 1e-9, "{steps:?}");
        assert_eq!(steps[4], 0.5);
        assert_eq!(step(0.01, true), 0.01);
        assert_eq!(step(0.0, false), 0.01);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut ramp = Ramp::default();
        ramp.on_interval(&Measured { in_flight_bytes: 40_000.0, ..measured(1e6, 0.0) }, true);
        assert_eq!(ramp.step(0.01, 0.5), 0.01);
    }

    #[test]
    fn a_window_does_not_grow_in_an_outage() {
        let mut ramp = Ramp::default();
        for _ in 0..10 {
            ramp.on_interval(&Measured { probed_s: None, ..measured(0.0, 0.01) }, true);
            assert_eq!(ramp.step(0.01, 0.5), 0.01);
        }
    }

    #[test]
    fn a_varying_rate_has_a_longer_queue() {
        let mut ramp = Ramp::default();
        for n in 0..100 {
            ramp.on_interval(&measured(if n % 2 == 0 { 1e6 } else { 2e6 }, 0.01), true);
        }
        // Changes of a half: 0.72 * 0.25, the most.
        assert!((ramp.step(0.0, 0.5) - 0.18).abs() < 1e-3);
        let mut ramp = Ramp::default();
        (0..100).for_each(|_| ramp.on_interval(&measured(1e6, 0.01), true));
        assert_eq!(ramp.step(-0.2, 0.5), -0.2);
        assert!(ramp.step(f64::NAN, 0.5).is_nan());
    }
}
