// SPDX-License-Identifier: Apache-2.0
//! Flow queues of one queue, scheduled by DRR++ (RFC 8290 4): flows that begin to wait precede those with a backlog, and
//! these share the rate equally in bytes. Memory is bounded: a constant number of flow queues, and a buffer that grows to
//! the largest number of packets that waited at once.
use super::Waiting;

/// Number of flow queues of one queue.
const FLOWS: usize = 1024;

/// Queues of a set: a flow's hash selects the set, and flows share a queue only when all of the set are in use.
const WAYS: usize = 8;

/// Bytes that a flow may send in a round (RFC 8290 5.2.3: a full Ethernet frame).
pub(super) const QUANTUM_BYTES: i64 = 1514;

/// End of a list.
const NONE: u32 = u32::MAX;

/// List in which a flow waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Idle,
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Hash of the flow that took this queue.
    tag: u32,
    /// First and last packet.
    head: u32,
    tail: u32,
    /// Next flow of its list.
    next: u32,
    turn: Turn,
    /// Flows with other hashes use it too.
    shared: bool,
    deficit_bytes: i64,
}

/// Flows in the order of their turns.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE };

    fn push(&mut self, flows: &mut [Flow], at: u32) {
        flows[at as usize].next = NONE;
        match self.tail {
            NONE => self.head = at,
            tail => flows[tail as usize].next = at,
        }
        self.tail = at;
    }

    fn pop(&mut self, flows: &[Flow]) {
        if let Some(first) = flows.get(self.head as usize) {
            self.head = first.next;
            if self.head == NONE {
                self.tail = NONE;
            }
        }
    }
}

#[derive(Debug)]
struct Node<T> {
    /// `None`: free.
    waiting: Option<Waiting<T>>,
    /// Next packet of the flow, or next free node.
    next: u32,
}

/// The packets of one queue, by flow.
#[derive(Debug)]
pub(super) struct FlowQueues<T> {
    flows: Box<[Flow]>,
    /// Bytes in each flow queue, in an array of their own: all are compared when the queue is full.
    bytes: Box<[u64]>,
    nodes: Vec<Node<T>>,
    free: u32,
    new: List,
    old: List,
    packets: usize,
    /// Number of times a flow began to wait.
    pub(super) begun: u64,
}

impl<T> FlowQueues<T> {
    pub(super) fn new() -> Self {
        let idle =
            Flow { tag: 0, head: NONE, tail: NONE, next: NONE, turn: Turn::Idle, shared: false, deficit_bytes: 0 };
        FlowQueues {
            flows: vec![idle; FLOWS].into_boxed_slice(),
            bytes: vec![0; FLOWS].into_boxed_slice(),
            nodes: Vec::new(),
            free: NONE,
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            begun: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Flow queues with packets.
    pub(super) fn active(&self) -> usize {
        self.bytes.iter().zip(&self.flows).filter(|(_, f)| f.head != NONE).count()
    }

    /// Queue of a flow, and whether other flows share it. Packets of a flow are never in two queues at once: they would
    /// be reordered.
    fn find_queue(&self, hash: u32) -> (usize, bool) {
        let set = hash as usize % (FLOWS / WAYS) * WAYS;
        let ways = set..set + WAYS;
        let is_idle = |at: &usize| self.flows[*at].turn == Turn::Idle;
        if let Some(own) = ways.clone().find(|at| self.flows[*at].tag == hash && !is_idle(at)) {
            return (own, false);
        }
        let common = set + (hash >> 16) as usize % WAYS;
        if self.flows[common].shared {
            return (common, true);
        }
        ways.clone().find(is_idle).map_or((common, true), |at| (at, false))
    }

    /// Adds a packet to its flow.
    pub(super) fn push(&mut self, waiting: Waiting<T>) {
        let (at, shared) = self.find_queue(waiting.flow);
        let (hash, bytes) = (waiting.flow, waiting.bytes);
        let node = match self.free {
            NONE => {
                self.nodes.push(Node { waiting: Some(waiting), next: NONE });
                self.nodes.len() as u32 - 1
            }
            free => {
                let node = &mut self.nodes[free as usize];
                self.free = std::mem::replace(&mut node.next, NONE);
                node.waiting = Some(waiting);
                free
            }
        };
        let flow = &mut self.flows[at];
        match flow.tail {
            NONE => flow.head = node,
            tail => self.nodes[tail as usize].next = node,
        }
        flow.tail = node;
        flow.shared |= shared;
        if flow.turn == Turn::Idle {
            (flow.tag, flow.turn, flow.deficit_bytes) = (hash, Turn::New, QUANTUM_BYTES);
            self.begun += 1;
            self.new.push(&mut self.flows, at as u32);
        }
        self.bytes[at] += bytes;
        self.packets += 1;
    }

    /// Takes the first packet of a flow.
    fn take(&mut self, at: usize) -> Option<Waiting<T>> {
        let flow = &mut self.flows[at];
        let node = self.nodes.get_mut(flow.head as usize)?;
        let waiting = node.waiting.take()?;
        let next = std::mem::replace(&mut node.next, self.free);
        self.free = std::mem::replace(&mut flow.head, next);
        if next == NONE {
            flow.tail = NONE;
        }
        self.bytes[at] -= waiting.bytes;
        self.packets -= 1;
        if self.packets == 0 {
            self.end_turns();
        }
        Some(waiting)
    }

    /// Makes all flows idle, when no packet waits.
    fn end_turns(&mut self) {
        for list in [&mut self.new, &mut self.old] {
            let mut at = std::mem::replace(list, List::EMPTY).head;
            while let Some(flow) = self.flows.get_mut(at as usize) {
                (flow.turn, flow.shared) = (Turn::Idle, false);
                at = flow.next;
            }
        }
    }

    /// The next packet in the order of RFC 8290 4.2.
    pub(super) fn pop(&mut self) -> Option<Waiting<T>> {
        while self.packets > 0 {
            let is_new = self.new.head != NONE;
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = list.head;
            let flow = self.flows.get_mut(at as usize)?;
            if flow.deficit_bytes > 0 && flow.head != NONE {
                let waiting = self.take(at as usize)?;
                self.flows[at as usize].deficit_bytes -= (waiting.bytes as i64).max(1);
                return Some(waiting);
            }
            list.pop(&self.flows);
            let flow = &mut self.flows[at as usize];
            if flow.deficit_bytes <= 0 {
                flow.deficit_bytes += QUANTUM_BYTES;
            } else if !is_new || self.old.head == NONE {
                (flow.turn, flow.shared) = (Turn::Idle, false);
                continue;
            }
            // A new flow that is empty becomes an old one: it could starve the others otherwise (RFC 8290 4.2).
            flow.turn = Turn::Old;
            self.old.push(&mut self.flows, at);
        }
        None
    }

    /// Takes the first packet of the flow with most bytes, among them the `bytes` of an arriving packet; `None` if that is
    /// its flow's only packet.
    pub(super) fn drop_fattest(&mut self, hash: u32, bytes: u64) -> Option<Waiting<T>> {
        let (mut fattest, _) = self.find_queue(hash);
        let mut most = self.bytes[fattest] + bytes;
        for (at, bytes) in self.bytes.iter().enumerate() {
            if *bytes > most {
                (fattest, most) = (at, *bytes);
            }
        }
        self.take(fattest)
    }

    /// Drops all packets.
    pub(super) fn clear(&mut self) {
        let begun = self.begun;
        *self = FlowQueues { begun, ..Self::new() };
    }
}
