// SPDX-License-Identifier: Apache-2.0
//! First flights that were taken with early data: a replayed one is not early again (RFC 8446 8, RFC 9001 9.2).
//!
//! Packets with early data are sealed under a header that has the connection ID which the client drew for its first flight. So a
//! copy of a flight has that ID too, or can't be opened.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Tickets carry their age, and BoringSSL takes early data with one that is at most a minute off. So a copy that is
/// older than this is refused without being known.
const REMEMBERED: Duration = Duration::from_secs(150);
/// So many flights are known at once. When there are more, none is early until some are forgotten.
const MOST: usize = 1 << 14;

/// The flights of late.
#[derive(Debug, Default)]
pub struct Flights {
    known: HashSet<Vec<u8>>,
    order: VecDeque<(Instant, Vec<u8>)>,
}

/// Decision for a first flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// It was not seen.
    Yes,
    /// It was.
    No,
    /// The memory is full.
    Unknown,
}

impl Flights {
    /// Whether a flight with this connection ID may bring early data.
    pub fn fresh(&mut self, id: &[u8], now: Instant) -> Fresh {
        while self.order.front().is_some_and(|(then, _)| now.saturating_duration_since(*then) >= REMEMBERED) {
            if let Some((_, old)) = self.order.pop_front() {
                self.known.remove(&old);
            }
        }
        match () {
            () if self.known.contains(id) => Fresh::No,
            () if self.known.len() >= MOST => Fresh::Unknown,
            () => Fresh::Yes,
        }
    }

    /// The same of one that has several: none of them may have been seen.
    pub fn all_fresh(&mut self, ids: &[Vec<u8>], now: Instant) -> Fresh {
        let worse = |fresh: Fresh, other| match (fresh, other) {
            (Fresh::No, _) | (_, Fresh::No) => Fresh::No,
            (Fresh::Unknown, _) | (_, Fresh::Unknown) => Fresh::Unknown,
            (Fresh::Yes, Fresh::Yes) => Fresh::Yes,
        };
        ids.iter().fold(Fresh::Yes, |fresh, id| worse(fresh, self.fresh(id, now)))
    }

    /// One was taken with early data.
    pub fn taken(&mut self, id: &[u8], now: Instant) {
        if self.known.insert(id.to_vec()) {
            self.order.push_back((now, id.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_is_early_once() {
        let (mut flights, t) = (Flights::default(), Instant::now());
        assert_eq!(flights.fresh(b"one", t), Fresh::Yes);
        flights.taken(b"one", t);
        assert_eq!((flights.fresh(b"one", t), flights.fresh(b"two", t)), (Fresh::No, Fresh::Yes));
        let almost = t + REMEMBERED - Duration::from_millis(1);
        assert_eq!((flights.fresh(b"one", almost), flights.fresh(b"one", t + REMEMBERED)), (Fresh::No, Fresh::Yes));
    }

    #[test]
    fn what_it_knows_is_bounded_and_beyond_that_nothing_is_early() {
        let (mut flights, t) = (Flights::default(), Instant::now());
        for i in 0..MOST {
            flights.taken(&i.to_be_bytes(), t);
        }
        assert_eq!((flights.fresh(b"x", t), flights.fresh(&5usize.to_be_bytes(), t)), (Fresh::Unknown, Fresh::No));
        assert_eq!(flights.fresh(b"x", t + REMEMBERED), Fresh::Yes);
        assert!(flights.known.is_empty() && flights.order.is_empty());
    }
}
