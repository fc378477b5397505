// SPDX-License-Identifier: Apache-2.0
//! Right to write: one primary for each role, by election id (P4Runtime 5). Pure: streams are numbers here.
use crate::p4runtime::messages::error::{Res, denied, exhausted, invalid, not_found, precondition};
use crate::p4runtime::proto::google::rpc;
use crate::p4runtime::proto::p4::v1::{MasterArbitrationUpdate, Role as RoleMessage, Uint128};
use std::collections::BTreeMap;
use tonic::Code;

pub type StreamId = u64;

/// Roles that have ever been named; their highest election ids are kept for good.
const MAX_ROLES: usize = 64;
const MAX_NAME_BYTES: usize = 256;

struct Member {
    role: String,
    election: Option<u128>,
}

#[derive(Default)]
struct Role {
    /// The highest that a primary has had.
    highest: Option<u128>,
    primary: Option<StreamId>,
}

/// Streams that take part, by role.
pub struct Roles {
    device_id: u64,
    members: BTreeMap<StreamId, Member>,
    roles: BTreeMap<String, Role>,
}

pub type Notices = Vec<(StreamId, MasterArbitrationUpdate)>;

pub fn number(id: &Option<Uint128>) -> Option<u128> {
    id.as_ref().map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

fn message(id: u128) -> Uint128 {
    Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

fn title(role: &str) -> String {
    if role.is_empty() { "the default role".into() } else { format!("role `{role}`") }
}

impl Roles {
    pub fn new(device_id: u64) -> Roles {
        Roles { device_id, members: BTreeMap::new(), roles: BTreeMap::new() }
    }

    /// A stream says which role it wants, and how much (5.3). Returns the streams to notify; an error ends the stream.
    pub fn arbitrate(&mut self, stream: StreamId, m: &MasterArbitrationUpdate) -> Res<Notices> {
        let live = self.members.get(&stream);
        if m.device_id != self.device_id {
            let message = format!("device_id is {}, this switch is device {}", m.device_id, self.device_id);
            return Err(if live.is_some() { precondition(message) } else { not_found(message) });
        }
        let role = m.role.as_ref().map_or("", |r| r.name.as_str());
        if let Some(r) = &m.role {
            if r.config.is_some() {
                return Err(invalid("role.config: no scheme of role configurations is known; leave it unset"));
            }
            if r.id != 0 && r.name.is_empty() {
                return Err(invalid("role.id: roles go by name since P4Runtime 1.4; set role.name"));
            }
        }
        if role.len() > MAX_NAME_BYTES {
            return Err(invalid(format!("role.name has more than {MAX_NAME_BYTES} bytes")));
        }
        if let Some(old) = live.filter(|old| old.role != role) {
            let message = format!("this stream is for {}, not {}; open another", title(&old.role), title(role));
            return Err(precondition(message));
        }
        let election = number(&m.election_id);
        let taken =
            |(id, other): (&StreamId, &Member)| *id != stream && other.role == role && other.election == election;
        if let Some(e) = election.filter(|_| self.members.iter().any(taken)) {
            return Err(invalid(format!("election_id {e} is in use by another controller for {}", title(role))));
        }
        if !self.roles.contains_key(role) && self.roles.len() >= MAX_ROLES {
            return Err(exhausted(format!("role.name: {MAX_ROLES} roles are known already")));
        }
        self.members.insert(stream, Member { role: role.to_string(), election });
        let state = self.roles.entry(role.to_string()).or_default();
        let was_primary = state.primary == Some(stream);
        let wins = election.is_some() && election >= state.highest;
        if wins {
            state.highest = election;
            state.primary = Some(stream);
        } else if was_primary {
            state.primary = None;
        }
        let all = self.notices(role);
        Ok(if wins || was_primary { all } else { all.into_iter().filter(|(id, _)| *id == stream).collect() })
    }

    /// A stream has ended.
    pub fn leave(&mut self, stream: StreamId) -> Notices {
        let Some(member) = self.members.remove(&stream) else { return Vec::new() };
        match self.roles.get_mut(&member.role).filter(|r| r.primary == Some(stream)) {
            Some(state) => {
                state.primary = None;
                self.notices(&member.role)
            }
            None => Vec::new(),
        }
    }

    /// Notices to each stream of a role (5.4).
    fn notices(&self, name: &str) -> Notices {
        let Some(role) = self.roles.get(name) else { return Vec::new() };
        let status = |stream: StreamId| {
            let (code, message) = match role.primary {
                Some(p) if p == stream => (Code::Ok, "you are the primary"),
                Some(_) => (Code::AlreadyExists, "you are a backup; there is a primary"),
                None => (Code::NotFound, "you are a backup; there is no primary"),
            };
            rpc::Status { code: code as i32, message: message.into(), details: Vec::new() }
        };
        let update = |stream: StreamId| MasterArbitrationUpdate {
            device_id: self.device_id,
            role: (!name.is_empty()).then(|| RoleMessage { name: name.to_string(), ..Default::default() }),
            election_id: role.highest.map(message),
            status: Some(status(stream)),
        };
        self.members.iter().filter(|(_, m)| m.role == name).map(|(id, _)| (*id, update(*id))).collect()
    }

    /// Whether a request with this role and election id comes from the primary (11, 13).
    pub fn check(&self, role: &str, election: &Option<Uint128>) -> Res<()> {
        let Some(state) = self.roles.get(role) else {
            if role.is_empty() {
                return Err(denied("there is no primary; open a StreamChannel and send an arbitration update first"));
            }
            return Err(not_found(format!("role: no controller has ever asked for role `{role}`")));
        };
        let Some(primary) = state.primary.and_then(|id| self.members.get(&id)).and_then(|m| m.election) else {
            return Err(denied(format!("{} has no primary", title(role))));
        };
        match number(election) {
            Some(e) if e == primary => Ok(()),
            Some(e) => Err(denied(format!(
                "election_id {e} is not that of the primary of {}, which is {primary}",
                title(role)
            ))),
            None => Err(denied(format!("election_id is unset; the primary of {} has {primary}", title(role)))),
        }
    }

    /// Whether the stream is its role's primary; `None` before its first arbitration.
    pub fn is_primary(&self, stream: StreamId) -> Option<bool> {
        let member = self.members.get(&stream)?;
        Some(self.roles.get(&member.role).is_some_and(|r| r.primary == Some(stream)))
    }

    /// Each role's primary: every role has full access, so each hears of packets and digests.
    pub fn primaries(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.roles.values().filter_map(|r| r.primary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(role: &str, election: Option<u128>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 7,
            role: (!role.is_empty()).then(|| RoleMessage { name: role.into(), ..Default::default() }),
            election_id: election.map(message),
            status: None,
        }
    }

    /// Stream, status code, election id.
    fn told(n: &Notices) -> Vec<(StreamId, i32, Option<u128>)> {
        n.iter().map(|(id, m)| (*id, m.status.as_ref().unwrap().code, number(&m.election_id))).collect()
    }

    const OK: i32 = 0;
    const BACKUP: i32 = Code::AlreadyExists as i32;
    const NONE: i32 = Code::NotFound as i32;

    #[test]
    fn the_highest_election_id_is_primary_and_all_hear_of_a_change() {
        let mut r = Roles::new(7);
        assert_eq!(told(&r.arbitrate(1, &ask("", Some(5))).unwrap()), [(1, OK, Some(5))]);
        // A backup's coming concerns only itself.
        assert_eq!(told(&r.arbitrate(2, &ask("", Some(3))).unwrap()), [(2, BACKUP, Some(5))]);
        let high = 1u128 << 64;
        let now = told(&r.arbitrate(3, &ask("", Some(high))).unwrap());
        assert_eq!(now, [(1, BACKUP, Some(high)), (2, BACKUP, Some(high)), (3, OK, Some(high))]);
        assert_eq!(r.check("", &Some(message(5))).unwrap_err().code, Code::PermissionDenied);
        assert!(r.check("", &Some(message(high))).is_ok());
        // The primary leaves: nobody follows by itself, not even with the highest id of before.
        assert_eq!(told(&r.leave(3)), [(1, NONE, Some(high)), (2, NONE, Some(high))]);
        assert_eq!(told(&r.arbitrate(1, &ask("", Some(6))).unwrap()), [(1, NONE, Some(high))]);
        let now = told(&r.arbitrate(2, &ask("", Some(high))).unwrap());
        assert_eq!(now, [(1, BACKUP, Some(high)), (2, OK, Some(high))]);
    }

    #[test]
    fn a_primary_can_step_down() {
        let mut r = Roles::new(7);
        r.arbitrate(1, &ask("", Some(5))).unwrap();
        r.arbitrate(2, &ask("", None)).unwrap();
        assert_eq!(told(&r.arbitrate(1, &ask("", Some(4))).unwrap()), [(1, NONE, Some(5)), (2, NONE, Some(5))]);
        assert_eq!(r.check("", &Some(message(5))).unwrap_err().message, "the default role has no primary");
    }

    #[test]
    fn an_unset_id_never_wins_and_zero_can() {
        let mut r = Roles::new(7);
        assert_eq!(told(&r.arbitrate(1, &ask("", None)).unwrap()), [(1, NONE, None)]);
        assert_eq!(told(&r.arbitrate(2, &ask("", Some(0))).unwrap()), [(1, BACKUP, Some(0)), (2, OK, Some(0))]);
        assert!(r.check("", &None).unwrap_err().message.contains("election_id is unset"));
    }

    #[test]
    fn roles_are_apart() {
        let mut r = Roles::new(7);
        r.arbitrate(1, &ask("", Some(5))).unwrap();
        assert_eq!(told(&r.arbitrate(2, &ask("qos", Some(5))).unwrap()), [(2, OK, Some(5))]);
        assert!(r.check("qos", &Some(message(5))).is_ok());
        assert_eq!(r.check("acl", &Some(message(5))).unwrap_err().code, Code::NotFound);
        assert_eq!(r.primaries().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(r.is_primary(3), None);
    }

    #[test]
    fn what_is_refused() {
        let mut r = Roles::new(7);
        r.arbitrate(1, &ask("", Some(5))).unwrap();
        let code = |r: &mut Roles, id, m: &MasterArbitrationUpdate| r.arbitrate(id, m).unwrap_err().code;
        assert_eq!(code(&mut r, 2, &ask("", Some(5))), Code::InvalidArgument);
        assert_eq!(code(&mut r, 1, &ask("qos", Some(5))), Code::FailedPrecondition);
        let mut other = ask("", Some(6));
        other.device_id = 8;
        assert_eq!(code(&mut r, 1, &other), Code::FailedPrecondition);
        assert_eq!(code(&mut r, 2, &other), Code::NotFound);
        let mut config = ask("qos", Some(1));
        config.role.as_mut().unwrap().config = Some(prost_types::Any::default());
        assert_eq!(code(&mut r, 2, &config), Code::InvalidArgument);
        for i in 0..MAX_ROLES as u64 - 1 {
            r.arbitrate(10 + i, &ask(&format!("role{i}"), Some(1))).unwrap();
        }
        assert_eq!(code(&mut r, 2, &ask("one too many", Some(1))), Code::ResourceExhausted);
        // Its own election id may be sent again.
        assert!(r.arbitrate(1, &ask("", Some(5))).is_ok());
    }
}
