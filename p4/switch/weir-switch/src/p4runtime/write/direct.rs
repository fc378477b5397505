// SPDX-License-Identifier: Apache-2.0
//! Direct counters and meters (9.4, 9.5), which belong to entries of tables.
use super::{Writer, only_modify};
use crate::p4runtime::messages::error::{At, Res, invalid, not_found, unimplemented};
use crate::p4runtime::messages::{arrays, matches};
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use weir_p4::bytecode::program as ir;
use weir_p4::exec::EntryId;
use weir_p4::p4info::{self as info, Preambled};

impl<'a> Writer<'a> {
    /// Direct counter and meter as an entry's message sets them (9.1.6).
    pub(super) fn direct(&mut self, table: usize, id: EntryId, e: &pb::TableEntry) -> Res<()> {
        let now_us = self.now_us;
        let Some(x) = self.state.tables[table].entry_mut(id) else { return Ok(()) };
        if let Some(c) = &e.counter_data {
            (x.packets, x.bytes) = arrays::counts(c)?;
        }
        let rates = e.meter_config.as_ref().map(arrays::rates).transpose()?;
        arrays::set_rates(&mut x.meter, rates, now_us);
        Ok(())
    }

    /// The entry that a direct resource's message means, kept as it is for a batch that is taken back; `None` for the
    /// default entry.
    fn direct_entry(&mut self, e: &Option<pb::TableEntry>) -> Res<(&'a info::Table, &'a ir::Table, Option<EntryId>)> {
        let Some(e) = e else { return Err(invalid("is unset").under("table_entry")) };
        let mut inner = || -> Res<_> {
            let (t, ir) = self.table(e.table_id)?;
            if e.is_default_action {
                if !e.r#match.is_empty() {
                    return Err(invalid("must be empty for the default entry").under("match"));
                }
                return Ok((t, ir, None));
            }
            let keys = matches::keys(
                matches::table_shapes(&self.config.program, t),
                &e.r#match,
                &format!("table {}", t.name()),
            )?;
            let rank = matches::rank(ir, e.priority)?;
            let absent = || not_found(format!("table {} has no entry with this match and priority", t.name()));
            let id = self.state.tables[t.ir_index].find(&keys, rank).ok_or_else(absent)?;
            self.remember(t.ir_index, &keys, rank);
            Ok((t, ir, Some(id)))
        };
        inner().at(|| "table_entry")
    }

    pub(super) fn direct_counter(&mut self, kind: Type, e: &pb::DirectCounterEntry) -> Res<()> {
        only_modify(kind, "a direct counter")?;
        let (t, ir, id) = self.direct_entry(&e.table_entry)?;
        if ir.counter.is_none() {
            return Err(invalid(format!("table {} has no direct counter", t.name())).under("table_entry"));
        }
        let Some(data) = &e.data else { return Ok(()) };
        let counts = arrays::counts(data).at(|| "data")?;
        let state = &mut self.state.tables[t.ir_index];
        match id {
            Some(id) => {
                if let Some(x) = state.entry_mut(id) {
                    (x.packets, x.bytes) = counts;
                }
            }
            None => {
                let (old, table) = (std::mem::replace(&mut state.misses, counts), t.ir_index);
                self.on_undo(move |w| {
                    w.state.tables[table].misses = old;
                    Ok(())
                });
            }
        }
        Ok(())
    }

    pub(super) fn direct_meter(&mut self, kind: Type, e: &pb::DirectMeterEntry) -> Res<()> {
        only_modify(kind, "a direct meter")?;
        let (t, ir, id) = self.direct_entry(&e.table_entry)?;
        if ir.meter.is_none() {
            return Err(invalid(format!("table {} has no direct meter", t.name())).under("table_entry"));
        }
        if e.counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("counter_data"));
        }
        let rates = e.config.as_ref().map(arrays::rates).transpose().at(|| "config")?;
        let Some(id) = id else {
            return Err(unimplemented("default entries have no direct meter here").under("table_entry"));
        };
        let now_us = self.now_us;
        if let Some(x) = self.state.tables[t.ir_index].entry_mut(id) {
            arrays::set_rates(&mut x.meter, rates, now_us);
        }
        Ok(())
    }
}
