// SPDX-License-Identifier: Apache-2.0
//! Instances of parsers, controls, externs and packages.
use crate::check::prelude::*;

impl Context<'_> {
    /// `Type(args) name;`
    pub fn instance(&mut self, decl: &Decl, t: &Type, args: &[Arg]) -> Checked<()> {
        let TypeKind::Named(name, targs) = &t.kind else {
            return self.err(t.span, "only externs, parsers, controls and packages can be instantiated");
        };
        let Some(found) = self.lookup(name).cloned() else {
            return self.unknown(name, t.span, "type");
        };
        let span = decl.name.span;
        match found.kind {
            ValueKind::Type(TypeDef::Extern(e)) => {
                if matches!(self.place, Where::Action | Where::Function) {
                    return self.err(span, "an extern cannot be instantiated in an action or function");
                }
                let targs = targs.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
                let full = self.full_name(&decl.name.text, &decl.annos);
                let v = self.extern_instance(&e, targs, args, full, &decl.annos, span)?;
                self.declare(&decl.name, v)
            }
            ValueKind::Type(TypeDef::Ty(Ty::Extern(e, targs))) => {
                let full = self.full_name(&decl.name.text, &decl.annos);
                let v = self.extern_instance(&e, targs.to_vec(), args, full, &decl.annos, span)?;
                self.declare(&decl.name, v)
            }
            ValueKind::Type(TypeDef::Ty(Ty::Block(b))) => {
                if b.apply.is_none() {
                    return self.err(t.span, format!("`{name}` is only declared, it has no body"));
                }
                let vals = self.ctor_args(&b, args, span)?;
                if self.scopes.len() == 1 {
                    let items = vals.into_iter().map(|v| (None, v)).collect();
                    return self.declare(
                        &decl.name,
                        TypedValue { ty: Ty::Block(b), kind: ValueKind::Aggregate(items, false) },
                    );
                }
                if matches!(self.place, Where::Action | Where::Function) {
                    return self.err(span, "a parser or control cannot be instantiated here");
                }
                let prefix = self.full_name(&decl.name.text, &decl.annos);
                let i = self.instantiate(&b, vals, &prefix, span, None)?;
                self.declare(&decl.name, TypedValue { ty: Ty::Object("an instance"), kind: ValueKind::Instance(i) })
            }
            ValueKind::Type(TypeDef::Ty(ty @ Ty::Package(_))) => {
                let Ty::Package(p) = &ty else { return Ok(()) };
                if decl.name.text == "main" && p.name != "V1Switch" {
                    return self.other_architecture(&p.name, span);
                }
                let mut vals: Vec<Option<TypedValue>> = vec![None; p.params.len()];
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
                self.declare(&decl.name, TypedValue { ty: ty.clone(), kind: ValueKind::Nothing })
            }
            _ => {
                let what = describe(&found);
                self.err(t.span, format!("`{name}` cannot be instantiated: it is {what}"))
            }
        }
    }

    fn package_arg(&mut self, e: &Expr) -> Checked<TypedValue> {
        if let ExprKind::Call(f, _, args) = &e.kind
            && let ExprKind::Name(n) | ExprKind::Global(n) = &f.kind
        {
            let Some(found) = self.lookup(n).cloned() else {
                return self.unknown(n, f.span, "type");
            };
            if let ValueKind::Type(TypeDef::Ty(Ty::Block(b))) = found.kind {
                if b.apply.is_none() {
                    return self.err(f.span, format!("`{n}` is only declared, it has no body"));
                }
                let vals = self.ctor_args(&b, args, e.span)?;
                let items = vals.into_iter().map(|v| (None, v)).collect();
                return Ok(TypedValue { ty: Ty::Block(b), kind: ValueKind::Aggregate(items, false) });
            }
            if !matches!(found.kind, ValueKind::Functions(_)) {
                return self.unsupported(e.span, "this kind of package argument");
            }
        }
        self.expr(e, None)
    }

    fn ctor_args(&mut self, b: &BlockDecl, args: &[Arg], span: Span) -> Checked<Vec<TypedValue>> {
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
            let ArgumentValue::In(v, s) = v else {
                return self.err(span, "a constructor argument is missing");
            };
            if !is_const(v) && !matches!(v.kind, ValueKind::Extern(_) | ValueKind::Instance(_)) {
                return self.err(*s, format!("constructor argument `{}` must be constant", p.name));
            }
            out.push(v.clone());
        }
        Ok(out)
    }

    /// A parser or control passed to a constructor: an instance, or one made on the spot.
    pub fn block_arg(&mut self, want: &Rc<BlockDecl>, e: &Expr) -> Checked<TypedValue> {
        let v = match &e.kind {
            ExprKind::Call(f, _, args) if matches!(f.kind, ExprKind::Name(_) | ExprKind::Global(_)) => {
                let callee = self.expr(f, None)?;
                let ValueKind::Type(TypeDef::Ty(Ty::Block(b))) = callee.kind else {
                    return self.err(e.span, format!("an instance of {} is needed here", Ty::Block(want.clone())));
                };
                let vals = self.ctor_args(&b, args, e.span)?;
                let prefix = self.block_prefix(&b.name.text);
                let i = self.instantiate(&b, vals, &prefix, e.span, None)?;
                TypedValue { ty: Ty::Object("an instance"), kind: ValueKind::Instance(i) }
            }
            _ => self.expr(e, None)?,
        };
        let ValueKind::Instance(i) = v.kind else {
            let what = describe(&v);
            return self.err(e.span, format!("an instance of {} is needed here, not {what}", Ty::Block(want.clone())));
        };
        let have = self.instances[i].clone();
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
        args: Vec<TypedValue>,
        prefix: &str,
        span: Span,
        bind: Option<&[Option<Slot>]>,
    ) -> Checked<usize> {
        let at = b.name.span;
        let key = format!("{}@{}:{}:{}", b.name.text, at.file, at.line, at.col);
        if self.busy.contains(&key) || self.busy.len() > 40 {
            return self.err_help(span, format!("`{}` contains itself", b.name.text), "P4 has no recursion");
        }
        if self.instances.len() > 10_000 {
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
            std::mem::take(&mut self.code),
        );
        self.place = if b.is_parser { Where::Parser } else { Where::Control };
        self.loops = 0;
        self.scopes.push(HashMap::new());
        let r = self.block_body(b, args, bind);
        self.scopes.truncate(1);
        self.scopes.extend(inner);
        (self.prefix, self.place, self.ret, self.loops, self.states, self.code) = saved;
        self.busy.pop();
        let callee = r?;
        self.instances.push(callee);
        Ok(self.instances.len() - 1)
    }

    fn block_body(
        &mut self,
        b: &Rc<BlockDecl>,
        args: Vec<TypedValue>,
        bind: Option<&[Option<Slot>]>,
    ) -> Checked<Callee> {
        for (p, v) in b.ctor_params.iter().zip(args) {
            self.declare(&p.name, v)?;
        }
        let mut params = self.bind_params(&b.params)?;
        if let Some(places) = bind {
            for (p, slot) in params.iter_mut().zip(places) {
                let Some(slot) = slot else { continue };
                p.slot = *slot;
                let scope = self.scopes.last_mut().and_then(|s| s.get_mut(&p.name));
                if let Some(TypedValue { kind: ValueKind::Place(place), .. }) = scope {
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
            let code = std::mem::take(&mut self.code);
            self.program.procs.push(code);
            self.program.procs.len() - 1
        };
        if failed {
            return Err(Reported);
        }
        Ok(Callee { params, body, ret: None, is_parser: b.is_parser })
    }
}
