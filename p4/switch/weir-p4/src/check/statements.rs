// SPDX-License-Identifier: Apache-2.0
//! Statements.
use crate::bytecode::ir::SwitchCase;
use crate::check::prelude::*;

impl Context<'_> {
    pub fn stmts(&mut self, list: &[Stmt]) -> Checked<()> {
        let mut result = Ok(());
        for s in list {
            // One bad statement does not hide the errors of the next.
            if self.stmt(s).is_err() {
                result = Err(Reported);
            }
        }
        result
    }

    fn inner(&mut self, s: &Stmt) -> Checked<Vec<Statement>> {
        let (code, ()) = self.collect(|context| context.scoped(|context| context.stmt(s)))?;
        Ok(code)
    }

    fn stmt(&mut self, s: &Stmt) -> Checked<()> {
        match &s.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Block(list) => {
                let (code, ()) = self.collect(|context| context.scoped(|context| context.stmts(list)))?;
                self.emit(Statement::Group(code));
                Ok(())
            }
            StmtKind::Decl(d) => self.local(d),
            StmtKind::Assign(l, r) => {
                let lv = self.lvalue(l)?;
                let v = self.expr(r, Some(&lv.ty))?;
                let v = self.coerce(v, &lv.ty, r.span)?;
                self.assign(&lv, v, r.span)
            }
            StmtKind::OpAssign(op, l, r) => {
                let lv = self.lvalue(l)?;
                let old = self.read_lvalue(&lv);
                let mark = self.code.len();
                let y = self.expr(r, None)?;
                let old = if self.code.len() > mark { self.spill_at(mark, old)? } else { old };
                let v = self.operate(*op, old, y, l.span, r.span, s.span)?;
                let v = self.coerce(v, &lv.ty, r.span)?;
                self.assign(&lv, v, r.span)
            }
            StmtKind::Call(e) => {
                self.mark(e.span);
                self.expr(e, None)?;
                Ok(())
            }
            StmtKind::If(c, yes, no) => {
                self.mark(c.span);
                let cond = self.truth(c)?;
                let yes = self.inner(yes);
                let no = match no {
                    Some(s) => self.inner(s)?,
                    None => Vec::new(),
                };
                let yes = yes?;
                match cond.kind {
                    ValueKind::Bool(true) => self.emit(Statement::Group(yes)),
                    ValueKind::Bool(false) => self.emit(Statement::Group(no)),
                    _ => {
                        let e = self.scalar(&cond, c.span)?;
                        self.mark(c.span);
                        self.emit(Statement::If(e, yes, no));
                    }
                }
                Ok(())
            }
            StmtKind::Return(v) => {
                match (v, self.ret.clone()) {
                    (None, None) => {}
                    (Some(e), Some((slot, ty))) => {
                        let v = self.expr(e, Some(&ty))?;
                        let v = self.coerce(v, &ty, e.span)?;
                        self.store(&Place::at(slot), &ty, v, e.span)?;
                    }
                    (Some(e), None) => return self.err(e.span, "nothing can be returned here"),
                    (None, Some((_, ty))) => return self.err(s.span, format!("a value of type {ty} must be returned")),
                }
                if self.place == Where::Parser {
                    return self.err(s.span, "`return` is not allowed in a parser");
                }
                self.emit(Statement::Return);
                Ok(())
            }
            StmtKind::Exit => {
                if matches!(self.place, Where::Parser | Where::Function) {
                    return self.err(s.span, "`exit` is only allowed in controls and actions");
                }
                self.mark(s.span);
                self.emit(Statement::Exit);
                Ok(())
            }
            StmtKind::Break | StmtKind::Continue => {
                let word = if matches!(s.kind, StmtKind::Break) { "break" } else { "continue" };
                if self.loops == 0 {
                    return self.err(s.span, format!("`{word}` is only allowed in a loop"));
                }
                self.emit(if word == "break" { Statement::Break } else { Statement::Continue });
                Ok(())
            }
            StmtKind::Switch(e, cases) => self.switch(e, cases),
            StmtKind::For(init, cond, update, body) => self.scoped(|context| {
                context.stmts(init)?;
                let (pre, c) = context.collect(|context| match cond {
                    Some(c) => {
                        let v = context.truth(c)?;
                        Ok(Some(context.scalar(&v, c.span)?))
                    }
                    None => Ok(None),
                })?;
                context.loops += 1;
                let body = context.inner(body);
                context.loops -= 1;
                let (update, ()) = context.collect(|context| context.stmts(update))?;
                let body = body?;
                context.emit(Statement::Loop(pre, c, body, update));
                Ok(())
            }),
            StmtKind::ForIn(ty, name, coll, body) => self.for_in(ty, name, coll, body),
        }
    }

    fn for_in(&mut self, ty: &Type, name: &Name, coll: &Expr, body: &Stmt) -> Checked<()> {
        self.scoped(|context| {
            let ty = context.ty(ty)?;
            context.diagnostics.warn(name.span, "p4c for BMv2 refuses `for` loops with `in`");
            let place = Place::at(context.alloc_ty(&ty, name.span)?);
            context.declare(name, TypedValue { ty: ty.clone(), kind: ValueKind::Place(place.clone()) })?;
            if let ExprKind::Range(from, to) = &coll.kind {
                if !matches!(ty.base(), Ty::Bit(_) | Ty::SInt(_)) {
                    return context.err(name.span, format!("a loop over a range needs bit<W> or int<W>, not {ty}"));
                }
                let (a, b) = context.pair(from, to)?;
                let (a, b) = (context.coerce(a, &ty, from.span)?, context.coerce(b, &ty, to.span)?);
                let w = ty.scalar_width().unwrap_or(1);
                let le = if ty.is_signed() { Operator::LeS } else { Operator::Le };
                let (next, last, more) = (context.alloc(1), context.alloc(1), context.alloc(1));
                let (x, y) = (context.scalar(&a, from.span)?, context.scalar(&b, to.span)?);
                context.emit(Statement::Set(next, x));
                context.emit(Statement::Set(last, y));
                let bin = |op, a, b| Expression::Bin(op, w, Box::new((a, b)));
                context.emit(Statement::Set(more, bin(le, Expression::Load(next), Expression::Load(last))));
                context.loops += 1;
                let code = context.inner(body);
                context.loops -= 1;
                let mut code = code?;
                let (head, ()) = context.collect(|context| {
                    context.set(&place.addr, Expression::Load(next));
                    Ok(())
                })?;
                code.splice(0..0, head);
                // The end is tested before counting on, so that a range up to the type's largest value ends.
                let update = vec![
                    Statement::Set(
                        more,
                        Expression::Not(Box::new(bin(Operator::Eq, Expression::Load(next), Expression::Load(last)))),
                    ),
                    Statement::Set(next, bin(Operator::Add, Expression::Load(next), Expression::Const(Val::S(1)))),
                ];
                context.emit(Statement::Loop(Vec::new(), Some(Expression::Load(more)), code, update));
                return Ok(());
            }
            let mut v = context.expr(coll, None)?;
            if matches!(v.kind, ValueKind::Aggregate(..)) {
                // A list has the values from before the first turn, whatever the body assigns (P4_16 12.8).
                v = context.spill_at(context.code.len(), v)?;
            }
            let items: Vec<TypedValue> = match (&v.ty, &v.kind) {
                (Ty::List(_) | Ty::Tuple(_), ValueKind::Aggregate(items, _)) => {
                    items.iter().map(|(_, v)| v.clone()).collect()
                }
                (Ty::Stack(t, n), ValueKind::Place(p)) => {
                    let each = t.slots();
                    let at = |i: u32| ValueKind::Place(p.offset(1 + i as usize * each));
                    (0..*n).map(|i| TypedValue { ty: (**t).clone(), kind: at(i) }).collect()
                }
                _ => {
                    let what = describe(&v);
                    let help = "loop over a range `a .. b`, a list or a header stack";
                    return context.err_help(coll.span, format!("a loop cannot run over {what}"), help);
                }
            };
            let (choice, n) = (context.alloc(1), items.len());
            context.loops += 1;
            let code = context.inner(body);
            context.loops -= 1;
            let code = code?;
            // One loop with a switch that fetches the item, so that the body exists once.
            let mut fetch = Vec::new();
            for item in items {
                let item = context.coerce(item, &ty, coll.span)?;
                let (c, ()) = context.collect(|context| context.store(&place, &ty, item, coll.span))?;
                fetch.push(c);
            }
            let cases =
                (0..n).map(|i| SwitchCase { values: vec![Expression::Const(Val::S(i as u128))], body: i }).collect();
            let mut all = vec![Statement::Switch(Expression::Load(choice), cases, fetch, None)];
            all.extend(code);
            let bin = |op, a, b| Expression::Bin(op, 32, Box::new((a, b)));
            let limit = Expression::Const(Val::S(n as u128));
            let step =
                Statement::Set(choice, bin(Operator::Add, Expression::Load(choice), Expression::Const(Val::S(1))));
            context.emit(Statement::Set(choice, Expression::Const(Val::S(0))));
            context.emit(Statement::Loop(
                Vec::new(),
                Some(bin(Operator::Lt, Expression::Load(choice), limit)),
                all,
                vec![step],
            ));
            Ok(())
        })
    }

    fn switch(&mut self, e: &Expr, cases: &[(Vec<SwitchLabel>, Option<Vec<Stmt>>)]) -> Checked<()> {
        if self.place == Where::Action {
            let help = "use `if`, or move it to the control's `apply` block: BMv2 has none in actions either";
            return self.err_help(e.span, "unsupported: a `switch` statement in an action", help);
        }
        self.mark(e.span);
        let v = self.expr(e, None)?;
        let on_table = match v.ty {
            Ty::ActionRun(t) => Some(t),
            _ => None,
        };
        if on_table.is_none() && v.ty.scalar_width().is_none() && v.ty != Ty::Int {
            let what = describe(&v);
            return self.err(e.span, format!("`switch` needs a number, bool, enum, error or action_run, not {what}"));
        }
        if v.ty == Ty::Int {
            return self.err_help(e.span, "the width of this integer is not known", "give it one, e.g. `8w5`");
        }
        let key = self.scalar(&v, e.span)?;
        let (mut out, mut bodies, mut default) = (Vec::new(), Vec::new(), None);
        let mut seen: Vec<Val> = Vec::new();
        for (labels, body) in cases {
            let mut values = Vec::new();
            let mut is_default = false;
            for l in labels {
                let label = match l {
                    SwitchLabel::Default(span) => {
                        if is_default || default.is_some() {
                            return self.err(*span, "`default` appears twice");
                        }
                        is_default = true;
                        continue;
                    }
                    SwitchLabel::Value(l) => l,
                };
                let value = match on_table {
                    Some(t) => {
                        let name = match &label.kind {
                            ExprKind::Name(n) | ExprKind::Global(n) => n.clone(),
                            _ => return self.err(label.span, "the label must be one of the table's actions"),
                        };
                        let found = self.lookup(&name).cloned();
                        let body = match found.map(|v| v.kind) {
                            Some(ValueKind::Action(i)) => Some(self.actions[i].callee.body),
                            _ => None,
                        };
                        let at = self.program.tables[t].actions.iter().position(|a| Some(a.body) == body);
                        match at {
                            Some(i) => Val::S(i as u128),
                            None => {
                                let m = format!("`{name}` is not an action of table `{}`", self.program.tables[t].name);
                                let names: Vec<&str> =
                                    self.program.tables[t].actions.iter().map(|a| a.name.as_str()).collect();
                                let help = format!("its actions are: {}", names.join(", "));
                                return self.err_help(label.span, m, help);
                            }
                        }
                    }
                    None => {
                        let c = self.expr(label, Some(&v.ty))?;
                        let c = self.coerce(c, &v.ty, label.span)?;
                        match self.scalar(&c, label.span)? {
                            Expression::Const(val) => val,
                            _ => return self.err(label.span, "a `switch` label must be constant"),
                        }
                    }
                };
                if seen.contains(&value) {
                    return self.err(label.span, "this label appears twice");
                }
                seen.push(value.clone());
                values.push(Expression::Const(value));
            }
            let Some(body) = body else {
                // Labels at the end with nothing to run.
                continue;
            };
            let (code, ()) = self.collect(|context| context.scoped(|context| context.stmts(body)))?;
            if is_default {
                default = Some(bodies.len());
            }
            if !values.is_empty() {
                out.push(SwitchCase { values, body: bodies.len() });
            }
            bodies.push(code);
        }
        self.emit(Statement::Switch(key, out, bodies, default));
        Ok(())
    }
}
