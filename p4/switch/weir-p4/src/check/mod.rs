// SPDX-License-Identifier: Apache-2.0
//! Names, types and compile-time values, and the lowering of what passed to [`crate::ir`], in one walk: a block is
//! lowered once per instance, with its constructor arguments known. What is never instantiated is walked too and its
//! code thrown away, so that errors in it show.
mod block;
mod call;
mod expr;
mod ext;
mod info;
mod stmt;

use crate::ast::*;
use crate::cost::{CALL_DEPTH, COMPILE_STEPS, TUPLE_VALUES, TYPE_FIELDS};
use crate::diag::{Diagnostics, Reported, Span};
use crate::ir::{self, Addr, Ex, Program, Slot, St};
use crate::types::*;
use crate::value::Val;
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) type Res<T> = Result<T, Reported>;

/// A place that can be read and, unless it is an `in` parameter, written.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub addr: Addr,
    /// Why it can't be written.
    pub read_only: Option<&'static str>,
    /// Validity of the other members, for a header inside a union.
    pub siblings: Vec<Addr>,
    /// Next-index slot and length of the stack whose `next` this is.
    pub next_of: Option<(Addr, usize)>,
    /// Validity of the header this is a field of.
    pub valid_of: Option<Addr>,
}

impl Place {
    pub fn at(base: Slot) -> Place {
        Place {
            addr: Addr { base, dyns: Vec::new() },
            read_only: None,
            siblings: Vec::new(),
            next_of: None,
            valid_of: None,
        }
    }

    pub fn offset(&self, by: usize) -> Place {
        let addr = Addr { base: self.addr.base + by, dyns: self.addr.dyns.clone() };
        Place { addr, read_only: self.read_only, siblings: Vec::new(), next_of: None, valid_of: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ExtObj {
    Register(usize),
    Counter(usize),
    DirectCounter(usize),
    Meter(usize),
    DirectMeter(usize),
    Profile(usize),
    Checksum16,
    PacketIn,
    PacketOut,
}

/// The value side of a typed expression.
#[derive(Clone, Debug)]
pub(crate) enum K {
    /// Known at compile time; enumerations and errors too.
    Int(BigInt),
    Bool(bool),
    Str(String),
    /// One expression for each slot.
    Leaves(Vec<Ex>),
    Place(Place),
    /// Members with their names if they have any; the flag: `...` stands for the rest.
    Agg(Vec<(Option<String>, Tv)>, bool),
    Default,
    Invalid,
    Ext(ExtObj),
    Type(TypeDef),
    Action(usize),
    Table(usize),
    Inst(usize),
    Funcs(Vec<Rc<FuncDecl>>),
    Method(Box<Tv>, Name),
    ValueSet(usize),
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct Tv {
    pub ty: Ty,
    pub k: K,
}

/// A struct, header or union with type parameters.
#[derive(Debug)]
pub(crate) struct GenericTy {
    pub name: String,
    pub kind: StructKind,
    pub type_params: Vec<Name>,
    pub fields: Vec<Field>,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeDef {
    Ty(Ty),
    Generic(Rc<GenericTy>),
    Extern(Rc<ExternTy>),
}

/// Where code stands, for statements that are not allowed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Top,
    Parser,
    Control,
    Action,
    Function,
}

/// Which part of V1Switch is being lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Unknown,
    Parser,
    Verify,
    Ingress,
    Egress,
    Compute,
    Deparser,
}

#[derive(Clone, Debug)]
pub(crate) struct BoundParam {
    pub name: String,
    pub dir: Dir,
    pub ty: Ty,
    pub slot: Slot,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub params: Vec<BoundParam>,
    pub body: usize,
    pub ret: Option<(Slot, Ty)>,
    pub is_parser: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionInst {
    pub name: String,
    /// Name as controllers know it.
    pub full_name: String,
    pub callee: Callee,
    pub decl: Rc<FuncDecl>,
    pub annos: Vec<Annotation>,
}

pub(crate) struct Cx<'a> {
    pub d: &'a mut Diagnostics,
    pub p: Program,
    pub scopes: Vec<HashMap<String, Tv>>,
    /// Where statements go.
    pub cur: Vec<St>,
    pub match_kinds: Vec<String>,
    pub actions: Vec<ActionInst>,
    pub insts: Vec<Callee>,
    pub generics: HashMap<String, Ty>,
    pub funcs: HashMap<String, Callee>,
    /// Functions and blocks being lowered, to catch recursion.
    pub busy: Vec<String>,
    /// Type parameters of the calls being matched.
    pub vars: Vec<Option<Ty>>,
    pub ret: Option<(Slot, Ty)>,
    pub place: Where,
    pub loops: u32,
    pub phase: Phase,
    pub prefix: String,
    pub states: HashMap<String, usize>,
    pub table_names: Vec<(String, Span)>,
    pub action_names: HashMap<String, Span>,
    pub main: Option<(Ty, Vec<Tv>, Span)>,
    pub notes: info::Notes,
    /// Names whose declarations have errors: their uses are no errors of their own.
    pub failed: HashSet<String>,
    /// Steps taken so far.
    pub steps: u64,
    /// Whether the error that there are too many has been reported.
    steps_told: bool,
}

/// Versions of v1model, as dates.
const V1MODEL_FIRST: u32 = 20180101;
const V1MODEL_LAST: u32 = 20200408;

/// Checks and lowers a whole program. `None`, with errors recorded, when it is not accepted.
pub fn compile(decls: &[Decl], d: &mut Diagnostics) -> Option<Program> {
    let mut cx = Cx {
        d,
        p: Program::default(),
        scopes: vec![HashMap::new()],
        cur: Vec::new(),
        match_kinds: Vec::new(),
        actions: Vec::new(),
        insts: Vec::new(),
        generics: HashMap::new(),
        funcs: HashMap::new(),
        busy: Vec::new(),
        vars: Vec::new(),
        ret: None,
        place: Where::Top,
        loops: 0,
        phase: Phase::Unknown,
        prefix: String::new(),
        states: HashMap::new(),
        table_names: Vec::new(),
        action_names: HashMap::new(),
        main: None,
        notes: info::Notes::default(),
        failed: HashSet::new(),
        steps: 0,
        steps_told: false,
    };
    // Slot 0 is never given out, so that an unset slot number shows.
    cx.p.slots = 1;
    let mut last = Span::default();
    for decl in decls {
        last = decl.name.span;
        // The error is recorded; later declarations are still worth checking.
        if cx.top(decl).is_err() {
            cx.failed.insert(decl.name.text.clone());
        }
    }
    if cx.d.has_errors() {
        return None;
    }
    let Some((ty, args, span)) = cx.main.take() else {
        let help = "end the program with `V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), \
                    MyDeparser()) main;`";
        cx.d.error_help(last, "the program has no `main` package", help);
        return None;
    };
    cx.build_main(&ty, args, span).ok()?;
    let depth = cx.p.call_depth();
    if depth > CALL_DEPTH {
        let m = format!(
            "unsupported: {depth} actions, functions or controls that call each other; the most are {CALL_DEPTH}"
        );
        cx.d.error(span, m);
        return None;
    }
    cx.p.info = Arc::new(cx.p4info().ok()?);
    Some(cx.p)
}

impl<'a> Cx<'a> {
    pub fn err<T>(&mut self, span: Span, m: impl Into<String>) -> Res<T> {
        Err(self.d.error(span, m))
    }

    pub fn err_help<T>(&mut self, span: Span, m: impl Into<String>, help: impl Into<String>) -> Res<T> {
        Err(self.d.error_help(span, m, help))
    }

    pub fn unsupported<T>(&mut self, span: Span, what: &str) -> Res<T> {
        self.err(span, format!("unsupported: {what}"))
    }

    /// Counts steps of compiling; an error when there have been too many. It is reported once, by whoever asks first:
    /// what counts without asking, as [`Cx::emit`] does, may have used up the last.
    pub fn spend(&mut self, steps: usize, span: Span) -> Res<()> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps <= COMPILE_STEPS {
            return Ok(());
        }
        if !self.steps_told {
            self.steps_told = true;
            let m = format!("unsupported: a program that takes more than {COMPILE_STEPS} steps to compile");
            let help = "look for what doubles from level to level: a control or parser that makes two instances of \
                        another, constants or types of two of the one before";
            return self.err_help(span, m, help);
        }
        Err(Reported)
    }

    /// A tuple, unless it has more values than are sensible: one of two of the one before doubles from level to level.
    pub fn tuple(&mut self, members: Vec<Ty>, span: Span) -> Res<Ty> {
        let ty = Ty::Tuple(Rc::new(members));
        let parts = ty.parts();
        self.spend(parts / 16, span)?;
        if parts > TUPLE_VALUES || ty.slots() > TYPE_FIELDS {
            let help = "a tuple of tuples has the values of all of them";
            return self.err_help(
                span,
                format!("unsupported: a tuple of more than {TUPLE_VALUES} values in all"),
                help,
            );
        }
        Ok(ty)
    }

    pub fn alloc(&mut self, n: usize) -> Slot {
        let at = self.p.slots;
        self.p.slots += n;
        at
    }

    /// Storage for a type, refused when it would not fit any sensible switch.
    pub fn alloc_ty(&mut self, ty: &Ty, span: Span) -> Res<Slot> {
        const MOST: usize = TYPE_FIELDS;
        self.spend(1 + ty.slots() / 16, span)?;
        if ty.slots() > MOST || self.p.slots > MOST {
            return self.err(span, format!("{ty} needs more storage than this switch has ({MOST} fields)"));
        }
        Ok(self.alloc(ty.slots()))
    }

    pub fn emit(&mut self, s: St) {
        self.steps = self.steps.saturating_add(1);
        self.cur.push(s);
    }

    /// Runs `f` with statements collected apart.
    pub fn collect<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<(Vec<St>, T)> {
        let saved = std::mem::take(&mut self.cur);
        let r = f(self);
        let made = std::mem::replace(&mut self.cur, saved);
        Ok((made, r?))
    }

    pub fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.scopes.push(HashMap::new());
        let r = f(self);
        self.scopes.pop();
        r
    }

    pub fn lookup(&self, name: &str) -> Option<&Tv> {
        if let Some(global) = name.strip_prefix('.') {
            return self.scopes[0].get(global);
        }
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    pub fn declare(&mut self, name: &Name, v: Tv) -> Res<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if let Some(old) = scope.get_mut(&name.text) {
            if let (K::Funcs(list), K::Funcs(more)) = (&mut old.k, &v.k) {
                let same = list
                    .iter()
                    .any(|f| f.params.len() == more[0].params.len() && more[0].body.is_some() && f.body.is_some());
                if !same {
                    list.extend(more.iter().cloned());
                    return Ok(());
                }
            }
            let text = format!("`{}` is declared twice in the same scope", name.text);
            return self.err_help(name.span, text, "rename one of them");
        }
        scope.insert(name.text.clone(), v);
        Ok(())
    }

    /// The known name most like `name`, for the help line of an error.
    pub fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        known
            .filter(|k| !k.is_empty())
            .map(|k| (distance(name, k), k))
            .filter(|(d, k)| *d * 3 <= k.len().max(name.len()))
            .min()
            .map(|(_, k)| k)
    }

    pub fn unknown<T>(&mut self, name: &str, span: Span, what: &str) -> Res<T> {
        if self.failed.contains(name) {
            return Err(Reported);
        }
        let names: Vec<String> = self.scopes.iter().flat_map(|s| s.keys().cloned()).collect();
        let close = Self::similar(name, names.iter().map(String::as_str)).map(str::to_string);
        let m = format!("{what} `{name}` is not declared");
        match close {
            Some(c) => self.err_help(span, m, format!("did you mean `{c}`?")),
            None => self.err_help(span, m, "declare it before its use"),
        }
    }

    fn top(&mut self, decl: &Decl) -> Res<()> {
        if anno_string(&decl.annos, "controller_header").is_some() {
            self.notes.controller_headers.push(decl.name.clone());
        }
        match &decl.kind {
            DeclKind::Errors(names) => {
                for n in names {
                    if self.p.errors.contains(&n.text) {
                        return self.err(n.span, format!("error `{}` is declared twice", n.text));
                    }
                    self.p.errors.push(n.text.clone());
                }
                Ok(())
            }
            DeclKind::MatchKinds(names) => {
                self.match_kinds.extend(names.iter().map(|n| n.text.clone()));
                Ok(())
            }
            DeclKind::Extern(tps, methods) => {
                let methods = methods.iter().map(|m| Rc::new(m.clone())).collect();
                let e = Rc::new(ExternTy { name: decl.name.text.clone(), type_params: tps.clone(), methods });
                self.declare(&decl.name, type_tv(TypeDef::Extern(e)))
            }
            DeclKind::Package(tps, params) => {
                let name = decl.name.text.clone();
                let p = PackageTy { name, type_params: tps.clone(), params: params.clone() };
                self.declare(&decl.name, type_tv(TypeDef::Ty(Ty::Package(Rc::new(p)))))
            }
            DeclKind::Block(b) => {
                if b.apply.is_some() && !b.type_params.is_empty() {
                    let span = b.type_params[0].span;
                    return self.err(span, "a parser or control with a body cannot have type parameters");
                }
                self.declare(&decl.name, type_tv(TypeDef::Ty(Ty::Block(b.clone()))))?;
                if b.apply.is_some() && b.ctor_params.is_empty() {
                    self.check_only(|cx| cx.instantiate(b, Vec::new(), &b.name.text, b.name.span, None).map(|_| ()))?;
                }
                Ok(())
            }
            DeclKind::Function(f) => {
                self.declare(&decl.name, Tv { ty: Ty::Object("a function"), k: K::Funcs(vec![f.clone()]) })?;
                if f.body.is_some() && f.type_params.is_empty() {
                    self.function(f, &[], decl.name.span)?;
                }
                Ok(())
            }
            _ => self.local(decl),
        }
    }

    /// Lowers for the errors' sake and forgets the result.
    fn check_only(&mut self, f: impl FnOnce(&mut Self) -> Res<()>) -> Res<()> {
        // What is copied.
        let all = self.p.procs.iter().map(Vec::len).sum::<usize>() + self.p.procs.len() + self.action_names.len();
        self.spend(all / 16, Span::default())?;
        let (tables, action_names, notes) = (self.table_names.len(), self.action_names.clone(), self.notes.clone());
        let (program, actions, insts) = (self.p.clone(), self.actions.len(), self.insts.len());
        let (cur, funcs, vars) = (std::mem::take(&mut self.cur), self.funcs.clone(), self.vars.len());
        let r = f(self);
        self.p = program;
        self.notes = notes;
        self.table_names.truncate(tables);
        self.action_names = action_names;
        self.actions.truncate(actions);
        self.insts.truncate(insts);
        self.funcs = funcs;
        self.vars.truncate(vars);
        self.cur = cur;
        r
    }

    /// Declarations that may stand in blocks as well as at the top.
    pub fn local(&mut self, decl: &Decl) -> Res<()> {
        let r = self.declaration(decl);
        if r.is_err() {
            self.failed.insert(decl.name.text.clone());
        }
        r
    }

    fn declaration(&mut self, decl: &Decl) -> Res<()> {
        let name = &decl.name;
        match &decl.kind {
            DeclKind::Const(t, e) => {
                let ty = self.ty(t)?;
                let v = self.expr(e, Some(&ty))?;
                let v = self.coerce(v, &ty, e.span)?;
                if !is_const(&v) {
                    let help = "a constant's value must be known when the program is compiled";
                    return self.err_help(e.span, format!("the value of `{}` is not constant", name.text), help);
                }
                if name.text == "__v1model_version" {
                    self.known_version(&v, e.span)?;
                }
                self.declare(name, v)
            }
            DeclKind::Typedef(t) => {
                let ty = self.ty(t)?;
                self.declare(name, type_tv(TypeDef::Ty(ty)))
            }
            DeclKind::NewType(t) => {
                let ty = self.ty(t)?;
                if !matches!(ty, Ty::Bool | Ty::Bit(_) | Ty::SInt(_) | Ty::New(_)) {
                    return self.err(t.span, format!("`type` needs bit<W>, int<W>, bool or another `type`, not {ty}"));
                }
                let new = NewTy { name: name.text.clone(), under: ty, annos: decl.annos.clone() };
                self.declare(name, type_tv(TypeDef::Ty(Ty::New(Rc::new(new)))))
            }
            DeclKind::Struct(kind, tps, fields) => {
                if tps.is_empty() {
                    let ty = self.make_struct(&name.text, *kind, fields, &decl.annos)?;
                    self.declare(name, type_tv(TypeDef::Ty(ty)))
                } else {
                    let fields = fields.clone();
                    let (name_text, type_params, annos) = (name.text.clone(), tps.clone(), decl.annos.clone());
                    let g = GenericTy { name: name_text, kind: *kind, type_params, fields, annos };
                    self.declare(name, type_tv(TypeDef::Generic(Rc::new(g))))
                }
            }
            DeclKind::Enum(under, members) => {
                let under = match under {
                    Some(t) => {
                        let ty = self.ty(t)?;
                        if !matches!(ty, Ty::Bit(_) | Ty::SInt(_)) {
                            let m = format!("the type under an enum must be bit<W> or int<W>, not {ty}");
                            return self.err(t.span, m);
                        }
                        Some(ty)
                    }
                    None => None,
                };
                let mut list: Vec<(String, BigInt)> = Vec::new();
                for (m, v) in members {
                    if list.iter().any(|(n, _)| *n == m.text) {
                        return self.err(m.span, format!("enum member `{}` is declared twice", m.text));
                    }
                    let value = match (&under, v) {
                        (Some(u), Some(e)) => {
                            let v = self.expr(e, Some(u))?;
                            match self.coerce(v, u, e.span)?.k {
                                K::Int(i) => i,
                                _ => return self.err(e.span, "an enum member's value must be constant"),
                            }
                        }
                        (None, None) => BigInt::from(list.len()),
                        (Some(_), None) => {
                            let help = "write `name = value`";
                            return self.err_help(m.span, format!("enum member `{}` needs a value", m.text), help);
                        }
                        (None, Some(e)) => {
                            let help = "declare the enum with a type: `enum bit<8> Name { ... }`";
                            return self.err_help(e.span, "only an enum with a type can have values", help);
                        }
                    };
                    list.push((m.text.clone(), value));
                }
                if list.is_empty() {
                    return self.err(name.span, format!("enum `{}` has no members", name.text));
                }
                let e = Ty::Enum(Rc::new(EnumTy { name: name.text.clone(), under, members: list }));
                self.declare(name, type_tv(TypeDef::Ty(e)))
            }
            DeclKind::Var(t, init) => {
                let ty = self.ty(t)?;
                if matches!(
                    ty,
                    Ty::Int | Ty::Str | Ty::Void | Ty::Extern(..) | Ty::Block(_) | Ty::Package(_) | Ty::List(_)
                ) {
                    return self.err(t.span, format!("a variable cannot have type {ty}"));
                }
                let v = match init {
                    Some(e) => {
                        let v = self.expr(e, Some(&ty))?;
                        Some((self.coerce(v, &ty, e.span)?, e.span))
                    }
                    None => None,
                };
                let slot = self.alloc_ty(&ty, name.span)?;
                let place = Place::at(slot);
                match v {
                    Some((v, span)) => self.store(&place, &ty, v, span)?,
                    None => self.emit(St::Zero(slot, ty.slots())),
                }
                self.declare(name, Tv { ty, k: K::Place(place) })
            }
            DeclKind::Instance(t, args, body) => {
                if *body {
                    return self.unsupported(name.span, "an instance with abstract methods");
                }
                self.instance(decl, t, args)
            }
            DeclKind::Action(f) => self.action(f, &decl.annos),
            DeclKind::Table(t) => self.table(decl, t),
            DeclKind::ValueSet(t, size) => self.value_set(decl, t, size),
            _ => self.err(name.span, "this declaration must stand at the top level"),
        }
    }

    /// v1model.p4 changes with V1MODEL_VERSION, which a program may set before it includes the file.
    fn known_version(&mut self, v: &Tv, span: Span) -> Res<()> {
        match &v.k {
            K::Int(n) if (V1MODEL_FIRST..=V1MODEL_LAST).contains(&n.to_u32().unwrap_or(0)) => Ok(()),
            K::Int(n) => {
                let help = format!("versions go from {V1MODEL_FIRST} to {V1MODEL_LAST}");
                self.err_help(span, format!("V1MODEL_VERSION {n} is unknown"), help)
            }
            _ => self.err(span, "V1MODEL_VERSION must be a number"),
        }
    }

    fn make_struct(&mut self, name: &str, kind: StructKind, fields: &[Field], annos: &[Annotation]) -> Res<Ty> {
        let mut list: Vec<FieldTy> = Vec::new();
        let mut at = usize::from(kind == StructKind::Header);
        let mut varbits = 0;
        for f in fields {
            let ty = self.ty(&f.ty)?;
            let fits = match kind {
                StructKind::Header => match ty.base() {
                    Ty::Bool | Ty::Bit(_) | Ty::SInt(_) => true,
                    Ty::Varbit(_) => {
                        varbits += 1;
                        true
                    }
                    Ty::Enum(e) => e.under.is_some(),
                    Ty::Struct(s) => s.kind == StructKind::Struct && ty.fixed_layout().is_some(),
                    _ => false,
                },
                StructKind::Union => ty.is_header(),
                StructKind::Struct => !matches!(
                    ty.base(),
                    Ty::Int | Ty::Str | Ty::Void | Ty::Extern(..) | Ty::Block(_) | Ty::Package(_) | Ty::List(_)
                ),
            };
            if !fits {
                let (what, help) = match kind {
                    StructKind::Header => (
                        "header",
                        "a header holds bit<W>, int<W>, bool, varbit<W>, serializable enums and structs of these",
                    ),
                    StructKind::Union => ("header_union", "the members of a header_union are headers"),
                    StructKind::Struct => ("struct", "a struct holds values"),
                };
                let m = format!("field `{}` of type {ty} cannot be in a {what}", f.name.text);
                return self.err_help(f.ty.span, m, help);
            }
            if varbits > 1 {
                return self.unsupported(f.name.span, "a header with more than one varbit field");
            }
            if list.iter().any(|x| x.name == f.name.text) {
                return self.err(f.name.span, format!("field `{}` is declared twice", f.name.text));
            }
            let slots = ty.slots();
            list.push(FieldTy { name: f.name.text.clone(), ty, offset: at, annos: f.annos.clone() });
            at += slots;
        }
        if at > 1 << 20 {
            let span = fields.first().map(|f| f.name.span).unwrap_or_default();
            return self.err(span, format!("`{name}` needs more storage than this switch has"));
        }
        let (name, annos) = (name.to_string(), annos.to_vec());
        Ok(Ty::Struct(Rc::new(StructTy { name, kind, fields: list, slots: at, annos })))
    }

    fn width(&mut self, e: &Expr, least: u32) -> Res<u32> {
        let n = self.const_int(e, "a width")?;
        match n.to_u32().filter(|w| (least..=MAX_WIDTH).contains(w)) {
            Some(w) => Ok(w),
            None => self.err(e.span, format!("width {n} is not between {least} and {MAX_WIDTH}")),
        }
    }

    /// Evaluates an expression that must be a constant integer.
    pub fn const_int(&mut self, e: &Expr, what: &str) -> Res<BigInt> {
        let v = self.expr(e, None)?;
        match (v.k, v.ty.base()) {
            (K::Int(i), Ty::Int | Ty::Bit(_) | Ty::SInt(_) | Ty::Enum(_)) => Ok(i),
            _ => self.err(e.span, format!("{what} must be a constant integer")),
        }
    }

    pub fn ty(&mut self, t: &Type) -> Res<Ty> {
        self.spend(1, t.span)?;
        Ok(match &t.kind {
            TypeKind::Bool => Ty::Bool,
            TypeKind::Error => Ty::Error,
            TypeKind::MatchKind => Ty::MatchKind,
            TypeKind::Str => Ty::Str,
            TypeKind::Void => Ty::Void,
            TypeKind::Integer => Ty::Int,
            TypeKind::DontCare => {
                self.vars.push(None);
                Ty::Var(self.vars.len() - 1)
            }
            TypeKind::Bit(None) => Ty::Bit(1),
            TypeKind::Bit(Some(e)) => match self.width(e, 0)? {
                0 => return self.unsupported(t.span, "values of no bits (bit<0>)"),
                w => Ty::Bit(w),
            },
            TypeKind::Int(e) => Ty::SInt(self.width(e, 1)?),
            TypeKind::Varbit(e) => Ty::Varbit(self.width(e, 0)?),
            TypeKind::Tuple(ts) => {
                let list = ts.iter().map(|t| self.ty(t)).collect::<Res<Vec<_>>>()?;
                return self.tuple(list, t.span);
            }
            TypeKind::List(t) => Ty::List(Rc::new(self.ty(t)?)),
            TypeKind::Stack(inner, n) => {
                let ty = self.ty(inner)?;
                if !ty.is_header() && !ty.is_union() {
                    return self.err_help(
                        inner.span,
                        format!("unsupported: an array of {ty}"),
                        "a stack holds headers or header unions",
                    );
                }
                let size = self.const_int(n, "the size of a stack")?;
                let span = n.span;
                match size.to_u32().filter(|n| (1..=65536).contains(n)) {
                    Some(n) if ty.slots().saturating_mul(n as usize) >= TYPE_FIELDS => {
                        let m = format!("unsupported: a stack of more than {TYPE_FIELDS} fields in all");
                        return self.err(span, m);
                    }
                    Some(n) => Ty::Stack(Rc::new(ty), n),
                    None => return self.err(n.span, format!("size {size} of a stack is not between 1 and 65536")),
                }
            }
            TypeKind::Named(name, args) => {
                let Some(found) = self.lookup(name).cloned() else {
                    return self.unknown(name, t.span, "type");
                };
                let K::Type(def) = found.k else {
                    return self.err(t.span, format!("`{name}` is not a type but {}", describe(&found)));
                };
                let args = args.iter().map(|a| self.ty(a)).collect::<Res<Vec<_>>>()?;
                return self.apply_type(&def, name, args, t.span);
            }
        })
    }

    pub fn apply_type(&mut self, def: &TypeDef, name: &str, args: Vec<Ty>, span: Span) -> Res<Ty> {
        let wants = match def {
            TypeDef::Ty(Ty::Block(b)) => b.type_params.len(),
            TypeDef::Ty(Ty::Package(p)) => p.type_params.len(),
            TypeDef::Ty(_) => 0,
            TypeDef::Generic(g) => g.type_params.len(),
            TypeDef::Extern(e) => e.type_params.len(),
        };
        // Types of package parameters may go without arguments; they are matched by what is passed.
        let bare = args.is_empty() && !matches!(def, TypeDef::Generic(_));
        if args.len() != wants && !bare {
            let m = format!("`{name}` takes {wants} type arguments, not {}", args.len());
            return self.err(span, m);
        }
        match def {
            TypeDef::Ty(t) => Ok(t.clone()),
            TypeDef::Extern(e) => Ok(Ty::Extern(e.clone(), Rc::new(args))),
            TypeDef::Generic(g) => {
                let shown: Vec<String> = args.iter().map(Ty::to_string).collect();
                let full = format!("{}<{}>", g.name, shown.join(", "));
                self.spend(full.len() / 64, span)?;
                if full.len() > TUPLE_VALUES {
                    let m = format!("unsupported: a type whose arguments, written out, take {} characters", full.len());
                    return self.err(span, m);
                }
                if let Some(t) = self.generics.get(&full) {
                    return Ok(t.clone());
                }
                if self.busy.len() > 50 {
                    return self.err(span, format!("type `{full}` is nested too deep"));
                }
                let inner = self.scopes.split_off(1);
                let mut scope = HashMap::new();
                for (p, a) in g.type_params.iter().zip(args) {
                    scope.insert(p.text.clone(), type_tv(TypeDef::Ty(a)));
                }
                self.scopes.push(scope);
                self.busy.push(full.clone());
                let r = self.make_struct(&full, g.kind, &g.fields, &g.annos);
                self.busy.pop();
                self.scopes.pop();
                self.scopes.extend(inner);
                let ty = r?;
                if !full.contains("type parameter") {
                    self.generics.insert(full, ty.clone());
                }
                Ok(ty)
            }
        }
    }

    /// Replaces matched type parameters by what they were matched with.
    pub fn subst(&self, t: &Ty) -> Ty {
        match t {
            Ty::Var(n) => match self.vars.get(*n) {
                Some(Some(t)) => self.subst(t),
                _ => t.clone(),
            },
            Ty::Tuple(ts) => Ty::Tuple(Rc::new(ts.iter().map(|t| self.subst(t)).collect())),
            Ty::List(t) => Ty::List(Rc::new(self.subst(t))),
            Ty::Extern(e, a) => Ty::Extern(e.clone(), Rc::new(a.iter().map(|t| self.subst(t)).collect())),
            Ty::Stack(t, n) => Ty::Stack(Rc::new(self.subst(t)), *n),
            t => t.clone(),
        }
    }

    pub fn has_vars(t: &Ty) -> bool {
        match t {
            Ty::Var(_) => true,
            Ty::Tuple(ts) => ts.iter().any(Self::has_vars),
            Ty::List(t) | Ty::Stack(t, _) => Self::has_vars(t),
            Ty::Extern(_, a) => a.iter().any(Self::has_vars),
            _ => false,
        }
    }

    /// Matches a parameter's type with an argument's; type parameters take the argument's type.
    pub fn unify(&mut self, param: &Ty, arg: &Ty) -> bool {
        match (param, arg) {
            (Ty::Var(n), a) => match self.vars[*n].clone() {
                None => {
                    self.vars[*n] = Some(a.clone());
                    true
                }
                Some(Ty::Int) => {
                    self.vars[*n] = Some(a.clone());
                    true
                }
                Some(known) => *a == Ty::Int || self.unify(&known, a),
            },
            (Ty::Tuple(p), Ty::Tuple(a)) => p.len() == a.len() && p.iter().zip(a.iter()).all(|(p, a)| self.unify(p, a)),
            (Ty::List(p), Ty::List(a)) => self.unify(p, a),
            (Ty::Stack(p, n), Ty::Stack(a, m)) => n == m && self.unify(p, a),
            (Ty::Extern(p, x), Ty::Extern(a, y)) => {
                Rc::ptr_eq(p, a)
                    && (x.is_empty() || x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| self.unify(x, y)))
            }
            (p, a) => p == a || *a == Ty::Int && p.scalar_width().is_some(),
        }
    }
}

pub(crate) fn type_tv(def: TypeDef) -> Tv {
    Tv { ty: Ty::Object("a type"), k: K::Type(def) }
}

pub(crate) fn describe(v: &Tv) -> String {
    match &v.k {
        K::Type(_) => "a type".into(),
        K::Action(_) => "an action".into(),
        K::Table(_) => "a table".into(),
        K::Inst(_) => "an instance".into(),
        K::Funcs(_) => "a function".into(),
        K::Method(..) => "a method".into(),
        K::ValueSet(_) => "a value set".into(),
        K::Ext(_) => "an extern instance".into(),
        _ => format!("a value of type {}", v.ty),
    }
}

pub(crate) fn is_const(v: &Tv) -> bool {
    match &v.k {
        K::Int(_) | K::Bool(_) | K::Str(_) | K::Default | K::Invalid => true,
        K::Agg(list, _) => list.iter().all(|(_, v)| is_const(v)),
        K::Leaves(list) => list.iter().all(|e| matches!(e, Ex::Const(_))),
        _ => false,
    }
}

/// Edit distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(40).enumerate() {
        let mut left_up = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let up = row[j + 1];
            row[j + 1] = (left_up + usize::from(ca != *cb)).min(up + 1).min(row[j] + 1);
            left_up = up;
        }
    }
    row[b.len()]
}

pub(crate) fn int_const(v: &BigInt, ty: &Ty) -> Ex {
    Ex::Const(Val::from_int(v, ty.scalar_width().unwrap_or(128)))
}

pub(crate) fn load(addr: &Addr) -> Ex {
    if addr.dyns.is_empty() { Ex::Load(addr.base) } else { Ex::LoadAt(Box::new(addr.clone())) }
}

pub(crate) fn header_layout(s: &StructTy) -> ir::HeaderLayout {
    let mut layout = ir::HeaderLayout { name: s.name.clone(), fields: Vec::new(), varbit: None, fixed_bits: 0 };
    for f in &s.fields {
        if let Ty::Varbit(w) = f.ty.base() {
            layout.varbit = Some(layout.fields.len());
            layout.fields.push((f.offset, *w));
        } else {
            for (o, w) in f.ty.fixed_layout().unwrap_or_default() {
                layout.fixed_bits += w as usize;
                layout.fields.push((f.offset + o, w));
            }
        }
    }
    layout
}

pub(crate) fn zero_int() -> BigInt {
    BigInt::zero()
}
