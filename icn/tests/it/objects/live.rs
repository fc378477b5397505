// SPDX-License-Identifier: Apache-2.0
//! A live stream: given on in order, block by block, to its signed end.

use super::publisher::publisher;
use super::world::{Disk, Member, Setup, World, bytes, name};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weir_icn::objects::object::lines::Answer;
use weir_icn::objects::object::manifest::Manifest;
use weir_icn::objects::subscriber::{Fetch, Outcome, Segments, Settings};
use weir_icn::packet::Kind;

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
    for s in &world.subscribers {
        let fetch = s.fetch.as_ref().unwrap();
        // Of what was given on nothing is remembered.
        assert!(
            fetch.checked() as usize >= s.disk.bytes.len() / 1440 && fetch.kept().len() <= 2 * 40,
            "{:?}",
            fetch.kept()
        );
    }
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

#[test]
fn blocks_are_skipped_when_nacks_said_so_for_a_while() {
    let start = Instant::now();
    let mut publisher = publisher(1);
    let id = publisher.offer_live(&name(), 1, start).unwrap();
    let Some(Answer::Welcome { manifest, begin, keys, .. }) = publisher.join(id, start) else { panic!("no welcome") };
    let settings = Settings {
        beta: 8.0,
        gaps: true,
        ordered: true,
        repair: false,
        give_up: Duration::from_secs(30),
        round_trip: Duration::ZERO,
        seed: 1,
    };
    let manifest = Manifest::parse(&manifest).unwrap();
    let mut fetch = Fetch::new(&manifest, settings, begin, Segments::default(), start).unwrap();
    let mut disk = Disk { bytes: Vec::new(), ordered: true, room: usize::MAX };
    fetch.keys(&keys, start, &mut disk).unwrap();
    let block = vec![7; 40 * 1440];
    let (mut answers, mut skipped) = (VecDeque::new(), Vec::new());
    for ms in 0..4000 {
        let (now, mut asked, mut sent) = (start + Duration::from_millis(ms), Vec::new(), Vec::new());
        match ms {
            20 => _ = publisher.push(id, &block, now, &mut sent).unwrap(),
            // All of this is lost, and the publisher keeps the last block alone.
            100 => (0..20).for_each(|_| _ = publisher.push(id, &block, now, &mut Vec::new()).unwrap()),
            _ => {}
        }
        fetch.poll(now, &mut disk, &mut asked);
        asked.iter().for_each(|interest| publisher.interest(interest, now, &mut sent));
        answers.extend(sent.into_iter().map(|packet| (ms + 5, packet)));
        while let Some((_, (header, payload))) = answers.front().filter(|(at, _)| *at <= ms).cloned() {
            answers.pop_front();
            match header.kind {
                Kind::Data => fetch.data(&header, &payload, now, &mut disk),
                _ => fetch.nack(&header, now, &mut disk),
            }
        }
        skipped.push(fetch.counts.skipped);
    }
    // A forger of Nacks must go on for a second. A subscriber that is far behind does not wait a second for each block.
    assert_eq!((skipped[1000], fetch.outcome()), (0, None));
    assert!(skipped[3999] == 19 * 40 && disk.bytes.len() >= 2 * block.len(), "{:?}", fetch.counts);
}
