// SPDX-License-Identifier: Apache-2.0
//! The publisher's side: connections, and members, of which each has a stream.

use super::door::{Door, Entry, LIMITS};
use super::early::{Flights, Fresh};
use super::tickets::TicketSecret;
use super::{CID_BYTES, Outgoing, SILENT, config, receive, send, spare_ids};
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
    /// What the client called it in its first flight, and in an earlier one that was answered by Retry.
    first: Vec<Vec<u8>>,
    source: Source,
    /// The client's address is its own.
    validated: bool,
    streams: BTreeMap<u64, Stream>,
    /// It brought early data, which was taken.
    early: bool,
    /// The handshake is done, and was counted.
    up: bool,
    /// What the server knows of its timer.
    timer: Option<Instant>,
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
    door: Door,
    connections: BTreeMap<u64, Connection>,
    by_cid: HashMap<Vec<u8>, u64>,
    /// Those to which something happened since they were served.
    touched: BTreeSet<u64>,
    timers: BTreeSet<(Instant, u64)>,
    next: u64,
    #[cfg(test)]
    served: usize,
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
            door: Door::new(limits, Instant::now())?,
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

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Where a member is, as far as members are counted. `None`: its connection is over.
    pub fn source(&self, member: MemberId) -> Option<Source> {
        self.connections.get(&member.0).map(|c| c.source)
    }

    /// When [`Server::turn`] is next of use although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        // What was told since the last turn waits to be sent.
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
        let entrant = match self.door.judge(&header, from, now)? {
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
        self.door.admission.opened(entrant.source, validated);
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

    /// Reads what arrived, sends what waits, and says what happened. Looks only at connections to which something happened,
    /// or whose timer is due.
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
                self.door.admission.validated();
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
                self.door.admission.closed(source, connection.validated);
                self.door.admission.opened(connection.source, connection.validated);
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
        self.door.admission.closed(connection.source, connection.validated);
        let how = if connection.quic.is_timed_out() { Leave::Silent } else { Leave::Said };
        self.counts.silent += u64::from(how == Leave::Silent);
        let asked = connection.streams.iter().filter(|(_, s)| s.asked);
        events.extend(asked.map(|(stream, _)| ServerEvent::Left((id, *stream), how)));
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
        self.touched.insert(member.0);
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
    use super::super::PAYLOAD_BYTES;
    use super::*;
    use crate::objects::object::keys::GroupKey;
    use crate::objects::object::seal::Secret;
    use boring::ssl::SslMethod;
    use std::time::Duration;
    use weir_io::{cert, tls};

    fn client_config() -> quiche::Config {
        let mut config = config(SslContextBuilder::new(SslMethod::tls()).unwrap()).unwrap();
        config.verify_peer(false);
        config.enable_early_data();
        config
    }

    fn connect(config: &mut quiche::Config, to: SocketAddr) -> (UdpSocket, quiche::Connection) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let cid = random::bytes::<CID_BYTES>().unwrap();
        let cid = quiche::ConnectionId::from_ref(&cid);
        let quic = quiche::connect(Some("localhost"), &cid, socket.local_addr().unwrap(), to, config).unwrap();
        (socket, quic)
    }

    /// First packets of clients that never answer, each from an address of its own.
    fn forged(peer: &mut Peer, addresses: std::ops::Range<u16>, now: Instant) {
        let mut buffer = [0; PAYLOAD_BYTES];
        for i in addresses {
            let [high, low] = i.to_be_bytes();
            let from = SocketAddr::from(([127, 1, high, low], 9));
            let (_, mut quic) = connect(&mut peer.config, peer.server.local());
            let (n, _) = quic.send(&mut buffer).unwrap();
            peer.server.datagram(&mut buffer[..n], from, now).unwrap();
        }
    }

    /// A connection to a server, and what the server says of it.
    struct Peer {
        socket: UdpSocket,
        quic: quiche::Connection,
        config: quiche::Config,
        server: Server,
        /// What the client sent.
        sent: Vec<Vec<u8>>,
    }

    impl Peer {
        /// Of a client that takes one byte of each stream.
        fn new() -> Peer {
            let mut config = client_config();
            config.set_initial_max_stream_data_bidi_local(1);
            Peer::with(LIMITS, config)
        }

        fn with(limits: Limits, mut config: quiche::Config) -> Peer {
            let identity = cert::make(&["localhost".to_owned()]).unwrap();
            let any = "127.0.0.1:0".parse().unwrap();
            let tickets = TicketSecret::draw().unwrap();
            let server = Server::open_with(limits, any, tickets, || tls::server(&identity)).unwrap();
            let (socket, quic) = connect(&mut config, server.local());
            Peer { socket, quic, config, server, sent: Vec::new() }
        }

        /// Another client comes.
        fn again(&mut self) {
            (self.socket, self.quic) = connect(&mut self.config, self.server.local());
            self.sent.clear();
        }

        fn send(&mut self) {
            let mut buffer = [0; PAYLOAD_BYTES];
            while let Ok((n, info)) = self.quic.send(&mut buffer) {
                self.sent.push(buffer[..n].to_vec());
                self.socket.send_to(&buffer[..n], info.to).unwrap();
            }
        }

        /// Both sides say what they have to say.
        fn turn(&mut self) -> Vec<ServerEvent> {
            self.send();
            let now = Instant::now();
            self.server.receive(now).unwrap();
            if self.quic.timeout_instant().is_some_and(|at| at <= now) {
                self.quic.on_timeout();
            }
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

    #[test]
    fn forged_first_packets_hold_no_places() {
        let mut peer = Peer::with(LIMITS, client_config());
        let now = Instant::now();
        forged(&mut peer, 0..LIMITS.retry_above as u16 + 100, now);
        // Who can't answer a Retry holds nothing.
        assert_eq!((peer.server.connections(), peer.server.counts.retries), (LIMITS.retry_above as usize, 100));
        peer.until("a client whose address is its own gets in", |p, _| p.quic.is_established().then_some(()));
        peer.until("the server knows it", |p, _| p.server.connections.values().any(|c| c.up).then_some(()));
        // Its first flight may be more than one packet.
        assert!(peer.server.counts.retries > 100 && peer.server.connections() == LIMITS.retry_above as usize + 1);
        assert_eq!(peer.server.by_cid.len(), peer.server.connections.values().map(|c| c.cids.len()).sum::<usize>());
    }

    #[test]
    fn who_is_asked_to_come_again_depends_on_handshakes_that_are_unfinished() {
        let mut peer = Peer::with(Limits { retry_above: 1, ..LIMITS }, client_config());
        peer.until("the server knows it", |p, _| p.server.connections.values().any(|c| c.up).then_some(()));
        assert_eq!(peer.server.counts.retries, 0);
        let later = Instant::now() + Duration::from_secs(5);
        forged(&mut peer, 0..1, later);
        assert_eq!((peer.server.connections(), peer.server.counts.retries), (2, 0));
        forged(&mut peer, 1..2, later + Duration::from_secs(5));
        assert_eq!((peer.server.connections(), peer.server.counts.retries), (2, 1));
    }

    #[test]
    fn what_was_early_before_a_retry_is_not_early_again() {
        let mut peer = Peer::with(Limits { retry_above: 1, ..LIMITS }, client_config());
        peer.until("a ticket comes", |p, _| p.quic.session().map(drop));
        let ticket = peer.quic.session().unwrap().to_vec();
        peer.again();
        peer.quic.set_session(&ticket).unwrap();
        // Another one makes it busy.
        let now = Instant::now() + Duration::from_secs(5);
        forged(&mut peer, 1..2, now);
        peer.send();
        peer.quic.stream_send(0, b"{\"get\":\"/a\"}\n", false).unwrap();
        peer.send();
        let flight = peer.sent.clone();
        let before = peer.server.counts.retries;
        let asked = peer.until("it asks", |_, events| {
            events.into_iter().find_map(|event| match event {
                ServerEvent::Get(member, ..) => Some(member),
                ServerEvent::Left(..) => None,
            })
        });
        assert!(peer.server.counts.retries > before && peer.server.connections[&asked.0].first.len() == 2);
        peer.until("its handshake is done", |p, _| p.server.connections[&asked.0].up.then_some(()));
        assert_eq!((peer.server.counts.early_data, peer.server.counts.resumed), (1, 1));
        // A copy of what it sent at first, when nobody is asked to come again.
        peer.server.door.admission.validated();
        let (later, replays) = (Instant::now() + Duration::from_secs(10), peer.server.counts.replays);
        for mut bytes in flight {
            peer.server.datagram(&mut bytes, "127.0.0.3:9".parse().unwrap(), later).unwrap();
        }
        assert_eq!((peer.server.counts.replays - replays, peer.server.counts.early_data), (1, 1));
    }

    #[test]
    fn a_turn_looks_only_at_those_to_which_something_happened() {
        let mut peer = Peer::with(LIMITS, client_config());
        for _ in 0..10 {
            peer.until("it is up", |p, _| p.quic.is_established().then_some(()));
            // What is still on its way arrives.
            (0..20).for_each(|_| drop(peer.turn()));
            peer.again();
        }
        let before = peer.server.served;
        peer.server.turn(Instant::now()).unwrap();
        assert_eq!((peer.server.connections(), peer.server.served), (10, before));
        // A first packet comes, and is answered; a member is told something.
        peer.send();
        (0..100).for_each(|_| peer.server.receive(Instant::now()).unwrap());
        peer.server.turn(Instant::now()).unwrap();
        assert_eq!((peer.server.connections(), peer.server.served), (11, before + 1));
        assert!(peer.server.deadline().is_some_and(|at| at <= Instant::now() + super::super::IDLE));
    }
}
