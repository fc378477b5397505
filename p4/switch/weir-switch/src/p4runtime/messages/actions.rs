// SPDX-License-Identifier: Apache-2.0
//! Actions of tables and of action profiles: from messages to the interpreter's calls and back.
use super::error::{At, Res, denied, invalid};
use super::ids::hex;
use super::strings::{named, number, told};
use crate::p4runtime::proto::p4::v1 as pb;
use weir_p4::bytecode::program::{ActionCall, Program};
use weir_p4::exec::Member;
use weir_p4::p4info as info;
use weir_p4::value::Val;

/// Arguments in the order of the action's parameters.
fn arguments(a: &info::Action, widths: &[u32], given: &[pb::action::Param]) -> Res<Vec<Val>> {
    let name = &a.preamble.name;
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
        out[at] = Some(named(&p.value, widths[at], &a.params[at].strings, &mut number).at(place)?);
    }
    let missing = |p: &info::Param| {
        invalid(format!("parameter {} ({}) of action {name} is missing", p.id, p.name)).under("params")
    };
    out.into_iter().zip(&a.params).map(|(v, p)| v.ok_or_else(|| missing(p))).collect()
}

fn action_info(program: &Program, id: u32) -> Res<&info::Action> {
    let found = program.info.action(id);
    found.ok_or_else(|| invalid(format!("the program has no action with id {}", hex(id))).under("action_id"))
}

/// An action of a table, for an entry or for its default.
pub fn call(program: &Program, t: &info::Table, a: &pb::Action, default: bool) -> Res<ActionCall> {
    let info = action_info(program, a.action_id)?;
    let name = &info.preamble.name;
    let Some(r) = t.action(a.action_id) else {
        return Err(invalid(format!("{name} is no action of table {}", t.preamble.name)).under("action_id"));
    };
    match (r.scope, default) {
        (info::Scope::TableOnly, true) => {
            return Err(denied(format!("{name} is for entries only, not for the default")).under("action_id"));
        }
        (info::Scope::DefaultOnly, false) => {
            return Err(denied(format!("{name} is for the default only, not for entries")).under("action_id"));
        }
        _ => {}
    }
    let ir = &program.tables[t.ir_index].actions[r.ir_index];
    let widths: Vec<u32> = ir.params.iter().map(|p| p.width).collect();
    Ok(ActionCall { action: r.ir_index, args: arguments(info, &widths, &a.params)? })
}

fn action_message(a: &info::Action, args: &[Val]) -> pb::Action {
    let param = |(p, v): (&info::Param, &Val)| pb::action::Param { param_id: p.id, value: told(v, &p.strings) };
    pb::Action { action_id: a.preamble.id, params: a.params.iter().zip(args).map(param).collect() }
}

pub fn call_message(program: &Program, t: &info::Table, c: &ActionCall) -> Option<pb::Action> {
    let id = t.action_refs.iter().find(|r| r.ir_index == c.action)?.id;
    Some(action_message(program.info.action(id)?, &c.args))
}

/// An action of an action profile.
pub fn member(program: &Program, profile: &info::ActionProfile, a: &pb::Action) -> Res<Member> {
    let info = action_info(program, a.action_id)?;
    let Some((_, body)) = profile.actions.iter().find(|(id, _)| *id == a.action_id) else {
        let (name, of) = (&info.preamble.name, &profile.preamble.name);
        return Err(invalid(format!("{name} is no action of action profile {of}")).under("action_id"));
    };
    let actions = program.tables.iter().flat_map(|t| &t.actions);
    let widths: Vec<u32> = match actions.into_iter().find(|x| x.body == *body) {
        Some(ir) => ir.params.iter().map(|p| p.width).collect(),
        None => info.params.iter().map(|p| p.bitwidth).collect(),
    };
    Ok(Member { body: *body, args: arguments(info, &widths, &a.params)? })
}

pub fn member_message(program: &Program, profile: &info::ActionProfile, m: &Member) -> Option<pb::Action> {
    let (id, _) = profile.actions.iter().find(|(_, body)| *body == m.body)?;
    Some(action_message(program.info.action(*id)?, &m.args))
}
