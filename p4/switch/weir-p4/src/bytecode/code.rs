// SPDX-License-Identifier: Apache-2.0
//! Code that runs for each packet: flat code over a frame of 64-bit cells, made once from [`crate::bytecode::ir`] by
//! [`crate::bytecode::lower`]. A slot of the program is the cell of the same number; temporaries and constants follow.
//! A slot that may hold more than 64 bits has its value in a second, wide frame instead.
use crate::bytecode::operators::{HashAlgorithm, Operator};
use crate::value::Val;

/// A cell of the frame.
pub type Cell = u32;
/// A place in the wide frame.
pub type WideCell = u32;
/// Where code goes on.
pub type Pc = u32;

/// Marks slots that are in the narrow frame.
pub const NARROW: u32 = u32::MAX;

/// One step. `sh` is 64 less the width in bits that the result is cut to.
#[derive(Clone, Copy, Debug)]
pub enum Instruction {
    Move {
        d: Cell,
        a: Cell,
    },
    /// One after the other.
    Moves {
        d: Cell,
        a: Cell,
        n: u32,
    },
    /// `a` if `b` is not zero, else zero.
    IfSet {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Add {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    Sub {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    Mul {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    Div {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Mod {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    AddSat {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    SubSat {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    AddSatS {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    SubSatS {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    Shl {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    Shr {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Sar {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    And {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Or {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Xor {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Eq {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Ne {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Lt {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    Le {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    LtS {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    LeS {
        d: Cell,
        a: Cell,
        b: Cell,
        sh: u8,
    },
    BitNot {
        d: Cell,
        a: Cell,
        sh: u8,
    },
    Not {
        d: Cell,
        a: Cell,
    },
    /// Bits from `lo` on.
    Slice {
        d: Cell,
        a: Cell,
        lo: u8,
        sh: u8,
    },
    /// Left by a constant below 64.
    ShlBy {
        d: Cell,
        a: Cell,
        by: u8,
        sh: u8,
    },
    /// `a` above the `by` bits of `b`.
    Concat {
        d: Cell,
        a: Cell,
        b: Cell,
        by: u8,
    },
    /// From 64 - `from` bits, the sign repeated.
    SignExtend {
        d: Cell,
        a: Cell,
        from: u8,
        sh: u8,
    },
    /// Zero outside a stack.
    LoadAt {
        d: Cell,
        at: u32,
    },
    /// Nothing outside a stack.
    StoreAt {
        at: u32,
        a: Cell,
    },
    LoadWideAt {
        d: WideCell,
        at: u32,
    },
    StoreWideAt {
        at: u32,
        a: WideCell,
    },
    MoveWide {
        d: WideCell,
        a: WideCell,
    },
    ToWide {
        d: WideCell,
        a: Cell,
    },
    /// The expression's value in the wide frame, or its low 64 bits, or its value or 2^64 - 1 when that is too small.
    EvalWide {
        d: WideCell,
        e: u32,
    },
    EvalLow {
        d: Cell,
        e: u32,
    },
    EvalIndex {
        d: Cell,
        e: u32,
    },
    Copy {
        d: Cell,
        a: Cell,
        n: u32,
    },
    CopyAt {
        copy: u32,
    },
    Zero {
        d: Cell,
        n: u32,
    },
    Jump {
        to: Pc,
    },
    JumpZero {
        a: Cell,
        to: Pc,
    },
    JumpSet {
        a: Cell,
        to: Pc,
    },
    JumpEq {
        a: Cell,
        b: Cell,
        to: Pc,
    },
    JumpNe {
        a: Cell,
        b: Cell,
        to: Pc,
    },
    JumpLt {
        a: Cell,
        b: Cell,
        to: Pc,
    },
    JumpLe {
        a: Cell,
        b: Cell,
        to: Pc,
    },
    /// `after` is the code to run when the callee exits, or 0. `cost` is the steps that the callee's own code may take,
    /// up to its next call.
    Call {
        to: Pc,
        after: Pc,
        cost: u32,
    },
    Return,
    Exit,
    Reject,
    /// A parser error by its number, constant or in a cell.
    Fail {
        error: u32,
    },
    FailWith {
        a: Cell,
    },
    /// Steps of this state, or of an iteration of this loop.
    ParserStep {
        cost: u32,
    },
    LoopStep {
        cost: u32,
    },
    Apply {
        table: u32,
    },
    /// The same, with an event for the trace.
    ApplyTraced {
        table: u32,
    },
    /// An event for the trace.
    Trace {
        point: u32,
    },
    Extract {
        header: u32,
        size: Cell,
    },
    Lookahead {
        header: u32,
    },
    Advance {
        a: Cell,
    },
    PacketLength {
        d: Cell,
    },
    CheckIndex {
        at: u32,
    },
    Emit {
        header: u32,
    },
    Shift {
        stack: u32,
    },
    SetValid {
        header: u32,
        valid: bool,
    },
    OnlyMemberAt {
        header: u32,
    },
    InValueSet {
        d: Cell,
        set: u32,
    },
    RegisterRead {
        r: u32,
        i: Cell,
        d: Cell,
    },
    RegisterWrite {
        r: u32,
        i: Cell,
        a: Cell,
    },
    RegisterReadWide {
        r: u32,
        i: Cell,
        d: WideCell,
    },
    RegisterWriteWide {
        r: u32,
        i: Cell,
        a: WideCell,
    },
    Count {
        c: u32,
        i: Cell,
    },
    Meter {
        m: u32,
        i: Cell,
        d: Cell,
    },
    DirectMeter {
        m: u32,
        d: Cell,
    },
    Random {
        d: Cell,
        a: Cell,
        b: Cell,
    },
    RandomWide {
        d: WideCell,
        random: u32,
    },
    Hash {
        d: Cell,
        hash: u32,
    },
    ChecksumError,
    Digest {
        digest: u32,
    },
    /// `list` is a cell, or [`NARROW`] for none.
    Clone {
        session: Cell,
        list: Cell,
    },
    Resubmit {
        list: Cell,
    },
    Recirculate {
        list: Cell,
    },
    DropPort {
        d: Cell,
    },
    Truncate {
        a: Cell,
    },
    AssertFailed {
        text: u32,
    },
    Log {
        text: u32,
    },
}

/// A value in either frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    N(Cell),
    W(WideCell),
}

/// Expressions some part of which needs more than 64 bits.
#[derive(Clone, Debug)]
pub enum Wide {
    N(Cell),
    W(WideCell),
    Const(Val),
    At(u32),
    Bin(Operator, u32, Box<(Wide, Wide)>),
    BitNot(u32, Box<Wide>),
    Neg(u32, Box<Wide>),
    Not(Box<Wide>),
    LAnd(Box<(Wide, Wide)>),
    LOr(Box<(Wide, Wide)>),
    Slice(Box<Wide>, u32, u32),
    Concat(Box<(Wide, Wide)>, u32),
    SignExtend(Box<Wide>, u32, u32),
    Cond(Box<(Wide, Wide, Wide)>),
}

/// Access of one field to a packet's bytes, in both directions.
#[derive(Clone, Copy, Debug)]
pub enum FieldIn {
    /// The eight bytes from `at` on, moved right by `right` and cut.
    Fast { offset: u32, at: u16, right: u8, sh: u8 },
    /// From bit `at` on.
    Slow { offset: u32, at: u32, width: u32 },
}

#[derive(Clone, Copy, Debug)]
pub enum FieldOut {
    /// Joins the value, moved left, to the bytes that come next.
    Or {
        offset: u32,
        left: u8,
    },
    /// Writes the joined value.
    Bytes(u8),
    Wide {
        offset: u32,
        width: u32,
    },
}

#[derive(Clone, Debug)]
pub struct HeaderCode {
    /// An address's number behind run-time indices, or `None` and the slot.
    pub at: Option<u32>,
    pub base: Cell,
    pub fixed_bits: usize,
    /// Offset, width.
    pub fields: Vec<(u32, u32)>,
    pub varbit: Option<usize>,
    /// Used from a byte boundary on, for the fields before a varbit if that is the last one.
    pub reads: Vec<FieldIn>,
    pub writes: Vec<FieldOut>,
    pub siblings: Vec<u32>,
    /// The stack whose next index moves on.
    pub next: Option<u32>,
    /// Validity cells a lookahead sets.
    pub valid: Vec<Cell>,
}

#[derive(Clone, Debug)]
pub struct AddressCode {
    pub base: Cell,
    pub dyns: Vec<crate::bytecode::operators::DynIndex>,
}

#[derive(Clone, Debug)]
pub struct CopyCode {
    pub from: u32,
    pub to: u32,
    pub n: usize,
    /// Slots that may be wide.
    pub wide: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct StackCode {
    pub at: u32,
    pub each: usize,
    pub len: usize,
    pub by: usize,
    pub push: bool,
    /// Offsets within an element that may be wide.
    pub wide: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    /// The bytes that the parser has not read.
    Unread,
    Payload,
}

/// Data in order: value, width, cell of the length of a varbit.
pub type Data = Vec<(Source, u32, Option<Cell>)>;

#[derive(Clone, Debug)]
pub struct HashCode {
    pub algo: HashAlgorithm,
    /// For a checksum: cells whose place is known, and how far left their values stand within 16 bits, and the bits
    /// that they take; `data` holds the bytes behind them.
    pub placed: Vec<(Cell, u8)>,
    pub placed_bits: u32,
    pub data: Data,
    pub rest: Rest,
}

#[derive(Clone, Debug)]
pub struct DigestCode {
    pub digest: usize,
    pub receiver: Cell,
    pub values: Vec<Source>,
}

#[derive(Clone, Debug)]
pub struct LogCode {
    pub text: String,
    pub data: Vec<(Source, u32, bool)>,
}

#[derive(Clone, Debug)]
pub struct RandomCode {
    pub low: Wide,
    pub high: Wide,
    pub width: u32,
}

#[derive(Clone, Debug)]
pub struct ActionCode {
    pub body: usize,
    pub params: Vec<(Source, u32)>,
    /// Code around the body, or 0.
    pub before: Pc,
    pub to: Pc,
    pub after: Pc,
    /// Steps of all three.
    pub cost: u32,
}

/// Where a key's value lies in the packed words, most significant word first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyField {
    pub word: usize,
    pub words: usize,
    /// Left shift.
    pub shift: u32,
    pub width: u32,
}

impl KeyField {
    pub fn pack(&self, v: &Val, words: &mut [u64]) {
        if self.words == 1 {
            words[self.word] |= (v.low() as u64) << self.shift;
            return;
        }
        let to = &mut words[self.word..self.word + self.words];
        let moved;
        let v = match self.shift {
            0 => v,
            n => {
                moved = v.clone().shl(n as usize, 64 * self.words as u32);
                &moved
            }
        };
        match v {
            Val::S(x) => {
                to[self.words - 1] = *x as u64;
                to[self.words - 2] = (*x >> 64) as u64;
            }
            Val::B(x) => x.iter_u64_digits().zip(to.iter_mut().rev()).for_each(|(d, w)| *w = d),
        }
    }
}

#[derive(Clone, Debug)]
pub struct TableCode {
    pub has_keys: bool,
    /// Keys but selectors, as the table packs them.
    pub keys: Vec<(Source, KeyField)>,
    pub words: usize,
    /// Selector keys and their widths.
    pub selector: Data,
    pub actions: Vec<ActionCode>,
    pub profile: Option<usize>,
    /// The direct meter, and where its color goes.
    pub meter: Option<(usize, Option<Source>)>,
    /// Whether a match does more than count: it is metered, or its time is recorded.
    pub observes_hits: bool,
    pub idle_timeout: bool,
    pub hit: Cell,
    pub action_run: Cell,
}

/// A value that an event shows.
#[derive(Clone, Debug)]
pub enum PointField {
    Text(String),
    Flag(bool),
    Number(u64),
    /// A value of so many bits.
    Value(Source, u32),
    Values(Vec<(Source, u32)>),
}

/// An event of traced code.
#[derive(Clone, Debug)]
pub struct TracePoint {
    pub event: &'static str,
    pub fields: Vec<(&'static str, PointField)>,
    pub place: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct Code {
    pub ins: Vec<Instruction>,
    /// Frame at the start: zeros and constants.
    pub frame: Vec<u64>,
    /// Cells of constants, which no code writes.
    pub constants: Vec<(Cell, u64)>,
    pub wide_cells: usize,
    /// Place in the wide frame of each slot, or [`NARROW`].
    pub wide_of: Vec<u32>,
    pub procs: Vec<Pc>,
    pub parsers: Vec<Pc>,
    pub tables: Vec<TableCode>,
    pub wides: Vec<Wide>,
    pub addrs: Vec<AddressCode>,
    pub copies: Vec<CopyCode>,
    pub headers: Vec<HeaderCode>,
    pub stacks: Vec<StackCode>,
    pub hashes: Vec<HashCode>,
    pub digests: Vec<DigestCode>,
    pub logs: Vec<LogCode>,
    pub texts: Vec<String>,
    pub randoms: Vec<RandomCode>,
    /// Value set, keys.
    pub sets: Vec<(usize, Vec<Source>)>,
    /// Table of each direct meter.
    pub meter_tables: Vec<Option<usize>>,
    /// Events of traced code.
    pub points: Vec<TracePoint>,
    /// Numbers of the errors that the machine itself raises.
    pub errors: Errors,
    /// Statements, by the first instruction of each.
    #[cfg(test)]
    pub marks: Vec<(Pc, crate::bytecode::marks::Mark)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    pub too_short: u32,
    pub invalid_argument: u32,
    pub header_too_short: u32,
    pub stack: u32,
    pub timeout: u32,
}
