// SPDX-License-Identifier: Apache-2.0
//! The `main` package: the six blocks of V1Switch and the structs that they share.
use crate::bytecode::program::StdMeta;
use crate::check::prelude::*;

impl Context<'_> {
    pub fn other_architecture<T>(&mut self, package: &str, span: Span) -> Checked<T> {
        let help = "the embedded switch runs the v1model architecture: `V1Switch(...) main;`";
        self.err_help(span, format!("unsupported: architecture `{package}`"), help)
    }

    pub fn build_main(&mut self, ty: &Ty, args: Vec<TypedValue>, span: Span) -> Checked<()> {
        let Ty::Package(p) = ty else {
            return self.err(span, "`main` is not a package");
        };
        if p.name != "V1Switch" {
            return self.other_architecture(&p.name, span);
        }
        let mut blocks = Vec::new();
        for (v, q) in args.into_iter().zip(&p.params) {
            match (v.ty, v.kind) {
                (Ty::Block(b), ValueKind::Aggregate(items, _)) => {
                    blocks.push((b, items.into_iter().map(|(_, v)| v).collect::<Vec<_>>()))
                }
                (t, _) => return self.err(span, format!("argument `{}` of V1Switch cannot be {t}", q.name.text)),
            }
        }
        let roles = [Phase::Parser, Phase::Verify, Phase::Ingress, Phase::Egress, Phase::Compute, Phase::Deparser];
        if blocks.len() != roles.len() {
            return self.err(span, format!("V1Switch takes 6 arguments, not {}", blocks.len()));
        }
        // packet, headers, metadata, standard metadata: which of them each block takes, and how.
        let shape: [&[(usize, Dir)]; 6] = [
            &[(0, Dir::None), (1, Dir::Out), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut), (3, Dir::InOut)],
            &[(1, Dir::InOut), (2, Dir::InOut)],
            &[(0, Dir::None), (1, Dir::In)],
        ];
        let Some(std_tv) = self.scopes[0].get("standard_metadata_t").cloned() else {
            return self.err(span, "standard_metadata_t is not declared; include v1model.p4");
        };
        let ValueKind::Type(TypeDef::Ty(std_ty)) = std_tv.kind else {
            return self.err(span, "standard_metadata_t is not a struct");
        };
        let types = self.shared_types(&blocks, &shape, &roles, &std_ty)?;
        let [_, Some(h), Some(m), Some(s)] = &types else {
            return self.err(span, "V1Switch lacks a parameter");
        };
        if !matches!(h, Ty::Struct(s) if s.kind == StructKind::Struct) {
            return self.err(blocks[0].0.params[1].ty.span, format!("the headers must be a struct, not {h}"));
        }
        self.warn_of_headers(h, blocks[0].0.params[1].ty.span);
        let hs = self.alloc_ty(h, span)?;
        let ms = self.alloc_ty(m, span)?;
        let ss = self.alloc_ty(s, span)?;
        self.program.headers = (hs, h.slots());
        self.program.meta = (ms, m.slots());
        self.program.std = (ss, s.slots());
        let mut lists: Vec<(u64, Vec<Slot>)> = Vec::new();
        self.field_lists(m, ms, &[], &mut lists)?;
        self.program.field_lists = lists;
        let places = [None, Some(hs), Some(ms), Some(ss)];
        for (i, (b, args)) in blocks.into_iter().enumerate() {
            self.phase = roles[i];
            let bind: Vec<Option<Slot>> = shape[i].iter().map(|(what, _)| places[*what]).collect();
            let inst = self.instantiate(&b, args, &b.name.text, span, Some(&bind))?;
            let body = self.instances[inst].body;
            match roles[i] {
                Phase::Parser => self.program.parser = body,
                Phase::Verify => self.program.verify = body,
                Phase::Ingress => self.program.ingress = body,
                Phase::Egress => self.program.egress = body,
                Phase::Compute => self.program.compute = body,
                _ => self.program.deparser = body,
            }
            self.warn_of_target_limits(roles[i], body, &b.name);
        }
        let Ty::Struct(st) = &std_ty else {
            return self.err(span, "standard_metadata_t is not a struct");
        };
        let at = |n: &str| st.fields.iter().find(|f| f.name == n).map_or(0, |f| ss + f.offset);
        self.program.std_fields = StdMeta {
            ingress_port: at("ingress_port"),
            egress_spec: at("egress_spec"),
            egress_port: at("egress_port"),
            instance_type: at("instance_type"),
            packet_length: at("packet_length"),
            enq_timestamp: at("enq_timestamp"),
            enq_qdepth: at("enq_qdepth"),
            deq_timedelta: at("deq_timedelta"),
            deq_qdepth: at("deq_qdepth"),
            ingress_global_timestamp: at("ingress_global_timestamp"),
            egress_global_timestamp: at("egress_global_timestamp"),
            mcast_grp: at("mcast_grp"),
            egress_rid: at("egress_rid"),
            checksum_error: at("checksum_error"),
            parser_error: at("parser_error"),
            priority: at("priority"),
        };
        Ok(())
    }

    /// The types of the structs that the blocks share, when their parameters are as v1model has them.
    fn shared_types(
        &mut self,
        blocks: &[(Rc<BlockDecl>, Vec<TypedValue>)],
        shape: &[&[(usize, Dir)]; 6],
        roles: &[Phase; 6],
        std_ty: &Ty,
    ) -> Checked<[Option<Ty>; 4]> {
        let mut types: [Option<Ty>; 4] = [None, None, None, Some(std_ty.clone())];
        for (i, (b, _)) in blocks.iter().enumerate() {
            if b.is_parser != (i == 0) {
                let want = if i == 0 { "a parser" } else { "a control" };
                return self.err(b.name.span, format!("`{}` is used where {want} is needed", b.name.text));
            }
            if b.params.len() != shape[i].len() {
                let m = format!(
                    "`{}` needs {} parameters as {:?}, it has {}",
                    b.name.text,
                    shape[i].len(),
                    roles[i],
                    b.params.len()
                );
                return self.err(b.name.span, m);
            }
            for (q, (what, dir)) in b.params.iter().zip(shape[i]) {
                if q.dir != *dir {
                    let m = format!("parameter `{}` of `{}` has the wrong direction", q.name.text, b.name.text);
                    let word = match dir {
                        Dir::None => "no direction",
                        Dir::In => "`in`",
                        Dir::Out => "`out`",
                        Dir::InOut => "`inout`",
                    };
                    return self.err_help(q.name.span, m, format!("v1model wants {word} here"));
                }
                let ty = self.ty(&q.ty)?;
                if *what == 0 {
                    let want = if i == 0 { "packet_in" } else { "packet_out" };
                    if !matches!(&ty, Ty::Extern(e, _) if e.name == want) {
                        return self.err(q.ty.span, format!("this parameter must be {want}, not {ty}"));
                    }
                    continue;
                }
                match &types[*what] {
                    None => types[*what] = Some(ty),
                    Some(t) if *t == ty => {}
                    Some(t) => {
                        let m = format!(
                            "parameter `{}` of `{}` has type {ty}, other blocks have {t}",
                            q.name.text, b.name.text
                        );
                        return self.err(q.ty.span, m);
                    }
                }
            }
        }
        Ok(types)
    }

    fn field_lists(&mut self, t: &Ty, at: Slot, inherited: &[u64], out: &mut Vec<(u64, Vec<Slot>)>) -> Checked<()> {
        match t {
            Ty::Struct(s) if s.kind == StructKind::Struct => {
                for f in &s.fields {
                    let mut ids = inherited.to_vec();
                    for a in f.annos.iter().filter(|a| a.name.text == "field_list") {
                        ids.extend(self.field_list_indices(a)?);
                    }
                    self.field_lists(&f.ty, at + f.offset, &ids, out)?;
                }
            }
            _ => {
                for id in inherited {
                    let slots = at..at + t.slots();
                    match out.iter_mut().find(|(i, _)| i == id) {
                        Some((_, list)) => list.extend(slots),
                        None => out.push((*id, slots.collect())),
                    }
                }
            }
        }
        Ok(())
    }

    /// Indices of `@field_list(1, NAME, Enum.member)`: constant expressions.
    fn field_list_indices(&mut self, a: &Annotation) -> Checked<Vec<u64>> {
        let help = "write constants, e.g. `@field_list(1)` or `@field_list(NAME)`";
        let mut out = Vec::new();
        for part in a.expressions() {
            let span = part.first().map_or(a.name.span, |t| t.span);
            let e = crate::syntax::parser::parse_expr(part, span, self.diagnostics)?;
            match self.expr(&e, None)?.kind {
                ValueKind::Int(i) if i.to_u64().is_some() => out.extend(i.to_u64()),
                _ => return self.err_help(span, "an index in @field_list must be a constant number", help),
            }
        }
        if out.is_empty() {
            return self.err_help(a.name.span, "@field_list needs an index", help);
        }
        Ok(out)
    }
}
