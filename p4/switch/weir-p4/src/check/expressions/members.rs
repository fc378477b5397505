// SPDX-License-Identifier: Apache-2.0
//! Parts of values: members, elements of stacks and tuples, slices of bits.
use crate::check::prelude::*;

impl Context<'_> {
    pub fn slice(&mut self, b: TypedValue, lo: &BigInt, w: u32, span: Span) -> Checked<TypedValue> {
        if let (ValueKind::Int(i), Ty::Int) = (&b.kind, &b.ty) {
            let Some(lo) = lo.to_u32().filter(|n| *n < 4096 && w < 4096) else {
                return self.err(span, "slice is out of range");
            };
            let v = Val::from_int(&(i >> lo), w).to_int(w, false);
            return Ok(TypedValue { ty: Ty::Bit(w), kind: ValueKind::Int(v) });
        }
        let total = match b.ty.base() {
            Ty::Bit(t) | Ty::SInt(t) => *t,
            Ty::Enum(e) if e.under.is_some() => b.ty.scalar_width().unwrap_or(0),
            _ => {
                let what = describe(&b);
                return self.err(span, format!("only bit<W> and int<W> can be sliced, not {what}"));
            }
        };
        let lo = match lo.to_u32().filter(|l| l.checked_add(w).is_some_and(|end| end <= total)) {
            Some(l) => l,
            None => {
                let m = format!("slice of {w} bits from bit {lo} does not fit {}", b.ty);
                return self.err_help(span, m, format!("bits are numbered 0 to {}", total.saturating_sub(1)));
            }
        };
        if let ValueKind::Int(i) = &b.kind {
            let v = Val::from_int(i, total).shr(lo as usize).mask(w).to_int(w, false);
            return Ok(TypedValue { ty: Ty::Bit(w), kind: ValueKind::Int(v) });
        }
        let x = self.scalar(&b, span)?;
        Ok(leaf(Ty::Bit(w), Expression::Slice(Box::new(x), lo, w)))
    }

    pub fn member(&mut self, base: &Expr, name: &Name) -> Checked<TypedValue> {
        let b = self.expr(base, None)?;
        self.member_of(b, name)
    }

    pub fn member_of(&mut self, b: TypedValue, name: &Name) -> Checked<TypedValue> {
        let n = name.text.as_str();
        if let ValueKind::Type(def) = &b.kind {
            return self.type_member(def.clone(), name);
        }
        match &b.ty {
            Ty::Struct(s) => self.field(&b, &s.clone(), name),
            Ty::Record(fields) => {
                let at = fields.iter().position(|(f, _)| f == n);
                match (at, &b.kind) {
                    (Some(i), ValueKind::Aggregate(items, _)) => Ok(items[i].1.clone()),
                    _ => self.err(name.span, format!("{} has no field `{n}`", b.ty)),
                }
            }
            Ty::Stack(t, len) => {
                let (t, len) = ((**t).clone(), *len as usize);
                match n {
                    "size" => Ok(TypedValue { ty: Ty::Bit(32), kind: ValueKind::Int(BigInt::from(len)) }),
                    "push_front" | "pop_front" | "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits"
                    | "maxSizeInBytes" => Ok(TypedValue {
                        ty: Ty::Object("a method"),
                        kind: ValueKind::Method(Box::new(b), name.clone()),
                    }),
                    "next" | "last" | "lastIndex" => {
                        if self.place != Where::Parser {
                            let help = "use an index, e.g. `[0]`";
                            return self.err_help(name.span, format!("`{n}` can only be used in a parser"), help);
                        }
                        let ValueKind::Place(p) = &b.kind else {
                            return self.err(name.span, format!("`{n}` needs a stack that is a variable"));
                        };
                        let index = self.alloc(1);
                        self.emit(Statement::Set(index, load(&p.addr)));
                        if n == "lastIndex" {
                            let e = both(Operator::Sub, 32, Expression::Load(index), Expression::Const(Val::S(1)));
                            return Ok(leaf(Ty::Bit(32), e));
                        }
                        let bias = if n == "last" { -1 } else { 0 };
                        let mut at = self.element(p, &t, DynIndex { index, bias, stride: t.slots(), len });
                        self.emit(Statement::CheckIndex(at.addr.clone()));
                        if n == "next" {
                            at.next_of = Some((p.addr.clone(), len));
                        }
                        Ok(TypedValue { ty: t, kind: ValueKind::Place(at) })
                    }
                    _ => self.err_help(
                        name.span,
                        format!("a stack has no member `{n}`"),
                        "it has next, last, lastIndex, size, push_front and pop_front",
                    ),
                }
            }
            Ty::Applied(t) => {
                let t = *t;
                let (hit, run) = (self.program.tables[t].hit, self.program.tables[t].action_run);
                // The result is read now: another apply of the same table must not change it.
                let tmp = self.alloc(1);
                match n {
                    "hit" | "miss" => {
                        self.emit(Statement::Set(tmp, Expression::Load(hit)));
                        let e = Expression::Load(tmp);
                        Ok(leaf(Ty::Bool, if n == "hit" { e } else { Expression::Not(Box::new(e)) }))
                    }
                    "action_run" => {
                        self.emit(Statement::Set(tmp, Expression::Load(run)));
                        Ok(leaf(Ty::ActionRun(t), Expression::Load(tmp)))
                    }
                    _ => self.err(name.span, format!("apply() has hit, miss and action_run, not `{n}`")),
                }
            }
            _ => match &b.kind {
                ValueKind::Extern(_) | ValueKind::Table(_) | ValueKind::Instance(_) | ValueKind::ValueSet(_) => {
                    Ok(TypedValue { ty: Ty::Object("a method"), kind: ValueKind::Method(Box::new(b), name.clone()) })
                }
                _ if matches!(n, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes") => {
                    Ok(TypedValue { ty: Ty::Object("a method"), kind: ValueKind::Method(Box::new(b), name.clone()) })
                }
                _ => {
                    let what = describe(&b);
                    self.err(name.span, format!("{what} has no member `{n}`"))
                }
            },
        }
    }

    fn field(&mut self, b: &TypedValue, s: &Rc<StructTy>, name: &Name) -> Checked<TypedValue> {
        let n = name.text.as_str();
        let Some(i) = s.fields.iter().position(|f| f.name == n) else {
            if matches!(
                n,
                "isValid"
                    | "setValid"
                    | "setInvalid"
                    | "minSizeInBits"
                    | "minSizeInBytes"
                    | "maxSizeInBits"
                    | "maxSizeInBytes"
            ) {
                return Ok(TypedValue {
                    ty: Ty::Object("a method"),
                    kind: ValueKind::Method(Box::new(b.clone()), name.clone()),
                });
            }
            let close = Self::similar(n, s.fields.iter().map(|f| f.name.as_str()));
            let help = match close {
                Some(c) => format!("did you mean `{c}`?"),
                None => {
                    let names: Vec<&str> = s.fields.iter().map(|f| f.name.as_str()).collect();
                    format!("its fields are: {}", names.join(", "))
                }
            };
            return self.err_help(name.span, format!("{} has no field `{n}`", b.ty), help);
        };
        let f = &s.fields[i];
        let k = match &b.kind {
            ValueKind::Place(p) => {
                let mut at = p.offset(f.offset);
                at.valid_of = match s.kind {
                    StructKind::Header => Some(p.addr.clone()),
                    _ => p.valid_of.clone(),
                };
                if s.kind == StructKind::Union {
                    // Extracting a member of `next` moves the stack on.
                    at.next_of = p.next_of.clone();
                    let others = s.fields.iter().filter(|o| o.name != f.name);
                    at.siblings = others.map(|o| p.offset(o.offset).addr).collect();
                }
                ValueKind::Place(at)
            }
            ValueKind::Leaves(l) => ValueKind::Leaves(l[f.offset..f.offset + f.ty.slots()].to_vec()),
            ValueKind::Aggregate(items, _) => match items.get(i) {
                Some((_, v)) => v.kind.clone(),
                None => ValueKind::Default,
            },
            _ => ValueKind::Default,
        };
        Ok(TypedValue { ty: f.ty.clone(), kind: k })
    }

    fn type_member(&mut self, def: TypeDef, name: &Name) -> Checked<TypedValue> {
        let n = name.text.as_str();
        match &def {
            TypeDef::Ty(Ty::Enum(e)) => {
                let e = e.clone();
                match e.members.iter().find(|(m, _)| m == n) {
                    Some((_, v)) => Ok(TypedValue { ty: Ty::Enum(e.clone()), kind: ValueKind::Int(v.clone()) }),
                    None => {
                        let names: Vec<&str> = e.members.iter().map(|(m, _)| m.as_str()).collect();
                        let help = match Self::similar(n, names.iter().copied()) {
                            Some(c) => format!("did you mean `{c}`?"),
                            None => format!("its members are: {}", names.join(", ")),
                        };
                        self.err_help(name.span, format!("enum {} has no member `{n}`", e.name), help)
                    }
                }
            }
            TypeDef::Ty(Ty::Error) => match self.program.errors.iter().position(|e| e == n) {
                Some(i) => Ok(TypedValue { ty: Ty::Error, kind: ValueKind::Int(BigInt::from(i)) }),
                None => {
                    let close = Self::similar(n, self.program.errors.iter().map(String::as_str)).map(str::to_string);
                    let help = match close {
                        Some(c) => format!("did you mean `error.{c}`?"),
                        None => format!("declare it: `error {{ {n} }}`"),
                    };
                    self.err_help(name.span, format!("error `{n}` is not declared"), help)
                }
            },
            TypeDef::Ty(Ty::Block(_)) if n == "apply" => Ok(TypedValue {
                ty: Ty::Object("a method"),
                kind: ValueKind::Method(Box::new(type_value(def)), name.clone()),
            }),
            TypeDef::Ty(_) if matches!(n, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes") => {
                Ok(TypedValue {
                    ty: Ty::Object("a method"),
                    kind: ValueKind::Method(Box::new(type_value(def)), name.clone()),
                })
            }
            TypeDef::Ty(t) => {
                let t = t.clone();
                self.err(name.span, format!("type {t} has no member `{n}`"))
            }
            _ => self.err(name.span, format!("this type has no member `{n}`")),
        }
    }

    fn element(&self, p: &Place, t: &Ty, d: DynIndex) -> Place {
        let mut at = p.offset(1);
        at.addr.dyns.push(d);
        debug_assert_eq!(t.slots(), d.stride);
        at
    }

    pub fn index(&mut self, base: &Expr, i: &Expr) -> Checked<TypedValue> {
        let b = self.expr(base, None)?;
        let mark = self.code.len();
        let idx = self.expr(i, None)?;
        match &b.ty {
            Ty::Tuple(ts) => {
                let ts = ts.clone();
                let ValueKind::Int(n) = &idx.kind else {
                    return self.err(i.span, "the index of a tuple must be constant");
                };
                let Some(n) = n.to_usize().filter(|n| *n < ts.len()) else {
                    return self.err(i.span, format!("index {n} is outside {}", b.ty));
                };
                let offset: usize = ts[..n].iter().map(Ty::slots).sum();
                let ty = ts[n].clone();
                let k = match &b.kind {
                    ValueKind::Place(p) => ValueKind::Place(p.offset(offset)),
                    ValueKind::Leaves(l) => ValueKind::Leaves(l[offset..offset + ty.slots()].to_vec()),
                    ValueKind::Aggregate(items, _) => items[n].1.kind.clone(),
                    _ => ValueKind::Default,
                };
                Ok(TypedValue { ty, kind: k })
            }
            Ty::List(t) => match (&b.kind, &idx.kind) {
                (ValueKind::Aggregate(items, _), ValueKind::Int(n))
                    if n.to_usize().is_some_and(|n| n < items.len()) =>
                {
                    Ok(items[n.to_usize().unwrap_or(0)].1.clone())
                }
                _ => {
                    let t = t.clone();
                    self.err(i.span, format!("the index of a list<{t}> must be constant and inside the list"))
                }
            },
            Ty::Stack(t, len) => {
                let (t, len) = ((**t).clone(), *len as usize);
                let stride = t.slots();
                if let ValueKind::Int(n) = &idx.kind {
                    let Some(n) = n.to_usize().filter(|n| *n < len) else {
                        let help = format!("its elements are 0 to {}", len - 1);
                        return self.err_help(i.span, format!("index {n} is outside {}", b.ty), help);
                    };
                    let k = match &b.kind {
                        ValueKind::Place(p) => ValueKind::Place(p.offset(1 + n * stride)),
                        ValueKind::Leaves(l) => ValueKind::Leaves(l[1 + n * stride..1 + (n + 1) * stride].to_vec()),
                        ValueKind::Aggregate(items, _) => {
                            items.get(n).map_or(ValueKind::Default, |(_, v)| v.kind.clone())
                        }
                        _ => ValueKind::Default,
                    };
                    return Ok(TypedValue { ty: t, kind: k });
                }
                if !matches!(idx.ty.base(), Ty::Bit(_) | Ty::SInt(_) | Ty::Enum(_)) {
                    let what = describe(&idx);
                    return self.err(i.span, format!("a stack's index must be a number, not {what}"));
                }
                let e = self.scalar(&idx, i.span)?;
                let place = match &b.kind {
                    ValueKind::Place(p) => p.clone(),
                    _ => {
                        let leaves = self.leaves(&b)?;
                        let slot = self.alloc(leaves.len());
                        let sets: Vec<Statement> =
                            leaves.into_iter().enumerate().map(|(k, e)| Statement::Set(slot + k, e)).collect();
                        let tail = self.code.split_off(mark);
                        self.code.extend(sets);
                        self.code.extend(tail);
                        Place::at(slot)
                    }
                };
                let index = self.alloc(1);
                self.emit(Statement::Set(index, e));
                let at = self.element(&place, &t, DynIndex { index, bias: 0, stride, len });
                Ok(TypedValue { ty: t, kind: ValueKind::Place(at) })
            }
            Ty::Bit(_) | Ty::SInt(_) => {
                let help = "a single bit is a slice: `x[3:3]`";
                self.err_help(i.span, format!("{} cannot be indexed", b.ty), help)
            }
            _ => {
                let what = describe(&b);
                self.err(base.span, format!("{what} cannot be indexed"))
            }
        }
    }
}
