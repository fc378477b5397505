// SPDX-License-Identifier: Apache-2.0
//! p4/programs/pid_delay_l4s.p4 behind the traffic manager's two priorities, in virtual time: delay, share of the line,
//! and marks of each band.
use crate::common::{PACKET_BYTES, add, packet, profile, program};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_switch::device::{Config, Device, Sink};
use weir_switch::traffic_manager::{NS_PER_S, PortSettings, QueueSettings};

const PORT: u32 = 1;
const LINE_BIT_S: u64 = 10_000_000;
const PACKET_NS: u64 = PACKET_BYTES * 8 * NS_PER_S / LINE_BIT_S;
/// Band L may have nine tenths of the line.
const LOW_PPS: u64 = LINE_BIT_S * 9 / 10 / 8 / PACKET_BYTES;
const DEPTH_PACKETS: u64 = 1000;
const MS: u64 = 1_000_000;

const ECN_AT: usize = 15;
const SENT_AT: usize = 42;
const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// RFC 9332's defaults, as docs/design/coupled.md has them.
const COUPLING: [(&str, u64); 4] =
    [("coupling_q16", 2 << 16), ("ramp_least_us", 800), ("ramp_slope_q32_per_us", 10_737_418), ("floor_bytes", 3028)];

struct Left {
    at_ns: u64,
    waited_ns: u64,
    flow: usize,
    ecn: u8,
}

#[derive(Default)]
struct Far {
    now_ns: u64,
    left: Vec<Left>,
}

impl Sink for Far {
    fn frame(&mut self, port: u32, bytes: &[u8]) -> bool {
        assert_eq!(port, PORT);
        let sent_ns = u64::from_be_bytes(bytes[SENT_AT..SENT_AT + 8].try_into().expect("eight bytes"));
        let flow = usize::from(u16::from_be_bytes([bytes[34], bytes[35]]));
        self.left.push(Left { at_ns: self.now_ns, waited_ns: self.now_ns - sent_ns, flow, ecn: bytes[ECN_AT] & 3 });
        true
    }
}

/// A switch whose port 1 sends at 10 Mbit/s, band L first.
struct Line {
    device: Device,
    far: Far,
    next_ns: Option<u64>,
}

impl Line {
    fn new(low_pps: u64) -> Line {
        let mut device = Device::new(Config { priorities: 2, ..Config::default() });
        device.set_pipeline(program("pid_delay_l4s.p4"));
        let queue = |rate_pps| QueueSettings { rate_pps, depth_packets: DEPTH_PACKETS, ..QueueSettings::default() };
        let limits = PortSettings { rate_bps: LINE_BIT_S, queues: vec![queue(0), queue(low_pps)] };
        device.traffic_manager.set(Some(PORT), &limits, 0);
        let mut line = Line { device, far: Far::default(), next_ns: None };
        line.entry("ipv4_lpm", 0, "set_next_hop", &[("next_hop", 1)]);
        line.entry("next_hop", 1, "forward", &[("port", PORT.into()), ("dst_mac", 2), ("src_mac", 3)]);
        line
    }

    fn entry(&mut self, table: &str, key: u64, action: &str, args: &[(&str, u64)]) {
        let pipeline = self.device.pipeline.as_mut().expect("a program runs");
        add(&mut pipeline.switch, table, key, action, args);
    }

    /// The law of a profile and a coupling.
    fn coupled(low_pps: u64, coupling: &[(&str, u64)]) -> Line {
        let mut line = Line::new(low_pps);
        let mut law = profile("coupled");
        law.extend([("delay_source".into(), 0), ("digest_interval_us".into(), 0), ("squared".into(), 1)]);
        let args: Vec<(&str, u64)> = law.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        line.entry("aqm", PORT.into(), "pid_delay", &args);
        line.entry("coupling", PORT.into(), "coupled", coupling);
        line
    }

    /// U that stays.
    fn fixed(u: f64, coupling: &[(&str, u64)]) -> Line {
        let mut line = Line::new(LOW_PPS);
        let u_q32 = (u * 2f64.powi(32)) as u64;
        let args = [("u_q32", u_q32), ("squared", 1), ("ecn_bound_q32", 1 << 32), ("digest_interval_us", 0)];
        line.entry("aqm", PORT.into(), "fixed_probability", &args);
        line.entry("coupling", PORT.into(), "coupled", coupling);
        line
    }

    fn register(&self, name: &str, index: usize) -> u128 {
        let switch = &self.device.pipeline.as_ref().expect("a program runs").switch;
        let r = switch.program.registers.iter().position(|r| r.name == name).expect("the register is there");
        switch.state.register_get(r, index).expect("the cell is there").low()
    }

    /// Sends the packets that are due until then.
    fn run(&mut self, until_ns: u64) {
        while let Some(at_ns) = self.next_ns.filter(|t| *t <= until_ns) {
            self.poll(at_ns);
        }
        self.poll(until_ns);
    }

    fn poll(&mut self, now_ns: u64) {
        self.far.now_ns = now_ns;
        self.next_ns = self.device.poll(now_ns, &mut self.far);
    }

    fn lost(&self) -> u64 {
        let queues = self.device.traffic_manager.stats().flat_map(|(_, queues, _)| queues);
        self.device.drops.ingress + queues.map(|q| q.tail_dropped.packets).sum::<u64>()
    }

    /// Whether the packet got into a queue.
    fn offer(&mut self, now_ns: u64, flow: usize, ecn: u8) -> bool {
        let mut bytes = packet(flow as u16, ecn);
        bytes[SENT_AT..SENT_AT + 8].copy_from_slice(&now_ns.to_be_bytes());
        let before = self.lost();
        self.far.now_ns = now_ns;
        self.device.arrive(&bytes, 0, now_ns, &mut self.far);
        self.poll(now_ns);
        self.lost() == before
    }

    /// Sources that send a packet each so many nanoseconds whatever becomes of it; gives how many each lost.
    fn constant(&mut self, from_ns: u64, to_ns: u64, sources: &[(u64, u8)]) -> Vec<u64> {
        let mut events: BinaryHeap<_> = (0..sources.len()).map(|flow| Reverse((from_ns, flow))).collect();
        let mut lost = vec![0; sources.len()];
        while let Some(Reverse((now_ns, flow))) = events.pop().filter(|Reverse((t, _))| *t < to_ns) {
            self.run(now_ns);
            lost[flow] += u64::from(!self.offer(now_ns, flow, sources[flow].1));
            events.push(Reverse((now_ns + sources[flow].0, flow)));
        }
        self.run(to_ns);
        lost
    }
}

/// Of the packets of a flow that left after a time: mean wait in ms, and bit/s until the last of them.
fn share(left: &[Left], flows: std::ops::Range<usize>, from_ns: u64) -> (f64, f64) {
    let late: Vec<&Left> = left.iter().filter(|l| flows.contains(&l.flow) && l.at_ns >= from_ns).collect();
    let end_ns = left.last().map_or(from_ns + 1, |l| l.at_ns);
    let wait_ms = late.iter().map(|l| l.waited_ns).sum::<u64>() as f64 / late.len() as f64 / MS as f64;
    let bits = late.len() as f64 * (PACKET_BYTES * 8) as f64;
    (wait_ms, bits * NS_PER_S as f64 / (end_ns - from_ns) as f64)
}

/// Flows that answer: classic ones (Not-ECT) halve once a round trip for a loss, scalable ones (ECT(1)) take half a packet
/// off for each mark and halve for a loss. Both grow by a packet a round trip. Classic flows come first.
fn responsive(line: &mut Line, classic: usize, scalable: usize, rtt_ns: u64, seconds: u64) {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Start,
        Acknowledged { marked: bool },
        Lost,
    }
    let flows = classic + scalable;
    let (mut windows, mut in_flight, mut halved_ns) = (vec![2.0f64; flows], vec![0.0; flows], vec![0; flows]);
    let mut events: BinaryHeap<Reverse<(u64, Event, usize)>> =
        (0..flows).map(|f| Reverse((NS_PER_S + f as u64 * 7_919_000, Event::Start, f))).collect();
    let mut seen = 0;
    loop {
        // A packet that leaves the line before the next event is an event of its own.
        let next_ns = events.peek().map_or(u64::MAX, |Reverse((t, ..))| *t).min(line.next_ns.unwrap_or(u64::MAX));
        if next_ns >= (seconds + 1) * NS_PER_S {
            return;
        }
        line.run(next_ns);
        for l in &line.far.left[seen..] {
            let event = Event::Acknowledged { marked: l.ecn == CE };
            events.push(Reverse((l.at_ns + PACKET_NS + rtt_ns, event, l.flow)));
        }
        seen = line.far.left.len();
        while let Some(Reverse((now_ns, event, flow))) = events.pop() {
            if now_ns > next_ns {
                events.push(Reverse((now_ns, event, flow)));
                break;
            }
            match event {
                Event::Start => {}
                Event::Acknowledged { marked } => {
                    in_flight[flow] -= 1.0;
                    windows[flow] += 1.0 / windows[flow] - if marked { 0.5 } else { 0.0 };
                    windows[flow] = windows[flow].max(2.0);
                }
                Event::Lost => {
                    in_flight[flow] -= 1.0;
                    if now_ns >= halved_ns[flow] {
                        windows[flow] = (windows[flow] / 2.0).max(2.0);
                        halved_ns[flow] = now_ns + rtt_ns;
                    }
                }
            }
            while in_flight[flow] + 1.0 <= windows[flow] {
                in_flight[flow] += 1.0;
                if !line.offer(now_ns, flow, if flow < classic { NOT_ECT } else { ECT1 }) {
                    events.push(Reverse((now_ns + rtt_ns, Event::Lost, flow)));
                }
            }
        }
    }
}

#[test]
fn scalable_flows_wait_less_and_share_the_line_with_classic_ones() {
    for (classic, scalable) in [(1, 1), (2, 2), (5, 1), (1, 5)] {
        let mut line = Line::coupled(LOW_PPS, &COUPLING);
        let (classic_ms, low_ms, ratio, used) = bands_of(&mut line, classic, scalable);
        assert!(low_ms < 4.0 && low_ms < classic_ms / 2.0, "L waits {low_ms} ms, C {classic_ms} ms");
        assert!((4.0..30.0).contains(&classic_ms), "C waits {classic_ms} ms");
        assert!((1.0 / 3.0..3.0).contains(&ratio), "a flow of L gets {ratio} times what one of C gets");
        assert!(used > 0.9, "{used} of the line");
    }
    // Without any marks L takes as much as its rate allows.
    let none = COUPLING.map(|(name, v)| {
        (name, if name == "ramp_least_us" { 0xff_ffff } else { v * u64::from(name != "coupling_q16") })
    });
    let (_, _, ratio, _) = bands_of(&mut Line::coupled(LOW_PPS, &none), 1, 1);
    assert!(ratio > 5.0, "it is the coupling that shares: {ratio}");
}

/// The mean waits in C and L in ms, the rate of a flow in L over that of one in C, and the share of the line that is used.
fn bands_of(line: &mut Line, classic: usize, scalable: usize) -> (f64, f64, f64, f64) {
    responsive(line, classic, scalable, 30 * MS, 60);
    let from_ns = 31 * NS_PER_S;
    let (classic_ms, classic_bit_s) = share(&line.far.left, 0..classic, from_ns);
    let (low_ms, low_bit_s) = share(&line.far.left, classic..classic + scalable, from_ns);
    let ratio = low_bit_s / scalable as f64 / (classic_bit_s / classic as f64);
    let used = (classic_bit_s + low_bit_s) / LINE_BIT_S as f64;
    println!("{classic} + {scalable}: C {classic_ms:.2} ms, L {low_ms:.2} ms, L over C {ratio:.2}, line {used:.3}");
    (classic_ms, low_ms, ratio, used)
}

#[test]
fn c_is_not_starved_by_a_flood_of_l() {
    let mut line = Line::coupled(LOW_PPS, &COUPLING);
    // 20 Mbit/s of L and 2 Mbit/s of C into 10: half or more of both must go.
    let sources = [(PACKET_NS * 5, NOT_ECT), (PACKET_NS / 2, ECT1)];
    line.constant(NS_PER_S, 41 * NS_PER_S, &sources);
    let (classic_ms, classic_bit_s) = share(&line.far.left, 0..1, 21 * NS_PER_S);
    let (low_ms, low_bit_s) = share(&line.far.left, 1..2, 21 * NS_PER_S);
    println!(
        "C {classic_ms:.2} ms, {:.2} Mbit/s; L {low_ms:.2} ms, {:.2} Mbit/s",
        classic_bit_s / 1e6,
        low_bit_s / 1e6
    );
    assert!(classic_bit_s > 0.6e6, "C gets {classic_bit_s} bit/s");
    assert!(low_bit_s < 9.01e6, "L gets {low_bit_s} bit/s");
    assert!(low_ms < 40.0, "in overload L is dropped: it waits {low_ms} ms");
    let late: Vec<&Left> = line.far.left.iter().filter(|l| l.at_ns > 21 * NS_PER_S && l.flow == 1).collect();
    let marked = late.iter().filter(|l| l.ecn == CE).count() as f64 / late.len() as f64;
    assert!(marked > 0.9, "what is not dropped is marked, by its own delay or by U: {marked}");
}

#[test]
fn marks_and_drops_come_with_the_coupled_probabilities() {
    // L's own law marks nothing: the marks are of k U alone.
    let uncoupled_ramp = COUPLING.map(|(name, v)| (name, if name == "ramp_least_us" { 0xff_ffff } else { v }));
    let count = 10_000u64;
    for (u, low_marked, low_dropped) in [(0.2, 0.4, 0.0), (0.4, 0.8, 0.0), (0.5, 1.0, 0.25), (0.0, 0.0, 0.0)] {
        let mut line = Line::fixed(u, &uncoupled_ramp);
        let lost = line.constant(0, 2 * PACKET_NS * count, &[(2 * PACKET_NS, ECT1)]);
        line.run(u64::MAX / 2);
        let marked = line.far.left.iter().filter(|l| l.ecn == CE).count() as f64 / line.far.left.len() as f64;
        let spread = |p: f64| 5.0 * (p * (1.0 - p) / count as f64).sqrt();
        assert!((marked - low_marked).abs() <= spread(low_marked), "U {u}: {marked} of L marked");
        let dropped = lost[0] as f64 / count as f64;
        assert!((dropped - low_dropped).abs() <= spread(low_dropped), "U {u}: {dropped} of L dropped");
        let (low, classic) = (PORT as usize + 512, PORT as usize);
        assert_eq!(line.register("aqm_dropped_packets", low), u128::from(lost[0]));
        assert_eq!(
            line.register("aqm_marked_packets", low) as usize,
            (marked * line.far.left.len() as f64).round() as usize
        );
        assert_eq!(line.register("aqm_enqueued", classic), 0, "nothing of it is counted in C");

        let mut line = Line::fixed(u, &uncoupled_ramp);
        let lost = line.constant(0, 4 * PACKET_NS * count, &[(4 * PACKET_NS, NOT_ECT), (4 * PACKET_NS, ECT0)]);
        let dropped = lost[0] as f64 / count as f64;
        assert!((dropped - u * u).abs() <= spread(u * u), "U {u}: {dropped} of C dropped");
        assert_eq!(lost[1], 0);
        let marked = line.far.left.iter().filter(|l| l.ecn == CE).count() as f64 / count as f64;
        assert!((marked - u * u).abs() <= spread(u * u), "U {u}: {marked} of C's ECT(0) marked");
    }
}

#[test]
fn l_is_marked_by_its_own_delay_while_u_is_0() {
    let mut line = Line::fixed(0.0, &COUPLING);
    // Two packets at once: the second waits 1.2 ms, the first not at all.
    for k in 0..100 {
        let now_ns = (k + 1) * 10 * MS;
        line.run(now_ns);
        assert!(line.offer(now_ns, 0, ECT1) && line.offer(now_ns, 0, ECT1));
    }
    line.run(10 * NS_PER_S);
    let marks: Vec<bool> = line.far.left.iter().map(|l| l.ecn == CE).collect();
    assert_eq!(marks, [false, true].repeat(100));
}

#[test]
fn the_floor_is_two_packets_of_the_line() {
    let mut line = Line::coupled(0, &COUPLING);
    // C fills the line for a moment, and its rate is known from then on: two packets take 2.4 ms.
    line.constant(NS_PER_S, NS_PER_S + 200 * MS, &[(PACKET_NS * 9 / 10, NOT_ECT)]);
    line.run(3 * NS_PER_S);
    line.far.left.clear();
    for k in 0..50 {
        let now_ns = 3 * NS_PER_S + (k + 1) * 20 * MS;
        line.run(now_ns);
        (0..4).for_each(|_| assert!(line.offer(now_ns, 0, ECT1)));
    }
    line.run(5 * NS_PER_S);
    assert_eq!(line.register("law_u_q40", PORT as usize), 0);
    let marks: Vec<bool> = line.far.left.iter().map(|l| l.ecn == CE).collect();
    // They wait 0, 1.2, 2.4 and 3.6 ms.
    assert_eq!(marks, [false, false, false, true].repeat(50));
}

#[test]
fn a_port_without_coupling_has_one_band() {
    let mut line = Line::new(LOW_PPS);
    let args = [("u_q32", 0), ("squared", 1), ("ecn_bound_q32", 1 << 32), ("digest_interval_us", 0)];
    line.entry("aqm", PORT.into(), "fixed_probability", &args);
    for flow in 0..20 {
        assert!(line.offer(NS_PER_S, flow, if flow % 2 == 0 { NOT_ECT } else { ECT1 }));
    }
    line.run(2 * NS_PER_S);
    assert!(line.far.left.iter().map(|l| l.flow).eq(0..20), "in the order in which they came");
    assert!(line.far.left.iter().all(|l| l.ecn != CE));
}

#[test]
fn l_overtakes_c() {
    let mut line = Line::fixed(0.0, &COUPLING);
    for flow in 0..20 {
        assert!(line.offer(NS_PER_S, flow, if flow < 10 { NOT_ECT } else { ECT1 }));
    }
    line.run(2 * NS_PER_S);
    let order: Vec<usize> = line.far.left.iter().map(|l| l.flow).collect();
    // The first was on the line by then. L has nine tenths of it, so that one of C gets in between.
    assert_eq!(order[0], 0);
    let low_ends = order.iter().position(|f| *f == 19).expect("it left");
    assert!(low_ends <= 12, "{order:?}");
    assert!(order.iter().filter(|f| **f < 10).copied().eq(0..10), "C keeps its order");
    assert!(order.iter().filter(|f| **f >= 10).copied().eq(10..20), "L keeps its order");
}
