// SPDX-License-Identifier: Apache-2.0
//! Widest value of each slot in bits, from all that is written to it. Slots have no types; the only question at run
//! time is whether 64 bits are enough.
use crate::bytecode::ir::*;
use crate::bytecode::operators::{Operator, Slot};
use crate::bytecode::program::Program;

pub struct Widths {
    bits: Vec<u32>,
    changed: bool,
    /// Slots looked at so far.
    looks: u64,
}

/// More than any program takes whose values do not go through thousands of places, last to first.
const MOST_LOOKS: u64 = 40_000_000;

/// All slots an address may stand for.
pub fn candidates(a: &Address) -> Vec<Slot> {
    let mut all = vec![a.base];
    for d in &a.dyns {
        all = all.iter().flat_map(|s| (0..d.len).map(move |i| s + i * d.stride)).collect();
    }
    all
}

impl Widths {
    /// `None`: it would take too long to find out.
    pub fn of(p: &Program) -> Option<Widths> {
        let mut w = Widths { bits: vec![0; p.slots], changed: true, looks: 0 };
        for s in p.std.0..p.std.0 + p.std.1 {
            w.raise(s, 48);
        }
        for t in &p.tables {
            w.raise(t.hit, 1);
            w.raise(t.action_run, 32);
            for x in t.actions.iter().flat_map(|a| &a.params) {
                w.raise(x.slot, x.width);
            }
        }
        while w.changed {
            w.changed = false;
            p.procs.iter().for_each(|b| w.block(p, b));
            for (_, code, next) in p.parsers.iter().flat_map(|x| &x.states) {
                w.block(p, code);
                if let Next::Select(keys, cases) = next {
                    keys.iter().for_each(|k| w.uses(k));
                    for pat in cases.iter().flat_map(|c| &c.0) {
                        match pat {
                            Pattern::Any | Pattern::ValueSet(..) => {}
                            Pattern::Value(e) => w.uses(e),
                            Pattern::Mask(a, b) | Pattern::Range(a, b) | Pattern::RangeS(a, b, _) => {
                                w.uses(a);
                                w.uses(b);
                            }
                        }
                    }
                }
            }
            for t in &p.tables {
                w.block(p, &t.before);
                t.keys.iter().for_each(|k| w.uses(&k.ex));
                t.actions.iter().for_each(|a| {
                    w.block(p, &a.before);
                    w.block(p, &a.after);
                });
            }
        }
        // The last round has then been cut short, and found nothing for that reason.
        (w.looks <= MOST_LOOKS).then_some(w)
    }

    pub fn slot(&self, s: Slot) -> u32 {
        // Cells behind the program's slots are the lowering's own, 64 bits each.
        self.bits.get(s).copied().unwrap_or(64)
    }

    fn raise(&mut self, s: Slot, to: u32) {
        if self.bits[s] < to {
            self.bits[s] = to;
            self.changed = true;
        }
    }

    /// Slots behind one run-time address must be of one kind.
    fn level(&mut self, slots: &[Slot], at_least: u32) {
        self.looks += slots.len() as u64;
        let most = slots.iter().map(|s| self.bits[*s]).max().unwrap_or(0).max(at_least);
        slots.iter().for_each(|s| self.raise(*s, most));
    }

    fn put(&mut self, a: &Address, w: u32) {
        self.level(&candidates(a), w);
    }

    fn put_at(&mut self, a: &Address, offset: usize, w: u32) {
        let slots: Vec<Slot> = candidates(a).iter().map(|s| s + offset).collect();
        self.level(&slots, w);
    }

    /// Levels the slots that an expression reads behind run-time indices.
    fn uses(&mut self, e: &Expression) {
        match e {
            Expression::Const(_) | Expression::Load(_) => {}
            Expression::LoadAt(a) => self.put(a, 0),
            Expression::Bin(_, _, ab) | Expression::LAnd(ab) | Expression::LOr(ab) | Expression::Concat(ab, _) => {
                self.uses(&ab.0);
                self.uses(&ab.1);
            }
            Expression::BitNot(_, x)
            | Expression::Neg(_, x)
            | Expression::Not(x)
            | Expression::Slice(x, ..)
            | Expression::SignExtend(x, ..) => self.uses(x),
            Expression::Cond(c) => {
                self.uses(&c.0);
                self.uses(&c.1);
                self.uses(&c.2);
            }
        }
    }

    /// The most bits an expression's value can have.
    pub fn ex(&self, e: &Expression) -> u32 {
        match e {
            Expression::Const(v) => v.bits(),
            Expression::Load(s) => self.slot(*s),
            Expression::LoadAt(a) => candidates(a).iter().map(|s| self.slot(*s)).max().unwrap_or(0),
            Expression::Bin(op, w, ab) => match op {
                Operator::Eq | Operator::Ne | Operator::Lt | Operator::Le | Operator::LtS | Operator::LeS => 1,
                Operator::And => self.ex(&ab.0).min(self.ex(&ab.1)),
                Operator::Or | Operator::Xor => self.ex(&ab.0).max(self.ex(&ab.1)),
                Operator::Shr | Operator::Div | Operator::Mod => self.ex(&ab.0),
                _ => *w,
            },
            Expression::BitNot(w, _) | Expression::Neg(w, _) => *w,
            Expression::Not(_) | Expression::LAnd(_) | Expression::LOr(_) => 1,
            Expression::Slice(x, lo, w) => self.ex(x).saturating_sub(*lo).min(*w),
            Expression::Concat(ab, w) => match self.ex(&ab.0) {
                0 => self.ex(&ab.1),
                high => (high + w).max(self.ex(&ab.1)).min(crate::value::MAX_WIDTH + 1),
            },
            Expression::SignExtend(_, _, to) => *to,
            Expression::Cond(c) => self.ex(&c.1).max(self.ex(&c.2)),
        }
    }

    fn block(&mut self, p: &Program, code: &Block) {
        code.iter().for_each(|s| self.step(p, s));
    }

    fn step(&mut self, p: &Program, s: &Statement) {
        self.looks += 1;
        // Nothing changes any more, which ends it.
        if self.looks > MOST_LOOKS {
            return;
        }
        match s {
            Statement::Set(slot, e) => {
                self.uses(e);
                self.raise(*slot, self.ex(e));
            }
            Statement::SetAt(a, e) => {
                self.uses(e);
                self.put(a, self.ex(e));
            }
            Statement::Copy(from, to, n) => {
                let (from, to) = (candidates(from), candidates(to));
                for i in 0..*n {
                    let src: Vec<Slot> = from.iter().map(|s| s + i).collect();
                    let dst: Vec<Slot> = to.iter().map(|s| s + i).collect();
                    self.level(&src, 0);
                    self.level(&dst, self.bits[src[0]]);
                }
            }
            Statement::Zero(..)
            | Statement::Return
            | Statement::Exit
            | Statement::Break
            | Statement::Continue
            | Statement::Apply(_)
            | Statement::Mark(_) => {}
            Statement::If(c, yes, no) => {
                self.uses(c);
                self.block(p, yes);
                self.block(p, no);
            }
            Statement::Switch(key, cases, bodies, _) => {
                self.uses(key);
                cases.iter().flat_map(|c| &c.values).for_each(|v| self.uses(v));
                bodies.iter().for_each(|b| self.block(p, b));
            }
            Statement::Group(b) => self.block(p, b),
            Statement::Call(before, _, after) | Statement::CallParser(before, _, after) => {
                self.block(p, before);
                self.block(p, after);
            }
            Statement::Loop(pre, cond, body, update) => {
                self.block(p, pre);
                cond.iter().for_each(|c| self.uses(c));
                self.block(p, body);
                self.block(p, update);
            }
            Statement::SetValid(h, _) | Statement::OnlyMember(h) => self.header(h),
            Statement::Extract(h, size, next) => {
                size.iter().for_each(|e| self.uses(e));
                self.header(h);
                next.iter().for_each(|(a, _)| self.put(a, 32));
            }
            Statement::Emit(h) => self.header(h),
            Statement::Lookahead(base, fields, _, valid) => {
                fields.iter().for_each(|(offset, w)| self.raise(base + offset, *w));
                valid.iter().for_each(|v| self.raise(*v, 1));
            }
            Statement::PacketLength(slot) => self.raise(*slot, 32),
            Statement::Advance(e) | Statement::Truncate(e) | Statement::Assert(e, _) => self.uses(e),
            Statement::Verify(a, b) | Statement::RegisterWrite(_, a, b) => {
                self.uses(a);
                self.uses(b);
            }
            Statement::CheckIndex(_) => {}
            Statement::PushFront(a, each, len, _) | Statement::PopFront(a, each, len, _) => {
                self.put(a, 32);
                for offset in 0..*each {
                    let cells = |s: &Slot| (0..*len).map(|i| s + 1 + offset + i * each).collect::<Vec<_>>();
                    let slots: Vec<Slot> = candidates(a).iter().flat_map(cells).collect();
                    self.level(&slots, 0);
                }
            }
            Statement::RegisterRead(r, to, i) => {
                self.uses(i);
                self.put(to, p.registers[*r].width);
            }
            Statement::Count(_, i) => self.uses(i),
            Statement::Meter(_, i, to) => {
                self.uses(i);
                self.put(to, 2);
            }
            Statement::DirectMeter(_, to) => self.put(to, 2),
            Statement::DropPort(to) => self.put(to, 9),
            Statement::Random(to, a, b, w) => {
                self.uses(a);
                self.uses(b);
                self.put(to, *w);
            }
            Statement::Hash(to, w, _, base, data, max) => {
                self.uses(base);
                self.uses(max);
                self.fields(data);
                self.put(to, *w);
            }
            Statement::VerifyChecksum(c, data, sum, ..) => {
                self.uses(c);
                self.uses(sum);
                self.fields(data);
            }
            Statement::UpdateChecksum(c, data, to, w, ..) => {
                self.uses(c);
                self.fields(data);
                self.put(to, *w);
            }
            Statement::Digest(_, receiver, data) => {
                self.uses(receiver);
                self.fields(data);
            }
            Statement::Clone(session, list) => {
                self.uses(session);
                list.iter().for_each(|e| self.uses(e));
            }
            Statement::Resubmit(list) | Statement::Recirculate(list) => list.iter().for_each(|e| self.uses(e)),
            Statement::Log(_, data) => data.iter().for_each(|(e, ..)| self.uses(e)),
        }
    }

    fn fields(&mut self, data: &Fields) {
        for (e, _, length) in data {
            self.uses(e);
            length.iter().for_each(|l| self.uses(l));
        }
    }

    fn header(&mut self, h: &HeaderRef) {
        self.put(&h.addr, 1);
        h.siblings.iter().for_each(|s| self.put(s, 1));
        for (i, (offset, w)) in h.layout.fields.iter().enumerate() {
            self.put_at(&h.addr, *offset, *w);
            if h.layout.varbit == Some(i) {
                self.put_at(&h.addr, offset + 1, 32);
            }
        }
    }
}
