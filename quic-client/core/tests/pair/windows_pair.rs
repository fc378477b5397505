// SPDX-License-Identifier: Apache-2.0
//! Window rules over real quiche connections, in virtual time.

use crate::pair::{Pair, advance_to, config};
use quiche::hooks::{self, Scope};
use std::time::{Duration, Instant};
use weir_core::congestion::ControlKind;
use weir_core::request::Alpn;
use weir_core::scone::SconeUse;
use weir_core::transport::Transport;
use weir_core::window::{Budget, SharedBudget, WindowKind, WindowStep, Windows};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const DELAY: Duration = Duration::from_millis(85);
const RATE_BIT_S: u64 = 50_000_000;

// Lee & An Table 2.
fn table_2() -> Transport {
    Transport {
        scone: Default::default(),
        alpn: vec![Alpn::Hq],
        cc: ControlKind::default(),
        hystart: true,
        timestamps: true,
        max_payload_bytes: 1350,
        initial_window_packets: 10,
        stream_window_bytes: 8 * KIB,
        max_stream_window_bytes: MIB,
        conn_window_bytes: 32 * KIB,
        max_conn_window_bytes: 64 * MIB,
        idle_timeout: Duration::from_secs(30),
    }
}

fn open(kind: WindowKind, budget: &SharedBudget) -> (Pair, Windows) {
    open_over(RATE_BIT_S, DELAY, kind, budget)
}

fn open_over(rate_bit_s: u64, delay: Duration, kind: WindowKind, budget: &SharedBudget) -> (Pair, Windows) {
    let windows = Windows::new(kind, &table_2(), budget, Instant::now()).unwrap();
    let mut client = config();
    windows.initial().apply(&mut client);
    (Pair::new(&mut client, &mut config(), rate_bit_s, delay), windows)
}

fn turn(pair: &mut Pair, windows: &mut Windows) {
    pair.turn(&mut |quic, out| {
        windows.turn(quic, Instant::now());
        windows.send(quic, out)
    });
}

struct Download {
    start: Instant,
    time: Duration,
    steps: Vec<WindowStep>,
    peak_promised_bytes: u64,
}

fn download(kind: WindowKind, streams: u64, bytes: u64) -> Download {
    download_over(RATE_BIT_S, DELAY, kind, streams, bytes)
}

fn download_over(rate_bit_s: u64, delay: Duration, kind: WindowKind, streams: u64, bytes: u64) -> Download {
    let budget = Budget::shared(64 * MIB);
    let (mut pair, mut windows) = open_over(rate_bit_s, delay, kind, &budget);
    let mut steps = vec![];
    let mut start = None;
    while pair.finished_streams < streams {
        turn(&mut pair, &mut windows);
        steps.extend(windows.steps());
        if start.is_none() && pair.client.is_established() {
            start = Some(Instant::now());
            pair.request((0..streams).map(|n| 4 * n), bytes / streams);
            continue;
        }
        advance_to(pair.next().unwrap());
        assert!(!pair.client.is_closed());
    }
    assert_eq!(pair.read_bytes, bytes);
    let start = start.unwrap();
    Download { start, time: start.elapsed(), steps, peak_promised_bytes: budget.borrow().promised().peak_bytes }
}

#[test]
fn fast_opens_faster_than_double_and_weir_than_both() {
    for bytes in [100_000, 1_000_000, 10_000_000] {
        let [double, fast, weir] =
            [WindowKind::Double, WindowKind::Fast, WindowKind::Weir].map(|kind| download(kind, 4, bytes));
        println!("{bytes} bytes, 4 streams, 50 Mbit/s 170 ms:");
        for (name, d) in [("double", &double), ("fast", &fast), ("weir", &weir)] {
            let (time, peak, steps) = (d.time.as_secs_f64(), d.peak_promised_bytes, d.steps.len());
            println!("  {name:>6} {time:.3} s, {peak} bytes promised at most, {steps} updates");
        }
        // Time until the connection's window is 512 KiB wide. `fast` may end later than `double` all the same, as the
        // megabyte here does.
        let wide = |d: &Download| {
            let step = d.steps.iter().find(|s| s.scope == Scope::Connection && s.window_bytes >= 512 * KIB);
            step.map_or(Duration::MAX, |s| s.at - d.start)
        };
        assert!(wide(&fast) <= wide(&double), "{bytes} bytes: {:?} {:?}", wide(&fast), wide(&double));
        assert!(weir.time <= fast.time && weir.time <= double.time, "{bytes} bytes");
    }
}

// A download with throughput advice: the limits of the connection, and the mean rate.
fn advised(kind: WindowKind, advice_bit_s: u64, bytes: u64) -> (Vec<u64>, f64) {
    let transport = Transport { scone: SconeUse::Follow, ..table_2() };
    let mut windows = Windows::new(kind, &transport, &Budget::shared(64 * MIB), Instant::now()).unwrap();
    let mut client = config();
    windows.initial().apply(&mut client);
    let mut pair = Pair::new(&mut client, &mut config(), RATE_BIT_S, DELAY);
    let (mut limits, mut start) = (vec![], None);
    while pair.finished_streams < 1 {
        windows.advise(&pair.client, Some(advice_bit_s), Instant::now());
        turn(&mut pair, &mut windows);
        let connection = windows.steps().filter(|step| step.scope == Scope::Connection);
        limits.extend(connection.map(|step| step.received_bytes + step.promised_bytes));
        if start.is_none() && pair.client.is_established() {
            start = Some(Instant::now());
            pair.request([0], bytes);
            continue;
        }
        let deadline = windows.deadline();
        assert!(deadline.is_none_or(|at| at > Instant::now()), "{kind:?}: an event loop would spin");
        advance_to(pair.next().into_iter().chain(deadline).min().unwrap());
    }
    limits.dedup();
    (limits, bytes as f64 * 8.0 / start.unwrap().elapsed().as_secs_f64())
}

// RFC 1122 4.2.3.3: a sender answers each small step of the limit with a small packet.
#[test]
fn a_paced_limit_rises_by_whole_steps_at_the_advised_rate() {
    for kind in [WindowKind::Double, WindowKind::Fast, WindowKind::Weir] {
        let (limits, rate_bit_s) = advised(kind, 8_000_000, 10_000_000);
        let least = limits.windows(2).map(|two| two[1] - two[0]).min().unwrap();
        assert!(least >= 2 * 1350, "{kind:?}: {least} bytes");
        assert!((0.85..1.0).contains(&(rate_bit_s / 8e6)), "{kind:?}: {rate_bit_s} bit/s");
    }
}

#[test]
fn the_greatest_advice_is_no_limit() {
    for kind in [WindowKind::Double, WindowKind::Fast, WindowKind::Weir] {
        let (_, rate_bit_s) = advised(kind, 199_526_231_400, 10_000_000);
        let without = download(kind, 1, 10_000_000).time.as_secs_f64();
        assert!(rate_bit_s > 0.9 * 8e7 / without, "{kind:?}: {rate_bit_s} bit/s");
    }
}

// Other links, which no constant was chosen by. `-- --nocapture` shows the table.
#[test]
fn weir_is_as_quick_and_promises_no_more_over_other_links() {
    for (rate_mbit_s, rtt_ms) in [(50, 170), (20, 60), (200, 30)] {
        for bytes in [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000] {
            let [double, fast, weir] = [WindowKind::Double, WindowKind::Fast, WindowKind::Weir]
                .map(|kind| download_over(rate_mbit_s * 1_000_000, Duration::from_millis(rtt_ms) / 2, kind, 4, bytes));
            for (name, d) in [("double", &double), ("fast", &fast), ("weir", &weir)] {
                let (time, peak) = (d.time.as_secs_f64(), d.peak_promised_bytes);
                println!("{rate_mbit_s} Mbit/s {rtt_ms} ms {bytes} bytes {name:>6}: {time:.3} s, {peak} promised");
            }
            let what = format!("{rate_mbit_s} Mbit/s, {rtt_ms} ms, {bytes} bytes");
            assert!(weir.time <= fast.time && weir.time <= double.time, "{what}");
            assert!(weir.peak_promised_bytes <= double.peak_promised_bytes, "{what}");
        }
    }
}

#[test]
fn fast_takes_the_steps_of_algorithm_1() {
    let windows = |kind| {
        let steps = download(kind, 1, 2_000_000).steps;
        let of_stream = steps.iter().filter(|s| s.scope == Scope::Stream(0)).map(|s| s.window_bytes);
        of_stream.collect::<Vec<_>>()
    };
    // The first update leaves the window; see the rules' own tests.
    let fast = windows(WindowKind::Fast);
    assert_eq!(fast[..2], [8 * KIB, 128 * KIB]);
    assert!(fast.iter().all(|w| [8 * KIB, 128 * KIB, MIB].contains(w)), "{fast:?}");
    let double = windows(WindowKind::Double);
    assert_eq!(double[..2], [8 * KIB, 16 * KIB]);
    assert!(double.windows(2).all(|w| w[1] == w[0] || w[1] == 2 * w[0]), "{double:?}");
}

#[test]
fn static_stays() {
    let d = download(WindowKind::Static, 4, 200_000);
    assert_eq!(d.peak_promised_bytes, 32 * KIB);
    for step in d.steps {
        assert_eq!(step.window_bytes, if step.scope == Scope::Connection { 32 * KIB } else { 8 * KIB });
    }
}

#[test]
fn steps_say_what_is_promised() {
    let d = download(WindowKind::Weir, 4, 1_000_000);
    let conn = || d.steps.iter().filter(|s| s.scope == Scope::Connection);
    assert!(conn().count() > 5);
    assert!(conn().all(|s| s.promised_bytes <= d.peak_promised_bytes));
    assert!(d.steps.iter().is_sorted_by_key(|s| s.at));
    assert!(conn().is_sorted_by_key(|s| s.received_bytes));
}

// Updates that are lost are repeated without asking the rule; near the bound of the window too.
#[test]
fn lost_updates_keep_to_the_budget() {
    const BUDGET: u64 = 6 * MIB;
    let bytes = 40_000_000;
    for every in [2, 3, 5] {
        let budget = Budget::shared(BUDGET);
        let t = Transport { max_conn_window_bytes: 8 * MIB, max_stream_window_bytes: 8 * MIB, ..table_2() };
        let mut windows = Windows::new(WindowKind::Weir, &t, &budget, Instant::now()).unwrap();
        let mut client = config();
        windows.initial().apply(&mut client);
        let mut pair = Pair::new(&mut client, &mut config(), 1_000_000_000, Duration::from_millis(40));
        pair.lose_up_every = Some(every);
        let (mut asked, mut widest) = (false, 0);
        while pair.finished_streams < 4 {
            turn(&mut pair, &mut windows);
            let (_, limit) = hooks::received_and_limit_bytes(&pair.client);
            let may_hold = limit - pair.read_bytes;
            assert!(may_hold <= BUDGET, "one of {every} lost: the limit leaves {may_hold} of {BUDGET}");
            widest = widest.max(may_hold);
            if !asked && pair.client.is_established() {
                pair.request([0, 4, 8, 12], bytes / 4);
                asked = true;
                continue;
            }
            advance_to(pair.next().unwrap());
            assert!(!pair.client.is_closed());
        }
        assert_eq!(pair.read_bytes, bytes);
        // Half of the bound is where the trigger was once cut.
        assert!(widest > 4 * MIB, "one of {every} lost: {widest}");
        assert!(pair.client.stats().lost > 0);
    }
}

#[test]
fn twenty_connections_keep_to_one_budget() {
    const BUDGET: u64 = 640 * KIB;
    let budget = Budget::shared(BUDGET);
    let mut all: Vec<(Pair, Windows, bool)> = (0..20)
        .map(|_| {
            let (pair, windows) = open(WindowKind::Weir, &budget);
            (pair, windows, false)
        })
        .collect();
    // Each has its start of 32 KiB: all is promised.
    assert_eq!(budget.borrow().promised().promised_bytes, BUDGET);
    assert!(Windows::new(WindowKind::Weir, &table_2(), &budget, Instant::now()).is_err());
    while all.iter().any(|(pair, ..)| pair.finished_streams < 2) {
        for (pair, windows, asked) in &mut all {
            if !*asked && pair.client.is_established() {
                pair.request([0, 4], 150_000);
                *asked = true;
            }
            turn(pair, windows);
        }
        let promised: u64 = all
            .iter()
            .map(|(pair, ..)| hooks::received_and_limit_bytes(&pair.client))
            .map(|(received, limit)| limit - received)
            .sum();
        assert!(promised <= BUDGET, "{promised}");
        advance_to(all.iter().filter_map(|(pair, ..)| pair.next()).min().unwrap());
    }
    assert!(all.iter().all(|(pair, ..)| pair.read_bytes == 300_000));
    assert!(budget.borrow().promised().peak_bytes <= BUDGET);
    all.clear();
    assert_eq!(budget.borrow().promised().promised_bytes, 0);
}
