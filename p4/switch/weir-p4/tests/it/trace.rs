// SPDX-License-Identifier: Apache-2.0
//! Traces: packets are forwarded as without one, and each line agrees with the packets sent.
use crate::bmv2::differential;
use crate::common::{program, repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_p4::bytecode::program::{ActionCall, KeyMatch, Program};
use weir_p4::exec::{EntryAction, Member};
use weir_p4::stf::{Outcome, ScriptTrace, run_with};
use weir_p4::v1model::{Notes, Sent, Switch};
use weir_p4::value::Val;

const SELECTOR: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action forward(bit<9> port) { sm.egress_spec = port; }
    action away() { mark_to_drop(sm); }
    table next {
        key = { h.h.a : ternary; h.h.b : selector; }
        actions = { forward; away; }
        implementation = action_selector(HashAlgorithm.identity, 16, 8);
        default_action = away();
    }
    apply { random(h.h.b, 3, 6); next.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn lines(switch: &mut Switch) -> Vec<Value> {
    switch.take_trace().iter().map(|l| serde_json::from_str(l).expect("each line is JSON")).collect()
}

fn list<'v>(of: &'v Value, key: &str) -> &'v [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// Whether the lines of one packet hold together and end in what was sent.
fn holds(switch: &mut Switch, sent: &[Sent]) -> Result<(), String> {
    let lines = lines(switch);
    let results: Vec<(&Value, &Value)> =
        lines.iter().flat_map(|l| list(l, "results").iter().map(move |r| (l, r))).collect();
    let left: Vec<(u64, u64)> = results
        .iter()
        .filter(|(_, r)| r["result"] == "sent")
        .map(|(_, r)| (r["port"].as_u64().unwrap(), r["length"].as_u64().unwrap()))
        .collect();
    let wanted: Vec<(u64, u64)> = sent.iter().map(|s| (u64::from(s.port), s.packet.len() as u64)).collect();
    if left != wanted {
        return Err(format!("sent {wanted:?}, in the trace {left:?}"));
    }
    let made: BTreeSet<(u64, u64)> =
        results.iter().filter_map(|(l, r)| Some((l["pass"].as_u64()?, r["pass"].as_u64()?))).collect();
    let children: BTreeSet<(u64, u64)> =
        lines.iter().filter_map(|l| Some((l["parent"].as_u64()?, l["pass"].as_u64()?))).collect();
    if made != children {
        return Err(format!("passes made {made:?}, and with a line {children:?}"));
    }
    let tables: BTreeSet<&str> = switch.program.tables.iter().map(|t| t.name.as_str()).collect();
    for line in &lines {
        if list(line, "results").is_empty() || line["v"] != 1 || line["packet"] != lines[0]["packet"] {
            return Err(format!("an incomplete line: {line}"));
        }
        let applied = list(line, "events").iter().filter(|e| e["event"] == "table");
        if let Some(e) = applied.into_iter().find(|e| !tables.contains(e["table"].as_str().unwrap_or_default())) {
            return Err(format!("no table of the program: {e}"));
        }
    }
    Ok(())
}

fn agrees(p: &Arc<Program>, numbers: &str) {
    let mut sent = 0;
    for seed in 1..=4 {
        let both = (Switch::new(p.clone(), seed), Switch::traced(p.clone(), seed));
        let run = differential::compare_switches(both, numbers, seed, 150, |_, b, sent| holds(b, sent));
        sent += run.unwrap_or_else(|e| panic!("seed {seed}: {e}")).1;
    }
    assert!(sent > 0);
}

#[test]
fn programs_from_source_do_the_same_with_a_trace() {
    for name in ["pid_delay.p4", "edge.p4"] {
        agrees(&program(name), "");
    }
}

#[test]
fn programs_from_json_do_the_same_with_a_trace() {
    for name in ["forward.json", "labels.json"] {
        let path = repository().join("p4/switch/weir-p4/tests/bmv2").join(name);
        let text = std::fs::read_to_string(path).expect("the document can be read");
        agrees(&Arc::new(weir_p4::bmv2::load(&text).expect("the document loads").program), &text);
    }
}

/// Events of one kind.
fn events<'v>(lines: &'v [Value], kind: &str) -> Vec<&'v Value> {
    lines.iter().flat_map(|l| list(l, "events")).filter(|e| e["event"] == kind).collect()
}

#[test]
fn a_checksum_has_a_result_or_a_false_condition_and_a_header_its_name() {
    let at = repository().join("p4/switch/weir-p4/tests/bmv2");
    let read = |name: &str| std::fs::read_to_string(at.join(name)).expect("the file is there");
    let source = weir_p4::compile("forward.p4", &read("forward.p4"), &[]).expect("the program compiles");
    let json = weir_p4::bmv2::load(&read("forward.json")).expect("the document loads").program;
    let sums = [0x9ad0u16, 0x9ad1].map(u16::to_be_bytes);
    let ipv4 = |sum: [u8; 2]| {
        let head = [8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 9, 17];
        [&[0; 12][..], &head, &sum, &[10, 0, 1, 1, 10, 0, 2, 9]].concat()
    };
    let other = [&[0; 12][..], &[0x12, 0x34, 1, 2, 3]].concat();
    for (program, headers) in [(source, &[][..]), (json, &["ethernet", "ipv4"])] {
        let p = Arc::new(program);
        let mut s = Switch::traced(p.clone(), 1);
        let table = p.tables.iter().position(|t| t.name.ends_with("routes")).expect("the table is there");
        let t = &p.tables[table];
        let action = t.actions.iter().position(|a| a.name.ends_with("route")).expect("the action is there");
        let call = ActionCall { action, args: vec![Val::S(2), Val::S(2)] };
        s.state.tables[table].set_default(t, EntryAction::Call(call)).expect("the action fits");
        let mut ran = |packet: &[u8]| {
            s.process(packet, 1, 0, &mut Notes::default());
            lines(&mut s)
        };
        let (right, wrong, none) = (ran(&ipv4(sums[0])), ran(&ipv4(sums[1])), ran(&other));
        assert_eq!(results(&right, "verify_checksum", "right"), [Value::from(true)]);
        assert_eq!(results(&wrong, "verify_checksum", "right"), [Value::from(false)]);
        assert_eq!(results(&none, "verify_checksum", "condition"), [Value::from(false)]);
        // The time to live is one less.
        assert_eq!(results(&right, "update_checksum", "value"), [Value::from("0x9bd0")]);
        assert_eq!(results(&right, "extract", "header"), headers.iter().map(|h| Value::from(*h)).collect::<Vec<_>>());
    }
}

/// Members of the events of one kind, of which each has just this one.
fn results(lines: &[Value], kind: &str, member: &str) -> Vec<Value> {
    const RESULTS: [&str; 3] = ["right", "value", "condition"];
    let found = events(lines, kind);
    for e in &found {
        assert!(RESULTS.iter().all(|r| *r == member || !RESULTS.contains(&member) || e[r].is_null()), "{e}");
    }
    found.iter().map(|e| e[member].clone()).filter(|v| !v.is_null()).collect()
}

#[test]
fn a_checksum_that_is_not_updated_has_no_value() {
    let compute = "update_checksum(h.h.a == 1, { h.h.a }, h.h.b, HashAlgorithm.csum16);";
    let none = "control C(inout headers_t h, inout meta_t m) { apply { } }";
    let text =
        SELECTOR.replace("bit<8> b", "bit<16> b").replace(none, &none.replace("{ } }", &format!("{{ {compute} }} }}")));
    let p = Arc::new(weir_p4::compile("sum.p4", &text, &[]).unwrap_or_else(|d| panic!("{d:?}")));
    let mut s = Switch::traced(p.clone(), 1);
    let call = ActionCall { action: 0, args: vec![Val::S(4)] };
    s.state.tables[0].set_default(&p.tables[0], EntryAction::Call(call)).expect("the action fits");
    for (a, member) in [(1, "value"), (2, "condition")] {
        assert_eq!(s.process(&[a, 0, 0], 1, 0, &mut Notes::default()).len(), 1);
        assert_eq!(results(&lines(&mut s), "update_checksum", member).len(), 1);
    }
}

#[test]
fn elements_of_a_stack_are_named() {
    let path = repository().join("p4/switch/weir-p4/tests/bmv2/labels.json");
    let text = std::fs::read_to_string(path).expect("the document can be read");
    let p = Arc::new(weir_p4::bmv2::load(&text).expect("the document loads").program);
    let both = (Switch::new(p.clone(), 1), Switch::traced(p, 1));
    let mut names = BTreeSet::new();
    differential::compare_switches(both, &text, 1, 150, |_, b, _| {
        for e in events(&lines(b), "extract") {
            names.insert(e["header"].as_str().ok_or("a header without a name")?.to_string());
        }
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{e}"));
    assert!(names.iter().any(|n| n.contains("[]")) && names.len() > 1, "{names:?}");
}

#[test]
fn clones_copies_and_rounds_are_passes_of_the_packet_that_made_them() {
    let at = repository().join("p4/switch/weir-p4/tests/stf");
    let read = |name: &str| std::fs::read_to_string(at.join(name)).expect("the file is there");
    let program = weir_p4::compile("copies.p4", &read("copies.p4"), &[]).expect("the program compiles");
    let mut trace = ScriptTrace::default();
    assert_eq!(run_with(Arc::new(program), &read("copies.stf"), Some(&mut trace)), Outcome::Passed);
    let lines: Vec<Value> = trace.lines.iter().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let kinds: BTreeSet<&str> = lines.iter().filter_map(|l| l["kind"].as_str()).collect();
    let all = ["egress_clone", "ingress_clone", "normal", "recirculated", "replicated", "resubmitted"];
    assert_eq!(kinds, all.into_iter().collect());
    let events: BTreeSet<&str> =
        lines.iter().flat_map(|l| list(l, "events")).filter_map(|e| e["event"].as_str()).collect();
    for event in ["state", "extract", "transition", "clone", "resubmit", "recirculate", "mark_to_drop"] {
        assert!(events.contains(event), "{event} is not among {events:?}");
    }
    let places = lines.iter().flat_map(|l| list(l, "events")).filter_map(|e| e["at"].as_str());
    assert!(places.into_iter().all(|at| at.starts_with("copies.p4:")), "places are those of the program");
}

#[test]
fn all_outcomes_of_a_selector_and_of_random_are_listed() {
    let p = Arc::new(weir_p4::compile("selector.p4", SELECTOR, &[]).unwrap_or_else(|d| panic!("{d:?}")));
    let mut s = Switch::traced(p.clone(), 1);
    let (t, profile) = (&p.tables[0], &mut s.state.profiles[0]);
    for (id, port) in [(1, 4), (2, 5), (7, 6)] {
        profile.members.insert(id, Member { body: t.actions[0].body, args: vec![Val::S(port)] });
    }
    profile.groups.insert(3, vec![1, 2, 2, 7]);
    let key = vec![KeyMatch::Ternary(Val::S(0x10), Val::S(0xf0))];
    s.state.tables[0].insert(t, key, 9, EntryAction::Group(3)).expect("the entry fits");
    let sent = s.process(&[0x12, 0], 1, 0, &mut Notes::default());
    let lines = lines(&mut s);
    let events = list(&lines[0], "events");
    let random = events.iter().find(|e| e["event"] == "random").expect("random is in the trace");
    assert_eq!((random["lowest"].as_str(), random["highest"].as_str()), (Some("0x03"), Some("0x06")));
    let table = events.iter().find(|e| e["event"] == "table").expect("the table is in the trace");
    assert_eq!((&table["hit"], &table["group"], &table["action"]), (&true.into(), &3.into(), &"I.forward".into()));
    assert_eq!(table["entry"]["keys"][0], "0x10 &&& 0xf0");
    assert_eq!(
        (table["entry"]["priority"].as_u64(), table["keys"][1]["value"].as_str()),
        (Some(9), random["value"].as_str())
    );
    let outcomes = list(table, "outcomes");
    let of = |o: &Value| (o["member"].as_u64(), o["params"]["port"].as_str().map(str::to_string), o["weight"].as_u64());
    let wanted = [(1, "0x004", 1), (2, "0x005", 2), (7, "0x006", 1)];
    let wanted: Vec<_> = wanted.map(|(m, p, w)| (Some(m), Some(p.to_string()), Some(w))).into();
    assert_eq!(outcomes.iter().map(of).collect::<Vec<_>>(), wanted);
    let chosen = outcomes.iter().find(|o| o["member"] == table["member"]).expect("the member is one of them");
    assert_eq!(chosen["params"], table["params"]);
    let port = u32::from_str_radix(&table["params"]["port"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(sent[0].port, port);
}

#[test]
fn a_drop_has_its_reason_and_a_miss_its_default() {
    let p = Arc::new(weir_p4::compile("selector.p4", SELECTOR, &[]).unwrap_or_else(|d| panic!("{d:?}")));
    let mut s = Switch::traced(p, 1);
    assert!(s.process(&[0x12, 0], 1, 0, &mut Notes::default()).is_empty());
    assert!(s.process(&[0x12], 1, 0, &mut Notes::default()).is_empty());
    let lines = lines(&mut s);
    assert_eq!(lines.len(), 2);
    let table = list(&lines[0], "events").iter().find(|e| e["event"] == "table").expect("the table is in the trace");
    assert_eq!((&table["hit"], &table["action"]), (&false.into(), &"I.away".into()));
    assert_eq!(lines[0]["results"][0]["reason"], "egress_spec is the drop port 511 at the end of ingress");
    let error = list(&lines[1], "events").iter().find(|e| e["event"] == "parser_error");
    assert_eq!(error.expect("the error is in the trace")["error"], "PacketTooShort");
    assert_eq!((&lines[0]["packet"], &lines[1]["packet"]), (&1.into(), &2.into()));
}

#[test]
fn a_program_that_reports_without_end_fills_no_memory() {
    let text =
        SELECTOR.replace("random(h.h.b, 3, 6);", "for (bit<32> i = 0; i < 50000; i = i + 1) { random(h.h.b, 3, 6); }");
    let p = Arc::new(weir_p4::compile("loop.p4", &text, &[]).unwrap_or_else(|d| panic!("{d:?}")));
    let action = p.tables[0].actions.len() - 1;
    let mut s = Switch::traced(p.clone(), 1);
    let call = EntryAction::Call(ActionCall { action, args: Vec::new() });
    s.state.tables[0].set_default(&p.tables[0], call).expect("the action fits");
    s.process(&[0, 0], 1, 0, &mut Notes::default());
    let line = s.take_trace().remove(0);
    assert!(line.len() < 300_000, "{} bytes", line.len());
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(list(&line, "events").len() as u64 + line["events_left_out"].as_u64().unwrap(), 50_005);
}
