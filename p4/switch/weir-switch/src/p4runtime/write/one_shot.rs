// SPDX-License-Identifier: Apache-2.0
//! One-shot action sets (9.2.3): a group and its members that belong to one table entry.
use super::Writer;
use super::action_profiles::mixed;
use crate::p4runtime::controller_state::{Note, OneShot, RESERVED};
use crate::p4runtime::messages::actions;
use crate::p4runtime::messages::error::{At, Res, exhausted, invalid, unimplemented};
use crate::p4runtime::proto::p4::v1 as pb;
use weir_p4::p4info::{self as info, Preambled};

impl Writer<'_> {
    /// Members and group for an action set, which takes the place of `freed` members; nothing is in the state yet.
    pub(super) fn one_shot(
        &mut self,
        p: &info::ActionProfile,
        set: &pb::ActionProfileActionSet,
        freed: usize,
    ) -> Res<OneShot> {
        if self.has_members_or_groups(p.ir_index) {
            return Err(mixed(p.name()));
        }
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
        let size = self.config.program.profiles[p.ir_index].size;
        if members as u64 > size {
            return Err(exhausted(format!("action profile {} has room for {size} members", p.name())));
        }
        let mut shot =
            OneShot { set: set.clone(), profile: p.ir_index, group: 0, members: Vec::new(), weights: Vec::new() };
        for (i, a) in set.action_profile_actions.iter().enumerate() {
            let place = || format!("action_profile_actions[{i}]");
            if a.watch_kind.is_some() {
                return Err(unimplemented("ports of members are not watched").under("watch_port").under(place()));
            }
            let Some(action) = &a.action else { return Err(invalid("is unset").under("action").under(place())) };
            let member = actions::member(&self.config.program, p, action).at(|| "action").at(place)?;
            let id = self.reserve(p.ir_index)?;
            shot.members.push((id, member));
            shot.weights.push((id, a.weight));
        }
        shot.group = self.reserve(p.ir_index)?;
        Ok(shot)
    }

    /// A number that no member or group of the profile has.
    fn reserve(&mut self, profile: usize) -> Res<u32> {
        let used = &self.state.profiles[profile];
        for _ in RESERVED..=u32::MAX {
            self.controller.last_reserved = self.controller.last_reserved.checked_add(1).unwrap_or(0).max(RESERVED);
            let id = self.controller.last_reserved;
            if !used.members.contains_key(&id) && !used.groups.contains_key(&id) {
                return Ok(id);
            }
        }
        Err(exhausted("no more ids for one-shot action sets"))
    }

    pub(super) fn put_one_shot(&mut self, shot: &OneShot) {
        let profile = &mut self.state.profiles[shot.profile];
        profile.members.extend(shot.members.iter().cloned());
        let order = self.controller.handles[shot.profile].regroup(&[], &shot.weights);
        profile.groups.insert(shot.group, order);
        self.controller.group_handles[shot.profile].insert(shot.group);
    }

    pub(super) fn drop_one_shot(&mut self, note: Option<Note>) {
        let Some(shot) = note.and_then(|n| n.one_shot) else { return };
        let profile = &mut self.state.profiles[shot.profile];
        profile.groups.remove(&shot.group);
        self.controller.group_handles[shot.profile].remove(shot.group);
        for (id, _) in &shot.members {
            profile.members.remove(id);
            self.controller.handles[shot.profile].remove(*id);
        }
    }
}
