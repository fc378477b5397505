// SPDX-License-Identifier: Apache-2.0
//! Declarations: types, parsers, controls, externs, functions, actions, constants, instances.
use super::*;

impl Parser<'_> {
    pub(super) fn top_decl(&mut self) -> Parsed<Option<Decl>> {
        let annos = self.annotations()?;
        let TokenKind::Ident(word) = self.tok().clone() else {
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

    fn name_list(&mut self) -> Parsed<Vec<Name>> {
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
    fn type_decl(&mut self, annos: &[Annotation]) -> Parsed<Option<Decl>> {
        let TokenKind::Ident(word) = self.tok().clone() else {
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
                    let ty = self.sized_type(ty)?;
                    self.expect(";")?;
                    fields.push(Field { name, ty, annos });
                }
                Decl { name, annos, kind: DeclKind::Struct(kind, tps, fields) }
            }
            "enum" => {
                self.i += 1;
                let under = if self.is("bit") || self.is("int") || matches!(self.peek(1), TokenKind::Ident(_)) {
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
                let ty = self.sized_type(ty)?;
                self.expect(";")?;
                Decl { name, annos, kind: DeclKind::Typedef(ty) }
            }
            "type" if matches!(self.peek(1), TokenKind::Ident(_)) => {
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

    fn block_decl(&mut self, is_parser: bool, annos: Vec<Annotation>) -> Parsed<Decl> {
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

    fn local_decl(&mut self, annos: Vec<Annotation>, in_parser: bool) -> Parsed<Decl> {
        let TokenKind::Ident(word) = self.tok().clone() else {
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

    pub(super) fn var_or_instance(&mut self, annos: Vec<Annotation>) -> Parsed<Decl> {
        let ty = self.ty()?;
        if self.is("(") {
            return self.instance(annos, ty);
        }
        let name = self.name()?;
        let ty = self.sized_type(ty)?;
        let init = if self.eat("=") { Some(self.init_expr()?) } else { None };
        self.expect(";")?;
        Ok(Decl { name, annos, kind: DeclKind::Var(ty, init) })
    }

    fn instance(&mut self, annos: Vec<Annotation>, ty: Type) -> Parsed<Decl> {
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

    pub(super) fn const_decl(&mut self, annos: Vec<Annotation>) -> Parsed<Decl> {
        self.expect("const")?;
        let ty = self.ty()?;
        let name = self.name()?;
        self.expect("=")?;
        let v = self.init_expr()?;
        self.expect(";")?;
        Ok(Decl { name, annos, kind: DeclKind::Const(ty, v) })
    }

    pub(super) fn init_expr(&mut self) -> Parsed<Expr> {
        self.expr()
    }

    fn action(&mut self, annos: Vec<Annotation>) -> Parsed<Decl> {
        let span = self.span();
        self.expect("action")?;
        let name = self.name()?;
        let ret = Type { kind: TypeKind::Void, span };
        let params = self.params()?;
        let body = Some(self.block()?);
        let f = FuncDecl { name: name.clone(), type_params: Vec::new(), ret, params, body };
        Ok(Decl { name, annos, kind: DeclKind::Action(Rc::new(f)) })
    }

    fn func_rest(&mut self, ret: Type, name: Name, with_body: bool) -> Parsed<FuncDecl> {
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

    fn extern_decl(&mut self, annos: Vec<Annotation>) -> Parsed<Decl> {
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

    fn params(&mut self) -> Parsed<Vec<Param>> {
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
}
