// SPDX-License-Identifier: Apache-2.0
//! The traffic manager: the queues between ingress and egress. Pure; time is nanoseconds since the switch started.
//!
//! Each port has a link and one queue a priority (a higher number goes first). A queue's own rate, in packets/s, is
//! BMv2's: packets have their turns at least 1/rate apart, each priority by itself. The link's rate, in bit/s, is shared
//! by the port's queues: a packet occupies it for `length * 8 / rate`, where the length is the one it was queued with.
//! A packet that the link holds up leaves after its turn, but the turns of those behind it stay: of a link that is never
//! free, a queue gets its rate whole. A packet that finds nothing in its way leaves at once. A rate of 0 is no limit. A
//! full queue drops what arrives.
//!
//! A queue can have flow queues ([`flow_queues`]). Depths in packets and bytes are those of all of them together; a full
//! queue drops the first packet of the flow with most bytes.
//!
//! A port that is held ([`TrafficManager::hold`]) has no departures: its packets wait, and what arrives at a full queue is
//! dropped there.
//!
//! Departures are spaced by when they were due, not by when the caller came to ask: a late call loses no rate.
use flow_queues::FlowQueues;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

mod flow_queues;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Limits of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Packets/s; 0: no limit.
    pub rate_pps: u64,
    /// Most packets that wait.
    pub depth_packets: u64,
    /// Most bytes that wait, counted as the packets arrived.
    pub depth_bytes: u64,
    /// A queue for each flow, by DRR++, instead of one in the order of arrival.
    pub flows: bool,
}

impl Default for QueueSettings {
    /// BMv2's: no rate, 64 packets.
    fn default() -> Self {
        QueueSettings { rate_pps: 0, depth_packets: 64, depth_bytes: u64::MAX, flows: false }
    }
}

/// Limits of a port: its link and its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// bit/s of the link; 0: no limit.
    pub rate_bps: u64,
    /// One a priority, lowest first.
    pub queues: Vec<QueueSettings>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Number of their bytes together.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet.
    pub fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// Counts of a queue's packets. Offered are `enqueued + tail_dropped`; enqueued are `dequeued + head_dropped + purged +
/// backlog`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Took a place in the queue.
    pub enqueued: Count,
    /// Left it.
    pub dequeued: Count,
    /// The queue was full.
    pub tail_dropped: Count,
    /// Dropped from a flow queue for a packet of another flow, or for a later one.
    pub head_dropped: Count,
    /// Thrown away by [`TrafficManager::purge`].
    pub purged: Count,
    /// Are in the queue now.
    pub backlog: Count,
}

/// Flow queues of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Have packets now.
    pub active: u64,
    /// Number of times a flow began to wait.
    pub begun: u64,
}

/// A packet that leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// By which port.
    pub port: u32,
    /// From which of its queues.
    pub priority: usize,
    /// The queued item.
    pub item: T,
    /// When it was queued.
    pub enq_ns: u64,
    /// When it could leave at the earliest; [`TrafficManager::dequeue`] may have been called later.
    pub due_ns: u64,
    /// Packets in its queue before it came.
    pub enq_qdepth: u32,
    /// Packets in its queue after it left.
    pub deq_qdepth: u32,
    /// Hash of its flow, as it was queued with.
    pub flow: u32,
}

/// Why a packet was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Counted with the queue.
    Full,
    /// No such priority; counted with the port.
    Priority,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    bytes: u64,
    enq_ns: u64,
    enq_qdepth: u32,
    flow: u32,
}

/// Waiting packets in the order in which they leave.
#[derive(Debug)]
enum Order<T> {
    Arrival(VecDeque<Waiting<T>>),
    Flows(Box<FlowQueues<T>>),
}

impl<T> Order<T> {
    fn new(flows: bool) -> Self {
        if flows { Order::Flows(Box::new(FlowQueues::new())) } else { Order::Arrival(VecDeque::new()) }
    }

    fn push(&mut self, waiting: Waiting<T>) {
        match self {
            Order::Arrival(packets) => packets.push_back(waiting),
            Order::Flows(flows) => flows.push(waiting),
        }
    }

    fn pop(&mut self) -> Option<Waiting<T>> {
        match self {
            Order::Arrival(packets) => packets.pop_front(),
            Order::Flows(flows) => flows.pop(),
        }
    }

    fn clear(&mut self) {
        match self {
            Order::Arrival(packets) => packets.clear(),
            Order::Flows(flows) => flows.clear(),
        }
    }
}

#[derive(Debug)]
struct Queue<T> {
    waiting: Order<T>,
    /// Time since which packets wait: with flow queues the next packet is chosen when it leaves.
    since_ns: u64,
    /// When the next packet has its turn, as far as `rate_pps` is concerned.
    free_ns: u64,
    stats: QueueStats,
}

#[derive(Debug)]
struct Port<T> {
    settings: PortSettings,
    queues: Vec<Queue<T>>,
    /// When the link has sent the packet it has been given.
    link_free_ns: u64,
    /// The time under which the port is in the calendar; other times found there are out of date.
    due_ns: Option<u64>,
    /// The interface takes no packets: none departs.
    is_held: bool,
    bad_priority: u64,
}

impl<T> Port<T> {
    /// When the head of queue `i` is due.
    fn head_due_ns(&self, i: usize) -> Option<u64> {
        let q = &self.queues[i];
        let enq_ns = match &q.waiting {
            Order::Arrival(packets) => packets.front()?.enq_ns,
            Order::Flows(flows) if flows.len() > 0 => q.since_ns,
            Order::Flows(_) => return None,
        };
        Some(enq_ns.max(q.free_ns).max(self.link_free_ns))
    }

    fn earliest_ns(&self) -> Option<u64> {
        if self.is_held {
            return None;
        }
        (0..self.queues.len()).filter_map(|i| self.head_due_ns(i)).min()
    }
}

/// The queues of all ports.
#[derive(Debug)]
pub struct TrafficManager<T> {
    default: PortSettings,
    ports: Vec<Option<Box<Port<T>>>>,
    /// Ports with something waiting, by when they next have something to send.
    calendar: BinaryHeap<Reverse<(u64, u32)>>,
    has_flows: bool,
    /// Packets dropped from flow queues.
    dropped: Vec<T>,
}

/// Time that `amount` takes at `rate` a second, rounded up so that a rate is never exceeded.
fn duration_ns(amount: u64, rate: u64) -> u64 {
    if rate == 0 {
        return 0;
    }
    u64::try_from((u128::from(amount) * u128::from(NS_PER_S)).div_ceil(u128::from(rate))).unwrap_or(u64::MAX)
}

/// End at another rate of a packet that was to end at `end_ns`; 0 is no limit.
fn sooner(end_ns: u64, now_ns: u64, old_rate: u64, new_rate: u64) -> u64 {
    let left_ns = end_ns.saturating_sub(now_ns);
    if left_ns == 0 || old_rate == new_rate {
        return end_ns;
    }
    if new_rate == 0 {
        return now_ns;
    }
    let left = (u128::from(left_ns) * u128::from(old_rate)).div_ceil(u128::from(new_rate));
    now_ns.saturating_add(u64::try_from(left).unwrap_or(u64::MAX))
}

impl<T> TrafficManager<T> {
    /// Queues for `priorities` (at least 1) on every port.
    pub fn new(priorities: usize) -> Self {
        let queues = vec![QueueSettings::default(); priorities.max(1)];
        let default = PortSettings { rate_bps: 0, queues };
        TrafficManager {
            default,
            ports: Vec::new(),
            calendar: BinaryHeap::new(),
            has_flows: false,
            dropped: Vec::new(),
        }
    }

    /// Queues of each port.
    pub fn priorities(&self) -> usize {
        self.default.queues.len()
    }

    /// Whether a queue has flow queues, and packets need their flow's hash.
    pub fn has_flows(&self) -> bool {
        self.has_flows
    }

    fn port(&mut self, port: u32) -> &mut Port<T> {
        Self::port_of(&mut self.ports, &self.default, port)
    }

    fn port_of<'a>(ports: &'a mut Vec<Option<Box<Port<T>>>>, settings: &PortSettings, port: u32) -> &'a mut Port<T> {
        let at = port as usize;
        if at >= ports.len() {
            ports.resize_with(at + 1, || None);
        }
        ports[at].get_or_insert_with(|| {
            let queue = |s: &QueueSettings| {
                let waiting = Order::new(s.flows);
                Queue { waiting, since_ns: 0, free_ns: 0, stats: QueueStats::default() }
            };
            let queues = settings.queues.iter().map(queue).collect();
            Box::new(Port {
                settings: settings.clone(),
                queues,
                link_free_ns: 0,
                due_ns: None,
                is_held: false,
                bad_priority: 0,
            })
        })
    }

    /// The limits of `port`, or of the ports without limits of their own.
    pub fn settings(&self, port: Option<u32>) -> &PortSettings {
        let known = port.and_then(|p| self.ports.get(p as usize)?.as_ref());
        known.map_or(&self.default, |p| &p.settings)
    }

    /// Changes the limits of a port, or (`None`) of all ports. Waiting packets stay, and leave at the new rate; so does
    /// the rest of the packet that is being sent.
    ///
    /// # Panics
    /// When `settings` has not one queue for each priority.
    pub fn set(&mut self, port: Option<u32>, settings: &PortSettings, now_ns: u64) {
        match port {
            Some(port) => {
                self.change(port, settings, now_ns);
                self.update_has_flows();
            }
            None => self.set_all(|_| settings.clone(), [], now_ns),
        }
    }

    /// Sets the limits of all ports: `settings` gives those of a port, and for `None` those of ports that are not there
    /// yet. The ports of `named` are, from now on.
    ///
    /// # Panics
    /// As [`TrafficManager::set`].
    pub fn set_all(
        &mut self,
        settings: impl Fn(Option<u32>) -> PortSettings,
        named: impl IntoIterator<Item = u32>,
        now_ns: u64,
    ) {
        for port in named {
            self.port(port);
        }
        self.default = settings(None);
        let there: Vec<u32> = (0u32..).zip(&self.ports).filter(|(_, p)| p.is_some()).map(|(n, _)| n).collect();
        there.into_iter().for_each(|port| self.change(port, &settings(Some(port)), now_ns));
        self.update_has_flows();
    }

    fn update_has_flows(&mut self) {
        let ports = self.ports.iter().flatten().map(|p| &p.settings);
        self.has_flows = ports.chain([&self.default]).any(|s| s.queues.iter().any(|q| q.flows));
    }

    fn change(&mut self, port: u32, settings: &PortSettings, now_ns: u64) {
        assert_eq!(settings.queues.len(), self.priorities(), "one queue a priority");
        let p = self.port(port);
        p.link_free_ns = sooner(p.link_free_ns, now_ns, p.settings.rate_bps, settings.rate_bps);
        for ((q, old), new) in p.queues.iter_mut().zip(&p.settings.queues).zip(&settings.queues) {
            q.free_ns = sooner(q.free_ns, now_ns, old.rate_pps, new.rate_pps);
            if old.flows != new.flows {
                let mut before = std::mem::replace(&mut q.waiting, Order::new(new.flows));
                std::iter::from_fn(|| before.pop()).for_each(|waiting| q.waiting.push(waiting));
                q.since_ns = now_ns;
            }
        }
        p.settings = settings.clone();
        let due = p.earliest_ns();
        if due != p.due_ns {
            p.due_ns = due;
            self.calendar.extend(due.map(|due| Reverse((due, port))));
        }
    }

    /// Holds the packets of a port whose interface takes none.
    pub fn hold(&mut self, port: u32) {
        let p = self.port(port);
        (p.is_held, p.due_ns) = (true, None);
    }

    /// Ends [`TrafficManager::hold`]. The time until now gives no credit to the port's rates.
    pub fn release(&mut self, port: u32, now_ns: u64) {
        let p = self.port(port);
        if !std::mem::replace(&mut p.is_held, false) {
            return;
        }
        let has_rate = |rate: u64| rate != 0;
        if has_rate(p.settings.rate_bps) {
            p.link_free_ns = p.link_free_ns.max(now_ns);
        }
        for (q, limits) in p.queues.iter_mut().zip(&p.settings.queues) {
            if has_rate(limits.rate_pps) {
                q.free_ns = q.free_ns.max(now_ns);
            }
        }
        let due = p.earliest_ns();
        p.due_ns = due;
        self.calendar.extend(due.map(|due| Reverse((due, port))));
    }

    /// Queues a packet of `bytes` bytes, or counts it as dropped and gives it back. `flow`: hash of its flow, for flow
    /// queues; [`TrafficManager::next_dropped`] gives what they dropped for it.
    ///
    /// # Errors
    /// The queue is full, or there is no such priority.
    pub fn enqueue(
        &mut self,
        port: u32,
        priority: usize,
        bytes: u64,
        flow: u32,
        item: T,
        now_ns: u64,
    ) -> Result<(), (Refused, T)> {
        let p = Self::port_of(&mut self.ports, &self.default, port);
        let (Some(q), Some(limits)) = (p.queues.get_mut(priority), p.settings.queues.get(priority)) else {
            p.bad_priority += 1;
            return Err((Refused::Priority, item));
        };
        while q.stats.backlog.packets >= limits.depth_packets
            || q.stats.backlog.bytes.saturating_add(bytes) > limits.depth_bytes
        {
            let fattest = match &mut q.waiting {
                Order::Arrival(_) => None,
                Order::Flows(flows) => flows.drop_fattest(flow, bytes),
            };
            let Some(first) = fattest else {
                q.stats.tail_dropped.add(bytes);
                return Err((Refused::Full, item));
            };
            q.stats.head_dropped.add(first.bytes);
            q.stats.backlog.packets -= 1;
            q.stats.backlog.bytes -= first.bytes;
            self.dropped.push(first.item);
        }
        let enq_qdepth = u32::try_from(q.stats.backlog.packets).unwrap_or(u32::MAX);
        q.waiting.push(Waiting { item, bytes, enq_ns: now_ns, enq_qdepth, flow });
        q.stats.enqueued.add(bytes);
        q.stats.backlog.add(bytes);
        // Only a new head can bring a port's time forward.
        if q.stats.backlog.packets == 1 {
            q.since_ns = now_ns;
            let due = p.head_due_ns(priority);
            if let Some(due) = due.filter(|due| !p.is_held && p.due_ns.is_none_or(|known| *due < known)) {
                p.due_ns = Some(due);
                self.calendar.push(Reverse((due, port)));
            }
        }
        Ok(())
    }

    /// A packet that was dropped from a flow queue since the last call.
    pub fn next_dropped(&mut self) -> Option<T> {
        self.dropped.pop()
    }

    /// The next packet that is due by `now_ns`: of the port that has been due longest, the highest priority.
    pub fn dequeue(&mut self, now_ns: u64) -> Option<Departure<T>> {
        while let Some(Reverse((due, port))) = self.calendar.peek().copied() {
            if due > now_ns {
                return None;
            }
            self.calendar.pop();
            let Some(p) = self.ports[port as usize].as_deref_mut().filter(|p| p.due_ns == Some(due)) else {
                continue;
            };
            p.due_ns = None;
            let ready = |i: &usize| p.head_due_ns(*i).is_some_and(|due| due <= now_ns);
            let chosen = (0..p.queues.len()).rev().find(ready);
            let departure = chosen.and_then(|i| Self::take(p, port, i));
            p.due_ns = p.earliest_ns();
            self.calendar.extend(p.due_ns.map(|due| Reverse((due, port))));
            if departure.is_some() {
                return departure;
            }
        }
        None
    }

    fn take(p: &mut Port<T>, port: u32, priority: usize) -> Option<Departure<T>> {
        let due = p.head_due_ns(priority)?;
        let q = &mut p.queues[priority];
        let head = q.waiting.pop()?;
        let due = due.max(head.enq_ns);
        let turn_ns = head.enq_ns.max(q.free_ns);
        q.free_ns = turn_ns.saturating_add(duration_ns(1, p.settings.queues[priority].rate_pps));
        p.link_free_ns = due.saturating_add(duration_ns(head.bytes * 8, p.settings.rate_bps));
        q.stats.dequeued.add(head.bytes);
        q.stats.backlog.packets -= 1;
        q.stats.backlog.bytes -= head.bytes;
        Some(Departure {
            port,
            priority,
            item: head.item,
            enq_ns: head.enq_ns,
            due_ns: due,
            enq_qdepth: head.enq_qdepth,
            deq_qdepth: u32::try_from(q.stats.backlog.packets).unwrap_or(u32::MAX),
            flow: head.flow,
        })
    }

    /// When [`TrafficManager::dequeue`] next has something.
    pub fn next_ns(&mut self) -> Option<u64> {
        while let Some(Reverse((due, port))) = self.calendar.peek().copied() {
            if self.ports[port as usize].as_ref().is_some_and(|p| p.due_ns == Some(due)) {
                return Some(due);
            }
            self.calendar.pop();
        }
        None
    }

    /// Drops the queue; returns the number of packets.
    pub fn purge(&mut self) -> u64 {
        self.calendar.clear();
        let mut purged = 0;
        for p in self.ports.iter_mut().flatten() {
            p.due_ns = None;
            for q in &mut p.queues {
                let backlog = std::mem::take(&mut q.stats.backlog);
                q.waiting.clear();
                q.stats.purged.packets += backlog.packets;
                q.stats.purged.bytes += backlog.bytes;
                purged += backlog.packets;
            }
        }
        purged
    }

    /// Flow queues of one queue, if it has any.
    pub fn flow_stats(&self, port: u32, priority: usize) -> Option<FlowStats> {
        match &self.ports.get(port as usize)?.as_ref()?.queues.get(priority)?.waiting {
            Order::Arrival(_) => None,
            Order::Flows(flows) => Some(FlowStats { active: flows.active() as u64, begun: flows.begun }),
        }
    }

    /// Counters by port: those of its queues, lowest priority first, and packets of a priority that is not there.
    pub fn stats(&self) -> impl Iterator<Item = (u32, Vec<QueueStats>, u64)> + '_ {
        (0u32..).zip(&self.ports).filter_map(|(port, p)| {
            p.as_ref().map(|p| (port, p.queues.iter().map(|q| q.stats).collect(), p.bad_priority))
        })
    }
}

#[cfg(test)]
mod flow_tests;
#[cfg(test)]
mod tests;
