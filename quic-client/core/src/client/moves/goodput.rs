// SPDX-License-Identifier: Apache-2.0
//! Attribution of received bytes to paths. Bytes are received on any path, and read later, in order.

use crate::choice::PathId;
use std::collections::VecDeque;

/// Bytes of streams received and not read yet, by path, in the order of arrival.
#[derive(Debug, Clone, Default)]
pub struct GoodputByPath {
    waiting: VecDeque<(PathId, u64)>,
}

impl GoodputByPath {
    /// So many new bytes came in over a path.
    pub fn received(&mut self, path: PathId, bytes: u64) {
        match self.waiting.back_mut() {
            _ if bytes == 0 => {}
            Some((last, n)) if *last == path => *n += bytes,
            _ => self.waiting.push_back((path, bytes)),
        }
    }

    /// So many bytes were read. Returns the paths that carried them; bytes whose arrival was not recorded count for
    /// `active`.
    pub fn read(&mut self, mut bytes: u64, active: PathId) -> Vec<(PathId, u64)> {
        let mut parts = Vec::with_capacity(1);
        while bytes > 0 {
            let Some((path, n)) = self.waiting.front_mut() else {
                parts.push((active, bytes));
                break;
            };
            let part = bytes.min(*n);
            parts.push((*path, part));
            bytes -= part;
            *n -= part;
            if *n == 0 {
                self.waiting.pop_front();
            }
        }
        parts
    }

    /// Nothing is left to be read: the rest were headers and other bytes that are no payload.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Each byte read is credited once, and to no path that did not bring it, but for those that nobody brought.
        #[test]
        fn every_byte_is_credited_once(steps in prop::collection::vec((0u32..3, 0u64..1000, any::<bool>()), 0..60)) {
            let mut goodput = GoodputByPath::default();
            let mut came = [0u64; 4];
            let mut credited = [0u64; 4];
            for (path, bytes, read) in steps {
                if read {
                    let parts = goodput.read(bytes, PathId(3));
                    prop_assert_eq!(parts.iter().map(|(_, n)| n).sum::<u64>(), bytes);
                    parts.iter().for_each(|(p, n)| credited[p.0 as usize] += n);
                } else {
                    goodput.received(PathId(path), bytes);
                    came[path as usize] += bytes;
                }
                (0..3).for_each(|p| assert!(credited[p] <= came[p]));
            }
        }
    }
}
