// SPDX-License-Identifier: Apache-2.0
use std::time::{Duration, Instant};

use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

use super::*;
use std::collections::BTreeMap;

const A: PathId = PathId(0);
const B: PathId = PathId(1);
const C: PathId = PathId(2);

fn ms(x: f64) -> Duration {
    Duration::from_secs_f64(x / 1e3)
}

fn config(strategy: &str) -> ChoiceConfig {
    ChoiceConfig { strategy: StrategyKind::named(strategy).unwrap(), seed: 7, ..ChoiceConfig::default() }
}

fn chooser(config: ChoiceConfig, paths: &[PathId], now: Instant) -> Chooser {
    let mut c = Chooser::new(config);
    paths.iter().for_each(|p| c.add(*p, now));
    c
}

/// Runs tasks whose TCT (ms) is a function of the task and the path; gives the paths taken.
fn run(c: &mut Chooser, tasks: std::ops::Range<u64>, now: Instant, tct: impl Fn(u64, PathId) -> f64) -> Vec<PathId> {
    let mut current = Some(A);
    tasks
        .map(|task| {
            let path = c.choose(task, None, now, current).expect("a usable path").path;
            let switched = current != Some(path);
            c.finished(&TaskSample { path, task, tct: ms(tct(task, path)), bytes: 5000, switched, cold: false }, now);
            current = Some(path);
            path
        })
        .collect()
}

#[test]
fn polling_goes_round() {
    let now = Instant::now();
    let mut c = chooser(config("polling"), &[A, B, C], now);
    assert_eq!(run(&mut c, 0..4, now, |_, _| 1.0), [A, B, C, A]);
    c.set_usable(B, false, now);
    assert_eq!(run(&mut c, 4..6, now, |_, _| 1.0), [C, A]);
}

#[test]
fn best_single_measures_once_and_stays() {
    let now = Instant::now();
    let mut c = chooser(config("best-single"), &[A, B], now);
    let taken = run(&mut c, 0..10, now, |task, path| if path == A { 10.0 + task as f64 * 100.0 } else { 20.0 });
    assert_eq!(taken, [A, B, A, A, A, A, A, A, A, A]);
}

#[test]
fn oracle_keeps_to_its_plan() {
    let now = Instant::now();
    let mut c = chooser(ChoiceConfig { plan: vec![(0, B), (2, A)], ..config("oracle") }, &[A, B], now);
    assert_eq!(run(&mut c, 0..4, now, |_, _| 1.0), [B, B, A, A]);
    c.set_usable(A, false, now);
    assert_eq!(c.choose(4, None, now, Some(B)).map(|c| (c.path, c.reason)), Some((B, "plan-unusable")));
    // The same interface with another address.
    c.remove(A);
    c.add(C, now);
    c.renumbered(A, C);
    assert_eq!(c.choose(5, None, now, Some(B)).map(|c| (c.path, c.reason)), Some((C, "plan")));
}

#[test]
fn epsilon_greedy_explores_as_often_as_told() {
    let now = Instant::now();
    let mut c = chooser(ChoiceConfig { epsilon: 0.05, ..config("epsilon-greedy") }, &[A, B, C], now);
    let taken = run(&mut c, 0..10_000, now, |_, path| 10.0 + f64::from(path.0));
    let explored = taken.iter().filter(|p| **p != A).count();
    assert!((400..600).contains(&explored), "{explored} of 10000");
    let mut never = chooser(ChoiceConfig { epsilon: 0.0, ..config("epsilon-greedy") }, &[A, B], now);
    assert_eq!(run(&mut never, 0..9, now, |_, path| f64::from(path.0) + 1.0).iter().filter(|p| **p == B).count(), 1);
}

#[test]
fn ops_and_pps_index_by_hand() {
    // Gaussian, so that the numbers are plain: A 10, 12; B 30. a = 0.5: r_A = 5.5 + 1, r_B = 15; C = (5 + 15) / 2 when
    // each had one sample; T = 3.
    for (strategy, sign) in [("ops", -1.0), ("pps", 1.0)] {
        let now = Instant::now();
        let config = ChoiceConfig { model: Model::Gaussian, weight_a: 0.5, seed: 1, ..config(strategy) };
        let mut c = Chooser::new(config);
        c.add(A, now);
        c.add(B, now);
        let sample = |path, tct| TaskSample { path, task: 0, tct: ms(tct), bytes: 1, switched: false, cold: false };
        c.finished(&sample(A, 10.0), now);
        c.finished(&sample(B, 30.0), now);
        assert_eq!(c.choose(2, None, now, Some(A)).map(|c| (c.path, c.reason)), Some((A, "lowest-index")));
        c.finished(&sample(A, 12.0), now);
        let index = c.choose(3, None, now, Some(A)).expect("usable").index_ms;
        let bonus = |n: f64| 10.0 * (2.0 * 3f64.ln() / n).sqrt();
        assert!((index[0].1 - (6.5 + sign * bonus(2.0))).abs() < 1e-9, "{index:?}");
        assert!((index[1].1 - (15.0 + sign * bonus(1.0))).abs() < 1e-9, "{index:?}");
    }
}

#[test]
fn the_window_makes_pps_try_again_but_its_malus_keeps_it_where_it_is() {
    // B becomes the better one at task 50. A try of it leaves one sample with a malus of C sqrt(2 ln 20) = 49 on top.
    for (explore_c, moves) in [(ExploreC::Adaptive, false), (ExploreC::Fixed(0.0), true)] {
        let now = Instant::now();
        let config = ChoiceConfig { memory_tasks: 20, explore_c, ..config("pps") };
        let mut c = Chooser::new(config);
        c.add(A, now);
        c.add(B, now);
        let taken = run(&mut c, 0..100, now, |task, path| match (path, task < 50) {
            (A, _) => 10.0,
            (_, true) => 40.0,
            (_, false) => 5.0,
        });
        assert_eq!(taken[0..50].iter().filter(|p| **p == B).count(), 3);
        assert_eq!(taken[75..].iter().filter(|p| **p == B).count() > 20, moves, "{taken:?}");
    }
}

#[test]
fn per_byte_compares_tasks_of_mixed_sizes() {
    let now = Instant::now();
    for strategy in ["ops", "pps"] {
        let mut c = Chooser::new(ChoiceConfig { per_byte: true, ..config(strategy) });
        c.add(A, now);
        c.add(B, now);
        // A carried 1 MB in 100 ms, B 10 kB in 20 ms.
        let sample = |path, tct, bytes| TaskSample { path, task: 0, tct: ms(tct), bytes, switched: false, cold: false };
        c.finished(&sample(A, 100.0, 1_000_000), now);
        c.finished(&sample(B, 20.0, 10_000), now);
        let standings = c.standings();
        assert!(
            (standings[0].mean_ms.unwrap() - 0.1).abs() < 1e-9 && (standings[1].mean_ms.unwrap() - 2.0).abs() < 1e-9
        );
        assert_eq!(c.choose(2, None, now, None).map(|c| c.path), Some(A));
    }
}

#[test]
fn a_failed_path_is_left_out_until_it_recovers_or_time_is_over() {
    let start = Instant::now();
    for strategy in ["weir", "ops", "best-single", "epsilon-greedy"] {
        let mut c = chooser(ChoiceConfig { epsilon: 0.0, ..config(strategy) }, &[A, B], start);
        run(&mut c, 0..20, start, |_, path| if path == A { 10.0 } else { 100.0 });
        let at = |c: &mut Chooser, now| c.choose(20, None, now, Some(B)).map(|c| c.path);
        c.failed(A, start);
        assert_eq!(at(&mut c, start), Some(B));
        assert!(c.standings()[0].held);
        assert_eq!(at(&mut c, start + Duration::from_millis(999)), Some(B));
        // A second failure in a row: two seconds. An answer to a probe ends it.
        c.failed(A, start);
        assert_eq!(at(&mut c, start + Duration::from_millis(1999)), Some(B));
        c.probed(A, ms(10.0), start);
        assert!(!c.standings()[0].held);
        c.failed(A, start);
        c.failed(B, start + Duration::from_millis(1));
        assert_eq!(c.choose(21, None, start + Duration::from_millis(2), Some(B)).unwrap().reason, "all-failed");
        assert_eq!(at(&mut c, start + Duration::from_millis(2)), Some(A));
        c.set_usable(A, false, start);
        c.set_usable(B, false, start);
        assert_eq!(at(&mut c, start), None);
    }
}

#[test]
fn weir_takes_the_path_whose_probe_was_fastest_and_tries_no_hopeless_one() {
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B, C], now);
    for (path, rtt) in [(A, 40.0), (B, 7.0), (C, 45.0)] {
        c.probed(path, ms(rtt), now);
    }
    let taken = run(&mut c, 0..300, now, |_, path| if path == B { 7.5 } else { 42.0 });
    assert!(taken.iter().all(|p| *p == B), "{taken:?}");
}

#[test]
fn weir_tries_a_path_that_may_be_better_by_its_rate() {
    // Equal RTT; a task takes 100 ms more on A than its round trip, on B only 20.
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B], now);
    c.probed(A, ms(30.0), now);
    c.probed(B, ms(30.5), now);
    let taken = run(&mut c, 0..50, now, |_, path| if path == A { 130.0 } else { 50.0 });
    assert!(taken[10..].iter().all(|p| *p == B), "{taken:?}");
}

#[test]
fn weir_leaves_a_path_that_got_slower_soon_and_forgives_a_spike() {
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B], now);
    c.probed(A, ms(30.0), now);
    c.probed(B, ms(40.0), now);
    let taken = run(&mut c, 0..100, now, |task, path| match (path, task) {
        (A, 50) => 70.0,
        (A, 70..) => 90.0,
        (A, _) => 31.0,
        _ => 41.0,
    });
    assert!(taken[..70].iter().filter(|p| **p == B).count() <= 2, "{taken:?}");
    assert!(taken[73..].iter().all(|p| *p == B), "{taken:?}");
}

#[test]
fn weir_returns_to_a_path_after_a_fade() {
    // Two seconds in which half of the tasks lose packets. Probes are answered as before.
    let now = Instant::now();
    for from in [40, 41, 90, 200] {
        let mut c = chooser(config("weir"), &[A, B], now);
        let usual = |task: u64, path| (if path == A { 30.0 } else { 45.0 }) + (task * 7 % 5) as f64;
        let (mut current, mut taken) = (A, Vec::new());
        for task in 0..400 {
            c.probed(A, ms(usual(task, A) - 1.0), now);
            c.probed(B, ms(usual(task + 1, B) - 1.0), now);
            let path = c.choose(task, None, now, Some(current)).unwrap().path;
            let lost = path == A && (from..from + 10).contains(&task) && task % 4 < 2;
            let (tct, switched) = (ms(usual(task, path) + if lost { 70.0 } else { 0.0 }), path != current);
            c.finished(&TaskSample { path, task, tct, bytes: 5000, switched, cold: false }, now);
            current = path;
            taken.push(path);
        }
        let away = taken[from as usize + 10..].iter().filter(|p| **p == B).count();
        assert!(away <= 12, "{from}: {away} of the tasks after the fade");
    }
}

#[test]
fn weir_takes_a_path_for_each_size() {
    // A is near and slow, B far and fast.
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B], now);
    let (mut current, mut wrong) = (A, 0);
    for task in 0..200u64 {
        c.probed(A, ms(10.0), now);
        c.probed(B, ms(45.0), now);
        let bytes = [5_000, 1_000_000, 20_000, 5_000, 300_000][task as usize % 5];
        let path = c.choose(task, Some(bytes), now, Some(current)).unwrap().path;
        let tct = ms(if path == A { 10.0 + 1.6e-3 * bytes as f64 } else { 45.0 + 1e-4 * bytes as f64 });
        c.finished(&TaskSample { path, task, tct, bytes, switched: path != current, cold: false }, now);
        current = path;
        wrong += usize::from(task > 20 && path != if bytes < 25_000 { A } else { B });
    }
    assert!(wrong <= 20, "{wrong} of 179");
}

#[test]
fn weir_asks_for_probes_within_its_budget() {
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B, C], now);
    assert_eq!(c.next_probe().map(|(_, p)| p), Some(A));
    let mut asked = 0;
    for task in 0..1000 {
        while let Some((at, path)) = c.next_probe() {
            assert!(at <= now);
            asked += 1;
            c.probing(path, now);
            // An answer as uneasy as can be.
            c.probed(path, ms(if asked % 3 == 0 { 300.0 } else { 20.0 }), now);
        }
        run(&mut c, task..task + 1, now, |task, _| 30.0 + (task % 7) as f64 * 20.0);
    }
    assert!(asked <= 1000 / 4 + 10, "{asked}");
    let mut other = chooser(config("ops"), &[A, B], now);
    run(&mut other, 0..5, now, |_, _| 5.0);
    assert_eq!(other.next_probe(), None);
}

#[test]
fn weir_learns_what_a_move_costs() {
    // Two paths that take turns being faster by 4 ms, by their probes; each move costs 200 ms.
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B], now);
    let (mut current, mut moves) = (A, 0);
    for task in 0..300u64 {
        let (a, b) = if task / 10 % 2 == 0 { (30.0, 34.0) } else { (34.0, 30.0) };
        c.probed(A, ms(a), now);
        c.probed(B, ms(b), now);
        let path = c.choose(task, None, now, Some(current)).unwrap().path;
        let switched = path != current;
        moves += usize::from(switched);
        current = path;
        let tct = if path == A { a } else { b } + if switched { 200.0 } else { 0.0 };
        c.finished(&TaskSample { path, task, tct: ms(tct), bytes: 5000, switched, cold: false }, now);
    }
    assert!(moves <= 5, "{moves}");
}

/// A path of a round-trip time and a rate: time of a download of so many bytes, slow start included, in ms.
fn transfer_ms(rtt_ms: f64, mbit_s: f64, bytes: u64) -> f64 {
    let rounds = (bytes as f64 / 12_000.0 + 1.0).log2().min((mbit_s * 1e3 * rtt_ms / 8.0 / 12_000.0 + 1.0).log2());
    rtt_ms * rounds.max(1.0) + bytes as f64 * 8.0 / (mbit_s * 1e3)
}

#[test]
fn one_large_task_outweighs_what_probes_say_of_a_path() {
    // As in the lab's handover: Wi-Fi 20 ms and 50 Mbit/s, away at first; cell 50 ms and 20 Mbit/s; 10 MB a task.
    let now = Instant::now();
    let mut c = chooser(config("weir"), &[A, B], now);
    c.probed(A, ms(20.0), now);
    c.probed(B, ms(50.0), now);
    let tct = |path: PathId| if path == A { transfer_ms(20.0, 50.0, MB10) } else { transfer_ms(50.0, 20.0, MB10) };
    let finish = |c: &mut Chooser, task, path, switched| {
        c.finished(&TaskSample { path, task, tct: ms(tct(path)), bytes: MB10, switched, cold: false }, now);
    };
    assert_eq!(c.choose(0, Some(MB10), now, Some(A)).unwrap().path, A);
    // It moved to the other path, which so has no sample.
    c.failed(A, now);
    c.set_usable(A, false, now);
    assert_eq!(c.choose(1, Some(MB10), now, Some(B)).unwrap().path, B);
    finish(&mut c, 1, B, false);
    let of = |c: &Chooser, path| c.standings().iter().find(|s| s.path == path).unwrap().mean_ms.unwrap();
    assert!((of(&c, B) / tct(B) - 1.0).abs() < 0.05, "{} of {}", of(&c, B), tct(B));
    c.set_usable(A, true, now);
    c.probed(A, ms(20.0), now);
    assert_eq!(c.choose(2, Some(MB10), now, Some(B)).unwrap().path, A);
    finish(&mut c, 2, A, true);
    for task in 3..60 {
        assert_eq!(c.choose(task, Some(MB10), now, Some(A)).unwrap().path, A, "task {task}: {:?}", c.standings());
        finish(&mut c, task, A, false);
    }
    assert!((of(&c, A) / tct(A) - 1.0).abs() < 0.1, "{} of {}", of(&c, A), tct(A));
}

const MB10: u64 = 10_000_000;

#[test]
fn the_order_of_rates_counts_for_large_tasks_and_that_of_round_trips_for_small_ones() {
    // A answers sooner, B is faster.
    let paths =
        |path: PathId, bytes| if path == A { transfer_ms(15.0, 8.0, bytes) } else { transfer_ms(60.0, 80.0, bytes) };
    let now = Instant::now();
    for (bytes, best) in [(2_000, A), (100_000, A), (1_000_000, B), (MB10, B)] {
        assert_eq!(paths(A, bytes) < paths(B, bytes), best == A, "{bytes} bytes");
        let mut c = chooser(config("weir"), &[A, B], now);
        c.probed(A, ms(15.0), now);
        c.probed(B, ms(60.0), now);
        let (mut current, mut wrong) = (A, 0);
        for task in 0..100 {
            let path = c.choose(task, Some(bytes), now, Some(current)).unwrap().path;
            let switched = path != current;
            current = path;
            wrong += usize::from(path != best);
            c.finished(&TaskSample { path, task, tct: ms(paths(path, bytes)), bytes, switched, cold: false }, now);
        }
        assert!(wrong <= 3, "{bytes} bytes: {wrong} on the slower path");
    }
}

#[test]
fn same_seed_same_choices() {
    let now = Instant::now();
    for strategy in ["weir", "epsilon-greedy"] {
        let taken = |_| {
            let mut c = chooser(ChoiceConfig { epsilon: 0.3, ..config(strategy) }, &[A, B, C], now);
            run(&mut c, 0..200, now, |task, path| ((task * 7 + u64::from(path.0) * 13) % 50) as f64 + 1.0)
        };
        assert_eq!(taken(0), taken(1));
    }
}

#[derive(Debug, Clone)]
enum Call {
    Add(u32),
    Remove(u32),
    Usable(u32, bool),
    Choose(Option<u64>, Option<u32>),
    Finished(u32, Duration, u64, bool, bool),
    Failed(u32),
    Probed(u32, Duration),
    Probe,
}

fn calls() -> impl proptest::strategy::Strategy<Value = Vec<Call>> {
    let path = 0u32..4;
    let any_time = prop_oneof![
        (0u64..200_000).prop_map(Duration::from_micros),
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos)
    ];
    prop::collection::vec(
        prop_oneof![
            path.clone().prop_map(Call::Add),
            path.clone().prop_map(Call::Remove),
            (path.clone(), any::<bool>()).prop_map(|(p, u)| Call::Usable(p, u)),
            (any::<Option<u64>>(), prop::option::of(0u32..5)).prop_map(|(b, c)| Call::Choose(b, c)),
            (path.clone(), any_time.clone(), any::<u64>(), any::<bool>(), any::<bool>())
                .prop_map(|(p, t, b, s, c)| Call::Finished(p, t, b, s, c)),
            path.clone().prop_map(Call::Failed),
            (path, any_time).prop_map(|(p, t)| Call::Probed(p, t)),
            Just(Call::Probe),
        ],
        1..200,
    )
}

proptest! {
    /// In any order of calls with any numbers: the chosen path is there and usable, something is chosen if anything is
    /// usable, numbers stay finite, and asking for probes ends.
    #[test]
    fn sound_for_any_calls(
        calls in calls(),
        which in 0..STRATEGIES.len(),
        gaussian in any::<bool>(),
        per_byte in any::<bool>(),
        memory_tasks in prop_oneof![0usize..5, Just(100)],
        weight_a in any::<f64>(),
        c in any::<f64>(),
        epsilon in any::<f64>(),
    ) {
        let strategy = STRATEGIES[which];
        let plan = vec![(0, A), (3, PathId(9)), (5, B)];
        let model = if gaussian { Model::Gaussian } else { Model::Lognormal };
        let explore_c = if c < 0.0 { ExploreC::Adaptive } else { ExploreC::Fixed(c) };
        let mut chooser =
            Chooser::new(ChoiceConfig {
                strategy, model, memory_tasks, weight_a, explore_c, epsilon, plan, per_byte, seed: 3,
                maker: None,
            });
        let mut now = Instant::now();
        let mut usable = BTreeMap::new();
        for (task, call) in calls.into_iter().enumerate() {
            now += Duration::from_millis(300);
            match call {
                Call::Add(p) => {
                    chooser.add(PathId(p), now);
                    usable.entry(p).or_insert(true);
                }
                Call::Remove(p) => {
                    chooser.remove(PathId(p));
                    usable.remove(&p);
                }
                Call::Usable(p, u) => {
                    chooser.set_usable(PathId(p), u, now);
                    usable.entry(p).and_modify(|x| *x = u);
                }
                Call::Choose(bytes, current) => {
                    let choice = chooser.choose(task as u64, bytes, now, current.map(PathId));
                    prop_assert_eq!(choice.is_some(), usable.values().any(|u| *u));
                    if let Some(choice) = choice {
                        prop_assert_eq!(usable.get(&choice.path.0), Some(&true));
                        prop_assert!(choice.index_ms.iter().all(|(_, i)| i.is_finite()), "{:?}", choice);
                    }
                }
                Call::Finished(p, tct, bytes, switched, cold) => chooser.finished(
                    &TaskSample { path: PathId(p), task: task as u64, tct, bytes, switched, cold }, now),
                Call::Failed(p) => chooser.failed(PathId(p), now),
                Call::Probed(p, rtt) => chooser.probed(PathId(p), rtt, now),
                Call::Probe => {
                    let mut asked = 0;
                    while let Some((_, path)) = chooser.next_probe() {
                        prop_assert_eq!(usable.get(&path.0), Some(&true));
                        chooser.probing(path, now);
                        asked += 1;
                        prop_assert!(asked < 20);
                    }
                }
            }
            for s in chooser.standings() {
                let numbers = [s.mean_ms, s.var_ms2, s.index_ms];
                prop_assert!(numbers.iter().flatten().all(|x| x.is_finite()), "{:?}", s);
            }
        }
    }
}
