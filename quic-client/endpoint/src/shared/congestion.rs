// SPDX-License-Identifier: Apache-2.0
//! The congestion control of all connections of a program, with its weights.

use super::agent::FileAgent;
use super::fault::{Fault, IO, USAGE};
use super::json::to_json;
use super::options::{ClockReads, CommonOptions};
use super::trajectories::Trajectory;
use serde::Serialize;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use weir_core::congestion::pbq::{MOST_BYTES, Policy, Weights, WeightsError, built_in};
use weir_core::congestion::{Agent, By, CONTROLS, CongestionControl, ControlKind, Decision, Setup};
use weir_core::report::samples::{Side, Timebase};
use weir_core::report::trajectory;

/// A row of the table of congestion controls, for other programs.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    help: &'static str,
    /// A trained policy decides: `--cc-weights` is for it.
    learned: bool,
}

/// All congestion controls, the default first: a line for each, or a JSON array of objects with `name`, `help` and
/// `learned`.
///
/// # Errors
/// None that can occur: names and texts have a form in JSON.
pub fn congestion_controls(json: bool) -> Result<String, Fault> {
    let rows = CONTROLS.iter().map(|kind| Listed { name: kind.name, help: kind.help, learned: kind.profile.is_some() });
    if json {
        return to_json(&rows.collect::<Vec<_>>()).map(|text| text + "\n");
    }
    Ok(rows.map(|row| format!("{:<18}{}\n", row.name, row.help)).collect())
}

/// Factory of a connection's congestion control.
pub struct Congestion {
    kind: ControlKind,
    weights: Option<Rc<Weights>>,
    /// But for the connection's number.
    setup: Setup,
    trajectories: Option<PathBuf>,
    agent: Option<PathBuf>,
    /// Time limit of an agent's answer; `None`: no limit.
    agent_patience: Option<Duration>,
    side: Side,
    /// A connection left its policy because a number was not finite.
    failed: Cell<bool>,
}

impl Congestion {
    /// As the options say. Reads the weights.
    ///
    /// # Errors
    /// Weights that can't be read, don't fit, or are for a control that uses none; an option for a policy where there is
    /// none; a folder that there is not.
    pub fn new(options: &CommonOptions, side: Side) -> Result<Congestion, Fault> {
        let weights = weights(options)?;
        let of_a_policy = [
            ("--cc-explore", options.cc_explore.is_some()),
            ("--cc-agent", options.cc_agent.is_some()),
            ("--cc-trajectories", options.cc_trajectories.is_some()),
        ];
        if let Some((option, _)) = of_a_policy.iter().find(|(_, given)| *given && weights.is_none()) {
            let has = if options.cc.profile.is_some() { "--cc-weights none" } else { options.cc.name };
            let text = format!("{option}: {has} has no policy, expected --cc pbq or pbq-paper, and weights");
            return Err(Fault::new(USAGE, text));
        }
        for (option, dir) in [("trajectories", &options.cc_trajectories), ("agent", &options.cc_agent)] {
            if let Some(dir) = dir.as_deref().filter(|dir| !dir.is_dir()) {
                let text = format!("--cc-{option} {}: expected a folder that exists", dir.display());
                return Err(Fault::new(IO, text));
            }
        }
        let packet_bytes = usize::from(options.max_payload);
        let setup = Setup {
            connection: 0,
            packet_bytes,
            initial_window_bytes: options.initial_window_packets as usize * packet_bytes,
            explore_seed: options.cc_explore,
        };
        let (trajectories, agent) = (options.cc_trajectories.clone(), options.cc_agent.clone());
        // Less than the peer's patience. Where each reading of the clock takes time, as in the exact lab, waiting must not
        // read it.
        let agent_patience =
            (options.clock == ClockReads::Call).then(|| Duration::from_millis(options.idle_timeout_ms) / 2);
        let (kind, failed) = (options.cc, Cell::new(false));
        Ok(Congestion { kind, weights, setup, trajectories, agent, agent_patience, side, failed })
    }

    /// Notice to the user before anything runs.
    pub fn note(&self) -> Option<String> {
        let lacks = self.kind.profile.is_some() && self.weights.is_none();
        lacks.then(|| format!("--cc {}: no weights: connections run plain BBR (bbr2_gcongestion)", self.kind))
    }

    fn setup(&self, connection: u64) -> Setup {
        Setup { connection, ..self.setup }
    }

    /// One for the connection of this number. The first of the program may have an agent.
    pub fn control(&self, connection: u64, first: bool, timebase: &Timebase) -> Box<dyn CongestionControl> {
        let policy = self.weights.clone().map(|weights| {
            let dir = self.agent.clone().filter(|_| first);
            let agent =
                dir.map(|dir| -> Box<dyn Agent> { Box::new(FileAgent::new(dir, *timebase, self.agent_patience)) });
            Policy { weights, agent }
        });
        (self.kind.make)(&self.setup(connection), policy)
    }

    /// The trajectory file of the connection of this number, with its first line; `None` if none is wanted.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn trajectory(&self, connection: u64) -> Result<Option<Trajectory>, Fault> {
        let (Some(dir), Some(weights)) = (&self.trajectories, &self.weights) else { return Ok(None) };
        let name = match self.side {
            Side::Server => format!("trajectory-server-conn-{connection}.jsonl"),
            Side::Client => format!("trajectory-client-flow-{connection}.jsonl"),
        };
        let head = trajectory::head(weights, &self.setup(connection), self.side).map_err(Fault::internal("JSON"))?;
        Trajectory::create(&dir.join(name), &head).map(Some)
    }

    /// Notice to the user about this decision: the first time that a connection leaves its policy for good.
    pub fn remark(&self, decision: &Decision) -> Option<&'static str> {
        let first = decision.by == By::NotFinite && !self.failed.replace(true);
        first.then_some(match self.agent {
            Some(_) => "--cc-agent: no decision any more: the connection runs plain BBR",
            None => {
                "--cc-weights: the policy gave no finite number: the connection, and any other that this happens to, \
                     runs plain BBR"
            }
        })
    }
}

/// Value of `--cc-weights` for plain BBR instead of a file.
const NONE: &str = "none";

fn weights(options: &CommonOptions) -> Result<Option<Rc<Weights>>, Fault> {
    let refused = |what: String| move |e: WeightsError| Fault::new(USAGE, format!("{what}: {e}"));
    let weights = match (&options.cc_weights, options.cc.profile) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let text = format!("--cc-weights: --cc {} uses no weights, expected pbq or pbq-paper", options.cc);
            return Err(Fault::new(USAGE, text));
        }
        (Some(path), Some(_)) if path.as_os_str() == NONE => return Ok(None),
        (Some(path), Some(profile)) => {
            let what = format!("--cc-weights {}", path.display());
            let bytes = read(path).map_err(Fault::io(&what))?;
            Weights::read(&bytes, profile).map_err(refused(what))?
        }
        (None, Some(profile)) => {
            built_in(profile).map_err(refused(format!("--cc {}: the weights of this program", options.cc)))?
        }
    };
    Ok(Some(Rc::new(weights)))
}

// One byte more than can be used is enough to refuse it.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
