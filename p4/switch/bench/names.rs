// SPDX-License-Identifier: Apache-2.0
//! `names FILE.p4...`: packets per second of a program that forwards by name, in process, one core, no I/O, with the law
//! on every port: Interests forwarded, Interests merged, Data to one port and to four. Prints the median and the range of
//! several runs in the thread's CPU time. A copy that comes back into the switch is part of the packet it was made of.
//! Run it with `--release`.
mod parts;
use parts::{add, add_law, cpu_ns, leaf_path, named, program, table};
use std::collections::VecDeque;
use std::process::ExitCode;
use weir_p4::bytecode::program::KeyMatch;
use weir_p4::exec::Mirror;
use weir_p4::v1model::{Arriving, EgressOut, IngressOut, Notes, Switch};
use weir_p4::value::Val;

const RUNS: usize = 7;
const ROUNDS: u32 = 50;
/// Interests outstanding at a time: below the quota.
const SEGMENTS: u32 = 512;
const ASKERS: [u32; 4] = [0, 1, 2, 3];
const UPSTREAM: u32 = 4;
const AGAIN: u32 = 510;
const PAYLOAD_BYTES: u16 = 1400;

fn switch(path: &str) -> Result<Switch, String> {
    let mut s = Switch::new(program(path)?, 1);
    let fib = table(&s.program, "fib").ok_or("the program has no table `fib`")?;
    let via = named(&[("port", UPSTREAM.into()), ("other", 511)]);
    add(&mut s, fib, KeyMatch::Lpm(Val::S(0), 0), "via", &via)?;
    for port in ASKERS.into_iter().chain([UPSTREAM]) {
        add_law(&mut s, port)?;
    }
    s.state.mirrors.insert(AGAIN, Mirror { port: Some(AGAIN), ..Mirror::default() });
    let all = (1..=4).map(|instance| (instance, vec![AGAIN])).collect();
    s.state.groups.insert(0x4000 + 0b1111, all);
    Ok(s)
}

fn frame(kind: u8, segment: u32) -> Vec<u8> {
    let mut p = vec![3, 0x57, 0x45, 0x49, 0x52, 1, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0x10 | kind, 0, 64, 0];
    p.extend(0x1111_2222_0000_0000_u64.to_be_bytes());
    p.extend(0x0123_4567_89ab_cdef_u64.to_be_bytes());
    p.extend(segment.to_be_bytes());
    p.extend([0, 0, 0xff, 0xff]);
    let payload_bytes = if kind == 2 { PAYLOAD_BYTES } else { 0 };
    p.extend(payload_bytes.to_be_bytes());
    p.extend([0, 0]);
    p.resize(p.len() + usize::from(payload_bytes), 0);
    p
}

/// Packets that a switch is given, and how many come of each.
struct Work {
    ports: Vec<u32>,
    kind: u8,
    sent_each: usize,
}

/// Nanoseconds for one packet for each segment and port of the work.
fn do_work(s: &mut Switch, work: &Work, first: u32, now_us: &mut u64) -> Result<u64, String> {
    let mut notes = Notes::default();
    let (mut before, mut after) = (IngressOut::default(), EgressOut::default());
    let mut arriving = VecDeque::new();
    let mut sent = 0;
    let frames: Vec<_> = (first..first + SEGMENTS).map(|segment| frame(work.kind, segment)).collect();
    let start_ns = cpu_ns()?;
    for port in &work.ports {
        for bytes in &frames {
            *now_us += 1;
            let packet = s.packet(bytes);
            arriving.push_back(Arriving::new(packet, *port));
            while let Some(a) = arriving.pop_front() {
                s.ingress(a, *now_us, &mut notes, &mut before);
                for mut q in before.queued.drain(..) {
                    q.deq_us = q.enq_us + 10;
                    q.deq_qdepth = 1;
                    s.egress(q, *now_us + 10, &mut notes, &mut after);
                    arriving.extend(after.again.take());
                    if let Some(x) = after.sent.take() {
                        sent += 1;
                        s.recycle(x.packet);
                    }
                }
            }
            notes.digests.clear();
        }
    }
    let took_ns = cpu_ns()? - start_ns;
    let wanted = work.sent_each * work.ports.len() * SEGMENTS as usize;
    // Now and then three segments of a round are in one set, and one of them gets a Nack or gives way.
    if sent * 20 < wanted * 19 {
        return Err(format!("{sent} packets came out, not {wanted}"));
    }
    Ok(took_ns)
}

/// One after the other, with new segments in each round; the names say what is timed of it.
fn measure(path: &str) -> Result<(), String> {
    let mut s = switch(path)?;
    let works = [
        ("Interest forwarded", Work { ports: vec![0], kind: 1, sent_each: 1 }),
        ("Data to 1 port", Work { ports: vec![UPSTREAM], kind: 2, sent_each: 1 }),
        ("", Work { ports: vec![0], kind: 1, sent_each: 1 }),
        ("Interest merged", Work { ports: vec![1, 2, 3], kind: 1, sent_each: 0 }),
        ("Data to 4 ports", Work { ports: vec![UPSTREAM], kind: 2, sent_each: 4 }),
    ];
    let mut times_ns = vec![Vec::new(); works.len()];
    let (mut now_us, mut first) = (1_000_000, 0);
    for run in 0..=RUNS {
        let mut took_ns = vec![0; works.len()];
        for _ in 0..ROUNDS {
            for (at, (_, work)) in works.iter().enumerate() {
                took_ns[at] += do_work(&mut s, work, first, &mut now_us)?;
                if work.kind == 2 {
                    first += SEGMENTS;
                }
            }
        }
        for (at, (_, work)) in works.iter().enumerate().filter(|_| run > 0) {
            let packets = f64::from(ROUNDS * SEGMENTS) * work.ports.len() as f64;
            times_ns[at].push(took_ns[at] as f64 / packets);
        }
    }
    for ((name, _), mut times) in works.iter().zip(times_ns).filter(|((name, _), _)| !name.is_empty()) {
        times.sort_by(f64::total_cmp);
        println!(
            "{}  {name:<18}  {:>9.0} packets/s  ({:.0} to {:.0})  {:.0} ns a packet",
            leaf_path(path),
            1e9 / times[RUNS / 2],
            1e9 / times[RUNS - 1],
            1e9 / times[0],
            times[RUNS / 2]
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: names FILE.p4...");
        return ExitCode::from(2);
    }
    for file in files {
        if let Err(m) = measure(&file) {
            eprintln!("names: {file}: {m}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
