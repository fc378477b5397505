// SPDX-License-Identifier: Apache-2.0
//! The attempts of a flow to connect: to each address of the server, and from each local path (Happy Eyeballs, RFC 8305).
//! An attempt that takes long is not broken off; the next begins beside it, and the first handshake that is done wins.

use super::sockets::{PathSocket, Router};
use super::{Context, Flow, token};
use crate::local_paths::LocalPath;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket as PlainSocket};
use std::time::{Duration, Instant};
use weir_core::choice::PathId;
use weir_core::client::{Outcome, Session};
use weir_io::address::ZonedIp;
use weir_io::fault::{CONNECT, Fault, IO, PATHS};
use weir_io::udp::{SocketOptions, UdpSocket};

/// Time after which the next attempt begins (Connection Attempt Delay, RFC 8305 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Addresses that were not tried yet, and the errors of those that were.
#[derive(Default)]
pub(super) struct Attempts {
    /// Addresses of the server, of which none was tried.
    pub(super) addresses: VecDeque<SocketAddr>,
    /// Sockets on which no connection was tried.
    pub(super) sockets: VecDeque<PathId>,
    /// When the next attempt begins if no handshake is done by then.
    pub(super) next_at: Option<Instant>,
    /// Number of connections begun.
    pub(super) begun: u32,
    /// Beside the flow's session.
    rivals: Vec<Rival>,
    /// Sessions that are to be closed.
    losers: Vec<Session>,
    fault: Option<Fault>,
    failure: Option<Outcome>,
}

/// An attempt beside the flow's session.
struct Rival {
    session: Session,
    peer: SocketAddr,
    /// The path that it takes.
    path: PathId,
}

impl Attempts {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.sockets.is_empty()
    }

    /// Whether there is no attempt beside the flow's session, now or later.
    pub(super) fn is_alone(&self) -> bool {
        self.is_empty() && self.rivals.is_empty()
    }

    /// No more begins, and those beside the flow's session are given up.
    pub(super) fn give_up(&mut self) {
        self.addresses.clear();
        self.sockets.clear();
        self.next_at = None;
        self.losers.extend(self.rivals.drain(..).map(|rival| rival.session));
    }

    /// The session whose handshake takes this path, if it is one beside the flow's.
    pub(super) fn on_path(&mut self, path: PathId) -> Option<&mut Session> {
        self.rivals.iter_mut().find(|rival| rival.path == path).map(|rival| &mut rival.session)
    }

    /// When something is to be done although nothing arrives.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.rivals.iter().filter_map(|rival| rival.session.conn.deadline()).chain(self.next_at).min()
    }

    /// Runs the timers that are due.
    pub(super) fn on_timer(&mut self, now: Instant) {
        for Rival { session, .. } in &mut self.rivals {
            if session.conn.deadline().is_some_and(|t| t <= now) {
                session.conn.on_deadline(now);
            }
        }
    }
}

fn is_failed_attempt(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Connect(_) | Outcome::Timeout(_))
}

impl Flow {
    /// Begins with the first address of the server.
    pub(super) fn begin(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        self.attempts.addresses.push_back(self.target.addr);
        self.attempts.addresses.extend(self.target.others.iter().copied());
        self.attempt(context, now)
    }

    /// Begins the next attempt, if there is one. Where none is under way, the flow has failed.
    fn attempt(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        loop {
            if let Some(peer) = self.attempts.addresses.pop_front() {
                match self.open_paths(peer, context) {
                    Ok(mut up) => {
                        let Some(first) = up.pop() else { continue };
                        self.attempts.sockets.extend(up.into_iter().rev());
                        self.attempts.sockets.push_front(first);
                    }
                    Err(fault) => {
                        self.attempts.fault.get_or_insert(fault);
                        continue;
                    }
                }
            }
            let Some(path) = self.attempts.sockets.pop_front() else { break };
            let Some(at) = self.sockets.iter().position(|s| s.id == path) else { continue };
            let Some(session) = self.connect(at, context, now)? else { continue };
            let peer = self.sockets[at].peer;
            self.attempts.begun += 1;
            self.attempts.next_at = (!self.attempts.is_empty()).then(|| now + ATTEMPT_DELAY);
            if self.session.is_none() {
                self.lead(session, peer, context, now);
            } else {
                self.attempts.rivals.push(Rival { session, peer, path });
            }
            return Ok(());
        }
        self.attempts.next_at = None;
        if self.session.is_some() || self.not_begun.is_some() {
            return Ok(());
        }
        match (self.attempts.failure.take(), self.attempts.fault.take()) {
            (Some(failure), _) => self.not_begun = Some(failure),
            // One without a requested path concerns this flow alone.
            (None, Some(fault)) if fault.code == CONNECT || self.only.is_some() => {
                self.not_begun = Some(Outcome::Connect(fault.text));
            }
            (None, Some(fault)) => return Err(fault),
            (None, None) => {}
        }
        Ok(())
    }

    /// A session becomes the flow's.
    fn lead(&mut self, session: Session, peer: SocketAddr, context: &Context, now: Instant) {
        self.target.addr = peer;
        let paths = self.local_paths(peer, context);
        let session = self.session.insert(session);
        for path in paths.iter().filter(|p| !p.up) {
            for socket in self.sockets.iter().filter(|s| s.peer == peer && s.is(path)) {
                session.interface(socket.id, false, now);
            }
        }
    }

    /// Opens a socket for a local path to `peer` and adds it to the event loop's wait.
    pub(super) fn open_socket(&mut self, path: &LocalPath, peer: SocketAddr, context: &mut Context) -> io::Result<()> {
        let device = path.device.as_ref().map(|(_, name)| name.clone());
        let options = SocketOptions { device, ..context.settings.sockets.clone() };
        let from = ZonedIp { ip: path.address, zone: path.zone }.with_port(0);
        let socket = UdpSocket::open(from, Some(peer), &options)?;
        let granted = socket.recv_buffer_bytes()? as u64;
        context.recv_buffer_bytes = Some(context.recv_buffer_bytes.map_or(granted, |least| least.min(granted)));
        let id = PathId(self.next_path);
        context.waiter.add(socket.fd(), token(self.index, id))?;
        self.next_path += 1;
        let (name, address) = (path.name.clone(), path.address);
        let device = path.device.as_ref().map(|(index, _)| *index);
        self.sockets.push(PathSocket { id, name, address, device, peer, socket, leaving: false });
        Ok(())
    }

    /// Opens the sockets of all local paths to an address of the server; those that are up, the one to be tried first at
    /// the end.
    fn open_paths(&mut self, peer: SocketAddr, context: &mut Context) -> Result<Vec<PathId>, Fault> {
        let mut up = Vec::new();
        let mut unreachable = None;
        let p = context.settings.prefix;
        for path in &self.local_paths(peer, context) {
            let from = ZonedIp { ip: path.address, zone: path.zone };
            match self.open_socket(path, peer, context) {
                Ok(()) if path.address.is_loopback() && !is_of_this_machine(peer) => {
                    return Err(loopback_only(path, peer, context));
                }
                Ok(()) if path.up => up.extend(self.sockets.last().map(|s| s.id)),
                Ok(()) => {}
                Err(e) if context.settings.bind.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
                    let text = format!("{p}bind {from}: not an address of this machine: {e}");
                    return Err(Fault::new(IO, text));
                }
                // Linux refuses it for IPv4 alone.
                Err(e) if e.kind() == io::ErrorKind::InvalidInput && path.address.is_loopback() => {
                    return Err(loopback_only(path, peer, context));
                }
                Err(e) if context.settings.requested.is_empty() => {
                    return Err(Fault::new(CONNECT, format!("{peer} from {from}: {e}")));
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Fault::new(PATHS, format!("{p}path {} to {peer}: {e}", path.name)));
                }
                // It is down or has no route to the server: `refresh_paths` tries it again whenever interfaces change.
                Err(e) => {
                    unreachable.get_or_insert((path.name.clone(), e));
                }
            }
        }
        if up.is_empty() {
            let text = match unreachable {
                Some((name, e)) => format!("no {p}path leads to {peer} ({name}: {e})"),
                None => format!("no {p}path to {peer} is up"),
            };
            return Err(Fault::new(PATHS, text));
        }
        // Tan 4.1: a connection starts on any usable path. Each flow draws for itself.
        fastrand::Rng::with_seed(context.settings.seed.wrapping_add(self.config.label)).shuffle(&mut up);
        if context.settings.requested.is_auto() {
            // Most machines have interfaces that lead nowhere, such as those of containers.
            let routed = routed_address(peer);
            let at = self.sockets.iter().find(|s| s.peer == peer && Some(s.address) == routed).map(|s| s.id);
            up.sort_by_key(|id| Some(*id) == at);
        }
        Ok(up)
    }

    /// Attempts that are done or have failed, and the next one. Nothing happens once the flow's handshake is done.
    pub(super) fn race(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        if self.attempts.is_empty() && self.attempts.rivals.is_empty() {
            return Ok(());
        }
        let Some(session) = &self.session else { return Ok(()) };
        if !session.conn.quic.is_established() {
            let done = |rival: &Rival| rival.session.conn.quic.is_established();
            if let Some(at) = self.attempts.rivals.iter().position(done) {
                self.replace_session(at, context, now)?;
            } else if session.outcome().is_none_or(is_failed_attempt) {
                return self.race_on(context, now);
            }
        }
        self.attempts.give_up();
        // Their ends leave while there are sockets for them.
        self.send_beside(context, now);
        let peer = self.target.addr;
        for socket in self.sockets.extract_if(.., |s| s.peer != peer) {
            context.waiter.remove(socket.socket.fd()).map_err(Fault::io("epoll"))?;
        }
        Ok(())
    }

    /// Nobody has won yet.
    fn race_on(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        let rivals = self.attempts.rivals.len();
        self.attempts.rivals.retain(|rival| rival.session.outcome().is_none() && !rival.session.conn.quic.is_closed());
        let mut failed = self.attempts.rivals.len() < rivals;
        if let Some(outcome) = self.session.as_ref().and_then(Session::outcome).cloned() {
            failed = true;
            if !self.attempts.rivals.is_empty() {
                self.attempts.failure.get_or_insert(outcome);
                self.replace_session(0, context, now)?;
            } else if !self.attempts.is_empty() {
                self.attempts.failure.get_or_insert(outcome);
                self.drop_session(context, now)?;
            }
        }
        if failed || self.attempts.next_at.is_some_and(|t| t <= now) {
            self.attempt(context, now)?;
        }
        Ok(())
    }

    /// The flow's session has not come up.
    fn drop_session(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        session.path_failed(now);
        context.write_events(&mut session)?;
        self.attempts.losers.push(session);
        Ok(())
    }

    /// Puts one of the other attempts in the place of the flow's session.
    fn replace_session(&mut self, at: usize, context: &mut Context, now: Instant) -> Result<(), Fault> {
        self.drop_session(context, now)?;
        let Rival { session, peer, .. } = self.attempts.rivals.swap_remove(at);
        self.lead(session, peer, context, now);
        Ok(())
    }

    /// Sends the packets of the other attempts, and the ends of those that are given up.
    pub(super) fn send_beside(&mut self, context: &mut Context, now: Instant) {
        let mut losers = std::mem::take(&mut self.attempts.losers);
        losers.iter_mut().for_each(|session| session.end(Outcome::Stopped, now));
        let rivals = self.attempts.rivals.iter_mut().map(|rival| &mut rival.session);
        if self.sockets.is_empty() {
            return;
        }
        for session in rivals.chain(&mut losers) {
            let mut router = Router::new(&mut context.send, &mut self.sockets);
            session.pump(now, &mut router);
            router.flush();
            if let Some(e) = context.send.error.take() {
                super::connection_trouble(session, &e, now);
            }
        }
    }
}

/// The fault of a loopback address towards a server of another machine.
fn loopback_only(path: &LocalPath, peer: SocketAddr, context: &Context) -> Fault {
    let why = format!("to {peer}: loopback reaches servers on this machine only");
    let p = context.settings.prefix;
    match context.settings.bind {
        Some(bind) => Fault::new(IO, format!("{p}bind {bind} {why}")),
        None => Fault::new(PATHS, format!("{p}path {} {why}", path.name)),
    }
}

/// Whether the server has an address of this machine, which is its own source. Unknown, and assumed, without a route.
fn is_of_this_machine(peer: SocketAddr) -> bool {
    let own = |from: std::net::IpAddr| from == peer.ip() || from.is_loopback();
    peer.ip().is_loopback() || routed_address(peer).is_none_or(own)
}

/// The address that this machine's routes choose for packets to `peer`.
fn routed_address(peer: SocketAddr) -> Option<std::net::IpAddr> {
    let any: SocketAddr = if peer.is_ipv6() { "[::]:0".parse().ok()? } else { "0.0.0.0:0".parse().ok()? };
    let socket = PlainSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
