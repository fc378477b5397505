// SPDX-License-Identifier: Apache-2.0
//! Over real connections: without a rule windows are as quiche has them, with one they are as the rule says.

use crate::pair::{self, config, plain, Pair};
use quiche::hooks::{self, Scope, WindowRule, WindowUpdate};
use std::time::{Duration, Instant};

const KIB: u64 = 1024;
const DELAY: Duration = Duration::from_millis(50);

// The windows of Lee & An's Table 2.
fn download_pair() -> Pair {
    let mut client = config();
    client.set_initial_max_data(32 * KIB);
    client.set_max_connection_window(64 * KIB * KIB);
    client.set_initial_max_stream_data_bidi_local(8 * KIB);
    client.set_max_stream_window(KIB * KIB);
    Pair::new(&mut client, &mut config(), 50_000_000, DELAY)
}

// Every limit advertised for the connection, with its time from the start of the transfer.
fn limits(pair: &mut Pair, send: &mut pair::Send, bytes: u64) -> Vec<(Duration, u64)> {
    pair.establish(send);
    let start = Instant::now();
    pair.request([0, 4, 8, 12], bytes / 4);
    let mut seen: Vec<(Duration, u64)> = vec![];
    pair.run(send, |p| {
        let (_, limit) = hooks::received_and_limit_bytes(&p.client);
        if seen.last().is_none_or(|(_, last)| *last != limit) {
            seen.push((start.elapsed(), limit));
        }
        p.finished_streams == 4
    });
    assert_eq!(pair.read_bytes, bytes);
    seen
}

// quiche's rule, written as our rule.
#[derive(Default)]
struct Quiche {
    updates: Vec<WindowUpdate>,
}

impl WindowRule for Quiche {
    fn next(&mut self, u: &WindowUpdate) -> u64 {
        self.updates.push(*u);
        match u.since_last {
            Some(t) if t < u.rtt * 2 => u.window_bytes * 2,
            _ => u.window_bytes,
        }
    }
}

#[test]
fn a_rule_like_quiches_gives_what_quiche_gives_without_one() {
    let without = limits(&mut download_pair(), &mut plain, 2_000_000);
    let mut rule = Quiche::default();
    let with = limits(&mut download_pair(), &mut |quic, out| hooks::send(quic, &mut rule, out), 2_000_000);
    // Packets vary by a few bytes from run to run (quiche skips packet numbers at random).
    assert_eq!(without.len(), with.len(), "{without:?} {with:?}");
    for ((_, a), (_, b)) in without.iter().zip(&with) {
        assert!(a.abs_diff(*b) < a / 100, "{without:?} {with:?}");
    }
    // It was asked: first windows as configured, for each stream and the connection, with all its inputs.
    for (scope, window) in [(Scope::Connection, 32 * KIB), (Scope::Stream(0), 8 * KIB), (Scope::Stream(12), 8 * KIB)] {
        let first = rule.updates.iter().find(|u| u.scope == scope).unwrap();
        assert_eq!(first.since_last, None);
        assert!(first.window_bytes >= window && first.max_data_bytes == window, "{first:?}");
        assert!(first.consumed_bytes <= first.received_bytes && first.received_bytes <= first.max_data_bytes);
        assert!(first.rtt >= DELAY * 2, "{first:?}");
    }
}

// Grows, then gives less than is outstanding.
struct Shrinking;

impl WindowRule for Shrinking {
    fn next(&mut self, u: &WindowUpdate) -> u64 {
        if u.consumed_bytes < 200_000 {
            u.max_window_bytes.min(KIB * KIB)
        } else {
            10_000
        }
    }

    fn lower_bound(&mut self, _: u64, _: u64, _: u64) -> u64 {
        0
    }
}

// `turn` of the pair fails on any connection error: the peer uses old limits to the end.
#[test]
fn a_window_that_shrinks_takes_no_limit_back() {
    let seen = limits(&mut download_pair(), &mut |quic, out| hooks::send(quic, &mut Shrinking, out), 4_000_000);
    assert!(seen.is_sorted_by(|(_, a), (_, b)| a < b), "{seen:?}");
    let last = seen.last().unwrap().1;
    assert!(last <= 4_000_000 + 10_000, "promised {last}: the window did not shrink");
}

#[test]
fn a_lower_bound_refused_leaves_the_connections_window() {
    struct StreamsOnly;
    impl WindowRule for StreamsOnly {
        fn next(&mut self, u: &WindowUpdate) -> u64 {
            if u.scope == Scope::Connection {
                u.window_bytes
            } else {
                u.max_window_bytes
            }
        }
        fn lower_bound(&mut self, _: u64, _: u64, _: u64) -> u64 {
            0
        }
    }
    let mut promised = 0;
    let mut pair = download_pair();
    pair.establish(&mut plain);
    pair.request([0], 300_000);
    pair.run(&mut |quic, out| hooks::send(quic, &mut StreamsOnly, out), |p| {
        let (received, limit) = hooks::received_and_limit_bytes(&p.client);
        promised = promised.max(limit - received);
        p.finished_streams == 1
    });
    assert_eq!(promised, 32 * KIB);
}

#[test]
fn retune_tells_a_limit_with_the_request() {
    struct Open;
    impl WindowRule for Open {
        fn next(&mut self, _: &WindowUpdate) -> u64 {
            256 * KIB
        }
        fn due(&mut self, u: &WindowUpdate) -> bool {
            u.max_data_bytes < 256 * KIB
        }
    }
    let mut pair = download_pair();
    pair.establish(&mut plain);
    pair.request([0], 100_000);
    hooks::retune(&mut pair.client, &mut Open, [0], Instant::now());
    let start = Instant::now();
    pair.run(&mut |quic, out| hooks::send(quic, &mut Open, out), |p| p.finished_streams == 1);
    // Ten packets, 20, 40, the rest: as if there were no flow control.
    assert_eq!(start.elapsed().as_millis() / 100, 4, "{:?}", start.elapsed());
}

#[test]
fn the_congestion_window_is_as_told() {
    for cc in [quiche::CongestionControlAlgorithm::CUBIC, quiche::CongestionControlAlgorithm::Bbr2Gcongestion] {
        let mut server = config();
        server.set_cc_algorithm(cc);
        server.set_initial_max_data(10_000_000);
        server.set_initial_max_stream_data_bidi_remote(10_000_000);
        let mut client = config();
        client.set_cc_algorithm(cc);
        let mut pair = Pair::new(&mut client, &mut server, 1_000_000_000, DELAY);
        pair.establish(&mut plain);
        pair.run(&mut plain, |p| p.client.timeout_instant().is_none_or(|t| t > Instant::now() + DELAY * 20));
        let cwnd = |quic: &quiche::Connection| quic.path_stats().find(|p| p.active).unwrap().cwnd;
        let own = cwnd(&pair.client);
        hooks::with_congestion_window(Some(3 * 1350), || assert_eq!(cwnd(&pair.client), 3 * 1350));
        hooks::with_congestion_window(None, || assert_eq!(cwnd(&pair.client), own));
        assert_eq!(cwnd(&pair.client), own);
        // In flight is the reported amount, and more when more is reported.
        let mut buf = [0; 1350];
        let mut sent = |pair: &mut Pair, told: usize| {
            hooks::with_congestion_window(Some(told), || {
                while let Ok(1..) = pair.client.stream_send(0, &[0; 4096], false) {}
                std::iter::from_fn(|| pair.client.send(&mut buf).ok().map(|(n, _)| n)).sum::<usize>()
            })
        };
        let few = sent(&mut pair, 3 * 1350);
        let more = sent(&mut pair, 8 * 1350);
        assert!((2 * 1350..=3 * 1350).contains(&few), "{cc:?}: {few}");
        assert!((7 * 1350..=8 * 1350).contains(&(few + more)), "{cc:?}: {few} {more}");
    }
}

#[test]
fn who_paces_in_bbrs_place_leaves_it_no_debt() {
    let waits = |elsewhere: bool| {
        let mut server = config();
        server.set_initial_max_data(10_000_000);
        server.set_initial_max_stream_data_bidi_remote(10_000_000);
        let mut client = config();
        client.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
        let mut pair = Pair::new(&mut client, &mut server, 1_000_000_000, DELAY);
        pair.establish(&mut plain);
        let mut at = None;
        // All at once: long before bbr2's times.
        let mut send = |quic: &mut quiche::Connection, out: &mut [u8]| {
            while let Ok(1..) = quic.stream_send(0, &[0; 65_536], false) {}
            quic.send(out).inspect(|(_, info)| at = Some(info.at))
        };
        let many = |p: &Pair| p.client.stats().sent > 3000;
        hooks::with_congestion_window(Some(3_000_000), || {
            hooks::paced_elsewhere(elsewhere, || pair.run(&mut send, many));
        });
        at.unwrap().saturating_duration_since(Instant::now())
    };
    assert!(waits(false) > 10 * DELAY, "{:?}", waits(false));
    assert!(waits(true) < DELAY / 10, "{:?}", waits(true));
}

#[test]
fn a_congestion_control_can_see_what_it_needs() {
    let mut pair = download_pair();
    pair.establish(&mut plain);
    pair.request([0], 100_000);
    pair.run(&mut plain, |p| p.finished_streams == 1);
    let sample = pair.server_sample;
    assert!(sample.is_some_and(|s| s.rtt >= DELAY * 2 && s.there_ns.is_none()), "{sample:?}");
    assert_eq!(hooks::with_rtt_sample(|| ()), ((), None), "none is left from before");
    let (acked, lost) = hooks::acked_and_lost_bytes(&pair.server);
    assert!(acked > 50_000 && lost == 0, "{acked} {lost}");
    let state = hooks::congestion_state(&pair.server).unwrap();
    assert!(state.window_bytes > 10_000 && state.in_flight_bytes <= state.window_bytes, "{state:?}");
    assert!(state.least_rtt.is_some_and(|rtt| rtt >= DELAY * 2), "{state:?}");
    assert_eq!(state.pacing_rate_bytes_s, None, "cubic does not pace");
    assert_eq!((state.in_flight_bytes, state.elsewhere_in_flight_bytes), (hooks::in_flight_bytes(&pair.server), 0));
    let rtt = hooks::active_rtt(&pair.server).unwrap();
    assert!(rtt.only_path && rtt.path == state.path && rtt.smoothed >= DELAY * 2, "{rtt:?}");
    let held = hooks::with_congestion_window(Some(5000), || hooks::congestion_state(&pair.server));
    assert_eq!(held.unwrap().window_bytes, 5000);
}

#[test]
fn the_rate_and_the_startup_of_bbr2_can_be_seen() {
    let mut server = config();
    server.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
    let mut client = config();
    client.set_initial_max_data(10_000_000);
    client.set_initial_max_stream_data_bidi_local(10_000_000);
    // 50 packets in flight at least until the end: the bottleneck is the link's 1 Mbyte/s for most of it.
    let mut pair = Pair::new(&mut client, &mut server, 8_000_000, DELAY);
    pair.establish(&mut plain);
    let first = hooks::congestion_state(&pair.server).unwrap();
    assert!(!first.startup_over, "{first:?}");
    pair.request([0], 3_000_000);
    pair.run(&mut plain, |p| p.finished_streams == 1);
    let state = hooks::congestion_state(&pair.server).unwrap();
    let rate = state.pacing_rate_bytes_s.unwrap();
    assert!((500_000..3_000_000).contains(&rate), "{state:?}");
    assert!(state.startup_over && state.path == first.path, "{state:?}");
}

#[test]
fn a_challenge_is_answered_although_the_congestion_window_is_full() {
    let spare = |n| (quiche::ConnectionId::from_vec(vec![n; 16]), u128::from(n));
    let mut pair = download_pair();
    pair.establish(&mut plain);
    for (end, (cid, token)) in [(&mut pair.client, spare(3)), (&mut pair.server, spare(4))] {
        end.new_scid(&cid, token, false).unwrap();
    }
    pair.run(&mut plain, |p| p.client.available_dcids() > 0 && p.server.available_dcids() > 0);
    let (here, there) = (pair::server_addr(), "192.0.2.3:1000".parse().unwrap());
    pair.client.migrate_source(there).unwrap();
    pair.request([0], 10);
    let mut buf = [0; 65536];
    let mut hand_over = |from: &mut quiche::Connection, to: &mut quiche::Connection| {
        let mut count = 0;
        while let Ok((n, info)) = from.send(&mut buf) {
            to.recv(&mut buf[..n], quiche::RecvInfo { from: info.from, to: info.to }).unwrap();
            count += 1;
        }
        count
    };
    hand_over(&mut pair.client, &mut pair.server);
    // The server now wants to know whether the client is really there.
    assert_eq!(pair.server.is_path_validated(here, there), Ok(false));
    hand_over(&mut pair.server, &mut pair.client);
    let sent = hooks::with_congestion_window(Some(0), || hand_over(&mut pair.client, &mut pair.server));
    assert_eq!(pair.server.is_path_validated(here, there), Ok(true));
    // The path response, and acknowledgements: the window holds for all else.
    assert!(sent <= 2, "{sent} packets");
}

#[test]
fn a_packet_may_come_later_than_the_end_of_its_connection_id() {
    let spare = |n| (quiche::ConnectionId::from_vec(vec![n; 16]), u128::from(n));
    let mut pair = download_pair();
    pair.establish(&mut plain);
    let (cid, token) = spare(3);
    pair.client.new_scid(&cid, token, false).unwrap();
    pair.run(&mut plain, |p| p.server.available_dcids() > 0);
    let (from, to) = (pair::server_addr(), pair::client_addr());
    let (mut late, mut buf) = ([0; 2000], [0; 65536]);
    pair.server.send_ack_eliciting().unwrap();
    let (late_len, _) = pair.server.send(&mut late).unwrap();
    pair.server.retire_dcid(0).unwrap();
    while let Ok((n, info)) = pair.server.send(&mut buf) {
        pair.client.recv(&mut buf[..n], quiche::RecvInfo { from: info.from, to: info.to }).unwrap();
    }
    assert_eq!(pair.client.retired_scid_next().as_ref(), Some(&quiche::ConnectionId::from_ref(&[1; 16])));
    assert_eq!(pair.client.recv(&mut late[..late_len], quiche::RecvInfo { from, to }), Ok(late_len));
    // It was taken, and the connection lives.
    pair.request([0], 1000);
    pair.run(&mut plain, |p| p.finished_streams == 1);
}
