// SPDX-License-Identifier: Apache-2.0
//! Recursive descent over P4_16's grammar. Where the grammar needs to know which names are types, the parser reads
//! on tentatively and goes back when it was not one.
use crate::ast::*;
use crate::diag::{Diagnostics, Reported, Span};
use crate::lexer::{Tok, Token};
use std::rc::Rc;

type Res<T> = Result<T, Reported>;

struct Parser<'a> {
    t: Vec<Token>,
    i: usize,
    diags: &'a mut Diagnostics,
    depth: u32,
    blocks: u32,
    /// Reading tentatively: errors are not recorded.
    quiet: u32,
}

/// What is nested deeper than this is refused, so that no input overflows the compiler's stack, which has room for
/// several times as much in every pass ([`crate::deep`]).
const MAX_DEPTH: u32 = 10_000;
/// Blocks in blocks, and `if` behind `else`: these nest in the compiled program too.
const MAX_BLOCKS: u32 = 1000;
const MAX_ATTEMPTS: u32 = 10;

const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

/// Parses one translation unit. Errors are recorded in `diags`; what could be read is returned.
pub fn parse(tokens: Vec<Token>, diags: &mut Diagnostics) -> Vec<Decl> {
    let mut p = Parser { t: tokens, i: 0, diags, depth: 0, blocks: 0, quiet: 0 };
    let mut decls = Vec::new();
    while !p.at_end() {
        if p.eat(";") {
            continue;
        }
        let from = p.i;
        match p.top_decl() {
            Ok(d) => decls.extend(d),
            Err(Reported) => p.recover(from),
        }
    }
    decls
}

/// Parses tokens that are one expression, as in an annotation at `span`.
pub fn parse_expr(tokens: &[Token], span: Span, diags: &mut Diagnostics) -> Res<Expr> {
    let end = Token { tok: Tok::Eof, span, touches: false, starts_line: false };
    let tokens = tokens.iter().cloned().chain([end]).collect();
    let mut p = Parser { t: tokens, i: 0, diags, depth: 0, blocks: 0, quiet: 0 };
    let e = p.expr()?;
    match p.at_end() {
        true => Ok(e),
        false => p.expected("the end of the value"),
    }
}

impl Parser<'_> {
    fn tok(&self) -> &Tok {
        &self.t[self.i.min(self.t.len() - 1)].tok
    }

    fn peek(&self, n: usize) -> &Tok {
        &self.t[(self.i + n).min(self.t.len() - 1)].tok
    }

    fn span(&self) -> Span {
        self.t[self.i.min(self.t.len() - 1)].span
    }

    fn prev_span(&self) -> Span {
        self.t[self.i.saturating_sub(1).min(self.t.len() - 1)].span
    }

    fn at_end(&self) -> bool {
        *self.tok() == Tok::Eof
    }

    fn is(&self, p: &str) -> bool {
        self.is_at(0, p)
    }

    fn is_at(&self, n: usize, p: &str) -> bool {
        match self.peek(n) {
            Tok::Punct(q) => *q == p,
            Tok::Ident(q) => q == p,
            _ => false,
        }
    }

    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        self.i += usize::from(yes);
        yes
    }

    fn touches(&self, n: usize) -> bool {
        self.t.get(self.i + n).is_some_and(|t| t.touches)
    }

    fn found(&self) -> String {
        match self.tok() {
            Tok::Eof => "the end of the file".into(),
            Tok::Ident(s) => format!("`{s}`"),
            Tok::Int(..) => "a number".into(),
            Tok::Str(_) => "a string".into(),
            Tok::Punct(p) => format!("`{p}`"),
            Tok::Bad(s) => s.clone(),
        }
    }

    fn fail<T>(&mut self, span: Span, message: impl Into<String>, help: Option<&str>) -> Res<T> {
        if self.quiet == 0 {
            match help {
                Some(h) => self.diags.error_help(span, message, h),
                None => self.diags.error(span, message),
            };
        }
        Err(Reported)
    }

    fn expected<T>(&mut self, what: &str) -> Res<T> {
        let (span, found) = (self.span(), self.found());
        self.fail(span, format!("expected {what}, found {found}"), None)
    }

    fn expect(&mut self, p: &str) -> Res<()> {
        if self.eat(p) {
            return Ok(());
        }
        if p == ";" && self.i > 0 {
            // Point behind what should have ended there, not at the next line's first word.
            let mut span = self.prev_span();
            span.col += span.len;
            span.len = 1;
            let found = self.found();
            return self.fail(span, format!("expected `;`, found {found}"), Some("end the statement with `;`"));
        }
        self.expected(&format!("`{p}`"))
    }

    /// Skips to where the next top-level declaration may start.
    fn recover(&mut self, from: usize) {
        (self.depth, self.blocks) = (0, 0);
        self.i = self.i.max(from + 1);
        let mut depth = 0i32;
        for t in &self.t[from..self.i.min(self.t.len())] {
            match t.tok {
                Tok::Punct("{") => depth += 1,
                Tok::Punct("}") => depth -= 1,
                _ => {}
            }
        }
        while !self.at_end() {
            let t = self.tok().clone();
            self.i += 1;
            match t {
                Tok::Punct("{") => depth += 1,
                Tok::Punct("}") => {
                    depth -= 1;
                    if depth <= 0 {
                        return;
                    }
                }
                Tok::Punct(";") if depth <= 0 => return,
                _ => {}
            }
        }
    }

    fn deeper(&mut self) -> Res<()> {
        self.shallow(self.depth + 1)?;
        self.depth += 1;
        Ok(())
    }

    fn shallow(&mut self, depth: u32) -> Res<()> {
        if depth > MAX_DEPTH {
            let span = self.span();
            return self.fail(span, format!("nested more than {MAX_DEPTH} deep"), Some("split it into parts"));
        }
        Ok(())
    }

    /// An expression of parts that were read: long chains (`a + b + c`, `a.b.c`) nest too, to the left.
    fn node(&mut self, kind: ExprKind, span: Span) -> Res<Expr> {
        let e = Expr::new(kind, span);
        self.shallow(e.depth)?;
        Ok(e)
    }

    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Option<T> {
        // Attempts inside attempts double the work each time.
        if self.quiet >= MAX_ATTEMPTS {
            let span = self.span();
            self.diags.error_help(span, "types and expressions are nested too deep", "name the inner ones");
            self.i = self.t.len() - 1;
            return None;
        }
        let (at, depth, blocks) = (self.i, self.depth, self.blocks);
        self.quiet += 1;
        let r = f(self);
        self.quiet -= 1;
        if r.is_err() {
            self.i = at;
            (self.depth, self.blocks) = (depth, blocks);
        }
        r.ok()
    }

    fn name(&mut self) -> Res<Name> {
        let span = self.span();
        match self.tok().clone() {
            Tok::Ident(s) if RESERVED.contains(&s.as_str()) => {
                self.fail(span, format!("`{s}` is a reserved word and cannot be a name"), Some("choose another name"))
            }
            Tok::Ident(text) => {
                self.i += 1;
                Ok(Name { text, span })
            }
            _ => self.expected("a name"),
        }
    }

    /// A name where reserved words do no harm: members and annotations.
    fn any_name(&mut self) -> Res<Name> {
        let span = self.span();
        match self.tok().clone() {
            Tok::Ident(text) => {
                self.i += 1;
                Ok(Name { text, span })
            }
            _ => self.expected("a name"),
        }
    }

    fn annotations(&mut self) -> Res<Vec<Annotation>> {
        let mut out = Vec::new();
        while self.is("@") {
            self.i += 1;
            let name = self.any_name()?;
            let mut body = Vec::new();
            let close = match self.tok() {
                Tok::Punct("(") => ")",
                Tok::Punct("[") => "]",
                _ => "",
            };
            if !close.is_empty() {
                let open_span = self.span();
                self.i += 1;
                let mut depth = 0;
                loop {
                    if self.at_end() {
                        return self.fail(open_span, format!("annotation is not closed with `{close}`"), None);
                    }
                    if depth == 0 && self.is(close) {
                        self.i += 1;
                        break;
                    }
                    match self.tok() {
                        Tok::Punct("(" | "[" | "{") => depth += 1,
                        Tok::Punct(")" | "]" | "}") => depth -= 1,
                        _ => {}
                    }
                    body.push(self.t[self.i].clone());
                    self.i += 1;
                }
            }
            out.push(Annotation { name, body, structured: close == "]" });
        }
        Ok(out)
    }

    fn type_params(&mut self) -> Res<Vec<Name>> {
        let mut out = Vec::new();
        if self.eat("<") {
            loop {
                out.push(self.name()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(">")?;
        }
        Ok(out)
    }

    fn top_decl(&mut self) -> Res<Option<Decl>> {
        let annos = self.annotations()?;
        let Tok::Ident(word) = self.tok().clone() else {
            return self.expected("a declaration");
        };
        if word == "extern" {
            return self.extern_decl(annos).map(Some);
        }
        if let Some(d) = self.type_decl(&annos)? {
            return Ok(Some(d));
        }
        match word.as_str() {
            "const" => self.const_decl(annos).map(Some),
            "action" => self.action(annos).map(Some),
            "error" if self.is_at(1, "{") => {
                self.i += 1;
                let names = self.name_list()?;
                let name = Name { text: "error".into(), span: self.prev_span() };
                Ok(Some(Decl { name, annos, kind: DeclKind::Errors(names) }))
            }
            "match_kind" => {
                self.i += 1;
                let names = self.name_list()?;
                let name = Name { text: "match_kind".into(), span: self.prev_span() };
                Ok(Some(Decl { name, annos, kind: DeclKind::MatchKinds(names) }))
            }
            "table" | "state" | "if" | "switch" | "for" | "transition" | "apply" => {
                let span = self.span();
                self.fail(span, format!("`{word}` cannot stand at the top level"), Some("is a `}` too many above?"))
            }
            _ => {
                let ty = self.ty()?;
                if self.is("(") {
                    return self.instance(annos, ty).map(Some);
                }
                let name = self.name()?;
                if !self.is("(") && !self.is("<") {
                    let help = "variables live in parsers, controls, actions and functions; a constant needs `const`";
                    return self.fail(name.span, "a variable cannot be declared at the top level", Some(help));
                }
                let f = self.func_rest(ty, name.clone(), true)?;
                Ok(Some(Decl { name, annos, kind: DeclKind::Function(Rc::new(f)) }))
            }
        }
    }

    fn name_list(&mut self) -> Res<Vec<Name>> {
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.is("}") {
            self.annotations()?;
            out.push(self.any_name()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(out)
    }

    /// struct, header, header_union, enum, typedef, type, parser, control, package; `None` if it is none of them.
    fn type_decl(&mut self, annos: &[Annotation]) -> Res<Option<Decl>> {
        let Tok::Ident(word) = self.tok().clone() else {
            return Ok(None);
        };
        let annos = annos.to_vec();
        let d = match word.as_str() {
            "struct" | "header" | "header_union" => {
                self.i += 1;
                let kind = match word.as_str() {
                    "struct" => StructKind::Struct,
                    "header" => StructKind::Header,
                    _ => StructKind::Union,
                };
                let name = self.name()?;
                let tps = self.type_params()?;
                self.expect("{")?;
                let mut fields = Vec::new();
                while !self.eat("}") {
                    let annos = self.annotations()?;
                    let ty = self.ty()?;
                    let name = self.name()?;
                    self.expect(";")?;
                    fields.push(Field { name, ty, annos });
                }
                Decl { name, annos, kind: DeclKind::Struct(kind, tps, fields) }
            }
            "enum" => {
                self.i += 1;
                let under = if self.is("bit") || self.is("int") || matches!(self.peek(1), Tok::Ident(_)) {
                    Some(self.ty()?)
                } else {
                    None
                };
                let name = self.name()?;
                self.expect("{")?;
                let mut members = Vec::new();
                while !self.is("}") {
                    self.annotations()?;
                    let m = self.any_name()?;
                    let v = if self.eat("=") { Some(self.expr()?) } else { None };
                    members.push((m, v));
                    if !self.eat(",") {
                        break;
                    }
                }
                self.expect("}")?;
                Decl { name, annos, kind: DeclKind::Enum(under, members) }
            }
            "typedef" => {
                self.i += 1;
                let annos = [annos, self.annotations()?].concat();
                let ty = self.ty()?;
                let name = self.name()?;
                self.expect(";")?;
                Decl { name, annos, kind: DeclKind::Typedef(ty) }
            }
            "type" if matches!(self.peek(1), Tok::Ident(_)) => {
                self.i += 1;
                let ty = self.ty()?;
                let name = self.name()?;
                self.expect(";")?;
                Decl { name, annos, kind: DeclKind::NewType(ty) }
            }
            "package" => {
                self.i += 1;
                let name = self.name()?;
                let tps = self.type_params()?;
                let params = self.params()?;
                self.expect(";")?;
                Decl { name, annos, kind: DeclKind::Package(tps, params) }
            }
            "parser" | "control" => {
                self.i += 1;
                return self.block_decl(word == "parser", annos).map(Some);
            }
            _ => return Ok(None),
        };
        Ok(Some(d))
    }

    fn block_decl(&mut self, is_parser: bool, annos: Vec<Annotation>) -> Res<Decl> {
        let name = self.name()?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        let mut block = BlockDecl {
            name: name.clone(),
            is_parser,
            type_params,
            params,
            ctor_params: Vec::new(),
            locals: Vec::new(),
            states: Vec::new(),
            apply: None,
        };
        if self.eat(";") {
            return Ok(Decl { name, annos, kind: DeclKind::Block(Rc::new(block)) });
        }
        if self.is("(") {
            block.ctor_params = self.params()?;
        }
        self.expect("{")?;
        loop {
            let annos = self.annotations()?;
            if self.is("}") {
                break;
            }
            if self.is("state") && is_parser {
                block.states.push(self.state()?);
                continue;
            }
            if self.is("apply") && !is_parser {
                self.i += 1;
                block.apply = Some(self.block()?);
                break;
            }
            block.locals.push(self.local_decl(annos, is_parser)?);
        }
        if is_parser {
            block.apply = Some(Vec::new());
            if block.states.is_empty() {
                let help = "add `state start { transition accept; }`";
                return self.fail(name.span, format!("parser `{}` has no states", name.text), Some(help));
            }
        } else if block.apply.is_none() {
            let span = self.span();
            return self.fail(span, format!("control `{}` has no `apply` block", name.text), Some("add `apply { }`"));
        }
        self.expect("}")?;
        Ok(Decl { name, annos, kind: DeclKind::Block(Rc::new(block)) })
    }

    fn local_decl(&mut self, annos: Vec<Annotation>, in_parser: bool) -> Res<Decl> {
        let Tok::Ident(word) = self.tok().clone() else {
            return self.expected(if in_parser { "a declaration or `state`" } else { "a declaration or `apply`" });
        };
        match word.as_str() {
            "const" => self.const_decl(annos),
            "action" if !in_parser => self.action(annos),
            "table" if !in_parser => self.table(annos),
            "value_set" => {
                self.i += 1;
                self.expect("<")?;
                let ty = self.ty()?;
                self.expect(">")?;
                self.expect("(")?;
                let size = self.expr()?;
                self.expect(")")?;
                let name = self.name()?;
                self.expect(";")?;
                Ok(Decl { name, annos, kind: DeclKind::ValueSet(ty, size) })
            }
            "if" | "return" | "switch" | "exit" | "transition" => {
                let span = self.span();
                let place = if in_parser { "a `state`" } else { "the `apply` block or an action" };
                self.fail(span, format!("statement `{word}` must stand inside {place}"), None)
            }
            _ => self.var_or_instance(annos),
        }
    }

    fn var_or_instance(&mut self, annos: Vec<Annotation>) -> Res<Decl> {
        let ty = self.ty()?;
        if self.is("(") {
            return self.instance(annos, ty);
        }
        let name = self.name()?;
        let init = if self.eat("=") { Some(self.init_expr()?) } else { None };
        self.expect(";")?;
        Ok(Decl { name, annos, kind: DeclKind::Var(ty, init) })
    }

    fn instance(&mut self, annos: Vec<Annotation>, ty: Type) -> Res<Decl> {
        let args = self.args()?;
        let name = self.name()?;
        let mut with_body = false;
        if self.eat("=") {
            with_body = true;
            self.expect("{")?;
            while !self.eat("}") {
                let annos = self.annotations()?;
                if self.at_end() {
                    return self.expected("`}`");
                }
                if self.attempt(|p| p.var_or_instance(annos.clone())).is_none() {
                    let ty = self.ty()?;
                    let name = self.name()?;
                    self.func_rest(ty, name, true)?;
                }
            }
        }
        self.expect(";")?;
        Ok(Decl { name, annos, kind: DeclKind::Instance(ty, args, with_body) })
    }

    fn const_decl(&mut self, annos: Vec<Annotation>) -> Res<Decl> {
        self.expect("const")?;
        let ty = self.ty()?;
        let name = self.name()?;
        self.expect("=")?;
        let v = self.init_expr()?;
        self.expect(";")?;
        Ok(Decl { name, annos, kind: DeclKind::Const(ty, v) })
    }

    fn init_expr(&mut self) -> Res<Expr> {
        self.expr()
    }

    fn action(&mut self, annos: Vec<Annotation>) -> Res<Decl> {
        let span = self.span();
        self.expect("action")?;
        let name = self.name()?;
        let ret = Type { kind: TypeKind::Void, span };
        let params = self.params()?;
        let body = Some(self.block()?);
        let f = FuncDecl { name: name.clone(), type_params: Vec::new(), ret, params, body };
        Ok(Decl { name, annos, kind: DeclKind::Action(Rc::new(f)) })
    }

    fn func_rest(&mut self, ret: Type, name: Name, with_body: bool) -> Res<FuncDecl> {
        let type_params = self.type_params()?;
        let params = self.params()?;
        let body = if with_body {
            Some(self.block()?)
        } else {
            self.expect(";")?;
            None
        };
        Ok(FuncDecl { name, type_params, ret, params, body })
    }

    fn extern_decl(&mut self, annos: Vec<Annotation>) -> Res<Decl> {
        self.expect("extern")?;
        // An object has `{` or `;` after its name and type parameters, a function has a return type first.
        let object = self.attempt(|p| {
            let name = p.name()?;
            let tps = p.type_params()?;
            if p.is("{") || p.is(";") { Ok((name, tps)) } else { Err(Reported) }
        });
        let Some((name, tps)) = object else {
            let ret = self.ty()?;
            let name = self.name()?;
            let f = self.func_rest(ret, name.clone(), false)?;
            return Ok(Decl { name, annos, kind: DeclKind::Function(Rc::new(f)) });
        };
        let mut methods = Vec::new();
        if !self.eat(";") {
            self.expect("{")?;
            while !self.eat("}") {
                self.annotations()?;
                self.eat("abstract");
                let span = self.span();
                if self.is(&name.text) && self.is_at(1, "(") {
                    self.i += 1;
                    let ret = Type { kind: TypeKind::Void, span };
                    methods.push(self.func_rest(ret, name.clone(), false)?);
                } else {
                    let ret = self.ty()?;
                    let m = self.name()?;
                    methods.push(self.func_rest(ret, m, false)?);
                }
            }
        }
        Ok(Decl { name, annos, kind: DeclKind::Extern(tps, methods) })
    }

    fn params(&mut self) -> Res<Vec<Param>> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.is(")") {
            let annos = self.annotations()?;
            let dir = if self.eat("in") {
                Dir::In
            } else if self.eat("out") {
                Dir::Out
            } else if self.eat("inout") {
                Dir::InOut
            } else {
                Dir::None
            };
            let ty = self.ty()?;
            let name = self.name()?;
            let default = if self.eat("=") { Some(self.expr()?) } else { None };
            out.push(Param { name, dir, ty, default, annos });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(out)
    }

    fn ty(&mut self) -> Res<Type> {
        self.deeper()?;
        let r = self.ty_inner();
        self.depth -= 1;
        r
    }

    fn ty_inner(&mut self) -> Res<Type> {
        let span = self.span();
        let global = self.eat(".");
        let Tok::Ident(word) = self.tok().clone() else {
            return self.expected("a type");
        };
        self.i += 1;
        let kind = match word.as_str() {
            "bool" => TypeKind::Bool,
            "error" => TypeKind::Error,
            "match_kind" => TypeKind::MatchKind,
            "string" => TypeKind::Str,
            "void" => TypeKind::Void,
            "_" => TypeKind::DontCare,
            "bit" | "int" | "varbit" => {
                if self.is("<") {
                    self.i += 1;
                    let width = match self.tok().clone() {
                        Tok::Int(v, w) => {
                            let span = self.span();
                            self.i += 1;
                            Expr::new(ExprKind::Int(v, w), span)
                        }
                        Tok::Ident(n) if !self.is("(") => {
                            let span = self.span();
                            self.i += 1;
                            Expr::new(ExprKind::Name(n), span)
                        }
                        _ => {
                            self.expect("(")?;
                            let e = self.expr()?;
                            self.expect(")")?;
                            e
                        }
                    };
                    if !self.eat(">") {
                        return self.expected("`>` after the width; put an expression in parentheses");
                    }
                    match word.as_str() {
                        "bit" => TypeKind::Bit(Some(Box::new(width))),
                        "int" => TypeKind::Int(Box::new(width)),
                        _ => TypeKind::Varbit(Box::new(width)),
                    }
                } else {
                    match word.as_str() {
                        "bit" => TypeKind::Bit(None),
                        "int" => TypeKind::Integer,
                        _ => return self.expected("`<` and the largest width of `varbit`"),
                    }
                }
            }
            "tuple" | "list" if self.is("<") => {
                let mut args = self.type_args()?;
                match (word.as_str(), args.len()) {
                    ("tuple", _) => TypeKind::Tuple(args),
                    (_, 1) => TypeKind::List(Box::new(args.remove(0))),
                    _ => return self.fail(span, "`list` takes one type", None),
                }
            }
            w if RESERVED.contains(&w) => {
                self.i -= 1;
                return self.expected("a type");
            }
            _ => {
                let args = if self.is("<") { self.type_args()? } else { Vec::new() };
                TypeKind::Named(if global { format!(".{word}") } else { word }, args)
            }
        };
        let mut ty = Type { kind, span };
        while self.is("[") {
            self.i += 1;
            let n = self.expr()?;
            self.expect("]")?;
            ty = Type { kind: TypeKind::Stack(Box::new(ty), Box::new(n)), span };
            self.shallow(ty.depth())?;
        }
        Ok(ty)
    }

    fn type_args(&mut self) -> Res<Vec<Type>> {
        self.expect("<")?;
        let mut out = Vec::new();
        while !self.is(">") {
            self.annotations()?;
            out.push(self.ty()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(">")?;
        Ok(out)
    }

    fn state(&mut self) -> Res<State> {
        self.expect("state")?;
        let name = self.name()?;
        self.expect("{")?;
        let mut body = Vec::new();
        loop {
            if self.eat("}") {
                return Ok(State { name, body, transition: Transition::Implicit });
            }
            if self.is("transition") {
                self.i += 1;
                break;
            }
            body.push(self.stmt()?);
        }
        let transition = if self.is("select") {
            let span = self.span();
            self.i += 1;
            self.expect("(")?;
            let keys = self.expr_list(")")?;
            self.expect(")")?;
            self.expect("{")?;
            let mut cases = Vec::new();
            while !self.eat("}") {
                let span = self.span();
                let set = self.keyset()?;
                self.expect(":")?;
                let to = self.name()?;
                self.expect(";")?;
                cases.push((set, to, span));
            }
            Transition::Select(keys, cases, span)
        } else {
            let to = self.name()?;
            self.expect(";")?;
            Transition::To(to)
        };
        self.expect("}")?;
        Ok(State { name, body, transition })
    }

    fn expr_list(&mut self, close: &str) -> Res<Vec<Expr>> {
        let mut out = Vec::new();
        while !self.is(close) {
            out.push(self.expr()?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(out)
    }

    /// `(a, b &&& c, _)`, or one simple keyset without parentheses.
    fn keyset(&mut self) -> Res<Vec<Expr>> {
        if self.is("(") {
            let tuple = self.attempt(|p| {
                p.expect("(")?;
                let mut out = Vec::new();
                loop {
                    out.push(p.simple_keyset()?);
                    if !p.eat(",") || p.is(")") {
                        break;
                    }
                }
                p.expect(")")?;
                if p.is(":") { Ok(out) } else { Err(Reported) }
            });
            if let Some(t) = tuple {
                return Ok(t);
            }
        }
        Ok(vec![self.simple_keyset()?])
    }

    fn simple_keyset(&mut self) -> Res<Expr> {
        let span = self.span();
        if self.is("default") {
            self.i += 1;
            return Ok(Expr::new(ExprKind::DontCare, span));
        }
        self.expr()
    }

    fn table(&mut self, annos: Vec<Annotation>) -> Res<Decl> {
        self.expect("table")?;
        let name = self.name()?;
        self.expect("{")?;
        let mut t = TableDecl::default();
        while !self.eat("}") {
            let prop_annos = self.annotations()?;
            let is_const = self.eat("const");
            let prop = self.any_name()?;
            self.expect("=")?;
            match prop.text.as_str() {
                "key" => {
                    self.expect("{")?;
                    while !self.eat("}") {
                        let expr = self.expr()?;
                        self.expect(":")?;
                        let kind = self.name()?;
                        let annos = self.annotations()?;
                        self.expect(";")?;
                        t.keys.push(KeyField { expr, kind, annos });
                    }
                }
                "actions" => {
                    t.has_actions = true;
                    self.expect("{")?;
                    while !self.eat("}") {
                        let annos = self.annotations()?;
                        t.actions.push(self.action_ref(annos)?);
                        self.expect(";")?;
                    }
                }
                "entries" => {
                    if t.keys.is_empty() {
                        let help = "move `entries` behind `key`";
                        return self.fail(prop.span, "the table's key must stand before its entries", Some(help));
                    }
                    self.expect("{")?;
                    let mut entries = Vec::new();
                    while !self.eat("}") {
                        entries.push(self.entry()?);
                    }
                    t.entries = Some((is_const, entries));
                }
                "default_action" => {
                    let r = self.action_ref(prop_annos)?;
                    self.expect(";")?;
                    t.default = Some((is_const, r));
                    continue;
                }
                _ => {
                    let v = self.init_expr()?;
                    self.expect(";")?;
                    t.properties.push(Property { name: prop, value: v, annos: prop_annos });
                    continue;
                }
            }
            self.eat(";");
        }
        Ok(Decl { name, annos, kind: DeclKind::Table(Rc::new(t)) })
    }

    fn action_ref(&mut self, annos: Vec<Annotation>) -> Res<ActionRef> {
        let global = self.eat(".");
        let mut path = self.name()?;
        if global {
            path.text.insert(0, '.');
        }
        let args = if self.is("(") { self.args()? } else { Vec::new() };
        Ok(ActionRef { path, args, annos })
    }

    fn entry(&mut self) -> Res<Entry> {
        let span = self.span();
        let mut annos = self.annotations()?;
        let is_const = self.eat("const");
        let mut priority = None;
        if self.is("priority") && self.is_at(1, "=") {
            self.i += 2;
            priority = Some(if self.is("(") {
                self.i += 1;
                let e = self.expr()?;
                self.expect(")")?;
                e
            } else {
                self.primary()?
            });
            self.expect(":")?;
        }
        let keys = self.keyset()?;
        self.expect(":")?;
        let action = self.action_ref(Vec::new())?;
        annos.extend(self.annotations()?);
        self.expect(";")?;
        Ok(Entry { keys, action, is_const, priority, annos, span })
    }

    fn args(&mut self) -> Res<Vec<Arg>> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.is(")") {
            let span = self.span();
            let name = if matches!(self.tok(), Tok::Ident(_)) && self.is_at(1, "=") {
                let n = self.name()?;
                self.i += 1;
                Some(n)
            } else {
                None
            };
            let value = if self.is("_") && (self.is_at(1, ",") || self.is_at(1, ")")) {
                self.i += 1;
                None
            } else {
                Some(self.expr()?)
            };
            out.push(Arg { name, value, span });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(out)
    }

    fn block(&mut self) -> Res<Vec<Stmt>> {
        self.annotations()?;
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.eat("}") {
            out.push(self.stmt()?);
        }
        Ok(out)
    }

    fn stmt(&mut self) -> Res<Stmt> {
        if self.blocks >= MAX_BLOCKS {
            let span = self.span();
            let help = "move inner ones to an action or function, or use `switch`";
            return self.fail(span, format!("statements are nested more than {MAX_BLOCKS} deep"), Some(help));
        }
        self.blocks += 1;
        let r = self.stmt_inner();
        self.blocks -= 1;
        r
    }

    fn stmt_inner(&mut self) -> Res<Stmt> {
        let annos = self.annotations()?;
        let span = self.span();
        let done = |kind| Ok(Stmt { kind, span });
        if self.is("{") {
            return done(StmtKind::Block(self.block()?));
        }
        if self.eat(";") {
            return done(StmtKind::Empty);
        }
        if let Tok::Ident(word) = self.tok().clone() {
            match word.as_str() {
                "if" => {
                    self.i += 1;
                    self.expect("(")?;
                    let c = self.expr()?;
                    self.expect(")")?;
                    let yes = Box::new(self.stmt()?);
                    let no = if self.eat("else") { Some(Box::new(self.stmt()?)) } else { None };
                    return done(StmtKind::If(c, yes, no));
                }
                "return" => {
                    self.i += 1;
                    let v = if self.is(";") { None } else { Some(self.expr()?) };
                    self.expect(";")?;
                    return done(StmtKind::Return(v));
                }
                "exit" | "break" | "continue" if self.is_at(1, ";") => {
                    self.i += 2;
                    return done(match word.as_str() {
                        "exit" => StmtKind::Exit,
                        "break" => StmtKind::Break,
                        _ => StmtKind::Continue,
                    });
                }
                "switch" => {
                    self.i += 1;
                    return self.switch(span);
                }
                "for" if self.is_at(1, "(") => {
                    self.i += 1;
                    return self.for_loop(span);
                }
                "const" => {
                    let d = self.const_decl(annos)?;
                    return done(StmtKind::Decl(Box::new(d)));
                }
                "else" => return self.fail(span, "`else` without an `if` before it", None),
                "transition" => {
                    return self.fail(span, "`transition` must be the last statement of a parser state", None);
                }
                _ => {}
            }
        }
        if let Some(d) = self.attempt(|p| p.decl_start())
            && d
        {
            let decl = self.var_or_instance(annos)?;
            return done(StmtKind::Decl(Box::new(decl)));
        }
        let s = self.assign_or_call()?;
        self.expect(";")?;
        Ok(s)
    }

    /// Whether a declaration starts here: a type and then a name, or a type, arguments and then a name.
    fn decl_start(&mut self) -> Res<bool> {
        let at = self.i;
        let r = (|p: &mut Self| -> Res<bool> {
            p.ty()?;
            if p.is("(") {
                p.args()?;
            }
            Ok(matches!(p.tok(), Tok::Ident(s) if !RESERVED.contains(&s.as_str())))
        })(self);
        self.i = at;
        r
    }

    fn assign_or_call(&mut self) -> Res<Stmt> {
        let span = self.span();
        let left = self.postfix()?;
        let op = match self.tok() {
            Tok::Punct("=") => {
                self.i += 1;
                let right = self.init_expr()?;
                return Ok(Stmt { kind: StmtKind::Assign(left, right), span });
            }
            Tok::Punct(p) => match *p {
                "+=" => Some(BinOp::Add),
                "-=" => Some(BinOp::Sub),
                "*=" => Some(BinOp::Mul),
                "/=" => Some(BinOp::Div),
                "%=" => Some(BinOp::Mod),
                "&=" => Some(BinOp::And),
                "|=" => Some(BinOp::Or),
                "^=" => Some(BinOp::Xor),
                "<<=" => Some(BinOp::Shl),
                "|+|=" => Some(BinOp::AddSat),
                "|-|=" => Some(BinOp::SubSat),
                _ => None,
            },
            _ => None,
        };
        if let Some(op) = op {
            self.i += 1;
            let right = self.expr()?;
            return Ok(Stmt { kind: StmtKind::OpAssign(op, left, right), span });
        }
        if self.is(">") && self.is_at(1, ">") && self.is_at(2, "=") && self.touches(1) && self.touches(2) {
            self.i += 3;
            let right = self.expr()?;
            return Ok(Stmt { kind: StmtKind::OpAssign(BinOp::Shr, left, right), span });
        }
        if matches!(left.kind, ExprKind::Call(..)) {
            return Ok(Stmt { kind: StmtKind::Call(left), span });
        }
        self.expected("`=` or a call")
    }

    fn switch(&mut self, span: Span) -> Res<Stmt> {
        self.expect("(")?;
        let e = self.expr()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        let mut labels = Vec::new();
        while !self.eat("}") {
            let at = self.span();
            if self.eat("default") {
                labels.push(SwitchLabel::Default(at));
            } else {
                labels.push(SwitchLabel::Value(self.binary(1)?));
            }
            self.expect(":")?;
            if self.is("{") {
                let body = self.block()?;
                cases.push((std::mem::take(&mut labels), Some(body)));
            }
        }
        if !labels.is_empty() {
            cases.push((labels, None));
        }
        Ok(Stmt { kind: StmtKind::Switch(e, cases), span })
    }

    fn for_loop(&mut self, span: Span) -> Res<Stmt> {
        self.expect("(")?;
        if let (Tok::Ident(n), true) = (self.tok().clone(), self.is_at(1, "in")) {
            let help = format!("write the type, e.g. `for (bit<8> {n} in ...)`");
            return self.fail(self.span(), format!("the loop does not declare its variable `{n}`"), Some(&help));
        }
        let for_in = self.attempt(|p| {
            p.annotations()?;
            let ty = p.ty()?;
            let n = p.name()?;
            p.expect("in")?;
            Ok((ty, n))
        });
        if let Some((ty, var)) = for_in {
            let coll = self.expr()?;
            self.expect(")")?;
            let body = Box::new(self.stmt()?);
            return Ok(Stmt { kind: StmtKind::ForIn(ty, var, Box::new(coll), body), span });
        }
        let mut init = Vec::new();
        while !self.is(";") {
            let at = self.span();
            let annos = self.annotations()?;
            if let Some(true) = self.attempt(|p| p.decl_start()) {
                let ty = self.ty()?;
                let name = self.name()?;
                let v = if self.eat("=") { Some(self.init_expr()?) } else { None };
                let d = Decl { name, annos, kind: DeclKind::Var(ty, v) };
                init.push(Stmt { kind: StmtKind::Decl(Box::new(d)), span: at });
            } else {
                init.push(self.assign_or_call()?);
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";")?;
        let cond = if self.is(";") { None } else { Some(self.expr()?) };
        self.expect(";")?;
        let mut update = Vec::new();
        while !self.is(")") {
            update.push(self.assign_or_call()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        let body = Box::new(self.stmt()?);
        Ok(Stmt { kind: StmtKind::For(init, cond, update, body), span })
    }

    fn expr(&mut self) -> Res<Expr> {
        self.ternary()
    }

    /// p4c takes `a ? b : c ? d : e` from the left: `(a ? b : c) ? d : e`.
    fn ternary(&mut self) -> Res<Expr> {
        let mut c = self.binary(0)?;
        while self.eat("?") {
            let a = self.expr()?;
            self.expect(":")?;
            let b = self.binary(0)?;
            let span = c.span;
            c = self.node(ExprKind::Ternary(Box::new(c), Box::new(a), Box::new(b)), span)?;
        }
        Ok(c)
    }

    /// The operator at the cursor, its level and how many tokens it takes; a larger level binds tighter.
    fn operator(&self) -> Option<(&'static str, u8, usize)> {
        let Tok::Punct(p) = self.tok() else {
            return None;
        };
        let p = *p;
        if p == ">" && self.touches(1) {
            if self.is_at(1, ">") && !(self.is_at(2, "=") && self.touches(2)) {
                return Some((">>", 8, 2));
            }
            if self.is_at(1, "=") {
                return Some((">=", 4, 2));
            }
            if self.is_at(1, "==") {
                return None;
            }
        }
        let level = match p {
            "&&&" | ".." => 0,
            "||" => 1,
            "&&" => 2,
            "==" | "!=" => 3,
            "<" | "<=" | ">" => 4,
            "|" => 5,
            "^" => 6,
            "&" => 7,
            "<<" => 8,
            "+" | "-" | "++" | "|+|" | "|-|" => 9,
            "*" | "/" | "%" => 10,
            _ => return None,
        };
        Some((p, level, 1))
    }

    /// Precedence as in C, except that `&`, `^` and `|` bind tighter than comparisons (P4_16 8); level 0 is keysets.
    fn binary(&mut self, min: u8) -> Res<Expr> {
        let mut left = self.unary()?;
        while let Some((op, level, n)) = self.operator() {
            if level < min {
                break;
            }
            self.i += n;
            let right = Box::new(self.binary(level + 1)?);
            let span = left.span;
            let l = Box::new(left);
            let kind = match op {
                "&&&" => ExprKind::Mask(l, right),
                ".." => ExprKind::Range(l, right),
                _ => {
                    let op = match op {
                        "||" => BinOp::LOr,
                        "&&" => BinOp::LAnd,
                        "|" => BinOp::Or,
                        "^" => BinOp::Xor,
                        "&" => BinOp::And,
                        "==" => BinOp::Eq,
                        "!=" => BinOp::Ne,
                        "<" => BinOp::Lt,
                        "<=" => BinOp::Le,
                        ">" => BinOp::Gt,
                        ">=" => BinOp::Ge,
                        "<<" => BinOp::Shl,
                        ">>" => BinOp::Shr,
                        "+" => BinOp::Add,
                        "-" => BinOp::Sub,
                        "++" => BinOp::Concat,
                        "|+|" => BinOp::AddSat,
                        "|-|" => BinOp::SubSat,
                        "*" => BinOp::Mul,
                        "/" => BinOp::Div,
                        _ => BinOp::Mod,
                    };
                    ExprKind::Binary(op, l, right)
                }
            };
            left = self.node(kind, span)?;
        }
        Ok(left)
    }

    /// Every way back into an expression leads through here, so the depth is counted here.
    fn unary(&mut self) -> Res<Expr> {
        self.deeper()?;
        let r = self.unary_inner();
        self.depth -= 1;
        r
    }

    fn unary_inner(&mut self) -> Res<Expr> {
        let span = self.span();
        let op = match self.tok() {
            Tok::Punct("!") => UnOp::Not,
            Tok::Punct("~") => UnOp::BitNot,
            Tok::Punct("-") => UnOp::Neg,
            Tok::Punct("+") => UnOp::Plus,
            Tok::Punct("(") => {
                if let Some(ty) = self.attempt(|p| p.cast_prefix()) {
                    let e = self.unary()?;
                    return self.node(ExprKind::Cast(ty, Box::new(e)), span);
                }
                return self.postfix();
            }
            _ => return self.postfix(),
        };
        self.i += 1;
        let e = self.unary()?;
        self.node(ExprKind::Unary(op, Box::new(e)), span)
    }

    /// `(type)` with an operand behind it. A plain name in parentheses counts only when no operator can follow it.
    fn cast_prefix(&mut self) -> Res<Type> {
        self.expect("(")?;
        let ty = self.ty()?;
        self.expect(")")?;
        let named = matches!(ty.kind, TypeKind::Named(..) | TypeKind::Stack(..));
        let ok = match self.tok() {
            Tok::Ident(s) => s != "in",
            Tok::Int(..) | Tok::Str(_) | Tok::Punct("(" | "{" | "~" | "!" | "...") => true,
            Tok::Punct("-" | "+" | ".") => !named,
            _ => false,
        };
        if ok { Ok(ty) } else { Err(Reported) }
    }

    fn postfix(&mut self) -> Res<Expr> {
        let mut e = self.primary()?;
        loop {
            let span = e.span;
            if self.eat(".") {
                let n = self.any_name()?;
                e = self.node(ExprKind::Member(Box::new(e), n), span)?;
            } else if self.eat("[") {
                let first = Box::new(self.expr()?);
                let kind = if self.eat(":") {
                    ExprKind::Slice(Box::new(e), first, Box::new(self.expr()?))
                } else if self.eat("+:") {
                    ExprKind::PlusSlice(Box::new(e), first, Box::new(self.expr()?))
                } else {
                    ExprKind::Index(Box::new(e), first)
                };
                self.expect("]")?;
                e = self.node(kind, span)?;
            } else if self.is("(") {
                let args = self.args()?;
                e = self.node(ExprKind::Call(Box::new(e), Vec::new(), args), span)?;
            } else if self.is("<") && matches!(e.kind, ExprKind::Name(_) | ExprKind::Member(..) | ExprKind::Global(_)) {
                let targs = self.attempt(|p| {
                    let t = p.type_args()?;
                    if p.is("(") { Ok(t) } else { Err(Reported) }
                });
                let Some(targs) = targs else { return Ok(e) };
                let args = self.args()?;
                e = self.node(ExprKind::Call(Box::new(e), targs, args), span)?;
            } else {
                return Ok(e);
            }
        }
    }

    fn primary(&mut self) -> Res<Expr> {
        let span = self.span();
        let kind = match self.tok().clone() {
            Tok::Int(v, w) => {
                self.i += 1;
                ExprKind::Int(v, w)
            }
            Tok::Str(s) => {
                self.i += 1;
                ExprKind::Str(s)
            }
            Tok::Punct("(") => {
                self.i += 1;
                let e = self.expr()?;
                self.expect(")")?;
                return Ok(e);
            }
            Tok::Punct("...") => {
                self.i += 1;
                ExprKind::Default
            }
            Tok::Punct("{") => {
                self.i += 1;
                if self.is("#") && self.is_at(1, "}") {
                    self.i += 2;
                    return Ok(Expr::new(ExprKind::InvalidHeader, span));
                }
                let record = matches!(self.tok(), Tok::Ident(_)) && self.is_at(1, "=");
                let (mut list, mut fields, mut rest) = (Vec::new(), Vec::new(), false);
                while !self.is("}") {
                    if self.eat("...") {
                        rest = true;
                    } else if record {
                        let n = self.any_name()?;
                        self.expect("=")?;
                        fields.push((n, self.expr()?));
                    } else {
                        list.push(self.expr()?);
                    }
                    if !self.eat(",") {
                        break;
                    }
                }
                self.expect("}")?;
                if record { ExprKind::Record(fields, rest) } else { ExprKind::List(list, rest) }
            }
            Tok::Punct(".") => {
                self.i += 1;
                ExprKind::Global(self.name()?.text)
            }
            Tok::Ident(word) => match word.as_str() {
                "true" | "false" => {
                    self.i += 1;
                    ExprKind::Bool(word == "true")
                }
                "this" => {
                    self.i += 1;
                    ExprKind::This
                }
                "_" => {
                    self.i += 1;
                    ExprKind::DontCare
                }
                "error" | "bit" | "int" | "bool" | "varbit" | "tuple" | "match_kind" | "string" => {
                    ExprKind::Type(self.ty()?)
                }
                _ => {
                    // `Type<A>.member` and generic constructor calls are types; plain names are settled later.
                    ExprKind::Name(self.name()?.text)
                }
            },
            _ => return self.expected("an expression"),
        };
        self.node(kind, span)
    }
}
