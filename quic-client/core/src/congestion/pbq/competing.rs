// SPDX-License-Identifier: Apache-2.0
//! [`Competing`]: detects flows that fill the queue, and shares with them while they do.
//!
//! A control that keeps its own queue short yields to loss-based flows. Copa (Arun and Balakrishnan, NSDI 2018, 2.2) and
//! Nimbus (Goyal et al., SIGCOMM 2022) therefore compete as TCP beside such flows. Here a standing queue is the
//! suspicion, and a trial decides: the window falls below the path's content, and a queue that stays is that of others.
//! Flows of this control see each other's trials as a dip of the queue, and join them, so that all leave it together.
//!
//! Beside flows that cut their windows at a loss the window is CUBIC's (RFC 9438). Where losses are more than any such
//! flow bears (BBR's, in a short buffer), it follows the greatest rate, as BBR does.

use super::trial::{Outcome, Trial};
use crate::congestion::cubic::{BETA, Cubic};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A queue stands if the least queueing delay of an interval is above this share of the path's RTT and above this time.
const STANDING_RTTS: f64 = 0.15;
const STANDING_S: f64 = 0.008;
/// Where nothing was lost for so long, above this share: flows of this control keep two packets each in the queue.
const LOSSLESS_S: f64 = 5.0;
const LOSSLESS_STANDING_RTTS: f64 = 0.3;
/// A trial follows after so long, twice that after a false alarm, and at most after so long.
const FIRST_WAIT_S: f64 = 1.0;
const MOST_WAIT_S: f64 = 30.0;
/// The window of a trial, over the path's content at the present rate.
const TRIAL_SHARE: f64 = 0.8;
/// Trials are so far apart; at most 1.5 times that, while the queue is shorter than this share of its most.
const APART_S: f64 = 3.0;
const HIGH: f64 = 0.75;
/// Each trial costs share beside BBR, so where losses stay as many the time doubles, up to this;
const MOST_APART_S: f64 = 8.0;
/// but a rate so many times its mean over this time begins a trial: another flow may have left.
const RISE: f64 = 1.75;
const RISE_S: f64 = 2.0;
/// A queue that falls between two intervals by this share, and by so many packets at the greatest rate (on a slow link each
/// packet is a dip), starts a trial: others of this control may have begun one,
const DIP: f64 = 0.15;
const DIP_PACKETS: f64 = 2.0;
/// after this share of the time between trials, or this one beside heavy losses, since the queue of BBR varies,
const DIP_APART: f64 = 0.25;
const DIP_APART_LOSSY: f64 = 0.5;
/// or once a queue stood for so long.
const DIP_STANDING_S: f64 = 0.3;
/// Share of packets lost that is more than CUBIC bears, by so many deviations of their number, in a second trial.
const LOSSY: f64 = 0.05;
const LOSSY_DEVIATIONS: f64 = 1.0;
/// No share is worth losing more than this, as a mean of so many seconds: the flow is CUBIC again.
const MOST_LOSS: f64 = 0.3;
const MOST_LOSS_S: f64 = 1.0;
/// Weight of the trials before.
const TRIALS_BEFORE: f64 = 0.75;
/// Window beside such losses over the path's content, at the greatest rate of so many intervals. BBR has 2, beside a pacing rate
/// that probes (draft-ietf-ccwg-bbr 5.6.2).
const LOSSY_GAIN: f64 = 2.25;
const LOSSY_INTERVALS: usize = 10;
/// The window grows as in slow start up to this share of what path and queue held at the greatest rate in memory.
const FIRST_SHARE: f64 = 0.25;
/// A flow that was alone for less than this may have been wrong: slow start goes up to this share of its last shared window.
const SOON_S: f64 = 10.0;
const AGAIN_SHARE: f64 = 0.6;
/// Losses in so many RTTs are one congestion event (RFC 9002 6.1.2, 7.3.2).
const EVENT_RTTS: f64 = 1.125;
const LEAST_PACKETS: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// The policy decides.
    Alone,
    /// The window is held below the path's content.
    Trial { trial: Trial, from_alone: bool },
    /// The window is this control's.
    Shared,
}

/// An interval that is over.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// Its end.
    pub now: Instant,
    /// Its length.
    pub length_s: f64,
    /// Least queueing delay on the forward path.
    pub queue_least_s: f64,
    /// Mean queueing delay on the forward path.
    pub queue_mean_s: f64,
    /// The path's RTT without a queue.
    pub path_s: f64,
    /// Mean RTT.
    pub rtt_s: f64,
    /// Bytes acknowledged per second.
    pub rate_bytes_s: f64,
    /// The greatest rate in memory.
    pub rate_greatest_bytes_s: f64,
    /// Bytes acknowledged.
    pub acked_bytes: f64,
    /// Bytes declared lost.
    pub lost_bytes: f64,
    /// The policy's window.
    pub window_bytes: f64,
}

/// State on one path.
#[derive(Debug, Clone)]
pub struct Competing {
    packet_bytes: f64,
    mode: Mode,
    /// The queue stands for so long.
    standing_s: f64,
    wait_s: f64,
    last_trial: Option<Instant>,
    /// The next trial comes after so long.
    apart_s: f64,
    mean_rate_bytes_s: f64,
    /// Mean queueing delay of the last interval, and the greatest since the last trial.
    queue_before_s: f64,
    queue_most_s: f64,
    rtt: Duration,
    window_bytes: f64,
    /// Slow start ends here.
    threshold_bytes: f64,
    cubic: Cubic,
    last_cut: Option<Instant>,
    last_loss: Option<Instant>,
    /// End of the last sharing, and its window.
    shared: Option<(Instant, f64)>,
    /// Bytes whose fate became known in trials and as CUBIC, and those lost; earlier ones weigh less.
    known_bytes: f64,
    lost_bytes: f64,
    is_lossy: bool,
    /// An earlier trial found so many losses, too, since the queue was last empty.
    was_lossy: bool,
    /// Mean share of bytes lost while `is_lossy`.
    mean_loss: f64,
    rates_bytes_s: VecDeque<f64>,
}

impl Competing {
    /// Alone, for packets of at most so many bytes.
    pub fn new(packet_bytes: usize) -> Competing {
        Competing {
            packet_bytes: packet_bytes as f64,
            mode: Mode::Alone,
            standing_s: 0.0,
            wait_s: FIRST_WAIT_S,
            last_trial: None,
            apart_s: APART_S,
            mean_rate_bytes_s: 0.0,
            queue_before_s: 0.0,
            queue_most_s: 0.0,
            rtt: Duration::ZERO,
            window_bytes: 0.0,
            threshold_bytes: 0.0,
            cubic: Cubic::default(),
            last_cut: None,
            last_loss: None,
            shared: None,
            known_bytes: 0.0,
            lost_bytes: 0.0,
            is_lossy: false,
            was_lossy: false,
            mean_loss: 0.0,
            rates_bytes_s: VecDeque::new(),
        }
    }

    /// The window; `None` while the policy has it.
    pub fn window_bytes(&self) -> Option<f64> {
        match self.mode {
            Mode::Alone => None,
            Mode::Trial { trial, .. } => Some(trial.window_bytes),
            Mode::Shared => Some(self.window_bytes),
        }
    }

    /// RTTs were measured: their mean, their least queueing delay, and the path's RTT without a queue.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration, queue_s: f64, path_s: f64) {
        self.rtt = rtt;
        let Mode::Trial { trial, from_alone } = &mut self.mode else { return };
        let from_alone = *from_alone;
        match trial.on_rtt(now, rtt, queue_s, path_s, self.was_lossy) {
            Outcome::Pending => return,
            Outcome::Gone => {
                if !from_alone {
                    self.shared = Some((now, self.window_bytes));
                }
                (self.mode, self.standing_s, self.apart_s) = (Mode::Alone, 0.0, APART_S);
                (self.is_lossy, self.was_lossy, self.known_bytes, self.lost_bytes) = (false, false, 0.0, 0.0);
                self.wait_s = if from_alone { (2.0 * self.wait_s).min(MOST_WAIT_S) } else { FIRST_WAIT_S };
            }
            Outcome::Stays => self.share(from_alone),
        }
        self.last_trial = Some(now);
    }

    fn share(&mut self, from_alone: bool) {
        if from_alone {
            // As after a congestion event: it takes a while until the window is above the threshold.
            self.cubic.restart();
            self.cubic.cut(self.threshold_bytes.max(self.window_bytes) / BETA / self.packet_bytes);
        }
        (self.mode, self.queue_most_s) = (Mode::Shared, 0.0);
        let by_chance = LOSSY * self.known_bytes / self.packet_bytes;
        let more = self.lost_bytes / self.packet_bytes > by_chance + LOSSY_DEVIATIONS * by_chance.sqrt();
        // Flows that begin together lose many packets at first, so one trial is not enough.
        let stays_lossy = more && self.is_lossy;
        self.apart_s = if stays_lossy { (2.0 * self.apart_s).min(MOST_APART_S) } else { APART_S };
        self.is_lossy = more && self.was_lossy;
        self.was_lossy |= more;
    }

    /// An interval is over.
    pub fn on_interval(&mut self, past: &Past) {
        self.rates_bytes_s.push_back(past.rate_bytes_s);
        if self.rates_bytes_s.len() > LOSSY_INTERVALS {
            self.rates_bytes_s.pop_front();
        }
        let dip_s = (DIP * self.queue_before_s).max(DIP_PACKETS * self.packet_bytes / past.rate_greatest_bytes_s);
        let dips = past.queue_least_s < self.queue_before_s - dip_s;
        self.queue_before_s = past.queue_mean_s;
        let since_s = self.last_trial.map_or(f64::INFINITY, |at| seconds(at, past.now));
        // Losses of a window that bears any may be its own.
        let counts = match self.mode {
            Mode::Alone => false,
            Mode::Trial { trial, .. } => trial.is_drained(past.now),
            Mode::Shared => !self.is_lossy,
        };
        if counts {
            self.known_bytes += past.acked_bytes + past.lost_bytes;
            self.lost_bytes += past.lost_bytes;
        }
        self.bear_no_more(past);
        let dip_apart = if self.was_lossy { DIP_APART_LOSSY } else { DIP_APART };
        let joins = dips && since_s >= dip_apart * self.apart_s;
        let rises =
            self.is_lossy && since_s >= DIP_APART_LOSSY * APART_S && past.rate_bytes_s > RISE * self.mean_rate_bytes_s;
        self.mean_rate_bytes_s += (past.rate_bytes_s - self.mean_rate_bytes_s) * (past.length_s / RISE_S).min(1.0);
        match self.mode {
            Mode::Alone => {
                let stands = past.queue_least_s > self.standing_above_s(past);
                self.standing_s = if stands { self.standing_s + past.length_s } else { 0.0 };
                if self.standing_s >= self.wait_s || joins && self.standing_s >= DIP_STANDING_S {
                    // The window before it gave way may be forgotten by now.
                    let held_bytes = past.rate_greatest_bytes_s * past.rtt_s;
                    self.window_bytes = past.window_bytes;
                    let was_bytes = match self.shared {
                        Some((at, bytes)) if seconds(at, past.now) < SOON_S => AGAIN_SHARE * bytes,
                        _ => 0.0,
                    };
                    self.threshold_bytes = (FIRST_SHARE * held_bytes).max(past.window_bytes).max(was_bytes);
                    self.begin_trial(past, true);
                }
            }
            Mode::Shared => {
                self.queue_most_s = self.queue_most_s.max(past.queue_mean_s);
                let is_high = past.queue_mean_s >= HIGH * self.queue_most_s;
                let is_due = since_s >= self.apart_s && is_high || since_s >= 1.5 * self.apart_s;
                if is_due || joins || rises {
                    self.begin_trial(past, false);
                } else if self.is_lossy {
                    let greatest_bytes_s = self.rates_bytes_s.iter().copied().fold(0.0, f64::max);
                    self.window_bytes = self.at_least(LOSSY_GAIN * greatest_bytes_s * past.path_s);
                    self.threshold_bytes = self.window_bytes;
                    self.cubic.restart();
                }
            }
            Mode::Trial { .. } => {}
        }
    }

    fn standing_above_s(&self, past: &Past) -> f64 {
        let is_lossless = self.last_loss.is_none_or(|at| seconds(at, past.now) >= LOSSLESS_S);
        let rtts = if is_lossless { LOSSLESS_STANDING_RTTS } else { STANDING_RTTS };
        (rtts * past.path_s).max(STANDING_S)
    }

    fn bear_no_more(&mut self, past: &Past) {
        let known_bytes = past.acked_bytes + past.lost_bytes;
        if !self.is_lossy || known_bytes <= 0.0 {
            self.mean_loss = 0.0;
            return;
        }
        self.mean_loss += (past.lost_bytes / known_bytes - self.mean_loss) * (past.length_s / MOST_LOSS_S).min(1.0);
        if self.mean_loss > MOST_LOSS {
            (self.is_lossy, self.known_bytes, self.lost_bytes, self.apart_s) = (false, 0.0, 0.0, APART_S);
        }
    }

    fn begin_trial(&mut self, past: &Past, from_alone: bool) {
        let window_bytes = self.at_least(TRIAL_SHARE * past.rate_bytes_s * past.path_s);
        (self.known_bytes, self.lost_bytes) = (TRIALS_BEFORE * self.known_bytes, TRIALS_BEFORE * self.lost_bytes);
        self.mode =
            Mode::Trial { trial: Trial::new(past.now, past.rtt_s, past.queue_mean_s, window_bytes), from_alone };
    }

    fn at_least(&self, window_bytes: f64) -> f64 {
        window_bytes.max(LEAST_PACKETS * self.packet_bytes)
    }

    /// Bytes were acknowledged.
    pub fn on_ack(&mut self, now: Instant, bytes: u64) {
        if self.mode != Mode::Shared || self.is_lossy {
            return;
        }
        let bytes = bytes as f64;
        self.window_bytes = if self.window_bytes < self.threshold_bytes {
            (self.window_bytes + bytes).min(self.threshold_bytes)
        } else {
            let packets = self.window_bytes / self.packet_bytes;
            self.cubic.grow(now, packets, bytes / self.packet_bytes, self.rtt) * self.packet_bytes
        };
    }

    /// Packets were lost, or arrived with CE.
    pub fn on_congestion(&mut self, now: Instant) {
        self.last_loss = Some(now);
        let same_event =
            self.last_cut.is_some_and(|at| now.saturating_duration_since(at) < self.rtt.mul_f64(EVENT_RTTS));
        if self.mode == Mode::Alone || same_event || self.is_lossy {
            return;
        }
        self.last_cut = Some(now);
        let after = self.cubic.cut(self.window_bytes / self.packet_bytes) * self.packet_bytes;
        self.window_bytes = self.at_least(after);
        self.threshold_bytes = self.window_bytes;
    }
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const P: usize = 1200;

    /// A path of 50 ms, 20 packets and intervals of a sixteenth of a second.
    struct Path {
        now: Instant,
        competing: Competing,
        /// Packets in 50 ms.
        rate: f64,
    }

    impl Path {
        fn new() -> Path {
            Path { now: Instant::now(), competing: Competing::new(P), rate: 20.0 }
        }

        /// So many intervals with this queue.
        fn queue(&mut self, ms: f64, intervals: u32, loss_share: f64) {
            for _ in 0..intervals {
                self.now += Duration::from_micros(62_500);
                let queue_s = ms / 1e3;
                let rtt_s = 0.05 + queue_s;
                self.competing.on_rtt(self.now, Duration::from_secs_f64(rtt_s), queue_s, 0.05);
                self.competing.on_interval(&Past {
                    now: self.now,
                    length_s: 0.0625,
                    queue_least_s: queue_s,
                    queue_mean_s: queue_s,
                    path_s: 0.05,
                    rtt_s,
                    rate_bytes_s: self.rate * P as f64 / 0.05,
                    rate_greatest_bytes_s: 40.0 * P as f64 / 0.05,
                    acked_bytes: 25.0 * P as f64 * (1.0 - loss_share),
                    lost_bytes: 25.0 * P as f64 * loss_share,
                    window_bytes: 20.0 * P as f64,
                });
            }
        }

        fn is(&self, mode: &str) -> bool {
            let is = match self.competing.mode {
                Mode::Alone => "alone",
                Mode::Trial { .. } => "trial",
                Mode::Shared => "shared",
            };
            is == mode
        }
    }

    #[test]
    fn a_queue_that_stays_in_a_trial_is_that_of_others() {
        let mut path = Path::new();
        path.queue(30.0, 15, 0.0);
        assert!(path.is("alone"));
        path.queue(30.0, 1, 0.0);
        assert!(path.is("trial") && path.competing.window_bytes() == Some(0.8 * 20.0 * P as f64));
        path.queue(30.0, 4, 0.0);
        assert!(path.is("shared"));
        // Another trial every 3 s, in which the queue ends.
        path.queue(30.0, 48, 0.0);
        assert!(path.is("trial"));
        path.queue(1.0, 1, 0.0);
        assert!(path.is("alone") && path.competing.window_bytes().is_none());
    }

    #[test]
    fn after_a_false_alarm_it_waits_for_longer() {
        let mut path = Path::new();
        for intervals in [16, 32, 64, 128, 256, 480, 480] {
            path.queue(30.0, intervals - 1, 0.0);
            assert!(path.is("alone"), "{intervals}");
            path.queue(30.0, 1, 0.0);
            assert!(path.is("trial"), "{intervals}");
            path.queue(0.5, 1, 0.0);
            assert!(path.is("alone"));
            path.queue(0.0, 40, 0.0);
        }
    }

    #[test]
    fn a_dip_of_a_standing_queue_is_joined() {
        let mut path = Path::new();
        path.queue(30.0, 6, 0.0);
        path.queue(24.0, 1, 0.0);
        assert!(path.is("trial"));
        let mut path = Path::new();
        path.queue(30.0, 2, 0.0);
        path.queue(24.0, 1, 0.0);
        assert!(path.is("alone"), "it does not stand yet");
    }

    #[test]
    fn a_short_queue_is_borne_until_a_loss() {
        let mut path = Path::new();
        path.queue(12.0, 40, 0.0);
        assert!(path.is("alone"));
        path.competing.on_congestion(path.now);
        path.queue(12.0, 16, 0.0);
        assert!(path.is("trial"));
    }

    #[test]
    fn a_packet_that_leaves_is_no_dip() {
        let mut path = Path::new();
        path.competing.on_congestion(path.now);
        path.queue(14.0, 6, 0.0);
        // 0.16 of the queue, but less than the 2.5 ms of two packets.
        path.queue(11.7, 1, 0.0);
        assert!(path.is("alone"));
    }

    #[test]
    fn soon_alone_and_shared_again_it_starts_near_its_last_share() {
        for (alone_intervals, packets) in [(0, 0.6 * 100.0), (160, 20.0)] {
            let mut path = Path::new();
            path.queue(30.0, 20, 0.0);
            path.competing.window_bytes = 100.0 * P as f64;
            path.queue(30.0, 48, 0.0);
            path.queue(1.0, 1 + alone_intervals, 0.0);
            assert!(path.is("alone"));
            path.queue(30.0, 20, 0.0);
            assert!(path.is("shared"));
            assert!((path.competing.threshold_bytes / P as f64 - packets).abs() < 1e-9, "{alone_intervals}");
        }
    }

    #[test]
    fn losses_cut_once_a_round_trip_unless_nobody_could_bear_them() {
        let mut path = Path::new();
        path.queue(30.0, 25, 0.0);
        let before = path.competing.window_bytes().unwrap();
        path.competing.on_congestion(path.now);
        path.competing.on_congestion(path.now + Duration::from_millis(20));
        assert_eq!(path.competing.window_bytes(), Some(BETA * before));
        path.queue(30.0, 110, 0.15);
        let lossy = path.competing.window_bytes().unwrap();
        assert!((lossy / (2.25 * 20.0 * P as f64) - 1.0).abs() < 1e-9, "{lossy}");
        path.competing.on_congestion(path.now);
        assert_eq!(path.competing.window_bytes(), Some(lossy));
    }

    #[test]
    fn beside_heavy_losses_trials_become_rarer_until_the_rate_rises() {
        let mut path = Path::new();
        for _ in 0..200 {
            if path.competing.is_lossy {
                break;
            }
            path.queue(30.0, 1, 0.15);
        }
        assert!(path.competing.is_lossy);
        let mut waits = vec![0.0];
        for _ in 0..600 {
            let was = path.is("trial");
            path.queue(30.0, 1, 0.15);
            if path.is("trial") && !was {
                waits.push(0.0);
            }
            *waits.last_mut().unwrap() += 0.0625;
        }
        let whole = &waits[..waits.len() - 1];
        assert!(whole.is_sorted() && whole[0] < 4.0, "{whole:?}");
        assert!((MOST_APART_S..MOST_APART_S + 0.5).contains(whole.last().unwrap()), "{whole:?}");
        while path.is("trial") || path.now - path.competing.last_trial.unwrap() < Duration::from_secs(2) {
            path.queue(30.0, 1, 0.15);
        }
        path.rate *= 1.5;
        path.queue(30.0, 1, 0.15);
        assert!(path.is("shared"));
        path.rate *= 1.5;
        path.queue(30.0, 1, 0.15);
        assert!(path.is("trial"));
    }

    proptest! {
        #[test]
        fn a_window_is_finite_and_at_least_two_packets(
            steps in prop::collection::vec((0u8..4, 0.0f64..500.0, 0.0f64..1.0, 0u64..100_000), 1..200),
        ) {
            let mut path = Path::new();
            for (what, ms, loss_share, bytes) in steps {
                match what {
                    0 => path.competing.on_ack(path.now, bytes),
                    1 => path.competing.on_congestion(path.now),
                    _ => path.queue(ms, 12, loss_share),
                }
                if let Some(window) = path.competing.window_bytes() {
                    prop_assert!(window.is_finite() && window >= 2.0 * P as f64, "{window}");
                }
            }
        }
    }
}
