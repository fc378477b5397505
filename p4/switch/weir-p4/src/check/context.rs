// SPDX-License-Identifier: Apache-2.0
//! The state of one compilation: scopes, the program made so far, where statements go, and the messages.
use crate::bytecode::ir::Statement;
use crate::bytecode::operators::Slot;
use crate::bytecode::program::Program;
use crate::check::limits::{COMPILE_STEPS, TUPLE_VALUES, TYPE_FIELDS};
use crate::check::notes::Notes;
use crate::check::types::*;
use crate::check::values::*;
use crate::syntax::ast::*;
use crate::syntax::diagnostics::{Diagnostics, Reported, Span};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Names that v1model.p4 declares and programs use first.
const V1MODEL_NAMES: [&str; 8] =
    ["standard_metadata_t", "V1Switch", "mark_to_drop", "register", "counter", "meter", "HashAlgorithm", "CloneType"];

/// Names that core.p4 declares.
const CORE_NAMES: [&str; 3] = ["packet_in", "packet_out", "NoAction"];

pub(crate) struct Context<'a> {
    pub diagnostics: &'a mut Diagnostics,
    pub program: Program,
    pub scopes: Vec<HashMap<String, TypedValue>>,
    /// Where statements go.
    pub code: Vec<Statement>,
    pub match_kinds: Vec<String>,
    pub actions: Vec<ActionInstance>,
    pub instances: Vec<Callee>,
    pub generics: HashMap<String, Ty>,
    pub funcs: HashMap<String, Callee>,
    /// Functions and blocks being lowered, to catch recursion.
    pub busy: Vec<String>,
    /// Type parameters of the calls being matched.
    pub vars: Vec<Option<Ty>>,
    pub ret: Option<(Slot, Ty)>,
    pub place: Where,
    pub loops: u32,
    pub phase: Phase,
    pub prefix: String,
    pub states: HashMap<String, usize>,
    pub table_names: Vec<(String, Span)>,
    pub action_names: HashMap<String, Span>,
    pub main: Option<(Ty, Vec<TypedValue>, Span)>,
    pub notes: Notes,
    /// Arguments of extern parameters, in the order of their numbers.
    pub extern_arguments: Vec<Option<usize>>,
    /// Names whose declarations have errors: their uses are no errors of their own.
    pub failed: HashSet<String>,
    /// Steps taken so far.
    pub steps: u64,
    /// Whether the error that there are too many has been reported.
    steps_reported: bool,
}

impl<'a> Context<'a> {
    pub fn new(diagnostics: &'a mut Diagnostics) -> Context<'a> {
        Context {
            diagnostics,
            // Slot 0 is never given out, so that an unset slot number shows.
            program: Program { slots: 1, ..Program::default() },
            scopes: vec![HashMap::new()],
            code: Vec::new(),
            match_kinds: Vec::new(),
            actions: Vec::new(),
            instances: Vec::new(),
            generics: HashMap::new(),
            funcs: HashMap::new(),
            busy: Vec::new(),
            vars: Vec::new(),
            ret: None,
            place: Where::Top,
            loops: 0,
            phase: Phase::Unknown,
            prefix: String::new(),
            states: HashMap::new(),
            table_names: Vec::new(),
            action_names: HashMap::new(),
            main: None,
            notes: Notes::default(),
            extern_arguments: Vec::new(),
            failed: HashSet::new(),
            steps: 0,
            steps_reported: false,
        }
    }

    pub fn err<T>(&mut self, span: Span, m: impl Into<String>) -> Checked<T> {
        Err(self.diagnostics.error(span, m))
    }

    pub fn err_help<T>(&mut self, span: Span, m: impl Into<String>, help: impl Into<String>) -> Checked<T> {
        Err(self.diagnostics.error_help(span, m, help))
    }

    pub fn unsupported<T>(&mut self, span: Span, what: &str) -> Checked<T> {
        self.err(span, format!("unsupported: {what}"))
    }

    /// Counts steps of compiling; an error when there have been too many. It is reported once, by the first check: a
    /// count without a check, as in [`Context::emit`], may have used up the last.
    pub fn spend(&mut self, steps: usize, span: Span) -> Checked<()> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps <= COMPILE_STEPS {
            return Ok(());
        }
        if !self.steps_reported {
            self.steps_reported = true;
            let m = format!("unsupported: a program that takes more than {COMPILE_STEPS} steps to compile");
            let help = "look for what doubles from level to level: a control or parser that makes two instances of \
                        another, constants or types of two of the one before";
            return self.err_help(span, m, help);
        }
        Err(Reported)
    }

    /// A tuple, unless it has more values than are sensible: one of two of the one before doubles from level to level.
    pub fn tuple(&mut self, members: Vec<Ty>, span: Span) -> Checked<Ty> {
        let ty = Ty::Tuple(Rc::new(members));
        let parts = ty.parts();
        self.spend(parts / 16, span)?;
        if parts > TUPLE_VALUES || ty.slots() > TYPE_FIELDS {
            let help = "a tuple of tuples has the values of all of them";
            return self.err_help(
                span,
                format!("unsupported: a tuple of more than {TUPLE_VALUES} values in all"),
                help,
            );
        }
        Ok(ty)
    }

    pub fn alloc(&mut self, n: usize) -> Slot {
        let at = self.program.slots;
        self.program.slots += n;
        at
    }

    /// Storage for a type, refused when it would not fit any sensible switch.
    pub fn alloc_ty(&mut self, ty: &Ty, span: Span) -> Checked<Slot> {
        const MOST: usize = TYPE_FIELDS;
        self.spend(1 + ty.slots() / 16, span)?;
        if ty.slots() > MOST || self.program.slots > MOST {
            return self.err(span, format!("{ty} needs more storage than this switch has ({MOST} fields)"));
        }
        Ok(self.alloc(ty.slots()))
    }

    pub fn emit(&mut self, s: Statement) {
        self.steps = self.steps.saturating_add(1);
        self.code.push(s);
    }

    /// Notes the place of the next statement for traces.
    pub fn mark(&mut self, span: Span) {
        let place = self.program.source.span(self.diagnostics, span);
        self.code.push(Statement::Mark(place));
    }

    /// Runs `f` with statements collected apart.
    pub fn collect<T>(&mut self, f: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<(Vec<Statement>, T)> {
        let saved = std::mem::take(&mut self.code);
        let r = f(self);
        let made = std::mem::replace(&mut self.code, saved);
        Ok((made, r?))
    }

    pub fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.scopes.push(HashMap::new());
        let r = f(self);
        self.scopes.pop();
        r
    }

    pub fn lookup(&self, name: &str) -> Option<&TypedValue> {
        if let Some(global) = name.strip_prefix('.') {
            return self.scopes[0].get(global);
        }
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    pub fn declare(&mut self, name: &Name, v: TypedValue) -> Checked<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if let Some(old) = scope.get_mut(&name.text) {
            if let (ValueKind::Functions(list), ValueKind::Functions(more)) = (&mut old.kind, &v.kind) {
                let same = list
                    .iter()
                    .any(|f| f.params.len() == more[0].params.len() && more[0].body.is_some() && f.body.is_some());
                if !same {
                    list.extend(more.iter().cloned());
                    return Ok(());
                }
            }
            let text = format!("`{}` is declared twice in the same scope", name.text);
            return self.err_help(name.span, text, "rename one of them");
        }
        scope.insert(name.text.clone(), v);
        Ok(())
    }

    /// The known name most like `name`, for the help line of an error.
    pub fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        known
            .filter(|k| !k.is_empty())
            .map(|k| (distance(name, k), k))
            .filter(|(d, k)| *d * 3 <= k.len().max(name.len()))
            .min()
            .map(|(_, k)| k)
    }

    pub fn unknown<T>(&mut self, name: &str, span: Span, what: &str) -> Checked<T> {
        if self.failed.contains(name) {
            return Err(Reported);
        }
        let names: Vec<String> = self.scopes.iter().flat_map(|s| s.keys().cloned()).collect();
        let close = Self::similar(name, names.iter().map(String::as_str)).map(str::to_string);
        let m = format!("{what} `{name}` is not declared");
        if V1MODEL_NAMES.contains(&name) && !self.scopes[0].contains_key("V1Switch") {
            return self.err_help(span, m, "write `#include <v1model.p4>` at the top");
        }
        if CORE_NAMES.contains(&name) {
            return self.err_help(span, m, "write `#include <core.p4>` at the top");
        }
        match close {
            Some(c) => self.err_help(span, m, format!("did you mean `{c}`?")),
            None => self.err_help(span, m, "declare it before its use"),
        }
    }
}

/// Edit distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(40).enumerate() {
        let mut left_up = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let up = row[j + 1];
            row[j + 1] = (left_up + usize::from(ca != *cb)).min(up + 1).min(row[j] + 1);
            left_up = up;
        }
    }
    row[b.len()]
}
