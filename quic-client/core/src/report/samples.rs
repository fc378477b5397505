// SPDX-License-Identifier: Apache-2.0
//! The lines both sides write: one JSON object each, times in microseconds of `CLOCK_MONOTONIC`.

use serde::Serialize;
use std::time::{Duration, Instant};

/// Side that wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// `weir-client`.
    Client,
    /// `weir-server`.
    Server,
}

/// ECN codepoints of received datagrams (RFC 3168 5). Acknowledgements count packets, without duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EcnCounts {
    /// Datagrams marked Congestion Experienced.
    pub ce: u64,
    /// Datagrams that arrived as ECT(0).
    pub ect0: u64,
    /// Datagrams that arrived as ECT(1).
    pub ect1: u64,
}

impl EcnCounts {
    /// Counts one datagram by the ECN bits of its TOS or traffic class byte.
    pub fn count(&mut self, tos: u8) {
        match tos & 3 {
            1 => self.ect1 += 1,
            2 => self.ect0 += 1,
            3 => self.ce += 1,
            _ => {}
        }
    }
}

/// State of one flow at one time. Cumulative unless noted otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSample {
    /// Always `flow`.
    pub k: &'static str,
    /// `CLOCK_MONOTONIC`, microseconds.
    pub t_us: u64,
    /// Side that wrote it.
    pub side: Side,
    /// Label of the flow; on a server null until a request names one with `?flow=L`.
    pub flow: Option<u64>,
    /// Ordinal of the connection in this process.
    pub conn: u64,
    /// Stream payload: delivered in order to the application by a receiver, handed to the stack by a sender. Of the
    /// transfer's main direction only.
    pub bytes: u64,
    /// Smoothed RTT (RFC 9002 5.3), of this side. The sender's is the one that counts.
    pub rtt_us: u64,
    /// Least RTT seen; null before the first sample.
    pub min_rtt_us: Option<u64>,
    /// Congestion window now.
    pub cwnd_bytes: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub recv: u64,
    /// Stream bytes sent again.
    pub retx_bytes: u64,
    /// Sender's estimate of the delivery rate now (10^6 bit/s = 1 Mbit/s).
    pub delivery_rate_bit_s: u64,
    /// Datagrams received with CE.
    pub ce: u64,
    /// Datagrams received with ECT(0).
    pub ect0: u64,
    /// Datagrams received with ECT(1).
    pub ect1: u64,
    /// ECN of sent packets.
    pub ecn: EcnSample,
    /// Throughput advice in effect (SCONE), for the packets that this side receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice_bit_s: Option<u64>,
}

/// ECN of the packets that a connection sent, on all paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EcnSample {
    /// State of the active path's validation (RFC 9000 A.4); `off` where no packet is to be marked.
    pub state: &'static str,
    /// Packets sent with ECT(0).
    pub sent_ect0: u64,
    /// Packets sent with ECT(1).
    pub sent_ect1: u64,
    /// Those of both that were acknowledged.
    pub acked: u64,
    /// Those that the peer reported to have arrived with CE.
    pub acked_ce: u64,
    /// Failed validations.
    pub failed: u64,
}

/// The same, with each path that is known at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EcnReport {
    /// All paths together.
    #[serde(flatten)]
    pub total: EcnSample,
    /// Each path.
    pub paths: Vec<EcnPathReport>,
}

/// ECN on one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EcnPathReport {
    /// Local address.
    pub local: String,
    /// Remote address.
    pub peer: String,
    /// State of validation (RFC 9000 A.4).
    pub state: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<&'static str>,
    /// Packets sent with ECT.
    pub sent: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Lost.
    pub lost: u64,
    /// Arrived with CE.
    pub ce: u64,
}

/// Decisions of a congestion control that learns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DecisionCounts {
    /// All.
    pub made: u64,
    /// With a quantity out of the range of the training.
    pub outside: u64,
    /// After which the window was left to BBR.
    pub by_bbr: u64,
}

impl DecisionCounts {
    fn none(&self) -> bool {
        self.made == 0
    }
}

/// Last line of a flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndLine {
    /// Always `end`.
    pub k: &'static str,
    /// `CLOCK_MONOTONIC`, microseconds.
    pub t_us: u64,
    /// Side that wrote it.
    pub side: Side,
    /// Label of the flow.
    pub flow: Option<u64>,
    /// Ordinal of the connection in this process.
    pub conn: u64,
    /// Stream payload, as in [`FlowSample::bytes`].
    pub bytes: u64,
    /// Why it ended.
    pub reason: String,
    /// ECN of sent packets.
    pub ecn: EcnReport,
    /// Left out if there were none.
    #[serde(skip_serializing_if = "DecisionCounts::none")]
    pub decisions: DecisionCounts,
}

/// `Instant` as microseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub struct Timebase {
    anchor: Instant,
    anchor_us: u64,
}

impl Timebase {
    /// `anchor` and `anchor_us` are one moment, read from the same clock.
    pub fn new(anchor: Instant, anchor_us: u64) -> Self {
        Timebase { anchor, anchor_us }
    }

    /// Microseconds of `CLOCK_MONOTONIC` at `t`.
    pub fn us(&self, t: Instant) -> u64 {
        match t.checked_duration_since(self.anchor) {
            Some(d) => self.anchor_us + d.as_micros() as u64,
            None => self.anchor_us.saturating_sub((self.anchor - t).as_micros() as u64),
        }
    }

    /// The moment of these microseconds; the anchor's where the clock has none.
    pub fn at(&self, us: u64) -> Instant {
        let later = us.checked_sub(self.anchor_us).map(Duration::from_micros);
        let at = match later {
            Some(d) => self.anchor.checked_add(d),
            None => self.anchor.checked_sub(Duration::from_micros(self.anchor_us - us)),
        };
        at.unwrap_or(self.anchor)
    }
}

/// Times at regular intervals. A time that was missed is skipped.
#[derive(Debug, Clone, Copy)]
pub struct Ticker {
    next: Instant,
    every: Duration,
}

impl Ticker {
    /// First due one interval after `now`. `every` must not be zero.
    pub fn new(now: Instant, every: Duration) -> Self {
        assert!(!every.is_zero(), "a ticker needs an interval");
        Ticker { next: now + every, every }
    }

    /// When it is due next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is due; if so, moves on to the first grid time after `now`.
    pub fn due(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        let late = now.duration_since(self.next).as_nanos();
        let missed = late / self.every.as_nanos();
        self.next += Duration::from_nanos(((missed + 1) * self.every.as_nanos()) as u64);
        true
    }
}

/// Mean of the smoothed RTT over the samples taken while a flow ran, and the least RTT, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct RttSummary {
    sum_us: u64,
    n: u64,
}

impl RttSummary {
    /// Adds a sample.
    pub fn add(&mut self, rtt_us: u64) {
        self.sum_us += rtt_us;
        self.n += 1;
    }

    /// The mean, if any sample was taken.
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ecn_bits() {
        let mut e = EcnCounts::default();
        for tos in [0, 1, 2, 2, 3, 0xb8, 0xbb] {
            e.count(tos);
        }
        assert_eq!(e, EcnCounts { ce: 2, ect0: 2, ect1: 1 });
    }

    #[test]
    fn times_before_and_after_the_anchor() {
        let t = Instant::now() + Duration::from_secs(10);
        let b = Timebase::new(t, 5_000_000);
        assert_eq!(b.us(t + Duration::from_micros(7)), 5_000_007);
        assert_eq!(b.us(t - Duration::from_micros(7)), 4_999_993);
        assert_eq!(b.us(t - Duration::from_secs(9)), 0);
        for us in [4_000_000, 5_000_000, 5_000_001] {
            assert_eq!(b.us(b.at(us)), us);
        }
    }

    #[test]
    fn a_mean_needs_samples() {
        let mut r = RttSummary::default();
        assert_eq!(r.mean_us(), None);
        r.add(10);
        r.add(21);
        assert_eq!(r.mean_us(), Some(15));
    }

    proptest! {
        #[test]
        fn ticks_stay_on_their_grid(every_us in 1u64..100_000, steps in prop::collection::vec(0u64..500_000, 1..50)) {
            let t0 = Instant::now();
            let every = Duration::from_micros(every_us);
            let mut t = Ticker::new(t0, every);
            let mut now = t0;
            for s in steps {
                now += Duration::from_micros(s);
                let was = t.next();
                prop_assert_eq!(t.due(now), now >= was);
                prop_assert!(t.next() > now && t.next() <= now + every);
                prop_assert_eq!((t.next() - t0).as_nanos() % every.as_nanos(), 0);
                prop_assert!(!t.due(now));
            }
        }
    }
}
