// SPDX-License-Identifier: Apache-2.0
//! Native functions of a program: one for each place that code is called at.
use crate::bytecode::code::{Code, Instruction, Pc};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions that one native function is made of at most; a longer procedure is interpreted.
pub(super) const FUNCTION_INSTRUCTIONS: usize = 10_000;

/// Instructions that run from one entry on, without those of callees.
pub(super) struct Body {
    pub(super) entry: Pc,
    /// In the order of the code.
    pub(super) pcs: BTreeSet<Pc>,
    /// Where blocks begin, and how many jumps lead there.
    pub(super) leaders: BTreeMap<Pc, usize>,
}

/// Next places of an instruction: the one behind it, if it can be, and the one that it jumps to.
pub(super) fn successors(i: Instruction, pc: Pc) -> (Option<Pc>, Option<Pc>) {
    match i {
        Instruction::Jump { to } => (None, Some(to)),
        Instruction::JumpZero { to, .. }
        | Instruction::JumpSet { to, .. }
        | Instruction::JumpEq { to, .. }
        | Instruction::JumpNe { to, .. }
        | Instruction::JumpLt { to, .. }
        | Instruction::JumpLe { to, .. } => (Some(pc + 1), Some(to)),
        Instruction::Return
        | Instruction::Exit
        | Instruction::Reject
        | Instruction::Fail { .. }
        | Instruction::FailWith { .. } => (None, None),
        _ => (Some(pc + 1), None),
    }
}

/// Each place that is called: procedures, parsers, actions and the code around them.
pub(super) fn entries(code: &Code) -> BTreeSet<Pc> {
    let actions = code.tables.iter().flat_map(|t| &t.actions).flat_map(|a| [a.before, a.to, a.after]);
    let mut all: BTreeSet<Pc> = code.procs.iter().chain(&code.parsers).copied().chain(actions).collect();
    for i in &code.ins {
        if let Instruction::Call { to, after, .. } = i {
            all.extend([*to, *after]);
        }
    }
    all
}

/// The code from `entry` on; `None` when it is too long, or leads out of the program.
pub(super) fn body(code: &Code, entry: Pc) -> Option<Body> {
    let (mut pcs, mut leaders) = (BTreeSet::new(), BTreeMap::from([(entry, 0)]));
    let mut open = vec![entry];
    while let Some(pc) = open.pop() {
        if !pcs.insert(pc) {
            continue;
        }
        if pcs.len() > FUNCTION_INSTRUCTIONS {
            return None;
        }
        let (next, target) = successors(*code.ins.get(pc as usize)?, pc);
        if let Some(to) = target {
            *leaders.entry(to).or_default() += 1;
        }
        open.extend(next.into_iter().chain(target));
    }
    Some(Body { entry, leaders: with_fallthrough(code, &pcs, leaders), pcs })
}

/// Counts also the ways from an instruction to the leader behind it.
fn with_fallthrough(code: &Code, pcs: &BTreeSet<Pc>, mut leaders: BTreeMap<Pc, usize>) -> BTreeMap<Pc, usize> {
    for pc in pcs {
        let (next, target) = successors(code.ins[*pc as usize], *pc);
        let Some(next) = next else { continue };
        if target.is_some() {
            // Both sides of a branch are blocks.
            *leaders.entry(next).or_default() += 1;
        } else if let Some(ways) = leaders.get_mut(&next) {
            *ways += 1;
        }
    }
    leaders
}
