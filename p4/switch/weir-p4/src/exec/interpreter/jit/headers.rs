// SPDX-License-Identifier: Apache-2.0
//! Headers at fixed places.
use super::shims::Shim;
use super::translate::Translator;
use crate::bytecode::code::{Cell, FieldIn, HeaderCode, NARROW, Pc, WideCell};
use crate::exec::interpreter::FIELD_OFFSETS;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AliasRegion, InstBuilder, MemFlags, Value};

/// Bytes that a field's access reads at once.
const ACCESS_BYTES: usize = 8;

/// A field of a header: its cell, and the eight bytes, the shift and the cut that give its value.
type Field = (Cell, u16, u8, u8);

fn packet_memory() -> MemFlags {
    MemFlags::new().with_notrap().with_readonly()
}

fn machine_memory() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

/// The fields of a header that native code extracts: one at a fixed place, of whole bytes, that no other header and no
/// stack's index depends on. A field of variable length is not among them.
fn fixed_fields(h: &HeaderCode) -> Option<Vec<Field>> {
    let is_fixed = h.at.is_none() && h.next.is_none() && h.siblings.is_empty();
    if !is_fixed || !h.fixed_bits.is_multiple_of(8) || h.reads.is_empty() {
        return None;
    }
    let fields = h.reads.iter().map(|f| match f {
        FieldIn::Fast { offset, at, right, sh } if usize::from(*at) + ACCESS_BYTES <= h.fixed_bits / 8 => {
            Some((h.base.checked_add(*offset)?, *at, *right, *sh))
        }
        _ => None,
    });
    fields.collect()
}

impl Translator<'_, '_> {
    pub(super) fn extract(&mut self, header: u32, size: Cell, pc: Pc) {
        let code = self.code;
        let h = &code.headers[header as usize];
        let Some(fields) = fixed_fields(h) else { return self.shim(Shim::Extract, pc) };
        let variable = h.varbit.map(|v| h.base + h.fields[v].0);
        let valid = self.number(1);
        let (at, bits, place) = self.parser_place();
        let end = self.b.ins().iadd_imm(at, h.fixed_bits as i64);
        let is_there = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, bits);
        let odd = self.b.ins().band_imm(at, 7);
        let is_whole = self.b.ins().icmp_imm(IntCC::Equal, odd, 0);
        let mut is_quick = self.b.ins().band(is_there, is_whole);
        if self.constants.get(&size) != Some(&0) {
            let size = self.get(size);
            let is_empty = self.b.ins().icmp_imm(IntCC::Equal, size, 0);
            is_quick = self.b.ins().band(is_quick, is_empty);
        }
        if let Some(wide) = variable.and_then(|slot| self.wide_of(slot)) {
            let tag = self.tag(wide);
            let is_small = self.b.ins().icmp_imm(IntCC::Equal, tag, 0);
            is_quick = self.b.ins().band(is_quick, is_small);
        }
        let (slow, quick, go_on) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        self.b.ins().brif(is_quick, quick, &[], slow, &[]);
        let mut known = self.known.clone();
        self.b.switch_to_block(slow);
        self.shim(Shim::Extract, pc);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(quick);
        self.fields(place, &fields);
        self.b.ins().store(machine_memory(), end, self.machine, FIELD_OFFSETS.at as i32);
        self.store(h.base, valid);
        if let Some(slot) = variable {
            self.empty(slot);
        }
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        known.insert(h.base, valid);
        fields.iter().for_each(|f| _ = known.remove(&f.0));
        variable.into_iter().flat_map(|slot| [slot, slot + 1]).for_each(|slot| _ = known.remove(&slot));
        self.known = known;
    }

    /// A slot's place in the wide frame, if it is there.
    fn wide_of(&self, slot: Cell) -> Option<WideCell> {
        self.code.wide_of.get(slot as usize).copied().filter(|w| *w != NARROW)
    }

    /// A field of variable length without any bits; its length is in the next slot.
    fn empty(&mut self, slot: Cell) {
        let zero = self.number(0);
        match self.wide_of(slot) {
            Some(wide) => {
                let v = self.b.ins().iconcat(zero, zero);
                self.set_wide(wide, v);
            }
            None => self.store(slot, zero),
        }
        self.store(slot + 1, zero);
    }

    /// A header that is not valid takes no call.
    pub(super) fn emit(&mut self, header: u32) {
        let code = self.code;
        let h = &code.headers[header as usize];
        if h.at.is_some() {
            return self.shim(Shim::Emit, header);
        }
        let valid = self.get(h.base);
        let (call, go_on) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(valid, call, &[], go_on, &[]);
        // The machine only reads the frame.
        let known = self.known.clone();
        self.b.switch_to_block(call);
        self.shim(Shim::Emit, header);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        self.known = known;
    }

    /// Position of the parser and length of the packet in bits, and the address of the parser's byte.
    fn parser_place(&mut self) -> (Value, Value, Value) {
        let at = self.b.ins().load(I64, machine_memory(), self.machine, FIELD_OFFSETS.at as i32);
        let start = self.b.ins().load(I64, machine_memory(), self.machine, FIELD_OFFSETS.packet_start as i32);
        let bits = self.b.ins().load(I64, machine_memory(), self.machine, FIELD_OFFSETS.packet_bits as i32);
        let byte = self.b.ins().ushr_imm(at, 3);
        (at, bits, self.b.ins().iadd(start, byte))
    }

    /// Stores the fields of the header at this address.
    fn fields(&mut self, place: Value, fields: &[Field]) {
        for (cell, at, right, sh) in fields {
            let v = self.b.ins().load(I64, packet_memory(), place, i32::from(*at));
            let v = self.b.ins().bswap(v);
            let v = if *right == 0 { v } else { self.b.ins().ushr_imm(v, i64::from(*right)) };
            let v = if *sh <= *right { v } else { self.cut(v, *sh) };
            self.store(*cell, v);
        }
    }
}
