// SPDX-License-Identifier: Apache-2.0
//! The publisher's side beside clients that do as they like.

use super::*;
use crate::commands::group::link::Link;
use crate::commands::group::{IDLE, PAYLOAD_BYTES};
use crate::objects::object::keys::GroupKey;
use crate::objects::object::seal::Secret;
use boring::ssl::SslMethod;
use std::time::Duration;
use weir_io::{cert, tls};

pub(super) fn client_config() -> quiche::Config {
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
pub(super) struct Peer {
    socket: UdpSocket,
    pub(super) quic: quiche::Connection,
    config: quiche::Config,
    pub(super) server: Server,
    /// Packets that the client sent.
    sent: Vec<Vec<u8>>,
}

impl Peer {
    /// Of a client that takes one byte of each stream.
    fn new() -> Peer {
        let mut config = client_config();
        config.set_initial_max_stream_data_bidi_local(1);
        Peer::with(LIMITS, config)
    }

    pub(super) fn with(limits: Limits, config: quiche::Config) -> Peer {
        let identity = cert::make(&["localhost".to_owned()]).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let tickets = TicketSecret::draw().unwrap();
        Peer::at(Server::open_with(limits, any, tickets, || tls::server(&identity)).unwrap(), config)
    }

    fn at(server: Server, mut config: quiche::Config) -> Peer {
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
    pub(super) fn until<T>(&mut self, what: &str, mut so: impl FnMut(&mut Peer, Vec<ServerEvent>) -> Option<T>) -> T {
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
    // A client that can't answer a Retry holds nothing.
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
    // A copy of what it sent at first, without Retry.
    peer.server.admission.counts.validated();
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
        // Packets on their way arrive.
        (0..20).for_each(|_| drop(peer.turn()));
        peer.again();
    }
    let before = peer.server.served;
    peer.server.turn(Instant::now()).unwrap();
    assert_eq!((peer.server.connections(), peer.server.served), (10, before));
    // A first packet comes, and is answered; a member gets an answer.
    peer.send();
    (0..100).for_each(|_| peer.server.receive(Instant::now()).unwrap());
    peer.server.turn(Instant::now()).unwrap();
    assert_eq!((peer.server.connections(), peer.server.served), (11, before + 1));
    assert!(peer.server.deadline().is_some_and(|at| at <= Instant::now() + IDLE));
}

/// A ticket of a server with these keys, and the first flight of a client that comes with it to another one.
fn flight_to(other: &mut Server, peer: &mut Peer) -> Vec<Vec<u8>> {
    peer.until("a ticket comes", |p, _| p.quic.session().map(drop));
    let ticket = peer.quic.session().unwrap().to_vec();
    (peer.socket, peer.quic) = connect(&mut peer.config, other.local());
    peer.sent.clear();
    peer.quic.set_session(&ticket).unwrap();
    peer.quic.stream_send(0, b"{\"get\":\"/a\"}\n", false).unwrap();
    let mut buffer = [0; PAYLOAD_BYTES];
    let mut flight = Vec::new();
    while let Ok((n, _)) = peer.quic.send(&mut buffer) {
        flight.push(buffer[..n].to_vec());
    }
    flight
}

#[test]
fn a_copy_of_a_first_flight_falls_silent_and_does_not_say_that_its_member_leaves() {
    let identity = cert::make(&["localhost".to_owned()]).unwrap();
    let tickets = TicketSecret::draw().unwrap();
    let open = || Server::open("127.0.0.1:0".parse().unwrap(), tickets, || tls::server(&identity)).unwrap();
    let mut peer = Peer::at(open(), client_config());
    let mut other = open();
    // Else the test takes 20 s.
    other.config.set_max_idle_timeout(50);
    other.config.set_initial_rtt(Duration::from_millis(1));
    let flight = flight_to(&mut other, &mut peer);
    let mut events = Vec::new();
    for _ in 0..3 {
        for bytes in &flight {
            let stranger = "127.0.0.3:9".parse().unwrap();
            other.datagram(&mut bytes.clone(), stranger, Instant::now()).unwrap();
        }
        events.extend(other.turn(Instant::now()).unwrap());
    }
    assert_eq!((other.counts.early_data, other.connections()), (1, 1));
    let [ServerEvent::Get(member, ..)] = events[..] else { panic!("{events:?}") };
    let mut left = Vec::new();
    while let Some(at) = other.deadline() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        left.extend(other.turn(Instant::now()).unwrap());
    }
    // A member keeps its other streams.
    assert!(matches!(left[..], [ServerEvent::Left(who, Leave::Silent)] if who == member), "{left:?}");
    assert_eq!((other.counts.silent, other.connections()), (1, 0));
}

#[test]
fn a_client_that_rejects_the_certificate_names_the_options_that_help() {
    let mut peer = Peer::with(LIMITS, client_config());
    let mut config = client_config();
    config.verify_peer(true);
    let mut link = Link::open(peer.server.local(), Some("localhost"), None, &mut config, Instant::now()).unwrap();
    for _ in 0..2000 {
        link.turn(Instant::now(), &mut |_, _| ()).unwrap();
        if link.is_dead(Instant::now(), usize::MAX) {
            break;
        }
        peer.turn();
    }
    let fault = link.failure();
    assert_eq!(fault.code, 4, "{fault}");
    assert!(fault.text.contains("--ca FILE") && fault.text.contains("--insecure"), "{fault}");
}
