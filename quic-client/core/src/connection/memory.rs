// SPDX-License-Identifier: Apache-2.0
//! Memory cost of stream data until it is acknowledged, and the limit of writes.

use quiche::hooks::Unacknowledged;

/// Overhead of a piece: its entry in the stream's list, its allocation, and the entry of a packet that carries nothing
/// else, each list with room for as much again.
const PIECE_BYTES: u64 = 512;
/// The largest piece that quiche makes of a write.
const LARGEST_PIECE_BYTES: u64 = 4096;
/// Pieces of a write beside full ones: the rest, and the header of an HTTP/3 frame.
const ODD_PIECES: u64 = 2;
/// Less than this is not written because of the budget: it would only make small packets, and many pieces.
const LEAST_WRITE_BYTES: u64 = 1200;

/// Memory cost of stream data, in bytes. On top of the bytes themselves it is a quarter of them for the packets that
/// they are in, and `PIECE_BYTES` for each piece: 1.375 times the bytes in all, where pieces are full. (Measured with
/// clients that stopped reading: the server's resident memory grew by 1.36 to 1.38 times the congestion window.)
pub fn cost_bytes(held: Unacknowledged) -> u64 {
    held.bytes + held.bytes.div_ceil(4) + held.pieces * PIECE_BYTES
}

/// Memory limit of the writes in this event-loop iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// `None`: no bound.
    left_bytes: Option<u64>,
    short: bool,
}

impl Allowance {
    /// Without a bound.
    pub const UNBOUNDED: Allowance = Allowance { left_bytes: None, short: false };

    /// So much memory, in bytes.
    pub fn of(memory_bytes: u64) -> Self {
        Allowance { left_bytes: Some(memory_bytes), short: false }
    }

    /// Part of `wanted` bytes that may be written at once.
    pub fn room(&mut self, wanted: usize) -> usize {
        let Some(left) = self.left_bytes else { return wanted };
        // A byte of full pieces costs 1 + 1/4 + 512/4096 = 11/8.
        let room = left.saturating_sub(ODD_PIECES * PIECE_BYTES) / 11 * 8;
        if room >= wanted as u64 {
            return wanted;
        }
        self.short = true;
        if room < LEAST_WRITE_BYTES { 0 } else { room as usize }
    }

    /// So many bytes were written at once.
    pub fn wrote(&mut self, bytes: u64) {
        let pieces = bytes / LARGEST_PIECE_BYTES + ODD_PIECES;
        let cost = cost_bytes(Unacknowledged { bytes, pieces });
        self.left_bytes = self.left_bytes.map(|left| left.saturating_sub(cost));
    }

    /// Whether more would have been written without the bound.
    pub fn was_short(&self) -> bool {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_bound_all_may_be_written() {
        let mut allowance = Allowance::UNBOUNDED;
        allowance.wrote(u64::MAX / 4);
        assert_eq!((allowance.room(usize::MAX), allowance.was_short()), (usize::MAX, false));
    }

    #[test]
    fn small_pieces_cost_what_they_take_not_what_they_carry() {
        assert_eq!(cost_bytes(Unacknowledged { bytes: 4096 * 1000, pieces: 1000 }), 4096 * 1000 / 8 * 11);
        assert_eq!(cost_bytes(Unacknowledged { bytes: 1000, pieces: 1000 }), 1250 + 512_000);
    }

    #[test]
    fn little_room_is_none() {
        let mut allowance = Allowance::of(2 * 512 + 1199 * 11 / 8);
        assert_eq!((allowance.room(5000), allowance.was_short()), (0, true));
        let mut allowance = Allowance::of(0);
        assert_eq!((allowance.room(0), allowance.was_short()), (0, false));
        assert_eq!((allowance.room(1), allowance.was_short()), (0, true));
    }

    proptest! {
        // The cost of any writes is within the allowance.
        #[test]
        fn writes_keep_to_it(memory in 0u64..10_000_000, writes in prop::collection::vec(1usize..100_000, 0..200)) {
            let mut allowance = Allowance::of(memory);
            let mut held = Unacknowledged::default();
            for wanted in writes {
                let n = allowance.room(wanted) as u64;
                prop_assert!(n <= wanted as u64);
                if n > 0 {
                    allowance.wrote(n);
                    // As HTTP/3 does: a frame's header of up to 5 bytes is part of the room, and a piece of its own.
                    held.bytes += n;
                    held.pieces += 1 + (n - 1).div_ceil(4096);
                }
            }
            prop_assert!(cost_bytes(held) <= memory, "{:?}", held);
        }
    }
}
