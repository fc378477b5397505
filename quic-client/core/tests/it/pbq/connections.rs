// SPDX-License-Identifier: Apache-2.0
//! The control on real connections over BBR, in virtual time: a download over one path.

use super::intervals::PACKET_BYTES;
use super::weights::{PAPER, constant};
use crate::world::{Link, MS, Seen, World};
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::congestion::pbq::{Pbq, Policy, Profile, Weights, built_in};
use weir_core::congestion::{Agent, By, CongestionControl, ControlKind, Decision, QuicheOwn, Setup};
use weir_core::report::samples::{Side, Timebase};
use weir_core::report::trajectory;

fn setup(explore_seed: Option<u64>) -> Setup {
    Setup { connection: 0, packet_bytes: PACKET_BYTES, initial_window_bytes: 10 * PACKET_BYTES, explore_seed }
}

fn world(control: impl Fn() -> Box<dyn CongestionControl> + 'static) -> Seen {
    let algorithm: ControlKind = "bbr2_gcongestion".parse().unwrap();
    // 4 Mbit/s, 60 ms there and back: 30 kB, or 22 packets.
    let links = vec![Link { delay_ms: 30, mbit_s: Some(4.0) }];
    World { links, bytes: 3_000_000, control: Rc::new(control), algorithm, ..World::default() }.run()
}

fn download(weights: &Rc<Weights>, explore_seed: Option<u64>) -> Seen {
    let weights = weights.clone();
    world(move || Box::new(Pbq::new(weights.clone(), &setup(explore_seed))))
}

/// A policy that always does the same, from the initial window on.
fn always(action: f32) -> Rc<Weights> {
    let ranges = json!({"rtt_least_s": [0.001, 0.01]});
    constant(action, json!({"start": "initial-window", "guard": null, "interval_least_rtts": 0, "ranges": ranges}))
}

#[test]
fn the_policys_window_is_in_force() {
    let plain = world(|| Box::new(QuicheOwn));
    assert_eq!((plain.decisions.len(), plain.counts.made), (0, 0));
    // 3 MB at 4 Mbit/s are 6 s.
    assert!((6_000 * MS..8_500 * MS).contains(&plain.took), "{:?}", plain.took);
    // Ten packets each round trip of 60 ms and a little: 13.5 kB in 63 ms, 14 s.
    let held = download(&always(0.0), None);
    assert!((13_000 * MS..17_000 * MS).contains(&held.took), "{:?}", held.took);
    assert_eq!(held.counts.made, held.decisions.len() as u64);
    assert_eq!(
        (held.counts.outside, held.counts.by_bbr),
        (held.counts.made, 0),
        "the round trip is longer than in training"
    );
    for d in &held.decisions {
        assert_eq!((d.used_bytes, d.by), (10 * PACKET_BYTES as u64, By::Policy));
        assert!(d.seen.interval.most_in_flight_bytes <= 10 * PACKET_BYTES as u64, "{d:?}");
        assert!(d.seen.interval.length >= 100 * MS && d.seen.interval.length < 130 * MS, "{d:?}");
        assert!(d.seen.interval.pacing_rate_bytes_s.is_some_and(|rate| rate > 0), "{d:?}");
    }
    // Two packets: 2.7 kB in 63 ms.
    let least = download(&always(-1.0), None);
    assert!(least.took > 3 * held.took, "{:?}", least.took);
    // A window without end: BBR's pacing alone holds the queue.
    let most = download(&always(1.0), None);
    assert!(most.took < plain.took + 2_000 * MS, "{:?}", most.took);
}

#[test]
fn decisions_are_numbered_and_their_intervals_follow_each_other() {
    let seen = download(&Rc::new(Weights::read(PAPER, Profile::Paper).unwrap()), Some(1));
    assert!(seen.decisions.len() > 20, "{}", seen.decisions.len());
    for (n, pair) in seen.decisions.windows(2).enumerate() {
        let [one, next] = pair else { unreachable!() };
        assert_eq!((one.seen.n, next.seen.n), (n as u64, n as u64 + 1));
        assert!(next.seen.interval.now - one.seen.interval.now >= next.seen.interval.length, "{next:?}");
        assert_eq!(next.seen.interval.window_bytes, one.used_bytes, "what was decided was in force");
    }
    let acked: u64 = seen.decisions.iter().map(|d| d.seen.interval.acked_bytes).sum();
    assert!((2_900_000..3_300_000).contains(&acked), "{acked}");
}

/// Changes nothing, so many milliseconds after it was asked.
struct Slow {
    after_ms: u64,
    asked: Option<Instant>,
}

impl Agent for Slow {
    fn act(&mut self, _: &weir_core::congestion::Seen, now: Instant) -> Option<f64> {
        let asked = *self.asked.get_or_insert(now);
        let answer = (now - asked >= Duration::from_millis(self.after_ms)).then_some(0.0);
        self.asked = self.asked.filter(|_| answer.is_none());
        answer
    }
}

#[test]
fn while_an_agent_is_waited_for_the_connection_goes_on() {
    let asked = |after_ms| {
        world(move || {
            let agent: Box<dyn Agent> = Box::new(Slow { after_ms, asked: None });
            Box::new(Pbq::new(Policy { weights: always(1.0), agent: Some(agent) }, &setup(None)))
        })
    };
    let (at_once, late) = (asked(0), asked(250));
    // The window is the same all the time, and so is what it carries.
    assert!(late.took < at_once.took + 100 * MS, "{:?}, {:?}", late.took, at_once.took);
    let lengths = |seen: &Seen| seen.decisions.iter().map(|d| d.seen.interval.length).collect::<Vec<_>>();
    assert!(lengths(&at_once).iter().all(|length| *length < 130 * MS), "{:?}", lengths(&at_once));
    // An interval ends when the one before is decided, and not earlier. The first had none before it.
    let lengths = lengths(&late);
    assert!(lengths.len() > 20 && lengths[0] < 130 * MS, "{lengths:?}");
    assert!(lengths[1..].iter().all(|length| (250 * MS..290 * MS).contains(length)), "{lengths:?}");
    let numbers: Vec<_> = late.decisions.iter().map(|d| d.seen.n).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let acked: u64 = late.decisions.iter().map(|d| d.seen.interval.acked_bytes).sum();
    assert!((2_900_000..3_300_000).contains(&acked), "{acked}");
}

#[test]
fn startup_is_bbrs_and_then_the_policy_takes_over() {
    let weights = constant(0.0, json!({"start": "after-startup", "guard": null}));
    let seen = download(&weights, None);
    let by: Vec<_> = seen.decisions.iter().map(|d| d.by).collect();
    let startup = by.iter().take_while(|by| **by == By::Startup).count();
    assert!(startup > 0 && startup < by.len() / 2, "{by:?}");
    assert!(by[startup..].iter().all(|by| *by == By::Policy), "{by:?}");
    assert_eq!(seen.counts.by_bbr, startup as u64);
    // It stands where BBR left it.
    let windows = |d: &Decision| d.used_bytes;
    assert!(seen.decisions[startup..].windows(2).all(|pair| windows(&pair[0]) == windows(&pair[1])));
}

/// A download by the policy in the programs, whose acknowledgements come 30 ms later from the second second on.
fn late_acknowledgements(algorithm: &str) -> Seen {
    let weights = Rc::new(built_in(Profile::Own).unwrap());
    World {
        links: vec![Link { delay_ms: 30, mbit_s: Some(4.0) }],
        bytes: 3_000_000,
        control: Rc::new(move || Box::new(Pbq::new(weights.clone(), &setup(None)))),
        algorithm: algorithm.parse().unwrap(),
        late_up: Some((2_000 * MS, 30 * MS)),
        ..World::default()
    }
    .run()
}

#[test]
fn a_queue_on_the_way_back_is_not_taken_for_its_own() {
    // A connection without pbq does not ask for timestamps, so this control gets none.
    let (without, with) = (late_acknowledgements("bbr2_gcongestion"), late_acknowledgements("pbq"));
    // The least round-trip time assumed in the second after the change: the path's, or that plus the acknowledgement
    // delay.
    let held_for = |seen: &Seen| {
        let first = seen.decisions[0].seen.interval.now;
        let of_that = |d: &&Decision| (2_300 * MS..3_000 * MS).contains(&(d.seen.interval.now - first));
        let all: Vec<_> = seen.decisions.iter().filter(of_that).map(|d| d.seen.rtt_least_s).collect();
        assert!(all.len() > 3, "{}", all.len());
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert!((0.060..0.066).contains(&held_for(&without)), "{}", held_for(&without));
    assert!((0.090..0.096).contains(&held_for(&with)), "{}", held_for(&with));
    assert!(with.took < without.took, "{:?} {:?}", with.took, without.took);
}

#[test]
fn a_trajectory_has_all_that_training_needs() {
    let weights = Rc::new(Weights::read(PAPER, Profile::Paper).unwrap());
    let seen = download(&weights, Some(9));
    let timebase = Timebase::new(std::time::Instant::now(), 0);
    let line = |text: Result<String, serde_json::Error>| -> serde_json::Value {
        serde_json::from_str(&text.unwrap()).unwrap()
    };
    let head = line(trajectory::head(&weights, &setup(Some(9)), Side::Server));
    assert_eq!((&head["k"], &head["weights"]), (&json!("trajectory"), &json!(weights.sha256)));
    assert_eq!((&head["explore_seed"], &head["side"]), (&json!(9), &json!("server")));
    assert_eq!(head["inputs"].as_array().unwrap().len() * head["history"].as_u64().unwrap() as usize, 5);
    for d in &seen.decisions {
        let step = line(trajectory::step(d, &timebase));
        let state: Vec<f64> = serde_json::from_value(step["state"].clone()).unwrap();
        assert!(state.iter().zip(&d.seen.state).all(|(a, b)| (a - b).abs() < 1e-12));
        let number = |name: &str| step[name].as_f64().unwrap_or_else(|| panic!("{name}: {step}"));
        assert!((number("mean") + 0.6065306597126334 * number("noise") - number("drawn")).abs() < 1e-6);
        assert_eq!(number("acked_bytes") as u64, d.seen.interval.acked_bytes);
        assert!(number("rtt_least_us") >= 60_000.0 && number("interval_us") >= 100_000.0);
        assert_eq!((&step["by"], &step["k"]), (&json!("policy"), &json!("step")));
    }
    assert_eq!(line(trajectory::end(3, "closed")), json!({"k": "end", "steps": 3, "reason": "closed"}));
}
