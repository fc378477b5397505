// SPDX-License-Identifier: Apache-2.0
//! [`Link`]: the state of one connection of an aggregated download: its segments and its measured rate.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Round-trip time that is assumed before one was measured.
const DEFAULT_RTT: Duration = Duration::from_millis(100);
/// Payload of a server's initial window (RFC 9002 7.2), which it sends in the first round trip of an answer.
const INITIAL_WINDOW_BYTES: f64 = 12_000.0;

/// Bytes that were requested on a connection and are still to arrive on one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Number of the request.
    pub id: u64,
    /// Offset of the next byte to arrive.
    pub next: u64,
    /// End of the bytes that the connection is to deliver. Another connection may have got the rest.
    pub end: u64,
    /// End of the bytes that were requested.
    pub stop: u64,
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    /// Its handshake is done, and it has not failed.
    pub is_up: bool,
    /// Nothing arrives on it although bytes are due.
    pub is_stalled: bool,
    /// In the order of their requests, which is also the order of arrival at most servers.
    pub segments: Vec<Segment>,
    /// Bytes that arrived on it first.
    pub accepted_bytes: u64,
    /// Stream bytes that arrived, in any order.
    arrived_bytes: u64,
    /// Those of them that are not payload to be read.
    other_bytes: u64,
    /// Payload that was read.
    read_bytes: u64,
    rtt: Duration,
    rate: Rate,
    /// When a packet last arrived.
    heard: Instant,
    /// Since when nothing is requested on it.
    idle_since: Option<Instant>,
    /// When data last arrived, or the first request since was sent.
    progress: Instant,
}

/// Delivery rate: an average of rates over about a round trip each.
#[derive(Debug, Default)]
struct Rate {
    bytes_s: Option<f64>,
    window: Option<(Instant, u64)>,
}

impl Rate {
    /// Shortest window: packets of a burst arrive together.
    const LEAST_WINDOW: Duration = Duration::from_millis(40);

    fn received(&mut self, bytes: u64, now: Instant, rtt: Duration) {
        let Some((start, sum)) = &mut self.window else {
            // The first bytes begin the window, and are not counted in it.
            self.window = Some((now, 0));
            return;
        };
        *sum += bytes;
        let elapsed = now.saturating_duration_since(*start);
        if elapsed >= rtt.max(Rate::LEAST_WINDOW) {
            let sample = *sum as f64 / elapsed.as_secs_f64();
            self.bytes_s = Some(self.bytes_s.map_or(sample, |rate| 0.5 * rate + 0.5 * sample));
            self.window = Some((now, 0));
        }
    }
}

impl Link {
    /// A connection without requests.
    pub fn new(now: Instant) -> Link {
        Link {
            is_up: false,
            is_stalled: false,
            segments: Vec::new(),
            accepted_bytes: 0,
            arrived_bytes: 0,
            other_bytes: 0,
            read_bytes: 0,
            rtt: DEFAULT_RTT,
            rate: Rate::default(),
            heard: now,
            idle_since: None,
            progress: now,
        }
    }

    /// Bytes that it is to deliver.
    pub fn outstanding_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.end.saturating_sub(s.next)).sum()
    }

    /// Delivery rate in bytes a second, at least a byte. It falls while less arrives.
    pub fn rate_bytes_s(&self, now: Instant) -> f64 {
        let initial = INITIAL_WINDOW_BYTES / self.rtt.as_secs_f64().max(1e-3);
        let measured = self.rate.bytes_s.unwrap_or(initial).max(1.0);
        match self.rate.window {
            Some((start, bytes)) if self.outstanding_bytes() > 0 => {
                let elapsed = now.saturating_duration_since(start);
                let bound = (bytes as f64 + INITIAL_WINDOW_BYTES / 10.0) / elapsed.as_secs_f64().max(1e-3);
                if elapsed > self.rtt.max(Rate::LEAST_WINDOW) * 2 { measured.min(bound.max(1.0)) } else { measured }
            }
            _ => measured,
        }
    }

    /// Whether its rate was measured.
    pub fn is_measured(&self) -> bool {
        self.rate.bytes_s.is_some()
    }

    /// Round-trip time.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Outstanding bytes that have not arrived. Others wait for a lost packet before them.
    pub fn remaining_bytes(&self) -> u64 {
        let unread = self.arrived_bytes.saturating_sub(self.other_bytes + self.read_bytes);
        self.outstanding_bytes().saturating_sub(unread)
    }

    /// Seconds until its outstanding bytes have arrived.
    pub fn finish_s(&self, now: Instant) -> f64 {
        self.remaining_bytes() as f64 / self.rate_bytes_s(now)
    }

    /// Whether nothing was requested on it for some time, in which a connection of equal rate would have finished too.
    pub fn is_idle(&self, now: Instant) -> bool {
        let patience = self.rtt / 4 + Duration::from_millis(10);
        self.outstanding_bytes() == 0 && self.idle_since.is_none_or(|t| now.saturating_duration_since(t) >= patience)
    }

    /// A packet arrived, or its round-trip time was measured. `arrived_bytes`: stream bytes that arrived so far.
    pub fn observe(&mut self, rtt: Option<Duration>, arrived_bytes: Option<u64>, now: Instant) {
        self.rtt = rtt.unwrap_or(self.rtt);
        let Some(arrived) = arrived_bytes else { return };
        self.heard = now;
        let new = arrived.saturating_sub(std::mem::replace(&mut self.arrived_bytes, arrived));
        if new > 0 && !self.segments.is_empty() {
            self.progress = now;
            self.rate.received(new, now, self.rtt);
        }
    }

    /// A request for these bytes was sent.
    pub fn requested(&mut self, id: u64, range: Range<u64>, now: Instant) {
        if self.outstanding_bytes() == 0 {
            // A pause is not part of the rate.
            self.rate.window = None;
            (self.heard, self.progress) = (now, now);
        }
        self.idle_since = None;
        self.segments.push(Segment { id, next: range.start, end: range.end, stop: range.end });
    }

    /// A request has ended. The rest of its answer may still arrive, and is not read.
    pub fn discarded(&mut self) {
        self.other_bytes = self.arrived_bytes.saturating_sub(self.read_bytes);
    }

    /// Something was delivered, ended or taken away.
    pub fn changed(&mut self, now: Instant) {
        if self.outstanding_bytes() == 0 {
            self.idle_since.get_or_insert(now);
        }
    }

    /// Payload was read.
    pub fn received(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }

    /// When it stalls, if nothing arrives until then: after about three probe timeouts without a packet (RFC 9002 6.2), or a
    /// longer time without data.
    pub fn stalls_at(&self) -> Option<Instant> {
        const NO_DATA_LEAST: Duration = Duration::from_secs(2);
        if !self.is_up || self.is_stalled || self.segments.is_empty() {
            return None;
        }
        Some(self.silent_at().min(self.progress + (self.probes() * 3).max(NO_DATA_LEAST)))
    }

    /// When it counts as silent, if no packet arrives until then.
    pub fn silent_at(&self) -> Instant {
        const LEAST: Duration = Duration::from_millis(300);
        self.heard + self.probes().max(LEAST)
    }

    /// About three probe timeouts.
    fn probes(&self) -> Duration {
        (self.rtt * 2 + Duration::from_millis(26)) * 3
    }
}
