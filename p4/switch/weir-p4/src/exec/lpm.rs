// SPDX-License-Identifier: Apache-2.0
//! Longest prefix match: a trie of four bits a step below a first step of sixteen, where up to eight prefixes that
//! share a way lie packed in a bucket instead of in nodes: a lookup among many routes costs little more than one among
//! few if what it reads is small enough to stay in the cache and the steps are the same for each key. Exact keys
//! beside the prefix choose the trie.
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;
const STEP: u32 = 4;

/// Marks a child that is a lone entry whose prefix is too long for a bucket.
const LONE: u32 = 1 << 31;
/// Marks a child that is a node. Any other is a bucket: two bits of its size's logarithm, then where it begins.
const NODE: u32 = 1 << 30;
const SIZE_AT: u32 = 28;
/// The bucket that all slots without a child share, so that a lookup need not ask whether there is one.
const NOTHING: u32 = 0;

const MOST: usize = 8;
/// Bits below its slot that a prefix in a bucket can have.
const REACH: u32 = 32;
const ENTRY_BITS: u32 = 26;

/// A prefix in a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Item {
    /// The bits below the slot, from the left.
    bits: u32,
    /// Length of the prefix, then the entry: of two that match, the greater is the longer.
    rank: u32,
}

/// Fills buckets up; longer than any key.
const UNUSED: Item = Item { bits: 0, rank: u32::MAX };

impl Item {
    fn new(bits: u32, length: u32, entry: u32) -> Item {
        Item { bits, rank: length << ENTRY_BITS | entry }
    }

    fn length(self) -> u32 {
        self.rank >> ENTRY_BITS
    }

    fn entry(self) -> u32 {
        self.rank & ((1 << ENTRY_BITS) - 1)
    }

    /// The rank if the prefix covers the bits, else 0. Without a branch, for none could be foretold.
    fn match_rank(self, bits: u32) -> u32 {
        let unlike = 63 - (u64::from(self.bits ^ bits) << 1 | 1).leading_zeros();
        if unlike + self.length() <= REACH { self.rank } else { 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    /// The entry of the longest prefix that ends in this node and covers the slot.
    best: u32,
    /// A bucket, a node or a lone entry.
    child: u32,
}

const EMPTY: Slot = Slot { best: NONE, child: NOTHING };

#[derive(Clone, Copy, PartialEq)]
enum Node {
    /// Indexed by the first bits.
    Root,
    At(u32),
}

/// Prefixes, and exact words before them, to entries.
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
    /// Buckets of one, two, four and eight.
    items: Vec<Item>,
    /// Where buckets of each size can begin.
    free_items: [Vec<u32>; 4],
    /// For each entry: the prefix's words, then its length.
    prefixes: Vec<u64>,
}

/// The `n` bits at `at` of words read from the left; no group of bits crosses a word.
fn bits(words: &[u64], at: u32, n: u32) -> usize {
    ((words[at as usize / 64] << (at % 64)) >> (64 - n)) as usize
}

/// The `REACH` bits at `at`, with zeros after the last word.
fn below(words: &[u64], at: u32) -> u32 {
    let (i, shift) = (at as usize / 64, at % 64);
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let next = if shift > 64 - REACH { word(i + 1) >> (64 - shift) } else { 0 };
    ((word(i) << shift | next) >> (64 - REACH)) as u32
}

/// The first item of a bucket and its size.
fn extent(child: u32) -> (usize, usize) {
    ((child & ((1 << SIZE_AT) - 1)) as usize, 1 << (child >> SIZE_AT))
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

    /// For keys of `words` 64-bit words, the first `exact_words` of which are exact; `width` is that of the prefix in
    /// bits.
    pub fn new(exact_words: usize, words: usize, width: u32) -> Lpm {
        let root_bits = if exact_words > 0 { STEP } else { width.div_ceil(STEP).clamp(1, 4) * STEP };
        let root = if exact_words > 0 { Vec::new() } else { vec![EMPTY; 1 << root_bits] };
        Lpm {
            exact_words,
            words,
            root_bits,
            root,
            roots: HashMap::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            items: vec![UNUSED],
            free_items: Default::default(),
            prefixes: Vec::new(),
        }
    }

    fn slot(&mut self, node: Node, i: usize) -> &mut Slot {
        match node {
            Node::Root => &mut self.root[i],
            Node::At(n) => &mut self.nodes[n as usize][i],
        }
    }

    fn step(&self, node: Node) -> u32 {
        if node == Node::Root { self.root_bits } else { STEP }
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

    /// The items of a bucket, which is given up.
    fn empty_bucket(&mut self, child: u32) -> Vec<Item> {
        let (from, size) = extent(child);
        let items = self.items[from..from + size].iter().copied().filter(|i| *i != UNUSED).collect();
        if child != NOTHING {
            self.free_items[size.trailing_zeros() as usize].push(from as u32);
        }
        items
    }

    fn new_bucket(&mut self, items: &[Item]) -> u32 {
        if items.is_empty() {
            return NOTHING;
        }
        let size = items.len().next_power_of_two();
        let log = size.trailing_zeros();
        let from = self.free_items[log as usize].pop().map_or(self.items.len(), |n| n as usize);
        if from == self.items.len() {
            self.items.resize(from + size, UNUSED);
        }
        assert!(from < 1 << SIZE_AT, "more prefixes than {ENTRY_BITS} bits can number");
        self.items[from..from + items.len()].copy_from_slice(items);
        self.items[from + items.len()..from + size].fill(UNUSED);
        log << SIZE_AT | from as u32
    }

    /// Whether a prefix can be in a bucket below a slot that ends at `end`.
    fn packs(length: u32, end: u32, entry: u32) -> bool {
        length - end <= REACH && entry >> ENTRY_BITS == 0
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
            let mut down = Vec::new();
            let next = if child & LONE != 0 {
                down.push(child & !LONE);
                self.new_node()
            } else if child & NODE != 0 {
                child & !NODE
            } else {
                let mut items = self.empty_bucket(child);
                if Self::packs(length, end, entry) && items.len() < MOST {
                    items.push(Item::new(below(&prefix, end), length - end, entry));
                    self.slot(node, i).child = self.new_bucket(&items);
                    return;
                }
                if items.is_empty() {
                    self.slot(node, i).child = entry | LONE;
                    return;
                }
                down.extend(items.into_iter().map(Item::entry));
                self.new_node()
            };
            // Too many share the way now: those that were here go a step down.
            self.slot(node, i).child = next | NODE;
            for other in down {
                self.add(Node::At(next), end, other);
            }
            (node, depth) = (Node::At(next), end);
        }
    }

    /// Takes a prefix out that is there. `find` gives the entry of a shorter length of the same key, if there is one.
    pub fn remove(&mut self, key: &[u64], length: u32, find: &dyn Fn(u32) -> Option<u32>) {
        let (exact, prefix) = key.split_at(self.exact_words);
        if self.exact_words == 0 {
            self.take(Node::Root, 0, prefix, length, find);
        } else if let Some(n) = self.roots.get(exact).copied()
            && self.take(Node::At(n), 0, prefix, length, find)
        {
            self.roots.remove(exact);
            self.free.push(n);
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
            if child & LONE != 0 {
                self.slot(node, i).child = NOTHING;
            } else if child & NODE != 0 {
                if self.take(Node::At(child & !NODE), end, prefix, length, find) {
                    self.slot(node, i).child = NOTHING;
                    self.free.push(child & !NODE);
                }
            } else {
                let gone = below(prefix, end);
                let mut items = self.empty_bucket(child);
                items.retain(|x| x.bits != gone || x.length() != length - end);
                self.slot(node, i).child = self.new_bucket(&items);
            }
        }
        match node {
            Node::Root => false,
            Node::At(n) => self.nodes[n as usize].iter().all(|s| *s == EMPTY),
        }
    }

    /// The entry of the longest prefix that a key has.
    pub fn lookup(&self, key: &[u64]) -> Option<u32> {
        let (exact, key) = key.split_at(self.exact_words);
        let (mut slot, mut depth) = if self.exact_words == 0 {
            (self.root[bits(key, 0, self.root_bits)], self.root_bits)
        } else {
            (self.nodes[*self.roots.get(exact)? as usize][bits(key, 0, STEP)], STEP)
        };
        let mut best = slot.best;
        while slot.child & (LONE | NODE) == NODE {
            slot = self.nodes[(slot.child & !NODE) as usize][bits(key, depth, STEP)];
            depth += STEP;
            if slot.best != NONE {
                best = slot.best;
            }
        }
        if slot.child & LONE != 0 {
            let entry = slot.child & !LONE;
            let (prefix, length) = self.prefix(entry);
            return if covers(prefix, length, key) { Some(entry) } else { (best != NONE).then_some(best) };
        }
        let (from, size) = extent(slot.child);
        let (items, bits) = (&self.items[from..from + size], below(key, depth));
        // The same four steps for sizes up to four: repeated steps do no harm.
        let mut rank = (0..MOST / 2).map(|i| items[i & (size - 1)].match_rank(bits)).fold(0, u32::max);
        if size == MOST {
            rank = items[MOST / 2..].iter().map(|x| x.match_rank(bits)).fold(rank, u32::max);
        }
        if rank != 0 {
            best = Item { bits, rank }.entry();
        }
        (best != NONE).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(key: u128, length: u32) -> u128 {
        let mut words = [(key >> 64) as u64, key as u64];
        super::cut(&mut words, length);
        u128::from(words[0]) << 64 | u128::from(words[1])
    }

    fn as_words(vrf: Option<u64>, key: u128, count: usize) -> Vec<u64> {
        vrf.into_iter().chain([(key >> 64) as u64, key as u64].into_iter().take(count)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a list: few distinct bits, so that prefixes nest, hide one another and share ways.
        #[test]
        fn finds_what_a_list_finds(
            width in prop::sample::select(vec![3u32, 9, 16, 32, 48, 64, 128]),
            exact in any::<bool>(),
            // Length of the prefix that all keys have in common, in bits.
            common in prop::sample::select(vec![0u32, 13, 30, 70]),
            steps in prop::collection::vec((any::<u8>(), any::<u128>(), any::<u128>(), 0..=128u32), 1..120),
        ) {
            let word_count = width.div_ceil(64) as usize;
            let mut lpm = Lpm::new(usize::from(exact), word_count, width);
            let mut list: Vec<(u64, u128, u32, u32)> = Vec::new();
            for (i, (kind, x, y, length)) in steps.iter().enumerate() {
                let room = (x & (x >> 17) & (x << 9)) << (128 - width);
                let key = if common < width { room << common >> common } else { room };
                let (vrf, length) = (if exact { (y % 2) as u64 } else { 0 }, length.min(&width));
                let prefix = cut(key, *length);
                let words = |k: u128| as_words(exact.then_some(vrf), k, word_count);
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
                    for k in [*p, *p | (y << (128 - width)), key] {
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
                lpm.remove(&as_words(exact.then_some(vrf), prefix, word_count), length, &find);
            }
            prop_assert!(lpm.root.iter().all(|s| *s == EMPTY) && lpm.roots.is_empty());
            prop_assert_eq!(lpm.free.len(), lpm.nodes.len());
            let free: usize = lpm.free_items.iter().zip([1, 2, 4, 8]).map(|(f, size)| f.len() * size).sum();
            prop_assert_eq!(1 + free, lpm.items.len());
        }
    }
}
