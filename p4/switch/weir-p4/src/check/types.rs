// SPDX-License-Identifier: Apache-2.0
//! P4 types, and how their values lie in the frame's slots.
use crate::syntax::ast::{Annotation, BlockDecl, FuncDecl, Name, Param, StructKind};
use num_bigint::BigInt;
use std::fmt;
use std::rc::Rc;

#[derive(Debug)]
pub struct FieldTy {
    pub name: String,
    pub ty: Ty,
    /// Slots from the start of the struct.
    pub offset: usize,
    pub annos: Vec<Annotation>,
}

#[derive(Debug)]
pub struct StructTy {
    pub name: String,
    pub kind: StructKind,
    pub fields: Vec<FieldTy>,
    pub slots: usize,
    pub annos: Vec<Annotation>,
}

/// `type T name`
#[derive(Debug)]
pub struct NewTy {
    pub name: String,
    pub under: Ty,
    pub annos: Vec<Annotation>,
}

#[derive(Debug)]
pub struct EnumTy {
    pub name: String,
    pub under: Option<Ty>,
    pub members: Vec<(String, BigInt)>,
}

#[derive(Debug)]
pub struct ExternTy {
    pub name: String,
    pub type_params: Vec<Name>,
    pub methods: Vec<Rc<FuncDecl>>,
}

#[derive(Debug)]
pub struct PackageTy {
    pub name: String,
    pub type_params: Vec<Name>,
    pub params: Vec<Param>,
}

#[derive(Clone, Debug)]
pub enum Ty {
    Bool,
    /// Arbitrary precision, known at compile time.
    Int,
    Bit(u32),
    SInt(u32),
    Varbit(u32),
    Str,
    Error,
    MatchKind,
    Void,
    Struct(Rc<StructTy>),
    Stack(Rc<Ty>, u32),
    Enum(Rc<EnumTy>),
    /// `type T name`: its own type, same representation.
    New(Rc<NewTy>),
    Tuple(Rc<Vec<Ty>>),
    List(Rc<Ty>),
    /// The type of `{ a = 1, b = 2 }`.
    Record(Rc<Vec<(String, Ty)>>),
    Extern(Rc<ExternTy>, Rc<Vec<Ty>>),
    Block(Rc<BlockDecl>),
    Package(Rc<PackageTy>),
    /// A type parameter: numbered while a call's arguments are matched.
    Var(usize),
    /// A value without a type of its own: `...` or `{#}`.
    Untyped,
    /// The result of a table's apply(): the table's number.
    Applied(usize),
    /// The `action_run` of a table.
    ActionRun(usize),
    /// Things that are no values: functions, tables, types and so on.
    Object(&'static str),
}

impl PartialEq for Ty {
    fn eq(&self, o: &Ty) -> bool {
        use Ty::*;
        match (self, o) {
            (Bool, Bool) | (Int, Int) | (Str, Str) | (Error, Error) | (MatchKind, MatchKind) | (Void, Void) => true,
            (Bit(a), Bit(b)) | (SInt(a), SInt(b)) | (Varbit(a), Varbit(b)) => a == b,
            (Struct(a), Struct(b)) => {
                Rc::ptr_eq(a, b)
                    || a.name == b.name
                        && a.fields.len() == b.fields.len()
                        && a.fields.iter().zip(&b.fields).all(|(x, y)| x.ty == y.ty)
            }
            (Stack(a, n), Stack(b, m)) => n == m && a == b,
            (Enum(a), Enum(b)) => Rc::ptr_eq(a, b),
            (New(a), New(b)) => Rc::ptr_eq(a, b),
            (Tuple(a), Tuple(b)) => a == b,
            (List(a), List(b)) => a == b,
            (Record(a), Record(b)) => a == b,
            (Extern(a, x), Extern(b, y)) => Rc::ptr_eq(a, b) && x == y,
            (Block(a), Block(b)) => Rc::ptr_eq(a, b),
            (Package(a), Package(b)) => Rc::ptr_eq(a, b),
            (Var(a), Var(b)) | (Applied(a), Applied(b)) | (ActionRun(a), ActionRun(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ts: &[Ty]| ts.iter().map(Ty::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Ty::Bool => f.write_str("bool"),
            Ty::Int => f.write_str("int"),
            Ty::Bit(w) => write!(f, "bit<{w}>"),
            Ty::SInt(w) => write!(f, "int<{w}>"),
            Ty::Varbit(w) => write!(f, "varbit<{w}>"),
            Ty::Str => f.write_str("string"),
            Ty::Error => f.write_str("error"),
            Ty::MatchKind => f.write_str("match_kind"),
            Ty::Void => f.write_str("void"),
            Ty::Struct(s) => match s.kind {
                StructKind::Struct => write!(f, "struct {}", s.name),
                StructKind::Header => write!(f, "header {}", s.name),
                StructKind::Union => write!(f, "header_union {}", s.name),
            },
            Ty::Stack(t, n) => write!(f, "{t}[{n}]"),
            Ty::Enum(e) => write!(f, "enum {}", e.name),
            Ty::New(n) => f.write_str(&n.name),
            Ty::Tuple(t) => write!(f, "tuple<{}>", list(t)),
            Ty::List(t) => write!(f, "list<{t}>"),
            Ty::Record(r) => {
                let names: Vec<&str> = r.iter().map(|(n, _)| n.as_str()).collect();
                write!(f, "record {{{}}}", names.join(", "))
            }
            Ty::Extern(e, a) if a.is_empty() => write!(f, "extern {}", e.name),
            Ty::Extern(e, a) => write!(f, "extern {}<{}>", e.name, list(a)),
            Ty::Block(b) => write!(f, "{} {}", if b.is_parser { "parser" } else { "control" }, b.name.text),
            Ty::Package(p) => write!(f, "package {}", p.name),
            Ty::Var(_) => f.write_str("a type parameter"),
            Ty::Untyped => f.write_str("a value without a type"),
            Ty::Applied(_) => f.write_str("the result of apply()"),
            Ty::ActionRun(_) => f.write_str("action_run"),
            Ty::Object(what) => f.write_str(what),
        }
    }
}

impl Ty {
    /// Without `type` names and serializable enums' names: the value's underlying type.
    pub fn base(&self) -> &Ty {
        match self {
            Ty::New(n) => n.under.base(),
            t => t,
        }
    }

    /// Width of a value in one slot: booleans 1, enumerations and errors 32.
    pub fn scalar_width(&self) -> Option<u32> {
        match self {
            Ty::Bool => Some(1),
            Ty::Bit(w) | Ty::SInt(w) => Some(*w),
            Ty::Error => Some(32),
            Ty::Enum(e) => e.under.as_ref().map_or(Some(32), Ty::scalar_width),
            Ty::New(n) => n.under.scalar_width(),
            Ty::ActionRun(_) => Some(32),
            _ => None,
        }
    }

    pub fn is_signed(&self) -> bool {
        match self {
            Ty::SInt(_) => true,
            Ty::New(n) => n.under.is_signed(),
            Ty::Enum(e) => e.under.as_ref().is_some_and(Ty::is_signed),
            _ => false,
        }
    }

    pub fn is_header(&self) -> bool {
        matches!(self, Ty::Struct(s) if s.kind == StructKind::Header)
    }

    pub fn is_union(&self) -> bool {
        matches!(self, Ty::Struct(s) if s.kind == StructKind::Union)
    }

    /// Slots a value takes. Headers lead with their validity, stacks with their next index; a varbit is value and
    /// length in bits.
    pub fn slots(&self) -> usize {
        match self {
            Ty::Struct(s) => s.slots,
            Ty::Stack(t, n) => 1 + t.slots() * *n as usize,
            Ty::Tuple(t) => t.iter().map(Ty::slots).sum(),
            Ty::New(n) => n.under.slots(),
            Ty::Varbit(_) => 2,
            Ty::Void | Ty::Str | Ty::Int | Ty::Object(_) | Ty::Extern(..) => 0,
            _ => 1,
        }
    }

    /// Width and slot offset of each bit field in order, for types that lie in a packet (validity left out);
    /// `None` when the type has no fixed width.
    pub fn fixed_layout(&self) -> Option<Vec<(usize, u32)>> {
        let mut out = Vec::new();
        self.add_layout(0, &mut out).then_some(out)
    }

    fn add_layout(&self, at: usize, out: &mut Vec<(usize, u32)>) -> bool {
        match self.base() {
            Ty::Struct(s) if s.kind != StructKind::Union => {
                s.fields.iter().all(|f| f.ty.add_layout(at + f.offset, out))
            }
            Ty::Tuple(ts) => {
                let mut at = at;
                ts.iter().all(|t| {
                    let ok = t.add_layout(at, out);
                    at += t.slots();
                    ok
                })
            }
            Ty::Error => false,
            Ty::Enum(e) if e.under.is_none() => false,
            t => match t.scalar_width() {
                Some(w) => {
                    out.push((at, w));
                    true
                }
                None => false,
            },
        }
    }

    /// Types that it is made of, up to structs, which have a limit of their own.
    pub fn parts(&self) -> usize {
        let sum = |list: &[Ty]| list.iter().fold(1usize, |n, t| n.saturating_add(t.parts()));
        match self {
            Ty::Tuple(list) | Ty::Extern(_, list) => sum(list),
            Ty::Record(list) => list.iter().fold(1usize, |n, (_, t)| n.saturating_add(t.parts())),
            Ty::List(t) | Ty::Stack(t, _) => t.parts().saturating_add(1),
            Ty::New(n) => n.under.parts(),
            _ => 1,
        }
    }
}
