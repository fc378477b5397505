// SPDX-License-Identifier: Apache-2.0
//! Settings in which strategies are judged, and one run through them.
//!
//! One round is one task. The RTT of each path is drawn once per round, the same for every strategy of a seed, and a
//! probe in a round sees the round's RTT. A probe costs no time and is counted. Regret is the sum of TCT minus the
//! expected TCT of the path that was best in that round.

use std::time::{Duration, Instant};

use weir_core::choice::regret::Regret;
use weir_core::choice::{ChoiceConfig, Chooser, PathId, StrategyKind, TaskSample};

/// True timing of one path in one round, in ms.
#[derive(Clone, Copy)]
pub struct Truth {
    mean: f64,
    sd: f64,
    /// Probability that a packet is lost.
    loss: f64,
    /// Task time beyond round trips.
    extra: f64,
    /// Time per kB of a task: the inverse of the path's rate.
    ms_per_kb: f64,
    /// The round trip beyond its least time is lognormal, not normal.
    heavy: bool,
    up: bool,
}

impl Truth {
    /// One round trip, from a standard normal number. A lognormal one is at least half of the mean.
    fn rtt(&self, z: f64) -> f64 {
        if !self.heavy {
            return (self.mean + self.sd * z).max(0.1 * self.mean);
        }
        let least = 0.5 * self.mean;
        let variance = (1.0 + (self.sd / (self.mean - least)).powi(2)).ln();
        least + (self.mean - least) * (variance.sqrt() * z - variance / 2.0).exp()
    }

    fn new(mean: f64, sd: f64) -> Self {
        Truth { mean, sd, loss: 0.0, extra: 0.5, ms_per_kb: 0.0, heavy: false, up: true }
    }
}

/// A setting: the true timing of each path in each round.
pub struct World {
    pub name: String,
    pub truth: Vec<Vec<Truth>>,
    /// Round trips per task.
    k: f64,
    /// Server's think time per task in ms, the same for all paths: exponential with this mean.
    think_ms: f64,
    /// Time that a move adds to its task, in ms.
    move_ms: f64,
    /// Whether standby paths can be probed.
    probes: bool,
    /// RTT of a probe against that of a task's packets.
    probe_factor: f64,
    /// Sizes of the tasks, in turn, in bytes.
    sizes: Vec<u64>,
    /// Tasks of more than a flight take the round trips of slow start.
    slow_start: bool,
}

/// Packets of a task that can be lost (5 kB and its request).
const PACKETS: i32 = 6;

impl World {
    fn new(name: &str, rounds: usize, paths: &[Truth], change: impl Fn(usize, &mut Vec<Truth>)) -> Self {
        let truth = (0..rounds)
            .map(|round| {
                let mut now = paths.to_vec();
                change(round, &mut now);
                now
            })
            .collect();
        World {
            name: name.into(),
            truth,
            k: 1.0,
            think_ms: 0.0,
            move_ms: 0.0,
            probes: true,
            probe_factor: 1.0,
            sizes: vec![5000],
            slow_start: false,
        }
    }

    fn bytes(&self, round: usize) -> u64 {
        self.sizes[round * 7 % self.sizes.len()]
    }

    /// Round trips of a task.
    fn rounds(&self, bytes: u64) -> f64 {
        self.k + if self.slow_start { (bytes as f64 / 12_000.0).max(1.0).log2().floor() } else { 0.0 }
    }

    fn loss_of_task(t: &Truth) -> f64 {
        1.0 - (1.0 - t.loss).powi(PACKETS)
    }

    /// Half of the losses cost a round trip (found by later packets), half a PTO of three.
    fn expected(&self, t: &Truth, bytes: u64) -> f64 {
        self.rounds(bytes) * t.mean
            + t.extra
            + t.ms_per_kb * bytes as f64 / 1e3
            + self.think_ms
            + Self::loss_of_task(t) * 2.0 * t.mean
    }
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

pub struct Outcome {
    pub mean: f64,
    pub var: f64,
    pub best_rate: f64,
    pub regret: f64,
    pub eq22: f64,
    pub switches: f64,
    pub probes: f64,
}

fn ms(x: f64) -> Duration {
    Duration::from_secs_f64(x.max(1e-3) / 1e3)
}

pub fn run(world: &World, strategy: StrategyKind, memory: usize, seed: u64) -> Outcome {
    let mut draw = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9).wrapping_add(7));
    let paths: Vec<PathId> = (0..world.truth[0].len() as u32).map(PathId).collect();
    // Of the strategies only the oracle reads it.
    let plan = (0..world.truth.len()).map(|round| (round as u64, best_of(world, round).1[0])).collect();
    let config = ChoiceConfig { strategy, plan, memory_tasks: memory, seed, ..ChoiceConfig::default() };
    let start = Instant::now();
    let mut chooser = Chooser::new(config);
    paths.iter().for_each(|p| chooser.add(*p, start));
    let mut current = paths[draw.usize(..paths.len())];
    let mut usable = vec![true; paths.len()];
    let (mut regret, mut switches, mut probes) = (Regret::default(), 0, 0);

    for round in 0..world.truth.len() {
        let now = start + Duration::from_millis(200 * round as u64);
        let truth = &world.truth[round];
        // RTT, two numbers for the fate of a task and one for a probe's; drawn whether used or not.
        let drawn: Vec<(f64, f64, f64, f64)> =
            truth.iter().map(|t| (t.rtt(normal(&mut draw)), draw.f64(), draw.f64(), draw.f64())).collect();
        let think = -world.think_ms * (1.0 - draw.f64()).ln();
        for (i, t) in truth.iter().enumerate() {
            if t.up && !usable[i] {
                usable[i] = true;
                chooser.set_usable(paths[i], true, now);
            }
        }
        // When the connection is up all paths are validated before the first task.
        if round == 0 && world.probes {
            for p in &paths {
                chooser.probed(*p, ms(world.probe_factor * drawn[p.0 as usize].0), now);
            }
        }
        let bytes = world.bytes(round);
        let choice = chooser.choose(round as u64, Some(bytes), now, Some(current)).expect("a usable path");
        let mut path = choice.path;
        let mut switched = path != current;
        let tct_on = |p: PathId| {
            let (t, d) = (&truth[p.0 as usize], &drawn[p.0 as usize]);
            let lost = if d.1 < World::loss_of_task(t) { if d.2 < 0.5 { t.mean } else { 3.0 * t.mean } } else { 0.0 };
            world.rounds(bytes) * d.0 + t.extra + t.ms_per_kb * bytes as f64 / 1e3 + think + lost
        };
        let mut tct = 0.0;
        let mut stalled = false;
        if !truth[path.0 as usize].up {
            // The path is silent: three PTO, then the best other one that is up takes over.
            tct += 9.0 * truth[path.0 as usize].mean;
            chooser.failed(path, now);
            chooser.set_usable(path, false, now);
            usable[path.0 as usize] = false;
            path = best_of(world, round).1[0];
            switched = true;
            stalled = true;
        }
        tct += tct_on(path) + if switched { world.move_ms } else { 0.0 };
        let after = now + ms(tct);
        if !stalled {
            let sample = TaskSample { path, task: round as u64, tct: ms(tct), bytes, switched, cold: false };
            chooser.finished(&sample, after);
        }
        switches += usize::from(switched);
        current = path;
        let (best_mean, best) = best_of(world, round);
        regret.record(path, tct, best_mean, &best);
        while let Some((_, p)) = chooser.next_probe() {
            chooser.probing(p, after);
            // After a stall the strategy does not know yet where the connection went; the path in use isn't probed.
            if !world.probes || p == current {
                continue;
            }
            probes += 1;
            let (t, d) = (&truth[p.0 as usize], &drawn[p.0 as usize]);
            if t.up && d.3 >= 1.0 - (1.0 - t.loss).powi(2) {
                chooser.probed(p, ms(world.probe_factor * d.0), after);
            }
        }
    }
    let (mean, var) = regret.tct();
    Outcome {
        mean,
        var,
        best_rate: regret.best_path_rate(),
        regret: regret.plain_ms(),
        eq22: regret.eq22(0.8),
        switches: switches as f64,
        probes: probes as f64,
    }
}

/// The least expected TCT of a round and the paths that have it.
fn best_of(world: &World, round: usize) -> (f64, Vec<PathId>) {
    let expected: Vec<f64> = world.truth[round]
        .iter()
        .map(|t| if t.up { world.expected(t, world.bytes(round)) } else { f64::INFINITY })
        .collect();
    let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
    let best = (0..expected.len()).filter(|i| expected[*i] <= least * 1.000_001).map(|i| PathId(i as u32)).collect();
    (least, best)
}

pub fn worlds() -> Vec<World> {
    let table5 =
        [Truth::new(7.120, 0.446), Truth::new(6.707, 0.636), Truth::new(41.004, 6.458), Truth::new(37.568, 16.756)];
    let lossy = |mean, loss| Truth { loss, ..Truth::new(mean, 0.02 * mean) };
    let table6 = [lossy(50.0, 0.0366), lossy(30.0, 0.0279), lossy(30.0, 0.0406)];
    let change6 = |round: usize, now: &mut Vec<Truth>| {
        // Tan Fig. 15 gives no numbers. As the lab's scenario has it: the best path is 2, then 3, then 2.
        if (100..600).contains(&round) {
            now[1].mean = 70.0;
            now[2].mean = 40.0;
        }
        if round >= 600 {
            now[2].mean = 90.0;
        }
    };
    let pair = [Truth::new(30.0, 1.0), Truth::new(30.0, 1.0)];
    let fig13 = |until: usize| {
        move |round: usize, now: &mut Vec<Truth>| {
            if [20, 100, 200].contains(&round) {
                now[0].mean += 120.0;
            }
            if (300..until).contains(&round) {
                now[0].mean += 30.0;
            }
        }
    };
    let handover = |round: usize, now: &mut Vec<Truth>| now[0].up = !(200..600).contains(&round);
    let steady = |_: usize, _: &mut Vec<Truth>| {};
    // As on a radio network: Wi-Fi loses packets for two seconds (ten tasks), now and then.
    let walk_out = [Truth::new(33.0, 6.0), Truth::new(65.0, 8.0), Truth::new(90.0, 10.0)];
    let fade = |round: usize, now: &mut Vec<Truth>| {
        if round % 200 >= 100 && round % 200 < 110 {
            now[0].loss = 0.15;
        }
    };
    let heavy = |mean, sd| Truth { heavy: true, ..Truth::new(mean, sd) };
    let rated = |mean, ms_per_kb| Truth { ms_per_kb, ..Truth::new(mean, 0.05 * mean) };
    let mixed: Vec<u64> = [5, 20, 5, 100, 5, 50, 1000, 5, 20, 300].map(|kb| kb * 1000).to_vec();
    let mut walk = fastrand::Rng::with_seed(11);
    let mut means = [30.0, 35.0, 40.0];
    let walked: Vec<[f64; 3]> = (0..1000)
        .map(|_| {
            means.iter_mut().for_each(|m| *m = (*m + 0.5 * normal(&mut walk)).clamp(10.0, 90.0));
            means
        })
        .collect();
    vec![
        World::new("table 5", 1000, &table5, steady),
        World { k: 2.0, ..World::new("table 5, 2 RTT a task", 1000, &table5, steady) },
        World { move_ms: 5.0, ..World::new("table 5, 5 ms a move", 1000, &table5, steady) },
        World { think_ms: 20.0, ..World::new("table 5, the server thinks 20 ms", 1000, &table5, steady) },
        World { probes: false, ..World::new("table 5, no probes", 1000, &table5, steady) },
        World::new("fig 13, change lasts", 600, &pair, fig13(600)),
        World::new("fig 13, change 300-500", 600, &pair, fig13(500)),
        World::new("fig 13, no noise", 600, &[Truth::new(30.0, 0.0); 2], fig13(500)),
        World::new("table 6", 1000, &table6, change6),
        World { probes: false, ..World::new("table 6, no probes", 1000, &table6, change6) },
        World { k: 2.0, ..World::new("table 6, 2 RTT a task", 1000, &table6, change6) },
        World::new("handover", 1000, &[Truth::new(15.0, 2.0), Truth::new(45.0, 6.0)], handover),
        World::new("random walk", 1000, &[Truth::new(30.0, 2.0); 3], |round, now| {
            now.iter_mut().zip(walked[round]).for_each(|(t, m)| t.mean = m);
        }),
        World::new("fades of two seconds", 1000, &walk_out, fade),
        World::new("heavy tails", 1000, &[heavy(30.0, 15.0), heavy(34.0, 6.0), heavy(45.0, 40.0)], steady),
        World {
            sizes: mixed.clone(),
            think_ms: 20.0,
            ..World::new("mixed sizes, the server thinks 20 ms", 1000, &[rated(10.0, 0.01), rated(45.0, 0.01)], steady)
        },
        World {
            sizes: mixed.clone(),
            slow_start: true,
            ..World::new("mixed sizes, slow start", 1000, &[rated(10.0, 1.6), rated(45.0, 0.1)], steady)
        },
        World {
            sizes: mixed,
            ..World::new(
                "mixed sizes, near and slow or far and fast",
                1000,
                &[rated(10.0, 1.6), rated(45.0, 0.1)],
                steady,
            )
        },
        World::new("two equal paths", 1000, &[Truth::new(30.0, 3.0); 2], steady),
        World::new("standby gets better", 1000, &[Truth::new(30.0, 3.0), Truth::new(60.0, 6.0)], |round, now| {
            if round >= 400 {
                now[1].mean = 15.0;
            }
        }),
        World::new("standby's rate gets better", 1000, &[Truth::new(30.0, 3.0); 2], |round, now| {
            now[0].extra = 20.0;
            now[1].extra = if round < 400 { 60.0 } else { 5.0 };
        }),
    ]
}

/// Random means, deviations, losses and changes; nothing was tuned to them.
pub fn random_world(seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed_0bad);
    let log_uniform = |r: &mut fastrand::Rng, low: f64, high: f64| low * (high / low).powf(r.f64());
    let lossy = random.f64() < 0.3;
    let walking = random.f64() < 0.3;
    let paths: Vec<Truth> = (0..random.usize(2..6))
        .map(|_| {
            let mean = log_uniform(&mut random, 5.0, 150.0);
            let loss = if lossy { 0.05 * random.f64() } else { 0.0 };
            let sd = mean * log_uniform(&mut random, 0.01, 0.4);
            Truth { loss, extra: 0.2 * mean * random.f64(), ..Truth::new(mean, sd) }
        })
        .collect();
    let mut now = paths.clone();
    let change = random.f64() * 0.006;
    let truth = (0..1000)
        .map(|_| {
            for t in &mut now {
                if random.f64() < change / paths.len() as f64 {
                    let mean = log_uniform(&mut random, 5.0, 150.0);
                    t.sd *= mean / t.mean;
                    t.mean = mean;
                }
                if walking {
                    t.mean = (t.mean * (1.0 + 0.02 * normal(&mut random))).clamp(3.0, 300.0);
                }
            }
            now.clone()
        })
        .collect();
    let k = f64::from(random.u32(1..3));
    let think_ms = if random.f64() < 0.7 { 0.0 } else { 30.0 * random.f64() };
    let move_ms = if random.bool() { 0.0 } else { 5.0 * random.f64() };
    let sizes = vec![5000];
    World {
        name: "random".into(),
        truth,
        k,
        think_ms,
        move_ms,
        probes: true,
        probe_factor: 1.0,
        sizes,
        slow_start: false,
    }
}

/// A random world with outages of every path but one, four to eight further steps of a mean, and probes that take half
/// to twice what a task's packets do: nothing of `weir` was tuned on these.
pub fn rough_world(seed: u64) -> World {
    let mut world = random_world(seed ^ 0x0a1b_2c3d);
    let mut random = fastrand::Rng::with_seed(seed ^ 0x7007_50b5);
    let rounds = world.truth.len();
    let paths = world.truth[0].len();
    for path in 1..paths {
        for _ in 0..random.usize(0..4) {
            let from = random.usize(1..rounds);
            let until = (from + random.usize(5..150)).min(rounds);
            world.truth[from..until].iter_mut().for_each(|now| now[path].up = false);
        }
    }
    for _ in 0..random.usize(4..9) {
        let (path, from) = (random.usize(..paths), random.usize(1..rounds));
        let by = 0.4 * 6.25f64.powf(random.f64());
        for now in &mut world.truth[from..] {
            now[path].mean *= by;
            now[path].sd *= by;
        }
    }
    world.probe_factor = 0.5 * 4f64.powf(random.f64());
    world.name = "rough".into();
    world
}
