// SPDX-License-Identifier: Apache-2.0
//! Repair symbols at the publisher. A symbol is made of a whole block, so blocks that were encoded are kept for a while, and
//! how many are encoded in a second is bounded.

use super::object::{Missing, Object};
use super::{Counts, ObjectId};
use crate::objects::lru::Lru;
use crate::objects::object::layout::Item;
use crate::objects::object::repair::Encoder;
use crate::refusals::Refusals;
use std::time::Instant;

/// Memory for encoded blocks: 16 of 160 segments.
const MOST_ENCODED_BYTES: u64 = 8 << 20;
/// Blocks encoded at once, and a second: a gigabit a second has 540 blocks of 160 segments. Anyone may ask for any block, and
/// each costs the reading and hashing of all its segments.
const ENCODINGS: Refusals = Refusals::new(64.0, 600.0);

/// Of all objects.
pub struct Repairs {
    encoded: Lru<(ObjectId, u32), Encoder>,
    encodings: Refusals,
}

impl Default for Repairs {
    fn default() -> Repairs {
        Repairs { encoded: Lru::new(MOST_ENCODED_BYTES), encodings: ENCODINGS }
    }
}

impl Repairs {
    /// Content of a repair packet of an object.
    ///
    /// # Errors
    /// It is not there.
    pub fn symbol(
        &mut self,
        id: ObjectId,
        object: &Object,
        number: u32,
        counts: &mut Counts,
        now: Instant,
    ) -> Result<Vec<u8>, Missing> {
        let (repair, layout) = object.repair.zip(object.layout()).ok_or(Missing::Never)?;
        if !repair.has(number, layout) {
            return Err(Missing::Never);
        }
        let (block, symbol) = repair.symbol_of(number);
        if let Some(encoder) = self.encoded.get(&(id, block)) {
            return Ok(encoder.symbol(symbol));
        }
        if !self.encodings.one_more(now) {
            return Err(Missing::Busy);
        }
        let mut content = Vec::new();
        for segment in repair.segments_of(block, layout) {
            content.extend(object.content(Item { level: 0, segment })?);
        }
        counts.encoded += 1;
        let encoder = Encoder::new(content);
        let (bytes, found) = (encoder.bytes(), encoder.symbol(symbol));
        self.encoded.insert((id, block), encoder, bytes);
        Ok(found)
    }

    /// An object is no longer offered.
    pub fn forget(&mut self, id: ObjectId) {
        self.encoded.remove_where(|(of, _)| *of == id);
    }
}
