// SPDX-License-Identifier: Apache-2.0
//! Ids of a controller's P4Info. Objects are matched by name, as in BMv2, so that a P4Info of another p4c, or one with
//! ids of its own, works: all requests then use its ids.
use crate::p4runtime::messages::error::{Res, invalid};
use crate::p4runtime::messages::ids::hex;
use std::collections::{HashMap, HashSet};
use weir_p4::p4info::{P4Info, Preambled, proto as pb};

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

fn preambles<G: Preambled, O: Preambled>(what: &str, given: &[G], own: &mut [O]) -> Res<Renumbered> {
    let numbers = numbers(what, given.iter().map(|x| (x.id(), x.name())))?;
    let mut renumbered = Renumbered::new();
    for p in own.iter_mut().filter_map(|x| x.preamble_mut().as_mut()) {
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

fn match_fields(given: &[pb::MatchField], own: &mut [pb::MatchField], of: &str) -> Res<()> {
    let numbers = numbers(&format!("match field of {of}"), given.iter().map(|f| (f.id, f.name.as_str())))?;
    own.iter_mut().for_each(|f| f.id = numbers.get(f.name.as_str()).copied().unwrap_or(f.id));
    Ok(())
}

/// Gives the program's objects the ids of a controller's P4Info.
///
/// # Errors
/// INVALID_ARGUMENT when two objects of a kind share an id or a name, or one has no id.
pub fn ids(given: &pb::P4Info, own: &mut P4Info) -> Res<()> {
    let params_before: HashMap<u32, Vec<u32>> =
        own.actions.iter().map(|a| (a.id(), a.params.iter().map(|p| p.id).collect())).collect();
    members(given, own)?;
    let params: HashMap<u32, Renumbered> = own
        .actions
        .iter()
        .map(|a| {
            let before = params_before.get(&a.id()).into_iter().flatten().copied();
            (a.id(), before.zip(a.params.iter().map(|p| p.id)).collect())
        })
        .collect();
    let tables = preambles("table", &given.tables, &mut own.tables)?;
    let actions = preambles("action", &given.actions, &mut own.actions)?;
    let profiles = preambles("action profile", &given.action_profiles, &mut own.action_profiles)?;
    let mut direct = preambles("direct counter", &given.direct_counters, &mut own.direct_counters)?;
    direct.extend(preambles("direct meter", &given.direct_meters, &mut own.direct_meters)?);
    preambles("counter", &given.counters, &mut own.counters)?;
    preambles("meter", &given.meters, &mut own.meters)?;
    preambles("controller packet metadata", &given.controller_packet_metadata, &mut own.controller_packet_metadata)?;
    preambles("value set", &given.value_sets, &mut own.value_sets)?;
    preambles("register", &given.registers, &mut own.registers)?;
    preambles("digest", &given.digests, &mut own.digests)?;
    for t in &mut own.tables {
        t.action_refs.iter_mut().for_each(|r| follow(&mut r.id, &actions));
        if let Some(default) = &mut t.initial_default_action {
            if let Some(params) = params.get(&default.action_id) {
                default.arguments.iter_mut().for_each(|a| follow(&mut a.param_id, params));
            }
            follow(&mut default.action_id, &actions);
        }
        follow(&mut t.const_default_action_id, &actions);
        follow(&mut t.implementation_id, &profiles);
        t.direct_resource_ids.iter_mut().for_each(|id| follow(id, &direct));
    }
    for p in &mut own.action_profiles {
        p.table_ids.iter_mut().for_each(|id| follow(id, &tables));
    }
    own.direct_counters.iter_mut().for_each(|c| follow(&mut c.direct_table_id, &tables));
    own.direct_meters.iter_mut().for_each(|m| follow(&mut m.direct_table_id, &tables));
    Ok(())
}

/// Ids within objects: of match fields, parameters and packet metadata.
fn members(given: &pb::P4Info, own: &mut P4Info) -> Res<()> {
    for t in &mut own.tables {
        let name = t.name().to_string();
        if let Some(x) = given.tables.iter().find(|x| x.name() == name) {
            match_fields(&x.match_fields, &mut t.match_fields, &format!("table {name}"))?;
        }
    }
    for v in &mut own.value_sets {
        let name = v.name().to_string();
        if let Some(x) = given.value_sets.iter().find(|x| x.name() == name) {
            match_fields(&x.r#match, &mut v.r#match, &format!("value set {name}"))?;
        }
    }
    for a in &mut own.actions {
        let name = a.name().to_string();
        if let Some(x) = given.actions.iter().find(|x| x.name() == name) {
            let of = format!("parameter of action {name}");
            let numbers = numbers(&of, x.params.iter().map(|p| (p.id, p.name.as_str())))?;
            a.params.iter_mut().for_each(|p| p.id = numbers.get(p.name.as_str()).copied().unwrap_or(p.id));
        }
    }
    for c in &mut own.controller_packet_metadata {
        let name = c.name().to_string();
        if let Some(x) = given.controller_packet_metadata.iter().find(|x| x.name() == name) {
            let of = format!("field of {name}");
            let numbers = numbers(&of, x.metadata.iter().map(|m| (m.id, m.name.as_str())))?;
            c.message.metadata.iter_mut().for_each(|m| m.id = numbers.get(m.name.as_str()).copied().unwrap_or(m.id));
        }
    }
    Ok(())
}
