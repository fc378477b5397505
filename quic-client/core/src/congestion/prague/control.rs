// SPDX-License-Identifier: Apache-2.0
//! [`Prague`]: the control. With marks of an L4S queue it is scalable, otherwise it is CUBIC.

use super::alpha::Alpha;
use super::classic_queue::ClassicQueue;
use super::hystart::{CONSERVATIVE, HyStart};
use crate::congestion::control::{Acked, CongestionControl, EcnFeedback, EcnState, Lost, RttSamples, Sent, Setup};
use crate::congestion::cubic::Cubic;
use std::time::{Duration, Instant};

/// Round-trip time that shorter paths behave as if they had (draft 2.4.4), so that they get the rate of longer ones.
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// Rounds after slow start until then; a short transfer is not slowed down.
const ROUNDS_BEFORE_VIRTUAL: u32 = 4;
/// The window's share after a loss in the scalable regime, whose growth is that of Reno.
const LOSS_SHARE: f64 = 0.5;
/// The window's share after the first mark (draft 2.4.5): it has doubled since the marked packet was sent.
const FIRST_MARK_SHARE: f64 = 0.5;
/// A loss after so many rounds without a mark is that of a queue without L4S.
const ROUNDS_WITHOUT_MARK: u32 = 32;
/// Pacing rate in windows a round trip: in slow start and as CUBIC (RFC 9002 7.7), and with marks, where a burst is a
/// queue (draft 2.4.6).
const CLASSIC_PACE: f64 = 1.25;
const SCALABLE_PACE: f64 = 1.0;
/// The least rate with marks, in bytes per second: a window below two packets slows the pacer, and makes no queue.
const LEAST_RATE_BYTES_S: f64 = 12_500.0;
/// The least window (RFC 9002 7.2).
const LEAST_WINDOW_PACKETS: f64 = 2.0;
/// A window counts as used, and grows, if this share of it is in flight: in slow start, and after it.
const USED_SHARES: [f64; 2] = [0.5, 0.75];
/// Losses in this many round trips are one congestion event: later ones take 9/8 of one to detect (RFC 9002 6.1.2).
const LOSS_EVENT_RTTS: f64 = 1.125;
/// Probe timeouts without an acknowledgement that are persistent congestion (RFC 9002 7.6.1).
const PERSISTENT: u32 = 3;
/// The peer's delay of acknowledgements (RFC 9000 18.2), of which a control knows nothing.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Response to congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regime {
    /// CUBIC: no mark was seen, or not for long, or the queue is one of RFC 3168, or the path does not carry ECN.
    Classic,
    Scalable,
}

/// Last reduction of the window.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: Instant,
    by_loss: bool,
    /// Window before it, in bytes.
    before: f64,
}

/// Prague on one connection.
#[derive(Debug, Clone)]
pub struct Prague {
    packet_bytes: f64,
    initial_window: f64,
    path: OnPath,
}

/// State of the active path. Windows are in bytes.
#[derive(Debug, Clone)]
struct OnPath {
    window: f64,
    /// Slow start lasts up to this window.
    threshold: f64,
    regime: Regime,
    ecn_failed: bool,
    smoothed_rtt: Option<Duration>,
    deviation: Duration,
    least_rtt: Duration,
    round_began: Option<Instant>,
    /// Rounds since slow start.
    rounds: u32,
    rounds_without_mark: u32,
    /// Marks up to then are of packets sent in slow start.
    drained: Option<Instant>,
    alpha: Alpha,
    /// Share of marked packets among those that the next report of acknowledged bytes is about.
    marked_share: f64,
    last_cut: Option<Cut>,
    cubic: Cubic,
    start: HyStart,
    queue: ClassicQueue,
    /// Since when no acknowledgement came although packets were in flight, and how long the last such time was.
    waiting: Option<Instant>,
    waited: Duration,
}

impl OnPath {
    fn new(window: f64) -> OnPath {
        OnPath {
            window,
            threshold: f64::INFINITY,
            regime: Regime::Classic,
            ecn_failed: false,
            smoothed_rtt: None,
            deviation: Duration::ZERO,
            least_rtt: Duration::ZERO,
            round_began: None,
            rounds: 0,
            rounds_without_mark: 0,
            drained: None,
            alpha: Alpha::default(),
            marked_share: 0.0,
            last_cut: None,
            cubic: Cubic::default(),
            start: HyStart::default(),
            queue: ClassicQueue::default(),
            waiting: None,
            waited: Duration::ZERO,
        }
    }

    fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn rtt(&self) -> Duration {
        self.smoothed_rtt.unwrap_or(VIRTUAL_RTT)
    }

    fn is_virtual(&self) -> bool {
        self.regime == Regime::Scalable && self.rounds >= ROUNDS_BEFORE_VIRTUAL
    }

    /// Length of a round.
    fn round(&self) -> Duration {
        if self.is_virtual() { self.rtt().max(VIRTUAL_RTT) } else { self.rtt() }
    }

    fn probe_timeout(&self) -> Duration {
        self.rtt() + 4 * self.deviation + ACK_DELAY
    }
}

impl Prague {
    /// For a connection of this set-up.
    pub fn new(setup: &Setup) -> Prague {
        let packet_bytes = setup.packet_bytes.max(1) as f64;
        let initial_window = (setup.initial_window_bytes as f64).max(LEAST_WINDOW_PACKETS * packet_bytes);
        Prague { packet_bytes, initial_window, path: OnPath::new(initial_window) }
    }

    /// The least window in the present regime.
    fn least_window(&self) -> f64 {
        match self.path.regime {
            Regime::Classic => LEAST_WINDOW_PACKETS * self.packet_bytes,
            Regime::Scalable => LEAST_RATE_BYTES_S * self.path.rtt().as_secs_f64(),
        }
    }

    /// Sets the window after a reduction, which ends slow start.
    fn cut(&mut self, now: Instant, window: f64, by_loss: bool) {
        let before = self.path.window;
        self.path.last_cut = Some(Cut { at: now, by_loss, before });
        self.path.window = window.max(self.least_window().min(before));
        self.path.threshold = self.path.window;
    }

    fn enter_scalable(&mut self) {
        self.path.regime = Regime::Scalable;
        self.path.alpha.restart();
        self.path.cubic.restart();
    }

    fn enter_classic(&mut self) {
        self.path.regime = Regime::Classic;
        self.path.cubic.restart();
        self.path.window = self.path.window.max(self.least_window());
    }

    fn reduce(&mut self, now: Instant) {
        let window = self.path.window;
        match (self.path.regime, self.path.queue.is_detected()) {
            (Regime::Classic, false) => {
                self.enter_scalable();
                self.path.drained = Some(now + self.path.rtt());
                self.cut(now, FIRST_MARK_SHARE * window, false);
            }
            (Regime::Scalable, false) => self.cut(now, window * (1.0 - self.path.alpha.get() / 2.0), false),
            (regime, true) => {
                if regime == Regime::Scalable {
                    self.enter_classic();
                }
                let after = self.path.cubic.cut(window / self.packet_bytes) * self.packet_bytes;
                self.cut(now, after, false);
            }
        }
    }

    /// Packets in slow start, and the growth of the regime after it.
    fn grow(&mut self, now: Instant, bytes: f64) {
        let rtt = self.path.rtt();
        let path = &mut self.path;
        if path.window < path.threshold {
            let part = if path.start.is_conservative() { CONSERVATIVE } else { 1.0 };
            path.window += bytes / part;
            return;
        }
        path.window = match path.regime {
            Regime::Classic => {
                let packet = self.packet_bytes;
                (path.cubic.grow(now, path.window / packet, bytes / packet, rtt) * packet).max(path.window)
            }
            Regime::Scalable => {
                let ratio = if path.is_virtual() { rtt.as_secs_f64() / path.round().as_secs_f64() } else { 1.0 };
                path.window + ratio * ratio * bytes * self.packet_bytes / path.window.max(self.packet_bytes)
            }
        };
    }

    fn end_round(&mut self, now: Instant) {
        let path = &mut self.path;
        path.round_began = Some(now);
        let packet_time = path.rtt().mul_f64((self.packet_bytes / path.window).min(1e3));
        path.queue.end_round(path.alpha.is_marked(), path.least_rtt, packet_time);
        path.rounds_without_mark = path.rounds_without_mark.saturating_add(1);
        if path.is_slow_start() {
            if path.start.end_round() {
                path.threshold = path.window;
            }
        } else {
            path.rounds = path.rounds.saturating_add(1);
        }
        if path.drained.is_none() && path.regime == Regime::Scalable {
            path.alpha.end_round();
        } else {
            path.alpha.restart();
        }
    }

    /// No acknowledgement came for so long that all that is known of the path is void (RFC 9002 7.6).
    fn is_persistent(&self) -> bool {
        self.path.waited > PERSISTENT * self.path.probe_timeout()
    }
}

impl CongestionControl for Prague {
    /// Whole packets: quiche fills a window with a packet of what is left.
    fn window_bytes(&self) -> Option<usize> {
        let packets = (self.path.window / self.packet_bytes).ceil().max(LEAST_WINDOW_PACKETS);
        Some((packets * self.packet_bytes) as usize)
    }

    fn pacing_rate_bytes_s(&self) -> Option<u64> {
        let Some(rtt) = self.path.smoothed_rtt else { return Some(u64::MAX) };
        let is_scalable = self.path.regime == Regime::Scalable && !self.path.is_slow_start();
        let pace = if is_scalable { SCALABLE_PACE } else { CLASSIC_PACE };
        Some((pace * self.path.window / rtt.as_secs_f64().max(1e-6)) as u64)
    }

    fn on_packet_sent(&mut self, sent: &Sent) {
        self.path.waiting.get_or_insert(sent.now);
    }

    fn on_ack(&mut self, acked: &Acked) {
        let Acked { now, bytes, in_flight_bytes } = *acked;
        let path = &mut self.path;
        path.waited = path.waiting.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        path.waiting = (in_flight_bytes > 0).then_some(now);
        let unmarked = bytes as f64 * (1.0 - std::mem::take(&mut path.marked_share));
        let used = USED_SHARES[usize::from(!path.is_slow_start())] * path.window;
        let recovers =
            path.last_cut.is_some_and(|cut| cut.by_loss && now.saturating_duration_since(cut.at) < path.rtt());
        if !recovers && (in_flight_bytes as f64 + bytes as f64) >= used {
            self.grow(now, unmarked);
        }
        let began = *self.path.round_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= self.path.round() {
            self.end_round(now);
        }
    }

    fn on_loss(&mut self, lost: &Lost) {
        let now = lost.now;
        if self.is_persistent() {
            let threshold = self.path.window / 2.0;
            self.enter_classic();
            self.path.waited = Duration::ZERO;
            self.cut(now, 0.0, true);
            self.path.threshold = threshold;
            return;
        }
        let mut window = self.path.window;
        if let Some(cut) = self.path.last_cut {
            let since = now.saturating_duration_since(cut.at);
            let event = self.path.rtt().mul_f64(LOSS_EVENT_RTTS);
            if since < event && cut.by_loss {
                return;
            }
            if since < event {
                // Marks and losses of one round trip are one event: the loss's.
                window = window.max(cut.before);
            }
        }
        if self.path.regime == Regime::Scalable && self.path.rounds_without_mark >= ROUNDS_WITHOUT_MARK {
            self.enter_classic();
        }
        let after = match self.path.regime {
            Regime::Classic => self.path.cubic.cut(window / self.packet_bytes) * self.packet_bytes,
            Regime::Scalable => LOSS_SHARE * window,
        };
        let after = after.min(self.path.window);
        self.cut(now, after, true);
    }

    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        let EcnFeedback { now, acked_packets, ce_packets, .. } = *feedback;
        let failed = feedback.state == EcnState::Failed;
        if failed && !self.path.ecn_failed {
            self.enter_classic();
        }
        self.path.ecn_failed = failed;
        if failed || acked_packets == 0 {
            return;
        }
        self.path.marked_share = feedback.ce_share();
        if self.path.drained.is_none_or(|drained| drained <= now) {
            self.path.drained = None;
            // The counts of a round may include packets of acknowledgements that were lost.
            self.path.alpha.count(acked_packets, ce_packets);
        }
        if ce_packets == 0 {
            return;
        }
        self.path.rounds_without_mark = 0;
        // At most one reduction in a round (draft 2.4.2), and none for packets sent before the last.
        let is_answered = self.path.last_cut.is_some_and(|cut| {
            now.saturating_duration_since(cut.at) < self.path.round()
                || feedback.newest_sent.is_some_and(|sent| sent < cut.at)
        });
        if !is_answered {
            self.reduce(now);
        }
    }

    fn on_rtt_samples(&mut self, samples: &RttSamples) {
        let path = &mut self.path;
        path.least_rtt = samples.least;
        let before = path.smoothed_rtt.unwrap_or(samples.mean);
        let deviation = if path.smoothed_rtt.is_none() { samples.mean / 2 } else { before.abs_diff(samples.mean) };
        path.deviation = (path.deviation * 3 + deviation) / 4;
        path.smoothed_rtt = Some((before * 7 + samples.mean) / 8);
        path.queue.sample(samples.count, samples.mean);
        if path.is_slow_start() {
            path.start.sample(samples.count, samples.least_of_these);
        }
    }

    fn on_path_change(&mut self) {
        self.path = OnPath::new(self.initial_window);
    }
}

impl Prague {
    /// Share of marked packets in the scalable regime; `None` in the classic one.
    pub fn alpha(&self) -> Option<f64> {
        (self.path.regime == Regime::Scalable).then(|| self.path.alpha.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::cubic::BETA;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const PACKET: u64 = 1000;
    const RTT: Duration = Duration::from_millis(20);

    fn feedback(now: Instant, acked_packets: u64, ce_packets: u64, newest_sent: Option<Instant>) -> EcnFeedback {
        let acked_bytes = acked_packets * PACKET;
        EcnFeedback { now, state: EcnState::Capable, acked_packets, acked_bytes, ce_packets, newest_sent }
    }

    /// A control, and the time.
    struct Path {
        control: Prague,
        now: Instant,
        state: EcnState,
    }

    impl Path {
        fn new() -> Path {
            let setup = Setup { packet_bytes: PACKET as usize, initial_window_bytes: 10_000, ..Setup::default() };
            Path { control: Prague::new(&setup), now: Instant::now(), state: EcnState::Capable }
        }

        /// Acknowledges packets of which some are marked, with a full window in flight. The newest was sent a round trip
        /// ago.
        fn ack(&mut self, packets: u64, marked: u64) -> &mut Path {
            let now = self.now;
            let mean = RTT;
            let samples =
                RttSamples { now, count: 1, latest: mean, mean, least_of_these: mean, least: mean, there: None };
            self.control.on_rtt_samples(&samples);
            let newest_sent = now.checked_sub(RTT);
            let state = self.state;
            self.control.on_ecn(&EcnFeedback { state, ..feedback(now, packets, marked, newest_sent) });
            let in_flight_bytes = self.control.path.window as u64;
            self.control.on_ack(&Acked { now, bytes: packets * PACKET, in_flight_bytes });
            self
        }

        fn after(&mut self, time: Duration) -> &mut Path {
            self.now += time;
            self
        }

        fn lose(&mut self) -> &mut Path {
            self.control.on_loss(&Lost { now: self.now, bytes: PACKET });
            self
        }

        fn window(&self) -> f64 {
            self.control.path.window
        }

        /// In the scalable regime, with a window of 100 packets and this share of marks.
        fn scalable(marked_of_100: u64) -> Path {
            let mut path = Path::new();
            path.ack(190, 0).after(RTT).ack(1, 1);
            for _ in 0..20 {
                path.after(2 * VIRTUAL_RTT).ack(100, marked_of_100);
            }
            path.control.path.window = 100_000.0;
            path.after(2 * VIRTUAL_RTT);
            path
        }
    }

    #[test]
    fn the_first_mark_ends_slow_start_at_half_the_window() {
        let mut path = Path::new();
        path.ack(10, 0);
        assert_eq!((path.window(), path.control.alpha()), (20_000.0, None));
        path.after(RTT).ack(1, 1);
        assert_eq!(path.window(), 10_000.0);
        assert!(path.control.alpha().is_some());
        // Marks of the same round trip are answered; later ones by their share.
        path.after(RTT / 2).ack(1, 1);
        assert_eq!(path.window(), 10_000.0);
    }

    #[test]
    fn a_mark_takes_half_of_alpha_once_a_round() {
        let mut path = Path::scalable(20);
        let alpha = path.control.alpha().unwrap();
        assert!((alpha - 0.2).abs() < 1e-9, "{alpha}");
        path.ack(1, 1);
        assert!((path.window() - 90_000.0).abs() < 1.0, "{}", path.window());
        path.after(VIRTUAL_RTT - MS).ack(1, 1);
        assert!((path.window() - 90_000.0).abs() < 1.0, "{}", path.window());
        // The acknowledged packet was sent before the reduction, by the time of a longer path.
        let (now, newest_sent) = (path.after(MS).now, path.now.checked_sub(2 * VIRTUAL_RTT));
        path.control.on_ecn(&feedback(now, 1, 1, newest_sent));
        assert!((path.window() - 90_000.0).abs() < 1.0, "{}", path.window());
        path.ack(1, 1);
        assert!(path.window() < 82_000.0, "{}", path.window());
    }

    #[test]
    fn only_unmarked_packets_open_the_window_by_a_packet_in_25_ms() {
        let mut path = Path::scalable(20);
        path.control.path.last_cut = Some(Cut { at: path.now, by_loss: false, before: 0.0 });
        path.ack(100, 50);
        // A round trip of 20 ms: the square of 20/25 of half a packet.
        assert!((path.window() - 100_000.0 - 0.64 * 500.0).abs() < 1.0, "{}", path.window());
        let before = path.window();
        path.after(MS).ack(100, 100);
        assert_eq!(path.window(), before);
    }

    #[test]
    fn a_loss_halves_and_takes_the_place_of_a_mark_before_it() {
        let mut path = Path::scalable(20);
        path.ack(1, 1).lose();
        assert_eq!(path.window(), 50_000.0);
        path.after(MS).lose();
        assert_eq!(path.window(), 50_000.0);
        path.after(2 * RTT).lose();
        assert_eq!(path.window(), 25_000.0);
    }

    #[test]
    fn without_marks_for_long_a_loss_is_that_of_cubic() {
        let mut path = Path::scalable(20);
        for _ in 0..=ROUNDS_WITHOUT_MARK {
            path.after(2 * VIRTUAL_RTT).ack(1, 0);
        }
        let before = path.window();
        path.lose();
        assert!((path.window() - BETA * before).abs() < 1.0);
        assert_eq!(path.control.alpha(), None);
    }

    #[test]
    fn a_path_without_ecn_is_cubic_and_ignores_counts() {
        let mut path = Path::scalable(20);
        path.state = EcnState::Failed;
        path.ack(10, 10);
        assert_eq!(path.control.alpha(), None);
        assert!(path.window() >= 100_000.0);
        let before = path.window();
        path.lose();
        assert!((path.window() - BETA * before).abs() < 1.0);
        // Another path is validated anew.
        path.state = EcnState::Capable;
        path.control.on_path_change();
        assert_eq!(path.window(), 10_000.0);
        path.ack(1, 1);
        assert!(path.control.alpha().is_some());
    }

    #[test]
    fn silence_leaves_two_packets() {
        let mut path = Path::scalable(20);
        path.ack(1, 0).after(RTT * 20).ack(1, 0).lose();
        assert_eq!(path.control.window_bytes(), Some(2000));
        // Slow start leads back.
        path.after(RTT).ack(2, 0);
        assert_eq!(path.window(), 4000.0);
        // Silence without a packet in flight is none.
        path.control.path.waiting = None;
        let now = path.after(RTT * 100).now;
        path.control.on_packet_sent(&Sent { now, bytes: PACKET });
        path.after(RTT).ack(2, 0).lose();
        assert!(path.window() > 3000.0, "{}", path.window());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ack { packets: u64, marked: u64, bytes: u64, in_flight: u64, sent_ago_ms: u64 },
        Rtt { us: u64, least_us: u64 },
        Loss,
        Failed,
        Path,
        Sent,
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..200, prop_oneof![0u64..4, any::<u64>()], 0u64..300_000, 0u64..1_000_000, 0u64..500).prop_map(
                |(packets, marked, bytes, in_flight, sent_ago_ms)| {
                    Step::Ack { packets, marked, bytes, in_flight, sent_ago_ms }
                }
            ),
            4 => (0u64..2_000_000, 0u64..2_000_000).prop_map(|(us, least_us)| Step::Rtt { us, least_us }),
            2 => Just(Step::Loss),
            1 => Just(Step::Failed),
            1 => Just(Step::Path),
            2 => Just(Step::Sent),
        ]
    }

    proptest! {
        // A peer may report any counts.
        #[test]
        fn window_and_rate_stay_within_bounds(steps in prop::collection::vec((0u64..200, steps()), 1..120)) {
            let Path { mut control, mut now, .. } = Path::new();
            for (ms, step) in steps {
                now += Duration::from_millis(ms);
                let before = control.path.window;
                match step {
                    Step::Ack { packets, marked, bytes, in_flight, sent_ago_ms } => {
                        let newest_sent = now.checked_sub(Duration::from_millis(sent_ago_ms));
                        control.on_ecn(&feedback(now, packets, marked, newest_sent));
                        let after_marks = control.path.window;
                        prop_assert!(after_marks <= before.max(2.0 * PACKET as f64) && after_marks >= before * 0.5);
                        control.on_ack(&Acked { now, bytes, in_flight_bytes: in_flight });
                        let all_marked = packets > 0 && marked >= packets && !control.path.ecn_failed;
                        let most = if all_marked { 0.0 } else { bytes as f64 };
                        prop_assert!(control.path.window <= after_marks + most + 1e-6);
                        prop_assert!(control.path.window >= after_marks);
                    }
                    Step::Rtt { us, least_us } => {
                        let [mean, least] = [us, least_us].map(Duration::from_micros);
                        control.on_rtt_samples(&RttSamples {
                            now, count: 1, latest: mean, mean, least_of_these: mean, least, there: None,
                        });
                    }
                    Step::Loss => {
                        control.on_loss(&Lost { now, bytes: PACKET });
                        prop_assert!(control.path.window <= before.max(2.0 * PACKET as f64));
                    }
                    Step::Failed => {
                        control.on_ecn(&EcnFeedback { state: EcnState::Failed, ..feedback(now, 0, 0, None) });
                    }
                    Step::Path => control.on_path_change(),
                    Step::Sent => control.on_packet_sent(&Sent { now, bytes: PACKET }),
                }
                prop_assert!(control.path.window.is_finite() && control.path.window >= 0.0);
                prop_assert!(control.window_bytes().unwrap() >= 2 * PACKET as usize);
                prop_assert!(control.pacing_rate_bytes_s().is_some());
                prop_assert!(control.alpha().is_none_or(|alpha| (0.0..=1.0).contains(&alpha)));
            }
        }
    }
}
