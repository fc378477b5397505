// SPDX-License-Identifier: Apache-2.0
//! Limits of open files and of tunnels, in all and for one source.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_core::server::admission::Source;

/// A number of equal slots. A source has a part of them at most, so that one alone never takes all.
#[derive(Debug, Clone)]
pub struct Quota {
    slots: Rc<RefCell<Slots>>,
}

#[derive(Debug)]
struct Slots {
    free: u32,
    most_per_source: u32,
    by_source: BTreeMap<Source, u32>,
}

/// One slot, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Rc<RefCell<Slots>>,
    source: Source,
}

impl Quota {
    /// With all slots free.
    pub fn new(most: u32, most_per_source: u32) -> Quota {
        Quota { slots: Rc::new(RefCell::new(Slots { free: most, most_per_source, by_source: BTreeMap::new() })) }
    }

    /// A slot for this source, if one is left.
    pub fn take(&self, source: Source) -> Option<Slot> {
        let mut slots = self.slots.borrow_mut();
        let of_source = slots.by_source.get(&source).copied().unwrap_or(0);
        if slots.free == 0 || of_source >= slots.most_per_source {
            return None;
        }
        slots.free -= 1;
        slots.by_source.insert(source, of_source + 1);
        Some(Slot { slots: Rc::clone(&self.slots), source })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.slots.borrow_mut();
        slots.free += 1;
        let left = slots.by_source.get(&self.source).map_or(0, |used| used - 1);
        match left {
            0 => slots.by_source.remove(&self.source),
            left => slots.by_source.insert(self.source, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn one_source_leaves_slots_for_others() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        let (one, other) = (source("192.0.2.1"), source("192.0.2.2"));
        let quota = Quota::new(3, 2);
        let held = [quota.take(one), quota.take(one)];
        assert!(held.iter().all(Option::is_some) && quota.take(one).is_none());
        let last = quota.take(other);
        assert!(last.is_some() && quota.take(other).is_none());
        drop(held);
        assert!(quota.take(one).is_some());
        drop(last);
        assert!(quota.slots.borrow().by_source.is_empty() && quota.slots.borrow().free == 3);
    }
}
