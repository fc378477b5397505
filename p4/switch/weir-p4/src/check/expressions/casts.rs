// SPDX-License-Identifier: Apache-2.0
//! Implicit and explicit casts.
use crate::check::prelude::*;

impl Context<'_> {
    /// A value known to the types as `ty`: P4_16's implicit casts (8.11.2), or an error naming both types.
    pub fn coerce(&mut self, v: TypedValue, ty: &Ty, span: Span) -> Checked<TypedValue> {
        if v.ty == *ty && !matches!(v.kind, ValueKind::Aggregate(..)) {
            return Ok(v);
        }
        let mismatch = |context: &mut Self, v: &TypedValue| {
            let what = describe(v);
            let help = match (v.ty.scalar_width(), ty.scalar_width()) {
                (Some(_), Some(_)) => format!("cast it: `({ty})(...)`"),
                _ => format!("a value of type {ty} is expected"),
            };
            context.err_help(span, format!("expected {ty}, found {what}"), help)
        };
        match (&v.kind, ty.clone()) {
            // A `type` over numbers takes integers without width, as p4c has it.
            (ValueKind::Int(_), Ty::New(n))
                if v.ty == Ty::Int && matches!(n.under.base(), Ty::Bit(_) | Ty::SInt(_)) =>
            {
                let k = self.coerce(v, n.under.base(), span)?.kind;
                Ok(TypedValue { ty: ty.clone(), kind: k })
            }
            (ValueKind::Int(i), t @ (Ty::Bit(_) | Ty::SInt(_))) if v.ty == Ty::Int => {
                let w = t.scalar_width().unwrap_or(1);
                let (low, high) = range(w, t.is_signed());
                if *i < low || *i > high {
                    self.diagnostics.warn(span, format!("{i} does not fit {t}; its upper bits are cut off"));
                }
                Ok(TypedValue { kind: ValueKind::Int(Val::from_int(i, w).to_int(w, t.is_signed())), ty: t })
            }
            (ValueKind::Default, t) => Ok(TypedValue { kind: self.default_value(&t), ty: t }),
            (ValueKind::Invalid, t) if t.is_header() || t.is_union() => {
                Ok(TypedValue { ty: t, kind: ValueKind::Invalid })
            }
            (ValueKind::Aggregate(items, rest), t) => {
                let (items, rest) = (items.clone(), *rest);
                match &t {
                    Ty::Struct(s) if s.kind != StructKind::Union => {
                        let s = s.clone();
                        let named = items.iter().any(|(n, _)| n.is_some());
                        if !rest && items.len() != s.fields.len() || items.len() > s.fields.len() {
                            let m = format!("{t} has {} fields, {} are given", s.fields.len(), items.len());
                            return self.err_help(span, m, "give all fields, or end the list with `...`");
                        }
                        if let Some(n) = items
                            .iter()
                            .filter_map(|(n, _)| n.as_ref())
                            .find(|n| !s.fields.iter().any(|f| f.name == **n))
                        {
                            return self.err(span, format!("{t} has no field `{n}`"));
                        }
                        let mut out = Vec::new();
                        for (i, f) in s.fields.iter().enumerate() {
                            let given = if named {
                                items.iter().find(|(n, _)| n.as_ref() == Some(&f.name))
                            } else {
                                items.get(i)
                            };
                            let fv = match given {
                                Some((_, v)) => self.coerce(v.clone(), &f.ty, span)?,
                                None if rest => TypedValue { kind: self.default_value(&f.ty), ty: f.ty.clone() },
                                None => return self.err(span, format!("field `{}` of {t} is not given", f.name)),
                            };
                            out.push((Some(f.name.clone()), fv));
                        }
                        Ok(TypedValue { ty: t, kind: ValueKind::Aggregate(out, false) })
                    }
                    Ty::Tuple(ts) => {
                        let ts = ts.clone();
                        if ts.len() != items.len() && !(rest && items.len() < ts.len()) {
                            return self.err(span, format!("{t} has {} members, {} are given", ts.len(), items.len()));
                        }
                        let mut out = Vec::new();
                        for (i, ft) in ts.iter().enumerate() {
                            let fv = match items.get(i) {
                                Some((_, v)) => self.coerce(v.clone(), ft, span)?,
                                None => TypedValue { kind: self.default_value(ft), ty: ft.clone() },
                            };
                            out.push((None, fv));
                        }
                        Ok(TypedValue { ty: t, kind: ValueKind::Aggregate(out, false) })
                    }
                    Ty::Stack(inner, n) => {
                        if items.len() > *n as usize {
                            return self.err(span, format!("{t} has {n} elements, {} are given", items.len()));
                        }
                        let inner = inner.clone();
                        let out = items
                            .iter()
                            .map(|(n, v)| Ok((n.clone(), self.coerce(v.clone(), &inner, span)?)))
                            .collect::<Checked<Vec<_>>>()?;
                        Ok(TypedValue { ty: t, kind: ValueKind::Aggregate(out, false) })
                    }
                    Ty::List(inner) => {
                        let inner = inner.clone();
                        let out = items
                            .iter()
                            .map(|(n, v)| Ok((n.clone(), self.coerce(v.clone(), &inner, span)?)))
                            .collect::<Checked<Vec<_>>>()?;
                        Ok(TypedValue { ty: t, kind: ValueKind::Aggregate(out, false) })
                    }
                    // A list of one member where a scalar is wanted is no cast of P4's.
                    _ => mismatch(self, &v),
                }
            }
            (_, t) => {
                if let Ty::Enum(e) = &v.ty
                    && e.under.as_ref() == Some(&t)
                {
                    return Ok(TypedValue { ty: t, kind: v.kind });
                }
                if let (Ty::Tuple(ts), Ty::Struct(s)) = (&v.ty, &t) {
                    let same = s.kind == StructKind::Struct
                        && ts.len() == s.fields.len()
                        && ts.iter().zip(&s.fields).all(|(a, f)| *a == f.ty);
                    if same {
                        return Ok(TypedValue { ty: t, kind: v.kind });
                    }
                }
                mismatch(self, &v)
            }
        }
    }

    fn default_value(&mut self, t: &Ty) -> ValueKind {
        match t.base() {
            Ty::Bool => ValueKind::Bool(false),
            Ty::Bit(_) | Ty::SInt(_) | Ty::Error | Ty::Int => ValueKind::Int(zero_int()),
            Ty::Enum(e) => match e.under {
                Some(_) => ValueKind::Int(zero_int()),
                None => ValueKind::Int(e.members[0].1.clone()),
            },
            Ty::Struct(s) if s.kind == StructKind::Struct => {
                let s = s.clone();
                self.steps = self.steps.saturating_add(s.fields.len() as u64);
                let list = s
                    .fields
                    .iter()
                    .map(|f| (Some(f.name.clone()), TypedValue { kind: self.default_value(&f.ty), ty: f.ty.clone() }));
                ValueKind::Aggregate(list.collect(), false)
            }
            _ => ValueKind::Default,
        }
    }

    /// An explicit cast (P4_16 8.11.1).
    pub fn cast(&mut self, v: TypedValue, ty: &Ty, span: Span) -> Checked<TypedValue> {
        if v.ty == *ty && !matches!(v.kind, ValueKind::Aggregate(..)) {
            return Ok(v);
        }
        if matches!(v.kind, ValueKind::Aggregate(..) | ValueKind::Default | ValueKind::Invalid) {
            return self.coerce(v, ty, span);
        }
        // Through `type` names and serializable enums to the value beneath.
        if let Ty::New(n) = &v.ty {
            let inner = TypedValue { ty: n.under.clone(), kind: v.kind };
            return self.cast(inner, ty, span);
        }
        if let Ty::New(n) = ty {
            let inner = self.cast(v, &n.under, span)?;
            return Ok(TypedValue { ty: ty.clone(), kind: inner.kind });
        }
        if let (Ty::Enum(e), false) = (&v.ty, matches!(ty, Ty::Enum(_)))
            && let Some(u) = &e.under
        {
            let inner = TypedValue { ty: u.clone(), kind: v.kind };
            return self.cast(inner, ty, span);
        }
        if let Ty::Enum(e) = ty
            && let Some(u) = &e.under
        {
            let inner = self.cast(v, u, span)?;
            return Ok(TypedValue { ty: ty.clone(), kind: inner.kind });
        }
        let to = ty.base().clone();
        if let ValueKind::Int(i) = &v.kind {
            let i = i.clone();
            match (&v.ty, &to) {
                (Ty::Int | Ty::Bit(_) | Ty::SInt(_), Ty::Bit(w) | Ty::SInt(w)) => {
                    let bad = matches!((&v.ty, &to), (Ty::SInt(a), Ty::Bit(b)) | (Ty::Bit(a), Ty::SInt(b)) if a != b);
                    if !bad {
                        let k = ValueKind::Int(Val::from_int(&i, *w).to_int(*w, to.is_signed()));
                        return Ok(TypedValue { ty: to, kind: k });
                    }
                }
                (Ty::Bit(_) | Ty::SInt(_), Ty::Int) => return Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(i) }),
                (Ty::Bit(1) | Ty::Int, Ty::Bool) if i == zero_int() || i == BigInt::from(1) => {
                    return Ok(boolean(i != zero_int()));
                }
                _ => {}
            }
        }
        if let (ValueKind::Bool(b), Ty::Bit(1)) = (&v.kind, &to) {
            return Ok(TypedValue { ty: to, kind: ValueKind::Int(BigInt::from(*b as u8)) });
        }
        let from = v.ty.clone();
        let e = match (&from, &to) {
            (Ty::Bit(1), Ty::Bool) | (Ty::Bool, Ty::Bit(1)) => self.scalar(&v, span)?,
            (Ty::Bit(a), Ty::SInt(b)) | (Ty::SInt(a), Ty::Bit(b)) if a == b => self.scalar(&v, span)?,
            (Ty::Bit(a), Ty::Bit(b)) => {
                let x = self.scalar(&v, span)?;
                if b < a { Expression::Slice(Box::new(x), 0, *b) } else { x }
            }
            (Ty::SInt(a), Ty::SInt(b)) => Expression::SignExtend(Box::new(self.scalar(&v, span)?), *a, *b),
            _ => {
                let help = match (&from, &to) {
                    (Ty::Bit(a), Ty::SInt(_)) => format!("go through int<{a}>: `({to})(int<{a}>)x`"),
                    (Ty::SInt(a), Ty::Bit(_)) => format!("go through bit<{a}>: `({to})(bit<{a}>)x`"),
                    _ => "casts go between bit<W> of any widths, int<W> of any widths, bit<W> and int<W> of one \
                          width, bool and bit<1>"
                        .to_string(),
                };
                return self.err_help(span, format!("{from} cannot be cast to {to}"), help);
            }
        };
        Ok(leaf(ty.clone(), e))
    }
}
