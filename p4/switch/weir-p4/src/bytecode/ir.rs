// SPDX-License-Identifier: Apache-2.0
//! Intermediate representation of a program. All storage is a frame of slots given out at compile time: P4 has no
//! recursion, so every variable, parameter and temporary has one place for the whole program. Expressions have no
//! effects; calls are statements that run before the expression that uses their result.
use crate::bytecode::operators::{DynIndex, HashAlgorithm, Operator, Slot};
use crate::value::Val;
use std::sync::Arc;

pub type Block = Vec<Statement>;

/// A place in the frame, possibly behind run-time stack indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    pub base: Slot,
    pub dyns: Vec<DynIndex>,
}

#[derive(Clone, Debug)]
pub enum Expression {
    Const(Val),
    Load(Slot),
    LoadAt(Box<Address>),
    /// Operands of the given width.
    Bin(Operator, u32, Box<(Expression, Expression)>),
    BitNot(u32, Box<Expression>),
    Neg(u32, Box<Expression>),
    Not(Box<Expression>),
    LAnd(Box<(Expression, Expression)>),
    LOr(Box<(Expression, Expression)>),
    /// `width` bits from bit `low` on.
    Slice(Box<Expression>, u32, u32),
    /// Left operand above a right operand of the given width.
    Concat(Box<(Expression, Expression)>, u32),
    SignExtend(Box<Expression>, u32, u32),
    Cond(Box<(Expression, Expression, Expression)>),
}

#[derive(Clone, Debug)]
pub struct HeaderLayout {
    /// Slot offset from the header's validity slot, width; a varbit's width is its largest.
    pub fields: Vec<(usize, u32)>,
    /// Index of the varbit field.
    pub varbit: Option<usize>,
    /// Bits of the fixed fields.
    pub fixed_bits: usize,
}

#[derive(Clone, Debug)]
pub struct HeaderRef {
    pub addr: Address,
    pub layout: Arc<HeaderLayout>,
    /// Validity of the other members of the header's union.
    pub siblings: Vec<Address>,
}

#[derive(Clone, Debug)]
pub enum Pattern {
    Any,
    Value(Expression),
    Mask(Expression, Expression),
    Range(Expression, Expression),
    /// Compared as signed numbers of this width.
    RangeS(Expression, Expression, u32),
    /// Matches as many keys as the set has fields.
    ValueSet(usize),
}

#[derive(Clone, Debug)]
pub enum Next {
    State(usize),
    Accept,
    Reject,
    /// Keys, cases. No match rejects.
    Select(Vec<Expression>, Vec<(Vec<Pattern>, Target)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    State(usize),
    Accept,
    Reject,
}

#[derive(Clone, Debug, Default)]
pub struct Parser {
    pub states: Vec<(String, Block, Next)>,
    pub start: usize,
}

/// Data for a digest, hash or checksum: fields with their widths; the third member is a varbit's length.
pub type Fields = Vec<(Expression, u32, Option<Expression>)>;

#[derive(Clone, Debug)]
pub struct SwitchCase {
    pub values: Vec<Expression>,
    pub body: usize,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Set(Slot, Expression),
    SetAt(Address, Expression),
    /// From, to, how many slots.
    Copy(Address, Address, usize),
    Zero(Slot, usize),
    If(Expression, Block, Block),
    Switch(Expression, Vec<SwitchCase>, Vec<Block>, Option<usize>),
    Group(Block),
    /// Copy in, body of a procedure, copy out. `return` ends the body only; copy out happens at `exit` too.
    Call(Block, usize, Block),
    /// Statements for the condition, condition, body, update.
    Loop(Block, Option<Expression>, Block, Block),
    Return,
    Exit,
    Break,
    Continue,
    Apply(usize),
    CallParser(Block, usize, Block),
    SetValid(HeaderRef, bool),
    /// When the header is valid, its union's other members are not.
    OnlyMember(HeaderRef),
    /// Header, length of the varbit in bits, the stack whose next index moves on.
    Extract(HeaderRef, Option<Expression>, Option<(Address, usize)>),
    /// Destination, fields, total bits, validity slots to set.
    Lookahead(Slot, Vec<(usize, u32)>, usize, Vec<usize>),
    Advance(Expression),
    PacketLength(Slot),
    Verify(Expression, Expression),
    /// `last` on an empty or overfull stack, `next` on a full one.
    CheckIndex(Address),
    Emit(HeaderRef),
    /// Next-index slot of the stack, slots of an element, elements, count.
    PushFront(Address, usize, usize, usize),
    PopFront(Address, usize, usize, usize),
    RegisterRead(usize, Address, Expression),
    RegisterWrite(usize, Expression, Expression),
    Count(usize, Expression),
    Meter(usize, Expression, Address),
    DirectMeter(usize, Address),
    Random(Address, Expression, Expression, u32),
    /// Destination, its width, algorithm, base, data, max.
    Hash(Address, u32, HashAlgorithm, Expression, Fields, Expression),
    /// Condition, data, checksum, its width, algorithm, with payload.
    VerifyChecksum(Expression, Fields, Expression, u32, HashAlgorithm, bool),
    UpdateChecksum(Expression, Fields, Address, u32, HashAlgorithm, bool),
    Digest(usize, Expression, Fields),
    /// Session, index of the field list.
    Clone(Expression, Option<Expression>),
    Resubmit(Option<Expression>),
    Recirculate(Option<Expression>),
    /// The port that drops, which an option of the switch sets.
    DropPort(Address),
    Truncate(Expression),
    /// Condition, where it stands, `assert` or `assume`.
    Assert(Expression, String),
    Log(String, Vec<(Expression, u32, bool)>),
    /// Number of the place in the source of the next statement, for traces.
    Mark(usize),
}
