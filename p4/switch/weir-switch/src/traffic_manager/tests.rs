// SPDX-License-Identifier: Apache-2.0
//! Queues by themselves, and random traffic through them.
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
    tm.enqueue(1, 0, 100, 0, 'a', 5).unwrap();
    assert_eq!(tm.next_ns(), Some(5));
    let want =
        Departure { port: 1, priority: 0, item: 'a', enq_ns: 5, due_ns: 5, enq_qdepth: 0, deq_qdepth: 0, flow: 0 };
    assert_eq!(tm.dequeue(5), Some(want));
    assert_eq!(tm.next_ns(), None);
}

#[test]
fn the_link_is_busy_for_length_over_rate() {
    let mut tm = TrafficManager::new(1);
    // 1250 bytes at 10 Mbit/s: 1 ms.
    tm.set(Some(2), &one_queue(10_000_000, QueueSettings::default()), 0);
    for i in 0..3 {
        tm.enqueue(2, 0, 1250, 0, i, 0).unwrap();
    }
    let times: Vec<_> = drain(&mut tm).iter().map(|d| (d.due_ns, d.item, d.enq_qdepth, d.deq_qdepth)).collect();
    assert_eq!(times, [(0, 0, 0, 2), (1_000_000, 1, 1, 1), (2_000_000, 2, 2, 0)]);
    // Idle since 3 ms: the next one waits for nothing.
    tm.enqueue(2, 0, 1250, 0, 3, 9_000_000).unwrap();
    assert_eq!(tm.next_ns(), Some(9_000_000));
}

#[test]
fn a_held_port_s_packets_wait_and_other_ports_go_on() {
    let mut tm = TrafficManager::new(1);
    tm.hold(1);
    for i in 0..65 {
        let queued = tm.enqueue(1, 0, 100, 0, i, 5);
        assert_eq!(queued.is_err(), i == 64);
    }
    tm.enqueue(2, 0, 100, 0, 99, 6).unwrap();
    assert_eq!(tm.dequeue(7).map(|d| (d.port, d.item)), Some((2, 99)));
    assert_eq!((tm.next_ns(), tm.dequeue(100)), (None, None));
    tm.release(1, 100);
    tm.release(1, 100);
    let left: Vec<_> = std::iter::from_fn(|| tm.dequeue(100)).map(|d| (d.item, d.enq_qdepth, d.deq_qdepth)).collect();
    assert_eq!(left, (0..64).map(|i| (i, i as u32, 63 - i as u32)).collect::<Vec<_>>());
}

#[test]
fn the_time_for_which_a_port_was_held_gives_its_rate_no_credit() {
    let mut tm = TrafficManager::new(1);
    tm.set(Some(2), &one_queue(10_000_000, QueueSettings::default()), 0);
    (0..3).for_each(|i| tm.enqueue(2, 0, 1250, 0, i, 0).unwrap());
    tm.hold(2);
    tm.release(2, 50_000_000);
    let times: Vec<_> = drain(&mut tm).iter().map(|d| d.due_ns).collect();
    assert_eq!(times, [50_000_000, 51_000_000, 52_000_000]);
}

#[test]
fn a_packet_rate_is_each_priority_s_own_as_in_bmv2() {
    let mut tm = TrafficManager::new(2);
    let queue = QueueSettings { rate_pps: 1000, ..QueueSettings::default() };
    tm.set(None, &PortSettings { rate_bps: 0, queues: vec![queue; 2] }, 0);
    for i in 0..2 {
        tm.enqueue(0, 0, 1, 0, ("low", i), 0).unwrap();
        tm.enqueue(0, 1, 1, 0, ("high", i), 0).unwrap();
    }
    let order: Vec<_> = drain(&mut tm).into_iter().map(|d| (d.due_ns, d.item)).collect();
    assert_eq!(order, [(0, ("high", 0)), (0, ("low", 0)), (1_000_000, ("high", 1)), (1_000_000, ("low", 1))]);
}

#[test]
fn a_queue_that_goes_first_has_its_rate_of_a_link_that_others_fill() {
    let mut tm = TrafficManager::new(2);
    let queue = |rate_pps| QueueSettings { rate_pps, ..QueueSettings::default() };
    // A packet takes the link for 1 ms; the first queue may send nine in ten of them.
    tm.set(None, &PortSettings { rate_bps: 8_000, queues: vec![queue(0), queue(900)] }, 0);
    for i in 0..30 {
        tm.enqueue(0, 0, 1, 0, i, 0).unwrap();
        tm.enqueue(0, 1, 1, 0, i, 0).unwrap();
    }
    let order: Vec<_> = drain(&mut tm).into_iter().map(|d| d.priority).collect();
    let first = |n: usize| order[..n].iter().filter(|p| **p == 1).count();
    assert_eq!([first(10), first(20), first(30)], [9, 18, 27], "one in ten is the other's");
    assert_eq!(order.len(), 60);
}

#[test]
fn a_late_caller_loses_no_rate() {
    let mut tm = TrafficManager::new(1);
    tm.set(None, &one_queue(8_000, QueueSettings::default()), 0);
    for i in 0..4 {
        tm.enqueue(0, 0, 1, 0, i, 0).unwrap();
    }
    // One byte a millisecond; asked at 2.5 ms, three are due and the fourth is due at 3 ms as if asked in time.
    let late = std::iter::from_fn(|| tm.dequeue(2_500_000)).count();
    assert_eq!((late, tm.next_ns()), (3, Some(3_000_000)));
}

#[test]
fn what_does_not_fit_is_counted_where_it_was_dropped() {
    let mut tm = TrafficManager::new(1);
    let queue = QueueSettings { rate_pps: 1, depth_packets: 2, depth_bytes: 150, ..QueueSettings::default() };
    tm.set(Some(0), &one_queue(0, queue), 0);
    assert_eq!(tm.enqueue(0, 0, 100, 0, 'a', 0), Ok(()));
    assert_eq!(tm.enqueue(0, 0, 51, 0, 'b', 0), Err((Refused::Full, 'b')));
    assert_eq!(tm.enqueue(0, 0, 50, 0, 'c', 0), Ok(()));
    assert_eq!(tm.enqueue(0, 0, 0, 0, 'd', 0), Err((Refused::Full, 'd')));
    assert_eq!(tm.enqueue(0, 1, 1, 0, 'e', 0), Err((Refused::Priority, 'e')));
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
        tm.enqueue(0, 0, 1, 0, i, 0).unwrap();
    }
    assert_eq!(tm.dequeue(0).map(|d| d.item), Some(0));
    tm.set(None, &one_queue(80, QueueSettings::default()), 0);
    let times: Vec<_> = drain(&mut tm).iter().map(|d| (d.due_ns, d.item)).collect();
    // The rest of the first takes a tenth of its time.
    assert_eq!(times, [(NS_PER_S / 10, 1), (NS_PER_S / 5, 2)]);
}

#[test]
fn a_correction_is_felt_while_a_packet_is_under_way() {
    let queue = QueueSettings { rate_pps: 0, ..QueueSettings::default() };
    let mut tm = TrafficManager::new(1);
    // 1500 bytes at 1 bit/s: more than three hours.
    tm.set(None, &one_queue(1, queue), 0);
    tm.enqueue(1, 0, 1500, 0, 'a', 0).unwrap();
    tm.enqueue(1, 0, 1500, 0, 'b', 0).unwrap();
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
        flows: false,
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
            refused += usize::from(tm.enqueue(o.port, o.priority, o.bytes, 0, n, now).is_err());
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
                }
                let mut turn_ns = 0;
                for d in queue {
                    turn_ns = d.enq_ns.max(turn_ns);
                    prop_assert!(d.due_ns >= turn_ns);
                    turn_ns += gap;
                }
            }
        }
    }
}
