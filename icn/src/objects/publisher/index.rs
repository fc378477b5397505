// SPDX-License-Identifier: Apache-2.0
//! Taking the hashes of a file, a part at a time, so that Interests for others are answered in between.

use super::Content;
use crate::objects::object::layout::{Layout, SEGMENT_BYTES};
use crate::objects::object::tree::{Hash, Tree, hash};
use boring::sha::Sha256;
use std::io;

/// A file's hashes.
#[derive(Debug)]
pub struct Indexed {
    /// Layout.
    pub layout: Layout,
    /// Its tree.
    pub tree: Tree,
    /// Of its whole content.
    pub sha256: Hash,
}

/// A file whose hashes are being taken.
pub struct Index {
    layout: Layout,
    sha: Sha256,
    leaves: Vec<Hash>,
}

impl Index {
    /// Of a file of `bytes`; `None` if that is too large.
    pub fn new(bytes: u64) -> Option<Index> {
        Some(Index { layout: Layout::of(bytes)?, sha: Sha256::new(), leaves: Vec::new() })
    }

    /// Segments that are left.
    pub fn left(&self) -> u64 {
        u64::from(self.layout.content_segments()).saturating_sub(self.leaves.len() as u64)
    }

    /// Reads up to `segments` more. Whether that was all.
    ///
    /// # Errors
    /// The file can't be read, or is shorter than it was.
    pub fn step(&mut self, content: &dyn Content, segments: u32) -> io::Result<bool> {
        let mut buffer = [0; SEGMENT_BYTES];
        for _ in 0..segments {
            let offset = self.leaves.len() as u64 * SEGMENT_BYTES as u64;
            let bytes = (self.layout.bytes - offset.min(self.layout.bytes)).min(SEGMENT_BYTES as u64) as usize;
            if bytes == 0 {
                return Ok(true);
            }
            content.read_at(offset, &mut buffer[..bytes])?;
            self.sha.update(&buffer[..bytes]);
            self.leaves.push(hash(0, &buffer[..bytes]));
        }
        Ok(self.leaves.len() as u64 == u64::from(self.layout.content_segments()))
    }

    /// The hashes, once all was read.
    pub fn finish(self) -> Indexed {
        Indexed { layout: self.layout, tree: Tree::over(self.leaves), sha256: self.sha.finish() }
    }
}
