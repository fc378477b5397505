// SPDX-License-Identifier: Apache-2.0
//! Types that the program translates to strings, from a message to a table and back; sweeps for idle entries; files
//! of P4Info.
use super::controller_state::ControllerState;
use super::messages::actions::{call, call_message};
use super::messages::error::Res;
use super::messages::matches::{key_messages, keys, table_shapes};
use super::pipeline::Config;
use super::proto::p4::v1::update::Type;
use super::proto::p4::v1::{self as pb, FieldMatch, field_match::FieldMatchType as M};
use super::read::Reader;
use super::read::idle::Position;
use super::write::Writer;
use tonic::Code;
use weir_p4::bytecode::program::{ActionCall, KeyMatch};
use weir_p4::p4info::Preambled;
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
    let made = keys(table_shapes(&config.program, t), &given, "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Optional(Some(Val::S(9)))]);
    assert_eq!(key_messages(table_shapes(&config.program, t), &made), given);
    let made = keys(table_shapes(&config.program, t), &[exact(1, b"")], "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(0)), KeyMatch::Optional(None)]);
    let e = keys(table_shapes(&config.program, t), &[exact(1, b"1024")], "table t").unwrap_err();
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
    // Entries of the program itself are reported in the same way.
    let own = call_message(&config.program, t, &ir.default).unwrap();
    assert_eq!(own.params, [param(1, b"drop"), param(2, &[1])]);
}

#[test]
fn who_asks_for_strings_that_nobody_wrote_uses_up_none() {
    let config = config("exact").unwrap();
    let state = weir_p4::v1model::Switch::new(config.program.clone(), 1).state;
    let controller = ControllerState::new(&config);
    let reader = Reader { config: &config, state: &state, controller: &controller, now_us: 0 };
    let t = &config.program.info.tables[0];
    let key = |id, value: &str| {
        let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.into() }));
        FieldMatch { field_id: id, field_match_type }
    };
    // More than the type of 10 bits has.
    for i in 0..2000 {
        let r#match = vec![key(1, &format!("none{i}")), key(2, "drop")];
        let e = pb::TableEntry { table_id: t.id(), r#match, ..Default::default() };
        let mut items = Vec::new();
        reader.plan(&pb::Entity { entity: Some(pb::entity::Entity::TableEntry(e)) }, &mut items).unwrap();
        let mut found = Vec::new();
        assert!(items.into_iter().all(|item| reader.emit(item, &mut found).is_none()));
        assert_eq!(found, []);
    }
    let made = keys(table_shapes(&config.program, t), &[key(1, "blue"), key(2, "red")], "table t").unwrap();
    assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Exact(Val::S(2))]);
}

#[test]
fn strings_do_not_match_by_bits() {
    let e = config("ternary").unwrap_err();
    assert_eq!(e.code, Code::Unimplemented);
    assert!(e.to_string().contains("h.h.other of I.t is translated to strings"), "{e}");
}

#[test]
fn a_sweep_finds_each_idle_entry_once_a_timeout_in_bounded_pieces() {
    let text = PROGRAM.replace("default_action = set(9, 1);", "support_timeout = true; size = 10000;");
    let p4_device_config = text.replace("KIND", "exact").into_bytes().into();
    let config = pb::ForwardingPipelineConfig { p4_device_config, ..Default::default() };
    let config = Config::verify(config, 1 << 20).unwrap();
    let mut state = weir_p4::v1model::Switch::new(config.program.clone(), 1).state;
    let mut controller = ControllerState::new(&config);
    let t = config.program.info.tables[0].clone();
    let key = |id, value: &str| {
        let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.into() }));
        FieldMatch { field_id: id, field_match_type }
    };
    const MS: u64 = 1000;
    const ENTRIES: u64 = 1000;
    let action = pb::Action { action_id: t.action_refs[0].id, params: vec![param(1, b"drop"), param(2, &[1])] };
    let action = Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) });
    for i in 10..10 + ENTRIES {
        let e = pb::TableEntry {
            table_id: t.id(),
            r#match: vec![key(1, &i.to_string()), key(2, "drop")],
            action: action.clone(),
            controller_metadata: i + 1,
            idle_timeout_ns: if i % 2 == 0 { 20_000_000 } else { 0 },
            ..Default::default()
        };
        let entity = Some(pb::Entity { entity: Some(pb::entity::Entity::TableEntry(e)) });
        let update = pb::Update { r#type: Type::Insert as i32, entity };
        Writer::new(&config, &mut state, &mut controller, 5 * MS).update(&update).unwrap();
    }
    let mut sweep = |state: &weir_p4::exec::State, now_us| {
        let (mut at, mut found, mut soonest) = (Some(Position::START), 0, None);
        while let Some(from) = at {
            let piece = Reader { config: &config, state, controller: &controller, now_us }.expired(from);
            piece.expired.iter().for_each(|(table, id, _)| controller.notified(*table, *id, now_us));
            assert!(piece.expired.len() <= 128, "{}", piece.expired.len());
            assert!(piece.expired.iter().all(|(_, _, e)| e.action.is_none() && e.controller_metadata % 2 == 1));
            found += piece.expired.len() as u64;
            soonest = soonest.into_iter().chain(piece.soonest_us).min();
            at = piece.next;
        }
        (found, soonest)
    };
    assert_eq!(sweep(&state, 5 * MS), (0, Some(20 * MS)));
    assert_eq!(sweep(&state, 25 * MS - 1), (0, Some(1)));
    // One was matched meanwhile.
    let id = state.tables[t.ir_index].entries().next().unwrap().0;
    state.tables[t.ir_index].entry_mut(id).unwrap().last_hit_us = 15 * MS;
    assert_eq!(sweep(&state, 25 * MS), (ENTRIES / 2 - 1, Some(10 * MS)));
    assert_eq!(sweep(&state, 26 * MS), (0, Some(9 * MS)));
    assert_eq!(sweep(&state, 35 * MS), (1, Some(10 * MS)));
    assert_eq!(sweep(&state, 45 * MS), (ENTRIES / 2 - 1, Some(10 * MS)));
    // A program that began to run later has entries that are as young.
    state.started_us = 100 * MS;
    assert_eq!(sweep(&state, 110 * MS), (0, Some(10 * MS)));
}

fn param(param_id: u32, value: &[u8]) -> pb::action::Param {
    pb::action::Param { param_id, value: value.to_vec() }
}
