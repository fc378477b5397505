// SPDX-License-Identifier: Apache-2.0
//! The subscriber's side: one connection, on which it asks for one object after the other.

use super::{CID_BYTES, KEEP_ALIVE, Outgoing, config, random, receive, send};
use crate::names::Name;
use crate::objects::object::lines::{Answer, LineError, Lines, MOST_LINE_BYTES, Request};
use boring::ssl::SslRef;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_core::text::printable_bytes;
use weir_io::fault::{CONNECT, Fault};
use weir_io::tls;

/// Exit code of TLS failures, as `weir-client` has it.
const TLS: u8 = 4;
/// A connection is up within this time, or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What the publisher said.
#[derive(Debug)]
pub enum ClientEvent {
    /// A line.
    Answer(Answer),
    /// A line that is not understood: what is wrong with it.
    Wrong(LineError),
    /// The connection is over. What is being fetched by name may go on.
    Closed(Fault),
}

/// The connection.
pub struct Client {
    socket: UdpSocket,
    local: SocketAddr,
    to: SocketAddr,
    quic: quiche::Connection,
    lines: Lines,
    out: Outgoing,
    stream: u64,
    opened: Instant,
    next_ping: Instant,
    heard: bool,
    closed: bool,
}

impl Client {
    /// Begins to connect to a publisher, whose certificate is to be for `host`.
    ///
    /// # Errors
    /// There is no way there, or the certificates to trust can't be read.
    pub fn connect(
        to: SocketAddr,
        host: &str,
        ca: Option<&Path>,
        insecure: bool,
        now: Instant,
    ) -> Result<Client, Fault> {
        let mut config = config(tls::client(ca)?)?;
        config.verify_peer(!insecure);
        let any: SocketAddr = if to.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
        let fault = |e: std::io::Error| Fault::new(CONNECT, format!("no way to {to}: {e}"));
        let socket = UdpSocket::bind(any).map_err(fault)?;
        socket.connect(to).map_err(fault)?;
        socket.set_nonblocking(true).map_err(fault)?;
        let local = socket.local_addr().map_err(fault)?;
        let scid = random::<CID_BYTES>()?;
        let scid = quiche::ConnectionId::from_ref(&scid);
        let address: Option<IpAddr> = host.parse().ok();
        let name = if address.is_some() { None } else { Some(host) };
        let mut quic = quiche::connect(name, &scid, local, to, &mut config).map_err(Fault::internal("QUIC library"))?;
        if let Some(ip) = address.filter(|_| !insecure) {
            tls::expect_address(quic.as_mut(), ip)?;
        }
        // Connected sockets send without an address; quiche's own is the same.
        Ok(Client {
            socket,
            local,
            to,
            quic,
            lines: Lines::new(MOST_LINE_BYTES),
            out: Outgoing::default(),
            stream: 0,
            opened: now,
            next_ping: now + KEEP_ALIVE,
            heard: false,
            closed: false,
        })
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether the publisher was heard since the last call.
    pub fn take_heard(&mut self) -> bool {
        std::mem::replace(&mut self.heard, false)
    }

    /// When it next has something to do although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let connecting = (!self.quic.is_established()).then(|| self.opened + CONNECT_WITHIN);
        [self.quic.timeout_instant(), connecting, Some(self.next_ping)].into_iter().flatten().min()
    }

    /// Asks for an object.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn get(&mut self, name: &Name) -> Result<(), Fault> {
        let line = Request::Get(name.text().to_owned()).line().map_err(Fault::internal("JSON"))?;
        self.out = Outgoing { bytes: line.into_bytes(), fin: false };
        self.lines = Lines::new(MOST_LINE_BYTES);
        Ok(())
    }

    /// Is a member no longer; the next object is asked for on another stream.
    pub fn leave(&mut self) {
        self.out.fin = true;
        self.out.write(&mut self.quic, self.stream);
        let _ = self.quic.stream_shutdown(self.stream, quiche::Shutdown::Read, 0);
        self.stream += 4;
    }

    /// Takes in what arrived, sends what waits, and says what the publisher said.
    ///
    /// # Errors
    /// The socket fails.
    pub fn turn(&mut self, now: Instant) -> Result<Vec<ClientEvent>, Fault> {
        let mut events = Vec::new();
        if self.closed {
            return Ok(events);
        }
        let (local, to) = (self.local, self.to);
        let (quic, heard) = (&mut self.quic, &mut self.heard);
        receive(&self.socket, |bytes, from| {
            *heard |= from == to && quic.recv(bytes, quiche::RecvInfo { from, to: local }).is_ok();
        })?;
        if self.quic.timeout_instant().is_some_and(|t| t <= now) {
            self.quic.on_timeout();
        }
        if now >= self.next_ping {
            self.next_ping = now + KEEP_ALIVE;
            let _ = self.quic.send_ack_eliciting();
        }
        if self.quic.is_established() {
            self.out.write(&mut self.quic, self.stream);
            self.read(&mut events);
        }
        send(&self.socket, &mut self.quic);
        let late = !self.quic.is_established() && now >= self.opened + CONNECT_WITHIN;
        if self.quic.is_closed() || self.quic.is_draining() || late {
            self.closed = true;
            events.push(ClientEvent::Closed(self.failure()));
        }
        Ok(events)
    }

    fn read(&mut self, events: &mut Vec<ClientEvent>) {
        let mut buffer = [0; 4096];
        while let Ok((n, fin)) = self.quic.stream_recv(self.stream, &mut buffer) {
            let mut answers = Vec::new();
            let read = self.lines.push(&buffer[..n], |line| answers.push(Answer::parse(line)));
            for answer in answers {
                events.push(answer.map_or_else(ClientEvent::Wrong, ClientEvent::Answer));
            }
            if let Err(e) = read {
                events.push(ClientEvent::Wrong(e));
                return;
            }
            if fin {
                return;
            }
        }
    }

    /// Why the connection ended.
    fn failure(&mut self) -> Fault {
        let to = self.to;
        if let Some(e) = self.quic.local_error().or(self.quic.peer_error()) {
            let alert = !e.is_app && (0x100..0x200).contains(&e.error_code);
            if alert {
                let alert = weir_core::connection::alert_name((e.error_code - 0x100) as u8);
                let ssl: &mut SslRef = self.quic.as_mut();
                let why = match ssl.verify_result() {
                    Err(why) => format!(": its certificate is not accepted, {}", why.error_string()),
                    Ok(()) => String::new(),
                };
                let hint = "give its certificate with --ca FILE, or --insecure to accept any";
                return Fault::new(TLS, format!("TLS with {to} failed ({alert}){why}; {hint}"));
            }
            let reason = printable_bytes(&e.reason);
            return Fault::new(CONNECT, format!("{to} closed the connection: {reason}"));
        }
        Fault::new(CONNECT, format!("{to} does not answer"))
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        let _ = self.quic.close(true, 0, b"");
        send(&self.socket, &mut self.quic);
    }
}
