// SPDX-License-Identifier: Apache-2.0
//! `names FILE.p4...`: packets per second of a program that forwards by name, in process, one core, no I/O, with the law
//! on every port: Interests forwarded, Interests merged, Data to one port and to four. Prints the median and the range of
//! several runs in the thread's CPU time. A copy that comes back into the switch is part of the packet it was made of.
//! `names --scale FILE.p4...`: the same with few and many entries in the table of what is asked, and with 1 to 31 ports
//! that ask; a line of JSON for each. Run it with `--release`.
mod parts;
use parts::{add, add_law, cpu_ns, leaf_path, named, program, scale_or_files, switch_for, table, tell};
use std::collections::VecDeque;
use std::ops::Range;
use std::process::ExitCode;
use weir_p4::bytecode::program::KeyMatch;
use weir_p4::exec::Mirror;
use weir_p4::v1model::{Arriving, EgressOut, IngressOut, Notes, Switch};
use weir_p4::value::Val;

const RUNS: usize = 7;
/// Segments of a run, and of a run of each of the many cases of `--scale`.
const SEGMENTS: u32 = 25_600;
const SEGMENTS_SCALE: u32 = 8192;
const UPSTREAM: u32 = 31;
const AGAIN: u32 = 510;
const PAYLOAD_BYTES: u16 = 1400;
/// Interests outstanding at a time, and ports that ask.
const USUAL: (u32, u32) = (512, 4);
const SCALE: [(u32, u32); 8] = [(16, 4), (512, 4), (2048, 4), (512, 1), (512, 2), (512, 8), (512, 16), (512, 31)];
/// More than are ever outstanding.
const QUOTA: u64 = 16_384;

fn switch(path: &str, askers: u32) -> Result<Switch, String> {
    let mut s = switch_for(program(path)?);
    let fib = table(&s.program, "fib").ok_or("the program has no table `fib`")?;
    let via = named(&[("port", UPSTREAM.into()), ("other", 511)]);
    add(&mut s, fib, KeyMatch::Lpm(Val::S(0), 0), "via", &via)?;
    let quotas = table(&s.program, "names_quota").ok_or("the program has no table `names_quota`")?;
    for port in (0..askers).chain([UPSTREAM]) {
        add_law(&mut s, port)?;
        add(&mut s, quotas, KeyMatch::Exact(Val::S(port.into())), "set_quota", &named(&[("port_quota", QUOTA)]))?;
    }
    s.state.mirrors.insert(AGAIN, Mirror { port: Some(AGAIN), ..Mirror::default() });
    // As `weir p4 deploy` makes them: a copy for each of eight ports, and with the second of each pair one that goes on.
    for ports in 1..256 {
        let mut instances: Vec<_> = (0..8).filter(|bit| ports >> bit & 1 == 1).map(|bit| bit + 1).collect();
        s.state.groups.insert(0x4000 + ports, instances.iter().map(|i| (*i, vec![AGAIN])).collect());
        instances.push(9);
        s.state.groups.insert(0x4100 + ports, instances.iter().map(|i| (*i, vec![AGAIN])).collect());
    }
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
fn do_work(s: &mut Switch, work: &Work, segments: Range<u32>, now_us: &mut u64) -> Result<u64, String> {
    let mut notes = Notes::default();
    let (mut before, mut after) = (IngressOut::default(), EgressOut::default());
    let mut arriving = VecDeque::new();
    let mut sent = 0;
    let frames: Vec<_> = segments.map(|segment| frame(work.kind, segment)).collect();
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
    let wanted = work.sent_each * work.ports.len() * frames.len();
    // Now and then three segments of a round are in one set, and one of them gets a Nack or gives way.
    if sent * 20 < wanted * 19 {
        return Err(format!("{sent} packets came out, not {wanted}"));
    }
    Ok(took_ns)
}

/// A switch, and the work that it is given again and again.
struct Case {
    switch: Switch,
    outstanding: u32,
    /// Name and work of each timed step; untimed preparation has no name.
    works: Vec<(String, Work)>,
    times_ns: Vec<Vec<f64>>,
    now_us: u64,
    first: u32,
}

impl Case {
    /// `outstanding` Interests are out at a time, of the first of `askers` ports or of all of them.
    fn new(path: &str, outstanding: u32, askers: u32) -> Result<Case, String> {
        let mut works = vec![
            ("Interest forwarded".to_string(), Work { ports: vec![0], kind: 1, sent_each: 1 }),
            ("Data to 1 port".to_string(), Work { ports: vec![UPSTREAM], kind: 2, sent_each: 1 }),
        ];
        if askers > 1 {
            works.push((String::new(), Work { ports: vec![0], kind: 1, sent_each: 1 }));
            works.push(("Interest merged".to_string(), Work { ports: (1..askers).collect(), kind: 1, sent_each: 0 }));
            let all = Work { ports: vec![UPSTREAM], kind: 2, sent_each: askers as usize };
            works.push((format!("Data to {askers} ports"), all));
        }
        let times_ns = vec![Vec::new(); works.len()];
        Ok(Case { switch: switch(path, askers)?, outstanding, works, times_ns, now_us: 1_000_000, first: 0 })
    }

    /// One kind of work after the other, with new segments in each round. The first run is not timed.
    fn run(&mut self, run: usize, segments: u32) -> Result<(), String> {
        let mut took_ns = vec![0; self.works.len()];
        let rounds = segments / self.outstanding;
        for _ in 0..rounds {
            for (at, (_, work)) in self.works.iter().enumerate() {
                let segments = self.first..self.first + self.outstanding;
                took_ns[at] += do_work(&mut self.switch, work, segments, &mut self.now_us)?;
                if work.kind == 2 {
                    self.first += self.outstanding;
                }
            }
        }
        for (at, (_, work)) in self.works.iter().enumerate().filter(|_| run > 0) {
            let packets = f64::from(rounds * self.outstanding) * work.ports.len() as f64;
            self.times_ns[at].push(took_ns[at] as f64 / packets);
        }
        Ok(())
    }

    /// Name of each timed step, and nanoseconds per packet, sorted.
    fn times(self) -> impl Iterator<Item = (String, Vec<f64>)> {
        let named = self.works.into_iter().map(|(name, _)| name).zip(self.times_ns);
        named.filter(|(name, _)| !name.is_empty()).map(|(name, mut times_ns)| {
            times_ns.sort_by(f64::total_cmp);
            (name, times_ns)
        })
    }
}

fn measure(path: &str) -> Result<(), String> {
    let mut case = Case::new(path, USUAL.0, USUAL.1)?;
    (0..=RUNS).try_for_each(|run| case.run(run, SEGMENTS))?;
    for (name, times_ns) in case.times() {
        println!(
            "{}  {name:<18}  {:>9.0} packets/s  ({:.0} to {:.0})  {:.0} ns a packet",
            leaf_path(path),
            1e9 / times_ns[RUNS / 2],
            1e9 / times_ns[RUNS - 1],
            1e9 / times_ns[0],
            times_ns[RUNS / 2]
        );
    }
    Ok(())
}

/// Runs alternate between all cases, so that a busy machine slows all of them.
fn measure_scale(path: &str) -> Result<(), String> {
    let mut cases = Vec::new();
    for (outstanding, askers) in SCALE {
        cases.push((outstanding, askers, Case::new(path, outstanding, askers)?));
    }
    for run in 0..=RUNS {
        cases.iter_mut().try_for_each(|(_, _, case)| case.run(run, SEGMENTS_SCALE))?;
    }
    for (outstanding, askers, case) in cases {
        for (what, times_ns) in case.times() {
            tell(path, &[("what", what.into()), ("entries", outstanding.into()), ("askers", askers.into())], &times_ns);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let (scale, files) = scale_or_files();
    if files.is_empty() {
        eprintln!("usage: names [--scale] FILE.p4...");
        return ExitCode::from(2);
    }
    for file in files {
        if let Err(m) = if scale { measure_scale(&file) } else { measure(&file) } {
            eprintln!("names: {file}: {m}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
