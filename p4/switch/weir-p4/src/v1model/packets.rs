// SPDX-License-Identifier: Apache-2.0
//! Packets between the stages of the switch, and what the stages report.
use crate::bytecode::operators::Slot;
use crate::exec::interpreter::{DigestData, Effects};
use crate::exec::packet::Packet;
use crate::value::Val;

/// The egress_spec that drops, as simple_switch's default.
pub const DROP_PORT: u32 = 511;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstanceType {
    Normal = 0,
    IngressClone = 1,
    EgressClone = 2,
    Recirculated = 4,
    Replicated = 5,
    Resubmitted = 6,
}

/// A packet on its way into the parser.
#[derive(Clone, Debug)]
pub struct Arriving {
    pub packet: Packet,
    pub port: u32,
    pub kind: InstanceType,
    /// User metadata kept from the last round.
    pub(super) kept: Vec<(Slot, Val)>,
}

impl Arriving {
    /// A packet from outside.
    pub fn new(packet: Packet, port: u32) -> Arriving {
        Arriving { packet, port, kind: InstanceType::Normal, kept: Vec::new() }
    }
}

/// A packet between ingress and egress. The caller sets the four queue members when it queues and unqueues, and gives
/// what it does not send on to [`Switch::discard`].
#[derive(Clone, Debug)]
pub struct Queued {
    pub port: u32,
    /// 0 lowest, as standard_metadata.priority says.
    pub priority: u8,
    /// Length of the packet that came in, in bytes.
    pub length: u32,
    pub enq_us: u64,
    pub enq_qdepth: u32,
    pub deq_us: u64,
    pub deq_qdepth: u32,
    pub(super) carried: Box<Carried>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// Slots of headers, user metadata and standard metadata, and those of them that are wide.
    pub(super) frame: Vec<u64>,
    pub(super) wide: Vec<Val>,
    /// What the parser left unread.
    pub(super) payload: Packet,
    /// Length to cut to, asked for in ingress.
    pub(super) truncate: Option<usize>,
    /// Length to cut to, asked for by the session of a clone.
    pub(super) clone_bytes: Option<usize>,
    /// Where the packet came in.
    pub(super) ingress_port: u32,
    /// What headers added and removed have done to the length.
    pub(super) grown_bytes: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub port: u32,
    pub packet: Packet,
}

/// What happened besides packets.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub digests: Vec<DigestData>,
    pub log: Vec<String>,
    /// Packets thrown away because the program failed on them.
    pub faults: Vec<String>,
    pub ingress_drops: u32,
    pub egress_drops: u32,
}

impl Notes {
    pub(super) fn take(&mut self, effects: &mut Effects) {
        self.digests.extend(effects.digest.take());
        self.log.append(&mut effects.log);
        self.faults.extend(effects.fault.take());
    }
}

/// After ingress: packets to queue, a packet to parse again. [`Switch::ingress`] adds to it.
#[derive(Debug, Default)]
pub struct IngressOut {
    pub queued: Vec<Queued>,
    pub again: Option<Arriving>,
}

/// After egress. [`Switch::egress`] adds to it.
#[derive(Debug, Default)]
pub struct EgressOut {
    pub sent: Option<Sent>,
    pub clones: Vec<Queued>,
    pub again: Option<Arriving>,
}
