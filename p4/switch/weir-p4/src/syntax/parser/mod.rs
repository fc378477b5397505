// SPDX-License-Identifier: Apache-2.0
//! Recursive descent over P4_16's grammar. Where the grammar needs to know which names are types, the parser reads
//! on tentatively and goes back when it was not one.
use crate::syntax::ast::*;
use crate::syntax::diagnostics::{Diagnostics, Reported, Span};
use crate::syntax::lexer::{Token, TokenKind};
use std::rc::Rc;

mod blocks;
mod declarations;
mod expressions;
mod statements;
mod types;

type Parsed<T> = Result<T, Reported>;

struct Parser<'a> {
    t: Vec<Token>,
    i: usize,
    diags: &'a mut Diagnostics,
    depth: u32,
    blocks: u32,
    /// Reading tentatively: errors are not recorded.
    quiet: u32,
}

/// Deeper nesting is rejected, so that no input overflows the compiler's stack, which has room for several times as
/// much in every pass ([`crate::stack`]).
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

/// Parses one translation unit. Errors are recorded in `diags`; the readable part is returned.
pub fn parse(tokens: Vec<Token>, diags: &mut Diagnostics) -> Vec<Decl> {
    let mut p = Parser { t: tokens, i: 0, diags, depth: 0, blocks: 0, quiet: 0 };
    let mut decls = Vec::new();
    if let Some((message, help)) = p.other_language() {
        let span = p.span();
        p.diags.error_help(span, message, help);
        return decls;
    }
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
pub fn parse_expr(tokens: &[Token], span: Span, diags: &mut Diagnostics) -> Parsed<Expr> {
    let end = Token { tok: TokenKind::Eof, span, touches: false, starts_line: false };
    let tokens = tokens.iter().cloned().chain([end]).collect();
    let mut p = Parser { t: tokens, i: 0, diags, depth: 0, blocks: 0, quiet: 0 };
    let e = p.expr()?;
    match p.at_end() {
        true => Ok(e),
        false => p.expected("the end of the value"),
    }
}

impl Parser<'_> {
    /// An error and a remedy for texts that are no P4_16: P4_14's declarations, BMv2's JSON.
    fn other_language(&self) -> Option<(&'static str, &'static str)> {
        if self.is("{") {
            return Some(("this is no P4_16 program; it looks like BMv2's JSON", "give the program's P4_16 source"));
        }
        let declares = |word: &str, then: &[&str]| {
            self.t.windows(3).any(|t| {
                let is = |t: &Token, w: &str| matches!(&t.tok, TokenKind::Ident(i) if i == w);
                let named = matches!(&t[1].tok, TokenKind::Ident(_));
                let follows = then.iter().any(|w| is(&t[2], w) || matches!(t[2].tok, TokenKind::Punct(p) if p == *w));
                is(&t[0], word) && named && follows
            })
        };
        let p4_14 = declares("header_type", &["{"]) || declares("metadata", &[";"]) && declares("parser", &["{"]);
        p4_14.then_some((
            "this is a P4_14 program; the switch compiles P4_16",
            "translate it, e.g. with p4test --std p4-14 --pp",
        ))
    }

    fn tok(&self) -> &TokenKind {
        &self.t[self.i.min(self.t.len() - 1)].tok
    }

    fn peek(&self, n: usize) -> &TokenKind {
        &self.t[(self.i + n).min(self.t.len() - 1)].tok
    }

    fn span(&self) -> Span {
        self.t[self.i.min(self.t.len() - 1)].span
    }

    fn prev_span(&self) -> Span {
        self.t[self.i.saturating_sub(1).min(self.t.len() - 1)].span
    }

    fn at_end(&self) -> bool {
        *self.tok() == TokenKind::Eof
    }

    fn is(&self, p: &str) -> bool {
        self.is_at(0, p)
    }

    fn is_at(&self, n: usize, p: &str) -> bool {
        match self.peek(n) {
            TokenKind::Punct(q) => *q == p,
            TokenKind::Ident(q) => q == p,
            _ => false,
        }
    }

    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        self.i += usize::from(yes);
        yes
    }

    fn tok_starts_line(&self) -> bool {
        self.t.get(self.i).is_none_or(|t| t.starts_line)
    }

    fn touches(&self, n: usize) -> bool {
        self.t.get(self.i + n).is_some_and(|t| t.touches)
    }

    fn found(&self) -> String {
        match self.tok() {
            TokenKind::Eof => "the end of the file".into(),
            TokenKind::Ident(s) => format!("`{s}`"),
            TokenKind::Int(..) => "a number".into(),
            TokenKind::Str(_) => "a string".into(),
            TokenKind::Punct(p) => format!("`{p}`"),
            TokenKind::Bad(s) => s.clone(),
        }
    }

    fn fail<T>(&mut self, span: Span, message: impl Into<String>, help: Option<&str>) -> Parsed<T> {
        if self.quiet == 0 {
            match help {
                Some(h) => self.diags.error_help(span, message, h),
                None => self.diags.error(span, message),
            };
        }
        Err(Reported)
    }

    fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let (span, found) = (self.span(), self.found());
        self.fail(span, format!("expected {what}, found {found}"), None)
    }

    fn expect(&mut self, p: &str) -> Parsed<()> {
        if self.eat(p) {
            return Ok(());
        }
        if p == ";" && self.i > 0 {
            // Point behind the text that should have ended there, not at the next line's first word.
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
                TokenKind::Punct("{") => depth += 1,
                TokenKind::Punct("}") => depth -= 1,
                _ => {}
            }
        }
        while !self.at_end() {
            let t = self.tok().clone();
            self.i += 1;
            match t {
                TokenKind::Punct("{") => depth += 1,
                TokenKind::Punct("}") => {
                    depth -= 1;
                    if depth <= 0 {
                        return;
                    }
                }
                TokenKind::Punct(";") if depth <= 0 => return,
                _ => {}
            }
        }
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.shallow(self.depth + 1)?;
        self.depth += 1;
        Ok(())
    }

    fn shallow(&mut self, depth: u32) -> Parsed<()> {
        if depth > MAX_DEPTH {
            let span = self.span();
            return self.fail(span, format!("nested more than {MAX_DEPTH} deep"), Some("split it into parts"));
        }
        Ok(())
    }

    /// An expression of parts that were read: long chains (`a + b + c`, `a.b.c`) nest too, to the left.
    fn node(&mut self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        let e = Expr::new(kind, span);
        self.shallow(e.depth)?;
        Ok(e)
    }

    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
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

    fn name(&mut self) -> Parsed<Name> {
        let span = self.span();
        match self.tok().clone() {
            TokenKind::Ident(s) if RESERVED.contains(&s.as_str()) => {
                self.fail(span, format!("`{s}` is a reserved word and cannot be a name"), Some("choose another name"))
            }
            TokenKind::Ident(text) => {
                self.i += 1;
                Ok(Name { text, span })
            }
            _ => self.expected("a name"),
        }
    }

    /// A name where reserved words do no harm: members and annotations.
    fn any_name(&mut self) -> Parsed<Name> {
        let span = self.span();
        match self.tok().clone() {
            TokenKind::Ident(text) => {
                self.i += 1;
                Ok(Name { text, span })
            }
            _ => self.expected("a name"),
        }
    }

    fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut out = Vec::new();
        while self.is("@") {
            self.i += 1;
            let mut name = self.any_name()?;
            let mut body = Vec::new();
            if name.text == "pragma" && !self.tok_starts_line() && matches!(self.tok(), TokenKind::Ident(_)) {
                // `@pragma NAME words`: the line's end is the end of the annotation, as in p4c.
                name = self.any_name()?;
                while !self.tok_starts_line() {
                    body.push(self.t[self.i].clone());
                    self.i += 1;
                }
                out.push(Annotation { name, body, structured: false });
                continue;
            }
            let close = match self.tok() {
                TokenKind::Punct("(") => ")",
                TokenKind::Punct("[") => "]",
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
                        TokenKind::Punct("(" | "[" | "{") => depth += 1,
                        TokenKind::Punct(")" | "]" | "}") => depth -= 1,
                        _ => {}
                    }
                    body.push(self.t[self.i].clone());
                    self.i += 1;
                }
            }
            let structured = close == "]";
            let is_string = matches!(body[..], [Token { tok: TokenKind::Str(_), .. }]);
            if name.text == "name" && !structured && !is_string {
                return self.fail(name.span, "@name needs one string", Some("write `@name(\"NAME\")`"));
            }
            out.push(Annotation { name, body, structured });
        }
        Ok(out)
    }

    fn type_params(&mut self) -> Parsed<Vec<Name>> {
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
}
