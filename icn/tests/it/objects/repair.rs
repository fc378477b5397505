// SPDX-License-Identifier: Apache-2.0
//! Repair symbols: fewer packets where receivers lose different ones, and nothing wrong where symbols are forged.

use super::attacks::{one_with, packet};
use super::world::{Member, Setup, World, bytes};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use weir_icn::names::Name;
use weir_icn::objects::object::keys::KeyRing;
use weir_icn::objects::object::layout::{Item, REPAIR};
use weir_icn::objects::object::repair::{Encoder, Repair};
use weir_icn::objects::subscriber::{Fetch, Outcome};
use weir_icn::packet::{Header, Kind, flags, nack};

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

/// Symbols that reach a subscriber of a publisher with 2 rounds for blocks of 40 segments.
#[derive(Clone, Copy, PartialEq)]
enum Symbols {
    Right,
    /// By a member of the group, who has its key.
    Forged,
    Short,
    Lost,
    Refused,
    TooFew,
    /// A stranger without the key answers sooner, and the right ones come late.
    Outrun,
    /// The same, with an epoch that is to come.
    OutrunNextEpoch,
    /// A member sends forged ones of all numbers until they are asked for.
    Unasked,
    /// The same with content that is no symbol.
    UnaskedShort,
}

const NAME: &str = "/weir/files/film/~0123456789abcdef";

/// A packet of a symbol.
fn symbol_packet(ring: &mut KeyRing, number: u32, bytes: &[u8]) -> (Header, Vec<u8>) {
    let header = Header { epoch: 1, ..Header::data(&Name::new(&format!("{NAME}/~r")).unwrap(), number, flags::ECT) };
    (header, ring.seal(REPAIR, &header, bytes).unwrap().unwrap())
}

/// Fetches 100 segments, of which some are lost once. Returns the fetch, the number of segments asked for although
/// symbols could mend them, and the symbols asked for.
fn fetched(symbols: Symbols) -> (Fetch, usize, BTreeSet<u32>) {
    fetched_of(symbols, 100, &[3, 17, 41, 77, 99])
}

fn fetched_of(symbols: Symbols, segments: usize, losses: &[u32]) -> (Fetch, usize, BTreeSet<u32>) {
    let (content, repair) = (bytes(segments * 1440 - 7, 5), Repair { block_segments: 40, rounds: 2 });
    let (mut fetch, mut ring, mut disk, tree, mut now) = one_with(&content, Some(repair));
    let [hashes, symbols_name] = ["~h1", "~r"].map(|end| Name::new(&format!("{NAME}/{end}")).unwrap());
    let encoders: Vec<_> = content.chunks(40 * 1440).map(|block| Encoder::new(block.to_vec())).collect();
    let mut answers: BTreeMap<(Instant, u32), (Header, Vec<u8>)> = BTreeMap::new();
    let (mut lost, mut again, mut asked) = (losses.iter().copied().collect::<BTreeSet<_>>(), 0, BTreeSet::new());
    let mut made = 0;
    while fetch.outcome().is_none() {
        let mut out = Vec::new();
        fetch.poll(now, &mut disk, &mut out);
        fetch.check_budgets();
        let symbols_asked = out.iter().filter(|h| h.name == symbols_name.hash());
        asked.extend(symbols_asked.flat_map(|h| h.segments().collect::<Vec<_>>()));
        if matches!(symbols, Symbols::Unasked | Symbols::UnaskedShort) {
            let bytes = if symbols == Symbols::Unasked { &[7; 1440][..] } else { &[7; 100][..] };
            for number in (0..encoders.len() as u32 * 80).filter(|number| !asked.contains(number)) {
                let (header, payload) = symbol_packet(&mut ring, number, bytes);
                fetch.data(&header, &payload, now, &mut disk);
            }
        }
        for (interest, segment) in out.iter().flat_map(|h| h.segments().map(|s| (*h, s)).collect::<Vec<_>>()) {
            let mut answer = |after_ms, packet| {
                made += 1;
                answers.insert((now + Duration::from_millis(after_ms), made), packet);
            };
            if interest.name == hashes.hash() {
                let header = Header { epoch: 1, ..Header::data(&hashes, segment, flags::ECT) };
                let node = tree.segment(Item { level: 1, segment }).unwrap();
                answer(10, (header, ring.seal(1, &header, node).unwrap().unwrap()));
            } else if interest.name == symbols_name.hash() {
                let (block, symbol) = repair.symbol_of(segment);
                // The same symbol again and again counts once.
                let symbol = if symbols == Symbols::TooFew { 0 } else { symbol };
                let mut bytes = encoders[block as usize].symbol(symbol);
                match symbols {
                    Symbols::Forged => bytes[700] ^= 1,
                    Symbols::Short => bytes.truncate(1000),
                    Symbols::Lost => continue,
                    Symbols::Refused => {
                        answer(10, (Header::nack(&interest, segment, nack::NO_SUCH_NAME), Vec::new()));
                        continue;
                    }
                    _ => {}
                }
                let (header, payload) = symbol_packet(&mut ring, segment, &bytes);
                let epoch = if symbols == Symbols::OutrunNextEpoch { 2 } else { 1 };
                if matches!(symbols, Symbols::Outrun | Symbols::OutrunNextEpoch) {
                    answer(1, (Header { epoch, ..header }, [&payload[1..], &[0]].concat()));
                    answer(15, (header, payload));
                } else {
                    answer(10, (header, payload));
                }
            } else if !lost.remove(&segment) {
                again += usize::from(losses.contains(&segment));
                let end = content.len().min(segment as usize * 1440 + 1440);
                answer(10, packet(&mut ring, segment, &content[segment as usize * 1440..end]));
            }
        }
        let Some(deadline) = fetch.deadline() else { break };
        match answers.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= deadline) {
            Some(at) => {
                now = now.max(at);
                let (_, (header, payload)) = answers.pop_first().unwrap();
                match header.kind {
                    Kind::Nack => fetch.nack(&header, now, &mut disk),
                    _ => fetch.data(&header, &payload, now, &mut disk),
                }
            }
            None => now = deadline.max(now + Duration::from_micros(1)),
        }
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
fn what_a_stranger_sends_in_place_of_symbols_keeps_the_right_ones_from_nobody() {
    for symbols in [Symbols::Outrun, Symbols::OutrunNextEpoch] {
        let (fetch, again, _) = fetched(symbols);
        assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings), (0, 5, 3), "{:?}", fetch.counts);
    }
}

#[test]
fn forged_symbols_that_nobody_asked_for_are_found_and_dropped() {
    let (fetch, again, _) = fetched(Symbols::Unasked);
    let c = fetch.counts;
    assert_eq!((again, c.repaired), (0, 5), "{c:?}");
    assert_eq!((c.wrong, c.decodings), (1, 1 + 3), "{c:?}");
    let (fetch, again, _) = fetched(Symbols::UnaskedShort);
    assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings), (0, 5, 3), "{:?}", fetch.counts);
}

#[test]
fn forged_symbols_cost_few_decodings_however_large_the_file_is() {
    let losses: Vec<_> = (0..1600).step_by(20).collect();
    let (fetch, _, asked) = fetched_of(Symbols::Forged, 1600, &losses);
    assert_eq!((fetch.counts.decodings, fetch.counts.repaired), (8, 0), "{:?}", fetch.counts);
    assert!(asked.len() <= losses.len(), "{asked:?}");
    // Those that came unasked cost one of all, and what is asked for mends the rest.
    let (fetch, again, _) = fetched_of(Symbols::Unasked, 1600, &losses);
    assert_eq!((again, fetch.counts.wrong, fetch.counts.repaired), (0, 1, 80), "{:?}", fetch.counts);
    let (fetch, again, _) = fetched_of(Symbols::Right, 1600, &losses);
    assert_eq!((again, fetch.counts.repaired, fetch.counts.decodings), (0, 80, 40), "{:?}", fetch.counts);
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
