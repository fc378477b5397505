// SPDX-License-Identifier: Apache-2.0
//! Bytes that the server has acknowledged on the path in use.

use quiche::hooks;

/// quiche's counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    acked_bytes: u64,
    lost_bytes: u64,
    /// In flight on other paths: left there by a move.
    elsewhere_bytes: u64,
}

impl Delivered {
    /// Of this connection, now.
    pub fn of(quic: &quiche::Connection) -> Delivered {
        let (acked_bytes, lost_bytes) = hooks::acked_and_lost_bytes(quic);
        let elsewhere_bytes = hooks::congestion_state(quic).map_or(0, |state| state.elsewhere_in_flight_bytes);
        Delivered { acked_bytes, lost_bytes, elsewhere_bytes }
    }

    /// Bytes acknowledged since, of packets of the path in use. quiche counts all paths together: a decrease in flight
    /// on the others is theirs.
    pub fn since(self, before: Delivered) -> u64 {
        let lost = self.lost_bytes.saturating_sub(before.lost_bytes);
        let theirs = before.elsewhere_bytes.saturating_sub(self.elsewhere_bytes);
        self.acked_bytes.saturating_sub(before.acked_bytes).saturating_sub(theirs.saturating_sub(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(acked_bytes: u64, lost_bytes: u64, elsewhere_bytes: u64) -> Delivered {
        Delivered { acked_bytes, lost_bytes, elsewhere_bytes }
    }

    #[test]
    fn what_another_path_carried_is_not_this_ones() {
        let before = counts(1000, 50, 400);
        assert_eq!(counts(1600, 50, 400).since(before), 600);
        assert_eq!(counts(1600, 50, 100).since(before), 300);
        assert_eq!(counts(1600, 250, 100).since(before), 500, "200 of the 300 were lost");
        assert_eq!(counts(1600, 50, 9000).since(before), 600, "a move made more of it");
        assert_eq!(counts(1000, 350, 100).since(before), 0);
    }
}
