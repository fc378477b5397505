// SPDX-License-Identifier: Apache-2.0
//! The programs of p4/ in a switch, for tests.
#![allow(dead_code, reason = "each test uses its own part")]
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::bytecode::program::{ActionCall, KeyMatch, MatchKind, Program};
use weir_p4::exec::EntryAction;
use weir_p4::v1model::Switch;
use weir_p4::value::Val;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

pub fn program(name: &str) -> Arc<Program> {
    let path = repository().join("p4/programs").join(name);
    let text = std::fs::read_to_string(&path).expect("the program can be read");
    let name = path.display().to_string();
    Arc::new(weir_p4::compile(&name, &text, &[]).unwrap_or_else(|d| panic!("{d:?}")))
}

fn ends(name: &str, with: &str) -> bool {
    name.rsplit('.').next() == Some(with)
}

/// An entry with one key; where the key is a prefix, the default route.
pub fn add(switch: &mut Switch, table: &str, key: u64, action: &str, args: &[(&str, u64)]) {
    let p = switch.program.clone();
    let t = p.tables.iter().position(|t| ends(&t.name, table)).expect("the table is there");
    let number = p.tables[t].actions.iter().position(|a| ends(&a.name, action)).expect("the action is there");
    let given = |name: &str| args.iter().find(|(n, _)| *n == name);
    let value = |name: &str| given(name).unwrap_or_else(|| panic!("{action}: no {name}")).1;
    let args = p.tables[t].actions[number].params.iter().map(|a| Val::S(value(&a.name).into())).collect();
    let key = match p.tables[t].keys[0].kind {
        MatchKind::Lpm => KeyMatch::Lpm(Val::S(key.into()), 0),
        _ => KeyMatch::Exact(Val::S(key.into())),
    };
    let call = EntryAction::Call(ActionCall { action: number, args });
    switch.state.tables[t].insert(&p.tables[t], vec![key], 0, call).expect("the entry fits");
}

/// Packets in all cells of a counter.
pub fn counted(switch: &Switch, counter: &str) -> u64 {
    let c = switch.program.counters.iter().position(|c| ends(&c.name, counter)).expect("the counter is there");
    switch.state.counters[c].iter().map(|(packets, _)| packets).sum()
}
