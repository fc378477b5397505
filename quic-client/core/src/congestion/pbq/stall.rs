// SPDX-License-Identifier: Apache-2.0
//! [`Stall`]: nothing came back for so long that the path's state may no longer hold (RFC 9002 7.6).

use std::time::Duration;

/// RFC 9002 7.6.1: so many probe timeouts.
const PROBE_TIMEOUTS: u32 = 3;
/// A probe timeout in smoothed round-trip times, with the variation that a first sample gives (RFC 9002 5.3, 6.2.1).
const PROBE_TIMEOUT_RTTS: u32 = 3;
/// RFC 9000 18.2: a peer's longest acknowledgement delay, by default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Time without acknowledgements while packets were in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stall(Duration);

impl Stall {
    /// An interval is over; whether the connection is stalled.
    pub fn is_on(&mut self, length: Duration, acked_bytes: u64, smoothed_rtt: Option<Duration>) -> bool {
        self.0 = if acked_bytes > 0 { Duration::ZERO } else { self.0.saturating_add(length) };
        let timeout = |rtt: Duration| rtt.saturating_mul(PROBE_TIMEOUT_RTTS).saturating_add(ACK_DELAY);
        smoothed_rtt.is_some_and(|rtt| self.0 > timeout(rtt).saturating_mul(PROBE_TIMEOUTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_probe_timeouts_without_an_acknowledgement() {
        let (mut stall, tenth) = (Stall::default(), Duration::from_millis(100));
        let rtt = Some(Duration::from_millis(50));
        // 3 * (150 + 25) ms.
        let mut rows = |acked: &[u64]| acked.iter().map(|bytes| stall.is_on(tenth, *bytes, rtt)).collect::<Vec<_>>();
        assert_eq!(rows(&[0, 0, 0, 0, 0, 0, 0, 1, 0]), [false, false, false, false, false, true, true, false, false]);
        assert!(!Stall::default().is_on(Duration::MAX, 0, None), "nothing is known before the first sample");
        assert!(Stall::default().is_on(Duration::MAX, 0, rtt));
    }
}
