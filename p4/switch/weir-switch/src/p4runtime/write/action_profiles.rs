// SPDX-License-Identifier: Apache-2.0
//! Members and groups of action profiles (9.2).
use super::Writer;
use crate::p4runtime::controller_state::{ControllerState, Group, RESERVED};
use crate::p4runtime::messages::actions;
use crate::p4runtime::messages::error::{At, Fail, Res, exhausted, invalid, not_found, precondition, unimplemented};
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use std::collections::BTreeSet;
use tonic::Code;
use weir_p4::exec::{EntryAction, Member};
use weir_p4::p4info::proto::action_profile::SelectorSizeSemantics;
use weir_p4::p4info::{self as info, Preambled};

/// Members of a group, each as often as its weight says.
const MAX_WEIGHTS: i64 = 65536;

/// Refusal of entries of both styles in one selector (9.2.3).
pub(super) fn mixed(profile: &str) -> Fail {
    invalid(format!(
        "the entries of action selector {profile} are either one-shot action sets, or members and groups; delete those \
         of one style before the other is used"
    ))
}

impl Writer<'_> {
    fn has_one_shots(&self, profile: usize) -> bool {
        let p = &self.state.profiles[profile];
        p.members.range(RESERVED..).next().is_some() || p.groups.range(RESERVED..).next().is_some()
    }

    pub(super) fn has_members_or_groups(&self, profile: usize) -> bool {
        let p = &self.state.profiles[profile];
        p.members.range(..RESERVED).next().is_some() || p.groups.range(..RESERVED).next().is_some()
    }

    pub(super) fn member(&mut self, kind: Type, e: &pb::ActionProfileMember) -> Res<()> {
        let p = self.profile(e.action_profile_id)?;
        let (i, id, name) = (p.ir_index, e.member_id, p.name());
        let size = self.config.program.profiles[i].size;
        if id == 0 || ControllerState::is_reserved(id) {
            return Err(invalid(format!("{id} is not between 1 and {}", RESERVED - 1)).under("member_id"));
        }
        let member = match (&e.action, kind) {
            (_, Type::Delete) => None,
            (Some(a), _) => Some(actions::member(&self.config.program, p, a).at(|| "action")?),
            (None, _) => return Err(invalid("is unset").under("action")),
        };
        let old = self.state.profiles[i].members.get(&id).cloned();
        match (kind, old.is_some()) {
            (Type::Insert, true) => {
                let m = format!("action profile {name} has a member {id}");
                return Err(Fail::new(Code::AlreadyExists, m).under("member_id"));
            }
            (Type::Insert, false) if p.with_selector && self.has_one_shots(i) => return Err(mixed(name)),
            (Type::Insert, false) if self.state.profiles[i].members.len() as u64 >= size => {
                return Err(exhausted(format!("action profile {name} is full ({size} members)")));
            }
            (Type::Modify | Type::Delete, false) => {
                return Err(not_found(format!("action profile {name} has no member {id}")).under("member_id"));
            }
            (Type::Delete, true) => {
                let in_group = self.controller.groups[i].iter().find(|(_, g)| g.members.iter().any(|(m, _)| *m == id));
                if let Some((group, _)) = in_group {
                    return Err(precondition(format!("group {group} has member {id}")).under("member_id"));
                }
                self.unused(p, &EntryAction::Member(id), "member_id")?;
            }
            _ => {}
        }
        self.put_member(i, id, member);
        self.on_undo(move |w| {
            w.put_member(i, id, old);
            Ok(())
        });
        Ok(())
    }

    pub fn put_member(&mut self, profile: usize, id: u32, member: Option<Member>) {
        let (members, handles) = (&mut self.state.profiles[profile].members, &mut self.controller.handles[profile]);
        match member {
            Some(m) => {
                members.insert(id, m);
                handles.insert(id);
            }
            None => {
                members.remove(&id);
                handles.remove(id);
            }
        }
    }

    /// No table's entry runs it.
    fn unused(&self, p: &info::ActionProfile, action: &EntryAction, field: &str) -> Res<()> {
        for id in &p.table_ids {
            let (t, _) = self.table(*id)?;
            if self.state.tables[t.ir_index].entries().any(|(_, e)| e.action == *action) {
                let m = format!("an entry of table {} runs it", t.name());
                return Err(precondition(m).under(field));
            }
        }
        Ok(())
    }

    pub(super) fn group(&mut self, kind: Type, e: &pb::ActionProfileGroup) -> Res<()> {
        let p = self.profile(e.action_profile_id)?;
        let (i, id, name) = (p.ir_index, e.group_id, p.name());
        if !p.with_selector {
            return Err(
                invalid(format!("action profile {name} is no selector and has no groups")).under("action_profile_id")
            );
        }
        if id == 0 || ControllerState::is_reserved(id) {
            return Err(invalid(format!("{id} is not between 1 and {}", RESERVED - 1)).under("group_id"));
        }
        let old = self.controller.groups[i].get(&id).cloned();
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
            (Type::Insert, None) if self.has_one_shots(i) => return Err(mixed(name)),
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
            if !state.members.contains_key(&id) || ControllerState::is_reserved(id) {
                let m = format!("action profile {} has no member {id}", p.name());
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

    pub fn put_group(&mut self, profile: usize, id: u32, group: Option<Group>) {
        let (state, controller) = (&mut self.state.profiles[profile].groups, &mut self.controller.groups[profile]);
        let old = controller.get(&id).map_or(&[][..], |g| &g.members);
        let new = group.as_ref().map_or(&[][..], |g| &g.members);
        let order = self.controller.handles[profile].regroup(old, new);
        match group {
            Some(g) => {
                state.insert(id, order);
                controller.insert(id, g);
                self.controller.group_handles[profile].insert(id);
            }
            None => {
                state.remove(&id);
                controller.remove(&id);
                self.controller.group_handles[profile].remove(id);
            }
        }
    }

    /// Checks the weights of a group's members.
    pub(super) fn weights(&self, p: &info::ActionProfile, weights: &[i32], max_size: i32, list: &str) -> Res<()> {
        let most = match &p.selector_size_semantics {
            Some(SelectorSizeSemantics::SumOfMembers(s)) => Some(s.max_member_weight),
            _ => None,
        };
        let mut sum = 0;
        for (i, w) in weights.iter().enumerate() {
            let place = || format!("{list}[{i}].weight");
            if *w <= 0 {
                return Err(invalid(format!("{w} is not above 0")).under(place()));
            }
            if let Some(m) = most
                && m > 0
                && *w > m
            {
                return Err(invalid(format!("{w} is above max_member_weight, {m}")).under(place()));
            }
            sum += i64::from(*w);
        }
        let size = if most.is_some() { weights.len() as i64 } else { sum };
        let what = if most.is_some() { "members" } else { "weights together" };
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
}
