// SPDX-License-Identifier: Apache-2.0
//! Updates of a batch, applied to a program's state on the packet thread. What only controllers see of an entity is
//! kept beside the state, in [`Book`].
use super::config::Config;
use super::digests::Settings;
use super::fail::{At, Fail, Res, denied, exhausted, invalid, not_found, precondition, unimplemented};
use super::keys::{self, Rates};
use super::pb::p4::v1::{self as pb, entity::Entity, update::Type};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tonic::Code;
use weir_p4::bytecode::program::{self as ir, KeyMatch};
use weir_p4::exec::{ChangeError, EntryAction, EntryId, Member, MeterCell, Mirror, State};
use weir_p4::p4info as info;
use weir_p4::value::Val;

/// Ids of members and groups from here on belong to one-shot action sets.
const RESERVED: u32 = 0xff00_0000;
/// Multicast groups of clone sessions: a packet's multicast group has 16 bits, so none is taken from it.
const CLONE_GROUP: u32 = 0x8000_0000;
/// Members of a group, each as often as its weight says.
const MAX_WEIGHTS: i64 = 65536;

/// A group with its members that belongs to one table entry.
#[derive(Clone, Debug)]
pub struct OneShot {
    pub set: pb::ActionProfileActionSet,
    profile: usize,
    group: u32,
    members: Vec<(u32, Member)>,
    /// Members by weight.
    weighted: Vec<u32>,
}

/// What a controller attached to a table entry.
#[derive(Clone, Debug, Default)]
pub struct Note {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    pub one_shot: Option<Box<OneShot>>,
}

impl Note {
    fn is_empty(&self) -> bool {
        self.controller_metadata == 0 && self.metadata.is_empty() && self.one_shot.is_none()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub max_size: i32,
    /// Member and weight, as written.
    pub members: Vec<(u32, i32)>,
}

/// What controllers wrote and the data plane has no need of, for one program.
#[derive(Debug, Default)]
pub struct Book {
    notes: Vec<HashMap<EntryId, Note>>,
    pub defaults: Vec<Note>,
    pub groups: Vec<BTreeMap<u32, Group>>,
    pub multicast: BTreeMap<u32, pb::MulticastGroupEntry>,
    pub clones: BTreeMap<u32, pb::CloneSessionEntry>,
    pub value_sets: Vec<Vec<pb::ValueSetMember>>,
    /// By index in P4Info's digests.
    pub digests: BTreeMap<usize, Settings>,
    last_reserved: u32,
}

impl Book {
    pub fn new(config: &Config) -> Book {
        let p = &config.program;
        Book {
            notes: vec![HashMap::new(); p.tables.len()],
            defaults: vec![Note::default(); p.tables.len()],
            groups: vec![BTreeMap::new(); p.profiles.len()],
            value_sets: vec![Vec::new(); p.value_sets.len()],
            ..Default::default()
        }
    }

    pub fn note(&self, table: usize, id: EntryId) -> Option<&Note> {
        self.notes[table].get(&id)
    }

    fn set_note(&mut self, table: usize, id: EntryId, note: Note) {
        if note.is_empty() {
            self.notes[table].remove(&id);
        } else {
            self.notes[table].insert(id, note);
        }
    }

    /// Whether a member or group id belongs to a one-shot action set: controllers don't see those.
    pub fn is_reserved(id: u32) -> bool {
        id >= RESERVED
    }
}

type Undo = Box<dyn FnOnce(&mut Writer<'_>) -> Res<()>>;

pub struct Writer<'a> {
    pub config: &'a Config,
    pub state: &'a mut State,
    pub book: &'a mut Book,
    pub now_us: u64,
    /// How to take back what was done, when the batch may have to.
    undo: Option<Vec<Undo>>,
}

/// An entry as it was before a change.
struct Before {
    action: EntryAction,
    counts: (u64, u64),
    meter: MeterCell,
    note: Note,
}

fn only_modify(kind: Type, what: &str) -> Res<()> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(invalid(format!("{what} can only be modified, not inserted or deleted")).under("type")),
    }
}

/// The cells an index means; all without one.
pub fn cells(index: &Option<pb::Index>, size: usize) -> Res<std::ops::Range<usize>> {
    let Some(pb::Index { index }) = index else { return Ok(0..size) };
    match usize::try_from(*index) {
        Ok(i) if i < size => Ok(i..i + 1),
        Ok(i) => Err(Fail::new(Code::OutOfRange, format!("{i} is above the last, {}", size as i64 - 1)).under("index")),
        Err(_) => Err(invalid(format!("{index} is negative")).under("index")),
    }
}

/// A register's cell from its values, the first uppermost.
pub fn pack(values: Vec<Val>, widths: &[u32]) -> Val {
    let total = widths.iter().sum();
    values.into_iter().zip(widths).fold(Val::S(0), |cell, (v, w)| cell.shl(*w as usize, total).or(v))
}

/// The values of a register's cell.
pub fn unpack(cell: &Val, widths: &[u32]) -> Vec<Val> {
    let mut left: u32 = widths.iter().sum();
    let take = |w: &u32| {
        left -= w;
        cell.clone().shr(left as usize).mask(*w)
    };
    widths.iter().map(take).collect()
}

impl<'a> Writer<'a> {
    pub fn new(config: &'a Config, state: &'a mut State, book: &'a mut Book, now_us: u64) -> Writer<'a> {
        Writer { config, state, book, now_us, undo: None }
    }

    /// Applies each update; the outcome of each.
    pub fn each(&mut self, updates: &[pb::Update], first: usize) -> Vec<Res<()>> {
        let one = |(i, u): (usize, &pb::Update)| self.update(u).at(|| format!("updates[{}]", first + i));
        updates.iter().enumerate().map(one).collect()
    }

    /// Applies all updates or, when one fails, none.
    pub fn all(&mut self, updates: &[pb::Update]) -> Vec<Res<()>> {
        self.undo = Some(Vec::new());
        for (i, u) in updates.iter().enumerate() {
            let Err(e) = self.update(u) else { continue };
            let mut why = format!("not applied, because updates[{i}] failed");
            // Taken out first, so that undoing is not recorded in its turn.
            for undo in self.undo.take().unwrap_or_default().into_iter().rev() {
                if let Err(e) = undo(self) {
                    why = format!("updates[{i}] failed, and taking this back failed too: {e}");
                }
            }
            let other = |k: usize| Err(Fail::new(Code::Aborted, why.clone()).under(format!("updates[{k}]")));
            let mut results: Vec<Res<()>> = (0..updates.len()).map(other).collect();
            results[i] = Err(e.under(format!("updates[{i}]")));
            return results;
        }
        self.undo = None;
        vec![Ok(()); updates.len()]
    }

    fn on_undo(&mut self, undo: impl FnOnce(&mut Writer<'_>) -> Res<()> + 'static) {
        if let Some(list) = &mut self.undo {
            list.push(Box::new(undo));
        }
    }

    pub fn update(&mut self, u: &pb::Update) -> Res<()> {
        let kind = match Type::try_from(u.r#type) {
            Ok(Type::Unspecified) => return Err(invalid("is unset; it must be INSERT, MODIFY or DELETE").under("type")),
            Ok(kind) => kind,
            Err(_) => return Err(invalid(format!("{} is no type of update", u.r#type)).under("type")),
        };
        let Some(entity) = u.entity.as_ref().and_then(|e| e.entity.as_ref()) else {
            return Err(invalid("is unset").under("entity"));
        };
        match entity {
            Entity::TableEntry(e) => self.table_entry(kind, e).at(|| "table_entry"),
            Entity::ActionProfileMember(e) => self.member(kind, e).at(|| "action_profile_member"),
            Entity::ActionProfileGroup(e) => self.group(kind, e).at(|| "action_profile_group"),
            Entity::MeterEntry(e) => self.meter(kind, e).at(|| "meter_entry"),
            Entity::DirectMeterEntry(e) => self.direct_meter(kind, e).at(|| "direct_meter_entry"),
            Entity::CounterEntry(e) => self.counter(kind, e).at(|| "counter_entry"),
            Entity::DirectCounterEntry(e) => self.direct_counter(kind, e).at(|| "direct_counter_entry"),
            Entity::PacketReplicationEngineEntry(e) => {
                self.replication(kind, e).at(|| "packet_replication_engine_entry")
            }
            Entity::ValueSetEntry(e) => self.value_set(kind, e).at(|| "value_set_entry"),
            Entity::RegisterEntry(e) => self.register(kind, e).at(|| "register_entry"),
            Entity::DigestEntry(e) => self.digest(kind, e).at(|| "digest_entry"),
            Entity::ExternEntry(_) => Err(unimplemented("v1model has no other externs").under("extern_entry")),
        }
    }

    fn table(&self, id: u32) -> Res<(&'a info::Table, &'a ir::Table)> {
        let config = self.config;
        let (_, t) = keys::object(&config.program.info.tables, id, "table", |t| &t.preamble)?;
        Ok((t, &config.program.tables[t.ir_index]))
    }

    fn profile(&self, id: u32) -> Res<&'a info::ActionProfile> {
        let list = &self.config.program.info.action_profiles;
        Ok(keys::object(list, id, "action_profile", |p| &p.preamble)?.1)
    }

    // Tables.

    fn table_entry(&mut self, kind: Type, e: &pb::TableEntry) -> Res<()> {
        let (t, ir) = self.table(e.table_id)?;
        if kind != Type::Delete {
            self.entry_extras(t, ir, e)?;
        }
        if e.is_default_action {
            return self.default_entry(kind, t, ir, e);
        }
        if ir.keys.iter().all(|k| k.kind == ir::MatchKind::Selector) {
            return Err(invalid(format!("table {} has no key; only its default entry can be set", t.preamble.name)));
        }
        let keys = keys::keys(keys::table_shapes(t, ir), &e.r#match, &format!("table {}", t.preamble.name))?;
        let rank = keys::rank(ir, e.priority)?;
        let name = &t.preamble.name;
        let fixed = |what: &str| Err(denied(format!("{what} of table {name} are constant")));
        if kind == Type::Insert && t.is_const_table {
            return fixed("the entries");
        }
        let found = self.state.tables[t.ir_index].find(&keys, rank);
        if let Some(id) = found {
            let constant = self.state.tables[t.ir_index].entry(id).is_some_and(|x| x.is_const);
            if constant && (kind == Type::Delete || e.action.is_some()) {
                return fixed("key and action of this entry");
            }
        }
        let absent = || Err(not_found(format!("table {name} has no entry with this match and priority")));
        match kind {
            Type::Insert => {
                if found.is_some() {
                    let e = format!("table {name} has an entry with this match and priority");
                    return Err(Fail::new(Code::AlreadyExists, e));
                }
                let Some(action) = &e.action else { return Err(invalid("is unset").under("action")) };
                let size = self.state.tables[t.ir_index].len() as u64;
                if size >= ir.size {
                    return Err(exhausted(format!("table {name} is full ({size} entries)")));
                }
                let (action, one_shot) = self.table_action(t, action, None).at(|| "action")?;
                self.remember(t.ir_index, &keys, rank);
                self.insert(t.ir_index, keys, rank, action, one_shot, e)
            }
            Type::Modify => {
                let Some(id) = found else { return absent() };
                let change = match &e.action {
                    Some(a) => Some(self.table_action(t, a, Some(id)).at(|| "action")?),
                    None => None,
                };
                self.remember(t.ir_index, &keys, rank);
                self.modify(t.ir_index, id, change, e)
            }
            Type::Delete => {
                let Some(id) = found else { return absent() };
                self.remember(t.ir_index, &keys, rank);
                self.remove(t.ir_index, id)
            }
            Type::Unspecified => Ok(()),
        }
    }

    /// What an entry has besides key and action, checked.
    fn entry_extras(&self, t: &info::Table, ir: &ir::Table, e: &pb::TableEntry) -> Res<()> {
        let name = &t.preamble.name;
        if e.is_const {
            return Err(invalid("must be false; constant entries come with the program").under("is_const"));
        }
        let idle =
            [(e.idle_timeout_ns != 0, "idle_timeout_ns"), (e.time_since_last_hit.is_some(), "time_since_last_hit")];
        if let Some((_, field)) = idle.into_iter().find(|(set, _)| *set) {
            return Err(if !t.idle_timeout || e.is_default_action {
                invalid(format!("must be unset; table {name} has no idle time-outs")).under(field)
            } else if field == "time_since_last_hit" {
                invalid("must be unset in a write").under(field)
            } else {
                unimplemented("this switch has no idle time-outs").under(field)
            });
        }
        if let Some(c) = &e.meter_config {
            if ir.meter.is_none() {
                return Err(invalid(format!("table {name} has no direct meter")).under("meter_config"));
            }
            keys::rates(c).at(|| "meter_config")?;
        }
        if let Some(c) = &e.counter_data {
            if ir.counter.is_none() {
                return Err(invalid(format!("table {name} has no direct counter")).under("counter_data"));
            }
            keys::counts(c).at(|| "counter_data")?;
        }
        if e.meter_counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("meter_counter_data"));
        }
        Ok(())
    }

    /// The action of an entry that is new or takes the place of `old`'s action.
    fn table_action(
        &mut self,
        t: &info::Table,
        a: &pb::TableAction,
        old: Option<EntryId>,
    ) -> Res<(EntryAction, Option<Box<OneShot>>)> {
        use pb::table_action::Type as A;
        let name = &t.preamble.name;
        let Some(a) = &a.r#type else { return Err(invalid("is unset")) };
        if t.implementation_id == 0 {
            return match a {
                A::Action(a) => Ok((EntryAction::Call(keys::call(self.config, t, a, false)?), None)),
                _ => Err(invalid(format!("table {name} has no action profile; it takes an action"))),
            };
        }
        let p = self.profile(t.implementation_id)?;
        let state = &self.state.profiles[p.ir_index];
        let profile = &p.preamble.name;
        match a {
            A::Action(_) => Err(invalid(format!("table {name} takes members or groups of action profile {profile}"))),
            A::ActionProfileMemberId(id) if state.members.contains_key(id) && !Book::is_reserved(*id) => {
                Ok((EntryAction::Member(*id), None))
            }
            A::ActionProfileMemberId(id) => Err(not_found(format!("action profile {profile} has no member {id}"))),
            _ if !p.with_selector => {
                Err(invalid(format!("action profile {profile} is no selector; table {name} takes members of it")))
            }
            A::ActionProfileGroupId(id) if state.groups.contains_key(id) && !Book::is_reserved(*id) => {
                Ok((EntryAction::Group(*id), None))
            }
            A::ActionProfileGroupId(id) => Err(not_found(format!("action profile {profile} has no group {id}"))),
            A::ActionProfileActionSet(set) => {
                let old = old.and_then(|id| self.book.note(t.ir_index, id)?.one_shot.as_ref());
                let freed = old.map_or(0, |shot| shot.members.len());
                let shot = self.one_shot(p, set, freed).at(|| "action_profile_action_set")?;
                Ok((EntryAction::Group(shot.group), Some(Box::new(shot))))
            }
        }
    }

    /// Members and group for an action set, which takes the place of `freed` members; nothing is in the state yet.
    fn one_shot(&mut self, p: &info::ActionProfile, set: &pb::ActionProfileActionSet, freed: usize) -> Res<OneShot> {
        if set.action_selection_mode != 0 {
            return Err(unimplemented("the selector's own mode is the only one").under("action_selection_mode"));
        }
        if set.size_semantics != 0 {
            return Err(unimplemented("the selector's own are the only ones").under("size_semantics"));
        }
        if set.group_action.is_some() {
            return Err(unimplemented("groups have no action of their own").under("group_action"));
        }
        let weights: Vec<i32> = set.action_profile_actions.iter().map(|a| a.weight).collect();
        self.weights(p, &weights, 0, "action_profile_actions")?;
        let members = self.state.profiles[p.ir_index].members.len() - freed + set.action_profile_actions.len();
        if members as u64 > p.size {
            return Err(exhausted(format!("action profile {} has room for {} members", p.preamble.name, p.size)));
        }
        let mut shot =
            OneShot { set: set.clone(), profile: p.ir_index, group: 0, members: Vec::new(), weighted: Vec::new() };
        for (i, a) in set.action_profile_actions.iter().enumerate() {
            let place = || format!("action_profile_actions[{i}]");
            if a.watch_kind.is_some() {
                return Err(unimplemented("ports of members are not watched").under("watch_port").under(place()));
            }
            let Some(action) = &a.action else { return Err(invalid("is unset").under("action").under(place())) };
            let member = keys::member(self.config, p, action).at(|| "action").at(place)?;
            let id = self.reserve(p.ir_index)?;
            shot.members.push((id, member));
            shot.weighted.extend(std::iter::repeat_n(id, a.weight as usize));
        }
        shot.group = self.reserve(p.ir_index)?;
        Ok(shot)
    }

    /// A number that no member or group of the profile has.
    fn reserve(&mut self, profile: usize) -> Res<u32> {
        let used = &self.state.profiles[profile];
        for _ in RESERVED..=u32::MAX {
            self.book.last_reserved = self.book.last_reserved.checked_add(1).unwrap_or(0).max(RESERVED);
            let id = self.book.last_reserved;
            if !used.members.contains_key(&id) && !used.groups.contains_key(&id) {
                return Ok(id);
            }
        }
        Err(exhausted("no more ids for one-shot action sets"))
    }

    /// Checks the weights of a group's members.
    fn weights(&self, p: &info::ActionProfile, weights: &[i32], max_size: i32, list: &str) -> Res<()> {
        let by_members = matches!(p.selector_size, Some(info::SelectorSize::SumOfMembers { .. }));
        let mut sum = 0;
        for (i, w) in weights.iter().enumerate() {
            let place = || format!("{list}[{i}].weight");
            if *w <= 0 {
                return Err(invalid(format!("{w} is not above 0")).under(place()));
            }
            if let Some(info::SelectorSize::SumOfMembers { max_member_weight: m }) = p.selector_size
                && m > 0
                && *w > m
            {
                return Err(invalid(format!("{w} is above max_member_weight, {m}")).under(place()));
            }
            sum += i64::from(*w);
        }
        let size = if by_members { weights.len() as i64 } else { sum };
        let what = if by_members { "members" } else { "weights together" };
        if p.max_group_size > 0 && size > i64::from(p.max_group_size) {
            let m = format!("{size} {what} are above the group's limit of {}", p.max_group_size);
            // One shots say INVALID_ARGUMENT (9.2.3), groups RESOURCE_EXHAUSTED (9.2.2).
            let code = if list == "members" { Code::ResourceExhausted } else { Code::InvalidArgument };
            return Err(Fail::new(code, m).under(list));
        }
        if max_size > 0 && size > i64::from(max_size) {
            return Err(exhausted(format!("{size} {what} are above max_size, {max_size}")).under(list));
        }
        if sum > MAX_WEIGHTS {
            return Err(exhausted(format!("weights together are {sum}, above {MAX_WEIGHTS}")).under(list));
        }
        Ok(())
    }

    fn put_one_shot(&mut self, shot: &OneShot) {
        let profile = &mut self.state.profiles[shot.profile];
        profile.members.extend(shot.members.iter().cloned());
        profile.groups.insert(shot.group, shot.weighted.clone());
    }

    fn drop_one_shot(&mut self, note: Option<Note>) {
        let Some(shot) = note.and_then(|n| n.one_shot) else { return };
        let profile = &mut self.state.profiles[shot.profile];
        profile.groups.remove(&shot.group);
        for (id, _) in &shot.members {
            profile.members.remove(id);
        }
    }

    fn before(&self, table: usize, id: EntryId) -> Option<Before> {
        let e = self.state.tables[table].entry(id)?;
        Some(Before {
            action: e.action.clone(),
            counts: (e.packets, e.bytes),
            meter: e.meter.clone(),
            note: self.book.note(table, id).cloned().unwrap_or_default(),
        })
    }

    /// Keeps an entry as it is now, or its absence, for a batch that is taken back.
    fn remember(&mut self, table: usize, keys: &[KeyMatch], rank: i64) {
        if self.undo.is_none() {
            return;
        }
        let keys = keys.to_vec();
        let before = self.state.tables[table].find(&keys, rank).and_then(|id| self.before(table, id));
        self.on_undo(move |w| w.restore(table, keys, rank, before));
    }

    fn restore(&mut self, table: usize, keys: Vec<KeyMatch>, rank: i64, before: Option<Before>) -> Res<()> {
        let found = self.state.tables[table].find(&keys, rank);
        let Some(before) = before else {
            return found.map_or(Ok(()), |id| self.remove(table, id));
        };
        if let Some(id) = found {
            self.drop_one_shot(self.book.note(table, id).cloned());
        }
        if let Some(shot) = &before.note.one_shot {
            self.put_one_shot(shot);
        }
        let ir = &self.config.program.tables[table];
        let state = &mut self.state.tables[table];
        let id = match found {
            Some(id) => {
                // A constant entry's action has not changed.
                if state.entry(id).is_some_and(|e| e.action != before.action) {
                    state.modify(ir, id, before.action)?;
                }
                id
            }
            None => state.insert(ir, keys, rank, before.action)?,
        };
        if let Some(e) = state.entry_mut(id) {
            (e.packets, e.bytes) = before.counts;
            e.meter = before.meter;
        }
        self.book.set_note(table, id, before.note);
        Ok(())
    }

    fn insert(
        &mut self,
        table: usize,
        keys: Vec<KeyMatch>,
        rank: i64,
        action: EntryAction,
        one_shot: Option<Box<OneShot>>,
        e: &pb::TableEntry,
    ) -> Res<()> {
        let ir = &self.config.program.tables[table];
        let id = self.state.tables[table].insert(ir, keys, rank, action)?;
        if let Some(shot) = &one_shot {
            self.put_one_shot(shot);
        }
        let note = Note { controller_metadata: e.controller_metadata, metadata: e.metadata.clone(), one_shot };
        self.book.set_note(table, id, note);
        self.direct(table, id, e)
    }

    /// Direct counter and meter as an entry's message sets them (9.1.6).
    fn direct(&mut self, table: usize, id: EntryId, e: &pb::TableEntry) -> Res<()> {
        let now_us = self.now_us;
        let Some(x) = self.state.tables[table].entry_mut(id) else { return Ok(()) };
        if let Some(c) = &e.counter_data {
            (x.packets, x.bytes) = keys::counts(c)?;
        }
        let rates = e.meter_config.as_ref().map(keys::rates).transpose()?;
        keys::set_rates(&mut x.meter, rates, now_us);
        Ok(())
    }

    fn modify(
        &mut self,
        table: usize,
        id: EntryId,
        change: Option<(EntryAction, Option<Box<OneShot>>)>,
        e: &pb::TableEntry,
    ) -> Res<()> {
        let ir = &self.config.program.tables[table];
        let old = self.book.note(table, id).cloned();
        let mut note =
            Note { controller_metadata: e.controller_metadata, metadata: e.metadata.clone(), one_shot: None };
        match change {
            Some((action, one_shot)) => {
                self.state.tables[table].modify(ir, id, action)?;
                if let Some(shot) = &one_shot {
                    self.put_one_shot(shot);
                }
                self.drop_one_shot(old);
                note.one_shot = one_shot;
            }
            None => note.one_shot = old.and_then(|n| n.one_shot),
        }
        self.book.set_note(table, id, note);
        self.direct(table, id, e)
    }

    fn remove(&mut self, table: usize, id: EntryId) -> Res<()> {
        let ir = &self.config.program.tables[table];
        self.state.tables[table].remove(ir, id)?;
        let note = self.book.notes[table].remove(&id);
        self.drop_one_shot(note);
        Ok(())
    }

    fn default_entry(&mut self, kind: Type, t: &info::Table, ir: &ir::Table, e: &pb::TableEntry) -> Res<()> {
        let name = &t.preamble.name;
        only_modify(kind, "the default entry")?;
        if !e.r#match.is_empty() {
            return Err(invalid("must be empty for the default entry").under("match"));
        }
        if e.priority != 0 {
            return Err(invalid("must be unset for the default entry").under("priority"));
        }
        if ir.const_default {
            return Err(denied(format!("the default action of table {name} is constant")));
        }
        if t.implementation_id != 0 && e.action.is_some() {
            return Err(denied(format!("the default entry of table {name} is constant, as it has an action profile")));
        }
        if e.meter_config.is_some() {
            return Err(unimplemented("default entries have no direct meter here").under("meter_config"));
        }
        let action = match e.action.as_ref() {
            None => EntryAction::Call(ir.default.clone()),
            Some(a) => match &a.r#type {
                Some(pb::table_action::Type::Action(a)) => {
                    EntryAction::Call(keys::call(self.config, t, a, true).at(|| "action")?)
                }
                _ => return Err(invalid("must be an action for the default entry").under("action")),
            },
        };
        let i = t.ir_index;
        let old = (self.state.tables[i].default.clone(), self.state.tables[i].misses, self.book.defaults[i].clone());
        self.on_undo(move |w| {
            w.state.tables[i].set_default(&w.config.program.tables[i], old.0)?;
            w.state.tables[i].misses = old.1;
            w.book.defaults[i] = old.2;
            Ok(())
        });
        self.state.tables[i].set_default(ir, action)?;
        if let Some(c) = &e.counter_data {
            self.state.tables[i].misses = keys::counts(c)?;
        }
        self.book.defaults[i] = match e.action {
            Some(_) => {
                Note { controller_metadata: e.controller_metadata, metadata: e.metadata.clone(), one_shot: None }
            }
            // Reset: as the program has it (9.1.3).
            None => Note::default(),
        };
        Ok(())
    }

    /// The entry that a direct resource's message means, kept as it is for a batch that is taken back; `None` for the
    /// default entry.
    fn direct_entry(&mut self, e: &Option<pb::TableEntry>) -> Res<(&'a info::Table, &'a ir::Table, Option<EntryId>)> {
        let Some(e) = e else { return Err(invalid("is unset").under("table_entry")) };
        let mut inner = || -> Res<_> {
            let (t, ir) = self.table(e.table_id)?;
            if e.is_default_action {
                if !e.r#match.is_empty() {
                    return Err(invalid("must be empty for the default entry").under("match"));
                }
                return Ok((t, ir, None));
            }
            let keys = keys::keys(keys::table_shapes(t, ir), &e.r#match, &format!("table {}", t.preamble.name))?;
            let rank = keys::rank(ir, e.priority)?;
            let absent = || not_found(format!("table {} has no entry with this match and priority", t.preamble.name));
            let id = self.state.tables[t.ir_index].find(&keys, rank).ok_or_else(absent)?;
            self.remember(t.ir_index, &keys, rank);
            Ok((t, ir, Some(id)))
        };
        inner().at(|| "table_entry")
    }

    fn direct_counter(&mut self, kind: Type, e: &pb::DirectCounterEntry) -> Res<()> {
        only_modify(kind, "a direct counter")?;
        let (t, ir, id) = self.direct_entry(&e.table_entry)?;
        if ir.counter.is_none() {
            return Err(invalid(format!("table {} has no direct counter", t.preamble.name)).under("table_entry"));
        }
        let Some(data) = &e.data else { return Ok(()) };
        let counts = keys::counts(data).at(|| "data")?;
        let state = &mut self.state.tables[t.ir_index];
        match id {
            Some(id) => {
                if let Some(x) = state.entry_mut(id) {
                    (x.packets, x.bytes) = counts;
                }
            }
            None => {
                let (old, table) = (std::mem::replace(&mut state.misses, counts), t.ir_index);
                self.on_undo(move |w| {
                    w.state.tables[table].misses = old;
                    Ok(())
                });
            }
        }
        Ok(())
    }

    fn direct_meter(&mut self, kind: Type, e: &pb::DirectMeterEntry) -> Res<()> {
        only_modify(kind, "a direct meter")?;
        let (t, ir, id) = self.direct_entry(&e.table_entry)?;
        if ir.meter.is_none() {
            return Err(invalid(format!("table {} has no direct meter", t.preamble.name)).under("table_entry"));
        }
        if e.counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("counter_data"));
        }
        let rates = e.config.as_ref().map(keys::rates).transpose().at(|| "config")?;
        let Some(id) = id else {
            return Err(unimplemented("default entries have no direct meter here").under("table_entry"));
        };
        let now_us = self.now_us;
        if let Some(x) = self.state.tables[t.ir_index].entry_mut(id) {
            keys::set_rates(&mut x.meter, rates, now_us);
        }
        Ok(())
    }

    // Action profiles.

    fn member(&mut self, kind: Type, e: &pb::ActionProfileMember) -> Res<()> {
        let p = self.profile(e.action_profile_id)?;
        let (i, id, name) = (p.ir_index, e.member_id, &p.preamble.name);
        if id == 0 || Book::is_reserved(id) {
            return Err(invalid(format!("{id} is not between 1 and {}", RESERVED - 1)).under("member_id"));
        }
        let member = match (&e.action, kind) {
            (_, Type::Delete) => None,
            (Some(a), _) => Some(keys::member(self.config, p, a).at(|| "action")?),
            (None, _) => return Err(invalid("is unset").under("action")),
        };
        let old = self.state.profiles[i].members.get(&id).cloned();
        match (kind, old.is_some()) {
            (Type::Insert, true) => {
                let m = format!("action profile {name} has a member {id}");
                return Err(Fail::new(Code::AlreadyExists, m).under("member_id"));
            }
            (Type::Insert, false) if self.state.profiles[i].members.len() as u64 >= p.size => {
                return Err(exhausted(format!("action profile {name} is full ({} members)", p.size)));
            }
            (Type::Modify | Type::Delete, false) => {
                return Err(not_found(format!("action profile {name} has no member {id}")).under("member_id"));
            }
            (Type::Delete, true) => {
                let in_group = self.book.groups[i].iter().find(|(_, g)| g.members.iter().any(|(m, _)| *m == id));
                if let Some((group, _)) = in_group {
                    return Err(precondition(format!("group {group} has member {id}")).under("member_id"));
                }
                self.unused(p, &EntryAction::Member(id), "member_id")?;
            }
            _ => {}
        }
        let members = &mut self.state.profiles[i].members;
        match member {
            Some(m) => members.insert(id, m),
            None => members.remove(&id),
        };
        self.on_undo(move |w| {
            let members = &mut w.state.profiles[i].members;
            match old {
                Some(m) => members.insert(id, m),
                None => members.remove(&id),
            };
            Ok(())
        });
        Ok(())
    }

    /// No table's entry runs it.
    fn unused(&self, p: &info::ActionProfile, action: &EntryAction, field: &str) -> Res<()> {
        for id in &p.table_ids {
            let (t, _) = self.table(*id)?;
            if self.state.tables[t.ir_index].entries().any(|(_, e)| e.action == *action) {
                let m = format!("an entry of table {} runs it", t.preamble.name);
                return Err(precondition(m).under(field));
            }
        }
        Ok(())
    }

    fn group(&mut self, kind: Type, e: &pb::ActionProfileGroup) -> Res<()> {
        let p = self.profile(e.action_profile_id)?;
        let (i, id, name) = (p.ir_index, e.group_id, &p.preamble.name);
        if !p.with_selector {
            return Err(
                invalid(format!("action profile {name} is no selector and has no groups")).under("action_profile_id")
            );
        }
        if id == 0 || Book::is_reserved(id) {
            return Err(invalid(format!("{id} is not between 1 and {}", RESERVED - 1)).under("group_id"));
        }
        let old = self.book.groups[i].get(&id).cloned();
        let absent = || not_found(format!("action profile {name} has no group {id}")).under("group_id");
        let new = match (kind, &old) {
            (Type::Insert, Some(_)) => {
                let m = format!("action profile {name} has a group {id}");
                return Err(Fail::new(Code::AlreadyExists, m).under("group_id"));
            }
            (Type::Modify | Type::Delete, None) => return Err(absent()),
            (Type::Delete, Some(_)) => {
                self.unused(p, &EntryAction::Group(id), "group_id")?;
                None
            }
            (_, old) => {
                self.max_size(p, e, old.as_ref())?;
                Some(self.group_members(p, e)?)
            }
        };
        self.put_group(i, id, new);
        self.on_undo(move |w| {
            w.put_group(i, id, old);
            Ok(())
        });
        Ok(())
    }

    /// 9.2.2.1.
    fn max_size(&self, p: &info::ActionProfile, e: &pb::ActionProfileGroup, old: Option<&Group>) -> Res<()> {
        let wrong = |m: String| Err(invalid(m).under("max_size"));
        match (e.max_size, p.max_group_size) {
            (..0, _) => wrong(format!("{} is negative", e.max_size)),
            (0, 1..) => wrong(format!("is unset; it must be at most {}", p.max_group_size)),
            (size, limit @ 1..) if size > limit => wrong(format!("{size} is above the program's limit, {limit}")),
            (size, _) => match old {
                Some(g) if g.max_size != size => wrong(format!("can't change from {} to {size}", g.max_size)),
                _ => Ok(()),
            },
        }
    }

    fn group_members(&self, p: &info::ActionProfile, e: &pb::ActionProfileGroup) -> Res<Group> {
        let state = &self.state.profiles[p.ir_index];
        let mut seen = BTreeSet::new();
        for (k, m) in e.members.iter().enumerate() {
            let place = || format!("members[{k}]");
            let id = m.member_id;
            if !state.members.contains_key(&id) || Book::is_reserved(id) {
                let m = format!("action profile {} has no member {id}", p.preamble.name);
                return Err(not_found(m).under("member_id").under(place()));
            }
            if !seen.insert(id) {
                return Err(invalid(format!("member {id} is in the group twice")).under("member_id").under(place()));
            }
            if m.watch_kind.is_some() {
                return Err(unimplemented("ports of members are not watched").under("watch_port").under(place()));
            }
        }
        let weights: Vec<i32> = e.members.iter().map(|m| m.weight).collect();
        self.weights(p, &weights, e.max_size, "members")?;
        let members = e.members.iter().map(|m| (m.member_id, m.weight)).collect();
        Ok(Group { max_size: e.max_size, members })
    }

    fn put_group(&mut self, profile: usize, id: u32, group: Option<Group>) {
        let (state, book) = (&mut self.state.profiles[profile].groups, &mut self.book.groups[profile]);
        match group {
            Some(g) => {
                let weighted = g.members.iter().flat_map(|(m, w)| std::iter::repeat_n(*m, *w as usize)).collect();
                state.insert(id, weighted);
                book.insert(id, g);
            }
            None => {
                state.remove(&id);
                book.remove(&id);
            }
        }
    }

    // Arrays.

    fn counter(&mut self, kind: Type, e: &pb::CounterEntry) -> Res<()> {
        only_modify(kind, "a counter")?;
        let list = &self.config.program.info.counters;
        let i = keys::object(list, e.counter_id, "counter", |c| &c.preamble)?.1.ir_index;
        let cells = cells(&e.index, self.state.counters[i].len())?;
        let Some(data) = &e.data else { return Ok(()) };
        let counts = keys::counts(data).at(|| "data")?;
        if self.undo.is_some() {
            let (old, from) = (self.state.counters[i][cells.clone()].to_vec(), cells.start);
            self.on_undo(move |w| {
                w.state.counters[i][from..from + old.len()].clone_from_slice(&old);
                Ok(())
            });
        }
        self.state.counters[i][cells].fill(counts);
        Ok(())
    }

    fn meter(&mut self, kind: Type, e: &pb::MeterEntry) -> Res<()> {
        only_modify(kind, "a meter")?;
        let list = &self.config.program.info.meters;
        let i = keys::object(list, e.meter_id, "meter", |m| &m.preamble)?.1.ir_index;
        let cells = cells(&e.index, self.state.meters[i].len())?;
        if e.counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("counter_data"));
        }
        let rates: Option<Rates> = e.config.as_ref().map(keys::rates).transpose().at(|| "config")?;
        if self.undo.is_some() {
            let (old, from) = (self.state.meters[i][cells.clone()].to_vec(), cells.start);
            self.on_undo(move |w| {
                w.state.meters[i][from..from + old.len()].clone_from_slice(&old);
                Ok(())
            });
        }
        let now_us = self.now_us;
        self.state.meters[i][cells].iter_mut().for_each(|cell| keys::set_rates(cell, rates, now_us));
        Ok(())
    }

    fn register(&mut self, kind: Type, e: &pb::RegisterEntry) -> Res<()> {
        only_modify(kind, "a register")?;
        let config = self.config;
        let (at, r) = keys::object(&config.program.info.registers, e.register_id, "register", |r| &r.preamble)?;
        let i = r.ir_index;
        let cells = cells(&e.index, self.state.register_size(i))?;
        let Some(data) = &e.data else { return Err(invalid("is unset").under("data")) };
        let (mut values, mut widths) = (Vec::new(), Vec::new());
        config.registers[at].decode(data, &mut values).at(|| "data")?;
        config.registers[at].leaves(&mut widths);
        let cell = pack(values, &widths);
        if self.undo.is_some() {
            let old: Vec<(usize, Val)> =
                cells.clone().filter_map(|k| Some((k, self.state.register_get(i, k)?))).collect();
            self.on_undo(move |w| {
                old.into_iter().try_for_each(|(k, v)| w.state.register_set(i, k, v)).map_err(Fail::from)
            });
        }
        for k in cells {
            self.state.register_set(i, k, cell.clone()).map_err(|e: ChangeError| Fail::from(e).under("data"))?;
        }
        Ok(())
    }

    // Replication.

    fn replication(&mut self, kind: Type, e: &pb::PacketReplicationEngineEntry) -> Res<()> {
        use pb::packet_replication_engine_entry::Type as T;
        match &e.r#type {
            Some(T::MulticastGroupEntry(g)) => self.multicast(kind, g).at(|| "multicast_group_entry"),
            Some(T::CloneSessionEntry(c)) => self.clone_session(kind, c).at(|| "clone_session_entry"),
            None => Err(invalid("is unset").under("type")),
        }
    }

    /// Ports by instance, as the replication engine of BMv2 goes through them.
    fn replicas(list: &[pb::Replica]) -> Res<Vec<(u32, Vec<u32>)>> {
        let mut by_instance: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (i, r) in list.iter().enumerate() {
            let place = || format!("replicas[{i}]");
            let (port, instance) = keys::replica(r).at(place)?;
            if !by_instance.entry(instance).or_default().insert(port) {
                return Err(invalid(format!("port {port} with instance {instance} is there twice")).under(place()));
            }
        }
        Ok(by_instance.into_iter().map(|(rid, ports)| (rid, ports.into_iter().collect())).collect())
    }

    fn presence(kind: Type, there: bool, what: &str, id: u32) -> Res<()> {
        match (kind, there) {
            (Type::Insert, true) => Err(Fail::new(Code::AlreadyExists, format!("{what} {id} is there already"))),
            (Type::Modify | Type::Delete, false) => Err(not_found(format!("there is no {what} {id}"))),
            _ => Ok(()),
        }
    }

    fn multicast(&mut self, kind: Type, e: &pb::MulticastGroupEntry) -> Res<()> {
        let id = e.multicast_group_id;
        if id == 0 || id > 0xffff {
            return Err(invalid(format!("{id} is not between 1 and 65535")).under("multicast_group_id"));
        }
        let old = self.book.multicast.get(&id).cloned();
        Self::presence(kind, old.is_some(), "multicast group", id).at(|| "multicast_group_id")?;
        let new = (kind != Type::Delete).then(|| e.clone());
        self.put_multicast(id, new)?;
        self.on_undo(move |w| w.put_multicast(id, old));
        Ok(())
    }

    fn put_multicast(&mut self, id: u32, group: Option<pb::MulticastGroupEntry>) -> Res<()> {
        match group {
            Some(g) => {
                self.state.groups.insert(id, Self::replicas(&g.replicas)?);
                self.book.multicast.insert(id, g);
            }
            None => {
                self.state.groups.remove(&id);
                self.book.multicast.remove(&id);
            }
        }
        Ok(())
    }

    fn clone_session(&mut self, kind: Type, e: &pb::CloneSessionEntry) -> Res<()> {
        let id = e.session_id;
        if id == 0 || id >= CLONE_GROUP {
            return Err(invalid(format!("{id} is not between 1 and {}", CLONE_GROUP - 1)).under("session_id"));
        }
        let old = self.book.clones.get(&id).cloned();
        Self::presence(kind, old.is_some(), "clone session", id).at(|| "session_id")?;
        if kind != Type::Delete {
            if e.class_of_service != 0 {
                return Err(unimplemented("clones have no class of service here").under("class_of_service"));
            }
            if e.packet_length_bytes < 0 {
                let m = format!("{} is negative", e.packet_length_bytes);
                return Err(invalid(m).under("packet_length_bytes"));
            }
        }
        let new = (kind != Type::Delete).then(|| e.clone());
        self.put_clone(id, new)?;
        self.on_undo(move |w| w.put_clone(id, old));
        Ok(())
    }

    fn put_clone(&mut self, id: u32, session: Option<pb::CloneSessionEntry>) -> Res<()> {
        let group = CLONE_GROUP | id;
        match session {
            Some(s) => {
                self.state.groups.insert(group, Self::replicas(&s.replicas)?);
                let truncate_bytes = usize::try_from(s.packet_length_bytes).ok().filter(|n| *n > 0);
                self.state.mirrors.insert(id, Mirror { port: None, group: Some(group), truncate_bytes });
                self.book.clones.insert(id, s);
            }
            None => {
                self.state.mirrors.remove(&id);
                self.state.groups.remove(&group);
                self.book.clones.remove(&id);
            }
        }
        Ok(())
    }

    // Value sets and digests.

    fn value_set(&mut self, kind: Type, e: &pb::ValueSetEntry) -> Res<()> {
        only_modify(kind, "a value set")?;
        let config = self.config;
        let (_, v) = keys::object(&config.program.info.value_sets, e.value_set_id, "value_set", |v| &v.preamble)?;
        let ir = &config.program.value_sets[v.ir_index];
        if e.members.len() as u64 > v.size {
            let m = format!("{} members are above the size of {}, {}", e.members.len(), v.preamble.name, v.size);
            return Err(exhausted(m).under("members"));
        }
        let mut members = Vec::new();
        for (k, m) in e.members.iter().enumerate() {
            let place = || format!("members[{k}]");
            let shapes = keys::set_shapes(v, ir);
            let keys = keys::keys(shapes, &m.r#match, &format!("value set {}", v.preamble.name)).at(place)?;
            let member = keys::set_member(&keys, &ir.widths).at(place)?;
            if members.contains(&member) {
                return Err(Fail::new(Code::AlreadyExists, "the same member is there before").under(place()));
            }
            members.push(member);
        }
        let i = v.ir_index;
        let old = std::mem::replace(&mut self.state.value_sets[i], members);
        let noted = std::mem::replace(&mut self.book.value_sets[i], e.members.clone());
        self.on_undo(move |w| {
            w.state.value_sets[i] = old;
            w.book.value_sets[i] = noted;
            Ok(())
        });
        Ok(())
    }

    fn digest(&mut self, kind: Type, e: &pb::DigestEntry) -> Res<()> {
        let list = &self.config.program.info.digests;
        let (i, d) = keys::object(list, e.digest_id, "digest", |d| &d.preamble)?;
        let old = self.book.digests.get(&i).copied();
        let name = &d.preamble.name;
        match (kind, old) {
            (Type::Insert, Some(_)) => {
                return Err(Fail::new(Code::AlreadyExists, format!("digest {name} is enabled already")));
            }
            (Type::Modify | Type::Delete, None) => return Err(not_found(format!("digest {name} is not enabled"))),
            (Type::Delete, _) => {
                self.book.digests.remove(&i);
            }
            _ => {
                let c = e.config.unwrap_or_default();
                let positive = |field: &str, v: i64| {
                    u64::try_from(v).map_err(|_| invalid(format!("{v} is negative")).under(format!("config.{field}")))
                };
                let settings = Settings {
                    max_timeout_ns: positive("max_timeout_ns", c.max_timeout_ns)?,
                    max_list_size: positive("max_list_size", i64::from(c.max_list_size))? as usize,
                    ack_timeout_ns: positive("ack_timeout_ns", c.ack_timeout_ns)?,
                };
                self.book.digests.insert(i, settings);
            }
        }
        self.on_undo(move |w| {
            match old {
                Some(s) => w.book.digests.insert(i, s),
                None => w.book.digests.remove(&i),
            };
            Ok(())
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_several_values_comes_apart_again() {
        let widths = [9, 1, 200];
        let values = vec![Val::S(0x1aa), Val::S(1), Val::all_ones(200)];
        assert_eq!(unpack(&pack(values.clone(), &widths), &widths), values);
    }
}
