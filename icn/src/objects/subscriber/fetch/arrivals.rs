// SPDX-License-Identifier: Apache-2.0
//! Arrivals: Data, Nacks, others' Interests.

use super::super::asks::Ask;
use super::super::window::Answered;
use super::{
    Fetch, GONE, GONE_FOR, LEAST_AGAIN, MOST_AGAIN, MOST_JOINED, Outcome, REACH, REFUSALS, REFUSED_FOR, SLOWEST_FOR,
    Store,
};
use crate::objects::object::layout::{CHILDREN, Item, REPAIR};
use crate::objects::object::tree::Check;
use crate::packet::{Header, Kind, flags, lifetime_of, nack};
use std::time::{Duration, Instant};

impl Fetch {
    /// Data arrived.
    pub fn data(&mut self, header: &Header, payload: &[u8], now: Instant, store: &mut impl Store) {
        let Some(level) = self.names.level(header.name).filter(|_| header.kind == Kind::Data) else { return };
        let item = Item { level, segment: header.segment };
        if self.outcome.is_some() || !self.has(item) || self.is_behind(item) {
            return;
        }
        self.counts.data += 1;
        let has_key = self.keys.has(header.epoch);
        // A packet that waits for its key may be anybody's: it does not keep the right Data out.
        let sealed = self.buffered.sealed(item).filter(|_| has_key);
        if sealed.is_none() && self.is_there(item) {
            self.counts.duplicates += 1;
            return;
        }
        if self.settings.ordered && level == 0 && item.segment >= self.next.saturating_add(2 * REACH) {
            return;
        }
        let marked = header.has(flags::CE);
        self.counts.marked += u64::from(marked);
        let at = self.asks.get(item).map(|(number, ask)| (number, *ask));
        if has_key {
            let at = at.or(sealed);
            if self.open(item, header, payload, now, store) {
                self.buffered.forget_sealed(item);
                self.right(item, at, marked, now);
                if level == 0 && at.is_some_and(|(_, ask)| !ask.unclear) {
                    self.follow(item.segment, header.lifetime, now);
                }
            }
        } else if let Some(at) = at {
            self.counts.keyless += 1;
            let latest = self.keys.latest().map_or(0, |k| k.epoch);
            if self.buffered.seal(at, latest, header, payload, now) {
                self.asks.answered(item);
                self.again.remove(&item);
                self.keyless_since.get_or_insert(now);
            } else {
                self.wrong(item, now);
            }
        }
    }

    /// Data passed all checks that could be made so far.
    fn right(&mut self, item: Item, asked: Option<(u64, Ask)>, marked: bool, now: Instant) {
        // A segment that a forged packet answered before was out until now.
        let out = self.asks.len() + usize::from(asked.is_some() && !self.asks.has(item));
        let full = out >= self.window.allowed();
        self.asks.answered(item);
        if self.again.remove(&item).is_some() {
            self.window.found();
        }
        self.fresh.remove(&item);
        (self.heard, self.progress) = (now, now);
        self.wrong_before = self.counts.wrong;
        self.keyless_since = None;
        (self.refusals, self.refused_since) = (0, None);
        if self.is_next(item) {
            self.gone_since = None;
        }
        let Some((ask, asked)) = asked else {
            self.counts.overheard += 1;
            return;
        };
        let time = now.saturating_duration_since(asked.sent);
        if now.saturating_duration_since(self.slowest_since) >= SLOWEST_FOR {
            (self.slowest, self.slowest_since) = ([Duration::ZERO, self.slowest[0]], now);
        }
        self.slowest[0] = self.slowest[0].max(time);
        if asked.unclear && time < self.response.smoothed() / 2 {
            // Too soon for an answer to the second ask.
            self.window.found();
        }
        if !asked.unclear {
            // Karn: a segment asked for twice does not show that the time is long enough.
            self.silences = 0;
        }
        // Content was mostly asked for by another a moment before. A symbol was not: next to content's its time would
        // look like that of a queue.
        let time = (!asked.unclear && item.level != REPAIR).then_some(time);
        if let Some(time) = time {
            self.response.sample(time);
        }
        // An Interest for what a live stream does not have yet waits for it, and is no evidence of queues.
        let time = time.filter(|_| self.layout.is_some());
        self.window.answered(Answered { ask, next: self.asks.next(), time, marked, full }, now);
    }

    /// Data did not pass its check. The segment stays asked for a response time, since the right Data may be on its
    /// way; then it is asked for again, past all caches.
    fn wrong(&mut self, item: Item, now: Instant) {
        self.counts.wrong += 1;
        let smoothed = self.response.smoothed();
        if let Some((_, ask)) = self.asks.get(item) {
            let at = (ask.sent + smoothed).max(now);
            self.asks.again_at(item, at.min(ask.again_at), true);
        }
    }

    /// Opens and checks a packet, and takes its content in. Whether it is right, as far as is known.
    pub(super) fn open(
        &mut self,
        item: Item,
        header: &Header,
        payload: &[u8],
        now: Instant,
        store: &mut impl Store,
    ) -> bool {
        // A live stream's segments are sealed once, by the key of that time.
        let block = if item.level == 0 { item.segment } else { item.segment.saturating_mul(CHILDREN as u32) };
        let in_force = self.layout.is_some() || self.keys.for_segment(block).is_some_and(|k| k.epoch == header.epoch);
        let content = if in_force { self.keys.open(item.level, header, payload) } else { None };
        let Some(content) = content else {
            self.wrong(item, now);
            return false;
        };
        if item.level == REPAIR {
            let taken = self.symbol(item, content);
            if !taken {
                self.wrong(item, now);
            }
            return taken;
        }
        match self.shape.check(item, &content) {
            Check::Right => {
                self.take(item, content, store);
                true
            }
            Check::Wrong => {
                self.wrong(item, now);
                false
            }
            Check::Unknown => {
                self.queue_nodes(item);
                self.buffered.open(item, content)
            }
        }
    }

    /// Takes in what was checked, and what waited for it.
    fn take(&mut self, item: Item, content: Vec<u8>, store: &mut impl Store) {
        let mut todo = vec![(item, content)];
        while let Some((item, content)) = todo.pop() {
            if item.level == 0 {
                self.keep(item.segment, content, store);
                continue;
            }
            for (below, content) in self.buffered.take_below(item) {
                match self.shape.check(below, &content) {
                    Check::Right => todo.push((below, content)),
                    _ => {
                        self.counts.wrong += 1;
                        self.fresh.insert(below);
                        self.again.insert(below, None);
                    }
                }
            }
            if item.level == 1 {
                self.check_claimed(item.segment, store);
            }
        }
        self.deliver(store);
    }

    pub(super) fn keep(&mut self, segment: u32, content: Vec<u8>, store: &mut impl Store) {
        if self.outcome.is_some() || self.have.contains(segment) {
            return;
        }
        if self.settings.ordered {
            self.ready.insert(segment, content);
        } else if !self.write(segment, &content, store) {
            return;
        }
        self.have.insert(segment);
        self.checked += 1;
        self.claimed.remove(segment);
        let (block, _) = Item { level: 0, segment }.parent();
        if let Some(layout) = self.layout {
            let first = block.segment * CHILDREN as u32;
            let last = first.saturating_add(CHILDREN as u32 - 1).min(layout.content_segments() - 1);
            if self.have.last_from(first).is_some_and(|end| end >= last) {
                self.shape.forget(block);
            }
            if self.have.len() == u64::from(layout.content_segments()) && !self.settings.ordered {
                self.finish();
            }
        }
    }

    /// Whether it is written.
    fn write(&mut self, segment: u32, content: &[u8], store: &mut impl Store) -> bool {
        let written = store.write(segment, content);
        if let Err(why) = written {
            self.outcome = Some(Outcome::Store(why));
            return false;
        }
        true
    }

    fn finish(&mut self) {
        if self.outcome.is_none() {
            self.outcome = Some(Outcome::Complete);
        }
    }

    /// In order: gives on what is its turn.
    fn deliver(&mut self, store: &mut impl Store) {
        if !self.settings.ordered {
            return;
        }
        while self.outcome.is_none() {
            if let Some(content) = self.ready.remove(&self.next) {
                self.write(self.next, &content, store);
                self.next += 1;
                continue;
            }
            let item = Item { level: 0, segment: self.next };
            match self.layout {
                Some(layout) if self.next >= layout.content_segments() => self.finish(),
                Some(_) => return,
                None if self.shape.is_over(self.next) => self.finish(),
                None if !self.shape.has(item) => self.next_block(),
                None => return,
            }
        }
    }

    /// Live: goes on behind the block whose turn it was.
    fn next_block(&mut self) {
        let block = self.next / CHILDREN as u32;
        let first = block * CHILDREN as u32;
        for segment in first..first.saturating_add(CHILDREN as u32) {
            let item = Item { level: 0, segment };
            self.asks.remove(item);
            self.again.remove(&item);
            self.ready.remove(&segment);
        }
        let node = Item { level: 1, segment: block };
        self.asks.remove(node);
        self.again.remove(&node);
        self.shape.forget(node);
        self.buffered.forget(first..first.saturating_add(CHILDREN as u32));
        self.gone.clear();
        // Segments given on are not reported again: a stream may go on for months.
        self.have.remove_below(first.saturating_add(CHILDREN as u32));
        self.next = first.saturating_add(CHILDREN as u32);
        self.cursor = self.cursor.max(self.next);
    }

    /// Checks again what an earlier run had of a block whose hashes are there.
    pub(super) fn check_claimed(&mut self, block: u32, store: &mut impl Store) {
        let Some(layout) = self.layout else { return };
        let first = block * CHILDREN as u32;
        for segment in first..first.saturating_add(CHILDREN as u32).min(layout.content_segments()) {
            if !self.claimed.remove(segment) {
                continue;
            }
            let item = Item { level: 0, segment };
            let bytes = layout.segment_bytes(item).unwrap_or(0);
            match store.read(segment, bytes).filter(|content| self.shape.check(item, content) == Check::Right) {
                Some(content) => {
                    self.counts.resumed += 1;
                    self.keep_claimed(segment, content, store);
                }
                None => {
                    self.counts.spoiled += 1;
                    self.again.insert(item, None);
                }
            }
        }
    }

    /// A segment of an earlier run is in its place already, unless it is to be given on in order.
    fn keep_claimed(&mut self, segment: u32, content: Vec<u8>, store: &mut impl Store) {
        struct InPlace;
        impl Store for InPlace {
            fn write(&mut self, _: u32, _: &[u8]) -> Result<(), String> {
                Ok(())
            }
            fn read(&mut self, _: u32, _: usize) -> Option<Vec<u8>> {
                None
            }
        }
        match self.settings.ordered {
            true => self.keep(segment, content, store),
            false => self.keep(segment, content, &mut InPlace),
        }
    }

    /// A Nack arrived.
    pub fn nack(&mut self, header: &Header, now: Instant, store: &mut impl Store) {
        let Some(level) = self.names.level(header.name).filter(|_| header.kind == Kind::Nack) else { return };
        let item = Item { level, segment: header.segment };
        let Some((number, ask)) = self.asks.get(item) else { return };
        let (sent, again_at) = (ask.sent, ask.again_at);
        self.counts.nacks += 1;
        self.heard = now;
        // It is asked for again no sooner than after two response times, more after each Nack in a row.
        let wait = self.response.smoothed().max(LEAST_AGAIN).saturating_mul(2 << self.refusals.min(6)).min(MOST_AGAIN);
        self.asks.again_at(item, again_at.min(sent.max(now) + wait), false);
        if level == REPAIR {
            self.no_symbol(item);
        }
        match header.code {
            nack::BUSY | nack::FULL | nack::QUOTA => self.window.refused(number, self.asks.next()),
            // Its segments are there, whatever becomes of the symbols.
            _ if level == REPAIR => {}
            // A segment that a block was closed without is none of the stream's; its hashes say so.
            nack::NO_SUCH_SEGMENT if self.layout.is_none() && level == 0 && self.shape.needs(item).is_some() => {
                self.asks.remove(item);
                self.again.insert(item, None);
            }
            nack::NO_SUCH_SEGMENT if self.layout.is_none() => {
                if !self.is_next(item) {
                    return;
                }
                let count = self.gone.entry(item).or_insert(0);
                *count = count.saturating_add(1);
                // Behind a lost block there may be more: the time is not waited for once more.
                let since = *self.gone_since.get_or_insert(now);
                if *count >= GONE && now.saturating_duration_since(since) >= GONE_FOR {
                    self.counts.skipped += CHILDREN as u64;
                    self.next_block();
                    self.deliver(store);
                }
            }
            code => {
                self.refusals += 1;
                let since = *self.refused_since.get_or_insert(now);
                if self.refusals >= REFUSALS && now.saturating_duration_since(since) >= REFUSED_FOR {
                    self.outcome = Some(Outcome::Refused(code));
                }
            }
        }
    }

    /// Live: whether this belongs to the block whose turn it is.
    fn is_next(&self, item: Item) -> bool {
        let block = if item.level == 0 { item.segment / CHILDREN as u32 } else { item.segment };
        block == self.next / CHILDREN as u32
    }

    /// Another subscriber's Interest was heard, which happens where one transmission reaches all: its Data will come by
    /// here too. So what is wanted is asked with it, as a switch would join the two.
    pub fn overheard(&mut self, header: &Header, now: Instant) {
        let Some(level) = self.names.level(header.name).filter(|_| header.kind == Kind::Interest) else { return };
        if self.outcome.is_some() {
            return;
        }
        let time = self.timeout();
        let (mut rivals, mut joined) = (false, 0);
        for segment in header.segments() {
            let item = Item { level, segment };
            if level == REPAIR {
                if self.asks.len() < MOST_JOINED && self.repairs.as_mut().is_some_and(|r| r.joins(segment)) {
                    self.asks.push(Ask { item, sent: now, again_at: now + time, unclear: true, wrong: false });
                }
                continue;
            }
            if let Some((_, ask)) = self.asks.get(item) {
                // It is as far, and has not heard of what is asked for here, or does not follow.
                rivals |= !ask.unclear && now.saturating_duration_since(ask.sent) < self.longest();
                continue;
            }
            let wanted = !self.is_there(item) && !self.claimed.contains(segment);
            let content = if level == 0 { segment } else { segment.saturating_mul(CHILDREN as u32) };
            // A file has as many hashes as it has; a live stream's number could be any.
            let bounded = !self.settings.ordered || (level > 0 && self.layout.is_some());
            let near = bounded || content < self.next.saturating_add(REACH);
            // A segment that was lost here is asked for here.
            let first = !self.again.contains_key(&item) && self.asks.len() < MOST_JOINED;
            if wanted && near && first {
                self.asks.push(Ask { item, sent: now, again_at: now + time, unclear: true, wrong: false });
                joined += 1;
            }
        }
        self.counts.joined += joined;
        if rivals || joined > 0 {
            let lifetime = header.lifetime.cmp(&lifetime_of(time));
            self.election.heard(lifetime, self.longest().max(LEAST_AGAIN), now);
        }
    }
}
