// SPDX-License-Identifier: Apache-2.0
//! Entries and counters of a switch, and a switch that forwards names, for tests and fuzz targets. Needs nothing beside it.
#![allow(dead_code, reason = "each test uses its own part")]
use weir_p4::bytecode::program::{ActionCall, KeyMatch, MatchKind};
use weir_p4::exec::{EntryAction, Mirror};
use weir_p4::v1model::Switch;
use weir_p4::value::Val;

fn ends(name: &str, with: &str) -> bool {
    name.rsplit('.').next() == Some(with)
}

fn table_of(switch: &Switch, table: &str) -> usize {
    switch.program.tables.iter().position(|t| ends(&t.name, table)).expect("the table is there")
}

fn call(switch: &Switch, table: usize, action: &str, args: &[(&str, u64)]) -> EntryAction {
    let actions = &switch.program.tables[table].actions;
    let number = actions.iter().position(|a| ends(&a.name, action)).expect("the action is there");
    let given = |name: &str| args.iter().find(|(n, _)| *n == name);
    let value = |name: &str| given(name).unwrap_or_else(|| panic!("{action}: no {name}")).1;
    let args = actions[number].params.iter().map(|a| Val::S(value(&a.name).into())).collect();
    EntryAction::Call(ActionCall { action: number, args })
}

/// An entry with one key; where the key is a prefix, the default route.
pub fn add(switch: &mut Switch, table: &str, key: u64, action: &str, args: &[(&str, u64)]) {
    let at = table_of(switch, table);
    let key = match switch.program.tables[at].keys[0].kind {
        MatchKind::Lpm => KeyMatch::Lpm(Val::S(key.into()), 0),
        _ => KeyMatch::Exact(Val::S(key.into())),
    };
    insert(switch, at, key, action, args);
}

/// An entry whose key is the first `bits` of `prefix`.
pub fn add_prefix(switch: &mut Switch, table: &str, prefix: u64, bits: u32, action: &str, args: &[(&str, u64)]) {
    let at = table_of(switch, table);
    insert(switch, at, KeyMatch::Lpm(Val::S(prefix.into()), bits), action, args);
}

fn insert(switch: &mut Switch, at: usize, key: KeyMatch, action: &str, args: &[(&str, u64)]) {
    let (call, p) = (call(switch, at, action, args), switch.program.clone());
    switch.state.tables[at].insert(&p.tables[at], vec![key], 0, call).expect("the entry fits");
}

pub fn set_default(switch: &mut Switch, table: &str, action: &str, args: &[(&str, u64)]) {
    let at = table_of(switch, table);
    let (call, p) = (call(switch, at, action, args), switch.program.clone());
    switch.state.tables[at].set_default(&p.tables[at], call).expect("the action fits");
}

/// Packets in each cell of a counter.
pub fn cells(switch: &Switch, counter: &str) -> Vec<u64> {
    let c = switch.program.counters.iter().position(|c| ends(&c.name, counter)).expect("the counter is there");
    switch.state.counters[c].iter().map(|(packets, _)| *packets).collect()
}

/// Packets in all cells of a counter.
pub fn counted(switch: &Switch, counter: &str) -> u64 {
    cells(switch, counter).iter().sum()
}

pub const INTEREST: u8 = 1;
pub const DATA: u8 = 2;
pub const NACK: u8 = 3;
/// Where names of [`PREFIXES`]`[0]` come from, where they do when asked from there, and where those of the second do.
pub const UP: u32 = 4;
pub const OTHER: u32 = 3;
pub const ELSEWHERE: u32 = 5;
/// To `UP` and to `ELSEWHERE`; the third leads nowhere.
pub const PREFIXES: [u64; 3] = [0x0001_0002_0000_0000, 0x0003_0000_0000_0000, 0x0009_0000_0000_0000];
pub const NAMES: [u64; 2] = [0x1122_3344_5566_7788, 0x1122_3344_5566_7789];
/// With the key of [`forward_names`], the first three of the first name fall into one set (p4/tests/icn/full.stf).
pub const SEGMENTS: [u32; 16] = [0, 0x2322, 0x66b9, 0, 0x2322, 0x66b9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Cells of `names` that count other things than packets: copies of Data, and displaced entries.
pub const DATA_COPIES: usize = 4;
pub const ENTRIES_DISPLACED: usize = 16;

const AGAIN: u32 = 510;

/// Fills the tables of a program with icn_*.p4 (docs/design/icn.md, "Rules of a switch"): routes, the groups and the
/// session of copies, and limits. A port may have `quota` entries, port 2 three.
pub fn forward_names(switch: &mut Switch, quota: u64) {
    let key = [("hash_key_low", 0x0302_0100), ("hash_key_high", 0x0706_0504)];
    let limits = [key[0], key[1], ("lifetime_least_us", 1000), ("port_quota", quota)];
    set_default(switch, "names_limits", "set_limits", &limits);
    add(switch, "names_quota", 2, "set_quota", &[("port_quota", 3)]);
    let ways = [("port", UP.into()), ("other", OTHER.into())];
    add_prefix(switch, "fib", PREFIXES[0], 32, "via", &ways);
    add_prefix(switch, "fib", PREFIXES[1], 16, "via", &[("port", ELSEWHERE.into()), ("other", 511)]);
    switch.state.mirrors.insert(AGAIN, Mirror { port: Some(AGAIN), ..Mirror::default() });
    for value in 1..256 {
        let mut copies: Vec<_> = (0..8).filter(|bit| value >> bit & 1 == 1).map(|bit| (bit + 1, vec![AGAIN])).collect();
        switch.state.groups.insert(0x4000 + value, copies.clone());
        copies.push((9, vec![AGAIN]));
        switch.state.groups.insert(0x4100 + value, copies);
    }
}

/// A packet of names (docs/design/icn-formats.md, "The packet").
#[derive(Clone, Copy)]
pub struct Name {
    pub kind: u8,
    pub flags: u8,
    pub hop_limit: u8,
    pub code: u8,
    pub prefix: u64,
    pub name: u64,
    pub segment: u32,
    pub holes: u16,
    /// In units of 256 us.
    pub lifetime: u16,
}

impl Name {
    pub fn new(kind: u8, segment: u32) -> Name {
        let lifetime = if kind == INTEREST { 0xffff } else { 0 };
        let code = if kind == NACK { 4 } else { 0 };
        let (prefix, name) = (PREFIXES[0], NAMES[0]);
        Name { kind, flags: 0, hop_limit: 64, code, prefix, name, segment, holes: 0, lifetime }
    }

    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![3, 0x57, 0x45, 0x49, 0x52, 1, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        p.extend([0x10 | self.kind, self.flags, self.hop_limit, self.code]);
        p.extend(self.prefix.to_be_bytes());
        p.extend(self.name.to_be_bytes());
        p.extend(self.segment.to_be_bytes());
        p.extend(self.holes.to_be_bytes());
        p.extend(self.lifetime.to_be_bytes());
        p.extend((payload.len() as u16).to_be_bytes());
        p.extend([0, 0]);
        p.extend(payload);
        p
    }
}

/// Any bytes as a frame that gets past the first checks more often than not: the first ones choose each field among a
/// few values, so that Interests meet and answers find them; the rest is payload. One of eight is a frame as it is.
pub fn name_frame(bytes: &[u8]) -> Vec<u8> {
    let b = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (kind, choice) = ([INTEREST, INTEREST, INTEREST, DATA, DATA, NACK, 0, 0xff][usize::from(b(0) % 8)], b(1));
    if kind == 0xff {
        return bytes[1..].to_vec();
    }
    let holes = u16::from_be_bytes([b(4), b(5)]) & if choice & 64 == 0 { 0 } else { 0xffff };
    let holes = if kind == INTEREST || b(2) == 0 { holes } else { 0 };
    let bare = b(2) != 0 && (kind == NACK || holes != 0);
    let name = Name {
        flags: b(6),
        hop_limit: if b(7) < 200 { 64 } else { b(7) - 200 },
        prefix: PREFIXES[[0, 0, 0, 0, 0, 0, 1, 2][usize::from(choice % 8)]],
        name: NAMES[usize::from(choice >> 3 & 1)],
        holes,
        lifetime: [1, 64, 4096, 0xffff][usize::from(b(2) % 4)],
        ..Name::new(kind, SEGMENTS[usize::from(b(3) % 16)])
    };
    name.frame(if bare { &[] } else { bytes.get(8..).unwrap_or_default() })
}
