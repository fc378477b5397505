// SPDX-License-Identifier: Apache-2.0
//! Members and groups of action profiles. A handle is BMv2's: the least free number; P4Runtime's ids are others.
use super::Call;
use super::matches::{self, action_fields, profile_actions};
use crate::p4runtime::{Group, Reader, Writer};
use crate::thrift::failure::{Done, Failure, declared, table as code};
use crate::thrift::output::{Output, pieces};
use thrift::protocol::TType;
use weir_p4::bytecode::program::Program;
use weir_p4::exec::{EntryAction, Member};

/// Members or groups read without a packet in between.
const PIECE: usize = 512;
/// Ids from here on belong to one-shot action sets of P4Runtime.
const RESERVED: u32 = 0xff00_0000;

/// A profile with groups.
fn selector(program: &Program, name: &str) -> Result<usize, Failure> {
    let at = matches::profile(program, name)?;
    match program.profiles[at].selector {
        Some(_) => Ok(at),
        None => declared(code::NO_ACTION_PROFILE_SELECTION, format!("action profile {name} has no groups")),
    }
}

fn member_of(w: &Writer<'_>, profile: usize, handle: i32) -> Result<u32, Failure> {
    let id = w.controller.handles[profile].member(handle as u32);
    id.map_or_else(|| declared(code::INVALID_MBR_HANDLE, format!("there is no member with handle {handle}")), Ok)
}

fn group_of(w: &Writer<'_>, profile: usize, handle: i32) -> Result<u32, Failure> {
    let id = w.controller.group_handles[profile].member(handle as u32);
    id.map_or_else(|| declared(code::INVALID_GRP_HANDLE, format!("there is no group with handle {handle}")), Ok)
}

/// The least id for P4Runtime that is not in use, near a number that grows as the handles do.
fn free_id(near: usize, used: impl Fn(u32) -> bool) -> Result<u32, Failure> {
    let near = u32::try_from(near).unwrap_or(u32::MAX);
    let id = (near.saturating_add(1)..RESERVED).chain(1..=near).find(|id| !used(*id));
    id.map_or_else(|| declared(code::FULL, "there is no more id"), Ok)
}

/// Whether an entry or a default has this action.
fn is_used(w: &Writer<'_>, profile: usize, action: &EntryAction) -> bool {
    let tables = w.config.program.tables.iter().zip(&w.state.tables).filter(|(t, _)| t.profile == Some(profile));
    tables.into_iter().any(|(_, s)| s.default == *action || s.entries().any(|(_, e)| e.action == *action))
}

fn data(call: &Call<'_>, field: i16) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(call.arguments.byte_lists(field)?.into_iter().map(<[u8]>::to_vec).collect())
}

fn slices(data: &[Vec<u8>]) -> Vec<&[u8]> {
    data.iter().map(Vec::as_slice).collect()
}

pub fn add_member(call: &mut Call<'_>) -> Done {
    let (name, action, data) = (call.arguments.string(2)?, call.arguments.string(3)?, data(call, 4)?);
    let handle = call.change(move |w| {
        let at = matches::profile(&w.config.program, &name)?;
        let member = matches::member(&w.config.program, at, &action, &slices(&data))?;
        let members = &w.state.profiles[at].members;
        let size = w.config.program.profiles[at].size;
        if members.len() as u64 >= size {
            return declared(code::FULL, format!("action profile {name} is full ({size} members)"));
        }
        let id = free_id(members.len(), |id| members.contains_key(&id))?;
        w.put_member(at, id, Some(member));
        Ok(w.controller.handles[at].of(id)[0])
    })?;
    call.out.i32(0, handle as i32);
    Ok(())
}

pub fn delete_member(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    call.change(move |w| {
        let at = matches::profile(&w.config.program, &name)?;
        let id = member_of(w, at, handle)?;
        let in_group = w.state.profiles[at].groups.values().any(|members| members.contains(&id));
        if in_group || is_used(w, at, &EntryAction::Member(id)) {
            return declared(code::MBR_STILL_USED, format!("a group or an entry has member {handle}"));
        }
        w.put_member(at, id, None);
        Ok(())
    })
}

pub fn modify_member(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let (action, data) = (call.arguments.string(4)?, data(call, 5)?);
    call.change(move |w| {
        let at = matches::profile(&w.config.program, &name)?;
        let id = member_of(w, at, handle)?;
        let member = matches::member(&w.config.program, at, &action, &slices(&data))?;
        w.put_member(at, id, Some(member));
        Ok(())
    })
}

pub fn create_group(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let handle = call.change(move |w| {
        let at = selector(&w.config.program, &name)?;
        let groups = &w.state.profiles[at].groups;
        let id = free_id(groups.len(), |id| groups.contains_key(&id))?;
        w.put_group(at, id, Some(Group::default()));
        Ok(w.controller.group_handles[at].of(id)[0])
    })?;
    call.out.i32(0, handle as i32);
    Ok(())
}

pub fn delete_group(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    call.change(move |w| {
        let at = selector(&w.config.program, &name)?;
        let id = group_of(w, at, handle)?;
        if is_used(w, at, &EntryAction::Group(id)) {
            return declared(code::GRP_STILL_USED, format!("an entry has group {handle}"));
        }
        w.put_group(at, id, None);
        Ok(())
    })
}

/// Changes the members of a group; `f` gets the member that is meant.
fn regroup(call: &Call<'_>, f: impl FnOnce(&mut Group, u32) -> Done + Send + 'static) -> Done {
    let (name, member, group) = (call.arguments.string(2)?, call.arguments.i32(3)?, call.arguments.i32(4)?);
    call.change(move |w| {
        let at = selector(&w.config.program, &name)?;
        let (member, id) = (member_of(w, at, member)?, group_of(w, at, group)?);
        let Some(mut changed) = w.controller.groups[at].get(&id).cloned() else {
            return declared(code::ERROR, "the group is an entry's own, by P4Runtime");
        };
        f(&mut changed, member)?;
        w.put_group(at, id, Some(changed));
        Ok(())
    })
}

pub fn add_to_group(call: &mut Call<'_>) -> Done {
    regroup(call, |group, member| {
        if group.members.iter().any(|(m, _)| *m == member) {
            return declared(code::MBR_ALREADY_IN_GRP, "the member is in the group");
        }
        group.members.push((member, 1));
        Ok(())
    })
}

pub fn remove_from_group(call: &mut Call<'_>) -> Done {
    regroup(call, |group, member| {
        let before = group.members.len();
        group.members.retain(|(m, _)| *m != member);
        match group.members.len() < before {
            true => Ok(()),
            false => declared(code::MBR_NOT_IN_GRP, "the member is not in the group"),
        }
    })
}

/// Fields of a BmMtActProfMember.
fn member_fields(out: &mut Output, program: &Program, profile: usize, handle: u32, m: &Member) {
    out.i32(1, handle as i32);
    if let Some(action) = profile_actions(program, profile).find(|a| a.body == m.body) {
        action_fields(out, 2, action, &m.args);
    }
}

/// Fields of a BmMtActProfGroup. A member is there as often as its weight says, by as many handles.
fn group_fields(out: &mut Output, r: &Reader<'_>, profile: usize, handle: u32, id: u32) {
    let mut counts: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
    for member in r.state.profiles[profile].groups.get(&id).into_iter().flatten() {
        *counts.entry(*member).or_default() += 1;
    }
    let of = |(member, count): (u32, usize)| r.controller.handles[profile].of(member).iter().take(count).copied();
    let mut handles: Vec<u32> = counts.into_iter().flat_map(of).collect();
    handles.sort_unstable();
    out.i32(1, handle as i32);
    out.list(2, TType::I32, handles.len());
    handles.into_iter().for_each(|h| out.i32_element(h as i32));
}

/// Writes a list of members or groups: `list` gives each with its handle, `fields` writes one.
fn listed(
    call: &mut Call<'_>,
    list: impl FnOnce(&Reader<'_>, &str) -> Result<(usize, Vec<(u32, u32)>), Failure> + Send + 'static,
    fields: fn(&mut Output, &Reader<'_>, usize, (u32, u32)),
) -> Done {
    let name = call.arguments.string(2)?;
    let (out, runtime, control) = (&mut call.out, call.runtime, &call.server.control);
    runtime.block_on(async {
        let reading = control.read().await;
        let (at, all) = reading.step(move |r: &Reader<'_>| list(r, &name)).await??;
        out.list(0, TType::Struct, all.len());
        pieces(out, all.len(), PIECE, |range| {
            let some = all[range].to_vec();
            let piece = move |r: &Reader<'_>| {
                let mut part = Output::part();
                some.into_iter().for_each(|one| part.element(|out| fields(out, r, at, one)));
                part.into_bytes()
            };
            async { Ok(reading.step(piece).await?) }
        })
        .await
    })
}

pub fn members(call: &mut Call<'_>) -> Done {
    let list = |r: &Reader<'_>, name: &str| {
        let at = matches::profile(&r.config.program, name)?;
        Ok((at, r.controller.handles[at].all().collect()))
    };
    listed(call, list, |out, r, at, (handle, id)| {
        if let Some(m) = r.state.profiles[at].members.get(&id) {
            member_fields(out, &r.config.program, at, handle, m);
        }
    })
}

pub fn groups(call: &mut Call<'_>) -> Done {
    let list = |r: &Reader<'_>, name: &str| {
        let at = selector(&r.config.program, name)?;
        Ok((at, r.controller.group_handles[at].all().collect()))
    };
    listed(call, list, |out, r, at, (handle, id)| group_fields(out, r, at, handle, id))
}

pub fn member(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let bytes = call.read(move |r| {
        let at = matches::profile(&r.config.program, &name)?;
        let id = r.controller.handles[at].member(handle as u32);
        let Some(m) = id.and_then(|id| r.state.profiles[at].members.get(&id)) else {
            return declared(code::INVALID_MBR_HANDLE, format!("there is no member with handle {handle}"));
        };
        let mut part = Output::part();
        part.nested(0, |out| member_fields(out, &r.config.program, at, handle as u32, m));
        Ok(part.into_bytes())
    })?;
    call.out.append(&bytes)
}

pub fn group(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let bytes = call.read(move |r| {
        let at = selector(&r.config.program, &name)?;
        let Some(id) = r.controller.group_handles[at].member(handle as u32) else {
            return declared(code::INVALID_GRP_HANDLE, format!("there is no group with handle {handle}"));
        };
        let mut part = Output::part();
        part.nested(0, |out| group_fields(out, r, at, handle as u32, id));
        Ok(part.into_bytes())
    })?;
    call.out.append(&bytes)
}
