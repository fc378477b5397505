// SPDX-License-Identifier: Apache-2.0
//! From types as they are written to types as they are: widths, generic types, type parameters of calls.
use crate::check::prelude::*;

impl<'a> Context<'a> {
    pub fn make_struct(&mut self, name: &str, kind: StructKind, fields: &[Field], annos: &[Annotation]) -> Checked<Ty> {
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

    fn width(&mut self, e: &Expr, least: u32) -> Checked<u32> {
        let n = self.const_int(e, "a width")?;
        match n.to_u32().filter(|w| (least..=MAX_WIDTH).contains(w)) {
            Some(w) => Ok(w),
            None => self.err(e.span, format!("width {n} is not between {least} and {MAX_WIDTH}")),
        }
    }

    /// Evaluates an expression that must be a constant integer.
    pub fn const_int(&mut self, e: &Expr, what: &str) -> Checked<BigInt> {
        let v = self.expr(e, None)?;
        match (v.kind, v.ty.base()) {
            (ValueKind::Int(i), Ty::Int | Ty::Bit(_) | Ty::SInt(_) | Ty::Enum(_)) => Ok(i),
            _ => self.err(e.span, format!("{what} must be a constant integer")),
        }
    }

    pub fn ty(&mut self, t: &Type) -> Checked<Ty> {
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
            TypeKind::Bit(Some(e)) => Ty::Bit(self.width(e, 0)?),
            TypeKind::Int(e) => Ty::SInt(self.width(e, 1)?),
            TypeKind::Varbit(e) => Ty::Varbit(self.width(e, 0)?),
            TypeKind::Tuple(ts) => {
                let list = ts.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
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
                let ValueKind::Type(def) = found.kind else {
                    return self.err(t.span, format!("`{name}` is not a type but {}", describe(&found)));
                };
                let args = args.iter().map(|a| self.ty(a)).collect::<Checked<Vec<_>>>()?;
                return self.apply_type(&def, name, args, t.span);
            }
        })
    }

    pub fn apply_type(&mut self, def: &TypeDef, name: &str, args: Vec<Ty>, span: Span) -> Checked<Ty> {
        let wants = match def {
            TypeDef::Ty(Ty::Block(b)) => b.type_params.len(),
            TypeDef::Ty(Ty::Package(p)) => p.type_params.len(),
            TypeDef::Ty(_) => 0,
            TypeDef::Generic(g) => g.type_params.len(),
            TypeDef::Extern(e) => e.type_params.len(),
        };
        // Types of package parameters may go without arguments; they are inferred from the arguments.
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
                    scope.insert(p.text.clone(), type_value(TypeDef::Ty(a)));
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

    /// Replaces matched type parameters by their matches.
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
