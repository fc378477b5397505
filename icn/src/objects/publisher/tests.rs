// SPDX-License-Identifier: Apache-2.0
//! Events after days: numbers and keys that are used up.

use super::live::MOST_BLOCKS;
use super::*;

fn publisher(first_block: u32, now: Instant) -> (Publisher, ObjectId, LevelNames) {
    let name = Name::new("/weir/radio").unwrap();
    let mut publisher =
        Publisher::new(name.clone(), SigningKey::generate().unwrap(), 1 << 20, false, || Ok([7; 32]), || 0);
    let id = publisher.offer_live(&name, 1 << 20, now).unwrap();
    let object = publisher.objects.get_mut(&id).unwrap();
    object.body = Body::Live(Live::behind(first_block, 1 << 20));
    let names = object.names.clone();
    (publisher, id, names)
}

#[test]
fn a_live_stream_ends_before_its_numbers_do() {
    let (now, blocks) = (Instant::now(), 3);
    let (mut publisher, id, names) = publisher(MOST_BLOCKS - 1 - blocks, now);
    let bytes = vec![1; 10 * SEGMENT_BYTES * CHILDREN];
    let mut out = Vec::new();
    let taken = publisher.push(id, &bytes, now, &mut out).unwrap();
    assert_eq!(taken, blocks as usize * SEGMENT_BYTES * CHILDREN);
    assert!(publisher.is_used_up(id));
    assert_eq!(publisher.push(id, &bytes, now, &mut out).unwrap(), 0);
    // Its last number is that of the block that says so, and the segments before it have numbers of their own.
    let mut ask = |level, segment| {
        let mut out = Vec::new();
        publisher.interest(&Header::interest(names.of(level).unwrap(), segment, 100), now, &mut out);
        let (header, _) = out.pop().unwrap();
        (header.kind, header.segment, header.has(flags::LAST))
    };
    assert_eq!(ask(1, MOST_BLOCKS - 1), (Kind::Data, MOST_BLOCKS - 1, true));
    let last = (MOST_BLOCKS - 1) * CHILDREN as u32 - 1;
    assert_eq!(ask(0, last), (Kind::Data, last, false));
    assert_eq!(ask(0, 0).0, Kind::Nack);
}

#[test]
fn who_comes_and_leaves_all_day_uses_no_keys_up() {
    let (mut publisher, id, _) = publisher(0, Instant::now());
    let mut now = publisher.objects[&id].rekey_at();
    let (start, mut rekeys) = (now, Vec::new());
    while now < start + Duration::from_secs(3600) {
        publisher.join(id, now).unwrap();
        publisher.leave(id);
        let at = publisher.next_rekey().unwrap();
        if at <= now {
            publisher.rekey(now).unwrap();
            rekeys.push(now);
        }
        now += Duration::from_millis(500);
    }
    let within = |s| rekeys.iter().filter(|at| **at < start + Duration::from_secs(s)).count();
    assert!((25..=33).contains(&within(30)), "at first one a second: {}", within(30));
    assert!(within(3600) < 32 + 3600 / 15 + 3, "{}", within(3600));
    // Quiet for a while, and it may have some at once again.
    let later = now + Duration::from_secs(300);
    publisher.rekey(later).unwrap();
    publisher.leave(id);
    assert_eq!(publisher.next_rekey(), Some(later + REKEY_EVERY));
}

#[test]
fn a_live_stream_goes_on_as_another_when_its_keys_are_used_up() {
    let (mut publisher, id, _) = publisher(0, Instant::now());
    let mut now = Instant::now();
    let object = publisher.objects.get_mut(&id).unwrap();
    let key = GroupKey { epoch: LAST_EPOCH, first_segment: 0, secret: Secret([1; 32]) };
    object.keys.add(key).unwrap();
    assert!(!publisher.is_used_up(id));
    for i in 0..20 {
        publisher.leave(id);
        now = publisher.next_rekey().unwrap();
        publisher.rekey(now).unwrap();
        assert!(publisher.is_used_up(id), "{i}");
        if publisher.join(id, now).is_none() {
            break;
        }
    }
    let mut out = Vec::new();
    publisher.flush(id, now, true, &mut out).unwrap();
    let new = publisher.offer_live(&Name::new("/weir/radio").unwrap(), 1 << 20, now).unwrap();
    assert!(new != id && !publisher.is_used_up(new) && publisher.join(new, now).is_some());
}
