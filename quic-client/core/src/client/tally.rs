// SPDX-License-Identifier: Apache-2.0
//! Sums over tasks.

/// Sums over the tasks of a session, or over those of one path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Completed.
    pub done: u64,
    /// Ended otherwise.
    pub failed: u64,
    /// Payload.
    pub bytes: u64,
    /// Migrations made for a task.
    pub switches: u64,
    /// Completion times of the completed tasks, in microseconds, in the order they ended.
    pub tct_us: Vec<u64>,
}

impl Tally {
    /// Mean completion time in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        let n = self.tct_us.len();
        (n > 0).then(|| self.tct_us.iter().map(|&t| t as f64).sum::<f64>() / n as f64)
    }

    /// Sample variance of the completion times, in ms squared.
    pub fn variance_ms2(&self) -> Option<f64> {
        let mean = self.mean_us()?;
        let n = self.tct_us.len();
        let squares: f64 = self.tct_us.iter().map(|&t| (t as f64 - mean).powi(2)).sum();
        (n > 1).then(|| squares / (n - 1) as f64 * 1e-6)
    }

    /// The completion time that 95 % of the tasks kept (nearest rank), in microseconds.
    pub fn p95_us(&self) -> Option<u64> {
        let mut sorted = self.tct_us.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 95).div_ceil(100);
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_of_known_times() {
        let mut tally = Tally::default();
        assert_eq!((tally.mean_us(), tally.variance_ms2(), tally.p95_us()), (None, None, None));
        tally.tct_us = vec![4_000, 2_000];
        assert_eq!((tally.mean_us(), tally.variance_ms2(), tally.p95_us()), (Some(3_000.0), Some(2.0), Some(4_000)));
        tally.tct_us = (1..=100).rev().collect();
        assert_eq!(tally.p95_us(), Some(95));
    }
}
