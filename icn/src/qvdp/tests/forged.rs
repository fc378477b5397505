// SPDX-License-Identifier: Apache-2.0
//! Data of a stranger who sees each Interest, as on a bridge, and answers first.

use super::super::Config;
use super::switch::{MS, Sets, Side, Side::Client as C, Side::Server as S};
use super::world::{Event, GOOD, Link, World};
use crate::names::Name;
use crate::packet::{Header, Kind, flags};
use std::time::Duration;

/// Nothing is refused for want of a place or a quota.
const BRIDGE: Link = Link { sets: Sets { count: 1, ways: 1 << 20, quota: 1 << 20 }, ..GOOD };

/// The name of what this side asks for.
fn asked(world: &World, side: Side) -> Name {
    let names = match side {
        C => world.client.sessions().map(|s| s.ask_name.clone()).last(),
        S => world.server.sessions().map(|s| s.ask_name.clone()).last(),
    };
    names.expect("a session")
}

/// Data without a datagram in it for these segments, each a while after the other.
fn forge(world: &mut World, side: Side, segments: impl Iterator<Item = u32>, every: Duration) {
    let name = asked(world, side);
    for (i, segment) in segments.enumerate() {
        let header = Header::data(&name, segment, flags::BARE);
        world.push(world.now + every * i as u32, Event::AtHost(side, header.bytes(0).to_vec()));
    }
}

#[test]
fn a_session_whose_numbers_were_used_up_by_forged_data_gives_way_to_another() {
    for (reliable, side) in [(false, S), (true, S), (false, C), (true, C)] {
        let mut world = World::new(Config { reliable, ..Config::default() }, BRIDGE, 11);
        world.send(Duration::ZERO, C, 1, 1200);
        world.send(20 * MS, S, 1, 1200);
        world.run(100 * MS);
        let before = world.packets;
        // More than a sender holds Interests ahead.
        forge(&mut world, side, 0..12_000, MS / 10);
        world.run(1300 * MS);
        assert!(world.packets - before < 2 * 12_000 * 4, "{} packets", world.packets - before);
        // As QUIC would, the application asks again and again.
        (0..100).for_each(|i| _ = world.send(i * 100 * MS, C, 1, 500));
        world.run(Duration::from_secs(11));
        assert_eq!(world.counts(C).sessions_opened, 2, "{reliable} {side:?} {:?}", world.counts(C));
        // The applications' program sees the new session as another client.
        let later: Vec<_> = (0..20).map(|i| world.send(i * 10 * MS, C, 1, 500)).collect();
        let answers: Vec<_> = (0..20).map(|i| world.send(i * 10 * MS, S, 2, 500)).collect();
        world.run(Duration::from_secs(13));
        let missing = |ids: &[u64]| ids.iter().filter(|id| !world.given.contains_key(id)).count();
        assert_eq!((missing(&later), missing(&answers)), (0, 0), "{reliable} {side:?} {:?}", world.counts(S));
        world.client.check_budgets();
        world.server.check_budgets();
    }
}

/// Numbers that a stranger answers first are lost, and nothing else.
#[test]
fn a_session_goes_on_beside_some_forged_data() {
    for side in [C, S] {
        let mut world = World::new(Config::default(), BRIDGE, 12);
        world.send(Duration::ZERO, C, 1, 1200);
        world.run(100 * MS);
        forge(&mut world, side, (0..100).map(|i| 10 * i), 10 * MS);
        let sent: Vec<_> = (0..1000).map(|i| world.send(i * MS, side.other(), 1, 500)).collect();
        world.run(Duration::from_secs(3));
        let given = sent.iter().filter(|id| world.given.contains_key(id)).count();
        assert!(given >= 850, "{side:?} {given}");
        assert_eq!(world.counts(C).sessions_opened, 1);
    }
}

/// A stranger that asks for what it sees others ask for gets copies, and takes nothing from them.
#[test]
fn interests_of_others_take_no_datagrams() {
    let mut world = World::new(Config::default(), BRIDGE, 13);
    world.send(Duration::ZERO, C, 1, 1200);
    world.run(100 * MS);
    let name = asked(&world, C);
    for i in 0..200u32 {
        let header = Header { kind: Kind::Interest, ..Header::interest(&name, i * 20, 400) };
        world.push(world.now + i * MS, Event::AtHost(S, header.bytes(0).to_vec()));
    }
    let sent: Vec<_> = (0..400).map(|i| world.send(i * MS, S, 1, 500)).collect();
    world.run(Duration::from_secs(3));
    let given = sent.iter().filter(|id| world.given.contains_key(id)).count();
    assert!(given >= 380, "{given}");
    assert_eq!(world.counts(C).sessions_opened, 1);
}
