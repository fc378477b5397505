// SPDX-License-Identifier: Apache-2.0
//! Cost of a packet on BMv2, from the statements that it executes here: a bound on `p4/programs/pid_delay.p4`. p4c gives
//! BMv2 a node for each conditional, each table, and each run of statements between them; in actions a conditional is a
//! jump, which is a primitive. Weights: `docs/notebook/2026-11-law-cost.md`.
mod tests;

use crate::bytecode::code::Code;
use crate::bytecode::marks::Mark;
use std::cell::RefCell;

/// Instructions of BMv2 1.15.5 for a conditional, beside its operators.
const CONDITIONAL: usize = 900;
/// For a run of statements, beside its primitives.
const RUN: usize = 6_000;
/// For a table with a key that has the entry, beside the action.
const TABLE: usize = 33_000;
/// For an assignment or a register's access; the mean.
const PRIMITIVE: usize = 1_900;
/// For a conditional in an action.
const JUMP: usize = 1_300;
/// For an operator; the mean.
const OPERATOR: usize = 150;

/// Operations that a packet took.
#[derive(Clone, Copy, Debug, Default)]
struct Operations {
    conditionals: usize,
    runs: usize,
    tables: usize,
    primitives: usize,
    jumps: usize,
    operators: usize,
    /// The last operation was a primitive in no action, or in one that `apply` calls.
    is_run: bool,
    /// A table was applied, and its action has not ended.
    in_table: bool,
}

impl Operations {
    /// Instructions on BMv2.
    fn instructions(&self) -> usize {
        self.conditionals * CONDITIONAL
            + self.runs * RUN
            + self.tables * TABLE
            + self.primitives * PRIMITIVE
            + self.jumps * JUMP
            + self.operators * OPERATOR
    }
}

thread_local! {
    static COUNTED: RefCell<Operations> = RefCell::default();
}

/// Address of the code, and of each of its procedures (a control, an action, a function) in order: the start, and whether it
/// is the `apply` of a control, since it applies a table.
type Procedures = (usize, Vec<(usize, bool)>);

thread_local! {
    static PROCEDURES: RefCell<Procedures> = RefCell::default();
}

fn procedures(code: &Code) -> Vec<(usize, bool)> {
    let mut starts: Vec<(usize, bool)> = code.procs.iter().map(|p| (*p as usize, false)).collect();
    starts.sort_unstable();
    for (at, _) in code.marks.iter().filter(|(_, mark)| matches!(mark, Mark::Table)) {
        let after = starts.partition_point(|(start, _)| *start <= *at as usize);
        starts[..after].last_mut().expect("a table is applied in a procedure").1 = true;
    }
    starts
}

/// Whether the instruction at `pc` is in the `apply` of a control.
fn is_in_control(code: &Code, pc: usize) -> bool {
    PROCEDURES.with_borrow_mut(|(address, known)| {
        let here = std::ptr::from_ref(code) as usize;
        if *address != here {
            (*address, *known) = (here, procedures(code));
        }
        known[..known.partition_point(|(start, _)| *start <= pc)].last().is_some_and(|(_, is_control)| *is_control)
    })
}

/// The interpreter is about to run the instruction at `pc`.
pub(super) fn count(code: &Code, pc: usize) {
    let first = code.marks.partition_point(|(at, _)| (*at as usize) < pc);
    if code.marks.get(first).is_none_or(|(at, _)| *at as usize != pc) {
        return;
    }
    let in_control = is_in_control(code, pc);
    COUNTED.with_borrow_mut(|o| {
        o.in_table &= !in_control;
        for (_, mark) in code.marks[first..].iter().take_while(|(at, _)| *at as usize == pc) {
            match *mark {
                Mark::Branch { operators } if in_control => {
                    o.conditionals += 1;
                    o.operators += operators;
                    o.is_run = false;
                }
                Mark::Branch { operators } => {
                    o.begin_run();
                    o.jumps += 1;
                    o.operators += operators;
                }
                Mark::Table => {
                    o.tables += 1;
                    o.is_run = false;
                    o.in_table = true;
                }
                Mark::Join => o.is_run &= !in_control,
                Mark::Primitive { operators } => {
                    o.begin_run();
                    o.primitives += 1;
                    o.operators += operators;
                }
            }
        }
    });
}

impl Operations {
    /// A primitive follows.
    fn begin_run(&mut self) {
        if !self.is_run && !self.in_table {
            self.runs += 1;
            self.is_run = true;
        }
    }
}
