// SPDX-License-Identifier: Apache-2.0
//! Expressions: their types, implicit casts, folding, and code without effects.
use super::*;
use crate::ir::{DynIndex, Op};
use crate::value::range;

/// Something that can be assigned: a place, perhaps only some bits of it.
#[derive(Clone, Debug)]
pub(crate) struct Lv {
    pub place: Place,
    pub ty: Ty,
    /// Lowest bit and width of the slice, width of the whole.
    pub slice: Option<(u32, u32, u32)>,
}

/// Values that it holds.
fn parts(v: &Tv) -> usize {
    match &v.k {
        K::Agg(list, _) => 1 + list.iter().map(|(_, v)| parts(v)).sum::<usize>(),
        K::Leaves(list) => list.len(),
        _ => 1,
    }
}

fn leaf(ty: Ty, e: Ex) -> Tv {
    Tv { ty, k: K::Leaves(vec![e]) }
}

pub(crate) fn boolean(b: bool) -> Tv {
    Tv { ty: Ty::Bool, k: K::Bool(b) }
}

fn both(op: Op, w: u32, a: Ex, b: Ex) -> Ex {
    Ex::Bin(op, w, Box::new((a, b)))
}

fn and(a: Ex, b: Ex) -> Ex {
    Ex::LAnd(Box::new((a, b)))
}

/// What nests deeper than this is kept in a temporary.
const DEEPEST: u32 = 64;

/// Whether an expression nests more than `left` deep.
fn deeper_than(e: &Ex, left: u32) -> bool {
    let Some(left) = left.checked_sub(1) else {
        return true;
    };
    match e {
        Ex::Const(_) | Ex::Load(_) | Ex::LoadAt(_) => false,
        Ex::Bin(_, _, ab) | Ex::LAnd(ab) | Ex::LOr(ab) | Ex::Concat(ab, _) => {
            deeper_than(&ab.0, left) || deeper_than(&ab.1, left)
        }
        Ex::BitNot(_, x) | Ex::Neg(_, x) | Ex::Not(x) | Ex::Slice(x, ..) | Ex::SignExtend(x, ..) => {
            deeper_than(x, left)
        }
        Ex::Cond(c) => deeper_than(&c.0, left) || deeper_than(&c.1, left) || deeper_than(&c.2, left),
    }
}

impl Cx<'_> {
    /// An expression's value. However deep the source nests, the value does not: what comes later (copies, the
    /// lowering, the end of a program on any thread) recurses along it, and copies it at each level.
    pub fn expr(&mut self, e: &Expr, want: Option<&Ty>) -> Res<Tv> {
        self.spend(1, e.span)?;
        let v = self.expr_of_any_depth(e, want)?;
        match &v.k {
            K::Leaves(l) if e.depth > DEEPEST && l.iter().any(|x| deeper_than(x, DEEPEST)) => {
                self.spill_at(self.cur.len(), v)
            }
            _ => Ok(v),
        }
    }

    fn expr_of_any_depth(&mut self, e: &Expr, want: Option<&Ty>) -> Res<Tv> {
        match &e.kind {
            ExprKind::Int(v, None) => Ok(Tv { ty: Ty::Int, k: K::Int(v.clone()) }),
            ExprKind::Int(v, Some((w, signed))) => {
                let ty = if *signed { Ty::SInt(*w) } else { Ty::Bit(*w) };
                let (low, high) = range(*w, *signed);
                if *v < low || *v > high {
                    self.d.warn(e.span, format!("{v} does not fit {ty}; its upper bits are cut off"));
                }
                let k = K::Int(Val::from_int(v, *w).to_int(*w, *signed));
                Ok(Tv { ty, k })
            }
            ExprKind::Bool(b) => Ok(boolean(*b)),
            ExprKind::Str(s) => Ok(Tv { ty: Ty::Str, k: K::Str(s.clone()) }),
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
                Ok(type_tv(TypeDef::Ty(ty)))
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
                match l.k {
                    K::Int(lo) => self.slice(b, &lo, w, e.span),
                    _ => {
                        let Some(total) = b.ty.scalar_width() else {
                            return self.err(e.span, format!("{} cannot be sliced", b.ty));
                        };
                        let n = self.scalar(&l, lo.span)?;
                        let x = self.scalar(&b, base.span)?;
                        let shifted = both(Op::Shr, total, x, n);
                        Ok(leaf(Ty::Bit(w), Ex::Slice(Box::new(shifted), 0, w)))
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
                let mut out: Vec<(Option<String>, Tv)> = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    let want = want.and_then(|t| member_type(t, i));
                    let mark = self.cur.len();
                    let v = self.expr(item, want.as_ref())?;
                    self.value_only(&v, item.span)?;
                    self.spill_all(mark, &mut out)?;
                    out.push((None, v));
                }
                let ty = self.tuple(out.iter().map(|(_, v)| v.ty.clone()).collect(), e.span)?;
                Ok(Tv { ty, k: K::Agg(out, *rest) })
            }
            ExprKind::Record(items, rest) => {
                let mut out: Vec<(Option<String>, Tv)> = Vec::new();
                for (n, item) in items {
                    let want = match want {
                        Some(Ty::Struct(s)) => s.fields.iter().find(|f| f.name == n.text).map(|f| f.ty.clone()),
                        _ => None,
                    };
                    if out.iter().any(|(o, _)| o.as_ref() == Some(&n.text)) {
                        return self.err(n.span, format!("field `{}` is given twice", n.text));
                    }
                    let mark = self.cur.len();
                    let v = self.expr(item, want.as_ref())?;
                    self.value_only(&v, item.span)?;
                    self.spill_all(mark, &mut out)?;
                    out.push((Some(n.text.clone()), v));
                }
                let names = out.iter().map(|(n, v)| (n.clone().unwrap_or_default(), v.ty.clone())).collect();
                Ok(Tv { ty: Ty::Record(Rc::new(names)), k: K::Agg(out, *rest) })
            }
            ExprKind::Default => Ok(Tv { ty: Ty::Untyped, k: K::Default }),
            ExprKind::InvalidHeader => Ok(Tv { ty: Ty::Untyped, k: K::Invalid }),
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::DontCare => {
                self.err(e.span, "a set (`&&&`, `..`, `_`) can only be a key of a select case or table entry")
            }
        }
    }

    fn value_only(&mut self, v: &Tv, span: Span) -> Res<()> {
        if matches!(v.ty, Ty::Object(_) | Ty::Void | Ty::Applied(_)) {
            let what = describe(v);
            return self.err(span, format!("a value is needed here, not {what}"));
        }
        Ok(())
    }

    /// Two operands in order: when the second has effects, the first is read before them.
    pub fn pair(&mut self, a: &Expr, b: &Expr) -> Res<(Tv, Tv)> {
        let mut x = self.expr(a, None)?;
        let (mark, fresh) = (self.cur.len(), self.p.slots);
        let y = self.expr(b, None)?;
        // Values put aside in new temporaries change nothing that the first reads.
        if self.cur[mark..].iter().any(|s| !matches!(s, St::Set(slot, _) if *slot >= fresh)) {
            x = self.spill_at(mark, x)?;
        }
        Ok((x, y))
    }

    fn spill_all(&mut self, mark: usize, items: &mut [(Option<String>, Tv)]) -> Res<()> {
        let mut mark = mark;
        if self.cur.len() == mark {
            return Ok(());
        }
        for (_, v) in items.iter_mut() {
            let before = self.cur.len();
            *v = self.spill_at(mark, v.clone())?;
            mark += self.cur.len() - before;
        }
        Ok(())
    }

    /// Copies a value to temporaries by statements put in at position `mark`.
    pub fn spill_at(&mut self, mark: usize, v: Tv) -> Res<Tv> {
        if is_const(&v) || v.ty.slots() == 0 && !matches!(v.k, K::Agg(..)) {
            return Ok(v);
        }
        if let K::Agg(items, rest) = v.k {
            let mut out = Vec::new();
            let mut mark = mark;
            for (n, item) in items {
                let before = self.cur.len();
                out.push((n, self.spill_at(mark, item)?));
                mark += self.cur.len() - before;
            }
            return Ok(Tv { ty: v.ty, k: K::Agg(out, rest) });
        }
        let leaves = self.leaves(&v)?;
        let base = self.alloc(leaves.len());
        let n = leaves.len();
        let sets = leaves.into_iter().enumerate().map(|(i, e)| St::Set(base + i, e));
        let tail = self.cur.split_off(mark);
        self.cur.extend(sets);
        self.cur.extend(tail);
        Ok(Tv { ty: v.ty, k: K::Leaves((base..base + n).map(Ex::Load).collect()) })
    }

    /// The expression for each slot of a value.
    pub fn leaves(&mut self, v: &Tv) -> Res<Vec<Ex>> {
        if let K::Place(_) | K::Default | K::Invalid | K::Leaves(_) = v.k {
            self.steps = self.steps.saturating_add(v.ty.slots() as u64);
        }
        Ok(match &v.k {
            K::Int(i) => vec![int_const(i, &v.ty)],
            K::Bool(b) => vec![Ex::Const(Val::S(*b as u128))],
            K::Leaves(l) => l.clone(),
            K::Place(p) => (0..v.ty.slots()).map(|i| load(&p.offset(i).addr)).collect(),
            K::Default | K::Invalid => vec![Ex::Const(Val::S(0)); v.ty.slots()],
            K::Agg(items, _) => {
                let mut out = Vec::new();
                if v.ty.is_header() {
                    out.push(Ex::Const(Val::S(1)));
                }
                if matches!(v.ty, Ty::Stack(..)) {
                    out.push(Ex::Const(Val::S(items.len() as u128)));
                }
                for (_, item) in items {
                    out.extend(self.leaves(item)?);
                }
                let n = v.ty.slots();
                if matches!(v.ty, Ty::Stack(..)) && out.len() < n {
                    out.resize(n, Ex::Const(Val::S(0)));
                }
                out
            }
            _ => Vec::new(),
        })
    }

    pub fn scalar(&mut self, v: &Tv, span: Span) -> Res<Ex> {
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

    pub fn truth(&mut self, e: &Expr) -> Res<Tv> {
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

    /// A value known to the types as `ty`: P4_16's implicit casts (8.11.2), or an error naming both types.
    pub fn coerce(&mut self, v: Tv, ty: &Ty, span: Span) -> Res<Tv> {
        if v.ty == *ty && !matches!(v.k, K::Agg(..)) {
            return Ok(v);
        }
        let mismatch = |cx: &mut Self, v: &Tv| {
            let what = describe(v);
            let help = match (v.ty.scalar_width(), ty.scalar_width()) {
                (Some(_), Some(_)) => format!("cast it: `({ty})(...)`"),
                _ => format!("a value of type {ty} is expected"),
            };
            cx.err_help(span, format!("expected {ty}, found {what}"), help)
        };
        match (&v.k, ty.clone()) {
            // A `type` over numbers takes integers without width, as p4c has it.
            (K::Int(_), Ty::New(n)) if v.ty == Ty::Int && matches!(n.under.base(), Ty::Bit(_) | Ty::SInt(_)) => {
                let k = self.coerce(v, n.under.base(), span)?.k;
                Ok(Tv { ty: ty.clone(), k })
            }
            (K::Int(i), t @ (Ty::Bit(_) | Ty::SInt(_))) if v.ty == Ty::Int => {
                let w = t.scalar_width().unwrap_or(1);
                let (low, high) = range(w, t.is_signed());
                if *i < low || *i > high {
                    self.d.warn(span, format!("{i} does not fit {t}; its upper bits are cut off"));
                }
                Ok(Tv { k: K::Int(Val::from_int(i, w).to_int(w, t.is_signed())), ty: t })
            }
            (K::Default, t) => Ok(Tv { k: self.default_value(&t), ty: t }),
            (K::Invalid, t) if t.is_header() || t.is_union() => Ok(Tv { ty: t, k: K::Invalid }),
            (K::Agg(items, rest), t) => {
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
                                None if rest => Tv { k: self.default_value(&f.ty), ty: f.ty.clone() },
                                None => return self.err(span, format!("field `{}` of {t} is not given", f.name)),
                            };
                            out.push((Some(f.name.clone()), fv));
                        }
                        Ok(Tv { ty: t, k: K::Agg(out, false) })
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
                                None => Tv { k: self.default_value(ft), ty: ft.clone() },
                            };
                            out.push((None, fv));
                        }
                        Ok(Tv { ty: t, k: K::Agg(out, false) })
                    }
                    Ty::Stack(inner, n) => {
                        if items.len() > *n as usize {
                            return self.err(span, format!("{t} has {n} elements, {} are given", items.len()));
                        }
                        let inner = inner.clone();
                        let out = items
                            .iter()
                            .map(|(n, v)| Ok((n.clone(), self.coerce(v.clone(), &inner, span)?)))
                            .collect::<Res<Vec<_>>>()?;
                        Ok(Tv { ty: t, k: K::Agg(out, false) })
                    }
                    Ty::List(inner) => {
                        let inner = inner.clone();
                        let out = items
                            .iter()
                            .map(|(n, v)| Ok((n.clone(), self.coerce(v.clone(), &inner, span)?)))
                            .collect::<Res<Vec<_>>>()?;
                        Ok(Tv { ty: t, k: K::Agg(out, false) })
                    }
                    // A list of one member where a scalar is wanted is no cast of P4's.
                    _ => mismatch(self, &v),
                }
            }
            (_, t) => {
                if let Ty::Enum(e) = &v.ty
                    && e.under.as_ref() == Some(&t)
                {
                    return Ok(Tv { ty: t, k: v.k });
                }
                if let (Ty::Tuple(ts), Ty::Struct(s)) = (&v.ty, &t) {
                    let same = s.kind == StructKind::Struct
                        && ts.len() == s.fields.len()
                        && ts.iter().zip(&s.fields).all(|(a, f)| *a == f.ty);
                    if same {
                        return Ok(Tv { ty: t, k: v.k });
                    }
                }
                mismatch(self, &v)
            }
        }
    }

    fn default_value(&mut self, t: &Ty) -> K {
        match t.base() {
            Ty::Bool => K::Bool(false),
            Ty::Bit(_) | Ty::SInt(_) | Ty::Error | Ty::Int => K::Int(zero_int()),
            Ty::Enum(e) => match e.under {
                Some(_) => K::Int(zero_int()),
                None => K::Int(e.members[0].1.clone()),
            },
            Ty::Struct(s) if s.kind == StructKind::Struct => {
                let s = s.clone();
                self.steps = self.steps.saturating_add(s.fields.len() as u64);
                let list = s
                    .fields
                    .iter()
                    .map(|f| (Some(f.name.clone()), Tv { k: self.default_value(&f.ty), ty: f.ty.clone() }));
                K::Agg(list.collect(), false)
            }
            _ => K::Default,
        }
    }

    /// An explicit cast (P4_16 8.11.1).
    pub fn cast(&mut self, v: Tv, ty: &Ty, span: Span) -> Res<Tv> {
        if v.ty == *ty && !matches!(v.k, K::Agg(..)) {
            return Ok(v);
        }
        if matches!(v.k, K::Agg(..) | K::Default | K::Invalid) {
            return self.coerce(v, ty, span);
        }
        // Through `type` names and serializable enums to the value beneath.
        if let Ty::New(n) = &v.ty {
            let inner = Tv { ty: n.under.clone(), k: v.k };
            return self.cast(inner, ty, span);
        }
        if let Ty::New(n) = ty {
            let inner = self.cast(v, &n.under, span)?;
            return Ok(Tv { ty: ty.clone(), k: inner.k });
        }
        if let (Ty::Enum(e), false) = (&v.ty, matches!(ty, Ty::Enum(_)))
            && let Some(u) = &e.under
        {
            let inner = Tv { ty: u.clone(), k: v.k };
            return self.cast(inner, ty, span);
        }
        if let Ty::Enum(e) = ty
            && let Some(u) = &e.under
        {
            let inner = self.cast(v, u, span)?;
            return Ok(Tv { ty: ty.clone(), k: inner.k });
        }
        let to = ty.base().clone();
        if let K::Int(i) = &v.k {
            let i = i.clone();
            match (&v.ty, &to) {
                (Ty::Int | Ty::Bit(_) | Ty::SInt(_), Ty::Bit(w) | Ty::SInt(w)) => {
                    let bad = matches!((&v.ty, &to), (Ty::SInt(a), Ty::Bit(b)) | (Ty::Bit(a), Ty::SInt(b)) if a != b);
                    if !bad {
                        let k = K::Int(Val::from_int(&i, *w).to_int(*w, to.is_signed()));
                        return Ok(Tv { ty: to, k });
                    }
                }
                (Ty::Bit(_) | Ty::SInt(_), Ty::Int) => return Ok(Tv { ty: Ty::Int, k: K::Int(i) }),
                (Ty::Bit(1) | Ty::Int, Ty::Bool) if i == zero_int() || i == BigInt::from(1) => {
                    return Ok(boolean(i != zero_int()));
                }
                _ => {}
            }
        }
        if let (K::Bool(b), Ty::Bit(1)) = (&v.k, &to) {
            return Ok(Tv { ty: to, k: K::Int(BigInt::from(*b as u8)) });
        }
        let from = v.ty.clone();
        let e = match (&from, &to) {
            (Ty::Bit(1), Ty::Bool) | (Ty::Bool, Ty::Bit(1)) => self.scalar(&v, span)?,
            (Ty::Bit(a), Ty::SInt(b)) | (Ty::SInt(a), Ty::Bit(b)) if a == b => self.scalar(&v, span)?,
            (Ty::Bit(a), Ty::Bit(b)) => {
                let x = self.scalar(&v, span)?;
                if b < a { Ex::Slice(Box::new(x), 0, *b) } else { x }
            }
            (Ty::SInt(a), Ty::SInt(b)) => Ex::SignExtend(Box::new(self.scalar(&v, span)?), *a, *b),
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

    fn slice(&mut self, b: Tv, lo: &BigInt, w: u32, span: Span) -> Res<Tv> {
        if let (K::Int(i), Ty::Int) = (&b.k, &b.ty) {
            let Some(lo) = lo.to_u32().filter(|n| *n < 4096 && w < 4096) else {
                return self.err(span, "slice is out of range");
            };
            let v = Val::from_int(&(i >> lo), w).to_int(w, false);
            return Ok(Tv { ty: Ty::Bit(w), k: K::Int(v) });
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
        if let K::Int(i) = &b.k {
            let v = Val::from_int(i, total).shr(lo as usize).mask(w).to_int(w, false);
            return Ok(Tv { ty: Ty::Bit(w), k: K::Int(v) });
        }
        let x = self.scalar(&b, span)?;
        Ok(leaf(Ty::Bit(w), Ex::Slice(Box::new(x), lo, w)))
    }

    fn unary(&mut self, op: UnOp, a: &Expr, want: Option<&Ty>) -> Res<Tv> {
        let v = self.expr(a, want)?;
        let what = describe(&v);
        let base = v.ty.base().clone();
        match (op, &v.k, &base) {
            (UnOp::Not, K::Bool(b), _) => Ok(boolean(!b)),
            (UnOp::Not, _, Ty::Bool) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(Ty::Bool, Ex::Not(Box::new(x))))
            }
            (UnOp::Plus, _, Ty::Int | Ty::Bit(_) | Ty::SInt(_)) => Ok(v),
            (UnOp::Neg, K::Int(i), Ty::Int) => Ok(Tv { ty: Ty::Int, k: K::Int(-i) }),
            (UnOp::Neg | UnOp::BitNot, K::Int(i), Ty::Bit(w) | Ty::SInt(w)) => {
                let r = if op == UnOp::Neg { -i } else { !i };
                let k = K::Int(Val::from_int(&r, *w).to_int(*w, base.is_signed()));
                Ok(Tv { ty: v.ty, k })
            }
            (UnOp::Neg, _, Ty::Bit(w) | Ty::SInt(w)) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(v.ty, Ex::Neg(*w, Box::new(x))))
            }
            (UnOp::BitNot, _, Ty::Bit(w) | Ty::SInt(w)) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(v.ty, Ex::BitNot(*w, Box::new(x))))
            }
            _ => {
                let (sign, wants) = match op {
                    UnOp::Not => ("!", "bool"),
                    UnOp::BitNot => ("~", "bit<W> or int<W>"),
                    UnOp::Neg => ("-", "a number"),
                    UnOp::Plus => ("+", "a number"),
                };
                self.err(a.span, format!("`{sign}` needs {wants}, found {what}"))
            }
        }
    }

    fn ternary(&mut self, c: &Expr, a: &Expr, b: &Expr, want: Option<&Ty>, span: Span) -> Res<Tv> {
        let cond = self.truth(c)?;
        let (first, x) = self.collect(|cx| cx.expr(a, want))?;
        let (second, y) = self.collect(|cx| cx.expr(b, want))?;
        let constant = match cond.k {
            K::Bool(b) => Some(b),
            _ => None,
        };
        let ty = match (&x.ty, &y.ty) {
            _ if want.is_some_and(|w| !Self::has_vars(w) && w.slots() > 0)
                && (matches!((&x.k, &y.k), (K::Agg(..), _) | (_, K::Agg(..)) | (K::Default | K::Invalid, _))
                    || x.ty == Ty::Int && y.ty == Ty::Int) =>
            {
                want.cloned().unwrap_or(Ty::Void)
            }
            (Ty::Int, t) => t.clone(),
            (Ty::Untyped, t) => t.clone(),
            (t, _) => t.clone(),
        };
        let (x, y) = (self.coerce(x, &ty, a.span)?, self.coerce(y, &ty, b.span)?);
        if let Some(v) = constant {
            self.cur.extend(if v { first } else { second });
            return Ok(if v { x } else { y });
        }
        if ty == Ty::Int || ty.slots() == 0 {
            let help = "give one of the two a width, e.g. `8w1`";
            return self.err_help(span, "the type of this choice is not known", help);
        }
        let cond = self.scalar(&cond, c.span)?;
        let (xs, ys) = (self.leaves(&x)?, self.leaves(&y)?);
        if first.is_empty() && second.is_empty() {
            let list = xs.into_iter().zip(ys).map(|(x, y)| Ex::Cond(Box::new((cond.clone(), x, y)))).collect();
            return Ok(Tv { ty, k: K::Leaves(list) });
        }
        let base = self.alloc(ty.slots());
        let n = xs.len();
        let arm = |mut block: Vec<St>, list: Vec<Ex>| {
            block.extend(list.into_iter().enumerate().map(|(i, e)| St::Set(base + i, e)));
            block
        };
        let st = St::If(cond, arm(first, xs), arm(second, ys));
        self.emit(st);
        Ok(Tv { ty, k: K::Leaves((base..base + n).map(Ex::Load).collect()) })
    }

    pub fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span) -> Res<Tv> {
        if matches!(op, BinOp::LAnd | BinOp::LOr) {
            return self.logical(op, a, b);
        }
        let (x, y) = self.pair(a, b)?;
        self.operate(op, x, y, a.span, b.span, span)
    }

    fn logical(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Res<Tv> {
        let x = self.truth(a)?;
        let (made, y) = self.collect(|cx| cx.truth(b))?;
        let is_and = op == BinOp::LAnd;
        if let K::Bool(v) = x.k {
            if v == is_and {
                self.cur.extend(made);
                return Ok(y);
            }
            return Ok(boolean(v));
        }
        let (p, q) = (self.scalar(&x, a.span)?, self.scalar(&y, b.span)?);
        if made.is_empty() {
            let pair = Box::new((p, q));
            return Ok(leaf(Ty::Bool, if is_and { Ex::LAnd(pair) } else { Ex::LOr(pair) }));
        }
        let t = self.alloc(1);
        self.emit(St::Set(t, p));
        let mut made = made;
        made.push(St::Set(t, q));
        let (yes, no) = if is_and { (made, vec![]) } else { (vec![], made) };
        self.emit(St::If(Ex::Load(t), yes, no));
        Ok(leaf(Ty::Bool, Ex::Load(t)))
    }

    pub fn operate(&mut self, op: BinOp, x: Tv, y: Tv, xs: Span, ys: Span, span: Span) -> Res<Tv> {
        use BinOp::*;
        let bad = |cx: &mut Self, x: &Tv, y: &Tv, help: &str| -> Res<Tv> {
            let m = format!("`{}` cannot be used with {} and {}", op.text(), describe(x), describe(y));
            cx.err_help(span, m, help)
        };
        if matches!(op, Shl | Shr) {
            return self.shift(op == Shl, x, y, ys, span);
        }
        // Serializable enums stand for their numbers, except when compared with their like.
        let lift = |v: Tv, other: &Ty| match &v.ty {
            Ty::Enum(e) if e.under.is_some() && v.ty != *other => Tv { ty: e.under.clone().unwrap_or(Ty::Int), k: v.k },
            _ => v,
        };
        let (xt, yt) = (x.ty.clone(), y.ty.clone());
        let arithmetic = !matches!(op, Eq | Ne);
        let (mut x, mut y) =
            if arithmetic { (lift(x, &Ty::Void), lift(y, &Ty::Void)) } else { (lift(x, &yt), lift(y, &xt)) };
        if op == Concat {
            let (Some(w1), Some(w2)) = (number_width(&x.ty), number_width(&y.ty)) else {
                return bad(self, &x, &y, "`++` joins bit<W> and int<W> values; an integer needs a width, e.g. `8w0`");
            };
            let w = w1 + w2;
            if w > MAX_WIDTH {
                return self.err(span, format!("{w} bits are more than the largest width, {MAX_WIDTH}"));
            }
            let ty = if x.ty.is_signed() { Ty::SInt(w) } else { Ty::Bit(w) };
            if let (K::Int(a), K::Int(b)) = (&x.k, &y.k) {
                let v = (Val::from_int(a, w1).to_int(w1, false) << w2) + Val::from_int(b, w2).to_int(w2, false);
                return Ok(Tv { k: K::Int(Val::from_int(&v, w).to_int(w, ty.is_signed())), ty });
            }
            let (p, q) = (self.scalar(&x, xs)?, self.scalar(&y, ys)?);
            return Ok(leaf(ty, Ex::Concat(Box::new((p, q)), w2)));
        }
        // An integer without width takes the other's type; lists take the other's too.
        if x.ty != y.ty || matches!((&x.k, &y.k), (K::Agg(..), _) | (_, K::Agg(..))) {
            let movable = |v: &Tv| v.ty == Ty::Int || matches!(v.k, K::Agg(..) | K::Default | K::Invalid);
            let joined = if movable(&x) && !movable(&y) {
                self.coerce(x.clone(), &y.ty.clone(), xs).map(|n| x = n)
            } else if movable(&y) && !movable(&x) {
                self.coerce(y.clone(), &x.ty.clone(), ys).map(|n| y = n)
            } else {
                Ok(())
            };
            joined?;
        }
        let both_agg = matches!((&x.k, &y.k), (K::Agg(..), K::Agg(..)));
        if x.ty != y.ty && !(both_agg && x.ty.slots() == y.ty.slots() && x.ty.slots() > 0) {
            return bad(self, &x, &y, "both sides must have one type; cast one of them");
        }
        let base = x.ty.base().clone();
        if matches!(op, Eq | Ne) {
            let eq = self.equal(&x, &y, xs, ys, span)?;
            return Ok(match (op, eq) {
                (Eq, v) => v,
                (_, Tv { k: K::Bool(b), .. }) => boolean(!b),
                (_, v) => {
                    let e = self.scalar(&v, span)?;
                    leaf(Ty::Bool, Ex::Not(Box::new(e)))
                }
            });
        }
        let is_int = base == Ty::Int;
        let signed = base.is_signed();
        let numeric = is_int || number_width(&base).is_some();
        let newtype = matches!(x.ty, Ty::New(_));
        if !numeric || newtype {
            return bad(self, &x, &y, "both sides must be bit<W>, int<W> or int of one type");
        }
        if matches!(op, AddSat | SubSat) && is_int {
            return bad(self, &x, &y, "saturating arithmetic needs a width, e.g. `8w1`");
        }
        if matches!(op, Div | Mod) && signed {
            return bad(self, &x, &y, "`/` and `%` are for int and bit<W>");
        }
        let w = base.scalar_width().unwrap_or(0);
        if let (K::Int(a), K::Int(b)) = (&x.k, &y.k) {
            if matches!(op, Div | Mod) && *b <= zero_int() {
                return self.err(ys, format!("the right side of `{}` must be positive, not {b}", op.text()));
            }
            let zero = zero_int();
            if is_int && matches!(op, Div | Mod) && *a < zero {
                return self.err(xs, format!("the left side of `{}` must not be negative", op.text()));
            }
            let r = match op {
                Add | AddSat => a + b,
                Sub | SubSat => a - b,
                Mul => a * b,
                Div => a / b,
                Mod => a % b,
                And => a & b,
                Or => a | b,
                Xor => a ^ b,
                Lt => return Ok(boolean(a < b)),
                Le => return Ok(boolean(a <= b)),
                Gt => return Ok(boolean(a > b)),
                _ => return Ok(boolean(a >= b)),
            };
            if is_int {
                if r.bits() > 16384 {
                    return self.err(span, "this constant has more than 16384 bits");
                }
                return Ok(Tv { ty: Ty::Int, k: K::Int(r) });
            }
            let (low, high) = range(w, signed);
            let r =
                if matches!(op, AddSat | SubSat) { r.clamp(low, high) } else { Val::from_int(&r, w).to_int(w, signed) };
            return Ok(Tv { ty: x.ty, k: K::Int(r) });
        }
        if matches!(op, Div | Mod)
            && let K::Int(b) = &y.k
            && b.is_zero()
        {
            return self.err(ys, "division by zero");
        }
        let ty = if matches!(op, Lt | Le | Gt | Ge) { Ty::Bool } else { x.ty.clone() };
        let (p, q) = (self.scalar(&x, xs)?, self.scalar(&y, ys)?);
        let (code, swap) = match (op, signed) {
            (Add, _) => (Op::Add, false),
            (Sub, _) => (Op::Sub, false),
            (Mul, _) => (Op::Mul, false),
            (Div, _) => (Op::Div, false),
            (Mod, _) => (Op::Mod, false),
            (And, _) => (Op::And, false),
            (Or, _) => (Op::Or, false),
            (Xor, _) => (Op::Xor, false),
            (AddSat, false) => (Op::AddSat, false),
            (AddSat, true) => (Op::AddSatS, false),
            (SubSat, false) => (Op::SubSat, false),
            (SubSat, true) => (Op::SubSatS, false),
            (Lt, false) => (Op::Lt, false),
            (Lt, true) => (Op::LtS, false),
            (Le, false) => (Op::Le, false),
            (Le, true) => (Op::LeS, false),
            (Gt, false) => (Op::Lt, true),
            (Gt, true) => (Op::LtS, true),
            (Ge, false) => (Op::Le, true),
            (_, _) => (if signed { Op::LeS } else { Op::Le }, true),
        };
        let (p, q) = if swap { (q, p) } else { (p, q) };
        Ok(leaf(ty, both(code, w, p, q)))
    }

    fn shift(&mut self, left: bool, x: Tv, y: Tv, ys: Span, span: Span) -> Res<Tv> {
        let sign = if left { "<<" } else { ">>" };
        let x = match &x.ty {
            Ty::Enum(e) if e.under.is_some() => Tv { ty: e.under.clone().unwrap_or(Ty::Int), k: x.k },
            _ => x,
        };
        if !matches!(y.ty, Ty::Int | Ty::Bit(_)) && !matches!(y, Tv { ty: Ty::SInt(_), k: K::Int(_) }) {
            let what = describe(&y);
            return self.err_help(
                ys,
                format!("a shift count must be bit<W> or a constant, not {what}"),
                "cast it to bit<W>",
            );
        }
        if let K::Int(n) = &y.k
            && *n < zero_int()
        {
            return self.err(ys, format!("shift count {n} is negative"));
        }
        match (&x.ty, &x.k, &y.k) {
            (Ty::Int, K::Int(a), K::Int(n)) => {
                let Some(n) = n.to_u32().filter(|n| *n <= 8192 && a.bits() <= 8192) else {
                    return self.err(ys, format!("shift count {n} is too large for a constant"));
                };
                Ok(Tv { ty: Ty::Int, k: K::Int(if left { a << n } else { a >> n }) })
            }
            (Ty::Bit(w) | Ty::SInt(w), K::Int(a), K::Int(n)) => {
                let (w, signed) = (*w, x.ty.is_signed());
                let n = n.to_u32().unwrap_or(u32::MAX).min(w);
                let r = if left { a << n } else { a >> n };
                Ok(Tv { k: K::Int(Val::from_int(&r, w).to_int(w, signed)), ty: x.ty })
            }
            (Ty::Bit(w) | Ty::SInt(w), _, _) => {
                let w = *w;
                let code = match (left, x.ty.is_signed()) {
                    (true, _) => Op::Shl,
                    (false, false) => Op::Shr,
                    (false, true) => Op::Sar,
                };
                let p = self.scalar(&x, span)?;
                let q = match &y.k {
                    K::Int(n) => Ex::Const(Val::from_int(n, MAX_WIDTH)),
                    _ => self.scalar(&y, ys)?,
                };
                Ok(leaf(x.ty, both(code, w, p, q)))
            }
            (Ty::Int, _, _) => {
                let help = "give it a width, e.g. `32w1`";
                self.err_help(span, format!("the left side of `{sign}` has no width"), help)
            }
            _ => {
                let what = describe(&x);
                self.err(span, format!("`{sign}` needs a number on its left, not {what}"))
            }
        }
    }

    fn equal(&mut self, x: &Tv, y: &Tv, xs: Span, ys: Span, span: Span) -> Res<Tv> {
        match (&x.k, &y.k) {
            (K::Int(a), K::Int(b)) => return Ok(boolean(a == b)),
            (K::Bool(a), K::Bool(b)) => return Ok(boolean(a == b)),
            (K::Str(a), K::Str(b)) => return Ok(boolean(a == b)),
            _ => {}
        }
        if x.ty.slots() == 0 {
            let what = describe(x);
            return self.err(span, format!("{what} cannot be compared"));
        }
        if x.ty.slots() == 1 {
            let (p, q) = (self.scalar(x, xs)?, self.scalar(y, ys)?);
            return Ok(leaf(Ty::Bool, both(Op::Eq, 0, p, q)));
        }
        let (p, q) = (self.leaves(x)?, self.leaves(y)?);
        Ok(leaf(Ty::Bool, equal_leaves(&x.ty, &p, &q)))
    }

    fn member(&mut self, base: &Expr, name: &Name) -> Res<Tv> {
        let b = self.expr(base, None)?;
        self.member_of(b, name)
    }

    pub fn member_of(&mut self, b: Tv, name: &Name) -> Res<Tv> {
        let n = name.text.as_str();
        if let K::Type(def) = &b.k {
            return self.type_member(def.clone(), name);
        }
        match &b.ty {
            Ty::Struct(s) => {
                let s = s.clone();
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
                        return Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(b), name.clone()) });
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
                let k = match &b.k {
                    K::Place(p) => {
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
                        K::Place(at)
                    }
                    K::Leaves(l) => K::Leaves(l[f.offset..f.offset + f.ty.slots()].to_vec()),
                    K::Agg(items, _) => match items.get(i) {
                        Some((_, v)) => v.k.clone(),
                        None => K::Default,
                    },
                    _ => K::Default,
                };
                Ok(Tv { ty: f.ty.clone(), k })
            }
            Ty::Record(fields) => {
                let at = fields.iter().position(|(f, _)| f == n);
                match (at, &b.k) {
                    (Some(i), K::Agg(items, _)) => Ok(items[i].1.clone()),
                    _ => self.err(name.span, format!("{} has no field `{n}`", b.ty)),
                }
            }
            Ty::Stack(t, len) => {
                let (t, len) = ((**t).clone(), *len as usize);
                match n {
                    "size" => Ok(Tv { ty: Ty::Bit(32), k: K::Int(BigInt::from(len)) }),
                    "push_front" | "pop_front" | "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits"
                    | "maxSizeInBytes" => {
                        Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(b), name.clone()) })
                    }
                    "next" | "last" | "lastIndex" => {
                        if self.place != Where::Parser {
                            let help = "use an index, e.g. `[0]`";
                            return self.err_help(name.span, format!("`{n}` can only be used in a parser"), help);
                        }
                        let K::Place(p) = &b.k else {
                            return self.err(name.span, format!("`{n}` needs a stack that is a variable"));
                        };
                        let index = self.alloc(1);
                        self.emit(St::Set(index, load(&p.addr)));
                        if n == "lastIndex" {
                            let e = both(Op::Sub, 32, Ex::Load(index), Ex::Const(Val::S(1)));
                            return Ok(leaf(Ty::Bit(32), e));
                        }
                        let bias = if n == "last" { -1 } else { 0 };
                        let mut at = self.element(p, &t, DynIndex { index, bias, stride: t.slots(), len });
                        self.emit(St::CheckIndex(at.addr.clone()));
                        if n == "next" {
                            at.next_of = Some((p.addr.clone(), len));
                        }
                        Ok(Tv { ty: t, k: K::Place(at) })
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
                let (hit, run) = (self.p.tables[t].hit, self.p.tables[t].action_run);
                // The result is read now: another apply of the same table must not change it.
                let tmp = self.alloc(1);
                match n {
                    "hit" | "miss" => {
                        self.emit(St::Set(tmp, Ex::Load(hit)));
                        let e = Ex::Load(tmp);
                        Ok(leaf(Ty::Bool, if n == "hit" { e } else { Ex::Not(Box::new(e)) }))
                    }
                    "action_run" => {
                        self.emit(St::Set(tmp, Ex::Load(run)));
                        Ok(leaf(Ty::ActionRun(t), Ex::Load(tmp)))
                    }
                    _ => self.err(name.span, format!("apply() has hit, miss and action_run, not `{n}`")),
                }
            }
            _ => match &b.k {
                K::Ext(_) | K::Table(_) | K::Inst(_) | K::ValueSet(_) => {
                    Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(b), name.clone()) })
                }
                _ if matches!(n, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes") => {
                    Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(b), name.clone()) })
                }
                _ => {
                    let what = describe(&b);
                    self.err(name.span, format!("{what} has no member `{n}`"))
                }
            },
        }
    }

    fn type_member(&mut self, def: TypeDef, name: &Name) -> Res<Tv> {
        let n = name.text.as_str();
        match &def {
            TypeDef::Ty(Ty::Enum(e)) => {
                let e = e.clone();
                match e.members.iter().find(|(m, _)| m == n) {
                    Some((_, v)) => Ok(Tv { ty: Ty::Enum(e.clone()), k: K::Int(v.clone()) }),
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
            TypeDef::Ty(Ty::Error) => match self.p.errors.iter().position(|e| e == n) {
                Some(i) => Ok(Tv { ty: Ty::Error, k: K::Int(BigInt::from(i)) }),
                None => {
                    let close = Self::similar(n, self.p.errors.iter().map(String::as_str)).map(str::to_string);
                    let help = match close {
                        Some(c) => format!("did you mean `error.{c}`?"),
                        None => format!("declare it: `error {{ {n} }}`"),
                    };
                    self.err_help(name.span, format!("error `{n}` is not declared"), help)
                }
            },
            TypeDef::Ty(Ty::Block(_)) if n == "apply" => {
                Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(type_tv(def)), name.clone()) })
            }
            TypeDef::Ty(_) if matches!(n, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes") => {
                Ok(Tv { ty: Ty::Object("a method"), k: K::Method(Box::new(type_tv(def)), name.clone()) })
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

    fn index(&mut self, base: &Expr, i: &Expr) -> Res<Tv> {
        let b = self.expr(base, None)?;
        let mark = self.cur.len();
        let idx = self.expr(i, None)?;
        match &b.ty {
            Ty::Tuple(ts) => {
                let ts = ts.clone();
                let K::Int(n) = &idx.k else {
                    return self.err(i.span, "the index of a tuple must be constant");
                };
                let Some(n) = n.to_usize().filter(|n| *n < ts.len()) else {
                    return self.err(i.span, format!("index {n} is outside {}", b.ty));
                };
                let offset: usize = ts[..n].iter().map(Ty::slots).sum();
                let ty = ts[n].clone();
                let k = match &b.k {
                    K::Place(p) => K::Place(p.offset(offset)),
                    K::Leaves(l) => K::Leaves(l[offset..offset + ty.slots()].to_vec()),
                    K::Agg(items, _) => items[n].1.k.clone(),
                    _ => K::Default,
                };
                Ok(Tv { ty, k })
            }
            Ty::List(t) => match (&b.k, &idx.k) {
                (K::Agg(items, _), K::Int(n)) if n.to_usize().is_some_and(|n| n < items.len()) => {
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
                if let K::Int(n) = &idx.k {
                    let Some(n) = n.to_usize().filter(|n| *n < len) else {
                        let help = format!("its elements are 0 to {}", len - 1);
                        return self.err_help(i.span, format!("index {n} is outside {}", b.ty), help);
                    };
                    let k = match &b.k {
                        K::Place(p) => K::Place(p.offset(1 + n * stride)),
                        K::Leaves(l) => K::Leaves(l[1 + n * stride..1 + (n + 1) * stride].to_vec()),
                        K::Agg(items, _) => items.get(n).map_or(K::Default, |(_, v)| v.k.clone()),
                        _ => K::Default,
                    };
                    return Ok(Tv { ty: t, k });
                }
                if !matches!(idx.ty.base(), Ty::Bit(_) | Ty::SInt(_) | Ty::Enum(_)) {
                    let what = describe(&idx);
                    return self.err(i.span, format!("a stack's index must be a number, not {what}"));
                }
                let e = self.scalar(&idx, i.span)?;
                let place = match &b.k {
                    K::Place(p) => p.clone(),
                    _ => {
                        let leaves = self.leaves(&b)?;
                        let slot = self.alloc(leaves.len());
                        let sets: Vec<St> = leaves.into_iter().enumerate().map(|(k, e)| St::Set(slot + k, e)).collect();
                        let tail = self.cur.split_off(mark);
                        self.cur.extend(sets);
                        self.cur.extend(tail);
                        Place::at(slot)
                    }
                };
                let index = self.alloc(1);
                self.emit(St::Set(index, e));
                let at = self.element(&place, &t, DynIndex { index, bias: 0, stride, len });
                Ok(Tv { ty: t, k: K::Place(at) })
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

    /// What an assignment or `out` argument writes to.
    pub fn lvalue(&mut self, e: &Expr) -> Res<Lv> {
        match &e.kind {
            ExprKind::Slice(base, hi, lo) => {
                let b = self.lvalue(base)?;
                let hi_v = self.const_int(hi, "the high end of a slice")?;
                let lo_v = self.const_int(lo, "the low end of a slice")?;
                let w = (&hi_v - &lo_v + 1u32).to_i64().unwrap_or(-1);
                self.slice_lvalue(b, &lo_v, w, e.span)
            }
            ExprKind::PlusSlice(base, lo, w) => {
                let b = self.lvalue(base)?;
                let l = self.expr(lo, None)?;
                let K::Int(lo_v) = l.k else {
                    return self.unsupported(lo.span, "assigning a slice whose position is not constant");
                };
                let w = self.const_int(w, "the width of a slice")?.to_i64().unwrap_or(-1);
                self.slice_lvalue(b, &lo_v, w, e.span)
            }
            _ => {
                let v = self.expr(e, None)?;
                let what = describe(&v);
                match v.k {
                    K::Place(place) => {
                        if let Some(why) = place.read_only {
                            return self.err_help(
                                e.span,
                                format!("this cannot be changed: it is {why}"),
                                "copy it to a variable first",
                            );
                        }
                        Ok(Lv { place, ty: v.ty, slice: None })
                    }
                    _ => self.err(e.span, format!("{what} cannot be assigned to")),
                }
            }
        }
    }

    fn slice_lvalue(&mut self, b: Lv, lo: &BigInt, w: i64, span: Span) -> Res<Lv> {
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
        Ok(Lv { place: b.place, ty: Ty::Bit(w as u32), slice })
    }

    /// Reads back what an lvalue holds.
    pub fn read_lv(&mut self, lv: &Lv) -> Tv {
        match lv.slice {
            None => Tv { ty: lv.ty.clone(), k: K::Place(lv.place.clone()) },
            Some((lo, w, _)) => leaf(lv.ty.clone(), Ex::Slice(Box::new(load(&lv.place.addr)), lo, w)),
        }
    }

    /// Assigns a value of the lvalue's own type.
    pub fn assign(&mut self, lv: &Lv, v: Tv, span: Span) -> Res<()> {
        match lv.slice {
            None => self.store(&lv.place, &lv.ty, v, span),
            Some((lo, w, whole)) => {
                let x = self.scalar(&v, span)?;
                let mask = Val::all_ones(w).shl(lo as usize, whole);
                let keep = both(Op::And, whole, load(&lv.place.addr), Ex::Const(mask.not(whole)));
                let moved = both(Op::Shl, whole, x, Ex::Const(Val::S(lo as u128)));
                self.set(&lv.place.addr, both(Op::Or, whole, keep, moved));
                Ok(())
            }
        }
    }

    pub fn set(&mut self, addr: &Addr, e: Ex) {
        if addr.dyns.is_empty() {
            self.emit(St::Set(addr.base, e));
        } else {
            self.emit(St::SetAt(addr.clone(), e));
        }
    }

    pub fn store(&mut self, place: &Place, ty: &Ty, v: Tv, span: Span) -> Res<()> {
        if let K::Place(from) = &v.k
            && ty.slots() != 1
        {
            let st = St::Copy(from.addr.clone(), place.addr.clone(), ty.slots());
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
        if leaves.len() > 1 && leaves.iter().any(|e| !matches!(e, Ex::Const(_))) {
            let base = self.alloc(leaves.len());
            for (i, e) in leaves.drain(..).enumerate() {
                self.emit(St::Set(base + i, e));
            }
            let n = ty.slots();
            self.emit(St::Copy(Place::at(base).addr, place.addr.clone(), n));
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
            self.emit(St::OnlyMember(r));
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
    pub fn validity(&mut self, v: &Tv) -> Ex {
        let first = |k: &K, at: usize| match k {
            K::Place(p) => load(&p.offset(at).addr),
            K::Leaves(l) => l[at].clone(),
            K::Agg(..) => Ex::Const(Val::S(1)),
            _ => Ex::Const(Val::S(0)),
        };
        match &v.ty {
            Ty::Struct(s) if s.kind == StructKind::Union => s
                .fields
                .iter()
                .map(|f| first(&v.k, f.offset))
                .reduce(|a, b| Ex::LOr(Box::new((a, b))))
                .unwrap_or(Ex::Const(Val::S(0))),
            _ => first(&v.k, 0),
        }
    }
}

fn number_width(t: &Ty) -> Option<u32> {
    match t {
        Ty::Bit(w) | Ty::SInt(w) => Some(*w),
        _ => None,
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

/// Equality as P4_16 defines it for each type: headers are equal when both are invalid, or both valid with equal
/// fields.
fn equal_leaves(t: &Ty, a: &[Ex], b: &[Ex]) -> Ex {
    let eq = |x: &Ex, y: &Ex| both(Op::Eq, 0, x.clone(), y.clone());
    // In halves: as a chain it would nest as deep as there are fields.
    fn all(mut list: Vec<Ex>) -> Ex {
        while list.len() > 1 {
            let mut rest = list.into_iter();
            let mut halves = Vec::new();
            while let Some(a) = rest.next() {
                halves.push(match rest.next() {
                    Some(b) => and(a, b),
                    None => a,
                });
            }
            list = halves;
        }
        list.pop().unwrap_or(Ex::Const(Val::S(1)))
    }
    match t {
        Ty::Struct(s) => {
            let fields = s.fields.iter().map(|f| {
                let n = f.ty.slots();
                equal_leaves(&f.ty, &a[f.offset..f.offset + n], &b[f.offset..f.offset + n])
            });
            let fields = all(fields.collect());
            if s.kind == StructKind::Header {
                let same = and(eq(&a[0], &b[0]), Ex::LOr(Box::new((Ex::Not(Box::new(a[0].clone())), fields))));
                return same;
            }
            fields
        }
        Ty::Tuple(ts) => {
            let mut at = 0;
            let mut list = Vec::new();
            for t in ts.iter() {
                let n = t.slots();
                list.push(equal_leaves(t, &a[at..at + n], &b[at..at + n]));
                at += n;
            }
            all(list)
        }
        Ty::Stack(t, n) => {
            let k = t.slots();
            let each = (0..*n as usize).map(|i| {
                let r = 1 + i * k..1 + (i + 1) * k;
                equal_leaves(t, &a[r.clone()], &b[r])
            });
            all(each.collect())
        }
        Ty::New(n) => equal_leaves(&n.under, a, b),
        Ty::Varbit(_) => and(eq(&a[0], &b[0]), eq(&a[1], &b[1])),
        _ => eq(&a[0], &b[0]),
    }
}
