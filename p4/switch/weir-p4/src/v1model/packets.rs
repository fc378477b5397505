// SPDX-License-Identifier: Apache-2.0
//! Packets between the stages of the switch, and reports of the stages.
use crate::bytecode::operators::Slot;
use crate::exec::interpreter::{DigestData, Effects};
use crate::exec::packet::Packet;
use crate::exec::trace::Origin;
use crate::value::Val;

/// The egress_spec that drops, as simple_switch's default.
pub const DROP_PORT: u32 = 511;

/// Why a packet is in the pipeline, numbered as `standard_metadata.instance_type` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstanceType {
    /// It came in at a port.
    Normal = 0,
    /// Cloned in ingress.
    IngressClone = 1,
    /// Cloned in egress.
    EgressClone = 2,
    /// Sent back to the parser after the deparser.
    Recirculated = 4,
    /// A copy for a port of a multicast group.
    Replicated = 5,
    /// Sent back to the parser after ingress.
    Resubmitted = 6,
}

impl InstanceType {
    /// Name in traces, as P4Runtime and v1model's documents write it.
    pub(super) fn name(kind: u64) -> &'static str {
        match kind {
            1 => "ingress_clone",
            2 => "egress_clone",
            4 => "recirculated",
            5 => "replicated",
            6 => "resubmitted",
            _ => "normal",
        }
    }
}

/// A packet on its way into the parser.
#[derive(Clone, Debug)]
pub struct Arriving {
    /// The whole packet.
    pub packet: Packet,
    /// Where it came in.
    pub port: u32,
    /// Why it is here.
    pub kind: InstanceType,
    /// User metadata kept from the last round.
    pub(super) kept: Vec<(Slot, Val)>,
    /// Its pass in a trace.
    pub(super) origin: Origin,
}

impl Arriving {
    /// A packet from outside.
    pub fn new(packet: Packet, port: u32) -> Arriving {
        Arriving { packet, port, kind: InstanceType::Normal, kept: Vec::new(), origin: Origin::default() }
    }
}

/// A packet between ingress and egress. The caller sets the four queue members when it queues and unqueues, and gives
/// packets that it does not send on to [`Switch::discard`].
#[derive(Clone, Debug)]
pub struct Queued {
    /// Where it is to go out.
    pub port: u32,
    /// 0 lowest, as standard_metadata.priority says.
    pub priority: u8,
    /// Length of the packet that came in, in bytes.
    pub length: u32,
    /// When it was queued.
    pub enq_us: u64,
    /// Packets in the queue when it was queued.
    pub enq_qdepth: u32,
    /// When it left the queue.
    pub deq_us: u64,
    /// Packets in the queue when it left.
    pub deq_qdepth: u32,
    pub(super) carried: Box<Carried>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// Slots of headers, user metadata and standard metadata, and those of them that are wide.
    pub(super) frame: Vec<u64>,
    pub(super) wide: Vec<Val>,
    /// Bytes that the parser left unread.
    pub(super) payload: Packet,
    /// Length to cut to, asked for in ingress.
    pub(super) truncate: Option<usize>,
    /// Length to cut to, asked for by the session of a clone.
    pub(super) clone_bytes: Option<usize>,
    /// Where the packet came in.
    pub(super) ingress_port: u32,
    /// Change of the length by headers added and removed.
    pub(super) grown_bytes: i64,
    /// Its pass in a trace.
    pub(super) origin: Origin,
}

/// A packet that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Where it goes out.
    pub port: u32,
    /// The whole packet.
    pub packet: Packet,
}

/// Events besides packets.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Digests for the controller.
    pub digests: Vec<DigestData>,
    /// Messages of `log_msg`.
    pub log: Vec<String>,
    /// Packets thrown away because the program failed on them.
    pub faults: Vec<String>,
    /// Packets dropped in ingress.
    pub ingress_drops: u32,
    /// Packets dropped in egress.
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
    /// Packets to queue.
    pub queued: Vec<Queued>,
    /// A resubmitted packet.
    pub again: Option<Arriving>,
}

/// After egress. [`Switch::egress`] adds to it.
#[derive(Debug, Default)]
pub struct EgressOut {
    /// The packet, unless it was dropped or recirculated.
    pub sent: Option<Sent>,
    /// Clones, to be queued.
    pub clones: Vec<Queued>,
    /// A recirculated packet.
    pub again: Option<Arriving>,
}
