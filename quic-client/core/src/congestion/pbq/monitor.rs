// SPDX-License-Identifier: Apache-2.0
//! [`Monitor`]: makes quantities of what happened in an interval (Zhang et al., "Monitoring Module").

use super::quantities::Measured;
use crate::congestion::control::Interval;
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

/// What is known of a path from the intervals so far.
#[derive(Debug, Clone)]
pub struct Monitor {
    packet_bytes: usize,
    nominal: Duration,
    rates: Memory,
    least_rtts: Memory,
    /// Mean, last and least round-trip time of the last interval that measured any.
    rtt: Option<[Duration; 3]>,
}

impl Monitor {
    /// For packets of at most `packet_bytes`. Greatest and least are over the last `memory_intervals`; 0: over all.
    pub fn new(packet_bytes: usize, nominal: Duration, memory_intervals: usize) -> Monitor {
        let (rates, least_rtts) = (Memory::new(memory_intervals, f64::max), Memory::new(memory_intervals, f64::min));
        Monitor { packet_bytes, nominal, rates, least_rtts, rtt: None }
    }

    /// Takes an interval in. `None` as long as no round-trip time was measured.
    pub fn measure(&mut self, interval: &Interval) -> Option<Measured> {
        if let Some(rtt) = interval.rtt {
            // Over the whole path quiche knows more samples than those of the intervals.
            let least = if self.least_rtts.intervals == 0 { rtt.least } else { rtt.least_of_these };
            self.rtt = Some([rtt.mean, rtt.latest, least]);
        }
        let rate_bytes_s = interval.delivery_rate_bytes_s();
        let rate_greatest_bytes_s = self.rates.add(rate_bytes_s);
        let [rtt_mean_s, rtt_last_s, least] = self.rtt?.map(|rtt| rtt.as_secs_f64());
        Some(Measured {
            packet_bytes: self.packet_bytes as f64,
            window_bytes: interval.window_bytes as f64,
            interval_s: interval.length.as_secs_f64(),
            nominal_s: self.nominal.as_secs_f64(),
            rate_bytes_s,
            rate_greatest_bytes_s,
            rtt_mean_s,
            rtt_last_s,
            rtt_least_s: self.least_rtts.add(least),
            loss_share: interval.loss_share(),
            pacing_bytes_s: interval.pacing_rate_bytes_s.unwrap_or(0) as f64,
            in_flight_bytes: interval.most_in_flight_bytes as f64,
        })
    }

    /// The path is longer than the least round-trip time in memory says: only this one is remembered.
    pub fn path_is_longer(&mut self, rtt_s: f64) {
        self.least_rtts.numbers = [rtt_s].into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::control::RttSamples;
    use std::time::Instant;

    const MS: Duration = Duration::from_millis(1);

    fn interval(acked_bytes: u64, rtt_ms: Option<u32>) -> Interval {
        let now = Instant::now();
        let rtt = rtt_ms.map(|ms| {
            let (least_of_these, least) = (ms * MS, 20 * MS);
            RttSamples { now, count: 2, latest: (ms + 2) * MS, mean: (ms + 1) * MS, least_of_these, least }
        });
        Interval {
            now,
            length: 100 * MS,
            sent_bytes: 0,
            acked_bytes,
            lost_bytes: acked_bytes / 4,
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
        assert_eq!(monitor.measure(&interval(4000, None)), None);
        let measured = monitor.measure(&interval(2000, Some(30))).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(measured.rate_bytes_s, 20_000.0) && near(measured.rate_greatest_bytes_s, 40_000.0));
        assert!(
            near(measured.rtt_mean_s, 0.031) && near(measured.rtt_last_s, 0.032) && near(measured.rtt_least_s, 0.02)
        );
        assert!(near(measured.loss_share, 0.2) && near(measured.pacing_bytes_s, 500.0));
        // Without a sample the last one counts.
        let later = monitor.measure(&interval(0, None)).unwrap();
        assert!(near(later.rtt_mean_s, 0.031) && later.rate_bytes_s == 0.0 && later.loss_share == 0.0);
    }

    #[test]
    fn a_memory_forgets() {
        let mut monitor = Monitor::new(1200, 100 * MS, 2);
        let seen = [(9000, 50), (100, 30), (300, 60), (200, 70), (100, 80)].map(|(bytes, ms)| {
            let measured = monitor.measure(&interval(bytes, Some(ms))).unwrap();
            (measured.rate_greatest_bytes_s as u64, (measured.rtt_least_s * 1000.0).round() as u64)
        });
        assert_eq!(seen, [(90_000, 50), (90_000, 30), (3000, 30), (3000, 60), (2000, 70)]);
    }
}
