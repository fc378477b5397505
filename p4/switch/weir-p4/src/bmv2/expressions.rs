// SPDX-License-Identifier: Apache-2.0
//! Expressions. BMv2 computes with whole numbers of any size and cuts them when they are stored; here each node has the
//! range of its values, and only as many bits are computed as are used.
use super::layout::*;
use super::tree::{Item, Res};
use crate::bytecode::ir::{Address, Block, Expression, Statement};
use crate::bytecode::operators::{Operator, Slot};
use crate::value::{MAX_WIDTH, Val};
use num_bigint::{BigInt, Sign};
use num_traits::{One, ToPrimitive, Zero};
use std::collections::HashMap;

/// Deeper expressions are kept in a temporary: later steps recurse along them.
const DEEPEST: u32 = 64;

#[derive(Debug)]
enum Kind {
    Const(BigInt),
    /// Exact in the node's width.
    Leaf(Expression),
    /// The low bits of the result depend on the low bits of the operands only.
    Ring(Operator, Box<(Node, Node)>),
    Flip(Box<Node>),
    Shl(Box<Node>, Expression),
    Choice(Expression, Box<(Node, Node)>),
    /// The low bits as a signed number.
    Wrap(Box<Node>),
}

/// A value and its range: `width` bits, in two's complement if it can be negative.
#[derive(Debug)]
pub(super) struct Node {
    kind: Kind,
    width: u32,
    signed: bool,
    depth: u32,
}

/// Names that expressions refer to, and the statements that run before the expression.
pub(super) struct Env<'e> {
    pub layout: &'e Layout,
    /// Index and width of each register array.
    pub registers: &'e HashMap<String, (usize, u32)>,
    /// Slot and width of each parameter of the action.
    pub params: &'e [(Slot, u32)],
    pub in_parser: bool,
    pub code: Block,
}

fn both(op: Operator, w: u32, a: Expression, b: Expression) -> Expression {
    Expression::Bin(op, w, Box::new((a, b)))
}

fn constant(v: Val) -> Expression {
    Expression::Const(v)
}

fn bits(v: &BigInt) -> u32 {
    (v.bits() as u32).max(1)
}

/// A hexadecimal number, which may have a sign.
pub(super) fn hex(item: &Item) -> Res<BigInt> {
    let text = item.text()?;
    let (sign, digits) = text.strip_prefix('-').map_or((Sign::Plus, text), |rest| (Sign::Minus, rest));
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if digits.len() > MAX_WIDTH as usize / 4 {
        return item.unsupported(format!("a number of more than {MAX_WIDTH} bits"));
    }
    match num_bigint::BigUint::parse_bytes(digits.as_bytes(), 16) {
        Some(v) if !digits.starts_with('+') => Ok(BigInt::from_biguint(sign, v)),
        _ => item.err(format!("`{text}` is no hexadecimal number")),
    }
}

impl Node {
    fn leaf(e: Expression, width: u32, signed: bool, depth: u32) -> Node {
        Node { kind: Kind::Leaf(e), width, signed, depth }
    }

    fn truth(e: Expression, depth: u32) -> Node {
        Node::leaf(e, 1, false, depth)
    }

    fn constant(v: BigInt) -> Node {
        let signed = v.sign() == Sign::Minus;
        let width = bits(&v) + u32::from(signed);
        Node { kind: Kind::Const(v), width, signed, depth: 0 }
    }

    /// Bits in two's complement.
    fn signed_width(&self) -> u32 {
        self.width.saturating_add(u32::from(!self.signed))
    }

    fn literal(&self) -> Option<&BigInt> {
        match &self.kind {
            Kind::Const(v) => Some(v),
            _ => None,
        }
    }

    /// The low `w` bits of the value.
    pub fn low(&self, w: u32) -> Expression {
        match &self.kind {
            Kind::Const(v) => constant(Val::from_int(v, w)),
            _ if w > self.width => {
                let e = self.low(self.width);
                if self.signed { Expression::SignExtend(Box::new(e), self.width, w) } else { e }
            }
            Kind::Leaf(e) if w == self.width => e.clone(),
            Kind::Leaf(e) => Expression::Slice(Box::new(e.clone()), 0, w),
            Kind::Ring(Operator::And, ab) => {
                let is_ones = |n: &Node| n.literal().is_some_and(|v| Val::from_int(v, w) == Val::all_ones(w));
                if is_ones(&ab.1) {
                    ab.0.low(w)
                } else if is_ones(&ab.0) {
                    ab.1.low(w)
                } else {
                    both(Operator::And, w, ab.0.low(w), ab.1.low(w))
                }
            }
            Kind::Ring(op, ab) => both(*op, w, ab.0.low(w), ab.1.low(w)),
            Kind::Flip(x) => Expression::BitNot(w, Box::new(x.low(w))),
            Kind::Shl(x, by) => match by {
                Expression::Const(n) if n.index() >= w as usize => constant(Val::S(0)),
                by => both(Operator::Shl, w, x.low(w), by.clone()),
            },
            Kind::Choice(c, ab) => Expression::Cond(Box::new((c.clone(), ab.0.low(w), ab.1.low(w)))),
            Kind::Wrap(x) => x.low(w),
        }
    }
}

impl<'e> Env<'e> {
    pub fn temporary(&mut self, e: Expression) -> Slot {
        let slot = self.layout.alloc(1);
        self.code.push(Statement::Set(slot, e));
        slot
    }

    /// The whole value.
    fn exact(&mut self, n: &Node, item: &Item) -> Res<Expression> {
        if n.width > MAX_WIDTH {
            return item.unsupported(format!("a result that may have more than {MAX_WIDTH} bits"));
        }
        Ok(n.low(n.width))
    }

    /// Keeps a deep expression in a temporary.
    fn shallow(&mut self, n: Node, item: &Item) -> Res<Node> {
        if n.depth < DEEPEST {
            return Ok(n);
        }
        let e = self.exact(&n, item)?;
        Ok(Node::leaf(Expression::Load(self.temporary(e)), n.width, n.signed, 0))
    }

    /// A value cut to `w` bits.
    pub fn cut(&mut self, item: &Item, w: u32) -> Res<Expression> {
        Ok(self.node(item)?.low(w))
    }

    /// A value that is not negative, whole.
    pub fn whole(&mut self, item: &Item) -> Res<Expression> {
        let n = self.node(item)?;
        match n.signed {
            true => Ok(n.low(n.width.max(64))),
            false => self.exact(&n, item),
        }
    }

    /// A value with its width and whether it is signed.
    pub fn typed(&mut self, item: &Item) -> Res<(Expression, u32, bool)> {
        let n = self.node(item)?;
        Ok((self.exact(&n, item)?, n.width, n.signed))
    }

    /// A condition.
    pub fn truth(&mut self, item: &Item) -> Res<Expression> {
        let n = self.node(item)?;
        self.exact(&n, item)
    }

    /// The result of an operator on two values, cut to `w` bits.
    pub fn result(&mut self, op: Operator, a: &Item, b: &Item, w: u32) -> Res<Expression> {
        let (x, y) = (self.node(a)?, self.node(b)?);
        Ok(match op {
            Operator::Shl => {
                let (x, y) = (x.low(w), self.exact(&y, b)?);
                both(op, w, x, y)
            }
            op => self.ring(op, x, y).low(w),
        })
    }

    /// A number that is known now.
    pub fn literal(&mut self, item: &Item) -> Res<Option<u64>> {
        Ok(self.node(item)?.literal().and_then(ToPrimitive::to_u64))
    }

    /// The value of a `{"type": ..., "value": ...}`.
    fn node(&mut self, item: &Item) -> Res<Node> {
        // Within values of type `expression`, p4c writes an operator without a type around it.
        if item.opt("type").is_none() && item.opt("op").is_some() {
            let n = self.operation(item)?;
            return self.shallow(n, item);
        }
        let (ty, value) = (item.get("type")?, item.get("value")?);
        match ty.text()? {
            "expression" if value.opt("op").is_some() => {
                let n = self.operation(&value)?;
                self.shallow(n, &value)
            }
            "expression" => self.node(&value),
            "hexstr" => Ok(Node::constant(hex(&value)?)),
            "bool" => Ok(Node::constant(BigInt::from(u8::from(value.flag()?)))),
            "local" | "runtime_data" => {
                let i = value.number()?;
                match usize::try_from(i).ok().and_then(|i| self.params.get(i)) {
                    Some((slot, w)) => Ok(Node::leaf(Expression::Load(*slot), *w, false, 0)),
                    None => value.err(format!("the action has no parameter {i}")),
                }
            }
            "field" | "stack_field" | "union_stack_field" => {
                let f = self.field(item)?;
                if f.is_varbit {
                    return value.unsupported("a field of variable length as a number");
                }
                Ok(Node::leaf(load(&f.addr), f.width, f.signed, 0))
            }
            "lookahead" => self.lookahead(&value),
            "register" => {
                let [name, index] = value.exactly()?;
                let Some((r, w)) = self.registers.get(name.text()?).copied() else {
                    return name.err("the register array is not declared");
                };
                let index = self.whole(&index)?;
                let slot = self.temporary(constant(Val::S(0)));
                self.code.push(Statement::RegisterRead(r, fixed(slot), index));
                Ok(Node::leaf(Expression::Load(slot), w, false, 0))
            }
            other => ty.unsupported(format!("a value of type `{other}`")),
        }
    }

    fn lookahead(&mut self, value: &Item) -> Res<Node> {
        if !self.in_parser {
            return value.unsupported("a lookahead outside of a parser");
        }
        let [offset, width] = value.exactly()?;
        let (offset, w) = (offset.up_to(u64::from(MAX_WIDTH))? as u32, width.up_to(u64::from(MAX_WIDTH))? as u32);
        if w == 0 {
            return width.err("a lookahead needs bits");
        }
        let base = self.layout.alloc(2);
        let fields = if offset > 0 { vec![(0, offset), (1, w)] } else { vec![(1, w)] };
        self.code.push(Statement::Lookahead(base, fields, (offset + w) as usize, Vec::new()));
        Ok(Node::leaf(Expression::Load(base + 1), w, false, 0))
    }

    fn operation(&mut self, item: &Item) -> Res<Node> {
        let op = item.get("op")?;
        let left = || item.get("left");
        let right = || item.get("right");
        let name = op.text()?;
        match name {
            "d2b" | "not" => {
                let x = self.node(&right()?)?;
                let (e, depth) = (self.exact(&x, item)?, x.depth + 1);
                let is_zero = Expression::Not(Box::new(e));
                let e = match (name, is_zero) {
                    ("not", e) => e,
                    (_, Expression::Not(e)) if x.width == 1 => *e,
                    (_, e) => Expression::Not(Box::new(e)),
                };
                Ok(Node::truth(e, depth + 1))
            }
            "b2d" => self.node(&right()?),
            "valid" => {
                let place = self.header(&right()?)?;
                Ok(Node::truth(load(&place.addr), 0))
            }
            "valid_union" => {
                let u = self.union(&right()?)?;
                let valid = u.1.iter().map(|m| load(&shifted(&u.0, m.offset)));
                let any = valid.reduce(|a, b| Expression::LOr(Box::new((a, b))));
                let depth = u.1.len() as u32;
                let n = Node::truth(any.unwrap_or(constant(Val::S(0))), depth);
                self.shallow(n, item)
            }
            "access_field" => {
                let f = self.indexed_field(item)?;
                Ok(Node::leaf(load(&f.addr), f.width, f.signed, 0))
            }
            "last_stack_index" | "size_stack" => {
                let next = Expression::Load(self.stack(&right()?)?.base);
                let e = match name {
                    "size_stack" => next,
                    _ => both(Operator::Sub, 32, next, constant(Val::S(1))),
                };
                Ok(Node::leaf(e, 32, false, 1))
            }
            "~" | "-" if item.opt("left").is_none() => {
                let x = self.node(&right()?)?;
                if name == "-" {
                    return Ok(self.ring(Operator::Sub, Node::constant(BigInt::zero()), x));
                }
                let (width, depth) = (x.signed_width(), x.depth + 1);
                Ok(Node { kind: Kind::Flip(Box::new(x)), width, signed: true, depth })
            }
            "?" => {
                let c = self.node(&item.get("cond")?)?;
                let (cond, a, b) = (self.exact(&c, item)?, self.node(&left()?)?, self.node(&right()?)?);
                let signed = a.signed || b.signed;
                let width = if signed { a.signed_width().max(b.signed_width()) } else { a.width.max(b.width) };
                let depth = 1 + c.depth.max(a.depth).max(b.depth);
                Ok(Node { kind: Kind::Choice(cond, Box::new((a, b))), width, signed, depth })
            }
            "two_comp_mod" | "sat_cast" | "usat_cast" => {
                let (x, w) = (self.node(&left()?)?, self.width(&right()?)?);
                match name {
                    "two_comp_mod" => {
                        let depth = x.depth + 1;
                        Ok(Node { kind: Kind::Wrap(Box::new(x)), width: w, signed: true, depth })
                    }
                    _ => self.saturated(x, w, name == "sat_cast", item),
                }
            }
            _ => {
                let (a, b) = (self.node(&left()?)?, self.node(&right()?)?);
                self.binary(&op, a, b, item)
            }
        }
    }

    fn width(&mut self, item: &Item) -> Res<u32> {
        match self.literal(item)? {
            Some(w) if (1..=u64::from(MAX_WIDTH)).contains(&w) => Ok(w as u32),
            _ => item.err(format!("must be a width from 1 to {MAX_WIDTH}")),
        }
    }

    fn ring(&mut self, op: Operator, a: Node, b: Node) -> Node {
        let signed_width = a.signed_width().max(b.signed_width());
        let (width, signed) = match (op, a.signed || b.signed) {
            (Operator::Add, false) => (a.width.max(b.width).saturating_add(1), false),
            (Operator::Add, true) | (Operator::Sub, _) => (signed_width.saturating_add(1), true),
            (Operator::Mul, false) => (a.width.saturating_add(b.width), false),
            (Operator::Mul, true) => (a.signed_width().saturating_add(b.signed_width()), true),
            // As wide as the narrower of those operands that are not negative.
            (Operator::And, _) if !(a.signed && b.signed) => {
                let width = [&a, &b].iter().filter(|n| !n.signed).map(|n| n.width).min();
                (width.unwrap_or(1), false)
            }
            (_, false) => (a.width.max(b.width), false),
            (_, true) => (signed_width, true),
        };
        let depth = 1 + a.depth.max(b.depth);
        Node { kind: Kind::Ring(op, Box::new((a, b))), width, signed, depth }
    }

    fn binary(&mut self, op: &Item, a: Node, b: Node, item: &Item) -> Res<Node> {
        let depth = 1 + a.depth.max(b.depth);
        let ring = match op.text()? {
            "+" => Some(Operator::Add),
            "-" => Some(Operator::Sub),
            "*" => Some(Operator::Mul),
            "&" => Some(Operator::And),
            "|" => Some(Operator::Or),
            "^" => Some(Operator::Xor),
            _ => None,
        };
        if let Some(ring) = ring {
            return Ok(self.ring(ring, a, b));
        }
        let truth = |e: Expression| Ok(Node::truth(e, depth + 1));
        match op.text()? {
            "and" => truth(Expression::LAnd(Box::new((self.exact(&a, item)?, self.exact(&b, item)?)))),
            "or" => truth(Expression::LOr(Box::new((self.exact(&a, item)?, self.exact(&b, item)?)))),
            "==" => truth(self.compare(Operator::Eq, &a, &b, item)?),
            "!=" => truth(Expression::Not(Box::new(self.compare(Operator::Eq, &a, &b, item)?))),
            "<" => truth(self.compare(Operator::Lt, &a, &b, item)?),
            ">" => truth(self.compare(Operator::Lt, &b, &a, item)?),
            "<=" => truth(self.compare(Operator::Le, &a, &b, item)?),
            ">=" => truth(self.compare(Operator::Le, &b, &a, item)?),
            "<<" | ">>" if b.signed => item.unsupported("a shift by a number that may be negative"),
            "<<" => {
                let by = self.exact(&b, item)?;
                // A shift by a variable has no bound that is of use; the result must be cut by what is around it.
                let most = b.literal().map_or(Some(u32::MAX), ToPrimitive::to_u32).unwrap_or(u32::MAX);
                let (width, signed) = (a.width.saturating_add(most), a.signed);
                Ok(Node { kind: Kind::Shl(Box::new(a), by), width, signed, depth })
            }
            ">>" => {
                let (e, by) = (self.exact(&a, item)?, self.exact(&b, item)?);
                let less = b.literal().and_then(ToPrimitive::to_u32).unwrap_or(0);
                Ok(match a.signed {
                    true => Node::leaf(both(Operator::Sar, a.width, e, by), a.width, true, depth),
                    false => {
                        let width = a.width.saturating_sub(less).max(1);
                        Node::leaf(both(Operator::Shr, a.width, e, by), width, false, depth)
                    }
                })
            }
            "/" | "%" if a.signed || b.signed => item.unsupported("division of numbers that may be negative"),
            "/" => {
                let e = both(Operator::Div, a.width, self.exact(&a, item)?, self.exact(&b, item)?);
                Ok(Node::leaf(e, a.width, false, depth))
            }
            "%" => {
                let e = both(Operator::Mod, a.width.max(b.width), self.exact(&a, item)?, self.exact(&b, item)?);
                Ok(Node::leaf(e, a.width, false, depth))
            }
            other => op.unsupported(format!("operator `{other}`")),
        }
    }

    fn compare(&mut self, op: Operator, a: &Node, b: &Node, item: &Item) -> Res<Expression> {
        if !a.signed && !b.signed {
            return Ok(both(op, a.width.max(b.width), self.exact(a, item)?, self.exact(b, item)?));
        }
        let w = a.signed_width().max(b.signed_width());
        if w > MAX_WIDTH {
            return item.unsupported(format!("a result that may have more than {MAX_WIDTH} bits"));
        }
        let op = match op {
            Operator::Lt => Operator::LtS,
            Operator::Le => Operator::LeS,
            op => op,
        };
        Ok(both(op, w, a.low(w), b.low(w)))
    }

    fn saturated(&mut self, x: Node, w: u32, signed: bool, item: &Item) -> Res<Node> {
        let depth = x.depth + 1;
        let fits = |n: &Node| if signed { n.signed_width() <= w } else { !n.signed && n.width <= w };
        if let Kind::Ring(op @ (Operator::Add | Operator::Sub), ab) = &x.kind
            && fits(&ab.0)
            && fits(&ab.1)
        {
            let op = match (op, signed) {
                (Operator::Add, false) => Operator::AddSat,
                (Operator::Add, true) => Operator::AddSatS,
                (_, false) => Operator::SubSat,
                (_, true) => Operator::SubSatS,
            };
            return Ok(Node::leaf(both(op, w, ab.0.low(w), ab.1.low(w)), w, signed, depth));
        }
        let most = (BigInt::one() << (w - u32::from(signed))) - 1;
        let least = if signed { -(BigInt::one() << (w - 1)) } else { BigInt::zero() };
        let e = self.exact(&x, item)?;
        let x = Node::leaf(Expression::Load(self.temporary(e)), x.width, x.signed, 0);
        let (least, most) = (Node::constant(least), Node::constant(most));
        let below = self.compare(Operator::Lt, &x, &least, item)?;
        let above = self.compare(Operator::Lt, &most, &x, item)?;
        let inner = Expression::Cond(Box::new((above, most.low(w), x.low(w))));
        Ok(Node::leaf(Expression::Cond(Box::new((below, least.low(w), inner))), w, signed, 4))
    }

    /// A stack by its name.
    pub fn stack(&self, item: &Item) -> Res<Stack> {
        let name = match item.opt("value") {
            Some(value) => value,
            None => item.clone(),
        };
        match self.layout.stacks.get(name.text()?) {
            Some(stack) => Ok(stack.clone()),
            None => name.err("the stack is not declared"),
        }
    }

    /// A union's place and members.
    fn union(&mut self, item: &Item) -> Res<(Address, std::sync::Arc<Vec<Member>>)> {
        let value = item.get("value")?;
        if value.v.is_string() {
            return match self.layout.unions.get(value.text()?) {
                Some(u) => Ok((fixed(u.base), u.members.clone())),
                None => value.err("the union is not declared"),
            };
        }
        let (stack, index) = self.dereferenced(&value, "dereference_union_stack")?;
        match &stack.element {
            Element::Union(members) => Ok((stack.at(index, 0, 0), members.clone())),
            Element::Header(_) => value.err("is a stack of headers, not of unions"),
        }
    }

    /// The stack and the slot with the index of `stack[index]`.
    fn dereferenced(&mut self, value: &Item, op: &str) -> Res<(Stack, Slot)> {
        let value = match value.opt("op") {
            Some(_) => value.clone(),
            None => value.get("value")?,
        };
        let name = value.get("op")?;
        if name.text()? != op {
            return name.unsupported(format!("operator `{}` where a header is needed", name.text()?));
        }
        let stack = self.stack(&value.get("left")?)?;
        let index = self.whole(&value.get("right")?)?;
        Ok((stack, self.temporary(index)))
    }

    /// A header: by its name, an element of a stack, or a member of a union.
    pub fn header(&mut self, item: &Item) -> Res<Place> {
        self.header_value(&item.get("value")?)
    }

    fn header_value(&mut self, value: &Item) -> Res<Place> {
        if value.v.is_string() {
            return match self.layout.places.get(value.text()?) {
                Some(place) => Ok(place.clone()),
                None => value.err("the header is not declared"),
            };
        }
        let inner = match value.opt("op") {
            Some(_) => value.clone(),
            None => value.get("value")?,
        };
        if inner.get("op")?.text()? == "access_union_header" {
            let (at, members) = self.union(&inner.get("left")?)?;
            let i = inner.get("right")?;
            let Some(m) = members.get(i.number()? as usize) else { return i.err("the union has no such member") };
            let siblings = members.iter().filter(|o| o.offset != m.offset);
            let siblings = siblings.map(|o| shifted(&at, o.offset)).collect();
            return Ok(Place { addr: shifted(&at, m.offset), ty: m.ty, is_metadata: false, siblings });
        }
        let (stack, index) = self.dereferenced(&inner, "dereference_header_stack")?;
        match self.layout.element(&stack, index, 0, None) {
            Some(place) => Ok(place),
            None => inner.err("is a stack of unions, not of headers"),
        }
    }

    /// `header.field` by the field's number.
    fn indexed_field(&mut self, op: &Item) -> Res<FieldPlace> {
        let place = self.header(&op.get("left")?)?;
        let i = op.get("right")?;
        match self.layout.types[place.ty].field(&place, usize::try_from(i.number()?).unwrap_or(usize::MAX)) {
            Some(f) => Ok(f),
            None => i.err("the header has no such field"),
        }
    }

    /// A field by names or by an expression.
    pub fn field(&mut self, item: &Item) -> Res<FieldPlace> {
        let (ty, value) = (item.get("type")?, item.get("value")?);
        let found = match ty.text()? {
            "field" => {
                let [header, field] = value.exactly()?;
                // The header may stand at a run-time index.
                match header.v.is_object() {
                    false => self.layout.field(header.text()?, field.text()?),
                    true => {
                        let place = self.header_value(&header)?;
                        self.layout.field_of(&place, field.text()?)
                    }
                }
            }
            "stack_field" => {
                let [stack, field] = value.exactly()?;
                let stack = self.stack(&stack)?;
                let place = self.last(&stack, None);
                place.and_then(|p| self.layout.field_of(&p, field.text().ok()?))
            }
            "union_stack_field" => {
                let [stack, member, field] = value.exactly()?;
                let stack = self.stack(&stack)?;
                let member = member_of(&stack, member.text()?);
                let place = self.last(&stack, member.as_ref());
                place.and_then(|p| self.layout.field_of(&p, field.text().ok()?))
            }
            "expression" => {
                let inner = match value.opt("op") {
                    Some(_) => value.clone(),
                    None if value.opt("type").is_some_and(|t| t.v.as_str() != Some("expression")) => {
                        return self.field(&value);
                    }
                    None => value.get("value")?,
                };
                let op = inner.get("op")?;
                if op.text()? != "access_field" {
                    return op.unsupported(format!("operator `{}` where a field is needed", op.text()?));
                }
                Some(self.indexed_field(&inner)?)
            }
            other => return ty.unsupported(format!("a field of type `{other}`")),
        };
        found.map_or_else(|| value.err("the field is not declared"), Ok)
    }

    /// The last element that the parser extracted; an error of the parser where there is none.
    fn last(&mut self, stack: &Stack, member: Option<&Member>) -> Option<Place> {
        let index = self.temporary(Expression::Load(stack.base));
        let place = self.layout.element(stack, index, -1, member)?;
        if self.in_parser {
            self.code.push(Statement::CheckIndex(place.addr.clone()));
        }
        Some(place)
    }

    pub fn set(&mut self, to: &Address, e: Expression) {
        self.code.push(match to.dyns.is_empty() {
            true => Statement::Set(to.base, e),
            false => Statement::SetAt(to.clone(), e),
        });
    }
}

/// Member of a stack's unions.
pub(super) fn member_of(stack: &Stack, name: &str) -> Option<Member> {
    match &stack.element {
        Element::Union(members) => members.iter().find(|m| m.name == name).cloned(),
        Element::Header(_) => None,
    }
}
