// SPDX-License-Identifier: Apache-2.0
//! Memory that a connection holds: until the peer acknowledges it, or until it can be read.

use crate::range_buf::RangeBuf;
use crate::{h3, Connection};
use std::collections::VecDeque;

/// Stream data that was written and that quiche still keeps: not sent yet, or sent and not acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// From the first byte of each stream that was not acknowledged to the last that was written. Bytes acknowledged
    /// behind a gap count too, because quiche keeps them until the gap is filled.
    pub bytes: u64,
    /// The pieces of memory that they are in: at least one for each write and for each 4096 bytes.
    pub pieces: u64,
}

/// Patch `sent-bytes`: memory of the connection's send streams.
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

/// Received data that can't be read yet, because something before it is missing; or was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// From the first byte of each stream that was not read to the last that came, gaps included. But no more than the
    /// pieces can hold.
    pub bytes: u64,
    /// The pieces of memory that they are in.
    pub pieces: u64,
}

/// Patch `received-bytes`: memory of the connection's receive streams, of the handshake's messages (CRYPTO frames), and
/// of packets that came before their keys. Its cost grows with streams, not with pieces.
pub fn unread(quic: &Connection) -> Unread {
    let mut sum = Unread::default();
    let most_bytes = quic.local_transport_params.max_udp_payload_size;
    let crypto = quic.crypto_ctx.iter().map(|context| &context.crypto_stream);
    for stream in quic.streams.streams.values().chain(crypto) {
        let pieces = stream.recv.data.len() as u64;
        let bytes = stream.recv.max_off().saturating_sub(stream.recv.off_front());
        sum.pieces += pieces;
        sum.bytes += bytes.min(pieces.saturating_mul(most_bytes));
    }
    for (packet, _) in &quic.undecryptable_pkts {
        sum.pieces += 1;
        sum.bytes += packet.len() as u64;
    }
    sum
}

/// Patch `h3-frame-bytes`: the room that HTTP/3 has on its streams for frames that have not come whole, in bytes. It
/// keeps the room of the largest frame as long as the stream is open. Little room is a part of what a stream costs.
pub fn unread_frames_bytes(h3: &h3::Connection) -> u64 {
    let rooms = h3.streams.values().map(|stream| stream.state_buf.capacity());
    rooms.filter(|bytes| *bytes > LITTLE_FRAME_BYTES).map(|bytes| bytes as u64).sum()
}

/// Room for the header of a usual request.
const LITTLE_FRAME_BYTES: usize = 1024;

/// Drops the data that [`unread`] counts. For a connection that is being closed and reads nothing more.
pub fn drop_unread(quic: &mut Connection) {
    let crypto = quic.crypto_ctx.iter_mut().map(|context| &mut context.crypto_stream);
    for stream in quic.streams.streams.values_mut().chain(crypto) {
        stream.recv.data.clear();
    }
    quic.undecryptable_pkts.clear();
}

/// Patch `received-overlap`: a piece with memory of its own. quiche keeps all of a frame for any part of it that is new: for
/// one byte as much as a packet can carry.
pub(crate) fn alone(piece: RangeBuf) -> RangeBuf {
    match piece.len() < piece.data.as_ref().len() {
        true => RangeBuf::from(&piece, piece.off(), piece.fin()),
        false => piece,
    }
}

/// A list with room for fewer entries than this keeps it.
const LITTLE_ROOM: usize = 256;

/// Patch `sent-list-memory`: gives room back of a list that fills less than an eighth of it. quiche's list of packets that were
/// sent keeps, for as long as the connection lives, the room of the most that were ever under way.
pub(crate) fn give_room_back<T>(list: &mut VecDeque<T>) {
    if list.capacity() > LITTLE_ROOM && list.capacity() / 8 > list.len() {
        list.shrink_to((2 * list.len()).max(LITTLE_ROOM));
    }
}
