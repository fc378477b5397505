// SPDX-License-Identifier: Apache-2.0
//! Updates of a batch, applied to a program's state on the packet thread. One file for each kind of entity; the
//! controllers' part of an entity is kept in the [`ControllerState`].
mod action_profiles;
mod arrays;
mod digests;
mod direct;
mod direct_access;
mod one_shot;
pub mod replication;
mod tables;
mod value_sets;

use super::controller_state::ControllerState;
use super::messages::error::{At, Fail, Res, invalid, unimplemented};
use super::messages::ids;
use super::pipeline::Config;
use super::proto::p4::v1::{self as pb, entity::Entity, update::Type};
use tonic::Code;
use weir_p4::bytecode::program as ir;
use weir_p4::exec::State;
use weir_p4::p4info as info;

type Undo = Box<dyn FnOnce(&mut Writer<'_>) -> Res<()>>;

pub struct Writer<'a> {
    pub config: &'a Config,
    pub state: &'a mut State,
    pub controller: &'a mut ControllerState,
    pub now_us: u64,
    /// Undo log, when the batch may have to be undone.
    undo: Option<Vec<Undo>>,
}

fn only_modify(kind: Type, what: &str) -> Res<()> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(invalid(format!("{what} can only be modified, not inserted or deleted")).under("type")),
    }
}

impl<'a> Writer<'a> {
    pub fn new(
        config: &'a Config,
        state: &'a mut State,
        controller: &'a mut ControllerState,
        now_us: u64,
    ) -> Writer<'a> {
        Writer { config, state, controller, now_us, undo: None }
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
        let (_, t) = ids::object(&config.program.info.tables, id, "table")?;
        Ok((t, &config.program.tables[t.ir_index]))
    }

    fn profile(&self, id: u32) -> Res<&'a info::ActionProfile> {
        let list = &self.config.program.info.action_profiles;
        Ok(ids::object(list, id, "action_profile")?.1)
    }
}
