// SPDX-License-Identifier: Apache-2.0
//! A set of segments, as ranges.

use std::collections::BTreeMap;

/// Set of the segments that are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segments {
    // First to last.
    ranges: BTreeMap<u32, u32>,
    count: u64,
}

impl Segments {
    /// From ranges, each its first and its last segment. Those that end before they begin are left out.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Segments {
        let mut merged: BTreeMap<u32, u32> = BTreeMap::new();
        let mut sorted: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        sorted.sort_unstable();
        for (first, last) in sorted {
            match merged.last_entry() {
                Some(mut end) if u64::from(first) <= u64::from(*end.get()) + 1 => {
                    let end = end.get_mut();
                    *end = (*end).max(last);
                }
                _ => drop(merged.insert(first, last)),
            }
        }
        let count = merged.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
        Segments { ranges: merged, count }
    }

    /// The ranges, each its first and its last segment.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    /// Number of segments.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this one is there.
    pub fn contains(&self, segment: u32) -> bool {
        self.last_from(segment).is_some()
    }

    /// The last of the range that this one is in.
    pub fn last_from(&self, segment: u32) -> Option<u32> {
        self.ranges.range(..=segment).next_back().map(|(_, last)| *last).filter(|last| *last >= segment)
    }

    /// Adds one; `false` if it was there.
    pub fn insert(&mut self, segment: u32) -> bool {
        if self.contains(segment) {
            return false;
        }
        let mut range = (segment, segment);
        if let Some((&first, &last)) = self.ranges.range(..segment).next_back()
            && last + 1 == segment
        {
            range.0 = first;
        }
        if let Some(after) = segment.checked_add(1)
            && let Some(last) = self.ranges.remove(&after)
        {
            range.1 = last;
        }
        self.ranges.insert(range.0, range.1);
        self.count += 1;
        true
    }

    /// Takes out all before this one.
    pub fn remove_below(&mut self, segment: u32) {
        let rest = self.ranges.split_off(&segment);
        let before = std::mem::replace(&mut self.ranges, rest);
        for (first, last) in before {
            self.count -= u64::from(last.min(segment - 1) - first) + 1;
            if last >= segment {
                self.ranges.insert(segment, last);
            }
        }
    }

    /// Takes one out; `false` if it was not there.
    pub fn remove(&mut self, segment: u32) -> bool {
        let Some((&first, &last)) = self.ranges.range(..=segment).next_back() else { return false };
        if last < segment {
            return false;
        }
        self.ranges.remove(&first);
        if first < segment {
            self.ranges.insert(first, segment - 1);
        }
        if segment < last {
            self.ranges.insert(segment + 1, last);
        }
        self.count -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0u32..60, any::<bool>()), 0..200)) {
            let (mut set, mut model) = (Segments::default(), BTreeSet::new());
            for (segment, add) in steps {
                // Near the end of the numbers too.
                let segment = if segment >= 50 { u32::MAX - (segment - 50) } else { segment };
                match add {
                    true => prop_assert_eq!(set.insert(segment), model.insert(segment)),
                    false => prop_assert_eq!(set.remove(segment), model.remove(&segment)),
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.contains(segment), add);
                prop_assert_eq!(&Segments::from_ranges(set.ranges()), &set);
            }
            for s in 0..60 {
                prop_assert_eq!(set.contains(s), model.contains(&s));
            }
            for s in [0, 20, 40, u32::MAX - 5] {
                set.remove_below(s);
                model = model.split_off(&s);
                prop_assert_eq!(&set, &Segments::from_ranges(model.iter().map(|s| (*s, *s))));
            }
        }

        #[test]
        fn any_ranges_make_one(ranges in prop::collection::vec((0u32..60, 0u32..60), 0..20)) {
            let set = Segments::from_ranges(ranges.clone());
            for s in 0..60 {
                prop_assert_eq!(set.contains(s), ranges.iter().any(|(first, last)| *first <= s && s <= *last));
            }
        }
    }
}
