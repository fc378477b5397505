// SPDX-License-Identifier: Apache-2.0
//! The half of a session that sends: datagrams of the application for Interests of the other side, the lowest first.

use super::{Counts, Ecn, expand};
use crate::packet::{Header, MAX_PAYLOAD_BYTES, flags, time_of};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Datagrams that wait for Interests: at most so many bytes, and so long.
pub(super) const WAITING_BYTES: usize = 256_000;
pub(super) const WAITING_TIME: Duration = Duration::from_millis(200);
/// Sent segments are kept for so long and up to so many bytes (reliable): if one was the last for a while, the receiver
/// notices only when its Interest is due again, which at rest is after 2 s.
pub(super) const KEPT_BYTES: usize = 4_000_000;
pub(super) const KEPT_TIME: Duration = Duration::from_secs(5);
/// Limit of Interests held ahead of the segments sent.
pub(super) const AHEAD: u64 = 4096;
/// Ranges of segments that are known as passed over.
const PASSED: usize = 256;

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// Bytes of it that have left already, in earlier segments.
    sent_bytes: usize,
    ecn: Ecn,
    since: Instant,
}

#[derive(Debug)]
struct Kept {
    segment: u64,
    flags: u8,
    bytes: Vec<u8>,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct Sender {
    reliable: bool,
    /// Segments below were sent, or passed over: what comes later gets higher numbers, so that the receiver knows the order.
    next: u64,
    /// Ranges of those that were passed over, the newest at the end.
    passed: VecDeque<Range<u64>>,
    /// Interests by segment, and when they die in the switches on the way.
    held: BTreeMap<u64, Instant>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
}

/// Where Data goes: segment, flags, payload.
pub(super) type Send<'a> = dyn FnMut(u64, u8, &[u8]) + 'a;

impl Sender {
    pub(super) fn new(reliable: bool) -> Sender {
        Sender {
            reliable,
            next: 0,
            passed: VecDeque::new(),
            held: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// A datagram of the application: leaves at once where there are Interests for it, waits else.
    pub(super) fn datagram(&mut self, bytes: &[u8], ecn: Ecn, now: Instant, counts: &mut Counts, send: &mut Send) {
        let mut sent_bytes = 0;
        if self.waiting.is_empty() {
            while let Some(segment) = self.take_interest(now) {
                let end = bytes.len().min(sent_bytes + MAX_PAYLOAD_BYTES);
                let more = end < bytes.len();
                self.put(segment, self.flags_of(ecn, sent_bytes > 0, more, false), &bytes[sent_bytes..end], now, send);
                sent_bytes = end;
                if !more {
                    return;
                }
            }
        }
        counts.datagrams_waited += 1;
        self.waiting_bytes += cost(bytes);
        self.waiting.push_back(Waiting { bytes: bytes.to_vec(), sent_bytes, ecn, since: now });
        while self.waiting_bytes > WAITING_BYTES {
            self.drop_oldest(counts);
        }
    }

    /// An Interest of the other side: held until there is a datagram. One for what was sent or passed over is answered
    /// at once, with what was kept or without a datagram. Whether all that it asks for is too far ahead.
    pub(super) fn interest(&mut self, header: &Header, now: Instant, counts: &mut Counts, send: &mut Send) -> bool {
        // Dead in a switch after twice its lifetime (icn.md, PIT); it was there earlier than here.
        let dead_at = now + time_of(header.lifetime) * 7 / 4;
        let mut too_far = true;
        for wire in header.segments() {
            match expand(wire, self.next) {
                Some(segment) if segment < self.next => {
                    too_far = false;
                    self.answer_again(segment, counts, send);
                }
                Some(segment) if segment < self.next + AHEAD => {
                    too_far = false;
                    self.held.insert(segment, dead_at);
                }
                _ => counts.interests_refused += 1,
            }
        }
        self.give_waiting(now, send);
        too_far
    }

    /// Answers the lowest Interest without a datagram, if none was answered so far: then the other side knows that its Interests
    /// arrive, and asks for as much as it has credit for.
    pub(super) fn answer_first(&mut self, now: Instant, counts: &mut Counts, send: &mut Send) {
        if self.next == 0
            && let Some(segment) = self.take_interest(now)
        {
            self.passed.push_back(segment..segment + 1);
            counts.bare_sent += 1;
            send(segment, flags::BARE, &[]);
        }
    }

    fn give_waiting(&mut self, now: Instant, send: &mut Send) {
        while !self.waiting.is_empty() {
            let Some(segment) = self.take_interest(now) else { return };
            let Some(mut first) = self.waiting.pop_front() else { return };
            let start = first.sent_bytes;
            let end = first.bytes.len().min(start + MAX_PAYLOAD_BYTES);
            let more = end < first.bytes.len();
            self.put(segment, self.flags_of(first.ecn, start > 0, more, true), &first.bytes[start..end], now, send);
            if more {
                first.sent_bytes = end;
                self.waiting.push_front(first);
            } else {
                self.waiting_bytes -= cost(&first.bytes);
            }
        }
    }

    fn answer_again(&mut self, segment: u64, counts: &mut Counts, send: &mut Send) {
        let found = self.kept.binary_search_by_key(&segment, |kept| kept.segment);
        if let Ok(at) = found {
            let kept = &self.kept[at];
            counts.segments_resent += 1;
            send(segment, kept.flags, &kept.bytes);
        } else {
            counts.bare_sent += 1;
            let passed_over = self.passed.iter().rev().any(|range| range.contains(&segment));
            send(segment, if passed_over { flags::BARE } else { flags::BARE | flags::MORE }, &[]);
        }
    }

    fn flags_of(&self, ecn: Ecn, rest: bool, more: bool, waited: bool) -> u8 {
        let bit = |on: bool, flag: u8| if on { flag } else { 0 };
        // Reliable: queues mark all, so that the receiver can distinguish losses by congestion from those of the link.
        let unmarked = self.reliable && ecn == Ecn::Off;
        let ecn = if unmarked { flags::ECT | flags::DROP_IF_CE } else { ecn.bits() };
        ecn | bit(rest, flags::REST) | bit(more, flags::MORE) | bit(waited, flags::WAITED)
    }

    /// The lowest Interest that lives.
    fn take_interest(&mut self, now: Instant) -> Option<u64> {
        while let Some((segment, dead_at)) = self.held.pop_first() {
            if dead_at > now {
                if segment > self.next {
                    self.passed.push_back(self.next..segment);
                    if self.passed.len() > PASSED {
                        self.passed.pop_front();
                    }
                }
                self.next = segment + 1;
                return Some(segment);
            }
        }
        None
    }

    fn put(&mut self, segment: u64, flags: u8, bytes: &[u8], now: Instant, send: &mut Send) {
        send(segment, flags, bytes);
        if self.reliable {
            // A repetition says nothing about waiting.
            let flags = flags & !crate::packet::flags::WAITED;
            self.kept.push_back(Kept { segment, flags, bytes: bytes.to_vec(), at: now });
            self.kept_bytes += cost(bytes);
            while self.kept_bytes > KEPT_BYTES || self.kept.front().is_some_and(|kept| kept.at + KEPT_TIME <= now) {
                let Some(kept) = self.kept.pop_front() else { break };
                self.kept_bytes -= cost(&kept.bytes);
            }
        }
    }

    fn drop_oldest(&mut self, counts: &mut Counts) {
        if let Some(oldest) = self.waiting.pop_front() {
            self.waiting_bytes -= cost(&oldest.bytes);
            counts.datagrams_dropped += 1;
        }
    }

    /// When [`Sender::timeout`] is next of use.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.front().map(|first| first.since + WAITING_TIME);
        let kept = self.kept.back().map(|last| last.at + KEPT_TIME);
        waiting.into_iter().chain(kept).min()
    }

    pub(super) fn timeout(&mut self, now: Instant, counts: &mut Counts) {
        while self.waiting.front().is_some_and(|first| first.since + WAITING_TIME <= now) {
            self.drop_oldest(counts);
        }
        if self.kept.back().is_some_and(|last| last.at + KEPT_TIME <= now) {
            self.kept.clear();
            self.kept_bytes = 0;
        }
    }

    /// Waiting datagrams, for a session that takes this one's place. One that has left in part is lost.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = (Vec<u8>, Ecn)> {
        self.waiting.into_iter().filter(|waiting| waiting.sent_bytes == 0).map(|waiting| (waiting.bytes, waiting.ecn))
    }

    pub(super) fn check_budgets(&self) {
        assert!(self.waiting_bytes <= WAITING_BYTES && self.kept_bytes <= KEPT_BYTES);
        assert_eq!(self.waiting_bytes, self.waiting.iter().map(|w| cost(&w.bytes)).sum::<usize>());
        assert_eq!(self.kept_bytes, self.kept.iter().map(|k| cost(&k.bytes)).sum::<usize>());
        assert!(self.held.len() as u64 <= AHEAD && self.held.keys().all(|segment| *segment >= self.next));
    }
}

/// Cost of a datagram in the budgets: an empty one takes room too.
fn cost(bytes: &[u8]) -> usize {
    bytes.len().max(64)
}
