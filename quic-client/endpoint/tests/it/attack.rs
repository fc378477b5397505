// SPDX-License-Identifier: Apache-2.0
//! Packets from strangers: the server's answers, the state it keeps for them, and the effect on others.

use crate::common::{Server, bad, client, ended, endless, good};
use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::{ConnectionId, Type};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory limit of a server under packets from addresses that were never validated: the README's figure.
const MOST_KB: u64 = 100_000;

/// A long header of this version and type, with a token of no bytes, in a datagram of so many bytes of noise.
fn long(version: u32, kind: u8, id: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0xc3 | kind << 4];
    out.extend(version.to_be_bytes());
    for id in [id, !id] {
        out.push(8);
        out.extend(id.to_be_bytes());
    }
    out.push(0);
    let rest = bytes.saturating_sub(out.len() + 2);
    out.extend((0x4000 | rest as u16).to_be_bytes());
    let mut rng = fastrand::Rng::with_seed(id);
    out.extend(std::iter::repeat_with(|| rng.u8(..)).take(rest));
    out
}

fn socket(s: &Server) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&s.addr).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// A client that leaves it at its first datagram.
fn first_datagram(socket: &UdpSocket) -> Vec<u8> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"h3"]).unwrap();
    let scid: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
    let (local, peer) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    let mut quic = quiche::connect(None, &ConnectionId::from_ref(&scid), local, peer, &mut config).unwrap();
    let mut bytes = vec![0; 1350];
    let (len, _) = quic.send(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn answer(socket: &UdpSocket) -> (Type, Vec<u8>) {
    let mut bytes = vec![0; 2000];
    let n = socket.recv(&mut bytes).unwrap();
    bytes.truncate(n);
    let header = quiche::Header::from_slice(&mut bytes, 16).unwrap();
    (header.ty, header.dcid.to_vec())
}

fn peak_kb(s: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", s.child.id())).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "long tier"]
fn nothing_small_is_answered() {
    let s = Server::start(&[]);
    let socket = socket(&s);
    for version in [0xbaba_baba, 1] {
        for bytes in [28, 100, 1199] {
            for kind in 0..4 {
                socket.send(&long(version, kind, 1, bytes)).unwrap();
            }
        }
    }
    let mut small = first_datagram(&socket);
    small.truncate(1199);
    socket.send(&small).unwrap();
    // To answer a list of versions with another would go on for ever.
    socket.send(&long(0, 0, 1, 1200)).unwrap();
    // The first answer is the one to the last packet. The type bits of these versions mean nothing to us: QUIC version
    // 2 has another Initial (RFC 9369 3.2).
    for kind in 0..4 {
        socket.send(&long(0x6b33_43cf, kind, 2 + u64::from(kind), 1200)).unwrap();
        let (ty, dcid) = answer(&socket);
        assert_eq!((ty, dcid), (Type::VersionNegotiation, (!(2 + u64::from(kind))).to_be_bytes().to_vec()));
    }
}

#[test]
#[ignore = "long tier"]
fn a_connection_id_too_short_for_a_first_packet_is_dropped() {
    let s = Server::start(&["--retry", "always"]);
    let socket = socket(&s);
    let mut short = long(1, 0, 1, 1200);
    short[5] = 7;
    short.remove(6);
    short.push(0);
    socket.send(&short).unwrap();
    socket.send(&long(1, 0, 2, 1200)).unwrap();
    assert_eq!(answer(&socket), (Type::Retry, (!2u64).to_be_bytes().to_vec()));
}

#[test]
#[ignore = "long tier"]
fn a_handshake_that_fails_at_the_first_packet_is_told_so() {
    let s = Server::start(&[]);
    let socket = socket(&s);
    let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    // Without a post-quantum key share all that it says fits into one packet.
    tls.set_curves_list("X25519").unwrap();
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"unknown"]).unwrap();
    let (local, peer) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    let mut quic = quiche::connect(None, &ConnectionId::from_ref(&[9; 16]), local, peer, &mut config).unwrap();
    let mut bytes = vec![0; 2000];
    let mut packets = 0;
    while let Ok((n, _)) = quic.send(&mut bytes) {
        socket.send(&bytes[..n]).unwrap();
        packets += 1;
    }
    assert_eq!(packets, 1);
    while quic.peer_error().is_none() {
        let n = socket.recv(&mut bytes).expect("the server says why");
        let _ = quic.recv(&mut bytes[..n], quiche::RecvInfo { from: peer, to: local });
    }
    // The alert no_application_protocol (RFC 9001 4.8, 8.1).
    assert_eq!(quic.peer_error().map(|e| e.error_code), Some(0x178));
    good(&[&s.url("/bytes/1"), "--insecure"]);
}

/// Sends from several sockets until stopped, or to a bound.
fn flood(to: SocketAddr, datagrams: Vec<Vec<u8>>) -> (Arc<AtomicBool>, std::thread::JoinHandle<u64>) {
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    let sending = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0;
        for datagram in datagrams.iter().cycle().take(2_000_000) {
            if told.load(Ordering::Relaxed) {
                break;
            }
            // A full buffer at the other end is no error here.
            socket.send_to(datagram, to).unwrap();
            sent += 1;
        }
        sent
    });
    (over, sending)
}

#[test]
#[ignore = "long tier"]
fn a_flood_takes_neither_memory_nor_the_service() {
    let small: Vec<_> = (0..64).map(|i| long(0xbaba_baba, 0, i, 28)).collect();
    let noise: Vec<_> = (0..512).map(|i| long(1, 0, i, 1200)).collect();
    let versions: Vec<_> = (0..64).map(|i| long(0xbaba_baba, 0, i, 1200)).collect();
    for datagrams in [small, noise, versions] {
        let s = Server::start(&[]);
        let (over, sending) = flood(s.addr.parse().unwrap(), datagrams);
        for _ in 0..3 {
            good(&[&s.url("/bytes/100kB"), "--insecure"]);
        }
        over.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap();
        assert!(peak_kb(&s) < MOST_KB, "{} kB after {sent} datagrams", peak_kb(&s));
        s.finish();
    }
}

#[test]
#[ignore = "long tier"]
fn handshakes_that_stop_at_once_bring_retry_and_it_is_followed() {
    let s = Server::start(&["--retry-above", "100"]);
    let socket = socket(&s);
    let mut kinds = Vec::new();
    for _ in 0..150 {
        socket.send(&first_datagram(&socket)).unwrap();
        let (ty, _) = answer(&socket);
        // Others of the same flight.
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 2000]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        kinds.push(ty);
    }
    // A late part of an earlier flight may stand in for a Retry, never the other way round.
    assert!(kinds[..50].iter().all(|ty| *ty != Type::Retry), "{kinds:?}");
    assert!(kinds[100..].contains(&Type::Retry), "{kinds:?}");
    for alpn in ["h3", "hq-interop"] {
        good(&[&s.url("/bytes/100kB"), "--insecure", "--alpn", alpn]);
    }
    assert!(peak_kb(&s) < MOST_KB, "{} kB", peak_kb(&s));
}

#[test]
#[ignore = "long tier"]
fn retry_for_everybody_and_for_nobody() {
    let s = Server::start(&["--retry", "always"]);
    let socket = socket(&s);
    for _ in 0..3 {
        socket.send(&first_datagram(&socket)).unwrap();
        assert_eq!(answer(&socket).0, Type::Retry);
    }
    let paths = ["--path", "127.0.0.2", "--path", "127.0.0.3", "--requests", "20"];
    good(&[&[&*s.url("/bytes/10kB"), "--insecure"], &paths[..]].concat());
    good(&[&s.url(""), "--insecure", "--upload", "--bytes", "1MB", "--flows", "5"]);
    assert_eq!(s.finish().iter().filter(|l| l["k"] == "end").count(), 6, "nothing is kept for the others");

    let s = Server::start(&["--retry", "never", "--retry-above", "1"]);
    let socket = self::socket(&s);
    for _ in 0..3 {
        socket.send(&first_datagram(&socket)).unwrap();
        assert_ne!(answer(&socket).0, Type::Retry);
    }
}

#[test]
#[ignore = "long tier"]
fn a_token_of_another_client_is_worth_nothing() {
    let s = Server::start(&["--retry", "always"]);
    let (one, other) = (socket(&s), socket(&s));
    let mut bytes = first_datagram(&one);
    one.send(&bytes).unwrap();
    let mut retry = vec![0; 2000];
    let n = one.recv(&mut retry).unwrap();
    let header = quiche::Header::from_slice(&mut retry[..n], 16).unwrap();
    let token = header.token.unwrap();
    // The same token from another port gets another Retry: it was not believed.
    let first = quiche::Header::from_slice(&mut bytes, 16).unwrap();
    let mut stolen = vec![0xc3, 0, 0, 0, 1, header.scid.len() as u8];
    stolen.extend_from_slice(&header.scid);
    stolen.push(first.scid.len() as u8);
    stolen.extend_from_slice(&first.scid);
    stolen.extend((0x4000 | token.len() as u16).to_be_bytes());
    stolen.extend_from_slice(&token);
    stolen.extend((0x4000 | 1200u16).to_be_bytes());
    stolen.resize(stolen.len() + 1200, 7);
    other.send(&stolen).unwrap();
    assert_eq!(answer(&other).0, Type::Retry);
    good(&[&s.url("/bytes/1"), "--insecure"]);
}

#[test]
#[ignore = "long tier"]
fn no_more_connections_than_asked_for() {
    for option in ["--max-connections", "--max-connections-per-source"] {
        let s = Server::start(&[option, "2"]);
        let held = [endless(&s, &[]), endless(&s, &[])];
        bad(&[&s.url("/bytes/1"), "--insecure", "-q"], 3, "code 0x2 too many connections");
        for (child, _dir) in held {
            std::process::Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap();
            assert_eq!(ended(child).0, Some(130));
        }
        // Their connections are kept for three probe timeouts more (RFC 9000 10.2).
        let code = loop {
            match client(&[&s.url("/bytes/1"), "--insecure", "-q"]).status.code() {
                Some(3) => std::thread::sleep(Duration::from_millis(20)),
                code => break code,
            }
        };
        assert_eq!(code, Some(0));
    }
}

#[test]
#[ignore = "long tier"]
fn requests_that_never_end_hold_their_own_connection_alone() {
    let s = Server::start(&[]);
    let socket = socket(&s);
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"hq-interop"]).unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(10);
    let (local, peer) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    let mut quic = quiche::connect(None, &ConnectionId::from_ref(&[9; 16]), local, peer, &mut config).unwrap();
    let mut bytes = vec![0; 65536];
    let mut exchange = |quic: &mut quiche::Connection, until: &dyn Fn(&mut quiche::Connection) -> bool| {
        while !until(quic) {
            while let Ok((n, _)) = quic.send(&mut bytes) {
                socket.send(&bytes[..n]).unwrap();
            }
            let n = socket.recv(&mut bytes).unwrap();
            quic.recv(&mut bytes[..n], quiche::RecvInfo { from: peer, to: local }).unwrap();
        }
    };
    exchange(&mut quic, &|q| q.is_established() && q.peer_streams_left_bidi() >= 100);
    // Half a line, an upload that never ends, an answer that nobody reads: each on as many streams as there may be.
    for stream in 0..99 {
        let line: &[u8] = [&b"GET /by"[..], b"POST /upload\r\n..", b"GET /bytes/unlimited\r\n"][stream % 3];
        quic.stream_send(stream as u64 * 4, line, false).unwrap();
    }
    exchange(&mut quic, &|q| q.readable().count() == 33);
    for alpn in ["h3", "hq-interop"] {
        good(&[&s.url("/bytes/1MB"), "--insecure", "--alpn", alpn]);
    }
    assert!(!quic.is_closed());
    assert!(peak_kb(&s) < MOST_KB, "{} kB", peak_kb(&s));
}
