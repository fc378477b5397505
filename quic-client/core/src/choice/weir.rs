// SPDX-License-Identifier: Apache-2.0
//! `weir`: path choice that learns from probes as well as from tasks.
//!
//! The paper's strategies learn what a path is worth by sending tasks over it, so each look at a bad path costs a task.
//! A probe (PATH_CHALLENGE to PATH_RESPONSE) on a standby path costs two datagrams and no time. Here each path has a
//! small state that both kinds of measurement update:
//!
//! ```text
//! probe = R + noise
//! task  = k R + D + noise + (now and then an outlier)
//! ```
//!
//! R is the path's round-trip time, which changes quickly; D is what a task takes beyond k round trips (rate, server),
//! which changes slowly; k is the number of round trips a task takes, common to all paths. So:
//!
//! - a path is known from its probes before it has carried a task, D being taken from the other paths;
//! - a path whose round trip alone takes longer than the best path's tasks need not be tried, ever;
//! - a path whose D is uncertain (never tried, or long ago) is tried if with a lucky D it would be the best one, and
//!   now and then as long as its round trip leaves something to gain.
//!
//! A path that can't be probed has no D: all of its time is R, and it is tried now and then, as other strategies do.
//!
//! The first task that is much larger than a path's earlier ones, and more than one flight, says what no probe can: the
//! path's rate. What it takes beyond the expected is D and no outlier; one more task confirms it.
//!
//! (R, D) is tracked by a two-state Kalman filter per path. A measurement far from what was expected is an outlier: it
//! moves the state little, what it took too long goes into the path's mean excess (the price of its losses), and it
//! leaves a doubt, which the next task or, if the path has been left, a probe resolves. Whether outliers are chance or
//! the beginning of something is weighed by a cumulative sum of log likelihood ratios (Page 1954) against the path's
//! own rate of outliers, so that a lossy path needs more of them in a row than a clean one. If it is a change, probes tell
//! of what: R jumps when probes show it, D when tasks do while probes don't. How often doubts turned out to be changes
//! is learned, and weighs what an unresolved doubt adds to the path's expected time.
//!
//! Paths are compared by `a (mean) + b (deviation)`, both in ms, the mean with excess and doubt. Eq. 18 adds a
//! variance; a deviation has the unit of the mean, so what `b` weighs doesn't depend on the scale. What moving costs is learned
//! from the tasks that moved.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{ChoiceConfig, PathId, TaskSample};

/// A measurement is an outlier beyond so many deviations, and then counts as one of so many: with outliers in 30 % of
/// the tasks the variance still settles (0.3 x 1.5^2 < 1).
const OUTLIER_SD: f64 = 2.5;
const OUTLIER_COUNTS_SD: f64 = 1.5;

/// A measurement within so many deviations speaks for no change.
const USUAL_SD: f64 = 2.0;

/// After a change nine of ten measurements are outliers against what was before. A change is taken as a fact when it
/// is e^6 = 400 times as likely as chance: two outliers in a row on a clean path, four on one with 20 % of them.
const OUTLIERS_AFTER_CHANGE: f64 = 0.9;
const CHANGE_LLR: f64 = 6.0;

/// Share of probes that are outliers without a change.
const PROBE_OUTLIERS: f64 = 0.01;

/// A change back within so many measurements was noise after all.
const FLICKER: u64 = 8;

/// Gains the filter settles at for R and D when there is a measurement per task: memories of about 20 and 50 tasks.
const GAIN_R: f64 = 0.05;
const GAIN_D: f64 = 0.02;

/// A path is tried if it would be the best one with a D this many deviations below the expected.
const LUCK_SD: f64 = 1.5;

/// A path's outliers are taken to be those of all paths, with the weight of so many tasks; its own are forgotten when
/// it has carried no task for so many.
const POOL_TASKS: f64 = 10.0;
const FORGET_TASKS: f64 = 200.0;

/// Tasks over which the cost of one move is spread until it is known how long a stay lasts.
const STAY_TASKS: f64 = 20.0;

/// A path must be better by this share for a move.
const MARGIN: f64 = 0.01;

/// Probes earned per task, how many can be saved up, and how many of them are kept for paths left in doubt.
const PROBES_PER_TASK: f64 = 0.25;
const PROBES_SAVED: f64 = 8.0;
const PROBES_RESERVED: f64 = 4.0;

/// Tasks between probes of a standby path that is nearly the best, and of a hopeless one.
const PROBE_EVERY: (f64, f64) = (6.0, 40.0);

/// Tasks to wait for a path's first probe before it is tried unprobed.
const FIRST_PROBE_TASKS: u64 = 2;

/// A try must promise this share of the time.
const TRY_GAIN: f64 = 0.05;

/// A path that may have become better in what probes don't show is tried again when the tries cost at most this share
/// of what they could gain, and not before so many tasks.
const RETRY_SHARE: f64 = 0.02;
const RETRY_TASKS: u64 = 50;

/// A path not probed for so many tasks may have any R; at best this share of the best path's time.
const UNPROBED_TASKS: u64 = 100;
const UNPROBED_BEST: f64 = 0.3;

/// Knowledge doesn't age further after so many seconds without a task.
const IDLE_ROUNDS: u64 = 200;

/// k R is at least and at most this much of what a task is expected to take.
const PLAUSIBLE_R: (f64, f64) = (0.1, 1.1);

/// Times in ms are kept within these.
const MS: (f64, f64) = (1e-3, 1e9);

/// Bound of a variance, ms^2.
const VAR_MAX: f64 = MS.1 * MS.1;

/// Payload of ten packets, the usual initial window: a task of more takes further round trips.
const FIRST_FLIGHT_BYTES: f64 = 12_000.0;

/// A task this many times as large as a path's earlier ones shows a D that those could not, known after it but for this
/// deviation.
const LARGER: f64 = 2.0;
const FIRST_LARGE_SD: f64 = 0.25;

/// Share of D, against that of the path's largest task, below which a task says nothing of a change of D.
const SMALL_SHARE: f64 = 0.25;

/// A mean that starts from a prior worth `weight` samples and forgets beyond `memory` samples.
#[derive(Debug, Clone, Copy)]
struct Shrunk {
    mean: f64,
    weight: f64,
    memory: f64,
}

impl Shrunk {
    fn new(prior: f64, weight: f64, memory: f64) -> Self {
        Shrunk { mean: prior, weight, memory }
    }

    fn push(&mut self, x: f64) {
        self.weight = (self.weight + 1.0).min(self.memory);
        self.mean += (x - self.mean) / self.weight;
    }
}

/// A measurement, `y = h0 R + h1 D + noise`.
#[derive(Debug, Clone, Copy)]
struct Measured {
    y: f64,
    h: [f64; 2],
    task: bool,
}

/// Log likelihood ratio of a change in one direction to chance.
#[derive(Debug, Clone, Default)]
struct Evidence {
    /// From tasks and probes, and from tasks alone.
    all: f64,
    tasks: f64,
    /// The outliers since it began.
    run: Vec<Measured>,
    /// A probe since then was as usual.
    vouched: bool,
    /// What the run's outliers added to the path's mean excess and rate of outliers.
    excess: f64,
    outliers: f64,
}

impl Evidence {
    /// What one outlier says for a change if without one they have this probability.
    fn llr(chance: f64) -> f64 {
        (OUTLIERS_AFTER_CHANGE / chance).ln().max(0.0)
    }

    fn outlier(&mut self, measured: Measured, chance: f64) {
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
    fn repeated(&self) -> bool {
        self.run.iter().filter(|m| m.task).count() > 1
    }

    fn usual(&mut self, task: bool, chance: f64) {
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

/// A change that was found.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// At which of the path's measurements.
    at: u64,
    upwards: bool,
    by_probes: bool,
    /// What it took back from the mean excess and the rate of outliers.
    taken: (f64, f64),
}

/// One path's state. Times in ms.
#[derive(Debug, Clone)]
struct Track {
    /// R and D, and their covariance.
    r: f64,
    d: f64,
    p: [[f64; 2]; 2],
    probes: u64,
    tasks: u64,
    /// The largest share of D that a task had.
    largest: f64,
    /// Variance of R before the path failed, until it is measured again.
    unfailed: Option<f64>,
    /// Variance of a probe and of a task around the state.
    v_probe: Shrunk,
    v_task: Shrunk,
    /// Evidence for a change upwards and downwards.
    up: Evidence,
    down: Evidence,
    measured: u64,
    changed: Option<Change>,
    /// Mean of what tasks were above the expected as outliers, and how many tasks were.
    excess: Shrunk,
    outliers: Shrunk,
    /// An outlier that may be the beginning of a change: how much it was above.
    doubt: Option<f64>,
    /// Rounds of the last update, task and probe, sent or answered, and of the beginning.
    updated: u64,
    last_task: u64,
    last_probe: Option<u64>,
    since: u64,
    /// Probes without surprise in a row; each doubles the time to the next one.
    quiet: u32,
    /// Tries of the path in a row after which it was left again; each doubles the time to the next one.
    vain: u32,
}

/// What to expect of a path's next task. Times in ms.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    mean: f64,
    /// Deviation of one task.
    sd: f64,
    /// The same if what probes don't show turns out well.
    lucky: f64,
    lucky_sd: f64,
}

/// State of the strategy. One round is one task, or a second without one.
#[derive(Debug, Clone)]
pub struct Weir {
    a: f64,
    memory: f64,
    per_byte: bool,
    tracks: BTreeMap<PathId, Track>,
    round: u64,
    current: Option<PathId>,
    /// Round trips per task.
    k: f64,
    /// Mean size of the tasks, and the size whose share of D is one: the first task's. Bytes.
    bytes: Shrunk,
    unit_bytes: Option<f64>,
    /// What a move adds to its task: to a path kept validated, and to a cold one.
    move_cost: Shrunk,
    cold_cost: Shrunk,
    /// How often a doubt was a lasting change.
    lasting: Shrunk,
    /// Tasks from one move to the next, and the round of the last one.
    stay: Shrunk,
    moved: u64,
    tokens: f64,
}

impl Track {
    fn new(round: u64, memory: f64) -> Self {
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

    fn known(&self) -> bool {
        self.probes + self.tasks > 0
    }

    /// Variances of (R, D) at a round: they grow from the last update on.
    fn p_at(&self, round: u64) -> [[f64; 2]; 2] {
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
    fn chance(&self, task: bool) -> f64 {
        if task { self.outliers.mean.clamp(PROBE_OUTLIERS, 0.5) } else { PROBE_OUTLIERS }
    }

    /// First measurement: R is known to a fifth.
    fn begin(&mut self, r: f64) {
        self.r = r;
        let v = (0.2 * r).powi(2);
        self.p = [[v, 0.0], [0.0, 0.0]];
        self.v_probe.mean = v;
        self.v_task.mean = v;
    }

    /// Kalman step for `y = h0 R + h1 D + noise`. Gives the innovation in deviations, unclipped.
    fn update(&mut self, y: f64, h: [f64; 2], task: bool, round: u64) -> f64 {
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
    fn keep_plausible(&mut self, k: f64) {
        let level = (k * self.r + self.d).max(MS.0);
        let r = self.r.clamp(PLAUSIBLE_R.0 * level / k, PLAUSIBLE_R.1 * level / k);
        self.d = level - k * r;
        self.r = r;
    }

    /// Takes a lasting change as a fact, if the evidence says that there is one.
    fn change(&mut self) -> bool {
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
        // A small task among large ones has too little of D to tell of it.
        let of_d = !by_probes && h[1] >= SMALL_SHARE * self.largest;
        // Let go of what may have changed, then believe what was measured. If tasks alone say so, both may have: a
        // later probe sorts it out, by the covariance.
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
            // There and back: outliers after all, and noise if probes said so too.
            self.excess.mean += last.taken.0;
            self.outliers.mean = (self.outliers.mean + last.taken.1).min(1.0);
            if last.by_probes {
                variance.mean = variance.mean.max((shift / 2.0).powi(2)).min(VAR_MAX);
            }
        }
        let v = variance.mean.max(1e-6) / latest.len() as f64;
        let known = h[0] * (p[0][0] * h[0] + p[0][1] * h[1]) + h[1] * (p[1][0] * h[0] + p[1][1] * h[1]);
        self.step(p, h, shift, known.max(0.0) + v);
        if of_d {
            // On a lossy path it may have been chance: one task as before takes it back.
            self.p[1][1] = self.p[1][1].max((0.5 * shift / h[1].max(1e-6)).powi(2)).min(VAR_MAX);
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

impl Weir {
    pub(super) fn new(config: &ChoiceConfig) -> Self {
        let memory = config.memory_tasks as f64;
        Weir {
            a: config.weight_a,
            memory,
            per_byte: config.per_byte,
            tracks: BTreeMap::new(),
            round: 0,
            current: None,
            k: 1.0,
            bytes: Shrunk::new(0.0, 0.0, memory.max(10.0)),
            unit_bytes: None,
            move_cost: Shrunk::new(0.0, 1.0, 50.0),
            cold_cost: Shrunk::new(0.0, 1.0, 50.0),
            lasting: Shrunk::new(1.0 / 3.0, 3.0, 30.0),
            stay: Shrunk::new(STAY_TASKS, 2.0, 10.0),
            moved: 0,
            tokens: PROBES_SAVED,
        }
    }

    pub(super) fn add(&mut self, path: PathId) {
        self.tracks.insert(path, Track::new(self.round, self.memory));
    }

    pub(super) fn remove(&mut self, path: PathId) {
        self.tracks.remove(&path);
        if self.current == Some(path) {
            self.current = None;
        }
    }

    /// A path that was away: what is known of it is old.
    pub(super) fn returned(&mut self, path: PathId) {
        self.failed(path);
    }

    pub(super) fn failed(&mut self, path: PathId) {
        if let Some(t) = self.tracks.get_mut(&path) {
            t.quiet = 0;
            t.unfailed.get_or_insert(t.p[0][0]);
            t.p[0][0] = t.p[0][0].max((0.3 * t.r).powi(2));
        }
    }

    /// A path that failed was late only: it is known as well as before.
    pub(super) fn late(&mut self, path: PathId) {
        if let Some(t) = self.tracks.get_mut(&path)
            && let Some(v) = t.unfailed.take()
        {
            t.p[0][0] = v;
        }
    }

    /// How much of D a task of so many bytes has: all tasks alike, unless times are judged by byte.
    fn share_of_d(&self, bytes: Option<u64>) -> f64 {
        match self.unit_bytes.filter(|_| self.per_byte) {
            Some(unit) => (bytes.map_or(self.bytes.mean, |b| b as f64) / unit).clamp(1e-6, 1e6),
            None => 1.0,
        }
    }

    /// D expected of a path that has carried no task, with its deviation.
    fn d_of_others(&self, r: f64) -> (f64, f64) {
        let of: Vec<f64> = self.tracks.values().filter(|t| t.tasks > 0).map(|t| t.d.max(0.0)).collect();
        let mean = of.iter().sum::<f64>() / of.len().max(1) as f64;
        (mean, 0.5 * mean + 0.05 * r)
    }

    fn outlook(&self, path: PathId, share: f64) -> Option<Outlook> {
        let t = self.tracks.get(&path)?;
        if !t.known() {
            return None;
        }
        let p = t.p_at(self.round);
        let unseen = self.round.saturating_sub(t.last_task) as f64;
        let (d, d_sd) = if t.tasks > 0 { (t.d, p[1][1].sqrt()) } else { self.d_of_others(t.r) };
        // Outliers of a path that has carried few tasks are expected to be those of all.
        let pooled = |of: fn(&Track) -> Shrunk| {
            let (sum, n) = self
                .tracks
                .values()
                .filter(|t| t.tasks > 0)
                .fold((0.0, 0.0), |(sum, n), t| (sum + of(t).mean * of(t).weight, n + of(t).weight));
            if n > 0.0 { sum / n } else { 0.0 }
        };
        let own = (t.tasks as f64).min(t.excess.memory) * (-(unseen / FORGET_TASKS)).exp();
        let n = POOL_TASKS + own;
        let mixed = |of: fn(&Track) -> Shrunk| (POOL_TASKS * pooled(of) + own * of(t).mean) / n;
        let excess = mixed(|t| t.excess);
        let rate = mixed(|t| t.outliers).clamp(PROBE_OUTLIERS, 1.0);
        // Variance of a task's excess, outliers being of one size.
        let scatter = (1.0 - rate) / rate;
        // Odds that the first outlier was the beginning of a change, times what those after it say.
        let lasting = self.lasting.mean.clamp(0.01, 0.99);
        let later = (t.up.tasks - Evidence::llr(t.chance(true))).max(0.0);
        let odds = lasting / (1.0 - lasting) * later.exp();
        let doubt = t.doubt.map_or(0.0, |above| odds / (1.0 + odds) * above);
        // No probe has resolved the doubt in the meantime: a task may.
        let stale = self.round > t.updated + 1;
        let v = if t.tasks > 2 { t.v_task.mean } else { self.k * self.k * t.v_probe.mean };
        let sd = |excess: f64| (v + excess * excess * scatter).sqrt().min(MS.1);
        let slow = share * d + excess;
        let luck = LUCK_SD * (share * share * d_sd * d_sd + excess * excess * scatter / n).sqrt();
        let lucky_slow = slow.min((slow - luck).max(0.0));
        let lucky_excess = if slow > 0.0 { excess * (lucky_slow / slow).max(0.0) } else { excess };
        Some(Outlook {
            mean: (self.k * t.r + doubt + slow).clamp(MS.0, MS.1),
            sd: sd(excess),
            lucky: (self.k * t.r + if stale { 0.0 } else { doubt } + lucky_slow).clamp(MS.0, MS.1),
            lucky_sd: sd(lucky_excess),
        })
    }

    fn cost(&self, mean: f64, sd: f64) -> f64 {
        self.a * mean + (1.0 - self.a) * sd
    }

    pub(super) fn index(&self, path: PathId) -> Option<f64> {
        self.outlook(path, self.share_of_d(None)).map(|o| self.cost(o.mean, o.sd))
    }

    pub(super) fn standing(&self, path: PathId) -> (u64, Option<f64>, Option<f64>) {
        let tasks = self.tracks.get(&path).map_or(0, |t| t.tasks);
        let outlook = self.outlook(path, self.share_of_d(None));
        (tasks, outlook.map(|o| o.mean), outlook.map(|o| o.sd * o.sd))
    }

    pub(super) fn choose(
        &mut self,
        usable: &[PathId],
        current: Option<PathId>,
        bytes: Option<u64>,
        idle: Duration,
        random: &mut fastrand::Rng,
    ) -> (PathId, &'static str) {
        self.round += 1 + idle.as_secs().min(IDLE_ROUNDS);
        self.tokens = (self.tokens + PROBES_PER_TASK).min(PROBES_SAVED);
        let share = self.share_of_d(bytes);
        let current = current.filter(|p| usable.contains(p));
        let seen: Vec<(PathId, Outlook)> =
            usable.iter().filter_map(|p| self.outlook(*p, share).map(|o| (*p, o))).collect();

        // Paths of which nothing is known: their first probe may be on its way.
        let blank = |p: &&PathId| self.tracks.get(p).is_some_and(|t| !t.known());
        let overdue = |p: &&PathId| self.tracks.get(p).is_some_and(|t| self.round > t.since + FIRST_PROBE_TASKS);
        if let Some(path) = usable.iter().filter(blank).find(|p| seen.is_empty() || overdue(p)) {
            let path = match current {
                Some(c) if blank(&&c) => c,
                None if seen.is_empty() => usable[random.usize(..usable.len())],
                _ => *path,
            };
            return (path, "untried");
        }

        let cost = |o: &Outlook| self.cost(o.mean, o.sd);
        let Some((best, best_cost)) = seen.iter().map(|(p, o)| (*p, cost(o))).min_by(|x, y| x.1.total_cmp(&y.1)) else {
            return (current.unwrap_or(usable[0]), "unknown");
        };
        let here = current.and_then(|c| seen.iter().find(|(p, _)| *p == c));
        let Some((here, outlook)) = here else { return (best, "best") };
        let here_cost = cost(outlook);
        let move_cost = self.a * self.move_cost.mean.max(0.0);
        let stay = self.stay.mean.max((self.round - self.moved) as f64);
        if best_cost + move_cost / stay + MARGIN * here_cost < here_cost {
            return (best, "better");
        }
        // A try pays its move twice, there and back.
        let rested = |p: &PathId| {
            let t = &self.tracks[p];
            self.round.saturating_sub(t.last_task) >= 1 << t.vain.min(6)
        };
        let lucky = seen
            .iter()
            .filter(|(p, _)| p != here && rested(p))
            .map(|(p, o)| (*p, self.cost(o.lucky, o.lucky_sd)))
            .min_by(|x, y| x.1.total_cmp(&y.1));
        if let Some((path, lucky)) = lucky
            && lucky + 2.0 * move_cost / stay + TRY_GAIN * here_cost < here_cost
        {
            self.tracks.entry(path).and_modify(|t| t.vain = t.vain.saturating_add(1));
            return (path, "try");
        }
        let retry = seen.iter().find(|(p, o)| {
            let t = &self.tracks[p];
            let loss = cost(o) + 2.0 * move_cost - here_cost;
            let unprobed = self.round.saturating_sub(t.updated) >= UNPROBED_TASKS;
            let bound = if unprobed { UNPROBED_BEST * here_cost } else { self.a * t.r };
            let gain = here_cost - bound - TRY_GAIN * here_cost;
            let unseen = self.round.saturating_sub(t.last_task);
            p != here && gain > 0.0 && unseen >= RETRY_TASKS && unseen as f64 * RETRY_SHARE * gain > loss
        });
        match retry {
            Some((path, _)) => (*path, "retry"),
            None => {
                let here = *here;
                self.tracks.entry(here).and_modify(|t| t.vain = 0);
                (here, "stay")
            }
        }
    }

    /// What was chosen in the end: a path just left is watched.
    pub(super) fn chosen(&mut self, path: PathId, before: Option<PathId>) {
        if let Some(left) = before.filter(|p| *p != path)
            && let Some(t) = self.tracks.get_mut(&left)
        {
            t.quiet = 0;
            self.stay.push((self.round - self.moved) as f64);
            self.moved = self.round;
        }
        self.current = Some(path);
    }

    pub(super) fn finished(&mut self, sample: &TaskSample, tct_ms: f64) {
        let y = tct_ms.clamp(MS.0, MS.1);
        self.bytes.push(sample.bytes as f64);
        self.unit_bytes.get_or_insert((sample.bytes as f64).max(1.0));
        let share = self.share_of_d(Some(sample.bytes));
        let (k, round) = (self.k, self.round);
        let (prior_d, prior_d_sd) =
            self.tracks.get(&sample.path).map_or((0.0, 0.0), |t| self.d_of_others(if t.known() { t.r } else { y / k }));
        let Some(t) = self.tracks.get_mut(&sample.path) else { return };
        let moving = sample.switched.then(|| {
            let m = self.move_cost.mean;
            if sample.cold { m + self.cold_cost.mean } else { m }
        });
        let y = (y - moving.unwrap_or(0.0)).clamp(MS.0, MS.1);
        if !t.known() {
            t.begin(((y - share * prior_d) / k).max(0.3 * y / k));
            t.p[0][0] = (0.5 * t.r).powi(2);
        }
        if t.tasks == 0 {
            t.d = prior_d;
            t.p[1][1] = prior_d_sd * prior_d_sd;
            t.v_task.mean = k * k * t.v_probe.mean;
        }
        if t.probes == 0 {
            // R and D can't be told apart: all is R until a probe comes.
            t.r = (t.r + share * t.d / k).max(MS.0);
            t.d = 0.0;
            t.p = [[t.p[0][0] + t.p[1][1], 0.0], [0.0, 0.0]];
        }
        t.tasks += 1;
        t.last_task = round;
        let expected = (k * t.r + share * t.d).clamp(MS.0, MS.1);
        if sample.switched {
            let above = (y + moving.unwrap_or(0.0) - expected).clamp(-expected, 5.0 * expected);
            if sample.cold { self.cold_cost.push(above - self.move_cost.mean) } else { self.move_cost.push(above) }
        }
        // Where R and D can't be told apart R has to carry it.
        let shown = (t.probes > 0 && sample.bytes as f64 > FIRST_FLIGHT_BYTES && share > LARGER * t.largest)
            .then(|| ((y - expected) / share).powi(2).min(VAR_MAX));
        if let Some(shown) = shown {
            t.p[1][1] = t.p[1][1].max(shown);
        }
        t.largest = t.largest.max(share);
        let z = t.update(y, [k, share], true, round);
        if let Some(shown) = shown {
            t.p[1][1] = t.p[1][1].max(FIRST_LARGE_SD * FIRST_LARGE_SD * shown);
        }
        t.keep_plausible(k);
        let doubted = t.doubt.is_some();
        if t.change() {
            t.keep_plausible(k);
            t.quiet = 0;
            if doubted {
                self.lasting.push(1.0);
            }
        } else if z > OUTLIER_SD {
            t.doubt = Some(y - expected);
            t.quiet = 0;
        } else if z < USUAL_SD && t.doubt.take().is_some() {
            self.lasting.push(0.0);
        }
        self.learn_k(sample.bytes);
    }

    pub(super) fn probed(&mut self, path: PathId, rtt_ms: f64) {
        let y = rtt_ms.clamp(MS.0, MS.1);
        let (round, k) = (self.round, self.k);
        let Some(t) = self.tracks.get_mut(&path) else { return };
        t.last_probe = Some(round);
        t.probes += 1;
        if t.probes == 1 {
            let (level, p) = (k * t.r, t.p[0][0]);
            t.begin(y);
            t.updated = round;
            if t.tasks > 0 {
                t.v_task.mean = t.v_task.mean.max(k * k * t.v_probe.mean);
                t.d = level - k * t.r;
                t.p[1][1] = (k * k * (p + t.p[0][0])).min(VAR_MAX);
                t.keep_plausible(k);
            }
            return;
        }
        let z = t.update(y, [1.0, 0.0], false, round);
        let doubted = t.doubt.is_some();
        if t.change() {
            t.quiet = 0;
            if doubted {
                self.lasting.push(1.0);
            }
        } else if z.abs() > OUTLIER_SD {
            t.quiet = 0;
        } else if z < USUAL_SD {
            t.quiet = t.quiet.saturating_add(1);
            if !t.up.repeated() && t.doubt.take().is_some() {
                // The path is as it was: the outlier was the task's own (a loss), not the beginning of a change.
                self.lasting.push(0.0);
            }
        }
    }

    /// k is at least one, at most what slow start from an initial window takes, and such that no path has a negative D.
    fn learn_k(&mut self, bytes: u64) {
        let rounds = (bytes as f64 / FIRST_FLIGHT_BYTES + 1.0).log2().ceil().max(1.0);
        let least = self
            .tracks
            .values()
            .filter(|t| t.tasks > 2 && t.probes > 0 && t.doubt.is_none() && t.p[0][0] < (0.2 * t.r).powi(2))
            .map(|t| (self.k * t.r + t.d) / t.r.max(MS.0))
            .fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            return;
        }
        let k = self.k + 0.1 * (least.clamp(1.0, 1.0 + rounds) - self.k);
        // The same expectation and its variances, expressed with another k.
        let c = self.k - k;
        for t in self.tracks.values_mut().filter(|t| t.tasks > 0) {
            t.d += c * t.r;
            t.p[1][1] = (t.p[1][1] + 2.0 * c * t.p[0][1] + c * c * t.p[0][0]).max(0.0);
            t.p[0][1] += c * t.p[0][0];
            t.p[1][0] = t.p[0][1];
        }
        self.k = k;
    }

    /// The standby path most in need of a probe, if any is and the budget has one left.
    pub(super) fn next_probe(&self, usable: &[PathId]) -> Option<PathId> {
        let age = |t: &Track| t.last_probe.map_or(u64::MAX, |at| self.round.saturating_sub(at));
        let standby = || {
            let others = usable.iter().filter(|p| self.current != Some(**p));
            others.filter_map(|p| self.tracks.get(p).map(|t| (*p, t)))
        };
        // A path of which nothing is known, once at the beginning and then now and then.
        if let Some((path, _)) = standby().find(|(_, t)| !t.known() && age(t) > 20) {
            return (self.tokens > 0.0).then_some(path);
        }
        let here = self.current.and_then(|c| self.index(c)).unwrap_or(MS.1);
        standby()
            .filter(|(_, t)| self.tokens >= if t.doubt.is_some() { 1.0 } else { PROBES_RESERVED })
            .filter_map(|(path, t)| {
                let gap = (self.index(path)? - here).max(0.0) / here.max(MS.0);
                let steady = (PROBE_EVERY.0 * (1.0 + 4.0 * gap)).min(PROBE_EVERY.1);
                let every = steady.min(2f64.powi(t.quiet.min(20) as i32));
                let overdue = age(t) as f64 / every;
                (overdue >= 1.0).then_some((path, overdue))
            })
            .max_by(|x, y| x.1.total_cmp(&y.1))
            .map(|(path, _)| path)
    }

    pub(super) fn probing(&mut self, path: PathId) {
        self.tokens -= 1.0;
        if let Some(t) = self.tracks.get_mut(&path) {
            t.last_probe = Some(self.round);
        }
    }
}
