// SPDX-License-Identifier: Apache-2.0
//! P4Info of the programs in tests/p4info, as recorded and read, and its links to the IR. After a wanted change run
//! with WEIR_BLESS=1 and read the difference. `weir-p4info --compare` compares with p4c's own files.
use std::path::Path;
use weir_p4::bytecode::program::Program;
use weir_p4::p4info::{Format, Preambled, parse};

fn compiled(name: &str) -> (Program, String) {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/p4info").join(name);
    let text = std::fs::read_to_string(at.with_extension("p4")).expect("the program can be read");
    let program = weir_p4::compile(name, &text, &[]).expect("the program compiles");
    let recorded = at.with_extension("txtpb");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&recorded, written(&program, Format::Text)).expect("the record can be written");
    }
    (program, std::fs::read_to_string(recorded).expect("there is a record"))
}

fn written(program: &Program, format: Format) -> Vec<u8> {
    program.info.file(format).expect("P4Info can be written")
}

#[test]
fn text_is_as_recorded() {
    let (program, recorded) = compiled("everything");
    assert_eq!(String::from_utf8(written(&program, Format::Text)).expect("text is UTF-8"), recorded);
}

#[test]
fn all_formats_have_the_same_message() {
    let (program, recorded) = compiled("everything");
    let message = program.info.message();
    assert_eq!(parse(&recorded), Ok(message.clone()));
    assert_eq!(prost::Message::decode(written(&program, Format::Binary).as_slice()), Ok(message.clone()));
    let json: serde_json::Value = serde_json::from_slice(&written(&program, Format::Json)).expect("JSON");
    assert_eq!(json["pkgInfo"]["arch"], "v1model");
    assert_eq!(json["tables"][0]["preamble"]["id"], message.tables[0].id());
    assert_eq!(json["tables"][0]["matchFields"][0]["matchType"], "TERNARY");
    // 64 bits are strings in protobuf's JSON.
    assert_eq!(json["tables"][0]["size"], message.tables[0].size.to_string());
}

#[test]
fn files_are_the_same_each_time() {
    let ((first, _), (second, _)) = (compiled("everything"), compiled("everything"));
    for format in [Format::Text, Format::Binary, Format::Json] {
        assert_eq!(written(&first, format), written(&second, format), "{format:?}");
    }
}

#[test]
fn the_suffix_selects_the_format() {
    let of = |name: &str| Format::of(Path::new(name)).ok();
    for (name, format) in [
        ("a.p4info.txtpb", Some(Format::Text)),
        ("a.txt", Some(Format::Text)),
        ("/dev/stdout", Some(Format::Text)),
        ("a.p4info.binpb", Some(Format::Binary)),
        ("a.bin", Some(Format::Binary)),
        ("a.p4info.json", Some(Format::Json)),
        ("a.yaml", None),
    ] {
        assert_eq!(of(name), format, "{name}");
    }
}

#[test]
fn links_lead_to_the_same_objects() {
    let (p, _) = compiled("everything");
    let info = &p.info;
    assert!(!info.tables.is_empty() && !info.action_profiles.is_empty());
    for t in &info.tables {
        let ir = &p.tables[t.ir_index];
        assert_eq!(ir.name, t.name());
        assert_eq!(ir.actions.len(), t.action_refs.len());
        for (used, a) in ir.actions.iter().zip(&t.action_refs) {
            let known = info.action(a.id).expect("the action is known");
            assert_eq!(used.name, known.name());
            assert_eq!(used.params.len(), known.params.len());
        }
    }
    for x in &info.action_profiles {
        assert_eq!(p.profiles[x.ir_index].name, x.name());
        let table = info.table(x.table_ids[0]).expect("the table is known");
        assert_eq!(p.tables[table.ir_index].profile, Some(x.ir_index));
    }
    info.counters.iter().for_each(|c| assert_eq!(p.counters[c.ir_index].name, c.name()));
    info.direct_counters.iter().for_each(|c| assert_eq!(p.counters[c.ir_index].name, c.name()));
    info.meters.iter().for_each(|m| assert_eq!(p.meters[m.ir_index].name, m.name()));
    info.direct_meters.iter().for_each(|m| assert_eq!(p.meters[m.ir_index].name, m.name()));
    info.registers.iter().for_each(|r| assert_eq!(p.registers[r.ir_index].name, r.name()));
    info.digests.iter().for_each(|d| assert_eq!(p.digests[d.ir_index].name, d.name()));
    info.value_sets.iter().for_each(|v| assert_eq!(p.value_sets[v.ir_index].name, v.name()));
}

/// p4c runs a C preprocessor first, which sees the directives in a string of several lines.
#[test]
fn conditionals_in_a_string_choose_its_lines() {
    const REST: &str = "\
#include <v1model.p4>
struct empty {}
parser P(packet_in p, out empty h, inout empty m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout empty h, inout empty m) { apply {} }
control I(inout empty h, inout empty m, inout standard_metadata_t s) {
    @restriction(\"
  one;
  #if defined(TWO) && THREE > 2
  two;
# elif 1
  three;
#else
  four;
  #endif
#five\" , other)
    action act() {}
    table t { key = { s.ingress_port: exact; } actions = { act; } }
    apply { t.apply(); }
}
control E(inout empty h, inout empty m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in empty h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";
    for (defines, want) in [
        ("", "\n  one;\n\n\n\n  three;\n\n\n\n#five"),
        ("#define TWO\n#define THREE 3\n", "\n  one;\n\n  two;\n\n\n\n\n\n#five"),
    ] {
        let program = weir_p4::compile("s.p4", &format!("{defines}{REST}"), &[]).expect("a program");
        let message = program.info.message();
        let preambles = message.actions.iter().filter_map(|a| a.preamble.as_ref());
        let said: Vec<_> = preambles.filter(|p| p.alias == "act").flat_map(|p| &p.annotations).collect();
        assert_eq!(said, [&format!("@restriction(\"{want}\" , other)")]);
    }
    let open = REST.replace("#endif", "");
    assert!(weir_p4::compile("s.p4", &open, &[]).is_err());
}
