// SPDX-License-Identifier: Apache-2.0
//! Packet numbers that were received in a packet number space, so that no packet is processed twice (RFC 9000 12.3).

use std::ops::RangeInclusive;

/// Most gaps that are kept. Packets of two paths in turn leave a gap each: this many over the difference of the paths'
/// delays, 4000 packets a second over 250 ms.
const MOST_GAPS: usize = 1024;

/// Patch `received-numbers`: all packet numbers up to the largest received, except gaps.
///
/// Packets on a path with a shorter delay than another's arrive before packets that were sent earlier, by as many as
/// were sent within the difference. A window of fixed width would drop the late ones, which the peer then takes for
/// lost. Over [`MOST_GAPS`] the oldest gap is closed: its packets count as received.
#[derive(Debug, Default)]
pub struct ReceivedNumbers {
    /// The number after the largest received; 0 before the first packet.
    end: u64,
    /// Numbers below `end` that were not received, in ascending order, apart.
    gaps: Vec<RangeInclusive<u64>>,
}

impl ReceivedNumbers {
    /// Whether a packet was received, or is too old to tell.
    pub fn contains(&self, number: u64) -> bool {
        number < self.end && self.gap_of(number).is_none()
    }

    /// Marks a packet as received.
    pub fn insert(&mut self, number: u64) {
        if number >= self.end {
            if number > self.end {
                self.gaps.push(self.end..=number - 1);
                self.limit();
            }
            self.end = number.saturating_add(1);
        } else if let Some(place) = self.gap_of(number) {
            let (first, last) = (*self.gaps[place].start(), *self.gaps[place].end());
            let parts = [(first < number).then(|| first..=number - 1), (number < last).then(|| number + 1..=last)];
            self.gaps.splice(place..=place, parts.into_iter().flatten());
            self.limit();
        }
    }

    /// Place of the gap that holds a number.
    fn gap_of(&self, number: u64) -> Option<usize> {
        let place = self.gaps.partition_point(|gap| *gap.end() < number);
        self.gaps.get(place).is_some_and(|gap| gap.contains(&number)).then_some(place)
    }

    fn limit(&mut self) {
        if self.gaps.len() > MOST_GAPS {
            self.gaps.remove(0);
        }
    }
}
