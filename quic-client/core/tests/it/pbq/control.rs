// SPDX-License-Identifier: Apache-2.0
//! The control, fed with intervals.

use super::intervals::{PACKET_BYTES, calm};
use super::weights::constant;
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};
use weir_core::congestion::pbq::{Pbq, Policy, Profile, Weights};
use weir_core::congestion::{Agent, By, CONTROLS, CongestionControl, Decision, Interval, RttSamples, Seen, Setup};

const PACKET: u64 = PACKET_BYTES as u64;

fn setup(explore_seed: Option<u64>) -> Setup {
    Setup { connection: 3, packet_bytes: PACKET_BYTES, initial_window_bytes: 10 * PACKET_BYTES, explore_seed }
}

fn paper(explore_seed: Option<u64>) -> Pbq {
    let weights = Weights::read(super::weights::PAPER, Profile::Paper).unwrap();
    Pbq::new(std::rc::Rc::new(weights), &setup(explore_seed))
}

fn told(control: &mut Pbq, interval: &Interval) -> Decision {
    control.on_interval(interval);
    let decision = control.take_decision().unwrap();
    assert_eq!(control.take_decision(), None, "given once");
    decision
}

fn told_rtt(control: &mut Pbq, ms: u64) {
    let (now, rtt) = (std::time::Instant::now(), Duration::from_millis(ms));
    control.on_rtt_samples(&RttSamples {
        now,
        count: 1,
        latest: rtt,
        mean: rtt,
        least_of_these: rtt,
        least: rtt,
        there: None,
    });
}

/// A policy that always wants to grow, from the initial window on.
fn grower(members: serde_json::Value) -> Pbq {
    let mut all = json!({"start": "initial-window", "growth": "always", "guard": null, "ranges": {}});
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Pbq::new(constant(1.0, all), &setup(None))
}

#[test]
fn equation_4_between_two_packets_and_20000() {
    let mut control = grower(json!({"action_bound": 1}));
    assert_eq!(control.window_bytes(), Some(10 * PACKET_BYTES), "before the first decision");
    let mut windows = Vec::new();
    for _ in 0..13 {
        let interval = calm(control.window_bytes().unwrap() as u64);
        let decision = told(&mut control, &interval);
        assert_eq!((decision.action, decision.by), (1.0, By::Policy));
        assert_eq!(control.window_bytes(), Some(decision.used_bytes as usize));
        windows.push(decision.used_bytes / PACKET);
    }
    assert_eq!(windows[..3], [20, 40, 80]);
    assert_eq!(windows[10..], [20_000, 20_000, 20_000]);
    let mut bounded = grower(json!({"window_packets": [5, 15]}));
    assert_eq!(told(&mut bounded, &calm(13_500)).used_bytes, 14 * PACKET);
    assert_eq!(told(&mut bounded, &calm(13_500)).used_bytes, 15 * PACKET);
    let mut shrinks = Pbq::new(constant(-1.0, json!({"start": "initial-window", "guard": null})), &setup(None));
    let windows: Vec<_> = (0..8).map(|_| told(&mut shrinks, &calm(13_500)).used_bytes / PACKET).collect();
    // Halved each second time: the bound is 0.5. Whole packets of 10, 7.07, 5, 3.54, 2.5.
    assert_eq!(windows, [7, 5, 3, 2, 2, 2, 2, 2]);
}

#[test]
fn the_window_is_kept_as_a_real_number() {
    // 10 packets, and a tenth of a packet more each time.
    let mut control = grower(json!({"action_bound": (1.01f64).log2()}));
    let windows: Vec<_> = (0..10).map(|_| told(&mut control, &calm(13_500)).used_bytes / PACKET).collect();
    assert_eq!(windows, [10, 10, 10, 10, 10, 10, 10, 10, 10, 11]);
}

#[test]
fn without_a_round_trip_time_nothing_is_decided() {
    let mut control = paper(None);
    control.on_interval(&Interval { rtt: None, ..calm(13_500) });
    assert_eq!((control.take_decision(), control.window_bytes()), (None, Some(10 * PACKET_BYTES)));
    assert_eq!(told(&mut control, &calm(13_500)).seen.n, 0);
    // A stall: nothing delivered, no samples. The last ones count.
    let stall = Interval { rtt: None, acked_bytes: 0, length: Duration::from_secs(7), ..calm(13_500) };
    let decision = told(&mut control, &stall);
    assert!(decision.by == By::Policy && decision.seen.state.iter().all(|x| x.is_finite()), "{decision:?}");
}

#[test]
fn after_startup_the_policy_goes_on_from_the_window_in_force() {
    let mut control = grower(json!({"start": "after-startup"}));
    let startup = Interval { startup_over: false, ..calm(50 * PACKET) };
    let decision = told(&mut control, &startup);
    assert_eq!((decision.by, decision.used_bytes, control.window_bytes()), (By::Startup, 50 * PACKET, None));
    assert!(decision.action > 0.0, "what it would have done is told");
    let decision = told(&mut control, &calm(60 * PACKET));
    // 60 packets times the root of 2.
    assert_eq!((decision.by, decision.used_bytes), (By::Policy, 84 * PACKET));
    // Startup does not come back, but it does on another path.
    assert_eq!(told(&mut control, &startup).by, By::Policy);
    control.on_path_change();
    assert_eq!((control.window_bytes(), told(&mut control, &startup).by), (None, By::Startup));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let limited = Interval { most_in_flight_bytes: 6 * PACKET, ..calm(13 * PACKET) };
    for growth in ["when-used", "when-filled"] {
        let mut control = grower(json!({"growth": growth}));
        let decision = told(&mut control, &limited);
        assert_eq!((decision.action, decision.drawn, decision.used_bytes), (0.0, 1.0, 10 * PACKET), "{growth}");
        assert!(told(&mut control, &calm(13 * PACKET)).action > 0.0, "{growth}");
    }
    for growth in ["always", "unless-dry"] {
        assert_eq!(told(&mut grower(json!({"growth": growth})), &limited).action, 0.5, "{growth}");
    }
}

#[test]
fn a_window_does_not_shrink_because_the_application_ran_out_of_data() {
    let shrinker = |growth: &str| {
        let members = json!({"start": "initial-window", "guard": null, "growth": growth});
        Pbq::new(constant(-1.0, members), &setup(None))
    };
    let dry = Interval { in_flight_bytes: 4 * PACKET, ..calm(13 * PACKET) };
    for growth in ["when-used", "unless-dry"] {
        let mut control = shrinker(growth);
        let decision = told(&mut control, &dry);
        assert_eq!((decision.action, decision.drawn, decision.used_bytes), (0.0, -1.0, 10 * PACKET), "{growth}");
        // Losses are congestion all the same.
        assert!(told(&mut control, &Interval { lost_bytes: PACKET, ..dry }).action < 0.0, "{growth}");
        assert!(told(&mut control, &calm(13 * PACKET)).action < 0.0, "{growth}");
    }
    for growth in ["always", "when-filled"] {
        assert_eq!(told(&mut shrinker(growth), &dry).action, -0.5, "{growth}");
    }
}

#[test]
fn the_guard_hands_the_window_to_bbr_and_takes_it_back() {
    let guard = json!({"guard": {"after": 2, "back_after": 2}, "ranges": {"rate_bytes_s": [1e5, 1e6]}});
    let mut control = grower(guard);
    let slow = Interval { acked_bytes: 500, ..calm(30 * PACKET) };
    assert_eq!(told(&mut control, &calm(10 * PACKET)).by, By::Policy);
    let first = told(&mut control, &slow);
    assert_eq!((first.by, first.seen.outside), (By::Policy, Some("rate_bytes_s")));
    let second = told(&mut control, &slow);
    assert_eq!((second.by, control.window_bytes()), (By::Outside("rate_bytes_s"), None));
    let back = told(&mut control, &calm(30 * PACKET));
    assert_eq!((back.by, back.seen.outside, back.used_bytes), (By::Outside("rate_bytes_s"), None, 30 * PACKET));
    let again = told(&mut control, &calm(30 * PACKET));
    assert_eq!((again.by, again.used_bytes), (By::Policy, 42 * PACKET));
    assert_eq!(again.by.text(), "policy");
}

#[test]
fn not_far_outside_the_policy_goes_on_and_the_decisions_are_counted() {
    // 50 ms, and a factor of 4 is allowed.
    for (ranges, by) in
        [([0.199, 0.3], "policy"), ([0.001, 0.0126], "policy"), ([0.001, 0.0124], "outside rtt_least_s")]
    {
        let guard = json!({"guard": {"after": 1, "back_after": 1}, "ranges": {"rtt_least_s": ranges}});
        let decision = told(&mut grower(guard), &calm(10 * PACKET));
        assert_eq!((decision.by.text().as_str(), decision.seen.outside), (by, Some("rtt_least_s")));
    }
}

#[test]
fn a_path_that_is_outside_from_the_start_is_bbrs() {
    let ranges = json!({"rtt_least_s": [0.25, 0.3]});
    let guard = json!({"start": "after-startup", "guard": {"after": 20, "back_after": 20}, "ranges": ranges});
    let mut control = grower(guard);
    // In startup nothing is counted in the guard's rows.
    for _ in 0..30 {
        let startup = Interval { startup_over: false, ..calm(10 * PACKET) };
        assert_eq!(told(&mut control, &startup).by, By::Startup);
    }
    assert_eq!((told(&mut control, &calm(10 * PACKET)).by, control.window_bytes()), (By::Outside("rtt_least_s"), None));
}

#[test]
fn the_fairness_step_adds_to_what_the_policy_says() {
    let fairness = json!({"action_bound": 0.25, "fairness": {"most": 0.1, "window_packets": 10}});
    let mut control = Pbq::new(
        constant(0.0, {
            let mut all = json!({"start": "initial-window", "guard": null, "growth": "when-used"});
            all.as_object_mut().unwrap().extend(fairness.as_object().unwrap().clone());
            all
        }),
        &setup(None),
    );
    // At 10 packets the root of a half.
    let near = |a: f64, b: f64| (a - b).abs() < 1e-7;
    let decision = told(&mut control, &calm(10 * PACKET));
    assert!(near(decision.action, 0.1 / 2f64.sqrt()) && decision.drawn == 0.0, "{decision:?}");
    // A window that is not used does not grow by it either.
    let unused = Interval { most_in_flight_bytes: PACKET, ..calm(10 * PACKET) };
    assert_eq!(told(&mut control, &unused).action, 0.0);
    // Where the policy wants the most there is no more, and a small window can always shrink.
    let most = grower(fairness.clone());
    let mut most = most;
    assert_eq!(told(&mut most, &calm(10 * PACKET)).action, 0.25);
    let mut all = json!({"start": "initial-window", "guard": null});
    all.as_object_mut().unwrap().extend(fairness.as_object().unwrap().clone());
    let mut least = Pbq::new(constant(-1.0, all), &setup(None));
    for _ in 0..20 {
        assert!(told(&mut least, &calm(10 * PACKET)).action < -0.1);
    }
    assert_eq!(least.window_bytes(), Some(2 * PACKET_BYTES));
}

#[test]
fn a_stall_of_three_probe_timeouts_leaves_the_least_window() {
    let mut control = grower(json!({}));
    told_rtt(&mut control, 50);
    assert_eq!(told(&mut control, &calm(10 * PACKET)).by, By::Policy);
    let silence = Interval { rtt: None, acked_bytes: 0, ..calm(14 * PACKET) };
    // 3 * (3 * 50 + 25) ms.
    let by = [(); 7].map(|()| told(&mut control, &silence).by);
    let (on, off) = (By::Stalled, By::Policy);
    assert_eq!(by, [off, off, off, off, off, on, on]);
    assert_eq!((on.text().as_str(), on.is_below(), control.window_bytes()), ("stalled", false, Some(2 * PACKET_BYTES)));
    // It grows again from there when something comes back.
    let back = told(&mut control, &calm(2 * PACKET));
    assert_eq!((back.by, back.used_bytes), (By::Policy, 2 * PACKET));
    assert!(back.window_bytes > 2.8 * PACKET as f64, "{back:?}");
    // Losses alone are no sign of life, and the paper has no such rule.
    let mut paper = paper(None);
    told_rtt(&mut paper, 50);
    let lost = Interval { lost_bytes: 5000, ..silence };
    told(&mut paper, &calm(10 * PACKET));
    assert!((0..20).all(|_| told(&mut paper, &lost).by == By::Policy));
}

#[test]
fn heavy_loss_halves_the_window_and_keeps_it_down_for_a_while() {
    let heavy = Interval { lost_bytes: 50 * PACKET, acked_bytes: 70 * PACKET, ..calm(40 * PACKET) };
    let mut control = grower(json!({}));
    let rows: Vec<_> = (0..11).map(|_| told(&mut control, &heavy)).collect();
    let by: Vec<_> = rows.iter().map(|row| row.by).collect();
    let mut expected = vec![By::Policy; 11];
    expected[9] = By::HeavyLoss;
    assert_eq!((by, By::HeavyLoss.is_below()), (expected, false));
    assert!((rows[9].window_bytes / rows[8].window_bytes - 0.5).abs() < 1e-9);
    // The policy would have 1.4 times as much.
    assert!(rows[10].window_bytes < 1.1 * rows[9].window_bytes, "{rows:?}");
    // The last interval of loss halves it once more.
    let later = (0..40).map(|_| told(&mut control, &calm(400 * PACKET)).window_bytes).last();
    assert!(later.unwrap() > rows[8].window_bytes, "{later:?}");
    let mut paper = paper(None);
    assert!((0..30).all(|_| told(&mut paper, &heavy).by == By::Policy));
}

#[test]
fn far_outside_a_range_below_zero_is_farther_below() {
    // Nothing is in flight beyond what left: the surplus is below 0.
    let low = Interval { most_in_flight_bytes: PACKET, ..calm(10 * PACKET) };
    let surplus = {
        let mut control = grower(json!({"ranges": {"surplus_share": [-100.0, 0.5]}}));
        assert_eq!(told(&mut control, &low).seen.outside, None);
        let weights = json!({"ranges": {"surplus_share": [-0.001, 0.5]}, "guard": {"after": 1, "back_after": 1}});
        told(&mut grower(weights), &low).by
    };
    assert_eq!(surplus, By::Outside("surplus_share"));
    // Four times as far out is near.
    let near = json!({"ranges": {"surplus_share": [-2.0, 0.5]}, "guard": {"after": 1, "back_after": 1}});
    assert_eq!(told(&mut grower(near), &low).by, By::Policy);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_harms_nothing() {
    let mut control = paper(None);
    let mut now = std::time::Instant::now();
    for length_ms in [100, 0, 0, 100, 86_400_000] {
        // The driver gives a length of 0 where the end is before the beginning.
        now -= Duration::from_millis(length_ms % 1000);
        let decision = told(&mut control, &Interval { now, length: Duration::from_millis(length_ms), ..calm(13_500) });
        assert!(decision.by == By::Policy && decision.seen.state.iter().all(|x| x.is_finite()), "{decision:?}");
    }
}

#[test]
fn noise_is_by_seed_and_told() {
    let run = |seed| {
        let mut control = paper(seed);
        (0..50).map(|_| told(&mut control, &calm(13_500))).collect::<Vec<_>>()
    };
    let actions = |seed| run(seed).iter().map(|d| d.action.to_bits()).collect::<Vec<_>>();
    assert_eq!(actions(Some(5)), actions(Some(5)));
    assert_ne!(actions(Some(5)), actions(Some(6)));
    assert!(run(None).iter().all(|d| d.noise == 0.0 && d.drawn == d.mean));
    let deviation = (-0.5f64).exp();
    for d in run(Some(5)) {
        assert!((d.drawn - d.mean - deviation * d.noise).abs() < 1e-12);
        assert_eq!(d.action, d.drawn.clamp(-1.0, 1.0));
        let density = -0.5 * d.noise * d.noise - deviation.ln() - 0.5 * std::f64::consts::TAU.ln();
        assert!((d.log_probability - density).abs() < 1e-12);
    }
}

/// Says one after the other; nothing is wanted after that.
struct Script(Vec<Option<f64>>);

impl Agent for Script {
    fn act(&mut self, seen: &Seen, _: Instant) -> Option<f64> {
        assert_eq!(seen.state.len(), 15);
        self.0.pop().expect("not asked again once it gave no number")
    }
}

/// A control with an agent that says this. Its network would always give 0.9.
fn asked(answers: &[Option<f64>]) -> Pbq {
    let weights = constant(0.9, json!({"start": "initial-window", "guard": null}));
    let agent: Option<Box<dyn Agent>> = Some(Box::new(Script(answers.iter().rev().copied().collect())));
    Pbq::new(Policy { weights, agent }, &setup(None))
}

#[test]
fn an_agent_may_answer_later() {
    let mut control = asked(&[None, None, Some(-1.0), Some(0.25)]);
    let (interval, now) = (calm(13_500), Instant::now());
    control.on_interval(&interval);
    for _ in 0..2 {
        assert!(control.is_undecided());
        assert_eq!((control.take_decision(), control.window_bytes()), (None, Some(10 * PACKET_BYTES)));
        control.on_wait(now);
    }
    let decision = control.take_decision().unwrap();
    assert_eq!((decision.seen.n, decision.action, decision.by), (0, -0.5, By::Policy));
    assert_eq!((decision.seen.interval, decision.used_bytes), (interval, 7 * PACKET));
    assert!(!control.is_undecided());
    // Nothing is asked a second time.
    control.on_wait(now);
    assert_eq!(control.take_decision(), None);
    assert_eq!(told(&mut control, &interval).action, 0.125);
}

#[test]
fn an_answer_for_a_path_that_was_left_changes_nothing() {
    let mut control = asked(&[Some(1.0), None, Some(1.0), Some(-1.0)]);
    let window = 13_500;
    assert_eq!(told(&mut control, &calm(window)).used_bytes, 14 * PACKET);
    control.on_interval(&calm(window));
    control.on_path_change();
    assert_eq!((control.is_undecided(), control.window_bytes()), (true, Some(10 * PACKET_BYTES)));
    control.on_wait(Instant::now());
    let decision = control.take_decision().unwrap();
    assert_eq!((decision.seen.n, decision.action, decision.by), (1, 0.0, By::PathChanged));
    assert_eq!((decision.by.text().as_str(), decision.by.is_below()), ("path-changed", false));
    assert_eq!((decision.used_bytes, control.window_bytes()), (10 * PACKET, Some(10 * PACKET_BYTES)));
    // The next one is of the new path.
    let next = told(&mut control, &calm(window));
    assert_eq!((next.seen.n, next.action, next.by), (2, -0.5, By::Policy));
}

#[test]
fn an_agent_takes_the_networks_place_until_it_gives_no_number() {
    let mut control = asked(&[Some(-0.5), Some(7.0), Some(f64::NAN)]);
    let window = 13_500;
    let actions = [(); 4].map(|()| told(&mut control, &calm(window)));
    assert_eq!(actions.each_ref().map(|d| d.by), [By::Policy, By::Policy, By::NotFinite, By::NotFinite]);
    assert_eq!((actions[0].action, actions[1].action), (-0.25, 0.5));
    assert_eq!((actions[2].used_bytes, control.window_bytes()), (window, None));
    control.on_path_change();
    assert_eq!((control.window_bytes(), told(&mut control, &calm(window)).by), (None, By::NotFinite));
}

#[test]
fn an_interval_lasts_as_many_round_trips_as_the_weights_say() {
    let mut control = grower(json!({"interval_least_rtts": 1.5}));
    assert_eq!(control.interval(), Some(Duration::from_millis(100)));
    told_rtt(&mut control, 200);
    assert_eq!(control.interval(), Some(Duration::from_millis(300)));
}

#[test]
fn pacing_is_bbrs_or_the_windows_or_there_is_none() {
    assert_eq!(grower(json!({})).pacing_rate_bytes_s(), None);
    assert_eq!(grower(json!({"pacing": "none"})).pacing_rate_bytes_s(), Some(u64::MAX));
    // Ours: the window over a round trip, and a quarter more.
    let mut control = grower(json!({"pacing": "window"}));
    assert_eq!(control.pacing_rate_bytes_s(), None, "before the first round trip");
    told_rtt(&mut control, 100);
    assert_eq!(control.pacing_rate_bytes_s(), Some(168_750));
    told_rtt(&mut control, 180);
    assert_eq!(control.pacing_rate_bytes_s(), Some(153_409), "110 ms");
    let waits = grower(json!({"pacing": "none", "start": "after-startup"}));
    assert_eq!(waits.pacing_rate_bytes_s(), None, "BBR has the window, and paces");
}

#[test]
fn without_weights_everything_is_left_to_bbr() {
    let kinds: Vec<_> = CONTROLS.iter().filter(|kind| kind.profile.is_some()).collect();
    assert_eq!(kinds.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["pbq", "pbq-paper"]);
    for kind in kinds {
        let mut control = (kind.make)(&setup(None), None);
        assert_eq!((control.window_bytes(), control.interval()), (None, None));
        control.on_interval(&calm(13_500));
        assert_eq!(control.take_decision(), None);
    }
}

proptest! {
    // For any interval: a window of whole packets within its bounds, and a decision that can be written down.
    #[test]
    fn any_intervals(
        numbers in prop::collection::vec((any::<[u32; 5]>(), 0u64..20_000_000_000, 0u32..5_000_000, any::<bool>()), 1..40),
        seed in any::<Option<u64>>(),
    ) {
        let mut control = paper(seed);
        for ([acked, lost, in_flight, window, rate], nanos, rtt_us, has_rtt) in numbers {
            let now = std::time::Instant::now();
            let rtt = Duration::from_micros(rtt_us.into());
            let samples = RttSamples { now, count: 1, latest: rtt, mean: rtt, least_of_these: rtt, least: rtt, there: None };
            control.on_interval(&Interval {
                length: Duration::from_nanos(nanos),
                acked_bytes: acked.into(),
                lost_bytes: lost.into(),
                most_in_flight_bytes: in_flight.into(),
                window_bytes: window.into(),
                pacing_rate_bytes_s: Some(rate.into()),
                rtt: has_rtt.then_some(samples),
                ..calm(0)
            });
            let packets = control.window_bytes().unwrap() / PACKET_BYTES;
            prop_assert_eq!(packets * PACKET_BYTES, control.window_bytes().unwrap());
            prop_assert!((2..=20_000).contains(&packets));
            if let Some(d) = control.take_decision() {
                prop_assert!(d.seen.state.iter().all(|x| x.abs() <= 5.0));
                prop_assert!(d.action.abs() <= 1.0 && d.log_probability.is_finite() && d.by == By::Policy, "{d:?}");
            }
        }
    }
}

#[test]
fn the_queue_is_emptied_to_see_the_least_rtt() {
    let probe = json!({"rtt_probe": {"after_s": 0.25, "intervals": 2, "share": 0.5}});
    let mut control = grower(probe);
    let mut told = |least_ms: u64, window_packets: u64| {
        let calm = calm(window_packets * PACKET);
        let rtt = calm.rtt.map(|rtt| RttSamples { least_of_these: Duration::from_millis(least_ms), ..rtt });
        let decision = told(&mut control, &Interval { rtt, ..calm });
        (decision.by, decision.used_bytes / PACKET, decision.action)
    };
    let (by, before, _) = told(50, 10);
    assert_eq!(by, By::Policy);
    let rows: Vec<_> = (0..7).map(|_| told(51, before)).collect();
    let names: Vec<_> = rows.iter().map(|(by, ..)| *by).collect();
    let (policy, probe) = (By::Policy, By::RttProbe);
    assert_eq!(names, [policy, policy, probe, probe, probe, probe, policy], "{rows:?}");
    assert!(rows[2].1 < rows[1].1 && rows[2].1 == rows[3].1 && rows[2].2 == 0.0, "{rows:?}");
    // The window is what it was at once; the policy goes on when the reports are of that window.
    assert!(rows[4].1 == rows[1].1 && rows[5].1 == rows[1].1 && rows[6].1 >= rows[1].1, "{rows:?}");
}

#[test]
fn a_path_that_became_longer_is_found_out_by_leaving() {
    let mut control =
        grower(json!({"rtt_probe": {"after_s": 8, "intervals": 1, "share": 0.5}, "memory_intervals": 100}));
    let mut told = |rtt_ms: u64, acked: u64| {
        let calm = calm(10 * PACKET);
        let rtt = Duration::from_millis(rtt_ms);
        let rtt = calm.rtt.map(|told| RttSamples { least_of_these: rtt, mean: rtt, latest: rtt, ..told });
        told(&mut control, &Interval { rtt, acked_bytes: acked, ..calm }).seen.rtt_least_s
    };
    assert!((0..10).all(|_| told(40, 100_000) == 0.04));
    // A third of the rate, and every round trip takes 60 ms, whatever the window is.
    let known: Vec<_> = (0..30).map(|_| told(60, 30_000)).collect();
    let (before, after) = known.split_at(known.iter().position(|least| *least != 0.04).expect("never found out"));
    assert!(before.len() < 25 && after.iter().all(|least| *least == 0.06), "{known:?}");
    assert_eq!(told(45, 30_000), 0.045);
}

#[test]
fn a_probe_that_makes_no_sense_is_refused() {
    for (probe, said) in [
        (json!({"after_s": 0, "intervals": 2, "share": 0.5}), "rtt_probe.after_s: 0"),
        (json!({"after_s": 5, "intervals": 0, "share": 0.5}), "rtt_probe.intervals: 0"),
        (json!({"after_s": 5, "intervals": 2, "share": 1.5}), "rtt_probe.share: 1.5"),
        (json!({"after_s": 5, "intervals": 2}), "missing field `share`"),
    ] {
        let error = super::weights::refused(json!({"rtt_probe": probe}));
        assert!(error.contains(said), "{error}");
    }
}
