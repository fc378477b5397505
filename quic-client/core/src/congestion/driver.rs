// SPDX-License-Identifier: Apache-2.0
//! [`Driver`]: applies a control's decisions to a quiche connection, and reports events to it.

use super::control::{Acked, CongestionControl, Decision, EcnFeedback, Interval, Lost, RttSamples, Sent, WayThere};
use quiche::hooks::{self, CongestionState, EcnSeen, EcnState, RttSample};
use std::time::{Duration, Instant};

/// The least window, in packets of the largest size (RFC 9002 7.2).
const LEAST_WINDOW_PACKETS: usize = 2;
/// The least pacing rate: a packet of the least size that every path carries (RFC 9000 14), each second.
const LEAST_RATE_BYTES_S: u64 = 1200;
/// Retry time of a control that can't decide yet, if nothing else happens.
const WAIT: Duration = Duration::from_millis(1);

/// Round-trip times of an iteration or an interval.
#[derive(Debug, Clone, Copy, Default)]
struct Samples {
    count: u32,
    sum: Duration,
    latest: Duration,
    least: Duration,
    there: Option<There>,
}

/// Times on the way there, as in [`RttSample`].
#[derive(Debug, Clone, Copy)]
struct There {
    count: i64,
    sum_ns: i128,
    latest_ns: i64,
    least_ns: i64,
}

impl There {
    fn of(ns: i64) -> There {
        There { count: 1, sum_ns: ns.into(), latest_ns: ns, least_ns: ns }
    }

    fn and(self, later: There) -> There {
        There {
            count: self.count + later.count,
            sum_ns: self.sum_ns + later.sum_ns,
            latest_ns: later.latest_ns,
            least_ns: self.least_ns.min(later.least_ns),
        }
    }

    fn report(self) -> WayThere {
        let mean_ns = (self.sum_ns / i128::from(self.count)) as i64; // a mean lies between two of them
        WayThere { latest_ns: self.latest_ns, mean_ns, least_of_these_ns: self.least_ns }
    }
}

impl Samples {
    fn push(&mut self, RttSample { rtt, there_ns }: RttSample) {
        self.add(Samples { count: 1, sum: rtt, latest: rtt, least: rtt, there: there_ns.map(There::of) });
    }

    fn add(&mut self, more: Samples) {
        if more.count > 0 {
            let least = if self.count > 0 { self.least.min(more.least) } else { more.least };
            let there = match (self.there, more.there) {
                (Some(before), Some(later)) => Some(before.and(later)),
                (before, later) => before.or(later),
            };
            let (count, sum) = (self.count + more.count, self.sum + more.sum);
            *self = Samples { count, sum, latest: more.latest, least, there };
        }
    }

    fn report(&self, now: Instant, least: Option<Duration>) -> Option<RttSamples> {
        let mean = self.sum.checked_div(self.count)?;
        let least = least.map_or(self.least, |least| least.min(self.least));
        let there = self.there.map(There::report);
        Some(RttSamples { now, count: self.count, latest: self.latest, mean, least_of_these: self.least, least, there })
    }
}

/// An interval that is not over yet.
#[derive(Debug, Clone, Copy)]
struct Running {
    begun: Instant,
    ends: Instant,
    sent_bytes: u64,
    acked_bytes: u64,
    lost_bytes: u64,
    ect_acked_packets: u64,
    ce_packets: u64,
    most_in_flight_bytes: u64,
    rtt: Samples,
}

impl Running {
    fn new(now: Instant, length: Duration) -> Self {
        let (begun, ends, rtt) = (now, now + length, Samples::default());
        Running {
            begun,
            ends,
            sent_bytes: 0,
            acked_bytes: 0,
            lost_bytes: 0,
            ect_acked_packets: 0,
            ce_packets: 0,
            most_in_flight_bytes: 0,
            rtt,
        }
    }
}

/// One connection's congestion control at work.
///
/// Every call of the connection's `recv`, `send` and `on_timeout` goes through it, because the window applies only for
/// the length of a call (see [`hooks::with_congestion_window`]).
pub struct Driver {
    control: Box<dyn CongestionControl>,
    /// quiche's counts that were reported to the control.
    acked_bytes: u64,
    lost_bytes: u64,
    /// Measured since the last turn.
    rtt: Samples,
    /// `None` at rest.
    interval: Option<Running>,
    /// An interval that is over, and that was not reported to the control yet.
    ended: Option<Interval>,
    /// When a control that could not decide is asked again at the latest.
    ask_again: Option<Instant>,
    /// Since when a larger window waits for the next turn.
    new_window: Option<Instant>,
    /// The active path, once there is one.
    path: Option<usize>,
    /// In flight on other paths, when that was last seen.
    elsewhere_bytes: u64,
    /// When the next packet may leave, by the control's own rate.
    next_release: Option<Instant>,
}

impl Driver {
    /// Puts `control` to work on a connection just made.
    pub fn new(control: Box<dyn CongestionControl>) -> Self {
        Driver {
            control,
            acked_bytes: 0,
            lost_bytes: 0,
            rtt: Samples::default(),
            interval: None,
            ended: None,
            ask_again: None,
            new_window: None,
            path: None,
            elsewhere_bytes: 0,
            next_release: None,
        }
    }

    /// Runs `f` with the control's window and pacing applied.
    pub fn in_force<T>(&self, quic: &mut quiche::Connection, f: impl FnOnce(&mut quiche::Connection) -> T) -> T {
        let least = || LEAST_WINDOW_PACKETS * quic.max_send_udp_payload_size();
        let window = self.control.window_bytes().map(|bytes| bytes.max(least()));
        hooks::paced_elsewhere(self.paces(), || hooks::with_congestion_window(window, || f(quic)))
    }

    /// [`quiche::Connection::recv`].
    ///
    /// # Errors
    /// Those of quiche.
    pub fn recv(
        &mut self,
        quic: &mut quiche::Connection,
        bytes: &mut [u8],
        info: quiche::RecvInfo,
    ) -> Result<usize, quiche::Error> {
        let before = hooks::active_rtt(quic);
        let (result, sample) = hooks::with_rtt_sample(|| self.in_force(quic, |quic| quic.recv(bytes, info)));
        // The control ignores measurements of another path; at a change their path is unknown.
        let is_ours = match (before, hooks::active_rtt(quic)) {
            (Some(before), Some(after)) => after.only_path || before.path == after.path && before != after,
            _ => false,
        };
        if let Some(sample) = sample.filter(|_| is_ours) {
            self.rtt.push(sample);
        }
        result
    }

    /// Reports arrivals since the last iteration to the control; to be called once an iteration, before packets are
    /// made.
    pub fn turn(&mut self, quic: &mut quiche::Connection, now: Instant) {
        // A decision that nobody asked for in time is made late, not never.
        if self.ended.is_some() {
            self.decide(now);
        }
        self.new_window = None;
        let (acked, lost) = hooks::acked_and_lost_bytes(quic);
        let mut new_acked = acked - std::mem::replace(&mut self.acked_bytes, acked).min(acked);
        let mut new_lost = lost - std::mem::replace(&mut self.lost_bytes, lost).min(lost);
        let rtt = std::mem::take(&mut self.rtt);
        let ecn = hooks::take_ecn_feedback(quic);
        let over = !self.control.is_undecided() && self.interval.is_some_and(|interval| interval.ends <= now);
        if new_acked == 0 && new_lost == 0 && rtt.count == 0 && ecn.is_none() && !over {
            return;
        }
        let state = self.in_force(quic, |quic| hooks::congestion_state(quic)).unwrap_or_default();
        let elsewhere_before = std::mem::replace(&mut self.elsewhere_bytes, state.elsewhere_in_flight_bytes);
        if self.path.replace(state.path).is_some_and(|before| before != state.path) {
            // The report was of the path before, or may have been.
            self.control.on_path_change();
            if let Some((state, _)) = ecn {
                self.report_ecn(state, &EcnSeen::default(), now);
            }
            self.interval = self.control.interval().map(|length| Running::new(now, length));
            return;
        }
        // quiche's counts are of all paths. A decrease in flight on the other paths belongs to those.
        let theirs = elsewhere_before.saturating_sub(state.elsewhere_in_flight_bytes);
        let their_lost = theirs.min(new_lost);
        new_lost -= their_lost;
        new_acked = new_acked.saturating_sub(theirs - their_lost);
        if let Some(interval) = &mut self.interval {
            interval.acked_bytes += new_acked;
            interval.lost_bytes += new_lost;
            interval.rtt.add(rtt);
            let before = state.in_flight_bytes + new_acked + new_lost;
            interval.most_in_flight_bytes = interval.most_in_flight_bytes.max(before);
        }
        if let Some(samples) = rtt.report(now, state.least_rtt) {
            self.control.on_rtt_samples(&samples);
        }
        if let Some((state, seen)) = ecn {
            self.report_ecn(state, &seen, now);
        }
        if new_acked > 0 {
            self.control.on_ack(&Acked { now, bytes: new_acked, in_flight_bytes: state.in_flight_bytes });
        }
        if new_lost > 0 {
            self.control.on_loss(&Lost { now, bytes: new_lost });
        }
        if over {
            self.end_interval(&state, now);
        }
    }

    fn report_ecn(&mut self, state: EcnState, seen: &EcnSeen, now: Instant) {
        let EcnSeen { acked_packets, acked_bytes, ce_packets, newest_sent } = *seen;
        if let Some(interval) = &mut self.interval {
            interval.ect_acked_packets += acked_packets;
            interval.ce_packets += ce_packets;
        }
        self.control.on_ecn(&EcnFeedback { now, state, acked_packets, acked_bytes, ce_packets, newest_sent });
    }

    fn end_interval(&mut self, state: &CongestionState, now: Instant) {
        let Some(Running {
            begun,
            sent_bytes,
            acked_bytes,
            lost_bytes,
            ect_acked_packets,
            ce_packets,
            most_in_flight_bytes,
            rtt,
            ..
        }) = self.interval.take()
        else {
            return;
        };
        // Packets that only acknowledge are never in flight: a receiver is at rest.
        if acked_bytes + lost_bytes + state.in_flight_bytes == 0 {
            return;
        }
        self.ended = Some(Interval {
            now,
            length: now.saturating_duration_since(begun),
            sent_bytes,
            acked_bytes,
            lost_bytes,
            ect_acked_packets,
            ce_packets,
            in_flight_bytes: state.in_flight_bytes,
            most_in_flight_bytes: most_in_flight_bytes.max(state.in_flight_bytes),
            window_bytes: state.window_bytes,
            pacing_rate_bytes_s: state.pacing_rate_bytes_s,
            startup_over: state.startup_over,
            rtt: rtt.report(now, state.least_rtt),
        });
        self.interval = self.control.interval().map(|length| Running::new(now, length));
    }

    /// Reports an interval that is over to the control, or asks again if it could not decide then, and returns its
    /// decision, if it records that. To be called once the packets of the iteration have left, so that no decision
    /// holds them up.
    pub fn decide(&mut self, now: Instant) -> Option<Decision> {
        let before = self.control.window_bytes();
        match self.ended.take() {
            Some(interval) => self.control.on_interval(&interval),
            None if self.control.is_undecided() => self.control.on_wait(now),
            None => return None,
        }
        self.ask_again = self.control.is_undecided().then(|| now + WAIT);
        // A window that has shrunk, or is the same, applies soon enough.
        let has_room = match (before, self.control.window_bytes()) {
            (Some(before), Some(after)) => before < after,
            (before, after) => before != after,
        };
        self.new_window = has_room.then_some(now);
        self.control.take_decision()
    }

    /// Whether [`Driver::decide`] has something to do.
    pub fn is_to_decide(&self) -> bool {
        self.ended.is_some() || self.control.is_undecided()
    }

    /// When [`Driver::turn`] is wanted although nothing came in.
    pub fn deadline(&self) -> Option<Instant> {
        self.new_window.or(self.ask_again).or(self.interval.map(|interval| interval.ends))
    }

    /// Whether the control has a pacing rate of its own.
    pub fn paces(&self) -> bool {
        self.control.pacing_rate_bytes_s().is_some()
    }

    /// Makes a packet with `send`, the caller's way to call [`quiche::Connection::send`]. Gives its length, where it
    /// goes and when it may leave.
    ///
    /// # Errors
    /// Those of quiche.
    pub fn send(
        &mut self,
        quic: &mut quiche::Connection,
        now: Instant,
        send: impl FnOnce(&mut quiche::Connection) -> Result<(usize, quiche::SendInfo), quiche::Error>,
    ) -> Result<(usize, quiche::SendInfo), quiche::Error> {
        let rate = self.control.pacing_rate_bytes_s();
        let before = rate.map(|_| hooks::in_flight_bytes(quic));
        let (len, mut info) = self.in_force(quic, send)?;
        if let Some(rate) = rate {
            // A packet that only acknowledges is not in flight, and not held back (RFC 9002 7.7).
            let held = before.is_some_and(|before| hooks::in_flight_bytes(quic) > before);
            info.at = if held { self.pace(len, rate, now) } else { now };
        }
        let bytes = len as u64;
        if self.interval.is_none() {
            self.interval = self.control.interval().map(|length| Running::new(now, length));
        }
        if let Some(interval) = &mut self.interval {
            interval.sent_bytes += bytes;
        }
        self.control.on_packet_sent(&Sent { now, bytes });
        Ok((len, info))
    }

    /// When a packet may leave at the control's rate. It is made ahead of its time, so that none leaves late.
    fn pace(&mut self, len: usize, rate_bytes_s: u64, now: Instant) -> Instant {
        let at = self.next_release.map_or(now, |next| next.max(now));
        let nanos = len as u64 * 1_000_000_000 / rate_bytes_s.max(LEAST_RATE_BYTES_S);
        self.next_release = Some(at + Duration::from_nanos(nanos));
        at
    }
}
