// SPDX-License-Identifier: Apache-2.0
//! p4/pid_delay.p4 as the bottleneck of a line, in virtual time: its delay, its counters, its reports.
use crate::common::{PACKET_BYTES, add, packet, profile, program};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use weir_p4::v1model::{Arriving, EgressOut, IngressOut, Notes, Queued, Switch};
use weir_p4::value::Val;

const SECOND_US: u64 = 1_000_000;
const PORT: u32 = 1;
const LINE_BIT_S: u64 = 10_000_000;
const PACKET_US: u64 = PACKET_BYTES * 8 * SECOND_US / LINE_BIT_S;
const ECN_AT: usize = 15;

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Aqm,
    Tail,
}

/// A switch whose port 1 sends at 10 Mbit/s out of a queue that drops at its tail and says so to nobody.
struct Line {
    switch: Switch,
    notes: Notes,
    queue: VecDeque<Queued>,
    limit_packets: usize,
    free_us: u64,
    sojourns_us: Vec<u64>,
}

impl Line {
    fn new(limit_packets: usize) -> Line {
        let mut line = Line {
            switch: Switch::new(program("pid_delay.p4"), 7),
            notes: Notes::default(),
            queue: VecDeque::new(),
            limit_packets,
            free_us: 0,
            sojourns_us: Vec::new(),
        };
        add(&mut line.switch, "ipv4_lpm", 0, "set_next_hop", &[("next_hop", 1)]);
        add(&mut line.switch, "next_hop", 1, "forward", &[("port", PORT.into()), ("dst_mac", 2), ("src_mac", 3)]);
        line
    }

    fn pid_delay(&mut self, params: &BTreeMap<String, u64>, delay_source: u64, digest_interval_us: u64) {
        let own = [("delay_source", delay_source), ("digest_interval_us", digest_interval_us)];
        let args: Vec<(&str, u64)> = params.iter().map(|(k, v)| (k.as_str(), *v)).chain(own).collect();
        add(&mut self.switch, "aqm", PORT.into(), "pid_delay", &args);
    }

    fn register_number(&self, name: &str) -> usize {
        self.switch.program.registers.iter().position(|r| r.name == name).expect("the register is there")
    }

    fn register(&self, name: &str) -> u128 {
        let r = self.register_number(name);
        self.switch.state.register_get(r, PORT as usize).expect("the cell is there").low()
    }

    fn set_register(&mut self, name: &str, value: u128) {
        let r = self.register_number(name);
        self.switch.state.register_set(r, PORT as usize, Val::S(value)).expect("the value fits");
    }

    /// Packets of a pair.
    fn packets(&self, name: &str) -> u64 {
        (self.register(name) >> 48) as u64
    }

    fn offer(&mut self, now_us: u64, bytes: &[u8]) -> Fate {
        let mut out = IngressOut::default();
        let arriving = Arriving::new(self.switch.packet(bytes), 0);
        self.switch.ingress(arriving, now_us, &mut self.notes, &mut out);
        assert!(self.notes.faults.is_empty(), "{:?}", self.notes.faults);
        let Some(mut q) = out.queued.pop() else {
            return Fate::Aqm;
        };
        assert_eq!(q.port, PORT);
        if self.queue.len() >= self.limit_packets {
            self.switch.discard(q);
            return Fate::Tail;
        }
        q.enq_us = now_us;
        q.enq_qdepth = self.queue.len() as u32;
        self.queue.push_back(q);
        Fate::Queued
    }

    /// When the packet at the head may go.
    fn next_us(&self) -> Option<u64> {
        self.queue.front().map(|q| q.enq_us.max(self.free_us))
    }

    /// Sends the packet at the head at its time.
    fn depart(&mut self) -> Vec<u8> {
        let now_us = self.next_us().expect("a packet waits");
        let mut q = self.queue.pop_front().expect("a packet waits");
        q.deq_us = now_us;
        q.deq_qdepth = self.queue.len() as u32;
        self.sojourns_us.push(now_us - q.enq_us);
        self.free_us = now_us + PACKET_US;
        let mut out = EgressOut::default();
        self.switch.egress(q, now_us, &mut self.notes, &mut out);
        out.sent.expect("what was queued is sent").packet.to_vec()
    }

    /// One packet each `every_us`; fates in order, and how many of those sent were marked.
    fn constant(&mut self, from_us: u64, to_us: u64, every_us: u64, ecn: u8) -> (Vec<Fate>, usize) {
        let (mut fates, mut marked) = (Vec::new(), 0);
        let mut now_us = from_us;
        while now_us < to_us {
            while self.next_us().is_some_and(|t| t <= now_us) {
                marked += usize::from(self.depart()[ECN_AT] & 3 == 3);
            }
            fates.push(self.offer(now_us, &packet(1, ecn)));
            now_us += every_us;
        }
        (fates, marked)
    }

    /// Mean of the last packets' times in the queue, ms.
    fn mean_ms(&self, last: usize) -> f64 {
        let tail = &self.sojourns_us[self.sojourns_us.len() - last..];
        tail.iter().sum::<u64>() as f64 / last as f64 / 1000.0
    }
}

fn count(fates: &[Fate], fate: Fate) -> usize {
    fates.iter().filter(|f| **f == fate).count()
}

/// Additive increase, halving once a round trip: flows that answer to each drop. Gives the mean delay in ms and the
/// share of the line used over the second half.
fn responsive(line: &mut Line, flows: u16, rtt_us: u64, seconds: u64) -> (f64, f64) {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Start,
        Acknowledged,
        Lost,
    }
    let mut windows = vec![2.0f64; flows.into()];
    let (mut in_flight, mut halved_us) = (vec![0.0; flows.into()], vec![0; flows.into()]);
    let mut events: BinaryHeap<Reverse<(u64, Event, usize)>> =
        (0..flows).map(|f| Reverse((SECOND_US + u64::from(f) * 7919, Event::Start, f.into()))).collect();
    let (end_us, half_us, mut sent_late) = ((seconds + 1) * SECOND_US, (seconds / 2 + 1) * SECOND_US, 0);
    while let Some(Reverse((now_us, event, flow))) = events.pop() {
        while let Some(at_us) = line.next_us().filter(|t| *t <= now_us) {
            let p = line.depart();
            let owner = usize::from(u16::from_be_bytes([p[34], p[35]]));
            events.push(Reverse((at_us + PACKET_US + rtt_us, Event::Acknowledged, owner)));
            sent_late += usize::from(at_us >= half_us);
        }
        if now_us >= end_us {
            break;
        }
        match event {
            Event::Start => {}
            Event::Acknowledged => {
                in_flight[flow] -= 1.0;
                windows[flow] += 1.0 / windows[flow];
            }
            Event::Lost => {
                in_flight[flow] -= 1.0;
                if now_us >= halved_us[flow] {
                    windows[flow] = (windows[flow] / 2.0).max(1.0);
                    halved_us[flow] = now_us + rtt_us;
                }
            }
        }
        while in_flight[flow] + 1.0 <= windows[flow] {
            in_flight[flow] += 1.0;
            if line.offer(now_us, &packet(flow as u16, 0)) != Fate::Queued {
                events.push(Reverse((now_us + rtt_us, Event::Lost, flow)));
            }
        }
        // While packets wait, the next departure is an event of its own.
        if let Some(t) = line.next_us()
            && events.peek().is_none_or(|Reverse((e, ..))| *e > t)
        {
            events.push(Reverse((t, Event::Start, flow)));
        }
    }
    let line_packets = (end_us - half_us) / PACKET_US;
    (line.mean_ms(sent_late), sent_late as f64 / line_packets as f64)
}

#[test]
fn a_flood_is_held_at_the_target() {
    for delay_source in [0, 1] {
        let mut line = Line::new(1000);
        line.pid_delay(&profile("tuned"), delay_source, 0);
        // 15 Mbit/s into 10: a third is to be dropped, U = 0.577.
        let (fates, _) = line.constant(SECOND_US, 21 * SECOND_US, 800, 0);
        let late = &fates[fates.len() / 2..];
        let dropped = count(late, Fate::Aqm) as f64 / late.len() as f64;
        let mean_ms = line.mean_ms(8000);
        println!(
            "delay source {delay_source}: {mean_ms:.2} ms, {dropped:.3} dropped, {} tail",
            count(&fates, Fate::Tail)
        );
        assert!((12.0..18.0).contains(&mean_ms), "delay source {delay_source}: {mean_ms} ms");
        assert!((0.32..0.35).contains(&dropped), "delay source {delay_source}: {dropped} dropped");
        assert_eq!(count(late, Fate::Tail), 0);
    }
}

#[test]
fn flows_that_answer_fill_the_line_at_the_target() {
    for (flows, delay_source) in [(2, 0), (10, 0), (50, 0), (2, 1), (10, 1), (50, 1)] {
        let mut line = Line::new(1000);
        line.pid_delay(&profile("tuned"), delay_source, 0);
        let (mean_ms, used) = responsive(&mut line, flows, 100_000, 40);
        println!("{flows} flows, delay source {delay_source}: {mean_ms:.2} ms, {used:.4} of the line");
        assert!((3.0..20.0).contains(&mean_ms), "{flows} flows: {mean_ms} ms");
        assert!(used > 0.85, "{flows} flows: {used} of the line");
    }
}

#[test]
fn a_queue_that_drops_everything_starts_again() {
    let mut line = Line::new(1000);
    line.pid_delay(&profile("paper"), 0, 0);
    let interval_us = profile("paper")["interval_us"];
    // U at 1 and an empty queue: nothing leaves any more, so no step is taken unless a packet is let through.
    line.set_register("law_started", 1);
    line.set_register("law_last_us", SECOND_US.into());
    line.set_register("law_u_q40", 1 << 40);
    let (fates, _) = line.constant(SECOND_US, SECOND_US + interval_us, 1000, 0);
    assert_eq!(count(&fates, Fate::Aqm), fates.len(), "no step is due yet");
    let (fates, _) = line.constant(SECOND_US + interval_us, 31 * SECOND_US, 1000, 0);
    assert_eq!(fates[0], Fate::Queued, "the first that finds a step due passes");
    // It leaves with the next, which finds the step taken.
    assert_eq!(fates[2], Fate::Aqm);
    assert!(line.register("law_u_q40") < 1 << 40, "U came down");
    let late = &fates[fates.len() - 1000..];
    assert!(count(late, Fate::Queued) > 700, "12 Mbit/s into 10 is held by dropping a fifth");
}

#[test]
fn a_queue_that_lost_its_packets_starts_again() {
    let mut line = Line::new(1000);
    line.pid_delay(&profile("paper"), 0, 0);
    line.set_register("law_started", 1);
    line.set_register("law_last_us", SECOND_US.into());
    line.set_register("law_u_q40", 1 << 40);
    // 9 packets that will never leave
    line.set_register("aqm_enqueued", (9 << 48) + 9 * u128::from(PACKET_BYTES));
    let (fates, _) = line.constant(SECOND_US, 3 * SECOND_US, 1000, 0);
    let first = fates.iter().position(|f| *f == Fate::Queued).expect("one passes");
    assert_eq!(first, 1049, "1048.576 ms after the last step");
}

#[test]
fn losses_at_the_tail_are_told_from_drops() {
    let mut line = Line::new(10);
    let (fates, _) = line.constant(SECOND_US, 3 * SECOND_US, 800, 0);
    // The last are lost too: no packet behind them shows it.
    let last: Vec<Fate> = (0..30).map(|_| line.offer(3 * SECOND_US, &packet(1, 0))).collect();
    assert_eq!(last[29], Fate::Tail);
    let fates: Vec<Fate> = fates.into_iter().chain(last).collect();
    let tail = count(&fates, Fate::Tail) as u64;
    assert_eq!(count(&fates, Fate::Aqm), 0);
    while line.next_us().is_some() {
        line.depart();
    }
    assert_eq!(line.packets("aqm_enqueued"), fates.len() as u64, "handed to the queue");
    assert_eq!(line.packets("aqm_dequeued"), fates.len() as u64 - tail, "came out");
    assert_eq!(line.packets("aqm_drained") - line.packets("aqm_dequeued"), tail, "lost at the tail");
    assert_eq!(line.register("aqm_drained"), line.register("aqm_enqueued"), "no backlog is left");
    assert_eq!(line.register("aqm_dropped_packets"), 0);
}

#[test]
fn ecn_marks_instead_of_dropping() {
    let mut params = profile("tuned");
    params.insert("ecn_bound_q32".into(), 1 << 32);
    // P alone, 20 per second: U follows the delay and stays below the bound.
    params.extend([("kp_q40_per_us".into(), 20 << 20), ("ki_q40_per_us".into(), 0), ("kd_q40_per_us".into(), 0)]);
    let mut line = Line::new(1000);
    line.pid_delay(&params, 0, 0);
    // A hundredth more than the line takes: marks do not slow this source, so the queue grows, but not for long.
    let (fates, marked) = line.constant(SECOND_US, 4 * SECOND_US, 1188, 2);
    assert_eq!(count(&fates, Fate::Aqm), 0);
    assert!(marked > 0);
    while line.next_us().is_some() {
        line.depart();
    }
    assert!(line.register("aqm_marked_packets") as usize >= marked);
}

#[test]
fn the_state_goes_out_once_an_interval() {
    let mut line = Line::new(20);
    line.pid_delay(&profile("tuned"), 1, 100_000);
    let (fates, _) = line.constant(SECOND_US, 6 * SECOND_US, 400, 0);
    let names: Vec<&str> = line.switch.program.digests[0].fields.iter().map(|(n, _)| n.as_str()).collect();
    let digests: Vec<BTreeMap<&str, u128>> =
        line.notes.digests.iter().map(|d| names.iter().copied().zip(d.values.iter().map(Val::low)).collect()).collect();
    // 0.4 ms between packets: each comes with the first packet after its 100 ms.
    assert_eq!(digests.len(), 50);
    let mut before_us = 0;
    for d in &digests {
        assert_eq!(d["port"], PORT.into());
        assert!(before_us == 0 || d["now_us"] == before_us + 100_000, "{d:?}");
        before_us = d["now_us"];
    }
    let last = &digests[49];
    let before = ((last["now_us"] - u128::from(SECOND_US)) / 400) as usize;
    let dropped = count(&fates[..before], Fate::Aqm) as u128;
    // The packet that brings it is in it.
    let own = usize::from(fates[before] != Fate::Aqm) as u128;
    assert_eq!(last["aqm_dropped_packets"], dropped + 1 - own);
    assert_eq!(last["enqueued_packets"] + last["aqm_dropped_packets"], before as u128 + 1);
    assert_eq!(last["enqueued_bytes"], last["enqueued_packets"] * u128::from(PACKET_BYTES));
    assert!(last["tail_dropped_packets"] <= count(&fates[..before], Fate::Tail) as u128);
    assert!(last["tail_dropped_packets"] > 0, "25 Mbit/s overran 20 packets before U had grown");
    assert_eq!(last["tail_dropped_bytes"], last["tail_dropped_packets"] * u128::from(PACKET_BYTES));
    // At 10 Mbit/s a byte takes 0.8 us; packets leave 1200 us apart.
    let (chunk_bytes, dq_us) = (1u128 << profile("tuned")["dq_shift"], last["dq_time_q8_us"] >> 8);
    let wanted_us = chunk_bytes * 8 / 10;
    assert!(dq_us.abs_diff(wanted_us) <= wanted_us / 50, "{dq_us} us for {chunk_bytes} bytes");
    assert!((1..=5).contains(&last["row"]));
    assert!(last["delay_us"] > 0 && last["u_q40"] > 0);
}
