// SPDX-License-Identifier: Apache-2.0
//! Every operation of tests/vectors, asked of p4/programs/law_probe.p4 by packets: the P4 law gives the model's bits.
use crate::common::{program, repository};
use crate::law_params::PARAMS;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use weir_p4::v1model::{Notes, Switch};

const ETHERNET: &[u8] = &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];

/// Name and bytes of each field of the probe's header behind the law's parameters, in order.
const BEHIND: &[(&str, usize)] = &[
    ("coupling_q16", 4),
    ("ramp_least_us", 4),
    ("ramp_slope_q32_per_us", 8),
    ("floor_bytes", 4),
    ("u_q40", 8),
    ("last_us", 8),
    ("o1_us", 8),
    ("o2_us", 8),
    ("no_i_run", 4),
    ("started", 1),
    ("row", 1),
    ("u_ecn_q40", 8),
    ("sum_q32", 8),
    ("flow_bytes", 4),
    ("flow_last_us", 8),
    ("share_mean_q6", 8),
    ("dq_time_q8_us", 4),
    ("dq_count_bytes", 4),
    ("dq_start_us", 8),
    ("dq_on", 1),
    ("in_now_us", 8),
    ("in_tau_us", 4),
    ("in_len_bytes", 8),
    ("in_backlog_bytes", 8),
    ("in_u_q40", 8),
    ("in_r_q40", 8),
    ("in_classic_active", 1),
    ("in_missed", 1),
    ("in_floor_us", 4),
    ("in_ect", 1),
    ("in_size", 1),
    ("in_rand_a", 4),
    ("in_rand_b", 4),
    ("stepped", 1),
    ("tau_us", 4),
    ("verdict", 1),
    ("size", 1),
    ("p_q32", 8),
    ("r_q40", 8),
];

/// All fields of the probe's header.
static FIELDS: LazyLock<Vec<(&str, usize)>> = LazyLock::new(|| [&[("op", 1)], PARAMS, BEHIND].concat());

const OPS: &[&str] = &["update", "departure", "tau", "decide", "arrival", "decide_low", "follow"];

/// The header's fields as numbers; signed ones stand as its two's complement.
#[derive(Clone)]
struct Probe(Vec<u64>);

impl Probe {
    fn set(&mut self, name: &str, value: u64) {
        let at = FIELDS.iter().position(|(n, _)| *n == name).unwrap_or_else(|| panic!("no field {name}"));
        assert!(FIELDS[at].1 == 8 || value >> (8 * FIELDS[at].1) == 0, "{name} = {value} does not fit the probe");
        self.0[at] = value;
    }

    fn get(&self, name: &str) -> u64 {
        self.0[FIELDS.iter().position(|(n, _)| *n == name).unwrap_or_else(|| panic!("no field {name}"))]
    }

    fn packet(&self) -> Vec<u8> {
        let fields = FIELDS.iter().zip(&self.0);
        let bytes = fields.flat_map(|((_, n), v)| v.to_be_bytes()[8 - n..].to_vec());
        ETHERNET.iter().copied().chain(bytes).collect()
    }

    fn read(packet: &[u8]) -> Probe {
        let mut rest = &packet[ETHERNET.len()..];
        let mut take = |n: usize| {
            let (field, after) = rest.split_at(n);
            rest = after;
            field.iter().fold(0, |v, b| v << 8 | u64::from(*b))
        };
        let values = FIELDS.iter().map(|(_, n)| take(*n)).collect();
        assert!(rest.is_empty(), "{} bytes are left behind the probe", rest.len());
        Probe(values)
    }
}

fn bits(name: &str, v: &Value) -> u64 {
    v.as_u64().or_else(|| v.as_i64().map(|i| i as u64)).unwrap_or_else(|| panic!("{name} = {v} is no 64-bit number"))
}

fn switch() -> Switch {
    Switch::new(program("law_probe.p4"), 1)
}

/// Runs one file, gives the number of operations compared.
fn run(switch: &mut Switch, path: &Path) -> usize {
    let text = std::fs::read_to_string(path).expect("the vectors can be read");
    let zero = Probe(vec![0; FIELDS.len()]);
    let (mut probe, mut compared) = (zero.clone(), 0);
    let mut notes = Notes::default();
    for (at, line) in text.lines().enumerate() {
        let here = format!("{}:{}", path.display(), at + 1);
        let mut map: Map<String, Value> = serde_json::from_str(line).expect("a line is a JSON object");
        let op = map.remove("op").expect("a line has an op");
        let op = op.as_str().expect("op is a string");
        if op == "params" {
            probe = zero.clone();
            map.remove("case");
        }
        if matches!(op, "params" | "state" | "spacing" | "flow" | "rate") {
            map.iter().for_each(|(name, v)| probe.set(name, bits(name, v)));
            continue;
        }
        let number = OPS.iter().position(|o| *o == op).unwrap_or_else(|| panic!("{}: no op {op}", here));
        probe.set("op", number as u64 + 1);
        map.iter().filter(|(name, _)| name.starts_with("in_")).for_each(|(name, v)| probe.set(name, bits(name, v)));
        let sent = switch.process(&probe.packet(), 3, 1_000_000, &mut notes);
        assert!(notes.faults.is_empty(), "{}: {:?}", here, notes.faults);
        assert_eq!(sent.len(), 1, "{}: one packet comes back", here);
        assert_eq!(sent[0].port, 3, "{}: by the port it went in", here);
        let answer = Probe::read(&sent[0].packet);
        for (name, v) in &map {
            assert_eq!(answer.get(name), bits(name, v), "{}: {op} gives another {name}", here);
        }
        // Fields that the operation must not change come back as they were.
        for ((name, _), (was, is)) in FIELDS.iter().zip(probe.0.iter().zip(&answer.0)) {
            assert!(was == is || map.contains_key(*name), "{}: {op} changed {name}, {was} to {is}", here);
        }
        probe = answer;
        compared += 1;
    }
    compared
}

#[test]
fn p4_law_gives_the_vectors() {
    let mut switch = switch();
    for folder in ["tests/vectors", "tests/vectors/coupled"].map(|f| repository().join(f)) {
        let list = std::fs::read_dir(&folder).expect("the vectors are there");
        let mut files: Vec<PathBuf> = list.map(|e| e.expect("a readable entry").path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "jsonl"));
        files.sort();
        assert!(!files.is_empty(), "no vectors in {}", folder.display());
        for f in &files {
            assert!(run(&mut switch, f) > 0, "{} holds no operation", f.display());
        }
    }
}

#[test]
fn other_frames_do_not_come_back() {
    let mut switch = switch();
    let mut probe = Probe(vec![0; FIELDS.len()]);
    let mut notes = Notes::default();
    for (op, answers) in [(0, 0), (1, 1), (7, 1), (8, 0), (255, 0)] {
        probe.set("op", op);
        let sent = switch.process(&probe.packet(), 1, 1_000_000, &mut notes);
        assert_eq!(sent.len(), answers, "op {op}");
    }
    let packet = probe.packet();
    for cut in [0, 13, 14, packet.len() - 1] {
        assert!(switch.process(&packet[..cut], 1, 1_000_000, &mut notes).is_empty(), "cut to {cut} bytes");
    }
}
