// SPDX-License-Identifier: Apache-2.0
//! Longest prefix match: a trie of four bits a step below a first step of sixteen, with a lone prefix kept where its
//! path would start, so that depth grows with how much prefixes share and not with their length. Exact keys beside the
//! prefix choose the trie.
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;
/// Marks a child that is a lone entry.
const LONE: u32 = 1 << 31;
const STEP: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    /// The entry of the longest prefix that ends in this node and covers the slot.
    best: u32,
    /// A node, a lone entry or nothing.
    child: u32,
}

const EMPTY: Slot = Slot { best: NONE, child: NONE };

#[derive(Clone, Copy, PartialEq)]
enum Node {
    /// Indexed by the first bits.
    Root,
    At(u32),
}

pub struct Lpm {
    /// Words before the prefix's, and the prefix's own.
    exact_words: usize,
    words: usize,
    root_bits: u32,
    root: Vec<Slot>,
    /// First node for each value of the exact keys.
    roots: HashMap<Box<[u64]>, u32, FxBuildHasher>,
    nodes: Vec<[Slot; 1 << STEP]>,
    free: Vec<u32>,
    /// For each entry: the prefix's words, then its length.
    prefixes: Vec<u64>,
}

/// The `n` bits at `at` of words read from the left; no group of bits crosses a word.
fn bits(words: &[u64], at: u32, n: u32) -> usize {
    ((words[at as usize / 64] << (at % 64)) >> (64 - n)) as usize
}

fn covers(prefix: &[u64], length: u32, key: &[u64]) -> bool {
    let whole = length as usize / 64;
    let rest = length % 64;
    prefix[..whole] == key[..whole] && (rest == 0 || (prefix[whole] ^ key[whole]) >> (64 - rest) == 0)
}

/// Clears all but the first `n` bits.
pub fn cut(words: &mut [u64], n: u32) {
    for (i, w) in (0u32..).zip(words) {
        let keep = n.saturating_sub(64 * i).min(64);
        *w = if keep == 0 { 0 } else { *w & (u64::MAX << (64 - keep)) };
    }
}

impl Lpm {
    /// Words in front of the prefix's.
    pub fn exact_words(&self) -> usize {
        self.exact_words
    }

    pub fn new(exact_words: usize, words: usize, width: u32) -> Lpm {
        let root_bits = if exact_words > 0 { STEP } else { width.div_ceil(STEP).clamp(1, 4) * STEP };
        let root = if exact_words > 0 { Vec::new() } else { vec![EMPTY; 1 << root_bits] };
        let (roots, nodes, free) = (HashMap::default(), Vec::new(), Vec::new());
        Lpm { exact_words, words, root_bits, root, roots, nodes, free, prefixes: Vec::new() }
    }

    fn slot(&mut self, node: Node, i: usize) -> &mut Slot {
        match node {
            Node::Root => &mut self.root[i],
            Node::At(n) => &mut self.nodes[n as usize][i],
        }
    }

    fn step(&self, node: Node) -> u32 {
        if node == Node::Root {
            self.root_bits
        } else {
            STEP
        }
    }

    fn prefix(&self, entry: u32) -> (&[u64], u32) {
        let all = &self.prefixes[entry as usize * (self.words + 1)..][..=self.words];
        (&all[..self.words], all[self.words] as u32)
    }

    fn new_node(&mut self) -> u32 {
        if let Some(n) = self.free.pop() {
            self.nodes[n as usize] = [EMPTY; 1 << STEP];
            return n;
        }
        self.nodes.push([EMPTY; 1 << STEP]);
        (self.nodes.len() - 1) as u32
    }

    /// Adds a prefix that is not there yet.
    pub fn insert(&mut self, key: &[u64], length: u32, entry: u32) {
        let (exact, prefix) = key.split_at(self.exact_words);
        let at = entry as usize * (self.words + 1);
        if self.prefixes.len() < at + self.words + 1 {
            self.prefixes.resize(at + self.words + 1, 0);
        }
        self.prefixes[at..at + self.words].copy_from_slice(prefix);
        self.prefixes[at + self.words] = length as u64;
        let start = if self.exact_words == 0 {
            Node::Root
        } else {
            match self.roots.get(exact) {
                Some(n) => Node::At(*n),
                None => {
                    let n = self.new_node();
                    self.roots.insert(exact.into(), n);
                    Node::At(n)
                }
            }
        };
        self.add(start, 0, entry);
    }

    fn add(&mut self, mut node: Node, mut depth: u32, entry: u32) {
        let (prefix, length) = self.prefix(entry);
        let prefix = prefix.to_vec();
        loop {
            let step = self.step(node);
            let i = bits(&prefix, depth, step);
            let end = depth + step;
            if length <= end {
                for k in i..i + (1 << (end - length)) {
                    let old = self.slot(node, k).best;
                    if old == NONE || self.prefix(old).1 <= length {
                        self.slot(node, k).best = entry;
                    }
                }
                return;
            }
            let child = self.slot(node, i).child;
            let next = if child == NONE {
                self.slot(node, i).child = entry | LONE;
                return;
            } else if child & LONE != 0 {
                // Two share the way now: the one that was alone goes a step down.
                let n = self.new_node();
                self.slot(node, i).child = n;
                self.add(Node::At(n), end, child & !LONE);
                n
            } else {
                child
            };
            (node, depth) = (Node::At(next), end);
        }
    }

    /// Takes a prefix out that is there. `find` gives the entry of a shorter length of the same key, if there is one.
    pub fn remove(&mut self, key: &[u64], length: u32, find: &dyn Fn(u32) -> Option<u32>) {
        let (exact, prefix) = key.split_at(self.exact_words);
        if self.exact_words == 0 {
            self.take(Node::Root, 0, prefix, length, find);
        } else if let Some(n) = self.roots.get(exact).copied() {
            if self.take(Node::At(n), 0, prefix, length, find) {
                self.roots.remove(exact);
                self.free.push(n);
            }
        }
    }

    /// Whether the node is empty afterwards.
    fn take(&mut self, node: Node, depth: u32, prefix: &[u64], length: u32, find: &dyn Fn(u32) -> Option<u32>) -> bool {
        let step = self.step(node);
        let (i, end) = (bits(prefix, depth, step), depth + step);
        if length <= end {
            // Of the shorter prefixes that end in this node the longest takes its place.
            let first = if depth == 0 { 0 } else { depth + 1 };
            let next = (first..length).rev().find_map(find).unwrap_or(NONE);
            for k in i..i + (1 << (end - length)) {
                let old = self.slot(node, k).best;
                if old != NONE && self.prefix(old).1 == length {
                    self.slot(node, k).best = next;
                }
            }
        } else {
            let child = self.slot(node, i).child;
            if child != NONE && child & LONE != 0 {
                self.slot(node, i).child = NONE;
            } else if child != NONE && self.take(Node::At(child), end, prefix, length, find) {
                self.slot(node, i).child = NONE;
                self.free.push(child);
            }
        }
        match node {
            Node::Root => false,
            Node::At(n) => self.nodes[n as usize].iter().all(|s| *s == EMPTY),
        }
    }

    pub fn lookup(&self, key: &[u64]) -> Option<u32> {
        let (exact, key) = key.split_at(self.exact_words);
        let (mut slot, mut depth) = if self.exact_words == 0 {
            (self.root[bits(key, 0, self.root_bits)], self.root_bits)
        } else {
            (self.nodes[*self.roots.get(exact)? as usize][bits(key, 0, STEP)], STEP)
        };
        let mut best = NONE;
        loop {
            if slot.best != NONE {
                best = slot.best;
            }
            if slot.child == NONE {
                break;
            }
            if slot.child & LONE != 0 {
                let entry = slot.child & !LONE;
                let (prefix, length) = self.prefix(entry);
                if covers(prefix, length, key) {
                    best = entry;
                }
                break;
            }
            slot = self.nodes[slot.child as usize][bits(key, depth, STEP)];
            depth += STEP;
        }
        (best != NONE).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(key: u64, length: u32) -> u64 {
        let mut words = [key];
        super::cut(&mut words, length);
        words[0]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a list: few distinct bits, so that prefixes nest, hide one another and share ways.
        #[test]
        fn finds_what_a_list_finds(
            width in prop::sample::select(vec![3u32, 9, 16, 32, 48, 64]),
            exact in any::<bool>(),
            steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), 0..=64u32), 1..120),
        ) {
            let mut lpm = Lpm::new(usize::from(exact), 1, width);
            let mut list: Vec<(u64, u64, u32, u32)> = Vec::new();
            for (i, (kind, x, y, length)) in steps.iter().enumerate() {
                let room = x & (x >> 17) & (x << 9);
                let (vrf, key, length) = (if exact { y % 2 } else { 0 }, room << (64 - width), length.min(&width));
                let prefix = cut(key, *length);
                let words = |k: u64| if exact { vec![vrf, k] } else { vec![k] };
                let at = list.iter().position(|(v, p, n, _)| (*v, *p, n) == (vrf, prefix, length));
                match at {
                    Some(at) if kind % 2 == 0 => {
                        list.swap_remove(at);
                        let find = |n: u32| {
                            list.iter().find(|(v, p, l, _)| (*v, *p, *l) == (vrf, cut(prefix, n), n)).map(|e| e.3)
                        };
                        lpm.remove(&words(prefix), *length, &find);
                    }
                    Some(_) => {}
                    None => {
                        lpm.insert(&words(prefix), *length, i as u32);
                        list.push((vrf, prefix, *length, i as u32));
                    }
                }
                for (_, p, _, _) in list.clone().iter().chain([&(0, key, 0, 0)]) {
                    for k in [*p, *p | (y << (64 - width)), key] {
                        let best = list.iter().filter(|(v, p, n, _)| *v == vrf && cut(k, *n) == *p).max_by_key(|e| e.2);
                        prop_assert_eq!(lpm.lookup(&words(k)), best.map(|e| e.3));
                    }
                }
            }
            for (vrf, prefix, length, _) in list.clone() {
                list.retain(|e| (e.0, e.1, e.2) != (vrf, prefix, length));
                let find = |n: u32| {
                    list.iter().find(|(v, p, l, _)| (*v, *p, *l) == (vrf, cut(prefix, n), n)).map(|e| e.3)
                };
                let words = if exact { vec![vrf, prefix] } else { vec![prefix] };
                lpm.remove(&words, length, &find);
            }
            prop_assert!(lpm.root.iter().all(|s| *s == EMPTY) && lpm.roots.is_empty());
            prop_assert_eq!(lpm.free.len(), lpm.nodes.len());
        }
    }
}
