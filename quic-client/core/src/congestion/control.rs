// SPDX-License-Identifier: Apache-2.0
//! [`CongestionControl`]: the interface of a congestion control.

pub use quiche::hooks::EcnState;
use std::time::{Duration, Instant};

/// A packet was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub now: Instant,
    /// Its UDP payload.
    pub bytes: u64,
}

/// Packets were acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    /// When the acknowledgements came in.
    pub now: Instant,
    /// Bytes acknowledged for the first time.
    pub bytes: u64,
    /// Bytes still in flight on the active path.
    pub in_flight_bytes: u64,
}

/// Packets were declared lost (RFC 9002 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// When.
    pub now: Instant,
    /// Their bytes.
    pub bytes: u64,
}

/// Packets sent with an ECT codepoint were acknowledged (RFC 9000 13.4), or the state of the active path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnFeedback {
    /// When the acknowledgements came in.
    pub now: Instant,
    /// State of the active path's validation. Counts of an acknowledgement that fails validation are left out.
    pub state: EcnState,
    /// Packets sent with ECT(0) or ECT(1) and acknowledged for the first time.
    pub acked_packets: u64,
    /// Their bytes; those of packets that only acknowledge are not counted.
    pub acked_bytes: u64,
    /// Increase of the peer's CE count: packets among them that arrived with CE.
    pub ce_packets: u64,
    /// When the newest of them was sent: marks on packets sent before the last reduction belong to that reduction's
    /// round trip (RFC 9002 7.3.2). `None` without any.
    pub newest_sent: Option<Instant>,
}

impl EcnFeedback {
    /// Share of the acknowledged packets that arrived with CE, 0 to 1; 0 if none was acknowledged.
    pub fn ce_share(&self) -> f64 {
        share(self.ce_packets, self.acked_packets)
    }
}

// A peer's count may be ahead of its acknowledgements.
fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { (part as f64 / whole as f64).min(1.0) } else { 0.0 }
}

/// Round-trip times were measured (RFC 9002 5.1), one for each acknowledgement of a new largest packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSamples {
    /// When the last of them came in.
    pub now: Instant,
    /// Number of acknowledged packets; at least one.
    pub count: u32,
    /// The last one.
    pub latest: Duration,
    /// Their mean.
    pub mean: Duration,
    /// The least of them.
    pub least_of_these: Duration,
    /// The least of the path so far.
    pub least: Duration,
    /// One-way times of those among them whose acknowledgement carries the time it was sent; `None` without any.
    pub there: Option<WayThere>,
}

/// Times from our sending a packet to the peer's acknowledging it, in nanoseconds. The two clocks need not agree, so
/// all of these are too large or too small by one number that stays the same: only differences mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayThere {
    /// The last one.
    pub latest_ns: i64,
    /// Their mean.
    pub mean_ns: i64,
    /// The least of them.
    pub least_of_these_ns: i64,
}

/// Events of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Its end.
    pub now: Instant,
    /// Its true length: at least the requested one, more if the event loop had no turn in time.
    pub length: Duration,
    /// UDP payload of the packets made.
    pub sent_bytes: u64,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Bytes declared lost.
    pub lost_bytes: u64,
    /// Packets sent with ECT and acknowledged.
    pub ect_acked_packets: u64,
    /// Those of them that arrived with CE.
    pub ce_packets: u64,
    /// Bytes in flight on the active path at the end.
    pub in_flight_bytes: u64,
    /// The most in flight at a time.
    pub most_in_flight_bytes: u64,
    /// The congestion window at the end.
    pub window_bytes: u64,
    /// The pacing rate of the algorithm below at the end; `None` if it does not pace.
    pub pacing_rate_bytes_s: Option<u64>,
    /// The slow start, or startup, of the algorithm below has ended once.
    pub startup_over: bool,
    /// The round-trip times measured in it; `None` without any.
    pub rtt: Option<RttSamples>,
}

impl Interval {
    /// Bytes acknowledged per second; 0 for an interval of no length.
    pub fn delivery_rate_bytes_s(&self) -> f64 {
        let seconds = self.length.as_secs_f64();
        if seconds > 0.0 { self.acked_bytes as f64 / seconds } else { 0.0 }
    }

    /// Share of the bytes whose fate became known that were lost, 0 to 1; 0 if no fate became known.
    pub fn loss_share(&self) -> f64 {
        let known = self.acked_bytes + self.lost_bytes;
        if known > 0 { self.lost_bytes as f64 / known as f64 } else { 0.0 }
    }

    /// Share of the acknowledged packets sent with ECT that arrived with CE, 0 to 1; 0 if none was acknowledged.
    pub fn ce_share(&self) -> f64 {
        share(self.ce_packets, self.ect_acked_packets)
    }
}

/// Holder of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The policy.
    Policy,
    /// The algorithm below, until its startup is over.
    Startup,
    /// The algorithm below, because this quantity is out of the range of the training.
    Outside(&'static str),
    /// A probe for the least round-trip time: the policy's window comes back after it.
    RttProbe,
    /// The rule of persistent congestion (RFC 9002 7.6): the least window, as nothing comes back.
    Stalled,
    /// Losses that are congestion: half of the window.
    HeavyLoss,
    /// CUBIC, or a trial, beside flows that fill the queue.
    Competing,
    /// The holder on a new path: the decision came after the change to that, and was of the path before.
    PathChanged,
    /// The algorithm below from now on: a number was not finite.
    NotFinite,
}

impl By {
    /// In words, as in the trajectory file.
    pub fn text(self) -> String {
        match self {
            By::Policy => "policy".to_owned(),
            By::Startup => "startup".to_owned(),
            By::Outside(quantity) => format!("outside {quantity}"),
            By::RttProbe => "rtt-probe".to_owned(),
            By::Stalled => "stalled".to_owned(),
            By::Competing => "competing".to_owned(),
            By::HeavyLoss => "heavy-loss".to_owned(),
            By::PathChanged => "path-changed".to_owned(),
            By::NotFinite => "not-finite".to_owned(),
        }
    }

    /// Whether the algorithm below has the window.
    pub fn is_below(self) -> bool {
        match self {
            By::Policy | By::RttProbe | By::Stalled | By::HeavyLoss | By::Competing | By::PathChanged => false,
            By::Startup | By::Outside(_) | By::NotFinite => true,
        }
    }
}

/// Input of a decision (docs/design/pbq-weights-format.md, "The trajectory file").
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The decision's number on the connection, from 0.
    pub n: u64,
    /// The interval that ended.
    pub interval: Interval,
    /// The greatest rate in memory, in bytes per second.
    pub rate_greatest_bytes_s: f64,
    /// The least round-trip time in memory, in seconds.
    pub rtt_least_s: f64,
    /// Input of the policy.
    pub state: Vec<f64>,
    /// A quantity out of the range of the training.
    pub outside: Option<&'static str>,
    /// Holder of the window after this decision. Unless it is the policy, its action changes nothing.
    pub by: By,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Input of the decision.
    pub seen: Seen,
    /// Output of the policy.
    pub mean: f64,
    /// Noise drawn, in standard deviations; 0 without exploration.
    pub noise: f64,
    /// The mean and the noise, before the cut to -1 and 1.
    pub drawn: f64,
    /// Natural logarithm of the density of `drawn`.
    pub log_probability: f64,
    /// Eq. 4's exponent.
    pub action: f64,
    /// Eq. 4's window.
    pub window_bytes: f64,
    /// The window from now on.
    pub used_bytes: u64,
    /// Holder that set the window.
    pub by: By,
}

/// Takes the place of a policy's network on one connection: for training from outside.
pub trait Agent {
    /// The mean of the action, -1 to 1; `None` while it is not known, and then the same is asked for again later. A
    /// number that is not finite leaves the connection to the algorithm below for good. `now` is the time of the
    /// event-loop iteration.
    fn act(&mut self, seen: &Seen, now: Instant) -> Option<f64>;
}

/// Parameters of a control: one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Setup {
    /// Number of the connection (of the flow) in this process: no two explore alike.
    pub connection: u64,
    /// The largest packet.
    pub packet_bytes: usize,
    /// The window that a connection starts with.
    pub initial_window_bytes: usize,
    /// Seed of the noise on the actions of a control that learns; `None`: there is none.
    pub explore_seed: Option<u64>,
}

/// Decides how much one connection may have in flight, and how fast it sends.
///
/// It runs above one of quiche's algorithms, named in its row of [`CONTROLS`](super::CONTROLS), which decides all that
/// the control does not: by default everything. Loss detection and probe timeouts are always quiche's.
///
/// A control is pure: it does no I/O and reads no clock. Events are collected over an event-loop iteration and reported
/// together, with its time, before its packets are made. So the new window holds for the very packets that the
/// acknowledgements make room for. Nothing here can fail: values out of range are brought into it, as said at each
/// method.
///
/// ```
/// use weir_core::congestion::{Acked, CongestionControl};
///
/// /// A window that grows by one byte for each byte acknowledged: slow start without an end.
/// struct SlowStart(usize);
///
/// impl CongestionControl for SlowStart {
///     fn on_ack(&mut self, acked: &Acked) {
///         self.0 = self.0.saturating_add(acked.bytes as usize);
///     }
///
///     fn window_bytes(&self) -> Option<usize> {
///         Some(self.0)
///     }
/// }
/// ```
pub trait CongestionControl {
    /// The congestion window, in bytes; `None` for that of the algorithm below. At least two packets of the largest
    /// size are always allowed (RFC 9002 7.2).
    fn window_bytes(&self) -> Option<usize> {
        None
    }

    /// The rate at which packets leave, in bytes of UDP payload per second; `None` for that of the algorithm below (of
    /// quiche's, only `bbr2_gcongestion` paces). Less than one packet of 1200 bytes per second counts as that. Packets
    /// that only acknowledge are not held back (RFC 9002 7.7).
    fn pacing_rate_bytes_s(&self) -> Option<u64> {
        None
    }

    /// Length of the intervals that [`on_interval`](CongestionControl::on_interval) reports; asked for at the beginning
    /// of each. `None`: there are none. A connection at rest has none: they begin with a packet, and stop with one in
    /// which nothing was acknowledged or lost and after which nothing is in flight; that one is not reported.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// A packet was made.
    fn on_packet_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, acked: &Acked) {
        let _ = acked;
    }

    /// Packets were declared lost.
    fn on_loss(&mut self, lost: &Lost) {
        let _ = lost;
    }

    /// ECN feedback of the active path came in. Called before [`on_ack`](CongestionControl::on_ack) for the same
    /// acknowledgements. The algorithm below reacts to CE by itself (RFC 9002 7.1); a control with its own window or
    /// rate must do so too.
    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        let _ = feedback;
    }

    /// Round-trip times were measured.
    fn on_rtt_samples(&mut self, samples: &RttSamples) {
        let _ = samples;
    }

    /// An interval is over. Called once the packets of the turn have left: the computation delays none of them.
    fn on_interval(&mut self, interval: &Interval) {
        let _ = interval;
    }

    /// Whether a decision on the last interval is pending. Until it is, no further interval ends.
    fn is_undecided(&self) -> bool {
        false
    }

    /// Makes a pending decision, if that can be done by now. Called time and again until it is.
    fn on_wait(&mut self, now: Instant) {
        let _ = now;
    }

    /// Another path is the active one from now on. Its window and round-trip times are not those of the one before.
    fn on_path_change(&mut self) {}

    /// Decision of the last call of [`on_interval`](CongestionControl::on_interval) or
    /// [`on_wait`](CongestionControl::on_wait), if the control records decisions; returned once.
    fn take_decision(&mut self) -> Option<Decision> {
        None
    }
}
