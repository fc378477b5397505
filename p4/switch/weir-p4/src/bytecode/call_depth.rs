// SPDX-License-Identifier: Apache-2.0
//! Nesting depth of a program's calls.
use crate::bytecode::ir::{Block, Next, Statement};
use crate::bytecode::program::Program;

/// Actions, functions, controls and parsers that call each other.
pub const CALL_DEPTH: usize = 500;

impl Program {
    /// Depth of the deepest call chain.
    pub fn call_depth(&self) -> usize {
        let mut known = Depths {
            p: self,
            procs: vec![None; self.procs.len()],
            parsers: vec![None; self.parsers.len()],
            tables: vec![None; self.tables.len()],
        };
        let procs = (0..self.procs.len()).map(|i| known.proc(i)).max();
        let parsers = (0..self.parsers.len()).map(|i| known.parser(i)).max();
        procs.max(parsers).unwrap_or(0)
    }
}

struct Depths<'p> {
    p: &'p Program,
    procs: Vec<Option<usize>>,
    parsers: Vec<Option<usize>>,
    tables: Vec<Option<usize>>,
}

impl Depths<'_> {
    fn proc(&mut self, i: usize) -> usize {
        if let Some(known) = self.procs[i] {
            return known;
        }
        let depth = 1 + self.block(&self.p.procs[i]);
        self.procs[i] = Some(depth);
        depth
    }

    fn parser(&mut self, i: usize) -> usize {
        if let Some(known) = self.parsers[i] {
            return known;
        }
        let states: &[(String, Block, Next)] = &self.p.parsers[i].states;
        let depth = 1 + states.iter().map(|s| self.block(&s.1)).max().unwrap_or(0);
        self.parsers[i] = Some(depth);
        depth
    }

    fn table(&mut self, i: usize) -> usize {
        if let Some(known) = self.tables[i] {
            return known;
        }
        let t = &self.p.tables[i];
        let action = |a: &crate::bytecode::program::TableAction| {
            self.block(&a.before).max(self.proc(a.body)).max(self.block(&a.after))
        };
        let depth = 1 + t.actions.iter().map(action).max().unwrap_or(0);
        self.tables[i] = Some(depth);
        depth
    }

    fn block(&mut self, code: &Block) -> usize {
        code.iter().map(|s| self.step(s)).max().unwrap_or(0)
    }

    fn step(&mut self, s: &Statement) -> usize {
        match s {
            Statement::If(_, yes, no) => self.block(yes).max(self.block(no)),
            Statement::Switch(_, _, bodies, _) => bodies.iter().map(|b| self.block(b)).max().unwrap_or(0),
            Statement::Group(b) => self.block(b),
            Statement::Loop(before, _, body, update) => {
                self.block(before).max(self.block(body)).max(self.block(update))
            }
            Statement::Call(before, i, after) => self.block(before).max(self.proc(*i)).max(self.block(after)),
            Statement::CallParser(before, i, after) => self.block(before).max(self.parser(*i)).max(self.block(after)),
            Statement::Apply(t) => self.table(*t),
            _ => 0,
        }
    }
}
