// SPDX-License-Identifier: Apache-2.0
//! Configuration of a [`Chooser`](super::Chooser).

use super::models::Model;
use super::path_id::PathId;
use super::strategy::Strategy;
use std::fmt;
use std::sync::Arc;

/// A strategy by its name: one row of [`STRATEGIES`](super::STRATEGIES).
#[derive(Clone, Copy)]
pub struct StrategyKind {
    /// Name on the command line.
    pub name: &'static str,
    /// Summary in one line for `--help`.
    pub help: &'static str,
    /// Makes one. The numbers of the configuration are in their ranges.
    pub make: fn(&ChoiceConfig) -> Box<dyn Strategy>,
    /// True if a running download or upload may move between two choices. The strategy must price a move.
    pub moves_running: bool,
}

impl PartialEq for StrategyKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Function that makes a strategy.
type Make = dyn Fn(&ChoiceConfig) -> Box<dyn Strategy> + Send + Sync;

/// Maker of a strategy that needs more than the configuration, such as a closure's state.
#[derive(Clone)]
pub struct StrategyMaker(Arc<Make>);

impl StrategyMaker {
    /// Of a closure, which is called once for each connection.
    pub fn new(make: impl Fn(&ChoiceConfig) -> Box<dyn Strategy> + Send + Sync + 'static) -> StrategyMaker {
        StrategyMaker(Arc::new(make))
    }
}

impl PartialEq for StrategyMaker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for StrategyMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StrategyMaker")
    }
}

/// C of Tan Eq. 19 and 20.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExploreC {
    /// Tan Eq. 21.
    Adaptive,
    /// This number, in the unit of the index.
    Fixed(f64),
}

/// Configuration of a [`Chooser`](super::Chooser). Defaults: the first strategy in the table, and the settings of the
/// paper's evaluation: lognormal, S = 100, a = 0.8.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceConfig {
    /// Strategy that chooses the path.
    pub strategy: StrategyKind,
    /// Makes the strategy in place of `strategy.make`. Running transfers stay on their path.
    pub maker: Option<StrategyMaker>,
    /// Model of the completion times; OPS and PPS use it.
    pub model: Model,
    /// S: how many of the latest tasks are remembered, over all paths. At least one.
    pub memory_tasks: usize,
    /// Weight `a` of the mean in Tan Eq. 18, 0 to 1; the variance has `b = 1 - a`.
    pub weight_a: f64,
    /// Weight of uncertainty in OPS and PPS.
    pub explore_c: ExploreC,
    /// Share of the tasks that epsilon-greedy explores with, 0 to 1.
    pub epsilon: f64,
    /// The oracle's plan, in the order of tasks: from this task on, this path.
    pub plan: Vec<(u64, PathId)>,
    /// Learn from TCT per byte (Tan Eq. 4; in ms per 1000 bytes) instead of TCT.
    pub per_byte: bool,
    /// Seed of the random choices.
    pub seed: u64,
}

impl ChoiceConfig {
    /// The strategy that this configures.
    pub(super) fn make(&self) -> Box<dyn Strategy> {
        self.maker.as_ref().map_or_else(|| (self.strategy.make)(self), |maker| (maker.0)(self))
    }

    /// Whether running transfers may move between two choices.
    pub fn moves_running(&self) -> bool {
        self.maker.is_none() && self.strategy.moves_running
    }

    /// The same with numbers out of their range brought into it; NaN becomes the default.
    pub(super) fn in_range(mut self) -> Self {
        let share = |x: f64, default: f64| if x.is_nan() { default } else { x.clamp(0.0, 1.0) };
        self.weight_a = share(self.weight_a, 0.8);
        self.epsilon = share(self.epsilon, 0.05);
        if let ExploreC::Fixed(c) = &mut self.explore_c {
            *c = if c.is_nan() { 0.0 } else { c.clamp(0.0, 1e9) };
        }
        self.memory_tasks = self.memory_tasks.max(1);
        self
    }
}
