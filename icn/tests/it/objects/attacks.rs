// SPDX-License-Identifier: Apache-2.0
//! Forged, replayed, truncated, wrong Data; Nacks; a publisher that vanishes. Nothing wrong is ever given on.

use super::world::{Disk, Member, Setup, World, bytes, name};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weir_icn::names::Name;
use weir_icn::objects::object::keys::{GroupKey, KeyRing};
use weir_icn::objects::object::layout::{Item, Layout};
use weir_icn::objects::object::manifest::Manifest;
use weir_icn::objects::object::names::LevelNames;
use weir_icn::objects::object::repair::Repair;
use weir_icn::objects::object::seal::Secret;
use weir_icn::objects::object::tree::{Tree, hash};
use weir_icn::objects::subscriber::{Fetch, Outcome, Segments, Settings};
use weir_icn::packet::{Header, Kind, flags, nack};

const LONG: Duration = Duration::from_secs(300);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn nothing_forged_is_ever_given_on(
        seed: u64, forged in 0.0..0.6, loss in 0.0..0.1, broadcast: bool, ordered: bool, repair: bool
    ) {
        let content = bytes(300_000, seed);
        let member = Member { loss, ordered, ..Member::default() };
        let setup = Setup { forged, seed, broadcast, repair, ..Setup::default() };
        let mut world = World::file(&content, setup, vec![member; 3]);
        world.run(LONG);
        for s in &world.subscribers {
            let fetch = s.fetch.as_ref().unwrap();
            prop_assert_eq!(fetch.outcome(), Some(&Outcome::Complete), "{:#?}", world.counts());
            prop_assert!(s.disk.bytes == content);
        }
    }
}

/// A subscriber of an object of one insider who has the key, and is not the publisher.
fn one(content: &[u8]) -> (Fetch, KeyRing, Disk, Tree, Instant) {
    one_with(content, None)
}

/// The same, with repair symbols or without.
pub fn one_with(content: &[u8], repair: Option<Repair>) -> (Fetch, KeyRing, Disk, Tree, Instant) {
    let layout = Layout::of(content.len() as u64).unwrap();
    let tree = Tree::over(content.chunks(1440).map(|c| hash(0, c)).collect());
    let manifest = Manifest {
        name: name(),
        version: "0123456789abcdef".into(),
        layout: Some(layout),
        top: tree.top().to_vec(),
        publisher: [0; 32],
        repair,
        issued_s: None,
    };
    let now = Instant::now();
    let settings = Settings {
        beta: 8.0,
        gaps: true,
        ordered: false,
        repair: true,
        give_up: Duration::from_secs(10),
        round_trip: Duration::ZERO,
        seed: 1,
    };
    let mut fetch = Fetch::new(&manifest, settings, 0, Segments::default(), now).unwrap();
    let mut disk = Disk { bytes: Vec::new(), ordered: false, room: usize::MAX };
    let key = GroupKey { epoch: 1, first_segment: 0, secret: Secret([1; 32]) };
    fetch.keys(&[key], now, &mut disk).unwrap();
    let names = LevelNames::new(&name(), &manifest.version, layout.levels).unwrap();
    let mut ring = KeyRing::new(names.with_repair().unwrap());
    ring.add(key).unwrap();
    (fetch, ring, disk, tree, now)
}

pub fn packet(ring: &mut KeyRing, segment: u32, content: &[u8]) -> (Header, Vec<u8>) {
    let packets = Name::new("/weir/files/film/~0123456789abcdef").unwrap();
    let header = Header { epoch: 1, ..Header::data(&packets, segment, flags::ECT) };
    let payload = ring.seal(0, &header, content).unwrap().unwrap();
    (header, payload)
}

#[test]
fn who_has_the_key_can_not_inject_and_asks_go_past_the_caches_then() {
    let content = bytes(10 * 1440, 5);
    let (mut fetch, mut ring, mut disk, _, now) = one(&content);
    let mut out = Vec::new();
    fetch.poll(now, &mut disk, &mut out);
    assert!(out.iter().all(|h| !h.has(flags::FRESH)));
    let (header, payload) = packet(&mut ring, 3, &[7; 1440]);
    fetch.data(&header, &payload, now + Duration::from_millis(1), &mut disk);
    assert_eq!((fetch.counts.wrong, fetch.checked(), disk.bytes.len()), (1, 0, 0));
    // The right one is taken if it comes behind it; here it does not.
    for segment in [0, 1, 2, 4, 5] {
        let (header, payload) = packet(&mut ring, segment, &content[segment as usize * 1440..][..1440]);
        fetch.data(&header, &payload, now + Duration::from_millis(2), &mut disk);
    }
    out.clear();
    let later = now + Duration::from_secs(2);
    fetch.poll(later, &mut disk, &mut out);
    let fresh: Vec<_> = out.iter().filter(|h| h.has(flags::FRESH)).map(|h| h.segment).collect();
    assert_eq!(fresh, [3]);
    for segment in [3, 6, 7, 8, 9] {
        let (header, payload) = packet(&mut ring, segment, &content[segment as usize * 1440..][..1440]);
        fetch.data(&header, &payload, later, &mut disk);
    }
    assert_eq!(fetch.outcome(), Some(&Outcome::Complete));
    assert!(disk.bytes == content);
}

/// Fetches 300 segments over a link of 10 ms, with forged Data of these epochs before each right packet: how it ended.
fn fetched_behind(forged: &[u16]) -> Fetch {
    let content = bytes(300 * 1440, 5);
    let (mut fetch, mut ring, mut disk, tree, mut now) = one(&content);
    let hashes = Name::new("/weir/files/film/~0123456789abcdef/~h1").unwrap();
    let mut answers = VecDeque::new();
    while fetch.outcome().is_none() {
        let mut out = Vec::new();
        fetch.poll(now, &mut disk, &mut out);
        let at = now + Duration::from_millis(10);
        answers.extend(out.iter().flat_map(|h| h.segments().map(|s| (at, h.name, s)).collect::<Vec<_>>()));
        let deadline = fetch.deadline().unwrap();
        let Some((at, name, segment)) = answers.front().copied().filter(|(at, ..)| *at <= deadline) else {
            now = deadline.max(now + Duration::from_micros(1));
            continue;
        };
        answers.pop_front();
        now = now.max(at);
        let (header, payload) = if name == hashes.hash() {
            let header = Header { epoch: 1, ..Header::data(&hashes, segment, flags::ECT) };
            let node = tree.segment(Item { level: 1, segment }).unwrap();
            (header, ring.seal(1, &header, node).unwrap().unwrap())
        } else {
            packet(&mut ring, segment, &content[segment as usize * 1440..][..1440])
        };
        for epoch in forged {
            fetch.data(&Header { epoch: *epoch, ..header }, &payload, now, &mut disk);
        }
        fetch.data(&header, &payload, now, &mut disk);
    }
    assert!(disk.bytes == content);
    fetch
}

#[test]
fn forged_data_of_an_epoch_to_come_does_not_keep_the_right_data_out() {
    let plain = fetched_behind(&[]);
    // The forger has no key, and is sooner each time.
    let forged = fetched_behind(&[2, 17]);
    assert_eq!((plain.outcome(), forged.outcome()), (Some(&Outcome::Complete), Some(&Outcome::Complete)));
    assert_eq!(forged.counts.asked_again, 0, "{:?}", forged.counts);
    assert!(forged.window().0 >= plain.window().0, "it costs no window: {:?} {:?}", forged.window(), plain.window());
}

#[test]
fn sealed_data_that_was_not_asked_for_is_not_held() {
    let content = bytes(300 * 1440, 5);
    let (mut fetch, mut ring, mut disk, _, now) = one(&content);
    let mut out = Vec::new();
    for segment in 0..300 {
        let (header, payload) = packet(&mut ring, segment, &content[..1440]);
        fetch.data(&Header { epoch: 2, ..header }, &payload, now, &mut disk);
    }
    fetch.poll(now, &mut disk, &mut out);
    assert!(out.iter().flat_map(Header::segments).count() == 10, "all are asked for still: {out:?}");
}

#[test]
fn a_nack_alone_ends_nothing_and_many_over_time_do() {
    let content = bytes(10 * 1440, 5);
    let (mut fetch, mut ring, mut disk, _, start) = one(&content);
    let (mut out, mut now, mut nacks) = (Vec::new(), start, 0);
    while fetch.outcome().is_none() && now < start + Duration::from_secs(9) {
        out.clear();
        fetch.poll(now, &mut disk, &mut out);
        for interest in &out {
            for segment in interest.segments() {
                nacks += 1;
                fetch.nack(&Header::nack(interest, segment, nack::NO_SUCH_NAME), now, &mut disk);
            }
        }
        now += Duration::from_millis(5);
        if now < start + Duration::from_secs(2) {
            assert_eq!(fetch.outcome(), None, "after {nacks} Nacks");
        }
    }
    assert_eq!(fetch.outcome(), Some(&Outcome::Refused(nack::NO_SUCH_NAME)));
    assert!(nacks < 200, "{nacks}");
    // Data between them proves that they lie.
    let (mut fetch, ..) = one(&content);
    fetch.poll(start, &mut disk, &mut out);
    for i in 0..100 {
        let now = start + Duration::from_millis(100 * i);
        let segment = (i % 9) as u32;
        let (header, payload) = packet(&mut ring, segment, &content[segment as usize * 1440..][..1440]);
        fetch.nack(&Header { kind: Kind::Nack, code: nack::NO_SUCH_NAME, segment: 9, ..header }, now, &mut disk);
        if i < 9 {
            fetch.data(&header, &payload, now, &mut disk);
        }
        out.clear();
        fetch.poll(now, &mut disk, &mut out);
        if i < 9 {
            assert_eq!(fetch.outcome(), None);
        }
    }
}

#[test]
fn a_publisher_that_vanishes_is_a_clear_end() {
    let content = bytes(2_000_000, 1);
    let setup = Setup { vanishes: Some(Duration::from_millis(400)), ..Setup::default() };
    let mut world = World::file(&content, setup, vec![Member::default(); 2]);
    world.run(LONG);
    assert_eq!(world.outcomes(), vec![Some(Outcome::Silent); 2]);
    for s in &world.subscribers {
        let fetch = s.fetch.as_ref().unwrap();
        assert!(fetch.checked() > 100 && fetch.checked() < 1388);
        // It closed down to one, and asked more and more seldom.
        assert_eq!(fetch.window().0, 1);
        assert!(fetch.counts.silences >= 3 && fetch.counts.silences < 12, "{:?}", fetch.counts);
        for (first, last) in fetch.kept().ranges() {
            let range = first as usize * 1440..((last + 1) as usize * 1440).min(content.len());
            assert!(s.disk.bytes[range.clone()] == content[range]);
        }
    }
}

#[test]
fn silence_makes_it_ask_less_and_less() {
    let content = bytes(100 * 1440, 5);
    let (mut fetch, _, mut disk, _, start) = one(&content);
    let mut sent = Vec::new();
    let mut now = start;
    while fetch.outcome().is_none() {
        let mut out = Vec::new();
        fetch.poll(now, &mut disk, &mut out);
        let asked: usize = out.iter().map(|h| h.segments().count()).sum();
        if asked > 0 {
            sent.push((now.duration_since(start).as_secs_f64(), asked));
        }
        match fetch.deadline() {
            Some(at) => now = at.max(now + Duration::from_micros(1)),
            None => break,
        }
    }
    // Ten at first, then one: after 1 s, 2 s more, 4 s more.
    assert_eq!(sent[0].1, 10);
    assert!(sent[1..].iter().all(|(_, asked)| *asked == 1), "{sent:?}");
    assert!(sent.len() <= 4, "{sent:?}");
    assert_eq!(fetch.outcome(), Some(&Outcome::Silent));
}
