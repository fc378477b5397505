// SPDX-License-Identifier: Apache-2.0
//! Whether outliers are chance or the beginning of a change: a cumulative sum of log likelihood ratios (Page 1954).

/// After a change nine of ten measurements are outliers against the earlier state.
const OUTLIERS_AFTER_CHANGE: f64 = 0.9;

/// A measurement, `y = h0 R + h1 D + noise`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub y: f64,
    pub h: [f64; 2],
    pub task: bool,
}

/// Log likelihood ratio of a change in one direction to chance.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// From tasks and probes, and from tasks alone.
    pub all: f64,
    pub tasks: f64,
    /// The outliers since it began.
    pub run: Vec<Measured>,
    /// A probe since then was as usual.
    pub vouched: bool,
    /// Amounts that the run's outliers added to the path's mean excess and rate of outliers.
    pub excess: f64,
    pub outliers: f64,
}

impl Evidence {
    /// Log likelihood ratio of one outlier for a change, where its probability without a change is `chance`.
    pub fn llr(chance: f64) -> f64 {
        (OUTLIERS_AFTER_CHANGE / chance).ln().max(0.0)
    }

    pub fn outlier(&mut self, measured: Measured, chance: f64) {
        let llr = Self::llr(chance);
        self.all += llr;
        if measured.task {
            self.tasks += llr;
        } else {
            self.vouched = false;
        }
        if self.run.len() == 16 {
            self.run.remove(0);
        }
        self.run.push(measured);
    }

    /// More than one task of the run was an outlier.
    pub fn repeated(&self) -> bool {
        self.run.iter().filter(|m| m.task).count() > 1
    }

    pub fn usual(&mut self, task: bool, chance: f64) {
        let llr = ((1.0 - OUTLIERS_AFTER_CHANGE) / (1.0 - chance)).ln();
        if task {
            self.all = (self.all + llr).max(0.0);
            self.tasks = (self.tasks + llr).max(0.0);
        } else {
            // R is as it was; D may still have changed.
            self.all = 0.0;
            self.vouched = true;
        }
        if self.all == 0.0 && self.tasks == 0.0 {
            *self = Evidence::default();
        }
    }
}
