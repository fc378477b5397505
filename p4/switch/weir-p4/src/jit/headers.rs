// SPDX-License-Identifier: Apache-2.0
//! Headers of fixed length at fixed places.
use super::shims::Shim;
use super::translate::Translator;
use crate::bytecode::code::{Cell, FieldIn, HeaderCode, Pc};
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

/// The fields of a header that native code extracts: one at a fixed place, of whole bytes, without parts of variable
/// length, that no other header and no stack's index depends on.
fn fixed_fields(h: &HeaderCode) -> Option<Vec<Field>> {
    let is_fixed = h.at.is_none() && h.varbit.is_none() && h.next.is_none() && h.siblings.is_empty();
    if !is_fixed || h.fixed_bits % 8 != 0 || h.reads.is_empty() {
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
        let is_fixed = self.constants.get(&size) == Some(&0);
        let Some(fields) = fixed_fields(h).filter(|_| is_fixed) else { return self.shim(Shim::Extract, pc) };
        let valid = self.number(1);
        let (at, bits, place) = self.parser_place();
        let end = self.b.ins().iadd_imm(at, h.fixed_bits as i64);
        let is_there = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, bits);
        let odd = self.b.ins().band_imm(at, 7);
        let is_whole = self.b.ins().icmp_imm(IntCC::Equal, odd, 0);
        let is_quick = self.b.ins().band(is_there, is_whole);
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
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        known.insert(h.base, valid);
        fields.iter().for_each(|f| _ = known.remove(&f.0));
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
