// SPDX-License-Identifier: Apache-2.0
//! Moves of the connection from one path to another (RFC 9000 9), and paths that are left for good.

use super::Paths;
use super::event::{PathError, PathEvent, Switch};
use super::path::{Entry, PathState, Standby};
use super::probe::back_off;
use crate::choice::PathId;
use std::time::Instant;

impl Paths {
    /// Moves the connection to a path, if need be after validating it. Packets sent afterwards leave there.
    pub fn switch(&mut self, quic: &mut quiche::Connection, path: PathId, now: Instant) -> Result<Switch, PathError> {
        let e = self.entry(path).filter(|e| !e.leaving).ok_or(PathError::Unknown(path))?;
        if path == self.active {
            self.pending = None;
            return Ok(Switch::Already);
        }
        if !e.up {
            return Err(PathError::Down(e.spec.name.clone()));
        }
        if quic.peer_transport_params().is_some_and(|p| p.disable_active_migration) {
            return Err(PathError::Forbidden);
        }
        if self.confirmed.is_none() {
            return Err(PathError::TooEarly);
        }
        if e.state == PathState::Validated {
            self.migrate(quic, path, true, now)?;
            self.set_deadline(quic);
            return Ok(Switch::Done);
        }
        if e.probe.is_none() {
            self.begin_probe(quic, path, now)?;
        }
        self.pending = Some(path);
        self.set_deadline(quic);
        Ok(Switch::Probing)
    }

    pub(super) fn migrate(
        &mut self,
        quic: &mut quiche::Connection,
        to: PathId,
        validated: bool,
        now: Instant,
    ) -> Result<(), PathError> {
        let Some(e) = self.entry_mut(to) else { return Err(PathError::Unknown(to)) };
        match quic.migrate(e.spec.local, e.spec.peer) {
            Ok(cid) => e.cid = Some(cid),
            Err(quiche::Error::OutOfIdentifiers) => {
                e.starved = true;
                // The server may be replacing its IDs (RFC 9000 5.1.2): try again when packets come in.
                e.due = Some(now);
                return Err(PathError::NoConnectionId(e.spec.name.clone()));
            }
            Err(error) => return Err(PathError::Refused(e.spec.name.clone(), error)),
        }
        self.arrived(to, validated, now);
        Ok(())
    }

    pub(super) fn arrived(&mut self, to: PathId, validated: bool, now: Instant) {
        let from = std::mem::replace(&mut self.active, to);
        self.left = Some(from);
        self.pending = None;
        self.stuck = None;
        self.watch.heard(now);
        self.arrivals.anew(now);
        if let Some(e) = self.entry_mut(to) {
            e.probe = None;
            e.due = None;
            e.recv_then = e.recv;
        }
        let cold = self.standby == Standby::Cold;
        if let Some(e) = self.entry_mut(from) {
            e.due = (e.state == PathState::Lost).then(|| now + back_off(0));
            if cold && e.state == PathState::Validated {
                e.state = PathState::Waiting;
            }
        }
        self.events.push_back(PathEvent::Switched { from, to, validated });
    }

    pub(super) fn drop_leaving(&mut self, quic: &mut quiche::Connection) {
        let active = self.active;
        let gone = |e: &Entry| e.leaving && e.spec.id != active;
        for e in self.entries.iter().filter(|e| gone(e)) {
            // If quiche never knew the path, there is nothing to give up.
            quiche::hooks::give_up(quic, e.spec.local, e.spec.peer);
            self.events.push_back(PathEvent::Removed(e.spec.id));
            if self.pending == Some(e.spec.id) {
                self.pending = None;
            }
        }
        self.entries.retain(|e| !gone(e));
    }
}
