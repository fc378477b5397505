// SPDX-License-Identifier: Apache-2.0
//! An edge cache: Data that it asked for itself, by name and segment. It has no keys and can't check what it keeps;
//! receivers do, and ask with the flag `FRESH` for what they found wrong.

use super::lru::Lru;
use crate::packet::{FIRST_HOP_LIMIT, Header, Kind, flags, grouped, time_of};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// What is asked again is passed on so much later. The switch that asked sent it here a moment ago, and would take ours for
/// one that can be joined; its shortest lifetime is 1 ms.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// What it asks for and has no answer to; further Interests are not passed on.
const MOST_PENDING: usize = 65_536;

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments that were asked of it.
    pub asked: u64,
    /// Of these, those it had.
    pub hits: u64,
    /// Of these, those that were asked for past it.
    pub fresh: u64,
    /// Interests it sent for what it did not have.
    pub passed_on: u64,
    /// Segments that it asked for already.
    pub pending: u64,
    /// Segments dropped because too many were pending.
    pub refused: u64,
    /// Data that it kept.
    pub kept: u64,
    /// Data that it had not asked for.
    pub unasked: u64,
    /// Entries that went because the memory was full.
    pub evicted: u64,
}

#[derive(Debug)]
struct Entry {
    header: Header,
    payload: Vec<u8>,
}

type Key = (u64, u32);

/// The cache.
#[derive(Debug)]
pub struct Cache {
    entries: Lru<Key, Entry>,
    // Until when an Interest of ours is out.
    pending: BTreeMap<Key, Instant>,
    by_time: BTreeSet<(Instant, Key)>,
    // What is passed on later, in the order of time.
    later: VecDeque<(Instant, Header)>,
    /// What happened so far.
    pub counts: Counts,
}

impl Cache {
    /// Empty; it will hold at most `most_bytes`.
    pub fn new(most_bytes: u64) -> Cache {
        Cache {
            entries: Lru::new(most_bytes),
            pending: BTreeMap::new(),
            by_time: BTreeSet::new(),
            later: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// What it holds, in bytes, and how many segments.
    pub fn held(&self) -> (u64, usize) {
        (self.entries.bytes(), self.entries.len())
    }

    /// Another's Interest came: what there is, is answered; for the rest an Interest of ours goes out.
    pub fn interest(&mut self, header: &Header, now: Instant, mut send: impl FnMut(&Header, &[u8])) {
        while let Some(&(until, key)) = self.by_time.first()
            && until <= now
        {
            self.by_time.pop_first();
            self.pending.remove(&key);
        }
        let fresh = header.has(flags::FRESH);
        let mut missing = Vec::new();
        // In the order of the numbers, for the grouping; a name never wraps.
        for segment in header.segments().filter(|s| *s >= header.segment) {
            self.counts.asked += 1;
            let key = (header.name, segment);
            if fresh {
                self.counts.fresh += 1;
            } else if let Some(entry) = self.entries.get(&key) {
                self.counts.hits += 1;
                send(&entry.header, &entry.payload);
                continue;
            }
            if self.pending.len() >= MOST_PENDING {
                self.counts.refused += 1;
                continue;
            }
            // Twice the lifetime, as in a switch.
            let until = now + time_of(header.lifetime) * 2;
            // Whoever asks again has waited long enough, or heard nothing: it is passed on.
            let again = self.pending.insert(key, until);
            self.by_time.insert((until, key));
            match again {
                Some(old) => {
                    if old != until {
                        self.by_time.remove(&(old, key));
                    }
                    // Its lifetime is the shortest there is: whoever asked has waited.
                    let interest = Header { segment, holes: 0, lifetime: 1, ..*header };
                    self.later.push_back((now + AGAIN_AFTER, interest));
                }
                None => missing.push(u64::from(segment)),
            }
        }
        grouped(missing, |first, holes| {
            self.counts.passed_on += 1;
            pass_on(&Header { segment: first as u32, holes, ..*header }, &mut send);
        });
    }

    /// When [`Cache::turn`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.later.front().map(|(at, _)| *at)
    }

    /// Passes on what was asked again, and has not come meanwhile.
    pub fn turn(&mut self, now: Instant, mut send: impl FnMut(&Header, &[u8])) {
        while let Some((at, interest)) = self.later.front().copied()
            && at <= now
        {
            self.later.pop_front();
            if self.pending.contains_key(&(interest.name, interest.segment)) {
                self.counts.passed_on += 1;
                pass_on(&interest, &mut send);
            }
        }
    }

    /// Data came. It is kept if it was asked for.
    pub fn data(&mut self, header: &Header, payload: &[u8], now: Instant) {
        let key = (header.name, header.segment);
        match self.pending.remove(&key) {
            Some(until) if header.kind == Kind::Data => {
                self.by_time.remove(&(until, key));
                if until < now {
                    self.counts.unasked += 1;
                    return;
                }
            }
            _ => {
                self.counts.unasked += 1;
                return;
            }
        }
        self.counts.kept += 1;
        // Its mark and how far ahead others ask were true when it came, and are not later.
        let header = Header { flags: header.flags & !flags::CE, hop_limit: FIRST_HOP_LIMIT, lifetime: 0, ..*header };
        let entry = Entry { header, payload: payload.to_vec() };
        self.counts.evicted += self.entries.insert(key, entry, payload.len() as u64);
    }

    /// A Nack came: what it is for is no longer out.
    pub fn nack(&mut self, header: &Header) {
        let key = (header.name, header.segment);
        if let Some(until) = self.pending.remove(&key) {
            self.by_time.remove(&(until, key));
        }
    }
}

/// With the hop limit used up two caches that ask each other stop.
fn pass_on(interest: &Header, send: &mut impl FnMut(&Header, &[u8])) {
    let hop_limit = interest.hop_limit.saturating_sub(1);
    if hop_limit > 0 {
        send(&Header { hop_limit, ..*interest }, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Name;
    use proptest::prelude::*;
    use std::time::Duration;

    fn name() -> Name {
        Name::new("/a/~1").unwrap()
    }

    fn ask(cache: &mut Cache, segment: u32, holes: u16, fresh: bool, now: Instant) -> Vec<(Header, Vec<u8>)> {
        let mut out = Vec::new();
        let flags = if fresh { flags::FRESH } else { 0 };
        let header = Header { holes, flags, ..Header::interest(&name(), segment, 400) };
        cache.interest(&header, now, |h, p| out.push((*h, p.to_vec())));
        out
    }

    #[test]
    fn what_it_asked_for_is_kept_and_nothing_else() {
        let (mut cache, now) = (Cache::new(100_000), Instant::now());
        let data = |segment| Header { epoch: 3, ..Header::data(&name(), segment, flags::ECT | flags::CE) };
        cache.data(&data(1), b"forged", now);
        let out = ask(&mut cache, 1, 0b101, false, now);
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].0.kind, out[0].0.segment, out[0].0.holes), (Kind::Interest, 1, 0b101));
        cache.data(&data(1), b"one", now);
        cache.data(&data(1), b"again", now);
        let out = ask(&mut cache, 1, 0b010, false, now);
        assert_eq!(out[0], (Header { flags: flags::ECT, ..data(1) }, b"one".to_vec()));
        assert_eq!((out[1].0.kind, out[1].0.segment, out[1].0.holes), (Kind::Interest, 3, 0));
        assert_eq!((cache.counts.hits, cache.counts.unasked), (1, 2));
    }

    #[test]
    fn fresh_interests_go_past_it_and_replace_what_it_has() {
        let (mut cache, now) = (Cache::new(100_000), Instant::now());
        ask(&mut cache, 1, 0, false, now);
        cache.data(&Header::data(&name(), 1, 0), b"forged", now);
        let out = ask(&mut cache, 1, 0, true, now);
        assert!(out.len() == 1 && out[0].0.kind == Kind::Interest && out[0].0.has(flags::FRESH));
        // Asked once more before the answer: passed on a little later, unless it came.
        assert!(ask(&mut cache, 1, 0, true, now).is_empty());
        let mut later = Vec::new();
        cache.turn(now, |h, _| later.push(*h));
        assert!(later.is_empty());
        cache.turn(cache.deadline().unwrap(), |h, _| later.push(*h));
        assert!(later.len() == 1 && later[0].lifetime == 1 && cache.deadline().is_none());
        cache.data(&Header::data(&name(), 1, 0), b"right", now);
        assert_eq!(ask(&mut cache, 1, 0, false, now)[0].1, b"right");
    }

    #[test]
    fn two_caches_that_ask_each_other_stop() {
        let (mut a, mut b, now) = (Cache::new(1000), Cache::new(1000), Instant::now());
        let (mut header, mut passed) = (Header::interest(&name(), 1, 400), 0);
        loop {
            let mut next = None;
            let cache = if passed % 2 == 0 { &mut a } else { &mut b };
            cache.interest(&header, now, |h, _| next = Some(*h));
            let Some(interest) = next else { break };
            (header, passed) = (interest, passed + 1);
        }
        assert!(passed <= 64);
    }

    proptest! {
        #[test]
        fn its_memory_is_bounded(steps in prop::collection::vec((0u32..200, 0u16..8, 0usize..1400), 0..300)) {
            let (mut cache, mut now) = (Cache::new(20_000), Instant::now());
            for (segment, holes, bytes) in steps {
                now += Duration::from_millis(10);
                ask(&mut cache, segment, holes, false, now);
                cache.data(&Header::data(&name(), segment, 0), &vec![0; bytes], now);
                prop_assert!(cache.held().0 <= 20_000);
                prop_assert_eq!(cache.pending.len(), cache.by_time.len());
                prop_assert!(cache.pending.len() <= 41 * 4);
            }
        }
    }
}
