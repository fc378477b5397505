// SPDX-License-Identifier: Apache-2.0
//! Cells of counters, meters and registers: indices, counts, rates and values.
use super::error::{Fail, Res, invalid};
use crate::p4runtime::proto::p4::v1 as pb;
use tonic::Code;
use weir_p4::exec::MeterCell;
use weir_p4::value::Val;

/// The cells an index means; all without one.
pub fn cells(index: &Option<pb::Index>, size: usize) -> Res<std::ops::Range<usize>> {
    let Some(pb::Index { index }) = index else { return Ok(0..size) };
    match usize::try_from(*index) {
        Ok(i) if i < size => Ok(i..i + 1),
        Ok(i) => Err(Fail::new(Code::OutOfRange, format!("{i} is above the last, {}", size as i64 - 1)).under("index")),
        Err(_) => Err(invalid(format!("{index} is negative")).under("index")),
    }
}

/// A register's cell from its values, the first uppermost.
pub fn pack(values: Vec<Val>, widths: &[u32]) -> Val {
    let total = widths.iter().sum();
    values.into_iter().zip(widths).fold(Val::S(0), |cell, (v, w)| cell.shl(*w as usize, total).or(v))
}

/// The values of a register's cell.
pub fn unpack(cell: &Val, widths: &[u32]) -> Vec<Val> {
    let mut left: u32 = widths.iter().sum();
    let take = |w: &u32| {
        left -= w;
        cell.clone().shr(left as usize).mask(*w)
    };
    widths.iter().map(take).collect()
}

/// Tokens per second or tokens beyond this lose digits in the meter's arithmetic.
const MAX_RATE: i64 = 1 << 50;

/// A meter's rates per second and bursts: committed, then peak.
pub type Rates = [(i64, i64); 2];

pub fn rates(c: &pb::MeterConfig) -> Res<Rates> {
    let fields = [("cir", c.cir), ("cburst", c.cburst), ("pir", c.pir), ("pburst", c.pburst)];
    for (name, v) in fields {
        if v < 0 {
            return Err(invalid(format!("{v} is negative")).under(name));
        }
        if v > MAX_RATE {
            return Err(Fail::new(Code::OutOfRange, format!("{v} is above {MAX_RATE}")).under(name));
        }
    }
    if c.eburst != 0 {
        return Err(invalid("must be unset; the meter has two rates").under("eburst"));
    }
    if c.pir < c.cir {
        return Err(invalid(format!("{} is below cir {}", c.pir, c.cir)).under("pir"));
    }
    Ok([(c.cir, c.cburst), (c.pir, c.pburst)])
}

pub fn set_rates(cell: &mut MeterCell, rates: Option<Rates>, now_us: u64) {
    match rates {
        Some([c, p]) => {
            let per_us = |(rate, burst): (i64, i64)| (rate as f64 / 1e6, burst as u64);
            cell.set(per_us(c), per_us(p), now_us);
        }
        None => *cell = MeterCell::default(),
    }
}

pub fn rates_message(cell: &MeterCell) -> Option<pb::MeterConfig> {
    let per_s = |(rate, burst): (f64, u64)| ((rate * 1e6).round() as i64, burst as i64);
    let [c, p] = cell.rates?.map(per_s);
    Some(pb::MeterConfig { cir: c.0, cburst: c.1, pir: p.0, pburst: p.1, eburst: 0 })
}

/// Packets and bytes.
pub fn counts(d: &pb::CounterData) -> Res<(u64, u64)> {
    let count = |name: &str, v: i64| u64::try_from(v).map_err(|_| invalid(format!("{v} is negative")).under(name));
    Ok((count("packet_count", d.packet_count)?, count("byte_count", d.byte_count)?))
}

pub fn counts_message((packets, bytes): (u64, u64)) -> pb::CounterData {
    pb::CounterData { packet_count: packets as i64, byte_count: bytes as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_several_values_comes_apart_again() {
        let widths = [9, 1, 200];
        let values = vec![Val::S(0x1aa), Val::S(1), Val::all_ones(200)];
        assert_eq!(unpack(&pack(values.clone(), &widths), &widths), values);
    }
}
