// SPDX-License-Identifier: Apache-2.0
//! One connection: quiche's state, the packets that wait for their release time, what is counted beside quiche.

use crate::release::{Packet, QUANTUM, ReleaseQueue};
use crate::request::Alpn;
use crate::sample::{EcnCounts, FlowSample, RttSummary, Side, Timebase};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Where finished datagrams go. The I/O shell collects them into batches.
pub trait PacketSink {
    /// Room for one datagram; the same room until the next `commit`.
    fn slot(&mut self) -> &mut [u8];
    /// The first `len` bytes of the room are a datagram to be sent now.
    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr);
}

/// A quiche connection with its release queue.
pub struct Conn {
    /// The transport.
    pub quic: quiche::Connection,
    /// The HTTP/3 layer, once established and if that protocol was chosen.
    pub h3: Option<quiche::h3::Connection>,
    /// When it was opened.
    pub opened: Instant,
    /// When its handshake was done.
    pub established: Option<Instant>,
    /// ECN marks on what was received.
    pub ecn: EcnCounts,
    /// Smoothed RTT over the samples taken.
    pub rtt: RttSummary,
    release: ReleaseQueue,
    alpn: Option<Alpn>,
    turn: Turn,
    /// A datagram that may hold a PATH_CHALLENGE (RFC 9000 8.2.1) came in since the last pump.
    challenged: bool,
}

/// How much may be sent in this turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As much as quiche gives.
    Free,
    /// A bulk transfer fills the congestion window: this many whole packets.
    Whole(usize),
}

impl Conn {
    /// Wraps a connection just made.
    pub fn new(quic: quiche::Connection, now: Instant) -> Self {
        Conn {
            quic,
            h3: None,
            opened: now,
            established: None,
            ecn: EcnCounts::default(),
            rtt: RttSummary::default(),
            release: ReleaseQueue::default(),
            alpn: None,
            turn: Turn::Free,
            challenged: false,
        }
    }

    /// Takes in one datagram. Errors are kept by quiche: it closes itself and [`Conn::failure`] tells.
    pub fn recv(&mut self, bytes: &mut [u8], tos: u8, info: quiche::RecvInfo) {
        self.ecn.count(tos);
        self.challenged |= bytes.len() >= quiche::MIN_CLIENT_INITIAL_LEN;
        // An error means that quiche has closed the connection and says why in `local_error`.
        let _ = self.quic.recv(bytes, info);
    }

    /// The protocol, once the handshake is done. On the first call after that notes the time and, for HTTP/3, opens
    /// its layer.
    pub fn establish(&mut self, now: Instant) -> Result<Option<Alpn>, quiche::h3::Error> {
        if self.alpn.is_some() || !self.quic.is_established() {
            return Ok(self.alpn);
        }
        self.established = Some(now);
        self.alpn = Alpn::from_wire(self.quic.application_proto());
        if self.alpn == Some(Alpn::H3) {
            let config = quiche::h3::Config::new()?;
            self.h3 = Some(quiche::h3::Connection::with_transport(&mut self.quic, &config)?);
        }
        Ok(self.alpn)
    }

    /// How many bytes of a transfer with `left` bytes to go may be put on a stream now, framing included, and whether
    /// one byte more is to be held back behind them.
    ///
    /// quiche fills a congestion window to the last byte. With one acknowledgement per packet that breaks a stream
    /// into ever smaller packets, the silly window of RFC 813 (measured: 442 bytes on average with ten CUBIC flows over
    /// 10 Mbit/s). So a stream gets whole packets only, and what is left of the window waits for the next
    /// acknowledgement. quiche would take that remainder for a lack of data and stop growing the window: the byte held
    /// back tells it otherwise (see [`Conn::pump`]). Exceptions: the end of a transfer; BBR, which is held by its pacer,
    /// not its window; and a window of the peer too small for this, where waiting could last for ever.
    fn room(&mut self, stream: u64, left: u64) -> Result<(usize, bool), quiche::Error> {
        const FRAMING: u64 = 16;
        const SMALL_WINDOW_PACKETS: u64 = 16;
        let cap = self.quic.stream_capacity(stream)?;
        let payload = self.quic.max_send_udp_payload_size();
        let small = SMALL_WINDOW_PACKETS * payload as u64;
        let roomy = self.quic.peer_transport_params().is_some_and(|p| {
            let (local, remote) = (p.initial_max_stream_data_bidi_local, p.initial_max_stream_data_bidi_remote);
            p.initial_max_data >= small && local >= small && remote >= small
        });
        let paced = self.quic.gcongestion_enabled().unwrap_or(false);
        if paced || !roomy || left.saturating_add(FRAMING) <= cap as u64 {
            return Ok((cap, false));
        }
        // A probe timeout opens the window without bound, for two packets; what it was is bound enough.
        let window = self.quic.path_stats().find(|p| p.active).map_or(cap, |p| p.cwnd);
        let packets = cap.min(window) / payload;
        self.turn = Turn::Whole(packets);
        // RFC 9000 17.3.1 and 19.8: flags, connection ID, packet number; AEAD tag; frame type, stream ID, offset, length.
        let header = 1 + self.quic.destination_id().len() + 4 + 16 + 1 + 2 + 8 + 2;
        let whole = packets * payload.saturating_sub(header);
        Ok((whole.saturating_sub(HELD_BYTES), true))
    }

    /// Closes the connection; what waits for its release is dropped.
    pub fn close(&mut self, code: u64, reason: &str) {
        self.release.clear();
        // `Done`: closed already, which is as good.
        let _ = self.quic.close(true, code, reason.as_bytes());
    }

    /// Hands every packet that may leave now to `sink`. With a pacing congestion control one packet is made ahead of
    /// its time and waits, so that the pacer is never late.
    pub fn pump(&mut self, now: Instant, sink: &mut impl PacketSink) {
        while let Some(p) = self.release.pop_due(now) {
            sink.slot()[..p.bytes.len()].copy_from_slice(&p.bytes);
            sink.commit(p.bytes.len(), p.from, p.to);
        }
        let paced = self.quic.gcongestion_enabled().unwrap_or(false);
        let turn = std::mem::replace(&mut self.turn, Turn::Free);
        let mut packets = match turn {
            // Acknowledgements wait for the next whole packet, but the answer to a path challenge does not.
            Turn::Whole(0) if self.challenged => usize::MAX,
            Turn::Whole(packets) => packets,
            Turn::Free => usize::MAX,
        };
        self.challenged = false;
        while self.release.is_empty() && packets > 0 {
            let room = sink.slot();
            // `Done`, or an error after which quiche has closed itself: either way nothing more to send.
            let Ok((len, info)) = self.quic.send(room) else { break };
            packets -= 1;
            if paced && info.at > now + QUANTUM {
                let packet = Packet { bytes: room[..len].to_vec(), from: info.from, to: info.to };
                self.release.push(info.at, packet);
            } else {
                sink.commit(len, info.from, info.to);
            }
        }
        if turn != Turn::Free {
            // Data is waiting, but into a buffer with room for the short header and no tag fits no packet. quiche then
            // notes that it is not data that lacks, and goes on to grow its window.
            let header = 1 + self.quic.destination_id().len();
            let _ = self.quic.send(&mut [0; 1 + quiche::MAX_CONN_ID_LEN][..header]);
        }
    }

    /// When this connection next needs a call although nothing arrived: quiche's timer, or a release.
    pub fn deadline(&self) -> Option<Instant> {
        [self.quic.timeout_instant(), self.release.next_release()].into_iter().flatten().min()
    }

    /// Lets quiche act on its timer, if that is due.
    pub fn on_deadline(&mut self, now: Instant) {
        if self.quic.timeout_instant().is_some_and(|t| t <= now) {
            self.quic.on_timeout();
        }
    }

    /// Nothing left to send and no way to go on.
    pub fn is_over(&self) -> bool {
        self.release.is_empty() && (self.quic.is_draining() || self.quic.is_closed())
    }

    /// State of the active path now; also feeds the RTT mean.
    pub fn sample(
        &mut self,
        now: Instant,
        timebase: &Timebase,
        side: Side,
        flow: Option<u64>,
        conn: u64,
        bytes: u64,
    ) -> FlowSample {
        let stats = self.quic.stats();
        let path = self.quic.path_stats().find(|p| p.active);
        let us = |d: Duration| d.as_micros() as u64;
        let min_rtt_us = path.as_ref().and_then(|p| p.min_rtt).map(us);
        let rtt_us = path.as_ref().map_or(0, |p| us(p.rtt));
        if min_rtt_us.is_some() {
            self.rtt.add(rtt_us);
        }
        FlowSample {
            k: "flow",
            t_us: timebase.us(now),
            side,
            flow,
            conn,
            bytes,
            rtt_us,
            min_rtt_us,
            cwnd_bytes: path.as_ref().map_or(0, |p| p.cwnd as u64),
            lost: stats.lost as u64,
            sent: stats.sent as u64,
            recv: stats.recv as u64,
            retx_bytes: stats.stream_retrans_bytes,
            delivery_rate_bit_s: path.as_ref().map_or(0, |p| p.delivery_rate.saturating_mul(8)),
            ce: self.ecn.ce,
            ect0: self.ecn.ect0,
        }
    }

    /// Why the connection ended, if it did otherwise than by our own [`Conn::close`].
    pub fn failure(&self) -> Option<Failure> {
        if self.quic.is_timed_out() {
            return Some(Failure::Timeout { established: self.established.is_some() });
        }
        let tls = |e: &quiche::ConnectionError| !e.is_app && (0x100..0x200).contains(&e.error_code);
        if let Some(e) = self.quic.peer_error() {
            let reason = String::from_utf8_lossy(&e.reason).into_owned();
            return Some(match tls(e) {
                true => Failure::Tls { by_peer: true, alert: (e.error_code - 0x100) as u8 },
                false => Failure::Closed { by_peer: true, app: e.is_app, code: e.error_code, reason },
            });
        }
        match self.quic.local_error() {
            Some(e) if tls(e) => Some(Failure::Tls { by_peer: false, alert: (e.error_code - 0x100) as u8 }),
            Some(e) if !e.is_app => {
                let reason = String::from_utf8_lossy(&e.reason).into_owned();
                Some(Failure::Closed { by_peer: false, app: false, code: e.error_code, reason })
            }
            Some(_) => None,
            None if self.quic.is_closed() => {
                Some(Failure::Closed { by_peer: true, app: false, code: 0, reason: "stateless reset".into() })
            }
            None => None,
        }
    }
}

/// Payload: what is sent is never looked at, and its place in the stream is what QUIC itself protects.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Most that HTTP/3 puts in front of one piece of a body of at most 64 KiB: frame type and length (RFC 9114 7.1).
const DATA_HEADER_BYTES: usize = 5;

/// What a byte held back takes, with HTTP/3's header in front of it.
const HELD_BYTES: usize = DATA_HEADER_BYTES + 1;

/// Puts as much of `left` bytes of payload (`None`: without end) on a stream as it has room for, `write` being the
/// protocol's way to do so. Gives the bytes written, and whether that was the end. A stream without room is no error.
pub fn write_zeros<E: From<quiche::Error>>(
    conn: &mut Conn,
    stream: u64,
    left: Option<u64>,
    mut write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, E>,
) -> Result<(u64, bool), E> {
    let (mut room, hold) = conn.room(stream, left.unwrap_or(u64::MAX))?;
    let mut left_bytes = left.unwrap_or(u64::MAX);
    let mut written = 0;
    let mut held = !hold;
    loop {
        let free = room.saturating_sub(DATA_HEADER_BYTES);
        let mut part = &ZEROS[..ZEROS.len().min(free).min(usize::try_from(left_bytes).unwrap_or(usize::MAX))];
        if part.is_empty() && !held && left_bytes > 0 && conn.turn != Turn::Whole(0) {
            held = true;
            part = &ZEROS[..1];
        }
        let fin = part.len() as u64 == left_bytes;
        if part.is_empty() && !fin {
            return Ok((written, false));
        }
        let n = match write(&mut conn.quic, part, fin) {
            Ok(n) => n,
            // What was written before counts; if it is more than a full stream, the next call meets it again.
            Err(_) if written > 0 => return Ok((written, false)),
            Err(e) => return Err(e),
        };
        written += n as u64;
        if fin && n == part.len() {
            return Ok((written, true));
        }
        if n == 0 {
            return Ok((written, false));
        }
        room = room.saturating_sub(n + DATA_HEADER_BYTES);
        if left.is_some() {
            left_bytes -= n as u64;
        }
    }
}

/// How a connection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was heard for the idle timeout.
    Timeout {
        /// Whether the handshake had been done.
        established: bool,
    },
    /// The handshake failed with this TLS alert (RFC 8446 6).
    Tls {
        /// The alert came from the peer.
        by_peer: bool,
        /// Its number.
        alert: u8,
    },
    /// The connection was closed.
    Closed {
        /// By the peer.
        by_peer: bool,
        /// With a code of the application (else of the transport).
        app: bool,
        /// The code.
        code: u64,
        /// The reason given.
        reason: String,
    },
}

/// What a TLS alert says, for those that a handshake of ours can meet (RFC 8446 6.2).
pub fn alert_name(alert: u8) -> &'static str {
    match alert {
        40 => "handshake failure",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate not accepted (wrong name or use)",
        47 => "illegal parameter",
        48 => "certificate of an unknown authority",
        51 => "decryption failed",
        70 => "TLS version not supported",
        80 => "internal error",
        109 => "missing extension",
        112 => "unrecognised server name",
        116 => "certificate required",
        120 => "no application protocol in common",
        _ => "TLS alert",
    }
}
