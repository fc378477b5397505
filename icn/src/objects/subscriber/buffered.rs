// SPDX-License-Identifier: Apache-2.0
//! Packets that came too soon: before the key of its epoch, or before its hash.

use super::asks::Ask;
use crate::objects::object::layout::{CHILDREN, Item};
use crate::packet::Header;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Segments kept for lack of a key: those are asked for again when there are more.
const MOST_SEALED: usize = 1024;
/// Segments kept for lack of a hash.
const MOST_OPENED: usize = 2048;
/// Limit of an epoch's distance from the keys there are. A packet further ahead is no publisher's.
const MOST_AHEAD: u16 = 16;

/// Time that a packet waits for its key before it is asked for again: it may be forged.
const KEY_WITHIN: Duration = Duration::from_secs(1);

/// A packet that waits for its key.
#[derive(Debug)]
struct Sealed {
    header: Header,
    payload: Vec<u8>,
    until: Instant,
    /// It is asked for again. Its key may come nevertheless.
    late: bool,
    // The request that it answered, with its number.
    asked: (u64, Ask),
}

/// All of it, bounded.
#[derive(Debug, Default)]
pub struct Buffered {
    sealed: BTreeMap<Item, Sealed>,
    opened: BTreeMap<Item, Vec<u8>>,
}

impl Buffered {
    /// Whether this segment is here. One that has waited too long for its key is not.
    pub fn has(&self, item: Item) -> bool {
        self.sealed.get(&item).is_some_and(|s| !s.late) || self.opened.contains_key(&item)
    }

    /// The request answered by the packet that waits here for its key. It may be forged: a packet that can be opened
    /// goes before it.
    pub fn sealed(&self, item: Item) -> Option<(u64, Ask)> {
        self.sealed.get(&item).filter(|s| !s.late).map(|s| s.asked)
    }

    /// Drops what waits for a key.
    pub fn forget_sealed(&mut self, item: Item) {
        self.sealed.remove(&item);
    }

    /// Keeps a packet whose key may be on its way, `latest` being the latest that came. `false`: it is not kept.
    pub fn seal(&mut self, asked: (u64, Ask), latest: u16, header: &Header, payload: &[u8], now: Instant) -> bool {
        let ahead = header.epoch.wrapping_sub(latest);
        if ahead == 0 || ahead > MOST_AHEAD {
            return false;
        }
        self.sealed.remove(&asked.1.item);
        if self.sealed.len() >= MOST_SEALED {
            let Some(late) = self.sealed.iter().find(|(_, s)| s.late).map(|(item, _)| *item) else { return false };
            self.sealed.remove(&late);
        }
        let sealed = Sealed { header: *header, payload: payload.to_vec(), until: now + KEY_WITHIN, late: false, asked };
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

    /// Takes out all packets that wait for a key.
    pub fn take_sealed(&mut self) -> Vec<(Item, (Header, Vec<u8>))> {
        std::mem::take(&mut self.sealed).into_iter().map(|(item, s)| (item, (s.header, s.payload))).collect()
    }

    /// Segments that have waited long enough for their key, and are to be asked for again. They stay here: the key may
    /// be late.
    pub fn late(&mut self, now: Instant) -> Vec<Item> {
        let due = self.sealed.iter_mut().filter(|(_, s)| !s.late && s.until <= now);
        due.map(|(item, s)| {
            s.late = true;
            *item
        })
        .collect()
    }

    /// When the first packet has waited long enough for its key.
    pub fn next_timer(&self) -> Option<Instant> {
        self.sealed.values().filter(|s| !s.late).map(|s| s.until).min()
    }

    /// Drops what is held of this content, which is not wanted any more.
    pub fn forget(&mut self, content: Range<u32>) {
        let behind = |item: &Item| item.level == 0 && content.contains(&item.segment);
        self.sealed.retain(|item, _| !behind(item));
        self.opened.retain(|item, _| !behind(item));
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
