// SPDX-License-Identifier: Apache-2.0
//! Changes by place instead of by message, for another server of this process. Callers check what they change; these
//! functions keep the controllers' state consistent with the data plane's. None is undone.
use super::Writer;
use super::replication::CLONE_GROUP;
use crate::p4runtime::controller_state::Idle;
use crate::p4runtime::messages::bytes::canonical;
use crate::p4runtime::proto::p4::v1 as pb;
use weir_p4::bytecode::program::KeyMatch;
use weir_p4::exec::{ChangeError, EntryAction, EntryId, Mirror};
use weir_p4::value::Val;

impl Writer<'_> {
    /// Adds an entry to a table.
    ///
    /// # Errors
    /// As [`weir_p4::exec::TableState::insert`].
    pub fn add_entry(
        &mut self,
        table: usize,
        keys: Vec<KeyMatch>,
        rank: i64,
        action: EntryAction,
    ) -> Result<EntryId, ChangeError> {
        let id = self.state.tables[table].insert(&self.config.program.tables[table], keys, rank, action)?;
        self.restart_idle(table, id);
        Ok(id)
    }

    /// Changes an entry's action; counters, meter and timeout stay.
    ///
    /// # Errors
    /// As [`weir_p4::exec::TableState::modify`].
    pub fn set_action(&mut self, table: usize, id: EntryId, action: EntryAction) -> Result<(), ChangeError> {
        self.state.tables[table].modify(&self.config.program.tables[table], id, action)?;
        let mut note = self.controller.note(table, id).cloned().unwrap_or_default();
        if note.one_shot.is_some() {
            self.drop_one_shot(Some(note.clone()));
            note.one_shot = None;
            self.controller.set_note(table, id, note);
        }
        Ok(())
    }

    /// Sets an entry's idle timeout, 0 for none, and restarts it.
    pub fn set_timeout(&mut self, table: usize, id: EntryId, timeout_ms: u32) {
        let mut note = self.controller.note(table, id).cloned().unwrap_or_default();
        let timeout_ns = i64::from(timeout_ms) * 1_000_000;
        note.idle = (timeout_ms > 0).then_some(Idle { timeout_ns, notified_us: 0 });
        self.controller.set_note(table, id, note);
        self.restart_idle(table, id);
    }

    /// Sets the default action of a table.
    ///
    /// # Errors
    /// As [`weir_p4::exec::TableState::set_default`].
    pub fn set_default(&mut self, table: usize, action: EntryAction) -> Result<(), ChangeError> {
        self.state.tables[table].set_default(&self.config.program.tables[table], action)?;
        self.controller.defaults[table] = Default::default();
        Ok(())
    }

    /// Gives a multicast group the copies of its nodes, after a change of these.
    pub fn refresh_group(&mut self, id: u32) {
        if self.controller.nodes.group(id).is_none() {
            self.state.groups.remove(&id);
            self.controller.multicast.remove(&id);
            return;
        }
        let copies = self.controller.nodes.replicas(id);
        let one = |rid: u32, port: &u32| pb::Replica {
            instance: rid,
            port_kind: Some(pb::replica::PortKind::Port(canonical(&Val::from(u128::from(*port))))),
            ..Default::default()
        };
        let replicas = copies.iter().flat_map(|(rid, ports)| ports.iter().map(|p| one(*rid, p))).collect();
        let entry = pb::MulticastGroupEntry { multicast_group_id: id, replicas, ..Default::default() };
        self.controller.multicast.insert(id, entry);
        self.state.groups.insert(id, copies);
    }

    /// Sets or removes a clone session; returns whether it existed. P4Runtime sees those with a port.
    pub fn set_mirror(&mut self, id: u32, mirror: Option<Mirror>) -> bool {
        self.state.groups.remove(&(CLONE_GROUP | id));
        self.controller.clones.remove(&id);
        let Some(mirror) = mirror else { return self.state.mirrors.remove(&id).is_some() };
        if let (Some(port), None, 1..) = (mirror.port, mirror.group, id) {
            let port = canonical(&Val::from(u128::from(port)));
            let replica = pb::Replica { port_kind: Some(pb::replica::PortKind::Port(port)), ..Default::default() };
            let entry = pb::CloneSessionEntry { session_id: id, replicas: vec![replica], ..Default::default() };
            self.controller.clones.insert(id, entry);
        }
        self.state.mirrors.insert(id, mirror).is_some()
    }

    /// Port and multicast group of a clone session. A session of P4Runtime with one replica has its port.
    pub fn mirror(&self, id: u32) -> Option<(Option<u32>, Option<u32>)> {
        let mirror = self.state.mirrors.get(&id)?;
        let single =
            mirror.group.filter(|g| *g == CLONE_GROUP | id).and_then(|g| match self.state.groups.get(&g)?[..] {
                [(_, ref ports)] if ports.len() == 1 => Some(ports[0]),
                _ => None,
            });
        Some(single.map_or((mirror.port, mirror.group), |port| (Some(port), None)))
    }

    /// Replaces the members of a value set; each has a value for every field.
    pub fn set_value_set(&mut self, set: usize, members: &[Vec<Val>]) {
        let widths = &self.config.program.value_sets[set].widths;
        let fields = self.config.program.info.value_sets.iter().find(|v| v.ir_index == set).map(|v| &v.r#match);
        let message = |values: &Vec<Val>| pb::ValueSetMember {
            r#match: fields.into_iter().flatten().zip(values).map(|(f, v)| exact(f.id, v)).collect(),
        };
        self.controller.value_sets[set] = members.iter().map(message).collect();
        let masked = |values: &Vec<Val>| values.iter().cloned().zip(widths.iter().map(|w| Val::all_ones(*w))).collect();
        self.state.value_sets[set] = members.iter().map(masked).collect();
    }
}

fn exact(field_id: u32, value: &Val) -> pb::FieldMatch {
    let exact = pb::field_match::Exact { value: canonical(value) };
    pb::FieldMatch { field_id, field_match_type: Some(pb::field_match::FieldMatchType::Exact(exact)) }
}
