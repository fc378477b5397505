// SPDX-License-Identifier: Apache-2.0
//! p4/pid_delay.p4 above flow queues, in virtual time: what the law sees of a queue that packets leave in another order,
//! and what it does with it.
use crate::common::{add, packet, profile, program};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_switch::device::{Config, Device, Sink};
use weir_switch::traffic_manager::{NS_PER_S, PortSettings, QueueSettings, QueueStats};

const PORT: u32 = 1;
const LINE_BIT_S: u64 = 10_000_000;
const SENT_AT: usize = 42;
const MS: u64 = 1_000_000;
/// Sources of `delay_source`.
const RATE: u64 = 1;
const FLOWS: u64 = 2;

struct Left {
    at_ns: u64,
    waited_ns: u64,
    flow: usize,
    bytes: usize,
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
        self.left.push(Left { at_ns: self.now_ns, waited_ns: self.now_ns - sent_ns, flow, bytes: bytes.len() });
        true
    }
}

/// A source of packets of one length, at a constant rate.
struct Source {
    bit_s: u64,
    bytes: usize,
}

/// [`packet`] of another length.
fn packet_of(flow: u16, length_bytes: usize) -> Vec<u8> {
    let mut p = packet(flow, 0);
    p.truncate(length_bytes);
    p[16..18].copy_from_slice(&(length_bytes as u16 - 14).to_be_bytes());
    p[24..26].fill(0);
    let words: u32 = p[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    p[24..26].copy_from_slice(&(!((words & 0xffff) + (words >> 16)) as u16).to_be_bytes());
    p
}

/// A switch whose port 1 sends at 10 Mbit/s out of flow queues, with the law.
struct Line {
    device: Device,
    far: Far,
    next_ns: Option<u64>,
}

impl Line {
    fn new(depth_packets: u64, law: &str, delay_source: u64) -> Line {
        let mut device = Device::new(Config::default());
        device.set_pipeline(program("pid_delay.p4"));
        let queue = QueueSettings { depth_packets, flows: true, ..QueueSettings::default() };
        device.traffic_manager.set(Some(PORT), &PortSettings { rate_bps: LINE_BIT_S, queues: vec![queue] }, 0);
        let mut line = Line { device, far: Far::default(), next_ns: None };
        line.entry("ipv4_lpm", 0, "set_next_hop", &[("next_hop", 1)]);
        line.entry("next_hop", 1, "forward", &[("port", PORT.into()), ("dst_mac", 2), ("src_mac", 3)]);
        let mut law = profile(law);
        law.extend([("delay_source".into(), delay_source), ("digest_interval_us".into(), 0)]);
        let args: Vec<(&str, u64)> = law.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        line.entry("aqm", PORT.into(), "pid_delay", &args);
        line
    }

    fn entry(&mut self, table: &str, key: u64, action: &str, args: &[(&str, u64)]) {
        let pipeline = self.device.pipeline.as_mut().expect("a program runs");
        add(&mut pipeline.switch, table, key, action, args);
    }

    /// Packets and bytes of a register.
    fn pair(&self, name: &str) -> (u64, u64) {
        let switch = &self.device.pipeline.as_ref().expect("a program runs").switch;
        let r = switch.program.registers.iter().position(|r| r.name == name).expect("the register is there");
        let value = switch.state.register_get(r, PORT as usize).expect("the cell is there").low();
        ((value >> 48) as u64, value as u64 & ((1 << 48) - 1))
    }

    /// Packets and bytes that the law takes for the backlog.
    fn seen(&self) -> (u64, u64) {
        let (enqueued, drained) = (self.pair("aqm_enqueued"), self.pair("aqm_drained"));
        (enqueued.0 - drained.0, enqueued.1 - drained.1)
    }

    fn stats(&self) -> QueueStats {
        self.device.traffic_manager.stats().find(|(port, ..)| *port == PORT).expect("the port is there").1[0]
    }

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

    /// Packets of the sources; `each` checks the line before each of them.
    fn offer(&mut self, from_ns: u64, to_ns: u64, sources: &[Source], mut each: impl FnMut(&Line)) {
        let mut events: BinaryHeap<_> = (0..sources.len()).map(|flow| Reverse((from_ns, flow))).collect();
        while let Some(Reverse((now_ns, flow))) = events.pop().filter(|Reverse((t, _))| *t < to_ns) {
            self.run(now_ns);
            each(self);
            let source = &sources[flow];
            let mut bytes = packet_of(flow as u16, source.bytes);
            bytes[SENT_AT..SENT_AT + 8].copy_from_slice(&now_ns.to_be_bytes());
            self.far.now_ns = now_ns;
            self.device.arrive(&bytes, 0, now_ns, &mut self.far);
            self.poll(now_ns);
            events.push(Reverse((now_ns + source.bytes as u64 * 8 * NS_PER_S / source.bit_s, flow)));
        }
        self.run(to_ns);
    }

    /// Mean wait in ms and bit/s of a flow from a time on.
    fn share(&self, flow: usize, from_ns: u64) -> (f64, f64) {
        let late: Vec<_> = self.far.left.iter().filter(|l| l.flow == flow && l.at_ns >= from_ns).collect();
        let end_ns = self.far.left.last().map_or(from_ns + 1, |l| l.at_ns);
        let wait_ms = late.iter().map(|l| l.waited_ns).sum::<u64>() as f64 / late.len() as f64 / MS as f64;
        let bits = late.iter().map(|l| l.bytes * 8).sum::<usize>() as f64;
        (wait_ms, bits * NS_PER_S as f64 / (end_ns - from_ns) as f64)
    }
}

/// Two floods of unequal packets, 16 Mbit/s into 10, and a call of 80 kbit/s.
const SOURCES: [Source; 3] = [
    Source { bit_s: 8_000_000, bytes: 1500 },
    Source { bit_s: 8_000_000, bytes: 500 },
    Source { bit_s: 80_000, bytes: 200 },
];

#[test]
fn the_law_holds_the_backlog_of_flow_queues() {
    let mut line = Line::new(1000, "tuned", FLOWS);
    let (mut sum_ms, mut count) = (0.0, 0);
    line.offer(NS_PER_S, 21 * NS_PER_S, &SOURCES, |line| {
        let backlog = line.stats().backlog;
        assert_eq!(line.seen(), (backlog.packets, backlog.bytes));
        if line.far.now_ns > 11 * NS_PER_S {
            sum_ms += backlog.bytes as f64 * 8e3 / LINE_BIT_S as f64;
            count += 1;
        }
    });
    assert_eq!((line.stats().head_dropped.packets, line.stats().tail_dropped.packets), (0, 0));
    let mean_ms = sum_ms / f64::from(count);
    assert!((9.0..22.0).contains(&mean_ms), "the target is 15 ms: {mean_ms}");
    let shares = [0, 1, 2].map(|flow| line.share(flow, 11 * NS_PER_S));
    println!("{mean_ms:.2} ms; {shares:?}");
    assert!(shares[2].0 < 3.0, "the call waits {} ms", shares[2].0);
    let ratio = shares[0].1 / shares[1].1;
    assert!((0.8..1.25).contains(&ratio), "the floods share {ratio}");
    assert!(shares.iter().map(|s| s.1).sum::<f64>() > 0.95 * LINE_BIT_S as f64);
}

#[test]
fn a_backlog_by_order_is_none_of_flow_queues() {
    let mut line = Line::new(1000, "tuned", RATE);
    let mut wrong = 0;
    line.offer(NS_PER_S, 6 * NS_PER_S, &SOURCES, |line| {
        wrong += u64::from(line.seen().0 != line.stats().backlog.packets)
    });
    assert!(wrong > 100, "the reason for a source of its own");
}

#[test]
fn packets_lost_in_a_full_queue_are_counted_and_the_backlog_stays_possible() {
    // The queue is full before its delay is the law's target.
    const DEPTH: u64 = 12;
    let mut line = Line::new(DEPTH, "tuned", FLOWS);
    line.offer(NS_PER_S, 6 * NS_PER_S, &SOURCES, |line| {
        let (backlog, (packets, bytes)) = (line.stats().backlog, line.seen());
        // Those lost since the last departure are not known yet.
        assert!(packets >= backlog.packets, "{packets} of {}", backlog.packets);
        assert!(bytes <= (2 * DEPTH + packets - backlog.packets) * 2048, "{bytes} bytes in {packets} packets");
    });
    line.run(8 * NS_PER_S);
    let stats = line.stats();
    assert!(stats.head_dropped.packets > 100, "{stats:?}");
    assert_eq!(stats.enqueued.packets, stats.dequeued.packets + stats.head_dropped.packets);
    assert_eq!(line.seen(), (0, 0));
    let lost = line.pair("aqm_drained").0 - line.pair("aqm_dequeued").0;
    assert_eq!(lost, stats.head_dropped.packets + stats.tail_dropped.packets);
}

#[test]
fn the_order_can_change_while_the_switch_runs() {
    let mut line = Line::new(1000, "tuned", FLOWS);
    for settings in [false, true] {
        let queue = QueueSettings { depth_packets: 1000, flows: settings, ..QueueSettings::default() };
        line.device.traffic_manager.set(Some(PORT), &PortSettings { rate_bps: LINE_BIT_S, queues: vec![queue] }, 0);
        let from_ns = line.device.now_ns() + NS_PER_S;
        line.far.left.clear();
        for flow in [0, 0, 0, 0, 0, 0, 1] {
            line.far.now_ns = from_ns;
            line.device.arrive(&packet(flow, 0), 0, from_ns, &mut line.far);
        }
        line.poll(from_ns);
        line.run(from_ns + NS_PER_S);
        let place = line.far.left.iter().position(|l| l.flow == 1);
        assert_eq!(place == Some(6), !settings, "{place:?}");
    }
}
