// SPDX-License-Identifier: Apache-2.0
//! Blocks that are mended by repair symbols, and the symbols to ask for. All subscribers that lost something of a block
//! ask for the same ones, the lowest first, so that switches make one of their Interests.

use crate::objects::object::layout::{Item, Layout, REPAIR};
use crate::objects::object::repair::Repair;
use std::collections::{BTreeMap, BTreeSet};

/// Symbols held at once, in all blocks: 3 MB.
const MOST_SYMBOLS: usize = 2048;
/// A block that can't be decoded from so many symbols more than its segments is fetched without them. Each is a hundred
/// times less likely than the one before.
const MOST_FAILURES: u32 = 3;
/// Blocks that wrong symbols spoiled, after which the object is fetched without any: a member of the group forges them.
const MOST_SPOILED: u32 = 8;

/// A block of which something was lost.
#[derive(Debug, Default)]
pub struct Block {
    /// Its segments themselves are asked for.
    plain: bool,
    /// Number of missing segments, once all are either there or lost.
    missing: Option<u32>,
    /// A segment that was neither when it was looked at last.
    pub undecided: Option<u32>,
    round: u32,
    place: u32,
    /// So many symbols of this round were lost.
    lost: u32,
    out: BTreeSet<u32>,
    symbols: BTreeMap<u32, Vec<u8>>,
    /// All that were ever asked for: their answers may be late.
    asked: BTreeSet<u32>,
    /// Those of `symbols` that came unasked.
    unasked: BTreeSet<u32>,
    failures: u32,
}

impl Block {
    /// So many symbols more are to be asked for.
    fn needs(&self) -> u32 {
        let there = (self.symbols.len() + self.out.len()) as u32;
        self.missing.filter(|_| !self.plain).map_or(0, |missing| (missing + self.failures).saturating_sub(there))
    }

    /// Goes on to the next round once all of this one has come or is lost: those who lost different symbols ask for the
    /// same ones then. Lost symbols that are noticed one by one would use up the rounds.
    fn end_round(&mut self) {
        if self.lost > 0 && self.lost >= self.needs() && self.out.is_empty() {
            (self.round, self.place, self.lost) = (self.round + 1, 0, 0);
        }
    }
}

/// The blocks of a file.
#[derive(Debug)]
pub struct Repairs {
    /// Publisher's parameters of symbols.
    pub repair: Repair,
    layout: Layout,
    blocks: BTreeMap<u32, Block>,
    symbols: usize,
    /// A block was given up since it was asked.
    gave_up: bool,
    /// Blocks of which wrong content was decoded, each time counted.
    spoiled: u32,
    /// An unasked symbol was wrong: no more of them are accepted.
    asked_only: bool,
}

impl Repairs {
    /// Of a file of this shape.
    pub fn new(repair: Repair, layout: Layout) -> Repairs {
        Repairs { repair, layout, blocks: BTreeMap::new(), symbols: 0, gave_up: false, spoiled: 0, asked_only: false }
    }

    /// Whether there is such a repair packet.
    pub fn has(&self, number: u32) -> bool {
        self.repair.has(number, self.layout)
    }

    /// The segments of content of a block.
    pub fn segments_of(&self, block: u32) -> std::ops::Range<u32> {
        self.repair.segments_of(block, self.layout)
    }

    /// A segment of content was lost, one of so many of its block.
    pub fn lose(&mut self, segment: u32, lost: u32) {
        let block = self.repair.block_of(segment);
        let half = self.segments_of(block).len() as u32 / 2;
        self.blocks.entry(block).or_default();
        if lost > half.max(1) || self.spoiled >= MOST_SPOILED {
            // Symbols would be as many as the segments, and those others may have asked for; or they are forged.
            self.give_up(block);
        }
    }

    /// Whether a lost segment of content waits for its block's symbols.
    pub fn mends(&self, segment: u32) -> bool {
        self.blocks.get(&self.repair.block_of(segment)).is_some_and(|b| !b.plain)
    }

    /// The blocks that symbols may mend.
    pub fn mended(&self) -> Vec<u32> {
        self.blocks.iter().filter(|(_, b)| !b.plain).map(|(block, _)| *block).collect()
    }

    /// A block of which something was lost.
    pub fn block(&mut self, block: u32) -> Option<&mut Block> {
        self.blocks.get_mut(&block)
    }

    /// So many segments of a block are missing: `None` if that is not known yet.
    pub fn set_missing(&mut self, block: u32, missing: Option<u32>) {
        if let Some(b) = self.blocks.get_mut(&block) {
            b.missing = missing;
        }
    }

    /// The symbols of a block, if they are enough to decode it.
    pub fn enough(&self, block: u32) -> Option<Vec<(u32, &[u8])>> {
        let b = self.blocks.get(&block)?;
        let enough = b.missing.is_some_and(|missing| b.symbols.len() as u32 >= missing + b.failures);
        enough.then(|| b.symbols.iter().map(|(symbol, bytes)| (*symbol, bytes.as_slice())).collect())
    }

    /// The symbols were too few although they are as many as the missing segments: one more is asked for.
    pub fn failed(&mut self, block: u32) {
        let Some(b) = self.blocks.get_mut(&block) else { return };
        b.failures += 1;
        if b.failures >= MOST_FAILURES {
            self.give_up(block);
        }
    }

    /// Content that was decoded is wrong. Unasked symbols are suspected first, since who forges them need not be on the way
    /// of what is asked for; without any, the block is fetched as it is.
    pub fn spoiled(&mut self, block: u32) {
        let Some(b) = self.blocks.get_mut(&block) else { return };
        self.spoiled += 1;
        if self.spoiled >= MOST_SPOILED {
            self.mended().into_iter().for_each(|block| self.give_up(block));
        } else if b.unasked.is_empty() {
            self.give_up(block);
        } else {
            self.asked_only = true;
            self.mended().into_iter().for_each(|block| self.drop_unasked(block));
        }
    }

    /// Drops what came unasked of a block.
    fn drop_unasked(&mut self, block: u32) {
        let Some(b) = self.blocks.get_mut(&block) else { return };
        for symbol in std::mem::take(&mut b.unasked) {
            self.symbols -= usize::from(b.symbols.remove(&symbol).is_some());
        }
    }

    /// Its segments themselves are asked for from now on.
    pub fn give_up(&mut self, block: u32) {
        if let Some(b) = self.blocks.get_mut(&block) {
            b.plain = true;
            b.unasked.clear();
            self.symbols -= std::mem::take(&mut b.symbols).len();
        }
    }

    /// Nothing of a block is missing any longer.
    pub fn forget(&mut self, block: u32) {
        if let Some(b) = self.blocks.remove(&block) {
            self.symbols -= b.symbols.len();
        }
    }

    /// The next symbol to ask for.
    pub fn next(&mut self) -> Option<Item> {
        let repair = self.repair;
        for (block, b) in &mut self.blocks {
            b.end_round();
            while b.needs() > b.lost {
                if b.place >= repair.block_segments {
                    (b.round, b.place, b.lost) = (b.round + 1, 0, 0);
                }
                if b.round >= repair.rounds {
                    (b.plain, self.gave_up) = (true, true);
                    self.symbols -= std::mem::take(&mut b.symbols).len();
                    b.unasked.clear();
                    break;
                }
                let number = repair.number(*block, b.round, b.place);
                b.place += 1;
                if !b.symbols.contains_key(&repair.symbol_of(number).1) && b.out.insert(number) {
                    b.asked.insert(number);
                    return Some(Item { level: REPAIR, segment: number });
                }
            }
        }
        None
    }

    /// Nothing was heard: what was out is asked for once more, and no round is over.
    pub fn rewind(&mut self) {
        for b in self.blocks.values_mut() {
            (b.lost, b.place) = (0, 0);
        }
    }

    /// Whether [`Repairs::next`] gave a block up, whose segments are to be asked for now.
    pub fn gave_up(&mut self) -> bool {
        std::mem::take(&mut self.gave_up)
    }

    /// Another asks for this symbol. Whether it is as good as one that is to be asked for; then it counts as asked for.
    pub fn joins(&mut self, number: u32) -> bool {
        let wanted = self.wants(number);
        match self.blocks.get_mut(&self.repair.symbol_of(number).0) {
            Some(b) if wanted && b.needs() > 0 => {
                b.asked.insert(number);
                b.out.insert(number)
            }
            _ => false,
        }
    }

    /// Whether this symbol would help.
    pub fn wants(&self, number: u32) -> bool {
        let (block, symbol) = self.repair.symbol_of(number);
        let taken = |b: &Block| !self.asked_only || b.asked.contains(&number);
        let useful = |b: &&Block| !b.plain && !b.symbols.contains_key(&symbol) && taken(b);
        self.blocks.get(&block).filter(useful).is_some_and(|b| {
            let most = b.missing.map_or(self.segments_of(block).len() as u32 / 2, |missing| missing + b.failures);
            (b.symbols.len() as u32) < most
        })
    }

    /// A symbol came.
    pub fn take(&mut self, number: u32, bytes: Vec<u8>) {
        let (wanted, (block, symbol)) = (self.wants(number), self.repair.symbol_of(number));
        let Some(b) = self.blocks.get_mut(&block) else { return };
        b.out.remove(&number);
        if !wanted {
            return;
        }
        let is_asked = b.asked.contains(&number);
        if self.symbols >= MOST_SYMBOLS {
            // Unasked symbols take no place from requested ones.
            let other = self.blocks.iter().find(|(_, b)| !b.unasked.is_empty()).map(|(block, _)| *block);
            match other {
                _ if !is_asked => return,
                Some(other) => self.drop_unasked(other),
                None => return self.give_up(block),
            }
        }
        let Some(b) = self.blocks.get_mut(&block) else { return };
        if !is_asked {
            b.unasked.insert(symbol);
        }
        b.symbols.insert(symbol, bytes);
        self.symbols += 1;
    }

    /// A symbol that was asked for is lost, or what came in its place was none.
    pub fn lost(&mut self, number: u32) {
        if let Some(b) = self.blocks.get_mut(&self.repair.symbol_of(number).0) {
            b.lost += u32::from(b.out.remove(&number));
        }
    }

    pub(super) fn check_budgets(&self) {
        let held: usize = self.blocks.values().map(|b| b.symbols.len()).sum();
        assert!(held == self.symbols && held <= MOST_SYMBOLS, "{held} symbols");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repairs() -> Repairs {
        Repairs::new(Repair { block_segments: 20, rounds: 3 }, Layout::of(50 * 1440).unwrap())
    }

    #[test]
    fn all_ask_for_the_lowest_and_after_losses_for_those_of_the_next_round() {
        let mut repairs = repairs();
        [25, 30].into_iter().for_each(|s| repairs.lose(s, 1));
        assert!(repairs.mends(39) && !repairs.mends(40));
        assert_eq!(repairs.next(), None);
        repairs.set_missing(1, Some(3));
        let mut asked = || std::iter::from_fn(|| repairs.next().map(|i| i.segment)).collect::<Vec<_>>();
        assert_eq!(asked(), [60, 61, 62]);
        repairs.take(61, vec![1]);
        repairs.lost(60);
        assert_eq!(repairs.next(), None, "the round is not over");
        repairs.lost(62);
        let mut asked = || std::iter::from_fn(|| repairs.next().map(|i| i.segment)).collect::<Vec<_>>();
        assert_eq!(asked(), [80, 81]);
        [80, 81].into_iter().for_each(|n| repairs.take(n, vec![1]));
        assert_eq!(repairs.enough(1).unwrap().into_iter().map(|(s, _)| s).collect::<Vec<_>>(), [1, 20, 21]);
        repairs.failed(1);
        assert!(repairs.enough(1).is_none());
        assert_eq!(repairs.next().map(|i| i.segment), Some(82));
        repairs.lost(82);
        assert_eq!(repairs.next().map(|i| i.segment), Some(100));
        repairs.lost(100);
        // There are no more rounds.
        assert!(repairs.next().is_none() && !repairs.mends(25) && !repairs.wants(101));
        repairs.check_budgets();
    }

    #[test]
    fn after_silence_the_same_symbols_are_asked_for() {
        let mut repairs = repairs();
        repairs.lose(3, 1);
        repairs.set_missing(0, Some(2));
        let asked = |repairs: &mut Repairs| [repairs.next(), repairs.next()].map(|i| i.map(|i| i.segment));
        assert_eq!(asked(&mut repairs), [Some(0), Some(1)]);
        repairs.take(0, vec![1]);
        repairs.lost(1);
        repairs.rewind();
        assert_eq!(asked(&mut repairs), [Some(1), None]);
    }

    #[test]
    fn what_came_unasked_is_suspected_first_and_takes_no_place() {
        let mut repairs = Repairs::new(Repair { block_segments: 40, rounds: 2 }, Layout::of(6000 * 1440).unwrap());
        let segment = |block| block * 40;
        (0..150).for_each(|block| repairs.lose(segment(block), 1));
        for number in 0..150 * 80 {
            repairs.take(number, vec![1]);
        }
        repairs.check_budgets();
        // Full of them; what is asked for is taken.
        for block in 110..120 {
            repairs.set_missing(block, Some(2));
        }
        let asked: Vec<_> = std::iter::from_fn(|| repairs.next().map(|i| i.segment)).collect();
        assert_eq!(asked.len(), 20);
        asked.iter().for_each(|number| repairs.take(*number, vec![1]));
        assert!((110..120).all(|block| repairs.enough(block).is_some() && repairs.mends(segment(block))));
        repairs.check_budgets();
        // Each that was spoiled by them asks for others.
        let mut repairs = self::repairs();
        repairs.lose(25, 1);
        [60, 61].into_iter().for_each(|number| repairs.take(number, vec![1]));
        repairs.set_missing(1, Some(2));
        assert!(repairs.enough(1).is_some());
        repairs.spoiled(1);
        assert!(repairs.enough(1).is_none() && repairs.mends(25) && !repairs.wants(62));
        let asked = [repairs.next(), repairs.next()].map(|i| i.unwrap().segment);
        asked.into_iter().for_each(|number| repairs.take(number, vec![1]));
        assert!(repairs.enough(1).is_some());
        repairs.spoiled(1);
        assert!(!repairs.mends(25));
    }

    #[test]
    fn a_block_that_lost_more_than_half_is_fetched_as_it_is() {
        let mut repairs = repairs();
        repairs.lose(3, 10);
        assert!(repairs.mends(3));
        repairs.lose(4, 11);
        assert!(!repairs.mends(3) && repairs.mended().is_empty());
    }

    proptest! {
        #[test]
        fn it_holds_and_asks_for_no_more_than_it_needs(steps in prop::collection::vec((0u8..8, 0u32..200), 0..300)) {
            let mut repairs = repairs();
            for (what, n) in steps {
                let block = n % 3;
                match what {
                    0 => repairs.lose(n % 50, n % 12),
                    1 => repairs.set_missing(block, Some(n % 10)),
                    2 => drop(repairs.next()),
                    3 => repairs.take(n % 180, vec![1]),
                    4 => repairs.lost(n % 180),
                    5 => drop(repairs.joins(n % 180)),
                    6 => repairs.spoiled(block),
                    _ if n % 5 == 0 => repairs.forget(block),
                    _ => repairs.failed(block),
                }
                repairs.check_budgets();
                for b in repairs.blocks.values() {
                    prop_assert!(b.unasked.iter().all(|symbol| b.symbols.contains_key(symbol)));
                    prop_assert!(b.out.len() <= 10 + MOST_FAILURES as usize && b.round <= 3);
                }
            }
        }
    }
}
