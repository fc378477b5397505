// SPDX-License-Identifier: Apache-2.0
//! Warnings of constructs that run here and that p4c's backend for BMv2 refuses.
use crate::check::prelude::*;
use std::collections::BTreeSet;

/// Tables that are copied from path to path at most; later ones go without a warning.
const MOST_WORK: usize = 10_000_000;

impl Context<'_> {
    /// Warns of statements of the checksum controls and the deparser that p4c for BMv2 refuses.
    pub fn warn_of_target_limits(&mut self, phase: Phase, body: usize, control: &Name) {
        let shared = [self.program.headers, self.program.meta].map(|(at, n)| at..at + n);
        let is_local = |slot: &Slot| !shared.iter().any(|r| r.contains(slot));
        let checksums = |s: &Statement| match s {
            Statement::VerifyChecksum(..) | Statement::UpdateChecksum(..) => true,
            // Temporaries of a call's arguments.
            Statement::Set(slot, _) | Statement::Zero(slot, _) => is_local(slot),
            Statement::Copy(_, to, _) => is_local(&to.base),
            _ => false,
        };
        let deparser = |s: &Statement| {
            matches!(
                s,
                Statement::Set(_, Expression::Const(_))
                    | Statement::Zero(..)
                    | Statement::Emit(_)
                    | Statement::Return
                    | Statement::Exit
                    | Statement::Assert(..)
                    | Statement::Log(..)
            )
        };
        let (fits, only) = match phase {
            Phase::Verify => (self.all_statements(body, &checksums), "verify_checksum"),
            Phase::Compute => (self.all_statements(body, &checksums), "update_checksum"),
            Phase::Deparser => (self.all_statements(body, &deparser), "emit"),
            Phase::Ingress | Phase::Egress => return self.warn_of_tables_applied_twice(body),
            _ => return,
        };
        if !fits {
            let m = format!("p4c for BMv2 refuses statements other than calls of `{only}` in `{}`", control.text);
            self.diagnostics.warn(control.span, m);
        }
    }

    /// Warns of tables that one path through a pipeline applies twice: each has one successor in BMv2's JSON.
    fn warn_of_tables_applied_twice(&mut self, body: usize) {
        let mut paths = Paths { program: &self.program, known: HashMap::new(), twice: BTreeSet::new(), work: 0 };
        paths.procedure(body);
        for t in paths.twice {
            let name = &self.program.tables[t].name;
            let span = self.table_names.iter().find(|(n, _)| n == name).map(|(_, span)| *span).unwrap_or_default();
            let m = format!("p4c for BMv2 refuses a program that applies table `{name}` twice on a path");
            self.diagnostics.warn(span, m);
        }
    }

    /// Warns of a bound of a slice that is a constant of a control or action.
    pub fn warn_of_slice_bound(&mut self, bound: &Expr) {
        if let ExprKind::Name(n) = &bound.kind
            && !self.scopes[0].contains_key(n)
        {
            let m = format!("p4c refuses `{n}` as a bound of a slice that is assigned to: it is not declared globally");
            self.diagnostics.warn(bound.span, m);
        }
    }

    /// Warns of members of the headers struct that are no headers, stacks or unions.
    pub fn warn_of_headers(&mut self, headers: &Ty, span: Span) {
        let Ty::Struct(s) = headers else {
            return;
        };
        let other = |t: &Ty| !(t.is_header() || t.is_union() || matches!(t, Ty::Stack(..)));
        if let Some(f) = s.fields.iter().find(|f| other(f.ty.base())) {
            let m = format!("p4c for BMv2 refuses member `{}` of {headers}: it is no header, stack or union", f.name);
            self.diagnostics.warn(span, m);
        }
    }

    /// Whether all statements of a procedure, and of those that it calls, are allowed.
    fn all_statements(&self, procedure: usize, allowed: &impl Fn(&Statement) -> bool) -> bool {
        self.program.procs[procedure].iter().all(|s| self.statement_fits(s, allowed))
    }

    fn statement_fits(&self, s: &Statement, allowed: &impl Fn(&Statement) -> bool) -> bool {
        match s {
            Statement::Group(list) => list.iter().all(|s| self.statement_fits(s, allowed)),
            Statement::Mark(_) => true,
            Statement::Call(_, body, _) => self.all_statements(*body, allowed),
            s => allowed(s),
        }
    }
}

/// Tables along the paths through procedures.
struct Paths<'p> {
    program: &'p Program,
    /// Tables that a procedure may apply.
    known: HashMap<usize, BTreeSet<usize>>,
    twice: BTreeSet<usize>,
    work: usize,
}

impl Paths<'_> {
    fn procedure(&mut self, p: usize) -> BTreeSet<usize> {
        if let Some(tables) = self.known.get(&p) {
            return tables.clone();
        }
        let mut met = BTreeSet::new();
        let program = self.program;
        let mut all = self.block(&program.procs[p], &mut met);
        all.extend(met);
        self.known.insert(p, all.clone());
        all
    }

    /// Tables of the block; `met` has those that a path to its end has applied, and is empty where none leads there.
    fn block(&mut self, block: &[Statement], met: &mut BTreeSet<usize>) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for s in block {
            match s {
                Statement::Apply(t) => self.meet([*t].into(), met, &mut all),
                Statement::Call(before, p, after) => {
                    all.extend(self.block(before, met));
                    let tables = self.procedure(*p);
                    self.meet(tables, met, &mut all);
                    all.extend(self.block(after, met));
                }
                Statement::Group(b) => all.extend(self.block(b, met)),
                Statement::If(_, a, b) => all.extend(self.branches([a, b].map(Vec::as_slice).into_iter(), met)),
                Statement::Switch(_, _, bodies, default) => {
                    // Without a default, no case may fit.
                    let none: &[Statement] = &[];
                    let bodies = bodies.iter().map(Vec::as_slice).chain(default.is_none().then_some(none));
                    all.extend(self.branches(bodies, met));
                }
                Statement::Loop(before, _, body, after) => {
                    let mut tables = BTreeSet::new();
                    for b in [before, body, after] {
                        tables.extend(self.block(b, met));
                    }
                    // p4c unrolls loops.
                    self.twice.extend(&tables);
                    all.extend(tables);
                }
                Statement::Return | Statement::Exit => {
                    met.clear();
                    break;
                }
                _ => {}
            }
        }
        all
    }

    fn meet(&mut self, tables: BTreeSet<usize>, met: &mut BTreeSet<usize>, all: &mut BTreeSet<usize>) {
        self.twice.extend(tables.intersection(met).copied());
        met.extend(&tables);
        all.extend(tables);
    }

    fn branches<'b>(
        &mut self,
        bodies: impl Iterator<Item = &'b [Statement]>,
        met: &mut BTreeSet<usize>,
    ) -> BTreeSet<usize> {
        let (before, mut after, mut all) = (met.clone(), BTreeSet::new(), BTreeSet::new());
        for body in bodies {
            self.work = self.work.saturating_add(1 + before.len());
            if self.work > MOST_WORK {
                break;
            }
            let mut path = before.clone();
            all.extend(self.block(body, &mut path));
            after.extend(path);
        }
        *met = after;
        all
    }
}
