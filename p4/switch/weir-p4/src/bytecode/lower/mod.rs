// SPDX-License-Identifier: Apache-2.0
//! From the checked program to [`crate::code`]: where every value lies, which arithmetic 64 bits are enough for, and
//! jumps in place of nesting.
mod expressions;
mod fold;
mod headers;
mod statements;
mod tables;
mod traced;

use crate::bytecode::code::*;
use crate::bytecode::copies::{Copies, Unchanged};
use crate::bytecode::cost;
use crate::bytecode::ir::{self, *};
use crate::bytecode::keys::{layout, match_keys};
use crate::bytecode::operators::{HashAlgorithm, Operator, Slot};
use crate::bytecode::program::{MatchKind, Program, Table};
use crate::bytecode::widths::Widths;
use crate::value::Val;
use std::collections::HashMap;

type Label = u32;

struct Lower<'p> {
    program: &'p Program,
    widths: Widths,
    copies: Copies,
    code: Code,
    consts: HashMap<u64, Cell>,
    /// Cells given out so far.
    cells: u32,
    /// Temporaries, and how many of them are in use.
    temps: Vec<Cell>,
    used: usize,
    wide_temps: Vec<WideCell>,
    wide_used: usize,
    /// Where each label stands. Jumps name labels until the end; label 0 is none.
    labels: Vec<Pc>,
    procs: Vec<Label>,
    parsers: Vec<Label>,
    /// Where `break` and `continue` go.
    loops: Vec<(Label, Label)>,
    /// Code that runs when a callee exits, and what a call's need not copy; code around actions.
    pending: Vec<(Label, &'p Block, Option<Unchanged>)>,
    /// The labels of the pending code.
    around: Vec<Label>,
    /// Where the last label stands: code before it and code behind it are not one block.
    fence: Pc,
    /// Slots that are known not to be zero.
    known: Vec<Slot>,
    /// Where the first `read` of each direct meter puts the color.
    meter_targets: HashMap<usize, Source>,
    /// Whether the code reports events to a trace.
    traced: bool,
    /// The place in the source of the statement, for the next event.
    place: Option<usize>,
    /// Calls whose parameters are being copied.
    #[cfg(test)]
    copying: usize,
}

/// Makes the code that runs `p`; `None` when that would take too long.
pub fn lower(p: &Program) -> Option<Code> {
    code(p, false)
}

/// The same, with code that reports events to a trace.
pub fn lower_traced(p: &Program) -> Option<Code> {
    code(p, true)
}

fn code(p: &Program, traced: bool) -> Option<Code> {
    let widths = Widths::of(p)?;
    let mut wide_cells = 0;
    let wide_of = (0..p.slots).map(|s| {
        if widths.slot(s) <= 64 {
            return NARROW;
        }
        wide_cells += 1;
        wide_cells - 1
    });
    let wide_of: Vec<u32> = wide_of.collect();
    let mut l = Lower {
        program: p,
        widths,
        // A trace shows every slot.
        copies: if traced { Copies::default() } else { Copies::of(p) },
        code: Code { wide_of, wide_cells: wide_cells as usize, ..Code::default() },
        consts: HashMap::new(),
        cells: p.slots as u32,
        temps: Vec::new(),
        used: 0,
        wide_temps: Vec::new(),
        wide_used: 0,
        labels: vec![0],
        procs: Vec::new(),
        parsers: Vec::new(),
        loops: Vec::new(),
        pending: Vec::new(),
        around: Vec::new(),
        fence: 0,
        known: Vec::new(),
        meter_targets: HashMap::new(),
        traced,
        place: None,
        #[cfg(test)]
        copying: 0,
    };
    l.whole();
    Some(l.finish())
}

impl<'p> Lower<'p> {
    fn whole(&mut self) {
        let p = self.program;
        self.emit(Instruction::Return);
        let number = |name: &str| p.errors.iter().position(|e| e == name).unwrap_or(0) as u32;
        self.code.errors = Errors {
            too_short: number("PacketTooShort"),
            invalid_argument: number("ParserInvalidArgument"),
            header_too_short: number("HeaderTooShort"),
            stack: number("StackOutOfBounds"),
            timeout: number("ParserTimeout"),
        };
        self.code.meter_tables =
            (0..p.meters.len()).map(|m| p.tables.iter().position(|t| t.meter == Some(m))).collect();
        self.procs = p.procs.iter().map(|_| self.label()).collect();
        self.parsers = p.parsers.iter().map(|_| self.label()).collect();
        for (i, body) in p.procs.iter().enumerate() {
            self.here(self.procs[i]);
            self.place = None;
            self.block(body);
            self.emit(Instruction::Return);
        }
        for (i, x) in p.parsers.iter().enumerate() {
            self.parser(i, x);
        }
        for t in &p.tables {
            let code = self.table(t);
            self.code.tables.push(code);
        }
        while let Some((label, body, unchanged)) = self.pending.pop() {
            self.around.push(label);
            self.here(label);
            match unchanged {
                Some(unchanged) => self.parameters(body, &unchanged),
                None => self.block(body),
            }
            self.emit(Instruction::Return);
        }
    }

    fn finish(mut self) -> Code {
        let at = |l: &mut Label| *l = self.labels[*l as usize];
        for i in &mut self.code.ins {
            match i {
                Instruction::Jump { to }
                | Instruction::JumpZero { to, .. }
                | Instruction::JumpSet { to, .. }
                | Instruction::JumpEq { to, .. }
                | Instruction::JumpNe { to, .. }
                | Instruction::JumpLt { to, .. }
                | Instruction::JumpLe { to, .. } => at(to),
                Instruction::Call { to, after, .. } => {
                    at(to);
                    at(after);
                }
                Instruction::LoopStep { cost } => at(cost),
                _ => {}
            }
        }
        for a in self.code.tables.iter_mut().flat_map(|t| &mut t.actions) {
            at(&mut a.before);
            at(&mut a.to);
            at(&mut a.after);
        }
        self.code.procs = self.procs.iter().map(|l| self.labels[*l as usize]).collect();
        self.code.parsers = self.parsers.iter().map(|l| self.labels[*l as usize]).collect();
        let after = self.around.iter().map(|l| self.labels[*l as usize]);
        let starts = self.code.procs.iter().chain(&self.code.parsers).copied().chain(after).collect();
        cost::fill(&mut self.code, starts);
        self.code.frame = vec![0; self.cells as usize];
        for (v, cell) in &self.consts {
            self.code.frame[*cell as usize] = *v;
            self.code.constants.push((*cell, *v));
        }
        self.code
    }

    fn emit(&mut self, i: Instruction) {
        if let (Instruction::Move { d, a }, true) = (i, self.fence < self.code.ins.len() as Pc) {
            // Adjacent fields that move to adjacent places are one.
            match self.code.ins.last_mut() {
                Some(Instruction::Moves { d: x, a: y, n }) if *x + *n == d && *y + *n == a => {
                    *n += 1;
                    return;
                }
                Some(last @ Instruction::Move { .. }) => {
                    if let Instruction::Move { d: x, a: y } = *last
                        && x + 1 == d
                        && y + 1 == a
                    {
                        *last = Instruction::Moves { d: x, a: y, n: 2 };
                        return;
                    }
                }
                _ => {}
            }
        }
        self.code.ins.push(i);
    }

    fn label(&mut self) -> Label {
        self.labels.push(0);
        (self.labels.len() - 1) as Label
    }

    fn here(&mut self, l: Label) {
        self.labels[l as usize] = self.code.ins.len() as Pc;
        self.fence = self.code.ins.len() as Pc;
    }

    fn constant(&mut self, v: u64) -> Cell {
        let next = self.cells;
        let cell = *self.consts.entry(v).or_insert(next);
        self.cells += u32::from(cell == next);
        cell
    }

    fn temp(&mut self) -> Cell {
        if self.used == self.temps.len() {
            self.temps.push(self.cells);
            self.cells += 1;
        }
        self.used += 1;
        self.temps[self.used - 1]
    }

    fn wide_temp(&mut self) -> WideCell {
        if self.wide_used == self.wide_temps.len() {
            self.wide_temps.push(self.code.wide_cells as u32);
            self.code.wide_cells += 1;
        }
        self.wide_used += 1;
        self.wide_temps[self.wide_used - 1]
    }

    fn wide_of(&self, s: Slot) -> u32 {
        self.code.wide_of.get(s).copied().unwrap_or(NARROW)
    }

    fn is_wide(&self, a: &Address) -> bool {
        // Behind run-time indices all are of one kind.
        self.wide_of(a.base) != NARROW
    }

    fn addr(&mut self, a: &Address) -> u32 {
        self.code.addrs.push(AddressCode { base: a.base as Cell, dyns: a.dyns.clone() });
        (self.code.addrs.len() - 1) as u32
    }
}
