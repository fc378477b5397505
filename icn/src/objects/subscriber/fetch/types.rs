// SPDX-License-Identifier: Apache-2.0
//! Settings, outcomes and counters of a fetch.

use serde::Serialize;
use std::time::Duration;

/// Where checked content goes.
pub trait Store {
    /// Takes in a segment's content, at its place; in order, if that was asked for.
    ///
    /// # Errors
    /// Why it can't be kept.
    fn write(&mut self, segment: u32, content: &[u8]) -> Result<(), String>;

    /// Gives back what was taken in, now or by an earlier run; `None` if it can't be read.
    fn read(&mut self, segment: u32, bytes: usize) -> Option<Vec<u8>>;
}

/// Settings of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Unanswered segments are asked for again after so many smoothed response times.
    pub beta: f64,
    /// A gap shows a loss too.
    pub gaps: bool,
    /// Segments are given on in order.
    pub ordered: bool,
    /// Lost segments are mended with repair symbols, if the object has any and segments are not given on in order.
    pub repair: bool,
    /// Without anything right for so long it ends.
    pub give_up: Duration,
    /// A round trip to the publisher: before there are answers enough, a gap shows no loss sooner.
    pub round_trip: Duration,
    /// Of the random numbers that part those who hear each other: another one at each subscriber.
    pub seed: u64,
}

/// Outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is there.
    Complete,
    /// Nothing came for too long.
    Silent,
    /// The network or the publisher answered again and again that there is no such thing: the Nack's code.
    Refused(u8),
    /// Received content can't be kept.
    Store(String),
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments asked for, each time counted.
    pub asked: u64,
    /// Of these, again, and repair symbols in place of that.
    pub asked_again: u64,
    /// Of these, repair symbols.
    pub repair_asked: u64,
    /// Segments that were made from repair symbols.
    pub repaired: u64,
    /// Blocks that were decoded, or could not be, each time counted.
    pub decodings: u64,
    /// Interests sent.
    pub interests: u64,
    /// Data that arrived for this object.
    pub data: u64,
    /// Data that was taken in although another had asked for it.
    pub overheard: u64,
    /// Segments that were not asked for because another's Interest for them was heard.
    pub joined: u64,
    /// Data that was there already.
    pub duplicates: u64,
    /// Data that did not pass its check: it was dropped.
    pub wrong: u64,
    /// Data that came before its key.
    pub keyless: u64,
    /// Data with a mark.
    pub marked: u64,
    /// Counted as lost by a gap.
    pub lost_by_gap: u64,
    /// Counted as lost because the time was over.
    pub lost_by_time: u64,
    /// Times when nothing was heard at all.
    pub silences: u64,
    /// Nacks.
    pub nacks: u64,
    /// Times it went on where another asks.
    pub followed: u64,
    /// Segments of a live stream that were lost.
    pub skipped: u64,
    /// Segments of an earlier run that passed their check again.
    pub resumed: u64,
    /// Of these, those that did not.
    pub spoiled: u64,
}
