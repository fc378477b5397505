// SPDX-License-Identifier: Apache-2.0
//! Expressions: their types, implicit casts, folding, and code without effects.
mod assignments;
mod casts;
mod members;
mod operators;

use crate::check::prelude::*;

/// Deeper expressions are kept in a temporary.
const DEEPEST: u32 = 64;

/// Whether an expression nests more than `left` deep.
fn deeper_than(e: &Expression, left: u32) -> bool {
    let Some(left) = left.checked_sub(1) else {
        return true;
    };
    match e {
        Expression::Const(_) | Expression::Load(_) | Expression::LoadAt(_) => false,
        Expression::Bin(_, _, ab) | Expression::LAnd(ab) | Expression::LOr(ab) | Expression::Concat(ab, _) => {
            deeper_than(&ab.0, left) || deeper_than(&ab.1, left)
        }
        Expression::BitNot(_, x)
        | Expression::Neg(_, x)
        | Expression::Not(x)
        | Expression::Slice(x, ..)
        | Expression::SignExtend(x, ..) => deeper_than(x, left),
        Expression::Cond(c) => deeper_than(&c.0, left) || deeper_than(&c.1, left) || deeper_than(&c.2, left),
    }
}

impl Context<'_> {
    /// An expression's value. However deep the source nests, the value does not: later steps (copies, the lowering, the
    /// end of a program on any thread) recurse along it, and copy it at each level.
    pub fn expr(&mut self, e: &Expr, want: Option<&Ty>) -> Checked<TypedValue> {
        self.spend(1, e.span)?;
        let v = self.expr_of_any_depth(e, want)?;
        match &v.kind {
            ValueKind::Leaves(l) if e.depth > DEEPEST && l.iter().any(|x| deeper_than(x, DEEPEST)) => {
                self.spill_at(self.code.len(), v)
            }
            _ => Ok(v),
        }
    }

    fn expr_of_any_depth(&mut self, e: &Expr, want: Option<&Ty>) -> Checked<TypedValue> {
        match &e.kind {
            ExprKind::Int(v, None) => Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(v.clone()) }),
            ExprKind::Int(v, Some((w, signed))) => {
                let ty = if *signed { Ty::SInt(*w) } else { Ty::Bit(*w) };
                let (low, high) = range(*w, *signed);
                if *v < low || *v > high {
                    self.diagnostics.warn(e.span, format!("{v} does not fit {ty}; its upper bits are cut off"));
                }
                let k = ValueKind::Int(Val::from_int(v, *w).to_int(*w, *signed));
                Ok(TypedValue { ty, kind: k })
            }
            ExprKind::Bool(b) => Ok(boolean(*b)),
            ExprKind::Str(s) => Ok(TypedValue { ty: Ty::Str, kind: ValueKind::Str(s.clone()) }),
            ExprKind::Name(n) => match self.lookup(n).cloned() {
                Some(v) => {
                    self.spend(8 * parts(&v), e.span)?;
                    Ok(v)
                }
                None => self.unknown(n, e.span, "name"),
            },
            ExprKind::Global(n) => match self.scopes[0].get(n).cloned() {
                Some(v) => Ok(v),
                None => self.unknown(n, e.span, "global name"),
            },
            ExprKind::This => self.unsupported(e.span, "`this`"),
            ExprKind::Type(t) => {
                let ty = self.ty(t)?;
                Ok(type_value(TypeDef::Ty(ty)))
            }
            ExprKind::Member(base, name) => self.member(base, name),
            ExprKind::Index(base, i) => self.index(base, i),
            ExprKind::Slice(base, hi, lo) => {
                let b = self.expr(base, None)?;
                let hi_v = self.const_int(hi, "the high end of a slice")?;
                let lo_v = self.const_int(lo, "the low end of a slice")?;
                if hi_v < lo_v {
                    let help = format!("write [{lo_v}:{hi_v}]");
                    return self.err_help(hi.span, format!("slice [{hi_v}:{lo_v}] has its ends reversed"), help);
                }
                let w = (&hi_v - &lo_v + 1u32).to_u32().unwrap_or(u32::MAX);
                self.slice(b, &lo_v, w, e.span)
            }
            ExprKind::PlusSlice(base, lo, w) => {
                let w = match self.const_int(w, "the width of a slice")?.to_u32() {
                    Some(w) if w > 0 => w,
                    _ => return self.err(w.span, "the width of a slice must be at least 1"),
                };
                let (b, l) = self.pair(base, lo)?;
                match l.kind {
                    ValueKind::Int(lo) => self.slice(b, &lo, w, e.span),
                    _ => {
                        let Some(total) = b.ty.scalar_width() else {
                            return self.err(e.span, format!("{} cannot be sliced", b.ty));
                        };
                        let n = self.scalar(&l, lo.span)?;
                        let x = self.scalar(&b, base.span)?;
                        let shifted = both(Operator::Shr, total, x, n);
                        Ok(leaf(Ty::Bit(w), Expression::Slice(Box::new(shifted), 0, w)))
                    }
                }
            }
            ExprKind::Unary(op, a) => self.unary(*op, a, want),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e.span),
            ExprKind::Ternary(c, a, b) => self.ternary(c, a, b, want, e.span),
            ExprKind::Cast(t, a) => {
                let ty = self.ty(t)?;
                // Only lists take their shape from the cast; numbers inside keep their own widths.
                let want = if ty.scalar_width().is_some() { None } else { Some(&ty) };
                let v = self.expr(a, want)?;
                self.cast(v, &ty, e.span)
            }
            ExprKind::Call(f, targs, args) => self.call(f, targs, args, want, e.span),
            ExprKind::List(items, rest) => {
                let mut out: Vec<(Option<String>, TypedValue)> = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    let want = want.and_then(|t| member_type(t, i));
                    let mark = self.code.len();
                    let v = self.expr(item, want.as_ref())?;
                    self.value_only(&v, item.span)?;
                    self.spill_all(mark, &mut out)?;
                    out.push((None, v));
                }
                let ty = self.tuple(out.iter().map(|(_, v)| v.ty.clone()).collect(), e.span)?;
                Ok(TypedValue { ty, kind: ValueKind::Aggregate(out, *rest) })
            }
            ExprKind::Record(items, rest) => {
                let mut out: Vec<(Option<String>, TypedValue)> = Vec::new();
                for (n, item) in items {
                    let want = match want {
                        Some(Ty::Struct(s)) => s.fields.iter().find(|f| f.name == n.text).map(|f| f.ty.clone()),
                        _ => None,
                    };
                    if out.iter().any(|(o, _)| o.as_ref() == Some(&n.text)) {
                        return self.err(n.span, format!("field `{}` is given twice", n.text));
                    }
                    let mark = self.code.len();
                    let v = self.expr(item, want.as_ref())?;
                    self.value_only(&v, item.span)?;
                    self.spill_all(mark, &mut out)?;
                    out.push((Some(n.text.clone()), v));
                }
                let names = out.iter().map(|(n, v)| (n.clone().unwrap_or_default(), v.ty.clone())).collect();
                Ok(TypedValue { ty: Ty::Record(Rc::new(names)), kind: ValueKind::Aggregate(out, *rest) })
            }
            ExprKind::Default => Ok(TypedValue { ty: Ty::Untyped, kind: ValueKind::Default }),
            ExprKind::InvalidHeader => Ok(TypedValue { ty: Ty::Untyped, kind: ValueKind::Invalid }),
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::DontCare => {
                self.err(e.span, "a set (`&&&`, `..`, `_`) can only be a key of a select case or table entry")
            }
        }
    }

    fn value_only(&mut self, v: &TypedValue, span: Span) -> Checked<()> {
        if matches!(v.ty, Ty::Object(_) | Ty::Void | Ty::Applied(_)) {
            let what = describe(v);
            return self.err(span, format!("a value is needed here, not {what}"));
        }
        Ok(())
    }

    /// Two operands in order: when the second has effects, the first is read before them.
    pub fn pair(&mut self, a: &Expr, b: &Expr) -> Checked<(TypedValue, TypedValue)> {
        let mut x = self.expr(a, None)?;
        let (mark, fresh) = (self.code.len(), self.program.slots);
        let y = self.expr(b, None)?;
        if self.has_effects(mark, fresh) {
            x = self.spill_at(mark, x)?;
        }
        Ok((x, y))
    }

    /// Whether statements from `mark` on change more than the temporaries from `fresh` on.
    pub fn has_effects(&self, mark: usize, fresh: Slot) -> bool {
        self.code[mark..].iter().any(|s| !matches!(s, Statement::Set(slot, _) if *slot >= fresh))
    }

    fn spill_all(&mut self, mark: usize, items: &mut [(Option<String>, TypedValue)]) -> Checked<()> {
        let mut mark = mark;
        if self.code.len() == mark {
            return Ok(());
        }
        for (_, v) in items.iter_mut() {
            let before = self.code.len();
            *v = self.spill_at(mark, v.clone())?;
            mark += self.code.len() - before;
        }
        Ok(())
    }

    /// Copies a value to temporaries by statements put in at position `mark`.
    pub fn spill_at(&mut self, mark: usize, v: TypedValue) -> Checked<TypedValue> {
        if is_const(&v) || v.ty.slots() == 0 && !matches!(v.kind, ValueKind::Aggregate(..)) {
            return Ok(v);
        }
        if let ValueKind::Aggregate(items, rest) = v.kind {
            let mut out = Vec::new();
            let mut mark = mark;
            for (n, item) in items {
                let before = self.code.len();
                out.push((n, self.spill_at(mark, item)?));
                mark += self.code.len() - before;
            }
            return Ok(TypedValue { ty: v.ty, kind: ValueKind::Aggregate(out, rest) });
        }
        let leaves = self.leaves(&v)?;
        let base = self.alloc(leaves.len());
        let n = leaves.len();
        let sets = leaves.into_iter().enumerate().map(|(i, e)| Statement::Set(base + i, e));
        let tail = self.code.split_off(mark);
        self.code.extend(sets);
        self.code.extend(tail);
        Ok(TypedValue { ty: v.ty, kind: ValueKind::Leaves((base..base + n).map(Expression::Load).collect()) })
    }

    /// The expression for each slot of a value.
    pub fn leaves(&mut self, v: &TypedValue) -> Checked<Vec<Expression>> {
        if let ValueKind::Place(_) | ValueKind::Default | ValueKind::Invalid | ValueKind::Leaves(_) = v.kind {
            self.steps = self.steps.saturating_add(v.ty.slots() as u64);
        }
        Ok(match &v.kind {
            ValueKind::Int(i) => vec![int_const(i, &v.ty)],
            ValueKind::Bool(b) => vec![Expression::Const(Val::S(*b as u128))],
            ValueKind::Leaves(l) => l.clone(),
            ValueKind::Place(p) => (0..v.ty.slots()).map(|i| load(&p.offset(i).addr)).collect(),
            ValueKind::Default | ValueKind::Invalid => vec![Expression::Const(Val::S(0)); v.ty.slots()],
            ValueKind::Aggregate(items, _) => {
                let mut out = Vec::new();
                if v.ty.is_header() {
                    out.push(Expression::Const(Val::S(1)));
                }
                if matches!(v.ty, Ty::Stack(..)) {
                    out.push(Expression::Const(Val::S(items.len() as u128)));
                }
                for (_, item) in items {
                    out.extend(self.leaves(item)?);
                }
                let n = v.ty.slots();
                if matches!(v.ty, Ty::Stack(..)) && out.len() < n {
                    out.resize(n, Expression::Const(Val::S(0)));
                }
                out
            }
            _ => Vec::new(),
        })
    }

    pub fn scalar(&mut self, v: &TypedValue, span: Span) -> Checked<Expression> {
        if v.ty == Ty::Int {
            let help = "give it a width, e.g. `32w5` or `(bit<32>)5`";
            return self.err_help(span, "the width of this integer is not known", help);
        }
        let mut l = self.leaves(v)?;
        if l.len() != 1 {
            let what = describe(v);
            return self.err(span, format!("a single value is needed here, not {what}"));
        }
        Ok(l.remove(0))
    }

    pub fn truth(&mut self, e: &Expr) -> Checked<TypedValue> {
        let v = self.expr(e, Some(&Ty::Bool))?;
        if v.ty != Ty::Bool {
            let what = describe(&v);
            return self.err_help(
                e.span,
                format!("a condition must be bool, not {what}"),
                "compare it, e.g. with `== 1`",
            );
        }
        Ok(v)
    }
}

fn member_type(t: &Ty, i: usize) -> Option<Ty> {
    match t {
        Ty::Struct(s) if s.kind != StructKind::Union => s.fields.get(i).map(|f| f.ty.clone()),
        Ty::Tuple(ts) => ts.get(i).cloned(),
        Ty::Stack(t, _) | Ty::List(t) => Some((**t).clone()),
        _ => None,
    }
}
