// SPDX-License-Identifier: Apache-2.0
//! Faults of one stream, and servers that close connections or never answer.

use super::tests::Peer;
use super::*;
use crate::commands::group::{Client, ClientEvent, Target, Trust};
use crate::objects::object::keys::GroupKey;
use crate::objects::object::seal::Secret;
use std::collections::HashMap;
use std::time::Duration;
use weir_io::{cert, tls};

/// Turns without a datagram before a test's clock goes on to the client's next deadline.
const IDLE_TURNS: u32 = 20;

fn keys(epoch: u16) -> Answer {
    Answer::Keys(vec![GroupKey { epoch, first_segment: 0, secret: Secret([7; 32]) }])
}

/// Whole streams of the client, until the server has ended `stream`: its bytes.
fn read_to_end(peer: &mut Peer, stream: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    peer.until("the stream ends", |p, _| {
        let mut buffer = [0; 2000];
        while let Ok((n, fin)) = p.quic.stream_recv(stream, &mut buffer) {
            bytes.extend(&buffer[..n]);
            if fin {
                return Some(());
            }
        }
        None
    });
    bytes
}

#[test]
fn a_fault_of_one_stream_ends_that_stream_alone() {
    let mut peer = Peer::with(LIMITS, super::tests::client_config());
    peer.until("it is up", |p, _| p.quic.is_established().then_some(()));
    peer.quic.stream_send(0, b"{\"get\":\"/a\"}\n", false).unwrap();
    let member = peer.until("it asks", |_, events| match events.into_iter().next() {
        Some(ServerEvent::Get(member, ..)) => Some(member),
        _ => None,
    });
    let long = [&b"{\"get\":\"/"[..], &[b'x'; MOST_REQUEST_BYTES]].concat();
    let wrong: [&[u8]; 4] = [&long, b"{\"put\":1}\n", b"{\"get\":\"/a\",\"have\":\"AAAA\"}\n", b"\n\n"];
    for (line, stream) in wrong.into_iter().zip((4..).step_by(4)) {
        peer.quic.stream_send(stream, line, false).unwrap();
        let bytes = read_to_end(&mut peer, stream);
        assert!(matches!(Answer::parse(bytes.trim_ascii_end()), Ok(Answer::Error(_))));
        peer.until("it is told to stop", |p, _| p.quic.stream_capacity(stream).is_err().then_some(()));
    }
    // Two requests on one stream: the one that was taken has left.
    peer.quic.stream_send(20, b"{\"get\":\"/b\"}\n", false).unwrap();
    peer.until("it asks", |_, events| (!events.is_empty()).then_some(()));
    peer.quic.stream_send(20, b"{\"get\":\"/b\"}\n", false).unwrap();
    let left = peer.until("it has left", |_, events| match events[..] {
        [ServerEvent::Left(who, Leave::Said)] => Some(who),
        _ => None,
    });
    assert_eq!(left, (member.0, 20));
    peer.server.tell(member, &keys(9)).unwrap();
    let mut buffer = [0; 2000];
    let n = peer.until("the other stream goes on", |p, _| p.quic.stream_recv(0, &mut buffer).ok()).0;
    assert_eq!(Answer::parse(buffer[..n].trim_ascii_end()), Ok(keys(9)));
    assert!(peer.quic.local_error().is_none() && peer.quic.peer_error().is_none());
}

/// A client and its servers on one clock, which goes on when nothing is under way.
struct World {
    servers: Vec<Server>,
    client: Client,
    ahead: Duration,
    idle: u32,
}

impl World {
    /// As many servers, which the client was given in this order.
    fn new(servers: usize) -> World {
        let identity = cert::make(&["localhost".to_owned()]).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let open = |_| Server::open(any, TicketSecret::draw().unwrap(), || tls::server(&identity)).unwrap();
        let servers: Vec<_> = (0..servers).map(open).collect();
        let target = |(i, server): (usize, &Server)| Target { host: format!("server{i}"), to: server.local() };
        let targets = servers.iter().enumerate().map(target).collect();
        let now = Instant::now();
        let mut client = Client::connect(targets, Trust { ca: None, insecure: true }, now).unwrap();
        client.get(0, &Name::new("/a").unwrap(), now).unwrap();
        World { servers, client, ahead: Duration::ZERO, idle: 0 }
    }

    /// All in turn: answers at the client, and the requested server, by the server's number.
    fn turn(&mut self) -> (Vec<ClientEvent>, Vec<(usize, MemberId)>) {
        let mut asked = Vec::new();
        let mut busy = false;
        for (i, server) in self.servers.iter_mut().enumerate() {
            server.receive(Instant::now()).unwrap();
            busy |= !server.touched.is_empty();
            for event in server.turn(Instant::now()).unwrap() {
                if let ServerEvent::Get(member, ..) = event {
                    asked.push((i, member));
                }
            }
        }
        let said = self.client.turn(Instant::now() + self.ahead).unwrap();
        self.idle = if busy || !said.is_empty() { 0 } else { self.idle + 1 };
        if self.idle > IDLE_TURNS {
            self.idle = 0;
            let at = self.client.deadline().expect("it goes on");
            self.ahead += at.saturating_duration_since(Instant::now() + self.ahead) + Duration::from_millis(1);
        }
        (said, asked)
    }

    fn close(&mut self, (server, member): (usize, MemberId)) {
        let connection = self.servers[server].connections.get_mut(&member.0).unwrap();
        connection.quic.close(true, 2, b"no").unwrap();
        self.servers[server].touched.insert(member.0);
    }
}

#[test]
fn servers_that_close_each_connection_are_not_asked_without_a_pause() {
    for servers in [1, 2] {
        let mut world = World::new(servers);
        let mut asked = HashMap::new();
        let end = loop {
            let (said, members) = world.turn();
            for (server, member) in members {
                *asked.entry(server).or_insert(0) += 1;
                world.close((server, member));
            }
            let all: i32 = asked.values().sum();
            assert!(all < 20, "{all} connections in {:?}", world.ahead);
            if let Some(ClientEvent::Closed(fault)) = said.into_iter().find(|e| matches!(e, ClientEvent::Closed(_))) {
                break fault;
            }
        };
        assert_eq!(end.code, weir_io::fault::CONNECT);
        assert_eq!(asked.len(), servers);
    }
}

#[test]
fn another_server_is_asked_beside_one_that_is_up_and_says_nothing() {
    let mut world = World::new(2);
    let mut asked = Vec::new();
    let answered = loop {
        let (said, members) = world.turn();
        for (server, member) in members {
            asked.push(server);
            if server == 1 {
                world.servers[1].tell(member, &keys(9)).unwrap();
            }
        }
        // The connection to the first is up: it would go on for ever.
        assert!(world.ahead < Duration::from_secs(60), "{asked:?}");
        if let Some(ClientEvent::Answer(0, answer)) =
            said.into_iter().find(|event| matches!(event, ClientEvent::Answer(..)))
        {
            break answer;
        }
    };
    assert_eq!((answered, asked), (keys(9), vec![0, 1]));
}
