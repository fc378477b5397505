// SPDX-License-Identifier: Apache-2.0
//! A tunnel's connection to its target: from the name over the addresses, one after the other, to a socket.

use super::Relay;
use super::policy::Refusal;
use super::sockets::Link;
use crate::server::quota::Slot;
use rustix::io::Errno;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use url::Host;
use weir_core::server::TunnelKind;
use weir_core::server::resources::{Answer, Opening, Tunnel};

/// Time limit of a tunnel's opening, name resolution included.
const OPENING: Duration = Duration::from_secs(10);
/// An address is left for the next one after this time.
const ATTEMPT: Duration = Duration::from_secs(3);

/// The connection.
pub struct Target {
    relay: Rc<Relay>,
    link: Rc<Link>,
    kind: TunnelKind,
    host: Host<String>,
    port: u16,
    stage: Stage,
    until: Instant,
    /// The target knows that the client has sent all.
    has_ended: bool,
    /// Answer if no address is left.
    failure: Option<Answer>,
    _slot: Slot,
}

enum Stage {
    Resolving,
    /// `attempt`: a socket that connects, and until when it may.
    Connecting {
        rest: VecDeque<IpAddr>,
        attempt: Option<(OwnedFd, Instant)>,
    },
    Open(OwnedFd),
    Closed,
}

/// The answer for a tunnel that can't be, with the error's name of RFC 9209 2.3.
pub fn refused(status: u16, error: &str, text: &str) -> Answer {
    Answer::text(status, text).with("proxy-status", format!("weir; error={error}"))
}

fn unreached(error: Errno) -> Answer {
    match error {
        Errno::CONNREFUSED | Errno::CONNRESET => refused(502, "connection_refused", "the target refuses connections"),
        Errno::TIMEDOUT => refused(504, "connection_timeout", "the target does not answer"),
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT => {
            refused(502, "destination_ip_unroutable", "there is no route to the target")
        }
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            refused(503, "proxy_internal_error", "the relay has too many tunnels")
        }
        _ => refused(502, "destination_unavailable", "no connection to the target"),
    }
}

impl Target {
    /// Begins with a name that is being resolved, or with an address.
    pub fn new(
        relay: Rc<Relay>,
        link: Rc<Link>,
        kind: TunnelKind,
        (host, port): (Host<String>, u16),
        slot: Slot,
        now: Instant,
    ) -> Target {
        Target {
            relay,
            link,
            kind,
            host,
            port,
            stage: Stage::Resolving,
            until: now + OPENING,
            has_ended: false,
            failure: None,
            _slot: slot,
        }
    }

    // The addresses that may be dialled.
    fn resolved(&mut self, addresses: &[IpAddr], now: Instant) -> VecDeque<IpAddr> {
        let mut allowed = VecDeque::new();
        let Ok(own) = self.relay.own_addresses(now) else {
            self.failure = Some(refused(503, "proxy_internal_error", "the relay does not know its own addresses"));
            return allowed;
        };
        for ip in addresses {
            match self.relay.policy.judge(&self.host, *ip, self.port, &own) {
                Ok(()) => allowed.push_back(*ip),
                Err(Refusal::Special) => {
                    let text = "the target's address is private, local or the relay's own";
                    self.failure = Some(refused(502, "destination_ip_prohibited", text));
                }
                Err(Refusal::Unlisted) => {
                    let denied = || refused(403, "http_request_denied", "the target is not among those allowed");
                    self.failure.get_or_insert_with(denied);
                }
            }
        }
        allowed
    }

    fn connect(&self, ip: IpAddr) -> Result<(OwnedFd, bool), Errno> {
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = if self.kind == TunnelKind::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        if self.kind == TunnelKind::Tcp {
            sockopt::set_tcp_nodelay(&socket, true)?;
            sockopt::set_socket_keepalive(&socket, true)?;
        }
        // The client is to find the path's MTU (RFC 9298 3.1).
        match (self.kind, family) {
            (TunnelKind::Tcp, _) => {}
            (_, AddressFamily::INET) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?,
            _ => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?,
        }
        self.link.readable.set(false);
        self.link.writable.set(false);
        let connected = match net::connect(&socket, &SocketAddr::new(ip, self.port)) {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            Err(e) => return Err(e),
        };
        // Before connect, the kernel would report the end of an unconnected socket.
        let watched = self.relay.sockets.watch(&self.link, &socket);
        watched.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOMEM))?;
        Ok((socket, connected))
    }

    fn opened(&mut self, socket: OwnedFd) -> Opening {
        self.stage = Stage::Open(socket);
        self.link.readable.set(true);
        self.link.writable.set(true);
        Opening::Open
    }

    fn socket(&self) -> io::Result<&OwnedFd> {
        match &self.stage {
            Stage::Open(socket) => Ok(socket),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

// Whether a socket is connected; `None`: not yet.
fn progress(socket: &OwnedFd) -> Result<Option<()>, Errno> {
    sockopt::socket_error(socket)??;
    match net::getpeername(socket) {
        Ok(_) => Ok(Some(())),
        Err(Errno::NOTCONN) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Tunnel for Target {
    fn open(&mut self, now: Instant) -> Opening {
        loop {
            match &mut self.stage {
                Stage::Resolving => match self.link.resolved.take() {
                    None if now >= self.until => {
                        return Opening::Failed(refused(504, "dns_timeout", "the name server does not answer"));
                    }
                    None => return Opening::Pending,
                    Some(Err(_)) => {
                        return Opening::Failed(refused(502, "dns_error", "the target's name is not resolved"));
                    }
                    Some(Ok(addresses)) => {
                        let rest = self.resolved(&addresses, now);
                        self.stage = Stage::Connecting { rest, attempt: None };
                    }
                },
                Stage::Connecting { rest, attempt: None } => {
                    let Some(ip) = rest.pop_front() else {
                        let none = || refused(502, "dns_error", "the target's name has no address");
                        return Opening::Failed(self.failure.take().unwrap_or_else(none));
                    };
                    match self.connect(ip) {
                        Ok((socket, true)) => return self.opened(socket),
                        Ok((socket, false)) => {
                            if let Stage::Connecting { attempt, .. } = &mut self.stage {
                                *attempt = Some((socket, now + ATTEMPT));
                            }
                        }
                        Err(e) => self.failure = Some(unreached(e)),
                    }
                }
                Stage::Connecting { rest, attempt: attempt @ Some(_) } => {
                    let Some((socket, attempt_until)) = attempt.take() else { continue };
                    // Reading the socket's error clears it.
                    let progress = if self.link.writable.get() { progress(&socket) } else { Ok(None) };
                    match progress {
                        Ok(Some(())) => return self.opened(socket),
                        Ok(None) => self.link.writable.set(false),
                        Err(e) => {
                            self.failure = Some(unreached(e));
                            continue;
                        }
                    }
                    let has_next = !rest.is_empty();
                    if now >= self.until || has_next && now >= attempt_until {
                        self.failure = Some(unreached(Errno::TIMEDOUT));
                        if now >= self.until {
                            rest.clear();
                        }
                        continue;
                    }
                    *attempt = Some((socket, attempt_until));
                    return Opening::Pending;
                }
                Stage::Open(_) | Stage::Closed => return Opening::Open,
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Connecting { rest, attempt: Some((_, attempt_until)) } if !rest.is_empty() => {
                Some(self.until.min(*attempt_until))
            }
            Stage::Resolving | Stage::Connecting { .. } => Some(self.until),
            Stage::Open(_) | Stage::Closed => None,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.link.writable.get() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let sent = rustix::io::retry_on_intr(|| {
            net::send(self.socket().map_err(|_| Errno::NOTCONN)?, bytes, SendFlags::NOSIGNAL)
        });
        if sent == Err(Errno::AGAIN) {
            self.link.writable.set(false);
        }
        Ok(sent?)
    }

    fn end(&mut self) {
        self.has_ended = true;
        if let Ok(socket) = self.socket() {
            // It fails if the target has closed: then no end is to be sent.
            let _ = net::shutdown(socket, Shutdown::Write);
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.link.readable.get() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let received = rustix::io::retry_on_intr(|| {
            net::recv(self.socket().map_err(|_| Errno::NOTCONN)?, &mut *into, RecvFlags::empty())
        });
        if received == Err(Errno::AGAIN) {
            self.link.readable.set(false);
        }
        Ok(received.map(|(n, _)| n)?)
    }

    fn abort(&mut self) {
        if let Ok(socket) = self.socket()
            && self.kind == TunnelKind::Tcp
        {
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
        self.stage = Stage::Closed;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // A connection of a client that was lost: without a reset the target would take what came for all.
        if !self.has_ended {
            self.abort();
        }
        self.relay.sockets.forget(&self.link);
    }
}
