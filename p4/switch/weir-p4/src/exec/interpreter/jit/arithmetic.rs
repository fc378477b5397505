// SPDX-License-Identifier: Apache-2.0
//! Operators on cells of 64 bits, each as the interpreter has it.
use super::translate::Translator;
use crate::bytecode::code::{Cell, Instruction};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Translator<'_, '_> {
    /// The value that an instruction computes, and its cell.
    pub(super) fn arithmetic(&mut self, i: Instruction) -> Option<(Cell, Value)> {
        self.sums(i).or_else(|| self.shifts(i)).or_else(|| self.bits(i)).or_else(|| self.comparisons(i))
    }

    fn sums(&mut self, i: Instruction) -> Option<(Cell, Value)> {
        let (d, v) = match i {
            Instruction::Add { d, a, b, sh } => {
                let (a, b) = self.pair(a, b);
                let v = self.b.ins().iadd(a, b);
                (d, self.cut(v, sh))
            }
            Instruction::Sub { d, a, b, sh } => {
                let (a, b) = self.pair(a, b);
                let v = self.b.ins().isub(a, b);
                (d, self.cut(v, sh))
            }
            Instruction::Mul { d, a, b, sh } => {
                let (a, b) = self.pair(a, b);
                let v = self.b.ins().imul(a, b);
                (d, self.cut(v, sh))
            }
            Instruction::Div { d, a, b } => (d, self.quotient(a, b)),
            Instruction::Mod { d, a, b } => {
                let (a, b) = self.pair(a, b);
                // A remainder of 1 is 0, as that of 0 is here.
                let one = self.number(1);
                let divisor = self.b.ins().select(b, b, one);
                (d, self.b.ins().urem(a, divisor))
            }
            Instruction::AddSat { d, a, b, sh } => {
                let (a, b) = self.pair(a, b);
                let sum = self.b.ins().iadd(a, b);
                let is_over = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a);
                let (all, most) = (self.number(u64::MAX), self.number(u64::MAX >> sh));
                let sum = self.b.ins().select(is_over, all, sum);
                (d, self.b.ins().umin(sum, most))
            }
            Instruction::SubSat { d, a, b } => {
                let (a, b) = self.pair(a, b);
                let (difference, zero) = (self.b.ins().isub(a, b), self.number(0));
                let is_under = self.b.ins().icmp(IntCC::UnsignedLessThan, a, b);
                (d, self.b.ins().select(is_under, zero, difference))
            }
            Instruction::AddSatS { d, a, b, sh } => (d, self.signed_sum(a, b, sh, true)),
            Instruction::SubSatS { d, a, b, sh } => (d, self.signed_sum(a, b, sh, false)),
            _ => return None,
        };
        Some((d, v))
    }

    fn quotient(&mut self, a: Cell, b: Cell) -> Value {
        let divisor = self.constants.get(&b).copied();
        let (a, b) = self.pair(a, b);
        match divisor {
            Some(0) => self.number(0),
            Some(_) => self.b.ins().udiv(a, b),
            None => {
                let (one, zero) = (self.number(1), self.number(0));
                let safe = self.b.ins().select(b, b, one);
                let v = self.b.ins().udiv(a, safe);
                self.b.ins().select(b, v, zero)
            }
        }
    }

    /// Sum or difference of signed numbers, which stays within 64 - `sh` bits.
    fn signed_sum(&mut self, a: Cell, b: Cell, sh: u8, is_sum: bool) -> Value {
        let (a, b) = self.pair(a, b);
        let (a, b) = (self.signed(a, sh), self.signed(b, sh));
        let v = if is_sum { self.b.ins().iadd(a, b) } else { self.b.ins().isub(a, b) };
        if sh > 0 {
            // Below 64 bits nothing is lost.
            let half = 1i64 << (63 - sh);
            let (least, most) = (self.b.ins().iconst(I64, -half), self.b.ins().iconst(I64, half - 1));
            let v = self.b.ins().smax(v, least);
            let v = self.b.ins().smin(v, most);
            return self.cut(v, sh);
        }
        // An overflow has a sign that the operands do not allow.
        let other = if is_sum { b } else { self.b.ins().bnot(b) };
        let (x, y) = (self.b.ins().bxor(v, a), self.b.ins().bxor(v, other));
        // A difference overflows where `a` and `b` differ in sign, and so `a` and the complement of `b` agree.
        let over = self.b.ins().band(x, y);
        let is_over = self.b.ins().icmp_imm(IntCC::SignedLessThan, over, 0);
        let sign = self.b.ins().sshr_imm(a, 63);
        let end = self.b.ins().bxor_imm(sign, i64::MAX);
        self.b.ins().select(is_over, end, v)
    }

    fn shifts(&mut self, i: Instruction) -> Option<(Cell, Value)> {
        let (d, v) = match i {
            Instruction::Shl { d, a, b, sh } => {
                let v = self.shifted(a, b, true);
                (d, self.cut(v, sh))
            }
            Instruction::Shr { d, a, b } => (d, self.shifted(a, b, false)),
            Instruction::Sar { d, a, b, sh } => {
                let (a, b) = self.pair(a, b);
                let (a, most) = (self.signed(a, sh), self.number(63));
                let by = self.b.ins().umin(b, most);
                let v = self.b.ins().sshr(a, by);
                (d, self.cut(v, sh))
            }
            Instruction::Slice { d, a, lo, sh } => {
                let a = self.get(a);
                let v = if lo == 0 { a } else { self.b.ins().ushr_imm(a, i64::from(lo)) };
                (d, self.cut(v, sh))
            }
            Instruction::ShlBy { d, a, by, sh } => {
                let a = self.get(a);
                let v = self.b.ins().ishl_imm(a, i64::from(by));
                (d, self.cut(v, sh))
            }
            Instruction::Concat { d, a, b, by } => {
                let (a, b) = self.pair(a, b);
                let a = self.b.ins().ishl_imm(a, i64::from(by));
                (d, self.b.ins().bor(a, b))
            }
            Instruction::SignExtend { d, a, from, sh } => {
                let a = self.get(a);
                let v = self.signed(a, from);
                (d, self.cut(v, sh))
            }
            _ => return None,
        };
        Some((d, v))
    }

    /// Zero for 64 bits and more.
    fn shifted(&mut self, a: Cell, b: Cell, is_left: bool) -> Value {
        let by = self.constants.get(&b).copied();
        let (a, b) = self.pair(a, b);
        let zero = self.number(0);
        if by.is_some_and(|by| by >= 64) {
            return zero;
        }
        let v = if is_left { self.b.ins().ishl(a, b) } else { self.b.ins().ushr(a, b) };
        if by.is_some() {
            return v;
        }
        let is_within = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, b, 64);
        self.b.ins().select(is_within, v, zero)
    }

    fn bits(&mut self, i: Instruction) -> Option<(Cell, Value)> {
        let (d, v) = match i {
            Instruction::Move { d, a } => (d, self.get(a)),
            Instruction::IfSet { d, a, b } => {
                let (a, b) = self.pair(a, b);
                let zero = self.number(0);
                (d, self.b.ins().select(b, a, zero))
            }
            Instruction::And { d, a, b } => {
                let (a, b) = self.pair(a, b);
                (d, self.b.ins().band(a, b))
            }
            Instruction::Or { d, a, b } => {
                let (a, b) = self.pair(a, b);
                (d, self.b.ins().bor(a, b))
            }
            Instruction::Xor { d, a, b } => {
                let (a, b) = self.pair(a, b);
                (d, self.b.ins().bxor(a, b))
            }
            Instruction::BitNot { d, a, sh } => {
                let a = self.get(a);
                let v = self.b.ins().bnot(a);
                (d, self.cut(v, sh))
            }
            Instruction::Not { d, a } => {
                let a = self.get(a);
                let v = self.b.ins().icmp_imm(IntCC::Equal, a, 0);
                (d, self.b.ins().uextend(I64, v))
            }
            _ => return None,
        };
        Some((d, v))
    }

    fn comparisons(&mut self, i: Instruction) -> Option<(Cell, Value)> {
        let (d, a, b, condition, sign) = match i {
            Instruction::Eq { d, a, b } => (d, a, b, IntCC::Equal, None),
            Instruction::Ne { d, a, b } => (d, a, b, IntCC::NotEqual, None),
            Instruction::Lt { d, a, b } => (d, a, b, IntCC::UnsignedLessThan, None),
            Instruction::Le { d, a, b } => (d, a, b, IntCC::UnsignedLessThanOrEqual, None),
            Instruction::LtS { d, a, b, sh } => (d, a, b, IntCC::SignedLessThan, Some(sh)),
            Instruction::LeS { d, a, b, sh } => (d, a, b, IntCC::SignedLessThanOrEqual, Some(sh)),
            _ => return None,
        };
        let (mut a, mut b) = self.pair(a, b);
        if let Some(sh) = sign {
            (a, b) = (self.signed(a, sh), self.signed(b, sh));
        }
        let v = self.b.ins().icmp(condition, a, b);
        Some((d, self.b.ins().uextend(I64, v)))
    }

    fn pair(&mut self, a: Cell, b: Cell) -> (Value, Value) {
        (self.get(a), self.get(b))
    }

    pub(super) fn number(&mut self, v: u64) -> Value {
        self.b.ins().iconst(I64, v as i64)
    }

    pub(super) fn cut(&mut self, v: Value, sh: u8) -> Value {
        match sh {
            0 => v,
            _ => self.b.ins().band_imm(v, (u64::MAX >> sh) as i64),
        }
    }

    /// The number that the low 64 - `sh` bits stand for.
    fn signed(&mut self, v: Value, sh: u8) -> Value {
        if sh == 0 {
            return v;
        }
        let v = self.b.ins().ishl_imm(v, i64::from(sh));
        self.b.ins().sshr_imm(v, i64::from(sh))
    }
}
