// SPDX-License-Identifier: Apache-2.0
//! Meters of two rates and three colors.
use crate::bytecode::program::CountKind;

/// Two rates and three colors (RFC 2698) in whole tokens counted from the start, as BMv2 counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeterCell {
    /// Units per microsecond, burst in units; committed, then peak. `None`: everything is green.
    pub rates: Option<[(f64, u64); 2]>,
    tokens: [u64; 2],
    /// Tokens given out since the rates were set.
    given: [u64; 2],
    start_us: u64,
}

impl MeterCell {
    /// Sets the rates; both buckets start full.
    pub fn set(&mut self, committed: (f64, u64), peak: (f64, u64), now_us: u64) {
        let tokens = [committed.1, peak.1];
        *self = MeterCell { rates: Some([committed, peak]), tokens, given: [0; 2], start_us: now_us };
    }

    /// 0 green, 1 yellow, 2 red.
    pub fn color(&mut self, kind: CountKind, bytes: u64, now_us: u64) -> u8 {
        let Some(rates) = self.rates else { return 0 };
        let elapsed_us = now_us.saturating_sub(self.start_us) as f64;
        let need = if kind == CountKind::Packets { 1 } else { bytes };
        // The peak rate first; the committed one is checked only for packets that pass it.
        for i in [1, 0] {
            let due = (elapsed_us * rates[i].0) as u64;
            self.tokens[i] = self.tokens[i].saturating_add(due.saturating_sub(self.given[i])).min(rates[i].1);
            self.given[i] = due.max(self.given[i]);
            if self.tokens[i] < need {
                return i as u8 + 1;
            }
            self.tokens[i] -= need;
        }
        0
    }
}
