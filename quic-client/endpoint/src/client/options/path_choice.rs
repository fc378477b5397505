// SPDX-License-Identifier: Apache-2.0
//! Options of path choice, read and checked.

use crate::shared::fault::{Fault, IO, PATHS};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_core::choice::{AppPreset, ChoiceConfig, ExploreC, Model, PRESETS, PathId, STRATEGIES, StrategyKind, by_name};
use weir_core::paths::Standby;

/// Distribution of completion times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// Lognormal
    Lognormal,
    /// Normal, fitted to the lowest 90 %
    Gaussian,
}

/// When paths are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StandbyName {
    /// As soon as the connection is up: a switch then costs no round trip
    Validated,
    /// When the connection switches to them: each switch costs a round trip
    Cold,
}

/// Options of path choice.
#[derive(Debug, Clone, Args)]
pub struct PathChoiceOptions {
    /// Use this interface, or the interface with this local address, as a path. Repeat it for more paths; auto takes all
    /// interfaces that are up. --strategy chooses a path for each request. A request that starts while others are under
    /// way (--parallel) takes their path
    #[arg(long = "path", value_name = "NAME|ADDR", help_heading = "Paths")]
    pub paths: Vec<String>,
    /// Strategy that chooses a path for each request
    #[arg(long, value_parser = PossibleValuesParser::new(STRATEGIES.iter().map(strategy)),
          default_value = STRATEGIES[0].name, requires = "paths", help_heading = "Paths")]
    strategy: String,
    /// Weights of mean and variance of the completion time for this kind of application (Tan et al., Table 4)
    #[arg(long, value_parser = PossibleValuesParser::new(PRESETS.iter().map(preset)), conflicts_with = "weight_a",
          requires = "paths", help_heading = "Paths")]
    app: Option<String>,
    /// Weight of the mean completion time, from 0 to 1; the variance has the rest
    #[arg(long, default_value_t = 0.8, value_parser = share, value_name = "A", requires = "paths",
          help_heading = "Paths")]
    weight_a: f64,
    /// Distribution of completion times that ops and pps assume
    #[arg(long, value_enum, default_value = "lognormal", requires = "paths", help_heading = "Paths")]
    model: ModelName,
    /// Number of latest requests to learn from, over all paths
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "S",
          requires = "paths", help_heading = "Paths")]
    memory: u32,
    /// Share of requests for which epsilon-greedy takes another path at random
    #[arg(long, default_value_t = 0.05, value_parser = share, value_name = "E", requires = "paths",
          help_heading = "Paths")]
    epsilon: f64,
    /// Exploration constant C of ops and pps: adaptive, or a number in the unit of their index
    #[arg(long, default_value = "adaptive", value_parser = explore_c, value_name = "C", requires = "paths",
          help_heading = "Paths")]
    explore_c: ExploreC,
    /// Learn from completion time per byte instead of completion time (no effect on weir, which weighs sizes)
    #[arg(long, requires = "paths", help_heading = "Paths")]
    per_byte: bool,
    /// Paths for --strategy oracle: JSON lines {"task": N, "path": "NAME"}; from request N on that path is taken
    #[arg(long, value_name = "FILE", requires = "paths", required_if_eq("strategy", "oracle"), help_heading = "Paths")]
    pub oracle_plan: Option<PathBuf>,
    /// When the paths that are not in use are validated
    #[arg(long, value_enum, default_value = "validated", requires = "paths", help_heading = "Paths")]
    standby: StandbyName,
    /// Seed for the random choices: the path a connection starts on, and exploration [default: random]
    #[arg(long, value_name = "N", requires = "paths", help_heading = "Paths")]
    pub seed: Option<u64>,
}

/// A preset as `--help` shows it.
fn preset(p: &AppPreset) -> PossibleValue {
    let jitter = p.jitter_limit.map_or("any".to_owned(), |j| format!("{} ms", j.as_millis()));
    let tct = p.tct_limit.as_millis();
    PossibleValue::new(p.name)
        .help(format!("a {}; tolerates completion times up to {tct} ms, jitter {jitter}", p.weight_a))
}

/// A strategy as `--help` shows it.
fn strategy(kind: &StrategyKind) -> PossibleValue {
    PossibleValue::new(kind.name).help(kind.help)
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (0.0..=1.0).contains(&x) => Ok(x),
        _ => Err(format!("'{text}' is not a share: expected a number from 0 to 1")),
    }
}

fn explore_c(text: &str) -> Result<ExploreC, String> {
    if text == "adaptive" {
        return Ok(ExploreC::Adaptive);
    }
    match text.parse::<f64>() {
        Ok(c) if c.is_finite() && c >= 0.0 => Ok(ExploreC::Fixed(c)),
        _ => Err(format!("'{text}': expected adaptive or a number from 0 on")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanLine {
    task: u64,
    path: String,
}

/// Reads an oracle's plan: lines in the order of tasks, the first one for task 0.
fn plan(file: &Path, text: &str) -> Result<Vec<(u64, String)>, Fault> {
    let fault = |line: usize, why: String| Fault::new(IO, format!("{}, line {line}: {why}", file.display()));
    let mut plan: Vec<(u64, String)> = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let PlanLine { task, path } = serde_json::from_str(line)
            .map_err(|e| fault(i + 1, format!("expected {{\"task\": N, \"path\": \"NAME\"}}: {e}")))?;
        match plan.last() {
            None if task != 0 => return Err(fault(i + 1, format!("starts at task {task}: expected task 0"))),
            Some((last, _)) if task <= *last => {
                return Err(fault(i + 1, format!("task {task} after task {last}: expected ascending numbers")));
            }
            _ => plan.push((task, path)),
        }
    }
    if plan.is_empty() {
        return Err(fault(1, "expected at least one line {\"task\": 0, \"path\": \"NAME\"}".to_owned()));
    }
    Ok(plan)
}

/// The options of path choice, read and checked.
#[derive(Debug, Clone)]
pub struct PathChoice {
    config: ChoiceConfig,
    /// The oracle's plan by names.
    oracle: Option<(PathBuf, Vec<(u64, String)>)>,
    /// When paths are validated.
    pub standby: Standby,
    /// Longest completion time that the application of `--app` tolerates.
    pub tct_limit: Option<Duration>,
}

impl PathChoiceOptions {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// An oracle's plan that can't be read or contradicts itself.
    pub fn plan(&self) -> Result<PathChoice, Fault> {
        let oracle = match &self.oracle_plan {
            Some(file) if self.strategy == "oracle" => {
                let text = std::fs::read_to_string(file).map_err(Fault::io(file.display()))?;
                Some((file.clone(), plan(file, &text)?))
            }
            _ => None,
        };
        let app = self.app.as_deref().and_then(by_name);
        let weight_a = app.map_or(self.weight_a, |p| p.weight_a);
        let config = ChoiceConfig {
            // clap lets no other name through.
            strategy: StrategyKind::named(&self.strategy).unwrap_or(STRATEGIES[0]),
            maker: None,
            model: match self.model {
                ModelName::Lognormal => Model::Lognormal,
                ModelName::Gaussian => Model::Gaussian,
            },
            memory_tasks: self.memory as usize,
            weight_a,
            explore_c: self.explore_c,
            epsilon: self.epsilon,
            plan: Vec::new(),
            per_byte: self.per_byte,
            seed: 0,
        };
        let standby = match self.standby {
            StandbyName::Validated => Standby::Validated,
            StandbyName::Cold => Standby::Cold,
        };
        Ok(PathChoice { config, oracle, standby, tct_limit: app.map(|p| p.tct_limit) })
    }
}

impl PathChoice {
    /// The configuration for a session with these paths.
    ///
    /// # Errors
    /// An oracle's plan that names another path.
    pub fn config(&self, seed: u64, paths: &[(PathId, String)]) -> Result<ChoiceConfig, Fault> {
        let mut config = ChoiceConfig { seed, ..self.config.clone() };
        if let Some((file, plan)) = &self.oracle {
            let by_name = |(task, name): &(u64, String)| {
                let found = paths.iter().find(|(_, n)| n == name).map(|(id, _)| (*task, *id));
                found.ok_or_else(|| {
                    let names: Vec<_> = paths.iter().map(|(_, n)| n.as_str()).collect();
                    let text = format!("{}: no path '{name}'; the paths are {}", file.display(), names.join(", "));
                    Fault::new(PATHS, text)
                })
            };
            config.plan = plan.iter().map(by_name).collect::<Result<_, _>>()?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plans() {
        let read = |text: &str| plan(Path::new("p"), text).map_err(|e| e.text);
        let good = "{\"task\": 0, \"path\": \"a\"}\n\n{\"path\": \"b\", \"task\": 7}\n";
        assert_eq!(read(good).unwrap(), [(0, "a".to_owned()), (7, "b".to_owned())]);
        for (text, why) in [
            ("", "line 1: expected at least one"),
            ("{\"task\": 1, \"path\": \"a\"}", "line 1: starts at task 1"),
            ("{\"task\": 0, \"path\": \"a\"}\n{\"task\": 0, \"path\": \"b\"}", "line 2: task 0 after task 0"),
            ("{\"task\": 0}", "line 1: expected {\"task\": N"),
            ("{\"task\": -1, \"path\": \"a\"}", "line 1"),
            ("{\"task\": 0, \"path\": \"a\", \"x\": 1}", "unknown field"),
        ] {
            let e = read(text).unwrap_err();
            assert!(e.contains(why) && e.lines().count() == 1, "{e}");
        }
    }

    proptest! {
        #[test]
        fn any_plan_is_read_or_refused(text in "\\PC{0,80}", task in any::<u64>()) {
            let _ = plan(Path::new("p"), &text);
            if let Ok(p) = plan(Path::new("p"), &format!("{{\"task\": {task}, \"path\": \"a\"}}")) {
                prop_assert_eq!(p, [(0, "a".to_owned())]);
            }
        }

        #[test]
        fn any_number_as_a_share_or_c(text in "\\PC{0,12}") {
            if let Ok(x) = share(&text) {
                prop_assert!((0.0..=1.0).contains(&x));
            }
            if let Ok(ExploreC::Fixed(c)) = explore_c(&text) {
                prop_assert!(c.is_finite() && c >= 0.0);
            }
        }
    }
}
