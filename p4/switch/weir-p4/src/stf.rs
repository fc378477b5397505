// SPDX-License-Identifier: Apache-2.0
//! Simple Test Framework scripts: packets in, packets expected, table and state commands between them.
use crate::bytecode::program::{ActionCall, KeyMatch, MatchKind, Program, needs_priority};
use crate::exec::{ChangeError, EntryAction, Mirror};
use crate::v1model::{Notes, Switch};
use crate::value::Val;
use num_bigint::BigUint;
use num_traits::{One, Zero};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All expectations were met.
    Passed,
    /// The difference.
    Failed(String),
    /// The unsupported construct or command.
    Unsupported(String),
}

/// Errors of single lines: wrong, or beyond this runner.
enum Stop {
    Fail(String),
    Unsupported(String),
}

impl From<ChangeError> for Stop {
    fn from(e: ChangeError) -> Stop {
        Stop::Fail(e.to_string())
    }
}

type Run<T> = Result<T, Stop>;

fn fail<T>(m: impl Into<String>) -> Run<T> {
    Err(Stop::Fail(m.into()))
}

struct Runner {
    p: Arc<Program>,
    switch: Switch,
    now_us: u64,
    nodes: Vec<(u32, Vec<u32>)>,
    sent: BTreeMap<u32, Vec<Vec<u8>>>,
    expected: BTreeMap<u32, Vec<String>>,
    any: BTreeSet<u32>,
    /// `no_packet` was given: without any `expect`, nothing may come out.
    none_expected: bool,
    ports: BTreeSet<u32>,
    notes: Notes,
}

/// A trace of scripts, one after the other.
#[derive(Debug, Default)]
pub struct ScriptTrace {
    /// Its lines, without their ends.
    pub lines: Vec<String>,
    /// Packets and passes so far.
    pub numbers: (u64, u64),
}

/// Runs one script against a fresh switch.
pub fn run(program: Arc<Program>, script: &str) -> Outcome {
    run_with(program, script, None)
}

/// As [`run`], with a trace of the script's packets.
pub fn run_with(program: Arc<Program>, script: &str, trace: Option<&mut ScriptTrace>) -> Outcome {
    let switch = match trace {
        Some(_) => Switch::traced(program.clone(), 1),
        None => Switch::compiled(program.clone(), 1),
    };
    run_on(switch, program, script, trace)
}

/// As [`run`], by the interpreter.
pub fn run_interpreted(program: Arc<Program>, script: &str) -> Outcome {
    run_on(Switch::new(program.clone(), 1), program, script, None)
}

fn run_on(mut switch: Switch, program: Arc<Program>, script: &str, mut trace: Option<&mut ScriptTrace>) -> Outcome {
    if let Some(trace) = &trace {
        switch.resume_trace(trace.numbers);
    }
    let mut r = Runner {
        switch,
        p: program,
        now_us: 1_000_000,
        nodes: Vec::new(),
        sent: BTreeMap::new(),
        expected: BTreeMap::new(),
        any: BTreeSet::new(),
        none_expected: false,
        ports: BTreeSet::new(),
        notes: Notes::default(),
    };
    let outcome = r.script(script);
    if let Some(trace) = &mut trace {
        trace.lines.append(&mut r.switch.take_trace());
        trace.numbers = r.switch.trace_numbers();
    }
    outcome
}

fn number(text: &str) -> Run<BigUint> {
    let lower = text.to_ascii_lowercase();
    let (base, body) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    let clean: String = body.chars().filter(|c| *c != '_').collect();
    match BigUint::parse_bytes(clean.as_bytes(), base) {
        Some(v) => Ok(v),
        None => fail(format!("`{text}` is not a number")),
    }
}

fn small(text: Option<&&str>, what: &str) -> Run<u32> {
    let Some(text) = text else {
        return fail(format!("{what} is missing"));
    };
    match u32::try_from(number(text)?) {
        Ok(v) => Ok(v),
        Err(_) => fail(format!("{what} {text} is too large")),
    }
}

/// A number with `*` for digits that don't count: value and mask over the digits given.
fn pattern(text: &str) -> Run<(BigUint, BigUint)> {
    let lower = text.to_ascii_lowercase();
    let (bits, body) = match lower.get(..2) {
        Some("0x") => (4u32, &lower[2..]),
        Some("0b") => (1, &lower[2..]),
        Some("0o") => (3, &lower[2..]),
        _ => return fail(format!("ternary value `{text}` must be hexadecimal, octal or binary")),
    };
    let (mut v, mut m) = (BigUint::zero(), BigUint::zero());
    let digit_mask = (1u32 << bits) - 1;
    for c in body.chars().filter(|c| *c != '_') {
        v <<= bits;
        m <<= bits;
        if c == '*' {
            continue;
        }
        match c.to_digit(1 << bits) {
            Some(d) => {
                v += d;
                m += digit_mask;
            }
            None => return fail(format!("`{text}` has the wrong digit `{c}`")),
        }
    }
    Ok((v, m))
}

impl Runner {
    fn script(&mut self, script: &str) -> Outcome {
        for (n, line) in script.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            match self.line(line) {
                Ok(()) => {}
                Err(Stop::Fail(m)) => return Outcome::Failed(format!("line {}: {m}", n + 1)),
                Err(Stop::Unsupported(m)) => return Outcome::Unsupported(format!("line {}: {m}", n + 1)),
            }
        }
        self.compare()
    }

    fn line(&mut self, line: &str) -> Run<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let args = &words[1..];
        match words[0].to_ascii_lowercase().as_str() {
            "packet" => {
                let port = small(args.first(), "the port")?;
                let hex: String = args[1..].concat();
                let Some(bytes) = from_hex(&hex) else {
                    return fail(format!("packet `{hex}` is not whole hex bytes"));
                };
                self.ports.insert(port);
                self.now_us += 1000;
                for s in self.switch.process(&bytes, port, self.now_us, &mut self.notes) {
                    self.sent.entry(s.port).or_default().push(s.packet.to_vec());
                }
                if let Some(f) = self.notes.faults.first() {
                    return fail(f.clone());
                }
                Ok(())
            }
            "expect" => {
                let port = small(args.first(), "the port")?;
                self.ports.insert(port);
                let data: String = args[1..].concat();
                let digits = data.strip_suffix('$').unwrap_or(&data);
                if let Some(c) = digits.chars().find(|c| *c != '*' && !c.is_ascii_hexdigit()) {
                    return fail(format!(
                        "`{data}` has the wrong digit `{c}`: hex digits and `*`, a `$` at the end only"
                    ));
                }
                if data.is_empty() {
                    self.any.insert(port);
                } else {
                    self.expected.entry(port).or_default().push(data.to_ascii_uppercase());
                }
                Ok(())
            }
            "no_packet" => {
                self.none_expected = true;
                Ok(())
            }
            "wait" => {
                self.now_us += 1_000_000;
                Ok(())
            }
            "add" => self.add(line[3..].trim()),
            "setdefault" => {
                let rest = line[10..].trim();
                let Some((table, call)) = rest.split_once(char::is_whitespace) else {
                    return fail("setdefault needs a table and an action");
                };
                let t = self.table(table)?;
                let action = self.call(t, call.trim())?;
                let p = self.p.clone();
                Ok(self.switch.state.tables[t].set_default(&p.tables[t], EntryAction::Call(action))?)
            }
            "remove" => {
                let p = self.p.clone();
                for (t, s) in p.tables.iter().zip(&mut self.switch.state.tables) {
                    let ids: Vec<u64> = s.entries().filter(|(_, e)| !e.is_const).map(|(id, _)| id).collect();
                    for id in ids {
                        s.remove(t, id)?;
                    }
                }
                Ok(())
            }
            "mirroring_add" => {
                let (id, port) = (small(args.first(), "the session")?, small(args.get(1), "the port")?);
                self.switch.state.mirrors.insert(id, Mirror { port: Some(port), ..Mirror::default() });
                Ok(())
            }
            "mirroring_add_mc" => {
                let (id, group) = (small(args.first(), "the session")?, small(args.get(1), "the group")?);
                self.switch.state.mirrors.insert(id, Mirror { group: Some(group), ..Mirror::default() });
                Ok(())
            }
            "mirroring_delete" => {
                let id = small(args.first(), "the session")?;
                match self.switch.state.mirrors.remove(&id) {
                    Some(_) => Ok(()),
                    None => fail(format!("there is no session {id}")),
                }
            }
            "mirroring_get" => {
                let id = small(args.first(), "the session")?;
                match self.switch.state.mirrors.contains_key(&id) {
                    true => Ok(()),
                    false => fail(format!("there is no session {id}")),
                }
            }
            "mc_mgrp_create" => {
                let id = small(args.first(), "the group")?;
                self.switch.state.groups.insert(id, Vec::new());
                Ok(())
            }
            "mc_node_create" => {
                let rid = small(args.first(), "the replication id")?;
                let ports = (1..args.len()).map(|i| small(args.get(i), "a port")).collect::<Run<Vec<_>>>()?;
                self.nodes.push((rid, ports));
                Ok(())
            }
            "mc_node_associate" => {
                let (id, node) = (small(args.first(), "the group")?, small(args.get(1), "the node")? as usize);
                let Some(n) = self.nodes.get(node).cloned() else {
                    return fail(format!("there is no node {node}"));
                };
                match self.switch.state.groups.get_mut(&id) {
                    Some(g) => {
                        g.push(n);
                        Ok(())
                    }
                    None => fail(format!("there is no group {id}")),
                }
            }
            "register_read" | "register_write" | "register_reset" => self.register(words[0], args),
            "counter_read" => self.counter(args).map(|_| ()),
            "check_counter" => self.check_counter(line),
            "meter_get_rates" | "meter_set_rates" | "meter_array_set_rates" => self.meter(words[0], args),
            other => Err(Stop::Unsupported(format!("command `{other}`"))),
        }
    }

    fn table(&self, name: &str) -> Run<usize> {
        let clean = name.replace('"', "");
        find(self.p.tables.iter().map(|t| t.name.as_str()), &clean, "table")
    }

    fn call(&self, t: usize, text: &str) -> Run<ActionCall> {
        let table = &self.p.tables[t];
        let Some((name, rest)) = text.split_once('(') else {
            return fail(format!("`{text}` is not an action call"));
        };
        let name = name.trim().replace('"', "");
        let action = find(table.actions.iter().map(|a| a.name.as_str()), &name, "action")?;
        let decl = &table.actions[action];
        let body = rest.rsplit_once(')').map_or(rest, |(b, _)| b);
        let mut args: Vec<Option<Val>> = vec![None; decl.params.len()];
        for part in body.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let Some((n, v)) = part.split_once(':') else {
                return fail(format!("argument `{part}` has no name"));
            };
            let n = n.trim().replace('"', "");
            let Some(i) = decl.params.iter().position(|p| p.name == n) else {
                return fail(format!("action {} has no parameter `{n}`", decl.name));
            };
            let v = Val::from_big(number(v.trim())?);
            if v.bits() > decl.params[i].width {
                return fail(format!("argument `{n}` does not fit {} bits", decl.params[i].width));
            }
            args[i] = Some(v);
        }
        let given: Option<Vec<Val>> = args.into_iter().collect();
        match given {
            Some(args) => Ok(ActionCall { action, args }),
            None => fail(format!("action {} lacks an argument", decl.name)),
        }
    }

    /// `add table [priority] key:value ... action(arg:value, ...) [= id]`
    fn add(&mut self, text: &str) -> Run<()> {
        let Some(open) = text.find('(') else {
            return fail("`add` has no action");
        };
        let head_end = text[..open].trim_end();
        let start = head_end.rfind(char::is_whitespace).map_or(0, |i| i + 1);
        let call_text = &text[start..];
        // `key : value` may be written with spaces.
        let mut head = text[..start].to_string();
        for tight in [" :", ": "] {
            while head.contains(tight) {
                head = head.replace(tight, ":");
            }
        }
        let words: Vec<&str> = head.split_whitespace().collect();
        let Some(name) = words.first() else {
            return fail("`add` has no table");
        };
        let t = self.table(name)?;
        let p = self.p.clone();
        let table = &p.tables[t];
        let mut rest = &words[1..];
        let mut priority = None;
        if let Some(w) = rest.first().filter(|w| !w.contains(':')) {
            priority = Some(small(Some(w), "the priority")?);
            rest = &rest[1..];
        }
        let decls: Vec<_> = table.keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
        let mut keys: Vec<Option<KeyMatch>> = vec![None; decls.len()];
        for pair in rest {
            let Some((n, v)) = pair.rsplit_once(':') else {
                return fail(format!("`{pair}` is not key:value"));
            };
            let i = self.key(&decls, n)?;
            let k = decls[i];
            let top = BigUint::one() << k.width;
            let val = |b: BigUint| {
                if b < top { Ok(Val::from_big(b)) } else { fail(format!("`{v}` does not fit {} bits", k.width)) }
            };
            keys[i] = Some(match k.kind {
                MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(val(number(v)?)?),
                MatchKind::Optional => KeyMatch::Optional(Some(val(number(v)?)?)),
                MatchKind::Ternary => {
                    let (v, m) = match v.split_once("&&&") {
                        Some((v, m)) => (number(v)?, number(m)?),
                        None => pattern(v)?,
                    };
                    let m = Val::from_big(m).mask(k.width);
                    KeyMatch::Ternary(val(v)?.and(m.clone()), m)
                }
                MatchKind::Lpm => {
                    let (v, n) = match v.split_once('/') {
                        Some((v, n)) => (number(v)?, small(Some(&n), "the prefix length")?),
                        None => {
                            let (value, mask) = match pattern(v) {
                                Ok(p) => p,
                                Err(_) => (number(v)?, (BigUint::one() << k.width) - 1u32),
                            };
                            (value, mask.count_ones() as u32)
                        }
                    };
                    if n > k.width {
                        return fail(format!("prefix length {n} is above the {} bits of key {}", k.width, k.name));
                    }
                    KeyMatch::Lpm(val(v)?.and(Val::all_ones(n).shl((k.width - n) as usize, k.width)), n)
                }
                // Not in p4c's runner, which has no ranges: as BMv2's command line has them, or as P4 has them.
                MatchKind::Range => {
                    let (low, high) = v.split_once("->").or_else(|| v.split_once("..")).unwrap_or((v, v));
                    KeyMatch::Range(val(number(low)?)?, val(number(high)?)?)
                }
            });
        }
        let mut all = Vec::new();
        for (k, decl) in keys.into_iter().zip(&decls) {
            // Missing keys match as in BMv2's test driver: everything, or zero for exact keys.
            all.push(k.unwrap_or(match decl.kind {
                MatchKind::Lpm => KeyMatch::Lpm(Val::S(0), 0),
                MatchKind::Ternary => KeyMatch::Ternary(Val::S(0), Val::S(0)),
                MatchKind::Range => KeyMatch::Range(Val::S(0), Val::all_ones(decl.width)),
                MatchKind::Optional => KeyMatch::Optional(None),
                _ => KeyMatch::Exact(Val::S(0)),
            }));
        }
        let action = self.call(t, call_text)?;
        let priority = if needs_priority(table) { priority.unwrap_or(0) as i64 } else { 0 };
        self.switch.state.tables[t].insert(table, all, priority, EntryAction::Call(action))?;
        Ok(())
    }

    fn key(&self, decls: &[&crate::bytecode::program::Key], name: &str) -> Run<usize> {
        let mut name = name.replace('"', "");
        // `stack$1` stands for `stack[1]`.
        if let Some(i) = name.find('$') {
            let digits: String = name[i + 1..].chars().take_while(char::is_ascii_digit).collect();
            if !digits.is_empty() {
                name.replace_range(i..i + 1 + digits.len(), &format!("[{digits}]"));
            }
        }
        let forms = [
            name.clone(),
            format!("{name}.isValid()"),
            name.replace(".$valid$", ".isValid()"),
            name.replace(".valid", ".isValid()"),
        ];
        let exact = decls.iter().position(|k| forms.contains(&k.name));
        let suffix = || decls.iter().position(|k| forms.iter().any(|f| k.name.ends_with(&format!(".{f}"))));
        match exact.or_else(suffix) {
            Some(i) => Ok(i),
            None => {
                let names: Vec<&str> = decls.iter().map(|k| k.name.as_str()).collect();
                fail(format!("there is no key `{name}`; the keys are {}", names.join(", ")))
            }
        }
    }

    fn register(&mut self, cmd: &str, args: &[&str]) -> Run<()> {
        let Some(name) = args.first() else {
            return fail("the register is missing");
        };
        let r = find(self.p.registers.iter().map(|r| r.name.as_str()), name, "register")?;
        let state = &mut self.switch.state;
        if cmd == "register_reset" {
            state.register_reset(r);
            return Ok(());
        }
        let i = small(args.get(1), "the index")? as usize;
        if i >= state.register_size(r) {
            return fail(format!("register `{name}` has no index {i}"));
        }
        if cmd == "register_write" {
            let Some(v) = args.get(2) else {
                return fail("the value is missing");
            };
            state.register_set(r, i, Val::from_big(number(v)?).mask(self.p.registers[r].width))?;
        }
        Ok(())
    }

    fn counter(&self, args: &[&str]) -> Run<(u64, u64)> {
        let Some(name) = args.first() else {
            return fail("the counter is missing");
        };
        let c = find(self.p.counters.iter().map(|c| c.name.as_str()), name, "counter")?;
        let i = small(args.get(1), "the index")? as usize;
        match self.switch.state.counters[c].get(i) {
            Some(v) => Ok(*v),
            None => fail(format!("counter `{name}` has no index {i}")),
        }
    }

    /// `check_counter name(index) [packets|bytes op number]`
    fn check_counter(&mut self, line: &str) -> Run<()> {
        let spaced = line.replace(['(', ')'], " ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let (packets, bytes) = self.counter(&words[1..])?;
        let [_, _, _, kind, op, n] = words.as_slice() else {
            return Ok(());
        };
        let value = if *kind == "bytes" { bytes } else { packets };
        let n = small(Some(n), "the count")? as u64;
        let ok = match *op {
            "==" => value == n,
            "!=" => value != n,
            "<" => value < n,
            "<=" => value <= n,
            ">" => value > n,
            ">=" => value >= n,
            _ => return fail(format!("`{op}` is not a comparison")),
        };
        if ok { Ok(()) } else { fail(format!("counter has {value} {kind}, not {op} {n}")) }
    }

    fn meter(&mut self, cmd: &str, args: &[&str]) -> Run<()> {
        let Some(name) = args.first() else {
            return fail("the meter is missing");
        };
        let m = find(self.p.meters.iter().map(|m| m.name.as_str()), name, "meter")?;
        let whole = cmd == "meter_array_set_rates";
        let (from, rates) = if whole {
            (0, &args[1..])
        } else {
            (small(args.get(1), "the index")? as usize, args.get(2..).unwrap_or(&[]))
        };
        let cells = &mut self.switch.state.meters[m];
        if from >= cells.len() {
            return fail(format!("meter `{name}` has no index {from}"));
        }
        if cmd == "meter_get_rates" {
            return Ok(());
        }
        let mut parsed = Vec::new();
        for r in rates {
            let pair = r.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            match pair {
                Some(p) => parsed.push(p),
                None => return fail(format!("`{r}` is not rate:burst")),
            }
        }
        let [committed, peak] = parsed.as_slice() else {
            return fail("a meter needs two rates");
        };
        let to = if whole { cells.len() } else { from + 1 };
        cells[from..to].iter_mut().for_each(|c| c.set(*committed, *peak, self.now_us));
        Ok(())
    }

    fn compare(&self) -> Outcome {
        if self.none_expected
            && self.expected.is_empty()
            && self.any.is_empty()
            && let Some((port, packets)) = self.sent.iter().next()
        {
            return Outcome::Failed(format!("no packet was expected, {} came from port {port}", packets.len()));
        }
        for port in &self.ports {
            if self.any.contains(port) && !self.expected.contains_key(port) {
                if !self.sent.contains_key(port) {
                    return Outcome::Failed(format!("port {port}: a packet was expected, none came"));
                }
                continue;
            }
            let none = Vec::new();
            let sent = self.sent.get(port).unwrap_or(&none);
            let empty = Vec::new();
            let expected = self.expected.get(port).unwrap_or(&empty);
            for (i, want) in expected.iter().enumerate() {
                let Some(got) = sent.get(i) else { break };
                let got: String = got.iter().map(|b| format!("{b:02X}")).collect();
                let (want, whole) = match want.strip_suffix('$') {
                    Some(w) => (w, true),
                    None => (want.as_str(), false),
                };
                let same = got.len() >= want.len()
                    && (!whole || got.len() == want.len())
                    && want.chars().zip(got.chars()).all(|(w, g)| w == '*' || w == g);
                if !same {
                    return Outcome::Failed(format!("port {port}, packet {i}: expected {want}, got {got}"));
                }
            }
            if sent.len() != expected.len() {
                let m = format!("port {port}: {} packets were expected, {} came", expected.len(), sent.len());
                return Outcome::Failed(m);
            }
        }
        Outcome::Passed
    }
}

fn from_hex(s: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = s.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|c| c[0] << 4 | c[1]).collect())
}

/// The object of this name, or the only one whose name ends with it.
fn find<'a>(names: impl Iterator<Item = &'a str>, name: &str, what: &str) -> Run<usize> {
    let all: Vec<&str> = names.collect();
    if let Some(i) = all.iter().position(|n| *n == name) {
        return Ok(i);
    }
    let short: Vec<usize> = (0..all.len()).filter(|i| all[*i].ends_with(name)).collect();
    match short.as_slice() {
        [one] => Ok(*one),
        [] => fail(format!("there is no {what} `{name}`; there are {}", all.join(", "))),
        _ => fail(format!("{what} name `{name}` is ambiguous among {}", all.join(", "))),
    }
}
