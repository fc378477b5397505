// SPDX-License-Identifier: Apache-2.0
//! The quantities that inputs and ranges are made of, by name.

use std::fmt;

/// Measurements of an interval (docs/design/pbq-weights-format.md, "Inputs"). Seconds, bytes, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The largest packet.
    pub packet_bytes: f64,
    /// The window at the end.
    pub window_bytes: f64,
    /// True length.
    pub interval_s: f64,
    /// The length asked for.
    pub nominal_s: f64,
    /// Acknowledged, over the true length.
    pub rate_bytes_s: f64,
    /// The greatest rate in memory.
    pub rate_greatest_bytes_s: f64,
    /// Mean round-trip time.
    pub rtt_mean_s: f64,
    /// The last one.
    pub rtt_last_s: f64,
    /// Round-trip time without a queue on the forward path: the least one in memory, plus the present acknowledgement
    /// delay, if that is known.
    pub rtt_least_s: f64,
    /// The least one in memory.
    pub path_s: f64,
    /// The least round-trip time of the interval, if acknowledgements had waited no longer than they ever did; `None`
    /// without a round-trip time.
    pub probed_s: Option<f64>,
    /// Bytes lost, over bytes lost or acknowledged.
    pub loss_share: f64,
    /// Packets that arrived with CE, over packets sent with ECT and acknowledged.
    pub ce_share: f64,
    /// The pacing rate of the algorithm below.
    pub pacing_bytes_s: f64,
    /// The most in flight.
    pub in_flight_bytes: f64,
}

/// A quantity: one row of [`QUANTITIES`].
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its name in a weights file.
    pub name: &'static str,
    of: fn(&Measured) -> f64,
}

/// All quantities.
pub const QUANTITIES: &[Quantity] = &[
    Quantity { name: "window_packets", of: |m| m.window_bytes / m.packet_bytes },
    Quantity { name: "interval_s", of: |m| m.interval_s },
    Quantity { name: "rate_bytes_s", of: |m| m.rate_bytes_s },
    Quantity { name: "rtt_mean_s", of: |m| m.rtt_mean_s },
    Quantity { name: "rtt_last_s", of: |m| m.rtt_last_s },
    Quantity { name: "rtt_least_s", of: |m| m.rtt_least_s },
    Quantity { name: "loss_share", of: lost_or_marked },
    Quantity { name: "ce_share", of: |m| m.ce_share },
    Quantity { name: "pacing_bytes_s", of: |m| m.pacing_bytes_s },
    Quantity { name: "rate_greatest_bytes_s", of: |m| m.rate_greatest_bytes_s },
    Quantity { name: "window_bdp", of: |m| ratio(m.window_bytes, m.rate_greatest_bytes_s * m.rtt_least_s) },
    Quantity { name: "rate_ratio", of: |m| ratio(m.rate_bytes_s, m.rate_greatest_bytes_s) },
    Quantity { name: "pacing_ratio", of: |m| ratio(m.pacing_bytes_s, m.rate_greatest_bytes_s) },
    Quantity { name: "rtt_mean_ratio", of: |m| ratio(m.rtt_mean_s, m.rtt_least_s) },
    Quantity { name: "rtt_last_ratio", of: |m| ratio(m.rtt_last_s, m.rtt_least_s) },
    Quantity { name: "interval_ratio", of: |m| ratio(m.interval_s, m.nominal_s) },
    Quantity { name: "queued_packets", of: |m| m.rate_bytes_s * (m.rtt_mean_s - m.rtt_least_s) / m.packet_bytes },
    Quantity { name: "in_flight_share", of: |m| ratio(m.in_flight_bytes, m.window_bytes) },
    Quantity { name: "window_inverse", of: |m| ratio(m.packet_bytes, m.window_bytes) },
    Quantity { name: "surplus_share", of: surplus_share },
];

// A mark stands for the loss that a queue without ECN would have caused (RFC 9002 7.1).
fn lost_or_marked(m: &Measured) -> f64 {
    m.loss_share + (1.0 - m.loss_share) * m.ce_share
}

// Little's law: a path of no queue holds the bytes that leave it in its least round-trip time. Lost bytes left it too.
fn surplus_share(m: &Measured) -> f64 {
    let left_bytes_s = ratio(m.rate_bytes_s, 1.0 - m.loss_share);
    ratio(m.in_flight_bytes.min(m.window_bytes) - left_bytes_s * m.rtt_least_s, m.window_bytes)
}

// Nothing was delivered yet, or the path has no delay: a ratio to that says nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Quantity {
    /// The quantity of this name.
    ///
    /// # Errors
    /// There is none; the names that there are.
    pub fn named(name: &str) -> Result<Quantity, String> {
        QUANTITIES.iter().find(|quantity| quantity.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
            format!("'{name}' is no quantity, expected of {}", names.join(", "))
        })
    }

    /// Its value in an interval.
    pub fn of(&self, measured: &Measured) -> f64 {
        (self.of)(measured)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
