// SPDX-License-Identifier: Apache-2.0
//! The machine as native code sees it: places of its fields, and the instructions that native code leaves to it.
use super::*;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Offsets of the machine's fields, in bytes.
pub(crate) struct FieldOffsets {
    pub(crate) steps: usize,
    pub(crate) error: usize,
    pub(crate) length: usize,
    pub(crate) drop_port: usize,
    pub(crate) registers: usize,
    pub(crate) wide: usize,
    pub(crate) at: usize,
    pub(crate) packet_start: usize,
    pub(crate) packet_bits: usize,
}

/// Offsets for native code.
pub(crate) const FIELD_OFFSETS: FieldOffsets = FieldOffsets {
    steps: offset_of!(Machine<'static>, steps),
    error: offset_of!(Machine<'static>, error),
    length: offset_of!(Machine<'static>, length),
    drop_port: offset_of!(Machine<'static>, drop_port),
    registers: offset_of!(Machine<'static>, registers),
    wide: offset_of!(Machine<'static>, wide),
    at: offset_of!(Machine<'static>, at),
    packet_start: offset_of!(Machine<'static>, packet_start),
    packet_bits: offset_of!(Machine<'static>, packet_bits),
};

impl Flow {
    /// The flow that native code returns as this number.
    pub(crate) fn from_number(number: u32) -> Flow {
        [Flow::Next, Flow::Exit, Flow::Reject].get(number as usize).copied().unwrap_or(Flow::Fault)
    }
}

impl Machine<'_> {
    /// Runs code from `start` on until it returns, in native code where there is some.
    pub(crate) fn run(&mut self, n: &mut [u64], start: Pc) -> Flow {
        match self.scratch.native.as_ref().and_then(|native| native.function(start)) {
            Some(function) => jit::run(function, self, n),
            None => self.interpret(n, start),
        }
    }

    /// Cells of the code's frame.
    pub(crate) fn cells(&self) -> usize {
        self.code.frame.len()
    }

    /// Cells of the wide frame.
    pub(crate) fn wide_cells(&self) -> usize {
        self.scratch.wide.len()
    }

    /// Runs `part`. A panic ends the packet, and goes on where native code has returned: it may not unwind through it.
    pub(crate) fn guarded(&mut self, part: impl FnOnce(&mut Self) -> Flow) -> Flow {
        match catch_unwind(AssertUnwindSafe(|| part(self))) {
            Ok(flow) => flow,
            Err(panic) => {
                self.panic = Some(panic);
                Flow::Fault
            }
        }
    }

    /// Goes on with a panic of [`Machine::guarded`].
    pub(crate) fn resume_panic(&mut self) {
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    pub(crate) fn native_work(&mut self, n: &mut [u64], pc: Pc) -> Flow {
        self.work(n, self.code.ins[pc as usize])
    }

    /// One instruction over cells alone.
    pub(crate) fn native_cells(&mut self, n: &mut [u64], pc: Pc) -> Flow {
        match self.code.ins[pc as usize] {
            Instruction::Moves { d, a, n: count } => {
                for k in 0..count {
                    n[(d + k) as usize] = n[(a + k) as usize];
                }
            }
            Instruction::LoadAt { d, at } => n[d as usize] = self.slot(n, at).map_or(0, |s| n[s]),
            Instruction::StoreAt { at, a } => {
                if let Some(s) = self.slot(n, at) {
                    n[s] = n[a as usize];
                }
            }
            Instruction::Copy { d, a, n: count } => n.copy_within(a as usize..(a + count) as usize, d as usize),
            Instruction::Zero { d, n: count } => n[d as usize..(d + count) as usize].fill(0),
            _ => {}
        }
        Flow::Next
    }

    pub(crate) fn native_extract(&mut self, n: &mut [u64], pc: Pc) -> Flow {
        match self.code.ins[pc as usize] {
            Instruction::Extract { header, size } => self.extract(n, header, n[size as usize]),
            _ => Flow::Next,
        }
    }

    pub(crate) fn native_emit(&mut self, n: &[u64], header: u32) -> Flow {
        self.emit(n, header);
        Flow::Next
    }

    pub(crate) fn native_hash(&mut self, n: &mut [u64], pc: Pc) -> Flow {
        if let Instruction::Hash { d, hash } = self.code.ins[pc as usize] {
            n[d as usize] = self.hash(n, hash);
        }
        Flow::Next
    }
}
