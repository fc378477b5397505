// SPDX-License-Identifier: Apache-2.0
//! Judges the strategies of `weir_core::choice` in the settings of Tan et al. and in random ones.
//!
//! `cargo run --release --example choice_sim [SEEDS [WORLDS]]` (default: 50 seeds, 400 random worlds).

mod worlds;

use weir_core::choice::StrategyKind;
use worlds::{Outcome, World, random_world, rough_world, run, worlds};

fn mean_ci(of: &[f64]) -> (f64, f64) {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let var = of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, 1.96 * (var / n).sqrt())
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |what: &str, default: u64| match args.next() {
        None => default,
        Some(text) => match text.parse() {
            Ok(n) if n > 0 => n,
            _ => {
                eprintln!("choice_sim: {what}: {text:?} is not a positive number");
                std::process::exit(2);
            }
        },
    };
    let seeds = number("SEEDS", 50);
    let random_worlds = number("WORLDS", 400);
    let kind = |name| StrategyKind::named(name).expect("a name in the table");
    let lineup: Vec<(StrategyKind, &[usize])> = [
        ("oracle", &[100][..]),
        ("weir", &[50, 100, 400]),
        ("ops", &[50, 100, 400]),
        ("pps", &[50, 100, 400]),
        ("epsilon-greedy", &[100]),
        ("best-single", &[100]),
        ("polling", &[100]),
    ]
    .map(|(name, memories)| (kind(name), memories))
    .to_vec();
    for world in worlds() {
        println!("\n{}, {} rounds, {seeds} seeds", world.name, world.truth.len());
        println!(
            "{:15} {:>4} {:>9} {:>9} {:>6} {:>18} {:>12} {:>8} {:>7}",
            "strategy", "S", "TCT ms", "var ms2", "best", "regret ms (95 %)", "Eq. 22", "moves", "probes"
        );
        for (strategy, memories) in &lineup {
            for memory in *memories {
                let of: Vec<Outcome> = (0..seeds).map(|seed| run(&world, *strategy, *memory, seed)).collect();
                let mean = |f: fn(&Outcome) -> f64| mean_ci(&of.iter().map(f).collect::<Vec<_>>());
                let (regret, ci) = mean(|o| o.regret);
                println!(
                    "{:15} {memory:4} {:9.3} {:9.2} {:6.3} {regret:9.0} +- {ci:5.0} {:12.0} {:8.1} {:7.1}",
                    strategy.name,
                    mean(|o| o.mean).0,
                    mean(|o| o.var).0,
                    mean(|o| o.best_rate).0,
                    mean(|o| o.eq22).0,
                    mean(|o| o.switches).0,
                    mean(|o| o.probes).0,
                );
            }
        }
    }
    type Make = fn(u64) -> World;
    let families: [(&str, Make); 2] =
        [("random", random_world), ("rough (outages, changes, probes unlike tasks)", rough_world)];
    for (name, make) in families {
        let mut sums = vec![0.0; lineup.len()];
        let mut wins = vec![0; lineup.len()];
        let mut probes = 0.0;
        for seed in 0..random_worlds {
            let world = make(seed);
            let of: Vec<Outcome> = lineup.iter().map(|(strategy, _)| run(&world, *strategy, 100, seed)).collect();
            probes += of[1].probes;
            for (i, outcome) in of.iter().enumerate() {
                sums[i] += outcome.regret;
                wins[i] += usize::from(of[1].regret < outcome.regret);
            }
        }
        println!(
            "\n{random_worlds} worlds, {name}, 1000 rounds each, S 100; weir sent {:.1} probes in each",
            probes / random_worlds as f64
        );
        println!("{:15} {:>14} {:>20}", "strategy", "mean regret ms", "weir has less in");
        for (i, (strategy, _)) in lineup.iter().enumerate() {
            let n = random_worlds as f64;
            println!("{:15} {:14.0} {:19.1}%", strategy.name, sums[i] / n, 100.0 * wins[i] as f64 / n);
        }
    }
}
