// SPDX-License-Identifier: Apache-2.0
//! One connection: quiche's state, packets that wait for their release time, and counts that quiche does not keep.

mod advised;
mod ecn;
mod memory;
mod path_mtu;
mod release_queue;
mod whole_packets;

use crate::congestion::{CongestionControl, Decision, Driver};
use crate::report::events::Event;
use crate::report::samples::{DecisionCounts, EcnCounts, FlowSample, RttSummary, Side, Timebase};
use crate::request::Alpn;
use crate::text::printable_bytes;
use crate::window::Windows;
use advised::Advised;
pub use advised::SconeCounts;
pub use memory::{Allowance, cost_bytes};
use path_mtu::PathMtu;
use quiche::hooks;
pub use quiche::hooks::{Codepoint, EcnMode};
use release_queue::{Packet, QUANTUM, ReleaseQueue};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use whole_packets::{Losses, WholePackets};

/// Headers that an answer may have, in bytes, announced as SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 4.2.2): cookies and
/// policies are long. Requests are bounded by HTTP/3's default.
pub const MAX_ANSWER_HEADERS_BYTES: u64 = 512 * 1024;
/// Packets of a call once the connection is being closed: quiche may not stop by itself.
const MOST_CLOSING_PACKETS: u32 = 8;
/// Transport error code of an application that closes before the handshake is confirmed (RFC 9000 10.2.3).
const APPLICATION_ERROR: u64 = 0x0c;

/// Where finished datagrams go. The I/O shell collects them into batches.
pub trait PacketSink {
    /// Buffer for one datagram, the same until the next `commit`.
    fn slot(&mut self) -> &mut [u8];
    /// The first `len` bytes of that buffer are a datagram, to be sent now with this ECN codepoint.
    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr, ecn: Codepoint);
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
    /// ECN marks on received packets.
    pub ecn: EcnCounts,
    /// Smoothed RTT over the samples taken.
    pub rtt: RttSummary,
    /// Decisions of a congestion control that learns.
    pub decisions: DecisionCounts,
    /// The rule for receive windows; without one it is quiche's.
    pub windows: Option<Windows>,
    /// SCONE packets, if this side receives them.
    pub scone: Option<Box<Advised>>,
    /// Memory limit of writes to streams.
    pub allowance: Allowance,
    congestion: Driver,
    mtu: PathMtu,
    release: ReleaseQueue,
    whole: Wholeness,
    /// Packets were made after the handshake was done.
    was_pumped: bool,
    pub(crate) alpn: Option<Alpn>,
    /// Streams begin before the handshake is done, in early data.
    pub is_early: bool,
    /// A server that takes extended CONNECT (RFC 9220).
    pub takes_tunnels: bool,
    /// The server speaks none of our versions.
    no_version: bool,
}

/// Whether a sender waits until the congestion window fits whole packets; decided at the first transfer, when the
/// peer's limits are known.
#[derive(Debug, PartialEq, Eq)]
enum Wholeness {
    Undecided,
    Unwanted,
    Wanted(WholePackets),
}

impl Conn {
    /// Wraps a connection just made, with its congestion control; the algorithm below that is set in the connection's
    /// configuration (see [`crate::transport::Transport::apply`]).
    pub fn new(quic: quiche::Connection, control: Box<dyn CongestionControl>, now: Instant) -> Self {
        Conn {
            mtu: PathMtu::new(&quic),
            scone: Advised::of(&quic, now),
            quic,
            h3: None,
            opened: now,
            established: None,
            ecn: EcnCounts::default(),
            rtt: RttSummary::default(),
            decisions: DecisionCounts::default(),
            windows: None,
            allowance: Allowance::UNBOUNDED,
            congestion: Driver::new(control),
            release: ReleaseQueue::default(),
            whole: Wholeness::Undecided,
            was_pumped: false,
            alpn: None,
            is_early: false,
            takes_tunnels: false,
            no_version: false,
        }
    }

    /// Takes in one datagram. After an error quiche closes the connection, and [`Conn::failure`] has the reason.
    pub fn recv(&mut self, bytes: &mut [u8], tos: u8, info: quiche::RecvInfo) {
        self.arrived_with(tos);
        // RFC 9000 8.2.1: a PATH_CHALLENGE comes in a datagram of at least this size, and 8.2.2: its answer must not be
        // delayed.
        if bytes.len() >= quiche::MIN_CLIENT_INITIAL_LEN
            && let Some(whole) = self.whole()
        {
            whole.let_go();
        }
        let taken = self.scone.as_mut().map(|scone| scone.take(bytes, &self.quic));
        let bytes = match taken {
            None => bytes,
            Some(None) => return,
            Some(Some(taken)) => &mut bytes[taken.len..],
        };
        let at = (info.to, info.from);
        // After any other error quiche has closed the connection, and `local_error` has the reason.
        let (received, sizes) = hooks::with_packet_sizes(|| self.congestion.recv(&mut self.quic, bytes, info));
        self.no_version |= received == Err(quiche::Error::UnknownVersion);
        if let (Some(scone), Some(Some(taken))) = (&mut self.scone, taken) {
            scone.taken(taken, &self.quic, at);
        }
        self.mtu.observe(&mut self.quic, sizes);
    }

    /// The protocol, once the handshake is done, or early data can be sent. The first call after that records the time and, for HTTP/3, opens its
    /// layer.
    pub fn establish(&mut self, now: Instant) -> Result<Option<Alpn>, quiche::h3::Error> {
        if self.established.is_none() && self.quic.is_established() {
            self.established = Some(now);
            self.mtu.established(&mut self.quic);
        }
        let early = self.is_early && self.quic.is_in_early_data();
        if self.alpn.is_some() || self.established.is_none() && !early {
            return Ok(self.alpn);
        }
        self.alpn = Alpn::from_wire(self.quic.application_proto());
        if self.alpn == Some(Alpn::H3) {
            let mut config = quiche::h3::Config::new()?;
            if !self.quic.is_server() {
                config.set_max_field_section_size(MAX_ANSWER_HEADERS_BYTES);
            }
            config.enable_extended_connect(self.takes_tunnels);
            self.h3 = Some(quiche::h3::Connection::with_transport(&mut self.quic, &config)?);
        }
        Ok(self.alpn)
    }

    /// Bytes that may be written to a stream now, framing included. These are fewer than quiche would take, if that
    /// makes whole packets (see [`crate::connection::whole_packets`]); not with a pacing control, which must not see a
    /// lack of data while its pacer holds packets back, and not with a peer whose flow control leaves no room for it
    /// from the start.
    fn room(&mut self, stream: u64) -> Result<usize, quiche::Error> {
        let capacity = self.quic.stream_capacity(stream)?;
        if self.whole == Wholeness::Undecided {
            const SMALL_WINDOW_PACKETS: u64 = 16;
            let payload = hooks::mtu(&self.quic);
            let small = SMALL_WINDOW_PACKETS * payload as u64;
            let roomy = self.quic.peer_transport_params().is_some_and(|p| {
                let (local, remote) = (p.initial_max_stream_data_bidi_local, p.initial_max_stream_data_bidi_remote);
                p.initial_max_data >= small && local >= small && remote >= small
            });
            self.whole = match roomy && self.quic.gcongestion_enabled() == Some(false) && !self.congestion.paces() {
                true => {
                    let dcid = self.quic.destination_id().len();
                    Wholeness::Wanted(WholePackets::new(payload, dcid, self.losses()))
                }
                false => Wholeness::Unwanted,
            };
        }
        let losses = self.losses();
        let Wholeness::Wanted(whole) = &mut self.whole else { return Ok(capacity) };
        whole.lost(losses);
        Ok(whole.room(capacity, hooks::room_beyond_flow_control(&self.quic, stream)))
    }

    fn losses(&self) -> Losses {
        let stats = self.quic.stats();
        Losses {
            retx_bytes: stats.stream_retrans_bytes,
            spurious: stats.spurious_lost as u64,
            probe_timeouts: self.quic.path_stats().map(|p| p.total_pto_count as u64).sum(),
        }
    }

    fn whole(&mut self) -> Option<&mut WholePackets> {
        if let Wholeness::Wanted(whole) = &mut self.whole { Some(whole) } else { None }
    }

    /// Closes the connection. Packets that wait for their release are dropped.
    pub fn close(&mut self, code: u64, reason: &str) {
        self.release.clear();
        self.whole = Wholeness::Unwanted;
        // quiche would send acknowledgements without end: it keeps a Finished message that was not sent, and waits for it.
        let is_unfinished = !self.quic.is_server() && self.established.is_some() && !self.was_pumped;
        // `Done`: it was closed already.
        let _ = match is_unfinished {
            true => self.quic.close(false, APPLICATION_ERROR, b""),
            false => self.quic.close(true, code, reason.as_bytes()),
        };
    }

    /// Hands every packet that may leave now to `sink`. With a pacing congestion control one packet is made ahead of
    /// its time and waits in the release queue, so that no packet leaves late.
    pub fn pump(&mut self, now: Instant, sink: &mut impl PacketSink) {
        self.was_pumped |= self.established.is_some();
        while let Some(p) = self.release.pop_due(now) {
            sink.slot()[..p.bytes.len()].copy_from_slice(&p.bytes);
            sink.commit(p.bytes.len(), p.from, p.to, p.ecn);
        }
        let advice = self.scone.as_mut().map(|scone| scone.turn(now));
        if let Some(windows) = &mut self.windows {
            if let Some(advice) = advice {
                windows.advise(&self.quic, advice, now);
            }
            windows.turn(&mut self.quic, now);
        }
        self.mtu.turn(&mut self.quic, now);
        let payload = hooks::mtu(&self.quic);
        if let Some(whole) = self.whole() {
            whole.resize(payload);
        }
        self.congestion.turn(&mut self.quic, now);
        let paced = self.congestion.paces() || self.quic.gcongestion_enabled().unwrap_or(false);
        let mut quota = self.whole().and_then(|w| w.quota());
        let mut closing = 0;
        while self.release.is_empty() && quota != Some(0) && closing < MOST_CLOSING_PACKETS {
            let space = self.scone.as_ref().map_or(0, |scone| scone.space(&self.quic, now));
            let indication = self.scone.as_ref().map_or(&[][..], |scone| scone.indication(&self.quic));
            let room = match space + indication.len() {
                0 => sink.slot(),
                _ => &mut sink.slot()[space..payload - indication.len()],
            };
            // `Done`, or an error after which quiche has closed the connection: there is nothing more to send.
            let windows = &mut self.windows;
            let made = self.congestion.send(&mut self.quic, now, |quic| send(quic, windows, room));
            let Ok((mut len, info)) = made else { break };
            if let Some(scone) = self.scone.as_mut().filter(|_| space > 0) {
                len = scone.put(sink.slot(), space, len, &self.quic, (info.from, info.to), now);
            }
            sink.slot()[len..len + indication.len()].copy_from_slice(indication);
            len += indication.len();
            quota = quota.map(|n| n - 1);
            // A larger one is a PMTU probe, which carries nothing of a stream.
            if let Some(whole) = self.whole().filter(|_| len <= payload) {
                whole.sent(len);
            }
            let closes = self.quic.local_error().is_some(); // nothing follows that could be a burst
            closing += u32::from(closes);
            if paced && !closes && info.at > now + QUANTUM {
                let bytes = sink.slot()[..len].to_vec();
                let packet = Packet { bytes, from: info.from, to: info.to, ecn: info.ecn };
                self.release.push(info.at, packet);
            } else {
                sink.commit(len, info.from, info.to, info.ecn);
            }
        }
        if let Wholeness::Wanted(whole) = &mut self.whole {
            let short = quota == Some(0);
            if quota.is_some() && !short {
                whole.ran_dry();
            }
            if short {
                // There is no packet as short as this room. But the call tells quiche that room is lacking, not data;
                // without that it would not let the window grow.
                let header = 1 + self.quic.destination_id().len();
                let (windows, room) = (&mut self.windows, &mut sink.slot()[..header]);
                let made = self.congestion.send(&mut self.quic, now, |quic| send(quic, windows, room));
                debug_assert!(made.is_err());
            }
            let rtt = self.quic.path_stats().find(|p| p.active).map_or(Duration::ZERO, |p| p.rtt);
            whole.end_turn(short, now, rtt);
        }
    }

    /// Whether [`Conn::decide`] has something to do.
    pub fn is_to_decide(&self) -> bool {
        self.congestion.is_to_decide()
    }

    /// Lets the congestion control decide on an interval that is over, if one is; to be called after [`Conn::pump`],
    /// once its packets have left. Decisions of a control that learns are logged and returned.
    pub fn decide(&mut self, now: Instant) -> Option<Decision> {
        let decision = self.congestion.decide(now)?;
        self.decisions.made += 1;
        self.decisions.outside += u64::from(decision.seen.outside.is_some());
        self.decisions.by_bbr += u64::from(decision.by.is_below());
        self.log(&Event::decision(&decision));
        Some(decision)
    }

    /// When this connection next needs a call although nothing arrived: for a timer of quiche's, a release, or the end
    /// of an interval of the congestion control.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = if let Wholeness::Wanted(whole) = &self.whole { whole.deadline() } else { None };
        let paced = self.windows.as_ref().and_then(Windows::deadline);
        [self.quic.timeout_instant(), self.release.next_release(), waiting, paced, self.congestion.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Runs quiche's timer, if that is due.
    pub fn on_deadline(&mut self, now: Instant) {
        if let Some(whole) = self.whole() {
            whole.let_go();
        }
        if self.quic.timeout_instant().is_some_and(|t| t <= now) {
            let on_timeout = || self.congestion.in_force(&mut self.quic, quiche::Connection::on_timeout);
            let ((), sizes) = hooks::with_packet_sizes(on_timeout);
            self.mtu.observe(&mut self.quic, sizes);
        }
    }

    /// Size of a full packet on the path in use, as a UDP payload.
    pub fn payload_bytes(&self) -> usize {
        hooks::mtu(&self.quic)
    }

    /// The kernel refused a datagram of this size on a path (EMSGSIZE).
    pub fn refused(&mut self, from: SocketAddr, to: SocketAddr, bytes: usize) {
        self.mtu.refused(&mut self.quic, from, to, bytes);
    }

    /// Whether the connection has ended and has nothing left to send.
    pub fn is_over(&self) -> bool {
        self.release.is_empty() && (self.quic.is_draining() || self.quic.is_closed())
    }

    /// State of the active path now. The RTT is added to the mean of [`Conn::rtt`].
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
        let path = self.congestion.in_force(&mut self.quic, |quic| quic.path_stats().find(|p| p.active));
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
            ect1: self.ecn.ect1,
            ecn: self.ecn_sample(),
            advice_bit_s: self.scone.as_ref().and_then(|scone| scone.counts.advice_bit_s),
        }
    }

    /// Adds one of our events to the connection's qlog, if it has one, with the present time: as quiche does for its
    /// own events, so that times in the file never go back. The time of the decision is in `--events`.
    pub fn log(&mut self, event: &Event) {
        if let Some(streamer) = self.quic.qlog_streamer() {
            let record = qlog::events::JsonEvent {
                time: 0.0,
                importance: qlog::events::EventImportance::Core,
                name: event.qlog_name().to_owned(),
                data: event.qlog_data(),
            };
            // Errors of logging are not reported here, as in quiche: the writer keeps them.
            let _ = streamer.add_event_now(record);
        }
    }

    /// Why the connection ended, if it did otherwise than by our own [`Conn::close`].
    pub fn failure(&self) -> Option<Failure> {
        if self.quic.is_timed_out() {
            return Some(Failure::Timeout { established: self.established.is_some() });
        }
        if self.no_version {
            return Some(Failure::Version);
        }
        let tls = |e: &quiche::ConnectionError| !e.is_app && (0x100..0x200).contains(&e.error_code);
        if let Some(e) = self.quic.peer_error() {
            let reason = printable_bytes(&e.reason);
            return Some(match tls(e) {
                true => Failure::Tls { by_peer: true, alert: (e.error_code - 0x100) as u8 },
                false => Failure::Closed { by_peer: true, app: e.is_app, code: e.error_code, reason },
            });
        }
        match self.quic.local_error() {
            Some(e) if tls(e) => Some(Failure::Tls { by_peer: false, alert: (e.error_code - 0x100) as u8 }),
            Some(e) if !e.is_app => {
                let reason = printable_bytes(&e.reason);
                Some(Failure::Closed { by_peer: false, app: false, code: e.error_code, reason })
            }
            Some(_) => None,
            // quiche closes a connection without an error of either side for this reason only.
            None if self.quic.is_closed() => Some(Failure::StatelessReset),
            None => None,
        }
    }
}

// quiche's `send` with the rule for windows, if there is one.
fn send(
    quic: &mut quiche::Connection,
    windows: &mut Option<Windows>,
    room: &mut [u8],
) -> Result<(usize, quiche::SendInfo), quiche::Error> {
    match windows {
        Some(windows) => windows.send(quic, room),
        None => quic.send(room),
    }
}

/// Payload to be put on a stream, from its first unsent byte on.
pub trait Payload {
    /// Bytes that can be sent now, and whether the stream ends behind them. Without any the stream waits.
    fn part(&mut self) -> (&[u8], bool);
    /// So many of them were sent; `end`: with the end of the stream.
    fn sent(&mut self, bytes: usize, end: bool);
}

/// Its bytes are never looked at, and QUIC itself protects their order.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Payload of zeros.
#[derive(Debug, Clone, Copy)]
pub struct Zeros {
    /// Remaining bytes; `None`: without end.
    pub bytes: Option<u64>,
    /// The stream ends behind them.
    pub then_end: bool,
}

impl Payload for Zeros {
    fn part(&mut self) -> (&[u8], bool) {
        let left = self.bytes.unwrap_or(u64::MAX);
        let len = ZEROS.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        (&ZEROS[..len], self.then_end && len as u64 == left)
    }

    fn sent(&mut self, bytes: usize, _: bool) {
        self.bytes = self.bytes.map(|left| left - bytes as u64);
    }
}

/// Puts as much of payload on a stream as fits, `write` being the protocol's way to do so. Gives the bytes written, and
/// whether that was the end. A blocked stream is no error.
pub fn write_payload<E: From<quiche::Error>>(
    conn: &mut Conn,
    stream: u64,
    payload: &mut (impl Payload + ?Sized),
    mut write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, E>,
) -> Result<(u64, bool), E> {
    const MOST_FRAMING: usize = 5;
    let hq = conn.alpn.is_some_and(Alpn::is_plain);
    // RFC 9114 7.1: a DATA frame's type, and its length, below 2^14 or 2^30.
    let framing = |len: usize| match len {
        _ if hq => 0,
        0..0x4000 => 3,
        _ => MOST_FRAMING,
    };
    let mut room = conn.room(stream)?;
    let mut written = 0;
    loop {
        let (whole, end) = payload.part();
        let open = conn.allowance.room(room.min(whole.len() + MOST_FRAMING));
        let part = &whole[..whole.len().min(open.saturating_sub(framing(open)))];
        let fin = end && part.len() == whole.len();
        if part.is_empty() && !fin {
            return Ok((written, false));
        }
        let len = part.len();
        let n = match write(&mut conn.quic, part, fin) {
            Ok(n) => n,
            // Bytes written before count; if the stream is more than full, the next call meets the error again.
            Err(_) if written > 0 => return Ok((written, false)),
            Err(e) => return Err(e),
        };
        let framed = n + framing(n);
        if let Some(whole) = conn.whole() {
            whole.wrote(framed as u64);
        }
        conn.allowance.wrote(framed as u64);
        written += n as u64;
        let ended = fin && n == len;
        payload.sent(n, ended);
        if ended || n == 0 {
            return Ok((written, ended));
        }
        room = room.saturating_sub(framed);
    }
}

/// Cause of a connection's failure.
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
    /// The server speaks no version of QUIC that we do (RFC 9000 6.2).
    Version,
    /// The server has lost its state of the connection (RFC 9000 10.3).
    StatelessReset,
    /// The connection was closed.
    Closed {
        /// By the peer.
        by_peer: bool,
        /// With a code of the application (else of the transport).
        app: bool,
        /// The code.
        code: u64,
        /// The reason given, fit for a terminal.
        reason: String,
    },
}

/// Name of a TLS alert, for those that a handshake of ours can meet (RFC 8446 6.2).
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
