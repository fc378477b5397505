// SPDX-License-Identifier: Apache-2.0
//! Calls: matching arguments with parameters, copy in and copy out, methods built into types.
use crate::check::prelude::*;

impl Context<'_> {
    pub fn call(
        &mut self,
        f: &Expr,
        targs: &[Type],
        args: &[Arg],
        want: Option<&Ty>,
        span: Span,
    ) -> Checked<TypedValue> {
        let callee = match &f.kind {
            ExprKind::Member(..) | ExprKind::Name(_) | ExprKind::Global(_) | ExprKind::Type(_) => self.expr(f, None)?,
            _ => return self.err(f.span, "this cannot be called"),
        };
        match callee.kind {
            ValueKind::Functions(list) => {
                let f = self.overload(&list, args, span)?;
                if f.body.is_none() {
                    return self.extern_function(&f, targs, args, want, span);
                }
                if self.place == Where::Top {
                    return self.err(span, "a function cannot be called at the top level");
                }
                let types = targs.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
                let (callee, ready) = if f.type_params.is_empty() {
                    (self.function(&f, &[], span)?, None)
                } else {
                    self.generic_function(&f, types, args, span)?
                };
                self.invoke(&callee, &f.name.text, args, ready, span)
            }
            ValueKind::Action(i) => {
                if matches!(self.place, Where::Parser | Where::Function | Where::Top) {
                    return self.err(span, "an action can only be called in a control or another action");
                }
                let a = self.actions[i].clone();
                self.invoke(&a.callee, &a.name, args, None, span)
            }
            ValueKind::Method(object, name) => self.method(*object, &name, targs, args, want, span),
            ValueKind::Type(TypeDef::Extern(_) | TypeDef::Ty(Ty::Block(_)) | TypeDef::Ty(Ty::Package(_))) => self
                .err_help(span, "an instance cannot be made in an expression", "declare it first: `Type(...) name;`"),
            _ => {
                let what = describe(&callee);
                self.err(f.span, format!("{what} cannot be called"))
            }
        }
    }

    /// Chooses among functions of one name by the number and names of arguments.
    pub fn overload(&mut self, list: &[Rc<FuncDecl>], args: &[Arg], span: Span) -> Checked<Rc<FuncDecl>> {
        let fits = |f: &FuncDecl| {
            let least = f.params.iter().filter(|p| p.default.is_none() && !p.optional()).count();
            let named = args.iter().filter_map(|a| a.name.as_ref());
            let mut known = named.map(|n| f.params.iter().any(|p| p.name.text == n.text));
            (least..=f.params.len()).contains(&args.len()) && known.all(|k| k)
        };
        match list.iter().find(|f| fits(f)) {
            Some(f) => Ok(f.clone()),
            None => {
                let name = &list[0].name.text;
                let counts: Vec<String> = list.iter().map(|f| f.params.len().to_string()).collect();
                let unknown = args.iter().filter_map(|a| a.name.as_ref());
                let unknown =
                    unknown.clone().find(|n| !list.iter().any(|f| f.params.iter().any(|p| p.name.text == n.text)));
                if let Some(n) = unknown {
                    return self.err(n.span, format!("`{name}` has no parameter `{}`", n.text));
                }
                let m = format!("`{name}` takes {} arguments, not {}", counts.join(" or "), args.len());
                match name.as_str() {
                    "mark_to_drop" => self.err_help(span, m, "write `mark_to_drop(standard_metadata)`"),
                    _ => self.err(span, m),
                }
            }
        }
    }

    /// Arguments in the order of the parameters. The types may hold type parameters, which take the arguments' types.
    pub fn arguments(
        &mut self,
        params: &[BoundParam],
        name: &str,
        args: &[Arg],
        span: Span,
    ) -> Checked<Vec<ArgumentValue>> {
        let mut out: Vec<ArgumentValue> = vec![ArgumentValue::Missing; params.len()];
        let mut given = vec![false; params.len()];
        for (i, a) in args.iter().enumerate() {
            let at = match &a.name {
                Some(n) => params.iter().position(|p| p.name == n.text),
                None => (i < params.len()).then_some(i),
            };
            let Some(at) = at else {
                let m = match &a.name {
                    Some(n) => format!("`{name}` has no parameter `{}`", n.text),
                    None => format!("`{name}` takes {} arguments, not {}", params.len(), args.len()),
                };
                return self.err(a.span, m);
            };
            if given[at] {
                return self.err(a.span, format!("parameter `{}` is given twice", params[at].name));
            }
            given[at] = true;
            let p = &params[at];
            let Some(e) = &a.value else {
                if p.dir != Dir::Out {
                    return self
                        .err(a.span, format!("`_` cannot be given for parameter `{}`, which is not `out`", p.name));
                }
                continue;
            };
            let want = self.subst(&p.ty);
            if let Ty::Block(b) = &want {
                out[at] = ArgumentValue::In(self.block_arg(&b.clone(), e)?, e.span);
                continue;
            }
            let (mark, fresh) = (self.code.len(), self.program.slots);
            let v = if matches!(p.dir, Dir::Out | Dir::InOut) {
                let lv = self.lvalue(e)?;
                let fits = if Self::has_vars(&want) { self.unify(&p.ty, &lv.ty) } else { want == lv.ty };
                if !fits {
                    let m = format!("parameter `{}` of `{name}` has type {want}, not {}", p.name, lv.ty);
                    let help = "an `out` or `inout` argument needs exactly the parameter's type";
                    return self.err_help(a.span, m, help);
                }
                ArgumentValue::Out(lv, e.span)
            } else {
                let v = self.expr(e, Some(&want))?;
                let v = if Self::has_vars(&want) {
                    if !self.unify(&p.ty, &v.ty) {
                        let m = format!("parameter `{}` of `{name}` has type {want}, not {}", p.name, v.ty);
                        return self.err(a.span, m);
                    }
                    v
                } else {
                    self.coerce(v, &want, e.span)?
                };
                ArgumentValue::In(v, e.span)
            };
            if self.has_effects(mark, fresh) {
                self.save_arguments(mark, params, &mut out)?;
            }
            out[at] = v;
        }
        for (i, p) in params.iter().enumerate() {
            if given[i] {
                // Now that all types are known, integers without width take theirs.
                if let ArgumentValue::In(v, s) = out[i].clone() {
                    let ty = self.subst(&p.ty);
                    if v.ty == Ty::Int && !Self::has_vars(&ty) && ty != Ty::Int {
                        out[i] = ArgumentValue::In(self.coerce(v, &ty, s)?, s);
                    }
                }
                continue;
            }
            match &p.default {
                Some(e) => {
                    let ty = self.subst(&p.ty);
                    let v = self.expr(e, Some(&ty))?;
                    out[i] = ArgumentValue::In(self.coerce(v, &ty, e.span)?, e.span);
                }
                None => {
                    let m = format!("argument `{}` of `{name}` is not given", p.name);
                    return self.err_help(span, m, format!("`{name}` takes {} arguments", params.len()));
                }
            }
        }
        Ok(out)
    }

    /// Reads the arguments evaluated so far by statements put in at position `mark`, before those of the next argument.
    fn save_arguments(&mut self, mark: usize, params: &[BoundParam], args: &mut [ArgumentValue]) -> Checked<()> {
        let mut mark = mark;
        for (p, earlier) in params.iter().zip(args) {
            let before = self.code.len();
            match earlier {
                ArgumentValue::In(v, _) => *v = self.spill_at(mark, v.clone())?,
                ArgumentValue::Out(lv, _) if p.dir == Dir::InOut && lv.saved.is_none() => {
                    let v = self.read_lvalue(lv);
                    lv.saved = Some(self.spill_at(mark, v)?);
                }
                _ => {}
            }
            mark += self.code.len() - before;
        }
        Ok(())
    }

    /// Calls a procedure: arguments in, body, results out from left to right (P4_16 6.8).
    pub fn invoke(
        &mut self,
        c: &Callee,
        name: &str,
        args: &[Arg],
        ready: Option<Vec<ArgumentValue>>,
        span: Span,
    ) -> Checked<TypedValue> {
        let vals = match ready {
            Some(v) => v,
            None => self.arguments(&c.params, name, args, span)?,
        };
        let (before, ()) = self.collect(|context| {
            for (p, v) in c.params.iter().zip(&vals) {
                let place = Place::at(p.slot);
                match v {
                    ArgumentValue::In(v, s) => {
                        if matches!(p.ty, Ty::Extern(..)) {
                            context.bind_extern(p, v, *s)?;
                            continue;
                        }
                        let v = context.coerce(v.clone(), &p.ty, *s)?;
                        context.store(&place, &p.ty, v, *s)?;
                    }
                    ArgumentValue::Out(lv, s) if p.dir == Dir::InOut => {
                        let v = context.read_lvalue(lv);
                        context.store(&place, &p.ty, v, *s)?;
                    }
                    _ => context.emit(Statement::Zero(p.slot, p.ty.slots())),
                }
            }
            Ok(())
        })?;
        let (after, ()) = self.collect(|context| {
            // In the order of the call, which differs from the parameters' where arguments have names.
            for (i, a) in args.iter().enumerate() {
                let at = match &a.name {
                    Some(n) => c.params.iter().position(|p| p.name == n.text).unwrap_or(i),
                    None => i,
                };
                if let (p, ArgumentValue::Out(lv, s)) = (&c.params[at], &vals[at]) {
                    let v = TypedValue { ty: p.ty.clone(), kind: ValueKind::Place(Place::at(p.slot)) };
                    context.assign(lv, v, *s)?;
                }
            }
            Ok(())
        })?;
        let st = if c.is_parser {
            Statement::CallParser(before, c.body, after)
        } else {
            Statement::Call(before, c.body, after)
        };
        self.emit(st);
        match &c.ret {
            Some((slot, ty)) => {
                let n = ty.slots();
                let base = self.alloc(n);
                self.emit(Statement::Copy(Place::at(*slot).addr, Place::at(base).addr, n));
                Ok(TypedValue {
                    ty: ty.clone(),
                    kind: ValueKind::Leaves((base..base + n).map(Expression::Load).collect()),
                })
            }
            None => Ok(TypedValue { ty: Ty::Void, kind: ValueKind::Nothing }),
        }
    }

    /// Gives parameters storage and names in the innermost scope.
    pub fn bind_params(&mut self, params: &[Param]) -> Checked<Vec<BoundParam>> {
        let mut out = Vec::new();
        for p in params {
            let ty = self.ty(&p.ty)?;
            if matches!(ty, Ty::Void | Ty::Package(_) | Ty::Block(_)) {
                return self.err(p.ty.span, format!("a parameter cannot have type {ty}"));
            }
            if p.dir != Dir::None && matches!(ty, Ty::Int | Ty::Str | Ty::Extern(..)) {
                return self.err(p.ty.span, format!("a parameter of type {ty} cannot have a direction"));
            }
            if let Ty::Extern(e, _) = &ty {
                let (obj, slot) = self.extern_parameter(&e.name.clone(), p.ty.span)?;
                self.declare(&p.name, TypedValue { ty: ty.clone(), kind: ValueKind::Extern(obj) })?;
                out.push(BoundParam { name: p.name.text.clone(), dir: p.dir, ty, slot, default: None });
                continue;
            }
            let slot = self.alloc_ty(&ty, p.name.span)?;
            let mut place = Place::at(slot);
            match p.dir {
                Dir::In => place.read_only = Some("an `in` parameter"),
                Dir::None => place.read_only = Some("a parameter without direction"),
                _ => {}
            }
            self.declare(&p.name, TypedValue { ty: ty.clone(), kind: ValueKind::Place(place) })?;
            out.push(BoundParam { name: p.name.text.clone(), dir: p.dir, ty, slot, default: p.default.clone() });
        }
        Ok(out)
    }

    /// Lowers a body that can be called, apart from everything around it but the scopes.
    fn body(&mut self, place: Where, ret: Option<(Slot, Ty)>, stmts: &[Stmt]) -> Checked<usize> {
        let saved = (self.place, self.ret.take(), self.loops);
        self.place = place;
        self.ret = ret;
        self.loops = 0;
        let r = self.collect(|context| context.scoped(|context| context.stmts(stmts)));
        (self.place, self.ret, self.loops) = saved;
        let (code, ()) = r?;
        self.program.procs.push(code);
        Ok(self.program.procs.len() - 1)
    }

    /// Lowers a function once for each set of type arguments.
    pub fn function(&mut self, f: &Rc<FuncDecl>, targs: &[Ty], span: Span) -> Checked<Callee> {
        let shown: Vec<String> = targs.iter().map(Ty::to_string).collect();
        let at = f.name.span;
        let key = format!("{}@{}:{}:{}<{}>", f.name.text, at.file, at.line, at.col, shown.join(", "));
        if let Some(c) = self.funcs.get(&key) {
            return Ok(c.clone());
        }
        if self.busy.contains(&key) || self.busy.len() > 60 {
            let help = "P4 has no recursion";
            return self.err_help(span, format!("function `{}` calls itself", f.name.text), help);
        }
        self.busy.push(key.clone());
        let inner = self.scopes.split_off(1);
        let mut scope = HashMap::new();
        for (p, t) in f.type_params.iter().zip(targs) {
            scope.insert(p.text.clone(), type_value(TypeDef::Ty(t.clone())));
        }
        self.scopes.push(scope);
        let r = (|| {
            let params = self.bind_params(&f.params)?;
            let ret_ty = self.ty(&f.ret)?;
            let ret = match ret_ty {
                Ty::Void => None,
                t => Some((self.alloc_ty(&t, f.name.span)?, t)),
            };
            let body = f.body.as_deref().unwrap_or(&[]);
            if ret.is_some() && !always_returns(body) {
                let m = format!("function `{}` does not return a value on every path", f.name.text);
                return self.err_help(f.name.span, m, "end it with `return value;`");
            }
            let body = self.body(Where::Function, ret.clone(), body)?;
            Ok(Callee { params, body, ret, is_parser: false })
        })();
        self.scopes.truncate(1);
        self.scopes.extend(inner);
        self.busy.pop();
        let c: Callee = r?;
        self.funcs.insert(key, c.clone());
        Ok(c)
    }

    fn generic_function(
        &mut self,
        f: &Rc<FuncDecl>,
        targs: Vec<Ty>,
        args: &[Arg],
        span: Span,
    ) -> Checked<(Callee, Option<Vec<ArgumentValue>>)> {
        let (params, _, vars) = self.open_signature(f, &[], targs, span)?;
        let vals = self.arguments(&params, &f.name.text, args, span)?;
        let mut types = Vec::new();
        for (v, p) in vars.iter().zip(&f.type_params) {
            let t = self.subst(&Ty::Var(*v));
            if Self::has_vars(&t) || t == Ty::Int {
                let m = format!("type parameter `{}` of `{}` is not known from the arguments", p.text, f.name.text);
                return self.err_help(span, m, "give it: `name<type>(...)`, or give integers a width");
            }
            types.push(t);
        }
        Ok((self.function(f, &types, span)?, Some(vals)))
    }

    /// A signature with fresh type variables. `bound` holds type parameters known from elsewhere (the extern object).
    /// Returns parameters, return type and the numbers of the variables.
    pub fn open_signature(
        &mut self,
        f: &FuncDecl,
        bound: &[(String, Ty)],
        targs: Vec<Ty>,
        span: Span,
    ) -> Checked<(Vec<BoundParam>, Ty, Vec<usize>)> {
        if !targs.is_empty() && targs.len() != f.type_params.len() {
            let m = format!("`{}` takes {} type arguments, not {}", f.name.text, f.type_params.len(), targs.len());
            return self.err(span, m);
        }
        let mut scope = HashMap::new();
        for (n, t) in bound {
            scope.insert(n.clone(), type_value(TypeDef::Ty(t.clone())));
        }
        let mut vars = Vec::new();
        for (i, p) in f.type_params.iter().enumerate() {
            self.vars.push(targs.get(i).cloned());
            vars.push(self.vars.len() - 1);
            scope.insert(p.text.clone(), type_value(TypeDef::Ty(Ty::Var(self.vars.len() - 1))));
        }
        let inner = self.scopes.split_off(1);
        self.scopes.push(scope);
        let r = (|| {
            let mut params = Vec::new();
            for p in &f.params {
                let ty = self.ty(&p.ty)?;
                let default = p.default.clone();
                params.push(BoundParam { name: p.name.text.clone(), dir: p.dir, ty, slot: 0, default });
            }
            Ok((params, self.ty(&f.ret)?))
        })();
        self.scopes.truncate(1);
        self.scopes.extend(inner);
        let (params, ret) = r?;
        Ok((params, ret, vars))
    }

    pub fn action(&mut self, f: &Rc<FuncDecl>, annos: &[Annotation]) -> Checked<()> {
        let mut directionless = false;
        for p in &f.params {
            if p.dir != Dir::None && directionless {
                let help = "parameters without direction, which the controller sets, come last";
                return self.err_help(p.name.span, "a parameter with direction follows one without", help);
            }
            directionless |= p.dir == Dir::None;
        }
        let saved = std::mem::take(&mut self.code);
        self.scopes.push(HashMap::new());
        let r = (|| {
            let params = self.bind_params(&f.params)?;
            for (p, a) in params.iter().zip(&f.params) {
                if p.dir == Dir::None && p.ty.scalar_width().is_none() {
                    let m = format!("action parameter `{}` of type {} cannot be set by a controller", p.name, p.ty);
                    return self.err(a.name.span, m);
                }
            }
            let body = self.body(Where::Action, None, f.body.as_deref().unwrap_or(&[]))?;
            let place = self.program.source.span(self.diagnostics, f.name.span);
            self.program.source.actions.insert(body, (self.full_name(&f.name.text, annos), place));
            Ok(Callee { params, body, ret: None, is_parser: false })
        })();
        self.scopes.pop();
        self.code = saved;
        let callee = r?;
        let full_name = self.full_name(&f.name.text, annos);
        match self.action_names.insert(full_name.clone(), f.name.span) {
            Some(at) if at != f.name.span => {
                if let Some(other) = self.same_empty_action(&full_name, f) {
                    self.action_names.insert(full_name, at);
                    let value = TypedValue { ty: Ty::Object("an action"), kind: ValueKind::Action(other) };
                    return self.declare(&f.name, value);
                }
                let m = format!("two actions are named `{full_name}` for controllers");
                let help = format!("the other is on line {}; rename one with @name", at.line);
                return self.err_help(f.name.span, m, help);
            }
            _ => {}
        }
        let (decl, annos) = (f.clone(), annos.to_vec());
        self.actions.push(ActionInstance { name: f.name.text.clone(), full_name, callee, decl, annos });
        let n = self.actions.len() - 1;
        self.declare(&f.name, TypedValue { ty: Ty::Object("an action"), kind: ValueKind::Action(n) })
    }

    /// An action of that name for controllers, if neither has parameters or statements: p4c's own dumps of programs
    /// declare `NoAction` once for each table.
    fn same_empty_action(&self, full_name: &str, f: &FuncDecl) -> Option<usize> {
        let is_empty = |f: &FuncDecl| f.params.is_empty() && f.body.as_ref().is_none_or(Vec::is_empty);
        let other = self.actions.iter().position(|a| a.full_name == full_name)?;
        (is_empty(f) && is_empty(&self.actions[other].decl)).then_some(other)
    }

    pub fn full_name(&self, name: &str, annos: &[Annotation]) -> String {
        let own = anno_string(annos, "name").unwrap_or_else(|| name.to_string());
        match own.strip_prefix('.') {
            Some(absolute) => absolute.to_string(),
            None if self.prefix.is_empty() => own,
            None => format!("{}.{own}", self.prefix),
        }
    }

    fn method(
        &mut self,
        obj: TypedValue,
        name: &Name,
        targs: &[Type],
        args: &[Arg],
        want: Option<&Ty>,
        span: Span,
    ) -> Checked<TypedValue> {
        let n = name.text.as_str();
        let count = |context: &mut Self, wanted: usize| {
            if args.len() == wanted {
                Ok(())
            } else {
                context.err(span, format!("`{n}` takes {wanted} arguments, not {}", args.len()))
            }
        };
        if matches!(n, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes") {
            count(self, 0)?;
            let ty = match &obj.kind {
                ValueKind::Type(TypeDef::Ty(t)) => t.clone(),
                _ => obj.ty.clone(),
            };
            let Some((least, most)) = size_bits(&ty) else {
                return self.err(span, format!("{ty} has no size in a packet"));
            };
            let bits = if n.starts_with("min") { least } else { most };
            let v = if n.ends_with("Bytes") { bits.div_ceil(8) } else { bits };
            return Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(BigInt::from(v)) });
        }
        match (&obj.kind, n) {
            (ValueKind::Table(t), "apply") => {
                count(self, 0)?;
                if !matches!(self.place, Where::Control) {
                    return self.err(span, "a table can only be applied in the `apply` block of a control");
                }
                let t = *t;
                self.emit(Statement::Apply(t));
                return Ok(TypedValue { ty: Ty::Applied(t), kind: ValueKind::Nothing });
            }
            (ValueKind::Instance(i), "apply") => {
                let c = self.instances[*i].clone();
                if c.is_parser != (self.place == Where::Parser) {
                    let text = if c.is_parser {
                        "a parser can only be applied in a parser state"
                    } else {
                        "a control can only be applied in a control's `apply` block"
                    };
                    return self.err(span, text);
                }
                if self.place == Where::Action || self.place == Where::Function {
                    return self.err(span, "a control cannot be applied in an action or function");
                }
                return self.invoke(&c, n, args, None, span);
            }
            (ValueKind::Type(TypeDef::Ty(Ty::Block(b))), "apply") => {
                let b = b.clone();
                let prefix = self.block_prefix(&b.name.text);
                let i = self.instantiate(&b, Vec::new(), &prefix, span, None)?;
                let c = self.instances[i].clone();
                return self.invoke(&c, n, args, None, span);
            }
            (ValueKind::Extern(_), _) => return self.extern_method(obj, name, targs, args, want, span),
            _ => {}
        }
        if obj.ty.is_header() || obj.ty.is_union() {
            if n == "isValid" {
                count(self, 0)?;
                if matches!(obj.kind, ValueKind::Aggregate(..)) {
                    return Ok(boolean(true));
                }
                let e = self.validity(&obj);
                return Ok(TypedValue { ty: Ty::Bool, kind: ValueKind::Leaves(vec![e]) });
            }
            if n == "setValid" || n == "setInvalid" {
                count(self, 0)?;
                let ValueKind::Place(p) = &obj.kind else {
                    return self.err(span, format!("`{n}` needs a header that is a variable"));
                };
                if let Some(why) = p.read_only {
                    return self.err(span, format!("this header cannot be changed: it is {why}"));
                }
                let Some(r) = self.header_ref(p, &obj.ty) else {
                    let help = "call it on a member of the union";
                    return self.err_help(span, format!("`{n}` is not for {}", obj.ty), help);
                };
                self.emit(Statement::SetValid(r, n == "setValid"));
                return Ok(TypedValue { ty: Ty::Void, kind: ValueKind::Nothing });
            }
        }
        if let (Ty::Stack(t, len), "push_front" | "pop_front") = (&obj.ty, n) {
            count(self, 1)?;
            let (each, len) = (t.slots(), *len as usize);
            let ValueKind::Place(p) = &obj.kind else {
                return self.err(span, format!("`{n}` needs a stack that is a variable"));
            };
            if let Some(why) = p.read_only {
                return self.err(span, format!("this stack cannot be changed: it is {why}"));
            }
            let Some(e) = &args[0].value else {
                return self.err(span, format!("`{n}` needs a count"));
            };
            let by = self.const_int(e, "the count")?;
            let Some(by) = by.to_usize().filter(|b| *b <= 65536) else {
                return self.err(e.span, format!("count {by} must be from 0 to 65536"));
            };
            let addr = p.addr.clone();
            let st = if n == "push_front" {
                Statement::PushFront(addr, each, len, by)
            } else {
                Statement::PopFront(addr, each, len, by)
            };
            self.emit(st);
            return Ok(TypedValue { ty: Ty::Void, kind: ValueKind::Nothing });
        }
        let what = describe(&obj);
        self.err(name.span, format!("{what} has no method `{n}`"))
    }

    pub fn block_prefix(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }
}

/// Smallest and largest number of bits a type takes in a packet.
fn size_bits(t: &Ty) -> Option<(u64, u64)> {
    let sum =
        |list: Vec<Option<(u64, u64)>>| list.into_iter().try_fold((0, 0), |(a, b), x| x.map(|(c, d)| (a + c, b + d)));
    match t.base() {
        Ty::Varbit(w) => Some((0, *w as u64)),
        Ty::Struct(s) if s.kind == StructKind::Union => {
            let sizes: Vec<(u64, u64)> = s.fields.iter().filter_map(|f| size_bits(&f.ty)).collect();
            Some((sizes.iter().map(|s| s.0).min()?, sizes.iter().map(|s| s.1).max()?))
        }
        Ty::Struct(s) => sum(s.fields.iter().map(|f| size_bits(&f.ty)).collect()),
        Ty::Tuple(ts) => sum(ts.iter().map(size_bits).collect()),
        Ty::Stack(t, n) => size_bits(t).map(|(a, b)| (a * *n as u64, b * *n as u64)),
        Ty::Error => None,
        Ty::Enum(e) if e.under.is_none() => None,
        t => t.scalar_width().map(|w| (w as u64, w as u64)),
    }
}

/// Whether control cannot run past the end of these statements.
fn always_returns(body: &[Stmt]) -> bool {
    body.iter().any(|s| match &s.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(b) => always_returns(b),
        StmtKind::If(_, a, Some(b)) => {
            always_returns(std::slice::from_ref(a)) && always_returns(std::slice::from_ref(b))
        }
        StmtKind::Switch(_, cases) => {
            let default = cases.iter().any(|(l, _)| l.iter().any(|l| matches!(l, SwitchLabel::Default(_))));
            default && cases.iter().all(|(_, b)| b.as_ref().is_some_and(|b| always_returns(b)))
        }
        _ => false,
    })
}
