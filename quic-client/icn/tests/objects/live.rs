// SPDX-License-Identifier: Apache-2.0
//! A live stream: given on in order, block by block, to its signed end.

use crate::world::{Member, Setup, World, bytes};
use std::time::Duration;
use weir_icn::objects::subscriber::Outcome;

const LONG: Duration = Duration::from_secs(300);

#[test]
fn all_of_it_arrives_in_order() {
    // 4 Mbit/s for four seconds; and a trickle whose blocks are closed early.
    for (total, each) in [(2_000_000, 5_000), (20_000, 100)] {
        for loss in [0.0, 0.02] {
            let content = bytes(total, 9);
            let mut world =
                World::live(&content, each, Setup::default(), vec![Member { loss, ..Member::default() }; 3]);
            world.run(LONG);
            for (i, s) in world.subscribers.iter().enumerate() {
                let outcome = s.fetch.as_ref().unwrap().outcome();
                assert_eq!(outcome, Some(&Outcome::Complete), "{i}: {:#?}", world.counts());
                assert!(s.disk.bytes == content, "{i}: {} bytes; {:#?}", s.disk.bytes.len(), world.counts());
            }
        }
    }
}

#[test]
fn who_comes_late_begins_with_a_whole_block_of_the_present() {
    let content = bytes(2_000_000, 9);
    let late = Member { starts: Duration::from_secs(2), ..Member::default() };
    let mut world = World::live(&content, 5_000, Setup::default(), vec![Member::default(), late]);
    world.run(LONG);
    let late = &world.subscribers[1].disk.bytes;
    assert!(content.ends_with(late));
    assert!(late.len() > 900_000 && late.len() < 1_100_000, "{}", late.len());
}

#[test]
fn who_leaves_can_not_read_what_follows() {
    let content = bytes(2_000_000, 9);
    let gone = Member { leaves: Some(Duration::from_secs(1)), ..Member::default() };
    let setup = Setup { broadcast: true, ..Setup::default() };
    let mut world = World::live(&content, 5_000, setup, vec![Member::default(), gone]);
    world.run(LONG);
    assert!(world.subscribers[0].disk.bytes == content);
    let gone = world.subscribers[1].disk.bytes.len();
    assert!(gone > 400_000 && gone < 1_200_000, "{gone}");
}

#[test]
fn nothing_forged_is_given_on() {
    let content = bytes(500_000, 9);
    let setup = Setup { forged: 0.3, broadcast: true, ..Setup::default() };
    let mut world = World::live(&content, 5_000, setup, vec![Member { loss: 0.02, ..Member::default() }; 3]);
    world.run(LONG);
    for s in &world.subscribers {
        assert!(s.disk.bytes == content, "{} bytes; {:#?}", s.disk.bytes.len(), world.counts());
    }
}
