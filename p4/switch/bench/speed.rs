// SPDX-License-Identifier: Apache-2.0
//! `speed FILE.p4...`: packets per second of a program in process, one core, no I/O: ingress, a queue that never waits,
//! egress. For programs with a table of IPv4 prefixes (`routes` or `ipv4_lpm`); prints the median and the range of
//! several runs in the thread's CPU time, with 100 and with 100,000 routes, and the ratio of the two; first the same
//! for a lookup by itself. `speed --scale FILE.p4...`: with 1 to 500 ports, each with the law and its share of the
//! packets, and few or many destinations, each a flow; a line of JSON for each. `speed --packets N FILE.p4`: only N
//! packets through the law, for tools that count instructions. `--no-jit` measures the interpreter. Run it with `--release`.
mod parts;
use parts::{add, add_law, cpu_ns, leaf_path, named, program, scale_or_files, switch_for, table, tell};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use weir_p4::bytecode::program::KeyMatch;
use weir_p4::exec::lpm::Lpm;
use weir_p4::v1model::{Arriving, EgressOut, IngressOut, Notes, Switch};
use weir_p4::value::Val;

const RUNS: usize = 7;
const PACKETS: usize = 300_000;
/// Of each of the many cases of `--scale`.
const PACKETS_SCALE: usize = 100_000;
const LOOKUPS: usize = 3_000_000;
const ROUTES: [usize; 2] = [100, 100_000];
const LENGTHS_BYTES: [usize; 2] = [64, 1400];
const PORTS: [u32; 4] = [1, 10, 100, 500];
/// Routes with `--scale`: of the ports together.
const DESTINATIONS: [usize; 3] = [500, 10_000, 100_000];

/// Repeatable numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// An address and a length for a prefix around it, with lengths much as in a routing table of the Internet: most 24,
/// the rest 12 to 30.
fn route(random: &mut Random) -> (u32, u32) {
    let r = random.next();
    ((r >> 32) as u32, if r % 100 < 60 { 24 } else { 12 + (r >> 8) as u32 % 19 })
}

/// Nanoseconds of one lookup in the prefix trie alone: addresses that a route covers, none asked for twice in a row.
fn lookups(routes: usize) -> Result<Vec<f64>, String> {
    let (mut random, mut seen, mut keys) = (Random(1), BTreeSet::new(), Vec::new());
    let mut lpm = Lpm::new(0, 1, 32);
    while keys.len() < routes {
        let (address, n) = route(&mut random);
        let prefix = u64::from(address & (u32::MAX << (32 - n))) << 32;
        if seen.insert((prefix, n)) {
            lpm.insert(&[prefix], n, keys.len() as u32);
            keys.push(u64::from(address) << 32);
        }
    }
    let asked: Vec<u64> = (0..65_536).map(|_| keys[random.next() as usize % keys.len()]).collect();
    let mut times_ns = Vec::new();
    for _ in 0..=RUNS {
        let start_ns = cpu_ns()?;
        let found = (0..LOOKUPS).filter(|i| lpm.lookup(&[asked[i % asked.len()]]).is_some()).count();
        times_ns.push((cpu_ns()? - start_ns) as f64 / LOOKUPS as f64);
        if found != LOOKUPS {
            return Err(format!("{found} of {LOOKUPS} lookups found a route"));
        }
    }
    times_ns.remove(0);
    times_ns.sort_by(f64::total_cmp);
    Ok(times_ns)
}

fn measure_lookups() -> Result<(), String> {
    let mut medians = Vec::new();
    for routes in ROUTES {
        let times_ns = lookups(routes)?;
        medians.push(times_ns[RUNS / 2]);
        println!(
            "prefix lookup alone  {routes:>6} routes  {:.1} ns  ({:.1} to {:.1})",
            times_ns[RUNS / 2],
            times_ns[0],
            times_ns[RUNS - 1]
        );
    }
    println!("prefix lookup alone  {} routes cost {:.2} times {}", ROUTES[1], medians[1] / medians[0], ROUTES[0]);
    Ok(())
}

/// Fills the tables, with so many ports that the routes lead to in turn; gives an address that each route covers.
fn fill(s: &mut Switch, routes: usize, ports: u32) -> Result<Vec<u32>, String> {
    let p = s.program.clone();
    let (t, action) = match (table(&p, "routes"), table(&p, "ipv4_lpm")) {
        (Some(t), _) => (t, "forward"),
        (_, Some(t)) => (t, "set_next_hop"),
        _ => return Err("the program has neither a table `routes` nor `ipv4_lpm`".into()),
    };
    for port in 1..=ports {
        if let Some(t) = table(&p, "next_hop") {
            let args = named(&[("port", port.into()), ("dst_mac", 2), ("src_mac", 3)]);
            add(s, t, KeyMatch::Exact(Val::S(port.into())), "forward", &args)?;
        }
        if table(&p, "aqm").is_some() {
            add_law(s, port)?;
        }
    }
    // The table's size is for deployment, not for this.
    let mut program = (*p).clone();
    program.tables[t].size = routes as u64;
    s.program = Arc::new(program);
    let (mut random, mut addresses) = (Random(1), Vec::new());
    while addresses.len() < routes {
        let (address, n) = route(&mut random);
        let prefix = address & (u32::MAX << (32 - n));
        let port = 1 + addresses.len() as u64 % u64::from(ports);
        let args = named(&[("port", port), ("mac", 2), ("next_hop", port)]);
        match add(s, t, KeyMatch::Lpm(Val::S(prefix.into()), n), action, &args) {
            Ok(()) => addresses.push(address),
            Err(e) if e.contains("has an entry") => {}
            Err(e) => return Err(e),
        }
    }
    Ok(addresses)
}

/// An Ethernet frame with IPv4 and UDP, but for its destination and checksum.
fn frame(length_bytes: usize) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 0xfe, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (length_bytes - 14) as u16;
    p.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
    p.resize(length_bytes, 0);
    p
}

fn address_to(p: &mut [u8], to: u32) {
    p[24..26].fill(0);
    p[30..34].copy_from_slice(&to.to_be_bytes());
    let mut sum: u32 = p[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    p[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

/// Packets per second of one run of so many; every packet must come out.
fn run(
    s: &mut Switch,
    packets: usize,
    length_bytes: usize,
    heads: &[[u8; 34]],
    now_us: &mut u64,
) -> Result<f64, String> {
    let mut notes = Notes::default();
    let (mut before, mut after) = (IngressOut::default(), EgressOut::default());
    let mut bytes = frame(length_bytes);
    let mut sent = 0;
    let start_ns = cpu_ns()?;
    for i in 0..packets {
        *now_us += 1;
        bytes[..34].copy_from_slice(&heads[i % heads.len()]);
        let packet = s.packet(&bytes);
        s.ingress(Arriving::new(packet, 0), *now_us, &mut notes, &mut before);
        while let Some(mut q) = before.queued.pop() {
            q.deq_us = q.enq_us + 10;
            q.deq_qdepth = 1;
            s.egress(q, *now_us + 10, &mut notes, &mut after);
        }
        if let Some(x) = after.sent.take() {
            sent += 1;
            s.recycle(x.packet);
        }
        notes.digests.clear();
    }
    let took_ns = cpu_ns()? - start_ns;
    if sent != packets {
        return Err(format!("{sent} of {packets} packets came out"));
    }
    Ok(packets as f64 * 1e9 / took_ns as f64)
}

/// Beginnings of frames to these addresses, in an order of their own.
fn heads(addresses: &[u32], length_bytes: usize) -> Vec<[u8; 34]> {
    let mut random = Random(2);
    let mut heads = vec![[0; 34]; 65_536];
    for h in &mut heads {
        h.copy_from_slice(&frame(length_bytes)[..34]);
        address_to(h, addresses[random.next() as usize % addresses.len()]);
    }
    heads
}

/// Runs alternate between all cases, so that a busy machine slows all of them.
fn measure_scale(path: &str) -> Result<(), String> {
    let program = program(path)?;
    let mut cases = Vec::new();
    for ports in PORTS {
        for routes in DESTINATIONS {
            let mut s = switch_for(program.clone());
            let heads = heads(&fill(&mut s, routes, ports)?, LENGTHS_BYTES[1]);
            cases.push((ports, routes, s, heads, 1_000_000, Vec::new()));
        }
    }
    for round in 0..=RUNS {
        for (_, _, s, heads, now_us, times_ns) in &mut cases {
            let rate = run(s, PACKETS_SCALE, LENGTHS_BYTES[1], heads, now_us)?;
            if round > 0 {
                times_ns.push(1e9 / rate);
            }
        }
    }
    for (ports, routes, _, _, _, mut times_ns) in cases {
        times_ns.sort_by(f64::total_cmp);
        tell(path, &[("ports", ports.into()), ("destinations", routes.into())], &times_ns);
    }
    Ok(())
}

fn measure(path: &str) -> Result<(), String> {
    let program = program(path)?;
    let mut medians = BTreeMap::new();
    for routes in ROUTES {
        let mut s = switch_for(program.clone());
        let addresses = fill(&mut s, routes, 1)?;
        let mut now_us = 1_000_000;
        for length in LENGTHS_BYTES {
            let exact = heads(&addresses, length);
            run(&mut s, PACKETS, length, &exact, &mut now_us)?;
            let mut rates = Vec::new();
            for _ in 0..RUNS {
                rates.push(run(&mut s, PACKETS, length, &exact, &mut now_us)?);
            }
            rates.sort_by(f64::total_cmp);
            let median = rates[RUNS / 2];
            println!(
                "{}  {routes:>6} routes  {length:>4} bytes  {:>9.0} packets/s  ({:.0} to {:.0})  {:.0} ns a packet",
                leaf_path(path),
                median,
                rates[0],
                rates[RUNS - 1],
                1e9 / median
            );
            medians.insert((length, routes), median);
        }
    }
    for length in LENGTHS_BYTES {
        let ratio = medians[&(length, ROUTES[0])] / medians[&(length, ROUTES[1])];
        println!("{}  {length:>4} bytes  {} routes cost {ratio:.2} times {}", leaf_path(path), ROUTES[1], ROUTES[0]);
    }
    Ok(())
}

/// Runs so many packets of 64 bytes, of 100 flows to one port with the law, and prints nothing.
fn run_packets(packets: usize, path: &str) -> Result<(), String> {
    let mut s = switch_for(program(path)?);
    let heads = heads(&fill(&mut s, ROUTES[0], 1)?, LENGTHS_BYTES[0]);
    run(&mut s, packets, LENGTHS_BYTES[0], &heads, &mut 1_000_000).map(|_| ())
}

fn main() -> ExitCode {
    let (scale, files) = scale_or_files();
    if let [option, packets, file] = &files[..]
        && option == "--packets"
        && let Ok(packets) = packets.parse()
    {
        return run_packets(packets, file).map_or_else(
            |e| {
                eprintln!("speed: {e}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    if files.is_empty() {
        eprintln!("usage: speed [--no-jit] [--scale] FILE.p4... | speed [--no-jit] --packets N FILE.p4");
        return ExitCode::from(2);
    }
    let lookups = (!scale).then(measure_lookups);
    let of_files = files.iter().map(|f| if scale { measure_scale(f) } else { measure(f) });
    for result in lookups.into_iter().chain(of_files) {
        if let Err(m) = result {
            eprintln!("speed: {m}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
