// SPDX-License-Identifier: Apache-2.0
//! A store bounded in bytes: the least recently used goes first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Overhead of an entry beside its value: keys, links, allocation.
const ENTRY_BYTES: u64 = 160;

/// The store.
#[derive(Debug)]
pub struct Lru<K, V> {
    most_bytes: u64,
    bytes: u64,
    tick: u64,
    entries: HashMap<K, (V, u64, u64)>,
    order: BTreeMap<u64, K>,
}

impl<K: Hash + Eq + Copy, V> Lru<K, V> {
    /// Empty; it will hold at most this much.
    pub fn new(most_bytes: u64) -> Lru<K, V> {
        Lru { most_bytes, bytes: 0, tick: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// Size of its content, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// An entry, which is now the most recently used.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let (value, _, tick) = self.entries.get_mut(key)?;
        self.order.remove(tick);
        self.tick += 1;
        *tick = self.tick;
        self.order.insert(self.tick, *key);
        Some(value)
    }

    /// Adds or replaces an entry whose value takes `bytes`. Others are evicted until there is room; a value larger than
    /// all room is not kept. Returns the number of evicted entries.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) -> u64 {
        self.remove(&key);
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        if bytes > self.most_bytes {
            return 0;
        }
        let mut gone = 0;
        while self.bytes + bytes > self.most_bytes
            && let Some((_, old)) = self.order.pop_first()
        {
            if let Some((_, old_bytes, _)) = self.entries.remove(&old) {
                self.bytes -= old_bytes;
                gone += 1;
            }
        }
        self.tick += 1;
        self.order.insert(self.tick, key);
        self.entries.insert(key, (value, bytes, self.tick));
        self.bytes += bytes;
        gone
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (value, bytes, tick) = self.entries.remove(key)?;
        self.order.remove(&tick);
        self.bytes -= bytes;
        Some(value)
    }

    /// Takes all entries out whose keys fit.
    pub fn remove_where(&mut self, fits: impl Fn(&K) -> bool) {
        let keys: Vec<K> = self.entries.keys().filter(|k| fits(k)).copied().collect();
        for key in keys {
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut lru = Lru::new(3 * (ENTRY_BYTES + 10));
        for k in 1..=3 {
            lru.insert(k, k, 10);
        }
        lru.get(&1);
        assert_eq!(lru.insert(4, 4, 10), 1);
        assert_eq!([1, 2, 3, 4].map(|k| lru.get(&k).is_some()), [true, false, true, true]);
        assert_eq!(lru.insert(5, 5, 10_000), 0);
        assert_eq!(lru.len(), 3);
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_it_may(steps in prop::collection::vec((0u8..30, 0u64..400, any::<bool>()), 0..200)) {
            let mut lru = Lru::new(2000);
            for (key, bytes, add) in steps {
                if add { lru.insert(key, bytes, bytes); } else { lru.remove(&key); }
                let held: u64 = lru.entries.values().map(|(_, bytes, _)| *bytes).sum();
                prop_assert!(lru.bytes() <= 2000 && lru.bytes() == held && lru.order.len() == lru.len());
            }
        }
    }
}
