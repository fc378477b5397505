// SPDX-License-Identifier: Apache-2.0
//! A budget of memory, over all connections, for data that were written and are not acknowledged yet.
//!
//! A client that asks for much and acknowledges nothing makes the server keep unacknowledged data, up to the client's
//! windows. So each connection may hold [`ALWAYS_BYTES`], and beyond that half of what the others leave of the budget:
//! alone a connection has half of the budget, and the budget is never used up, however many share it (dynamic
//! thresholds: Choudhury & Hahne, IEEE/ACM Trans. Networking 6(2), 1998). Writes over the limit wait; nothing is taken
//! back.
//!
//! Thresholds shrink as queues fill, but bytes handed out before stay until it is acknowledged. So where a connection
//! has to wait although it holds less than an equal part, the one gives way that holds most of those that only hold:
//! more than an equal part, of which less was acknowledged in [`HOLD`] than it held then.

use crate::connection::{Allowance, cost_bytes};
use quiche::hooks::Unacknowledged;
use std::time::{Duration, Instant};

/// Memory in bytes that a connection may hold independently of the others: a few packets, less than its own state
/// takes.
pub const ALWAYS_BYTES: u64 = 8192;
/// A connection on which less was acknowledged in this time than it held at its beginning only holds it. It is longer than
/// a round trip on a path with a queue of a second.
pub const HOLD: Duration = Duration::from_secs(2);
/// Time between two that give way.
const BETWEEN: Duration = Duration::from_millis(100);

/// Memory held by one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    memory_bytes: u64,
    held_bytes: u64,
    mark: Option<Mark>,
    only_holds: bool,
}

/// Memory of a connection at a time, and the bytes acknowledged on it by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    at: Instant,
    held_bytes: u64,
    acked_bytes: u64,
}

impl Share {
    /// Judges whether it only holds its memory, `acked_bytes` being the bytes of all packets acknowledged so far.
    pub fn judge(&mut self, acked_bytes: u64, now: Instant) {
        if let Some(mark) = self.mark {
            let moves = acked_bytes - mark.acked_bytes >= mark.held_bytes;
            if now.saturating_duration_since(mark.at) < HOLD {
                self.only_holds &= !moves;
                return;
            }
            self.only_holds = !moves;
        }
        self.mark = Some(Mark { at: now, held_bytes: self.held_bytes, acked_bytes });
    }
}

/// The budget.
#[derive(Debug)]
pub struct SendMemory {
    budget_bytes: u64,
    used_bytes: u64,
    /// Connections that hold something.
    holders: u64,
    in_need: bool,
    next_look: Option<Instant>,
}

impl SendMemory {
    /// Of so much memory, in bytes.
    pub fn new(budget_bytes: u64) -> Self {
        SendMemory { budget_bytes, used_bytes: 0, holders: 0, in_need: false, next_look: None }
    }

    /// Bytes that a connection may write now.
    pub fn allowance(&self, share: &Share) -> Allowance {
        let others_leave = self.budget_bytes.saturating_sub(self.used_bytes - share.memory_bytes);
        Allowance::of((others_leave / 2).max(ALWAYS_BYTES).saturating_sub(share.memory_bytes))
    }

    /// Notes a connection's memory now. `acked_bytes` is as in [`Share::judge`]; `short`: it would have written more if
    /// it had been allowed to.
    pub fn update(&mut self, share: &mut Share, held: Unacknowledged, acked_bytes: u64, short: bool, now: Instant) {
        let memory_bytes = cost_bytes(held);
        self.used_bytes = self.used_bytes - share.memory_bytes + memory_bytes;
        self.holders = self.holders + u64::from(memory_bytes > 0) - u64::from(share.memory_bytes > 0);
        (share.memory_bytes, share.held_bytes) = (memory_bytes, held.bytes);
        share.judge(acked_bytes, now);
        self.in_need |= short && !share.only_holds && memory_bytes < self.equal_part_bytes();
    }

    /// A connection has ended; its memory is free.
    pub fn gone(&mut self, share: &Share) {
        self.used_bytes -= share.memory_bytes;
        self.holders -= u64::from(share.memory_bytes > 0);
    }

    /// Whether one is to give way now. If so, all are to be judged ([`Share::judge`]) and asked ([`SendMemory::in_the_way`]).
    pub fn looks(&mut self, now: Instant) -> bool {
        if !self.in_need || self.next_look.is_some_and(|t| now < t) {
            return false;
        }
        self.in_need = false;
        self.next_look = Some(now + BETWEEN);
        true
    }

    /// Memory of a connection in bytes, if it is to be closed for those in need.
    pub fn in_the_way(&self, share: &Share) -> Option<u64> {
        (share.only_holds && share.memory_bytes > self.equal_part_bytes()).then_some(share.memory_bytes)
    }

    /// Equal part of the budget for each connection that holds memory.
    fn equal_part_bytes(&self) -> u64 {
        self.budget_bytes / self.holders.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET: u64 = 128 << 20;

    /// In pieces as large as they come.
    fn full(bytes: u64) -> Unacknowledged {
        Unacknowledged { bytes, pieces: bytes.div_ceil(4096) }
    }

    /// A connection that takes all it is allowed to, `acked` bytes having been acknowledged on it in all.
    fn take(memory: &mut SendMemory, share: &mut Share, acked: u64, now: Instant) -> u64 {
        let mut allowance = memory.allowance(share);
        let mut held = full(share.held_bytes);
        while let n @ 1.. = allowance.room(65_536) as u64 {
            allowance.wrote(n);
            held = full(held.bytes + n);
        }
        memory.update(share, held, acked, allowance.was_short(), now);
        share.memory_bytes
    }

    #[test]
    fn alone_a_connection_has_half_of_it() {
        let (mut memory, mut share) = (SendMemory::new(BUDGET), Share::default());
        let taken = take(&mut memory, &mut share, 0, Instant::now());
        assert!(taken <= BUDGET / 2 && taken > BUDGET / 2 - BUDGET / 100, "{taken}");
        assert_eq!(memory.used_bytes, taken);
        memory.gone(&share);
        assert_eq!((memory.used_bytes, memory.holders), (0, 0));
    }

    #[test]
    fn it_is_never_used_up_and_everyone_gets_a_few_packets() {
        let (mut memory, now) = (SendMemory::new(BUDGET), Instant::now());
        for _ in 0..200 {
            let taken = take(&mut memory, &mut Share::default(), 0, now);
            assert!(taken > 2 * 1350, "{taken}");
        }
        assert!(memory.used_bytes <= BUDGET + 200 * ALWAYS_BYTES, "{}", memory.used_bytes);
    }

    #[test]
    fn the_one_that_only_holds_most_gives_way_to_one_in_need() {
        let (mut memory, start) = (SendMemory::new(BUDGET), Instant::now());
        let mut shares = [Share::default(); 40];
        for share in &mut shares {
            take(&mut memory, share, 0, start);
        }
        // All have what they had, and the first acknowledges it all the time.
        let acked = |n: usize| if n == 0 { BUDGET } else { 0 };
        let mut fresh = Share::default();
        let later = start + HOLD;
        take(&mut memory, &mut fresh, 0, later);
        assert!(memory.looks(later), "it has less than a part of forty, and wanted more");
        assert!(!memory.looks(later), "not at once again");
        let mut victims = vec![];
        for (n, share) in shares.iter_mut().enumerate() {
            share.judge(acked(n), later);
            victims.extend(memory.in_the_way(share).map(|bytes| (bytes, n)));
        }
        assert_eq!(victims.iter().max().map(|(_, n)| *n), Some(1), "{victims:?}");
        assert!(victims.iter().all(|(bytes, _)| *bytes > BUDGET / 41));
        assert!(memory.in_the_way(&fresh).is_none());

        let before = fresh.memory_bytes;
        memory.gone(&shares[1]);
        assert!(take(&mut memory, &mut fresh, 0, later) > 100 * before);
    }

    #[test]
    fn nobody_gives_way_while_there_is_room() {
        let (mut memory, start) = (SendMemory::new(BUDGET), Instant::now());
        let (mut stalled, mut other) = (Share::default(), Share::default());
        memory.update(&mut stalled, full(4_000_000), 0, false, start);
        memory.update(&mut other, full(1_000_000), 0, false, start + 5 * HOLD);
        assert!(!memory.looks(start + 5 * HOLD));
        // Nor for one that only holds what it has itself.
        memory.update(&mut stalled, full(4_000_000), 0, true, start + 5 * HOLD);
        assert!(stalled.only_holds && !memory.looks(start + 5 * HOLD));
    }

    #[test]
    fn who_goes_on_is_no_longer_in_the_way() {
        let (mut share, start) = (Share { held_bytes: 1000, ..Share::default() }, Instant::now());
        share.judge(5000, start);
        share.judge(5999, start + HOLD / 2);
        assert!(!share.only_holds, "not yet");
        share.judge(5999, start + HOLD);
        assert!(share.only_holds);
        share.judge(6998, start + HOLD);
        assert!(share.only_holds);
        share.judge(6999, start + HOLD);
        assert!(!share.only_holds, "as much as it held then was acknowledged");
    }

    proptest! {
        // The sums fit in any order of taking, acknowledging and closing, and no connection takes more than half of
        // what the others leave.
        #[test]
        fn the_sums_fit(steps in prop::collection::vec((0usize..30, 0u8..4, 0u64..5000), 1..300)) {
            let mut memory = SendMemory::new(1 << 20);
            let mut shares = [Share::default(); 30];
            let start = Instant::now();
            for (who, what, ms) in steps {
                let now = start + Duration::from_millis(ms);
                let others = memory.used_bytes - shares[who].memory_bytes;
                match what {
                    0 | 1 => {
                        let before = shares[who].memory_bytes;
                        let after = take(&mut memory, &mut shares[who], 0, now);
                        let bound = ((1 << 20) - (1u64 << 20).min(others)) / 2;
                        prop_assert!(after <= before.max(bound).max(ALWAYS_BYTES), "{} {} {}", before, after, bound);
                    }
                    2 => {
                        let left = full(shares[who].held_bytes / 3);
                        memory.update(&mut shares[who], left, 0, false, now);
                    }
                    _ => memory.gone(&std::mem::take(&mut shares[who])),
                }
                prop_assert_eq!(memory.used_bytes, shares.iter().map(|s| s.memory_bytes).sum::<u64>());
                prop_assert_eq!(memory.holders, shares.iter().filter(|s| s.memory_bytes > 0).count() as u64);
                prop_assert!(memory.used_bytes <= (1 << 20) + 30 * ALWAYS_BYTES);
            }
        }
    }
}
