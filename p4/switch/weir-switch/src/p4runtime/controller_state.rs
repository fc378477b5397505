// SPDX-License-Identifier: Apache-2.0
//! State that controllers wrote and the data plane does not need, kept beside the program's state.
use super::handles::Handles;
use super::nodes::Nodes;
use super::pipeline::Config;
use super::proto::p4::v1 as pb;
use super::stream::digests::Settings;
use std::collections::BTreeMap;
use std::ops::Bound;
use weir_p4::exec::{EntryId, Member};

/// Ids of members and groups from here on belong to one-shot action sets.
pub const RESERVED: u32 = 0xff00_0000;

/// A group with its members that belongs to one table entry.
#[derive(Clone, Debug)]
pub struct OneShot {
    pub set: pb::ActionProfileActionSet,
    /// Index of the profile in the state.
    pub profile: usize,
    pub group: u32,
    pub members: Vec<(u32, Member)>,
    /// Weight of each member.
    pub weights: Vec<(u32, i32)>,
}

/// Data that a controller attached to a table entry.
#[derive(Clone, Debug, Default)]
pub struct Note {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    pub one_shot: Option<Box<OneShot>>,
    pub idle: Option<Idle>,
}

/// Idle timeout of a table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// As the controller wrote it, above 0.
    pub timeout_ns: i64,
    /// Time of the last notification, at which the timeout began again.
    pub notified_us: u64,
}

impl Idle {
    /// The timeout of an entry's message, if it has one.
    pub fn of(e: &pb::TableEntry) -> Option<Idle> {
        (e.idle_timeout_ns > 0).then_some(Idle { timeout_ns: e.idle_timeout_ns, notified_us: 0 })
    }

    /// Resolution is 1 us; shorter timeouts are 1 us.
    pub fn timeout_us(&self) -> u64 {
        (self.timeout_ns.unsigned_abs() / 1000).max(1)
    }
}

impl Note {
    fn is_empty(&self) -> bool {
        self.controller_metadata == 0 && self.metadata.is_empty() && self.one_shot.is_none() && self.idle.is_none()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub max_size: i32,
    /// Member and weight, as written.
    pub members: Vec<(u32, i32)>,
}

/// State of one program that controllers wrote and the data plane does not need.
#[derive(Debug, Default)]
pub struct ControllerState {
    notes: Vec<BTreeMap<EntryId, Note>>,
    pub defaults: Vec<Note>,
    pub groups: Vec<BTreeMap<u32, Group>>,
    /// Of each action profile: handles of members.
    pub handles: Vec<Handles>,
    /// Of each action profile: handles of groups.
    pub group_handles: Vec<Handles>,
    /// Multicast groups as Thrift's clients see them.
    pub nodes: Nodes,
    pub multicast: BTreeMap<u32, pb::MulticastGroupEntry>,
    pub clones: BTreeMap<u32, pb::CloneSessionEntry>,
    pub value_sets: Vec<Vec<pb::ValueSetMember>>,
    /// By index in P4Info's digests.
    pub digests: BTreeMap<usize, Settings>,
    /// The id that was given to a one-shot action set last.
    pub last_reserved: u32,
}

impl ControllerState {
    pub fn new(config: &Config) -> ControllerState {
        let p = &config.program;
        ControllerState {
            notes: vec![BTreeMap::new(); p.tables.len()],
            defaults: vec![Note::default(); p.tables.len()],
            groups: vec![BTreeMap::new(); p.profiles.len()],
            handles: p.profiles.iter().map(|_| Handles::default()).collect(),
            group_handles: p.profiles.iter().map(|_| Handles::default()).collect(),
            value_sets: vec![Vec::new(); p.value_sets.len()],
            ..Default::default()
        }
    }

    pub fn note(&self, table: usize, id: EntryId) -> Option<&Note> {
        self.notes[table].get(&id)
    }

    /// Notes of a table's entries in the order of their ids.
    pub fn notes(&self, table: usize, from: Bound<EntryId>) -> impl Iterator<Item = (EntryId, &Note)> {
        self.notes[table].range((from, Bound::Unbounded)).map(|(id, note)| (*id, note))
    }

    /// Restarts an entry's idle timeout after its notification.
    pub fn notified(&mut self, table: usize, id: EntryId, now_us: u64) {
        if let Some(idle) = self.notes[table].get_mut(&id).and_then(|n| n.idle.as_mut()) {
            idle.notified_us = now_us;
        }
    }

    pub fn set_note(&mut self, table: usize, id: EntryId, note: Note) {
        if note.is_empty() {
            self.notes[table].remove(&id);
        } else {
            self.notes[table].insert(id, note);
        }
    }

    /// Removes and returns the note of an entry.
    pub fn take_note(&mut self, table: usize, id: EntryId) -> Option<Note> {
        self.notes[table].remove(&id)
    }

    /// Whether a member or group id belongs to a one-shot action set: controllers don't see those.
    pub fn is_reserved(id: u32) -> bool {
        id >= RESERVED
    }
}
