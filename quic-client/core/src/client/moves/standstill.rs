// SPDX-License-Identifier: Apache-2.0
//! Whether a download came to a standstill when its connection moved.
//!
//! A server may not repeat packets that were in flight on the path that the client left: quiche 0.30 never does (its
//! issue 2452). It answers on the new path, but bytes of the stream stay missing, and the client would wait for ever.
//! Only a new request helps then.

use std::time::{Duration, Instant};

/// So many probe timeouts may pass without a byte. A server that repeats the packets needs one round trip after the
/// move, perhaps two.
const PATIENCE_PTOS: u32 = 3;

/// Watches a download from a move on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// The move, or the last byte after it.
    since: Instant,
}

impl Standstill {
    /// The connection moved.
    pub fn new(moved: Instant) -> Self {
        Standstill { since: moved }
    }

    /// The task got bytes.
    pub fn progress(&mut self, now: Instant) {
        self.since = now;
    }

    /// When it has lasted long enough; `pto` is the path's probe timeout.
    pub fn patience_ends(&self, pto: Duration) -> Instant {
        self.since + pto * PATIENCE_PTOS
    }

    /// Whether to repeat the request: the standstill lasted long enough although packets of the server came in
    /// meanwhile, the last at `heard`. If none came in, the path is at fault, not the server.
    pub fn is_over(&self, now: Instant, pto: Duration, heard: Option<Instant>) -> bool {
        now >= self.patience_ends(pto) && heard.is_some_and(|at| at > self.since + pto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_only_while_the_server_is_heard() {
        let ms = Duration::from_millis(1);
        let t0 = Instant::now();
        let mut s = Standstill::new(t0);
        let pto = 100 * ms;
        assert!(!s.is_over(t0 + 299 * ms, pto, Some(t0 + 250 * ms)));
        assert!(s.is_over(t0 + 300 * ms, pto, Some(t0 + 250 * ms)));
        assert!(!s.is_over(t0 + 900 * ms, pto, Some(t0 + 90 * ms)), "nothing heard since");
        assert!(!s.is_over(t0 + 900 * ms, pto, None));
        s.progress(t0 + 200 * ms);
        assert!(!s.is_over(t0 + 300 * ms, pto, Some(t0 + 250 * ms)));
        assert_eq!(s.patience_ends(pto), t0 + 500 * ms);
    }
}
