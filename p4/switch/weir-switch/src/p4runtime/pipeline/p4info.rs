// SPDX-License-Identifier: Apache-2.0
//! Whether a controller's P4Info is that of the program it comes with.
use std::collections::BTreeMap;
use weir_p4::p4info::{Preambled, match_type, proto as pb};

/// Facts that must agree: kind, name and id of an object, then property and value.
type Facts = BTreeMap<(&'static str, u32, String), String>;

struct Collect(Facts, BTreeMap<(&'static str, u32), String>);

impl Collect {
    fn object(&mut self, kind: &'static str, of: &impl Preambled, facts: Vec<(String, String)>) {
        self.named(kind, of.id(), of.name().to_string(), facts);
    }

    fn named(&mut self, kind: &'static str, id: u32, name: String, facts: Vec<(String, String)>) {
        self.1.insert((kind, id), name.clone());
        self.0.insert((kind, id, "name".into()), name);
        for (property, value) in facts {
            self.0.insert((kind, id, property), value);
        }
    }
}

fn fact(property: impl Into<String>, value: impl std::fmt::Debug) -> (String, String) {
    (property.into(), format!("{value:?}"))
}

fn match_facts(fields: &[pb::MatchField]) -> Vec<(String, String)> {
    let mut facts = vec![fact("number of match fields", fields.len())];
    for f in fields {
        let at = |what: &str| format!("{what} of match field {}", f.id);
        facts.extend([
            fact(at("name"), &f.name),
            fact(at("bitwidth"), f.bitwidth),
            (at("match type"), match_type(f).as_str_name().into()),
        ]);
    }
    facts
}

fn facts(p: &pb::P4Info) -> Collect {
    let mut c = Collect(BTreeMap::new(), BTreeMap::new());
    for t in &p.tables {
        let mut facts = match_facts(&t.match_fields);
        for a in &t.action_refs {
            facts.push(fact(format!("scope of action 0x{:08x}", a.id), a.scope));
        }
        let mut direct = t.direct_resource_ids.clone();
        direct.sort_unstable();
        facts.extend([
            fact("number of actions", t.action_refs.len()),
            fact("const_default_action_id", t.const_default_action_id),
            fact("implementation_id", t.implementation_id),
            fact("direct_resource_ids", direct),
            fact("size", t.size),
            fact("is_const_table", t.is_const_table),
        ]);
        c.object("table", t, facts);
    }
    for a in &p.actions {
        let mut facts = vec![fact("number of parameters", a.params.len())];
        for x in &a.params {
            facts.push(fact(format!("name of parameter {}", x.id), &x.name));
            facts.push(fact(format!("bitwidth of parameter {}", x.id), x.bitwidth));
        }
        c.object("action", a, facts);
    }
    for a in &p.action_profiles {
        let facts = vec![
            fact("table_ids", &a.table_ids),
            fact("with_selector", a.with_selector),
            fact("size", a.size),
            fact("max_group_size", a.max_group_size),
        ];
        c.object("action profile", a, facts);
    }
    let unit = |u: Option<i32>| fact("unit", u.unwrap_or(0));
    for x in &p.counters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("size", x.size)];
        c.object("counter", x, facts);
    }
    for x in &p.direct_counters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("direct_table_id", x.direct_table_id)];
        c.object("direct counter", x, facts);
    }
    for x in &p.meters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("size", x.size)];
        c.object("meter", x, facts);
    }
    for x in &p.direct_meters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("direct_table_id", x.direct_table_id)];
        c.object("direct meter", x, facts);
    }
    for x in &p.controller_packet_metadata {
        let mut facts = vec![fact("number of fields", x.metadata.len())];
        for m in &x.metadata {
            facts.push(fact(format!("name of field {}", m.id), &m.name));
            facts.push(fact(format!("bitwidth of field {}", m.id), m.bitwidth));
        }
        c.object("controller packet metadata", x, facts);
    }
    for x in &p.value_sets {
        let mut facts = match_facts(&x.r#match);
        facts.push(fact("size", x.size));
        c.object("value set", x, facts);
    }
    for x in &p.registers {
        c.object("register", x, vec![fact("type_spec", &x.type_spec), fact("size", x.size)]);
    }
    for x in &p.digests {
        c.object("digest", x, vec![fact("type_spec", &x.type_spec)]);
    }
    for x in &p.externs {
        c.named("extern", x.extern_type_id, String::new(), Vec::new());
    }
    c
}

/// The first point in which a controller's P4Info speaks of another program than `own` does. Documentation,
/// annotations, aliases and the package's description may differ.
pub fn difference(given: &pb::P4Info, own: &pb::P4Info) -> Option<String> {
    let (given, own) = (facts(given), facts(own));
    let unknown = given.1.iter().find(|(key, _)| !own.1.contains_key(key));
    if let Some(((kind, id), name)) = unknown {
        return Some(format!("{kind} {name} (id 0x{id:08x}) is not in the program"));
    }
    let missing = own.1.iter().find(|(key, _)| !given.1.contains_key(key));
    if let Some(((kind, id), name)) = missing {
        return Some(format!("{kind} {name} (id 0x{id:08x}) of the program is missing from it"));
    }
    own.0.iter().find_map(|(key, value)| {
        let (kind, id, property) = key;
        let name = &own.1[&(*kind, *id)];
        let none = String::from("unset");
        let other = given.0.get(key).unwrap_or(&none);
        (other != value)
            .then(|| format!("{property} of {kind} {name} (id 0x{id:08x}) is {other} in it, {value} in the program"))
    })
}
