// SPDX-License-Identifier: Apache-2.0
//! A flow: its sockets, the attempts to connect, and the session on the connection that came up. It does what the event
//! loop calls; it never waits.

use super::options::Options;
use super::options::local_paths::{LocalPath, RequestedPaths};
use super::options::path_choice::PathChoice;
use super::options::target::Target;
use super::sockets::{PathSocket, Router};
use super::tls;
use crate::shared::congestion::Congestion;
use crate::shared::fault::{Fault, IO, PATHS};
use crate::shared::json::event_line;
use crate::shared::qlog::QlogFile;
use crate::shared::random::{new_cid, new_reset_token};
use crate::shared::trajectories::{Trajectories, Trajectory};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use url::Host;
use weir_core::choice::PathId;
use weir_core::client::{Body, DEFAULT_PATH, Means, Nowhere, Outcome, Plan, Routes, Session};
use weir_core::congestion::Decision;
use weir_core::connection::Conn;
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::transport::{CID_BYTES, Transport};
use weir_core::window::{SharedBudget, Windows};
use weir_io::interfaces::Interface;
use weir_io::lines::LineWriter;
use weir_io::udp::{RecvBatch, SendBatch, SocketOptions, UdpSocket};
use weir_io::wait::Waiter;

/// What a handshake has on one of several paths before the next is tried: time for three flights, the first timeout being
/// 1 s (RFC 9002 6.2.2).
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

/// A socket's token in the event loop's wait: its flow and its path.
fn token(flow: usize, path: PathId) -> u64 {
    (flow as u64) << 32 | u64::from(path.0)
}

/// The flow and path of a socket's token.
pub fn from_token(token: u64) -> (usize, PathId) {
    ((token >> 32) as usize, PathId(token as u32))
}

/// What all flows share.
pub struct Context<'a> {
    /// The command line.
    pub options: &'a Options,
    /// quiche's configuration.
    pub config: quiche::Config,
    /// The transport's part of the command line.
    pub transport: Transport,
    /// Of every flow.
    pub congestion: Congestion,
    /// `--cc-trajectories`.
    pub trajectories: Trajectories,
    /// The options of path choice.
    pub choice: PathChoice,
    /// What `--path` names.
    pub requested: RequestedPaths,
    /// The interfaces of this machine, if there is a `--path`.
    pub interfaces: Vec<Interface>,
    /// Seed of the random choices.
    pub seed: u64,
    /// Budget of the receive windows.
    pub budget: SharedBudget,
    /// Where all sockets are waited for.
    pub waiter: Waiter,
    /// Buffers for receiving.
    pub recv: RecvBatch,
    /// Buffers for sending.
    pub send: SendBatch,
    /// A buffer for the payload of streams.
    pub scratch: Vec<u8>,
    /// `--events`.
    pub events: Option<LineWriter>,
    /// All qlog files, to be checked at the end.
    pub qlogs: Vec<QlogFile>,
    /// Instants as microseconds.
    pub timebase: Timebase,
    /// The smallest receive buffer that a socket was granted.
    pub recv_buffer_bytes: Option<u64>,
}

impl Context<'_> {
    /// The local paths that exist now to `peer`, in the order of `--path`.
    fn local_paths(&self, peer: SocketAddr) -> Vec<LocalPath> {
        if self.requested.is_empty() {
            let v6 = peer.is_ipv6();
            let any = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
            let address = self.options.bind.unwrap_or(any);
            return vec![LocalPath { name: DEFAULT_PATH.to_owned(), device: None, address, up: true }];
        }
        self.requested.find(&self.interfaces, peer.is_ipv6())
    }

    /// Writes down what a congestion control decided.
    fn note_decision(&mut self, decision: &Decision, flow: u64) -> Result<(), Fault> {
        if let Some(events) = &mut self.events {
            let t_us = self.timebase.us(decision.seen.interval.now);
            events.line(&event_line(&Event::decision(decision), t_us, Some(flow))?)?;
        }
        if let Some(remark) = self.congestion.remark(decision) {
            eprintln!("weir-client: {remark}");
        }
        Ok(())
    }

    /// Writes down what a session decided.
    fn write_events(&mut self, session: &mut Session) -> Result<(), Fault> {
        let flow = Some(session.plan.flow);
        for (at, event) in session.take_events() {
            if let Some(events) = &mut self.events {
                events.line(&event_line(&event, self.timebase.us(at), flow)?)?;
            }
            session.conn.log(&event);
        }
        Ok(())
    }
}

/// A flow, still to be started, under way or at its end.
pub struct Flow {
    index: usize,
    /// Its server and request.
    pub target: Target,
    /// What its session is to do.
    pub plan: Plan,
    /// When it starts.
    pub start: Instant,
    sockets: Vec<PathSocket>,
    next_path: u32,
    /// Paths on which no connection was tried yet.
    untried: Vec<PathId>,
    /// When the next of them is tried if the handshake is not done by then.
    next_attempt_at: Option<Instant>,
    /// The session, once a connection is tried.
    pub session: Option<Session>,
    trajectory: Option<Trajectory>,
    body: Box<dyn Body>,
    /// Why there is not even a session, if so.
    not_begun: Option<Outcome>,
}

impl Flow {
    /// A flow that is to start at `start`. `index` is its place among all flows.
    pub fn new(index: usize, target: Target, plan: Plan, body: Box<dyn Body>, start: Instant) -> Flow {
        Flow {
            index,
            target,
            plan,
            start,
            sockets: Vec::new(),
            next_path: 0,
            untried: Vec::new(),
            next_attempt_at: None,
            session: None,
            trajectory: None,
            body,
            not_begun: None,
        }
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.not_begun.as_ref().or_else(|| self.session.as_ref().and_then(Session::outcome))
    }

    /// Payload so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.session.as_ref().map_or(0, |s| s.bytes)
    }

    /// Whether it has ended and its connection needs no more time.
    pub fn is_over(&self) -> bool {
        self.outcome().is_some() && self.session.as_ref().is_none_or(|s| s.conn.is_over())
    }

    /// Whether it has a session and sockets.
    pub fn is_running(&self) -> bool {
        self.session.is_some() && !self.sockets.is_empty()
    }

    /// When [`Flow::on_timer`] is to be called.
    pub fn next_timer(&self) -> Option<Instant> {
        let session = self.session.as_ref()?;
        [session.deadline(), self.next_attempt_at].into_iter().flatten().min()
    }

    /// Its time has come: it starts, or its session's timer is over.
    ///
    /// # Errors
    /// What ends the whole program: a `--path` or `--bind` that can't be used.
    pub fn on_timer(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        match &mut self.session {
            Some(session) => {
                session.on_deadline(now);
                Ok(())
            }
            None => self.begin(context, now),
        }
    }

    /// Opens a socket for a local path and adds it to the event loop's wait.
    fn open_socket(&mut self, path: &LocalPath, context: &mut Context<'_>) -> io::Result<()> {
        let device = path.device.as_ref().map(|(_, name)| name.clone());
        let options = SocketOptions { device, ..context.options.common.sockets() };
        let socket = UdpSocket::open(SocketAddr::new(path.address, 0), Some(self.target.addr), &options)?;
        let granted = socket.recv_buffer_bytes()? as u64;
        context.recv_buffer_bytes = Some(context.recv_buffer_bytes.map_or(granted, |least| least.min(granted)));
        let id = PathId(self.next_path);
        context.waiter.add(socket.fd(), token(self.index, id))?;
        self.next_path += 1;
        let (name, address) = (path.name.clone(), path.address);
        let device = path.device.as_ref().map(|(index, _)| *index);
        self.sockets.push(PathSocket { id, name, address, device, socket, leaving: false });
        Ok(())
    }

    /// Opens the sockets of all local paths and connects on the first.
    fn begin(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        let peer = self.target.addr;
        let paths = context.local_paths(peer);
        let mut up = Vec::new();
        let mut unreachable = None;
        for path in &paths {
            match self.open_socket(path, context) {
                Ok(()) if path.up => up.extend(self.sockets.last().map(|s| s.id)),
                Ok(()) => {}
                Err(e) if context.options.bind.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
                    let text = format!("--bind {}: not an address of this machine: {e}", path.address);
                    return Err(Fault::new(IO, text));
                }
                Err(e) if context.requested.is_empty() => {
                    self.not_begun = Some(Outcome::Connect(format!("{peer} from {}: {e}", path.address)));
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Fault::new(PATHS, format!("--path {} to {peer}: {e}", path.name)));
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidInput && path.address.is_loopback() => {
                    let why = "loopback reaches servers on this machine only";
                    return Err(Fault::new(PATHS, format!("--path {} to {peer}: {why}", path.name)));
                }
                // It is down or has no route to the server: `refresh_paths` tries it again whenever interfaces change.
                Err(e) => {
                    unreachable.get_or_insert((path.name.clone(), e));
                }
            }
        }
        if up.is_empty() {
            let text = match unreachable {
                Some((name, e)) => format!("no --path leads to {peer} ({name}: {e})"),
                None => format!("no --path to {peer} is up"),
            };
            return Err(Fault::new(PATHS, text));
        }
        // Tan 4.1: a connection starts on any usable path. Each flow draws for itself.
        fastrand::Rng::with_seed(context.seed.wrapping_add(self.plan.flow)).shuffle(&mut up);
        self.untried = up;
        self.connect(context, now)?;
        let Some(session) = &mut self.session else { return Ok(()) };
        for path in paths.iter().filter(|p| !p.up) {
            for socket in self.sockets.iter().filter(|s| s.is(path)) {
                session.interface(socket.id, false, now);
            }
        }
        Ok(())
    }

    /// Opens a connection on the next path that was not tried.
    fn connect(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        let peer = self.target.addr;
        let Some(first) = self.untried.pop() else { return Ok(()) };
        let Some(first) = self.sockets.iter().position(|s| s.id == first) else { return Ok(()) };
        self.next_attempt_at = (!self.untried.is_empty()).then(|| now + FIRST_PATIENCE);
        let scid = new_cid()?;
        let name = match &self.target.host {
            Host::Domain(name) => Some(name.as_str()),
            _ => None,
        };
        let windows = match Windows::new(context.options.window, &context.transport, &context.budget, now) {
            Ok(windows) => windows,
            Err(e) => {
                self.not_begun = Some(Outcome::Connect(format!("--memory-budget: {e}")));
                return Ok(());
            }
        };
        windows.initial().apply(&mut context.config);
        let local = self.sockets[first].socket.local_addr();
        let mut quic = quiche::connect(name, &scid, local, peer, &mut context.config)
            .map_err(Fault::internal("cannot make a connection"))?;
        if !context.options.insecure {
            tls::expect_address(&mut quic, &self.target.host)?;
        }
        let qlog_dir = context.options.common.qlog_dir.as_deref();
        context.qlogs.extend(QlogFile::start(qlog_dir, &mut quic, &format!("client-flow-{}", self.plan.flow))?);
        let routes = match context.requested.is_empty() {
            true => None,
            false => Some(self.routes(first, context)?),
        };
        let record = context.events.is_some() || qlog_dir.is_some();
        let mut conn =
            Conn::new(quic, context.congestion.control(self.plan.flow, self.index == 0, &context.timebase), now);
        // Of another path that was tried before: its handshake was not done, so nothing is in it.
        self.trajectory = context.trajectories.start(|| context.congestion.trajectory(self.plan.flow));
        conn.windows = Some(windows);
        self.session = Some(Session::new(conn, self.plan.clone(), routes, context.timebase, record, now));
        Ok(())
    }

    /// The paths of a session that starts on socket number `first`.
    fn routes(&self, first: usize, context: &Context<'_>) -> Result<Routes, Fault> {
        let peer = self.target.addr;
        let seed = context.seed.wrapping_add(self.plan.flow);
        let names: Vec<_> = self.sockets.iter().map(|s| (s.id, s.name.clone())).collect();
        let config = context.choice.config(seed, &names)?;
        let others = self.sockets.iter().enumerate().filter(|(k, _)| *k != first);
        let others = others.map(|(_, s)| s.spec(peer)).collect();
        Ok(Routes::new(self.sockets[first].spec(peer), others, context.choice.standby, config))
    }

    /// Gives up a connection that did not come up, if another path is left to try.
    fn try_another_path(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        let Some(session) = self.session.as_mut().filter(|_| !self.untried.is_empty()) else { return Ok(()) };
        if session.conn.established.is_some() {
            self.next_attempt_at = None;
            return Ok(());
        }
        let failed = match session.outcome() {
            Some(outcome) => matches!(outcome, Outcome::Connect(_) | Outcome::Timeout(_)),
            None => self.next_attempt_at.is_some_and(|t| t <= now),
        };
        if failed {
            session.path_failed(now);
            context.write_events(session)?;
            self.session = None;
            self.connect(context, now)?;
        }
        Ok(())
    }

    /// Interfaces, addresses or routes have changed. True if that concerns this flow.
    pub fn refresh_paths(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        if self.session.as_ref().is_none_or(|s| s.outcome().is_some()) {
            return false;
        }
        let peer = self.target.addr;
        let paths = context.local_paths(peer);
        for path in &paths {
            match self.sockets.iter().position(|s| s.is(path)) {
                Some(at) => {
                    if let Some(session) = &mut self.session {
                        session.interface(self.sockets[at].id, path.up, now);
                    }
                }
                // A failure means that it is not ready or has no route to the server: the next change is another chance.
                None if path.up && self.open_socket(path, context).is_ok() => {
                    let last = self.sockets.len() - 1;
                    let Some(session) = &mut self.session else { continue };
                    for socket in self.sockets[..last].iter_mut().filter(|s| s.name == path.name) {
                        socket.leaving = true;
                        session.remove_path(socket.id);
                    }
                    session.add_path(self.sockets[last].spec(peer), now);
                }
                None => {}
            }
        }
        let Some(session) = &mut self.session else { return true };
        for socket in self.sockets.iter().filter(|s| !s.leaving) {
            if !paths.iter().any(|p| socket.is(p)) {
                session.interface(socket.id, false, now);
            }
        }
        true
    }

    /// Receives what waits at the socket of a path.
    pub fn receive(&mut self, path: PathId, context: &mut Context<'_>, now: Instant) {
        let Some(session) = &mut self.session else { return };
        let Some(PathSocket { socket, .. }) = self.sockets.iter().find(|s| s.id == path) else { return };
        let result = context.recv.receive(socket, |bytes, meta| {
            session.recv(bytes, meta.tos, quiche::RecvInfo { from: meta.from, to: meta.to }, now);
        });
        if let Err(e) = result {
            connection_trouble(session, &e, now);
        }
    }

    /// Lets the session act, tries another path if the handshake failed, and sends.
    ///
    /// # Errors
    /// What ends the whole program: no random numbers, `--events` that can't be written.
    pub fn serve(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        if let Some(session) = &mut self.session
            && !self.sockets.is_empty()
        {
            let mut no_random = None;
            let mut cid = || match (new_cid(), new_reset_token()) {
                (Ok(cid), Ok(token)) => (cid, token),
                (Err(e), _) | (_, Err(e)) => {
                    no_random = Some(e);
                    (quiche::ConnectionId::from_vec(vec![0; CID_BYTES]), 0)
                }
            };
            let mut means = Means { scratch: &mut context.scratch, body: self.body.as_mut(), new_cid: &mut cid };
            session.advance(now, &mut means);
            if let Some(e) = no_random {
                return Err(e);
            }
        }
        self.try_another_path(context, now)?;
        if let Some(session) = &mut self.session
            && !self.sockets.is_empty()
        {
            let mut router = Router::new(&mut context.send, &mut self.sockets);
            session.pump(now, &mut router);
            router.flush();
            if let Some(e) = context.send.error.take() {
                connection_trouble(session, &e, now);
            }
            context.write_events(session)?;
            if self.sockets.iter().any(|s| s.leaving) {
                // In use until the connection has moved.
                self.sockets.retain(|s| !s.leaving || session.has_path(s.id));
            }
            if let Some(decision) = session.conn.decide(now) {
                self.trajectory = context.trajectories.step(self.trajectory.take(), &decision, &context.timebase);
                context.note_decision(&decision, self.plan.flow)?;
            }
        }
        Ok(())
    }

    /// Ends it with this outcome, unless it has ended.
    pub fn end(&mut self, outcome: &Outcome, now: Instant) {
        self.untried.clear();
        match &mut self.session {
            Some(session) => session.end(outcome.clone(), now),
            None => self.not_begun = self.not_begun.take().or_else(|| Some(outcome.clone())),
        }
    }

    /// Gives back what it holds, once it is over: sockets, its part of the memory budget, and an incomplete output file.
    ///
    /// # Errors
    /// A socket can't be taken out of the wait.
    pub fn release(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        for socket in self.sockets.drain(..) {
            context.waiter.remove(socket.socket.fd()).map_err(Fault::io("epoll"))?;
        }
        if let Some(session) = &mut self.session {
            tls::explain_certificate(session);
            session.conn.windows = None;
        }
        self.body = Box::new(Nowhere);
        let reason = self.outcome().map_or("", Outcome::name).to_owned();
        context.trajectories.close(self.trajectory.take(), &reason);
        Ok(())
    }
}

/// What a socket's error means to its flow. Once a connection is up nothing: anyone on the way can send an ICMP
/// message, so QUIC does not believe them (RFC 9000 14.2.1) and goes by its own timers.
fn connection_trouble(session: &mut Session, e: &io::Error, now: Instant) {
    if session.conn.established.is_none() {
        let text = format!("{}: {e}", session.plan.authority);
        session.end(Outcome::Connect(text), now);
    }
}
