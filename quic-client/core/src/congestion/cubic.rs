// SPDX-License-Identifier: Apache-2.0
//! [`Cubic`]: window growth of RFC 9438, for paths without L4S. Windows are in packets.

use std::time::{Duration, Instant};

/// RFC 9438 4.1.2.
const C: f64 = 0.4;
/// RFC 9438 4.6: the window keeps this share.
pub const BETA: f64 = 0.7;
/// RFC 9438 4.3: packets per round trip, for the rate of Reno with this `BETA`.
const RENO_GROWTH: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State between two congestion events.
#[derive(Debug, Clone, Default)]
pub struct Cubic {
    /// Window before the last congestion event.
    most: f64,
    epoch: Option<Epoch>,
}

/// Growth since the last congestion event.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    began: Instant,
    /// Time until the curve is at `most` again, in seconds.
    k_s: f64,
    /// Window of Reno.
    reno: f64,
}

impl Cubic {
    /// A congestion event at this window: the window after it.
    pub fn cut(&mut self, window: f64) -> f64 {
        // RFC 9438 4.7: fast convergence.
        self.most = if window < self.most { window * (1.0 + BETA) / 2.0 } else { window };
        self.epoch = None;
        window * BETA
    }

    /// The window after so many acknowledged packets (RFC 9438 4.2 to 4.5).
    pub fn grow(&mut self, now: Instant, window: f64, acked: f64, rtt: Duration) -> f64 {
        let most = self.most.max(window);
        let epoch =
            self.epoch.get_or_insert_with(|| Epoch { began: now, k_s: ((most - window) / C).cbrt(), reno: window });
        let since_s = (now.saturating_duration_since(epoch.began) + rtt).as_secs_f64();
        let target = (C * (since_s - epoch.k_s).powi(3) + most).clamp(window, 1.5 * window);
        let growth = if epoch.reno < self.most { RENO_GROWTH } else { 1.0 };
        epoch.reno += growth * acked / window;
        let cubic = window + (target - window) * (acked / window).min(1.0);
        cubic.max(epoch.reno.min(window + acked))
    }

    /// Another algorithm has changed the window.
    pub fn restart(&mut self) {
        *self = Cubic::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_back_after_k_seconds() {
        let (t0, rtt) = (Instant::now(), Duration::from_millis(100));
        let mut cubic = Cubic::default();
        let mut window = cubic.cut(1000.0);
        assert_eq!(window, 700.0);
        // K is the cube root of 300 packets over C: 9.1 s. A packet less is reached 1.4 s earlier.
        let mut back = None;
        for turn in 1..200 {
            let now = t0 + turn * rtt;
            window = cubic.grow(now, window, window, rtt);
            if window >= 999.0 {
                back = back.or(Some(now - t0));
            }
        }
        let back = back.unwrap().as_secs_f64();
        assert!((7.0..9.5).contains(&back), "{back}");
        assert!(window > 1100.0, "{window}");
    }

    proptest! {
        #[test]
        fn a_window_never_shrinks_and_at_most_doubles(
            acks in prop::collection::vec((0u64..5_000, 0.0f64..100.0), 1..60),
            window in 0.1f64..10_000.0,
            cut in any::<bool>(),
            rtt_us in 1u64..1_000_000,
        ) {
            let mut cubic = Cubic::default();
            let mut window = if cut { cubic.cut(window) } else { window };
            let mut now = Instant::now();
            for (ms, acked) in acks {
                now += Duration::from_millis(ms);
                let next = cubic.grow(now, window, acked, Duration::from_micros(rtt_us));
                prop_assert!(next >= window && next <= window + acked.max(0.5 * window), "{window} {next} {acked}");
                window = next;
            }
        }
    }
}
