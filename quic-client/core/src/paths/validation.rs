// SPDX-License-Identifier: Apache-2.0
//! Validation of paths (RFC 9000 8.2): when a path is validated, and the effects of success or failure.

use super::Paths;
use super::event::{PathError, PathEvent};
use super::path::{Entry, PathState, Standby};
use super::probe::{Probe, Step, back_off};
use crate::choice::PathId;
use std::time::{Duration, Instant};

/// A standby path that was silent for this long is validated again: NATs forget a silent UDP flow after 30 s or more
/// (RFC 4787 4.3 requires two minutes), and an old answer says little about now.
const STALE_AFTER: Duration = Duration::from_secs(25);

impl Paths {
    /// Whether a path may still turn out to be nearer than the validated ones: its first validation has not begun, or
    /// has not lasted longer than the least round-trip time.
    pub fn undecided(&self, quic: &quiche::Connection, now: Instant) -> bool {
        if quic.peer_transport_params().is_some_and(|p| p.disable_active_migration) {
            return false;
        }
        self.entries.iter().filter(|e| e.spec.id != self.active && e.up && !e.leaving).any(|e| match &e.probe {
            Some(probe) => e.state == PathState::Probing && self.may_be_nearest(probe).is_none_or(|until| now < until),
            None => e.state == PathState::Waiting && !e.starved,
        })
    }

    /// The latest time at which an answer would show that this path is the nearest.
    pub(super) fn may_be_nearest(&self, probe: &Probe) -> Option<Instant> {
        self.entries.iter().filter_map(|e| e.rtt).min().map(|least| probe.answer_by(least))
    }

    pub(super) fn take_events(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let mut answered: Vec<PathId> = Vec::new();
        let mut failed: Vec<PathId> = Vec::new();
        while let Some(event) = quic.path_event_next() {
            let find = |local, peer| self.entries.iter().find(|e| (e.spec.local, e.spec.peer) == (local, peer));
            match event {
                quiche::PathEvent::Validated(local, peer) => answered.extend(find(local, peer).map(|e| e.spec.id)),
                quiche::PathEvent::FailedValidation(local, peer) => failed.extend(find(local, peer).map(|e| e.spec.id)),
                // The rest is a server's.
                _ => {}
            }
        }
        let homeless = self.entry(self.active).is_none_or(|e| !e.usable());
        let silent = self.entries.iter().filter(|e| e.probe.as_ref().is_some_and(|p| p.is_answered(now, homeless)));
        answered.extend(silent.map(|e| e.spec.id));
        answered.sort();
        answered.dedup();
        for path in answered {
            self.answered(quic, path, now);
        }
        for path in failed {
            self.failed(path, now);
        }
        // quiche moves by itself when it holds the active path for failed.
        let moved = quic.path_stats().find(|p| p.active).filter(|p| self.entry(self.active).is_some_and(|e| !e.is(p)));
        if let Some(stats) = moved
            && let Some(to) = self.entries.iter().find(|e| e.is(&stats)).map(|e| e.spec.id)
        {
            self.lose_active();
            self.arrived(to, true, now);
        }
    }

    pub(super) fn answered(&mut self, quic: &mut quiche::Connection, path: PathId, now: Instant) {
        let Some(e) = self.entry_mut(path) else { return };
        let Some(probe) = e.probe.take() else {
            if e.state != PathState::Validated {
                // The answer came after we had given up: validate again, to measure its time.
                e.due = Some(now);
            }
            return;
        };
        let rtt = probe.rtt(now);
        e.rtt = Some(rtt);
        e.unanswered = None;
        e.failures = 0;
        e.due = None;
        e.starved = false;
        let was = std::mem::replace(&mut e.state, PathState::Validated);
        self.events.push_back(PathEvent::Validated { path, rtt });
        if was == PathState::Lost {
            self.events.push_back(PathEvent::Recovered(path));
        }
        let homeless = self.entry(self.active).is_none_or(|e| !e.usable());
        if self.pending == Some(path) || homeless {
            self.pending = None;
            // It was validated a moment ago. quiche can only refuse because its connection ID was retired meanwhile;
            // then it stays a standby path that a later switch can try.
            let _ = self.migrate(quic, path, false, now);
            if homeless {
                self.wake(quic);
            }
        } else if self.standby == Standby::Cold && self.active != path {
            self.set_state(path, PathState::Waiting);
        }
    }

    pub(super) fn failed(&mut self, path: PathId, now: Instant) {
        if path == self.active {
            return;
        }
        let Some(e) = self.entry_mut(path) else { return };
        let Some(probe) = e.probe.take() else { return };
        e.unanswered = Some(probe);
        e.due = Some(now + back_off(e.failures));
        e.failures = e.failures.saturating_add(1);
        if e.state != PathState::Lost {
            e.state = PathState::Failed;
        }
        self.events.push_back(PathEvent::Failed(path));
        if self.pending == Some(path) {
            self.pending = None;
        }
    }

    pub(super) fn time_probes(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let mut given_up = Vec::new();
        for e in &mut self.entries {
            let Some(probe) = &mut e.probe else { continue };
            match probe.step(now) {
                Step::Wait => {}
                Step::Again => {
                    // quiche accepted it before. If its connection ID was retired meanwhile, the deadline will end the
                    // validation.
                    let _ = quic.probe_path(e.spec.local, e.spec.peer);
                }
                Step::GiveUp => given_up.push(e.spec.id),
            }
        }
        for path in given_up {
            self.failed(path, now);
        }
    }

    /// When a path is to be validated next without being asked for; `None`: not.
    pub(super) fn due(&self, e: &Entry) -> Option<Instant> {
        if e.spec.id == self.active || e.probe.is_some() || !e.up || e.leaving {
            return None;
        }
        let homeless = self.entry(self.active).is_none_or(|a| !a.usable());
        // Packets that are still under way from when it was in use must not be taken for an answer.
        let quiet = e.heard.filter(|_| e.state == PathState::Validated).map(|t| t + e.rtt.unwrap_or_default() * 2);
        match (self.standby, e.state) {
            _ if e.due.is_some() => e.due.max(quiet),
            (Standby::Cold, _) if !homeless => None,
            (_, PathState::Waiting) => self.confirmed,
            (_, PathState::Validated) => e.heard.map(|t| t + STALE_AFTER),
            (_, PathState::Failed | PathState::Lost) => self.turn,
            (_, PathState::Probing | PathState::Removed) => None,
        }
    }

    pub(super) fn may_probe(&self, quic: &quiche::Connection) -> bool {
        let forbidden = quic.peer_transport_params().is_some_and(|p| p.disable_active_migration);
        self.entries.len() > 1 && self.confirmed.is_some() && !forbidden
    }

    pub(super) fn begin_probes(&mut self, quic: &mut quiche::Connection, now: Instant) {
        if !self.may_probe(quic) {
            return;
        }
        if !self.hurry && self.entries.iter().any(|e| e.probe.as_ref().is_some_and(|p| now < p.late_at())) {
            return;
        }
        let mut due: Vec<(Instant, PathId)> =
            self.entries.iter().filter_map(|e| Some((self.due(e)?, e.spec.id))).filter(|(t, _)| *t <= now).collect();
        due.sort();
        for (_, path) in due {
            if self.begin_probe(quic, path, now).is_ok() && !self.hurry {
                break;
            }
        }
    }

    pub(super) fn begin_probe(
        &mut self,
        quic: &mut quiche::Connection,
        path: PathId,
        now: Instant,
    ) -> Result<(), PathError> {
        let Some(e) = self.entry_mut(path) else { return Err(PathError::Unknown(path)) };
        let timeouts = quic.path_stats().find(|p| e.is(p)).map_or(0, |p| p.total_pto_count);
        match quic.probe_path(e.spec.local, e.spec.peer) {
            Ok(cid) => e.cid = Some(cid),
            // `InvalidState`: quiche knows the path, but the peer retired its connection ID.
            Err(quiche::Error::OutOfIdentifiers | quiche::Error::InvalidState) => {
                e.starved = true;
                return Err(PathError::NoConnectionId(e.spec.name.clone()));
            }
            Err(error) => return Err(PathError::Refused(e.spec.name.clone(), error)),
        }
        let validated = quic.is_path_validated(e.spec.local, e.spec.peer) == Ok(true);
        e.probe =
            Some(Probe::new(now, e.rtt, timeouts, validated || e.rtt.is_some()).after(e.unanswered.take().as_ref()));
        e.starved = false;
        e.due = None;
        if matches!(e.state, PathState::Waiting | PathState::Failed) {
            e.state = PathState::Probing;
        }
        self.events.push_back(PathEvent::Probing(path));
        Ok(())
    }
}
