// SPDX-License-Identifier: Apache-2.0
//! The golden vectors that `network_reference.py` wrote: the same bits.

use super::weights::PAPER;
use serde_json::Value;
use std::collections::BTreeMap;
use weir_core::congestion::pbq::{Profile, Weights, exp2, ln, tanh};

fn double(bits: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap())
}

#[test]
fn network_and_functions_give_the_bits_of_the_reference() {
    let paper = Weights::read(PAPER, Profile::Paper).unwrap();
    let own = Weights::read(include_bytes!("../../pbq/own.weights"), Profile::Own).unwrap();
    let mut checked: BTreeMap<&str, u32> = BTreeMap::new();
    for line in include_str!("../../pbq/golden.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let same = |what: &str, given: f64| {
            assert_eq!(
                given.to_bits(),
                double(&line[what]).to_bits(),
                "{what}: {given}, expected {}",
                double(&line[what])
            );
        };
        if let Some(name) = line["weights"].as_str() {
            let weights = if name == "paper.weights" { &paper } else { &own };
            let state: Vec<f64> = line["state"].as_array().unwrap().iter().map(double).collect();
            same("mean", weights.network.mean(&state));
            *checked.entry("mean").or_default() += 1;
        } else {
            for (name, function) in [("exp2", exp2 as fn(f64) -> f64), ("tanh", tanh), ("ln", ln)] {
                if line.get(name).is_some() {
                    same(name, function(double(&line["x"])));
                    *checked.entry(name).or_default() += 1;
                }
            }
        }
    }
    assert!(checked.len() == 4 && checked.values().all(|n| *n >= 16), "{checked:?}");
}
