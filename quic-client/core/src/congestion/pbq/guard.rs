// SPDX-License-Identifier: Apache-2.0
//! [`Guard`]: hands the window back to BBR far from where the policy was trained.

/// By what factor a quantity must be beyond the ranges of the training. A policy sees ratios, so a path of twice the
/// round trip is nothing new to it, and BBR beside the policy takes more than its share (docs/design/pbq.md, "The guard").
pub const MARGIN: f64 = 4.0;

/// Rows of decisions, which a single odd interval does not make or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// So many outside decisions in a row hand the window to BBR.
    pub after: u32,
    /// So many inside ones in a row take it back.
    pub back_after: u32,
}

/// Whether the policy may decide.
#[derive(Debug, Clone)]
pub struct Guard {
    rows: Rows,
    handed_over: bool,
    /// A decision was seen.
    begun: bool,
    /// Decisions in a row that speak for a change.
    row: u32,
}

impl Guard {
    /// The first decision says who begins: there is nothing that an odd interval could interrupt.
    pub fn new(rows: Rows) -> Guard {
        Guard { rows, handed_over: false, begun: false, row: 0 }
    }

    /// A decision was `outside` or not; whether BBR has the window now.
    pub fn hands_over(&mut self, outside: bool) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            self.handed_over = outside;
        }
        self.row = if outside == self.handed_over { 0 } else { self.row + 1 };
        let enough = if self.handed_over { self.rows.back_after } else { self.rows.after };
        if self.row >= enough {
            (self.handed_over, self.row) = (!self.handed_over, 0);
        }
        self.handed_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hand_over_and_take_back() {
        let mut guard = Guard::new(Rows { after: 2, back_after: 3 });
        let outside = [false, true, false, true, true, false, false, true, false, false, false, true, true];
        let handed = outside.map(|outside| guard.hands_over(outside));
        let f = false;
        assert_eq!(handed, [f, f, f, f, true, true, true, true, true, true, f, f, true]);
    }

    #[test]
    fn a_connection_that_begins_outside_begins_with_bbr() {
        let mut guard = Guard::new(Rows { after: 20, back_after: 2 });
        assert_eq!([true, false, false, true].map(|outside| guard.hands_over(outside)), [true, true, false, false]);
    }
}
