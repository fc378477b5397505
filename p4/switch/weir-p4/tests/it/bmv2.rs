// SPDX-License-Identifier: Apache-2.0
//! BMv2's JSON: the same program from source and from JSON, and documents that are wrong.
#[path = "common/differential.rs"]
pub mod differential;

use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::bmv2::{Error, load};
use weir_p4::bytecode::program::Program;
use weir_p4::p4info::Preambled;
use weir_p4::v1model::{Notes, Switch};

const FORWARD: &str = include_str!("../bmv2/forward.json");
const LABELS: &str = include_str!("../bmv2/labels.json");
const PACKETS: usize = 300;

fn source(path: &Path) -> Result<Program, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let folder = path.parent().map(PathBuf::from);
    weir_p4::compile(&path.display().to_string(), &text, folder.as_slice()).map_err(|d| format!("{d:?}"))
}

/// Packets in and out of both forms of a program, with the P4Info of the source.
fn both(p4: &Path, json: &str, seeds: u64) -> Result<(usize, usize), String> {
    let source = Arc::new(source(p4)?);
    let loaded = load(json).map_err(|e| e.to_string())?;
    let json_program = Arc::new(loaded.with_p4info(&source.info.message())?);
    let (mut packets, mut sent) = (0, 0);
    for seed in 1..=seeds {
        let n = differential::compare(source.clone(), json_program.clone(), json, seed, PACKETS)?;
        (packets, sent) = (packets + n.0, sent + n.1);
    }
    Ok((packets, sent))
}

fn own(name: &str, json: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bmv2").join(name);
    let (packets, sent) = both(&path, json, 10).unwrap_or_else(|e| panic!("{e}"));
    assert!(packets > 0 && sent > 0, "{packets} in, {sent} out");
    // By names alone the P4Info has the same objects with the same ids.
    let (source, json) = (source(&path).unwrap().info, load(json).unwrap().program.info);
    let tables =
        |p: &weir_p4::p4info::P4Info| p.tables.iter().map(|t| (t.id(), t.name().to_string())).collect::<Vec<_>>();
    assert_eq!(tables(&source), tables(&json));
    for a in &json.actions {
        let other = source.action(a.id()).expect("the source has the action");
        assert_eq!((a.name(), a.params.len()), (other.name(), other.params.len()));
    }
}

#[test]
fn routes_counters_checksums_clones() {
    own("forward.p4", FORWARD);
}

#[test]
fn stacks_unions_selectors_jumps() {
    own("labels.p4", LABELS);
}

/// Other projects' documents, in the file that `WEIR_BMV2_PAIRS` names: lines `DOCUMENT.json=SOURCE.p4`, or documents alone.
#[test]
#[ignore = "long tier"]
fn pairs() {
    let Some(list) = std::env::var_os("WEIR_BMV2_PAIRS") else {
        println!("SKIPPED: WEIR_BMV2_PAIRS is unset");
        return;
    };
    let list = std::fs::read_to_string(list).expect("the list");
    let (mut loaded, mut same, mut other, mut all) = (0, 0, 0, 0);
    for line in list.lines() {
        all += 1;
        let (json, p4) = line.split_once('=').map_or((line, None), |(j, p)| (j, Some(p)));
        let text = std::fs::read_to_string(json).expect("the document");
        match (load(&text), p4) {
            (Err(e), _) => println!("not loaded  {json}: {e}"),
            (Ok(_), None) => loaded += 1,
            (Ok(_), Some(p4)) => {
                loaded += 1;
                match both(Path::new(p4), &text, 20) {
                    Ok((n, sent)) => {
                        same += 1;
                        println!("same        {json}: {n} packets in, {sent} out");
                    }
                    Err(e) => {
                        other += 1;
                        println!("other       {json}: {}", e.lines().next().unwrap_or(""));
                    }
                }
            }
        }
    }
    println!("{loaded} of {all} loaded, {same} as their source");
    assert_eq!(other, 0, "documents that differ from their source");
}

/// The document with one value replaced.
fn changed(text: &str, pointer: &str, to: Value) -> Result<(), Error> {
    let mut doc: Value = serde_json::from_str(text).unwrap();
    *doc.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = to;
    load(&doc.to_string()).map(|_| ())
}

#[test]
fn errors_name_their_place() {
    let cases: [(&str, Value, &str, bool); 17] = [
        ("/header_types", Value::Null, "", false),
        ("/header_types/2/fields/0/1", "x".into(), "header_types[2].fields[0][1]", false),
        ("/header_types/2/fields/0/1", 4096.into(), "header_types[2].fields[0][1]", false),
        ("/headers/2/header_type", "no".into(), "headers[2].header_type", false),
        (
            "/parsers/0/parse_states/0/parser_ops/0/op",
            "jump".into(),
            "parsers[0].parse_states[0].parser_ops[0].op",
            true,
        ),
        (
            "/parsers/0/parse_states/1/transitions/0/next_state",
            "no".into(),
            "parsers[0].parse_states[1].transitions[0].next_state",
            false,
        ),
        ("/parsers/0/init_state", 1.into(), "parsers[0].init_state", false),
        ("/actions/4/primitives/0/op", "no".into(), "actions[4].primitives[0].op", true),
        ("/actions/4/primitives/1/parameters/1/value", 7.into(), "actions[4].primitives[1].parameters[1].value", false),
        ("/pipelines/0/tables/1/key/0/match_type", "fuzzy".into(), "pipelines[0].tables[1].key[0].match_type", true),
        ("/pipelines/0/tables/1/next_tables/__HIT__", "no".into(), "pipelines[0].tables[1].next_tables", false),
        ("/pipelines/0/tables/2/next_tables/NoAction", "I.routes".into(), "pipelines[0]", true),
        (
            "/pipelines/0/conditionals/0/expression/value/op",
            "xor".into(),
            "pipelines[0].conditionals[0].expression.value.op",
            true,
        ),
        ("/pipelines/1/name", "egress_parser".into(), "pipelines", true),
        ("/calculations/0/algo", "md5".into(), "calculations[0].algo", true),
        ("/register_arrays/0/size", Value::from(1u64 << 40), "register_arrays[0].size", false),
        ("/__meta__/version/0", 3.into(), "__meta__.version", true),
    ];
    for (pointer, to, at, unsupported) in cases {
        let e = changed(FORWARD, pointer, to).expect_err(pointer);
        assert_eq!((e.at.as_str(), e.message.starts_with("unsupported: ")), (at, unsupported), "{pointer}: {e}");
    }
    assert_eq!(load("{\"header_types\": [").unwrap_err().at, "");
    let externs = serde_json::json!([{"name": "x", "id": 0, "type": "y", "attribute_values": []}]);
    assert_eq!(changed(FORWARD, "/extern_instances", externs).unwrap_err().at, "extern_instances[0]");
}

#[test]
fn a_p4info_of_another_program_does_not_fit() {
    let given = load(LABELS).unwrap().program.info.message();
    assert!(load(FORWARD).unwrap().with_p4info(&given).is_err());
    let mut given = load(FORWARD).unwrap().program.info.message();
    given.tables[0].match_fields[0].bitwidth = 16;
    assert!(load(FORWARD).unwrap().with_p4info(&given).is_err());
}

#[test]
fn deep_and_large_documents_are_refused_or_load() {
    let deep = |n: usize| {
        let mut e = serde_json::json!({"type": "field", "value": ["ipv4", "ttl"]});
        for _ in 0..n {
            e = serde_json::json!({"type": "expression", "value": {"op": "+", "left": e, "right": {"type": "hexstr", "value": "0x1"}}});
        }
        e
    };
    let at = "/actions/4/primitives/3/parameters/1";
    changed(FORWARD, at, deep(400)).expect("400 additions");
    changed(FORWARD, at, deep(600)).expect_err("too deep");
    let shift = serde_json::json!({"type": "expression", "value": {"op": "<<", "left": {"type": "hexstr", "value": "0x1"},
        "right": {"type": "field", "value": ["ipv4", "src"]}}});
    let cut = |mask: &str| serde_json::json!({"type": "expression", "value": {"op": "&", "left": shift, "right": {"type": "hexstr", "value": mask}}});
    changed(FORWARD, at, cut("0xff")).expect("a shift whose result is cut");
    let whole = serde_json::json!({"type": "expression", "value": {"op": "==", "left": shift, "right": shift}});
    changed(FORWARD, "/pipelines/0/conditionals/0/expression", whole).expect_err("a shift without a bound");
}

/// Replaces values all over a document by others of it.
fn shuffled(text: &str, choices: &[(usize, usize)]) -> String {
    let mut doc: Value = serde_json::from_str(text).unwrap();
    for (to, from) in choices {
        let mut paths = Vec::new();
        pointers(&doc, String::new(), &mut paths);
        let value = doc.pointer(&paths[from % paths.len()]).cloned().unwrap();
        *doc.pointer_mut(&paths[to % paths.len()]).unwrap() = value;
        if doc.to_string().len() > 4 * text.len() {
            break;
        }
    }
    doc.to_string()
}

fn pointers(v: &Value, at: String, out: &mut Vec<String>) {
    match v {
        Value::Array(a) => a.iter().enumerate().for_each(|(i, x)| pointers(x, format!("{at}/{i}"), out)),
        Value::Object(o) => {
            o.iter().for_each(|(k, x)| pointers(x, format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")), out));
        }
        _ => {}
    }
    out.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_documents_run_or_are_refused(
        choices in prop::collection::vec((any::<usize>(), any::<usize>()), 1..4),
        labels in any::<bool>(),
        seed in 1u64..,
    ) {
        let text = shuffled(if labels { LABELS } else { FORWARD }, &choices);
        if let Ok(loaded) = load(&text) {
            let numbers = differential::numbers(&text);
            let mut r = differential::Random(seed);
            let mut switch = Switch::new(Arc::new(loaded.program), seed);
            for i in 0..5 {
                let p = differential::packet(&mut r, &numbers);
                switch.process(&p, i, 1000, &mut Notes::default());
            }
        }
    }

    #[test]
    fn any_text_is_refused(text in "[{}\\[\\]\",:a-z0-9\\\\ -]{0,200}") {
        prop_assert!(load(&text).is_err());
    }
}
