// SPDX-License-Identifier: Apache-2.0
//! P4Info (P4Runtime 1.4, p4/config/v1/p4info.proto): the interface of a program for controllers, by the ids that p4c
//! gives the same program, and for each object where it lies in [`crate::bytecode::program::Program`].
mod formats;
#[rustfmt::skip]
pub mod proto;
pub mod strings;

pub use formats::{Format, NO_PROGRAM, is_p4info, json, parse};

use crate::p4info::strings::Strings;
use proto::match_field::{Match, MatchType};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// First byte of an id by kind of object (P4Runtime 6.3).
pub type Prefix = proto::p4_ids::Prefix;

/// A message of P4Info and the index of its object in the list of the program that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<M> {
    /// The object as controllers see it.
    pub message: M,
    /// Index in the program.
    pub ir_index: usize,
}

impl<M> Deref for Object<M> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.message
    }
}

impl<M> DerefMut for Object<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.message
    }
}

/// A table. Its match fields are in the order of the table's keys without its selector keys, which is the order of a
/// [`crate::exec::EntryState`]'s keys; its action references in that of [`crate::bytecode::program::Table::actions`].
pub type Table = Object<proto::Table>;
/// An action profile or action selector.
pub type ActionProfile = Object<proto::ActionProfile>;
/// A value set, its fields in the order of [`crate::bytecode::program::ValueSetDecl::widths`].
pub type ValueSet = Object<proto::ValueSet>;

/// Place of a field in a packet-in or packet-out header.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderField {
    /// Bits in front of it.
    pub offset_bits: u32,
    /// Its length in the program, which may differ from that of a translated type.
    pub bits: u32,
}

/// A header with `@controller_header("packet_in")` or `"packet_out"`, by which it is named here.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerHeader {
    /// The header as controllers see it, without padding.
    pub message: proto::ControllerPacketMetadata,
    /// Place of each of its metadata.
    pub fields: Vec<HeaderField>,
    /// Bits of the whole header, hidden fields too.
    pub bits: u32,
}

/// All that a controller may know of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct P4Info {
    /// About the program as a whole.
    pub pkg_info: proto::PkgInfo,
    /// Tables that packets can reach.
    pub tables: Vec<Table>,
    /// Actions that packets can reach, their parameters in the order of [`crate::bytecode::program::TableAction::params`].
    pub actions: Vec<proto::Action>,
    /// Action profiles and selectors.
    pub action_profiles: Vec<ActionProfile>,
    /// Indirect counters.
    pub counters: Vec<Object<proto::Counter>>,
    /// Direct counters.
    pub direct_counters: Vec<Object<proto::DirectCounter>>,
    /// Indirect meters.
    pub meters: Vec<Object<proto::Meter>>,
    /// Direct meters.
    pub direct_meters: Vec<Object<proto::DirectMeter>>,
    /// Headers of packet-in and packet-out messages.
    pub controller_packet_metadata: Vec<ControllerHeader>,
    /// Value sets of parsers.
    pub value_sets: Vec<ValueSet>,
    /// Registers.
    pub registers: Vec<Object<proto::Register>>,
    /// Digests.
    pub digests: Vec<Object<proto::Digest>>,
    /// Types that the others name.
    pub type_info: proto::P4TypeInfo,
    /// A control or action calls an extern function; as in p4c, the message then has a `type_info`.
    pub calls_functions: bool,
    /// Bits in the program of each of the new types in `type_info`.
    pub new_type_bits: BTreeMap<String, u32>,
    /// Strings of each new type that is a string to controllers.
    pub strings: BTreeMap<String, Arc<Strings>>,
}

/// Messages that begin with a preamble.
pub trait Preambled {
    /// Id, names and annotations.
    fn preamble(&self) -> &Option<proto::Preamble>;
    /// As [`Preambled::preamble`], to be changed.
    fn preamble_mut(&mut self) -> &mut Option<proto::Preamble>;
    /// The id; 0 when there is none.
    fn id(&self) -> u32 {
        self.preamble().as_ref().map_or(0, |p| p.id)
    }
    /// The fully qualified name.
    fn name(&self) -> &str {
        self.preamble().as_ref().map_or("", |p| &p.name)
    }
}

macro_rules! preambled {
    ($([$($generics:tt)*] $type:ty: $($field:ident).+,)*) => {$(
        impl $($generics)* Preambled for $type {
            fn preamble(&self) -> &Option<proto::Preamble> {
                &self.$($field).+
            }
            fn preamble_mut(&mut self) -> &mut Option<proto::Preamble> {
                &mut self.$($field).+
            }
        }
    )*};
}

preambled! {
    [] proto::Table: preamble,
    [] proto::Action: preamble,
    [] proto::ActionProfile: preamble,
    [] proto::Counter: preamble,
    [] proto::DirectCounter: preamble,
    [] proto::Meter: preamble,
    [] proto::DirectMeter: preamble,
    [] proto::ControllerPacketMetadata: preamble,
    [] proto::ValueSet: preamble,
    [] proto::Register: preamble,
    [] proto::Digest: preamble,
    [] ControllerHeader: message.preamble,
}

impl<M: Preambled> Preambled for Object<M> {
    fn preamble(&self) -> &Option<proto::Preamble> {
        self.message.preamble()
    }
    fn preamble_mut(&mut self) -> &mut Option<proto::Preamble> {
        self.message.preamble_mut()
    }
}

/// Match type of a field.
pub fn match_type(f: &proto::MatchField) -> MatchType {
    match f.r#match {
        Some(Match::MatchType(t)) => MatchType::try_from(t).unwrap_or_default(),
        _ => MatchType::Unspecified,
    }
}

fn messages<M: Clone>(objects: &[Object<M>]) -> Vec<M> {
    objects.iter().map(|o| o.message.clone()).collect()
}

impl P4Info {
    /// The table of this id.
    pub fn table(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|t| t.id() == id)
    }

    /// The action of this id.
    pub fn action(&self, id: u32) -> Option<&proto::Action> {
        self.actions.iter().find(|a| a.id() == id)
    }

    /// The strings of a field or parameter of this type, where that is a string to controllers.
    pub fn strings(&self, type_name: &Option<proto::P4NamedType>) -> Option<&Arc<Strings>> {
        self.strings.get(&type_name.as_ref()?.name)
    }

    /// Whether the message has a `type_info`, which is empty in most programs: p4c writes one where it looked for types.
    fn has_type_info(&self) -> bool {
        let externs = self.counters.len() + self.direct_counters.len() + self.meters.len() + self.direct_meters.len();
        let others = self.tables.len() + self.action_profiles.len() + self.registers.len() + self.digests.len();
        let headers = &self.controller_packet_metadata;
        self.calls_functions
            || externs + others > 0
            || self.actions.iter().any(|a| !a.params.is_empty())
            || headers.iter().any(|h| !h.message.metadata.is_empty())
            || self.type_info != proto::P4TypeInfo::default()
    }

    /// The whole as one message.
    pub fn message(&self) -> proto::P4Info {
        proto::P4Info {
            pkg_info: Some(self.pkg_info.clone()),
            tables: messages(&self.tables),
            actions: self.actions.clone(),
            action_profiles: messages(&self.action_profiles),
            counters: messages(&self.counters),
            direct_counters: messages(&self.direct_counters),
            meters: messages(&self.meters),
            direct_meters: messages(&self.direct_meters),
            controller_packet_metadata: self.controller_packet_metadata.iter().map(|h| h.message.clone()).collect(),
            value_sets: messages(&self.value_sets),
            registers: messages(&self.registers),
            digests: messages(&self.digests),
            externs: Vec::new(),
            type_info: Some(self.type_info.clone()).filter(|_| self.has_type_info()),
        }
    }
}
