// SPDX-License-Identifier: Apache-2.0
//! TIMESTAMP frames (draft-huitema-quic-ts): the sender of an acknowledgement gives its time, so that the other side
//! can distinguish a queue on the way of its packets from one on the way of the acknowledgements. The clocks of the two
//! ends need not agree: only differences mean anything.

use super::Restore;
use crate::{Config, Connection, Error, Result};
use octets::{Octets, OctetsMut};
use std::cell::Cell;
use std::time::Duration;

/// The transport parameter `enable_timestamp`.
pub(crate) const TIMESTAMPS_PARAMETER: u64 = 0x7158;
/// Patch `timestamps`: the most that all transport parameters take, in bytes. quiche's 128 are used up.
pub(crate) const PARAMETERS_BYTES: usize = 256;
const FRAME_TYPE: u64 = 0x02f5;
/// The same on the wire: a frame's type has the shortest encoding (RFC 9000 12.4).
const FRAME_TYPE_ON_WIRE: [u8; 2] = [0x42, 0xf5];

/// Value of the transport parameter on timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamps {
    /// Nothing, and sends nothing: quiche as it is.
    #[default]
    Off,
    /// Wants them. None of our programs asks for them without offering them; a peer may.
    Wanted,
    /// Sends them with its acknowledgements to a peer that wants them.
    Offered,
    /// Both.
    WantedAndOffered,
}

impl Timestamps {
    /// Meaning of a value of the transport parameter.
    ///
    /// # Errors
    /// It is none of those that the draft knows.
    pub(crate) fn of(value: u64) -> Result<Timestamps> {
        match value {
            1 => Ok(Timestamps::Wanted),
            2 => Ok(Timestamps::Offered),
            3 => Ok(Timestamps::WantedAndOffered),
            _ => Err(Error::InvalidTransportParam),
        }
    }

    /// The value of the transport parameter; `None`: it is not sent.
    pub(crate) fn value(self) -> Option<u64> {
        match self {
            Timestamps::Off => None,
            Timestamps::Wanted => Some(1),
            Timestamps::Offered => Some(2),
            Timestamps::WantedAndOffered => Some(3),
        }
    }

    pub(crate) fn wanted(self) -> bool {
        matches!(self, Timestamps::Wanted | Timestamps::WantedAndOffered)
    }

    fn offered(self) -> bool {
        matches!(self, Timestamps::Offered | Timestamps::WantedAndOffered)
    }

    /// Whether an endpoint of this kind sends them to such a peer.
    pub(crate) fn to_send(self, peer: Timestamps) -> bool {
        self.offered() && peer.wanted()
    }
}

/// Sets the use of timestamps for connections with this configuration.
pub fn set_timestamps(config: &mut Config, timestamps: Timestamps) {
    config.local_transport_params.timestamps = timestamps;
}

/// Whether this connection's peer sends timestamps; known once its transport parameters are.
pub fn gets_timestamps(quic: &Connection) -> bool {
    quic.peer_transport_params.timestamps.to_send(quic.local_transport_params.timestamps)
}

/// Patch `timestamps`: writes a frame if it fits `left_bytes`, and gives its length. `since` is the time since the
/// connection was made, on the wire in microseconds over 2^`exponent`, as acknowledgement delays are.
pub(crate) fn write_timestamp(b: &mut OctetsMut, left_bytes: usize, since: Duration, exponent: u64) -> Result<usize> {
    let timestamp = u64::try_from(since.as_micros()).unwrap_or(u64::MAX) >> exponent;
    let len = FRAME_TYPE_ON_WIRE.len() + octets::varint_len(timestamp);
    if len > left_bytes {
        return Ok(0);
    }
    b.put_varint(FRAME_TYPE)?;
    b.put_varint(timestamp)?;
    Ok(len)
}

/// Patch `timestamps`: whether a frame of this kind is next in a packet.
pub(crate) fn begins_timestamp(payload: &mut Octets) -> bool {
    payload.peek_bytes(FRAME_TYPE_ON_WIRE.len()).is_ok_and(|next| next.buf() == FRAME_TYPE_ON_WIRE)
}

/// Reads it, `since` after the connection was made. A time that is further away than any clock's is passed over.
pub(crate) fn read_timestamp(payload: &mut Octets, since: Duration, exponent: u64) -> Result<()> {
    payload.get_varint()?;
    let timestamp_us = u128::from(payload.get_varint()?) << exponent;
    let nanos = |nanos: u128| i64::try_from(nanos).ok();
    if let Some((ours, theirs)) = nanos(since.as_nanos()).zip(nanos(timestamp_us * 1000)) {
        WAY_BACK_NS.set(Some(ours - theirs));
    }
    Ok(())
}

/// A received frame, for a qlog: its schema has no name for it.
#[cfg(feature = "qlog")]
pub(crate) fn timestamp_in_qlog() -> qlog::events::quic::QuicFrame {
    qlog::events::quic::QuicFrame::Unknown { frame_type_bytes: Some(FRAME_TYPE), raw: None }
}

thread_local! {
    static WAY_BACK_NS: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Runs `f`, and returns the one-way time of the last packet with a timestamp that came in meanwhile, if any did: the
/// time by our clock less that by the peer's, in nanoseconds. The clocks' difference is unknown, and stays the same.
pub(super) fn with_way_back<T>(f: impl FnOnce() -> T) -> (T, Option<i64>) {
    let _restore = Restore { cell: &WAY_BACK_NS, old: WAY_BACK_NS.take() };
    let result = f();
    (result, WAY_BACK_NS.get())
}
