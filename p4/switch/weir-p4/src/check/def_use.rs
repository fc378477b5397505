// SPDX-License-Identifier: Apache-2.0
//! Warnings of reads that have no value: of variables that no path has assigned, and of headers that were made invalid.
//! An approximation over the syntax tree that prefers silence: a variable that any branch, call or loop may have
//! assigned is taken as assigned.
use super::prelude::*;
use crate::syntax::diagnostics::Diagnostics;
use std::collections::BTreeSet;

/// Variables and headers known in one body at most, so that a body with many branches takes linear time.
const MAX_KNOWN: usize = 64;

/// Known at one point of a body.
#[derive(Clone, Default)]
struct Known {
    /// Variables that nothing has assigned.
    unset: BTreeSet<String>,
    /// Those of `unset` that the control declares, so that its actions may assign them.
    shared: BTreeSet<String>,
    /// Headers that are invalid, by their path.
    invalid: BTreeSet<String>,
}

impl Known {
    fn assign(&mut self, what: &Assigned) {
        match what {
            Assigned::Place(root, path) => {
                self.unset.remove(root);
                if let Some(path) = path {
                    let below = format!("{path}.");
                    self.invalid.retain(|h| h != path && !h.starts_with(&below));
                }
            }
            Assigned::All => {
                self.invalid.clear();
                for name in std::mem::take(&mut self.shared) {
                    self.unset.remove(&name);
                }
            }
        }
    }
}

/// An effect of a statement.
#[derive(Clone)]
enum Assigned {
    /// The variable in which the place is, and the place if it has a fixed path.
    Place(String, Option<String>),
    /// All that an action or a table can reach.
    All,
}

struct DefUse<'a> {
    diagnostics: &'a mut Diagnostics,
    known: Known,
    /// All effects so far in this body.
    effects: Vec<Assigned>,
}

/// Warns of a program's reads that have no value.
pub fn warn(decls: &[Decl], diagnostics: &mut Diagnostics) {
    let mut pass = DefUse { diagnostics, known: Known::default(), effects: Vec::new() };
    decls.iter().for_each(|d| pass.declaration(d));
}

fn path(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Name(n) => Some(n.clone()),
        ExprKind::Member(base, f) => Some(format!("{}.{}", path(base)?, f.text)),
        _ => None,
    }
}

fn root(e: &Expr) -> Option<&str> {
    match &e.kind {
        ExprKind::Name(n) => Some(n),
        ExprKind::Member(b, _) | ExprKind::Index(b, _) | ExprKind::Slice(b, _, _) | ExprKind::PlusSlice(b, _, _) => {
            root(b)
        }
        _ => None,
    }
}

fn is_scalar(ty: &Type) -> bool {
    matches!(ty.kind, TypeKind::Bit(_) | TypeKind::Int(_) | TypeKind::Bool)
}

impl DefUse<'_> {
    fn declaration(&mut self, d: &Decl) {
        match &d.kind {
            DeclKind::Function(f) | DeclKind::Action(f) => self.body(f.body.as_deref().unwrap_or_default(), &[]),
            DeclKind::Block(b) => {
                b.locals.iter().filter(|d| matches!(d.kind, DeclKind::Action(_))).for_each(|d| self.declaration(d));
                for s in &b.states {
                    self.body(&s.body, &[]);
                    if let Transition::Select(keys, _, _) = &s.transition {
                        keys.iter().for_each(|k| self.read(k));
                    }
                }
                if let Some(apply) = &b.apply {
                    self.body(apply, &b.locals);
                }
            }
            _ => {}
        }
    }

    /// A body of its own, in which some variables of the control are visible.
    fn body(&mut self, statements: &[Stmt], locals: &[Decl]) {
        self.known = Known::default();
        self.effects.clear();
        for d in locals {
            if let DeclKind::Var(ty, None) = &d.kind
                && is_scalar(ty)
                && self.known.shared.len() < MAX_KNOWN
            {
                self.known.shared.insert(d.name.text.clone());
            }
        }
        self.known.unset = self.known.shared.clone();
        self.block(statements);
    }

    fn block(&mut self, statements: &[Stmt]) {
        let mut own = Vec::new();
        for s in statements {
            if let StmtKind::Decl(d) = &s.kind {
                own.push(&d.name.text);
            }
            self.statement(s);
        }
        // A variable of the same name outside is unknown from here on.
        for name in own {
            self.known.unset.remove(name);
        }
    }

    /// Statements that may run or not.
    fn branch(&mut self, run: impl FnOnce(&mut Self)) {
        let (before, from) = (self.known.clone(), self.effects.len());
        run(self);
        self.known = before;
        for i in from..self.effects.len() {
            self.known.assign(&self.effects[i]);
        }
    }

    fn statement(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Assign(to, value) => {
                self.read(value);
                self.assign(to);
            }
            StmtKind::OpAssign(_, to, value) => {
                self.read(to);
                self.read(value);
                self.assign(to);
            }
            StmtKind::Call(e) => self.read(e),
            StmtKind::If(condition, then, other) => {
                self.read(condition);
                let mut tested = Vec::new();
                tests(condition, &mut tested);
                let clear = |pass: &mut Self| pass.known.invalid.retain(|h| !tested.contains(h));
                self.branch(|pass| {
                    clear(pass);
                    pass.statement(then);
                });
                if let Some(other) = other {
                    self.branch(|pass| {
                        clear(pass);
                        pass.statement(other);
                    });
                }
            }
            StmtKind::Block(list) => self.block(list),
            StmtKind::Return(value) => value.iter().for_each(|v| self.read(v)),
            StmtKind::Switch(on, cases) => {
                self.read(on);
                for (_, body) in cases {
                    self.branch(|pass| pass.block(body.as_deref().unwrap_or_default()));
                }
            }
            StmtKind::For(start, condition, update, body) => {
                start.iter().for_each(|s| self.statement(s));
                condition.iter().for_each(|c| self.read(c));
                self.branch(|pass| {
                    pass.statement(body);
                    update.iter().for_each(|s| pass.statement(s));
                });
            }
            StmtKind::ForIn(_, name, list, body) => {
                self.read(list);
                self.known.unset.remove(&name.text);
                self.branch(|pass| pass.statement(body));
            }
            StmtKind::Decl(d) => self.local(d),
            StmtKind::Exit | StmtKind::Break | StmtKind::Continue | StmtKind::Empty => {}
        }
    }

    fn local(&mut self, d: &Decl) {
        let DeclKind::Var(ty, value) = &d.kind else { return };
        let name = &d.name.text;
        value.iter().for_each(|v| self.read(v));
        self.known.shared.remove(name);
        self.known.unset.remove(name);
        if value.is_none() && is_scalar(ty) && self.known.unset.len() < MAX_KNOWN {
            self.known.unset.insert(name.clone());
        }
    }

    fn effect(&mut self, what: Assigned) {
        self.known.assign(&what);
        self.effects.push(what);
    }

    fn assign(&mut self, to: &Expr) {
        match &to.kind {
            ExprKind::Index(_, i) => self.read(i),
            ExprKind::Member(base, _) if matches!(base.kind, ExprKind::Index(..)) => self.assign(base),
            _ => {}
        }
        if let Some(root) = root(to) {
            self.effect(Assigned::Place(root.to_string(), path(to)));
        }
    }

    fn read(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Name(n) if self.known.unset.remove(n) => {
                self.diagnostics.warn(e.span, format!("`{n}` is read before it is assigned"));
            }
            ExprKind::Member(base, field) => {
                if let Some(header) = path(base)
                    && self.known.invalid.remove(&header)
                {
                    let m = format!("`{header}.{}` is read while header `{header}` is invalid", field.text);
                    self.diagnostics.warn(e.span, m);
                }
                self.read(base);
            }
            ExprKind::Call(f, _, args) => self.call(f, args),
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.read(a),
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) | ExprKind::Mask(a, b) | ExprKind::Range(a, b) => {
                self.read(a);
                self.read(b);
            }
            ExprKind::Slice(a, b, c) | ExprKind::PlusSlice(a, b, c) | ExprKind::Ternary(a, b, c) => {
                [a, b, c].into_iter().for_each(|x| self.read(x));
            }
            ExprKind::List(list, _) => list.iter().for_each(|x| self.read(x)),
            ExprKind::Record(list, _) => list.iter().for_each(|(_, x)| self.read(x)),
            _ => {}
        }
    }

    fn call(&mut self, f: &Expr, args: &[Arg]) {
        for value in args.iter().filter_map(|a| a.value.as_ref()) {
            // The argument of an `out` or `inout` parameter, or of an `in` one: the callee is not looked up.
            match root(value) {
                Some(_) => self.assign(value),
                None => self.read(value),
            }
        }
        match &f.kind {
            ExprKind::Member(of, method) => match (method.text.as_str(), path(of)) {
                ("setInvalid", Some(header)) => {
                    self.known.invalid.insert(header);
                    if self.known.invalid.len() > MAX_KNOWN {
                        self.known.invalid.pop_first();
                    }
                }
                ("setValid", _) => self.assign(of),
                ("apply" | "push_front" | "pop_front", _) => self.effect(Assigned::All),
                // Of an extern, a header or a stack.
                (_, Some(_)) => {}
                (_, None) => self.read(of),
            },
            // An action, which may assign whatever its control sees, or a function.
            _ => self.effect(Assigned::All),
        }
    }
}

/// Headers whose validity an expression asks for.
fn tests(e: &Expr, out: &mut Vec<String>) {
    match &e.kind {
        ExprKind::Call(f, ..) => {
            if let ExprKind::Member(of, method) = &f.kind
                && method.text == "isValid"
            {
                out.extend(path(of));
            }
        }
        ExprKind::Unary(_, a) => tests(a, out),
        ExprKind::Binary(_, a, b) => {
            tests(a, out);
            tests(b, out);
        }
        _ => {}
    }
}
