// SPDX-License-Identifier: Apache-2.0
//! P4Info (P4Runtime 1.4, p4/config/v1/p4info.proto) as plain structs: the interface of a program for controllers, by
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
    /// Actions.
    Action = 0x01,
    /// Tables.
    Table = 0x02,
    /// Value sets.
    ValueSet = 0x03,
    /// Headers of packet-in and packet-out messages.
    ControllerHeader = 0x04,
    /// Action profiles and selectors.
    ActionProfile = 0x11,
    /// Indirect counters.
    Counter = 0x12,
    /// Direct counters.
    DirectCounter = 0x13,
    /// Indirect meters.
    Meter = 0x14,
    /// Direct meters.
    DirectMeter = 0x15,
    /// Registers.
    Register = 0x16,
    /// Digests.
    Digest = 0x17,
}

/// All that a controller may know of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct P4Info {
    /// About the program as a whole.
    pub pkg_info: PkgInfo,
    /// Tables that packets can reach.
    pub tables: Vec<Table>,
    /// Actions that packets can reach.
    pub actions: Vec<Action>,
    /// Action profiles and selectors.
    pub action_profiles: Vec<ActionProfile>,
    /// Indirect counters.
    pub counters: Vec<Counter>,
    /// Direct counters.
    pub direct_counters: Vec<DirectCounter>,
    /// Indirect meters.
    pub meters: Vec<Meter>,
    /// Direct meters.
    pub direct_meters: Vec<DirectMeter>,
    /// Headers of packet-in and packet-out messages.
    pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
    /// Value sets of parsers.
    pub value_sets: Vec<ValueSet>,
    /// Registers.
    pub registers: Vec<Register>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// Types that the others name.
    pub type_info: TypeInfo,
}

/// Documentation of an object in the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documentation {
    /// From `@brief`.
    pub brief: String,
    /// From `@description`.
    pub description: String,
}

/// A constant in a structured annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A string.
    String(String),
    /// An integer.
    Int64(i64),
    /// A boolean.
    Bool(bool),
}

/// The part in brackets of a structured annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum StructuredBody {
    /// `@name[]`
    Empty,
    /// `@name[1, "two"]`
    Expressions(Vec<Expression>),
    /// `@name[one = 1, two = "2"]`
    Pairs(Vec<(String, Expression)>),
}

/// `@name[...]`
#[derive(Clone, Debug, PartialEq)]
pub struct StructuredAnnotation {
    /// Name without the `@`.
    pub name: String,
    /// Content of the brackets.
    pub body: StructuredBody,
}

/// Annotations of an object, except those with a field of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// As written: `@name(arguments)`.
    pub plain: Vec<String>,
    /// Those with brackets.
    pub structured: Vec<StructuredAnnotation>,
    /// From `@brief` and `@description`.
    pub doc: Option<Documentation>,
}

/// About a program as a whole, from `@pkginfo` and `@platform_property` on the package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PkgInfo {
    /// `name` of `@pkginfo`.
    pub name: String,
    /// `version` of `@pkginfo`.
    pub version: String,
    /// Other annotations of the package.
    pub annotations: Annotations,
    /// The architecture: `v1model`.
    pub arch: String,
    /// `organization` of `@pkginfo`.
    pub organization: String,
    /// `contact` of `@pkginfo`.
    pub contact: String,
    /// `url` of `@pkginfo`.
    pub url: String,
    /// From `@platform_property`.
    pub platform_properties: Option<PlatformProperties>,
}

/// Requirements of a program on the packet replication engine; 0: not given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlatformProperties {
    /// Multicast groups.
    pub multicast_group_table_size: i32,
    /// Replicas in all groups together.
    pub multicast_group_table_total_replicas: i32,
    /// Replicas in one group.
    pub multicast_group_table_max_replicas_per_entry: i32,
}

/// Common part of all objects with an id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preamble {
    /// The id; its first byte is a [`Prefix`].
    pub id: u32,
    /// Fully qualified.
    pub name: String,
    /// Shortest suffix of the name that no other object has.
    pub alias: String,
    /// Annotations of the object.
    pub annotations: Annotations,
}

/// Match type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchType {
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
}

/// A key of a table, or a field of a value set.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchField {
    /// Id within the table or value set.
    pub id: u32,
    /// Name as controllers know it.
    pub name: String,
    /// Annotations of the field.
    pub annotations: Annotations,
    /// Bits as controllers see them: those of the translated type for a type with @p4runtime_translation, and 0
    /// when that is a string. The key of the IR has the program's own width.
    pub bitwidth: u32,
    /// Match type.
    pub match_type: MatchType,
    /// Name in [`TypeInfo::new_types`].
    pub type_name: Option<String>,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

/// Where a table allows an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// In entries and as the default.
    #[default]
    TableAndDefault,
    /// In entries only.
    TableOnly,
    /// As the default only.
    DefaultOnly,
}

/// A table's reference to an action.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    /// Id of the action.
    pub id: u32,
    /// Where the table allows it.
    pub scope: Scope,
    /// Annotations of the reference.
    pub annotations: Annotations,
    /// Index in the [`crate::bytecode::program::Table::actions`] of the table, as [`crate::bytecode::program::ActionCall::action`] has it.
    pub ir_index: usize,
}

/// The default action a table starts with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableActionCall {
    /// Id of the action, or 0.
    pub action_id: u32,
    /// Parameter id and value, big-endian in as many bytes as the parameter's width needs: p4c's form, not the
    /// shortest one that P4Runtime 8.4 calls canonical.
    pub arguments: Vec<(u32, Vec<u8>)>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// In the order of the table's keys without its selector keys: the order of a
    /// [`crate::exec::EntryState`]'s keys.
    pub match_fields: Vec<MatchField>,
    /// Actions of the table.
    pub action_refs: Vec<ActionRef>,
    /// 0 when the default action can be changed.
    pub const_default_action_id: u32,
    /// The default action at the start.
    pub initial_default_action: TableActionCall,
    /// Id of the action profile, or 0.
    pub implementation_id: u32,
    /// Ids of the direct counter and meter.
    pub direct_resource_ids: Vec<u32>,
    /// Entries that controllers may add.
    pub size: u64,
    /// The program asks for idle time-outs (`support_timeout = true`).
    pub idle_timeout: bool,
    /// All entries are the program's own.
    pub is_const_table: bool,
    /// The program has entries of its own that controllers may change.
    pub has_initial_entries: bool,
    /// Index in [`crate::bytecode::program::Program::tables`].
    pub ir_index: usize,
}

impl Table {
    /// The reference to the action of this id.
    pub fn action(&self, id: u32) -> Option<&ActionRef> {
        self.action_refs.iter().find(|a| a.id == id)
    }
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Id within the action.
    pub id: u32,
    /// Name in the program.
    pub name: String,
    /// Annotations of the parameter.
    pub annotations: Annotations,
    /// Bits as controllers see them, see [`MatchField::bitwidth`].
    pub bitwidth: u32,
    /// Name in [`TypeInfo::new_types`], or of an enum.
    pub type_name: Option<String>,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// In the order of [`crate::bytecode::program::TableAction::params`].
    pub params: Vec<Param>,
}

/// Size limit of a selector's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorSize {
    /// The sum of the weights of a group's members.
    SumOfWeights,
    /// The number of members.
    SumOfMembers {
        /// The largest weight of a member, or 0 for no limit.
        max_member_weight: i32,
    },
}

/// An action profile or action selector.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionProfile {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Tables that use it.
    pub table_ids: Vec<u32>,
    /// Whether it is an action selector.
    pub with_selector: bool,
    /// Members, or as `selector_size` says.
    pub size: u64,
    /// 0 when the program does not limit it.
    pub max_group_size: i32,
    /// Unit of group sizes, where the program gives it.
    pub selector_size: Option<SelectorSize>,
    /// Actions that members may have: action id, procedure in [`crate::bytecode::program::Program::procs`].
    pub actions: Vec<(u32, usize)>,
    /// Index in [`crate::bytecode::program::Program::profiles`].
    pub ir_index: usize,
}

/// Unit of a counter or meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Packets and bytes.
    Both,
}

/// An indirect counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Unit.
    pub unit: Unit,
    /// Cells.
    pub size: u64,
    /// Type of the index, where that is a `type`.
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::counters`].
    pub ir_index: usize,
}

/// A counter in each entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectCounter {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Unit.
    pub unit: Unit,
    /// Id of the table.
    pub direct_table_id: u32,
    /// Index in [`crate::bytecode::program::Program::counters`].
    pub ir_index: usize,
}

/// An indirect meter.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Bytes or packets.
    pub unit: Unit,
    /// Cells.
    pub size: u64,
    /// Type of the index, where that is a `type`.
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::meters`].
    pub ir_index: usize,
}

/// A meter in each entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectMeter {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Bytes or packets.
    pub unit: Unit,
    /// Id of the table.
    pub direct_table_id: u32,
    /// Index in [`crate::bytecode::program::Program::meters`].
    pub ir_index: usize,
}

/// A field of a packet-in or packet-out header.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Id within the header.
    pub id: u32,
    /// Name in the program.
    pub name: String,
    /// Annotations of the field.
    pub annotations: Annotations,
    /// Bits as controllers see them, see [`MatchField::bitwidth`].
    pub bitwidth: u32,
    /// Name in [`TypeInfo::new_types`], or of an enum.
    pub type_name: Option<String>,
    /// Where the field starts in the header and how long it is there, in bits.
    pub offset_bits: u32,
    /// Its length there.
    pub bits: u32,
    /// For a type that is a string to controllers.
    pub strings: Option<Arc<Strings>>,
}

/// A header with `@controller_header("packet_in")` or `"packet_out"`, by which it is named here.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerPacketMetadata {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Its fields, without padding.
    pub metadata: Vec<Metadata>,
    /// Bits of the whole header, hidden fields too.
    pub bits: u32,
}

/// A value set.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// In the order of [`crate::bytecode::program::ValueSetDecl::widths`].
    pub match_fields: Vec<MatchField>,
    /// Limit of members.
    pub size: u64,
    /// Index in [`crate::bytecode::program::Program::value_sets`].
    pub ir_index: usize,
}

/// An array of registers.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Type of a cell.
    pub type_spec: TypeSpec,
    /// Cells.
    pub size: u64,
    /// Type of the index, where that is a `type`.
    pub index_type_name: Option<String>,
    /// Index in [`crate::bytecode::program::Program::registers`].
    pub ir_index: usize,
}

/// A kind of digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// Id, name and annotations.
    pub preamble: Preamble,
    /// Type of the data.
    pub type_spec: TypeSpec,
    /// Index in [`crate::bytecode::program::Program::digests`].
    pub ir_index: usize,
}

/// A type of bits, with its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitSpec {
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`
    Int(u32),
    /// The largest size.
    Varbit(u32),
}

/// The type of data in digests and registers; names refer to [`TypeInfo`].
#[derive(Clone, Debug, PartialEq)]
pub enum TypeSpec {
    /// Numbers.
    Bits(BitSpec),
    /// `bool`
    Bool,
    /// A tuple of these types.
    Tuple(Vec<TypeSpec>),
    /// A struct by its name.
    Struct(String),
    /// A header by its name.
    Header(String),
    /// A header union by its name.
    HeaderUnion(String),
    /// A stack of a header, and its size.
    HeaderStack(String, u32),
    /// A stack of a header union, and its size.
    HeaderUnionStack(String, u32),
    /// An enum by its name.
    Enum(String),
    /// `error`
    Error,
    /// An enum with an underlying type by its name.
    SerializableEnum(String),
    /// A `type` by its name.
    NewType(String),
}

/// The named types that controllers need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeInfo {
    /// Structs: members and their types.
    pub structs: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Headers: fields and their types.
    pub headers: BTreeMap<String, Vec<(String, BitSpec)>>,
    /// Member and its header.
    pub header_unions: BTreeMap<String, Vec<(String, String)>>,
    /// Enums: members.
    pub enums: BTreeMap<String, Vec<String>>,
    /// All errors, when a type uses them.
    pub errors: Option<Vec<String>>,
    /// Enums with an underlying type.
    pub serializable_enums: BTreeMap<String, SerializableEnum>,
    /// Types made with `type`.
    pub new_types: BTreeMap<String, NewType>,
}

/// An enum with an underlying type.
#[derive(Clone, Debug, PartialEq)]
pub struct SerializableEnum {
    /// Bits.
    pub bitwidth: u32,
    /// Member and value, big-endian in as many bytes as the width needs.
    pub members: Vec<(String, Vec<u8>)>,
}

/// A type as controllers see it.
#[derive(Clone, Debug, PartialEq)]
pub enum SdnType {
    /// A number of this width in bits.
    Bits(u32),
    /// A string.
    String,
}

/// Representation of a `type` for controllers.
#[derive(Clone, Debug, PartialEq)]
pub enum Representation {
    /// As the type that it is made of.
    Original(TypeSpec),
    /// `@p4runtime_translation(uri, type)`.
    Translated(String, SdnType),
}

/// A `type`.
#[derive(Clone, Debug, PartialEq)]
pub struct NewType {
    /// Representation for controllers.
    pub representation: Representation,
    /// Annotations of the declaration.
    pub annotations: Annotations,
    /// Bits in the program.
    pub bits: u32,
}

impl P4Info {
    /// The table of this id.
    pub fn table(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|t| t.preamble.id == id)
    }

    /// The action of this id.
    pub fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|a| a.preamble.id == id)
    }
}
