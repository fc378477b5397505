// SPDX-License-Identifier: Apache-2.0
//! `weir`: path choice that learns from probes as well as from tasks.
//!
//! The paper's strategies learn the value of a path by sending tasks over it, so each test of a bad path costs a task.
//! A probe (PATH_CHALLENGE to PATH_RESPONSE) on a standby path costs two datagrams and no time. Here both kinds of
//! measurement update a small state of each path:
//!
//! ```text
//! probe = R + noise
//! task  = k R + D + noise + (now and then an outlier)
//! ```
//!
//! R is the path's round-trip time, which changes quickly; D is the time of a task beyond k round trips (rate, server),
//! which changes slowly; k is the number of round trips a task takes, common to all paths. So:
//!
//! - a path is known from its probes before it has carried a task, D being taken from the other paths;
//! - a path whose round trip alone takes longer than the best path's tasks need not be tried, ever;
//! - a path whose D is uncertain (it was never tried, or long ago) is tried if with a lucky D it would be the best one,
//!   and now and then as long as its round-trip time is short enough to gain by it.
//!
//! A path that can't be probed has no D: all of its time is R, and it is tried now and then, as other strategies do.
//!
//! The first task that is much larger than a path's earlier ones, and more than one flight, shows what no probe can:
//! the path's rate. The time that it takes beyond the expected counts as D, not as an outlier; one more task confirms
//! it.
//!
//! (R, D) is tracked by a two-state Kalman filter per path. A measurement far from the expected one is an outlier: it
//! changes the state little; the time above the expected goes into the path's mean excess (the price of its losses);
//! and it leaves a doubt, which the next task resolves, or a probe if the path has been left. Outliers are
//! distinguished from a change by a cumulative sum of log likelihood ratios (Page 1954) against the path's own rate of
//! outliers, so that a lossy path needs more of them in a row than a clean one. Probes locate a change: R has changed
//! if probes show it, D if tasks do and probes don't. The share of doubts that turned out to be changes is learned; an
//! unresolved doubt adds to the path's expected time in proportion to that. A rise of D that only tasks show may be a
//! fade, which ends unseen: the path is tried again after 1, 2, 4 and more tasks, and one task as before takes the rise
//! back.
//!
//! D is proportional to a task's size: paths are compared for the size of the task to come.
//!
//! Paths are compared by `a (mean) + b (deviation)`, both in ms, the mean with excess and doubt. Tan Eq. 18 adds a
//! variance; a deviation has the unit of the mean, so the meaning of `b` doesn't depend on the scale. The cost of a
//! move is learned from the tasks that moved.

mod evidence;
mod shrunk;
mod track;

use crate::choice::config::ChoiceConfig;
use crate::choice::history::History;
use crate::choice::models::Estimate;
use crate::choice::path_id::PathId;
use crate::choice::strategy::{Question, Strategy};
use crate::choice::task::TaskSample;
use evidence::Evidence;
use shrunk::Shrunk;
use std::collections::BTreeMap;
use std::time::Duration;
use track::{MS, OUTLIER_SD, PROBE_OUTLIERS, Track, USUAL_SD, VAR_MAX};

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

/// A path that may have become better in ways that probes don't show is tried again when the tries cost at most this
/// share of what they could gain, and not before so many tasks.
const RETRY_SHARE: f64 = 0.02;
const RETRY_TASKS: u64 = 50;

/// A path not probed for so many tasks may have any R; at best this share of the best path's time.
const UNPROBED_TASKS: u64 = 100;
const UNPROBED_BEST: f64 = 0.3;

/// Knowledge doesn't age further after so many seconds without a task.
const IDLE_ROUNDS: u64 = 200;

/// Payload of ten packets, the usual initial window: a task of more takes further round trips.
const FIRST_FLIGHT_BYTES: f64 = 12_000.0;

/// A task this many times as large as a path's earlier ones shows a D that those could not, known after it but for this
/// deviation.
const LARGER: f64 = 2.0;
const FIRST_LARGE_SD: f64 = 0.25;

/// Forecast for a path's next task, in ms.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    mean: f64,
    /// Deviation of one task.
    sd: f64,
    /// The same if that turns out well.
    lucky: f64,
    lucky_sd: f64,
}

/// State of the strategy. One round is one task, or a second without one.
#[derive(Debug)]
pub struct Weir {
    a: f64,
    memory: f64,
    tracks: BTreeMap<PathId, Track>,
    round: u64,
    current: Option<PathId>,
    /// Round trips per task.
    k: f64,
    /// Mean size of the tasks, and the size whose share of D is one: the first task's. Bytes.
    bytes: Shrunk,
    unit_bytes: Option<f64>,
    /// Time that a move adds to its task: to a path kept validated, and to a cold one.
    move_cost: Shrunk,
    cold_cost: Shrunk,
    /// Share of doubts that were lasting changes.
    lasting: Shrunk,
    /// Tasks from one move to the next, and the round of the last one.
    stay: Shrunk,
    moved: u64,
    tokens: f64,
}

impl Weir {
    /// With nothing known of any path.
    pub fn new(config: &ChoiceConfig) -> Self {
        let memory = config.memory_tasks as f64;
        Weir {
            a: config.weight_a,
            memory,
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

    /// Share of D in a task of this size: the most of D is the time that a task's bytes take at the path's rate.
    fn share_of_d(&self, bytes: Option<u64>) -> f64 {
        match self.unit_bytes {
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
        // Odds that the first outlier was the beginning of a change, times the likelihood of those after it.
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
        let lucky_slow = slow.min((slow - luck.max(share * t.rise_of_d())).max(0.0));
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

    /// Expected cost of the next task of the usual size on a path.
    fn cost_of(&self, path: PathId) -> Option<f64> {
        self.outlook(path, self.share_of_d(None)).map(|o| self.cost(o.mean, o.sd))
    }
}

impl Strategy for Weir {
    fn add(&mut self, path: PathId) {
        self.tracks.insert(path, Track::new(self.round, self.memory));
    }

    fn remove(&mut self, path: PathId) {
        self.tracks.remove(&path);
        if self.current == Some(path) {
            self.current = None;
        }
    }

    /// A path that was away: its state is old.
    fn returned(&mut self, path: PathId) {
        self.failed(path);
    }

    fn failed(&mut self, path: PathId) {
        if let Some(t) = self.tracks.get_mut(&path) {
            t.quiet = 0;
            t.unfailed.get_or_insert(t.p[0][0]);
            t.p[0][0] = t.p[0][0].max((0.3 * t.r).powi(2));
        }
    }

    /// A path that failed was late only: it is known as well as before.
    fn late(&mut self, path: PathId) {
        if let Some(t) = self.tracks.get_mut(&path)
            && let Some(v) = t.unfailed.take()
        {
            t.p[0][0] = v;
        }
    }

    fn index(&self, path: PathId, _history: &History) -> Option<f64> {
        self.cost_of(path)
    }

    fn estimate(&self, path: PathId, _history: &History) -> Option<Estimate> {
        let outlook = self.outlook(path, self.share_of_d(None))?;
        let samples = self.tracks.get(&path).map_or(0, |t| t.tasks as usize);
        Some(Estimate { samples, mean_ms: outlook.mean, var_ms2: outlook.sd * outlook.sd })
    }

    fn choose(&mut self, question: &Question<'_>, random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let Question { usable, current, bytes, idle, .. } = *question;
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

    /// Records the final choice: a path just left is watched.
    fn chosen(&mut self, path: PathId, before: Option<PathId>) {
        if let Some(left) = before.filter(|p| *p != path)
            && let Some(t) = self.tracks.get_mut(&left)
        {
            t.quiet = 0;
            self.stay.push((self.round - self.moved) as f64);
            self.moved = self.round;
        }
        self.current = Some(path);
    }

    fn finished(&mut self, sample: &TaskSample) {
        let y = sample.tct_ms().clamp(MS.0, MS.1);
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
            // R and D can't be distinguished: all is R until a probe comes.
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
        // Where R and D can't be distinguished R has to carry it.
        let shown = (t.probes > 0 && sample.bytes as f64 > FIRST_FLIGHT_BYTES && share > LARGER * t.largest)
            .then(|| ((y - expected) / share).powi(2).min(VAR_MAX));
        if let Some(shown) = shown {
            t.p[1][1] = t.p[1][1].max(shown);
        }
        t.largest = t.largest.max(share);
        t.restore(y, [k, share]);
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

    fn probed(&mut self, path: PathId, rtt: Duration) {
        let y = (rtt.as_secs_f64() * 1e3).clamp(MS.0, MS.1);
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

    /// The standby path most in need of a probe, if any is and the budget has one left.
    fn next_probe(&self, usable: &[PathId]) -> Option<PathId> {
        let age = |t: &Track| t.last_probe.map_or(u64::MAX, |at| self.round.saturating_sub(at));
        let standby = || {
            let others = usable.iter().filter(|p| self.current != Some(**p));
            others.filter_map(|p| self.tracks.get(p).map(|t| (*p, t)))
        };
        // A path of which nothing is known, once at the beginning and then now and then.
        if let Some((path, _)) = standby().find(|(_, t)| !t.known() && age(t) > 20) {
            return (self.tokens > 0.0).then_some(path);
        }
        let here = self.current.and_then(|c| self.cost_of(c)).unwrap_or(MS.1);
        standby()
            .filter(|(_, t)| self.tokens >= if t.doubt.is_some() { 1.0 } else { PROBES_RESERVED })
            .filter_map(|(path, t)| {
                let gap = (self.cost_of(path)? - here).max(0.0) / here.max(MS.0);
                let steady = (PROBE_EVERY.0 * (1.0 + 4.0 * gap)).min(PROBE_EVERY.1);
                let every = steady.min(2f64.powi(t.quiet.min(20) as i32));
                let overdue = age(t) as f64 / every;
                (overdue >= 1.0).then_some((path, overdue))
            })
            .max_by(|x, y| x.1.total_cmp(&y.1))
            .map(|(path, _)| path)
    }

    fn probing(&mut self, path: PathId) {
        self.tokens -= 1.0;
        if let Some(t) = self.tracks.get_mut(&path) {
            t.last_probe = Some(self.round);
        }
    }
}
