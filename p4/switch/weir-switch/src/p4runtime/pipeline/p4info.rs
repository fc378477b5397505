// SPDX-License-Identifier: Apache-2.0
//! P4Info as messages, and whether a controller's is that of the program it comes with.
use crate::p4runtime::proto::p4::config::v1 as pb;
use std::collections::BTreeMap;
use weir_p4::p4info as ir;

fn documentation(a: &ir::Annotations) -> Option<pb::Documentation> {
    a.doc.as_ref().map(|d| pb::Documentation { brief: d.brief.clone(), description: d.description.clone() })
}

fn expression(e: &ir::Expression) -> pb::Expression {
    use pb::expression::Value;
    let value = match e {
        ir::Expression::String(s) => Value::StringValue(s.clone()),
        ir::Expression::Int64(v) => Value::Int64Value(*v),
        ir::Expression::Bool(b) => Value::BoolValue(*b),
    };
    pb::Expression { value: Some(value) }
}

fn structured(a: &ir::Annotations) -> Vec<pb::StructuredAnnotation> {
    use pb::structured_annotation::Body;
    let one = |s: &ir::StructuredAnnotation| {
        let body = match &s.body {
            ir::StructuredBody::Empty => None,
            ir::StructuredBody::Expressions(list) => {
                let expressions = list.iter().map(expression).collect();
                Some(Body::ExpressionList(pb::ExpressionList { expressions }))
            }
            ir::StructuredBody::Pairs(list) => {
                let pair =
                    |(k, v): &(String, ir::Expression)| pb::KeyValuePair { key: k.clone(), value: Some(expression(v)) };
                let kv_pairs = list.iter().map(pair).collect();
                Some(Body::KvPairList(pb::KeyValuePairList { kv_pairs }))
            }
        };
        pb::StructuredAnnotation { name: s.name.clone(), body, source_location: None }
    };
    a.structured.iter().map(one).collect()
}

fn preamble(p: &ir::Preamble) -> Option<pb::Preamble> {
    Some(pb::Preamble {
        id: p.id,
        name: p.name.clone(),
        alias: p.alias.clone(),
        annotations: p.annotations.plain.clone(),
        annotation_locations: Vec::new(),
        doc: documentation(&p.annotations),
        structured_annotations: structured(&p.annotations),
    })
}

fn named(name: &str) -> pb::P4NamedType {
    pb::P4NamedType { name: name.to_string() }
}

fn match_field(f: &ir::MatchField) -> pb::MatchField {
    use pb::match_field::{Match, MatchType};
    let kind = match f.match_type {
        ir::MatchType::Exact => MatchType::Exact,
        ir::MatchType::Lpm => MatchType::Lpm,
        ir::MatchType::Ternary => MatchType::Ternary,
        ir::MatchType::Range => MatchType::Range,
        ir::MatchType::Optional => MatchType::Optional,
    };
    pb::MatchField {
        id: f.id,
        name: f.name.clone(),
        annotations: f.annotations.plain.clone(),
        annotation_locations: Vec::new(),
        bitwidth: f.bitwidth as i32,
        doc: documentation(&f.annotations),
        type_name: f.type_name.as_deref().map(named),
        structured_annotations: structured(&f.annotations),
        r#match: Some(Match::MatchType(kind as i32)),
    }
}

fn table(t: &ir::Table) -> pb::Table {
    let action_ref = |a: &ir::ActionRef| {
        use pb::action_ref::Scope;
        let scope = match a.scope {
            ir::Scope::TableAndDefault => Scope::TableAndDefault,
            ir::Scope::TableOnly => Scope::TableOnly,
            ir::Scope::DefaultOnly => Scope::DefaultOnly,
        };
        pb::ActionRef {
            id: a.id,
            scope: scope as i32,
            annotations: a.annotations.plain.clone(),
            annotation_locations: Vec::new(),
            structured_annotations: structured(&a.annotations),
        }
    };
    use pb::table::IdleTimeoutBehavior;
    let idle = if t.idle_timeout { IdleTimeoutBehavior::NotifyControl } else { IdleTimeoutBehavior::NoTimeout };
    let d = &t.initial_default_action;
    let argument = |(id, v): &(u32, Vec<u8>)| pb::table_action_call::Argument { param_id: *id, value: v.clone() };
    pb::Table {
        preamble: preamble(&t.preamble),
        match_fields: t.match_fields.iter().map(match_field).collect(),
        action_refs: t.action_refs.iter().map(action_ref).collect(),
        const_default_action_id: t.const_default_action_id,
        initial_default_action: (d.action_id != 0).then(|| pb::TableActionCall {
            action_id: d.action_id,
            arguments: d.arguments.iter().map(argument).collect(),
        }),
        implementation_id: t.implementation_id,
        direct_resource_ids: t.direct_resource_ids.clone(),
        size: t.size as i64,
        idle_timeout_behavior: idle as i32,
        is_const_table: t.is_const_table,
        has_initial_entries: t.has_initial_entries,
        other_properties: None,
    }
}

fn action(a: &ir::Action) -> pb::Action {
    let param = |p: &ir::Param| pb::action::Param {
        id: p.id,
        name: p.name.clone(),
        annotations: p.annotations.plain.clone(),
        annotation_locations: Vec::new(),
        bitwidth: p.bitwidth as i32,
        doc: documentation(&p.annotations),
        type_name: p.type_name.as_deref().map(named),
        structured_annotations: structured(&p.annotations),
    };
    pb::Action { preamble: preamble(&a.preamble), params: a.params.iter().map(param).collect() }
}

fn action_profile(a: &ir::ActionProfile) -> pb::ActionProfile {
    use pb::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
    let semantics = a.selector_size.map(|s| match s {
        ir::SelectorSize::SumOfWeights => SelectorSizeSemantics::SumOfWeights(SumOfWeights {}),
        ir::SelectorSize::SumOfMembers { max_member_weight } => {
            SelectorSizeSemantics::SumOfMembers(SumOfMembers { max_member_weight })
        }
    });
    pb::ActionProfile {
        preamble: preamble(&a.preamble),
        table_ids: a.table_ids.clone(),
        with_selector: a.with_selector,
        size: a.size as i64,
        max_group_size: a.max_group_size,
        weights_disallowed: false,
        selector_size_semantics: semantics,
    }
}

fn counter_spec(unit: ir::Unit) -> Option<pb::CounterSpec> {
    use pb::counter_spec::Unit;
    let unit = match unit {
        ir::Unit::Bytes => Unit::Bytes,
        ir::Unit::Packets => Unit::Packets,
        ir::Unit::Both => Unit::Both,
    };
    Some(pb::CounterSpec { unit: unit as i32 })
}

fn meter_spec(unit: ir::Unit) -> Option<pb::MeterSpec> {
    use pb::meter_spec::Unit;
    let unit = if unit == ir::Unit::Packets { Unit::Packets } else { Unit::Bytes };
    Some(pb::MeterSpec { unit: unit as i32, r#type: pb::meter_spec::Type::TwoRateThreeColor as i32 })
}

fn bits(b: &ir::BitSpec) -> pb::P4BitstringLikeTypeSpec {
    use pb::p4_bitstring_like_type_spec::TypeSpec;
    let spec = match b {
        ir::BitSpec::Bit(w) => TypeSpec::Bit(pb::P4BitTypeSpec { bitwidth: *w as i32 }),
        ir::BitSpec::Int(w) => TypeSpec::Int(pb::P4IntTypeSpec { bitwidth: *w as i32 }),
        ir::BitSpec::Varbit(w) => TypeSpec::Varbit(pb::P4VarbitTypeSpec { max_bitwidth: *w as i32 }),
    };
    pb::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() }
}

fn type_spec(t: &ir::TypeSpec) -> pb::P4DataTypeSpec {
    use pb::p4_data_type_spec::TypeSpec as T;
    let spec = match t {
        ir::TypeSpec::Bits(b) => T::Bitstring(bits(b)),
        ir::TypeSpec::Bool => T::Bool(pb::P4BoolType {}),
        ir::TypeSpec::Tuple(m) => T::Tuple(pb::P4TupleTypeSpec { members: m.iter().map(type_spec).collect() }),
        ir::TypeSpec::Struct(n) => T::Struct(named(n)),
        ir::TypeSpec::Header(n) => T::Header(named(n)),
        ir::TypeSpec::HeaderUnion(n) => T::HeaderUnion(named(n)),
        ir::TypeSpec::HeaderStack(n, size) => {
            T::HeaderStack(pb::P4HeaderStackTypeSpec { header: Some(named(n)), size: *size as i32 })
        }
        ir::TypeSpec::HeaderUnionStack(n, size) => {
            T::HeaderUnionStack(pb::P4HeaderUnionStackTypeSpec { header_union: Some(named(n)), size: *size as i32 })
        }
        ir::TypeSpec::Enum(n) => T::Enum(named(n)),
        ir::TypeSpec::Error => T::Error(pb::P4ErrorType {}),
        ir::TypeSpec::SerializableEnum(n) => T::SerializableEnum(named(n)),
        ir::TypeSpec::NewType(n) => T::NewType(named(n)),
    };
    pb::P4DataTypeSpec { type_spec: Some(spec) }
}

fn type_info(t: &ir::TypeInfo) -> Option<pb::P4TypeInfo> {
    if *t == ir::TypeInfo::default() {
        return None;
    }
    let new_type = |n: &ir::NewType| {
        use pb::p4_new_type_spec::Representation;
        use pb::p4_new_type_translation::{SdnString, SdnType};
        let representation = match &n.representation {
            ir::Representation::Original(t) => Representation::OriginalType(type_spec(t)),
            ir::Representation::Translated(uri, sdn) => {
                let sdn_type = match sdn {
                    ir::SdnType::Bits(w) => SdnType::SdnBitwidth(*w as i32),
                    ir::SdnType::String => SdnType::SdnString(SdnString {}),
                };
                let uri = uri.clone();
                Representation::TranslatedType(pb::P4NewTypeTranslation { uri, sdn_type: Some(sdn_type) })
            }
        };
        pb::P4NewTypeSpec {
            annotations: n.annotations.plain.clone(),
            structured_annotations: structured(&n.annotations),
            representation: Some(representation),
            ..Default::default()
        }
    };
    let members = |list: &Vec<(String, ir::TypeSpec)>| pb::P4StructTypeSpec {
        members: list
            .iter()
            .map(|(n, t)| pb::p4_struct_type_spec::Member { name: n.clone(), type_spec: Some(type_spec(t)) })
            .collect(),
        ..Default::default()
    };
    let fields = |list: &Vec<(String, ir::BitSpec)>| pb::P4HeaderTypeSpec {
        members: list
            .iter()
            .map(|(n, b)| pb::p4_header_type_spec::Member { name: n.clone(), type_spec: Some(bits(b)) })
            .collect(),
        ..Default::default()
    };
    let unions = |list: &Vec<(String, String)>| pb::P4HeaderUnionTypeSpec {
        members: list
            .iter()
            .map(|(n, h)| pb::p4_header_union_type_spec::Member { name: n.clone(), header: Some(named(h)) })
            .collect(),
        ..Default::default()
    };
    let names = |list: &Vec<String>| pb::P4EnumTypeSpec {
        members: list.iter().map(|n| pb::p4_enum_type_spec::Member { name: n.clone(), ..Default::default() }).collect(),
        ..Default::default()
    };
    let serializable = |e: &ir::SerializableEnum| pb::P4SerializableEnumTypeSpec {
        underlying_type: Some(pb::P4BitTypeSpec { bitwidth: e.bitwidth as i32 }),
        members: e
            .members
            .iter()
            .map(|(n, v)| pb::p4_serializable_enum_type_spec::Member {
                name: n.clone(),
                value: v.clone(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    Some(pb::P4TypeInfo {
        structs: t.structs.iter().map(|(k, v)| (k.clone(), members(v))).collect(),
        headers: t.headers.iter().map(|(k, v)| (k.clone(), fields(v))).collect(),
        header_unions: t.header_unions.iter().map(|(k, v)| (k.clone(), unions(v))).collect(),
        enums: t.enums.iter().map(|(k, v)| (k.clone(), names(v))).collect(),
        error: t.errors.as_ref().map(|members| pb::P4ErrorTypeSpec { members: members.clone() }),
        serializable_enums: t.serializable_enums.iter().map(|(k, v)| (k.clone(), serializable(v))).collect(),
        new_types: t.new_types.iter().map(|(k, v)| (k.clone(), new_type(v))).collect(),
    })
}

/// The message for a program's P4Info.
pub fn message(p: &ir::P4Info) -> pb::P4Info {
    let g = &p.pkg_info;
    let metadata = |m: &ir::Metadata| pb::controller_packet_metadata::Metadata {
        id: m.id,
        name: m.name.clone(),
        annotations: m.annotations.plain.clone(),
        annotation_locations: Vec::new(),
        bitwidth: m.bitwidth as i32,
        type_name: m.type_name.as_deref().map(named),
        structured_annotations: structured(&m.annotations),
    };
    let pkg_info = pb::PkgInfo {
        name: g.name.clone(),
        version: g.version.clone(),
        doc: documentation(&g.annotations),
        annotations: g.annotations.plain.clone(),
        annotation_locations: Vec::new(),
        arch: g.arch.clone(),
        organization: g.organization.clone(),
        contact: g.contact.clone(),
        url: g.url.clone(),
        structured_annotations: structured(&g.annotations),
        platform_properties: g.platform_properties.as_ref().map(|x| pb::PlatformProperties {
            multicast_group_table_size: x.multicast_group_table_size,
            multicast_group_table_total_replicas: x.multicast_group_table_total_replicas,
            multicast_group_table_max_replicas_per_entry: x.multicast_group_table_max_replicas_per_entry,
        }),
    };
    let index_type = |t: &Option<String>| t.as_deref().map(named);
    pb::P4Info {
        pkg_info: Some(pkg_info),
        tables: p.tables.iter().map(table).collect(),
        actions: p.actions.iter().map(action).collect(),
        action_profiles: p.action_profiles.iter().map(action_profile).collect(),
        counters: p
            .counters
            .iter()
            .map(|c| pb::Counter {
                preamble: preamble(&c.preamble),
                spec: counter_spec(c.unit),
                size: c.size as i64,
                index_type_name: index_type(&c.index_type_name),
            })
            .collect(),
        direct_counters: p
            .direct_counters
            .iter()
            .map(|c| pb::DirectCounter {
                preamble: preamble(&c.preamble),
                spec: counter_spec(c.unit),
                direct_table_id: c.direct_table_id,
            })
            .collect(),
        meters: p
            .meters
            .iter()
            .map(|m| pb::Meter {
                preamble: preamble(&m.preamble),
                spec: meter_spec(m.unit),
                size: m.size as i64,
                index_type_name: index_type(&m.index_type_name),
            })
            .collect(),
        direct_meters: p
            .direct_meters
            .iter()
            .map(|m| pb::DirectMeter {
                preamble: preamble(&m.preamble),
                spec: meter_spec(m.unit),
                direct_table_id: m.direct_table_id,
            })
            .collect(),
        controller_packet_metadata: p
            .controller_packet_metadata
            .iter()
            .map(|c| pb::ControllerPacketMetadata {
                preamble: preamble(&c.preamble),
                metadata: c.metadata.iter().map(metadata).collect(),
            })
            .collect(),
        value_sets: p
            .value_sets
            .iter()
            .map(|v| pb::ValueSet {
                preamble: preamble(&v.preamble),
                r#match: v.match_fields.iter().map(match_field).collect(),
                size: v.size as i32,
            })
            .collect(),
        registers: p
            .registers
            .iter()
            .map(|r| pb::Register {
                preamble: preamble(&r.preamble),
                type_spec: Some(type_spec(&r.type_spec)),
                size: r.size as i32,
                index_type_name: index_type(&r.index_type_name),
            })
            .collect(),
        digests: p
            .digests
            .iter()
            .map(|d| pb::Digest { preamble: preamble(&d.preamble), type_spec: Some(type_spec(&d.type_spec)) })
            .collect(),
        externs: Vec::new(),
        type_info: type_info(&p.type_info),
    }
}

/// Facts that must agree: kind, name and id of an object, then property and value.
type Facts = BTreeMap<(&'static str, u32, String), String>;

struct Collect(Facts, BTreeMap<(&'static str, u32), String>);

impl Collect {
    fn object(&mut self, kind: &'static str, p: &Option<pb::Preamble>, facts: Vec<(String, String)>) {
        let (id, name) = p.as_ref().map_or((0, String::new()), |p| (p.id, p.name.clone()));
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
        let kind = match f.r#match {
            Some(pb::match_field::Match::MatchType(t)) => {
                pb::match_field::MatchType::try_from(t).map_or("unknown", |t| t.as_str_name())
            }
            Some(pb::match_field::Match::OtherMatchType(_)) => "other",
            None => "none",
        };
        facts.extend([fact(at("name"), &f.name), fact(at("bitwidth"), f.bitwidth), (at("match type"), kind.into())]);
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
        c.object("table", &t.preamble, facts);
    }
    for a in &p.actions {
        let mut facts = vec![fact("number of parameters", a.params.len())];
        for x in &a.params {
            facts.push(fact(format!("name of parameter {}", x.id), &x.name));
            facts.push(fact(format!("bitwidth of parameter {}", x.id), x.bitwidth));
        }
        c.object("action", &a.preamble, facts);
    }
    for a in &p.action_profiles {
        let facts = vec![
            fact("table_ids", &a.table_ids),
            fact("with_selector", a.with_selector),
            fact("size", a.size),
            fact("max_group_size", a.max_group_size),
        ];
        c.object("action profile", &a.preamble, facts);
    }
    let unit = |u: Option<i32>| fact("unit", u.unwrap_or(0));
    for x in &p.counters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("size", x.size)];
        c.object("counter", &x.preamble, facts);
    }
    for x in &p.direct_counters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("direct_table_id", x.direct_table_id)];
        c.object("direct counter", &x.preamble, facts);
    }
    for x in &p.meters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("size", x.size)];
        c.object("meter", &x.preamble, facts);
    }
    for x in &p.direct_meters {
        let facts = vec![unit(x.spec.as_ref().map(|s| s.unit)), fact("direct_table_id", x.direct_table_id)];
        c.object("direct meter", &x.preamble, facts);
    }
    for x in &p.controller_packet_metadata {
        let mut facts = vec![fact("number of fields", x.metadata.len())];
        for m in &x.metadata {
            facts.push(fact(format!("name of field {}", m.id), &m.name));
            facts.push(fact(format!("bitwidth of field {}", m.id), m.bitwidth));
        }
        c.object("controller packet metadata", &x.preamble, facts);
    }
    for x in &p.value_sets {
        let mut facts = match_facts(&x.r#match);
        facts.push(fact("size", x.size));
        c.object("value set", &x.preamble, facts);
    }
    for x in &p.registers {
        c.object("register", &x.preamble, vec![fact("type_spec", &x.type_spec), fact("size", x.size)]);
    }
    for x in &p.digests {
        c.object("digest", &x.preamble, vec![fact("type_spec", &x.type_spec)]);
    }
    for x in &p.externs {
        c.object("extern", &Some(pb::Preamble { id: x.extern_type_id, ..Default::default() }), Vec::new());
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
