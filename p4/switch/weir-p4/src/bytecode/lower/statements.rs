// SPDX-License-Identifier: Apache-2.0
//! Statements.
use super::fold::{bin, load, nonzero};
use super::headers::plan_in;
use super::*;
use crate::bytecode::copies::Unchanged;
#[cfg(test)]
use crate::bytecode::marks::Mark;

impl<'p> Lower<'p> {
    fn set(&mut self, s: Slot, e: &Expression) {
        let d = self.wide_of(s);
        if d == NARROW {
            self.ex(e, Some(s as Cell));
            return;
        }
        if self.widths.ex(e) <= 64 {
            let a = self.ex(e, None);
            self.emit(Instruction::ToWide { d, a });
        } else if let Expression::Load(s) = e {
            self.emit(Instruction::MoveWide { d, a: self.wide_of(*s) });
        } else {
            let e = self.wide_ex(e);
            self.emit(Instruction::EvalWide { d, e });
        }
    }

    fn put(&mut self, a: &Address, e: &Expression) {
        if a.dyns.is_empty() {
            return self.set(a.base, e);
        }
        let v = self.src(e);
        self.store(a, v);
    }

    fn store(&mut self, a: &Address, v: Source) {
        let at = self.addr(a);
        match (v, self.is_wide(a)) {
            (Source::N(a), false) => self.emit(Instruction::StoreAt { at, a }),
            (Source::W(a), _) => self.emit(Instruction::StoreWideAt { at, a }),
            (Source::N(a), true) => {
                let d = self.wide_temp();
                self.emit(Instruction::ToWide { d, a });
                self.emit(Instruction::StoreWideAt { at, a: d });
            }
        }
    }

    /// Lets an instruction that may leave its result alone write to an address.
    fn write(&mut self, a: &Address, make: impl FnOnce(Cell) -> Instruction) {
        if a.dyns.is_empty() && !self.is_wide(a) {
            return self.emit(make(a.base as Cell));
        }
        let d = self.ex(&load(a), None);
        let t = self.temp();
        self.emit(Instruction::Move { d: t, a: d });
        self.emit(make(t));
        self.put(a, &Expression::Load(t as Slot));
    }

    fn put_wide(&mut self, a: &Address, make: impl FnOnce(WideCell) -> Instruction) {
        if a.dyns.is_empty() {
            return self.emit(make(self.wide_of(a.base)));
        }
        let (d, at) = (self.wide_temp(), self.addr(a));
        self.emit(Instruction::LoadWideAt { d, at });
        self.emit(make(d));
        self.emit(Instruction::StoreWideAt { at, a: d });
    }

    fn data(&mut self, fields: &[(Expression, u32, Option<Expression>)]) -> Data {
        let mut data = Data::new();
        for (e, w, length) in fields {
            // Fields of a header that is not valid have no length.
            let length = match length {
                Some(Expression::Cond(c)) if matches!(&c.0, Expression::Load(s) if self.known.contains(s)) => {
                    Some(&c.1)
                }
                length => length.as_ref(),
            };
            let v = self.src(e);
            let length = match length {
                Some(Expression::Const(v)) if v.low() == u128::from(*w) => None,
                length => length.map(|n| self.index(n)),
            };
            data.push((v, *w, length));
        }
        data
    }

    pub(super) fn block(&mut self, code: &'p [Statement]) {
        for s in code {
            let (used, wide) = (self.used, self.wide_used);
            if self.traced {
                self.traced_step(s);
            } else {
                self.step(s);
            }
            (self.used, self.wide_used) = (used, wide);
        }
    }

    #[cfg(test)]
    fn mark(&mut self, s: &Statement) {
        if let (Some(mark), 0) = (Mark::of(s), self.copying) {
            self.code.marks.push((self.code.ins.len() as Pc, mark));
        }
    }

    /// The copies of a call's parameters, but for those to slots in `unchanged` and to slots that nobody reads.
    pub(super) fn parameters(&mut self, code: &'p Block, unchanged: &Unchanged) {
        for s in code {
            let n = match s {
                Statement::Set(to, Expression::Load(_)) => Some((*to, 1)),
                Statement::Copy(from, to, n) if from.dyns.is_empty() && to.dyns.is_empty() => {
                    // One that overlaps stays whole.
                    (from.base + n <= to.base || to.base + n <= from.base).then_some((to.base, *n))
                }
                _ => None,
            };
            let is_kept = |l: &Self, slot: Slot| l.copies.is_needed(slot) && !unchanged.contains(&slot);
            let Some((to, n)) = n.filter(|(to, n)| (*to..to + n).any(|slot| !is_kept(self, slot))) else {
                self.block(std::slice::from_ref(s));
                continue;
            };
            let Statement::Copy(from, ..) = s else { continue };
            let mut at = 0;
            while at < n {
                let run = (at..n).take_while(|i| is_kept(self, to + i)).count();
                if run > 0 {
                    let place = |base: Slot| Address { base: base + at, dyns: Vec::new() };
                    self.copy(&place(from.base), &place(to), run);
                }
                at += run.max(1);
            }
        }
    }

    fn call(&mut self, before: &'p Block, body: usize, after: &'p Block) {
        let (to, unchanged) = (self.procs[body], self.copies.unchanged(before, body, after));
        self.call_with(before, to, after, unchanged);
    }

    fn call_parser(&mut self, before: &'p Block, id: usize, after: &'p Block) {
        self.call_with(before, self.parsers[id], after, Unchanged::default());
    }

    fn call_with(&mut self, before: &'p Block, to: Label, after: &'p Block, unchanged: Unchanged) {
        #[cfg(test)]
        {
            self.copying += 1;
        }
        self.parameters(before, &Unchanged::default());
        let exit = if after.is_empty() { 0 } else { self.label() };
        self.emit(Instruction::Call { to, after: exit, cost: 0 });
        self.parameters(after, &unchanged);
        if exit != 0 {
            self.pending.push((exit, after, Some(unchanged)));
        }
        #[cfg(test)]
        {
            self.copying -= 1;
        }
    }

    pub(super) fn step(&mut self, s: &'p Statement) {
        #[cfg(test)]
        self.mark(s);
        match s {
            Statement::Mark(place) => self.place = Some(*place),
            Statement::Set(slot, e) => self.set(*slot, e),
            Statement::SetAt(a, e) => self.put(a, e),
            Statement::Copy(from, to, n) => self.copy(from, to, *n),
            Statement::Zero(at, n) => self.zero(*at, *n),
            Statement::If(c, yes, no) => self.choice(c, yes, no),
            Statement::Switch(key, cases, bodies, default) => self.switch(key, cases, bodies, *default),
            Statement::Group(b) => self.block(b),
            Statement::Call(before, body, after) => self.call(before, *body, after),
            Statement::CallParser(before, id, after) => self.call_parser(before, *id, after),
            Statement::Loop(pre, cond, body, update) => self.repeat(pre, cond.as_ref(), body, update),
            Statement::Return => self.emit(Instruction::Return),
            Statement::Exit => self.emit(Instruction::Exit),
            // The checker lets these stand in loops only.
            Statement::Break | Statement::Continue => {
                if let Some((end, next)) = self.loops.last().copied() {
                    self.emit(Instruction::Jump { to: if matches!(s, Statement::Break) { end } else { next } });
                }
            }
            Statement::Apply(t) => {
                let p = self.program;
                self.block(&p.tables[*t].before);
                let table = *t as u32;
                self.emit(if self.traced { Instruction::ApplyTraced { table } } else { Instruction::Apply { table } });
            }
            Statement::SetValid(h, valid) => {
                let header = self.header(h, None);
                self.emit(Instruction::SetValid { header, valid: *valid });
            }
            Statement::OnlyMember(h) => {
                let header = self.header(h, None);
                self.emit(Instruction::OnlyMemberAt { header });
            }
            Statement::Extract(h, size, next) => self.extract(h, size.as_ref(), next.as_ref().map(|n| &n.0)),
            Statement::Lookahead(base, fields, bits, valid) => self.lookahead(*base, fields, *bits, valid),
            Statement::Advance(e) => {
                let a = self.index(e);
                self.emit(Instruction::Advance { a });
            }
            Statement::PacketLength(slot) => {
                self.write(&Address { base: *slot, dyns: Vec::new() }, |d| Instruction::PacketLength { d })
            }
            Statement::Verify(c, e) => {
                let fine = self.label();
                self.jump(c, fine, true);
                let a = self.index(e);
                self.emit(Instruction::FailWith { a });
                self.here(fine);
            }
            Statement::CheckIndex(a) => {
                let at = self.addr(a);
                self.emit(Instruction::CheckIndex { at });
            }
            Statement::Emit(h) => {
                let header = self.header(h, None);
                self.emit(Instruction::Emit { header });
            }
            Statement::PushFront(a, each, len, by) => self.shift(a, *each, *len, *by, true),
            Statement::PopFront(a, each, len, by) => self.shift(a, *each, *len, *by, false),
            Statement::RegisterRead(r, to, i) => self.register_read(*r, to, i),
            Statement::RegisterWrite(r, i, v) => self.register_write(*r, i, v),
            Statement::Count(c, i) => {
                let i = self.index(i);
                self.emit(Instruction::Count { c: *c as u32, i });
            }
            Statement::Meter(m, i, to) => {
                let (i, m) = (self.index(i), *m as u32);
                self.write(to, |d| Instruction::Meter { m, i, d });
            }
            Statement::DirectMeter(m, to) => self.direct_meter(*m, to),
            Statement::Random(to, low, high, w) => self.random(to, low, high, *w),
            Statement::Hash(to, w, algo, base, data, max) => {
                let h = self.hash(*algo, data, Rest::Nothing);
                // Modulo zero is zero: a range of nothing leaves the base.
                let offset = bin(Operator::Mod, 64, h, max.clone());
                self.put(to, &bin(Operator::Add, *w, base.clone(), offset));
            }
            Statement::VerifyChecksum(c, data, sum, w, algo, payload) => {
                self.verify_checksum(c, data, sum, *w, (*algo, *payload))
            }
            Statement::UpdateChecksum(c, data, to, w, algo, payload) => {
                self.update_checksum(c, data, to, *w, (*algo, *payload))
            }
            Statement::Digest(id, receiver, data) => {
                let receiver = self.index(receiver);
                let values = data.iter().map(|(e, ..)| self.src(e)).collect();
                self.code.digests.push(DigestCode { digest: *id, receiver, values });
                self.emit(Instruction::Digest { digest: (self.code.digests.len() - 1) as u32 });
            }
            Statement::Clone(session, list) => {
                let (session, list) = (self.index(session), self.list(list));
                self.emit(Instruction::Clone { session, list });
            }
            Statement::Resubmit(list) => {
                let list = self.list(list);
                self.emit(Instruction::Resubmit { list });
            }
            Statement::Recirculate(list) => {
                let list = self.list(list);
                self.emit(Instruction::Recirculate { list });
            }
            Statement::DropPort(to) => self.write(to, |d| Instruction::DropPort { d }),
            Statement::Truncate(n) => {
                let a = self.index(n);
                self.emit(Instruction::Truncate { a });
            }
            Statement::Assert(c, text) => self.assert(c, text),
            Statement::Log(text, data) => {
                let data = data.iter().map(|(e, w, signed)| (self.src(e), *w, *signed)).collect();
                self.code.logs.push(LogCode { text: text.clone(), data });
                self.emit(Instruction::Log { text: (self.code.logs.len() - 1) as u32 });
            }
        }
    }

    fn hash(&mut self, algo: HashAlgorithm, data: &Fields, rest: Rest) -> Expression {
        let mut data = self.data(data);
        let (mut placed, mut placed_bits, mut n) = (Vec::new(), 0, 0);
        if algo == HashAlgorithm::Csum16 {
            for (v, w, length) in &data {
                let end = placed_bits + w;
                let left = (16 - end % 16) % 16;
                match (v, length) {
                    (Source::N(c), None) if w + left <= 64 => placed.push((*c, left as u8)),
                    _ => break,
                }
                placed_bits = end;
                n += 1;
            }
        }
        data.drain(..n);
        self.code.hashes.push(HashCode { algo, placed, placed_bits, data, rest });
        let (d, hash) = (self.temp(), (self.code.hashes.len() - 1) as u32);
        self.emit(Instruction::Hash { d, hash });
        Expression::Load(d as Slot)
    }

    fn copy(&mut self, from: &Address, to: &Address, n: usize) {
        let offset_wide = |l: &Self, a: &Address, i: usize| l.wide_of(a.base + i);
        let wide: Vec<usize> = (0..n).filter(|i| offset_wide(self, to, *i) != NARROW).collect();
        if !from.dyns.is_empty() || !to.dyns.is_empty() {
            let (from, to) = (self.addr(from), self.addr(to));
            self.code.copies.push(CopyCode { from, to, n, wide });
            self.emit(Instruction::CopyAt { copy: (self.code.copies.len() - 1) as u32 });
            return;
        }
        // Wide ones first: they may come from narrow cells that the copy below overwrites.
        let order: Box<dyn Iterator<Item = &usize>> =
            if from.base < to.base { Box::new(wide.iter().rev()) } else { Box::new(wide.iter()) };
        for i in order {
            self.set(to.base + i, &Expression::Load(from.base + i));
        }
        if wide.len() < n {
            self.emit(match n {
                1 => Instruction::Move { d: to.base as Cell, a: from.base as Cell },
                _ => Instruction::Copy { d: to.base as Cell, a: from.base as Cell, n: n as u32 },
            });
        }
    }

    fn shift(&mut self, a: &Address, each: usize, len: usize, by: usize, push: bool) {
        let first = a.base + 1;
        let wide = (0..each).filter(|o| self.wide_of(first + o) != NARROW).collect();
        let at = self.addr(a);
        self.code.stacks.push(StackCode { at, each, len, by: by.min(len), push, wide });
        self.emit(Instruction::Shift { stack: (self.code.stacks.len() - 1) as u32 });
    }

    fn zero(&mut self, at: Slot, n: usize) {
        let zero = self.constant(0);
        self.emit(match n {
            1 => Instruction::Move { d: at as Cell, a: zero },
            _ => Instruction::Zero { d: at as Cell, n: n as u32 },
        });
        for s in at..at + n {
            if self.wide_of(s) != NARROW {
                self.emit(Instruction::ToWide { d: self.wide_of(s), a: zero });
            }
        }
    }

    fn choice(&mut self, c: &Expression, yes: &'p Block, no: &'p Block) {
        let (other, end) = (self.label(), self.label());
        if self.traced {
            return self.traced_choice(c, (yes, no), (other, end));
        }
        if yes.is_empty() {
            self.jump(c, end, true);
            self.block(no);
            return self.here(end);
        }
        self.jump(c, other, false);
        self.block(yes);
        if !no.is_empty() {
            self.emit(Instruction::Jump { to: end });
        }
        self.here(other);
        self.block(no);
        self.here(end);
        #[cfg(test)]
        self.code.marks.push((self.code.ins.len() as Pc, Mark::Join));
    }

    fn switch(&mut self, key: &Expression, cases: &[SwitchCase], bodies: &'p [Block], default: Option<usize>) {
        let key = self.again(key);
        let labels: Vec<Label> = bodies.iter().map(|_| self.label()).collect();
        let end = self.label();
        for c in cases {
            for v in &c.values {
                self.jump(&bin(Operator::Eq, 0, key.clone(), v.clone()), labels[c.body], true);
            }
        }
        self.emit(Instruction::Jump { to: default.map_or(end, |i| labels[i]) });
        for (l, b) in labels.iter().zip(bodies) {
            self.here(*l);
            self.block(b);
            self.emit(Instruction::Jump { to: end });
        }
        self.here(end);
    }

    fn repeat(&mut self, pre: &'p Block, cond: Option<&Expression>, body: &'p Block, update: &'p Block) {
        let (start, next, end) = (self.label(), self.label(), self.label());
        self.here(start);
        self.block(pre);
        if let Some(c) = cond {
            self.jump(c, end, false);
        }
        self.emit(Instruction::LoopStep { cost: end });
        self.loops.push((end, next));
        self.block(body);
        self.loops.pop();
        self.here(next);
        self.block(update);
        self.emit(Instruction::Jump { to: start });
        self.here(end);
    }

    fn lookahead(&mut self, base: Slot, fields: &[(usize, u32)], bits: usize, valid: &[Slot]) {
        let fields: Vec<(u32, u32)> = fields.iter().map(|(o, w)| (*o as u32, *w)).collect();
        let valid = valid.iter().map(|v| *v as Cell).collect();
        let header = HeaderCode {
            at: None,
            base: base as Cell,
            fixed_bits: bits,
            reads: plan_in(&fields),
            writes: Vec::new(),
            fields,
            varbit: None,
            siblings: Vec::new(),
            next: None,
            valid,
        };
        self.code.headers.push(header);
        self.emit(Instruction::Lookahead { header: (self.code.headers.len() - 1) as u32 });
    }

    fn register_read(&mut self, r: usize, to: &Address, i: &Expression) {
        let (i, r, wide) = (self.index(i), r as u32, self.program.registers[r].width > 64);
        if wide {
            self.put_wide(to, |d| Instruction::RegisterReadWide { r, i, d });
        } else {
            self.write(to, |d| Instruction::RegisterRead { r, i, d });
        }
    }

    fn register_write(&mut self, r: usize, i: &Expression, v: &Expression) {
        let (i, v) = (self.index(i), self.src(v));
        let (r, wide) = (r as u32, self.program.registers[r].width > 64);
        match (v, wide) {
            (Source::N(a), false) => self.emit(Instruction::RegisterWrite { r, i, a }),
            (Source::N(a), true) => {
                let d = self.wide_temp();
                self.emit(Instruction::ToWide { d, a });
                self.emit(Instruction::RegisterWriteWide { r, i, a: d });
            }
            (Source::W(a), _) => self.emit(Instruction::RegisterWriteWide { r, i, a }),
        }
    }

    fn random(&mut self, to: &Address, low: &Expression, high: &Expression, w: u32) {
        if w <= 64 && self.narrow(low) && self.narrow(high) {
            let (a, b) = (self.ex(low, None), self.ex(high, None));
            self.write(to, |d| Instruction::Random { d, a, b });
        } else {
            let (low, high) = (self.wide(low), self.wide(high));
            self.code.randoms.push(RandomCode { low, high, width: w });
            let random = (self.code.randoms.len() - 1) as u32;
            let d = self.wide_temp();
            self.emit(Instruction::RandomWide { d, random });
            self.code.wides.push(Wide::W(d));
            let (e, t) = ((self.code.wides.len() - 1) as u32, self.temp());
            if self.is_wide(to) {
                match to.dyns.is_empty() {
                    true => self.emit(Instruction::MoveWide { d: self.wide_of(to.base), a: d }),
                    false => self.store(to, Source::W(d)),
                }
            } else {
                self.emit(Instruction::EvalLow { d: t, e });
                self.put(to, &Expression::Load(t as Slot));
            }
        }
    }

    fn verify_checksum(
        &mut self,
        c: &Expression,
        data: &Fields,
        sum: &Expression,
        w: u32,
        (algo, payload): (HashAlgorithm, bool),
    ) {
        let (end, skip) = self.skippable();
        self.jump(c, skip, false);
        self.known = nonzero(c);
        let h = self.hash(algo, data, if payload { Rest::Unread } else { Rest::Nothing });
        self.known.clear();
        let right = if self.traced { self.label() } else { end };
        self.jump(&bin(Operator::Eq, 0, Expression::Slice(Box::new(h), 0, w), sum.clone()), right, true);
        self.trace_checksum(false);
        self.emit(Instruction::ChecksumError);
        if self.traced {
            self.emit(Instruction::Jump { to: end });
            self.here(right);
            self.trace_checksum(true);
        }
        self.trace_skipped("verify_checksum", (end, skip));
    }

    fn update_checksum(
        &mut self,
        c: &Expression,
        data: &Fields,
        to: &Address,
        w: u32,
        (algo, payload): (HashAlgorithm, bool),
    ) {
        let (end, skip) = self.skippable();
        self.jump(c, skip, false);
        self.known = nonzero(c);
        let h = self.hash(algo, data, if payload { Rest::Payload } else { Rest::Nothing });
        self.known.clear();
        self.put(to, &Expression::Slice(Box::new(h), 0, w));
        self.trace_updated(to, w);
        self.trace_skipped("update_checksum", (end, skip));
    }

    fn direct_meter(&mut self, m: usize, to: &Address) {
        if to.dyns.is_empty() {
            let place = self.place(to.base);
            self.meter_targets.entry(m).or_insert(place);
        }
        let m = m as u32;
        self.write(to, |d| Instruction::DirectMeter { m, d });
    }

    fn assert(&mut self, c: &Expression, text: &str) {
        let fine = self.label();
        self.jump(c, fine, true);
        self.code.texts.push(format!("failed: {text}"));
        self.emit(Instruction::AssertFailed { text: (self.code.texts.len() - 1) as u32 });
        self.here(fine);
    }

    fn extract(&mut self, h: &HeaderRef, size: Option<&Expression>, next: Option<&Address>) {
        let header = self.header(h, next);
        let size = match size {
            Some(e) => self.index(e),
            None => self.constant(0),
        };
        self.emit(Instruction::Extract { header, size });
    }
}
