// SPDX-License-Identifier: Apache-2.0
//! Type of an expression, and its value as far as it is known at compile time.
use crate::bytecode::ir::{self, Address, Expression};
use crate::bytecode::operators::{Operator, Slot};
use crate::check::types::*;
use crate::syntax::ast::*;
use crate::syntax::diagnostics::{Reported, Span};
use crate::value::Val;
use num_bigint::BigInt;
use num_traits::Zero;
use std::rc::Rc;

pub(crate) type Checked<T> = Result<T, Reported>;

/// A place that can be read and, unless it is an `in` parameter, written.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub addr: Address,
    /// Why it can't be written.
    pub read_only: Option<&'static str>,
    /// Validity of the other members, for a header inside a union.
    pub siblings: Vec<Address>,
    /// Next-index slot and length of the stack whose `next` this is.
    pub next_of: Option<(Address, usize)>,
    /// Validity of the header this is a field of.
    pub valid_of: Option<Address>,
}

impl Place {
    pub fn at(base: Slot) -> Place {
        Place {
            addr: Address { base, dyns: Vec::new() },
            read_only: None,
            siblings: Vec::new(),
            next_of: None,
            valid_of: None,
        }
    }

    pub fn offset(&self, by: usize) -> Place {
        let addr = Address { base: self.addr.base + by, dyns: self.addr.dyns.clone() };
        Place { addr, read_only: self.read_only, siblings: Vec::new(), next_of: None, valid_of: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ExternObject {
    Register(usize),
    Counter(usize),
    DirectCounter(usize),
    Meter(usize),
    DirectMeter(usize),
    Profile(usize),
    Checksum16,
    PacketIn,
    PacketOut,
}

/// The value side of a typed expression.
#[derive(Clone, Debug)]
pub(crate) enum ValueKind {
    /// Known at compile time; enumerations and errors too.
    Int(BigInt),
    Bool(bool),
    Str(String),
    /// One expression for each slot.
    Leaves(Vec<Expression>),
    Place(Place),
    /// Members with their names if they have any; the flag: `...` stands for the rest.
    Aggregate(Vec<(Option<String>, TypedValue)>, bool),
    Default,
    Invalid,
    Extern(ExternObject),
    Type(TypeDef),
    Action(usize),
    Table(usize),
    Instance(usize),
    Functions(Vec<Rc<FuncDecl>>),
    Method(Box<TypedValue>, Name),
    ValueSet(usize),
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct TypedValue {
    pub ty: Ty,
    pub kind: ValueKind,
}

/// A struct, header or union with type parameters.
#[derive(Debug)]
pub(crate) struct GenericTy {
    pub name: String,
    pub kind: StructKind,
    pub type_params: Vec<Name>,
    pub fields: Vec<Field>,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeDef {
    Ty(Ty),
    Generic(Rc<GenericTy>),
    Extern(Rc<ExternTy>),
}

/// Where code stands, for statements that are not allowed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Top,
    Parser,
    Control,
    Action,
    Function,
}

/// Part of V1Switch that is being lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Unknown,
    Parser,
    Verify,
    Ingress,
    Egress,
    Compute,
    Deparser,
}

#[derive(Clone, Debug)]
pub(crate) struct BoundParam {
    pub name: String,
    pub dir: Dir,
    pub ty: Ty,
    pub slot: Slot,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub params: Vec<BoundParam>,
    pub body: usize,
    pub ret: Option<(Slot, Ty)>,
    pub is_parser: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionInstance {
    pub name: String,
    /// Name as controllers know it.
    pub full_name: String,
    pub callee: Callee,
    pub decl: Rc<FuncDecl>,
    pub annos: Vec<Annotation>,
}

pub(crate) fn type_value(def: TypeDef) -> TypedValue {
    TypedValue { ty: Ty::Object("a type"), kind: ValueKind::Type(def) }
}

pub(crate) fn describe(v: &TypedValue) -> String {
    match &v.kind {
        ValueKind::Type(_) => "a type".into(),
        ValueKind::Action(_) => "an action".into(),
        ValueKind::Table(_) => "a table".into(),
        ValueKind::Instance(_) => "an instance".into(),
        ValueKind::Functions(_) => "a function".into(),
        ValueKind::Method(..) => "a method".into(),
        ValueKind::ValueSet(_) => "a value set".into(),
        ValueKind::Extern(_) => "an extern instance".into(),
        _ => format!("a value of type {}", v.ty),
    }
}

pub(crate) fn is_const(v: &TypedValue) -> bool {
    match &v.kind {
        ValueKind::Int(_) | ValueKind::Bool(_) | ValueKind::Str(_) | ValueKind::Default | ValueKind::Invalid => true,
        ValueKind::Aggregate(list, _) => list.iter().all(|(_, v)| is_const(v)),
        ValueKind::Leaves(list) => list.iter().all(|e| matches!(e, Expression::Const(_))),
        _ => false,
    }
}

pub(crate) fn int_const(v: &BigInt, ty: &Ty) -> Expression {
    Expression::Const(Val::from_int(v, ty.scalar_width().unwrap_or(128)))
}

pub(crate) fn load(addr: &Address) -> Expression {
    if addr.dyns.is_empty() { Expression::Load(addr.base) } else { Expression::LoadAt(Box::new(addr.clone())) }
}

pub(crate) fn header_layout(s: &StructTy) -> ir::HeaderLayout {
    let mut layout = ir::HeaderLayout { fields: Vec::new(), varbit: None, fixed_bits: 0 };
    for f in &s.fields {
        if let Ty::Varbit(w) = f.ty.base() {
            layout.varbit = Some(layout.fields.len());
            layout.fields.push((f.offset, *w));
        } else {
            for (o, w) in f.ty.fixed_layout().unwrap_or_default() {
                layout.fixed_bits += w as usize;
                layout.fields.push((f.offset + o, w));
            }
        }
    }
    layout
}

pub(crate) fn zero_int() -> BigInt {
    BigInt::zero()
}

/// Something that can be assigned: a place, perhaps only some bits of it.
#[derive(Clone, Debug)]
pub(crate) struct LValue {
    pub place: Place,
    pub ty: Ty,
    /// Lowest bit and width of the slice, width of the whole.
    pub slice: Option<(u32, u32, u32)>,
    /// Value of an `inout` argument, read before later arguments changed the place (P4_16 6.8).
    pub saved: Option<TypedValue>,
}

/// Values that it holds.
pub(crate) fn parts(v: &TypedValue) -> usize {
    match &v.kind {
        ValueKind::Aggregate(list, _) => 1 + list.iter().map(|(_, v)| parts(v)).sum::<usize>(),
        ValueKind::Leaves(list) => list.len(),
        _ => 1,
    }
}

pub(crate) fn leaf(ty: Ty, e: Expression) -> TypedValue {
    TypedValue { ty, kind: ValueKind::Leaves(vec![e]) }
}

pub(crate) fn boolean(b: bool) -> TypedValue {
    TypedValue { ty: Ty::Bool, kind: ValueKind::Bool(b) }
}

pub(crate) fn both(op: Operator, w: u32, a: Expression, b: Expression) -> Expression {
    Expression::Bin(op, w, Box::new((a, b)))
}

pub(crate) fn and(a: Expression, b: Expression) -> Expression {
    Expression::LAnd(Box::new((a, b)))
}

/// One argument, evaluated.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentValue {
    In(TypedValue, Span),
    Out(LValue, Span),
    /// `_`, or an argument left to its default.
    Missing,
}

impl ArgumentValue {
    pub fn value(&self) -> Option<(&TypedValue, Span)> {
        match self {
            ArgumentValue::In(v, s) => Some((v, *s)),
            _ => None,
        }
    }
}

/// The value, or zero when the header at `valid` is not there.
pub(crate) fn if_valid(valid: &Address, e: Expression) -> Expression {
    Expression::Cond(Box::new((load(valid), e, Expression::Const(Val::S(0)))))
}
