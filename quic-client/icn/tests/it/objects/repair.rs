// SPDX-License-Identifier: Apache-2.0
//! Repair symbols: fewer packets where receivers lose different ones, and nothing wrong where symbols are forged.

use super::attacks::{one_with, packet};
use super::world::{Member, Setup, World, bytes};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};
use weir_icn::names::Name;
use weir_icn::objects::object::layout::{Item, REPAIR};
use weir_icn::objects::object::repair::{Encoder, Repair};
use weir_icn::objects::subscriber::{Fetch, Outcome};
use weir_icn::packet::{Header, flags, nack};

const LONG: Duration = Duration::from_secs(300);
const FILE_BYTES: usize = 2_000_000;

/// Runs it with and without symbols: packets of Data that the publisher sent, and how long the last receiver took.
fn both(content: &[u8], setup: impl Fn() -> Setup, members: &[Member]) -> [(u64, f64); 2] {
    [false, true].map(|repair| {
        let mut world = World::file(content, Setup { repair, ..setup() }, members.to_vec());
        world.run(LONG);
        for s in &world.subscribers {
            assert!(s.disk.bytes == content, "{:#?}", world.counts());
        }
        assert_eq!(world.publisher.counts.repair > 0, repair && members.iter().any(|m| m.loss > 0.0));
        (world.sent_data, world.times().into_iter().fold(0.0, f64::max))
    })
}

#[test]
fn one_symbol_mends_different_losses_of_many() {
    let content = bytes(FILE_BYTES, 1);
    let copy = FILE_BYTES.div_ceil(1440) as f64 * 1.03;
    for (n, loss) in [(4, 0.02), (16, 0.01), (16, 0.02), (32, 0.01)] {
        let members = vec![Member { loss, ..Member::default() }; n];
        // As receivers are: nearer to their switch than to the publisher.
        let delays = (Duration::from_millis(9), Duration::from_millis(1));
        let setup = || Setup { delays, ..Setup::default() };
        let [(without, slow), (with, fast)] = both(&content, setup, &members);
        let extra = |packets: u64| packets as f64 - copy;
        let share = extra(with) / extra(without);
        println!("{n} receivers, loss {loss}: {without} packets in {slow:.2} s, with repair {with} in {fast:.2} s");
        assert!(share < 0.5, "{n} receivers, loss {loss}: {with} packets instead of {without}: {share}");
        assert!(fast < 1.02 * slow, "{n} receivers, loss {loss}: {fast} s instead of {slow} s");
    }
}

#[test]
fn a_cache_on_the_near_side_has_what_was_lost_already() {
    let content = bytes(FILE_BYTES, 1);
    let members = vec![Member { loss: 0.01, ..Member::default() }; 8];
    let setup = || Setup { cache_bytes: 64_000_000, ..Setup::default() };
    let [(without, _), (with, _)] = both(&content, setup, &members);
    println!("{without} packets, with repair {with}");
    // Symbols are what the publisher sends in addition here.
    assert!(with >= without && with < without + without / 10, "{with} packets instead of {without}");
}

#[test]
fn where_each_packet_reaches_all_symbols_are_shared_by_hearing_them() {
    let content = bytes(FILE_BYTES, 1);
    let setup = || Setup {
        broadcast: true,
        delays: (Duration::from_micros(50), Duration::from_micros(50)),
        ..Setup::default()
    };
    let members: Vec<_> =
        (0..8).map(|i| Member { loss: 0.05, starts: Duration::from_micros(700 * i), ..Member::default() }).collect();
    let [(without, _), (with, _)] = both(&content, setup, &members);
    println!("{without} packets, with repair {with}");
    assert!(with < without, "{with} packets instead of {without}");
}

#[test]
fn sizes_at_the_edges_of_blocks() {
    for segments in [1, 2, 159, 160, 161, 320, 321] {
        for less in [0, 1, 1439] {
            let content = bytes(segments * 1440 - less, 3);
            let members = vec![Member { loss: 0.1, ..Member::default() }; 3];
            both(&content, Setup::default, &members);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_mix_of_members_gets_all_of_it(
        seed: u64, cache: bool, broadcast: bool, losses in prop::collection::vec(0.0..0.15, 1..6), late_ms in 0u64..200
    ) {
        let content = bytes(700_000 + seed as usize % 1440, seed);
        let member = |(i, loss): (usize, &f64)| Member {
            loss: *loss, starts: Duration::from_millis(late_ms * i as u64 / 4), ..Member::default()
        };
        let members = losses.iter().enumerate().map(member).collect();
        let cache_bytes = if cache && !broadcast { 64_000_000 } else { 0 };
        let mut world = World::file(&content, Setup { repair: true, seed, broadcast, cache_bytes, ..Setup::default() }, members);
        world.run(LONG);
        for s in &world.subscribers {
            let fetch = s.fetch.as_ref().unwrap();
            prop_assert_eq!(fetch.outcome(), Some(&Outcome::Complete), "{:#?}", world.counts());
            prop_assert!(s.disk.bytes == content);
            fetch.check_budgets();
        }
    }
}

/// Change by an insider to the symbols of a publisher, who has 2 rounds for blocks of 40 segments.
#[derive(Clone, Copy, PartialEq)]
enum Symbols {
    Right,
    Forged,
    Short,
    Lost,
    Refused,
    TooFew,
}

/// Fetches 100 segments, of which some are lost once. Returns the fetch, the number of segments asked for although
/// symbols could mend them, and the symbols asked for.
fn fetched(symbols: Symbols) -> (Fetch, usize, BTreeSet<u32>) {
    let (content, repair) = (bytes(100 * 1440 - 7, 5), Repair { block_segments: 40, rounds: 2 });
    let (mut fetch, mut ring, mut disk, tree, mut now) = one_with(&content, Some(repair));
    let base = "/weir/files/film/~0123456789abcdef";
    let [hashes, symbols_name] = ["~h1", "~r"].map(|end| Name::new(&format!("{base}/{end}")).unwrap());
    let encoders: Vec<_> = content.chunks(40 * 1440).map(|block| Encoder::new(block.to_vec())).collect();
    let mut answers: VecDeque<(Instant, Header, u32)> = VecDeque::new();
    let (mut lost, mut again, mut asked) = (BTreeSet::from([3, 17, 41, 77, 99]), 0, BTreeSet::new());
    while fetch.outcome().is_none() {
        let mut out = Vec::new();
        fetch.poll(now, &mut disk, &mut out);
        fetch.check_budgets();
        let at = now + Duration::from_millis(10);
        answers.extend(out.iter().flat_map(|h| h.segments().map(|s| (at, *h, s)).collect::<Vec<_>>()));
        let Some(deadline) = fetch.deadline() else { break };
        let Some((at, interest, segment)) = answers.front().copied().filter(|(at, ..)| *at <= deadline) else {
            now = deadline.max(now + Duration::from_micros(1));
            continue;
        };
        answers.pop_front();
        now = now.max(at);
        let (header, payload) = if interest.name == hashes.hash() {
            let header = Header { epoch: 1, ..Header::data(&hashes, segment, flags::ECT) };
            let node = tree.segment(Item { level: 1, segment }).unwrap();
            (header, ring.seal(1, &header, node).unwrap().unwrap())
        } else if interest.name == symbols_name.hash() {
            asked.insert(segment);
            let (block, symbol) = repair.symbol_of(segment);
            // The same symbol again and again tells no more than once.
            let symbol = if symbols == Symbols::TooFew { 0 } else { symbol };
            let mut bytes = encoders[block as usize].symbol(symbol);
            match symbols {
                Symbols::Right | Symbols::TooFew => {}
                Symbols::Forged => bytes[700] ^= 1,
                Symbols::Short => bytes.truncate(1000),
                Symbols::Lost => continue,
                Symbols::Refused => {
                    fetch.nack(&Header::nack(&interest, segment, nack::NO_SUCH_NAME), now, &mut disk);
                    continue;
                }
            }
            let header = Header { epoch: 1, ..Header::data(&symbols_name, segment, flags::ECT) };
            (header, ring.seal(REPAIR, &header, &bytes).unwrap().unwrap())
        } else {
            if lost.remove(&segment) {
                continue;
            }
            again += usize::from([3, 17, 41, 77, 99].contains(&segment));
            let end = content.len().min(segment as usize * 1440 + 1440);
            packet(&mut ring, segment, &content[segment as usize * 1440..end])
        };
        fetch.data(&header, &payload, now, &mut disk);
    }
    assert_eq!(fetch.outcome(), Some(&Outcome::Complete), "{:?}", fetch.counts);
    assert!(disk.bytes == content);
    (fetch, again, asked)
}

#[test]
fn what_was_lost_is_mended_and_not_asked_for() {
    let (fetch, again, asked) = fetched(Symbols::Right);
    // Two of each of the first blocks and one of the third, numbered from 0, 80 and 160.
    assert_eq!((again, asked.into_iter().collect::<Vec<_>>()), (0, vec![0, 1, 80, 81, 160]));
    assert_eq!((fetch.counts.repaired, fetch.counts.decodings, fetch.counts.wrong), (5, 3, 0));
}

#[test]
fn forged_symbols_cost_a_decoding_and_the_segments_are_asked_for() {
    let (fetch, again, _) = fetched(Symbols::Forged);
    assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings, fetch.counts.wrong), (5, 0, 3, 3));
}

#[test]
fn symbols_of_another_length_are_wrong() {
    let (fetch, again, _) = fetched(Symbols::Short);
    assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings), (5, 0, 0));
    assert!(fetch.counts.wrong >= 3);
}

#[test]
fn symbols_that_never_come_or_are_refused_keep_nothing_back() {
    for symbols in [Symbols::Lost, Symbols::Refused] {
        let (fetch, again, asked) = fetched(symbols);
        assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings), (5, 0, 0));
        assert!(asked.len() <= 10, "{asked:?}");
    }
}

#[test]
fn symbols_that_tell_nothing_new_end_in_asking_for_the_segments() {
    let (fetch, again, _) = fetched(Symbols::TooFew);
    assert!(again > 0 && fetch.counts.decodings <= 3 * 3, "{again}, {:?}", fetch.counts);
}

#[test]
fn without_it_on_either_side_no_symbol_is_asked_for() {
    let content = bytes(FILE_BYTES, 1);
    let ordered = Member { loss: 0.05, ordered: true, ..Member::default() };
    let mut world = World::file(&content, Setup { repair: true, ..Setup::default() }, vec![ordered]);
    world.run(LONG);
    assert!(world.subscribers[0].disk.bytes == content);
    assert_eq!(world.publisher.counts.repair, 0);
}
