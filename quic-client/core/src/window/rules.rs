// SPDX-License-Identifier: Apache-2.0
//! The published rules, as functions of one window at one update.

use std::time::Duration;

/// Whether updates come so fast that a window is worth raising: less than two RTT after the last one. Before the second
/// update there is no such time, and both rules leave the window alone.
fn fast_paced(since_last: Option<Duration>, rtt: Duration) -> bool {
    since_last.is_some_and(|t| t < rtt * 2)
}

/// quiche's rule, which is Google QUIC's: twice the window at a fast-paced update, up to its bound. All in bytes.
pub fn double(window: u64, bound: u64, since_last: Option<Duration>, rtt: Duration) -> u64 {
    if fast_paced(since_last, rtt) { window.saturating_mul(2).min(bound) } else { window }
}

/// Used share of a bound: the two parts of Lee & An Eq. 1 (a stream's window and bound) or Eq. 2 (the sum of the
/// streams' windows and the connection's bound), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that may be.
    pub bound_bytes: u64,
}

impl Occupancy {
    /// The increase factor (Lee & An Algorithm 1, lines 5 to 13).
    pub fn factor(self) -> u64 {
        let (used, bound) = (u128::from(self.used_bytes), u128::from(self.bound_bytes));
        match () {
            () if 4 * used >= 3 * bound => 2,
            () if 2 * used >= bound => 4,
            () if 4 * used >= bound => 8,
            () => 16,
        }
    }
}

/// Lee & An Algorithm 1, lines 4 to 15: at a fast-paced update the window times the factor, up to its bound. In bytes.
pub fn fast(window: u64, bound: u64, occupancy: Occupancy, since_last: Option<Duration>, rtt: Duration) -> u64 {
    if fast_paced(since_last, rtt) { window.saturating_mul(occupancy.factor()).min(bound) } else { window }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KB: u64 = 1024;
    const MB: u64 = 1024 * KB;
    const RTT: Duration = Duration::from_millis(100);
    const SOON: Option<Duration> = Some(Duration::from_millis(150));

    fn stream(window: u64, bound: u64) -> u64 {
        fast(window, bound, Occupancy { used_bytes: window, bound_bytes: bound }, SOON, RTT)
    }

    #[test]
    fn factors_of_algorithm_1() {
        let factor = |used_bytes| Occupancy { used_bytes, bound_bytes: 1000 }.factor();
        assert_eq!([0, 249, 250, 499, 500, 749, 750, 1000, 2000].map(factor), [16, 16, 8, 8, 4, 4, 2, 2, 2]);
    }

    // Section 3: bounds of 128 and 256 KB, windows of 4 and 8 KB at the start.
    #[test]
    fn section_3_example() {
        assert_eq!(stream(4 * KB, 128 * KB), 64 * KB);
        // 50 % gives the factor 4; the bound stops it.
        assert_eq!(Occupancy { used_bytes: 64 * KB, bound_bytes: 128 * KB }.factor(), 4);
        assert_eq!(stream(64 * KB, 128 * KB), 128 * KB);
    }

    // Where the paper differs from itself: in section 3 the first update raises the window; in section 4.1 "during the
    // two buffer updates" (the first of each stream) both windows stay, as they do in Google's rule and as Algorithm 1
    // has it, there being no time since a last update. The measured one stands.
    #[test]
    fn first_update_leaves_the_window() {
        let occupancy = Occupancy { used_bytes: 4 * KB, bound_bytes: 128 * KB };
        assert_eq!(fast(4 * KB, 128 * KB, occupancy, None, RTT), 4 * KB);
        assert_eq!(double(4 * KB, 128 * KB, None, RTT), 4 * KB);
    }

    // Section 4.1: 4 KB of 16 KB are 25 %: factor 8, 32 KB, cut to the bound, at once; doubling takes two updates.
    #[test]
    fn section_4_1_example() {
        assert_eq!(Occupancy { used_bytes: 4 * KB, bound_bytes: 16 * KB }.factor(), 8);
        assert_eq!(stream(4 * KB, 16 * KB), 16 * KB);
        assert_eq!(double(4 * KB, 16 * KB, SOON, RTT), 8 * KB);
        assert_eq!(double(8 * KB, 16 * KB, SOON, RTT), 16 * KB);
        // Eq. 2 for the connection of Table 1: two streams of 4 KB of its 32 KB.
        let connection = Occupancy { used_bytes: 8 * KB, bound_bytes: 32 * KB };
        assert_eq!(fast(8 * KB, 32 * KB, connection, SOON, RTT), 32 * KB);
    }

    // Section 4.2 and Fig. 11: 8 KB, then 128 KB, then 512 KB, "four times". Algorithm 1 gives 16 for 128 KB of 1 MB
    // (12.5 %), which ends at the bound. The algorithm stands.
    #[test]
    fn section_4_2_example_and_where_the_paper_leaves_its_algorithm() {
        assert_eq!(stream(8 * KB, MB), 128 * KB);
        assert_eq!(Occupancy { used_bytes: 128 * KB, bound_bytes: MB }.factor(), 16);
        assert_eq!(stream(128 * KB, MB), MB);
        // Eq. 2 with Table 2: four streams of 8 KB of 64 MB.
        let connection = Occupancy { used_bytes: 32 * KB, bound_bytes: 64 * MB };
        assert_eq!(fast(32 * KB, 64 * MB, connection, SOON, RTT), 512 * KB);
    }

    #[test]
    fn slow_updates_leave_the_window() {
        let occupancy = Occupancy { used_bytes: 8 * KB, bound_bytes: MB };
        assert_eq!(fast(8 * KB, MB, occupancy, Some(RTT * 2), RTT), 8 * KB);
        assert_eq!(double(8 * KB, MB, Some(RTT * 2), RTT), 8 * KB);
    }

    proptest! {
        #[test]
        fn never_shrink_nor_pass_the_bound(window in 0..u64::MAX, bound: u64, used: u64, ms in 0..1000u64) {
            let window = window.min(bound);
            let since = Some(Duration::from_millis(ms));
            let occupancy = Occupancy { used_bytes: used, bound_bytes: bound };
            for next in [double(window, bound, since, RTT), fast(window, bound, occupancy, since, RTT)] {
                prop_assert!(window <= next && next <= bound);
            }
            let (d, f) = (double(window, bound, since, RTT), fast(window, bound, occupancy, since, RTT));
            prop_assert!(f >= d);
        }
    }
}
