// SPDX-License-Identifier: Apache-2.0
//! Declarations at the top level and in blocks.
use crate::check::prelude::*;

/// Versions of v1model, as dates.
const V1MODEL_FIRST: u32 = 20180101;

const V1MODEL_LAST: u32 = 20200408;

impl<'a> Context<'a> {
    pub fn top(&mut self, decl: &Decl) -> Checked<()> {
        if anno_string(&decl.annos, "controller_header").is_some() {
            self.notes.controller_headers.push(decl.name.clone());
        }
        match &decl.kind {
            DeclKind::Errors(names) => {
                for n in names {
                    if self.program.errors.contains(&n.text) {
                        return self.err(n.span, format!("error `{}` is declared twice", n.text));
                    }
                    self.program.errors.push(n.text.clone());
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
                self.declare(&decl.name, type_value(TypeDef::Extern(e)))
            }
            DeclKind::Package(tps, params) => {
                let name = decl.name.text.clone();
                let p = PackageTy { name, type_params: tps.clone(), params: params.clone() };
                self.declare(&decl.name, type_value(TypeDef::Ty(Ty::Package(Rc::new(p)))))
            }
            DeclKind::Block(b) => {
                if b.apply.is_some() && !b.type_params.is_empty() {
                    let span = b.type_params[0].span;
                    return self.err(span, "a parser or control with a body cannot have type parameters");
                }
                self.declare(&decl.name, type_value(TypeDef::Ty(Ty::Block(b.clone()))))?;
                if b.apply.is_some() && b.ctor_params.is_empty() {
                    self.check_only(|context| {
                        context.instantiate(b, Vec::new(), &b.name.text, b.name.span, None).map(|_| ())
                    })?;
                }
                Ok(())
            }
            DeclKind::Function(f) => {
                self.declare(
                    &decl.name,
                    TypedValue { ty: Ty::Object("a function"), kind: ValueKind::Functions(vec![f.clone()]) },
                )?;
                if f.body.is_some() && f.type_params.is_empty() {
                    self.function(f, &[], decl.name.span)?;
                }
                Ok(())
            }
            _ => self.local(decl),
        }
    }

    /// Checks a declaration for its errors only; its result is thrown away.
    fn check_only(&mut self, f: impl FnOnce(&mut Self) -> Checked<()>) -> Checked<()> {
        // Number of copied items.
        let all =
            self.program.procs.iter().map(Vec::len).sum::<usize>() + self.program.procs.len() + self.action_names.len();
        self.spend(all / 16, Span::default())?;
        let (tables, action_names, notes) = (self.table_names.len(), self.action_names.clone(), self.notes.clone());
        let (program, actions, insts) = (self.program.clone(), self.actions.len(), self.instances.len());
        let (cur, funcs, vars) = (std::mem::take(&mut self.code), self.funcs.clone(), self.vars.len());
        let r = f(self);
        self.program = program;
        self.notes = notes;
        self.table_names.truncate(tables);
        self.action_names = action_names;
        self.actions.truncate(actions);
        self.instances.truncate(insts);
        self.funcs = funcs;
        self.vars.truncate(vars);
        self.code = cur;
        r
    }

    /// Declarations that may stand in blocks as well as at the top.
    pub fn local(&mut self, decl: &Decl) -> Checked<()> {
        let r = self.declaration(decl);
        if r.is_err() {
            self.failed.insert(decl.name.text.clone());
        }
        r
    }

    fn declaration(&mut self, decl: &Decl) -> Checked<()> {
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
                self.declare(name, type_value(TypeDef::Ty(ty)))
            }
            DeclKind::NewType(t) => {
                let ty = self.ty(t)?;
                if !matches!(ty, Ty::Bool | Ty::Bit(_) | Ty::SInt(_) | Ty::New(_)) {
                    return self.err(t.span, format!("`type` needs bit<W>, int<W>, bool or another `type`, not {ty}"));
                }
                let new = NewTy { name: name.text.clone(), under: ty, annos: decl.annos.clone() };
                self.declare(name, type_value(TypeDef::Ty(Ty::New(Rc::new(new)))))
            }
            DeclKind::Struct(kind, tps, fields) => {
                if tps.is_empty() {
                    let ty = self.make_struct(&name.text, *kind, fields, &decl.annos)?;
                    self.declare(name, type_value(TypeDef::Ty(ty)))
                } else {
                    let fields = fields.clone();
                    let (name_text, type_params, annos) = (name.text.clone(), tps.clone(), decl.annos.clone());
                    let g = GenericTy { name: name_text, kind: *kind, type_params, fields, annos };
                    self.declare(name, type_value(TypeDef::Generic(Rc::new(g))))
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
                            match self.coerce(v, u, e.span)?.kind {
                                ValueKind::Int(i) => i,
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
                self.declare(name, type_value(TypeDef::Ty(e)))
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
                    None => self.emit(Statement::Zero(slot, ty.slots())),
                }
                self.declare(name, TypedValue { ty, kind: ValueKind::Place(place) })
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
    fn known_version(&mut self, v: &TypedValue, span: Span) -> Checked<()> {
        match &v.kind {
            ValueKind::Int(n) if (V1MODEL_FIRST..=V1MODEL_LAST).contains(&n.to_u32().unwrap_or(0)) => Ok(()),
            ValueKind::Int(n) => {
                let help = format!("versions go from {V1MODEL_FIRST} to {V1MODEL_LAST}");
                self.err_help(span, format!("V1MODEL_VERSION {n} is unknown"), help)
            }
            _ => self.err(span, "V1MODEL_VERSION must be a number"),
        }
    }
}
