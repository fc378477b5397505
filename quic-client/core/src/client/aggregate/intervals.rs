// SPDX-License-Identifier: Apache-2.0
//! [`Intervals`]: a set of byte offsets.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte offsets, kept as disjoint ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals {
    /// End of each range by its start.
    ranges: BTreeMap<u64, u64>,
}

impl Intervals {
    /// The offsets of one range.
    pub fn of(range: Range<u64>) -> Intervals {
        let mut set = Intervals::default();
        set.insert(range);
        set
    }

    /// Whether it has no offset.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of offsets.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// The last range.
    pub fn last(&self) -> Option<Range<u64>> {
        self.ranges.last_key_value().map(|(&start, &end)| start..end)
    }

    /// The parts of `range` that are in the set, in order.
    pub fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.ranges.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        self.ranges
            .range(first..range.end.max(first))
            .map(|(&start, &end)| start.max(range.start)..end.min(range.end))
            .filter(|part| part.start < part.end)
            .collect()
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Touching ranges become one.
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back().filter(|&(_, &e)| e >= start) {
            self.ranges.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.ranges.insert(start, end);
    }

    /// Removes a range, and gives its parts that were in the set.
    pub fn remove(&mut self, range: &Range<u64>) -> Vec<Range<u64>> {
        let removed = self.within(range);
        for part in &removed {
            let Some((&start, &end)) = self.ranges.range(..=part.start).next_back() else { continue };
            self.ranges.remove(&start);
            for rest in [start..part.start, part.end..end] {
                if !rest.is_empty() {
                    self.ranges.insert(rest.start, rest.end);
                }
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn as_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..40)) {
            let (mut set, mut model) = (Intervals::default(), BTreeSet::new());
            for (adds, start, length) in steps {
                let range = start..start + length;
                let inside: Vec<u64> = set.within(&range).into_iter().flatten().collect();
                prop_assert_eq!(inside, range.clone().filter(|n| model.contains(n)).collect::<Vec<_>>());
                if adds {
                    set.insert(range.clone());
                    model.extend(range);
                } else {
                    set.remove(&range);
                    model.retain(|n| !range.contains(n));
                }
                let all: Vec<u64> = set.within(&(0..100)).into_iter().flatten().collect();
                prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.bytes(), model.len() as u64);
                let ranges: Vec<_> = set.ranges.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
