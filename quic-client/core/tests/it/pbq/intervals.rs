// SPDX-License-Identifier: Apache-2.0
//! Intervals to feed a control with.

use std::time::{Duration, Instant};
use weir_core::congestion::{Interval, RttSamples};

pub const PACKET_BYTES: usize = 1350;
const MS: Duration = Duration::from_millis(1);

/// An interval of 100 ms on a path of 50 ms: the window was full, and nothing was lost.
pub fn calm(window_bytes: u64) -> Interval {
    let now = Instant::now();
    Interval {
        now,
        length: 100 * MS,
        sent_bytes: 20_000,
        acked_bytes: 20_000,
        lost_bytes: 0,
        ect_acked_packets: 0,
        ce_packets: 0,
        in_flight_bytes: window_bytes,
        most_in_flight_bytes: window_bytes,
        window_bytes,
        pacing_rate_bytes_s: Some(200_000),
        startup_over: true,
        rtt: Some(RttSamples {
            now,
            count: 3,
            latest: 55 * MS,
            mean: 52 * MS,
            least_of_these: 50 * MS,
            least: 50 * MS,
            there: None,
        }),
    }
}
