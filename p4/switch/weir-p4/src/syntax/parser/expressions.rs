// SPDX-License-Identifier: Apache-2.0
//! Expressions, by precedence climbing.
use super::*;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.ternary()
    }

    /// p4c takes `a ? b : c ? d : e` from the left: `(a ? b : c) ? d : e`.
    fn ternary(&mut self) -> Parsed<Expr> {
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
        let TokenKind::Punct(p) = self.tok() else {
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
    pub(super) fn binary(&mut self, min: u8) -> Parsed<Expr> {
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
                        "||" => BinaryOperator::LOr,
                        "&&" => BinaryOperator::LAnd,
                        "|" => BinaryOperator::Or,
                        "^" => BinaryOperator::Xor,
                        "&" => BinaryOperator::And,
                        "==" => BinaryOperator::Eq,
                        "!=" => BinaryOperator::Ne,
                        "<" => BinaryOperator::Lt,
                        "<=" => BinaryOperator::Le,
                        ">" => BinaryOperator::Gt,
                        ">=" => BinaryOperator::Ge,
                        "<<" => BinaryOperator::Shl,
                        ">>" => BinaryOperator::Shr,
                        "+" => BinaryOperator::Add,
                        "-" => BinaryOperator::Sub,
                        "++" => BinaryOperator::Concat,
                        "|+|" => BinaryOperator::AddSat,
                        "|-|" => BinaryOperator::SubSat,
                        "*" => BinaryOperator::Mul,
                        "/" => BinaryOperator::Div,
                        _ => BinaryOperator::Mod,
                    };
                    ExprKind::Binary(op, l, right)
                }
            };
            left = self.node(kind, span)?;
        }
        Ok(left)
    }

    /// Every way back into an expression leads through here, so the depth is counted here.
    fn unary(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let r = self.unary_inner();
        self.depth -= 1;
        r
    }

    fn unary_inner(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let op = match self.tok() {
            TokenKind::Punct("!") => UnaryOperator::Not,
            TokenKind::Punct("~") => UnaryOperator::BitNot,
            TokenKind::Punct("-") => UnaryOperator::Neg,
            TokenKind::Punct("+") => UnaryOperator::Plus,
            TokenKind::Punct("(") => {
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
    fn cast_prefix(&mut self) -> Parsed<Type> {
        self.expect("(")?;
        let ty = self.ty()?;
        self.expect(")")?;
        let named = matches!(ty.kind, TypeKind::Named(..) | TypeKind::Stack(..));
        let ok = match self.tok() {
            TokenKind::Ident(s) => s != "in",
            TokenKind::Int(..) | TokenKind::Str(_) | TokenKind::Punct("(" | "{" | "~" | "!" | "...") => true,
            TokenKind::Punct("-" | "+" | ".") => !named,
            _ => false,
        };
        if ok { Ok(ty) } else { Err(Reported) }
    }

    pub(super) fn postfix(&mut self) -> Parsed<Expr> {
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

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let kind = match self.tok().clone() {
            TokenKind::Int(v, w) => {
                self.i += 1;
                ExprKind::Int(v, w)
            }
            TokenKind::Str(s) => {
                self.i += 1;
                ExprKind::Str(s)
            }
            TokenKind::Punct("(") => {
                self.i += 1;
                let e = self.expr()?;
                self.expect(")")?;
                return Ok(e);
            }
            TokenKind::Punct("...") => {
                self.i += 1;
                ExprKind::Default
            }
            TokenKind::Punct("{") => {
                self.i += 1;
                if self.is("#") && self.is_at(1, "}") {
                    self.i += 2;
                    return Ok(Expr::new(ExprKind::InvalidHeader, span));
                }
                let record = matches!(self.tok(), TokenKind::Ident(_)) && self.is_at(1, "=");
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
            TokenKind::Punct(".") => {
                self.i += 1;
                ExprKind::Global(self.name()?.text)
            }
            TokenKind::Ident(word) => match word.as_str() {
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
