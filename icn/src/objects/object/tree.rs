// SPDX-License-Identifier: Apache-2.0
//! The tree of hashes over an object: built by a publisher, and climbed down by a subscriber, who takes nothing in before
//! its hash is known.

use super::layout::{CHILDREN, HASH_BYTES, Item, Layout};
use boring::sha::Sha256;
use std::collections::BTreeMap;

/// SHA-256.
pub type Hash = [u8; HASH_BYTES];

/// RFC 9162 2.1.1: what a leaf and a node begin with, so that neither can be taken for the other.
const LEAF: u8 = 0;
const NODE: u8 = 1;

/// The hash of what a segment has: a leaf of content, a node of hashes.
pub fn hash(level: u8, content: &[u8]) -> Hash {
    let mut sha = Sha256::new();
    sha.update(&[if level == 0 { LEAF } else { NODE }]);
    sha.update(content);
    sha.finish()
}

/// All hashes of an object, at its publisher: 33 bytes for each segment of content.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    // Level k at k - 1.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// The tree over these leaves, in the order of their segments.
    pub fn over(leaves: Vec<Hash>) -> Tree {
        let mut levels = vec![leaves];
        while let Some(last) = levels.last()
            && last.len() > CHILDREN
        {
            levels.push(last.chunks(CHILDREN).map(|node| hash(1, node.as_flattened())).collect());
        }
        Tree { levels }
    }

    /// The hashes that the manifest has.
    pub fn top(&self) -> &[Hash] {
        self.levels.last().map_or(&[], Vec::as_slice)
    }

    /// The hash of a segment.
    pub fn of(&self, item: Item) -> Option<&Hash> {
        self.levels.get(usize::from(item.level))?.get(item.segment as usize)
    }

    /// Content of a segment of a hash level below the top.
    pub fn segment(&self, item: Item) -> Option<&[u8]> {
        let level = usize::from(item.level).checked_sub(1).filter(|k| k + 1 < self.levels.len())?;
        self.levels[level].chunks(CHILDREN).nth(item.segment as usize).map(<[Hash]>::as_flattened)
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|l| l.len() as u64).sum::<u64>() * HASH_BYTES as u64
    }
}

/// Hashes of an object that a subscriber knows.
#[derive(Debug)]
pub struct Known {
    layout: Layout,
    top: Vec<Hash>,
    // Segments of hash levels that were checked.
    nodes: BTreeMap<Item, Vec<u8>>,
}

/// Result of checking a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It is what the publisher signed.
    Right,
    /// It is not.
    Wrong,
    /// Its hash is not known yet.
    Unknown,
}

impl Known {
    /// With the top of the manifest, which has as many hashes as the layout asks for.
    pub fn new(layout: Layout, top: Vec<Hash>) -> Known {
        Known { layout, top, nodes: BTreeMap::new() }
    }

    /// Whether this segment of hashes is there.
    pub fn knows(&self, node: Item) -> bool {
        self.nodes.contains_key(&node)
    }

    /// The segment whose content must be known to check this one; `None` if it is known, or the manifest has it.
    pub fn needs(&self, item: Item) -> Option<Item> {
        let (above, _) = item.parent();
        (above.level < self.layout.levels && !self.nodes.contains_key(&above)).then_some(above)
    }

    fn expected(&self, item: Item) -> Option<&[u8]> {
        let (above, place) = item.parent();
        if above.level == self.layout.levels {
            return self.top.get(item.segment as usize).map(<[u8; HASH_BYTES]>::as_slice);
        }
        self.nodes.get(&above)?.chunks_exact(HASH_BYTES).nth(place)
    }

    /// Checks a segment. Hashes that are right are kept.
    pub fn check(&mut self, item: Item, content: &[u8]) -> Check {
        let Some(expected) = self.expected(item) else { return Check::Unknown };
        if self.layout.segment_bytes(item) != Some(content.len()) || hash(item.level, content) != expected {
            return Check::Wrong;
        }
        if item.level > 0 {
            self.nodes.insert(item, content.to_vec());
        }
        Check::Right
    }

    /// Drops the hashes of a block, all of whose content is there.
    pub fn forget(&mut self, node: Item) {
        self.nodes.remove(&node);
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.nodes.values().map(Vec::len).sum::<usize>() + self.top.len() * HASH_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::SEGMENT_BYTES;
    use super::*;
    use proptest::prelude::*;

    fn content(bytes: usize, seed: u8) -> Vec<u8> {
        (0..bytes).map(|i| (i / 7) as u8 ^ (i >> 9) as u8 ^ seed).collect()
    }

    fn tree(content: &[u8]) -> Tree {
        Tree::over(content.chunks(SEGMENT_BYTES).map(|c| hash(0, c)).collect())
    }

    #[test]
    fn the_hashes_are_those_of_rfc_9162() {
        // SHA-256 of 0x00, the hash of an empty leaf in RFC 9162's terms.
        let hex: String = hash(0, b"").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
        assert_ne!(hash(0, b"x"), hash(1, b"x"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_right_is_taken_and_nothing_else(bytes in 0usize..200_000, seed: u8, flip: prop::sample::Index) {
            let data = content(bytes, seed);
            let tree = tree(&data);
            let layout = Layout::of(bytes as u64).unwrap();
            prop_assert_eq!(tree.top().len(), layout.hashes(layout.levels) as usize);
            let mut known = Known::new(layout, tree.top().to_vec());
            for level in (0..layout.levels).rev() {
                for segment in 0..layout.segments(level) {
                    let item = Item { level, segment };
                    let right = match level {
                        0 => data.chunks(SEGMENT_BYTES).nth(segment as usize).unwrap(),
                        _ => tree.segment(item).unwrap(),
                    };
                    prop_assert_eq!(known.needs(item), None);
                    let mut wrong = right.to_vec();
                    let at = flip.index(wrong.len());
                    wrong[at] ^= 1;
                    prop_assert_eq!(known.check(item, &wrong), Check::Wrong);
                    prop_assert_eq!(known.check(item, &right[..right.len() - 1]), Check::Wrong);
                    prop_assert_eq!(known.check(item, right), Check::Right);
                }
                let beyond = Item { level, segment: layout.segments(level) };
                prop_assert_ne!(known.check(beyond, b"x"), Check::Right);
            }
        }

        #[test]
        fn nothing_is_checked_before_its_hash_is_known(segment in 0u32..1700) {
            let data = content(1700 * SEGMENT_BYTES, 3);
            let tree = tree(&data);
            let layout = Layout::of(data.len() as u64).unwrap();
            let mut known = Known::new(layout, tree.top().to_vec());
            let item = Item { level: 0, segment };
            let right = data.chunks(SEGMENT_BYTES).nth(segment as usize).unwrap();
            prop_assert_eq!(known.check(item, right), Check::Unknown);
            let above = known.needs(item).unwrap();
            let top = known.needs(above).unwrap();
            prop_assert_eq!(known.needs(top), None);
            prop_assert_eq!(known.check(above, tree.segment(above).unwrap()), Check::Unknown);
            prop_assert_eq!(known.check(top, tree.segment(top).unwrap()), Check::Right);
            prop_assert_eq!(known.check(above, tree.segment(above).unwrap()), Check::Right);
            prop_assert_eq!(known.check(item, right), Check::Right);
        }
    }
}
