// SPDX-License-Identifier: Apache-2.0
//! The programs of p4/ in a switch, for tests.
#![allow(dead_code, reason = "each test uses its own part")]
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::bytecode::program::Program;

pub mod tables;
#[allow(unused_imports, reason = "each test uses its own part")]
pub use tables::{add, cells, counted};

/// Of [`packet`].
pub const PACKET_BYTES: u64 = 1500;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

pub fn program(name: &str) -> Arc<Program> {
    let path = repository().join("p4/programs").join(name);
    let text = std::fs::read_to_string(&path).expect("the program can be read");
    let name = path.display().to_string();
    Arc::new(weir_p4::compile(&name, &text, &[]).unwrap_or_else(|d| panic!("{d:?}")))
}

/// A profile's parameters as the vectors have them.
pub fn profile(name: &str) -> BTreeMap<String, u64> {
    let path = repository().join("tests/vectors/closed-loop.jsonl");
    let text = std::fs::read_to_string(&path).expect("the vectors can be read");
    let mut lines = text.lines().map(|l| serde_json::from_str::<BTreeMap<String, Value>>(l).expect("a JSON object"));
    let case = Value::from(format!("closed-loop/{name}"));
    let line = lines.find(|m| m.get("case") == Some(&case)).expect("the vectors have the profile");
    line.into_iter().filter_map(|(k, v)| v.as_u64().map(|v| (k, v))).collect()
}

/// Ethernet, IPv4 and UDP of [`PACKET_BYTES`]; the flow is in the source port.
pub fn packet(flow: u16, ecn: u8) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 0xfe, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = PACKET_BYTES as u16 - 14;
    p.extend([0x45, ecn, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let words: u32 = p[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((words & 0xffff) + (words >> 16)) as u16;
    p[24..26].copy_from_slice(&sum.to_be_bytes());
    p.extend(flow.to_be_bytes());
    p.resize(PACKET_BYTES as usize, 0);
    p
}
