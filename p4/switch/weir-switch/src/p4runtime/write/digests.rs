// SPDX-License-Identifier: Apache-2.0
//! Delivery of digests (9.11).
use super::Writer;
use crate::p4runtime::messages::error::{Fail, Res, invalid, not_found};
use crate::p4runtime::messages::ids;
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use crate::p4runtime::stream::digests::Settings;
use tonic::Code;
use weir_p4::p4info::Preambled;

impl Writer<'_> {
    pub(super) fn digest(&mut self, kind: Type, e: &pb::DigestEntry) -> Res<()> {
        let list = &self.config.program.info.digests;
        let (i, d) = ids::object(list, e.digest_id, "digest")?;
        let old = self.controller.digests.get(&i).copied();
        let name = d.name();
        match (kind, old) {
            (Type::Insert, Some(_)) => {
                return Err(Fail::new(Code::AlreadyExists, format!("digest {name} is enabled already")));
            }
            (Type::Modify | Type::Delete, None) => return Err(not_found(format!("digest {name} is not enabled"))),
            (Type::Delete, _) => {
                self.controller.digests.remove(&i);
            }
            _ => {
                let c = e.config.unwrap_or_default();
                let positive = |field: &str, v: i64| {
                    u64::try_from(v).map_err(|_| invalid(format!("{v} is negative")).under(format!("config.{field}")))
                };
                let settings = Settings {
                    max_timeout_ns: positive("max_timeout_ns", c.max_timeout_ns)?,
                    max_list_size: positive("max_list_size", i64::from(c.max_list_size))? as usize,
                    ack_timeout_ns: positive("ack_timeout_ns", c.ack_timeout_ns)?,
                };
                self.controller.digests.insert(i, settings);
            }
        }
        self.on_undo(move |w| {
            match old {
                Some(s) => w.controller.digests.insert(i, s),
                None => w.controller.digests.remove(&i),
            };
            Ok(())
        });
        Ok(())
    }
}
