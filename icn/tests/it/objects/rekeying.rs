// SPDX-License-Identifier: Apache-2.0
//! New keys while members come and leave at a high rate, one who left forges with the key that it had, and keys are late or
//! come again.

use super::publisher::publisher;
use super::world::{Disk, bytes, name};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_icn::objects::object::keys::{GroupKey, KeyRing};
use weir_icn::objects::object::lines::Answer;
use weir_icn::objects::object::manifest::Manifest;
use weir_icn::objects::object::names::LevelNames;
use weir_icn::objects::subscriber::{Fetch, Outcome, Segments, Settings};
use weir_icn::packet::{Header, Kind};

/// Attack of a member that left.
#[derive(Clone, Copy, PartialEq)]
enum Forges {
    Nothing,
    /// Other content before each packet that a later key seals, with the key that it had.
    WithOldKey,
    /// The same, with the later epoch in the header.
    AsNewEpoch,
}

/// A subscriber of a live stream of 4 s; another one leaves after each 500 ms. New keys come `late`, and what came before
/// comes again each time.
fn watched(forges: Forges, late: Duration) -> (Fetch, bool) {
    let (start, content) = (Instant::now(), bytes(4 * 40 * 1440, 9));
    let mut publisher = publisher(1);
    let id = publisher.offer_live(&name(), 4 << 20, start).unwrap();
    let Some(Answer::Welcome { manifest, begin, keys, .. }) = publisher.join(id, start) else { panic!("no welcome") };
    let manifest = Manifest::parse(&manifest).unwrap();
    let settings = Settings {
        beta: 8.0,
        gaps: true,
        ordered: true,
        repair: false,
        give_up: Duration::from_secs(30),
        round_trip: Duration::ZERO,
        seed: 1,
    };
    let mut fetch = Fetch::new(&manifest, settings, begin, Segments::default(), start).unwrap();
    let mut disk = Disk { bytes: Vec::new(), ordered: true, room: usize::MAX };
    fetch.keys(&keys, start, &mut disk).unwrap();
    let names = LevelNames::new(&name(), &manifest.version, 2).unwrap();
    let mut old = KeyRing::new(names.clone());
    keys.iter().for_each(|key| old.add(*key).unwrap());
    let first = keys[0].epoch;
    let mut told: Vec<(Instant, Vec<GroupKey>)> = Vec::new();
    let (mut packets, mut number) = (BTreeMap::<(Instant, u32), (Header, Vec<u8>)>::new(), 0);
    let mut before = keys;
    for ms in 0..20_000 {
        let (now, mut asked, mut sent) = (start + Duration::from_millis(ms), Vec::new(), Vec::new());
        if ms < 4000 && ms % 25 == 0 {
            let at = ms as usize / 25 * 1440;
            publisher.push(id, &content[at..at + 1440], now, &mut sent).unwrap();
        }
        publisher.flush(id, now, ms >= 4000, &mut sent).unwrap();
        if ms < 4000 && ms % 500 == 499 {
            publisher.enter(id);
            publisher.leave(id);
        }
        for (_, answer) in publisher.rekey(now).unwrap() {
            let Answer::Keys(keys) = answer else { panic!("{answer:?}") };
            // The earlier answers again, in another order.
            told.push((now + late, keys.iter().chain(before.iter().rev()).copied().collect()));
            before.extend(keys);
        }
        told.retain(|(at, keys)| {
            let due = *at <= now;
            if due {
                fetch.keys(keys, now, &mut disk).unwrap();
            }
            !due
        });
        fetch.poll(now, &mut disk, &mut asked);
        fetch.check_budgets();
        asked.iter().for_each(|interest| publisher.interest(interest, now, &mut sent));
        for (header, payload) in sent {
            number += 2;
            let (soon, then) = (now + Duration::from_millis(4), now + Duration::from_millis(5));
            if forges != Forges::Nothing && header.kind == Kind::Data && header.epoch != first {
                let level = names.level(header.name).unwrap();
                let forged = Header { epoch: first, ..header };
                let wrong = old.seal(level, &forged, &vec![7; payload.len() - 16]).unwrap().unwrap();
                let epoch = if forges == Forges::WithOldKey { first } else { header.epoch };
                packets.insert((soon, number), (Header { epoch, ..header }, wrong));
            }
            packets.insert((then, number + 1), (header, payload));
        }
        while packets.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let Some((_, (header, payload))) = packets.pop_first() else { break };
            match header.kind {
                Kind::Data => fetch.data(&header, &payload, now, &mut disk),
                _ => fetch.nack(&header, now, &mut disk),
            }
        }
        if fetch.outcome().is_some() {
            break;
        }
    }
    assert!(publisher.counts.rekeys >= 3, "{:?}", publisher.counts);
    (fetch, disk.bytes == content)
}

#[test]
fn one_who_left_changes_nothing_of_a_stream_with_the_key_that_it_had() {
    for forges in [Forges::Nothing, Forges::WithOldKey, Forges::AsNewEpoch] {
        for late_ms in [0, 3, 300, 3000] {
            let (fetch, is_right) = watched(forges, Duration::from_millis(late_ms));
            assert_eq!(fetch.outcome(), Some(&Outcome::Complete), "{late_ms} ms: {:?}", fetch.counts);
            assert!(is_right, "{late_ms} ms: {:?}", fetch.counts);
            assert_eq!(fetch.counts.skipped, 0);
        }
    }
}

#[test]
fn members_that_leave_in_a_storm_cost_one_key_a_second_together() {
    let start = Instant::now();
    let mut publisher = publisher(1);
    let id = publisher.offer_live(&name(), 1 << 20, start).unwrap();
    publisher.join(id, start).unwrap();
    let mut told = Vec::new();
    for i in 0..50_000 {
        let now = start + Duration::from_micros(100) * i;
        publisher.join(id, now).unwrap();
        publisher.leave(id);
        told.extend(publisher.rekey(now).unwrap());
    }
    assert!(told.len() <= 5, "{} in 5 s", told.len());
    assert!(told.iter().all(|(of, answer)| *of == id && matches!(answer, Answer::Keys(keys) if keys.len() == 1)));
    // The last one that left is behind a new key too.
    let at = publisher.next_rekey().unwrap();
    assert_eq!(publisher.rekey(at).unwrap().len(), 1);
    assert_eq!(publisher.next_rekey(), None);
}
