// SPDX-License-Identifier: Apache-2.0
//! Path MTU discovery (RFC 8899) of one connection: a path begins at 1200 bytes (RFC 9000 14.2), quiche probes upwards
//! on the active path, and this module takes it back where larger packets get lost (black holes, RFC 8899 4.3).

use quiche::hooks::{self, BASE_MTU_BYTES, PacketSizes};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Losses of larger packets one after the other, without one that was acknowledged, that make a black hole; as many as
/// probes of one size (MAX_PROBES, RFC 8899 5.1.2). Losses found at the same time count once: a full queue drops many.
const MOST_LOSSES: u32 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 5.1.1): a path may come to carry more.
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The packet sizes of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PathMtu {
    /// The upper bound of the search; `None`: no path MTU is discovered.
    most_bytes: Option<usize>,
    black_hole: BlackHole,
    raise_at: Option<Instant>,
}

/// Whether larger packets get lost while smaller ones may arrive.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlackHole {
    losses: u32,
    /// Probe timeouts since a packet of any size was acknowledged.
    timeouts: u32,
    /// quiche's count of probe timeouts.
    counted: usize,
}

impl BlackHole {
    /// Packets were acknowledged or declared lost. True if the path is a black hole for packets above the base size.
    fn observe(&mut self, sizes: PacketSizes, timeouts: usize) -> bool {
        let timed_out = std::mem::replace(&mut self.counted, timeouts) < timeouts;
        if sizes.acked > 0 {
            self.timeouts = 0;
        } else if timed_out {
            self.timeouts += 1;
        }
        if sizes.acked > BASE_MTU_BYTES {
            self.losses = 0;
        } else if sizes.lost > BASE_MTU_BYTES {
            self.losses += 1;
        }
        self.losses >= MOST_LOSSES || self.timeouts >= MOST_LOSSES
    }
}

impl PathMtu {
    /// For a connection just made.
    pub fn new(quic: &quiche::Connection) -> Self {
        PathMtu { most_bytes: hooks::mtu_bound(quic), ..PathMtu::default() }
    }

    /// The handshake is done, and the peer's limit known (max_udp_payload_size, RFC 9000 18.2).
    pub fn established(&mut self, quic: &mut quiche::Connection) {
        let Some(most) = self.most_bytes else { return };
        let limit = quic.peer_transport_params().map_or(u64::MAX, |p| p.max_udp_payload_size);
        let bound = most.min(usize::try_from(limit).unwrap_or(usize::MAX)).max(BASE_MTU_BYTES);
        if bound < most {
            self.most_bytes = Some(bound);
            hooks::restart_mtu_search(quic, bound);
        }
    }

    /// After packets came in or a timer fired.
    pub fn observe(&mut self, quic: &mut quiche::Connection, sizes: PacketSizes) {
        let Some(most) = self.most_bytes else { return };
        let timeouts = quic.path_stats().find(|p| p.active).map_or(0, |p| p.total_pto_count);
        if self.black_hole.observe(sizes, timeouts) {
            self.black_hole = BlackHole { counted: timeouts, ..BlackHole::default() };
            if hooks::mtu(quic) > BASE_MTU_BYTES {
                hooks::restart_mtu_search(quic, most);
            }
        }
    }

    /// Before packets are made.
    pub fn turn(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let Some(most) = self.most_bytes else { return };
        hooks::discover_mtu(quic, most);
        if now >= *self.raise_at.get_or_insert(now + RAISE_AFTER) {
            self.raise_at = Some(now + RAISE_AFTER);
            hooks::raise_mtu(quic, most);
        }
    }

    /// The kernel refused a datagram of this size.
    pub fn refused(&mut self, quic: &mut quiche::Connection, from: SocketAddr, to: SocketAddr, bytes: usize) {
        if let Some(most) = self.most_bytes {
            hooks::refuse_size(quic, from, to, bytes, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 1350;

    fn sizes(acked: usize, lost: usize) -> PacketSizes {
        PacketSizes { acked, lost }
    }

    #[test]
    fn large_packets_lost_beside_small_ones_that_arrive() {
        let mut b = BlackHole::default();
        assert!(!b.observe(sizes(100, LARGE), 0) && !b.observe(sizes(1200, LARGE), 0));
        assert!(b.observe(sizes(100, LARGE), 0));
    }

    #[test]
    fn a_large_packet_that_arrives_ends_the_suspicion() {
        let mut b = BlackHole::default();
        for _ in 0..10 {
            assert!(!b.observe(sizes(100, LARGE), 0) && !b.observe(sizes(100, LARGE), 0));
            assert!(!b.observe(sizes(1201, LARGE), 0));
        }
    }

    #[test]
    fn small_packets_lost_are_no_black_hole() {
        let mut b = BlackHole::default();
        assert!((0..100).all(|_| !b.observe(sizes(0, 1200), 0)));
    }

    #[test]
    fn timeouts_count_while_nothing_arrives() {
        let mut b = BlackHole::default();
        assert!(!b.observe(sizes(0, 0), 1) && !b.observe(sizes(0, 0), 1) && !b.observe(sizes(0, 0), 2));
        // A probe of a size that the path does not carry times out alone; the next packet is acknowledged.
        assert!(!b.observe(sizes(40, 0), 2) && !b.observe(sizes(0, 0), 3) && !b.observe(sizes(0, 0), 4));
        assert!(b.observe(sizes(0, 0), 5));
    }
}
