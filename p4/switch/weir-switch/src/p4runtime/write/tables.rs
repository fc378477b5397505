// SPDX-License-Identifier: Apache-2.0
//! Entries of tables, and their default entries (9.1).
use super::{Writer, only_modify};
use crate::p4runtime::controller_state::{ControllerState, Idle, Note, OneShot};
use crate::p4runtime::messages::error::{At, Fail, Res, denied, exhausted, invalid, not_found, unimplemented};
use crate::p4runtime::messages::{actions, arrays, matches};
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use tonic::Code;
use weir_p4::bytecode::program::{self as ir, KeyMatch};
use weir_p4::exec::{EntryAction, EntryId, MeterCell};
use weir_p4::p4info::{self as info, Preambled};

/// An entry as it was before a change.
struct Before {
    action: EntryAction,
    counts: (u64, u64),
    meter: MeterCell,
    last_hit_us: u64,
    note: Note,
}

/// Fields of an entry that only controllers read.
fn note_of(e: &pb::TableEntry) -> Note {
    Note { controller_metadata: e.controller_metadata, metadata: e.metadata.clone(), one_shot: None, idle: Idle::of(e) }
}

impl Writer<'_> {
    pub(super) fn table_entry(&mut self, kind: Type, e: &pb::TableEntry) -> Res<()> {
        let (t, ir) = self.table(e.table_id)?;
        if kind != Type::Delete {
            self.entry_extras(t, ir, e)?;
        }
        if e.is_default_action {
            return self.default_entry(kind, t, ir, e);
        }
        if ir.keys.iter().all(|k| k.kind == ir::MatchKind::Selector) {
            return Err(invalid(format!("table {} has no key; only its default entry can be set", t.name())));
        }
        let keys =
            matches::keys(matches::table_shapes(&self.config.program, t), &e.r#match, &format!("table {}", t.name()))?;
        let rank = matches::rank(ir, e.priority)?;
        let name = t.name();
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

    /// Checks the parts of an entry besides key and action.
    fn entry_extras(&self, t: &info::Table, ir: &ir::Table, e: &pb::TableEntry) -> Res<()> {
        let name = t.name();
        if e.is_const {
            return Err(invalid("must be false; constant entries come with the program").under("is_const"));
        }
        matches::idle_fields(t, e)?;
        if e.time_since_last_hit.is_some() {
            return Err(invalid("must be unset in a write").under("time_since_last_hit"));
        }
        if e.idle_timeout_ns < 0 {
            return Err(invalid(format!("{} is negative", e.idle_timeout_ns)).under("idle_timeout_ns"));
        }
        if let Some(c) = &e.meter_config {
            if ir.meter.is_none() {
                return Err(invalid(format!("table {name} has no direct meter")).under("meter_config"));
            }
            arrays::rates(c).at(|| "meter_config")?;
        }
        if let Some(c) = &e.counter_data {
            if ir.counter.is_none() {
                return Err(invalid(format!("table {name} has no direct counter")).under("counter_data"));
            }
            arrays::counts(c).at(|| "counter_data")?;
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
        let name = t.name();
        let Some(a) = &a.r#type else { return Err(invalid("is unset")) };
        if t.implementation_id == 0 {
            return match a {
                A::Action(a) => Ok((EntryAction::Call(actions::call(&self.config.program, t, a, false)?), None)),
                _ => Err(invalid(format!("table {name} has no action profile; it takes an action"))),
            };
        }
        let p = self.profile(t.implementation_id)?;
        let state = &self.state.profiles[p.ir_index];
        let profile = p.name();
        match a {
            A::Action(_) => Err(invalid(format!("table {name} takes members or groups of action profile {profile}"))),
            A::ActionProfileMemberId(id) if state.members.contains_key(id) && !ControllerState::is_reserved(*id) => {
                Ok((EntryAction::Member(*id), None))
            }
            A::ActionProfileMemberId(id) => Err(not_found(format!("action profile {profile} has no member {id}"))),
            _ if !p.with_selector => {
                Err(invalid(format!("action profile {profile} is no selector; table {name} takes members of it")))
            }
            A::ActionProfileGroupId(id) if state.groups.contains_key(id) && !ControllerState::is_reserved(*id) => {
                Ok((EntryAction::Group(*id), None))
            }
            A::ActionProfileGroupId(id) => Err(not_found(format!("action profile {profile} has no group {id}"))),
            A::ActionProfileActionSet(set) => {
                let old = old.and_then(|id| self.controller.note(t.ir_index, id)?.one_shot.as_ref());
                let freed = old.map_or(0, |shot| shot.members.len());
                let shot = self.one_shot(p, set, freed).at(|| "action_profile_action_set")?;
                Ok((EntryAction::Group(shot.group), Some(Box::new(shot))))
            }
        }
    }

    fn before(&self, table: usize, id: EntryId) -> Option<Before> {
        let e = self.state.tables[table].entry(id)?;
        Some(Before {
            action: e.action.clone(),
            counts: (e.packets, e.bytes),
            meter: e.meter.clone(),
            last_hit_us: e.last_hit_us,
            note: self.controller.note(table, id).cloned().unwrap_or_default(),
        })
    }

    /// Keeps an entry as it is now, or its absence, for a batch that is taken back.
    pub(super) fn remember(&mut self, table: usize, keys: &[KeyMatch], rank: i64) {
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
            self.drop_one_shot(self.controller.note(table, id).cloned());
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
            e.last_hit_us = before.last_hit_us;
        }
        self.controller.set_note(table, id, before.note);
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
        self.controller.set_note(table, id, Note { one_shot, ..note_of(e) });
        self.restart_idle(table, id);
        self.direct(table, id, e)
    }

    /// Direct counter and meter as an entry's message sets them (9.1.6).
    fn modify(
        &mut self,
        table: usize,
        id: EntryId,
        change: Option<(EntryAction, Option<Box<OneShot>>)>,
        e: &pb::TableEntry,
    ) -> Res<()> {
        let ir = &self.config.program.tables[table];
        let old = self.controller.note(table, id).cloned();
        let mut note = note_of(e);
        // As in BMv2 another timeout begins now, the same one goes on.
        let old_idle = old.as_ref().and_then(|n| n.idle);
        match (old_idle, &mut note.idle) {
            (Some(was), Some(is)) if was.timeout_ns == is.timeout_ns => *is = was,
            (None, None) => {}
            _ => self.restart_idle(table, id),
        }
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
        self.controller.set_note(table, id, note);
        self.direct(table, id, e)
    }

    pub(super) fn restart_idle(&mut self, table: usize, id: EntryId) {
        if let Some(x) = self.state.tables[table].entry_mut(id) {
            x.last_hit_us = self.now_us;
        }
    }

    pub fn remove(&mut self, table: usize, id: EntryId) -> Res<()> {
        let ir = &self.config.program.tables[table];
        self.state.tables[table].remove(ir, id)?;
        let note = self.controller.take_note(table, id);
        self.drop_one_shot(note);
        Ok(())
    }

    fn default_entry(&mut self, kind: Type, t: &info::Table, ir: &ir::Table, e: &pb::TableEntry) -> Res<()> {
        let name = t.name();
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
                    EntryAction::Call(actions::call(&self.config.program, t, a, true).at(|| "action")?)
                }
                _ => return Err(invalid("must be an action for the default entry").under("action")),
            },
        };
        let i = t.ir_index;
        let old =
            (self.state.tables[i].default.clone(), self.state.tables[i].misses, self.controller.defaults[i].clone());
        self.on_undo(move |w| {
            w.state.tables[i].set_default(&w.config.program.tables[i], old.0)?;
            w.state.tables[i].misses = old.1;
            w.controller.defaults[i] = old.2;
            Ok(())
        });
        self.state.tables[i].set_default(ir, action)?;
        if let Some(c) = &e.counter_data {
            self.state.tables[i].misses = arrays::counts(c)?;
        }
        self.controller.defaults[i] = match e.action {
            Some(_) => note_of(e),
            // Reset: as the program has it (9.1.3).
            None => Note::default(),
        };
        Ok(())
    }
}
