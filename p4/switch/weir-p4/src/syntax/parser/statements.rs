// SPDX-License-Identifier: Apache-2.0
//! Statements.
use super::*;

impl Parser<'_> {
    pub(super) fn block(&mut self) -> Parsed<Vec<Stmt>> {
        self.annotations()?;
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.eat("}") {
            out.push(self.stmt()?);
        }
        Ok(out)
    }

    pub(super) fn stmt(&mut self) -> Parsed<Stmt> {
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

    fn stmt_inner(&mut self) -> Parsed<Stmt> {
        let annos = self.annotations()?;
        let span = self.span();
        let done = |kind| Ok(Stmt { kind, span });
        if self.is("{") {
            return done(StmtKind::Block(self.block()?));
        }
        if self.eat(";") {
            return done(StmtKind::Empty);
        }
        if let TokenKind::Ident(word) = self.tok().clone() {
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
                "while" if self.is_at(1, "(") => {
                    let help = "write a `for` loop: `for (; condition; ) { ... }`";
                    return self.fail(span, "P4_16 has no `while` statement", Some(help));
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
    fn decl_start(&mut self) -> Parsed<bool> {
        let at = self.i;
        let r = (|p: &mut Self| -> Parsed<bool> {
            p.ty()?;
            if p.is("(") {
                p.args()?;
            }
            Ok(matches!(p.tok(), TokenKind::Ident(s) if !RESERVED.contains(&s.as_str())))
        })(self);
        self.i = at;
        r
    }

    fn assign_or_call(&mut self) -> Parsed<Stmt> {
        let span = self.span();
        let left = self.postfix()?;
        let op = match self.tok() {
            TokenKind::Punct("=") => {
                self.i += 1;
                let right = self.init_expr()?;
                return Ok(Stmt { kind: StmtKind::Assign(left, right), span });
            }
            TokenKind::Punct(p) => match *p {
                "+=" => Some(BinaryOperator::Add),
                "-=" => Some(BinaryOperator::Sub),
                "*=" => Some(BinaryOperator::Mul),
                "/=" => Some(BinaryOperator::Div),
                "%=" => Some(BinaryOperator::Mod),
                "&=" => Some(BinaryOperator::And),
                "|=" => Some(BinaryOperator::Or),
                "^=" => Some(BinaryOperator::Xor),
                "<<=" => Some(BinaryOperator::Shl),
                "|+|=" => Some(BinaryOperator::AddSat),
                "|-|=" => Some(BinaryOperator::SubSat),
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
            return Ok(Stmt { kind: StmtKind::OpAssign(BinaryOperator::Shr, left, right), span });
        }
        if matches!(left.kind, ExprKind::Call(..)) {
            return Ok(Stmt { kind: StmtKind::Call(left), span });
        }
        self.expected("`=` or a call")
    }

    fn switch(&mut self, span: Span) -> Parsed<Stmt> {
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

    fn for_loop(&mut self, span: Span) -> Parsed<Stmt> {
        self.expect("(")?;
        if let (TokenKind::Ident(n), true) = (self.tok().clone(), self.is_at(1, "in")) {
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
}
