// SPDX-License-Identifier: Apache-2.0
//! Operators: their types, folding of constants, and their code.
use crate::check::prelude::*;

impl Context<'_> {
    pub fn unary(&mut self, op: UnaryOperator, a: &Expr, want: Option<&Ty>) -> Checked<TypedValue> {
        let v = self.expr(a, want)?;
        let what = describe(&v);
        let base = v.ty.base().clone();
        match (op, &v.kind, &base) {
            (UnaryOperator::Not, ValueKind::Bool(b), _) => Ok(boolean(!b)),
            (UnaryOperator::Not, _, Ty::Bool) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(Ty::Bool, Expression::Not(Box::new(x))))
            }
            (UnaryOperator::Plus, _, Ty::Int | Ty::Bit(_) | Ty::SInt(_)) => Ok(v),
            (UnaryOperator::Neg, ValueKind::Int(i), Ty::Int) => {
                Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(-i) })
            }
            (UnaryOperator::Neg | UnaryOperator::BitNot, ValueKind::Int(i), Ty::Bit(w) | Ty::SInt(w)) => {
                let r = if op == UnaryOperator::Neg { -i } else { !i };
                let k = ValueKind::Int(Val::from_int(&r, *w).to_int(*w, base.is_signed()));
                Ok(TypedValue { ty: v.ty, kind: k })
            }
            (UnaryOperator::Neg, _, Ty::Bit(w) | Ty::SInt(w)) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(v.ty, Expression::Neg(*w, Box::new(x))))
            }
            (UnaryOperator::BitNot, _, Ty::Bit(w) | Ty::SInt(w)) => {
                let x = self.scalar(&v, a.span)?;
                Ok(leaf(v.ty, Expression::BitNot(*w, Box::new(x))))
            }
            _ => {
                let (sign, wants) = match op {
                    UnaryOperator::Not => ("!", "bool"),
                    UnaryOperator::BitNot => ("~", "bit<W> or int<W>"),
                    UnaryOperator::Neg => ("-", "a number"),
                    UnaryOperator::Plus => ("+", "a number"),
                };
                self.err(a.span, format!("`{sign}` needs {wants}, found {what}"))
            }
        }
    }

    pub fn ternary(&mut self, c: &Expr, a: &Expr, b: &Expr, want: Option<&Ty>, span: Span) -> Checked<TypedValue> {
        let cond = self.truth(c)?;
        let (first, x) = self.collect(|context| context.expr(a, want))?;
        let (second, y) = self.collect(|context| context.expr(b, want))?;
        let constant = match cond.kind {
            ValueKind::Bool(b) => Some(b),
            _ => None,
        };
        let ty = match (&x.ty, &y.ty) {
            _ if want.is_some_and(|w| !Self::has_vars(w) && w.slots() > 0)
                && (matches!(
                    (&x.kind, &y.kind),
                    (ValueKind::Aggregate(..), _)
                        | (_, ValueKind::Aggregate(..))
                        | (ValueKind::Default | ValueKind::Invalid, _)
                ) || x.ty == Ty::Int && y.ty == Ty::Int) =>
            {
                want.cloned().unwrap_or(Ty::Void)
            }
            (Ty::Int, t) => t.clone(),
            (Ty::Untyped, t) => t.clone(),
            (t, _) => t.clone(),
        };
        let (x, y) = (self.coerce(x, &ty, a.span)?, self.coerce(y, &ty, b.span)?);
        if let Some(v) = constant {
            self.code.extend(if v { first } else { second });
            return Ok(if v { x } else { y });
        }
        if ty == Ty::Int || ty.slots() == 0 {
            let help = "give one of the two a width, e.g. `8w1`";
            return self.err_help(span, "the type of this choice is not known", help);
        }
        let cond = self.scalar(&cond, c.span)?;
        let (xs, ys) = (self.leaves(&x)?, self.leaves(&y)?);
        if first.is_empty() && second.is_empty() {
            let list = xs.into_iter().zip(ys).map(|(x, y)| Expression::Cond(Box::new((cond.clone(), x, y)))).collect();
            return Ok(TypedValue { ty, kind: ValueKind::Leaves(list) });
        }
        let base = self.alloc(ty.slots());
        let n = xs.len();
        let arm = |mut block: Vec<Statement>, list: Vec<Expression>| {
            block.extend(list.into_iter().enumerate().map(|(i, e)| Statement::Set(base + i, e)));
            block
        };
        let st = Statement::If(cond, arm(first, xs), arm(second, ys));
        self.emit(st);
        Ok(TypedValue { ty, kind: ValueKind::Leaves((base..base + n).map(Expression::Load).collect()) })
    }

    pub fn binary(&mut self, op: BinaryOperator, a: &Expr, b: &Expr, span: Span) -> Checked<TypedValue> {
        if matches!(op, BinaryOperator::LAnd | BinaryOperator::LOr) {
            return self.logical(op, a, b);
        }
        let (x, y) = self.pair(a, b)?;
        self.operate(op, x, y, a.span, b.span, span)
    }

    fn logical(&mut self, op: BinaryOperator, a: &Expr, b: &Expr) -> Checked<TypedValue> {
        let x = self.truth(a)?;
        let (made, y) = self.collect(|context| context.truth(b))?;
        let is_and = op == BinaryOperator::LAnd;
        if let ValueKind::Bool(v) = x.kind {
            if v == is_and {
                self.code.extend(made);
                return Ok(y);
            }
            return Ok(boolean(v));
        }
        let (p, q) = (self.scalar(&x, a.span)?, self.scalar(&y, b.span)?);
        if made.is_empty() {
            let pair = Box::new((p, q));
            return Ok(leaf(Ty::Bool, if is_and { Expression::LAnd(pair) } else { Expression::LOr(pair) }));
        }
        let t = self.alloc(1);
        self.emit(Statement::Set(t, p));
        let mut made = made;
        made.push(Statement::Set(t, q));
        let (yes, no) = if is_and { (made, vec![]) } else { (vec![], made) };
        self.emit(Statement::If(Expression::Load(t), yes, no));
        Ok(leaf(Ty::Bool, Expression::Load(t)))
    }

    pub fn operate(
        &mut self,
        op: BinaryOperator,
        x: TypedValue,
        y: TypedValue,
        xs: Span,
        ys: Span,
        span: Span,
    ) -> Checked<TypedValue> {
        use BinaryOperator::*;
        if matches!(op, Shl | Shr) {
            return self.shift(op == Shl, x, y, ys, span);
        }
        // Serializable enums stand for their numbers, except when compared with their like.
        let lift = |v: TypedValue, other: &Ty| match &v.ty {
            Ty::Enum(e) if e.under.is_some() && v.ty != *other => {
                TypedValue { ty: e.under.clone().unwrap_or(Ty::Int), kind: v.kind }
            }
            _ => v,
        };
        let (xt, yt) = (x.ty.clone(), y.ty.clone());
        let arithmetic = !matches!(op, Eq | Ne);
        let (mut x, mut y) =
            if arithmetic { (lift(x, &Ty::Void), lift(y, &Ty::Void)) } else { (lift(x, &yt), lift(y, &xt)) };
        if op == Concat {
            return self.concat(x, y, xs, ys, span);
        }
        // An integer without width takes the other's type; lists take the other's too.
        if x.ty != y.ty || matches!((&x.kind, &y.kind), (ValueKind::Aggregate(..), _) | (_, ValueKind::Aggregate(..))) {
            let movable = |v: &TypedValue| {
                v.ty == Ty::Int || matches!(v.kind, ValueKind::Aggregate(..) | ValueKind::Default | ValueKind::Invalid)
            };
            let joined = if movable(&x) && !movable(&y) {
                self.coerce(x.clone(), &y.ty.clone(), xs).map(|n| x = n)
            } else if movable(&y) && !movable(&x) {
                self.coerce(y.clone(), &x.ty.clone(), ys).map(|n| y = n)
            } else {
                Ok(())
            };
            joined?;
        }
        let both_agg = matches!((&x.kind, &y.kind), (ValueKind::Aggregate(..), ValueKind::Aggregate(..)));
        if x.ty != y.ty && !(both_agg && x.ty.slots() == y.ty.slots() && x.ty.slots() > 0) {
            return self.mismatch(op, &x, &y, span, "both sides must have one type; cast one of them");
        }
        let base = x.ty.base().clone();
        if matches!(op, Eq | Ne) {
            let eq = self.equal(&x, &y, xs, ys, span)?;
            return Ok(match (op, eq) {
                (Eq, v) => v,
                (_, TypedValue { kind: ValueKind::Bool(b), .. }) => boolean(!b),
                (_, v) => {
                    let e = self.scalar(&v, span)?;
                    leaf(Ty::Bool, Expression::Not(Box::new(e)))
                }
            });
        }
        let is_int = base == Ty::Int;
        let signed = base.is_signed();
        let numeric = is_int || number_width(&base).is_some();
        let newtype = matches!(x.ty, Ty::New(_));
        if !numeric || newtype {
            return self.mismatch(op, &x, &y, span, "both sides must be bit<W>, int<W> or int of one type");
        }
        if matches!(op, AddSat | SubSat) && is_int {
            return self.mismatch(op, &x, &y, span, "saturating arithmetic needs a width, e.g. `8w1`");
        }
        if matches!(op, Div | Mod) && signed {
            return self.mismatch(op, &x, &y, span, "`/` and `%` are for int and bit<W>");
        }
        let w = base.scalar_width().unwrap_or(0);
        if let (ValueKind::Int(a), ValueKind::Int(b)) = (&x.kind, &y.kind) {
            return self.operate_constants(op, x.ty.clone(), (a, xs), (b, ys), span);
        }
        if matches!(op, Div | Mod)
            && let ValueKind::Int(b) = &y.kind
            && b.is_zero()
        {
            return self.err(ys, "division by zero");
        }
        let ty = if matches!(op, Lt | Le | Gt | Ge) { Ty::Bool } else { x.ty.clone() };
        let (p, q) = (self.scalar(&x, xs)?, self.scalar(&y, ys)?);
        let (code, swap) = match (op, signed) {
            (Add, _) => (Operator::Add, false),
            (Sub, _) => (Operator::Sub, false),
            (Mul, _) => (Operator::Mul, false),
            (Div, _) => (Operator::Div, false),
            (Mod, _) => (Operator::Mod, false),
            (And, _) => (Operator::And, false),
            (Or, _) => (Operator::Or, false),
            (Xor, _) => (Operator::Xor, false),
            (AddSat, false) => (Operator::AddSat, false),
            (AddSat, true) => (Operator::AddSatS, false),
            (SubSat, false) => (Operator::SubSat, false),
            (SubSat, true) => (Operator::SubSatS, false),
            (Lt, false) => (Operator::Lt, false),
            (Lt, true) => (Operator::LtS, false),
            (Le, false) => (Operator::Le, false),
            (Le, true) => (Operator::LeS, false),
            (Gt, false) => (Operator::Lt, true),
            (Gt, true) => (Operator::LtS, true),
            (Ge, false) => (Operator::Le, true),
            (_, _) => (if signed { Operator::LeS } else { Operator::Le }, true),
        };
        let (p, q) = if swap { (q, p) } else { (p, q) };
        Ok(leaf(ty, both(code, w, p, q)))
    }

    /// `x ++ y`.
    fn concat(&mut self, x: TypedValue, y: TypedValue, xs: Span, ys: Span, span: Span) -> Checked<TypedValue> {
        let (Some(w1), Some(w2)) = (number_width(&x.ty), number_width(&y.ty)) else {
            return self.mismatch(
                BinaryOperator::Concat,
                &x,
                &y,
                span,
                "`++` joins bit<W> and int<W> values; an integer needs a width, e.g. `8w0`",
            );
        };
        let w = w1 + w2;
        if w > MAX_WIDTH {
            return self.err(span, format!("{w} bits are more than the largest width, {MAX_WIDTH}"));
        }
        let ty = if x.ty.is_signed() { Ty::SInt(w) } else { Ty::Bit(w) };
        if let (ValueKind::Int(a), ValueKind::Int(b)) = (&x.kind, &y.kind) {
            let v = (Val::from_int(a, w1).to_int(w1, false) << w2) + Val::from_int(b, w2).to_int(w2, false);
            return Ok(TypedValue { kind: ValueKind::Int(Val::from_int(&v, w).to_int(w, ty.is_signed())), ty });
        }
        let (p, q) = (self.scalar(&x, xs)?, self.scalar(&y, ys)?);
        Ok(leaf(ty, Expression::Concat(Box::new((p, q)), w2)))
    }

    fn mismatch<T>(
        &mut self,
        op: BinaryOperator,
        x: &TypedValue,
        y: &TypedValue,
        span: Span,
        help: &str,
    ) -> Checked<T> {
        let m = format!("`{}` cannot be used with {} and {}", op.text(), describe(x), describe(y));
        self.err_help(span, m, help)
    }

    fn operate_constants(
        &mut self,
        op: BinaryOperator,
        ty: Ty,
        (a, xs): (&BigInt, Span),
        (b, ys): (&BigInt, Span),
        span: Span,
    ) -> Checked<TypedValue> {
        use BinaryOperator::*;
        let base = ty.base();
        let (is_int, signed, w) = (*base == Ty::Int, base.is_signed(), base.scalar_width().unwrap_or(0));
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
            return Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(r) });
        }
        let (low, high) = range(w, signed);
        let r = if matches!(op, AddSat | SubSat) { r.clamp(low, high) } else { Val::from_int(&r, w).to_int(w, signed) };
        Ok(TypedValue { ty, kind: ValueKind::Int(r) })
    }

    fn shift(&mut self, left: bool, x: TypedValue, y: TypedValue, ys: Span, span: Span) -> Checked<TypedValue> {
        let sign = if left { "<<" } else { ">>" };
        let x = match &x.ty {
            Ty::Enum(e) if e.under.is_some() => TypedValue { ty: e.under.clone().unwrap_or(Ty::Int), kind: x.kind },
            _ => x,
        };
        if !matches!(y.ty, Ty::Int | Ty::Bit(_))
            && !matches!(y, TypedValue { ty: Ty::SInt(_), kind: ValueKind::Int(_) })
        {
            let what = describe(&y);
            return self.err_help(
                ys,
                format!("a shift count must be bit<W> or a constant, not {what}"),
                "cast it to bit<W>",
            );
        }
        if let ValueKind::Int(n) = &y.kind
            && *n < zero_int()
        {
            return self.err(ys, format!("shift count {n} is negative"));
        }
        match (&x.ty, &x.kind, &y.kind) {
            (Ty::Int, ValueKind::Int(a), ValueKind::Int(n)) => {
                let Some(n) = n.to_u32().filter(|n| *n <= 8192 && a.bits() <= 8192) else {
                    return self.err(ys, format!("shift count {n} is too large for a constant"));
                };
                Ok(TypedValue { ty: Ty::Int, kind: ValueKind::Int(if left { a << n } else { a >> n }) })
            }
            (Ty::Bit(w) | Ty::SInt(w), ValueKind::Int(a), ValueKind::Int(n)) => {
                let (w, signed) = (*w, x.ty.is_signed());
                let n = n.to_u32().unwrap_or(u32::MAX).min(w);
                let r = if left { a << n } else { a >> n };
                Ok(TypedValue { kind: ValueKind::Int(Val::from_int(&r, w).to_int(w, signed)), ty: x.ty })
            }
            (Ty::Bit(w) | Ty::SInt(w), _, _) => {
                let w = *w;
                let code = match (left, x.ty.is_signed()) {
                    (true, _) => Operator::Shl,
                    (false, false) => Operator::Shr,
                    (false, true) => Operator::Sar,
                };
                let p = self.scalar(&x, span)?;
                let q = match &y.kind {
                    ValueKind::Int(n) => Expression::Const(Val::from_int(n, MAX_WIDTH)),
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

    fn equal(&mut self, x: &TypedValue, y: &TypedValue, xs: Span, ys: Span, span: Span) -> Checked<TypedValue> {
        match (&x.kind, &y.kind) {
            (ValueKind::Int(a), ValueKind::Int(b)) => return Ok(boolean(a == b)),
            (ValueKind::Bool(a), ValueKind::Bool(b)) => return Ok(boolean(a == b)),
            (ValueKind::Str(a), ValueKind::Str(b)) => return Ok(boolean(a == b)),
            _ => {}
        }
        if x.ty.slots() == 0 {
            let what = describe(x);
            return self.err(span, format!("{what} cannot be compared"));
        }
        if x.ty.slots() == 1 {
            let (p, q) = (self.scalar(x, xs)?, self.scalar(y, ys)?);
            return Ok(leaf(Ty::Bool, both(Operator::Eq, 0, p, q)));
        }
        let (p, q) = (self.leaves(x)?, self.leaves(y)?);
        Ok(leaf(Ty::Bool, equal_leaves(&x.ty, &p, &q)))
    }
}

fn number_width(t: &Ty) -> Option<u32> {
    match t {
        Ty::Bit(w) | Ty::SInt(w) => Some(*w),
        _ => None,
    }
}

/// Equality as P4_16 defines it for each type: headers are equal when both are invalid, or both valid with equal
/// fields.
fn equal_leaves(t: &Ty, a: &[Expression], b: &[Expression]) -> Expression {
    let eq = |x: &Expression, y: &Expression| both(Operator::Eq, 0, x.clone(), y.clone());
    // In halves: as a chain it would nest as deep as there are fields.
    fn all(mut list: Vec<Expression>) -> Expression {
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
        list.pop().unwrap_or(Expression::Const(Val::S(1)))
    }
    match t {
        Ty::Struct(s) => {
            let fields = s.fields.iter().map(|f| {
                let n = f.ty.slots();
                equal_leaves(&f.ty, &a[f.offset..f.offset + n], &b[f.offset..f.offset + n])
            });
            let fields = all(fields.collect());
            if s.kind == StructKind::Header {
                let same =
                    and(eq(&a[0], &b[0]), Expression::LOr(Box::new((Expression::Not(Box::new(a[0].clone())), fields))));
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
