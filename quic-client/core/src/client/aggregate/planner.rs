// SPDX-License-Identifier: Apache-2.0
//! [`Planner`]: the ranges that each connection of an aggregated download requests.
//!
//! A connection claims its next range before the current one ends, so that it never idles for a round trip. Bytes that no
//! connection has are claimed first; then the end of the range of the connection that would finish last is moved to the
//! one that claims, so that both finish together. A connection that stalls gives up its ranges, and still delivers them if
//! it recovers before the others.

use super::intervals::Intervals;
use super::link::Link;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Range of a connection whose rate is unknown, in bytes.
const FIRST_BYTES: f64 = 64_000.0;
/// Bytes that are requested ahead of the answers, at least.
const LEAST_AHEAD_BYTES: f64 = 48_000.0;
/// Bytes of another connection that an idle one requests too, at most.
const MOST_TWICE_BYTES: u64 = 256_000;
/// Smallest range that is worth a request, in bytes, unless it is all that is left.
const LEAST_BYTES: u64 = 16_000;
/// Least time that moving bytes to another connection must save, in seconds.
const LEAST_GAIN_S: f64 = 0.02;
/// Time between two attempts to claim of an idle connection.
const RETRY: Duration = Duration::from_millis(20);

/// A range to be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Number of the request.
    pub id: u64,
    /// Bytes to request.
    pub range: Range<u64>,
}

/// Origin of a claim's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// No connection has them.
    Free(Range<u64>),
    /// The last range of this connection.
    Link(usize, Range<u64>),
    /// The last range of a connection that goes on with it: they arrive twice, or sooner.
    Twice(Range<u64>),
}

/// The ranges of an aggregated download.
#[derive(Debug)]
pub struct Planner {
    /// Size of the object.
    total: u64,
    /// Bytes that have not arrived.
    missing: Intervals,
    /// Missing bytes that no connection is to deliver.
    free: Intervals,
    links: Vec<Link>,
    next_id: u64,
    /// Bytes that arrived although they had arrived before.
    duplicate_bytes: u64,
    /// Requested bytes that were moved from one connection to another before they arrived.
    moved_bytes: u64,
}

impl Planner {
    /// For so many connections. The size of the object is set by [`Planner::begin`].
    pub fn new(links: usize, now: Instant) -> Planner {
        Planner {
            total: 0,
            missing: Intervals::default(),
            free: Intervals::default(),
            links: (0..links).map(|_| Link::new(now)).collect(),
            next_id: 0,
            duplicate_bytes: 0,
            moved_bytes: 0,
        }
    }

    /// The object has `total` bytes.
    pub fn begin(&mut self, total: u64) {
        self.total = total;
        self.missing = Intervals::of(0..total);
        self.free = Intervals::of(0..total);
    }

    /// The connection is up. `arrived_bytes`: a packet arrived on it, and so many stream bytes until now.
    pub fn observe(&mut self, link: usize, rtt: Option<Duration>, arrived_bytes: Option<u64>, now: Instant) {
        let state = &mut self.links[link];
        state.is_up = true;
        state.observe(rtt, arrived_bytes, now);
        if arrived_bytes.is_some() {
            self.recover(link);
        }
    }

    /// The first answer, of this connection, has these bytes.
    pub fn adopt(&mut self, link: usize, range: Range<u64>, now: Instant) -> Claim {
        self.links[link].is_up = true;
        self.free.remove(&range);
        self.give(link, range, now)
    }

    fn give(&mut self, link: usize, range: Range<u64>, now: Instant) -> Claim {
        let id = self.next_id;
        self.next_id += 1;
        self.links[link].requested(id, range.clone(), now);
        Claim { id, range }
    }

    /// The next range of a connection, if it should request one now.
    pub fn claim(&mut self, link: usize, now: Instant) -> Option<Claim> {
        let source = self.offer(link, now)?;
        let range = match source {
            Source::Free(range) => {
                self.free.remove(&range);
                range
            }
            Source::Link(from, range) => {
                let segment = self.links[from].segments.iter_mut().rev().find(|s| s.next < s.end)?;
                // The first answer was not requested range by range: taking its end costs nothing.
                if segment.id > 0 {
                    self.moved_bytes += range.end - range.start;
                }
                segment.end = range.start;
                self.links[from].changed(now);
                range
            }
            Source::Twice(range) => {
                self.moved_bytes += range.end - range.start;
                range
            }
        };
        Some(self.give(link, range, now))
    }

    /// Whether [`Planner::claim`] gives a range.
    pub fn can_claim(&self, link: usize, now: Instant) -> bool {
        self.offer(link, now).is_some()
    }

    fn offer(&self, link: usize, now: Instant) -> Option<Source> {
        let own = self.links.get(link).filter(|own| own.is_up && !own.is_stalled)?;
        let rate = own.rate_bytes_s(now);
        let rtt_s = own.rtt().as_secs_f64();
        let outstanding = own.remaining_bytes();
        // A request takes a round trip, in which the server sends up to twice as much as in the one before (slow start).
        let ahead = (rate * (rtt_s * 3.0 + 0.05)).max(LEAST_AHEAD_BYTES);
        if outstanding as f64 >= ahead {
            return None;
        }
        let chunk = if own.is_measured() { (rate * (rtt_s * 4.0).max(0.25)).max(FIRST_BYTES) } else { FIRST_BYTES };
        if let Some(free) = self.free.last() {
            // All finish together if each takes its share of all that is left.
            let live = self.links.iter().filter(|l| l.is_up && !l.is_stalled);
            let left_s = self.missing.bytes() as f64 / live.map(|l| l.rate_bytes_s(now)).sum::<f64>();
            let share = (left_s - rtt_s) * rate - outstanding as f64;
            let whole = free.end - free.start;
            let bytes = (chunk.min(share) as u64).max(LEAST_BYTES);
            // The rest of a hole goes with it if a request of its own would be too small.
            let bytes = if whole < bytes + LEAST_BYTES { whole } else { bytes };
            if share >= LEAST_BYTES as f64 || outstanding == 0 {
                return Some(Source::Free(free.end - bytes..free.end));
            }
            return None;
        }
        self.offer_of_others(link, chunk, now)
    }

    /// The end of the last range of the connection that would finish last.
    fn offer_of_others(&self, link: usize, chunk: f64, now: Instant) -> Option<Source> {
        let own = &self.links[link];
        let busy = |&(k, l): &(usize, &Link)| k != link && l.outstanding_bytes() > 0;
        let last = |l: &Link| l.finish_s(now);
        let others = self.links.iter().enumerate().filter(busy);
        let (from, other) = others.max_by(|a, b| last(a.1).total_cmp(&last(b.1)))?;
        let segment = other.segments.iter().rev().find(|s| s.next < s.end)?;
        let (mine, theirs) = (own.rate_bytes_s(now), other.rate_bytes_s(now));
        let rtt_s = own.rtt().as_secs_f64();
        let ready_s = own.finish_s(now).max(rtt_s);
        let even = (last(other) - ready_s) * mine * theirs / (mine + theirs);
        let left = segment.end - segment.next;
        let bytes = (even.min(chunk).max(0.0) as u64).min(left);
        let is_requested = segment.id > 0;
        // Requested bytes are not moved without end between connections whose rates change.
        let most_moved = self.total / 4 + (1 << 20);
        let is_worth = bytes as f64 / theirs >= LEAST_GAIN_S && (bytes >= LEAST_BYTES || bytes == left || theirs < 2e5);
        if bytes > 0 && is_worth && (!is_requested || self.moved_bytes + bytes <= most_moved) {
            return Some(Source::Link(from, segment.end - bytes..segment.end));
        }
        // The measured rates may be wrong: an idle connection costs nothing.
        let twice = left.min(MOST_TWICE_BYTES);
        let is_late = !other.is_measured() || last(other) > rtt_s * 0.75;
        let is_new = self.moved_bytes + twice <= most_moved;
        (is_new && is_late && own.is_idle(now)).then(|| Source::Twice(segment.end - twice..segment.end))
    }

    /// Data of a request arrived. Gives the offset of the data, and the ranges that had not arrived before.
    pub fn received(&mut self, link: usize, id: u64, bytes: u64, now: Instant) -> (u64, Vec<Range<u64>>) {
        self.recover(link);
        let state = &mut self.links[link];
        state.received(bytes);
        let Some(segment) = state.segments.iter_mut().find(|s| s.id == id) else { return (0, Vec::new()) };
        let range = segment.next..(segment.next + bytes).min(segment.stop);
        segment.next = range.end;
        segment.end = segment.end.max(segment.next);
        let new = self.missing.remove(&range);
        self.free.remove(&range);
        let accepted: u64 = new.iter().map(|part| part.end - part.start).sum();
        self.links[link].accepted_bytes += accepted;
        self.links[link].changed(now);
        self.duplicate_bytes += bytes - accepted;
        (range.start, new)
    }

    /// Whether nothing of a request is needed any more.
    pub fn is_over(&self, link: usize, id: u64) -> bool {
        let state = &self.links[link];
        let Some(segment) = state.segments.iter().find(|s| s.id == id) else { return true };
        let is_given_up = segment.next >= segment.end && !state.is_stalled;
        is_given_up || self.missing.within(&(segment.next..segment.stop)).is_empty()
    }

    /// Whether bytes are missing that a request, whose answer has ended, was to deliver.
    pub fn is_short(&self, link: usize, id: u64) -> bool {
        let segment = self.links[link].segments.iter().find(|s| s.id == id);
        segment.is_some_and(|s| !self.missing.within(&(s.next..s.end)).is_empty())
    }

    /// A request has ended, or was cancelled: what it was to deliver and is missing is free.
    pub fn ended(&mut self, link: usize, id: u64, now: Instant) {
        let segments = &mut self.links[link].segments;
        let Some(at) = segments.iter().position(|s| s.id == id) else { return };
        let segment = segments.remove(at);
        if segment.next < segment.stop {
            self.links[link].discarded();
        }
        self.links[link].changed(now);
        self.release(segment.next..segment.end);
    }

    /// A connection has ended.
    pub fn left(&mut self, link: usize) {
        let state = &mut self.links[link];
        (state.is_up, state.is_stalled) = (false, false);
        for segment in std::mem::take(&mut state.segments) {
            self.release(segment.next..segment.end);
        }
    }

    fn release(&mut self, range: Range<u64>) {
        for part in self.missing.within(&range) {
            self.free.insert(part);
        }
    }

    /// Connections that have stalled by `now` give up their bytes. True if there are new ones.
    pub fn check_stalls(&mut self, now: Instant) -> bool {
        let stalled: Vec<_> = self.links.iter().map(|l| l.stalls_at().is_some_and(|t| t <= now)).collect();
        for link in (0..self.links.len()).filter(|&k| stalled[k]) {
            self.links[link].is_stalled = true;
            for at in 0..self.links[link].segments.len() {
                let segment = &mut self.links[link].segments[at];
                let range = segment.next..segment.end;
                segment.end = segment.next;
                self.release(range);
            }
        }
        stalled.contains(&true)
    }

    /// A connection that had stalled is heard again: it delivers what nobody else has claimed.
    fn recover(&mut self, link: usize) {
        if !std::mem::take(&mut self.links[link].is_stalled) {
            return;
        }
        for segment in &mut self.links[link].segments {
            let own = self.free.within(&(segment.next..segment.stop));
            if let Some(own) = own.first().filter(|own| own.start == segment.next) {
                segment.end = own.end;
                self.free.remove(own);
            }
        }
    }

    /// When a connection that can't claim now should try again.
    pub fn retry_at(&self, now: Instant) -> Instant {
        self.links
            .iter()
            .filter_map(Link::stalls_at)
            .filter(|t| *t > now)
            .min()
            .map_or(now + RETRY, |t| t.min(now + RETRY))
    }

    /// When a connection counts as silent, if no packet arrives until then.
    pub fn silent_at(&self, link: usize) -> Instant {
        self.links[link].silent_at()
    }

    /// Whether all bytes have arrived.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Size of the object.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.next_id
    }

    /// Bytes that arrived more than once.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// Bytes that arrived first on a connection.
    pub fn accepted_bytes(&self, link: usize) -> u64 {
        self.links.get(link).map_or(0, |l| l.accepted_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A path: its rate in bytes a millisecond, its RTT, and the time from when on it is silent.
    #[derive(Debug, Clone)]
    struct Way {
        rate: u64,
        rtt_ms: u64,
        dies_ms: Option<u64>,
        up_ms: u64,
    }

    /// A request at the server: when its answer begins to arrive, and the bytes that were not sent.
    struct Answering {
        id: u64,
        from_ms: u64,
        left: u64,
    }

    /// Milliseconds until the download is complete, and the planner; `None`: it never is.
    fn simulate(total: u64, ways: &[Way]) -> Option<(u64, Planner)> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut planner = Planner::new(ways.len(), start);
        planner.begin(total);
        let mut queues: Vec<VecDeque<Answering>> = ways.iter().map(|_| VecDeque::new()).collect();
        let first = planner.adopt(0, 0..total, at(0));
        queues[0].push_back(Answering { id: first.id, from_ms: 0, left: total });
        let mut arrived = vec![0u8; total as usize];
        let mut sums = vec![0; ways.len()];
        for ms in 0..200_000 {
            for (k, way) in ways.iter().enumerate() {
                let is_alive = ms >= way.up_ms && way.dies_ms.is_none_or(|t| ms < t);
                let mut room = if is_alive { way.rate } else { 0 };
                if is_alive {
                    let due: u64 = queues[k].iter().filter(|a| a.from_ms <= ms).map(|a| a.left).sum();
                    sums[k] += due.min(room);
                    let heard = (due > 0).then_some(sums[k]);
                    planner.observe(k, Some(Duration::from_millis(way.rtt_ms)), heard, at(ms));
                }
                while let Some(head) = queues[k].front_mut().filter(|a| a.from_ms <= ms && room > 0) {
                    let bytes = head.left.min(room);
                    if !planner.is_over(k, head.id) {
                        let (_, new) = planner.received(k, head.id, bytes, at(ms));
                        new.into_iter().flatten().for_each(|n| arrived[n as usize] += 1);
                    }
                    (head.left, room) = (head.left - bytes, room - bytes);
                    if head.left == 0 || planner.is_over(k, head.id) {
                        planner.ended(k, head.id, at(ms));
                        queues[k].pop_front();
                    }
                }
                planner.check_stalls(at(ms));
                while let Some(claim) = planner.claim(k, at(ms)) {
                    let left = claim.range.end - claim.range.start;
                    queues[k].push_back(Answering { id: claim.id, from_ms: ms + way.rtt_ms, left });
                }
            }
            if planner.is_complete() {
                assert!(arrived.iter().all(|n| *n == 1), "each byte once");
                return Some((ms, planner));
            }
        }
        None
    }

    fn way(rate: u64, rtt_ms: u64) -> Way {
        Way { rate, rtt_ms, dies_ms: None, up_ms: 0 }
    }

    #[test]
    fn all_finish_together() {
        // Rates in kB/s: 20 and 20, 50 and 10, 50 and 1 Mbit/s.
        for ways in [[way(2500, 40), way(2500, 40)], [way(6250, 30), way(1250, 80)], [way(125, 30), way(6250, 30)]] {
            let total = 5_000_000;
            let (ms, planner) = simulate(total, &ways).unwrap();
            let ideal = total / ways.iter().map(|way| way.rate).sum::<u64>();
            let slack = ways.iter().map(|way| way.rtt_ms).max().unwrap() + 60;
            assert!(ms <= ideal + slack, "{ways:?}: {ms} ms, ideal {ideal} ms");
            assert!(planner.duplicate_bytes() < total / 10, "{ways:?}: {}", planner.duplicate_bytes());
        }
    }

    #[test]
    fn a_path_that_dies_is_replaced() {
        for dying in [0, 1] {
            let mut ways = [way(2500, 40), way(2500, 40)];
            ways[dying].dies_ms = Some(500);
            let (ms, _) = simulate(5_000_000, &ways).unwrap();
            assert!(ms <= 500 + 1000 + 500 + 100, "{ms} ms");
        }
    }

    proptest! {
        #[test]
        fn complete_while_a_path_lives(
            total in 1u64..3_000_000,
            ways in prop::collection::vec((1u64..8000, 1u64..300, prop::option::of(0u64..3000), 0u64..500), 1..4),
            survivor in (50u64..8000, 1u64..300),
            place in 0usize..3,
        ) {
            let mut ways: Vec<_> = ways
                .into_iter()
                .map(|(rate, rtt_ms, dies_ms, up_ms)| Way { rate, rtt_ms, dies_ms, up_ms })
                .collect();
            ways.insert(place.min(ways.len()), way(survivor.0, survivor.1));
            let (_, planner) = simulate(total, &ways).expect("complete");
            prop_assert!(planner.requests() < 2000, "{} requests", planner.requests());
        }
    }
}
