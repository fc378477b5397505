// SPDX-License-Identifier: Apache-2.0
//! P4Info in the protobuf text format, laid out as protobuf prints it: fields by number, maps by key.
use super::*;
use std::fmt::{Display, Write as _};

/// Writes `text` with the escapes of protobuf's text format.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for b in bytes {
        match b {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(*b as char),
            _ => {
                let _ = write!(out, "\\{b:03o}");
            }
        }
    }
    out.push('"');
    out
}

#[derive(Default)]
struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 2 * self.depth);
    }

    /// A message, which is printed even when it is empty.
    fn message(&mut self, name: &str, fields: impl FnOnce(&mut Writer)) {
        self.line(format_args!("{name} {{"));
        self.depth += 1;
        fields(self);
        self.depth -= 1;
        self.line("}");
    }

    fn string(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.line(format_args!("{name}: {}", quoted(value.as_bytes())));
        }
    }

    /// A number or the name of an enum's member; zero and the empty name are not printed.
    fn scalar(&mut self, name: &str, value: impl Display) {
        let text = value.to_string();
        if !text.is_empty() && text != "0" && text != "false" {
            self.line(format_args!("{name}: {text}"));
        }
    }

    fn named(&mut self, name: &str, value: &Option<String>) {
        if let Some(v) = value {
            self.message(name, |w| w.string("name", v));
        }
    }

    fn plain(&mut self, a: &Annotations) {
        a.plain.iter().for_each(|s| self.string("annotations", s));
    }

    fn doc(&mut self, a: &Annotations) {
        if let Some(d) = &a.doc {
            self.message("doc", |w| {
                w.string("brief", &d.brief);
                w.string("description", &d.description);
            });
        }
    }

    fn structured(&mut self, a: &Annotations) {
        for s in &a.structured {
            self.message("structured_annotations", |w| {
                w.string("name", &s.name);
                match &s.body {
                    StructuredBody::Empty => {}
                    StructuredBody::Expressions(list) => w.message("expression_list", |w| {
                        list.iter().for_each(|e| w.message("expressions", |w| w.expression(e)));
                    }),
                    StructuredBody::Pairs(list) => w.message("kv_pair_list", |w| {
                        for (k, e) in list {
                            w.message("kv_pairs", |w| {
                                w.string("key", k);
                                w.message("value", |w| w.expression(e));
                            });
                        }
                    }),
                }
            });
        }
    }

    fn expression(&mut self, e: &Expression) {
        match e {
            Expression::String(s) => self.line(format_args!("string_value: {}", quoted(s.as_bytes()))),
            Expression::Int64(i) => self.line(format_args!("int64_value: {i}")),
            Expression::Bool(b) => self.line(format_args!("bool_value: {b}")),
        }
    }

    fn preamble(&mut self, p: &Preamble) {
        self.message("preamble", |w| {
            w.scalar("id", p.id);
            w.string("name", &p.name);
            w.string("alias", &p.alias);
            w.plain(&p.annotations);
            w.doc(&p.annotations);
            w.structured(&p.annotations);
        });
    }

    fn match_field(&mut self, name: &str, f: &MatchField) {
        self.message(name, |w| {
            w.scalar("id", f.id);
            w.string("name", &f.name);
            w.plain(&f.annotations);
            w.scalar("bitwidth", f.bitwidth);
            let kind = match f.match_type {
                MatchType::Exact => "EXACT",
                MatchType::Lpm => "LPM",
                MatchType::Ternary => "TERNARY",
                MatchType::Range => "RANGE",
                MatchType::Optional => "OPTIONAL",
            };
            w.scalar("match_type", kind);
            w.doc(&f.annotations);
            w.named("type_name", &f.type_name);
            w.structured(&f.annotations);
        });
    }

    fn unit(&mut self, unit: Unit) {
        let name = match unit {
            Unit::Bytes => "BYTES",
            Unit::Packets => "PACKETS",
            Unit::Both => "BOTH",
        };
        self.message("spec", |w| w.scalar("unit", name));
    }

    fn table(&mut self, t: &Table) {
        self.preamble(&t.preamble);
        t.match_fields.iter().for_each(|f| self.match_field("match_fields", f));
        for a in &t.action_refs {
            self.message("action_refs", |w| {
                w.scalar("id", a.id);
                w.plain(&a.annotations);
                match a.scope {
                    Scope::TableAndDefault => {}
                    Scope::TableOnly => w.scalar("scope", "TABLE_ONLY"),
                    Scope::DefaultOnly => w.scalar("scope", "DEFAULT_ONLY"),
                }
                w.structured(&a.annotations);
            });
        }
        self.scalar("const_default_action_id", t.const_default_action_id);
        self.message("initial_default_action", |w| {
            w.scalar("action_id", t.initial_default_action.action_id);
            for (id, value) in &t.initial_default_action.arguments {
                w.message("arguments", |w| {
                    w.scalar("param_id", id);
                    w.line(format_args!("value: {}", quoted(value)));
                });
            }
        });
        self.scalar("implementation_id", t.implementation_id);
        t.direct_resource_ids.iter().for_each(|id| self.scalar("direct_resource_ids", id));
        self.scalar("size", t.size);
        self.scalar("idle_timeout_behavior", if t.idle_timeout { "NOTIFY_CONTROL" } else { "" });
        self.scalar("is_const_table", t.is_const_table);
        self.scalar("has_initial_entries", t.has_initial_entries);
    }

    fn profile(&mut self, p: &ActionProfile) {
        self.preamble(&p.preamble);
        p.table_ids.iter().for_each(|id| self.scalar("table_ids", id));
        self.scalar("with_selector", p.with_selector);
        self.scalar("size", p.size);
        self.scalar("max_group_size", p.max_group_size);
        match p.selector_size {
            Some(SelectorSize::SumOfWeights) => self.message("sum_of_weights", |_| {}),
            Some(SelectorSize::SumOfMembers { max_member_weight }) => {
                self.message("sum_of_members", |w| w.scalar("max_member_weight", max_member_weight));
            }
            None => {}
        }
    }

    fn bits(&mut self, b: &BitSpec) {
        match b {
            BitSpec::Bit(w) => self.message("bit", |o| o.scalar("bitwidth", w)),
            BitSpec::Int(w) => self.message("int", |o| o.scalar("bitwidth", w)),
            BitSpec::Varbit(w) => self.message("varbit", |o| o.scalar("max_bitwidth", w)),
        }
    }

    fn type_spec(&mut self, name: &str, t: &TypeSpec) {
        self.message(name, |w| {
            let mut named = |field: &str, n: &str| w.message(field, |w| w.string("name", n));
            match t {
                TypeSpec::Struct(n) => named("struct", n),
                TypeSpec::Header(n) => named("header", n),
                TypeSpec::HeaderUnion(n) => named("header_union", n),
                TypeSpec::Enum(n) => named("enum", n),
                TypeSpec::SerializableEnum(n) => named("serializable_enum", n),
                TypeSpec::NewType(n) => named("new_type", n),
                TypeSpec::Bits(b) => w.message("bitstring", |w| w.bits(b)),
                TypeSpec::Bool => w.message("bool", |_| {}),
                TypeSpec::Error => w.message("error", |_| {}),
                TypeSpec::Tuple(ts) => w.message("tuple", |w| ts.iter().for_each(|t| w.type_spec("members", t))),
                TypeSpec::HeaderStack(n, size) => w.message("header_stack", |w| {
                    w.message("header", |w| w.string("name", n));
                    w.scalar("size", size);
                }),
                TypeSpec::HeaderUnionStack(n, size) => w.message("header_union_stack", |w| {
                    w.message("header_union", |w| w.string("name", n));
                    w.scalar("size", size);
                }),
            }
        });
    }

    fn map<T>(&mut self, name: &str, map: &BTreeMap<String, T>, value: impl Fn(&mut Writer, &T)) {
        for (k, v) in map {
            self.message(name, |w| {
                w.string("key", k);
                w.message("value", |w| value(w, v));
            });
        }
    }

    fn type_info(&mut self, t: &TypeInfo) {
        self.map("structs", &t.structs, |w, members| {
            for (name, spec) in members {
                w.message("members", |w| {
                    w.string("name", name);
                    w.type_spec("type_spec", spec);
                });
            }
        });
        self.map("headers", &t.headers, |w, members| {
            for (name, spec) in members {
                w.message("members", |w| {
                    w.string("name", name);
                    w.message("type_spec", |w| w.bits(spec));
                });
            }
        });
        self.map("header_unions", &t.header_unions, |w, members| {
            for (name, header) in members {
                w.message("members", |w| {
                    w.string("name", name);
                    w.message("header", |w| w.string("name", header));
                });
            }
        });
        self.map("enums", &t.enums, |w, members| {
            members.iter().for_each(|m| w.message("members", |w| w.string("name", m)));
        });
        if let Some(errors) = &t.errors {
            self.message("error", |w| errors.iter().for_each(|e| w.string("members", e)));
        }
        self.map("serializable_enums", &t.serializable_enums, |w, e| {
            w.message("underlying_type", |w| w.scalar("bitwidth", e.bitwidth));
            for (name, value) in &e.members {
                w.message("members", |w| {
                    w.string("name", name);
                    w.line(format_args!("value: {}", quoted(value)));
                });
            }
        });
        self.map("new_types", &t.new_types, |w, n| {
            match &n.representation {
                Representation::Original(t) => w.type_spec("original_type", t),
                Representation::Translated(uri, sdn) => w.message("translated_type", |w| {
                    w.string("uri", uri);
                    match sdn {
                        SdnType::Bits(b) => w.scalar("sdn_bitwidth", b),
                        SdnType::String => w.message("sdn_string", |_| {}),
                    }
                }),
            }
            w.plain(&n.annotations);
            w.structured(&n.annotations);
        });
    }

    fn pkg_info(&mut self, p: &PkgInfo) {
        self.string("name", &p.name);
        self.string("version", &p.version);
        self.doc(&p.annotations);
        self.plain(&p.annotations);
        self.string("arch", &p.arch);
        self.string("organization", &p.organization);
        self.string("contact", &p.contact);
        self.string("url", &p.url);
        self.structured(&p.annotations);
        if let Some(s) = &p.platform_properties {
            self.message("platform_properties", |w| {
                w.scalar("multicast_group_table_size", s.multicast_group_table_size);
                w.scalar("multicast_group_table_total_replicas", s.multicast_group_table_total_replicas);
                w.scalar(
                    "multicast_group_table_max_replicas_per_entry",
                    s.multicast_group_table_max_replicas_per_entry,
                );
            });
        }
    }
}

impl P4Info {
    /// The whole message in protobuf's text format, as `p4c --p4runtime-files name.txtpb` writes it.
    pub fn text(&self) -> String {
        let mut w = Writer::default();
        w.line("# proto-file: p4/config/v1/p4info.proto");
        w.line("# proto-message: p4.config.v1.P4Info");
        w.line("");
        w.message("pkg_info", |w| w.pkg_info(&self.pkg_info));
        self.tables.iter().for_each(|t| w.message("tables", |w| w.table(t)));
        for a in &self.actions {
            w.message("actions", |w| {
                w.preamble(&a.preamble);
                for p in &a.params {
                    w.message("params", |w| {
                        w.scalar("id", p.id);
                        w.string("name", &p.name);
                        w.plain(&p.annotations);
                        w.scalar("bitwidth", p.bitwidth);
                        w.doc(&p.annotations);
                        w.named("type_name", &p.type_name);
                        w.structured(&p.annotations);
                    });
                }
            });
        }
        self.action_profiles.iter().for_each(|p| w.message("action_profiles", |w| w.profile(p)));
        for c in &self.counters {
            w.message("counters", |w| {
                w.preamble(&c.preamble);
                w.unit(c.unit);
                w.scalar("size", c.size);
                w.named("index_type_name", &c.index_type_name);
            });
        }
        for c in &self.direct_counters {
            w.message("direct_counters", |w| {
                w.preamble(&c.preamble);
                w.unit(c.unit);
                w.scalar("direct_table_id", c.direct_table_id);
            });
        }
        for m in &self.meters {
            w.message("meters", |w| {
                w.preamble(&m.preamble);
                w.unit(m.unit);
                w.scalar("size", m.size);
                w.named("index_type_name", &m.index_type_name);
            });
        }
        for m in &self.direct_meters {
            w.message("direct_meters", |w| {
                w.preamble(&m.preamble);
                w.unit(m.unit);
                w.scalar("direct_table_id", m.direct_table_id);
            });
        }
        for h in &self.controller_packet_metadata {
            w.message("controller_packet_metadata", |w| {
                w.preamble(&h.preamble);
                for m in &h.metadata {
                    w.message("metadata", |w| {
                        w.scalar("id", m.id);
                        w.string("name", &m.name);
                        w.plain(&m.annotations);
                        w.scalar("bitwidth", m.bitwidth);
                        w.named("type_name", &m.type_name);
                        w.structured(&m.annotations);
                    });
                }
            });
        }
        for v in &self.value_sets {
            w.message("value_sets", |w| {
                w.preamble(&v.preamble);
                v.match_fields.iter().for_each(|f| w.match_field("match", f));
                w.scalar("size", v.size);
            });
        }
        for r in &self.registers {
            w.message("registers", |w| {
                w.preamble(&r.preamble);
                w.type_spec("type_spec", &r.type_spec);
                w.scalar("size", r.size);
                w.named("index_type_name", &r.index_type_name);
            });
        }
        for d in &self.digests {
            w.message("digests", |w| {
                w.preamble(&d.preamble);
                w.type_spec("type_spec", &d.type_spec);
            });
        }
        if self.type_info != TypeInfo::default() {
            w.message("type_info", |w| w.type_info(&self.type_info));
        }
        w.out
    }
}
