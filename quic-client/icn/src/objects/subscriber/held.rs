// SPDX-License-Identifier: Apache-2.0
//! What came too soon: before the key of its epoch, or before its hash.

use super::asks::Ask;
use crate::objects::object::layout::{CHILDREN, Item};
use crate::packet::Header;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Segments kept for lack of a key: those are asked for again when there are more.
const MOST_SEALED: usize = 1024;
/// Segments kept for lack of a hash.
const MOST_OPENED: usize = 2048;
/// How far an epoch may be ahead of the keys there are. What is further ahead is no publisher's.
const MOST_AHEAD: u16 = 16;

/// How long a packet waits for its key.
const KEY_WITHIN: Duration = Duration::from_secs(1);

/// A packet that waits for its key.
#[derive(Debug)]
struct Sealed {
    header: Header,
    payload: Vec<u8>,
    until: Instant,
    // What it answered, with its number.
    asked: (u64, Ask),
}

/// All of it, bounded.
#[derive(Debug, Default)]
pub struct Held {
    sealed: BTreeMap<Item, Sealed>,
    opened: BTreeMap<Item, Vec<u8>>,
}

impl Held {
    /// Whether this segment is here.
    pub fn has(&self, item: Item) -> bool {
        self.sealed.contains_key(&item) || self.opened.contains_key(&item)
    }

    /// What the packet answered that waits here for its key. It may be forged: what can be opened goes before it.
    pub fn sealed(&self, item: Item) -> Option<(u64, Ask)> {
        self.sealed.get(&item).map(|s| s.asked)
    }

    /// Drops what waits for a key.
    pub fn forget_sealed(&mut self, item: Item) {
        self.sealed.remove(&item);
    }

    /// Keeps a packet whose key may be on its way, `latest` being the latest that came. `false`: it is not kept.
    pub fn seal(&mut self, asked: (u64, Ask), latest: u16, header: &Header, payload: &[u8], now: Instant) -> bool {
        let ahead = header.epoch.wrapping_sub(latest);
        if ahead == 0 || ahead > MOST_AHEAD || self.sealed.len() >= MOST_SEALED {
            return false;
        }
        let sealed = Sealed { header: *header, payload: payload.to_vec(), until: now + KEY_WITHIN, asked };
        self.sealed.insert(asked.1.item, sealed);
        true
    }

    pub(super) fn check_budgets(&self) {
        assert!(self.sealed.len() <= MOST_SEALED && self.opened.len() <= MOST_OPENED);
    }

    /// Keeps content whose hash is on its way. `false`: it is not kept.
    pub fn open(&mut self, item: Item, content: Vec<u8>) -> bool {
        let room = self.opened.len() < MOST_OPENED;
        if room {
            self.opened.insert(item, content);
        }
        room
    }

    /// Takes out packets that wait for a key: all, or those whose time is over at `late`.
    pub fn take_sealed(&mut self, late: Option<Instant>) -> Vec<(Item, (Header, Vec<u8>))> {
        let due = |s: &Sealed| late.is_none_or(|now| s.until <= now);
        let items: Vec<_> = self.sealed.iter().filter(|(_, s)| due(s)).map(|(item, _)| *item).collect();
        items.into_iter().filter_map(|i| self.sealed.remove(&i).map(|s| (i, (s.header, s.payload)))).collect()
    }

    /// When the first packet has waited long enough for its key.
    pub fn next_timer(&self) -> Option<Instant> {
        self.sealed.values().map(|s| s.until).min()
    }

    /// Takes out what waits for these hashes.
    pub fn take_below(&mut self, node: Item) -> Vec<(Item, Vec<u8>)> {
        let Some(level) = node.level.checked_sub(1) else { return Vec::new() };
        let first = u64::from(node.segment) * CHILDREN as u64;
        let item = |segment: u64| Item { level, segment: segment.min(u64::from(u32::MAX)) as u32 };
        let range = item(first)..=item(first + CHILDREN as u64 - 1);
        let items: Vec<_> = self.opened.range(range).map(|(item, _)| *item).collect();
        items.into_iter().filter_map(|item| Some((item, self.opened.remove(&item)?))).collect()
    }
}
