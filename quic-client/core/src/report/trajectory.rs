// SPDX-License-Identifier: Apache-2.0
//! The trajectory file of a connection: inputs and actions of a congestion control that learns, for its trainer
//! (docs/design/pbq-weights-format.md, "The trajectory file"). A number that is not finite is written as `null`.

use super::samples::{Side, Timebase};
use crate::congestion::pbq::Weights;
use crate::congestion::{Decision, Seen, Setup};
use serde::Serialize;
use std::time::Duration;

/// Of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Head<'a> {
    k: &'static str,
    version: u32,
    profile: &'static str,
    weights: &'a str,
    side: Side,
    conn: u64,
    explore_seed: Option<u64>,
    inputs: Vec<&'static str>,
    history: usize,
    deviation: f64,
    noise_correlation: f64,
    action_bound: f64,
}

#[derive(Serialize)]
struct Step<'a> {
    k: &'static str,
    #[serde(flatten)]
    seen: SeenText<'a>,
    mean: f64,
    noise: f64,
    drawn: f64,
    log_probability: f64,
    action: f64,
    window_bytes: f64,
    used_bytes: u64,
}

#[derive(Serialize)]
struct SeenText<'a> {
    n: u64,
    t_us: u64,
    state: &'a [f64],
    outside: Option<&'static str>,
    by: String,
    interval_us: u64,
    acked_bytes: u64,
    lost_bytes: u64,
    rtt_mean_us: Option<u64>,
    rtt_last_us: Option<u64>,
    rtt_least_us: u64,
    in_flight_bytes: u64,
    window_before_bytes: u64,
    pacing_bytes_s: Option<u64>,
    rate_greatest_bytes_s: f64,
}

impl SeenText<'_> {
    fn new<'a>(seen: &'a Seen, timebase: &Timebase) -> SeenText<'a> {
        let us = |d: Duration| d.as_micros() as u64;
        let interval = &seen.interval;
        SeenText {
            n: seen.n,
            t_us: timebase.us(interval.now),
            state: &seen.state,
            outside: seen.outside,
            by: seen.by.text(),
            interval_us: us(interval.length),
            acked_bytes: interval.acked_bytes,
            lost_bytes: interval.lost_bytes,
            rtt_mean_us: interval.rtt.map(|rtt| us(rtt.mean)),
            rtt_last_us: interval.rtt.map(|rtt| us(rtt.latest)),
            rtt_least_us: (seen.rtt_least_s * 1e6).round() as u64,
            in_flight_bytes: interval.most_in_flight_bytes,
            window_before_bytes: interval.window_bytes,
            pacing_bytes_s: interval.pacing_rate_bytes_s,
            rate_greatest_bytes_s: seen.rate_greatest_bytes_s,
        }
    }
}

#[derive(Serialize)]
struct End<'a> {
    k: &'static str,
    steps: u64,
    reason: &'a str,
}

/// The first line.
///
/// # Errors
/// Only errors of `serde_json`, which these types never cause. The same for the other lines.
pub fn head(weights: &Weights, setup: &Setup, side: Side) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Head {
        k: "trajectory",
        version: VERSION,
        profile: weights.profile.name(),
        weights: &weights.sha256,
        side,
        conn: setup.connection,
        explore_seed: setup.explore_seed,
        inputs: weights.inputs.iter().map(|quantity| quantity.name).collect(),
        history: weights.history,
        deviation: weights.deviation.value,
        noise_correlation: weights.deviation.correlation,
        action_bound: weights.action_bound,
    })
}

/// Input of a decision, for an agent: a step's line without its result.
///
/// # Errors
/// As [`head`].
pub fn seen(seen: &Seen, timebase: &Timebase) -> Result<String, serde_json::Error> {
    serde_json::to_string(&SeenText::new(seen, timebase))
}

/// The line of a decision.
///
/// # Errors
/// As [`head`].
pub fn step(decision: &Decision, timebase: &Timebase) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Step {
        k: "step",
        seen: SeenText::new(&decision.seen, timebase),
        mean: decision.mean,
        noise: decision.noise,
        drawn: decision.drawn,
        log_probability: decision.log_probability,
        action: decision.action,
        window_bytes: decision.window_bytes,
        used_bytes: decision.used_bytes,
    })
}

/// The last line: so many decisions, and why the connection ended.
///
/// # Errors
/// As [`head`].
pub fn end(steps: u64, reason: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&End { k: "end", steps, reason })
}
