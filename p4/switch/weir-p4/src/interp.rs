// SPDX-License-Identifier: Apache-2.0
//! Runs one block of a program over one packet.
use crate::code::*;
use crate::ir::{HashAlgo, Op, Program};
use crate::runtime::State;
use crate::switch::DROP_PORT;
use crate::table::EntryAction;
use crate::value::{BitWriter, Val, read_bits};

/// How a piece of code ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Next,
    Exit,
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
    /// The last one: BMv2 sends one for a packet.
    pub digest: Option<DigestData>,
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

/// Steps that a packet may take in the parser, and in the controls of ingress or egress: some milliseconds. A step is an
/// instruction; larger ones are several.
pub const PACKET_STEPS: u64 = 4_000_000;

/// What running a block is at least, so that packets are never free.
const LEAST_STEPS: u64 = 50;

/// Words of packed keys that need no allocation.
const FEW_WORDS: usize = 16;

/// What stays allocated from packet to packet.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The frame of values above 64 bits.
    pub wide: Vec<Val>,
    /// What the deparser wrote.
    pub head: BitWriter,
    data: BitWriter,
    /// Tables whose actions run on a hit, and the color that their direct meter gave.
    hits: Vec<(usize, u8)>,
    /// Steps taken since somebody asked.
    pub spent: u64,
}

impl Scratch {
    pub fn new(wide_cells: usize) -> Scratch {
        Scratch { wide: vec![Val::S(0); wide_cells], ..Scratch::default() }
    }
}

pub struct Machine<'a> {
    c: &'a Code,
    p: &'a Program,
    st: &'a mut State,
    s: &'a mut Scratch,
    pub packet: &'a [u8],
    /// How far the parser is, in bits.
    pub at: usize,
    pub payload: &'a [u8],
    /// Length that counters, meters and standard_metadata see.
    length: u32,
    now_us: u64,
    pub drop_port: u32,
    pub fx: Effects,
    pub checksum_error: bool,
    /// By how much headers that became valid or invalid have changed the packet's length.
    pub grown_bytes: i64,
    error: u32,
    steps: u64,
}

fn cut(v: u64, sh: u8) -> u64 {
    (v << sh) >> sh
}

/// The number that the low 64 - `sh` bits stand for.
fn signed(v: u64, sh: u8) -> i64 {
    ((v << sh) as i64) >> sh
}

fn clamp_signed(v: i128, sh: u8) -> u64 {
    let half = 1i128 << (63 - sh);
    cut(v.clamp(-half, half - 1) as u64, sh)
}

impl<'a> Machine<'a> {
    pub fn new(
        c: &'a Code,
        p: &'a Program,
        st: &'a mut State,
        s: &'a mut Scratch,
        packet: &'a [u8],
        length: u32,
        now_us: u64,
    ) -> Self {
        s.head.clear();
        Machine {
            c,
            p,
            st,
            s,
            packet,
            at: 0,
            payload: &[],
            length,
            now_us,
            drop_port: DROP_PORT,
            fx: Effects::default(),
            checksum_error: false,
            grown_bytes: 0,
            error: 0,
            steps: 0,
        }
    }

    /// Runs a control over the frame. False when the packet must be thrown away.
    pub fn control(&mut self, n: &mut [u64], body: usize) -> bool {
        let before = self.steps;
        let flow = self.run(n, self.c.procs[body]);
        self.s.spent += self.steps - before + LEAST_STEPS;
        flow != Flow::Fault
    }

    /// Runs the main parser; the number of the parser error (0: none), or `None` when the packet must go.
    pub fn parse(&mut self, n: &mut [u64]) -> Option<u32> {
        self.error = 0;
        let flow = self.run(n, self.c.parsers[self.p.parser]);
        self.s.spent += std::mem::take(&mut self.steps) + LEAST_STEPS;
        match flow {
            Flow::Fault => None,
            _ => Some(self.error),
        }
    }

    /// Counts steps; true when it is one too many.
    fn is_spent(&mut self, cost: u64) -> bool {
        self.steps += cost;
        self.steps > PACKET_STEPS
    }

    fn too_long(&mut self) -> Flow {
        self.fx.fault = Some(format!("the program took more than {PACKET_STEPS} steps on it"));
        Flow::Fault
    }

    fn fail(&mut self, error: u32) -> Flow {
        self.error = error;
        Flow::Reject
    }

    /// The slot an address stands for now; `None` outside a stack.
    fn slot(&self, n: &[u64], at: u32) -> Option<usize> {
        let a = &self.c.addrs[at as usize];
        let mut slot = a.base as usize;
        for d in &a.dyns {
            let i = match self.c.wide_of[d.index] {
                NARROW => n[d.index],
                w => self.s.wide[w as usize].index() as u64,
            };
            let i = i.checked_add_signed(i64::from(d.bias))?;
            if i >= d.len as u64 {
                return None;
            }
            slot += i as usize * d.stride;
        }
        Some(slot)
    }

    fn get(&self, n: &[u64], slot: usize) -> Val {
        match self.c.wide_of[slot] {
            NARROW => Val::S(n[slot] as u128),
            w => self.s.wide[w as usize].clone(),
        }
    }

    fn set(&mut self, n: &mut [u64], slot: usize, v: Val) {
        match self.c.wide_of[slot] {
            NARROW => n[slot] = v.low() as u64,
            w => self.s.wide[w as usize] = v,
        }
    }

    fn src(&self, n: &[u64], s: Src) -> Val {
        match s {
            Src::N(c) => Val::S(n[c as usize] as u128),
            Src::W(w) => self.s.wide[w as usize].clone(),
        }
    }

    fn wide(&self, n: &[u64], e: &Wide) -> Val {
        match e {
            Wide::N(c) => Val::S(n[*c as usize] as u128),
            Wide::W(w) => self.s.wide[*w as usize].clone(),
            Wide::Const(v) => v.clone(),
            // Outside a stack there is nothing: zero.
            Wide::At(at) => self.slot(n, *at).map(|s| self.get(n, s)).unwrap_or_default(),
            Wide::Bin(op, w, ab) => binary(*op, *w, self.wide(n, &ab.0), self.wide(n, &ab.1)),
            Wide::BitNot(w, x) => self.wide(n, x).not(*w),
            Wide::Neg(w, x) => Val::S(0).sub(self.wide(n, x), *w),
            Wide::Not(x) => truth(self.wide(n, x).is_zero()),
            Wide::LAnd(ab) => truth(!self.wide(n, &ab.0).is_zero() && !self.wide(n, &ab.1).is_zero()),
            Wide::LOr(ab) => truth(!self.wide(n, &ab.0).is_zero() || !self.wide(n, &ab.1).is_zero()),
            Wide::Slice(x, lo, w) => self.wide(n, x).shr(*lo as usize).mask(*w),
            Wide::Concat(ab, w) => {
                self.wide(n, &ab.0).shl(*w as usize, crate::types::MAX_WIDTH + 1).or(self.wide(n, &ab.1))
            }
            Wide::SignExtend(x, from, to) => self.wide(n, x).sign_extend(*from, *to),
            Wide::Cond(c) => self.wide(n, if self.wide(n, &c.0).is_zero() { &c.2 } else { &c.1 }),
        }
    }

    fn run(&mut self, n: &mut [u64], start: Pc) -> Flow {
        let code = self.c.ins.as_slice();
        let mut pc = start as usize;
        macro_rules! n {
            ($c:expr) => {
                n[$c as usize]
            };
        }
        loop {
            let i = code[pc];
            pc += 1;
            match i {
                Ins::Move { d, a } => n!(d) = n!(a),
                Ins::Moves { d, a, n: count } => {
                    for k in 0..count {
                        n!(d + k) = n!(a + k);
                    }
                }
                Ins::IfSet { d, a, b } => n!(d) = if n!(b) != 0 { n!(a) } else { 0 },
                Ins::Add { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_add(n!(b)), sh),
                Ins::Sub { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_sub(n!(b)), sh),
                Ins::Mul { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_mul(n!(b)), sh),
                Ins::Div { d, a, b } => n!(d) = n!(a).checked_div(n!(b)).unwrap_or(0),
                Ins::Mod { d, a, b } => n!(d) = n!(a).checked_rem(n!(b)).unwrap_or(0),
                Ins::AddSat { d, a, b, sh } => n!(d) = n!(a).saturating_add(n!(b)).min(u64::MAX >> sh),
                Ins::SubSat { d, a, b } => n!(d) = n!(a).saturating_sub(n!(b)),
                Ins::AddSatS { d, a, b, sh } => {
                    n!(d) = clamp_signed(signed(n!(a), sh) as i128 + signed(n!(b), sh) as i128, sh);
                }
                Ins::SubSatS { d, a, b, sh } => {
                    n!(d) = clamp_signed(signed(n!(a), sh) as i128 - signed(n!(b), sh) as i128, sh);
                }
                Ins::Shl { d, a, b, sh } => n!(d) = if n!(b) < 64 { cut(n!(a) << n!(b), sh) } else { 0 },
                Ins::Shr { d, a, b } => n!(d) = if n!(b) < 64 { n!(a) >> n!(b) } else { 0 },
                Ins::Sar { d, a, b, sh } => n!(d) = cut((signed(n!(a), sh) >> n!(b).min(63)) as u64, sh),
                Ins::And { d, a, b } => n!(d) = n!(a) & n!(b),
                Ins::Or { d, a, b } => n!(d) = n!(a) | n!(b),
                Ins::Xor { d, a, b } => n!(d) = n!(a) ^ n!(b),
                Ins::Eq { d, a, b } => n!(d) = (n!(a) == n!(b)) as u64,
                Ins::Ne { d, a, b } => n!(d) = (n!(a) != n!(b)) as u64,
                Ins::Lt { d, a, b } => n!(d) = (n!(a) < n!(b)) as u64,
                Ins::Le { d, a, b } => n!(d) = (n!(a) <= n!(b)) as u64,
                Ins::LtS { d, a, b, sh } => n!(d) = (signed(n!(a), sh) < signed(n!(b), sh)) as u64,
                Ins::LeS { d, a, b, sh } => n!(d) = (signed(n!(a), sh) <= signed(n!(b), sh)) as u64,
                Ins::BitNot { d, a, sh } => n!(d) = cut(!n!(a), sh),
                Ins::Not { d, a } => n!(d) = (n!(a) == 0) as u64,
                Ins::Slice { d, a, lo, sh } => n!(d) = cut(n!(a) >> lo, sh),
                Ins::ShlBy { d, a, by, sh } => n!(d) = cut(n!(a) << by, sh),
                Ins::Concat { d, a, b, by } => n!(d) = n!(a) << by | n!(b),
                Ins::SignExtend { d, a, from, sh } => n!(d) = cut(signed(n!(a), from) as u64, sh),
                Ins::LoadAt { d, at } => n!(d) = self.slot(n, at).map_or(0, |s| n[s]),
                Ins::StoreAt { at, a } => {
                    // A write outside a stack is no write.
                    if let Some(s) = self.slot(n, at) {
                        n[s] = n!(a);
                    }
                }
                Ins::Copy { d, a, n: count } => n.copy_within(a as usize..(a + count) as usize, d as usize),
                Ins::Zero { d, n: count } => n[d as usize..(d + count) as usize].fill(0),
                Ins::Jump { to } => pc = to as usize,
                Ins::JumpZero { a, to } => {
                    if n!(a) == 0 {
                        pc = to as usize;
                    }
                }
                Ins::JumpSet { a, to } => {
                    if n!(a) != 0 {
                        pc = to as usize;
                    }
                }
                Ins::JumpEq { a, b, to } => {
                    if n!(a) == n!(b) {
                        pc = to as usize;
                    }
                }
                Ins::JumpNe { a, b, to } => {
                    if n!(a) != n!(b) {
                        pc = to as usize;
                    }
                }
                Ins::JumpLt { a, b, to } => {
                    if n!(a) < n!(b) {
                        pc = to as usize;
                    }
                }
                Ins::JumpLe { a, b, to } => {
                    if n!(a) <= n!(b) {
                        pc = to as usize;
                    }
                }
                Ins::Call { to, after, cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.too_long();
                    }
                    let f = self.run(n, to);
                    if f != Flow::Next {
                        // Results are copied out at `exit` too.
                        let g = if after == 0 { Flow::Next } else { self.run(n, after) };
                        return if g == Flow::Next { f } else { g };
                    }
                }
                Ins::Return => return Flow::Next,
                Ins::Exit => return Flow::Exit,
                Ins::Reject => return Flow::Reject,
                Ins::Fail { error } => return self.fail(error),
                Ins::FailWith { a } => return self.fail(n!(a) as u32),
                Ins::ParserStep { cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.fail(self.c.errors.timeout);
                    }
                }
                Ins::LoopStep { cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.too_long();
                    }
                }
                Ins::RegisterRead { r, i, d } => {
                    if let Some(v) = self.st.narrow_register(r as usize).get(index(n!(i))) {
                        n!(d) = *v;
                    }
                }
                Ins::RegisterWrite { r, i, a } => {
                    if let Some(cell) = self.st.narrow_register(r as usize).get_mut(index(n!(i))) {
                        *cell = n!(a);
                    }
                }
                // Larger work is kept out of this loop, so that its state stays in the machine's registers.
                _ => match self.work(n, i) {
                    Flow::Next => {}
                    f => return f,
                },
            }
        }
    }

    #[inline(never)]
    fn work(&mut self, n: &mut [u64], i: Ins) -> Flow {
        macro_rules! n {
            ($c:expr) => {
                n[$c as usize]
            };
        }
        match i {
            Ins::LoadWideAt { d, at } => {
                self.s.wide[d as usize] = self.slot(n, at).map(|s| self.get(n, s)).unwrap_or_default();
            }
            Ins::StoreWideAt { at, a } => {
                if let Some(s) = self.slot(n, at) {
                    let v = self.s.wide[a as usize].clone();
                    self.set(n, s, v);
                }
            }
            Ins::MoveWide { d, a } => self.s.wide[d as usize] = self.s.wide[a as usize].clone(),
            Ins::ToWide { d, a } => self.s.wide[d as usize] = Val::S(n!(a) as u128),
            Ins::EvalWide { d, e } => self.s.wide[d as usize] = self.wide(n, &self.c.wides[e as usize]),
            Ins::EvalLow { d, e } => {
                n!(d) = match &self.c.wides[e as usize] {
                    Wide::W(w) => self.s.wide[*w as usize].low() as u64,
                    e => self.wide(n, e).low() as u64,
                }
            }
            Ins::EvalIndex { d, e } => n!(d) = self.wide(n, &self.c.wides[e as usize]).index() as u64,
            Ins::CopyAt { copy } => self.copy(n, copy),
            Ins::Apply { table } => return self.apply(n, table as usize),
            Ins::Extract { header, size } => return self.extract(n, header, n!(size)),
            Ins::Lookahead { header } => return self.lookahead(n, header),
            Ins::Advance { a } => {
                let bits = n!(a);
                // BMv2 moves by bytes only.
                if !bits.is_multiple_of(8) {
                    return self.fail(self.c.errors.invalid_argument);
                }
                if bits > (self.packet.len() * 8 - self.at) as u64 {
                    return self.fail(self.c.errors.too_short);
                }
                self.at += bits as usize;
            }
            Ins::PacketLength { d } => n!(d) = self.length as u64,
            Ins::CheckIndex { at } => match self.slot(n, at) {
                Some(_) => {}
                None => return self.fail(self.c.errors.stack),
            },
            Ins::Emit { header } => self.emit(n, header),
            Ins::Shift { stack } => self.shift(n, stack),
            Ins::SetValid { header, valid } => {
                let h = &self.c.headers[header as usize];
                if let Some(at) = self.header(n, h) {
                    self.set_valid(n, h, at, valid);
                }
            }
            Ins::OnlyMemberAt { header } => {
                let h = &self.c.headers[header as usize];
                if self.header(n, h).is_some_and(|at| n[at] != 0) {
                    self.clear_siblings(n, h);
                }
            }
            Ins::InValueSet { d, set } => {
                let (id, keys) = &self.c.sets[set as usize];
                let fits = |m: &Vec<(Val, Val)>| {
                    m.iter().zip(keys).all(|((v, mask), k)| self.src(n, *k).and(mask.clone()) == *v)
                };
                n!(d) = self.st.value_sets[*id].iter().any(fits) as u64;
            }
            Ins::RegisterReadWide { r, i, d } => {
                if let Some(v) = self.st.wide_register(r as usize).get(index(n!(i))) {
                    self.s.wide[d as usize] = v.clone();
                }
            }
            Ins::RegisterWriteWide { r, i, a } => {
                if let Some(cell) = self.st.wide_register(r as usize).get_mut(index(n!(i))) {
                    *cell = self.s.wide[a as usize].clone();
                }
            }
            Ins::Count { c, i } => {
                if let Some(cell) = self.st.counters[c as usize].get_mut(index(n!(i))) {
                    *cell = (cell.0 + 1, cell.1 + u64::from(self.length));
                }
            }
            Ins::Meter { m, i, d } => {
                let kind = self.p.meters[m as usize].kind;
                if let Some(cell) = self.st.meters[m as usize].get_mut(index(n!(i))) {
                    n!(d) = u64::from(cell.color(kind, u64::from(self.length), self.now_us));
                }
            }
            Ins::DirectMeter { m, d } => {
                let table = self.c.meter_tables[m as usize];
                if let Some((_, color)) = self.s.hits.iter().rev().find(|(t, _)| Some(*t) == table) {
                    n!(d) = u64::from(*color);
                }
            }
            Ins::Random { d, a, b } => {
                let (low, high) = (n!(a), n!(b));
                let r = [self.st.random(), self.st.random()];
                // With the ends reversed BMv2 leaves the result as it was.
                if low <= high {
                    let last = high - low;
                    n!(d) = low
                        + match last.wrapping_add(1) {
                            0 => r[1],
                            span if span.is_power_of_two() => r[1] & last,
                            span => (((r[0] as u128) << 64 | r[1] as u128) % span as u128) as u64,
                        };
                }
            }
            Ins::RandomWide { d, random } => {
                let x = &self.c.randoms[random as usize];
                let (low, high) = (self.wide(n, &x.low), self.wide(n, &x.high));
                let r = Val::S((self.st.random() as u128) << 64 | self.st.random() as u128);
                if low <= high {
                    let span = high.big() - low.clone().big() + 1u32;
                    self.s.wide[d as usize] = Val::from_big(low.big() + r.big() % span).mask(x.width);
                }
            }
            Ins::Hash { d, hash } => n!(d) = self.hash(n, hash),
            Ins::ChecksumError => self.checksum_error = true,
            Ins::Digest { digest } => {
                let x = &self.c.digests[digest as usize];
                let values = x.values.iter().map(|v| self.src(n, *v)).collect();
                let receiver = n!(x.receiver) as u32;
                self.fx.digest = Some(DigestData { digest: x.digest, receiver, values });
            }
            Ins::Clone { session, list } => self.fx.clone = Some((n!(session) as u32, field_list(n, list))),
            Ins::Resubmit { list } => self.fx.resubmit = Some(field_list(n, list)),
            Ins::Recirculate { list } => self.fx.recirculate = Some(field_list(n, list)),
            Ins::DropPort { d } => n!(d) = u64::from(self.drop_port),
            Ins::Truncate { a } => {
                let to = index(n!(a));
                self.fx.truncate = Some(self.fx.truncate.map_or(to, |old| old.min(to)));
            }
            Ins::AssertFailed { text } => {
                self.fx.fault = Some(self.c.texts[text as usize].clone());
                return Flow::Fault;
            }
            Ins::Log { text } => self.log(n, text),
            // Done where code runs.
            Ins::Move { .. }
            | Ins::Moves { .. }
            | Ins::IfSet { .. }
            | Ins::Add { .. }
            | Ins::Sub { .. }
            | Ins::Mul { .. }
            | Ins::Div { .. }
            | Ins::Mod { .. }
            | Ins::AddSat { .. }
            | Ins::SubSat { .. }
            | Ins::AddSatS { .. }
            | Ins::SubSatS { .. }
            | Ins::Shl { .. }
            | Ins::Shr { .. }
            | Ins::Sar { .. }
            | Ins::And { .. }
            | Ins::Or { .. }
            | Ins::Xor { .. }
            | Ins::Eq { .. }
            | Ins::Ne { .. }
            | Ins::Lt { .. }
            | Ins::Le { .. }
            | Ins::LtS { .. }
            | Ins::LeS { .. }
            | Ins::BitNot { .. }
            | Ins::Not { .. }
            | Ins::Slice { .. }
            | Ins::ShlBy { .. }
            | Ins::Concat { .. }
            | Ins::SignExtend { .. }
            | Ins::LoadAt { .. }
            | Ins::StoreAt { .. }
            | Ins::Copy { .. }
            | Ins::Zero { .. }
            | Ins::Jump { .. }
            | Ins::JumpZero { .. }
            | Ins::JumpSet { .. }
            | Ins::JumpEq { .. }
            | Ins::JumpNe { .. }
            | Ins::JumpLt { .. }
            | Ins::JumpLe { .. }
            | Ins::Call { .. }
            | Ins::Return
            | Ins::Exit
            | Ins::Reject
            | Ins::Fail { .. }
            | Ins::FailWith { .. }
            | Ins::ParserStep { .. }
            | Ins::LoopStep { .. }
            | Ins::RegisterRead { .. }
            | Ins::RegisterWrite { .. } => {}
        }
        Flow::Next
    }

    fn log(&mut self, n: &[u64], text: u32) {
        let x = &self.c.logs[text as usize];
        let mut out = String::new();
        let mut rest = x.text.as_str();
        for (v, w, signed) in &x.data {
            let Some((head, tail)) = rest.split_once("{}") else {
                break;
            };
            out.push_str(head);
            out.push_str(&self.src(n, *v).to_int(*w, *signed).to_string());
            rest = tail;
        }
        out.push_str(rest);
        self.fx.log.push(out);
    }

    fn copy(&mut self, n: &mut [u64], copy: u32) {
        let x = &self.c.copies[copy as usize];
        let Some(to) = self.slot(n, x.to) else { return };
        let Some(from) = self.slot(n, x.from) else {
            n[to..to + x.n].fill(0);
            x.wide.iter().for_each(|i| self.set(n, to + i, Val::S(0)));
            return;
        };
        for k in 0..x.wide.len() {
            let i = x.wide[if from < to { x.wide.len() - 1 - k } else { k }];
            let v = self.get(n, from + i);
            self.set(n, to + i, v);
        }
        n.copy_within(from..from + x.n, to);
    }

    fn header(&self, n: &[u64], h: &HeaderCode) -> Option<usize> {
        match h.at {
            None => Some(h.base as usize),
            Some(at) => self.slot(n, at),
        }
    }

    /// As BMv2 does it: a header that becomes valid is all zero, and either way the packet's length follows.
    fn set_valid(&mut self, n: &mut [u64], h: &HeaderCode, at: usize, valid: bool) {
        let was = n[at] != 0;
        if valid && !was {
            for (i, (offset, _)) in h.fields.iter().enumerate() {
                self.set(n, at + *offset as usize, Val::S(0));
                if h.varbit == Some(i) {
                    n[at + *offset as usize + 1] = 0;
                }
            }
            self.grown_bytes += h.fixed_bits as i64 / 8;
        } else if was && !valid {
            let varbit = h.varbit.map_or(0, |v| n[at + h.fields[v].0 as usize + 1]);
            self.grown_bytes -= (h.fixed_bits as i64 + varbit as i64) / 8;
        }
        n[at] = u64::from(valid);
        if valid {
            self.clear_siblings(n, h);
        }
    }

    fn clear_siblings(&self, n: &mut [u64], h: &HeaderCode) {
        for s in &h.siblings {
            if let Some(at) = self.slot(n, *s) {
                n[at] = 0;
            }
        }
    }

    fn extract(&mut self, n: &mut [u64], header: u32, var_bits: u64) -> Flow {
        let h = &self.c.headers[header as usize];
        let Some(base) = self.header(n, h) else {
            return self.fail(self.c.errors.stack);
        };
        let bits = self.packet.len() * 8;
        // BMv2 reads varbits of whole bytes only, and looks for errors in this order.
        if !var_bits.is_multiple_of(8) {
            return self.fail(self.c.errors.invalid_argument);
        }
        if var_bits > bits as u64 || self.at + h.fixed_bits + var_bits as usize > bits {
            return self.fail(self.c.errors.too_short);
        }
        let var_bits = var_bits as u32;
        if h.varbit.is_some_and(|v| var_bits > h.fields[v].1) {
            return self.fail(self.c.errors.header_too_short);
        }
        self.read(n, h, base, var_bits);
        self.at += h.fixed_bits + if h.varbit.is_some() { var_bits as usize } else { 0 };
        n[base] = 1;
        if !h.siblings.is_empty() {
            self.clear_siblings(n, h);
        }
        if let Some(s) = h.next.and_then(|next| self.slot(n, next)) {
            n[s] += 1;
        }
        Flow::Next
    }

    /// Fields from where the parser is; that they are there has been checked.
    fn read(&mut self, n: &mut [u64], h: &HeaderCode, base: usize, var_bits: u32) {
        if self.at.is_multiple_of(8) && !h.reads.is_empty() {
            let bytes = &self.packet[self.at / 8..self.at / 8 + h.fixed_bits.div_ceil(8)];
            let mut short = [0; 8];
            let bytes = if bytes.len() < 8 {
                short[..bytes.len()].copy_from_slice(bytes);
                &short
            } else {
                bytes
            };
            for f in &h.reads {
                match f {
                    FieldIn::Fast { offset, at, right, sh } => {
                        let at = *at as usize;
                        let v = bytes[at..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
                        n[base + *offset as usize] = (v >> right) & (u64::MAX >> sh);
                    }
                    FieldIn::Slow { offset, at, width } => {
                        let v = read_bits(self.packet, self.at + *at as usize, *width);
                        self.set(n, base + *offset as usize, v);
                    }
                }
            }
            return;
        }
        let mut at = self.at;
        for (i, (offset, w)) in h.fields.iter().enumerate() {
            let (slot, is_var) = (base + *offset as usize, h.varbit == Some(i));
            let w = if is_var { var_bits } else { *w };
            let v = read_bits(self.packet, at, w);
            self.set(n, slot, v);
            if is_var {
                n[slot + 1] = u64::from(var_bits);
            }
            at += w as usize;
        }
    }

    fn lookahead(&mut self, n: &mut [u64], header: u32) -> Flow {
        let h = &self.c.headers[header as usize];
        if self.at + h.fixed_bits > self.packet.len() * 8 {
            return self.fail(self.c.errors.too_short);
        }
        self.read(n, h, h.base as usize, 0);
        h.valid.iter().for_each(|v| n[*v as usize] = 1);
        Flow::Next
    }

    fn emit(&mut self, n: &[u64], header: u32) {
        let h = &self.c.headers[header as usize];
        let Some(base) = self.header(n, h).filter(|at| n[*at] != 0) else {
            return;
        };
        if self.s.head.bits.is_multiple_of(8) && !h.writes.is_empty() {
            let mut bytes = 0;
            for f in &h.writes {
                match f {
                    FieldOut::Or { offset, left } => bytes |= n[base + *offset as usize] << left,
                    FieldOut::Bytes(count) => {
                        self.s.head.push_small(bytes, 8 * u32::from(*count));
                        bytes = 0;
                    }
                    FieldOut::Wide { offset, width } => {
                        let v = self.get(n, base + *offset as usize);
                        self.s.head.push(&v, *width);
                    }
                }
            }
            return;
        }
        for (i, (offset, w)) in h.fields.iter().enumerate() {
            let slot = base + *offset as usize;
            let w = if h.varbit == Some(i) { n[slot + 1] as u32 } else { *w };
            if w > 0 {
                let v = self.get(n, slot);
                self.s.head.push(&v, w);
            }
        }
    }

    fn shift(&mut self, n: &mut [u64], stack: u32) {
        let x = &self.c.stacks[stack as usize];
        let Some(next) = self.slot(n, x.at) else { return };
        let (first, by) = (next + 1, x.by);
        let cells = &mut n[first..first + x.each * x.len];
        if x.push {
            cells.rotate_right(by * x.each);
            cells[..by * x.each].fill(0);
        } else {
            cells.rotate_left(by * x.each);
            cells[(x.len - by) * x.each..].fill(0);
        }
        for offset in &x.wide {
            // Each element takes what lay `by` before or behind it.
            for k in 0..x.len {
                let to = if x.push { x.len - 1 - k } else { k };
                let from = if x.push { to.checked_sub(by) } else { Some(to + by).filter(|f| *f < x.len) };
                let v = from.map_or(Val::S(0), |f| self.get(n, first + f * x.each + offset));
                self.set(n, first + to * x.each + offset, v);
            }
        }
        let by = by as u64;
        n[next] = if x.push { n[next].saturating_add(by).min(x.len as u64) } else { n[next].saturating_sub(by) };
    }

    fn hash(&mut self, n: &[u64], hash: u32) -> u64 {
        let x = &self.c.hashes[hash as usize];
        let rest = match x.rest {
            Rest::Nothing => &[],
            Rest::Unread => &self.packet[(self.at / 8).min(self.packet.len())..],
            Rest::Payload => self.payload,
        };
        match x.algo {
            HashAlgo::Random => self.st.random(),
            HashAlgo::Csum16 => self.checksum(n, x, rest),
            algo => {
                self.gather(n, &x.data);
                self.s.data.bytes.extend_from_slice(rest);
                hash_of(algo, &self.s.data.bytes)
            }
        }
    }

    fn gather(&mut self, n: &[u64], data: &Data) {
        self.s.data.clear();
        for (v, width, length) in data {
            let w = length.map_or(*width, |l| n[l as usize] as u32);
            match v {
                Src::N(c) if w <= 64 => self.s.data.push_small(n[*c as usize], w),
                v => {
                    let v = self.src(n, *v);
                    self.s.data.push(&v, w);
                }
            }
        }
    }

    /// The Internet checksum of fields and bytes, without laying the fields out: RFC 1071's sum does not mind in which
    /// order and in how wide words it is taken, as long as each value stands at its place within 16 bits.
    fn checksum(&self, n: &[u64], x: &HashCode, rest: &[u8]) -> u64 {
        let mut placed = 0u64;
        for (c, left) in &x.placed {
            let (sum, carry) = placed.overflowing_add(n[*c as usize] << left);
            placed = sum + u64::from(carry);
        }
        let (mut sum, mut at) = (placed as u128, x.placed_bits);
        let mut add = |v: u128| sum += (v as u64 as u128) + (v >> 64);
        for (v, width, length) in &x.data {
            let w = length.map_or(*width, |l| n[l as usize] as u32);
            at += w;
            if w == 0 {
                continue;
            }
            let left = (16 - at % 16) % 16;
            match v {
                Src::N(c) => add((n[*c as usize] as u128) << left),
                Src::W(w) => match &self.s.wide[*w as usize] {
                    Val::S(v) => {
                        add((*v as u64 as u128) << left);
                        add((v >> 64) << left);
                    }
                    Val::B(v) => v.iter_u64_digits().for_each(|d| add((d as u128) << left)),
                },
            }
        }
        let mut words = rest.chunks_exact(2);
        let mut tail = words.by_ref().map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>();
        tail += words.remainder().first().map_or(0, |b| u64::from(*b) << 8);
        // Bytes behind an odd number of others stand the other way round.
        add(if at.div_ceil(8).is_multiple_of(2) { tail as u128 } else { (tail as u128) << 8 });
        // Halves of a number add up as its words do.
        let sum = (sum as u64 as u128) + (sum >> 64);
        let mut sum = (sum as u32 as u64) + ((sum >> 32) as u32 as u64) + (sum >> 64) as u64;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !sum & 0xffff
    }

    fn apply(&mut self, n: &mut [u64], t: usize) -> Flow {
        let x = &self.c.tables[t];
        if self.is_spent(self.st.tables[t].rows() as u64 / 8) {
            return self.too_long();
        }
        // A table without keys always runs its default action.
        let place = if x.has_keys { self.lookup(n, t, x) } else { None };
        let table = &mut self.st.tables[t];
        let length = u64::from(self.length);
        let set = |n: &mut [u64], wide: &mut [Val], a: &ActionCode, args: &[Val]| {
            for ((to, w), v) in a.params.iter().zip(args) {
                match to {
                    Src::N(c) => n[*c as usize] = v.low() as u64 & (u64::MAX >> (64 - w.clamp(&1, &64))),
                    Src::W(c) => wide[*c as usize] = v.clone().mask(*w),
                }
            }
        };
        let entry = place.and_then(|at| table.at(at));
        let hit = entry.is_some();
        let (mut action, mut metered) = (None, false);
        let call = match entry {
            Some(e) => {
                e.packets += 1;
                e.bytes += length;
                // As in BMv2 a hit is metered once and before the action, whether or not that reads the color.
                if let Some((m, to)) = x.meter {
                    let color = e.meter.color(self.p.meters[m].kind, length, self.now_us);
                    match to {
                        Some(Src::N(c)) => n[c as usize] = u64::from(color),
                        Some(Src::W(c)) => self.s.wide[c as usize] = Val::S(color.into()),
                        None => {}
                    }
                    self.s.hits.push((t, color));
                    metered = true;
                }
                if let Some(q) = &e.quick {
                    for ((to, _), v) in x.actions[q.action as usize].params.iter().zip(q.args) {
                        if let Src::N(c) = to {
                            n[*c as usize] = v;
                        }
                    }
                    action = Some(q.action as usize);
                }
                &e.action
            }
            None => {
                table.misses = (table.misses.0 + 1, table.misses.1 + length);
                &table.default
            }
        };
        let action = match (action, call) {
            (Some(a), _) => a,
            (None, EntryAction::Call(call)) => {
                set(n, &mut self.s.wide, &x.actions[call.action], &call.args);
                call.action
            }
            (None, EntryAction::Member(_) | EntryAction::Group(_)) => {
                let Some(profile) = x.profile else {
                    return Flow::Next;
                };
                let id = match *call {
                    EntryAction::Group(g) => self.choose(n, x, profile, g),
                    EntryAction::Member(m) => Some(m),
                    EntryAction::Call(_) => None,
                };
                let member = id.and_then(|id| self.st.profiles[profile].members.get(&id));
                let found = member.and_then(|m| Some((m, x.actions.iter().position(|a| a.body == m.body)?)));
                match (found, &self.st.tables[t].default) {
                    (Some((m, i)), _) => {
                        set(n, &mut self.s.wide, &x.actions[i], &m.args);
                        i
                    }
                    // A group without members runs the default, as BMv2's empty group does.
                    (None, EntryAction::Call(call)) => {
                        set(n, &mut self.s.wide, &x.actions[call.action], &call.args);
                        call.action
                    }
                    _ => return Flow::Next,
                }
            }
        };
        let a = &x.actions[action];
        let flow = self.run_action(n, a);
        if metered {
            self.s.hits.pop();
        }
        n[x.hit as usize] = u64::from(hit);
        n[x.action_run as usize] = action as u64;
        flow
    }

    /// Code before the action, the action, code after it.
    fn run_action(&mut self, n: &mut [u64], a: &ActionCode) -> Flow {
        if self.is_spent(u64::from(a.cost)) {
            return self.too_long();
        }
        if a.before != 0 {
            match self.run(n, a.before) {
                Flow::Next => {}
                f => return f,
            }
        }
        let f = self.run(n, a.to);
        let g = if a.after == 0 { Flow::Next } else { self.run(n, a.after) };
        if f == Flow::Next { g } else { f }
    }

    fn lookup(&self, n: &[u64], t: usize, x: &TableCode) -> Option<u32> {
        let (mut few, mut many) = ([0; FEW_WORDS], Vec::new());
        let words = if x.words <= FEW_WORDS {
            &mut few[..x.words]
        } else {
            many.resize(x.words, 0);
            &mut many[..]
        };
        for (key, f) in &x.keys {
            match key {
                Src::N(c) if f.words == 1 => words[f.word] |= n[*c as usize] << f.shift,
                key => f.pack(&self.src(n, *key), words),
            }
        }
        self.st.tables[t].lookup(words)
    }

    fn choose(&mut self, n: &[u64], x: &TableCode, profile: usize, group: u32) -> Option<u32> {
        let (algo, _) = self.p.profiles[profile].selector?;
        self.gather(n, &x.selector);
        let h = match algo {
            HashAlgo::Random => self.st.random(),
            algo => hash_of(algo, &self.s.data.bytes),
        };
        // BMv2 knows nothing of the selector's width and takes 32 bits of what the algorithm gives.
        let h = h & 0xffff_ffff;
        let members = self.st.profiles[profile].groups.get(&group).filter(|m| !m.is_empty())?;
        Some(members[(h % members.len() as u64) as usize])
    }
}

fn index(v: u64) -> usize {
    usize::try_from(v).unwrap_or(usize::MAX)
}

fn field_list(n: &[u64], list: Cell) -> Option<u64> {
    (list != NARROW).then(|| n[list as usize])
}

fn truth(v: bool) -> Val {
    Val::S(v as u128)
}

/// An operation on values of any width: what [`Ins`] does where 64 bits are enough, and the rule it is tested by.
pub fn binary(op: Op, w: u32, x: Val, y: Val) -> Val {
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
        Op::Eq => truth(x == y),
        Op::Ne => truth(x != y),
        Op::Lt => truth(x < y),
        Op::Le => truth(x <= y),
        Op::LtS => truth(x.to_int(w, true) < y.to_int(w, true)),
        Op::LeS => truth(x.to_int(w, true) <= y.to_int(w, true)),
    }
}

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut k) = (i as u32, 0);
        while k < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            k += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// CRC-16/ARC: polynomial 0x8005 reflected, start 0.
const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut k) = (i as u16, 0);
        while k < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xa001 } else { crc >> 1 };
            k += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC32: [u32; 256] = crc32_table();
static CRC16: [u16; 256] = crc16_table();

/// v1model's algorithms over whole bytes; `random` is no function of them, and 0 here.
pub fn hash_of(algo: HashAlgo, data: &[u8]) -> u64 {
    let words = || data.chunks(2).map(|c| u64::from(c[0]) << 8 | c.get(1).map_or(0, |b| u64::from(*b)));
    match algo {
        HashAlgo::Csum16 => {
            let mut sum: u64 = words().sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            !sum & 0xffff
        }
        HashAlgo::Xor16 => words().fold(0, |x, w| x ^ w),
        HashAlgo::Crc16 => data.iter().fold(0, |crc: u16, b| CRC16[usize::from((crc as u8) ^ b)] ^ (crc >> 8)).into(),
        HashAlgo::Crc32 => {
            (!data.iter().fold(!0, |crc: u32, b| CRC32[usize::from((crc as u8) ^ b)] ^ (crc >> 8))).into()
        }
        // BMv2's identity keeps the first 64 bits.
        HashAlgo::Identity => data.iter().take(8).fold(0, |v, b| v << 8 | u64::from(*b)),
        HashAlgo::Random => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_standard_check_string() {
        let data = b"123456789";
        assert_eq!(hash_of(HashAlgo::Crc32, data), 0xcbf4_3926);
        assert_eq!(hash_of(HashAlgo::Crc16, data), 0xbb3d);
    }

    #[test]
    fn checksum_of_rfc_1071s_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(hash_of(HashAlgo::Csum16, &data), u64::from(!0xddf2u16));
        assert_eq!(hash_of(HashAlgo::Xor16, &data), 0x0001 ^ 0xf203 ^ 0xf4f5 ^ 0xf6f7);
    }
}
