// SPDX-License-Identifier: Apache-2.0
//! Parsers and tables.
use super::fold::bin;
use super::*;

impl<'p> Lower<'p> {
    pub(super) fn parser(&mut self, number: usize, x: &'p ir::Parser) {
        let labels: Vec<Label> = x.states.iter().map(|_| self.label()).collect();
        self.here(self.parsers[number]);
        self.emit(Instruction::Jump { to: labels[x.start] });
        for (i, ((name, code, next), l)) in x.states.iter().zip(&labels).enumerate() {
            self.here(*l);
            self.emit(Instruction::ParserStep { cost: 0 });
            self.trace_state(number, i, name);
            self.block(code);
            let (accept, reject) = (self.label(), self.label());
            let go = |t: &Target| match t {
                Target::State(i) => labels[*i],
                Target::Accept => accept,
                Target::Reject => reject,
            };
            match next {
                Next::State(i) => self.emit(Instruction::Jump { to: labels[*i] }),
                Next::Accept => self.emit(Instruction::Jump { to: accept }),
                Next::Reject => self.emit(Instruction::Jump { to: reject }),
                Next::Select(keys, cases) => {
                    let (used, wide) = (self.used, self.wide_used);
                    let keys: Vec<Expression> = keys.iter().map(|k| self.again(k)).collect();
                    self.trace_select(&keys);
                    for (pats, target) in cases {
                        self.case(&keys, pats, go(target));
                    }
                    (self.used, self.wide_used) = (used, wide);
                    // BMv2 rejects without saying why; P4_16 would have error.NoMatch.
                    self.trace_end_of_parser("no_match");
                    self.emit(Instruction::Fail { error: 0 });
                }
            }
            self.here(accept);
            self.trace_end_of_parser("accept");
            self.emit(Instruction::Return);
            self.here(reject);
            self.trace_end_of_parser("reject");
            self.emit(Instruction::Reject);
        }
    }

    fn case(&mut self, keys: &[Expression], pats: &[Pattern], to: Label) {
        let (used, wide) = (self.used, self.wide_used);
        if let [Pattern::ValueSet(id)] = pats {
            let values = keys.iter().map(|k| self.src(k)).collect();
            self.code.sets.push((*id, values));
            let (d, set) = (self.temp(), (self.code.sets.len() - 1) as u32);
            self.emit(Instruction::InValueSet { d, set });
            self.emit(Instruction::JumpSet { a: d, to });
        } else {
            let and = |a: &Expression, b: &Expression| bin(Operator::And, 0, a.clone(), b.clone());
            let both = |a: Expression, b: Expression| Expression::LAnd(Box::new((a, b)));
            let tests = pats.iter().zip(keys).filter_map(|(p, k)| match p {
                Pattern::Any => None,
                Pattern::Value(e) => Some(bin(Operator::Eq, 0, k.clone(), e.clone())),
                Pattern::Mask(e, m) => Some(bin(Operator::Eq, 0, and(k, m), and(e, m))),
                Pattern::Range(a, b) => {
                    Some(both(bin(Operator::Le, 0, a.clone(), k.clone()), bin(Operator::Le, 0, k.clone(), b.clone())))
                }
                Pattern::RangeS(a, b, w) => Some(both(
                    bin(Operator::LeS, *w, a.clone(), k.clone()),
                    bin(Operator::LeS, *w, k.clone(), b.clone()),
                )),
                Pattern::ValueSet(..) => Some(Expression::Const(Val::S(0))),
            });
            let all = tests.reduce(both).unwrap_or(Expression::Const(Val::S(1)));
            self.jump(&all, to, true);
        }
        (self.used, self.wide_used) = (used, wide);
    }

    pub(super) fn table(&mut self, t: &'p Table) -> TableCode {
        let (fields, words) = layout(t);
        // Keys were computed before the table is applied, so that this makes no code.
        let keys = match_keys(t).zip(fields).map(|(k, f)| (self.key(&k.ex), f)).collect();
        let selectors = t.keys.iter().filter(|k| k.kind == MatchKind::Selector);
        let selector = selectors.map(|k| (self.key(&k.ex), k.width, None)).collect();
        let mut actions = Vec::new();
        for a in &t.actions {
            let params = a.params.iter().map(|x| (self.place(x.slot), x.width)).collect();
            let around = |l: &mut Self, b: &'p Block| {
                if b.is_empty() {
                    return 0;
                }
                let label = l.label();
                l.pending.push((label, b, None));
                label
            };
            let (before, after) = (around(self, &a.before), around(self, &a.after));
            actions.push(ActionCode { body: a.body, params, before, to: self.procs[a.body], after, cost: 0 });
        }
        TableCode {
            has_keys: !t.keys.is_empty(),
            keys,
            words,
            selector,
            actions,
            profile: t.profile,
            meter: t.meter.map(|m| (m, self.meter_targets.get(&m).copied())),
            observes_hits: t.meter.is_some() || t.idle_timeout,
            idle_timeout: t.idle_timeout,
            hit: t.hit as Cell,
            action_run: t.action_run as Cell,
        }
    }

    pub(super) fn place(&self, s: Slot) -> Source {
        match self.wide_of(s) {
            NARROW => Source::N(s as Cell),
            w => Source::W(w),
        }
    }

    fn key(&mut self, e: &Expression) -> Source {
        let n = self.code.ins.len();
        let v = self.src(e);
        assert_eq!(n, self.code.ins.len(), "a table's key is a slot or a constant");
        v
    }
}
