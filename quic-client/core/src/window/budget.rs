// SPDX-License-Identifier: Apache-2.0
//! One memory budget over all connections of a process.
//!
//! A peer can make us hold as many bytes as the advertised limit less the bytes that the application has read: bytes
//! that wait for a missing one, and bytes that may still come. A limit can't be taken back (RFC 9000 4.1), only used
//! up, so it is counted when it is advertised: each connection has a reservation, at least its window and at least what
//! its limit leaves, and the sum of reservations never passes the budget.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use thiserror::Error;

/// The least window of a connection, in bytes: a first flight of ten packets fits.
pub const LEAST_BYTES: u64 = 16 * 1024;

/// A budget that connections share.
pub type SharedBudget = Rc<RefCell<Budget>>;

/// The budget has no window for another connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the memory budget of {budget_bytes} bytes has {free_bytes} left beside {connections} connections, and a \
     connection needs at least {LEAST_BYTES}: raise it, or open fewer connections at once"
)]
pub struct BudgetExhausted {
    /// The budget.
    pub budget_bytes: u64,
    /// Unpromised bytes of the budget.
    pub free_bytes: u64,
    /// Connections open.
    pub connections: usize,
}

/// Sum of the promises to all peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promised {
    /// Limits advertised less bytes received, over all connections, now.
    pub promised_bytes: u64,
    /// The most it ever was.
    pub peak_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
}

/// The budget, and the share of each connection.
#[derive(Debug)]
pub struct Budget {
    budget_bytes: u64,
    shares: BTreeMap<u64, Share>,
    reserved_bytes: u64,
    promised_bytes: u64,
    peak_bytes: u64,
    hungry: usize,
    next_id: u64,
}

#[derive(Debug, Default)]
struct Share {
    reserved_bytes: u64,
    promised_bytes: u64,
    /// Got less than it wanted when it last asked.
    hungry: bool,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(budget_bytes: u64) -> Self {
        Budget {
            budget_bytes,
            shares: BTreeMap::new(),
            reserved_bytes: 0,
            promised_bytes: 0,
            peak_bytes: 0,
            hungry: 0,
            next_id: 0,
        }
    }

    /// The same, to be shared by connections.
    pub fn shared(budget_bytes: u64) -> SharedBudget {
        Rc::new(RefCell::new(Budget::new(budget_bytes)))
    }

    /// Sum of the promises.
    pub fn promised(&self) -> Promised {
        Promised { promised_bytes: self.promised_bytes, peak_bytes: self.peak_bytes, budget_bytes: self.budget_bytes }
    }

    /// Adds a connection that keeps to the budget. Returns its key and the window it starts with, at most `want_bytes`
    /// and at most what is left. It is removed by [`Budget::close`].
    pub fn open(&mut self, want_bytes: u64) -> Result<(u64, u64), BudgetExhausted> {
        let free = self.budget_bytes - self.reserved_bytes;
        if free < LEAST_BYTES {
            return Err(BudgetExhausted {
                budget_bytes: self.budget_bytes,
                free_bytes: free,
                connections: self.shares.len(),
            });
        }
        let granted = want_bytes.min(free);
        let id = self.track(granted);
        self.reserve(id, granted.max(LEAST_BYTES));
        Ok((id, granted))
    }

    /// Adds a connection whose rule knows no budget: its promises are counted, but take nothing from others.
    pub fn track(&mut self, window_bytes: u64) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.shares.insert(id, Share::default());
        self.promise(id, window_bytes);
        id
    }

    /// The window that connection `id` may have of the `want_bytes` it wants, `outstanding_bytes` being what its limit
    /// leaves beyond what was read.
    ///
    /// An eighth of the budget is kept for connections yet to come. While another connection gets less than it wants,
    /// none gets more than an equal share; one that has more keeps it until it is used up.
    pub fn grant(&mut self, id: u64, want_bytes: u64, outstanding_bytes: u64) -> u64 {
        let Some(share) = self.shares.get(&id) else { return 0 };
        let free = self.budget_bytes - (self.reserved_bytes - share.reserved_bytes);
        let growing = free.saturating_sub(self.budget_bytes / 8).max(share.reserved_bytes);
        let others_hungry = self.hungry > usize::from(share.hungry);
        let fair = if others_hungry { self.budget_bytes / self.shares.len() as u64 } else { u64::MAX };
        let granted = want_bytes.min(growing).min(fair.max(LEAST_BYTES));
        self.feed(id, granted < want_bytes);
        // Both parts fit: the second was reserved before, and reading only makes it less.
        let reserved = granted.max(outstanding_bytes).max(LEAST_BYTES);
        debug_assert!(reserved <= free, "{reserved} of {free}");
        self.reserve(id, reserved);
        granted
    }

    /// Records the promise to the peer of connection `id` now: its limit less the received bytes.
    pub fn promise(&mut self, id: u64, promised_bytes: u64) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        self.promised_bytes = self.promised_bytes - share.promised_bytes + promised_bytes;
        share.promised_bytes = promised_bytes;
        self.peak_bytes = self.peak_bytes.max(self.promised_bytes);
    }

    /// Connection `id` has nothing to receive, so others need not leave room for it.
    pub fn rest(&mut self, id: u64) {
        self.feed(id, false);
    }

    /// The connection is over: its share is free.
    pub fn close(&mut self, id: u64) {
        self.promise(id, 0);
        self.reserve(id, 0);
        self.feed(id, false);
        self.shares.remove(&id);
    }

    fn reserve(&mut self, id: u64, bytes: u64) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        self.reserved_bytes = self.reserved_bytes - share.reserved_bytes + bytes;
        share.reserved_bytes = bytes;
    }

    fn feed(&mut self, id: u64, hungry: bool) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        self.hungry = self.hungry - usize::from(share.hungry) + usize::from(hungry);
        share.hungry = hungry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn a_start_gets_what_is_left_down_to_the_least() {
        let mut budget = Budget::new(100 * KIB);
        assert_eq!(budget.open(70 * KIB).unwrap().1, 70 * KIB);
        assert_eq!(budget.open(70 * KIB).unwrap().1, 30 * KIB);
        let error = budget.open(1).unwrap_err();
        assert_eq!(error, BudgetExhausted { budget_bytes: 100 * KIB, free_bytes: 0, connections: 2 });
        assert!(error.to_string().contains("102400 bytes has 0 left beside 2 connections"), "{error}");
        budget.close(0);
        assert_eq!(budget.open(KIB).unwrap().1, KIB);
    }

    #[test]
    fn a_short_budget_is_shared_equally() {
        let mut budget = Budget::new(800 * KIB);
        let (a, _) = budget.open(16 * KIB).unwrap();
        // Alone, all but the part kept for newcomers.
        assert_eq!(budget.grant(a, 10_000 * KIB, 16 * KIB), 700 * KIB);
        let (b, _) = budget.open(16 * KIB).unwrap();
        // Nothing to be had beyond its start: `a` holds it. So `b` is hungry, and `a` gets its share of a half.
        assert_eq!(budget.grant(b, 10_000 * KIB, 16 * KIB), 16 * KIB);
        assert_eq!(budget.grant(a, 10_000 * KIB, 300 * KIB), 400 * KIB);
        assert_eq!(budget.grant(b, 10_000 * KIB, 16 * KIB), 300 * KIB);
        // Bytes promised to `a` before are used up first.
        assert_eq!(budget.grant(a, 10_000 * KIB, 400 * KIB), 400 * KIB);
        budget.close(b);
        assert_eq!(budget.grant(a, 10_000 * KIB, 0), 700 * KIB);
    }

    #[test]
    fn peak_is_of_the_sum() {
        let mut budget = Budget::new(1000);
        let (a, b) = (budget.track(100), budget.track(200));
        budget.promise(a, 50);
        budget.promise(b, 240);
        assert_eq!(budget.promised(), Promised { promised_bytes: 290, peak_bytes: 300, budget_bytes: 1000 });
        budget.close(a);
        assert_eq!(budget.promised().promised_bytes, 240);
    }
}
