// SPDX-License-Identifier: Apache-2.0
//! A publisher alone: files that are offered again, Interests that are not its own, and live streams.

use super::world::{Memory, bytes, name};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_icn::names::Name;
use weir_icn::objects::object::keys::{GroupKey, KeyRing};
use weir_icn::objects::object::lines::Answer;
use weir_icn::objects::object::manifest::Manifest;
use weir_icn::objects::object::names::LevelNames;
use weir_icn::objects::object::sign::{Purpose, SigningKey, is_signed};
use weir_icn::objects::publisher::{Index, ObjectId, Packet, Publisher};
use weir_icn::packet::{Header, Kind, flags, nack, time_of};

pub fn publisher(seed: u64) -> Publisher {
    publisher_with(seed, false, || 1)
}

/// The same, on a broadcast segment or not, with a clock.
fn publisher_with(seed: u64, broadcast: bool, clock: impl Fn() -> u64 + 'static) -> Publisher {
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = move || {
        let mut secret = [0; 32];
        random.fill(&mut secret);
        Ok(secret)
    };
    Publisher::new(Name::new("/weir/files").unwrap(), SigningKey::generate().unwrap(), 8 << 20, broadcast, draw, clock)
}

fn offer(publisher: &mut Publisher, content: &[u8], now: Instant) -> ObjectId {
    let memory = Memory { bytes: content.to_vec() };
    let mut index = Index::new(content.len() as u64).unwrap();
    while !index.step(&memory, 100).unwrap() {}
    publisher.offer(&name(), index.finish(), Box::new(memory), now).unwrap()
}

/// Answer to a new member: the packets' names, where to begin, the keys.
fn join(publisher: &mut Publisher, id: ObjectId, now: Instant) -> (LevelNames, u32, Vec<GroupKey>) {
    let Some(Answer::Welcome { manifest, begin, keys, .. }) = publisher.join(id, now) else { panic!("no welcome") };
    let manifest = Manifest::parse(&manifest).unwrap();
    let levels = manifest.layout.map_or(2, |l| l.levels);
    (LevelNames::new(&manifest.name, &manifest.version, levels).unwrap(), begin, keys)
}

fn ask(publisher: &mut Publisher, interest: &Header, now: Instant) -> Vec<Packet> {
    let mut out = Vec::new();
    publisher.interest(interest, now, &mut out);
    out
}

fn opens(names: &LevelNames, keys: &[GroupKey], packet: &Packet) -> Option<Vec<u8>> {
    let mut ring = KeyRing::new(names.clone());
    keys.iter().for_each(|k| ring.add(*k).unwrap());
    ring.open(0, &packet.0, &packet.1)
}

#[test]
fn a_file_that_was_touched_has_the_keys_and_members_it_had() {
    let (mut publisher, content, now) = (publisher(1), bytes(10 * 1440, 1), Instant::now());
    let id = offer(&mut publisher, &content, now);
    let (names, _, old) = join(&mut publisher, id, now);
    let interest = Header::interest(names.of(0).unwrap(), 3, 100);
    assert_eq!(opens(&names, &old, &ask(&mut publisher, &interest, now)[0]).as_deref(), Some(&content[4320..5760]));
    assert_eq!(offer(&mut publisher, &content, now), id);
    let (_, _, new) = join(&mut publisher, id, now);
    for (segment, keys) in [(3, &new), (4, &old), (4, &new)] {
        let packet = &ask(&mut publisher, &Header { segment, ..interest }, now)[0];
        let at = segment as usize * 1440;
        assert_eq!(opens(&names, keys, packet).as_deref(), Some(&content[at..at + 1440]));
    }
}

#[test]
fn a_file_that_was_taken_back_and_offered_again_is_sealed_anew() {
    let (mut publisher, content, now) = (publisher(1), bytes(10 * 1440, 1), Instant::now());
    let id = offer(&mut publisher, &content, now);
    let (names, ..) = join(&mut publisher, id, now);
    let interest = Header::interest(names.of(0).unwrap(), 3, 100);
    ask(&mut publisher, &interest, now);
    publisher.withdraw(id);
    let id = offer(&mut publisher, &content, now);
    let (_, _, keys) = join(&mut publisher, id, now);
    assert_eq!(opens(&names, &keys, &ask(&mut publisher, &interest, now)[0]).as_deref(), Some(&content[4320..5760]));
    assert_eq!(publisher.counts.sealed_before, 0);
    // A subscriber that got something wrong is not given the same once more.
    ask(&mut publisher, &interest, now);
    assert_eq!(publisher.counts.sealed_before, 1);
    ask(&mut publisher, &Header { flags: flags::FRESH, ..interest }, now);
    assert_eq!(publisher.counts.sealed_before, 1);
}

#[test]
fn what_an_earlier_run_sealed_has_another_epoch() {
    let (content, now) = (bytes(1440, 1), Instant::now());
    let epoch = |seed| {
        let mut publisher = publisher(seed);
        let id = offer(&mut publisher, &content, now);
        join(&mut publisher, id, now).2[0].epoch
    };
    let epochs: std::collections::BTreeSet<_> = (0..8).map(epoch).collect();
    assert!(epochs.len() >= 7 && epochs.iter().all(|e| (1..=1 << 15).contains(e)), "{epochs:?}");
}

#[test]
fn only_what_is_below_its_name_is_refused() {
    let (mut publisher, now) = (publisher(1), Instant::now());
    let mut ask = |text| ask(&mut publisher, &Header::interest(&Name::new(text).unwrap(), 3, 100), now);
    let refused: Vec<_> = ask("/weir/files/none").iter().map(|(h, _)| (h.kind, h.code)).collect();
    assert_eq!(refused, [(Kind::Nack, nack::NO_SUCH_NAME)]);
    for text in ["/weir/web/0123456789abcdef", "/weir", "/weir/radio/~0123456789abcdef"] {
        assert!(ask(text).is_empty(), "{text}");
    }
}

#[test]
fn what_is_far_ahead_of_a_live_stream_or_long_past_does_not_wait() {
    let (mut publisher, now) = (publisher(1), Instant::now());
    let id = publisher.offer_live(&name(), 1 << 20, now).unwrap();
    let (names, ..) = join(&mut publisher, id, now);
    let interest = Header { holes: 0xffff, ..Header::interest(names.of(0).unwrap(), 0, 100) };
    for i in 0..500 {
        let far = Header { segment: 0x8000_0000 + 17 * i, ..interest };
        // As fast as a publisher refuses what a live stream does not have.
        let answers = ask(&mut publisher, &far, now + i * Duration::from_millis(17));
        assert!(answers.len() == 17 && answers.iter().all(|(h, _)| h.code == nack::NO_SUCH_SEGMENT));
    }
    let hashes = Header::interest(names.of(1).unwrap(), 1 << 20, 100);
    assert_eq!(ask(&mut publisher, &hashes, now).len(), 1);
    // All that a subscriber asks for ahead waits.
    for i in 0..2048 / 17 {
        assert!(ask(&mut publisher, &Header { segment: 17 * i, ..interest }, now).is_empty());
    }
    let (mut soon, mut late) = (Vec::new(), Vec::new());
    publisher.push(id, &[7; 1440], now + time_of(100), &mut soon).unwrap();
    publisher.push(id, &[7; 1440], now + 3 * time_of(100), &mut late).unwrap();
    assert_eq!((soon.len(), late.len()), (1, 0), "who asked no longer waits");
}

#[test]
fn segments_that_are_not_there_tell_nothing_of_the_group() {
    let (mut publisher, content, now) = (publisher(1), bytes(100 * 1440, 1), Instant::now());
    let id = offer(&mut publisher, &content, now);
    let (names, ..) = join(&mut publisher, id, now);
    let interest = Header::interest(names.of(0).unwrap(), 30, 100);
    ask(&mut publisher, &interest, now);
    for segment in [100, 0xffff_ffff] {
        let refused = ask(&mut publisher, &Header { segment, ..interest }, now);
        assert_eq!(refused[0].0.code, nack::NO_SUCH_SEGMENT);
    }
    let (_, begin, _) = join(&mut publisher, id, now);
    let data = &ask(&mut publisher, &Header { segment: 10, ..interest }, now)[0].0;
    assert_eq!((begin, data.lifetime), (30, 20));
}

/// Interests with `FRESH` for 17 segments each, as a stranger may send on a bridge, where no switch has a quota for them.
#[test]
fn interests_past_all_caches_are_sealed_anew_at_a_bounded_rate() {
    const SEGMENTS: u32 = 3400;
    for broadcast in [false, true] {
        let (mut publisher, mut now) = (publisher_with(1, broadcast, || 1), Instant::now());
        let id = offer(&mut publisher, &bytes(SEGMENTS as usize * 1440, 1), now);
        let (names, ..) = join(&mut publisher, id, now);
        let interest = |i: u32, flags, lifetime| {
            let segment = i * 17 % SEGMENTS;
            Header { holes: 0xffff, flags, ..Header::interest(names.of(0).unwrap(), segment, lifetime) }
        };
        for i in 0..SEGMENTS / 17 {
            assert_eq!(ask(&mut publisher, &interest(i, 0, 400), now).len(), 17);
        }
        let before = publisher.counts;
        for i in 0..1500 {
            now += Duration::from_millis(5);
            ask(&mut publisher, &interest(i, flags::FRESH, 400), now);
        }
        let counts = publisher.counts;
        let anew = (counts.data - counts.sealed_before) - (before.data - before.sealed_before);
        // 256 at once, and 100 a second.
        assert!((256..=256 + 751).contains(&anew), "{broadcast}: {anew} of {} sealed anew", counts.data - before.data);
        // Of what was just sent to all nothing is sent again, whatever lifetime the stranger says.
        now += Duration::from_secs(1);
        let data = publisher.counts.data;
        for _ in 0..1500 {
            now += Duration::from_nanos(500);
            ask(&mut publisher, &interest(0, 0, 1), now);
        }
        let sent = publisher.counts.data - data;
        assert_eq!(sent, if broadcast { 17 } else { 17 * 1500 });
    }
}

#[test]
fn a_manifest_is_later_than_the_one_it_replaces_and_signed_anew_in_time() {
    let clock = Rc::new(Cell::new(10_000));
    let its_clock = clock.clone();
    let (mut publisher, now) = (publisher_with(1, false, move || its_clock.get()), Instant::now());
    let offered = |publisher: &mut Publisher, content: &[u8]| {
        let id = offer(publisher, content, now);
        let Some(Answer::Welcome { manifest: text, signature, .. }) = publisher.join(id, now) else {
            panic!("no welcome")
        };
        let manifest = Manifest::parse(&text).unwrap();
        assert!(is_signed(&manifest.publisher, Purpose::Manifest, text.as_bytes(), &signature));
        (id, manifest)
    };
    let (id, first) = offered(&mut publisher, b"first");
    assert_eq!(first.issued_s, Some(10_000));
    clock.set(10_100);
    assert_eq!(offered(&mut publisher, b"first"), (id, first.clone()));
    // The clock was set back.
    clock.set(5);
    let (new, second) = offered(&mut publisher, b"second");
    assert!(new != id && first.is_replaced_by(&second) && !second.is_replaced_by(&first));
    clock.set(20_000);
    let (same, later) = offered(&mut publisher, b"second");
    assert_eq!((same, later.issued_s, &later.version), (new, Some(20_000), &second.version));
}
