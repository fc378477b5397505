// SPDX-License-Identifier: Apache-2.0
//! Decision to move a running download or upload to another path. The text speaks of downloads; for an upload, arrived
//! bytes are those that the server acknowledges.
//!
//! A path's rate is known only while it carries data, so a client can't know the rate of a standby path beforehand. It
//! tries one: the connection moves there. It stays if the rate is no lower than before, else it moves back. A trial
//! costs at most the time in which a sender's slow start reaches the rate there was, and all trials together may cost
//! no more than [`BUDGET_SHARE`] of what the whole download is expected to take, by what is left of it and the present
//! rate. So a short or fast download makes no trials, and a slow one does.
//!
//! A path that was tried and found worse is not tried again for a while, unless the rate of the path in use falls below
//! the rate that the other had then. Of the paths that were never tried, the one with the least round-trip time comes
//! first.
//!
//! There is no I/O and no clock here: [`Steer`] is informed of the bytes that arrived on each path, and asked for a
//! decision.

use crate::choice::PathId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Cost limit of all trials of a download, as a share of the time it is expected to take.
pub const BUDGET_SHARE: f64 = 0.05;
/// A path is kept after its trial if it carried this share of the other's bytes: another move would cost more.
const KEEP_SHARE: f64 = 0.95;
/// A path is clearly better than another that carries this much less.
const CLEARLY: f64 = 1.25;
/// A sender's slow start is over when an interval brings at most this much more than the one before.
const SETTLED: f64 = 1.25;
/// RFC 9002 7.2: the window a sender starts a path with, ten packets.
const FIRST_FLIGHT_BYTES: f64 = 13_500.0;
/// A measurement of a path is valid for so long, and longer after each trial without success.
const FRESH: Duration = Duration::from_secs(30);
/// Validity of a silence: an idle path is evidence about a moment, and not about the path.
const SILENCE_FRESH: Duration = Duration::from_secs(2);
/// A path that can't be moved to is left alone for as long as after so many trials without success: half a minute.
const REFUSED: u32 = 4;
/// The rate of a path over which nothing came, in bytes/s: so that a time can be divided by it.
const NOTHING: f64 = 1.0;
/// Limit of a task's estimated time on a path, in times of the whole run: the rate of a short interval says no more.
const LONGEST: u32 = 4;
/// Rates are measured over intervals of two round trips, of one in a trial, and no shorter than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// Limit of extensions of a trial whose rate still grows.
const EXTENSIONS: u32 = 3;

/// A path that the download could move to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// Identifier of the path.
    pub path: PathId,
    /// Its round-trip time, by its last validation.
    pub rtt: Duration,
}

/// Input of [`Steer::decide`].
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The path in use.
    pub active: Other,
    /// Paths that the connection can move to at no cost but the sender's slow start.
    pub others: &'a [Other],
    /// Payload still to come or to be sent, where that is known.
    pub left_bytes: Option<u64>,
}

/// A move to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// To this path.
    pub to: PathId,
    /// Why.
    pub reason: &'static str,
}

/// Measurement of a path.
#[derive(Debug, Clone, Copy)]
struct Known {
    bytes_per_s: f64,
    at: Instant,
    /// Trials without success.
    vain: u32,
}

impl Known {
    fn is_fresh(&self, now: Instant) -> bool {
        let fresh = if self.bytes_per_s <= NOTHING { SILENCE_FRESH } else { FRESH };
        now.saturating_duration_since(self.at) < fresh * (1 << self.vain.min(6))
    }
}

/// Rate of the path in use, interval by interval.
#[derive(Debug, Clone, Copy)]
struct Meter {
    since: Instant,
    bytes: u64,
    count: u32,
    before: f64,
    last: f64,
}

impl Meter {
    fn new(now: Instant) -> Self {
        Meter { since: now, bytes: 0, count: 0, before: 0.0, last: 0.0 }
    }

    /// Ends an interval if it is long enough.
    fn turn(&mut self, now: Instant, interval: Duration) {
        let took = now.saturating_duration_since(self.since);
        if took >= interval.max(LEAST_INTERVAL) {
            let rate = self.bytes as f64 / took.as_secs_f64();
            *self = Meter { since: now, bytes: 0, count: self.count + 1, before: self.last, last: rate };
        }
    }

    fn rate(&self) -> f64 {
        self.before.max(self.last)
    }

    /// The first interval is the round trip without an answer.
    fn is_settled(&self) -> bool {
        self.count >= 3 && self.last <= SETTLED * self.before
    }
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    from: PathId,
    /// Rate that the path carried.
    bytes_per_s: f64,
    begun: Instant,
    until: Instant,
    extensions: u32,
}

/// A download, or several at once, from the first request to the last byte.
#[derive(Debug, Clone)]
struct Run {
    begun: Instant,
    bytes: u64,
    meter: Meter,
    trial: Option<Trial>,
    /// Time that trials have cost.
    spent: Duration,
    /// A move that was decided and is to be reported as made.
    wanted: Option<PathId>,
    /// The path that the our latest move left.
    left: Option<PathId>,
    /// Measured in this run.
    measured: BTreeMap<PathId, f64>,
}

/// Decides for one connection.
#[derive(Debug, Clone, Default)]
pub struct Steer {
    run: Option<Run>,
    known: BTreeMap<PathId, Known>,
    /// The server does not repeat packets after a move.
    off: bool,
}

/// Upper bound of the cost of a trial of a path of this round-trip time: the round trips of slow start up to this rate,
/// that of the move, and one to see it.
fn cost(bytes_per_s: f64, rtt: Duration) -> Duration {
    let flights = (bytes_per_s * rtt.as_secs_f64() / FIRST_FLIGHT_BYTES).max(1.0);
    let rounds = flights.log2().ceil().clamp(0.0, 20.0) as u32;
    (rtt * (rounds + 3)).max(LEAST_INTERVAL * 3)
}

impl Steer {
    /// A request was sent. Nothing changes if others are under way.
    pub fn begin(&mut self, now: Instant) {
        self.run.get_or_insert_with(|| Run {
            begun: now,
            bytes: 0,
            meter: Meter::new(now),
            trial: None,
            spent: Duration::ZERO,
            wanted: None,
            left: None,
            measured: BTreeMap::new(),
        });
    }

    /// The last answer is complete, or was given up.
    pub fn end(&mut self) {
        self.run = None;
    }

    /// Payload came in over the path in use. Payload that comes in over others was sent before a move, and must not be
    /// given here.
    pub fn arrived(&mut self, bytes: u64) {
        if let Some(run) = &mut self.run {
            run.bytes += bytes;
            run.meter.bytes += bytes;
        }
    }

    /// The connection moved, for whatever reason.
    pub fn moved(&mut self, from: PathId, to: PathId, now: Instant) {
        let Some(run) = &mut self.run else { return };
        run.meter = Meter::new(now);
        if run.wanted.take() == Some(to) {
            run.left = Some(from);
        } else {
            (run.trial, run.left) = (None, None);
        }
    }

    /// The connection can't move to this path after all.
    pub fn refused(&mut self, path: PathId, now: Instant) {
        self.known.insert(path, Known { bytes_per_s: 0.0, at: now, vain: REFUSED });
        if let Some(run) = &mut self.run {
            (run.wanted, run.trial) = (None, None);
        }
    }

    /// The download stands still although packets of the server come in: the server does not repeat packets that a move
    /// left behind. If that move was decided here, gives the path to go back to, where the server does repeat them. No
    /// further move is decided from now on.
    pub fn stuck(&mut self) -> Option<PathId> {
        let run = self.run.as_mut()?;
        let back = run.left.take()?;
        self.off = true;
        run.trial = None;
        Some(back)
    }

    /// Time of a task of this size on each path that was measured in this run, at most [`LONGEST`] times the run's. A
    /// path over which nothing came for an interval was silent for no longer than that.
    pub fn estimates(&self, bytes: u64, now: Instant) -> Vec<(PathId, Duration)> {
        let Some(run) = &self.run else { return Vec::new() };
        let longest = now.saturating_duration_since(run.begun).saturating_mul(LONGEST);
        let took = |rate: &f64| Duration::try_from_secs_f64(bytes as f64 / rate).map_or(longest, |t| t.min(longest));
        run.measured.iter().map(|(path, rate)| (*path, took(rate))).collect()
    }

    /// Rate of each path in this run, in bit/s.
    pub fn rates_bit_s(&self) -> Vec<(PathId, u64)> {
        let measured = self.run.iter().flat_map(|r| &r.measured);
        measured.map(|(path, rate)| (*path, (rate * 8.0) as u64)).collect()
    }

    /// When [`Steer::decide`] is to be called although nothing arrived.
    pub fn deadline(&self) -> Option<Instant> {
        self.run.as_ref()?.trial.map(|t| t.until)
    }

    /// Whether to move now. The caller makes the move, and reports it by [`Steer::moved`] or [`Steer::refused`].
    pub fn decide(&mut self, view: &View<'_>, now: Instant) -> Option<Move> {
        let run = self.run.as_mut().filter(|_| !self.off)?;
        let decided = match run.trial {
            Some(trial) => judge(run, &mut self.known, trial, view, now),
            None => choose(run, &mut self.known, view, now),
        };
        run.wanted = decided.map(|m| m.to);
        decided
    }
}

/// Whether the trial is over, and on which path to stay.
fn judge(
    run: &mut Run,
    known: &mut BTreeMap<PathId, Known>,
    trial: Trial,
    view: &View<'_>,
    now: Instant,
) -> Option<Move> {
    let here = view.active;
    run.meter.turn(now, here.rtt);
    let (rate, last) = (run.meter.rate(), run.meter.last);
    let clearly = run.meter.count > 0 && last >= CLEARLY * trial.bytes_per_s;
    if !clearly && now < trial.until {
        return None;
    }
    let back = view.others.iter().find(|o| o.path == trial.from);
    let keep = clearly || rate >= KEEP_SHARE * trial.bytes_per_s;
    if !keep && last >= CLEARLY * run.meter.before && last > 0.0 && trial.extensions < EXTENSIONS {
        run.trial = Some(Trial { until: now + here.rtt, extensions: trial.extensions + 1, ..trial });
        return None;
    }
    run.trial = None;
    if !clearly {
        run.spent += now.saturating_duration_since(trial.begun);
    }
    run.measured.insert(here.path, rate.max(NOTHING));
    let vain = known.get(&here.path).map_or(0, |k| k.vain) + u32::from(!keep);
    known.insert(here.path, Known { bytes_per_s: rate, at: now, vain });
    let back = back.filter(|_| !keep)?;
    Some(Move { to: back.path, reason: "no better" })
}

/// Whether another path is worth a trial.
fn choose(run: &mut Run, known: &mut BTreeMap<PathId, Known>, view: &View<'_>, now: Instant) -> Option<Move> {
    let here = view.active;
    run.meter.turn(now, here.rtt * 2);
    if !run.meter.is_settled() {
        return None;
    }
    let rate = run.meter.rate().max(NOTHING);
    let vain = known.get(&here.path).map_or(0, |k| k.vain);
    known.insert(here.path, Known { bytes_per_s: rate, at: now, vain });
    run.measured.insert(here.path, rate);
    let left = view.left_bytes.unwrap_or(run.bytes) as f64 / rate;
    let elapsed = now.saturating_duration_since(run.begun).as_secs_f64();
    let affordable = BUDGET_SHARE * (elapsed + left);
    let worth = |other: &Other| {
        let cost = cost(rate, other.rtt);
        let carried = known.get(&other.path).filter(|k| k.is_fresh(now)).map(|k| k.bytes_per_s);
        let better = carried.is_none_or(|c| c >= CLEARLY * rate);
        // At most it can gain the time that is left.
        let pays = (run.spent + cost).as_secs_f64() <= affordable && 2.0 * cost.as_secs_f64() < left;
        (better && pays).then_some((carried, cost, *other))
    };
    // Paths known to be better come first, then the nearest.
    let (carried, cost, to) = view.others.iter().filter_map(worth).min_by(|a, b| {
        let rank = |c: &(Option<f64>, Duration, Other)| (-c.0.unwrap_or(0.0), c.2.rtt.as_secs_f64());
        rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal)
    })?;
    let trial = Trial { from: here.path, bytes_per_s: rate, begun: now, until: now + cost, extensions: 0 };
    run.trial = Some(trial);
    Some(Move { to: to.path, reason: if carried.is_some() { "carried more" } else { "trial" } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    /// Paths that carry `rates` (bytes/s), a download of `bytes`, in steps of a millisecond. A sender starts a path
    /// with ten packets and doubles; packets on their way when the connection moves still come, but is not counted
    /// here. Gives the time it took and the paths it was on, in order.
    fn download(rates: &[f64], rtts_ms: &[u64], bytes: u64, told: bool) -> (Duration, Vec<u32>) {
        let start = Instant::now();
        let others = |active: usize| -> Vec<Other> {
            (0..rates.len())
                .filter(|p| *p != active)
                .map(|p| Other { path: PathId(p as u32), rtt: rtts_ms[p] as u32 * MS })
                .collect()
        };
        let mut windows = vec![FIRST_FLIGHT_BYTES; rates.len()];
        let (mut active, mut got, mut now, mut moved_at) = (0, 0.0, start, start);
        let mut been = vec![0];
        let mut steer = Steer::default();
        steer.begin(now);
        while got < bytes as f64 {
            now += MS;
            let rtt = rtts_ms[active] as u32 * MS;
            if now >= moved_at + rtt {
                let rate = (windows[active] / rtt.as_secs_f64()).min(rates[active]);
                if windows[active] / rtt.as_secs_f64() < rates[active] {
                    windows[active] *= 2f64.powf(0.001 / rtt.as_secs_f64());
                }
                let part = (rate * 1e-3).min(bytes as f64 - got);
                got += part;
                steer.arrived(part as u64);
            }
            let view = View {
                active: Other { path: PathId(active as u32), rtt },
                others: &others(active),
                left_bytes: told.then_some(bytes - got as u64),
            };
            if let Some(to) = steer.decide(&view, now) {
                steer.moved(PathId(active as u32), to.to, now);
                (active, moved_at) = (to.to.0 as usize, now);
                been.push(to.to.0);
            }
            assert!(now < start + Duration::from_secs(3600), "never whole: {been:?}");
        }
        (now - start, been)
    }

    #[test]
    fn a_download_that_crawls_ends_on_the_best_path() {
        for told in [true, false] {
            let (took, been) = download(&[228_750.0, 300_000.0, 3_125_000.0], &[38, 10, 40], 5_000_000, told);
            assert_eq!(been.last(), Some(&2), "{been:?}");
            assert!(took < Duration::from_millis(4500), "{took:?} {been:?}");
        }
    }

    #[test]
    fn a_short_or_a_quick_one_is_left_alone() {
        assert_eq!(download(&[1e6, 1e8], &[20, 20], 5_000, true).1, [0]);
        assert_eq!(download(&[1e7, 1e8], &[20, 20], 1_000_000, true).1, [0]);
    }

    #[test]
    fn back_from_a_path_that_is_worse_and_not_there_again() {
        let (_, been) = download(&[1e6, 1e5, 2e5], &[20, 20, 30], 20_000_000, true);
        assert_eq!(been, [0, 1, 0, 2, 0]);
    }

    #[test]
    fn one_standstill_after_a_move_is_the_last() {
        let now = Instant::now();
        let mut steer = Steer::default();
        steer.begin(now);
        assert_eq!(steer.stuck(), None, "no move of ours");
        steer.run.as_mut().unwrap().wanted = Some(PathId(1));
        steer.moved(PathId(0), PathId(1), now);
        assert_eq!(steer.stuck(), Some(PathId(0)));
        steer.moved(PathId(1), PathId(0), now);
        assert_eq!((steer.stuck(), steer.off), (None, true));
    }

    #[test]
    fn a_silent_interval_makes_no_estimate_of_days() {
        let now = Instant::now();
        let mut steer = Steer::default();
        steer.begin(now);
        steer.run.as_mut().unwrap().measured.extend([
            (PathId(0), NOTHING),
            (PathId(1), 1e6),
            (PathId(2), f64::MIN_POSITIVE),
        ]);
        let estimates = steer.estimates(1_000_000, now + 500 * MS);
        assert_eq!(estimates.iter().map(|(_, took)| took.as_millis()).collect::<Vec<_>>(), [2000, 1000, 2000]);
        assert!(Steer::default().estimates(1, now).is_empty());
    }

    #[test]
    fn a_moment_without_anything_is_soon_forgotten() {
        let start = Instant::now();
        let all = [(0, 20), (1, 30), (2, 40)].map(|(path, ms)| Other { path: PathId(path), rtt: ms * MS });
        let mut steer = Steer::default();
        steer.begin(start);
        let (mut now, mut here, mut been) = (start, 0, vec![0]);
        while now < start + 8_000 * MS {
            now += MS;
            // After a tenth of a second nothing comes over any of them, until the last and slowest one is tried.
            let silent = now > start + 100 * MS && !been.contains(&2);
            steer.arrived(if silent { 0 } else { [1000, 700, 400][here] });
            let others: Vec<Other> = (0..3).filter(|n| *n != here).map(|n| all[n]).collect();
            let view = View { active: all[here], others: &others, left_bytes: Some(20_000_000) };
            if let Some(Move { to, .. }) = steer.decide(&view, now) {
                steer.moved(all[here].path, to, now);
                here = to.0 as usize;
                been.push(here);
            }
        }
        assert!(been.contains(&2), "{been:?}");
        assert_eq!(here, 0, "{been:?}");
    }

    proptest! {
        // On any paths trials lose no more than the budget allows, beside the cost of a sender's ramp in one extension;
        // and on equal paths as much.
        #[test]
        fn trials_cost_at_most_their_budget(
            rates in prop::collection::vec(1e5f64..1e7, 2..5),
            rtts in prop::collection::vec(5u64..100, 5),
            megabytes in 1u64..20,
            equal in any::<bool>(),
        ) {
            let rates = if equal { vec![rates[0]; rates.len()] } else { rates };
            let bytes = megabytes * 1_000_000;
            let (alone, _) = download(&rates[..1], &rtts, bytes, true);
            let (took, been) = download(&rates, &rtts, bytes, true);
            let most = alone.as_secs_f64() * 1.15 + 0.3;
            prop_assert!(took.as_secs_f64() <= most, "{took:?} for {alone:?}: {been:?}");
        }
    }
}
