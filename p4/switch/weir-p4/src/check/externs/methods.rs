// SPDX-License-Identifier: Apache-2.0
//! Methods of extern objects: `packet.extract`, `register.read` and so on.
use super::*;

impl Context<'_> {
    pub fn extern_method(
        &mut self,
        obj: TypedValue,
        name: &Name,
        targs: &[Type],
        args: &[Arg],
        want: Option<&Ty>,
        span: Span,
    ) -> Checked<TypedValue> {
        let (Ty::Extern(e, bound), ValueKind::Extern(kind)) = (&obj.ty, &obj.kind) else {
            return self.err(span, "this is no extern object");
        };
        let (e, bound, kind) = (e.clone(), bound.clone(), kind.clone());
        let list: Vec<Rc<FuncDecl>> =
            e.methods.iter().filter(|m| m.name.text == name.text && m.name.text != e.name).cloned().collect();
        if list.is_empty() {
            let close = Self::similar(&name.text, e.methods.iter().map(|m| m.name.text.as_str()));
            let help = close.map(|c| format!("did you mean `{c}`?")).unwrap_or_else(|| "see its declaration".into());
            return self.err_help(name.span, format!("extern {} has no method `{}`", e.name, name.text), help);
        }
        let f = self.overload(&list, args, span)?;
        let types = targs.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
        let known: Vec<(String, Ty)> =
            e.type_params.iter().zip(bound.iter()).map(|(p, t)| (p.text.clone(), t.clone())).collect();
        // extract(_) has no argument to take the type from: it is given, and the header thrown away.
        let (params, ret, _) = self.open_signature(&f, &known, types, span)?;
        if let (ExternObject::PacketOut, [Arg { value: Some(x), .. }]) = (&kind, args) {
            let v = self.expr(x, None)?;
            return self.emit_value(&v, x.span).map(|()| NOTHING);
        }
        let a = self.arguments(&params, &name.text, args, span)?;
        match (kind, name.text.as_str()) {
            (ExternObject::PacketIn, "extract") => self.extract(&params, &a, span),
            (ExternObject::PacketIn, "lookahead") => self.lookahead(&ret, want, span),
            (ExternObject::PacketIn, "advance") => {
                let n = self.scalar_arg(&a[0], span)?;
                self.emit(Statement::Advance(n));
                Ok(NOTHING)
            }
            (ExternObject::PacketIn, "length") => {
                let t = self.alloc(1);
                self.emit(Statement::PacketLength(t));
                Ok(TypedValue { ty: Ty::Bit(32), kind: ValueKind::Leaves(vec![Expression::Load(t)]) })
            }
            (ExternObject::Register(r), "read") => {
                let i = self.number_arg(&a[1], span)?;
                let ty = self.subst(&params[0].ty);
                self.out_arg(&a[0], &ty, |context, addr| {
                    context.emit(Statement::RegisterRead(r, addr, i));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (ExternObject::Register(r), "write") => {
                let (i, v) = (self.number_arg(&a[0], span)?, self.scalar_arg(&a[1], span)?);
                self.emit(Statement::RegisterWrite(r, i, v));
                Ok(NOTHING)
            }
            (ExternObject::Counter(c), "count") => {
                let i = self.number_arg(&a[0], span)?;
                self.emit(Statement::Count(c, i));
                Ok(NOTHING)
            }
            // Counted by the table's application itself.
            (ExternObject::DirectCounter(_), "count") => Ok(NOTHING),
            (ExternObject::Meter(m), "execute_meter") => {
                let i = self.number_arg(&a[0], span)?;
                let ty = self.subst(&params[1].ty);
                self.bits(&ty, span)?;
                self.out_arg(&a[1], &ty, |context, addr| {
                    context.emit(Statement::Meter(m, i, addr));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (ExternObject::DirectMeter(m), "read") => {
                let ty = self.subst(&params[0].ty);
                self.out_arg(&a[0], &ty, |context, addr| {
                    context.emit(Statement::DirectMeter(m, addr));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (_, n) => self.unsupported(span, &format!("method `{n}` of extern {}", e.name)),
        }
    }

    /// `packet_out.emit`: headers in order, through structs, stacks and unions.
    fn emit_value(&mut self, v: &TypedValue, span: Span) -> Checked<()> {
        match &v.ty {
            Ty::Struct(s) if s.kind == StructKind::Header => {
                let place = match &v.kind {
                    ValueKind::Place(p) => p.clone(),
                    _ => {
                        let slot = self.alloc_ty(&v.ty.clone(), span)?;
                        let place = Place::at(slot);
                        self.store(&place, &v.ty, v.clone(), span)?;
                        place
                    }
                };
                match self.header_ref(&place, &v.ty) {
                    Some(r) => self.emit(Statement::Emit(r)),
                    None => return self.err(span, "`emit` needs a header"),
                }
                Ok(())
            }
            Ty::Struct(s) => {
                let s = s.clone();
                for f in &s.fields {
                    let member = self.member_of(v.clone(), &Name { text: f.name.clone(), span })?;
                    self.emit_value(&member, span)?;
                }
                Ok(())
            }
            Ty::Stack(t, n) => {
                let ValueKind::Place(p) = &v.kind else {
                    return self.err(span, "`emit` needs a stack that is a variable");
                };
                let (t, p, each) = ((**t).clone(), p.clone(), t.slots());
                for i in 0..*n as usize {
                    let item = TypedValue { ty: t.clone(), kind: ValueKind::Place(p.offset(1 + i * each)) };
                    self.emit_value(&item, span)?;
                }
                Ok(())
            }
            Ty::Tuple(_) => match &v.kind {
                ValueKind::Aggregate(items, _) => {
                    let items = items.clone();
                    items.iter().try_for_each(|(_, i)| self.emit_value(i, span))
                }
                _ => self.err(span, "`emit` needs headers"),
            },
            t => {
                let m = format!("`emit` needs a header, stack, union or struct of these, not {t}");
                self.err(span, m)
            }
        }
    }

    fn extract(&mut self, params: &[BoundParam], a: &[ArgumentValue], span: Span) -> Checked<TypedValue> {
        let ArgumentValue::Out(lv, s) = &a[0] else {
            let ty = self.subst(&params[0].ty);
            let n = match ty.fixed_layout() {
                Some(l) if ty.is_header() => l.iter().map(|(_, w)| *w as u128).sum(),
                _ => return self.err(span, "`extract(_)` needs a type: `extract<header_type>(_)`"),
            };
            self.emit(Statement::Advance(Expression::Const(Val::S(n))));
            return Ok(NOTHING);
        };
        let Some(r) = self.header_ref(&lv.place, &lv.ty) else {
            let m = format!("`extract` needs a header, not {}", lv.ty);
            return self.err(*s, m);
        };
        let size = match a.get(1) {
            Some(x) => Some(self.scalar_arg(x, span)?),
            None => None,
        };
        match (r.layout.varbit, &size) {
            (Some(_), None) => {
                let m = format!("{} has a varbit field, whose size must be given", lv.ty);
                return self.err_help(span, m, "write `extract(header, size_in_bits)`");
            }
            (None, Some(_)) => return self.err(span, format!("{} has no varbit field", lv.ty)),
            _ => {}
        }
        self.emit(Statement::Extract(r, size, lv.place.next_of.clone()));
        Ok(NOTHING)
    }

    fn lookahead(&mut self, ret: &Ty, want: Option<&Ty>, span: Span) -> Checked<TypedValue> {
        let mut ty = self.subst(ret);
        if Self::has_vars(&ty) {
            match want {
                Some(w) if !Self::has_vars(w) => ty = w.clone(),
                _ => {
                    return self.err_help(span, "the type of `lookahead` is not known", "write `lookahead<type>()`");
                }
            }
        }
        let Some(layout) = ty.fixed_layout() else {
            return self
                .err(span, format!("unsupported: `lookahead` of {ty}, which is not a plain sequence of fields"));
        };
        let bits = layout.iter().map(|(_, w)| *w as usize).sum();
        let base = self.alloc_ty(&ty, span)?;
        let mut valid = Vec::new();
        headers_in(&ty, base, &mut valid);
        self.emit(Statement::Lookahead(base, layout, bits, valid));
        let leaves = (base..base + ty.slots()).map(Expression::Load).collect();
        Ok(TypedValue { ty, kind: ValueKind::Leaves(leaves) })
    }
}

/// Validity slots of the headers in a value that starts at `at`.
fn headers_in(t: &Ty, at: usize, out: &mut Vec<usize>) {
    match t {
        Ty::Struct(s) => {
            if s.kind == StructKind::Header {
                out.push(at);
            }
            s.fields.iter().for_each(|f| headers_in(&f.ty, at + f.offset, out));
        }
        Ty::Tuple(ts) => {
            let mut at = at;
            for t in ts.iter() {
                headers_in(t, at, out);
                at += t.slots();
            }
        }
        _ => {}
    }
}
