// SPDX-License-Identifier: Apache-2.0
//! Cost of a PBQ decision (quantities, network, guard, window) with the built-in policies, without any packets.
//!
//! `cargo run --release --example decision_cost [DECISIONS [FILE]]` (default: 200,000 in each of five rounds; FILE in the
//! place of pbq's built-in weights). Prints one JSON object a policy: the nanoseconds of processor time of a decision, `median`, `least` and
//! `most` over the rounds.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::congestion::pbq::{Pbq, Profile, Weights, built_in};
use weir_core::congestion::{CongestionControl, Interval, RttSamples, Setup};

const ROUNDS: usize = 5;
const PACKET_BYTES: usize = 1350;
/// A decision each, in turn: as on a server, where none finds its connection's state in the nearest cache.
const CONNECTIONS: usize = 1000;

/// Processor time of this thread so far, in nanoseconds: other programs' time does not count.
fn used_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_else(|| {
        eprintln!("decision_cost: /proc/thread-self/schedstat: expected nanoseconds");
        std::process::exit(1);
    })
}

/// Interval number `n` of a connection: no two alike.
fn interval(n: usize, now: Instant, window_bytes: u64) -> Interval {
    let rtt = Duration::from_micros(50_000 + (n * 7919 % 20_000) as u64);
    let least = Duration::from_millis(50);
    Interval {
        now,
        length: Duration::from_millis(100),
        sent_bytes: window_bytes,
        acked_bytes: 100_000 + (n * 104_729 % 50_000) as u64,
        lost_bytes: (n % 20) as u64 * 100,
        ect_acked_packets: 0,
        ce_packets: 0,
        in_flight_bytes: window_bytes,
        most_in_flight_bytes: window_bytes,
        window_bytes,
        pacing_rate_bytes_s: Some(1_250_000),
        startup_over: true,
        rtt: Some(RttSamples { now, count: 20, latest: rtt, mean: rtt, least_of_these: least, least, there: None }),
    }
}

fn main() {
    let decisions: usize = match std::env::args().nth(1).map_or(Ok(200_000), |text| text.parse()) {
        Ok(number) if number >= CONNECTIONS => number,
        _ => {
            eprintln!("decision_cost: expected a number of decisions, at least {CONNECTIONS}");
            std::process::exit(2);
        }
    };
    let file = std::env::args().nth(2);
    for profile in [Profile::Own, Profile::Paper] {
        let read = match &file {
            Some(path) if profile == Profile::Own => std::fs::read(path)
                .map_err(|e| format!("{path}: {e}"))
                .and_then(|bytes| Weights::read(&bytes, profile).map_err(|e| format!("{path}: {e}"))),
            _ => built_in(profile).map_err(|e| format!("{}: {e}", profile.name())),
        };
        let weights = match read {
            Ok(weights) => Rc::new(weights),
            Err(e) => {
                eprintln!("decision_cost: {e}");
                std::process::exit(1);
            }
        };
        let setup = |connection| Setup {
            connection,
            packet_bytes: PACKET_BYTES,
            initial_window_bytes: 10 * PACKET_BYTES,
            explore_seed: None,
        };
        let mut controls: Vec<_> = (0..CONNECTIONS).map(|n| Pbq::new(weights.clone(), &setup(n as u64))).collect();
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let (began, used) = (Instant::now(), used_ns());
                for n in 0..decisions {
                    let control = &mut controls[n % CONNECTIONS];
                    let window = control.window_bytes().unwrap_or(20 * PACKET_BYTES) as u64;
                    control.on_interval(&interval(n, began, window));
                    black_box(control.take_decision());
                }
                (used_ns() - used) as f64 / decisions as f64
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        let [least, median, most] = [rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]].map(f64::round);
        let name = profile.name();
        println!(r#"{{"policy": "{name}", "least_ns": {least}, "median_ns": {median}, "most_ns": {most}}}"#);
    }
}
