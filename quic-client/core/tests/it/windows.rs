// SPDX-License-Identifier: Apache-2.0
//! Window rules compared over a modelled link, and the budget under any order of events. The table:
//! `cargo test --release -p weir-core --test it windows::table -- --nocapture`.

use crate::window_sim::{Flow, Link, Outcome, transfer, update};
use proptest::prelude::*;
use quiche::hooks::Scope;
use std::time::{Duration, Instant};
use weir_core::congestion::ControlKind;
use weir_core::request::Alpn;
use weir_core::transport::Transport;
use weir_core::window::{Budget, BudgetExhausted, WindowKind, Windows};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const KINDS: [WindowKind; 4] = [WindowKind::Static, WindowKind::Double, WindowKind::Fast, WindowKind::Weir];

fn transport(conn: u64, max_conn: u64, stream: u64, max_stream: u64) -> Transport {
    Transport {
        scone: Default::default(),
        alpn: vec![Alpn::Hq],
        cc: ControlKind::default(),
        hystart: true,
        timestamps: true,
        max_payload_bytes: 1350,
        initial_window_packets: 10,
        stream_window_bytes: stream,
        max_stream_window_bytes: max_stream,
        conn_window_bytes: conn,
        max_conn_window_bytes: max_conn,
        idle_timeout: Duration::from_secs(30),
    }
}

// Lee & An Table 2.
fn table_2() -> Transport {
    transport(32 * KIB, 64 * MIB, 8 * KIB, MIB)
}

fn run(link: Link, kind: WindowKind, transport: &Transport, streams: usize, bytes: u64) -> Outcome {
    let start = Instant::now();
    let windows = Windows::new(kind, transport, &Budget::shared(64 * MIB), start).unwrap();
    transfer(link, windows, kind == WindowKind::Weir, streams, bytes, start)
}

fn links() -> [(&'static str, Link); 2] {
    let link = |rate_bit_s, rtt_ms| {
        let rtt = Duration::from_millis(rtt_ms);
        let buffer_bytes = (rate_bit_s as f64 / 8.0 * rtt.as_secs_f64()) as u64 / 2;
        Link { rate_bit_s, rtt, buffer_bytes }
    };
    [("50 Mbit/s 170 ms", link(50_000_000, 170)), ("1 Gbit/s 50 ms", link(1_000_000_000, 50))]
}

const SIZES: [u64; 5] = [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

#[test]
fn table() {
    for (name, link) in links() {
        println!("\n{name}, 4 streams, windows of Table 2, bandwidth-delay product {} bytes", link.bdp_bytes());
        println!(
            "{:>9} {:>9} {:>9} {:>9} {:>12} {:>8} {:>8}",
            "bytes", "rule", "time_s", "full_s", "promised", "held_s", "updates"
        );
        for bytes in SIZES {
            for kind in KINDS {
                let o = run(link, kind, &table_2(), 4, bytes);
                let full = o.full.map_or("-".to_owned(), |t| format!("{:.3}", t.as_secs_f64()));
                println!(
                    "{bytes:>9} {kind:>9} {:>9.3} {full:>9} {:>12} {:>8.3} {:>8}",
                    o.time.as_secs_f64(),
                    o.peak_promised_bytes,
                    o.held_back.as_secs_f64(),
                    o.updates
                );
            }
        }
    }
}

#[test]
fn weir_never_holds_a_sender_back_and_promises_less() {
    for (name, link) in links() {
        for bytes in SIZES {
            let [_, double, fast, weir] = KINDS.map(|kind| run(link, kind, &table_2(), 4, bytes));
            let what = format!("{name}, {bytes} bytes");
            assert!(fast.time <= double.time, "{what}: {fast:?} {double:?}");
            assert!(weir.time <= fast.time, "{what}: {weir:?} {fast:?}");
            // Up to here the streams' bound of 1 MiB allows the link's rate.
            if bytes <= 5_000_000 {
                assert!(weir.held_back < link.rtt / 16, "{what}: {weir:?}");
            }
            assert!(weir.peak_promised_bytes <= double.peak_promised_bytes, "{what}: {weir:?} {double:?}");
        }
    }
}

#[test]
fn static_stays() {
    let start = Instant::now();
    let windows = Windows::new(WindowKind::Static, &table_2(), &Budget::shared(64 * MIB), start).unwrap();
    let initial = windows.initial();
    let out = transfer(links()[0].1, windows, false, 4, 200_000, start);
    assert_eq!((initial.conn_bytes, out.peak_promised_bytes), (32 * KIB, 32 * KIB));
}

// An idle stream, and a rate that falls: windows follow.
#[test]
fn weir_shrinks_with_the_rate() {
    let rtt = Duration::from_millis(100);
    let mut now = Instant::now();
    let mut rule = Windows::new(WindowKind::Weir, &table_2(), &Budget::shared(64 * MIB), now).unwrap();
    let initial = rule.initial();
    let mut conn = Flow::new(Scope::Connection, initial.conn_bytes, initial.max_conn_bytes);
    let mut streams = [Flow::new(Scope::Stream(0), initial.stream_bytes, initial.max_stream_bytes)];
    rule.stream_opened(0, now);
    // `per_ms` bytes each millisecond, as far as the limits allow.
    let mut receive = |per_ms: u64, ms: u64| {
        for _ in 0..ms {
            now += Duration::from_millis(1);
            let n = per_ms.min(conn.max_data - conn.received).min(streams[0].max_data - streams[0].received);
            for flow in [&mut conn, &mut streams[0]] {
                flow.received += n;
                flow.consumed += n;
            }
            conn.retune(&mut rule, now, rtt);
            streams[0].retune(&mut rule, now, rtt);
            update(&mut conn, &mut streams, &mut rule, now, rtt);
        }
        conn.max_data - conn.received
    };
    let at_5 = receive(5_000, 5_000);
    assert!((500_000..800_000).contains(&at_5), "5 MB/s by 100 ms are 500 kB, promised {at_5}");
    let at_1 = receive(1_000, 10_000);
    assert!((100_000..160_000).contains(&at_1), "1 MB/s by 100 ms are 100 kB, promised {at_1}");
    receive(0, 10_000);
    let after = receive(20, 2_000);
    assert!(after <= at_1, "{after} of {at_1}");
}

// An RTT that is believed to be half of the true one must not hold the rate down for good.
#[test]
fn weir_recovers_from_an_rtt_too_short() {
    let link = Link { rate_bit_s: 50_000_000, rtt: Duration::from_millis(200), buffer_bytes: 300_000 };
    let start = Instant::now();
    let rule = || Windows::new(WindowKind::Weir, &table_2(), &Budget::shared(64 * MIB), start).unwrap();
    let right = transfer(link, rule(), true, 4, 20_000_000, start);
    let wrong = crate::window_sim::transfer_believing(link, 0.5, rule(), true, 4, 20_000_000, start);
    assert!(wrong.time < right.time * 3 / 2, "{wrong:?} {right:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Open,
    Close(usize),
    /// Connection, stream, bytes arriving, of which this many are read.
    Receive(usize, u64, u64, u64),
    Turn(usize),
    /// An update whose frame was lost is repeated, as quiche does: at the present window.
    Again(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![0..2_000u64, 0..2_000_000u64];
    prop_oneof![
        2 => Just(Step::Open),
        1 => (0..32usize).prop_map(Step::Close),
        12 => (0..32usize, 0..3u64, bytes.clone(), bytes).prop_map(|(c, s, n, r)| Step::Receive(c, s, n, r)),
        6 => (0..32usize).prop_map(Step::Turn),
        2 => (0..32usize).prop_map(Step::Again),
        3 => (0..400u64).prop_map(Step::Wait),
    ]
}

// A lost MAX_DATA is repeated with the next packet (`should_send_max_data` in quiche's lib.rs): after an update that is
// due, and without asking if none is.
fn again(conn: &mut Flow, streams: &mut [Flow], rule: &mut Windows, now: Instant, rtt: Duration) {
    update(conn, streams, rule, now, rtt);
    conn.commit(now);
}

// A limit repeated unasked is no more than was granted, also near the bound of the window.
#[test]
fn a_limit_told_again_keeps_to_the_budget() {
    let (limit, rtt) = (6 * MIB, Duration::from_millis(100));
    let budget = Budget::shared(limit);
    let mut now = Instant::now();
    let t = transport(256 * KIB, 8 * MIB, 8 * MIB, 8 * MIB);
    let mut rule = Windows::new(WindowKind::Weir, &t, &budget, now).unwrap();
    let i = rule.initial();
    let mut conn = Flow::new(Scope::Connection, i.conn_bytes, i.max_conn_bytes);
    let mut streams = [Flow::new(Scope::Stream(0), 8 * MIB, 8 * MIB)];
    rule.stream_opened(0, now);
    let mut widest = 0;
    for step in 0..4000 {
        now += Duration::from_millis(5);
        let n = (200 * KIB).min(conn.max_data - conn.received).min(streams[0].max_data - streams[0].received);
        for flow in [&mut conn, &mut streams[0]] {
            flow.received += n;
            flow.consumed += n;
        }
        conn.retune(&mut rule, now, rtt);
        streams[0].retune(&mut rule, now, rtt);
        again(&mut conn, &mut streams, &mut rule, now, rtt);
        let outstanding = conn.max_data - conn.consumed;
        assert!(outstanding <= limit, "step {step}: the limit leaves {outstanding} of {limit}");
        widest = widest.max(outstanding);
    }
    // 40 MB/s by 100 ms are 4 MB.
    assert!(widest > 4 * MIB, "{widest}");
}

struct Peer {
    rule: Windows,
    conn: Flow,
    streams: Vec<Flow>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_budget_is_never_exceeded(
        budget_kib in prop_oneof![16..4096u64, 4096..32768u64],
        max_conn_mib in 1..16u64,
        rtt_ms in 1..300u64,
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let (limit, rtt) = (budget_kib * KIB, Duration::from_millis(rtt_ms));
        let budget = Budget::shared(limit);
        let t = transport(256 * KIB, max_conn_mib * MIB, 64 * KIB, 4 * MIB);
        let mut now = Instant::now();
        let mut peers: Vec<Peer> = Vec::new();
        for step in steps {
            match step {
                Step::Open => match Windows::new(WindowKind::Weir, &t, &budget, now) {
                    Ok(rule) => {
                        let i = rule.initial();
                        let conn = Flow::new(Scope::Connection, i.conn_bytes, i.max_conn_bytes);
                        let stream = |n: u64| Flow::new(Scope::Stream(4 * n), i.stream_bytes, i.max_stream_bytes);
                        peers.push(Peer { rule, conn, streams: (0..3).map(stream).collect() });
                    }
                    Err(BudgetExhausted { free_bytes, connections, .. }) => {
                        prop_assert!(free_bytes < 16 * KIB);
                        prop_assert_eq!(connections, peers.len());
                    }
                },
                Step::Close(n) if n < peers.len() => drop(peers.swap_remove(n)),
                Step::Receive(n, s, bytes, read) if n < peers.len() => {
                    let p = &mut peers[n];
                    let flow = &mut p.streams[s as usize];
                    // A peer that keeps to its limits, and an application that reads as it likes.
                    let bytes = bytes.min(p.conn.max_data - p.conn.received).min(flow.max_data - flow.received);
                    flow.received += bytes;
                    p.conn.received += bytes;
                    let read = read.min(flow.received - flow.consumed);
                    flow.consumed += read;
                    p.conn.consumed += read;
                }
                Step::Turn(n) if n < peers.len() => {
                    let p = &mut peers[n];
                    p.conn.retune(&mut p.rule, now, rtt);
                    for flow in &mut p.streams {
                        flow.retune(&mut p.rule, now, rtt);
                    }
                    update(&mut p.conn, &mut p.streams, &mut p.rule, now, rtt);
                }
                Step::Again(n) if n < peers.len() => {
                    let p = &mut peers[n];
                    if p.conn.last_update.is_some() {
                        again(&mut p.conn, &mut p.streams, &mut p.rule, now, rtt);
                    }
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
                _ => {}
            }
            let promised: u64 = peers.iter().map(|p| p.conn.max_data - p.conn.received).sum();
            let may_hold: u64 = peers.iter().map(|p| p.conn.max_data - p.conn.consumed).sum();
            prop_assert!(promised <= may_hold && may_hold <= limit, "{} {} of {}", promised, may_hold, limit);
            // None starves: with all read, an update leaves each connection something to send.
            for p in &mut peers {
                if p.conn.max_data == p.conn.consumed {
                    update(&mut p.conn, &mut p.streams, &mut p.rule, now, rtt);
                    prop_assert!(p.conn.max_data > p.conn.consumed);
                }
            }
        }
    }
}
