// SPDX-License-Identifier: Apache-2.0
//! Access to the frame: cells by number, ranges of cells, and cells behind run-time indices. A value is stored where the
//! cell is set; it is loaded again only where it is not known.
use super::shims::Shim;
use super::translate::Translator;
use crate::bytecode::code::{Cell, Instruction, NARROW, Pc};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{AliasRegion, InstBuilder, MemFlags, Value};

/// Cells that are copied or cleared one by one; the machine does it for more.
const FEW_CELLS: u32 = 32;

/// Cells whose values are known at a time, so that the work at each branch is bounded.
const KNOWN_CELLS: usize = 256;

fn frame_memory() -> MemFlags {
    MemFlags::new().with_notrap().with_alias_region(Some(AliasRegion::Heap))
}

impl Translator<'_, '_> {
    /// The offset of a cell, and of those behind it.
    fn offset(&mut self, first: Cell, count: u32) -> i32 {
        let end = u64::from(first) + u64::from(count.max(1));
        if end > self.code.frame.len() as u64 || end > i32::MAX as u64 / 8 {
            self.is_refused = true;
            return 0;
        }
        (first * 8) as i32
    }

    /// A cell's value.
    pub(super) fn get(&mut self, cell: Cell) -> Value {
        if let Some(v) = self.constants.get(&cell) {
            return self.number(*v);
        }
        if let Some(v) = self.known.get(&cell) {
            return *v;
        }
        let offset = self.offset(cell, 1);
        let v = self.b.ins().load(I64, frame_memory(), self.frame, offset);
        self.remember(cell, v);
        v
    }

    fn remember(&mut self, cell: Cell, v: Value) {
        if self.known.len() >= KNOWN_CELLS {
            self.known.clear();
        }
        self.known.insert(cell, v);
    }

    /// Stores a cell's value.
    pub(super) fn set(&mut self, cell: Cell, v: Value) {
        self.store(cell, v);
        self.remember(cell, v);
    }

    /// The same, where the value is not known behind the next join.
    pub(super) fn store(&mut self, cell: Cell, v: Value) {
        self.is_refused |= self.constants.contains_key(&cell);
        let offset = self.offset(cell, 1);
        self.b.ins().store(frame_memory(), v, self.frame, offset);
    }

    /// Translates loads and stores of cells; false for other instructions.
    pub(super) fn is_cell_access(&mut self, i: Instruction, pc: Pc) -> bool {
        match i {
            Instruction::Moves { d, a, n } => match d > a && d - a < n {
                // Each takes what the one before has stored.
                true => (0..n).for_each(|k| {
                    let v = self.get(a + k);
                    self.set(d + k, v);
                }),
                false => self.copy(d, a, n, pc),
            },
            Instruction::Copy { d, a, n } => self.copy(d, a, n, pc),
            Instruction::Zero { d, n } => self.clear(d, n, pc),
            Instruction::LoadAt { d, at } => self.load_at(d, at, pc),
            Instruction::StoreAt { at, a } => self.store_at(at, a, pc),
            _ => return false,
        }
        true
    }

    fn copy(&mut self, d: Cell, a: Cell, n: u32, pc: Pc) {
        if n > FEW_CELLS {
            return self.shim(Shim::Cells, pc);
        }
        let (from, to) = (self.offset(a, n), self.offset(d, n));
        let values: Vec<Option<Value>> = (a..a + n).map(|c| self.known.get(&c).copied()).collect();
        // Each part is read before its place is written, whichever way the two overlap.
        let mut parts: Vec<(u32, u32)> =
            (0..n / 2).map(|k| (2 * k, 2)).chain((n % 2 == 1).then(|| (n - 1, 1))).collect();
        if d > a {
            parts.reverse();
        }
        for (k, cells) in parts {
            let kind = if cells == 2 { I64X2 } else { I64 };
            let v = self.b.ins().load(kind, frame_memory(), self.frame, from + 8 * k as i32);
            self.b.ins().store(frame_memory(), v, self.frame, to + 8 * k as i32);
        }
        for (cell, v) in (d..d + n).zip(values) {
            match v {
                Some(v) => self.known.insert(cell, v),
                None => self.known.remove(&cell),
            };
        }
    }

    fn clear(&mut self, d: Cell, n: u32, pc: Pc) {
        if n > FEW_CELLS {
            return self.shim(Shim::Cells, pc);
        }
        let zero = self.number(0);
        (d..d + n).for_each(|cell| self.set(cell, zero));
    }

    /// Whether a stack's element is there, and its offset in the frame, or that of the first; `None` where an index is
    /// in the wide frame.
    fn element(&mut self, at: u32) -> Option<(Value, Value)> {
        let code = self.code;
        let address = code.addrs.get(at as usize)?;
        let last: usize = address.dyns.iter().map(|d| d.len.saturating_sub(1) * d.stride).sum();
        self.offset(u32::try_from(address.base as usize + last).ok()?, 1);
        let (mut is_there, mut offset) = (None, self.number(u64::from(address.base) * 8));
        for d in &address.dyns {
            if code.wide_of[d.index] != NARROW || d.len == 0 {
                return None;
            }
            let index = self.get(d.index as Cell);
            let biased = self.b.ins().iadd_imm(index, i64::from(d.bias));
            let mut is_inside = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, biased, d.len as i64);
            if d.bias > 0 {
                let is_below = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, index, d.len as i64);
                is_inside = self.b.ins().band(is_inside, is_below);
            }
            is_there = Some(is_there.map_or(is_inside, |x| self.b.ins().band(x, is_inside)));
            let part = self.b.ins().imul_imm(biased, 8 * d.stride as i64);
            offset = self.b.ins().iadd(offset, part);
        }
        let is_there = is_there?;
        let first = self.number(u64::from(address.base) * 8);
        let offset = self.b.ins().select(is_there, offset, first);
        Some((is_there, offset))
    }

    /// Zero outside a stack.
    fn load_at(&mut self, d: Cell, at: u32, pc: Pc) {
        let Some((is_there, offset)) = self.element(at) else { return self.shim(Shim::Cells, pc) };
        let place = self.b.ins().iadd(self.frame, offset);
        let v = self.b.ins().load(I64, frame_memory(), place, 0);
        let zero = self.number(0);
        let v = self.b.ins().select(is_there, v, zero);
        self.set(d, v);
    }

    /// Nothing outside a stack.
    fn store_at(&mut self, at: u32, a: Cell, pc: Pc) {
        let Some((is_there, offset)) = self.element(at) else { return self.shim(Shim::Cells, pc) };
        let v = self.get(a);
        let place = self.b.ins().iadd(self.frame, offset);
        let old = self.b.ins().load(I64, frame_memory(), place, 0);
        let v = self.b.ins().select(is_there, v, old);
        self.b.ins().store(frame_memory(), v, place, 0);
        self.known.clear();
    }
}
