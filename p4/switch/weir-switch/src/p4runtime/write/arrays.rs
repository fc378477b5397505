// SPDX-License-Identifier: Apache-2.0
//! Counters, meters and registers (9.3 to 9.5 and 9.10): cells by their index.
use super::{Writer, only_modify};
use crate::p4runtime::messages::arrays::{self, Rates, cells, pack};
use crate::p4runtime::messages::error::{At, Fail, Res, invalid, unimplemented};
use crate::p4runtime::messages::ids;
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use weir_p4::exec::ChangeError;
use weir_p4::value::Val;

impl Writer<'_> {
    pub(super) fn counter(&mut self, kind: Type, e: &pb::CounterEntry) -> Res<()> {
        only_modify(kind, "a counter")?;
        let list = &self.config.program.info.counters;
        let i = ids::object(list, e.counter_id, "counter")?.1.ir_index;
        let cells = cells(&e.index, self.state.counters[i].len())?;
        let Some(data) = &e.data else { return Ok(()) };
        let counts = arrays::counts(data).at(|| "data")?;
        if self.undo.is_some() {
            let (old, from) = (self.state.counters[i][cells.clone()].to_vec(), cells.start);
            self.on_undo(move |w| {
                w.state.counters[i][from..from + old.len()].clone_from_slice(&old);
                Ok(())
            });
        }
        self.state.counters[i][cells].fill(counts);
        Ok(())
    }

    pub(super) fn meter(&mut self, kind: Type, e: &pb::MeterEntry) -> Res<()> {
        only_modify(kind, "a meter")?;
        let list = &self.config.program.info.meters;
        let i = ids::object(list, e.meter_id, "meter")?.1.ir_index;
        let cells = cells(&e.index, self.state.meters[i].len())?;
        if e.counter_data.is_some() {
            return Err(unimplemented("meters don't count by color here").under("counter_data"));
        }
        let rates: Option<Rates> = e.config.as_ref().map(arrays::rates).transpose().at(|| "config")?;
        if self.undo.is_some() {
            let (old, from) = (self.state.meters[i][cells.clone()].to_vec(), cells.start);
            self.on_undo(move |w| {
                w.state.meters[i][from..from + old.len()].clone_from_slice(&old);
                Ok(())
            });
        }
        let now_us = self.now_us;
        self.state.meters[i][cells].iter_mut().for_each(|cell| arrays::set_rates(cell, rates, now_us));
        Ok(())
    }

    pub(super) fn register(&mut self, kind: Type, e: &pb::RegisterEntry) -> Res<()> {
        only_modify(kind, "a register")?;
        let config = self.config;
        let (at, r) = ids::object(&config.program.info.registers, e.register_id, "register")?;
        let i = r.ir_index;
        let cells = cells(&e.index, self.state.register_size(i))?;
        let Some(data) = &e.data else { return Err(invalid("is unset").under("data")) };
        let (mut values, mut widths) = (Vec::new(), Vec::new());
        config.registers[at].decode(data, &mut values).at(|| "data")?;
        config.registers[at].leaves(&mut widths);
        let cell = pack(values, &widths);
        if self.undo.is_some() {
            let old: Vec<(usize, Val)> =
                cells.clone().filter_map(|k| Some((k, self.state.register_get(i, k)?))).collect();
            self.on_undo(move |w| {
                old.into_iter().try_for_each(|(k, v)| w.state.register_set(i, k, v)).map_err(Fail::from)
            });
        }
        for k in cells {
            self.state.register_set(i, k, cell.clone()).map_err(|e: ChangeError| Fail::from(e).under("data"))?;
        }
        Ok(())
    }
}
