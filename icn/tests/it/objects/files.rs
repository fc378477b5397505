// SPDX-License-Identifier: Apache-2.0
//! Files: how much is sent, how fast, and what happens when members differ, come late, leave or go on.

use super::world::{Member, Setup, World, bytes};
use std::time::Duration;
use weir_icn::objects::subscriber::{Outcome, Segments};

const LONG: Duration = Duration::from_secs(300);
const FILE_BYTES: usize = 2_000_000;

fn all_right(world: &World, content: &[u8]) {
    for (i, s) in world.subscribers.iter().enumerate() {
        let outcome = s.fetch.as_ref().and_then(|f| f.outcome().cloned());
        assert_eq!(outcome, Some(Outcome::Complete), "subscriber {i}: {:#?}", world.counts());
        assert!(s.disk.bytes == content, "subscriber {i} has other bytes");
    }
}

/// Payload, and what packets and hashes add, of one copy.
fn one_copy(bytes: usize) -> f64 {
    let segments = (bytes as f64 / 1440.0).ceil();
    bytes as f64 + segments * (14.0 + 32.0 + 16.0) + segments * 1.03 / 40.0 * (1280.0 + 62.0)
}

#[test]
fn one_packet_serves_all() {
    let content = bytes(FILE_BYTES, 1);
    for n in [1, 3, 8] {
        let mut world = World::file(&content, Setup::default(), vec![Member::default(); n]);
        world.run(LONG);
        all_right(&world, &content);
        let copies = world.sent_bytes as f64 / one_copy(FILE_BYTES);
        assert!(copies < 1.02, "{n} receivers: {copies} copies; {:#?}", world.counts());
        let goodput = FILE_BYTES as f64 * 8.0 / world.times().into_iter().fold(0.0, f64::max);
        assert!(goodput > 0.8 * 20e6, "{n} receivers: {goodput}");
    }
}

#[test]
fn losses_of_each_cost_what_was_lost_and_no_more() {
    let content = bytes(FILE_BYTES, 1);
    for n in [1, 3, 8] {
        let members = vec![Member { loss: 0.01, ..Member::default() }; n];
        let mut world = World::file(&content, Setup::default(), members);
        world.run(LONG);
        all_right(&world, &content);
        let copies = world.sent_bytes as f64 / one_copy(FILE_BYTES);
        // Each receiver loses its own hundredth; two who lose the same one segment share it.
        assert!(copies < 1.0 + 0.01 * n as f64 + 0.04, "{n} receivers: {copies} copies; {:#?}", world.counts());
        let goodput = FILE_BYTES as f64 * 8.0 / world.times().into_iter().fold(0.0, f64::max);
        assert!(goodput > 0.75 * 20e6, "{n} receivers: {goodput} {:#?}", world.counts());
    }
}

#[test]
fn what_is_lost_before_the_switch_is_asked_for_past_what_waits_in_it() {
    // A queue that drops and marks nothing: its losses leave entries in the switch that wait for an answer.
    let content = bytes(FILE_BYTES, 1);
    for buffer in [15_000, 40_000] {
        let setup = Setup { buffer, mark_above: u64::MAX, ..Setup::default() };
        let mut world = World::file(&content, setup, vec![Member { loss: 0.005, ..Member::default() }; 3]);
        world.run(LONG);
        all_right(&world, &content);
        let goodput = FILE_BYTES as f64 * 8.0 / world.times().into_iter().fold(0.0, f64::max);
        assert!(goodput > 0.5 * 20e6, "{goodput}; {:#?}", world.counts());
    }
}

#[test]
fn a_cache_on_the_near_side_takes_the_losses_off_the_link() {
    let content = bytes(FILE_BYTES, 1);
    let members = vec![Member { loss: 0.01, ..Member::default() }; 8];
    let setup = Setup { cache_bytes: 64_000_000, ..Setup::default() };
    let mut world = World::file(&content, setup, members);
    world.run(LONG);
    all_right(&world, &content);
    let copies = world.sent_bytes as f64 / one_copy(FILE_BYTES);
    assert!(copies < 1.02, "{copies} copies");
}

#[test]
fn where_each_packet_reaches_all_interests_are_joined_by_hearing_them() {
    let content = bytes(FILE_BYTES, 1);
    let setup = || Setup {
        broadcast: true,
        delays: (Duration::from_micros(50), Duration::from_micros(50)),
        ..Setup::default()
    };
    for (n, loss, most) in [(1, 0.0, 1.02), (3, 0.0, 1.1), (8, 0.0, 1.1), (8, 0.01, 1.25)] {
        let member = |i: u64| Member { loss, starts: Duration::from_micros(700 * i), ..Member::default() };
        let mut world = World::file(&content, setup(), (0..n).map(member).collect());
        world.run(LONG);
        all_right(&world, &content);
        let copies = world.sent_bytes as f64 / one_copy(FILE_BYTES);
        assert!(copies < most, "{n} receivers, loss {loss}: {copies} copies; {:#?}", world.counts());
    }
}

fn on_air(seed: u64) -> Setup {
    let delay = Duration::from_millis(2);
    Setup { broadcast: true, delays: (delay, delay), seed, ..Setup::default() }
}

fn slowest(world: &World) -> f64 {
    world.times().into_iter().fold(0.0, f64::max)
}

#[test]
fn where_all_hear_each_other_one_asks_for_what_is_new_to_all() {
    let content = bytes(FILE_BYTES, 1);
    let segments = FILE_BYTES.div_ceil(1440) as f64;
    for n in [2, 7] {
        for seed in 0..5 {
            // They begin in the same moment, and computing takes no time: only chance distinguishes them.
            let mut world = World::file(&content, on_air(seed), vec![Member { loss: 0.01, ..Member::default() }; n]);
            world.run(LONG);
            all_right(&world, &content);
            let asked: u64 = world.subscribers.iter().map(|s| s.fetch.as_ref().unwrap().counts.asked).sum();
            let each = asked as f64 / segments;
            // Each asks for what it lost, too, and all do before they have heard each other.
            assert!(each < 1.0 + 0.1 * n as f64, "{n} receivers, seed {seed}: {each} times; {:#?}", world.counts());
            let share = FILE_BYTES as f64 * 8.0 / slowest(&world) / 20e6;
            assert!(share > 0.75, "{n} receivers, seed {seed}: {share} of the rate; {:#?}", world.counts());
        }
    }
}

#[test]
fn who_asks_for_all_and_loses_much_does_not_slow_the_others() {
    let content = bytes(FILE_BYTES, 1);
    let alone = {
        let mut world = World::file(&content, on_air(1), vec![Member::default(); 3]);
        world.run(LONG);
        slowest(&world)
    };
    for seed in 0..5 {
        // It is the first, so that it leads.
        let lossy = Member { loss: 0.2, ..Member::default() };
        let other = Member { starts: Duration::from_millis(50), ..Member::default() };
        let mut world = World::file(&content, on_air(seed), vec![lossy, other.clone(), other.clone(), other]);
        world.run(LONG);
        all_right(&world, &content);
        let others = world.times()[1..].iter().copied().fold(0.0, f64::max);
        assert!(others < 1.4 * alone, "{others} s beside it, {alone} s alone; {:#?}", world.counts());
    }
}

#[test]
fn who_leads_may_vanish() {
    let content = bytes(FILE_BYTES, 1);
    let first = Member { leaves: Some(Duration::from_millis(300)), ..Member::default() };
    let other = Member { starts: Duration::from_millis(50), ..Member::default() };
    let mut world = World::file(&content, on_air(1), vec![first, other.clone(), other]);
    world.run(LONG);
    for s in &world.subscribers[1..] {
        assert!(s.disk.bytes == content, "{:#?}", world.counts());
    }
    let share = FILE_BYTES as f64 * 8.0 / world.times()[1..].iter().copied().fold(0.0, f64::max) / 20e6;
    assert!(share > 0.7, "{share} of the rate");
}

#[test]
fn who_is_told_a_key_late_asks_for_little_until_then() {
    let content = bytes(3 * FILE_BYTES, 1);
    let gone = Member { leaves: Some(Duration::from_millis(300)), ..Member::default() };
    // Longer than a packet waits for its key, and shorter than it takes to give up.
    let late = Member { keys_late: Duration::from_secs(6), ..Member::default() };
    for broadcast in [false, true] {
        let setup = Setup { broadcast, ..Setup::default() };
        let mut world = World::file(&content, setup, vec![Member::default(), gone.clone(), late.clone()]);
        world.run(LONG);
        for i in [0, 2] {
            assert_eq!(world.outcomes()[i], Some(Outcome::Complete), "{:#?}", world.counts());
            assert!(world.subscribers[i].disk.bytes == content);
        }
        let counts = world.subscribers[2].fetch.as_ref().unwrap().counts;
        assert!(counts.keyless > 0 && world.times()[2] > 6.0, "{counts:?}");
        let segments = content.len().div_ceil(1440) as f64;
        assert!((counts.asked as f64) < 1.2 * segments, "{counts:?}");
    }
}

#[test]
fn a_slow_receiver_does_not_slow_the_others() {
    let content = bytes(FILE_BYTES, 1);
    let alone = {
        let mut world = World::file(&content, Setup::default(), vec![Member::default(); 3]);
        world.run(LONG);
        world.times().into_iter().fold(0.0, f64::max)
    };
    let mut members = vec![Member::default(); 4];
    members[3] = Member { rate: 1e6, loss: 0.05, ..Member::default() };
    let mut world = World::file(&content, Setup::default(), members);
    world.run(LONG);
    all_right(&world, &content);
    let times = world.times();
    let others = times[..3].iter().copied().fold(0.0, f64::max);
    assert!(others < 1.15 * alone, "{others} s beside a slow one, {alone} s alone");
    assert!(times[3] > 5.0 * others);
}

#[test]
fn who_comes_late_begins_where_the_group_is() {
    let content = bytes(2 * FILE_BYTES, 1);
    let late = Member { starts: Duration::from_millis(800), ..Member::default() };
    let mut world = World::file(&content, Setup::default(), vec![Member::default(), Member::default(), late]);
    world.run(LONG);
    all_right(&world, &content);
    let copies = world.sent_bytes as f64 / one_copy(2 * FILE_BYTES);
    // Half of the file had gone by, and is sent once more. Of the rest some goes twice until the two are in step.
    assert!(copies < 1.9, "{copies} copies; {:#?}", world.counts());
}

#[test]
fn who_comes_late_is_served_by_a_cache() {
    let content = bytes(FILE_BYTES, 1);
    let late = Member { starts: Duration::from_secs(20), ..Member::default() };
    let setup = Setup { cache_bytes: 64_000_000, ..Setup::default() };
    let mut world = World::file(&content, setup, vec![Member::default(), late]);
    world.run(LONG);
    all_right(&world, &content);
    let copies = world.sent_bytes as f64 / one_copy(FILE_BYTES);
    assert!(copies < 1.05, "{copies} copies");
}

#[test]
fn sizes_at_the_edges_of_segments_and_levels() {
    for len in [0, 1, 1439, 1440, 1441, 40 * 1440, 40 * 1440 + 1, 1600 * 1440 + 1] {
        let content = bytes(len, 3);
        for ordered in [false, true] {
            let member = Member { ordered, loss: 0.02, ..Member::default() };
            let mut world = World::file(&content, Setup::default(), vec![member]);
            world.run(LONG);
            all_right(&world, &content);
        }
    }
}

#[test]
fn in_order_is_in_order_with_losses() {
    let content = bytes(FILE_BYTES, 1);
    let member = Member { ordered: true, loss: 0.05, ..Member::default() };
    let mut world = World::file(&content, Setup::default(), vec![member; 2]);
    world.run(LONG);
    all_right(&world, &content);
}

#[test]
fn a_partial_file_goes_on_and_what_is_spoiled_is_fetched_again() {
    let content = bytes(FILE_BYTES, 1);
    let segments = FILE_BYTES.div_ceil(1440) as u32;
    let mut partial = content.clone();
    // Segment 3 was spoiled since, and the file was cut off before its end.
    partial[3 * 1440] ^= 1;
    partial.truncate(1000 * 1440 + 5);
    let have = Segments::from_ranges([(0, 999), (1000, 1010), (segments - 1, segments - 1)]);
    let member = Member { partial: Some((have, partial)), ..Member::default() };
    let mut world = World::file(&content, Setup::default(), vec![member]);
    world.run(LONG);
    all_right(&world, &content);
    let counts = world.subscribers[0].fetch.as_ref().unwrap().counts;
    assert_eq!((counts.resumed, counts.spoiled), (999, 1 + 11 + 1));
    let left = one_copy(FILE_BYTES - 999 * 1440) + 30.0 * 1400.0;
    assert!((world.sent_bytes as f64) < 1.05 * left, "{} of {left}", world.sent_bytes);
}

#[test]
fn a_full_disk_ends_it_and_the_others_go_on() {
    let content = bytes(FILE_BYTES, 1);
    let full = Member { room: 500_000, ..Member::default() };
    let mut world = World::file(&content, Setup::default(), vec![Member::default(), full]);
    world.run(LONG);
    let outcomes = world.outcomes();
    assert_eq!(outcomes[0], Some(Outcome::Complete));
    assert_eq!(outcomes[1], Some(Outcome::Store("no space left on device".to_owned())));
    assert!(world.subscribers[0].disk.bytes == content);
    // Kept segments are right, and unwritten ones are not claimed.
    let s = &world.subscribers[1];
    for (first, last) in s.fetch.as_ref().unwrap().kept().ranges() {
        for segment in first..=last {
            let range = segment as usize * 1440..(segment as usize * 1440 + 1440).min(content.len());
            assert!(range.end <= 500_000 && s.disk.bytes[range.clone()] == content[range]);
        }
    }
}

#[test]
fn who_leaves_can_not_read_what_follows() {
    let content = bytes(3 * FILE_BYTES, 1);
    // It leaves, but goes on listening with the keys it has.
    let gone = Member { leaves: Some(Duration::from_millis(300)), ..Member::default() };
    let setup = Setup { broadcast: true, ..Setup::default() };
    let mut world = World::file(&content, setup, vec![Member::default(), Member::default(), gone]);
    world.run(LONG);
    for i in 0..2 {
        assert!(world.subscribers[i].disk.bytes == content);
    }
    assert!(world.publisher.counts.rekeys >= 1);
    let gone = world.subscribers[2].fetch.as_ref().unwrap();
    // A second after it left there is a new key: 300 ms and that second, at 20 Mbit/s.
    let share = gone.checked() as f64 / content.len().div_ceil(1440) as f64;
    assert!(share < 0.75, "who left has {share} of all");
    assert!(gone.counts.data > 100);
}

#[test]
fn rates_and_delays_of_all_kinds() {
    let content = bytes(FILE_BYTES, 1);
    for (rate, delay_ms, loss, least) in [
        (1e6, 50, 0.0, 0.85),
        (5e6, 10, 0.01, 0.8),
        (100e6, 2, 0.01, 0.6),
        (50e6, 40, 0.01, 0.2),
        (10e6, 100, 0.03, 0.25),
    ] {
        let delays = (Duration::from_millis(delay_ms), Duration::from_millis(1));
        let setup = Setup { rate, delays, ..Setup::default() };
        let mut world = World::file(&content, setup, vec![Member { loss, ..Member::default() }; 2]);
        world.run(LONG);
        all_right(&world, &content);
        let share = FILE_BYTES as f64 * 8.0 / world.times().into_iter().fold(0.0, f64::max) / rate;
        assert!(share > least, "{rate} bit/s, {delay_ms} ms, loss {loss}: {share} of the rate; {:#?}", world.counts());
    }
}
