// SPDX-License-Identifier: Apache-2.0
//! A budget of memory, over all connections, for data that clients send ahead of the readable part.
//!
//! Data behind a gap is kept until the gap is filled. Flow control bounds its bytes, on each connection. But a piece of
//! one byte takes as much memory as [`PIECE_BYTES`], and a client decides how long its gaps stay. So the budget counts
//! memory, on all connections together. Received data can't wait: where the sum is above the budget, connections are
//! closed until an eighth of the budget is free. The first are those that read nothing, the largest first; then those
//! for which memory times time is largest. A connection with less than an eighth of an equal part is never closed: all
//! of these together hold less than an eighth of the budget.

use quiche::hooks::Unread;
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// Overhead of a piece: its entry in quiche's tree, whose nodes may be half empty, and its allocation. (Measured: 144
/// to 157 bytes for pieces of one byte, forwards, backwards and between others; 1483 for 1300.)
pub const PIECE_BYTES: u64 = 192;
/// A connection on which less was read in this time than it held at its beginning only holds it. A lost packet that is
/// sent again fills its gap sooner.
pub const HOLD: Duration = Duration::from_secs(2);
/// Upper bound of memory per byte of a datagram, about: a large piece that fills many gaps of one byte makes a piece of
/// each second byte.
const MOST_PER_BYTE: u64 = PIECE_BYTES / 2;
/// Parts of the budget: free after connections were closed, addable between two looks, and held by a connection of an
/// equal part without being asked.
const EIGHTH: u64 = 8;

/// Memory cost of unread data, in bytes. `frames_bytes`: of frames or lines that have not come whole.
pub fn cost_bytes(unread: Unread, frames_bytes: u64) -> u64 {
    unread.bytes.saturating_add(unread.pieces * PIECE_BYTES).saturating_add(frames_bytes)
}

/// Memory held by one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    memory_bytes: u64,
    mark: Option<Mark>,
}

/// Memory of a connection at a time, and the bytes read on it by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    at: Instant,
    memory_bytes: u64,
    read_bytes: u64,
}

impl Part {
    /// For how long it has held something without reading as much as it held then.
    fn age(&self, now: Instant) -> Duration {
        self.mark.map_or(Duration::ZERO, |mark| now.saturating_duration_since(mark.at))
    }
}

/// The budget.
#[derive(Debug)]
pub struct ReceiveMemory {
    budget_bytes: u64,
    used_bytes: u64,
    /// Connections that hold something.
    holders: u64,
    /// Bytes of datagrams since the last check.
    unseen_bytes: u64,
}

impl ReceiveMemory {
    /// Of so much memory, in bytes.
    pub fn new(budget_bytes: u64) -> Self {
        ReceiveMemory { budget_bytes, used_bytes: 0, holders: 0, unseen_bytes: 0 }
    }

    /// Notes that a datagram came. Whether all connections with arrivals are to be checked now: arrivals since the last
    /// check could have become an eighth of the budget.
    pub fn came(&mut self, bytes: usize) -> bool {
        self.unseen_bytes += bytes as u64;
        self.unseen_bytes * MOST_PER_BYTE >= self.budget_bytes / EIGHTH
    }

    /// All connections that something came for have been looked at ([`ReceiveMemory::update`]).
    pub fn looked(&mut self) {
        self.unseen_bytes = 0;
    }

    /// Notes a connection's memory now ([`cost_bytes`]), `read_bytes` being the payload read on it so far.
    pub fn update(&mut self, part: &mut Part, memory_bytes: u64, read_bytes: u64, now: Instant) {
        self.used_bytes = self.used_bytes - part.memory_bytes + memory_bytes;
        self.holders = self.holders + u64::from(memory_bytes > 0) - u64::from(part.memory_bytes > 0);
        part.memory_bytes = memory_bytes;
        let stays = part.mark.filter(|mark| memory_bytes > 0 && read_bytes - mark.read_bytes < mark.memory_bytes);
        part.mark = stays.or((memory_bytes > 0).then_some(Mark { at: now, memory_bytes, read_bytes }));
    }

    /// A connection has ended; its memory is free.
    pub fn gone(&mut self, part: &mut Part) {
        let part = std::mem::take(part);
        self.used_bytes -= part.memory_bytes;
        self.holders -= u64::from(part.memory_bytes > 0);
    }

    /// Whether connections have to give way: see [`ReceiveMemory::give_way`].
    pub fn is_over(&self) -> bool {
        self.used_bytes > self.budget_bytes
    }

    /// Connections to close, so that the sum is within the budget again.
    pub fn give_way<'a>(&self, all: impl Iterator<Item = (u64, &'a Part)>, now: Instant) -> Vec<u64> {
        let little = self.budget_bytes / EIGHTH / self.holders.max(1);
        let mut order: Vec<_> = all
            .filter(|(_, part)| part.memory_bytes > little)
            .map(|(id, part)| {
                let age = part.age(now);
                let time_ms = age.min(HOLD).as_millis() + 1;
                (Reverse((age >= HOLD, u128::from(part.memory_bytes) * time_ms)), id, part.memory_bytes)
            })
            .collect();
        order.sort_unstable();
        let mut left_bytes = self.used_bytes;
        let enough_bytes = self.budget_bytes - self.budget_bytes / EIGHTH;
        let go = order.into_iter().take_while(|(_, _, memory_bytes)| {
            let goes = left_bytes > enough_bytes;
            left_bytes = left_bytes.saturating_sub(*memory_bytes);
            goes
        });
        go.map(|(_, id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET: u64 = 64 << 20;

    fn part(memory: &mut ReceiveMemory, memory_bytes: u64, now: Instant) -> Part {
        let mut part = Part::default();
        memory.update(&mut part, memory_bytes, 0, now);
        part
    }

    fn asked(memory: &ReceiveMemory, parts: &[Part], now: Instant) -> Vec<u64> {
        memory.give_way((0..).zip(parts), now)
    }

    #[test]
    fn small_pieces_cost_what_they_take_not_what_they_carry() {
        assert_eq!(cost_bytes(Unread { bytes: 1_300_000, pieces: 1000 }, 0), 1_300_000 + 192_000);
        assert_eq!(cost_bytes(Unread { bytes: 2000, pieces: 1000 }, 500), 2000 + 192_000 + 500);
    }

    #[test]
    fn alone_a_connection_has_all_of_it() {
        let (mut memory, now) = (ReceiveMemory::new(BUDGET), Instant::now());
        let mut part = part(&mut memory, BUDGET, now);
        assert!(!memory.is_over());
        memory.update(&mut part, BUDGET + 1, 0, now);
        assert!(memory.is_over());
        assert_eq!(asked(&memory, &[part], now), [0]);
        memory.gone(&mut part);
        assert_eq!((memory.used_bytes, memory.holders, part), (0, 0, Part::default()));
    }

    // Two hundred that hold their memory a long time, and one that has lost a packet.
    #[test]
    fn who_only_holds_goes_before_who_reads() {
        let (mut memory, start) = (ReceiveMemory::new(BUDGET), Instant::now());
        let mut parts: Vec<Part> = (0..200).map(|n| part(&mut memory, 320_000 + n, start)).collect();
        let later = start + HOLD;
        parts.push(part(&mut memory, 20_000_000, later - Duration::from_secs(1)));
        assert!(memory.is_over());
        let gone = asked(&memory, &parts, later);
        let needed = (memory.used_bytes - BUDGET / 8 * 7).div_ceil(320_199);
        assert_eq!(gone, (0..200).rev().take(needed as usize).collect::<Vec<_>>(), "the largest first");
    }

    // A flood is too young to be known by its age. A connection that has long held a little memory is not the cause.
    #[test]
    fn a_flood_goes_before_those_who_hold_little() {
        let (mut memory, start) = (ReceiveMemory::new(BUDGET), Instant::now());
        let mut parts: Vec<Part> = (0..1000).map(|_| part(&mut memory, 3000, start)).collect();
        let later = start + 10 * HOLD;
        parts.push(part(&mut memory, 3_000_000, later - Duration::from_millis(5)));
        parts.push(part(&mut memory, BUDGET, later - Duration::from_millis(50)));
        assert_eq!(asked(&memory, &parts, later), [1001]);
    }

    #[test]
    fn who_reads_what_it_held_begins_anew() {
        let (mut memory, start) = (ReceiveMemory::new(BUDGET), Instant::now());
        let mut part = part(&mut memory, 1000, start);
        memory.update(&mut part, 50_000, 999, start + HOLD);
        assert_eq!(part.age(start + HOLD), HOLD);
        memory.update(&mut part, 50_000, 1000, start + HOLD);
        assert_eq!(part.age(start + HOLD), Duration::ZERO);
        memory.update(&mut part, 50_000, 50_999, start + 2 * HOLD);
        assert_eq!(part.age(start + 2 * HOLD), HOLD, "it held more by then");
        memory.update(&mut part, 0, 50_999, start + 2 * HOLD);
        memory.update(&mut part, 10, 50_999, start + 3 * HOLD);
        assert_eq!(part.age(start + 3 * HOLD), Duration::ZERO);
    }

    #[test]
    fn no_look_is_missed_and_few_are_needed() {
        let mut memory = ReceiveMemory::new(BUDGET);
        let mut bytes = 0;
        while !memory.came(1350) {
            bytes += 1350;
        }
        assert!(bytes * MOST_PER_BYTE < BUDGET / 8 && bytes > 64 * 1024, "{bytes}");
        memory.looked();
        assert!(!memory.came(1350));
        assert!(ReceiveMemory::new(1 << 20).came(1366), "the smallest budget: after each packet");
    }

    proptest! {
        // The sums fit in any order of holding, reading and closing. After the selected connections have ended the sum
        // is below the budget; none of them had little, and none that reads was selected while another one that only
        // holds was not.
        #[test]
        fn there_is_room_again(steps in prop::collection::vec((0usize..30, 0u64..300_000, 0u64..400_000, 0u64..900), 1..300)) {
            let budget = 1 << 20;
            let mut memory = ReceiveMemory::new(budget);
            let mut parts = [Part::default(); 30];
            let mut read = [0; 30];
            let mut now = Instant::now();
            for (who, holds, reads, ms) in steps {
                now += Duration::from_millis(ms);
                read[who] += reads;
                memory.update(&mut parts[who], holds.saturating_sub(30_000), read[who], now);
                if memory.is_over() {
                    let little = budget / 8 / memory.holders;
                    let gone = asked(&memory, &parts, now);
                    let holds_only = |part: &Part| part.age(now) >= HOLD && part.memory_bytes > little;
                    let reader_goes = gone.iter().any(|id| !holds_only(&parts[*id as usize]));
                    for id in gone {
                        let part = &mut parts[id as usize];
                        prop_assert!(part.memory_bytes > little);
                        prop_assert!(memory.used_bytes > budget / 8 * 7, "one more than needed");
                        memory.gone(part);
                    }
                    prop_assert!(memory.used_bytes <= budget / 8 * 7);
                    prop_assert!(!(reader_goes && parts.iter().any(holds_only)));
                }
                prop_assert_eq!(memory.used_bytes, parts.iter().map(|p| p.memory_bytes).sum::<u64>());
                prop_assert_eq!(memory.holders, parts.iter().filter(|p| p.memory_bytes > 0).count() as u64);
            }
        }
    }
}
