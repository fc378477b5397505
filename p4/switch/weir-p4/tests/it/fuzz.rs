// SPDX-License-Identifier: Apache-2.0
//! The front end never panics, whatever the text; nor does the interpreter on programs that the front end accepts.
use crate::common::{cells, program, tables};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::sync::{Arc, LazyLock};
use weir_p4::bytecode::program::Program;
use weir_p4::fuzz::{Frame, Packets, Twins, as_they_are};

const SAMPLES: [&str; 3] =
    [include_str!("../stf/router.p4"), include_str!("../stf/copies.p4"), include_str!("../stf/language.p4")];

static EDGE: LazyLock<Arc<Program>> = LazyLock::new(|| program("edge.p4"));
const QUOTA: u64 = 100;

/// Forwarder of names, with its tables filled.
fn edge() -> (Twins, Frame) {
    (Twins::new(&EDGE, |edge| tables::forward_names(edge, QUOTA)), tables::name_frame)
}

/// Words that mean something, so that random sequences get past the lexer.
const WORDS: [&str; 48] = [
    "control",
    "parser",
    "state",
    "start",
    "header",
    "struct",
    "bit<8>",
    "int<4>",
    "varbit<32>",
    "table",
    "key",
    "=",
    "{",
    "}",
    "(",
    ")",
    ";",
    ",",
    "<",
    ">",
    "[",
    "]",
    ".",
    ":",
    "exact",
    "actions",
    "apply",
    "if",
    "else",
    "switch",
    "for",
    "in",
    "transition",
    "select",
    "accept",
    "1",
    "8w255",
    "0xfff",
    "x",
    "y",
    "&&&",
    "..",
    "++",
    "#define",
    "#if",
    "\n",
    "extern",
    "action",
];

fn run(text: &str, packets: &[Vec<u8>]) {
    let Ok(program) = weir_p4::compile("fuzz.p4", text, &[]) else { return };
    let mut twins = Twins::new(&Arc::new(program), |_| ());
    for (i, p) in packets.iter().enumerate() {
        twins.process(p, i as u32, 1000 * i as u64);
    }
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..6)
}

/// Cuts a text into words and the space between them, without loss.
fn pieces(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let class = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            0
        } else if c.is_whitespace() {
            1
        } else {
            2
        }
    };
    for c in text.chars() {
        match out.last_mut() {
            Some(l) if class(c) != 2 && l.chars().last().map(class) == Some(class(c)) => l.push(c),
            _ => out.push(c.to_string()),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "long tier"]
    fn any_text(text in "\\PC{0,400}") {
        run(&text, &[]);
    }

    #[test]
    #[ignore = "long tier"]
    fn any_words(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..200)) {
        run(&words.join(" "), &[]);
    }

    #[test]
    #[ignore = "long tier"]
    fn mutated_programs(
        sample in 0..SAMPLES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..6),
        packets in packets(),
    ) {
        let mut p = pieces(SAMPLES[sample]);
        for (a, b, kind) in edits {
            let (i, j) = (a.index(p.len()), b.index(p.len()));
            match kind {
                0 => { p.remove(i); }
                1 => p.swap(i, j),
                2 => { let x = p[j].clone(); p.insert(i, x); }
                _ => p[i] = WORDS[j % WORDS.len()].to_string(),
            }
            if p.is_empty() { return Ok(()); }
        }
        run(&p.concat(), &packets);
    }

    #[test]
    #[ignore = "long tier"]
    fn any_packets(sample in 0..SAMPLES.len(), packets in packets()) {
        run(SAMPLES[sample], &packets);
    }

    // Same as the cargo-fuzz targets in p4/switch/fuzz, with random input instead of coverage.
    #[test]
    #[ignore = "long tier"]
    fn target_front_end(data in prop::collection::vec(any::<u8>(), 0..400)) {
        weir_p4::fuzz::front_end(&data);
    }

    #[test]
    #[ignore = "long tier"]
    fn target_packet(inputs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 1..8)) {
        let samples = SAMPLES.map(|text| (Twins::new(&weir_p4::fuzz::program(text, &[]), |_| ()), as_they_are as Frame));
        let mut packets = Packets::new(samples.into_iter().chain([edge()]));
        inputs.iter().for_each(|data| packets.feed(data));
    }
}

/// Random input to the target on names reaches every counter of `names`; a fuzzer does so sooner.
#[test]
#[ignore = "long tier"]
fn target_packet_gets_to_all_that_becomes_of_names() {
    let inputs = prop::collection::vec((0..36u8, 0..3u8, 0..9u8, prop::collection::vec(any::<u8>(), 24)), 8);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut packets = Packets::new([edge()]);
    for _ in 0..2500 {
        let mut data = vec![0];
        for (port, at, wait_ms, bytes) in inputs.new_tree(&mut runner).expect("an input").current() {
            data.extend([[port, 3, 4][usize::from(at)], 12, wait_ms]);
            data.extend(bytes);
        }
        packets.feed(&data);
    }
    let names = cells(packets.switch(0), "names");
    assert!(names.iter().all(|&count| count > 0), "{names:?}");
}

#[test]
#[ignore = "long tier"]
fn deep_nesting_is_refused() {
    for (open, close) in [("(", ")"), ("{", "}"), ("if (true) ", ""), ("-", ""), ("x[", "]"), ("bit<(", ")>")] {
        let body = format!("{}1{}", open.repeat(5000), close.repeat(5000));
        let text = format!("const bit<8> a = {body}; bit<8> f() {{ {body} }}");
        assert!(weir_p4::compile("deep.p4", &text, &[]).is_err());
    }
    let long = format!("const int a = 0{};", " + 1".repeat(5000));
    assert!(weir_p4::compile("long.p4", &long, &[]).is_err());
    let doubling: String = (1..40).map(|i| format!("#define M{i} M{} M{}\n", i - 1, i - 1)).collect();
    assert!(weir_p4::compile("macros.p4", &format!("{doubling}M39"), &[]).is_err());
}
