// SPDX-License-Identifier: Apache-2.0
//! Reachability by packets.
use crate::check::prelude::*;
use std::collections::BTreeSet;

/// Objects that packets can reach: tables, digests. The rest is not in P4Info, as p4c leaves out removed objects.
pub(super) struct Reached<'p> {
    pub(super) program: &'p Program,
    /// Bodies of actions. Functions called in them are inlined in p4c's eyes.
    pub(super) actions: BTreeSet<usize>,
    pub(super) called: BTreeSet<usize>,
    pub(super) procs: Vec<bool>,
    pub(super) parsers: Vec<bool>,
    pub(super) tables: Vec<bool>,
    pub(super) digests: Vec<bool>,
}

impl<'p> Reached<'p> {
    pub(super) fn of(p: &'p Program, actions: BTreeSet<usize>) -> Reached<'p> {
        let flags = |n: usize| vec![false; n];
        let mut r = Reached {
            program: p,
            actions,
            called: BTreeSet::new(),
            procs: flags(p.procs.len()),
            parsers: flags(p.parsers.len()),
            tables: flags(p.tables.len()),
            digests: flags(p.digests.len()),
        };
        r.parser(p.parser);
        [p.verify, p.ingress, p.egress, p.compute, p.deparser].iter().for_each(|b| r.procedure(*b));
        r
    }

    fn procedure(&mut self, body: usize) {
        if !std::mem::replace(&mut self.procs[body], true) {
            let outside = self.called.clone();
            self.block(&self.program.procs[body]);
            if self.actions.contains(&body) {
                self.called = outside;
            }
        }
    }

    fn parser(&mut self, i: usize) {
        if !std::mem::replace(&mut self.parsers[i], true) {
            self.program.parsers[i].states.iter().for_each(|(_, code, _)| self.block(code));
        }
    }

    fn table(&mut self, i: usize) {
        if std::mem::replace(&mut self.tables[i], true) {
            return;
        }
        let table = &self.program.tables[i];
        self.block(&table.before);
        for a in &table.actions {
            self.block(&a.before);
            self.procedure(a.body);
            self.block(&a.after);
        }
    }

    fn block(&mut self, code: &'p [Statement]) {
        for st in code {
            match st {
                Statement::If(Expression::Const(c), yes, no) => self.block(if c.is_zero() { no } else { yes }),
                Statement::If(_, a, b) => {
                    self.block(a);
                    self.block(b);
                }
                Statement::Switch(_, _, bodies, _) => bodies.iter().for_each(|b| self.block(b)),
                Statement::Group(b) => self.block(b),
                Statement::Call(a, body, b) => {
                    self.block(a);
                    self.called.insert(*body);
                    self.procedure(*body);
                    self.block(b);
                }
                Statement::CallParser(a, i, b) => {
                    self.block(a);
                    self.parser(*i);
                    self.block(b);
                }
                Statement::Loop(a, _, b, c) => [a, b, c].into_iter().for_each(|b| self.block(b)),
                Statement::Apply(t) => self.table(*t),
                Statement::Digest(i, ..) => self.digests[*i] = true,
                Statement::Return => return,
                _ => {}
            }
        }
    }
}
