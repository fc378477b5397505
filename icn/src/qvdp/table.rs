// SPDX-License-Identifier: Apache-2.0
//! The sessions of a converter: found by number and by name, and what is due when.

use super::refusals::{Budget, Why};
use super::session::Session;
use super::{Config, Counts, Ecn, HELD_BYTES, IDLE_UNDER_PRESSURE, SESSIONS, Sink, UNPROVEN_SESSIONS};
use crate::names::PREFIX_COMPONENTS;
use crate::packet::Header;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Table<A> {
    pub(super) config: Config,
    pub(super) counts: Counts,
    refusals: Budget,
    sessions: HashMap<u64, Session<A>>,
    /// By the hashes of both names of each session.
    by_name: HashMap<u64, u64>,
    touched: Vec<u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Memory of sessions for datagrams that are not given yet, in bytes, and the sessions that hold some: the last one
    /// holds most.
    held_bytes: usize,
    holders: BTreeSet<(usize, u64)>,
    most_held_bytes: usize,
}

/// Result of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A session took it.
    Taken,
    /// It is for no session.
    Unknown,
    /// The other side does not know this session any more.
    Gone(u64),
}

impl<A: Copy> Table<A> {
    pub(super) fn new(config: Config) -> Table<A> {
        Table {
            config,
            counts: Counts::default(),
            refusals: Budget::new(),
            sessions: HashMap::new(),
            by_name: HashMap::new(),
            touched: Vec::new(),
            deadlines: BTreeSet::new(),
            held_bytes: 0,
            holders: BTreeSet::new(),
            most_held_bytes: HELD_BYTES,
        }
    }

    pub(super) fn get(&mut self, id: u64) -> Option<&mut Session<A>> {
        self.sessions.get_mut(&id)
    }

    pub(super) fn has_room(&self) -> bool {
        self.sessions.len() < SESSIONS
    }

    /// The session that gives way to one of a client with this prefix, where all places are taken. Names are free to invent until
    /// they have answered, so a flood of openings displaces its own first; a prefix takes its routes to own.
    pub(super) fn victim(&self, prefix: u64, now: Instant) -> Option<u64> {
        let unproven = self.sessions.values().filter(|s| s.unproven_since().is_some()).count();
        let oldest = || self.oldest_unproven(|_| true);
        if unproven > UNPROVEN_SESSIONS { oldest() } else { self.over_share(prefix, now).or_else(oldest) }
    }

    /// Of the sessions that wait for a first answer, and of which this holds, the one that waits longest.
    pub(super) fn oldest_unproven(&self, of: impl Fn(u64) -> bool) -> Option<u64> {
        let waits = self.sessions.values().filter_map(|s| Some((s.unproven_since()?, s.id)));
        waits.filter(|(_, id)| of(*id)).min().map(|(_, id)| id)
    }

    /// Of the sessions whose client has answered, the one that is idle for longest among those of a prefix with more of them than the
    /// newcomer's, or with as many if it is idle for a while. Prefixes are compared at the first component in which they differ.
    fn over_share(&self, prefix: u64, now: Instant) -> Option<u64> {
        let place = |s: &Session<A>| {
            let (theirs, idle_since) = (s.ask_name.prefix(), s.idle_since()?);
            let level = ((theirs ^ prefix).leading_zeros() / 16) as usize;
            let group = theirs >> (48 - 16 * level.min(PREFIX_COMPONENTS - 1));
            Some((level, group, idle_since, s.id))
        };
        let mut places: Vec<_> = self.sessions.values().filter_map(place).collect();
        places.sort_unstable();
        let groups = places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        let longest = groups.filter_map(|group| {
            let (level, _, idle_since, id) = group[0];
            // Sorted by level: behind those of this level are those that share this component with the newcomer.
            let own = places.len() - places.partition_point(|place| place.0 <= level);
            let over = level < PREFIX_COMPONENTS && group.len() >= own + 2;
            let idle = group.len() >= own && idle_since + IDLE_UNDER_PRESSURE <= now;
            (over || idle).then_some((idle_since, id))
        });
        longest.min().map(|(_, id)| id)
    }

    pub(super) fn add(&mut self, session: Session<A>) {
        let id = session.id;
        self.counts.sessions_opened += 1;
        for name in [&session.ask_name, &session.give_name] {
            self.by_name.insert(name.hash(), id);
        }
        self.sessions.insert(id, session);
        self.touch(id);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Session<A>> {
        let session = self.sessions.remove(&id)?;
        for name in [&session.ask_name, &session.give_name] {
            self.by_name.remove(&name.hash());
        }
        if let Some(at) = session.deadline {
            self.deadlines.remove(&(at, id));
        }
        self.held_bytes -= session.held_bytes;
        self.holders.remove(&(session.held_bytes, id));
        Some(session)
    }

    /// It asks at the end of the turn.
    pub(super) fn touch(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.touch(&mut self.touched);
        }
    }

    /// A datagram of a session's application.
    pub(super) fn datagram(&mut self, id: u64, bytes: &[u8], ecn: Ecn, now: Instant, sink: &mut impl Sink<A>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.datagram(bytes, ecn, now, &mut self.counts, sink);
            session.touch(&mut self.touched);
        }
    }

    pub(super) fn packet(&mut self, header: &Header, payload: &[u8], now: Instant, sink: &mut impl Sink<A>) -> Outcome {
        let Some(id) = self.by_name.get(&header.name).copied() else { return Outcome::Unknown };
        let Some(session) = self.sessions.get_mut(&id) else { return Outcome::Unknown };
        if session.packet(header, payload, now, &mut self.counts, sink) {
            return Outcome::Gone(id);
        }
        session.touch(&mut self.touched);
        let too_far = std::mem::take(&mut session.asked_too_far);
        if session.held_bytes != session.receiver.held_bytes() {
            self.account(id);
            self.make_room(now, sink);
        }
        if too_far {
            self.refuse(header, Why::TooFar, now, sink);
        }
        Outcome::Taken
    }

    /// The memory of a session may have changed.
    fn account(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (before, after) = (session.held_bytes, session.receiver.held_bytes());
        if before == after {
            return;
        }
        session.held_bytes = after;
        self.held_bytes = self.held_bytes - before + after;
        self.holders.remove(&(before, id));
        if after > 0 {
            self.holders.insert((after, id));
        }
    }

    /// While all sessions together hold too much, the one that holds most frees some. So one that has no more than its share loses
    /// nothing to others.
    fn make_room(&mut self, now: Instant, sink: &mut impl Sink<A>) {
        while self.held_bytes > self.most_held_bytes {
            let Some((held_bytes, id)) = self.holders.last().copied() else { return };
            let Some(session) = self.sessions.get_mut(&id) else { return };
            session.make_room(now, &mut self.counts, sink);
            self.touch(id);
            self.account(id);
            debug_assert!(!self.holders.contains(&(held_bytes, id)), "it freed nothing");
        }
    }

    /// Answers all that an Interest asks for by Nacks, as far as the budget goes.
    pub(super) fn refuse(&mut self, interest: &Header, why: Why, now: Instant, sink: &mut impl Sink<A>) {
        for segment in interest.segments() {
            if self.refusals.one_more(interest.name, why, now) {
                self.counts.nacks_sent += 1;
                sink.packet(&Header::nack(interest, segment, why.code()), &[]);
            } else {
                self.counts.nacks_withheld += 1;
            }
        }
    }

    /// The way to a session is open.
    pub(super) fn opened(&mut self, id: u64, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.opened(now);
            session.touch(&mut self.touched);
        }
    }

    /// At the end of an iteration: sessions to which something happened ask for more.
    pub(super) fn turn(&mut self, now: Instant, sink: &mut impl Sink<A>) {
        for id in std::mem::take(&mut self.touched) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.touched = false;
            session.ask(now, &mut self.counts, sink);
            let next = session.next_deadline();
            if session.deadline != Some(next) {
                if let Some(at) = session.deadline.replace(next) {
                    self.deadlines.remove(&(at, id));
                }
                self.deadlines.insert((next, id));
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the timers. Returns the sessions that have ended, which are in the table no more.
    pub(super) fn timeout(&mut self, now: Instant, sink: &mut impl Sink<A>) -> Vec<Session<A>> {
        let mut ended = Vec::new();
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.deadline = None;
            if session.timeout(now, &mut self.counts, sink) {
                ended.extend(self.remove(id));
            } else {
                self.touch(id);
                self.account(id);
            }
        }
        ended
    }

    pub(super) fn check_budgets(&self) {
        assert!(self.sessions.len() <= SESSIONS && self.by_name.len() <= 2 * self.sessions.len());
        assert!(self.deadlines.len() <= self.sessions.len() && self.touched.len() <= self.sessions.len());
        assert!(self.held_bytes <= self.most_held_bytes && self.holders.len() <= self.sessions.len());
        assert_eq!(self.held_bytes, self.sessions.values().map(|s| s.receiver.held_bytes()).sum::<usize>());
        for session in self.sessions.values() {
            session.sender.check_budgets();
            session.receiver.check_budgets();
        }
    }

    #[cfg(test)]
    pub(super) fn hold_at_most(&mut self, bytes: usize) {
        self.most_held_bytes = bytes;
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session<A>> {
        self.sessions.values()
    }
}
