// SPDX-License-Identifier: Apache-2.0
//! P4Info of a document: made from its names, or a controller's own, whose objects are matched by name.
use crate::bytecode::program::{
    ActionParam, CountKind, CounterDecl, Key, KeyMatch, MatchKind, Program, Table, TableAction,
};
use crate::check::p4info::symbols::Symbols;
use crate::p4info::proto::{self as pb, match_field::MatchType};
use crate::p4info::strings::Strings;
use crate::p4info::*;
use crate::value::Val;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Name, and name and width of each field, of a header type.
pub(super) type Header = (String, Vec<(String, u32)>);

/// Whether p4c made a table for statements outside of tables, which controllers do not see.
pub(super) fn is_hidden(t: &Table) -> bool {
    t.keys.is_empty() && t.name.starts_with("tbl_") && !t.name.contains('.') && t.const_default
}

fn bitstring(bitwidth: u32) -> pb::P4DataTypeSpec {
    use pb::p4_bitstring_like_type_spec::TypeSpec as Bits;
    let bits = Bits::Bit(pb::P4BitTypeSpec { bitwidth: bitwidth as i32 });
    let spec = pb::P4BitstringLikeTypeSpec { type_spec: Some(bits), ..Default::default() };
    pb::P4DataTypeSpec { type_spec: Some(pb::p4_data_type_spec::TypeSpec::Bitstring(spec)) }
}

fn match_kind(kind: MatchKind) -> MatchType {
    match kind {
        MatchKind::Exact | MatchKind::Selector => MatchType::Exact,
        MatchKind::Lpm => MatchType::Lpm,
        MatchKind::Ternary => MatchType::Ternary,
        MatchKind::Range => MatchType::Range,
        MatchKind::Optional => MatchType::Optional,
    }
}

struct Maker<'p> {
    program: &'p Program,
    symbols: Symbols,
}

impl Maker<'_> {
    fn preamble(&self, prefix: Prefix, name: &str) -> Option<pb::Preamble> {
        let (id, alias) = (self.symbols.id(prefix, name), self.symbols.alias(name));
        Some(pb::Preamble { id, name: name.into(), alias, ..Default::default() })
    }

    fn matched(&self, t: &Table) -> Vec<pb::MatchField> {
        let keys = t.keys.iter().filter(|k| k.kind != MatchKind::Selector);
        let field = |(id, k): (u32, &Key)| pb::MatchField {
            id,
            name: k.name.clone(),
            bitwidth: k.width as i32,
            r#match: Some(pb::match_field::Match::MatchType(match_kind(k.kind).into())),
            ..Default::default()
        };
        (1..).zip(keys).map(field).collect()
    }

    fn table(&self, ir_index: usize, t: &Table) -> crate::p4info::Table {
        use pb::action_ref::Scope;
        use pb::table::IdleTimeoutBehavior as Idle;
        let (p, s) = (self.program, &self.symbols);
        let id = |a: &TableAction| s.id(Prefix::Action, &a.name);
        let refs = t.actions.iter().map(|a| {
            let scope = if a.default_only { Scope::DefaultOnly } else { Scope::TableAndDefault };
            pb::ActionRef { id: id(a), scope: scope.into(), ..Default::default() }
        });
        let default = &t.actions[t.default.action];
        let args = (1..).zip(t.default.args.iter().zip(&default.params));
        let argument = |(param_id, (v, x)): (u32, (&Val, &ActionParam))| pb::table_action_call::Argument {
            param_id,
            value: v.bytes(x.width),
        };
        let call = pb::TableActionCall { action_id: id(default), arguments: args.map(argument).collect() };
        let counter = t.counter.map(|c| s.id(Prefix::DirectCounter, &p.counters[c].name));
        let meter = t.meter.map(|m| s.id(Prefix::DirectMeter, &p.meters[m].name));
        let message = pb::Table {
            preamble: self.preamble(Prefix::Table, &t.name),
            match_fields: self.matched(t),
            action_refs: refs.collect(),
            const_default_action_id: if t.const_default { id(default) } else { 0 },
            initial_default_action: Some(call),
            implementation_id: t.profile.map_or(0, |x| s.id(Prefix::ActionProfile, &p.profiles[x].name)),
            direct_resource_ids: counter.into_iter().chain(meter).collect(),
            size: t.size as i64,
            idle_timeout_behavior: (if t.idle_timeout { Idle::NotifyControl } else { Idle::NoTimeout }).into(),
            is_const_table: t.const_entries,
            has_initial_entries: !t.entries.is_empty(),
            other_properties: None,
        };
        Object { message, ir_index }
    }

    fn action(&self, a: &TableAction) -> pb::Action {
        let param = |(id, p): (u32, &ActionParam)| pb::action::Param {
            id,
            name: p.name.clone(),
            bitwidth: p.width as i32,
            ..Default::default()
        };
        let params = (1..).zip(&a.params).map(param).collect();
        pb::Action { preamble: self.preamble(Prefix::Action, &a.name), params }
    }

    fn arrays(&self, info: &mut P4Info) {
        let p = self.program;
        let owner = |uses: &dyn Fn(&Table) -> bool| {
            let found = info.tables.iter().find(|t| uses(&p.tables[t.ir_index]));
            found.map_or(0, |t| t.id())
        };
        let unit = |k: CountKind| match k {
            CountKind::Packets => 2,
            CountKind::Bytes => 1,
            CountKind::Both => 3,
        };
        for (i, c) in p.counters.iter().enumerate() {
            let spec = Some(pb::CounterSpec { unit: unit(c.kind) });
            match c.size {
                Some(size) => {
                    let preamble = self.preamble(Prefix::Counter, &c.name);
                    let message = pb::Counter { preamble, spec, size: size as i64, index_type_name: None };
                    info.counters.push(Object { message, ir_index: i });
                }
                None => {
                    let preamble = self.preamble(Prefix::DirectCounter, &c.name);
                    let direct_table_id = owner(&|t| t.counter == Some(i));
                    let message = pb::DirectCounter { preamble, spec, direct_table_id };
                    info.direct_counters.push(Object { message, ir_index: i });
                }
            }
        }
        for (i, m) in p.meters.iter().enumerate() {
            let spec = Some(pb::MeterSpec { unit: if m.kind == CountKind::Packets { 2 } else { 1 }, r#type: 0 });
            match m.size {
                Some(size) => {
                    let preamble = self.preamble(Prefix::Meter, &m.name);
                    let message = pb::Meter { preamble, spec, size: size as i64, index_type_name: None };
                    info.meters.push(Object { message, ir_index: i });
                }
                None => {
                    let preamble = self.preamble(Prefix::DirectMeter, &m.name);
                    let direct_table_id = owner(&|t| t.meter == Some(i));
                    let message = pb::DirectMeter { preamble, spec, direct_table_id };
                    info.direct_meters.push(Object { message, ir_index: i });
                }
            }
        }
        for (i, r) in p.registers.iter().enumerate() {
            let (preamble, type_spec) = (self.preamble(Prefix::Register, &r.name), Some(bitstring(r.width)));
            let message = pb::Register { preamble, type_spec, size: r.size as i32, index_type_name: None };
            info.registers.push(Object { message, ir_index: i });
        }
    }

    fn rest(&self, info: &mut P4Info) {
        let p = self.program;
        for (i, x) in p.profiles.iter().enumerate() {
            let tables = info.tables.iter().filter(|t| p.tables[t.ir_index].profile == Some(i));
            let message = pb::ActionProfile {
                preamble: self.preamble(Prefix::ActionProfile, &x.name),
                table_ids: tables.map(|t| t.id()).collect(),
                with_selector: x.selector.is_some(),
                size: x.size as i64,
                ..Default::default()
            };
            info.action_profiles.push(Object { message, ir_index: i });
        }
        for (i, d) in p.digests.iter().enumerate() {
            let members = d.fields.iter().map(|(_, w)| bitstring(*w)).collect();
            let tuple = pb::p4_data_type_spec::TypeSpec::Tuple(pb::P4TupleTypeSpec { members });
            let type_spec = Some(pb::P4DataTypeSpec { type_spec: Some(tuple) });
            let message = pb::Digest { preamble: self.preamble(Prefix::Digest, &d.name), type_spec };
            info.digests.push(Object { message, ir_index: i });
        }
        for (i, v) in p.value_sets.iter().enumerate() {
            let field = |(id, w): (u32, &u32)| pb::MatchField {
                id,
                name: if v.widths.len() == 1 { String::new() } else { format!("f{}", id - 1) },
                bitwidth: *w as i32,
                r#match: Some(pb::match_field::Match::MatchType(MatchType::Exact.into())),
                ..Default::default()
            };
            let fields = (1..).zip(&v.widths).map(field).collect();
            let preamble = self.preamble(Prefix::ValueSet, &v.name);
            let message = pb::ValueSet { preamble, r#match: fields, size: v.size as i32 };
            info.value_sets.push(Object { message, ir_index: i });
        }
    }
}

/// The P4Info that p4c would give, as far as the document has it.
pub(super) fn made(program: &Program) -> P4Info {
    let mut symbols = Symbols::default();
    let mut add = |prefix: Prefix, name: &str| {
        symbols.ids.insert((prefix, name.to_string()), 0);
    };
    let tables: Vec<usize> = (0..program.tables.len()).filter(|t| !is_hidden(&program.tables[*t])).collect();
    for t in tables.iter().map(|t| &program.tables[*t]) {
        add(Prefix::Table, &t.name);
        t.actions.iter().for_each(|a| add(Prefix::Action, &a.name));
    }
    let direct = |size: Option<usize>, whole: Prefix, direct: Prefix| if size.is_some() { whole } else { direct };
    program.counters.iter().for_each(|c| add(direct(c.size, Prefix::Counter, Prefix::DirectCounter), &c.name));
    program.meters.iter().for_each(|m| add(direct(m.size, Prefix::Meter, Prefix::DirectMeter), &m.name));
    program.registers.iter().for_each(|x| add(Prefix::Register, &x.name));
    program.profiles.iter().for_each(|x| add(Prefix::ActionProfile, &x.name));
    program.value_sets.iter().for_each(|x| add(Prefix::ValueSet, &x.name));
    program.digests.iter().for_each(|x| add(Prefix::Digest, &x.name));
    symbols.number();
    let maker = Maker { program, symbols };
    let mut info = P4Info::default();
    info.pkg_info.arch = "v1model".into();
    for t in &tables {
        info.tables.push(maker.table(*t, &program.tables[*t]));
        for a in &program.tables[*t].actions {
            if !info.actions.iter().any(|known| known.name() == a.name) {
                info.actions.push(maker.action(a));
            }
        }
    }
    maker.arrays(&mut info);
    maker.rest(&mut info);
    info
}

type Fits<T> = Result<T, String>;

/// Objects of a kind by name.
fn placed<M: Preambled + Clone>(kind: &str, given: &[M], own: &[(usize, &str)]) -> Fits<Vec<Object<M>>> {
    let known: HashMap<&str, usize> = own.iter().map(|(i, name)| (*name, *i)).collect();
    let place = |m: &M| match known.get(m.name()) {
        Some(i) => Ok(Object { message: m.clone(), ir_index: *i }),
        None => Err(format!("{kind} {} is not in the program", m.name())),
    };
    let out = given.iter().map(place).collect::<Fits<Vec<_>>>()?;
    match own.iter().find(|(i, _)| !out.iter().any(|o| o.ir_index == *i)) {
        Some((_, name)) => Err(format!("{kind} {name} of the program is missing")),
        None => Ok(out),
    }
}

fn named<T>(list: &[T], is: impl Fn(&T) -> bool, name: impl Fn(&T) -> &str) -> Vec<(usize, &str)> {
    list.iter().enumerate().filter(|(_, x)| is(x)).map(|(i, x)| (i, name(x))).collect()
}

/// Gives a program the P4Info that a controller brings with it.
///
/// # Errors
/// The first point in which it does not fit.
pub(super) fn adopted(program: &mut Program, headers: &[Header], given: &pb::P4Info) -> Fits<P4Info> {
    let all = |_: &_| true;
    let mut info = P4Info { actions: given.actions.clone(), ..P4Info::default() };
    info.pkg_info = given.pkg_info.clone().unwrap_or_default();
    info.type_info = given.type_info.clone().unwrap_or_default();
    for t in &given.tables {
        let Some(ir_index) = program.tables.iter().position(|x| x.name == t.name()) else {
            return Err(format!("table {} is not in the program", t.name()));
        };
        let message = table(program, ir_index, t, given, &mut info.new_type_bits)?;
        info.tables.push(Object { message, ir_index });
    }
    for a in &given.actions {
        let tables = info.tables.iter().map(|t| &program.tables[t.ir_index]);
        for own in tables.flat_map(|t| &t.actions).filter(|x| x.name == a.name()) {
            action(own, a, &mut info.new_type_bits)?;
        }
    }
    let p = &*program;
    let profiles = named(&p.profiles, |x| given.action_profiles.iter().any(|g| g.name() == x.name), |x| &x.name);
    info.action_profiles = placed("action profile", &given.action_profiles, &profiles)?;
    info.counters = placed("counter", &given.counters, &named(&p.counters, |c| c.size.is_some(), |c| &c.name))?;
    let direct = named(&p.counters, |c| c.size.is_none(), |c| &c.name);
    info.direct_counters = placed("direct counter", &given.direct_counters, &direct)?;
    info.meters = placed("meter", &given.meters, &named(&p.meters, |m| m.size.is_some(), |m| &m.name))?;
    let direct = named(&p.meters, |m| m.size.is_none(), |m| &m.name);
    info.direct_meters = placed("direct meter", &given.direct_meters, &direct)?;
    info.registers = placed("register", &given.registers, &named(&p.registers, all, |r| &r.name))?;
    info.value_sets = placed("value set", &given.value_sets, &named(&p.value_sets, |_| true, |v| &v.name))?;
    info.digests = digests(p, given)?;
    for c in &info.counters {
        count_kind(&mut program.counters[c.ir_index], c.message.spec.as_ref());
    }
    for c in &info.direct_counters {
        count_kind(&mut program.counters[c.ir_index], c.message.spec.as_ref());
    }
    for v in &info.value_sets {
        let set = &mut program.value_sets[v.ir_index];
        let widths: Vec<u32> = v.message.r#match.iter().map(|m| m.bitwidth as u32).collect();
        if widths != set.widths {
            return Err(format!("value set {} has fields of other widths in the program", v.name()));
        }
        set.size = usize::try_from(v.message.size).unwrap_or(0);
    }
    types(&mut info);
    info.controller_packet_metadata =
        given.controller_packet_metadata.iter().map(|m| controller_header(m, headers)).collect();
    Ok(info)
}

fn count_kind(c: &mut CounterDecl, spec: Option<&pb::CounterSpec>) {
    c.kind = match spec.map_or(0, |s| s.unit) {
        1 => CountKind::Bytes,
        2 => CountKind::Packets,
        _ => CountKind::Both,
    };
}

/// Widths agree, or the type is one that has another width for controllers.
fn width(
    what: impl Fn() -> String,
    given: i32,
    name: &Option<pb::P4NamedType>,
    own: u32,
    bits: &mut BTreeMap<String, u32>,
) -> Fits<()> {
    match name {
        Some(ty) => {
            bits.insert(ty.name.clone(), own);
            Ok(())
        }
        None if given == own as i32 => Ok(()),
        None => Err(format!("bitwidth of {} is {given} in it, {own} in the program", what())),
    }
}

fn action(own: &TableAction, a: &pb::Action, bits: &mut BTreeMap<String, u32>) -> Fits<()> {
    if own.params.len() != a.params.len() {
        let (n, m) = (a.params.len(), own.params.len());
        return Err(format!("action {} has {n} parameters in it, {m} in the program", own.name));
    }
    for (p, x) in a.params.iter().zip(&own.params) {
        let what = || format!("parameter {} of action {}", p.name, own.name);
        width(what, p.bitwidth, &p.type_name, x.width, bits)?;
    }
    Ok(())
}

/// A table's message with its actions in the program's order; the program's table gets what only P4Info has.
fn table(
    program: &mut Program,
    i: usize,
    t: &pb::Table,
    given: &pb::P4Info,
    bits: &mut BTreeMap<String, u32>,
) -> Fits<pb::Table> {
    let name = t.name();
    let own = &mut program.tables[i];
    let keys: Vec<usize> = (0..own.keys.len()).filter(|k| own.keys[*k].kind != MatchKind::Selector).collect();
    if keys.len() != t.match_fields.len() {
        let (n, m) = (t.match_fields.len(), keys.len());
        return Err(format!("table {name} has {n} match fields in it, {m} in the program"));
    }
    for (at, (k, f)) in keys.into_iter().zip(&t.match_fields).enumerate() {
        // p4c writes optional keys as ternary ones.
        if own.keys[k].kind == MatchKind::Ternary && match_type(f) == MatchType::Optional {
            own.keys[k].kind = MatchKind::Optional;
            let width = own.keys[k].width;
            for e in &mut own.entries {
                e.keys[at] = match e.keys[at].clone() {
                    KeyMatch::Ternary(_, m) if m.is_zero() => KeyMatch::Optional(None),
                    KeyMatch::Ternary(v, m) if m == Val::all_ones(width) => KeyMatch::Optional(Some(v)),
                    _ => return Err(format!("an entry of table {name} has a mask of an optional match field")),
                };
            }
        }
        let key = &mut own.keys[k];
        if match_kind(key.kind) != match_type(f) {
            return Err(format!("match field {} of table {name} has another match type in the program", f.name));
        }
        width(|| format!("match field {} of table {name}", f.name), f.bitwidth, &f.type_name, key.width, bits)?;
        key.name = f.name.clone();
    }
    let mut message = t.clone();
    message.action_refs.clear();
    for a in &mut own.actions {
        use pb::action_ref::Scope;
        let named = |r: &&pb::ActionRef| given.actions.iter().any(|x| x.id() == r.id && x.name() == a.name);
        match t.action_refs.iter().find(named) {
            Some(r) => {
                a.default_only = r.scope() == Scope::DefaultOnly;
                a.table_only = r.scope() == Scope::TableOnly;
                message.action_refs.push(r.clone());
            }
            // The action that does nothing, which the program adds last.
            None if a.default_only => {}
            None => return Err(format!("action {} of table {name} is missing", a.name)),
        }
    }
    if message.action_refs.len() != t.action_refs.len() {
        return Err(format!("table {name} has actions that it lacks in the program"));
    }
    own.const_entries = t.is_const_table && !own.entries.is_empty();
    if !own.const_entries {
        own.entries.iter_mut().for_each(|e| e.is_const = false);
    }
    Ok(message)
}

/// Values in a digest's type.
fn leaves(spec: Option<&pb::P4DataTypeSpec>, types: &pb::P4TypeInfo) -> Option<usize> {
    use pb::p4_data_type_spec::TypeSpec;
    Some(match spec?.type_spec.as_ref()? {
        TypeSpec::Tuple(t) => t.members.iter().map(|m| leaves(Some(m), types)).sum::<Option<usize>>()?,
        TypeSpec::Struct(s) => {
            let members = &types.structs.get(&s.name)?.members;
            members.iter().map(|m| leaves(m.type_spec.as_ref(), types)).sum::<Option<usize>>()?
        }
        TypeSpec::Header(h) => types.headers.get(&h.name)?.members.len(),
        _ => 1,
    })
}

/// Digests by name; lists without a type are numbered.
fn digests(program: &Program, given: &pb::P4Info) -> Fits<Vec<Object<pb::Digest>>> {
    let types = given.type_info.clone().unwrap_or_default();
    let mut out = Vec::new();
    for (i, d) in given.digests.iter().enumerate() {
        let by_name = program.digests.iter().position(|x| x.name == d.name());
        let Some(ir_index) = by_name.or((i < program.digests.len()).then_some(i)) else {
            return Err(format!("digest {} is not in the program", d.name()));
        };
        let own = program.digests[ir_index].fields.len();
        if leaves(d.type_spec.as_ref(), &types) != Some(own) {
            return Err(format!("digest {} does not have {own} values, as the program has", d.name()));
        }
        out.push(Object { message: d.clone(), ir_index });
    }
    Ok(out)
}

/// Bits and strings of the types that controllers see otherwise than the program.
fn types(info: &mut P4Info) {
    use pb::p4_new_type_spec::Representation;
    use pb::p4_new_type_translation::SdnType;
    for (name, spec) in &info.type_info.new_types {
        let Some(Representation::TranslatedType(t)) = &spec.representation else { continue };
        let sdn = match &t.sdn_type {
            Some(SdnType::SdnBitwidth(w)) => *w as u32,
            _ => 32,
        };
        let bits = *info.new_type_bits.entry(name.clone()).or_insert(sdn);
        if matches!(t.sdn_type, Some(SdnType::SdnString(_))) {
            info.strings.insert(name.clone(), Arc::new(Strings::new(name, bits, &[])));
        }
    }
}

/// A header of packets to or from the controller: its fields lie where the header type of its id has them, else one
/// after the other, as BMv2 takes them.
fn controller_header(m: &pb::ControllerPacketMetadata, headers: &[Header]) -> ControllerHeader {
    let id = |name: &str| {
        (Prefix::ControllerHeader as u32) << 24 | crate::check::p4info::symbols::name_hash(name) & 0xff_ffff
    };
    let known = headers.iter().find(|(name, fields)| {
        let has = |name: &str| fields.iter().any(|f| f.0 == name);
        m.id() == id(name) && m.metadata.iter().all(|x| has(&x.name))
    });
    let (mut fields, mut bits) = (Vec::new(), 0);
    match known {
        Some((_, all)) => {
            let mut at = BTreeMap::new();
            for (name, w) in all {
                at.insert(name, HeaderField { offset_bits: bits, bits: *w });
                bits += w;
            }
            fields.extend(m.metadata.iter().filter_map(|x| at.get(&x.name).cloned()));
        }
        None => {
            for x in &m.metadata {
                let w = u32::try_from(x.bitwidth).unwrap_or(0);
                fields.push(HeaderField { offset_bits: bits, bits: w });
                bits += w;
            }
        }
    }
    ControllerHeader { message: m.clone(), fields, bits }
}
