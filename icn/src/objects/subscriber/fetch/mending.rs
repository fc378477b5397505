// SPDX-License-Identifier: Apache-2.0
//! Blocks that repair symbols mend: when it is known what is missing, and what becomes of symbols.

use super::{Fetch, Store};
use crate::objects::object::layout::{Item, REPAIR, SEGMENT_BYTES};
use crate::objects::object::repair::decode;
use crate::objects::object::tree::Check;

fn content(segment: u32) -> Item {
    Item { level: 0, segment }
}

impl Fetch {
    /// Whether the object may have this segment, as far as is known.
    pub(super) fn has(&self, item: Item) -> bool {
        match item.level {
            REPAIR => self.repairs.as_ref().is_some_and(|r| r.has(item.segment)),
            _ => self.shape.has(item),
        }
    }

    /// A segment of content counts as lost: from now on its block is mended, if it can be.
    pub(super) fn entrust(&mut self, item: Item) {
        let Some(repairs) = self.repairs.as_mut().filter(|_| item.level == 0) else { return };
        let segments = repairs.segments_of(repairs.repair.block_of(item.segment));
        let lost = self.again.range(content(segments.start)..content(segments.end)).count();
        repairs.lose(item.segment, lost as u32);
    }

    /// Whether a lost segment waits for repair symbols. One that came wrong is asked for itself.
    pub(super) fn is_entrusted(&self, item: Item) -> bool {
        let mends = |segment| self.repairs.as_ref().is_some_and(|r| r.mends(segment));
        item.level == 0 && mends(item.segment) && !self.fresh.contains(&item)
    }

    /// A repair symbol that was asked for is lost. So is one in whose place something came that nobody in the group sealed:
    /// any stranger can send that, and the symbol may still come.
    pub(super) fn lost_symbol(&mut self, item: Item) {
        if let Some(repairs) = &mut self.repairs {
            repairs.lost(item.segment);
        }
    }

    /// There are no symbols for the block of this one: it is fetched without them.
    pub(super) fn no_symbol(&mut self, item: Item) {
        self.asks.remove(item);
        if let Some(repairs) = &mut self.repairs {
            repairs.lost(item.segment);
            repairs.give_up(repairs.repair.symbol_of(item.segment).0);
        }
    }

    /// A repair symbol came. It can't be checked; what is decoded from it is.
    pub(super) fn symbol(&mut self, item: Item, bytes: Vec<u8>) -> bool {
        if let Some(repairs) = self.repairs.as_mut().filter(|_| bytes.len() == SEGMENT_BYTES) {
            repairs.take(item.segment, bytes);
            return true;
        }
        false
    }

    /// Finds out what blocks miss, and decodes those for which there are symbols enough.
    pub(super) fn mend(&mut self, store: &mut impl Store) {
        for block in self.repairs.as_ref().map_or_else(Vec::new, |r| r.mended()) {
            let missing = self.missing(block);
            let Some(repairs) = &mut self.repairs else { return };
            repairs.set_missing(block, missing.as_ref().map(|m| m.len() as u32));
            match missing {
                Some(missing) if missing.is_empty() => repairs.forget(block),
                Some(missing) => self.decode(block, &missing, store),
                None => {}
            }
        }
    }

    /// The segments that a block misses; `None` while one is out, or not asked for yet.
    fn missing(&mut self, block: u32) -> Option<Vec<u32>> {
        let repairs = self.repairs.as_mut()?;
        let segments = repairs.segments_of(block);
        let undecided = &mut repairs.block(block)?.undecided;
        let is_lost = |segment| {
            let item = content(segment);
            self.again.contains_key(&item) && !self.fresh.contains(&item) && self.shape.needs(item).is_none()
        };
        // Mostly it is still the one that it was a moment ago.
        if undecided.is_some_and(|s| !self.have.contains(s) && !is_lost(s)) {
            return None;
        }
        let (mut missing, mut segment) = (Vec::new(), segments.start);
        while segment < segments.end {
            if let Some(last) = self.have.last_from(segment) {
                segment = last.saturating_add(1);
                continue;
            }
            if !is_lost(segment) {
                *undecided = Some(segment);
                return None;
            }
            missing.push(segment);
            segment += 1;
        }
        *undecided = None;
        Some(missing)
    }

    /// Decodes a block, if there are symbols enough. A segment that does not pass its check is asked for itself.
    fn decode(&mut self, block: u32, missing: &[u32], store: &mut impl Store) {
        let (Some(repairs), Some(layout)) = (&mut self.repairs, self.layout) else { return };
        let Some(symbols) = repairs.enough(block) else { return };
        let segments = repairs.segments_of(block);
        let bytes = |segment| layout.segment_bytes(content(segment)).unwrap_or(0);
        let there = segments.clone().filter(|s| missing.binary_search(s).is_err());
        let Some(there) =
            there.map(|s| Some((s - segments.start, store.read(s, bytes(s))?))).collect::<Option<Vec<_>>>()
        else {
            return repairs.give_up(block);
        };
        self.counts.decodings += 1;
        let Some(decoded) = decode(segments.len() as u32, there.into_iter(), symbols.into_iter()) else {
            return repairs.failed(block);
        };
        for &segment in missing {
            let at = (segment - segments.start) as usize * SEGMENT_BYTES;
            let found = &decoded[at..at + bytes(segment)];
            if self.shape.check(content(segment), found) != Check::Right {
                self.counts.wrong += 1;
                repairs.spoiled(block);
                return;
            }
        }
        repairs.forget(block);
        for &segment in missing {
            let at = (segment - segments.start) as usize * SEGMENT_BYTES;
            self.again.remove(&content(segment));
            self.counts.repaired += 1;
            self.keep(segment, decoded[at..at + bytes(segment)].to_vec(), store);
        }
    }
}
