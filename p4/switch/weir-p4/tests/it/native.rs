// SPDX-License-Identifier: Apache-2.0
//! Native code beside the interpreter: the same entries and packets in, the same packets, events, state and steps out.
use crate::bmv2::differential::compare_switches;
use crate::common::repository;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::bytecode::program::Program;
use weir_p4::fuzz::Twins;
use weir_p4::v1model::Switch;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The program, and its hexadecimal numbers as a document of JSON has them.
fn program(path: &Path) -> (Arc<Program>, String) {
    let text = read(path);
    let program = weir_p4::compile(&path.display().to_string(), &text, &[]).unwrap_or_else(|d| panic!("{d}"));
    let digits = text.split("0x").skip(1).map(|t| t.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default());
    (Arc::new(program), digits.map(|d| format!("\"0x{d}\" ")).collect())
}

fn compare(path: &Path, seeds: u64, packets: usize) {
    let (program, numbers) = program(path);
    for seed in 1..=seeds {
        let native = Switch::compiled(program.clone(), seed);
        assert_eq!(native.native(), Ok(()), "{}", path.display());
        let both = (Switch::new(program.clone(), seed), native);
        let run = compare_switches(both, &numbers, seed, packets, |a, b, _| match (a.spent(), b.spent()) {
            (a, b) if a == b => Ok(()),
            (a, b) => Err(format!("{a} and {b} steps")),
        });
        run.unwrap_or_else(|e| panic!("{}, seed {seed}: {e}", path.display()));
    }
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder can be read");
    let paths = entries.map(|e| e.expect("an entry").path());
    paths.filter(|p| p.extension().is_some_and(|e| e == "p4")).collect()
}

#[test]
fn small_programs_do_the_same_as_native_code() {
    programs("p4/switch/weir-p4/tests/stf").iter().for_each(|p| compare(p, 2, 150));
}

#[test]
fn programs_of_the_law_and_of_names_do_the_same_as_native_code() {
    programs("p4/programs").iter().for_each(|p| compare(p, 2, 300));
}

#[test]
#[ignore = "long tier"]
fn many_packets_do_the_same_as_native_code() {
    programs("p4/switch/weir-p4/tests/stf").iter().for_each(|p| compare(p, 20, 1000));
    programs("p4/programs").iter().for_each(|p| compare(p, 20, 2000));
}

/// A program whose loops and calls end at the limit of steps, by the packet's first byte.
const LIMITS: &str = "#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> v; }
struct h_t { byte_t b; byte_t[4] s; }
struct m_t { bit<32> sum; bit<8> v; }
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {
    state start { p.extract(h.b); transition select(h.b.v) { 1: again; 2: stack; default: accept; } }
    state again { m.v = m.v + 1; transition select(h.b.v) { 1: again; default: accept; } }
    state stack { p.extract(h.s.next); transition stack; }
}
control V(inout h_t h, inout m_t m) { apply { } }
control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) r;
    counter(4, CounterType.packets) c;
    action a(inout bit<32> x) { x = x + 1; if (h.b.v == 4) { exit; } x = x * 3; }
    apply {
        s.egress_spec = 1;
        s.parser_error = error.NoError;
        if (h.b.v == 3) {
            for (bit<32> i in 32w0..32w4000000000) { m.sum = m.sum + i; }
        }
        bit<32> x = 7;
        a(x);
        r.write((bit<32>)h.b.v, x);
        r.read(m.sum, (bit<32>)h.b.v);
        c.count((bit<32>)h.b.v);
        h.s[h.b.v].setValid();
        h.s[h.b.v].v = h.s[h.b.v - 1].v / (h.b.v - 5) + h.b.v % (h.b.v - 6);
        assert(h.b.v != 9);
    }
}
control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control C(inout h_t h, inout m_t m) { apply { } }
control D(packet_out p, in h_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

#[test]
fn limits_faults_and_ends_of_arrays_are_the_same_in_native_code() {
    let program = weir_p4::compile("limits.p4", LIMITS, &[]).unwrap_or_else(|d| panic!("{d}"));
    let mut twins = Twins::new(&Arc::new(program), |_| ());
    for v in 0..=255 {
        (0..8).for_each(|length| twins.process(&[v, v, 3, 4, 5, 6, 7][..length.min(7)], 1, 1));
    }
}
