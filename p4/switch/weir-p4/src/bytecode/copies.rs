// SPDX-License-Identifier: Apache-2.0
//! The copies of parameters that calls can leave out: into slots that nothing reads, and back from slots that hold what
//! they were given. Slots are looked at for the whole program: where one is read in vain its copy stays.
use crate::bytecode::accesses::{self, Access};
use crate::bytecode::ir::*;
use crate::bytecode::operators::Slot;
use crate::bytecode::program::{Program, Table};
use rustc_hash::{FxHashMap, FxHashSet};

/// Accesses looked at, and slots that callees write at each of their calls: more than a large program has.
const MOST_LOOKS: usize = 4_000_000;

/// The copies that a program needs.
#[derive(Default)]
pub struct Copies {
    /// Slots whose value somebody reads; empty where all copies are made.
    needed: Vec<bool>,
    /// Slots that each procedure writes, with those of what it calls.
    writes: Vec<FxHashSet<Slot>>,
}

/// A call's copies back to slots that hold the value already.
pub type Unchanged = FxHashSet<Slot>;

impl Copies {
    /// All copies where it would take too long to find out more.
    pub fn of(p: &Program) -> Copies {
        let Some(writes) = Writes::of(p) else { return Copies::default() };
        let mut copies = Copies { needed: Vec::new(), writes };
        copies.needed = copies.reads(p);
        copies
    }

    /// Whether a value in this slot has an effect.
    pub fn is_needed(&self, s: Slot) -> bool {
        self.needed.get(s).is_none_or(|n| *n)
    }

    /// The slots that a call's copy out would leave as they are: neither they nor the parameters' slots have changed.
    pub fn unchanged(&self, before: &Block, body: usize, after: &Block) -> Unchanged {
        let Some(writes) = self.writes.get(body) else { return Unchanged::default() };
        let (given, given_writes) = assigned(before);
        let (taken, taken_writes) = assigned(after);
        let once = |all: &FxHashMap<Slot, usize>, s: &Slot| all.get(s) == Some(&1);
        let is_same = |&(to, from): &(&Slot, &Slot)| {
            given.get(from) == Some(to)
                && once(&given_writes, from)
                && !given_writes.contains_key(to)
                && once(&taken_writes, to)
                && !taken_writes.contains_key(from)
                && !writes.contains(to)
                && !writes.contains(from)
        };
        taken.iter().filter(is_same).map(|(to, _)| *to).collect()
    }

    /// Slots that somebody reads, or that are copied to such a slot.
    fn reads(&self, p: &Program) -> Vec<bool> {
        let mut needed = vec![false; p.slots];
        let mut moves: FxHashMap<Slot, Vec<Slot>> = FxHashMap::default();
        let mut list: Vec<Slot> = (p.headers.0..p.std.0 + p.std.1).collect();
        list.extend(p.field_lists.iter().flat_map(|l| &l.1));
        let mut f = |a: Access<'_>| self.read(a, &mut list, &mut moves);
        p.procs.iter().for_each(|b| accesses::block(b, &mut f));
        for (_, code, next) in p.parsers.iter().flat_map(|x| &x.states) {
            accesses::block(code, &mut f);
            accesses::next(next, &mut f);
        }
        for t in &p.tables {
            accesses::block(&t.before, &mut f);
            t.keys.iter().for_each(|k| accesses::expression(&k.ex, &mut f));
            for a in &t.actions {
                accesses::block(&a.before, &mut f);
                accesses::block(&a.after, &mut f);
            }
        }
        while let Some(s) = list.pop() {
            if let Some(n) = needed.get_mut(s).filter(|n| !**n) {
                *n = true;
                list.extend(moves.get(&s).into_iter().flatten());
            }
        }
        needed
    }

    fn read(&self, a: Access<'_>, list: &mut Vec<Slot>, moves: &mut FxHashMap<Slot, Vec<Slot>>) {
        match a {
            Access::Read(s) => list.push(s),
            Access::Move { from, to } => moves.entry(to).or_default().push(from),
            Access::Call(before, body, after) => {
                let unchanged = self.unchanged(before, body, after);
                accesses::block(before, &mut |a| self.read(a, list, moves));
                for s in after {
                    accesses::block(std::slice::from_ref(s), &mut |a| match a {
                        Access::Move { to, .. } if is_copy(s) && unchanged.contains(&to) => {}
                        a => self.read(a, list, moves),
                    });
                }
            }
            Access::Write(_) | Access::Parser | Access::Table(_) => {}
        }
    }
}

/// Whether a statement copies slots and nothing else.
fn is_copy(s: &Statement) -> bool {
    matches!(s, Statement::Copy(..) | Statement::Set(_, Expression::Load(_)))
}

/// The copies of a block, from the slots that they write to those that they read, and how often it writes each slot.
fn assigned(code: &Block) -> (FxHashMap<Slot, Slot>, FxHashMap<Slot, usize>) {
    let (mut copies, mut writes) = (FxHashMap::default(), FxHashMap::default());
    for s in code {
        accesses::block(std::slice::from_ref(s), &mut |a| match a {
            Access::Move { from, to } => {
                if is_copy(s) {
                    copies.insert(to, from);
                }
                *writes.entry(to).or_insert(0) += 1;
            }
            Access::Write(to) => *writes.entry(to).or_insert(0) += 1,
            _ => {}
        });
    }
    (copies, writes)
}

/// Finds the slots that procedures write.
struct Writes<'p> {
    program: &'p Program,
    /// The slots of direct meters' colors, which tables write.
    colors: Vec<Slot>,
    procs: Vec<Option<FxHashSet<Slot>>>,
    looks: usize,
}

impl<'p> Writes<'p> {
    fn of(p: &'p Program) -> Option<Vec<FxHashSet<Slot>>> {
        let mut w = Writes { program: p, colors: Vec::new(), procs: vec![None; p.procs.len()], looks: 0 };
        w.colors = colors(p);
        for i in 0..p.procs.len() {
            w.body(i)?;
        }
        w.procs.into_iter().collect()
    }

    fn body(&mut self, i: usize) -> Option<&FxHashSet<Slot>> {
        if self.procs[i].is_none() {
            let mut out = FxHashSet::default();
            let p = self.program;
            self.block(&p.procs[i], &mut out)?;
            self.procs[i] = Some(out);
        }
        let written = self.procs[i].as_ref()?;
        self.looks += written.len();
        (self.looks <= MOST_LOOKS).then_some(written)
    }

    fn block(&mut self, code: &'p Block, out: &mut FxHashSet<Slot>) -> Option<()> {
        let (mut calls, mut is_known) = (Vec::new(), true);
        accesses::block(code, &mut |a| {
            self.looks += 1;
            match a {
                Access::Read(_) => {}
                Access::Write(to) | Access::Move { to, .. } => _ = out.insert(to),
                // A parser in a parser; controls have none.
                Access::Parser => is_known = false,
                a @ (Access::Call(..) | Access::Table(_)) => calls.push(a),
            }
        });
        if self.looks > MOST_LOOKS {
            return None;
        }
        for a in calls {
            match a {
                Access::Call(before, body, after) => {
                    self.block(before, out)?;
                    self.block(after, out)?;
                    out.extend(self.body(body)?);
                }
                Access::Table(t) => self.table(&self.program.tables[t], out)?,
                _ => {}
            }
        }
        is_known.then_some(())
    }

    fn table(&mut self, t: &'p Table, out: &mut FxHashSet<Slot>) -> Option<()> {
        out.extend([t.hit, t.action_run]);
        out.extend(&self.colors);
        self.block(&t.before, out)?;
        for a in &t.actions {
            out.extend(a.params.iter().map(|x| x.slot));
            self.block(&a.before, out)?;
            self.block(&a.after, out)?;
            out.extend(self.body(a.body)?);
        }
        Some(())
    }
}

/// Slots that tables with direct meters may write.
fn colors(p: &Program) -> Vec<Slot> {
    if p.tables.iter().all(|t| t.meter.is_none()) {
        return Vec::new();
    }
    fn find(code: &Block, out: &mut Vec<Slot>) {
        for s in code {
            match s {
                Statement::DirectMeter(_, to) => out.push(to.base),
                Statement::If(_, a, b) => {
                    find(a, out);
                    find(b, out);
                }
                Statement::Switch(_, _, bodies, _) => bodies.iter().for_each(|b| find(b, out)),
                Statement::Group(b) => find(b, out),
                Statement::Loop(a, _, b, c) => [a, b, c].into_iter().for_each(|b| find(b, out)),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    p.procs.iter().for_each(|b| find(b, &mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::code::{Code, Instruction};
    use crate::bytecode::lower::{lower, lower_traced};
    use crate::bytecode::operators::Operator;
    use crate::exec::State;
    use crate::exec::interpreter::{Input, Machine, Scratch};
    use crate::value::Val;
    use proptest::prelude::*;

    /// Slots that are a packet's state, and all slots.
    const PACKET: usize = 4;
    const SLOTS: usize = 12;

    fn place(base: Slot) -> Address {
        Address { base, dyns: Vec::new() }
    }

    fn program(procs: Vec<Block>) -> Program {
        let (headers, meta, std) = ((0, 2), (2, 1), (3, PACKET - 3));
        Program { slots: SLOTS, headers, meta, std, procs, ..Program::default() }
    }

    /// The packet's state after the first procedure.
    fn run(p: &Program, code: &Code, start: [u64; SLOTS]) -> Vec<u64> {
        let (mut state, mut scratch) = (State::new(p, 1), Scratch::new(code.wide_cells));
        let mut frame = code.frame.clone();
        frame[..SLOTS].copy_from_slice(&start);
        let input = Input { packet: &[], length_bytes: 0, now_us: 0, drop_port: 0 };
        assert!(Machine::new(code, p, &mut state, &mut scratch, input).control(&mut frame, 0));
        frame[..PACKET].to_vec()
    }

    fn copy() -> impl Strategy<Value = Statement> {
        (0..SLOTS, 0..SLOTS, 1..4usize).prop_map(|(from, to, n)| match n {
            1 => Statement::Set(to, Expression::Load(from)),
            n => Statement::Copy(place(from.min(SLOTS - n)), place(to.min(SLOTS - n)), n),
        })
    }

    fn copies() -> impl Strategy<Value = Block> {
        prop::collection::vec(copy(), 0..4)
    }

    fn work() -> impl Strategy<Value = Statement> {
        let add = |(to, from, n): (Slot, Slot, u128)| {
            let sum = Box::new((Expression::Load(from), Expression::Const(Val::S(n))));
            Statement::Set(to, Expression::Bin(Operator::Add, 32, sum))
        };
        prop_oneof![copy(), (0..SLOTS, 0..SLOTS, 1..9u128).prop_map(add), Just(Statement::Exit)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Traced code makes all copies.
        #[test]
        fn a_packet_ends_as_with_all_copies(
            leaves in prop::collection::vec(prop::collection::vec(work(), 0..3), 2..=2),
            calls in prop::collection::vec((copies(), copies(), work()), 4..=4),
            start in any::<[u8; SLOTS]>(),
        ) {
            let call = |i: usize, callee: usize| {
                let (before, after, work) = &calls[i];
                vec![Statement::Call(before.clone(), callee, after.clone()), work.clone()]
            };
            let inner = [call(0, 2), call(1, 3)].concat();
            let outer = [call(2, 1), call(3, 2)].concat();
            let p = program([vec![outer, inner], leaves.clone()].concat());
            let (some, all) = (lower(&p).expect("it is lowered"), lower_traced(&p).expect("it is lowered"));
            let start = start.map(u64::from);
            prop_assert_eq!(run(&p, &some, start), run(&p, &all, start));
        }
    }

    #[test]
    fn what_nobody_reads_and_what_stays_is_not_copied() {
        // Three parameters of a procedure that changes the second and reads none of the others.
        let sum = Box::new((Expression::Load(6), Expression::Const(Val::S(1))));
        let body = vec![Statement::Set(6, Expression::Bin(Operator::Add, 32, sum))];
        let copy = |from: Slot, to: Slot| vec![Statement::Copy(place(from), place(to), 3)];
        let p = program(vec![vec![Statement::Call(copy(0, 5), 1, copy(5, 0))], body]);
        let code = lower(&p).expect("it is lowered");
        let moves: Vec<_> = code.ins.iter().filter(|i| matches!(i, Instruction::Copy { .. })).collect();
        assert!(moves.is_empty(), "{moves:?}");
        assert!(code.ins.iter().any(|i| matches!(i, Instruction::Move { d: 6, a: 1 })), "{:?}", code.ins);
        assert!(code.ins.iter().any(|i| matches!(i, Instruction::Move { d: 1, a: 6 })), "{:?}", code.ins);
    }
}
