// SPDX-License-Identifier: Apache-2.0
//! Response times, and the time after which to ask again: beta.

use std::time::Duration;

/// The response time before any was measured (RFC 6298 2.1).
pub const FIRST_RESPONSE_TIME: Duration = Duration::from_secs(1);

/// A smoothed response time: from sending an Interest to its Data.
///
/// Only answers to what was asked once are samples (Karn): the caller leaves the others out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseTime {
    smoothed: Option<Duration>,
}

impl ResponseTime {
    /// A sample: the first is taken as it is, others count 1/8 (RFC 6298 2.3).
    pub fn sample(&mut self, time: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => time,
            Some(smoothed) => (smoothed * 7 + time) / 8,
        });
    }

    /// Whether there was a sample.
    pub fn is_measured(&self) -> bool {
        self.smoothed.is_some()
    }

    /// The smoothed time; [`FIRST_RESPONSE_TIME`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(FIRST_RESPONSE_TIME)
    }

    /// After how long to ask again: `beta` times the smoothed response time. Before the first sample it is that time
    /// itself.
    pub fn ask_again_after(&self, beta: f64) -> Duration {
        self.smoothed.map_or(FIRST_RESPONSE_TIME, |time| {
            // Beta is checked where it is read; a product out of range would panic.
            Duration::try_from_secs_f64(time.as_secs_f64() * beta).unwrap_or(Duration::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_is_taken_and_others_are_smoothed() {
        let mut time = ResponseTime::default();
        assert_eq!((time.smoothed(), time.ask_again_after(8.0)), (FIRST_RESPONSE_TIME, FIRST_RESPONSE_TIME));
        time.sample(Duration::from_millis(16));
        assert_eq!(time.smoothed(), Duration::from_millis(16));
        time.sample(Duration::from_millis(24));
        assert_eq!(time.smoothed(), Duration::from_millis(17));
        assert_eq!(time.ask_again_after(4.0), Duration::from_millis(68));
    }

    #[test]
    fn no_beta_breaks_it() {
        let mut time = ResponseTime::default();
        time.sample(Duration::from_secs(3600));
        for beta in [0.0, 1e300, f64::INFINITY, f64::NAN, -1.0] {
            let _ = time.ask_again_after(beta);
        }
    }
}
