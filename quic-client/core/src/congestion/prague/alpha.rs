// SPDX-License-Identifier: Apache-2.0
//! [`Alpha`]: the moving average of the share of marked packets (draft 2.4.1).

/// Weight of a new sample.
const GAIN: f64 = 1.0 / 16.0;

/// Packets acknowledged, and of these marked with CE.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    packets: u64,
    marked: u64,
}

impl Counts {
    /// Share of marked packets. A peer's counts may exceed the packets of one round, if acknowledgements were lost.
    fn share(self) -> Option<f64> {
        (self.packets > 0).then(|| (self.marked as f64 / self.packets as f64).min(1.0))
    }
}

/// The average, updated each virtual round trip.
///
/// The first sample is the average's first value: from the draft's first value of 1 it takes 16 round trips to come down
/// to a small share.
#[derive(Debug, Clone, Default)]
pub struct Alpha {
    value: Option<f64>,
    round: Counts,
}

impl Alpha {
    /// Counts acknowledged packets.
    pub fn count(&mut self, packets: u64, marked: u64) {
        self.round.packets = self.round.packets.saturating_add(packets);
        self.round.marked = self.round.marked.saturating_add(marked);
    }

    /// Whether a packet of this round was marked.
    pub fn is_marked(&self) -> bool {
        self.round.marked > 0
    }

    /// A virtual round trip is over: its share enters the average.
    pub fn end_round(&mut self) {
        if let Some(share) = std::mem::take(&mut self.round).share() {
            self.value = Some(self.value.map_or(share, |value| value + GAIN * (share - value)));
        }
    }

    /// Begins anew: no sample was taken.
    pub fn restart(&mut self) {
        *self = Alpha::default();
    }

    /// The average, 0 to 1; before the first sample the share of the present round.
    pub fn get(&self) -> f64 {
        self.value.or(self.round.share()).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_round_sets_it_and_later_ones_move_it_by_a_sixteenth() {
        let mut alpha = Alpha::default();
        assert_eq!(alpha.get(), 0.0);
        alpha.count(8, 2);
        assert_eq!(alpha.get(), 0.25);
        alpha.end_round();
        alpha.count(10, 10);
        assert_eq!(alpha.get(), 0.25);
        alpha.end_round();
        assert!((alpha.get() - (0.25 + 0.75 / 16.0)).abs() < 1e-12);
        // A round without acknowledgements has no share.
        let before = alpha.get();
        alpha.end_round();
        assert_eq!(alpha.get(), before);
    }

    proptest! {
        #[test]
        fn it_stays_between_0_and_1(rounds in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50)) {
            let mut alpha = Alpha::default();
            for (packets, marked) in rounds {
                alpha.count(packets, marked);
                prop_assert!((0.0..=1.0).contains(&alpha.get()));
                alpha.end_round();
                prop_assert!((0.0..=1.0).contains(&alpha.get()));
            }
        }
    }
}
