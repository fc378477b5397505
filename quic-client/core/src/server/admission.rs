// SPDX-License-Identifier: Apache-2.0
//! Decision for a datagram that belongs to none of the server's connections: whether it is answered, and whether state
//! is kept for the client. An address that was not validated may be forged, so the state kept for such addresses is
//! bounded.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// RFC 9000 14.1: a datagram with a client's Initial packet has at least so many bytes.
pub const LEAST_INITIAL_BYTES: usize = 1200;
/// RFC 9000 7.2: the connection ID that a client makes up for the server has at least so many bytes.
pub const LEAST_FIRST_DCID_BYTES: usize = 8;

/// The part of a long header that all versions of QUIC have (RFC 8999 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invariants<'a> {
    /// The version.
    pub version: u32,
    /// Destination connection ID.
    pub dcid: &'a [u8],
    /// Source connection ID.
    pub scid: &'a [u8],
}

impl<'a> Invariants<'a> {
    /// Reads them; `None` for a short header, and for a truncated packet.
    pub fn read(bytes: &'a [u8]) -> Option<Invariants<'a>> {
        let (first, rest) = bytes.split_first()?;
        if first & 0x80 == 0 {
            return None;
        }
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first()?;
        let (dcid, rest) = rest.split_at_checked((*len).into())?;
        let (len, rest) = rest.split_first()?;
        let (scid, _) = rest.split_at_checked((*len).into())?;
        Some(Invariants { version: u32::from_be_bytes(*version), dcid, scid })
    }

    /// Whether it asks for a version that is to be answered with a list of those there are (RFC 9000 6.1). Never in
    /// answer to such a list, which is what version 0 means.
    pub fn wants_negotiation(&self, datagram_bytes: usize, is_supported: impl FnOnce(u32) -> bool) -> bool {
        datagram_bytes >= LEAST_INITIAL_BYTES && self.version != 0 && !is_supported(self.version)
    }
}

/// When a client has to show that its address is its own before anything is kept for it (Retry, RFC 9000 8.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Under load.
    Auto,
    /// Always: a round trip more for each connection.
    Always,
    /// Never: forged addresses can use up all connections there may be.
    Never,
}

/// Bounds on the state that clients can make a server keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// When to ask for the address first.
    pub retry: RetryPolicy,
    /// The load from which `Auto` does so: handshakes of addresses not validated that are unfinished, or were begun
    /// within a second.
    pub retry_above: u32,
    /// Connections at once.
    pub connections: u32,
    /// Connections at once with one source, an IPv4 address or the /64 of an IPv6 one.
    pub connections_per_source: u32,
}

/// Decision for a client's first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A connection.
    Accept,
    /// It is asked to show that its address is its own.
    Retry,
    /// It is rejected: there are too many connections.
    Refuse,
    /// No answer.
    Drop,
}

/// Where a connection comes from, as far as connections are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(u64);

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Source {
        match ip.to_canonical() {
            // Global unicast addresses are below 0x4000..., link-local ones begin with 0xfe80: none begins with 0.
            IpAddr::V4(ip) => Source(u32::from(ip).into()),
            IpAddr::V6(ip) => Source((u128::from(ip) >> 64) as u64),
        }
    }
}

/// A leaky bucket: its level falls by `per_s` each second, and it is full at `per_s`.
#[derive(Debug)]
struct Bucket {
    level: f64,
    per_s: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_s: u32, now: Instant) -> Bucket {
        Bucket { level: 0.0, per_s: per_s.into(), at: now }
    }

    fn is_full(&mut self, now: Instant) -> bool {
        let past: Duration = now.saturating_duration_since(self.at);
        self.level = (self.level - past.as_secs_f64() * self.per_s).max(0.0);
        self.at = now;
        self.level + 1.0 > self.per_s
    }

    fn add(&mut self) {
        self.level += 1.0;
    }
}

/// Counts connections and handshakes, and decides by them.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    connections: u32,
    /// Handshakes that are unfinished, of addresses that were not validated.
    unvalidated: u32,
    begun: Bucket,
    refused: Bucket,
    reset: Bucket,
    by_source: BTreeMap<Source, u32>,
}

impl Admission {
    /// With no connections.
    pub fn new(limits: Limits, now: Instant) -> Admission {
        Admission {
            limits,
            connections: 0,
            unvalidated: 0,
            begun: Bucket::new(limits.retry_above, now),
            refused: Bucket::new(limits.retry_above.max(1), now),
            reset: Bucket::new(limits.retry_above.max(1), now),
            by_source: BTreeMap::new(),
        }
    }

    /// Decides on a client's first packet. `validated`: the client has shown that the address is its own.
    pub fn judge(&mut self, source: Source, validated: bool, now: Instant) -> Verdict {
        let busy = self.unvalidated >= self.limits.retry_above || self.begun.is_full(now);
        let retry = match self.limits.retry {
            RetryPolicy::Auto => busy,
            RetryPolicy::Always => true,
            RetryPolicy::Never => false,
        };
        if !validated && retry {
            return Verdict::Retry;
        }
        let of_source = self.by_source.get(&source).copied().unwrap_or(0);
        if self.connections >= self.limits.connections || of_source >= self.limits.connections_per_source {
            // A refusal needs the keys of a connection, so the number of refusals is bounded too.
            return if self.refused.is_full(now) { Verdict::Drop } else { Verdict::Refuse };
        }
        Verdict::Accept
    }

    /// Whether a stateless reset may be sent now, as many a second as refusals; it then counts.
    pub fn may_reset(&mut self, now: Instant) -> bool {
        let may = !self.reset.is_full(now);
        if may {
            self.reset.add();
        }
        may
    }

    /// A first packet was processed; `validated`: its address was. It need not have led to a connection.
    pub fn began(&mut self, verdict: Verdict, validated: bool) {
        if verdict == Verdict::Refuse {
            self.refused.add();
        }
        if !validated {
            self.begun.add();
        }
    }

    /// A connection was opened.
    pub fn opened(&mut self, source: Source, validated: bool) {
        self.connections += 1;
        self.unvalidated += u32::from(!validated);
        *self.by_source.entry(source).or_default() += 1;
    }

    /// The handshake of a connection whose address was not validated is done.
    pub fn validated(&mut self) {
        self.unvalidated = self.unvalidated.saturating_sub(1);
    }

    /// A connection has ended. `validated`: its address was, by now.
    pub fn closed(&mut self, source: Source, validated: bool) {
        self.connections = self.connections.saturating_sub(1);
        if !validated {
            self.validated();
        }
        if let Some(n) = self.by_source.get_mut(&source) {
            *n -= 1;
            if *n == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits =
        Limits { retry: RetryPolicy::Auto, retry_above: 4, connections: 8, connections_per_source: 6 };

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn open(a: &mut Admission, from: Source, validated: bool, now: Instant) -> Verdict {
        let verdict = a.judge(from, validated, now);
        if verdict == Verdict::Accept {
            a.began(verdict, validated);
            a.opened(from, validated);
        }
        verdict
    }

    #[test]
    fn invariants_of_any_version() {
        let bytes = [&[0xff, 0x6b, 0x33, 0x43, 0xcf, 2, 1, 2, 1, 9][..], &[0; 1200]].concat();
        let read = Invariants::read(&bytes).unwrap();
        assert_eq!(read, Invariants { version: 0x6b33_43cf, dcid: &[1, 2], scid: &[9] });
        assert!(read.wants_negotiation(1200, |v| v == 1) && !read.wants_negotiation(1199, |v| v == 1));
        assert!(!read.wants_negotiation(1200, |v| v == 0x6b33_43cf));
        let list = Invariants { version: 0, ..read };
        assert!(!list.wants_negotiation(1200, |_| false), "a list of versions is never answered");
        assert_eq!(Invariants::read(&bytes[..9]), None);
        assert_eq!(Invariants::read(&[0x40; 30]), None);
    }

    #[test]
    fn load_brings_retry_and_passes() {
        let now = Instant::now();
        let (mut a, one) = (Admission::new(LIMITS, now), source("192.0.2.1"));
        for _ in 0..4 {
            assert_eq!(open(&mut a, one, false, now), Verdict::Accept);
        }
        assert_eq!(open(&mut a, one, false, now), Verdict::Retry);
        assert_eq!(open(&mut a, one, true, now), Verdict::Accept);
        // Unfinished handshakes are a load however old they are.
        let later = now + Duration::from_secs(60);
        assert_eq!(a.judge(one, false, later), Verdict::Retry);
        a.validated();
        assert_eq!(a.judge(one, false, later), Verdict::Accept);
    }

    #[test]
    fn what_leads_to_no_connection_is_a_load_too() {
        let now = Instant::now();
        let (mut a, one) = (Admission::new(LIMITS, now), source("192.0.2.1"));
        for _ in 0..4 {
            let verdict = a.judge(one, false, now);
            assert_eq!(verdict, Verdict::Accept);
            a.began(verdict, false);
        }
        assert_eq!(a.judge(one, false, now), Verdict::Retry);
        assert_eq!(a.judge(one, false, now + Duration::from_secs(1)), Verdict::Accept);
    }

    #[test]
    fn caps_in_all_and_of_a_source() {
        let now = Instant::now();
        let mut a = Admission::new(Limits { retry: RetryPolicy::Never, ..LIMITS }, now);
        let (one, other, third) = (source("2001:db8::1"), source("2001:db8::ffff:2"), source("2001:db8:0:1::1"));
        assert!(one == other && one != third && source("::ffff:192.0.2.1") == source("192.0.2.1"));
        for _ in 0..6 {
            assert_eq!(open(&mut a, one, false, now), Verdict::Accept);
        }
        assert_eq!(a.judge(other, false, now), Verdict::Refuse);
        for _ in 0..2 {
            assert_eq!(open(&mut a, third, true, now), Verdict::Accept);
        }
        assert_eq!(a.judge(source("192.0.2.7"), true, now), Verdict::Refuse);
        for _ in 0..4 {
            a.began(Verdict::Refuse, true);
        }
        assert_eq!(a.judge(third, true, now), Verdict::Drop);
        a.closed(one, false);
        assert_eq!(a.judge(third, true, now), Verdict::Accept);
    }

    proptest! {
        #[test]
        fn any_bytes_as_a_header(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(read) = Invariants::read(&bytes) {
                prop_assert!(read.dcid.len() + read.scid.len() + 7 <= bytes.len());
            }
        }

        // In any order of arrivals and departures no bound is passed, and nothing is left behind.
        #[test]
        fn bounds_hold(steps in prop::collection::vec((any::<bool>(), 0u8..4, any::<bool>(), 0u64..400), 0..300)) {
            let mut now = Instant::now();
            let mut a = Admission::new(LIMITS, now);
            let mut there: Vec<(Source, bool)> = Vec::new();
            for (come, host, validated, ms) in steps {
                now += Duration::from_millis(ms);
                let from = Source(host.into());
                if come {
                    if open(&mut a, from, validated, now) == Verdict::Accept {
                        there.push((from, validated));
                    }
                } else if let Some((from, validated)) = there.pop() {
                    a.closed(from, validated);
                }
                prop_assert_eq!(a.connections as usize, there.len());
                prop_assert!(a.connections <= LIMITS.connections && a.unvalidated <= LIMITS.retry_above);
                prop_assert!(a.by_source.values().all(|n| *n <= LIMITS.connections_per_source));
            }
            while let Some((from, validated)) = there.pop() {
                a.closed(from, validated);
            }
            prop_assert!(a.by_source.is_empty() && a.unvalidated == 0);
        }
    }
}
