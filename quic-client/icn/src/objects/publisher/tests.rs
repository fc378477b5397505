// SPDX-License-Identifier: Apache-2.0
//! What takes days: numbers and keys that are used up.

use super::live::MOST_BLOCKS;
use super::*;

fn publisher(first_block: u32, now: Instant) -> (Publisher, ObjectId, LevelNames) {
    let name = Name::new("/weir/radio").unwrap();
    let mut publisher = Publisher::new(name.clone(), SigningKey::generate().unwrap(), 1 << 20, false, || Ok([7; 32]));
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
