// SPDX-License-Identifier: Apache-2.0
//! The server's side of requests when the client's windows leave little room, down to two bytes: it waits and goes on.

use crate::pair::{advance_to, client_addr, config, server_addr};
use proptest::prelude::*;
use quiche::h3;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_core::congestion::QuicheOwn;
use weir_core::connection::Conn;
use weir_core::request::Alpn;
use weir_core::server::Session;

/// Window limits of a client, in bytes.
#[derive(Debug, Clone, Copy)]
struct WindowLimits {
    conn: u64,
    stream: u64,
}

/// RFC 9114 6.2: windows of HTTP/3's own streams.
const UNI_BYTES: u64 = 1024;
const DELAY: Duration = Duration::from_millis(5);

/// Asks for `sizes` all at once, gives `uploads`, and returns each stream's data; all streams must end well.
fn ask(alpn: Alpn, limits: WindowLimits, sizes: &[u64], uploads: &[usize]) -> BTreeMap<u64, Vec<u8>> {
    let mut ours = config();
    ours.set_application_protos(&[alpn.wire()]).unwrap();
    ours.set_initial_max_data(limits.conn);
    ours.set_initial_max_stream_data_bidi_local(limits.stream);
    ours.set_initial_max_stream_data_uni(UNI_BYTES);
    ours.set_initial_max_streams_uni(3);
    let mut theirs = config();
    theirs.set_application_protos(&[alpn.wire()]).unwrap();
    theirs.set_initial_max_stream_data_uni(UNI_BYTES);
    theirs.set_initial_max_streams_uni(3);
    let cid = |n: u8| quiche::ConnectionId::from_vec(vec![n; 16]);
    let (c, s) = (client_addr(), server_addr());
    let mut client = quiche::connect(Some("weir"), &cid(1), c, s, &mut ours).unwrap();
    let accepted = quiche::accept(&cid(2), None, s, c, &mut theirs).unwrap();
    let mut server = Session::new(Conn::new(accepted, Box::new(QuicheOwn), Instant::now()), 0);

    let mut buf = vec![0; 65536];
    let mut h3: Option<h3::Connection> = None;
    let (mut asked, mut finished) = (false, 0);
    let mut got: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut wire: Vec<(Instant, bool, Vec<u8>)> = vec![];
    for _ in 0..200_000 {
        let now = Instant::now();
        for (_, to_server, mut packet) in wire.extract_if(.., |(at, ..)| *at <= now) {
            match to_server {
                true => server.conn.recv(&mut packet, 0, quiche::RecvInfo { from: c, to: s }),
                false => drop(client.recv(&mut packet, quiche::RecvInfo { from: s, to: c }).unwrap()),
            }
        }
        server.conn.on_deadline(now);
        if client.timeout_instant().is_some_and(|t| t <= now) {
            client.on_timeout();
        }
        if client.is_established() && !asked {
            asked = true;
            if alpn == Alpn::H3 {
                h3 = Some(h3::Connection::with_transport(&mut client, &h3::Config::new().unwrap()).unwrap());
            }
            for (n, size) in sizes.iter().enumerate() {
                begin(&mut client, &mut h3, n, "GET", &format!("/bytes/{size}"), &[]);
            }
            for (n, size) in uploads.iter().enumerate() {
                begin(&mut client, &mut h3, sizes.len() + n, "POST", "/upload", &vec![7; *size]);
            }
        }
        match &mut h3 {
            Some(h3) => loop {
                match h3.poll(&mut client) {
                    Ok((id, h3::Event::Data)) => {
                        while let Ok(n) = h3.recv_body(&mut client, id, &mut buf) {
                            got.entry(id).or_default().extend_from_slice(&buf[..n]);
                        }
                    }
                    Ok((id, h3::Event::Headers { list, .. })) => {
                        assert_eq!(h3::NameValue::value(&list[0]), b"200", "stream {id}");
                    }
                    Ok((_, h3::Event::Finished)) => finished += 1,
                    Ok((_, h3::Event::PriorityUpdate)) => {}
                    Ok((id, event)) => panic!("stream {id}: {event:?}"),
                    Err(h3::Error::Done) => break,
                    Err(e) => panic!("{e:?}"),
                }
            },
            None if asked => {
                for id in client.readable() {
                    loop {
                        match client.stream_recv(id, &mut buf) {
                            Ok((n, fin)) => {
                                got.entry(id).or_default().extend_from_slice(&buf[..n]);
                                finished += usize::from(fin);
                            }
                            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                            Err(e) => panic!("stream {id}: {e:?}"),
                        }
                    }
                }
            }
            None => {}
        }
        server.advance(now, &mut buf);
        while let Ok((n, _)) = client.send(&mut buf) {
            wire.push((now + DELAY, true, buf[..n].to_vec()));
        }
        while let Ok((n, _)) = server.conn.quic.send(&mut buf) {
            wire.push((now + DELAY, false, buf[..n].to_vec()));
        }
        if finished == sizes.len() + uploads.len() {
            assert!(!server.is_busy(), "the server has done all it had to");
            return got;
        }
        assert_eq!((client.local_error(), client.peer_error()), (None, None));
        let arrival = wire.iter().map(|(at, ..)| *at).min();
        let next = [arrival, client.timeout_instant(), server.conn.deadline()].into_iter().flatten().min();
        advance_to(next.expect("a standstill"));
        assert!(!client.is_closed(), "closed after {finished} streams: {:?}", server.conn.failure());
    }
    panic!("no end: {finished} streams of {}", sizes.len() + uploads.len());
}

fn begin(
    quic: &mut quiche::Connection,
    h3: &mut Option<h3::Connection>,
    n: usize,
    method: &str,
    path: &str,
    body: &[u8],
) {
    let Some(h3) = h3 else {
        let request = [format!("{method} {path}\r\n").as_bytes(), body].concat();
        assert_eq!(quic.stream_send(4 * n as u64, &request, true), Ok(request.len()));
        return;
    };
    let headers: Vec<h3::Header> = [(":method", method), (":scheme", "https"), (":authority", "weir"), (":path", path)]
        .iter()
        .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let id = h3.send_request(quic, &headers, method == "GET").unwrap();
    if method == "POST" {
        assert_eq!(h3.send_body(quic, id, body, true), Ok(body.len()));
    }
}

fn check(alpn: Alpn, limits: WindowLimits, sizes: &[u64], uploads: &[usize]) {
    let got = ask(alpn, limits, sizes, uploads);
    for (n, size) in sizes.iter().enumerate() {
        assert_eq!(got.get(&(4 * n as u64)).map_or(0, Vec::len) as u64, *size);
    }
    for (n, size) in uploads.iter().enumerate() {
        assert_eq!(got[&(4 * (sizes.len() + n) as u64)], format!("{size}\n").into_bytes());
    }
}

// The first two streams take the connection's window whole, and the others' headers find none of it left.
#[test]
fn four_streams_whose_windows_make_up_the_connections() {
    for alpn in [Alpn::H3, Alpn::Hq] {
        check(alpn, WindowLimits { conn: 32_768, stream: 8192 }, &[250_000; 4], &[]);
        check(alpn, WindowLimits { conn: 16_384, stream: 8192 }, &[20_000; 4], &[1000; 3]);
    }
}

// The least there is: a window of one byte is never renewed by quiche as a client, which waits until less than half of
// it is left.
#[test]
fn a_window_of_two_bytes() {
    check(Alpn::Hq, WindowLimits { conn: 2, stream: 2 }, &[3, 0, 20], &[4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_window_serves_hq(
        conn in 2u64..5000,
        stream in 2u64..5000,
        sizes in prop::collection::vec(0u64..3000, 1..5),
        uploads in prop::collection::vec(0usize..3000, 0..3),
    ) {
        check(Alpn::Hq, WindowLimits { conn, stream }, &sizes, &uploads);
    }

    // quiche writes the headers of a response whole: 64 bytes are enough for ours.
    #[test]
    fn a_window_for_the_headers_serves_http3(
        conn in 256u64..5000,
        stream in 64u64..5000,
        sizes in prop::collection::vec(0u64..3000, 1..5),
        uploads in prop::collection::vec(0usize..3000, 0..3),
    ) {
        check(Alpn::H3, WindowLimits { conn, stream }, &sizes, &uploads);
    }
}
