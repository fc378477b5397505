// SPDX-License-Identifier: Apache-2.0
//! Packets sent when a probe timeout fires, for both implementations of loss recovery in quiche.

use crate::pair::{advance_to, client_addr, config, server_addr, Pair};
use quiche::CongestionControlAlgorithm::{Bbr2Gcongestion, CUBIC};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(50);

type Datagrams = Vec<Vec<u8>>;

/// All that an end has to send now.
fn flight(end: &mut quiche::Connection) -> Datagrams {
    let mut buf = [0; 2000];
    std::iter::from_fn(|| end.send(&mut buf).ok().map(|(n, _)| buf[..n].to_vec())).collect()
}

fn deliver(to: &mut quiche::Connection, datagrams: &[Vec<u8>]) {
    advance_to(Instant::now() + DELAY);
    let (here, there) = if to.is_server() { (server_addr(), client_addr()) } else { (client_addr(), server_addr()) };
    for datagram in datagrams {
        to.recv(&mut datagram.clone(), quiche::RecvInfo { from: there, to: here }).unwrap();
    }
}

/// Packets that the client sends at its next timeout.
fn probes(client: &mut quiche::Connection) -> Datagrams {
    advance_to(client.timeout_instant().unwrap());
    client.on_timeout();
    flight(client)
}

/// RFC 9000 17.2: Initial and Handshake packets have a long header.
fn of_handshake(datagram: &[u8]) -> bool {
    datagram[0] & 0x80 != 0
}

/// A client that has finished the handshake, and its last flight of it.
fn finished(cc: quiche::CongestionControlAlgorithm) -> (Pair, Datagrams) {
    let (mut client, mut server) = (config(), config());
    client.set_cc_algorithm(cc);
    server.set_cc_algorithm(cc);
    let mut pair = Pair::new(&mut client, &mut server, 20_000_000, DELAY);
    while !pair.client.is_established() {
        deliver(&mut pair.server, &flight(&mut pair.client));
        deliver(&mut pair.client, &flight(&mut pair.server));
    }
    let last = flight(&mut pair.client);
    (pair, last)
}

/// And one that knows that it is confirmed.
fn confirmed(cc: quiche::CongestionControlAlgorithm) -> Pair {
    let (mut pair, last) = finished(cc);
    deliver(&mut pair.server, &last);
    for _ in 0..3 {
        deliver(&mut pair.client, &flight(&mut pair.server));
        deliver(&mut pair.server, &flight(&mut pair.client));
    }
    pair
}

#[test]
fn a_lost_connection_id_is_in_the_first_probe_whatever_is_older() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let mut pair = confirmed(cc);
        pair.client.stream_send(0, &[1; 8000], true).unwrap();
        assert!(flight(&mut pair.client).len() > 3);
        pair.client.new_scid(&quiche::ConnectionId::from_ref(&[3; 16]), 3, false).unwrap();
        assert!(!flight(&mut pair.client).is_empty());
        let first = probes(&mut pair.client);
        deliver(&mut pair.server, &first[..1]);
        assert_eq!(pair.server.available_dcids(), 1, "{cc:?}");
    }
}

#[test]
fn a_connection_id_lost_many_times_is_sent_once() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let mut pair = confirmed(cc);
        pair.client.new_scid(&quiche::ConnectionId::from_ref(&[3; 16]), 3, false).unwrap();
        let bytes = |datagrams: &Datagrams| -> usize { datagrams.iter().map(Vec::len).sum() };
        let first = bytes(&flight(&mut pair.client));
        for _ in 0..4 {
            assert!(!probes(&mut pair.client).is_empty());
        }
        // An acknowledgement shows that they are all lost.
        pair.client.stream_send(0, b"10", true).unwrap();
        deliver(&mut pair.server, &flight(&mut pair.client));
        deliver(&mut pair.client, &flight(&mut pair.server));
        let again = flight(&mut pair.client);
        // The frame has 35 bytes.
        assert!((first..first + 30).contains(&bytes(&again)), "{cc:?}: {first} {}", bytes(&again));
        deliver(&mut pair.server, &again);
        assert_eq!(pair.server.available_dcids(), 1, "{cc:?}");
    }
}

#[test]
fn the_handshake_is_probed_along_with_what_comes_after_it() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let (mut pair, _lost) = finished(cc);
        pair.client.stream_send(0, b"10", true).unwrap();
        flight(&mut pair.client);
        for _ in 0..4 {
            let sent = probes(&mut pair.client);
            let of_handshake = sent.iter().filter(|datagram| of_handshake(datagram)).count();
            assert!((1..=2).contains(&of_handshake) && sent.len() > of_handshake, "{cc:?}: {sent:?}");
            assert!(sent.len() <= 4, "{cc:?}: {sent:?}");
        }
        // The last word of the handshake and the request, each in its datagram.
        deliver(&mut pair.server, &probes(&mut pair.client));
        assert!(pair.server.is_established() && pair.server.readable().any(|id| id == 0), "{cc:?}");
    }
}

#[test]
fn the_time_between_probes_is_short_again_once_the_handshake_is_confirmed() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let (mut pair, last) = finished(cc);
        pair.client.stream_send(0, b"10", true).unwrap();
        flight(&mut pair.client);
        for _ in 0..6 {
            probes(&mut pair.client);
        }
        deliver(&mut pair.server, &last);
        deliver(&mut pair.client, &flight(&mut pair.server));
        // An RTT of 100 ms; six times doubled it would be more than 6 s.
        let next = pair.client.timeout_instant().unwrap().saturating_duration_since(Instant::now());
        assert!(next < Duration::from_secs(1), "{cc:?}: {next:?}");
    }
}

#[test]
fn a_datagram_is_read_to_its_end_though_the_keys_of_its_first_packet_are_gone() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let (mut pair, last) = finished(cc);
        deliver(&mut pair.server, &last);
        // The server has the handshake behind it, and the client has not heard of that.
        flight(&mut pair.server);
        pair.client.stream_send(0, b"10", true).unwrap();
        let request = flight(&mut pair.client);
        let again = probes(&mut pair.client).into_iter().find(|datagram| of_handshake(datagram)).unwrap();
        assert!(!of_handshake(&request[0]) && request.len() == 1);
        deliver(&mut pair.server, &[[again, request.concat()].concat()]);
        assert!(pair.server.readable().any(|id| id == 0), "{cc:?}");
    }
}
