// SPDX-License-Identifier: Apache-2.0
//! Counters, meters and registers.
use super::Call;
use super::matches::{entry_id, table};
use crate::p4runtime::{Reader, Writer};
use crate::thrift::arguments::Fields;
use crate::thrift::failure::{Done, Failure, array, declared, meter, table as code};
use crate::thrift::output::{Output, pieces};
use thrift::protocol::TType;
use weir_p4::bytecode::program::Program;
use weir_p4::exec::MeterCell;
use weir_p4::value::Val;

/// Cells read or written without a packet in between.
const PIECE: usize = 4096;
/// Units per microsecond beyond which the meter's arithmetic loses digits.
const MAX_RATE: f64 = 1e9;

fn named<T>(list: &[T], name: &str, of: impl Fn(&T) -> Option<&str>) -> Result<usize, Failure> {
    let at = list.iter().position(|x| of(x) == Some(name));
    at.map_or_else(|| declared(array::INVALID_NAME, format!("there is no array {name}")), Ok)
}

fn counter(p: &Program, name: &str) -> Result<usize, Failure> {
    named(&p.counters, name, |c| c.size.map(|_| c.name.as_str()))
}

fn meter_array(p: &Program, name: &str) -> Result<usize, Failure> {
    named(&p.meters, name, |m| m.size.map(|_| m.name.as_str()))
}

fn register(p: &Program, name: &str) -> Result<usize, Failure> {
    named(&p.registers, name, |r| Some(&r.name))
}

fn cell(index: i32, size: usize) -> Result<usize, Failure> {
    let at = usize::try_from(index).ok().filter(|i| *i < size);
    at.map_or_else(|| declared(array::INVALID_INDEX, format!("index {index} is outside the {size} cells")), Ok)
}

/// A value of a BmCounterValue: packets and bytes.
fn counts(value: &Fields) -> Result<(u64, u64), Failure> {
    Ok((value.i64(2)? as u64, value.i64(1)? as u64))
}

fn put_counts(out: &mut Output, (packets, bytes): (u64, u64)) {
    out.nested(0, |out| {
        out.i64(1, bytes as i64);
        out.i64(2, packets as i64);
    });
}

pub fn read_counter(call: &mut Call<'_>) -> Done {
    let (name, index) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let value = call.read(move |r| {
        let cells = &r.state.counters[counter(&r.config.program, &name)?];
        Ok(cells[cell(index, cells.len())?])
    })?;
    put_counts(&mut call.out, value);
    Ok(())
}

pub fn write_counter(call: &mut Call<'_>) -> Done {
    let (name, index) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let value = counts(call.arguments.fields(4)?)?;
    call.change(move |w| {
        let cells = &mut w.state.counters[counter(&w.config.program, &name)?];
        let at = cell(index, cells.len())?;
        cells[at] = value;
        Ok(())
    })
}

pub fn reset_counter(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    each(
        call,
        move |w| {
            let at = counter(&w.config.program, &name)?;
            Ok((at, 0..w.state.counters[at].len()))
        },
        |w, at, range| {
            w.state.counters[at][range].fill((0, 0));
            Ok(())
        },
    )
}

/// Changes the cells of an array piece by piece: `find` gives the array and the cells, `set` changes some.
fn each(
    call: &Call<'_>,
    find: impl FnOnce(&Writer<'_>) -> Result<(usize, std::ops::Range<usize>), Failure> + Send + 'static,
    set: impl Fn(&mut Writer<'_>, usize, std::ops::Range<usize>) -> Done + Clone + Send + 'static,
) -> Done {
    call.runtime.block_on(async {
        let mut change = call.server.control.change().await;
        let (at, cells) = change.step(move |w: &mut Writer<'_>| find(w)).await??;
        for from in cells.clone().step_by(PIECE) {
            let (set, range) = (set.clone(), from..cells.end.min(from + PIECE));
            change.step(move |w: &mut Writer<'_>| set(w, at, range)).await??;
        }
        Ok(())
    })
}

/// The table of a direct counter.
fn counted(p: &Program, name: &str) -> Result<usize, Failure> {
    let at = table(p, name)?;
    match p.tables[at].counter {
        Some(_) => Ok(at),
        None => declared(code::COUNTERS_DISABLED, format!("table {name} has no direct counter")),
    }
}

pub fn read_direct_counter(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let value = call.read(move |r| {
        let state = &r.state.tables[counted(&r.config.program, &name)?];
        let id = entry_id(state, handle)?;
        Ok(state.entry(id).map_or((0, 0), |e| (e.packets, e.bytes)))
    })?;
    put_counts(&mut call.out, value);
    Ok(())
}

pub fn write_direct_counter(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let value = counts(call.arguments.fields(4)?)?;
    call.change(move |w| {
        let at = counted(&w.config.program, &name)?;
        let id = entry_id(&w.state.tables[at], handle)?;
        if let Some(e) = w.state.tables[at].entry_mut(id) {
            (e.packets, e.bytes) = value;
        }
        Ok(())
    })
}

pub fn reset_direct_counters(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let find = move |w: &Writer<'_>| {
        let at = counted(&w.config.program, &name)?;
        // At least one step, for unmatched packets.
        Ok((at, 0..w.state.tables[at].places().max(1)))
    };
    each(call, find, |w, at, range| {
        let state = &mut w.state.tables[at];
        state.misses = (0, 0);
        let ids: Vec<_> = state.entries_in(range).map(|(id, _)| id).collect();
        for id in ids {
            if let Some(e) = state.entry_mut(id) {
                (e.packets, e.bytes) = (0, 0);
            }
        }
        Ok(())
    })
}

/// Rate in units per microsecond and burst in units: committed, then peak.
type Rates = [(f64, u64); 2];

/// Reads two BmMeterRateConfig. The codes of meters are others than those of tables.
fn given_rates(list: &[&Fields], code: impl Fn(i32) -> i32) -> Result<Rates, Failure> {
    let one = |f: &Fields| {
        let rate = f.double(1)?;
        if !(0.0..=MAX_RATE).contains(&rate) {
            return declared(
                code(meter::INVALID_INFO_RATE_VALUE),
                format!("rate {rate} is not between 0 and {MAX_RATE}"),
            );
        }
        match u64::try_from(f.i32(2)?) {
            Ok(burst) => Ok((rate, burst)),
            Err(_) => declared(code(meter::INVALID_BURST_SIZE_VALUE), "a burst is negative"),
        }
    };
    let [committed, peak] = list else {
        return declared(code(meter::BAD_RATES_LIST), format!("a meter has two rates, not {}", list.len()));
    };
    let (committed, peak) = (one(committed)?, one(peak)?);
    if committed.0 > peak.0 {
        return declared(code(meter::INVALID_INFO_RATE_VALUE), "the first rate is above the second");
    }
    Ok([committed, peak])
}

fn put_rates(out: &mut Output, rates: Option<Rates>) {
    let rates = rates.unwrap_or_default().into_iter().take(if rates.is_some() { 2 } else { 0 });
    out.list(0, TType::Struct, rates.len());
    for (rate, burst) in rates {
        out.element(|out| {
            out.double(1, rate);
            out.i32(2, i32::try_from(burst).unwrap_or(i32::MAX));
        });
    }
}

fn set_cell(cell: &mut MeterCell, [committed, peak]: Rates, now_us: u64) {
    cell.set(committed, peak, now_us);
}

pub fn set_all_rates(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let rates = given_rates(&call.arguments.structs(3)?, |code| code)?;
    each(
        call,
        move |w| {
            let at = meter_array(&w.config.program, &name)?;
            Ok((at, 0..w.state.meters[at].len()))
        },
        move |w, at, range| {
            let now_us = w.now_us;
            w.state.meters[at][range].iter_mut().for_each(|cell| set_cell(cell, rates, now_us));
            Ok(())
        },
    )
}

pub fn set_rates(call: &mut Call<'_>) -> Done {
    let (name, index) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let rates = given_rates(&call.arguments.structs(4)?, |code| code)?;
    call.change(move |w| {
        let cells = &mut w.state.meters[meter_array(&w.config.program, &name)?];
        let at = cell(index, cells.len())?;
        set_cell(&mut cells[at], rates, w.now_us);
        Ok(())
    })
}

pub fn rates(call: &mut Call<'_>) -> Done {
    let (name, index) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let rates = call.read(move |r| {
        let cells = &r.state.meters[meter_array(&r.config.program, &name)?];
        Ok(cells[cell(index, cells.len())?].rates)
    })?;
    put_rates(&mut call.out, rates);
    Ok(())
}

/// The table of a direct meter.
fn metered(p: &Program, name: &str) -> Result<usize, Failure> {
    let at = table(p, name)?;
    match p.tables[at].meter {
        Some(_) => Ok(at),
        None => declared(code::METERS_DISABLED, format!("table {name} has no direct meter")),
    }
}

pub fn set_direct_rates(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let rates = given_rates(&call.arguments.structs(4)?, |_| code::INVALID_METER_OPERATION)?;
    call.change(move |w| {
        let at = metered(&w.config.program, &name)?;
        let id = entry_id(&w.state.tables[at], handle)?;
        let now_us = w.now_us;
        if let Some(e) = w.state.tables[at].entry_mut(id) {
            set_cell(&mut e.meter, rates, now_us);
        }
        Ok(())
    })
}

pub fn direct_rates(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let rates = call.read(move |r| {
        let state = &r.state.tables[metered(&r.config.program, &name)?];
        let id = entry_id(state, handle)?;
        Ok(state.entry(id).and_then(|e| e.meter.rates))
    })?;
    put_rates(&mut call.out, rates);
    Ok(())
}

/// The lowest 64 bits, as BMv2 gives them.
fn signed(v: &Val) -> i64 {
    v.low() as u64 as i64
}

/// The bits of a number that fit a cell.
fn cut(value: i64, width: u32) -> Val {
    let extended = i128::from(value) as u128;
    Val::from(extended).mask(width.min(128))
}

pub fn read_register(call: &mut Call<'_>) -> Done {
    let (name, index) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    let value = call.read(move |r| {
        let at = register(&r.config.program, &name)?;
        let i = cell(index, r.state.register_size(at))?;
        Ok(r.state.register_get(at, i).map_or(0, |v| signed(&v)))
    })?;
    call.out.i64(0, value);
    Ok(())
}

pub fn read_registers(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let (out, runtime, control) = (&mut call.out, call.runtime, &call.server.control);
    runtime.block_on(async {
        let reading = control.read().await;
        let begin = move |r: &Reader<'_>| {
            let at = register(&r.config.program, &name)?;
            Ok::<_, Failure>((at, r.state.register_size(at)))
        };
        let (at, size) = reading.step(begin).await??;
        out.list(0, TType::I64, size);
        pieces(out, size, PIECE, |range| {
            let piece = move |r: &Reader<'_>| {
                let mut part = Output::part();
                range.filter_map(|i| r.state.register_get(at, i)).for_each(|v| part.i64_element(signed(&v)));
                part.into_bytes()
            };
            async { Ok(reading.step(piece).await?) }
        })
        .await
    })
}

fn fill(w: &mut Writer<'_>, at: usize, range: std::ops::Range<usize>, value: i64) -> Done {
    let value = cut(value, w.config.program.registers[at].width);
    for i in range {
        w.state.register_set(at, i, value.clone()).or_else(|e| declared(array::INVALID_INDEX, e.to_string()))?;
    }
    Ok(())
}

pub fn write_register(call: &mut Call<'_>) -> Done {
    let (name, index, value) = (call.arguments.string(2)?, call.arguments.i32(3)?, call.arguments.i64(4)?);
    call.change(move |w| {
        let at = register(&w.config.program, &name)?;
        let i = cell(index, w.state.register_size(at))?;
        fill(w, at, i..i + 1, value)
    })
}

/// Cells from the first index to one before the last, as in BMv2.
pub fn write_registers(call: &mut Call<'_>) -> Done {
    let (name, value) = (call.arguments.string(2)?, call.arguments.i64(5)?);
    let (first, last) = (call.arguments.i32(3)?, call.arguments.i32(4)?);
    each(
        call,
        move |w| {
            let at = register(&w.config.program, &name)?;
            let size = w.state.register_size(at);
            match (usize::try_from(first), usize::try_from(last)) {
                (Ok(first), Ok(last)) if first <= last && last <= size => Ok((at, first..last)),
                _ => declared(array::INVALID_INDEX, format!("{first} to {last} is outside the {size} cells")),
            }
        },
        move |w, at, range| fill(w, at, range, value),
    )
}

pub fn reset_registers(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    each(
        call,
        move |w| {
            let at = register(&w.config.program, &name)?;
            Ok((at, 0..w.state.register_size(at)))
        },
        |w, at, range| fill(w, at, range, 0),
    )
}
