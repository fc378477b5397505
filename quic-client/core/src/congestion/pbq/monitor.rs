// SPDX-License-Identifier: Apache-2.0
//! [`Monitor`]: computes an interval's quantities (Zhang et al., "Monitoring Module").

use super::quantities::Measured;
use crate::congestion::control::{Interval, RttSamples};
use std::collections::VecDeque;
use std::time::Duration;

/// The last numbers of an interval each, or the best of all.
#[derive(Debug, Clone)]
struct Memory {
    /// 0: the best of all is kept.
    intervals: usize,
    better: fn(f64, f64) -> f64,
    numbers: VecDeque<f64>,
}

impl Memory {
    fn new(intervals: usize, better: fn(f64, f64) -> f64) -> Memory {
        Memory { intervals, better, numbers: VecDeque::new() }
    }

    fn best(&self) -> Option<f64> {
        self.numbers.iter().copied().reduce(self.better)
    }

    /// Adds one if it is better than the best, and gives the best: nothing is forgotten.
    fn hold(&mut self, number: f64) -> f64 {
        match self.best() {
            Some(best) if (self.better)(best, number) == best => best,
            _ => self.add(number),
        }
    }

    /// Adds one, and gives the best.
    fn add(&mut self, number: f64) -> f64 {
        match (self.intervals, self.numbers.front()) {
            (0, Some(best)) => self.numbers = [(self.better)(*best, number)].into(),
            (most, _) => {
                self.numbers.push_back(number);
                if most > 0 && self.numbers.len() > most {
                    self.numbers.pop_front();
                }
            }
        }
        self.numbers.iter().copied().fold(number, self.better)
    }
}

const NS_PER_S: f64 = 1e9;

/// Statistics of a path over the intervals so far.
#[derive(Debug, Clone)]
pub struct Monitor {
    packet_bytes: usize,
    nominal: Duration,
    rates: Memory,
    least_rtts: Memory,
    /// Least times on the way there: only differences mean anything.
    least_theres: Memory,
    /// Of the last interval that measured any.
    samples: Option<RttSamples>,
}

impl Monitor {
    /// For packets of at most `packet_bytes`. Greatest and least are over the last `memory_intervals`; 0: over all.
    pub fn new(packet_bytes: usize, nominal: Duration, memory_intervals: usize) -> Monitor {
        let [least_rtts, least_theres] = [(); 2].map(|()| Memory::new(memory_intervals, f64::min));
        let rates = Memory::new(memory_intervals, f64::max);
        Monitor { packet_bytes, nominal, rates, least_rtts, least_theres, samples: None }
    }

    /// Takes an interval in. `None` as long as no round-trip time was measured.
    pub fn measure(&mut self, interval: &Interval, holds: bool) -> Option<Measured> {
        if let Some(samples) = &interval.rtt {
            self.samples = Some(*samples);
        }
        let rate_bytes_s = interval.delivery_rate_bytes_s();
        let rate_greatest_bytes_s = self.rates.add(rate_bytes_s);
        let samples = self.samples?;
        // Over the whole path quiche knows more samples than those of the intervals.
        let least = if self.least_rtts.intervals == 0 { samples.least } else { samples.least_of_these };
        let least_s = least.as_secs_f64();
        let path_s = if holds { self.least_rtts.hold(least_s) } else { self.least_rtts.add(least_s) };
        let [mean_s, last_s, least_of_these_s] =
            [samples.mean, samples.latest, samples.least_of_these].map(|rtt| rtt.as_secs_f64());
        let (rtt_last_s, rtt_least_s, probed_s) = match samples.there {
            None => (last_s, path_s, least_of_these_s),
            Some(there) => {
                // Never more than all that was late, whatever a peer's clock says.
                let there_s = there.least_of_these_ns as f64 / NS_PER_S;
                let at_least = if holds { self.least_theres.hold(there_s) } else { self.least_theres.add(there_s) };
                let queue_s =
                    |there_ns: i64, rtt_s: f64| (there_ns as f64 / NS_PER_S - at_least).max(0.0).min(rtt_s - path_s);
                let rtt_least_s = mean_s - queue_s(there.mean_ns, mean_s);
                let last_queue_s = queue_s(there.latest_ns, last_s);
                (rtt_least_s + last_queue_s, rtt_least_s, path_s + queue_s(there.least_of_these_ns, least_of_these_s))
            }
        };
        Some(Measured {
            packet_bytes: self.packet_bytes as f64,
            window_bytes: interval.window_bytes as f64,
            interval_s: interval.length.as_secs_f64(),
            nominal_s: self.nominal.as_secs_f64(),
            rate_bytes_s,
            rate_greatest_bytes_s,
            rtt_mean_s: mean_s,
            rtt_last_s,
            rtt_least_s,
            path_s,
            probed_s: interval.rtt.map(|_| probed_s),
            loss_share: interval.loss_share(),
            ce_share: interval.ce_share(),
            pacing_bytes_s: interval.pacing_rate_bytes_s.unwrap_or(0) as f64,
            in_flight_bytes: interval.most_in_flight_bytes as f64,
        })
    }

    /// Least queueing delay on the forward path among these, and the path's least RTT, in seconds; `None` before the
    /// first interval.
    pub fn queue_s(&self, samples: &RttSamples) -> Option<(f64, f64)> {
        let path_s = self.least_rtts.best()?;
        let late_s = (samples.least_of_these.as_secs_f64() - path_s).max(0.0);
        let queue_s = match (samples.there, self.least_theres.best()) {
            (Some(there), Some(at_least)) => {
                (there.least_of_these_ns as f64 / NS_PER_S - at_least).max(0.0).min(late_s)
            }
            _ => late_s,
        };
        Some((queue_s, path_s))
    }

    /// The path is longer than the least round-trip time in memory says: only this one is remembered, and the way there is
    /// longer by as much.
    pub fn path_is_longer(&mut self, rtt_s: f64) {
        let before_s = self.least_rtts.best().unwrap_or(rtt_s);
        self.least_rtts.numbers = [rtt_s].into();
        let there_s = self.least_theres.best().map(|best_s| best_s + (rtt_s - before_s));
        self.least_theres.numbers = there_s.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::control::WayThere;
    use proptest::prelude::*;
    use std::time::Instant;

    const MS: Duration = Duration::from_millis(1);

    fn interval(acked_bytes: u64, rtt_ms: Option<u32>) -> Interval {
        let now = Instant::now();
        let rtt = rtt_ms.map(|ms| {
            let (least_of_these, least) = (ms * MS, 20 * MS);
            RttSamples { now, count: 2, latest: (ms + 2) * MS, mean: (ms + 1) * MS, least_of_these, least, there: None }
        });
        Interval {
            now,
            length: 100 * MS,
            sent_bytes: 0,
            acked_bytes,
            lost_bytes: acked_bytes / 4,
            ect_acked_packets: 0,
            ce_packets: 0,
            in_flight_bytes: 0,
            most_in_flight_bytes: 3000,
            window_bytes: 12_000,
            pacing_rate_bytes_s: Some(500),
            startup_over: true,
            rtt,
        }
    }

    #[test]
    fn quantities_are_in_seconds_and_bytes() {
        let mut monitor = Monitor::new(1200, 100 * MS, 0);
        assert_eq!(monitor.measure(&interval(4000, None), false), None);
        let measured = monitor.measure(&interval(2000, Some(30)), false).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(measured.rate_bytes_s, 20_000.0) && near(measured.rate_greatest_bytes_s, 40_000.0));
        assert!(
            near(measured.rtt_mean_s, 0.031) && near(measured.rtt_last_s, 0.032) && near(measured.rtt_least_s, 0.02)
        );
        assert!(near(measured.loss_share, 0.2) && near(measured.pacing_bytes_s, 500.0));
        // Without a sample the last one counts.
        let later = monitor.measure(&interval(0, None), false).unwrap();
        assert!(near(later.rtt_mean_s, 0.031) && later.rate_bytes_s == 0.0 && later.loss_share == 0.0);
    }

    #[test]
    fn a_memory_forgets() {
        let mut monitor = Monitor::new(1200, 100 * MS, 2);
        let seen = [(9000, 50), (100, 30), (300, 60), (200, 70), (100, 80)].map(|(bytes, ms)| {
            let measured = monitor.measure(&interval(bytes, Some(ms)), false).unwrap();
            (measured.rate_greatest_bytes_s as u64, (measured.rtt_least_s * 1000.0).round() as u64)
        });
        assert_eq!(seen, [(90_000, 50), (90_000, 30), (3000, 30), (3000, 60), (2000, 70)]);
    }

    /// An interval of round trips that all took so long, of which so much passed on the way there by the peer's clock.
    fn timed(rtt_us: u32, there_us: i64) -> Interval {
        let mut interval = interval(2000, Some(30));
        let rtt = Duration::from_micros(rtt_us.into());
        let ns = there_us * 1000;
        let there = Some(WayThere { latest_ns: ns, mean_ns: ns, least_of_these_ns: ns });
        interval.rtt =
            interval.rtt.map(|told| RttSamples { latest: rtt, mean: rtt, least_of_these: rtt, there, ..told });
        interval
    }

    /// Queue and rest of the round trip after the first interval, in microseconds.
    fn split(monitor: &mut Monitor, interval: &Interval) -> (i64, i64) {
        let measured = monitor.measure(interval, false).unwrap();
        let us = |s: f64| (s * 1e6).round() as i64;
        assert_eq!(us(measured.rtt_last_s), us(measured.rtt_mean_s));
        (us(measured.rtt_mean_s - measured.rtt_least_s), us(measured.rtt_least_s))
    }

    #[test]
    fn what_acknowledgements_wait_is_no_queue_on_the_way_there() {
        let mut monitor = Monitor::new(1200, 100 * MS, 100);
        let mut told = |rtt_us, there_us| split(&mut monitor, &timed(rtt_us, there_us));
        assert_eq!(told(26_000, 500_000), (0, 26_000));
        assert_eq!(told(40_000, 500_000), (0, 40_000));
        assert_eq!(told(40_000, 514_000), (14_000, 26_000));
        assert_eq!(told(46_000, 514_000), (14_000, 32_000));
        // An interval without timestamps: all of it may be a queue.
        assert!((monitor.measure(&interval(2000, Some(45)), false).unwrap().rtt_least_s - 0.026).abs() < 1e-9);
    }

    #[test]
    fn a_path_that_is_longer_is_longer_there() {
        let mut monitor = Monitor::new(1200, 100 * MS, 100);
        monitor.measure(&timed(26_000, 0), false).unwrap();
        assert_eq!(split(&mut monitor, &timed(46_000, 20_000)), (20_000, 26_000));
        monitor.path_is_longer(0.046);
        assert_eq!(split(&mut monitor, &timed(46_000, 20_000)), (0, 46_000));
        assert_eq!(split(&mut monitor, &timed(50_000, 24_000)), (4_000, 46_000));
    }

    proptest! {
        // A peer's clock may be off by any time, and a peer may lie: a queue is never less than nothing nor more than all
        // that is late.
        #[test]
        fn any_clock_will_do(
            rtts_us in prop::collection::vec((1_000u32..500_000, 0i64..500_000), 2..20),
            apart_us in -1_000_000_000_000i64..1_000_000_000_000,
        ) {
            let mut monitors = [0, 1].map(|_| Monitor::new(1200, 100 * MS, 100));
            let mut least_us = u32::MAX;
            for (rtt_us, there_us) in rtts_us {
                least_us = least_us.min(rtt_us);
                let [by_ours, by_theirs] = [0, 1].map(|n: usize| {
                    split(&mut monitors[n], &timed(rtt_us, there_us + n as i64 * apart_us))
                });
                // A microsecond of rounding: a double holds twelve days to a tenth of a nanosecond.
                prop_assert!((by_ours.0 - by_theirs.0).abs() <= 1 && (by_ours.1 - by_theirs.1).abs() <= 1);
                prop_assert!(by_ours.0 >= 0 && by_ours.1 >= i64::from(least_us), "{by_ours:?}");
                prop_assert_eq!(by_ours.0 + by_ours.1, i64::from(rtt_us));
            }
        }

        #[test]
        fn no_time_of_a_peer_makes_a_number_that_is_none(there_ns in prop::collection::vec(any::<i64>(), 1..10)) {
            let mut monitor = Monitor::new(1200, 100 * MS, 2);
            for ns in there_ns {
                let mut interval = timed(30_000, 0);
                let there = Some(WayThere { latest_ns: ns, mean_ns: ns, least_of_these_ns: ns });
                interval.rtt = interval.rtt.map(|rtt| RttSamples { there, ..rtt });
                let measured = monitor.measure(&interval, false).unwrap();
                let all = [measured.rtt_mean_s, measured.rtt_last_s, measured.rtt_least_s, measured.path_s];
                prop_assert!(all.iter().all(|s| s.is_finite() && (0.0..=0.031).contains(s)), "{all:?}");
            }
        }
    }
}
