// SPDX-License-Identifier: Apache-2.0
//! What a running program keeps between packets: tables, registers, counters, meters, groups, sessions.
use crate::ir::{ActionCall, CountKind, KeyMatch, MatchKind, Program, Table};
use crate::value::Val;
use std::collections::{BTreeMap, HashMap};

pub type EntryId = u64;

#[derive(Clone, Debug, PartialEq)]
pub enum EntryAction {
    Call(ActionCall),
    /// Member or group of the table's action profile.
    Member(u32),
    Group(u32),
}

#[derive(Clone, Debug)]
pub struct EntryState {
    pub keys: Vec<KeyMatch>,
    /// The largest wins; only tables with ternary, range or optional keys look at it.
    pub priority: i64,
    pub action: EntryAction,
    pub is_const: bool,
    pub packets: u64,
    pub bytes: u64,
    pub meter: MeterCell,
}

/// Why a table or other state could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    NotFound(String),
    Exists(String),
    Invalid(String),
    Full(String),
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeError::NotFound(s) | ChangeError::Exists(s) | ChangeError::Invalid(s) | ChangeError::Full(s) => {
                f.write_str(s)
            }
        }
    }
}

impl std::error::Error for ChangeError {}

/// Two rates and three colors (RFC 2698) in whole tokens counted from the start, as BMv2 counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeterCell {
    /// Units per microsecond, burst in units; committed, then peak. `None`: everything is green.
    pub rates: Option<[(f64, u64); 2]>,
    tokens: [u64; 2],
    /// Tokens given out since the rates were set.
    given: [u64; 2],
    start_us: u64,
}

impl MeterCell {
    /// Sets the rates; both buckets start full.
    pub fn set(&mut self, committed: (f64, u64), peak: (f64, u64), now_us: u64) {
        let tokens = [committed.1, peak.1];
        *self = MeterCell { rates: Some([committed, peak]), tokens, given: [0; 2], start_us: now_us };
    }

    /// 0 green, 1 yellow, 2 red.
    pub fn color(&mut self, kind: CountKind, bytes: u64, now_us: u64) -> u8 {
        let Some(rates) = self.rates else { return 0 };
        let elapsed_us = now_us.saturating_sub(self.start_us) as f64;
        let need = if kind == CountKind::Packets { 1 } else { bytes };
        // The peak rate first; the committed one is looked at only by what passes it.
        for i in [1, 0] {
            let due = (elapsed_us * rates[i].0) as u64;
            self.tokens[i] = self.tokens[i].saturating_add(due.saturating_sub(self.given[i])).min(rates[i].1);
            self.given[i] = due.max(self.given[i]);
            if self.tokens[i] < need {
                return i as u8 + 1;
            }
            self.tokens[i] -= need;
        }
        0
    }
}

type KeyMap = HashMap<Box<[Val]>, EntryId>;

enum Index {
    /// Values in the order of the keys.
    Exact(KeyMap),
    /// One map for each prefix length, longest first; which key is the lpm one.
    Lpm(usize, Vec<(u32, KeyMap)>),
    /// By falling priority, then by age.
    Ordered(Vec<(i64, EntryId)>),
}

pub struct TableState {
    entries: HashMap<EntryId, EntryState>,
    index: Index,
    next_id: EntryId,
    pub default: EntryAction,
    /// What an unmatched packet counts on.
    pub misses: (u64, u64),
}

/// Whether entries of the table need a priority.
pub fn needs_priority(t: &Table) -> bool {
    t.keys.iter().any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional))
}

impl TableState {
    fn new(t: &Table) -> TableState {
        let lpm = t.keys.iter().position(|k| k.kind == MatchKind::Lpm);
        let index = if needs_priority(t) {
            Index::Ordered(Vec::new())
        } else if let Some(i) = lpm {
            let at = t.keys[..i].iter().filter(|k| k.kind != MatchKind::Selector).count();
            Index::Lpm(at, Vec::new())
        } else {
            Index::Exact(HashMap::new())
        };
        let default = EntryAction::Call(t.default.clone());
        TableState { entries: HashMap::new(), index, next_id: 1, default, misses: (0, 0) }
    }

    fn check(t: &Table, keys: &[KeyMatch]) -> Result<(), ChangeError> {
        let wanted: Vec<_> = t.keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
        if wanted.len() != keys.len() {
            let m = format!("table {} has {} match fields, not {}", t.name, wanted.len(), keys.len());
            return Err(ChangeError::Invalid(m));
        }
        for (k, m) in wanted.iter().zip(keys) {
            let invalid =
                |what: &str| Err(ChangeError::Invalid(format!("match field {} of table {}: {what}", k.name, t.name)));
            let fits = |v: &Val| v.bits() <= k.width;
            let ok = match (k.kind, m) {
                (MatchKind::Exact, KeyMatch::Exact(v)) => fits(v),
                (MatchKind::Lpm, KeyMatch::Lpm(v, n)) => {
                    if *n > k.width {
                        return invalid(&format!("prefix length {n} is above {}", k.width));
                    }
                    let mask = Val::all_ones(*n).shl((k.width - n) as usize, k.width);
                    if v.clone().and(mask) != *v {
                        return invalid("bits are set outside the prefix");
                    }
                    fits(v)
                }
                (MatchKind::Ternary, KeyMatch::Ternary(v, mask)) => {
                    if v.clone().and(mask.clone()) != *v {
                        return invalid("bits are set outside the mask");
                    }
                    fits(v) && fits(mask)
                }
                (MatchKind::Range, KeyMatch::Range(a, b)) => {
                    let (x, y) = (a.to_int(k.width, k.signed), b.to_int(k.width, k.signed));
                    if x > y {
                        return invalid(&format!("range {x}..{y} has its ends reversed"));
                    }
                    fits(a) && fits(b)
                }
                (MatchKind::Optional, KeyMatch::Optional(v)) => v.as_ref().is_none_or(fits),
                _ => return invalid("the kind of match does not fit the table"),
            };
            if !ok {
                return invalid(&format!("value does not fit {} bits", k.width));
            }
        }
        Ok(())
    }

    fn exact_key(keys: &[KeyMatch]) -> Box<[Val]> {
        let value = |k: &KeyMatch| match k {
            KeyMatch::Exact(v) | KeyMatch::Lpm(v, _) => v.clone(),
            _ => Val::S(0),
        };
        keys.iter().map(value).collect()
    }

    fn prefix(keys: &[KeyMatch]) -> u32 {
        keys.iter().find_map(|k| if let KeyMatch::Lpm(_, n) = k { Some(*n) } else { None }).unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entry(&self, id: EntryId) -> Option<&EntryState> {
        self.entries.get(&id)
    }

    /// For its counters and meter; [`TableState::modify`] changes its action.
    pub fn entry_mut(&mut self, id: EntryId) -> Option<&mut EntryState> {
        self.entries.get_mut(&id)
    }

    /// All entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (EntryId, &EntryState)> {
        self.entries.iter().map(|(id, e)| (*id, e))
    }

    /// Sets the direct counters to zero, that of unmatched packets too.
    pub fn reset_counters(&mut self) {
        self.misses = (0, 0);
        self.entries.values_mut().for_each(|e| (e.packets, e.bytes) = (0, 0));
    }

    /// The entry with exactly these keys and, where priorities count, this priority.
    pub fn find(&self, keys: &[KeyMatch], priority: i64) -> Option<EntryId> {
        match &self.index {
            Index::Exact(m) => m.get(&Self::exact_key(keys)).copied(),
            Index::Lpm(_, maps) => {
                let n = Self::prefix(keys);
                let (_, m) = maps.iter().find(|(len, _)| *len == n)?;
                m.get(&Self::exact_key(keys)).copied()
            }
            Index::Ordered(list) => list
                .iter()
                .filter(|(p, _)| *p == priority)
                .map(|(_, id)| *id)
                .find(|id| self.entries.get(id).is_some_and(|e| e.keys == keys)),
        }
    }

    /// Adds an entry. Either it is in, or the table is as before.
    pub fn insert(
        &mut self,
        t: &Table,
        keys: Vec<KeyMatch>,
        priority: i64,
        action: EntryAction,
    ) -> Result<EntryId, ChangeError> {
        if t.const_entries {
            return Err(ChangeError::Invalid(format!("table {} has constant entries", t.name)));
        }
        self.add(t, keys, priority, action, false)
    }

    fn add(
        &mut self,
        t: &Table,
        keys: Vec<KeyMatch>,
        priority: i64,
        action: EntryAction,
        is_const: bool,
    ) -> Result<EntryId, ChangeError> {
        Self::check(t, &keys)?;
        check_action(t, &action)?;
        if self.find(&keys, priority).is_some() && !is_const {
            return Err(ChangeError::Exists(format!("table {} has an entry with this match", t.name)));
        }
        if self.entries.len() as u64 >= t.size && !is_const {
            return Err(ChangeError::Full(format!("table {} is full ({} entries)", t.name, t.size)));
        }
        let id = self.next_id;
        self.next_id += 1;
        match &mut self.index {
            Index::Exact(m) => {
                // Of equal constant entries the first stands.
                m.entry(Self::exact_key(&keys)).or_insert(id);
            }
            Index::Lpm(_, maps) => {
                let n = Self::prefix(&keys);
                let at = match maps.binary_search_by(|(len, _)| n.cmp(len)) {
                    Ok(at) => at,
                    Err(at) => {
                        maps.insert(at, (n, HashMap::new()));
                        at
                    }
                };
                maps[at].1.entry(Self::exact_key(&keys)).or_insert(id);
            }
            Index::Ordered(list) => {
                let at = list.partition_point(|(p, _)| *p >= priority);
                list.insert(at, (priority, id));
            }
        }
        let meter = MeterCell::default();
        self.entries.insert(id, EntryState { keys, priority, action, is_const, packets: 0, bytes: 0, meter });
        Ok(id)
    }

    pub fn modify(&mut self, t: &Table, id: EntryId, action: EntryAction) -> Result<(), ChangeError> {
        check_action(t, &action)?;
        let Some(e) = self.entries.get_mut(&id) else {
            return Err(ChangeError::NotFound(format!("table {} has no entry {id}", t.name)));
        };
        if e.is_const {
            return Err(ChangeError::Invalid(format!("entry {id} of table {} is constant", t.name)));
        }
        e.action = action;
        Ok(())
    }

    pub fn remove(&mut self, t: &Table, id: EntryId) -> Result<(), ChangeError> {
        match self.entries.get(&id) {
            None => return Err(ChangeError::NotFound(format!("table {} has no entry {id}", t.name))),
            Some(e) if e.is_const => {
                return Err(ChangeError::Invalid(format!("entry {id} of table {} is constant", t.name)))
            }
            Some(e) => match &mut self.index {
                Index::Exact(m) => {
                    m.remove(&Self::exact_key(&e.keys));
                }
                Index::Lpm(_, maps) => {
                    let n = Self::prefix(&e.keys);
                    if let Some(at) = maps.iter().position(|(len, _)| *len == n) {
                        maps[at].1.remove(&Self::exact_key(&e.keys));
                        if maps[at].1.is_empty() {
                            maps.remove(at);
                        }
                    }
                }
                Index::Ordered(list) => list.retain(|(_, i)| *i != id),
            },
        }
        self.entries.remove(&id);
        Ok(())
    }

    pub fn set_default(&mut self, t: &Table, action: EntryAction) -> Result<(), ChangeError> {
        if t.const_default {
            return Err(ChangeError::Invalid(format!("the default action of table {} is constant", t.name)));
        }
        if let EntryAction::Call(c) = &action {
            check_call(t, c)?;
            if t.actions[c.action].table_only {
                let m = format!("action {} of table {} is for entries only", t.actions[c.action].name, t.name);
                return Err(ChangeError::Invalid(m));
            }
        }
        self.default = action;
        Ok(())
    }

    /// The entry that matches, given the values of all keys but selectors. `scratch` holds a masked copy.
    pub fn lookup(&self, t: &Table, keys: &[Val], scratch: &mut Vec<Val>) -> Option<EntryId> {
        match &self.index {
            Index::Exact(m) => m.get(keys).copied(),
            Index::Lpm(at, maps) => {
                scratch.clear();
                scratch.extend_from_slice(keys);
                let width = t.keys.iter().find(|k| k.kind == MatchKind::Lpm).map_or(0, |k| k.width);
                for (n, map) in maps {
                    scratch[*at] = keys[*at].clone().and(Val::all_ones(*n).shl((width - n) as usize, width));
                    if let Some(id) = map.get(scratch.as_slice()) {
                        return Some(*id);
                    }
                }
                None
            }
            Index::Ordered(list) => {
                let decls: Vec<_> = t.keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
                let fits = |id: &EntryId| {
                    let Some(e) = self.entries.get(id) else {
                        return false;
                    };
                    e.keys.iter().zip(keys).zip(&decls).all(|((m, v), k)| match m {
                        KeyMatch::Exact(x) => x == v,
                        KeyMatch::Lpm(x, n) => {
                            *x == v.clone().and(Val::all_ones(*n).shl((k.width - n) as usize, k.width))
                        }
                        KeyMatch::Ternary(x, mask) => *x == v.clone().and(mask.clone()),
                        KeyMatch::Range(a, b) if k.signed => {
                            let v = v.to_int(k.width, true);
                            a.to_int(k.width, true) <= v && v <= b.to_int(k.width, true)
                        }
                        KeyMatch::Range(a, b) => a <= v && v <= b,
                        KeyMatch::Optional(x) => x.as_ref().is_none_or(|x| x == v),
                    })
                };
                list.iter().map(|(_, id)| id).find(|id| fits(id)).copied()
            }
        }
    }
}

fn check_action(t: &Table, a: &EntryAction) -> Result<(), ChangeError> {
    match a {
        EntryAction::Call(c) => {
            check_call(t, c)?;
            if t.actions[c.action].default_only {
                let m = format!("action {} of table {} is for the default only", t.actions[c.action].name, t.name);
                return Err(ChangeError::Invalid(m));
            }
            Ok(())
        }
        _ if t.profile.is_none() => Err(ChangeError::Invalid(format!("table {} has no action profile", t.name))),
        _ => Ok(()),
    }
}

fn check_call(t: &Table, c: &ActionCall) -> Result<(), ChangeError> {
    let Some(a) = t.actions.get(c.action) else {
        return Err(ChangeError::NotFound(format!("table {} has no action number {}", t.name, c.action)));
    };
    if a.params.len() != c.args.len() {
        let m = format!("action {} takes {} arguments, not {}", a.name, a.params.len(), c.args.len());
        return Err(ChangeError::Invalid(m));
    }
    for (p, v) in a.params.iter().zip(&c.args) {
        if v.bits() > p.width {
            let m = format!("argument {} of action {} does not fit {} bits", p.name, a.name, p.width);
            return Err(ChangeError::Invalid(m));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub struct Member {
    /// The action's procedure, by which each table that shares the profile knows it.
    pub body: usize,
    pub args: Vec<Val>,
}

#[derive(Clone, Debug, Default)]
pub struct ProfileState {
    pub members: BTreeMap<u32, Member>,
    /// Members, each as often as its weight says.
    pub groups: BTreeMap<u32, Vec<u32>>,
}

/// Where clones of a session go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    pub port: Option<u32>,
    pub group: Option<u32>,
    /// Length the clone is cut to when it is sent.
    pub truncate_bytes: Option<usize>,
}

/// Replication id and ports of each copy of a multicast group.
pub type Replicas = Vec<(u32, Vec<u32>)>;

pub struct State {
    pub tables: Vec<TableState>,
    registers: Vec<Vec<Val>>,
    register_widths: Vec<u32>,
    /// Packets and bytes.
    pub counters: Vec<Vec<(u64, u64)>>,
    pub meters: Vec<Vec<MeterCell>>,
    pub profiles: Vec<ProfileState>,
    /// Members as value and mask of each field.
    pub value_sets: Vec<Vec<Vec<(Val, Val)>>>,
    pub mirrors: BTreeMap<u32, Mirror>,
    pub groups: BTreeMap<u32, Replicas>,
    rng: u64,
}

impl State {
    /// Fresh state with the program's constant entries; `seed` starts `random`.
    pub fn new(p: &Program, seed: u64) -> State {
        let mut tables: Vec<TableState> = p.tables.iter().map(TableState::new).collect();
        for (t, s) in p.tables.iter().zip(&mut tables) {
            for e in &t.entries {
                // The checker has made sure that these fit.
                let added = s.add(t, e.keys.clone(), e.priority, EntryAction::Call(e.action.clone()), true);
                if let Ok(id) = added {
                    if let Some(x) = s.entries.get_mut(&id) {
                        x.is_const = e.is_const;
                    }
                }
            }
        }
        State {
            tables,
            register_widths: p.registers.iter().map(|r| r.width).collect(),
            registers: p.registers.iter().map(|r| vec![Val::S(0); r.size]).collect(),
            counters: p.counters.iter().map(|c| vec![(0, 0); c.size.unwrap_or(0)]).collect(),
            meters: p.meters.iter().map(|m| vec![MeterCell::default(); m.size.unwrap_or(0)]).collect(),
            profiles: vec![ProfileState::default(); p.profiles.len()],
            value_sets: vec![Vec::new(); p.value_sets.len()],
            mirrors: BTreeMap::new(),
            groups: BTreeMap::new(),
            rng: seed | 1,
        }
    }

    /// How many cells register `r` has.
    pub fn register_size(&self, r: usize) -> usize {
        self.registers[r].len()
    }

    pub fn register_get(&self, r: usize, i: usize) -> Option<Val> {
        self.registers[r].get(i).cloned()
    }

    /// Writes a cell.
    ///
    /// # Errors
    /// There is no such cell, or the value does not fit it.
    pub fn register_set(&mut self, r: usize, i: usize, v: Val) -> Result<(), ChangeError> {
        let (n, w) = (self.registers[r].len(), self.register_widths[r]);
        if i >= n {
            return Err(ChangeError::NotFound(format!("index {i} is outside the register's {n} cells")));
        }
        if v.bits() > w {
            return Err(ChangeError::Invalid(format!("the value does not fit {w} bits")));
        }
        self.registers[r][i] = v;
        Ok(())
    }

    /// Sets all cells of a register to zero.
    pub fn register_reset(&mut self, r: usize) {
        self.registers[r].fill(Val::S(0));
    }

    pub(crate) fn register_mut(&mut self, r: usize, i: usize) -> Option<&mut Val> {
        self.registers[r].get_mut(i)
    }

    /// Sets an indirect counter's cells to zero.
    pub fn counter_reset(&mut self, c: usize) {
        self.counters[c].fill((0, 0));
    }

    /// xorshift64*: cheap, and the same everywhere for one seed.
    pub fn random(&mut self) -> u64 {
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
