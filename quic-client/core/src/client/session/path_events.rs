// SPDX-License-Identifier: Apache-2.0
//! Changes of a session's paths, and the strategy's samples of them.

use super::Session;
use super::task::Chosen;
use crate::choice::PathId;
use crate::client::moves::Standstill;
use crate::client::plan::Means;
use crate::paths::{CidBudget, PathEvent, PathSpec, PathState, Standby, issue_cids};
use crate::report::events::Event;
use std::time::{Duration, Instant};

impl Session {
    /// Adds a path, to be validated when its turn comes.
    pub fn add_path(&mut self, spec: PathSpec, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let id = spec.id;
        let old = routes.id_of(&spec.name);
        routes.name(&spec);
        routes.paths.add(spec);
        routes.chooser.add(id, now);
        if let Some(old) = old {
            routes.chooser.renumbered(old, id);
        }
        // A path that was never validated is used only if its validation is to be part of the task.
        routes.chooser.set_usable(id, routes.standby == Standby::Cold, now);
        self.path_event(id, "added", None, now);
    }

    /// The address of a path was removed for good.
    pub fn remove_path(&mut self, path: PathId) {
        if let Some(routes) = &mut self.routes {
            routes.paths.remove(path);
        }
    }

    /// Whether the connection still knows a path that was removed.
    pub fn has_path(&self, path: PathId) -> bool {
        self.routes.as_ref().is_some_and(|r| r.paths.state(path) != PathState::Removed)
    }

    /// The interface of a path went up or down. Nothing happens if it already was.
    pub fn interface(&mut self, path: PathId, up: bool, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        if up {
            routes.down.remove(&path);
        } else {
            routes.down.insert(path);
            routes.silent.retain(|s| s.path != path);
        }
        if routes.paths.interface(path, up) {
            self.path_event(path, if up { "interface-up" } else { "interface-down" }, None, now);
        }
    }

    /// The connection did not come up on its first path.
    pub fn path_failed(&mut self, now: Instant) {
        if let Some(routes) = &self.routes {
            self.path_event(routes.paths.active(), "failed", None, now);
        }
    }

    pub(super) fn path_event(&mut self, path: PathId, event: &'static str, rtt: Option<Duration>, now: Instant) {
        if self.events.is_some() {
            let path = self.path_name(path);
            self.event(now, || Event::Path { path, event, rtt_us: rtt.map(|d| d.as_micros() as u64) });
        }
    }

    /// Handles changes of the paths, before the tasks.
    pub(super) fn poll_paths(&mut self, now: Instant, means: &mut Means<'_>) {
        let Some(routes) = &mut self.routes else {
            while self.conn.quic.retired_scid_next().is_some() {}
            issue_cids(&mut self.conn.quic, 1, &mut means.new_cid);
            return;
        };
        routes.paths.poll(&mut self.conn.quic, now, &mut means.new_cid);
        if !routes.first_rtt_told
            && let Some(rtt) = routes.paths.rtt(routes.paths.active())
        {
            routes.first_rtt_told = true;
            routes.chooser.probed(routes.paths.active(), rtt, now);
        }
        self.take_path_events(now);
        self.tell_budget(false, now);
        // The path failed while the task waited for it: choose another one.
        if let Some(chosen) = &self.chosen
            && chosen.waiting
            && let Some(routes) = &self.routes
            && !matches!(routes.paths.state(chosen.path), PathState::Probing | PathState::Waiting)
        {
            let again = self.choose_path(chosen.task, now, false);
            if let Some(chosen) = &mut self.chosen {
                let cold = true;
                *chosen = Chosen { start: chosen.start, cold, ..again };
            }
        }
    }

    /// After the tasks: sends the probes that the strategy asks for, and records whether an answer is due.
    pub(super) fn watch_paths(&mut self, now: Instant, means: &mut Means<'_>) {
        let due = self.is_busy(now) || self.is_ping_unanswered;
        let Some(routes) = &mut self.routes else { return };
        let lost = !self.running.is_empty() && routes.paths.state(routes.paths.active()) == PathState::Lost;
        routes.paths.expecting(due || lost, now);
        // A path just lost is challenged in this iteration.
        let mut asked = !routes.silent.is_empty();
        while let Some((at, path)) = routes.chooser.next_probe().filter(|(at, _)| *at <= now) {
            routes.chooser.probing(path, now);
            // The path in use is timed by its tasks.
            if path != routes.paths.active() {
                routes.paths.reprobe(path);
                asked = true;
            }
            debug_assert!(at <= now);
        }
        if asked {
            routes.paths.poll(&mut self.conn.quic, now, &mut means.new_cid);
        }
        self.take_path_events(now);
    }

    pub(super) fn take_path_events(&mut self, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let events: Vec<PathEvent> = routes.paths.events().collect();
        for event in events {
            let Some(routes) = &mut self.routes else { return };
            match event {
                PathEvent::Probing(path) => self.path_event(path, "probing", None, now),
                PathEvent::Validated { path, rtt } => {
                    self.heard_again(path, now);
                    let Some(routes) = &mut self.routes else { return };
                    routes.chooser.set_usable(path, true, now);
                    routes.chooser.probed(path, rtt, now);
                    self.path_event(path, "validated", Some(rtt), now);
                }
                PathEvent::Failed(path) => {
                    routes.silent.retain(|s| s.path != path);
                    // A cold path is tried again when the strategy wants it again.
                    match routes.standby {
                        Standby::Validated => routes.chooser.set_usable(path, false, now),
                        Standby::Cold => routes.chooser.failed(path, now),
                    }
                    self.path_event(path, "failed", None, now);
                }
                PathEvent::Lost(path) => {
                    if self.running.values().any(|t| t.chosen.on() == path) {
                        routes.chooser.failed(path, now);
                        routes.fell_silent(path);
                    }
                    routes.chooser.set_usable(path, false, now);
                    self.path_event(path, "lost", None, now);
                }
                PathEvent::Recovered(path) => {
                    self.heard_again(path, now);
                    let Some(routes) = &mut self.routes else { return };
                    routes.chooser.set_usable(path, true, now);
                    self.path_event(path, "recovered", None, now);
                }
                PathEvent::Switched { from, to, .. } => {
                    self.tally.switches += 1;
                    if let Some(tally) = routes.tally_of(to) {
                        tally.switches += 1;
                    }
                    let ours = routes.by_steer.take() == Some(to);
                    routes.steer.moved(from, to, now);
                    for task in self.running.values_mut() {
                        let chosen = &mut task.chosen;
                        chosen.steered = ours && (chosen.steered || chosen.moved_to.is_none());
                        chosen.moved_to = (!ours || to != chosen.path).then_some(to);
                        // Our own stack sends an upload again, and the client can't know how much of it the server has.
                        let repeats = task.request.exchange.can_restart();
                        task.standstill = repeats.then(|| Standstill::new(now));
                    }
                    if let Some(chosen) = &mut self.chosen
                        && chosen.path == to
                    {
                        chosen.waiting = false;
                    }
                    self.path_event(to, "switched", None, now);
                }
                PathEvent::Removed(path) => {
                    routes.chooser.remove(path);
                    self.path_event(path, "removed", None, now);
                }
                PathEvent::Elsewhere { active, on } => {
                    routes.stay.hold(now);
                    let (path, on) = (self.path_name(active), self.path_name(on));
                    self.event(now, || Event::Elsewhere { path, on });
                }
            }
        }
    }

    pub(super) fn heard_again(&mut self, path: PathId, now: Instant) {
        if self.routes.as_mut().is_some_and(|r| r.answers(path, now)) {
            for task in self.running.values_mut().filter(|t| t.chosen.path == path) {
                task.chosen.was_late = true;
            }
        }
    }

    /// Reports the number of connection IDs once: when there are enough, when there can't be enough, or at the end.
    pub(super) fn tell_budget(&mut self, end: bool, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        if self.conn.established.is_none() || routes.budget_told && !end {
            return;
        }
        let budget = routes.paths.budget(&self.conn.quic);
        self.cid_budget = Some(budget);
        if routes.budget_told || (budget.usable < budget.wanted && budget.migration_allowed && !end) {
            return;
        }
        routes.budget_told = true;
        let CidBudget { wanted, peer_limit, own_limit, usable, migration_allowed, .. } = budget;
        self.event(now, || Event::Cid { wanted, peer_limit, own_limit, usable, migration_allowed });
    }
}
