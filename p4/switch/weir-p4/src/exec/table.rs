// SPDX-License-Identifier: Apache-2.0
//! Match-action tables: entries, and an index for each kind of match over keys packed into 64-bit words.
use crate::bytecode::code::KeyField;
use crate::bytecode::keys::{layout, match_keys};
use crate::bytecode::program::{ActionCall, KeyMatch, MatchKind, Table, needs_priority};
use crate::exec::change::ChangeError;
use crate::exec::lpm::{self, Lpm};
use crate::exec::meter::MeterCell;
use crate::value::Val;
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// Identifies an entry until it is removed; never used again for another.
pub type EntryId = u64;

/// The place of an entry in its table.
pub fn place_of(id: EntryId) -> usize {
    id as u32 as usize
}

type Map<K> = HashMap<K, u32, FxBuildHasher>;

/// Action of an entry or a default.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryAction {
    /// Runs an action.
    Call(ActionCall),
    /// Member or group of the table's action profile.
    Member(u32),
    /// Runs the action of a member that the selector chooses from a group.
    Group(u32),
}

/// Arguments that an entry keeps beside its counters.
const QUICK_ARGS: usize = 4;

/// A call whose arguments are of at most 64 bits. Where they are few, running an entry touches one cache line.
#[derive(Clone, Debug)]
pub(crate) struct Quick {
    few: [u64; QUICK_ARGS],
    many: Box<[u64]>,
    pub action: u32,
}

impl Quick {
    pub(crate) fn args(&self) -> &[u64] {
        if self.many.is_empty() { &self.few } else { &self.many }
    }
}

/// An entry of a table.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct EntryState {
    /// Packets that matched it.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    pub(crate) quick: Option<Quick>,
    /// The largest wins; only tables with ternary, range or optional keys use it.
    pub priority: i64,
    /// In the order of the table's keys, without selectors.
    pub keys: Vec<KeyMatch>,
    /// Changed by [`TableState::modify`] only.
    pub action: EntryAction,
    /// Its cell of the table's direct meter.
    pub meter: MeterCell,
    /// Time of the last match; kept only by tables with idle timeouts.
    pub last_hit_us: u64,
    /// Whether controllers cannot change or remove it.
    pub is_const: bool,
}

#[derive(Debug)]
struct RangeTest {
    field: KeyField,
    /// Turns the order of signed numbers into that of unsigned ones.
    flip: u64,
    low: Box<[u64]>,
    high: Box<[u64]>,
}

impl RangeTest {
    fn fits(&self, words: &[u64]) -> bool {
        let key = &words[self.field.word..self.field.word + self.field.words];
        let at = |i: usize| if i == 0 { key[0] ^ self.flip } else { key[i] };
        let mut order = (0..key.len()).map(|i| at(i).cmp(&self.low[i])).find(|o| o.is_ne());
        if order.is_some_and(|o| o.is_lt()) {
            return false;
        }
        order = (0..key.len()).map(|i| at(i).cmp(&self.high[i])).find(|o| o.is_ne());
        !order.is_some_and(|o| o.is_gt())
    }
}

#[derive(Debug)]
struct Row {
    priority: i64,
    entry: u32,
    /// Masks, then values.
    bits: Box<[u64]>,
    ranges: Box<[RangeTest]>,
}

impl Row {
    fn fits(&self, words: &[u64]) -> bool {
        let (masks, values) = self.bits.split_at(words.len());
        words.iter().zip(masks).zip(values).all(|((k, m), v)| k & m == *v) && self.ranges.iter().all(|r| r.fits(words))
    }
}

enum Index {
    /// One word.
    Word(Map<u64>),
    Exact(Map<Box<[u64]>>),
    Lpm(Box<Lpm>),
    /// By falling priority, then by age.
    Ordered(Vec<Row>),
}

/// The entries of a table.
pub struct TableState {
    entries: Vec<Option<EntryState>>,
    /// Number of times that each place was given out.
    ages: Vec<u32>,
    free: Vec<u32>,
    count: usize,
    fields: Vec<KeyField>,
    words: usize,
    index: Index,
    /// Entries by their match and priority, where the index does not have them.
    by_match: Map<Box<[u64]>>,
    /// Action of a packet that matches no entry.
    pub default: EntryAction,
    /// Counter of unmatched packets.
    pub misses: (u64, u64),
}

impl TableState {
    pub(crate) fn new(t: &Table) -> TableState {
        let (fields, words) = layout(t);
        let index = if needs_priority(t) {
            Index::Ordered(Vec::new())
        } else if let Some(k) = match_keys(t).position(|k| k.kind == MatchKind::Lpm) {
            Index::Lpm(Lpm::new(fields[k].word, fields[k].words, fields[k].width).into())
        } else if words == 1 {
            Index::Word(Map::default())
        } else {
            Index::Exact(Map::default())
        };
        TableState {
            entries: Vec::new(),
            ages: Vec::new(),
            free: Vec::new(),
            count: 0,
            fields,
            words,
            index,
            by_match: Map::default(),
            default: EntryAction::Call(t.default.clone()),
            misses: (0, 0),
        }
    }

    fn check(t: &Table, keys: &[KeyMatch]) -> Result<(), ChangeError> {
        let wanted: Vec<_> = match_keys(t).collect();
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
                    if v.clone().and(prefix_mask(*n, k.width)) != *v {
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

    /// Exact values and the prefix, packed as a packet's keys are.
    fn packed(&self, keys: &[KeyMatch]) -> Box<[u64]> {
        let mut words = vec![0; self.words];
        for (k, f) in keys.iter().zip(&self.fields) {
            if let KeyMatch::Exact(v) | KeyMatch::Lpm(v, _) = k {
                f.pack(v, &mut words);
            }
        }
        words.into()
    }

    fn prefix(keys: &[KeyMatch]) -> u32 {
        keys.iter().find_map(|k| if let KeyMatch::Lpm(_, n) = k { Some(*n) } else { None }).unwrap_or(0)
    }

    /// Identity of an entry in a table with prefixes or priorities.
    fn identity(&self, keys: &[KeyMatch], priority: i64) -> Box<[u64]> {
        if let Index::Lpm(_) = self.index {
            let mut all = self.packed(keys).into_vec();
            all.push(Self::prefix(keys) as u64);
            return all.into();
        }
        let (mut first, mut second) = (vec![0; self.words], vec![0; self.words]);
        for (k, f) in keys.iter().zip(&self.fields) {
            match k {
                KeyMatch::Exact(v) => f.pack(v, &mut first),
                KeyMatch::Lpm(v, n) => {
                    f.pack(v, &mut first);
                    second[f.word] = *n as u64;
                }
                KeyMatch::Ternary(a, b) | KeyMatch::Range(a, b) => {
                    f.pack(a, &mut first);
                    f.pack(b, &mut second);
                }
                KeyMatch::Optional(None) => {}
                KeyMatch::Optional(Some(v)) => {
                    f.pack(v, &mut first);
                    second[f.word] = 1;
                }
            }
        }
        first.append(&mut second);
        first.push(priority as u64);
        first.into()
    }

    fn row(&self, t: &Table, keys: &[KeyMatch], priority: i64, entry: u32) -> Row {
        let (mut masks, mut values) = (vec![0; self.words], vec![0; self.words]);
        let mut ranges = Vec::new();
        for ((m, f), k) in keys.iter().zip(&self.fields).zip(match_keys(t)) {
            let (value, mask) = match m {
                KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => (v, Val::all_ones(k.width)),
                KeyMatch::Lpm(v, n) => (v, prefix_mask(*n, k.width)),
                KeyMatch::Ternary(v, mask) => (v, mask.clone()),
                KeyMatch::Optional(None) => continue,
                KeyMatch::Range(a, b) => {
                    let flip = if k.signed { 1u64 << ((k.width - 1) % 64) } else { 0 };
                    let end = |v: &Val| {
                        let mut words = vec![0; f.words];
                        KeyField { word: 0, ..*f }.pack(v, &mut words);
                        words[0] ^= flip;
                        words.into_boxed_slice()
                    };
                    ranges.push(RangeTest { field: *f, flip, low: end(a), high: end(b) });
                    continue;
                }
            };
            f.pack(value, &mut values);
            f.pack(&mask, &mut masks);
        }
        masks.append(&mut values);
        Row { priority, entry, bits: masks.into(), ranges: ranges.into() }
    }

    fn place(&self, id: EntryId) -> Option<u32> {
        let at = id as u32;
        let lives = self.ages.get(at as usize).is_some_and(|a| *a == (id >> 32) as u32);
        (lives && self.entries[at as usize].is_some()).then_some(at)
    }

    fn id(&self, at: u32) -> EntryId {
        (self.ages[at as usize] as u64) << 32 | at as u64
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An entry, if it still exists.
    pub fn entry(&self, id: EntryId) -> Option<&EntryState> {
        self.entries[self.place(id)? as usize].as_ref()
    }

    /// For its counters and meter; [`TableState::modify`] changes its action.
    pub fn entry_mut(&mut self, id: EntryId) -> Option<&mut EntryState> {
        let at = self.place(id)?;
        self.entries[at as usize].as_mut()
    }

    /// Entries that are looked at one after the other.
    pub(crate) fn rows(&self) -> usize {
        match &self.index {
            Index::Ordered(rows) => rows.len(),
            _ => 0,
        }
    }

    /// Places for entries, each of which may be empty.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// The entries in some places: all of them in pieces, for as long as none is added or removed.
    pub fn entries_in(&self, places: std::ops::Range<usize>) -> impl Iterator<Item = (EntryId, &EntryState)> {
        let range = places.start.min(self.entries.len())..places.end.min(self.entries.len());
        let first = range.start as u32;
        (first..).zip(&self.entries[range]).filter_map(|(i, e)| Some((self.id(i), e.as_ref()?)))
    }

    /// All entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (EntryId, &EntryState)> {
        self.entries.iter().enumerate().filter_map(|(i, e)| Some((self.id(i as u32), e.as_ref()?)))
    }

    /// Sets the direct counters to zero, that of unmatched packets too.
    pub fn reset_counters(&mut self) {
        self.misses = (0, 0);
        self.entries.iter_mut().flatten().for_each(|e| (e.packets, e.bytes) = (0, 0));
    }

    /// The entry with exactly these keys and, where priorities count, this priority.
    pub fn find(&self, keys: &[KeyMatch], priority: i64) -> Option<EntryId> {
        let at = match &self.index {
            Index::Word(m) => m.get(&self.packed(keys)[0]),
            Index::Exact(m) => m.get(&self.packed(keys)),
            Index::Lpm(_) | Index::Ordered(_) => self.by_match.get(&self.identity(keys, priority)),
        };
        let at = *at?;
        // Words alone do not distinguish a range from a mask, nor a key of the wrong kind.
        let same = self.entries[at as usize].as_ref().is_some_and(|e| e.keys == keys);
        same.then(|| self.id(at))
    }

    /// Adds an entry. Either it is in, or the table is as before.
    ///
    /// # Errors
    /// The match or the action does not fit the table, the entry is there already, or the table is full.
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

    pub(crate) fn add(
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
        if self.count as u64 >= t.size && !is_const {
            return Err(ChangeError::Full(format!("table {} is full ({} entries)", t.name, t.size)));
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let Ok(at) = u32::try_from(self.entries.len()) else {
                    return Err(ChangeError::Full(format!("table {} has 2^32 entries", t.name)));
                };
                self.entries.push(None);
                self.ages.push(0);
                at
            }
        };
        let words = self.packed(&keys);
        // Of equal constant entries the first stands.
        match &mut self.index {
            Index::Word(m) => {
                m.entry(words[0]).or_insert(at);
            }
            Index::Exact(m) => {
                m.entry(words).or_insert(at);
            }
            Index::Lpm(_) => {
                let identity = self.identity(&keys, priority);
                if let (Index::Lpm(lpm), false) = (&mut self.index, self.by_match.contains_key(&identity)) {
                    lpm.insert(&words, Self::prefix(&keys), at);
                    self.by_match.insert(identity, at);
                }
            }
            Index::Ordered(_) => {
                let identity = self.identity(&keys, priority);
                let row = self.row(t, &keys, priority, at);
                if let Index::Ordered(rows) = &mut self.index {
                    let i = rows.partition_point(|r| r.priority >= priority);
                    rows.insert(i, row);
                }
                self.by_match.entry(identity).or_insert(at);
            }
        }
        let meter = MeterCell::default();
        let quick = quick(t, &action);
        self.entries[at as usize] =
            Some(EntryState { packets: 0, bytes: 0, quick, priority, keys, action, meter, last_hit_us: 0, is_const });
        self.count += 1;
        Ok(self.id(at))
    }

    /// Changes an entry's action.
    ///
    /// # Errors
    /// The action does not fit the table, there is no such entry, or it is constant.
    pub fn modify(&mut self, t: &Table, id: EntryId, action: EntryAction) -> Result<(), ChangeError> {
        check_action(t, &action)?;
        let Some(e) = self.entry_mut(id) else {
            return Err(ChangeError::NotFound(format!("table {} has no entry {id}", t.name)));
        };
        if e.is_const {
            return Err(ChangeError::Invalid(format!("entry {id} of table {} is constant", t.name)));
        }
        e.quick = quick(t, &action);
        e.action = action;
        Ok(())
    }

    /// Takes an entry out.
    ///
    /// # Errors
    /// There is no such entry, or it is constant.
    pub fn remove(&mut self, t: &Table, id: EntryId) -> Result<(), ChangeError> {
        let Some(at) = self.place(id) else {
            return Err(ChangeError::NotFound(format!("table {} has no entry {id}", t.name)));
        };
        if self.entries[at as usize].as_ref().is_some_and(|e| e.is_const) {
            return Err(ChangeError::Invalid(format!("entry {id} of table {} is constant", t.name)));
        }
        let Some(e) = self.entries[at as usize].take() else {
            return Ok(());
        };
        let words = self.packed(&e.keys);
        let identity = self.identity(&e.keys, e.priority);
        match &mut self.index {
            Index::Word(m) => {
                if m.get(&words[0]) == Some(&at) {
                    m.remove(&words[0]);
                }
            }
            Index::Exact(m) => {
                if m.get(&words) == Some(&at) {
                    m.remove(&words);
                }
            }
            Index::Lpm(lpm) => {
                if self.by_match.get(&identity) == Some(&at) {
                    self.by_match.remove(&identity);
                    let exact_words = lpm.exact_words();
                    let shorter = |n: u32| {
                        let mut other = identity.clone();
                        lpm::cut(&mut other[exact_words..words.len()], n);
                        other[words.len()] = n as u64;
                        self.by_match.get(&other).copied()
                    };
                    lpm.remove(&words, Self::prefix(&e.keys), &shorter);
                }
            }
            Index::Ordered(rows) => {
                rows.retain(|r| r.entry != at);
                if self.by_match.get(&identity) == Some(&at) {
                    self.by_match.remove(&identity);
                }
            }
        }
        self.ages[at as usize] = self.ages[at as usize].wrapping_add(1);
        self.free.push(at);
        self.count -= 1;
        Ok(())
    }

    /// Changes the default action.
    ///
    /// # Errors
    /// The default is constant, or the action does not fit.
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

    /// The place of the entry that matches the packed keys.
    pub(crate) fn lookup(&self, words: &[u64]) -> Option<u32> {
        match &self.index {
            Index::Word(m) => m.get(&words[0]).copied(),
            Index::Exact(m) => m.get(words).copied(),
            Index::Lpm(lpm) => lpm.lookup(words),
            Index::Ordered(rows) => rows.iter().find(|r| r.fits(words)).map(|r| r.entry),
        }
    }

    pub(crate) fn at(&mut self, place: u32) -> Option<&mut EntryState> {
        self.entries[place as usize].as_mut()
    }

    /// The entry of a place, with its number.
    pub(crate) fn numbered(&self, place: u32) -> Option<(EntryId, &EntryState)> {
        Some((self.id(place), self.entries[place as usize].as_ref()?))
    }
}

fn prefix_mask(n: u32, width: u32) -> Val {
    Val::all_ones(n).shl((width - n) as usize, width)
}

fn quick(t: &Table, a: &EntryAction) -> Option<Quick> {
    let EntryAction::Call(c) = a else { return None };
    if t.actions[c.action].params.iter().any(|p| p.width > 64) {
        return None;
    }
    let args = c.args.iter().map(|v| v.low() as u64);
    let (mut few, mut many) = ([0; QUICK_ARGS], Box::default());
    if c.args.len() > QUICK_ARGS {
        many = args.collect();
    } else {
        few.iter_mut().zip(args).for_each(|(a, v)| *a = v);
    }
    Some(Quick { few, many, action: c.action as u32 })
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
