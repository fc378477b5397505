// SPDX-License-Identifier: Apache-2.0
//! The traffic manager: what waits between ingress and egress. Pure; time is nanoseconds since the switch started.
//!
//! Each port has a link and one queue a priority (a higher number goes first). A queue's own rate, in packets/s, is
//! BMv2's: packets leave it at least 1/rate apart, each priority by itself. The link's rate, in bit/s, is shared by
//! the port's queues: a packet occupies it for `length * 8 / rate`, where the length is the one it was queued with.
//! A packet that finds nothing in its way leaves at once. A rate of 0 is no limit. A full queue drops what arrives.
//!
//! Departures are spaced by when they were due, not by when the caller came to ask: a late call loses no rate.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
}

impl Default for QueueSettings {
    /// BMv2's: no rate, 64 packets.
    fn default() -> Self {
        QueueSettings { rate_pps: 0, depth_packets: 64, depth_bytes: u64::MAX }
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// What became of a queue's packets. What was offered is `enqueued + tail_dropped`; what was enqueued is
/// `dequeued + purged + backlog`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    pub enqueued: Count,
    pub dequeued: Count,
    /// The queue was full.
    pub tail_dropped: Count,
    /// Thrown away by [`TrafficManager::purge`].
    pub purged: Count,
    pub backlog: Count,
}

/// A packet that leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<T> {
    pub port: u32,
    pub priority: usize,
    pub item: T,
    pub enq_ns: u64,
    /// When it could leave at the earliest; [`TrafficManager::dequeue`] may have been called later.
    pub due_ns: u64,
    /// Packets in its queue before it came.
    pub enq_qdepth: u32,
    /// Packets in its queue after it left.
    pub deq_qdepth: u32,
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
}

#[derive(Debug)]
struct Queue<T> {
    waiting: VecDeque<Waiting<T>>,
    /// When the next packet may leave as far as `rate_pps` is concerned.
    free_ns: u64,
    stats: QueueStats,
}

#[derive(Debug)]
struct Port<T> {
    settings: PortSettings,
    queues: Vec<Queue<T>>,
    /// When the link has sent what it has been given.
    link_free_ns: u64,
    /// The time under which the port is in the calendar; other times found there are out of date.
    due_ns: Option<u64>,
    bad_priority: u64,
}

impl<T> Port<T> {
    /// When the head of queue `i` is due.
    fn head_due_ns(&self, i: usize) -> Option<u64> {
        let head = self.queues[i].waiting.front()?;
        Some(head.enq_ns.max(self.queues[i].free_ns).max(self.link_free_ns))
    }

    fn earliest_ns(&self) -> Option<u64> {
        (0..self.queues.len()).filter_map(|i| self.head_due_ns(i)).min()
    }
}

#[derive(Debug)]
pub struct TrafficManager<T> {
    default: PortSettings,
    ports: Vec<Option<Box<Port<T>>>>,
    /// Ports with something waiting, by when they next have something to send.
    calendar: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Time that `amount` takes at `rate` a second, rounded up so that a rate is never exceeded.
fn duration_ns(amount: u64, rate: u64) -> u64 {
    if rate == 0 {
        return 0;
    }
    u64::try_from((u128::from(amount) * u128::from(NS_PER_S)).div_ceil(u128::from(rate))).unwrap_or(u64::MAX)
}

/// When what was to end at `end_ns` ends at another rate; 0 is no limit.
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
        TrafficManager { default, ports: Vec::new(), calendar: BinaryHeap::new() }
    }

    pub fn priorities(&self) -> usize {
        self.default.queues.len()
    }

    fn port(&mut self, port: u32) -> &mut Port<T> {
        let at = port as usize;
        if at >= self.ports.len() {
            self.ports.resize_with(at + 1, || None);
        }
        let settings = &self.default;
        self.ports[at].get_or_insert_with(|| {
            let queue = || Queue { waiting: VecDeque::new(), free_ns: 0, stats: QueueStats::default() };
            let queues = settings.queues.iter().map(|_| queue()).collect();
            Box::new(Port { settings: settings.clone(), queues, link_free_ns: 0, due_ns: None, bad_priority: 0 })
        })
    }

    /// The limits of `port`, or of the ports that nothing was said of.
    pub fn settings(&self, port: Option<u32>) -> &PortSettings {
        let known = port.and_then(|p| self.ports.get(p as usize)?.as_ref());
        known.map_or(&self.default, |p| &p.settings)
    }

    /// Changes the limits of a port, or (`None`) of all ports. What waits stays, and leaves at the new rate; so does what
    /// is left of the packet that is being sent.
    ///
    /// # Panics
    /// When `settings` has not one queue for each priority.
    pub fn set(&mut self, port: Option<u32>, settings: &PortSettings, now_ns: u64) {
        match port {
            Some(port) => self.change(port, settings, now_ns),
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
    }

    fn change(&mut self, port: u32, settings: &PortSettings, now_ns: u64) {
        assert_eq!(settings.queues.len(), self.priorities(), "one queue a priority");
        let p = self.port(port);
        p.link_free_ns = sooner(p.link_free_ns, now_ns, p.settings.rate_bps, settings.rate_bps);
        for ((q, old), new) in p.queues.iter_mut().zip(&p.settings.queues).zip(&settings.queues) {
            q.free_ns = sooner(q.free_ns, now_ns, old.rate_pps, new.rate_pps);
        }
        p.settings = settings.clone();
        let due = p.earliest_ns();
        if due != p.due_ns {
            p.due_ns = due;
            self.calendar.extend(due.map(|due| Reverse((due, port))));
        }
    }

    /// Queues a packet of `bytes` bytes, or counts it as dropped and gives it back.
    ///
    /// # Errors
    /// The queue is full, or there is no such priority.
    pub fn enqueue(
        &mut self,
        port: u32,
        priority: usize,
        bytes: u64,
        item: T,
        now_ns: u64,
    ) -> Result<(), (Refused, T)> {
        let p = self.port(port);
        let (Some(q), Some(limits)) = (p.queues.get_mut(priority), p.settings.queues.get(priority)) else {
            p.bad_priority += 1;
            return Err((Refused::Priority, item));
        };
        let backlog = q.stats.backlog;
        if backlog.packets >= limits.depth_packets || backlog.bytes.saturating_add(bytes) > limits.depth_bytes {
            q.stats.tail_dropped.add(bytes);
            return Err((Refused::Full, item));
        }
        let enq_qdepth = u32::try_from(backlog.packets).unwrap_or(u32::MAX);
        q.waiting.push_back(Waiting { item, bytes, enq_ns: now_ns, enq_qdepth });
        q.stats.enqueued.add(bytes);
        q.stats.backlog.add(bytes);
        // Only a new head can bring a port's time forward.
        if q.waiting.len() == 1 {
            let due = p.head_due_ns(priority);
            if let Some(due) = due.filter(|due| p.due_ns.is_none_or(|known| *due < known)) {
                p.due_ns = Some(due);
                self.calendar.push(Reverse((due, port)));
            }
        }
        Ok(())
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
        let head = q.waiting.pop_front()?;
        q.free_ns = due.saturating_add(duration_ns(1, p.settings.queues[priority].rate_pps));
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
            deq_qdepth: u32::try_from(q.waiting.len()).unwrap_or(u32::MAX),
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

    /// Throws away what waits; gives its number.
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

    /// Counters by port: those of its queues, lowest priority first, and packets of a priority that is not there.
    pub fn stats(&self) -> impl Iterator<Item = (u32, Vec<QueueStats>, u64)> + '_ {
        (0u32..).zip(&self.ports).filter_map(|(port, p)| {
            p.as_ref().map(|p| (port, p.queues.iter().map(|q| q.stats).collect(), p.bad_priority))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_queue(rate_bps: u64, queue: QueueSettings) -> PortSettings {
        PortSettings { rate_bps, queues: vec![queue] }
    }

    /// Everything that leaves by the time nothing waits, each at the moment it is due.
    fn drain<T>(tm: &mut TrafficManager<T>) -> Vec<Departure<T>> {
        let mut left = Vec::new();
        while let Some(due) = tm.next_ns() {
            left.push(tm.dequeue(due).expect("what is due leaves"));
        }
        left
    }

    #[test]
    fn without_limits_a_packet_leaves_at_once() {
        let mut tm = TrafficManager::new(1);
        tm.enqueue(1, 0, 100, 'a', 5).unwrap();
        assert_eq!(tm.next_ns(), Some(5));
        let want = Departure { port: 1, priority: 0, item: 'a', enq_ns: 5, due_ns: 5, enq_qdepth: 0, deq_qdepth: 0 };
        assert_eq!(tm.dequeue(5), Some(want));
        assert_eq!(tm.next_ns(), None);
    }

    #[test]
    fn the_link_is_busy_for_length_over_rate() {
        let mut tm = TrafficManager::new(1);
        // 1250 bytes at 10 Mbit/s: 1 ms.
        tm.set(Some(2), &one_queue(10_000_000, QueueSettings::default()), 0);
        for i in 0..3 {
            tm.enqueue(2, 0, 1250, i, 0).unwrap();
        }
        let times: Vec<_> = drain(&mut tm).iter().map(|d| (d.due_ns, d.item, d.enq_qdepth, d.deq_qdepth)).collect();
        assert_eq!(times, [(0, 0, 0, 2), (1_000_000, 1, 1, 1), (2_000_000, 2, 2, 0)]);
        // Idle since 3 ms: the next one waits for nothing.
        tm.enqueue(2, 0, 1250, 3, 9_000_000).unwrap();
        assert_eq!(tm.next_ns(), Some(9_000_000));
    }

    #[test]
    fn a_packet_rate_is_each_priority_s_own_as_in_bmv2() {
        let mut tm = TrafficManager::new(2);
        let queue = QueueSettings { rate_pps: 1000, ..QueueSettings::default() };
        tm.set(None, &PortSettings { rate_bps: 0, queues: vec![queue; 2] }, 0);
        for i in 0..2 {
            tm.enqueue(0, 0, 1, ("low", i), 0).unwrap();
            tm.enqueue(0, 1, 1, ("high", i), 0).unwrap();
        }
        let order: Vec<_> = drain(&mut tm).into_iter().map(|d| (d.due_ns, d.item)).collect();
        assert_eq!(order, [(0, ("high", 0)), (0, ("low", 0)), (1_000_000, ("high", 1)), (1_000_000, ("low", 1))]);
    }

    #[test]
    fn a_late_caller_loses_no_rate() {
        let mut tm = TrafficManager::new(1);
        tm.set(None, &one_queue(8_000, QueueSettings::default()), 0);
        for i in 0..4 {
            tm.enqueue(0, 0, 1, i, 0).unwrap();
        }
        // One byte a millisecond; asked at 2.5 ms, three are due and the fourth is due at 3 ms as if asked in time.
        let late = std::iter::from_fn(|| tm.dequeue(2_500_000)).count();
        assert_eq!((late, tm.next_ns()), (3, Some(3_000_000)));
    }

    #[test]
    fn what_does_not_fit_is_counted_where_it_was_dropped() {
        let mut tm = TrafficManager::new(1);
        let queue = QueueSettings { rate_pps: 1, depth_packets: 2, depth_bytes: 150 };
        tm.set(Some(0), &one_queue(0, queue), 0);
        assert_eq!(tm.enqueue(0, 0, 100, 'a', 0), Ok(()));
        assert_eq!(tm.enqueue(0, 0, 51, 'b', 0), Err((Refused::Full, 'b')));
        assert_eq!(tm.enqueue(0, 0, 50, 'c', 0), Ok(()));
        assert_eq!(tm.enqueue(0, 0, 0, 'd', 0), Err((Refused::Full, 'd')));
        assert_eq!(tm.enqueue(0, 1, 1, 'e', 0), Err((Refused::Priority, 'e')));
        let (_, queues, bad_priority) = tm.stats().next().unwrap();
        assert_eq!(queues[0].tail_dropped, Count { packets: 2, bytes: 51 });
        assert_eq!(queues[0].enqueued, Count { packets: 2, bytes: 150 });
        assert_eq!(bad_priority, 1);
    }

    #[test]
    fn a_new_rate_holds_for_what_waits() {
        let mut tm = TrafficManager::new(1);
        tm.set(None, &one_queue(8, QueueSettings::default()), 0);
        for i in 0..3 {
            tm.enqueue(0, 0, 1, i, 0).unwrap();
        }
        assert_eq!(tm.dequeue(0).map(|d| d.item), Some(0));
        tm.set(None, &one_queue(80, QueueSettings::default()), 0);
        let times: Vec<_> = drain(&mut tm).iter().map(|d| (d.due_ns, d.item)).collect();
        // What is left of the first takes a tenth of its time.
        assert_eq!(times, [(NS_PER_S / 10, 1), (NS_PER_S / 5, 2)]);
    }

    #[test]
    fn a_correction_is_felt_while_a_packet_is_under_way() {
        let queue = QueueSettings { rate_pps: 0, ..QueueSettings::default() };
        let mut tm = TrafficManager::new(1);
        // 1500 bytes at 1 bit/s: more than three hours.
        tm.set(None, &one_queue(1, queue), 0);
        tm.enqueue(1, 0, 1500, 'a', 0).unwrap();
        tm.enqueue(1, 0, 1500, 'b', 0).unwrap();
        assert_eq!(tm.dequeue(0).map(|d| d.item), Some('a'));
        let (one_s, late) = (NS_PER_S, tm.next_ns().unwrap());
        assert_eq!(late, 12_000 * one_s);
        tm.set(None, &one_queue(12_000_000, queue), one_s);
        assert_eq!(tm.next_ns(), Some(one_s + 11_999 * one_s / 12_000_000 + 1));
        // The same again changes nothing, and without a rate nothing is in the way.
        let due = tm.next_ns();
        tm.set(None, &one_queue(12_000_000, queue), one_s);
        assert_eq!(tm.next_ns(), due);
        tm.set(Some(1), &one_queue(0, queue), one_s);
        assert_eq!(tm.dequeue(one_s).map(|d| (d.item, d.due_ns)), Some(('b', one_s)));
        assert_eq!(tm.next_ns(), None);
    }

    #[derive(Clone, Debug)]
    struct Offered {
        port: u32,
        priority: usize,
        bytes: u64,
        after_ns: u64,
    }

    fn offered() -> impl Strategy<Value = Vec<Offered>> {
        let one = (0..3u32, 0..3usize, 0..2000u64, prop_oneof![Just(0), 0..3_000_000u64]);
        let one = one.prop_map(|(port, priority, bytes, after_ns)| Offered { port, priority, bytes, after_ns });
        prop::collection::vec(one, 1..200)
    }

    fn limits() -> impl Strategy<Value = PortSettings> {
        let queue = (prop_oneof![Just(0), 1..5000u64], 1..20u64, prop_oneof![Just(u64::MAX), 1000..9000u64]);
        let queue = queue.prop_map(|(rate_pps, depth_packets, depth_bytes)| QueueSettings {
            rate_pps,
            depth_packets,
            depth_bytes,
        });
        (prop_oneof![Just(0), 10_000..100_000_000u64], prop::collection::vec(queue, 2))
            .prop_map(|(rate_bps, queues)| PortSettings { rate_bps, queues })
    }

    proptest! {
        /// Nothing is lost or made up, queues keep their order, and no rate is exceeded, whenever one asks.
        #[test]
        fn conservation_order_and_spacing(offered in offered(), limits in limits(), poll_every in 1..4usize) {
            let mut tm = TrafficManager::new(2);
            tm.set(None, &limits, 0);
            let (mut now, mut refused, mut left) = (0, 0, Vec::new());
            for (n, o) in offered.iter().enumerate() {
                now += o.after_ns;
                refused += usize::from(tm.enqueue(o.port, o.priority, o.bytes, n, now).is_err());
                if n % poll_every == 0 {
                    left.extend(std::iter::from_fn(|| tm.dequeue(now)));
                    prop_assert!(tm.next_ns().is_none_or(|due| due > now));
                }
            }
            for (port, queues, _) in tm.stats() {
                for (priority, q) in queues.iter().enumerate() {
                    let gone = left.iter().filter(|d| (d.port, d.priority) == (port, priority)).count() as u64;
                    prop_assert_eq!(q.dequeued.packets, gone);
                    prop_assert_eq!(q.enqueued.packets, q.dequeued.packets + q.backlog.packets);
                    prop_assert_eq!(q.enqueued.bytes, q.dequeued.bytes + q.backlog.bytes);
                    prop_assert!(q.backlog.packets <= limits.queues[priority].depth_packets);
                    prop_assert!(q.backlog.bytes <= limits.queues[priority].depth_bytes);
                }
            }
            left.extend(drain(&mut tm));
            prop_assert_eq!(left.len() + refused, offered.len());
            for port in 0..3 {
                let of_port: Vec<_> = left.iter().filter(|d| d.port == port).collect();
                for pair in of_port.windows(2) {
                    let busy = duration_ns(offered[pair[0].item].bytes * 8, limits.rate_bps);
                    prop_assert!(pair[1].due_ns >= pair[0].due_ns + busy, "{:?} leaves while {:?} is sent", pair[1], pair[0]);
                }
                for priority in 0..2 {
                    let queue: Vec<_> = of_port.iter().filter(|d| d.priority == priority).collect();
                    let gap = duration_ns(1, limits.queues[priority].rate_pps);
                    for pair in queue.windows(2) {
                        prop_assert!(pair[0].item < pair[1].item);
                        prop_assert!(pair[1].due_ns >= pair[0].due_ns + gap);
                    }
                }
            }
        }
    }
}
