// SPDX-License-Identifier: Apache-2.0
//! Memory limit of a program's arrays.
use weir_p4::bytecode::program::Program;

/// Default memory limit of a program's arrays.
pub const STATE_BYTES: u64 = 256 << 20;

/// Sees whether the arrays of a program fit.
///
/// # Errors
/// They take more than `max_bytes`; the text has their sum and the largest.
pub fn check_state(program: &Program, max_bytes: u64) -> Result<(), String> {
    const MIB: f64 = (1 << 20) as f64;
    let arrays = program.array_bytes();
    let total = arrays.iter().fold(0u64, |n, a| n.saturating_add(a.bytes));
    let Some(most) = arrays.iter().max_by_key(|a| a.bytes).filter(|_| total > max_bytes) else { return Ok(()) };
    Err(format!(
        "the program's registers, counters and meters take {:.1} MiB in all ({} {} alone {:.1}); the most is {:.1} MiB, \
         which --max-state-mib changes",
        total as f64 / MIB,
        most.kind,
        most.name,
        most.bytes as f64 / MIB,
        max_bytes as f64 / MIB
    ))
}
