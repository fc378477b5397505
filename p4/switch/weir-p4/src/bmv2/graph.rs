// SPDX-License-Identifier: Apache-2.0
//! Structured code from a graph of steps without loops: what follows a branch is where its ways meet again.
use super::tree::{Item, Res};
use crate::bytecode::ir::{Block, Expression, Statement, SwitchCase};
use std::collections::HashMap;

/// Number of a step; `None` is the end.
pub(super) type To = Option<usize>;

#[derive(Debug)]
pub(super) enum Branch {
    Always(To),
    If(Expression, To, To),
    /// Value, ways by number, the way of all others.
    Switch(Expression, Vec<(u64, To)>, To),
}

#[derive(Debug)]
pub(super) struct Step {
    pub code: Block,
    pub branch: Branch,
}

impl Branch {
    fn ways(&self) -> Vec<To> {
        match self {
            Branch::Always(a) => vec![*a],
            Branch::If(_, a, b) => vec![*a, *b],
            Branch::Switch(_, ways, rest) => ways.iter().map(|w| w.1).chain([*rest]).collect(),
        }
    }
}

/// Branches within each other.
const MAX_DEPTH: usize = 400;
/// Copies of steps in all, where ways meet elsewhere than at their branch's end.
const MAX_COPIES: usize = 100_000;

struct Structure<'g, 'i> {
    steps: &'g [Step],
    /// The step at which all ways of each step meet; the number of steps is the end.
    meets: Vec<usize>,
    procs: &'g mut Vec<Block>,
    /// Procedures of the ways from a step to another that were needed more than once, and whether they were once.
    seen: HashMap<(usize, usize), Option<usize>>,
    copies: usize,
    item: &'g Item<'i>,
}

/// The code that begins at `start`.
pub(super) fn structure(steps: &[Step], start: To, procs: &mut Vec<Block>, item: &Item) -> Res<Block> {
    let end = steps.len();
    let order = ordered(steps, start, item)?;
    let (mut meets, mut depth) = (vec![end; end + 1], vec![0usize; end + 1]);
    for i in order {
        let mut all = steps[i].branch.ways().into_iter().map(|t| t.unwrap_or(end));
        let first = all.next().unwrap_or(end);
        let meet = all.fold(first, |mut a, mut b| {
            while a != b {
                let deeper = if depth[a] >= depth[b] { &mut a } else { &mut b };
                *deeper = meets[*deeper];
            }
            a
        });
        (meets[i], depth[i]) = (meet, depth[meet] + 1);
    }
    let mut s = Structure { steps, meets, procs, seen: HashMap::new(), copies: 0, item };
    s.emit(start.unwrap_or(end), end, 0)
}

/// Steps in an order in which each comes after those that may follow it.
fn ordered(steps: &[Step], start: To, item: &Item) -> Res<Vec<usize>> {
    let (mut order, mut state) = (Vec::new(), vec![0u8; steps.len()]);
    let mut open: Vec<(usize, Vec<To>)> = start.map(|s| (s, steps[s].branch.ways())).into_iter().collect();
    start.into_iter().for_each(|s| state[s] = 1);
    while let Some((i, ways)) = open.last_mut() {
        match ways.pop() {
            Some(Some(next)) => match state[next] {
                0 => {
                    state[next] = 1;
                    open.push((next, steps[next].branch.ways()));
                }
                1 => return item.unsupported("a loop"),
                _ => {}
            },
            Some(None) => {}
            None => {
                state[*i] = 2;
                order.push(*i);
                open.pop();
            }
        }
    }
    Ok(order)
}

impl Structure<'_, '_> {
    fn emit(&mut self, mut at: usize, stop: usize, depth: usize) -> Res<Block> {
        let mut out = Block::new();
        if depth > MAX_DEPTH {
            return self.item.unsupported(format!("more than {MAX_DEPTH} conditions within each other"));
        }
        while at != stop {
            self.copies += 1;
            if self.copies > MAX_COPIES {
                return self.item.unsupported("a control flow whose ways cross too often");
            }
            let steps = self.steps;
            out.extend(steps[at].code.iter().cloned());
            let meet = self.meets[at];
            match &steps[at].branch {
                Branch::Always(_) => {}
                Branch::If(c, a, b) => {
                    let (a, b) = (self.way(*a, meet, depth)?, self.way(*b, meet, depth)?);
                    if !(a.is_empty() && b.is_empty()) {
                        out.push(Statement::If(c.clone(), a, b));
                    }
                }
                Branch::Switch(e, ways, rest) => out.extend(self.switch(e, ways, *rest, meet, depth)?),
            }
            at = meet;
        }
        Ok(out)
    }

    fn switch(
        &mut self,
        e: &Expression,
        ways: &[(u64, To)],
        rest: To,
        meet: usize,
        depth: usize,
    ) -> Res<Option<Statement>> {
        let (mut targets, mut cases, mut bodies): (Vec<To>, Vec<SwitchCase>, Vec<Block>) = Default::default();
        for (value, to) in ways.iter().filter(|(_, to)| *to != rest) {
            let value = Expression::Const((*value as u128).into());
            match targets.iter().position(|t| t == to) {
                Some(i) => cases[i].values.push(value),
                None => {
                    targets.push(*to);
                    cases.push(SwitchCase { values: vec![value], body: bodies.len() });
                    bodies.push(self.way(*to, meet, depth)?);
                }
            }
        }
        if cases.is_empty() {
            // All ways are the same: they meet at once.
            return Ok(None);
        }
        bodies.push(self.way(rest, meet, depth)?);
        let default = Some(bodies.len() - 1);
        Ok(Some(Statement::Switch(e.clone(), cases, bodies, default)))
    }

    /// One way of a branch. The second time that it is needed it becomes a procedure.
    fn way(&mut self, to: To, meet: usize, depth: usize) -> Res<Block> {
        let from = to.unwrap_or(self.steps.len());
        if from == meet {
            return Ok(Block::new());
        }
        match self.seen.get(&(from, meet)).copied() {
            Some(Some(p)) => Ok(vec![Statement::Call(Block::new(), p, Block::new())]),
            Some(None) => {
                let code = self.emit(from, meet, depth + 1)?;
                self.procs.push(code);
                let p = self.procs.len() - 1;
                self.seen.insert((from, meet), Some(p));
                Ok(vec![Statement::Call(Block::new(), p, Block::new())])
            }
            None => {
                self.seen.insert((from, meet), None);
                self.emit(from, meet, depth + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    /// Steps that write their own number; the run of the structured code.
    fn traces(ways: &[Branch]) -> Res<Vec<Vec<usize>>> {
        let json = serde_json::Value::Null;
        let item = tree::Item::root(&json);
        let mut procs = Vec::new();
        let steps = ways.iter().enumerate().map(|(i, b)| {
            let branch = match b {
                Branch::Always(a) => Branch::Always(*a),
                Branch::If(_, a, b) => Branch::If(Expression::Load(1000 + i), *a, *b),
                Branch::Switch(_, w, r) => Branch::Switch(Expression::Load(1000 + i), w.clone(), *r),
            };
            Step { code: vec![Statement::Zero(i, 0)], branch }
        });
        let steps: Vec<Step> = steps.collect();
        let code = structure(&steps, Some(0), &mut procs, &item)?;
        let choices = 1usize << ways.len();
        Ok((0..choices)
            .map(|choice| {
                let mut out = Vec::new();
                run(&code, &procs, choice, &mut out);
                let (mut at, mut want) = (Some(0), Vec::new());
                while let Some(i) = at {
                    want.push(i);
                    let bit = choice >> i & 1;
                    at = match &ways[i] {
                        Branch::Always(a) => *a,
                        Branch::If(_, a, b) => {
                            if bit == 1 {
                                *a
                            } else {
                                *b
                            }
                        }
                        Branch::Switch(_, w, r) => w.iter().find(|x| x.0 == bit as u64).map_or(*r, |x| x.1),
                    };
                }
                assert_eq!(out, want, "choice {choice:b}");
                out
            })
            .collect())
    }

    fn run(code: &Block, procs: &[Block], choice: usize, out: &mut Vec<usize>) {
        let bit = |e: &Expression| match e {
            Expression::Load(s) => choice >> (s - 1000) & 1,
            Expression::Not(x) => match &**x {
                Expression::Load(s) => 1 - (choice >> (s - 1000) & 1),
                _ => unreachable!(),
            },
            _ => unreachable!(),
        };
        for s in code {
            match s {
                Statement::Zero(i, _) => out.push(*i),
                Statement::If(c, a, b) => run(if bit(c) == 1 { a } else { b }, procs, choice, out),
                Statement::Call(_, p, _) => run(&procs[*p], procs, choice, out),
                Statement::Switch(e, cases, bodies, rest) => {
                    let value = Expression::Const((bit(e) as u128).into());
                    let is = |v: &Expression| format!("{v:?}") == format!("{value:?}");
                    let body = cases.iter().find(|c| c.values.iter().any(is)).map(|c| c.body).or(*rest);
                    run(&bodies[body.unwrap()], procs, choice, out);
                }
                _ => unreachable!(),
            }
        }
    }

    fn branch(a: usize, b: usize) -> Branch {
        Branch::If(Expression::Load(0), Some(a), Some(b))
    }

    #[test]
    fn ways_run_as_the_graph_says() {
        let end = || Branch::Always(None);
        let to = |i| Branch::Always(Some(i));
        traces(&[branch(1, 2), to(3), to(3), end()]).unwrap();
        traces(&[branch(1, 2), branch(3, 4), branch(3, 4), to(5), to(5), end()]).unwrap();
        traces(&[branch(1, 3), branch(2, 4), branch(3, 4), to(4), end()]).unwrap();
        traces(&[Branch::Switch(Expression::Load(0), vec![(0, Some(1)), (1, None)], Some(2)), to(2), end()]).unwrap();
        assert!(traces(&[branch(1, 2), to(0), end()]).is_err());
    }

    #[test]
    fn crossing_ways_stay_small() {
        // Each pair of steps leads to both of the next.
        let n = 8;
        let ways = (0..n).map(|i| match i {
            0 => branch(1, 2),
            i if i + 2 + i % 2 < n => branch(i + 1 + i % 2, i + 2 + i % 2),
            _ => Branch::Always(None),
        });
        traces(&ways.collect::<Vec<_>>()).unwrap();
    }
}
