// SPDX-License-Identifier: Apache-2.0
//! Calls of externs: the functions and objects of core.p4 and v1model.p4.
use super::call::ArgV;
use super::expr::Lv;
use super::*;
use crate::ir::{CountKind, CounterDecl, DigestDecl, Fields, HashAlgo, MeterDecl, ProfileDecl, RegisterDecl};

const NOTHING: Tv = Tv { ty: Ty::Void, k: K::Nothing };

impl Cx<'_> {
    pub fn value_arg(&mut self, a: &ArgV, span: Span) -> Res<(Tv, Span)> {
        match a {
            ArgV::In(v, s) => Ok((v.clone(), *s)),
            _ => self.err(span, "an argument is missing"),
        }
    }

    fn scalar_arg(&mut self, a: &ArgV, span: Span) -> Res<Ex> {
        let (v, s) = self.value_arg(a, span)?;
        self.scalar(&v, s)
    }

    /// A number whose width does not matter: constants of any size, or a scalar.
    fn number_arg(&mut self, a: &ArgV, span: Span) -> Res<Ex> {
        let (v, s) = self.value_arg(a, span)?;
        match &v.k {
            K::Int(i) if v.ty == Ty::Int => Ok(Ex::Const(Val::from_int(i, 128))),
            _ => self.scalar(&v, s),
        }
    }

    /// Runs `f` with an address to write to; a slice or `_` gets a temporary, copied out afterwards.
    fn out_arg(&mut self, a: &ArgV, ty: &Ty, f: impl FnOnce(&mut Self, Addr) -> Res<()>) -> Res<()> {
        match a {
            ArgV::Out(lv, _) if lv.slice.is_none() => f(self, lv.place.addr.clone()),
            ArgV::Out(lv, span) => {
                let t = self.alloc(1);
                let old = self.read_lv(lv);
                let old = self.scalar(&old, *span)?;
                self.emit(St::Set(t, old));
                f(self, Place::at(t).addr)?;
                self.assign(lv, Tv { ty: lv.ty.clone(), k: K::Leaves(vec![Ex::Load(t)]) }, *span)
            }
            _ => {
                let t = self.alloc(ty.slots().max(1));
                f(self, Place::at(t).addr)
            }
        }
    }

    fn algo(&mut self, a: &ArgV, span: Span) -> Res<HashAlgo> {
        let (v, s) = self.value_arg(a, span)?;
        let name = match (&v.ty, &v.k) {
            (Ty::Enum(e), K::Int(i)) => {
                i.to_usize().and_then(|i| e.members.get(i)).map(|(n, _)| n.clone()).unwrap_or_default()
            }
            _ => return self.err(s, "the algorithm must be a constant of enum HashAlgorithm"),
        };
        Ok(match name.as_str() {
            "crc32" => HashAlgo::Crc32,
            "crc16" => HashAlgo::Crc16,
            "random" => HashAlgo::Random,
            "identity" => HashAlgo::Identity,
            "csum16" => HashAlgo::Csum16,
            "xor16" => HashAlgo::Xor16,
            // Without a controller's call to set their parameters they are the plain ones, as in BMv2.
            "crc32_custom" => HashAlgo::Crc32,
            "crc16_custom" => HashAlgo::Crc16,
            n => return self.unsupported(s, &format!("hash algorithm `{n}`")),
        })
    }

    /// The bit fields of a list, struct or header, in order.
    fn fields(&mut self, v: &Tv, span: Span, out: &mut Fields) -> Res<()> {
        match &v.k {
            K::Agg(items, _) => {
                let items = items.clone();
                return items.iter().try_for_each(|(_, item)| self.fields(item, span, out));
            }
            K::Str(_) => return Ok(()),
            _ => {}
        }
        let ty = v.ty.clone();
        match ty.base() {
            Ty::Struct(s) => {
                let s = s.clone();
                for f in &s.fields {
                    let name = Name { text: f.name.clone(), span };
                    let member = self.member_of(v.clone(), &name)?;
                    self.fields(&member, span, out)?;
                }
                Ok(())
            }
            Ty::Tuple(ts) => {
                let leaves = self.leaves(v)?;
                let mut at = 0;
                for t in ts.iter() {
                    let item = Tv { ty: t.clone(), k: K::Leaves(leaves[at..at + t.slots()].to_vec()) };
                    at += t.slots();
                    self.fields(&item, span, out)?;
                }
                Ok(())
            }
            Ty::Varbit(w) => {
                let l = self.leaves(v)?;
                let length = match &v.k {
                    K::Place(Place { valid_of: Some(a), .. }) => if_valid(a, l[1].clone()),
                    _ => l[1].clone(),
                };
                out.push((l[0].clone(), *w, Some(length)));
                Ok(())
            }
            Ty::Stack(t, n) => {
                let leaves = self.leaves(v)?;
                let each = t.slots();
                for i in 0..*n as usize {
                    let k = K::Leaves(leaves[1 + i * each..1 + (i + 1) * each].to_vec());
                    self.fields(&Tv { ty: (**t).clone(), k }, span, out)?;
                }
                Ok(())
            }
            t => match t.scalar_width() {
                Some(w) => {
                    let e = self.scalar(v, span)?;
                    // BMv2 leaves fields of invalid headers out of hashes and checksums.
                    let length = match &v.k {
                        K::Place(Place { valid_of: Some(a), .. }) => Some(if_valid(a, Ex::Const(Val::S(w as u128)))),
                        _ => None,
                    };
                    out.push((e, w, length));
                    Ok(())
                }
                None => {
                    let what = describe(v);
                    let help = "give integers a width, e.g. `16w0`";
                    self.err_help(span, format!("{what} cannot be data for this call"), help)
                }
            },
        }
    }

    fn fields_arg(&mut self, a: &ArgV, span: Span) -> Res<Fields> {
        let (v, s) = self.value_arg(a, span)?;
        let mut out = Vec::new();
        self.fields(&v, s, &mut out)?;
        Ok(out)
    }

    fn only_in(&mut self, phases: &[Phase], name: &str, place: &str, span: Span) -> Res<()> {
        if self.phase == Phase::Unknown || phases.contains(&self.phase) {
            return Ok(());
        }
        self.err(span, format!("`{name}` can only be called in {place}"))
    }

    fn field_list(&mut self, a: &ArgV, span: Span) -> Res<Ex> {
        self.scalar_arg(a, span)
    }

    pub fn extern_function(
        &mut self,
        f: &Rc<FuncDecl>,
        targs: &[Type],
        args: &[Arg],
        _want: Option<&Ty>,
        span: Span,
    ) -> Res<Tv> {
        let types = targs.iter().map(|t| self.ty(t)).collect::<Res<Vec<_>>>()?;
        let (params, _ret, _) = self.open_signature(f, &[], types, span)?;
        let name = f.name.text.as_str();
        let a = self.arguments(&params, name, args, span)?;
        if self.place == Where::Top && name != "static_assert" {
            return self.err(span, "an extern function cannot be called at the top level");
        }
        match name {
            "static_assert" => {
                let (v, s) = self.value_arg(&a[0], span)?;
                let K::Bool(ok) = v.k else {
                    return self.err(s, "static_assert needs a constant condition");
                };
                if !ok {
                    let text = match a.get(1).and_then(ArgV::value) {
                        Some((Tv { k: K::Str(m), .. }, _)) => format!("static_assert failed: {m}"),
                        _ => "static_assert failed".to_string(),
                    };
                    return self.err(span, text);
                }
                return Ok(Tv { ty: Ty::Bool, k: K::Bool(true) });
            }
            "verify" => {
                if self.place != Where::Parser {
                    return self.err(span, "`verify` can only be called in a parser");
                }
                let (c, e) = (self.scalar_arg(&a[0], span)?, self.scalar_arg(&a[1], span)?);
                self.emit(St::Verify(c, e));
            }
            "mark_to_drop" => {
                self.only_in(&[Phase::Ingress, Phase::Egress], name, "ingress and egress", span)?;
                // The metadata given may be a control's own copy, which goes back when the control ends.
                if let Some(ArgV::Out(Lv { place, ty: Ty::Struct(st), .. }, _)) = a.first() {
                    let mut at = 0;
                    for f in &st.fields {
                        match f.name.as_str() {
                            "egress_spec" => self.emit(St::DropPort(place.offset(at).addr)),
                            "mcast_grp" => self.set(&place.offset(at).addr, Ex::Const(Val::S(0))),
                            _ => {}
                        }
                        at += f.ty.slots();
                    }
                }
            }
            "hash" => {
                let algo = self.algo(&a[1], span)?;
                let base = self.number_arg(&a[2], span)?;
                let data = self.fields_arg(&a[3], span)?;
                let max = self.number_arg(&a[4], span)?;
                let ty = self.subst(&params[0].ty);
                let w = self.bits(&ty, span)?;
                self.out_arg(&a[0], &ty, |cx, addr| {
                    cx.emit(St::Hash(addr, w, algo, base, data, max));
                    Ok(())
                })?;
            }
            "random" => {
                let (lo, hi) = (self.scalar_arg(&a[1], span)?, self.scalar_arg(&a[2], span)?);
                let ty = self.subst(&params[0].ty);
                let w = self.bits(&ty, span)?;
                self.out_arg(&a[0], &ty, |cx, addr| {
                    cx.emit(St::Random(addr, lo, hi, w));
                    Ok(())
                })?;
            }
            "verify_checksum" | "verify_checksum_with_payload" => {
                self.only_in(&[Phase::Verify], name, "the VerifyChecksum control", span)?;
                let c = self.scalar_arg(&a[0], span)?;
                let data = self.fields_arg(&a[1], span)?;
                let (v, s) = self.value_arg(&a[2], span)?;
                let w = self.bits(&v.ty, s)?;
                let sum = self.scalar(&v, s)?;
                let algo = self.algo(&a[3], span)?;
                self.emit(St::VerifyChecksum(c, data, sum, w, algo, name.ends_with("payload")));
            }
            "update_checksum" | "update_checksum_with_payload" => {
                self.only_in(&[Phase::Compute], name, "the ComputeChecksum control", span)?;
                let c = self.scalar_arg(&a[0], span)?;
                let data = self.fields_arg(&a[1], span)?;
                let ty = self.subst(&params[2].ty);
                let w = self.bits(&ty, span)?;
                let algo = self.algo(&a[3], span)?;
                self.out_arg(&a[2], &ty, |cx, addr| {
                    cx.emit(St::UpdateChecksum(c, data, addr, w, algo, name.ends_with("payload")));
                    Ok(())
                })?;
            }
            "clone" | "clone3" | "clone_preserving_field_list" => {
                self.only_in(&[Phase::Ingress, Phase::Egress], name, "ingress and egress", span)?;
                let (v, s) = self.value_arg(&a[0], span)?;
                let K::Int(kind) = v.k else {
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
                self.emit(St::Clone(egress, session, list));
            }
            "resubmit" | "resubmit_preserving_field_list" | "recirculate" | "recirculate_preserving_field_list" => {
                let re = name.starts_with("resubmit");
                let (phase, place) = if re { (Phase::Ingress, "ingress") } else { (Phase::Egress, "egress") };
                self.only_in(&[phase], name, place, span)?;
                let list = if name.ends_with("list") {
                    Some(self.field_list(&a[0], span)?)
                } else {
                    let (v, s) = self.value_arg(&a[0], span)?;
                    let empty = matches!(&v.k, K::Agg(items, _) if items.is_empty());
                    if !empty {
                        let help = format!("use {name}_preserving_field_list");
                        return self.err_help(s, format!("unsupported: {name} with data to keep"), help);
                    }
                    None
                };
                self.emit(if re { St::Resubmit(list) } else { St::Recirculate(list) });
            }
            "truncate" => {
                let n = self.scalar_arg(&a[0], span)?;
                self.emit(St::Truncate(n));
            }
            "digest" => {
                self.only_in(&[Phase::Ingress], name, "ingress", span)?;
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
                    _ => format!("digest_{}", self.p.digests.len()),
                };
                let decl = DigestDecl { name, fields };
                let same = |d: &DigestDecl| d.name == decl.name && d.fields == decl.fields;
                let id = self.p.digests.iter().position(same).unwrap_or_else(|| {
                    self.notes.digests.push((v.ty.clone(), span));
                    self.p.digests.push(decl.clone());
                    self.p.digests.len() - 1
                });
                self.emit(St::Digest(id, receiver, data));
            }
            "assert" | "assume" => {
                let c = self.scalar_arg(&a[0], span)?;
                let at = format!("{name} at {}:{}:{}", self.d.file_name(span.file), span.line, span.col);
                self.emit(St::Assert(c, at));
            }
            "log_msg" => {
                let (v, s) = self.value_arg(&a[0], span)?;
                let K::Str(text) = v.k else {
                    return self.err(s, "the message must be a string constant");
                };
                let mut data = Vec::new();
                if let Some(x) = a.get(1) {
                    let (v, _) = self.value_arg(x, span)?;
                    let items = match &v.k {
                        K::Agg(items, _) => items.clone(),
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
                        let e = match (&item.k, &item.ty) {
                            (K::Int(i), Ty::Int) => Ex::Const(Val::from_int(i, 128)),
                            _ => self.scalar(&item, span)?,
                        };
                        data.push((e, item.ty.scalar_width().unwrap_or(128), signed));
                    }
                }
                self.emit(St::Log(text, data));
            }
            _ => {
                let help = "the embedded switch has the externs of core.p4 and v1model.p4";
                return self.err_help(span, format!("unsupported: extern function `{name}`"), help);
            }
        }
        Ok(NOTHING)
    }

    fn bits(&mut self, ty: &Ty, span: Span) -> Res<u32> {
        match ty.scalar_width() {
            Some(w) => Ok(w),
            None => self.err_help(span, format!("a value of bit<W> is needed, not {ty}"), "give integers a width"),
        }
    }

    pub fn extern_method(
        &mut self,
        obj: Tv,
        name: &Name,
        targs: &[Type],
        args: &[Arg],
        want: Option<&Ty>,
        span: Span,
    ) -> Res<Tv> {
        let (Ty::Extern(e, bound), K::Ext(kind)) = (&obj.ty, &obj.k) else {
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
        let types = targs.iter().map(|t| self.ty(t)).collect::<Res<Vec<_>>>()?;
        let known: Vec<(String, Ty)> =
            e.type_params.iter().zip(bound.iter()).map(|(p, t)| (p.text.clone(), t.clone())).collect();
        // extract(_) has no argument to take the type from: it is given, and the header thrown away.
        let (params, ret, _) = self.open_signature(&f, &known, types, span)?;
        if let (ExtObj::PacketOut, [Arg { value: Some(x), .. }]) = (&kind, args) {
            let v = self.expr(x, None)?;
            return self.emit_value(&v, x.span).map(|()| NOTHING);
        }
        let a = self.arguments(&params, &name.text, args, span)?;
        match (kind, name.text.as_str()) {
            (ExtObj::PacketIn, "extract") => {
                let ArgV::Out(lv, s) = &a[0] else {
                    let ty = self.subst(&params[0].ty);
                    let n = match ty.fixed_layout() {
                        Some(l) if ty.is_header() => l.iter().map(|(_, w)| *w as u128).sum(),
                        _ => return self.err(span, "`extract(_)` needs a type: `extract<header_type>(_)`"),
                    };
                    self.emit(St::Advance(Ex::Const(Val::S(n))));
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
                self.emit(St::Extract(r, size, lv.place.next_of.clone()));
                Ok(NOTHING)
            }
            (ExtObj::PacketIn, "lookahead") => {
                let mut ty = self.subst(&ret);
                if Self::has_vars(&ty) {
                    match want {
                        Some(w) if !Self::has_vars(w) => ty = w.clone(),
                        _ => {
                            return self.err_help(
                                span,
                                "the type of `lookahead` is not known",
                                "write `lookahead<type>()`",
                            );
                        }
                    }
                }
                let Some(layout) = ty.fixed_layout() else {
                    return self.err(
                        span,
                        format!("unsupported: `lookahead` of {ty}, which is not a plain sequence of fields"),
                    );
                };
                let bits = layout.iter().map(|(_, w)| *w as usize).sum();
                let base = self.alloc_ty(&ty, span)?;
                let mut valid = Vec::new();
                headers_in(&ty, base, &mut valid);
                self.emit(St::Lookahead(base, layout, bits, valid));
                let leaves = (base..base + ty.slots()).map(Ex::Load).collect();
                Ok(Tv { ty, k: K::Leaves(leaves) })
            }
            (ExtObj::PacketIn, "advance") => {
                let n = self.scalar_arg(&a[0], span)?;
                self.emit(St::Advance(n));
                Ok(NOTHING)
            }
            (ExtObj::PacketIn, "length") => {
                let t = self.alloc(1);
                self.emit(St::PacketLength(t));
                Ok(Tv { ty: Ty::Bit(32), k: K::Leaves(vec![Ex::Load(t)]) })
            }
            (ExtObj::Register(r), "read") => {
                let i = self.number_arg(&a[1], span)?;
                let ty = self.subst(&params[0].ty);
                self.out_arg(&a[0], &ty, |cx, addr| {
                    cx.emit(St::RegisterRead(r, addr, i));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (ExtObj::Register(r), "write") => {
                let (i, v) = (self.number_arg(&a[0], span)?, self.scalar_arg(&a[1], span)?);
                self.emit(St::RegisterWrite(r, i, v));
                Ok(NOTHING)
            }
            (ExtObj::Counter(c), "count") => {
                let i = self.number_arg(&a[0], span)?;
                self.emit(St::Count(c, i));
                Ok(NOTHING)
            }
            // Counted by the table's application itself.
            (ExtObj::DirectCounter(_), "count") => Ok(NOTHING),
            (ExtObj::Meter(m), "execute_meter") => {
                let i = self.number_arg(&a[0], span)?;
                let ty = self.subst(&params[1].ty);
                self.bits(&ty, span)?;
                self.out_arg(&a[1], &ty, |cx, addr| {
                    cx.emit(St::Meter(m, i, addr));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (ExtObj::DirectMeter(m), "read") => {
                let ty = self.subst(&params[0].ty);
                self.out_arg(&a[0], &ty, |cx, addr| {
                    cx.emit(St::DirectMeter(m, addr));
                    Ok(())
                })?;
                Ok(NOTHING)
            }
            (_, n) => self.unsupported(span, &format!("method `{n}` of extern {}", e.name)),
        }
    }

    /// `packet_out.emit`: headers in order, through structs, stacks and unions.
    fn emit_value(&mut self, v: &Tv, span: Span) -> Res<()> {
        match &v.ty {
            Ty::Struct(s) if s.kind == StructKind::Header => {
                let place = match &v.k {
                    K::Place(p) => p.clone(),
                    _ => {
                        let slot = self.alloc_ty(&v.ty.clone(), span)?;
                        let place = Place::at(slot);
                        self.store(&place, &v.ty, v.clone(), span)?;
                        place
                    }
                };
                match self.header_ref(&place, &v.ty) {
                    Some(r) => self.emit(St::Emit(r)),
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
                let K::Place(p) = &v.k else {
                    return self.err(span, "`emit` needs a stack that is a variable");
                };
                let (t, p, each) = ((**t).clone(), p.clone(), t.slots());
                for i in 0..*n as usize {
                    let item = Tv { ty: t.clone(), k: K::Place(p.offset(1 + i * each)) };
                    self.emit_value(&item, span)?;
                }
                Ok(())
            }
            Ty::Tuple(_) => match &v.k {
                K::Agg(items, _) => {
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

    /// An instance of an extern type.
    pub fn extern_instance(
        &mut self,
        e: &Rc<ExternTy>,
        targs: Vec<Ty>,
        args: &[Arg],
        full: String,
        annos: &[Annotation],
        span: Span,
    ) -> Res<Tv> {
        let list: Vec<Rc<FuncDecl>> = e.methods.iter().filter(|m| m.name.text == e.name).cloned().collect();
        if list.is_empty() {
            return self.err(span, format!("extern {} has no constructor", e.name));
        }
        if targs.len() != e.type_params.len() {
            let m = format!("extern {} takes {} type arguments, not {}", e.name, e.type_params.len(), targs.len());
            return self.err(span, m);
        }
        let f = self.overload(&list, args, span)?;
        let bound: Vec<(String, Ty)> =
            e.type_params.iter().zip(&targs).map(|(p, t)| (p.text.clone(), t.clone())).collect();
        let (params, _, _) = self.open_signature(&f, &bound, Vec::new(), span)?;
        let a = self.arguments(&params, &e.name, args, span)?;
        let size = |cx: &mut Self, i: usize| -> Res<usize> {
            let (v, s) = cx.value_arg(&a[i], span)?;
            match &v.k {
                K::Int(n) => match n.to_usize().filter(|n| *n <= 1 << 24) {
                    Some(n) => Ok(n),
                    None => cx.err(s, format!("size {n} is more than this switch has (2^24)")),
                },
                _ => cx.err(s, "the size must be constant"),
            }
        };
        let kind = |cx: &mut Self, i: usize| -> Res<CountKind> {
            let (v, s) = cx.value_arg(&a[i], span)?;
            match v.k {
                K::Int(n) if n == zero_int() => Ok(CountKind::Packets),
                K::Int(n) if n == BigInt::from(1) => Ok(CountKind::Bytes),
                K::Int(_) => Ok(CountKind::Both),
                _ => cx.err(s, "the type must be constant"),
            }
        };
        let note = info::ExternNote {
            index: targs.last().cloned(),
            ..info::ExternNote::new(span, annos, targs.first().cloned())
        };
        let obj = match e.name.as_str() {
            "register" => {
                let size = size(self, 0)?;
                if args.len() > 1 {
                    return self.unsupported(span, "a register with an initial value");
                }
                let Some(width) = targs[0].scalar_width() else {
                    return self.unsupported(span, &format!("a register of {}", targs[0]));
                };
                self.notes.registers.push(note);
                self.p.registers.push(RegisterDecl { name: full, size, width });
                ExtObj::Register(self.p.registers.len() - 1)
            }
            "counter" => {
                let (size, kind) = (size(self, 0)?, kind(self, 1)?);
                self.notes.counters.push(note);
                self.p.counters.push(CounterDecl { name: full, kind, size: Some(size) });
                ExtObj::Counter(self.p.counters.len() - 1)
            }
            "direct_counter" => {
                let kind = kind(self, 0)?;
                self.notes.counters.push(note);
                self.p.counters.push(CounterDecl { name: full, kind, size: None });
                ExtObj::DirectCounter(self.p.counters.len() - 1)
            }
            "meter" => {
                let (size, kind) = (size(self, 0)?, kind(self, 1)?);
                self.notes.meters.push(note);
                self.p.meters.push(MeterDecl { name: full, kind, size: Some(size), width: 0 });
                ExtObj::Meter(self.p.meters.len() - 1)
            }
            "direct_meter" => {
                let kind = kind(self, 0)?;
                let width = self.bits(&targs[0].clone(), span)?;
                self.notes.meters.push(note);
                self.p.meters.push(MeterDecl { name: full, kind, size: None, width });
                ExtObj::DirectMeter(self.p.meters.len() - 1)
            }
            "action_profile" => {
                let size = size(self, 0)? as u64;
                self.notes.profiles.push(note);
                self.p.profiles.push(ProfileDecl { name: full, size, selector: None });
                ExtObj::Profile(self.p.profiles.len() - 1)
            }
            "action_selector" => {
                let algo = self.algo(&a[0], span)?;
                let (n, w) = (size(self, 1)?, size(self, 2)?);
                self.notes.profiles.push(note);
                self.p.profiles.push(ProfileDecl { name: full, size: n as u64, selector: Some((algo, w as u32)) });
                ExtObj::Profile(self.p.profiles.len() - 1)
            }
            "Checksum16" => ExtObj::Checksum16,
            n => {
                let help = "the embedded switch has the externs of core.p4 and v1model.p4";
                return self.err_help(span, format!("unsupported: extern `{n}`"), help);
            }
        };
        Ok(Tv { ty: Ty::Extern(e.clone(), Rc::new(targs)), k: K::Ext(obj) })
    }
}

/// The value, or zero when the header at `valid` is not there.
pub(crate) fn if_valid(valid: &Addr, e: Ex) -> Ex {
    Ex::Cond(Box::new((load(valid), e, Ex::Const(Val::S(0)))))
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
