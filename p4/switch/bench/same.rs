// SPDX-License-Identifier: Apache-2.0
//! `same OLD.p4 NEW.p4 [PACKETS]`: whether two versions of a program of the law treat the same packets alike: bytes and
//! port of what comes out, drops, and digests. Each parameter set of the conformance vectors; packets of random lengths,
//! hop limits and ECN fields, IPv4 with and without options, IPv6 and others, through the queue of a line whose rate
//! changes from idle to overload. The first difference is an error.
#[allow(dead_code, reason = "benchmarks use other parts")]
mod parts;
use parts::{Args, add, law_cases, named, program, switch_for, table};
use std::collections::VecDeque;
use std::process::ExitCode;
use weir_p4::bytecode::program::KeyMatch;
use weir_p4::v1model::{Arriving, EgressOut, IngressOut, Notes, Queued, Switch};
use weir_p4::value::Val;

const PACKETS: usize = 50_000;

/// Repeatable numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// A switch with a route, a next hop and the law on port 2.
fn switch(path: &str, law: &Args) -> Result<Switch, String> {
    let mut s = switch_for(program(path)?);
    let find = |s: &Switch, name: &str| table(&s.program, name).ok_or_else(|| format!("{path} has no table `{name}`"));
    let (routes, hops, aqm) = (find(&s, "ipv4_lpm")?, find(&s, "next_hop")?, find(&s, "aqm")?);
    add(&mut s, routes, KeyMatch::Lpm(Val::S(0x0a00_0000), 8), "set_next_hop", &named(&[("next_hop", 1)]))?;
    let hop = named(&[("port", 2), ("dst_mac", 2), ("src_mac", 3)]);
    add(&mut s, hops, KeyMatch::Exact(Val::S(1)), "forward", &hop)?;
    let mut args = law.clone();
    args.extend(named(&[("delay_source", 0), ("digest_interval_us", 15_000)]));
    add(&mut s, aqm, KeyMatch::Exact(Val::S(2)), "pid_delay", &args)?;
    Ok(s)
}

/// A frame, mostly IPv4 for the route.
fn frame(random: &mut Random) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 0xfe, 2, 0, 0, 0, 0, 1];
    let length_bytes = [64, 200, 576, 1400, 1514][random.below(5) as usize];
    let (tos, ttl) = (random.below(256) as u8, random.below(8) as u8 * 9);
    match random.below(20) {
        0 => p.extend([0x08, 0x06, 0, 1]),
        1 => {
            p.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0]);
            p.extend([((length_bytes - 54) >> 8) as u8, (length_bytes - 54) as u8, 17, ttl]);
            p.extend(std::iter::repeat_with(|| random.below(256) as u8).take(32));
        }
        kind => {
            let words = if kind == 2 { 6 } else { 5 };
            let len = length_bytes - 14;
            let protocol = [6, 17, 1][random.below(3) as usize];
            p.extend([
                0x08,
                0x00,
                0x40 | words as u8,
                tos,
                (len >> 8) as u8,
                len as u8,
                0,
                0,
                0,
                0,
                ttl,
                protocol,
                0,
                0,
            ]);
            p.extend([10, 0, 0, random.below(9) as u8, 10, 0, random.below(3) as u8, 9]);
            p.extend(std::iter::repeat_n(1, (words - 5) * 4));
            let head = &p[14..14 + words * 4];
            let sum: u32 = head.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            // One in sixteen is wrong.
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16 ^ u16::from(random.below(16) == 0);
            p[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    p.resize(length_bytes, 7);
    p
}

/// A switch with the queue of its only line.
struct Line {
    switch: Switch,
    queue: VecDeque<Queued>,
    /// When the line has sent the packet that it sends.
    free_us: u64,
    sent: usize,
}

/// Outcome of packets, as text to compare and to show.
fn told(notes: &Notes, what: &dyn std::fmt::Debug) -> String {
    let Notes { digests, faults, ingress_drops, egress_drops, .. } = notes;
    format!("{what:?} drops {ingress_drops} {egress_drops} faults {faults:?} digests {digests:?}\n")
}

impl Line {
    /// Sends what leaves until `now_us`, a byte each so many ns, then takes in a frame. Returns all outcomes.
    fn turn(&mut self, bytes: &[u8], now_us: u64, byte_ns: u64) -> String {
        let mut out = String::new();
        while let Some(mut q) = self.queue.pop_front() {
            let start_us = self.free_us.max(q.enq_us);
            if start_us > now_us {
                self.queue.push_front(q);
                break;
            }
            self.free_us = start_us + u64::from(q.length) * byte_ns / 1000;
            (q.deq_us, q.deq_qdepth) = (start_us, self.queue.len() as u32);
            let (mut notes, mut after) = (Notes::default(), EgressOut::default());
            self.switch.egress(q, start_us, &mut notes, &mut after);
            self.sent += usize::from(after.sent.is_some());
            out += &told(&notes, &after.sent.map(|sent| (sent.port, sent.packet.to_vec())));
        }
        let (mut notes, mut before) = (Notes::default(), IngressOut::default());
        let packet = self.switch.packet(bytes);
        self.switch.ingress(Arriving::new(packet, 1), now_us, &mut notes, &mut before);
        out += &told(&notes, &(before.queued.len(), before.again.is_some()));
        for mut q in before.queued {
            (q.enq_us, q.enq_qdepth) = (now_us, self.queue.len() as u32);
            self.queue.push_back(q);
        }
        out
    }
}

fn compare(old: &str, new: &str, packets: usize) -> Result<(), String> {
    for (name, law) in law_cases()? {
        let line =
            |path| Ok::<_, String>(Line { switch: switch(path, &law)?, queue: VecDeque::new(), free_us: 0, sent: 0 });
        let (mut a, mut b) = (line(old)?, line(new)?);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut now_us = 1_000_000;
        for i in 0..packets {
            // A frame of 750 bytes each 600 us on average, now and then after a pause of seconds; the line takes 3 to 15
            // Mbit/s.
            now_us += if random.below(5000) == 0 { random.below(5_000_000) } else { 1 + random.below(1200) };
            let byte_ns = [530, 800, 1100, 2600][i / 500 % 4];
            let bytes = frame(&mut random);
            let (x, y) = (a.turn(&bytes, now_us, byte_ns), b.turn(&bytes, now_us, byte_ns));
            if x != y {
                return Err(format!("{name}: packet {i}, {bytes:02x?}\n{old}: {x}\n{new}: {y}"));
            }
        }
        println!("{name}: {packets} packets alike, {} sent", a.sent);
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [old, new, rest @ ..] = words.as_slice() else {
        eprintln!("usage: same OLD.p4 NEW.p4 [PACKETS]");
        return ExitCode::from(2);
    };
    let packets = match rest.first().map(|n| n.parse()) {
        None => PACKETS,
        Some(Ok(n)) => n,
        Some(Err(e)) => {
            eprintln!("same: '{}': {e}", rest[0]);
            return ExitCode::from(2);
        }
    };
    if let Err(text) = compare(old, new, packets) {
        eprintln!("same: {text}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
