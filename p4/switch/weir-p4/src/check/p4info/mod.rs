// SPDX-License-Identifier: Apache-2.0
//! P4Info of a program that passed. Ids are those p4c gives, so that a controller's configuration fits both: the
//! kind in the first byte, then `@id` or 24 bits of a hash of the name, the next free ones where two clash.
mod annotations;
mod reached;
pub(crate) mod symbols;
mod types;

use crate::check::notes::Notes;
use crate::check::prelude::*;
use crate::p4info::proto::{self as pb, match_field::MatchType};
use crate::p4info::strings::Strings;
use crate::p4info::*;
use crate::syntax::ast;
use crate::syntax::lexer::{Token, TokenKind};
use annotations::*;
use reached::Reached;
use std::collections::{BTreeMap, BTreeSet};
use symbols::Symbols;
use types::*;

fn counter_spec(kind: program::CountKind) -> Option<pb::CounterSpec> {
    use pb::counter_spec::Unit;
    let unit = match kind {
        program::CountKind::Packets => Unit::Packets,
        program::CountKind::Bytes => Unit::Bytes,
        program::CountKind::Both => Unit::Both,
    };
    Some(pb::CounterSpec { unit: unit.into() })
}

fn meter_spec(kind: program::CountKind) -> Option<pb::MeterSpec> {
    use pb::meter_spec::{Type, Unit};
    let unit = if matches!(kind, program::CountKind::Packets) { Unit::Packets } else { Unit::Bytes };
    Some(pb::MeterSpec { unit: unit.into(), r#type: Type::TwoRateThreeColor.into() })
}

fn match_field(id: u32, name: &str, bitwidth: i32, kind: MatchType, a: Annotations) -> pb::MatchField {
    pb::MatchField {
        id,
        name: name.to_string(),
        annotations: a.plain,
        bitwidth,
        doc: a.doc,
        structured_annotations: a.structured,
        r#match: Some(pb::match_field::Match::MatchType(kind.into())),
        ..Default::default()
    }
}

fn named_type(name: String) -> pb::P4NamedType {
    pb::P4NamedType { name }
}

impl Context<'_> {
    pub fn p4info(&mut self) -> Checked<P4Info> {
        // Apart from `self`, so that annotations can be evaluated meanwhile.
        let notes = std::mem::take(&mut self.notes);
        let p = std::mem::take(&mut self.program);
        let bodies = self.actions.iter().map(|a| a.callee.body).collect();
        let reached = Reached::of(&p, bodies);
        let tables: Vec<usize> = (0..p.tables.len()).filter(|t| reached.tables[*t]).collect();
        let digests = (0..p.digests.len()).filter(|d| reached.digests[*d]).collect();
        let of_table = |t: &usize| notes.tables[*t].actions.iter().map(|(a, _)| *a);
        let in_tables: BTreeSet<usize> = tables.iter().flat_map(of_table).collect();
        let all = self.actions.iter().enumerate().map(|(i, a)| (a.clone(), in_tables.contains(&i)));
        let actions = all.filter(|(a, used)| *used || reached.called.contains(&a.callee.body)).collect();
        let headers = notes.controller_headers.iter().filter_map(|n| match self.scopes[0].get(&n.text) {
            Some(TypedValue { kind: ValueKind::Type(TypeDef::Ty(Ty::Struct(s))), .. }) => Some((s.clone(), n.span)),
            _ => None,
        });
        let headers = headers.filter(|(s, _)| s.kind == StructKind::Header).collect();
        let (symbols, info) =
            (Symbols::default(), P4Info { calls_functions: notes.calls_functions, ..P4Info::default() });
        let r = Maker { context: self, program: &p, notes: &notes, tables, actions, digests, headers, symbols, info }
            .make();
        self.program = p;
        r
    }
}

struct Maker<'m, 'a> {
    context: &'m mut Context<'a>,
    program: &'m Program,
    notes: &'m Notes,
    /// Those that packets can reach; p4c removes the others and gives them no ids.
    tables: Vec<usize>,
    /// With whether a table has it: one that is only called has no parameters left for a controller.
    actions: Vec<(ActionInstance, bool)>,
    digests: Vec<usize>,
    headers: Vec<(Rc<StructTy>, Span)>,
    symbols: Symbols,
    info: P4Info,
}

impl Maker<'_, '_> {
    fn make(mut self) -> Checked<P4Info> {
        self.symbols()?;
        self.pkg_info()?;
        self.actions()?;
        self.tables()?;
        self.profiles()?;
        self.counters()?;
        self.meters()?;
        self.registers()?;
        self.digests()?;
        self.value_sets()?;
        self.packet_metadata()?;
        Ok(self.info)
    }

    fn preamble(
        &mut self,
        prefix: Prefix,
        name: &str,
        annos: &[ast::Annotation],
        skip: &[&str],
    ) -> Checked<Option<pb::Preamble>> {
        let a = self.annotations(annos, skip)?;
        Ok(Some(pb::Preamble {
            id: self.symbols.id(prefix, name),
            name: name.to_string(),
            alias: self.symbols.alias(name),
            annotations: a.plain,
            doc: a.doc,
            structured_annotations: a.structured,
            ..Default::default()
        }))
    }

    fn actions(&mut self) -> Checked<()> {
        for (a, in_table) in self.actions.clone() {
            let id = self.symbols.id(Prefix::Action, &a.full_name);
            if has(&a.annos, "hidden") || self.info.action(id).is_some() {
                continue;
            }
            let all = a.callee.params.iter().zip(&a.decl.params);
            let free: Vec<_> = all.filter(|(p, _)| in_table && p.dir == Dir::None).collect();
            let ids = self.field_ids(free.iter().map(|(_, d)| (d.annos.as_slice(), d.name.span)))?;
            let mut params = Vec::new();
            for ((b, d), id) in free.into_iter().zip(ids) {
                self.type_spec(&b.ty, d.name.span)?;
                let (bitwidth, type_name) = match &b.ty {
                    Ty::Enum(e) if e.under.is_none() => (0, Some(e.name.clone())),
                    t => (self.controller_width(t)?, new_type_name(t)),
                };
                let a = self.annotations(&d.annos, &[])?;
                params.push(pb::action::Param {
                    id,
                    name: anno_string(&d.annos, "name").unwrap_or_else(|| b.name.clone()),
                    annotations: a.plain,
                    bitwidth,
                    doc: a.doc,
                    type_name: type_name.map(named_type),
                    structured_annotations: a.structured,
                    ..Default::default()
                });
            }
            let preamble = self.preamble(Prefix::Action, &a.full_name, &a.annos, &[])?;
            self.info.actions.push(pb::Action { preamble, params });
        }
        Ok(())
    }

    fn tables(&mut self) -> Checked<()> {
        for ir_index in self.tables.clone() {
            let (t, note) = (&self.program.tables[ir_index], &self.notes.tables[ir_index]);
            if has(&note.annos, "hidden") {
                continue;
            }
            let match_fields = self.match_fields(t, note)?;
            let mut action_refs = Vec::new();
            for (a, (_, annos)) in t.actions.iter().zip(&note.actions) {
                use pb::action_ref::Scope;
                let scope = match (a.table_only, a.default_only) {
                    (true, true) => {
                        let m = format!("action `{}` is marked both @tableonly and @defaultonly", a.name);
                        return self.context.err(note.span, m);
                    }
                    (true, false) => Scope::TableOnly,
                    (false, true) => Scope::DefaultOnly,
                    (false, false) => Scope::TableAndDefault,
                };
                let id = self.symbols.id(Prefix::Action, &a.name);
                let a = self.annotations(annos, &[])?;
                action_refs.push(pb::ActionRef {
                    id,
                    scope: scope.into(),
                    annotations: a.plain,
                    structured_annotations: a.structured,
                    ..Default::default()
                });
            }
            let default = &t.actions[t.default.action];
            let default_id = self.symbols.id(Prefix::Action, &default.name);
            let ids = self.info.action(default_id).map(|a| a.params.iter().map(|p| p.id).collect::<Vec<_>>());
            // In as many bytes as the width needs: p4c's form, not the shortest that P4Runtime 8.4 calls canonical.
            let args = t.default.args.iter().zip(&default.params).map(|(v, p)| v.bytes(p.width));
            let argument = |(param_id, value)| pb::table_action_call::Argument { param_id, value };
            let arguments = ids.unwrap_or_default().into_iter().zip(args).map(argument).collect();
            let (p, s) = (self.program, &self.symbols);
            let counter = t.counter.map(|c| s.id(Prefix::DirectCounter, &p.counters[c].name));
            let meter = t.meter.map(|m| s.id(Prefix::DirectMeter, &p.meters[m].name));
            let profile = t.profile.map(|x| s.id(Prefix::ActionProfile, &p.profiles[x].name));
            let preamble = self.preamble(Prefix::Table, &t.name, &note.annos, &[])?;
            use pb::table::IdleTimeoutBehavior as Idle;
            let message = pb::Table {
                preamble,
                match_fields,
                action_refs,
                const_default_action_id: if t.const_default { default_id } else { 0 },
                initial_default_action: (default_id != 0)
                    .then_some(pb::TableActionCall { action_id: default_id, arguments }),
                implementation_id: profile.unwrap_or(0),
                direct_resource_ids: counter.into_iter().chain(meter).collect(),
                size: if t.size == 0 { 1024 } else { t.size as i64 },
                idle_timeout_behavior: (if t.idle_timeout { Idle::NotifyControl } else { Idle::NoTimeout }).into(),
                is_const_table: t.const_entries,
                has_initial_entries: !t.entries.is_empty(),
                other_properties: None,
            };
            self.info.tables.push(Object { message, ir_index });
        }
        Ok(())
    }

    fn match_fields(&mut self, t: &program::Table, note: &TableNote) -> Checked<Vec<pb::MatchField>> {
        let ids = self.field_ids(note.keys.iter().map(|(_, a, s)| (a.as_slice(), *s)))?;
        let mut out = Vec::new();
        for ((k, (ty, annos, span)), id) in t.keys.iter().zip(&note.keys).zip(ids) {
            let match_type = match k.kind {
                program::MatchKind::Exact => MatchType::Exact,
                program::MatchKind::Lpm => MatchType::Lpm,
                program::MatchKind::Ternary => MatchType::Ternary,
                program::MatchKind::Range => MatchType::Range,
                program::MatchKind::Optional => MatchType::Optional,
                // An input of the selector's hash, nothing to match.
                program::MatchKind::Selector => continue,
            };
            self.type_spec(ty, *span)?;
            let name = match k.name.strip_suffix(".isValid()") {
                Some(header) => format!("{header}.$valid$"),
                None => k.name.clone(),
            };
            let (annotations, bitwidth) = (self.annotations(annos, &[])?, self.controller_width(ty)?);
            let type_name = new_type_name(ty).map(named_type);
            out.push(pb::MatchField { type_name, ..match_field(id, &name, bitwidth, match_type, annotations) });
        }
        Ok(out)
    }

    fn profiles(&mut self) -> Checked<()> {
        use pb::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
        for (i, (x, note)) in self.program.profiles.iter().zip(&self.notes.profiles).enumerate() {
            let told = ["max_group_size", "selector_size_semantics", "max_member_weight"];
            let mut profile = pb::ActionProfile {
                preamble: self.preamble(Prefix::ActionProfile, &x.name, &note.annos, &told)?,
                with_selector: x.selector.is_some(),
                size: x.size as i64,
                ..Default::default()
            };
            let tables = self.info.tables.iter().filter(|t| self.program.tables[t.ir_index].profile == Some(i));
            profile.table_ids = tables.map(|t| t.id()).collect();
            if profile.with_selector {
                profile.max_group_size = self.number_annotation(&note.annos, "max_group_size")?.unwrap_or(0);
                let max_member_weight = self.number_annotation(&note.annos, "max_member_weight")?.unwrap_or(0);
                profile.selector_size_semantics = match anno_string(&note.annos, "selector_size_semantics") {
                    None => None,
                    Some(s) if s.eq_ignore_ascii_case("sum_of_weights") => {
                        Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {}))
                    }
                    Some(s) if s.eq_ignore_ascii_case("sum_of_members") => {
                        Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers { max_member_weight }))
                    }
                    Some(s) => {
                        let m = format!("@selector_size_semantics has no \"{s}\"");
                        return self.context.err_help(note.span, m, "write \"sum_of_weights\" or \"sum_of_members\"");
                    }
                };
            } else if let Some(a) = note.annos.iter().find(|a| told.contains(&a.name.text.as_str())) {
                self.context.diagnostics.warn(a.name.span, format!("@{} does nothing without a selector", a.name.text));
            }
            self.info.action_profiles.push(Object { message: profile, ir_index: i });
        }
        Ok(())
    }

    fn counters(&mut self) -> Checked<()> {
        for (i, (c, note)) in self.program.counters.iter().zip(&self.notes.counters).enumerate() {
            let spec = counter_spec(c.kind);
            if let Some(size) = c.size {
                let index_type_name = self.index_type("counter", 1, note)?;
                let preamble = self.preamble(Prefix::Counter, &c.name, &note.annos, &[])?;
                let message = pb::Counter { preamble, spec, size: size as i64, index_type_name };
                self.info.counters.push(Object { message, ir_index: i });
            } else if let Some(direct_table_id) = self.owner(|t| t.counter == Some(i)) {
                let preamble = self.preamble(Prefix::DirectCounter, &c.name, &note.annos, &[])?;
                let message = pb::DirectCounter { preamble, spec, direct_table_id };
                self.info.direct_counters.push(Object { message, ir_index: i });
            }
        }
        Ok(())
    }

    fn meters(&mut self) -> Checked<()> {
        for (i, (m, note)) in self.program.meters.iter().zip(&self.notes.meters).enumerate() {
            let spec = meter_spec(m.kind);
            if let Some(size) = m.size {
                let index_type_name = self.index_type("meter", 1, note)?;
                let preamble = self.preamble(Prefix::Meter, &m.name, &note.annos, &[])?;
                let message = pb::Meter { preamble, spec, size: size as i64, index_type_name };
                self.info.meters.push(Object { message, ir_index: i });
            } else if let Some(direct_table_id) = self.owner(|t| t.meter == Some(i)) {
                let preamble = self.preamble(Prefix::DirectMeter, &m.name, &note.annos, &[])?;
                let message = pb::DirectMeter { preamble, spec, direct_table_id };
                self.info.direct_meters.push(Object { message, ir_index: i });
            }
        }
        Ok(())
    }

    /// The table that uses a direct counter or meter.
    fn owner(&self, uses: impl Fn(&program::Table) -> bool) -> Option<u32> {
        self.info.tables.iter().find(|t| uses(&self.program.tables[t.ir_index])).map(|t| t.id())
    }

    fn registers(&mut self) -> Checked<()> {
        for (i, (r, note)) in self.program.registers.iter().zip(&self.notes.registers).enumerate() {
            let type_spec = Some(self.data_type(note.data.as_ref().unwrap_or(&Ty::Bit(r.width)), note.span)?);
            let index_type_name = self.index_type("register", 2, note)?;
            let preamble = self.preamble(Prefix::Register, &r.name, &note.annos, &[])?;
            let message = pb::Register { preamble, type_spec, size: r.size as i32, index_type_name };
            self.info.registers.push(Object { message, ir_index: i });
        }
        Ok(())
    }

    /// The new type of an index, where the version of v1model gives externs a type parameter for it.
    fn index_type(&mut self, name: &str, type_params: usize, note: &ExternNote) -> Checked<Option<pb::P4NamedType>> {
        let declared = self.context.scopes[0].get(name);
        let typed = matches!(declared, Some(TypedValue { kind: ValueKind::Type(TypeDef::Extern(e)), .. }) if e.type_params.len() == type_params);
        match &note.index {
            Some(t) if typed => {
                self.type_spec(t, note.span)?;
                Ok(new_type_name(t).map(named_type))
            }
            _ => Ok(None),
        }
    }

    /// A struct's name; p4c numbers digests of lists.
    fn digest_name(&self, i: usize) -> String {
        match &self.notes.digests[i].0 {
            Ty::Struct(s) => type_name(&s.name, &s.annos),
            t => match new_type_name(t) {
                Some(n) => n,
                None => format!("digest_{}", self.digests[..].iter().take_while(|d| **d != i).count()),
            },
        }
    }

    fn digests(&mut self) -> Checked<()> {
        for i in self.digests.clone() {
            let (ty, span) = &self.notes.digests[i];
            let type_spec = Some(self.data_type(ty, *span)?);
            let preamble = self.preamble(Prefix::Digest, &self.digest_name(i), &[], &[])?;
            self.info.digests.push(Object { message: pb::Digest { preamble, type_spec }, ir_index: i });
        }
        Ok(())
    }

    fn value_sets(&mut self) -> Checked<()> {
        for (i, (v, note)) in self.program.value_sets.iter().zip(&self.notes.value_sets).enumerate() {
            let exact = |id: u32, name: &str, bitwidth: u32| {
                match_field(id, name, bitwidth as i32, MatchType::Exact, Annotations::default())
            };
            let fields = match &note.data {
                Some(Ty::Struct(s)) if s.fields.iter().all(|f| f.ty.scalar_width().is_some()) => {
                    let ids = self.field_ids(s.fields.iter().map(|f| (f.annos.as_slice(), note.span)))?;
                    let mut fields = Vec::new();
                    for (f, id) in s.fields.iter().zip(ids) {
                        let name = anno_string(&f.annos, "name").unwrap_or_else(|| f.name.clone());
                        let bitwidth = f.ty.scalar_width().unwrap_or(0) as i32;
                        let kind = self.match_annotation(&f.annos)?;
                        let annotations = self.annotations(&f.annos, &["match"])?;
                        fields.push(match_field(id, &name, bitwidth, kind, annotations));
                    }
                    fields
                }
                _ if v.widths.len() == 1 => vec![exact(1, "", v.widths[0])],
                _ => (1..).zip(&v.widths).map(|(i, w)| exact(i, &format!("f{}", i - 1), *w)).collect(),
            };
            let preamble = self.preamble(Prefix::ValueSet, &v.name, &note.annos, &[])?;
            let message = pb::ValueSet { preamble, r#match: fields, size: v.size as i32 };
            self.info.value_sets.push(Object { message, ir_index: i });
        }
        Ok(())
    }

    fn packet_metadata(&mut self) -> Checked<()> {
        for (s, span) in self.headers.clone() {
            if has(&s.annos, "hidden") {
                continue;
            }
            let mut fields = Vec::new();
            flatten(&s, "", &[], &mut fields);
            let ids = self.field_ids(fields.iter().map(|f| (f.annos.as_slice(), span)))?;
            let (mut metadata, mut places, mut bits) = (Vec::new(), Vec::new(), 0);
            for (f, id) in fields.iter().zip(ids) {
                let place = HeaderField { offset_bits: bits, bits: f.ty.scalar_width().unwrap_or(0) };
                bits += place.bits;
                if has(&f.annos, "hidden") {
                    continue;
                }
                if matches!(f.ty, Ty::Varbit(_)) {
                    let m = format!("field `{}` of a controller header has no fixed size", f.name);
                    return self.context.err(span, m);
                }
                self.type_spec(&f.ty, span)?;
                let a = self.annotations(&f.annos, &[])?;
                metadata.push(pb::controller_packet_metadata::Metadata {
                    id,
                    name: f.name.clone(),
                    annotations: a.plain,
                    bitwidth: self.controller_width(&f.ty)?,
                    type_name: new_type_name(&f.ty).map(named_type),
                    structured_annotations: a.structured,
                    ..Default::default()
                });
                places.push(place);
            }
            // The annotation names the header for controllers; the id is that of the type.
            let name = anno_string(&s.annos, "controller_header").unwrap_or_default();
            let preamble = self.preamble(Prefix::ControllerHeader, &type_name(&s.name, &s.annos), &s.annos, &[])?;
            let preamble = preamble.map(|p| pb::Preamble { name: name.clone(), alias: name, ..p });
            let message = pb::ControllerPacketMetadata { preamble, metadata };
            self.info.controller_packet_metadata.push(ControllerHeader { message, fields: places, bits });
        }
        Ok(())
    }
}
