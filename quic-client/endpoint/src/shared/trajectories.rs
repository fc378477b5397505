// SPDX-License-Identifier: Apache-2.0
//! The trajectory files of connections whose congestion control learns (`--cc-trajectories`). If one can't be written the
//! connection goes on without.

use super::fault::Fault;
use std::path::Path;
use weir_core::congestion::Decision;
use weir_core::report::samples::Timebase;
use weir_core::report::trajectory;
use weir_io::lines::LineWriter;

/// A trajectory file (`--cc-trajectories`).
pub struct Trajectory {
    out: LineWriter,
    steps: u64,
}

impl Trajectory {
    /// Makes the file, with its first line.
    ///
    /// # Errors
    /// The file can't be made or written.
    pub fn create(path: &Path, head: &str) -> Result<Trajectory, Fault> {
        let mut out = LineWriter::create(path)?;
        out.line(head)?;
        Ok(Trajectory { out, steps: 0 })
    }

    /// Adds a decision.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn step(&mut self, decision: &Decision, timebase: &Timebase) -> Result<(), Fault> {
        self.steps += 1;
        self.out.line(&trajectory::step(decision, timebase).map_err(Fault::internal("JSON"))?)?;
        Ok(())
    }

    /// Writes the last line and all that is left.
    ///
    /// # Errors
    /// As for [`Trajectory::step`].
    pub fn finish(mut self, reason: &str) -> Result<(), Fault> {
        let end = trajectory::end(self.steps, reason).map_err(Fault::internal("JSON"))?;
        let written = self.out.line(&end).and_then(|()| self.out.flush());
        if written.is_err() {
            self.abandon();
        }
        Ok(written?)
    }

    /// Discards unwritten lines: writing failed.
    pub fn abandon(self) {
        self.out.abandon();
    }
}

/// The trajectory files, one for each connection (`--cc-trajectories`). When one can't be written no new ones are
/// started.
pub struct Trajectories {
    /// Prints a line to the user.
    say: fn(&str),
    ended: bool,
    lost: u64,
}

impl Trajectories {
    /// None yet. `say` reports failures.
    pub fn new(say: fn(&str)) -> Trajectories {
        Trajectories { say, ended: false, lost: 0 }
    }

    /// Starts the trajectory of a connection with `make`, which gives `None` if none is wanted.
    pub fn start(&mut self, make: impl FnOnce() -> Result<Option<Trajectory>, Fault>) -> Option<Trajectory> {
        if self.ended {
            self.lost += 1;
            return None;
        }
        make().unwrap_or_else(|e| {
            self.lose(&e);
            None
        })
    }

    /// Adds a decision, and returns the trajectory if it could be written.
    pub fn step(
        &mut self,
        trajectory: Option<Trajectory>,
        decision: &Decision,
        timebase: &Timebase,
    ) -> Option<Trajectory> {
        let mut trajectory = trajectory?;
        match trajectory.step(decision, timebase) {
            Ok(()) => Some(trajectory),
            Err(e) => {
                trajectory.abandon();
                self.lose(&e);
                None
            }
        }
    }

    /// A connection is over.
    pub fn close(&mut self, trajectory: Option<Trajectory>, reason: &str) {
        if let Some(Err(e)) = trajectory.map(|t| t.finish(reason)) {
            self.lose(&e);
        }
    }

    fn lose(&mut self, why: &Fault) {
        self.lost += 1;
        if !std::mem::replace(&mut self.ended, true) {
            (self.say)(&format!("--cc-trajectories: {why}; no new ones are written"));
        }
    }

    /// Reports missing parts. True if there are none.
    pub fn finish(&self) -> bool {
        if self.lost > 0 {
            (self.say)(&format!("--cc-trajectories: {} connections have none, or none that is whole", self.lost));
        }
        self.lost == 0
    }
}
