// SPDX-License-Identifier: Apache-2.0
//! P4Info (P4Runtime 1.4, p4/config/v1/p4info.proto) as plain structs: what a controller may know of a program, by
//! the ids that p4c gives the same program, and for each object where it lies in [`crate::bytecode::program::Program`].
//!
//! Conversion to protobuf messages is the server's; [`P4Info::text`] writes the protobuf text format that p4c writes.
pub mod strings;
mod text;

use crate::p4info::strings::Strings;
use std::collections::BTreeMap;
use std::sync::Arc;

/// First byte of an id by kind of object (P4Runtime 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Prefix {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    ActionProfile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct P4Info {
    pub pkg_info: PkgInfo,
    pub tables: Vec<Table>,
    pub actions: Vec<Action>,
    pub action_profiles: Vec<ActionProfile>,
    pub counters: Vec<Counter>,
    pub direct_counters: Vec<DirectCounter>,
    pub meters: Vec<Meter>,
    pub direct_meters: Vec<DirectMeter>,
    pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
    pub value_sets: Vec<ValueSet>,
    pub registers: Vec<Register>,
    pub digests: Vec<Digest>,
    pub type_info: TypeInfo,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documentation {
    pub brief: String,
    pub description: String,
}

/// A constant in a structured annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    String(String),
    Int64(i64),
    Bool(bool),
}

#[derive(Clone, Debug, PartialEq)]
pub enum StructuredBody {
    /// `@name[]`
    Empty,
    /// `@name[1, "two"]`
    Expressions(Vec<Expression>),
    /// `@name[one = 1, two = "2"]`
    Pairs(Vec<(String, Expression)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct StructuredAnnotation {
    pub name: String,
    pub body: StructuredBody,
}

/// What an object's annotations say besides what has a field of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// As written: `@name(arguments)`.
    pub plain: Vec<String>,
    pub structured: Vec<StructuredAnnotation>,
    /// From `@brief` and `@description`.
    pub doc: Option<Documentation>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PkgInfo {
    pub name: String,
    pub version: String,
    pub annotations: Annotations,
    pub arch: String,
    pub organization: String,
    pub contact: String,
    pub url: String,
    pub platform_properties: Option<PlatformProperties>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlatformProperties {
    pub multicast_group_table_size: i32,
    pub multicast_group_table_total_replicas: i32,
    pub multicast_group_table_max_replicas_per_entry: i32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preamble {
    pub id: u32,
    /// Fully qualified.
    pub name: String,
    /// Shortest suffix of the name that no other object has.
    pub alias: String,
    pub annotations: Annotations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchType {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// A key of a table, or a field of a value set.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchField {
    pub id: u32,
    pub name: String,
    pub annotations: Annotations,
    /// Bits as controllers see them: those of the translated type for a type with @p4runtime_translation, and 0
    /// when that is a string. The key of the IR has the program's own width.
    pub bitwidth: u32,
    pub match_type: MatchType,
    /// Name in [`TypeInfo::new_types`].
    pub type_name: Option<String>,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    TableAndDefault,
    TableOnly,
    DefaultOnly,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    pub id: u32,
    pub scope: Scope,
    pub annotations: Annotations,
    /// Index in the [`crate::bytecode::program::Table::actions`] of the table, as [`crate::bytecode::program::ActionCall::action`] has it.
    pub ir_index: usize,
}

/// The default action a table starts with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableActionCall {
    pub action_id: u32,
    /// Parameter id and value, big-endian in as many bytes as the parameter's width needs: p4c's form, not the
    /// shortest one that P4Runtime 8.4 calls canonical.
    pub arguments: Vec<(u32, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub preamble: Preamble,
    /// In the order of the table's keys without its selector keys: the order of a
    /// [`crate::exec::EntryState`]'s keys.
    pub match_fields: Vec<MatchField>,
    pub action_refs: Vec<ActionRef>,
    /// 0 when the default action can be changed.
    pub const_default_action_id: u32,
    pub initial_default_action: TableActionCall,
    /// Id of the action profile, or 0.
    pub implementation_id: u32,
    /// Ids of the direct counter and meter.
    pub direct_resource_ids: Vec<u32>,
    pub size: u64,
    /// The program asks for idle time-outs (`support_timeout = true`).
    pub idle_timeout: bool,
    pub is_const_table: bool,
    pub has_initial_entries: bool,
    /// Index in [`crate::bytecode::program::Program::tables`].
    pub ir_index: usize,
}

impl Table {
    pub fn action(&self, id: u32) -> Option<&ActionRef> {
        self.action_refs.iter().find(|a| a.id == id)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub id: u32,
    pub name: String,
    pub annotations: Annotations,
    /// Bits as controllers see them, see [`MatchField::bitwidth`].
    pub bitwidth: u32,
    /// Name in [`TypeInfo::new_types`], or of an enum.
    pub type_name: Option<String>,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub preamble: Preamble,
    /// In the order of [`crate::bytecode::program::TableAction::params`].
    pub params: Vec<Param>,
}

/// How a selector's groups are limited in size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorSize {
    SumOfWeights,
    SumOfMembers { max_member_weight: i32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActionProfile {
    pub preamble: Preamble,
    pub table_ids: Vec<u32>,
    pub with_selector: bool,
    pub size: u64,
    /// 0 when the program does not limit it.
    pub max_group_size: i32,
    pub selector_size: Option<SelectorSize>,
    /// Actions that members may have: action id, procedure in [`crate::bytecode::program::Program::procs`].
    pub actions: Vec<(u32, usize)>,
    /// Index in [`crate::bytecode::program::Program::profiles`].
    pub ir_index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Packets,
    Both,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub size: u64,
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::counters`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DirectCounter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub direct_table_id: u32,
    /// Index in [`crate::bytecode::program::Program::counters`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    pub preamble: Preamble,
    /// Bytes or packets.
    pub unit: Unit,
    pub size: u64,
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::meters`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DirectMeter {
    pub preamble: Preamble,
    /// Bytes or packets.
    pub unit: Unit,
    pub direct_table_id: u32,
    /// Index in [`crate::bytecode::program::Program::meters`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub id: u32,
    pub name: String,
    pub annotations: Annotations,
    /// Bits as controllers see them, see [`MatchField::bitwidth`].
    pub bitwidth: u32,
    pub type_name: Option<String>,
    /// Where the field starts in the header and how long it is there, in bits.
    pub offset_bits: u32,
    pub bits: u32,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

/// A header with `@controller_header("packet_in")` or `"packet_out"`, by which it is named here.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerPacketMetadata {
    pub preamble: Preamble,
    pub metadata: Vec<Metadata>,
    /// Bits of the whole header, hidden fields too.
    pub bits: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    pub preamble: Preamble,
    /// In the order of [`crate::bytecode::program::ValueSetDecl::widths`].
    pub match_fields: Vec<MatchField>,
    pub size: u64,
    /// Index in [`crate::bytecode::program::Program::value_sets`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    pub preamble: Preamble,
    pub type_spec: TypeSpec,
    pub size: u64,
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::registers`].
    pub ir_index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    pub preamble: Preamble,
    pub type_spec: TypeSpec,
    /// Index in [`crate::bytecode::program::Program::digests`].
    pub ir_index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitSpec {
    Bit(u32),
    Int(u32),
    /// The largest size.
    Varbit(u32),
}

/// The type of data in digests and registers; names refer to [`TypeInfo`].
#[derive(Clone, Debug, PartialEq)]
pub enum TypeSpec {
    Bits(BitSpec),
    Bool,
    Tuple(Vec<TypeSpec>),
    Struct(String),
    Header(String),
    HeaderUnion(String),
    HeaderStack(String, u32),
    HeaderUnionStack(String, u32),
    Enum(String),
    Error,
    SerializableEnum(String),
    NewType(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeInfo {
    pub structs: BTreeMap<String, Vec<(String, TypeSpec)>>,
    pub headers: BTreeMap<String, Vec<(String, BitSpec)>>,
    /// Member and its header.
    pub header_unions: BTreeMap<String, Vec<(String, String)>>,
    pub enums: BTreeMap<String, Vec<String>>,
    pub errors: Option<Vec<String>>,
    pub serializable_enums: BTreeMap<String, SerializableEnum>,
    pub new_types: BTreeMap<String, NewType>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SerializableEnum {
    /// Bits.
    pub bitwidth: u32,
    /// Member and value, big-endian in as many bytes as the width needs.
    pub members: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SdnType {
    Bits(u32),
    String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Representation {
    Original(TypeSpec),
    /// `@p4runtime_translation(uri, type)`.
    Translated(String, SdnType),
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewType {
    pub representation: Representation,
    pub annotations: Annotations,
    /// Bits in the program.
    pub bits: u32,
}

impl P4Info {
    pub fn table(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|t| t.preamble.id == id)
    }

    pub fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|a| a.preamble.id == id)
    }
}
