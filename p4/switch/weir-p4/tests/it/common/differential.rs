// SPDX-License-Identifier: Apache-2.0
//! Two forms of a program, such as from source and from JSON, side by side: the same entries and packets in, the same packets
//! and state out.
#![allow(dead_code, reason = "each test uses its own part")]
use std::sync::Arc;
use weir_p4::bytecode::program::{ActionCall, KeyMatch, MatchKind, Program, Table};
use weir_p4::exec::{EntryAction, Member, Mirror};
use weir_p4::v1model::{Notes, Sent, Switch};
use weir_p4::value::Val;

/// xorshift64*: the same numbers everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn bits(&mut self, w: u32) -> Val {
        // Small numbers often, so that ports and indices are in range.
        let low = match self.below(3) {
            0 => u128::from(self.below(8)),
            1 => u128::from(self.next()),
            _ => u128::from(self.next()) << 64 | u128::from(self.next()),
        };
        Val::S(low).mask(w)
    }
}

/// Numbers that packets and keys are made of: those of the document.
pub fn numbers(json: &str) -> Vec<u64> {
    let parts = json.split("\"0x").skip(1).filter_map(|p| u64::from_str_radix(p.split('"').next()?, 16).ok());
    let mut out: Vec<u64> = parts.chain([0x0800, 0x86dd, 0x8100, 6, 17]).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// A frame of Ethernet and IPv4 with some bytes replaced.
pub fn packet(r: &mut Random, numbers: &[u64]) -> Vec<u8> {
    let mut p = vec![0, 0, 0, 0, 0, r.below(4) as u8, 0, 0, 0, 0, 0, r.below(4) as u8];
    let ether = if r.below(3) > 0 { 0x0800 } else { numbers[r.below(numbers.len() as u64) as usize] as u16 };
    p.extend(ether.to_be_bytes());
    let protocol = [6, 17, 1, numbers[r.below(numbers.len() as u64) as usize] as u8][r.below(4) as usize];
    let host = |r: &mut Random| 1 + r.below(4) as u8;
    p.extend([
        if r.below(5) == 0 { 0x46 } else { 0x45 },
        r.below(4) as u8,
        0,
        60,
        0,
        1,
        0,
        0,
        1 + r.below(64) as u8,
        protocol,
    ]);
    let (a, b) = (host(r), host(r));
    p.extend([0, 0, 10, 0, a, a, 10, 0, b, b]);
    let words: u32 = p[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((words & 0xffff) + (words >> 16)) as u16;
    p[24..26].copy_from_slice(&sum.to_be_bytes());
    for _ in 0..r.below(120) {
        p.push(if r.below(2) == 0 { 0 } else { r.next() as u8 });
    }
    for _ in 0..r.below(4) {
        let n = numbers[r.below(numbers.len() as u64) as usize];
        let len = [1, 2, 4][r.below(3) as usize];
        let at = r.below((p.len() - len) as u64) as usize;
        p[at..at + len].copy_from_slice(&n.to_be_bytes()[8 - len..]);
    }
    if r.below(12) == 0 {
        p.truncate(r.below(60) as usize);
    }
    p
}

fn key(r: &mut Random, kind: MatchKind, w: u32, numbers: &[u64]) -> KeyMatch {
    let v = match r.below(3) {
        0 => Val::S(numbers[r.below(numbers.len() as u64) as usize].into()).mask(w),
        // Addresses of `packet`.
        1 if w == 32 => Val::S(0x0a00_0101 + 0x0101 * u128::from(r.below(4))),
        1 if w == 48 => Val::S(r.below(4).into()),
        _ => r.bits(w),
    };
    match kind {
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(v),
        MatchKind::Lpm => {
            let n = [0, w / 2, w, r.below(u64::from(w) + 1) as u32][r.below(4) as usize];
            KeyMatch::Lpm(v.and(Val::all_ones(n).shl((w - n) as usize, w)), n)
        }
        MatchKind::Ternary => {
            let mask = [Val::S(0), Val::all_ones(w), r.bits(w)][r.below(3) as usize].clone();
            KeyMatch::Ternary(v.and(mask.clone()), mask)
        }
        MatchKind::Range => {
            let other = r.bits(w);
            let (low, high) = if v <= other { (v, other) } else { (other, v) };
            KeyMatch::Range(low, high)
        }
        MatchKind::Optional => KeyMatch::Optional((r.below(2) == 0).then_some(v)),
    }
}

fn partner<'t>(of: &Table, other: &'t Program) -> Option<(usize, &'t Table)> {
    other.tables.iter().enumerate().find(|(_, t)| t.name == of.name)
}

/// Fills the tables that both have with the same entries.
fn fill(r: &mut Random, a: &mut Switch, b: &mut Switch, numbers: &[u64]) -> Result<(), String> {
    let (pa, pb) = (a.program.clone(), b.program.clone());
    let visible = pa.info.tables.iter().map(|t| t.ir_index).collect::<Vec<_>>();
    for (i, t) in pa.tables.iter().enumerate().filter(|(i, _)| visible.contains(i)) {
        let Some((j, u)) = partner(t, &pb) else { return Err(format!("table {} is missing", t.name)) };
        if t.const_entries || t.keys.is_empty() {
            continue;
        }
        for n in 0..6 {
            let chosen = r.below(t.actions.len() as u64) as usize;
            let action = &t.actions[chosen];
            let Some(other) = u.actions.iter().position(|x| x.name == action.name) else {
                return Err(format!("action {} of table {} is missing", action.name, t.name));
            };
            let args: Vec<Val> = action.params.iter().map(|p| r.bits(p.width)).collect();
            let keys = t.keys.iter().filter(|k| k.kind != MatchKind::Selector);
            let keys: Vec<KeyMatch> = keys.map(|k| key(r, k.kind, k.width, numbers)).collect();
            let priority = 1 + r.below(1000) as i64;
            let (x, y) = match (t.profile, u.profile) {
                (Some(p), Some(q)) => {
                    a.state.profiles[p].members.insert(n, Member { body: action.body, args: args.clone() });
                    b.state.profiles[q].members.insert(n, Member { body: u.actions[other].body, args });
                    if pa.profiles[p].selector.is_some() {
                        a.state.profiles[p].groups.insert(1, (0..=n).collect());
                        b.state.profiles[q].groups.insert(1, (0..=n).collect());
                        (EntryAction::Group(1), EntryAction::Group(1))
                    } else {
                        (EntryAction::Member(n), EntryAction::Member(n))
                    }
                }
                _ => (
                    EntryAction::Call(ActionCall { action: chosen, args: args.clone() }),
                    EntryAction::Call(ActionCall { action: other, args }),
                ),
            };
            if action.default_only {
                continue;
            }
            let left = a.state.tables[i].insert(t, keys.clone(), priority, x).map_err(|e| format!("{e:?}"));
            let right = b.state.tables[j].insert(u, keys, priority, y).map_err(|e| format!("{e:?}"));
            if left.is_ok() != right.is_ok() {
                return Err(format!("an entry of table {}: {left:?} and {right:?}", t.name));
            }
        }
    }
    for s in [a, b] {
        for session in 0..512 {
            s.state.mirrors.insert(session, Mirror { port: Some(session % 16), ..Mirror::default() });
        }
        for group in 1..8 {
            s.state.groups.insert(group, vec![(1, vec![1, 2]), (2, vec![3])]);
        }
    }
    Ok(())
}

/// Cells of registers and counters by name.
fn state(s: &Switch) -> Vec<String> {
    let mut out = Vec::new();
    for (c, cells) in s.program.counters.iter().zip(&s.state.counters).filter(|(c, _)| c.size.is_some()) {
        let used = cells.iter().enumerate().filter(|(_, cell)| cell.0 > 0);
        out.extend(used.map(|(at, cell)| format!("{}[{at}] {cell:?}", c.name)));
    }
    for (i, x) in s.program.registers.iter().enumerate() {
        let cells = (0..x.size.min(4096)).filter_map(|at| Some((at, s.state.register_get(i, at)?)));
        out.extend(cells.filter(|(_, v)| !v.is_zero()).map(|(at, v)| format!("{}[{at}] {v:?}", x.name)));
    }
    out.sort();
    out
}

/// Runs packets through both; the numbers of packets in and out, or the first difference.
pub fn compare(
    source: Arc<Program>,
    json: Arc<Program>,
    text: &str,
    seed: u64,
    packets: usize,
) -> Result<(usize, usize), String> {
    compare_switches((Switch::new(source, seed), Switch::new(json, seed)), text, seed, packets, |_, _, _| Ok(()))
}

/// The same for two switches; `check` gets both and what they sent for a packet.
pub fn compare_switches(
    (mut a, mut b): (Switch, Switch),
    text: &str,
    seed: u64,
    packets: usize,
    mut check: impl FnMut(&mut Switch, &mut Switch, &[Sent]) -> Result<(), String>,
) -> Result<(usize, usize), String> {
    let numbers = numbers(text);
    let mut r = Random(seed);
    fill(&mut r, &mut a, &mut b, &numbers)?;
    let mut sent = 0;
    for i in 0..packets {
        let (bytes, port, now) = (packet(&mut r, &numbers), r.below(5) as u32, 1000 * i as u64);
        let (mut x, mut y) = (Notes::default(), Notes::default());
        let (from_source, from_json) = (a.process(&bytes, port, now, &mut x), b.process(&bytes, port, now, &mut y));
        if from_source != from_json {
            return Err(format!("packet {i}, {bytes:02x?} in at {port}: {from_source:02x?} and {from_json:02x?}"));
        }
        let drops = |n: &Notes| (n.ingress_drops, n.egress_drops, n.faults.clone());
        if drops(&x) != drops(&y) {
            return Err(format!("packet {i}: {x:?} and {y:?}"));
        }
        let digests = |n: &Notes| n.digests.iter().map(|d| d.values.clone()).collect::<Vec<_>>();
        if digests(&x) != digests(&y) {
            return Err(format!("packet {i}: {:?} and {:?}", digests(&x), digests(&y)));
        }
        check(&mut a, &mut b, &from_json).map_err(|e| format!("packet {i}, {bytes:02x?} in at {port}: {e}"))?;
        sent += from_source.len();
    }
    match state(&a).iter().zip(&state(&b)).find(|(x, y)| x != y) {
        Some((x, y)) => Err(format!("after all packets: {x} and {y}")),
        None if state(&a).len() != state(&b).len() => Err("after all packets: other cells are in use".into()),
        None => Ok((packets, sent)),
    }
}
