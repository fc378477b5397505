// SPDX-License-Identifier: Apache-2.0
//! An edge cache: Data that it asked for itself, by name and segment. It has no keys and can't check what it keeps;
//! receivers do, and ask with the flag `FRESH` for what they found wrong.

use super::lru::Lru;
use crate::packet::{FIRST_HOP_LIMIT, Header, Kind, flags, grouped, lifetime_of, time_of};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Delay of passing on a repeated Interest, at least. The switch that asked sent it here a moment ago, and would take
/// ours for one that can be joined; its shortest lifetime is 1 ms.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// The longest response time is that of the last one to two of these.
const SLOWEST_FOR: Duration = Duration::from_secs(2);

/// Questions that are out; the oldest gives way to a new one.
const MOST_PENDING: usize = 65_536;
/// Of these, those of one prefix: beyond, its own oldest gives way.
const MOST_OF_PREFIX: usize = MOST_PENDING / 2;
/// A question is kept no longer, whatever lifetime its Interest has.
const LONGEST_PENDING: Duration = Duration::from_secs(8);

/// Counters.
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
    /// Segments that it had asked for already, and had no answer to.
    pub pending: u64,
    /// Questions that gave way to newer ones.
    pub displaced: u64,
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

/// Prefix, name, segment: what is asked by another prefix is another question, as in a switch.
type Key = (u64, u64, u32);

fn key_of(header: &Header, segment: u32) -> Key {
    (header.prefix, header.name, segment)
}

/// One of our outstanding Interests.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// When it was passed on last.
    asked: Instant,
    /// When it was asked first.
    born: Instant,
    /// Until when there may be an answer.
    until: Instant,
    /// When it is to be passed on again.
    again_at: Option<Instant>,
    /// It was passed on again: its answer's time is no sample (Karn).
    unclear: bool,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    entries: Lru<Key, Entry>,
    pending: BTreeMap<Key, Pending>,
    by_time: BTreeSet<(Instant, Key)>,
    /// The oldest first: of all, and of each prefix.
    by_age: BTreeSet<(Instant, Key)>,
    by_prefix: BTreeSet<(u64, Instant, Key)>,
    of_prefix: HashMap<u64, usize>,
    // Interests to pass on later.
    later: BTreeMap<(Instant, Key), Header>,
    // The longest response time of late.
    slowest: [Duration; 2],
    slowest_since: Option<Instant>,
    /// Counters so far.
    pub counts: Counts,
}

impl Cache {
    /// Empty; it will hold at most `most_bytes`.
    pub fn new(most_bytes: u64) -> Cache {
        Cache {
            entries: Lru::new(most_bytes),
            pending: BTreeMap::new(),
            by_time: BTreeSet::new(),
            by_age: BTreeSet::new(),
            by_prefix: BTreeSet::new(),
            of_prefix: HashMap::new(),
            later: BTreeMap::new(),
            slowest: [Duration::ZERO; 2],
            slowest_since: None,
            counts: Counts::default(),
        }
    }

    /// Size of its content in bytes, and number of segments.
    pub fn held(&self) -> (u64, usize) {
        (self.entries.bytes(), self.entries.len())
    }

    /// For fuzzers and tests: what arrives makes it hold no more than it may.
    ///
    /// # Panics
    /// It does.
    pub fn check_budgets(&self, most_bytes: u64) {
        assert!(self.entries.bytes() <= most_bytes, "{} bytes", self.entries.bytes());
        assert!(self.pending.len() <= MOST_PENDING, "{} questions", self.pending.len());
        let indexes = [self.by_time.len(), self.by_age.len(), self.by_prefix.len(), self.of_prefix.values().sum()];
        assert_eq!(indexes, [self.pending.len(); 4]);
        assert!(self.of_prefix.values().all(|of| (1..=MOST_OF_PREFIX).contains(of)));
        assert!(self.later.len() <= self.pending.len(), "{} to pass on later", self.later.len());
    }

    /// Another's Interest came: what there is, is answered; for the rest our own Interest goes out.
    pub fn interest(&mut self, header: &Header, now: Instant, mut send: impl FnMut(&Header, &[u8])) {
        while let Some(&(until, key)) = self.by_time.first()
            && until <= now
        {
            self.drop_question(&key);
        }
        let fresh = header.has(flags::FRESH);
        let mut missing = Vec::new();
        // In the order of the numbers, for the grouping; a name never wraps.
        for segment in header.segments().filter(|s| *s >= header.segment) {
            self.counts.asked += 1;
            let key = key_of(header, segment);
            if fresh {
                self.counts.fresh += 1;
            } else if let Some(entry) = self.entries.get(&key) {
                self.counts.hits += 1;
                send(&entry.header, &entry.payload);
                continue;
            }
            // Twice the lifetime, as in a switch.
            let until = now + (time_of(header.lifetime) * 2).min(LONGEST_PENDING);
            let known = self.pending.get(&key).copied();
            let until = known.map_or(until, |known| until.max(known.until));
            let Some(known) = known else {
                self.make_room(key.0);
                self.put(key, Pending { asked: now, born: now, until, again_at: None, unclear: false });
                missing.push(u64::from(segment));
                continue;
            };
            self.counts.pending += 1;
            if known.until != until {
                self.by_time.remove(&(known.until, key));
                self.by_time.insert((until, key));
            }
            let again_at = self.pass_on_later(key, &known, &Header { segment, ..*header }, now);
            self.pending.insert(key, Pending { until, again_at: Some(again_at), ..known });
        }
        grouped(missing, |first, holes| {
            self.counts.passed_on += 1;
            pass_on(&Header { segment: first as u32, holes, ..*header }, &mut send);
        });
    }

    /// Somebody asks for what is out. Those who take it for lost know less than the cache, which has seen how long answers
    /// take: they may have seen only answers that others had asked for. So it waits for as long. When it passes it on.
    fn pass_on_later(&mut self, key: Key, known: &Pending, interest: &Header, now: Instant) -> Instant {
        let slowest = self.slowest[0].max(self.slowest[1]);
        let at = known.again_at.unwrap_or((now + AGAIN_AFTER).max(known.asked + slowest * 9 / 8));
        // The switch beside it counts from now.
        let lifetime = lifetime_of(at.saturating_duration_since(now) * 7 / 8);
        self.later.insert((at, key), Header { holes: 0, lifetime, ..*interest });
        at
    }

    /// When [`Cache::turn`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// Passes on what was asked again, and has not come meanwhile.
    pub fn turn(&mut self, now: Instant, mut send: impl FnMut(&Header, &[u8])) {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let (_, key) = *entry.key();
            let interest = entry.remove();
            if let Some(pending) = self.pending.get_mut(&key) {
                // Asked once more, it is passed on once more.
                *pending = Pending { asked: now, again_at: None, unclear: true, ..*pending };
                self.counts.passed_on += 1;
                pass_on(&interest, &mut send);
            }
        }
    }

    /// Data came. It is kept if it was asked for.
    pub fn data(&mut self, header: &Header, payload: &[u8], now: Instant) {
        let key = key_of(header, header.segment);
        match self.drop_question(&key) {
            Some(pending) if header.kind == Kind::Data => {
                if pending.until < now {
                    self.counts.unasked += 1;
                    return;
                }
                if !pending.unclear {
                    self.took(now.saturating_duration_since(pending.asked), now);
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
        self.drop_question(&key_of(header, header.segment));
    }

    /// A new question.
    fn put(&mut self, key: Key, pending: Pending) {
        self.by_time.insert((pending.until, key));
        self.by_age.insert((pending.born, key));
        self.by_prefix.insert((key.0, pending.born, key));
        *self.of_prefix.entry(key.0).or_default() += 1;
        self.pending.insert(key, pending);
    }

    /// A question is no longer out.
    fn drop_question(&mut self, key: &Key) -> Option<Pending> {
        let pending = self.pending.remove(key)?;
        self.by_time.remove(&(pending.until, *key));
        self.by_age.remove(&(pending.born, *key));
        self.by_prefix.remove(&(key.0, pending.born, *key));
        if let Some(of) = self.of_prefix.get_mut(&key.0) {
            *of -= 1;
            if *of == 0 {
                self.of_prefix.remove(&key.0);
            }
        }
        if let Some(at) = pending.again_at {
            self.later.remove(&(at, *key));
        }
        Some(pending)
    }

    /// There is room for one more question of this prefix.
    fn make_room(&mut self, prefix: u64) {
        let oldest = if self.of_prefix.get(&prefix).is_some_and(|of| *of >= MOST_OF_PREFIX) {
            let from = (prefix, self.by_age.first().map_or_else(Instant::now, |(born, _)| *born), (0, 0, 0));
            self.by_prefix.range(from..).next().map(|(_, _, key)| *key)
        } else if self.pending.len() >= MOST_PENDING {
            self.by_age.first().map(|(_, key)| *key)
        } else {
            None
        };
        if let Some(oldest) = oldest {
            self.counts.displaced += 1;
            self.drop_question(&oldest);
        }
    }

    /// An answer took so long.
    fn took(&mut self, time: Duration, now: Instant) {
        if now.saturating_duration_since(*self.slowest_since.get_or_insert(now)) >= SLOWEST_FOR {
            (self.slowest, self.slowest_since) = ([Duration::ZERO, self.slowest[0]], Some(now));
        }
        self.slowest[0] = self.slowest[0].max(time);
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
        // It is younger than that for the switch, which forwarded the other one a moment before.
        assert!(later.len() == 1 && time_of(later[0].lifetime) < AGAIN_AFTER && cache.deadline().is_none());
        cache.data(&Header::data(&name(), 1, 0), b"right", now);
        assert_eq!(ask(&mut cache, 1, 0, false, now)[0].1, b"right");
    }

    #[test]
    fn a_flood_of_questions_does_not_keep_new_ones_out() {
        let (mut cache, now) = (Cache::new(100_000), Instant::now());
        let flood = |cache: &mut Cache, first: u32, prefix: u64, at: Instant| {
            for i in 0..5000 {
                let interest = Header::interest(&name(), (first + i) * 17, u16::MAX);
                cache.interest(&Header { prefix, holes: u16::MAX, ..interest }, at, |_, _| ());
            }
            cache.check_budgets(100_000);
        };
        // Of one prefix, and of many.
        flood(&mut cache, 0, 1, now);
        assert_eq!(cache.pending.len(), MOST_OF_PREFIX);
        (2..6).for_each(|prefix| flood(&mut cache, 0, prefix, now + Duration::from_millis(prefix)));
        assert_eq!(cache.pending.len(), MOST_PENDING);
        let later = now + Duration::from_secs(1);
        assert_eq!(ask(&mut cache, 1, 0, false, later).len(), 1);
        cache.data(&Header::data(&name(), 1, 0), b"one", later);
        assert_eq!((cache.counts.kept, ask(&mut cache, 1, 0, false, later)[0].1.as_slice()), (1, &b"one"[..]));
        // No lifetime keeps a question for long.
        ask(&mut cache, 2, 0, false, now + LONGEST_PENDING + Duration::from_secs(1));
        assert_eq!(cache.pending.len(), 1);
        cache.check_budgets(100_000);
    }

    #[test]
    fn what_is_asked_again_too_soon_waits_as_long_as_answers_take() {
        let (mut cache, start) = (Cache::new(100_000), Instant::now());
        let ms = Duration::from_millis;
        ask(&mut cache, 1, 0, false, start);
        cache.data(&Header::data(&name(), 1, 0), b"one", start + ms(80));
        let asked = start + ms(100);
        ask(&mut cache, 2, 0, false, asked);
        assert!(ask(&mut cache, 2, 0, false, asked + ms(5)).is_empty());
        assert_eq!(cache.deadline(), Some(asked + ms(90)));
        // Another asks: the switch counts from then.
        assert!(ask(&mut cache, 2, 0, false, asked + ms(50)).is_empty());
        assert_eq!(cache.deadline(), Some(asked + ms(90)));
        let mut later = Vec::new();
        cache.turn(asked + ms(90), |h, _| later.push(*h));
        assert_eq!(later.len(), 1);
        let lifetime = time_of(later[0].lifetime);
        assert!(lifetime > ms(30) && lifetime < ms(40), "{lifetime:?}");
        // Data that come meanwhile are not asked for again.
        ask(&mut cache, 3, 0, false, asked);
        ask(&mut cache, 3, 0, false, asked + ms(5));
        cache.data(&Header::data(&name(), 3, 0), b"three", asked + ms(70));
        assert_eq!(cache.deadline(), None);
        cache.turn(asked + ms(200), |h, _| later.push(*h));
        assert_eq!((later.len(), cache.counts.pending), (1, 3));
    }

    #[test]
    fn what_is_asked_a_thousand_times_is_passed_on_once() {
        let (mut cache, now) = (Cache::new(100_000), Instant::now());
        assert_eq!(ask(&mut cache, 1, 0xffff, false, now).len(), 1);
        for _ in 0..1000 {
            assert!(ask(&mut cache, 1, 0xffff, false, now).is_empty());
        }
        let mut later = Vec::new();
        cache.turn(now + AGAIN_AFTER, |h, _| later.push(h.segment));
        assert_eq!(later, (1..=17).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_asked_by_a_wrong_prefix_answers_nobody_else() {
        let (mut cache, now) = (Cache::new(100_000), Instant::now());
        let (mut asked, mut given) = (Header::interest(&name(), 1, 400), Header::data(&name(), 1, 0));
        (asked.prefix, given.prefix) = (7, 7);
        cache.interest(&asked, now, |_, _| ());
        cache.data(&given, b"elsewhere", now);
        assert_eq!(cache.counts.kept, 1);
        let out = ask(&mut cache, 1, 0, false, now);
        assert_eq!((out.len(), out[0].0.kind), (1, Kind::Interest));
        cache.data(&given, b"elsewhere", now);
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

    #[test]
    fn of_one_prefix_it_asks_for_a_part_at_once_and_the_oldest_gives_way() {
        let (mut cache, now) = (Cache::new(20_000), Instant::now());
        let most = MOST_OF_PREFIX as u32;
        let mut asked = 0;
        for segment in (0..most + 170).step_by(17) {
            assert_eq!(ask(&mut cache, segment, 0xffff, false, now + Duration::from_micros(segment.into())).len(), 1);
            asked += 17;
        }
        cache.check_budgets(20_000);
        assert_eq!((cache.pending.len(), cache.counts.asked), (MOST_OF_PREFIX, asked));
        assert_eq!(cache.counts.displaced, asked - u64::from(most));
        let later = now + time_of(400) * 2 + Duration::from_secs(1);
        assert_eq!(ask(&mut cache, most + 500, 0b1, false, later).len(), 1);
        assert_eq!(cache.pending.len(), 2);
    }

    proptest! {
        #[test]
        fn its_memory_is_bounded(steps in prop::collection::vec((0u32..200, 0u16..8, 0usize..1400), 0..300)) {
            let (mut cache, mut now) = (Cache::new(20_000), Instant::now());
            for (segment, holes, bytes) in steps {
                now += Duration::from_millis(10);
                ask(&mut cache, segment, holes, false, now);
                cache.data(&Header::data(&name(), segment, 0), &vec![0; bytes], now);
                cache.check_budgets(20_000);
                prop_assert!(cache.pending.len() <= 41 * 4);
            }
        }
    }
}
