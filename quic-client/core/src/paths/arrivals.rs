// SPDX-License-Identifier: Apache-2.0
//! On which path the server's answers arrive, compared with the path of the requests.
//!
//! A client that moves expects answers on the path it moved to (RFC 9000 9.3). Some servers stay on another path:
//! picoquic sends to the address that last answered one of its challenges, whichever path requests come on. From any
//! server, answers of the round trip before a move come over the old path; and a server that validates the new address
//! first uses the old path for one more round trip. So a server is taken to be elsewhere when nothing came over the
//! path in use for longer than that.

use crate::choice::PathId;
use std::time::{Duration, Instant};

/// A server is elsewhere after so many packets over another path and so many probe timeouts without one over the path
/// in use.
const PACKETS: u64 = 4;
const PTOS: u32 = 3;

/// Watches where packets arrive that are no part of a path's validation.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// The move, the question, or the latest answer over the path in use.
    since: Option<Instant>,
    /// Bytes that came over other paths since then.
    elsewhere: Vec<(PathId, u64)>,
}

impl Arrivals {
    /// The connection moved, or an answer is due from now on.
    pub fn anew(&mut self, now: Instant) {
        self.since = Some(now);
        self.elsewhere.clear();
    }

    /// So many packets came in over a path; `active`: it is the one in use.
    pub fn heard(&mut self, path: PathId, packets: u64, active: bool, at: Instant) {
        if active {
            self.anew(at);
        } else if let Some((_, n)) = self.elsewhere.iter_mut().find(|(p, _)| *p == path) {
            *n += packets;
        } else {
            self.elsewhere.push((path, packets));
        }
    }

    /// The path that the server uses, if that is clearly another one than the path in use.
    pub fn elsewhere(&self, now: Instant, pto: Duration) -> Option<PathId> {
        if now < self.since? + pto * PTOS {
            return None;
        }
        let most = self.elsewhere.iter().max_by_key(|(_, n)| *n)?;
        (most.1 >= PACKETS).then_some(most.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PTO: Duration = Duration::from_millis(50);

    #[test]
    fn a_server_that_stays_where_it_was() {
        let t0 = Instant::now();
        let mut a = Arrivals::default();
        a.heard(PathId(1), 100, false, t0);
        assert_eq!(a.elsewhere(t0 + 100 * PTO, PTO), None, "nothing was asked yet");
        a.anew(t0);
        a.heard(PathId(1), 3, false, t0 + PTO);
        assert_eq!(a.elsewhere(t0 + 3 * PTO, PTO), None);
        a.heard(PathId(2), 4, false, t0 + PTO);
        a.heard(PathId(1), 2, false, t0 + PTO);
        assert_eq!(a.elsewhere(t0 + 2 * PTO, PTO), None);
        assert_eq!(a.elsewhere(t0 + 3 * PTO, PTO), Some(PathId(1)));
        a.heard(PathId(0), 1, true, t0 + 2 * PTO);
        assert_eq!(a.elsewhere(t0 + 9 * PTO, PTO), None);
    }

    proptest! {
        // With any arrivals elsewhere: never while the path in use is heard at least once in three probe timeouts.
        #[test]
        fn never_while_the_path_in_use_is_heard(steps in prop::collection::vec((0u32..4, 1u64..50, 0u64..140), 1..60)) {
            let mut now = Instant::now();
            let mut a = Arrivals::default();
            a.anew(now);
            for (path, packets, gap_ms) in steps {
                now += Duration::from_millis(gap_ms);
                prop_assert_eq!(a.elsewhere(now, PTO), None);
                a.heard(PathId(path), packets, path == 0, now);
                a.heard(PathId(0), 1, true, now);
            }
        }
    }
}
