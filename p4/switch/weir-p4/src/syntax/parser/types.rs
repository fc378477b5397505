// SPDX-License-Identifier: Apache-2.0
//! Types and type arguments.
use super::*;

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        self.deeper()?;
        let r = self.ty_inner();
        self.depth -= 1;
        r
    }

    fn ty_inner(&mut self) -> Parsed<Type> {
        let span = self.span();
        let global = self.eat(".");
        let TokenKind::Ident(word) = self.tok().clone() else {
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
                        TokenKind::Int(v, w) => {
                            let span = self.span();
                            self.i += 1;
                            Expr::new(ExprKind::Int(v, w), span)
                        }
                        TokenKind::Ident(n) if !self.is("(") => {
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

    /// A type with the sizes that stand behind the name that it is the type of (`h_t h[2]`), as in C.
    pub(super) fn sized_type(&mut self, mut ty: Type) -> Parsed<Type> {
        let mut sizes = Vec::new();
        while self.eat("[") {
            sizes.push(self.expr()?);
            self.expect("]")?;
        }
        for n in sizes.into_iter().rev() {
            let span = ty.span;
            ty = Type { kind: TypeKind::Stack(Box::new(ty), Box::new(n)), span };
            self.shallow(ty.depth())?;
        }
        Ok(ty)
    }

    pub(super) fn type_args(&mut self) -> Parsed<Vec<Type>> {
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
}
