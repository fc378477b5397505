// SPDX-License-Identifier: Apache-2.0
//! Handles of an action profile's members, by which BMv2 orders the members of a group, and Thrift's clients name them.
use std::collections::{BTreeMap, BTreeSet};

/// Copies of one member.
#[derive(Debug, Default)]
struct Copies {
    /// The member's own handle, then one for each further unit of weight.
    handles: Vec<u32>,
    /// Number of groups by the weight that they give the member.
    weights: BTreeMap<usize, u32>,
}

/// Handles of all members: the least free one is given next, as in BMv2.
///
/// A member has one copy of its own, and as many as the largest of its weights; groups share copies.
#[derive(Debug, Default)]
pub struct Handles {
    copies: BTreeMap<u32, Copies>,
    /// Member of each handle.
    members: BTreeMap<u32, u32>,
    free: BTreeSet<u32>,
    next: u32,
}

impl Handles {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Gives a member so many copies at least.
    fn extend(&mut self, member: u32, count: usize) {
        while self.copies.get(&member).map_or(0, |c| c.handles.len()) < count {
            let handle = self.take();
            self.members.insert(handle, member);
            self.copies.entry(member).or_default().handles.push(handle);
        }
    }

    /// Takes copies away from a member that no group's weight needs.
    fn shrink(&mut self, member: u32) {
        let Some(copies) = self.copies.get_mut(&member) else { return };
        let needed = copies.weights.last_key_value().map_or(1, |(weight, _)| *weight).max(1);
        for handle in copies.handles.drain(needed.min(copies.handles.len())..) {
            self.members.remove(&handle);
            self.free.insert(handle);
        }
    }

    /// The member that has this handle.
    pub fn member(&self, handle: u32) -> Option<u32> {
        self.members.get(&handle).copied()
    }

    /// Handles of a member, its own first.
    pub fn of(&self, member: u32) -> &[u32] {
        self.copies.get(&member).map_or(&[], |c| &c.handles)
    }

    /// Each handle with its member, by rising handles.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.members.iter().map(|(handle, member)| (*handle, *member))
    }

    pub fn insert(&mut self, member: u32) {
        self.extend(member, 1);
    }

    pub fn remove(&mut self, member: u32) {
        for handle in self.copies.remove(&member).into_iter().flat_map(|c| c.handles) {
            self.members.remove(&handle);
            self.free.insert(handle);
        }
    }

    /// Changes the members of one group, each with its weight, and returns each as often as its weight says, in the order
    /// of handles.
    pub fn regroup(&mut self, old: &[(u32, i32)], new: &[(u32, i32)]) -> Vec<u32> {
        let mut new = new.to_vec();
        new.sort_unstable();
        let mut order = Vec::new();
        for (member, weight) in &new {
            let weight = usize::try_from(*weight).unwrap_or(0);
            self.extend(*member, weight);
            let copies = self.copies.entry(*member).or_default();
            *copies.weights.entry(weight).or_default() += 1;
            order.extend(copies.handles[..weight].iter().map(|handle| (*handle, *member)));
        }
        for (member, weight) in old {
            let weight = usize::try_from(*weight).unwrap_or(0);
            if let Some(copies) = self.copies.get_mut(member)
                && let Some(count) = copies.weights.get_mut(&weight)
            {
                *count -= 1;
                if *count == 0 {
                    copies.weights.remove(&weight);
                }
            }
        }
        for (member, _) in old.iter().chain(&new) {
            self.shrink(*member);
        }
        order.sort_unstable();
        order.into_iter().map(|(_, member)| member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Handles;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn three() -> Handles {
        let mut handles = Handles::default();
        (1..=3).for_each(|member| handles.insert(member));
        handles
    }

    #[test]
    fn copies_come_after_all_members() {
        assert_eq!(three().regroup(&[], &[(1, 3), (3, 2)]), [1, 3, 1, 1, 3]);
        assert_eq!(three().regroup(&[], &[(3, 2), (1, 3)]), [1, 3, 1, 1, 3]);
    }

    #[test]
    fn a_free_handle_is_given_again() {
        let mut handles = three();
        handles.remove(1);
        handles.insert(4);
        assert_eq!(handles.regroup(&[], &[(2, 1), (4, 2)]), [4, 2, 4]);
    }

    #[test]
    fn groups_share_copies() {
        let mut handles = three();
        handles.regroup(&[], &[(1, 3)]);
        assert_eq!(handles.regroup(&[], &[(1, 2), (2, 2)]), [1, 2, 1, 2]);
        // The copies of 1 are the other group's.
        handles.regroup(&[(1, 3)], &[]);
        assert_eq!(handles.regroup(&[], &[(3, 2)]), [3, 3]);
        assert_eq!(handles.next, 6);
    }

    proptest! {
        #[test]
        fn no_handle_is_lost_or_given_twice(
            writes in prop::collection::vec((0_u32..4, prop::collection::btree_map(1_u32..6, 1_i32..5, 0..4)), 1..40),
        ) {
            let mut handles = Handles::default();
            (1..6).for_each(|member| handles.insert(member));
            let mut groups: BTreeMap<u32, Vec<(u32, i32)>> = BTreeMap::new();
            for (group, members) in writes {
                let members: Vec<_> = members.into_iter().collect();
                let old = groups.insert(group, members.clone()).unwrap_or_default();
                let order = handles.regroup(&old, &members);
                for (member, weight) in &members {
                    prop_assert_eq!(order.iter().filter(|m| *m == member).count(), *weight as usize);
                }
                prop_assert_eq!(order.len(), members.iter().map(|(_, w)| *w as usize).sum::<usize>());
                let mut held: Vec<_> = handles.copies.values().flat_map(|c| c.handles.iter().copied()).collect();
                held.extend(&handles.free);
                held.sort_unstable();
                prop_assert_eq!(held, (0..handles.next).collect::<Vec<_>>());
                for (member, copies) in &handles.copies {
                    prop_assert!(copies.handles.iter().all(|h| handles.member(*h) == Some(*member)));
                    let most = groups.values().flatten().filter(|(m, _)| m == member).map(|(_, w)| *w as usize).max();
                    prop_assert_eq!(copies.handles.len(), most.unwrap_or(1));
                }
            }
        }
    }
}
