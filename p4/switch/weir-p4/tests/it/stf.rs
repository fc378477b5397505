// SPDX-License-Identifier: Apache-2.0
//! Each pair in tests/stf: packets in, packets out, state checked.
use std::path::Path;
use std::sync::Arc;
use weir_p4::stf::{Outcome, run};

fn pair(name: &str) {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stf").join(name);
    let read = |ext: &str| std::fs::read_to_string(at.with_extension(ext)).expect("both files of the pair are there");
    let program = weir_p4::compile(name, &read("p4"), &[]).expect("the program compiles");
    assert_eq!(run(Arc::new(program), &read("stf")), Outcome::Passed);
}

#[test]
fn router() {
    pair("router");
}

#[test]
fn copies() {
    pair("copies");
}

#[test]
fn language() {
    pair("language");
}

#[test]
fn keys() {
    pair("keys");
}

#[test]
fn conditional() {
    pair("conditional");
}

#[test]
fn loops() {
    pair("loops");
}

#[test]
fn forms() {
    pair("forms");
}

#[test]
fn field_lists() {
    pair("field_lists");
}

#[test]
fn argument_order() {
    pair("argument_order");
}

#[test]
fn notations() {
    pair("notations");
}

#[test]
fn parameters() {
    pair("parameters");
}
