// SPDX-License-Identifier: Apache-2.0
//! What a program may cost: steps of compiling, calls within calls, memory of its arrays. What a packet may cost is
//! counted while it runs; how much each piece of code adds to that is found here, once.
use crate::code::{Code, Ins, Pc, Wide};
use crate::ir::{Block, Next, Program, St};
use crate::types::Ty;
use crate::value::Val;

/// Steps of compiling: expressions and types looked at, statements and values made. pid_delay.p4 takes 30,000.
pub const COMPILE_STEPS: u64 = 3_000_000;
/// Values in one tuple, those of its members included.
pub const TUPLE_VALUES: usize = 1 << 16;
/// Fields that a type of structs, stacks and tuples has in all.
pub const TYPE_FIELDS: usize = 1 << 20;
/// Actions, functions, controls and parsers that call each other.
pub const CALL_DEPTH: usize = 500;

impl Ty {
    /// Types that it is made of, up to structs, which have a limit of their own.
    pub fn parts(&self) -> usize {
        let sum = |list: &[Ty]| list.iter().fold(1usize, |n, t| n.saturating_add(t.parts()));
        match self {
            Ty::Tuple(list) | Ty::Extern(_, list) => sum(list),
            Ty::Record(list) => list.iter().fold(1usize, |n, (_, t)| n.saturating_add(t.parts())),
            Ty::List(t) | Ty::Stack(t, _) => t.parts().saturating_add(1),
            Ty::New(n) => n.under.parts(),
            _ => 1,
        }
    }
}

/// Bytes that an array of a program takes, by its kind and name.
pub struct ArrayBytes<'a> {
    pub kind: &'static str,
    pub name: &'a str,
    pub bytes: u64,
}

impl Program {
    /// What its registers, counters and meters take when all their cells are in use.
    pub fn array_bytes(&self) -> Vec<ArrayBytes<'_>> {
        let bytes = |cells: usize, each: usize| cells as u64 * each as u64;
        let registers = self.registers.iter().map(|r| {
            let each = match r.width {
                0..=64 => 8,
                65..=128 => size_of::<Val>(),
                w => size_of::<Val>() + w.div_ceil(64) as usize * 8,
            };
            ArrayBytes { kind: "register", name: &r.name, bytes: bytes(r.size, each) }
        });
        let counters = self.counters.iter().map(|c| ArrayBytes {
            kind: "counter",
            name: &c.name,
            bytes: bytes(c.size.unwrap_or(0), size_of::<(u64, u64)>()),
        });
        let meters = self.meters.iter().map(|m| ArrayBytes {
            kind: "meter",
            name: &m.name,
            bytes: bytes(m.size.unwrap_or(0), size_of::<crate::runtime::MeterCell>()),
        });
        registers.chain(counters).chain(meters).collect()
    }

    /// How deep calls go within calls.
    pub fn call_depth(&self) -> usize {
        let mut known = Depths {
            p: self,
            procs: vec![None; self.procs.len()],
            parsers: vec![None; self.parsers.len()],
            tables: vec![None; self.tables.len()],
        };
        let procs = (0..self.procs.len()).map(|i| known.proc(i)).max();
        let parsers = (0..self.parsers.len()).map(|i| known.parser(i)).max();
        procs.max(parsers).unwrap_or(0)
    }
}

struct Depths<'p> {
    p: &'p Program,
    procs: Vec<Option<usize>>,
    parsers: Vec<Option<usize>>,
    tables: Vec<Option<usize>>,
}

impl Depths<'_> {
    fn proc(&mut self, i: usize) -> usize {
        if let Some(known) = self.procs[i] {
            return known;
        }
        let depth = 1 + self.block(&self.p.procs[i]);
        self.procs[i] = Some(depth);
        depth
    }

    fn parser(&mut self, i: usize) -> usize {
        if let Some(known) = self.parsers[i] {
            return known;
        }
        let states: &[(String, Block, Next)] = &self.p.parsers[i].states;
        let depth = 1 + states.iter().map(|s| self.block(&s.1)).max().unwrap_or(0);
        self.parsers[i] = Some(depth);
        depth
    }

    fn table(&mut self, i: usize) -> usize {
        if let Some(known) = self.tables[i] {
            return known;
        }
        let t = &self.p.tables[i];
        let action =
            |a: &crate::ir::TableAction| self.block(&a.before).max(self.proc(a.body)).max(self.block(&a.after));
        let depth = 1 + t.actions.iter().map(action).max().unwrap_or(0);
        self.tables[i] = Some(depth);
        depth
    }

    fn block(&mut self, code: &Block) -> usize {
        code.iter().map(|s| self.step(s)).max().unwrap_or(0)
    }

    fn step(&mut self, s: &St) -> usize {
        match s {
            St::If(_, yes, no) => self.block(yes).max(self.block(no)),
            St::Switch(_, _, bodies, _) => bodies.iter().map(|b| self.block(b)).max().unwrap_or(0),
            St::Group(b) => self.block(b),
            St::Loop(before, _, body, update) => self.block(before).max(self.block(body)).max(self.block(update)),
            St::Call(before, i, after) => self.block(before).max(self.proc(*i)).max(self.block(after)),
            St::CallParser(before, i, after) => self.block(before).max(self.parser(*i)).max(self.block(after)),
            St::Apply(t) => self.table(*t),
            _ => 0,
        }
    }
}

/// Steps that each instruction is, and of all before it.
fn sums(c: &Code) -> Vec<u64> {
    let mut sum = 0;
    let mut sums = Vec::with_capacity(c.ins.len() + 1);
    for i in &c.ins {
        sums.push(sum);
        sum += steps(c, i);
    }
    sums.push(sum);
    sums
}

fn steps(c: &Code, i: &Ins) -> u64 {
    /// Arithmetic on numbers of any length.
    const LONG: u64 = 16;
    fn wide(e: &Wide) -> u64 {
        match e {
            Wide::N(_) | Wide::W(_) | Wide::Const(_) | Wide::At(_) => LONG,
            Wide::BitNot(_, x) | Wide::Neg(_, x) | Wide::Not(x) | Wide::Slice(x, ..) | Wide::SignExtend(x, ..) => {
                LONG + wide(x)
            }
            Wide::Bin(_, _, ab) | Wide::LAnd(ab) | Wide::LOr(ab) | Wide::Concat(ab, _) => {
                LONG + wide(&ab.0) + wide(&ab.1)
            }
            Wide::Cond(x) => LONG + wide(&x.0) + wide(&x.1) + wide(&x.2),
        }
    }
    match *i {
        Ins::Moves { n, .. } | Ins::Copy { n, .. } | Ins::Zero { n, .. } => 1 + u64::from(n) / 8,
        Ins::CopyAt { copy } => 2 + c.copies[copy as usize].n as u64,
        Ins::Shift { stack } => {
            let s = &c.stacks[stack as usize];
            2 + (s.each * s.len) as u64
        }
        Ins::EvalWide { e, .. } | Ins::EvalLow { e, .. } | Ins::EvalIndex { e, .. } => wide(&c.wides[e as usize]),
        Ins::LoadWideAt { .. }
        | Ins::StoreWideAt { .. }
        | Ins::MoveWide { .. }
        | Ins::ToWide { .. }
        | Ins::RegisterReadWide { .. }
        | Ins::RegisterWriteWide { .. } => LONG,
        Ins::RandomWide { random, .. } => {
            let x = &c.randoms[random as usize];
            LONG + wide(&x.low) + wide(&x.high)
        }
        // The payload is up to a frame long.
        Ins::Hash { hash, .. } => {
            let x = &c.hashes[hash as usize];
            256 + x.placed.len() as u64 + LONG * x.data.len() as u64
        }
        Ins::Extract { header, .. } | Ins::Emit { header } | Ins::Lookahead { header } => {
            4 + 2 * c.headers[header as usize].fields.len() as u64
        }
        Ins::Digest { digest } => 32 + LONG * c.digests[digest as usize].values.len() as u64,
        Ins::Log { text } => 64 + LONG * c.logs[text as usize].data.len() as u64,
        Ins::Apply { .. } => 16,
        _ => 1,
    }
}

/// Says of each call, loop and parser state how many steps may follow before the next of these. `starts` is where
/// pieces of code begin that end with their own return. A loop's number holds where it ends.
pub fn fill(c: &mut Code, mut starts: Vec<Pc>) {
    let sums = sums(c);
    starts.push(c.ins.len() as Pc);
    starts.sort_unstable();
    let until = |from: Pc, to: Pc| u32::try_from(sums[to as usize] - sums[from as usize]).unwrap_or(u32::MAX);
    let whole = |from: Pc| match starts.partition_point(|s| *s <= from) {
        at if from == 0 || at >= starts.len() => 0,
        at => until(from, starts[at]),
    };
    let mut state_end = c.ins.len() as Pc;
    for at in (0..c.ins.len()).rev() {
        if starts.binary_search(&(at as Pc + 1)).is_ok() {
            state_end = at as Pc + 1;
        }
        match &mut c.ins[at] {
            Ins::Call { to, cost, .. } => *cost = whole(*to),
            Ins::LoopStep { cost } => *cost = until(at as Pc, *cost),
            Ins::ParserStep { cost } => {
                *cost = until(at as Pc, state_end);
                state_end = at as Pc;
            }
            _ => {}
        }
    }
    for a in c.tables.iter_mut().flat_map(|t| &mut t.actions) {
        a.cost = [a.before, a.to, a.after].into_iter().map(whole).fold(0, u32::saturating_add);
    }
}
