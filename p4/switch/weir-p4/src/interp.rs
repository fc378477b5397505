// SPDX-License-Identifier: Apache-2.0
//! Runs one block of a program over one packet.
use crate::ir::*;
use crate::runtime::{EntryAction, State};
use crate::value::{read_bits, BitWriter, Val};
use num_bigint::BigInt;

/// How a statement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Next,
    Return,
    Exit,
    Break,
    Continue,
    /// A parser error is set.
    Reject,
    /// The packet cannot go on (failed assertion, endless loop).
    Fault,
}

/// What a block asked for besides changing fields.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Session and field list.
    pub clone: Option<(u32, Option<u64>)>,
    pub resubmit: Option<Option<u64>>,
    pub recirculate: Option<Option<u64>>,
    pub truncate: Option<usize>,
    pub digests: Vec<DigestData>,
    pub log: Vec<String>,
    /// Why the packet is thrown away: a failed assertion or an endless loop.
    pub fault: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DigestData {
    pub digest: usize,
    pub receiver: u32,
    pub values: Vec<Val>,
}

/// Loop turns and parser states a packet may take; more is an endless loop.
const MAX_STEPS: u32 = 1_000_000;

pub struct Machine<'a> {
    pub p: &'a Program,
    pub st: &'a mut State,
    pub f: &'a mut [Val],
    pub packet: &'a [u8],
    /// How far the parser is, in bits.
    pub at: usize,
    pub out: BitWriter,
    pub payload: &'a [u8],
    /// Length that counters, meters and standard_metadata see.
    pub length: u32,
    pub now_us: u64,
    pub fx: Effects,
    pub checksum_error: bool,
    error: usize,
    steps: u32,
    hit_entry: Vec<(usize, u64)>,
    keys: Vec<Val>,
    scratch: Vec<Val>,
}

fn b(v: bool) -> Val {
    Val::S(v as u128)
}

impl<'a> Machine<'a> {
    pub fn new(
        p: &'a Program,
        st: &'a mut State,
        f: &'a mut [Val],
        packet: &'a [u8],
        length: u32,
        now_us: u64,
    ) -> Self {
        Machine {
            p,
            st,
            f,
            packet,
            at: 0,
            out: BitWriter::default(),
            payload: &[],
            length,
            now_us,
            fx: Effects::default(),
            checksum_error: false,
            error: 0,
            steps: 0,
            hit_entry: Vec::new(),
            keys: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Runs a control. False when the packet must be thrown away.
    pub fn control(&mut self, body: usize) -> bool {
        let p = self.p;
        self.block(&p.procs[body]) != Flow::Fault
    }

    /// Runs the main parser; the number of the parser error (0: none), or `None` when the packet must go.
    pub fn parse(&mut self) -> Option<usize> {
        self.error = 0;
        match self.parser(self.p.parser) {
            Flow::Fault => None,
            _ => Some(self.error),
        }
    }

    fn error_number(&self, name: &str) -> usize {
        self.p.errors.iter().position(|e| e == name).unwrap_or(0)
    }

    fn fail(&mut self, name: &str) -> Flow {
        self.error = self.error_number(name);
        Flow::Reject
    }

    fn parser(&mut self, id: usize) -> Flow {
        let p = self.p;
        let parser = &p.parsers[id];
        let mut state = parser.start;
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return self.fail("ParserTimeout");
            }
            let (_, code, next) = &parser.states[state];
            match self.block(code) {
                Flow::Next => {}
                f => return f,
            }
            let target = match next {
                Next::State(i) => Target::State(*i),
                Next::Accept => Target::Accept,
                Next::Reject => Target::Reject,
                Next::Select(keys, cases) => {
                    let values: Vec<Val> = keys.iter().map(|k| self.ev(k)).collect();
                    match cases.iter().find(|(pats, _)| self.fits(pats, &values)) {
                        Some((_, t)) => *t,
                        None => return self.fail("NoMatch"),
                    }
                }
            };
            match target {
                Target::State(i) => state = i,
                Target::Accept => return Flow::Next,
                Target::Reject => return Flow::Reject,
            }
        }
    }

    fn fits(&self, pats: &[Pat], values: &[Val]) -> bool {
        if let [Pat::ValueSet(id, _)] = pats {
            let member =
                |m: &Vec<(Val, Val)>| m.iter().zip(values).all(|((v, mask), x)| x.clone().and(mask.clone()) == *v);
            return self.st.value_sets[*id].iter().any(member);
        }
        pats.iter().zip(values).all(|(p, v)| match p {
            Pat::Any => true,
            Pat::Value(e) => self.ev(e) == *v,
            Pat::Mask(e, m) => {
                let m = self.ev(m);
                self.ev(e).and(m.clone()) == v.clone().and(m)
            }
            Pat::Range(a, c) => self.ev(a) <= *v && *v <= self.ev(c),
            Pat::RangeS(a, c, w) => {
                let v = v.to_int(*w, true);
                self.ev(a).to_int(*w, true) <= v && v <= self.ev(c).to_int(*w, true)
            }
            Pat::ValueSet(..) => false,
        })
    }

    /// The slot an address stands for now; `None` outside a stack.
    fn slot(&self, a: &Addr) -> Option<Slot> {
        let mut at = a.base;
        for d in &a.dyns {
            let i = match &self.f[d.index] {
                Val::S(v) => (*v as i128).checked_add(d.bias as i128)?,
                Val::B(_) => return None,
            };
            if i < 0 || i >= d.len as i128 {
                return None;
            }
            at += i as usize * d.stride;
        }
        Some(at)
    }

    fn ev(&self, e: &Ex) -> Val {
        match e {
            Ex::Const(v) => v.clone(),
            Ex::Load(s) => self.f[*s].clone(),
            // Outside a stack there is nothing: zero.
            Ex::LoadAt(a) => self.slot(a).map(|s| self.f[s].clone()).unwrap_or_default(),
            Ex::Bin(op, w, ab) => {
                let (x, y) = (self.ev(&ab.0), self.ev(&ab.1));
                let w = *w;
                match op {
                    Op::Add => x.add(y, w),
                    Op::Sub => x.sub(y, w),
                    Op::Mul => x.mul(y, w),
                    Op::Div | Op::Mod if y.is_zero() => Val::S(0),
                    Op::Div => match (x, y) {
                        (Val::S(x), Val::S(y)) => Val::S(x / y),
                        (x, y) => Val::from_big(x.big() / y.big()),
                    },
                    Op::Mod => match (x, y) {
                        (Val::S(x), Val::S(y)) => Val::S(x % y),
                        (x, y) => Val::from_big(x.big() % y.big()),
                    },
                    Op::AddSat => x.saturate(y, w, false, false),
                    Op::SubSat => x.saturate(y, w, false, true),
                    Op::AddSatS => x.saturate(y, w, true, false),
                    Op::SubSatS => x.saturate(y, w, true, true),
                    Op::Shl => x.shl(y.index(), w),
                    Op::Shr => x.shr(y.index()),
                    Op::Sar => x.sar(y.index(), w),
                    Op::And => x.and(y),
                    Op::Or => x.or(y),
                    Op::Xor => x.xor(y),
                    Op::Eq => b(x == y),
                    Op::Ne => b(x != y),
                    Op::Lt => b(x < y),
                    Op::Le => b(x <= y),
                    Op::LtS => b(x.to_int(w, true) < y.to_int(w, true)),
                    Op::LeS => b(x.to_int(w, true) <= y.to_int(w, true)),
                }
            }
            Ex::BitNot(w, x) => self.ev(x).not(*w),
            Ex::Neg(w, x) => Val::S(0).sub(self.ev(x), *w),
            Ex::Not(x) => b(self.ev(x).is_zero()),
            Ex::LAnd(ab) => b(!self.ev(&ab.0).is_zero() && !self.ev(&ab.1).is_zero()),
            Ex::LOr(ab) => b(!self.ev(&ab.0).is_zero() || !self.ev(&ab.1).is_zero()),
            Ex::Slice(x, lo, w) => self.ev(x).shr(*lo as usize).mask(*w),
            Ex::Concat(ab, w) => self.ev(&ab.0).shl(*w as usize, crate::types::MAX_WIDTH + 1).or(self.ev(&ab.1)),
            Ex::SignExtend(x, from, to) => self.ev(x).sign_extend(*from, *to),
            Ex::Cond(c) => {
                if self.ev(&c.0).is_zero() {
                    self.ev(&c.2)
                } else {
                    self.ev(&c.1)
                }
            }
        }
    }

    fn put(&mut self, a: &Addr, v: Val) {
        // A write outside a stack is no write.
        if let Some(s) = self.slot(a) {
            self.f[s] = v;
        }
    }

    fn block(&mut self, code: &'a [St]) -> Flow {
        for s in code {
            let f = self.step(s);
            if f != Flow::Next {
                return f;
            }
        }
        Flow::Next
    }

    fn step(&mut self, s: &'a St) -> Flow {
        match s {
            St::Set(slot, e) => self.f[*slot] = self.ev(e),
            St::SetAt(a, e) => {
                let v = self.ev(e);
                self.put(a, v);
            }
            St::Copy(from, to, n) => {
                let Some(dst) = self.slot(to) else {
                    return Flow::Next;
                };
                match self.slot(from) {
                    Some(src) if src < dst => {
                        (0..*n).rev().for_each(|i| self.f[dst + i] = self.f[src + i].clone());
                    }
                    Some(src) => (0..*n).for_each(|i| self.f[dst + i] = self.f[src + i].clone()),
                    None => self.f[dst..dst + n].fill(Val::S(0)),
                }
            }
            St::Zero(at, n) => self.f[*at..at + n].fill(Val::S(0)),
            St::If(c, yes, no) => {
                let code = if self.ev(c).is_zero() { no } else { yes };
                return self.block(code);
            }
            St::Switch(key, cases, bodies, default) => {
                let v = self.ev(key);
                let hit = cases.iter().find(|c| c.values.iter().any(|x| self.ev(x) == v)).map(|c| c.body);
                if let Some(i) = hit.or(*default) {
                    return self.block(&bodies[i]);
                }
            }
            St::Group(code) => return self.block(code),
            St::Call(before, body, after) => {
                let f = self.block(before);
                if f != Flow::Next {
                    return f;
                }
                let p = self.p;
                let f = self.block(&p.procs[*body]);
                let g = self.block(after);
                if g != Flow::Next {
                    return g;
                }
                if matches!(f, Flow::Exit | Flow::Fault | Flow::Reject) {
                    return f;
                }
            }
            St::CallParser(before, id, after) => {
                let f = self.block(before);
                if f != Flow::Next {
                    return f;
                }
                let f = self.parser(*id);
                let g = self.block(after);
                if g != Flow::Next || f != Flow::Next {
                    return if f != Flow::Next { f } else { g };
                }
            }
            St::Loop(pre, cond, body, update) => loop {
                let f = self.block(pre);
                if f != Flow::Next {
                    return f;
                }
                if cond.as_ref().is_some_and(|c| self.ev(c).is_zero()) {
                    break;
                }
                self.steps += 1;
                if self.steps > MAX_STEPS {
                    self.fx.fault = Some(format!("a loop ran more than {MAX_STEPS} times"));
                    return Flow::Fault;
                }
                match self.block(body) {
                    Flow::Next | Flow::Continue => {}
                    Flow::Break => break,
                    f => return f,
                }
                let f = self.block(update);
                if f != Flow::Next {
                    return f;
                }
            },
            St::Return => return Flow::Return,
            St::Exit => return Flow::Exit,
            St::Break => return Flow::Break,
            St::Continue => return Flow::Continue,
            St::Apply(t) => return self.apply(*t),
            St::SetValid(h, valid) => {
                if let Some(at) = self.slot(&h.addr) {
                    self.f[at] = b(*valid);
                    if *valid {
                        self.clear_siblings(h);
                    }
                }
            }
            St::OnlyMember(h) => {
                if self.slot(&h.addr).is_some_and(|at| !self.f[at].is_zero()) {
                    self.clear_siblings(h);
                }
            }
            St::Extract(h, size, next) => return self.extract(h, size.as_ref(), next.as_ref()),
            St::Lookahead(base, fields, bits, valid) => {
                if self.at + bits > self.packet.len() * 8 {
                    return self.fail("PacketTooShort");
                }
                let mut at = self.at;
                for (offset, w) in fields {
                    self.f[base + offset] = read_bits(self.packet, at, *w);
                    at += *w as usize;
                }
                valid.iter().for_each(|v| self.f[*v] = Val::S(1));
            }
            St::Advance(e) => {
                let n = self.ev(e).index();
                // BMv2 moves by bytes only.
                if !n.is_multiple_of(8) {
                    return self.fail("ParserInvalidArgument");
                }
                if n > self.packet.len() * 8 - self.at {
                    return self.fail("PacketTooShort");
                }
                self.at += n;
            }
            St::PacketLength(slot) => self.f[*slot] = Val::S(self.length as u128),
            St::Verify(c, e) => {
                if self.ev(c).is_zero() {
                    self.error = self.ev(e).index();
                    return Flow::Reject;
                }
            }
            St::CheckIndex(a) => {
                if self.slot(a).is_none() {
                    return self.fail("StackOutOfBounds");
                }
            }
            St::Emit(h) => self.emit(h),
            St::PushFront(a, each, len, by) => self.shift_stack(a, *each, *len, *by, true),
            St::PopFront(a, each, len, by) => self.shift_stack(a, *each, *len, *by, false),
            St::RegisterRead(r, to, i) => {
                let i = self.ev(i).index();
                if let Some(v) = self.st.register_get(*r, i) {
                    self.put(to, v);
                }
            }
            St::RegisterWrite(r, i, v) => {
                let (i, v) = (self.ev(i).index(), self.ev(v));
                if let Some(cell) = self.st.register_mut(*r, i) {
                    *cell = v;
                }
            }
            St::Count(c, i) => {
                let i = self.ev(i).index();
                let n = self.length as u64;
                if let Some(cell) = self.st.counters[*c].get_mut(i) {
                    *cell = (cell.0 + 1, cell.1 + n);
                }
            }
            St::Meter(m, i, to) => {
                let i = self.ev(i).index();
                let kind = self.p.meters[*m].kind;
                let (n, now) = (self.length as u64, self.now_us);
                if let Some(cell) = self.st.meters[*m].get_mut(i) {
                    let color = cell.color(kind, n, now);
                    self.put(to, Val::S(color as u128));
                }
            }
            St::DirectMeter(m, to) => {
                let table = self.p.tables.iter().position(|t| t.meter == Some(*m));
                let hit = self.hit_entry.iter().rev().find(|(t, _)| Some(*t) == table).copied();
                if let Some((t, id)) = hit {
                    let (kind, n, now) = (self.p.meters[*m].kind, self.length as u64, self.now_us);
                    let cell = self.st.tables[t].entry_mut(id);
                    let color = cell.map_or(0, |e| e.meter.color(kind, n, now));
                    self.put(to, Val::S(color as u128));
                }
            }
            St::Random(to, lo, hi, w) => {
                let (lo, hi) = (self.ev(lo), self.ev(hi));
                let r = Val::S((self.st.random() as u128) << 64 | self.st.random() as u128);
                // With the ends reversed BMv2 leaves the result as it was.
                if lo <= hi {
                    let span = hi.big() - lo.clone().big() + 1u32;
                    self.put(to, Val::from_big(lo.big() + r.big() % span).mask(*w));
                }
            }
            St::Hash(to, w, algo, base, data, max) => {
                let bytes = self.gather(data);
                let h = self.digest(*algo, &bytes);
                let (base, max) = (self.ev(base), self.ev(max));
                let offset = if max.is_zero() { Val::S(0) } else { Val::from_big(h.big() % max.big()) };
                self.put(to, base.add(offset, *w));
            }
            St::VerifyChecksum(c, data, sum, w, algo, payload) => {
                if !self.ev(c).is_zero() {
                    let mut bytes = self.gather(data);
                    if *payload {
                        bytes.extend_from_slice(&self.packet[(self.at / 8).min(self.packet.len())..]);
                    }
                    if self.digest(*algo, &bytes).mask(*w) != self.ev(sum) {
                        self.checksum_error = true;
                    }
                }
            }
            St::UpdateChecksum(c, data, to, w, algo, payload) => {
                if !self.ev(c).is_zero() {
                    let mut bytes = self.gather(data);
                    if *payload {
                        bytes.extend_from_slice(self.payload);
                    }
                    let v = self.digest(*algo, &bytes).mask(*w);
                    self.put(to, v);
                }
            }
            St::Digest(id, receiver, data) => {
                let receiver = self.ev(receiver).low() as u32;
                let values = data.iter().map(|(e, ..)| self.ev(e)).collect();
                self.fx.digests.push(DigestData { digest: *id, receiver, values });
            }
            St::Clone(_, session, list) => {
                let list = list.as_ref().map(|l| self.ev(l).low() as u64);
                self.fx.clone = Some((self.ev(session).low() as u32, list));
            }
            St::Resubmit(list) => self.fx.resubmit = Some(list.as_ref().map(|l| self.ev(l).low() as u64)),
            St::Recirculate(list) => self.fx.recirculate = Some(list.as_ref().map(|l| self.ev(l).low() as u64)),
            St::MarkToDrop => {
                self.f[self.p.std_fields.egress_spec] = Val::S(crate::switch::DROP_PORT as u128);
                self.f[self.p.std_fields.mcast_grp] = Val::S(0);
            }
            St::Truncate(n) => {
                let n = self.ev(n).index();
                self.fx.truncate = Some(self.fx.truncate.map_or(n, |old| old.min(n)));
            }
            St::Assert(c, text) => {
                if self.ev(c).is_zero() {
                    self.fx.fault = Some(format!("failed: {text}"));
                    return Flow::Fault;
                }
            }
            St::Log(text, data) => {
                let mut out = String::new();
                let mut rest = text.as_str();
                for (e, w, signed) in data {
                    let Some((head, tail)) = rest.split_once("{}") else {
                        break;
                    };
                    out.push_str(head);
                    let v: BigInt = self.ev(e).to_int(*w, *signed);
                    out.push_str(&v.to_string());
                    rest = tail;
                }
                out.push_str(rest);
                self.fx.log.push(out);
            }
        }
        Flow::Next
    }

    fn clear_siblings(&mut self, h: &HeaderRef) {
        for s in &h.siblings {
            if let Some(at) = self.slot(s) {
                self.f[at] = Val::S(0);
            }
        }
    }

    fn extract(&mut self, h: &HeaderRef, size: Option<&Ex>, next: Option<&(Addr, usize)>) -> Flow {
        let Some(base) = self.slot(&h.addr) else {
            return self.fail("StackOutOfBounds");
        };
        let l = &h.layout;
        let var_bits = size.map_or(0, |e| self.ev(e).index());
        // BMv2 reads varbits of whole bytes only, and looks for errors in this order.
        if !var_bits.is_multiple_of(8) {
            return self.fail("ParserInvalidArgument");
        }
        if var_bits > self.packet.len() * 8 || self.at + l.fixed_bits + var_bits > self.packet.len() * 8 {
            return self.fail("PacketTooShort");
        }
        if l.varbit.is_some_and(|v| var_bits > l.fields[v].1 as usize) {
            return self.fail("HeaderTooShort");
        }
        for (i, (offset, w)) in l.fields.iter().enumerate() {
            let w = if l.varbit == Some(i) { var_bits as u32 } else { *w };
            self.f[base + offset] = read_bits(self.packet, self.at, w);
            if l.varbit == Some(i) {
                self.f[base + offset + 1] = Val::S(var_bits as u128);
            }
            self.at += w as usize;
        }
        self.f[base] = Val::S(1);
        self.clear_siblings(h);
        if let Some((stack, _)) = next {
            if let Some(s) = self.slot(stack) {
                self.f[s] = Val::S(self.f[s].low() + 1);
            }
        }
        Flow::Next
    }

    fn emit(&mut self, h: &HeaderRef) {
        let Some(base) = self.slot(&h.addr) else {
            return;
        };
        if self.f[base].is_zero() {
            return;
        }
        for (i, (offset, w)) in h.layout.fields.iter().enumerate() {
            let w = if h.layout.varbit == Some(i) { self.f[base + offset + 1].low() as u32 } else { *w };
            if w > 0 {
                self.out.push(&self.f[base + offset], w);
            }
        }
    }

    fn shift_stack(&mut self, a: &Addr, each: usize, len: usize, by: usize, push: bool) {
        let Some(index) = self.slot(a) else { return };
        let by = by.min(len);
        let cells = &mut self.f[index + 1..index + 1 + each * len];
        let next = if push {
            cells.rotate_right(by * each);
            cells[..by * each].fill(Val::S(0));
            (self.f[index].index().saturating_add(by)).min(len)
        } else {
            cells.rotate_left(by * each);
            cells[(len - by) * each..].fill(Val::S(0));
            self.f[index].index().saturating_sub(by)
        };
        self.f[index] = Val::S(next as u128);
    }

    fn gather(&self, data: &Fields) -> Vec<u8> {
        let mut w = BitWriter::default();
        for (e, width, length) in data {
            let n = length.as_ref().map_or(*width, |l| self.ev(l).low() as u32);
            if n > 0 {
                w.push(&self.ev(e), n);
            }
        }
        w.bytes
    }

    fn digest(&mut self, algo: HashAlgo, data: &[u8]) -> Val {
        match algo {
            HashAlgo::Random => Val::S(self.st.random() as u128),
            _ => hash(algo, data),
        }
    }

    fn apply(&mut self, t: usize) -> Flow {
        let p = self.p;
        let table = &p.tables[t];
        let f = self.block(&table.before);
        if f != Flow::Next {
            return f;
        }
        let mut keys = std::mem::take(&mut self.keys);
        let mut scratch = std::mem::take(&mut self.scratch);
        keys.clear();
        for k in table.keys.iter().filter(|k| k.kind != MatchKind::Selector) {
            keys.push(self.ev(&k.ex));
        }
        // A table without keys always runs its default action.
        let hit = if table.keys.is_empty() { None } else { self.st.tables[t].lookup(table, &keys, &mut scratch) };
        self.keys = keys;
        self.scratch = scratch;
        let n = self.length as u64;
        let state = &mut self.st.tables[t];
        let action = match hit.and_then(|id| state.entry_mut(id)) {
            Some(e) => {
                e.packets += 1;
                e.bytes += n;
                e.action.clone()
            }
            None => {
                state.misses = (state.misses.0 + 1, state.misses.1 + n);
                state.default.clone()
            }
        };
        if let Some(id) = hit {
            self.hit_entry.push((t, id));
        }
        let r = self.run_action(t, action, hit.is_some());
        if hit.is_some() {
            self.hit_entry.pop();
        }
        r
    }

    fn run_action(&mut self, t: usize, action: EntryAction, hit: bool) -> Flow {
        let p = self.p;
        let table = &p.tables[t];
        let (index, args) = match action {
            EntryAction::Call(c) => (c.action, c.args),
            other => {
                let Some(profile) = table.profile else {
                    return Flow::Next;
                };
                let id = match other {
                    EntryAction::Group(g) => self.choose(table, profile, g),
                    EntryAction::Member(m) => Some(m),
                    EntryAction::Call(_) => None,
                };
                let member = id.and_then(|id| self.st.profiles[profile].members.get(&id));
                let found = member.and_then(|m| {
                    let at = table.actions.iter().position(|a| a.body == m.body)?;
                    Some((at, m.args.clone()))
                });
                match found {
                    Some(f) => f,
                    // A group without members runs the default, as BMv2's empty group does.
                    None => match &self.st.tables[t].default {
                        EntryAction::Call(c) => (c.action, c.args.clone()),
                        _ => return Flow::Next,
                    },
                }
            }
        };
        let a = &table.actions[index];
        let f = self.block(&a.before);
        if f != Flow::Next {
            return f;
        }
        for (p, v) in a.params.iter().zip(args) {
            self.f[p.slot] = v;
        }
        let f = self.block(&p.procs[a.body]);
        let g = self.block(&a.after);
        self.f[table.hit] = b(hit);
        self.f[table.action_run] = Val::S(index as u128);
        match f {
            Flow::Exit | Flow::Fault | Flow::Reject => f,
            _ => g,
        }
    }

    fn choose(&mut self, table: &Table, profile: usize, group: u32) -> Option<u32> {
        let (algo, width) = self.p.profiles[profile].selector?;
        let mut w = BitWriter::default();
        for k in table.keys.iter().filter(|k| k.kind == MatchKind::Selector) {
            w.push(&self.ev(&k.ex), k.width);
        }
        let h = self.digest(algo, &w.bytes).mask(width);
        let members = self.st.profiles[profile].groups.get(&group).filter(|m| !m.is_empty())?;
        Some(members[(h.low() % members.len() as u128) as usize])
    }
}

/// The checksum algorithms of v1model over whole bytes.
pub fn hash(algo: HashAlgo, data: &[u8]) -> Val {
    let words = |f: &mut dyn FnMut(u32)| {
        for c in data.chunks(2) {
            f((c[0] as u32) << 8 | c.get(1).copied().unwrap_or(0) as u32);
        }
    };
    match algo {
        HashAlgo::Csum16 => {
            let mut sum = 0u64;
            words(&mut |w| sum += w as u64);
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            Val::S((!sum & 0xffff) as u128)
        }
        HashAlgo::Xor16 => {
            let mut x = 0;
            words(&mut |w| x ^= w);
            Val::S(x as u128)
        }
        HashAlgo::Crc16 => {
            // CRC-16/ARC: polynomial 0x8005 reflected, start 0.
            let mut crc = 0u16;
            for byte in data {
                crc ^= *byte as u16;
                for _ in 0..8 {
                    crc = if crc & 1 == 1 { (crc >> 1) ^ 0xa001 } else { crc >> 1 };
                }
            }
            Val::S(crc as u128)
        }
        HashAlgo::Crc32 => {
            let mut crc = !0u32;
            for byte in data {
                crc ^= *byte as u32;
                for _ in 0..8 {
                    crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
                }
            }
            Val::S(!crc as u128)
        }
        // BMv2's identity keeps the first 64 bits.
        HashAlgo::Identity => {
            let head = &data[..data.len().min(8)];
            Val::S(head.iter().fold(0u128, |v, b| v << 8 | *b as u128))
        }
        HashAlgo::Random => Val::S(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_standard_check_string() {
        let data = b"123456789";
        assert_eq!(hash(HashAlgo::Crc32, data), Val::S(0xcbf4_3926));
        assert_eq!(hash(HashAlgo::Crc16, data), Val::S(0xbb3d));
    }

    #[test]
    fn checksum_of_rfc_1071s_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(hash(HashAlgo::Csum16, &data), Val::S(!0xddf2u16 as u128));
        assert_eq!(hash(HashAlgo::Xor16, &data), Val::S(0x0001 ^ 0xf203 ^ 0xf4f5 ^ 0xf6f7));
    }
}
