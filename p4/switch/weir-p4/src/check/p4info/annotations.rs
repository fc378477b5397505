// SPDX-License-Identifier: Apache-2.0
//! Annotations, as P4Info has them.
use super::*;
use pb::expression::Value;
use pb::structured_annotation::Body;

/// Annotations with a field of their own in P4Info.
pub(super) const IN_OTHER_FIELDS: [&str; 4] = ["name", "id", "brief", "description"];

/// Annotations of an object, except those with a field of their own.
#[derive(Default)]
pub(super) struct Annotations {
    /// As written: `@name(arguments)`.
    pub(super) plain: Vec<String>,
    /// Those with brackets.
    pub(super) structured: Vec<pb::StructuredAnnotation>,
    /// From `@brief` and `@description`.
    pub(super) doc: Option<pb::Documentation>,
}

pub(super) fn has(annos: &[ast::Annotation], name: &str) -> bool {
    annos.iter().any(|a| a.name.text == name)
}

pub(super) fn token_text(t: &TokenKind) -> String {
    match t {
        TokenKind::Str(s) => format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\"")),
        TokenKind::Int(v, None) => v.to_string(),
        TokenKind::Int(v, Some((w, signed))) => format!("{w}{}{v}", if *signed { 's' } else { 'w' }),
        TokenKind::Ident(s) | TokenKind::Bad(s) => s.clone(),
        TokenKind::Punct(p) => (*p).to_string(),
        TokenKind::Eof => String::new(),
    }
}

/// Annotations that p4c reads as a list of expressions; it prints the others as their tokens, with a space between each.
const LISTS: [&str; 3] = ["field_list", "p4runtime_translation", "synchronous"];

pub(super) fn as_written(a: &ast::Annotation) -> String {
    if a.body.is_empty() {
        return format!("@{}", a.name.text);
    }
    let is_list = LISTS.contains(&a.name.text.as_str());
    let mut text = String::new();
    for t in &a.body {
        let joins = is_list && t.tok == TokenKind::Punct(",");
        if !text.is_empty() && !joins {
            text.push(' ');
        }
        text.push_str(&token_text(&t.tok));
    }
    format!("@{}({text})", a.name.text)
}

impl Maker<'_, '_> {
    pub(super) fn id_annotation(&mut self, annos: &[ast::Annotation]) -> Checked<Option<u32>> {
        let Some(a) = annos.iter().find(|a| a.name.text == "id") else {
            return Ok(None);
        };
        match a.body.as_slice() {
            [Token { tok: TokenKind::Int(v, _), .. }] if v.to_u32().is_some() => Ok(v.to_u32()),
            _ => self.context.err_help(a.name.span, "@id needs a number of up to 32 bits", "write e.g. `@id(1)`"),
        }
    }

    /// Ids of fields or parameters: those of `@id`, the others from 1 on.
    pub(super) fn field_ids<'x>(
        &mut self,
        fields: impl Iterator<Item = (&'x [ast::Annotation], Span)>,
    ) -> Checked<Vec<u32>> {
        let mut ids = Vec::new();
        let mut taken = BTreeSet::new();
        for (annos, span) in fields {
            let id = self.id_annotation(annos)?;
            match id {
                Some(0) => return self.context.err(span, "the number of an @id begins at 1"),
                Some(i) if !taken.insert(i) => {
                    return self.context.err(span, format!("@id({i}) is given to two fields"));
                }
                _ => ids.push(id),
            }
        }
        // p4c skips a number for each field that has its own.
        let mut next = 1;
        let mut out = Vec::new();
        for id in ids {
            if id.is_none() {
                while !taken.insert(next) {
                    next += 1;
                }
            }
            out.push(id.unwrap_or(next));
            next += u32::from(id.is_some());
        }
        Ok(out)
    }

    pub(super) fn annotations(&mut self, annos: &[ast::Annotation], skip: &[&str]) -> Checked<Annotations> {
        let mut out = Annotations::default();
        for a in annos {
            let name = a.name.text.as_str();
            if a.structured {
                let body = self.structured(a)?;
                out.structured.push(pb::StructuredAnnotation { name: name.to_string(), body, source_location: None });
                continue;
            }
            if let ("brief" | "description", Some(text)) = (name, anno_string(annos, name)) {
                let doc = out.doc.get_or_insert_default();
                *(if name == "brief" { &mut doc.brief } else { &mut doc.description }) = text;
            }
            if !IN_OTHER_FIELDS.contains(&name) && !skip.contains(&name) {
                out.plain.push(as_written(a));
            }
        }
        Ok(out)
    }

    /// `[1, "two", true]` or `[one = 1, two = "2"]` (P4_16 20.3). Constants may be computed.
    fn structured(&mut self, a: &ast::Annotation) -> Checked<Option<Body>> {
        if a.body.is_empty() {
            return Ok(None);
        }
        let mut parts: Vec<&[Token]> = a.body.split(|t| t.tok == TokenKind::Punct(",")).collect();
        if parts.last().is_some_and(|l| l.is_empty()) {
            parts.pop();
        }
        let key = |part: &[Token]| match part {
            [k, eq, ..] if eq.tok == TokenKind::Punct("=") => Some(token_text(&k.tok)),
            _ => None,
        };
        let pairs = parts.first().is_some_and(|p| key(p).is_some());
        let (mut list, mut kv) = (Vec::new(), Vec::new());
        for part in parts {
            let span = part.first().map_or(a.name.span, |t| t.span);
            match (key(part), pairs) {
                (Some(n), true) if kv.iter().any(|pair: &pb::KeyValuePair| pair.key == n) => {
                    return self.context.err(span, format!("key `{n}` is given twice in @{}", a.name.text));
                }
                (Some(key), true) => {
                    let value = Some(pb::Expression { value: Some(self.annotation_value(&part[2..], span)?) });
                    kv.push(pb::KeyValuePair { key, value });
                }
                (None, false) => list.push(pb::Expression { value: Some(self.annotation_value(part, span)?) }),
                _ => {
                    return self
                        .context
                        .err(span, "an annotation holds either values or pairs `key = value`, not both");
                }
            }
        }
        Ok(Some(if pairs {
            Body::KvPairList(pb::KeyValuePairList { kv_pairs: kv })
        } else {
            Body::ExpressionList(pb::ExpressionList { expressions: list })
        }))
    }

    fn annotation_value(&mut self, tokens: &[Token], span: Span) -> Checked<Value> {
        let e = crate::syntax::parser::parse_expr(tokens, span, self.context.diagnostics)?;
        match self.context.expr(&e, None)?.kind {
            ValueKind::Bool(b) => Ok(Value::BoolValue(b)),
            ValueKind::Str(s) => Ok(Value::StringValue(s)),
            ValueKind::Int(i) => match i.to_i64() {
                Some(i) => Ok(Value::Int64Value(i)),
                None => self.context.err_help(span, format!("{i} does not fit 64 bits"), "write it as a string"),
            },
            _ => self.context.err(span, "a value in an annotation must be a constant number, string or bool"),
        }
    }

    /// From `@pkginfo` and `@platform_property` before `main` (P4Runtime 6.2.1).
    pub(super) fn pkg_info(&mut self) -> Checked<()> {
        let mut pkg = pb::PkgInfo { arch: "v1model".into(), ..Default::default() };
        for a in &self.notes.package {
            let (name, span) = (a.name.text.as_str(), a.name.span);
            if name != "pkginfo" && name != "platform_property" {
                continue;
            }
            let Some(Body::KvPairList(pairs)) = self.structured(a)? else {
                let help = format!("write `@{name}(key = value)`");
                return self.context.err_help(span, format!("@{name} needs keys and values"), help);
            };
            for pb::KeyValuePair { key: k, value } in pairs.kv_pairs {
                let v = value.and_then(|e| e.value);
                if name == "platform_property" {
                    let sizes = pkg.platform_properties.get_or_insert_default();
                    let field = match k.as_str() {
                        "multicast_group_table_size" => &mut sizes.multicast_group_table_size,
                        "multicast_group_table_total_replicas" => &mut sizes.multicast_group_table_total_replicas,
                        "multicast_group_table_max_replicas_per_entry" => {
                            &mut sizes.multicast_group_table_max_replicas_per_entry
                        }
                        _ => {
                            self.context.diagnostics.warn(span, format!("@{name} has no key `{k}`; it is ignored"));
                            continue;
                        }
                    };
                    match v {
                        Some(Value::Int64Value(n)) if i32::try_from(n).is_ok() => *field = n as i32,
                        _ => return self.context.err(span, format!("key `{k}` needs a number of 32 bits")),
                    }
                    continue;
                }
                let field = match k.as_str() {
                    "name" => &mut pkg.name,
                    "version" => &mut pkg.version,
                    "organization" => &mut pkg.organization,
                    "contact" => &mut pkg.contact,
                    "url" => &mut pkg.url,
                    "arch" => &mut pkg.arch,
                    _ => {
                        self.context.diagnostics.warn(span, format!("@{name} has no key `{k}`; it is ignored"));
                        continue;
                    }
                };
                match v {
                    Some(Value::StringValue(s)) => *field = s,
                    _ => return self.context.err(span, format!("key `{k}` needs a string")),
                }
            }
        }
        let a = self.annotations(&self.notes.package, &["pkginfo", "platform_property"])?;
        let (annotations, doc, structured_annotations) = (a.plain, a.doc, a.structured);
        self.info.pkg_info = pb::PkgInfo { annotations, doc, structured_annotations, ..pkg };
        Ok(())
    }

    pub(super) fn number_annotation(&mut self, annos: &[ast::Annotation], name: &str) -> Checked<Option<i32>> {
        let Some(a) = annos.iter().find(|a| a.name.text == name) else {
            return Ok(None);
        };
        match self.annotation_value(&a.body, a.name.span)? {
            Value::Int64Value(n) if (0..=i64::from(i32::MAX)).contains(&n) => Ok(Some(n as i32)),
            _ => self.context.err(a.name.span, format!("@{name} needs a number from 0 to {}", i32::MAX)),
        }
    }

    /// Match type of a value set's field: exact, unless `@match` says otherwise.
    pub(super) fn match_annotation(&mut self, annos: &[ast::Annotation]) -> Checked<MatchType> {
        let Some(a) = annos.iter().find(|a| a.name.text == "match") else {
            return Ok(MatchType::Exact);
        };
        match a.body.first().map(|t| token_text(&t.tok)).as_deref() {
            Some("exact") => Ok(MatchType::Exact),
            Some("lpm") => Ok(MatchType::Lpm),
            Some("ternary") => Ok(MatchType::Ternary),
            Some("range") => Ok(MatchType::Range),
            Some("optional") => Ok(MatchType::Optional),
            _ => {
                let help = "a value set matches exact, lpm, ternary, range or optional";
                self.context.err_help(a.name.span, "@match needs a match kind", help)
            }
        }
    }
}
