// SPDX-License-Identifier: Apache-2.0
//! [`HeavyLoss`]: losses that are congestion, whatever the round-trip times say.
//!
//! A flow that begins while the queue is full takes the full queue for the path, and where an AQM keeps the queue short
//! there is room for few packets of many flows. A policy that bears random loss sends more and more there.

use super::arithmetic::exp2;

/// So much may be random: the most that Zhang et al. test.
const RANDOM: f64 = 0.1;
/// By so many standard deviations of the number lost the loss must be above that.
const DEVIATIONS: f64 = 4.0;
/// Not before so many intervals
const INTERVALS: u32 = 10;
/// and so many packets;
const LEAST_PACKETS: f64 = 100.0;
/// after so many the count begins anew.
const MOST_PACKETS: f64 = 1000.0;

/// Fates of recent packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeavyLoss {
    intervals: u32,
    lost_packets: f64,
    packets: f64,
}

impl HeavyLoss {
    /// An interval is over. Whether the window must halve: at most once in ten intervals.
    pub fn is_on(&mut self, acked_bytes: u64, lost_bytes: u64, packet_bytes: usize) -> bool {
        self.intervals = self.intervals.saturating_add(1);
        self.lost_packets += lost_bytes as f64 / packet_bytes as f64;
        self.packets += (acked_bytes as f64 + lost_bytes as f64) / packet_bytes as f64;
        if self.intervals < INTERVALS || self.packets < LEAST_PACKETS {
            return false;
        }
        let deviation = (RANDOM * (1.0 - RANDOM) * self.packets).sqrt();
        let heavy = self.lost_packets > RANDOM * self.packets + DEVIATIONS * deviation;
        if heavy || self.packets > MOST_PACKETS {
            *self = HeavyLoss::default();
        }
        heavy
    }
}

/// A ceiling doubles in so many intervals.
const DOUBLING_INTERVALS: f64 = 15.0;

/// Keeps a window down for a while after heavy loss, since the policy would open it again in a few intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    bytes: f64,
    end_bytes: f64,
}

impl Ceiling {
    /// Half of the window that lost so much; it ends where that window was.
    pub fn of(window_bytes: f64) -> Ceiling {
        Ceiling { bytes: window_bytes / 2.0, end_bytes: window_bytes }
    }

    /// The window below it, and its value in the next interval.
    pub fn lower(self, window_bytes: f64) -> (f64, Option<Ceiling>) {
        let next = Ceiling { bytes: self.bytes * exp2(1.0 / DOUBLING_INTERVALS), ..self };
        (window_bytes.min(self.bytes), (next.bytes < self.end_bytes).then_some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_gone_when_it_has_doubled() {
        let (mut ceiling, mut windows) = (Some(Ceiling::of(20_000.0)), vec![]);
        while let Some(one) = ceiling {
            let (window, next) = one.lower(50_000.0);
            windows.push(window);
            ceiling = next;
        }
        assert!(windows.is_sorted() && windows[0] == 10_000.0 && *windows.last().unwrap() < 20_000.0, "{windows:?}");
        assert!((14..=16).contains(&windows.len()), "{windows:?}");
        assert_eq!(Ceiling::of(20_000.0).lower(5000.0).0, 5000.0);
    }

    #[test]
    fn what_a_tenth_at_random_can_hardly_be_is_heavy() {
        let on = |acked: u64, lost: u64| {
            let mut loss = HeavyLoss::default();
            (0..100).filter(|_| loss.is_on(acked * 1000, lost * 1000, 1000)).count()
        };
        // 100 packets: 22 or fewer may be chance; 1000: 138.
        assert_eq!([on(77, 23), on(90, 10), on(88, 12), on(0, 10), on(0, 0)], [10, 0, 0, 10, 0]);
        assert_eq!(on(8, 2), 6); // not before 150 packets
    }
}
