// SPDX-License-Identifier: Apache-2.0
//! Assignable expressions, and assignments.
use crate::check::prelude::*;

impl Context<'_> {
    /// Target of an assignment or `out` argument.
    pub fn lvalue(&mut self, e: &Expr) -> Checked<LValue> {
        match &e.kind {
            ExprKind::Slice(base, hi, lo) => {
                let b = self.lvalue(base)?;
                let hi_v = self.const_int(hi, "the high end of a slice")?;
                let lo_v = self.const_int(lo, "the low end of a slice")?;
                [hi, lo].into_iter().for_each(|bound| self.warn_of_slice_bound(bound));
                let w = (&hi_v - &lo_v + 1u32).to_i64().unwrap_or(-1);
                self.slice_lvalue(b, &lo_v, w, e.span)
            }
            ExprKind::PlusSlice(base, lo, w) => {
                let b = self.lvalue(base)?;
                let l = self.expr(lo, None)?;
                let ValueKind::Int(lo_v) = l.kind else {
                    return self.unsupported(lo.span, "assigning a slice whose position is not constant");
                };
                let w = self.const_int(w, "the width of a slice")?.to_i64().unwrap_or(-1);
                self.slice_lvalue(b, &lo_v, w, e.span)
            }
            _ => {
                let v = self.expr(e, None)?;
                let what = describe(&v);
                match v.kind {
                    ValueKind::Place(place) => {
                        if let Some(why) = place.read_only {
                            return self.err_help(
                                e.span,
                                format!("this cannot be changed: it is {why}"),
                                "copy it to a variable first",
                            );
                        }
                        Ok(LValue { place, ty: v.ty, slice: None, saved: None })
                    }
                    _ => self.err(e.span, format!("{what} cannot be assigned to")),
                }
            }
        }
    }

    fn slice_lvalue(&mut self, b: LValue, lo: &BigInt, w: i64, span: Span) -> Checked<LValue> {
        let total = match (b.slice, b.ty.base()) {
            (Some((_, w, _)), _) => w,
            (None, Ty::Bit(w) | Ty::SInt(w)) => *w,
            _ => return self.err(span, format!("only bit<W> and int<W> can be sliced, not {}", b.ty)),
        };
        let fits = lo.to_i64().filter(|l| w > 0 && *l >= 0 && l.checked_add(w).is_some_and(|end| end <= total as i64));
        let Some(lo) = fits else {
            let help = format!("bits are numbered {} down to 0", total.saturating_sub(1));
            return self.err_help(span, format!("slice does not fit the {total} bits of {}", b.ty), help);
        };
        let (outer, whole) = b.slice.map_or((0, total), |(o, _, t)| (o, t));
        let slice = Some((outer + lo as u32, w as u32, whole));
        Ok(LValue { place: b.place, ty: Ty::Bit(w as u32), slice, saved: None })
    }

    /// Reads back an lvalue's value.
    pub fn read_lvalue(&mut self, lv: &LValue) -> TypedValue {
        if let Some(v) = &lv.saved {
            return v.clone();
        }
        match lv.slice {
            None => TypedValue { ty: lv.ty.clone(), kind: ValueKind::Place(lv.place.clone()) },
            Some((lo, w, _)) => leaf(lv.ty.clone(), Expression::Slice(Box::new(load(&lv.place.addr)), lo, w)),
        }
    }

    /// Assigns a value of the lvalue's own type.
    pub fn assign(&mut self, lv: &LValue, v: TypedValue, span: Span) -> Checked<()> {
        match lv.slice {
            None => self.store(&lv.place, &lv.ty, v, span),
            Some((lo, w, whole)) => {
                let x = self.scalar(&v, span)?;
                let mask = Val::all_ones(w).shl(lo as usize, whole);
                let keep = both(Operator::And, whole, load(&lv.place.addr), Expression::Const(mask.not(whole)));
                let moved = both(Operator::Shl, whole, x, Expression::Const(Val::S(lo as u128)));
                self.set(&lv.place.addr, both(Operator::Or, whole, keep, moved));
                Ok(())
            }
        }
    }

    pub fn set(&mut self, addr: &Address, e: Expression) {
        if addr.dyns.is_empty() {
            self.emit(Statement::Set(addr.base, e));
        } else {
            self.emit(Statement::SetAt(addr.clone(), e));
        }
    }

    pub fn store(&mut self, place: &Place, ty: &Ty, v: TypedValue, span: Span) -> Checked<()> {
        if let ValueKind::Place(from) = &v.kind
            && ty.slots() != 1
        {
            let st = Statement::Copy(from.addr.clone(), place.addr.clone(), ty.slots());
            self.emit(st);
            self.only_member(place, ty);
            return Ok(());
        }
        let mut leaves = self.leaves(&v)?;
        if leaves.len() != ty.slots() {
            let what = describe(&v);
            return self.err(span, format!("{what} cannot be stored in {ty}"));
        }
        // Members are read before any is written: `{a, b} = {b, a}`.
        if leaves.len() > 1 && leaves.iter().any(|e| !matches!(e, Expression::Const(_))) {
            let base = self.alloc(leaves.len());
            for (i, e) in leaves.drain(..).enumerate() {
                self.emit(Statement::Set(base + i, e));
            }
            let n = ty.slots();
            self.emit(Statement::Copy(Place::at(base).addr, place.addr.clone(), n));
        } else {
            for (i, e) in leaves.into_iter().enumerate() {
                let at = place.offset(i).addr;
                self.set(&at, e);
            }
        }
        self.only_member(place, ty);
        Ok(())
    }

    fn only_member(&mut self, place: &Place, ty: &Ty) {
        if !place.siblings.is_empty()
            && let Some(r) = self.header_ref(place, ty)
        {
            self.emit(Statement::OnlyMember(r));
        }
    }

    pub fn header_ref(&self, place: &Place, ty: &Ty) -> Option<ir::HeaderRef> {
        match ty {
            Ty::Struct(s) if s.kind == StructKind::Header => Some(ir::HeaderRef {
                addr: place.addr.clone(),
                layout: std::sync::Arc::new(header_layout(s)),
                siblings: place.siblings.clone(),
            }),
            _ => None,
        }
    }

    /// Whether a header or union is valid.
    pub fn validity(&mut self, v: &TypedValue) -> Expression {
        let first = |k: &ValueKind, at: usize| match k {
            ValueKind::Place(p) => load(&p.offset(at).addr),
            ValueKind::Leaves(l) => l[at].clone(),
            ValueKind::Aggregate(..) => Expression::Const(Val::S(1)),
            _ => Expression::Const(Val::S(0)),
        };
        match &v.ty {
            Ty::Struct(s) if s.kind == StructKind::Union => s
                .fields
                .iter()
                .map(|f| first(&v.kind, f.offset))
                .reduce(|a, b| Expression::LOr(Box::new((a, b))))
                .unwrap_or(Expression::Const(Val::S(0))),
            _ => first(&v.kind, 0),
        }
    }
}
