// SPDX-License-Identifier: Apache-2.0
//! Patch `received-numbers`: late packets are accepted, duplicates never.

use crate::pair::{client_addr, config, plain, server_addr, Pair};
use proptest::prelude::*;
use quiche::hooks::ReceivedNumbers;
use quiche::RecvInfo;
use std::collections::HashSet;
use std::time::Duration;

/// Bytes of a flight, in more packets than quiche's own window of 128 numbers is wide.
const FLIGHT_BYTES: usize = 600_000;
/// Packets of the flight that arrive last. Those before are sent with packet numbers of one byte, which cannot be decoded
/// that late.
const LATE: std::ops::Range<usize> = 200..203;

proptest! {
    #[test]
    fn numbers_are_those_that_were_inserted(numbers in prop::collection::vec(0u64..2000, 0..1500)) {
        let (mut received, mut model) = (ReceivedNumbers::default(), HashSet::new());
        for number in numbers {
            prop_assert_eq!(received.contains(number), model.contains(&number));
            received.insert(number);
            model.insert(number);
        }
        for number in 0..2001 {
            prop_assert_eq!(received.contains(number), model.contains(&number));
        }
    }

    #[test]
    fn what_was_received_stays_so_with_any_number_of_gaps(numbers in prop::collection::vec(any::<u64>(), 0..3000)) {
        let mut received = ReceivedNumbers::default();
        for number in &numbers {
            received.insert(*number >> 2);
        }
        for number in &numbers {
            prop_assert!(received.contains(*number >> 2));
        }
    }
}

#[test]
fn the_oldest_gap_is_closed_beyond_the_limit() {
    let mut received = ReceivedNumbers::default();
    for gap in 0..1025 {
        received.insert(2 * gap + 1);
    }
    assert!(received.contains(0), "closed");
    assert!(!received.contains(2), "kept");
}

#[test]
fn a_packet_behind_two_hundred_later_ones_is_not_dropped() {
    let mut settings = config();
    settings.set_initial_max_data(1 << 20);
    settings.set_initial_max_stream_data_bidi_remote(1 << 20);
    settings.set_initial_congestion_window_packets(600);
    let mut other = config();
    other.set_initial_congestion_window_packets(600);
    let mut pair = Pair::new(&mut settings, &mut other, 100_000_000, Duration::from_millis(10));
    pair.establish(&mut plain);
    assert_eq!(pair.server.stream_send(1, &vec![7; FLIGHT_BYTES], true), Ok(FLIGHT_BYTES));
    let mut flight = Vec::new();
    let mut datagram = [0; 1350];
    while let Ok((length, _)) = pair.server.send(&mut datagram) {
        flight.push(datagram[..length].to_vec());
    }
    assert!(flight.len() > LATE.end + 200, "{} packets", flight.len());
    let late: Vec<_> = flight.drain(LATE).collect();
    flight.extend(late);
    let way = RecvInfo { from: server_addr(), to: client_addr() };
    for datagram in &mut flight {
        pair.client.recv(datagram, way).unwrap();
    }
    let mut buffer = vec![0; FLIGHT_BYTES];
    let mut got = 0;
    while let Ok((length, _)) = pair.client.stream_recv(1, &mut buffer) {
        got += length;
    }
    assert_eq!(got, FLIGHT_BYTES, "without a retransmission");
}
