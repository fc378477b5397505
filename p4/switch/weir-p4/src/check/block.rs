// SPDX-License-Identifier: Apache-2.0
//! Parsers, controls, tables, instances and the `main` package.
use super::call::ArgV;
use super::*;
use crate::ir::{ActionCall, ActionParam, ConstEntry, Key, KeyMatch, MatchKind, Next, Pat, Table, TableAction, Target};

enum KeySet {
    Any,
    Value(Tv),
    Mask(Tv, Tv),
    Range(Tv, Tv),
}

impl Cx<'_> {
    /// `Type(args) name;`
    pub fn instance(&mut self, decl: &Decl, t: &Type, args: &[Arg]) -> Res<()> {
        let TypeKind::Named(name, targs) = &t.kind else {
            return self.err(t.span, "only externs, parsers, controls and packages can be instantiated");
        };
        let Some(found) = self.lookup(name).cloned() else {
            return self.unknown(name, t.span, "type");
        };
        let span = decl.name.span;
        match found.k {
            K::Type(TypeDef::Extern(e)) => {
                if matches!(self.place, Where::Action | Where::Function) {
                    return self.err(span, "an extern cannot be instantiated in an action or function");
                }
                let targs = targs.iter().map(|t| self.ty(t)).collect::<Res<Vec<_>>>()?;
                let full = self.full_name(&decl.name.text, &decl.annos);
                let v = self.extern_instance(&e, targs, args, full, &decl.annos, span)?;
                self.declare(&decl.name, v)
            }
            K::Type(TypeDef::Ty(Ty::Extern(e, targs))) => {
                let full = self.full_name(&decl.name.text, &decl.annos);
                let v = self.extern_instance(&e, targs.to_vec(), args, full, &decl.annos, span)?;
                self.declare(&decl.name, v)
            }
            K::Type(TypeDef::Ty(Ty::Block(b))) => {
                if b.apply.is_none() {
                    return self.err(t.span, format!("`{name}` is only declared, it has no body"));
                }
                let vals = self.ctor_args(&b, args, span)?;
                if self.scopes.len() == 1 {
                    let items = vals.into_iter().map(|v| (None, v)).collect();
                    return self.declare(&decl.name, Tv { ty: Ty::Block(b), k: K::Agg(items, false) });
                }
                if matches!(self.place, Where::Action | Where::Function) {
                    return self.err(span, "a parser or control cannot be instantiated here");
                }
                let prefix = self.full_name(&decl.name.text, &decl.annos);
                let i = self.instantiate(&b, vals, &prefix, span, None)?;
                self.declare(&decl.name, Tv { ty: Ty::Object("an instance"), k: K::Inst(i) })
            }
            K::Type(TypeDef::Ty(ty @ Ty::Package(_))) => {
                let Ty::Package(p) = &ty else { return Ok(()) };
                let mut vals: Vec<Option<Tv>> = vec![None; p.params.len()];
                for (i, a) in args.iter().enumerate() {
                    let at = match &a.name {
                        Some(n) => p.params.iter().position(|q| q.name.text == n.text),
                        None => (i < p.params.len()).then_some(i),
                    };
                    let Some(at) = at else {
                        let m = format!("package `{name}` takes {} arguments, not {}", p.params.len(), args.len());
                        return self.err(a.span, m);
                    };
                    let Some(e) = &a.value else {
                        return self.err(a.span, "a package argument cannot be `_`");
                    };
                    vals[at] = Some(self.package_arg(e)?);
                }
                let mut all = Vec::new();
                for (v, q) in vals.into_iter().zip(&p.params) {
                    match v {
                        Some(v) => all.push(v),
                        None if q.optional() => {}
                        None => {
                            let m = format!("argument `{}` of package `{name}` is not given", q.name.text);
                            let help = format!("`{name}` takes {} arguments", p.params.len());
                            return self.err_help(span, m, help);
                        }
                    }
                }
                if decl.name.text == "main" {
                    self.main = Some((ty.clone(), all, span));
                    self.notes.package = decl.annos.clone();
                }
                self.declare(&decl.name, Tv { ty: ty.clone(), k: K::Nothing })
            }
            _ => {
                let what = describe(&found);
                self.err(t.span, format!("`{name}` cannot be instantiated: it is {what}"))
            }
        }
    }

    fn package_arg(&mut self, e: &Expr) -> Res<Tv> {
        if let ExprKind::Call(f, _, args) = &e.kind
            && let ExprKind::Name(n) | ExprKind::Global(n) = &f.kind
        {
            let Some(found) = self.lookup(n).cloned() else {
                return self.unknown(n, f.span, "type");
            };
            if let K::Type(TypeDef::Ty(Ty::Block(b))) = found.k {
                if b.apply.is_none() {
                    return self.err(f.span, format!("`{n}` is only declared, it has no body"));
                }
                let vals = self.ctor_args(&b, args, e.span)?;
                let items = vals.into_iter().map(|v| (None, v)).collect();
                return Ok(Tv { ty: Ty::Block(b), k: K::Agg(items, false) });
            }
            if !matches!(found.k, K::Funcs(_)) {
                return self.unsupported(e.span, "this kind of package argument");
            }
        }
        self.expr(e, None)
    }

    fn ctor_args(&mut self, b: &BlockDecl, args: &[Arg], span: Span) -> Res<Vec<Tv>> {
        let mut params = Vec::new();
        for p in &b.ctor_params {
            let ty = self.ty(&p.ty)?;
            params.push(BoundParam {
                name: p.name.text.clone(),
                dir: Dir::None,
                ty,
                slot: 0,
                default: p.default.clone(),
            });
        }
        let vals = self.arguments(&params, &b.name.text, args, span)?;
        let mut out = Vec::new();
        for (v, p) in vals.iter().zip(&params) {
            let ArgV::In(v, s) = v else {
                return self.err(span, "a constructor argument is missing");
            };
            if !is_const(v) && !matches!(v.k, K::Ext(_) | K::Inst(_)) {
                return self.err(*s, format!("constructor argument `{}` must be constant", p.name));
            }
            out.push(v.clone());
        }
        Ok(out)
    }

    /// A parser or control passed to a constructor: an instance, or one made on the spot.
    pub fn block_arg(&mut self, want: &Rc<BlockDecl>, e: &Expr) -> Res<Tv> {
        let v = match &e.kind {
            ExprKind::Call(f, _, args) if matches!(f.kind, ExprKind::Name(_) | ExprKind::Global(_)) => {
                let callee = self.expr(f, None)?;
                let K::Type(TypeDef::Ty(Ty::Block(b))) = callee.k else {
                    return self.err(e.span, format!("an instance of {} is needed here", Ty::Block(want.clone())));
                };
                let vals = self.ctor_args(&b, args, e.span)?;
                let prefix = self.block_prefix(&b.name.text);
                let i = self.instantiate(&b, vals, &prefix, e.span, None)?;
                Tv { ty: Ty::Object("an instance"), k: K::Inst(i) }
            }
            _ => self.expr(e, None)?,
        };
        let K::Inst(i) = v.k else {
            let what = describe(&v);
            return self.err(e.span, format!("an instance of {} is needed here, not {what}", Ty::Block(want.clone())));
        };
        let have = self.insts[i].clone();
        let mut fits = have.params.len() == want.params.len() && have.is_parser == want.is_parser;
        for (p, q) in have.params.iter().zip(&want.params) {
            let ty = self.ty(&q.ty)?;
            fits = fits && p.dir == q.dir && p.ty == ty;
        }
        if !fits {
            return self.err(e.span, format!("the parameters of this instance do not fit {}", Ty::Block(want.clone())));
        }
        Ok(v)
    }

    /// Lowers a parser or control with its constructor arguments. With `bind`, parameters live at those places.
    pub fn instantiate(
        &mut self,
        b: &Rc<BlockDecl>,
        args: Vec<Tv>,
        prefix: &str,
        span: Span,
        bind: Option<&[Option<Slot>]>,
    ) -> Res<usize> {
        let at = b.name.span;
        let key = format!("{}@{}:{}:{}", b.name.text, at.file, at.line, at.col);
        if self.busy.contains(&key) || self.busy.len() > 40 {
            return self.err_help(span, format!("`{}` contains itself", b.name.text), "P4 has no recursion");
        }
        if self.insts.len() > 10_000 {
            return self.err(span, "more than 10000 instances of parsers and controls");
        }
        self.busy.push(key);
        let inner = self.scopes.split_off(1);
        let saved = (
            std::mem::replace(&mut self.prefix, prefix.to_string()),
            self.place,
            self.ret.take(),
            self.loops,
            std::mem::take(&mut self.states),
            std::mem::take(&mut self.cur),
        );
        self.place = if b.is_parser { Where::Parser } else { Where::Control };
        self.loops = 0;
        self.scopes.push(HashMap::new());
        let r = self.block_body(b, args, bind);
        self.scopes.truncate(1);
        self.scopes.extend(inner);
        (self.prefix, self.place, self.ret, self.loops, self.states, self.cur) = saved;
        self.busy.pop();
        let callee = r?;
        self.insts.push(callee);
        Ok(self.insts.len() - 1)
    }

    fn block_body(&mut self, b: &Rc<BlockDecl>, args: Vec<Tv>, bind: Option<&[Option<Slot>]>) -> Res<Callee> {
        for (p, v) in b.ctor_params.iter().zip(args) {
            self.declare(&p.name, v)?;
        }
        let mut params = self.bind_params(&b.params)?;
        if let Some(places) = bind {
            for (p, slot) in params.iter_mut().zip(places) {
                let Some(slot) = slot else { continue };
                p.slot = *slot;
                let scope = self.scopes.last_mut().and_then(|s| s.get_mut(&p.name));
                if let Some(Tv { k: K::Place(place), .. }) = scope {
                    place.addr.base = *slot;
                }
            }
        }
        self.scopes.push(HashMap::new());
        let mut failed = false;
        for d in &b.locals {
            failed |= self.local(d).is_err();
        }
        let body = if b.is_parser {
            self.parser_states(b)?
        } else {
            self.stmts(b.apply.as_deref().unwrap_or(&[]))?;
            let code = std::mem::take(&mut self.cur);
            self.p.procs.push(code);
            self.p.procs.len() - 1
        };
        if failed {
            return Err(Reported);
        }
        Ok(Callee { params, body, ret: None, is_parser: b.is_parser })
    }

    fn parser_states(&mut self, b: &BlockDecl) -> Res<usize> {
        self.states.clear();
        // State 0 runs the initial values of the parser's variables.
        for (i, s) in b.states.iter().enumerate() {
            if s.name.text == "accept" || s.name.text == "reject" {
                let m = format!("state `{}` is built in and cannot be declared", s.name.text);
                return self.err(s.name.span, m);
            }
            if self.states.insert(s.name.text.clone(), i + 1).is_some() {
                return self.err(s.name.span, format!("state `{}` is declared twice", s.name.text));
            }
        }
        let Some(start) = self.states.get("start").copied() else {
            let m = format!("parser `{}` has no state `start`", b.name.text);
            return self.err_help(b.name.span, m, "name the first state `start`");
        };
        let init = std::mem::take(&mut self.cur);
        let mut parser = ir::Parser { name: b.name.text.clone(), states: Vec::new(), start: 0 };
        parser.states.push(("".into(), init, Next::State(start)));
        let mut failed = false;
        for s in &b.states {
            let r = self.collect(|cx| {
                cx.scoped(|cx| {
                    cx.stmts(&s.body)?;
                    cx.transition(&s.transition)
                })
            });
            match r {
                Ok((code, next)) => parser.states.push((s.name.text.clone(), code, next)),
                Err(Reported) => failed = true,
            }
        }
        if failed {
            return Err(Reported);
        }
        if !ends(&parser) {
            let m = format!("parser `{}` never ends: no way from `start` leads to accept or reject", b.name.text);
            return self.err_help(b.name.span, m, "add `transition accept;` to its last state");
        }
        self.p.parsers.push(parser);
        Ok(self.p.parsers.len() - 1)
    }

    fn target(&mut self, n: &Name) -> Res<Target> {
        match n.text.as_str() {
            "accept" => Ok(Target::Accept),
            "reject" => {
                self.d.warn(n.span, "after `reject` the packet goes on to ingress without a parser error, on BMv2 too");
                Ok(Target::Reject)
            }
            name => match self.states.get(name) {
                Some(i) => Ok(Target::State(*i)),
                None => {
                    let close = Self::similar(name, self.states.keys().map(String::as_str).chain(["accept", "reject"]));
                    let help = match close {
                        Some(c) => format!("did you mean `{c}`?"),
                        None => format!("declare it: `state {name} {{ transition accept; }}`"),
                    };
                    self.err_help(n.span, format!("state `{name}` is not declared"), help)
                }
            },
        }
    }

    fn transition(&mut self, t: &Transition) -> Res<Next> {
        match t {
            Transition::Implicit => Ok(Next::Reject),
            Transition::To(n) => Ok(match self.target(n)? {
                Target::State(i) => Next::State(i),
                Target::Accept => Next::Accept,
                Target::Reject => Next::Reject,
            }),
            Transition::Select(keys, cases, span) => {
                if keys.is_empty() {
                    return self.err(*span, "`select` needs at least one key");
                }
                let mut vals: Vec<(Tv, Span)> = Vec::new();
                for k in keys {
                    let mark = self.cur.len();
                    let v = self.expr(k, None)?;
                    if v.ty.scalar_width().is_none() {
                        let what = describe(&v);
                        let help = "select on bit<W>, int<W>, bool, enum or error values";
                        return self.err_help(k.span, format!("`select` cannot use {what}"), help);
                    }
                    if self.cur.len() > mark {
                        let mut mark = mark;
                        for (earlier, _) in vals.iter_mut() {
                            let before = self.cur.len();
                            *earlier = self.spill_at(mark, earlier.clone())?;
                            mark += self.cur.len() - before;
                        }
                    }
                    vals.push((v, k.span));
                }
                let mut out = Vec::new();
                for (set, to, span) in cases {
                    let target = self.target(to)?;
                    out.push((self.case(set, &vals, *span)?, target));
                }
                let exs = vals.iter().map(|(v, s)| self.scalar(v, *s)).collect::<Res<Vec<_>>>()?;
                Ok(Next::Select(exs, out))
            }
        }
    }

    fn case(&mut self, set: &[Expr], keys: &[(Tv, Span)], span: Span) -> Res<Vec<Pat>> {
        if let [only] = set {
            if matches!(only.kind, ExprKind::DontCare) {
                return Ok(vec![Pat::Any; keys.len()]);
            }
            if let ExprKind::Name(n) = &only.kind
                && let Some(Tv { k: K::ValueSet(id), .. }) = self.lookup(n)
            {
                let id = *id;
                let widths: Vec<u32> = keys.iter().map(|(k, _)| k.ty.scalar_width().unwrap_or(0)).collect();
                if self.p.value_sets[id].widths != widths {
                    return self.err(only.span, format!("value set `{n}` does not fit the keys of this `select`"));
                }
                return Ok(vec![Pat::ValueSet(id, widths.len())]);
            }
        }
        if set.len() != keys.len() {
            let m = format!("`select` has {} keys, this case {}", keys.len(), set.len());
            return self.err_help(span, m, "give one value for each key, in parentheses");
        }
        let mut out = Vec::new();
        for (e, (k, _)) in set.iter().zip(keys) {
            let ty = k.ty.clone();
            out.push(match self.keyset(e, &ty)? {
                KeySet::Any => Pat::Any,
                KeySet::Value(v) => Pat::Value(self.scalar(&v, e.span)?),
                KeySet::Mask(v, m) => Pat::Mask(self.scalar(&v, e.span)?, self.scalar(&m, e.span)?),
                KeySet::Range(a, b) => {
                    match (&a.k, &b.k) {
                        (K::Int(low), K::Int(high)) if low > high => {
                            self.d.warn(e.span, format!("the range from {low} to {high} is empty, it matches nothing"));
                        }
                        (K::Int(_), K::Int(_)) => {}
                        _ => {
                            let help = "BMv2 has none but constants here; compare with `if` in a control";
                            return self.err_help(e.span, "unsupported: a range whose bounds are not constant", help);
                        }
                    }
                    let (a, b) = (self.scalar(&a, e.span)?, self.scalar(&b, e.span)?);
                    match ty.is_signed() {
                        true => Pat::RangeS(a, b, ty.scalar_width().unwrap_or(1)),
                        false => Pat::Range(a, b),
                    }
                }
            });
        }
        Ok(out)
    }

    fn keyset(&mut self, e: &Expr, ty: &Ty) -> Res<KeySet> {
        let mark = self.cur.len();
        let set = self.keyset_of(e, ty)?;
        if self.cur.len() > mark {
            return self.err_help(e.span, "a call cannot stand in a set of keys", "call before, and use the result");
        }
        Ok(set)
    }

    fn keyset_of(&mut self, e: &Expr, ty: &Ty) -> Res<KeySet> {
        let one = |cx: &mut Self, e: &Expr| -> Res<Tv> {
            let v = cx.expr(e, Some(ty))?;
            // A serializable enum's member can be compared with its number.
            let v = match (&v.ty, ty) {
                (Ty::Enum(a), Ty::Bit(_) | Ty::SInt(_)) if a.under.as_ref() == Some(ty) => {
                    Tv { ty: ty.clone(), k: v.k }
                }
                _ => v,
            };
            cx.coerce(v, ty, e.span)
        };
        Ok(match &e.kind {
            ExprKind::DontCare | ExprKind::Default => KeySet::Any,
            ExprKind::Mask(a, b) => {
                let v = one(self, a)?;
                let m = if matches!(ty, Ty::Enum(_)) {
                    let under = Ty::Bit(ty.scalar_width().unwrap_or(1));
                    let m = self.expr(b, Some(&under))?;
                    self.coerce(m, &under, b.span)?
                } else {
                    one(self, b)?
                };
                KeySet::Mask(v, m)
            }
            ExprKind::Range(a, b) => KeySet::Range(one(self, a)?, one(self, b)?),
            _ => KeySet::Value(one(self, e)?),
        })
    }

    pub fn value_set(&mut self, decl: &Decl, t: &Type, size: &Expr) -> Res<()> {
        if self.place != Where::Parser {
            return self.err(decl.name.span, "a value_set can only be declared in a parser");
        }
        let ty = self.ty(t)?;
        let Some(layout) = ty.fixed_layout() else {
            return self.err(t.span, format!("a value_set cannot hold {ty}"));
        };
        let n = self.const_int(size, "the size of a value_set")?;
        let Some(size) = n.to_usize().filter(|n| *n <= 1 << 20) else {
            return self.err(size.span, format!("size {n} of a value_set is not between 0 and 2^20"));
        };
        let (name, span) = (self.full_name(&decl.name.text, &decl.annos), decl.name.span);
        let widths = layout.iter().map(|(_, w)| *w).collect();
        self.p.value_sets.push(ir::ValueSetDecl { name, size, widths });
        self.notes.value_sets.push(info::ExternNote::new(span, &decl.annos, Some(ty)));
        let id = self.p.value_sets.len() - 1;
        self.declare(&decl.name, Tv { ty: Ty::Object("a value set"), k: K::ValueSet(id) })
    }

    pub fn table(&mut self, decl: &Decl, t: &TableDecl) -> Res<()> {
        if self.place != Where::Control {
            return self.err(decl.name.span, "a table can only be declared in a control");
        }
        let name = self.full_name(&decl.name.text, &decl.annos);
        if !t.has_actions {
            let help = "add `actions = { ... }`";
            return self.err_help(decl.name.span, format!("table `{}` has no actions", decl.name.text), help);
        }
        let mut table = Table {
            name,
            keys: Vec::new(),
            before: Vec::new(),
            actions: Vec::new(),
            default: ActionCall { action: 0, args: Vec::new() },
            const_default: false,
            entries: Vec::new(),
            const_entries: t.entries.as_ref().is_some_and(|(c, _)| *c),
            largest_priority_wins: true,
            size: 1024,
            profile: None,
            counter: None,
            meter: None,
            hit: self.alloc(1),
            action_run: self.alloc(1),
        };
        let mut key_types = Vec::new();
        let mut note = info::TableNote::new(decl.name.span, &decl.annos);
        let mut all = Vec::new();
        for k in &t.keys {
            let kind = match k.kind.text.as_str() {
                "exact" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                "selector" => MatchKind::Selector,
                other => {
                    let known = self.match_kinds.iter().any(|m| m == other);
                    let help = "v1model has exact, lpm, ternary, range, optional and selector";
                    let m = if known {
                        format!("unsupported: match kind `{other}`")
                    } else {
                        format!("match kind `{other}` is not declared")
                    };
                    return self.err_help(k.kind.span, m, help);
                }
            };
            if kind == MatchKind::Lpm && table.keys.iter().any(|k: &Key| k.kind == MatchKind::Lpm) {
                return self.unsupported(k.kind.span, "a table with two lpm keys");
            }
            let (code, v) = self.collect(|cx| cx.expr(&k.expr, None))?;
            let (Some(width), false) = (v.ty.scalar_width(), v.ty == Ty::Int) else {
                let what = describe(&v);
                let help = "a key is bit<W>, int<W>, bool, enum or error; list the fields one by one";
                return self.err_help(k.expr.span, format!("a table key cannot be {what}"), help);
            };
            // Each key has a slot: a later key's evaluation must not change it.
            let (slot_code, slot) = self.collect(|cx| {
                let e = cx.scalar(&v, k.expr.span)?;
                // BMv2 matches fields of invalid headers as zero.
                let e = match &v.k {
                    K::Place(Place { valid_of: Some(a), .. }) => super::ext::if_valid(a, e),
                    _ => e,
                };
                let slot = cx.alloc(1);
                cx.emit(St::Set(slot, e));
                Ok(slot)
            })?;
            all.extend(code);
            all.extend(slot_code);
            let name = match anno_string(&k.annos, "name") {
                Some(n) => n,
                None => self.key_name(&k.expr)?,
            };
            note.keys.push((v.ty.clone(), k.annos.clone(), k.expr.span));
            table.keys.push(Key { name, kind, width, signed: v.ty.is_signed(), ex: Ex::Load(slot) });
            key_types.push(v.ty);
        }
        table.before = all;
        for r in &t.actions {
            let (a, inst) = self.table_action(r)?;
            if table.actions.iter().any(|b| b.body == a.body) {
                return self.err(r.path.span, format!("action `{}` is listed twice", r.path.text));
            }
            table.actions.push(a);
            note.actions.push((inst, r.annos.clone()));
        }
        let index = |cx: &mut Self, table: &Table, r: &ActionRef, role: &str| -> Res<usize> {
            let found = cx.lookup(&r.path.text).cloned();
            let body = match found.map(|v| v.k) {
                Some(K::Action(i)) => Some(cx.actions[i].callee.body),
                Some(_) => return cx.err(r.path.span, format!("`{}` is not an action", r.path.text)),
                None => return cx.unknown(&r.path.text, r.path.span, "action"),
            };
            match table.actions.iter().position(|a| Some(a.body) == body) {
                Some(i) => Ok(i),
                None => {
                    let m = format!("{role} `{}` is not in the table's list of actions", r.path.text);
                    cx.err_help(r.path.span, m, format!("add `{};` to `actions`", r.path.text))
                }
            }
        };
        match &t.default {
            Some((is_const, r)) => {
                table.const_default = *is_const;
                let i = index(self, &table, r, "default action")?;
                if table.actions[i].table_only {
                    return self.err(r.path.span, "an action marked @tableonly cannot be the default action");
                }
                table.default = self.action_call(&table.actions[i], i, r)?;
            }
            None => {
                let Some(Tv { k: K::Action(no), .. }) = self.scopes[0].get("NoAction").cloned() else {
                    let help = "add `default_action = name();`, or include core.p4 for NoAction";
                    return self.err_help(decl.name.span, "the table has no default action", help);
                };
                let body = self.actions[no].callee.body;
                let at = table.actions.iter().position(|a| a.body == body).unwrap_or_else(|| {
                    note.actions.push((no, vec![info::bare("defaultonly", decl.name.span)]));
                    table.actions.push(TableAction {
                        name: "NoAction".into(),
                        params: Vec::new(),
                        before: Vec::new(),
                        body,
                        after: Vec::new(),
                        default_only: true,
                        table_only: false,
                    });
                    table.actions.len() - 1
                });
                table.default = ActionCall { action: at, args: Vec::new() };
            }
        }
        let mut delta = 1i64;
        for property in &t.properties {
            let (n, e) = (&property.name, &property.value);
            match n.text.as_str() {
                "size" => {
                    let v = self.const_int(e, "the size of a table")?;
                    match v.to_u64() {
                        Some(v) => table.size = v,
                        None => return self.err(e.span, format!("size {v} of a table is negative or too large")),
                    }
                }
                "implementation" | "counters" | "meters" => {
                    let v = match &e.kind {
                        ExprKind::Call(f, targs, args) => {
                            let (ExprKind::Name(ext) | ExprKind::Global(ext)) = &f.kind else {
                                return self.err(e.span, "an extern is needed here");
                            };
                            let Some(Tv { k: K::Type(TypeDef::Extern(x)), .. }) = self.lookup(ext).cloned() else {
                                return self.unknown(ext, f.span, "extern");
                            };
                            let targs = targs.iter().map(|t| self.ty(t)).collect::<Res<Vec<_>>>()?;
                            // The name stands alone, without the control's, as in p4c.
                            let named = anno_string(&property.annos, "name");
                            let full = named.unwrap_or_else(|| format!("{}.{}", table.name, n.text));
                            self.extern_instance(&x, targs, args, full, &property.annos, e.span)?
                        }
                        _ => self.expr(e, None)?,
                    };
                    match (&v.k, n.text.as_str()) {
                        (K::Ext(ExtObj::Profile(i)), "implementation") => table.profile = Some(*i),
                        (K::Ext(ExtObj::DirectCounter(i)), "counters") => table.counter = Some(*i),
                        (K::Ext(ExtObj::DirectMeter(i)), "meters") => table.meter = Some(*i),
                        _ => {
                            let need = match n.text.as_str() {
                                "implementation" => "an action_profile or action_selector",
                                "counters" => "a direct_counter",
                                _ => "a direct_meter",
                            };
                            let what = describe(&v);
                            return self.err(e.span, format!("`{}` needs {need}, not {what}", n.text));
                        }
                    }
                }
                "largest_priority_wins" => match self.expr(e, Some(&Ty::Bool))?.k {
                    K::Bool(b) => table.largest_priority_wins = b,
                    _ => return self.err(e.span, "largest_priority_wins needs a constant bool"),
                },
                "priority_delta" => match self.const_int(e, "priority_delta")?.to_i64().filter(|d| *d > 0) {
                    Some(d) => delta = d,
                    None => return self.err(e.span, "priority_delta must be positive"),
                },
                // About the controller only; entries age where it asks for that.
                "support_timeout" => match self.expr(e, Some(&Ty::Bool))?.k {
                    K::Bool(b) => note.idle_timeout = b,
                    _ => return self.err(e.span, "support_timeout needs a constant bool"),
                },
                other => self.d.warn(n.span, format!("table property `{other}` is unknown and ignored")),
            }
        }
        let has_selector = table.keys.iter().any(|k| k.kind == MatchKind::Selector);
        let is_selector = table.profile.is_some_and(|p| self.p.profiles[p].selector.is_some());
        if has_selector && !is_selector {
            self.d.warn(decl.name.span, "selector keys do nothing without `implementation = action_selector(...)`");
        }
        if let Some((_, entries)) = &t.entries {
            let n = entries.len() as i64;
            if let Some(e) = entries.first().filter(|e| e.priority.is_none())
                && entries.iter().any(|e| e.priority.is_some())
            {
                let help = "write `priority = N:` before it";
                return self.err_help(e.span, "when entries have priorities, the first needs one", help);
            }
            let mut priority = if table.largest_priority_wins { (n - 1) * delta + 1 + delta } else { 1 - delta };
            for e in entries {
                priority += if table.largest_priority_wins { -delta } else { delta };
                if let Some(p) = &e.priority {
                    let v = self.const_int(p, "a priority")?;
                    match v.to_i64().filter(|v| (0..=i32::MAX as i64).contains(v)) {
                        Some(v) => priority = v,
                        None => return self.err(p.span, format!("priority {v} is not between 0 and {}", i32::MAX)),
                    }
                }
                let mut rank = if table.largest_priority_wins { priority } else { -priority };
                if let [p, ..] = anno_ints(&e.annos, "priority").as_slice() {
                    // As in p4c for BMv2: the smallest @priority wins, before entries without.
                    rank = i64::from(u32::MAX) - (*p).min(u32::MAX as u64) as i64;
                }
                let action = index(self, &table, &e.action, "action")?;
                if table.actions[action].default_only {
                    return self.err(e.span, "an action marked @defaultonly cannot be in an entry");
                }
                if priority > i32::MAX as i64 || priority < 0 {
                    return self.err(e.span, format!("priority {priority} is not between 0 and {}", i32::MAX));
                }
                let ordered = table
                    .keys
                    .iter()
                    .any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
                if let (Some(p), false) = (&e.priority, ordered) {
                    return self
                        .err(p.span, "entries of a table without ternary, range or optional keys have no priority");
                }
                let action = self.action_call(&table.actions[action], action, &e.action)?;
                let keys = self.entry_keys(e, &table, &key_types)?;
                let is_const = e.is_const || table.const_entries;
                table.entries.push(ConstEntry { keys, priority: rank, action, is_const });
            }
        }
        if let Some((_, at)) = self.table_names.iter().find(|(n, _)| *n == table.name) {
            let at = *at;
            let m = format!("two tables are named `{}` for controllers", table.name);
            let help = format!("the other is on line {}; rename one with @name", at.line);
            return self.err_help(decl.name.span, m, help);
        }
        self.table_names.push((table.name.clone(), decl.name.span));
        self.p.tables.push(table);
        self.notes.tables.push(note);
        let id = self.p.tables.len() - 1;
        self.declare(&decl.name, Tv { ty: Ty::Object("a table"), k: K::Table(id) })
    }

    /// A key as P4Info names it: fields by their @name if they have one.
    fn key_name(&mut self, e: &Expr) -> Res<String> {
        Ok(match &e.kind {
            ExprKind::Name(n) => n.clone(),
            ExprKind::Global(n) => format!(".{n}"),
            ExprKind::Member(b, n) => {
                let (_, v) = self.collect(|cx| cx.expr(b, None))?;
                let field = match v.ty.base() {
                    Ty::Struct(s) => s.fields.iter().find(|f| f.name == n.text),
                    _ => None,
                };
                let own = field.and_then(|f| anno_string(&f.annos, "name")).unwrap_or_else(|| n.text.clone());
                match own.strip_prefix('.') {
                    Some(absolute) => absolute.to_string(),
                    None => format!("{}.{own}", self.key_name(b)?),
                }
            }
            ExprKind::Index(b, i) => format!("{}[{}]", self.key_name(b)?, self.key_name(i)?),
            ExprKind::Slice(b, h, l) => {
                format!("{}[{}:{}]", self.key_name(b)?, self.key_name(h)?, self.key_name(l)?)
            }
            ExprKind::Call(f, _, args) if args.is_empty() => format!("{}()", self.key_name(f)?),
            ExprKind::Int(v, _) => {
                // In the base it is written in, as p4c names it.
                let line = self.d.line(e.span).to_ascii_lowercase();
                let written: String = line.chars().skip((e.span.col as usize).saturating_sub(1)).collect();
                let after_width = written.trim_start_matches(|c: char| c.is_ascii_digit());
                let digits = after_width.strip_prefix(['w', 's']).unwrap_or(&written);
                match digits.get(..2) {
                    Some("0x") => format!("0x{v:x}"),
                    Some("0b") => format!("0b{v:b}"),
                    Some("0o") => format!("0o{v:o}"),
                    _ => v.to_string(),
                }
            }
            ExprKind::Binary(BinOp::And, a, b) => format!("{} & {}", self.key_name(a)?, self.key_name(b)?),
            _ => {
                let help = "write `expression : kind @name(\"name\");`";
                return self.err_help(e.span, "a key that is not a plain field needs a name for controllers", help);
            }
        })
    }

    /// The action as the table uses it, and which action it is.
    fn table_action(&mut self, r: &ActionRef) -> Res<(TableAction, usize)> {
        let Some(found) = self.lookup(&r.path.text).cloned() else {
            return self.unknown(&r.path.text, r.path.span, "action");
        };
        let K::Action(i) = found.k else {
            return self.err(r.path.span, format!("`{}` is not an action but {}", r.path.text, describe(&found)));
        };
        let inst = self.actions[i].clone();
        let (directed, free): (Vec<BoundParam>, Vec<BoundParam>) =
            inst.callee.params.iter().cloned().partition(|p| p.dir != Dir::None);
        if r.args.len() != directed.len() {
            let m = format!("action `{}` needs {} arguments here, not {}", inst.name, directed.len(), r.args.len());
            return self.err_help(r.path.span, m, "give those with a direction; the others come from the controller");
        }
        let callee = Callee { params: directed, ..inst.callee.clone() };
        let (code, _) = self.collect(|cx| cx.invoke(&callee, &inst.name, &r.args, None, r.path.span))?;
        if applies_table(&code) {
            let help = "apply the table before, and keep what it gives in a variable";
            return self.err_help(r.path.span, "unsupported: a table applied in an action's argument", help);
        }
        // The last statement is the call; what stands before it evaluates the arguments.
        let mut before = code;
        let after = match before.pop() {
            Some(St::Call(pre, _, post)) => {
                before.extend(pre);
                post
            }
            _ => Vec::new(),
        };
        let params = free.iter().map(|p| ActionParam {
            name: p.name.clone(),
            slot: p.slot,
            width: p.ty.scalar_width().unwrap_or(0),
        });
        let flag = |n: &str| r.annos.iter().any(|a| a.name.text == n);
        let action = TableAction {
            name: inst.full_name,
            params: params.collect(),
            before,
            body: inst.callee.body,
            after,
            default_only: flag("defaultonly"),
            table_only: flag("tableonly"),
        };
        Ok((action, i))
    }

    /// Constant arguments of an entry's or default action.
    fn action_call(&mut self, a: &TableAction, index: usize, r: &ActionRef) -> Res<ActionCall> {
        let n = a.params.len();
        let found = self.lookup(&r.path.text).cloned();
        let Some(Tv { k: K::Action(i), .. }) = found else {
            return self.err(r.path.span, format!("`{}` is not an action", r.path.text));
        };
        let params = self.actions[i].callee.params.clone();
        let directed = params.len() - n;
        if r.args.len() != n && r.args.len() != params.len() {
            let m = format!("action `{}` takes {n} arguments, not {}", r.path.text, r.args.len());
            return self.err(r.path.span, m);
        }
        let skip = if r.args.len() == params.len() { directed } else { 0 };
        let vals = self.arguments(&params[directed..], &r.path.text, &r.args[skip..], r.path.span)?;
        let mut args = Vec::new();
        for (v, p) in vals.iter().zip(&params[directed..]) {
            let (v, s) = self.value_arg(v, r.path.span)?;
            match self.scalar(&v, s)? {
                Ex::Const(c) => args.push(c),
                _ => return self.err(s, format!("argument `{}` must be constant", p.name)),
            }
        }
        Ok(ActionCall { action: index, args })
    }

    fn entry_keys(&mut self, e: &Entry, table: &Table, types: &[Ty]) -> Res<Vec<KeyMatch>> {
        let all = [e.keys.as_slice(), &[]];
        let keys = match all[0] {
            [only] if matches!(only.kind, ExprKind::DontCare) && types.len() > 1 => {
                vec![only.clone(); types.len()]
            }
            [Expr { kind: ExprKind::List(items, false), .. }] => items.clone(),
            k => k.to_vec(),
        };
        if keys.len() != types.len() {
            let m = format!("the table has {} keys, this entry {}", types.len(), keys.len());
            return self.err(e.span, m);
        }
        let mut out = Vec::new();
        for ((k, ty), decl) in keys.iter().zip(types).zip(&table.keys) {
            let set = self.keyset(k, ty)?;
            let value = |cx: &mut Self, v: &Tv| -> Res<Val> {
                match cx.scalar(v, k.span)? {
                    Ex::Const(c) => Ok(c),
                    _ => cx.err(k.span, "a key of a table entry must be constant"),
                }
            };
            let w = decl.width;
            let kind = decl.kind;
            let wrong = |cx: &mut Self, what: &str| -> Res<KeyMatch> {
                cx.err(k.span, format!("{what} cannot match a key of kind {kind:?}").to_lowercase())
            };
            out.push(match (kind, set) {
                (MatchKind::Exact | MatchKind::Selector, KeySet::Value(v)) => KeyMatch::Exact(value(self, &v)?),
                (MatchKind::Lpm, KeySet::Value(v)) => KeyMatch::Lpm(value(self, &v)?, w),
                (MatchKind::Lpm, KeySet::Any) => KeyMatch::Lpm(Val::S(0), 0),
                (MatchKind::Lpm, KeySet::Mask(v, m)) => {
                    let (v, m) = (value(self, &v)?, value(self, &m)?);
                    let prefix = (0..=w).find(|n| Val::all_ones(*n).shl((w - n) as usize, w) == m);
                    match prefix {
                        Some(n) => KeyMatch::Lpm(v.and(m), n),
                        None => return self.err(k.span, "the mask of an lpm key must be a prefix"),
                    }
                }
                (MatchKind::Ternary, KeySet::Value(v)) => KeyMatch::Ternary(value(self, &v)?, Val::all_ones(w)),
                (MatchKind::Ternary, KeySet::Any) => KeyMatch::Ternary(Val::S(0), Val::S(0)),
                (MatchKind::Ternary, KeySet::Mask(v, m)) => {
                    let (v, m) = (value(self, &v)?, value(self, &m)?);
                    KeyMatch::Ternary(v.and(m.clone()), m)
                }
                (MatchKind::Range, KeySet::Value(v)) => {
                    let v = value(self, &v)?;
                    KeyMatch::Range(v.clone(), v)
                }
                (MatchKind::Range, KeySet::Any) => KeyMatch::Range(Val::S(0), Val::all_ones(w)),
                (MatchKind::Range, KeySet::Range(a, b)) => {
                    let (a, b) = (value(self, &a)?, value(self, &b)?);
                    let signed = decl.signed;
                    if a.to_int(w, signed) > b.to_int(w, signed) {
                        return self.err_help(k.span, "this range is empty", "write the smaller bound first");
                    }
                    KeyMatch::Range(a, b)
                }
                (MatchKind::Optional, KeySet::Value(v)) => KeyMatch::Optional(Some(value(self, &v)?)),
                (MatchKind::Optional, KeySet::Any) => KeyMatch::Optional(None),
                (_, KeySet::Any) => wrong(self, "`_`")?,
                (_, KeySet::Mask(..)) => wrong(self, "a mask")?,
                (_, KeySet::Range(..)) => wrong(self, "a range")?,
            });
        }
        Ok(out)
    }

    pub fn build_main(&mut self, ty: &Ty, args: Vec<Tv>, span: Span) -> Res<()> {
        let Ty::Package(p) = ty else {
            return self.err(span, "`main` is not a package");
        };
        if p.name != "V1Switch" {
            let help = "the embedded switch runs the v1model architecture: `V1Switch(...) main;`";
            return self.err_help(span, format!("unsupported: architecture `{}`", p.name), help);
        }
        let mut blocks = Vec::new();
        for (v, q) in args.into_iter().zip(&p.params) {
            match (v.ty, v.k) {
                (Ty::Block(b), K::Agg(items, _)) => {
                    blocks.push((b, items.into_iter().map(|(_, v)| v).collect::<Vec<_>>()))
                }
                (t, _) => return self.err(span, format!("argument `{}` of V1Switch cannot be {t}", q.name.text)),
            }
        }
        let roles = [Phase::Parser, Phase::Verify, Phase::Ingress, Phase::Egress, Phase::Compute, Phase::Deparser];
        if blocks.len() != roles.len() {
            return self.err(span, format!("V1Switch takes 6 arguments, not {}", blocks.len()));
        }
        // packet, headers, metadata, standard metadata: which of them each block takes, and how.
        let shape: [&[(usize, Dir)]; 6] = [
            &[(0, Dir::None), (1, Dir::Out), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut)],
            &[(0, Dir::None), (1, Dir::In)],
        ];
        let Some(std_tv) = self.scopes[0].get("standard_metadata_t").cloned() else {
            return self.err(span, "standard_metadata_t is not declared; include v1model.p4");
        };
        let K::Type(TypeDef::Ty(std_ty)) = std_tv.k else {
            return self.err(span, "standard_metadata_t is not a struct");
        };
        let mut types: [Option<Ty>; 4] = [None, None, None, Some(std_ty.clone())];
        for (i, (b, _)) in blocks.iter().enumerate() {
            if b.is_parser != (i == 0) {
                let want = if i == 0 { "a parser" } else { "a control" };
                return self.err(b.name.span, format!("`{}` is used where {want} is needed", b.name.text));
            }
            if b.params.len() != shape[i].len() {
                let m = format!(
                    "`{}` needs {} parameters as {:?}, it has {}",
                    b.name.text,
                    shape[i].len(),
                    roles[i],
                    b.params.len()
                );
                return self.err(b.name.span, m);
            }
            for (q, (what, dir)) in b.params.iter().zip(shape[i]) {
                if q.dir != *dir {
                    let m = format!("parameter `{}` of `{}` has the wrong direction", q.name.text, b.name.text);
                    let word = match dir {
                        Dir::None => "no direction",
                        Dir::In => "`in`",
                        Dir::Out => "`out`",
                        Dir::InOut => "`inout`",
                    };
                    return self.err_help(q.name.span, m, format!("v1model wants {word} here"));
                }
                let ty = self.ty(&q.ty)?;
                if *what == 0 {
                    let want = if i == 0 { "packet_in" } else { "packet_out" };
                    if !matches!(&ty, Ty::Extern(e, _) if e.name == want) {
                        return self.err(q.ty.span, format!("this parameter must be {want}, not {ty}"));
                    }
                    continue;
                }
                match &types[*what] {
                    None => types[*what] = Some(ty),
                    Some(t) if *t == ty => {}
                    Some(t) => {
                        let m = format!(
                            "parameter `{}` of `{}` has type {ty}, other blocks have {t}",
                            q.name.text, b.name.text
                        );
                        return self.err(q.ty.span, m);
                    }
                }
            }
        }
        let [_, Some(h), Some(m), Some(s)] = &types else {
            return self.err(span, "V1Switch lacks a parameter");
        };
        if !matches!(h, Ty::Struct(s) if s.kind == StructKind::Struct) {
            return self.err(blocks[0].0.params[1].ty.span, format!("the headers must be a struct, not {h}"));
        }
        let hs = self.alloc_ty(h, span)?;
        let ms = self.alloc_ty(m, span)?;
        let ss = self.alloc_ty(s, span)?;
        self.p.headers = (hs, h.slots());
        self.p.meta = (ms, m.slots());
        self.p.std = (ss, s.slots());
        let mut lists: Vec<(u64, Vec<Slot>)> = Vec::new();
        field_lists(m, ms, &[], &mut lists);
        self.p.field_lists = lists;
        let places = [None, Some(hs), Some(ms), Some(ss)];
        for (i, (b, args)) in blocks.into_iter().enumerate() {
            self.phase = roles[i];
            let bind: Vec<Option<Slot>> = shape[i].iter().map(|(what, _)| places[*what]).collect();
            let inst = self.instantiate(&b, args, &b.name.text, span, Some(&bind))?;
            let body = self.insts[inst].body;
            match roles[i] {
                Phase::Parser => self.p.parser = body,
                Phase::Verify => self.p.verify = body,
                Phase::Ingress => self.p.ingress = body,
                Phase::Egress => self.p.egress = body,
                Phase::Compute => self.p.compute = body,
                _ => self.p.deparser = body,
            }
        }
        let Ty::Struct(st) = &std_ty else {
            return self.err(span, "standard_metadata_t is not a struct");
        };
        let at = |n: &str| st.fields.iter().find(|f| f.name == n).map_or(0, |f| ss + f.offset);
        self.p.std_fields = ir::StdMeta {
            ingress_port: at("ingress_port"),
            egress_spec: at("egress_spec"),
            egress_port: at("egress_port"),
            instance_type: at("instance_type"),
            packet_length: at("packet_length"),
            enq_timestamp: at("enq_timestamp"),
            enq_qdepth: at("enq_qdepth"),
            deq_timedelta: at("deq_timedelta"),
            deq_qdepth: at("deq_qdepth"),
            ingress_global_timestamp: at("ingress_global_timestamp"),
            egress_global_timestamp: at("egress_global_timestamp"),
            mcast_grp: at("mcast_grp"),
            egress_rid: at("egress_rid"),
            checksum_error: at("checksum_error"),
            parser_error: at("parser_error"),
            priority: at("priority"),
        };
        Ok(())
    }
}

fn applies_table(code: &[St]) -> bool {
    code.iter().any(|s| match s {
        St::Apply(_) => true,
        St::If(_, a, b) => applies_table(a) || applies_table(b),
        St::Group(b) => applies_table(b),
        St::Call(a, _, b) => applies_table(a) || applies_table(b),
        _ => false,
    })
}

/// Whether some way through the parser ends. A `select` that nothing matches rejects.
fn ends(parser: &ir::Parser) -> bool {
    let (mut seen, mut open) = (vec![false; parser.states.len()], vec![parser.start]);
    while let Some(i) = open.pop() {
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        match &parser.states[i].2 {
            Next::State(n) => open.push(*n),
            Next::Accept | Next::Reject => return true,
            Next::Select(_, cases) => {
                let all = cases.last().is_some_and(|(p, _)| p.iter().all(|p| matches!(p, Pat::Any)));
                if !all {
                    return true;
                }
                for (_, to) in cases {
                    match to {
                        Target::State(n) => open.push(*n),
                        Target::Accept | Target::Reject => return true,
                    }
                }
            }
        }
    }
    false
}

fn field_lists(t: &Ty, at: Slot, inherited: &[u64], out: &mut Vec<(u64, Vec<Slot>)>) {
    match t {
        Ty::Struct(s) if s.kind == StructKind::Struct => {
            for f in &s.fields {
                let mut ids = inherited.to_vec();
                ids.extend(anno_ints(&f.annos, "field_list"));
                field_lists(&f.ty, at + f.offset, &ids, out);
            }
        }
        _ => {
            for id in inherited {
                let slots = at..at + t.slots();
                match out.iter_mut().find(|(i, _)| i == id) {
                    Some((_, list)) => list.extend(slots),
                    None => out.push((*id, slots.collect())),
                }
            }
        }
    }
}
