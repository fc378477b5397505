// SPDX-License-Identifier: Apache-2.0
//! Entries whose idle timeout has passed (9.1.7), found piece by piece.
use super::Reader;
use crate::p4runtime::proto::p4::v1 as pb;
use std::ops::Bound;
use weir_p4::exec::EntryId;

/// Entries that one piece examines, and entries that it reports, at most.
const PIECE_ENTRIES: usize = 2048;
const PIECE_EXPIRED: usize = 128;

/// Position of a sweep: a table by its index in P4Info, and the entry after which the next piece begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    table: usize,
    after: Bound<EntryId>,
}

impl Position {
    pub const START: Position = Position { table: 0, after: Bound::Unbounded };
}

/// Result of a piece of a sweep.
#[derive(Debug, Default)]
pub struct Piece {
    /// Expired entries, as a notification names them, with their table's index in the state.
    pub expired: Vec<(usize, EntryId, pb::TableEntry)>,
    /// Time until the first of the other entries expires.
    pub soonest_us: Option<u64>,
    pub next: Option<Position>,
}

impl Reader<'_> {
    /// Examines some entries, from `at` on.
    pub fn expired(&self, at: Position) -> Piece {
        let mut piece = Piece::default();
        let mut left = PIECE_ENTRIES;
        let Position { mut table, mut after } = at;
        while let Some(t) = self.config.program.info.tables.get(table) {
            let (_, ir) = self.ir(table);
            let notes = ir.idle_timeout.then(|| self.controller.notes(t.ir_index, after));
            for (id, note) in notes.into_iter().flatten() {
                if left == 0 || piece.expired.len() == PIECE_EXPIRED {
                    piece.next = Some(Position { table, after });
                    return piece;
                }
                (left, after) = (left - 1, Bound::Excluded(id));
                let Some(idle) = note.idle else { continue };
                let Some(x) = self.state.tables[t.ir_index].entry(id) else { continue };
                let since_us = self.state.idle_us(x, self.now_us).min(self.now_us.saturating_sub(idle.notified_us));
                match idle.timeout_us().checked_sub(since_us) {
                    Some(remaining_us @ 1..) => {
                        piece.soonest_us = Some(piece.soonest_us.map_or(remaining_us, |s| s.min(remaining_us)));
                    }
                    _ => {
                        let entry = pb::TableEntry {
                            controller_metadata: note.controller_metadata,
                            metadata: note.metadata.clone(),
                            idle_timeout_ns: idle.timeout_ns,
                            ..self.key_of(t, ir, x)
                        };
                        piece.expired.push((t.ir_index, id, entry));
                        // It expires again after another timeout.
                        let again_us = idle.timeout_us();
                        piece.soonest_us = Some(piece.soonest_us.map_or(again_us, |s| s.min(again_us)));
                    }
                }
            }
            (table, after) = (table + 1, Bound::Unbounded);
        }
        piece
    }
}
