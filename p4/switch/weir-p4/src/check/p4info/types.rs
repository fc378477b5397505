// SPDX-License-Identifier: Apache-2.0
//! Types as controllers see them: widths, translations, structs of digests.
use super::*;

/// The name a controller knows a type by.
pub(super) fn type_name(name: &str, annos: &[ast::Annotation]) -> String {
    let named = anno_string(annos, "name").unwrap_or_else(|| name.to_string());
    let named = named.trim_start_matches('.');
    // `pair<bit<8>, port>` is `pair_bit8_port`.
    let mut out = String::new();
    for c in named.chars().filter(|c| !matches!(c, '>' | ' ')) {
        match c {
            '<' if out.ends_with("bit") || out.ends_with("int") => {}
            '<' | ',' => out.push('_'),
            c => out.push(c),
        }
    }
    out
}

impl Maker<'_, '_> {
    /// Width of a value as controllers see it: that of the translated type if there is a translation.
    pub(super) fn controller_width(&mut self, ty: &Ty) -> Checked<u32> {
        Ok(match ty {
            Ty::New(n) => match self.translation(n)? {
                Some((_, SdnType::Bits(w))) => w,
                Some((_, SdnType::String)) => 0,
                None => ty.scalar_width().unwrap_or(0),
            },
            Ty::Error => 0,
            t => t.scalar_width().unwrap_or(0),
        })
    }

    /// `@p4runtime_translation("uri", bit<W>)`, `(..., W)` or `(..., string)` (P4Runtime 8.4.6).
    fn translation(&mut self, n: &NewTy) -> Checked<Option<(String, SdnType)>> {
        let Some(a) = n.annos.iter().find(|a| a.name.text == "p4runtime_translation") else {
            return Ok(None);
        };
        let toks: Vec<&TokenKind> = a.body.iter().map(|t| &t.tok).collect();
        let (uri, kind) = match toks.as_slice() {
            [TokenKind::Str(uri), TokenKind::Punct(","), kind @ ..] => (uri.clone(), kind),
            _ => (String::new(), &[][..]),
        };
        let sdn = match kind {
            [TokenKind::Ident(s)] if s == "string" => Some(SdnType::String),
            [TokenKind::Int(w, _)] => w.to_u32().map(SdnType::Bits),
            [TokenKind::Ident(b), TokenKind::Punct("<"), TokenKind::Int(w, _), TokenKind::Punct(">")] if b == "bit" => {
                w.to_u32().map(SdnType::Bits)
            }
            _ => None,
        };
        let Some(sdn) = sdn else {
            let m = "@p4runtime_translation needs a string and the controller's type";
            return self.context.err_help(
                a.name.span,
                m,
                "write `@p4runtime_translation(\"uri\", bit<32>)` or `string`",
            );
        };
        if !matches!(n.under.base(), Ty::Bit(_)) {
            let m = format!("@p4runtime_translation needs bit<W> under `{}`, not {}", n.name, n.under);
            return self.context.err(a.name.span, m);
        }
        Ok(Some((uri, sdn)))
    }

    /// The strings of a type that is one to controllers, the same for all that is of it.
    pub(super) fn strings(&mut self, ty: &Ty) -> Checked<Option<Arc<Strings>>> {
        let Ty::New(n) = ty else { return Ok(None) };
        if !matches!(self.translation(n)?, Some((_, SdnType::String))) {
            return Ok(None);
        }
        let name = type_name(&n.name, &n.annos);
        if !self.strings.contains_key(&name) {
            let bits = n.under.scalar_width().unwrap_or(0);
            let strings = Strings::new(&name, bits, &self.mappings(n, bits)?);
            self.strings.insert(name.clone(), Arc::new(strings));
        }
        Ok(self.strings.get(&name).cloned())
    }

    /// `@p4runtime_translation_mappings({{"one", 1}, {"two", 2}})`, as SONiC PINS has it.
    fn mappings(&mut self, n: &NewTy, bits: u32) -> Checked<Vec<(String, u128)>> {
        let Some(a) = n.annos.iter().find(|a| a.name.text == "p4runtime_translation_mappings") else {
            return Ok(Vec::new());
        };
        let mut out: Vec<(String, u128)> = Vec::new();
        let toks: Vec<&TokenKind> =
            a.body.iter().map(|t| &t.tok).filter(|t| !matches!(t, TokenKind::Punct("{" | "}" | ","))).collect();
        for pair in toks.chunks(2) {
            match pair {
                [TokenKind::Str(s), TokenKind::Int(v, _)]
                    if v.bits() <= u64::from(bits) && !out.iter().any(|(t, w)| t == s || v.to_u128() == Some(*w)) =>
                {
                    out.push((s.clone(), v.to_u128().unwrap_or(0)));
                }
                _ => {
                    let m =
                        "@p4runtime_translation_mappings needs pairs of a string and a number of the type, each once";
                    return self.context.err_help(
                        a.name.span,
                        m,
                        "write `@p4runtime_translation_mappings({{\"one\", 1}})`",
                    );
                }
            }
        }
        Ok(out)
    }

    /// The type for controllers; the named type is entered into the type information.
    pub(super) fn type_spec(&mut self, ty: &Ty, span: Span) -> Checked<TypeSpec> {
        Ok(match ty {
            Ty::Bool => TypeSpec::Bool,
            Ty::Bit(w) => TypeSpec::Bits(BitSpec::Bit(*w)),
            Ty::SInt(w) => TypeSpec::Bits(BitSpec::Int(*w)),
            Ty::Varbit(w) => TypeSpec::Bits(BitSpec::Varbit(*w)),
            Ty::Error => {
                self.info.type_info.errors = Some(self.program.errors.clone());
                TypeSpec::Error
            }
            Ty::Tuple(ts) => TypeSpec::Tuple(ts.iter().map(|t| self.type_spec(t, span)).collect::<Checked<Vec<_>>>()?),
            Ty::Struct(s) => {
                let name = type_name(&s.name, &s.annos);
                match s.kind {
                    StructKind::Struct => {
                        if !self.info.type_info.structs.contains_key(&name) {
                            let mut members = Vec::new();
                            for f in &s.fields {
                                let member = anno_string(&f.annos, "name").unwrap_or_else(|| f.name.clone());
                                members.push((member, self.type_spec(&f.ty, span)?));
                            }
                            self.info.type_info.structs.insert(name.clone(), members);
                        }
                        TypeSpec::Struct(name)
                    }
                    StructKind::Header => {
                        let mut fields = Vec::new();
                        flatten(s, "", &[], &mut fields);
                        let members = fields.into_iter().map(|f| {
                            let spec = match f.ty.base() {
                                Ty::SInt(w) => BitSpec::Int(*w),
                                Ty::Varbit(w) => BitSpec::Varbit(*w),
                                t => BitSpec::Bit(t.scalar_width().unwrap_or(0)),
                            };
                            (f.name, spec)
                        });
                        self.info.type_info.headers.insert(name.clone(), members.collect());
                        TypeSpec::Header(name)
                    }
                    StructKind::Union => {
                        let mut members = Vec::new();
                        for f in &s.fields {
                            if let TypeSpec::Header(h) = self.type_spec(&f.ty, span)? {
                                members.push((f.name.clone(), h));
                            }
                        }
                        self.info.type_info.header_unions.insert(name.clone(), members);
                        TypeSpec::HeaderUnion(name)
                    }
                }
            }
            Ty::Stack(t, n) => match self.type_spec(t, span)? {
                TypeSpec::HeaderUnion(h) => TypeSpec::HeaderUnionStack(h, *n),
                TypeSpec::Header(h) => TypeSpec::HeaderStack(h, *n),
                _ => return self.context.err(span, format!("{ty} cannot be sent to a controller")),
            },
            Ty::Enum(e) => {
                let types = &mut self.info.type_info;
                match &e.under {
                    Some(u) => {
                        let bitwidth = u.scalar_width().unwrap_or(0);
                        let value = |v: &BigInt| Val::from_int(v, bitwidth).bytes(bitwidth);
                        let members = e.members.iter().map(|(n, v)| (n.clone(), value(v))).collect();
                        types.serializable_enums.insert(e.name.clone(), SerializableEnum { bitwidth, members });
                        TypeSpec::SerializableEnum(e.name.clone())
                    }
                    None => {
                        types.enums.insert(e.name.clone(), e.members.iter().map(|(n, _)| n.clone()).collect());
                        TypeSpec::Enum(e.name.clone())
                    }
                }
            }
            Ty::New(n) => {
                let name = type_name(&n.name, &n.annos);
                if !self.info.type_info.new_types.contains_key(&name) {
                    let original = self.type_spec(n.under.base(), span)?;
                    let annotations = self.annotations(&n.annos, &["p4runtime_translation"])?;
                    let representation = match self.translation(n)? {
                        Some((uri, sdn)) => Representation::Translated(uri, sdn),
                        None => Representation::Original(original),
                    };
                    let bits = n.under.scalar_width().unwrap_or(0);
                    self.info.type_info.new_types.insert(name.clone(), NewType { representation, annotations, bits });
                }
                TypeSpec::NewType(name)
            }
            _ => return self.context.err(span, format!("{ty} cannot be sent to a controller")),
        })
    }
}

pub(super) struct FlatField {
    pub(super) name: String,
    pub(super) ty: Ty,
    pub(super) annos: Vec<ast::Annotation>,
}

/// The fields of a header in order; those of a struct in it are named `struct.field`, the annotations of the struct
/// hold for them too.
pub(super) fn flatten(s: &StructTy, prefix: &str, outer: &[ast::Annotation], out: &mut Vec<FlatField>) {
    for f in &s.fields {
        let mut annos = f.annos.clone();
        annos.extend(outer.iter().filter(|a| !has(&f.annos, &a.name.text)).cloned());
        match f.ty.base() {
            Ty::Struct(inner) => flatten(inner, &format!("{prefix}{}.", f.name), &annos, out),
            _ => {
                let own = if prefix.is_empty() { anno_string(&f.annos, "name") } else { None };
                let name = own.unwrap_or_else(|| format!("{prefix}{}", f.name));
                out.push(FlatField { name, ty: f.ty.clone(), annos });
            }
        }
    }
}

/// The name of a type made by `type`.
pub(super) fn new_type_name(t: &Ty) -> Option<String> {
    match t {
        Ty::New(n) => Some(type_name(&n.name, &n.annos)),
        _ => None,
    }
}
