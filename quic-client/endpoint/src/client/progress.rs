// SPDX-License-Identifier: Apache-2.0
//! The progress bar on a terminal.

use super::options::Options;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;
use weir_quic::flow::Flow;

/// Unit of the bar's length.
enum Measure {
    /// The time of `--duration-s`.
    Time,
    /// Requests that have ended.
    Tasks,
    /// Payload.
    Bytes,
}

/// The progress of all flows.
pub struct Progress {
    bar: ProgressBar,
    measure: Measure,
    /// Requests of all flows, if a flow has more than one.
    tasks: Option<u64>,
    /// Whether to show the path in use: there is one flow, with paths to choose from.
    path: bool,
}

impl Progress {
    /// A bar on standard error; `None` with `--quiet` or where that is not a terminal.
    pub fn new(options: &Options, flows: u64) -> Option<Progress> {
        if options.quiet || !io::stderr().is_terminal() {
            return None;
        }
        let tasks = (options.requests > 1).then_some(options.requests * flows);
        let (measure, total) = match (options.duration_s, tasks) {
            (Some(d), _) => (Measure::Time, Some(d.as_millis() as u64)),
            (None, Some(n)) => (Measure::Tasks, Some(n)),
            (None, None) => (Measure::Bytes, options.bytes.first().map(|n| n * flows)),
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() { "{bar:30} {percent:>3} %  {msg}" } else { "{spinner} {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Some(Progress { bar, measure, tasks, path: flows == 1 && !options.choice.paths.is_empty() })
    }

    /// Shows how far the flows are, `elapsed` after the start, with so many of them not ended.
    pub fn show<'a>(&self, flows: impl Iterator<Item = &'a Flow> + Clone, live: usize, elapsed: Duration) {
        let bytes: u64 = flows.clone().map(Flow::bytes).sum();
        let mut sessions = flows.filter_map(|f| f.session.as_ref());
        let ended: u64 = sessions.clone().map(|s| s.tally.done + s.tally.failed).sum();
        let rate = bytes as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-9);
        let mut text = format!("{:.1} MB  {rate:.2} Mbit/s  {live} flows left", bytes as f64 * 1e-6);
        if let Some(tasks) = self.tasks {
            text += &format!("  {ended} of {tasks} tasks");
        }
        if let Some(session) = sessions.next().filter(|_| self.path) {
            text += &format!("  on {}", session.active_path());
        }
        self.bar.set_message(text);
        self.bar.set_position(match self.measure {
            Measure::Time => elapsed.as_millis() as u64,
            Measure::Tasks => ended,
            Measure::Bytes => bytes,
        });
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
