// SPDX-License-Identifier: Apache-2.0
//! A compiled program as its users see it: tables, actions, the arrays of its externs, where its metadata lies.
use crate::bytecode::code::Code;
use crate::bytecode::ir::{Block, Expression, Parser};
use crate::bytecode::operators::{HashAlgorithm, Slot};
use crate::bytecode::source_map::SourceMap;
use crate::p4info::P4Info;
use crate::value::Val;
use std::sync::Arc;

/// Match kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// All bits are equal.
    Exact,
    /// The longest prefix wins.
    Lpm,
    /// Value and mask.
    Ternary,
    /// From a lowest to a highest value.
    Range,
    /// Equal, or anything.
    Optional,
    /// Not matched: data for the choice of a member of an action selector's group.
    Selector,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name as controllers know it.
    pub name: String,
    /// Match kind.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
    /// Whether its order is that of signed numbers.
    pub signed: bool,
    pub(crate) ex: Expression,
}

/// A parameter of an action whose value comes with an entry.
#[derive(Clone, Debug)]
pub struct ActionParam {
    /// Name in the program.
    pub name: String,
    /// Where the value goes before the action is run.
    pub slot: Slot,
    /// Width in bits.
    pub width: u32,
}

/// A table's use of an action.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// Name as controllers know it.
    pub name: String,
    /// Parameters that an entry gives values for.
    pub params: Vec<ActionParam>,
    pub(crate) before: Block,
    /// The procedure of the action; the same for all tables that use the action.
    pub body: usize,
    pub(crate) after: Block,
    /// `@defaultonly`: not for entries.
    pub default_only: bool,
    /// `@tableonly`: not for the default.
    pub table_only: bool,
}

/// Match of an entry on one key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyMatch {
    /// The value.
    Exact(Val),
    /// Value and length of the prefix in bits.
    Lpm(Val, u32),
    /// Value and mask.
    Ternary(Val, Val),
    /// Smallest and largest value.
    Range(Val, Val),
    /// `None` matches all.
    Optional(Option<Val>),
}

/// An action with the values of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionCall {
    /// Index in the table's list of actions.
    pub action: usize,
    /// In the order of the action's parameters.
    pub args: Vec<Val>,
}

/// An entry that the program itself puts into a table.
#[derive(Clone, Debug)]
pub struct ConstEntry {
    /// In the order of the table's keys, selectors left out.
    pub keys: Vec<KeyMatch>,
    /// The largest wins.
    pub priority: i64,
    /// The action of a matching entry.
    pub action: ActionCall,
    /// Whether controllers cannot change or remove it.
    pub is_const: bool,
}

/// A match-action table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name as controllers know it.
    pub name: String,
    /// In the order of the program.
    pub keys: Vec<Key>,
    pub(crate) before: Block,
    /// In the order of the program; a default `NoAction` that is not listed comes last.
    pub actions: Vec<TableAction>,
    /// The default action at the start.
    pub default: ActionCall,
    /// Whether the default action is constant.
    pub const_default: bool,
    /// Entries at the start.
    pub entries: Vec<ConstEntry>,
    /// Whether all entries are the program's own.
    pub const_entries: bool,
    /// The program's property of this name; controllers' values are not affected.
    pub largest_priority_wins: bool,
    /// Entries that controllers may add.
    pub size: u64,
    /// Index in [`Program::profiles`].
    pub profile: Option<usize>,
    /// Index of the direct counter in [`Program::counters`].
    pub counter: Option<usize>,
    /// Index of the direct meter in [`Program::meters`].
    pub meter: Option<usize>,
    /// Whether entries may have an idle timeout (`support_timeout = true`); only then the time of a match is recorded.
    pub idle_timeout: bool,
    pub(crate) hit: Slot,
    pub(crate) action_run: Slot,
}

/// Unit of a counter or meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountKind {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Packets and bytes.
    Both,
}

/// An array of registers.
#[derive(Clone, Debug)]
pub struct RegisterDecl {
    /// Name as controllers know it.
    pub name: String,
    /// Cells.
    pub size: usize,
    /// Width of a cell in bits.
    pub width: u32,
}

/// An array of counters, or a direct counter.
#[derive(Clone, Debug)]
pub struct CounterDecl {
    /// Name as controllers know it.
    pub name: String,
    /// Unit.
    pub kind: CountKind,
    /// `None` for a direct counter.
    pub size: Option<usize>,
}

/// An array of meters, or a direct meter.
#[derive(Clone, Debug)]
pub struct MeterDecl {
    /// Name as controllers know it.
    pub name: String,
    /// Unit.
    pub kind: CountKind,
    /// Cells; `None` for a direct meter.
    pub size: Option<usize>,
    /// Result width of a direct meter.
    pub width: u32,
}

/// An action profile, or an action selector.
#[derive(Clone, Debug)]
pub struct ProfileDecl {
    /// Name as controllers know it.
    pub name: String,
    /// Limit of members.
    pub size: u64,
    /// Algorithm and width for a selector.
    pub selector: Option<(HashAlgorithm, u32)>,
}

/// A kind of digest.
#[derive(Clone, Debug)]
pub struct DigestDecl {
    /// Name of the struct that is sent, or a name made up where it has none.
    pub name: String,
    /// Name and width of each value a digest holds, in order; those of inner structs are `outer.inner`.
    pub fields: Vec<(String, u32)>,
}

/// A value set of a parser.
#[derive(Clone, Debug)]
pub struct ValueSetDecl {
    /// Name as controllers know it.
    pub name: String,
    /// Members that it has room for.
    pub size: usize,
    /// Width of each field in bits.
    pub widths: Vec<u32>,
}

/// Slots of standard_metadata's fields; those a program's include lacks do not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct StdMeta {
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

/// A compiled program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) slots: usize,
    pub(crate) procs: Vec<Block>,
    pub(crate) parsers: Vec<Parser>,
    /// All tables, reached by packets or not.
    pub tables: Vec<Table>,
    /// Arrays of registers.
    pub registers: Vec<RegisterDecl>,
    /// Indirect and direct counters.
    pub counters: Vec<CounterDecl>,
    /// Indirect and direct meters.
    pub meters: Vec<MeterDecl>,
    /// Action profiles and selectors.
    pub profiles: Vec<ProfileDecl>,
    /// Kinds of digests.
    pub digests: Vec<DigestDecl>,
    /// Value sets of parsers.
    pub value_sets: Vec<ValueSetDecl>,
    /// Names of the parser errors; a number in `parser_error` is an index here.
    pub errors: Vec<String>,
    /// Parser, then procedures: verify, ingress, egress, compute, deparser.
    pub(crate) parser: usize,
    pub(crate) verify: usize,
    pub(crate) ingress: usize,
    pub(crate) egress: usize,
    pub(crate) compute: usize,
    pub(crate) deparser: usize,
    /// First slot and count.
    pub(crate) headers: (Slot, usize),
    pub(crate) meta: (Slot, usize),
    pub(crate) std: (Slot, usize),
    pub(crate) std_fields: StdMeta,
    /// Number of a field list, the user metadata slots in it.
    pub(crate) field_lists: Vec<(u64, Vec<Slot>)>,
    /// The program's P4Info, for controllers.
    pub info: Arc<P4Info>,
    /// Warnings of the compiler, one block each as [`crate::syntax::diagnostics::Diagnostics`] renders it.
    pub warnings: String,
    /// Names and places for traces.
    pub(crate) source: SourceMap,
    /// Executable code.
    pub(crate) code: Option<Arc<Code>>,
}

/// Whether entries of the table need a priority.
pub fn needs_priority(t: &Table) -> bool {
    t.keys.iter().any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional))
}
