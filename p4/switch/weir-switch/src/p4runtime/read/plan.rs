// SPDX-License-Identifier: Apache-2.0
//! Plan of a read request.
use super::{Filter, Item, Reader, Want};
use crate::p4runtime::controller_state::ControllerState;
use crate::p4runtime::messages::arrays::cells;
use crate::p4runtime::messages::error::{At, Res, invalid, not_found, unimplemented};
use crate::p4runtime::messages::{ids, matches};
use crate::p4runtime::proto::p4::v1::{self as pb, Entity, entity::Entity as E};
use std::ops::Bound;
use std::sync::Arc;
use weir_p4::bytecode::program::{self as ir, KeyMatch};
use weir_p4::exec::place_of;
use weir_p4::p4info::{self as info, Preambled};

/// Ids by a request's number, 0 for all.
fn chosen<'a, T: Preambled>(list: &'a [T], id: u32, what: &str) -> Res<Vec<(usize, &'a T)>> {
    if id == 0 {
        return Ok(list.iter().enumerate().collect());
    }
    Ok(vec![ids::object(list, id, what)?])
}

impl Reader<'_> {
    /// Adds the items that a request asks for; an id of 0 means all.
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
            E::ActionProfileMember(e) => self.members(e, out).at(|| "action_profile_member"),
            E::ActionProfileGroup(e) => self.groups(e, out).at(|| "action_profile_group"),
            E::CounterEntry(e) => self.counters(e, out).at(|| "counter_entry"),
            E::MeterEntry(e) => self.meters(e, out).at(|| "meter_entry"),
            E::RegisterEntry(e) => self.registers(e, out).at(|| "register_entry"),
            E::PacketReplicationEngineEntry(e) => self.replication(e, out).at(|| "packet_replication_engine_entry"),
            E::ValueSetEntry(e) => {
                let sets = chosen(&info.value_sets, e.value_set_id, "value_set").at(|| "value_set_entry")?;
                out.extend(sets.into_iter().map(|(at, _)| Item::ValueSet(at)));
                Ok(())
            }
            E::DigestEntry(e) => self.digests(e, out).at(|| "digest_entry"),
            // There are none, so all of them is nothing.
            E::ExternEntry(e) if e.extern_type_id == 0 => Ok(()),
            E::ExternEntry(_) => Err(unimplemented("v1model has no other externs").under("extern_entry")),
        }
    }

    fn members(&self, e: &pb::ActionProfileMember, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        for (at, p) in chosen(&info.action_profiles, e.action_profile_id, "action_profile")? {
            let members = &self.state.profiles[p.ir_index].members;
            if e.member_id == 0 {
                out.push(Item::Members(at, Bound::Unbounded));
            } else if e.action_profile_id == 0 {
                return Err(invalid("is unset, member_id is not").under("action_profile_id"));
            } else if members.contains_key(&e.member_id) && !ControllerState::is_reserved(e.member_id) {
                out.push(Item::Member(at, e.member_id));
            } else {
                let m = format!("action profile {} has no member {}", p.name(), e.member_id);
                return Err(not_found(m).under("member_id"));
            }
        }
        Ok(())
    }

    fn groups(&self, e: &pb::ActionProfileGroup, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        for (at, p) in chosen(&info.action_profiles, e.action_profile_id, "action_profile")? {
            let groups = &self.controller.groups[p.ir_index];
            if e.group_id == 0 {
                out.push(Item::Groups(at, Bound::Unbounded));
            } else if e.action_profile_id == 0 {
                return Err(invalid("is unset, group_id is not").under("action_profile_id"));
            } else if groups.contains_key(&e.group_id) {
                out.push(Item::Group(at, e.group_id));
            } else {
                let m = format!("action profile {} has no group {}", p.name(), e.group_id);
                return Err(not_found(m).under("group_id"));
            }
        }
        Ok(())
    }

    fn counters(&self, e: &pb::CounterEntry, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        whole(e.counter_id, &e.index)?;
        for (at, c) in chosen(&info.counters, e.counter_id, "counter")? {
            let range = cells(&e.index, self.state.counters[c.ir_index].len())?;
            out.push(Item::Counter(at, range));
        }
        Ok(())
    }

    fn meters(&self, e: &pb::MeterEntry, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        if e.counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("counter_data"));
        }
        whole(e.meter_id, &e.index)?;
        for (at, m) in chosen(&info.meters, e.meter_id, "meter")? {
            let range = cells(&e.index, self.state.meters[m.ir_index].len())?;
            out.push(Item::Meter(at, range));
        }
        Ok(())
    }

    fn registers(&self, e: &pb::RegisterEntry, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        whole(e.register_id, &e.index)?;
        for (at, r) in chosen(&info.registers, e.register_id, "register")? {
            let range = cells(&e.index, self.state.register_size(r.ir_index))?;
            out.push(Item::Register(at, range));
        }
        Ok(())
    }

    fn digests(&self, e: &pb::DigestEntry, out: &mut Vec<Item>) -> Res<()> {
        let info = &self.config.program.info;
        for (at, d) in chosen(&info.digests, e.digest_id, "digest")? {
            if self.controller.digests.contains_key(&at) {
                out.push(Item::Digest(at));
            } else if e.digest_id != 0 {
                return Err(not_found(format!("digest {} is not enabled", d.name())));
            }
        }
        Ok(())
    }

    fn replication(&self, e: &pb::PacketReplicationEngineEntry, out: &mut Vec<Item>) -> Res<()> {
        use pb::packet_replication_engine_entry::Type as T;
        match &e.r#type {
            Some(T::MulticastGroupEntry(g)) if g.multicast_group_id == 0 => {
                out.push(Item::Multicasts(Bound::Unbounded));
            }
            Some(T::MulticastGroupEntry(g)) if self.controller.multicast.contains_key(&g.multicast_group_id) => {
                out.push(Item::Multicast(g.multicast_group_id));
            }
            Some(T::MulticastGroupEntry(g)) => {
                let m = format!("there is no multicast group {}", g.multicast_group_id);
                return Err(not_found(m).under("multicast_group_entry.multicast_group_id"));
            }
            Some(T::CloneSessionEntry(c)) if c.session_id == 0 => {
                out.push(Item::Clones(Bound::Unbounded));
            }
            Some(T::CloneSessionEntry(c)) if self.controller.clones.contains_key(&c.session_id) => {
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

    /// Entries of tables (9.1.5).
    fn entries(&self, e: &pb::TableEntry, out: &mut Vec<Item>) -> Res<()> {
        let want = Want::Entry {
            counter: e.counter_data.is_some(),
            meter: e.meter_config.is_some(),
            idle: e.time_since_last_hit.is_some(),
        };
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
        for (at, t) in chosen(&info.tables, e.table_id, "table")? {
            // A wildcard asks for the time where there is one.
            if e.table_id != 0 || e.is_default_action {
                matches::idle_fields(t, e)?;
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
                Some(id) => match t.action_refs.iter().position(|r| r.id == id) {
                    Some(at) => Some(at),
                    None => {
                        let m = format!("{} is no action of table {}", ids::hex(id), t.name());
                        return Err(invalid(m).under("action.action_id"));
                    }
                },
                None => None,
            };
            let filter = Filter {
                keys: self.wanted_keys(t, e)?,
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
    fn wanted_keys(&self, t: &info::Table, e: &pb::TableEntry) -> Res<Option<Vec<KeyMatch>>> {
        if e.r#match.is_empty() {
            return Ok(None);
        }
        let owner = format!("table {}", t.name());
        Ok(Some(
            matches::keys_if_known(matches::table_shapes(&self.config.program, t), &e.r#match, &owner)?
                .unwrap_or_default(),
        ))
    }

    /// The entries of a table to read: all of them, unless the index gives the one that is meant.
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

    fn direct(&self, e: &Option<pb::TableEntry>, want: Want, out: &mut Vec<Item>) -> Res<()> {
        let Some(e) = e else { return Err(invalid("is unset")) };
        let info = &self.config.program.info;
        for (at, _) in chosen(&info.tables, e.table_id, "table")? {
            let (t, ir) = self.ir(at);
            let has = if want == Want::Counter { ir.counter.is_some() } else { ir.meter.is_some() };
            if !has && e.table_id == 0 {
                continue;
            }
            if !has {
                let what = if want == Want::Counter { "counter" } else { "meter" };
                return Err(invalid(format!("table {} has no direct {what}", t.name())));
            }
            if e.is_default_action {
                if want == Want::Counter {
                    out.push(Item::Default(at, want));
                }
                continue;
            }
            let filter = Filter { keys: self.wanted_keys(t, e)?, priority: e.priority, ..Filter::default() };
            out.push(self.chosen_entries(t, ir, at, filter, want));
        }
        Ok(())
    }

    /// Why an item of which nothing came is an error: it names one entry, and there is no such entry.
    pub fn missing(&self, item: &Item) -> Res<()> {
        match item {
            Item::Entries(at, _, f, Want::Counter | Want::Meter) if f.keys.is_some() => {
                let (t, _) = self.ir(*at);
                Err(not_found(format!("table {} has no entry with this match", t.name())))
            }
            _ => Ok(()),
        }
    }
}

/// An index without the id of its array means nothing.
fn whole(id: u32, index: &Option<pb::Index>) -> Res<()> {
    if id == 0 && index.is_some() {
        return Err(invalid("is set, but no id beside it").under("index"));
    }
    Ok(())
}
