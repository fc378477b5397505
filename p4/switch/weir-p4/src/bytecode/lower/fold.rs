// SPDX-License-Identifier: Apache-2.0
//! Folding of constants, and the low bits of wide results.
use crate::bytecode::ir::{Address, Expression};
use crate::bytecode::operators::{Operator, Slot, binary};
use crate::value::Val;

/// Slots that cannot be zero where the condition is true.
pub(super) fn nonzero(e: &Expression) -> Vec<Slot> {
    match e {
        Expression::Load(s) => vec![*s],
        Expression::LAnd(ab) => [nonzero(&ab.0), nonzero(&ab.1)].concat(),
        _ => Vec::new(),
    }
}

/// The low bits of a sum, difference, product or bitwise combination need only the low bits of its operands.
pub(super) fn low(e: Expression) -> Expression {
    let low_of = |e: &Expression| low(Expression::Slice(Box::new(e.clone()), 0, 64));
    let Expression::Slice(x, 0, w @ 1..=64) = &e else { return e };
    let inner = match &**x {
        Expression::Bin(
            op @ (Operator::Add | Operator::Sub | Operator::Mul | Operator::And | Operator::Or | Operator::Xor),
            65..,
            ab,
        ) => bin(*op, 64, low_of(&ab.0), low_of(&ab.1)),
        _ => return e,
    };
    Expression::Slice(Box::new(inner), 0, *w)
}

pub(super) fn bin(op: Operator, w: u32, a: Expression, b: Expression) -> Expression {
    Expression::Bin(op, w, Box::new((a, b)))
}

pub(super) fn load(a: &Address) -> Expression {
    if a.dyns.is_empty() { Expression::Load(a.base) } else { Expression::LoadAt(Box::new(a.clone())) }
}

/// A constant's value; a value of more than 127 bits is only ever compared with small numbers.
pub(super) fn constant(e: &Expression) -> u128 {
    match e {
        Expression::Const(Val::S(v)) => *v,
        _ => u128::MAX,
    }
}

/// Folds the constant part at the top of an expression.
pub(super) fn fold(e: &Expression) -> Expression {
    match e {
        Expression::Bin(op, w, ab) => match (fold(&ab.0), fold(&ab.1)) {
            (Expression::Const(x), Expression::Const(y)) => Expression::Const(binary(*op, *w, x, y)),
            ab => Expression::Bin(*op, *w, Box::new(ab)),
        },
        Expression::Slice(x, lo, w) => match fold(x) {
            Expression::Const(v) => Expression::Const(v.shr(*lo as usize).mask(*w)),
            x => low(Expression::Slice(Box::new(x), *lo, *w)),
        },
        e => e.clone(),
    }
}
