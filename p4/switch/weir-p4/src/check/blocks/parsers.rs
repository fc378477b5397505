// SPDX-License-Identifier: Apache-2.0
//! States of parsers, `select` and its sets of keys, value sets.
use crate::bytecode::ir::{self, Next, Pattern, Target};
use crate::check::prelude::*;

pub(crate) enum KeySet {
    Any,
    Value(TypedValue),
    Mask(TypedValue, TypedValue),
    Range(TypedValue, TypedValue),
}

impl Context<'_> {
    pub fn parser_states(&mut self, b: &BlockDecl) -> Checked<usize> {
        self.states.clear();
        // State 0 runs the initial values of the parser's variables.
        for (i, s) in b.states.iter().enumerate() {
            if s.name.text == "accept" || s.name.text == "reject" {
                let m = format!("state `{}` is built in and cannot be declared", s.name.text);
                return self.err(s.name.span, m);
            }
            if self.states.insert(s.name.text.clone(), i + 1).is_some() {
                return self.err(s.name.span, format!("state `{}` is declared twice", s.name.text));
            }
        }
        let Some(start) = self.states.get("start").copied() else {
            let m = format!("parser `{}` has no state `start`", b.name.text);
            return self.err_help(b.name.span, m, "name the first state `start`");
        };
        let init = std::mem::take(&mut self.code);
        let mut parser = ir::Parser { states: Vec::new(), start: 0 };
        parser.states.push(("".into(), init, Next::State(start)));
        let mut failed = false;
        for s in &b.states {
            let r = self.collect(|context| {
                context.scoped(|context| {
                    context.stmts(&s.body)?;
                    if matches!(s.transition, Transition::Implicit) {
                        let m =
                            format!("state `{}` has no `transition`: an implicit transition to `reject`", s.name.text);
                        context.diagnostics.warn(s.name.span, m);
                    }
                    context.transition(&s.transition)
                })
            });
            match r {
                Ok((code, next)) => parser.states.push((s.name.text.clone(), code, next)),
                Err(Reported) => failed = true,
            }
        }
        if failed {
            return Err(Reported);
        }
        if !ends(&parser) {
            let m = format!("parser `{}` never ends: no way from `start` leads to accept or reject", b.name.text);
            return self.err_help(b.name.span, m, "add `transition accept;` to its last state");
        }
        let number = self.program.parsers.len();
        let source = &mut self.program.source;
        source.parsers.insert(number, self.prefix.clone());
        for (i, s) in b.states.iter().enumerate() {
            let place = source.span(self.diagnostics, s.name.span);
            source.states.insert((number, i + 1), place);
        }
        self.program.parsers.push(parser);
        Ok(number)
    }

    fn target(&mut self, n: &Name) -> Checked<Target> {
        match n.text.as_str() {
            "accept" => Ok(Target::Accept),
            "reject" => {
                self.diagnostics
                    .warn(n.span, "after `reject` the packet goes on to ingress without a parser error, on BMv2 too");
                Ok(Target::Reject)
            }
            name => match self.states.get(name) {
                Some(i) => Ok(Target::State(*i)),
                None => {
                    let close = Self::similar(name, self.states.keys().map(String::as_str).chain(["accept", "reject"]));
                    let help = match close {
                        Some(c) => format!("did you mean `{c}`?"),
                        None => format!("declare it: `state {name} {{ transition accept; }}`"),
                    };
                    self.err_help(n.span, format!("state `{name}` is not declared"), help)
                }
            },
        }
    }

    fn transition(&mut self, t: &Transition) -> Checked<Next> {
        match t {
            Transition::Implicit => Ok(Next::Reject),
            Transition::To(n) => Ok(match self.target(n)? {
                Target::State(i) => Next::State(i),
                Target::Accept => Next::Accept,
                Target::Reject => Next::Reject,
            }),
            Transition::Select(keys, cases, span) => {
                if keys.is_empty() {
                    return self.err(*span, "`select` needs at least one key");
                }
                let mut vals: Vec<(TypedValue, Span)> = Vec::new();
                for k in keys {
                    let mark = self.code.len();
                    let v = self.expr(k, None)?;
                    if v.ty.scalar_width().is_none() {
                        let what = describe(&v);
                        let help = "select on bit<W>, int<W>, bool, enum or error values";
                        return self.err_help(k.span, format!("`select` cannot use {what}"), help);
                    }
                    if self.code.len() > mark {
                        let mut mark = mark;
                        for (earlier, _) in vals.iter_mut() {
                            let before = self.code.len();
                            *earlier = self.spill_at(mark, earlier.clone())?;
                            mark += self.code.len() - before;
                        }
                    }
                    vals.push((v, k.span));
                }
                let mut out = Vec::new();
                for (set, to, span) in cases {
                    let target = self.target(to)?;
                    out.push((self.case(set, &vals, *span)?, target));
                }
                let exs = vals.iter().map(|(v, s)| self.scalar(v, *s)).collect::<Checked<Vec<_>>>()?;
                Ok(Next::Select(exs, out))
            }
        }
    }

    fn case(&mut self, set: &[Expr], keys: &[(TypedValue, Span)], span: Span) -> Checked<Vec<Pattern>> {
        if let [only] = set {
            if matches!(only.kind, ExprKind::DontCare) {
                return Ok(vec![Pattern::Any; keys.len()]);
            }
            if let ExprKind::Name(n) = &only.kind
                && let Some(TypedValue { kind: ValueKind::ValueSet(id), .. }) = self.lookup(n)
            {
                let id = *id;
                let widths: Vec<u32> = keys.iter().map(|(k, _)| k.ty.scalar_width().unwrap_or(0)).collect();
                if self.program.value_sets[id].widths != widths {
                    return self.err(only.span, format!("value set `{n}` does not fit the keys of this `select`"));
                }
                return Ok(vec![Pattern::ValueSet(id)]);
            }
        }
        if set.len() != keys.len() {
            let m = format!("`select` has {} keys, this case {}", keys.len(), set.len());
            return self.err_help(span, m, "give one value for each key, in parentheses");
        }
        let mut out = Vec::new();
        for (e, (k, _)) in set.iter().zip(keys) {
            let ty = k.ty.clone();
            out.push(match self.keyset(e, &ty)? {
                KeySet::Any => Pattern::Any,
                KeySet::Value(v) => Pattern::Value(self.scalar(&v, e.span)?),
                KeySet::Mask(v, m) => Pattern::Mask(self.scalar(&v, e.span)?, self.scalar(&m, e.span)?),
                KeySet::Range(a, b) => {
                    match (&a.kind, &b.kind) {
                        (ValueKind::Int(low), ValueKind::Int(high)) if low > high => {
                            self.diagnostics
                                .warn(e.span, format!("the range from {low} to {high} is empty, it matches nothing"));
                        }
                        (ValueKind::Int(_), ValueKind::Int(_)) => {}
                        _ => {
                            let help = "BMv2 takes only constants here; compare with `if` in a control";
                            return self.err_help(e.span, "unsupported: a range whose bounds are not constant", help);
                        }
                    }
                    let (a, b) = (self.scalar(&a, e.span)?, self.scalar(&b, e.span)?);
                    match ty.is_signed() {
                        true => Pattern::RangeS(a, b, ty.scalar_width().unwrap_or(1)),
                        false => Pattern::Range(a, b),
                    }
                }
            });
        }
        Ok(out)
    }

    pub fn keyset(&mut self, e: &Expr, ty: &Ty) -> Checked<KeySet> {
        let mark = self.code.len();
        let set = self.keyset_of(e, ty)?;
        if self.code.len() > mark {
            return self.err_help(
                e.span,
                "a call cannot stand in a set of keys",
                "call it before, and use the result here",
            );
        }
        Ok(set)
    }

    fn keyset_of(&mut self, e: &Expr, ty: &Ty) -> Checked<KeySet> {
        let one = |context: &mut Self, e: &Expr| -> Checked<TypedValue> {
            let v = context.expr(e, Some(ty))?;
            // A serializable enum's member can be compared with its number.
            let v = match (&v.ty, ty) {
                (Ty::Enum(a), Ty::Bit(_) | Ty::SInt(_)) if a.under.as_ref() == Some(ty) => {
                    TypedValue { ty: ty.clone(), kind: v.kind }
                }
                _ => v,
            };
            context.coerce(v, ty, e.span)
        };
        Ok(match &e.kind {
            ExprKind::DontCare | ExprKind::Default => KeySet::Any,
            ExprKind::Mask(a, b) => {
                let v = one(self, a)?;
                let m = if matches!(ty, Ty::Enum(_)) {
                    let under = Ty::Bit(ty.scalar_width().unwrap_or(1));
                    let m = self.expr(b, Some(&under))?;
                    self.coerce(m, &under, b.span)?
                } else {
                    one(self, b)?
                };
                KeySet::Mask(v, m)
            }
            ExprKind::Range(a, b) => KeySet::Range(one(self, a)?, one(self, b)?),
            _ => KeySet::Value(one(self, e)?),
        })
    }

    pub fn value_set(&mut self, decl: &Decl, t: &Type, size: &Expr) -> Checked<()> {
        if self.place != Where::Parser {
            return self.err(decl.name.span, "a value_set can only be declared in a parser");
        }
        let ty = self.ty(t)?;
        let Some(layout) = ty.fixed_layout() else {
            return self.err(t.span, format!("a value_set cannot hold {ty}"));
        };
        let n = self.const_int(size, "the size of a value_set")?;
        let Some(size) = n.to_usize().filter(|n| *n <= 1 << 20) else {
            return self.err(size.span, format!("size {n} of a value_set is not between 0 and 2^20"));
        };
        let (name, span) = (self.full_name(&decl.name.text, &decl.annos), decl.name.span);
        let widths = layout.iter().map(|(_, w)| *w).collect();
        self.program.value_sets.push(program::ValueSetDecl { name, size, widths });
        self.notes.value_sets.push(ExternNote::new(span, &decl.annos, Some(ty)));
        let id = self.program.value_sets.len() - 1;
        self.declare(&decl.name, TypedValue { ty: Ty::Object("a value set"), kind: ValueKind::ValueSet(id) })
    }
}

/// Whether some way through the parser ends. A `select` that nothing matches rejects.
fn ends(parser: &ir::Parser) -> bool {
    let (mut seen, mut open) = (vec![false; parser.states.len()], vec![parser.start]);
    while let Some(i) = open.pop() {
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        match &parser.states[i].2 {
            Next::State(n) => open.push(*n),
            Next::Accept | Next::Reject => return true,
            Next::Select(_, cases) => {
                let all = cases.last().is_some_and(|(p, _)| p.iter().all(|p| matches!(p, Pattern::Any)));
                if !all {
                    return true;
                }
                for (_, to) in cases {
                    match to {
                        Target::State(n) => open.push(*n),
                        Target::Accept | Target::Reject => return true,
                    }
                }
            }
        }
    }
    false
}
