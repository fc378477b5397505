// SPDX-License-Identifier: Apache-2.0
//! The tunnels of a connection: bytes and datagrams between requests and their targets. A tunnel holds at most one
//! buffer of bytes in each direction; flow control holds back the rest.

use super::capsules::{CapsuleReader, MOST_PAYLOAD_BYTES, VARINT_BYTES, datagram_capsule, quic_datagram, udp_payload};
use super::resources::{Answer, Opening, Tunnel};
use super::tunnel_request::TunnelKind;
use crate::connection::{Conn, Payload, write_payload};
use crate::request::{NO_ERROR, SERVER_NAME};
use octets::Octets;
use quiche::h3::{Error, Header};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::time::{Duration, Instant};

/// RFC 9114 8.1: H3_CONNECT_ERROR.
pub const CONNECT_ERROR: u64 = 0x10f;
/// Datagrams of a client that are kept until the target is known (RFC 9298 4).
const MOST_EARLY_DATAGRAMS: usize = 8;
/// QUIC datagrams that wait to be sent on a connection. The socket of each target keeps further ones.
const MOST_QUEUED_DATAGRAMS: usize = 64;
/// Bytes of capsules that wait for their stream; further datagrams are dropped.
const MOST_CAPSULE_BYTES: usize = 128 << 10;

/// Totals of a connection's tunnels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TunnelCounts {
    /// Tunnels that were opened.
    pub tunnels: u64,
    /// Requests that were refused, or whose target was not reached.
    pub refused: u64,
    /// Tunnels that ended by an error or by silence.
    pub broken: u64,
    /// Payload sent to targets.
    pub to_target_bytes: u64,
    /// Payload received from targets and handed to the stack.
    pub to_client_bytes: u64,
}

impl TunnelCounts {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == TunnelCounts::default()
    }
}

/// Result of a tunnel's turn.
enum Turn {
    Continues,
    /// Both sides have ended it.
    Ended,
    /// The target was not reached.
    Refused(Answer),
    /// One of the sides failed.
    Broken,
}

/// The tunnels of one connection.
#[derive(Default)]
pub(super) struct Tunnels {
    // Ordered, because the order of writing decides the order of packets.
    by_stream: BTreeMap<u64, Relayed>,
    /// Totals.
    pub counts: TunnelCounts,
    /// A tunnel without traffic is ended after this time.
    pub idle_limit: Option<Duration>,
}

impl Tunnels {
    pub(super) fn insert(&mut self, stream: u64, kind: TunnelKind, tunnel: Box<dyn Tunnel>, now: Instant) {
        self.by_stream.insert(stream, Relayed::new(kind, tunnel, now));
    }

    pub(super) fn contains(&self, stream: u64) -> bool {
        self.by_stream.contains_key(&stream)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_stream.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.by_stream.clear();
    }

    /// Notes that bytes of a client can be read. They are read once the target takes them.
    pub(super) fn readable(&mut self, stream: u64) {
        if let Some(relayed) = self.by_stream.get_mut(&stream) {
            relayed.unread = true;
        }
    }

    /// The client has reset the stream.
    pub(super) fn reset(&mut self, quic: &mut quiche::Connection, stream: u64) {
        if let Some(mut relayed) = self.by_stream.remove(&stream) {
            self.counts.broken += 1;
            relayed.tunnel.abort();
            let _ = quic.stream_shutdown(stream, quiche::Shutdown::Write, CONNECT_ERROR);
        }
    }

    /// Hands the datagrams that arrived to their tunnels. Those of no tunnel are dropped: their request may have ended.
    pub(super) fn read_datagrams(&mut self, quic: &mut quiche::Connection, scratch: &mut [u8], now: Instant) {
        while quic.dgram_recv_queue_len() > 0 {
            let Ok(len) = quic.dgram_recv(scratch) else { break };
            let mut bytes = Octets::with_slice(&scratch[..len]);
            let Ok(quarter) = bytes.get_varint() else { continue };
            let stream = quarter.checked_mul(4);
            if let Some(relayed) = stream.and_then(|id| self.by_stream.get_mut(&id))
                && relayed.kind == TunnelKind::Udp
            {
                relayed.datagram(&scratch[bytes.off()..len], &mut self.counts, now);
            }
        }
    }

    /// Moves what can be moved. Gives the answers to requests whose target was not reached.
    ///
    /// # Errors
    /// The connection fails.
    pub(super) fn turn(
        &mut self,
        conn: &mut Conn,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<Vec<(u64, Answer)>, Error> {
        let Tunnels { by_stream, counts, idle_limit } = self;
        let (mut refused, mut failed) = (Vec::new(), None);
        by_stream.retain(|&stream, relayed| {
            let turned = match idle_limit.is_some_and(|limit| relayed.is_idle(limit, now)) {
                true => Ok(Turn::Broken),
                false => relayed.turn(stream, &mut Sides { conn, h3, counts, scratch }, now),
            };
            match turned {
                Ok(Turn::Continues) => true,
                Ok(Turn::Ended) => false,
                Ok(Turn::Refused(answer)) => {
                    counts.refused += 1;
                    refused.push((stream, answer));
                    // Bytes that the client sent ahead must not use up the connection's window.
                    let _ = conn.quic.stream_shutdown(stream, quiche::Shutdown::Read, NO_ERROR);
                    false
                }
                Ok(Turn::Broken) => {
                    counts.broken += 1;
                    relayed.tunnel.abort();
                    let _ = conn.quic.stream_shutdown(stream, quiche::Shutdown::Read, CONNECT_ERROR);
                    let _ = conn.quic.stream_shutdown(stream, quiche::Shutdown::Write, CONNECT_ERROR);
                    false
                }
                Err(e) => {
                    failed.get_or_insert(e);
                    false
                }
            }
        });
        failed.map_or(Ok(refused), Err)
    }

    /// When [`Tunnels::turn`] is wanted although nothing arrives.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let of = |relayed: &Relayed| match relayed.opening {
            true => relayed.tunnel.deadline(),
            false => self.idle_limit.map(|limit| relayed.look_from + limit),
        };
        self.by_stream.values().filter_map(of).min()
    }
}

/// The client's side of all tunnels.
struct Sides<'a> {
    conn: &'a mut Conn,
    h3: &'a mut quiche::h3::Connection,
    counts: &'a mut TunnelCounts,
    scratch: &'a mut [u8],
}

/// One tunnel.
struct Relayed {
    kind: TunnelKind,
    tunnel: Box<dyn Tunnel>,
    opening: bool,
    /// The answer's fields, until they fit.
    head: Option<Vec<Header>>,
    /// The stream may have bytes to read.
    unread: bool,
    /// Bytes of the client that the target did not take yet.
    to_target: Vec<u8>,
    /// Bytes for the client that its stream did not take yet.
    to_client: Vec<u8>,
    /// The target knows that the client has ended.
    client_ended: bool,
    /// The target has sent all.
    target_ended: bool,
    /// The client knows it.
    end_sent: bool,
    capsules: CapsuleReader,
    early: Vec<Vec<u8>>,
    active_at: Instant,
    /// A time at or before `active_at` that changes rarely, for the timer.
    look_from: Instant,
}

impl Relayed {
    fn new(kind: TunnelKind, tunnel: Box<dyn Tunnel>, now: Instant) -> Relayed {
        Relayed {
            kind,
            tunnel,
            opening: true,
            head: None,
            unread: true,
            to_target: Vec::new(),
            to_client: Vec::new(),
            client_ended: false,
            target_ended: false,
            end_sent: false,
            capsules: CapsuleReader::default(),
            early: Vec::new(),
            active_at: now,
            look_from: now,
        }
    }

    fn is_idle(&mut self, limit: Duration, now: Instant) -> bool {
        if self.opening || now.saturating_duration_since(self.look_from) < limit {
            return false;
        }
        self.look_from = self.active_at;
        now.saturating_duration_since(self.active_at) >= limit
    }

    fn turn(&mut self, stream: u64, sides: &mut Sides<'_>, now: Instant) -> Result<Turn, Error> {
        if self.opening {
            match self.tunnel.open(now) {
                Opening::Pending => return Ok(Turn::Continues),
                Opening::Failed(answer) => return Ok(Turn::Refused(answer)),
                Opening::Open => self.opened(sides.counts, now),
            }
        }
        if let Some(head) = &self.head {
            match sides.h3.send_response(&mut sides.conn.quic, stream, head, false) {
                Ok(()) => self.head = None,
                Err(Error::StreamBlocked | Error::Done) => return Ok(Turn::Continues),
                Err(Error::TransportError(quiche::Error::StreamStopped(_))) => return Ok(Turn::Broken),
                Err(e) => return Err(e),
            }
        }
        let before = (sides.counts.to_target_bytes, sides.counts.to_client_bytes);
        let turned = match self.kind {
            TunnelKind::Tcp => self.turn_bytes(stream, sides),
            TunnelKind::Udp => self.turn_datagrams(stream, sides, now),
        };
        if before != (sides.counts.to_target_bytes, sides.counts.to_client_bytes) {
            self.active_at = now;
        }
        turned
    }

    fn opened(&mut self, counts: &mut TunnelCounts, now: Instant) {
        counts.tunnels += 1;
        self.opening = false;
        (self.active_at, self.look_from) = (now, now);
        let mut head = vec![Header::new(b":status", b"200"), Header::new(b"server", SERVER_NAME)];
        if self.kind == TunnelKind::Udp {
            head.push(Header::new(b"capsule-protocol", b"?1"));
        }
        self.head = Some(head);
        for datagram in std::mem::take(&mut self.early) {
            self.datagram(&datagram, counts, now);
        }
    }

    fn turn_bytes(&mut self, stream: u64, sides: &mut Sides<'_>) -> Result<Turn, Error> {
        if !self.bytes_to_target(stream, sides)? {
            return Ok(Turn::Broken);
        }
        if self.end_sent {
            return Ok(if self.client_ended { Turn::Ended } else { Turn::Continues });
        }
        let room = match sides.conn.quic.stream_capacity(stream) {
            Ok(room) => room,
            Err(_) => return Ok(Turn::Broken),
        };
        let mut outgoing = Outgoing {
            tunnel: &mut *self.tunnel,
            kept: &mut self.to_client,
            scratch: &mut sides.scratch[..],
            read: 0..0,
            room,
            ended: &mut self.target_ended,
            failed: false,
        };
        let h3 = &mut *sides.h3;
        let write = |quic: &mut quiche::Connection, part: &[u8], fin| h3.send_body(quic, stream, part, fin);
        let written = write_payload(sides.conn, stream, &mut outgoing, write);
        let failed = outgoing.finish();
        match written {
            Ok((bytes, end)) => {
                sides.counts.to_client_bytes += bytes;
                self.end_sent = end;
            }
            Err(Error::Done | Error::StreamBlocked) => {}
            Err(Error::TransportError(quiche::Error::StreamStopped(_) | quiche::Error::InvalidStreamState(_))) => {
                return Ok(Turn::Broken);
            }
            Err(e) => return Err(e),
        }
        Ok(match (failed, self.end_sent && self.client_ended) {
            (true, _) => Turn::Broken,
            (false, true) => Turn::Ended,
            (false, false) => Turn::Continues,
        })
    }

    // False if one of the sides failed.
    fn bytes_to_target(&mut self, stream: u64, sides: &mut Sides<'_>) -> Result<bool, Error> {
        loop {
            while !self.to_target.is_empty() {
                match self.tunnel.write(&self.to_target) {
                    Ok(n) => {
                        sides.counts.to_target_bytes += n as u64;
                        self.to_target.drain(..n);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
                    Err(_) => return Ok(false),
                }
            }
            self.to_target = Vec::new();
            let Some(n) = self.read_client(stream, sides)? else { return Ok(false) };
            if n == 0 {
                break;
            }
            match self.tunnel.write(&sides.scratch[..n]) {
                Ok(taken) => {
                    sides.counts.to_target_bytes += taken as u64;
                    self.to_target.extend_from_slice(&sides.scratch[taken..n]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.to_target.extend_from_slice(&sides.scratch[..n]),
                Err(_) => return Ok(false),
            }
        }
        if !self.client_ended && sides.conn.quic.stream_finished(stream) {
            self.client_ended = true;
            self.tunnel.end();
        }
        Ok(true)
    }

    // Bytes of the client in `scratch`, 0 if there are none; `None`: the client has reset the stream.
    fn read_client(&mut self, stream: u64, sides: &mut Sides<'_>) -> Result<Option<usize>, Error> {
        if !self.unread {
            return Ok(Some(0));
        }
        match sides.h3.recv_body(&mut sides.conn.quic, stream, sides.scratch) {
            Ok(n) => Ok(Some(n)),
            Err(Error::Done) => {
                self.unread = false;
                Ok(Some(0))
            }
            Err(Error::TransportError(quiche::Error::StreamReset(_) | quiche::Error::InvalidStreamState(_))) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn turn_datagrams(&mut self, stream: u64, sides: &mut Sides<'_>, now: Instant) -> Result<Turn, Error> {
        loop {
            let Some(n) = self.read_client(stream, sides)? else { return Ok(Turn::Broken) };
            if n == 0 {
                break;
            }
            let mut came = Vec::new();
            let read = self.capsules.read(&sides.scratch[..n], |datagram| came.push(datagram.to_vec()));
            for datagram in came {
                self.datagram(&datagram, sides.counts, now);
            }
            if read.is_err() {
                return Ok(Turn::Broken);
            }
        }
        if !self.target_ended && !self.datagrams_to_client(stream, sides) {
            return Ok(Turn::Broken);
        }
        // The tunnel lasts as long as the request (RFC 9298 3.1).
        if sides.conn.quic.stream_finished(stream) {
            self.target_ended = true;
            self.to_client.clear();
        }
        if self.to_client.is_empty() && !self.target_ended {
            return Ok(Turn::Continues);
        }
        let fin = self.target_ended;
        match sides.h3.send_body(&mut sides.conn.quic, stream, &self.to_client, fin) {
            Ok(n) => {
                self.to_client.drain(..n);
                Ok(if fin && self.to_client.is_empty() { Turn::Ended } else { Turn::Continues })
            }
            Err(Error::Done | Error::StreamBlocked) => Ok(Turn::Continues),
            Err(Error::TransportError(quiche::Error::StreamStopped(_) | quiche::Error::InvalidStreamState(_))) => {
                Ok(Turn::Broken)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends the UDP payload of an HTTP datagram to the target. It may be lost, as on any network.
    fn datagram(&mut self, datagram: &[u8], counts: &mut TunnelCounts, now: Instant) {
        if self.opening {
            if self.early.len() < MOST_EARLY_DATAGRAMS {
                self.early.push(datagram.to_vec());
            }
            return;
        }
        if let Some(payload) = udp_payload(datagram)
            && let Ok(n) = self.tunnel.write(payload)
        {
            counts.to_target_bytes += n as u64;
            self.active_at = now;
        }
    }

    // A datagram that is too large for the path goes in a capsule: QUIC inside needs 1200 bytes from its first packet on.
    fn datagrams_to_client(&mut self, stream: u64, sides: &mut Sides<'_>) -> bool {
        let quic = &mut sides.conn.quic;
        let takes_datagrams = sides.h3.dgram_enabled_by_peer(quic);
        while quic.dgram_send_queue_len() < MOST_QUEUED_DATAGRAMS {
            let len = match self.tunnel.read(sides.scratch) {
                Ok(len) => len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            };
            let payload = &sides.scratch[..len.min(MOST_PAYLOAD_BYTES)];
            let whole = quic_datagram(stream, payload);
            let fits = takes_datagrams && quic.dgram_max_writable_len().is_some_and(|most| whole.len() <= most);
            let sent = match fits {
                true => quic.dgram_send(&whole).is_ok(),
                false => {
                    let room = self.to_client.len() + payload.len() + 3 * VARINT_BYTES <= MOST_CAPSULE_BYTES;
                    if room {
                        self.to_client.extend(datagram_capsule(payload));
                    }
                    room
                }
            };
            if sent {
                sides.counts.to_client_bytes += payload.len() as u64;
            }
        }
        true
    }
}

/// Bytes of a target on their way to the stream.
struct Outgoing<'a> {
    tunnel: &'a mut dyn Tunnel,
    /// Bytes that were read earlier.
    kept: &'a mut Vec<u8>,
    scratch: &'a mut [u8],
    /// Part of `scratch` that is still to be sent, after `kept`.
    read: Range<usize>,
    /// Bytes that the stream may take.
    room: usize,
    ended: &'a mut bool,
    failed: bool,
}

impl Outgoing<'_> {
    /// Keeps what was read and not sent. Whether the target failed.
    fn finish(self) -> bool {
        self.kept.extend_from_slice(&self.scratch[self.read]);
        self.failed
    }
}

impl Payload for Outgoing<'_> {
    fn part(&mut self) -> (&[u8], bool) {
        if !self.kept.is_empty() {
            return (self.kept, false);
        }
        if self.read.is_empty() && !*self.ended && !self.failed {
            let most = self.scratch.len().min(self.room);
            match self.tunnel.read(&mut self.scratch[..most]) {
                _ if most == 0 => {}
                Ok(0) => *self.ended = true,
                Ok(n) => self.read = 0..n,
                Err(e) => self.failed = e.kind() != ErrorKind::WouldBlock,
            }
        }
        (&self.scratch[self.read.clone()], *self.ended)
    }

    fn sent(&mut self, bytes: usize, _: bool) {
        self.room = self.room.saturating_sub(bytes);
        match self.kept.is_empty() {
            false if bytes == self.kept.len() => *self.kept = Vec::new(),
            false => drop(self.kept.drain(..bytes)),
            true => self.read.start += bytes,
        }
    }
}
