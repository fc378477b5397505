// SPDX-License-Identifier: Apache-2.0
//! A live stream at its publisher: the last blocks, and the one that is being filled.

use crate::objects::object::layout::{CHILDREN, SEGMENT_BYTES};
use crate::objects::object::live::{block, signed_text};
use crate::objects::object::sign::{Purpose, SigningKey};
use crate::objects::object::tree::{Hash, hash};
use boring::error::ErrorStack;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time that content waits for its segment and its block to be full.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Blocks that a stream may have, with the one that says that it is over: the numbers of segments make nonces, so none is
/// used twice.
pub const MOST_BLOCKS: u32 = u32::MAX / CHILDREN as u32;

/// A block that is signed.
#[derive(Debug)]
pub struct Block {
    segments: Vec<Vec<u8>>,
    content: Vec<u8>,
}

impl Block {
    /// Content of a block's packet.
    pub fn signed(key: &SigningKey, name: &str, segment: u32, hashes: &[Hash]) -> Result<Vec<u8>, ErrorStack> {
        let signature = key.sign(Purpose::LiveBlock, &signed_text(name, segment, hashes))?;
        Ok(block(hashes, &signature))
    }
}

/// Reason why a segment is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// It was, or never will be.
    Never,
    /// It will be.
    Yet,
}

/// The stream.
#[derive(Debug)]
pub struct Live {
    history_bytes: u64,
    bytes: u64,
    /// The number of the first block that is kept.
    first: u32,
    blocks: VecDeque<Block>,
    filling: Vec<Vec<u8>>,
    begun: Vec<u8>,
    since: Option<Instant>,
    ended: bool,
}

impl Live {
    /// Keeps at most `history_bytes` of what was, and one block.
    pub fn new(history_bytes: u64) -> Live {
        Live {
            history_bytes,
            bytes: 0,
            first: 0,
            blocks: VecDeque::new(),
            filling: Vec::new(),
            begun: Vec::new(),
            since: None,
            ended: false,
        }
    }

    /// As if so many blocks had been before.
    #[cfg(test)]
    pub fn behind(first: u32, history_bytes: u64) -> Live {
        Live { first, ..Live::new(history_bytes) }
    }

    /// Whether there is no number left for another block, but for the one that says that it is over.
    pub fn is_full(&self) -> bool {
        self.block() >= MOST_BLOCKS - 1
    }

    /// The block that is being filled.
    fn block(&self) -> u32 {
        self.first + self.blocks.len() as u32
    }

    /// The segment of content that is being filled.
    pub fn next_segment(&self) -> u32 {
        self.block() * CHILDREN as u32 + self.filling.len() as u32
    }

    /// Where someone new begins: the block that is being filled, or at the end the last one.
    pub fn begin(&self) -> u32 {
        self.block().saturating_sub(u32::from(self.ended)) * CHILDREN as u32
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Adds bytes to the segment that is being filled. Returns the number of bytes taken, and whether it is full.
    pub fn push(&mut self, bytes: &[u8], now: Instant) -> (usize, bool) {
        let taken = bytes.len().min(SEGMENT_BYTES - self.begun.len());
        self.begun.extend(&bytes[..taken]);
        self.since.get_or_insert(now);
        (taken, self.begun.len() == SEGMENT_BYTES)
    }

    /// When what waits has waited long enough.
    pub fn next_flush(&self) -> Option<Instant> {
        self.since.map(|since| since + FLUSH_AFTER)
    }

    /// Whether there is something in the segment that is being filled.
    pub fn has_begun_segment(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Ends the segment that is being filled: its number, and whether its block is full.
    pub fn cut(&mut self, now: Instant) -> Option<(u32, bool)> {
        if self.begun.is_empty() || self.ended {
            return None;
        }
        let segment = self.next_segment();
        self.bytes += self.begun.len() as u64;
        self.filling.push(std::mem::take(&mut self.begun));
        self.since.get_or_insert(now);
        Some((segment, self.filling.len() == CHILDREN))
    }

    /// Signs the block that is being filled: its number, if there was something in it or it says that this is the end.
    ///
    /// # Errors
    /// `sign` fails.
    pub fn close(
        &mut self,
        end: bool,
        sign: impl FnOnce(u32, &[Hash]) -> Result<Vec<u8>, ErrorStack>,
    ) -> Result<Option<u32>, ErrorStack> {
        if self.ended || (self.filling.is_empty() && !end) {
            return Ok(None);
        }
        let number = self.block();
        let hashes: Vec<_> = self.filling.iter().map(|s| hash(0, s)).collect();
        let content = sign(number, &hashes)?;
        self.blocks.push_back(Block { segments: std::mem::take(&mut self.filling), content });
        self.since = None;
        self.ended = end;
        while self.bytes > self.history_bytes && self.blocks.len() > 1 {
            if let Some(old) = self.blocks.pop_front() {
                self.bytes -= old.segments.iter().map(|s| s.len() as u64).sum::<u64>();
                self.first += 1;
            }
        }
        Ok(Some(number))
    }

    /// Content of a segment.
    ///
    /// # Errors
    /// It is not there.
    pub fn segment(&self, segment: u32) -> Result<Vec<u8>, Gap> {
        let (number, place) = (segment / CHILDREN as u32, segment as usize % CHILDREN);
        if number == self.block() && !self.ended {
            return self.filling.get(place).cloned().ok_or(Gap::Yet);
        }
        let block = self.closed(number)?;
        block.segments.get(place).cloned().ok_or(Gap::Never)
    }

    /// Content of a block's packet.
    ///
    /// # Errors
    /// It is not there.
    pub fn hashes(&self, number: u32) -> Result<Vec<u8>, Gap> {
        Ok(self.closed(number)?.content.clone())
    }

    fn closed(&self, number: u32) -> Result<&Block, Gap> {
        if number >= self.block() {
            return Err(if self.ended { Gap::Never } else { Gap::Yet });
        }
        let place = number.checked_sub(self.first).ok_or(Gap::Never)?;
        self.blocks.get(place as usize).ok_or(Gap::Never)
    }
}
