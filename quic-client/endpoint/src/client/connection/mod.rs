// SPDX-License-Identifier: Apache-2.0
//! A flow: its sockets, the attempts to connect, and the session on the connection that came up. It does what the event
//! loop calls; it never waits.

mod race;

use super::options::Options;
use super::options::local_paths::{LocalPath, Reach, RequestedPaths};
use super::options::path_choice::PathChoice;
use super::options::target::Target;
use super::sockets::{PathSocket, Router};
use super::tls;
use crate::shared::congestion::Congestion;
use crate::shared::fault::Fault;
use crate::shared::json::event_line;
use crate::shared::qlog::QlogFile;
use crate::shared::random::{new_cid, new_reset_token};
use crate::shared::trajectories::{Trajectories, Trajectory};
use race::Attempts;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use url::Host;
use weir_core::choice::PathId;
use weir_core::client::{Body, DEFAULT_PATH, Means, Nowhere, Outcome, Plan, Routes, Session};
use weir_core::congestion::Decision;
use weir_core::connection::Conn;
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::transport::{CID_BYTES, Transport};
use weir_core::window::{SharedBudget, Windows};
use weir_io::address::ZonedIp;
use weir_io::interfaces::Interface;
use weir_io::lines::LineWriter;
use weir_io::udp::{RecvBatch, SendBatch};
use weir_io::wait::Waiter;

/// A socket's token in the event loop's wait: its flow and its path.
fn token(flow: usize, path: PathId) -> u64 {
    (flow as u64) << 32 | u64::from(path.0)
}

/// The flow and path of a socket's token.
pub fn from_token(token: u64) -> (usize, PathId) {
    ((token >> 32) as usize, PathId(token as u32))
}

/// State shared by all flows.
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
    /// Paths of `--path`.
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
            let from = self.options.bind.unwrap_or(ZonedIp { ip: any, zone: 0 });
            let (address, zone) = (from.ip, from.zone);
            return vec![LocalPath { name: DEFAULT_PATH.to_owned(), device: None, address, zone, up: true }];
        }
        self.requested.find(&self.interfaces, Reach::of(peer))
    }

    /// Writes down a decision of a congestion control.
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

    /// Writes down a decision of a session.
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
    /// Work of its session.
    pub plan: Plan,
    /// When it starts.
    pub start: Instant,
    sockets: Vec<PathSocket>,
    next_path: u32,
    /// Other connections, until one is up.
    attempts: Attempts,
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
            attempts: Attempts::default(),
            session: None,
            trajectory: None,
            body,
            not_begun: None,
        }
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
    /// The whole program ends: a `--path` or `--bind` can't be used.
    pub fn on_timer(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
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
    fn connect(&mut self, first: usize, context: &mut Context<'_>, now: Instant) -> Result<Option<Session>, Fault> {
        let peer = self.sockets[first].peer;
        let scid = new_cid()?;
        let name = match &self.target.host {
            Host::Domain(name) => Some(name.as_str()),
            _ => None,
        };
        let windows = match Windows::new(context.options.window, &context.transport, &context.budget, now) {
            Ok(windows) => windows,
            Err(e) => {
                if self.session.is_none() {
                    self.not_begun = Some(Outcome::Connect(format!("--memory-budget: {e}")));
                }
                return Ok(None);
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
        let name = match self.attempts.begun {
            0 => format!("client-flow-{}", self.plan.flow),
            n => format!("client-flow-{}-attempt-{n}", self.plan.flow),
        };
        context.qlogs.extend(QlogFile::start(qlog_dir, &mut quic, &name)?);
        let routes = match context.requested.is_empty() {
            true => None,
            false => Some(self.routes(first, context)?),
        };
        let record = context.events.is_some() || qlog_dir.is_some();
        let mut conn =
            Conn::new(quic, context.congestion.control(self.plan.flow, self.index == 0, &context.timebase), now);
        // One for all attempts: until a handshake is done nothing is in it.
        if self.trajectory.is_none() {
            self.trajectory = context.trajectories.start(|| context.congestion.trajectory(self.plan.flow));
        }
        conn.windows = Some(windows);
        conn.set_ecn(context.options.common.ecn());
        Ok(Some(Session::new(conn, self.plan.clone(), routes, context.timebase, record, now)))
    }

    /// The paths of a session that starts on socket number `first`.
    fn routes(&self, first: usize, context: &Context<'_>) -> Result<Routes, Fault> {
        let peer = self.sockets[first].peer;
        let seed = context.seed.wrapping_add(self.plan.flow);
        let names: Vec<_> = self.sockets.iter().filter(|s| s.peer == peer).map(|s| (s.id, s.name.clone())).collect();
        let config = context.choice.config(seed, &names)?;
        let others = self.sockets.iter().enumerate().filter(|(k, s)| *k != first && s.peer == peer);
        let others = others.map(|(_, s)| s.spec()).collect();
        Ok(Routes::new(self.sockets[first].spec(), others, context.choice.standby, config))
    }

    /// Interfaces, addresses or routes have changed. True if that concerns this flow.
    pub fn refresh_paths(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        if self.session.as_ref().is_none_or(|s| s.outcome().is_some()) {
            return false;
        }
        let peer = self.target.addr;
        let paths = context.local_paths(peer);
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
    pub fn receive(&mut self, path: PathId, context: &mut Context<'_>, now: Instant) {
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
    /// The whole program ends: no random numbers, or `--events` can't be written.
    pub fn serve(&mut self, context: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        self.race(context, now)?;
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
        self.race(context, now)?;
        self.send_beside(context, now);
        if let Some(session) = &mut self.session
            && !self.sockets.is_empty()
        {
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
                self.trajectory = context.trajectories.step(self.trajectory.take(), &decision, &context.timebase);
                context.note_decision(&decision, self.plan.flow)?;
            }
        }
        Ok(())
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

/// Effect of a socket error on its flow. Once a connection is up there is none: anyone on the path can send an ICMP
/// message, so QUIC does not believe them (RFC 9000 14.2.1) and goes by its own timers.
fn connection_trouble(session: &mut Session, e: &io::Error, now: Instant) {
    if session.conn.established.is_none() {
        let text = format!("{}: {e}", session.plan.authority);
        session.end(Outcome::Connect(text), now);
    }
}
