// SPDX-License-Identifier: Apache-2.0
//! Two sockets on loopback.

use super::receive::{GRO_BATCH, RECV_BATCH};
use super::send::GSO_SEGMENTS;
use super::{Meta, Offload, RecvBatch, SendBatch, SocketOptions, UdpSocket};
use proptest::prelude::*;
use std::io;
use std::net::SocketAddr;
use weir_core::connection::{Codepoint, PacketSink};
use weir_core::transport::MAX_PAYLOAD_BYTES;

fn options(offload: Offload) -> SocketOptions {
    SocketOptions { buffer_bytes: 1 << 20, offload, device: None }
}

fn all(offload: Offload, socket: &UdpSocket, mut take: impl FnMut(&mut [u8], Meta)) {
    let mut batch = RecvBatch::new(offload);
    while batch.receive(socket, &mut take).unwrap() {}
}

#[test]
fn a_flooded_socket_gives_a_batch_at_a_time() {
    for (offload, least, most) in [(Offload::Off, 1, RECV_BATCH), (Offload::Auto, 1, GRO_BATCH * GSO_SEGMENTS)] {
        let s = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(offload)).unwrap();
        let c = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2 * most {
            c.send_to(&[0; 28], s.local_addr()).unwrap();
        }
        let (mut batch, mut total) = (RecvBatch::new(offload), 0);
        loop {
            let mut n = 0;
            let more = batch.receive(&s, |_, _| n += 1).unwrap();
            assert!(n <= most && (!more || n >= least), "{n} at once");
            total += n;
            if !more {
                break;
            }
        }
        // Without CAP_NET_ADMIN the buffer may be too small for all; then the last ones are missing.
        let room = s.recv_buffer_bytes().unwrap() >= options(offload).buffer_bytes;
        assert!(if room { total == 2 * most } else { (1..=2 * most).contains(&total) }, "{total} of {}", 2 * most);
    }
}

fn exchange(server: &str, client: &str, offload: Offload, lengths: &[usize]) -> Vec<(Vec<u8>, Meta)> {
    let s = UdpSocket::open(server.parse().unwrap(), None, &options(offload)).unwrap();
    let mut peer: SocketAddr = client.parse().unwrap();
    peer.set_port(s.local_addr().port());
    let from = SocketAddr::new(peer.ip(), 0);
    let mut c = UdpSocket::open(from, Some(peer), &options(offload)).unwrap();
    let mut batch = SendBatch::default();
    let local = c.local_addr();
    for (i, len) in lengths.iter().enumerate() {
        let mut out = batch.to(&mut c);
        out.slot()[..*len].fill(i as u8);
        out.commit(*len, local, peer, Codepoint::Ect0);
    }
    batch.flush(&mut c);
    assert_eq!((batch.dropped, batch.error.is_none()), (0, true));
    let mut got = Vec::new();
    // Loopback delivers within the sending call.
    all(offload, &s, |bytes, meta| got.push((bytes.to_vec(), meta)));
    for (_, meta) in &got {
        assert_eq!((meta.from, meta.to, meta.tos), (local, peer, 2));
    }
    got
}

fn check(server: &str, client: &str, offload: Offload) {
    let lengths: Vec<usize> = (0..150).map(|i| if i % 7 == 6 { 100 + i } else { 1200 }).collect();
    let got = exchange(server, client, offload, &lengths);
    assert_eq!(got.len(), lengths.len());
    for (i, (bytes, _)) in got.iter().enumerate() {
        assert_eq!(bytes, &vec![i as u8; lengths[i]], "datagram {i}");
    }
}

#[test]
fn one_by_one() {
    check("127.0.0.1:0", "127.0.0.1:0", Offload::Off);
}

#[test]
fn with_offload() {
    check("127.0.0.1:0", "127.0.0.1:0", Offload::Auto);
}

#[test]
fn wildcard_knows_its_address() {
    check("0.0.0.0:0", "127.0.0.2:0", Offload::Off);
}

#[test]
fn a_v6_wildcard_knows_its_address() {
    if let Err(e) = std::net::UdpSocket::bind("[::1]:0") {
        eprintln!("SKIP: IPv6 on loopback: {e}");
        return;
    }
    check("[::]:0", "[::1]:0", Offload::Auto);
}

#[test]
fn a_dual_stack_socket_marks_packets_of_both_families() {
    let Ok(mut sender) = UdpSocket::open("[::]:0".parse().unwrap(), None, &options(Offload::Auto)) else {
        eprintln!("SKIP: IPv6");
        return;
    };
    for (receiver, mapped) in [("127.0.0.1:0", true), ("[::1]:0", false)] {
        let Ok(s) = UdpSocket::open(receiver.parse().unwrap(), None, &options(Offload::Auto)) else {
            eprintln!("SKIP: IPv6 on loopback");
            return;
        };
        let to =
            if mapped { format!("[::ffff:127.0.0.1]:{}", s.local_addr().port()) } else { s.local_addr().to_string() };
        let (from, to) = (sender.local_addr(), to.parse().unwrap());
        let mut batch = SendBatch::default();
        for ecn in [Codepoint::Ect1, Codepoint::Ect1, Codepoint::Ect0, Codepoint::NotEct] {
            batch.to(&mut sender).commit(700, from, to, ecn);
        }
        batch.flush(&mut sender);
        assert_eq!((batch.dropped, batch.error.is_none()), (0, true));
        let mut got = Vec::new();
        all(Offload::Auto, &s, |_, meta| got.push(meta.tos));
        assert_eq!(got, [1, 1, 2, 0], "{receiver}");
    }
}

#[test]
fn a_dual_stack_socket_reads_codepoints_of_ipv4() {
    let Ok(s) = UdpSocket::open("[::]:0".parse().unwrap(), None, &options(Offload::Auto)) else {
        eprintln!("SKIP: IPv6");
        return;
    };
    let mut sender = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Auto)).unwrap();
    let (from, mut batch) = (sender.local_addr(), SendBatch::default());
    let to = SocketAddr::new("127.0.0.1".parse().unwrap(), s.local_addr().port());
    for ecn in [Codepoint::Ect1, Codepoint::Ce, Codepoint::NotEct] {
        batch.to(&mut sender).commit(700, from, to, ecn);
    }
    batch.flush(&mut sender);
    let mut got = Vec::new();
    all(Offload::Auto, &s, |_, meta| got.push(meta.tos));
    assert_eq!(got, [1, 3, 0]);
}

#[test]
fn a_reply_leaves_from_the_address_asked() {
    let mut s = UdpSocket::open("0.0.0.0:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
    let peer: SocketAddr = format!("127.0.0.3:{}", s.local_addr().port()).parse().unwrap();
    let c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), Some(peer), &options(Offload::Off)).unwrap();
    let mut batch = SendBatch::default();
    let mut out = batch.to(&mut s);
    out.slot()[0] = 9;
    out.commit(1, peer, c.local_addr(), Codepoint::NotEct);
    batch.flush(&mut s);
    let mut got = Vec::new();
    all(Offload::Off, &c, |b, m| got.push((b.to_vec(), m.from)));
    assert_eq!(got, [(vec![9], peer)]);
}

#[test]
fn what_lies_end_to_end_arrives_each_with_its_own_tos() {
    for offload in [Offload::Auto, Offload::Off] {
        let s = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(offload)).unwrap();
        let mut c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(offload)).unwrap();
        // More runs than one call takes, and more in a run than one message takes.
        let lengths = (0..300).map(|i| if i < 100 { 1 + i % 2 } else { 700 });
        let each: Vec<(usize, u8)> = lengths.enumerate().map(|(i, len)| (len, [0, 2, 3][i / 50 % 3])).collect();
        let bytes: Vec<u8> = each.iter().enumerate().flat_map(|(i, (len, _))| vec![i as u8; *len]).collect();
        let (local, to, mut batch) = (c.local_addr(), s.local_addr(), SendBatch::default());
        batch.to(&mut c).slot()[0] = 77;
        batch.to(&mut c).commit(1, local, to, Codepoint::Ect0);
        batch.send_all(&mut c, &bytes, each.iter().copied(), local, to);
        assert_eq!((batch.dropped, batch.error.is_none()), (0, true));
        // Without CAP_NET_ADMIN the buffer may be too small for all; then the last ones are missing.
        let room = s.recv_buffer_bytes().unwrap() >= options(offload).buffer_bytes;
        let mut got = Vec::new();
        // A busy kernel delivers late, so there is a pause until it has.
        for _ in 0..1000 {
            all(offload, &s, |bytes, meta| got.push((bytes.to_vec(), meta.tos)));
            if got.len() == 301 || !room {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(got.remove(0), (vec![77], 2), "what was collected before leaves first");
        let sent = each.iter().enumerate().map(|(i, (len, tos))| (vec![i as u8; *len], *tos));
        assert!(got.iter().cloned().eq(sent.take(if room { 300 } else { got.len() })), "{} came", got.len());
    }
}

#[test]
fn a_closed_port_is_reported() {
    let gone = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
    let peer = gone.local_addr();
    let mut c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), Some(peer), &options(Offload::Off)).unwrap();
    drop(gone);
    let mut batch = SendBatch::default();
    let local = c.local_addr();
    batch.to(&mut c).commit(100, local, peer, Codepoint::NotEct);
    batch.flush(&mut c);
    let e = RecvBatch::new(Offload::Off).receive(&c, |_, _| {}).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn what_the_kernel_refuses_is_counted_and_the_rest_goes_on() {
    let s = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
    let to = s.local_addr();
    let mut c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
    let local = c.local_addr();
    let mut batch = SendBatch::default();
    let unreachable = "[::1]:1".parse().unwrap();
    for to in [to, unreachable, to] {
        batch.to(&mut c).commit(10, local, to, Codepoint::NotEct);
    }
    batch.flush(&mut c);
    assert_eq!(batch.dropped, 1);
    let mut n = 0;
    all(Offload::Off, &s, |_, _| n += 1);
    assert_eq!(n, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    // Datagrams of any lengths to two receivers in any order: each gets its own, whole and in order, whatever runs
    // and batches they made.
    #[test]
    fn batches_of_any_shape_arrive(
        shape in prop::collection::vec((0usize..2, 1usize..5, 1usize..=MAX_PAYLOAD_BYTES), 1..60),
        offload in prop_oneof![Just(Offload::Auto), Just(Offload::Off)],
    ) {
        let open = || UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &SocketOptions {
            buffer_bytes: 1 << 25,
            ..options(offload)
        }).unwrap();
        let (receivers, mut sender) = ([open(), open()], open());
        let local = sender.local_addr();
        let mut batch = SendBatch::default();
        let mut sent = [Vec::new(), Vec::new()];
        for (n, (to, run, len)) in shape.into_iter().enumerate() {
            for i in 0..run {
                let mut out = batch.to(&mut sender);
                let mark = (n * 8 + i) as u16;
                out.slot()[..len].fill(n as u8);
                out.slot()[..2].copy_from_slice(&mark.to_le_bytes());
                let len = len.max(2);
                sent[to].push((len, mark));
                out.commit(len, local, receivers[to].local_addr(), Codepoint::NotEct);
            }
        }
        batch.flush(&mut sender);
        prop_assert_eq!(batch.dropped, 0, "{:?}", batch.error);
        for (receiver, sent) in receivers.iter().zip(sent) {
            let mut got = Vec::new();
            all(offload, receiver, |bytes, _| {
                got.push((bytes.len(), u16::from_le_bytes([bytes[0], bytes[1]])));
                assert!(bytes[2..].iter().all(|b| *b == bytes[2]), "a datagram's bytes are all its own");
            });
            // Without CAP_NET_ADMIN the buffer may be too small for all; then the last ones are missing.
            let room = receiver.recv_buffer_bytes().unwrap() >= 1 << 25;
            prop_assert!(if room { got == sent } else { sent.starts_with(&got) }, "{:?} of {:?}", got, sent);
        }
    }
}
