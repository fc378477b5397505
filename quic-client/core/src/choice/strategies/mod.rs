// SPDX-License-Identifier: Apache-2.0
//! The strategies, one file each, and the table of their names.
//!
//! To add one: a new file with a type that implements [`Strategy`](super::Strategy), and a row in [`STRATEGIES`]. The
//! client's `--strategy`, the simulation `choice_sim` and the tests that hold for all strategies read the table.

mod best_single;
mod confidence;
mod epsilon_greedy;
mod measured;
mod ops;
mod oracle;
mod polling;
mod pps;
pub mod weir;

use super::config::{ChoiceConfig, ExploreC, StrategyKind};
use super::models::Model;

/// All strategies; the first is the default.
pub const STRATEGIES: &[StrategyKind] = &[
    StrategyKind {
        name: "weir",
        help: "Ours: learns from completion times and probes, includes the cost of a switch, detects changes",
        make: |config| Box::new(weir::Weir::new(config)),
        moves_running: true,
    },
    StrategyKind {
        name: "ops",
        help: "Optimistic path selection (Tan et al.)",
        make: |config| Box::new(ops::optimistic(config)),
        moves_running: false,
    },
    StrategyKind {
        name: "pps",
        help: "Pessimistic path selection (Tan et al.)",
        make: |config| Box::new(pps::pessimistic(config)),
        moves_running: false,
    },
    StrategyKind {
        name: "epsilon-greedy",
        help: "The path with the lowest mean completion time; for a share of the requests (--epsilon) another one",
        make: |config| Box::new(epsilon_greedy::EpsilonGreedy::new(config)),
        moves_running: false,
    },
    StrategyKind {
        name: "polling",
        help: "All paths in turn",
        make: |_| Box::new(polling::Polling::default()),
        moves_running: false,
    },
    StrategyKind {
        name: "best-single",
        help: "Each path once, then always the fastest of them",
        make: |_| Box::new(best_single::BestSingle::default()),
        moves_running: false,
    },
    StrategyKind {
        name: "oracle",
        help: "The path that --oracle-plan names",
        make: |config| Box::new(oracle::Oracle::new(config)),
        moves_running: false,
    },
];

impl StrategyKind {
    /// The strategy of that name.
    pub fn named(name: &str) -> Option<StrategyKind> {
        STRATEGIES.iter().find(|kind| kind.name == name).copied()
    }
}

impl Default for ChoiceConfig {
    fn default() -> Self {
        ChoiceConfig {
            strategy: STRATEGIES[0],
            maker: None,
            model: Model::Lognormal,
            memory_tasks: 100,
            weight_a: 0.8,
            explore_c: ExploreC::Adaptive,
            epsilon: 0.05,
            plan: Vec::new(),
            per_byte: false,
            seed: 0,
        }
    }
}
