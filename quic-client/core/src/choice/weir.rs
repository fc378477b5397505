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
//! - D is not negative: a path whose k R alone is slower than the best path's task need not be tried, ever;
//! - a path whose D is uncertain (never tried, or long ago) is tried if with a lucky D it would be the best one.
//!
//! (R, D) is tracked by a two-state Kalman filter per path. An innovation beyond 3 deviations is clipped: what was cut
//! off counts as an outlier (a lost packet's PTO) into the path's mean excess, and leaves a doubt, which asks for a
//! probe. A cumulative sum over the normalized innovations (Page 1954) finds lasting changes: the state then jumps. How
//! often doubts turned out to be lasting changes is learned, and weighs what an unresolved doubt adds to the path's
//! expected time.
//!
//! Paths are compared by `a (mean) + b (deviation)`, both in ms. Eq. 18 adds a variance; a deviation has the unit of
//! the mean, so what `b` weighs doesn't depend on the scale. What moving costs is learned from the tasks that moved.

use std::collections::BTreeMap;

use super::{ChoiceConfig, PathId, TaskSample};

/// Innovations are clipped at this many deviations.
const CLIP_SD: f64 = 3.0;

/// Slack and threshold of the cumulative sum, in deviations: two clipped innovations in a row raise it (2 x 2.5 > 4),
/// one never does, and it takes five usual ones to forget one.
const CUSUM_SLACK: f64 = 0.5;
const CUSUM_ALARM: f64 = 4.0;

/// Gains the filter settles at for R and D when there is a measurement per task: memories of about 20 and 50 tasks.
const GAIN_R: f64 = 0.05;
const GAIN_D: f64 = 0.02;

/// A path is tried if it would be the best one with a D this many deviations below the expected.
const LUCK_SD: f64 = 1.5;

/// Tasks over which the cost of one move is spread.
const STAY_TASKS: f64 = 20.0;

/// A path must be better by this share for a move.
const MARGIN: f64 = 0.01;

/// Probes earned per task, and how many can be saved up.
const PROBES_PER_TASK: f64 = 0.25;
const PROBES_SAVED: f64 = 8.0;

/// Tasks between probes of a standby path that is nearly the best, and of a hopeless one.
const PROBE_EVERY: (f64, f64) = (6.0, 40.0);

/// Tasks to wait for a path's first probe before it is tried unprobed.
const FIRST_PROBE_TASKS: u64 = 2;

/// Without probes a path is tried again when that adds at most this share to the mean time, and not before so many
/// tasks.
const RETRY_SHARE: f64 = 0.01;
const RETRY_TASKS: u64 = 100;

/// Times in ms are kept within these.
const MS: (f64, f64) = (1e-3, 1e9);

/// Bound of a variance, ms^2.
const VAR_MAX: f64 = MS.1 * MS.1;

/// Payload of ten packets, the usual initial window: a task of more takes further round trips.
const FIRST_FLIGHT_BYTES: f64 = 12_000.0;

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

/// One path's state. Times in ms.
#[derive(Debug, Clone)]
struct Track {
    /// R and D, and their covariance.
    r: f64,
    d: f64,
    p: [[f64; 2]; 2],
    probes: u64,
    tasks: u64,
    /// Variance of a probe and of a task around the state.
    v_probe: Shrunk,
    v_task: Shrunk,
    /// Cumulative sums upwards and downwards, and the innovations (in R) since they left zero.
    up: (f64, Vec<f64>),
    down: (f64, Vec<f64>),
    /// Mean of what was clipped off, with how much of it belongs to the upward run that has not ended.
    excess: Shrunk,
    run_excess: f64,
    /// An outlier that may be the beginning of a change: how much it was above.
    doubt: Option<f64>,
    /// Rounds (tasks of the connection) of the last update, of the last probe, sent or answered, and of the beginning.
    updated: u64,
    last_probe: Option<u64>,
    since: u64,
    /// Probes without surprise in a row; each doubles the time to the next one.
    quiet: u32,
}

/// What to expect of a path's next task. Times in ms.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    mean: f64,
    /// Deviation of one task.
    sd: f64,
    /// The mean if D turns out well.
    lucky: f64,
}

/// State of the strategy. One round is one task.
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
    /// Mean size of the tasks, bytes.
    bytes: Shrunk,
    /// What a move adds to its task: to a path kept validated, and to a cold one.
    move_cost: Shrunk,
    cold_cost: Shrunk,
    /// How often a doubt was a lasting change.
    lasting: Shrunk,
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
            v_probe: Shrunk::new(0.0, 2.0, memory.clamp(10.0, 50.0)),
            v_task: Shrunk::new(0.0, 2.0, memory.clamp(10.0, 50.0)),
            up: (0.0, Vec::new()),
            down: (0.0, Vec::new()),
            excess: Shrunk::new(0.0, 10.0, memory.max(20.0)),
            run_excess: 0.0,
            doubt: None,
            updated: round,
            last_probe: None,
            since: round,
            quiet: 0,
        }
    }

    fn known(&self) -> bool {
        self.probes + self.tasks > 0
    }

    /// Variances of (R, D) at a round: they grow from the last update on.
    fn p_at(&self, round: u64) -> [[f64; 2]; 2] {
        let age = round.saturating_sub(self.updated) as f64;
        let mut p = self.p;
        p[0][0] = (p[0][0] + age * GAIN_R * GAIN_R * self.v_probe.mean).min(VAR_MAX);
        p[1][1] = (p[1][1] + age * GAIN_D * GAIN_D * (self.v_task.mean + self.d * self.d)).min(VAR_MAX);
        p
    }

    /// First measurement: R is known to a tenth.
    fn begin(&mut self, r: f64) {
        self.r = r;
        let v = (0.1 * r).powi(2);
        self.p = [[v, 0.0], [0.0, 0.0]];
        self.v_probe.mean = v;
        self.v_task.mean = v;
    }

    /// Kalman step for `y = h0 R + h1 D + noise`. Gives the innovation in deviations, unclipped.
    fn update(&mut self, y: f64, h: [f64; 2], task: bool, round: u64) -> f64 {
        let p = self.p_at(round);
        self.updated = round;
        let floor = (0.005 * y).powi(2) + 1e-6;
        let v = if task { self.v_task.mean } else { self.v_probe.mean }.max(floor);
        let innovation = y - h[0] * self.r - h[1] * self.d;
        let ph = [p[0][0] * h[0] + p[0][1] * h[1], p[1][0] * h[0] + p[1][1] * h[1]];
        let known = h[0] * ph[0] + h[1] * ph[1];
        let s = known + v;
        let sd = s.sqrt();
        let z = innovation / sd;
        let clipped = z.clamp(-CLIP_SD, CLIP_SD);
        let gain = [ph[0] / s, ph[1] / s];
        self.r = (self.r + gain[0] * clipped * sd).clamp(MS.0, MS.1);
        self.d = (self.d + gain[1] * clipped * sd).clamp(-MS.1, MS.1);
        self.p = [
            [(p[0][0] - gain[0] * ph[0]).max(0.0), p[0][1] - gain[0] * ph[1]],
            [p[1][0] - gain[1] * ph[0], (p[1][1] - gain[1] * ph[1]).max(0.0)],
        ];
        let noise = (clipped * clipped * s - known).clamp(floor, VAR_MAX);
        let variance = if task { &mut self.v_task } else { &mut self.v_probe };
        variance.push(noise);

        let in_r = innovation / h[0];
        for (sum, run, signed) in
            [(&mut self.up.0, &mut self.up.1, clipped), (&mut self.down.0, &mut self.down.1, -clipped)]
        {
            *sum = (*sum + signed - CUSUM_SLACK).max(0.0);
            if *sum == 0.0 {
                run.clear();
            } else {
                run.push(in_r);
            }
        }
        if task {
            let cut = (innovation - clipped * sd).max(0.0);
            self.excess.push(cut);
            if self.up.0 > 0.0 { self.run_excess += cut / self.excess.weight } else { self.run_excess = 0.0 }
        }
        z
    }

    /// Takes a lasting change as a fact, if the cumulative sums say that there is one.
    fn jump(&mut self) -> bool {
        let rising = self.up.0 > CUSUM_ALARM;
        let run = match (rising, self.down.0 > CUSUM_ALARM) {
            (true, _) => std::mem::take(&mut self.up.1),
            (false, true) => std::mem::take(&mut self.down.1),
            _ => return false,
        };
        // The median of the latest three: an outlier among them doesn't count, nor what came before a steep change.
        let mut latest: Vec<f64> = run[run.len().saturating_sub(3)..].to_vec();
        latest.sort_unstable_by(f64::total_cmp);
        let shift = latest[(latest.len() - 1) / 2];
        self.r = (self.r + shift).clamp(MS.0, MS.1);
        let v = self.v_probe.mean / latest.len() as f64;
        self.p[0][0] = self.p[0][0].max(v);
        if rising {
            self.excess.mean = (self.excess.mean - self.run_excess).max(0.0);
        }
        self.calm();
        true
    }

    fn calm(&mut self) {
        self.up = (0.0, Vec::new());
        self.down = (0.0, Vec::new());
        self.run_excess = 0.0;
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
            move_cost: Shrunk::new(0.0, 2.0, 50.0),
            cold_cost: Shrunk::new(0.0, 1.0, 50.0),
            lasting: Shrunk::new(1.0 / 3.0, 3.0, 30.0),
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
            t.p[0][0] = t.p[0][0].max((0.3 * t.r).powi(2));
        }
    }

    /// How much of D a task of so many bytes has: all tasks alike, unless times are judged by byte.
    fn share_of_d(&self, bytes: Option<u64>) -> f64 {
        match bytes {
            Some(bytes) if self.per_byte && self.bytes.mean > 0.0 => (bytes as f64 / self.bytes.mean).clamp(1e-6, 1e6),
            _ => 1.0,
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
        let (d, d_sd) = if t.tasks > 0 { (t.d, p[1][1].sqrt()) } else { self.d_of_others(t.r) };
        // Outliers of a path that has carried few tasks are expected to be those of all.
        let all: (f64, f64) = self
            .tracks
            .values()
            .fold((0.0, 0.0), |(sum, n), t| (sum + t.excess.mean * t.excess.weight, n + t.excess.weight));
        let pooled = if all.1 > 0.0 { all.0 / all.1 } else { 0.0 };
        let own = (t.tasks as f64).min(t.excess.memory);
        let excess = (10.0 * pooled + own * t.excess.mean) / (10.0 + own);
        let doubt = t.doubt.map_or(0.0, |above| self.lasting.mean * above);
        let base = self.k * t.r + excess;
        // No probe has resolved the doubt in the meantime: a task may.
        let stale = self.round > t.updated + 1;
        let v = if t.tasks > 2 { t.v_task.mean } else { self.k * self.k * t.v_probe.mean };
        // A path's outliers: about their mean squared over the chance of one is what they add to the variance; the
        // chance is not tracked, one in ten is taken.
        let v = v + 10.0 * excess * excess;
        Some(Outlook {
            mean: (base + doubt + share * d).clamp(MS.0, MS.1),
            sd: v.sqrt().min(MS.1),
            lucky: (base + if stale { 0.0 } else { doubt } + share * d.min((d - LUCK_SD * d_sd).max(0.0)))
                .clamp(MS.0, MS.1),
        })
    }

    fn cost(&self, mean: f64, sd: f64) -> f64 {
        self.a * mean + (1.0 - self.a) * sd
    }

    pub(super) fn index(&self, path: PathId) -> Option<f64> {
        self.outlook(path, 1.0).map(|o| self.cost(o.mean, o.sd))
    }

    pub(super) fn standing(&self, path: PathId) -> (u64, Option<f64>, Option<f64>) {
        let tasks = self.tracks.get(&path).map_or(0, |t| t.tasks);
        let outlook = self.outlook(path, 1.0);
        (tasks, outlook.map(|o| o.mean), outlook.map(|o| o.sd * o.sd))
    }

    pub(super) fn choose(
        &mut self,
        usable: &[PathId],
        current: Option<PathId>,
        bytes: Option<u64>,
        random: &mut fastrand::Rng,
    ) -> (PathId, &'static str) {
        self.round += 1;
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
        if best_cost + move_cost / STAY_TASKS + MARGIN * here_cost < here_cost {
            return (best, "better");
        }
        // A try pays its move twice, there and back.
        let lucky = seen
            .iter()
            .filter(|(p, _)| p != here)
            .map(|(p, o)| (*p, self.cost(o.lucky, o.sd)))
            .min_by(|x, y| x.1.total_cmp(&y.1));
        if let Some((path, lucky)) = lucky
            && lucky + 2.0 * move_cost / STAY_TASKS + MARGIN * here_cost < here_cost
        {
            return (path, "try");
        }
        let retry = seen.iter().find(|(p, o)| {
            let t = &self.tracks[p];
            let gap = cost(o) + 2.0 * move_cost - here_cost;
            let unseen = self.round.saturating_sub(t.updated);
            p != here && unseen >= RETRY_TASKS && unseen as f64 * RETRY_SHARE * here_cost > gap
        });
        match retry {
            Some((path, _)) => (*path, "retry"),
            None => (*here, "stay"),
        }
    }

    /// What was chosen in the end: a path just left is watched.
    pub(super) fn chosen(&mut self, path: PathId, before: Option<PathId>) {
        if let Some(left) = before.filter(|p| *p != path)
            && let Some(t) = self.tracks.get_mut(&left)
        {
            t.quiet = 0;
        }
        self.current = Some(path);
    }

    pub(super) fn finished(&mut self, sample: &TaskSample, tct_ms: f64) {
        let y = tct_ms.clamp(MS.0, MS.1);
        self.bytes.push(sample.bytes as f64);
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
        t.tasks += 1;
        let expected = (k * t.r + share * t.d).clamp(MS.0, MS.1);
        if sample.switched {
            let above = (y + moving.unwrap_or(0.0) - expected).clamp(-expected, 3.0 * expected);
            if sample.cold { self.cold_cost.push(above - self.move_cost.mean) } else { self.move_cost.push(above) }
        }
        let z = t.update(y, [k, share], true, round);
        if t.jump() {
            t.quiet = 0;
            self.lasting.push(1.0);
        } else if z > CLIP_SD {
            t.doubt = Some(y - expected);
            t.quiet = 0;
        } else if z < 2.0 && t.doubt.take().is_some() {
            self.lasting.push(0.0);
        }
        self.learn_k(sample.bytes);
    }

    pub(super) fn probed(&mut self, path: PathId, rtt_ms: f64) {
        let y = rtt_ms.clamp(MS.0, MS.1);
        let round = self.round;
        let Some(t) = self.tracks.get_mut(&path) else { return };
        t.last_probe = Some(round);
        t.probes += 1;
        if t.probes + t.tasks == 1 {
            t.begin(y);
            t.updated = round;
            return;
        }
        let z = t.update(y, [1.0, 0.0], false, round);
        if t.jump() {
            t.quiet = 0;
            self.lasting.push(1.0);
        } else if z.abs() > CLIP_SD {
            t.quiet = 0;
        } else if z < 2.0 {
            t.quiet = t.quiet.saturating_add(1);
            if t.doubt.is_some() {
                // The path is as it was: the outlier was the task's own (a loss), not the beginning of a change.
                t.calm();
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
            .filter(|t| t.tasks > 0 && t.probes > 0)
            .map(|t| (self.k * t.r + t.d) / t.r.max(MS.0))
            .fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            return;
        }
        let k = self.k + 0.1 * (least.clamp(1.0, 1.0 + rounds) - self.k);
        let change = self.k - k;
        self.tracks.values_mut().filter(|t| t.tasks > 0).for_each(|t| t.d += change * t.r);
        self.k = k;
    }

    /// The path most in need of a probe, if any is and the budget has one left.
    pub(super) fn next_probe(&self, usable: &[PathId]) -> Option<PathId> {
        let age = |t: &Track| t.last_probe.map_or(u64::MAX, |at| self.round.saturating_sub(at));
        // A path of which nothing is known, once at the beginning and then now and then.
        let blank = |p: &&PathId| self.tracks.get(p).is_some_and(|t| !t.known() && age(t) > 20);
        if let Some(path) = usable.iter().find(blank) {
            return (self.tokens > 0.0).then_some(*path);
        }
        if self.tokens < 1.0 {
            return None;
        }
        let here = self.current.and_then(|c| self.index(c)).unwrap_or(MS.1);
        let doubted = |p: &PathId| self.tracks.get(p).is_some_and(|t| t.doubt.is_some());
        if let Some(path) = self.current.filter(|p| usable.contains(p) && doubted(p) && age(&self.tracks[p]) > 0) {
            return Some(path);
        }
        usable
            .iter()
            .filter(|p| self.current != Some(**p))
            .filter_map(|p| {
                let t = self.tracks.get(p)?;
                let gap = (self.index(*p)? - here).max(0.0) / here.max(MS.0);
                let steady = (PROBE_EVERY.0 * (1.0 + 4.0 * gap)).min(PROBE_EVERY.1);
                let every = steady.min(2f64.powi(t.quiet.min(20) as i32));
                let overdue = age(t) as f64 / every;
                (overdue >= 1.0).then_some((*p, overdue))
            })
            .max_by(|x, y| x.1.total_cmp(&y.1))
            .map(|(p, _)| p)
    }

    pub(super) fn probing(&mut self, path: PathId) {
        self.tokens -= 1.0;
        if let Some(t) = self.tracks.get_mut(&path) {
            t.last_probe = Some(self.round);
        }
    }
}
