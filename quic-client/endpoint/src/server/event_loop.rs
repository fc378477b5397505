// SPDX-License-Identifier: Apache-2.0
//! The event loop of the server: one wait per iteration for the socket, signals and timers; then every connection that
//! something happened to is served.

use super::accept::{Acceptor, Answer, Candidate, negotiation};
use super::connections::{Connection, Connections};
use super::files::Root;
use super::logs::{Qlogs, complain};
use super::offered::Offer;
use super::options::Options;
use super::relay::{Relay, Tokens};
use super::shutdown::Shutdown;
use super::tls;
use crate::shared::congestion::Congestion;
use crate::shared::fault::{Fault, IO};
use crate::shared::json::to_json;
use crate::shared::trajectories::Trajectories;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::connection::{Codepoint, Conn, EcnMode, PacketSink};
use weir_core::report::samples::{Side, Ticker, Timebase};
use weir_core::scone;
use weir_core::server::Session;
use weir_core::server::admission::{Invariants, LEAST_INITIAL_BYTES};
use weir_core::transport::CID_BYTES;
use weir_io::lines::LineLog;
use weir_io::udp::{Meta, RecvBatch, SendBatch, UdpSocket};
use weir_io::user::User;
use weir_io::wait::{Signals, Waiter, moment};

/// RFC 9000 20.1.
const PROTOCOL_VIOLATION: u64 = 0xa;

/// Tokens in the wait.
const SOCKET: u64 = 0;
const SIGNAL: u64 = 1;
const RELAY: u64 = 2;

/// Answers to packets that belong to no connection.
type Replies = Vec<(Vec<u8>, Meta)>;

struct Server {
    acceptor: Acceptor,
    connections: Connections,
    /// No more connections are accepted.
    closing: bool,
    /// A handshake has no more time than silence has, however often the client is heard.
    handshake_limit: Duration,
    offer: Offer,
    tunnel_idle: Duration,
    congestion: Congestion,
    ecn: EcnMode,
    trajectories: Trajectories,
    stats: Option<LineLog>,
    qlogs: Qlogs,
    timebase: Timebase,
    scratch: Vec<u8>,
}

/// Listens and serves until a signal ends it. Returns the program's exit code.
///
/// # Errors
/// The program ends early: a file or an address can't be used, a system call fails.
pub fn run(options: &Options) -> Result<u8, Fault> {
    if options.root.is_some() || options.relay.relay {
        raise_open_files();
    }
    let user = options.user.as_deref().map(User::find).transpose()?;
    let congestion = Congestion::new(&options.common, Side::Server)?;
    let (config, reset) = tls::config(options)?;
    let stats = options.common.stats.as_deref();
    let stats = stats.map(|path| LineLog::create("--stats", path, complain)).transpose()?;
    // These may be readable for the first user only.
    let tokens = options.relay.relay_token.as_deref().map(Tokens::read).transpose()?;
    let root = options.root.as_deref().map(Root::open).transpose()?.map(Rc::new);
    let qlogs = Qlogs::new(options.common.qlog_dir.as_deref())?;
    let sockets = options.common.sockets();
    let mut socket =
        UdpSocket::open(options.listen, None, &sockets).map_err(Fault::io(format!("--listen {}", options.listen)))?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let mut waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    waiter.add(socket.fd(), SOCKET).map_err(Fault::io("epoll"))?;
    waiter.add(signals.fd(), SIGNAL).map_err(Fault::io("epoll"))?;
    if let Some(user) = user {
        user.become_now()?;
        for (option, folder) in options.folders_of_later_files() {
            user.may_write_into(option, folder)?;
        }
    }
    // Its threads keep the rights that they begin with.
    let relay = tokens.map(|tokens| Relay::start(tokens, &options.relay)).transpose()?.map(Rc::new);
    if let Some(relay) = &relay {
        waiter.add(relay.fd(), RELAY).map_err(Fault::io("epoll"))?;
    }
    if let Some(note) = congestion.note() {
        complain(&note);
    }
    let mut out = std::io::stdout();
    writeln!(out, "listening {}", socket.local_addr())
        .and_then(|()| out.flush())
        .map_err(Fault::io("standard output"))?;

    let (start, start_us) = moment();
    let mut server = Server {
        acceptor: Acceptor::new(options, config, reset.clone(), start)?,
        connections: Connections::new(
            reset,
            u64::from(options.send_memory_mib) << 20,
            u64::from(options.receive_memory_mib) << 20,
        ),
        closing: false,
        handshake_limit: Duration::from_millis(options.common.idle_timeout_ms),
        offer: Offer { root, relay },
        tunnel_idle: Duration::from_secs(options.relay.tunnel_idle_s.into()),
        congestion,
        ecn: options.common.ecn(),
        trajectories: Trajectories::new(complain),
        stats,
        qlogs,
        timebase: Timebase::new(start, start_us),
        scratch: vec![0; 1 << 16],
    };
    let mut ticker = Ticker::new(start, options.common.stats_every());
    let mut recv = RecvBatch::new(sockets.offload);
    let mut send = SendBatch::default();
    let mut ready = Vec::new();
    let clock = options.common.clock();
    let mut shutdown = Shutdown::new(Duration::from_secs(options.grace_s.into()));
    loop {
        // Without connections there is nothing to sample, and no reason to wake.
        let tick = (server.stats.is_some() && !server.connections.is_empty()).then(|| ticker.next());
        let deadline = [server.connections.next_timer(), tick, shutdown.deadline()].into_iter().flatten().min();
        waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
        let now = clock.turn().map_err(Fault::io("clock"))?;
        let mut stop = false;
        for &token in &ready {
            match token {
                SIGNAL => stop |= signals.take().is_some(),
                RELAY => server.poll_relay()?,
                _ => server.receive(&mut socket, &mut recv, &mut send, now)?,
            }
        }
        server.connections.fire_timers(now);
        shutdown.turn(stop, &mut server.connections, now);
        server.closing = shutdown.has_begun();
        server.serve(&mut socket, &mut send, now)?;
        // Datagrams that the kernel rejects are lost like any packet; the connections' own timers notice.
        send.error = None;
        if ticker.due(now) {
            server.sample_all(now)?;
        }
        if shutdown.is_over(&server.connections, now) {
            server.sample_all(now)?;
            return server.end(now);
        }
    }
}

/// Each file and tunnel is an open file: takes as many as the system allows. With fewer, requests are answered with 503.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl Server {
    fn poll_relay(&mut self) -> Result<(), Fault> {
        let Some(relay) = self.offer.relay.clone() else { return Ok(()) };
        let polled = relay.poll(|id| {
            self.connections.touch(id);
        });
        polled.map_err(Fault::io("epoll"))
    }

    fn receive(
        &mut self,
        socket: &mut UdpSocket,
        recv: &mut RecvBatch,
        send: &mut SendBatch,
        now: Instant,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        let mut replies = Vec::new();
        let received = recv.receive(socket, |bytes, meta| {
            if result.is_ok() {
                result = self.datagram(bytes, meta, now, &mut replies);
            }
        });
        result?;
        for (reply, meta) in replies {
            let mut out = send.to(socket);
            out.slot()[..reply.len()].copy_from_slice(&reply);
            out.commit(reply.len(), meta.to, meta.from, Codepoint::NotEct);
        }
        // An unconnected socket reports no errors of its peers. An error here is the socket's own.
        received.map(drop).map_err(Fault::io(format!("socket {}", socket.local_addr())))
    }

    /// Takes in one datagram. `replies` gets answers that belong to no connection.
    fn datagram(&mut self, bytes: &mut [u8], meta: Meta, now: Instant, replies: &mut Replies) -> Result<(), Fault> {
        // Throughput advice of an element of the network comes before the packets of a connection.
        let quic = scone::read(bytes).map_or(0, |packet| packet.len);
        // One that is cut short, or repeated: a client has no other version to choose.
        if scone::begins(&bytes[quic..]) {
            return Ok(());
        }
        if let Some(long) = Invariants::read(&bytes[quic..])
            && !quiche::version_is_supported(long.version)
        {
            if !self.closing && long.wants_negotiation(bytes.len(), quiche::version_is_supported) {
                replies.extend(negotiation(&long).map(|reply| (reply, meta)));
            }
            return Ok(());
        }
        let Ok(header) = quiche::Header::from_slice(&mut bytes[quic..], CID_BYTES) else { return Ok(()) };
        let initial = header.ty == quiche::Type::Initial;
        // RFC 9000 14.1: a server discards a client's Initial in a smaller datagram, also on a connection it knows.
        if initial && bytes.len() < LEAST_INITIAL_BYTES {
            return Ok(());
        }
        if let Some(connection) = self.connections.touch_by_cid(header.dcid.as_ref()) {
            connection.session.recv(bytes, meta.tos, quiche::RecvInfo { from: meta.from, to: meta.to });
            self.connections.came(bytes.len(), now);
            return Ok(());
        }
        if self.closing || quic > 0 {
            return Ok(());
        }
        let answer = match initial {
            true => self.acceptor.judge(&header, bytes, meta, now)?,
            false => self.acceptor.reset(&header, bytes.len(), now)?,
        };
        match answer {
            Answer::Nothing => {}
            Answer::Packet(reply) => replies.push((reply, meta)),
            Answer::Candidate(candidate) => self.open(*candidate, bytes, meta, now),
        }
        Ok(())
    }

    /// Hands a first packet to the connection that it asks for, and keeps the connection if the packet is a client's.
    fn open(&mut self, candidate: Candidate, bytes: &mut [u8], meta: Meta, now: Instant) {
        let Candidate { mut quic, cids, source, validated } = candidate;
        let id = self.connections.next_id();
        let qlog = self.qlogs.start(&mut quic, &format!("server-conn-{id}"));
        let mut conn = Conn::new(quic, self.congestion.control(id, id == 0, &self.timebase), now);
        conn.set_ecn(self.ecn);
        conn.recv(bytes, meta.tos, quiche::RecvInfo { from: meta.from, to: meta.to });
        // quiche does not count a packet whose handshake failed, but closes with the reason, which is sent to the
        // client. Packets that could not be decrypted close it as a protocol violation, like other packets that no
        // client sent.
        let has_reason = conn.quic.local_error().is_some_and(|e| e.error_code != PROTOCOL_VIOLATION);
        if conn.quic.stats().recv == 0 && !has_reason {
            // No packet in it was a client's: there is nobody to answer.
            drop(conn);
            if let Some(qlog) = qlog {
                qlog.discard();
            }
            return;
        }
        self.qlogs.opened(qlog.as_ref());
        self.acceptor.admission.opened(source, validated);
        let ends = now + self.handshake_limit;
        let mut session = Session::new(conn, id);
        if let Some(resources) = self.offer.to(id, source) {
            session.offer(resources, self.tunnel_idle);
        }
        let mut connection = Connection::new(session, cids, source, validated, ends);
        connection.qlog = qlog;
        connection.trajectory = self.trajectories.start(|| self.congestion.trajectory(id));
        self.connections.insert(connection);
        self.connections.came(bytes.len(), now);
    }

    /// Serves all connections that something happened to, and sends.
    fn serve(&mut self, socket: &mut UdpSocket, send: &mut SendBatch, now: Instant) -> Result<(), Fault> {
        self.connections.bound_unread(now);
        self.connections.make_room(now);
        let touched = self.connections.take_touched();
        for &id in &touched {
            let served = self.connections.serve(id, now, &mut self.scratch, &mut send.to(socket))?;
            let (Some(served), Some(connection)) = (served, self.connections.get_mut(id)) else { continue };
            if served.validated {
                self.acceptor.admission.validated();
            }
            connection.qlog = self.qlogs.check(connection.qlog.take());
            if served.over {
                self.forget(id, now)?;
            }
        }
        send.flush(socket);
        for refused in send.too_large.drain(..) {
            for id in &touched {
                if let Some(connection) = self.connections.get_mut(*id) {
                    connection.session.conn.refused(refused.from, refused.to, refused.len);
                }
            }
        }
        for id in touched {
            let Some((decision, connection)) = self.connections.decide(id, now) else { continue };
            let trajectory = connection.trajectory.take();
            connection.trajectory = self.trajectories.step(trajectory, &decision, &self.timebase);
            if let Some(remark) = self.congestion.remark(&decision) {
                complain(remark);
            }
        }
        Ok(())
    }

    fn forget(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        let Some(connection) = self.connections.remove(id) else { return Ok(()) };
        self.acceptor.admission.closed(connection.source, connection.validated);
        self.note_end(connection, now)?;
        if let Some(stats) = &mut self.stats {
            stats.flush();
        }
        Ok(())
    }

    /// Writes the last lines of a connection.
    fn note_end(&mut self, connection: Connection, now: Instant) -> Result<(), Fault> {
        let end = connection.end_line(&self.timebase, now);
        if let Some(stats) = &mut self.stats {
            if let Some(tunnels) = connection.tunnels_line(&self.timebase, now) {
                stats.line(&to_json(&tunnels)?);
            }
            stats.line(&to_json(&end)?);
        }
        self.trajectories.close(connection.trajectory, &end.reason);
        // With it goes the writer of its qlog, which then is complete.
        drop(connection.session);
        self.qlogs.close(connection.qlog);
        Ok(())
    }

    fn sample_all(&mut self, now: Instant) -> Result<(), Fault> {
        let Some(stats) = &mut self.stats else { return Ok(()) };
        for connection in self.connections.iter_mut().filter(|c| c.is_open()) {
            let session = &mut connection.session;
            let (flow, id, bytes) = (session.flow, session.id, session.bytes);
            let sample = session.conn.sample(now, &self.timebase, Side::Server, flow, id, bytes);
            stats.line(&to_json(&sample)?);
        }
        stats.flush();
        Ok(())
    }

    /// Writes the last lines of all connections that are open, and reports missing lines. Returns the exit code.
    fn end(mut self, now: Instant) -> Result<u8, Fault> {
        for connection in self.connections.take_all() {
            self.note_end(connection, now)?;
        }
        let stats_whole = self.stats.is_none_or(|mut stats| stats.finish());
        let qlogs_whole = self.qlogs.finish();
        let trajectories_whole = self.trajectories.finish();
        Ok(if stats_whole && qlogs_whole && trajectories_whole { 0 } else { IO })
    }
}
