// SPDX-License-Identifier: Apache-2.0
//! Reading: a request becomes a list of things to look at, and each of these is looked at piece by piece, so that packets
//! go on in between and no answer is ever there as a whole. Nothing is written meanwhile: places and ids stay.
use super::config::Config;
use super::fail::{At, Res, invalid, not_found, unimplemented};
use super::keys;
use super::pb::p4::v1::{self as pb, Entity, entity::Entity as E};
use super::write::{Book, cells, unpack};
use std::ops::{Bound, Range};
use std::sync::Arc;
use weir_p4::bytecode::program::{self as ir, KeyMatch};
use weir_p4::exec::{EntryAction, EntryId, EntryState, State, place_of};
use weir_p4::p4info as info;

/// What a request wants to see of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Entry { counter: bool, meter: bool },
    Counter,
    Meter,
}

/// Which entries of a table a request means.
#[derive(Debug, Default)]
pub struct Filter {
    keys: Option<Vec<KeyMatch>>,
    /// 0: any.
    priority: i32,
    action: Option<usize>,
    controller_metadata: u64,
    metadata: Vec<u8>,
}

/// Something to look at; tables, arrays and so on by their index in P4Info. Ranges are what is left to look at.
#[derive(Clone, Debug)]
pub enum Item {
    Entries(usize, Range<usize>, Arc<Filter>, Want),
    Default(usize, Want),
    Member(usize, u32),
    Members(usize, Bound<u32>),
    Group(usize, u32),
    Groups(usize, Bound<u32>),
    Counter(usize, Range<usize>),
    Meter(usize, Range<usize>),
    Register(usize, Range<usize>),
    Multicast(u32),
    Multicasts(Bound<u32>),
    Clone(u32),
    Clones(Bound<u32>),
    ValueSet(usize),
    Digest(usize),
}

/// What is looked at in one piece at most: things that are there, and entities that come of them.
const PIECE_LOOKS: usize = 2048;
const PIECE_ENTITIES: usize = 128;

/// The state of a program, to be read.
pub struct Reader<'a> {
    pub config: &'a Config,
    pub state: &'a State,
    pub book: &'a Book,
}

/// Ids by a request's number, 0 for all.
fn chosen<'a, T>(
    list: &'a [T],
    id: u32,
    what: &str,
    preamble: impl Fn(&T) -> &info::Preamble,
) -> Res<Vec<(usize, &'a T)>> {
    if id == 0 {
        return Ok(list.iter().enumerate().collect());
    }
    Ok(vec![keys::object(list, id, what, preamble)?])
}

impl Reader<'_> {
    /// What a request asks for; an id of 0 means all.
    pub fn plan(&self, e: &Entity, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        let Some(entity) = &e.entity else {
            return Err(invalid("entity is unset; a wildcard names at least the kind of entity"));
        };
        match entity {
            E::TableEntry(e) => self.entries(e, out).at(|| "table_entry"),
            E::DirectCounterEntry(e) => {
                self.direct(&e.table_entry, Want::Counter, out).at(|| "direct_counter_entry.table_entry")
            }
            E::DirectMeterEntry(e) => {
                if e.counter_data.is_some() {
                    return Err(
                        unimplemented("meters don't count by color here").under("direct_meter_entry.counter_data")
                    );
                }
                self.direct(&e.table_entry, Want::Meter, out).at(|| "direct_meter_entry.table_entry")
            }
            E::ActionProfileMember(e) => {
                let inner = || {
                    for (at, p) in
                        chosen(&info.action_profiles, e.action_profile_id, "action_profile", |p| &p.preamble)?
                    {
                        let members = &self.state.profiles[p.ir_index].members;
                        if e.member_id == 0 {
                            out.push(Item::Members(at, Bound::Unbounded));
                        } else if e.action_profile_id == 0 {
                            return Err(invalid("is unset, member_id is not").under("action_profile_id"));
                        } else if members.contains_key(&e.member_id) && !Book::is_reserved(e.member_id) {
                            out.push(Item::Member(at, e.member_id));
                        } else {
                            let m = format!("action profile {} has no member {}", p.preamble.name, e.member_id);
                            return Err(not_found(m).under("member_id"));
                        }
                    }
                    Ok(())
                };
                inner_at(inner, "action_profile_member")
            }
            E::ActionProfileGroup(e) => {
                let inner = || {
                    for (at, p) in
                        chosen(&info.action_profiles, e.action_profile_id, "action_profile", |p| &p.preamble)?
                    {
                        let groups = &self.book.groups[p.ir_index];
                        if e.group_id == 0 {
                            out.push(Item::Groups(at, Bound::Unbounded));
                        } else if e.action_profile_id == 0 {
                            return Err(invalid("is unset, group_id is not").under("action_profile_id"));
                        } else if groups.contains_key(&e.group_id) {
                            out.push(Item::Group(at, e.group_id));
                        } else {
                            let m = format!("action profile {} has no group {}", p.preamble.name, e.group_id);
                            return Err(not_found(m).under("group_id"));
                        }
                    }
                    Ok(())
                };
                inner_at(inner, "action_profile_group")
            }
            E::CounterEntry(e) => {
                let inner = || {
                    whole(e.counter_id, &e.index)?;
                    for (at, c) in chosen(&info.counters, e.counter_id, "counter", |c| &c.preamble)? {
                        let range = cells(&e.index, self.state.counters[c.ir_index].len())?;
                        out.push(Item::Counter(at, range));
                    }
                    Ok(())
                };
                inner_at(inner, "counter_entry")
            }
            E::MeterEntry(e) => {
                let inner = || {
                    if e.counter_data.is_some() {
                        return Err(unimplemented("meters don't count by color here").under("counter_data"));
                    }
                    whole(e.meter_id, &e.index)?;
                    for (at, m) in chosen(&info.meters, e.meter_id, "meter", |m| &m.preamble)? {
                        let range = cells(&e.index, self.state.meters[m.ir_index].len())?;
                        out.push(Item::Meter(at, range));
                    }
                    Ok(())
                };
                inner_at(inner, "meter_entry")
            }
            E::RegisterEntry(e) => {
                let inner = || {
                    whole(e.register_id, &e.index)?;
                    for (at, r) in chosen(&info.registers, e.register_id, "register", |r| &r.preamble)? {
                        let range = cells(&e.index, self.state.register_size(r.ir_index))?;
                        out.push(Item::Register(at, range));
                    }
                    Ok(())
                };
                inner_at(inner, "register_entry")
            }
            E::PacketReplicationEngineEntry(e) => self.replication(e, out).at(|| "packet_replication_engine_entry"),
            E::ValueSetEntry(e) => {
                let sets =
                    chosen(&info.value_sets, e.value_set_id, "value_set", |v| &v.preamble).at(|| "value_set_entry")?;
                out.extend(sets.into_iter().map(|(at, _)| Item::ValueSet(at)));
                Ok(())
            }
            E::DigestEntry(e) => {
                let inner = || {
                    for (at, d) in chosen(&info.digests, e.digest_id, "digest", |d| &d.preamble)? {
                        if self.book.digests.contains_key(&at) {
                            out.push(Item::Digest(at));
                        } else if e.digest_id != 0 {
                            return Err(not_found(format!("digest {} is not enabled", d.preamble.name)));
                        }
                    }
                    Ok(())
                };
                inner_at(inner, "digest_entry")
            }
            // There are none, so all of them is nothing.
            E::ExternEntry(e) if e.extern_type_id == 0 => Ok(()),
            E::ExternEntry(_) => Err(unimplemented("v1model has no other externs").under("extern_entry")),
        }
    }

    fn replication(&self, e: &pb::PacketReplicationEngineEntry, out: &mut Vec<Item>) -> Res<()> {
        use pb::packet_replication_engine_entry::Type as T;
        match &e.r#type {
            Some(T::MulticastGroupEntry(g)) if g.multicast_group_id == 0 => {
                out.push(Item::Multicasts(Bound::Unbounded));
            }
            Some(T::MulticastGroupEntry(g)) if self.book.multicast.contains_key(&g.multicast_group_id) => {
                out.push(Item::Multicast(g.multicast_group_id));
            }
            Some(T::MulticastGroupEntry(g)) => {
                let m = format!("there is no multicast group {}", g.multicast_group_id);
                return Err(not_found(m).under("multicast_group_entry.multicast_group_id"));
            }
            Some(T::CloneSessionEntry(c)) if c.session_id == 0 => {
                out.push(Item::Clones(Bound::Unbounded));
            }
            Some(T::CloneSessionEntry(c)) if self.book.clones.contains_key(&c.session_id) => {
                out.push(Item::Clone(c.session_id));
            }
            Some(T::CloneSessionEntry(c)) => {
                let m = format!("there is no clone session {}", c.session_id);
                return Err(not_found(m).under("clone_session_entry.session_id"));
            }
            None => return Err(invalid("is unset").under("type")),
        }
        Ok(())
    }

    fn ir(&self, at: usize) -> (&info::Table, &ir::Table) {
        let t = &self.config.program.info.tables[at];
        (t, &self.config.program.tables[t.ir_index])
    }

    /// Entries of tables (9.1.5).
    fn entries(&self, e: &pb::TableEntry, out: &mut Vec<Item>) -> Res<()> {
        let want = Want::Entry { counter: e.counter_data.is_some(), meter: e.meter_config.is_some() };
        if e.meter_counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("meter_counter_data"));
        }
        let info = &self.config.program.info;
        let action = match e.action.as_ref().map(|a| &a.r#type) {
            None => None,
            Some(Some(pb::table_action::Type::Action(a))) => Some(a.action_id),
            Some(_) => return Err(invalid("entries can be chosen by an action id only").under("action")),
        };
        let filtered = !e.r#match.is_empty() || e.priority != 0 || action.is_some();
        if e.table_id == 0 && (filtered || e.controller_metadata != 0 || !e.metadata.is_empty()) {
            return Err(invalid("is unset; entries of all tables can't be chosen further").under("table_id"));
        }
        for (at, t) in chosen(&info.tables, e.table_id, "table", |t| &t.preamble)? {
            if e.time_since_last_hit.is_some() && !t.idle_timeout && e.table_id != 0 {
                let m = format!("must be unset; table {} has no idle time-outs", t.preamble.name);
                return Err(invalid(m).under("time_since_last_hit"));
            }
            let (t, ir) = self.ir(at);
            if e.is_default_action {
                if filtered {
                    return Err(invalid("match, priority and action don't go with it").under("is_default_action"));
                }
                out.push(Item::Default(at, want));
                continue;
            }
            let action = match action {
                Some(id) => match t.action(id) {
                    Some(r) => Some(r.ir_index),
                    None => {
                        let m = format!("{} is no action of table {}", keys::hex(id), t.preamble.name);
                        return Err(invalid(m).under("action.action_id"));
                    }
                },
                None => None,
            };
            let filter = Filter {
                keys: self.wanted_keys(t, ir, e)?,
                priority: e.priority,
                action,
                controller_metadata: e.controller_metadata,
                metadata: e.metadata.clone(),
            };
            out.push(self.chosen_entries(t, ir, at, filter, want));
        }
        Ok(())
    }

    /// The match of a request, `None` for any. It is empty, as no entry's is, when it has a string that stands for
    /// nothing.
    fn wanted_keys(&self, t: &info::Table, ir: &ir::Table, e: &pb::TableEntry) -> Res<Option<Vec<KeyMatch>>> {
        if e.r#match.is_empty() {
            return Ok(None);
        }
        let owner = format!("table {}", t.preamble.name);
        Ok(Some(keys::keys_if_known(keys::table_shapes(t, ir), &e.r#match, &owner)?.unwrap_or_default()))
    }

    /// The entries of a table to look at: all of them, unless the index tells the one that is meant.
    fn chosen_entries(&self, t: &info::Table, ir: &ir::Table, at: usize, filter: Filter, want: Want) -> Item {
        let state = &self.state.tables[t.ir_index];
        let ordered = weir_p4::bytecode::program::needs_priority(ir);
        let places = match &filter.keys {
            Some(keys) if keys.is_empty() => 0..0,
            Some(keys) if !ordered => match state.find(keys, 0) {
                Some(id) => place_of(id)..place_of(id) + 1,
                None => 0..0,
            },
            _ => 0..state.places(),
        };
        Item::Entries(at, places, Arc::new(filter), want)
    }

    fn fits(&self, t: &info::Table, id: EntryId, x: &EntryState, f: &Filter) -> bool {
        let note = self.book.note(t.ir_index, id);
        let call = match &x.action {
            EntryAction::Call(c) => Some(c.action),
            _ => None,
        };
        (f.action.is_none() || call == f.action)
            && f.keys.as_ref().is_none_or(|k| *k == x.keys)
            && (f.priority == 0 || keys::priority_message(x.priority) == f.priority)
            && (f.controller_metadata == 0 || note.is_some_and(|n| n.controller_metadata == f.controller_metadata))
            && (f.metadata.is_empty() || note.is_some_and(|n| n.metadata == f.metadata))
    }

    fn direct(&self, e: &Option<pb::TableEntry>, want: Want, out: &mut Vec<Item>) -> Res<()> {
        let Some(e) = e else { return Err(invalid("is unset")) };
        let info = &self.config.program.info;
        for (at, _) in chosen(&info.tables, e.table_id, "table", |t| &t.preamble)? {
            let (t, ir) = self.ir(at);
            let has = if want == Want::Counter { ir.counter.is_some() } else { ir.meter.is_some() };
            if !has && e.table_id == 0 {
                continue;
            }
            if !has {
                let what = if want == Want::Counter { "counter" } else { "meter" };
                return Err(invalid(format!("table {} has no direct {what}", t.preamble.name)));
            }
            if e.is_default_action {
                if want == Want::Counter {
                    out.push(Item::Default(at, want));
                }
                continue;
            }
            let filter = Filter { keys: self.wanted_keys(t, ir, e)?, priority: e.priority, ..Filter::default() };
            out.push(self.chosen_entries(t, ir, at, filter, want));
        }
        Ok(())
    }

    /// Why an item of which nothing came is an error: it names one entry, and there is no such entry.
    pub fn missing(&self, item: &Item) -> Res<()> {
        match item {
            Item::Entries(at, _, f, Want::Counter | Want::Meter) if f.keys.is_some() => {
                let (t, _) = self.ir(*at);
                Err(not_found(format!("table {} has no entry with this match", t.preamble.name)))
            }
            _ => Ok(()),
        }
    }

    /// Entities of an item, a piece of them; gives what is left of it.
    pub fn emit(&self, item: Item, out: &mut Vec<Entity>) -> Option<Item> {
        let info = &self.config.program.info;
        let mut push = |e: E| out.push(Entity { entity: Some(e) });
        let index = |i: usize| Some(pb::Index { index: i as i64 });
        /// The first cells of a range, and the others.
        fn cut(range: Range<usize>) -> (Range<usize>, Option<Range<usize>>) {
            let end = range.end.min(range.start + PIECE_ENTITIES);
            (range.start..end, (end < range.end).then_some(end..range.end))
        }
        match item {
            Item::Entries(at, places, filter, want) => {
                let (t, ir) = self.ir(at);
                let look = places.start..places.end.min(places.start + PIECE_LOOKS);
                let (mut next, mut found) = (look.end, 0);
                for (id, x) in self.state.tables[t.ir_index].entries_in(look) {
                    if !self.fits(t, id, x, &filter) {
                        continue;
                    }
                    push(self.entry(t, ir, id, x, want));
                    found += 1;
                    if found == PIECE_ENTITIES {
                        next = place_of(id) + 1;
                        break;
                    }
                }
                return (next < places.end).then_some(Item::Entries(at, next..places.end, filter, want));
            }
            Item::Default(at, want) => {
                let (t, ir) = self.ir(at);
                push(self.default_entry(t, ir, want));
            }
            Item::Members(at, from) => {
                let p = &info.action_profiles[at];
                let mut left = self.state.profiles[p.ir_index].members.range((from, Bound::Unbounded));
                let mut last = None;
                for (id, _) in left.by_ref().take(PIECE_ENTITIES) {
                    last = Some(*id);
                    if !Book::is_reserved(*id) {
                        self.emit(Item::Member(at, *id), out);
                    }
                }
                return left.next().and(last).map(|id| Item::Members(at, Bound::Excluded(id)));
            }
            Item::Groups(at, from) => {
                let p = &info.action_profiles[at];
                let mut left = self.book.groups[p.ir_index].range((from, Bound::Unbounded));
                let last = left.by_ref().take(PIECE_ENTITIES).map(|(id, _)| *id).inspect(|id| {
                    self.emit(Item::Group(at, *id), out);
                });
                let last = last.last();
                return left.next().and(last).map(|id| Item::Groups(at, Bound::Excluded(id)));
            }
            Item::Multicasts(from) => {
                let mut left = self.book.multicast.range((from, Bound::Unbounded));
                let last = left.by_ref().take(PIECE_ENTITIES).map(|(id, _)| *id).inspect(|id| {
                    self.emit(Item::Multicast(*id), out);
                });
                let last = last.last();
                return left.next().and(last).map(|id| Item::Multicasts(Bound::Excluded(id)));
            }
            Item::Clones(from) => {
                let mut left = self.book.clones.range((from, Bound::Unbounded));
                let last = left.by_ref().take(PIECE_ENTITIES).map(|(id, _)| *id).inspect(|id| {
                    self.emit(Item::Clone(*id), out);
                });
                let last = last.last();
                return left.next().and(last).map(|id| Item::Clones(Bound::Excluded(id)));
            }
            Item::Member(at, id) => {
                let p = &info.action_profiles[at];
                if let Some(m) = self.state.profiles[p.ir_index].members.get(&id) {
                    let action = keys::member_message(self.config, p, m);
                    let action_profile_id = p.preamble.id;
                    push(E::ActionProfileMember(pb::ActionProfileMember { action_profile_id, member_id: id, action }));
                }
            }
            Item::Group(at, id) => {
                let p = &info.action_profiles[at];
                if let Some(g) = self.book.groups[p.ir_index].get(&id) {
                    let member = |(member_id, weight): &(u32, i32)| pb::action_profile_group::Member {
                        member_id: *member_id,
                        weight: *weight,
                        watch_kind: None,
                    };
                    push(E::ActionProfileGroup(pb::ActionProfileGroup {
                        action_profile_id: p.preamble.id,
                        group_id: id,
                        members: g.members.iter().map(member).collect(),
                        max_size: g.max_size,
                    }));
                }
            }
            Item::Counter(at, range) => {
                let (range, left) = cut(range);
                let c = &info.counters[at];
                for (i, counts) in range.clone().zip(&self.state.counters[c.ir_index][range.clone()]) {
                    let data = Some(keys::counts_message(*counts));
                    push(E::CounterEntry(pb::CounterEntry { counter_id: c.preamble.id, index: index(i), data }));
                }
                return left.map(|r| Item::Counter(at, r));
            }
            Item::Meter(at, range) => {
                let (range, left) = cut(range);
                let m = &info.meters[at];
                for (i, cell) in range.clone().zip(&self.state.meters[m.ir_index][range.clone()]) {
                    let (meter_id, config) = (m.preamble.id, keys::rates_message(cell));
                    push(E::MeterEntry(pb::MeterEntry { meter_id, index: index(i), config, counter_data: None }));
                }
                return left.map(|r| Item::Meter(at, r));
            }
            Item::Register(at, range) => {
                let (range, left) = cut(range);
                let r = &info.registers[at];
                let layout = &self.config.registers[at];
                let mut widths = Vec::new();
                layout.leaves(&mut widths);
                for i in range {
                    if let Some(cell) = self.state.register_get(r.ir_index, i) {
                        let data = Some(layout.encode(&mut unpack(&cell, &widths).into_iter()));
                        push(E::RegisterEntry(pb::RegisterEntry { register_id: r.preamble.id, index: index(i), data }));
                    }
                }
                return left.map(|r| Item::Register(at, r));
            }
            Item::Multicast(id) => {
                use pb::packet_replication_engine_entry::Type;
                if let Some(g) = self.book.multicast.get(&id) {
                    let r#type = Some(Type::MulticastGroupEntry(g.clone()));
                    push(E::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type }));
                }
            }
            Item::Clone(id) => {
                use pb::packet_replication_engine_entry::Type;
                if let Some(c) = self.book.clones.get(&id) {
                    let r#type = Some(Type::CloneSessionEntry(c.clone()));
                    push(E::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type }));
                }
            }
            Item::ValueSet(at) => {
                let v = &info.value_sets[at];
                let members = self.book.value_sets[v.ir_index].clone();
                push(E::ValueSetEntry(pb::ValueSetEntry { value_set_id: v.preamble.id, members }));
            }
            Item::Digest(at) => {
                if let Some(s) = self.book.digests.get(&at) {
                    let config = pb::digest_entry::Config {
                        max_timeout_ns: s.max_timeout_ns as i64,
                        max_list_size: s.max_list_size as i32,
                        ack_timeout_ns: s.ack_timeout_ns as i64,
                    };
                    let digest_id = info.digests[at].preamble.id;
                    push(E::DigestEntry(pb::DigestEntry { digest_id, config: Some(config) }));
                }
            }
        }
        None
    }

    fn key_of(&self, t: &info::Table, ir: &ir::Table, x: &EntryState) -> pb::TableEntry {
        let ordered = weir_p4::bytecode::program::needs_priority(ir);
        pb::TableEntry {
            table_id: t.preamble.id,
            r#match: keys::key_messages(keys::table_shapes(t, ir), &x.keys),
            priority: if ordered { keys::priority_message(x.priority) } else { 0 },
            ..Default::default()
        }
    }

    fn entry(&self, t: &info::Table, ir: &ir::Table, id: EntryId, x: &EntryState, want: Want) -> E {
        use pb::table_action::Type as A;
        let key = self.key_of(t, ir, x);
        let counts = keys::counts_message((x.packets, x.bytes));
        let (counter, meter) = match want {
            Want::Entry { counter, meter } => (counter, meter),
            Want::Counter => {
                return E::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data: Some(counts) });
            }
            Want::Meter => {
                let config = keys::rates_message(&x.meter);
                return E::DirectMeterEntry(pb::DirectMeterEntry {
                    table_entry: Some(key),
                    config,
                    counter_data: None,
                });
            }
        };
        let note = self.book.note(t.ir_index, id);
        let action = match (&x.action, note.and_then(|n| n.one_shot.as_ref())) {
            (_, Some(shot)) => Some(A::ActionProfileActionSet(shot.set.clone())),
            (EntryAction::Call(c), _) => keys::call_message(self.config, t, c).map(A::Action),
            (EntryAction::Member(m), _) => Some(A::ActionProfileMemberId(*m)),
            (EntryAction::Group(g), _) => Some(A::ActionProfileGroupId(*g)),
        };
        E::TableEntry(pb::TableEntry {
            action: action.map(|a| pb::TableAction { r#type: Some(a) }),
            controller_metadata: note.map_or(0, |n| n.controller_metadata),
            metadata: note.map_or_else(Vec::new, |n| n.metadata.clone()),
            is_const: x.is_const,
            counter_data: (counter && ir.counter.is_some()).then_some(counts),
            meter_config: if meter && ir.meter.is_some() { keys::rates_message(&x.meter) } else { None },
            ..key
        })
    }

    fn default_entry(&self, t: &info::Table, ir: &ir::Table, want: Want) -> E {
        let state = &self.state.tables[t.ir_index];
        let key = pb::TableEntry { table_id: t.preamble.id, is_default_action: true, ..Default::default() };
        let counts = keys::counts_message(state.misses);
        let Want::Entry { counter, .. } = want else {
            return E::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data: Some(counts) });
        };
        let action = match &state.default {
            EntryAction::Call(c) => keys::call_message(self.config, t, c),
            _ => None,
        };
        let note = &self.book.defaults[t.ir_index];
        E::TableEntry(pb::TableEntry {
            action: action.map(|a| pb::TableAction { r#type: Some(pb::table_action::Type::Action(a)) }),
            controller_metadata: note.controller_metadata,
            metadata: note.metadata.clone(),
            counter_data: (counter && ir.counter.is_some()).then_some(counts),
            ..key
        })
    }
}

fn inner_at(inner: impl FnOnce() -> Res<()>, place: &str) -> Res<()> {
    inner().at(|| place)
}

/// An index without the id of its array means nothing.
fn whole(id: u32, index: &Option<pb::Index>) -> Res<()> {
    if id == 0 && index.is_some() {
        return Err(invalid("is set, but no id beside it").under("index"));
    }
    Ok(())
}
