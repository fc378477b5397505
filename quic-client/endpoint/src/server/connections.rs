// SPDX-License-Identifier: Apache-2.0
//! The server's connections: found by their connection IDs, woken by their timers, served in the order they were touched.

use super::stateless_reset::ResetTokens;
use crate::shared::fault::Fault;
use crate::shared::qlog::QlogFile;
use crate::shared::random::new_cid;
use crate::shared::trajectories::Trajectory;
use quiche::hooks::{acked_and_lost_bytes, unacknowledged};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use weir_core::congestion::Decision;
use weir_core::connection::{Allowance, Conn, Failure, PacketSink};
use weir_core::report::samples::{EndLine, Side, Timebase};
use weir_core::request::NO_ERROR;
use weir_core::server::admission::Source;
use weir_core::server::receive_memory::{Part, ReceiveMemory};
use weir_core::server::send_memory::{SendMemory, Share};
use weir_core::server::{CidChange, Session, TunnelCounts};

/// The usual `max_ack_delay` (RFC 9000 18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// RFC 9114 8.1: H3_EXCESSIVE_LOAD.
const EXCESSIVE_LOAD: u64 = 0x107;

/// Totals of a connection's tunnels, for `--stats`. No destinations: they are the client's.
#[derive(Debug, Serialize)]
pub struct TunnelsLine {
    /// Always `tunnels`.
    k: &'static str,
    /// `CLOCK_MONOTONIC`, microseconds.
    t_us: u64,
    /// Ordinal of the connection in this process.
    conn: u64,
    #[serde(flatten)]
    counts: TunnelCounts,
}

/// A connection and its state in the server.
pub struct Connection {
    /// The session on it.
    pub session: Session,
    /// The connection IDs that lead to it.
    pub cids: Vec<Vec<u8>>,
    /// Its qlog, if there is one.
    pub qlog: Option<QlogFile>,
    /// Its trajectory, if there is one.
    pub trajectory: Option<Trajectory>,
    /// Where the client is.
    pub source: Source,
    /// Whether the client's address is validated.
    pub validated: bool,
    /// By when the handshake must be done; `None` once it is.
    pub handshake_ends: Option<Instant>,
    /// The handshake was not done by then.
    late: bool,
    /// Its part of the send memory.
    share: Share,
    /// Its part of the receive memory.
    part: Part,
    /// It was closed for others that need memory; why.
    gave_way: Option<&'static str>,
    /// The server ends, and this one has nothing left to send: when it is closed.
    close_at: Option<Instant>,
    timer: Option<Instant>,
    touched: bool,
}

impl Connection {
    /// A connection that begins: it has a first packet to answer.
    pub fn new(session: Session, cids: Vec<Vec<u8>>, source: Source, validated: bool, handshake_ends: Instant) -> Self {
        let handshake_ends = Some(handshake_ends);
        Connection {
            session,
            cids,
            qlog: None,
            trajectory: None,
            source,
            validated,
            handshake_ends,
            late: false,
            share: Share::default(),
            part: Part::default(),
            gave_way: None,
            close_at: None,
            timer: None,
            touched: false,
        }
    }

    /// Whether it is up, and not being closed.
    pub fn is_open(&self) -> bool {
        let conn = &self.session.conn;
        conn.established.is_some() && !conn.quic.is_draining() && !conn.quic.is_closed()
    }

    /// Whether its end was sent to the client, or the client ended it.
    fn has_closed(&self) -> bool {
        self.session.conn.quic.is_draining() || self.session.conn.quic.is_closed()
    }

    /// Notes its send memory, and whether it wanted more when it last wrote.
    fn note_held(&mut self, memory: &mut SendMemory, now: Instant) {
        let Conn { quic, allowance, .. } = &mut self.session.conn;
        let short = std::mem::replace(allowance, Allowance::UNBOUNDED).was_short();
        memory.update(&mut self.share, unacknowledged(quic), acked_and_lost_bytes(quic).0, short, now);
    }

    /// Notes its receive memory.
    fn note_unread(&mut self, memory: &mut ReceiveMemory, now: Instant) {
        if self.gave_way.is_none() {
            memory.update(&mut self.part, self.session.unread_memory_bytes(), self.session.read_bytes, now);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        [self.session.deadline(), self.handshake_ends].into_iter().flatten().min()
    }

    /// Its line of tunnels in `--stats`, if there were any.
    pub fn tunnels_line(&self, timebase: &Timebase, now: Instant) -> Option<TunnelsLine> {
        let counts = self.session.tunnel_counts();
        let line = || TunnelsLine { k: "tunnels", t_us: timebase.us(now), conn: self.session.id, counts };
        (!counts.is_empty()).then(line)
    }

    /// Its last line in `--stats`.
    pub fn end_line(&self, timebase: &Timebase, now: Instant) -> EndLine {
        let session = &self.session;
        let ended = || match session.conn.failure() {
            None if self.late => "handshake timeout".to_owned(),
            None => "closed by us".to_owned(),
            Some(Failure::Timeout { established }) => {
                if established { "timeout" } else { "handshake timeout" }.to_owned()
            }
            Some(Failure::Tls { by_peer, alert }) => {
                format!("tls alert {alert} by {}", if by_peer { "client" } else { "us" })
            }
            Some(Failure::Version) => "no version in common".to_owned(),
            Some(Failure::StatelessReset) => "stateless reset".to_owned(),
            Some(Failure::Closed { by_peer: true, code: NO_ERROR, .. }) => "closed by client".to_owned(),
            Some(Failure::Closed { code, reason, by_peer, .. }) => {
                format!("closed by {} with code {code:#x} {reason}", if by_peer { "client" } else { "us" })
            }
        };
        EndLine {
            k: "end",
            ecn: session.conn.ecn_report(),
            t_us: timebase.us(now),
            side: Side::Server,
            flow: session.flow,
            conn: session.id,
            bytes: session.bytes,
            // Before the handshake is done quiche's own record has a code of the transport.
            reason: self.gave_way.map_or_else(ended, str::to_owned),
            decisions: session.conn.decisions,
        }
    }
}

/// Result of serving a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The handshake was done for the first time now, and thereby validated the client's address.
    pub validated: bool,
    /// The connection is over.
    pub over: bool,
}

/// All connections.
pub struct Connections {
    // Ordered: the order of sampling and closing must not depend on hashes.
    // Boxed: keys that only grow leave a tree's leaves half empty, and an entry has 9 KB.
    by_id: BTreeMap<u64, Box<Connection>>,
    by_cid: HashMap<Vec<u8>, u64>,
    timers: BTreeSet<(Instant, u64)>,
    touched: Vec<u64>,
    next_id: u64,
    reset: ResetTokens,
    send_memory: SendMemory,
    receive_memory: ReceiveMemory,
}

impl Connections {
    /// None yet. All together may hold so much memory, in bytes, for unacknowledged data, and for received data that
    /// can't be read yet.
    pub fn new(reset: ResetTokens, send_memory_bytes: u64, receive_memory_bytes: u64) -> Self {
        Connections {
            by_id: BTreeMap::new(),
            by_cid: HashMap::new(),
            timers: BTreeSet::new(),
            touched: Vec::new(),
            next_id: 0,
            reset,
            send_memory: SendMemory::new(send_memory_bytes),
            receive_memory: ReceiveMemory::new(receive_memory_bytes),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The ordinal of the next connection.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// When [`Connections::fire_timers`] has something to do.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(t, _)| *t)
    }

    /// Adds a connection, which is then to be served.
    pub fn insert(&mut self, connection: Connection) {
        let id = self.next_id;
        self.next_id += 1;
        for cid in &connection.cids {
            self.by_cid.insert(cid.clone(), id);
        }
        self.by_id.insert(id, Box::new(connection));
        self.touch(id);
    }

    /// The connection that this connection ID leads to, which is then to be served.
    pub fn touch_by_cid(&mut self, cid: &[u8]) -> Option<&mut Connection> {
        let id = *self.by_cid.get(cid)?;
        self.touch(id)
    }

    /// The connection of this ordinal, which is then to be served.
    pub fn touch(&mut self, id: u64) -> Option<&mut Connection> {
        let connection = self.by_id.get_mut(&id)?;
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push(id);
        }
        Some(connection)
    }

    /// Fires the timers that are due; their connections are then to be served.
    pub fn fire_timers(&mut self, now: Instant) {
        while let Some(&(t, id)) = self.timers.first()
            && t <= now
        {
            self.timers.pop_first();
            if let Some(connection) = self.touch(id) {
                connection.timer = None;
                connection.session.conn.on_deadline(now);
                connection.late = connection.handshake_ends.is_some_and(|end| end <= now);
            }
        }
    }

    /// If a connection needs memory for data to send, the one that most stands in its way is closed; it is then to be
    /// served.
    pub fn make_room(&mut self, now: Instant) {
        if !self.send_memory.looks(now) {
            return;
        }
        let mut most = None;
        for (id, connection) in self.by_id.iter_mut().filter(|(_, c)| c.is_open()) {
            connection.share.judge(acked_and_lost_bytes(&connection.session.conn.quic).0, now);
            most = most.max(self.send_memory.in_the_way(&connection.share).map(|bytes| (bytes, *id)));
        }
        if let Some((_, id)) = most
            && let Some(connection) = self.touch(id)
        {
            connection.session.conn.close(EXCESSIVE_LOAD, "what it held was needed for others");
            connection.gave_way = Some("gave way: held memory that others needed");
        }
    }

    /// Notes that a datagram came, for any connection. The memory of many is bounded before more are read.
    pub fn came(&mut self, bytes: usize, now: Instant) {
        if self.receive_memory.came(bytes) {
            self.bound_unread(now);
        }
    }

    /// If unreadable data take too much memory, those connections are closed that are most in the way; they are then to
    /// be served.
    pub fn bound_unread(&mut self, now: Instant) {
        for id in &self.touched {
            if let Some(connection) = self.by_id.get_mut(id) {
                connection.note_unread(&mut self.receive_memory, now);
            }
        }
        self.receive_memory.looked();
        if !self.receive_memory.is_over() {
            return;
        }
        let all = self.by_id.iter().map(|(id, connection)| (*id, &connection.part));
        for id in self.receive_memory.give_way(all, now) {
            let Some(connection) = self.touch(id) else { continue };
            connection.session.give_up(EXCESSIVE_LOAD, "too much that can't be read yet");
            connection.gave_way = Some("gave way: held memory for what can't be read yet");
            let mut part = std::mem::take(&mut connection.part);
            self.receive_memory.gone(&mut part);
        }
    }

    /// The connections that are to be served, in the order they were touched.
    pub fn take_touched(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.touched)
    }

    /// Lets a connection act, sends its packets, and sets its timer anew. `None` if there is no such connection.
    ///
    /// # Errors
    /// No random numbers for connection IDs.
    pub fn serve(
        &mut self,
        id: u64,
        now: Instant,
        scratch: &mut [u8],
        sink: &mut impl PacketSink,
    ) -> Result<Option<Served>, Fault> {
        let Some(connection) = self.by_id.get_mut(&id) else { return Ok(None) };
        connection.touched = false;
        // Acknowledged data frees memory.
        connection.note_held(&mut self.send_memory, now);
        connection.session.conn.allowance = self.send_memory.allowance(&connection.share);
        connection.session.advance(now, scratch);
        connection.note_unread(&mut self.receive_memory, now);
        let (by_cid, cids, reset) = (&mut self.by_cid, &mut connection.cids, &self.reset);
        connection.session.exchange_cids(
            || {
                let cid = new_cid()?;
                let token = reset.token(&cid)?;
                Ok::<_, Fault>((cid, token))
            },
            |change| match change {
                CidChange::Issued(cid) => {
                    by_cid.insert(cid.to_vec(), id);
                    cids.push(cid.to_vec());
                }
                CidChange::Retired(cid) => {
                    by_cid.remove(cid.as_ref());
                    cids.retain(|c| c[..] != *cid.as_ref());
                }
            },
        )?;
        connection.session.conn.pump(now, sink);
        connection.note_held(&mut self.send_memory, now);
        let mut validated = false;
        if connection.session.conn.quic.is_established() {
            connection.handshake_ends = None;
            connection.late = false;
            validated = !std::mem::replace(&mut connection.validated, true);
        }
        let over = connection.session.conn.quic.is_closed() || connection.late || connection.gave_way.is_some();
        self.set_timer(id);
        Ok(Some(Served { validated, over }))
    }

    /// Lets a connection's congestion control decide; to be called once its packets have left.
    pub fn decide(&mut self, id: u64, now: Instant) -> Option<(Decision, &mut Connection)> {
        let conn = &mut self.by_id.get_mut(&id)?.session.conn;
        if !conn.is_to_decide() {
            return None;
        }
        let decision = conn.decide(now);
        // It may have a window that is to be used at once, also if it records no decisions.
        self.set_timer(id);
        Some((decision?, self.get_mut(id)?))
    }

    fn set_timer(&mut self, id: u64) {
        let Some(connection) = self.by_id.get_mut(&id) else { return };
        let timer = connection.next_timer();
        if timer != connection.timer {
            connection.timer.map(|t| self.timers.remove(&(t, id)));
            timer.map(|t| self.timers.insert((t, id)));
            connection.timer = timer;
        }
    }

    /// The connection of this ordinal.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Connection> {
        self.by_id.get_mut(&id).map(Box::as_mut)
    }

    /// All of them, in the order they began.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.by_id.values_mut().map(Box::as_mut)
    }

    /// Takes a connection out, with its timer and its connection IDs.
    pub fn remove(&mut self, id: u64) -> Option<Connection> {
        let mut connection = self.by_id.remove(&id)?;
        self.send_memory.gone(&connection.share);
        self.receive_memory.gone(&mut connection.part);
        connection.timer.map(|t| self.timers.remove(&(t, id)));
        for cid in &connection.cids {
            self.by_cid.remove(cid);
        }
        Some(*connection)
    }

    /// Closes all of them; they are then to be served.
    pub fn close_all(&mut self) {
        self.close_those(|_| true);
    }

    fn close_those(&mut self, mut wanted: impl FnMut(&mut Connection) -> bool) {
        for (id, connection) in &mut self.by_id {
            if !connection.has_closed() && wanted(connection) {
                connection.session.conn.close(NO_ERROR, "server going away");
                if !std::mem::replace(&mut connection.touched, true) {
                    self.touched.push(*id);
                }
            }
        }
    }

    /// No connection takes any more requests; all are then to be served.
    pub fn go_away(&mut self) {
        for (id, connection) in &mut self.by_id {
            connection.session.go_away();
            if !std::mem::replace(&mut connection.touched, true) {
                self.touched.push(*id);
            }
        }
    }

    /// After [`Connections::go_away`]: closes those that have nothing left to send. A client has the time of a probe
    /// timeout (RFC 9002 6.2.1) to learn that it is to send no more requests. Returns when to call again.
    pub fn close_idle(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.close_those(|connection| {
            if connection.session.has_to_finish() {
                connection.close_at = None;
                return false;
            }
            let path = connection.session.conn.quic.path_stats().find(|p| p.active);
            let wait = path.filter(|_| connection.is_open() && connection.session.may_be_asked());
            let wait = wait.map_or(Duration::ZERO, |p| p.rtt + p.rttvar * 4 + MAX_ACK_DELAY);
            let at = *connection.close_at.get_or_insert(now + wait);
            if at > now {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
            at <= now
        });
        next
    }

    /// Whether every connection has sent its close.
    pub fn have_closed(&self) -> bool {
        self.by_id.values().all(|c| c.has_closed())
    }

    /// Takes all of them out, in the order they began.
    pub fn take_all(&mut self) -> impl Iterator<Item = Connection> + use<> {
        std::mem::take(&mut self.by_id).into_values().map(|c| *c)
    }
}
