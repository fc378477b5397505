// SPDX-License-Identifier: Apache-2.0
//! Number of segments that a subscriber has out. `docs/design/icn.md`, "The window", gives the reasons.

use std::time::{Duration, Instant};

/// At first (RFC 6928 2).
pub const FIRST: f64 = 10.0;
/// Below the quota that a switch has for a port.
pub const MOST: f64 = 1024.0;
/// Factor on a mark (RFC 8511 3.1).
const MARKED: f64 = 0.85;
/// Factor on losses above the credit (RFC 9438 4.6).
const LOST: f64 = 0.7;
/// Factor on a queue that grew.
const QUEUED: f64 = 0.8;
/// Factor on the path's own content, to empty its queue.
const DRAINED: f64 = 0.75;
/// Factor on a refusal.
const REFUSED: f64 = 0.5;
/// Losses that are taken for the radio's and not for congestion: this share of what is answered, ...
const CREDIT_PER_ANSWER: f64 = 0.03;
/// ... and so many at once.
const MOST_CREDIT: f64 = 4.0;
/// A queue may hold this much, or one least response time if that is more.
const QUEUE: Duration = Duration::from_millis(50);
/// The least response time is that of the last one to two of these.
const LEAST_FOR: Duration = Duration::from_secs(10);
/// Rounds without congestion after which the growth of a round doubles.
const QUIET_ROUNDS: u32 = 4;
/// RFC 9406 4.3: response times that have grown by an eighth since the round before, within these bounds, show a queue
/// in slow start. ...
const GREW: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// ... So many of a round must.
const GROWN: u32 = 4;
/// Slow start stands still then, and is over after so many rounds, unless the times fall again.
const WAITS_ROUNDS: u32 = 2;

/// The window. Asks are numbered in the order they are sent; a round is over when what was sent in it is answered.
#[derive(Debug, Clone)]
pub struct Window {
    size: f64,
    /// Below this it grows by one for each answer.
    threshold: f64,
    /// Losses that may come before it closes.
    credit: f64,
    /// It does not close for an ask before this one: that was sent before it closed last (RFC 9002 7.3.2).
    recovers_at: u64,
    round_ends: u64,
    round_least: Option<Duration>,
    /// A round trip to the publisher, measured on another way. Another's Interest makes answers come sooner: their
    /// estimate of the network is true for no less than this.
    round_trip: Duration,
    round_began: Option<Instant>,
    /// When something was answered last, and when it closed last.
    heard: Option<Instant>,
    closed: Option<Instant>,
    round_most: Duration,
    last_round_most: Option<Duration>,
    /// Response times of this round that show a queue.
    grown: u32,
    waits: Option<Waits>,
    quiet_rounds: u32,
    least: [Option<Duration>; 2],
    least_since: Option<Instant>,
}

/// Slow start after response times have grown.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// Threshold of response times that show a queue.
    bar: Duration,
    rounds: u32,
}

impl Default for Window {
    fn default() -> Self {
        Window {
            size: FIRST,
            threshold: f64::INFINITY,
            credit: MOST_CREDIT,
            recovers_at: 0,
            round_ends: 0,
            round_least: None,
            round_trip: Duration::ZERO,
            round_began: None,
            heard: None,
            closed: None,
            round_most: Duration::ZERO,
            last_round_most: None,
            grown: 0,
            waits: None,
            quiet_rounds: 0,
            least: [None; 2],
            least_since: None,
        }
    }
}

/// An answer to an ask.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// The ask's number.
    pub ask: u64,
    /// The number of the next ask.
    pub next: u64,
    /// Response time, if it is a measurement of the network.
    pub time: Option<Duration>,
    /// It carries a mark.
    pub marked: bool,
    /// The window was full: without that it is not known whether it could be larger (RFC 9002 7.8).
    pub full: bool,
}

impl Window {
    /// A window that knows a round trip to the publisher.
    pub fn new(round_trip: Duration) -> Window {
        Window { round_trip, ..Window::default() }
    }

    /// Number of segments that may be out.
    pub fn allowed(&self) -> usize {
        self.size as usize
    }

    /// An ask was answered.
    pub fn answered(&mut self, answer: Answered, now: Instant) {
        self.credit = (self.credit + CREDIT_PER_ANSWER).min(MOST_CREDIT);
        self.heard = Some(now);
        if let Some(time) = answer.time {
            self.round_least = Some(self.round_least.map_or(time, |least| least.min(time)));
            self.look_for_a_queue(time);
            self.least[0] = Some(self.least[0].map_or(time, |least| least.min(time)));
        }
        if answer.marked {
            self.close(MARKED, answer.ask, answer.next);
        }
        if answer.ask >= self.round_ends && now >= *self.round_began.get_or_insert(now) + self.round_trip {
            self.round_began = Some(now);
            self.end_round(answer.ask, answer.next, now);
        }
        if answer.full && !answer.marked && answer.ask >= self.recovers_at {
            let step = match self.size < self.threshold {
                true if self.waits.is_some() => 0.0,
                true => 1.0,
                false => {
                    f64::from(1 << (self.quiet_rounds / QUIET_ROUNDS).min(10)).min(self.size / 8.0).max(1.0) / self.size
                }
            };
            self.size = (self.size + step).min(MOST);
        }
    }

    /// In slow start: whether a queue grows. It is seen before it is long. Another's Interest makes some answers come
    /// sooner, so the longest times count, not the shortest as in RFC 9406, and not without a round trip as they are
    /// alone. Since they may be long by chance, the window stands still at first.
    fn look_for_a_queue(&mut self, time: Duration) {
        self.round_most = self.round_most.max(time);
        let Some(last) = self.last_round_most.filter(|_| self.size < self.threshold) else { return };
        let last = last.max(self.round_trip);
        let bar = self.waits.map_or(last + (last / 8).clamp(GREW.0, GREW.1), |waits| waits.bar);
        self.grown += u32::from(time >= bar);
        if self.grown >= GROWN && self.waits.is_none() {
            self.waits = Some(Waits { bar, rounds: 0 });
        }
    }

    fn end_wait(&mut self) {
        self.last_round_most = Some(std::mem::take(&mut self.round_most)).filter(|most| !most.is_zero());
        let grown = std::mem::take(&mut self.grown) >= GROWN;
        let Some(waits) = &mut self.waits else { return };
        waits.rounds += 1;
        if !grown {
            self.waits = None;
        } else if waits.rounds > WAITS_ROUNDS {
            self.threshold = self.threshold.min(self.size);
            (self.waits, self.quiet_rounds) = (None, 0);
        }
    }

    fn end_round(&mut self, ask: u64, next: u64, now: Instant) {
        self.round_ends = next;
        self.quiet_rounds = self.quiet_rounds.saturating_add(1);
        self.end_wait();
        let least = self.least.into_iter().flatten().min().map(|least| least.max(self.round_trip));
        let (Some(round), Some(least)) = (self.round_least.take(), least) else { return };
        let allowed = QUEUE.max(least);
        let queue = round.saturating_sub(least);
        // Not below what it began with: the least time may be that of an answer which another's Interest had fetched.
        let at_least = |factor: f64| factor.max(FIRST / self.size).min(1.0);
        let since = *self.least_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= LEAST_FOR {
            self.least = [None, self.least[0]];
            self.least_since = Some(now);
            // The queue is emptied once, or what stands in it would become the least time.
            let (before, factor) = (self.size, at_least(DRAINED * least.as_secs_f64() / round.as_secs_f64()));
            if queue > least / 4 {
                self.close(factor, ask, next);
                self.threshold = self.threshold.max(before);
            }
        } else if queue > allowed {
            self.close(at_least(QUEUED), ask, next);
        } else if queue > allowed / 2 {
            // The link is busy: there is nothing to be found by growing faster.
            self.quiet_rounds = 0;
            self.threshold = self.threshold.min(self.size);
        }
    }

    /// An ask was not answered, while later ones were. Whether that closes the window.
    pub fn lost(&mut self, ask: u64, next: u64) -> bool {
        self.credit -= 1.0;
        if self.credit >= 0.0 {
            return false;
        }
        self.credit = 0.0;
        self.close(LOST, ask, next)
    }

    /// A segment that was counted as lost had only been late.
    pub fn found(&mut self) {
        self.credit = (self.credit + 1.0).min(MOST_CREDIT);
    }

    /// A switch or a host asks to be asked less.
    pub fn refused(&mut self, ask: u64, next: u64) {
        self.close(REFUSED, ask, next);
    }

    /// Nothing was heard for as long as an ask waits (RFC 5681 3.1: one segment, then slow start to half).
    pub fn silent(&mut self, next: u64) {
        self.threshold = (self.size / 2.0).max(2.0);
        self.size = 1.0;
        self.credit = 0.0;
        self.recovers_at = next;
        (self.quiet_rounds, self.waits) = (0, None);
    }

    fn close(&mut self, factor: f64, ask: u64, next: u64) -> bool {
        let again_at = self.closed.map(|at| at + self.round_trip);
        if ask < self.recovers_at || again_at.is_some_and(|at| self.heard < Some(at)) {
            return false;
        }
        self.closed = self.heard;
        self.size = (self.size * factor).max(1.0);
        self.threshold = self.size;
        self.recovers_at = next;
        (self.quiet_rounds, self.waits) = (0, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A link that carries a segment each `service`, behind a delay; what is out is answered in order.
    struct Link {
        now: Instant,
        free_at: Instant,
        service: Duration,
        delay: Duration,
        /// Segments that may wait.
        buffer: usize,
        /// Segments above which all are marked.
        mark_above: usize,
        queue: VecDeque<(u64, Instant, Instant, bool, bool)>,
        next: u64,
        random: fastrand::Rng,
        loss: f64,
    }

    impl Link {
        fn new(mbit_s: u64, delay_ms: u64, loss: f64, seed: u64) -> Link {
            let now = Instant::now();
            Link {
                now,
                free_at: now,
                service: Duration::from_nanos(1500 * 8 * 1000 / mbit_s),
                delay: Duration::from_millis(delay_ms),
                buffer: usize::MAX,
                mark_above: usize::MAX,
                queue: VecDeque::new(),
                next: 0,
                random: fastrand::Rng::with_seed(seed),
                loss,
            }
        }

        /// Runs for `time`; gives the segments that were answered, and the largest window.
        fn run(&mut self, window: &mut Window, time: Duration) -> (u64, usize) {
            let (end, mut answered, mut largest) = (self.now + time, 0, 0);
            while self.now < end {
                while self.queue.len() < window.allowed() {
                    let waiting = self.free_at.saturating_duration_since(self.now).as_nanos() / self.service.as_nanos();
                    let dropped = waiting as usize >= self.buffer || self.random.f64() < self.loss;
                    let marked = waiting as usize >= self.mark_above;
                    if !dropped {
                        self.free_at = self.free_at.max(self.now) + self.service;
                    }
                    let back = self.free_at.max(self.now) + self.delay;
                    self.queue.push_back((self.next, self.now, back, dropped, marked));
                    self.next += 1;
                }
                largest = largest.max(window.allowed());
                let full = self.queue.len() >= window.allowed();
                let Some((ask, sent, back, dropped, marked)) = self.queue.pop_front() else { break };
                self.now = self.now.max(back);
                if dropped {
                    window.lost(ask, self.next);
                } else {
                    answered += 1;
                    let time = Some(self.now - sent);
                    window.answered(Answered { ask, next: self.next, time, marked, full }, self.now);
                }
            }
            (answered, largest)
        }

        fn capacity(&self, time: Duration) -> u64 {
            (time.as_nanos() / self.service.as_nanos()) as u64
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);
    const HALF_SECOND: Duration = Duration::from_millis(500);

    #[test]
    fn random_losses_of_one_in_a_hundred_do_not_starve_it() {
        for (mbit_s, delay_ms) in [(5, 20), (20, 20), (20, 100), (100, 20)] {
            for seed in 0..3 {
                let mut link = Link::new(mbit_s, delay_ms, 0.01, seed);
                let (answered, _) = link.run(&mut Window::default(), MINUTE);
                let share = answered as f64 / link.capacity(MINUTE) as f64;
                assert!(share > 0.93, "{mbit_s} Mbit/s, {delay_ms} ms: {share}");
            }
        }
    }

    #[test]
    fn marks_keep_the_queue_short_and_the_link_busy() {
        let mut link = Link { mark_above: 20, ..Link::new(20, 20, 0.0, 1) };
        let mut window = Window::default();
        link.run(&mut window, Duration::from_secs(5));
        let (answered, largest) = link.run(&mut window, MINUTE);
        assert!(answered as f64 / link.capacity(MINUTE) as f64 > 0.95);
        // 33 segments are on the way, 20 may wait; a round's growth and delay come on top.
        assert!(largest < 80, "{largest}");
    }

    #[test]
    fn a_queue_that_nobody_manages_grows_by_no_more_than_its_bound() {
        let mut link = Link::new(10, 20, 0.0, 1);
        let mut window = Window::default();
        link.run(&mut window, Duration::from_secs(5));
        let (answered, largest) = link.run(&mut window, MINUTE);
        assert!(answered as f64 / link.capacity(MINUTE) as f64 > 0.98);
        // 70 ms at 1.2 ms each are 58.
        assert!(largest < 75, "{largest}");
    }

    #[test]
    fn slow_start_ends_before_its_queue_is_long() {
        for (mbit_s, delay_ms) in [(16, 12), (10, 50), (20, 20), (100, 12)] {
            let mut link = Link::new(mbit_s, delay_ms, 0.0, 1);
            let (answered, largest) = link.run(&mut Window::default(), HALF_SECOND);
            let carries = Duration::from_millis(delay_ms).as_nanos() / link.service.as_nanos();
            let queue_ms = (largest as u64).saturating_sub(carries as u64) * link.service.as_nanos() as u64 / 1_000_000;
            // Doubling until a round's least time had grown, it was 100 ms.
            assert!(queue_ms < 55, "{mbit_s} Mbit/s, {delay_ms} ms: {queue_ms} ms");
            let share = answered as f64 / link.capacity(HALF_SECOND) as f64;
            assert!(share > 0.6, "{mbit_s} Mbit/s, {delay_ms} ms: {share}");
        }
    }

    #[test]
    fn answers_that_others_fetched_do_not_close_it_again_and_again() {
        // For 80 ms all answers come after 2 ms and are marked: one queue, which a close can't have changed yet.
        let run = |mut window: Window| {
            let start = Instant::now();
            for ask in 0..400 {
                let now = start + Duration::from_micros(200 * ask);
                let time = Some(Duration::from_millis(2));
                window.answered(Answered { ask, next: ask + 10, time, marked: true, full: true }, now);
            }
            // Then it is alone again: what takes 82 ms is no queue.
            for ask in 400..500 {
                let now = start + Duration::from_millis(80 + 82 * (ask - 400));
                let time = Some(Duration::from_millis(82));
                window.answered(Answered { ask, next: ask + 10, time, marked: false, full: true }, now);
            }
            window.allowed()
        };
        let (knows, guesses) = (run(Window::new(Duration::from_millis(82))), run(Window::default()));
        assert!(knows > 15 && guesses < 10, "{knows}, {guesses}");
    }

    #[test]
    fn a_small_buffer_that_drops_closes_it() {
        let mut link = Link { buffer: 15, ..Link::new(10, 20, 0.0, 1) };
        let mut window = Window::default();
        let (answered, _) = link.run(&mut window, MINUTE);
        let asked = link.next;
        assert!(answered as f64 / link.capacity(MINUTE) as f64 > 0.9);
        assert!((asked - answered) as f64 / (asked as f64) < 0.06, "{answered} of {asked}");
    }

    #[test]
    fn persistent_losses_close_it_as_the_square_root_says() {
        // RFC 5348 3.1: 1.2 / sqrt(p) for a control that halves; ours is more patient below 3 %.
        let mean = |loss: f64| {
            let mut link = Link::new(10_000, 20, loss, 7);
            let mut window = Window::default();
            link.run(&mut window, Duration::from_secs(20));
            let (answered, _) = link.run(&mut window, MINUTE);
            answered as f64 / (MINUTE.as_secs_f64() / 0.02)
        };
        let (ten, thirty) = (mean(0.1), mean(0.3));
        assert!(ten < 15.0 && thirty < 4.0 && thirty < ten, "{ten}, {thirty}");
    }

    #[test]
    fn silence_and_refusals_close_it_to_one() {
        let mut window = Window::default();
        for n in 0..10 {
            window.refused(n * 100, n * 100 + 100);
        }
        assert_eq!(window.allowed(), 1);
        let mut window = Window::default();
        window.silent(10);
        assert_eq!(window.allowed(), 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Answer { back: u64, ms: Option<u64>, marked: bool, full: bool },
        Lost { back: u64 },
        Refused { back: u64 },
        Found,
        Silent,
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..50, prop::option::of(0u64..1000), any::<bool>(), any::<bool>())
                .prop_map(|(back, ms, marked, full)| Step::Answer { back, ms, marked, full }),
            2 => (0u64..50).prop_map(|back| Step::Lost { back }),
            1 => (0u64..50).prop_map(|back| Step::Refused { back }),
            1 => Just(Step::Found),
            1 => Just(Step::Silent),
        ]
    }

    proptest! {
        #[test]
        fn it_stays_in_its_bounds_and_closes_once_a_round(steps in prop::collection::vec(steps(), 0..400)) {
            let (mut window, now, mut next) = (Window::default(), Instant::now(), 50);
            let mut closed_at = 0;
            for (i, step) in steps.into_iter().enumerate() {
                let (before, at) = (window.size, now + Duration::from_millis(i as u64));
                let mut asked = None;
                match step {
                    Step::Answer { back, ms, marked, full } => {
                        asked = Some(next - back);
                        let time = ms.map(Duration::from_millis);
                        window.answered(Answered { ask: next - back, next, time, marked, full }, at);
                    }
                    Step::Lost { back } => { asked = Some(next - back); window.lost(next - back, next); }
                    Step::Refused { back } => { asked = Some(next - back); window.refused(next - back, next); }
                    Step::Found => window.found(),
                    Step::Silent => { window.silent(next); closed_at = next; }
                }
                prop_assert!(window.size >= 1.0 && window.size <= MOST && window.allowed() >= 1);
                prop_assert!(window.size <= before + 1.0);
                if let Some(ask) = asked && window.size < before {
                    prop_assert!(ask >= closed_at && window.size >= (before * REFUSED).max(1.0) - 1e-9);
                    closed_at = next;
                }
                next += 1;
            }
        }
    }
}
