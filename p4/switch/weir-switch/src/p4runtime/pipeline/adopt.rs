// SPDX-License-Identifier: Apache-2.0
//! Ids of a controller's P4Info. Objects are matched by name, as in BMv2, so that a P4Info of another p4c, or one with
//! ids of its own, works: all requests then use its ids.
use crate::p4runtime::messages::error::{Res, invalid};
use crate::p4runtime::messages::ids::hex;
use crate::p4runtime::proto::p4::config::v1 as pb;
use std::collections::{HashMap, HashSet};
use weir_p4::p4info as ir;

/// New ids by the old ones.
type Renumbered = HashMap<u32, u32>;

/// Ids by name.
fn numbers<'a>(what: &str, of: impl Iterator<Item = (u32, &'a str)>) -> Res<HashMap<&'a str, u32>> {
    let (mut by_name, mut ids) = (HashMap::new(), HashSet::new());
    for (id, name) in of {
        if id == 0 {
            return Err(invalid(format!("{what} {name} has no id")));
        }
        if !ids.insert(id) {
            return Err(invalid(format!("id {} is that of {what} {name} and of another", hex(id))));
        }
        if by_name.insert(name, id).is_some() {
            return Err(invalid(format!("{what} {name} is in it twice")));
        }
    }
    Ok(by_name)
}

fn named(p: &Option<pb::Preamble>) -> (u32, &str) {
    p.as_ref().map_or((0, ""), |p| (p.id, p.name.as_str()))
}

fn preambles<'a>(
    what: &str,
    given: impl Iterator<Item = &'a Option<pb::Preamble>>,
    own: impl Iterator<Item = &'a mut ir::Preamble>,
) -> Res<Renumbered> {
    let numbers = numbers(what, given.map(named))?;
    let mut renumbered = Renumbered::new();
    for p in own {
        if let Some(id) = numbers.get(p.name.as_str()) {
            renumbered.insert(p.id, *id);
            p.id = *id;
        }
    }
    Ok(renumbered)
}

fn follow(id: &mut u32, renumbered: &Renumbered) {
    if let Some(new) = renumbered.get(id) {
        *id = *new;
    }
}

fn match_fields(given: &[pb::MatchField], own: &mut [ir::MatchField], of: &str) -> Res<()> {
    let numbers = numbers(&format!("match field of {of}"), given.iter().map(|f| (f.id, f.name.as_str())))?;
    own.iter_mut().for_each(|f| f.id = numbers.get(f.name.as_str()).copied().unwrap_or(f.id));
    Ok(())
}

macro_rules! renumber {
    ($given:ident, $own:ident, $list:ident, $what:literal) => {
        preambles($what, $given.$list.iter().map(|x| &x.preamble), $own.$list.iter_mut().map(|x| &mut x.preamble))?
    };
}

/// Gives the program's objects the ids of a controller's P4Info.
///
/// # Errors
/// INVALID_ARGUMENT when two objects of a kind share an id or a name, or one has no id.
pub fn ids(given: &pb::P4Info, own: &mut ir::P4Info) -> Res<()> {
    let params_before: HashMap<u32, Vec<u32>> =
        own.actions.iter().map(|a| (a.preamble.id, a.params.iter().map(|p| p.id).collect())).collect();
    members(given, own)?;
    let params: HashMap<u32, Renumbered> = own
        .actions
        .iter()
        .map(|a| {
            let before = params_before.get(&a.preamble.id).into_iter().flatten().copied();
            (a.preamble.id, before.zip(a.params.iter().map(|p| p.id)).collect())
        })
        .collect();
    let tables = renumber!(given, own, tables, "table");
    let actions = renumber!(given, own, actions, "action");
    let profiles = renumber!(given, own, action_profiles, "action profile");
    let mut direct = renumber!(given, own, direct_counters, "direct counter");
    direct.extend(renumber!(given, own, direct_meters, "direct meter"));
    renumber!(given, own, counters, "counter");
    renumber!(given, own, meters, "meter");
    renumber!(given, own, controller_packet_metadata, "controller packet metadata");
    renumber!(given, own, value_sets, "value set");
    renumber!(given, own, registers, "register");
    renumber!(given, own, digests, "digest");
    for t in &mut own.tables {
        t.action_refs.iter_mut().for_each(|r| follow(&mut r.id, &actions));
        if let Some(params) = params.get(&t.initial_default_action.action_id) {
            t.initial_default_action.arguments.iter_mut().for_each(|(id, _)| follow(id, params));
        }
        follow(&mut t.initial_default_action.action_id, &actions);
        follow(&mut t.const_default_action_id, &actions);
        follow(&mut t.implementation_id, &profiles);
        t.direct_resource_ids.iter_mut().for_each(|id| follow(id, &direct));
    }
    for p in &mut own.action_profiles {
        p.table_ids.iter_mut().for_each(|id| follow(id, &tables));
        p.actions.iter_mut().for_each(|(id, _)| follow(id, &actions));
    }
    own.direct_counters.iter_mut().for_each(|c| follow(&mut c.direct_table_id, &tables));
    own.direct_meters.iter_mut().for_each(|m| follow(&mut m.direct_table_id, &tables));
    Ok(())
}

/// Ids within objects: of match fields, parameters and packet metadata.
fn members(given: &pb::P4Info, own: &mut ir::P4Info) -> Res<()> {
    for t in &mut own.tables {
        let name = &t.preamble.name;
        if let Some(x) = given.tables.iter().find(|x| named(&x.preamble).1 == name) {
            match_fields(&x.match_fields, &mut t.match_fields, &format!("table {name}"))?;
        }
    }
    for v in &mut own.value_sets {
        let name = &v.preamble.name;
        if let Some(x) = given.value_sets.iter().find(|x| named(&x.preamble).1 == name) {
            match_fields(&x.r#match, &mut v.match_fields, &format!("value set {name}"))?;
        }
    }
    for a in &mut own.actions {
        let name = &a.preamble.name;
        if let Some(x) = given.actions.iter().find(|x| named(&x.preamble).1 == name) {
            let of = format!("parameter of action {name}");
            let numbers = numbers(&of, x.params.iter().map(|p| (p.id, p.name.as_str())))?;
            a.params.iter_mut().for_each(|p| p.id = numbers.get(p.name.as_str()).copied().unwrap_or(p.id));
        }
    }
    for c in &mut own.controller_packet_metadata {
        let name = &c.preamble.name;
        if let Some(x) = given.controller_packet_metadata.iter().find(|x| named(&x.preamble).1 == name) {
            let of = format!("field of {name}");
            let numbers = numbers(&of, x.metadata.iter().map(|m| (m.id, m.name.as_str())))?;
            c.metadata.iter_mut().for_each(|m| m.id = numbers.get(m.name.as_str()).copied().unwrap_or(m.id));
        }
    }
    Ok(())
}
