// SPDX-License-Identifier: Apache-2.0
//! Layout of an object: segments of content, and levels of hashes over them.

/// Content in a segment, in bytes; the last one may have fewer.
pub const SEGMENT_BYTES: usize = 1440;
/// Hashes in a segment of a hash level, which is one node of the level above.
pub const CHILDREN: usize = 40;
/// SHA-256.
pub const HASH_BYTES: usize = 32;
/// Hash levels that 2^32 segments need at most: 40^7 are more.
pub const MOST_LEVELS: u8 = 7;
/// Level of repair packets: no hash level's number.
pub const REPAIR: u8 = MOST_LEVELS + 1;

/// A segment of an object: of its content (level 0), or of the hashes of level 1 and above; or a repair symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// 0: content; k: the hashes over level k - 1; [`REPAIR`]: repair symbols.
    pub level: u8,
    /// From 0.
    pub segment: u32,
}

impl Item {
    /// The segment of the level above that has this one's hash, and the hash's place in it. If that level is the top, it
    /// is in the manifest and no segment.
    pub fn parent(self) -> (Item, usize) {
        let above = Item { level: self.level + 1, segment: self.segment / CHILDREN as u32 };
        (above, self.segment as usize % CHILDREN)
    }
}

/// The shape of an object of known length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Content.
    pub bytes: u64,
    /// Levels of hashes; the highest is the top. At least 1.
    pub levels: u8,
}

impl Layout {
    /// The shape of `bytes` of content; `None` if that is more than 2^32 - 1 segments.
    pub fn of(bytes: u64) -> Option<Layout> {
        let mut count = u32::try_from(bytes.div_ceil(SEGMENT_BYTES as u64)).ok()?;
        let mut levels = 1;
        while count as usize > CHILDREN {
            count = count.div_ceil(CHILDREN as u32);
            levels += 1;
        }
        Some(Layout { bytes, levels })
    }

    /// Segments of content.
    pub fn content_segments(self) -> u32 {
        self.bytes.div_ceil(SEGMENT_BYTES as u64) as u32
    }

    /// Hashes of a level from 1 on.
    pub fn hashes(self, level: u8) -> u32 {
        (1..level).fold(self.content_segments(), |n, _| n.div_ceil(CHILDREN as u32))
    }

    /// Segments that a level has as packets: the top has none, because the manifest has it.
    pub fn segments(self, level: u8) -> u32 {
        match level {
            0 => self.content_segments(),
            k if k < self.levels => self.hashes(k).div_ceil(CHILDREN as u32),
            _ => 0,
        }
    }

    /// Bytes in this segment, once opened; `None` if the object has no such segment.
    pub fn segment_bytes(self, item: Item) -> Option<usize> {
        if item.segment >= self.segments(item.level) {
            return None;
        }
        Some(match item.level {
            0 => (self.bytes - u64::from(item.segment) * SEGMENT_BYTES as u64).min(SEGMENT_BYTES as u64) as usize,
            k => (self.hashes(k) as usize - item.segment as usize * CHILDREN).min(CHILDREN) * HASH_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shapes() {
        let shape = |bytes| {
            let l = Layout::of(bytes).unwrap();
            (l.levels, (0..=l.levels).map(|k| l.segments(k)).collect::<Vec<_>>())
        };
        assert_eq!(shape(0), (1, vec![0, 0]));
        assert_eq!(shape(1), (1, vec![1, 0]));
        assert_eq!(shape(40 * 1440), (1, vec![40, 0]));
        assert_eq!(shape(40 * 1440 + 1), (2, vec![41, 2, 0]));
        assert_eq!(shape(51_200_000), (3, vec![35_556, 889, 23, 0]));
        assert_eq!(Layout::of(u64::from(u32::MAX) * 1440).unwrap().levels, MOST_LEVELS);
        assert_eq!(Layout::of(u64::from(u32::MAX) * 1440 + 1), None);
    }

    proptest! {
        #[test]
        fn segments_add_up(bytes in 0u64..1 << 42) {
            let l = Layout::of(bytes).unwrap();
            prop_assert!(l.levels >= 1 && l.levels <= MOST_LEVELS && l.hashes(l.levels) as usize <= CHILDREN);
            for level in 0..=l.levels {
                let n = l.segments(level);
                let size = |segment| l.segment_bytes(Item { level, segment });
                prop_assert_eq!(size(n), None);
                let full = if level == 0 { SEGMENT_BYTES } else { CHILDREN * HASH_BYTES };
                if n > 0 {
                    let total = u64::from(n - 1) * full as u64 + size(n - 1).unwrap() as u64;
                    let whole = if level == 0 { bytes } else { u64::from(l.hashes(level)) * HASH_BYTES as u64 };
                    prop_assert_eq!(total, whole);
                }
            }
        }
    }
}
