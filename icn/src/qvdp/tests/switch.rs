// SPDX-License-Identifier: Apache-2.0
//! A switch's handling of two hosts' names: `docs/design/icn.md`, "Rules of a switch". Its sets may be of any size.

use crate::names::Name;
use crate::packet::{Header, Kind, nack, time_of};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

pub(super) const MS: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    pub(super) fn other(self) -> Side {
        if self == Side::Client { Side::Server } else { Side::Client }
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Times of one epoch count together in what a port has used of its quota.
const EPOCH: Duration = Duration::from_micros(1 << 23);

/// The sets of a switch's table, and the quota of a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sets {
    pub(super) count: u64,
    pub(super) ways: usize,
    pub(super) quota: u64,
}

#[derive(Debug)]
struct Pending {
    ports: Vec<Side>,
    to: Side,
    payer: Side,
    at: Instant,
    lifetime: Duration,
}

impl Pending {
    fn lives(&self, now: Instant) -> bool {
        now <= self.at + 2 * self.lifetime
    }
}

/// Use of a port's quota in an epoch and in the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    epoch: u128,
    now: u64,
    before: u64,
}

/// Result of an Interest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Forwarded(Side),
    Joined,
    Refused(u8),
}

#[derive(Debug)]
pub(super) struct Switch {
    start: Instant,
    key: u64,
    pub(super) sets: Sets,
    entries: HashMap<u64, HashMap<(u64, u32), Pending>>,
    used: HashMap<Side, Used>,
    pub(super) refused: u64,
    pub(super) displaced: u64,
}

impl Switch {
    pub(super) fn new(sets: Sets, key: u64, start: Instant) -> Switch {
        Switch { start, key, sets, entries: HashMap::new(), used: HashMap::new(), refused: 0, displaced: 0 }
    }

    fn set_of(&self, header: &Header) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.key, header.prefix, header.name, header.segment).hash(&mut hasher);
        hasher.finish() % self.sets.count
    }

    fn epoch(&self, at: Instant) -> u128 {
        (at - self.start).as_micros() / EPOCH.as_micros()
    }

    fn used(&mut self, port: Side, now: Instant) -> &mut Used {
        let epoch = self.epoch(now);
        let used = self.used.entry(port).or_default();
        if epoch > used.epoch {
            *used = Used { epoch, now: 0, before: if epoch == used.epoch + 1 { used.now } else { 0 } };
        }
        used
    }

    fn total(&mut self, port: Side, now: Instant) -> u64 {
        let used = self.used(port, now);
        used.now + used.before
    }

    fn give_back(&mut self, port: Side, then: Instant, now: Instant) {
        let epoch = self.epoch(then);
        let used = self.used(port, now);
        if epoch == used.epoch {
            used.now = used.now.saturating_sub(1);
        } else if epoch + 1 == used.epoch {
            used.before = used.before.saturating_sub(1);
        }
    }

    /// An Interest for one segment.
    pub(super) fn interest(&mut self, from: Side, header: &Header, now: Instant) -> Verdict {
        let to = match () {
            () if name("/weir/web").covers(header.prefix) => Side::Server,
            () if name("/weir/hosts").covers(header.prefix) => Side::Client,
            () => return Verdict::Refused(nack::NO_ROUTE),
        };
        assert_ne!(to, from);
        let (number, key) = (self.set_of(header), (header.name, header.segment));
        let lifetime = time_of(header.lifetime).max(MS);
        let mut set = self.entries.remove(&number).unwrap_or_default();
        set.retain(|_, pending| pending.lives(now));
        let verdict = self.place(from, to, key, lifetime, &mut set, now);
        self.entries.insert(number, set);
        self.refused += u64::from(matches!(verdict, Verdict::Refused(_)));
        verdict
    }

    fn place(
        &mut self,
        from: Side,
        to: Side,
        key: (u64, u32),
        lifetime: Duration,
        set: &mut HashMap<(u64, u32), Pending>,
        now: Instant,
    ) -> Verdict {
        if let Some(pending) = set.get_mut(&key) {
            if !pending.ports.contains(&from) {
                pending.ports.push(from);
            }
            let joins = now < pending.at + lifetime;
            pending.lifetime = pending.lifetime.max(lifetime);
            if joins {
                return Verdict::Joined;
            }
            let (payer, at) = (pending.payer, pending.at);
            (pending.payer, pending.at) = (from, now);
            self.give_back(payer, at, now);
            self.used(from, now).now += 1;
            return Verdict::Forwarded(to);
        }
        if set.len() >= self.sets.ways {
            let most = |(key, p): (&(u64, u32), &Pending)| (self.total(p.payer, now), now - p.at, *key, p.payer);
            let Some((paid, waited, victim, payer)) = set.iter().map(most).max() else {
                return Verdict::Refused(nack::FULL);
            };
            let waits_long = payer == from && waited >= lifetime;
            if paid <= self.total(from, now) + 1 && !waits_long {
                return Verdict::Refused(nack::FULL);
            }
            set.remove(&victim);
            self.displaced += 1;
        }
        if self.total(from, now) >= self.sets.quota {
            return Verdict::Refused(nack::QUOTA);
        }
        self.used(from, now).now += 1;
        set.insert(key, Pending { ports: vec![from], to, payer: from, at: now, lifetime });
        Verdict::Forwarded(to)
    }

    /// Data or a Nack: where it goes.
    pub(super) fn answer(&mut self, from: Side, header: &Header, now: Instant) -> Vec<Side> {
        assert_ne!(header.kind, Kind::Interest);
        let key = (header.name, header.segment);
        let number = self.set_of(header);
        let Some(set) = self.entries.get_mut(&number) else { return Vec::new() };
        let Some(pending) = set.get(&key).filter(|p| p.lives(now) && p.to == from) else { return Vec::new() };
        let (payer, at, ports) = (pending.payer, pending.at, pending.ports.clone());
        set.remove(&key);
        self.give_back(payer, at, now);
        ports
    }
}
