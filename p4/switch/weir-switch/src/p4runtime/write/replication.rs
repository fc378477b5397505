// SPDX-License-Identifier: Apache-2.0
//! Multicast groups and clone sessions (9.6).
use super::Writer;
use crate::p4runtime::messages::error::{At, Fail, Res, invalid, not_found, unimplemented};
use crate::p4runtime::messages::replicas;
use crate::p4runtime::proto::p4::v1::{self as pb, update::Type};
use tonic::Code;
use weir_p4::exec::Mirror;

/// Multicast groups of clone sessions: a packet's multicast group has 16 bits, so none is taken from it.
pub const CLONE_GROUP: u32 = 0x8000_0000;

fn presence(kind: Type, there: bool, what: &str, id: u32) -> Res<()> {
    match (kind, there) {
        (Type::Insert, true) => Err(Fail::new(Code::AlreadyExists, format!("{what} {id} is there already"))),
        (Type::Modify | Type::Delete, false) => Err(not_found(format!("there is no {what} {id}"))),
        _ => Ok(()),
    }
}

impl Writer<'_> {
    pub(super) fn replication(&mut self, kind: Type, e: &pb::PacketReplicationEngineEntry) -> Res<()> {
        use pb::packet_replication_engine_entry::Type as T;
        match &e.r#type {
            Some(T::MulticastGroupEntry(g)) => self.multicast(kind, g).at(|| "multicast_group_entry"),
            Some(T::CloneSessionEntry(c)) => self.clone_session(kind, c).at(|| "clone_session_entry"),
            None => Err(invalid("is unset").under("type")),
        }
    }

    fn multicast(&mut self, kind: Type, e: &pb::MulticastGroupEntry) -> Res<()> {
        let id = e.multicast_group_id;
        if id == 0 || id > 0xffff {
            return Err(invalid(format!("{id} is not between 1 and 65535")).under("multicast_group_id"));
        }
        let old = self.controller.multicast.get(&id).cloned();
        presence(kind, old.is_some(), "multicast group", id).at(|| "multicast_group_id")?;
        let new = (kind != Type::Delete).then(|| e.clone());
        self.put_multicast(id, new)?;
        self.on_undo(move |w| w.put_multicast(id, old));
        Ok(())
    }

    fn put_multicast(&mut self, id: u32, group: Option<pb::MulticastGroupEntry>) -> Res<()> {
        match group {
            Some(g) => {
                let replicas = replicas::replicas(&g.replicas)?;
                self.controller.nodes.replace(id, Some(&replicas));
                self.state.groups.insert(id, replicas);
                self.controller.multicast.insert(id, g);
            }
            None => {
                self.controller.nodes.replace(id, None);
                self.state.groups.remove(&id);
                self.controller.multicast.remove(&id);
            }
        }
        Ok(())
    }

    fn clone_session(&mut self, kind: Type, e: &pb::CloneSessionEntry) -> Res<()> {
        let id = e.session_id;
        if id == 0 || id >= CLONE_GROUP {
            return Err(invalid(format!("{id} is not between 1 and {}", CLONE_GROUP - 1)).under("session_id"));
        }
        let old = self.controller.clones.get(&id).cloned();
        presence(kind, old.is_some(), "clone session", id).at(|| "session_id")?;
        if kind != Type::Delete {
            if e.class_of_service != 0 {
                return Err(unimplemented("clones have no class of service here").under("class_of_service"));
            }
            if e.packet_length_bytes < 0 {
                let m = format!("{} is negative", e.packet_length_bytes);
                return Err(invalid(m).under("packet_length_bytes"));
            }
        }
        let new = (kind != Type::Delete).then(|| e.clone());
        self.put_clone(id, new)?;
        self.on_undo(move |w| w.put_clone(id, old));
        Ok(())
    }

    fn put_clone(&mut self, id: u32, session: Option<pb::CloneSessionEntry>) -> Res<()> {
        let group = CLONE_GROUP | id;
        match session {
            Some(s) => {
                self.state.groups.insert(group, replicas::replicas(&s.replicas)?);
                let truncate_bytes = usize::try_from(s.packet_length_bytes).ok().filter(|n| *n > 0);
                self.state.mirrors.insert(id, Mirror { port: None, group: Some(group), truncate_bytes });
                self.controller.clones.insert(id, s);
            }
            None => {
                self.state.mirrors.remove(&id);
                self.state.groups.remove(&group);
                self.controller.clones.remove(&id);
            }
        }
        Ok(())
    }
}
