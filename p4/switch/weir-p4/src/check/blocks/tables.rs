// SPDX-License-Identifier: Apache-2.0
//! Tables: keys, actions, properties, constant entries.
use super::parsers::KeySet;
use crate::bytecode::program::{ActionCall, ActionParam, ConstEntry, Key, KeyMatch, MatchKind, Table, TableAction};
use crate::check::prelude::*;
use crate::syntax::lexer::{Token, TokenKind};

impl Context<'_> {
    pub fn table(&mut self, decl: &Decl, t: &TableDecl) -> Checked<()> {
        if self.place != Where::Control {
            return self.err(decl.name.span, "a table can only be declared in a control");
        }
        let name = self.full_name(&decl.name.text, &decl.annos);
        if !t.has_actions {
            let help = "add `actions = { ... }`";
            return self.err_help(decl.name.span, format!("table `{}` has no actions", decl.name.text), help);
        }
        let mut table = Table {
            name,
            keys: Vec::new(),
            before: Vec::new(),
            actions: Vec::new(),
            default: ActionCall { action: 0, args: Vec::new() },
            const_default: false,
            entries: Vec::new(),
            const_entries: t.entries.as_ref().is_some_and(|(c, _)| *c),
            largest_priority_wins: true,
            idle_timeout: false,
            size: 1024,
            profile: None,
            counter: None,
            meter: None,
            hit: self.alloc(1),
            action_run: self.alloc(1),
        };
        let mut note = TableNote::new(decl.name.span, &decl.annos);
        let key_types = self.table_keys(t, &mut table, &mut note)?;
        for r in &t.actions {
            let (a, inst) = self.table_action(r)?;
            if table.actions.iter().any(|b| b.body == a.body) {
                return self.err(r.path.span, format!("action `{}` is listed twice", r.path.text));
            }
            table.actions.push(a);
            note.actions.push((inst, r.annos.clone()));
        }
        self.default_action(decl, t, &mut table, &mut note)?;
        let priority_delta = self.table_properties(t, &mut table)?;
        let has_selector = table.keys.iter().any(|k| k.kind == MatchKind::Selector);
        let is_selector = table.profile.is_some_and(|p| self.program.profiles[p].selector.is_some());
        if has_selector && !is_selector {
            self.diagnostics
                .warn(decl.name.span, "selector keys do nothing without `implementation = action_selector(...)`");
        }
        if let Some((_, entries)) = &t.entries {
            self.table_entries(entries, &mut table, &key_types, priority_delta)?;
        }
        if let Some((_, at)) = self.table_names.iter().find(|(n, _)| *n == table.name) {
            let at = *at;
            let m = format!("two tables are named `{}` for controllers", table.name);
            let help = format!("the other is on line {}; rename one with @name", at.line);
            return self.err_help(decl.name.span, m, help);
        }
        self.table_names.push((table.name.clone(), decl.name.span));
        let place = self.program.source.span(self.diagnostics, decl.name.span);
        self.program.source.tables.insert(table.name.clone(), place);
        self.program.tables.push(table);
        self.notes.tables.push(note);
        let id = self.program.tables.len() - 1;
        self.declare(&decl.name, TypedValue { ty: Ty::Object("a table"), kind: ValueKind::Table(id) })
    }

    fn match_kind(&mut self, name: &Name) -> Checked<MatchKind> {
        Ok(match name.text.as_str() {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "selector" => MatchKind::Selector,
            other => {
                let known = self.match_kinds.iter().any(|m| m == other);
                let help = "v1model has exact, lpm, ternary, range, optional and selector";
                let m = if known {
                    format!("unsupported: match kind `{other}`")
                } else {
                    format!("match kind `{other}` is not declared")
                };
                return self.err_help(name.span, m, help);
            }
        })
    }

    /// The keys of a table, with the code that computes them; gives their types.
    fn table_keys(&mut self, t: &TableDecl, table: &mut Table, note: &mut TableNote) -> Checked<Vec<Ty>> {
        let mut key_types = Vec::new();
        let mut all = Vec::new();
        for k in &t.keys {
            let kind = self.match_kind(&k.kind)?;
            if kind == MatchKind::Lpm && table.keys.iter().any(|k: &Key| k.kind == MatchKind::Lpm) {
                return self.unsupported(k.kind.span, "a table with two lpm keys");
            }
            let (code, v) = self.collect(|context| context.expr(&k.expr, None))?;
            let (Some(width), false) = (v.ty.scalar_width(), v.ty == Ty::Int) else {
                let what = describe(&v);
                let help = "a key is bit<W>, int<W>, bool, enum or error; list the fields one by one";
                return self.err_help(k.expr.span, format!("a table key cannot be {what}"), help);
            };
            // Each key has a slot: a later key's evaluation must not change it.
            let (slot_code, slot) = self.collect(|context| {
                let e = context.scalar(&v, k.expr.span)?;
                // BMv2 matches fields of invalid headers as zero.
                let e = match &v.kind {
                    ValueKind::Place(Place { valid_of: Some(a), .. }) => if_valid(a, e),
                    _ => e,
                };
                let slot = context.alloc(1);
                context.emit(Statement::Set(slot, e));
                Ok(slot)
            })?;
            all.extend(code);
            all.extend(slot_code);
            let name = match anno_string(&k.annos, "name") {
                Some(n) => n,
                None => self.key_name(&k.expr)?,
            };
            note.keys.push((v.ty.clone(), k.annos.clone(), k.expr.span));
            table.keys.push(Key { name, kind, width, signed: v.ty.is_signed(), ex: Expression::Load(slot) });
            key_types.push(v.ty);
        }
        table.before = all;
        Ok(key_types)
    }

    /// Finds the action of the table that a reference names.
    fn listed_action(&mut self, table: &Table, r: &ActionRef, role: &str) -> Checked<usize> {
        let found = self.lookup(&r.path.text).cloned();
        let body = match found.map(|v| v.kind) {
            Some(ValueKind::Action(i)) => Some(self.actions[i].callee.body),
            Some(_) => return self.err(r.path.span, format!("`{}` is not an action", r.path.text)),
            None => return self.unknown(&r.path.text, r.path.span, "action"),
        };
        match table.actions.iter().position(|a| Some(a.body) == body) {
            Some(i) => Ok(i),
            None => {
                let m = format!("{role} `{}` is not in the table's list of actions", r.path.text);
                self.err_help(r.path.span, m, format!("add `{};` to `actions`", r.path.text))
            }
        }
    }

    fn default_action(&mut self, decl: &Decl, t: &TableDecl, table: &mut Table, note: &mut TableNote) -> Checked<()> {
        match &t.default {
            Some((is_const, r)) => {
                table.const_default = *is_const;
                let i = self.listed_action(table, r, "default action")?;
                if table.actions[i].table_only {
                    return self.err(r.path.span, "an action marked @tableonly cannot be the default action");
                }
                table.default = self.action_call(&table.actions[i], i, r)?;
            }
            None => {
                let Some(TypedValue { kind: ValueKind::Action(no), .. }) = self.scopes[0].get("NoAction").cloned()
                else {
                    let help = "add `default_action = name();`, or include core.p4 for NoAction";
                    return self.err_help(decl.name.span, "the table has no default action", help);
                };
                let body = self.actions[no].callee.body;
                let at = table.actions.iter().position(|a| a.body == body).unwrap_or_else(|| {
                    note.actions.push((no, vec![bare("defaultonly", decl.name.span)]));
                    table.actions.push(TableAction {
                        name: "NoAction".into(),
                        params: Vec::new(),
                        before: Vec::new(),
                        body,
                        after: Vec::new(),
                        default_only: true,
                        table_only: false,
                    });
                    table.actions.len() - 1
                });
                table.default = ActionCall { action: at, args: Vec::new() };
            }
        }
        Ok(())
    }

    /// The properties of a table besides its keys, actions and entries; gives the distance between priorities.
    fn table_properties(&mut self, t: &TableDecl, table: &mut Table) -> Checked<i64> {
        let mut delta = 1i64;
        for property in &t.properties {
            let (n, e) = (&property.name, &property.value);
            match n.text.as_str() {
                "size" => {
                    let v = self.const_int(e, "the size of a table")?;
                    match v.to_u64() {
                        Some(v) => table.size = v,
                        None => return self.err(e.span, format!("size {v} of a table is negative or too large")),
                    }
                }
                "implementation" | "counters" | "meters" => self.table_object(property, table)?,
                "largest_priority_wins" => match self.expr(e, Some(&Ty::Bool))?.kind {
                    ValueKind::Bool(b) => table.largest_priority_wins = b,
                    _ => return self.err(e.span, "largest_priority_wins needs a constant bool"),
                },
                "priority_delta" => match self.const_int(e, "priority_delta")?.to_i64().filter(|d| *d > 0) {
                    Some(d) => delta = d,
                    None => return self.err(e.span, "priority_delta must be positive"),
                },
                "support_timeout" => match self.expr(e, Some(&Ty::Bool))?.kind {
                    ValueKind::Bool(b) => table.idle_timeout = b,
                    _ => return self.err(e.span, "support_timeout needs a constant bool"),
                },
                other => self.diagnostics.warn(n.span, format!("table property `{other}` is unknown and ignored")),
            }
        }
        Ok(delta)
    }

    /// The action profile, counter or meter that a property gives a table.
    fn table_object(&mut self, property: &Property, table: &mut Table) -> Checked<()> {
        let (n, e) = (&property.name, &property.value);
        let v = match &e.kind {
            ExprKind::Call(f, targs, args) => {
                let (ExprKind::Name(ext) | ExprKind::Global(ext)) = &f.kind else {
                    return self.err(e.span, "an extern is needed here");
                };
                let Some(TypedValue { kind: ValueKind::Type(TypeDef::Extern(x)), .. }) = self.lookup(ext).cloned()
                else {
                    return self.unknown(ext, f.span, "extern");
                };
                let targs = targs.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
                // The name stands alone, without the control's, as in p4c.
                let named = anno_string(&property.annos, "name");
                let full = named.unwrap_or_else(|| format!("{}.{}", table.name, n.text));
                self.extern_instance(&x, targs, args, full, &property.annos, e.span)?
            }
            _ => self.expr(e, None)?,
        };
        match (&v.kind, n.text.as_str()) {
            (ValueKind::Extern(ExternObject::Profile(i)), "implementation") => table.profile = Some(*i),
            (ValueKind::Extern(ExternObject::DirectCounter(i)), "counters") => table.counter = Some(*i),
            (ValueKind::Extern(ExternObject::DirectMeter(i)), "meters") => table.meter = Some(*i),
            _ => {
                let need = match n.text.as_str() {
                    "implementation" => "an action_profile or action_selector",
                    "counters" => "a direct_counter",
                    _ => "a direct_meter",
                };
                let what = describe(&v);
                return self.err(e.span, format!("`{}` needs {need}, not {what}", n.text));
            }
        }
        Ok(())
    }

    fn table_entries(
        &mut self,
        entries: &[Entry],
        table: &mut Table,
        key_types: &[Ty],
        priority_delta: i64,
    ) -> Checked<()> {
        let n = entries.len() as i64;
        if let Some(e) = entries.first().filter(|e| e.priority.is_none())
            && entries.iter().any(|e| e.priority.is_some())
        {
            let help = "write `priority = N:` before it";
            return self.err_help(e.span, "when entries have priorities, the first needs one", help);
        }
        if let Some(p) = entries.iter().find_map(|e| e.priority.as_ref()).filter(|_| table.const_entries) {
            let help = "remove `const` before `entries`, or order the entries";
            return self.err_help(p.span, "`const entries` cannot have priorities", help);
        }
        let mut priority = if table.largest_priority_wins {
            (n - 1) * priority_delta + 1 + priority_delta
        } else {
            1 - priority_delta
        };
        for e in entries {
            priority += if table.largest_priority_wins { -priority_delta } else { priority_delta };
            if let Some(p) = &e.priority {
                let v = self.const_int(p, "a priority")?;
                match v.to_i64().filter(|v| (0..=i32::MAX as i64).contains(v)) {
                    Some(v) => priority = v,
                    None => return self.err(p.span, format!("priority {v} is not between 0 and {}", i32::MAX)),
                }
            }
            let mut rank = if table.largest_priority_wins { priority } else { -priority };
            if let Some(a) = e.annos.iter().find(|a| a.name.text == "priority") {
                // As in p4c for BMv2: the smallest @priority wins, before entries without.
                match a.body.as_slice() {
                    [Token { tok: TokenKind::Int(p, _), .. }] => {
                        rank = i64::from(u32::MAX) - p.to_u32().unwrap_or(u32::MAX) as i64;
                    }
                    _ => return self.err_help(a.name.span, "@priority needs a number", "write e.g. `@priority(1)`"),
                }
            }
            let action = self.listed_action(table, &e.action, "action")?;
            if table.actions[action].default_only {
                return self.err(e.span, "an action marked @defaultonly cannot be in an entry");
            }
            if priority > i32::MAX as i64 || priority < 0 {
                return self.err(e.span, format!("priority {priority} is not between 0 and {}", i32::MAX));
            }
            let ordered = table
                .keys
                .iter()
                .any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
            if let (Some(p), false) = (&e.priority, ordered) {
                return self.err(p.span, "entries of a table without ternary, range or optional keys have no priority");
            }
            let action = self.action_call(&table.actions[action], action, &e.action)?;
            let keys = self.entry_keys(e, table, key_types)?;
            let is_const = e.is_const || table.const_entries;
            table.entries.push(ConstEntry { keys, priority: rank, action, is_const });
        }
        Ok(())
    }

    /// A key as P4Info names it: fields by their @name if they have one.
    fn key_name(&mut self, e: &Expr) -> Checked<String> {
        Ok(match &e.kind {
            ExprKind::Name(n) => n.clone(),
            ExprKind::Global(n) => format!(".{n}"),
            ExprKind::Member(b, n) => {
                let (_, v) = self.collect(|context| context.expr(b, None))?;
                let field = match v.ty.base() {
                    Ty::Struct(s) => s.fields.iter().find(|f| f.name == n.text),
                    _ => None,
                };
                let own = field.and_then(|f| anno_string(&f.annos, "name")).unwrap_or_else(|| n.text.clone());
                match own.strip_prefix('.') {
                    Some(absolute) => absolute.to_string(),
                    None => format!("{}.{own}", self.key_name(b)?),
                }
            }
            ExprKind::Index(b, i) => format!("{}[{}]", self.key_name(b)?, self.key_name(i)?),
            ExprKind::Slice(b, h, l) => {
                format!("{}[{}:{}]", self.key_name(b)?, self.key_name(h)?, self.key_name(l)?)
            }
            ExprKind::Call(f, _, args) if args.is_empty() => format!("{}()", self.key_name(f)?),
            ExprKind::Int(v, _) => {
                // In the base it is written in, as p4c names it.
                let line = self.diagnostics.line(e.span).to_ascii_lowercase();
                let written: String = line.chars().skip((e.span.col as usize).saturating_sub(1)).collect();
                let after_width = written.trim_start_matches(|c: char| c.is_ascii_digit());
                let digits = after_width.strip_prefix(['w', 's']).unwrap_or(&written);
                match digits.get(..2) {
                    Some("0x") => format!("0x{v:x}"),
                    Some("0b") => format!("0b{v:b}"),
                    Some("0o") => format!("0o{v:o}"),
                    _ => v.to_string(),
                }
            }
            ExprKind::Binary(BinaryOperator::And, a, b) => format!("{} & {}", self.key_name(a)?, self.key_name(b)?),
            _ => {
                let help = "write `expression : kind @name(\"name\");`";
                return self.err_help(e.span, "a key that is not a plain field needs a name for controllers", help);
            }
        })
    }

    /// The action as the table uses it, and which action it is.
    fn table_action(&mut self, r: &ActionRef) -> Checked<(TableAction, usize)> {
        let Some(found) = self.lookup(&r.path.text).cloned() else {
            return self.unknown(&r.path.text, r.path.span, "action");
        };
        let ValueKind::Action(i) = found.kind else {
            return self.err(r.path.span, format!("`{}` is not an action but {}", r.path.text, describe(&found)));
        };
        let inst = self.actions[i].clone();
        let (directed, free): (Vec<BoundParam>, Vec<BoundParam>) =
            inst.callee.params.iter().cloned().partition(|p| p.dir != Dir::None);
        if r.args.len() != directed.len() {
            let m = format!("action `{}` needs {} arguments here, not {}", inst.name, directed.len(), r.args.len());
            return self.err_help(r.path.span, m, "give those with a direction; the others come from the controller");
        }
        let callee = Callee { params: directed, ..inst.callee.clone() };
        let (code, _) = self.collect(|context| context.invoke(&callee, &inst.name, &r.args, None, r.path.span))?;
        if applies_table(&code) {
            let help = "apply the table before, and keep its result in a variable";
            return self.err_help(r.path.span, "unsupported: a table applied in an action's argument", help);
        }
        // The last statement is the call; the statements before it evaluate the arguments.
        let mut before = code;
        let after = match before.pop() {
            Some(Statement::Call(pre, _, post)) => {
                before.extend(pre);
                post
            }
            _ => Vec::new(),
        };
        let params = free.iter().map(|p| ActionParam {
            name: p.name.clone(),
            slot: p.slot,
            width: p.ty.scalar_width().unwrap_or(0),
        });
        let flag = |n: &str| r.annos.iter().any(|a| a.name.text == n);
        let action = TableAction {
            name: inst.full_name,
            params: params.collect(),
            before,
            body: inst.callee.body,
            after,
            default_only: flag("defaultonly"),
            table_only: flag("tableonly"),
        };
        Ok((action, i))
    }

    /// Constant arguments of an entry's or default action.
    fn action_call(&mut self, a: &TableAction, index: usize, r: &ActionRef) -> Checked<ActionCall> {
        let n = a.params.len();
        let found = self.lookup(&r.path.text).cloned();
        let Some(TypedValue { kind: ValueKind::Action(i), .. }) = found else {
            return self.err(r.path.span, format!("`{}` is not an action", r.path.text));
        };
        let params = self.actions[i].callee.params.clone();
        let directed = params.len() - n;
        if r.args.len() != n && r.args.len() != params.len() {
            let m = format!("action `{}` takes {n} arguments, not {}", r.path.text, r.args.len());
            return self.err(r.path.span, m);
        }
        let skip = if r.args.len() == params.len() { directed } else { 0 };
        let vals = self.arguments(&params[directed..], &r.path.text, &r.args[skip..], r.path.span)?;
        let mut args = Vec::new();
        for (v, p) in vals.iter().zip(&params[directed..]) {
            let (v, s) = self.value_arg(v, r.path.span)?;
            match self.scalar(&v, s)? {
                Expression::Const(c) => args.push(c),
                _ => return self.err(s, format!("argument `{}` must be constant", p.name)),
            }
        }
        Ok(ActionCall { action: index, args })
    }

    fn entry_keys(&mut self, e: &Entry, table: &Table, types: &[Ty]) -> Checked<Vec<KeyMatch>> {
        let all = [e.keys.as_slice(), &[]];
        let keys = match all[0] {
            [only] if matches!(only.kind, ExprKind::DontCare) && types.len() > 1 => {
                vec![only.clone(); types.len()]
            }
            [Expr { kind: ExprKind::List(items, false), .. }] => items.clone(),
            k => k.to_vec(),
        };
        if keys.len() != types.len() {
            let m = format!("the table has {} keys, this entry {}", types.len(), keys.len());
            return self.err(e.span, m);
        }
        let mut out = Vec::new();
        for ((k, ty), decl) in keys.iter().zip(types).zip(&table.keys) {
            let set = self.keyset(k, ty)?;
            let value = |context: &mut Self, v: &TypedValue| -> Checked<Val> {
                match context.scalar(v, k.span)? {
                    Expression::Const(c) => Ok(c),
                    _ => context.err(k.span, "a key of a table entry must be constant"),
                }
            };
            let w = decl.width;
            let kind = decl.kind;
            let wrong = |context: &mut Self, what: &str| -> Checked<KeyMatch> {
                context.err(k.span, format!("{what} cannot match a key of kind {kind:?}").to_lowercase())
            };
            out.push(match (kind, set) {
                (MatchKind::Exact | MatchKind::Selector, KeySet::Value(v)) => KeyMatch::Exact(value(self, &v)?),
                (MatchKind::Lpm, KeySet::Value(v)) => KeyMatch::Lpm(value(self, &v)?, w),
                (MatchKind::Lpm, KeySet::Any) => KeyMatch::Lpm(Val::S(0), 0),
                (MatchKind::Lpm, KeySet::Mask(v, m)) => {
                    let (v, m) = (value(self, &v)?, value(self, &m)?);
                    let prefix = (0..=w).find(|n| Val::all_ones(*n).shl((w - n) as usize, w) == m);
                    match prefix {
                        Some(n) => KeyMatch::Lpm(v.and(m), n),
                        None => return self.err(k.span, "the mask of an lpm key must be a prefix"),
                    }
                }
                (MatchKind::Ternary, KeySet::Value(v)) => KeyMatch::Ternary(value(self, &v)?, Val::all_ones(w)),
                (MatchKind::Ternary, KeySet::Any) => KeyMatch::Ternary(Val::S(0), Val::S(0)),
                (MatchKind::Ternary, KeySet::Mask(v, m)) => {
                    let (v, m) = (value(self, &v)?, value(self, &m)?);
                    KeyMatch::Ternary(v.and(m.clone()), m)
                }
                (MatchKind::Range, KeySet::Value(v)) => {
                    let v = value(self, &v)?;
                    KeyMatch::Range(v.clone(), v)
                }
                (MatchKind::Range, KeySet::Any) => KeyMatch::Range(Val::S(0), Val::all_ones(w)),
                (MatchKind::Range, KeySet::Range(a, b)) => {
                    let (a, b) = (value(self, &a)?, value(self, &b)?);
                    let signed = decl.signed;
                    if a.to_int(w, signed) > b.to_int(w, signed) {
                        return self.err_help(k.span, "this range is empty", "write the smaller bound first");
                    }
                    KeyMatch::Range(a, b)
                }
                (MatchKind::Optional, KeySet::Value(v)) => KeyMatch::Optional(Some(value(self, &v)?)),
                (MatchKind::Optional, KeySet::Any) => KeyMatch::Optional(None),
                (_, KeySet::Any) => wrong(self, "`_`")?,
                (_, KeySet::Mask(..)) => wrong(self, "a mask")?,
                (_, KeySet::Range(..)) => wrong(self, "a range")?,
            });
        }
        Ok(out)
    }
}

fn applies_table(code: &[Statement]) -> bool {
    code.iter().any(|s| match s {
        Statement::Apply(_) => true,
        Statement::If(_, a, b) => applies_table(a) || applies_table(b),
        Statement::Group(b) => applies_table(b),
        Statement::Call(a, _, b) => applies_table(a) || applies_table(b),
        _ => false,
    })
}
