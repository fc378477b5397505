// SPDX-License-Identifier: Apache-2.0
//! Extern functions: `mark_to_drop`, `hash`, `clone`, `digest` and so on.
use super::*;
use crate::bytecode::program::DigestDecl;

impl Context<'_> {
    pub fn extern_function(
        &mut self,
        f: &Rc<FuncDecl>,
        targs: &[Type],
        args: &[Arg],
        _want: Option<&Ty>,
        span: Span,
    ) -> Checked<TypedValue> {
        let types = targs.iter().map(|t| self.ty(t)).collect::<Checked<Vec<_>>>()?;
        let (params, _ret, _) = self.open_signature(f, &[], types, span)?;
        let name = f.name.text.as_str();
        let a = self.arguments(&params, name, args, span)?;
        if self.place == Where::Top && name != "static_assert" {
            return self.err(span, "an extern function cannot be called at the top level");
        }
        self.notes.calls_functions |= !matches!(self.place, Where::Parser | Where::Function | Where::Top);
        match name {
            "static_assert" => return self.static_assert(&a, span),
            "verify" => {
                if self.place != Where::Parser {
                    return self.err(span, "`verify` can only be called in a parser");
                }
                let (c, e) = (self.scalar_arg(&a[0], span)?, self.scalar_arg(&a[1], span)?);
                self.emit(Statement::Verify(c, e));
            }
            "mark_to_drop" => self.mark_to_drop(&a, span)?,
            "hash" => self.hash(&params, &a, span)?,
            "random" => {
                let (lo, hi) = (self.scalar_arg(&a[1], span)?, self.scalar_arg(&a[2], span)?);
                let ty = self.subst(&params[0].ty);
                let w = self.bits(&ty, span)?;
                self.out_arg(&a[0], &ty, |context, addr| {
                    context.emit(Statement::Random(addr, lo, hi, w));
                    Ok(())
                })?;
            }
            "verify_checksum" | "verify_checksum_with_payload" => self.verify_checksum(name, &a, span)?,
            "update_checksum" | "update_checksum_with_payload" => self.update_checksum(name, &params, &a, span)?,
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(name, &a, span)?,
            "resubmit" | "resubmit_preserving_field_list" | "recirculate" | "recirculate_preserving_field_list" => {
                self.another_round(name, &a, span)?;
            }
            "truncate" => {
                let n = self.scalar_arg(&a[0], span)?;
                self.emit(Statement::Truncate(n));
            }
            "digest" => self.digest(&a, span)?,
            "assert" | "assume" => {
                let c = self.scalar_arg(&a[0], span)?;
                let at = format!("{name} at {}:{}:{}", self.diagnostics.file_name(span.file), span.line, span.col);
                self.emit(Statement::Assert(c, at));
            }
            "log_msg" => self.log_message(&a, span)?,
            _ => {
                let help = "the embedded switch has the externs of core.p4 and v1model.p4";
                return self.err_help(span, format!("unsupported: extern function `{name}`"), help);
            }
        }
        Ok(NOTHING)
    }

    fn static_assert(&mut self, a: &[ArgumentValue], span: Span) -> Checked<TypedValue> {
        let (v, s) = self.value_arg(&a[0], span)?;
        let ValueKind::Bool(ok) = v.kind else {
            return self.err(s, "static_assert needs a constant condition");
        };
        if !ok {
            let text = match a.get(1).and_then(ArgumentValue::value) {
                Some((TypedValue { kind: ValueKind::Str(m), .. }, _)) => format!("static_assert failed: {m}"),
                _ => "static_assert failed".to_string(),
            };
            return self.err(span, text);
        }
        Ok(boolean(true))
    }

    fn mark_to_drop(&mut self, a: &[ArgumentValue], span: Span) -> Checked<()> {
        self.only_in(&[Phase::Ingress, Phase::Egress], "mark_to_drop", "ingress and egress", span)?;
        // The metadata given may be a control's own copy, which goes back when the control ends.
        if let Some(ArgumentValue::Out(LValue { place, ty: Ty::Struct(st), .. }, _)) = a.first() {
            let mut at = 0;
            for f in &st.fields {
                match f.name.as_str() {
                    "egress_spec" => self.emit(Statement::DropPort(place.offset(at).addr)),
                    "mcast_grp" => self.set(&place.offset(at).addr, Expression::Const(Val::S(0))),
                    _ => {}
                }
                at += f.ty.slots();
            }
        }
        Ok(())
    }

    fn hash(&mut self, params: &[BoundParam], a: &[ArgumentValue], span: Span) -> Checked<()> {
        let algo = self.algo(&a[1], span)?;
        let base = self.number_arg(&a[2], span)?;
        let data = self.fields_arg(&a[3], span)?;
        let max = self.number_arg(&a[4], span)?;
        let ty = self.subst(&params[0].ty);
        let w = self.bits(&ty, span)?;
        self.out_arg(&a[0], &ty, |context, addr| {
            context.emit(Statement::Hash(addr, w, algo, base, data, max));
            Ok(())
        })?;
        Ok(())
    }

    fn verify_checksum(&mut self, name: &str, a: &[ArgumentValue], span: Span) -> Checked<()> {
        self.only_in(&[Phase::Verify], name, "the VerifyChecksum control", span)?;
        let c = self.scalar_arg(&a[0], span)?;
        let data = self.fields_arg(&a[1], span)?;
        let (v, s) = self.value_arg(&a[2], span)?;
        let w = self.bits(&v.ty, s)?;
        let sum = self.scalar(&v, s)?;
        let algo = self.algo(&a[3], span)?;
        self.emit(Statement::VerifyChecksum(c, data, sum, w, algo, name.ends_with("payload")));
        Ok(())
    }

    fn update_checksum(&mut self, name: &str, params: &[BoundParam], a: &[ArgumentValue], span: Span) -> Checked<()> {
        self.only_in(&[Phase::Compute], name, "the ComputeChecksum control", span)?;
        let c = self.scalar_arg(&a[0], span)?;
        let data = self.fields_arg(&a[1], span)?;
        let ty = self.subst(&params[2].ty);
        let w = self.bits(&ty, span)?;
        let algo = self.algo(&a[3], span)?;
        self.out_arg(&a[2], &ty, |context, addr| {
            context.emit(Statement::UpdateChecksum(c, data, addr, w, algo, name.ends_with("payload")));
            Ok(())
        })?;
        Ok(())
    }

    fn clone_packet(&mut self, name: &str, a: &[ArgumentValue], span: Span) -> Checked<()> {
        self.only_in(&[Phase::Ingress, Phase::Egress], name, "ingress and egress", span)?;
        let (v, s) = self.value_arg(&a[0], span)?;
        let ValueKind::Int(kind) = v.kind else {
            return self.err(s, "the type of clone must be constant");
        };
        let egress = kind != zero_int();
        let wrong = match self.phase {
            Phase::Ingress => egress,
            Phase::Egress => !egress,
            _ => false,
        };
        if wrong {
            let right = if egress { "CloneType.I2E" } else { "CloneType.E2E" };
            return self.err_help(s, "this type of clone cannot be made here", format!("write {right}"));
        }
        if name == "clone3" {
            return self.err_help(span, "unsupported: clone3", "use clone_preserving_field_list");
        }
        let session = self.scalar_arg(&a[1], span)?;
        let list = match a.get(2) {
            Some(x) => Some(self.field_list(x, span)?),
            None => None,
        };
        self.emit(Statement::Clone(session, list));
        Ok(())
    }

    /// `resubmit` and `recirculate`, with and without a field list.
    fn another_round(&mut self, name: &str, a: &[ArgumentValue], span: Span) -> Checked<()> {
        let re = name.starts_with("resubmit");
        let (phase, place) = if re { (Phase::Ingress, "ingress") } else { (Phase::Egress, "egress") };
        self.only_in(&[phase], name, place, span)?;
        let list = if name.ends_with("list") {
            Some(self.field_list(&a[0], span)?)
        } else {
            let (v, s) = self.value_arg(&a[0], span)?;
            let empty = matches!(&v.kind, ValueKind::Aggregate(items, _) if items.is_empty());
            if !empty {
                let help = format!("use {name}_preserving_field_list");
                return self.err_help(s, format!("unsupported: {name} with data to keep"), help);
            }
            let m =
                format!("p4c for BMv2 refuses `{name}`; {name}_preserving_field_list with an unused index is the same");
            self.diagnostics.warn(span, m);
            None
        };
        self.emit(if re { Statement::Resubmit(list) } else { Statement::Recirculate(list) });
        Ok(())
    }

    fn digest(&mut self, a: &[ArgumentValue], span: Span) -> Checked<()> {
        self.only_in(&[Phase::Ingress], "digest", "ingress", span)?;
        let receiver = self.scalar_arg(&a[0], span)?;
        let (v, s) = self.value_arg(&a[1], span)?;
        let mut data = Vec::new();
        self.fields(&v, s, &mut data)?;
        let mut names = Vec::new();
        leaf_names(&v.ty, "", &mut names);
        let fields = match names.len() == data.len() {
            true => names.into_iter().zip(data.iter().map(|f| f.1)).collect(),
            false => data.iter().enumerate().map(|(i, f)| (format!("f{i}"), f.1)).collect(),
        };
        let name = match &v.ty {
            Ty::Struct(st) => st.name.clone(),
            _ => format!("digest_{}", self.program.digests.len()),
        };
        let decl = DigestDecl { name, fields };
        let same = |d: &DigestDecl| d.name == decl.name && d.fields == decl.fields;
        let id = self.program.digests.iter().position(same).unwrap_or_else(|| {
            self.notes.digests.push((v.ty.clone(), span));
            self.program.digests.push(decl.clone());
            self.program.digests.len() - 1
        });
        self.emit(Statement::Digest(id, receiver, data));
        Ok(())
    }

    fn log_message(&mut self, a: &[ArgumentValue], span: Span) -> Checked<()> {
        let (v, s) = self.value_arg(&a[0], span)?;
        let ValueKind::Str(text) = v.kind else {
            return self.err(s, "the message must be a string constant");
        };
        let mut data = Vec::new();
        if let Some(x) = a.get(1) {
            let (v, _) = self.value_arg(x, span)?;
            let items = match &v.kind {
                ValueKind::Aggregate(items, _) => items.clone(),
                _ => vec![(None, v.clone())],
            };
            for (_, item) in items {
                if item.ty.slots() > 1 {
                    let mut parts = Vec::new();
                    self.fields(&item, span, &mut parts)?;
                    data.extend(parts.into_iter().map(|(e, w, _)| (e, w, false)));
                    continue;
                }
                let signed = item.ty.is_signed();
                let e = match (&item.kind, &item.ty) {
                    (ValueKind::Int(i), Ty::Int) => Expression::Const(Val::from_int(i, 128)),
                    _ => self.scalar(&item, span)?,
                };
                data.push((e, item.ty.scalar_width().unwrap_or(128), signed));
            }
        }
        self.emit(Statement::Log(text, data));
        Ok(())
    }
}

/// Names of the fields in a value, `outer.inner` for those of structs in it.
fn leaf_names(t: &Ty, prefix: &str, out: &mut Vec<String>) {
    match t.base() {
        Ty::Struct(s) => {
            for f in &s.fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaf_names(&f.ty, &format!("{prefix}{dot}{}", f.name), out);
            }
        }
        Ty::Tuple(ts) => ts.iter().enumerate().for_each(|(i, t)| leaf_names(t, &format!("{prefix}f{i}"), out)),
        _ => out.push(prefix.to_string()),
    }
}
