// SPDX-License-Identifier: Apache-2.0
//! A bottleneck in virtual time, for tests: flows of [`Prague`] on one line with a marking or dropping queue.

use super::Prague;
use crate::congestion::control::{Acked, CongestionControl, EcnFeedback, EcnState, Lost, RttSamples, Sent, Setup};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

const PACKET_BYTES: usize = 1200;
const MS: u64 = 1_000_000;

/// Queue discipline.
#[derive(Debug, Clone, Copy)]
enum Aqm {
    /// Marks ECT(1) packets that waited longer than this; drops others at `limit`.
    Step { ns: u64 },
    /// One queue of RFC 3168: marks any ECT packet with the probability of a PI controller, drops others.
    Classic,
    /// DualQ (RFC 9332) with this coupling factor.
    Coupled { k: f64 },
    /// Drops at the limit only.
    Tail,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    mbit_s: f64,
    aqm: Aqm,
    limit_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct FlowSetup {
    rtt_ns: u64,
    /// Sends Not-ECT and is CUBIC.
    not_ect: bool,
    /// Bits per second of an application; `None`: no limit.
    app_bit_s: Option<f64>,
}

const fn prague(rtt_ms: u64) -> FlowSetup {
    FlowSetup { rtt_ns: rtt_ms * MS, not_ect: false, app_bit_s: None }
}

const fn cubic(rtt_ms: u64) -> FlowSetup {
    FlowSetup { rtt_ns: rtt_ms * MS, not_ect: true, app_bit_s: None }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Departs,
    Acked { flow: usize, number: u64, marked: bool, sent_ns: u64 },
    Wakes { flow: usize },
}

fn feedback(now: Instant, state: EcnState, packets: u64, marked: bool, newest_sent: Option<Instant>) -> EcnFeedback {
    let (acked_packets, acked_bytes) = (packets, packets * PACKET_BYTES as u64);
    EcnFeedback { now, state, acked_packets, acked_bytes, ce_packets: marked.into(), newest_sent }
}

struct Packet {
    flow: usize,
    number: u64,
    sent_ns: u64,
    queued_ns: u64,
}

struct Flow {
    setup: FlowSetup,
    control: Prague,
    next: u64,
    open: BTreeMap<u64, u64>,
    next_release_ns: u64,
    wakes_ns: u64,
    last_ack_ns: u64,
    least_rtt: Duration,
    app_bits: f64,
    acked_packets: u64,
    delays_ns: Vec<u64>,
    lost: u64,
    marked: u64,
}

/// Result for one flow after the warm-up.
#[derive(Debug)]
struct Seen {
    mbit_s: f64,
    p99_ms: f64,
    lost: u64,
    marked: u64,
    classic: bool,
}

struct World {
    line: Line,
    t0: Instant,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    flows: Vec<Flow>,
    low: VecDeque<Packet>,
    classic: VecDeque<Packet>,
    busy: bool,
    random: fastrand::Rng,
    /// PI controller: its output, last delay and next update.
    p: f64,
    before_ns: f64,
    update_ns: u64,
}

impl World {
    fn new(line: Line, flows: &[FlowSetup], seed: u64) -> World {
        let setup = Setup { packet_bytes: PACKET_BYTES, initial_window_bytes: 10 * PACKET_BYTES, ..Setup::default() };
        let t0 = Instant::now();
        let flows = flows.iter().map(|flow| {
            let mut control = Prague::new(&setup);
            if flow.not_ect {
                control.on_ecn(&feedback(t0, EcnState::Failed, 0, false, None));
            }
            Flow {
                setup: *flow,
                control,
                next: 0,
                open: BTreeMap::new(),
                next_release_ns: 0,
                wakes_ns: 0,
                last_ack_ns: 0,
                least_rtt: Duration::MAX,
                app_bits: 0.0,
                acked_packets: 0,
                delays_ns: vec![],
                lost: 0,
                marked: 0,
            }
        });
        let mut world = World {
            line,
            t0,
            events: BinaryHeap::new(),
            sequence: 0,
            flows: flows.collect(),
            low: VecDeque::new(),
            classic: VecDeque::new(),
            busy: false,
            random: fastrand::Rng::with_seed(seed),
            p: 0.0,
            before_ns: 0.0,
            update_ns: 0,
        };
        for flow in 0..world.flows.len() {
            world.at(flow as u64 * 3 * MS, Event::Wakes { flow });
        }
        world
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((ns, self.sequence, event)));
    }

    fn instant(&self, ns: u64) -> Instant {
        self.t0 + Duration::from_nanos(ns)
    }

    fn packet_ns(&self) -> u64 {
        ((PACKET_BYTES * 8) as f64 * 1e3 / self.line.mbit_s) as u64
    }

    /// Sends what the window, the pacer and the application allow.
    fn send(&mut self, flow: usize, now: u64) {
        let time = self.instant(now);
        let mut arrivals = vec![];
        let f = &mut self.flows[flow];
        if let Some(bit_s) = f.setup.app_bit_s {
            f.app_bits = bit_s * now as f64 / 1e9 - (f.next * PACKET_BYTES as u64 * 8) as f64;
        }
        let mut wake = None;
        loop {
            let window = f.control.window_bytes().unwrap();
            if (f.open.len() + 1) * PACKET_BYTES > window {
                break;
            }
            if f.setup.app_bit_s.is_some() && f.app_bits < (PACKET_BYTES * 8) as f64 {
                wake = Some(now + MS);
                break;
            }
            if f.next_release_ns > now {
                wake = Some(f.next_release_ns);
                break;
            }
            let rate = f.control.pacing_rate_bytes_s().unwrap().max(1200);
            f.next_release_ns = f.next_release_ns.max(now) + PACKET_BYTES as u64 * 1_000_000_000 / rate;
            f.control.on_packet_sent(&Sent { now: time, bytes: PACKET_BYTES as u64 });
            f.open.insert(f.next, now);
            f.app_bits -= (PACKET_BYTES * 8) as f64;
            arrivals.push(Packet { flow, number: f.next, sent_ns: now, queued_ns: now });
            f.next += 1;
        }
        for packet in arrivals {
            self.arrive(packet);
        }
        if let Some(ns) = wake.filter(|_| self.flows[flow].wakes_ns <= now) {
            self.flows[flow].wakes_ns = ns;
            self.at(ns, Event::Wakes { flow });
        }
        if !self.busy {
            self.depart(now);
        }
    }

    fn waiting_ns(&self) -> u64 {
        (self.low.len() + self.classic.len()) as u64 * self.packet_ns()
    }

    fn arrive(&mut self, packet: Packet) {
        let now = packet.sent_ns;
        let is_low = matches!(self.line.aqm, Aqm::Coupled { .. }) && !self.flows[packet.flow].setup.not_ect;
        // PI2 as in RFC 9332 A.1: target 15 ms, a step each 16 ms.
        while self.update_ns <= now {
            let age = |queue: &VecDeque<Packet>| queue.front().map_or(0, |p| now - p.queued_ns) as f64;
            let delay = age(&self.low).max(age(&self.classic));
            self.p = (self.p + 0.16 * 0.016 * (delay - 15e6) / 1e9 * 10.0 + 3.2 * (delay - self.before_ns) / 1e9)
                .clamp(0.0, 1.0);
            self.before_ns = delay;
            self.update_ns += 16 * MS;
        }
        let is_full = self.waiting_ns() > self.line.limit_ns;
        let is_hit = matches!(self.line.aqm, Aqm::Classic | Aqm::Coupled { .. })
            && self.flows[packet.flow].setup.not_ect
            && self.random.f64() < self.p * self.p;
        if is_full || is_hit {
            return;
        }
        if is_low { self.low.push_back(packet) } else { self.classic.push_back(packet) }
    }

    fn depart(&mut self, now: u64) {
        let (packet, is_low) = match self.low.pop_front() {
            Some(packet) => (packet, true),
            None => match self.classic.pop_front() {
                Some(packet) => (packet, false),
                None => {
                    self.busy = false;
                    return;
                }
            },
        };
        self.busy = true;
        let waited = now - packet.queued_ns;
        let roll = self.random.f64();
        let ect = !self.flows[packet.flow].setup.not_ect;
        let marked = ect
            && match self.line.aqm {
                Aqm::Step { ns } => waited > ns,
                Aqm::Classic => roll < self.p * self.p,
                Aqm::Coupled { k } => is_low && (waited > MS.max(2 * self.packet_ns()) || roll < k * self.p),
                Aqm::Tail => false,
            };
        let leaves = now + self.packet_ns();
        let flow = &mut self.flows[packet.flow];
        flow.delays_ns.push(waited);
        let ack = leaves + flow.setup.rtt_ns;
        let Packet { flow, number, sent_ns, .. } = packet;
        self.at(ack, Event::Acked { flow, number, marked, sent_ns });
        self.at(leaves, Event::Departs);
    }

    fn acked(&mut self, now: u64, flow: usize, number: u64, marked: bool, sent_ns: u64) {
        let (time, sent) = (self.instant(now), self.instant(sent_ns));
        let f = &mut self.flows[flow];
        f.last_ack_ns = now;
        if f.open.remove(&number).is_none() {
            return;
        }
        let lost: Vec<u64> = f.open.range(..number.saturating_sub(2)).map(|(n, _)| *n).collect();
        lost.iter().for_each(|n| {
            f.open.remove(n);
        });
        f.acked_packets += 1;
        f.marked += u64::from(marked);
        f.lost += lost.len() as u64;
        let rtt = Duration::from_nanos(now - sent_ns);
        f.least_rtt = f.least_rtt.min(rtt);
        let least = f.least_rtt;
        f.control.on_rtt_samples(&RttSamples {
            now: time,
            count: 1,
            latest: rtt,
            mean: rtt,
            least_of_these: rtt,
            least,
            there: None,
        });
        if !f.setup.not_ect {
            f.control.on_ecn(&feedback(time, EcnState::Capable, 1, marked, Some(sent)));
        }
        let in_flight_bytes = (f.open.len() * PACKET_BYTES) as u64;
        f.control.on_ack(&Acked { now: time, bytes: PACKET_BYTES as u64, in_flight_bytes });
        if !lost.is_empty() {
            f.control.on_loss(&Lost { now: time, bytes: (lost.len() * PACKET_BYTES) as u64 });
        }
    }

    /// Runs for so long, and measures after `warm_s`.
    fn run(&mut self, warm_s: u64, run_s: u64) -> Vec<Seen> {
        let (warm, end) = (warm_s * 1000 * MS, run_s * 1000 * MS);
        let mut is_warm = false;
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now > end {
                break;
            }
            if !is_warm && now >= warm {
                is_warm = true;
                for f in &mut self.flows {
                    (f.acked_packets, f.lost, f.marked) = (0, 0, 0);
                    f.delays_ns.clear();
                }
            }
            match event {
                Event::Departs => self.depart(now),
                Event::Wakes { flow } => self.send(flow, now),
                Event::Acked { flow, number, marked, sent_ns } => {
                    self.acked(now, flow, number, marked, sent_ns);
                    self.send(flow, now);
                }
            }
            // A probe timeout: everything in flight was dropped.
            for flow in 0..self.flows.len() {
                let f = &mut self.flows[flow];
                let silence = now - f.last_ack_ns;
                if !f.open.is_empty() && silence > 3 * f.setup.rtt_ns + 300 * MS {
                    let lost = std::mem::take(&mut f.open).len();
                    f.last_ack_ns = now;
                    let now_is = self.t0 + Duration::from_nanos(now);
                    f.control.on_loss(&Lost { now: now_is, bytes: (lost * PACKET_BYTES) as u64 });
                    self.send(flow, now);
                }
            }
        }
        let seconds = (run_s - warm_s) as f64;
        let seen = self.flows.iter_mut().map(|f| {
            f.delays_ns.sort_unstable();
            let number = f.delays_ns.len();
            assert!(number > 0, "a flow starved");
            Seen {
                mbit_s: (f.acked_packets * PACKET_BYTES as u64 * 8) as f64 / seconds / 1e6,
                p99_ms: f.delays_ns[number * 99 / 100] as f64 / 1e6,
                lost: f.lost,
                marked: f.marked,
                classic: f.control.alpha().is_none(),
            }
        });
        seen.collect()
    }
}

fn run(mbit_s: f64, aqm: Aqm, flows: &[FlowSetup]) -> Vec<Seen> {
    let line = Line { mbit_s, aqm, limit_ns: 200 * MS };
    World::new(line, flows, 1).run(10, 40)
}

#[test]
fn a_step_keeps_the_line_full_and_the_queue_short() {
    for mbit_s in [4.0, 10.0, 40.0, 100.0] {
        // Two packets on the line, or a millisecond (RFC 9332 A.1).
        let (packet_ms, step_ms) = (9.6 / mbit_s, f64::max(1.0, 2.0 * 9.6 / mbit_s));
        let seen = run(mbit_s, Aqm::Step { ns: (step_ms * MS as f64) as u64 }, &[prague(20)]);
        let [flow] = &seen[..] else { panic!() };
        assert!(flow.mbit_s > 0.93 * mbit_s, "{mbit_s}: {seen:?}");
        assert!(flow.p99_ms < step_ms + 3.0 * packet_ms, "{mbit_s}: {seen:?}");
        assert!(flow.lost == 0 && !flow.classic && flow.marked > 0, "{mbit_s}: {seen:?}");
    }
}

#[test]
fn short_and_longer_paths_get_the_same_rate() {
    let seen = run(40.0, Aqm::Step { ns: MS }, &[prague(5), prague(5), prague(20), prague(20)]);
    let ratio = (seen[0].mbit_s + seen[1].mbit_s) / (seen[2].mbit_s + seen[3].mbit_s);
    assert!((0.7..1.4).contains(&ratio), "{seen:?}");
}

#[test]
fn beside_cubic_under_a_coupled_law_the_rates_are_similar() {
    for (mbit_s, number) in [(10.0, 1), (40.0, 1), (40.0, 2), (100.0, 2)] {
        let mut flows = vec![prague(20); number];
        flows.extend(vec![cubic(20); number]);
        let seen = run(mbit_s, Aqm::Coupled { k: 2.0 }, &flows);
        let sum = |seen: &[Seen]| seen.iter().map(|s| s.mbit_s).sum::<f64>();
        let ratio = sum(&seen[..number]) / sum(&seen[number..]);
        assert!((0.5..2.0).contains(&ratio), "{mbit_s}: {ratio} {seen:?}");
        assert!(seen[0].p99_ms < 1.0 + 3.0 * 9.6 / mbit_s, "{mbit_s}: {seen:?}");
        assert!(!seen[0].classic, "{mbit_s}: {seen:?}");
    }
}

#[test]
fn marks_of_a_classic_queue_are_answered_as_by_cubic() {
    let seen = run(40.0, Aqm::Classic, &[prague(20), cubic(20)]);
    assert!(seen[0].classic, "{seen:?}");
    let ratio = seen[0].mbit_s / seen[1].mbit_s;
    assert!((0.5..2.0).contains(&ratio), "{seen:?}");
}

#[test]
fn without_marks_it_is_cubic() {
    let seen = run(40.0, Aqm::Tail, &[prague(20), cubic(20)]);
    let ratio = seen[0].mbit_s / seen[1].mbit_s;
    assert!(seen[0].classic && (0.4..2.5).contains(&ratio), "{seen:?}");
    assert!(seen[0].mbit_s + seen[1].mbit_s > 38.0, "{seen:?}");
}

#[test]
fn an_application_without_data_does_not_open_the_window() {
    let slow = FlowSetup { app_bit_s: Some(4e6), ..prague(20) };
    let line = Line { mbit_s: 40.0, aqm: Aqm::Step { ns: MS }, limit_ns: 200 * MS };
    let mut world = World::new(line, &[slow], 1);
    world.run(10, 40);
    // A window of 4 Mbit/s is 10 kB.
    assert!(world.flows[0].control.window_bytes().unwrap() < 40_000, "{:?}", world.flows[0].control);
}
