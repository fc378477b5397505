// SPDX-License-Identifier: Apache-2.0
//! What the interpreter runs. All storage is a frame of slots given out at compile time: P4 has no recursion, so
//! every variable, parameter and temporary has one place for the whole program. Expressions have no effects; calls
//! are statements that run before the expression that uses their result.
use crate::code::Code;
use crate::info::P4Info;
use crate::value::Val;
use std::sync::Arc;

pub type Slot = usize;
pub type Block = Vec<St>;

/// A place in the frame, possibly behind run-time stack indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Addr {
    pub base: Slot,
    pub dyns: Vec<DynIndex>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynIndex {
    /// The slot that holds the index.
    pub index: Slot,
    /// Added to the index: -1 for `last`.
    pub bias: i8,
    pub stride: usize,
    pub len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    AddSat,
    SubSat,
    AddSatS,
    SubSatS,
    Shl,
    Shr,
    Sar,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Le,
    LtS,
    LeS,
}

#[derive(Clone, Debug)]
pub enum Ex {
    Const(Val),
    Load(Slot),
    LoadAt(Box<Addr>),
    /// Operands of the given width.
    Bin(Op, u32, Box<(Ex, Ex)>),
    BitNot(u32, Box<Ex>),
    Neg(u32, Box<Ex>),
    Not(Box<Ex>),
    LAnd(Box<(Ex, Ex)>),
    LOr(Box<(Ex, Ex)>),
    /// `width` bits from bit `low` on.
    Slice(Box<Ex>, u32, u32),
    /// Left operand above a right operand of the given width.
    Concat(Box<(Ex, Ex)>, u32),
    SignExtend(Box<Ex>, u32, u32),
    Cond(Box<(Ex, Ex, Ex)>),
}

#[derive(Clone, Debug)]
pub struct HeaderLayout {
    pub name: String,
    /// Slot offset from the header's validity slot, width; a varbit's width is its largest.
    pub fields: Vec<(usize, u32)>,
    /// Which field is a varbit.
    pub varbit: Option<usize>,
    /// Bits of the fixed fields.
    pub fixed_bits: usize,
}

#[derive(Clone, Debug)]
pub struct HeaderRef {
    pub addr: Addr,
    pub layout: Arc<HeaderLayout>,
    /// Validity of the other members of the header's union.
    pub siblings: Vec<Addr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgo {
    Crc32,
    Crc16,
    Random,
    Identity,
    Csum16,
    Xor16,
}

#[derive(Clone, Debug)]
pub enum Pat {
    Any,
    Value(Ex),
    Mask(Ex, Ex),
    Range(Ex, Ex),
    /// Compared as signed numbers of this width.
    RangeS(Ex, Ex, u32),
    /// Matches as many keys as the set has fields.
    ValueSet(usize, usize),
}

#[derive(Clone, Debug)]
pub enum Next {
    State(usize),
    Accept,
    Reject,
    /// Keys, cases. No match rejects.
    Select(Vec<Ex>, Vec<(Vec<Pat>, Target)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    State(usize),
    Accept,
    Reject,
}

#[derive(Clone, Debug, Default)]
pub struct Parser {
    pub name: String,
    pub states: Vec<(String, Block, Next)>,
    pub start: usize,
}

/// Data for a digest, hash or checksum: fields with their widths; the third member is a varbit's length.
pub type Fields = Vec<(Ex, u32, Option<Ex>)>;

#[derive(Clone, Debug)]
pub struct SwitchCase {
    pub values: Vec<Ex>,
    pub body: usize,
}

#[derive(Clone, Debug)]
pub enum St {
    Set(Slot, Ex),
    SetAt(Addr, Ex),
    /// From, to, how many slots.
    Copy(Addr, Addr, usize),
    Zero(Slot, usize),
    If(Ex, Block, Block),
    Switch(Ex, Vec<SwitchCase>, Vec<Block>, Option<usize>),
    Group(Block),
    /// Copy in, body of a procedure, copy out. `return` ends the body only; copy out happens at `exit` too.
    Call(Block, usize, Block),
    /// Statements for the condition, condition, body, update.
    Loop(Block, Option<Ex>, Block, Block),
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
    Extract(HeaderRef, Option<Ex>, Option<(Addr, usize)>),
    /// Destination, fields, total bits, validity slots to set.
    Lookahead(Slot, Vec<(usize, u32)>, usize, Vec<usize>),
    Advance(Ex),
    PacketLength(Slot),
    Verify(Ex, Ex),
    /// `last` on an empty or overfull stack, `next` on a full one.
    CheckIndex(Addr),
    Emit(HeaderRef),
    /// Next-index slot of the stack, slots of an element, elements, count.
    PushFront(Addr, usize, usize, usize),
    PopFront(Addr, usize, usize, usize),
    RegisterRead(usize, Addr, Ex),
    RegisterWrite(usize, Ex, Ex),
    Count(usize, Ex),
    Meter(usize, Ex, Addr),
    DirectMeter(usize, Addr),
    Random(Addr, Ex, Ex, u32),
    /// Destination, its width, algorithm, base, data, max.
    Hash(Addr, u32, HashAlgo, Ex, Fields, Ex),
    /// Condition, data, checksum, its width, algorithm, with payload.
    VerifyChecksum(Ex, Fields, Ex, u32, HashAlgo, bool),
    UpdateChecksum(Ex, Fields, Addr, u32, HashAlgo, bool),
    Digest(usize, Ex, Fields),
    /// Egress to egress, session, index of the field list.
    Clone(bool, Ex, Option<Ex>),
    Resubmit(Option<Ex>),
    Recirculate(Option<Ex>),
    /// The port that drops, which the switch is told when it starts.
    DropPort(Addr),
    Truncate(Ex),
    /// Condition, where it stands, `assert` or `assume`.
    Assert(Ex, String),
    Log(String, Vec<(Ex, u32, bool)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
    Selector,
}

#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub kind: MatchKind,
    pub width: u32,
    pub signed: bool,
    pub ex: Ex,
}

#[derive(Clone, Debug)]
pub struct ActionParam {
    pub name: String,
    pub slot: Slot,
    pub width: u32,
}

/// A table's use of an action.
#[derive(Clone, Debug)]
pub struct TableAction {
    pub name: String,
    pub params: Vec<ActionParam>,
    pub before: Block,
    pub body: usize,
    pub after: Block,
    pub default_only: bool,
    pub table_only: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum KeyMatch {
    Exact(Val),
    Lpm(Val, u32),
    Ternary(Val, Val),
    Range(Val, Val),
    /// `None` matches all.
    Optional(Option<Val>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActionCall {
    /// Index in the table's list of actions.
    pub action: usize,
    pub args: Vec<Val>,
}

#[derive(Clone, Debug)]
pub struct ConstEntry {
    pub keys: Vec<KeyMatch>,
    pub priority: i64,
    pub action: ActionCall,
    pub is_const: bool,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub keys: Vec<Key>,
    pub before: Block,
    pub actions: Vec<TableAction>,
    pub default: ActionCall,
    pub const_default: bool,
    pub entries: Vec<ConstEntry>,
    pub const_entries: bool,
    pub largest_priority_wins: bool,
    pub size: u64,
    pub profile: Option<usize>,
    pub counter: Option<usize>,
    pub meter: Option<usize>,
    pub hit: Slot,
    pub action_run: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountKind {
    Packets,
    Bytes,
    Both,
}

#[derive(Clone, Debug)]
pub struct RegisterDecl {
    pub name: String,
    pub size: usize,
    pub width: u32,
}

#[derive(Clone, Debug)]
pub struct CounterDecl {
    pub name: String,
    pub kind: CountKind,
    /// `None` for a direct counter.
    pub size: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct MeterDecl {
    pub name: String,
    pub kind: CountKind,
    pub size: Option<usize>,
    /// Result width of a direct meter.
    pub width: u32,
}

#[derive(Clone, Debug)]
pub struct ProfileDecl {
    pub name: String,
    pub size: u64,
    /// Algorithm and width for a selector.
    pub selector: Option<(HashAlgo, u32)>,
}

#[derive(Clone, Debug)]
pub struct DigestDecl {
    pub name: String,
    /// Name and width of each value a digest holds, in order; those of inner structs are `outer.inner`.
    pub fields: Vec<(String, u32)>,
}

#[derive(Clone, Debug)]
pub struct ValueSetDecl {
    pub name: String,
    pub size: usize,
    pub widths: Vec<u32>,
}

/// Slots of standard_metadata's fields; those a program's include lacks do not exist.
#[derive(Clone, Debug, Default)]
pub struct StdMeta {
    pub ingress_port: Slot,
    pub egress_spec: Slot,
    pub egress_port: Slot,
    pub instance_type: Slot,
    pub packet_length: Slot,
    pub enq_timestamp: Slot,
    pub enq_qdepth: Slot,
    pub deq_timedelta: Slot,
    pub deq_qdepth: Slot,
    pub ingress_global_timestamp: Slot,
    pub egress_global_timestamp: Slot,
    pub mcast_grp: Slot,
    pub egress_rid: Slot,
    pub checksum_error: Slot,
    pub parser_error: Slot,
    pub priority: Slot,
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub slots: usize,
    pub procs: Vec<Block>,
    pub parsers: Vec<Parser>,
    pub tables: Vec<Table>,
    pub registers: Vec<RegisterDecl>,
    pub counters: Vec<CounterDecl>,
    pub meters: Vec<MeterDecl>,
    pub profiles: Vec<ProfileDecl>,
    pub digests: Vec<DigestDecl>,
    pub value_sets: Vec<ValueSetDecl>,
    pub errors: Vec<String>,
    /// Parser, then procedures: verify, ingress, egress, compute, deparser.
    pub parser: usize,
    pub verify: usize,
    pub ingress: usize,
    pub egress: usize,
    pub compute: usize,
    pub deparser: usize,
    /// First slot and count.
    pub headers: (Slot, usize),
    pub meta: (Slot, usize),
    pub std: (Slot, usize),
    pub std_fields: StdMeta,
    /// Number of a field list, the user metadata slots in it.
    pub field_lists: Vec<(u64, Vec<Slot>)>,
    /// What controllers may know of all this.
    pub info: Arc<P4Info>,
    /// What the compiler warns of, one block each as [`crate::diag::Diagnostics`] renders it.
    pub warnings: String,
    /// What runs.
    pub(crate) code: Option<Arc<Code>>,
}
