// SPDX-License-Identifier: Apache-2.0
//! Parsers and the deparser.
use super::actions::Names;
use super::expressions::{Env, hex, member_of};
use super::layout::*;
use super::tree::{Item, Res};
use crate::bytecode::ir::{Block, Expression, Next, Parser, Pattern, Statement, Target};
use crate::bytecode::operators::Operator;
use crate::bytecode::program::ValueSetDecl;
use crate::value::Val;
use num_bigint::{BigInt, Sign};
use std::collections::HashMap;

/// Members of a value set, which the document does not limit.
const VALUE_SET_SIZE: usize = 1024;

pub(super) struct Parsers<'n> {
    pub names: &'n Names,
    pub value_sets: Vec<ValueSetDecl>,
}

/// Value sets, whose fields are known once a state uses them.
pub(super) fn value_sets(root: &Item) -> Res<Vec<ValueSetDecl>> {
    let set = |item: &Item| {
        let bits = item.get("compressed_bitwidth")?.up_to(u64::from(crate::value::MAX_WIDTH))? as u32;
        Ok(ValueSetDecl { name: item.name()?.into(), size: VALUE_SET_SIZE, widths: vec![bits] })
    };
    root.items("parse_vsets")?.iter().map(set).collect()
}

/// The only element of a list, which has the name that v1model programs give it.
pub(super) fn only<'a>(root: &Item<'a>, key: &'static str) -> Res<Item<'a>> {
    let list = root.get(key)?.list()?;
    let other = list.get(1).or_else(|| list.first().filter(|x| x.name().is_ok_and(|n| n.contains('_'))));
    match (list.first(), other) {
        (Some(first), None) => Ok(first.clone()),
        (_, Some(other)) => other.unsupported("an architecture other than v1model"),
        (None, None) => root.err(format!("has no {}", key.trim_end_matches('s'))),
    }
}

impl Parsers<'_> {
    pub fn parser(&mut self, root: &Item) -> Res<Parser> {
        let item = only(root, "parsers")?;
        let list = item.get("parse_states")?.list()?;
        let mut states = HashMap::new();
        for (i, s) in list.iter().enumerate() {
            if states.insert(s.name()?, i).is_some() {
                return s.err(format!("state `{}` is declared twice", s.name()?));
            }
        }
        let start = match item.opt("init_state") {
            None => None,
            Some(s) => match states.get(s.text()?) {
                Some(i) => Some(*i),
                None => return s.err("the state is not declared"),
            },
        };
        let mut parser = Parser { states: Vec::new(), start: start.unwrap_or(list.len()) };
        for (i, s) in list.iter().enumerate() {
            if let Some(place) = self.names.place(s) {
                self.names.source.borrow_mut().states.insert((0, i), place);
            }
            let mut env = self.names.env(&[], true);
            for op in s.items("parser_ops")? {
                self.names.mark(&mut env, &op);
                self.operation(&mut env, &op)?;
            }
            let next = self.transitions(&mut env, s, &states)?;
            parser.states.push((s.name()?.into(), env.code, next));
        }
        if start.is_none() {
            parser.states.push((String::new(), Block::new(), Next::Accept));
        }
        Ok(parser)
    }

    fn operation(&self, env: &mut Env, op: &Item) -> Res<()> {
        let (name, params) = (op.get("op")?, op.get("parameters")?);
        match name.text()? {
            "extract" => {
                let [header] = params.exactly()?;
                self.extract(env, &header, None)?;
            }
            "extract_VL" => {
                let [header, size] = params.exactly()?;
                let size = env.whole(&size)?;
                self.extract(env, &header, Some(size))?;
            }
            "set" => {
                let [to, from] = params.exactly()?;
                let to = env.field(&to)?;
                if to.is_varbit {
                    return op.unsupported("a number in a field of variable length");
                }
                let e = env.cut(&from, to.width)?;
                env.set(&to.addr, e);
            }
            "verify" => {
                let [c, error] = params.exactly()?;
                let (c, error) = (env.truth(&c)?, env.whole(&error)?);
                env.code.push(Statement::Verify(c, error));
            }
            "shift" => {
                let [bytes] = params.exactly()?;
                let bits = 8 * bytes.up_to(1 << 20)?;
                env.code.push(Statement::Advance(Expression::Const(Val::S(bits.into()))));
            }
            "advance" => {
                let [bits] = params.exactly()?;
                let bits = env.whole(&bits)?;
                env.code.push(Statement::Advance(bits));
            }
            "primitive" => {
                let [primitive] = params.exactly()?;
                self.names.primitive(env, &primitive)?;
            }
            other => return name.unsupported(format!("parser operation `{other}`")),
        }
        Ok(())
    }

    fn extract(&self, env: &mut Env, header: &Item, size: Option<Expression>) -> Res<()> {
        let (kind, value) = (header.get("type")?, header.get("value")?);
        let (place, next) = match kind.text()? {
            "regular" => match self.names.layout.places.get(value.text()?) {
                Some(place) => (place.clone(), None),
                None => return value.err("the header is not declared"),
            },
            ty @ ("stack" | "union_stack") => {
                let (stack, member) = match ty {
                    "stack" => (env.stack(&value)?, None),
                    _ => {
                        let [stack, member] = value.exactly()?;
                        let stack = env.stack(&stack)?;
                        let found = member_of(&stack, member.text()?);
                        (stack, Some(found.map_or_else(|| member.err("the union has no such member"), Ok)?))
                    }
                };
                let index = env.temporary(Expression::Load(stack.base));
                let Some(place) = self.names.layout.element(&stack, index, 0, member.as_ref()) else {
                    return value.err("is a stack of another kind");
                };
                env.code.push(Statement::CheckIndex(place.addr.clone()));
                (place, Some((fixed(stack.base), stack.len)))
            }
            other => return kind.unsupported(format!("extraction of `{other}`")),
        };
        let header_ref = self.names.layout.header_ref(&place);
        match (header_ref.layout.varbit, &size) {
            (Some(_), None) => return header.unsupported("a field whose length its header gives (P4_14)"),
            (None, Some(_)) => return header.err("the header has no field of variable length"),
            _ => {}
        }
        if place.is_metadata {
            return header.err("metadata can't be extracted");
        }
        env.code.push(Statement::Extract(header_ref, size, next));
        Ok(())
    }

    fn transitions(&mut self, env: &mut Env, state: &Item, states: &HashMap<&str, usize>) -> Res<Next> {
        let target = |t: &Item| match t.opt("next_state") {
            None => Ok(Target::Accept),
            Some(name) => match states.get(name.text()?) {
                Some(i) => Ok(Target::State(*i)),
                None => name.err("the state is not declared"),
            },
        };
        let (mut keys, mut widths) = (Vec::new(), Vec::new());
        for k in state.items("transition_key")? {
            let (e, width, _) = env.typed(&k)?;
            keys.push(e);
            widths.push(width);
        }
        let mut cases: Vec<(Vec<Pattern>, Target)> = Vec::new();
        for t in state.items("transitions")? {
            let value = t.opt("value");
            // Before version 2.5 a default transition has the value "default", and others have no type.
            let is_default = value.as_ref().is_none_or(|v| v.v.as_str() == Some("default"));
            let kind = match t.opt("type") {
                Some(kind) => kind.text()?,
                None if is_default => "default",
                None => "hexstr",
            };
            let patterns = match (kind, value) {
                ("default", _) => vec![Pattern::Any; keys.len()],
                ("hexstr", Some(value)) => patterns(&value, t.opt("mask").as_ref(), &widths)?,
                ("parse_vset", Some(value)) => vec![Pattern::ValueSet(self.value_set(&t, &value, &widths)?)],
                (other, _) => return t.unsupported(format!("a transition of type `{other}`")),
            };
            cases.push((patterns, target(&t)?));
        }
        // BMv2 ends the parser where nothing matches.
        cases.push((vec![Pattern::Any; keys.len()], Target::Accept));
        Ok(Next::Select(keys, cases))
    }

    fn value_set(&mut self, t: &Item, name: &Item, widths: &[u32]) -> Res<usize> {
        if let Some(mask) = t.opt("mask") {
            return mask.unsupported("a mask of a value set");
        }
        let text = name.text()?;
        let Some(i) = self.value_sets.iter().position(|s| s.name == text) else {
            return name.err("the value set is not declared");
        };
        let set = &mut self.value_sets[i];
        if set.widths.iter().sum::<u32>() != widths.iter().sum::<u32>() {
            return name.err("the value set has another width than the keys");
        }
        if set.widths.len() > 1 && set.widths != widths {
            return name.unsupported("a value set that two states use with different keys");
        }
        set.widths = widths.to_vec();
        Ok(i)
    }

    pub fn deparser(&self, root: &Item) -> Res<Block> {
        let item = only(root, "deparsers")?;
        if let Some(p) = item.items("primitives")?.first() {
            return p.unsupported("primitives in the deparser");
        }
        let layout = &self.names.layout;
        let mut code = Block::new();
        for h in item.items("order")? {
            match layout.places.get(h.text()?) {
                Some(place) if !place.is_metadata => code.push(Statement::Emit(layout.header_ref(place))),
                _ => return h.err("is no header"),
            }
        }
        Ok(code)
    }

    /// Checksums that are verified, and those that are updated.
    pub fn checksums(&self, root: &Item) -> Res<(Block, Block)> {
        let (mut verified, mut updated) = (Block::new(), Block::new());
        for item in root.items("checksums")? {
            let kind = item.get("type")?;
            if kind.text()? != "generic" {
                return kind.unsupported(format!("a checksum of type `{}`", kind.text()?));
            }
            let name = item.get("calculation")?;
            let Some(c) = self.names.calculations.get(name.text()?) else {
                return name.err("the calculation is not declared");
            };
            let mut env = self.names.env(&[], false);
            let cond = match item.opt("if_cond") {
                Some(c) => env.truth(&c)?,
                None => Expression::Const(Val::S(1)),
            };
            let target = item.get("target")?;
            let [header, field] = target.exactly()?;
            let Some(f) = self.names.layout.field(header.text()?, field.text()?) else {
                return target.err("the field is not declared");
            };
            let (algorithm, fields) = (c.algorithm, &c.fields);
            if item.flag_or("verify", true)? {
                // As in BMv2, a checksum in a header that is not there is right.
                let valid = f.valid.as_ref().map_or(Expression::Const(Val::S(1)), load);
                let cond = Expression::LAnd(Box::new((valid, cond.clone())));
                verified.extend(env.code.iter().cloned());
                let sum = load(&f.addr);
                let s = Statement::VerifyChecksum(cond, fields.clone(), sum, f.width, algorithm, c.with_payload);
                verified.push(s);
            }
            if item.flag_or("update", true)? {
                updated.append(&mut env.code);
                let s = Statement::UpdateChecksum(cond, fields.clone(), f.addr, f.width, algorithm, c.with_payload);
                updated.push(s);
            }
        }
        Ok((verified, updated))
    }
}

/// The patterns of a value and mask in which each key takes whole bytes.
fn patterns(value: &Item, mask: Option<&Item>, widths: &[u32]) -> Res<Vec<Pattern>> {
    let number = |item: &Item| match hex(item)? {
        v if v.sign() == Sign::Minus => item.err("must not be negative"),
        v => Ok(v),
    };
    let (value_bits, mask_bits) = (number(value)?, mask.map(&number).transpose()?);
    let bytes: u32 = widths.iter().map(|w| w.div_ceil(8)).sum();
    if value_bits.bits() > u64::from(8 * bytes) {
        return value.err(format!("has more than the {bytes} bytes of the keys"));
    }
    let mut left = 8 * bytes;
    let part = |v: &BigInt, low: u32, w: u32| Val::from_int(&(v >> low), 8 * w.div_ceil(8));
    let patterns = widths.iter().map(|w| {
        left -= 8 * w.div_ceil(8);
        let v = part(&value_bits, left, *w);
        match &mask_bits {
            None => Pattern::Value(Expression::Const(v)),
            Some(m) => {
                let m = part(m, left, *w);
                Pattern::Mask(Expression::Const(v.and(m.clone())), Expression::Const(m))
            }
        }
    });
    Ok(patterns.collect())
}

/// `errors`: names by number, and the number of NoError.
pub(super) fn errors(root: &Item) -> Res<(Vec<String>, u64)> {
    const MOST: u64 = 1 << 16;
    let mut names: Vec<String> = Vec::new();
    for item in root.items("errors")? {
        let [name, number] = item.exactly()?;
        let n = number.up_to(MOST)? as usize;
        names.resize(names.len().max(n + 1), String::new());
        names[n] = name.text()?.into();
    }
    if names.is_empty() {
        let core = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"];
        names = core.iter().chain(&["ParserInvalidArgument"]).map(|e| e.to_string()).collect();
    }
    let none = names.iter().position(|n| n == "NoError").unwrap_or(0);
    Ok((names, none as u64))
}

/// Gives the field with the parser's error its number where that of NoError is not 0.
pub(super) fn no_error(names: &Names, none: u64) -> Block {
    let slot = names.layout.std_fields.parser_error;
    let zero = Expression::Bin(Operator::Eq, 32, Box::new((Expression::Load(slot), Expression::Const(Val::S(0)))));
    let set = Statement::Set(slot, Expression::Const(Val::S(none.into())));
    if none == 0 { Block::new() } else { vec![Statement::If(zero, vec![set], Block::new())] }
}
