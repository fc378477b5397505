// SPDX-License-Identifier: Apache-2.0
//! The memory that the arrays of a program take.
use crate::bytecode::program::Program;
use crate::exec::meter::MeterCell;
use crate::value::Val;

/// Bytes that an array of a program takes, by its kind and name.
pub struct ArrayBytes<'a> {
    /// `register`, `counter` or `meter`.
    pub kind: &'static str,
    /// Name as controllers know it.
    pub name: &'a str,
    /// Bytes when all cells are in use.
    pub bytes: u64,
}

impl Program {
    /// Memory of its registers, counters and meters when all their cells are in use.
    pub fn array_bytes(&self) -> Vec<ArrayBytes<'_>> {
        let bytes = |cells: usize, each: usize| cells as u64 * each as u64;
        let registers = self.registers.iter().map(|r| {
            let each = match r.width {
                0..=64 => 8,
                65..=128 => size_of::<Val>(),
                w => size_of::<Val>() + w.div_ceil(64) as usize * 8,
            };
            ArrayBytes { kind: "register", name: &r.name, bytes: bytes(r.size, each) }
        });
        let counters = self.counters.iter().map(|c| ArrayBytes {
            kind: "counter",
            name: &c.name,
            bytes: bytes(c.size.unwrap_or(0), size_of::<(u64, u64)>()),
        });
        let meters = self.meters.iter().map(|m| ArrayBytes {
            kind: "meter",
            name: &m.name,
            bytes: bytes(m.size.unwrap_or(0), size_of::<MeterCell>()),
        });
        registers.chain(counters).chain(meters).collect()
    }
}
