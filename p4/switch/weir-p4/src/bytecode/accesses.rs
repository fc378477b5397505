// SPDX-License-Identifier: Apache-2.0
//! The slots that statements read and write, without the statements of what they call.
use crate::bytecode::ir::*;
use crate::bytecode::operators::Slot;
use crate::bytecode::widths::candidates;

/// An access of a statement to a slot, or a call. A read or a write too many does no harm.
pub enum Access<'p> {
    Read(Slot),
    Write(Slot),
    /// A copy of one slot to another.
    Move {
        from: Slot,
        to: Slot,
    },
    /// Copy in, procedure, copy out: none of them visited.
    Call(&'p Block, usize, &'p Block),
    /// A parser that another calls.
    Parser,
    Table(usize),
}

/// Shows all accesses of a block.
pub fn block<'p>(code: &'p [Statement], f: &mut impl FnMut(Access<'p>)) {
    code.iter().for_each(|s| statement(s, f));
}

/// Reads of an expression.
pub fn expression<'p>(e: &Expression, f: &mut impl FnMut(Access<'p>)) {
    match e {
        Expression::Const(_) => {}
        Expression::Load(s) => f(Access::Read(*s)),
        Expression::LoadAt(a) => read(a, 0..1, f),
        Expression::Bin(_, _, ab) | Expression::LAnd(ab) | Expression::LOr(ab) | Expression::Concat(ab, _) => {
            expression(&ab.0, f);
            expression(&ab.1, f);
        }
        Expression::BitNot(_, x)
        | Expression::Neg(_, x)
        | Expression::Not(x)
        | Expression::Slice(x, ..)
        | Expression::SignExtend(x, ..) => expression(x, f),
        Expression::Cond(c) => {
            expression(&c.0, f);
            expression(&c.1, f);
            expression(&c.2, f);
        }
    }
}

/// Reads of a parser's transition.
pub fn next<'p>(next: &Next, f: &mut impl FnMut(Access<'p>)) {
    let Next::Select(keys, cases) = next else { return };
    keys.iter().for_each(|k| expression(k, f));
    for pattern in cases.iter().flat_map(|c| &c.0) {
        match pattern {
            Pattern::Any | Pattern::ValueSet(_) => {}
            Pattern::Value(e) => expression(e, f),
            Pattern::Mask(a, b) | Pattern::Range(a, b) | Pattern::RangeS(a, b, _) => {
                expression(a, f);
                expression(b, f);
            }
        }
    }
}

fn indices<'p>(a: &Address, f: &mut impl FnMut(Access<'p>)) {
    a.dyns.iter().for_each(|d| f(Access::Read(d.index)));
}

fn read<'p>(a: &Address, offsets: std::ops::Range<usize>, f: &mut impl FnMut(Access<'p>)) {
    indices(a, f);
    candidates(a).iter().for_each(|s| offsets.clone().for_each(|i| f(Access::Read(s + i))));
}

fn write<'p>(a: &Address, offsets: std::ops::Range<usize>, f: &mut impl FnMut(Access<'p>)) {
    indices(a, f);
    candidates(a).iter().for_each(|s| offsets.clone().for_each(|i| f(Access::Write(s + i))));
}

fn both<'p>(a: &Address, offsets: std::ops::Range<usize>, f: &mut impl FnMut(Access<'p>)) {
    read(a, offsets.clone(), f);
    write(a, offsets, f);
}

fn fields<'p>(data: &Fields, f: &mut impl FnMut(Access<'p>)) {
    for (e, _, length) in data {
        expression(e, f);
        length.iter().for_each(|l| expression(l, f));
    }
}

/// A header's validity and fields, and the validity of the other members of its union.
fn header<'p>(h: &HeaderRef, f: &mut impl FnMut(Access<'p>)) {
    let last = h.layout.fields.iter().map(|(offset, _)| offset + 1).max().unwrap_or(0);
    // A field of variable length takes a second slot.
    both(&h.addr, 0..last + 2, f);
    h.siblings.iter().for_each(|s| both(s, 0..1, f));
}

fn copy<'p>(from: &Address, to: &Address, n: usize, f: &mut impl FnMut(Access<'p>)) {
    if from.dyns.is_empty() && to.dyns.is_empty() {
        return (0..n).for_each(|i| f(Access::Move { from: from.base + i, to: to.base + i }));
    }
    read(from, 0..n, f);
    write(to, 0..n, f);
}

#[allow(clippy::too_many_lines, reason = "one match with an arm a statement, so that none is forgotten")]
fn statement<'p>(s: &'p Statement, f: &mut impl FnMut(Access<'p>)) {
    match s {
        Statement::Set(to, Expression::Load(from)) => f(Access::Move { from: *from, to: *to }),
        Statement::Set(to, e) => {
            expression(e, f);
            f(Access::Write(*to));
        }
        Statement::SetAt(a, e) => {
            expression(e, f);
            write(a, 0..1, f);
        }
        Statement::Copy(from, to, n) => copy(from, to, *n, f),
        Statement::Zero(at, n) => (*at..at + n).for_each(|s| f(Access::Write(s))),
        Statement::Return | Statement::Exit | Statement::Break | Statement::Continue | Statement::Mark(_) => {}
        Statement::Apply(t) => f(Access::Table(*t)),
        Statement::If(c, yes, no) => {
            expression(c, f);
            block(yes, f);
            block(no, f);
        }
        Statement::Switch(key, cases, bodies, _) => {
            expression(key, f);
            cases.iter().flat_map(|c| &c.values).for_each(|v| expression(v, f));
            bodies.iter().for_each(|b| block(b, f));
        }
        Statement::Group(b) => block(b, f),
        Statement::Call(before, body, after) => f(Access::Call(before, *body, after)),
        Statement::CallParser(before, _, after) => {
            block(before, f);
            f(Access::Parser);
            block(after, f);
        }
        Statement::Loop(pre, cond, body, update) => {
            block(pre, f);
            cond.iter().for_each(|c| expression(c, f));
            block(body, f);
            block(update, f);
        }
        Statement::SetValid(h, _) | Statement::OnlyMember(h) | Statement::Emit(h) => header(h, f),
        Statement::Extract(h, size, next) => {
            size.iter().for_each(|e| expression(e, f));
            header(h, f);
            next.iter().for_each(|(a, _)| both(a, 0..1, f));
        }
        Statement::Lookahead(base, list, _, valid) => {
            list.iter().for_each(|(offset, _)| f(Access::Write(base + offset)));
            valid.iter().for_each(|v| f(Access::Write(*v)));
        }
        Statement::PacketLength(slot) => f(Access::Write(*slot)),
        Statement::Advance(e) | Statement::Truncate(e) | Statement::Assert(e, _) | Statement::Count(_, e) => {
            expression(e, f);
        }
        Statement::Verify(a, b) | Statement::RegisterWrite(_, a, b) => {
            expression(a, f);
            expression(b, f);
        }
        Statement::CheckIndex(a) => read(a, 0..1, f),
        Statement::PushFront(a, each, len, _) | Statement::PopFront(a, each, len, _) => both(a, 0..1 + each * len, f),
        Statement::RegisterRead(_, to, i) | Statement::Meter(_, i, to) => {
            expression(i, f);
            both(to, 0..1, f);
        }
        Statement::DirectMeter(_, to) | Statement::DropPort(to) => both(to, 0..1, f),
        Statement::Random(to, a, b, _) => {
            expression(a, f);
            expression(b, f);
            both(to, 0..1, f);
        }
        Statement::Hash(to, _, _, base, data, max) => {
            expression(base, f);
            expression(max, f);
            fields(data, f);
            both(to, 0..1, f);
        }
        Statement::VerifyChecksum(c, data, sum, ..) => {
            expression(c, f);
            expression(sum, f);
            fields(data, f);
        }
        Statement::UpdateChecksum(c, data, to, ..) => {
            expression(c, f);
            fields(data, f);
            both(to, 0..1, f);
        }
        Statement::Digest(_, receiver, data) => {
            expression(receiver, f);
            fields(data, f);
        }
        Statement::Clone(session, list) => {
            expression(session, f);
            list.iter().for_each(|e| expression(e, f));
        }
        Statement::Resubmit(list) | Statement::Recirculate(list) => list.iter().for_each(|e| expression(e, f)),
        Statement::Log(_, data) => data.iter().for_each(|(e, ..)| expression(e, f)),
    }
}
