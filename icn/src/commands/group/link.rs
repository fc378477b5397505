// SPDX-License-Identifier: Apache-2.0
//! One connection of a subscriber to one server, and the socket it is on, which changes when the host's address does.

use super::{CID_BYTES, KEEP_ALIVE, Outgoing, SILENT, send_from, spare_ids};
use crate::objects::object::lines::{Answer, LineError, Lines, MOST_LINE_BYTES, Request};
use boring::ssl::SslRef;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};
use weir_core::text::printable_bytes;
use weir_io::fault::{CONNECT, Fault};
use weir_io::random;
use weir_io::tls::certificate_fault;

/// Exit code of TLS failures, as `weir-client` has it.
const TLS: u8 = 4;
/// So long a new path may take to answer: three times the probe timeout of the old one (RFC 9000 8.2.4), in these bounds.
const LEAST_MOVING: Duration = Duration::from_millis(200);
const MOST_MOVING: Duration = Duration::from_secs(2);
/// In this time it says several times that it is there: one packet may be lost.
const NUDGES: u32 = 3;
/// Largest delay of a peer's acknowledgement (RFC 9000 18.2).
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Change of the host's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// The way is what it was, or there is none now.
    Same,
    /// The connection goes on from another address.
    Moved,
    /// It can't: another connection is needed.
    Stuck,
}

/// Request on one stream, and its answers so far.
struct Ask {
    stream: u64,
    lines: Lines,
    out: Outgoing,
    /// The last of it was taken: an error, or the stream's end.
    over: bool,
}

/// The connection.
pub struct Link {
    socket: UdpSocket,
    local: SocketAddr,
    to: SocketAddr,
    quic: quiche::Connection,
    /// By the number that the caller knows it by.
    asks: BTreeMap<u64, Ask>,
    next_stream: u64,
    next_ping: Instant,
    heard: bool,
    /// It asked whether the other side is there, and was not answered since.
    doubted: bool,
    /// Probe timeouts of the path when it was heard last.
    probes: usize,
    /// The system did not take what was to be sent.
    refused: bool,
    /// It has moved, and was not heard since: until when it may be so, and when it next says that it is here.
    moving: Option<Instant>,
    next_nudge: Instant,
}

/// A socket that sends to this address, from the one that the system chooses now.
fn socket_to(to: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let any: SocketAddr = if to.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    let local = socket.local_addr()?;
    Ok((socket, local))
}

impl Link {
    /// Begins a connection to a server of this name in its certificate (none: its address stands there).
    ///
    /// # Errors
    /// There is no way there now.
    pub fn open(
        to: SocketAddr,
        name: Option<&str>,
        session: Option<&[u8]>,
        config: &mut quiche::Config,
        now: Instant,
    ) -> Result<Link, Fault> {
        let fault = |e: io::Error| Fault::new(CONNECT, format!("no way to {to}: {e}"));
        let (socket, local) = socket_to(to).map_err(fault)?;
        let scid = random::bytes::<CID_BYTES>()?;
        let scid = quiche::ConnectionId::from_ref(&scid);
        let mut quic = quiche::connect(name, &scid, local, to, config).map_err(Fault::internal("QUIC library"))?;
        if let Some(session) = session {
            // One that can't be used makes no difference: the handshake is a full one then.
            let _ = quic.set_session(session);
        }
        Ok(Link {
            socket,
            local,
            to,
            quic,
            asks: BTreeMap::new(),
            next_stream: 0,
            next_ping: now + KEEP_ALIVE,
            heard: false,
            doubted: false,
            probes: 0,
            refused: false,
            moving: None,
            next_nudge: now,
        })
    }

    /// The TLS side, for what is to be checked.
    pub fn tls(&mut self) -> &mut SslRef {
        self.quic.as_mut()
    }

    /// The connection's state.
    pub fn quic(&self) -> &quiche::Connection {
        &self.quic
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Where it leads.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Whether the server was heard since the last call.
    pub fn take_heard(&mut self) -> bool {
        std::mem::replace(&mut self.heard, false)
    }

    /// Whether the handshake is done.
    pub fn is_up(&self) -> bool {
        self.quic.is_established()
    }

    /// When it next has something to do although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let nudge = self.moving.map(|until| self.next_nudge.min(until));
        [self.quic.timeout_instant(), Some(self.next_ping), nudge].into_iter().flatten().min()
    }

    /// Asks for an object, on a stream of its own. `id` is what the answers are given with.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn ask(&mut self, id: u64, request: &Request) -> Result<(), Fault> {
        let line = request.line().map_err(Fault::internal("JSON"))?;
        let out = Outgoing { bytes: line.into_bytes(), fin: false };
        self.asks.insert(id, Ask { stream: self.next_stream, lines: Lines::new(MOST_LINE_BYTES), out, over: false });
        self.next_stream += 4;
        Ok(())
    }

    /// Is a member no longer.
    pub fn leave(&mut self, id: u64) {
        let Some(mut ask) = self.asks.remove(&id) else { return };
        ask.out.fin = true;
        ask.out.write(&mut self.quic, ask.stream);
        let _ = self.quic.stream_shutdown(ask.stream, quiche::Shutdown::Read, 0);
    }

    /// Is not asked for any longer by who was not heard any more: it may be a member on another connection.
    pub fn forget(&mut self, id: u64) {
        let Some(ask) = self.asks.remove(&id) else { return };
        for side in [quiche::Shutdown::Write, quiche::Shutdown::Read] {
            let _ = self.quic.stream_shutdown(ask.stream, side, SILENT);
        }
    }

    /// Says that it is there at once, so that it is soon known whether the other side is.
    pub fn ping(&mut self, now: Instant) {
        if self.is_up() {
            self.next_ping = now + KEEP_ALIVE;
            let _ = self.quic.send_ack_eliciting();
        }
    }

    /// The same in doubt. Once until there is an answer: each packet would put the probe timeouts off, the only signs.
    pub fn doubt(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.doubted, true) {
            self.ping(now);
        }
    }

    /// The probe timeout of the present path (RFC 9002 6.2.1) and the probes that were sent there so far.
    fn path(&self) -> (Duration, usize) {
        let path = self.quic.path_stats().find(|p| p.active);
        path.map_or((LEAST_MOVING, 0), |p| (p.rtt + 4 * p.rttvar + ACK_DELAY, p.total_pto_count))
    }

    /// The host's addresses or routes changed, or the system refused to send: goes on from the address that leads to the
    /// server now.
    pub fn shift(&mut self, now: Instant) -> Shift {
        let Ok((socket, local)) = socket_to(self.to) else { return Shift::Same };
        if local.ip() == self.local.ip() && !self.refused {
            return Shift::Same;
        }
        if !self.is_up() {
            return Shift::Stuck;
        }
        let wait = (3 * self.path().0).clamp(LEAST_MOVING, MOST_MOVING);
        if self.quic.migrate_source(local).is_err() {
            return Shift::Stuck;
        }
        (self.socket, self.local, self.refused) = (socket, local, false);
        self.probes = self.path().1;
        (self.moving, self.next_nudge) = (Some(now + wait), now + wait / NUDGES);
        // The server follows what is no probe (RFC 9000 9.2).
        self.ping(now);
        Shift::Moved
    }

    /// Whether the system refuses to send.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether the other side is dead, as far as is known here: it closed the connection, or does not answer, for so
    /// many probe timeouts in a row (`most_probes`).
    pub fn is_dead(&self, now: Instant, most_probes: usize) -> bool {
        let over = self.quic.is_closed() || self.quic.is_draining();
        over || self.moving.is_some_and(|until| until <= now)
            || (self.is_up() && self.path().1 >= self.probes + most_probes)
    }

    /// Whether what it does now is to wait for an answer from a new address.
    pub fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Takes in what arrived and sends what waits; `take` gets the server's answers, each with its request.
    ///
    /// # Errors
    /// The socket fails.
    pub fn turn(&mut self, now: Instant, take: &mut impl FnMut(u64, Result<Answer, LineError>)) -> Result<(), Fault> {
        let (local, to) = (self.local, self.to);
        let mut heard = false;
        super::receive(&self.socket, |bytes, from| {
            heard |= from == to && self.quic.recv(bytes, quiche::RecvInfo { from, to: local }).is_ok();
        })?;
        if heard {
            self.heard = true;
            self.doubted = false;
            self.moving = None;
            self.probes = self.path().1;
        }
        if self.quic.timeout_instant().is_some_and(|t| t <= now) {
            self.quic.on_timeout();
        }
        if let Some(until) = self.moving
            && now >= self.next_nudge
        {
            // A new path has no timer of its own that would be short enough.
            self.next_nudge = now + until.saturating_duration_since(now).max(LEAST_MOVING / NUDGES) / 2;
            let _ = self.quic.probe_path(self.local, self.to);
            self.ping(now);
        }
        if now >= self.next_ping {
            self.ping(now);
            self.next_ping = now + KEEP_ALIVE;
        }
        spare_ids(&mut self.quic)?;
        let (up, early) = (self.quic.is_established(), self.quic.is_in_early_data());
        for (id, ask) in &mut self.asks {
            // Only the first stream may be early.
            if up || (early && ask.stream == 0) {
                ask.out.write(&mut self.quic, ask.stream);
                ask.read(&mut self.quic, &mut |answer| take(*id, answer));
            }
        }
        self.refused |= !send_from(&self.socket, self.local, &mut self.quic);
        Ok(())
    }

    /// Why the connection ended.
    pub fn failure(&mut self) -> Fault {
        let to = self.to;
        if let Some(e) = self.quic.local_error().or(self.quic.peer_error()) {
            let alert = !e.is_app && (0x100..0x200).contains(&e.error_code);
            if alert {
                let alert = weir_core::connection::alert_name((e.error_code - 0x100) as u8);
                let ours = self.quic.local_error().is_some();
                let why = ours.then(|| certificate_fault(self.quic.as_mut(), "--")).flatten();
                let why = why.map_or(String::new(), |why| format!(": its certificate is not accepted, {why}"));
                return Fault::new(TLS, format!("TLS with {to} failed ({alert}){why}"));
            }
            let reason = printable_bytes(&e.reason);
            return Fault::new(CONNECT, format!("{to} closed the connection: {reason}"));
        }
        Fault::new(CONNECT, format!("{to} does not answer"))
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        let _ = self.quic.close(true, 0, b"");
        send_from(&self.socket, self.local, &mut self.quic);
    }
}

impl Ask {
    fn read(&mut self, quic: &mut quiche::Connection, take: &mut impl FnMut(Result<Answer, LineError>)) {
        let mut buffer = [0; 4096];
        while !self.over {
            let (n, fin) = match quic.stream_recv(self.stream, &mut buffer) {
                Ok(read) => read,
                Err(quiche::Error::StreamReset(_)) => {
                    self.over = true;
                    take(Err(LineError::ended("the server reset the stream")));
                    return;
                }
                Err(_) => return,
            };
            let mut over = false;
            let read = self.lines.push(&buffer[..n], |line| {
                let answer = Answer::parse(line);
                over |= !matches!(answer, Ok(ref answer) if !matches!(answer, Answer::Error(_)));
                take(answer);
            });
            self.over = over || fin || read.is_err();
            if let Err(e) = read {
                take(Err(e));
            } else if fin && !over {
                take(Err(LineError::ended("the server ended the stream")));
            }
        }
    }
}
