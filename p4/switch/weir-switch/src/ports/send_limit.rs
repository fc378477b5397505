// SPDX-License-Identifier: Apache-2.0
//! Bytes of one port that may wait in the kernel behind a packet socket: SO_SNDBUF. Pure.
//!
//! Packets there have left the switch's queue, so that neither the program nor its AQM sees them wait. The limit is therefore
//! the least that keeps the interface busy, found as the kernel's dynamic queue limits find theirs
//! (linux/dynamic_queue_limits.h): doubled when the interface ran empty while frames waited, lowered after a second
//! without that.
use crate::traffic_manager::NS_PER_S;

/// Bytes of kernel memory: seven full Ethernet frames, of 2304 bytes each with their buffer.
pub const LEAST_BYTES: usize = 16 << 10;
/// Two full frames: the kernel allows no smaller buffer (SOCK_MIN_SNDBUF).
const SMALLEST_BYTES: usize = 4608;
/// 1800 full frames: 2 ms at 10 Gbit/s, and an iteration of the packet thread on a busy machine.
pub const MOST_BYTES: usize = 4 << 20;

/// The limit of one socket.
#[derive(Debug, PartialEq, Eq)]
pub struct SendLimit {
    bytes: usize,
    /// Time of the last change.
    since_ns: u64,
}

impl Default for SendLimit {
    fn default() -> Self {
        SendLimit { bytes: LEAST_BYTES, since_ns: 0 }
    }
}

impl SendLimit {
    /// The limit as it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The socket is writable again, with so many bytes in the kernel, while frames wait. True: the limit has changed.
    pub fn writable(&mut self, in_kernel_bytes: usize, now_ns: u64) -> bool {
        let is_starved = in_kernel_bytes == 0;
        let bytes = if is_starved {
            self.bytes * 2
        } else if now_ns.saturating_sub(self.since_ns) >= NS_PER_S {
            self.bytes - self.bytes / 8
        } else {
            return false;
        };
        self.since_ns = now_ns;
        let bytes = bytes.max(self.bytes.min(LEAST_BYTES)).min(MOST_BYTES);
        std::mem::replace(&mut self.bytes, bytes) != bytes
    }

    /// The interface has dropped a frame with so many bytes of this socket in its queue, which may have less space than the
    /// limit. True: the limit is now what the queue held, and the frame is to wait.
    pub fn rejected(&mut self, in_kernel_bytes: usize) -> bool {
        let bytes = in_kernel_bytes.max(SMALLEST_BYTES);
        let is_queue_full = in_kernel_bytes > 0 && bytes < self.bytes;
        if is_queue_full {
            self.bytes = bytes;
        }
        is_queue_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_grows_while_the_interface_runs_empty_and_no_further_than_its_bound() {
        let mut limit = SendLimit::default();
        assert!(limit.writable(0, 1));
        assert_eq!(limit.bytes(), 2 * LEAST_BYTES);
        (0..20).for_each(|n| _ = limit.writable(0, n));
        assert_eq!(limit.bytes(), MOST_BYTES);
        assert!(!limit.writable(0, 30));
    }

    #[test]
    fn a_limit_becomes_the_space_of_a_small_queue_and_a_filter_s_drops_do_not_hold_frames() {
        let mut limit = SendLimit::default();
        assert!(!limit.rejected(0));
        assert!(limit.rejected(7000));
        assert_eq!(limit.bytes(), 7000);
        assert!(!limit.rejected(7000));
        assert!(limit.rejected(1));
        assert_eq!(limit.bytes(), SMALLEST_BYTES);
        assert!(!limit.rejected(1));
        assert!(!limit.writable(2304, NS_PER_S / 2));
        assert!(limit.writable(0, NS_PER_S));
        assert_eq!(limit.bytes(), 2 * SMALLEST_BYTES);
    }

    #[test]
    fn a_limit_shrinks_once_a_second_to_its_least() {
        let mut limit = SendLimit { bytes: MOST_BYTES, since_ns: 0 };
        assert!(!limit.writable(1, NS_PER_S - 1));
        assert!(limit.writable(1, NS_PER_S));
        assert_eq!(limit.bytes(), MOST_BYTES / 8 * 7);
        assert!(!limit.writable(1, 2 * NS_PER_S - 1));
        (2..100).for_each(|s| _ = limit.writable(1, s * NS_PER_S));
        assert_eq!(limit.bytes(), LEAST_BYTES);
    }
}
