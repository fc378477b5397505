// SPDX-License-Identifier: Apache-2.0
//! Pipelines: tables, conditions and the way from one to the next.
use super::actions::{Action, Names};
use super::expressions::hex;
use super::graph::{Branch, Step, To, structure};
use super::layout::*;
use super::tree::{Item, Res};
use crate::bytecode::ir::{Block, Expression, Statement};
use crate::bytecode::operators::{HashAlgorithm, Operator};
use crate::bytecode::program::*;
use crate::exec::{EntryAction, TableState};
use crate::value::Val;
use num_bigint::Sign;
use std::collections::HashMap;

pub(super) struct Pipelines<'n> {
    pub names: &'n Names,
    pub actions: HashMap<u64, Action>,
    /// Direct counters and meters by table: index; for meters also the field with the color.
    pub direct_counters: HashMap<String, usize>,
    pub direct_meters: HashMap<String, (usize, FieldPlace)>,
    pub tables: Vec<Table>,
    pub profiles: Vec<ProfileDecl>,
    /// Fields of each selector's hash.
    pub selectors: Vec<Vec<FieldPlace>>,
    /// The procedure of an action that does nothing.
    pub no_action: usize,
}

/// The largest size of a table or profile.
const MAX_SIZE: u64 = 1 << 32;

pub(super) fn algorithm(item: &Item) -> Res<HashAlgorithm> {
    Ok(match item.text()? {
        "crc32" | "crc32_custom" => HashAlgorithm::Crc32,
        "crc16" | "crc16_custom" => HashAlgorithm::Crc16,
        "random" => HashAlgorithm::Random,
        "identity" => HashAlgorithm::Identity,
        "csum16" => HashAlgorithm::Csum16,
        "xor16" => HashAlgorithm::Xor16,
        other => return item.unsupported(format!("hash algorithm `{other}`")),
    })
}

impl Pipelines<'_> {
    /// One pipeline's code.
    pub fn pipeline(&mut self, item: &Item, procs: &mut Vec<Block>) -> Res<Block> {
        if let Some(call) = item.items("action_calls")?.first() {
            return call.unsupported("a call of an action without a table");
        }
        let first_profile = self.profiles.len();
        for p in item.items("action_profiles")? {
            self.profile(&p)?;
        }
        let (tables, conditionals) = (item.items("tables")?, item.items("conditionals")?);
        let mut nodes: HashMap<&str, usize> = HashMap::new();
        for n in tables.iter().chain(&conditionals) {
            if nodes.insert(n.name()?, nodes.len()).is_some() {
                return n.err(format!("`{}` is declared twice in this pipeline", n.name()?));
            }
        }
        let next = |of: &Item, key: &'static str| -> Res<To> {
            let Some(to) = of.opt(key) else { return Ok(None) };
            nodes.get(to.text()?).map_or_else(|| to.err("is no table or condition of this pipeline"), |n| Ok(Some(*n)))
        };
        let mut steps = Vec::new();
        for t in &tables {
            let i = self.table(t, first_profile)?;
            let branch = self.after(t, i, &nodes, next(t, "base_default_next")?)?;
            steps.push(Step { code: vec![Statement::Apply(i)], branch });
        }
        for c in &conditionals {
            let mut env = self.names.env(&[], false);
            let e = env.truth(&c.get("expression")?)?;
            self.names.mark(&mut env, c);
            let branch = Branch::If(e, next(c, "true_next")?, next(c, "false_next")?);
            steps.push(Step { code: env.code, branch });
        }
        structure(&steps, next(item, "init_table")?, procs, item)
    }

    /// The ways out of a table.
    fn after(&self, item: &Item, i: usize, nodes: &HashMap<&str, usize>, base: To) -> Res<Branch> {
        let next = item.get("next_tables")?;
        let Some(ways) = next.v.as_object() else { return next.err("must be an object") };
        let node = |name: &str| -> Res<To> {
            match ways.get(name) {
                None | Some(serde_json::Value::Null) => Ok(None),
                Some(to) => match to.as_str().and_then(|to| nodes.get(to)) {
                    Some(n) => Ok(Some(*n)),
                    None => next.err(format!("`{name}` leads to no table or condition of this pipeline")),
                },
            }
        };
        let t = &self.tables[i];
        if ways.contains_key("__HIT__") || ways.contains_key("__MISS__") {
            return Ok(Branch::If(Expression::Load(t.hit), node("__HIT__")?, node("__MISS__")?));
        }
        let mut out = Vec::new();
        for (n, a) in t.actions.iter().enumerate() {
            out.push((n as u64, if ways.contains_key(&a.name) { node(&a.name)? } else { base }));
        }
        match out.first() {
            Some((_, first)) if out.iter().all(|(_, to)| to == first) => Ok(Branch::Always(*first)),
            _ => Ok(Branch::Switch(Expression::Load(t.action_run), out, base)),
        }
    }

    fn profile(&mut self, item: &Item) -> Res<()> {
        let mut inputs = Vec::new();
        let selector = match item.opt("selector") {
            None => None,
            Some(selector) => {
                for input in selector.get("input")?.list()? {
                    let mut env = self.names.env(&[], false);
                    let f = env.field(&input)?;
                    if !f.addr.dyns.is_empty() || f.is_varbit {
                        return input.unsupported("an input of a selector other than a plain field");
                    }
                    inputs.push(f);
                }
                Some((algorithm(&selector.get("algo")?)?, 32))
            }
        };
        let size = item.opt("max_size").map_or(Ok(0), |s| s.up_to(MAX_SIZE))?;
        self.profiles.push(ProfileDecl { name: item.name()?.into(), size, selector });
        self.selectors.push(inputs);
        Ok(())
    }

    /// A key, with code that computes it where it is no plain field. BMv2 matches fields of invalid headers as zero.
    fn key(&self, name: String, kind: MatchKind, f: &FieldPlace, mask: Option<Val>, before: &mut Block) -> Key {
        let mut e = load(&f.addr);
        if let Some(valid) = &f.valid {
            e = if_valid(valid, e);
        }
        if let Some(mask) = mask {
            e = Expression::Bin(Operator::And, f.width, Box::new((e, Expression::Const(mask))));
        }
        if !matches!(e, Expression::Load(_)) {
            let slot = self.names.layout.alloc(1);
            before.push(Statement::Set(slot, e));
            e = Expression::Load(slot);
        }
        Key { name, kind, width: f.width, signed: f.signed, ex: e }
    }

    /// The keys of a table and the code that computes them.
    fn keys(&self, item: &Item) -> Res<(Vec<Key>, Block)> {
        let (mut keys, mut before) = (Vec::new(), Block::new());
        for k in item.items("key")? {
            let ty = k.get("match_type")?;
            let kind = match ty.text()? {
                "exact" | "valid" => MatchKind::Exact,
                "lpm" if keys.iter().any(|k: &Key| k.kind == MatchKind::Lpm) => {
                    return ty.unsupported("a table with two lpm keys");
                }
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                other => return ty.unsupported(format!("match type `{other}`")),
            };
            let target = k.get("target")?;
            let (header, field) = match target.v.is_string() {
                true => (target.text()?, VALID),
                false => {
                    let [header, field] = target.exactly()?;
                    (header.text()?, field.text()?)
                }
            };
            let Some(f) = self.names.layout.field(header, field).filter(|f| !f.is_varbit) else {
                return target.err("the field is not declared, or has no fixed length");
            };
            let name = match k.opt("name") {
                Some(name) => name.text()?.to_string(),
                None => format!("{header}.{field}"),
            };
            let mask = k.opt("mask").map(|m| hex(&m)).transpose()?.map(|m| Val::from_int(&m, f.width));
            keys.push(self.key(name, kind, &f, mask, &mut before));
        }
        Ok((keys, before))
    }

    /// Adds a table; gives its index.
    fn table(&mut self, item: &Item, first_profile: usize) -> Res<usize> {
        let name = item.name()?.to_string();
        let (mut keys, mut before) = self.keys(item)?;
        let profile = match item.opt("type").map(|t| t.text()).transpose()?.unwrap_or("simple") {
            "simple" => None,
            "indirect" | "indirect_ws" => {
                let profile = item.opt("action_profile").or_else(|| item.opt("act_prof_name"));
                let Some(p) = profile else { return item.err("has no `action_profile`") };
                let wanted = p.text()?;
                let found = self.profiles[first_profile..].iter().position(|x| x.name == wanted);
                Some(first_profile + found.map_or_else(|| p.err("the action profile is not declared"), Ok)?)
            }
            other => return item.unsupported(format!("a table of type `{other}`")),
        };
        if let Some(p) = profile {
            let inputs = self.selectors[p].iter();
            keys.extend(inputs.map(|f| self.key(String::new(), MatchKind::Selector, f, None, &mut before)));
        }
        let meter = self.direct_meters.get(&name).map(|m| m.0);
        if meter.is_none() && item.opt("direct_meters").is_some() {
            return item.err("`direct_meters` names no direct meter of this table");
        }
        let mut actions = self.table_actions(item, &name)?;
        let entry = item.opt("default_entry");
        let default = match &entry {
            Some(e) => self.call(e, &actions)?,
            None => {
                let empty = actions.iter().position(|(_, a)| a.params.is_empty() && a.name == "NoAction");
                let action = empty.unwrap_or(actions.len());
                if action == actions.len() {
                    let (before, after, body) = (Block::new(), Block::new(), self.no_action);
                    let (params, name) = (Vec::new(), "NoAction".into());
                    let a = TableAction { name, params, before, body, after, default_only: true, table_only: false };
                    actions.push((u64::MAX, a));
                }
                ActionCall { action, args: Vec::new() }
            }
        };
        let const_default = entry.map_or(Ok(false), |e| e.flag_or("action_const", false))?;
        let entries = self.entries(item, &keys, &actions)?;
        let size = item.opt("max_size").map_or(Ok(0), |s| s.up_to(MAX_SIZE))?;
        let table = Table {
            keys,
            before,
            actions: actions.into_iter().map(|(_, a)| a).collect(),
            default,
            const_default,
            const_entries: !entries.is_empty(),
            entries,
            largest_priority_wins: true,
            size: if size == 0 { 1024 } else { size },
            profile,
            counter: self.direct_counters.get(&name).copied(),
            meter,
            idle_timeout: item.flag_or("support_timeout", false)?,
            hit: self.names.layout.alloc(1),
            action_run: self.names.layout.alloc(1),
            name,
        };
        if let Some(place) = self.names.place(item) {
            self.names.source.borrow_mut().tables.insert(table.name.clone(), place);
        }
        let mut state = TableState::new(&table);
        for (e, at) in table.entries.iter().zip(item.items("entries")?) {
            let call = EntryAction::Call(e.action.clone());
            if let Err(wrong) = state.add(&table, e.keys.clone(), e.priority, call, true) {
                return at.err(format!("does not fit the table: {wrong:?}"));
            }
        }
        self.tables.push(table);
        Ok(self.tables.len() - 1)
    }

    /// Actions of a table with their numbers.
    fn table_actions(&self, item: &Item, table: &str) -> Res<Vec<(u64, TableAction)>> {
        let names = item.get("actions")?.list()?;
        let ids = item.items("action_ids")?;
        let mut out: Vec<(u64, TableAction)> = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let text = name.text()?;
            let id = match ids.get(i) {
                Some(id) => Some(id.number()?),
                // Before version 2.0 actions are referred to by name.
                None => self.actions.iter().filter(|(_, a)| a.name == text).map(|(id, _)| *id).min(),
            };
            let Some((id, a)) = id.and_then(|id| Some((id, self.actions.get(&id)?))) else {
                return name.err(format!("action `{text}` is not declared"));
            };
            if a.name != text {
                return name.err(format!("is `{text}`, but the action of id {id} is `{}`", a.name));
            }
            let color = self.direct_meters.get(table);
            let color = color.map(|(m, f)| Statement::DirectMeter(*m, f.addr.clone()));
            let param = |(name, slot, width): &(String, usize, u32)| ActionParam {
                name: name.clone(),
                slot: *slot,
                width: *width,
            };
            let action = TableAction {
                name: a.name.clone(),
                params: a.params.iter().map(param).collect(),
                before: color.into_iter().collect(),
                body: a.body,
                after: Block::new(),
                default_only: false,
                table_only: false,
            };
            if out.iter().any(|(_, o)| o.body == action.body || o.name == action.name) {
                return name.err(format!("action `{text}` is listed twice"));
            }
            out.push((id, action));
        }
        Ok(out)
    }

    /// `{"action_id": ..., "action_data": [...]}`
    fn call(&self, item: &Item, actions: &[(u64, TableAction)]) -> Res<ActionCall> {
        let id = item.get("action_id")?;
        let body = self.actions.get(&id.number()?).map(|a| a.body);
        let Some(action) = actions.iter().position(|(_, a)| Some(a.body) == body) else {
            return id.err("is no action of this table");
        };
        let params = &actions[action].1.params;
        let data = item.items("action_data")?;
        if data.len() != params.len() {
            return item.err(format!("action_data must have {} values, not {}", params.len(), data.len()));
        }
        let args = data.iter().zip(params).map(|(d, p)| value(d, p.width)).collect::<Res<_>>()?;
        Ok(ActionCall { action, args })
    }

    fn entries(&self, item: &Item, keys: &[Key], actions: &[(u64, TableAction)]) -> Res<Vec<ConstEntry>> {
        let list = item.items("entries")?;
        let priority = |e: &Item| e.opt("priority").map_or(Ok(1), |p| p.up_to(i32::MAX as u64));
        let priorities = list.iter().map(priority).collect::<Res<Vec<u64>>>()?;
        // The smallest number wins; the largest becomes 1.
        let last = priorities.iter().max().copied().unwrap_or(0);
        let matched: Vec<&Key> = keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
        let mut out = Vec::new();
        for (e, p) in list.iter().zip(priorities) {
            let key = e.get("match_key")?;
            let parts = key.list()?;
            if parts.len() != matched.len() {
                return key.err(format!("must have {} keys, not {}", matched.len(), parts.len()));
            }
            let keys = parts.iter().zip(&matched).map(|(m, k)| key_match(m, k)).collect::<Res<_>>()?;
            let action = self.call(&e.get("action_entry")?, actions)?;
            out.push(ConstEntry { keys, priority: (last - p + 1) as i64, action, is_const: true });
        }
        Ok(out)
    }
}

/// A number that fits `w` bits.
fn value(item: &Item, w: u32) -> Res<Val> {
    let v = hex(item)?;
    if v.sign() == Sign::Minus || v.bits() > u64::from(w) {
        return item.err(format!("does not fit {w} bits"));
    }
    Ok(Val::from_int(&v, w))
}

fn key_match(m: &Item, k: &Key) -> Res<KeyMatch> {
    let key = || value(&m.get("key")?, k.width);
    Ok(match k.kind {
        MatchKind::Exact | MatchKind::Selector => match m.get("key")? {
            flag if flag.v.is_boolean() => KeyMatch::Exact(Val::S(u128::from(flag.flag()?))),
            _ => KeyMatch::Exact(key()?),
        },
        MatchKind::Lpm => {
            let n = m.get("prefix_length")?.up_to(u64::from(k.width))? as u32;
            let mask = Val::all_ones(n).shl((k.width - n) as usize, k.width);
            KeyMatch::Lpm(key()?.and(mask), n)
        }
        MatchKind::Ternary => {
            let mask = value(&m.get("mask")?, k.width)?;
            KeyMatch::Ternary(key()?.and(mask.clone()), mask)
        }
        MatchKind::Range => KeyMatch::Range(value(&m.get("start")?, k.width)?, value(&m.get("end")?, k.width)?),
        // All ones or nothing, as p4c writes it.
        MatchKind::Optional => match m.opt("mask").map(|mask| value(&mask, k.width)).transpose()? {
            Some(mask) if mask.is_zero() => KeyMatch::Optional(None),
            _ => KeyMatch::Optional(Some(key()?)),
        },
    })
}
