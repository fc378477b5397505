// SPDX-License-Identifier: Apache-2.0
//! A program from source as BMv2's JSON describes it to clients: names, ids, keys and widths, without code.
use crate::bytecode::program::{CountKind, CounterDecl, Key, MatchKind, MeterDecl, Program, Table, TableAction};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Version of the format.
const VERSION: [u32; 2] = [2, 23];

/// Header types by the name of their header: each field and its width.
type Headers = BTreeMap<String, Vec<(String, u32)>>;

/// Header and field of a key, as BMv2's JSON names them, with the field's width noted.
fn target(k: &Key, headers: &mut Headers) -> [String; 2] {
    let name = k.name.strip_prefix("hdr.").unwrap_or(&k.name);
    let (header, field) = name.rsplit_once('.').unwrap_or(("scalars", name));
    if field == "isValid()" || field == "$valid$" {
        return [header.into(), "$valid$".into()];
    }
    let mut header = header.to_string();
    loop {
        let fields = headers.entry(header.clone()).or_default();
        match fields.iter().find(|(f, _)| f == field) {
            Some((_, width)) if *width == k.width => break,
            None => {
                fields.push((field.into(), k.width));
                break;
            }
            // Names that a program gave two keys of different widths.
            Some(_) => header.push('_'),
        }
    }
    [header, field.into()]
}

/// An optional key has a mask.
fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact | MatchKind::Selector => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary | MatchKind::Optional => "ternary",
        MatchKind::Range => "range",
    }
}

/// The kind of a table's match: that of the key that needs most.
fn table_kind(t: &Table) -> &'static str {
    let kinds: Vec<&str> = keys(t).map(|k| kind_name(k.kind)).collect();
    ["range", "ternary", "lpm"].into_iter().find(|kind| kinds.contains(kind)).unwrap_or("exact")
}

fn keys(t: &Table) -> impl Iterator<Item = &Key> {
    t.keys.iter().filter(|k| k.kind != MatchKind::Selector)
}

/// Actions of all tables, each once.
fn actions(p: &Program) -> Vec<&TableAction> {
    let mut all: Vec<&TableAction> = Vec::new();
    for a in p.tables.iter().flat_map(|t| &t.actions) {
        if !all.iter().any(|known| known.name == a.name) {
            all.push(a);
        }
    }
    all
}

fn table(p: &Program, id: usize, t: &Table, actions: &[&TableAction], headers: &mut Headers) -> Value {
    let profile = t.profile.map(|i| &p.profiles[i]);
    let kind = match profile.map(|x| x.selector.is_some()) {
        None => "simple",
        Some(false) => "indirect",
        Some(true) => "indirect_ws",
    };
    let id_of = |a: &TableAction| actions.iter().position(|x| x.name == a.name).unwrap_or(0);
    let key =
        |k: &Key| json!({"match_type": kind_name(k.kind), "name": k.name, "target": target(k, headers), "mask": null});
    let default = &t.actions[t.default.action];
    let data: Vec<String> = t.default.args.iter().map(|v| format!("{:#x}", v.clone().big())).collect();
    let mut value = json!({
        "name": t.name, "id": id, "key": keys(t).map(key).collect::<Vec<_>>(), "match_type": table_kind(t), "type": kind,
        "max_size": t.size, "with_counters": t.counter.is_some(), "support_timeout": t.idle_timeout,
        "direct_meters": t.meter.map(|m| &p.meters[m].name),
        "action_ids": t.actions.iter().map(id_of).collect::<Vec<_>>(),
        "actions": t.actions.iter().map(|a| &a.name).collect::<Vec<_>>(),
        "base_default_next": null,
        "next_tables": t.actions.iter().map(|a| (a.name.clone(), Value::Null)).collect::<serde_json::Map<_, _>>(),
    });
    match profile {
        // p4-utils wants the older name too.
        Some(x) => (value["action_profile"], value["act_prof_name"]) = (json!(x.name), json!(x.name)),
        None => {
            value["default_entry"] = json!({"action_id": id_of(default), "action_const": t.const_default,
                "action_data": data, "action_entry_const": t.const_default});
        }
    }
    value
}

/// The name of the table that a direct array belongs to.
fn owner(p: &Program, owns: impl Fn(&Table) -> bool) -> Option<&str> {
    p.tables.iter().find(|t| owns(t)).map(|t| t.name.as_str())
}

fn arrays(p: &Program) -> [(&'static str, Value); 5] {
    let counter = |(id, c): (usize, &CounterDecl)| match c.size {
        Some(size) => json!({"name": c.name, "id": id, "is_direct": false, "size": size}),
        None => {
            let table = owner(p, |t| t.counter == Some(id));
            json!({"name": c.name, "id": id, "is_direct": true, "binding": table})
        }
    };
    let meter = |(id, m): (usize, &MeterDecl)| {
        let unit = if m.kind == CountKind::Packets { "packets" } else { "bytes" };
        let mut value = json!({"name": m.name, "id": id, "rate_count": 2, "type": unit, "is_direct": m.size.is_none()});
        match m.size {
            Some(size) => value["size"] = json!(size),
            None => value["binding"] = json!(owner(p, |t| t.meter == Some(id))),
        }
        value
    };
    let registers = p.registers.iter().enumerate();
    let registers = registers.map(|(id, r)| json!({"name": r.name, "id": id, "bitwidth": r.width, "size": r.size}));
    let sets = p.value_sets.iter().enumerate().map(|(id, v)| {
        let bits: u32 = v.widths.iter().sum();
        json!({"name": v.name, "id": id, "compressed_bitwidth": bits, "max_size": v.size})
    });
    // BMv2's learn lists begin with 1.
    let lists = p.digests.iter().zip(1..).map(|(d, id)| json!({"name": d.name, "id": id, "elements": []}));
    [
        ("counter_arrays", p.counters.iter().enumerate().map(counter).collect()),
        ("meter_arrays", p.meters.iter().enumerate().map(meter).collect()),
        ("register_arrays", registers.collect()),
        ("parse_vsets", sets.collect()),
        ("learn_lists", lists.collect()),
    ]
}

/// The control that a table's name begins with. A program's tables lie in one or two, which are taken for ingress and
/// egress in this order; all others are put to the first.
fn control(t: &Table) -> &str {
    t.name.split('.').next().unwrap_or_default()
}

/// A pipeline with its tables; p4-utils takes its control's name from `source_info`.
fn pipeline((id, (name, control, tables)): (usize, &(&str, Option<&str>, Vec<Value>))) -> Value {
    json!({"name": name, "id": id, "source_info": {"source_fragment": control.unwrap_or(name)}, "init_table": null,
        "tables": tables, "action_profiles": [], "conditionals": []})
}

/// The description of a program. It can't be loaded.
pub fn describe(p: &Program) -> Map<String, Value> {
    let actions = actions(p);
    let mut headers = Headers::new();
    let mut pipelines = [("ingress", None, Vec::new()), ("egress", None, Vec::new())];
    for (id, t) in p.tables.iter().enumerate() {
        let at = usize::from(pipelines[0].1.is_some_and(|c| c != control(t)));
        let at = if pipelines[at].1.is_some_and(|c| c != control(t)) { 0 } else { at };
        pipelines[at].1 = Some(control(t));
        pipelines[at].2.push(table(p, id, t, &actions, &mut headers));
    }
    let profiles = p.profiles.iter().enumerate().map(|(id, x)| {
        let mut value = json!({"name": x.name, "id": id, "max_size": x.size});
        // The variants have BMv2's names.
        if let Some((algo, _)) = x.selector {
            value["selector"] = json!({"algo": format!("{algo:?}").to_lowercase(), "input": []});
        }
        value
    });
    let action = |(id, a): (usize, &&TableAction)| {
        let data: Vec<Value> = a.params.iter().map(|p| json!({"name": p.name, "bitwidth": p.width})).collect();
        json!({"name": a.name, "id": id, "runtime_data": data, "primitives": []})
    };
    let types = headers.iter().enumerate().map(|(id, (name, fields))| {
        let fields: Vec<Value> = fields.iter().map(|(f, width)| json!([f, width, false])).collect();
        json!({"name": name, "id": id, "fields": fields})
    });
    let instances = headers.keys().enumerate();
    let instances = instances
        .map(|(id, name)| json!({"name": name, "id": id, "header_type": name, "metadata": false, "pi_omit": true}));
    let mut whole = json!({
        "__meta__": {"version": VERSION, "compiler": "weir-p4"},
        "header_types": types.collect::<Vec<_>>(),
        "headers": instances.collect::<Vec<_>>(),
        "actions": actions.iter().enumerate().map(action).collect::<Vec<_>>(),
        "pipelines": pipelines.iter().enumerate().map(pipeline).collect::<Vec<_>>(),
    });
    whole["pipelines"][0]["action_profiles"] = profiles.collect();
    for (name, list) in arrays(p) {
        whole[name] = list;
    }
    if let Value::Object(whole) = whole { whole } else { Map::new() }
}
