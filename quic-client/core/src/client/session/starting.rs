// SPDX-License-Identifier: Apache-2.0
//! Tasks that fall due: when one may start, which path it takes, and its request.

use super::Session;
use super::task::{Chosen, Running};
use crate::choice::PathId;
use crate::client::request::{Action, Request};
use crate::paths::{PathError, Standby, Switch};
use crate::report::events::Event;
use crate::request::with_flow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

impl Session {
    /// When the next task may start; `None` if there is none, or if it waits for something else than its time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let room = self.chosen.is_none() && self.running.len() < self.plan.parallel && !self.going_away;
        if !room || self.next_task == self.plan.tasks || self.outcome.is_some() {
            return None;
        }
        let nanos = u64::try_from(self.plan.interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.next_task);
        self.base?.checked_add(Duration::from_nanos(nanos))
    }

    pub(super) fn start_tasks(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        loop {
            if self.chosen.is_none() {
                let Some(due) = self.next_due() else { break };
                if due > now || !self.may_start(now) {
                    break;
                }
                self.choose(now);
            }
            let Some(chosen) = self.chosen.as_ref().filter(|c| !c.waiting) else { break };
            let task = chosen.task;
            let Some((stream, request)) = self.send_request(h3.as_deref_mut())? else { break };
            if let Some(chosen) = self.chosen.take() {
                debug_assert_eq!(chosen.task, task);
                if let Some(routes) = self.routes.as_mut().filter(|_| self.running.is_empty()) {
                    // Bytes that came before are HTTP/3's settings, not an answer.
                    routes.goodput.clear();
                }
                let running = Running { chosen, request, standstill: None, answered: Vec::new(), progress: now };
                self.running.insert(stream, running);
                self.progress = now;
                if let Some(routes) = &mut self.routes {
                    routes.steer.begin(now);
                }
            }
        }
        self.looked = Some(now);
        Ok(())
    }

    /// Whether the first task may choose its path. A large one waits for a short time, until no path that is still
    /// being validated can turn out to be nearer than the validated ones.
    pub(super) fn may_start(&mut self, now: Instant) -> bool {
        /// A task of so few bytes starts at once.
        const SMALL_BYTES: u64 = 64_000;
        const WAIT_MAX: Duration = Duration::from_secs(1);
        let small = self.plan.task_bytes().is_some_and(|n| n <= SMALL_BYTES);
        let Some(routes) = self.routes.as_mut().filter(|r| r.steered && self.next_task == 0) else { return true };
        // A round trip until the handshake is confirmed, and one for the challenges; twice that if one is late.
        let rtt = routes.paths.rtt(routes.paths.active()).unwrap_or(WAIT_MAX);
        let wait = (rtt * 4).min(WAIT_MAX);
        let by = *routes.start_by.get_or_insert(now + wait);
        let waits = !small && now < by && routes.paths.undecided(&self.conn.quic, now);
        routes.paths.hurry(waits);
        !waits
    }

    /// Chooses a path for the next task, and moves there.
    pub(super) fn choose(&mut self, now: Instant) {
        let task = self.next_task;
        self.next_task += 1;
        let beside = !self.running.is_empty();
        self.chosen = Some(self.choose_path(task, now, beside));
    }

    pub(super) fn choose_path(&mut self, task: u64, start: Instant, beside: bool) -> Chosen {
        let here = self.routes.as_ref().map_or(PathId(0), |r| r.paths.active());
        let mut chosen = Chosen {
            task,
            path: here,
            start,
            switched: false,
            cold: false,
            waiting: false,
            moved_to: None,
            was_late: false,
            steered: false,
        };
        let bytes = self.plan.task_bytes();
        let Some(routes) = self.routes.as_mut().filter(|_| !beside) else { return chosen };
        if routes.stay.holds(start) {
            let (path, reason) = (routes.name_of(here), "server-stays");
            self.event(start, || Event::Choice { task, path, reason, index: BTreeMap::new() });
            return chosen;
        }
        let Some(choice) = routes.chooser.choose(task, bytes, start, Some(here)) else { return chosen };
        let mut reason = choice.reason;
        match routes.paths.switch(&mut self.conn.quic, choice.path, start) {
            Ok(Switch::Already) => {}
            Ok(Switch::Done) => (chosen.path, chosen.switched) = (choice.path, true),
            Ok(Switch::Probing) => {
                chosen = Chosen { path: choice.path, switched: true, cold: true, waiting: true, ..chosen };
            }
            Err(error) => {
                // The task stays where the connection is.
                reason = match error {
                    PathError::TooEarly => "handshake-unconfirmed",
                    PathError::Forbidden => "migration-forbidden",
                    PathError::NoConnectionId(_) => "no-connection-id",
                    PathError::Down(_) | PathError::Unknown(_) => "path-down",
                    PathError::Refused(..) => "path-refused",
                };
                match error {
                    // This is over in a moment.
                    PathError::TooEarly => {}
                    PathError::Refused(..) => routes.chooser.failed(choice.path, start),
                    // The server may be replacing its IDs; a cold path is tried again when it is chosen again.
                    PathError::NoConnectionId(_) if routes.standby == Standby::Cold => {
                        routes.chooser.failed(choice.path, start);
                    }
                    _ => routes.chooser.set_usable(choice.path, false, start),
                }
            }
        }
        if self.events.is_some() {
            let index = choice.index_ms.iter().map(|(p, v)| (routes.name_of(*p), *v)).collect();
            let path = routes.name_of(chosen.path);
            self.event(start, || Event::Choice { task, path, reason, index });
        }
        self.take_path_events(start);
        chosen
    }

    /// Puts a request on a new stream; `None`: the stream limit is reached.
    pub(super) fn send_request(
        &mut self,
        h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<Option<(u64, Request)>, quiche::h3::Error> {
        use quiche::h3::{Error, Header};
        if self.conn.quic.peer_streams_left_bidi() == 0 {
            return Ok(None);
        }
        let plan = &self.plan;
        let path = if plan.tell_flow { with_flow(&plan.path, plan.flow) } else { plan.path.clone() };
        let method = plan.action.method().as_str();
        let Some(h3) = h3 else {
            let stream = self.next_hq_stream;
            self.next_hq_stream += 4;
            let mut request =
                Request::new(plan.action, &plan.path, format!("{method} {path}\r\n").into_bytes(), plan.max_bytes);
            // The rest is sent by `write_uploads`.
            request.send_line(&mut self.conn, stream)?;
            return Ok(Some((stream, request)));
        };
        let mut headers = vec![
            Header::new(b":method", method.as_bytes()),
            Header::new(b":scheme", b"https"),
            Header::new(b":authority", plan.authority.as_bytes()),
            Header::new(b":path", path.as_bytes()),
            Header::new(b"user-agent", b"weir"),
        ];
        if let Action::Upload(Some(n)) = plan.action {
            headers.push(Header::new(b"content-length", n.to_string().as_bytes()));
        }
        match h3.send_request(&mut self.conn.quic, &headers, plan.action == Action::Download) {
            Ok(stream) => Ok(Some((stream, Request::new(plan.action, &plan.path, Vec::new(), plan.max_bytes)))),
            // The server's limits allow none yet.
            Err(Error::StreamBlocked | Error::TransportError(quiche::Error::StreamLimit)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
