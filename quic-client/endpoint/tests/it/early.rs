// SPDX-License-Identifier: Apache-2.0
//! Session tickets, early data, tunnels and datagrams of the library.

use crate::common::Server;
use crate::h3_server::H3Server;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use weir_quic::{Client, Connection, ErrorKind, FileTickets, Request};

/// A connection from this local address, with tickets in a folder.
fn connect(url: &str, ca: &str, tickets: &Path, path: &str) -> Connection {
    let settings = Client::builder().ca(ca).path(path).tickets(FileTickets::new(tickets).unwrap());
    settings.build().unwrap().connect(url).unwrap()
}

#[test]
fn a_ticket_is_used_once_and_on_another_network() {
    let server = Server::start(&[]);
    let tickets = tempfile::tempdir().unwrap();
    for (path, resumed) in [("127.0.0.2", false), ("127.0.0.3", true), ("127.0.0.2", true)] {
        let connection = connect(&server.url("/"), &server.ca(), tickets.path(), path);
        let response = connection.request(Request::get("/bytes/10")).unwrap();
        assert_eq!(response.bytes(10).unwrap().len(), 10);
        assert_eq!(connection.status().is_resumed, resumed, "{path}");
        connection.close();
    }
    assert_eq!(std::fs::read_dir(tickets.path()).unwrap().count(), 1);
}

#[test]
fn a_ticket_of_an_unchecked_certificate_is_none_for_others() {
    let server = Server::start(&[]);
    let tickets = tempfile::tempdir().unwrap();
    let insecure = Client::builder().insecure(true).tickets(FileTickets::new(tickets.path()).unwrap());
    let connection = insecure.build().unwrap().connect(&server.url("/")).unwrap();
    connection.request(Request::get("/bytes/1")).unwrap().bytes(1).unwrap();
    connection.close();
    assert_eq!(std::fs::read_dir(tickets.path()).unwrap().count(), 1);
    assert!(!connect(&server.url("/"), &server.ca(), tickets.path(), "127.0.0.2").status().is_resumed);
}

#[test]
fn early_requests_leave_before_the_handshake_is_done() {
    let identity = Server::start(&[]);
    let server = H3Server::start(&identity.dir.path().join("state/weir-server.pem"));
    let url = format!("https://{}/", server.addr);
    let tickets = tempfile::tempdir().unwrap();
    let client = |path: &str| {
        let settings =
            Client::builder().ca(identity.ca()).path(path).tickets(FileTickets::new(tickets.path()).unwrap());
        settings.build().unwrap()
    };
    let first = client("127.0.0.2").connect(&url).unwrap();
    assert_eq!(first.request(Request::get("/").early()).unwrap().status(), 204);
    first.close();
    assert_eq!(server.early.load(Ordering::Acquire), 0);
    // Not waiting for the handshake.
    let second = client("127.0.0.3").connect_early(&url).unwrap();
    assert_eq!(second.request(Request::get("/").early()).unwrap().status(), 204);
    assert_eq!(second.request(Request::get("/")).unwrap().status(), 204);
    assert_eq!(server.early.load(Ordering::Acquire), 1);
    let status = second.status();
    assert!(status.is_resumed && status.is_early_data_accepted, "{status:?}");
    assert!(second.request(Request::post("/").body("x").early()).is_err(), "not a safe method");
}

/// The server's key of tickets is another one, as after a restart.
#[test]
fn refused_early_data_is_sent_again_after_the_handshake() {
    let identity = Server::start(&[]);
    let pem = identity.dir.path().join("state/weir-server.pem");
    let tickets = tempfile::tempdir().unwrap();
    let client = |server: &H3Server| {
        let settings = Client::builder().ca(identity.ca()).tickets(FileTickets::new(tickets.path()).unwrap());
        settings.connect_to(server.addr.to_string()).build().unwrap()
    };
    let first = H3Server::start(&pem);
    let url = format!("https://127.0.0.1:{}/", first.addr.port());
    let connection = client(&first).connect(&url).unwrap();
    assert_eq!(connection.request(Request::get("/")).unwrap().status(), 204);
    connection.close();
    drop(first);
    let restarted = H3Server::start(&pem);
    let connection = client(&restarted).connect_early(&url).unwrap();
    for request in [Request::get("/").early(), Request::post("/").body("x"), Request::head("/").early()] {
        assert_eq!(connection.request(request).unwrap().status(), 204);
    }
    let status = connection.status();
    assert!(!status.is_resumed && !status.is_early_data_accepted, "{status:?}");
    assert_eq!(restarted.early.load(Ordering::Acquire), 0);
}

#[test]
fn over_several_paths_a_connection_resumes_without_early_data() {
    let server = Server::start(&[]);
    let tickets = tempfile::tempdir().unwrap();
    for resumed in [false, true] {
        let settings = Client::builder().ca(server.ca()).path("127.0.0.2").path("127.0.0.3");
        let client = settings.tickets(FileTickets::new(tickets.path()).unwrap()).build().unwrap();
        let connection = client.connect_early(&server.url("/")).unwrap();
        let response = connection.request(Request::get("/bytes/10").early()).unwrap();
        assert_eq!(response.bytes(10).unwrap().len(), 10);
        let status = connection.status();
        assert_eq!((status.is_resumed, status.is_early_data_accepted), (resumed, false));
        connection.close();
    }
}

fn connected() -> (Server, H3Server, Connection) {
    let identity = Server::start(&[]);
    let server = H3Server::start(&identity.dir.path().join("state/weir-server.pem"));
    let client = Client::builder().ca(identity.ca()).path("127.0.0.2").build().unwrap();
    let connection = client.connect(&format!("https://{}/", server.addr)).unwrap();
    (identity, server, connection)
}

#[test]
fn a_tunnel_streams_both_ways_and_each_half_ends() {
    let (_identity, _server, connection) = connected();
    let (mut up, pending) = connection.open(Request::connect("example.org:443")).unwrap();
    let mut down = pending.wait().unwrap();
    assert_eq!(down.status(), 200);
    for n in 0..100 {
        let text = format!("message {n};");
        up.write_all(text.as_bytes()).unwrap();
        let mut echo = vec![0; text.len()];
        down.read_exact(&mut echo).unwrap();
        assert_eq!(echo, text.as_bytes());
    }
    up.finish();
    let mut rest = String::new();
    down.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " and goodbye");
}

#[test]
fn datagrams_of_an_extended_connect() {
    let (_identity, _server, connection) = connected();
    let request = Request::extended_connect("connect-udp", "/.well-known/masque/udp/192.0.2.1/53/");
    let (up, pending) = connection.open(request).unwrap();
    let down = pending.wait().unwrap();
    // Loopback has no loss, and the queues are longer than one datagram.
    for n in 0..100u8 {
        up.send_datagram(vec![0, n]);
        assert_eq!(down.datagram().unwrap().unwrap().as_ref(), [0, n]);
    }
    drop(up);
    assert_eq!(down.datagram().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn an_extended_connect_that_the_server_does_not_support_fails() {
    let server = Server::start(&[]);
    let connection = connect(&server.url("/"), &server.ca(), server.dir.path(), "127.0.0.2");
    let (_up, pending) = connection.open(Request::extended_connect("connect-udp", "/x")).unwrap();
    let failed = pending.wait().err().unwrap();
    assert!(failed.kind() == ErrorKind::NotServed && failed.to_string().contains("RFC 9220"), "{failed}");
}
