// SPDX-License-Identifier: Apache-2.0
//! Bounds on the operations of a packet.
use super::COUNTED;
use crate::bytecode::program::{ActionCall, KeyMatch};
use crate::exec::table::EntryAction;
use crate::v1model::{Arriving, EgressOut, IngressOut, Notes, Queued, Switch};
use crate::value::Val;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Args = BTreeMap<String, u64>;

const PORT: u64 = 2;
const EVERY_US: u64 = 60;
const PACKETS: usize = 2000;

/// Means per packet, ingress and egress together.
#[derive(Debug)]
#[expect(dead_code, reason = "for the message of the assertion")]
struct PerPacket {
    conditionals: f64,
    runs: f64,
    tables: f64,
    primitives: f64,
    jumps: f64,
    operators: f64,
    /// Of BMv2.
    instructions: f64,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn add(s: &mut Switch, table: &str, key: KeyMatch, action: &str, args: &Args) {
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let p = s.program.clone();
    let t = p.tables.iter().position(|t| leaf(&t.name) == table).expect("the table is there");
    let number = p.tables[t].actions.iter().position(|a| leaf(&a.name) == action).expect("the action is there");
    let params = p.tables[t].actions[number].params.iter();
    let args = params.map(|a| Val::S(args[&a.name].into())).collect();
    let call = EntryAction::Call(ActionCall { action: number, args });
    s.state.tables[t].insert(&p.tables[t], vec![key], 0, call).expect("the entry is added");
}

/// The law's `tuned` profile on one port with this target.
fn switch(file: &str, target_us: u64) -> Switch {
    let path = repository().join(file);
    let text = std::fs::read_to_string(&path).expect("the program can be read");
    let program = crate::compile(&path.display().to_string(), &text, &[]).expect("the program compiles");
    let mut s = Switch::new(Arc::new(program), 1);
    if file.ends_with("router.p4") {
        return s;
    }
    let text =
        std::fs::read_to_string(repository().join("tests/vectors/closed-loop.jsonl")).expect("there are vectors");
    let line = text.lines().find(|l| l.contains("\"closed-loop/tuned\"")).expect("the vectors have the profile");
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).expect("a JSON object");
    let mut law: Args = fields.into_iter().filter_map(|(k, v)| v.as_u64().map(|v| (k, v))).collect();
    let named = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, v)| (k.to_string(), *v)).collect::<Args>();
    law.extend(named(&[("digest_interval_us", 15_000), ("delay_source", 0), ("target_us", target_us)]));
    add(&mut s, "ipv4_lpm", KeyMatch::Lpm(Val::S(0x0a00_0100), 24), "set_next_hop", &named(&[("next_hop", 1)]));
    let hop = named(&[("port", PORT), ("dst_mac", 2), ("src_mac", 3)]);
    add(&mut s, "next_hop", KeyMatch::Exact(Val::S(1)), "forward", &hop);
    add(&mut s, "aqm", KeyMatch::Exact(Val::S(PORT.into())), "pid_delay", &law);
    s
}

/// IPv4 and UDP to the route.
fn frame(length_bytes: usize) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 0xfe, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (length_bytes - 14) as u16;
    p.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 5, 10, 0, 1, 9]);
    let words: u32 = p[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    p[24..26].copy_from_slice(&(!((words & 0xffff) + (words >> 16)) as u16).to_be_bytes());
    p.resize(length_bytes, 0);
    p
}

/// A line that sends each second packet of those that arrive, or each one where nothing waits.
fn measure(mut s: Switch, length_bytes: usize, queue_packets: usize) -> PerPacket {
    let bytes = frame(length_bytes);
    let (mut notes, mut before, mut after) = (Notes::default(), IngressOut::default(), EgressOut::default());
    let mut queue: VecDeque<Queued> = VecDeque::new();
    let (mut totals, mut now_us) = ([[0; 7]; 2], 1_000_000);
    let mut counts = [0; 2];
    for i in 0..2 * PACKETS {
        now_us += EVERY_US;
        let packet = s.packet(&bytes);
        let mut add = |half: usize| {
            let o = COUNTED.take();
            if i >= PACKETS {
                counts[half] += 1;
                let of = [o.conditionals, o.runs, o.tables, o.primitives, o.jumps, o.operators, o.instructions()];
                totals[half].iter_mut().zip(of).for_each(|(t, n)| *t += n);
            }
        };
        s.ingress(Arriving::new(packet, 1), now_us, &mut notes, &mut before);
        add(0);
        for mut q in before.queued.drain(..) {
            q.enq_us = now_us;
            if queue.len() < queue_packets.max(1) {
                queue.push_back(q);
            }
        }
        if (queue_packets == 0 || i % 2 == 0)
            && let Some(mut q) = queue.pop_front()
        {
            q.deq_us = now_us;
            q.deq_qdepth = queue.len() as u32;
            s.egress(q, now_us, &mut notes, &mut after);
            add(1);
        }
    }
    let mean = |k: usize| (0..2).map(|half| totals[half][k] as f64 / counts[half] as f64).sum();
    let [conditionals, runs, tables, primitives, jumps, operators, instructions] = std::array::from_fn(mean);
    PerPacket { conditionals, runs, tables, primitives, jumps, operators, instructions }
}

/// The bounds are the present counts, rounded up to thousands. They are instructions of pipelines alone, without parser, fields of
/// metadata and packet buffers, but with 28 copies of action parameters that p4c removes;
/// `docs/notebook/2026-11-law-cost.md` has the rest, and the rates.
#[test]
fn the_law_costs_bmv2_few_instructions() {
    let (far_us, near_us) = (100_000, 2_000);
    let law = "p4/programs/pid_delay.p4";
    for (file, target_us, length_bytes, queue_packets, most) in [
        ("p4/switch/bench/router.p4", 0, 64, 0, 112_000.0),
        // U is 0, as in `./run bench switch`; then with drops.
        (law, far_us, 64, 0, 349_000.0),
        (law, far_us, 1400, 64, 386_000.0),
        (law, near_us, 1400, 64, 510_000.0),
    ] {
        let found = measure(switch(file, target_us), length_bytes, queue_packets);
        println!("{file}, target {target_us} us, {length_bytes} bytes: {found:.1?}");
        assert!(found.instructions <= most, "{file}: {found:.1?}, at most {most}");
    }
}
