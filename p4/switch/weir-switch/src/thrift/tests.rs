// SPDX-License-Identifier: Apache-2.0
//! Requests and answers in memory, and connections over loopback.
use super::arguments::{Fields, Value, read};
use super::connection::{PROGRAM_BYTES, REQUEST_BYTES};
use super::fuzz::{Memorized, fuzz, server};
use super::{Running, Switch, listen};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use thrift::protocol::*;

const PROGRAM: &str = include_str!("../../tests/it/p4runtime/entities.p4");

fn program() -> Arc<weir_p4::bytecode::program::Program> {
    Arc::new(weir_p4::compile("entities.p4", PROGRAM, &[]).unwrap())
}

fn put(out: &mut dyn TOutputProtocol, v: &Value) {
    match v {
        Value::Bool(b) => out.write_bool(*b),
        Value::I16(n) => out.write_i16(*n),
        Value::I32(n) => out.write_i32(*n),
        Value::I64(n) => out.write_i64(*n),
        Value::Double(n) => out.write_double(*n),
        Value::Bytes(b) => out.write_bytes(b),
        Value::Struct(s) => return put_fields(out, s),
        Value::List(l) => {
            let kind = l.first().map_or(TType::I32, kind_of);
            out.write_list_begin(&TListIdentifier::new(kind, l.len() as i32)).unwrap();
            l.iter().for_each(|v| put(out, v));
            Ok(())
        }
        Value::Other => out.write_i8(1),
    }
    .unwrap();
}

fn kind_of(v: &Value) -> TType {
    match v {
        Value::Bool(_) => TType::Bool,
        Value::I16(_) => TType::I16,
        Value::I32(_) => TType::I32,
        Value::I64(_) => TType::I64,
        Value::Double(_) => TType::Double,
        Value::Bytes(_) => TType::String,
        Value::Struct(_) => TType::Struct,
        Value::List(_) => TType::List,
        Value::Other => TType::I08,
    }
}

fn put_fields(out: &mut dyn TOutputProtocol, s: &Fields) {
    for (id, v) in s.all() {
        out.write_field_begin(&TFieldIdentifier::new("", kind_of(v), *id)).unwrap();
        put(out, v);
    }
    out.write_field_stop().unwrap();
}

fn fields<const N: usize>(values: [Value; N]) -> Fields {
    Fields::from((1..).zip(values).collect::<Vec<_>>())
}

fn text(s: &str) -> Value {
    Value::Bytes(s.into())
}

fn request(name: &str, arguments: &Fields) -> Vec<u8> {
    let mut out = TBinaryOutputProtocol::new(Vec::new(), true);
    out.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, 7)).unwrap();
    put_fields(&mut out, arguments);
    out.transport
}

/// Kind, name and value of the first answer.
fn answer(bytes: &[u8]) -> (TMessageType, String, Fields) {
    let mut protocol = TBinaryInputProtocol::new(bytes, true);
    let header = protocol.read_message_begin().unwrap();
    assert_eq!(header.sequence_number, 7);
    (header.message_type, header.name, read(&mut protocol).unwrap())
}

/// The value of an answer, or the code of its exception.
fn call<const N: usize>(server: &Memorized, name: &str, arguments: [Value; N]) -> Result<Fields, i32> {
    let (kind, _, value) = answer(&fuzz(server, &request(name, &fields(arguments))));
    assert_eq!(kind, TMessageType::Reply, "{name}: {value:?}");
    match value.get(1) {
        Some(Value::Struct(e)) => Err(e.i32(1).unwrap()),
        _ => Ok(value),
    }
}

fn lpm(key: [u8; 6], length: i32) -> Value {
    let lpm = fields([Value::Bytes(key.into()), Value::I32(length)]);
    Value::Struct(Fields::from(vec![(1, Value::I32(1)), (3, Value::Struct(lpm))]))
}

fn add(server: &Memorized, key: Value, port: u8) -> Result<Fields, i32> {
    let data = Value::List(vec![Value::Bytes(vec![0, port])]);
    let options = Value::Struct(fields([Value::I32(0)]));
    let arguments = [Value::I32(0), text("I.route"), Value::List(vec![key]), text("I.forward"), data, options];
    call(server, "standard:bm_mt_add_entry", arguments)
}

#[test]
fn handles_are_bmv2_s() {
    let s = server(program());
    assert_eq!(add(&s, lpm([2, 0, 0, 0, 0, 9], 40), 1).unwrap().i32(0), Ok(0));
    assert_eq!(add(&s, lpm([4, 0, 0, 0, 0, 0], 40), 2).unwrap().i32(0), Ok(1));
    assert_eq!(add(&s, lpm([2, 0, 0, 0, 0, 7], 40), 1), Err(17), "the same but for bits behind the prefix");
    assert_eq!(add(&s, lpm([2, 0, 0, 0, 0, 0], 49), 1), Err(18));
    let of = |handle| [Value::I32(0), text("I.route"), Value::I32(handle)];
    assert!(call(&s, "standard:bm_mt_delete_entry", of(0)).is_ok());
    assert_eq!(call(&s, "standard:bm_mt_delete_entry", of(0)), Err(2));
    // The place is given again, with the number of its uses in the upper byte.
    assert_eq!(add(&s, lpm([2, 0, 0, 0, 0, 0], 48), 1).unwrap().i32(0), Ok(1 << 24));
    assert_eq!(call(&s, "standard:bm_mt_delete_entry", of(0)), Err(3));
    let count = call(&s, "standard:bm_mt_get_num_entries", [Value::I32(0), text("I.route")]).unwrap();
    assert_eq!(count.i64(0), Ok(2));
    let all = call(&s, "standard:bm_mt_get_entries", [Value::I32(0), text("I.route")]).unwrap();
    let handles: Vec<i32> = all.structs(0).unwrap().iter().map(|e| e.i32(3).unwrap()).collect();
    assert_eq!(handles, [1 << 24, 1]);
}

#[test]
fn errors_have_the_codes_of_the_interface() {
    let s = server(program());
    let of = |name: &str| [Value::I32(0), text(name)];
    assert_eq!(call(&s, "standard:bm_mt_get_num_entries", of("I.none")), Err(7));
    assert_eq!(call(&s, "standard:bm_mt_act_prof_create_group", of("I.hops")), Err(24));
    assert_eq!(call(&s, "standard:bm_register_read_all", of("I.none")), Err(1));
    assert_eq!(call(&s, "simple_pre_lag:bm_mc_mgrp_create", [Value::I32(0), Value::I32(0)]), Err(2));
    assert_eq!(call(&s, "simple_switch:mirroring_session_get", [Value::I32(5)]), Err(1));
    let (index, value) = (Value::I32(1000), Value::I64(1));
    assert_eq!(call(&s, "standard:bm_register_write", [Value::I32(0), text("I.words"), index, value]), Err(2));
    assert_eq!(call(&s, "standard:bm_swap_configs", []), Err(3));
}

#[test]
fn unknown_methods_and_lacking_arguments_are_exceptions() {
    let s = server(program());
    let one =
        [request("standard:bm_fly", &fields([Value::I32(0)])), request("standard:bm_mt_get_entries", &fields([]))];
    let answers = fuzz(&s, &one.concat());
    let (kind, name, value) = answer(&answers);
    assert_eq!((kind, name.as_str()), (TMessageType::Exception, "bm_fly"));
    assert_eq!(value.string(1).unwrap(), "there is no method bm_fly of a service `standard`");
    let second = fuzz(&s, &one[1]);
    assert!(answers.ends_with(&second), "the connection goes on");
    assert_eq!(answer(&second).2.string(1).unwrap(), "field 2 must be a string");
}

#[test]
fn requests_that_are_too_large_end_the_connection() {
    let s = server(program());
    let large =
        |bytes: usize| request("standard:bm_mt_get_entries", &fields([Value::I32(0), Value::Bytes(vec![b'x'; bytes])]));
    assert_eq!(answer(&fuzz(&s, &large(REQUEST_BYTES / 2))).0, TMessageType::Reply);
    let both = [large(REQUEST_BYTES), large(1)].concat();
    let answers = fuzz(&s, &both);
    assert_eq!(answer(&answers).0, TMessageType::Exception);
    assert_eq!(answers, fuzz(&s, &large(REQUEST_BYTES)), "nothing behind it is answered");
    // A length of 2 GiB, in a name and in an argument.
    assert!(fuzz(&s, &[0x80, 1, 0, 1, 0x7f, 0xff, 0xff, 0xff]).is_empty());
    assert!(fuzz(&s, &[0x7f, 0xff, 0xff, 0xff]).is_empty());
    let mut cut = large(4);
    let at = cut.len() - 9;
    cut[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(answer(&fuzz(&s, &cut)).0, TMessageType::Exception);
    let many = Fields::from(vec![(1, Value::List(vec![Value::Bool(true); 20_000]))]);
    assert_eq!(answer(&fuzz(&s, &request("standard:bm_mt_get_entries", &many))).0, TMessageType::Exception);
    let program = fields([Value::Bytes(vec![b'{'; PROGRAM_BYTES])]);
    assert_eq!(answer(&fuzz(&s, &request("standard:bm_load_new_config", &program))).0, TMessageType::Exception);
}

/// On a thread with the stack of a client's thread.
#[test]
fn lists_within_lists_end_the_connection() {
    let server = server(program());
    let mut bytes = request("standard:bm_mgmt_get_info", &Fields::default());
    bytes.truncate(bytes.len() - 1);
    bytes.extend([15, 0, 1]);
    bytes.extend([15, 0, 0, 0, 1].repeat(12_000));
    let answers = std::thread::spawn(move || fuzz(&server, &bytes)).join().unwrap();
    let (kind, _, failure) = answer(&answers);
    assert_eq!(kind, TMessageType::Exception);
    assert_eq!(failure.string(1).unwrap(), "a request has at most 16 levels");
}

#[test]
fn a_compiled_program_has_a_description() {
    let s = server(program());
    let given = call(&s, "standard:bm_get_config", []).unwrap().string(0).unwrap();
    let whole: Json = serde_json::from_str(&given).unwrap();
    let tables = whole["pipelines"][0]["tables"].as_array().unwrap();
    let acl = tables.iter().find(|t| t["name"] == "I.acl").unwrap();
    assert_eq!((&acl["match_type"], &acl["type"]), (&"range".into(), &"simple".into()));
    let kinds: Vec<&Json> = acl["key"].as_array().unwrap().iter().map(|k| &k["match_type"]).collect();
    assert_eq!(kinds, ["ternary", "range", "ternary"]);
    for key in tables.iter().flat_map(|t| t["key"].as_array().unwrap()) {
        let named = |list: &str, name: &Json| {
            whole[list].as_array().unwrap().iter().find(|x| x["name"] == *name).cloned().unwrap()
        };
        let header = named("headers", &key["target"][0]);
        let fields = named("header_types", &header["header_type"])["fields"].clone();
        assert!(fields.as_array().unwrap().iter().any(|f| f[0] == key["target"][1]), "{key}");
    }
    let sum = call(&s, "standard:bm_get_config_md5", []).unwrap();
    assert_eq!(sum.bytes(0).unwrap(), md5::compute(&given).0);
    let id = call(&s, "standard:bm_get_id_from_name", [Value::I32(0), Value::I32(4), text("I.signed")]);
    assert_eq!(id.unwrap().i32(0), Ok(1));
}

#[test]
fn multicast_groups_are_listed_as_bmv2_lists_them() {
    let s = server(program());
    let zero = || Value::I32(0);
    let pre = |method: &str| format!("simple_pre_lag:bm_mc_{method}");
    let node = |ports: &str, lags: &str| [zero(), Value::I32(4), text(ports), text(lags)];
    assert_eq!(call(&s, &pre("mgrp_create"), [zero(), Value::I32(5)]).unwrap().i32(0), Ok(5));
    assert_eq!(call(&s, &pre("node_create"), node("110", "")).unwrap().i32(0), Ok(0));
    assert_eq!(call(&s, &pre("node_create"), node("", "1")).unwrap().i32(0), Ok(1));
    assert_eq!(call(&s, &pre("node_create"), node("2", "")), Err(5));
    assert_eq!(call(&s, &pre("node_create"), node(&format!("1{}", "0".repeat(512)), "")), Err(5));
    for handle in [0, 1] {
        assert!(call(&s, &pre("node_associate"), [zero(), Value::I32(5), Value::I32(handle)]).is_ok());
    }
    assert_eq!(call(&s, &pre("node_associate"), [zero(), Value::I32(6), zero()]), Err(3));
    assert_eq!(call(&s, &pre("node_associate"), [zero(), Value::I32(5), Value::I32(9)]), Err(4));
    assert!(call(&s, &pre("set_lag_membership"), [zero(), Value::I16(0), text("1000")]).is_ok());
    let text = call(&s, &pre("get_entries"), [zero()]).unwrap().string(0).unwrap();
    let want = serde_json::json!({
        "mgrps": [{"id": 5, "l1_handles": [0, 1]}],
        "l1_handles": [{"handle": 0, "rid": 4, "l2_handle": 0}, {"handle": 1, "rid": 4, "l2_handle": 1}],
        "l2_handles": [{"handle": 0, "ports": [1, 2], "lags": []}, {"handle": 1, "ports": [], "lags": [0]}],
        "lags": [{"id": 0, "ports": [3]}],
    });
    assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), want);
}

#[test]
fn members_of_a_value_set_are_bytes() {
    let s = server(program());
    let of = |value: &[u8]| [Value::I32(0), text("P.specials"), Value::Bytes(value.into())];
    let get = || {
        let all = call(&s, "standard:bm_parse_vset_get", [Value::I32(0), text("P.specials")]).unwrap();
        all.byte_lists(0).unwrap().into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    for value in [&[0x88, 0xcc][..], &[0x88, 0xcc], &[0, 8, 0]] {
        assert!(call(&s, "standard:bm_parse_vset_add", of(value)).is_ok());
    }
    assert_eq!(get(), [[0x88, 0xcc], [8, 0]]);
    assert_eq!(call(&s, "standard:bm_parse_vset_add", of(&[9])), Err(2), "there is no space for a third");
    assert_eq!(call(&s, "standard:bm_parse_vset_add", of(&[1, 0, 0])), Err(2), "17 bits");
    assert!(call(&s, "standard:bm_parse_vset_remove", of(&[8, 0])).is_ok());
    assert_eq!(get(), [[0x88, 0xcc]]);
}

#[test]
fn direct_counters_are_set_and_reset() {
    let s = server(program());
    add(&s, lpm([2, 0, 0, 0, 0, 0], 8), 1).unwrap();
    let entry = || [Value::I32(0), text("I.route"), Value::I32(0)];
    let counts = || {
        let value = call(&s, "standard:bm_mt_read_counter", entry()).unwrap();
        let value = value.fields(0).unwrap();
        (value.i64(1).unwrap(), value.i64(2).unwrap())
    };
    let [context, table, handle] = entry();
    let set = Value::Struct(fields([Value::I64(500), Value::I64(5)]));
    assert!(call(&s, "standard:bm_mt_write_counter", [context, table, handle, set]).is_ok());
    assert_eq!(counts(), (500, 5));
    assert!(call(&s, "standard:bm_mt_reset_counters", [Value::I32(0), text("I.route")]).is_ok());
    assert_eq!(counts(), (0, 0));
    assert_eq!(call(&s, "standard:bm_mt_reset_counters", [Value::I32(0), text("I.acl")]), Err(4));
}

#[test]
fn registers_take_the_bits_that_they_have() {
    let s = server(program());
    let write = |name: &str, value| [Value::I32(0), text(name), Value::I32(1), Value::I64(value)];
    let read = |name: &str| {
        let value = call(&s, "standard:bm_register_read", [Value::I32(0), text(name), Value::I32(1)]).unwrap();
        value.i64(0).unwrap()
    };
    for (name, value, want) in
        [("I.words", 1 << 40 | 5, 5), ("I.words", -1, 0xffff_ffff), ("I.signed", -2, 0xfffe), ("I.signed", 3, 3)]
    {
        assert!(call(&s, "standard:bm_register_write", write(name, value)).is_ok());
        assert_eq!(read(name), want, "{name} {value}");
    }
    let range = [Value::I32(0), text("I.words"), Value::I32(0), Value::I32(1000), Value::I64(9)];
    assert!(call(&s, "standard:bm_register_write_range", range).is_ok());
    let reply = fuzz(&s, &request("standard:bm_register_read_all", &fields([Value::I32(0), text("I.words")])));
    assert!(reply.ends_with(&[&9_i64.to_be_bytes()[..], &[0]].concat()));
    assert!(reply.len() > 8 * 1000);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i16>().prop_map(Value::I16),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        (-1e9..1e9).prop_map(Value::Double),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec((any::<i16>(), inner.clone()), 0..4).prop_map(|f| Value::Struct(Fields::from(f))),
            (inner, 0_usize..4).prop_map(|(v, n)| Value::List(vec![v; n])),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encoded_is_decoded(values in prop::collection::vec((any::<i16>(), value()), 0..5)) {
        let given = Fields::from(values);
        let mut out = TBinaryOutputProtocol::new(Vec::new(), true);
        put_fields(&mut out, &given);
        prop_assert_eq!(read(&mut TBinaryInputProtocol::new(&out.transport[..], true)).unwrap(), given);
    }

    #[test]
    fn no_request_breaks_the_server(
        method in prop::sample::select(super::methods::names()),
        values in prop::collection::vec((0_i16..7, value()), 0..7),
        cut in 0_usize..64,
        noise in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        // One for all cases: a thread each.
        static SERVER: std::sync::OnceLock<Memorized> = std::sync::OnceLock::new();
        let server = SERVER.get_or_init(|| server(program()));
        let whole = request(&method, &Fields::from(values));
        fuzz(server, &whole);
        let cut = whole.len().saturating_sub(cut);
        fuzz(server, &[&whole[..cut], &noise].concat());
        let (kind, _, value) = answer(&fuzz(server, &request("standard:bm_mgmt_get_info", &fields([]))));
        prop_assert_eq!(kind, TMessageType::Reply);
        prop_assert_eq!(value.fields(0).unwrap().i64(1), Ok(1));
    }
}

fn running() -> Running {
    listen(0).unwrap().serve(server(program()).control(), Switch::default()).unwrap()
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) -> std::io::Result<usize> {
    stream.write_all(&request("standard:bm_mgmt_get_info", &fields([])))?;
    stream.read(&mut [0; 256])
}

#[test]
fn half_a_request_delays_nobody_and_the_end_waits_for_nobody() {
    let running = running();
    let mut half = connect(&running);
    half.write_all(&request("standard:bm_mgmt_get_info", &fields([]))[..9]).unwrap();
    let mut other = connect(&running);
    assert!(ask(&mut other).unwrap() > 0);
    drop(running);
    assert_eq!(half.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn an_idle_connection_gives_way() {
    let running = running();
    let mut all: Vec<TcpStream> = (0..64).map(|_| connect(&running)).collect();
    // Each has been accepted when it has an answer. The order of the threads decides the longest idle one.
    all.iter_mut().for_each(|c| assert!(ask(c).unwrap() > 0));
    let mut one_more = connect(&running);
    assert!(ask(&mut one_more).unwrap() > 0);
    assert_eq!(all.iter_mut().filter_map(|c| ask(c).ok()).filter(|n| *n > 0).count(), 63);
}
