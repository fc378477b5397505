// SPDX-License-Identifier: Apache-2.0
//! Queues with flow queues: the order of RFC 8290, shares in bytes, drops.
use super::flow_queues::QUANTUM_BYTES;
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One byte takes a microsecond.
const RATE_BPS: u64 = 8_000_000;

fn flows(depth_packets: u64, depth_bytes: u64) -> TrafficManager<usize> {
    let mut tm = TrafficManager::new(1);
    let queue = QueueSettings { depth_packets, depth_bytes, flows: true, ..QueueSettings::default() };
    tm.set(Some(0), &PortSettings { rate_bps: RATE_BPS, queues: vec![queue] }, 0);
    tm
}

fn stats(tm: &TrafficManager<usize>) -> QueueStats {
    tm.stats().next().expect("port 0").1[0]
}

fn next(tm: &mut TrafficManager<usize>) -> Option<Departure<usize>> {
    let due = tm.next_ns()?;
    tm.dequeue(due)
}

fn all(tm: &mut TrafficManager<usize>) -> Vec<Departure<usize>> {
    std::iter::from_fn(|| next(tm)).collect()
}

/// Hashes of flows that have the same eight queues to choose from.
fn of_one_set(n: u32) -> u32 {
    n * 1024 + 5
}

#[test]
fn a_sparse_flow_leaves_before_a_backlog() {
    let mut tm = flows(1000, u64::MAX);
    for i in 0..20 {
        tm.enqueue(0, 0, 1500, 1, i, 0).unwrap();
    }
    // The first is on the line; the flow has begun its turn.
    assert_eq!(next(&mut tm).map(|d| d.item), Some(0));
    tm.enqueue(0, 0, 200, 2, 100, 1_000_000).unwrap();
    let order = all(&mut tm);
    let place = order.iter().position(|d| d.item == 100).unwrap();
    assert!(place <= 1, "at most the rest of the quantum of the other is before it: {place}");
    let sparse = &order[place];
    assert_eq!((sparse.flow, sparse.enq_ns, sparse.enq_qdepth), (2, 1_000_000, 19), "depths are the queue's");
    assert_eq!(sparse.deq_qdepth as usize, 19 - place);
    assert_eq!(order.iter().filter(|d| d.flow == 1).map(|d| d.item).collect::<Vec<_>>(), (1..20).collect::<Vec<_>>());
}

#[test]
fn a_flow_that_empties_its_queue_does_not_keep_the_first_place() {
    let mut tm = flows(1000, u64::MAX);
    for i in 0..40 {
        tm.enqueue(0, 0, 1000, 1, i, 0).unwrap();
    }
    let (mut sent, mut order) = (40, Vec::new());
    while let Some(d) = next(&mut tm) {
        order.push(d.flow);
        // One packet more each time: a flow that always waits, though only with one packet.
        if sent < 60 && (d.flow == 2 || sent == 40) {
            tm.enqueue(0, 0, 1000, 2, sent, d.due_ns).unwrap();
            sent += 1;
        }
    }
    let others = order[..20].iter().filter(|f| **f == 1).count();
    assert!((8..=14).contains(&others), "{others} of 20");
}

#[test]
fn flows_share_a_queue_only_when_all_of_theirs_are_taken() {
    let shares = |n: u32| {
        let mut tm = flows(1000, u64::MAX);
        for round in 0..3 {
            (0..n).for_each(|f| tm.enqueue(0, 0, 100, of_one_set(f), round, 0).unwrap());
        }
        tm.flow_stats(0, 0).unwrap()
    };
    assert_eq!(shares(8), FlowStats { active: 8, begun: 8 });
    assert_eq!(shares(9), FlowStats { active: 8, begun: 8 });
}

#[test]
fn the_fattest_flow_loses_its_first_packet() {
    let mut tm = flows(10, u64::MAX);
    for i in 0..7 {
        tm.enqueue(0, 0, 1000, 1, i, 0).unwrap();
    }
    for i in 7..10 {
        tm.enqueue(0, 0, 1200, 2, i, 0).unwrap();
    }
    assert_eq!(tm.next_dropped(), None);
    tm.enqueue(0, 0, 100, 3, 10, 0).unwrap();
    assert_eq!((tm.next_dropped(), tm.next_dropped()), (Some(0), None));
    // Its own packet counts for the one that sends, too.
    tm.enqueue(0, 0, 1000, 1, 11, 0).unwrap();
    assert_eq!(tm.next_dropped(), Some(1));
    let s = stats(&tm);
    assert_eq!(s.head_dropped, Count { packets: 2, bytes: 2000 });
    assert_eq!((s.tail_dropped, s.backlog.packets), (Count::default(), 10));
}

#[test]
fn bytes_make_room_for_a_large_packet_and_one_beyond_all_bounds_is_refused() {
    let mut tm = flows(u64::MAX, 3000);
    for i in 0..10 {
        tm.enqueue(0, 0, 300, 1, i, 0).unwrap();
    }
    tm.enqueue(0, 0, 900, 2, 10, 0).unwrap();
    let dropped: BTreeSet<_> = std::iter::from_fn(|| tm.next_dropped()).collect();
    assert_eq!(dropped, BTreeSet::from([0, 1, 2]));
    // The fattest flow is the one of this packet, and has nothing to drop.
    assert_eq!(tm.enqueue(0, 0, 3001, 3, 11, 0), Err((Refused::Full, 11)));
    assert_eq!(stats(&tm).tail_dropped, Count { packets: 1, bytes: 3001 });
}

#[test]
fn a_change_of_the_order_keeps_what_waits() {
    let mut tm = flows(1000, u64::MAX);
    let mut queue = QueueSettings { depth_packets: 1000, ..QueueSettings::default() };
    assert!(tm.has_flows());
    for i in 0..6 {
        tm.enqueue(0, 0, 1000, i as u32 % 2, i, 0).unwrap();
    }
    tm.set(Some(0), &PortSettings { rate_bps: RATE_BPS, queues: vec![queue] }, 10);
    assert!(!tm.has_flows() && tm.flow_stats(0, 0).is_none());
    assert_eq!(next(&mut tm).map(|d| d.item), Some(0));
    queue.flows = true;
    tm.set(Some(0), &PortSettings { rate_bps: RATE_BPS, queues: vec![queue] }, 20);
    assert_eq!(tm.flow_stats(0, 0).unwrap().active, 2);
    let rest = all(&mut tm);
    assert_eq!(rest.len(), 5);
    assert!(rest.windows(2).all(|pair| pair[1].due_ns >= pair[0].due_ns + 1_000_000));
    let s = stats(&tm);
    assert_eq!((s.enqueued.packets, s.dequeued.packets, s.backlog), (6, 6, Count::default()));
}

#[test]
fn a_purge_empties_flow_queues() {
    let mut tm = flows(1000, u64::MAX);
    (0..9).for_each(|i| tm.enqueue(0, 0, 1000, i as u32, i, 0).unwrap());
    assert_eq!((tm.purge(), tm.next_ns()), (9, None));
    tm.enqueue(0, 0, 1000, 3, 9, 5).unwrap();
    assert_eq!(all(&mut tm).iter().map(|d| d.item).collect::<Vec<_>>(), [9]);
    assert_eq!(stats(&tm).purged.packets, 9);
}

#[test]
fn only_the_priority_with_flow_queues_has_them() {
    let mut tm = TrafficManager::new(2);
    let fifo = QueueSettings { depth_packets: 100, ..QueueSettings::default() };
    let settings = PortSettings { rate_bps: RATE_BPS, queues: vec![QueueSettings { flows: true, ..fifo }, fifo] };
    tm.set(Some(0), &settings, 0);
    for i in 0..10 {
        tm.enqueue(0, i % 2, 1514, u32::from(i > 5), i, 0).unwrap();
    }
    assert_eq!((tm.flow_stats(0, 0).is_some(), tm.flow_stats(0, 1)), (true, None));
    let order: Vec<_> = all(&mut tm).iter().map(|d| d.item).collect();
    assert_eq!(order[..5], [1, 3, 5, 7, 9], "the first priority, as it came");
    assert_eq!(order[5..], [0, 6, 2, 8, 4], "two flows in turn");
}

#[derive(Clone, Debug)]
struct Offered {
    flow: u32,
    bytes: u64,
    after_ns: u64,
}

fn offered() -> impl Strategy<Value = Vec<Offered>> {
    // Some have a set of queues in common.
    let flow = prop_oneof![0..6u32, (0..12u32).prop_map(of_one_set)];
    let one = (flow, 0..2000u64, prop_oneof![Just(0), 0..3_000_000u64]);
    prop::collection::vec(one.prop_map(|(flow, bytes, after_ns)| Offered { flow, bytes, after_ns }), 1..300)
}

proptest! {
    /// Packets and bytes are kept or counted, each flow keeps its order, the line its rate, and depths hold.
    #[test]
    fn conservation_and_order(
        offered in offered(),
        depth_packets in 1..30u64,
        depth_bytes in prop_oneof![Just(u64::MAX), 1000..20_000u64],
        poll_every in 1..5usize,
    ) {
        let mut tm = flows(depth_packets, depth_bytes);
        let (mut now, mut lost, mut left) = (0, BTreeSet::new(), Vec::new());
        for (n, o) in offered.iter().enumerate() {
            now += o.after_ns;
            if let Err((_, item)) = tm.enqueue(0, 0, o.bytes, o.flow, n, now) {
                lost.insert(item);
            }
            lost.extend(std::iter::from_fn(|| tm.next_dropped()));
            let s = stats(&tm);
            prop_assert!(s.backlog.packets <= depth_packets && s.backlog.bytes <= depth_bytes);
            if n % poll_every == 0 {
                left.extend(std::iter::from_fn(|| tm.dequeue(now)));
                prop_assert!(tm.next_ns().is_none_or(|due| due > now));
            }
        }
        left.extend(std::iter::from_fn(|| { now = now.max(tm.next_ns()?); tm.dequeue(now) }));
        let s = stats(&tm);
        prop_assert_eq!(s.enqueued.packets, s.dequeued.packets + s.head_dropped.packets);
        prop_assert_eq!(s.enqueued.bytes, s.dequeued.bytes + s.head_dropped.bytes);
        prop_assert_eq!(s.enqueued.bytes + s.tail_dropped.bytes, offered.iter().map(|o| o.bytes).sum::<u64>());
        prop_assert_eq!(s.backlog, Count::default());
        prop_assert_eq!(s.tail_dropped.packets + s.head_dropped.packets, lost.len() as u64);
        prop_assert_eq!(left.len() + lost.len(), offered.len());
        prop_assert!(left.iter().all(|d| !lost.contains(&d.item)));
        prop_assert_eq!(tm.flow_stats(0, 0).unwrap().active, 0);
        let mut last: BTreeMap<u32, usize> = BTreeMap::new();
        for d in &left {
            prop_assert!(last.insert(d.flow, d.item).is_none_or(|before| before < d.item), "flow {}", d.flow);
            prop_assert!(d.due_ns >= d.enq_ns);
        }
        for pair in left.windows(2) {
            prop_assert!(pair[1].due_ns >= pair[0].due_ns + offered[pair[0].item].bytes * 1000);
        }
    }

    /// Two flows that always wait differ by at most a quantum and a packet of each (RFC 8290 4.2), over any stretch that
    /// begins where both wait; DRR's bound.
    #[test]
    fn flows_that_always_wait_share_bytes(
        lengths in prop::collection::vec((1..1515u64, 1..1515u64), 50..200),
        start in 0..20usize,
    ) {
        let mut tm = flows(u64::MAX, u64::MAX);
        for (i, (a, b)) in lengths.iter().enumerate() {
            tm.enqueue(0, 0, *a, 1, 2 * i, 0).unwrap();
            tm.enqueue(0, 0, *b, 2, 2 * i + 1, 0).unwrap();
        }
        let bytes = |item: usize| if item.is_multiple_of(2) { lengths[item / 2].0 } else { lengths[item / 2].1 };
        let most = *lengths.iter().flat_map(|(a, b)| [a, b]).max().unwrap();
        let (mut sent, mut left, mut n) = ([0u64; 2], [lengths.len(); 2], 0);
        while let Some(d) = next(&mut tm) {
            let flow = d.flow as usize - 1;
            left[flow] -= 1;
            n += 1;
            if n > start {
                sent[flow] += bytes(d.item);
            }
            if left.contains(&0) {
                break;
            }
            prop_assert!(sent[0].abs_diff(sent[1]) <= QUANTUM_BYTES as u64 + 2 * most, "{sent:?}");
        }
    }

    /// A flow that waits for the first time leaves before any flow that waits for longer has had a second turn, and
    /// behind other new ones at most once.
    #[test]
    fn a_new_flow_waits_for_a_round_at_most(
        backlogged in 1..20u32,
        new in 1..20u32,
        bytes in 60..1515u64,
        steps in 0..100usize,
    ) {
        let mut tm = flows(u64::MAX, u64::MAX);
        for i in 0..50 {
            (0..backlogged).for_each(|f| tm.enqueue(0, 0, bytes, f, i, 0).unwrap());
        }
        let mut now = 0;
        for _ in 0..steps.min(backlogged as usize * 40) {
            now = next(&mut tm).unwrap().due_ns;
        }
        let (first, last) = (1000, 1000 + new);
        (first..last).for_each(|f| tm.enqueue(0, 0, bytes, f, 1000, now).unwrap());
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        let mut waiting = new;
        while waiting > 0 {
            let d = next(&mut tm).unwrap();
            waiting -= u32::from(d.flow >= first);
            *before.entry(d.flow).or_default() += bytes;
        }
        for (flow, sent) in before {
            let most = if flow >= first { bytes } else { QUANTUM_BYTES as u64 + bytes };
            prop_assert!(sent <= most, "flow {flow} has sent {sent} bytes");
        }
    }
}
