// SPDX-License-Identifier: Apache-2.0
//! P4Info of a program that passed. Ids are those p4c gives, so that a controller's configuration fits both: the
//! kind in the first byte, then `@id` or 24 bits of a hash of the name, the next free ones where two clash.
use super::*;
use crate::ast;
use crate::info::*;
use crate::lexer::{Tok, Token};
use crate::strings::Strings;
use std::collections::{BTreeMap, BTreeSet};

/// What P4Info needs beyond the IR; the lists are in the order of the IR's.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub package: Vec<ast::Annotation>,
    pub tables: Vec<TableNote>,
    pub registers: Vec<ExternNote>,
    pub counters: Vec<ExternNote>,
    pub meters: Vec<ExternNote>,
    pub profiles: Vec<ExternNote>,
    pub value_sets: Vec<ExternNote>,
    pub digests: Vec<(Ty, Span)>,
    pub controller_headers: Vec<Name>,
}

#[derive(Clone)]
pub(crate) struct ExternNote {
    pub span: Span,
    pub annos: Vec<ast::Annotation>,
    /// First type argument: what a register or value set holds.
    pub data: Option<Ty>,
    /// Last type argument: the index, where v1model has a type for it.
    pub index: Option<Ty>,
}

impl ExternNote {
    pub fn new(span: Span, annos: &[ast::Annotation], data: Option<Ty>) -> ExternNote {
        ExternNote { span, annos: annos.to_vec(), data, index: None }
    }
}

#[derive(Clone)]
pub(crate) struct TableNote {
    pub span: Span,
    pub annos: Vec<ast::Annotation>,
    pub keys: Vec<(Ty, Vec<ast::Annotation>, Span)>,
    /// Index in [`Cx::actions`] and the annotations of the reference, in the order of the table's actions.
    pub actions: Vec<(usize, Vec<ast::Annotation>)>,
    pub idle_timeout: bool,
}

impl TableNote {
    pub fn new(span: Span, annos: &[ast::Annotation]) -> TableNote {
        TableNote { span, annos: annos.to_vec(), keys: Vec::new(), actions: Vec::new(), idle_timeout: false }
    }
}

/// `@name` without arguments.
pub(crate) fn bare(name: &str, span: Span) -> ast::Annotation {
    ast::Annotation { name: Name { text: name.into(), span }, body: Vec::new(), structured: false }
}

/// Annotations with a field of their own in P4Info.
const TOLD_ELSEWHERE: [&str; 4] = ["name", "id", "brief", "description"];

fn has(annos: &[ast::Annotation], name: &str) -> bool {
    annos.iter().any(|a| a.name.text == name)
}

fn token_text(t: &Tok) -> String {
    match t {
        Tok::Str(s) => format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\"")),
        Tok::Int(v, None) => v.to_string(),
        Tok::Int(v, Some((w, signed))) => format!("{w}{}{v}", if *signed { 's' } else { 'w' }),
        Tok::Ident(s) | Tok::Bad(s) => s.clone(),
        Tok::Punct(p) => (*p).to_string(),
        Tok::Eof => String::new(),
    }
}

fn as_written(a: &ast::Annotation) -> String {
    if a.body.is_empty() {
        return format!("@{}", a.name.text);
    }
    let mut text = String::new();
    for t in &a.body {
        if !text.is_empty() && t.tok != Tok::Punct(",") {
            text.push(' ');
        }
        text.push_str(&token_text(&t.tok));
    }
    format!("@{}({text})", a.name.text)
}

/// One-at-a-time hash by Bob Jenkins, of which ids take the low 24 bits.
fn name_hash(name: &str) -> u32 {
    let mut h = 0u32;
    for b in name.bytes() {
        h = h.wrapping_add(u32::from(b));
        h = h.wrapping_add(h << 10);
        h ^= h >> 6;
    }
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h.wrapping_add(h << 15)
}

/// Names that get ids and aliases.
#[derive(Default)]
struct Symbols {
    /// Kind and name; the id is 0 until it is given out.
    ids: BTreeMap<(Prefix, String), u32>,
    taken: BTreeSet<u32>,
    /// How many names have each suffix of whole components.
    suffixes: BTreeMap<String, usize>,
}

impl Symbols {
    fn number(&mut self) {
        for ((prefix, name), id) in self.ids.iter_mut().filter(|(_, id)| **id == 0) {
            let kind = (*prefix as u32) << 24;
            let mut at = name_hash(name);
            while self.taken.contains(&(kind | at & 0xff_ffff)) {
                at = at.wrapping_add(1);
            }
            *id = kind | at & 0xff_ffff;
            self.taken.insert(*id);
        }
        // A name that two kinds share counts once.
        let names: BTreeSet<&String> = self.ids.keys().map(|(_, n)| n).collect();
        for n in names {
            suffixes(n).for_each(|s| *self.suffixes.entry(s.to_string()).or_default() += 1);
        }
    }

    fn id(&self, prefix: Prefix, name: &str) -> u32 {
        self.ids.get(&(prefix, name.to_string())).copied().unwrap_or(0)
    }

    fn preamble(&self, prefix: Prefix, name: &str, annotations: Annotations) -> Preamble {
        let alias = suffixes(name).find(|s| self.suffixes.get(*s) == Some(&1)).unwrap_or(name);
        Preamble { id: self.id(prefix, name), name: name.to_string(), alias: alias.to_string(), annotations }
    }
}

/// `c`, `b.c`, `a.b.c` of `a.b.c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').map(|(i, _)| i + 1).chain([0]);
    starts.map(move |i| &name[i..])
}

/// What packets can reach: tables, digests. The rest is not in P4Info, as p4c leaves out what it removes.
struct Reached<'p> {
    p: &'p Program,
    /// Bodies of actions. What they call is inlined in p4c's eyes.
    actions: BTreeSet<usize>,
    called: BTreeSet<usize>,
    procs: Vec<bool>,
    parsers: Vec<bool>,
    tables: Vec<bool>,
    digests: Vec<bool>,
}

impl<'p> Reached<'p> {
    fn of(p: &'p Program, actions: BTreeSet<usize>) -> Reached<'p> {
        let flags = |n: usize| vec![false; n];
        let mut r = Reached {
            p,
            actions,
            called: BTreeSet::new(),
            procs: flags(p.procs.len()),
            parsers: flags(p.parsers.len()),
            tables: flags(p.tables.len()),
            digests: flags(p.digests.len()),
        };
        r.parser(p.parser);
        [p.verify, p.ingress, p.egress, p.compute, p.deparser].iter().for_each(|b| r.procedure(*b));
        r
    }

    fn procedure(&mut self, body: usize) {
        if !std::mem::replace(&mut self.procs[body], true) {
            let outside = self.called.clone();
            self.block(&self.p.procs[body]);
            if self.actions.contains(&body) {
                self.called = outside;
            }
        }
    }

    fn parser(&mut self, i: usize) {
        if !std::mem::replace(&mut self.parsers[i], true) {
            self.p.parsers[i].states.iter().for_each(|(_, code, _)| self.block(code));
        }
    }

    fn table(&mut self, i: usize) {
        if std::mem::replace(&mut self.tables[i], true) {
            return;
        }
        let table = &self.p.tables[i];
        self.block(&table.before);
        for a in &table.actions {
            self.block(&a.before);
            self.procedure(a.body);
            self.block(&a.after);
        }
    }

    fn block(&mut self, code: &'p [St]) {
        for st in code {
            match st {
                St::If(Ex::Const(c), yes, no) => self.block(if c.is_zero() { no } else { yes }),
                St::If(_, a, b) => {
                    self.block(a);
                    self.block(b);
                }
                St::Switch(_, _, bodies, _) => bodies.iter().for_each(|b| self.block(b)),
                St::Group(b) => self.block(b),
                St::Call(a, body, b) => {
                    self.block(a);
                    self.called.insert(*body);
                    self.procedure(*body);
                    self.block(b);
                }
                St::CallParser(a, i, b) => {
                    self.block(a);
                    self.parser(*i);
                    self.block(b);
                }
                St::Loop(a, _, b, c) => [a, b, c].into_iter().for_each(|b| self.block(b)),
                St::Apply(t) => self.table(*t),
                St::Digest(i, ..) => self.digests[*i] = true,
                St::Return => return,
                _ => {}
            }
        }
    }
}

fn unit(kind: ir::CountKind) -> Unit {
    match kind {
        ir::CountKind::Packets => Unit::Packets,
        ir::CountKind::Bytes => Unit::Bytes,
        ir::CountKind::Both => Unit::Both,
    }
}

/// The name a controller knows a type by.
fn type_name(name: &str, annos: &[ast::Annotation]) -> String {
    let named = anno_string(annos, "name").unwrap_or_else(|| name.to_string());
    let named = named.trim_start_matches('.');
    // `pair<bit<8>, port>` is `pair_bit8_port`.
    let mut out = String::new();
    for c in named.chars().filter(|c| !matches!(c, '>' | ' ')) {
        match c {
            '<' if out.ends_with("bit") || out.ends_with("int") => {}
            '<' | ',' => out.push('_'),
            c => out.push(c),
        }
    }
    out
}

impl Cx<'_> {
    pub fn p4info(&mut self) -> Res<P4Info> {
        // Apart from `self`, so that annotations can be evaluated meanwhile.
        let notes = std::mem::take(&mut self.notes);
        let p = std::mem::take(&mut self.p);
        let bodies = self.actions.iter().map(|a| a.callee.body).collect();
        let reached = Reached::of(&p, bodies);
        let tables: Vec<usize> = (0..p.tables.len()).filter(|t| reached.tables[*t]).collect();
        let digests = (0..p.digests.len()).filter(|d| reached.digests[*d]).collect();
        let of_table = |t: &usize| notes.tables[*t].actions.iter().map(|(a, _)| *a);
        let in_tables: BTreeSet<usize> = tables.iter().flat_map(of_table).collect();
        let all = self.actions.iter().enumerate().map(|(i, a)| (a.clone(), in_tables.contains(&i)));
        let actions = all.filter(|(a, used)| *used || reached.called.contains(&a.callee.body)).collect();
        let headers = notes.controller_headers.iter().filter_map(|n| match self.scopes[0].get(&n.text) {
            Some(Tv { k: K::Type(TypeDef::Ty(Ty::Struct(s))), .. }) => Some((s.clone(), n.span)),
            _ => None,
        });
        let headers = headers.filter(|(s, _)| s.kind == StructKind::Header).collect();
        let (symbols, strings, info) = (Symbols::default(), HashMap::new(), P4Info::default());
        let r =
            Maker { cx: self, p: &p, notes: &notes, tables, actions, digests, headers, symbols, strings, info }.make();
        self.p = p;
        r
    }
}

struct Maker<'m, 'a> {
    cx: &'m mut Cx<'a>,
    p: &'m Program,
    notes: &'m Notes,
    /// Those that packets can reach; p4c removes the others and gives them no ids.
    tables: Vec<usize>,
    /// With whether a table has it: one that is only called has no parameters left for a controller.
    actions: Vec<(ActionInst, bool)>,
    digests: Vec<usize>,
    headers: Vec<(Rc<StructTy>, Span)>,
    symbols: Symbols,
    /// Of types that are strings to controllers, by their names.
    strings: HashMap<String, Arc<Strings>>,
    info: P4Info,
}

impl Maker<'_, '_> {
    fn make(mut self) -> Res<P4Info> {
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

    fn symbols(&mut self) -> Res<()> {
        let (p, notes) = (self.p, self.notes);
        let mut all: Vec<(Prefix, String, &[ast::Annotation], Span)> = Vec::new();
        let externs = |list: &mut Vec<_>, prefix: Prefix, name: &str, n: &'_ ExternNote| {
            list.push((prefix, name.to_string(), n.annos.clone(), n.span))
        };
        let mut ext: Vec<(Prefix, String, Vec<ast::Annotation>, Span)> = Vec::new();
        let direct = |size: Option<usize>, whole: Prefix, direct: Prefix| if size.is_some() { whole } else { direct };
        for (c, n) in p.counters.iter().zip(&notes.counters) {
            externs(&mut ext, direct(c.size, Prefix::Counter, Prefix::DirectCounter), &c.name, n);
        }
        for (m, n) in p.meters.iter().zip(&notes.meters) {
            externs(&mut ext, direct(m.size, Prefix::Meter, Prefix::DirectMeter), &m.name, n);
        }
        p.profiles.iter().zip(&notes.profiles).for_each(|(x, n)| externs(&mut ext, Prefix::ActionProfile, &x.name, n));
        p.registers.iter().zip(&notes.registers).for_each(|(x, n)| externs(&mut ext, Prefix::Register, &x.name, n));
        p.value_sets.iter().zip(&notes.value_sets).for_each(|(x, n)| externs(&mut ext, Prefix::ValueSet, &x.name, n));
        let actions = self.actions.clone();
        for (a, _) in &actions {
            all.push((Prefix::Action, a.full_name.clone(), &a.annos, a.decl.name.span));
        }
        for t in &self.tables {
            all.push((Prefix::Table, p.tables[*t].name.clone(), &notes.tables[*t].annos, notes.tables[*t].span));
        }
        all.extend(ext.iter().map(|(k, n, a, s)| (*k, n.clone(), a.as_slice(), *s)));
        for d in &self.digests {
            all.push((Prefix::Digest, self.digest_name(*d), &[], notes.digests[*d].1));
        }
        let headers = self.headers.clone();
        for (s, span) in &headers {
            all.push((Prefix::ControllerHeader, type_name(&s.name, &s.annos), &s.annos, *span));
        }
        let mut places: HashMap<(Prefix, String), Span> = HashMap::new();
        for (prefix, name, annos, span) in all {
            let key = (prefix, name);
            match places.insert(key.clone(), span) {
                // An action or digest that several controls use is one.
                Some(at) if at == span || prefix == Prefix::Digest => continue,
                Some(at) => {
                    let m = format!("two objects of one kind are named `{}` for controllers", key.1);
                    let help = format!("the other is on line {}; rename one with @name", at.line);
                    return self.cx.err_help(span, m, help);
                }
                None => {}
            }
            let kind = (prefix as u32) << 24;
            let id = match self.id_annotation(annos)? {
                None => 0,
                Some(id) if id & 0xff_ffff == 0 => return self.cx.err(span, "the number of an @id begins at 1"),
                Some(id) if id >> 24 != 0 && id >> 24 != prefix as u32 => {
                    let m = format!("@id({id:#x}) has the first byte of another kind of object");
                    let help = format!("it must be {:#04x}, or left out", prefix as u32);
                    return self.cx.err_help(span, m, help);
                }
                Some(id) if !self.symbols.taken.insert(kind | id) => {
                    let help = "ids differ among objects of one kind";
                    return self.cx.err_help(span, format!("@id({id:#x}) is given to two objects"), help);
                }
                Some(id) => kind | id,
            };
            self.symbols.ids.insert(key, id);
        }
        self.symbols.number();
        Ok(())
    }

    fn id_annotation(&mut self, annos: &[ast::Annotation]) -> Res<Option<u32>> {
        let Some(a) = annos.iter().find(|a| a.name.text == "id") else {
            return Ok(None);
        };
        match a.body.as_slice() {
            [Token { tok: Tok::Int(v, _), .. }] if v.to_u32().is_some() => Ok(v.to_u32()),
            _ => self.cx.err_help(a.name.span, "@id needs a number of up to 32 bits", "write e.g. `@id(1)`"),
        }
    }

    /// Ids of fields or parameters: those of `@id`, the others from 1 on.
    fn field_ids<'x>(&mut self, fields: impl Iterator<Item = (&'x [ast::Annotation], Span)>) -> Res<Vec<u32>> {
        let mut ids = Vec::new();
        let mut taken = BTreeSet::new();
        for (annos, span) in fields {
            let id = self.id_annotation(annos)?;
            match id {
                Some(0) => return self.cx.err(span, "the number of an @id begins at 1"),
                Some(i) if !taken.insert(i) => return self.cx.err(span, format!("@id({i}) is given to two fields")),
                _ => ids.push(id),
            }
        }
        // p4c skips a number for each field that has its own.
        let mut next = 1;
        let mut out = Vec::new();
        for id in ids {
            if id.is_none() {
                while !taken.insert(next) {
                    next += 1;
                }
            }
            out.push(id.unwrap_or(next));
            next += u32::from(id.is_some());
        }
        Ok(out)
    }

    fn annotations(&mut self, annos: &[ast::Annotation], skip: &[&str]) -> Res<Annotations> {
        let mut out = Annotations::default();
        for a in annos {
            let name = a.name.text.as_str();
            if a.structured {
                let body = self.structured(a)?;
                out.structured.push(StructuredAnnotation { name: name.to_string(), body });
                continue;
            }
            if let ("brief" | "description", Some(text)) = (name, anno_string(annos, name)) {
                let doc = out.doc.get_or_insert_with(Documentation::default);
                *(if name == "brief" { &mut doc.brief } else { &mut doc.description }) = text;
            }
            if !TOLD_ELSEWHERE.contains(&name) && !skip.contains(&name) {
                out.plain.push(as_written(a));
            }
        }
        Ok(out)
    }

    /// `[1, "two", true]` or `[one = 1, two = "2"]` (P4_16 20.3). Constants may be computed.
    fn structured(&mut self, a: &ast::Annotation) -> Res<StructuredBody> {
        if a.body.is_empty() {
            return Ok(StructuredBody::Empty);
        }
        let mut parts: Vec<&[Token]> = a.body.split(|t| t.tok == Tok::Punct(",")).collect();
        if parts.last().is_some_and(|l| l.is_empty()) {
            parts.pop();
        }
        let key = |part: &[Token]| match part {
            [k, eq, ..] if eq.tok == Tok::Punct("=") => Some(token_text(&k.tok)),
            _ => None,
        };
        let pairs = parts.first().is_some_and(|p| key(p).is_some());
        let (mut list, mut kv) = (Vec::new(), Vec::new());
        for part in parts {
            let span = part.first().map_or(a.name.span, |t| t.span);
            match (key(part), pairs) {
                (Some(n), true) if kv.iter().any(|(k, _)| *k == n) => {
                    return self.cx.err(span, format!("key `{n}` is given twice in @{}", a.name.text));
                }
                (Some(n), true) => kv.push((n, self.annotation_value(&part[2..], span)?)),
                (None, false) => list.push(self.annotation_value(part, span)?),
                _ => return self.cx.err(span, "an annotation holds either values or pairs `key = value`, not both"),
            }
        }
        Ok(if pairs { StructuredBody::Pairs(kv) } else { StructuredBody::Expressions(list) })
    }

    fn annotation_value(&mut self, tokens: &[Token], span: Span) -> Res<Expression> {
        let e = crate::parser::parse_expr(tokens, span, self.cx.d)?;
        match self.cx.expr(&e, None)?.k {
            K::Bool(b) => Ok(Expression::Bool(b)),
            K::Str(s) => Ok(Expression::String(s)),
            K::Int(i) => match i.to_i64() {
                Some(i) => Ok(Expression::Int64(i)),
                None => self.cx.err_help(span, format!("{i} does not fit 64 bits"), "write it as a string"),
            },
            _ => self.cx.err(span, "a value in an annotation must be a constant number, string or bool"),
        }
    }

    /// From `@pkginfo` and `@platform_property` before `main` (P4Runtime 6.2.1).
    fn pkg_info(&mut self) -> Res<()> {
        let mut pkg = PkgInfo { arch: "v1model".into(), ..PkgInfo::default() };
        for a in &self.notes.package {
            let (name, span) = (a.name.text.as_str(), a.name.span);
            if name != "pkginfo" && name != "platform_property" {
                continue;
            }
            let StructuredBody::Pairs(pairs) = self.structured(a)? else {
                let help = format!("write `@{name}(key = value)`");
                return self.cx.err_help(span, format!("@{name} needs keys and values"), help);
            };
            for (k, v) in pairs {
                if name == "platform_property" {
                    let sizes = pkg.platform_properties.get_or_insert_with(PlatformProperties::default);
                    let field = match k.as_str() {
                        "multicast_group_table_size" => &mut sizes.multicast_group_table_size,
                        "multicast_group_table_total_replicas" => &mut sizes.multicast_group_table_total_replicas,
                        "multicast_group_table_max_replicas_per_entry" => {
                            &mut sizes.multicast_group_table_max_replicas_per_entry
                        }
                        _ => {
                            self.cx.d.warn(span, format!("@{name} has no key `{k}`; it is ignored"));
                            continue;
                        }
                    };
                    match v {
                        Expression::Int64(n) if i32::try_from(n).is_ok() => *field = n as i32,
                        _ => return self.cx.err(span, format!("key `{k}` needs a number of 32 bits")),
                    }
                    continue;
                }
                let field = match k.as_str() {
                    "name" => &mut pkg.name,
                    "version" => &mut pkg.version,
                    "organization" => &mut pkg.organization,
                    "contact" => &mut pkg.contact,
                    "url" => &mut pkg.url,
                    "arch" => &mut pkg.arch,
                    _ => {
                        self.cx.d.warn(span, format!("@{name} has no key `{k}`; it is ignored"));
                        continue;
                    }
                };
                match v {
                    Expression::String(s) => *field = s,
                    _ => return self.cx.err(span, format!("key `{k}` needs a string")),
                }
            }
        }
        pkg.annotations = self.annotations(&self.notes.package, &["pkginfo", "platform_property"])?;
        self.info.pkg_info = pkg;
        Ok(())
    }

    fn preamble(&mut self, prefix: Prefix, name: &str, annos: &[ast::Annotation], skip: &[&str]) -> Res<Preamble> {
        let annotations = self.annotations(annos, skip)?;
        Ok(self.symbols.preamble(prefix, name, annotations))
    }

    fn actions(&mut self) -> Res<()> {
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
                let name = anno_string(&d.annos, "name").unwrap_or_else(|| b.name.clone());
                let annotations = self.annotations(&d.annos, &[])?;
                let strings = self.strings(&b.ty)?;
                params.push(crate::info::Param { id, name, annotations, bitwidth, type_name, strings });
            }
            let preamble = self.preamble(Prefix::Action, &a.full_name, &a.annos, &[])?;
            self.info.actions.push(Action { preamble, params });
        }
        Ok(())
    }

    fn tables(&mut self) -> Res<()> {
        for ir_index in self.tables.clone() {
            let (t, note) = (&self.p.tables[ir_index], &self.notes.tables[ir_index]);
            if has(&note.annos, "hidden") {
                continue;
            }
            let match_fields = self.match_fields(t, note)?;
            let mut action_refs = Vec::new();
            for (i, (a, (_, annos))) in t.actions.iter().zip(&note.actions).enumerate() {
                let scope = match (a.table_only, a.default_only) {
                    (true, true) => {
                        let m = format!("action `{}` is marked both @tableonly and @defaultonly", a.name);
                        return self.cx.err(note.span, m);
                    }
                    (true, false) => Scope::TableOnly,
                    (false, true) => Scope::DefaultOnly,
                    (false, false) => Scope::TableAndDefault,
                };
                let id = self.symbols.id(Prefix::Action, &a.name);
                action_refs.push(crate::info::ActionRef {
                    id,
                    scope,
                    annotations: self.annotations(annos, &[])?,
                    ir_index: i,
                });
            }
            let default = &t.actions[t.default.action];
            let default_id = self.symbols.id(Prefix::Action, &default.name);
            let ids = self.info.action(default_id).map(|a| a.params.iter().map(|p| p.id).collect::<Vec<_>>());
            let args = t.default.args.iter().zip(&default.params).map(|(v, p)| v.bytes(p.width));
            let arguments = ids.unwrap_or_default().into_iter().zip(args).collect();
            let (p, s) = (self.p, &self.symbols);
            let counter = t.counter.map(|c| s.id(Prefix::DirectCounter, &p.counters[c].name));
            let meter = t.meter.map(|m| s.id(Prefix::DirectMeter, &p.meters[m].name));
            let profile = t.profile.map(|x| s.id(Prefix::ActionProfile, &p.profiles[x].name));
            let preamble = self.preamble(Prefix::Table, &t.name, &note.annos, &[])?;
            self.info.tables.push(Table {
                preamble,
                match_fields,
                action_refs,
                const_default_action_id: if t.const_default { default_id } else { 0 },
                initial_default_action: TableActionCall { action_id: default_id, arguments },
                implementation_id: profile.unwrap_or(0),
                direct_resource_ids: counter.into_iter().chain(meter).collect(),
                size: if t.size == 0 { 1024 } else { t.size },
                idle_timeout: note.idle_timeout,
                is_const_table: t.const_entries,
                has_initial_entries: !t.entries.is_empty(),
                ir_index,
            });
        }
        Ok(())
    }

    fn match_fields(&mut self, t: &ir::Table, note: &TableNote) -> Res<Vec<MatchField>> {
        let ids = self.field_ids(note.keys.iter().map(|(_, a, s)| (a.as_slice(), *s)))?;
        let mut out = Vec::new();
        for ((k, (ty, annos, span)), id) in t.keys.iter().zip(&note.keys).zip(ids) {
            let match_type = match k.kind {
                ir::MatchKind::Exact => MatchType::Exact,
                ir::MatchKind::Lpm => MatchType::Lpm,
                ir::MatchKind::Ternary => MatchType::Ternary,
                ir::MatchKind::Range => MatchType::Range,
                ir::MatchKind::Optional => MatchType::Optional,
                // An input of the selector's hash, nothing to match.
                ir::MatchKind::Selector => continue,
            };
            self.type_spec(ty, *span)?;
            let name = match k.name.strip_suffix(".isValid()") {
                Some(header) => format!("{header}.$valid$"),
                None => k.name.clone(),
            };
            let annotations = self.annotations(annos, &[])?;
            let (bitwidth, type_name) = (self.controller_width(ty)?, new_type_name(ty));
            let strings = self.strings(ty)?;
            out.push(MatchField { id, name, annotations, bitwidth, match_type, type_name, strings });
        }
        Ok(out)
    }

    fn profiles(&mut self) -> Res<()> {
        for (i, (x, note)) in self.p.profiles.iter().zip(&self.notes.profiles).enumerate() {
            let told = ["max_group_size", "selector_size_semantics", "max_member_weight"];
            let preamble = self.preamble(Prefix::ActionProfile, &x.name, &note.annos, &told)?;
            let mut profile = ActionProfile {
                preamble,
                table_ids: Vec::new(),
                with_selector: x.selector.is_some(),
                size: x.size,
                max_group_size: 0,
                selector_size: None,
                actions: Vec::new(),
                ir_index: i,
            };
            for (t, info) in self.info.tables.iter().map(|t| (&self.p.tables[t.ir_index], t)) {
                if t.profile != Some(i) {
                    continue;
                }
                profile.table_ids.push(info.preamble.id);
                for (a, r) in t.actions.iter().zip(&info.action_refs) {
                    if r.scope != Scope::DefaultOnly && !profile.actions.contains(&(r.id, a.body)) {
                        profile.actions.push((r.id, a.body));
                    }
                }
            }
            if profile.with_selector {
                profile.max_group_size = self.number_annotation(&note.annos, "max_group_size")?.unwrap_or(0);
                let weight = self.number_annotation(&note.annos, "max_member_weight")?.unwrap_or(0);
                profile.selector_size = match anno_string(&note.annos, "selector_size_semantics") {
                    None => None,
                    Some(s) if s.eq_ignore_ascii_case("sum_of_weights") => Some(SelectorSize::SumOfWeights),
                    Some(s) if s.eq_ignore_ascii_case("sum_of_members") => {
                        Some(SelectorSize::SumOfMembers { max_member_weight: weight })
                    }
                    Some(s) => {
                        let m = format!("@selector_size_semantics has no \"{s}\"");
                        return self.cx.err_help(note.span, m, "write \"sum_of_weights\" or \"sum_of_members\"");
                    }
                };
            } else if let Some(a) = note.annos.iter().find(|a| told.contains(&a.name.text.as_str())) {
                self.cx.d.warn(a.name.span, format!("@{} does nothing without a selector", a.name.text));
            }
            self.info.action_profiles.push(profile);
        }
        Ok(())
    }

    fn number_annotation(&mut self, annos: &[ast::Annotation], name: &str) -> Res<Option<i32>> {
        let Some(a) = annos.iter().find(|a| a.name.text == name) else {
            return Ok(None);
        };
        match self.annotation_value(&a.body, a.name.span)? {
            Expression::Int64(n) if (0..=i64::from(i32::MAX)).contains(&n) => Ok(Some(n as i32)),
            _ => self.cx.err(a.name.span, format!("@{name} needs a number from 0 to {}", i32::MAX)),
        }
    }

    fn counters(&mut self) -> Res<()> {
        for (i, (c, note)) in self.p.counters.iter().zip(&self.notes.counters).enumerate() {
            let unit = unit(c.kind);
            if let Some(size) = c.size {
                let index_type_name = self.index_type("counter", 1, note)?;
                let preamble = self.preamble(Prefix::Counter, &c.name, &note.annos, &[])?;
                let size = size as u64;
                self.info.counters.push(Counter { preamble, unit, size, index_type_name, ir_index: i });
            } else if let Some(direct_table_id) = self.owner(|t| t.counter == Some(i)) {
                let preamble = self.preamble(Prefix::DirectCounter, &c.name, &note.annos, &[])?;
                self.info.direct_counters.push(DirectCounter { preamble, unit, direct_table_id, ir_index: i });
            }
        }
        Ok(())
    }

    fn meters(&mut self) -> Res<()> {
        for (i, (m, note)) in self.p.meters.iter().zip(&self.notes.meters).enumerate() {
            let unit = unit(m.kind);
            if let Some(size) = m.size {
                let index_type_name = self.index_type("meter", 1, note)?;
                let preamble = self.preamble(Prefix::Meter, &m.name, &note.annos, &[])?;
                let size = size as u64;
                self.info.meters.push(Meter { preamble, unit, size, index_type_name, ir_index: i });
            } else if let Some(direct_table_id) = self.owner(|t| t.meter == Some(i)) {
                let preamble = self.preamble(Prefix::DirectMeter, &m.name, &note.annos, &[])?;
                self.info.direct_meters.push(DirectMeter { preamble, unit, direct_table_id, ir_index: i });
            }
        }
        Ok(())
    }

    /// The table that uses a direct counter or meter.
    fn owner(&self, uses: impl Fn(&ir::Table) -> bool) -> Option<u32> {
        self.info.tables.iter().find(|t| uses(&self.p.tables[t.ir_index])).map(|t| t.preamble.id)
    }

    fn registers(&mut self) -> Res<()> {
        for (i, (r, note)) in self.p.registers.iter().zip(&self.notes.registers).enumerate() {
            let type_spec = self.type_spec(note.data.as_ref().unwrap_or(&Ty::Bit(r.width)), note.span)?;
            let index_type_name = self.index_type("register", 2, note)?;
            let preamble = self.preamble(Prefix::Register, &r.name, &note.annos, &[])?;
            let size = r.size as u64;
            self.info.registers.push(Register { preamble, type_spec, size, index_type_name, ir_index: i });
        }
        Ok(())
    }

    /// The new type of an index, where the version of v1model gives externs a type parameter for it.
    fn index_type(&mut self, name: &str, type_params: usize, note: &ExternNote) -> Res<Option<String>> {
        let declared = self.cx.scopes[0].get(name);
        let typed =
            matches!(declared, Some(Tv { k: K::Type(TypeDef::Extern(e)), .. }) if e.type_params.len() == type_params);
        match &note.index {
            Some(t) if typed => {
                self.type_spec(t, note.span)?;
                Ok(new_type_name(t))
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

    fn digests(&mut self) -> Res<()> {
        for i in self.digests.clone() {
            let (ty, span) = &self.notes.digests[i];
            let type_spec = self.type_spec(ty, *span)?;
            let preamble = self.preamble(Prefix::Digest, &self.digest_name(i), &[], &[])?;
            self.info.digests.push(Digest { preamble, type_spec, ir_index: i });
        }
        Ok(())
    }

    fn value_sets(&mut self) -> Res<()> {
        for (i, (v, note)) in self.p.value_sets.iter().zip(&self.notes.value_sets).enumerate() {
            let exact = |id: u32, name: &str, bitwidth: u32| MatchField {
                id,
                name: name.to_string(),
                annotations: Annotations::default(),
                bitwidth,
                match_type: MatchType::Exact,
                type_name: None,
                strings: None,
            };
            let match_fields = match &note.data {
                Some(Ty::Struct(s)) if s.fields.iter().all(|f| f.ty.scalar_width().is_some()) => {
                    let ids = self.field_ids(s.fields.iter().map(|f| (f.annos.as_slice(), note.span)))?;
                    let mut fields = Vec::new();
                    for (f, id) in s.fields.iter().zip(ids) {
                        let name = anno_string(&f.annos, "name").unwrap_or_else(|| f.name.clone());
                        let field = exact(id, &name, f.ty.scalar_width().unwrap_or(0));
                        let match_type = self.match_annotation(&f.annos)?;
                        let annotations = self.annotations(&f.annos, &["match"])?;
                        fields.push(MatchField { match_type, annotations, ..field });
                    }
                    fields
                }
                _ if v.widths.len() == 1 => vec![exact(1, "", v.widths[0])],
                _ => (1..).zip(&v.widths).map(|(i, w)| exact(i, &format!("f{}", i - 1), *w)).collect(),
            };
            let preamble = self.preamble(Prefix::ValueSet, &v.name, &note.annos, &[])?;
            self.info.value_sets.push(ValueSet { preamble, match_fields, size: v.size as u64, ir_index: i });
        }
        Ok(())
    }

    /// How a value set matches a field: exactly, unless `@match` says otherwise.
    fn match_annotation(&mut self, annos: &[ast::Annotation]) -> Res<MatchType> {
        let Some(a) = annos.iter().find(|a| a.name.text == "match") else {
            return Ok(MatchType::Exact);
        };
        match a.body.first().map(|t| token_text(&t.tok)).as_deref() {
            Some("exact") => Ok(MatchType::Exact),
            Some("lpm") => Ok(MatchType::Lpm),
            Some("ternary") => Ok(MatchType::Ternary),
            Some("range") => Ok(MatchType::Range),
            Some("optional") => Ok(MatchType::Optional),
            _ => {
                let help = "a value set matches exact, lpm, ternary, range or optional";
                self.cx.err_help(a.name.span, "@match needs a match kind", help)
            }
        }
    }

    fn packet_metadata(&mut self) -> Res<()> {
        for (s, span) in self.headers.clone() {
            if has(&s.annos, "hidden") {
                continue;
            }
            let mut fields = Vec::new();
            flatten(&s, "", &[], &mut fields);
            let ids = self.field_ids(fields.iter().map(|f| (f.annos.as_slice(), span)))?;
            let (mut metadata, mut bits) = (Vec::new(), 0);
            for (f, id) in fields.iter().zip(ids) {
                let (offset_bits, width) = (bits, f.ty.scalar_width().unwrap_or(0));
                bits += width;
                if has(&f.annos, "hidden") {
                    continue;
                }
                if matches!(f.ty, Ty::Varbit(_)) {
                    let m = format!("field `{}` of a controller header has no fixed size", f.name);
                    return self.cx.err(span, m);
                }
                self.type_spec(&f.ty, span)?;
                let annotations = self.annotations(&f.annos, &[])?;
                let (bitwidth, type_name) = (self.controller_width(&f.ty)?, new_type_name(&f.ty));
                let name = f.name.clone();
                let strings = self.strings(&f.ty)?;
                let field = Metadata { id, name, annotations, bitwidth, type_name, offset_bits, bits: width, strings };
                metadata.push(field);
            }
            // The annotation names the header for controllers; the id is that of the type.
            let name = anno_string(&s.annos, "controller_header").unwrap_or_default();
            let preamble = self.preamble(Prefix::ControllerHeader, &type_name(&s.name, &s.annos), &s.annos, &[])?;
            let preamble = Preamble { name: name.clone(), alias: name, ..preamble };
            self.info.controller_packet_metadata.push(ControllerPacketMetadata { preamble, metadata, bits });
        }
        Ok(())
    }

    /// Width of a value as controllers see it: that of the translated type if there is a translation.
    fn controller_width(&mut self, ty: &Ty) -> Res<u32> {
        Ok(match ty {
            Ty::New(n) => match self.translation(n)? {
                Some((_, SdnType::Bits(w))) => w,
                Some((_, SdnType::String)) => 0,
                None => ty.scalar_width().unwrap_or(0),
            },
            Ty::Error => 0,
            t => t.scalar_width().unwrap_or(0),
        })
    }

    /// `@p4runtime_translation("uri", bit<W>)`, `(..., W)` or `(..., string)` (P4Runtime 8.4.6).
    fn translation(&mut self, n: &NewTy) -> Res<Option<(String, SdnType)>> {
        let Some(a) = n.annos.iter().find(|a| a.name.text == "p4runtime_translation") else {
            return Ok(None);
        };
        let toks: Vec<&Tok> = a.body.iter().map(|t| &t.tok).collect();
        let (uri, kind) = match toks.as_slice() {
            [Tok::Str(uri), Tok::Punct(","), kind @ ..] => (uri.clone(), kind),
            _ => (String::new(), &[][..]),
        };
        let sdn = match kind {
            [Tok::Ident(s)] if s == "string" => Some(SdnType::String),
            [Tok::Int(w, _)] => w.to_u32().map(SdnType::Bits),
            [Tok::Ident(b), Tok::Punct("<"), Tok::Int(w, _), Tok::Punct(">")] if b == "bit" => {
                w.to_u32().map(SdnType::Bits)
            }
            _ => None,
        };
        let Some(sdn) = sdn else {
            let m = "@p4runtime_translation needs a string and the controller's type";
            return self.cx.err_help(a.name.span, m, "write `@p4runtime_translation(\"uri\", bit<32>)` or `string`");
        };
        if !matches!(n.under.base(), Ty::Bit(_)) {
            let m = format!("@p4runtime_translation needs bit<W> under `{}`, not {}", n.name, n.under);
            return self.cx.err(a.name.span, m);
        }
        Ok(Some((uri, sdn)))
    }

    /// The strings of a type that is one to controllers, the same for all that is of it.
    fn strings(&mut self, ty: &Ty) -> Res<Option<Arc<Strings>>> {
        let Ty::New(n) = ty else { return Ok(None) };
        if !matches!(self.translation(n)?, Some((_, SdnType::String))) {
            return Ok(None);
        }
        let name = type_name(&n.name, &n.annos);
        if !self.strings.contains_key(&name) {
            let bits = n.under.scalar_width().unwrap_or(0);
            let strings = Strings::new(&name, bits, &self.mappings(n, bits)?);
            self.strings.insert(name.clone(), Arc::new(strings));
        }
        Ok(self.strings.get(&name).cloned())
    }

    /// `@p4runtime_translation_mappings({{"one", 1}, {"two", 2}})`, as SONiC PINS has it.
    fn mappings(&mut self, n: &NewTy, bits: u32) -> Res<Vec<(String, u128)>> {
        let Some(a) = n.annos.iter().find(|a| a.name.text == "p4runtime_translation_mappings") else {
            return Ok(Vec::new());
        };
        let mut out: Vec<(String, u128)> = Vec::new();
        let toks: Vec<&Tok> =
            a.body.iter().map(|t| &t.tok).filter(|t| !matches!(t, Tok::Punct("{" | "}" | ","))).collect();
        for pair in toks.chunks(2) {
            match pair {
                [Tok::Str(s), Tok::Int(v, _)]
                    if v.bits() <= u64::from(bits) && !out.iter().any(|(t, w)| t == s || v.to_u128() == Some(*w)) =>
                {
                    out.push((s.clone(), v.to_u128().unwrap_or(0)));
                }
                _ => {
                    let m =
                        "@p4runtime_translation_mappings needs pairs of a string and a number of the type, each once";
                    return self.cx.err_help(a.name.span, m, "write `@p4runtime_translation_mappings({{\"one\", 1}})`");
                }
            }
        }
        Ok(out)
    }

    /// The type for controllers; what it names is entered into the type information.
    fn type_spec(&mut self, ty: &Ty, span: Span) -> Res<TypeSpec> {
        Ok(match ty {
            Ty::Bool => TypeSpec::Bool,
            Ty::Bit(w) => TypeSpec::Bits(BitSpec::Bit(*w)),
            Ty::SInt(w) => TypeSpec::Bits(BitSpec::Int(*w)),
            Ty::Varbit(w) => TypeSpec::Bits(BitSpec::Varbit(*w)),
            Ty::Error => {
                self.info.type_info.errors = Some(self.p.errors.clone());
                TypeSpec::Error
            }
            Ty::Tuple(ts) => TypeSpec::Tuple(ts.iter().map(|t| self.type_spec(t, span)).collect::<Res<Vec<_>>>()?),
            Ty::Struct(s) => {
                let name = type_name(&s.name, &s.annos);
                match s.kind {
                    StructKind::Struct => {
                        if !self.info.type_info.structs.contains_key(&name) {
                            let mut members = Vec::new();
                            for f in &s.fields {
                                let member = anno_string(&f.annos, "name").unwrap_or_else(|| f.name.clone());
                                members.push((member, self.type_spec(&f.ty, span)?));
                            }
                            self.info.type_info.structs.insert(name.clone(), members);
                        }
                        TypeSpec::Struct(name)
                    }
                    StructKind::Header => {
                        let mut fields = Vec::new();
                        flatten(s, "", &[], &mut fields);
                        let members = fields.into_iter().map(|f| {
                            let spec = match f.ty.base() {
                                Ty::SInt(w) => BitSpec::Int(*w),
                                Ty::Varbit(w) => BitSpec::Varbit(*w),
                                t => BitSpec::Bit(t.scalar_width().unwrap_or(0)),
                            };
                            (f.name, spec)
                        });
                        self.info.type_info.headers.insert(name.clone(), members.collect());
                        TypeSpec::Header(name)
                    }
                    StructKind::Union => {
                        let mut members = Vec::new();
                        for f in &s.fields {
                            if let TypeSpec::Header(h) = self.type_spec(&f.ty, span)? {
                                members.push((f.name.clone(), h));
                            }
                        }
                        self.info.type_info.header_unions.insert(name.clone(), members);
                        TypeSpec::HeaderUnion(name)
                    }
                }
            }
            Ty::Stack(t, n) => match self.type_spec(t, span)? {
                TypeSpec::HeaderUnion(h) => TypeSpec::HeaderUnionStack(h, *n),
                TypeSpec::Header(h) => TypeSpec::HeaderStack(h, *n),
                _ => return self.cx.err(span, format!("a controller cannot be told {ty}")),
            },
            Ty::Enum(e) => {
                let types = &mut self.info.type_info;
                match &e.under {
                    Some(u) => {
                        let bitwidth = u.scalar_width().unwrap_or(0);
                        let value = |v: &BigInt| Val::from_int(v, bitwidth).bytes(bitwidth);
                        let members = e.members.iter().map(|(n, v)| (n.clone(), value(v))).collect();
                        types.serializable_enums.insert(e.name.clone(), SerializableEnum { bitwidth, members });
                        TypeSpec::SerializableEnum(e.name.clone())
                    }
                    None => {
                        types.enums.insert(e.name.clone(), e.members.iter().map(|(n, _)| n.clone()).collect());
                        TypeSpec::Enum(e.name.clone())
                    }
                }
            }
            Ty::New(n) => {
                let name = type_name(&n.name, &n.annos);
                if !self.info.type_info.new_types.contains_key(&name) {
                    let original = self.type_spec(n.under.base(), span)?;
                    let annotations = self.annotations(&n.annos, &["p4runtime_translation"])?;
                    let representation = match self.translation(n)? {
                        Some((uri, sdn)) => Representation::Translated(uri, sdn),
                        None => Representation::Original(original),
                    };
                    let bits = n.under.scalar_width().unwrap_or(0);
                    self.info.type_info.new_types.insert(name.clone(), NewType { representation, annotations, bits });
                }
                TypeSpec::NewType(name)
            }
            _ => return self.cx.err(span, format!("a controller cannot be told {ty}")),
        })
    }
}

struct FlatField {
    name: String,
    ty: Ty,
    annos: Vec<ast::Annotation>,
}

/// The fields of a header in order; those of a struct in it are named `struct.field`, the annotations of the struct
/// hold for them too.
fn flatten(s: &StructTy, prefix: &str, outer: &[ast::Annotation], out: &mut Vec<FlatField>) {
    for f in &s.fields {
        let mut annos = f.annos.clone();
        annos.extend(outer.iter().filter(|a| !has(&f.annos, &a.name.text)).cloned());
        match f.ty.base() {
            Ty::Struct(inner) => flatten(inner, &format!("{prefix}{}.", f.name), &annos, out),
            _ => {
                let own = if prefix.is_empty() { anno_string(&f.annos, "name") } else { None };
                let name = own.unwrap_or_else(|| format!("{prefix}{}", f.name));
                out.push(FlatField { name, ty: f.ty.clone(), annos });
            }
        }
    }
}

/// The name of a type made by `type`.
fn new_type_name(t: &Ty) -> Option<String> {
    match t {
        Ty::New(n) => Some(type_name(&n.name, &n.annos)),
        _ => None,
    }
}
