// SPDX-License-Identifier: Apache-2.0
//! Actions and their primitives.
use super::expressions::Env;
use super::graph::{Branch, Step, structure};
use super::layout::*;
use super::tree::{Item, Res};
use crate::bytecode::ir::{Address, Block, Expression, Fields, Statement};
use crate::bytecode::operators::{HashAlgorithm, Operator, Slot};
use crate::bytecode::source_map::{SourceMap, SourcePlace};
use crate::value::Val;
use num_traits::ToPrimitive;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Fields and algorithm of a hash or checksum.
#[derive(Debug)]
pub(super) struct Calculation {
    pub algorithm: HashAlgorithm,
    pub fields: Fields,
    pub with_payload: bool,
}

/// Objects that primitives refer to.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub layout: Layout,
    /// Index and width of a cell.
    pub registers: HashMap<String, (usize, u32)>,
    pub counters: HashMap<String, usize>,
    pub meters: HashMap<String, usize>,
    pub calculations: HashMap<String, Calculation>,
    /// By the number of the learn list: the digest's index and data.
    pub digests: HashMap<u64, (usize, Fields)>,
    pub field_lists: HashSet<u64>,
    /// Places in the source for traces.
    pub source: RefCell<SourceMap>,
}

/// A parameter of an action: name, slot, width.
pub(super) type Param = (String, Slot, u32);

/// An action and its procedure.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub name: String,
    pub params: Vec<Param>,
    pub body: usize,
}

impl Names {
    /// The number of an object's place in the source, if the document has it.
    pub fn place(&self, item: &Item) -> Option<usize> {
        let info = item.opt("source_info")?;
        let text = |key| info.opt(key).and_then(|x| x.text().ok());
        let line = info.opt("line")?.number().ok()?;
        let place = SourcePlace::new(text("filename")?, line as u32, text("source_fragment").unwrap_or_default());
        Some(self.source.borrow_mut().place(place))
    }

    /// Code that notes the place for traces.
    pub fn mark(&self, env: &mut Env, item: &Item) {
        env.code.extend(self.place(item).map(Statement::Mark));
    }

    pub fn env<'e>(&'e self, params: &'e [(Slot, u32)], in_parser: bool) -> Env<'e> {
        Env { layout: &self.layout, registers: &self.registers, params, in_parser, code: Block::new() }
    }

    fn object<T: Copy>(of: &HashMap<String, T>, item: &Item, ty: &str) -> Res<T> {
        let (kind, name) = (item.get("type")?, item.get("value")?);
        if kind.text()? != ty {
            return kind.err(format!("must be `{ty}`, not `{}`", kind.text()?));
        }
        of.get(name.text()?).copied().map_or_else(|| name.err(format!("`{}` is not declared", name.text()?)), Ok)
    }

    /// The number of a field list; 0 is none.
    fn field_list(&self, env: &mut Env, item: &Item) -> Res<Option<Expression>> {
        match env.literal(item)? {
            Some(id) if id == 0 || self.field_lists.contains(&id) => Ok(Some(Expression::Const(Val::S(id.into())))),
            Some(id) => item.err(format!("no field list has id {id}")),
            None => item.unsupported("a field list whose number is not constant"),
        }
    }

    /// One primitive, as code of `env`.
    pub fn primitive(&self, env: &mut Env, item: &Item) -> Res<()> {
        let op = item.get("op")?;
        let params = item.get("parameters")?;
        self.mark(env, item);
        match op.text()? {
            "assign" | "modify_field" => {
                let [to, from] = params.exactly()?;
                let to = target(env, &to)?;
                let e = env.cut(&from, to.width)?;
                env.set(&to.addr, e);
            }
            "add_to_field" | "subtract_from_field" => {
                let [field, by] = params.exactly()?;
                let to = target(env, &field)?;
                let op = if op.text()? == "add_to_field" { Operator::Add } else { Operator::Sub };
                let e = env.result(op, &field, &by, to.width)?;
                env.set(&to.addr, e);
            }
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" => {
                let [to, a, b] = params.exactly()?;
                let to = target(env, &to)?;
                let op = match op.text()? {
                    "add" => Operator::Add,
                    "subtract" => Operator::Sub,
                    "bit_xor" => Operator::Xor,
                    "bit_or" => Operator::Or,
                    "bit_and" => Operator::And,
                    _ => Operator::Shl,
                };
                let e = env.result(op, &a, &b, to.width)?;
                env.set(&to.addr, e);
            }
            "add_header" | "remove_header" => {
                let [header] = params.exactly()?;
                let place = env.header(&header)?;
                let valid = op.text()? == "add_header";
                env.code.push(Statement::SetValid(self.layout.header_ref(&place), valid));
            }
            "no_op" => {}
            "exit" => env.code.push(Statement::Exit),
            "drop" | "mark_to_drop" => {
                let std = &self.layout.std_fields;
                env.code.push(Statement::DropPort(fixed(std.egress_spec)));
                env.code.push(Statement::Set(std.mcast_grp, Expression::Const(Val::S(0))));
            }
            "push" | "pop" => {
                let [stack, n] = params.exactly()?;
                let stack = env.stack(&stack)?;
                let by = env.literal(&n)?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= 1 << 16);
                let Some(by) = by else { return n.err("must be a constant up to 65536") };
                let at = fixed(stack.base);
                env.code.push(match op.text()? {
                    "push" => Statement::PushFront(at, stack.each, stack.len, by),
                    _ => Statement::PopFront(at, stack.each, stack.len, by),
                });
            }
            "truncate" => {
                let [n] = params.exactly()?;
                let n = env.whole(&n)?;
                env.code.push(Statement::Truncate(n));
            }
            "assert" | "assume" => {
                let [c] = params.exactly()?;
                let c = env.truth(&c)?;
                env.code.push(Statement::Assert(c, format!("{} at {}", op.text()?, item.path())));
            }
            "log_msg" => self.log(env, &params)?,
            name if name.starts_with("assign_") || name == "copy_header" => self.copy(env, &op, &params)?,
            _ => return self.external(env, &op, &params),
        }
        Ok(())
    }

    /// Primitives that use arrays, hashes, lists of fields.
    fn external(&self, env: &mut Env, op: &Item, params: &Item) -> Res<()> {
        match op.text()? {
            "register_read" => {
                let [to, array, index] = params.exactly()?;
                let (to, (r, w)) = (target(env, &to)?, Self::object(&self.registers, &array, "register_array")?);
                let index = env.whole(&index)?;
                into(env, &to, w, |at| Statement::RegisterRead(r, at, index));
            }
            "register_write" => {
                let [array, index, value] = params.exactly()?;
                let (r, w) = Self::object(&self.registers, &array, "register_array")?;
                let (index, value) = (env.whole(&index)?, env.cut(&value, w)?);
                env.code.push(Statement::RegisterWrite(r, index, value));
            }
            "count" => {
                let [array, index] = params.exactly()?;
                let c = Self::object(&self.counters, &array, "counter_array")?;
                let index = env.whole(&index)?;
                env.code.push(Statement::Count(c, index));
            }
            "execute_meter" => {
                let [array, index, to] = params.exactly()?;
                let m = Self::object(&self.meters, &array, "meter_array")?;
                let (index, to) = (env.whole(&index)?, target(env, &to)?);
                into(env, &to, 2, |at| Statement::Meter(m, index, at));
            }
            "modify_field_rng_uniform" => {
                let [to, low, high] = params.exactly()?;
                let to = target(env, &to)?;
                let most = env.literal(&high)?.map_or(64, |n| 64 - n.leading_zeros());
                let (low, high) = (env.cut(&low, 64)?, env.cut(&high, 64)?);
                into(env, &to, most, |at| Statement::Random(at, low, high, most.max(1)));
            }
            "modify_field_with_hash_based_offset" => {
                let [to, base, calculation, size] = params.exactly()?;
                let name = calculation.get("value")?;
                let Some(c) = self.calculations.get(name.text()?) else {
                    return name.err("the calculation is not declared");
                };
                if c.with_payload {
                    return name.unsupported("a hash with the payload");
                }
                let to = target(env, &to)?;
                let (base, size) = (env.whole(&base)?, env.whole(&size)?);
                let (algorithm, fields) = (c.algorithm, c.fields.clone());
                env.code.push(Statement::Hash(to.addr, to.width, algorithm, base, fields, size));
            }
            "generate_digest" => {
                let [receiver, list] = params.exactly()?;
                let digest = env.literal(&list)?.and_then(|id| self.digests.get(&id));
                let Some((i, fields)) = digest else { return list.err("no learn list has this id") };
                let receiver = env.whole(&receiver)?;
                env.code.push(Statement::Digest(*i, receiver, fields.clone()));
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let [session, list] = params.exactly()?;
                let (session, list) = (env.whole(&session)?, self.field_list(env, &list)?);
                env.code.push(Statement::Clone(session, list));
            }
            "resubmit" | "recirculate" => {
                let [list] = params.exactly()?;
                let number = env.literal(&list)?;
                let list = self.field_list(env, &list)?;
                // As BMv2, which keeps the number as the request itself.
                if number == Some(0) {
                    return Ok(());
                }
                env.code.push(match op.text()? {
                    "resubmit" => Statement::Resubmit(list),
                    _ => Statement::Recirculate(list),
                });
            }
            other => return op.unsupported(format!("primitive `{other}`")),
        }
        Ok(())
    }

    /// Assignments of whole headers, unions, stacks and fields of variable length.
    fn copy(&self, env: &mut Env, op: &Item, params: &Item) -> Res<()> {
        let [to, from] = params.exactly()?;
        let (a, b, n) = match op.text()? {
            "assign_header" | "copy_header" => {
                let (a, b) = (env.header(&to)?, env.header(&from)?);
                if a.ty != b.ty || a.is_metadata != b.is_metadata {
                    return from.err("the headers are of different types");
                }
                let n = self.layout.types[a.ty].slots;
                env.code.push(Statement::Copy(b.addr.clone(), a.addr.clone(), n));
                if !a.siblings.is_empty() {
                    env.code.push(Statement::OnlyMember(self.layout.header_ref(&a)));
                }
                return Ok(());
            }
            "assign_union" => {
                let find = |x: &Item| match self.layout.unions.get(x.get("value")?.text()?) {
                    Some(u) => Ok((u.base, u.slots)),
                    None => x.err("the union is not declared"),
                };
                (find(&to)?, find(&from)?, 0)
            }
            "assign_header_stack" | "assign_union_stack" => {
                let (a, b) = (env.stack(&to)?, env.stack(&from)?);
                ((a.base, 1 + a.each * a.len), (b.base, 1 + b.each * b.len), 0)
            }
            "assign_VL" => {
                let (a, b) = (env.field(&to)?, env.field(&from)?);
                if !(a.is_varbit && b.is_varbit) {
                    return op.err("both fields must be of variable length");
                }
                env.code.push(Statement::Copy(b.addr, a.addr, 2));
                return Ok(());
            }
            other => return op.unsupported(format!("primitive `{other}`")),
        };
        if a.1 != b.1 {
            return from.err("both sides must be of one type");
        }
        env.code.push(Statement::Copy(fixed(b.0), fixed(a.0), a.1 + n));
        Ok(())
    }

    fn log(&self, env: &mut Env, params: &Item) -> Res<()> {
        let list = params.list()?;
        let (text, values) = match list.as_slice() {
            [text] => (text, Vec::new()),
            // p4c writes an empty list as an empty object.
            [text, values] if values.get("value")?.v.as_object().is_some_and(|v| v.is_empty()) => (text, Vec::new()),
            [text, values] => (text, values.get("value")?.list()?),
            _ => return params.err("must be a text and a list of values"),
        };
        let data = values.iter().map(|v| env.typed(v)).collect::<Res<Vec<_>>>()?;
        env.code.push(Statement::Log(text.get("value")?.text()?.into(), data));
        Ok(())
    }

    /// The code of an action's primitives.
    fn body(&self, item: &Item, params: &[(Slot, u32)], procs: &mut Vec<Block>) -> Res<Block> {
        let list = item.items("primitives")?;
        let is_jump = |p: &Item| p.get("op").and_then(|op| op.text()).is_ok_and(|op| op.starts_with("_jump"));
        if !list.iter().any(is_jump) {
            let mut env = self.env(params, false);
            list.iter().try_for_each(|p| self.primitive(&mut env, p))?;
            return Ok(env.code);
        }
        let n = list.len();
        let mut steps = Vec::new();
        for (i, p) in list.iter().enumerate() {
            let mut env = self.env(params, false);
            let step = |i: usize| (i < n).then_some(i);
            let target = |env: &mut Env, to: &Item| match env.literal(to)?.and_then(|t| t.to_usize()) {
                Some(t) if t <= n => Ok(step(t)),
                _ => to.err(format!("must be the number of a primitive, up to {n}")),
            };
            let branch = match p.get("op")?.text()? {
                "_jump" => {
                    let [to] = p.get("parameters")?.exactly()?;
                    Branch::Always(target(&mut env, &to)?)
                }
                "_jump_if_zero" => {
                    let [c, to] = p.get("parameters")?.exactly()?;
                    let (c, to) = (env.truth(&c)?, target(&mut env, &to)?);
                    Branch::If(c, step(i + 1), to)
                }
                _ => {
                    self.primitive(&mut env, p)?;
                    Branch::Always(step(i + 1))
                }
            };
            steps.push(Step { code: env.code, branch });
        }
        structure(&steps, Some(0), procs, item)
    }

    /// All actions, by their number. p4c gives each table actions of its own; equal ones become one, so that tables
    /// that share an action profile agree.
    pub fn actions<'a>(&self, root: &Item<'a>, procs: &mut Vec<Block>) -> Res<HashMap<u64, Action>> {
        let mut known: HashMap<String, Action> = HashMap::new();
        let mut out = HashMap::new();
        for item in root.items("actions")? {
            let id = item.get("id")?.number()?;
            let key = comparable(&item)?;
            let action = match known.get(&key) {
                Some(action) => action.clone(),
                None => {
                    let mut params = Vec::new();
                    for p in item.items("runtime_data")? {
                        let w = p.get("bitwidth")?.up_to(u64::from(crate::value::MAX_WIDTH))? as u32;
                        if w == 0 {
                            return p.unsupported("a parameter without bits");
                        }
                        params.push((p.name()?.to_string(), self.layout.alloc(1), w));
                    }
                    let slots: Vec<(Slot, u32)> = params.iter().map(|(_, s, w)| (*s, *w)).collect();
                    let code = self.body(&item, &slots, procs)?;
                    procs.push(code);
                    if let Some(place) = self.place(&item) {
                        let named = (item.name()?.to_string(), place);
                        self.source.borrow_mut().actions.insert(procs.len() - 1, named);
                    }
                    let action = Action { name: item.name()?.into(), params, body: procs.len() - 1 };
                    known.insert(key, action.clone());
                    action
                }
            };
            if out.insert(id, action).is_some() {
                return item.err(format!("id {id} is that of another action"));
            }
        }
        Ok(out)
    }
}

/// An action's text without its number and places in the source.
fn comparable(item: &Item) -> Res<String> {
    let mut copy = item.v.clone();
    if let Some(o) = copy.as_object_mut() {
        o.remove("id");
        o.remove("source_info");
        for p in o.get_mut("primitives").and_then(|p| p.as_array_mut()).into_iter().flatten() {
            p.as_object_mut().map(|p| p.remove("source_info"));
        }
    }
    Ok(copy.to_string())
}

/// A field to be written.
fn target(env: &mut Env, item: &Item) -> Res<FieldPlace> {
    let f = env.field(item)?;
    if f.is_varbit {
        return item.unsupported("a number in a field of variable length");
    }
    if item.opt("value").and_then(|v| v.v.get(1)?.as_str().map(|f| f == VALID)) == Some(true) {
        return item.err("the validity of a header can't be assigned");
    }
    Ok(f)
}

/// Writes a result of up to `w` bits, which may also be none, to a field.
fn into(env: &mut Env, to: &FieldPlace, w: u32, make: impl FnOnce(Address) -> Statement) {
    if w <= to.width {
        return env.code.push(make(to.addr.clone()));
    }
    let slot = env.temporary(load(&to.addr));
    env.code.push(make(fixed(slot)));
    env.set(&to.addr, Expression::Slice(Box::new(Expression::Load(slot)), 0, to.width));
}
