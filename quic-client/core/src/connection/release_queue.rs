// SPDX-License-Identifier: Apache-2.0
//! Packets waiting for the time at which they may be sent.
//!
//! quiche's pacer never makes up for lateness: if it is asked for a packet after that packet's time, the next times
//! count from then. So packets are asked for ahead of time and wait here.

use quiche::hooks::Codepoint;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Packets due within this time are sent now. The quantum limits wake-ups at high rates (at 1 Gbit/s a packet is due
/// every 11 us), and is too short to matter to a queue at the rates studied (1.1 ms a packet at 10 Mbit/s).
pub const QUANTUM: Duration = Duration::from_micros(50);

/// A datagram ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// UDP payload.
    pub bytes: Vec<u8>,
    /// Local address to send from.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// ECN codepoint.
    pub ecn: Codepoint,
}

/// Queue of packets in the order they were made, each with its release time.
#[derive(Debug, Default)]
pub struct ReleaseQueue {
    queue: VecDeque<(Instant, Packet)>,
}

impl ReleaseQueue {
    /// Adds a packet that may leave at `at`. Order is kept: a packet never overtakes one made before it.
    pub fn push(&mut self, at: Instant, packet: Packet) {
        self.queue.push_back((at, packet));
    }

    /// The next packet if it is due (see [`QUANTUM`]).
    pub fn pop_due(&mut self, now: Instant) -> Option<Packet> {
        if self.next_release()? <= now + QUANTUM { self.queue.pop_front().map(|(_, p)| p) } else { None }
    }

    /// When the next packet is due.
    pub fn next_release(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all waiting packets (a closed connection sends nothing more).
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(n: u8) -> Packet {
        let a = "127.0.0.1:1".parse().unwrap();
        Packet { bytes: vec![n], from: a, to: a, ecn: Codepoint::NotEct }
    }

    #[test]
    fn waits_for_its_time() {
        let t0 = Instant::now();
        let mut q = ReleaseQueue::default();
        assert!(q.is_empty() && q.pop_due(t0).is_none());
        q.push(t0 + Duration::from_millis(5), packet(1));
        assert_eq!(q.pop_due(t0), None);
        assert_eq!(q.next_release(), Some(t0 + Duration::from_millis(5)));
        assert_eq!(q.pop_due(t0 + Duration::from_micros(4950)), Some(packet(1)));
        assert!(q.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_leaves_early_or_overtakes(
            gaps_us in prop::collection::vec(0u64..3000, 1..40),
            step_us in 1u64..2000,
        ) {
            let t0 = Instant::now();
            let mut q = ReleaseQueue::default();
            let mut at = t0;
            let mut due = Vec::new();
            for (i, g) in gaps_us.iter().enumerate() {
                at += Duration::from_micros(*g);
                q.push(at, packet(i as u8));
                due.push(at);
            }
            let mut now = t0;
            let mut next = 0;
            while !q.is_empty() {
                while let Some(p) = q.pop_due(now) {
                    prop_assert_eq!(p.bytes[0] as usize, next);
                    prop_assert!(due[next] <= now + QUANTUM);
                    next += 1;
                }
                if let Some(t) = q.next_release() {
                    prop_assert!(t > now + QUANTUM);
                }
                now += Duration::from_micros(step_us);
            }
            prop_assert_eq!(next, gaps_us.len());
        }
    }
}
