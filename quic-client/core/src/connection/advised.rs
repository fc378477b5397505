// SPDX-License-Identifier: Apache-2.0
//! SCONE packets of one connection: those it sends before its own, and the advice in those that it receives.

use crate::scone::{self, Advice, INDICATION};
use quiche::hooks;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// First datagrams of a path that carry a SCONE packet ("Providing Opportunities").
const FIRST: u32 = 4;
/// Time between later ones. The draft asks for two in 67 s at least; advice that changed should not wait for long.
const EVERY: Duration = Duration::from_secs(5);

/// Counts for reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SconeCounts {
    /// SCONE packets sent.
    pub sent: u64,
    /// SCONE packets received before a packet that was processed, with or without advice.
    pub received: u64,
    /// Those with advice.
    pub advised: u64,
    /// Datagrams with a SCONE packet that is cut short, repeated, or of another connection, or before no valid packet.
    pub rejected: u64,
    /// Advice in effect at the last packet; none before the first advice.
    pub advice_bit_s: Option<u64>,
    /// Lowest advice of all.
    pub lowest_bit_s: Option<u64>,
    /// From the opening of the connection to the first advice.
    pub first_us: Option<u64>,
}

/// A SCONE packet that was taken off a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Its length.
    pub len: usize,
    signal: Option<u8>,
    before: usize,
}

/// State of SCONE on one connection.
#[derive(Debug)]
pub struct Advised {
    /// Counts so far.
    pub counts: SconeCounts,
    opened: Instant,
    advice: Advice,
    // Lowest signal since the last iteration.
    fresh: Option<u8>,
    path: Option<(SocketAddr, SocketAddr)>,
    sent_on_path: u32,
    last_sent: Option<Instant>,
    changed: bool,
}

impl Advised {
    /// For a connection that receives SCONE packets; none for another.
    pub fn of(quic: &quiche::Connection, now: Instant) -> Option<Box<Advised>> {
        hooks::receives_scone(quic).then(|| {
            Box::new(Advised {
                counts: SconeCounts::default(),
                opened: now,
                advice: Advice::default(),
                fresh: None,
                path: None,
                sent_on_path: 0,
                last_sent: None,
                changed: false,
            })
        })
    }

    /// Takes a SCONE packet off the start of a datagram. `None`: the datagram is to be dropped.
    pub fn take(&mut self, datagram: &[u8], quic: &quiche::Connection) -> Option<Taken> {
        let before = quic.stats().recv;
        if !scone::begins(datagram) {
            return Some(Taken { len: 0, signal: None, before });
        }
        let packet = scone::read(datagram).filter(|packet| !scone::begins(&datagram[packet.len..]));
        let Some(packet) = packet else {
            self.counts.rejected += 1;
            return None;
        };
        let signal = scone::is_consistent(datagram, packet).then_some(packet.signal);
        Some(Taken { len: packet.len, signal, before })
    }

    /// The rest of that datagram was handed to quiche: advice counts if it had a valid packet.
    pub fn taken(&mut self, taken: Taken, quic: &quiche::Connection, at: (SocketAddr, SocketAddr)) {
        if taken.len == 0 {
            return;
        }
        let Some(signal) = taken.signal.filter(|_| quic.stats().recv > taken.before) else {
            self.counts.rejected += 1;
            return;
        };
        self.counts.received += 1;
        if signal >= scone::UNKNOWN || self.path.is_some_and(|path| path != at) {
            return;
        }
        self.counts.advised += 1;
        self.fresh = Some(self.fresh.map_or(signal, |other| other.min(signal)));
    }

    /// Advice in effect now. To be called in each event-loop iteration.
    pub fn turn(&mut self, now: Instant) -> Option<u64> {
        if let Some(signal) = self.fresh.take() {
            self.advice.received(signal, now);
            let rate = scone::rate_bit_s(signal);
            self.counts.lowest_bit_s = Some(self.counts.lowest_bit_s.map_or(rate, |lowest| lowest.min(rate)));
            self.counts.first_us.get_or_insert(now.saturating_duration_since(self.opened).as_micros() as u64);
        }
        let rate = self.advice.current(now).map(scone::rate_bit_s);
        self.changed |= rate != self.counts.advice_bit_s;
        self.counts.advice_bit_s = rate;
        rate
    }

    /// The advice, if it changed since the last call.
    pub fn take_change(&mut self) -> Option<Option<u64>> {
        std::mem::take(&mut self.changed).then_some(self.counts.advice_bit_s)
    }

    /// Space before the next datagram for a SCONE packet; 0: none is due.
    pub fn space(&self, quic: &quiche::Connection, now: Instant) -> usize {
        if !quic.is_established() || !hooks::peer_receives_scone(quic) {
            return 0;
        }
        let due = self.sent_on_path < FIRST || self.last_sent.is_none_or(|last| now >= last + EVERY);
        if due { scone::len_before_short(quic.destination_id().as_ref()) } else { 0 }
    }

    /// quiche made a packet of `len` bytes behind the space, which gets a SCONE packet. Returns the datagram's length.
    /// A packet with a long header, or of another path, moves to the front without one.
    pub fn put(
        &mut self,
        slot: &mut [u8],
        space: usize,
        len: usize,
        quic: &quiche::Connection,
        at: (SocketAddr, SocketAddr),
        now: Instant,
    ) -> usize {
        let dcid = quic.destination_id();
        let packet = &slot[space..space + len];
        let fits = packet[0] & 0x80 == 0 && packet.get(1..=dcid.len()).is_some_and(|id| id == dcid.as_ref());
        if !fits || space != scone::len_before_short(dcid.as_ref()) {
            slot.copy_within(space..space + len, 0);
            return len;
        }
        scone::write_before_short(&mut slot[..space], dcid.as_ref());
        if self.path != Some(at) {
            if self.path.is_some() {
                self.advice.forget();
            }
            self.path = Some(at);
            self.sent_on_path = 0;
        }
        self.sent_on_path += 1;
        self.last_sent = Some(now);
        self.counts.sent += 1;
        space + len
    }

    /// Bytes behind the next datagram: the indication of a client, until it has heard the server.
    pub fn indication(&self, quic: &quiche::Connection) -> &'static [u8] {
        if quic.is_server() || quic.stats().recv > 0 || quic.is_established() { &[] } else { &INDICATION }
    }
}
