// SPDX-License-Identifier: Apache-2.0
//! Types as controllers see them: widths, translations, structs of digests.
use super::*;
use pb::p4_bitstring_like_type_spec::TypeSpec as BitSpec;
use pb::p4_data_type_spec::TypeSpec;
use pb::p4_new_type_spec::Representation;
use pb::p4_new_type_translation::{SdnString, SdnType};

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
    pub(super) fn controller_width(&mut self, ty: &Ty) -> Checked<i32> {
        let own = ty.scalar_width().unwrap_or(0) as i32;
        Ok(match ty {
            Ty::New(n) => match self.translation(n)?.and_then(|t| t.sdn_type) {
                Some(SdnType::SdnBitwidth(w)) => w,
                Some(SdnType::SdnString(_)) => 0,
                None => own,
            },
            Ty::Error => 0,
            _ => own,
        })
    }

    /// `@p4runtime_translation("uri", bit<W>)`, `(..., W)` or `(..., string)` (P4Runtime 8.4.6).
    fn translation(&mut self, n: &NewTy) -> Checked<Option<pb::P4NewTypeTranslation>> {
        let Some(a) = n.annos.iter().find(|a| a.name.text == "p4runtime_translation") else {
            return Ok(None);
        };
        let toks: Vec<&TokenKind> = a.body.iter().map(|t| &t.tok).collect();
        let (uri, kind) = match toks.as_slice() {
            [TokenKind::Str(uri), TokenKind::Punct(","), kind @ ..] => (uri.clone(), kind),
            _ => (String::new(), &[][..]),
        };
        let sdn = match kind {
            [TokenKind::Ident(s)] if s == "string" => Some(SdnType::SdnString(SdnString {})),
            [TokenKind::Int(w, _)] => w.to_i32().map(SdnType::SdnBitwidth),
            [TokenKind::Ident(b), TokenKind::Punct("<"), TokenKind::Int(w, _), TokenKind::Punct(">")] if b == "bit" => {
                w.to_i32().map(SdnType::SdnBitwidth)
            }
            _ => None,
        };
        let Some(sdn_type) = sdn else {
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
        Ok(Some(pb::P4NewTypeTranslation { uri, sdn_type: Some(sdn_type) }))
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

    /// As [`Maker::type_spec`], as a message.
    pub(super) fn data_type(&mut self, ty: &Ty, span: Span) -> Checked<pb::P4DataTypeSpec> {
        Ok(pb::P4DataTypeSpec { type_spec: Some(self.type_spec(ty, span)?) })
    }

    /// The type for controllers; the named type is entered into the type information.
    pub(super) fn type_spec(&mut self, ty: &Ty, span: Span) -> Checked<TypeSpec> {
        Ok(match ty {
            Ty::Bool => TypeSpec::Bool(pb::P4BoolType {}),
            Ty::Bit(_) | Ty::SInt(_) | Ty::Varbit(_) => TypeSpec::Bitstring(bits(ty)),
            Ty::Error => {
                let members = self.program.errors.clone();
                self.info.type_info.error = Some(pb::P4ErrorTypeSpec { members });
                TypeSpec::Error(pb::P4ErrorType {})
            }
            Ty::Tuple(ts) => {
                let members = ts.iter().map(|t| self.data_type(t, span)).collect::<Checked<_>>()?;
                TypeSpec::Tuple(pb::P4TupleTypeSpec { members })
            }
            Ty::Struct(s) => self.struct_type(s, span)?,
            Ty::Stack(t, n) => {
                let size = *n as i32;
                match self.type_spec(t, span)? {
                    TypeSpec::HeaderUnion(u) => {
                        TypeSpec::HeaderUnionStack(pb::P4HeaderUnionStackTypeSpec { header_union: Some(u), size })
                    }
                    TypeSpec::Header(h) => TypeSpec::HeaderStack(pb::P4HeaderStackTypeSpec { header: Some(h), size }),
                    _ => return self.context.err(span, format!("{ty} cannot be sent to a controller")),
                }
            }
            Ty::Enum(e) => self.enum_type(e),
            Ty::New(n) => self.new_type(n, span)?,
            _ => return self.context.err(span, format!("{ty} cannot be sent to a controller")),
        })
    }

    fn struct_type(&mut self, s: &StructTy, span: Span) -> Checked<TypeSpec> {
        let name = type_name(&s.name, &s.annos);
        let named = named_type(name.clone());
        Ok(match s.kind {
            StructKind::Struct => {
                if !self.info.type_info.structs.contains_key(&name) {
                    let mut spec = pb::P4StructTypeSpec::default();
                    for f in &s.fields {
                        spec.members.push(pb::p4_struct_type_spec::Member {
                            name: anno_string(&f.annos, "name").unwrap_or_else(|| f.name.clone()),
                            type_spec: Some(self.data_type(&f.ty, span)?),
                        });
                    }
                    self.info.type_info.structs.insert(name, spec);
                }
                TypeSpec::Struct(named)
            }
            StructKind::Header => {
                let mut fields = Vec::new();
                flatten(s, "", &[], &mut fields);
                let member =
                    |f: FlatField| pb::p4_header_type_spec::Member { name: f.name, type_spec: Some(bits(f.ty.base())) };
                let members = fields.into_iter().map(member).collect();
                self.info.type_info.headers.insert(name, pb::P4HeaderTypeSpec { members, ..Default::default() });
                TypeSpec::Header(named)
            }
            StructKind::Union => {
                let mut spec = pb::P4HeaderUnionTypeSpec::default();
                for f in &s.fields {
                    if let TypeSpec::Header(h) = self.type_spec(&f.ty, span)? {
                        let member = pb::p4_header_union_type_spec::Member { name: f.name.clone(), header: Some(h) };
                        spec.members.push(member);
                    }
                }
                self.info.type_info.header_unions.insert(name, spec);
                TypeSpec::HeaderUnion(named)
            }
        })
    }

    fn enum_type(&mut self, e: &EnumTy) -> TypeSpec {
        let (name, types) = (e.name.clone(), &mut self.info.type_info);
        let Some(under) = &e.under else {
            use pb::p4_enum_type_spec::Member;
            let members = e.members.iter().map(|(n, _)| Member { name: n.clone(), ..Default::default() }).collect();
            types.enums.insert(name.clone(), pb::P4EnumTypeSpec { members, ..Default::default() });
            return TypeSpec::Enum(named_type(name));
        };
        let width = under.scalar_width().unwrap_or(0);
        let member = |(n, v): &(String, BigInt)| pb::p4_serializable_enum_type_spec::Member {
            name: n.clone(),
            value: Val::from_int(v, width).bytes(width),
            ..Default::default()
        };
        let spec = pb::P4SerializableEnumTypeSpec {
            underlying_type: Some(pb::P4BitTypeSpec { bitwidth: width as i32 }),
            members: e.members.iter().map(member).collect(),
            ..Default::default()
        };
        types.serializable_enums.insert(name.clone(), spec);
        TypeSpec::SerializableEnum(named_type(name))
    }

    fn new_type(&mut self, n: &NewTy, span: Span) -> Checked<TypeSpec> {
        let name = type_name(&n.name, &n.annos);
        if !self.info.type_info.new_types.contains_key(&name) {
            let original = self.data_type(n.under.base(), span)?;
            let a = self.annotations(&n.annos, &["p4runtime_translation"])?;
            let bits = n.under.scalar_width().unwrap_or(0);
            let representation = match self.translation(n)? {
                Some(t) => {
                    if matches!(t.sdn_type, Some(SdnType::SdnString(_))) {
                        let strings = Strings::new(&name, bits, &self.mappings(n, bits)?);
                        self.info.strings.insert(name.clone(), Arc::new(strings));
                    }
                    Representation::TranslatedType(t)
                }
                None => Representation::OriginalType(original),
            };
            let spec = pb::P4NewTypeSpec {
                annotations: a.plain,
                structured_annotations: a.structured,
                representation: Some(representation),
                ..Default::default()
            };
            self.info.type_info.new_types.insert(name.clone(), spec);
            self.info.new_type_bits.insert(name.clone(), bits);
        }
        Ok(TypeSpec::NewType(named_type(name)))
    }
}

/// A type of bits, with its width.
fn bits(ty: &Ty) -> pb::P4BitstringLikeTypeSpec {
    let spec = match ty {
        Ty::SInt(w) => BitSpec::Int(pb::P4IntTypeSpec { bitwidth: *w as i32 }),
        Ty::Varbit(w) => BitSpec::Varbit(pb::P4VarbitTypeSpec { max_bitwidth: *w as i32 }),
        t => BitSpec::Bit(pb::P4BitTypeSpec { bitwidth: t.scalar_width().unwrap_or(0) as i32 }),
    };
    pb::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() }
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
