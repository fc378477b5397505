// SPDX-License-Identifier: Apache-2.0
//! Actions of tables and of action profiles: from messages to the interpreter's calls and back.
use super::error::{At, Res, denied, invalid};
use super::ids::hex;
use super::strings::{named, number, told};
use crate::p4runtime::proto::p4::v1 as pb;
use weir_p4::bytecode::program::{ActionCall, Program, TableAction};
use weir_p4::exec::Member;
use weir_p4::p4info::proto::{self, action_ref::Scope};
use weir_p4::p4info::{self as info, P4Info, Preambled};
use weir_p4::value::Val;

/// Arguments in the order of the action's parameters.
fn arguments(info: &P4Info, a: &proto::Action, ir: &TableAction, given: &[pb::action::Param]) -> Res<Vec<Val>> {
    let name = a.name();
    let mut out: Vec<Option<Val>> = vec![None; a.params.len()];
    for (i, p) in given.iter().enumerate() {
        let Some(at) = a.params.iter().position(|x| x.id == p.param_id) else {
            let e = invalid(format!("action {name} has no parameter {}", p.param_id));
            return Err(e.under(format!("params[{i}].param_id")));
        };
        let place = || format!("params[{i}] ({})", a.params[at].name);
        if out[at].is_some() {
            return Err(invalid(format!("parameter {} is given twice", p.param_id)).under(place()));
        }
        out[at] =
            Some(named(&p.value, ir.params[at].width, info.strings(&a.params[at].type_name), &mut number).at(place)?);
    }
    let missing = |p: &proto::action::Param| {
        invalid(format!("parameter {} ({}) of action {name} is missing", p.id, p.name)).under("params")
    };
    out.into_iter().zip(&a.params).map(|(v, p)| v.ok_or_else(|| missing(p))).collect()
}

fn action_info(program: &Program, id: u32) -> Res<&proto::Action> {
    let found = program.info.action(id);
    found.ok_or_else(|| invalid(format!("the program has no action with id {}", hex(id))).under("action_id"))
}

/// An action of a table, for an entry or for its default.
pub fn call(program: &Program, t: &info::Table, a: &pb::Action, default: bool) -> Res<ActionCall> {
    let info = action_info(program, a.action_id)?;
    let name = info.name();
    let Some(action) = t.action_refs.iter().position(|r| r.id == a.action_id) else {
        return Err(invalid(format!("{name} is no action of table {}", t.name())).under("action_id"));
    };
    match (t.action_refs[action].scope(), default) {
        (Scope::TableOnly, true) => {
            return Err(denied(format!("{name} is for entries only, not for the default")).under("action_id"));
        }
        (Scope::DefaultOnly, false) => {
            return Err(denied(format!("{name} is for the default only, not for entries")).under("action_id"));
        }
        _ => {}
    }
    let ir = &program.tables[t.ir_index].actions[action];
    Ok(ActionCall { action, args: arguments(&program.info, info, ir, &a.params)? })
}

fn action_message(program: &Program, id: u32, args: &[Val]) -> Option<pb::Action> {
    let info = &program.info;
    let param = |(p, v): (&proto::action::Param, &Val)| {
        let value = told(v, info.strings(&p.type_name));
        pb::action::Param { param_id: p.id, value }
    };
    let params = info.action(id)?.params.iter().zip(args).map(param).collect();
    Some(pb::Action { action_id: id, params })
}

pub fn call_message(program: &Program, t: &info::Table, c: &ActionCall) -> Option<pb::Action> {
    action_message(program, t.action_refs.get(c.action)?.id, &c.args)
}

/// Actions that members of an action profile may have, by their ids.
fn member_actions<'a>(
    program: &'a Program,
    profile: &'a info::ActionProfile,
) -> impl Iterator<Item = (u32, &'a TableAction)> {
    let tables = profile.table_ids.iter().filter_map(|id| program.info.table(*id));
    let refs = tables.flat_map(|t| t.action_refs.iter().zip(&program.tables[t.ir_index].actions));
    refs.filter(|(r, _)| r.scope() != Scope::DefaultOnly).map(|(r, ir)| (r.id, ir))
}

/// An action of an action profile.
pub fn member(program: &Program, profile: &info::ActionProfile, a: &pb::Action) -> Res<Member> {
    let info = action_info(program, a.action_id)?;
    let Some((_, ir)) = member_actions(program, profile).find(|(id, _)| *id == a.action_id) else {
        let m = format!("{} is no action of action profile {}", info.name(), profile.name());
        return Err(invalid(m).under("action_id"));
    };
    Ok(Member { body: ir.body, args: arguments(&program.info, info, ir, &a.params)? })
}

pub fn member_message(program: &Program, profile: &info::ActionProfile, m: &Member) -> Option<pb::Action> {
    let (id, _) = member_actions(program, profile).find(|(_, ir)| ir.body == m.body)?;
    action_message(program, id, &m.args)
}
