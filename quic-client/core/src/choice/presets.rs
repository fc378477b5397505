// SPDX-License-Identifier: Apache-2.0
//! Applications' requirements on completion time and jitter (Tan Table 4).

use std::time::Duration;

/// One row of Tan Table 4.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AppPreset {
    /// Name on the command line.
    pub name: &'static str,
    /// Weight `a` of the mean; the variance has `b = 1 - a`.
    pub weight_a: f64,
    /// Completion time the application can bear.
    pub tct_limit: Duration,
    /// Jitter it can bear; `None` where the table has N/A.
    pub jitter_limit: Option<Duration>,
}

const fn row(name: &'static str, weight_a: f64, tct_limit_ms: u64, jitter_limit_ms: Option<u64>) -> AppPreset {
    let jitter_limit = match jitter_limit_ms {
        Some(ms) => Some(Duration::from_millis(ms)),
        None => None,
    };
    AppPreset { name, weight_a, tct_limit: Duration::from_millis(tct_limit_ms), jitter_limit }
}

/// All rows of Tan Table 4, in its order.
pub const PRESETS: &[AppPreset] = &[
    row("bulk-data-transfer", 1.0, 15_000, None),
    row("command-control", 1.0, 250, None),
    row("movie-clips", 0.5, 10_000, Some(2_000)),
    row("online-shopping", 0.8, 2_000, Some(100)),
    row("realtime-games", 1.0, 75, None),
    row("realtime-video", 0.5, 10_000, Some(2_000)),
    row("still-image", 1.0, 10_000, None),
    row("surveillance", 0.5, 10_000, Some(2_000)),
    row("transaction-services", 1.0, 4_000, None),
    row("videophone", 0.2, 150, Some(10)),
    row("voice-call", 0.2, 150, Some(1)),
    row("voice-messaging", 0.1, 1_000, Some(1)),
    row("web-browsing", 0.8, 4_000, None),
];

/// The preset of that name.
pub fn by_name(name: &str) -> Option<&'static AppPreset> {
    PRESETS.iter().find(|p| p.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_4() {
        assert_eq!(PRESETS.len(), 13);
        assert_eq!(by_name("web-browsing").map(|p| p.weight_a), Some(0.8));
        let call = by_name("voice-call").unwrap();
        assert_eq!((call.weight_a, call.jitter_limit), (0.2, Some(Duration::from_millis(1))));
        assert_eq!(by_name("Web-browsing"), None);
    }
}
