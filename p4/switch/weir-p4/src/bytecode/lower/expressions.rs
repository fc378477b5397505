// SPDX-License-Identifier: Apache-2.0
//! Expressions: narrow ones of 64 bits, and wide ones.
use super::fold::{constant, fold};
use super::*;

impl<'p> Lower<'p> {
    /// Whether 64 bits are enough for the value and all that it is made from.
    pub(super) fn narrow(&self, e: &Expression) -> bool {
        match e {
            Expression::Const(v) => v.bits() <= 64,
            Expression::Load(s) => self.wide_of(*s) == NARROW,
            Expression::LoadAt(a) => !self.is_wide(a),
            Expression::Bin(op, w, ab) => {
                let small = matches!(
                    op,
                    Operator::And
                        | Operator::Or
                        | Operator::Xor
                        | Operator::Eq
                        | Operator::Ne
                        | Operator::Lt
                        | Operator::Le
                        | Operator::Shr
                        | Operator::Div
                        | Operator::Mod
                );
                (*w <= 64 || small) && self.narrow(&ab.0) && self.narrow(&ab.1)
            }
            Expression::BitNot(w, x) | Expression::Neg(w, x) => *w <= 64 && self.narrow(x),
            Expression::Not(x) | Expression::Slice(x, ..) => self.narrow(x),
            Expression::LAnd(ab) | Expression::LOr(ab) => self.narrow(&ab.0) && self.narrow(&ab.1),
            Expression::Concat(ab, _) => self.widths.ex(e) <= 64 && self.narrow(&ab.0) && self.narrow(&ab.1),
            Expression::SignExtend(x, _, to) => *to <= 64 && self.narrow(x),
            Expression::Cond(c) => self.narrow(&c.0) && self.narrow(&c.1) && self.narrow(&c.2),
        }
    }

    /// Computes a value of at most 64 bits; gives the cell that holds it, which is `d` where one is named.
    pub(super) fn ex(&mut self, e: &Expression, d: Option<Cell>) -> Cell {
        let e = &fold(e);
        let held = match e {
            Expression::Const(v) if v.bits() <= 64 => Some(self.constant(v.low() as u64)),
            Expression::Load(s) if self.wide_of(*s) == NARROW => Some(*s as Cell),
            // Bits that are never set need no cutting off.
            Expression::Slice(x, 0, w) if self.widths.ex(x) <= *w && self.narrow(x) => return self.ex(x, d),
            // Types of no bits hold zero.
            e if self.widths.ex(e) == 0 => Some(self.constant(0)),
            _ => None,
        };
        if let Some(a) = held {
            if let Some(d) = d {
                self.emit(Instruction::Move { d, a });
            }
            return d.unwrap_or(a);
        }
        let d = d.unwrap_or_else(|| self.temp());
        if !self.narrow(e) {
            let e = match e {
                // Taking the low 64 bits is the instruction itself.
                Expression::Slice(x, 0, 64) => self.wide_ex(x),
                e => self.wide_ex(e),
            };
            self.emit(Instruction::EvalLow { d, e });
            return d;
        }
        let i = match e {
            Expression::Const(_) | Expression::Load(_) => return d,
            Expression::LoadAt(a) => Instruction::LoadAt { d, at: self.addr(a) },
            Expression::Bin(Operator::Shl, w, ab) if matches!(&ab.1, Expression::Const(_)) => {
                let n = constant(&ab.1);
                if n >= (*w).min(64) as u128 {
                    let a = self.constant(0);
                    Instruction::Move { d, a }
                } else {
                    let a = self.ex(&ab.0, None);
                    Instruction::ShlBy { d, a, by: n as u8, sh: cut(*w) }
                }
            }
            Expression::Bin(Operator::Shr, _, ab) if matches!(&ab.1, Expression::Const(_)) => {
                let n = constant(&ab.1);
                if n >= 64 {
                    let a = self.constant(0);
                    Instruction::Move { d, a }
                } else {
                    let a = self.ex(&ab.0, None);
                    Instruction::Slice { d, a, lo: n as u8, sh: 0 }
                }
            }
            Expression::Bin(op, w, ab) => self.operation(*op, *w, ab, d),
            Expression::BitNot(w, x) => Instruction::BitNot { d, a: self.ex(x, None), sh: cut(*w) },
            Expression::Neg(w, x) => {
                let (a, b) = (self.constant(0), self.ex(x, None));
                Instruction::Sub { d, a, b, sh: cut(*w) }
            }
            Expression::Not(x) => Instruction::Not { d, a: self.ex(x, None) },
            Expression::LAnd(ab) => {
                let (a, b) = (self.truth(&ab.0), self.truth(&ab.1));
                Instruction::And { d, a, b }
            }
            Expression::LOr(ab) => {
                let (a, b) = (self.truth(&ab.0), self.truth(&ab.1));
                Instruction::Or { d, a, b }
            }
            Expression::Slice(x, lo, w) => {
                let a = self.ex(x, None);
                match (lo, w) {
                    (64.., _) | (_, 0) => Instruction::Move { d, a: self.constant(0) },
                    _ => Instruction::Slice { d, a, lo: *lo as u8, sh: cut(*w) },
                }
            }
            Expression::Concat(ab, w) => {
                let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
                if *w >= 64 {
                    // Only a left side that is always zero fits 64 bits here.
                    Instruction::Move { d, a: b }
                } else {
                    Instruction::Concat { d, a, b, by: *w as u8 }
                }
            }
            Expression::SignExtend(x, from, to) => {
                let a = self.ex(x, None);
                if to <= from {
                    Instruction::Slice { d, a, lo: 0, sh: cut(*to) }
                } else {
                    Instruction::SignExtend { d, a, from: cut(*from), sh: cut(*to) }
                }
            }
            Expression::Cond(c) if matches!(&c.0, Expression::Load(s) if self.known.contains(s)) => {
                return self.ex(&c.1, Some(d));
            }
            Expression::Cond(c) if matches!(&c.2, Expression::Const(v) if v.is_zero()) => {
                let (b, a) = (self.ex(&c.0, None), self.ex(&c.1, None));
                Instruction::IfSet { d, a, b }
            }
            Expression::Cond(c) => {
                let (no, end) = (self.label(), self.label());
                self.jump(&c.0, no, false);
                self.ex(&c.1, Some(d));
                self.emit(Instruction::Jump { to: end });
                self.here(no);
                self.ex(&c.2, Some(d));
                self.here(end);
                return d;
            }
        };
        self.emit(i);
        d
    }

    /// A condition as 0 or 1.
    fn truth(&mut self, e: &Expression) -> Cell {
        let a = self.ex(e, None);
        if self.widths.ex(e) <= 1 {
            return a;
        }
        let (d, b) = (self.temp(), self.constant(0));
        self.emit(Instruction::Ne { d, a, b });
        d
    }

    /// Jumps when the condition has the given value.
    pub(super) fn jump(&mut self, e: &Expression, to: Label, when: bool) {
        let e = &fold(e);
        match e {
            Expression::Const(v) => {
                if v.is_zero() != when {
                    self.emit(Instruction::Jump { to });
                }
            }
            Expression::Not(x) => self.jump(x, to, !when),
            Expression::LAnd(ab) | Expression::LOr(ab) => {
                // Whether one side alone decides for jumping.
                if matches!(e, Expression::LOr(_)) == when {
                    self.jump(&ab.0, to, when);
                    self.jump(&ab.1, to, when);
                } else {
                    let skip = self.label();
                    self.jump(&ab.0, skip, !when);
                    self.jump(&ab.1, to, when);
                    self.here(skip);
                }
            }
            Expression::Bin(op @ (Operator::Eq | Operator::Ne | Operator::Lt | Operator::Le), _, ab)
                if self.narrow(e) =>
            {
                let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
                self.emit(match (op, when) {
                    (Operator::Eq, true) | (Operator::Ne, false) => Instruction::JumpEq { a, b, to },
                    (Operator::Eq, false) | (Operator::Ne, true) => Instruction::JumpNe { a, b, to },
                    (Operator::Lt, true) => Instruction::JumpLt { a, b, to },
                    (Operator::Lt, false) => Instruction::JumpLe { a: b, b: a, to },
                    (_, true) => Instruction::JumpLe { a, b, to },
                    (_, false) => Instruction::JumpLt { a: b, b: a, to },
                });
            }
            _ => {
                let a = self.ex(e, None);
                self.emit(if when { Instruction::JumpSet { a, to } } else { Instruction::JumpZero { a, to } });
            }
        }
    }

    pub(super) fn wide(&mut self, e: &Expression) -> Wide {
        let pair = |l: &mut Self, ab: &(Expression, Expression)| Box::new((l.wide(&ab.0), l.wide(&ab.1)));
        let e = &fold(e);
        match e {
            Expression::Const(v) => Wide::Const(v.clone()),
            e if self.narrow(e) => Wide::N(self.ex(e, None)),
            Expression::Load(s) => Wide::W(self.wide_of(*s)),
            Expression::LoadAt(a) => Wide::At(self.addr(a)),
            Expression::Bin(op, w, ab) => Wide::Bin(*op, *w, pair(self, ab)),
            Expression::BitNot(w, x) => Wide::BitNot(*w, Box::new(self.wide(x))),
            Expression::Neg(w, x) => Wide::Neg(*w, Box::new(self.wide(x))),
            Expression::Not(x) => Wide::Not(Box::new(self.wide(x))),
            Expression::LAnd(ab) => Wide::LAnd(pair(self, ab)),
            Expression::LOr(ab) => Wide::LOr(pair(self, ab)),
            Expression::Slice(x, lo, w) => Wide::Slice(Box::new(self.wide(x)), *lo, *w),
            Expression::Concat(ab, w) => Wide::Concat(pair(self, ab), *w),
            Expression::SignExtend(x, from, to) => Wide::SignExtend(Box::new(self.wide(x)), *from, *to),
            Expression::Cond(c) => Wide::Cond(Box::new((self.wide(&c.0), self.wide(&c.1), self.wide(&c.2)))),
        }
    }

    pub(super) fn wide_ex(&mut self, e: &Expression) -> u32 {
        let e = self.wide(e);
        self.code.wides.push(e);
        (self.code.wides.len() - 1) as u32
    }

    /// A value for an instruction that takes either kind.
    pub(super) fn src(&mut self, e: &Expression) -> Source {
        if self.widths.ex(e) <= 64 {
            return Source::N(self.ex(e, None));
        }
        if let Expression::Load(s) = e {
            return Source::W(self.wide_of(*s));
        }
        let (d, e) = (self.wide_temp(), self.wide_ex(e));
        self.emit(Instruction::EvalWide { d, e });
        Source::W(d)
    }

    /// A value that counts something: 2^64 - 1 stands for all that is larger.
    pub(super) fn index(&mut self, e: &Expression) -> Cell {
        if self.widths.ex(e) <= 64 {
            return self.ex(e, None);
        }
        let (d, e) = (self.temp(), self.wide_ex(e));
        self.emit(Instruction::EvalIndex { d, e });
        d
    }

    /// An expression that can be used more than once at no cost.
    pub(super) fn again(&mut self, e: &Expression) -> Expression {
        match fold(e) {
            e @ (Expression::Const(_) | Expression::Load(_)) => e,
            e if self.widths.ex(&e) <= 64 => Expression::Load(self.ex(&e, None) as Slot),
            e => e,
        }
    }

    pub(super) fn list(&mut self, e: &Option<Expression>) -> Cell {
        e.as_ref().map_or(NARROW, |e| self.index(e))
    }

    /// An operation on two values of at most 64 bits.
    fn operation(&mut self, op: Operator, w: u32, ab: &(Expression, Expression), d: Cell) -> Instruction {
        let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
        let sh = cut(w);
        match op {
            Operator::Add => Instruction::Add { d, a, b, sh },
            Operator::Sub => Instruction::Sub { d, a, b, sh },
            Operator::Mul => Instruction::Mul { d, a, b, sh },
            Operator::Div => Instruction::Div { d, a, b },
            Operator::Mod => Instruction::Mod { d, a, b },
            Operator::AddSat => Instruction::AddSat { d, a, b, sh },
            Operator::SubSat => Instruction::SubSat { d, a, b },
            Operator::AddSatS => Instruction::AddSatS { d, a, b, sh },
            Operator::SubSatS => Instruction::SubSatS { d, a, b, sh },
            Operator::Shl => Instruction::Shl { d, a, b, sh },
            Operator::Shr => Instruction::Shr { d, a, b },
            Operator::Sar => Instruction::Sar { d, a, b, sh },
            Operator::And => Instruction::And { d, a, b },
            Operator::Or => Instruction::Or { d, a, b },
            Operator::Xor => Instruction::Xor { d, a, b },
            Operator::Eq => Instruction::Eq { d, a, b },
            Operator::Ne => Instruction::Ne { d, a, b },
            Operator::Lt => Instruction::Lt { d, a, b },
            Operator::Le => Instruction::Le { d, a, b },
            Operator::LtS => Instruction::LtS { d, a, b, sh },
            Operator::LeS => Instruction::LeS { d, a, b, sh },
        }
    }
}

/// Shift, left and right again, that cuts a value to `w` bits.
fn cut(w: u32) -> u8 {
    (64 - w.clamp(1, 64)) as u8
}
