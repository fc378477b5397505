// SPDX-License-Identifier: Apache-2.0
//! The publisher's side: connections, and members, of which each has a stream.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;

use super::admission::{AdmissionControl, Entry, LIMITS};
use super::early::{Flights, Fresh};
use super::tickets::TicketSecret;
use super::{CID_BYTES, FAULT, Outgoing, SILENT, SLOW, config, receive, send, spare_ids};
use crate::names::Name;
use crate::objects::object::lines::{Answer, Lines, MOST_REQUEST_BYTES, Request};
use boring::ssl::SslContextBuilder;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;
use weir_core::server::admission::{LEAST_INITIAL_BYTES, Limits, Source};
use weir_io::fault::Fault;
use weir_io::random;

/// Limit of unsent bytes for members of a connection that do not read; above it the member with the most unsent bytes is
/// removed.
const MOST_WAITING_BYTES: usize = 1 << 18;

/// A member: its connection and its stream.
pub type MemberId = (u64, u64);

/// Event of subscribers.
#[derive(Debug)]
pub enum ServerEvent {
    /// One wants to be a member of this object's group.
    Get(MemberId, Name, Request),
    /// One has left, or its connection is over.
    Left(MemberId, Leave),
}

/// Reason of a member's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The member left, or did something that ends a connection.
    Said,
    /// Nothing was heard for too long: it may have moved, and be here on another connection.
    Silent,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ServerCounts {
    /// Connections whose subscriber came to have another address.
    pub migrated: u64,
    /// Connections that are over because nothing was heard.
    pub silent: u64,
    /// First packets whose senders were asked to show that their address is their own.
    pub retries: u64,
    /// Connections whose handshake went on from a ticket.
    pub resumed: u64,
    /// Of these, whose request came with the first packets.
    pub early_data: u64,
    /// First flights that had been taken with early data before: what came early was not taken again.
    pub replays: u64,
    /// First flights whose early data was not taken for want of memory for them.
    pub early_refused: u64,
}

struct Connection {
    quic: quiche::Connection,
    cids: Vec<Vec<u8>>,
    /// Connection IDs that the client chose in its first flight, and in an earlier one that was answered by Retry.
    first: Vec<Vec<u8>>,
    source: Source,
    /// The client's address is its own.
    validated: bool,
    streams: BTreeMap<u64, Stream>,
    /// It brought early data, which was taken.
    early: bool,
    /// The handshake is done, and was counted.
    up: bool,
    /// Entry in the server's timers.
    timer: Option<Instant>,
}

struct Stream {
    lines: Lines,
    out: Outgoing,
    /// It has asked.
    asked: bool,
    /// It broke the protocol, or does not read: nothing is read from it any longer.
    fault: bool,
}

/// All connections, on one socket.
pub struct Server {
    socket: UdpSocket,
    local: SocketAddr,
    config: quiche::Config,
    /// The same without early data.
    late: quiche::Config,
    flights: Flights,
    admission: AdmissionControl,
    connections: BTreeMap<u64, Connection>,
    by_cid: HashMap<Vec<u8>, u64>,
    /// Those to which something happened since they were served.
    touched: BTreeSet<u64>,
    timers: BTreeSet<(Instant, u64)>,
    next: u64,
    #[cfg(test)]
    served: usize,
    /// Counters so far.
    pub counts: ServerCounts,
}

impl Server {
    /// Listens. `ctx` has the certificate; tickets are made with the keys of `tickets`.
    ///
    /// # Errors
    /// The address can't be bound.
    pub fn open(
        listen: SocketAddr,
        tickets: TicketSecret,
        ctx: impl Fn() -> Result<SslContextBuilder, Fault>,
    ) -> Result<Server, Fault> {
        Server::open_with(LIMITS, listen, tickets, ctx)
    }

    fn open_with(
        limits: Limits,
        listen: SocketAddr,
        tickets: TicketSecret,
        ctx: impl Fn() -> Result<SslContextBuilder, Fault>,
    ) -> Result<Server, Fault> {
        let at = |e| Fault::io(format!("--listen {listen}"))(e);
        let socket = UdpSocket::bind(listen).map_err(at)?;
        socket.set_nonblocking(true).map_err(at)?;
        let local = socket.local_addr().map_err(at)?;
        let make = || {
            let mut ctx = ctx()?;
            tickets.apply(&mut ctx);
            config(ctx)
        };
        let (mut config, late) = (make()?, make()?);
        config.enable_early_data();
        Ok(Server {
            socket,
            local,
            config,
            late,
            flights: Flights::default(),
            admission: AdmissionControl::new(limits, Instant::now())?,
            connections: BTreeMap::new(),
            by_cid: HashMap::new(),
            touched: BTreeSet::new(),
            timers: BTreeSet::new(),
            next: 0,
            #[cfg(test)]
            served: 0,
            counts: ServerCounts::default(),
        })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Where a member is, as far as members are counted. `None`: its connection is over.
    pub fn source(&self, member: MemberId) -> Option<Source> {
        self.connections.get(&member.0).map(|c| c.source)
    }

    /// When [`Server::turn`] is next of use although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        // Answers since the last iteration wait to be sent.
        if self.touched.is_empty() { self.timers.first().map(|(at, _)| *at) } else { Some(Instant::now()) }
    }

    /// Takes in what waits at the socket.
    ///
    /// # Errors
    /// The socket fails, or there are no random numbers.
    pub fn receive(&mut self, now: Instant) -> Result<(), Fault> {
        let mut datagrams = Vec::new();
        receive(&self.socket, |bytes, from| datagrams.push((bytes.to_vec(), from)))?;
        for (mut bytes, from) in datagrams {
            self.datagram(&mut bytes, from, now)?;
        }
        Ok(())
    }

    fn datagram(&mut self, bytes: &mut [u8], from: SocketAddr, now: Instant) -> Result<(), Fault> {
        let Ok(header) = quiche::Header::from_slice(bytes, CID_BYTES) else { return Ok(()) };
        let info = quiche::RecvInfo { from, to: self.local };
        if let Some(id) = self.by_cid.get(header.dcid.as_ref()).copied()
            && let Some(connection) = self.connections.get_mut(&id)
        {
            // After an error quiche closes the connection.
            let _ = connection.quic.recv(bytes, info);
            connection.note_early(&mut self.flights, &mut self.counts, now);
            self.touched.insert(id);
            return Ok(());
        }
        if header.ty != quiche::Type::Initial || bytes.len() < LEAST_INITIAL_BYTES {
            return Ok(());
        }
        if !quiche::version_is_supported(header.version) {
            let mut reply = [0; 256];
            if let Ok(n) = quiche::negotiate_version(&header.scid, &header.dcid, &mut reply) {
                let _ = self.socket.send_to(&reply[..n], from);
            }
            return Ok(());
        }
        let entrant = match self.admission.judge(&header, from, now)? {
            Entry::Begin(entrant) => entrant,
            Entry::Answer(packet) => {
                self.counts.retries += 1;
                let _ = self.socket.send_to(&packet, from);
                return Ok(());
            }
            Entry::Nothing => return Ok(()),
        };
        let scid = random::bytes::<CID_BYTES>()?;
        let cid = quiche::ConnectionId::from_ref(&scid);
        // Early data that came before a Retry may be sent again under the ID that it had then.
        let first: Vec<_> =
            [Some(&header.dcid), entrant.original.as_ref()].into_iter().flatten().map(|id| id.to_vec()).collect();
        let fresh = self.flights.all_fresh(&first, now);
        self.counts.replays += u64::from(fresh == Fresh::No);
        self.counts.early_refused += u64::from(fresh == Fresh::Unknown);
        let config = if fresh == Fresh::Yes { &mut self.config } else { &mut self.late };
        let accepted = match &entrant.original {
            Some(original) => {
                let ids =
                    quiche::RetryConnectionIds { original_destination_cid: original, retry_source_cid: &header.dcid };
                quiche::accept_with_retry(&cid, ids, self.local, from, config)
            }
            None => quiche::accept(&cid, None, self.local, from, config),
        };
        let Ok(mut quic) = accepted else { return Ok(()) };
        let cids = vec![header.dcid.to_vec(), scid.to_vec()];
        if quic.recv(bytes, info).is_err() {
            return Ok(());
        }
        let id = self.next;
        self.next += 1;
        for cid in &cids {
            self.by_cid.insert(cid.clone(), id);
        }
        let validated = entrant.original.is_some();
        self.admission.counts.opened(entrant.source, validated);
        let mut connection = Connection {
            quic,
            cids,
            first,
            source: entrant.source,
            validated,
            streams: BTreeMap::new(),
            early: false,
            up: false,
            timer: None,
        };
        connection.note_early(&mut self.flights, &mut self.counts, now);
        self.connections.insert(id, connection);
        self.touched.insert(id);
        Ok(())
    }

    /// Reads what arrived, sends what waits, and returns the events. Serves only connections to which something
    /// happened, or whose timer is due.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn turn(&mut self, now: Instant) -> Result<Vec<ServerEvent>, Fault> {
        let mut events = Vec::new();
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.timer = None;
                self.touched.insert(id);
            }
        }
        for id in std::mem::take(&mut self.touched) {
            self.serve(id, now, &mut events)?;
        }
        Ok(events)
    }

    fn serve(&mut self, id: u64, now: Instant, events: &mut Vec<ServerEvent>) -> Result<(), Fault> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        #[cfg(test)]
        {
            self.served += 1;
        }
        if connection.quic.timeout_instant().is_some_and(|t| t <= now) {
            connection.quic.on_timeout();
        }
        if connection.quic.is_established() && !std::mem::replace(&mut connection.up, true) {
            self.counts.resumed += u64::from(connection.quic.is_resumed());
            if !std::mem::replace(&mut connection.validated, true) {
                self.admission.counts.validated();
            }
        }
        for cid in spare_ids(&mut connection.quic)? {
            self.by_cid.insert(cid.clone(), id);
            connection.cids.push(cid);
        }
        while let Some(cid) = connection.quic.retired_scid_next() {
            self.by_cid.remove(cid.as_ref());
            connection.cids.retain(|c| c[..] != *cid.as_ref());
        }
        while let Some(event) = connection.quic.path_event_next() {
            if let quiche::PathEvent::PeerMigrated(_, from) = event {
                self.counts.migrated += 1;
                let source = std::mem::replace(&mut connection.source, from.ip().into());
                self.admission.counts.closed(source, connection.validated);
                self.admission.counts.opened(connection.source, connection.validated);
            }
        }
        connection.read(id, events);
        connection.write(id, events);
        send(&self.socket, &mut connection.quic);
        let timer = connection.quic.timeout_instant();
        if connection.timer != timer {
            if let Some(at) = std::mem::replace(&mut connection.timer, timer) {
                self.timers.remove(&(at, id));
            }
            self.timers.extend(timer.map(|at| (at, id)));
        }
        if connection.quic.is_closed() {
            self.remove(id, events);
        }
        Ok(())
    }

    /// A connection is over.
    fn remove(&mut self, id: u64, events: &mut Vec<ServerEvent>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for cid in &connection.cids {
            self.by_cid.remove(cid);
        }
        if let Some(at) = connection.timer {
            self.timers.remove(&(at, id));
        }
        self.admission.counts.closed(connection.source, connection.validated);
        let how = if connection.quic.is_timed_out() { Leave::Silent } else { Leave::Said };
        self.counts.silent += u64::from(how == Leave::Silent);
        let asked = connection.streams.iter().filter(|(_, s)| s.asked);
        events.extend(asked.map(|(stream, _)| ServerEvent::Left((id, *stream), how)));
    }

    /// Sends a member an answer, in the next iteration.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn tell(&mut self, member: MemberId, answer: &Answer) -> Result<(), Fault> {
        let line = answer.line().map_err(Fault::internal("JSON"))?;
        let Some(connection) = self.connections.get_mut(&member.0) else { return Ok(()) };
        let Some(stream) = connection.streams.get_mut(&member.1) else { return Ok(()) };
        stream.out.bytes.extend(line.as_bytes());
        self.touched.insert(member.0);
        if matches!(answer, Answer::Error(_)) {
            stream.out.fin = true;
        }
        while connection.waiting_bytes() > MOST_WAITING_BYTES {
            let most = connection.streams.iter_mut().max_by_key(|(_, stream)| stream.out.bytes.len());
            let Some((number, stream)) = most else { break };
            stream.out = Outgoing::default();
            stream.fault = true;
            for side in [quiche::Shutdown::Write, quiche::Shutdown::Read] {
                let _ = connection.quic.stream_shutdown(*number, side, SLOW);
            }
        }
        Ok(())
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        for connection in self.connections.values_mut() {
            let _ = connection.quic.close(true, 0, b"the publisher ends");
            send(&self.socket, &mut connection.quic);
        }
    }
}

impl Stream {
    /// It broke the protocol: the last that it gets is an error.
    fn fail(&mut self, why: &str) {
        self.fault = true;
        self.out.bytes.extend(Answer::Error(why.to_owned()).line().unwrap_or_default().into_bytes());
        self.out.fin = true;
    }
}

impl Connection {
    /// Remembers that this connection's first flight was taken with early data, as soon as it is.
    fn note_early(&mut self, flights: &mut Flights, counts: &mut ServerCounts, now: Instant) {
        if !self.early && self.quic.is_in_early_data() {
            self.early = true;
            counts.early_data += 1;
            self.first.iter().for_each(|id| flights.taken(id, now));
        }
    }

    fn read(&mut self, id: u64, events: &mut Vec<ServerEvent>) {
        let mut buffer = [0; 4096];
        let readable: Vec<u64> = self.quic.readable().collect();
        for number in readable {
            if number != 0 && !self.quic.is_established() {
                // One line is what may be early.
                continue;
            }
            let stream = self.streams.entry(number).or_insert_with(|| Stream {
                lines: Lines::new(MOST_REQUEST_BYTES),
                out: Outgoing::default(),
                asked: false,
                fault: false,
            });
            loop {
                let mut how = Leave::Said;
                let (n, fin) = match self.quic.stream_recv(number, &mut buffer) {
                    Ok(read) => read,
                    Err(quiche::Error::Done) => break,
                    Err(e) => {
                        // It was reset: that is leaving too.
                        if e == quiche::Error::StreamReset(SILENT) {
                            how = Leave::Silent;
                        }
                        (0, true)
                    }
                };
                let mut requests = Vec::new();
                let read = stream.lines.push(&buffer[..n], |line| requests.push(Request::parse(line)));
                if read.is_err()
                    || requests.iter().any(Result::is_err)
                    || requests.len() + usize::from(stream.asked) > 1
                {
                    // RFC 9000 11.2: the other streams of the connection may be other subscribers' of an edge server.
                    if std::mem::replace(&mut stream.asked, false) {
                        events.push(ServerEvent::Left((id, number), Leave::Said));
                    }
                    stream.fail("expected one line: {\"get\": NAME}");
                    let _ = self.quic.stream_shutdown(number, quiche::Shutdown::Read, FAULT);
                    break;
                }
                for request in requests.into_iter().flatten() {
                    stream.asked = true;
                    match Name::new(&request.get) {
                        Ok(name) => events.push(ServerEvent::Get((id, number), name, request)),
                        Err(e) => {
                            let line = Answer::Error(e.to_string()).line().unwrap_or_default();
                            stream.out = Outgoing { bytes: line.into_bytes(), fin: true };
                        }
                    }
                }
                if fin {
                    if std::mem::replace(&mut stream.asked, false) {
                        events.push(ServerEvent::Left((id, number), how));
                    }
                    stream.out.fin = true;
                    break;
                }
            }
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.streams.values().map(|s| s.out.bytes.len()).sum()
    }

    fn write(&mut self, id: u64, events: &mut Vec<ServerEvent>) {
        let Connection { quic, streams, .. } = self;
        streams.retain(|number, stream| {
            if stream.fault && stream.asked {
                stream.asked = false;
                events.push(ServerEvent::Left((id, *number), Leave::Said));
            }
            stream.out.write(quic, *number);
            let waits = !stream.out.bytes.is_empty() || stream.out.fin;
            if waits && quic.stream_capacity(*number).is_err() {
                // It does not read any longer, which is leaving; QUIC may have forgotten the stream.
                if stream.asked {
                    events.push(ServerEvent::Left((id, *number), Leave::Said));
                }
                return false;
            }
            !quic.stream_finished(*number) || !stream.out.bytes.is_empty() || stream.asked
        });
    }
}
