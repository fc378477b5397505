// SPDX-License-Identifier: Apache-2.0
//! A flow: its sockets, the attempts to connect, and the session on the connection that came up. It does what the event
//! loop calls; it never waits.

mod aggregation;
mod race;
mod reactor;
mod sockets;
pub mod tls;

pub use aggregation::Aggregation;
pub use reactor::{INTERFACES, Reactor, watch_interfaces};

use crate::local_paths::{LocalPath, Reach, RequestedPaths};
use crate::target::Target;
use race::Attempts;
use sockets::{PathSocket, Router};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use url::Host;
use weir_core::choice::{ChoiceConfig, PathId};
use weir_core::client::{DEFAULT_PATH, Means, Outcome, Routes, Session, SessionConfig, Task, Tasks};
use weir_core::congestion::{CongestionControl, Decision};
use weir_core::connection::{Conn, EcnMode};
use weir_core::paths::Standby;
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::transport::{CID_BYTES, Transport};
use weir_core::window::{SharedBudget, WindowKind, Windows};
use weir_io::address::ZonedIp;
use weir_io::fault::Fault;
use weir_io::interfaces::Interface;
use weir_io::udp::{RecvBatch, SendBatch, SocketOptions};
use weir_io::wait::Waiter;

/// A socket's token in the event loop's wait: its flow and its path.
fn token(flow: usize, path: PathId) -> u64 {
    (flow as u64) << 32 | u64::from(path.0)
}

/// The flow and path of a socket's token.
pub fn from_token(token: u64) -> (usize, PathId) {
    ((token >> 32) as usize, PathId(token as u32))
}

/// Extension points of a program: the parts of a flow that are chosen, and the observer of its events.
pub trait Hooks {
    /// The congestion control of a connection with this label; `first`: of the first flow.
    fn congestion(&mut self, label: u64, first: bool) -> Box<dyn CongestionControl>;

    /// The configuration of path choice for these paths, with this seed.
    ///
    /// # Errors
    /// It names another path.
    fn choice(&mut self, seed: u64, paths: &[(PathId, String)]) -> Result<ChoiceConfig, Fault>;

    /// Whether events are observed.
    fn observes(&self) -> bool {
        false
    }

    /// A connection is opened: attempt number `attempt` of the flow with this label.
    ///
    /// # Errors
    /// The flow can't go on.
    fn opened(&mut self, label: u64, attempt: u32, quic: &mut quiche::Connection) -> Result<(), Fault> {
        let _ = (label, attempt, quic);
        Ok(())
    }

    /// An event of the flow with this label.
    ///
    /// # Errors
    /// The flow can't go on.
    fn event(&mut self, label: u64, at: Instant, event: &Event) -> Result<(), Fault> {
        let _ = (label, at, event);
        Ok(())
    }

    /// A session ticket for the server `host:port`, to be used once.
    fn ticket(&mut self, authority: &str) -> Option<Vec<u8>> {
        let _ = authority;
        None
    }

    /// The server `host:port` has given a session ticket.
    fn new_ticket(&mut self, authority: &str, ticket: &[u8]) {
        let _ = (authority, ticket);
    }

    /// A decision of a congestion control that learns.
    ///
    /// # Errors
    /// The flow can't go on.
    fn decision(&mut self, label: u64, decision: &Decision) -> Result<(), Fault> {
        let _ = (label, decision);
        Ok(())
    }

    /// The flow has ended with this outcome ([`Outcome::name`]).
    fn ended(&mut self, label: u64, outcome: &str) {
        let _ = (label, outcome);
    }
}

/// Settings of all flows.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The transport's options.
    pub transport: Transport,
    /// The sockets' options.
    pub sockets: SocketOptions,
    /// ECN of the packets sent.
    pub ecn: EcnMode,
    /// Rule of the receive windows.
    pub window: WindowKind,
    /// Any certificate is accepted.
    pub insecure: bool,
    /// Address to send from, without requested paths.
    pub bind: Option<ZonedIp>,
    /// Requested paths.
    pub requested: RequestedPaths,
    /// When the paths that are not in use are validated.
    pub standby: Standby,
    /// Seed of the random choices.
    pub seed: u64,
    /// Prefix of the names of options in errors: `--` for a command line.
    pub prefix: &'static str,
}

/// State shared by all flows.
pub struct Context {
    /// Settings.
    pub settings: Settings,
    /// quiche's configuration.
    pub config: quiche::Config,
    /// The program's part.
    pub hooks: Box<dyn Hooks>,
    /// The interfaces of this machine, if there are requested paths.
    pub interfaces: Vec<Interface>,
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
    /// Instants as microseconds.
    pub timebase: Timebase,
    /// The smallest receive buffer that a socket was granted.
    pub recv_buffer_bytes: Option<u64>,
}

impl Context {
    /// The local paths that exist now to `peer`, in the order of the request.
    fn local_paths(&self, peer: SocketAddr) -> Vec<LocalPath> {
        if self.settings.requested.is_empty() {
            let v6 = peer.is_ipv6();
            let any = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
            let from = self.settings.bind.unwrap_or(ZonedIp { ip: any, zone: 0 });
            let (address, zone) = (from.ip, from.zone);
            return vec![LocalPath { name: DEFAULT_PATH.to_owned(), device: None, address, zone, up: true }];
        }
        self.settings.requested.find(&self.interfaces, Reach::of(peer))
    }

    /// Hands on the events of a session.
    fn write_events(&mut self, session: &mut Session) -> Result<(), Fault> {
        let label = session.config.label;
        for (at, event) in session.take_events() {
            self.hooks.event(label, at, &event)?;
            session.conn.log(&event);
        }
        Ok(())
    }
}

/// A fresh connection ID.
fn new_cid() -> Result<quiche::ConnectionId<'static>, Fault> {
    Ok(quiche::ConnectionId::from_vec(weir_io::random::bytes::<CID_BYTES>()?.to_vec()))
}

/// A fresh stateless reset token (RFC 9000 10.3).
fn new_reset_token() -> Result<u128, Fault> {
    Ok(u128::from_be_bytes(weir_io::random::bytes()?))
}

/// A flow, still to be started, under way or at its end.
pub struct Flow {
    index: usize,
    /// Its server.
    pub target: Target,
    /// Settings of its session.
    pub config: SessionConfig,
    tasks: Box<dyn Tasks>,
    /// When it starts.
    pub start: Instant,
    sockets: Vec<PathSocket>,
    next_path: u32,
    /// Of an earlier connection.
    ticket: Option<Vec<u8>>,
    /// A ticket of this connection was kept.
    has_kept_ticket: bool,
    /// The name of the only path that it uses; `None`: all.
    only: Option<String>,
    /// Other connections, until one is up.
    attempts: Attempts,
    /// The session, once a connection is tried.
    pub session: Option<Session>,
    /// Why there is not even a session, if so.
    not_begun: Option<Outcome>,
}

impl Flow {
    /// A flow that is to start at `start`. `index` is its place among all flows.
    pub fn new(index: usize, target: Target, config: SessionConfig, tasks: Box<dyn Tasks>, start: Instant) -> Flow {
        Flow {
            index,
            target,
            config,
            tasks,
            start,
            sockets: Vec::new(),
            next_path: 0,
            ticket: None,
            has_kept_ticket: false,
            only: None,
            attempts: Attempts::default(),
            session: None,
            not_begun: None,
        }
    }

    /// The same on one path.
    #[must_use]
    pub fn on_path(self, name: impl Into<String>) -> Flow {
        Flow { only: Some(name.into()), ..self }
    }

    /// Lets it use all paths.
    pub fn use_all_paths(&mut self, context: &mut Context, now: Instant) {
        if self.only.take().is_some() {
            self.refresh_paths(context, now);
        }
    }

    /// The local paths to `peer` that it may use.
    fn local_paths(&self, peer: SocketAddr, context: &Context) -> Vec<LocalPath> {
        let mut paths = context.local_paths(peer);
        paths.retain(|path| self.only.as_ref().is_none_or(|only| *only == path.name));
        paths
    }

    /// Outcome, once the flow has ended.
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
        [session.deadline(), self.attempts.deadline()].into_iter().flatten().min()
    }

    /// Its time has come: it starts, or its session's timer is over.
    ///
    /// # Errors
    /// A requested path or address can't be used.
    pub fn on_timer(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        match &mut self.session {
            Some(session) => {
                session.on_deadline(now);
                self.attempts.on_timer(now);
                Ok(())
            }
            None => self.begin(context, now),
        }
    }

    /// Opens a connection on socket number `first`; `None`: there is no memory for its windows.
    fn connect(&mut self, first: usize, context: &mut Context, now: Instant) -> Result<Option<Session>, Fault> {
        let peer = self.sockets[first].peer;
        let scid = new_cid()?;
        let name = match &self.target.host {
            Host::Domain(name) => Some(name.as_str()),
            _ => None,
        };
        let windows = match Windows::new(context.settings.window, &context.settings.transport, &context.budget, now) {
            Ok(windows) => windows,
            Err(e) => {
                if self.session.is_none() {
                    self.not_begun = Some(Outcome::Connect(format!("{}memory-budget: {e}", context.settings.prefix)));
                }
                return Ok(None);
            }
        };
        windows.initial().apply(&mut context.config);
        let local = self.sockets[first].socket.local_addr();
        let mut quic = quiche::connect(name, &scid, local, peer, &mut context.config)
            .map_err(Fault::internal("cannot make a connection"))?;
        if !context.settings.insecure {
            tls::expect_address(&mut quic, &self.target.host)?;
        }
        if self.attempts.begun == 0 {
            self.ticket = context.hooks.ticket(&self.target.authority);
        }
        if let Some(ticket) = &self.ticket {
            // A malformed one is as good as none.
            let _ = quic.set_session(ticket);
        }
        let label = self.config.label;
        context.hooks.opened(label, self.attempts.begun, &mut quic)?;
        let routes = match context.settings.requested.is_empty() {
            true => None,
            false => Some(self.routes(first, context)?),
        };
        let record = context.hooks.observes();
        let mut conn = Conn::new(quic, context.hooks.congestion(label, self.index == 0), now);
        conn.windows = Some(windows);
        conn.set_ecn(context.settings.ecn);
        Ok(Some(Session::new(conn, self.config.clone(), routes, context.timebase, record, now)))
    }

    /// The paths of a session that starts on socket number `first`.
    fn routes(&self, first: usize, context: &mut Context) -> Result<Routes, Fault> {
        let peer = self.sockets[first].peer;
        let seed = context.settings.seed.wrapping_add(self.config.label);
        let names: Vec<_> = self.sockets.iter().filter(|s| s.peer == peer).map(|s| (s.id, s.name.clone())).collect();
        let config = context.hooks.choice(seed, &names)?;
        let others = self.sockets.iter().enumerate().filter(|(k, s)| *k != first && s.peer == peer);
        let others = others.map(|(_, s)| s.spec()).collect();
        Ok(Routes::new(self.sockets[first].spec(), others, context.settings.standby, config))
    }

    /// Interfaces, addresses or routes have changed. True if that concerns this flow.
    pub fn refresh_paths(&mut self, context: &mut Context, now: Instant) -> bool {
        if self.session.as_ref().is_none_or(|s| s.outcome().is_some()) {
            return false;
        }
        let peer = self.target.addr;
        let paths = self.local_paths(peer, context);
        for path in &paths {
            match self.sockets.iter().position(|s| s.peer == peer && s.is(path)) {
                Some(at) => {
                    if let Some(session) = &mut self.session {
                        session.interface(self.sockets[at].id, path.up, now);
                    }
                }
                // A failure means that it is not ready or has no route to the server: the next change is another chance.
                None if path.up && self.open_socket(path, peer, context).is_ok() => {
                    let last = self.sockets.len() - 1;
                    let Some(session) = &mut self.session else { continue };
                    for socket in self.sockets[..last].iter_mut().filter(|s| s.peer == peer && s.name == path.name) {
                        socket.leaving = true;
                        session.remove_path(socket.id);
                    }
                    session.add_path(self.sockets[last].spec(), now);
                }
                None => {}
            }
        }
        let Some(session) = &mut self.session else { return true };
        for socket in self.sockets.iter().filter(|s| s.peer == peer && !s.leaving) {
            if !paths.iter().any(|p| socket.is(p)) {
                session.interface(socket.id, false, now);
            }
        }
        true
    }

    /// Receives the datagrams that wait at the socket of a path.
    pub fn receive(&mut self, path: PathId, context: &mut Context, now: Instant) {
        let Some(session) = self.attempts.on_path(path).or(self.session.as_mut()) else { return };
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
    /// There are no random numbers, or a hook failed.
    pub fn serve(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        self.race(context, now)?;
        self.advance(context, now)?;
        self.race(context, now)?;
        self.send_beside(context, now);
        self.send(context, now)?;
        if self.begins_early() {
            self.advance(context, now)?;
            self.send(context, now)?;
        }
        Ok(())
    }

    /// Whether early data begins in this iteration: the first packet of a resumed connection is made, and no other attempt
    /// could win, to which the requests would be lost.
    fn begins_early(&mut self) -> bool {
        let alone = self.ticket.is_some() && self.attempts.is_alone();
        let Some(session) = self.session.as_mut().filter(|_| alone) else { return false };
        let conn = &mut session.conn;
        let begins = !conn.is_early && conn.established.is_none() && conn.quic.is_in_early_data();
        conn.is_early |= begins;
        begins
    }

    fn advance(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        let Some(session) = self.session.as_mut().filter(|_| !self.sockets.is_empty()) else { return Ok(()) };
        let mut no_random = None;
        let mut cid = || match (new_cid(), new_reset_token()) {
            (Ok(cid), Ok(token)) => (cid, token),
            (Err(e), _) | (_, Err(e)) => {
                no_random = Some(e);
                (quiche::ConnectionId::from_vec(vec![0; CID_BYTES]), 0)
            }
        };
        let mut means = Means { scratch: &mut context.scratch, tasks: self.tasks.as_mut(), new_cid: &mut cid };
        session.advance(now, &mut means);
        no_random.map_or(Ok(()), Err)
    }

    fn send(&mut self, context: &mut Context, now: Instant) -> Result<(), Fault> {
        let Some(session) = self.session.as_mut().filter(|_| !self.sockets.is_empty()) else { return Ok(()) };
        let mut router = Router::new(&mut context.send, &mut self.sockets);
        session.pump(now, &mut router);
        router.flush();
        for refused in context.send.too_large.drain(..) {
            session.conn.refused(refused.from, refused.to, refused.len);
        }
        if let Some(e) = context.send.error.take() {
            connection_trouble(session, &e, now);
        }
        context.write_events(session)?;
        if self.sockets.iter().any(|s| s.leaving) {
            // In use until the connection has moved.
            self.sockets.retain(|s| !s.leaving || session.has_path(s.id));
        }
        if let Some(decision) = session.conn.decide(now) {
            context.hooks.decision(self.config.label, &decision)?;
        }
        if !self.has_kept_ticket {
            self.keep_ticket(context);
        }
        Ok(())
    }

    /// Keeps the latest session ticket of the server, if there is one.
    fn keep_ticket(&mut self, context: &mut Context) {
        let Some(conn) = self.session.as_ref().map(|session| &session.conn) else { return };
        if let Some(ticket) = conn.quic.session().filter(|_| conn.established.is_some()) {
            context.hooks.new_ticket(&self.target.authority, ticket);
            self.has_kept_ticket = true;
        }
    }

    /// Ends it with this outcome, unless it has ended.
    pub fn end(&mut self, outcome: &Outcome, now: Instant) {
        self.attempts.give_up();
        match &mut self.session {
            Some(session) => session.end(outcome.clone(), now),
            None => self.not_begun = self.not_begun.take().or_else(|| Some(outcome.clone())),
        }
    }

    /// Frees its resources, once it is over: sockets, its part of the memory budget, and an incomplete output file.
    ///
    /// # Errors
    /// A socket can't be taken out of the wait.
    pub fn release(&mut self, context: &mut Context) -> Result<(), Fault> {
        for socket in self.sockets.drain(..) {
            context.waiter.remove(socket.socket.fd()).map_err(Fault::io("epoll"))?;
        }
        if let Some(session) = &mut self.session {
            tls::explain_certificate(session, context.settings.prefix);
            session.conn.windows = None;
        }
        self.tasks = Box::new(NoTasks);
        let outcome = self.outcome().map_or("", Outcome::name).to_owned();
        context.hooks.ended(self.config.label, &outcome);
        Ok(())
    }
}

/// Effect of a socket error on its flow. Once a connection is up there is none: anyone on the path can send an ICMP
/// message, so QUIC does not believe them (RFC 9000 14.2.1) and goes by its own timers.
fn connection_trouble(session: &mut Session, e: &io::Error, now: Instant) {
    if session.conn.established.is_none() {
        let text = format!("{}: {e}", session.config.authority);
        session.end(Outcome::Connect(text), now);
    }
}

/// Tasks of a flow that has ended.
struct NoTasks;

impl Tasks for NoTasks {
    fn next_due(&mut self, _: Instant, _: usize) -> Option<Instant> {
        None
    }

    fn take(&mut self) -> Option<Task> {
        None
    }

    fn next_bytes(&self) -> Option<u64> {
        None
    }

    fn left(&self) -> Option<u64> {
        Some(0)
    }

    fn left_at_once(&self) -> u64 {
        0
    }
}
