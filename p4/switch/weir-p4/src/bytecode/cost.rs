// SPDX-License-Identifier: Apache-2.0
//! Number of steps of each piece of code. The limit per packet is checked while the packet runs; the cost of each piece
//! is computed here, once.
use crate::bytecode::code::{Code, Instruction, Pc, Wide};

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

fn steps(c: &Code, i: &Instruction) -> u64 {
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
        Instruction::Moves { n, .. } | Instruction::Copy { n, .. } | Instruction::Zero { n, .. } => {
            1 + u64::from(n) / 8
        }
        Instruction::CopyAt { copy } => 2 + c.copies[copy as usize].n as u64,
        Instruction::Shift { stack } => {
            let s = &c.stacks[stack as usize];
            2 + (s.each * s.len) as u64
        }
        Instruction::EvalWide { e, .. } | Instruction::EvalLow { e, .. } | Instruction::EvalIndex { e, .. } => {
            wide(&c.wides[e as usize])
        }
        Instruction::LoadWideAt { .. }
        | Instruction::StoreWideAt { .. }
        | Instruction::MoveWide { .. }
        | Instruction::ToWide { .. }
        | Instruction::RegisterReadWide { .. }
        | Instruction::RegisterWriteWide { .. } => LONG,
        Instruction::RandomWide { random, .. } => {
            let x = &c.randoms[random as usize];
            LONG + wide(&x.low) + wide(&x.high)
        }
        // The payload is up to a frame long.
        Instruction::Hash { hash, .. } => {
            let x = &c.hashes[hash as usize];
            256 + x.placed.len() as u64 + LONG * x.data.len() as u64
        }
        Instruction::Extract { header, .. } | Instruction::Emit { header } | Instruction::Lookahead { header } => {
            4 + 2 * c.headers[header as usize].fields.len() as u64
        }
        Instruction::Digest { digest } => 32 + LONG * c.digests[digest as usize].values.len() as u64,
        Instruction::Log { text } => 64 + LONG * c.logs[text as usize].data.len() as u64,
        Instruction::Apply { .. } | Instruction::ApplyTraced { .. } => 16,
        // A traced program may take as many steps as any other.
        Instruction::Trace { .. } => 0,
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
            Instruction::Call { to, cost, .. } => *cost = whole(*to),
            Instruction::LoopStep { cost } => *cost = until(at as Pc, *cost),
            Instruction::ParserStep { cost } => {
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
