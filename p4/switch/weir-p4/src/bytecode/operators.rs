// SPDX-License-Identifier: Apache-2.0
//! Common parts of a program's two forms: operators and their meaning, algorithms, slots.
use crate::value::Val;

pub type Slot = usize;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynIndex {
    /// The slot that holds the index.
    pub index: Slot,
    /// Added to the index: -1 for `last`.
    pub bias: i8,
    pub stride: usize,
    pub len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    AddSat,
    SubSat,
    AddSatS,
    SubSatS,
    Shl,
    Shr,
    Sar,
    And,
    Or,
    Xor,
    Eq,
    #[allow(dead_code, reason = "the checker makes `Not` of `Eq`; the tests hold it to its meaning")]
    Ne,
    Lt,
    Le,
    LtS,
    LeS,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    Crc32,
    Crc16,
    Random,
    Identity,
    Csum16,
    Xor16,
}

/// 1 or 0.
pub(crate) fn truth(v: bool) -> Val {
    Val::S(v as u128)
}

/// An operation on values of any width: the counterpart of [`Instruction`] where 64 bits are enough, and the rule it is
/// tested by.
pub fn binary(op: Operator, w: u32, x: Val, y: Val) -> Val {
    match op {
        Operator::Add => x.add(y, w),
        Operator::Sub => x.sub(y, w),
        Operator::Mul => x.mul(y, w),
        Operator::Div | Operator::Mod if y.is_zero() => Val::S(0),
        Operator::Div => match (x, y) {
            (Val::S(x), Val::S(y)) => Val::S(x / y),
            (x, y) => Val::from_big(x.big() / y.big()),
        },
        Operator::Mod => match (x, y) {
            (Val::S(x), Val::S(y)) => Val::S(x % y),
            (x, y) => Val::from_big(x.big() % y.big()),
        },
        Operator::AddSat => x.saturate(y, w, false, false),
        Operator::SubSat => x.saturate(y, w, false, true),
        Operator::AddSatS => x.saturate(y, w, true, false),
        Operator::SubSatS => x.saturate(y, w, true, true),
        Operator::Shl => x.shl(y.index(), w),
        Operator::Shr => x.shr(y.index()),
        Operator::Sar => x.sar(y.index(), w),
        Operator::And => x.and(y),
        Operator::Or => x.or(y),
        Operator::Xor => x.xor(y),
        Operator::Eq => truth(x == y),
        Operator::Ne => truth(x != y),
        Operator::Lt => truth(x < y),
        Operator::Le => truth(x <= y),
        Operator::LtS => truth(x.to_int(w, true) < y.to_int(w, true)),
        Operator::LeS => truth(x.to_int(w, true) <= y.to_int(w, true)),
    }
}
