// SPDX-License-Identifier: Apache-2.0
//! HTTP datagrams (RFC 9297) in QUIC datagrams (RFC 9221): each begins with a quarter of its request's stream ID.

use super::Session;
use octets::{Octets, OctetsMut};

/// Longest variable-length integer (RFC 9000 16).
const VARINT_BYTES: usize = 8;
/// Datagrams that wait in the transport at most; an exchange has the others.
const MOST_QUEUED: usize = 16;

impl Session {
    /// Hands the datagrams that arrived to their requests. Those of no request are dropped: they may have come before
    /// the request was known to have ended.
    pub(super) fn read_datagrams(&mut self, scratch: &mut [u8]) {
        while self.conn.quic.dgram_recv_queue_len() > 0 {
            let Ok(len) = self.conn.quic.dgram_recv(scratch) else { break };
            let mut bytes = Octets::with_slice(&scratch[..len]);
            let Ok(quarter) = bytes.get_varint() else { continue };
            let stream = quarter.checked_mul(4);
            if let Some(task) = stream.and_then(|id| self.running.get_mut(&id)) {
                task.request.exchange.datagram(&scratch[bytes.off()..len]);
            }
        }
    }

    /// Sends the datagrams of running requests to a server that takes them. One that is too large for the path is
    /// dropped, as the network would drop it.
    pub(super) fn write_datagrams(&mut self, h3: &quiche::h3::Connection) {
        if !h3.dgram_enabled_by_peer(&self.conn.quic) {
            return;
        }
        for (stream, task) in &mut self.running {
            while self.conn.quic.dgram_send_queue_len() < MOST_QUEUED
                && let Some(payload) = task.request.exchange.next_datagram()
            {
                let mut whole = vec![0; VARINT_BYTES + payload.len()];
                let mut bytes = OctetsMut::with_slice(&mut whole);
                if bytes.put_varint(stream / 4).is_err() || bytes.put_bytes(&payload).is_err() {
                    continue;
                }
                let len = bytes.off();
                let _ = self.conn.quic.dgram_send(&whole[..len]);
            }
        }
    }
}
