// SPDX-License-Identifier: Apache-2.0
//! Packing of a table's keys into 64-bit words.
use crate::bytecode::code::KeyField;
use crate::bytecode::program::{Key, MatchKind, Table, needs_priority};

/// The keys that are looked up: all but selectors.
pub fn match_keys(t: &Table) -> impl Iterator<Item = &Key> {
    t.keys.iter().filter(|k| k.kind != MatchKind::Selector)
}

/// Fields in the order of the keys, and words in all. Exact keys share words; a prefix lies last and to the left.
pub fn layout(t: &Table) -> (Vec<KeyField>, usize) {
    let keys: Vec<&Key> = match_keys(t).collect();
    let lpm = if needs_priority(t) { None } else { keys.iter().position(|k| k.kind == MatchKind::Lpm) };
    let share = !needs_priority(t);
    let (mut fields, mut words, mut free) = (Vec::new(), 0, 0);
    for (i, k) in keys.iter().enumerate() {
        let (width, n) = (k.width, (k.width.max(1) as usize).div_ceil(64));
        if Some(i) == lpm {
            fields.push(KeyField { word: 0, words: n, shift: (64 * n as u32 - width).min(63), width });
        } else if share && words > 0 && width <= free {
            free -= width;
            fields.push(KeyField { word: words - 1, words: 1, shift: free.min(63), width });
        } else {
            // The first of those that share a word lies to the left of the others.
            free = if n == 1 && share { 64 - width } else { 0 };
            // A key of no bits is always zero, and lies anywhere.
            fields.push(KeyField { word: words, words: n, shift: free.min(63), width });
            words += n;
        }
    }
    if let Some(i) = lpm {
        fields[i].word = words;
        words += fields[i].words;
    }
    (fields, words)
}
