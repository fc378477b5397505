// SPDX-License-Identifier: Apache-2.0
//! A compiled program as its users see it: tables, actions, the arrays of its externs, where its metadata lies.
use crate::bytecode::code::Code;
use crate::bytecode::ir::{Block, Expression, Parser};
use crate::bytecode::operators::{HashAlgorithm, Slot};
use crate::p4info::P4Info;
use crate::value::Val;
use std::sync::Arc;

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
    pub ex: Expression,
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
    pub selector: Option<(HashAlgorithm, u32)>,
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
    /// What the compiler warns of, one block each as [`crate::syntax::diagnostics::Diagnostics`] renders it.
    pub warnings: String,
    /// What runs.
    pub(crate) code: Option<Arc<Code>>,
}

/// Whether entries of the table need a priority.
pub fn needs_priority(t: &Table) -> bool {
    t.keys.iter().any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional))
}
