// SPDX-License-Identifier: Apache-2.0
//! Bytes that a server sends to an address that is not validated: at most three times those that came (RFC 9000 8.1).

use crate::pair::{advance_to, client_addr, config, server_addr, Pair};
use quiche::CongestionControlAlgorithm::{Bbr2Gcongestion, CUBIC};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(50);
const MOST: usize = 3;

fn flight(end: &mut quiche::Connection) -> Vec<Vec<u8>> {
    let mut buf = [0; 2000];
    std::iter::from_fn(|| end.send(&mut buf).ok().map(|(n, _)| buf[..n].to_vec())).collect()
}

fn bytes(flight: &[Vec<u8>]) -> usize {
    flight.iter().map(Vec::len).sum()
}

fn deliver(to: &mut quiche::Connection, flight: &[Vec<u8>]) {
    let (here, there) = if to.is_server() { (server_addr(), client_addr()) } else { (client_addr(), server_addr()) };
    for datagram in flight {
        to.recv(&mut datagram.clone(), quiche::RecvInfo { from: there, to: here }).unwrap();
    }
}

/// Bytes that a server sends to a client that is silent after `first`, until it gives up.
fn brought(server: &mut quiche::Connection, first: &[Vec<u8>]) -> usize {
    deliver(server, first);
    let mut sent = bytes(&flight(server));
    while let Some(at) = server.timeout_instant() {
        advance_to(at);
        server.on_timeout();
        sent += bytes(&flight(server));
    }
    assert!(server.is_closed());
    sent
}

#[test]
fn a_silent_client_brings_no_more_than_three_times_what_it_sent() {
    for cc in [CUBIC, Bbr2Gcongestion] {
        let (mut client, mut server) = (config(), config());
        server.set_cc_algorithm(cc);
        let mut pair = Pair::new(&mut client, &mut server, 20_000_000, DELAY);
        let first = flight(&mut pair.client);
        let (came, sent) = (bytes(&first), brought(&mut pair.server, &first));
        assert!(sent > came && sent <= MOST * came, "{cc:?}: {sent} bytes for {came}");
    }
}

#[test]
fn a_silent_client_with_a_ticket_and_early_data_brings_no_more() {
    let (mut client, mut server) = (config(), config());
    client.enable_early_data();
    server.enable_early_data();
    let mut pair = Pair::new(&mut client, &mut server, 20_000_000, DELAY);
    while pair.client.session().is_none() {
        deliver(&mut pair.server, &flight(&mut pair.client));
        deliver(&mut pair.client, &flight(&mut pair.server));
        advance_to(Instant::now() + DELAY);
    }
    let ticket = pair.client.session().unwrap().to_vec();
    for early in [false, true] {
        let mut again = Pair::new(&mut client, &mut server, 20_000_000, DELAY);
        again.client.set_session(&ticket).unwrap();
        let mut first = flight(&mut again.client);
        if early {
            again.client.stream_send(0, b"1000", true).unwrap();
            first.extend(flight(&mut again.client));
        }
        deliver(&mut again.server, &first);
        if early {
            assert!(again.server.is_in_early_data());
            again.server.stream_send(0, &[7; 10_000], true).unwrap();
        }
        let (came, sent) = (bytes(&first), brought(&mut again.server, &[]));
        assert!(sent > came && sent <= MOST * came, "early {early}: {sent} bytes for {came}");
    }
}
