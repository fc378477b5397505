// SPDX-License-Identifier: Apache-2.0
//! [`ClientHooks`]: congestion control and path choice as the options say, and the files of events, qlogs and
//! trajectories.

use super::complain;
use super::options::path_choice::PathChoice;
use crate::shared::congestion::Congestion;
use crate::shared::fault::Fault;
use crate::shared::json::event_line;
use crate::shared::qlog::QlogFile;
use crate::shared::trajectories::{Trajectories, Trajectory};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;
use weir_core::choice::{ChoiceConfig, PathId};
use weir_core::client::aggregate::Aggregate;
use weir_core::congestion::{CongestionControl, Decision};
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_io::lines::LineWriter;
use weir_quic::flow::Hooks;

/// The event loop's and the hooks' common files.
pub struct Files {
    /// `--events`.
    pub events: Option<LineWriter>,
    /// All qlog files, to be checked at the end.
    pub qlogs: Vec<QlogFile>,
    /// `--cc-trajectories`.
    pub trajectories: Trajectories,
}

/// The program's part of its flows.
pub struct ClientHooks {
    /// Factory of congestion controls.
    pub congestion: Congestion,
    /// The options of path choice.
    pub choice: PathChoice,
    /// Instants as microseconds.
    pub timebase: Timebase,
    /// `--qlog-dir`.
    pub qlog_dir: Option<PathBuf>,
    /// Open files.
    pub files: Rc<RefCell<Files>>,
    /// Of the aggregated download, if there is one.
    pub aggregate: Option<Aggregate>,
    /// By the labels of their flows.
    pub open: BTreeMap<u64, Trajectory>,
}

impl Hooks for ClientHooks {
    fn congestion(&mut self, label: u64, first: bool) -> Box<dyn CongestionControl> {
        let control = self.congestion.control(label, first, &self.timebase);
        // One for all attempts: until a handshake is done nothing is in it.
        if !self.open.contains_key(&label)
            && let Some(new) = self.files.borrow_mut().trajectories.start(|| self.congestion.trajectory(label))
        {
            self.open.insert(label, new);
        }
        control
    }

    fn choice(&mut self, seed: u64, paths: &[(PathId, String)]) -> Result<ChoiceConfig, Fault> {
        self.choice.config(seed, paths)
    }

    fn observes(&self) -> bool {
        self.qlog_dir.is_some() || self.files.borrow().events.is_some()
    }

    fn opened(&mut self, label: u64, attempt: u32, quic: &mut quiche::Connection) -> Result<(), Fault> {
        let name = match attempt {
            0 => format!("client-flow-{label}"),
            n => format!("client-flow-{label}-attempt-{n}"),
        };
        self.files.borrow_mut().qlogs.extend(QlogFile::start(self.qlog_dir.as_deref(), quic, &name)?);
        Ok(())
    }

    fn event(&mut self, label: u64, at: Instant, event: &Event) -> Result<(), Fault> {
        // Its requests are no tasks of their own.
        let is_range = |download: &Aggregate| matches!(event, Event::Task { .. }) && download.has_ranges();
        if self.aggregate.as_ref().is_some_and(is_range) {
            return Ok(());
        }
        if let Some(events) = &mut self.files.borrow_mut().events {
            events.line(&event_line(event, self.timebase.us(at), Some(label))?)?;
        }
        Ok(())
    }

    fn decision(&mut self, label: u64, decision: &Decision) -> Result<(), Fault> {
        if let Some(open) = self.open.remove(&label)
            && let Some(open) = self.files.borrow_mut().trajectories.step(Some(open), decision, &self.timebase)
        {
            self.open.insert(label, open);
        }
        self.event(label, decision.seen.interval.now, &Event::decision(decision))?;
        if let Some(remark) = self.congestion.remark(decision) {
            complain(remark);
        }
        Ok(())
    }

    fn ended(&mut self, label: u64, outcome: &str) {
        let open = self.open.remove(&label);
        self.files.borrow_mut().trajectories.close(open, outcome);
    }
}
