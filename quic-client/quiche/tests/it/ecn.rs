// SPDX-License-Identifier: Apache-2.0
//! ECN over real connections on paths of all kinds, and its arithmetic (RFC 9000 13.4, RFC 9002 7.1).

use crate::pair::{config, plain, Pair};
use proptest::prelude::*;
use quiche::hooks::{self, Codepoint, EcnFailure, EcnMode, EcnOfPath, EcnPackets, EcnReported, EcnState};
use quiche::CongestionControlAlgorithm;
use std::time::{Duration, Instant};

const BYTES: u64 = 2_000_000;
const ALGORITHMS: [CongestionControlAlgorithm; 3] =
    [CongestionControlAlgorithm::Reno, CongestionControlAlgorithm::CUBIC, CongestionControlAlgorithm::Bbr2Gcongestion];

type Passage = fn(u64, Codepoint) -> Option<Codepoint>;

/// A download over such a path.
struct Download {
    pair: Pair,
    took: Duration,
    server: EcnOfPath,
}

fn download(modes: [EcnMode; 2], algorithm: CongestionControlAlgorithm, down_by: Passage) -> Download {
    let [mut client, mut server] = [config(), config()];
    for config in [&mut client, &mut server] {
        config.set_cc_algorithm(algorithm);
        config.set_initial_max_data(10_000_000);
        config.set_initial_max_stream_data_bidi_local(10_000_000);
    }
    let mut pair = Pair::new(&mut client, &mut server, 20_000_000, Duration::from_millis(10));
    hooks::set_ecn(&mut pair.client, modes[0]);
    hooks::set_ecn(&mut pair.server, modes[1]);
    pair.down_by = down_by;
    pair.establish(&mut plain);
    let begun = Instant::now();
    pair.request([0], BYTES);
    pair.run(&mut plain, |p| p.finished_streams == 1);
    assert_eq!(pair.read_bytes, BYTES);
    let server = hooks::ecn_of_paths(&pair.server)[0];
    Download { took: begun.elapsed(), pair, server }
}

fn classic(algorithm: CongestionControlAlgorithm, down_by: Passage) -> Download {
    download([EcnMode::Classic; 2], algorithm, down_by)
}

#[test]
fn a_path_that_keeps_the_field_becomes_capable() {
    for algorithm in ALGORITHMS {
        for (mode, sent) in [(EcnMode::Classic, Codepoint::Ect0), (EcnMode::L4s, Codepoint::Ect1)] {
            let found = download([mode; 2], algorithm, |_, codepoint| Some(codepoint));
            assert_eq!((found.server.state, found.server.failure), (EcnState::Capable, None), "{algorithm:?}");
            let with = found.pair.sent_down_with;
            assert_eq!(with[sent as usize], found.server.sent, "{algorithm:?} {with:?}");
            // All but those before the first acknowledgement and half of those of the test.
            assert!(found.server.sent * 10 > with.iter().sum::<u64>() * 9, "{algorithm:?} {with:?}");
            assert_eq!(with[Codepoint::Ce as usize] + with[(3 - sent as usize) % 3], 0, "{with:?}");
            assert_eq!(found.server.ce, 0);
        }
    }
}

#[test]
fn without_ecn_nothing_is_marked_or_reported() {
    let off = download([EcnMode::Off; 2], CongestionControlAlgorithm::CUBIC, |_, _| Some(Codepoint::Ce));
    assert_eq!(off.pair.sent_down_with[1..], [0; 3]);
    // A peer that does not report: the test ends with its first acknowledgement.
    let alone = download([EcnMode::Off, EcnMode::Classic], CongestionControlAlgorithm::CUBIC, |_, c| Some(c));
    assert_eq!(alone.server.failure, Some(EcnFailure::NoCounts));
    assert!(alone.server.sent <= 10);
}

/// Paths that fail validation.
const FAULTY: [(Passage, &[EcnFailure]); 5] = [
    (|_, _| Some(Codepoint::NotEct), &[EcnFailure::NoCounts]),
    (|_, _| Some(Codepoint::Ce), &[EcnFailure::Excess]),
    (|_, c| Some(if c == Codepoint::Ect0 { Codepoint::Ce } else { c }), &[EcnFailure::AllMarked]),
    (|_, c| Some(if c == Codepoint::Ect0 { Codepoint::Ect1 } else { c }), &[EcnFailure::Excess]),
    (|_, c| if c == Codepoint::NotEct { Some(c) } else { None }, &[EcnFailure::AllLost]),
];

#[test]
fn a_faulty_path_fails_validation_and_is_as_fast_as_without_ecn() {
    for algorithm in ALGORITHMS {
        let without = download([EcnMode::Off; 2], algorithm, |_, codepoint| Some(codepoint)).took;
        for (number, (down_by, failures)) in FAULTY.into_iter().enumerate() {
            let found = classic(algorithm, down_by);
            let failure = found.server.failure.unwrap_or_else(|| panic!("{algorithm:?} {number}: {:?}", found.server));
            assert!(failures.contains(&failure), "{algorithm:?} {number}: {failure:?}");
            assert_eq!(hooks::ecn_totals(&found.pair.server).1.failures, 1);
            assert!(found.server.sent <= 10, "{algorithm:?} {number}: {:?}", found.server);
            // Virtual time. At most the round trip that repeats the test's packets.
            let limit = without + Duration::from_millis(40);
            assert!(found.took <= limit, "{algorithm:?} {number}: {:?} of {without:?}", found.took);
        }
    }
}

#[test]
fn a_path_that_bleaches_later_fails_then() {
    let bleached = |n, c| Some(if n < 500 { c } else { Codepoint::NotEct });
    let found = classic(CongestionControlAlgorithm::CUBIC, bleached);
    assert_eq!(found.server.failure, Some(EcnFailure::Missing));
    assert!(found.server.sent > 300 && found.server.sent < 1200, "{:?}", found.server);
}

#[test]
fn ce_is_a_congestion_event_without_a_loss() {
    for algorithm in ALGORITHMS {
        let clear = classic(algorithm, |_, c| Some(c));
        let marked = |n: u64, c| Some(if n.is_multiple_of(50) && c == Codepoint::Ect0 { Codepoint::Ce } else { c });
        let found = classic(algorithm, marked);
        assert_eq!((found.server.state, found.server.lost), (EcnState::Capable, 0), "{algorithm:?}");
        assert!(found.server.ce > 10, "{:?}", found.server);
        assert!(found.took > clear.took, "{algorithm:?}: {:?} and {:?}", found.took, clear.took);
    }
}

#[test]
fn marks_of_one_round_trip_are_one_event() {
    let window = |down_by: Passage| {
        let found = classic(CongestionControlAlgorithm::Reno, down_by);
        let stats = found.pair.server.path_stats().next();
        stats.unwrap().cwnd
    };
    let one = window(|n, c| Some(if n == 400 && c == Codepoint::Ect0 { Codepoint::Ce } else { c }));
    let ten = window(|n, c| Some(if (400..410).contains(&n) && c == Codepoint::Ect0 { Codepoint::Ce } else { c }));
    let none = window(|_, c| Some(c));
    assert!(one == ten && one < none, "{one}, {ten}, {none}");
}

proptest! {
    // The increase of CE is bounded by the packets sent, whatever a peer counts, and a valid report covers all acknowledged
    // packets.
    #[test]
    fn any_counts_are_met(
        sent in 0u64..1_000_000,
        excess in 0u64..100,
        before in (0u64..1000, 0u64..1000, 0u64..1000),
        counts in prop::option::of((any::<u64>(), any::<u64>(), any::<u64>())),
        acked in 0u64..1000,
        l4s in any::<bool>(),
    ) {
        let of = |(ect0, ect1, ce)| EcnPackets { ect0, ect1, ce };
        let mode = if l4s { EcnMode::L4s } else { EcnMode::Classic };
        let reported = EcnReported { packets: of(before), sent, excess };
        let now = counts.map(of);
        if let (Ok(ce), Some(now)) = (reported.validate(mode, now, acked), now) {
            prop_assert!(ce <= sent + excess && now.ce == before.2 + ce);
            let own = if l4s { now.ect1 - before.1 } else { now.ect0 - before.0 };
            prop_assert!(own + ce >= acked);
        }
        let mut next = reported;
        if let Some(now) = now {
            next.accept(mode, now);
            // The same counts again change nothing, once they are accepted.
            prop_assert_eq!(next.validate(mode, Some(now), 0), Ok(0));
        }
    }

    // Counts near the old ones: each failure has its reason.
    #[test]
    fn a_step_is_valid_as_the_rfc_says(
        before in (0u64..50, 0u64..50), step in (-5i64..20, -5i64..20, 0i64..2), acked in 0u64..20, in_flight in 0u64..20,
    ) {
        let (ect0, ce) = before;
        let reported = EcnReported { packets: EcnPackets { ect0, ect1: 0, ce }, sent: ect0 + ce + acked + in_flight, excess: 0 };
        let add = |n: u64, by: i64| n.checked_add_signed(by);
        let (Some(ect0), Some(ce_now)) = (add(ect0, step.0), add(ce, step.1)) else { return Ok(()) };
        let counts = EcnPackets { ect0, ect1: step.2 as u64, ce: ce_now };
        let expected = if step.0 < 0 || step.1 < 0 {
            Err(EcnFailure::Decreased)
        } else if step.2 > 0 || (step.0 + step.1) as u64 > acked + in_flight {
            Err(EcnFailure::Excess)
        } else if ((step.0 + step.1) as u64) < acked {
            Err(EcnFailure::Missing)
        } else {
            Ok(step.1 as u64)
        };
        prop_assert_eq!(reported.validate(EcnMode::Classic, Some(counts), acked), expected);
    }
}
