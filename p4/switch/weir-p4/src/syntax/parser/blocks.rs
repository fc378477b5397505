// SPDX-License-Identifier: Apache-2.0
//! Contents of parsers and controls: states, tables, entries, sets of keys, arguments.
use super::*;

impl Parser<'_> {
    pub(super) fn state(&mut self) -> Parsed<State> {
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

    fn expr_list(&mut self, close: &str) -> Parsed<Vec<Expr>> {
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
    fn keyset(&mut self) -> Parsed<Vec<Expr>> {
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

    fn simple_keyset(&mut self) -> Parsed<Expr> {
        let span = self.span();
        if self.is("default") {
            self.i += 1;
            return Ok(Expr::new(ExprKind::DontCare, span));
        }
        self.expr()
    }

    pub(super) fn table(&mut self, annos: Vec<Annotation>) -> Parsed<Decl> {
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

    fn action_ref(&mut self, annos: Vec<Annotation>) -> Parsed<ActionRef> {
        let global = self.eat(".");
        let mut path = self.name()?;
        if global {
            path.text.insert(0, '.');
        }
        let args = if self.is("(") { self.args()? } else { Vec::new() };
        Ok(ActionRef { path, args, annos })
    }

    fn entry(&mut self) -> Parsed<Entry> {
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

    pub(super) fn args(&mut self) -> Parsed<Vec<Arg>> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.is(")") {
            let span = self.span();
            let name = if matches!(self.tok(), TokenKind::Ident(_)) && self.is_at(1, "=") {
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
}
