// SPDX-License-Identifier: Apache-2.0
//! [`ClassicQueue`]: detection of a bottleneck whose AQM follows RFC 3168 (RFC 9331 4.3).
//!
//! An AQM for L4S marks at a queue of about a millisecond, one of RFC 3168 at several. So the delay of the rounds with
//! marks distinguishes them. A queue that others keep long on the same path, or a path that has become longer, has
//! the same delay: the flow then behaves as CUBIC does.

use std::time::Duration;

/// Least delay of a classic queue: below the target of CoDel (RFC 8289 4.3), above that of queues for L4S.
const LEAST_DELAY: Duration = Duration::from_millis(4);
/// Or so many packets at the flow's own rate: a queue is never shorter than the packets on the line.
const LEAST_PACKETS: u32 = 2;
/// Rounds with marks that decide.
const DECISIVE_ROUNDS: u32 = 12;

/// Evidence on a path.
#[derive(Debug, Clone, Default)]
pub struct ClassicQueue {
    rtt_sum: Duration,
    rtt_count: u32,
    /// Rounds with marks and a long queue, less those with a short one.
    score: u32,
    detected: bool,
}

impl ClassicQueue {
    /// Round-trip times were measured, with this mean.
    pub fn sample(&mut self, count: u32, mean: Duration) {
        self.rtt_sum = self.rtt_sum.saturating_add(mean.saturating_mul(count));
        self.rtt_count = self.rtt_count.saturating_add(count);
    }

    /// A round is over. `packet_time` is the time of a packet at the flow's rate.
    pub fn end_round(&mut self, is_marked: bool, least_rtt: Duration, packet_time: Duration) {
        let mean = std::mem::take(&mut self.rtt_sum).checked_div(std::mem::take(&mut self.rtt_count));
        let Some(queue) = mean.filter(|_| is_marked).map(|mean| mean.saturating_sub(least_rtt)) else { return };
        let is_long = queue > LEAST_DELAY.max(packet_time.saturating_mul(LEAST_PACKETS));
        self.score = if is_long { (self.score + 1).min(DECISIVE_ROUNDS) } else { self.score.saturating_sub(1) };
        self.detected = self.score == DECISIVE_ROUNDS || self.detected && self.score > 0;
    }

    /// Whether the bottleneck is one.
    pub fn is_detected(&self) -> bool {
        self.detected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rounds(queue: &mut ClassicQueue, number: u32, is_marked: bool, rtt: Duration) -> bool {
        for _ in 0..number {
            queue.sample(10, rtt);
            queue.end_round(is_marked, 20 * MS, MS);
        }
        queue.is_detected()
    }

    #[test]
    fn marks_at_a_long_queue_are_classic_and_at_a_short_one_are_not() {
        let mut queue = ClassicQueue::default();
        assert!(!rounds(&mut queue, 100, true, 22 * MS));
        assert!(!rounds(&mut queue, 100, false, 40 * MS));
        assert!(!rounds(&mut queue, 11, true, 30 * MS));
        assert!(rounds(&mut queue, 1, true, 30 * MS));
        // As many rounds lead back.
        assert!(rounds(&mut queue, 11, true, 22 * MS));
        assert!(!rounds(&mut queue, 1, true, 22 * MS));
    }

    #[test]
    fn packets_on_a_slow_line_are_no_queue() {
        let mut queue = ClassicQueue::default();
        for _ in 0..100 {
            queue.sample(1, 40 * MS);
            queue.end_round(true, 20 * MS, 12 * MS);
        }
        assert!(!queue.is_detected());
    }
}
