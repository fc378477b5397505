// SPDX-License-Identifier: Apache-2.0
//! From the checked program to [`crate::code`]: where every value lies, which arithmetic 64 bits are enough for, and
//! jumps in place of nesting.
use crate::code::*;
use crate::cost;
use crate::interp::binary;
use crate::ir::{self, *};
use crate::table::{layout, match_keys};
use crate::value::Val;
use crate::width::Widths;
use std::collections::HashMap;

type Label = u32;

struct Lower<'p> {
    p: &'p Program,
    widths: Widths,
    c: Code,
    consts: HashMap<u64, Cell>,
    /// Cells given out so far.
    cells: u32,
    /// Temporaries, and how many of them are in use.
    temps: Vec<Cell>,
    used: usize,
    wide_temps: Vec<WideCell>,
    wide_used: usize,
    /// Where each label stands. Jumps name labels until the end; label 0 is none.
    labels: Vec<Pc>,
    procs: Vec<Label>,
    parsers: Vec<Label>,
    /// Where `break` and `continue` go.
    loops: Vec<(Label, Label)>,
    /// Code that runs when a callee exits.
    pending: Vec<(Label, &'p Block)>,
    /// The labels of what was pending.
    around: Vec<Label>,
    /// Where the last label stands: what comes before it and what comes behind it are not one.
    fence: Pc,
    /// Slots that are known not to be zero.
    known: Vec<Slot>,
    /// Where the first `read` of each direct meter puts the color.
    meter_targets: HashMap<usize, Src>,
}

/// Makes the code that runs `p`; `None` when that would take too long.
pub fn lower(p: &Program) -> Option<Code> {
    let widths = Widths::of(p)?;
    let mut wide_cells = 0;
    let wide_of = (0..p.slots).map(|s| {
        if widths.slot(s) <= 64 {
            return NARROW;
        }
        wide_cells += 1;
        wide_cells - 1
    });
    let wide_of: Vec<u32> = wide_of.collect();
    let mut l = Lower {
        p,
        widths,
        c: Code { wide_of, wide_cells: wide_cells as usize, ..Code::default() },
        consts: HashMap::new(),
        cells: p.slots as u32,
        temps: Vec::new(),
        used: 0,
        wide_temps: Vec::new(),
        wide_used: 0,
        labels: vec![0],
        procs: Vec::new(),
        parsers: Vec::new(),
        loops: Vec::new(),
        pending: Vec::new(),
        around: Vec::new(),
        fence: 0,
        known: Vec::new(),
        meter_targets: HashMap::new(),
    };
    l.program();
    Some(l.finish())
}

impl<'p> Lower<'p> {
    fn program(&mut self) {
        let p = self.p;
        self.emit(Ins::Return);
        let number = |name: &str| p.errors.iter().position(|e| e == name).unwrap_or(0) as u32;
        self.c.errors = Errors {
            too_short: number("PacketTooShort"),
            invalid_argument: number("ParserInvalidArgument"),
            header_too_short: number("HeaderTooShort"),
            stack: number("StackOutOfBounds"),
            timeout: number("ParserTimeout"),
        };
        self.c.meter_tables = (0..p.meters.len()).map(|m| p.tables.iter().position(|t| t.meter == Some(m))).collect();
        self.procs = p.procs.iter().map(|_| self.label()).collect();
        self.parsers = p.parsers.iter().map(|_| self.label()).collect();
        for (i, body) in p.procs.iter().enumerate() {
            self.here(self.procs[i]);
            self.block(body);
            self.emit(Ins::Return);
        }
        for (i, x) in p.parsers.iter().enumerate() {
            self.parser(self.parsers[i], x);
        }
        for t in &p.tables {
            let code = self.table(t);
            self.c.tables.push(code);
        }
        while let Some((label, body)) = self.pending.pop() {
            self.around.push(label);
            self.here(label);
            self.block(body);
            self.emit(Ins::Return);
        }
    }

    fn finish(mut self) -> Code {
        let at = |l: &mut Label| *l = self.labels[*l as usize];
        for i in &mut self.c.ins {
            match i {
                Ins::Jump { to }
                | Ins::JumpZero { to, .. }
                | Ins::JumpSet { to, .. }
                | Ins::JumpEq { to, .. }
                | Ins::JumpNe { to, .. }
                | Ins::JumpLt { to, .. }
                | Ins::JumpLe { to, .. } => at(to),
                Ins::Call { to, after, .. } => {
                    at(to);
                    at(after);
                }
                Ins::LoopStep { cost } => at(cost),
                _ => {}
            }
        }
        for a in self.c.tables.iter_mut().flat_map(|t| &mut t.actions) {
            at(&mut a.before);
            at(&mut a.to);
            at(&mut a.after);
        }
        self.c.procs = self.procs.iter().map(|l| self.labels[*l as usize]).collect();
        self.c.parsers = self.parsers.iter().map(|l| self.labels[*l as usize]).collect();
        let after = self.around.iter().map(|l| self.labels[*l as usize]);
        let starts = self.c.procs.iter().chain(&self.c.parsers).copied().chain(after).collect();
        cost::fill(&mut self.c, starts);
        self.c.frame = vec![0; self.cells as usize];
        for (v, cell) in &self.consts {
            self.c.frame[*cell as usize] = *v;
        }
        self.c
    }

    fn emit(&mut self, i: Ins) {
        if let (Ins::Move { d, a }, true) = (i, self.fence < self.c.ins.len() as Pc) {
            // Neighbours that move to neighbours are one.
            match self.c.ins.last_mut() {
                Some(Ins::Moves { d: x, a: y, n }) if *x + *n == d && *y + *n == a => {
                    *n += 1;
                    return;
                }
                Some(last @ Ins::Move { .. }) => {
                    if let Ins::Move { d: x, a: y } = *last
                        && x + 1 == d
                        && y + 1 == a
                    {
                        *last = Ins::Moves { d: x, a: y, n: 2 };
                        return;
                    }
                }
                _ => {}
            }
        }
        self.c.ins.push(i);
    }

    fn label(&mut self) -> Label {
        self.labels.push(0);
        (self.labels.len() - 1) as Label
    }

    fn here(&mut self, l: Label) {
        self.labels[l as usize] = self.c.ins.len() as Pc;
        self.fence = self.c.ins.len() as Pc;
    }

    fn constant(&mut self, v: u64) -> Cell {
        let next = self.cells;
        let cell = *self.consts.entry(v).or_insert(next);
        self.cells += u32::from(cell == next);
        cell
    }

    fn temp(&mut self) -> Cell {
        if self.used == self.temps.len() {
            self.temps.push(self.cells);
            self.cells += 1;
        }
        self.used += 1;
        self.temps[self.used - 1]
    }

    fn wide_temp(&mut self) -> WideCell {
        if self.wide_used == self.wide_temps.len() {
            self.wide_temps.push(self.c.wide_cells as u32);
            self.c.wide_cells += 1;
        }
        self.wide_used += 1;
        self.wide_temps[self.wide_used - 1]
    }

    fn wide_of(&self, s: Slot) -> u32 {
        self.c.wide_of.get(s).copied().unwrap_or(NARROW)
    }

    fn is_wide(&self, a: &Addr) -> bool {
        // Behind run-time indices all are of one kind.
        self.wide_of(a.base) != NARROW
    }

    fn addr(&mut self, a: &Addr) -> u32 {
        self.c.addrs.push(AddrCode { base: a.base as Cell, dyns: a.dyns.clone() });
        (self.c.addrs.len() - 1) as u32
    }

    /// Whether 64 bits are enough for the value and all that it is made from.
    fn narrow(&self, e: &Ex) -> bool {
        match e {
            Ex::Const(v) => v.bits() <= 64,
            Ex::Load(s) => self.wide_of(*s) == NARROW,
            Ex::LoadAt(a) => !self.is_wide(a),
            Ex::Bin(op, w, ab) => {
                let small = matches!(
                    op,
                    Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Shr | Op::Div | Op::Mod
                );
                (*w <= 64 || small) && self.narrow(&ab.0) && self.narrow(&ab.1)
            }
            Ex::BitNot(w, x) | Ex::Neg(w, x) => *w <= 64 && self.narrow(x),
            Ex::Not(x) | Ex::Slice(x, ..) => self.narrow(x),
            Ex::LAnd(ab) | Ex::LOr(ab) => self.narrow(&ab.0) && self.narrow(&ab.1),
            Ex::Concat(ab, _) => self.widths.ex(e) <= 64 && self.narrow(&ab.0) && self.narrow(&ab.1),
            Ex::SignExtend(x, _, to) => *to <= 64 && self.narrow(x),
            Ex::Cond(c) => self.narrow(&c.0) && self.narrow(&c.1) && self.narrow(&c.2),
        }
    }

    /// Computes a value of at most 64 bits; gives the cell that holds it, which is `d` where one is named.
    fn ex(&mut self, e: &Ex, d: Option<Cell>) -> Cell {
        let e = &fold(e);
        let held = match e {
            Ex::Const(v) if v.bits() <= 64 => Some(self.constant(v.low() as u64)),
            Ex::Load(s) if self.wide_of(*s) == NARROW => Some(*s as Cell),
            // Bits that are never set need no cutting off.
            Ex::Slice(x, 0, w) if self.widths.ex(x) <= *w && self.narrow(x) => return self.ex(x, d),
            // Types of no bits hold zero.
            e if self.widths.ex(e) == 0 => Some(self.constant(0)),
            _ => None,
        };
        if let Some(a) = held {
            if let Some(d) = d {
                self.emit(Ins::Move { d, a });
            }
            return d.unwrap_or(a);
        }
        let d = d.unwrap_or_else(|| self.temp());
        if !self.narrow(e) {
            let e = match e {
                // Taking the low 64 bits is what the instruction does.
                Ex::Slice(x, 0, 64) => self.wide_ex(x),
                e => self.wide_ex(e),
            };
            self.emit(Ins::EvalLow { d, e });
            return d;
        }
        let cut = |w: u32| (64 - w.clamp(1, 64)) as u8;
        let i = match e {
            Ex::Const(_) | Ex::Load(_) => return d,
            Ex::LoadAt(a) => Ins::LoadAt { d, at: self.addr(a) },
            Ex::Bin(Op::Shl, w, ab) if matches!(&ab.1, Ex::Const(_)) => {
                let n = constant(&ab.1);
                if n >= (*w).min(64) as u128 {
                    let a = self.constant(0);
                    Ins::Move { d, a }
                } else {
                    let a = self.ex(&ab.0, None);
                    Ins::ShlBy { d, a, by: n as u8, sh: cut(*w) }
                }
            }
            Ex::Bin(Op::Shr, _, ab) if matches!(&ab.1, Ex::Const(_)) => {
                let n = constant(&ab.1);
                if n >= 64 {
                    let a = self.constant(0);
                    Ins::Move { d, a }
                } else {
                    let a = self.ex(&ab.0, None);
                    Ins::Slice { d, a, lo: n as u8, sh: 0 }
                }
            }
            Ex::Bin(op, w, ab) => {
                let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
                let sh = cut(*w);
                match op {
                    Op::Add => Ins::Add { d, a, b, sh },
                    Op::Sub => Ins::Sub { d, a, b, sh },
                    Op::Mul => Ins::Mul { d, a, b, sh },
                    Op::Div => Ins::Div { d, a, b },
                    Op::Mod => Ins::Mod { d, a, b },
                    Op::AddSat => Ins::AddSat { d, a, b, sh },
                    Op::SubSat => Ins::SubSat { d, a, b },
                    Op::AddSatS => Ins::AddSatS { d, a, b, sh },
                    Op::SubSatS => Ins::SubSatS { d, a, b, sh },
                    Op::Shl => Ins::Shl { d, a, b, sh },
                    Op::Shr => Ins::Shr { d, a, b },
                    Op::Sar => Ins::Sar { d, a, b, sh },
                    Op::And => Ins::And { d, a, b },
                    Op::Or => Ins::Or { d, a, b },
                    Op::Xor => Ins::Xor { d, a, b },
                    Op::Eq => Ins::Eq { d, a, b },
                    Op::Ne => Ins::Ne { d, a, b },
                    Op::Lt => Ins::Lt { d, a, b },
                    Op::Le => Ins::Le { d, a, b },
                    Op::LtS => Ins::LtS { d, a, b, sh },
                    Op::LeS => Ins::LeS { d, a, b, sh },
                }
            }
            Ex::BitNot(w, x) => Ins::BitNot { d, a: self.ex(x, None), sh: cut(*w) },
            Ex::Neg(w, x) => {
                let (a, b) = (self.constant(0), self.ex(x, None));
                Ins::Sub { d, a, b, sh: cut(*w) }
            }
            Ex::Not(x) => Ins::Not { d, a: self.ex(x, None) },
            Ex::LAnd(ab) => {
                let (a, b) = (self.truth(&ab.0), self.truth(&ab.1));
                Ins::And { d, a, b }
            }
            Ex::LOr(ab) => {
                let (a, b) = (self.truth(&ab.0), self.truth(&ab.1));
                Ins::Or { d, a, b }
            }
            Ex::Slice(x, lo, w) => {
                let a = self.ex(x, None);
                match (lo, w) {
                    (64.., _) | (_, 0) => Ins::Move { d, a: self.constant(0) },
                    _ => Ins::Slice { d, a, lo: *lo as u8, sh: cut(*w) },
                }
            }
            Ex::Concat(ab, w) => {
                let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
                if *w >= 64 {
                    // Only a left side that is always zero fits 64 bits here.
                    Ins::Move { d, a: b }
                } else {
                    Ins::Concat { d, a, b, by: *w as u8 }
                }
            }
            Ex::SignExtend(x, from, to) => {
                let a = self.ex(x, None);
                if to <= from {
                    Ins::Slice { d, a, lo: 0, sh: cut(*to) }
                } else {
                    Ins::SignExtend { d, a, from: cut(*from), sh: cut(*to) }
                }
            }
            Ex::Cond(c) if matches!(&c.0, Ex::Load(s) if self.known.contains(s)) => {
                return self.ex(&c.1, Some(d));
            }
            Ex::Cond(c) if matches!(&c.2, Ex::Const(v) if v.is_zero()) => {
                let (b, a) = (self.ex(&c.0, None), self.ex(&c.1, None));
                Ins::IfSet { d, a, b }
            }
            Ex::Cond(c) => {
                let (no, end) = (self.label(), self.label());
                self.jump(&c.0, no, false);
                self.ex(&c.1, Some(d));
                self.emit(Ins::Jump { to: end });
                self.here(no);
                self.ex(&c.2, Some(d));
                self.here(end);
                return d;
            }
        };
        self.emit(i);
        d
    }

    /// A condition as 0 or 1.
    fn truth(&mut self, e: &Ex) -> Cell {
        let a = self.ex(e, None);
        if self.widths.ex(e) <= 1 {
            return a;
        }
        let (d, b) = (self.temp(), self.constant(0));
        self.emit(Ins::Ne { d, a, b });
        d
    }

    /// Jumps when the condition is as said.
    fn jump(&mut self, e: &Ex, to: Label, when: bool) {
        let e = &fold(e);
        match e {
            Ex::Const(v) => {
                if v.is_zero() != when {
                    self.emit(Ins::Jump { to });
                }
            }
            Ex::Not(x) => self.jump(x, to, !when),
            Ex::LAnd(ab) | Ex::LOr(ab) => {
                // Whether one side alone decides for jumping.
                if matches!(e, Ex::LOr(_)) == when {
                    self.jump(&ab.0, to, when);
                    self.jump(&ab.1, to, when);
                } else {
                    let skip = self.label();
                    self.jump(&ab.0, skip, !when);
                    self.jump(&ab.1, to, when);
                    self.here(skip);
                }
            }
            Ex::Bin(op @ (Op::Eq | Op::Ne | Op::Lt | Op::Le), _, ab) if self.narrow(e) => {
                let (a, b) = (self.ex(&ab.0, None), self.ex(&ab.1, None));
                self.emit(match (op, when) {
                    (Op::Eq, true) | (Op::Ne, false) => Ins::JumpEq { a, b, to },
                    (Op::Eq, false) | (Op::Ne, true) => Ins::JumpNe { a, b, to },
                    (Op::Lt, true) => Ins::JumpLt { a, b, to },
                    (Op::Lt, false) => Ins::JumpLe { a: b, b: a, to },
                    (_, true) => Ins::JumpLe { a, b, to },
                    (_, false) => Ins::JumpLt { a: b, b: a, to },
                });
            }
            _ => {
                let a = self.ex(e, None);
                self.emit(if when { Ins::JumpSet { a, to } } else { Ins::JumpZero { a, to } });
            }
        }
    }

    fn wide(&mut self, e: &Ex) -> Wide {
        let pair = |l: &mut Self, ab: &(Ex, Ex)| Box::new((l.wide(&ab.0), l.wide(&ab.1)));
        let e = &fold(e);
        match e {
            Ex::Const(v) => Wide::Const(v.clone()),
            e if self.narrow(e) => Wide::N(self.ex(e, None)),
            Ex::Load(s) => Wide::W(self.wide_of(*s)),
            Ex::LoadAt(a) => Wide::At(self.addr(a)),
            Ex::Bin(op, w, ab) => Wide::Bin(*op, *w, pair(self, ab)),
            Ex::BitNot(w, x) => Wide::BitNot(*w, Box::new(self.wide(x))),
            Ex::Neg(w, x) => Wide::Neg(*w, Box::new(self.wide(x))),
            Ex::Not(x) => Wide::Not(Box::new(self.wide(x))),
            Ex::LAnd(ab) => Wide::LAnd(pair(self, ab)),
            Ex::LOr(ab) => Wide::LOr(pair(self, ab)),
            Ex::Slice(x, lo, w) => Wide::Slice(Box::new(self.wide(x)), *lo, *w),
            Ex::Concat(ab, w) => Wide::Concat(pair(self, ab), *w),
            Ex::SignExtend(x, from, to) => Wide::SignExtend(Box::new(self.wide(x)), *from, *to),
            Ex::Cond(c) => Wide::Cond(Box::new((self.wide(&c.0), self.wide(&c.1), self.wide(&c.2)))),
        }
    }

    fn wide_ex(&mut self, e: &Ex) -> u32 {
        let e = self.wide(e);
        self.c.wides.push(e);
        (self.c.wides.len() - 1) as u32
    }

    /// A value for an instruction that takes either kind.
    fn src(&mut self, e: &Ex) -> Src {
        if self.widths.ex(e) <= 64 {
            return Src::N(self.ex(e, None));
        }
        if let Ex::Load(s) = e {
            return Src::W(self.wide_of(*s));
        }
        let (d, e) = (self.wide_temp(), self.wide_ex(e));
        self.emit(Ins::EvalWide { d, e });
        Src::W(d)
    }

    /// A value that counts something: 2^64 - 1 stands for all that is larger.
    fn index(&mut self, e: &Ex) -> Cell {
        if self.widths.ex(e) <= 64 {
            return self.ex(e, None);
        }
        let (d, e) = (self.temp(), self.wide_ex(e));
        self.emit(Ins::EvalIndex { d, e });
        d
    }

    fn set(&mut self, s: Slot, e: &Ex) {
        let d = self.wide_of(s);
        if d == NARROW {
            self.ex(e, Some(s as Cell));
            return;
        }
        if self.widths.ex(e) <= 64 {
            let a = self.ex(e, None);
            self.emit(Ins::ToWide { d, a });
        } else if let Ex::Load(s) = e {
            self.emit(Ins::MoveWide { d, a: self.wide_of(*s) });
        } else {
            let e = self.wide_ex(e);
            self.emit(Ins::EvalWide { d, e });
        }
    }

    fn put(&mut self, a: &Addr, e: &Ex) {
        if a.dyns.is_empty() {
            return self.set(a.base, e);
        }
        let v = self.src(e);
        self.store(a, v);
    }

    fn store(&mut self, a: &Addr, v: Src) {
        let at = self.addr(a);
        match (v, self.is_wide(a)) {
            (Src::N(a), false) => self.emit(Ins::StoreAt { at, a }),
            (Src::W(a), _) => self.emit(Ins::StoreWideAt { at, a }),
            (Src::N(a), true) => {
                let d = self.wide_temp();
                self.emit(Ins::ToWide { d, a });
                self.emit(Ins::StoreWideAt { at, a: d });
            }
        }
    }

    /// Lets an instruction that may leave its result alone write to an address.
    fn write(&mut self, a: &Addr, make: impl FnOnce(Cell) -> Ins) {
        if a.dyns.is_empty() && !self.is_wide(a) {
            return self.emit(make(a.base as Cell));
        }
        let d = self.ex(&load(a), None);
        let t = self.temp();
        self.emit(Ins::Move { d: t, a: d });
        self.emit(make(t));
        self.put(a, &Ex::Load(t as Slot));
    }

    fn put_wide(&mut self, a: &Addr, make: impl FnOnce(WideCell) -> Ins) {
        if a.dyns.is_empty() {
            return self.emit(make(self.wide_of(a.base)));
        }
        let (d, at) = (self.wide_temp(), self.addr(a));
        self.emit(Ins::LoadWideAt { d, at });
        self.emit(make(d));
        self.emit(Ins::StoreWideAt { at, a: d });
    }

    fn data(&mut self, fields: &[(Ex, u32, Option<Ex>)]) -> Data {
        let mut data = Data::new();
        for (e, w, length) in fields {
            // Fields of a header that is not valid have no length.
            let length = match length {
                Some(Ex::Cond(c)) if matches!(&c.0, Ex::Load(s) if self.known.contains(s)) => Some(&c.1),
                length => length.as_ref(),
            };
            let v = self.src(e);
            let length = match length {
                Some(Ex::Const(v)) if v.low() == u128::from(*w) => None,
                length => length.map(|n| self.index(n)),
            };
            data.push((v, *w, length));
        }
        data
    }

    fn block(&mut self, code: &'p Block) {
        for s in code {
            let (used, wide) = (self.used, self.wide_used);
            self.step(s);
            (self.used, self.wide_used) = (used, wide);
        }
    }

    fn call(&mut self, before: &'p Block, to: Label, after: &'p Block) {
        self.block(before);
        let exit = if after.is_empty() { 0 } else { self.label() };
        if exit != 0 {
            self.pending.push((exit, after));
        }
        self.emit(Ins::Call { to, after: exit, cost: 0 });
        self.block(after);
    }

    fn step(&mut self, s: &'p St) {
        match s {
            St::Set(slot, e) => self.set(*slot, e),
            St::SetAt(a, e) => self.put(a, e),
            St::Copy(from, to, n) => self.copy(from, to, *n),
            St::Zero(at, n) => {
                let zero = self.constant(0);
                self.emit(match n {
                    1 => Ins::Move { d: *at as Cell, a: zero },
                    _ => Ins::Zero { d: *at as Cell, n: *n as u32 },
                });
                for s in *at..at + n {
                    if self.wide_of(s) != NARROW {
                        self.emit(Ins::ToWide { d: self.wide_of(s), a: zero });
                    }
                }
            }
            St::If(c, yes, no) => {
                let (other, end) = (self.label(), self.label());
                self.jump(c, other, false);
                self.block(yes);
                if !no.is_empty() {
                    self.emit(Ins::Jump { to: end });
                }
                self.here(other);
                self.block(no);
                self.here(end);
            }
            St::Switch(key, cases, bodies, default) => {
                let key = self.again(key);
                let labels: Vec<Label> = bodies.iter().map(|_| self.label()).collect();
                let end = self.label();
                for c in cases {
                    for v in &c.values {
                        self.jump(&bin(Op::Eq, 0, key.clone(), v.clone()), labels[c.body], true);
                    }
                }
                self.emit(Ins::Jump { to: default.map_or(end, |i| labels[i]) });
                for (l, b) in labels.iter().zip(bodies) {
                    self.here(*l);
                    self.block(b);
                    self.emit(Ins::Jump { to: end });
                }
                self.here(end);
            }
            St::Group(b) => self.block(b),
            St::Call(before, body, after) => self.call(before, self.procs[*body], after),
            St::CallParser(before, id, after) => self.call(before, self.parsers[*id], after),
            St::Loop(pre, cond, body, update) => {
                let (start, next, end) = (self.label(), self.label(), self.label());
                self.here(start);
                self.block(pre);
                if let Some(c) = cond {
                    self.jump(c, end, false);
                }
                self.emit(Ins::LoopStep { cost: end });
                self.loops.push((end, next));
                self.block(body);
                self.loops.pop();
                self.here(next);
                self.block(update);
                self.emit(Ins::Jump { to: start });
                self.here(end);
            }
            St::Return => self.emit(Ins::Return),
            St::Exit => self.emit(Ins::Exit),
            // The checker lets these stand in loops only.
            St::Break | St::Continue => {
                if let Some((end, next)) = self.loops.last().copied() {
                    self.emit(Ins::Jump { to: if matches!(s, St::Break) { end } else { next } });
                }
            }
            St::Apply(t) => {
                let p = self.p;
                self.block(&p.tables[*t].before);
                self.emit(Ins::Apply { table: *t as u32 });
            }
            St::SetValid(h, valid) => {
                let header = self.header(h, None);
                self.emit(Ins::SetValid { header, valid: *valid });
            }
            St::OnlyMember(h) => {
                let header = self.header(h, None);
                self.emit(Ins::OnlyMemberAt { header });
            }
            St::Extract(h, size, next) => {
                let header = self.header(h, next.as_ref().map(|n| &n.0));
                let size = match size {
                    Some(e) => self.index(e),
                    None => self.constant(0),
                };
                self.emit(Ins::Extract { header, size });
            }
            St::Lookahead(base, fields, bits, valid) => {
                let fields: Vec<(u32, u32)> = fields.iter().map(|(o, w)| (*o as u32, *w)).collect();
                let valid = valid.iter().map(|v| *v as Cell).collect();
                let header = HeaderCode {
                    at: None,
                    base: *base as Cell,
                    fixed_bits: *bits,
                    reads: plan_in(&fields),
                    writes: Vec::new(),
                    fields,
                    varbit: None,
                    siblings: Vec::new(),
                    next: None,
                    valid,
                };
                self.c.headers.push(header);
                self.emit(Ins::Lookahead { header: (self.c.headers.len() - 1) as u32 });
            }
            St::Advance(e) => {
                let a = self.index(e);
                self.emit(Ins::Advance { a });
            }
            St::PacketLength(slot) => self.write(&Addr { base: *slot, dyns: Vec::new() }, |d| Ins::PacketLength { d }),
            St::Verify(c, e) => {
                let fine = self.label();
                self.jump(c, fine, true);
                let a = self.index(e);
                self.emit(Ins::FailWith { a });
                self.here(fine);
            }
            St::CheckIndex(a) => {
                let at = self.addr(a);
                self.emit(Ins::CheckIndex { at });
            }
            St::Emit(h) => {
                let header = self.header(h, None);
                self.emit(Ins::Emit { header });
            }
            St::PushFront(a, each, len, by) => self.shift(a, *each, *len, *by, true),
            St::PopFront(a, each, len, by) => self.shift(a, *each, *len, *by, false),
            St::RegisterRead(r, to, i) => {
                let (i, r, wide) = (self.index(i), *r as u32, self.p.registers[*r].width > 64);
                if wide {
                    self.put_wide(to, |d| Ins::RegisterReadWide { r, i, d });
                } else {
                    self.write(to, |d| Ins::RegisterRead { r, i, d });
                }
            }
            St::RegisterWrite(r, i, v) => {
                let (i, v) = (self.index(i), self.src(v));
                let (r, wide) = (*r as u32, self.p.registers[*r].width > 64);
                match (v, wide) {
                    (Src::N(a), false) => self.emit(Ins::RegisterWrite { r, i, a }),
                    (Src::N(a), true) => {
                        let d = self.wide_temp();
                        self.emit(Ins::ToWide { d, a });
                        self.emit(Ins::RegisterWriteWide { r, i, a: d });
                    }
                    (Src::W(a), _) => self.emit(Ins::RegisterWriteWide { r, i, a }),
                }
            }
            St::Count(c, i) => {
                let i = self.index(i);
                self.emit(Ins::Count { c: *c as u32, i });
            }
            St::Meter(m, i, to) => {
                let (i, m) = (self.index(i), *m as u32);
                self.write(to, |d| Ins::Meter { m, i, d });
            }
            St::DirectMeter(m, to) => {
                if to.dyns.is_empty() {
                    let place = self.place(to.base);
                    self.meter_targets.entry(*m).or_insert(place);
                }
                let m = *m as u32;
                self.write(to, |d| Ins::DirectMeter { m, d });
            }
            St::Random(to, low, high, w) => {
                if *w <= 64 && self.narrow(low) && self.narrow(high) {
                    let (a, b) = (self.ex(low, None), self.ex(high, None));
                    self.write(to, |d| Ins::Random { d, a, b });
                } else {
                    let (low, high) = (self.wide(low), self.wide(high));
                    self.c.randoms.push(RandomCode { low, high, width: *w });
                    let random = (self.c.randoms.len() - 1) as u32;
                    let d = self.wide_temp();
                    self.emit(Ins::RandomWide { d, random });
                    self.c.wides.push(Wide::W(d));
                    let (e, t) = ((self.c.wides.len() - 1) as u32, self.temp());
                    if self.is_wide(to) {
                        match to.dyns.is_empty() {
                            true => self.emit(Ins::MoveWide { d: self.wide_of(to.base), a: d }),
                            false => self.store(to, Src::W(d)),
                        }
                    } else {
                        self.emit(Ins::EvalLow { d: t, e });
                        self.put(to, &Ex::Load(t as Slot));
                    }
                }
            }
            St::Hash(to, w, algo, base, data, max) => {
                let h = self.hash(*algo, data, Rest::Nothing);
                // Modulo zero is zero: a range of nothing leaves the base.
                let offset = bin(Op::Mod, 64, h, max.clone());
                self.put(to, &bin(Op::Add, *w, base.clone(), offset));
            }
            St::VerifyChecksum(c, data, sum, w, algo, payload) => {
                let end = self.label();
                self.jump(c, end, false);
                self.known = nonzero(c);
                let h = self.hash(*algo, data, if *payload { Rest::Unread } else { Rest::Nothing });
                self.known.clear();
                self.jump(&bin(Op::Eq, 0, Ex::Slice(Box::new(h), 0, *w), sum.clone()), end, true);
                self.emit(Ins::ChecksumError);
                self.here(end);
            }
            St::UpdateChecksum(c, data, to, w, algo, payload) => {
                let end = self.label();
                self.jump(c, end, false);
                self.known = nonzero(c);
                let h = self.hash(*algo, data, if *payload { Rest::Payload } else { Rest::Nothing });
                self.known.clear();
                self.put(to, &Ex::Slice(Box::new(h), 0, *w));
                self.here(end);
            }
            St::Digest(id, receiver, data) => {
                let receiver = self.index(receiver);
                let values = data.iter().map(|(e, ..)| self.src(e)).collect();
                self.c.digests.push(DigestCode { digest: *id, receiver, values });
                self.emit(Ins::Digest { digest: (self.c.digests.len() - 1) as u32 });
            }
            St::Clone(_, session, list) => {
                let (session, list) = (self.index(session), self.list(list));
                self.emit(Ins::Clone { session, list });
            }
            St::Resubmit(list) => {
                let list = self.list(list);
                self.emit(Ins::Resubmit { list });
            }
            St::Recirculate(list) => {
                let list = self.list(list);
                self.emit(Ins::Recirculate { list });
            }
            St::DropPort(to) => self.write(to, |d| Ins::DropPort { d }),
            St::Truncate(n) => {
                let a = self.index(n);
                self.emit(Ins::Truncate { a });
            }
            St::Assert(c, text) => {
                let fine = self.label();
                self.jump(c, fine, true);
                self.c.texts.push(format!("failed: {text}"));
                self.emit(Ins::AssertFailed { text: (self.c.texts.len() - 1) as u32 });
                self.here(fine);
            }
            St::Log(text, data) => {
                let data = data.iter().map(|(e, w, signed)| (self.src(e), *w, *signed)).collect();
                self.c.logs.push(LogCode { text: text.clone(), data });
                self.emit(Ins::Log { text: (self.c.logs.len() - 1) as u32 });
            }
        }
    }

    /// An expression that can be used more than once at no cost.
    fn again(&mut self, e: &Ex) -> Ex {
        match fold(e) {
            e @ (Ex::Const(_) | Ex::Load(_)) => e,
            e if self.widths.ex(&e) <= 64 => Ex::Load(self.ex(&e, None) as Slot),
            e => e,
        }
    }

    fn list(&mut self, e: &Option<Ex>) -> Cell {
        e.as_ref().map_or(NARROW, |e| self.index(e))
    }

    fn hash(&mut self, algo: HashAlgo, data: &Fields, rest: Rest) -> Ex {
        let mut data = self.data(data);
        let (mut placed, mut placed_bits, mut n) = (Vec::new(), 0, 0);
        if algo == HashAlgo::Csum16 {
            for (v, w, length) in &data {
                let end = placed_bits + w;
                let left = (16 - end % 16) % 16;
                match (v, length) {
                    (Src::N(c), None) if w + left <= 64 => placed.push((*c, left as u8)),
                    _ => break,
                }
                placed_bits = end;
                n += 1;
            }
        }
        data.drain(..n);
        self.c.hashes.push(HashCode { algo, placed, placed_bits, data, rest });
        let (d, hash) = (self.temp(), (self.c.hashes.len() - 1) as u32);
        self.emit(Ins::Hash { d, hash });
        Ex::Load(d as Slot)
    }

    fn copy(&mut self, from: &Addr, to: &Addr, n: usize) {
        let offset_wide = |l: &Self, a: &Addr, i: usize| l.wide_of(a.base + i);
        let wide: Vec<usize> = (0..n).filter(|i| offset_wide(self, to, *i) != NARROW).collect();
        if !from.dyns.is_empty() || !to.dyns.is_empty() {
            let (from, to) = (self.addr(from), self.addr(to));
            self.c.copies.push(CopyCode { from, to, n, wide });
            self.emit(Ins::CopyAt { copy: (self.c.copies.len() - 1) as u32 });
            return;
        }
        // Wide ones first: they may come from narrow cells that the copy below overwrites.
        let order: Box<dyn Iterator<Item = &usize>> =
            if from.base < to.base { Box::new(wide.iter().rev()) } else { Box::new(wide.iter()) };
        for i in order {
            self.set(to.base + i, &Ex::Load(from.base + i));
        }
        if wide.len() < n {
            self.emit(match n {
                1 => Ins::Move { d: to.base as Cell, a: from.base as Cell },
                _ => Ins::Copy { d: to.base as Cell, a: from.base as Cell, n: n as u32 },
            });
        }
    }

    fn shift(&mut self, a: &Addr, each: usize, len: usize, by: usize, push: bool) {
        let first = a.base + 1;
        let wide = (0..each).filter(|o| self.wide_of(first + o) != NARROW).collect();
        let at = self.addr(a);
        self.c.stacks.push(StackCode { at, each, len, by: by.min(len), push, wide });
        self.emit(Ins::Shift { stack: (self.c.stacks.len() - 1) as u32 });
    }

    fn header(&mut self, h: &HeaderRef, next: Option<&Addr>) -> u32 {
        let l = &h.layout;
        let fields: Vec<(u32, u32)> = l.fields.iter().map(|(o, w)| (*o as u32, *w)).collect();
        let at = if h.addr.dyns.is_empty() { None } else { Some(self.addr(&h.addr)) };
        let (reads, writes) =
            if l.varbit.is_some() { Default::default() } else { (plan_in(&fields), plan_out(&fields)) };
        let siblings = h.siblings.iter().map(|s| self.addr(s)).collect();
        let next = next.map(|n| self.addr(n));
        let (base, fixed_bits, varbit) = (h.addr.base as Cell, l.fixed_bits, l.varbit);
        let valid = Vec::new();
        self.c.headers.push(HeaderCode { at, base, fixed_bits, fields, varbit, reads, writes, siblings, next, valid });
        (self.c.headers.len() - 1) as u32
    }

    fn parser(&mut self, start: Label, x: &'p ir::Parser) {
        let labels: Vec<Label> = x.states.iter().map(|_| self.label()).collect();
        self.here(start);
        self.emit(Ins::Jump { to: labels[x.start] });
        for ((_, code, next), l) in x.states.iter().zip(&labels) {
            self.here(*l);
            self.emit(Ins::ParserStep { cost: 0 });
            self.block(code);
            let (accept, reject) = (self.label(), self.label());
            let go = |t: &Target| match t {
                Target::State(i) => labels[*i],
                Target::Accept => accept,
                Target::Reject => reject,
            };
            match next {
                Next::State(i) => self.emit(Ins::Jump { to: labels[*i] }),
                Next::Accept => self.emit(Ins::Jump { to: accept }),
                Next::Reject => self.emit(Ins::Jump { to: reject }),
                Next::Select(keys, cases) => {
                    let (used, wide) = (self.used, self.wide_used);
                    let keys: Vec<Ex> = keys.iter().map(|k| self.again(k)).collect();
                    for (pats, target) in cases {
                        self.case(&keys, pats, go(target));
                    }
                    (self.used, self.wide_used) = (used, wide);
                    // BMv2 rejects without saying why; P4_16 would have error.NoMatch.
                    self.emit(Ins::Fail { error: 0 });
                }
            }
            self.here(accept);
            self.emit(Ins::Return);
            self.here(reject);
            self.emit(Ins::Reject);
        }
    }

    fn case(&mut self, keys: &[Ex], pats: &[Pat], to: Label) {
        let (used, wide) = (self.used, self.wide_used);
        if let [Pat::ValueSet(id, _)] = pats {
            let values = keys.iter().map(|k| self.src(k)).collect();
            self.c.sets.push((*id, values));
            let (d, set) = (self.temp(), (self.c.sets.len() - 1) as u32);
            self.emit(Ins::InValueSet { d, set });
            self.emit(Ins::JumpSet { a: d, to });
        } else {
            let and = |a: &Ex, b: &Ex| bin(Op::And, 0, a.clone(), b.clone());
            let both = |a: Ex, b: Ex| Ex::LAnd(Box::new((a, b)));
            let tests = pats.iter().zip(keys).filter_map(|(p, k)| match p {
                Pat::Any => None,
                Pat::Value(e) => Some(bin(Op::Eq, 0, k.clone(), e.clone())),
                Pat::Mask(e, m) => Some(bin(Op::Eq, 0, and(k, m), and(e, m))),
                Pat::Range(a, b) => {
                    Some(both(bin(Op::Le, 0, a.clone(), k.clone()), bin(Op::Le, 0, k.clone(), b.clone())))
                }
                Pat::RangeS(a, b, w) => {
                    Some(both(bin(Op::LeS, *w, a.clone(), k.clone()), bin(Op::LeS, *w, k.clone(), b.clone())))
                }
                Pat::ValueSet(..) => Some(Ex::Const(Val::S(0))),
            });
            let all = tests.reduce(both).unwrap_or(Ex::Const(Val::S(1)));
            self.jump(&all, to, true);
        }
        (self.used, self.wide_used) = (used, wide);
    }

    fn table(&mut self, t: &'p Table) -> TableCode {
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
                l.pending.push((label, b));
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
            hit: t.hit as Cell,
            action_run: t.action_run as Cell,
        }
    }

    fn place(&self, s: Slot) -> Src {
        match self.wide_of(s) {
            NARROW => Src::N(s as Cell),
            w => Src::W(w),
        }
    }

    fn key(&mut self, e: &Ex) -> Src {
        let n = self.c.ins.len();
        let v = self.src(e);
        assert_eq!(n, self.c.ins.len(), "a table's key is a slot or a constant");
        v
    }
}

/// Slots that cannot be zero where the condition is true.
fn nonzero(e: &Ex) -> Vec<Slot> {
    match e {
        Ex::Load(s) => vec![*s],
        Ex::LAnd(ab) => [nonzero(&ab.0), nonzero(&ab.1)].concat(),
        _ => Vec::new(),
    }
}

/// The low bits of a sum, difference, product or bitwise combination need only the low bits of what it is made from.
fn low(e: Ex) -> Ex {
    let low_of = |e: &Ex| low(Ex::Slice(Box::new(e.clone()), 0, 64));
    let Ex::Slice(x, 0, w @ 1..=64) = &e else { return e };
    let inner = match &**x {
        Ex::Bin(op @ (Op::Add | Op::Sub | Op::Mul | Op::And | Op::Or | Op::Xor), 65.., ab) => {
            bin(*op, 64, low_of(&ab.0), low_of(&ab.1))
        }
        _ => return e,
    };
    Ex::Slice(Box::new(inner), 0, *w)
}

fn bin(op: Op, w: u32, a: Ex, b: Ex) -> Ex {
    Ex::Bin(op, w, Box::new((a, b)))
}

fn load(a: &Addr) -> Ex {
    if a.dyns.is_empty() { Ex::Load(a.base) } else { Ex::LoadAt(Box::new(a.clone())) }
}

/// A constant's value; what needs more than 127 bits is only ever compared with small numbers.
fn constant(e: &Ex) -> u128 {
    match e {
        Ex::Const(Val::S(v)) => *v,
        _ => u128::MAX,
    }
}

/// Computes at once what is constant at the top of an expression.
fn fold(e: &Ex) -> Ex {
    match e {
        Ex::Bin(op, w, ab) => match (fold(&ab.0), fold(&ab.1)) {
            (Ex::Const(x), Ex::Const(y)) => Ex::Const(binary(*op, *w, x, y)),
            ab => Ex::Bin(*op, *w, Box::new(ab)),
        },
        Ex::Slice(x, lo, w) => match fold(x) {
            Ex::Const(v) => Ex::Const(v.shr(*lo as usize).mask(*w)),
            x => low(Ex::Slice(Box::new(x), *lo, *w)),
        },
        e => e.clone(),
    }
}

/// Plans for a header that starts at a whole byte: each field from the eight bytes around it, where it fits them.
fn plan_in(fields: &[(u32, u32)]) -> Vec<FieldIn> {
    let bits: u32 = fields.iter().map(|f| f.1).sum();
    let bytes = bits.div_ceil(8);
    let mut at = 0;
    let mut plan = Vec::new();
    for (offset, w) in fields {
        let window = (at / 8).min(bytes.saturating_sub(8));
        let end = at + w - 8 * window;
        let fast = (1..=64).contains(w) && end <= 64 && window <= u16::MAX as u32;
        plan.push(match fast {
            true => FieldIn::Fast { offset: *offset, at: window as u16, right: (64 - end) as u8, sh: (64 - w) as u8 },
            false => FieldIn::Slow { offset: *offset, at, width: *w },
        });
        at += w;
    }
    plan
}

/// Groups fields to at most eight whole bytes that are written at once; nothing when they do not fall into such groups.
fn plan_out(fields: &[(u32, u32)]) -> Vec<FieldOut> {
    let mut plan = Vec::new();
    let mut group: Vec<(u32, u32)> = Vec::new();
    let close = |group: &mut Vec<(u32, u32)>, plan: &mut Vec<FieldOut>| {
        let mut left: u32 = group.iter().map(|f| f.1).sum();
        let bytes = left / 8;
        if !left.is_multiple_of(8) {
            return false;
        }
        for (offset, w) in group.drain(..) {
            left -= w;
            plan.push(FieldOut::Or { offset, left: left as u8 });
        }
        if bytes > 0 {
            plan.push(FieldOut::Bytes(bytes as u8));
        }
        true
    };
    for (offset, w) in fields {
        let bits: u32 = group.iter().map(|f| f.1).sum();
        if *w == 0 {
            continue;
        }
        if bits + w > 64 && !close(&mut group, &mut plan) {
            return Vec::new();
        }
        if *w <= 64 {
            group.push((*offset, *w));
        } else if w % 8 == 0 {
            plan.push(FieldOut::Wide { offset: *offset, width: *w });
        } else {
            return Vec::new();
        }
    }
    match close(&mut group, &mut plan) {
        true => plan,
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::{Machine, Scratch};
    use crate::runtime::State;
    use num_bigint::BigInt;
    use num_traits::{One, Signed, Zero};
    use proptest::prelude::*;

    /// The value of an expression over slots of these widths and values.
    fn run(e: Ex, inputs: &[(u32, Val)]) -> Val {
        let to = inputs.len();
        // What is never run still says how wide the slots are.
        let widths = inputs.iter().enumerate().map(|(i, (w, _))| St::Set(i, Ex::Const(Val::all_ones(*w)))).collect();
        let p = Program { slots: to + 1, procs: vec![vec![St::Set(to, e)], widths], ..Program::default() };
        let code = lower(&p).unwrap();
        let (mut state, mut scratch) = (State::new(&p, 1), Scratch::new(code.wide_cells));
        let mut frame = code.frame.clone();
        for (i, (_, v)) in inputs.iter().enumerate() {
            match code.wide_of[i] {
                NARROW => frame[i] = v.low() as u64,
                w => scratch.wide[w as usize] = v.clone(),
            }
        }
        assert!(Machine::new(&code, &p, &mut state, &mut scratch, &[], 0, 0).control(&mut frame, 0));
        match code.wide_of[to] {
            NARROW => Val::S(frame[to] as u128),
            w => scratch.wide[w as usize].clone(),
        }
    }

    /// P4_16 8.5 to 8.10 in integers without end.
    fn expected(op: Op, w: u32, x: &Val, y: &Val) -> Val {
        let modulus = BigInt::one() << w;
        let (a, b) = (x.to_int(w, false), y.to_int(w, false));
        let (sa, sb) = (x.to_int(w, true), y.to_int(w, true));
        let half: BigInt = &modulus >> 1;
        let shift = usize::try_from(&b).unwrap_or(usize::MAX).min(4096);
        let is = |v: bool| BigInt::from(u8::from(v));
        let v = match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div | Op::Mod if b.is_zero() => BigInt::zero(),
            Op::Div => a / b,
            Op::Mod => a % b,
            Op::AddSat => (a + b).min(modulus - 1),
            Op::SubSat => (a - b).max(BigInt::zero()),
            Op::AddSatS => (sa + sb).clamp(-half.clone(), half - 1),
            Op::SubSatS => (sa - sb).clamp(-half.clone(), half - 1),
            Op::Shl => a << shift,
            Op::Shr => a >> shift,
            Op::Sar if sa.is_negative() => -((-sa - 1u32) >> shift) - 1,
            Op::Sar => sa >> shift,
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::Eq => is(a == b),
            Op::Ne => is(a != b),
            Op::Lt => is(a < b),
            Op::Le => is(a <= b),
            Op::LtS => is(sa < sb),
            Op::LeS => is(sa <= sb),
        };
        Val::from_int(&v, w.max(1))
    }

    const OPS: [Op; 21] = [
        Op::Add,
        Op::Sub,
        Op::Mul,
        Op::Div,
        Op::Mod,
        Op::AddSat,
        Op::SubSat,
        Op::AddSatS,
        Op::SubSatS,
        Op::Shl,
        Op::Shr,
        Op::Sar,
        Op::And,
        Op::Or,
        Op::Xor,
        Op::Eq,
        Op::Ne,
        Op::Lt,
        Op::Le,
        Op::LtS,
        Op::LeS,
    ];

    /// Values where mistakes hide: the ends, the middle, small ones (shifts), any.
    fn value(w: u32, pick: u8, any: [u64; 4]) -> Val {
        let random = any.iter().fold(Val::S(0), |v, d| v.shl(64, 256).or(Val::S(u128::from(*d))));
        let half = Val::S(1).shl(w as usize - 1, w);
        match pick % 8 {
            0 => Val::S(0),
            1 => Val::S(1),
            2 => Val::all_ones(w),
            3 => half,
            4 => half.sub(Val::S(1), w),
            5 => Val::S(u128::from(any[0] % 140)).mask(w),
            _ => random.mask(w),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_operator_is_that_of_big_integers(
            w in prop_oneof![1..=64u32, Just(32), Just(63), Just(64), Just(65), 65..=200u32],
            picks in any::<(u8, u8)>(),
            numbers in any::<([u64; 4], [u64; 4])>(),
        ) {
            let (x, y) = (value(w, picks.0, numbers.0), value(w, picks.1, numbers.1));
            let inputs = [(w, x.clone()), (w, y.clone())];
            for op in OPS {
                let want = expected(op, w, &x, &y);
                let e = |a, b| Ex::Bin(op, w, Box::new((a, b)));
                prop_assert_eq!(run(e(Ex::Load(0), Ex::Load(1)), &inputs), want.clone(), "{:?} in {} bits", op, w);
                let constant = e(Ex::Load(0), Ex::Const(y.clone()));
                prop_assert_eq!(run(constant, &inputs), want.clone(), "{:?} by a constant in {} bits", op, w);
                if want.bits() <= 1 {
                    let c = Ex::Cond(Box::new((e(Ex::Load(0), Ex::Load(1)), Ex::Load(0), Ex::Load(1))));
                    let want = if want.is_zero() { y.clone() } else { x.clone() };
                    prop_assert_eq!(run(c, &inputs), want, "condition {:?} in {} bits", op, w);
                }
            }
        }

        #[test]
        fn bits_are_cut_and_joined_where_words_end(
            w in 1..=140u32,
            lo in 0..140u32,
            n in 1..=140u32,
            picks in any::<(u8, u8)>(),
            numbers in any::<([u64; 4], [u64; 4])>(),
        ) {
            let (x, y) = (value(w, picks.0, numbers.0), value(n, picks.1, numbers.1));
            let inputs = [(w, x.clone()), (n, y.clone())];
            let load = || Box::new(Ex::Load(0));
            let (a, b) = (x.to_int(w, false), y.to_int(n, false));
            let int = |v: BigInt, w: u32| Val::from_int(&v, w);
            prop_assert_eq!(run(Ex::Slice(load(), lo, n), &inputs), int(a.clone() >> lo, n));
            prop_assert_eq!(run(Ex::Neg(w, load()), &inputs), int(-a.clone(), w));
            prop_assert_eq!(run(Ex::BitNot(w, load()), &inputs), int(-a.clone() - 1, w));
            prop_assert_eq!(run(Ex::SignExtend(load(), w, n), &inputs), int(x.to_int(w, true), n));
            let joined = Ex::Concat(Box::new((Ex::Load(0), Ex::Load(1))), n);
            prop_assert_eq!(run(joined, &inputs), int((a.clone() << n) | b.clone(), w + n));
            for op in [Op::Add, Op::Sub, Op::Mul, Op::Xor] {
                // Only the low bits of a wide result are wanted.
                let sum = Ex::Bin(op, 150, Box::new((Ex::Load(0), Ex::Load(1))));
                let cut = lo % 64 + 1;
                let want = expected(op, 150, &x, &y).mask(cut);
                prop_assert_eq!(run(Ex::Slice(Box::new(sum), 0, cut), &inputs), want, "{:?}", op);
            }
        }
    }
}
