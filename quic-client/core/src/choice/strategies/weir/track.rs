// SPDX-License-Identifier: Apache-2.0
//! State of one path: a Kalman filter for its round-trip time R and its remaining time D, and the changes of both.

use super::evidence::{Evidence, Measured};
use super::shrunk::Shrunk;

/// A measurement is an outlier beyond so many deviations, and then counts as one of so many: with outliers in 30 % of
/// the tasks the variance still settles (0.3 x 1.5^2 < 1).
pub(super) const OUTLIER_SD: f64 = 2.5;
const OUTLIER_COUNTS_SD: f64 = 1.5;

/// A measurement within so many deviations speaks for no change.
pub(super) const USUAL_SD: f64 = 2.0;

/// A change is taken as a fact when it is e^6 = 400 times as likely as chance: two outliers in a row on a clean path,
/// four on one with 20 % of them.
const CHANGE_LLR: f64 = 6.0;

/// Share of probes that are outliers without a change.
pub(super) const PROBE_OUTLIERS: f64 = 0.01;

/// A change back within so many measurements was noise after all.
const FLICKER: u64 = 8;

/// Gains the filter settles at for R and D when there is a measurement per task: memories of about 20 and 50 tasks.
const GAIN_R: f64 = 0.05;
const GAIN_D: f64 = 0.02;

/// k R is at least and at most this much of a task's expected time.
const PLAUSIBLE_R: (f64, f64) = (0.1, 1.1);

/// Times in ms are kept within these.
pub(super) const MS: (f64, f64) = (1e-3, 1e9);

/// Bound of a variance, ms^2.
pub(super) const VAR_MAX: f64 = MS.1 * MS.1;

/// Share of D, against that of the path's largest task, below which a task says nothing of a change of D.
const SMALL_SHARE: f64 = 0.25;

/// A change that was found.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// At which of the path's measurements.
    at: u64,
    upwards: bool,
    by_probes: bool,
    /// Amounts taken back from the mean excess and the rate of outliers.
    taken: (f64, f64),
}

/// One path's state. Times in ms.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// R and D, and their covariance.
    pub r: f64,
    pub d: f64,
    pub p: [[f64; 2]; 2],
    pub probes: u64,
    pub tasks: u64,
    /// The largest share of D that a task had.
    pub largest: f64,
    /// Variance of R before the path failed, until it is measured again.
    pub unfailed: Option<f64>,
    /// Variance of a probe and of a task around the state.
    pub v_probe: Shrunk,
    pub v_task: Shrunk,
    /// Evidence for a change upwards and downwards.
    pub up: Evidence,
    pub down: Evidence,
    pub measured: u64,
    changed: Option<Change>,
    /// Sum of the rises of D that tasks alone showed: of a fade, or of queues in the path. Probes do not show its end.
    rise: f64,
    /// Mean time of outlier tasks above the expected, and how many tasks were.
    pub excess: Shrunk,
    pub outliers: Shrunk,
    /// An outlier that may be the beginning of a change: how much it was above.
    pub doubt: Option<f64>,
    /// Rounds of the last update, task and probe, sent or answered, and of the beginning.
    pub updated: u64,
    pub last_task: u64,
    pub last_probe: Option<u64>,
    pub since: u64,
    /// Probes without surprise in a row; each doubles the time to the next one.
    pub quiet: u32,
    /// Tries of the path in a row after which it was left again; each doubles the time to the next one.
    pub vain: u32,
}

impl Track {
    pub fn new(round: u64, memory: f64) -> Self {
        Track {
            r: 0.0,
            d: 0.0,
            p: [[0.0; 2]; 2],
            probes: 0,
            tasks: 0,
            largest: 0.0,
            unfailed: None,
            v_probe: Shrunk::new(0.0, 2.0, memory.clamp(10.0, 50.0)),
            v_task: Shrunk::new(0.0, 2.0, memory.clamp(10.0, 50.0)),
            up: Evidence::default(),
            down: Evidence::default(),
            measured: 0,
            changed: None,
            rise: 0.0,
            excess: Shrunk::new(0.0, 10.0, memory.max(20.0)),
            outliers: Shrunk::new(0.02, 20.0, memory.max(40.0)),
            doubt: None,
            updated: round,
            last_task: round,
            last_probe: None,
            since: round,
            quiet: 0,
            vain: 0,
        }
    }

    pub fn known(&self) -> bool {
        self.probes + self.tasks > 0
    }

    /// Variances of (R, D) at a round: they grow from the last update on.
    pub fn p_at(&self, round: u64) -> [[f64; 2]; 2] {
        let age = round.saturating_sub(self.updated) as f64;
        let mut p = self.p;
        let v = if self.probes > 0 { self.v_probe.mean } else { self.v_task.mean };
        p[0][0] = (p[0][0] + age * GAIN_R * GAIN_R * v).min(VAR_MAX);
        if self.probes == 0 {
            return p;
        }
        p[1][1] = (p[1][1] + age * GAIN_D * GAIN_D * (self.v_task.mean + self.d * self.d)).min(VAR_MAX);
        p
    }

    /// Probability of an outlier without a change.
    pub fn chance(&self, task: bool) -> f64 {
        if task { self.outliers.mean.clamp(PROBE_OUTLIERS, 0.5) } else { PROBE_OUTLIERS }
    }

    /// First measurement: R is known to a fifth.
    pub fn begin(&mut self, r: f64) {
        self.r = r;
        let v = (0.2 * r).powi(2);
        self.p = [[v, 0.0], [0.0, 0.0]];
        self.v_probe.mean = v;
        self.v_task.mean = v;
    }

    /// Kalman step for `y = h0 R + h1 D + noise`. Gives the innovation in deviations, unclipped.
    pub fn update(&mut self, y: f64, h: [f64; 2], task: bool, round: u64) -> f64 {
        let p = self.p_at(round);
        self.updated = round;
        self.unfailed = None;
        let floor = (0.005 * y).powi(2) + 1e-6;
        let v = if task { self.v_task.mean } else { self.v_probe.mean }.max(floor);
        let innovation = y - h[0] * self.r - h[1] * self.d;
        let ph = [p[0][0] * h[0] + p[0][1] * h[1], p[1][0] * h[0] + p[1][1] * h[1]];
        let known = (h[0] * ph[0] + h[1] * ph[1]).max(0.0);
        let s = known + v;
        let sd = s.sqrt();
        let z = innovation / sd;
        // Chance makes a measurement late, not early.
        let counted = if z > OUTLIER_SD { OUTLIER_COUNTS_SD * sd } else { innovation };
        self.step(p, h, counted, s);
        let bounded = counted.max(-OUTLIER_COUNTS_SD * sd);
        let noise = (bounded * bounded - known).clamp(floor, VAR_MAX);
        let variance = if task { &mut self.v_task } else { &mut self.v_probe };
        variance.push(noise);

        self.measured += 1;
        let chance = self.chance(task);
        for (evidence, signed) in [(&mut self.up, z), (&mut self.down, -z)] {
            if signed > OUTLIER_SD {
                evidence.outlier(Measured { y, h, task }, chance);
            } else if signed < USUAL_SD {
                evidence.usual(task, chance);
            }
        }
        if task {
            let above = if z > OUTLIER_SD { innovation - counted } else { 0.0 };
            self.excess.push(above);
            self.outliers.push(if z > OUTLIER_SD { 1.0 } else { 0.0 });
            if z > OUTLIER_SD {
                self.up.excess += above / self.excess.weight;
                self.up.outliers += 1.0 / self.outliers.weight;
            }
        }
        z
    }

    /// The part of D that may be over.
    pub fn rise_of_d(&self) -> f64 {
        self.rise.min(self.d).max(0.0)
    }

    /// Takes the rise of D back if a task took as long as before it.
    pub fn restore(&mut self, y: f64, h: [f64; 2]) {
        let sd = self.v_task.mean.max((0.005 * y).powi(2) + 1e-6).sqrt();
        let expected = h[0] * self.r + h[1] * self.d;
        let rise = self.rise_of_d();
        let before = expected - h[1] * rise;
        if rise > 0.0 && (y - before).abs() < USUAL_SD * sd && (y - before).abs() < (y - expected).abs() {
            self.d -= rise;
            self.rise = 0.0;
            self.calm();
        }
    }

    /// Moves the state by an innovation whose variance is `s`.
    fn step(&mut self, p: [[f64; 2]; 2], h: [f64; 2], innovation: f64, s: f64) {
        let ph = [p[0][0] * h[0] + p[0][1] * h[1], p[1][0] * h[0] + p[1][1] * h[1]];
        let gain = [ph[0] / s, ph[1] / s];
        self.r = (self.r + gain[0] * innovation).clamp(MS.0, MS.1);
        self.d = (self.d + gain[1] * innovation).clamp(-MS.1, MS.1);
        let own = [(p[0][0] - gain[0] * ph[0]).max(0.0), (p[1][1] - gain[1] * ph[1]).max(0.0)];
        let most = (own[0] * own[1]).sqrt();
        let cross = (p[0][1] - gain[0] * ph[1]).clamp(-most, most);
        self.p = [[own[0], cross], [cross, own[1]]];
    }

    /// Keeps R and D plausible, given the round trips of a task, without changing what a task is expected to take.
    pub fn keep_plausible(&mut self, k: f64) {
        let level = (k * self.r + self.d).max(MS.0);
        let r = self.r.clamp(PLAUSIBLE_R.0 * level / k, PLAUSIBLE_R.1 * level / k);
        self.d = level - k * r;
        self.r = r;
    }

    /// Takes a lasting change as a fact, if the evidence says that there is one.
    pub fn change(&mut self) -> bool {
        let probed = |e: &Evidence| e.run.iter().any(|m| !m.task);
        let found = |e: &Evidence| e.all > CHANGE_LLR && probed(e) || e.tasks > CHANGE_LLR;
        let upwards = match (found(&self.up), found(&self.down)) {
            (false, false) => return false,
            (upwards, _) => upwards,
        };
        let e = std::mem::take(if upwards { &mut self.up } else { &mut self.down });
        let by_probes = e.all > CHANGE_LLR && probed(&e);
        // The median of the latest three: neither a chance outlier among them nor what came before a steep change.
        // Against the state as it is now: the outliers have moved it already.
        let mut latest: Vec<(f64, [f64; 2])> = e
            .run
            .iter()
            .rev()
            .filter(|m| by_probes || m.task)
            .take(3)
            .map(|m| ((m.y - m.h[0] * self.r - m.h[1] * self.d) / if by_probes { m.h[0] } else { 1.0 }, m.h))
            .collect();
        latest.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let (shift, h) = latest[(latest.len() - 1) / 2];
        // A small task among large ones has too little of D to show it.
        let of_d = !by_probes && h[1] >= SMALL_SHARE * self.largest;
        // Forget the state that may have changed, then use the measurement. If tasks alone show the change, both may
        // have: a later probe sorts it out, by the covariance.
        let mut p = self.p;
        if by_probes || !e.vouched {
            p[0][0] = (p[0][0] + (shift / if by_probes { 1.0 } else { h[0] }).powi(2)).min(VAR_MAX);
        }
        if of_d {
            p[1][1] = (p[1][1] + (shift / h[1].max(1e-6)).powi(2)).min(VAR_MAX);
        }
        let h = if by_probes { [1.0, 0.0] } else { h };
        let variance = if by_probes { &mut self.v_probe } else { &mut self.v_task };
        let taken = (e.excess, e.outliers);
        self.excess.mean = (self.excess.mean - taken.0).max(0.0);
        self.outliers.mean = (self.outliers.mean - taken.1).clamp(0.0, 1.0);
        if let Some(last) = self.changed.take_if(|last| last.upwards != upwards && self.measured - last.at <= FLICKER) {
            // There and back: outliers after all, and noise if probes show it too.
            self.excess.mean += last.taken.0;
            self.outliers.mean = (self.outliers.mean + last.taken.1).min(1.0);
            if last.by_probes {
                variance.mean = variance.mean.max((shift / 2.0).powi(2)).min(VAR_MAX);
            }
        }
        let v = variance.mean.max(1e-6) / latest.len() as f64;
        let before = h[0] * self.r + h[1] * self.d;
        let known = h[0] * (p[0][0] * h[0] + p[0][1] * h[1]) + h[1] * (p[1][0] * h[0] + p[1][1] * h[1]);
        self.step(p, h, shift, known.max(0.0) + v);
        if of_d {
            // On a lossy path it may have been chance: one task as before takes it back.
            self.p[1][1] = self.p[1][1].max((0.5 * shift / h[1].max(1e-6)).powi(2)).min(VAR_MAX);
        }
        if upwards && of_d {
            // Where it is R's, probes will show it.
            self.rise += (h[0] * self.r + h[1] * self.d - before).max(0.0) / h[1];
        } else if !upwards {
            self.rise = 0.0;
        }
        self.vain = 0;
        self.changed = Some(Change { at: self.measured, upwards, by_probes, taken });
        self.calm();
        true
    }

    fn calm(&mut self) {
        self.up = Evidence::default();
        self.down = Evidence::default();
        self.doubt = None;
    }
}
