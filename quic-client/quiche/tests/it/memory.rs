// SPDX-License-Identifier: Apache-2.0
//! Memory of received data is counted: behind a gap, and of frames that have not come whole.

use crate::pair::{self, config, plain, Pair};
use quiche::hooks::{drop_unread, unread, unread_frames_bytes, Unread};
use std::time::Duration;

const STREAM: u64 = 0;
const PIECE_BYTES: u64 = 1000;

/// Both ends, and no wire.
fn ends() -> (quiche::Connection, quiche::Connection) {
    // HTTP/3 has streams of one way.
    let both = || {
        let mut config = config();
        config.set_initial_max_streams_uni(3);
        config.set_initial_max_stream_data_uni(64 * 1024);
        config
    };
    let mut pair = Pair::new(&mut both(), &mut both(), 1_000_000_000, Duration::ZERO);
    pair.establish(&mut plain);
    let Pair { mut client, mut server, .. } = pair;
    // Remaining packets of the handshake.
    for _ in 0..4 {
        to_server(&mut server, packets(&mut client));
        to_client(&mut client, packets(&mut server));
    }
    (client, server)
}

fn packets(quic: &mut quiche::Connection) -> Vec<Vec<u8>> {
    let mut room = [0; 1350];
    std::iter::from_fn(|| quic.send(&mut room).ok().map(|(n, _)| room[..n].to_vec())).collect()
}

fn to_server(server: &mut quiche::Connection, packets: Vec<Vec<u8>>) {
    let info = quiche::RecvInfo { from: pair::client_addr(), to: pair::server_addr() };
    for mut packet in packets {
        assert_eq!(server.recv(&mut packet, info), Ok(packet.len()));
    }
}

fn to_client(client: &mut quiche::Connection, packets: Vec<Vec<u8>>) {
    let info = quiche::RecvInfo { from: pair::server_addr(), to: pair::client_addr() };
    for mut packet in packets {
        assert_eq!(client.recv(&mut packet, info), Ok(packet.len()));
    }
}

/// So many pieces of a stream, each in a packet of its own, whose bytes show their offset.
fn pieces(client: &mut quiche::Connection, count: u64) -> Vec<Vec<u8>> {
    let piece = |n: u64| (0..PIECE_BYTES).map(|i| ((n * PIECE_BYTES + i) % 251) as u8).collect::<Vec<u8>>();
    (0..count)
        .map(|n| {
            assert_eq!(client.stream_send(STREAM, &piece(n), false), Ok(PIECE_BYTES as usize));
            let [packet] = packets(client).try_into().expect("one packet");
            packet
        })
        .collect()
}

fn all_read(server: &mut quiche::Connection) -> Vec<u8> {
    let (mut bytes, mut room) = (vec![], [0; 65536]);
    while let Ok((n, _)) = server.stream_recv(STREAM, &mut room) {
        bytes.extend_from_slice(&room[..n]);
    }
    bytes
}

#[test]
fn what_is_behind_a_gap_counts_until_the_gap_is_filled() {
    let (mut client, mut server) = ends();
    assert_eq!(unread(&server), Unread::default());
    let mut sent = pieces(&mut client, 8);
    let first = sent.remove(0);
    // Every second one: missing bytes between them count as if it were there, up to a bound.
    let (kept, missing): (Vec<_>, Vec<_>) = sent.into_iter().enumerate().partition(|(n, _)| n % 2 == 1);
    to_server(&mut server, kept.into_iter().map(|(_, packet)| packet).collect());
    assert_eq!(all_read(&mut server).len(), 0);
    assert_eq!(unread(&server), Unread { bytes: 3 * 1350, pieces: 3 }, "no more than packets can carry");
    to_server(&mut server, missing.into_iter().map(|(_, packet)| packet).collect());
    assert_eq!(unread(&server), Unread { bytes: 8 * PIECE_BYTES, pieces: 7 });
    to_server(&mut server, vec![first]);
    let bytes = all_read(&mut server);
    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
    assert_eq!((bytes.len() as u64, unread(&server)), (8 * PIECE_BYTES, Unread::default()));
}

// A piece that was late was sent again together with what was lost before it, so that pieces overlap: only what is new of
// each is kept, and it is right.
#[test]
fn parts_of_pieces_are_kept_and_read_as_they_were_sent() {
    let (mut client, mut server) = ends();
    let sent = pieces(&mut client, 8);
    to_server(&mut server, vec![sent[5].clone()]);
    to_client(&mut client, packets(&mut server));
    let again = packets(&mut client);
    assert!(again.iter().any(|packet| packet.len() as u64 > PIECE_BYTES + 200), "it reaches into the next piece");
    to_server(&mut server, vec![sent[1].clone()]);
    to_server(&mut server, again);
    to_server(&mut server, [3, 4, 6, 7].map(|n| sent[n].clone()).to_vec());
    let bytes = all_read(&mut server);
    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
    assert_eq!((bytes.len() as u64, unread(&server)), (8 * PIECE_BYTES, Unread::default()));
}

#[test]
fn what_is_dropped_counts_no_more() {
    let (mut client, mut server) = ends();
    let sent = pieces(&mut client, 4);
    to_server(&mut server, sent[1..].to_vec());
    assert_eq!(unread(&server).pieces, 3);
    drop_unread(&mut server);
    assert_eq!(unread(&server), Unread::default());
}

#[test]
fn a_header_that_does_not_come_whole_counts() {
    let (mut client, mut server) = ends();
    let mut h3 = quiche::h3::Connection::with_transport(&mut server, &quiche::h3::Config::new().unwrap()).unwrap();
    let before = unread_frames_bytes(&h3);
    // HEADERS (RFC 9114 7.2.2) of 40,000 bytes, and a quarter of them.
    let begun = [&[1, 0x80, 0, 0x9c, 0x40][..], &[0; 10_000]].concat();
    assert_eq!(client.stream_send(STREAM, &begun, false), Ok(begun.len()));
    for _ in 0..4 {
        to_server(&mut server, packets(&mut client));
        assert_eq!(h3.poll(&mut server), Err(quiche::h3::Error::Done));
        to_client(&mut client, packets(&mut server));
    }
    assert_eq!(unread(&server), Unread::default(), "HTTP/3 has read it");
    let held = unread_frames_bytes(&h3) - before;
    assert!((10_000..=40_000).contains(&held), "{held}");
}
