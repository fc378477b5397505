// SPDX-License-Identifier: Apache-2.0
//! Value sets of parsers (9.7).
use super::{Writer, only_modify};
use crate::p4runtime::messages::error::{At, Fail, Res, exhausted};
use crate::p4runtime::messages::{ids, matches};
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use tonic::Code;
use weir_p4::p4info::Preambled;

impl Writer<'_> {
    pub(super) fn value_set(&mut self, kind: Type, e: &pb::ValueSetEntry) -> Res<()> {
        only_modify(kind, "a value set")?;
        let config = self.config;
        let (_, v) = ids::object(&config.program.info.value_sets, e.value_set_id, "value_set")?;
        let ir = &config.program.value_sets[v.ir_index];
        if e.members.len() > ir.size {
            let m = format!("{} members are above the size of {}, {}", e.members.len(), v.name(), ir.size);
            return Err(exhausted(m).under("members"));
        }
        let mut members = Vec::new();
        for (k, m) in e.members.iter().enumerate() {
            let place = || format!("members[{k}]");
            let shapes = matches::set_shapes(&config.program, v);
            let keys = matches::keys(shapes, &m.r#match, &format!("value set {}", v.name())).at(place)?;
            let member = matches::set_member(&keys, &ir.widths).at(place)?;
            if members.contains(&member) {
                return Err(Fail::new(Code::AlreadyExists, "the same member is there before").under(place()));
            }
            members.push(member);
        }
        let i = v.ir_index;
        let old = std::mem::replace(&mut self.state.value_sets[i], members);
        let noted = std::mem::replace(&mut self.controller.value_sets[i], e.members.clone());
        self.on_undo(move |w| {
            w.state.value_sets[i] = old;
            w.controller.value_sets[i] = noted;
            Ok(())
        });
        Ok(())
    }
}
