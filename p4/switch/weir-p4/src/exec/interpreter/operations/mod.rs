// SPDX-License-Identifier: Apache-2.0
//! Operations of a packet as BMv2 counts them: a bound on the cost of `p4/programs/pid_delay.p4` there. p4c gives BMv2 a
//! node for each conditional, each table, and each run of statements between them; a node costs about as much as ten
//! primitives or operators.
mod tests;

use crate::bytecode::code::Code;
use crate::bytecode::marks::Mark;
use std::cell::RefCell;

/// Operations that a packet took.
#[derive(Clone, Copy, Debug, Default)]
struct Operations {
    /// Conditionals, tables, and runs of statements.
    nodes: usize,
    primitives: usize,
    operators: usize,
    /// The last operation was a primitive.
    is_run: bool,
}

thread_local! {
    static COUNTED: RefCell<Operations> = RefCell::default();
}

/// The interpreter is about to run the instruction at `pc`.
pub(super) fn count(code: &Code, pc: usize) {
    let first = code.marks.partition_point(|(at, _)| (*at as usize) < pc);
    COUNTED.with_borrow_mut(|o| {
        for (_, mark) in code.marks[first..].iter().take_while(|(at, _)| *at as usize == pc) {
            let was_run = std::mem::take(&mut o.is_run);
            match *mark {
                Mark::Branch { operators } => {
                    o.nodes += 1;
                    o.operators += operators;
                }
                Mark::Table => o.nodes += 1,
                Mark::Join => {}
                Mark::Primitive { operators } => {
                    o.nodes += usize::from(!was_run);
                    o.is_run = true;
                    o.primitives += 1;
                    o.operators += operators;
                }
            }
        }
    });
}
