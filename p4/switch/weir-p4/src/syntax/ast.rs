// SPDX-License-Identifier: Apache-2.0
//! The syntax tree, as close to P4_16's grammar as later stages need.
use crate::syntax::diagnostics::Span;
use crate::syntax::lexer::{Token, TokenKind};
use num_bigint::BigInt;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Annotation {
    pub name: Name,
    /// Everything between the parentheses or brackets.
    pub body: Vec<Token>,
    /// In brackets.
    pub structured: bool,
}

impl Annotation {
    /// Tokens of each expression in the body, which commas divide.
    pub fn expressions(&self) -> Vec<&[Token]> {
        let (mut out, mut from, mut depth) = (Vec::new(), 0, 0);
        for (i, t) in self.body.iter().enumerate() {
            match t.tok {
                TokenKind::Punct("(" | "[" | "{") => depth += 1,
                TokenKind::Punct(")" | "]" | "}") => depth -= 1,
                TokenKind::Punct(",") if depth == 0 => {
                    out.push(&self.body[from..i]);
                    from = i + 1;
                }
                _ => {}
            }
        }
        if from < self.body.len() {
            out.push(&self.body[from..]);
        }
        out
    }
}

/// The argument of `@name("...")`, if there is such an annotation with one.
pub fn anno_string(annos: &[Annotation], name: &str) -> Option<String> {
    let a = annos.iter().find(|a| a.name.text == name)?;
    match a.body.first().map(|t| &t.tok) {
        Some(TokenKind::Str(s)) => Some(s.clone()),
        _ => None,
    }
}

#[derive(Clone, Debug)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

impl Type {
    /// As [`Expr::depth`]. Types in types are few: their number is not kept but counted.
    pub fn depth(&self) -> u32 {
        let inner = match &self.kind {
            TypeKind::Bit(Some(e)) | TypeKind::Int(e) | TypeKind::Varbit(e) => e.depth,
            TypeKind::Named(_, list) | TypeKind::Tuple(list) => list.iter().map(Type::depth).max().unwrap_or(0),
            TypeKind::List(t) => t.depth(),
            TypeKind::Stack(t, e) => t.depth().max(e.depth),
            _ => 0,
        };
        inner + 1
    }
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    Bool,
    Error,
    MatchKind,
    Str,
    Void,
    DontCare,
    /// `int` without a width.
    Integer,
    Bit(Option<Box<Expr>>),
    Int(Box<Expr>),
    Varbit(Box<Expr>),
    Named(String, Vec<Type>),
    Tuple(Vec<Type>),
    List(Box<Type>),
    Stack(Box<Type>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// Nesting depth of the expression, itself included.
    pub depth: u32,
}

impl Expr {
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        use ExprKind::{
            Binary, Call, Cast, Index, List, Mask, Member, PlusSlice, Range, Record, Slice, Ternary, Unary,
        };
        let args = |args: &[Arg]| args.iter().filter_map(|a| a.value.as_ref()).map(|e| e.depth).max().unwrap_or(0);
        let inner = match &kind {
            Member(a, _) | Unary(_, a) => a.depth,
            Cast(t, a) => a.depth.max(t.depth()),
            Index(a, b) | Binary(_, a, b) | Mask(a, b) | Range(a, b) => a.depth.max(b.depth),
            Slice(a, b, c) | PlusSlice(a, b, c) | Ternary(a, b, c) => a.depth.max(b.depth).max(c.depth),
            Call(f, types, list) => {
                let types = types.iter().map(Type::depth).max().unwrap_or(0);
                f.depth.max(types).max(args(list))
            }
            List(list, _) => list.iter().map(|e| e.depth).max().unwrap_or(0),
            Record(list, _) => list.iter().map(|(_, e)| e.depth).max().unwrap_or(0),
            ExprKind::Type(t) => t.depth(),
            _ => 0,
        };
        Expr { kind, span, depth: inner + 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    Not,
    BitNot,
    Neg,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    AddSat,
    SubSat,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    LAnd,
    LOr,
    Concat,
}

impl BinaryOperator {
    pub fn text(self) -> &'static str {
        use BinaryOperator::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Mod => "%",
            AddSat => "|+|",
            SubSat => "|-|",
            Shl => "<<",
            Shr => ">>",
            And => "&",
            Or => "|",
            Xor => "^",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            LAnd => "&&",
            LOr => "||",
            Concat => "++",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Arg {
    pub name: Option<Name>,
    /// `None` for `_`, an out argument nobody wants.
    pub value: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Int(BigInt, Option<(u32, bool)>),
    Bool(bool),
    Str(String),
    Name(String),
    /// `.name`, looked up at the top level.
    Global(String),
    This,
    Type(Type),
    Member(Box<Expr>, Name),
    Index(Box<Expr>, Box<Expr>),
    /// `value[high:low]`
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `value[low+:width]`
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    Unary(UnaryOperator, Box<Expr>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Type, Box<Expr>),
    Call(Box<Expr>, Vec<Type>, Vec<Arg>),
    /// The flag says that `...` follows: default values for the rest.
    List(Vec<Expr>, bool),
    Record(Vec<(Name, Expr)>, bool),
    Default,
    InvalidHeader,
    Mask(Box<Expr>, Box<Expr>),
    Range(Box<Expr>, Box<Expr>),
    DontCare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    None,
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: Name,
    pub dir: Dir,
    pub ty: Type,
    pub default: Option<Expr>,
    pub annos: Vec<Annotation>,
}

impl Param {
    pub fn optional(&self) -> bool {
        self.annos.iter().any(|a| a.name.text == "optional")
    }
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Assign(Expr, Expr),
    OpAssign(BinaryOperator, Expr, Expr),
    Call(Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    Block(Vec<Stmt>),
    Return(Option<Expr>),
    Exit,
    Break,
    Continue,
    Switch(Expr, Vec<(Vec<SwitchLabel>, Option<Vec<Stmt>>)>),
    For(Vec<Stmt>, Option<Expr>, Vec<Stmt>, Box<Stmt>),
    /// Type and name of the variable, collection, body.
    ForIn(Type, Name, Box<Expr>, Box<Stmt>),
    Decl(Box<Decl>),
    Empty,
}

#[derive(Clone, Debug)]
pub enum SwitchLabel {
    Default(Span),
    Value(Expr),
}

#[derive(Clone, Debug)]
pub struct Decl {
    pub name: Name,
    pub annos: Vec<Annotation>,
    pub kind: DeclKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    Struct,
    Header,
    Union,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Name,
    pub ty: Type,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub struct FuncDecl {
    pub name: Name,
    pub type_params: Vec<Name>,
    pub ret: Type,
    pub params: Vec<Param>,
    pub body: Option<Vec<Stmt>>,
}

#[derive(Clone, Debug)]
pub struct State {
    pub name: Name,
    pub body: Vec<Stmt>,
    pub transition: Transition,
}

#[derive(Clone, Debug)]
pub enum Transition {
    /// No `transition` statement: reject.
    Implicit,
    To(Name),
    Select(Vec<Expr>, Vec<(Vec<Expr>, Name, Span)>, Span),
}

#[derive(Clone, Debug)]
pub struct BlockDecl {
    pub name: Name,
    pub is_parser: bool,
    pub type_params: Vec<Name>,
    pub params: Vec<Param>,
    pub ctor_params: Vec<Param>,
    pub locals: Vec<Decl>,
    pub states: Vec<State>,
    /// `None` for a type declaration without a body.
    pub apply: Option<Vec<Stmt>>,
}

#[derive(Clone, Debug)]
pub struct KeyField {
    pub expr: Expr,
    pub kind: Name,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub struct ActionRef {
    pub path: Name,
    pub args: Vec<Arg>,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub keys: Vec<Expr>,
    pub action: ActionRef,
    pub is_const: bool,
    pub priority: Option<Expr>,
    pub annos: Vec<Annotation>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Property {
    pub name: Name,
    pub value: Expr,
    pub annos: Vec<Annotation>,
}

#[derive(Clone, Debug, Default)]
pub struct TableDecl {
    pub keys: Vec<KeyField>,
    pub actions: Vec<ActionRef>,
    pub has_actions: bool,
    pub entries: Option<(bool, Vec<Entry>)>,
    pub default: Option<(bool, ActionRef)>,
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug)]
pub enum DeclKind {
    Const(Type, Expr),
    Typedef(Type),
    NewType(Type),
    Struct(StructKind, Vec<Name>, Vec<Field>),
    Enum(Option<Type>, Vec<(Name, Option<Expr>)>),
    Errors(Vec<Name>),
    MatchKinds(Vec<Name>),
    Extern(Vec<Name>, Vec<FuncDecl>),
    Function(Rc<FuncDecl>),
    Action(Rc<FuncDecl>),
    Block(Rc<BlockDecl>),
    Package(Vec<Name>, Vec<Param>),
    Instance(Type, Vec<Arg>, bool),
    Var(Type, Option<Expr>),
    Table(Rc<TableDecl>),
    ValueSet(Type, Expr),
}
