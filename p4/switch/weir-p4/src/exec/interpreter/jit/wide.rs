// SPDX-License-Identifier: Apache-2.0
//! Values above 64 bits. Those below 2^128 lie in the wide frame itself ([`Val::S`]) and are worked on here; where a
//! value is larger, the machine does the same.
use super::shims::Shim;
use super::translate::Translator;
use crate::bytecode::code::{Cell, Instruction, Pc, Wide, WideCell};
use crate::bytecode::operators::Operator;
use crate::exec::interpreter::FIELD_OFFSETS;
use crate::value::Val;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64, I64X2, I128};
use cranelift_codegen::ir::{AliasRegion, InstBuilder, MemFlags, Value};

/// Bits of the values here.
const BITS: u32 = 128;

fn wide_memory() -> MemFlags {
    MemFlags::new().with_notrap().with_alias_region(Some(AliasRegion::Table))
}

impl Translator<'_, '_> {
    /// Translates moves and expressions of wide values; false for other instructions.
    pub(super) fn is_wide_access(&mut self, i: Instruction, pc: Pc) -> bool {
        let code = self.code;
        match i {
            Instruction::MoveWide { d, a } => self.with_small(&[d, a], pc, |t| {
                let (to, from) = (t.wide_offset(d), t.wide_offset(a));
                let frame = t.wide_frame();
                let v = t.b.ins().load(I64X2, wide_memory(), frame, from);
                t.b.ins().store(wide_memory(), v, frame, to);
            }),
            Instruction::ToWide { d, a } => {
                let a = self.get(a);
                self.with_small(&[d], pc, |t| {
                    let zero = t.number(0);
                    let v = t.b.ins().iconcat(a, zero);
                    t.set_wide(d, v);
                });
            }
            Instruction::EvalWide { d, e } => match self.small(e) {
                Some(mut cells) => {
                    cells.push(d);
                    self.with_small(&cells, pc, |t| {
                        let v = t.value(&code.wides[e as usize]);
                        t.set_wide(d, v);
                    });
                }
                None => return false,
            },
            Instruction::EvalLow { d, e } => match self.small(e) {
                Some(cells) => self.eval_low(d, e, &cells, pc),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    fn eval_low(&mut self, d: Cell, e: u32, cells: &[WideCell], pc: Pc) {
        let code = self.code;
        self.with_small(cells, pc, |t| {
            let v = t.value(&code.wides[e as usize]);
            let v = t.b.ins().ireduce(I64, v);
            t.store(d, v);
        });
        self.known.remove(&d);
    }

    /// Runs `fast` where all these values are below 2^128, else the machine's own code for the instruction.
    fn with_small(&mut self, cells: &[WideCell], pc: Pc, fast: impl FnOnce(&mut Self)) {
        let mut any = None;
        for cell in cells {
            let tag = self.tag(*cell);
            any = Some(any.map_or(tag, |x| self.b.ins().bor(x, tag)));
        }
        let Some(any) = any else { return fast(self) };
        let (slow, quick, go_on) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        self.b.ins().brif(any, slow, &[], quick, &[]);
        // The machine changes no cells here but the instruction's own, which the caller forgets.
        let known = self.known.clone();
        self.b.switch_to_block(slow);
        self.shim(Shim::Work, pc);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(quick);
        self.known = known.clone();
        fast(self);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        self.known = known;
    }

    /// Zero for a value below 2^128.
    pub(super) fn tag(&mut self, cell: WideCell) -> Value {
        let (offset, frame) = (self.wide_offset(cell) - Val::SMALL_AT as i32, self.wide_frame());
        self.b.ins().load(I8, wide_memory(), frame, offset)
    }

    fn wide_frame(&mut self) -> Value {
        let fixed = MemFlags::trusted().with_readonly().with_can_move();
        self.b.ins().load(I64, fixed, self.machine, FIELD_OFFSETS.wide as i32)
    }

    /// Where a small value lies.
    fn wide_offset(&mut self, cell: WideCell) -> i32 {
        let at = (cell as usize).checked_mul(size_of::<Val>()).and_then(|at| i32::try_from(at + Val::SMALL_AT).ok());
        self.is_refused |= cell as usize >= self.code.wide_cells || at.is_none();
        at.unwrap_or(0)
    }

    pub(super) fn set_wide(&mut self, d: WideCell, v: Value) {
        let (offset, frame) = (self.wide_offset(d), self.wide_frame());
        self.b.ins().store(wide_memory(), v, frame, offset);
    }

    /// The wide cells of an expression that is worked on here.
    fn small(&self, e: u32) -> Option<Vec<WideCell>> {
        let mut cells = Vec::new();
        bits(self.code.wides.get(e as usize)?, &mut cells)?;
        Some(cells)
    }

    /// The value of an expression that [`bits`] allows.
    fn value(&mut self, e: &Wide) -> Value {
        match e {
            Wide::N(c) => {
                let v = self.get(*c);
                let zero = self.number(0);
                self.b.ins().iconcat(v, zero)
            }
            Wide::W(w) => {
                let (offset, frame) = (self.wide_offset(*w), self.wide_frame());
                self.b.ins().load(I128, wide_memory(), frame, offset)
            }
            Wide::Const(v) => self.wide_number(v.low()),
            Wide::Bin(op, w, ab) => {
                let (a, b) = (self.value(&ab.0), self.value(&ab.1));
                self.binary(*op, *w, a, b)
            }
            Wide::BitNot(w, x) => {
                let x = self.value(x);
                let v = self.b.ins().bnot(x);
                self.masked(v, *w)
            }
            Wide::Slice(x, lo, w) => {
                let x = self.value(x);
                let v = if *lo == 0 { x } else { self.b.ins().ushr_imm(x, i64::from(*lo)) };
                self.masked(v, *w)
            }
            Wide::Concat(ab, w) => {
                let (a, b) = (self.value(&ab.0), self.value(&ab.1));
                let a = self.b.ins().ishl_imm(a, i64::from(*w));
                self.b.ins().bor(a, b)
            }
            Wide::Cond(c) => {
                let (test, a, b) = (self.value(&c.0), self.value(&c.1), self.value(&c.2));
                let zero = self.wide_number(0);
                let is_set = self.b.ins().icmp(IntCC::NotEqual, test, zero);
                self.b.ins().select(is_set, a, b)
            }
            // `bits` gives `None` for these.
            Wide::At(_) | Wide::Neg(..) | Wide::Not(_) | Wide::LAnd(_) | Wide::LOr(_) | Wide::SignExtend(..) => {
                self.is_refused = true;
                self.wide_number(0)
            }
        }
    }

    fn binary(&mut self, op: Operator, w: u32, a: Value, b: Value) -> Value {
        let condition = match op {
            Operator::Add => {
                let v = self.b.ins().iadd(a, b);
                return self.masked(v, w);
            }
            Operator::Sub => {
                let v = self.b.ins().isub(a, b);
                return self.masked(v, w);
            }
            Operator::And => return self.b.ins().band(a, b),
            Operator::Or => return self.b.ins().bor(a, b),
            Operator::Xor => return self.b.ins().bxor(a, b),
            Operator::Eq => IntCC::Equal,
            Operator::Ne => IntCC::NotEqual,
            Operator::Lt => IntCC::UnsignedLessThan,
            Operator::Le => IntCC::UnsignedLessThanOrEqual,
            _ => {
                self.is_refused = true;
                IntCC::Equal
            }
        };
        let v = self.b.ins().icmp(condition, a, b);
        self.b.ins().uextend(I128, v)
    }

    fn wide_number(&mut self, v: u128) -> Value {
        let (low, high) = (self.number(v as u64), self.number((v >> 64) as u64));
        self.b.ins().iconcat(low, high)
    }

    fn masked(&mut self, v: Value, w: u32) -> Value {
        if w >= BITS {
            return v;
        }
        let mask = self.wide_number((1 << w) - 1);
        self.b.ins().band(v, mask)
    }
}

/// Bits that an expression's value has at most, if that and all in between is below 2^128 where its cells are.
fn bits(e: &Wide, cells: &mut Vec<WideCell>) -> Option<u32> {
    let most = match e {
        Wide::N(_) => 64,
        Wide::W(w) => {
            cells.push(*w);
            BITS
        }
        Wide::Const(v) => v.bits(),
        Wide::Bin(op, w, ab) => {
            let (a, b) = (bits(&ab.0, cells)?, bits(&ab.1, cells)?);
            match op {
                Operator::Add | Operator::Sub => *w,
                Operator::And | Operator::Or | Operator::Xor => a.max(b),
                Operator::Eq | Operator::Ne | Operator::Lt | Operator::Le => 1,
                _ => return None,
            }
        }
        Wide::BitNot(w, x) => bits(x, cells).map(|_| *w)?,
        Wide::Slice(x, lo, w) if *lo < BITS => bits(x, cells).map(|_| *w)?,
        Wide::Concat(ab, w) if *w < BITS => {
            let (a, b) = (bits(&ab.0, cells)?, bits(&ab.1, cells)?);
            (a + w).max(b)
        }
        Wide::Cond(c) => {
            bits(&c.0, cells)?;
            bits(&c.1, cells)?.max(bits(&c.2, cells)?)
        }
        _ => return None,
    };
    (most <= BITS).then_some(most)
}
