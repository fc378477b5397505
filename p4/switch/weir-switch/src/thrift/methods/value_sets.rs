// SPDX-License-Identifier: Apache-2.0
//! Value sets of parsers. A value is the concatenation of the fields' bits.
use super::Call;
use crate::thrift::failure::{Done, Failure, declared};
use num_bigint::BigUint;
use thrift::protocol::TType;
use weir_p4::bytecode::program::Program;
use weir_p4::value::Val;

/// ParseVSetOperationErrorCode.
const INVALID_NAME: i32 = 1;
const ERROR: i32 = 2;

type Members = Vec<Vec<Val>>;

fn set(program: &Program, name: &str) -> Result<usize, Failure> {
    let at = program.value_sets.iter().position(|v| v.name == name);
    at.map_or_else(|| declared(INVALID_NAME, format!("there is no value set {name}")), Ok)
}

/// The fields of a value.
fn split(bytes: &[u8], widths: &[u32]) -> Result<Vec<Val>, Failure> {
    let value = Val::from_big(BigUint::from_bytes_be(bytes));
    let mut left: u32 = widths.iter().sum();
    if value.bits() > left {
        return declared(ERROR, format!("the value does not fit {left} bits"));
    }
    let take = |w: &u32| {
        left -= w;
        value.clone().shr(left as usize).mask(*w)
    };
    Ok(widths.iter().map(take).collect())
}

fn joined(values: &[Val], widths: &[u32]) -> Vec<u8> {
    let total = widths.iter().sum();
    let value = values.iter().zip(widths).fold(Val::default(), |all, (v, w)| all.shl(*w as usize, total).or(v.clone()));
    value.bytes(total)
}

/// Members that are plain values; P4Runtime can also write masks, which BMv2 has no form for.
fn members(state: &[Vec<(Val, Val)>]) -> Members {
    state.iter().map(|m| m.iter().map(|(v, _)| v.clone()).collect()).collect()
}

fn change(call: &Call<'_>, f: impl FnOnce(&mut Members, Vec<Val>) + Send + 'static) -> Done {
    let (name, value) = (call.arguments.string(2)?, call.arguments.bytes(3)?.to_vec());
    call.change(move |w| {
        let at = set(&w.config.program, &name)?;
        let ir = &w.config.program.value_sets[at];
        let value = split(&value, &ir.widths)?;
        let mut all = members(&w.state.value_sets[at]);
        f(&mut all, value);
        if all.len() > ir.size {
            return declared(ERROR, format!("value set {name} has room for {} members", ir.size));
        }
        w.set_value_set(at, &all);
        Ok(())
    })
}

pub fn add(call: &mut Call<'_>) -> Done {
    change(call, |all, value| {
        if !all.contains(&value) {
            all.push(value);
        }
    })
}

pub fn remove(call: &mut Call<'_>) -> Done {
    change(call, |all, value| all.retain(|v| *v != value))
}

pub fn clear(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    call.change(move |w| {
        let at = set(&w.config.program, &name)?;
        w.set_value_set(at, &[]);
        Ok(())
    })
}

pub fn get(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let values = call.read(move |r| {
        let at = set(&r.config.program, &name)?;
        let widths = &r.config.program.value_sets[at].widths;
        Ok(members(&r.state.value_sets[at]).iter().map(|m| joined(m, widths)).collect::<Vec<_>>())
    })?;
    call.out.list(0, TType::String, values.len());
    values.iter().for_each(|v| call.out.bytes_element(v));
    Ok(())
}
