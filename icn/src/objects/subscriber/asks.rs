// SPDX-License-Identifier: Apache-2.0
//! Outstanding segments: asked for, in this order, with the times when each is to be asked for again.

use crate::objects::object::layout::Item;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// RFC 9002 6.1.1: so many that were asked for later must be answered before one counts as lost.
const GAP: u64 = 3;

/// A segment that is out.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Segment.
    pub item: Item,
    /// When.
    pub sent: Instant,
    /// When it is to be asked for again.
    pub again_at: Instant,
    /// The answer's time is no sample: it was asked before, or another asked (Karn).
    pub unclear: bool,
    /// Its Data did not pass the check.
    pub wrong: bool,
}

/// All that is out.
#[derive(Debug, Default)]
pub struct Asks {
    // By the number of the ask.
    out: BTreeMap<u64, Ask>,
    by_item: HashMap<Item, u64>,
    timers: BTreeSet<(Instant, u64)>,
    next: u64,
    highest_answered: Option<u64>,
}

impl Asks {
    /// Number of outstanding segments.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// The number of the next ask.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether this segment is out.
    pub fn has(&self, item: Item) -> bool {
        self.by_item.contains_key(&item)
    }

    /// The ask for this segment.
    pub fn get(&self, item: Item) -> Option<(u64, &Ask)> {
        let number = *self.by_item.get(&item)?;
        Some((number, self.out.get(&number)?))
    }

    /// Adds one, which is not out yet.
    pub fn push(&mut self, ask: Ask) {
        let number = self.next;
        self.next += 1;
        self.timers.insert((ask.again_at, number));
        self.by_item.insert(ask.item, number);
        self.out.insert(number, ask);
    }

    /// Takes one out.
    pub fn remove(&mut self, item: Item) -> Option<(u64, Ask)> {
        let number = self.by_item.remove(&item)?;
        let ask = self.out.remove(&number)?;
        self.timers.remove(&(ask.again_at, number));
        Some((number, ask))
    }

    /// Takes one out because it was answered.
    pub fn answered(&mut self, item: Item) -> Option<(u64, Ask)> {
        let (number, ask) = self.remove(item)?;
        self.highest_answered = self.highest_answered.max(Some(number));
        Some((number, ask))
    }

    /// Takes all out, in the order they were asked.
    pub fn drain(&mut self) -> Vec<Ask> {
        self.timers.clear();
        self.by_item.clear();
        std::mem::take(&mut self.out).into_values().collect()
    }

    /// Sets when a segment is to be asked for again.
    pub fn again_at(&mut self, item: Item, at: Instant, wrong: bool) {
        let Some(number) = self.by_item.get(&item) else { return };
        let Some(ask) = self.out.get_mut(number) else { return };
        self.timers.remove(&(ask.again_at, *number));
        self.timers.insert((at, *number));
        ask.again_at = at;
        ask.wrong |= wrong;
    }

    /// When something is to be asked for again.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes out one whose time has come.
    pub fn expired(&mut self, now: Instant) -> Option<(u64, Ask)> {
        let (at, number) = *self.timers.first()?;
        let item = self.out.get(&number).map(|ask| ask.item)?;
        if at > now { None } else { self.remove(item) }
    }

    /// The first ask behind which a gap shows a loss, and when it does: not before the smoothed response time, since
    /// answers come from several places (another's Interest, a cache) and may overtake each other. At the end of a file
    /// nothing is asked behind the last ones: they count as lost after twice that time (RFC 9002 6.2, RFC 8985 7).
    fn gap(&self, smoothed: Duration, ending: bool) -> Option<(Instant, Item)> {
        let (number, ask) = self.out.first_key_value()?;
        let behind = self.highest_answered.is_some_and(|highest| number + GAP <= highest);
        match behind {
            true => Some((ask.sent + smoothed, ask.item)),
            false => (ending && !smoothed.is_zero()).then(|| (ask.sent + smoothed * 2, ask.item)),
        }
    }

    /// Time when a gap shows a loss.
    pub fn next_gap(&self, smoothed: Duration, ending: bool) -> Option<Instant> {
        self.gap(smoothed, ending).map(|(at, _)| at)
    }

    /// Takes out one that counts as lost.
    pub fn lost(&mut self, now: Instant, smoothed: Duration, ending: bool) -> Option<(u64, Ask)> {
        let (at, item) = self.gap(smoothed, ending)?;
        if at > now { None } else { self.remove(item) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(segment: u32, sent: Instant) -> Ask {
        let item = Item { level: 0, segment };
        Ask { item, sent, again_at: sent + Duration::from_millis(80), unclear: false, wrong: false }
    }

    #[test]
    fn a_gap_of_three_tells_of_a_loss_once_it_is_old_enough() {
        let (mut asks, start, rtt) = (Asks::default(), Instant::now(), Duration::from_millis(10));
        (0..5).for_each(|s| asks.push(ask(s, start)));
        let item = |segment| Item { level: 0, segment };
        asks.answered(item(2)).unwrap();
        assert_eq!(asks.next_gap(rtt, false), None);
        asks.answered(item(3)).unwrap();
        assert_eq!(asks.next_gap(rtt, false), Some(start + rtt));
        assert!(asks.lost(start + rtt - Duration::from_nanos(1), rtt, false).is_none());
        assert_eq!(asks.lost(start + rtt, rtt, false).unwrap().1.item, item(0));
        assert!(asks.lost(start + rtt, rtt, false).is_none());
        assert_eq!(asks.len(), 2);
        assert!(asks.expired(start + Duration::from_millis(79)).is_none());
        assert_eq!(asks.expired(start + Duration::from_millis(80)).unwrap().1.item, item(1));
    }

    #[test]
    fn at_the_end_of_a_file_the_last_ones_are_lost_without_a_gap() {
        let (mut asks, start, rtt) = (Asks::default(), Instant::now(), Duration::from_millis(10));
        (0..2).for_each(|s| asks.push(ask(s, start)));
        asks.answered(Item { level: 0, segment: 0 }).unwrap();
        assert_eq!(asks.next_gap(rtt, false), None);
        assert_eq!(asks.next_gap(rtt, true), Some(start + rtt * 2));
        assert!(asks.lost(start + rtt * 2, rtt, false).is_none());
        assert_eq!(asks.lost(start + rtt * 2, rtt, true).unwrap().1.item.segment, 1);
        assert_eq!(asks.next_gap(rtt, true), None);
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten(steps in prop::collection::vec((0u32..20, 0u8..5, 0u64..100), 0..200)) {
            let (mut asks, start) = (Asks::default(), Instant::now());
            let mut out = BTreeSet::new();
            for (segment, what, ms) in steps {
                let (item, at) = (Item { level: 0, segment }, start + Duration::from_millis(ms));
                match what {
                    0 | 1 if !asks.has(item) => { asks.push(ask(segment, at)); out.insert(segment); }
                    2 => prop_assert_eq!(asks.answered(item).is_some(), out.remove(&segment)),
                    3 => while let Some((_, a)) = asks.expired(at) { prop_assert!(out.remove(&a.item.segment)); },
                    4 => while let Some((_, a)) = asks.lost(at, Duration::from_millis(5), false) {
                        prop_assert!(out.remove(&a.item.segment));
                    },
                    _ => asks.again_at(item, at, false),
                }
                prop_assert_eq!(asks.len(), out.len());
                prop_assert_eq!((asks.by_item.len(), asks.timers.len()), (out.len(), out.len()));
            }
            prop_assert_eq!(asks.drain().len(), out.len());
        }
    }
}
