// SPDX-License-Identifier: Apache-2.0
//! Common parts of the benchmarks in process: programs, entries, the thread's own time.
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::bytecode::program::{ActionCall, KeyMatch, Program};
use weir_p4::exec::EntryAction;
use weir_p4::v1model::Switch;
use weir_p4::value::Val;

/// The option for the interpreter.
const NO_JIT: &str = "--no-jit";

/// Parameters by name.
pub type Args = BTreeMap<String, u64>;

/// A program from its source.
pub fn program(path: &str) -> Result<Arc<Program>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let folder = Path::new(path).parent().map(PathBuf::from).unwrap_or_default();
    Ok(Arc::new(weir_p4::compile(path, &text, &[folder]).map_err(|d| d.to_string())?))
}

/// A switch with native code, or with the interpreter where the command line has `--no-jit`.
pub fn switch_for(program: Arc<Program>) -> Switch {
    let make = if std::env::args().any(|word| word == NO_JIT) { Switch::new } else { Switch::compiled };
    make(program, 1)
}

/// An action's parameters.
pub fn named(pairs: &[(&str, u64)]) -> Args {
    pairs.iter().map(|(n, v)| (n.to_string(), *v)).collect()
}

/// The last part of a name.
pub fn leaf(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The number of a table.
pub fn table(p: &Program, name: &str) -> Option<usize> {
    p.tables.iter().position(|t| leaf(&t.name) == name)
}

/// Name and action data of each parameter set of the law in the conformance vectors.
pub fn law_cases() -> Result<Vec<(String, Args)>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/closed-loop.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut cases = Vec::new();
    for line in text.lines() {
        let fields: BTreeMap<String, Value> = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if let Some(name) = fields.get("case").and_then(Value::as_str).map(str::to_owned) {
            cases.push((name, fields.into_iter().filter_map(|(k, v)| v.as_u64().map(|v| (k, v))).collect()));
        }
    }
    Ok(cases)
}

/// Action data of the law's `tuned` profile.
fn tuned() -> Result<Args, String> {
    let found = law_cases()?.into_iter().find(|(name, _)| name == "closed-loop/tuned");
    found.map(|(_, args)| args).ok_or_else(|| "the conformance vectors have no case closed-loop/tuned".to_owned())
}

/// An entry with one key.
pub fn add(s: &mut Switch, t: usize, key: KeyMatch, action: &str, args: &Args) -> Result<(), String> {
    let p = s.program.clone();
    let table = &p.tables[t];
    let number = table.actions.iter().position(|a| leaf(&a.name) == action);
    let number = number.ok_or_else(|| format!("table {} has no action {action}", table.name))?;
    let value = |n: &str| args.get(n).copied().ok_or_else(|| format!("no value for {n} of {action}"));
    let args = table.actions[number].params.iter().map(|a| Ok(Val::S(value(&a.name)?.into())));
    let call = ActionCall { action: number, args: args.collect::<Result<_, String>>()? };
    s.state.tables[t].insert(table, vec![key], 0, EntryAction::Call(call)).map_err(|e| e.to_string())?;
    Ok(())
}

/// The law on a port, with a digest each 15 ms.
pub fn add_law(s: &mut Switch, port: u32) -> Result<(), String> {
    let t = table(&s.program, "aqm").ok_or("the program has no table `aqm`")?;
    let mut args = tuned()?;
    args.extend(named(&[("delay_source", 0), ("digest_interval_us", 15_000)]));
    add(s, t, KeyMatch::Exact(Val::S(port.into())), "pid_delay", &args)
}

/// Time that this thread has run, so that others on the machine count less.
pub fn cpu_ns() -> Result<u64, String> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let first = text.split_whitespace().next().and_then(|n| n.parse().ok());
    first.ok_or_else(|| format!("{path} does not begin with a number"))
}

/// The file of a path.
pub fn leaf_path(path: &str) -> String {
    Path::new(path).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The files of the command line, and whether `--scale` stands before them.
pub fn scale_or_files() -> (bool, Vec<String>) {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != NO_JIT).collect();
    let scale = words.first().is_some_and(|word| word == "--scale");
    if scale {
        words.remove(0);
    }
    (scale, words)
}

/// A line of JSON: the program, what was measured, and nanoseconds a packet (`times_ns`, in order of size).
pub fn tell(path: &str, what: &[(&str, Value)], times_ns: &[f64]) {
    let mut row = serde_json::Map::from_iter([("program".to_string(), Value::from(leaf_path(path)))]);
    row.extend(what.iter().map(|(name, value)| (name.to_string(), value.clone())));
    row.extend([
        ("median_ns".to_string(), times_ns[times_ns.len() / 2].into()),
        ("least_ns".to_string(), times_ns[0].into()),
        ("most_ns".to_string(), times_ns[times_ns.len() - 1].into()),
    ]);
    println!("{}", Value::from(row));
}
