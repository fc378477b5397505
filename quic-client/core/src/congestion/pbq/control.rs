// SPDX-License-Identifier: Apache-2.0
//! [`Pbq`]: the control. Its policy sets the window after each interval (Zhang et al., Algorithm 1, lines 7 to 13);
//! BBR runs below it, and paces unless the weights say otherwise.

use super::arithmetic::exp2;
use super::competing::{self, Competing};
use super::guard::{Guard, MARGIN};
use super::heavy_loss::{Ceiling, HeavyLoss};
use super::monitor::Monitor;
use super::noise::{Drawn, Noise};
use super::quantities::Measured;
use super::ramp::Ramp;
use super::rtt_probe::{Past, Phase, RttProbe};
use super::stall::Stall;
use super::weights::{Pacing, Profile, Start, Weights};
use crate::congestion::control::{
    Acked, Agent, By, CongestionControl, Decision, EcnFeedback, Interval, Lost, RttSamples, Seen, Setup,
};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// So fast that packets do not wait, in bytes per second.
const AT_ONCE: u64 = u64::MAX;
/// A window leaves in this part of a round trip (RFC 9002 7.7's N).
const WINDOWS_A_ROUND_TRIP: f64 = 1.25;

/// Policy that decides on a connection.
pub struct Policy {
    /// The network, and how it is to be used.
    pub weights: Rc<Weights>,
    /// In the network's place.
    pub agent: Option<Box<dyn Agent>>,
}

impl From<Rc<Weights>> for Policy {
    fn from(weights: Rc<Weights>) -> Policy {
        Policy { weights, agent: None }
    }
}

/// PBQ on one connection.
pub struct Pbq {
    weights: Rc<Weights>,
    agent: Option<Box<dyn Agent>>,
    packet_bytes: usize,
    initial_window_bytes: usize,
    noise: Option<Noise>,
    decisions: u64,
    /// A decision that the agent has not made yet.
    asked: Option<Asked>,
    decision: Option<Decision>,
    /// A number was not finite: the connection stays with BBR.
    failed: bool,
    path: OnPath,
}

/// Pending decision and its input.
struct Asked {
    seen: Seen,
    measured: Measured,
    /// Another path is the active one since.
    path_changed: bool,
}

/// State of the active path.
struct OnPath {
    monitor: Monitor,
    /// Inputs of the last intervals, oldest first.
    history: VecDeque<Vec<f64>>,
    least_rtt: Duration,
    /// RFC 9002 5.3; `None` before the first sample.
    smoothed_rtt: Option<Duration>,
    /// Eq. 4's window while the policy has it.
    window_bytes: Option<f64>,
    startup_over: bool,
    guard: Option<Guard>,
    rtt_probe: Option<RttProbe>,
    /// Phase of a probe.
    phase: Phase,
    /// The window while the queue is emptied.
    probe_window_bytes: Option<f64>,
    stall: Stall,
    heavy_loss: HeavyLoss,
    /// After heavy loss.
    ceiling: Option<Ceiling>,
    /// Beside flows that fill the queue.
    competing: Option<Competing>,
    /// On paths of varying rate.
    ramp: Option<Ramp>,
    /// The quantity that was out of the range of the training last.
    was_outside: &'static str,
}

impl OnPath {
    fn new(weights: &Weights, packet_bytes: usize, window_bytes: usize) -> OnPath {
        OnPath {
            monitor: Monitor::new(packet_bytes, weights.interval, weights.memory_intervals),
            history: vec![vec![0.0; weights.inputs.len()]; weights.history].into(),
            least_rtt: Duration::ZERO,
            smoothed_rtt: None,
            window_bytes: (weights.start == Start::InitialWindow).then_some(window_bytes as f64),
            startup_over: weights.start == Start::InitialWindow,
            guard: weights.guard.map(Guard::new),
            rtt_probe: weights.rtt_probe.map(RttProbe::new),
            phase: Phase::Off,
            probe_window_bytes: None,
            stall: Stall::default(),
            heavy_loss: HeavyLoss::default(),
            ceiling: None,
            competing: weights.competing.then(|| Competing::new(packet_bytes)),
            ramp: weights.ramp.then(Ramp::default),
            was_outside: "",
        }
    }
}

impl Pbq {
    /// For a connection of this set-up.
    pub fn new(policy: impl Into<Policy>, setup: &Setup) -> Pbq {
        let Policy { weights, agent } = policy.into();
        let correlation = weights.deviation.correlation;
        let noise = setup.explore_seed.map(|seed| Noise::new(seed, setup.connection, correlation));
        let path = OnPath::new(&weights, setup.packet_bytes, setup.initial_window_bytes);
        Pbq {
            weights,
            agent,
            packet_bytes: setup.packet_bytes,
            initial_window_bytes: setup.initial_window_bytes,
            noise,
            decisions: 0,
            asked: None,
            decision: None,
            failed: false,
            path,
        }
    }

    /// Eq. 4's exponent for the policy's output at a window of so many packets.
    fn action(&self, drawn: f64, interval: &Interval, window_packets: f64) -> f64 {
        let bound = self.weights.action_bound;
        let action = drawn.clamp(-1.0, 1.0) * bound;
        let action = self.weights.fairness.map_or(action, |fairness| fairness.step(action, window_packets, bound));
        let action = self.path.ramp.as_ref().map_or(action, |ramp| ramp.step(action, bound));
        let growth = self.weights.growth;
        let half = interval.window_bytes / 2;
        // The application ran out of data: the rate is that of the application, and not of the path.
        let ran_dry = interval.in_flight_bytes < half && interval.lost_bytes == 0;
        let used = interval.most_in_flight_bytes >= half;
        let least = if growth.stays_when_dry() && ran_dry { 0.0 } else { -bound };
        let most = if growth.needs_use() && !used { 0.0 } else { bound };
        action.clamp(least, most)
    }

    /// Holder of the window after this interval.
    fn holder(&mut self, interval: &Interval, far_outside: Option<&'static str>) -> By {
        self.path.startup_over |= interval.startup_over;
        self.path.was_outside = far_outside.unwrap_or(self.path.was_outside);
        // Startup resembles nothing else, and is BBR's in any case.
        let guard = self.path.guard.as_mut().filter(|_| self.path.startup_over);
        let handed_over = guard.is_some_and(|guard| guard.hands_over(far_outside.is_some()));
        // The paper has no such rule.
        let stalled = self.path.stall.is_on(interval.length, interval.acked_bytes, self.path.smoothed_rtt)
            && self.weights.profile == Profile::Own;
        let by = match (self.failed, self.path.startup_over, handed_over, stalled) {
            (true, ..) => By::NotFinite,
            (false, false, ..) => By::Startup,
            (false, true, true, _) => By::Outside(self.path.was_outside),
            (false, true, false, true) => By::Stalled,
            (false, true, false, false) => By::Policy,
        };
        if by != By::Policy || self.weights.profile != Profile::Own {
            self.path.heavy_loss = HeavyLoss::default();
            return by;
        }
        if self.path.competing.as_ref().and_then(Competing::window_bytes).is_some() {
            self.path.heavy_loss = HeavyLoss::default();
            return By::Competing;
        }
        let heavy = {
            // Marked packets count as lost, as in the policy's input.
            let marked_bytes = (interval.acked_bytes as f64 * interval.ce_share()) as u64;
            let lost_bytes = interval.lost_bytes + marked_bytes;
            self.path.heavy_loss.is_on(interval.acked_bytes - marked_bytes, lost_bytes, self.packet_bytes)
        };
        if heavy { By::HeavyLoss } else { By::Policy }
    }

    /// Whether the least round-trip time is looked for from now on. While BBR has the window it is not.
    fn probe(&mut self, interval: &Interval, measured: &Measured, by: By) -> Phase {
        if by != By::Policy {
            self.path.rtt_probe = self.weights.rtt_probe.map(RttProbe::new);
            return Phase::Off;
        }
        let Some(probe) = &mut self.path.rtt_probe else { return Phase::Off };
        let (phase, longer_s) = probe.on_interval(&Past {
            length: interval.length,
            least_of_these_s: measured.probed_s,
            least_s: measured.path_s,
            mean_s: measured.rtt_mean_s,
            rate_ratio: measured.rate_bytes_s / measured.rate_greatest_bytes_s.max(1.0),
        });
        if let Some(rtt_s) = longer_s {
            self.path.monitor.path_is_longer(rtt_s);
        }
        phase
    }

    /// Detects flows that fill the queue. Returns the holder of the window.
    fn compete(&mut self, interval: &Interval, measured: &Measured, by: By) -> By {
        let Some(competing) = &mut self.path.competing else { return by };
        if !matches!(by, By::Policy | By::Competing | By::HeavyLoss) {
            *competing = Competing::new(self.packet_bytes);
            return by;
        }
        competing.on_interval(&competing::Past {
            now: interval.now,
            length_s: measured.interval_s,
            queue_least_s: measured.probed_s.map_or(0.0, |s| s - measured.path_s),
            queue_mean_s: measured.rtt_mean_s - measured.rtt_least_s,
            path_s: measured.path_s,
            rtt_s: measured.rtt_mean_s,
            rate_bytes_s: measured.rate_bytes_s,
            rate_greatest_bytes_s: measured.rate_greatest_bytes_s,
            acked_bytes: interval.acked_bytes as f64,
            lost_bytes: interval.lost_bytes as f64,
            window_bytes: self.path.window_bytes.unwrap_or(measured.window_bytes),
        });
        if competing.window_bytes().is_some() { By::Competing } else { by }
    }

    fn below_ceiling(&mut self, window_bytes: f64, before_bytes: f64, by: By) -> f64 {
        if by == By::HeavyLoss {
            self.path.ceiling = Some(Ceiling::of(before_bytes));
        }
        let Some(ceiling) = self.path.ceiling else { return window_bytes };
        let (below, next) = ceiling.lower(window_bytes);
        self.path.ceiling = next;
        below
    }

    fn whole_packets(&self, window_bytes: f64) -> usize {
        // Two factors of a root of 2 are a little less than 2: that must not cost a packet.
        const ROUNDING: f64 = 1e-6;
        let packets = (window_bytes / self.packet_bytes as f64 + ROUNDING) as usize;
        let bounds = &self.weights.window_packets;
        packets.clamp(*bounds.start(), *bounds.end()) * self.packet_bytes
    }

    /// Applies the policy's output.
    fn put_in_force(&mut self, asked: Asked, mean: f64) {
        let Asked { seen, measured, path_changed } = asked;
        let interval = seen.interval;
        let mut by = if path_changed { By::PathChanged } else { seen.by };
        let Drawn { noise, new } = self.noise.as_mut().map_or(Drawn { noise: 0.0, new: 0.0 }, Noise::draw);
        let drawn = mean + noise * self.weights.deviation.value;
        // When the policy takes the window back it goes on from the present window.
        let before = self.path.window_bytes.unwrap_or(interval.window_bytes as f64);
        let action = match by {
            By::RttProbe | By::PathChanged | By::Competing => 0.0,
            By::HeavyLoss => -1.0,
            _ => self.action(drawn, &interval, before / self.packet_bytes as f64),
        };
        let bounds = &self.weights.window_packets;
        let [least, most] = [bounds.start(), bounds.end()].map(|packets| (packets * self.packet_bytes) as f64);
        let window_bytes = self.below_ceiling(before * exp2(action), before, by).clamp(least, most);
        if !(drawn.is_finite() && window_bytes.is_finite()) {
            (self.failed, by) = (true, By::NotFinite);
        }
        self.path.window_bytes = match by {
            By::Policy | By::RttProbe | By::HeavyLoss => Some(window_bytes),
            By::Stalled => Some(least),
            By::Competing => self.path.competing.as_ref().and_then(Competing::window_bytes).or(Some(window_bytes)),
            By::PathChanged => self.path.window_bytes,
            By::Startup | By::Outside(_) | By::NotFinite => None,
        };
        self.path.probe_window_bytes = match self.path.phase {
            // The window during a probe is no evidence about the path.
            Phase::Holding(share) if by == By::RttProbe => Some(self.path.probe_window_bytes.unwrap_or_else(|| {
                measured.window_bytes * (measured.rtt_least_s / measured.rtt_mean_s).min(1.0) * share
            })),
            _ => None,
        };
        self.decision = Some(Decision {
            seen: Seen { by, ..seen },
            mean,
            noise,
            drawn,
            log_probability: self.weights.deviation.log_density(new),
            action,
            window_bytes,
            used_bytes: self.window_bytes().map_or(interval.window_bytes, |bytes| bytes as u64),
            by,
        });
        self.decisions += 1;
    }
}

impl CongestionControl for Pbq {
    fn window_bytes(&self) -> Option<usize> {
        self.path
            .competing
            .as_ref()
            .and_then(Competing::window_bytes)
            .or(self.path.probe_window_bytes)
            .or(self.path.window_bytes)
            .map(|window| self.whole_packets(window))
    }

    fn pacing_rate_bytes_s(&self) -> Option<u64> {
        let window_bytes = self.window_bytes()?;
        match self.weights.pacing {
            Pacing::Bbr => None,
            Pacing::None => Some(AT_ONCE),
            Pacing::Window => {
                Some((WINDOWS_A_ROUND_TRIP * window_bytes as f64 / self.path.smoothed_rtt?.as_secs_f64()) as u64)
            }
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.weights.interval.max(self.path.least_rtt.mul_f64(self.weights.interval_least_rtts)))
    }

    fn on_rtt_samples(&mut self, samples: &RttSamples) {
        self.path.least_rtt = samples.least;
        let before = self.path.smoothed_rtt.unwrap_or(samples.mean);
        self.path.smoothed_rtt = Some((before * 7 + samples.mean) / 8);
        if let (Some(competing), Some((queue_s, path_s))) =
            (&mut self.path.competing, self.path.monitor.queue_s(samples))
        {
            competing.on_rtt(samples.now, samples.mean, queue_s, path_s);
        }
    }

    fn on_ack(&mut self, acked: &Acked) {
        if let Some(competing) = &mut self.path.competing {
            competing.on_ack(acked.now, acked.bytes);
        }
    }

    fn on_loss(&mut self, lost: &Lost) {
        if let Some(competing) = &mut self.path.competing {
            competing.on_congestion(lost.now);
        }
    }

    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        if let Some(competing) = self.path.competing.as_mut().filter(|_| feedback.ce_packets > 0) {
            competing.on_congestion(feedback.now);
        }
    }

    fn on_path_change(&mut self) {
        self.path = OnPath::new(&self.weights, self.packet_bytes, self.initial_window_bytes);
        if self.failed {
            self.path.window_bytes = None;
        }
        if let Some(asked) = &mut self.asked {
            asked.path_changed = true;
        }
    }

    fn on_interval(&mut self, interval: &Interval) {
        let holds = self.path.competing.as_ref().and_then(Competing::window_bytes).is_some();
        let Some(measured) = self.path.monitor.measure(interval, holds) else { return };
        let far_outside = self.weights.outside(&measured, MARGIN);
        let mut by = self.holder(interval, far_outside);
        by = self.compete(interval, &measured, by);
        if let Some(ramp) = &mut self.path.ramp {
            ramp.on_interval(&measured, by == By::Policy);
        }
        let probed = self.path.phase != Phase::Off;
        self.path.phase = self.probe(interval, &measured, by);
        if probed || self.path.phase != Phase::Off {
            by = if by == By::Policy { By::RttProbe } else { by };
        }
        // An interval of a probe is no evidence about the policy.
        if !probed {
            self.path.history.pop_front();
            self.path.history.push_back(self.weights.normalised(&measured));
        }
        let state: Vec<f64> = self.path.history.iter().flatten().copied().collect();
        let outside = self.weights.outside(&measured, 1.0);
        let Measured { rate_greatest_bytes_s, rtt_least_s, .. } = measured;
        let seen =
            Seen { n: self.decisions, interval: *interval, rate_greatest_bytes_s, rtt_least_s, state, outside, by };
        self.asked = Some(Asked { seen, measured, path_changed: false });
        self.on_wait(interval.now);
    }

    fn is_undecided(&self) -> bool {
        self.asked.is_some()
    }

    fn on_wait(&mut self, now: Instant) {
        let Some(asked) = self.asked.take() else { return };
        let mean = match &mut self.agent {
            Some(agent) if !self.failed => agent.act(&asked.seen, now),
            _ => Some(self.weights.network.mean(&asked.seen.state)),
        };
        match mean {
            Some(mean) => self.put_in_force(asked, mean),
            None => self.asked = Some(asked),
        }
    }

    fn take_decision(&mut self) -> Option<Decision> {
        self.decision.take()
    }
}
