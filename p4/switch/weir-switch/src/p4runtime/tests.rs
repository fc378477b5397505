// SPDX-License-Identifier: Apache-2.0
//! Types that the program translates to strings, from a message to a table and back; files of P4Info.
use super::book::Book;
use super::messages::actions::{call, call_message};
use super::messages::error::Res;
use super::messages::matches::{key_messages, keys, table_shapes};
use super::pipeline::{Config, p4info_message};
use super::proto::p4::v1::{self as pb, FieldMatch, field_match::FieldMatchType as M};
use super::read::Reader;
use super::{P4InfoFormat, p4info_file};
use tonic::Code;
use weir_p4::bytecode::program::{ActionCall, KeyMatch};
use weir_p4::value::Val;

const PROGRAM: &str = "#include <v1model.p4>
    @p4runtime_translation(\"\", string)
    @p4runtime_translation_mappings({ {\"\", 0}, {\"drop\", 9}, })
    type bit<10> vrf_t;
    @p4runtime_translation(\"\", 32)
    type bit<9> port_t;
    header h_t { vrf_t vrf; vrf_t other; port_t port; bit<3> rest; }
    struct headers_t { h_t h; }
    struct meta_t { }
    parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
        state start { b.extract(h.h); transition accept; }
    }
    control V(inout headers_t h, inout meta_t m) { apply { } }
    control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
        action set(vrf_t vrf, port_t port) { h.h.vrf = vrf; h.h.port = port; }
        table t { key = { h.h.vrf: exact; h.h.other: KIND; } actions = { set; } default_action = set(9, 1); }
        apply { t.apply(); }
    }
    control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
    control C(inout headers_t h, inout meta_t m) { apply { } }
    control D(packet_out b, in headers_t h) { apply { } }
    V1Switch(P(), V(), I(), E(), C(), D()) main;";

fn config(kind: &str) -> Res<Config> {
    let p4_device_config = PROGRAM.replace("KIND", kind).into_bytes().into();
    Config::verify(pb::ForwardingPipelineConfig { p4_device_config, ..Default::default() }, 1 << 20)
}

#[test]
fn types_that_are_strings_to_controllers_are_numbers_in_tables() {
    let config = config("optional").unwrap();
    let t = &config.program.info.tables[0];
    let ir = &config.program.tables[t.ir_index];
    let exact = |id, value: &[u8]| {
        let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.to_vec() }));
        FieldMatch { field_id: id, field_match_type }
    };
    let optional = |id, value: &[u8]| {
        let field_match_type = Some(M::Optional(pb::field_match::Optional { value: value.to_vec() }));
        FieldMatch { field_id: id, field_match_type }
    };
    // A new string gets the smallest free number, one that the program fixes has its own.
    let given = [exact(1, b"blue"), optional(2, b"drop")];
    let made = keys(table_shapes(t, ir), &given, "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Optional(Some(Val::S(9)))]);
    assert_eq!(key_messages(table_shapes(t, ir), &made), given);
    let made = keys(table_shapes(t, ir), &[exact(1, b"")], "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(0)), KeyMatch::Optional(None)]);
    let e = keys(table_shapes(t, ir), &[exact(1, b"1024")], "table t").unwrap_err();
    let want = "match[0] (h.h.vrf).value: 1024 is above 1023, the largest of type vrf_t";
    assert_eq!((e.code, e.to_string().as_str()), (Code::InvalidArgument, want));

    // An action's parameters have the same strings; a number of another width must fit the program's.
    let id = t.action_refs[0].id;
    let param = |param_id, value: &[u8]| pb::action::Param { param_id, value: value.to_vec() };
    let a = pb::Action { action_id: id, params: vec![param(1, b"blue"), param(2, &[1, 0])] };
    let made = call(&config.program, t, &a, false).unwrap();
    assert_eq!(made, ActionCall { action: 0, args: vec![Val::S(1), Val::S(0x100)] });
    assert_eq!(call_message(&config.program, t, &made), Some(a.clone()));
    let wide = pb::Action { params: vec![param(1, b"blue"), param(2, &[2, 0])], ..a };
    let e = call(&config.program, t, &wide, false).unwrap_err();
    assert!(e.to_string().contains("value 0x0200 does not fit 9 bits"), "{e}");
    // What the program itself put in is told in the same way.
    let own = call_message(&config.program, t, &ir.default).unwrap();
    assert_eq!(own.params, [param(1, b"drop"), param(2, &[1])]);
}

#[test]
fn who_asks_for_strings_that_nobody_wrote_uses_up_none() {
    let config = config("exact").unwrap();
    let state = weir_p4::v1model::Switch::new(config.program.clone(), 1).state;
    let book = Book::new(&config);
    let reader = Reader { config: &config, state: &state, book: &book };
    let t = &config.program.info.tables[0];
    let ir = &config.program.tables[t.ir_index];
    let key = |id, value: &str| {
        let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.into() }));
        FieldMatch { field_id: id, field_match_type }
    };
    // More than the type of 10 bits has.
    for i in 0..2000 {
        let r#match = vec![key(1, &format!("none{i}")), key(2, "drop")];
        let e = pb::TableEntry { table_id: t.preamble.id, r#match, ..Default::default() };
        let mut items = Vec::new();
        reader.plan(&pb::Entity { entity: Some(pb::entity::Entity::TableEntry(e)) }, &mut items).unwrap();
        let mut found = Vec::new();
        assert!(items.into_iter().all(|item| reader.emit(item, &mut found).is_none()));
        assert_eq!(found, []);
    }
    let made = keys(table_shapes(t, ir), &[key(1, "blue"), key(2, "red")], "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Exact(Val::S(2))]);
}

#[test]
fn strings_do_not_match_by_bits() {
    let e = config("ternary").unwrap_err();
    assert_eq!(e.code, Code::Unimplemented);
    assert!(e.to_string().contains("h.h.other of I.t is translated to strings"), "{e}");
}

#[test]
fn the_suffix_selects_the_format_of_a_p4info_file() {
    use P4InfoFormat::{Binary, Json, Text};
    let of = |name: &str| P4InfoFormat::of(std::path::Path::new(name)).ok();
    for (name, format) in [
        ("a.p4info.txtpb", Some(Text)),
        ("a.txt", Some(Text)),
        ("/dev/stdout", Some(Text)),
        ("a.p4info.binpb", Some(Binary)),
        ("a.bin", Some(Binary)),
        ("a.p4info.json", Some(Json)),
        ("a.yaml", None),
    ] {
        assert_eq!(of(name), format, "{name}");
    }
    let program = config("exact").unwrap().program;
    let message = p4info_message(&program.info);
    let binary = p4info_file(&program.info, Binary).unwrap();
    assert_eq!(prost::Message::decode(binary.as_slice()), Ok(message.clone()));
    assert_eq!(p4info_file(&program.info, Text).unwrap(), program.info.text().into_bytes());
    let json: serde_json::Value = serde_json::from_slice(&p4info_file(&program.info, Json).unwrap()).unwrap();
    assert_eq!(json["pkgInfo"]["arch"], "v1model");
    assert_eq!(json["tables"][0]["preamble"]["id"], message.tables[0].preamble.as_ref().unwrap().id);
    assert_eq!(json["tables"][0]["matchFields"][1]["matchType"], "EXACT");
    // 64 bits are strings in protobuf's JSON.
    assert_eq!(json["tables"][0]["size"], "1024");
}
