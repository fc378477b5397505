// SPDX-License-Identifier: Apache-2.0
//! The publisher's side: connections, and members, of which each has a stream.

use super::early::{Flights, Fresh};
use super::tickets::TicketSecret;
use super::{CID_BYTES, Outgoing, config, random, receive, send, spare_ids};
use crate::names::Name;
use crate::objects::object::lines::{Answer, Lines, MOST_REQUEST_BYTES, Request};
use boring::ssl::SslContextBuilder;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;
use weir_core::server::admission::LEAST_INITIAL_BYTES;
use weir_io::fault::Fault;

/// Connections at once.
const MOST_CONNECTIONS: usize = 4096;
/// Of these, of one address.
const MOST_PER_ADDRESS: usize = 512;
/// What may wait for the members of a connection that do not read, in bytes; then they are members no longer.
const MOST_WAITING_BYTES: usize = 1 << 18;

/// A member: its connection and its stream.
pub type MemberId = (u64, u64);

/// What subscribers did.
#[derive(Debug)]
pub enum ServerEvent {
    /// One wants to be a member of this object's group.
    Get(MemberId, Name, Request),
    /// One has left, or its connection is over.
    Left(MemberId, Leave),
}

/// How a member's stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The member said so, or did what ends a connection.
    Said,
    /// Nothing was heard for too long: it may have moved, and be here on another connection.
    Silent,
}

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ServerCounts {
    /// Connections whose subscriber came to have another address.
    pub migrated: u64,
    /// Connections that are over because nothing was heard.
    pub silent: u64,
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
    /// What the client called it in its first flight.
    first: Vec<u8>,
    from: SocketAddr,
    streams: BTreeMap<u64, Stream>,
    /// It brought early data, which was taken.
    early: bool,
    /// The handshake is done, and was counted.
    up: bool,
}

struct Stream {
    lines: Lines,
    out: Outgoing,
    /// It has asked.
    asked: bool,
}

/// All connections, on one socket.
pub struct Server {
    socket: UdpSocket,
    local: SocketAddr,
    config: quiche::Config,
    /// The same without early data.
    late: quiche::Config,
    flights: Flights,
    connections: BTreeMap<u64, Connection>,
    by_cid: HashMap<Vec<u8>, u64>,
    next: u64,
    /// What happened so far.
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
            connections: BTreeMap::new(),
            by_cid: HashMap::new(),
            next: 0,
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

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// When a timer of a connection is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.connections.values().filter_map(|c| c.quic.timeout_instant()).min()
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
        if let Some(connection) = self.by_cid.get(header.dcid.as_ref()).and_then(|id| self.connections.get_mut(id)) {
            // After an error quiche closes the connection.
            let _ = connection.quic.recv(bytes, info);
            connection.note_early(&mut self.flights, &mut self.counts, now);
            return Ok(());
        }
        let first = header.ty == quiche::Type::Initial && bytes.len() >= LEAST_INITIAL_BYTES;
        let of_address = self.connections.values().filter(|c| c.from.ip() == from.ip()).count();
        if !first || self.connections.len() >= MOST_CONNECTIONS || of_address >= MOST_PER_ADDRESS {
            return Ok(());
        }
        if !quiche::version_is_supported(header.version) {
            let mut reply = [0; 256];
            if let Ok(n) = quiche::negotiate_version(&header.scid, &header.dcid, &mut reply) {
                let _ = self.socket.send_to(&reply[..n], from);
            }
            return Ok(());
        }
        let scid = random::<CID_BYTES>()?;
        let cid = quiche::ConnectionId::from_ref(&scid);
        let fresh = self.flights.fresh(&header.dcid, now);
        self.counts.replays += u64::from(fresh == Fresh::No);
        self.counts.early_refused += u64::from(fresh == Fresh::Unknown);
        let config = if fresh == Fresh::Yes { &mut self.config } else { &mut self.late };
        let Ok(mut quic) = quiche::accept(&cid, None, self.local, from, config) else { return Ok(()) };
        let cids = vec![header.dcid.to_vec(), scid.to_vec()];
        if quic.recv(bytes, info).is_err() {
            return Ok(());
        }
        let id = self.next;
        self.next += 1;
        for cid in &cids {
            self.by_cid.insert(cid.clone(), id);
        }
        let first = header.dcid.to_vec();
        let mut connection = Connection { quic, cids, first, from, streams: BTreeMap::new(), early: false, up: false };
        connection.note_early(&mut self.flights, &mut self.counts, now);
        self.connections.insert(id, connection);
        Ok(())
    }

    /// Reads what arrived, sends what waits, and says what happened.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn turn(&mut self, now: Instant) -> Result<Vec<ServerEvent>, Fault> {
        let mut events = Vec::new();
        for (id, connection) in &mut self.connections {
            if connection.quic.timeout_instant().is_some_and(|t| t <= now) {
                connection.quic.on_timeout();
            }
            if connection.quic.is_established() && !std::mem::replace(&mut connection.up, true) {
                self.counts.resumed += u64::from(connection.quic.is_resumed());
            }
            for cid in spare_ids(&mut connection.quic)? {
                self.by_cid.insert(cid.clone(), *id);
                connection.cids.push(cid);
            }
            while let Some(cid) = connection.quic.retired_scid_next() {
                self.by_cid.remove(cid.as_ref());
                connection.cids.retain(|c| c[..] != *cid.as_ref());
            }
            while let Some(event) = connection.quic.path_event_next() {
                if let quiche::PathEvent::PeerMigrated(_, from) = event {
                    connection.from = from;
                    self.counts.migrated += 1;
                }
            }
            connection.read(*id, &mut events);
            connection.write(*id, &mut events);
            send(&self.socket, &mut connection.quic);
        }
        let over: Vec<_> = self.connections.iter().filter(|(_, c)| c.quic.is_closed()).map(|(id, _)| *id).collect();
        for id in over {
            let Some(connection) = self.connections.remove(&id) else { continue };
            for cid in &connection.cids {
                self.by_cid.remove(cid);
            }
            let how = if connection.quic.is_timed_out() { Leave::Silent } else { Leave::Said };
            self.counts.silent += u64::from(how == Leave::Silent);
            let asked = connection.streams.iter().filter(|(_, s)| s.asked);
            events.extend(asked.map(|(stream, _)| ServerEvent::Left((id, *stream), how)));
        }
        Ok(events)
    }

    /// Tells a member something; it is sent at the next turn.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn tell(&mut self, member: MemberId, answer: &Answer) -> Result<(), Fault> {
        let line = answer.line().map_err(Fault::internal("JSON"))?;
        let Some(connection) = self.connections.get_mut(&member.0) else { return Ok(()) };
        let Some(stream) = connection.streams.get_mut(&member.1) else { return Ok(()) };
        stream.out.bytes.extend(line.as_bytes());
        if matches!(answer, Answer::Error(_)) {
            stream.out.fin = true;
        }
        if connection.waiting_bytes() > MOST_WAITING_BYTES {
            let _ = connection.quic.close(true, 1, b"too slow for what it asked for");
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

impl Connection {
    /// Remembers that this connection's first flight was taken with early data, as soon as it is.
    fn note_early(&mut self, flights: &mut Flights, counts: &mut ServerCounts, now: Instant) {
        if !self.early && self.quic.is_in_early_data() {
            self.early = true;
            counts.early_data += 1;
            flights.taken(&self.first, now);
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
            });
            loop {
                let (n, fin) = match self.quic.stream_recv(number, &mut buffer) {
                    Ok(read) => read,
                    Err(quiche::Error::Done) => break,
                    // It was reset: that is leaving too.
                    Err(_) => (0, true),
                };
                let mut requests = Vec::new();
                let read = stream.lines.push(&buffer[..n], |line| requests.push(Request::parse(line)));
                if read.is_err()
                    || requests.iter().any(Result::is_err)
                    || requests.len() + usize::from(stream.asked) > 1
                {
                    let _ = self.quic.close(true, 2, b"expected one line: {\"get\": NAME}");
                    return;
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
                        events.push(ServerEvent::Left((id, number), Leave::Said));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::object::keys::GroupKey;
    use crate::objects::object::seal::Secret;
    use boring::ssl::SslMethod;
    use std::time::Duration;
    use weir_io::{cert, tls};

    /// A connection to a server, and what the server says of it.
    struct Peer {
        socket: UdpSocket,
        quic: quiche::Connection,
        server: Server,
    }

    impl Peer {
        /// Of a client that takes one byte of each stream.
        fn new() -> Peer {
            let identity = cert::make(&["localhost".to_owned()]).unwrap();
            let any = "127.0.0.1:0".parse().unwrap();
            let server = Server::open(any, TicketSecret::draw().unwrap(), || tls::server(&identity)).unwrap();
            let mut config = config(SslContextBuilder::new(SslMethod::tls()).unwrap()).unwrap();
            config.verify_peer(false);
            config.set_initial_max_stream_data_bidi_local(1);
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            let cid = quiche::ConnectionId::from_ref(&[7; CID_BYTES]);
            let (local, to) = (socket.local_addr().unwrap(), server.local());
            let quic = quiche::connect(Some("localhost"), &cid, local, to, &mut config).unwrap();
            Peer { socket, quic, server }
        }

        /// Both sides say what they have to say.
        fn turn(&mut self) -> Vec<ServerEvent> {
            send(&self.socket, &mut self.quic);
            let now = Instant::now();
            self.server.receive(now).unwrap();
            let events = self.server.turn(now).unwrap();
            let mut buffer = [0; 2000];
            while let Ok((n, from)) = self.socket.recv_from(&mut buffer) {
                let to = self.socket.local_addr().unwrap();
                let _ = self.quic.recv(&mut buffer[..n], quiche::RecvInfo { from, to });
            }
            events
        }

        /// Turns until something is so.
        fn until<T>(&mut self, what: &str, mut so: impl FnMut(&mut Peer, Vec<ServerEvent>) -> Option<T>) -> T {
            let mut found = None;
            for _ in 0..2000 {
                let events = self.turn();
                found = so(self, events);
                if found.is_some() {
                    break;
                }
            }
            found.unwrap_or_else(|| panic!("never: {what}"))
        }
    }

    #[test]
    fn what_nobody_reads_any_longer_is_dropped() {
        let mut peer = Peer::new();
        let key = |epoch| GroupKey { epoch, first_segment: 0, secret: Secret([7; 32]) };
        let answer = Answer::Keys((1..=64).map(key).collect());
        for stream in (0..400).step_by(4) {
            peer.until("a stream is to be had", |p, _| p.quic.stream_send(stream, b"{\"get\":\"/a\"}\n", false).ok());
            let member = peer.until("it asks", |_, events| match events.into_iter().next() {
                Some(ServerEvent::Get(member, ..)) => Some(member),
                _ => None,
            });
            peer.server.tell(member, &answer).unwrap();
            peer.until("the answer begins", |p, _| p.quic.stream_recv(stream, &mut [0; 1]).ok());
            peer.quic.stream_shutdown(stream, quiche::Shutdown::Read, 0).unwrap();
            peer.quic.stream_send(stream, b"", true).unwrap();
            let left = |event: &ServerEvent| matches!(event, ServerEvent::Left(who, Leave::Said) if *who == member);
            peer.until("it has left", |_, events| events.iter().any(left).then_some(()));
        }
        (0..20).for_each(|_| drop(peer.turn()));
        let connection = peer.server.connections.values().next().unwrap();
        assert_eq!((connection.streams.len(), connection.waiting_bytes()), (0, 0));
    }
}
