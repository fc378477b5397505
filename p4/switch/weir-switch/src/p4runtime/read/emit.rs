// SPDX-License-Identifier: Apache-2.0
//! The entities that a request asked for, a piece at a time.
use super::{Filter, Item, Reader, Want};
use crate::p4runtime::controller_state::{ControllerState, Group};
use crate::p4runtime::messages::arrays::unpack;
use crate::p4runtime::messages::{actions, arrays, matches};
use crate::p4runtime::proto::p4::v1::{self as pb, Entity, entity::Entity as E};
use crate::p4runtime::stream::digests::Settings;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use weir_p4::bytecode::program as ir;
use weir_p4::exec::{EntryAction, EntryId, EntryState, Member, place_of};
use weir_p4::p4info::{self as info, Preambled};

/// Size limit of one piece: items looked at, and entities found.
const PIECE_LOOKS: usize = 2048;
const PIECE_ENTITIES: usize = 128;

impl Reader<'_> {
    fn fits(&self, t: &info::Table, id: EntryId, x: &EntryState, f: &Filter) -> bool {
        let note = self.controller.note(t.ir_index, id);
        let call = match &x.action {
            EntryAction::Call(c) => Some(c.action),
            _ => None,
        };
        (f.action.is_none() || call == f.action)
            && f.keys.as_ref().is_none_or(|k| *k == x.keys)
            && (f.priority == 0 || matches::priority_message(x.priority) == f.priority)
            && (f.controller_metadata == 0 || note.is_some_and(|n| n.controller_metadata == f.controller_metadata))
            && (f.metadata.is_empty() || note.is_some_and(|n| n.metadata == f.metadata))
    }

    /// Entities of an item, a piece of them; returns the rest of it.
    pub fn emit(&self, item: Item, out: &mut Vec<Entity>) -> Option<Item> {
        let one = match item {
            Item::Entries(at, places, filter, want) => return self.emit_entries(at, places, filter, want, out),
            Item::Members(at, from) => return self.emit_members(at, from, out),
            Item::Groups(at, from) => return self.emit_groups(at, from, out),
            Item::Multicasts(from) => {
                let last = emit_range(&self.controller.multicast, from, out, |_, g| Some(multicast_group(g)))?;
                return Some(Item::Multicasts(Bound::Excluded(last)));
            }
            Item::Clones(from) => {
                let last = emit_range(&self.controller.clones, from, out, |_, c| Some(clone_session(c)))?;
                return Some(Item::Clones(Bound::Excluded(last)));
            }
            Item::Counter(at, range) => return self.emit_counters(at, range, out),
            Item::Meter(at, range) => return self.emit_meters(at, range, out),
            Item::Register(at, range) => return self.emit_registers(at, range, out),
            Item::Default(at, want) => {
                let (t, ir) = self.ir(at);
                Some(self.default_entry(t, ir, want))
            }
            Item::Member(at, id) => {
                let p = &self.config.program.info.action_profiles[at];
                self.state.profiles[p.ir_index].members.get(&id).map(|m| self.member(p, id, m))
            }
            Item::Group(at, id) => {
                let p = &self.config.program.info.action_profiles[at];
                self.controller.groups[p.ir_index].get(&id).map(|g| group(p, id, g))
            }
            Item::Multicast(id) => self.controller.multicast.get(&id).map(multicast_group),
            Item::Clone(id) => self.controller.clones.get(&id).map(clone_session),
            Item::ValueSet(at) => {
                let v = &self.config.program.info.value_sets[at];
                let members = self.controller.value_sets[v.ir_index].clone();
                Some(E::ValueSetEntry(pb::ValueSetEntry { value_set_id: v.id(), members }))
            }
            Item::Digest(at) => self.controller.digests.get(&at).map(|s| self.digest(at, s)),
        };
        out.extend(one.map(entity));
        None
    }

    fn emit_entries(
        &self,
        at: usize,
        places: Range<usize>,
        filter: Arc<Filter>,
        want: Want,
        out: &mut Vec<Entity>,
    ) -> Option<Item> {
        let (t, ir) = self.ir(at);
        let look = places.start..places.end.min(places.start + PIECE_LOOKS);
        let (mut next, mut found) = (look.end, 0);
        for (id, x) in self.state.tables[t.ir_index].entries_in(look) {
            if !self.fits(t, id, x, &filter) {
                continue;
            }
            out.push(entity(self.entry(t, ir, id, x, want)));
            found += 1;
            if found == PIECE_ENTITIES {
                next = place_of(id) + 1;
                break;
            }
        }
        (next < places.end).then_some(Item::Entries(at, next..places.end, filter, want))
    }

    fn emit_members(&self, at: usize, from: Bound<u32>, out: &mut Vec<Entity>) -> Option<Item> {
        let p = &self.config.program.info.action_profiles[at];
        let members = &self.state.profiles[p.ir_index].members;
        let last =
            emit_range(members, from, out, |id, m| (!ControllerState::is_reserved(id)).then(|| self.member(p, id, m)))?;
        Some(Item::Members(at, Bound::Excluded(last)))
    }

    fn emit_groups(&self, at: usize, from: Bound<u32>, out: &mut Vec<Entity>) -> Option<Item> {
        let p = &self.config.program.info.action_profiles[at];
        let last = emit_range(&self.controller.groups[p.ir_index], from, out, |id, g| Some(group(p, id, g)))?;
        Some(Item::Groups(at, Bound::Excluded(last)))
    }

    fn emit_counters(&self, at: usize, range: Range<usize>, out: &mut Vec<Entity>) -> Option<Item> {
        let (range, left) = cut(range);
        let c = &self.config.program.info.counters[at];
        for (i, counts) in range.clone().zip(&self.state.counters[c.ir_index][range]) {
            let (counter_id, data) = (c.id(), Some(arrays::counts_message(*counts)));
            out.push(entity(E::CounterEntry(pb::CounterEntry { counter_id, index: index(i), data })));
        }
        left.map(|r| Item::Counter(at, r))
    }

    fn emit_meters(&self, at: usize, range: Range<usize>, out: &mut Vec<Entity>) -> Option<Item> {
        let (range, left) = cut(range);
        let m = &self.config.program.info.meters[at];
        for (i, cell) in range.clone().zip(&self.state.meters[m.ir_index][range]) {
            let (meter_id, config) = (m.id(), arrays::rates_message(cell));
            let entry = pb::MeterEntry { meter_id, index: index(i), config, counter_data: None };
            out.push(entity(E::MeterEntry(entry)));
        }
        left.map(|r| Item::Meter(at, r))
    }

    fn emit_registers(&self, at: usize, range: Range<usize>, out: &mut Vec<Entity>) -> Option<Item> {
        let (range, left) = cut(range);
        let r = &self.config.program.info.registers[at];
        let layout = &self.config.registers[at];
        let mut widths = Vec::new();
        layout.leaves(&mut widths);
        for i in range {
            if let Some(cell) = self.state.register_get(r.ir_index, i) {
                let data = Some(layout.encode(&mut unpack(&cell, &widths).into_iter()));
                let entry = pb::RegisterEntry { register_id: r.id(), index: index(i), data };
                out.push(entity(E::RegisterEntry(entry)));
            }
        }
        left.map(|r| Item::Register(at, r))
    }

    fn member(&self, p: &info::ActionProfile, member_id: u32, m: &Member) -> E {
        let action = actions::member_message(&self.config.program, p, m);
        E::ActionProfileMember(pb::ActionProfileMember { action_profile_id: p.id(), member_id, action })
    }

    fn digest(&self, at: usize, s: &Settings) -> E {
        let config = pb::digest_entry::Config {
            max_timeout_ns: s.max_timeout_ns as i64,
            max_list_size: s.max_list_size as i32,
            ack_timeout_ns: s.ack_timeout_ns as i64,
        };
        let digest_id = self.config.program.info.digests[at].id();
        E::DigestEntry(pb::DigestEntry { digest_id, config: Some(config) })
    }

    pub(super) fn key_of(&self, t: &info::Table, ir: &ir::Table, x: &EntryState) -> pb::TableEntry {
        let ordered = weir_p4::bytecode::program::needs_priority(ir);
        pb::TableEntry {
            table_id: t.id(),
            r#match: matches::key_messages(matches::table_shapes(&self.config.program, t), &x.keys),
            priority: if ordered { matches::priority_message(x.priority) } else { 0 },
            ..Default::default()
        }
    }

    fn entry(&self, t: &info::Table, ir: &ir::Table, id: EntryId, x: &EntryState, want: Want) -> E {
        use pb::table_action::Type as A;
        let key = self.key_of(t, ir, x);
        let counts = arrays::counts_message((x.packets, x.bytes));
        let (counter, meter, idle) = match want {
            Want::Entry { counter, meter, idle } => (counter, meter, idle && ir.idle_timeout),
            Want::Counter => {
                return E::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data: Some(counts) });
            }
            Want::Meter => {
                let config = arrays::rates_message(&x.meter);
                return E::DirectMeterEntry(pb::DirectMeterEntry {
                    table_entry: Some(key),
                    config,
                    counter_data: None,
                });
            }
        };
        let note = self.controller.note(t.ir_index, id);
        let action = match (&x.action, note.and_then(|n| n.one_shot.as_ref())) {
            (_, Some(shot)) => Some(A::ActionProfileActionSet(shot.set.clone())),
            (EntryAction::Call(c), _) => actions::call_message(&self.config.program, t, c).map(A::Action),
            (EntryAction::Member(m), _) => Some(A::ActionProfileMemberId(*m)),
            (EntryAction::Group(g), _) => Some(A::ActionProfileGroupId(*g)),
        };
        E::TableEntry(pb::TableEntry {
            action: action.map(|a| pb::TableAction { r#type: Some(a) }),
            controller_metadata: note.map_or(0, |n| n.controller_metadata),
            metadata: note.map_or_else(Vec::new, |n| n.metadata.clone()),
            is_const: x.is_const,
            idle_timeout_ns: note.and_then(|n| n.idle).map_or(0, |i| i.timeout_ns),
            time_since_last_hit: idle.then(|| pb::table_entry::IdleTimeout {
                elapsed_ns: self.state.idle_us(x, self.now_us).saturating_mul(1000) as i64,
            }),
            counter_data: (counter && ir.counter.is_some()).then_some(counts),
            meter_config: if meter && ir.meter.is_some() { arrays::rates_message(&x.meter) } else { None },
            ..key
        })
    }

    fn default_entry(&self, t: &info::Table, ir: &ir::Table, want: Want) -> E {
        let state = &self.state.tables[t.ir_index];
        let key = pb::TableEntry { table_id: t.id(), is_default_action: true, ..Default::default() };
        let counts = arrays::counts_message(state.misses);
        let Want::Entry { counter, .. } = want else {
            return E::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data: Some(counts) });
        };
        let action = match &state.default {
            EntryAction::Call(c) => actions::call_message(&self.config.program, t, c),
            _ => None,
        };
        let note = &self.controller.defaults[t.ir_index];
        E::TableEntry(pb::TableEntry {
            action: action.map(|a| pb::TableAction { r#type: Some(pb::table_action::Type::Action(a)) }),
            controller_metadata: note.controller_metadata,
            metadata: note.metadata.clone(),
            counter_data: (counter && ir.counter.is_some()).then_some(counts),
            ..key
        })
    }
}

fn entity(e: E) -> Entity {
    Entity { entity: Some(e) }
}

fn index(i: usize) -> Option<pb::Index> {
    Some(pb::Index { index: i as i64 })
}

/// The first cells of a range, and the others.
fn cut(range: Range<usize>) -> (Range<usize>, Option<Range<usize>>) {
    let end = range.end.min(range.start + PIECE_ENTITIES);
    (range.start..end, (end < range.end).then_some(end..range.end))
}

/// Entities of the first things in a map; gives the last id looked at when more are left.
fn emit_range<T>(
    map: &BTreeMap<u32, T>,
    from: Bound<u32>,
    out: &mut Vec<Entity>,
    one: impl Fn(u32, &T) -> Option<E>,
) -> Option<u32> {
    let mut left = map.range((from, Bound::Unbounded));
    let mut last = None;
    for (id, x) in left.by_ref().take(PIECE_ENTITIES) {
        last = Some(*id);
        out.extend(one(*id, x).map(entity));
    }
    left.next().and(last)
}

fn group(p: &info::ActionProfile, group_id: u32, g: &Group) -> E {
    let member = |(member_id, weight): &(u32, i32)| pb::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    };
    E::ActionProfileGroup(pb::ActionProfileGroup {
        action_profile_id: p.id(),
        group_id,
        members: g.members.iter().map(member).collect(),
        max_size: g.max_size,
    })
}

fn multicast_group(g: &pb::MulticastGroupEntry) -> E {
    let r#type = Some(pb::packet_replication_engine_entry::Type::MulticastGroupEntry(g.clone()));
    E::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
}

fn clone_session(c: &pb::CloneSessionEntry) -> E {
    let r#type = Some(pb::packet_replication_engine_entry::Type::CloneSessionEntry(c.clone()));
    E::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
}
