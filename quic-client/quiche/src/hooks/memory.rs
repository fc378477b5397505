// SPDX-License-Identifier: Apache-2.0
//! What a connection keeps in memory until the peer acknowledges it.

use crate::Connection;
use std::collections::VecDeque;

/// Stream data that was written and that quiche still keeps: not sent yet, or sent and not acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// From the first byte of each stream that was not acknowledged to the last that was written. What was acknowledged
    /// behind a gap counts too, because quiche keeps it until the gap is filled.
    pub bytes: u64,
    /// The pieces of memory that they are in: at least one for each write and for each 4096 bytes.
    pub pieces: u64,
}

/// Seam `unacknowledged`: what the connection keeps of all its streams.
pub fn unacknowledged(quic: &Connection) -> Unacknowledged {
    let mut sum = Unacknowledged::default();
    for stream in quic.streams.streams.values() {
        let pieces = stream.send.bufs_count() as u64;
        // Without pieces nothing is kept, whatever the offsets say: a stream that was reset has dropped its data.
        if pieces > 0 {
            sum.pieces += pieces;
            sum.bytes += stream.send.off_back().saturating_sub(stream.send.ack_off());
        }
    }
    sum
}

/// A list with room for fewer entries than this keeps it.
const LITTLE_ROOM: usize = 256;

/// Seams `sent-room*`: gives room back of a list that fills less than an eighth of it. quiche's list of packets that were
/// sent keeps, for as long as the connection lives, the room of the most that were ever under way.
pub(crate) fn give_room_back<T>(list: &mut VecDeque<T>) {
    if list.capacity() > LITTLE_ROOM && list.capacity() / 8 > list.len() {
        list.shrink_to((2 * list.len()).max(LITTLE_ROOM));
    }
}
